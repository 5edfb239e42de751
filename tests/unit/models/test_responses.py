"""Responses of a family: what R fits is fitted, what the declaration excludes is refused."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, RequestError, UtilityWarning

N = 8000
RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, N)
MEAN = np.exp(0.5 + 0.5 * X)
AMOUNTS = RNG.gamma(3.0, MEAN / 3.0)
BOUNDS = {"y": (0, 20), "x": (-1, 1)}


@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "geometric", "quasipoisson"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.usefixtures("quiet")
def test_amounts_and_whole_counts_are_fitted(family, whole):
    """Fixed seed; the slope is within .15 of .5 (6 errors): false alarms below 1e-8."""
    y = RNG.poisson(MEAN).astype(float) if whole else AMOUNTS
    fit = dp.dp_glm("y ~ x", {"y": y, "x": X}, family=family, eps=20, delta=1e-6, bounds=BOUNDS, seed=1)
    assert fit.params["x"] == pytest.approx(0.5, abs=0.15)
    assert np.isfinite(fit.bse).all()


@pytest.mark.usefixtures("quiet")
def test_shares_are_fitted_as_quasibinomial():
    """Fixed seed; the slope is within .2 of 1 (8 errors): false alarms below 1e-8."""
    p = 1.0 / (1.0 + np.exp(-X))
    y = RNG.beta(8 * p, 8 * (1 - p))
    bounds = {"y": (0, 1), "x": (-1, 1)}
    fit = dp.dp_glm("y ~ x", {"y": y, "x": X}, eps=20, delta=1e-6, bounds=bounds, seed=1)
    assert fit.params["x"] == pytest.approx(1.0, abs=0.2)


CODES = (X + RNG.normal(0, 0.5, N) > 0) * 1 + 1


@pytest.mark.parametrize("how", [
    {"event": 2}, {"schema": {"y": dp.Levels([1, 2]), "x": dp.Real(-1, 1)}},
    {"formula": "{y > 1.5} ~ x"},
])  # fmt: skip
@pytest.mark.parametrize("integer", [True, False])
def test_a_spelling_of_the_message_is_right_for_codes_1_and_2(how, integer):
    """Fixed seed; a slope above 1 where it is about 3.3: false alarms below 1e-8."""
    data = {"y": CODES if integer else CODES.astype(float), "x": X}
    pay = {"eps": 20, "delta": 1e-6, "schema": {"y": dp.Real(1, 2), "x": dp.Real(-1, 1)}}
    with pytest.raises(DPModelsError) as said:
        dp.dp_glm("y ~ x", data, **pay)
    for spelling in ("event=2", "dp.Levels([1, 2])", "{y > 1.5}"):
        assert spelling in str(said.value)
    fit = dp.dp_glm(how.get("formula", "y ~ x"), data,
                    **{**pay, **{k: v for k, v in how.items() if k != "formula"}})  # fmt: skip
    assert fit.params["x"] > 1.0


def test_what_is_no_variable_is_not_told_to_be_declared():
    with pytest.raises(DPModelsError) as said:
        dp.dp_glm("I(y * 2) ~ x", {"y": AMOUNTS, "x": X}, eps=1, delta=1e-6, bounds=BOUNDS)
    assert "schema=" not in str(said.value)
    with pytest.raises(DPModelsError, match=r"\{`my y` > 10\}"):
        dp.dp_glm("`my y` ~ x", {"my y": AMOUNTS, "x": X}, eps=1, delta=1e-6,
                  bounds={"my y": (0, 20), "x": (-1, 1)})  # fmt: skip


@pytest.mark.parametrize(("family", "ends"), [
    ("poisson", (-5, -1)), ("gamma", (-2, 0)), ("geometric", (-9, -1)),
])  # fmt: skip
def test_a_range_without_a_response_of_the_family_is_refused(family, ends):
    budget = dp.Budget(eps=10, delta=1e-3)
    with pytest.raises(RequestError, match="gaussian"):
        dp.dp_glm("y ~ x", {"y": AMOUNTS, "x": X}, family=family, eps=1, delta=1e-6,
                  bounds={"y": ends, "x": (-1, 1)}, budget=budget)  # fmt: skip
    assert not len(budget.charges)


def test_a_range_that_is_partly_outside_the_family_is_warned_of():
    with pytest.warns(UtilityWarning, match="count as empty"):
        dp.dp_glm("y ~ x", {"y": AMOUNTS, "x": X}, family="poisson", eps=20, delta=1e-6,
                  bounds={"y": (-1, 20), "x": (-1, 1)})  # fmt: skip
