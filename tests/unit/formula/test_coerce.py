"""Cells of every kind of column; the same matrix from pandas, polars and pyarrow."""

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula import coerce
from dpmodels.formula.build import build_design
from dpmodels.formula.reading import coerce_all
from dpmodels.variables import Binary, Count, Levels, Ordered, Real, Text

nan = np.nan


class Hostile:
    """A cell whose every method raises, quoting a secret."""

    def __float__(self):
        raise RuntimeError("SECRET")

    def __str__(self):
        raise RuntimeError("SECRET")

    def __eq__(self, other):
        raise RuntimeError("SECRET")

    __hash__ = None


def same(got, want):
    assert np.array_equal(np.asarray(got, float), np.asarray(want, float), equal_nan=True), got


def test_float64_is_not_copied():
    x = np.array([1.0, nan, np.inf])
    assert coerce(x, Real()) is x
    s = pd.Series(x)
    assert np.shares_memory(coerce(s, Real()), s.to_numpy())


@pytest.mark.parametrize(
    ("column", "want"),
    [
        (np.array([1, 2], np.int8), [1, 2]),
        (np.array([1.5, nan], np.float32), [1.5, nan]),
        (np.array([1e35], np.float32), [float(np.float32(1e35))]),
        (np.array([True, False]), [1, 0]),
        (np.array(["1.5", "x", "", " 2 ", "nan", "inf"]), [1.5, nan, nan, 2, nan, np.inf]),
        (np.array([1, "2", None, "z", 3.5, True], object), [1, 2, nan, nan, 3.5, 1]),
        (
            np.array([decimal.Decimal("1.25"), decimal.Decimal("sNaN"), 10**400], object),
            [1.25, nan, nan],
        ),
        (np.array([1 + 2j], object), [nan]),
        (np.array([[1], {}, (), b"3", set()], object), [nan, nan, nan, 3, nan]),
        (np.array([Hostile(), 1.0], object), [nan, 1]),
        (np.array([1 + 2j, 3]), [nan, nan]),
        (np.array(["1970-01-02", "NaT"], "datetime64[D]"), [86400, nan]),
        (np.ma.masked_array([1.0, 2.0], [False, True]), [1, nan]),
        (pd.Series([1, None], dtype="Int64"), [1, nan]),
        (pd.Series([1.5, None], dtype="Float64"), [1.5, nan]),
        (pd.Series([True, None], dtype="boolean"), [1, nan]),
        (pd.Series(["1", "x", None], dtype="string"), [1, nan, nan]),
        (pd.Series(["1", "x", None]), [1, nan, nan]),
        (pd.Series(["1", "x", None], dtype="category"), [1, nan, nan]),
        (pd.Series([1, 2, None], dtype="category"), [1, 2, nan]),
        (pd.Series(pd.to_datetime(["1970-01-02", None])), [86400, nan]),
        (pd.Series(pd.to_datetime(["1970-01-02", None], utc=True)), [86400, nan]),
        (pd.Series([datetime.date(1970, 1, 2), None]), [86400, nan]),
        (pd.Series([pd.NA, 1, pd.NaT], dtype=object), [nan, 1, nan]),
        (pd.Series([0.0, 1.0], dtype="Sparse[float]"), [0, 1]),
        (pd.Series(pd.interval_range(0, 2)), [nan, nan]),
        ([1, "x", None], [1, nan, nan]),
    ],
)
def test_numbers(column, want):
    for variable in (Real(), Real(0, 1), Count()):
        same(coerce(column, variable), want)


@pytest.mark.parametrize(
    ("column", "want"),
    [
        (np.array(["b", "a", "zz", None, "c"], object), [1, 0, -1, -1, 2]),
        (pd.Series(["b", None, "a"], dtype="category"), [1, -1, 0]),
        (pd.Series(pd.Categorical(["b", "a"], categories=["zz", "b", "a"])), [1, 0]),
        (pd.Series(["b", None, "zz"], dtype="string"), [1, -1, -1]),
        (np.array(["b", "a"]), [1, 0]),
        (np.array([b"b", b"a"]), [1, 0]),
        (np.array([1.0, nan]), [-1, -1]),
        (np.array([Hostile(), "a", [1], 3], object), [-1, 0, -1, -1]),
        (np.array([], object), []),
    ],
)
def test_levels(column, want):
    for variable in (Levels(["a", "b", "c"]), Ordered(["a", "b", "c"])):
        got = coerce(column, variable)
        assert got.dtype == np.int32
        same(got, want)


