"""Residual variance, allowance and ePTR's bounds: against exact means and suprema."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.models.linear.eptr import covariances
from dpmodels.models.linear.inference import errors, last_fit, report
from dpmodels.models.linear.solve import (
    Report,
    Scores,
    Stage,
    allowance,
    attenuation,
    isotropic,
    posterior_errors,
    solve,
)
from dpmodels.own.least_squares import OlsReleased, auto_noise, residual_bound
from dpmodels.proof.sets import float_allowance, ls_bound
from dpmodels.sums.scaling import identity_scale
from tests.privacy.cases.verbs import backend_release
from tests.replaying import ReplayRun, replay_stage

XY = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4))

# -- bias of s^2 ---------------------------------------------------------------------------------


def gauss_hermite(k, points=5):
    """Nodes (points^k, k) and weights: exact means of polynomials of k standard normals."""
    x, w = np.polynomial.hermite_e.hermegauss(points)
    grid = np.stack(np.meshgrid(*[x] * k, indexing="ij"), -1).reshape(-1, k)
    weight = np.stack(np.meshgrid(*[w / w.sum()] * k, indexing="ij"), -1).reshape(-1, k).prod(1)
    return grid, weight


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
def test_the_residual_variance_of_noisy_moments_has_no_bias(s):
    """The mean over noise is v to fourth order in s; without the trace, second order.

    Two coefficients: six normals, by quadrature.
    """
    M0, d0, v, free = np.array([[60.0, 20.0], [20.0, 90.0]]), np.array([0.7, -0.4]), 0.5, 120.0
    h0 = M0 @ d0
    Q0 = np.block([[M0, h0[:, None]], [h0[None], np.array([[h0 @ d0 + v * free]])]])
    scale = s * np.where(np.eye(3) > 0, 1.0, math.sqrt(0.5))
    upper = np.triu_indices(3)
    nodes, weights = gauss_hermite(6, 3)
    mean = 0.0
    for z, w in zip(nodes, weights, strict=True):
        E = np.zeros((3, 3))
        E[upper] = z * scale[upper]
        E += np.triu(E, 1).T
        m = isotropic(Q0 + E, s)
        d, A = solve(m, 0.0)
        mean += w * errors(m, d, A, 0.0, free, 0.0).v
    m = isotropic(Q0, s)
    d, A = solve(m, 0.0)
    trace = float(np.sum(A * m.coefficient_noise(d))) / free
    assert trace > 1e-4 * s**2
    assert abs(mean - v) < 0.05 * trace


def test_the_residual_variance_is_divided_by_the_free_rows_and_floored():
    M0, d0 = np.diag([60.0, 90.0]), np.array([0.7, -0.4])
    h0 = M0 @ d0
    Q = np.block([[M0, h0[:, None]], [h0[None], np.array([[h0 @ d0 + 50.0]])]])
    m = isotropic(Q, 1e-9)
    d, A = solve(m, 0.0)
    assert errors(m, d, A, 0.0, 100.0, 1e-3).v == pytest.approx(0.5)
    assert errors(m, d, A, 0.0, 100.0, 0.7).v == 0.7


@pytest.mark.parametrize("whitened", [False, True])
def test_the_residual_variance_of_eptr_has_no_bias(whitened):
    """q at theta + sigma z: antithetic z along each axis give its mean exactly."""
    rng = np.random.default_rng(0)
    n, p, sigma = 50, 3, 0.2
    X = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2))])
    y = X @ [0.3, 0.4, -0.2] + 0.3 * rng.normal(size=n)
    W = np.linalg.inv(np.linalg.cholesky(X.T @ X / n)) if whitened else None
    W = (W + W.T) / 2.0 if whitened else None  # any symmetric one
    Z = X if W is None else X @ W
    theta = np.linalg.lstsq(Z, y, rcond=None)[0]
    rss = float(((y - Z @ theta) ** 2).sum())
    detail = SimpleNamespace(ry=1.0, mu={"variance": 1e6})
    released = OlsReleased(SimpleNamespace(intercept=True), whitening=W, lower=0.0, sigma=sigma)
    found = []
    for sign in (-1.0, 1.0):
        for j in range(p):
            z = sign * math.sqrt(p) * np.eye(p)[j]
            q = float(((y - Z @ (theta + sigma * z)) ** 2).sum())
            values = {"scale": X.T @ X, "residual": np.array(q)}
            sampling, privacy, s2 = covariances(detail, released, values, n, p)
            found.append(s2)
            assert sampling == pytest.approx(s2 * np.linalg.inv(Z.T @ Z), rel=1e-9)
            assert privacy == pytest.approx(sigma**2 * np.eye(p))
    assert np.mean(found) == pytest.approx(rss / (n - p), rel=1e-9)
    # without the correction it would be nearly twice as large
    assert sigma**2 * np.trace(Z.T @ Z) > 0.9 * rss


# -- the allowance for row weights ---------------------------------------------------------------


def two_stage(radius=2.0, n=500, scores=None, noise=1e-12):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = X @ [0.2, 0.3, -0.4] + rng.normal(size=n)
    Z = np.column_stack([X, y])
    plan = dp.plan("y ~ a + b", XY, n=n, eps=1, delta=1e-6, method="ssp", scoring=False)
    last = Stage(Z.T @ Z, np.full((4, 4), noise), np.eye(4), radius)
    first = replace(last, radius=math.inf)
    return Report(
        plan.design, identity_scale(4), (first, last), n, plan.request, "zero", scores=scores
    )


def test_the_allowance_is_what_weights_take_off():
    """kappa / (1 - kappa) d, the intercept with its own kappa; nothing after one stage."""
    facts = two_stage()
    fit = last_fit(facts)
    level, slope = attenuation(4, 2.0, intercept=True)
    assert 0.01 < level != slope > 0.01
    kappa = np.array([level, slope, slope])
    assert fit.errors.weight_shift == pytest.approx(kappa / (1 - kappa) * fit.d, rel=1e-12)
    assert (fit.errors.weight_shift == allowance(facts, fit.d)).all()
    assert not last_fit(replace(facts, stages=facts.stages[1:])).errors.weight_shift.any()


@pytest.mark.parametrize("turned", [False, True])
def test_the_allowance_is_in_the_printed_errors(turned):
    """Its square is added to the privacy part, in the user's units and nowhere else."""
    facts = two_stage()
    if turned:
        L = np.linalg.cholesky(np.array([[4.0, 1, 0, 0], [1, 3, 0, 0], [0, 0, 2, 1], [0, 0, 1, 5]]))
        facts = replace(facts, stages=tuple(replace(s, L=L) for s in facts.stages))
    fit, found = last_fit(facts), report(facts)
    T = facts.unit.back()[0] @ facts.stages[-1].slope
    taken = T @ fit.errors.weight_shift
    assert found.vcov_sampling == pytest.approx(T @ fit.errors.sampling @ T.T, rel=1e-9)
    assert found.vcov_privacy == pytest.approx(
        T @ fit.errors.privacy @ T.T + np.outer(taken, taken), rel=1e-9
    )
    assert np.abs(np.outer(taken, taken)).max() > 1e-4


