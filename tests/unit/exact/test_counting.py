"""Counting by code gives the same integers as the dense Gram matrix, bit for bit."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.exact.counting import counted_gram
from dpmodels.exact.gram import gram, gram_over
from dpmodels.exact.rowmap import RowMap, UnitScale, WithOne, unit_rows, unit_scale
from dpmodels.formula import build_design
from dpmodels.schema import Levels, Real, Schema
from dpmodels.sources.adapt import as_source
from dpmodels.sources.rows import Rows
from dpmodels.sources.windows import Coins, Windows

SCHEMA = Schema(
    y=Real(0, 10),
    x=Real(1, 5),
    z=Real(-2, 2),
    u=Real(),
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
            "z": rng.normal(0, 2, n),
            "u": rng.standard_cauchy(n),
            "g": rng.choice([*SCHEMA["g"].levels, "undeclared"], n),
            "h": rng.choice([*SCHEMA["h"].levels[:30], "another"], n),
            "k": rng.choice(["a", "b"], n),
        }
    )
    df.loc[::17, "x"] = np.nan
    df.loc[::19, "h"] = None
    df.loc[::23, "y"] = np.inf
    return df


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + z + g + h",
        "y ~ x*g + h + k",
        "y ~ 0 + h + g:k + log(x)",
        "y ~ h:g + h + u",
        "y ~ C(g, contr.sum) + h",
        "y ~ g*h",
        "y ~ bs(x, knots=[2]) * g + h + x:h",
    ],
)
@pytest.mark.parametrize("n", [0, 1, 9000])
def test_same_integers(formula, n):
    """Plain dummies, centred ones, any other two values, and a constant appended."""
    design = build_design(formula, SCHEMA)
    design = design.with_bounds({name: (-3, 3) for name in design.unknown})
    rows = Rows(as_source(frame(n)), n)
    q = design.q
    odd = UnitScale(np.linspace(-1.3, 1.1, q), np.linspace(0.4, -0.3, q), False)
    for unit in (unit_scale(design), unit_rows(design)[0], odd):
        for rowmap in (RowMap(unit, np.ones(q)), WithOne(RowMap(unit, np.full(q, 0.7)))):
            job = counted_gram(design, rowmap, "f")
            got = job.over(rows.blocks_for(job, design))
            want = gram(rows.blocks(design), rowmap, "f")
            assert np.array_equal(got.integers(), want.integers())
            assert (got.rows, got.fingerprint) == (want.rows, want.fingerprint) == (n, "f")


def test_an_interaction_is_counted():
    design = build_design("y ~ g*h", SCHEMA)
    assert [f.width for f in design.factors] == [11, 40, 440]
    assert design.dense == (0, design.q - 1)


@pytest.mark.parametrize("na", ["declared", "impute-midpoint"])
def test_same_integers_under_every_missing_rule_and_subset(na):
    design = build_design("y ~ x + g + h", SCHEMA, na=na, subset="z > 0 and k == 'a'")
    rows = Rows(as_source(frame(800)), 800)
    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    assert counted_gram(design, rowmap) is not None
    got, want = gram_over(rows, design, rowmap), gram(rows.blocks(design), rowmap)
    assert np.array_equal(got.integers(), want.integers())


def test_not_used_where_a_dummy_does_not_stay_two_values():
    design = build_design("y ~ x + g + h", SCHEMA)
    unit, box = unit_scale(design), np.ones(design.q)
    assert counted_gram(design, RowMap(unit, box)) is not None
    assert counted_gram(design, RowMap(unit, box, ball=design.p, radius=1.0)) is None
    assert counted_gram(design, RowMap(unit, box, matrix=np.eye(design.q))) is None
    few = build_design("y ~ x + k", SCHEMA)
    assert counted_gram(few, RowMap(unit_scale(few), np.ones(few.q))) is None
    weighted = build_design("y ~ x + g + h", SCHEMA.update(z=Real(0, 2)), weights="z")
    assert weighted.factors == ()
    rows = Rows(as_source(frame(300)), 300)
    rowmap = RowMap(unit_scale(weighted), np.ones(weighted.q))
    assert np.array_equal(
        gram_over(rows, weighted, rowmap).integers(),
        gram(rows.blocks(weighted), rowmap).integers(),
    )


@pytest.mark.parametrize("formula, n", [("y ~ x*g + h", 20_000), ("y ~ g * k", 70_000)])
@pytest.mark.parametrize("how", [{"windows": Windows(2)}, {"coins": 4}])
def test_the_same_rows_are_chosen(how, formula, n):
    """By windows and by coins; of factors alone, which are added up by cell, several blocks."""
    design = build_design(formula, SCHEMA)
    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    found = []
    for read in (gram_over, lambda rows, design, rowmap, **chosen: gram(
        rows.blocks(design, **chosen), rowmap
    )):  # fmt: skip
        tossed = np.random.default_rng(5)
        coins = Coins(4, lambda m, rng=tossed: rng.integers(0, 256, m, dtype=np.uint8))
        chosen = {"coins": coins} if "coins" in how else how
        rows = Rows(as_source(frame(n)), n)
        found.append(read(rows, design, rowmap, **chosen).integers())
    assert np.array_equal(*found)


def test_one_row_changes_the_integers_by_one_rank_one_matrix():
    design = build_design("y ~ x + g + h", SCHEMA)
    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    df = frame(60, seed=3)
    base = gram_over(Rows(as_source(df), 60), design, rowmap).integers()
    for cell in (("x", np.nan), ("x", 1e300), ("g", "undeclared"), ("h", "h3"), ("y", -np.inf)):
        other = df.copy()
        other.loc[4, cell[0]] = cell[1]
        moved = gram_over(Rows(as_source(other), 60), design, rowmap).integers() - base
        bound = np.sqrt(2.0) * (2.0**20) ** 2 * (1 + 1 + 1 + 1 + 1)
        assert np.sqrt((moved.astype(float) ** 2).sum()) <= bound
