"""A cell is read by itself: replacing one cell of a table moves no other row, in any container.

The type of a column may be public (frames, Arrow) or unknown (CSV, lists); a missing or odd cell
must not decide how the others are read, nor stop the call.
"""

from __future__ import annotations

import decimal
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError
from dpmodels.formula.reading import coerce
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Binary, Count, Date, Levels, Real, Text

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

#: What one row may hold instead of an ordinary cell, as text.
ODD = ["", "x", "1.0", "True", "01", "1_0", "1e300", "-0.0", "9007199254740993", "é", "nan", "a,b",
       " TWO ", "1.000,5", "0,5", "02", "1 days 02:00:00"]  # fmt: skip
VARIABLES = [
    Levels(["1", "2"]),
    Levels(["01", "02", "1.0"]),
    Levels([1, 2], other=2),
    Levels(["True", "False"]),
    Real(0, 2),
    Binary(),
    Binary(levels=["1", "2"]),
    Text(),
    Levels(["one", "Two", "two"], recode={"1": "one", "x": "two"}, missing=[2, "é"], other="rest"),
    Binary(["no", "yes"], recode={"1": "yes", "True": "yes", "2": "no"}, missing=["x"]),
    Real(0, 2, decimal=",", thousands="."),
    Real(0, 2, missing=[1, "x"], decimal="."),
    Real(0, 2, thousands=",", missing=["1.0"]),
    Count(9, missing=[2]),
    Date("2000-01-01", "2010-01-01", format="%d", missing=["2"]),
    Real(0, 2, duration="days"),
]
WHOLE = [1, 2, 1, 2, 1, 1, 2, 9007199254740993]


def _cells(table, variable):
    return np.concatenate([coerce(c["g"], variable) for c in as_source(table).chunks(["g"])])


def _same_but_last(first, second, variable, what):
    a, b = _cells(first, variable), _cells(second, variable)
    assert len(a) == len(b), what
    np.testing.assert_array_equal(a[:-1], b[:-1], err_msg=f"{what}, {variable!r}")


