"""Scoring passes by cell: the integers of the dense pass, or its sums up to the cell's lattice."""

import functools
import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.parallel import ParallelByCell
from dpmodels.core.rows import complete
from dpmodels.core.sets import Complete, Reading
from dpmodels.errors import NotPrivateWarning
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.places import WINDOW
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.models import plain
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rules import LINEAR, TAME, WIDE_LEAST_SQUARES
from dpmodels.sources.executors import Threads
from dpmodels.sources.rows import Coins, Rows
from dpmodels.sources.summed import summed
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Binary, Count, Levels, Real
from tests.one_pass import ByCell, ScorePass

N = 12_000
SCHEMA = Schema(
    y=Real(0, 10),
    w=Real(0, 2),
    o=Real(-1, 1),
    t=Binary(),
    c=Count(9),
    g=Levels([f"g{i}" for i in range(12)]),
    k=Levels(["a", "b"]),
    h=Levels([f"h{i}" for i in range(40)]),
)


def frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "y": rng.normal(5, 9, n),
            "w": rng.uniform(0, 2, n),
            "o": rng.uniform(-1, 1, n),
            "t": rng.choice([0.0, 1.0, np.nan], n, p=[0.5, 0.48, 0.02]),
            "c": rng.poisson(2.0, n).clip(0, 9),
            "g": rng.choice([*SCHEMA["g"].levels, "undeclared"], n),
            "k": rng.choice(["a", "b"], n),
            "h": rng.choice([*SCHEMA["h"].levels, "undeclared"], n),
        }
    )
    df.loc[::19, "y"] = np.nan
    return df


def bent(x, _):
    """Scores and weights of a model of a residual."""
    return np.clip(x, -1.3, 1.3), np.where(np.abs(x) < 1.3, 1.0, 0.2) * (1 + 0.1 * x * x)


def both(design, k=2, relation="replace", evaluate=plain, weighted=False, policy=TAME, n=N):
    """A pass, dense and by cell."""
    co, rng = public_coordinates(design), np.random.default_rng(1)
    r = co.rank
    W = 1.5 * np.linalg.inv(np.linalg.cholesky(np.cov(rng.normal(size=(r, 5 * r)))))
    plan = plan_pass(
        LINEAR, k, 0.3, n, r, relation, meat=True, tail=n // 4, weighted=weighted, policy=policy
    )
    aside = design.auxiliary_place
    numbers = tuple(j for j in design.grid.numbers if j < design.p)
    one = ScorePass(plan, Centre(co.unit, co.W0, 0.2 * rng.normal(size=r), W, 0.3, evaluate,
                                 offset=aside("offset"), weights=aside("weights"),
                                 numbers=numbers), rotated=bool(numbers))  # fmt: skip
    return one, ByCell(one, design.grid)


def tossed(seed=5):
    rng = np.random.default_rng(seed)
    return Coins(4, lambda m: rng.integers(0, 256, m, dtype=np.uint8))


def sums(design, job, table=None, **chosen):
    table = frame() if table is None else table
    rows = Rows(as_source(table), len(table))
    if isinstance(job, ByCell):
        blocks = rows.blocks_for(job, design, **chosen)
        return job.pass_sums(job.over(blocks, tossed()))
    return job.sums(rows.blocks(design, **chosen), tossed())


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("formula", ["y ~ g * k", "y ~ 0 + g:k + t", "y ~ g + k + offset(o)"])
def test_information_and_scores_are_those_of_the_dense_pass(formula, relation):
    design = build_design(formula, SCHEMA, aside=True)
    for k in (1, 2):
        dense, by_cell = (sums(design, job) for job in both(design, k, relation))
        assert same(dense.information, by_cell.information)
        # what the model sees is added up in another order: a row whose factor lies within a
        # rounding of an integer is a step off, of length 2^20 at most; two in N are many
        apart = np.abs(np.asarray(dense.score - by_cell.score, dtype=float))
        assert apart.max() <= 2.0 * 2**20 and any(dense.score)
        assert abs(dense.scale - by_cell.scale) <= N and dense.bins == by_cell.bins
        assert not by_cell.fine and not dense.fine
        for name in ("meat",) if k == 2 else ():
            one, other = (np.asarray(getattr(s, name), dtype=float) for s in (dense, by_cell))
            assert np.abs(one - other).max() < 2e-5 * np.abs(one).max() and not same(one, other)


