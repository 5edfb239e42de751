"""Rows chosen by position: the same blocks from every source, and files skip what is left out."""

import itertools

import numpy as np
import pandas as pd
import pytest

from dpmodels.errors import SourceError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.places import ALL_ROWS, WINDOW, Windows
from dpmodels.sources.rows import Coins, Rows
from dpmodels.sources.tasks import as_source
from dpmodels.sums.cells import gram
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import unit_scale
from dpmodels.variables import Real

N = 75_000
CHOICES = [ALL_ROWS, Windows(2), Windows(4, 1), Windows(2, 2), Windows(16, 8)]


def frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    x[:: n // 7] = np.nan
    return pd.DataFrame({"x": x, "k": rng.integers(0, 9, n), "y": rng.normal(size=n)})


def design():
    return build_design("y ~ x + k", Schema(x=Real(-2, 2), k=Real(0, 8), y=Real(-3, 3)))


def blocks(source, windows=ALL_ROWS, height=WINDOW, n=N):
    return [b.copy() for b in Rows(as_source(source), n).blocks(design(), height, windows)]


def parquet(path, data, row_group_size):
    data.to_parquet(path, row_group_size=row_group_size)
    return path


def sources(folder):
    import pyarrow as pa

    data = frame()
    cuts = [0, 5, 20_001, 20_002, 41_000, N]
    table = pa.Table.from_pandas(data, preserve_index=False)
    return {
        "frame": data,
        "chunks": [data[a:b] for a, b in itertools.pairwise(cuts)],
        "chunks of 999": [data[a : a + 999] for a in range(0, N, 999)],
        "arrow": table,
        "one group": parquet(folder / "1.parquet", data, N),
        "groups of 5000": parquet(folder / "2.parquet", data, 5000),
        "groups of 8192": parquet(folder / "3.parquet", data, 8192),
        "groups of 30011": parquet(folder / "4.parquet", data, 30_011),
        "files": [
            parquet(folder / "5.parquet", data[:12_345], 4000),
            parquet(folder / "6.parquet", data[12_345:12_346], 4000),
            parquet(folder / "7.parquet", data[12_346:], 50_000),
        ],
    }


@pytest.mark.parametrize("windows", CHOICES)
def test_the_same_blocks_from_every_source(tmp_path, windows):
    """Bit by bit, boundaries included: a dense row map may round by the shape of its block."""
    made = sources(tmp_path)
    expected = blocks(made["frame"], windows)
    assert sum(b.shape[1] for b in expected) == windows.count(N)
    whole = np.concatenate(blocks(made["frame"]), axis=1)
    chosen = np.concatenate([np.arange(a, b) for a, b in windows.spans(0, N)])
    assert np.array_equal(np.concatenate(expected, axis=1), whole[:, chosen], equal_nan=True)
    for name, table in made.items():
        got = blocks(table, windows)
        assert [b.shape for b in got] == [b.shape for b in expected], name
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(got, expected, strict=True))
    for height in (1000, 8192, 20_000):
        got = np.concatenate(blocks(made["groups of 5000"], windows, height), axis=1)
        assert np.array_equal(got, whole[:, chosen], equal_nan=True)


def test_windows_by_hand():
    two_of_eight = Windows(every=4, run=2)
    assert list(two_of_eight.spans(0, 9 * WINDOW)) == [
        (0, 2 * WINDOW),
        (8 * WINDOW, 9 * WINDOW),
    ]
    assert list(two_of_eight.spans(WINDOW + 7, WINDOW + 9)) == [(WINDOW + 7, WINDOW + 9)]
    assert list(two_of_eight.spans(2 * WINDOW, 8 * WINDOW)) == []
    assert list(ALL_ROWS.spans(3, 3)) == []
    assert Windows(4).count(40_000) == 8192 + 7232