def _csv(path, cells):
    pd.DataFrame({"g": cells, "h": 1}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
@pytest.mark.parametrize("column", [["1", "2", "1"], ["01", "02"], ["True", "False"], ["0.1", "1"]])
def test_csv(tmp_path, column, variable):
    """A reader that guesses types read "01" as 1 and "True" as 1.0, unless some cell was text."""
    plain = _csv(tmp_path / "plain.csv", [*column, column[0]])
    for k, odd in enumerate(ODD):
        other = _csv(tmp_path / f"odd{k}.csv", [*column, odd])
        _same_but_last(plain, other, variable, f"csv with {odd!r}")


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
def test_missing_integers_and_booleans(variable):
    """A missing cell made floats of all integers of a batch: "1" became "1.0", a lost level."""
    for cells in (WHOLE, [True, False, True]):
        with_missing = [*cells[:-1], None]
        for make in (
            lambda c: pa.table({"g": pa.array(c)}),
            lambda c: pa.table({"g": pa.chunked_array([c[:2], c[2:]], type=pa.array(c).type)}),
            lambda c: pl.DataFrame({"g": c}),
            lambda c: {"g": pl.Series(c)},
            lambda c: {"g": list(c)},
            lambda c: {"g": pd.Series(c, dtype="boolean" if isinstance(c[0], bool) else "Int64")},
            lambda c: pd.DataFrame({"g": pd.array(c, dtype=pd.ArrowDtype(pa.array(c).type))}),
        ):
            _same_but_last(make(cells), make(with_missing), variable, type(make(cells)).__name__)


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
def test_lists(variable):
    """numpy gives a list one type for all: [True, "x"] is text, [1, nan] are floats."""
    odd = [None, float("nan"), "x", [1], 1j, decimal.Decimal("1"), 10**400, object, b"\xff"]
    for cells in ([1, 2, 1], [True, False, True], [0.1, 1.0], ["1", "2"], [np.float32(0.1), 1]):
        for cell in odd:
            _same_but_last({"g": cells}, {"g": [*cells[:-1], cell]}, variable, repr(cell))
    assert as_source({"g": [1, 2]}).kinds == as_source({"g": [1, "x"]}).kinds
    masked = [pd.array(c, dtype="Int64") for c in ([1, 2], [1, None])]
    assert as_source({"g": masked[0]}).kinds == as_source({"g": masked[1]}).kinds


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
def test_text_that_is_not_utf8(tmp_path, variable):
    """Arrow holds any bytes as text; Python refused a whole column because of one cell."""
    raw = [b"1", b"2", b"01", b"\xff\xfe"]
    ends = np.cumsum([0, *map(len, raw)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(raw))]
    text = pa.Array.from_buffers(pa.string(), len(raw), buffers)
    codes = pa.array([0, 1, 2, 3])
    good = pa.array(["1", "2", "01", "2"])
    _same_but_last(pa.table({"g": good}), pa.table({"g": text}), variable, "string")
    encoded = pa.DictionaryArray.from_arrays(codes, text)
    _same_but_last(pa.table({"g": good}), pa.table({"g": encoded}), variable, "dictionary")
    frame = pd.DataFrame({"g": pd.Series(pd.arrays.ArrowExtensionArray(text))})
    _same_but_last(pa.table({"g": good}), frame, variable, "pandas")
    (tmp_path / "a.csv").write_bytes(b"g,h\n1,1\n2,1\n01,1\n\xff\xfe,1\n")
    _same_but_last(
        _csv(tmp_path / "b.csv", ["1", "2", "01", "2"]), tmp_path / "a.csv", variable, ""
    )


def test_the_shape_of_a_csv_file_is_not_decided_by_a_cell(tmp_path):
    """One more field in the first row made an index of the first column; an empty cell, no row."""
    (tmp_path / "wide.csv").write_text("g,h\n1,2,\n1,2\n2,1\n")
    (tmp_path / "tall.csv").write_text("g,h\n1,2\n1,2\n2,1\n")
    wide, tall = (_cells(tmp_path / f"{x}.csv", Real(0, 9)) for x in ("wide", "tall"))
    assert wide.tolist() == tall.tolist() == [1.0, 1.0, 2.0]
    (tmp_path / "one.csv").write_text("g\n1\n\n2\n")
    np.testing.assert_array_equal(_cells(tmp_path / "one.csv", Real(0, 9)), [1.0, np.nan, 2.0])


def test_a_fit_is_not_moved_by_a_missing_cell_elsewhere():
    """The whole route: with one region missing, the others kept their effect."""
    rng = np.random.default_rng(5)
    g = rng.integers(1, 3, 4000)
    y = np.where(g == 2, 0.9, 0.1)
    schema = dp.Schema(y=Real(0, 1), g=Levels(["1", "2"]))
    table = pa.table({"y": y, "g": pa.array([None, *g[1:].tolist()])})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_ols("y ~ g", table, eps=50, delta=1e-6, schema=schema, seed=1)
    # noise sd of the slope is below 0.01 here: 20 standard deviations
    assert fit.params.iloc[1] == pytest.approx(0.8, abs=0.2)


def test_both_readers_of_numbers_agree():
    """A chunk of text is parsed at once if every cell is a number, else cell by cell."""
    from dpmodels.cells import read_or_none
    from dpmodels.formula.reading import _parsed
    from dpmodels.formula.spelled import number_of

    rng = np.random.default_rng(3)
    odd = ["+1", " 1", "1e400", "-1e-400", "4.9e-324", "0x10", "1_0", "nan(1)", "-Infinity", "1.",
           ".5", "1d5", "True", "9007199254740993", "1e23", "-0", "1" * 400, "", "-nan"]  # fmt: skip
    odd += map(repr, np.frombuffer(rng.bytes(8 * 20_000)).tolist())
    odd += [f"{a}.{b}e{c}" for a, b, c in rng.integers(-300, 300, (5000, 3)) if b >= 0]
    read = 0
    for cell in odd:
        parsed = read_or_none(lambda cell=cell: _parsed(pa.array([cell])))
        if parsed is not None:
            read += 1
            np.testing.assert_array_equal(parsed, [number_of(cell)], err_msg=cell)
            assert np.signbit(parsed[0]) == np.signbit(number_of(cell)) or np.isnan(parsed[0]), cell
    assert read > 20_000


def _secret():
    raise ValueError("could not convert string to float: 'zq-sentinel'")
    yield


def test_a_table_that_fails_before_the_charge_quotes_no_cell():
    """The first part of an iterable, and a lazy query, were read outside every guard."""

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ValueError("zq-sentinel")

    tables = [_secret, _secret(), Stream()]
    try:
        import duckdb
    except ImportError:
        pass
    else:
        rows = pd.DataFrame({"x": ["0.5", "zq-sentinel"], "y": ["0.5", "0.5"]})
        query = duckdb.connect().register("rows", rows)
        tables.append(query.sql("select cast(x as double) x, cast(y as double) y from rows"))
    for table in tables:
        with pytest.raises(DPModelsError) as caught:
            dp.dp_ols("y ~ x", table, n=2, eps=1, delta=1e-6, bounds={"x": (0, 1), "y": (0, 1)})
        shown = "".join(traceback.format_exception(caught.value))
        assert "could not" not in str(caught.value) and "zq-sentinel" not in str(caught.value)
        assert caught.value.__context__ is None and caught.value.__cause__ is None
        assert "ValueError" not in shown and "ConversionException" not in shown


class Panic(BaseException):
    """What a panic of a library written in Rust raises: not an Exception."""


def _panics_late():
    yield pd.DataFrame({"x": [0.5], "y": [0.5]})
    raise Panic("zq-sentinel")


@pytest.mark.parametrize("table", [_panics_late, lambda: _raise(Panic("zq-sentinel"))])
def test_a_panic_quotes_no_cell(table):
    with pytest.raises(DPModelsError) as caught:
        dp.dp_ols("y ~ x", table, n=2, eps=1, delta=1e-6, bounds={"x": (0, 1), "y": (0, 1)})
    assert "zq-sentinel" not in "".join(traceback.format_exception(caught.value, chain=True)[-1:])
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def _raise(error):
    raise error
    yield
