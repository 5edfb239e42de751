"""The look before a fit: how often it stops, whom it blames, and what a stop leaves."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError, StoppedError, StoppedWarning
from dpmodels.formula.build import build_design
from dpmodels.privacy.budget import Budget
from dpmodels.privacy.mechanisms import eps_gdp, mu_gdp
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import Box
from dpmodels.proof.statistics import Sum
from dpmodels.scoring.usable import Look, Presence
from tests.one_pass import added, asked

CALL = {"eps": 1.0, "delta": 1e-6}


def schema(*levels, **more):
    return dp.Schema(x=dp.Real(0, 10), y=dp.Real(-5, 15), s=dp.Levels(list(levels)), **more)


def counted(variables, blocks):
    """Return the counts of complete units, or (for variables) of units that have each of these."""
    look = Look(100, 1.0, 0.1, 50.0, tuple(variables) or ("x",))
    complete, present = asked(look.ask(build_design("y ~ x", schema("a", "b")), "last", "replace"))
    return added(present if variables else complete, blocks) // 2**20


def table(n=20_000, seed=1):  # a stop is sure: the threshold is ten sds of the count
    rng = np.random.default_rng(seed)
    s, x = rng.choice(["oui", "non"], n), rng.uniform(0, 10, n)
    y = np.clip(x + (s == "oui") + rng.normal(0, 1, n), -5, 15)
    return pd.DataFrame({"x": x, "s": s, "y": y, "z": y > 5})


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize(
    ("eps", "n", "share", "sd", "k", "quarter"),
    [
        (1.0, 500, 0.01, 42, 127, 0.516), (1.0, 2000, 0.0040, 67, 200, 0.0),
        (1.0, 6000, 0.0005, 189, 600, 0.0), (0.5, 1000, 0.01, 81, 242, 0.459),
        (3.0, 300, 0.01, 15, 46, 0.032),
    ],
)  # fmt: skip
def test_sizes(eps, n, share, sd, k, quarter):
    """Share, noise and threshold are those of the specification's table."""
    plan = dp.plan("y ~ x + s", schema("a", "b"), n=n, eps=eps, delta=1e-6, stop=True, scoring=True)
    look = plan.detail.look
    assert look.share == pytest.approx(share, rel=0.02) and look.sd == pytest.approx(sd, abs=0.6)
    assert look.stop_below == pytest.approx(k, abs=1)
    assert phi((look.stop_below - 0.25 * n) / look.sd) == pytest.approx(quarter, abs=0.03)
    assert phi(look.stop_below / look.sd) > 0.998
    assert look.share + look.blame.share <= 0.03
    assert plan.steps[0].name == "usable rows" and plan.steps[0].reply_test


def test_no_look_where_its_noise_would_hide_the_rows():
    for n, stop in ((300, True), (6000, False)):
        with_stop = dp.plan("y ~ x + s", schema("a", "b"), n=n, stop=stop, scoring=True, **CALL)
        without = dp.plan("y ~ x + s", schema("a", "b"), n=n, scoring=True, stop=False, **CALL)
        assert with_stop.detail.look is None and with_stop.steps == without.steps


@pytest.mark.parametrize("verb", ["dp_ols", "dp_glm", "dp_quantreg", "dp_mest"])
def test_a_misspelt_factor_stops_the_call_and_is_named(verb):
    """At most 1 % of mu^2 is spent, and the corrected call fits in 1.01 times its mu^2."""
    mu = mu_gdp(1.0, 1e-6)
    budget = Budget(eps_gdp(mu * math.sqrt(1.01), 1e-6), 1e-6, rule="caps", cap_eps=0, cap_delta=0)
    other = {"loss": "huber"} if verb == "dp_mest" else {}
    formula, more = ("z ~ x + s", {"z": dp.Binary()}) if verb == "dp_glm" else ("y ~ x + s", {})
    with pytest.warns(StoppedWarning, match="% of mu.2 went back"):
        fit = getattr(dp, verb)(
            formula, table(), schema=schema("no", "yes", **more), budget=budget, stop=True,
            **other, **CALL,
        )  # fmt: skip
    (charge,) = budget.charges
    assert not fit.released and fit._record.why == "rows"
    assert charge.kept.mu2 <= 0.01 * charge.entry.mu2
    text = " ".join(str(fit.summary()).split())
    assert re.search(r"s: about \d % of the values are declared levels", text)
    assert "'no', 'yes'" in text and "stop=False" in text
    assert re.search(r"x: about (100|9\d) % of the values are usable", text)
    assert fit.ledger.notes["usable rows"] == "NO REPLY"
    corrected = getattr(dp, verb)(
        formula, table(), schema=schema("non", "oui", **more), budget=budget, stop=True,
        **other, **CALL,
    )  # fmt: skip
    assert corrected.released and len(budget.charges) == 2