@pytest.mark.parametrize(
    "options, evaluate", [({}, bent), ({"weights": "w"}, bent), ({"weights": "w"}, plain)]
)
def test_weighted_rows_have_the_sums_of_the_dense_pass(options, evaluate):
    """Up to the roundings of two lattices of 2^-20."""
    design = build_design("y ~ g * k", SCHEMA, aside=True, **options)
    jobs = both(design, evaluate=evaluate, weighted=True)
    dense, by_cell = (sums(design, job) for job in jobs)
    assert by_cell.fine and dense.bins == by_cell.bins and dense.scale == by_cell.scale
    for name, unit in (("information", 1), ("meat", 1), ("score", 2.0**-20)):
        one = np.asarray(getattr(dense, name), dtype=float)
        other = np.asarray(getattr(by_cell, name), dtype=float) * unit
        assert np.abs(one - other).max() < 2e-5 * np.abs(one).max()


@pytest.mark.parametrize("weights", [{}, {"weights": "w"}])
def test_many_columns_by_cell_have_the_sums_of_the_dense_pass(weights):
    """Weights by leverage and two clips: up to roundings."""
    design = build_design("y ~ g * k", SCHEMA, aside=True, **weights)
    jobs = both(design, weighted=bool(weights), policy=WIDE_LEAST_SQUARES, n=60_000)
    dense, by_cell = (sums(design, job) for job in jobs)
    assert dense.bins == by_cell.bins
    names = {"information": 1.0, "meat": 1.0}
    names["score"] = 2.0**-20 if weights else 1.0
    for name, unit in names.items():
        one = np.asarray(getattr(dense, name), dtype=float)
        other = np.asarray(getattr(by_cell, name), dtype=float) * unit
        assert np.abs(one).max() > 0.0
        assert np.abs(one - other).max() < 5e-5 * np.abs(one).max() + 2.0**21 * (name == "score")


@pytest.mark.parametrize("policy", [TAME, WIDE_LEAST_SQUARES])
@pytest.mark.parametrize(
    "formula, options",
    [("y ~ g + o", {}), ("y ~ o + g * k + w", {}), ("y ~ g * k + o", {"weights": "w"})],
)
def test_a_cell_and_numbers_have_the_sums_of_the_dense_pass(formula, options, policy):
    """Missing cells and numbers, long rows and weights: up to roundings, in real units."""
    design = build_design(formula, SCHEMA, aside=True, **options)
    jobs = both(design, weighted=bool(options), policy=policy, n=60_000)
    table, plan = frame(), jobs[0].plan
    table.loc[::23, "o"] = np.nan
    dense, by_cell = (sums(design, job, table) for job in jobs)
    assert by_cell.fine and not dense.fine and jobs[1].tables.places
    assert dense.bins == by_cell.bins and abs(dense.scale - by_cell.scale) <= N
    units = {"information": 1.0, "meat": 1.0}
    units["score"] = 2.0**-20 / (1.0 if options else 4.0 * plan.information / 2.0**20)
    for name, unit in units.items():
        one = np.asarray(getattr(dense, name), dtype=float)
        other = np.asarray(getattr(by_cell, name), dtype=float) * unit
        assert np.abs(one).max() > 0.0 and np.abs(one - other).max() < 5e-5 * np.abs(one).max()


def test_which_designs_are_summed_by_cell():
    assert build_design("y ~ g + w", SCHEMA).grid_of_factors is None
    assert build_design("y ~ w", SCHEMA).grid_of_factors is None
    assert build_design("y ~ g + w", SCHEMA).numbers_first == ()
    assert build_design("y ~ h", SCHEMA).numbers_first == ()
    assert build_design("y ~ h + w", SCHEMA).numbers_first == (40,)
    assert build_design("y ~ w + h:k + o", SCHEMA).numbers_first == (1, 2)
    assert build_design("y ~ h * w", SCHEMA).numbers_first == ()  # no grid


