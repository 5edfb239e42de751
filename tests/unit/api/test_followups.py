"""A follow-up that spends protects whom its fit protects, on the rows that the fit used."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import BudgetError, RequestError

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning"),
    pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning"),
]

SCHEMA = dp.Schema(
    x=dp.Real(0, 1), z=dp.Real(0, 1), y=dp.Real(-2, 3), w=dp.Real(0, 4),
    g=dp.Levels(["a", "b"]), s=dp.Levels(["u", "v"]),
)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 3000
    x = rng.uniform(0, 1, n)
    g = np.where(x + rng.normal(0, 0.2, n) > 0.5, "a", "b")
    frame = {"id": np.repeat(np.arange(n // 3), 3), "x": x, "z": rng.uniform(0, 1, n), "g": g}
    frame |= {"w": 0.2 + 3.0 * x, "s": rng.choice(["u", "v"], n), "psu": rng.integers(0, 100, n)}
    frame["y"] = x * frame["z"] + rng.normal(0, 0.3, n)
    return pd.DataFrame(frame)


def _fit(data: pd.DataFrame, formula: str = "y ~ x * z", **own: object) -> dp.Fit:
    return dp.dp_ols(formula, data, eps=20, delta=1e-7, schema=SCHEMA, **own)


PROMISES = {
    "people": {"unit": "id"},
    "add-remove": {"relation": "add-remove", "n_guess": 3000},
    "people, add-remove": {"unit": "id", "relation": "add-remove", "n_guess": 1000},
}


@pytest.mark.parametrize("verb", ["avg_slopes", "avg_comparisons", "avg_predictions"])
@pytest.mark.parametrize("promise", PROMISES)
def test_averages_protect_what_the_fit_protects(data, promise, verb):
    fit = _fit(data, **PROMISES[promise])
    budget = dp.Budget(
        eps=60, delta=1e-5, relation=fit.privacy.relation, unit=PROMISES[promise].get("unit", "record")
    )  # fmt: skip
    found = getattr(fit, verb)(newdata=data, eps=20, delta=1e-7, budget=budget)
    charged = budget.charges[-1].guarantee
    assert (charged.unit, charged.relation) == (fit.privacy.unit, fit.privacy.relation)
    assert " ".join(found.notes).count(fit.privacy.neighbours) == 1


@pytest.mark.parametrize("promise", PROMISES)
def test_no_budget_of_others_is_charged(data, promise):
    fit, budget = _fit(data, **PROMISES[promise]), dp.Budget(eps=60, delta=1e-5)
    if promise == "add-remove":  # a budget of people: one of replaced rows may take the charge
        budget = dp.Budget(eps=60, delta=1e-5, unit="id", relation="add-remove")
    with pytest.raises(BudgetError, match="Charge it to") as refused:
        fit.avg_slopes(newdata=data, eps=20, delta=1e-7, budget=budget)
    assert not budget.charges
    advice = str(refused.value).rpartition("budget=")[2].replace("eps=...", "eps=60")
    own = eval(advice.replace("delta=...", "delta=1e-5"))  # what it says can be typed
    fit.avg_slopes(newdata=data, eps=20, delta=1e-7, budget=own)
    assert len(own.charges) == 1


def test_averages_are_of_the_rows_of_the_fit(data):
    """Seeded: the released mean is within .01 of that of the subset, of weighted rows."""
    chosen = _fit(data, subset="g == 'a'", seed=1)
    found = chosen.avg_slopes(newdata=data, eps=20, delta=1e-7, seed=2)
    mean = float(found.notes[0].partition("x = ")[2].partition(",")[0])
    assert mean == pytest.approx(data.x[data.g == "a"].mean(), abs=0.01)
    assert "subset g == 'a'" in " ".join(found.notes)
    for own in ({"weights": "w"}, {"design": dp.Survey(weights="w", strata="s", psu="psu")}):
        found = _fit(data, **own, seed=1).avg_slopes(newdata=data, eps=20, delta=1e-7, seed=2)
        mean = float(found.notes[0].partition("x = ")[2].partition(",")[0])
        assert mean == pytest.approx(np.average(data.x, weights=data.w), abs=0.01)
        assert "weights w" in " ".join(found.notes)
    by_cluster = _fit(data, vcov={"CRV1": "psu"}, seed=1)
    found = by_cluster.avg_slopes(newdata=data, eps=20, delta=1e-7, seed=2)
    assert "of psu" in " ".join(found.notes)


def test_weighted_means_of_people_are_refused_with_what_to_type(data):
    fit = _fit(data, unit="id", weights="w")
    budget = dp.Budget(eps=60, delta=1e-5, unit="id")
    with pytest.raises(RequestError, match="means without weights") as refused:
        fit.avg_slopes(newdata=data, eps=20, delta=1e-7, budget=budget)
    assert not budget.charges
    typed = str(refused.value).rpartition("newdata=")[2].replace("eps=...", "eps=20")
    means = eval(typed.replace("delta=...", "delta=1e-7, schema=SCHEMA"))
    assert len(fit.avg_slopes(newdata=means).labels) == 2


@pytest.mark.parametrize("verb", ["score", "diagnose"])
def test_a_held_out_table_is_protected_as_the_fit_is(data, verb):
    budget = dp.Budget(eps=60, delta=1e-5, unit="id")
    with pytest.raises(BudgetError, match=r"budget=dp.Budget\(eps=..., delta=...\)$"):
        getattr(_fit(data), verb)(data, eps=20, delta=1e-7, budget=budget)
    loose = dp.Budget(eps=60, delta=1e-5, relation="add-remove")
    with pytest.raises(BudgetError, match="Charge it to"):
        getattr(_fit(data), verb)(data, eps=20, delta=1e-7, budget=loose)
    fit = _fit(data, relation="add-remove", n_guess=3000)
    with pytest.raises(RequestError, match="relation='replace'"):
        getattr(fit, verb)(data, eps=20, delta=1e-7, budget=loose)
    with budget, pytest.raises(BudgetError, match="Charge it to"):
        getattr(_fit(data, budget=dp.Budget(eps=60, delta=1e-5)), verb)(data, eps=20, delta=1e-7)
    assert not budget.charges and not loose.charges


def test_a_diagnosis_says_its_rows_and_what_its_errors_take_for_granted(data):
    chosen = _fit(data, subset="g == 'a'", vcov={"CRV1": "psu"}, seed=1)
    for found in (chosen.diagnose(data, eps=2, delta=1e-7, seed=2),
                  chosen.score(data, eps=2, delta=1e-7, seed=2)):  # fmt: skip
        assert "Of the rows with g == 'a', as the fit." in found.notes
        assert "Errors assume that rows are independent" in found.notes[-1]


def test_proportional_hazards_are_checked_for_the_units_of_the_fit(data):
    rng = np.random.default_rng(4)
    data = data.assign(t=rng.exponential(2, len(data)).clip(0.01, 5), e=1)
    schema = SCHEMA.update(dp.Schema(t=dp.Real(0, 5), e=dp.Binary((0, 1))))
    fit = dp.dp_coxph("Surv(t, e) ~ x", data, eps=5, delta=1e-7, schema=schema, unit="id")
    rows, people = dp.Budget(eps=60, delta=1e-5), dp.Budget(eps=60, delta=1e-5, unit="id")
    with pytest.raises(BudgetError, match=r"Charge it to .*unit='id'"):
        fit.cox_zph(data, eps=5, delta=1e-7, budget=rows)
    fit.cox_zph(data, eps=5, delta=1e-7, budget=people)
    assert not rows.charges and people.charges[-1].guarantee.unit == fit.privacy.unit
