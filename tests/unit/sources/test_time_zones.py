"""A point in time with a zone is an instant, read in UTC, from every source."""

import datetime
import zoneinfo

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import SchemaError
from dpmodels.formula.reading import coerce
from dpmodels.interop.r import table as table_of_r
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Text

#: In Berlin an hour, then two hours, before UTC; the fourth cell is missing.
HERE = [
    datetime.datetime(2020, 1, 1, 0, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.datetime(2020, 1, 5, 12, 0, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.datetime(2020, 7, 1, 1, 0, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    None,
]
HOURS = np.array([-0.5, 107.0, 182 * 24 - 1.0, np.nan])
DECLARED = {
    "hours": (dp.Date("2020-01-01", "2021-01-01", unit="hours"), HOURS),
    "seconds": (dp.Real(1.5e9, 1.7e9), 1_577_836_800 + 3600 * HOURS),
}
INDEX = pd.DatetimeIndex(HERE)
TEXT = [None if at is None else at.isoformat() for at in HERE]


def arrow():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"at": pa.array(HERE, pa.timestamp("us", tz="Europe/Berlin"))})


def polars():
    pl = pytest.importorskip("polars")
    return pl.from_arrow(arrow())


def duckdb():
    given = arrow()  # noqa: F841  it is found by its name
    return pytest.importorskip("duckdb").sql('SELECT "at" FROM given')


def parquet(path):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(arrow(), path / "t.parquet")
    return path / "t.parquet"


def csv(path):
    (path / "t.csv").write_text("at\n" + "\n".join(x or "NA" for x in TEXT) + "\n")
    return path / "t.csv"


def frame_of_r(path):
    seconds = np.array([np.nan if at is None else at.timestamp() for at in HERE])
    return table_of_r(["at"], [{"kind": "time", "cells": bytearray(seconds.tobytes())}])


def with_arrow_dtype(path):
    pa = pytest.importorskip("pyarrow")
    dtype = pd.ArrowDtype(pa.timestamp("ns", tz="Europe/Berlin"))
    return pd.DataFrame({"at": pd.Series(INDEX).astype(dtype)})


TABLES = {
    "pandas": lambda path: pd.DataFrame({"at": INDEX}),
    "pandas, seconds": lambda path: pd.DataFrame({"at": INDEX.as_unit("s")}),
    "pandas, Arrow": with_arrow_dtype,
    "pandas, objects": lambda path: pd.DataFrame({"at": pd.Series(HERE, dtype=object)}),
    "pandas, stamps": lambda path: pd.DataFrame({"at": pd.Series(list(INDEX), dtype=object)}),
    "pandas, categories": lambda path: pd.DataFrame({"at": pd.Categorical(INDEX)}),
    "a Series": lambda path: {"at": pd.Series(INDEX)},
    "an index": lambda path: {"at": INDEX},
    "a list": lambda path: {"at": HERE},
    "text": lambda path: {"at": TEXT},
    "Arrow": lambda path: arrow(),
    "Arrow, dictionary": lambda path: {"at": arrow()["at"].dictionary_encode()},
    "polars": lambda path: polars(),
    "polars, lazy": lambda path: polars().lazy(),
    "DuckDB": lambda path: duckdb(),
    "Parquet": parquet,
    "CSV": csv,
    "R": frame_of_r,
}


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("name", TABLES)
def test_an_instant_is_read_in_utc(name, declared, tmp_path):
    variable, wanted = DECLARED[declared]
    if declared == "seconds" and name in ("text", "CSV"):
        pytest.skip("text of a date is no number")
    source = as_source(TABLES[name](tmp_path))
    cells = np.concatenate([np.asarray(coerce(c["at"], variable)) for c in source.chunks(["at"])])
    assert np.array_equal(cells, wanted, equal_nan=True)


def test_a_point_without_a_zone_is_read_as_it_is_written(tmp_path):
    naive = [None if at is None else at.replace(tzinfo=None) for at in HERE]
    for column in (pd.Series(naive), np.array(naive, object), np.array(naive, "M8[us]")):
        cells = coerce(column, DECLARED["hours"][0])
        assert np.array_equal(cells, [0.5, 108.0, 182 * 24 + 1.0, np.nan], equal_nan=True)


def test_a_declared_date_with_a_zone_is_the_same_instant():
    berlin = dp.Date("2020-01-01T01:00:00+01:00", "2020-07-01T02:00:00+02:00")
    assert berlin == dp.Date("2020-01-01", "2020-07-01")
    assert dp.Date(HERE[0], HERE[2]).lower == "2019-12-31T23:30:00"
    with pytest.raises(SchemaError, match="must come before"):
        dp.Date("2020-01-01T00:30:00+01:00", "2019-12-31T23:30:00")


def test_text_of_an_instant_is_of_utc():
    """A level is compared with it, and it is hashed."""
    levels = dp.Levels(["2020-01-05 11:00:00", "2019-12-31 23:30:00"])
    columns = [pd.Series(HERE, dtype=object), arrow()["at"], INDEX.as_unit("us")]
    for column in columns:
        assert coerce(column, levels).tolist() == [1, 0, -1, -1]
    texts = [coerce(column, Text()).tolist() for column in columns]
    assert all(text == texts[0] for text in texts)
