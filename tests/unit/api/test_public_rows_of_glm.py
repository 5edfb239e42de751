"""``dp_glm(public=)``: the fit of the public rows alone stands beside the private one."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
SCHEMA = dp.Schema(x=dp.Real(0, 10), z=dp.Real(-50, 50), b=dp.Binary(), k=dp.Count(9))
CALL = {"eps": 1, "delta": 1e-6, "schema": SCHEMA, "seed": 1}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(0, 10, n), rng.uniform(-50, 50, n)
    eta = 0.3 * (x - 5) + 0.01 * z
    return pd.DataFrame({
        "x": x, "z": z, "b": (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int),
        "k": np.minimum(rng.poisson(np.exp(0.2 * eta)), 9),
    })  # fmt: skip


@pytest.mark.parametrize(("formula", "family"), [
    ("b ~ x + z", "binomial"), ("b ~ 0 + x", "binomial"), ("k ~ x + z", "poisson"),
])  # fmt: skip
def test_public_rows_are_fitted(formula, family):
    """Every call was refused ("beyond floating point"): the public rows had no bound."""
    sm = pytest.importorskip("statsmodels.formula.api")
    import statsmodels.api

    public = rows(400, 2)
    options = {"mean_cap": 9} if family == "poisson" else {}
    fit = dp.dp_glm(formula, rows(3000, 1), family=family, public=public, **options, **CALL)
    known = {"binomial": statsmodels.api.families.Binomial, "poisson": statsmodels.api.families.Poisson}
    want = sm.glm(formula, public, family=known[family]()).fit().params.to_numpy()
    assert fit.arrays["public_params"] == pytest.approx(want, rel=0.01, abs=1e-3)


@pytest.mark.parametrize(("verb", "more"), [
    ("dp_quantreg", {}), ("dp_mest", {"loss": "huber"}), ("dp_glm", {"method": "scoring"}),
    ("dp_ols", {"method": "eptr"}),
])  # fmt: skip
def test_advice_names_methods_that_there_are(verb, more):
    """``method='pmt'`` was named to verbs that do not have it."""
    with pytest.raises(dp.errors.RequestError) as caught:
        getattr(dp, verb)("b ~ x", rows(300, 1), public=rows(30, 2), **more, **CALL)
    text = str(caught.value)
    assert "drop public=" in text
    named = [m for m in ("pmt", "objpert") if f"'{m}'" in text]
    assert set(named) <= set(dp.methods().query("verb == @verb")["method"])
    assert bool(named) == (verb in ("dp_glm", "dp_ols"))
