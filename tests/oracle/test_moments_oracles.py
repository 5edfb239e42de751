"""Worked examples of the moment methods: numbers computed apart from this package."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.models.linear.inference import ball_sd, errors
from dpmodels.models.linear.scored import (
    PublicMoments,
    PublicWhitening,
    hotelling,
    leave_one_out,
    public_radius,
    public_whitening,
)
from dpmodels.models.linear.solve import Stage, floor_ridge, isotropic, solve
from dpmodels.privacy.mechanisms import Gaussian, mu_gdp
from dpmodels.sums.ask import ball_map
from dpmodels.sums.scaling import UnitScale

pytestmark = pytest.mark.oracle

NAMES = ("Intercept", "x", "y")


def private():
    i = np.arange(1, 13)
    x = (7 * i) % 12
    return np.array([np.ones(12), x, 1 + 0.5 * x + ((5 * i) % 7 - 3) / 2])


def public():
    j = np.arange(1, 9)
    u = (3 * j) % 11
    Z = np.array([np.ones(8), u, 1.2 + 0.45 * u + ((3 * j) % 5 - 2) / 2])
    return PublicMoments(Z @ Z.T / 8, 8, NAMES, rows=Z)


def cholesky(white):
    return white.scale[:, None] * white.L


def test_public_stage():
    white = public_whitening(public(), shrink=False)
    assert np.asarray(public().moments) == pytest.approx(
        np.array([[1, 5.25, 3.6875], [5.25, 37, 23.45], [3.6875, 23.45, 15.8525]])
    )
    expected = [
        [1, 0, 0],
        [5.25, 3.072051431861127, 0],
        [3.6875, 1.3315613656643082, 0.6941095586938701],
    ]
    assert cholesky(white) == pytest.approx(np.array(expected), abs=1e-12)
    stage = Stage(np.eye(3), np.ones((3, 3)), cholesky(white), math.inf)
    assert stage.back(np.zeros(2)) == pytest.approx([1.411920529801324, 0.433443708609272])


def rows_in_ball(radius):
    white = public_whitening(public(), shrink=False)
    unit = UnitScale(1.0 / white.scale, np.zeros(3), False)
    rowmap = ball_map(unit, radius, np.linalg.inv(white.L))
    return cholesky(white), rowmap.real(private().copy())


def test_without_a_ball_it_is_least_squares():
    L, z = rows_in_ball(1e3)
    d, _ = solve(isotropic(z @ z.T, 0.0), 0.0)
    b = Stage(z @ z.T, np.zeros((3, 3)), L, 1e3).back(d)
    assert b == pytest.approx([1.185897435897437, 0.496503496503496], abs=1e-9)


FACTORS = [
    0.7872734632, 0.9932795090, 0.7633134258, 0.6726722129, 0.6175600107, 1.0,
    0.4747668455, 0.7144945295, 1.0, 0.7034473078, 0.6579870430, 0.7560122509,
]  # fmt: skip


def test_radius_one_and_a_half():
    L, z = rows_in_ball(1.5)
    assert z[0] == pytest.approx(FACTORS, abs=1e-9)
    Q = z @ z.T
    upper = [
        7.2581649249817195, -0.03973237696395779, 0.8032905744987353, 7.87617105988535,
        1.1983483579890934, 10.60054374021884,
    ]  # fmt: skip
    assert Q[np.triu_indices(3)] == pytest.approx(upper, abs=1e-8)
    m = isotropic(Q, 0.0)
    d, A = solve(m, 0.0)
    assert d == pytest.approx([0.111510024739485, 0.152711121582062], abs=1e-9)
    b = Stage(Q, np.zeros((3, 3)), L, 1.5).back(d)
    assert b == pytest.approx([1.3081743849651537, 0.46794776935175497], abs=1e-9)
    v = errors(m, d, A, 0.0, 12 - 2, 1e-3).v
    assert L[2, 2] ** 2 * v == pytest.approx(0.49758917069162056, abs=1e-9)


def test_with_a_stated_noise_matrix():
    L, z = rows_in_ball(1.5)
    Q = z @ z.T + np.array([[0.3, -0.2, 0.1], [-0.2, 0.4, 0.05], [0.1, 0.05, -0.25]])
    s = ball_sd(Gaussian(10.0), 1.5, 3, "replace")
    assert s == pytest.approx(0.3181980515339464, rel=1e-12)
    m = isotropic(Q, s)
    assert floor_ridge(m) == 0.0
    d, A = solve(m, 0.0)
    V = np.full((3, 3), s * s / 2) + np.eye(3) * s * s / 2
    stage = Stage(Q, V, L, 1.5)
    assert stage.back(d) == pytest.approx([1.3150776649156464, 0.4683384448310304], abs=1e-8)
    unit = UnitScale(np.ones(3), np.zeros(3), False)
    n_eff = stage.effective_rows(12, unit, intercept=True)
    assert n_eff == pytest.approx(7.558164924981719, abs=1e-8)
    for free, v, sigma2, se in [
        (
            n_eff - 2,
            1.809762470946249,
            0.8719219851744353,
            (0.6430061322688806, 0.1058952582281904),
        ),
        (10.0, 1.005895828856169, 0.4846286195316978, (0.4800526251553219, 0.07906141847996041)),
    ]:
        found = errors(m, d, A, 0.0, free, 1e-3)
        cov = stage.slope @ (found.sampling + found.privacy) @ stage.slope.T
        assert found.v == pytest.approx(v, rel=1e-7)
        assert L[2, 2] ** 2 * found.v == pytest.approx(sigma2, rel=1e-7)
        assert np.sqrt(np.diag(cov)) == pytest.approx(se, rel=1e-7)


def test_predictive_quantiles():
    for q, m, expected in [
        (11, 20, (22.138698, 50.639775, 64.745060, 104.973397)),
        (12, 249, (11.897925, 19.756348, 22.510640, 28.375527)),
    ]:
        found = [hotelling(q, m, p) for p in (0.5, 0.1, 0.05, 0.01)]
        assert found == pytest.approx(expected, abs=1e-5)
    assert hotelling(3, 8, 0.05) == pytest.approx(19.02825065235765, rel=1e-10)


@pytest.mark.parametrize(
    ("n", "q", "m", "eps", "square"),
    [
        (10_000, 7, 100, 1, 15.702118432588787),
        (100_000, 7, 100, 1, 23.67043806634363),
        (4649, 12, 249, 1, 22.510639529806564),
        (4649, 12, 249, 8, 33.022471059502955),
    ],
)
def test_radius_rule(n, q, m, eps, square):
    white = PublicWhitening(np.ones(q), np.eye(q), 0.0, PublicMoments(np.eye(q), m))
    R = public_radius(white, mu_gdp(eps, 1e-6), n, phi=0.1, rule=None)
    assert pytest.approx(square, rel=1e-8) == R**2


def test_leave_one_out_is_a_function_of_the_leverages():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(4, 30))
    white = public_whitening(PublicMoments(Z @ Z.T / 30, 30, tuple("abcd"), rows=Z), shrink=False)
    h = np.sum(Z * np.linalg.solve(Z @ Z.T, Z), axis=0)
    assert leave_one_out(white) == pytest.approx(29 * h / (1 - h), rel=1e-10)


def test_covariance_of_e_minus_e_d():
    """Cov(E d) = (s^2/2)(|d|^2 I + d d'); svec is an isometry."""
    rng = np.random.default_rng(1)
    d, s, draws = np.array([0.5, -1.0, 2.0]), 0.7, 100_000
    E = rng.normal(size=(draws, 3, 3)) * s / math.sqrt(2)
    E = np.triu(E, 1) + np.transpose(np.triu(E, 1), (0, 2, 1))
    E[:, range(3), range(3)] = rng.normal(size=(draws, 3)) * s
    e = rng.normal(size=(draws, 3)) * s / math.sqrt(2)
    found = np.cov((e - E @ d).T)
    m = isotropic(np.eye(4), s)
    assert m.coefficient_noise(d) == pytest.approx(
        s * s / 2 * ((1 + d @ d) * np.eye(3) + np.outer(d, d)), rel=1e-12
    )
    assert found == pytest.approx(m.coefficient_noise(d), abs=0.05)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize(("y", "a"), [(1e6, 1e-6), (1e-4, 1e8), (1e13, 1.0)])
def test_numbers_of_any_size_beside_a_factor_are_all_seen(y, a, stages):
    """Of two numbers 10 orders of magnitude apart one was taken for no number: its square was 0."""
    rng, n = np.random.default_rng(3), 8000
    g, x = rng.integers(0, 3, n), rng.uniform(-1, 1, n)
    unit = np.clip(0.4 * x + 0.2 * g - 0.2 + 0.2 * rng.normal(size=n), -1, 1)
    d = pd.DataFrame({"y": y * unit, "a": a * x, "g": np.array(["u", "v", "w"])[g]})
    schema = dp.Schema(y=dp.Real(-y, y), a=dp.Real(-a, a), g=dp.Levels(["u", "v", "w"]))
    more = {"schema": schema, "eps": 2.0, "delta": 1e-6, "stages": stages}
    with noise_source(ZeroNoise()):
        m = dp.dp_moments("y + a + g", d, **more)
        fit = dp.dp_ols("y ~ a + g", d, method="ssp", **more)
    assert m.params["y^2"] / y**2 == pytest.approx((unit**2).mean(), rel=0.02)
    assert m.params["a^2"] / a**2 == pytest.approx((x**2).mean(), rel=0.02)
    assert m.params["row weights"] > 0.98
    X = np.column_stack([np.ones(n), x, g == 1, g == 2])
    exact = y * np.linalg.lstsq(X, unit, rcond=None)[0] / [1.0, a, 1.0, 1.0]
    for b in (fit, dp.dp_ols("y ~ a + g", m)):
        assert (np.abs(b.params - exact) < 0.5 * b.bse).all()


@pytest.mark.parametrize("middle", [0.0, 2.0, 40.0])
def test_a_number_of_any_size_far_from_zero_beside_a_factor(middle):
    """Its slope was a difference of images: the mean of a range of 2e13 about 4e14 was .37 off."""
    rng, n, size = np.random.default_rng(4), 8000, 1e13
    u = rng.uniform(-1, 1, n)
    d = pd.DataFrame({"y": size * (middle + u), "g": rng.choice(list("uvw"), n)})
    schema = dp.Schema(y=dp.Real(size * (middle - 1), size * (middle + 1)), g=dp.Levels(list("uvw")))
    with noise_source(ZeroNoise()):
        m = dp.dp_moments("y + g", d, schema=schema, eps=2.0, delta=1e-6, stages=1)
    assert m.params["y"] / size == pytest.approx((d.y / size).mean(), abs=1e-5)
