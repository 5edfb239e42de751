"""Audits that nobody writes: the private stage of a method runs once, and its queries say the rest.

For each query that the stage asks: what hostile rows lay down is in its clip set, elements far from
each other are no farther apart than the prover says, and the drawn sd is that of the charge. A
method with a proof of its own has hand-written cases beside these (``register_case``).
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.audit.outcomes import Finding
from dpmodels.audit.queries import Asked, holds, noise_ratio, reach_ratio, recorded
from dpmodels.audit.replay import rows_for
from dpmodels.errors import DPModelsError
from dpmodels.exact.lemmas import Of
from dpmodels.exact.prove import rank_reach
from dpmodels.exact.statistics import Ranks
from dpmodels.quiet import quiet
from dpmodels.schema import Binary, Count, Levels, Ordered, Real, Schema

if TYPE_CHECKING:
    from dpmodels.planning import Plan

__all__ = ["derived", "derived_plans"]

_N = 60
_XY = Schema(a=Real(-1, 1), b=Real(-2, 1), y=Real(-3, 3))
_EVENT = Schema(a=Real(-1, 1), b=Real(-2, 1), y=Binary())
_CLASS = Schema(a=Real(-1, 1), b=Real(-2, 1), k=Levels(["u", "v"]))
_COUNT = Schema(a=Real(-1, 1), b=Real(-2, 1), y=Count(6))
_ORDERED = Schema(a=Real(-1, 1), o=Ordered(["l", "m", "h"]))
_FOLLOWED = Schema(s=Real(0, 12), t=Real(0, 12), y=Binary(), k=Levels(["u", "v"]))
_FACTORS = Schema(g=Levels(["u", "v", "w"]), k=Levels(["p", "q"]), y=Real(-3, 3))
#: Formulas and schemas of every verb: numbers, factors alone, crossed tables.
_CALLS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "dp_ols": (("y ~ a + b", _XY), ("y ~ g * k", _FACTORS)),
    "dp_glm": (("y ~ a + b", _EVENT),),
    "dp_quantreg": (("y ~ a + b", _XY), ("y ~ g + k", _FACTORS)),
    "dp_mest": (("y ~ a + b", _XY),),
    "dp_mean": (("a + b ~ 1", _XY),),
    "dp_moments": (("a + b ~ 1", _XY), ("y + g + k ~ 1", _FACTORS)),
    "dp_pca": (("a + b + y ~ 1", _XY),),
    "dp_bayes": (("k ~ a + b", _CLASS),),
    "dp_npreg": (("y ~ a", _XY),),
    "dp_table": (
        ("~ k", _CLASS),
        ("a ~ k", _CLASS, {"quantiles": [0.1, 0.5]}),
        ("~ g * k", _FACTORS),
        ("a + k ~ 1", _CLASS),
    ),
    "dp_quantile": (("~ a + b", _XY),),
    "dp_survfit": (
        ("Surv(t, y) ~ k", _FOLLOWED),
        ("Surv(t, y) ~ 1", _FOLLOWED, {"breaks": 40}),
        ("Surv(s, t, y) ~ k", _FOLLOWED, {"breaks": 4}),
    ),
    "dp_survdiff": (
        ("Surv(t, y) ~ k", _FOLLOWED),
        ("Surv(s, t, y) ~ k", _FOLLOWED, {"breaks": 40, "max_episodes": 2}),
    ),
    "dp_coxph": (
        ("Surv(t, y) ~ k", _FOLLOWED, {"breaks": 4, "concordance": True}),
        ("Surv(s, t, y) ~ k", _FOLLOWED, {"breaks": 4, "max_episodes": 2}),
    ),
    "dp_polr": (("o ~ a", _ORDERED),),
    "dp_multinom": (("k ~ a + b", _CLASS),),
    "dp_feols": (
        ("y ~ a + b | id", _XY),
        ("y ~ a + b", _XY, {"re": "id"}),
        ("y ~ a", _XY, {"re": "id", "mundlak": False}),
    ),
    "dp_fepois": (("y ~ a + b | id", _COUNT),),
    "dp_test": (("a ~ 1", _XY), ("a ~ k", _CLASS), ("~ a + b", _XY), ("~ g + k", _FACTORS)),
}
#: What a method cannot do without.
_OPTIONS: dict[str, dict[str, Any]] = {
    "dp_mest": {"loss": "huber"},
    "dp_quantile": {"q": [0.1, 0.5], "points": 64},
    "dpgd": {"iterations": 2},
}
_PUBLIC = {"dp_ols": np.diag([1.0, 0.3, 0.6, 0.4]), "dp_moments": np.diag([0.3, 0.6, 1.0])}
#: What rows may hold beside numbers of their range.
_WILD = (5e-324, 1e-160, 1e154, -1e308, np.inf, -np.inf, np.nan)
#: Of a call: add-remove with a guess of n and without, people.
_FORMS: tuple[dict[str, Any], ...] = (
    {"relation": "add-remove", "n_guess": _N},
    {"relation": "add-remove"},
    {"unit": "id", "units": _N, "rows_per_unit": 3},
    {"vcov": {"CRV1": "id"}, "psus": 30},
    {"vcov": {"CRV1": "id"}, "relation": "add-remove", "n_guess": _N},
)


def derived_plans(verb: str, method: str) -> Iterator[Plan[Any]]:
    """Yield plans of a method: both currencies, both relations, people, as far as it has them."""
    dp: Any = importlib.import_module("dpmodels")
    options = dict(_OPTIONS.get(verb, {}))
    options |= _OPTIONS.get(method, {})
    if method.startswith("pmt"):
        options["public"] = {"moments": _PUBLIC.get(verb), "m": 50}
    for formula, schema, *own in _CALLS.get(verb, ()):
        for delta in (1e-4, 0.0):
            for more in ({}, *_FORMS):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        yield dp.plan(
                            formula, schema, n=_N, eps=4.0, delta=delta, verb=verb, method=method,
                            **options, **more, **dict(*own),
                        )  # fmt: skip
                except DPModelsError:  # it has no such form: said before anything is read
                    continue


def _columns(plan: Plan[Any], n: int, seed: int, wild: bool = False) -> dict[str, Any]:
    """Return rows at the ends of their ranges; every second cell anything, if ``wild``."""
    rng = np.random.default_rng(seed)
    out: dict[str, Any] = {}
    for name in plan.design.kinds:
        variable = plan.design.schema[name]
        if isinstance(variable, Levels):
            pool = [*variable.levels, *((None, "?") if wild else ())]
            cells = [pool[rng.integers(len(pool))] for _ in range(n)]
            out[name] = np.array(cells, dtype=object)
            continue
        low, high = getattr(variable, "interval", None) or (0.0, 1.0)
        out[name] = rng.choice([low, high, (low + high) / 2.0], n)
        if wild:
            out[name] = np.where(rng.random(n) < 0.5, rng.choice(_WILD, n), out[name])
    if plan.request.unit is not None:
        out = {"id": np.arange(n, dtype=float), **out}
    if plan.request.sample is not None:  # clusters of two, and rows that are in none
        ids = np.where(rng.random(n) < 0.1, np.nan, np.arange(n) // 2)
        out = {"id": ids, **out}
    return out


def derived(verb: str, method: str) -> tuple[Finding, ...]:
    """Return the findings of every query that a method asks, on synthetic rows; none: it asks none.

    Deterministic: a right query is never flagged.
    """
    found: list[Finding] = []
    for plan in derived_plans(verb, method):
        door = recorded(plan, _columns(plan, _N, 1))
        for one in door.asked:
            found += _findings(plan, one)
        for ranks, over, penalties in door.chosen:
            found.append(_choice(plan, ranks, over, penalties))
    return tuple(dict.fromkeys(found))


def _findings(plan: Plan[Any], one: Asked) -> list[Finding]:
    """Return what the laws say of one query."""
    people = ", people" if one.people else ""
    name = f"{one.step} ({one.relation}, {one.norm}{people})"
    low, high = noise_ratio(one)
    allowed = 1e-8 if isinstance(one.query.statistic, Of) else 1e-12
    out = [Finding(f"noise of {name}", 1 - allowed <= low <= high <= 1 + allowed, low, 1.0)]
    if isinstance(one.query.statistic, Of):  # a lemma: the number is no sum of rows
        return out
    ratio = reach_ratio(one.query.statistic, one.relation, one.norm)
    assert ratio is not None
    out.append(Finding(f"reach of {name}", ratio <= 1 + 1e-12, ratio, 1.0))
    outside = sum(not _inside(plan, one, _columns(plan, 1, seed, True)) for seed in range(12))
    out.append(Finding(f"set of {name}", not outside, float(outside), 0.0))
    return out


def _choice(plan: Plan[Any], ranks: Ranks, over: Any, penalties: Callable[[Any], Any]) -> Finding:
    """Return the largest move of the penalties of a choice over what the prover says of them."""
    base, made = _columns(plan, 9, 2), []
    for seed in range(8):
        last = {
            **_columns(plan, 1, seed, True),
            **({"id": np.full(1, 99.0)} if "id" in base else {}),
        }
        table = {k: np.concatenate([v, last[k]]) for k, v in base.items()}
        with quiet(), np.errstate(all="ignore"):
            made.append(np.atleast_2d(penalties(over.total(rows_for(plan, table, 10), {}))))
    pairs = itertools.combinations(made, 2)
    moved = max(int(np.abs(a.astype(object) - b).max(axis=1).sum()) for a, b in pairs)
    most = rank_reach(ranks)
    who = "people" if plan.request.unit is not None else "rows"
    return Finding(f"penalties of a choice, {ranks.q} of {who}", moved <= most, moved, most)


def _inside(plan: Plan[Any], one: Asked, columns: Mapping[str, Any]) -> bool:
    """Whether what one unit lays down, through the production pass, is in the clip set."""
    if one.people:  # a person of forty such rows
        columns = {k: np.repeat(v, 40) for k, v in columns.items()}
    with quiet(), np.errstate(all="ignore"):
        sums = one.query.over.total(rows_for(plan, columns, 1), {})
    return holds(one.query.statistic, one.laid(sums), one.norm, people=one.people)
