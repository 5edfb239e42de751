"""Sensitivity of everything that ePTR least squares releases, on random and corner neighbours."""

import math

import numpy as np
import pytest

from dpmodels.own.least_squares import smallest_eigenvalue, solve_projected
from dpmodels.proof.sets import ls_bound
from dpmodels.sums.ask import Residuals
from dpmodels.sums.cells import gram
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale

SLACK = 1 + 1e-9


def corner_rows(rng, p, count):
    """Rows on and inside the bounds |x| <= 1, |y| <= 1, with parallel and orthogonal directions."""
    x = rng.normal(size=(count, p))
    x /= np.linalg.norm(x, axis=1)[:, None]
    kind = rng.integers(6, size=count)
    x[kind == 0] = np.eye(p)[0]
    x[kind == 1] = -np.eye(p)[p - 1]
    x[kind == 2] *= rng.uniform(size=(np.sum(kind == 2), 1))
    x[kind == 3] = 0.0
    y = rng.choice([-1.0, 1.0, 0.0, 0.5], size=count, p=[0.4, 0.4, 0.1, 0.1])
    return x, y


def pairs(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        p = int(rng.integers(1, 4))
        n = int(rng.integers(p + 1, 10))
        x, y = corner_rows(rng, p, n + 1)
        if rng.uniform() < 0.3:  # duplicates make a large step of one row more dangerous
            x[1:n] = x[1]
            y[1:n] = y[1]
        other = np.r_[n, np.arange(1, n)]
        yield x[:n], y[:n], x[other], y[other]


def test_smallest_eigenvalue_moves_by_one_row():
    worst = 0.0
    for x, _, z, _ in pairs(1, 4000):
        change = abs(smallest_eigenvalue(x.T @ x) - smallest_eigenvalue(z.T @ z))
        assert change <= SLACK
        worst = max(worst, change)
    assert worst > 0.95  # the search reaches the bound, so a smaller one would fail


@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0])
def test_projected_estimator_moves_by_the_bound(radius):
    """|Proj th - Proj th'| <= B(R) / lam_o, so <= B(R) / (max(lam, lam') - 1) wherever defined."""
    bound, worst = ls_bound(1.0, 1.0, radius), 0.0
    for x, y, z, w in pairs(2, 12_000):
        lam = max(np.linalg.eigvalsh(x.T @ x)[0], np.linalg.eigvalsh(z.T @ z)[0])
        low = min(np.linalg.eigvalsh(x.T @ x)[0], np.linalg.eigvalsh(z.T @ z)[0])
        if low < 1e-9:
            continue
        one = solve_projected(x.T @ x, x.T @ y, radius)
        two = solve_projected(z.T @ z, z.T @ w, radius)
        change = float(np.linalg.norm(one - two))
        # the proved form: the eigenvalue of the side opposite the smaller estimate
        assert change <= bound / low * (1 + 1e-7)
        if lam > 1.0 + 1e-9:
            # the form that is used: any l <= max(lam, lam') with room l - 1
            assert change <= bound / (lam - 1.0) * (1 + 1e-7)
        worst = max(worst, change * low / bound)
    assert worst > 0.4


def test_a_bound_without_its_cross_term_is_caught():
    """Mutant: 2 R_x R_y instead of B(R). The same search must refute it."""
    broken = 2.0
    for x, y, z, w in pairs(2, 12_000):
        low = min(np.linalg.eigvalsh(x.T @ x)[0], np.linalg.eigvalsh(z.T @ z)[0])
        if low < 1e-9:
            continue
        one = solve_projected(x.T @ x, x.T @ y, 4.0)
        two = solve_projected(z.T @ z, z.T @ w, 4.0)
        if np.linalg.norm(one - two) > broken / low * (1 + 1e-7):
            return
    raise AssertionError("the search cannot tell B(R) from 2 R_x R_y")


