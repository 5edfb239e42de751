"""``C(g, levels=...)`` with some of the levels, or in another order: cell by cell."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Levels, Real

SCHEMA = Schema(y=Real(0, 9), g=Levels(["a", "b", "c", "d"]), k=Real(0, 9))
CELLS = ["a", "b", "c", "d", None, "z"]


def filled(formula, column, cells, **how):
    design = build_design(formula, SCHEMA, **how)
    frame = pd.DataFrame({"y": np.arange(1.0, len(cells) + 1), column: cells})
    (block,) = Rows(as_source(frame), len(cells)).blocks(design)
    return design, block.copy()


def indicator(cells, level):
    return [1.0 if c == level else 0.0 for c in cells]


@pytest.mark.parametrize("listed", [["a", "c"], ["c", "a"], ["d", "b", "a"], ["b", "c", "d", "a"]])
def test_a_listed_level_has_its_indicator_and_others_an_empty_row(listed):
    """The first listed level is the base; a level off the list, or no level, empties the row."""
    names = ", ".join(map(repr, listed))
    design, block = filled(f"y ~ C(g, levels=[{names}])", "g", CELLS)
    assert [c.name.split("T.")[1][:1] for c in design.columns[1:]] == listed[1:]
    inside = np.array([c in listed for c in CELLS])
    assert np.array_equal(np.isnan(block[-1]), ~inside)
    assert np.array_equal(block[-1][inside], np.arange(1.0, 7.0)[inside])
    for j, level in enumerate(listed[1:], start=1):
        assert np.array_equal(block[j][inside], np.array(indicator(CELLS, level))[inside])


def test_numbers_have_the_codes_of_the_list():
    cells = [3.0, 1.0, 7.0, 2.0, np.nan]
    design, block = filled("y ~ C(k, levels=[7, 1, 3])", "k", cells)
    assert design.p == 3
    inside = np.array([True, True, True, False, False])
    assert np.array_equal(np.isnan(block[-1]), ~inside)
    assert block[1][inside].tolist() == [0.0, 1.0, 0.0]
    assert block[2][inside].tolist() == [1.0, 0.0, 0.0]


def test_a_cell_off_the_list_is_no_level_where_rows_are_kept():
    """One-sided full coding of a release: all indicators are 0, for every cell off the list."""
    _, block = filled(
        "~ C(g, levels=['d', 'b']) - 1", "g", CELLS, na="impute-midpoint", one_sided_ok=True
    )
    assert np.nan_to_num(block)[:2].tolist() == [indicator(CELLS, "d"), indicator(CELLS, "b")]
