"""Cells of people are copied once; ids are only counted where only their number is asked for."""

import numpy as np
import pytest

from dpmodels.sources.people import Columns
from dpmodels.units import Ids


def parts(last=float):
    return [{"a": np.arange(5.0), "b": np.arange(5)}, {"a": np.arange(3.0), "b": np.ones(3, last)}]


@pytest.mark.parametrize("said", [None, 0, 4, 7, 8, 20])
@pytest.mark.parametrize("last", [np.int64, float])
def test_columns_are_those_of_the_parts_whatever_was_said_of_their_length(said, last):
    held = Columns(said)
    for part in parts(last):
        held.add(part)
        for cells in part.values():
            cells[:] = 0  # a source may use its buffer again
    wanted = {c: np.concatenate([p[c] for p in parts(last)]) for c in "ab"}
    found = held.ordered(slice(None))
    assert held.rows == 8
    for c, cells in wanted.items():
        assert np.array_equal(found[c], cells) and found[c].dtype == cells.dtype


@pytest.mark.parametrize("said", [None, 8])
def test_columns_change_places_without_changing_cells(said):
    held = Columns(said)
    for part in parts(np.int64):
        held.add(part)
    order = np.array([7, 0, 3])
    found = held.ordered(order)
    wanted = {c: np.concatenate([p[c] for p in parts(np.int64)]) for c in "ab"}
    assert all(np.array_equal(found[c], wanted[c][order]) for c in "ab")


def test_a_table_without_rows_has_columns():
    held = Columns(0)
    held.add({"a": np.empty(0)})
    assert held.ordered(slice(None))["a"].shape == (0,)


COLUMNS = [
    [3, 1, 1, 2],
    [1, 1, 2, 7],
    [1, 2**40, -5, 1],
    [1.0, np.nan, 1.0, 2.5],
    ["a", "b", None, "a"],
    [],
]


@pytest.mark.parametrize("column", COLUMNS, ids=str)
@pytest.mark.parametrize("said", [None, 2, 100])
def test_as_many_are_counted_as_get_a_code(column, said):
    ids = Ids(said)
    kind = object if any(isinstance(cell, str) for cell in column) else None
    cells = np.array(column, dtype=kind)
    for part in (cells[:3], cells[3:]):
        ids.add(part.copy())
    codes, found = ids.codes()
    assert ids.count() == found == len(set(codes[codes >= 0].tolist()))
    assert len(codes) == len(column)
