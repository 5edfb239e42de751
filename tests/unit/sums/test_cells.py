"""Sums by cell: the integers of the dense Gram matrix for boxes, the ball's own in a ball."""

import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from dpmodels.errors import PrivacyBugError
from dpmodels.formula.build import build_design, build_mean_design
from dpmodels.formula.schema import Schema
from dpmodels.models.linear.inference import rotated
from dpmodels.places import WINDOW
from dpmodels.sources.executors import Threads
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.sums import cells as bycell
from dpmodels.sums.cells import (
    BallCells,
    ByCell,
    cell_gram,
    checked,
    directions,
    gram,
    gram_of,
    gram_over,
    products_of,
    sum_of,
)
from dpmodels.sums.rowmap import OneFirst, RowMap, WithOne, unit_rows
from dpmodels.sums.scaling import UnitScale, unit_scale
from dpmodels.variables import Levels, Real

SCHEMA = Schema(
    y=Real(0, 10),
    x=Real(1, 5),
    g=Levels([f"g{i}" for i in range(12)]),
    h=Levels([f"h{i}" for i in range(40)], other="rest"),
    k=Levels(["a", "b"]),
)


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "y": rng.normal(5, 9, n),
            "x": rng.normal(3, 3, n),
            "g": rng.choice([*SCHEMA["g"].levels, "undeclared"], n),
            "h": rng.choice([*SCHEMA["h"].levels[:30], "another"], n),
            "k": rng.choice(["a", "b"], n),
        }
    )
    df.loc[::17, "x"] = np.nan
    df.loc[::19, "h"] = None
    df.loc[::23, "y"] = np.inf
    df.loc[::29, "y"] = np.nan
    return df


def integers_of(matrix):
    return matrix.astype(np.int64).astype(object)


@pytest.mark.parametrize("r, K, bits", [(1, 1, 3), (3, 5, 40), (7, 90, 61), (5, 4000, 85)])
@pytest.mark.parametrize("drop", [0, 20, 40])
def test_products_over_cells_are_exact(r, K, bits, drop):
    rng = np.random.default_rng(r)
    zeta, _ = directions(rng.normal(size=(r, K)) * 10.0 ** rng.uniform(-9, 9, K))
    whole = [int(a) << (bits - 3) | int(b) for a, b in rng.integers(0, 1 << 3, (K, 2))]
    weights = np.array(whole, dtype=object)
    Z = integers_of(zeta)
    want = np.vectorize(lambda v: v >> drop, otypes=[object])((Z * weights) @ Z.T)
    got = gram_of(zeta, weights, drop)
    assert (got == want).all() and (got.dtype == np.int64 or all(type(v) is int for v in got.flat))
    assert got.dtype == (np.int64 if np.abs(want).max() < 1 << 58 else object) or bits == 40
    signed = weights * rng.choice([-1, 1], K).astype(object)
    assert (sum_of(zeta, signed) == Z @ signed).all()


@pytest.mark.parametrize("K", [1, 2, 3, 64, 65, 4096])
@pytest.mark.parametrize("size", [8, 13, 32, 36, 43, 44, 62, 63, 64, 100])
@pytest.mark.parametrize("sign", [1, -1])
def test_digits_hold_where_every_number_is_as_large_as_it_may_be(K, size, sign):
    """Then sums of digits come close to 2^53, and with one bit more of a digit they would pass it."""
    rng = np.random.default_rng(K)
    zeta = np.stack([2.0**20 - rng.integers(0, 99, K), rng.integers(0, 99, K) - 2.0**20])
    weights = np.array([sign * ((1 << size) - int(w)) for w in rng.integers(1, 99, K)], dtype=object)
    Z = integers_of(zeta)
    want = (Z * weights) @ Z.T
    assert gram_of(zeta, weights).tolist() == want.tolist()
    assert gram_of(zeta, weights, 40).tolist() == [[v >> 40 for v in row] for row in want.tolist()]
    assert sum_of(zeta, weights).tolist() == (Z @ weights).tolist()


