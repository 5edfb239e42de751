"""An effect that is known is tested, however wide its range was declared."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.scoring.notes import effects_beyond, too_wide
from dpmodels.scoring.rules import KNOWN_EFFECT

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning")


def table(n=40_000):
    """Income far below the end of its declared range; four rows per person."""
    rng = np.random.default_rng(0)
    income = rng.gamma(3.0, 10.0, n).clip(0.0, 500.0)
    y = (2.0 + 0.05 * income + rng.normal(0.0, 2.0, n)).clip(0.0, 16.0)
    person = np.repeat(np.arange(n // 4), 4)
    bought = rng.random(n) < 1.0 / (1.0 + np.exp(2.0 - 0.05 * income))
    return {"y": y, "income": income, "person": person, "b": bought.astype(float)}


@pytest.mark.parametrize("top", [1_000, 3_000])
@pytest.mark.parametrize(
    ("verb", "formula", "options"),
    [
        ("dp_ols", "y ~ income", {}),
        ("dp_quantreg", "y ~ income", {}),
        ("dp_mest", "y ~ income", {"loss": "huber"}),
        ("dp_ols", "y ~ income", {"unit": "person"}),
        ("dp_glm", "b ~ income", {"family": "binomial", "unit": "person"}),
        ("dp_feols", "y ~ income | person", {"unit": "person"}),
    ],
)  # fmt: skip
def test_a_known_effect_is_tested_however_wide_its_range(verb, formula, options, top):
    """Deterministic: seeded. Errors of a few per cent: z and P, whatever the declared range."""
    schema = {"y": dp.Real(0, 16), "income": dp.Real(0, top), "b": dp.Binary()}
    fit = getattr(dp, verb)(
        formula, table(), eps=8, delta=1e-6, schema=schema, seed=1, **options
    )
    small = fit.bse["income"] < 0.1 * abs(fit.params["income"])
    assert small
    assert np.isfinite(fit.pvalues["income"])


def test_an_interval_as_wide_as_the_effect_makes_it_noise():
    schema = dp.Schema(y=dp.Real(0, 16), x=dp.Real(0, 1000), g=dp.Levels(["u", "v"]))
    design = build_design("y ~ x * g", schema)
    params = np.array([2.0, 0.5, 0.1, 0.01])  # 500 of a response of 16

    def beyond(error):
        return effects_beyond(design, params, lambda rows: np.sqrt(rows**2 @ error**2))

    sure = np.array([0.1, 0.001, 0.2, 0.001])
    assert not beyond(sure).any()
    assert beyond(np.array([0.1, 0.6, 0.2, 0.001])).tolist() == [False, True, True, False]
    assert effects_beyond(design, params).tolist() == [False, True, True, True]
    half = np.abs(params) * (KNOWN_EFFECT + 0.01)
    assert too_wide(design, design.names, half, linear=True, params=params)[1]
    half = np.abs(params) * (KNOWN_EFFECT - 0.01)
    assert not too_wide(design, design.names, half, linear=True, params=params).any()
