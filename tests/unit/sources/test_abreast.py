"""Columns of one array of rows: found by layout alone, and the same cells as column by column."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula import program
from dpmodels.formula.build import build_design
from dpmodels.schema import Real, Schema
from dpmodels.sources.abreast import side_by_side, written_abreast
from dpmodels.sources.adapt import DictSource
from dpmodels.sources.rows import Rows, _taken

NAMES = [f"x{j:02d}" for j in range(20)]


def table(m=3000, seed=0):
    out = np.random.default_rng(seed).normal(size=(m, 21)) * 3.0
    out[::7, 3], out[::11, 5], out[::13, 20] = np.nan, np.inf, -np.inf
    return out


def columns(rows, order=range(20)):
    return {NAMES[j]: rows[:, j] for j in order}


def test_columns_of_one_array_are_found():
    whole = table()
    found, places = side_by_side(list(columns(whole[100:900]).values()))
    assert places == list(range(20)) and np.array_equal(found, whole[100:900], equal_nan=True)
    found, places = side_by_side(list(columns(whole[5:], [3, 1, 2, *range(4, 20)]).values()))
    assert places[:3] == [3, 1, 2] and len(found) == 2995
    frame = pd.DataFrame(whole[:, :20], columns=NAMES, copy=False)  # pandas 3 copies by itself
    assert side_by_side([frame[c].to_numpy() for c in NAMES]) is not None


def test_other_columns_are_not():
    whole = table()
    good = list(columns(whole).values())
    other = table()
    for wrong in (
        good[:9],
        [*good[:-1], other[:, 19]],
        [*good[:-1], good[-1].astype(int)],
        [*good[:-1], whole[1:, 19]],
        [v[:-1] if i else v[1:] for i, v in enumerate(good)],
        [v[::2] for v in good],
        [v.copy() for v in good],
        list(np.asfortranarray(whole).T),
        [pd.Series(v) for v in good],
        list(whole.astype(np.float32).T),
    ):
        assert side_by_side(wrong) is None


def test_taken_rows_are_those_of_each_column():
    whole = table()
    keep = np.flatnonzero(np.random.default_rng(1).random(3000) < 0.1)
    for chunk in (columns(whole), columns(whole.copy(order="F")), columns(whole, [9, *range(9), *range(10, 20)])):
        found = _taken(chunk, keep)
        assert list(found) == list(chunk)
        assert all(np.array_equal(found[c], chunk[c][keep], equal_nan=True) for c in chunk)


def test_columns_are_written_as_one_by_one():
    whole = table(1300)
    ranges = [(-1.0, 2.0 + j) for j in range(20)]
    told, own = np.zeros((22, 1300)), np.zeros((22, 1300))
    for j, (low, high) in enumerate(ranges):
        np.clip(whole[:, j], low, high, out=told[j + 1])
    cells = list(columns(whole).values())
    assert written_abreast(cells, ranges, range(1, 21), own)
    assert np.array_equal(own, told, equal_nan=True)
    assert not written_abreast(cells, ranges, [2, 1, *range(3, 21)], own)
    assert not written_abreast([cells[1], cells[0], *cells[2:]], ranges, range(1, 21), own)


@pytest.mark.parametrize("writers", [[], [written_abreast], program._WRITERS], ids=["none", "numpy", "all"])
def test_a_design_is_the_same_however_its_columns_lie(writers, monkeypatch):
    """The response among them; predictors alone have none."""
    design = build_design(
        "y ~ " + " + ".join(NAMES), Schema(y=Real(-2, 2), **{c: Real(-1, 3) for c in NAMES})
    )
    whole = table(9000)
    cells = {**columns(whole), "y": whole[:, 20]}

    def blocks(cells):
        return np.hstack([b.copy() for b in Rows(DictSource(cells), 9000).blocks(design)])

    monkeypatch.setattr(program, "_WRITERS", [])
    told = blocks({c: v.copy() for c, v in cells.items()})
    monkeypatch.setattr(program, "_WRITERS", list(writers))
    assert np.array_equal(blocks(cells), told, equal_nan=True)
    new = pd.DataFrame({c: cells[c] for c in NAMES})
    found = design.matrix(new)
    there = np.isfinite(whole[:, :20]).all(axis=1)
    assert there.any() and np.array_equal(found[there, 1:], told[1:21, there].T)
