"""What a schema says of cells: missing codes, spellings, signs of numbers, dates, durations."""

import datetime

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, SchemaError
from dpmodels.formula.reading import coerce
from dpmodels.formula.schema import Schema
from dpmodels.formula.types import ColumnKind, check_types
from dpmodels.variables import Binary, Count, Date, Levels, Ordered, Real, Text

nan = np.nan


def same(got, want):
    assert np.array_equal(np.asarray(got, float), np.asarray(want, float), equal_nan=True), got


YES = Levels(["no", "yes"], recode={"y": "yes", "1": "yes", "False": "no"}, missing=["?", 9])


@pytest.mark.parametrize(
    ("variable", "cells", "want"),
    [
        (YES, [" Yes ", "NO", "Y", 1, 1.0, "01", True, False, "?", 9, "9.0", "no ", "maybe", None],
         [1, 0, 1, 1, 1, 1, 1, 0, -1, -1, -1, 0, -1, -1]),
        (Levels(["a", "A", "b"]), ["a", "A", " a", " A ", "B", "á"], [0, 1, 0, 1, 2, -1]),
        (Levels(["a", "b"], strip=False), ["a", " a", "A"], [0, -1, 0]),
        (Levels(["a", "b"], ignore_case=False), ["a", " a", "A"], [0, 0, -1]),
        (Levels(["01", "02", "1.0"]), ["01", 1, 2, "2", "1", "001", 1.0], [0, 2, 1, 1, 2, -1, 2]),
        (Levels(["1", "01"]), [1, "1", "01", "001", 1.0], [0, 0, 1, -1, 0]),
        (Levels([1, 2]), ["1", "01", "1.0", " 2 ", True, "x"], [0, 0, 0, 1, 0, -1]),
        (Levels(["0", "1"]), [True, False, "true", 1.0], [1, 0, -1, 1]),
        (Levels(["True", "False"]), [True, "TRUE ", False], [0, 0, 1]),
        (Levels(["a", "b"], other="b"), ["a", "zz", "", "NA", " nan ", None], [0, 1, -1, -1, -1, -1]),
        (Levels(["NA", "EU"], other="EU"), ["NA", "na", "zz", ""], [0, 0, 1, -1]),
        (Levels(["a", "b"], other="b", missing=["refused"]), ["Refused", "x"], [-1, 1]),
        (Ordered(["Low", "high"]), ["LOW", " High"], [0, 1]),
        (Levels(["straße", "b"]), ["STRASSE", "Straße"], [0, 0]),
    ],
)  # fmt: skip
def test_spellings(variable, cells, want):
    column = np.empty(len(cells), object)
    column[:] = cells
    same(coerce(column, variable), want)
    alone = [coerce(column[i : i + 1], variable)[0] for i in range(len(cells))]
    same(alone, want)


def test_binary():
    smoker = Binary(("no", "yes"), recode={"j": "yes"}, missing=[8])
    same(coerce(np.array(["J ", " NO", "8", "x"], object), smoker), [1, 0, nan, nan])
    coded = Binary(recode={"f": 0, "m": 1})
    same(coerce(np.array(["F", "m", "1", "0", 1, True, "?"], object), coded), [0, 1, 1, 0, 1, 1, nan])
    same(coerce(np.array([1, 2, 0]), Binary(recode={"2": 0})), [1, 0, 0])


