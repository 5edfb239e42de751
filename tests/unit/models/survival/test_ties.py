"""Times in whole periods: Cox by Efron wherever the ties lie in the cells, and curves that step."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.survival.hazard import Hazard, Timeline
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import expanded
from tests.privacy.cases.survival import check_of

B = (0.8, -0.3)
COLUMNS = {"x": dp.Real(0, 1), "w": dp.Real(-3, 3), "d": dp.Binary(), "s": dp.Real(0, 60)}


def cohort(periods, n=12_000, seed=1, entry=False, scale=30.0):
    """Continuous times up to 26 in whole periods: who dies or leaves within one does so at its end."""
    rng = np.random.default_rng(seed)
    x, w = (rng.random(n) < 0.5) * 1.0, np.clip(rng.normal(size=n), -3, 3)
    dies = rng.exponential(scale, n) * np.exp(-B[0] * x - B[1] * w)
    leaves = rng.uniform(5, 40, n)
    start = np.floor(rng.uniform(0, 8, n) * (rng.random(n) < 0.5)) if entry else np.zeros(n)
    end = np.minimum(dies, leaves)
    if isinstance(periods, int):
        t = np.ceil(end * periods / 26)
        d, t = (dies <= leaves) & (t <= periods), np.minimum(t, periods)
    else:
        at = np.searchsorted(periods, end)
        d, t = (dies <= leaves) & (at < len(periods)), np.append(periods, periods[-1])[at]
    frame = pd.DataFrame({"t": t, "d": d.astype(int), "x": x, "w": w, "s": start})
    return frame[frame["s"] < frame["t"]].reset_index(drop=True).assign(id=lambda f: f.index)


def efron(frame, entry=False):
    duration = pytest.importorskip("statsmodels.duration.hazard_regression")
    more = {"entry": frame["s"].to_numpy()} if entry else {}
    own = duration.PHReg(
        frame["t"].to_numpy(), frame[["x", "w"]].to_numpy(), status=frame["d"].to_numpy(),
        ties="efron", **more,
    ).fit()  # fmt: skip
    return own.params, own.bse


def fitted(frame, time, formula="Surv(t, d) ~ x + w", eps=400, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_coxph(
            formula, frame, eps=eps, delta=1e-6, schema={**COLUMNS, "t": time}, **options
        )


def off(fit, frame, **how):
    """Largest distance from Efron's coefficients, in their standard errors."""
    own, errors = efron(frame, **how)
    return np.max(np.abs(fit.params[["x", "w"]].to_numpy() - own) / errors)


@pytest.mark.parametrize("periods", [5, 13, 26, 39])
def test_whole_times_give_efron(noiseless, periods):
    """Declared whole numbers; the largest tie has from 6 to 41 % of the events."""
    frame = cohort(periods)
    assert off(fitted(frame, dp.Count(periods)), frame) < 0.2


@pytest.mark.parametrize(("shift", "end"), [(0, 26), (0.25, 26.25), (0.5, 26.5), (0, 27), (0, 25)])
def test_where_ties_lie_in_the_cells_changes_nothing(noiseless, shift, end):
    frame = cohort(26)
    if end == 25:
        frame = frame.assign(d=frame["d"] * (frame["t"] <= 25), t=np.minimum(frame["t"], 25))
    found = fitted(frame.assign(t=frame["t"] + shift), dp.Real(0, end))
    assert off(found, frame) < 0.2


def test_breaks_on_the_dates_of_visits(noiseless):
    """A third of the events at one visit. The truth is nearer than Breslow's, which is .09 off."""
    visits = [4.0, 8.0, 12.0, 20.0, 26.0]
    frame = cohort(visits)
    found = fitted(frame, dp.Real(0, 26), breaks=visits)
    assert off(found, frame) < 0.5
    errors = efron(frame)[1]
    assert abs(found.params["x"] - B[0]) < 2.5 * errors[0]


def test_entries_and_people(noiseless):
    frame = cohort(26, entry=True)
    with_entry = fitted(frame, dp.Count(26), "Surv(s, t, d) ~ x + w")
    assert off(with_entry, frame, entry=True) < 0.25
    plain = cohort(26)
    assert off(fitted(plain, dp.Count(26), unit="id"), plain) < 0.2


def test_predicted_survival_and_its_hazard(noiseless):
    """Of grouped times it is the survival of the continuous ones at the ends of periods."""
    frame = cohort(13)
    fit = fitted(frame, dp.Count(13))
    S = fit.predict(
        pd.DataFrame({"x": [0.0, 1.0], "w": [0.0, 0.5]}), what="survival", times=[4, 8, 12]
    ).to_numpy()
    hazard = np.exp([0.0, B[0] + 0.5 * B[1]]) / 30.0
    true = np.exp(-hazard[:, None] * np.array([8.0, 16.0, 24.0]))
    np.testing.assert_allclose(S, true, atol=0.02)


