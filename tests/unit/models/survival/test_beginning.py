"""Events at the beginning of the declared range happen while everybody is at risk, as in R."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from tests.unit.models.survival.test_curve import kaplan_meier

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning"),
    pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning"),
]
SCHEMA = dp.Schema(
    t=dp.Real(0, 10), d=dp.Binary((0, 1)), g=dp.Levels(["a", "b"]), x=dp.Real(0, 1), s=dp.Real(0, 10)
)
CALL = {"eps": 1e6, "delta": 0.5, "seed": 1}


@pytest.fixture(scope="module")
def data():
    """Returns of customers: a third to a half are back on the day of the sale, time 0."""
    rng = np.random.default_rng(7)
    n = 8000
    x = rng.integers(0, 2, n).astype(float)
    ends, leaves = rng.exponential(6 * np.exp(-0.5 * x)), rng.uniform(0, 12, n)
    t = np.minimum(np.minimum(ends, leaves), 10.0)
    d = ((ends <= leaves) & (ends < 10)) * 1
    first = rng.random(n) < np.where(x == 1, 0.45, 0.25)
    t[first], d[first] = 0.0, rng.random(first.sum()) < 0.9
    return pd.DataFrame({"t": t, "d": d, "x": x, "g": np.where(x == 1, "b", "a"), "id": np.arange(n)})


def _kaplan_meier(t, d, at):
    return kaplan_meier(t, d, np.asarray(at, dtype=float), start=np.full(len(t), -1.0))[0]


def _area(t, d, tau):
    at = np.concatenate([np.unique(t[t < tau]), [tau]])
    S = _kaplan_meier(t, d, at)
    return at[0] + float((np.diff(at) * S[:-1]).sum())


@pytest.mark.parametrize("unit", [None, "id"])
def test_events_at_time_0_count_while_everybody_is_at_risk(data, unit):
    """Without noise to speak of: survival within .002 of Kaplan and Meier's at breaks."""
    fit = dp.dp_survfit("Surv(t, d) ~ g", data, schema=SCHEMA, unit=unit, **CALL)
    for g in "ab":
        own = data[data["g"] == g]
        t, d = own["t"].to_numpy(), own["d"].to_numpy()
        at = fit.at([0, 1, 5])
        found = at.loc[at["strata"] == f"g={g}", "estimate"].to_numpy()
        np.testing.assert_allclose(found, _kaplan_meier(t, d, [0, 1, 5]), atol=0.002)
        mean = fit.rmst(8).set_index("strata").loc[f"g={g}", "estimate"]
        assert mean == pytest.approx(_area(t, d, 8.0), abs=0.01)
    assert fit.tidy()["time"].iloc[0] == 0 and fit.params.index[0] == "S(0)[g=a]"
    assert "Everybody is at risk" in " ".join(fit.notes)
    survdiff = pytest.importorskip("statsmodels.duration.survfunc").survdiff
    exact = survdiff(data["t"], data["d"], data["g"])[0]
    test = dp.dp_survdiff("Surv(t, d) ~ g", data, schema=SCHEMA, unit=unit, **CALL)
    assert test.statistic == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("unit", [None, "id"])
def test_a_regression_has_events_at_time_0(data, unit):
    """Seeded: within a third of a standard error of Efron's coefficient."""
    duration = pytest.importorskip("statsmodels.duration.hazard_regression")
    own = duration.PHReg(data["t"], data[["x"]], status=data["d"], ties="efron").fit()
    fit = dp.dp_coxph("Surv(t, d) ~ x", data, schema=SCHEMA, unit=unit, **(CALL | {"eps": 200, "delta": 1e-6}))
    assert abs(fit.params["x"] - own.params[0]) < own.bse[0] / 3
    later = data[data["t"] > 0]  # the rest alone is another answer here
    rest = duration.PHReg(later["t"], later[["x"]], status=later["d"]).fit()
    assert fit.params["x"] != pytest.approx(rest.params[0], abs=1e-4)
    S = fit.predict(pd.DataFrame({"x": [0.0, 1.0]}), what="survival", times=[0.0, 1.0])
    assert S.iloc[0, 0] < 0.85  # a fifth had its event at once