def test_with_scores_the_allowance_is_that_of_the_bread():
    facts = two_stage()
    K = np.linalg.cholesky(facts.stages[-1].Q[:3, :3] / 500)
    scores = Scores(0.7 * np.eye(3), K, 1.0, 0.0, 0.2 * np.eye(3))
    facts = replace(facts, scores=scores)
    fit = last_fit(facts)
    J = scores.weighting(2.0, fit.free)
    assert fit.errors.weight_shift == pytest.approx(J @ fit.d - fit.d)
    assert np.abs(fit.errors.weight_shift - allowance(facts, fit.d)).max() > 1e-3


def test_a_dominated_fit_reports_its_mean_squared_error():
    """Sampling and privacy add to P + (mean - d)(mean - d)', the allowance on top."""
    from dpmodels.models.linear.solve import positive_part, posterior

    facts = two_stage(noise=200.0**2)
    fit = last_fit(facts)
    assert fit.lam > 0
    found = posterior_errors(facts, fit.d, fit.errors)
    stage = facts.stages[-1]
    mean, P = posterior(stage.moments, np.eye(3), positive_part(fit.errors.meat))
    total = P + np.outer(mean - fit.d, mean - fit.d)
    part = total - found.sampling
    values, vectors = np.linalg.eigh((part + part.T) / 2)
    assert found.privacy == pytest.approx((vectors * np.maximum(values, 0)) @ vectors.T, abs=1e-12)
    assert (found.unknown == (np.sqrt(np.diag(P)) > 0.5)).all()
    assert (found.weight_shift == fit.errors.weight_shift).all()


