"""Bought levels: counts of k columns at once, and values that one row alone has.

Statistical tests have fixed seeds and state their probability of a false alarm.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import dpmodels as dp
from dpmodels.errors import (
    BudgetExceededError,
    NotPrivateWarning,
    PrivacyBugError,
    RequestError,
    UtilityWarning,
)
from dpmodels.levels import LevelsPlan, merged, threshold
from dpmodels.own.levels import STEP, release_levels, shares_of_values, texts_of
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.sources.people import PeopleRows
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.sums.ask import Ask
from dpmodels.units import Person
from tests.replaying import ReplayRun

COLUMNS = ("a", "b", "c")
pytestmark = pytest.mark.filterwarnings(f"ignore::{NotPrivateWarning.__module__}.NotPrivateWarning")


def table(n, last):
    rng = np.random.default_rng(2)
    out = {name: rng.choice(["u", "v", "w"], n).astype(object) for name in COLUMNS}
    for name, value in zip(COLUMNS, last, strict=True):
        out[name][-1] = value
    return out


def plan_of(n, eps=1.0, delta=1e-3, columns=COLUMNS, missing=()):
    return LevelsPlan.of(columns, (missing,) * len(columns), n, eps, delta)


def staged(plan, data, run):
    return release_levels(plan, Ask(Rows(as_source(data), plan.n, False), run, "replace"))


LAST = [
    ("u", "u", "u"), ("v", "w", "v"), ("alone", "alone", "alone"), (None, None, None), ("", "NA", np.nan),
    ("other", "u", None), (1, 1.0, True), (" u ", "U", "u\0"), ([1], {}, b"u"), (10**400, 1j, "x" * 999),
]  # fmt: skip


def test_no_row_moves_the_counts_by_more_than_is_charged():
    """Replay: all pairs of last rows; sqrt(2 k) is attained where all k columns change."""
    n = 60
    plan = plan_of(n)
    ratios = []
    for one in LAST:
        a = ReplayRun(plan.guarantee.steps, 0)
        staged(plan, table(n, one), a)
        for two in LAST:
            b = ReplayRun(plan.guarantee.steps, 0, a.drawn)
            staged(plan, table(n, two), b)
            draw = a.drawn[STEP]
            assert draw.sensitivity == pytest.approx(math.sqrt(2 * len(COLUMNS)))
            ratios.append(draw.distance(b.drawn[STEP]) / draw.sensitivity)
    assert max(ratios) == pytest.approx(1.0) and max(ratios) <= 1.0 + 1e-9


def test_a_row_is_the_same_wherever_it_is(monkeypatch):
    n = 60
    plan = plan_of(n)
    data = table(n, ("alone", None, 3))
    a = ReplayRun(plan.guarantee.steps, 0)
    staged(plan, data, a)
    order = np.random.default_rng(1).permutation(n)
    monkeypatch.setattr("dpmodels.sources.tables.READ_ROWS", 7)
    for moved in ({k: v[order] for k, v in data.items()}, pd.DataFrame(data), [pd.DataFrame(data)]):
        b = ReplayRun(plan.guarantee.steps, 0, a.drawn)
        staged(plan, moved, b)
        assert a.drawn[STEP].distance(b.drawn[STEP]) == 0.0


def test_a_value_of_one_row_passes_no_more_often_than_is_charged():
    """3000 seeded runs, delta_t = .1: the rate is within 4.5 errors of it (1e-5 of a false alarm)."""
    n, runs, delta = 24, 3000, 0.4
    data = table(n, ("alone", "alone", "alone"))
    plan = plan_of(n, delta=delta)
    noise = SeededNoise(5)
    passed = 0
    for _ in range(runs):
        out = staged(plan, data, Run(plan.guarantee.steps, noise))
        passed += any("alone" in values for values in out.values())
    rate, error = passed / runs, math.sqrt(0.1 * 0.9 / runs)
    assert abs(rate - 0.25 * delta) < 4.5 * error
    with pytest.raises(PrivacyBugError, match="too often"):  # the threshold of one column
        single = threshold(plan.sd, 0.25 * delta, 1)
        staged(LevelsPlan(**{**vars(plan), "tau": single}), data, Run(plan.guarantee.steps, noise))


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_noise_at_half_its_scale_would_be_caught(factor, monkeypatch):
    """Twelve rows move from u to v in three columns: the distance of the tables in noise is known.

    400 seeded runs a table; the charge is kept if the measured distance is at most 1.25 of it. By
    honest noise it is exceeded with probability below 1e-3, by half the noise missed below 1e-9.
    """
    n, runs, jump = 900, 400, 12
    plan = plan_of(n, 0.2, 1e-3)
    honest = plan.guarantee.steps[0]
    mu = factor * honest.mechanism.mu
    if factor > 1.0:
        monkeypatch.setattr("dpmodels.sums.ask.stability_threshold", lambda *given: 0.0)
    steps = (Step(STEP, Gaussian(mu), share=1.0, failure=honest.failure),)
    means, spread = [], []
    for k, value in enumerate("uv"):
        data = table(n, (value,) * 3)
        for name in COLUMNS:
            data[name][-jump:] = value
        noise = SeededNoise(11 + k)
        totals = []
        for _ in range(runs):
            out = staged(plan, data, Run(steps, noise))
            totals.append(sum(v.get("u", 0.0) - v.get("v", 0.0) for v in out.values()))
        means.append(np.mean(totals))
        spread.append(np.std(totals))
    distance = (means[0] - means[1]) / np.mean(spread)
    assert (distance < 1.25 * jump * honest.mechanism.mu) == (factor == 1.0)


def test_what_the_fit_of_found_levels_is():
    rng = np.random.default_rng(3)
    n = 4000
    region = rng.choice(["north", "North ", "south", "village"], n, p=[0.4, 0.2, 0.397, 0.003])
    y = np.where(np.char.strip(region) == "south", 0.8, 0.2) + rng.normal(0, 0.05, n)
    data = pd.DataFrame({"y": y, "region": region, "code": rng.integers(1, 4, n)})
    budget = dp.Budget(eps=3, delta=1e-5)
    levels = dp.dp_levels(["region", "code"], data, eps=0.5, delta=1e-6, other="other", budget=budget, seed=1)
    assert levels["region"].levels == ("north", "south", "other")
    assert set(levels["code"].levels) == {"1", "2", "3", "other"}
    assert len(budget.charges) == 1 and "A value is released" in str(levels)
    schema = dp.Schema(y=dp.Real(0, 1)).update(levels)
    fit = dp.dp_ols("y ~ region + code", data, eps=2, delta=1e-6, schema=schema, budget=budget, seed=1)
    assert fit.params["region[T.south]"] == pytest.approx(0.6, abs=0.1)
    with pytest.raises(BudgetExceededError):
        dp.dp_levels("region", data, eps=3, delta=1e-6, budget=budget)


def test_thresholds_are_those_of_the_specification():
    for eps, k, rows in ((0.2, 1, 168), (0.2, 3, 300), (0.5, 1, 71), (0.5, 3, 126)):
        plan = LevelsPlan.of(COLUMNS[:k], ((),) * k, 10_000, eps, 1e-7)
        assert plan.tau == pytest.approx(rows, abs=1.5)
    with pytest.warns(UtilityWarning) as said:
        dp.dp_levels("g", {"g": ["a"] * 100}, eps=0.2, delta=1e-7)
    assert "168 rows" in str(said[0].message) and "fewer than two levels" in str(said[1].message)


def test_values_by_themselves():
    cells = [" a ", "", None, "NA", 1, 1.0, 1.5, True, float("nan"), [1], "9", 9]
    want = ["a", None, None, None, "1", "1", "1.5", "True", None, None, None, None]
    assert texts_of(cells, ("9",)) == want
    assert [texts_of([cell], ("9",))[0] for cell in cells] == want
    assert merged({"Yes": 90.0, "yes": 200.0, "no": 50.0}) == {"yes": 290.0, "no": 50.0}


def test_another_spelling_of_a_missing_code_is_no_level():
    data = {"g": ["a"] * 900 + ["b"] * 900 + ["9"] * 400 + ["9.0"] * 400}
    found_levels = dp.dp_levels("g", data, eps=2, delta=1e-6, missing=[9], seed=1)
    assert set(found_levels["g"].levels) == {"a", "b"}


BAD = [
    ({"columns": []}, "different columns"), ({"columns": ["g", "g"]}, "different columns"), ({"columns": "h"}, "no column"),
    ({"delta": 0.0}, "delta"), ({"unit": "who"}, "no column"), ({"units": 3}, "unit="),
    ({"columns": "id", "unit": "id"}, "no levels"),
    ({"columns": "when"}, "date"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), BAD)
def test_what_is_refused_before_the_charge(given, said):
    data = pd.DataFrame({"g": ["a"] * 9, "id": range(9), "when": pd.Timestamp("2020-01-01")})
    budget = dp.Budget(eps=1, delta=1e-5)
    with pytest.raises((RequestError, ValueError), match=said):
        dp.dp_levels(**{"columns": "g", "data": data, "eps": 0.5, "delta": 1e-6, "budget": budget, **given})
    assert not len(budget.charges)


def test_a_table_of_people_asks_for_its_unit():
    visits = {"id": [1, 1, 2], "g": ["a", "a", "b"]}
    with pytest.raises(RequestError, match="unit"):
        dp.dp_levels("g", dp.per_person(visits, "id", g=("first", "g")), eps=0.5, delta=1e-6)


# -- people: 1/sqrt t for each of t values, at most 16

N_PEOPLE = 40
HOSTILE = [
    ["u"], ["u"] * 300, ["alone"], [None], ["alone", "u", "v", "w"],
    [f"own {j}" for j in range(5)], [f"own {j}" for j in range(16)],
    [f"own {j}" for j in range(1000)], [f"own {j}" for j in range(20)] + ["u"] * 50,
    ["v", "w", None, "v"], [f"other {j}" for j in range(16)], [1, 2.5, True, "", "NA", [1]],
]  # fmt: skip


def visits(last):
    """Rows of people in no order; the last person has the cells of ``last`` in every column."""
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(N_PEOPLE - 1), 1 + np.arange(N_PEOPLE - 1) % 3)
    cells = rng.choice(["u", "v", "w"], len(who)).astype(object)
    ids = np.concatenate([who, np.full(len(last), N_PEOPLE - 1)]).astype(float)
    order = rng.permutation(len(ids))
    held = np.empty(len(ids), dtype=object)
    held[:] = [*cells, *last]
    return {"id": np.append(ids[order], np.nan),  # the last row is nobody's
            **{name: np.append(held[order], np.array(["u"], dtype=object)) for name in COLUMNS}}  # fmt: skip


def plan_of_people(eps=1.0, delta=1e-3, columns=COLUMNS):
    person = Person("id", N_PEOPLE)
    return LevelsPlan.of(columns, ((),) * len(columns), N_PEOPLE, eps, delta, person=person)


def staged_people(plan, data, run):
    rows = PeopleRows(as_source(data), N_PEOPLE, Person("id", N_PEOPLE))
    return release_levels(plan, Ask(rows, run, "replace"))


def test_no_person_moves_the_counts_by_more_than_is_charged():
    """Replay: all pairs of hostile people of 1 to 1000 rows; sqrt(2 k) is attained."""
    plan, ratios = plan_of_people(), []
    for one in HOSTILE:
        a = ReplayRun(plan.guarantee.steps, 0)
        staged_people(plan, visits(one), a)
        for two in HOSTILE:
            b = ReplayRun(plan.guarantee.steps, 0, a.drawn)
            staged_people(plan, visits(two), b)
            draw = a.drawn[STEP]
            assert draw.sensitivity == pytest.approx(2.0**20 * math.sqrt(2 * len(COLUMNS)))
            ratios.append(draw.distance(b.drawn[STEP]) / draw.sensitivity)
    assert 0.999 < max(ratios) <= 1.0 + 1e-9


def test_what_a_person_adds_has_length_one():
    for t in (1, 2, 3, 7, 15, 16, 17, 400):
        own, mass = shares_of_values(range(t, 0, -1), 16)
        assert len(own) == min(t, 16) and own == sorted(own)
        assert len(own) * mass**2 <= 2**40 < (len(own) * (mass + 1) ** 2)
        assert shares_of_values([*range(1, t + 1)] * 3, 16) == (own, mass)


@pytest.mark.parametrize("values", [1, 2, 16, 60])
def test_values_of_one_person_pass_no_more_often_than_is_charged(values):
    """2000 seeded runs, delta_t = .1: the rate is at most 4.5 errors above it (3e-6 a case).

    Where one of the t of the maximum decides it is also reached: 1 value at this noise.
    """
    runs, delta = 2000, 0.4
    plan = plan_of_people(delta=delta, columns=COLUMNS[:1])
    data = {k: v for k, v in visits([f"own {j}" for j in range(values)]).items()
            if k in ("id", "a")}  # fmt: skip
    noise, passed = SeededNoise(7), 0
    for _ in range(runs):
        out = staged_people(plan, data, Run(plan.guarantee.steps, noise))
        passed += any(value.startswith("own") for value in out["a"])
    error = math.sqrt(0.1 * 0.9 / runs)
    assert passed / runs <= 0.25 * delta + 4.5 * error


def test_the_threshold_of_rows_is_refused_for_people():
    """It passes 16 values of one person more often than is charged: 2000 seeded runs."""
    delta, runs = 0.4, 2000
    plan = plan_of_people(delta=delta, columns=COLUMNS[:1])
    of_rows = threshold(plan.sd, 0.25 * delta, 1)
    assert of_rows < plan.tau
    draws = np.random.default_rng(9).normal(0.25, plan.sd, (runs, 16))
    assert np.mean([max(d) > of_rows for d in draws]) > 2 * 0.25 * delta
    with pytest.raises(PrivacyBugError, match="too often"):
        staged_people(LevelsPlan(**{**vars(plan), "tau": of_rows}), visits(["u"]),
                      Run(plan.guarantee.steps, SeededNoise(1)))  # fmt: skip


def test_people_noise_at_half_its_scale_would_be_caught():
    """Sds of 300 seeded counts of a value of all others: within 25 % of the plan's.

    An sd of 300 normal draws is off by 25 % (6 sds) with probability below 1e-8; half the noise is
    off by 50 %.
    """
    plan = plan_of_people(8.0, 1e-2, COLUMNS[:1])
    data = {k: v for k, v in visits(["u"]).items() if k in ("id", "a")}
    data["a"] = np.array(["u"] * len(data["a"]), dtype=object)
    noise, counts = SeededNoise(3), []
    for _ in range(300):
        counts.append(staged_people(plan, data, Run(plan.guarantee.steps, noise))["a"]["u"])
    assert np.std(counts) == pytest.approx(plan.sd, rel=0.25)
    assert np.mean(counts) == pytest.approx(N_PEOPLE, abs=6 * plan.sd / math.sqrt(300))


def test_thresholds_of_people_are_a_maximum_over_their_values():
    for eps, k in ((0.2, 1), (0.5, 3), (5.0, 1)):
        plan = LevelsPlan.of(COLUMNS[:k], ((),) * k, 10_000, eps, 1e-6, person=Person("id"))
        z = [1 / math.sqrt(t) + plan.sd * ndtri((1 - 0.25e-6) ** (1 / (k * t)))
             for t in range(1, 17)]  # fmt: skip
        assert plan.tau == pytest.approx(max(z), rel=1e-4)
        rows = LevelsPlan.of(COLUMNS[:k], ((),) * k, 10_000, eps, 1e-6)
        assert plan.sd == pytest.approx(rows.sd) and plan.tau >= rows.tau


def test_levels_of_people_in_a_call_and_alone():
    rng = np.random.default_rng(3)
    people = 3000
    who = np.repeat(np.arange(people), 3)
    region = rng.choice(["north", "south", "village"], people, p=[0.6, 0.398, 0.002])[who]
    y = np.where(region == "south", 0.8, 0.2) + rng.normal(0, 0.05, len(who))
    data = pd.DataFrame({"y": y, "region": region, "id": who})
    budget = dp.Budget(eps=3, delta=1e-5, unit="id")
    alone = dp.dp_levels("region", data, eps=0.5, delta=1e-6, unit="id", budget=budget, seed=1)
    assert alone["region"].levels == ("north", "south") and "people (noisy)" in str(alone)
    assert alone.counts["region"]["north"] == pytest.approx(1800, abs=150)
    schema = dp.Schema(y=dp.Real(0, 1), region=dp.Levels(other="elsewhere"))
    fit = dp.dp_ols("y ~ region", data, eps=2, delta=1e-6, schema=schema, budget=budget, seed=1,
                    unit="id")  # fmt: skip
    assert fit.design.schema["region"].levels == ("north", "south", "elsewhere")
    pairs = [(c.guarantee.eps, c.guarantee.delta) for c in budget.charges]
    assert len(pairs) == 3 and np.allclose(np.sum(pairs[1:], axis=0), [2, 1e-6])
    assert {c.guarantee.unit for c in budget.charges} == {"one person (column id)"}


def test_a_plan_says_how_many_rows_or_people_a_level_needs():
    schema = dp.Schema(y=dp.Real(0, 1), region=dp.Levels())
    for unit, word in ((None, "rows"), ("id", "people")):
        plan = dp.plan("y ~ region", schema, n=5000, eps=2, delta=1e-6, unit=unit)
        paid = LevelsPlan.of(("region",), ((),), 5000, 0.4, 0.25e-6,
                             person=None if unit is None else Person("id"))  # fmt: skip
        assert f"about {paid.tau:.0f} {word} to be found" in plan.advice[0]
        assert plan.guarantee.eps == pytest.approx(1.6)


def test_levels_that_a_call_buys():
    """dp.Levels() without a list: two charges that add up to the call's, and the levels in the fit."""
    rng = np.random.default_rng(3)
    n = 6000
    region = rng.choice(["north", "North ", "south", "village"], n, p=[0.4, 0.2, 0.397, 0.003])
    y = np.where(np.char.strip(region) == "south", 0.8, 0.2) + rng.normal(0, 0.05, n)
    data = pd.DataFrame({"y": y, "region": region, "id": np.arange(n)})
    schema = dp.Schema(y=dp.Real(0, 1), region=dp.Levels(other="elsewhere"), free=dp.Levels())
    budget = dp.Budget(eps=3, delta=1e-5)
    fit = dp.dp_ols("y ~ region", data, eps=2, delta=1e-6, schema=schema, budget=budget, seed=1)
    assert fit.design.schema["region"].levels == ("north", "south", "elsewhere")
    assert fit.params["region[T.south]"] == pytest.approx(0.6, abs=0.1)
    pairs = [(c.guarantee.eps, c.guarantee.delta) for c in budget.charges]
    assert len(pairs) == 2 and np.allclose(np.sum(pairs, axis=0), [2, 1e-6])
    assert "separate charge" in " ".join(map(str, fit.privacy.notes))
    plain = dp.Schema(y=dp.Real(0, 1), region=dp.Levels())
    for call, said in (
        (lambda b: dp.dp_ols("y ~ region", data, eps=2, delta=1e-6, schema=plain, budget=b, vcov="no"), "vcov"),
        (lambda b: dp.dp_table("~ region", data, eps=2, delta=1e-6, schema=plain, budget=b,
                               relation="add-remove"), "replace"),
    ):  # fmt: skip
        budget = dp.Budget(eps=3, delta=1e-5)
        with pytest.raises((RequestError, ValueError), match=said):
            call(budget)
        assert not len(budget.charges)
    assert dp.Schema.from_toml(plain.to_toml()) == plain and "to be estimated" in str(plain)


def test_a_call_whose_found_levels_hold_few_rows_stops_and_says_how_many():
    """The released counts serve the fit: 5 % of the rows have a level, and the rest is not charged."""
    rng = np.random.default_rng(4)
    n = 20_000
    names = np.array([f"village {i}" for i in range(n)], dtype=object)
    names[:1000] = np.resize(["north", "south"], 1000)
    data = pd.DataFrame({"y": rng.uniform(0, 1, n), "region": names})
    budget = dp.Budget(eps=3, delta=1e-5)
    call = {"eps": 2, "delta": 1e-6, "budget": budget, "seed": 1}
    with pytest.raises(RequestError, match=r"cover about 5% of the rows.*other='other'"):
        dp.dp_ols("y ~ region", data, schema=dp.Schema(y=dp.Real(0, 1), region=dp.Levels()), **call)
    assert [c.guarantee.eps for c in budget.charges] == [0.4]
    kept = dp.Schema(y=dp.Real(0, 1), region=dp.Levels(other="village"))
    fit = dp.dp_ols("y ~ region", data, schema=kept, eps=2, delta=1e-6, seed=1)
    assert "at least about 100% of the rows" in " ".join(map(str, fit.privacy.notes))
