"""What a newcomer types: names with blanks, files of others, objects of other packages."""

import sqlite3

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, SourceError, UnknownMethodError, UnknownOptionError

SCHEMA = dp.Schema(**{
    "y": dp.Real(0, 10), "x": dp.Real(0, 10), "out of work": dp.Binary(), "k": dp.Count(9),
    "time at risk": dp.Real(1, 5), "s": dp.Real(0, 1),
})  # fmt: skip
CALL = {"eps": 2, "delta": 1e-6, "schema": SCHEMA, "seed": 1}
pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    n = 6_000
    treated = rng.integers(0, 2, n)
    return pd.DataFrame({
        "y": 3 + treated + rng.uniform(0, 4, n), "x": rng.uniform(0, 10, n),
        "out of work": treated, "k": rng.integers(0, 9, n), "time at risk": rng.uniform(1, 5, n),
        "s": pd.Series(["a", "b"] * (n // 2), dtype=object),
    })  # fmt: skip


def test_names_with_blanks_work_as_arguments(data):
    """``by="out of work"`` failed with a formula that nobody typed."""
    assert "out of work" in str(dp.dp_table("~ x", data, by="out of work", **CALL).summary())
    fit = dp.dp_ate("y ~ x", data, treatment="out of work", **CALL)
    assert 0.5 < fit.params["ATE"] < 1.5
    for word in ("offset", "exposure"):
        fit = dp.dp_glm("k ~ x", data, family="poisson", **{word: "time at risk"}, **CALL)
        assert np.isfinite(fit.params).all()


def test_ands_are_no_names(data):
    from dpmodels.formula.words import one_name

    for text in ("a and b", "not b", "a in b", "`a b`", "a:b", "{a > b}", "x"):
        assert one_name(text) == text
    assert one_name(" out of work ") == "`out of work`"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: dp.dp_ols("y ~ x | id", d, **CALL), "dp_feols"),
        (lambda d: dp.plan("y ~ x", SCHEMA, n=9, eps=1, delta=1e-6, family="poisson"), "verb='dp_glm'"),
        (lambda d: dp.plan("y ~ x", SCHEMA, n=9, eps=1, delta=1e-6, loss="huber"), "verb='dp_mest'"),
        (lambda d: dp.plan("y ~ x", SCHEMA, n=9, eps=1, delta=1e-6, treatment="x"), "verb='dp_ate'"),
        (lambda d: dp.dp_glm("y ~ x", d, method="generalized-PTR", **CALL), "Did you mean 'gptr'"),
        (lambda d: dp.dp_glm("y ~ x", d, method="generalised PTR", **CALL), "Did you mean 'gptr'"),
        (lambda d: dp.methods("generalized-PTR"), "Did you mean"),
        (lambda d: dp.dp_ols("y ~ x", "https://a.org/b.csv", **CALL), "pd.read_csv(url)"),
        (lambda d: dp.dp_ols("y ~ x", "s3://a/b.parquet", **CALL), "address"),
        (lambda d: dp.dp_ols("y ~ x", sqlite3.connect(":memory:"), **CALL), "pd.read_sql"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_type(data, call, said):
    with pytest.raises((DPModelsError, UnknownOptionError, UnknownMethodError)) as caught:
        call(data)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.xlsx", "pd.read_excel('a.xlsx')"), ("b.JSON", "pd.read_json"), ("c.feather", "read_feather"),
     ("d.tsv", "dp.read_csv"), ("e.sqlite", "duckdb.connect"), ("f.pkl", "read_pickle")],
)  # fmt: skip
def test_files_of_other_kinds_name_their_reader(tmp_path, name, said):
    (tmp_path / name).write_text("{}")
    with pytest.raises(SourceError) as caught:
        dp.dp_ols("y ~ x", tmp_path / name, **CALL)
    assert said in str(caught.value)


def test_formulas_of_other_packages(data):
    """``formulaic.Formula`` and ``patsy.ModelDesc`` were refused."""
    formulaic = pytest.importorskip("formulaic")
    want = dp.dp_ols("y ~ x + k", data, **CALL)
    assert dp.dp_ols(formulaic.Formula("y ~ x + k"), data, **CALL).params.equals(want.params)
    none = dp.dp_ols(formulaic.Formula("y ~ 0 + x"), data, **CALL)
    assert list(none.params.index) == ["x"]
    planned = dp.plan(formulaic.Formula("y ~ x"), SCHEMA, n=5000, eps=1, delta=1e-6)
    assert "y ~ x" in planned.request.formula
    means = dp.dp_mean(formulaic.Formula("~ 0 + x + k"), data, **CALL)
    assert list(means.params.index) == ["x", "k"]
    patsy = pytest.importorskip("patsy")
    found = dp.dp_ols(patsy.ModelDesc.from_formula("y ~ x + k"), data, **CALL)
    assert found.params.equals(want.params)


