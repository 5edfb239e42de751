"""Sums by cell on hostile neighbours: what one row moves, rounded sums included, and mutants."""

import functools
import itertools
import math

import numpy as np
import pytest

from dpmodels.core import parallel
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.proof.prove import gram_l1, gram_sensitivity
from dpmodels.proof.sets import STEPS
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.models import plain
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rules import LINEAR, TAME, WIDE_LEAST_SQUARES
from dpmodels.sums import cells as bycell
from dpmodels.sums import cells as exact_cells
from dpmodels.sums.cells import cell_gram
from dpmodels.sums.rowmap import RowMap, unit_rows
from dpmodels.variables import Levels, Real
from tests.one_pass import ByCell, ScorePass

SCHEMA = Schema(
    y=Real(-1, 1), x=Real(-2, 3), z=Real(0, 1), g=Levels(["u", "v", "w"]), k=Levels(["a", "b"])
)
DESIGN = build_design("y ~ g * k", SCHEMA)
#: Designs whose rows are a cell and numbers: one, and two.
NUMBERS = {d: build_design(f, SCHEMA) for d, f in ((1, "y ~ g + k + x"), (2, "y ~ x + g + z"))}
#: Responses as they come out of the buffer, and what no buffer would give.
WILD_NUMBERS = [0.0, -2.0, 3.0, 1e-170, 1e5, -1e200, np.nan]
WILD = [0.0, -1.0, 1.0, 1e-9, 40.0, -300.0, 1e9, -1e9, 1e200, np.nan, np.inf]


def steep(x, _):
    """Scores and weights of any size and sign."""
    return x * np.abs(x), 3.0 * x * x - 1.0


def heavy(x, _):
    """Long scores of rows with little weight."""
    return x * np.abs(x), np.full_like(x, 0.5)


def the_pass(
    relation="replace", k=2, weighted=False, n=500, scale=2.0, policy=TAME, evaluate=steep,
    design=DESIGN, turned=True,
):  # fmt: skip
    co, rng = public_coordinates(design), np.random.default_rng(0)
    r = co.rank
    G = rng.normal(size=(r, r))
    plan = plan_pass(
        LINEAR, k, 0.3, n, r, relation, meat=True, tail=n, weighted=weighted, policy=policy
    )
    where = Centre(
        co.unit, co.W0, 0.2 * rng.normal(size=r), scale * (G @ G.T / r + 0.05 * np.eye(r)), 0.3,
        evaluate if weighted else plain,
        numbers=tuple(j for j in design.grid.numbers if j < design.p),
    )  # fmt: skip
    job = ByCell(ScorePass(plan, where, rotated=turned and bool(where.numbers)), design.grid)
    return plan, job, job


def query(total, plan):
    """The joint query in units of its noise sds: what ``release_pass`` hands to the run."""
    r = len(total.information)
    upper = np.triu_indices(r, 1)
    parts = []
    for name in ("information", "meat"):
        matrix = getattr(total, name)
        if matrix is not None:
            unit = (getattr(plan, name) / STEPS) ** 2 / getattr(plan.noise, name)
            parts.append(np.concatenate([np.diag(matrix) * unit, matrix[upper] * unit * 2**0.5]))
    unit = plan.clip / STEPS / plan.noise.score
    unit *= 1 / STEPS if total.fine else plan.information / STEPS * rules.ROW_FACTOR_MAX
    return np.concatenate([*parts, total.score * unit]).astype(float)


def tallies(job):
    """The sums by cell of single rows: every cell, wild responses, and none."""
    d = len(job.grid.numbers) - 1
    every = list(itertools.product(range(job.grid.cells), *[WILD_NUMBERS] * d, WILD))
    if d:  # some of many
        every = [every[i] for i in np.random.default_rng(7).permutation(len(every))[:300]]
    rows = [(np.array(values)[:, None], np.array([c])) for c, *values in every]
    return [job.over([row]) for row in rows] + [job.over([])]