def test_tasks_and_parts_give_the_same_sums():
    design, table = build_design("y ~ g * k", SCHEMA), frame()
    for options in ({}, {"evaluate": bent, "weighted": True}):
        _, job = both(design, **options)

        def read(executor=None, job=job):
            return job.pass_sums(summed(Rows(as_source(table), N, executor=executor), design, job))

        plainly = read()
        for other in (read(Threads(2, WINDOW)),):
            for name in ("information", "meat", "score", "bins"):
                assert same(getattr(plainly, name), getattr(other, name))
        again = pickle.loads(cloudpickle.dumps(job))
        halves = [
            again.over(Rows(as_source(part), len(part)).blocks_for(again, design))
            for part in (table[9_000:], table[:9_000])
        ]
        added = again.pass_sums(halves[0] + halves[1])
        assert same(added.information, plainly.information) and same(added.score, plainly.score)
        assert "confidential" in repr(halves[0])


HUBER = functools.partial(dp.dp_mest, "huber")
#: And how far apart two fits may be, in standard errors: what is left of the noise (it is drawn on
#: other lattices), of rows at the corner of a loss, and of the lattices of very large clips.
FITS = {
    # C is large at this eps, and so is a step of a score: rows with one residual move together
    "ols": (dp.dp_ols, "y ~ g * k", {}, 0.04),
    "logit": (dp.dp_glm, "t ~ g + k", {"family": "binomial", "fit_stats": True}, 1e-3),
    "poisson": (
        dp.dp_glm, "c ~ g + k + offset(o)", {"family": "poisson", "weights": "w"}, 0.06,
    ),
    "quantiles": (dp.dp_quantreg, "y ~ g + k", {"tau": [0.3, 0.5]}, 0.1),
    "huber": (HUBER, "y ~ g + k", {}, 0.02),
    "ols, numbers": (dp.dp_ols, "y ~ h + o + w", {}, 0.04),
    "logit, numbers": (dp.dp_glm, "t ~ h + o", {"family": "binomial", "fit_stats": True}, 1e-2),
    "poisson, numbers": (dp.dp_glm, "c ~ h + o", {"family": "poisson", "weights": "w"}, 0.06),
    "quantiles, numbers": (dp.dp_quantreg, "y ~ h + o", {"tau": [0.3, 0.5]}, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_a_fit_by_cell_is_the_dense_fit(name, monkeypatch):
    """With next to no noise: the passes, their start and its working response are the same."""
    verb, formula, options, close = FITS[name]
    read = []
    pass_sums = ParallelByCell.pass_sums
    monkeypatch.setattr(
        ParallelByCell, "pass_sums", lambda self, *a: read.append(1) or pass_sums(self, *a)
    )

    def fit():
        with pytest.warns(NotPrivateWarning):
            return verb(formula, frame(), schema=SCHEMA, eps=1e9, delta=1e-6, seed=1, **options)

    by_cell, passes = fit(), len(read)
    assert passes >= 2
    for name in ("grid", "grid_of_factors", "grid_of_images"):
        monkeypatch.setattr(f"dpmodels.formula.design.Design.{name}", property(lambda _: None))
    kept = "dpmodels.formula.design.Design.numbers_first"  # from the first fit
    monkeypatch.setattr(kept, property(lambda _: ()))
    dense = fit()
    assert len(read) == passes
    one, other = np.asarray(by_cell.params, float), np.asarray(dense.params, float)
    assert np.abs(one - other).max() < close * np.asarray(dense.bse, float).max()
    # what is left of the noise of the information, of more columns here
    assert np.allclose(by_cell.bse, dense.bse, rtol=6e-2 if "h" in formula else 5e-3)
    if "fit_stats" in options:
        assert by_cell.stats["deviance"] == pytest.approx(dense.stats["deviance"], rel=1e-3)


@pytest.mark.parametrize("formula", ["y ~ h + c", "y ~ h * k + w + o", "y ~ h", "y ~ 0 + C(h) + t"])
@pytest.mark.parametrize("subset", [None, "o > 0"])
def test_complete_rows_are_counted_by_cell(formula, subset):
    design = build_design(formula, SCHEMA, subset=subset)
    rows, reading = Rows(as_source(frame()), N), Reading(design, (complete,), (Complete(1),))
    dense = reading.over(rows.blocks(design)).arrays[0]
    assert reading.total(rows, {}).arrays[0].tolist() == dense.tolist()
    assert design.grid_of_images.wide or design.grid_of_factors is not None
    assert 0 < int(dense[0]) < N << 20
