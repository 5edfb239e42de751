"""A variable of a schema that no column has: refused, warned of, or left, by names alone."""

import warnings

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, SchemaError

PAY = {"eps": 5, "delta": 1e-6}
N = 1000


def _data():
    rng = np.random.default_rng(0)
    names = ("wage", "age", "hours_worked", "income2", "z")
    return {name: rng.uniform(0, 1, N) for name in names}


@pytest.mark.parametrize(("wrong", "right"), [
    ("aeg", "age"), ("Age", "age"), ("agee", "age"), ("Hours.Worked", "hours_worked"),
    ("hoursworked", "hours_worked"), ("hours worke", "hours_worked"), ("Z", "z"),
])  # fmt: skip
def test_of_a_column_that_the_call_uses_it_is_refused(wrong, right):
    budget = dp.Budget(10, 1e-5)
    schema = {"wage": dp.Real(0, 1), wrong: dp.Real(0, 1)}
    with pytest.raises(SchemaError, match=f"Did you mean '{right}'"):
        dp.dp_ols(f"wage ~ {right}", _data(), schema=schema, budget=budget, **PAY)
    assert budget.charges == ()


def test_of_another_column_it_is_told():
    schema = {"wage": dp.Real(0, 1), "age": dp.Real(0, 1), "hours_workd": dp.Real(0, 1)}
    with pytest.warns(DPModelsWarning, match="Did you mean 'hours_worked'") as told:
        dp.dp_ols("wage ~ age", _data(), schema=schema, **PAY)
    assert told[0].filename == __file__


@pytest.mark.parametrize("more", [
    {"region": dp.Levels(["a", "b"])}, {"income1": dp.Real(0, 1)}, {"x": dp.Real(0, 1)},
    {f"item{i}": dp.Real(0, 1) for i in range(500)}, {"wages": dp.Real(0, 1)},
])  # fmt: skip
def test_schemas_of_several_tables_stay_usable(more):
    """A declared column ("wages" beside wage) and other numbers (income1) are no misspellings."""
    schema = {"wage": dp.Real(0, 1), "age": dp.Real(0, 1), **more}
    with warnings.catch_warnings():
        warnings.simplefilter("error", DPModelsWarning)
        dp.dp_mean("wage + age ~ 1", _data(), schema=schema, **PAY)


def test_many_names_are_not_compared_one_by_one():
    data = {**_data(), **{f"column{i}": np.zeros(N) for i in range(3000)}}
    schema = {"wage": dp.Real(0, 1), **{f"kolumn{i}": dp.Real(0, 1) for i in range(3000)}}
    dp.dp_mean("wage ~ 1", data, schema=schema, **PAY)
