"""Shrinkage, subsets and components on moments whose answers are known."""

import itertools

import numpy as np
import pytest

from dpmodels.after.inference import anderson_rubin, two_stage
from dpmodels.after.moments import (
    SecondMoments,
    best_subset,
    components,
    isotropic_noise,
    lasso,
    regress,
    score,
    slopes,
)

ONE, *X, Y = np.eye(6)


def moments(s=0.0, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)) @ np.array(
        [[1, 0.4, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]
    )
    y = 1 + x @ [1, 0, -0.5, 0] + rng.normal(size=n)
    W = np.column_stack([np.ones(n), x, y])
    return SecondMoments(W.T @ W, isotropic_noise(6, s), float(n), ONE), W


def test_ridge_and_lasso_are_the_textbook_ones_without_noise():
    m, W = moments()
    s = slopes(m, np.array(X), Y, ONE)
    Z = (W[:, 1:5] - W[:, 1:5].mean(0)) / W[:, 1:5].std(0)
    y = W[:, 5] - W[:, 5].mean()
    assert np.allclose(
        s.ridge(0.3), np.linalg.solve(Z.T @ Z / 4000 + 0.3 * np.eye(4), Z.T @ y / 4000)
    )
    assert np.allclose(s.user(s.ridge(0.0)), np.linalg.lstsq(W[:, :5], W[:, 5], rcond=None)[0])
    sk = pytest.importorskip("sklearn.linear_model")
    ours = lasso(s.M, s.h, 0.2)
    theirs = sk.Lasso(alpha=0.2, fit_intercept=False, tol=1e-12).fit(Z, y).coef_
    assert np.allclose(ours, theirs, atol=1e-8)
    assert not lasso(s.M, s.h, np.abs(s.h).max() * 1.001).any()


def test_the_floor_makes_a_lost_problem_convex():
    m, _ = moments(s=1e5)
    assert np.linalg.eigvalsh(slopes(m, np.array(X), Y, ONE).M)[0] > 0


def test_best_subset_counts_every_subset():
    m, W = moments()
    found = best_subset(m, ONE, [x[None] for x in X], Y)
    assert len(found) == 16 and found[0][0] == (0, 2)
    for chosen, bic, _ in found[::5]:
        Z = W[:, [0, *(1 + j for j in chosen)]]
        rss = np.sum((W[:, 5] - Z @ np.linalg.lstsq(Z, W[:, 5], rcond=None)[0]) ** 2)
        assert bic == pytest.approx(4000 * np.log(rss / 4000) + Z.shape[1] * np.log(4000))


def test_components():
    m, W = moments()
    found = components(m, np.array(X), ONE, standardised=False)
    assert np.allclose(found.values, np.linalg.eigvalsh(np.cov(W[:, 1:5].T, bias=True))[::-1])
    assert found.noise == 0.0
    assert components(m, np.array(X), ONE, standardised=True).values.sum() == pytest.approx(4)


def test_anderson_rubin_is_where_the_score_test_does_not_reject():
    m, _ = moments(s=20.0)
    fit = two_stage(m, np.array([ONE, X[0]]), np.array([ONE, X[1]]), Y, [1], [1])
    found = anderson_rubin(m, ONE[None], X[1][None], X[0], Y, 0.95, fit.b[1], 0.1)
    assert len(found) == 1
    for end, side in itertools.product(found[0], (-1e-6, 1e-6)):
        b0 = end + side
        inside = found[0][0] < b0 < found[0][1]
        p = score(m, ONE[None], X[1][None], Y - b0 * X[0]).pvalue
        assert (p > 0.05) == inside
    # an instrument that says nothing: the whole line, or nearly
    weak = anderson_rubin(m, ONE[None], X[3][None], X[0], Y, 0.95, 0.0, 1.0)
    assert weak[0][0] == -np.inf or weak[-1][1] == np.inf


def test_score_and_wald_agree_without_noise_and_trust_is_free_of_the_basis():
    m, _ = moments(s=30.0)
    B = np.array([ONE, *X[:3]])
    turn = np.random.default_rng(1).normal(size=(4, 4)) * 50
    assert regress(m, turn @ B, Y).trust == pytest.approx(regress(m, B, Y).trust)
