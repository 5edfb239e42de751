"""Passes by cells and numbers: the dense pass on a finer lattice, and exact sums of integer rows."""

import itertools
import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning
from dpmodels.exact import mixed as exact_mixed
from dpmodels.exact.gram import GramOf
from dpmodels.exact.mixed import Lattice, MixedAdding, ball_of_cells, mixed_grid
from dpmodels.exact.rowmap import RowMap
from dpmodels.formula.build import build_design
from dpmodels.schema import Levels, Real, Schema
from dpmodels.scoring import mixed
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.mixed import MixedPasses, mixed_passes
from dpmodels.scoring.rules import LINEAR, TAME, WIDE_LEAST_SQUARES, plan_pass
from dpmodels.scoring.sums import BINS, Centre, Passes, ScorePass
from dpmodels.sources.adapt import as_source
from dpmodels.sources.rows import Rows
from dpmodels.sources.windows import Coins

N = 12_000
SCHEMA = Schema(
    y=Real(0, 10),
    a=Real(0, 2),
    b=Real(-100, 300),
    w=Real(0, 2),
    g=Levels([f"g{i}" for i in range(12)]),
    k=Levels(["a", "b"]),
)
FORMULA = "y ~ g * k + a + b"
#: Everything here holds of both ways in which rows are added up.
pytestmark = pytest.mark.usefixtures("way")



def frame(n=N, seed=0):
    """Missing cells, undeclared levels, cells beyond their ranges, and a few far rows."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "y": rng.normal(5, 3, n),
            "a": rng.uniform(0, 2.2, n),
            "b": rng.normal(100, 90, n),
            "g": rng.choice([*SCHEMA["g"].levels, "undeclared"], n),
            "k": rng.choice(["a", "b"], n),
        }
    )
    df.loc[::19, "y"] = np.nan
    df.loc[3::23, "b"] = np.nan
    df.loc[::17, "y"] = 1e9
    return df


def the_pass(design, k=2, relation="replace", manner=TAME, n=N, scale=0.7):
    co, rng = public_coordinates(design), np.random.default_rng(1)
    r = co.rank
    W = scale * np.linalg.inv(np.linalg.cholesky(np.cov(rng.normal(size=(r, 5 * r)))))
    plan = plan_pass(LINEAR, k, 0.3, n, r, relation, meat=True, tail=n // 4, manner=manner)
    return ScorePass(plan, Centre(co.unit, co.W0, 0.2 * rng.normal(size=r), W, 0.3))


def tossed(seed=5):
    rng = np.random.default_rng(seed)
    return Coins(4, lambda m: rng.integers(0, 256, m, dtype=np.uint8))


def sums(design, job, table=None, **chosen):
    table = frame() if table is None else table
    rows = Rows(as_source(table), len(table))
    found = job.over(rows.blocks_for(job, design, **chosen), tossed())
    return (job.done(found) if isinstance(job, MixedPasses) else found.sums)[0]


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("manner", [TAME, WIDE_LEAST_SQUARES])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_sums_are_those_of_the_dense_pass_up_to_their_lattices(relation, manner):
    design = build_design(FORMULA, SCHEMA)
    for k in (1, 2):
        one = the_pass(design, k, relation, manner)
        job = mixed_passes((one,), design)
        dense, found = sums(design, Passes((one,))), sums(design, job)
        assert not found.by_cell and sum(found.bins) == sum(dense.bins)
        first, other = (np.array(s.bins).reshape(-1, BINS).sum(axis=0) for s in (dense, found))
        assert same(first, other) and abs(dense.scale - found.scale) <= N
        close = [("information", 2e-5), ("score", 2e-5)]
        close += [("meat", 1e-4), ("spread", 2e-5)] if k == 2 else []
        for name, share in close:
            a, b = (np.asarray(getattr(s, name), dtype=float) for s in (dense, found))
            assert np.abs(a - b).max() < share * np.abs(a).max(), name
        assert found.meat is None or not same(found.meat, dense.meat)


def test_rows_go_both_ways(monkeypatch):
    """Most rows by cell, odd ones dense: or these tests would say little."""
    design = build_design(FORMULA, SCHEMA)
    one = the_pass(design)
    seen = []
    add = ScorePass.add
    monkeypatch.setattr(
        ScorePass, "add", lambda self, s, block, c: seen.append(block.shape[1]) or add(self, s, block, c)
    )
    sums(design, mixed_passes((one,), design))
    assert 0.02 * N < sum(seen) < 0.4 * N


def test_every_cut_and_order_gives_the_same_integers():
    design = build_design(FORMULA, SCHEMA)
    job = mixed_passes((the_pass(design, manner=WIDE_LEAST_SQUARES),), design)
    table = frame(3000)

    def total(table, height=1 << 15):
        rows = Rows(as_source(table), len(table))
        return job.over(rows.cell_blocks(design, job.grid, height=height))

    whole = total(table)
    parts = total(table[:1111], 64) + total(table[1111:], 100)
    shuffled = total(table.sample(frac=1.0, random_state=1).reset_index(drop=True))
    for other in (parts, shuffled, pickle.loads(cloudpickle.dumps(whole))):
        for a, b in zip(job.done(whole), job.done(other), strict=True):
            assert same(a.information, b.information) and same(a.score, b.score)
            assert same(a.meat, b.meat) and same(a.spread, b.spread) and same(a.far, b.far)
            assert (a.scale, a.bins) == (b.scale, b.bins)
    again = pickle.loads(cloudpickle.dumps(job))
    assert same(again.done(whole)[0].information, job.done(whole)[0].information)


@pytest.mark.parametrize("largest", [2.0**39, 2.0**45, 2.0**51])
def test_sums_are_those_of_the_integer_rows(largest):
    """``sum q z z'`` and ``sum k z`` in Python integers, row by row; cells of any size."""
    rng = np.random.default_rng(2)
    r, d, K, m = 5, 3, 7, 400
    T = np.rint(rng.uniform(-largest, largest, (r, K)))
    B = np.rint(rng.uniform(-1, 1, (r, d)) * largest / 2**20)
    lattice = Lattice(T, B, np.zeros((d, 1)), np.ones((d, 1)), np.zeros(K, dtype=bool))
    x = np.rint(rng.uniform(-1, 1, (d, m)) * 2**20)
    x[:, 0] = -(2.0**20)
    cells, q = rng.integers(0, K, m), np.rint(rng.uniform(0, 1, m) * 2**20)
    k = np.rint(rng.uniform(-1, 1, m) * 2**20)

    def whole(v):
        return v.astype(np.int64).astype(object)

    z = whole(T)[:, cells] + whole(B) @ whole(x)
    for weights, ones in ((None, whole(np.ones(m))), (q, whole(q))):
        adding = MixedAdding(K, d)
        adding.add(cells, x, weights)
        for drop in (0, 17):
            expected = ((z * ones) @ z.T) >> drop
            assert same(lattice.gram(adding.done(), drop), expected)
    by = [sum(whole(k)[cells == c], 0) for c in range(K)]
    score = lattice.sum(np.array(by, dtype=object), whole(x) @ whole(k), 3)
    assert same(score, (z @ whole(k)) >> 3)