NUMBERS = [
    ({"decimal": ","}, ["1,5", " 2 ", "1.5", "1.000,5", "-3,25e2", "x", ""], [1.5, 2, nan, nan, -325, nan, nan]),
    ({"decimal": ",", "thousands": "."}, ["1.234,5", "1.234.567", "12.34", "-1.000", "1,5"],
     [1234.5, 1234567, nan, -1000, 1.5]),
    ({"thousands": ","}, ["1,234.5", "1,23", "1234", "1,234,567"], [1234.5, nan, 1234, 1234567]),
    ({"thousands": " "}, ["1 234", "1\u00a0234", "1\u202f234.5", "1 23"], [1234, 1234, 1234.5, nan]),
    ({"thousands": "'"}, ["1'234.5"], [1234.5]),
    ({"missing": [-9, 99.9]}, ["-9", "-9.0", "99.9", "99.90", "-8"], [nan, nan, nan, nan, -8]),
    ({"missing": ["-9,5"], "decimal": ","}, ["-9,5", "-9,50", "1"], [nan, nan, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "cells", "want"), NUMBERS)
def test_numbers_as_text(said, cells, want):
    for variable in (Real(**said), Count(**said)):
        for column in (np.array(cells, object), pd.Series(cells), pd.Series(cells, dtype="category"),
                       [*cells], np.array(cells)):  # fmt: skip
            same(coerce(column, variable), want)
        try:
            import pyarrow as pa
        except ImportError:
            continue
        same(coerce(pa.array(cells), variable), want)
        for cell, one in zip(cells, want, strict=True):  # the bulk reader and the single one agree
            same(coerce(pa.array([cell]), variable), [one])


def test_missing_codes_of_numbers():
    age = Real(0, 100, missing=[-9, 99])
    for cells in (np.array([-9, 5, 99]), np.array([-9.0, 5.0, 99.0]), pd.Series([-9, 5, 99], dtype="Int64"),
                  np.array([-9, 5, 99], "float32")):  # fmt: skip
        before = np.array(cells, float)
        same(coerce(cells, age), [nan, 5, nan])
        same(np.array(cells, float), before)  # the column itself is left as it is
    same(coerce(np.array([99.9, 1], "float32"), Real(missing=[99.9])), [nan, 1])


DATE = Date("2010-01-01", "2020-12-31", format="%d.%m.%Y", missing=["01.01.1900"])


def test_dates_of_one_column_in_two_formats(tmp_path):
    """A cell is read by the first format that fits it, whatever other cells look like."""
    date = dp.Date("2000-01-01", "2030-01-01", format=["%d.%m.%Y", "%Y-%m-%d", "%d%m%Y"])
    texts = ["02.01.2000", "2000-01-02", "2.1.2000", "2000/01/02", "03012000", "", None]
    days = [1.0, 1.0, 1.0, np.nan, 2.0, np.nan, np.nan]
    for cells in (np.array(texts, dtype=object), pd.Series(texts)):
        assert coerce(cells, date) == pytest.approx(days, nan_ok=True)
    alone = [float(coerce(np.array([text], dtype=object), date)[0]) for text in texts]
    assert alone == pytest.approx(days, nan_ok=True)
    assert coerce(np.array([3012000, 13012000]), date).tolist() == [2.0, 12.0]
    assert dp.Date(format=["%Y"]) == dp.Date(format="%Y")
    schema = dp.Schema(start=date, end=dp.Date(format="%b %d, %Y"))
    assert dp.Schema.from_toml(schema.to_toml()) == schema
    schema.to_codebook(tmp_path / "c.csv")
    assert dp.Schema.from_codebook(tmp_path / "c.csv") == schema
    (tmp_path / "d.csv").write_text("name,type,format\nstart,date,%d.%m.%Y | %Y\n")
    read = dp.Schema.from_codebook(tmp_path / "d.csv")
    assert read["start"].shapes == ("%d.%m.%Y", "%Y")
    for wrong in ([], ["d.m.y"], ["%Y", 3], ("",), 5):
        with pytest.raises(SchemaError, match=r"is not a date format.*or format=\["):
            dp.Date(format=wrong)


def test_dates():
    cells = ["02.01.2010", " 3.1.2010 ", "2010-01-04", "01.01.1900", "31.02.2010", "", None, "31.12.2009"]
    want = [1, 2, nan, nan, nan, nan, nan, -1]
    for column in (np.array(cells, object), pd.Series(cells), pd.Series(cells, dtype="category"), cells):
        same(coerce(column, DATE), want)
    days = pd.Series(pd.to_datetime(["2010-01-02", None, "1900-01-01", "2010-01-01 12:00"], format="ISO8601"))
    want = [1, nan, nan, 0.5]
    made = [days, days.astype("datetime64[s]"), days.astype("datetime64[ns]"), days.to_numpy(),
            days.astype(object), [None if d is pd.NaT else d.to_pydatetime() for d in days]]  # fmt: skip
    for column in made:
        same(coerce(column, DATE), want)
    whole = [datetime.date(2010, 1, 2), None]
    same(coerce(np.array(whole, object), DATE), [1, nan])
    try:
        import pyarrow as pa
    except ImportError:
        return
    same(coerce(pa.array(whole), DATE), [1, nan])
    same(coerce(pa.array(cells), DATE), [1, 2, nan, nan, nan, nan, nan, -1])
    iso = Date("2010-01-01", "2011-01-01", unit="hours")
    text = ["2010-01-01T06:30", "2010-01-01 06:30:00.5", "2010-01-01 06:30+02:00", "2010-W01-1"]
    same(coerce(pa.array(text), iso), [6.5, 6.5 + 0.5 / 3600, 4.5, nan])


def test_units_of_time():
    assert Date("2010-01-01", "2020-01-01", unit="years").interval[1] == 3652 / 365.2425
    assert Date("2010-01-01", "2020-01-01", unit="months").interval[1] == pytest.approx(12 * 3652 / 365.2425)
    stay = Real(0, 30, duration="days")
    spans = pd.to_timedelta(["1 days 12:00:00", None, "-2 days"])
    columns = [spans.to_numpy(), pd.Series(spans), pd.Series(spans, dtype="timedelta64[s]"),
               [None if s is pd.NaT else s.to_pytimedelta() for s in spans]]  # fmt: skip
    for column in columns:
        same(coerce(column, stay), [1.5, nan, -2])
    text = ["1 days 12:00:00", "3 days", "36:00:00", "-1 day", "-1 days +12:00:00", "x", "5", ""]
    same(coerce(np.array(text, object), stay), [1.5, 3, 1.5, -1, -0.5, nan, nan, nan])
    same(coerce(spans.to_numpy(), Real()), [nan] * 3)  # in no unit that somebody named
    try:
        import pyarrow as pa
    except ImportError:
        return
    for unit in ("s", "us", "ns"):
        same(coerce(pa.array(spans.to_numpy()).cast(pa.duration(unit)), stay), [1.5, nan, -2])
    month = pa.array([(1, 1, 0), None], pa.month_day_nano_interval())
    same(coerce(month, stay), [365.2425 / 12 + 1, nan])


@pytest.mark.usefixtures("quiet")
def test_an_interval_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    table = duckdb.sql("select timestamp '2020-01-03 12:00' - timestamp '2020-01-01' as d, 0.5 as y from range(50)")
    plan = dp.dp_mean("d ~ 1", table, eps=1e6, delta=1e-6, schema={"d": Real(0, 5, duration="days")}, seed=1)
    assert plan.params.iloc[0] == pytest.approx(2.5, abs=1e-3)


SCHEMA = Schema(
    age=Real(0, 100, missing=[-9, "x"], decimal=",", thousands=".", label="Age", unit="years"),
    stay=Real(0, 30, duration="days", missing=[99]),
    visits=Count(9, missing=[9]),
    smoker=Binary(("no", "yes"), recode={"j": "yes"}, missing=["?"], strip=False),
    sex=Levels(["f", "m"], recode={"1": "f", 2: "m"}, ignore_case=False, missing=[8]),
    bmi=Ordered([1, 2], recode={"low": 1}),
    born=Date("1920-01-01", "2010-12-31", format="%d.%m.%Y", unit="years", missing=["01.01.1900"]),
    name=Text(),
)


def test_a_schema_says_it_in_every_format(tmp_path):
    assert Schema.from_toml(SCHEMA.to_toml()) == SCHEMA
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    names = {n: getattr(dp, n) for n in ("Schema", "Real", "Count", "Binary", "Levels", "Ordered", "Date")}
    assert eval(repr(SCHEMA), names | {"Text": Text}) == SCHEMA
    assert hash(Schema.from_dict(SCHEMA.to_dict())) == hash(SCHEMA)
    import pickle

    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    assert dp.Levels(["a", "b"]).to_dict() == {"type": "levels", "levels": ["a", "b"]}


REFUSED = [
    (lambda: Real(0, 1, missing={1: 2}), "list of codes"),
    (lambda: Real(0, 1, missing=[nan]), "text or a number"),
    (lambda: Real(0, 1, decimal=";"), "decimal= is one of"),
    (lambda: Real(0, 1, thousands="."), "decimal=','"),
    (lambda: Real(0, 1, duration="day"), "days"),
    (lambda: Levels(["a", "b"], recode={"x": "c"}), "not a level"),
    (lambda: Levels(["a", "b"], recode={"a": "b"}), "level itself"),
    (lambda: Levels(["a", "b"], recode=["a"]), "mapping"),
    (lambda: Levels(["a", "b"], missing=[" A "]), "one value"),
    (lambda: Levels(["1", "2"], missing=[1.0]), "one value"),
    (lambda: Levels(["a", "b"], recode={"9": "a"}, missing=[9]), "one value"),
    (lambda: Levels(["a", "b"], strip="no"), "True or False"),
    (lambda: Date("2010", "2020"), "not a date"),
    (lambda: Date("2020-01-01", "2010-01-01"), "before"),
    (lambda: Date("2010-01-01", "2020-01-01", format="d.m.Y"), "not a date format"),
    (lambda: Date("2010-01-01", "2020-01-01", unit="decades"), "not a unit"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_is_refused(make, said):
    with pytest.raises(SchemaError, match=said):
        make()


TYPES = [
    (ColumnKind("numeric", "int64"), DATE, "column of numbers"),
    (ColumnKind("bool", "bool"), DATE, "column of numbers"),
    (ColumnKind("duration", "duration"), DATE, "duration='days'"),
    (ColumnKind("numeric", "float64"), Real(0, 3, duration="days"), "Leave it out"),
    (ColumnKind("datetime", "datetime64[us]"), Real(0, 3), "dp.Date"),
    ("text", Real(0, 3), "decimal='.'"),
    (ColumnKind("numeric", "int64"), Levels(["1", "01"], recode={"x": "1"}), None),
    (ColumnKind("numeric", "int64"), Levels(["001", "01"]), "whole numbers"),
    (ColumnKind("numeric", "int64"), Levels(["no", "yes"], recode={"1": "no", "2": "yes"}), None),
    (ColumnKind("bool", "bool"), Levels(["no", "yes"], recode={"true": "yes"}), None),
    (ColumnKind("bool", "bool"), Levels(["no", "yes"]), "truth values"),
    ("text", Real(0, 3, decimal="."), None),
    ("text", Real(0, 3, thousands=","), None),
    ("text", DATE, None),
    (ColumnKind("datetime", "datetime64[ns]"), DATE, None),
    (ColumnKind("duration", "duration"), Real(0, 3, duration="days"), None),
    (ColumnKind("duration", "time"), Real(0, 3, duration="hours"), "time of day"),
]


@pytest.mark.parametrize(("kind", "variable", "said"), TYPES)
def test_types_that_a_declaration_excludes(kind, variable, said):
    if said is None:
        check_types({"x": kind}, {"x": variable})
        return
    with pytest.raises(SchemaError, match=said):
        check_types({"x": kind}, {"x": variable})


@pytest.mark.usefixtures("quiet")
def test_time_between_two_dates():
    """Ages and times of follow-up: I(end - start), with one first date. Seeded: no false alarms."""
    start = pd.Series(pd.to_datetime(["2010-01-01", "2012-06-01"])).repeat(50)
    rows = pd.DataFrame({"start": start.to_numpy(), "end": (start + pd.Timedelta(days=365)).to_numpy()})
    same_day = {"start": Date("2010-01-01", "2020-01-01"), "end": Date("2010-01-01", "2020-01-01")}
    fit = dp.dp_mean("I(end - start) ~ 1", rows, eps=1e6, delta=1e-6, schema=same_day, seed=1)
    assert fit.params.iloc[0] == pytest.approx(365, abs=0.1)
    for other in (Date("2009-01-01", "2020-01-01"), Date("2010-01-01", "2020-01-01", unit="years")):
        with pytest.raises(DPModelsError, match="same first date"):
            dp.plan("I(end - start) ~ 1", Schema(**{**same_day, "end": other}), n=100, eps=1,
                    delta=1e-6, verb="dp_mean")  # fmt: skip
        with pytest.raises(DPModelsError, match="same first date"):
            dp.plan("start ~ 1", Schema(**{**same_day, "end": other}), n=100, eps=1, delta=1e-6,
                    subset="end > start")  # fmt: skip


@pytest.mark.usefixtures("quiet")
def test_codes_are_missing_before_a_subset():
    rows = pd.DataFrame({"y": [1.0] * 50 + [0.0] * 50, "age": [99] * 50 + [50] * 50})
    schema = {"y": Real(0, 1), "age": Real(0, 100, missing=[99])}
    fit = dp.dp_mean("y ~ 1", rows, eps=1e6, delta=1e-6, schema=schema, subset="age > 20", seed=1)
    assert fit.params.iloc[0] == pytest.approx(0, abs=1e-2)


def test_rows_that_are_made_have_no_missing_codes():
    """A range that ends in a missing code: public points are rows all the same."""
    schema = Schema(y=Real(0, 1), a=Count(9, missing=[9]), d=Date("2010-01-01", "2011-01-01"))
    from dpmodels.formula.build import build_design
    from dpmodels.formula.describe import public_points

    design = build_design("y ~ a + d", schema)
    assert np.isfinite(design.matrix(public_points(design, 50))).all()
