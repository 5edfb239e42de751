"""A cell that a file's reader cannot decode is missing, and no line changes how another is read.

Seeded where random: no false alarms.
"""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.cells import objects_of
from dpmodels.formula.reading import coerce
from dpmodels.sources import lines
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Levels, Real, Text

BOUNDS = {"x": (0, 1), "y": (0, 1)}
PAY = {"eps": 5.0, "delta": 1e-4}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _stat_file(path, places):
    """Write a file of text and numbers whose cells of text at ``places`` are no UTF-8."""
    pyreadstat = pytest.importorskip("pyreadstat")
    n = 400
    names = ["Zürich" if i % 2 else "Bern__" for i in range(n)]
    for i in places:
        names[i] = "QQQQQQQ"
    frame = pd.DataFrame({"town": names, "x": np.linspace(0, 1, n), "y": np.linspace(1, 0, n)})
    write = {".sav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport}[path.suffix]
    write(frame, str(path))
    path.write_bytes(path.read_bytes().replace(b"QQQQQQQ", b"Z\xfcri\xe9\xffh"))
    return path


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt"])
def test_stat_files(tmp_path, ending):
    """One cell that does not decode made every call on its column fail, or all of an .xpt file."""
    good, bad = (as_source(_stat_file(tmp_path / f"{len(p)}{ending}", p)) for p in ((), (3, 9)))
    for name in ("town", "x"):
        a, b = (np.concatenate([objects_of(c[name]) for c in s.chunks([name])]) for s in (good, bad))
        keep = np.ones(400, dtype=bool)
        if name == "town":
            keep[[3, 9]] = False
            assert b[3] is b[9] is None and set(a[keep]) == {"Zürich", "Bern__"}
        assert (a[keep] == b[keep]).all()
    path = tmp_path / f"2{ending}"
    schema = dp.Schema(y=Real(0, 1), x=Real(0, 1), town=Levels(["Zürich", "Bern__"]))
    dp.dp_ols("y ~ x + town", path, schema=schema, **PAY)
    dp.dp_levels("town", path, **PAY)
    dp.dp_mean("y ~ 1", path, bounds=BOUNDS, unit="town", **PAY)


def test_names_and_cells_of_a_stat_file_in_its_encoding(tmp_path):
    """Bytes are decoded here as the library does it, names of columns too."""
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"größe": ["é", "ß", "abc ", ""] * 3, "x": np.arange(12.0)})
    pyreadstat.write_sav(frame, str(tmp_path / "a.sav"))
    source = as_source(tmp_path / "a.sav")
    (chunk,) = source.chunks(["x", "größe"])
    assert objects_of(chunk["größe"]).tolist() == pyreadstat.read_sav(str(tmp_path / "a.sav"))[0]["größe"].tolist()
    assert chunk["x"].tolist() == list(range(12))


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "shift_jis"])
def test_a_long_line_is_one_row(tmp_path, encoding, monkeypatch):
    """A part without a line feed was another level of recursion: 1 GB ended the call."""
    monkeypatch.setattr(lines, "_BYTES", 16)
    long = "x" * (32 * sys.getrecursionlimit())
    path = tmp_path / "a.csv"
    path.write_text(f"g,x\nm,0\n{long},1\nf,0\n", encoding=encoding)
    (chunk,) = dp.read_csv(path, encoding=encoding).chunks(["g", "x"])
    assert objects_of(chunk["g"]).tolist() == ["m", long, "f"]


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_a_line_is_cut_at_its_own_length(tmp_path, encoding, monkeypatch):
    """Where it was cut followed from where it began in the file: the rows before it decided."""
    monkeypatch.setattr(lines, "_BYTES", 64)
    monkeypatch.setattr(lines, "_LONGEST_LINE", 300)
    found = set()
    for before in range(0, 140, 7):
        for length in (280, 297, 298, 299, 340, 900):
            path = tmp_path / "a.csv"
            path.write_text(f"g,x\n{'b' * before},0\n{'m' * length},1\nf,0\n", encoding=encoding)
            chunks = list(dp.read_csv(path, encoding=encoding).chunks(["g", "x"]))
            g, x = (np.concatenate([objects_of(c[name]) for c in chunks]).tolist() for name in "gx")
            assert len(g) == 3 and g[2] == "f" and x[2] == "0"
            found.add((length, g[1], x[1]))
            assert dp.read_csv(path, encoding=encoding).lengths() == [3]
    assert len(found) == 6


def test_many_long_lines_are_several_blocks(tmp_path, monkeypatch):
    """A block of rows could be larger than a parser takes."""
    monkeypatch.setattr(lines, "_BYTES", 64)
    monkeypatch.setattr(lines, "_LONGEST_LINE", 300)
    path = tmp_path / "a.csv"
    path.write_text("g,x\n" + "".join(f"{'m' * 250},{i}\n" for i in range(40)))
    with path.open("rb") as file:
        blocks = list(lines._whole_lines(file, 65_536))
    assert b"".join(blocks) == path.read_bytes() and max(map(len, blocks)) < 1000
    chunks = list(dp.read_csv(path).chunks(["x"]))
    assert [int(v) for c in chunks for v in objects_of(c["x"])] == list(range(40))


def test_words_for_missing_are_those_that_were_given(tmp_path):
    """pandas, which reads where Arrow cannot, takes "-9.0" for the word "-9"."""
    for odd in (b"z", b"\xff"):
        (tmp_path / "a.csv").write_bytes(b"g,x\n-9,1\n-9.0,2\n" + odd + b",3\n")
        (chunk,) = dp.read_csv(tmp_path / "a.csv", na=["-9"]).chunks(["g"])
        assert objects_of(chunk["g"]).tolist()[:2] == [None, "-9.0"]


def _queries():
    rows = pd.DataFrame({"s": ["1"] * 400 + ["x"], "x": np.linspace(0, 1, 401), "y": np.linspace(0, 1, 401)})
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", rows)
    yield pl.from_pandas(rows).lazy().with_columns(pl.col("s").cast(pl.Float64).alias("z"))
    yield connection.sql('select cast(s as double) as z, x as "x", y from rows')


def test_a_query_computes_the_columns_of_the_call_alone():
    """A cast that one cell breaks ended calls that do not use its column."""
    for query in _queries():
        dp.dp_ols("y ~ x", query, bounds=BOUNDS, **PAY)
        dp.dp_mean("y ~ 1", query, bounds=BOUNDS, **PAY)


def test_dates_beyond_nanoseconds():
    """One date after 2262 in a column of seconds ended the call, or wrapped."""
    for odd in ("9999-12-31", "0001-01-01"):
        frame = pd.DataFrame({"g": np.array(["2001-02-03", odd], dtype="M8[s]"), "y": [0.0, 1.0]})
        for variable in (Real(0, 2e9), dp.Date("2000-01-01", "2010-01-01"), Text()):
            (chunk,) = as_source(frame).chunks(["g"])
            cells = coerce(chunk["g"], variable)
            assert cells[0] == coerce(chunk["g"][:1], variable)[0]
            if variable.kind == "real":
                assert cells[1] == (np.datetime64(odd, "s").astype(np.int64))
