"""Columns whose names Python does not read as they are written: class, µg, x², person id."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError
from dpmodels.formula.parser import needed_variables, parse

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")

N = 2000
PAY = {"eps": 5, "delta": 1e-6}
SCHEMA = {
    "y": dp.Real(0, 1), "class": dp.Real(1, 2), "x²": dp.Real(1, 2), "1st": dp.Real(0, 1),
    "µg": dp.Levels([0, 1, 2]), "a+b": dp.Levels([0, 1, 2]),
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return {
        "y": rng.uniform(0, 1, N), "class": rng.uniform(1, 2, N), "x²": rng.uniform(1, 2, N),
        "1st": rng.uniform(0, 1, N), "µg": rng.integers(0, 3, N), "a+b": rng.integers(0, 3, N),
        "person id": np.arange(N) // 4,
    }  # fmt: skip


@pytest.mark.parametrize("formula", [
    "y ~ log(`class`)", "y ~ C(`µg`)", "y ~ C(µg)", "y ~ I(`x²` ** 2)", "y ~ log(x²)",
    "y ~ {`class` * 2 + `x²`}", "y ~ `class`:C(`µg`)", "log(`class`) ~ y", "y ~ exp(`1st`)",
    "y ~ C(`µg`, Treatment(1))", "y ~ I(`class` > 1.5) + `class`", "y ~ legendre(`x²`, 2)",
    "y ~ i(`µg`, ref=1)", "y ~ poly(`class`, 2, raw=True)", "y ~ C(`a+b`)",
])  # fmt: skip
def test_terms_of_such_names(formula, data):
    fit = dp.dp_ols(formula, data, schema=SCHEMA, **PAY)
    assert "_ticked_" not in str(fit.summary()) and "_quoted_" not in str(fit.summary())


@pytest.mark.parametrize("options", [
    {"subset": "`class` > 1.5"}, {"subset": "`µg` == 1"}, {"subset": "µg in [0, 1]"},
    {"subset": "`x²` > 1.2 and `class` < 1.7"}, {"weights": "class"}, {"weights": "`x²`"},
    {"weights": "x²"}, {"weights": "`class` * 2"},
])  # fmt: skip
def test_arguments_with_such_names(options, data):
    assert dp.dp_ols("y ~ `1st`", data, schema=SCHEMA, **options, **PAY) is not None


def test_what_follows_from_a_fit(data, tmp_path):
    fit = dp.dp_ols("y ~ log(`class`)", data, schema=SCHEMA, **PAY)
    assert list(fit.params.index) == ["Intercept", "log(`class`)"]
    assert len(fit.predict({"class": [1.0, 2.0]})) == 2
    assert fit.update(". ~ . + I(`x²` ** 2)", data, **PAY) is not None
    fit.save(tmp_path / "fit.json")
    assert dp.load(tmp_path / "fit.json").formula == fit.formula
    assert dp.plan("y ~ log(`class`)", SCHEMA, n=1000, **PAY) is not None


@pytest.mark.parametrize("effects", [
    "`person id`", "person id", "`person id` + `a+b`", "`person id` + µg", "`person id` + C(`µg`)",
])  # fmt: skip
def test_effects_of_such_names(effects, data):
    fit = dp.dp_feols(
        f"y ~ `class` | {effects}", data, unit="person id", rows_per_unit=4, schema=SCHEMA, **PAY
    )
    assert fit.params.index[0] == "class"


def test_a_unit_in_ticks_is_told_the_spelling_that_works(data):
    for verb, formula in (("dp_feols", "y ~ `class` | `person id`"), ("dp_ols", "y ~ `class`")):
        with pytest.raises(DPModelsError) as said:
            getattr(dp, verb)(
                formula, data, unit="`person id`", rows_per_unit=4, schema=SCHEMA, **PAY
            )
        assert "person id'?" in str(said.value) or 'unit="person id"' in str(said.value)


def test_a_unit_that_is_no_name_is_not_quoted(data):
    for unit in (3, ["person id"], np.array([0.125, 7.5])):
        with pytest.raises(DPModelsError, match="got ") as said:
            dp.dp_feols("y ~ `class` | `person id`", data, unit=unit, schema=SCHEMA, **PAY)
        assert "7.5" not in str(said.value)


@pytest.mark.parametrize(("formula", "subset"), [
    ("y ~ log(class)", None), ("y ~ class", None), ("y ~ `1st`", "class > 1.5"),
])  # fmt: skip
def test_a_word_of_python_is_put_in_ticks(formula, subset, data):
    with pytest.raises(DPModelsError) as said:
        dp.dp_ols(formula, data, subset=subset, schema=SCHEMA, **PAY)
        raise DPModelsError("`class`")  # a formula that works needs no advice
    assert "`class`" in str(said.value)


def test_a_dot_leaves_out_what_stands_on_the_left():
    names = ["class", "µg", "y", "x²"]
    terms = parse("log(`class`) ~ . - `x²`", names).rhs
    assert [t[0][0] for t in terms] == ["1", "µg", "y"]
    assert needed_variables("`class` ~ .", names) == ("class", "µg", "y", "x²")


def test_texts_are_no_names():
    term = parse("y ~ C(`µg`, levels=['`class`', 'µg'])", ["y", "µg"]).rhs[1]
    assert term[0][0] == "C(`µg`, levels=['`class`', 'µg'])"


def test_advice_puts_names_in_ticks():
    schema = {**SCHEMA, "if": dp.Real()}
    for formula in ("y ~ C(`if`)", "y ~ log(`a+b`)", "y ~ C(`class`)"):
        with pytest.raises(DPModelsError, match=r"[(]`(if|a\+b|class)`"):
            dp.plan(formula, schema, n=1000, **PAY)
