"""What a newcomer types by mistake: refused before a cell is read, with what to type instead."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError

PAIR = {"eps": 1.0, "delta": 1e-6}
SCHEMA = dp.Schema(
    a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4), g=dp.Levels(["low", "high"])
)


class Untouchable(pd.DataFrame):
    """A frame whose cells must not be read."""

    def __getitem__(self, key):
        raise AssertionError("a private cell was read")


@pytest.fixture
def frame(table):
    data = table(300)
    data["g"] = "low"
    return Untouchable(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subset": pd.Series([True])}, r"subset= must be a string.*got Series"),
        ({"weights": pd.Series([1.0])}, r"weights= must be a string.*got Series"),
        ({"subset": "g == 'low' & a > 0"}, r"bind tighter"),
        ({"subset": "b > 0 & a > 0"}, r"bind tighter"),
        ({"schema": pd.DataFrame({"a": [1]})}, r"schema= must be a Schema"),
        ({"eps": "1"}, r"eps must be a number, got the text"),
        ({"formula": "y ~ a | g"}, r"few hundred levels are a factor"),
    ],
)
def test_refused_with_what_to_type(frame, change, words):
    call = {"formula": "y ~ a + b", "schema": SCHEMA, **PAIR, **change}
    with pytest.raises(DPModelsError, match=words):
        dp.dp_ols(call.pop("formula"), frame, **call)


def test_swapped_arguments_and_foreign_names(frame):
    with pytest.raises(DPModelsError, match="the formula comes before the data"):
        dp.dp_ols(frame, "y ~ a", **PAIR)
    with pytest.raises(DPModelsError, match="eps is not called epsilon here"):
        dp.dp_ols("y ~ a", frame, epsilon=1, delta=1e-6)


def test_points_and_new_rows_need_names(table, quiet, bounds):
    data = table(2000)
    with pytest.raises(DPModelsError, match=r"at=\{'a': \[...\]\}"):
        dp.dp_npreg("y ~ a", data, at=np.arange(3.0), bounds=bounds, **PAIR)
    fit = dp.dp_ols("y ~ a", data, bounds=bounds, **PAIR, seed=1)
    with pytest.raises(DPModelsError, match="a table with the names"):
        fit.predict(np.ones((2, 1)))


def test_means_in_the_wrong_form_point_to_groups(frame):
    for verb in (dp.dp_mean, dp.dp_moments):
        with pytest.raises(DPModelsError, match="variables on the left and 1 on the right"):
            verb("y ~ g", frame, schema=SCHEMA, **PAIR)


def test_a_verb_is_no_method():
    with pytest.raises(DPModelsError, match="is a verb, not a method"):
        dp.methods("dp_ols")
