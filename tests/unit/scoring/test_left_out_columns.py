"""A column that is a combination of those before it is left out, as R does, with a warning before."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import UtilityWarning

N = 4000
SCHEMA = dp.Schema(
    x=dp.Real(0, 1), z=dp.Real(20, 80), h=dp.Levels(["a", "b", "c"]), y=dp.Real(-5, 5),
    t=dp.Real(0, 9), e=dp.Binary(),
)  # fmt: skip
CALL = {"schema": SCHEMA, "eps": 20, "delta": 1e-6, "seed": 1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 1, N), rng.uniform(20, 80, N)
    y = (x + z / 50 + rng.normal(0, 1, N)).clip(-5, 5)
    return pd.DataFrame({"x": x, "z": z, "y": y, "h": rng.choice(["a", "b", "c"], N),
                         "t": rng.exponential(2, N).clip(0, 9), "e": (y > 1).astype(int)})  # fmt: skip


def both(verb, data, with_it, without, **options):
    """Return the fits with and without the term, and what was warned before the first."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fits = [getattr(dp, verb)(f, data, **CALL, **options) for f in (with_it, without)]
    return *fits, [str(w.message) for w in caught if issubclass(w.category, UtilityWarning)]


@pytest.mark.parametrize(
    ("with_it", "without", "gone"),
    [
        ("y ~ x + I(2*x)", "y ~ x", ["I(2 * x)"]),
        ("y ~ x + z + I(x - z/9 + 3)", "y ~ x + z", ["I(x - z / 9 + 3)"]),
        ("y ~ h + I(h == 'b')", "y ~ h", ["I(h == 'b')"]),
        ("y ~ x + h + I(1 - x) - 1", "y ~ x + h - 1", ["I(1 - x)"]),
    ],
)
def test_the_second_term_is_left_out(data, with_it, without, gone):
    fit, plain, warned = both("dp_ols", data, with_it, without)
    assert [n for n, lost in fit.bse.isna().items() if lost] == gone
    kept = [name for name in fit.params.index if name not in gone]
    assert kept == list(plain.params.index)
    assert (np.abs(fit.params[kept] - plain.params) < 3 * np.hypot(fit.bse[kept], plain.bse)).all()
    assert np.allclose(fit.bse[kept], plain.bse, rtol=0.3)
    assert len(warned) == 1 and warned[0].startswith(f"{gone[0]}: a combination")
    row = next(r for r in fit.summary().rows if r.cells[0] == gone[0])
    assert row.cells[1] == "n/a" and any("Not estimable" in note for note in fit.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(fit.predict(data.head(3))).all()


@pytest.mark.parametrize(
    ("verb", "response", "options"),
    [
        ("dp_glm", "e", {"family": "binomial"}),
        ("dp_quantreg", "y", {}),
        ("dp_coxph", "Surv(t, e)", {}),
    ],
)
def test_other_models_do_the_same(data, verb, response, options):
    fit, plain, warned = both(verb, data, f"{response} ~ x + I(2*x)", f"{response} ~ x", **options)
    assert np.isnan(fit.bse["I(2 * x)"]) and np.isfinite(fit.bse["x"])
    assert abs(fit.params["x"] - plain.params["x"]) < 3 * np.hypot(fit.bse["x"], plain.bse["x"])
    assert len(warned) == 1 and "combination" in warned[0]


def test_the_plan_says_so_and_the_warning_comes_before_the_charge(data):
    plan = dp.plan("y ~ x + I(2*x)", SCHEMA, n=N, eps=1, delta=1e-6)
    assert any("I(2 * x): a combination" in line for line in plan.advice)
    budget = dp.Budget(eps=1, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        with pytest.raises(UtilityWarning, match="combination"):
            dp.dp_ols("y ~ x + I(2*x)", data, schema=SCHEMA, eps=1, delta=1e-6, budget=budget)
    assert "0 calls charged" in repr(budget)