def test_sums_of_many_rows_are_exact():
    """Beyond 2^53 a block, and beyond 64 bits a cell."""
    m = 3 * bycell._ROWS + 5
    cells = np.arange(m) % 3
    values = np.full(m, 2.0**40 - 1.0)
    sums = ByCell(3)
    for _ in range(400):
        sums.add_rows(cells, values)
    counts = np.bincount(cells)
    assert sums.integers().tolist() == [400 * int(c) * (2**40 - 1) for c in counts]
    assert int(sums.integers()[0]).bit_length() > 60
    top = np.full((2, m), 2.0**20 - 1.0)
    assert products_of(top)[0, 1] == m * (2**20 - 1) ** 2
    top[:, ::3] -= 2.0  # beyond 2^53 a sum of these is no float
    few = len(top[0, ::3])
    assert products_of(top)[0, 1] == (m - few) * (2**20 - 1) ** 2 + few * (2**20 - 3) ** 2


def test_a_lattice_vector_that_is_too_long_is_refused():
    zeta, length = directions(np.array([[3.0, 0.0, np.inf, 1e-200], [4.0, 0.0, 1.0, 0.0]]))
    assert length.tolist()[:3] == [5.0, 0.0, 0.0] and not zeta[:, 1:3].any()
    square = (integers_of(zeta) ** 2).sum(axis=0)
    assert (2**20 - 3) ** 2 < square[0] <= 2**40
    with pytest.raises(PrivacyBugError, match="longer"):
        checked(np.array([[2.0**20], [1.0]]))


DESIGNS = ["y ~ g + h", "y ~ g * k", "y ~ 0 + g:k", "y ~ C(g, contr.sum) + h", "y ~ x + g + k"]


@pytest.mark.parametrize("formula", DESIGNS)
@pytest.mark.parametrize("n", [0, 1, 9000])
def test_boxes_have_the_integers_of_the_dense_gram(formula, n):
    design = build_design(formula, SCHEMA)
    rows = Rows(as_source(frame(n)), n)
    q = design.q
    odd = UnitScale(np.linspace(-1.3, 1.1, q), np.linspace(0.4, -0.3, q), False)
    for unit in (unit_scale(design), unit_rows(design)[0], odd):
        for rowmap in (RowMap(unit, np.ones(q)), WithOne(RowMap(unit, np.full(q, 0.7)))):
            job = cell_gram(design, rowmap)
            got = job.gram(job.over(rows.blocks_for(job, design)))
            want = gram(rows.blocks(design), rowmap)
            assert np.array_equal(got.integers(), want.integers())


def ball(design, relation="replace", matrix=True, radius=1.5):
    q, rng = design.q, np.random.default_rng(1)
    unit, _ = unit_rows(design)
    L = np.linalg.cholesky(np.cov(rng.normal(size=(q, 40 * q)))) if matrix else None
    inverse = None if L is None else np.linalg.inv(L)
    return RowMap(unit, np.full(q, radius), q, radius, inverse)


@pytest.mark.parametrize("formula", DESIGNS[:4])
@pytest.mark.parametrize("matrix", [False, True])
def test_balls_have_the_dense_gram_up_to_their_lattice(formula, matrix):
    """Two lattices of 2^-20 and a factor 1 - 2^-24 apart; rows far beyond the ball among them."""
    design = build_design(formula, SCHEMA)
    rows = Rows(as_source(frame(9000)), 9000)
    rowmap = ball(design, matrix=matrix)
    got = gram_over(rows, design, rowmap).integers().astype(float)
    want = gram(rows.blocks(design), rowmap).integers().astype(float)
    assert cell_gram(design, rowmap) is not None
    assert np.abs(got - want).max() < 5e-6 * 2.0**40 * 9000
    assert np.abs(got - want).max() > 0