def test_levels_that_are_numbers_and_other():
    numbers = Levels([1, 2, 3])
    same(coerce(np.array([1, 3, 9]), numbers), [0, 2, -1])
    same(coerce(np.array([1.0, 2.0, 2.5, nan]), numbers), [0, 1, -1, -1])
    same(coerce(np.array(["1", "2.0", "x"], object), numbers), [0, 1, -1])
    same(coerce(np.array([1, 2]), Levels(["1", "2"])), [0, 1])
    same(coerce(np.array([True, False]), Levels([False, True])), [1, 0])
    other = Levels(["a", "b"], other="rest")
    same(coerce(np.array(["a", "x", None, nan, "rest"], object), other), [0, 2, -1, -1, 2])


def test_binary():
    for column in (
        np.array([0, 1, 2]),
        np.array([0.0, 1.0, 0.5]),
        np.array([False, True, None], object),
        np.array(["0", "1", "2"], object),
        np.array(["False", "true", "maybe"], object),
        pd.Series([False, True, None], dtype="boolean"),
        pd.Series([0, 1, None], dtype="category"),
    ):
        same(coerce(column, Binary()), [0, 1, nan])
    same(coerce(np.array(["no", "yes", "x"], object), Binary(["no", "yes"])), [0, 1, nan])


def test_text_is_hashed_the_same_everywhere():
    a = coerce(pd.Series(["x", None, "y", "x"]), Text())
    b = coerce(np.array(["x", None, "y", "x"], object), Text())
    assert np.array_equal(a, b) and a[0] == a[3] != a[2] and a[1] == -1


def table():
    rng = np.random.default_rng(3)
    n = 200
    return {
        "y": rng.uniform(0, 10, n),
        "x": [None if i % 17 == 0 else float(v) for i, v in enumerate(rng.uniform(-9, 9, n))],
        "i": [None if i % 19 == 0 else int(v) for i, v in enumerate(rng.integers(0, 9, n))],
        "b": [None if i % 23 == 0 else bool(v) for i, v in enumerate(rng.integers(0, 2, n))],
        "g": [None if i % 13 == 0 else str(v) for i, v in enumerate(rng.choice(list("abz"), n))],
        "t": [str(v) for v in rng.choice(["1", "2.5", "bad"], n)],
    }


def test_every_kind_of_frame_gives_the_same_matrix():
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    from dpmodels.formula.schema import Schema

    data = table()
    schema = Schema(
        y=Real(0, 10), x=Real(-5, 5), i=Count(8), b=Binary(), g=Levels(["a", "b"]), t=Real(0, 3)
    )
    design = build_design("y ~ x*g + i + b + t", schema)
    arrow = pa.table(data)
    frames = {
        "pandas": pd.DataFrame(data),
        "pandas nullable": pd.DataFrame(data).convert_dtypes(),
        "pandas category": pd.DataFrame(data).astype({"g": "category", "t": "category"}),
        "pandas arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.DataFrame(data),
        "polars category": pl.DataFrame(data).with_columns(pl.col("g").cast(pl.Categorical)),
        "pyarrow": arrow,
        "pyarrow chunked": pa.concat_tables([arrow[:50], arrow[50:]]),
        "pyarrow dictionary": arrow.set_column(4, "g", arrow["g"].dictionary_encode()),
        "dict": data,
    }
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, f in frames.items():
            columns = {v: coerce(f[v], design.schema[v]) for v in design.variables}
            out = np.empty((design.q, 200))
            design.fill(columns, out)
            bad = np.isnan(out[-1])
            out[:, bad] = 0
            results[name] = out
    first = results.pop("pandas")
    assert 20 < (first[0] == 0).sum() < 190
    for name, out in results.items():
        assert np.array_equal(first, out), name


@pytest.mark.parametrize(
    "empty", [np.array([]), pd.Series([], dtype=object), pd.Series([], dtype="category")]
)
def test_empty_columns(empty):
    for variable in (Real(), Binary(), Levels(["a", "b"]), Text()):
        assert len(coerce(empty, variable)) == 0


def test_arrow_without_chunks():
    pa = pytest.importorskip("pyarrow")
    assert len(coerce(pa.chunked_array([], type=pa.float64()), Real())) == 0
    same(coerce(pa.nulls(3), Real()), [nan, nan, nan])
    same(coerce(pa.array([1, None], pa.decimal128(5, 2)), Real()), [1, nan])
    same(coerce(pa.array([None, 86400], pa.timestamp("s")), Real()), [nan, 86400])


MIXED = [
    1,
    True,
    1.0,
    "1",
    "1.0",
    "True",
    decimal.Decimal(1),
    0,
    False,
    -0.0,
    0.0,
    "0",
    None,
    nan,
    b"1",
]