@pytest.mark.parametrize("groups", [5000, 8192, 30_011])
def test_a_parquet_file_decodes_no_group_beyond_its_last_chosen_row(tmp_path, groups):
    source = as_source(parquet(tmp_path / "t.parquet", frame(), groups))
    windows = Windows(4, 1)
    at = decoded = 0
    for skipped, chunk in source.chosen(["y"], windows):
        assert not list(windows.spans(at, at + skipped))  # nothing chosen is left out
        at += skipped + len(chunk["y"])
        decoded += len(chunk["y"])
    assert at == N
    useful = 0
    for start in range(0, N, groups):
        last = max((b for _, b in windows.spans(start, min(start + groups, N))), default=start)
        useful += min(-(-(last - start) // 16_384) * 16_384, min(start + groups, N) - start)
    assert decoded <= useful < N
    assert list(source.chunks(["y"]))  # the whole table is there still


def test_another_number_of_rows_is_noticed_though_most_are_skipped(tmp_path):
    path = parquet(tmp_path / "t.parquet", frame(), 5000)
    rows = Rows(as_source(path), N)
    assert sum(b.shape[1] for b in rows.blocks(design(), windows=Windows(8))) == 2 * WINDOW
    for other in (N - 1, N + 1):
        parquet(path, frame(other), 5000)
        with pytest.raises(SourceError, match="another number of rows"):
            list(rows.blocks(design(), windows=Windows(8)))


@pytest.mark.parametrize("windows", [Windows(4, 1), Windows(2, 2)])
def test_one_row_replaced_moves_one_row_or_none(tmp_path, windows):
    """Whatever the layout: the neighbour's file has other row groups."""
    data = frame()
    one = blocks(parquet(tmp_path / "a.parquet", data, 5000), windows)
    for row in (0, 8191, 8192, 40_000, N - 1):
        other = data.copy()
        other.loc[row, ["x", "k", "y"]] = [2.0, 8, -3.0]
        two = blocks(parquet(tmp_path / "b.parquet", other, 7001), windows)
        moved = sum(
            int((~((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=0)).sum())
            for a, b in zip(one, two, strict=True)
        )
        assert moved == (1 if any(a <= row < b for a, b in windows.spans(0, N)) else 0)


def test_the_whitened_gram_matrix_is_the_same_integers_from_every_source(tmp_path):
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(4, 4))
    d = design()
    rowmap = RowMap(unit_scale(d), np.full(4, 2.0), ball=4, radius=2.0, matrix=matrix)
    found = {
        name: gram(Rows(as_source(table), N).blocks(d, windows=Windows(2)), rowmap)
        for name, table in sources(tmp_path).items()
    }
    expected = found["frame"].integers().tolist()
    for name, g in found.items():
        assert g.integers().tolist() == expected, name


def test_coins_choose_rows_wherever_they_stand(quiet):
    """Every row with its own coin; 1e5 rows at 1/8: within 5 sd of 12 500."""
    frame = pd.DataFrame({"x": np.arange(100_000) / 1e5, "y": np.zeros(100_000)})
    schema = Schema(x=Real(0, 1), y=Real(0, 1))
    design = build_design("y ~ x", schema)
    kept = {}
    for height in (8192, 1000):
        rng = np.random.default_rng(1)
        coins = Coins(8, lambda m, rng=rng: rng.integers(0, 256, m, dtype=np.uint8))
        blocks = Rows(as_source(frame), 100_000).blocks(design, height, coins=coins)
        kept[height] = np.concatenate([b[1].copy() for b in blocks])
    assert np.array_equal(kept[8192], kept[1000])
    assert abs(len(kept[8192]) - 12_500) < 5 * np.sqrt(100_000 * 7 / 64)
    assert set(kept[8192]) <= set(frame["x"]) and len(set(kept[8192])) == len(kept[8192])


def test_with_equal_coins_one_row_changes_one_row_of_the_sample():
    """In a sorted table the changed row moves all others by a place; its coins move with them."""
    rng = np.random.default_rng(2)
    table = np.sort(rng.uniform(size=50_000))
    moved = np.append(table[1:], 2.0)  # the first row replaced by one that goes last
    coins = rng.integers(0, 2, (2, len(table)), dtype=np.uint8)  # two fair bits a row
    paired = np.roll(coins, -1, axis=1)

    def drawn(bits):
        return lambda m: np.packbits(np.pad(bits, ((0, 0), (0, 4 * m - len(table)))), axis=1).ravel()

    one, two = (
        t[Coins(4, drawn(bits)).choose(len(t))] for t, bits in ((table, coins), (moved, paired))
    )
    assert len(set(one) ^ set(two)) <= 2
    # the same positions would have changed thousands
    fixed = moved[Coins(4, drawn(coins)).choose(len(moved))]
    assert len(set(one) ^ set(fixed)) > 1000
