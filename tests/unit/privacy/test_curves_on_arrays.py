"""Curves at many points at once are the curves at each."""

import numpy as np
import pytest

from dpmodels.privacy.composition import deltas_gdp, gdp_bounds
from dpmodels.privacy.mechanisms import _ON_ARRAYS, Profile, delta_gdp, log_mills, register_curve

EPS = np.concatenate([np.linspace(-6.0, 6.0, 97), np.geomspace(1e-8, 80.0, 40), [0.0]])


@pytest.mark.parametrize("mu", [0.0, 1e-4, 0.03, 0.7, 5.0, np.inf])
def test_gaussian_curve(mu):
    one_by_one = np.array([delta_gdp(e, mu) for e in EPS.tolist()])
    # the logarithms of two terms are known to 4e-16 of their size, and subtracted at 0.02 or more
    logs = np.abs(np.log(np.maximum(one_by_one, 1e-300)))
    near = 1e-13 + 2 * 4e-16 / 0.02 * logs
    assert (np.abs(deltas_gdp(EPS, mu) - one_by_one) <= near * one_by_one).all()


@pytest.mark.parametrize("mu", [0.0, 1e-4, 0.03, 0.5, 5.0, np.inf])
def test_bounds_of_the_curve_lie_above_it_and_near_it(mu):
    eps = np.concatenate([EPS, mu * np.linspace(0.5, 30, 200)]) if 0 < mu < 9 else EPS
    bound, curve = gdp_bounds(eps, mu), deltas_gdp(eps, mu)
    assert (bound >= curve).all()
    far = eps / mu - mu / 2 > 8 if 0 < mu < 9 else np.zeros(len(eps), dtype=bool)
    if mu <= 0.03 and far.any():
        assert (bound[far] <= 1.5 * curve[far]).all()


@pytest.mark.parametrize("mu", [1e-6, 0.03, 0.4, 5.0, 20.0])
def test_near_terms_against_many_digits(mu):
    """Where the terms agree within 2 %: x is near 0 for a small mu, else beyond 49 mu."""
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 60
    x = np.concatenate([[-mu / 2], np.geomspace(1e-3, 60.0, 30)]) if mu < 0.02 else np.empty(0)
    x = np.concatenate([x, mu * np.geomspace(49.0, 500.0, 20)])
    eps = mu * (x + mu / 2)
    eps = eps[x < 1400.0]
    exact = []
    for e in eps.tolist():
        a, b = mp.mpf(e) / mu - mp.mpf(mu) / 2, mp.mpf(e) / mu + mp.mpf(mu) / 2
        exact.append(float(mp.log(mp.ncdf(-a) - mp.exp(mp.mpf(e)) * mp.ncdf(-b))))
    assert len(exact) > 2
    assert np.allclose(log_mills(eps, mu), exact, rtol=2e-15, atol=2e-13)


@pytest.mark.parametrize("name", sorted(_ON_ARRAYS))
def test_named_curves(name):
    """Both ends of the table of losses, and both orders of the pair."""
    second = "shift" if "two-sided" in name else "kappa"
    for rho, other in ((0.02, 0.1), (0.8, 0.5), (2.5, 0.01)):
        m = Profile(name, (("rho", rho), (second, other)))
        one_by_one = np.array([m.delta_at(e) for e in EPS.tolist()])
        assert np.allclose(m.deltas_at(EPS), one_by_one, rtol=1e-11, atol=1e-18)


def test_compositions_leave_out_nothing_that_counts(monkeypatch):
    from dpmodels.privacy import composition
    from dpmodels.privacy.mechanisms import Gaussian, Step

    profile = Profile("objective perturbation, replace", (("rho", 0.3), ("kappa", 0.2)))
    steps = [Step("a", profile), Step("b", Gaussian(0.3))]
    parts = composition.parts_of(steps)
    for eps in (0.0, 0.1, 1.0, 2.5, 4.0):
        found = parts.delta(eps)
        monkeypatch.setattr(composition, "NEGLIGIBLE", -1.0)
        whole = parts.delta(eps)
        monkeypatch.undo()
        assert whole <= found <= whole * (1 + 1e-15)


@pytest.mark.parametrize("steps", [3, 0])
def test_the_largest_loss_is_that_of_many_halvings(monkeypatch, steps):
    """Also where Newton's steps do not end at the maximum: there are none."""
    from dpmodels.own import tilted as perturbation

    monkeypatch.setattr(perturbation, "_NEWTON_STEPS", steps)
    removal_loss = perturbation.removal_loss
    rng, z = np.random.default_rng(0), np.linspace(-12.0, 12.0, 401)
    for _ in range(40):
        kappa = 10 ** rng.uniform(-3, 3)
        rho = np.sqrt(8.0 * kappa / (4.0 + kappa)) * rng.uniform(1e-3, 1.0)
        a = np.linspace(0.0, 1.0, 2001)[:, None]
        grid = a * rho * z + (a * rho) ** 2 / 2 + np.log1p(kappa * a * (1 - a))
        loss = removal_loss(z, rho, kappa)
        assert (loss >= grid.max(axis=0) - 1e-13).all()
        assert (loss <= grid.max(axis=0) + 1e-6 * (1.0 + kappa) ** 2).all()


def test_a_curve_that_is_not_known_for_arrays():
    register_curve("half of a failure", lambda eps: 0.5)
    m = Profile("half of a failure", ())
    assert m.deltas_at(np.array([0.0, 3.0])).tolist() == [0.5, 0.5]