def test_a_ball_of_cells_and_numbers_is_the_dense_ball():
    design = build_design(FORMULA, SCHEMA)
    co = public_coordinates(design)
    r = co.rank
    for radius in (1.5, np.sqrt(r + 1.0), 8.0):  # all rows beyond it, some, few
        rowmap = RowMap(co.unit, np.full(r + 1, radius), r + 1, radius, co.start)
        job = ball_of_cells(design, rowmap, N)
        table = frame()
        rows = Rows(as_source(table), N)
        found = job.gram(job.over(rows.blocks_for(job, design)))
        dense = GramOf(rowmap).over(rows.blocks(design))
        a, b = (np.asarray(G.integers(), dtype=float) for G in (dense, found))
        assert np.abs(a - b).max() < 2e-5 * np.abs(a).max() and same(a, b) == (radius == 1.5)
        assert found.rows == N


def test_what_is_by_cell_and_number_is_a_matter_of_form(monkeypatch):
    def taken(formula, n=N, schema=SCHEMA, **more):
        return mixed_grid(build_design(formula, schema, **more), n) is not None

    assert taken(FORMULA) and taken("y ~ g * k + a * b")
    assert not taken("y ~ g * k")  # by cell alone
    assert not taken("y ~ k + a")  # few columns
    assert not taken("y ~ g * a + b")  # a number times a factor
    assert not taken(FORMULA, n=100)
    assert not taken(FORMULA, aside=True, weights="w")
    bought = Schema(**{**dict(SCHEMA.items()), "b": Real()})
    assert not taken(FORMULA, schema=bought)
    design = build_design(FORMULA, SCHEMA)
    steep = the_pass(design, scale=1e6)
    assert mixed_passes((steep,), design) is None  # steps of 2^-20 of a range would be too coarse
    monkeypatch.setattr(exact_mixed, "_MARGIN", 0.0)
    assert mixed_passes((the_pass(design),), design) is None


@pytest.mark.parametrize("crew", [False, True])
def test_a_fit_by_cells_and_numbers_is_the_dense_fit(crew, monkeypatch):
    """With next to no noise: start and passes are the same, in this thread and by tasks."""
    read = []
    over = mixed.MixedPasses.over
    monkeypatch.setattr(
        mixed.MixedPasses, "over", lambda self, *a: read.append(1) or over(self, *a)
    )

    def fit():
        with pytest.warns(NotPrivateWarning):
            return dp.dp_ols(FORMULA, frame(), schema=SCHEMA, eps=1e9, delta=1e-6, seed=1)

    if crew:
        with dp.connect(threads=2):
            found = fit()
    else:
        found = fit()
    passes = len(read)
    assert passes >= 2
    for module in (mixed, exact_mixed):
        monkeypatch.setattr(module, "mixed_grid", lambda design, rows: None)
    dense = fit()
    assert len(read) == passes
    one, other = np.asarray(found.params, float), np.asarray(dense.params, float)
    assert np.abs(one - other).max() < 2e-3 * np.asarray(dense.bse, float).max()
    assert np.allclose(found.bse, dense.bse, rtol=5e-3)


def test_the_same_row_goes_the_same_way_wherever_it_stands():
    """Inside or not is a function of the row: not of the block, nor of the rows beside it."""
    design = build_design(FORMULA, SCHEMA)
    lattice = mixed_passes((the_pass(design),), design).passes[0].lattice
    rng = np.random.default_rng(0)
    numbers = np.vstack([rng.uniform(-1, 3, 500), rng.normal(100, 300, 500)])
    numbers[0, ::50], numbers[1, ::70] = np.nan, np.inf
    cells = rng.integers(0, len(lattice.void), 500)
    whole = lattice.read(numbers.copy(), cells)
    for a, b in itertools.pairwise((0, 1, 3, 70, 500)):
        part = lattice.read(numbers[:, a:b].copy(), cells[a:b])
        assert same(part.inside, whole.inside[a:b])
        kept = part.inside
        assert same(part.x[:, kept], whole.x[:, a:b][:, kept])
        assert same(part.square[kept], whole.square[a:b][kept])