def test_the_low_end_of_a_range_counts_with_and_without_entries():
    rng = np.random.default_rng(8)
    n = 6000
    t = np.clip(np.ceil(rng.exponential(6, n)), 1, 10)
    d = (rng.random(n) < 0.7) * 1
    s = np.where(rng.random(n) < 0.6, 0.0, rng.integers(0, 9, n))
    s = np.where(s >= t, 0.0, s) + 0.0
    data = pd.DataFrame({"t": t, "d": d, "s": s, "g": "a", "x": 0.5})
    schema = SCHEMA.update(dp.Schema(t=dp.Real(1, 10), s=dp.Real(0, 10)))
    whole = np.arange(1.0, 10)
    fit = dp.dp_survfit("Surv(t, d) ~ 1", data, schema=schema, **CALL)
    np.testing.assert_allclose(fit.at(whole)["estimate"], kaplan_meier(t, d, whole)[0], atol=0.001)
    late = dp.dp_survfit("Surv(s, t, d) ~ 1", data, schema=schema, **CALL)
    risk = np.array([((t >= u) & (s < u)).sum() for u in whole])
    died = np.array([((t == u) & (d == 1)).sum() for u in whole])
    np.testing.assert_allclose(late.at(whole)["estimate"], np.cumprod(1 - died / risk), atol=0.001)


def test_a_row_of_no_length_counts_as_nothing_and_an_early_entry_as_the_first():
    """``Surv(0, 0, 1)`` is no follow-up, as in R; what is entered before the range is there."""
    schema = SCHEMA.update(dp.Schema(t=dp.Real(1, 10), s=dp.Real(0, 10)))
    data = pd.DataFrame({"s": [0.0, 0.5, 0.5, 1.0, 0.9], "t": [0.0, 1.0, 5.0, 5.0, 0.8], "d": 1})
    data = pd.concat([data] * 400, ignore_index=True)
    fit = dp.dp_survfit("Surv(s, t, d) ~ 1", data, schema=schema, **CALL)
    assert fit.at([1])["estimate"].iloc[0] == pytest.approx(0.5, abs=0.01)
    assert fit.at([4])["estimate"].iloc[0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("high", [5, 12, 24, 60])
def test_follow_up_in_whole_periods_ends_at_default_breaks(high):
    """Without noise: survival at whole times within .004 of Kaplan and Meier's."""
    rng = np.random.default_rng(9)
    ends = np.ceil(rng.exponential(high / 2, 20_000))
    leaves = np.ceil(rng.uniform(0, 1.2 * high, 20_000))
    t, d = np.minimum(np.minimum(ends, leaves), high), ((ends <= leaves) & (ends <= high)) * 1
    schema = SCHEMA.update(dp.Schema(t=dp.Real(0, high)))
    fit = dp.dp_survfit("Surv(t, d) ~ 1", pd.DataFrame({"t": t, "d": d}), schema=schema, **CALL)
    frame = fit.tidy()
    at = frame["time"].to_numpy()
    assert np.isin(at[at == np.round(at)], np.arange(high + 1)).all()
    at = at[at < high]
    S = kaplan_meier(t, d, at)[0]
    np.testing.assert_allclose(frame["estimate"].to_numpy()[: len(at)], S, atol=0.004)


def test_nothing_at_the_beginning_is_not_shown():
    rng = np.random.default_rng(10)
    data = pd.DataFrame({"t": rng.uniform(0.1, 10, 5000), "d": 1})
    fit = dp.dp_survfit("Surv(t, d) ~ 1", data, schema=SCHEMA, eps=2, delta=1e-6, seed=1)
    assert fit.tidy()["time"].iloc[0] > 0 and not fit.params.index[0].startswith("S(0)")
    assert len(fit.params) == len(fit.tidy())