def test_proportionality_of_tied_times(quiet):
    """30 checks of a fit that is right, seeds fixed: 6 or more below .05 once in 500."""
    low = 0
    for seed in range(30):
        frame = cohort(13, n=3000, seed=100 + seed)
        fit = fitted(frame, dp.Count(13), eps=20, seed=seed)
        check = fit.cox_zph(frame, eps=20, delta=1e-6, seed=seed)
        low += float(check.tidy()["p_value"].iloc[-1]) < 0.05
    assert low < 6


def test_coverage_of_the_truth_with_noise(quiet):
    """40 fits at eps = 4, seeds fixed: fewer than 33 of .95 intervals cover once in 300."""
    covered = 0
    for seed in range(40):
        frame = cohort(26, n=5000, seed=200 + seed)
        low, high = fitted(frame, dp.Real(0, 26), eps=4, seed=seed).conf_int().loc["x"]
        covered += low <= B[0] <= high
    assert covered >= 33


def test_restricted_means_and_medians_are_those_of_kaplan_and_meier(noiseless):
    lifelines = pytest.importorskip("lifelines")
    from lifelines.utils import restricted_mean_survival_time

    frame = cohort(13, scale=12.0)
    own = lifelines.KaplanMeierFitter().fit(frame["t"], frame["d"])
    schema = {**COLUMNS, "t": dp.Count(13)}
    call = {"eps": 100, "delta": 1e-6}
    fit = dp.dp_survfit("Surv(t, d) ~ 1", frame, schema=schema, **call)
    for tau in (13, 8, 5.5):
        wanted = restricted_mean_survival_time(own, t=tau)
        assert fit.rmst(tau)["estimate"][0] == pytest.approx(wanted, abs=0.005)
    S = own.survival_function_.iloc[:, 0]
    for q in (0.2, 0.5, 0.7):
        assert fit.quantile(q)["estimate"][0] == S.index[1 - q >= S][0]
    straight = fit.rmst(8, steps=False)["estimate"][0]
    assert straight < restricted_mean_survival_time(own, t=8) - 0.1
    # breaks on the times, which are not declared to be whole: an option, and a note
    other = dp.dp_survfit(
        "Surv(t, d) ~ 1", frame.assign(t=frame["t"] / 10), breaks=list(np.arange(1, 14) / 10),
        schema={**COLUMNS, "t": dp.Real(0, 1.3)}, **call,
    )  # fmt: skip
    wanted = restricted_mean_survival_time(own, t=8) / 10
    assert other.rmst(0.8, steps=True)["estimate"][0] == pytest.approx(wanted, abs=0.001)
    assert other.quantile(0.5, steps=True)["estimate"][0] == pytest.approx(
        S.index[S <= 0.5][0] / 10
    )
    assert any("straight between breaks" in note for note in other.notes)
    assert not any("straight between breaks" in note for note in fit.notes)
    # cells of several periods: the curve falls by equal steps of one period
    coarse = dp.dp_survfit("Surv(t, d) ~ 1", frame, schema=schema, breaks=[3, 6, 9, 13], **call)
    S = np.interp(np.arange(9), [0, 3, 6, 9], [1.0, *(own.predict(v) for v in (3, 6, 9))])
    assert coarse.rmst(9)["estimate"][0] == pytest.approx(S.sum(), abs=0.02)


# -- Own rows alone


@pytest.mark.parametrize("efrons", [False, True])
def test_the_time_of_an_event_within_its_cell_is_not_used(efrons):
    plan = check_of("rows, entries", 1)
    local, where = plan.local, plan.design.survival
    old = local.model.timeline
    parts = np.full_like(old.rates, 0.4) if efrons else None
    line = Timeline(old.edges, old.rates, old.events, parts=parts)
    model = Hazard(local.model.coordinates, where, line, 1.0, False)
    rng, m = np.random.default_rng(3), 60
    block = rng.choice([-1.0, 0.2, 1.0], (plan.design.q, m))
    block[0], block[where.event] = 1.0, 1.0
    cell = rng.integers(2, line.K, m)
    block[where.start] = rng.choice([0.0, 1.0, 3.0], m)
    ends = line.edges[cell], line.edges[cell + 1]
    found = []
    for share in (1e-6, 0.3, 1.0):
        block[where.time] = ends[0] + share * (ends[1] - ends[0])
        units = BlockOfPeople(block.copy(), np.arange(m), np.ones(m, dtype=np.intp))
        for clip in (np.inf, 2.0):
            one = expanded(model.at(SimpleState(local), clip), units)
            found.append((clip, one.score, one.information))
    for clip in (np.inf, 2.0):
        first, *others = [(s, v) for c, s, v in found if c == clip]
        for s, v in others:
            np.testing.assert_allclose(s, first[0], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(v, first[1], rtol=1e-12, atol=1e-12)


class SimpleState:
    """The coefficients and the whitening of a check."""

    def __init__(self, local):
        self.theta, self.W = local.theta, np.eye(len(local.theta))
