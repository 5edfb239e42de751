from __future__ import annotations

import math

import pytest

from dpmodels.privacy.mechanisms import (
    agm,
    delta_gdp,
    eps_gdp,
    gaussian_cover,
    log_delta_gdp,
    mu_gdp,
    mu_of_pure,
    upper_quantile,
)

# rho at (8, 1e-6) is mu^2/2 of the mu in the same line; mpmath confirms mu to 1e-7 of delta.
TABLE = [
    (0.1, 1e-6, 0.027544650243827, 0.000379353878527, 0.000180304080181, 1.4505),
    (0.5, 1e-6, 0.124106149030528, 0.007701168113594, 0.004443844159097, 1.3164),
    (1, 1e-6, 0.236704380663436, 0.028014481912630, 0.017468904769123, 1.2664),
    (1, 1e-5, 0.268051123211294, 0.035925702327418, 0.020819938339536, 1.3136),
    (2, 1e-6, 0.448334740395194, 0.100502019722613, 0.067573881673144, 1.2195),
    (5, 1e-6, 1.020357145086106, 0.520564351764134, 0.385346381661089, 1.1623),
    (8, 1e-6, 1.531545117566145, 1.172815223570347, 0.909706829690102, 1.1354),
    (1, 1e-10, 0.170422269327255, 0.014521874941326, 0.010627808461541, 1.1689),
]


def tradeoff_gdp(alpha: float, mu: float) -> float:
    """Return the least type II error of a level-``alpha`` test: Phi(Phi^{-1}(1 - alpha) - mu)."""
    from scipy.special import ndtr

    return float(ndtr(upper_quantile(alpha) - mu)) if 0 < alpha < 1 else float(alpha <= 0)


def rho_classic(eps: float, delta: float) -> float:
    """Return the rho whose classic conversion gives (eps, delta). For comparison only."""
    log = -math.log(delta)
    return (math.sqrt(log + eps) - math.sqrt(log)) ** 2


def eps_of_rho_classic(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016). For comparison only."""
    return rho + 2.0 * math.sqrt(rho * -math.log(delta))


def eps_of_rho(rho: float, delta: float) -> float:
    """Return the best conversion of a rho-zCDP guarantee of which nothing else is known.

    inf over a > 1 of rho a + log(1/(a delta)) / (a - 1) + log(1 - 1/a)
    (Canonne, Kamath and Steinke 2020, Corollary 13). For the Gaussian mechanism itself
    ``eps_gdp(sqrt(2 rho), delta)`` is exact and smaller.
    """
    from scipy.optimize import minimize_scalar

    if rho <= 0:
        return 0.0

    def eps(t: float) -> float:
        a = 1.0 + math.exp(t)
        return rho * a - (math.log(a) + math.log(delta)) / (a - 1.0) + math.log1p(-1.0 / a)

    start = 0.5 * math.log(-math.log(delta) / rho)
    found = minimize_scalar(eps, bracket=(start - 0.5, start + 0.5), tol=1e-12)
    return max(0.0, float(found.fun))


@pytest.mark.oracle
@pytest.mark.parametrize(("eps", "delta", "mu", "rho", "classic", "ratio"), TABLE)
def test_reference_mu_and_rho(eps, delta, mu, rho, classic, ratio):
    assert mu_gdp(eps, delta) == pytest.approx(mu, rel=1e-10, abs=5e-16)
    assert mu_gdp(eps, delta) ** 2 / 2 == pytest.approx(rho, abs=1e-14)
    assert rho_classic(eps, delta) == pytest.approx(classic, abs=1e-14)
    assert math.sqrt(mu_gdp(eps, delta) ** 2 / 2 / rho_classic(eps, delta)) == pytest.approx(
        ratio, abs=5e-5
    )
    assert agm(eps, delta) * mu_gdp(eps, delta) == pytest.approx(1.0, rel=1e-15)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("rho", "exact", "classic", "better", "tol"),
    [
        (0.02, 0.834117548624, 1.071304, 0.899935, 5e-13),
        (0.5, 4.886554117462, 5.756522, 5.221534, 5e-13),
        (4, 16.860440396295, 18.867689, 17.861121, 5e-13),
        (20, 49.319276660696, 53.245163, 51.719404, 5e-13),
        (1000, 1211.629, 1235.079, 1231.879, 5e-4),
    ],
)
def test_reference_eps_of_rho(rho, exact, classic, better, tol):
    assert eps_gdp(math.sqrt(2 * rho), 1e-6) == pytest.approx(exact, abs=max(tol, 1e-10))
    loose = 5e-7 if rho < 1000 else 5e-4
    assert eps_of_rho_classic(rho, 1e-6) == pytest.approx(classic, abs=loose)
    assert eps_of_rho(rho, 1e-6) == pytest.approx(better, abs=loose)


def _mp_delta(eps: float, mu: float) -> float:
    mp = pytest.importorskip("mpmath")
    with mp.workdps(420):
        e, m = mp.mpf(eps), mp.mpf(mu)
        return mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)


@pytest.mark.parametrize("eps", [1e-4, 1e-2, 0.5, 1, 8, 60, 200])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 1e-2, 0.5])
def test_round_trip_over_the_whole_range(eps, delta):
    mu = mu_gdp(eps, delta)
    assert math.isfinite(mu) and mu > 0
    assert log_delta_gdp(eps, mu) == pytest.approx(math.log(delta), rel=1e-9, abs=1e-7)
    assert eps_gdp(mu, delta) == pytest.approx(eps, rel=1e-7, abs=1e-10)


@pytest.mark.oracle
@pytest.mark.parametrize("eps", [1e-4, 0.5, 8, 200])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-6, 0.5])
def test_against_many_digits(eps, delta):
    mu = mu_gdp(eps, delta)
    assert float(_mp_delta(eps, mu) / delta) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("eps", [0.0, 1e-16, 1e-12, 1e-8, 1e-4, 0.01])
@pytest.mark.parametrize("delta", [1e-100, 1e-14, 1e-12, 1e-8, 1e-4, 0.5])
def test_small_eps_against_many_digits(eps, delta):
    """The two terms of dG agree there in all digits: mu was up to 22 times too large."""
    mu = mu_gdp(eps, delta)
    assert float(_mp_delta(eps, mu) / delta) == pytest.approx(1.0, abs=1e-11)
    assert float(_mp_delta(-eps, mu) / math.exp(log_delta_gdp(-eps, mu))) == pytest.approx(
        1.0, abs=1e-12
    )


@pytest.mark.oracle
@pytest.mark.parametrize("eps", [1e-300, 1e-17, 1e-12, 1e-8, 1e-3, 0.5, 0.999, 1.001, 30.0])
def test_pure_as_gaussian_keeps_its_digits(eps):
    """1/2 - eps/4 has no digits of a small eps: mu was 0 for eps = 1e-17."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(360):
        corner = mp.ncdf(mp.mpf(mu_of_pure(eps)) / 2)
        assert float((2 * corner - 1) / mp.tanh(mp.mpf(eps) / 2)) == pytest.approx(1.0, abs=1e-13)


