"""Sums by cell and number on hostile neighbours: what one row moves, lengths of rows, mutants.

Deterministic (seeded): no false alarms.
"""

import itertools

import numpy as np
import pytest

from dpmodels.exact import mixed as exact_mixed
from dpmodels.exact.bycell import SHORTENED
from dpmodels.exact.mixed import Lattice, MixedBall, at_the_middle, ranges_of
from dpmodels.exact.prove import gram_l1, gram_sensitivity
from dpmodels.exact.rowmap import STEPS, RowMap
from dpmodels.formula.build import build_design
from dpmodels.formula.grid import grid_of
from dpmodels.schema import Levels, Real, Schema
from dpmodels.scoring import mixed, sums
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.mixed import MixedPasses, _of
from dpmodels.scoring.rules import LINEAR, TAME, WIDE_LEAST_SQUARES, plan_pass
from dpmodels.scoring.sums import Centre, ScorePass

SCHEMA = Schema(
    y=Real(-1, 1), a=Real(-1, 1), b=Real(0, 4), g=Levels(["u", "v", "w"]), k=Levels(["a", "b"])
)
DESIGN = build_design("y ~ g + k + a + b", SCHEMA)
GRID = grid_of(DESIGN)
#: Responses as they come out of the buffer, and what no buffer would give.
WILD = [0.0, -1.0, 1.0, 1e-9, 7.0, -300.0, 1e9, 1e200, np.nan, np.inf]
#: Numbers at the ends and in the middle of their ranges, beyond them, and missing.
NUMBERS = [(-1, 0), (1, 4), (0, 2), (-1, 4), (0.3, 1e9), (np.nan, 2), (-5, 0), (1, np.inf)]
#: Everything here holds of both ways in which rows are added up.
pytestmark = pytest.mark.usefixtures("way")



def the_pass(relation="replace", k=2, n=500, scale=0.8, manner=TAME):
    co, rng = public_coordinates(DESIGN), np.random.default_rng(0)
    r = co.rank
    G = rng.normal(size=(r, r))
    plan = plan_pass(LINEAR, k, 0.3, n, r, relation, meat=True, tail=n, manner=manner)
    where = Centre(
        co.unit, co.W0, 0.2 * rng.normal(size=r), scale * (G @ G.T / r + 0.05 * np.eye(r)), 0.3
    )
    one = _of(ScorePass(plan, where), GRID)
    return plan, MixedPasses((one,), GRID)


def query(total, plan):
    """The joint query in units of its noise sds: what ``ask_pass`` hands to the run."""
    upper = np.triu_indices(len(total.score), 1)
    parts = []
    for name in ("information", "meat", "spread"):
        matrix = getattr(total, name)
        if matrix is not None:
            unit = (getattr(plan, name) / STEPS) ** 2 / getattr(plan.noise, name)
            parts.append(np.concatenate([np.diag(matrix) * unit, matrix[upper] * unit * 2**0.5]))
    unit = plan.clip / STEPS / plan.noise.score * (plan.information / STEPS * sums.FACTOR)
    return np.concatenate([*parts, total.score * unit]).astype(float)


def tallies(job):
    """The sums of single rows: cells, numbers and responses of all kinds, and of none."""
    rows = [(c, *ab, y) for c in range(GRID.cells) for ab in NUMBERS for y in WILD]
    kept = rows[:: 7 if len(rows) > 700 else 1]
    return [job.over([(np.array([row[1:]], float).T, np.array(row[:1]))]) for row in kept] + [
        job.over([])
    ]


def base_of(job, seed):
    rng = np.random.default_rng(seed)
    m = 1 + int(rng.integers(400))
    numbers = np.vstack([rng.uniform(-1, 1, m), rng.uniform(0, 4, m), rng.normal(size=m)])
    return job.over([(numbers, rng.integers(0, GRID.cells, m))])


def moved(images, relation, empty):
    if relation == "replace":
        apart = images[:, None] - images[None]
        return float(np.sqrt(np.einsum("ijk,ijk->ij", apart, apart).max()))
    return float(np.linalg.norm(images - empty, axis=1).max())


