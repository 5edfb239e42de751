"""``plan()`` shows what the fit then uses: one code path up to the first row."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.api import call as _run

SCHEMA = dp.Schema(
    y=dp.Real(0, 10),
    x=dp.Real(1, 5),
    z=dp.Real(-2, 2),
    g=dp.Levels(["a", "b", "c"]),
    u=dp.Real(),
)


@pytest.mark.parametrize(
    ("formula", "extra"),
    [
        ("y ~ x + log(x)", {}),
        ("y ~ x*C(g, contr.sum) + bs(z, knots=[0])", {}),
        ("y ~ x + u", {}),
        ("y ~ x + g", {"subset": "z > 0", "na": "declared"}),
        ("y ~ x:z + g", {"engine": "patsy"}),
        ("y ~ x + z", {"bounds": "private"}),
        ("y ~ x + z", {"bounds": {"x": (2, 3)}}),
    ],
)
def test_plan_equals_the_plan_of_the_fit(formula, extra, monkeypatch):
    n = 400
    rng = np.random.default_rng(1)
    df = pd.DataFrame({c: rng.uniform(1, 2, n) for c in "yxzu"})
    df["g"] = rng.choice(["a", "b", "c"], n)
    used = []
    original = _run.make_plan

    def remember(call, rows):
        used.append(original(call, rows))
        return used[-1]

    arguments = {"eps": 1, "delta": 1e-5, "method": "eptr", "schema": SCHEMA, **extra}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = dp.plan(formula, n=n, **arguments)
        monkeypatch.setattr(_run, "make_plan", remember)
        dp.dp_ols(formula, df, **arguments)
    assert len(used) == 1
    fit = used[0]
    assert shown.design == fit.design
    assert shown.design.fingerprint == fit.design.fingerprint
    for name in (
        "n",
        "steps",
        "guarantee",
        "shares",
        "scales",
        "expected_se",
        "purchase",
        "advice",
    ):
        assert getattr(shown, name) == getattr(fit, name), name