def test_extremes_of_the_curve():
    assert delta_gdp(3.0, 0.0) == 0.0
    assert delta_gdp(-1.0, 0.0) == pytest.approx(1 - math.exp(-1))
    assert delta_gdp(1.0, math.inf) == 1.0
    assert delta_gdp(200.0, 1e-3) == 0.0
    assert upper_quantile(1e-300) == pytest.approx(37.0471, abs=1e-3)
    assert upper_quantile(0.5) == 0.0
    for mu in (0.3, 2.0):
        for eps in (-3.0, -0.2):
            mirrored = 1 - math.exp(eps) + math.exp(eps) * delta_gdp(-eps, mu)
            assert delta_gdp(eps, mu) == pytest.approx(mirrored, rel=1e-12)


@pytest.mark.parametrize(
    ("eps", "delta"),
    [(-1, 1e-6), (math.nan, 1e-6), (math.inf, 1e-6), (1, 0), (1, 1), (1, -1e-3), (1, math.nan)],
)
def test_bad_requests(eps, delta):
    with pytest.raises(ValueError, match=r"eps|delta"):
        mu_gdp(eps, delta)


def test_pure_implies_gaussian():
    for eps in (0.01, 0.5, 2.0, 8.0):
        mu, corner = mu_of_pure(eps), 1 / (1 + math.exp(eps))
        assert tradeoff_gdp(corner, mu) == pytest.approx(corner, rel=1e-12)
        for e in (0.0, 0.3 * eps, 0.9 * eps, eps):
            pure = max(0.0, (1 - math.exp(e - eps)) / (1 + math.exp(-eps)))
            assert pure <= delta_gdp(e, mu) * (1 + 1e-12)


def test_a_cover_lies_above_the_curve_and_close_to_it():
    def shifted(eps):
        return min(1.0, 2.0 * delta_gdp(max(eps - 0.05, 0.0), 0.2))

    mu = gaussian_cover(shifted, 1e-7)
    grid = [k * 0.0007 for k in range(6000)]
    assert all(shifted(e) <= delta_gdp(e, mu) + 1e-7 for e in grid)
    assert any(shifted(e) > delta_gdp(e, 0.97 * mu) + 1e-7 for e in grid)
    own = gaussian_cover(lambda e: delta_gdp(e, 0.3), 1e-9)
    assert 0.3 * (1 - 1e-3) < own < 0.305
    assert gaussian_cover(lambda e: 1e-6, 1e-7) is None  # a mass at infinity above the failure
    assert gaussian_cover(lambda e: 0.0, 1e-7) == 0.0
