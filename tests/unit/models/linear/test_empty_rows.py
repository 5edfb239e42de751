"""A misspelt level empties rows; the released count says so, above its noise and for nothing."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.usefixtures("quiet")


def table(n):
    rng = np.random.default_rng(0)
    x, g = rng.uniform(0, 1, n), rng.choice(["a", "b", "c", "d"], n)
    y = x + (g == "b") + rng.normal(0, 0.2, n)
    return pd.DataFrame({"x": x, "g": g, "y": y, "e": (y > 1).astype(int)})


SCHEMA = dp.Schema(
    x=dp.Real(0, 1), g=dp.Levels(["a", "b", "c", "d"]), y=dp.Real(-1, 3), e=dp.Binary()
)
CALLS = [
    (dp.dp_ols, "y ~ x + g", {"stages": 1}),
    (dp.dp_ols, "y ~ x + g", {"stages": 1, "inference": False}),
    (dp.dp_ols, "y ~ x + g", {}),
    (dp.dp_glm, "e ~ x + g", {}),
]


def said(fit):
    return [note for note in fit.notes if "of the rows were dropped" in note]


@pytest.mark.parametrize(("verb", "formula", "options"), CALLS)
def test_a_misspelt_level_is_noticed(verb, formula, options):
    data = table(20_000)
    call = {"eps": 2, "delta": 1e-6, "schema": SCHEMA, "seed": 1} | options
    assert not said(verb(formula, data, **call))
    wrong = data.assign(g=data.g.replace("b", "bee"))
    fit = verb(formula, wrong, **call)
    (note,) = said(fit)
    share = int(note.split("About ")[1].split(" %")[0])
    assert 20 <= share <= (45 if verb is dp.dp_ols and not options else 30)
    assert "Check spelling, case and spaces of levels" in note
    assert "not reported" not in str(fit.summary()).partition("Not reported")[0]
    with_subset = verb(formula, wrong, subset="x > 0.5", **call)
    assert "outside subset=" in said(with_subset)[0]


@pytest.mark.parametrize(("verb", "formula", "options"), CALLS[1:])
def test_nothing_is_said_within_the_noise_or_against_a_private_n(verb, formula, options):
    """Few rows: the noise of the count exceeds a quarter of them. Add/remove: n is not public."""
    data = table(300)
    wrong = data.assign(g=data.g.replace("b", "B"))
    call = {"eps": 0.1, "delta": 1e-6, "schema": SCHEMA} | options
    for seed in range(5):  # a false alarm: noise beyond 3 sds, P < .007 for five draws
        assert not said(verb(formula, data, seed=seed, **call))
    free = call | {"eps": 2, "relation": "add-remove"}
    if verb is dp.dp_ols:
        free["n_guess"] = 400
    assert not said(verb(formula, wrong, seed=1, **free))
