"""What is typed by habit gets a message that says what to type instead."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import (
    DPModelsWarning,
    FormulaError,
    FormulaPrivacyError,
    NotReleasedError,
    RequestError,
    SchemaError,
    UnknownOptionError,
    UtilityWarning,
)

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.uniform(0, 1, 3000), "hours": RNG.uniform(0, 10, 3000)})
FRAME["y"] = FRAME["x"]
FRAME["dead"] = np.where(FRAME["x"] > 0.5, "dead", "alive")
BOUNDS = {"x": (0, 1), "y": (0, 1)}
CALL = {"eps": 1, "delta": 1e-6}


@pytest.fixture(autouse=True)
def no_advice():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        yield


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("dp_iv", "verb='dp_moments'"),
        ("dp_release", "method='drcl'"),
        ("dp_vote", "eps and delta alone"),
        ("dp_pate", "eps and delta alone"),
        ("dp_select", "each candidate has a separate plan"),
        ("dp_old", "Did you mean 'dp_ols'"),
        (None, "verb=None has no plan"),
    ],
)
def test_verbs_without_a_plan(verb, said):
    """IndexError: list index out of range."""
    with pytest.raises(RequestError, match=said):
        dp.plan("y ~ x", bounds=BOUNDS, n=100, verb=verb, **CALL)


@pytest.mark.parametrize(
    ("formula", "more", "error", "said"),
    [
        ("y ~ lag(x)", {}, FormulaPrivacyError, r"reads the row before[\s\S]*y ~ x_lag"),
        ("y ~ log(x)", {}, FormulaError, r"log1p\(x\)[\s\S]*clip\(x, 0.1, 1\)[\s\S]*lower bound"),
        ("y == 1 ~ x", {}, FormulaError, r"must be in braces: \{y == 1\} ~ x"),
        ("y ~ x", {"weights": "hourz"}, FormulaError, r"'hourz' in weights='hourz' is not a column"),
        ("y ~ x", {"subset": "xx > 1"}, FormulaError, r"'xx' in subset='xx > 1' is not a column"),
        ("y ~ xx", {"weights": "x"}, FormulaError, r"'xx' in \"y ~ xx\" is not a column"),
        ("y ~ x", {"vcov": "cluster"}, RequestError, r'unit="person_id"'),
        ("y ~ x", {"x_bounds": {"x": (0, 1)}}, UnknownOptionError, r"Did you mean 'bounds'\?"),
    ],
)
def test_calls(formula, more, error, said):
    with pytest.raises(error, match=said):
        dp.dp_ols(formula, FRAME, bounds=BOUNDS, **CALL, **more)


def test_what_is_asked_of_a_fit():
    fit = dp.dp_ols("y ~ x", FRAME, bounds=BOUNDS, seed=1, **CALL)
    with pytest.raises(RequestError, match=r"interval of 5 %.*conf_int\(0.95\).*alpha=0.05"):
        fit.conf_int(0.05)
    assert fit.conf_int(alpha=0.05).equals(fit.conf_int(0.95))
    assert fit.predict(newdata=FRAME).equals(fit.predict(FRAME))  # R's word
    assert fit.predict(FRAME, type="response").equals(fit.predict(exog=FRAME, what="mean"))
    with pytest.raises(RequestError, match=r"no argument rows=.*predict\(new\)"):
        fit.predict(rows=FRAME)
    with pytest.raises(RequestError, match=r"predict needs rows.*predict\(new\)"):
        fit.predict()
    with pytest.raises(NotReleasedError, match="as_statsmodels"):
        fit.df_resid  # noqa: B018
    assert not hasattr(fit, "family") and not hasattr(fit, "deviance")


def test_what_is_asked_of_a_family():
    schema = dp.Schema(x=dp.Real(0, 1), dead=dp.Levels(["alive", "dead"]))
    fit = dp.dp_glm("dead ~ x", FRAME, schema=schema, seed=1, **CALL)
    assert fit.family == "binomial"
    with pytest.raises(NotReleasedError, match="fit_stats=True"):
        fit.deviance  # noqa: B018
    paid = dp.dp_glm("dead ~ x", FRAME, schema=schema, seed=1, fit_stats=True, **CALL)
    assert paid.deviance == paid.stats["deviance"]
    assert paid.null_deviance == paid.stats["null_deviance"]


def test_a_declaration_that_no_column_has():
    """ln_wge=: the range of ln_wage was bought, without a word."""
    frame = FRAME.rename(columns={"x": "ln_wage"})
    typed = dp.Schema(y=dp.Real(0, 1), ln_wge=dp.Real(0, 1))
    with pytest.raises(SchemaError, match=r"declares 'ln_wge'.*Did you mean 'ln_wage'"):
        dp.dp_ols("y ~ ln_wage", frame, schema=typed, **CALL)
    wide = dp.Schema(y=dp.Real(0, 1), ln_wage=dp.Real(0, 1), elsewhere=dp.Real(0, 1))
    assert dp.dp_ols("y ~ ln_wage", frame, schema=wide, seed=1, **CALL).released


def test_a_date_is_no_number_by_itself():
    dates = FRAME.assign(day=pd.date_range("2000-01-01", periods=len(FRAME)))
    with pytest.raises(SchemaError, match=r"'day' is a date.*dp.Date\('2020-01-01'"):
        dp.dp_ols("y ~ day", dates, bounds={"y": (0, 1)}, **CALL)
    declared = {"y": (0, 1), "day": (946684800.0, 1.3e9)}
    assert dp.dp_ols("y ~ day", dates, bounds=declared, seed=1, **CALL).released


def test_a_count_that_is_declared_as_an_event():
    frame = FRAME.assign(visits=RNG.poisson(2.0, 3000).astype(float))
    call = {"family": "poisson", "seed": 1, **CALL}
    with pytest.warns(UtilityWarning, match=r"larger counts are clipped.*\(0, 50\)"):
        dp.dp_glm("visits ~ x", frame, bounds={"x": (0, 1), "visits": (0, 1)}, **call)