@pytest.mark.parametrize("rho", [0.5, 3.0])
def test_ridge_form(rho):
    bound = ls_bound(1.0, 1.0, 1.0)
    for x, y, z, w in pairs(3, 4000):
        p = x.shape[1]
        lam = max(np.linalg.eigvalsh(x.T @ x)[0], np.linalg.eigvalsh(z.T @ z)[0])
        one = solve_projected(x.T @ x + rho * np.eye(p), x.T @ y, 1.0)
        two = solve_projected(z.T @ z + rho * np.eye(p), z.T @ w, 1.0)
        room = max(lam - 1.0, 0.0) + rho
        assert np.linalg.norm(one - two) <= bound / room * (1 + 1e-7)


def row_map(p):
    unit = UnitScale(np.ones(p + 1), np.zeros(p + 1), False)
    return RowMap(unit, np.ones(p + 1), ball=p, radius=1.0)


def test_residual_statistic_with_the_released_vector():
    """Integer change at most 2^30, whatever the released vector and whatever the cells."""
    rng = np.random.default_rng(4)
    odd = np.array([[1e300, -1.0], [np.nan, 1.0], [np.inf, -np.inf], [0.0, 1.0]])
    worst = 0
    for _ in range(500):
        x, y = corner_rows(rng, 2, 6)
        rows = np.column_stack([x, y]).T
        theta = rng.normal(size=2) * 3
        other = rows.copy()
        pick = rng.integers(4)
        other[:, 0] = [*odd[pick], 1.0] if rng.uniform() < 0.5 else -rows[:, 1]
        a = Residuals(row_map(2), theta, 1.0).over([rows.copy()])
        b = Residuals(row_map(2), theta, 1.0).over([other.copy()])
        assert abs(a - b) <= 2**30
        worst = max(worst, abs(a - b))
    assert worst == 2**30


def test_the_exact_vector_would_break_the_residual_bound():
    """The counterexample of the theory note: change 2.61 where 1 is claimed."""
    x = np.array([-1, -1, 0.5, -1, -0.5])
    y = np.array([1, -1, 1, 1, -1.0])
    z, w = x.copy(), y.copy()
    z[0], w[0] = -1, -1

    def rss(a, b):
        r = b - a * (a @ b) / (a @ a)
        return float(np.sum(np.clip(r, -1, 1) ** 2))

    assert abs(rss(x, y) - rss(z, w)) == pytest.approx(2.61, abs=0.01)


def test_scale_matrix_is_bounded_by_the_row_ball():
    rng = np.random.default_rng(5)
    rowmap = row_map(3)
    for _ in range(300):
        x, y = corner_rows(rng, 3, 5)
        rows = np.column_stack([x * rng.uniform(0, 3), y]).T
        other = rows.copy()
        other[:, 0] = rng.normal(size=4) * 100
        a = gram([rows], rowmap).integers()[:3, :3]
        b = gram([other], rowmap).integers()[:3, :3]
        assert sum(int(v) ** 2 for v in (a - b).ravel()) <= 2 * 2**80
    assert math.sqrt(2) * 2**40 >= math.sqrt(2 * 2**80) * (1 - 1e-15)


def test_unclipped_residual_sum_at_the_released_vector():
    """t'Gt with t = (-theta, 1) moves by at most (R_y + R |theta|)^2, and the bound is reached."""
    rng = np.random.default_rng(6)
    worst = 0.0
    for x, y, z, w in pairs(7, 3000):
        p = x.shape[1]
        theta = rng.normal(size=p)
        if rng.uniform() < 0.5:  # a row that points along theta, its label against it
            theta = -z[0] * w[0] * 2 if np.any(z[0]) else theta
        bound = (1.0 + np.linalg.norm(theta)) ** 2
        change = abs(np.sum((y - x @ theta) ** 2) - np.sum((w - z @ theta) ** 2))
        assert change <= bound * SLACK
        worst = max(worst, change / bound)
    assert worst > 0.9
