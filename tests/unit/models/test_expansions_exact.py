"""Local expansions without noise: iterated to their root they are the models of other packages."""

import itertools
import os
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models import choice, panel
from dpmodels.models.choice import CategoryModel
from dpmodels.models.panel import FixedPoisson, without_constant
from dpmodels.models.survival import cox
from dpmodels.models.survival.hazard import Hazard, Timeline
from dpmodels.scoring.coordinates import in_order
from dpmodels.scoring.models import Beginning, LeastSquares
from dpmodels.scoring.unit_passes import Regression
from dpmodels.sources.people import BlockOfPeople
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from tests.one_pass import expanded, units_of

DATA = Path(os.environ.get("DPMODELS_DATA", Path(__file__).parents[4] / "shared" / "data"))
BETA = np.array([0.5, -0.4, 0.3])


def planned(verb, formula, schema, n, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.plan(formula, dp.Schema(**schema), n=n, eps=1, delta=1e-6, verb=verb, **more)


def block_of(plan, frame, who=None):
    """The rows of a frame as units: each by itself, or people in order."""
    blocks = [b.copy() for b in Rows(as_source(frame), len(frame)).blocks(plan.design)]
    rows = np.hstack(blocks)
    if who is None:
        return units_of(rows)
    counts = np.bincount(who)
    return BlockOfPeople(rows, np.cumsum(counts) - counts, counts)


def root(model, block, theta, steps=40):
    """Newton's method on the exact sums of an expansion: (theta, information)."""
    state = replace(Beginning(None, len(theta), None).state(theta), W=np.eye(len(theta)))
    H = np.eye(len(theta))
    for _ in range(steps):
        found = expanded(model.at(state), block)
        v = found.information
        H = v @ v.T
        d = np.sqrt(state.phi) * np.linalg.solve(H, found.score.sum(axis=1))
        state = replace(state, theta=model.constrained(state.theta + d))
    assert np.abs(d).max() < 1e-9
    return state.theta, H


def coordinates_of(plan):
    return in_order(plan.detail.coordinates(plan.design))


# -- choices -----------------------------------------------------------------------------------
def classes_of(verb, levels, frame, schema, **more):
    """Coefficients at the root, in the user's units."""
    kind = dp.Ordered(levels) if verb == "dp_polr" else dp.Levels(levels)
    right = " + ".join(schema)
    plan = planned(verb, f"q ~ {right}", {**schema, "q": kind}, len(frame), **more)
    c, classes = coordinates_of(plan), choice._classes(plan.request, plan.design)
    r = choice.ChoiceModel(classes).dimension(c.rank)
    start = np.zeros(r)
    if verb == "dp_polr":
        start[: len(levels) - 1] = np.linspace(-1, 1, len(levels) - 1)
    theta, _ = root(CategoryModel(classes, c, 0.1, start), block_of(plan, frame), start)
    A, a = choice._back(classes, SimpleNamespace(coordinates=c), None)
    return A @ theta + a


def drawn(n=3000, seed=4):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 2, n), rng.normal(size=n).clip(-3, 3)
    y = np.digitize(x - 0.5 * z + rng.logistic(size=n), [-1, 0.5, 2])
    return pd.DataFrame({"x": x, "z": z, "y": y, "q": np.array(list("abcd"))[y]})


BOX = {"x": (-1, 2), "z": (-3, 3)}


