"""Cells of a grid and numbers are the rows of the design, however its variables are read."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula.build import build_design, build_mean_design
from dpmodels.formula.design import MOST_CELLS
from dpmodels.formula.schema import Schema
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Binary, Levels, Ordered, Real

SCHEMA = Schema(
    y=Real(0, 10),
    x=Real(1, 5),
    z=Real(0, 2),
    b=Binary(na=1),
    e=Binary(("no", "yes")),
    g=Levels([f"g{i}" for i in range(7)]),
    h=Levels(["p", "q", "r"], other="rest", na="q"),
    k=Ordered(["low", "mid", "high"]),
)


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "y": rng.normal(5, 9, n),
            "x": rng.normal(3, 3, n),
            "z": rng.uniform(0, 2, n),
            "b": rng.choice([0.0, 1.0, 7.0, np.nan], n),
            "e": rng.choice(["no", "yes", "?"], n),
            "g": pd.Categorical(rng.choice([*SCHEMA["g"].levels, "odd"], n)),
            "h": rng.choice(["p", "q", "another"], n),
            "k": pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"]),
        }
    )
    df.loc[::19, "h"] = None
    df.loc[::17, "k"] = None
    df.loc[::23, "y"] = np.nan
    df.loc[::29, "x"] = np.inf
    return df


def voided(block):
    block = block.copy()
    block[:, np.isnan(block).any(axis=0)] = 0.0
    return block


@pytest.mark.parametrize("na", ["zero-row", "declared", "impute-midpoint"])
@pytest.mark.parametrize("options", [{}, {"subset": "z > .5 and k != 'mid'"}])
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ g * h",
        "y ~ 0 + g:k + b",
        "y ~ C(g, contr.sum) * e + I(b * 2)",
        "y ~ C(g, levels=['g1', 'g5']) + h",
        "log(y + 1) ~ k:b + g",
        "e ~ g + h",
        "y + g + h ~ 1",
        "y ~ x + g * h",
    ],
)
def test_cells_and_numbers_are_the_rows_of_the_design(formula, options, na):
    build = build_mean_design if formula.endswith("~ 1") else build_design
    design = build(formula, SCHEMA, na=na, **options)
    grid = design.grid
    rows = Rows(as_source(frame(900)), 900)
    (whole,) = (b.copy() for b in rows.blocks(design))
    ((numbers, cells),) = ((b.copy(), c.copy()) for b, c in rows.cell_blocks(design, grid))
    assert np.isfinite(grid.table).all()
    found = grid.table[:, cells]
    found[list(grid.numbers)] = numbers
    found[:, grid.missing[cells]] = np.nan
    assert np.array_equal(voided(found), voided(whole))
    assert 0 < np.isnan(whole).any(axis=0).sum() < 900 or na != "zero-row"


def test_a_range_that_was_bought_clips_the_numbers():
    design = build_design("y ~ g + h", SCHEMA.update(y=Real()))
    design = design.with_bounds({"y": (2.0, 6.0)})
    rows = Rows(as_source(frame(400)), 400)
    ((numbers, _),) = rows.cell_blocks(design, design.grid)
    assert np.nanmin(numbers) == 2.0 and np.nanmax(numbers) == 6.0


@pytest.mark.parametrize(
    "formula, options",
    [
        ("y ~ x", {}),  # no cell
        ("y ~ x * g", {}),  # a factor within a number
        ("y ~ cut(x, breaks=[2, 3]) + g:x", {}),
        ("y ~ g + h", {"weights": "z"}),  # every cell of a row is scaled
    ],
)
def test_other_designs_have_no_grid(formula, options):
    assert build_design(formula, SCHEMA, **options).grid is None


def test_more_combinations_than_are_counted():
    levels = [f"l{i}" for i in range(64)]
    schema = Schema(y=Real(0, 1), a=Levels(levels), b=Levels(levels), c=Levels(levels[:62]))
    assert build_design("y ~ a + b", schema).grid is None  # 65 * 65
    assert build_design("y ~ c + b", schema).grid.cells == 63 * 65 <= MOST_CELLS


def test_weights_and_offset_beside_the_row_are_numbers():
    design = build_design("y ~ g + offset(x)", SCHEMA, weights="z", aside=True)
    grid = design.grid
    assert [design.z[j].kind for j in grid.numbers] == ["offset", "weights", "response"]