@pytest.mark.parametrize(
    "variable",
    [
        Levels(["1", "True", "1.0", "0", "-0.0", "0.0", "False"]),
        Levels([0, 1]),
        Text(),
        Binary(),
        Binary(["True", "1"]),
        Real(),
    ],
)
def test_a_cell_is_read_by_itself_in_a_mixed_column(variable):
    """Equal cells of different types: the order of the others must not decide how one is read."""
    rng = np.random.default_rng(0)
    alone = [coerce(np.array([c, None], object)[:1], variable)[0] for c in MIXED]
    for wrap in (lambda a: a, pd.Series):
        for _ in range(20):
            order = rng.permutation(len(MIXED))
            cells = np.empty(len(MIXED), object)
            for at, j in enumerate(order):
                cells[at] = MIXED[j]
            same(coerce(wrap(cells), variable), np.array(alone, float)[order])
    floats = np.array([0.0, -0.0, 1.0, nan])
    same(coerce(floats, variable), coerce(floats[::-1].copy(), variable)[::-1])


MISSING = {
    "None": None,
    "float": float("nan"),
    "float16": np.float16("nan"),
    "float32": np.float32("nan"),
    "longdouble": np.longdouble("nan"),
    "complex": complex("nan"),
    "complex imaginary": complex(0, nan),
    "complex64": np.complex64("nan"),
    "clongdouble": np.clongdouble("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "datetime64": np.datetime64("NaT"),
    "datetime64 ns": np.datetime64("NaT", "ns"),
    "timedelta64": np.timedelta64("NaT"),
    "timedelta64 ns": np.timedelta64("NaT", "ns"),
    "Decimal": decimal.Decimal("NaN"),
    "Decimal signalling": decimal.Decimal("sNaN"),
    "Decimal signed": decimal.Decimal("-NaN"),
    "masked": np.ma.masked,
    "Period": pd.Period("NaT"),
}
CATEGORIES = [
    Levels(["a", "b"], other="rest"),
    Levels(["a", "nan", "NaN", "NaT", "(nan+0j)", "--"]),
    Levels([1, 2]),
    Text(),
    Binary(["a", "nan"]),
    Binary(),
    Real(),
]


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_cell_is_missing_whatever_the_other_cells_are(name):
    """One text cell replaced by another type changes how pandas looks at a column of objects:
    cells that it takes for missing must be missing when each cell is read by itself too."""

    def column(*cells):
        out = np.empty(len(cells), dtype=object)
        for i, cell in enumerate(cells):
            out[i] = cell
        return out

    gap = MISSING[name]
    for variable in CATEGORIES:
        missing = coerce(column("a", None), variable)[1]
        for made in (column, lambda *cells: pd.Series(column(*cells), dtype=object)):
            for other in (
                "a",
                3,
                2.5,
                True,
                1j,
                b"a",
                decimal.Decimal(1),
                datetime.date(2020, 1, 1),
            ):
                got = np.asarray(coerce(made(other, "b", gap, gap, "a"), variable))
                plain = np.asarray(coerce(made("a", "b", gap, gap, "a"), variable))
                same(got[1:], plain[1:])
                same(got[2:4], [missing] * 2)


def test_categories_that_were_seen_are_not_looked_up_again():
    """Chunks of one column give the same codes with a memory as without; another column its own."""
    variable = Levels(["a", "b", "c"], other="c")
    cells = ["b", None, "a", "odd", "c", "a"]
    seen = {}
    for categories in (["a", "b", "c"], ["c", "odd", "b", "a"], ["a", "b", "c", "odd"], ["b"]):
        codes = [categories.index(c) if c in categories else -1 for c in cells]
        column = pd.Series(pd.Categorical.from_codes(codes, categories))
        want = coerce_all({"g": column}, {"g": variable})["g"]
        for part in (slice(0, 4), slice(4, 6), slice(0, 0)):
            got = coerce_all({"g": column.iloc[part]}, {"g": variable}, seen)["g"]
            assert got.dtype == want.dtype and np.array_equal(got, want[part])
    other = Levels(["c", "b", "a"])  # the same column, as another variable
    got = coerce_all({"g": column}, {"g": other}, seen)["g"]
    assert np.array_equal(got, coerce_all({"g": column}, {"g": other})["g"])
    numbers = pd.Series(pd.Categorical([3.0, 1.0, np.nan], [1.0, 3.0]))
    kinds = {"x": Real(0, 5), "k": Levels([3, 1])}
    got = coerce_all({"x": numbers, "k": numbers}, kinds, seen)
    assert np.array_equal(got["x"], [3.0, 1.0, np.nan], equal_nan=True)
    assert got["k"].tolist() == [0, 1, -1]
    want = coerce(pd.CategoricalIndex(cells), variable)
    index = pd.CategoricalIndex(cells)
    assert np.array_equal(want, coerce_all({"g": index}, {"g": variable}, {})["g"])
