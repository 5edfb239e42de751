"""The oracle of the specification of what is done after a fit, to twelve digits."""

import numpy as np
import pytest

from dpmodels.after.inference import correlation, critical_value, noncentrality, two_stage, wald
from dpmodels.after.moments import (
    SecondMoments,
    change,
    isotropic_noise,
    r_squared,
    regress,
    score,
    share_explained,
)

pytestmark = pytest.mark.oracle

Q = np.array([[100, 20, 30, 150], [20, 90, 25, 110], [30, 25, 80, 60], [150, 110, 60, 420.0]])
ONE, X1, X2, Y = np.eye(4)
EXACT = dict(rtol=0, atol=6e-13)


@pytest.fixture
def m():
    return SecondMoments(Q, isotropic_noise(4, 2.0), 100.0, ONE)


@pytest.fixture
def fit(m):
    return regress(m, np.array([ONE, X1, X2]), Y)


def test_regression(fit):
    assert np.allclose(fit.b, [1.324194952132, 0.939077458660, -0.040034812881], **EXACT)
    assert fit.rss == pytest.approx(120.812287916744, abs=6e-13 * 100)
    assert fit.v == pytest.approx(1.245487504296, abs=6e-13)
    se = np.sqrt(np.diag(fit.V))
    assert np.allclose(se, [0.125367828460, 0.129576852316, 0.143577950811], **EXACT)


def test_r_squared(m, fit):
    found = r_squared(m, fit, ONE)
    assert found.tss == pytest.approx(195.11, abs=1e-10)
    assert found.share.value == pytest.approx(0.380799098371, abs=6e-13)
    assert found.adjusted == pytest.approx(0.368032069472, abs=6e-13)
    assert found.se_privacy == pytest.approx(0.025592224843, abs=6e-13)
    assert found.share.se == pytest.approx(0.080591845474, abs=6e-13)
    # the ends of Fieller's set: |D - (1 - R) N| is z times its error, sampling included
    one, whole = np.outer(fit.r, fit.r), np.outer(*[regress(m, ONE[None], Y).r] * 2)
    for end in (found.share.low, found.share.high):
        gap = found.rss - (1 - end) * found.tss
        spread = m.form_variance(one - (1 - end) * whole)
        spread += found.tss**2 * (found.share.se**2 - found.se_privacy**2)
        assert abs(gap) == pytest.approx(1.959963984540 * np.sqrt(spread), rel=1e-9)


