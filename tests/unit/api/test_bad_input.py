"""Bad input: a clear error before anything is read or charged, with what to type instead."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import errors


class Untouchable(pd.DataFrame):
    """A frame whose cells must not be read: getting a column fails the test."""

    def __getitem__(self, key):
        raise AssertionError("a private cell was read")


@pytest.fixture
def frame(table):
    f = table(500)
    f["colour"] = "red"
    return Untouchable(f)


GOOD = dict(eps=1.0, delta=1e-6, method="eptr")
RANGES = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}

CASES = [
    # what, changed arguments, error class, words of the message
    ("eps zero", {"eps": 0}, ValueError, "eps must be positive"),
    ("eps negative", {"eps": -1}, ValueError, "eps must be positive"),
    ("eps nan", {"eps": float("nan")}, ValueError, "eps must be a number"),
    ("eps infinite", {"eps": float("inf")}, ValueError, "finite"),
    ("eps text", {"eps": "one"}, ValueError, "eps must be a number"),
    ("delta zero", {"delta": 0}, ValueError, "delta > 0"),
    ("delta one", {"delta": 1}, ValueError, r"delta must lie in \[0, 1\)"),
    ("delta negative", {"delta": -1e-6}, ValueError, "delta must lie"),
    ("unknown method", {"method": "eprt"}, errors.UnknownMethodError, "Did you mean 'eptr'"),
    ("unknown option", {"whitten": True}, errors.UnknownOptionError, "Did you mean 'whiten'"),
    ("option of wrong type", {"whiten": "yes"}, ValueError, "whiten= must be bool"),
    ("Rx negative", {"Rx": -1.0, "Ry": 1.0}, ValueError, "Rx"),
    ("Rx nan", {"Rx": float("nan"), "Ry": 1.0}, ValueError, "Rx"),
    ("Rx zero", {"Rx": 0.0, "Ry": 1.0}, ValueError, "Rx"),
    ("Rx alone", {"Rx": 2.0}, ValueError, "Ry="),
    ("Rtheta negative", {"Rtheta": -2.0}, ValueError, "Rtheta"),
    ("c0 negative", {"c0": -0.1}, ValueError, "c0"),
    ("c0 text", {"c0": "automatic"}, ValueError, "c0"),
    ("variant", {"variant": "papers"}, ValueError, "Did you mean 'paper'"),
    ("paper without constants", {"variant": "paper", "Rx": 2.0}, ValueError, "Rtheta, c0"),
    ("ridge with c0", {"c0": 0.2, "on_fail": "ridge"}, ValueError, "on_fail='ridge'"),
    ("whiten with c0", {"c0": 0.2, "whiten": True}, ValueError, "whiten=True"),
    ("relation", {"relation": "add-remove"}, ValueError, "no proof for relation"),
    ("relation unknown", {"relation": "swap"}, ValueError, "relation='swap'"),
    ("na drop", {"na": "drop"}, ValueError, "na='drop'"),
    ("level", {"level": 95}, ValueError, "level must lie between 0 and 1"),
    ("split sum", {"split": {"bound": 0.5, "coef": 0.4}}, ValueError, "sum to"),
    ("split negative", {"split": {"bound": 1.5, "coef": -0.5}}, ValueError, "positive"),
    ("split names", {"split": {"bound": 0.5, "coef": 0.5}}, ValueError, "split= must name"),
    ("seed text", {"seed": "abc"}, ValueError, "seed"),
    ("engine", {"engine": "r"}, ValueError, "engine"),
    ("inference", {"inference": "no"}, ValueError, "inference"),
    ("n wrong", {"n": 7}, ValueError, "n=7"),
    ("n not whole", {"n": 2.5}, ValueError, "n must be a positive whole number"),
    ("bounds reversed", {"bounds": {**RANGES, "a": (1, -1)}}, ValueError, "a"),
    ("bounds infinite", {"bounds": {**RANGES, "a": (0, np.inf)}}, ValueError, "a"),
    ("bounds unknown", {"bounds": {**RANGES, "c": (0, 1)}}, ValueError, "'c'"),
    ("budget", {"budget": 3}, ValueError, "dp.Budget"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "kind", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_refused_before_a_cell_is_read(frame, changes, kind, words):
    arguments = {**GOOD, "bounds": RANGES, **changes}
    with pytest.raises(kind, match=words) as caught:
        dp.dp_ols("y ~ a + b", frame, **arguments)
    assert isinstance(caught.value, ValueError)


FORMULAS = [
    ("y ~ a + colour", errors.SchemaNeededError, r"colour\s+= dp.Levels"),
    ("y ~ a + alfa", ValueError, "alfa"),
    ("y ~ aa", ValueError, "Did you mean"),
    ("y ~", errors.FormulaError, "right"),
    ("y ~ 0", errors.FormulaError, "right-hand side"),
    ("~ a", errors.FormulaError, "response"),
    ("a + b", errors.FormulaError, "response"),
    ("y ~ scale(a)", errors.FormulaPrivacyError, "scale"),
    ("y ~ a +", errors.FormulaError, "formula"),
    (None, ValueError, "formula"),
]


@pytest.mark.parametrize(("formula", "kind", "words"), FORMULAS, ids=[str(f[0]) for f in FORMULAS])
def test_refused_formulas(frame, formula, kind, words):
    with pytest.raises(kind, match=words):
        dp.dp_ols(formula, frame, bounds=RANGES, **GOOD)


def test_refused_tables(table):
    for data, words in [
        (42, "cannot read a int"),
        (np.zeros((3, 2)), "no column names"),
        ("missing.csv", "no file"),
        (table(10).rename(columns={"a": 3}), "column names must be text"),
        (pd.DataFrame([[1.0, 2.0, 3.0]], columns=["y", "a", "a"]), "two columns"),
        (table(0), "no rows"),
        ([], "empty"),
        ({"a": np.zeros(3), "b": np.zeros(2), "y": np.zeros(3)}, "different lengths"),
    ]:
        with pytest.raises(ValueError, match=words):
            dp.dp_ols("y ~ a + b", data, bounds=RANGES, **GOOD)


def test_eps_and_delta_have_no_default(table):
    with pytest.raises(TypeError, match="eps"):
        dp.dp_ols("y ~ a + b", table(10), delta=1e-6)
    with pytest.raises(TypeError, match="delta"):
        dp.dp_ols("y ~ a + b", table(10), eps=1)


def test_warnings_are_functions_of_public_numbers(table):
    with pytest.warns(errors.UtilityWarning, match="not below 1/n"):
        dp.dp_ols("y ~ a + b", table(2000), bounds=RANGES, eps=4, delta=0.001, method="eptr")
    with (
        pytest.warns(errors.UtilityWarning, match="needs about n"),
        pytest.warns(errors.NoReplyWarning),
    ):
        dp.dp_ols("y ~ a + b", table(100), bounds=RANGES, scoring=False, **{**GOOD, "eps": 0.1})
    with pytest.warns(errors.NotPrivateWarning, match="NOT PRIVATE"):
        dp.dp_ols("y ~ a + b", table(20_000), bounds=RANGES, seed=1, **GOOD)


def test_an_option_name_of_another_method_is_refused_with_the_list(table):
    with pytest.raises(errors.UnknownOptionError) as caught:
        dp.dp_ols("y ~ a + b", table(10), bounds=RANGES, radius=3.0, **GOOD)
    assert "Its options" in str(caught.value)
    assert "dp.methods('eptr')" in str(caught.value)


def test_methods_tables():
    every = dp.methods()
    assert {"verb", "method", "needs", "relations", "inference", "reference"} <= set(every.columns)
    one = dp.methods("eptr")
    assert "whiten" in set(one["option"])
    with pytest.raises(ValueError, match="Did you mean 'eptr'"):
        dp.methods("eprt")


def test_under_add_remove_no_error_shows_the_row_count(table):
    """One row more or less may not decide whether a call raises."""
    call = dict(eps=4.0, delta=1e-6, bounds=RANGES, relation="add-remove", n_guess=2000, n=2000)
    for rows in (1999, 2000, 2001):
        fit = dp.dp_ols("y ~ a + b", iter([table(rows)]), method="ssp", stages=1, **call)
        assert fit.nobs is None


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
def test_a_count_that_fails_says_that_nothing_was_charged():
    """Rows are counted before the charge: the error must not speak of one."""
    frame = pd.DataFrame({"a": np.zeros(9), "b": np.zeros(9), "y": np.zeros(9)})

    def parts():
        yield frame
        raise ValueError("zq-secret")

    budget = dp.Budget(eps=3, delta=1e-5)
    for changes, words in [({}, "Nothing was charged"), ({"n": 9}, "The charge stands")]:
        with pytest.raises(errors.PrivateStageError, match=words) as caught:
            dp.dp_ols("y ~ a + b", parts, bounds=RANGES, budget=budget, **GOOD, **changes)
        assert "zq-secret" not in str(caught.value) and caught.value.__context__ is None
        assert len(budget.charges) == len(changes)
