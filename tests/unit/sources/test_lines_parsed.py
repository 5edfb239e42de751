"""CSV parts: however they are read, a line is a row and its cells are the same."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula.reading import coerce_all
from dpmodels.sources.files import CsvSource
from dpmodels.sources.lines import _by_arrow, chosen_lines, count_lines, parts_of_file
from dpmodels.sources.rows import count_rows
from dpmodels.variables import NA_WORDS, Levels, Real

KINDS = {"x": Real(-10, 10), "g": Levels(["1", "01", "b"])}
ODD = [
    "1.5,b", " 2 ,01", "+3,1", "1_000,b", "NA,b", "nan,", ".5,b", "1e400,b", "inf,b", "true,b",
    "0x10,b", "5,\xe9", '"6","b"', '"7""",b', "8,b,c", "9", "", '"10,b', "1e-320,1", "-0,01",
]  # fmt: skip


def write(path, lines, end="\n", last=True):
    text = end.join(["x,g", *lines]) + (end if last else "")
    path.write_bytes(text.encode("latin-1"))  # one cell is no UTF-8
    return path


def cells(parts):
    found = [coerce_all(part, KINDS) for part in parts]
    return {c: np.concatenate([part[c] for part in found]) for c in KINDS}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_numbers_and_text_are_the_same_cells(tmp_path, end, last):
    """One line at once, all at once, as numbers, without pyarrow: every way."""
    path = write(tmp_path / "t.csv", ODD, end, last)
    want = cells(parts_of_file(path, ["x", "g"], 1))
    assert len(want["x"]) == len(ODD)
    assert want["x"][0] == 1.5 and want["x"][3] == 1000.0 and want["g"][1] == 1
    for rows in (1, 3, 1000):
        for numbers in ((), ("x",)):
            got = cells(parts_of_file(path, ["x", "g"], rows, numbers))
            for name in KINDS:
                assert np.array_equal(got[name], want[name], equal_nan=name == "x"), (rows, numbers)


def test_without_pyarrow(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", ODD)
    want = cells(parts_of_file(path, ["x", "g"], 5, ("x",)))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    got = cells(parts_of_file(path, ["x", "g"], 5, ("x",)))
    for name in KINDS:
        assert np.array_equal(got[name], want[name], equal_nan=name == "x")


def test_the_chosen_lines_are_those_of_the_file(tmp_path):
    path = write(tmp_path / "t.csv", ODD)
    want = cells(parts_of_file(path, ["x", "g"], 1))
    for keep in ([0, 2, 5], [], list(range(7))):
        parts = list(
            chosen_lines(
                path, ["x", "g"], 7, ("x",), lambda m, k=keep: np.array([i for i in k if i < m], int)
            )
        )
        assert [m for m, _ in parts] == [7, 7, 6]
        places = [a + i for a, m in ((0, 7), (7, 7), (14, 6)) for i in keep if i < m]
        got = cells([part for _, part in parts])
        for name in KINDS:
            assert np.array_equal(got[name], want[name][places], equal_nan=name == "x")


@pytest.mark.parametrize("last", [True, False])
def test_rows_are_counted_without_parsing(tmp_path, last):
    path = write(tmp_path / "t.csv", ODD, last=last)
    assert count_lines(path) == len(ODD)
    assert count_rows(CsvSource([path, path]), "x") == 2 * len(ODD)


def test_missing_cells_are_those_of_pandas():
    """For every reader: the list is pandas' own."""
    odd = [*NA_WORDS, "none", "NONE", "missing", "-", "0"]
    text = "x\n" + "\n".join(f'"{cell}"' for cell in odd) + "\n"
    import io

    read = pd.read_csv(io.StringIO(text), dtype=str, skip_blank_lines=False)["x"]
    ours = _by_arrow(text.removeprefix("x\n").encode(), ["x"], ["x"], ())["x"]
    assert read.isna().tolist() == ours.is_null().to_pylist() == [c in NA_WORDS for c in odd]
