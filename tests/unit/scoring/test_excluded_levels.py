"""Levels that subset= excludes: their columns are empty by declared facts, and nothing else is."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning")
EFFECT = {"a": 0.0, "b": 0.5, "c": -0.5, "d": 1.0}
SCHEMA = {
    "x": dp.Real(-1, 1), "k": dp.Levels(list(EFFECT)), "y": dp.Real(-8, 8), "b": dp.Binary(),
}  # fmt: skip


def table(n=20_000):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "k": rng.choice(list(EFFECT), n)})
    eta = frame.x + frame.k.map(EFFECT)
    frame["y"] = (1.0 + eta + rng.normal(size=n)).clip(-8, 8)
    frame["b"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    frame["person"] = np.arange(n) // 2
    return frame


CALLS = [
    ("dp_ols", "y ~ x + C(k)", "k != 'd'", {}, {"C(k)[T.d]"}),
    ("dp_ols", "y ~ x + k", "k in ['a', 'c']", {}, {"k[T.b]", "k[T.d]"}),
    ("dp_ols", "y ~ x * k", "k != 'c'", {}, {"k[T.c]", "x:k[T.c]"}),
    ("dp_ols", "y ~ x + k - 1", "k != 'd'", {}, {"k[d]"}),
    ("dp_ols", "y ~ x + k", "k != 'd'", {"unit": "person"}, {"k[T.d]"}),
    ("dp_quantreg", "y ~ x + k", "k != 'd'", {}, {"k[T.d]"}),
    ("dp_mest", "y ~ x + k", "k != 'd'", {"loss": "huber"}, {"k[T.d]"}),
    ("dp_glm", "b ~ x + k", "k != 'b'", {"family": "binomial"}, {"k[T.b]"}),
    ("dp_glm", "b ~ x + k", "k != 'b'", {"family": "binomial", "unit": "person"}, {"k[T.b]"}),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "formula", "subset", "options", "excluded"), CALLS)
def test_only_the_levels_that_subset_excludes_are_lost(verb, formula, subset, options, excluded):
    """Deterministic: seeded. Everything else has its error, interval and P."""
    fit = getattr(dp, verb)(
        formula, table(), eps=4, delta=1e-6, schema=SCHEMA, subset=subset, seed=1, **options
    )
    missing = set(fit.bse.index[fit.bse.isna()])
    assert missing == excluded
    kept = [name for name in fit.params.index if name not in excluded]
    assert np.isfinite(fit.pvalues[kept]).all()
    assert np.isfinite(fit.conf_int().loc[kept].to_numpy()).all()
    new = pd.DataFrame({"x": [0.0, 0.5], "k": ["a", "a"]})
    if verb == "dp_ols":
        assert np.isfinite(np.asarray(fit.predict(new, interval="confidence"))).all()
    assert any("subset= leaves no rows" in note for note in fit.notes)


def test_r_squared_is_that_of_the_rows_that_are_left():
    frame = table()
    call = dict(eps=8, delta=1e-6, schema=SCHEMA, seed=1)
    fit = dp.dp_ols("y ~ x + C(k)", frame, subset="k != 'd'", **call)
    part = frame[frame.k != "d"]
    X = np.column_stack([np.ones(len(part)), part.x, part.k == "b", part.k == "c"]).astype(float)
    rest = part.y - X @ np.linalg.lstsq(X, part.y, rcond=None)[0]
    assert abs(fit.rsquared - (1.0 - rest.var() / part.y.var())) < 0.03


@pytest.mark.parametrize("formula", ["y ~ x + I(2 * x + 1)", "y ~ x + k + I(2 * x + 1)"])
def test_of_two_columns_that_are_one_the_second_is_lost(formula):
    with pytest.warns(dp.errors.UtilityWarning, match="a combination of the columns before it"):
        fit = dp.dp_ols(formula, table(), eps=4, delta=1e-6, schema=SCHEMA, seed=1)
    assert set(fit.bse.index[fit.bse.isna()]) == {"I(2 * x + 1)"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_effects_of_people_are_those_of_the_rows_that_are_left(seed):
    """Deterministic: seeded. The first coordinate, which falls out of a person, is the constant.

    It was a mixture of columns: x had 0.00 (0.02) where 1 is true.
    """
    fit = dp.dp_feols(
        "y ~ x + k | person", table(), eps=4, delta=1e-6, schema=SCHEMA, subset="k != 'd'",
        unit="person", seed=seed,
    )  # fmt: skip
    assert set(fit.bse.index[fit.bse.isna()]) == {"k[T.d]"}
    for name, true in (("x", 1.0), ("k[T.b]", 0.5), ("k[T.c]", -0.5)):
        assert abs(fit.params[name] - true) < 0.15 and fit.bse[name] < 0.1