@pytest.mark.parametrize("method", ["logistic", "probit"])
def test_ordered_classes_are_those_of_orderedmodel(method):
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    d = drawn()
    found = classes_of("dp_polr", list("abcd"), d, BOX, method=method)
    model = ordinal.OrderedModel(
        d["y"].to_numpy(), d[["x", "z"]].to_numpy(),
        distr={"logistic": "logit", "probit": "probit"}[method],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops at the precision of floats
        own = model.fit(method="bfgs", disp=0, maxiter=500, gtol=1e-8).params
    cuts = model.transform_threshold_params(own[2:])[1:-1]
    np.testing.assert_allclose(found, [*own[:2], *cuts], atol=2e-6)


def test_classes_without_order_are_those_of_mnlogit():
    api = pytest.importorskip("statsmodels.api")
    d = drawn()
    found = classes_of("dp_multinom", list("abcd"), d, BOX)
    X = np.column_stack([np.ones(len(d)), d[["x", "z"]].to_numpy()])
    own = api.MNLogit(d["y"].to_numpy(), X).fit(disp=0, method="newton", tol=1e-12).params
    np.testing.assert_allclose(found, own.T.ravel(), atol=1e-6)


@pytest.mark.skipif(not (DATA / "winequality.csv.gz").exists(), reason="no DPMODELS_DATA")
def test_the_wines_of_the_specification():
    wine = pd.read_csv(DATA / "winequality.csv.gz")
    d = pd.DataFrame({
        "a": (wine["alcohol"] - 11.5) / 2, "v": (wine["volatile_acidity"] - 0.8) / 0.4,
        "p": (wine["pH"] - 3.3) / 0.3,
    })  # fmt: skip
    box = {"a": (-2, 2), "v": (-2, 2), "p": (-2.5, 3)}
    four = d.assign(q=np.array(list("abcd"))[np.digitize(wine["quality"], [5, 6, 7])])
    found = classes_of("dp_polr", list("abcd"), four, box)
    np.testing.assert_allclose(found, [1.6664, -1.4408, 0.1764, -3.0562, 0.0336, 2.5530], atol=1e-4)
    three = d.assign(q=np.array(list("abc"))[np.digitize(wine["quality"], [6, 7])])
    found = classes_of("dp_multinom", list("abc"), three, box)
    told = [-0.3857, 1.4210, -1.3599, 0.1510, -2.0805, 2.7270, -2.3593, 0.2874]
    np.testing.assert_allclose(found, told, atol=6e-5)


# -- panels ------------------------------------------------------------------------------------
def people(seed=3, n=300):
    rng = np.random.default_rng(seed)
    T = 1 + rng.poisson(2, n)
    who = np.repeat(np.arange(n), T)
    a = rng.normal(size=n)[who]
    x, z = 0.5 * a + rng.normal(size=len(who)), rng.uniform(-1, 1, len(who))
    d = pd.DataFrame({"id": who, "x": x.clip(-4, 4), "z": z})
    d["y"] = (0.4 * d["x"] - 0.3 * z + a + rng.normal(size=len(who))).clip(-9, 9)
    d["c"] = rng.poisson(np.exp(0.3 * d["x"] - 0.2 * z + 0.4 * a)).clip(max=60) * 1.0
    return d


def effects_of(verb, y, schema, model):
    d = people()
    plan = planned(verb, f"{y} ~ x + z | id", schema, 300, unit="id", rows_per_unit=3)
    c = without_constant(coordinates_of(plan))
    theta, _ = root(model(c), block_of(plan, d, d["id"].to_numpy()), np.zeros(c.rank))
    chain = SimpleNamespace(model=SimpleNamespace(coordinates=c))
    A, a = panel._back(None, chain)
    return d, A @ theta + a


SIDES = {"x": (-4, 4), "z": (-1, 1)}


def test_effects_of_people_are_dummies():
    d, found = effects_of(
        "dp_feols", "y", {**SIDES, "y": (-9, 9)}, lambda c: Regression(LeastSquares(), c, demean=True)
    )
    X = np.column_stack([d[["x", "z"]].to_numpy(), pd.get_dummies(d["id"]).to_numpy(float)])
    own = np.linalg.lstsq(X, d["y"].to_numpy(), rcond=None)[0][:2]
    np.testing.assert_allclose(found, own, atol=1e-9)


def test_effects_of_people_are_panelols():
    linearmodels = pytest.importorskip("linearmodels.panel")
    d, found = effects_of(
        "dp_feols", "y", {**SIDES, "y": (-9, 9)}, lambda c: Regression(LeastSquares(), c, demean=True)
    )
    d["t"] = d.groupby("id").cumcount()
    d = d.set_index(["id", "t"])
    own = linearmodels.PanelOLS(d["y"], d[["x", "z"]], entity_effects=True).fit()
    np.testing.assert_allclose(found, own.params.to_numpy(), atol=1e-9)


def test_effects_of_counts_are_dummies():
    api = pytest.importorskip("statsmodels.api")
    d, found = effects_of(
        "dp_fepois", "c", {**SIDES, "c": dp.Count(60)}, lambda c: FixedPoisson(c, 3.0)
    )
    some = d[d.groupby("id")["c"].transform("sum") > 0]
    X = np.column_stack([some[["x", "z"]].to_numpy(), pd.get_dummies(some["id"]).to_numpy(float)])
    own = api.GLM(some["c"].to_numpy(), X, family=api.families.Poisson()).fit(tol=1e-12)
    np.testing.assert_allclose(found, own.params[:2], atol=1e-6)


def test_weights_of_counts_see_no_count():
    """What a person counts is of its predictors and rows; scores of other counts, the same weight."""
    d = people()
    schema = {**SIDES, "c": dp.Count(60)}
    plan = planned("dp_fepois", "c ~ x + z | id", schema, 300, unit="id", rows_per_unit=3)
    c = without_constant(coordinates_of(plan))
    state = Beginning(None, c.rank, None).state(np.array([0.3, -0.2]))
    state = replace(state, M=np.diag([0.2, 0.3]))
    seen = []
    for counts in (d["c"], 1.0 + (7.0 * d["c"]) % 11.0):
        block = block_of(plan, d.assign(c=counts), d["id"].to_numpy())
        plain, some = (expanded(FixedPoisson(c, 3.0, m).at(state), block) for m in (0.0, 1.3))
        size, kept = (np.abs(e.score).sum(axis=0) for e in (plain, some))
        own = (plain.information**2).sum(axis=0), (some.information**2).sum(axis=0)
        there = (size > 1e-9) & (own[0] > 1e-9)
        weight = np.where(there, kept / np.where(there, size, 1.0), np.nan)
        np.testing.assert_allclose(own[1][there], (weight * own[0])[there], rtol=1e-9)
        seen.append(weight)
    both = np.isfinite(seen[0]) & np.isfinite(seen[1])
    np.testing.assert_allclose(seen[0][both], seen[1][both], rtol=1e-9)
    assert both.sum() > 300 and seen[0][both].max() == pytest.approx(1.0)
    assert seen[0][both].min() < 0.7 and np.ptp(seen[0][both]) > 0.2


# -- hazards -----------------------------------------------------------------------------------
def cohort(n=10_000, seed=8, entry=False):
    rng = np.random.default_rng(seed)
    x = np.array(
        [rng.random(n) < 0.4, np.clip(rng.normal(size=n), -3, 3), rng.uniform(-1, 1, n)], float
    )
    g = rng.integers(0, 2, n)
    dies = 8.0 * (rng.exponential(size=n) / np.exp(BETA @ x + 0.5 * g)) ** (1 / 1.3)
    leaves = rng.uniform(2, 12, n)
    t, event = np.minimum(dies, leaves), (dies <= leaves) * 1.0
    d = pd.DataFrame({"t": t, "d": event, "g": g, "s": rng.uniform(0, 4, n) * entry})
    for j, own in enumerate(x, 1):
        d[f"x{j}"] = own
    return d[d["s"] < d["t"]].reset_index(drop=True)


def hazards_of(d, left, right, stratum=None, end=12, **more):
    """Coefficients at the root, the hazards those of exact counts of 13 cells."""
    schema = {"t": (0, end), "s": (0, end), "d": dp.Binary(), "g": dp.Levels([0, 1]),
              "x1": (0, 1), "x2": (-3, 3), "x3": (-1, 1), **more}  # fmt: skip
    plan = planned("dp_coxph", f"{left} ~ {right}", schema, len(d))
    edges = np.linspace(0, end, 14)
    code = np.zeros(len(d), int) if stratum is None else d[stratum].to_numpy()
    rates, events = [], []
    for s in range(code.max() + 1):
        own = d[code == s]
        at = np.clip(np.digitize(own["t"], edges) - 1, 0, 12)
        died = np.bincount(at, own["d"], minlength=13)
        lived = [
            np.clip(np.minimum(own["t"], b) - np.maximum(own["s"], a), 0, None).sum()
            for a, b in itertools.pairwise(edges)
        ]
        three = np.ones(3)
        rates.append(np.convolve(died, three, "same") / np.convolve(lived, three, "same"))
        events.append(died)
    c = coordinates_of(plan)
    line = Timeline(edges, np.array(rates), np.array(events, float))
    model = Hazard(c, plan.design.survival, line, float(d["d"].mean()), False)
    theta, H = root(model, block_of(plan, d), np.zeros(c.rank + 3 * len(rates) - 1))
    chain = SimpleNamespace(state=SimpleNamespace(theta=theta))
    A, a = cox._back(SimpleNamespace(coordinates=c), chain)
    return A @ theta + a, np.sqrt(np.diag(A @ np.linalg.inv(H) @ A.T))


@pytest.mark.parametrize("kind", ["plain", "strata", "entry"])
def test_hazards_are_those_of_cox(kind):
    """Within a sixth of a standard error (Efron): where in a cell an event happens is not used."""
    duration = pytest.importorskip("statsmodels.duration.hazard_regression")
    d = cohort(10_000, entry=kind == "entry")
    names = ["x1", "x2", "x3"]
    left = "Surv(s, t, d)" if kind == "entry" else "Surv(t, d)"
    right = " + ".join(names) + (" + strata(g)" if kind == "strata" else "")
    found, errors = hazards_of(d, left, right, "g" if kind == "strata" else None)
    more = {"strata": {"strata": d["g"].to_numpy()}, "entry": {"entry": d["s"].to_numpy()}}
    own = duration.PHReg(
        d["t"].to_numpy(), d[names].to_numpy(), status=d["d"].to_numpy(), ties="efron",
        **more.get(kind, {}),
    ).fit()  # fmt: skip
    assert np.max(np.abs(found - own.params) / own.bse) < 0.17
    np.testing.assert_allclose(errors, own.bse, rtol=0.02)


def test_hazards_of_rossi_are_those_of_lifelines():
    """432 men, 13 cells of four weeks: Cox by Efron, as lifelines prints it."""
    data = pytest.importorskip("lifelines.datasets").load_rossi()
    d = pd.DataFrame({"t": data["week"], "d": data["arrest"], "s": 0.0, "fin": data["fin"],
                      "age": data["age"], "prio": data["prio"]}, dtype=float)  # fmt: skip
    found, errors = hazards_of(
        d, "Surv(t, d)", "fin + age + prio", end=52, fin=(0, 1), age=(15, 50), prio=(0, 20)
    )
    own = np.array([-0.346954, -0.067105, 0.096893])
    assert np.max(np.abs(found - own) / errors) < 0.05
