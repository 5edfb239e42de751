"""Curves at many points at once are the curves at each."""

import numpy as np
import pytest

from dpmodels.privacy.curves import deltas_gdp
from dpmodels.privacy.gdp import delta_gdp
from dpmodels.privacy.mechanisms import _ON_ARRAYS, Profile, register_curve

EPS = np.concatenate([np.linspace(-6.0, 6.0, 97), np.geomspace(1e-8, 80.0, 40), [0.0]])


@pytest.mark.parametrize("mu", [0.0, 1e-4, 0.03, 0.7, 5.0, np.inf])
def test_gaussian_curve(mu):
    one_by_one = np.array([delta_gdp(e, mu) for e in EPS.tolist()])
    # the logarithms of two terms are known to 4e-16 of their size, and subtracted at 0.02 or more
    logs = np.abs(np.log(np.maximum(one_by_one, 1e-300)))
    near = 1e-13 + 2 * 4e-16 / 0.02 * logs
    assert (np.abs(deltas_gdp(EPS, mu) - one_by_one) <= near * one_by_one).all()


@pytest.mark.parametrize("name", sorted(_ON_ARRAYS))
def test_named_curves(name):
    """Both ends of the table of losses, and both orders of the pair."""
    second = "shift" if "two-sided" in name else "kappa"
    for rho, other in ((0.02, 0.1), (0.8, 0.5), (2.5, 0.01)):
        m = Profile(name, (("rho", rho), (second, other)))
        one_by_one = np.array([m.delta_at(e) for e in EPS.tolist()])
        assert np.allclose(m.deltas_at(EPS), one_by_one, rtol=1e-11, atol=1e-18)


def test_a_curve_that_is_not_known_for_arrays():
    register_curve("half of a failure", lambda eps: 0.5)
    m = Profile("half of a failure", ())
    assert m.deltas_at(np.array([0.0, 3.0])).tolist() == [0.5, 0.5]
    given = Profile("objective perturbation, replace", (), lambda eps: 0.25)
    assert given.deltas_at(np.array([1.0])).tolist() == [0.25]
