"""Declarations that the type of a column excludes are refused before the charge; others match."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, SchemaError
from dpmodels.formula.categories import hash_text
from dpmodels.formula.reading import coerce
from dpmodels.formula.types import ColumnKind, check_types
from dpmodels.sources.tables import arrow_kind, numpy_kind
from dpmodels.variables import Binary, Levels, Ordered

N = 300
Y = np.random.default_rng(3).uniform(0, 1, N)
CODE = np.arange(N) % 2
DATES = pd.Timestamp("2020-01-01") + pd.to_timedelta(CODE, unit="D")
COLUMNS = {
    "int": CODE, "uint8": CODE.astype("uint8"), "Int64": pd.Series(CODE, dtype="Int64"),
    "bool": CODE == 1, "boolean": pd.Series(CODE == 1, dtype="boolean"), "float": CODE * 1.5,
    "dates": pd.Series(DATES), "category": pd.Series(CODE).astype("category"),
}  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("declared", [
    Levels(["north", "south"]), Binary(("no", "yes")), Ordered(["low", "high"]),
    Levels(["north", "south"], other="rest"), Levels(["01a", "02a"]),
])  # fmt: skip
def test_text_levels_of_a_column_that_has_no_text(column, declared):
    budget = dp.Budget(eps=10, delta=1e-3)
    pay = {
        "eps": 1,
        "delta": 1e-6,
        "schema": {"y": dp.Real(0, 1), "g": declared, "t": dp.Real(0, 9)},
    }
    data = pd.DataFrame({"y": Y, "t": Y + 1, "g": COLUMNS[column], "e": CODE})
    two = isinstance(declared, Binary) or len(declared.levels) == 2
    calls = [lambda: dp.dp_ols("y ~ g", data, budget=budget, **pay)]
    calls += [lambda: dp.dp_glm("g ~ y", data, budget=budget, **pay)] if two else []
    if isinstance(declared, Levels):
        calls += [
            lambda: dp.dp_table("~ g", data, budget=budget, **pay),
            lambda: dp.dp_table("y ~ g", data, budget=budget, **pay),
            lambda: dp.dp_coxph("Surv(t, e) ~ y + strata(g)", data, budget=budget, **pay),
            lambda: dp.dp_release("~ y + g", data, budget=budget, **pay),
        ]
    for call in calls:
        with pytest.raises(SchemaError, match=r"'g'.*dp\.(Levels|Binary|Ordered)"):
            call()
    assert not len(budget.charges)


PAIRS = [
    (np.array([1, 2]), [1, 2]), (np.array([1, 2]), ["1", "2"]), (np.array([1, 2]), ["1.0", "2.0"]),
    (np.array([1, 2]), [1, "rest"]), (np.array([0.5, 2.0]), [0.5, 2]),
    (np.array([0.5, 2.0]), ["0.5", "2"]), (np.array([1e22, 1.0]), ["1e+22", "1"]),
    (np.array([True, False]), [True, False]), (np.array([True, False]), ["True", "False"]),
    (np.array([True, False]), [1, 0]), (np.array([0, 1]), [False, True]),
    (pd.Series(["1", "2"]), [1, 2]), (pd.Series([1, None], dtype="Int64"), ["1", "2"]),
    (np.array([np.inf, 1.0]), ["inf", "1"]), (np.array([0.5, 1.5], "float32"), [0.5, 1.5]),
    (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), ["2020-01-01", "2020-01-02"]),
    (np.array(["2020-01-01"], "datetime64[s]"), ["2020-01-01 00:00:00", "b"]),
    (pd.Series([True, None], dtype="boolean"), [True, False]),
    (pd.Series([1, 2]).astype("category"), ["1", "2"]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "levels"), PAIRS)
def test_pairs_that_match_go_on_matching(column, levels):
    assert (coerce(column, Levels(levels)) >= 0).any()
    check_types({"g": numpy_kind(column.dtype)}, {"g": Levels(levels)})


def test_what_is_refused_matches_nothing_and_what_matches_is_accepted():
    """Every type against every pair of levels, both ways."""
    columns = [
        np.array([0, 1, 2], t) for t in ("int8", "uint8", "int64", "float32", "float64", "bool")
    ]
    columns += [np.array([0.1, 0.5, -1.25], t) for t in ("float32", "float64")]
    columns += [
        np.array(["2020-01-01", "2021-05-06"], f"datetime64[{u}]") for u in ("D", "s", "ns")
    ]
    levels = [["0", "1"], ["a", "b"], [0.1, 9], ["0.1", "z"], [300, 400], ["True", "x"], [-1.25, 7],
              ["01", "02"], ["1.0", "q"], ["2020-01-01", "w"], ["2020-01-01 00:00:00", "w"]]  # fmt: skip
    for column in columns:
        for pair in levels:
            matches = bool((coerce(column, Levels(pair)) >= 0).any())
            try:
                check_types({"g": numpy_kind(column.dtype)}, {"g": Levels(pair)})
            except SchemaError:
                assert not matches, (column.dtype, pair)


def test_arrow_types_have_the_same_facts():
    pa = pytest.importorskip("pyarrow")
    for made in (pa.int16(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(),
                 pa.timestamp("us"), pa.decimal128(10, 2),
                 pa.dictionary(pa.int32(), pa.int64())):  # fmt: skip
        with pytest.raises(SchemaError, match="'g'"):
            check_types({"g": arrow_kind(made)}, {"g": Levels(["north", "south"])})
    check_types(
        {"g": arrow_kind(pa.dictionary(pa.int32(), pa.string()))}, {"g": Levels(["a", "b"])}
    )
    check_types({"g": arrow_kind(pa.decimal128(10, 2))}, {"g": Levels(["1.50", "2.50"])})


def test_a_kind_compares_as_its_text():
    import pickle

    kind = pickle.loads(pickle.dumps(ColumnKind("numeric", "int8")))
    assert kind == "numeric"
    assert kind.cells == "int8"
    assert hash_text("a") > 0


# -- Durations and times of day


def _durations():
    days = pd.to_timedelta(np.arange(N) % 10, unit="D")
    yield pd.DataFrame({"y": Y, "d": days, "e": CODE})
    yield {"y": Y, "d": days.to_numpy(), "e": CODE}
    try:
        import pyarrow as pa
    except ImportError:
        return
    times = [datetime.time(i % 24, 30) for i in range(N)]
    yield pa.table({"y": Y, "d": pa.array(times), "e": CODE})
    yield pa.table({"y": Y, "d": pa.array(days.to_numpy()), "e": CODE})
    yield pd.DataFrame(
        {"y": Y, "d": pd.array(days.to_numpy(), dtype=pd.ArrowDtype(pa.duration("ns"))), "e": CODE}
    )
    yield pd.DataFrame(
        {"y": Y, "d": pd.array(times, dtype=pd.ArrowDtype(pa.time64("us"))), "e": CODE}
    )


@pytest.mark.parametrize("declared", [dp.Real(0, 1), dp.Real(0, 1e9), dp.Count(10), None,
                                      dp.Binary(), dp.Levels([1, 2])])  # fmt: skip
def test_durations_are_refused_with_what_to_type(declared):
    schema = {"y": dp.Real(0, 1), "e": dp.Binary(), **({} if declared is None else {"d": declared})}
    for data in _durations():
        budget = dp.Budget(eps=10, delta=1e-3)
        pay = {"eps": 1, "delta": 1e-6, "schema": schema, "budget": budget}
        calls = [lambda: dp.dp_ols("y ~ d", data, **pay)]  # noqa: B023
        if not isinstance(declared, Levels):
            calls += [
                lambda: dp.dp_mean("d ~ 1", data, **pay),  # noqa: B023
                lambda: dp.dp_survfit("Surv(d, e) ~ 1", data, **pay),  # noqa: B023
                lambda: dp.dp_ols("y ~ I(d ** 2)", data, **pay),  # noqa: B023
            ]
        for call in calls:
            with pytest.raises(DPModelsError, match=r"duration='days'|t\.hour"):
                call()
        assert not len(budget.charges)


def test_a_duration_among_cells_without_a_type_is_missing():
    cells = [datetime.timedelta(days=1), np.timedelta64(1, "D"), 2.0]
    assert np.isnan(coerce(cells, dp.Real(0, 9))).tolist() == [True, True, False]


# -- Whole numbers beyond 2^53

BIG = 2**53
EXACT = [
    np.array([BIG, BIG + 1, BIG + 2]), np.array([BIG, BIG + 1, BIG + 2], "uint64"),
    pd.Series([BIG, BIG + 1, BIG + 2, None], dtype="Int64"),
    pd.Series([BIG, BIG + 1, BIG + 2, None], dtype="UInt64"),
    pd.Series([BIG, BIG + 1, BIG + 2]).astype("category"), [BIG, BIG + 1, BIG + 2],
    [str(BIG), str(BIG + 1), f"{BIG + 2}.0"],
    [decimal.Decimal(BIG), decimal.Decimal(BIG + 1), decimal.Decimal(BIG + 2)],
]  # fmt: skip


@pytest.mark.parametrize("column", EXACT)
def test_levels_beyond_the_floats_are_exact(column):
    levels = Levels([BIG, BIG + 1, BIG + 2])
    assert coerce(column, levels)[:3].tolist() == [0, 1, 2]
    two = coerce(column, Binary((BIG, BIG + 1)))
    assert two[:2].tolist() == [0.0, 1.0]
    assert np.isnan(two[2])


def test_levels_of_arrow_and_polars_are_exact():
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    levels = Levels([BIG, BIG + 1, BIG + 2])
    for column in (
        pa.array([BIG, BIG + 1, BIG + 2, None]), pa.array([BIG, BIG + 1, BIG + 2, None], pa.uint64()),
        pl.Series([BIG, BIG + 1, BIG + 2, None]), pl.Series([BIG, BIG + 1, BIG + 2]),
        pa.array([decimal.Decimal(BIG + i) for i in range(3)]),
    ):  # fmt: skip
        assert coerce(column, levels)[:3].tolist() == [0, 1, 2]


def test_numbers_that_floats_merge_are_not_compared():
    data = {"y": Y, "k": BIG + CODE}
    pay = {"eps": 1, "delta": 1e-6, "schema": {"y": dp.Real(0, 1), "k": dp.Real(0, 1e17)}}
    for how in (f"k == {BIG + 1}", f"k != {BIG}", f"k > {BIG + 1}", f"{BIG} >= k"):
        with pytest.raises(DPModelsError, match=r"dp\.Levels"):
            dp.dp_mean("y ~ 1", data, subset=how, **pay)
    with pytest.raises(DPModelsError, match=r"dp\.Levels"):
        dp.dp_ols(f"y ~ C(k, levels=[{BIG}, {BIG + 1}])", data, **pay)
    with pytest.raises(DPModelsError, match=r"dp\.Levels"):
        dp.dp_glm("k ~ y", data, event=BIG + 1, **pay)