def test_a_type_that_says_nothing_is_named_first(data):
    """A column of words declared a number ended in "no reply" with advice on eps."""
    fit = dp.dp_ols("y ~ x + s", data, **CALL)
    page = str(fit.summary())
    assert not fit.released and "First look at the type of s" in page
    assert page.index("First look at the type") < page.index("rows are usable (sd")
    assert "First look" not in str(dp.dp_ols("y ~ x", data.head(60), stop=False, **CALL).summary())


@pytest.mark.filterwarnings("error:.*too small")
def test_good_effects_have_no_warning(data):
    """``dp_ate`` warned "too small" in 20 of 20 good calls: its parts, not the effect, were meant."""
    dp.dp_ate("y ~ x", data, treatment="out of work", **CALL)
    few = dp.plan("y ~ x", SCHEMA, n=300, eps=0.2, delta=1e-6, verb="dp_ate", treatment="out of work")
    assert any("too small" in text for text in few.advice)


def test_a_time_of_day_is_refused_with_advice_for_every_container():
    """Of polars and Arrow too: only what a pandas user types was named."""
    import datetime

    pa = pytest.importorskip("pyarrow")
    times = [datetime.time(8, 30)] * 20
    frames = [
        pa.table({"y": np.zeros(20), "t": pa.array(times)}),
        pd.DataFrame({"y": np.zeros(20), "t": pd.array(times, dtype=pd.ArrowDtype(pa.time64("us")))}),
    ]  # fmt: skip
    for frame in frames:
        with pytest.raises(DPModelsError) as caught:
            dp.dp_ols("y ~ t", frame, eps=1, delta=1e-6, seed=1, bounds={"y": (0, 1), "t": (0, 24)})
        for word in ("time of day", "polars", "dt.hour()", "pc.hour", "pandas", "Nothing was charged"):
            assert word in str(caught.value)


@pytest.mark.parametrize("text", [
    "y ~ . - " + " - ".join(f"v{i}" for i in range(490)),
    "y ~ I(" + " + ".join(f"v{i}" for i in range(490)) + ")",
    "y ~ " + ":".join(f"v{i}" for i in range(490)),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["formulaic", "patsy"])
def test_long_sums_are_refused_in_words(text, engine):
    """They ended in "maximum recursion depth exceeded"."""
    if engine == "patsy":
        pytest.importorskip("patsy")
    bounds = {name: (0, 1) for name in ["y", *(f"v{i}" for i in range(495))]}
    frame = pd.DataFrame(dict.fromkeys(bounds, np.zeros(50)))
    try:
        dp.dp_ols(text, frame, eps=1, delta=1e-6, seed=1, bounds=bounds, engine=engine)
    except DPModelsError as error:
        assert "recursion" not in str(error)
        assert "signs follow each other" in str(error) or "nested more than" in str(error)


@pytest.mark.filterwarnings("default::dpmodels.errors.DPModelsWarning")
def test_a_declared_name_of_no_column_is_named(data):
    """``Schema(yy=...)`` beside an undeclared y ran without a word: the names are too short."""
    wrong = dp.Schema(yy=dp.Real(0, 10), x=dp.Real(0, 10))
    with pytest.warns(dp.errors.DPModelsWarning, match="declares 'yy'.*'y' of this formula"):
        dp.dp_ols("y ~ x", data, eps=2, delta=1e-6, seed=1, schema=wrong)


def test_r_squared_says_what_stays(data):
    notes = dp.dp_ols("y ~ x", data, **CALL).notes
    assert any("do not become exact" in str(note) for note in notes)


def test_frames_that_take_sql_are_tables(data):
    """Polars frames and DuckDB relations have ``sql`` or ``connect`` as connections do."""
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    want = dp.dp_ols("y ~ x", data, **CALL).params
    plain = data[["y", "x"]]
    relation = duckdb.from_df(plain)
    for table in (pl.from_pandas(plain), pl.from_pandas(plain).lazy(), relation, relation.query("r", "select * from r")):
        assert dp.dp_ols("y ~ x", table, **CALL).params.to_numpy() == pytest.approx(want.to_numpy())
    with pytest.raises(SourceError, match="connection"):
        dp.dp_ols("y ~ x", duckdb.connect(), **CALL)
