"""Reference values of the generalized-PTR family, and errata that must stay corrected."""

import math

import numpy as np
import pytest

from dpmodels.models.linear.posterior import (
    choose_ridge,
    half_leverage,
    largest_s_pair,
)
from dpmodels.models.newton import largest_rho
from dpmodels.own.draws import Bounds
from dpmodels.own.profile import d_add, d_rem, largest_m, largest_s
from dpmodels.privacy.composition import gdp_curve
from dpmodels.privacy.mechanisms import mu_gdp, upper_quantile
from dpmodels.proof.prove import Of, sensitivity
from dpmodels.sums.ask import Noisy

pytestmark = pytest.mark.oracle


def log_residual_sensitivity(B2, lam_star):
    """tau, of the prover: the most log(Y + B|theta*|) moves, adding or removing."""
    return sensitivity(Of("log residual", (B2, lam_star)), "add-remove", "l2")


def eigenvalue_bound(noisy, B2, mu1, d1):
    """lam~, above lambda_min with probability at most d1, as a stage asks for it."""
    sd = sensitivity(Of("least eigenvalue, by relation", (B2,)), "add-remove", "l2") / mu1
    return max(0.0, float(Noisy(np.array([noisy]), np.array([sd])).at_least(d1)[0]))


def residual_bound(noisy, tau, mu2, d2):
    """rbar, below Y + B|theta*| with probability at most d2."""
    return math.exp(Noisy(np.array([noisy]), np.array([tau / mu2])).at_most(d2)[0])


PROFILE = [
    (0, 0.1, 1, 1.18490754e-01, 1.37386491e-01),
    (0.5, 0.1, 1, 1.77360050e-02, 1.99335539e-03),
    (1, 0.1, 1, 1.68559181e-03, 0),
    (1, 0.01, 5, 7.37173470e-03, 6.29351213e-03),
    (2, 0.01, 10, 2.12489170e-02, 2.06013913e-02),
    (0.5, 0.001, 10, 9.85507968e-03, 9.69466123e-03),
    (1, 0.25, 2, 1.15166516e-01, 1.70380141e-01),
]


