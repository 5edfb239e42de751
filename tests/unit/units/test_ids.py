"""Ids: equality only; numbers and text apart; what is no id is missing."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.errors import SourceError
from dpmodels.units import Ids, id_type


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


def test_parts_have_one_type():
    """A part that one cell made floats or text would have other ids than it had without it."""
    assert codes(np.array([3, 1]), np.array([1, 7], dtype=np.uint8)) == ([1, 0, 0, 2], 3)
    assert codes(np.array([3, 1]), np.array([], dtype=object)) == ([1, 0], 2)
    assert codes(np.array(["a", 1], dtype=object), np.array(["b", "a"])) == ([1, 0, 2, 1], 3)
    assert codes() == ([], 0)
    big = 2**53 + 1
    for other in ([1.0, np.nan], np.array(["1", 1], dtype=object), np.array([float(big), np.nan])):
        with pytest.raises(SourceError, match=r"one person would be two.*Int64"):
            codes(np.array([3, big]), np.asarray(other))


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (np.array([1], dtype=np.uint64), "integers"),
        (pd.Series([1, None], dtype="Int64"), "integers"),
        (pd.Series([1.0]), "floats"),
        (pd.Series(["a"]), "text"),
        (pd.Series([1, 2]).astype("category"), "text"),
        (["a", 1], "text"),
    ],
)
def test_types_of_ids(column, wanted):
    assert id_type(column) == wanted


def test_types_of_ids_in_arrow_and_polars():
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    cells = {"integers": pa.array([1]), "floats": pa.array([1.0]), "text": pa.array(["a"])}
    assert all(id_type(column) == wanted for wanted, column in cells.items())
    assert id_type(pa.array([1.0], pa.float32())) == id_type(pa.array([1.0], pa.float64()))
    frame = pl.DataFrame({"integers": [1], "floats": [1.0], "text": ["a"]})
    assert all(id_type(frame[wanted]) == wanted for wanted in frame.columns)


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
