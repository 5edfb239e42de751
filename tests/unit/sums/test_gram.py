"""The Gram matrix on the lattice is exact, and its sensitivity holds in integers."""

import math

import numpy as np
import pytest

from dpmodels.proof.sets import STEPS
from dpmodels.sums import products
from dpmodels.sums.ask import ball_map as ballmap_of
from dpmodels.sums.cells import gram
from dpmodels.sums.products import ExactSum, cross_product, mapped
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale


def identity(q):
    return UnitScale(np.ones(q), np.zeros(q), False)


def ball_map(q, radius):
    return RowMap(identity(q), np.full(q, radius), ball=q, radius=radius)


def split(z, sizes):
    start = 0
    while start < z.shape[1]:
        for size in sizes:
            if start >= z.shape[1]:
                return
            yield z[:, start : start + size].copy()
            start += size


def test_equal_to_python_integers_and_to_any_split():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(4, 3000)) * 2
    rowmap = ball_map(4, 2.5)
    k = rowmap.integers(z.copy())
    rows = [[int(v) for v in col] for col in k.T]
    exact = [[sum(r[i] * r[j] for r in rows) for j in range(4)] for i in range(4)]
    for sizes in ([1], [7], [1000], [3000], [8192], [5, 999, 64]):
        assert gram(split(z, sizes), rowmap).integers().tolist() == exact
    order = rng.permutation(3000)
    assert gram(split(z[:, order], [1000]), rowmap).integers().tolist() == exact
    shards = gram(split(z[:, :1234], [512]), rowmap) + gram(split(z[:, 1234:], [100]), rowmap)
    assert shards.integers().tolist() == exact


def test_no_overflow_beyond_int64():
    # 2^21 rows at the bound: the sum is 2^61, and 16 such shards exceed int64
    block = np.full((1, 8192), 3.0)
    rowmap = RowMap(identity(1), np.array([1.0]))
    one = gram((block.copy() for _ in range(64)), rowmap)
    total = one
    for _ in range(31):
        total = total + one
    assert total.integers()[0, 0] == 64 * 32 * 8192 * 2**40
    assert 64 * 32 * 8192 * 2**40 >= 2**63


CORNERS = [0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 1e-320, np.nan, np.inf, -np.inf, 2.5, -2.5]


def test_row_bound_holds_exactly_for_any_cell():
    rng = np.random.default_rng(2)
    grid = np.array(np.meshgrid(*[CORNERS] * 3)).reshape(3, -1)
    z = np.hstack([grid, rng.normal(size=(3, 4000)) * 10.0 ** rng.uniform(-5, 5, 4000)])
    with np.errstate(all="ignore"):
        k = ball_map(3, 1.7).integers(z)
    assert np.isfinite(k).all()
    assert (k == np.trunc(k)).all()
    assert all(sum(int(v) ** 2 for v in row) <= 2**40 for row in k.T)


def test_missing_rows_are_zero_rows_intercept_included():
    z = np.array([[1.0, 1.0, 1.0], [2.0, np.nan, 3.0], [0.5, 0.5, np.nan]])
    k = ball_map(3, 10.0).real(z)
    assert (k[:, 1:] == 0).all()
    assert (k[:, 0] != 0).all()


@pytest.mark.parametrize("q", [2, 3, 5])
def test_frobenius_sensitivity_on_adversarial_neighbours(q):
    """|zz' - ww'|_F <= sqrt(2) 2^40 exactly; attained by orthogonal rows of full length."""
    rng = np.random.default_rng(3)
    rowmap = ball_map(q, 1.0)
    worst = 0.0
    rows = [np.eye(q)[0] * 5, np.eye(q)[1] * 5, -np.eye(q)[0], np.zeros(q), np.full(q, np.nan)]
    rows += list(rng.normal(size=(200, q)))
    base = rng.normal(size=(q, 3))
    for _ in range(800):
        a, b = rng.integers(len(rows), size=2)
        one = gram([np.column_stack([base, rows[a]])], rowmap).integers()
        two = gram([np.column_stack([base, rows[b]])], rowmap).integers()
        change = sum(int(v) ** 2 for v in (one - two).ravel())
        assert change <= 2 * 2**80
        worst = max(worst, change / (2 * 2**80))
    one = gram([np.column_stack([base, rows[0]])], rowmap).integers()
    two = gram([np.column_stack([base, rows[1]])], rowmap).integers()
    attained = sum(int(v) ** 2 for v in (one - two).ravel()) / (2 * 2**80)
    assert 1 - 1e-5 < attained <= 1.0
    assert worst <= 1.0


def test_affine_map_and_weights():
    unit = UnitScale(np.array([1.0, 0.5, 0.25]), np.array([0.0, -1.0, 0.5]), True)
    rowmap = RowMap(unit, np.array([1.0, 1.0, 1.0]), ball=2, radius=1.0)
    z = np.array([[1.0], [6.0], [2.0]])
    w = rowmap.real(z.copy())[:, 0]
    x = np.array([1.0, 6 * 0.5 - 1.0])
    factor = 1.0 / np.linalg.norm(x)
    assert w == pytest.approx([x[0] * factor, x[1] * factor, 1.0 * factor])
    projected = RowMap(unit, np.array([1.0, 1.0, 1.0]), ball=2, radius=1.0, project=True)
    assert projected.real(z.copy())[2, 0] == pytest.approx(1.0)