@pytest.mark.parametrize(
    ("left", "total", "noise", "expected"),
    [
        (30.0, 100.0, (1.0, 0.0, 1.0), (0.7, 0.6795, 0.7205)),
        (120.0, 100.0, (1.0, 0.0, 1.0), (0.0, 0.0, 0.0)),  # set beyond 0: the nearest share
        (-9.0, 100.0, (1.0, 0.0, 1.0), (1.0, 1.0, 1.0)),
        (30.0, 1.0, (1.0, 0.0, 1.0), (0.0, 0.0, 1.0)),  # nothing is known of N
        (3.0, -50.0, (1.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
        (30.0, 100.0, (0.0, 0.0, 0.0), (0.7, 0.7, 0.7)),
    ],
)
def test_shares_and_their_intervals_are_in_the_unit_interval(left, total, noise, expected):
    found = share_explained(left, total, noise)
    assert (found.value, found.low, found.high) == pytest.approx(expected, abs=2e-3)


def test_wald_and_score(m, fit):
    both = wald(np.eye(3)[1:], fit.b, fit.V)
    assert both.statistic == pytest.approx(55.387637893683, abs=6e-12)
    found = score(m, np.array([ONE, X1]), X2[None], Y)
    assert found.u[0] == pytest.approx(-2.674418604651, abs=6e-13)
    assert found.variance[0, 0] == pytest.approx(90.924965230083, abs=6e-12)
    assert found.statistic == pytest.approx(0.078663927501, abs=6e-13)


def test_two_fits(m, fit):
    short = regress(m, np.array([ONE, X1]), Y)
    sampling, noise = change(m, short, fit)
    assert noise[1, 1] == pytest.approx(0.001213194859, abs=6e-13)
    assert sampling[1, 1] == pytest.approx(0.014008642500, abs=6e-13)
    assert fit.b[1] - short.b[1] == pytest.approx(0.008844900519, abs=2e-12)
    variance = short.V[1, 1] + fit.V[1, 1] - 2 * (noise[1, 1] + sampling[1, 1])
    assert np.sqrt(variance) == pytest.approx(0.042526227050, abs=6e-13)


def test_correlations(m):
    simple = correlation(m, X1, Y, ONE[None], 0.95)
    assert simple.value == pytest.approx(0.617513511269, abs=6e-13)
    assert simple.se == pytest.approx(0.066035524124, abs=6e-13)
    partial = correlation(m, X1, Y, np.array([ONE, X2]), 0.95)
    assert partial.value == pytest.approx(0.609366784101, abs=6e-13)
    assert partial.se == pytest.approx(0.067766057116, abs=6e-13)


def test_two_stage(m):
    found = two_stage(m, np.array([ONE, X1]), np.array([ONE, X2]), Y, [1], [1])
    assert np.allclose(found.b, [1.342105263158, 0.789473684211], **EXACT)
    se = np.sqrt(np.diag(found.sampling + found.privacy))
    assert np.allclose(se, [0.157680133956, 0.516712742619], **EXACT)


def test_bias_bound():
    cv = critical_value(np.array([0.25, 0.5, 1.0]), 0.95)
    assert np.allclose(cv, [2.019713, 2.181477, 2.646146], rtol=0, atol=6e-7)
    # W = 9, k = 2, lambda = 1.5
    L, V = np.eye(2), np.eye(2)
    b, bias = np.array([3.0, 0.0]), np.array([np.sqrt(1.5), 0.0])
    found = wald(L, b, V, bias=bias)
    assert (found.statistic, found.noncentrality) == pytest.approx((9.0, 1.5))
    assert found.pvalue == pytest.approx(0.065403, abs=6e-7)
    assert wald(L, b, V).pvalue == pytest.approx(0.011109, abs=6e-7)


def test_the_corner_is_the_largest_and_its_bound_is_above():
    rng = np.random.default_rng(3)
    L, G = rng.normal(size=(2, 5)), rng.normal(size=(2, 2))
    inverse, bias = G @ G.T, rng.uniform(0, 1, 5)
    top = noncentrality(L, inverse, bias)
    d = L @ (rng.uniform(-1, 1, (5, 4000)) * bias[:, None])
    assert np.einsum("ic,ij,jc->c", d, inverse, d).max() <= top
    wide = np.hstack([L] * 3)
    assert noncentrality(wide, inverse, np.tile(bias, 3)) >= 9 * top - 1e-9


def test_noise_of_any_entry_variances_against_draws():
    """Seed 1; a covariance of 200 000 draws strays 5 of its sds with probability 6e-7 an entry."""
    rng = np.random.default_rng(1)
    k, draws = 3, 200_000
    V = rng.uniform(0.5, 2.0, (k, k))
    V = np.triu(V) + np.triu(V, 1).T
    upper = np.triu_indices(k)
    E = np.zeros((draws, k, k))
    E[:, upper[0], upper[1]] = rng.normal(size=(draws, len(upper[0]))) * np.sqrt(V[upper])
    E[:, upper[1], upper[0]] = E[:, upper[0], upper[1]]
    m = SecondMoments(np.eye(k), V, 10.0)
    B1, B2 = rng.normal(size=(2, k)), rng.normal(size=(2, k))
    r1, r2 = rng.normal(size=k), rng.normal(size=k)
    one, two = E @ r1 @ B1.T, E @ r2 @ B2.T
    seen = one.T @ two / draws
    sd = np.sqrt(np.outer((one**2).mean(0), (two**2).mean(0)) * 2 / draws)
    assert np.all(np.abs(seen - m.cross(B1, r1, B2, r2)) < 5 * sd)
    S = rng.normal(size=(k, k))
    S = S + S.T
    form = np.einsum("ij,dij->d", S, E)
    assert form.var() == pytest.approx(m.form_variance(S), rel=5 * np.sqrt(2 / draws))