def worst(job, plan, relation, backgrounds=2):
    """The largest move of the query on top of tables that round either way."""
    single, out = tallies(job), 0.0
    for seed in range(backgrounds):
        base = base_of(job, seed)
        images = np.array([query(job.done(base + one)[0], plan) for one in single])
        out = max(out, moved(images, relation, query(job.done(base)[0], plan)))
    return out


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("scale", [0.3, 0.8, 4.0])
def test_one_row_moves_a_pass_by_no_more_than_is_charged(relation, k, scale):
    """Rows by cell, rows that went the dense way, and one of each."""
    plan, job = the_pass(relation, k, scale=scale)
    assert 0.5 * plan.mu_joint < worst(job, plan, relation, 1) <= plan.mu_joint


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_what_lies_beyond_the_clip_moves_by_no_more_than_is_charged(relation):
    plan, job = the_pass(relation, 2, n=50_000, manner=WIDE_LEAST_SQUARES)
    totals = [job.done(one)[0] for one in tallies(job)]
    images = np.array([t.far for t in totals], dtype=object).astype(float)
    images *= plan.far / STEPS / plan.noise.far
    assert moved(images, relation, 0.0) <= plan.mu_far
    bins = np.array([total.bins for total in totals])
    assert bins.shape[1] == 2 * sums.BINS and set(bins.sum(axis=1)) == {0, 1}
    assert all(0 <= total.scale <= STEPS for total in totals)


def parts_hold(job):
    """Assert that parts of rows are integer multiples of one z, in their sets; count such rows."""
    (one,) = job.passes
    met = 0
    for tally in tame(job):
        (own,) = tally.sums
        if not any(own.information.counts):
            continue
        met += 1
        (c,) = np.flatnonzero(own.information.counts)
        x = own.information.firsts[:, c]
        z = whole(one.lattice.T)[:, c] + whole(one.lattice.B) @ x
        assert int((z * z).sum()) <= (1 << 80) and any(z)
        outer = np.outer(z, z)
        assert np.array_equal(one.lattice.gram(own.information, 0), outer)
        for part, most in ((own.meat, "meat"), (own.spread, "spread")):
            q = part.counts[c]
            assert 0 <= q <= SHORTENED * 2**20
            assert np.array_equal(one.lattice.gram(part, 0), q * outer)
            length = q * int((z * z).sum()) * one.most(most) / 2**20  # in steps of R_H^2 2^-80
            radius = getattr(one.plan, most) / one.plan.information
            assert length <= radius**2 * 2.0**80
        k = own.score[c]
        assert np.array_equal(one.lattice.sum(own.score, own.numbers, 0), k * z)
        long = abs(k) * float(int((z * z).sum())) ** 0.5  # in steps of R_H 4 C 2^-60
        assert long * one.plan.information * sums.FACTOR * 2.0**-60 <= 1.0
        (total,) = job.done(tally)
        for name in ("information", "meat", "spread"):  # as they are released: rounded once
            matrix = getattr(total, name)
            assert int((matrix * matrix).sum()) <= (1 << 80)
    return met


def tame(job):
    """The sums of rows whose scores are not beyond the clip: most of them go by cell."""
    ys = np.array([-1.0, -0.4, 0.0, 0.1, 0.6, 1.0])
    rows = [(c, *ab, y) for c in range(GRID.cells) for ab in NUMBERS[:4] for y in ys]
    return [job.over([(np.array([row[1:]], float).T, np.array(row[:1]))]) for row in rows]


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
def test_all_parts_of_a_row_are_along_one_vector_and_in_their_sets(scale):
    _, job = the_pass(n=50, scale=scale)
    assert parts_hold(job) > 15


def whole(v):
    return v.astype(np.int64).astype(object)


# -- lengths: maps built to cancel ----------------------------------------------------------------
def cancelling(seed, d, r=6, K=12):
    """A map whose cells and numbers cancel: long cells, long columns, short rows on the sphere."""
    rng = np.random.default_rng(seed)
    long = 2.0 ** rng.uniform(41.0, 51.0)
    B = np.rint(rng.normal(size=(r, d)) * long / 2**20 / np.sqrt(r * d))
    x = np.rint(rng.uniform(-1.0, 1.0, (d, K)) * 2**20)
    z = rng.normal(size=(r, K))
    z *= exact_mixed.TOP * (1.0 + rng.normal(size=K) * 1e-7) / np.linalg.norm(z, axis=0)
    T = np.rint(z - B @ x)
    one = np.ones((d, 1))
    return Lattice(T, B, 0.0 * one, one, np.zeros(K, dtype=bool)), x


def longest(lattice, x):
    """(rows inside, the largest |z|^2 2^-80 of these, in integers)."""
    K = x.shape[1]
    cells = np.arange(K)
    found = lattice.read((x + 0.5 * np.sign(x) * (np.abs(x) < 2**20)) / 2**20, cells)
    z = whole(lattice.T) + whole(lattice.B) @ whole(found.x)
    square = (z * z).sum(axis=0)
    inside = np.flatnonzero(found.inside)
    limit = int(exact_mixed.TOP) ** 2
    return len(inside), sum(int(square[i]) > limit for i in inside)


