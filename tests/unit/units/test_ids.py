"""Ids: equality only; numbers and text apart; what is no id is missing."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.units.ids import Ids


def codes(*parts):
    ids = Ids()
    for part in parts:
        ids.add(part)
    found, n = ids.codes()
    return found.tolist(), n


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (np.array([5, 3, 5]), ([1, 0, 1], 2)),
        (np.array([5.0, 3.0, 5.0]), ([1, 0, 1], 2)),
        (np.array([5.5, np.nan, np.inf, 2.0**53, -1.0, -0.0]), ([-1, -1, -1, -1, 0, 1], 2)),
        (np.array([1, "1", 1.0, True, None, b"1"], dtype=object), ([0, 1, 0, -1, -1, -1], 2)),
        (np.array([2**70, 2**70 + 1, -3], dtype=object), ([1, 2, 0], 3)),
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), ([0, 1], 2)),
        (np.array([True, False]), ([-1, -1], 0)),
        (np.array(["b", "a", "b"]), ([1, 0, 1], 2)),
        (pd.Series([2**53 + 1, None, 2**53], dtype="Int64"), ([1, -1, 0], 2)),
        (pd.Series([7, 8, 7]).astype("category"), ([0, 1, 0], 2)),
        (pd.Series(["x", None, "x"]), ([0, -1, 0], 1)),
        (pd.Series(["x", None, "y"], dtype="string"), ([0, -1, 1], 2)),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), ([-1, -1], 0)),
        ([3, "3", 3.5], ([0, 1, -1], 2)),
        (np.array([]), ([], 0)),
    ],
)
def test_cells_are_told_apart_as_said(cells, wanted):
    assert codes(cells) == wanted


def test_parts_of_different_types_are_one_column():
    assert codes(np.array([3, 1]), np.array([1.0, np.nan])) == ([1, 0, 0, -1], 2)
    assert codes(np.array([3, 1]), np.array(["1", 1], dtype=object)) == ([1, 0, 2, 0], 3)
    assert codes() == ([], 0)


def test_codes_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 50, 300)
    for cells in (ids, ids.astype(str).astype(object)):
        first, n = codes(cells)
        order = rng.permutation(300)
        again, m = codes(cells[order])
        assert n == m and again == np.array(first)[order].tolist()


def test_arrow_and_polars_columns():
    pa = pytest.importorskip("pyarrow")
    assert codes(pa.array([2**60 + 1, None, 2**60])) == ([1, -1, 0], 2)
    assert codes(pa.chunked_array([[1], [None, 2]])) == ([0, -1, 1], 2)
    assert codes(pa.array([1.0, 1.5, None])) == ([0, -1, -1], 1)
    assert codes(pa.array(["a", None, "b"]).dictionary_encode()) == ([0, -1, 1], 2)
    assert codes(pa.array([True, None])) == ([-1, -1], 0)
    pl = pytest.importorskip("polars")
    assert codes(pl.Series(["b", None, "a"])) == ([1, -1, 0], 2)
    assert codes(pl.Series([4, None, 4])) == ([0, -1, 0], 1)
