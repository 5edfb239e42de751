"""Which number is the event is declared: no verb guesses it from the type of a column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError

N = 400
SCHEMA = {"t": dp.Real(0, 10), "x": dp.Real(0, 1)}
GUARANTEE = {"eps": 1, "delta": 1e-6, "schema": SCHEMA}
BITS = np.random.default_rng(2).integers(0, 2, N)
COLUMNS = {
    "int 0, 1": BITS,
    "int 1, 2": BITS + 1,
    "int 0, 2": BITS * 2,
    "float 1, 2": BITS + 1.0,
    "Int64 1, 2": pd.array(BITS + 1, dtype="Int64"),
    "Int64 0, 1 and missing": pd.array([None, *BITS[1:]], dtype="Int64"),
    "uint8 1, 2": (BITS + 1).astype("uint8"),
    "text 1, 2": (BITS + 1).astype(str),
    "object 1, 2": (BITS + 1).astype(object),
    "category 1, 2": pd.Categorical(BITS + 1),
}
CALLS = {
    "dp_coxph": lambda d, **o: dp.dp_coxph("Surv(t, e) ~ x", d, **o),
    "dp_survfit": lambda d, **o: dp.dp_survfit("Surv(t, e) ~ 1", d, **o),
    "dp_survdiff": lambda d, **o: dp.dp_survdiff("Surv(t, e) ~ {x > 0.5}", d, **o),
    "dp_glm": lambda d, **o: dp.dp_glm("e ~ x", d, family="binomial", **o),
    "dp_glm, objpert": lambda d, **o: dp.dp_glm("e ~ x", d, method="objpert", **o),
    "outcome of dp_ate": lambda d, **o: dp.dp_ate(
        "e ~ x", d, treatment="{t > 5}", family="binomial", **o
    ),
    "treatment of dp_ate": lambda d, **o: dp.dp_ate("t ~ x", d, treatment="e", **o),
    "a treatment that is computed": lambda d, **o: dp.dp_ate("t ~ x", d, treatment="I(2 * e)", **o),
    "halves of dp_ate": lambda d, **o: dp.dp_ate(
        "t ~ x", d, treatment="{x > 0.5}", propensity="1", folds="e", **o
    ),
}


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("column", COLUMNS)
def test_an_undeclared_event_is_refused_at_no_charge(quiet, column, verb):
    frame = pd.DataFrame({"t": 10 * np.linspace(0, 1, N), "x": np.linspace(0, 1, N)})
    frame["e"] = COLUMNS[column]
    budget = dp.Budget(3, 1e-4)
    with pytest.raises(DPModelsError, match=r"Levels|Binary|column of 0 and 1"):
        CALLS[verb](frame, budget=budget, **GUARANTEE)
    assert not budget.charges


@pytest.mark.parametrize("verb", [v for v in CALLS if "computed" not in v])
def test_the_advice_works(quiet, verb):
    """The declarations that the refusal names are read as they say, and truth values need none."""
    frame = pd.DataFrame({"t": 10 * np.linspace(0, 1, N), "x": np.linspace(0, 1, N)})
    found = [
        CALLS[verb](
            frame.assign(e=cells), eps=500, delta=1e-6, schema={**SCHEMA, **declared}, seed=1
        ).params.to_numpy()
        for cells, declared in (
            (BITS == 1, {}),
            (BITS, {"e": dp.Binary()}),
            (BITS + 1, {"e": dp.Levels([1, 2])}),
        )
    ]
    np.testing.assert_allclose(found[1], found[0], atol=0.1)
    np.testing.assert_allclose(found[2], found[0], atol=0.1)