def worst(job, plan, relation, backgrounds=2):
    """The largest move of the query over neighbours on top of tables that round either way."""
    rng, single = np.random.default_rng(3), tallies(job)
    out = 0.0
    for _ in range(backgrounds):
        m = 1 + int(rng.integers(400))
        numbers = np.clip(rng.standard_cauchy((len(job.grid.numbers), m)), -50, 50)
        table = numbers, rng.integers(0, job.grid.cells, m)
        base = job.over([table])
        images = np.array([query(job.pass_sums(base + one), plan) for one in single])
        if relation == "replace":
            images = images[np.lexsort(images.T)]
            moved = np.linalg.norm(images[:, None] - images[None], axis=2).max()
        else:
            moved = np.linalg.norm(images - images[-1], axis=1).max()
            moved = max(moved, np.linalg.norm(images - query(job.pass_sums(base), plan), axis=1).max())
        out = max(out, float(moved))
    return out


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_row_moves_a_pass_by_no_more_than_is_charged(relation, k, weighted):
    plan, _, job = the_pass(relation, k, weighted)
    moved = worst(job, plan, relation)
    assert 0.8 * plan.mu_joint < moved <= plan.mu_joint


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_with_two_clips_move_by_no_more_than_is_charged(relation, weighted):
    """theory 2.8, by cell: three blocks of multiples of one lattice vector."""
    plan, _, job = the_pass(
        relation, 2, weighted, n=50_000, policy=WIDE_LEAST_SQUARES, evaluate=heavy
    )
    assert 0.8 * plan.mu_joint < worst(job, plan, relation, 1) <= plan.mu_joint
    totals = [job.pass_sums(one) for one in tallies(job)]
    blocks = np.array([total.score for total in totals]).reshape(len(totals), plan.blocks, -1)
    assert (blocks[:, 1] != 0).any() and blocks.shape[1] == 3
    bins = np.array([total.bins for total in totals])
    assert bins.shape[1] == rules.BINS and set(bins.sum(axis=1)) == {0, 1}


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("k, weighted", [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("d", NUMBERS)
def test_one_row_of_a_cell_and_numbers_moves_a_pass_by_no_more_than_is_charged(
    relation, k, weighted, d
):
    plan, _, job = the_pass(relation, k, weighted, design=NUMBERS[d], scale=8.0)
    assert 0.8 * plan.mu_joint < worst(job, plan, relation, 1) <= plan.mu_joint
    plan, _, job = the_pass(
        relation, 2, weighted, 50_000, policy=WIDE_LEAST_SQUARES, evaluate=heavy, design=NUMBERS[d]
    )
    assert 0.7 * plan.mu_joint < worst(job, plan, relation, 1) <= plan.mu_joint


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", NUMBERS)
def test_sums_by_cell_are_those_of_the_integers_of_rows(d, weighted):
    """Each row alone: in the ball, in integers, and products of its integers add up to the sums."""
    design, rng, m = NUMBERS[d], np.random.default_rng(4), 150
    _, _, job = the_pass(weighted=weighted, design=design, scale=8.0)
    t, K = job.tables, job.grid.cells
    assert t.places == list(range(d)) and not t.ahead[:d].any()
    numbers = np.clip(rng.standard_cauchy((len(design.grid.numbers), m)), -1e4, 1e4)
    numbers[:, :3], cells = np.nan, rng.integers(0, K, m)
    whole = job.over([(numbers, cells)])
    parts = [job.over([(numbers[:, [i]], cells[[i]])]) for i in range(m)]
    total = functools.reduce(lambda a, b: a + b, parts)
    assert [*total.score] == [*whole.score] and total.bins == whole.bins
    for name in ("information", "meat"):
        by_row, vectors = [getattr(part, name) for part in parts], []
        for c, row in zip(cells, by_row, strict=True):
            k = math.isqrt(row.squares[c])
            rho = [r[c] // k if k else math.isqrt(row.seconds[j, j]) for j, r in enumerate(row.firsts)]
            assert row.seconds.tolist() == [[a * b for a in rho] for b in rho] and k * k == row.squares[c]
            v = [r << 20 for r in rho] + [k * int(z) for z in t.ahead[d:, c]]
            assert sum(x * x for x in v) <= 1 << 80
            vectors.append(np.array(v, dtype=object))
        assert max(sum(x * x for x in v) for v in vectors) > (1 << 80) * (1 - 2.0**-17)
        V = np.array(vectors)
        G = (V.T @ V) >> 40
        assert (getattr(whole, name).gram(t.ahead, t.places) == G).all()
    scores = np.array([np.split(part.score, t.into.plan.blocks) for part in parts])
    length = [float(np.max(np.abs(row[:, :K]))) ** 2 + float((row[:, K:] ** 2).sum()) for row in scores]
    assert max(length) <= 2.0**40


def test_a_map_that_is_not_turned_is_not_summed_by_cell():
    """Every coordinate of w depends on the numbers then: rows are summed one by one."""
    assert the_pass(design=NUMBERS[1], turned=False)[1].tables is None


def test_all_parts_of_a_row_are_along_one_lattice_vector():
    """Before the one rounding: multiples of ``ahead``, no longer than 2^20 in integers."""
    for weighted in (False, True):
        _, one, job = the_pass(weighted=weighted)
        t = one.tables
        for table in (t.ahead, t.zeta):
            assert (np.sum(table.astype(np.int64) ** 2, axis=0) <= 1 << 40).all()
        scale = np.linalg.norm(t.zeta, axis=0)
        seen = scale > 0
        cosine = np.einsum("ij,ij->j", t.zeta, t.ahead)[seen] / scale[seen]
        assert (cosine > (2.0**20 - 8.0) * (1 - 1e-9)).all()
        for tally in tallies(job):
            own, reach = tally, int(bycell.MULTIPLE)
            assert max(own.meat.squares) <= reach**2 and max(own.information.squares) <= reach**2
            assert max(map(abs, own.score)) <= 1 << 20


MUTANTS = {
    "multiples not bounded": (
        parallel, "_multiples", lambda l, R, e=1.0: np.trunc(np.fmin(l / R, 1.3) * e * bycell.MULTIPLE), True,
    ),
    "numbers too long": (
        parallel, "end_of_numbers",
        lambda t, most=1.0, steps=STEPS, low=-1.0: np.trunc(1.3 * np.clip(t, low * most, most) * steps / most),
        True,
    ),
    "scores of the dense pass not clipped": (
        parallel.Parallel, "blocks",
        lambda self, psi, norm, long: (
            np.sign(psi) * norm, *np.zeros((self.plan.blocks - 1, len(norm)))
        ), False,
    ),
    "vectors too long": (
        parallel, "directions", lambda u: (1.2 * bycell.directions(u)[0], bycell.directions(u)[1]), True,
    ),
    "not in the ball": (parallel, "end_in_ball", lambda z, length: np.trunc(z, out=z), False),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, monkeypatch):
    module, word, changed, weighted = MUTANTS[name]
    monkeypatch.setattr(module, word, changed)
    monkeypatch.setattr(parallel, "checked", lambda zeta: None)
    monkeypatch.setattr(bycell, "checked", lambda zeta: None)
    plan, _, job = the_pass(weighted=weighted, scale=10.0)
    assert worst(job, plan, "replace", 1) > plan.mu_joint


def moved_by_one_row(relation, radius, norm):
    """The largest move of a released Gram matrix in a ball, over its bound: (svec, L1)."""
    q = DESIGN.q
    unit, _ = unit_rows(DESIGN)
    job = cell_gram(DESIGN, RowMap(unit, np.full(q, radius), q, radius))
    rng = np.random.default_rng(4)
    upper = np.triu_indices(q)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0)) if norm == 2 else 1.0
    out = 0.0
    for _ in range(2):
        m = 1 + int(rng.integers(300))
        base = job.over([(rng.uniform(-1, 1, (1, m)), rng.integers(0, job.grid.cells, m))])
        images = [
            job.gram(base + one).integers()[upper] * weight
            for one in (*tallies(job), job.over([]))
        ]
        images = np.array(images, dtype=float) / 2.0**40
        apart = images[:, None] - images[None] if relation == "replace" else images - images[-1]
        out = max(out, float(np.linalg.norm(apart, ord=norm, axis=-1).max()))
    return out / (gram_sensitivity if norm == 2 else gram_l1)(q, relation)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("norm", [2, 1])
def test_one_row_moves_a_gram_matrix_in_a_ball_by_no_more_than_is_charged(relation, norm):
    ratios = [moved_by_one_row(relation, radius, norm) for radius in (0.3, 1.0, 2.5)]
    assert max(ratios) <= 1.0
    assert norm == 1 or max(ratios) > 0.9


def test_a_ball_that_is_too_large_is_caught(monkeypatch):
    monkeypatch.setattr(exact_cells, "MULTIPLE", 1.05 * STEPS)
    assert max(moved_by_one_row("replace", radius, 2) for radius in (0.3, 1.0)) > 1.0


def test_the_rounding_is_paid_for_by_the_factor():
    """proof/theory.md 1.7: the worst that one rounding adds, against what the factor takes off."""
    saved = 2.0**40 * (1.0 - bycell.SHORTENED**2 * (1.0 + 2.0**-48))
    assert saved > 2.0**16
    for q in (1, 2, 100, 1 << 16):
        assert saved * gram_sensitivity(q, "add-remove") >= q
        assert saved * gram_l1(q, "add-remove") >= q * (q + 1) / 2
        assert saved * gram_l1(q, "replace") >= q * (q + 1) / 2
