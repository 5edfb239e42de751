"""Weights of a fit have no unit: weights and their range times a constant are the same fit."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import OneHot
from dpmodels.proof.statistics import Sum
from dpmodels.scoring.rules import WEIGHT_BINS
from dpmodels.scoring.scales import WeightPlan, mean_weight, weight_release
from tests.one_pass import added

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning")

CALLS = {
    "median": ("dp_quantreg", "y ~ x", {}),
    "gaussian": ("dp_glm", "y ~ x", {"family": "gaussian"}),
    "huber": ("dp_mest", "y ~ x", {"loss": "huber"}),
    "logit": ("dp_glm", "b ~ x", {"family": "binomial"}),
    "probit": ("dp_glm", "b ~ x", {"family": "binomial", "link": "probit"}),
    "poisson": ("dp_glm", "c ~ x", {"family": "poisson"}),
    "ols": ("dp_ols", "y ~ x", {}),
    "ols of people": ("dp_ols", "y ~ x", {"unit": "person"}),
    "logit of people": ("dp_glm", "b ~ x", {"family": "binomial", "unit": "person"}),
    "mean": ("dp_mean", "~ y", {}),
}  # fmt: skip


def table(n=6000, seed=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n).clip(-3.0, 3.0)
    return {
        "x": x,
        "y": (1.0 + 2.0 * x + rng.normal(size=n)).clip(-12.0, 14.0),
        "b": (rng.random(n) < 1.0 / (1.0 + np.exp(0.3 - 0.5 * x))).astype(float),
        "c": rng.poisson(np.exp(0.3 * x + 0.5)).clip(0, 20).astype(float),
        "w": rng.gamma(2.0, 0.5, n).clip(0.05, 5.0),
        "person": np.repeat(np.arange(n // 3), 3),
    }


def fitted(call, scale, top=5.0, eps=1.0, **given):
    verb, formula, options = CALLS[call]
    data = table()
    data["w"] = scale * data["w"]
    schema = {
        "x": dp.Real(-3, 3), "y": dp.Real(-12, 14), "b": dp.Binary(), "c": dp.Count(20),
        "w": dp.Real(0, top * scale),
    }  # fmt: skip
    given = given or {"weights": "w"}
    return getattr(dp, verb)(
        formula, data, eps=eps, delta=1e-6, schema=schema, seed=3, **options, **given
    )


@pytest.mark.parametrize("call", CALLS)
def test_weights_have_no_unit(call):
    """Deterministic: seeded. A unit moves no estimate, no error and no decision to test."""
    one = fitted(call, 1.0)
    for scale in (1e-3, 0.01, 300.0):
        other = fitted(call, scale)
        for name in ("params", "bse", "pvalues"):
            np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-4)


@pytest.mark.parametrize("call", ["median", "logit", "logit of people"])
def test_a_survey_says_the_same_of_its_weights(call):
    survey = fitted(call, 300.0, design=dp.Survey(weights="w"))
    one = fitted(call, 1.0, design=dp.Survey(weights="w"))
    np.testing.assert_allclose(survey.params, one.params, rtol=1e-4)
    np.testing.assert_allclose(survey.bse, one.bse, rtol=1e-4)


def test_a_range_too_wide_for_the_weights_leaves_the_exact_fit():
    """Deterministic: no noise. A declared range 40 times the mean weight: the weighted fit."""
    with noise_source(ZeroNoise()):
        narrow, wide = (fitted("logit", 1.0, top=top, eps=4.0) for top in (5.0, 40.0))
    np.testing.assert_allclose(wide.params, narrow.params, atol=0.01)


def test_a_row_is_in_one_bin_of_weights():
    """Sensitivity root 2 under replace-one, 1 under add-remove: whatever its weight."""
    weights = np.array([0.0, -1.0, np.nan, np.inf, 1e-300, 1e300, 0.3, 1.0, 4.9, 5.0])
    rows = np.array([added(weight_release(0, 5.0, None), [np.array([[w]])])[0] for w in weights])
    assert (rows.sum(axis=1) == 1).all() and rows.min() == 0
    moved = np.linalg.norm((rows[:, None] - rows[None]).astype(float), axis=2).max()
    assert moved == pytest.approx(sensitivity(Sum(OneHot(WEIGHT_BINS)), "replace", "l2"))


def test_the_step_of_the_ledger_and_the_released_mean():
    (step,) = WeightPlan(2, 5.0, 0.3).steps
    assert step.mechanism == Gaussian(0.3 * 0.02**0.5) and step.share == 0.02
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 20_000).clip(0.01, 5.0)
    counts = added(weight_release(0, 5.0, None), [weights[None]])[0].astype(float)
    assert mean_weight(counts, 1.0, 5.0) == pytest.approx(weights.mean(), rel=0.05)
    assert mean_weight(np.zeros(WEIGHT_BINS), 1.0, 5.0) == 5.0