@pytest.mark.parametrize(("eps", "h", "s", "add", "rem"), PROFILE)
def test_profile(eps, h, s, add, rem):
    assert float(d_add(eps, h, s)) == pytest.approx(add, rel=1e-6)
    assert float(d_rem(eps, h, s)) == pytest.approx(rem, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(
    ("rho", "h", "s", "m"),
    [
        (0.1, 0.001, 3.10890, 0.08658),
        (0.2, 0.001, 6.26960, 0.18655),
        (0.2, 0.01, 1.79656, 0.06510),
        (0.5, 0.01, 4.78153, 0.36328),
        (1, 0.01, 9.75647, 0.85635),
        (1, 0.05, 3.88906, 0.28388),
    ],
)
def test_gaussian_calibration(rho, h, s, m):
    assert largest_s(h, rho, 1e-7) == pytest.approx(s, rel=1e-3)
    assert largest_m(h, rho, 1e-7) == pytest.approx(m, rel=1e-3)


def printed_theorem(eps, h, delta, repaired):
    """Largest s of the published Theorem 5.1 (in s^2 = gamma L^2 units), or with its sqrt 2 back."""
    log = math.log(2 / delta)
    tail = math.sqrt((2 if repaired else 1) * log * h)
    const = (1 + (2 if repaired else 1) * log) * h / 2
    lin = h / (2 * (1 + h))
    return (-tail + math.sqrt(tail**2 + 4 * lin * (eps - const))) / (2 * lin)


@pytest.mark.parametrize(
    ("eps", "h", "exact", "printed", "true_delta", "repaired"),
    [
        (0.5, 0.001, 3.863776, 4.019654, 2.02e-6, 2.823737),
        (0.5, 0.01, 1.047466, 1.093552, 1.78e-6, 0.645747),
        (1, 0.001, 7.424032, 7.974013, 3.90e-6, 5.687490),
        (1, 0.01, 2.172511, 2.349993, 3.64e-6, 1.555541),
        (1, 0.05, 0.614892, 0.704983, 3.02e-6, 0.206351),
        (2, 0.001, 14.117661, 15.538515, 7.24e-6, 11.279711),
        (2, 0.01, 4.293069, 4.753447, 6.97e-6, 3.332139),
        (2, 0.05, 1.572209, 1.802174, 6.14e-6, 1.016956),
    ],
)
def test_the_printed_theorem_is_not_private(eps, h, exact, printed, true_delta, repaired):
    """Guards against somebody restoring the published constants."""
    assert largest_s_pair(h, eps, 1e-6) == pytest.approx(exact, rel=1e-6)
    assert printed_theorem(eps, h, 1e-6, False) == pytest.approx(printed, rel=1e-6)
    assert printed_theorem(eps, h, 1e-6, True) == pytest.approx(repaired, rel=1e-5)
    true = max(float(d_add(eps, h, printed)), float(d_rem(eps, h, printed)))
    assert true == pytest.approx(true_delta, rel=5e-3) and true > 1e-6


@pytest.mark.parametrize(
    ("eps", "mu", "lam", "tau", "rbar", "s", "gamma", "m", "sigma"),
    [
        (0.5, 0.121830, 309.1427, 0.0032400, 3.096912, 1.86958, 0.364443, 0.068857, 44.97576),
        (1, 0.232699, 400.0762, 0.0025027, 2.386855, 4.19770, 3.092937, 0.180884, 13.19549),
        (4, 0.826335, 471.8611, 0.0021215, 2.086232, 16.45138, 62.18417, 0.732237, 2.84912),
    ],
)
def test_pipeline_without_noise(eps, mu, lam, tau, rbar, s, gamma, m, sigma):
    """B = Y = 1, delta = 1e-6, lambda_min = 500, |theta*| = 1, lambda = lambda_0 = 0."""
    total = mu_gdp(eps, 0.7e-6)
    assert total == pytest.approx(mu, rel=1e-5)
    mu1, mu2, rho = (math.sqrt(f) * total for f in (0.05, 0.10, 0.85))
    low = eigenvalue_bound(500.0, 1.0, mu1, 1e-7)
    assert low == pytest.approx(lam, rel=1e-6)
    t = log_residual_sensitivity(1.0, low)
    assert t == pytest.approx(tau, rel=1e-4)
    r = residual_bound(math.log(2.0), t, mu2, 1e-7)
    assert r == pytest.approx(rbar, rel=1e-5)
    assert (largest_s(1 / low, rho, 1e-7) / r) ** 2 == pytest.approx(gamma, rel=2e-3)
    assert largest_s(1 / low, rho, 1e-7) == pytest.approx(s, rel=1e-3)
    assert largest_m(1 / low, rho, 1e-7) == pytest.approx(m, rel=1e-3)
    assert r / largest_m(1 / low, rho, 1e-7) == pytest.approx(sigma, rel=1e-3)


def test_removal_moves_the_residual_bound_more_than_the_published_lemma():
    """d = 1, lam = 1, 400 rows (x=.2, y=1); removing (x=1, y=-1) moves by -log(1 - 1/lam*)."""
    x, y = np.append(np.full(400, 0.2), 1.0), np.append(np.ones(400), -1.0)
    star = 1 + x @ x
    delta = math.log(1 + abs(x @ y / star))
    less = math.log(1 + abs(x[:-1] @ y[:-1] / (star - 1)))
    tau = log_residual_sensitivity(1.0, star)
    assert abs(less - delta) == pytest.approx(0.0571584, rel=1e-5)
    assert tau == pytest.approx(0.0571584, rel=1e-5)
    assert math.log(1 + 1 / star) < abs(less - delta) <= tau * (1 + 1e-12)


def largest_rho_shift(eps, delta, kappa):
    """The simpler form of ``largest_rho``: mu_of(eps - c, delta), c = log(1 + kappa/4)."""
    return mu_gdp(eps - math.log1p(kappa / 4), delta)


@pytest.mark.parametrize(
    ("eps", "lam", "shift", "sharp"),
    [(1, 1, 0.18719, 0.23670), (0.5, 10, 0.11837, 0.12411), (0.5, 1, 0.07140, 0.11138)],
)
def test_objective_perturbation(eps, lam, shift, sharp):
    assert largest_rho_shift(eps, 1e-6, 1 / lam) == pytest.approx(shift, rel=1e-4)
    assert largest_rho(eps, 1e-6, 1 / lam) == pytest.approx(sharp, rel=1e-4)


def test_objective_perturbation_sigma():
    for eps, lam, sigma in ((0.5, 10, 8.448100), (1, 10, 4.323841), (2, 2, 2.357782)):
        assert 1 / largest_rho_shift(eps, 1e-6, 1 / lam) == pytest.approx(sigma, rel=1e-6)


def test_small_leverage_is_the_gaussian_mechanism():
    eps = np.linspace(0, 3, 31)
    for mu in (0.3, 1.0):
        h = 1e-9
        np.testing.assert_allclose(d_add(eps, h, mu / math.sqrt(h)), gdp_curve(eps, mu), atol=2e-8)
        np.testing.assert_allclose(d_rem(eps, h, mu / math.sqrt(h)), gdp_curve(eps, mu), atol=2e-8)


def test_symmetry_of_the_two_directions():
    """H_e^eps(P||Q) = 1 - e^eps + e^eps H_e^-eps(Q||P)."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        h, s, e = rng.uniform(1e-3, 1.5), rng.uniform(0, 8), rng.uniform(0, 4)
        left = float(d_add(-e, h, s))
        right = 1 - math.exp(-e) + math.exp(-e) * float(d_rem(e, h / (1 + h), s / (1 + h)))
        assert left == pytest.approx(right, abs=1e-12)


def test_monotone_in_leverage_and_residual():
    """2000 random triples with h <= 1.6: the corner is the worst case."""
    rng = np.random.default_rng(1)
    for _ in range(2000):
        e, s = rng.uniform(0, 3), rng.uniform(0, 8)
        h1, h2 = np.sort(rng.uniform(1e-3, 1.6, 2))
        g1, g2 = np.sort(rng.uniform(1e-3, 0.99, 2))
        up = s + rng.uniform(0, 1)
        tolerance = 1e-13
        assert d_add(e, h1, s) <= d_add(e, h2, s) + tolerance
        assert d_add(e, h1, s) <= d_add(e, h1, up) + tolerance
        assert d_rem(e, g1, s) <= d_rem(e, g2, s) + tolerance
        assert d_rem(e, g1, s) <= d_rem(e, g1, up) + tolerance


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(4))
def test_profile_against_the_full_densities(seed):
    """Seeds 0..3, 4e5 draws in 5 dimensions, 4.5 sd two-sided: false alarm < 1e-5 a check."""
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(seed)
    d, n, gamma, lam = 5, 30, rng.uniform(0.5, 4), 3.0
    X, y = rng.normal(size=(n, d)) / 3, rng.uniform(-1, 1, n)
    x0, y0 = rng.normal(size=d) * 0.5, 1.5
    A = X.T @ X + lam * np.eye(d)
    B = A + np.outer(x0, x0)
    tA, tB = np.linalg.solve(A, X.T @ y), np.linalg.solve(B, X.T @ y + x0 * y0)
    P = multivariate_normal(tA, np.linalg.inv(gamma * A))
    Q = multivariate_normal(tB, np.linalg.inv(gamma * B))
    N = 400_000
    for first, second, direction in ((P, Q, "add"), (Q, P, "rem")):
        theta = first.rvs(N, random_state=rng)
        loss = first.logpdf(theta) - second.logpdf(theta)
        for eps in (0.0, 0.4, 1.0):
            terms = np.maximum(0.0, -np.expm1(eps - loss))
            if direction == "add":
                h = x0 @ np.linalg.solve(A, x0)
                claim = d_add(eps, h, math.sqrt(gamma) * abs(y0 - x0 @ tA))
            else:
                g = x0 @ np.linalg.solve(B, x0)
                claim = d_rem(eps, g, math.sqrt(gamma) * abs(y0 - x0 @ tB))
            assert abs(terms.mean() - float(claim)) < 4.5 * terms.std() / math.sqrt(N) + 1e-9


def test_half_leverage_is_where_efficiency_halves():
    from dpmodels.models.linear.posterior import efficiency

    h = half_leverage("posterior", 0.25, 1e-7)
    assert efficiency("posterior", h, 0.25, 1e-7) == pytest.approx(0.5, abs=0.01)


def test_chosen_ridge_never_falls_below_the_start():
    for kind in ("posterior", "score"):
        star = choose_ridge(Bounds(kind, 1.0, 1.0, 0.0, 0.3, 1e-8, 5, 250.0, 300.0, 2.0))
        assert 300.0 <= star <= 15000.0


@pytest.mark.statistical
def test_validity_of_the_two_bounds_fails_no_more_than_claimed():
    """Seed 0, 1e5 runs with d1 = d2 = .02: rate above .0225 has probability < 1e-6."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((2, 100_000))
    mu1, mu2, d = 0.1, 0.2, 0.02
    low = np.array([eigenvalue_bound(500 + v / mu1, 1.0, mu1, d) for v in z[0]])
    assert 0.0175 < np.mean(low > 500) < 0.0225
    tau = log_residual_sensitivity(1.0, 300.0)
    top = np.array([residual_bound(math.log(2) + v * tau / mu2, tau, mu2, d) for v in z[1]])
    assert 0.0175 < np.mean(top < 2) < 0.0225
    assert upper_quantile(0.02) == pytest.approx(2.0537, rel=1e-4)