def test_sums_of_pairs_give_eps_back(quiet):
    budget = Budget(1.5, 3e-6, accounting="sums")
    given = {"schema": schema("no", "yes"), "stop": True, "budget": budget, **CALL}
    dp.dp_ols("y ~ x + s", table(), **given)
    assert budget.charges[0].kept.eps == pytest.approx(0.09, abs=0.02)
    assert budget.charges[0].kept.delta == 1e-6
    with pytest.raises(StoppedError, match="too few rows are usable"):
        dp.dp_ols("y ~ x + s", table(), on_no_reply="raise", **given)


def test_several_faults_bought_ranges_and_subsets(quiet):
    frame = table().assign(t=lambda d: d["s"].str.upper())
    more = {"t": dp.Levels(["yes", "no"])}
    fit = dp.dp_ols("y ~ x + s + t", frame, schema=schema("no", "yes", **more), stop=True, **CALL)
    text = " ".join(str(fit.summary()).split())
    assert re.search(r"s: about \d % of the values are declared", text)
    assert re.search(r"t: about \d % of the values are declared", text)
    bought = dp.Schema(x=dp.Real(), y=dp.Real(), s=dp.Levels(["no", "yes"]))
    budget = Budget(2, 1e-5, accounting="gaussian")
    fit = dp.dp_ols("y ~ x + s", frame, schema=bought, stop=True, budget=budget, **CALL)
    assert fit._record.why == "rows" and budget.charges[0].kept.mu2 < 0.02 * budget.charges[0].entry.mu2
    assert budget.charges[0].kept.failure == 0.0
    fit = dp.dp_ols(
        "y ~ x + s", frame, schema=schema("non", "oui"), subset="x > 9", stop=True, **CALL
    )
    assert fit.released  # a tenth of the rows: three sds are enough


