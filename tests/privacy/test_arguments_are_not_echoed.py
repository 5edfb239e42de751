"""A column handed over for an argument must not be quoted: an error message is a side door."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import shown

SECRET = 777123.25
COLUMN = pd.Series([SECRET, SECRET + 1.0, SECRET], name="x")
TEXT = pd.Series(["zq-secret-zq", "zq-secret-zq", "b"], name="g")
HANDED_OVER = {
    "frame": pd.DataFrame({"x": COLUMN, "g": TEXT}),
    "Series": COLUMN,
    "text Series": TEXT,
    "one cell in a Series": COLUMN.iloc[:1],
    "array": COLUMN.to_numpy(),
    "numpy scalar": COLUMN.iloc[0],
    "list": COLUMN.tolist(),
    "list of text": TEXT.tolist(),
    "dictionary": COLUMN.to_dict(),
    "set": set(TEXT),
    "long text": "zq-secret-zq " * 5,
    "tuple of cells": tuple(COLUMN),
}


def quoted(error):
    seen = []
    while error is not None:
        seen.append(f"{error} {getattr(error, 'args', '')}")
        error = error.__cause__ or error.__context__
    return any(word in text for text in seen for word in ("777", "zq-secret"))


OLS = {"eps": 1.0, "delta": 1e-6, "bounds": {"x": (0, 1), "y": (0, 1)}}
RELEASE = {"eps": 1.0, "delta": 1e-6, "bounds": {"x": (0, 1), "y": (0, 1)}}


def ols(**changes):
    table = pd.DataFrame({"x": np.zeros(50), "y": np.zeros(50)})
    return dp.dp_ols("y ~ x", table, **{**OLS, **changes})


def release(**changes):
    table = pd.DataFrame({"x": np.zeros(50), "y": np.zeros(50)})
    return dp.dp_release(table, **{**RELEASE, **changes})


CALLS = {
    **{f"dp_ols {a}": lambda v, a=a: ols(**{a: v}) for a in (
        "eps", "delta", "bounds", "n", "seed", "level", "method", "relation", "na", "engine",
        "subset", "weights", "split", "inference", "budget", "on_no_reply", "schema",
    )},
    "dp_ols bounds of x": lambda v: ols(bounds={"x": v, "y": (0, 1)}),
    "dp_ols bound of x": lambda v: ols(bounds={"x": (0, v), "y": (0, 1)}),
    "dp_ols share": lambda v: ols(split={"bound": v}),
    "dp_ols option": lambda v: ols(method="eptr", whiten=v),
    "dp_ols option c0": lambda v: ols(method="eptr", c0=v),
    "dp_ols formula": lambda v: dp.dp_ols(v, COLUMN.to_frame(), **OLS),
    **{f"dp_release {a}": lambda v, a=a: release(**{a: v}) for a in (
        "eps", "level", "clear_prob", "noise", "columns", "public_columns", "keep_order", "seed",
        "blocks", "tight", "n",
    )},
    "dp_glm family": lambda v: dp.dp_glm("y ~ x", COLUMN.to_frame(), family=v, eps=1, delta=1e-6),
    "dp_quantreg tau": lambda v: dp.dp_quantreg(
        "y ~ x", pd.DataFrame({"x": [0.0], "y": [0.0]}), tau=v, **OLS
    ),
    "dp_pate sigma": lambda v: dp.dp_pate([[1]], classes=2, eps=1, delta=1e-6, sigma=v),
    "dp_pate classes": lambda v: dp.dp_pate([[1]], classes=v, eps=1, delta=1e-6),
    "dp_vote seed": lambda v: dp.dp_vote(["a"], ["a", "b"], eps=1, delta=1e-6, seed=v),
    "dp_mean columns": lambda v: dp.dp_mean(v, COLUMN.to_frame(), eps=1, delta=1e-6),
    "plan n": lambda v: dp.plan("y ~ x", n=v, **OLS),
    "Budget eps": lambda v: dp.Budget(eps=v, delta=1e-6),
    "Budget unit": lambda v: dp.Budget(eps=1, delta=1e-6, unit=v),
    "Real": lambda v: dp.Real(0, v),
    "Levels": lambda v: dp.Levels(v),
    "Binary": lambda v: dp.Binary(v),
    "Schema": lambda v: dp.Schema(x=v),
    "methods": lambda v: dp.methods(v),
    "tradeoff alpha": lambda v: dp.plan("y ~ x", n=900, **OLS).guarantee.tradeoff(v),
}  # fmt: skip


#: A number is a valid eps or bound here, public from then on, and printed with the guarantee.
PRINTED = ("dp_ols eps", "dp_release eps", "Budget eps", "dp_ols bound of x", "Real")
#: Text of the formula language is what somebody wrote: the message points into it.
LANGUAGE = ("dp_ols subset", "dp_ols weights", "dp_ols formula", "dp_release columns",
            "dp_mean columns", "dp_release blocks", "dp_release public_columns")  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_value_in_a_wrong_argument_is_not_quoted(call):
    import warnings

    for name, value in HANDED_OVER.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                CALLS[call](value)
            except Exception as error:
                if name == "numpy scalar" and call in PRINTED:
                    continue
                if ("text" in name or name == "set") and call in LANGUAGE:
                    continue
                assert not quoted(error), (name, error)
        assert not any(quoted(w.message) for w in caught if name != "numpy scalar"), name


def test_shown():
    for value in (None, True, 1, -2.5, "eptr"):
        assert shown(value) == repr(value)
    for value in (*HANDED_OVER.values(), 10**400, np.float64(3), np.str_("a"), b"x", (COLUMN, 1)):
        assert "777" not in shown(value) and "zq" not in shown(value)
    assert shown(COLUMN) == "<Series>" and shown((COLUMN, 1)) == "<tuple>"
    assert shown(np.float64(1.0)) == "<float64>"
