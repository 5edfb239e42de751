"""Counting by code gives the same integers as the dense Gram matrix, bit for bit."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.exact.counting import countable, gram_of
from dpmodels.exact.gram import gram
from dpmodels.exact.rowmap import RowMap, unit_scale
from dpmodels.formula import build_design
from dpmodels.schema import Levels, Real, Schema
from dpmodels.sources.adapt import as_source
from dpmodels.sources.rows import Rows

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
@pytest.mark.parametrize("n", [0, 1, 500, 9000])
def test_same_integers(formula, n):
    design = build_design(formula, SCHEMA)
    design = design.with_bounds({name: (-3, 3) for name in design.unknown})
    rows = Rows(as_source(frame(n)), n)
    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    assert countable(design, rowmap)
    got = gram_of(rows, design, rowmap, "f")
    want = gram(rows.blocks(design), rowmap, "f")
    assert np.array_equal(got.high, want.high)
    assert np.array_equal(got.low, want.low)
    assert (got.rows, got.fingerprint) == (want.rows, want.fingerprint) == (n, "f")


@pytest.mark.parametrize("na", ["declared", "impute-midpoint"])
def test_same_integers_under_every_missing_rule_and_subset(na):
    design = build_design("y ~ x + g + h", SCHEMA, na=na, subset="z > 0 and k == 'a'")
    rows = Rows(as_source(frame(800)), 800)
    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    got, want = gram_of(rows, design, rowmap), gram(rows.blocks(design), rowmap)
    assert np.array_equal(got.integers(), want.integers())


def test_not_used_where_the_dummies_do_not_stay_plain():
    design = build_design("y ~ x + g + h", SCHEMA)
    unit, box = unit_scale(design), np.ones(design.q)
    assert countable(design, RowMap(unit, box))
    assert not countable(design, RowMap(unit, box, ball=design.p, radius=1.0))
    assert not countable(design, RowMap(unit, box, matrix=np.eye(design.q)))
    assert not countable(design, RowMap(unit, 2 * box))
    few = build_design("y ~ x + k", SCHEMA)
    assert not countable(few, RowMap(unit_scale(few), np.ones(few.q)))
    weighted = build_design("y ~ x + g + h", SCHEMA.update(z=Real(0, 2)), weights="z")
    assert weighted.factors == ()
    rows = Rows(as_source(frame(300)), 300)
    rowmap = RowMap(unit_scale(weighted), np.ones(weighted.q))
    assert np.array_equal(
        gram_of(rows, weighted, rowmap).integers(),
        gram(rows.blocks(weighted), rowmap).integers(),
    )


def test_one_row_changes_the_integers_by_one_rank_one_matrix():
    design = build_design("y ~ x + g + h", SCHEMA)
    rowmap = RowMap(unit_scale(design), np.ones(design.q))
    df = frame(60, seed=3)
    base = gram_of(Rows(as_source(df), 60), design, rowmap).integers()
    for cell in (("x", np.nan), ("x", 1e300), ("g", "undeclared"), ("h", "h3"), ("y", -np.inf)):
        other = df.copy()
        other.loc[4, cell[0]] = cell[1]
        moved = gram_of(Rows(as_source(other), 60), design, rowmap).integers() - base
        bound = np.sqrt(2.0) * (2.0**20) ** 2 * (1 + 1 + 1 + 1 + 1)
        assert np.sqrt((moved.astype(float) ** 2).sum()) <= bound