def test_stop_takes_a_share_and_is_refused_elsewhere(quiet):
    frame = table()
    frame.loc[: 5 * len(frame) // 10, "s"] = "?"  # half is usable
    given = {"schema": schema("non", "oui"), **CALL}
    assert dp.dp_ols("y ~ x + s", frame, stop=True, **given).released
    assert not dp.dp_ols("y ~ x + s", frame, stop=0.7, **given).released
    for wrong in (1.5, -1, "yes"):
        with pytest.raises(RequestError, match="stop"):
            dp.dp_ols("y ~ x + s", frame, stop=wrong, **given)
    with pytest.raises(RequestError, match="stop= needs a fit whose last estimate"):
        dp.dp_ols("y ~ x + s", frame, stop=True, scoring=False, **given)


def test_one_row_moves_the_counts_by_what_the_prover_says():
    """On rows with missing cells of every kind: 0 or 1 in all, each variable by one at most."""
    for many in (1, 4, 9):
        for relation in ("replace", "add-remove"):
            own = sensitivity(Sum(Box(many, low=0)), relation, "l2")
            assert own == pytest.approx(math.sqrt(many))
    rng = np.random.default_rng(3)
    names = tuple("abcd")
    cells = {
        "a": rng.choice([1.0, np.nan, np.inf, -1e300], 64), "b": rng.integers(-1, 3, 64),
        "c": rng.choice([0.0, np.nan], 64), "d": rng.integers(-1, 1, 64),
    }  # fmt: skip
    for k in (0, 1, 2):
        cells = {name: values.copy() for name, values in cells.items()}
        block = np.empty((k + 1, 64))
        Presence(names).fill(cells, block, (), ())
        each = counted("abcd", [block[:, :40], block[:, 40:]])
        there = [~np.isnan(v) if v.dtype.kind == "f" else v >= 0 for v in cells.values()]
        assert each.tolist() == [int(v.sum()) for v in there]
        one = counted("abcd", [block[:, :1]])
        assert set(one.tolist()) <= {0, 1}
    assert counted("", [np.array([[1.0, np.nan, 2.0], [1.0, 1.0, np.inf]])]).tolist() == [1]


@pytest.mark.parametrize("order", [1, -1])
def test_audit_of_stopped(quiet, order):
    """Neighbours at the threshold, both orders: the odds of "stopped" are within its (eps, 1e-9).

    And the count has the noise of its step: of 60 calls each with a count one sd below and above
    the threshold .84 and .16 stop (.98 and .02 at half the noise). False alarm below 1e-4 (a share
    is 3.9 sds from its bounds).
    """
    n = 500
    look = dp.plan(
        "y ~ x + s", schema("non", "oui"), n=n, stop=True, scoring=True, **CALL
    ).detail.look
    at = round(look.stop_below)
    p, q = (phi((look.stop_below - rows) / look.sd) for rows in (at, at + order))
    eps = eps_gdp(1.0 / look.sd, 1e-9)
    assert p <= math.exp(eps) * q + 1e-9 and 1 - p <= math.exp(eps) * (1 - q) + 1e-9
    frame, stops = table(n), []
    for sds in (-1, 1):
        rows = round(look.stop_below + sds * look.sd)
        data = frame.assign(s=np.where(np.arange(n) < rows, frame["s"], "?"))
        fits = [
            dp.dp_ols("y ~ x + s", data, schema=schema("non", "oui"), stop=True, scoring=True,
                      seed=100 * (order + 2) + i, **CALL)._record.why == "rows"
            for i in range(60)
        ]  # fmt: skip
        stops.append(np.mean(fits))
    assert 0.65 < stops[0] < 0.96 and 0.04 < stops[1] < 0.35


def people(n=12_000, seed=2):
    """Two rows of each person: follow-up, classes, and a misspelt factor."""
    rng = np.random.default_rng(seed)
    frame = table(2 * n, seed).assign(pid=np.repeat(np.arange(n), 2))
    t = rng.exponential(1.0, 2 * n)
    return frame.assign(t=np.minimum(t, 3.0), e=(t < 3.0).astype(int), k=rng.choice(list("abc"), 2 * n))


CALLS = {
    "ols": (dp.dp_ols, "y ~ x + s", {}),
    "cox": (dp.dp_coxph, "Surv(t, e) ~ x + s", {}),
    "polr": (dp.dp_polr, "k ~ x + s", {}),
    "multinom": (dp.dp_multinom, "k ~ x + s", {}),
    "feols": (dp.dp_feols, "y ~ x + s | pid", {}),
}


@pytest.mark.parametrize("unit", ["rows", "people"])
@pytest.mark.parametrize("name", list(CALLS))
def test_models_of_units_look_first_too(name, unit):
    """A stop is sure: the threshold is six sds of a count of nothing."""
    verb, formula, options = CALLS[name]
    if name == "feols" and unit == "rows":
        pytest.skip("its unit is a person")
    more = {"unit": "pid", "units": 12_000} if unit == "people" else {}
    declared = {"t": dp.Real(0, 3), "e": dp.Binary(), "k": dp.Ordered(list("abc"))}
    for levels, replied in ((("no", "yes"), False), (("non", "oui"), True)):
        budget = Budget(1.0, 1e-6, unit=more.get("unit", "record"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoppedWarning)
            fit = verb(
                formula, people(), schema=schema(*levels, **declared), budget=budget, **more,
                **options, **CALL,
            )  # fmt: skip
        assert fit.released == replied
        if not replied:
            (charge,) = budget.charges
            assert charge.kept.mu2 <= 0.02 * charge.entry.mu2
            assert f" {unit} are usable" in fit.notes[0] and fit.notes[1].startswith("s: about")


def test_a_person_counts_once():
    """Of a person any row that is usable: it moves the count, and each variable's, by one."""
    from dpmodels.sources.people import BlockOfPeople

    rows = np.array([[1.0, np.nan, 2.0, np.nan, np.nan, 3.0]])
    counts = np.array([3, 2, 1])
    block = BlockOfPeople(rows, np.array([0, 3, 5]), counts)
    assert counted("", [block]).tolist() == [2]
    bits = BlockOfPeople(np.array([[1.0, 3.0, 0.0, 2.0, 2.0, 0.0]]), np.array([0, 3, 5]), counts)
    assert counted("ab", [bits]).tolist() == [1, 2]
