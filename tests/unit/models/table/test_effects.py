"""Least squares of margins in closed form: the specification's numbers, and dense algebra."""

import math

import numpy as np
import pytest

from dpmodels.models.table.noise import (
    Effects,
    Measured,
    Spread,
    critical,
    fieller,
    share_interval,
    subsets,
)

CELLS = np.array([[12.0, 7, 9], [20, 15, 8]])


def oracle():
    return Effects(
        (2, 3),
        [
            Measured((0, 1), CELLS, 4.0),
            Measured((0,), np.array([30.0, 41.0]), 1.0),
            Measured((1,), np.array([33.0, 20.0, 19.0]), 1.0),
        ],
        None,
    )


def test_oracle_of_consistency():
    e = oracle()
    wanted = [12.975173, 6.641840, 10.419617, 19.744404, 13.411070, 8.188848]
    assert e.table((0, 1)).ravel() == pytest.approx(wanted, abs=5e-7)
    sds = [math.sqrt(e.variance(a)) for a in ((0, 1), (0,), (1,), ())]
    assert sds == pytest.approx([1.250804, 0.864438, 0.848279, 1.069045], abs=5e-7)
    assert e.table((0, 1)).sum(axis=1) == pytest.approx(e.table((0,)))
    assert e.table((0, 1)).sum() == pytest.approx(float(e.table(())))


def dense(sizes, tables, total=None):
    """(A'WA)^{-1} A'W y and its covariance over the joint table; an exact total as a tiny variance."""
    rows, y, w = [], [], []
    joint = list(np.ndindex(*sizes))
    for t in tables:
        for cell in np.ndindex(*t.values.shape):
            rows.append([float(all(j[a] == c for a, c in zip(t.axes, cell, strict=True))) for j in joint])
            y.append(t.values[cell])
            w.append(1.0 / t.variance)
    if total is not None:
        rows.append([1.0] * len(joint))
        y.append(total)
        w.append(1e8)
    A, W = np.array(rows), np.array(w)
    V = np.linalg.inv((A.T * W) @ A)
    return (V @ (A.T * W) @ np.array(y)).reshape(sizes), V


@pytest.mark.parametrize("total", [None, 50.0])
def test_three_axes_are_least_squares(total):
    rng = np.random.default_rng(1)
    sizes = (2, 3, 4)
    tables = [
        Measured(a, rng.normal(5, 3, [sizes[j] for j in a]), v)
        for a, v in (((0, 1, 2), 3.0), ((0, 1), 1.0), ((2,), 0.5), ((1, 2), 2.0), ((1,), 0.7))
    ]
    x, V = dense(sizes, tables, total)
    e = Effects(sizes, tables, total)
    assert e.table((0, 1, 2)) == pytest.approx(x, abs=1e-5)
    assert e.variance((0, 1, 2)) == pytest.approx(V[0, 0], rel=1e-5)
    inner = np.arange(24).reshape(sizes)[:-1, :-1, :-1].ravel()
    assert e.noise_covariance((0, 1, 2)) == pytest.approx(V[np.ix_(inner, inner)], abs=1e-5)
    index = np.arange(24).reshape(sizes)
    for axes in subsets((0, 1, 2)):
        gone = tuple(j for j in range(3) if j not in axes)
        cell = index[tuple(0 if j in axes else slice(None) for j in range(3))].ravel()
        pick = np.isin(np.arange(24), cell).astype(float)
        assert e.table(axes) == pytest.approx(x.sum(axis=gone), abs=1e-5)
        assert e.variance(axes) == pytest.approx(pick @ V @ pick, rel=1e-4, abs=1e-6)
        if axes:
            assert e.covariance((0, 1, 2), axes) == pytest.approx(V[0] @ pick, rel=1e-4, abs=1e-6)


def test_a_margin_is_never_worse_than_measured():
    e = oracle()
    for t in e.tables:
        assert e.variance(t.axes) <= t.variance * (1 + 1e-12)


def test_the_spread_of_laplace_noise_has_its_fourth_moment():
    """4e5 draws: the sampling sd of the kurtosis is below .02 of it."""
    rng = np.random.default_rng(2)
    scale = {(0, 1): 2.0, (0,): 1.0}
    shape = {(0, 1): (2, 3), (0,): (2,)}
    none = [Measured(a, np.zeros(shape[a]), 2 * b * b, b) for a, b in scale.items()]
    spread = Effects((2, 3), none, 10.0).spread((0,))
    draws = np.array(
        [
            Effects(
                (2, 3),
                [Measured(t.axes, rng.laplace(0, t.laplace, t.values.shape), t.variance)
                 for t in none],
                0.0,
            ).table((0,))[0]
            for _ in range(1500)
        ]
    )  # fmt: skip
    assert draws.var() == pytest.approx(spread.variance, rel=0.2)
    c = critical(spread, 0.95)
    assert np.mean(np.abs(draws) <= c) == pytest.approx(0.95, abs=4 * 0.0057)
    a, b = rng.laplace(0, 1, 400_000), rng.normal(0, 0.8, 400_000)
    mixed = Spread(2.0 + 0.64, 1.0)
    assert np.mean(np.abs(a + b) <= critical(mixed, 0.95)) == pytest.approx(0.95, abs=0.0015)


def test_critical_values_at_the_ends():
    assert critical(Spread(4.0), 0.95) == pytest.approx(2 * 1.959964, abs=1e-5)
    assert critical(Spread(2.0, 1.0), 0.95) == pytest.approx(-math.log(0.05))
    assert critical(Spread(0.0), 0.95) == 0.0


def test_oracle_of_a_share():
    low, high = share_interval(np.array(0.3), 200, 0.03, 1.959963985)
    assert (float(low), float(high)) == pytest.approx((0.217956, 0.389582), abs=5e-7)
    low, high = share_interval(np.array([-0.5, 1.4]), 50, 0.01, 1.96)
    assert np.isfinite(low).all() and np.isfinite(high).all()


def test_fieller():
    low, high = fieller(np.array([30.0, 1.0]), np.array([100.0, 2.0]), np.array([9.0, 4.0]), 1.96)
    for m in (low[0], high[0]):
        assert (30 - 100 * m) ** 2 == pytest.approx(1.96**2 * (9 + 4 * m * m))
    assert np.isnan(low[1]) and np.isnan(high[1])
