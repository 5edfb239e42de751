"""Competing risks: incidences, tests and hazards of one cause, against plain numpy."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, FormulaError, RequestError
from dpmodels.formula.design import Survival
from dpmodels.models.survival.curve import covariance_of
from dpmodels.models.survival.incidence import incidences as curves
from dpmodels.models.survival.table import CellNoise, Layout

pytestmark = pytest.mark.usefixtures("quiet")
N, END = 3000, 12
SCHEMA = {
    "time": dp.Count(END), "cause": dp.Levels([0, 1, 2]), "arm": dp.Levels(["a", "b"]),
    "why": dp.Levels(["alive", "relapse", "death"]), "start": dp.Count(END), "dead": dp.Binary(),
    "odd": dp.Levels([2, 0, 1]), "x": dp.Real(-1, 1),
}  # fmt: skip
CALL = {"schema": SCHEMA, "eps": 1.0, "delta": 1e-6, "seed": 3}
#: With no noise in the errors either.
EXACT = {**CALL, "eps": 1e6, "delta": 0.5}


@pytest.fixture(scope="module")
def data():
    """Times in whole months, which are the breaks."""
    rng = np.random.default_rng(4)
    arm = rng.choice(["a", "b"], N)
    first, second = rng.exponential(np.where(arm == "a", 9.0, 14.0)), rng.exponential(15.0, N)
    leaves = rng.uniform(2, 20, N)
    time = np.minimum(np.minimum(first, second), leaves)
    cause = np.where(time == first, 1, np.where(time == second, 2, 0))
    time = np.ceil(time)
    cause = np.where(time > END, 0, cause)
    return pd.DataFrame({
        "time": np.minimum(time, END + 1.0).clip(max=END), "cause": cause, "arm": arm,
        "why": np.array(["alive", "relapse", "death"])[cause], "dead": (cause > 0).astype(int),
        "start": np.zeros(N), "odd": cause, "x": rng.uniform(-1, 1, N), "id": np.arange(N),
    })  # fmt: skip


def aalen_johansen(time, cause, at, j, start=None):
    """Incidence of cause j at times, and its variance by the delta method, one row at a time."""
    start = np.full(len(time), -1.0) if start is None else start
    points = np.unique(time[cause > 0])
    S, F, steps = 1.0, 0.0, []
    for t in points:
        risk = ((start < t) & (time >= t)).sum()
        own, every = ((time == t) & (cause == j)).sum(), ((time == t) & (cause > 0)).sum()
        F += S * own / risk
        steps.append((t, S, F, own, every, risk))
        S *= 1.0 - every / risk
    out = []
    for t in at:
        last = max((F for u, _, F, *_ in steps if u <= t), default=0.0)
        V = 0.0
        for u, before, here, own, every, risk in steps:
            if u > t:
                break
            h, H = own / risk, every / risk
            later = (last - here) / (1.0 - H)
            V += (
                before**2 * h * (1 - h) + later**2 * H * (1 - H) - 2 * before * later * h * (1 - H)
            ) / risk
        out.append((last, np.sqrt(V)))
    return np.array(out).T


def log_rank(time, event, group):
    """Observed less expected events of the first group, and its variance."""
    U = V = 0.0
    for t in np.unique(time[event]):
        risk, mine = time >= t, (time >= t) & group
        d, Y, Y1 = (event & (time == t)).sum(), risk.sum(), mine.sum()
        U += (event & (time == t) & group).sum() - d * Y1 / Y
        V += d * (Y - d) / max(Y - 1, 1) * Y1 / Y * (1 - Y1 / Y)
    return U, V


@pytest.mark.parametrize("cause", ["all", 1, 2])
def test_incidence_is_that_of_aalen_and_johansen(data, noiseless, cause):
    fit = dp.dp_survfit("Surv(time, cause) ~ arm", data, cause=cause, **EXACT)
    frame, at = fit.tidy(), np.arange(1.0, END + 1)
    wanted = [1, 2] if cause == "all" else [cause]
    labels = [f"arm={g}, cause={j}" for g in "ab" for j in wanted]
    assert frame["strata"].unique().tolist() == labels
    for g in "ab":
        own = data[data.arm == g]
        for j in wanted:
            F, sd = aalen_johansen(own.time.to_numpy(), own.cause.to_numpy(), at, j)
            found = frame[frame.strata == f"arm={g}, cause={j}"]
            np.testing.assert_allclose(found["estimate"], F, atol=1e-6)
            np.testing.assert_allclose(found["std_error"], sd, rtol=1e-4)
            assert found["n_event"].sum() == pytest.approx((own.cause == j).sum(), abs=1e-3)
            assert ((found.conf_low <= F) & (found.conf_high >= F)).all()
    risk = fit.risk_table([0, 6])
    assert list(risk.index) == ["arm=a", "arm=b"]
    assert risk.loc["arm=a", 0] == pytest.approx((data.arm == "a").sum(), abs=1e-3)


def test_incidences_and_survival_sum_to_one(data, noiseless):
    """So do their errors: the sum of both incidences has those of Kaplan and Meier."""
    both = dp.dp_survfit("Surv(time, cause) ~ 1", data, cause="all", **EXACT)
    alive = dp.dp_survfit("Surv(time, dead) ~ 1", data, **EXACT)
    F = both.params.to_numpy().reshape(2, -1)
    np.testing.assert_allclose(F.sum(axis=0) + alive.params.to_numpy(), 1.0, atol=1e-6)
    V = both.vcov().to_numpy().reshape(2, END, 2, END).sum(axis=(0, 2))
    np.testing.assert_allclose(np.diag(V), alive.bse.to_numpy() ** 2, rtol=1e-4)
    assert list(both.params.index[:1]) == ["F(1)[cause=1]"]


def test_delayed_entry(data, noiseless):
    rng = np.random.default_rng(8)
    late = data.assign(start=rng.integers(0, 6, N).astype(float))
    late = late[late.start < late.time]
    fit = dp.dp_survfit(
        "Surv(start, time, cause) ~ 1", late, cause=2, times=range(1, END + 1), **EXACT
    )
    at = np.arange(1.0, END + 1)
    F, sd = aalen_johansen(
        *(late[c].to_numpy() for c in ("time", "cause")), at, 2, late.start.to_numpy()
    )
    np.testing.assert_allclose(fit.params, F, atol=1e-6)
    np.testing.assert_allclose(fit.bse, sd, rtol=1e-4)


def test_continuous_times_are_near_the_exact_curve(noiseless):
    """Seed 2, 20 000 rows, 32 intervals: within a fifth of a standard error."""
    rng, n = np.random.default_rng(2), 20_000
    first, second, leaves = rng.exponential(8, n), rng.exponential(12, n), rng.uniform(1, 16, n)
    time = np.minimum(np.minimum(first, second), leaves)
    cause = np.where(time == first, 1, np.where(time == second, 2, 0))
    fit = dp.dp_survfit("Surv(t, c) ~ 1", {"t": time, "c": cause}, cause=1, eps=1.0, delta=1e-6, seed=1,
                        schema={"t": dp.Real(0, 12), "c": dp.Levels([0, 1, 2])}, breaks=32)  # fmt: skip
    frame = fit.tidy()
    F, sd = aalen_johansen(time, np.where(time > 12, 0, cause), frame["time"].to_numpy(), 1)
    assert np.max(np.abs(frame["estimate"] - F) / sd) < 0.2


def test_the_log_rank_test_is_of_one_cause(data, noiseless):
    test = dp.dp_survdiff("Surv(time, cause) ~ arm", data, cause=1, **EXACT)
    U, V = log_rank(
        data.time.to_numpy(), (data.cause == 1).to_numpy(), (data.arm == "a").to_numpy()
    )
    assert test.params["arm=a"] == pytest.approx(U, abs=1e-5)
    assert test.statistic == pytest.approx(U**2 / V, rel=1e-4)
    free = dp.dp_survfit("Surv(time, cause) ~ arm", data, cause=1, **EXACT).survdiff()
    assert free.statistic == pytest.approx(test.statistic)
    other = dp.dp_survdiff("Surv(time, cause) ~ arm", data, cause=2, **EXACT)
    assert other.statistic < 6 < test.statistic  # the second cause does not depend on the arm


@pytest.mark.parametrize("unit", [None, "id"])
def test_hazards_of_a_cause_are_those_with_the_others_censored(data, unit):
    """The same numbers, noise and all, as of an event column of 0 and 1."""
    how = {**CALL, **({"unit": unit} if unit else {})}
    of_cause = dp.dp_coxph("Surv(time, cause) ~ arm + x", data, cause=2, **how)
    plain = dp.dp_coxph(
        "Surv(time, dead) ~ arm + x", data.assign(dead=(data.cause == 2) * 1), **how
    )
    np.testing.assert_array_equal(of_cause.params, plain.params)
    np.testing.assert_array_equal(of_cause.bse, plain.bse)
    assert "cause=2" in of_cause.formula
    assert "censored" in of_cause.summary(full=True).as_text()


def test_a_person_counts_once(data, noiseless):
    """Two rows of each person: half of a unit each."""
    twice = pd.concat([data, data.assign(cause=0)])
    fit = dp.dp_survfit("Surv(time, cause) ~ 1", twice, cause="all", unit="id", units=N, **CALL)
    once = dp.dp_survfit("Surv(time, cause) ~ 1", data, cause="all", **CALL)
    assert fit.nobs == N
    np.testing.assert_allclose(fit.tidy()["n_event"], once.tidy()["n_event"] / 2.0, atol=1e-3)


def test_a_cell_that_is_no_level_counts_as_nothing(data, noiseless):
    lost = data.assign(why=data.why.where(np.arange(N) % 3 > 0, "moved"))
    fit = dp.dp_survfit("Surv(time, why) ~ 1", lost, cause="death", **CALL)
    kept = lost[lost.why != "moved"]
    F, _ = aalen_johansen(kept.time.to_numpy(), kept.cause.to_numpy(), np.arange(1.0, END + 1), 2)
    np.testing.assert_allclose(fit.params, F, atol=1e-6)


def test_numbers_that_are_read_off(data, noiseless):
    fit = dp.dp_survfit("Surv(time, why) ~ arm", data, cause="relapse", **CALL)
    frame = fit.tidy()
    own = frame[frame.strata == "arm=a, why=relapse"]
    at = fit.at([6])
    assert at["estimate"][0] == pytest.approx(own[own.time == 6]["estimate"].iloc[0])
    assert at["conf_low"][0] == pytest.approx(own[own.time == 6]["conf_low"].iloc[0])
    assert (at.conf_low < at.estimate).all() and (at.estimate < at.conf_high).all()
    lost = fit.rmst(END)  # the area under steps that come after each month
    area = np.append(0.0, own["estimate"])
    assert lost["estimate"][0] == pytest.approx(
        area[:-1].sum() + (area[1:] - area[:-1]).sum() / 2, abs=0.5
    )
    assert lost["conf_low"][0] < lost["estimate"][0] < lost["conf_high"][0]
    gap = fit.difference([6]).iloc[0]
    assert gap["estimate"] == pytest.approx(at["estimate"][0] - at["estimate"][1])
    assert 0 < gap["conf_low"] < gap["estimate"] < gap["conf_high"]
    time = fit.quantile(0.2)
    assert ((time.conf_low <= time.estimate) & (time.estimate <= time.conf_high)).all()


def test_between_breaks_intervals_hold_both_ends(data):
    fit = dp.dp_survfit("Surv(time, why) ~ arm", data, cause="all", breaks=4, **CALL)
    ends, between = fit.at([3, 6]), fit.at([4.5])
    own = ends[ends.strata == "arm=a, why=death"]
    found = between[between.strata == "arm=a, why=death"].iloc[0]
    assert found["estimate"] == own["estimate"].iloc[0]
    assert found["conf_low"] == own["conf_low"].iloc[0]
    assert found["conf_high"] == own["conf_high"].iloc[1]
    pairs = fit.difference([4.5])
    assert len(pairs) == 2  # groups are compared for one cause
    assert (pairs.conf_low < pairs.estimate).all() and (pairs.estimate < pairs.conf_high).all()


def test_jacobian_is_the_derivative():
    """By central differences of the cells; noise is a function of it."""
    where = Survival(time=0, event=1, causes=("c=1", ""))
    lay = Layout((0.0, 1.0, 2.0, 4.0), causes=where.causes)
    rng = np.random.default_rng(3)
    cells = rng.uniform(20, 60, lay.M)
    noise = CellNoise(lay, 1e-3)

    def log_S(c):
        return curves(lay, noise, c)[0].log_S

    (curve,) = curves(lay, noise, cells)
    assert curve.J.shape == (3, lay.M)
    for m in range(lay.M):
        step = np.zeros(lay.M)
        step[m] = 1e-4
        np.testing.assert_allclose(
            curve.J[:, m], (log_S(cells + step) - log_S(cells - step)) / 2e-4, atol=1e-8
        )


def test_sampling_covariance_is_that_of_multinomial_cells():
    """Seed 5: 4000 tables of 500 units; variances within 8 %, an error of 2.2 % each."""
    rng, n = np.random.default_rng(5), 500
    lay = Layout((0.0, 1.0, 2.0, 3.0), causes=("c=1", "c=2"))
    noise = CellNoise(lay, 1e-9)
    p = np.full(lay.M, 0.02)
    p[lay.beyond(0)], p[-1] = 0.0, 0.0
    p[lay.beyond(0)] = 1.0 - p.sum()
    found = [curves(lay, noise, c.astype(float)) for c in rng.multinomial(n, p, 4000)]
    F = np.array([np.concatenate([c.log_S for c in pair]) for pair in found])
    a, b = curves(lay, noise, n * p)
    expected = np.block([[a.sampling(a), a.sampling(b)], [b.sampling(a), b.sampling(b)]])
    actual = np.cov(F.T)
    np.testing.assert_allclose(np.diag(actual), np.diag(expected), rtol=0.08)
    off = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(actual / off, expected / off, atol=0.08)
    w = np.array([0.0, 0.0, 0.0, 1.0])
    both = covariance_of([(a, w), (b, -w)])[0]
    S = np.array([a.S[-1], -b.S[-1]])
    assert both == pytest.approx(S @ expected[np.ix_([2, 5], [2, 5])] @ S)


# -- words, files, refusals ------------------------------------------------------------------------


def test_page_picture_and_file(data, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    fit = dp.dp_survfit("Surv(time, why) ~ arm", data, cause="all", **CALL)
    page = fit.summary().as_text()
    for words in ("cumulative incidence", "Aalen-Johansen", "arm=b, why=death", "Incidence"):
        assert words in page
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(again.tidy(), fit.tidy())
    ax = fit.plot(joint=True)
    assert ax.get_ylabel() == "cumulative incidence"
    assert [line.get_label() for line in ax.get_lines()] == list(fit.tidy()["strata"].unique())
    top = ax.get_lines()[0].get_ydata()
    assert top[0] == 0.0 and (np.diff(top) >= 0).all()
    assert (fit.tidy(joint=True)["conf_high"] >= fit.tidy()["conf_high"]).all()
    with pytest.raises(RequestError, match="event"):
        fit.plot(kind="survival")
    np.testing.assert_allclose(
        1.0 - np.exp(-fit.cumulative_hazard()["estimate"]), fit.tidy()["estimate"]
    )
    with pytest.raises(RequestError, match="one of the causes"):
        fit.survdiff()


def test_the_formula_and_the_argument_say_the_same(data):
    by_word = dp.dp_survfit("Surv(time, why) ~ arm", data, cause="death", **CALL)
    in_formula = dp.dp_survfit("Surv(time, why, cause='death') ~ arm", data, **CALL)
    assert by_word.formula == in_formula.formula
    np.testing.assert_array_equal(by_word.params, in_formula.params)
    test = dp.dp_survdiff("Surv(time, why) ~ arm", by_word, cause="death")
    assert test.statistic == by_word.survdiff().statistic
    number = dp.dp_survfit("Surv(time, cause) ~ arm", data, cause=np.float64(2.0), **CALL)
    np.testing.assert_array_equal(number.params, by_word.params)


def test_an_updated_fit_is_of_the_same_cause(data, noiseless):
    fit = dp.dp_coxph("Surv(time, why) ~ arm + x", data, cause="death", **CALL)
    less = fit.update(". ~ . - x", data=data, eps=1.0, delta=1e-6)
    wanted = dp.dp_coxph("Surv(time, why) ~ arm", data, cause="death", **CALL)
    assert less.formula == wanted.formula
    np.testing.assert_allclose(less.params, wanted.params, rtol=1e-9)
    budget = dp.Budget(eps=1, delta=1e-6)
    with pytest.raises(DPModelsError):
        dp.dp_coxph(fit.formula, data, cause="relapse", budget=budget, **CALL)  # two causes
    assert budget.remaining().eps == 1


@pytest.mark.parametrize("verb", ["dp_survfit", "dp_survdiff", "dp_coxph"])
def test_a_plan_takes_a_cause(verb, data):
    plan = dp.plan("Surv(time, why) ~ arm", dp.Schema(**SCHEMA), n=N, eps=1, delta=1e-6, verb=verb,
                   cause="death")  # fmt: skip
    assert "cause='death'" in plan.request.formula
    steps = [
        s.name
        for s in getattr(dp, verb)(
            "Surv(time, why) ~ arm", data, cause="death", **CALL
        ).privacy.steps
    ]
    assert [s.name for s in plan.steps] == steps


REFUSED = [
    ("Surv(time, why) ~ arm", "dead", "not a cause.*'relapse', 'death'"),
    ("Surv(time, why) ~ arm", "re'l\"a~+pse", "not a cause"),
    ("Surv(time, why) ~ arm", "alive", "first declared level is censored"),
    ("Surv(time, cause) ~ arm", 0, "first declared level is censored"),
    ("Surv(time, cause) ~ arm", 3, "cause=1"),
    ("Surv(time, cause) ~ arm", "1", "not a cause"),
    ("Surv(time, cause) ~ arm", True, "not a cause"),
    ("Surv(time, cause) ~ arm", [1, 2], "one declared level"),
    ("Surv(time, dead) ~ arm", 1, "leave cause= out"),
    ("Surv(time, cause == 1) ~ arm", 1, "leave cause= out"),
    ("Surv(time) ~ arm", 1, "leave cause= out"),
    ("Surv(time, odd) ~ arm", 1, "0, where it is one"),
    ("time ~ arm", 1, r"Surv\(time, status\)"),
    ("Surv(time, cause) ~ arm", float("nan"), "cause"),
    ("Surv(time, cause) ~ arm", None, "or cause="),
]


@pytest.mark.parametrize("verb", ["dp_survfit", "dp_survdiff", "dp_coxph"])
@pytest.mark.parametrize(("formula", "cause", "message"), REFUSED)
def test_bad_input_is_refused_before_a_charge(data, verb, formula, cause, message):
    budget = dp.Budget(eps=1, delta=1e-6)
    with pytest.raises(DPModelsError) as error:
        getattr(dp, verb)(formula, data, cause=cause, budget=budget, **CALL)
    assert re.search(message, str(error.value), re.DOTALL)
    assert budget.remaining().eps == 1


@pytest.mark.parametrize("verb", ["dp_survdiff", "dp_coxph"])
def test_all_causes_are_no_cause_of_a_test_or_a_model(data, verb):
    budget = dp.Budget(eps=1, delta=1e-6)
    with pytest.raises((FormulaError, RequestError), match="cause"):
        getattr(dp, verb)("Surv(time, why) ~ arm", data, cause="all", budget=budget, **CALL)
    assert budget.remaining().eps == 1
