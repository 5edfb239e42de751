"""Sums of integer rows: kernels, components and information. The bounds hold and are attained."""

import math

import numpy as np
import pytest

from dpmodels.core import kernels
from dpmodels.core.kernels import AtPoints, OnGrid
from dpmodels.core.sets import UnitMatrices
from dpmodels.models.components import working_map
from dpmodels.models.objpert import information_row
from dpmodels.own.kernel_curve import at_points, gaussian, lattice_error
from dpmodels.own.minimum import (
    LatticeSums,
    LogisticLoss,
    PoissonLoss,
    WorkingRows,
    evaluate,
    grain,
    real_sums,
)
from dpmodels.sums.cells import gram
from dpmodels.sums.products import mapped
from tests.one_pass import sums_of

STEP = 2.0**44


def reader(z):
    return z[:-1], z[-1]


def lattice_sums(blocks, formula, points, h):
    return sums_of(AtPoints(points, h), formula, blocks).arrays


def lattice_sums_of_losses(blocks, *given, **more):
    return LatticeSums(*given, **more).over(blocks).arrays


def grid_sums(blocks, formula, d):
    return sums_of(OnGrid(np.zeros((1, d)), 1.0), formula, blocks).arrays


def adversarial(rng, points, count=400):
    """Rows at query points, at corners and in between; responses at their bounds, or missing."""
    for _ in range(count):
        x = (
            points[rng.integers(len(points))]
            if rng.random() < 0.5
            else rng.choice([-1.0, 0.3, 1.0], 3)
        )
        y = rng.choice([-1.0, 1.0, np.nextafter(1.0, 0.0), -0.7, 0.0, np.nan])
        yield np.append(x, y)[:, None]


def of_row(row, points, h):
    n_high, n_low, d_high, d_low = lattice_sums([row.copy()], reader, points, h)
    word = 2**22
    return [int(v) for v in n_high * word + n_low], [int(v) for v in d_high * word + d_low]


def test_a_row_of_a_direct_sum_is_a_weighted_response():
    """0 <= k <= 2^44 K and |t| <= k: what the proofs of f and of D ask for; 2^44 is attained."""
    rng = np.random.default_rng(0)
    points, most = rng.uniform(-1, 1, (9, 3)), 0
    for number, row in enumerate(adversarial(rng, points)):
        h = (0.4, 0.01)[number % 2]
        t, k = of_row(row, points, h)
        distance = ((points.astype(np.longdouble) - row[:3, 0]) ** 2).sum(1)
        K = np.exp(-0.5 * distance / np.longdouble(h) ** 2)
        for a, b, true in zip(t, k, K, strict=True):
            if math.isnan(row[3, 0]):
                assert a == b == 0
                continue
            slack = STEP * 1e-14
            assert 0 <= b <= 2**44 and abs(a) <= b
            assert -1.0 - slack <= b - STEP * true <= slack
            assert abs(a - STEP * true * row[3, 0]) <= 1.0 + slack
            most = max(most, b)
    assert most == 2**44


def test_what_truncation_adds_to_a_change():
    """Of two rows at one point, and what a nearly singular K makes of it: attained up to 1.7."""
    rng, worst = np.random.default_rng(1), 0.0
    point, images = np.zeros((1, 1)), []
    for x in rng.uniform(-1, 1, 20_000):
        K = float(np.exp(-0.5 * x * x))
        low = K * STEP - math.floor(K * STEP)
        if low > 0.97:
            images += [(y, np.array([y, 1.0]) * low) for y in (-1.0, 1.0)]
    (down, *_), (up, *_) = ([e for y, e in images if y == s] for s in (-1.0, 1.0))
    worst = float(np.linalg.norm(up - down)) / STEP
    assert 0.65 * lattice_error(1, 1.0) < worst <= lattice_error(1, 1.0)
    t, k = of_row(np.array([[0.5], [1.0]]), point, 1.0)
    assert t == k  # the rows above are those of a response of 1

    points, ridge = np.linspace(-0.01, 0.01, 12)[:, None], 1e-8
    values, vectors = np.linalg.eigh(gaussian(points, points, 0.5) + ridge * np.eye(12))
    inverse = vectors / np.sqrt(values)  # |inverse' e| = |L^{-1} e|
    sizes = np.linalg.norm(inverse.T @ np.sign(vectors), axis=0)  # of vectors of +-1
    attained = float(sizes.max()) * math.sqrt(2.0**2 + 1.0**2) / STEP  # of N, and of D
    assert 0.3 * lattice_error(12, ridge) < attained <= lattice_error(12, ridge)


def test_the_functional_release_of_direct_sums_stays_in_its_bound():
    rng = np.random.default_rng(5)
    points, h, worst = rng.uniform(-1, 1, (20, 3)), 0.5, 0.0
    L = np.linalg.cholesky(gaussian(points, points, h) + 1e-8 * np.eye(20))
    base = np.vstack([rng.uniform(-1, 1, (3, 3)), [1.0, -1.0, 0.2]])
    rows = list(adversarial(rng, points, 80))
    for one, other in zip(rows[:40], rows[40:], strict=True):
        into = AtPoints(points, h)
        sums = [
            at_points(into, lattice_sums([np.hstack([base, r])], reader, points, h)) for r in (one, other)
        ]
        change = np.column_stack([sums[0][0] - sums[1][0], sums[0][1] - sums[1][1]])
        size = float(np.linalg.norm(np.linalg.solve(L, change)))
        assert size <= 2.0 * (1.0 + 2.0**-20) + lattice_error(20, 0.25e-8)
        worst = max(worst, size)
    assert worst > 1.9