def counted(seeds=1500):
    found = [longest(*cancelling(seed, d)) for seed in range(seeds // 4) for d in (1, 2, 3, 4)]
    return np.sum(found, axis=0)


def test_no_row_that_is_inside_is_longer_than_the_ball():
    """exact/theory.md 1.9: whatever cancels, the margin pays for the floats."""
    inside, beyond = counted()
    assert inside > 1000 and beyond == 0


def test_the_mutant_that_leaves_the_margin_out_is_caught(monkeypatch):
    monkeypatch.setattr(Lattice, "margin", 0.0)
    inside, beyond = counted()
    assert inside > 1000 and beyond > 0


def test_the_margin_is_no_larger_than_it_need_be():
    """Of ordinary maps next to nothing: rows on the sphere but for a millionth are inside."""
    _, job = the_pass()
    assert job.passes[0].lattice.margin < 1e-9 * exact_mixed.TOP**2


# -- a ball of whole rows -------------------------------------------------------------------------
def moved_by_one_row(relation, radius, norm):
    """The largest move of a released Gram matrix in a ball, over its bound."""
    q = DESIGN.q
    co = public_coordinates(DESIGN)
    rowmap = RowMap(co.unit, np.full(q, radius), q, radius, co.start)
    middle, half = ranges_of(GRID)
    image, columns = at_the_middle(GRID, rowmap.image, middle, half, range(3))
    job = MixedBall(GRID, rowmap, Lattice.of(image, columns, (middle, half), GRID.void))
    rng = np.random.default_rng(4)
    upper = np.triu_indices(q)
    weight = np.where(upper[0] == upper[1], 1.0, 2**0.5) if norm == 2 else 1.0
    m = 1 + int(rng.integers(300))
    numbers = np.vstack([rng.uniform(-1, 1, (1, m)), rng.uniform(0, 4, (1, m)), rng.normal(size=(1, m))])
    base = job.over([(numbers, rng.integers(0, GRID.cells, m))])
    images = np.array(
        [job.gram(base + one).integers()[upper] * weight for one in tallies(job)], dtype=float
    ) / 2.0**40  # fmt: skip
    apart = images[:, None] - images[None] if relation == "replace" else images - images[-1]
    bound = (gram_sensitivity if norm == 2 else gram_l1)(q, relation)
    return float(np.linalg.norm(apart, ord=norm, axis=-1).max()) / bound


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("norm", [2, 1])
def test_one_row_moves_a_gram_matrix_in_a_ball_by_no_more_than_is_charged(relation, norm):
    ratios = [moved_by_one_row(relation, radius, norm) for radius in (1.0, 2.0, 3.0)]
    assert max(ratios) <= 1.0
    assert norm == 1 or max(ratios) > 0.8


# -- mutants --------------------------------------------------------------------------------------
def everything_inside(monkeypatch):
    read = Lattice.read

    def changed(self, numbers, cells):
        found = read(self, numbers, cells)
        found.inside[:] = True
        return found

    monkeypatch.setattr(Lattice, "read", changed)


MUTANTS = {
    "rows beyond the ball by cell": everything_inside,
    "weights too large": lambda mp: mp.setattr(mixed, "MULTIPLE", 1.3 * STEPS),
    "long scores by cell": lambda mp: mp.setattr(mixed, "KEPT", 1e9),
    "released a bit finer": lambda mp: mp.setattr(mixed, "_RELEASED", 41),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, monkeypatch, by_numpy):
    """Of the functions of numpy; those of the C text are in ``tests/unit/exact/test_bykernel.py``."""
    jobs = [the_pass(n=50, scale=scale) for scale in (0.3, 1.0, 2.5)]
    MUTANTS[name](monkeypatch)

    def caught(plan, job):
        try:
            parts_hold(job)
        except AssertionError:
            return True
        return worst(job, plan, "replace", 1) > plan.mu_joint

    assert any(caught(plan, job) for plan, job in jobs)


def test_the_rounding_is_paid_for_by_the_factor():
    """exact/theory.md 1.9: the worst that one rounding adds, against what the factor takes off."""
    saved = 2.0**40 * (1.0 - SHORTENED**2 * (1.0 + 2.0**-50))
    assert saved > 2.0**16
    for q, relation in itertools.product((1, 100, 1 << 16), ("replace", "add-remove")):
        assert saved * gram_sensitivity(q, relation) >= q
        assert saved * gram_l1(q, relation) >= q * (q + 1) / 2
