"""What statisticians type in R gets the formula to paste, decided on the text alone."""

import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError, FormulaPrivacyError, RequestError, SchemaError

CASES = [
    ("y ~ I(age^2)", "y ~ I(age**2)"),
    ("y ~ log(age^2 + 1) + (age + x0)^2", "y ~ log(age**2 + 1) + (age + x0)^2"),
    ("y ~ factor(sex)", "y ~ C(sex)"),
    ("y ~ as.factor(sex) + as.numeric(age)", "y ~ C(sex) + age"),
    ("y ~ relevel(sex, ref='m')", "y ~ C(sex, Treatment('m'))"),
    ('y ~ relevel(factor(sex), "m")', 'y ~ C(sex, Treatment("m"))'),
    ("y ~ poly(age, 2, raw=TRUE)", "y ~ poly(age, 2, raw=True)"),
    ("y ~ C(sex, levels=c('m', 'f'))", "y ~ C(sex, levels=['m', 'f'])"),
    ("y ~ cut(age, breaks=c(20, 40))", "y ~ cut(age, breaks=[20, 40])"),
    ("y ~ bs(age, knots=c(20, 40))", "y ~ bs(age, knots=[20, 40])"),
    ("y ~ I(sex %in% c('m'))", "y ~ I(sex in ['m'])"),
    ("y ~ ifelse(age > 30, 1, 0)", "y ~ I(age > 30)"),
]
SCHEMA = dp.Schema(
    y=dp.Real(0, 1),
    age=dp.Real(1, 90),
    x0=dp.Real(0, 1),
    x1=dp.Real(0, 2),
    sex=dp.Levels(["f", "m"]),
)


@pytest.mark.parametrize(("typed", "fixed"), CASES, ids=[c[0] for c in CASES])
def test_r_is_answered_with_the_formula_to_paste(typed, fixed):
    call = {"n": 5000, "eps": 1, "delta": 1e-6}
    with pytest.raises(FormulaError, match="written as in R") as caught:
        dp.plan(typed, SCHEMA, **call)
    assert caught.value.args[0].split("Fix:\n      ")[1].split("\n")[0] == fixed
    assert dp.plan(fixed, SCHEMA, **call).design.names[0] == "Intercept"  # and it can be pasted


def test_columns_and_own_functions_of_these_names_are_no_r():
    schema = dp.Schema(y=dp.Real(0, 1), TRUE=dp.Real(0, 1), c=dp.Real(0, 1), factor=dp.Real(0, 1))
    call = {"n": 5000, "eps": 1, "delta": 1e-6}
    plan = dp.plan("y ~ TRUE + c + factor + `TRUE`:c + (c + factor)^2", schema, **call)
    assert "TRUE" in plan.design.names


def test_a_spline_by_degrees_of_freedom_is_corrected_everywhere():
    with pytest.raises(FormulaPrivacyError) as caught:
        dp.plan("y ~ bs(x0, df=6) + bs(x1, df=5)", SCHEMA, n=5000, eps=1, delta=1e-6)
    fixed = re.search(r"\n +(y ~ .*)", str(caught.value)).group(1)
    assert "df" not in fixed and "bs(x1, knots=" in fixed
    dp.plan(fixed, SCHEMA, n=5000, eps=1, delta=1e-6)
    with pytest.raises(FormulaPrivacyError, match=r"(?s)x0 = dp.Real.*x1 = dp.Real"):
        dp.plan("y ~ bs(x0, df=6) + bs(x1, df=5)", n=5000, eps=1, delta=1e-6, bounds="private")


@pytest.mark.parametrize("levels", [["m", "f"], ("m", "f"), ["a", "b", "c"], [False, True]])
def test_levels_in_bounds_are_sent_to_the_schema(levels):
    frame = pd.DataFrame({"y": np.zeros(9), "sex": ["m"] * 9})
    with pytest.raises(SchemaError, match=r"schema=\{'sex': dp.Levels"):
        dp.dp_ols("y ~ sex", frame, eps=1, delta=1e-6, bounds={"y": (0, 1), "sex": levels})


def test_a_plan_without_data_buys_every_range():
    call = {"n": 5000, "eps": 1, "delta": 1e-6}
    plan = dp.plan("earnings ~ age + log(tenure + 1):age", bounds="private", **call)
    assert plan.design.names == ("Intercept", "age", "log(tenure + 1):age")
    assert plan.design.unknown == ("age", "log(tenure + 1):age", "earnings")
    with pytest.raises(RequestError, match=r"'erning' is neither .* Did you mean 'earning'"):
        dp.plan("erning ~ age", bounds={"earning": (0, 1), "age": (0, 90)}, **call)
    with pytest.raises(RequestError, match="needs schema="):
        dp.plan("earnings ~ age", **call)