def test_sums_of_kernels_do_not_depend_on_blocks_or_places():
    rng = np.random.default_rng(2)
    points, block = rng.uniform(-1, 1, (7, 3)), rng.uniform(-1, 1, (4, 3_001))
    block[3, ::50] = np.nan
    whole = lattice_sums([block.copy()], reader, points, 0.2)
    order = rng.permutation(block.shape[1])
    moved = block[:, order]
    parts = [moved[:, a:b] for a, b in ((0, 1), (1, 1_000), (1_000, 1_007), (1_007, 3_001))]
    again = [joined_words(w) for w in (whole, lattice_sums(parts, reader, points, 0.2))]
    assert again[0] == again[1]


def joined_words(words):
    high_n, low_n, high_d, low_d = (w.astype(object) for w in words)
    return (high_n * 2**22 + low_n).tolist(), (high_d * 2**22 + low_d).tolist()


@pytest.mark.parametrize("d", [1, 2])
def test_a_row_on_the_grid_is_a_convex_combination(d):
    """Weights are whole, at least 0, sum to one; no label exceeds its weight; none overflows."""
    rng = np.random.default_rng(3)
    one, label = int(kernels.WEIGHT_STEPS) ** d, int(kernels.LABEL)
    for _ in range(60):
        x = rng.choice([-1.0, 1.0, -0.9999, 0.1, rng.uniform(-1, 1)], d)
        row = np.append(x, rng.choice([-1.0, 1.0, 0.37]))[:, None]
        high, low, count = grid_sums([row], reader, d)
        labels = high.astype(object) * 2**22 + low
        assert count.min() >= 0 and count.sum() == one
        assert all(abs(int(labels[c])) <= label * int(count[c]) for c in np.flatnonzero(count))
    assert not np.any(labels[count == 0])
    full = np.tile(np.append(np.ones(d), 1.0)[:, None], 8192)
    high, low, count = grid_sums([full, full.copy()], reader, d)
    assert (low >= 0).all() and (low < 2 * 2**22).all()  # 2^41 blocks fit
    assert int(high[-1]) * 2**22 + int(low[-1]) == 2 * 8192 * one * label
    n, _ = at_points(OnGrid(np.ones((1, d)), 0.1), (high * 2**30, low * 0, count))
    assert n[0] == pytest.approx(2.0**30 * 2 * 8192, rel=1e-12)  # beyond 64 bits


ROWS = [(9.0, 0.0, 0.0), (1.0, 1.0, 1.0), (1e100, -1e100, 0.0), (0.1, 0.2, 0.3), (-4.0, 4.0, -4.0)]


def test_a_working_row_of_the_components_is_in_the_unit_ball():
    rowmap = working_map(np.array([1.0, 0.5, 3.0]), np.array([0.0, 0.1, -2.0]), 1.5)
    sizes = []
    for row in [*ROWS, (np.nan, 1.0, 1.0), (1.0, np.inf, 1.0)]:
        G = gram([np.array(row)[:, None]], rowmap).integers()
        sizes.append(math.sqrt(float((np.asarray(G, dtype=float) ** 2).sum())) / 2.0**40)
    assert max(sizes) <= 1.0 and max(sizes) > 0.999 and min(sizes[:5]) > 0
    assert sizes[5] == 0.0


def information_sums(blocks, *given):
    def row(z):
        return information_row(z, *given)

    return sums_of(UnitMatrices(len(given[2]), len(given[3])), row, blocks)


def test_whatever_a_formula_returns_is_a_unit_matrix():
    rows = [*ROWS, (np.nan, 1.0, 1.0), (1.0, np.inf, 1.0), (1e300, 1e300, 1e300), (1.0, 1e-5, 0.0)]
    for row in rows:
        block = np.array(row)[:, None]
        for M in sums_of(UnitMatrices(3, 2), lambda z: (z, 0.9 * z), [block]):
            assert int((M * M).sum()) <= 2**80


@pytest.mark.parametrize("loss", [LogisticLoss(), PoissonLoss(5.0)])
def test_a_row_of_the_information_is_in_the_unit_ball(loss):
    B, R = 1.5, 3.0
    working = WorkingRows(
        np.ones(3), np.zeros(3), B, R, y_max=None if loss.one_sided else 5.0,
        thins=not loss.one_sided,
    )  # fmt: skip
    scales = (loss.curvature * B * R, (loss.score * B) ** 2)[: 2 - loss.one_sided]
    most = np.zeros(len(scales))
    for theta in (np.zeros(3), np.array([0.9999 * math.log(5.0) / R, 0.0, 0.0]), np.full(3, 40.0)):
        for row in [*ROWS, (R, 0.0, 0.0), (0.0, B, 0.0), (0.9999 * R, 0.0, 0.0)]:
            for y in (0.0, 1.0, 5.0, np.nan):
                block = np.append(row, y)[:, None]
                sums = information_sums([block.copy()], working, loss, theta, scales)
                for i in range(len(scales)):
                    M = np.asarray(sums[i], dtype=float) / 2.0**40
                    assert np.linalg.norm(M) <= 1.0
                    most[i] = max(most[i], np.linalg.norm(M))
    assert (most > 0.99).all()


