"""The root finder is scipy's, without the import of it."""

import math
import random

import pytest
from scipy.optimize import brentq

from dpmodels.roots import brent

FUNCTIONS = {
    "line": (lambda x: 3.0 * x - 1.0, -5.0, 7.0),
    "cube": (lambda x: x**3 - 2.0, 0.0, 3.0),
    "flat at its root": (lambda x: (x - 0.3) ** 9, -1.0, 2.0),
    "steep": (lambda x: math.atan(1e6 * (x - 0.123)), -1.0, 1.0),
    "a jump": (lambda x: 1.0 if x > 0.7 else -1.0, 0.0, 1.0),
    "a tail": (lambda x: math.log(math.erfc(x)) + 200.0, 0.0, 20.0),
    "three roots": (lambda x: math.sin(x), 2.0, 11.0),
    "ends the other way": (lambda x: x - 0.25, 1.0, 0.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("tolerance", [(2e-12, None), (1e-15, 1e-14), (1e-3, 1e-3)])
def test_the_same_root_as_scipy(name, tolerance):
    f, lo, hi = FUNCTIONS[name]
    xtol, rtol = tolerance
    how = {"xtol": xtol, "maxiter": 300} | ({} if rtol is None else {"rtol": rtol})
    got = brent(f, lo, hi, **how)
    assert abs(got - brentq(f, lo, hi, **how)) <= xtol + (rtol or 1e-15) * abs(got)
    near = 1.01 * (xtol + (rtol or 1e-15) * abs(got))
    assert f(got) == 0 or f(got - near) * f(got + near) <= 0  # the sign changes within tolerance


def test_calibrations_take_the_steps_of_scipy():
    from dpmodels.privacy.mechanisms import log_delta_gdp

    rng, same, tries = random.Random(0), 0, 200
    for _ in range(tries):
        eps, target = 10 ** rng.uniform(-3, 2), math.log(10 ** rng.uniform(-60, -0.1))

        def gap(log_mu, eps=eps, target=target):
            return max(log_delta_gdp(eps, math.exp(log_mu)), -1e6) - target

        how = {"xtol": 1e-15, "rtol": 1e-14, "maxiter": 300}
        a, b = brent(gap, -30.0, 6.0, **how), brentq(gap, -30.0, 6.0, **how)
        assert abs(a - b) < 1e-13
        same += a == b
    assert same > 0.9 * tries


def test_a_root_at_an_end_is_found_at_once():
    assert brent(lambda x: x, 0.0, 1.0) == 0.0
    assert brent(lambda x: x - 1.0, 0.0, 1.0) == 1.0


def test_what_has_no_root_is_refused():
    with pytest.raises(ValueError, match="different signs"):
        brent(lambda x: x * x + 1.0, -1.0, 1.0)
    with pytest.raises(ValueError, match="not a number"):
        brent(lambda x: math.nan if 0.1 < x < 0.9 else x - 0.5, 0.0, 1.0)
    with pytest.raises(ValueError, match="3 steps"):
        brent(lambda x: (x - 0.3) ** 9, -1.0, 2.0, maxiter=3)


def test_log_of_the_normal_tail_keeps_its_digits():
    mp = pytest.importorskip("mpmath")
    from dpmodels.privacy.mechanisms import _log_ndtr

    rng = random.Random(4)
    with mp.workdps(60):
        for lo, hi in ((-1e4, -37), (-37, -20), (-20, -5), (-5, 0), (0, 6)):
            for _ in range(60):
                x = rng.uniform(lo, hi)
                true = mp.log(mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2)
                assert abs(_log_ndtr(x) - true) <= 6e-16 * max(abs(true), 1e-15) + 2e-16, x
    assert _log_ndtr(-math.inf) == -math.inf and _log_ndtr(math.inf) == 0.0
