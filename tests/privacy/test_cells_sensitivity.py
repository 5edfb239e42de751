"""Sums by cell on hostile neighbours: what one row moves, rounded sums included, and mutants."""

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

SCHEMA = Schema(y=Real(-1, 1), g=Levels(["u", "v", "w"]), k=Levels(["a", "b"]))
DESIGN = build_design("y ~ g * k", SCHEMA)
#: Responses as they come out of the buffer, and what no buffer would give.
WILD = [0.0, -1.0, 1.0, 1e-9, 40.0, -300.0, 1e9, -1e9, 1e200, np.nan, np.inf]


def steep(x, _):
    """Scores and weights of any size and sign."""
    return x * np.abs(x), 3.0 * x * x - 1.0


def heavy(x, _):
    """Long scores of rows with little weight."""
    return x * np.abs(x), np.full_like(x, 0.5)


def the_pass(
    relation="replace", k=2, weighted=False, n=500, scale=2.0, policy=TAME, evaluate=steep
):
    co, rng = public_coordinates(DESIGN), np.random.default_rng(0)
    r = co.rank
    G = rng.normal(size=(r, r))
    plan = plan_pass(
        LINEAR, k, 0.3, n, r, relation, meat=True, tail=n, weighted=weighted, policy=policy
    )
    where = Centre(
        co.unit, co.W0, 0.2 * rng.normal(size=r), scale * (G @ G.T / r + 0.05 * np.eye(r)), 0.3,
        evaluate if weighted else plain,
    )  # fmt: skip
    job = ByCell(ScorePass(plan, where), DESIGN.grid)
    return plan, job, job


def query(total, plan):
    """The joint query in units of its noise sds: what ``release_pass`` hands to the run."""
    r = len(total.information)
    upper = np.triu_indices(r, 1)
    parts = []
    for name in ("information", "meat", "ordinary"):
        matrix = getattr(total, name)
        if matrix is not None:
            unit = (getattr(plan, name) / STEPS) ** 2 / getattr(plan.noise, name)
            parts.append(np.concatenate([np.diag(matrix) * unit, matrix[upper] * unit * 2**0.5]))
    unit = plan.clip / STEPS / plan.noise.score
    unit *= 1 / STEPS if plan.weighted else plan.information / STEPS * rules.ROW_FACTOR_MAX
    return np.concatenate([*parts, total.score * unit]).astype(float)


def tallies(job):
    """The sums by cell of single rows: every cell, wild responses, and none."""
    rows = [(c, y) for c in range(job.grid.cells) for y in WILD]
    return [job.over([(np.array([[y]]), np.array([c]))]) for c, y in rows] + [job.over([])]


def worst(job, plan, relation, backgrounds=2):
    """The largest move of the query over neighbours on top of tables that round either way."""
    rng, single = np.random.default_rng(3), tallies(job)
    out = 0.0
    for _ in range(backgrounds):
        m = 1 + int(rng.integers(400))
        table = np.clip(rng.standard_cauchy((1, m)), -50, 50), rng.integers(0, job.grid.cells, m)
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
            assert max(own.meat) <= reach**2 and max(own.information) <= reach**2
            assert max(map(abs, own.score)) <= 1 << 20


MUTANTS = {
    "multiples not bounded": (
        parallel, "_multiples", lambda l, R: np.trunc(np.fmin(l / R, 1.3) * bycell.MULTIPLE), True,
    ),
    "scores not clipped": (
        parallel, "end_of_numbers", lambda t, most=1.0, steps=STEPS, low=-1.0: np.trunc(t * steps / most),
        True,
    ),
    "scores of the dense pass not clipped": (parallel, "clipped", lambda norm, clip: norm, False),
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