def test_the_information_is_the_hessian():
    rng = np.random.default_rng(4)
    block = np.vstack([rng.normal(size=(3, 5_000)), rng.integers(0, 2, 5_000)])
    working, theta = WorkingRows(np.ones(3), np.zeros(3), 1.5, 3.0), np.array([0.5, -1.0, 0.2])
    H = evaluate([block.copy()], working, LogisticLoss(), theta)[2]
    (sums,) = information_sums([block.copy()], working, LogisticLoss(), theta, (0.25 * 4.5,))
    found = np.asarray(sums, dtype=float) / 2.0**40 * 0.25 * 4.5
    assert found == pytest.approx(H, abs=5_000 * 3 * 2.0**-20)
    moved = np.hstack([np.full((4, 3), np.nan), block])  # no integer depends on its place
    again = information_sums([moved], working, LogisticLoss(), theta, (0.25 * 4.5,))
    assert all((a == b).all() for a, b in zip((sums,), again, strict=True))


# -- steps of the optimiser of objective perturbation ---------------------------------------------
def exact_gradient(block, working, loss, theta):
    """Return the gradient of a block in fractions of the floats of its rows, rounded once."""
    X, y, w = working.apply(block.copy())
    _, first, _ = loss.terms(mapped(theta[None], X)[0], y, w)
    return np.array([math.fsum(row) for row in X * first])


@pytest.mark.parametrize("loss", [LogisticLoss(), PoissonLoss(365.0)])
def test_the_gradient_of_integers_is_as_near_as_its_certificate_says(loss):
    rng, n = np.random.default_rng(6), 20_000
    most = 1.0 if loss.one_sided else 365.0
    rows = WorkingRows(
        np.ones(3), np.zeros(3), 1.4, 2.8, y_max=None if loss.one_sided else 365.0,
        thins=not loss.one_sided,
    )  # fmt: skip
    tight = 2.0**-63 * n * math.sqrt(3.0) * rows.radius * loss.score
    for scale in (1.0, 1e-9, 30.0):
        y = rng.integers(0, 2, n) * most
        block = np.vstack([np.ones(n), rng.normal(size=(2, n)) * scale, y])
        block[1, ::100] = np.nan
        theta = rng.normal(size=3)
        words = lattice_sums_of_losses([block.copy()], rows, loss, theta, True)
        value, gradient, hessian = real_sums(words, rows, loss)
        exact = exact_gradient(block, rows, loss, theta)
        # 2^-52 of the sum: both are rounded to floats once
        assert np.linalg.norm(gradient - exact) <= tight + 2.0**-52 * np.linalg.norm(exact)
        F, _, H = evaluate([block.copy()], rows, loss, theta)
        assert value == pytest.approx(F, rel=1e-12, abs=1e-8)
        bound = loss.curvature * rows.radius * rows.reach
        assert hessian == pytest.approx(H, abs=n * 3 * 2.0**-20 * bound)
        # in any order and cut, and at any place
        order = rng.permutation(n)
        parts = [block[:, order][:, a:b] for a, b in ((0, 7), (7, 8_000), (8_000, n))]
        again = real_sums(lattice_sums_of_losses(parts, rows, loss, theta, True), rows, loss)
        assert (again[1] == gradient).all() and (again[2] == hessian).all()


def test_where_the_objective_cannot_be_computed_no_step_is_taken():
    rows, loss = WorkingRows(np.ones(1), np.zeros(1), 1.0, 1.0), LogisticLoss()
    for theta in (np.array([np.inf]), np.array([np.nan])):
        words = lattice_sums_of_losses(
            [np.array([[0.5, 0.0], [1.0, 0.0]])], rows, loss, theta, True
        )
        assert real_sums(words, rows, loss)[0] >= 2.0**31


def test_integer_words_of_gradients_do_not_overflow():
    """The longest rows: each word stays below what a float sum of a block holds exactly."""
    n, loss = 8192, PoissonLoss(1000.0)
    rows = WorkingRows(np.ones(1), np.zeros(1), 1.99, 1.99, y_max=1000.0, thins=True)
    block = np.vstack([np.full(n, 1.99), np.full(n, 1000.0)])
    _, _, high, low, *_ = lattice_sums_of_losses([block], rows, loss, np.array([-40.0]), False)
    assert abs(int(high[0])) <= n * 2**38 <= 2**53 and abs(int(low[0])) <= n * 2**26
    step = grain(rows, loss)
    assert math.log2(step) == int(math.log2(step))
    assert 2.0**-64 <= step / (rows.radius * loss.score) <= 2.0**-63