def test_an_integer_row_is_in_the_ball():
    """Row by row: k^2 |zeta|^2 + 2^40 rho^2 <= 2^80, exactly; and close to it outside the ball."""
    design = build_design("y ~ g * k", SCHEMA)
    job = cell_gram(design, ball(design, radius=0.8))
    zeta, length, (at,), ((slope,),) = job.tables
    longest = 0
    for cell in range(job.grid.cells):
        # just beyond the ball as well
        edge = (np.sqrt(max(1.05 - length[cell] ** 2, 0.0)) - at[cell]) / slope
        for y in (0.0, 5.0, 10.0, edge, -1e200, 1e308, np.nan, np.inf):
            s = job.over([(np.array([[y]]), np.array([cell]))])
            square = int(s.squares.sum()) * int((integers_of(zeta[:, cell]) ** 2).sum())
            whole = square + (int(s.seconds[0, 0]) << 40)
            assert whole <= (1 << 80)
            longest = max(longest, whole)
            if np.isnan(y) or job.grid.missing[cell]:
                assert whole == 0 and not s.firsts.any()
    assert longest > (1 << 80) * (1 - 2.0**-18)


def test_the_constant_first_and_a_turned_root():
    """A numeric column that every coordinate sees is turned into one of them; same moments."""
    design = build_mean_design("y + g + k ~ 1", SCHEMA)
    rows = Rows(as_source(frame(5000)), 5000)
    unit, _ = unit_rows(design, centred=True)
    unit = UnitScale(np.append(1.0, unit.scale), np.append(0.0, unit.shift), True)
    q, rng = design.q + 1, np.random.default_rng(2)
    L = np.linalg.cholesky(np.cov(rng.normal(size=(q, 40 * q))))

    def found(root):
        rowmap = OneFirst(RowMap(unit, np.full(q, 9.0), q, 9.0, np.linalg.inv(root)))
        return gram_over(rows, design, rowmap).real(rowmap.rowmap.units), cell_gram(design, rowmap)

    column = 1 + design.names.index("y")
    other = rotated(L, column)
    assert np.allclose(other @ other.T, L @ L.T)
    assert np.abs(np.linalg.inv(other)[:-1, column]).max() < 1e-12
    (plain, none), (by_cell, job) = found(L), found(other)
    assert none is None and isinstance(job, BallCells) and job.places == [q - 1]
    assert np.allclose(L @ plain @ L.T, other @ by_cell @ other.T, rtol=1e-4, atol=0.05)
    assert rotated(np.eye(3), 2).tolist() == np.eye(3).tolist()


def test_not_used_where_a_row_is_no_multiple_of_its_cell():
    design = build_design("y ~ g + k", SCHEMA)
    unit, q = unit_scale(design), design.q
    assert cell_gram(design, RowMap(unit, np.ones(q), q, 1.0)) is not None
    assert cell_gram(design, RowMap(unit, np.ones(q), q - 1, 1.0)) is None
    assert cell_gram(design, RowMap(unit, np.ones(q), matrix=np.eye(q))) is None
    everywhere = np.eye(q) + 0.1
    assert cell_gram(design, RowMap(unit, np.ones(q), q, 1.0, everywhere)) is None
    numeric = build_design("y ~ x + g", SCHEMA)
    assert cell_gram(numeric, ball(numeric)) is None


def test_tasks_and_parts_give_the_same_integers():
    design = build_design("y ~ g * k", SCHEMA)
    rowmap, table = ball(design), frame(30_000)
    plain = gram_over(Rows(as_source(table), 30_000), design, rowmap).integers()
    executor = Threads(2, WINDOW)
    tasks = gram_over(Rows(as_source(table), 30_000, executor=executor), design, rowmap).integers()
    assert np.array_equal(plain, tasks)
    job = pickle.loads(cloudpickle.dumps(cell_gram(design, rowmap)))
    parts = [
        job.over(Rows(as_source(table[a:b]), b - a).blocks_for(job, design))
        for a, b in ((20_000, 30_000), (0, 7), (7, 20_000))
    ]
    assert np.array_equal(job.gram(parts[0] + parts[1] + parts[2]).integers(), plain)
    assert "confidential" in repr(parts[0])