# -- ePTR ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rx", "ry", "rho"), [(1.0, 1.0, 1.0), (2.0, 0.5, 3.0), (1.5, 4.0, 0.01)])
def test_the_bound_of_least_squares_is_its_maximum(rx, ry, rho):
    t = np.linspace(0.0, math.pi / 2, 100_001)
    found = (2 * rx * ry * np.cos(t) + rx * rx * rho * np.sin(2 * t)).max()
    assert found <= ls_bound(rx, ry, rho) * (1 + 1e-12)
    assert found == pytest.approx(ls_bound(rx, ry, rho), rel=1e-8)
    assert ls_bound(rx, ry, 0.0) == 2 * rx * ry
    # the part of the coefficients is there whatever the response
    assert ls_bound(rx, 1e-12, rho) == pytest.approx(rx * rx * rho, rel=1e-9)


def test_the_residual_bound_is_the_largest_squared_residual():
    """Attained by a row along -theta with the largest response: the cross term included."""
    theta, radius, ry = np.array([0.6, -1.1]), 1.7, 1.3
    bound = residual_bound(SimpleNamespace(ry=ry), radius, theta)
    x = -radius * theta / np.linalg.norm(theta)
    assert float(ry - x @ theta) ** 2 == pytest.approx(bound, rel=1e-12)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 2))
    rows *= radius / np.linalg.norm(rows, axis=1, keepdims=True)
    assert ((ry + np.abs(rows @ theta)) ** 2).max() <= bound


def test_the_noise_of_eptr_divides_by_the_neighbours_eigenvalue():
    """h(l) = B(R) / (l - R^2), R = R_y sqrt(n / (l - R^2)) or less; no reply below."""
    n, radius, lower, allow = 1000, 2.0, 104.0, 0.0
    rho, rtheta, h = auto_noise(lower, False, radius, 1.0, math.inf, n, allow)
    assert (rho, rtheta) == (0.0, pytest.approx(math.sqrt(10.0)))
    assert h == pytest.approx(ls_bound(2.0, 1.0, math.sqrt(10.0)) / 100.0)
    assert auto_noise(lower, False, radius, 1.0, 0.5, n, allow)[1] == 0.5
    assert auto_noise(4.0, False, radius, 1.0, math.inf, n, allow) is None
    assert auto_noise(104.0, False, radius, 1.0, math.inf, n, 0.1)[2] > h * 1.1
    rho, rtheta, h = auto_noise(lower, True, radius, 1.0, math.inf, n, allow)
    assert (rho, rtheta) == (200.0, pytest.approx(math.sqrt(1000 / 300)))
    assert h == pytest.approx(ls_bound(2.0, 1.0, rtheta) / 300.0)


def test_the_float_allowance():
    assert float_allowance(3, 1000) == 2.0**-20 + 32 * 9 * 1000 * 2.0**-53


@pytest.fixture(scope="module")
def large():
    """At eps = 20 and n = 30 000 the residual sum comes from the moments at hand."""
    n = 30_000
    plan = dp.plan("y ~ a + b", XY, n=n, eps=20.0, delta=1e-5, method="eptr", scoring=False)
    rng = np.random.default_rng(5)
    data = {k: rng.choice([-1.0, 1.0], n) for k in "ab"}
    data["y"] = np.clip(2 * data["a"] + rng.choice([-1.0, 1.0], n), -4, 4)
    run = ReplayRun(plan.steps, 1)
    return plan, data, backend_release(plan, data, run), run.drawn


def test_at_large_n_the_residual_sum_is_of_unclipped_rows(large):
    """Its value, cross and square terms, and the sensitivity of one squared residual."""
    _, data, done, drawn = large
    draw, theta = drawn["residual variance"], done.values["theta"]
    rows = np.column_stack([np.ones(len(data["a"])), data["a"], data["b"]]) @ done.detail.whitening
    radius = math.sqrt(4.5)
    short = np.minimum(1.0, radius / np.linalg.norm(rows, axis=1))
    rss = float((short**2 * (data["y"] / 4.0 - rows @ theta) ** 2).sum())
    assert float(np.ravel(draw.value)[0]) * draw.unit == pytest.approx(rss, rel=1e-6)
    bound = (1.0 + radius * np.linalg.norm(theta)) ** 2
    assert bound <= draw.sensitivity * draw.unit <= bound * 1.001


def test_hostile_rows_stay_within_it(large):
    plan, data, _, first = large
    step, worst = "residual variance", 0.0
    moved = {k: v.copy() for k, v in data.items()}
    for a, b, y in itertools.product((-1.0, 1.0), (-1.0, 1.0), (-4.0, 4.0)):
        moved["a"][0], moved["b"][0], moved["y"][0] = a, b, y
        other = replay_stage(plan, moved, 1, first)[step]
        worst = max(worst, first[step].distance(other) / first[step].sensitivity)
    assert 0.3 < worst <= 1.0
