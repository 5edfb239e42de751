"""Under add-remove the number of rows is private: no plan may depend on it, or be handed it."""

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import registry
from dpmodels.errors import DPModelsWarning, RequestError
from dpmodels.registry import methods, resolve

BOUNDS = {"a": (-1.0, 1.0), "b": (-2.0, 1.0), "y": (-3.0, 3.0)}
EVENTS = {"schema": dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-2, 1), y=dp.Levels(["no", "yes"]))}
#: Dummies alone: whether objective perturbation spends a step on centres was a rule of n.
FACTORS = {"schema": dp.Schema(g=dp.Levels(list("pqrst")), y=dp.Levels(["no", "yes"]))}
_AB = {"a": dp.Real(-1, 1), "b": dp.Real(-2, 1)}
ORDERED = {"schema": dp.Schema(**_AB, g=dp.Ordered(list("pqrst")))}
UNORDERED = {"schema": dp.Schema(**_AB, g=dp.Levels(list("pqrst")))}
COUNTED = {"schema": dp.Schema(**_AB, y=dp.Count(9))}
#: Verbs of one method, which they do not name.
ONE_METHOD = {"dp_pca", "dp_polr", "dp_multinom", "dp_feols", "dp_fepois"}
GUESS = {"n_guess": 3000}
USER = {
    "mechanism": lambda Z, *rest: [rest[-1].normals(1)[0]],
    "privacy_loss": lambda Z: 0.01,
    "sensitivity": 0.2,
    "size": 1,
}
CALLS = {
    ("dp_ols", "ssp"): ("y ~ a + b", GUESS),
    ("dp_ols", "pmt"): (
        "y ~ a + b", {**GUESS, "public": {"moments": np.diag([1.0, 0.3, 0.6, 0.4]), "m": 50}},
    ),
    ("dp_ols", "adassp"): ("y ~ a + b", {}),
    ("dp_ols", "dpgd"): ("y ~ a + b", {**GUESS, "iterations": 2}),
    ("dp_ols", "gptr"): ("y ~ a + b", {}),
    ("dp_ols", "adaops"): ("y ~ a + b", {}),
    ("dp_glm", "scoring"): ("y ~ a + b", {**GUESS, **EVENTS}),
    ("dp_glm", "objpert"): ("y ~ g", FACTORS),
    ("dp_glm", "gptr"): ("y ~ a + b", EVENTS),
    ("dp_quantreg", "scoring"): ("y ~ a + b", GUESS),
    ("dp_mest", "scoring"): ("y ~ a + b", {**GUESS, "loss": "huber"}),
    ("dp_polr", "scoring"): ("g ~ a + b", {**GUESS, **ORDERED}),
    ("dp_multinom", "scoring"): ("g ~ a + b", {**GUESS, **UNORDERED}),
    ("dp_feols", "scoring"): ("y ~ a + b | id", {**GUESS, "unit": "id"}),
    ("dp_fepois", "scoring"): ("y ~ a + b | id", {**GUESS, **COUNTED, "unit": "id"}),
    ("dp_moments", "ssp"): ("a + b + y ~ 1", GUESS),
    ("dp_moments", "joint"): ("a + b + y ~ 1", GUESS),
    ("dp_moments", "pmt"): (
        "a + b ~ 1", {**GUESS, "public": {"moments": np.diag([0.3, 0.6, 1.0]), "m": 50}},
    ),
    ("dp_pca", "gptr"): ("a + b + y ~ 1", {}),
    ("dp_gptr", "propose"): ("a ~ 1", USER),
    ("dp_gptr", "choose"): ("a ~ 1", {**USER, "choose": lambda bound, eps, delta: 1.0}),
}  # fmt: skip
#: Counts that public rules told apart: near noise levels, stages, what memory holds; and no row.
COUNTS = (0, 1, 5174, 5175, 10**7)


def arguments(verb, method):
    formula, options = CALLS[verb, method]
    given = {} if "schema" in options else {"bounds": BOUNDS}
    return formula, {**given, **options, "relation": "add-remove", "eps": 1.0, "delta": 1e-6}


def table(n, event):
    rng = np.random.default_rng(n)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-2, 1, n)})
    frame["g"] = np.array(list("pqrst"), dtype=object)[rng.integers(0, 5, n)]
    frame["id"] = np.arange(n) // 2
    frame["y"] = np.where(frame.a > 0, "yes", "no").astype(object) if event else 2.0 * frame.a
    return frame


def told(plan):
    """Everything that a plan says and decides, as text."""
    facts = (plan.n, plan.steps, plan.guarantee, dict(plan.shares), dict(plan.scales), plan.detail,
             dict(plan.expected_se), plan.reasons, plan.advice, plan.passes,
             plan.backend)  # fmt: skip
    return repr(facts), str(plan)


def test_every_method_with_a_proof_for_add_remove_is_here():
    frame = methods()
    listed = frame[["add-remove" in r for r in frame["relations"]]]
    assert set(zip(listed["verb"], listed["method"], strict=True)) == set(CALLS)


@pytest.mark.parametrize(("verb", "method"), CALLS)
def test_a_plan_is_the_same_whatever_the_count(verb, method):
    formula, given = arguments(verb, method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        plans = [dp.plan(formula, verb=verb, method=method, n=max(n, 1), **given) for n in COUNTS]
    assert len({told(plan) for plan in plans}) == 1
    assert plans[0].n is None


@pytest.mark.parametrize(("verb", "method"), CALLS)
def test_a_fit_hands_its_planner_no_count(verb, method, monkeypatch):
    """Whole calls, an empty table among them: what the planner gets, what the ledger is told."""
    formula, given = arguments(verb, method)
    entry, handed = resolve(verb, method), []

    def watched(holder):
        def plan(request, design, n):
            handed.append(n)
            return holder.backend.plan(request, design, n)

        return replace(holder, backend=replace(holder.backend, plan=plan))

    changed = replace(watched(entry), endings=tuple(map(watched, entry.endings)))
    monkeypatch.setitem(registry._REGISTRY, (verb, method), changed)
    charged, call = set(), getattr(dp, verb)
    taken = inspect.signature(call).parameters
    given["formula" if "formula" in taken else "columns"] = formula
    if verb not in ONE_METHOD:
        given["test" if "test" in taken else "method"] = method
    event = "schema" in given and given["schema"] is not COUNTED["schema"]
    for n in (0, 1, 200):
        budget = dp.Budget(eps=10.0, delta=1e-3, unit=given.get("unit", "record"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            call(data=table(n, event), budget=budget, seed=1, **given)
        charged.add(repr(budget.charges[0].guarantee))
    assert handed and set(handed) == {None}
    assert len(charged) == 1


def test_without_a_guess_the_call_says_what_to_type():
    _, given = arguments("dp_ols", "ssp")
    del given["n_guess"]
    with pytest.raises(RequestError, match="n_guess=10000"):
        dp.dp_ols("y ~ a + b", table(20, False), **given)