def test_back_map_inverts_the_unit_scale():
    rng = np.random.default_rng(4)
    unit = UnitScale(np.array([1.0, 2.0, 0.3, 0.7]), np.array([0.0, -1.0, 0.2, 0.4]), True)
    beta = rng.normal(size=3)
    x = np.vstack([np.ones(50), rng.normal(size=(2, 50))])
    y = beta @ x
    u = unit.scale[:, None] * np.vstack([x, y]) + unit.shift[:, None]
    theta = np.linalg.lstsq(u[:3].T, u[3], rcond=None)[0]
    A, a = unit.back()
    assert A @ theta + a == pytest.approx(beta, rel=1e-10)


def test_a_gram_says_nothing_of_its_content():
    g = gram([np.full((2, 3), 0.123456)], ball_map(2, 1.0))
    assert "confidential" in repr(g)
    assert not any(ch.isdigit() for ch in repr(g).replace("2 x 2", ""))


def test_steps_are_what_the_proof_needs():
    assert STEPS == 2.0**20
    assert 8192 * STEPS**2 <= 2.0**53
    assert math.log2(STEPS) == 20


def test_a_row_is_scaled_by_itself_alone():
    """Blocks without long rows take a shorter path: the image of a row must not tell."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(4, 600))
    z /= np.linalg.norm(z, axis=0)
    z *= np.where(rng.uniform(size=600) < 0.5, rng.uniform(0.1, 0.99, 600), 1.0)
    z[:, ::3] *= 1.0 + rng.integers(-8, 9, 200) * 2.0**-53  # around the sphere, by single bits
    z[:, 1::3] *= 1.0 + rng.integers(-8, 9, 200) * 2.0**-37
    long, missing = np.array([[3.0], [4.0], [0.0], [1e200]]), np.full((4, 1), np.nan)
    for rowmap in (
        ball_map(4, 1.0),
        RowMap(identity(4), np.ones(4), ball=3, radius=1.0),
        RowMap(identity(4), np.ones(4), ball=3, radius=1.0, project=True),
    ):
        alone = np.hstack([rowmap.integers(z[:, [i]].copy()) for i in range(600)])
        with np.errstate(all="ignore"):
            for others in (z[:, :0], long, missing, np.repeat(long, 400, axis=1)):
                together = rowmap.integers(np.hstack([z, others]))[:, :600]
                assert np.array_equal(together, alone)
        ball = alone[: rowmap.ball]
        assert all(sum(int(v) ** 2 for v in row) <= 2**40 for row in ball.T)


@pytest.mark.parametrize("q", [1, 2, 3, 7, 12, 16, 17, 30])
@pytest.mark.parametrize("m", [0, 1, 700, 5001, 8192])
@pytest.mark.parametrize("small_kernels", [False, True])
def test_products_in_parts_are_the_products(q, m, small_kernels, monkeypatch):
    monkeypatch.setattr(products, "_small_kernels", lambda: small_kernels)
    rng = np.random.default_rng(q)
    z = rng.integers(-(2**20), 2**20 + 1, size=(q, m)).astype(float)
    assert np.array_equal(cross_product(z), [[np.dot(a, b) for b in z] for a in z])
    matrix = rng.normal(size=(q + 1, q))
    assert np.allclose(mapped(matrix, z), matrix @ z, rtol=1e-12, atol=1e-6)


def test_words_carry_before_they_overflow():
    total = ExactSum(1, 1)
    for _ in range(1500):
        total.add(np.array([[2.0**53]]))
    total.add(np.array([[-5.0]]))
    assert total.integers().tolist() == total.integers().tolist() == [[1500 * 2**53 - 5]]


@pytest.mark.parametrize("q", [2, 7, 12, 33])
def test_where_rows_move_their_images_do_not(q):
    """Under add-remove the rows after the changed one move by one place; BLAS rounds by place."""
    rng = np.random.default_rng(q)
    matrix, z = rng.normal(size=(q, q)), rng.normal(size=(q, 500))
    whole = mapped(matrix, z)
    assert np.allclose(whole, matrix @ z, rtol=1e-12, atol=1e-12)
    for start, stop in [(0, 1), (1, 2), (3, 500), (17, 116), (499, 500)]:
        part = mapped(matrix, z[:, start:stop].copy())
        assert np.array_equal(part, whole[:, start:stop])
    rowmap = ballmap_of(identity(q), 2.0, matrix)
    k = rowmap.integers(z.copy())
    for gone in (0, 250, 499):
        kept = np.delete(z, gone, axis=1)
        assert np.array_equal(rowmap.integers(kept.copy()), np.delete(k, gone, axis=1))


@pytest.mark.parametrize("q", [2, 5, 8, 11, 16, 21, 40, 72])
def test_the_image_of_a_row_does_not_depend_on_its_place(q):
    """Bit by bit, with the BLAS at hand: a table sorted by a column moves rows by one place."""
    rng = np.random.default_rng(q)
    matrix, rows = np.tril(rng.normal(size=(q, q))), rng.normal(size=(q, 8193))
    whole = mapped(matrix, np.ascontiguousarray(rows[:, :8192]))
    moved = mapped(matrix, np.ascontiguousarray(rows[:, 1:]))
    assert np.array_equal(whole[:, 1:], moved[:, :-1])
    for m in (1, 2, 3, 7, 9, 17, 33, 65, 100, 333, 4097, 8191):
        part = mapped(matrix, np.ascontiguousarray(rows[:, 1 : m + 1]))
        assert np.array_equal(part, moved[:, :m])
