"""A name followed by a bracket is a function, any other a variable; in backticks always."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning
from dpmodels.results import Fit

NAMES = ("cut", "exp", "scale", "center", "log", "table", "poly", "bs", "C", "I", "offset", "clip",
         "sqrt", "np", "lag", "factor", "standardize", "minimum", "contr", "dp")  # fmt: skip
RNG = np.random.default_rng(0)
X, Z = RNG.uniform(1, 3, (2, 2000))


def fit(name, formula, **more):
    frame = pd.DataFrame({name: X, "z": Z, "y": X - Z})
    bounds = {name: (1, 3), "z": (1, 3), "y": (-2, 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_ols(formula, frame, eps=3, delta=1e-6, bounds=bounds, seed=1, **more)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "formula",
    ["y ~ {} + z", "y ~ log({}) + z", "y ~ `{}` + z", "y ~ {}:z", "y ~ {} * z", "{} ~ z + y",
     "log({}) ~ z", "y ~ I({}**2) + exp({}) + z", "y ~ scale({}, 2, 0.5) + sqrt(z)"],
)  # fmt: skip
def test_a_column_called_like_a_function(name, formula):
    """The same numbers as of a column of another name."""
    places = formula.count("{}")
    one = fit(name, formula.format(*[name] * places))
    other = fit("w", formula.format(*["w"] * places))
    assert (one.params.to_numpy() == other.params.to_numpy()).all()
    assert len(one.design.names) == len(other.design.names)


@pytest.mark.parametrize("name", ["exp", "cut", "np", "C"])
def test_such_a_column_in_all_that_follows(name):
    more = {"subset": f"{name} > 1.5", "weights": name}
    one = fit(name, f"y ~ {name} + log({name}) + z", **more)
    other = fit("w", "y ~ w + log(w) + z", subset="w > 1.5", weights="w")
    assert (one.params.to_numpy() == other.params.to_numpy()).all()
    new = pd.DataFrame({name: [1.0, 2.0], "z": [1.5, 2.5]})
    found = one.predict(new)
    renamed = other.predict(new.rename(columns={name: "w"}))
    assert np.array_equal(np.asarray(found, float), np.asarray(renamed, float))
    again = Fit.from_json(one.to_json())
    assert again.params.equals(one.params)
    assert np.array_equal(np.asarray(again.predict(new), float), np.asarray(found, float))


def test_functions_are_functions_still():
    found = fit("w", "y ~ log(w) + exp(z)")
    assert found.design.names == ("Intercept", "log(w)", "exp(z)")
    levels = dp.Schema(y=dp.Real(-2, 2), C=dp.Levels(["a", "b"]), cut=dp.Real(0, 3))
    plan = dp.plan("y ~ C(C) + cut(cut, breaks=[1, 2])", levels, n=100, eps=1, delta=1e-6)
    assert len(plan.design.names) == 4
