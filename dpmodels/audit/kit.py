"""Audits of a method: at worst-case neighbours, by events, and of the structure of a release.

What the release audit covers: the statistic, its clipping, and the noise *scale* that the run
uses, with the budget as the plan splits it. The run is given test sources: one that returns
zeros, and for each draw one that returns one standard deviation, so that the affine map from
standard normals to released numbers is known and 2e4 draws cost a matrix product. What it does
not cover: the sampler itself (its own tests do), and releases that are no affine function of
Gaussian noise or whose scale depends on noise (the end-to-end audit does).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import logging
import math
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.audit.queries import (
    Asked,
    holds,
    noise_ratio,
    recorded,
    rows_for,
    sensitivity_ratio,
)
from dpmodels.errors import DPModelsError, RequestError, did_you_mean
from dpmodels.formula.schema import Schema
from dpmodels.lazy import special
from dpmodels.planning import Plan
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Step, mu_gdp
from dpmodels.privacy.run import Run
from dpmodels.privacy.seeded import SeededNoise
from dpmodels.proof.prove import Of, rank_sensitivity
from dpmodels.proof.statistics import Ranks
from dpmodels.quiet import quiet
from dpmodels.registry import method_names, methods
from dpmodels.variables import Binary, Count, Levels, Ordered, Real

# -- Findings and their confidence bounds


@dataclass(frozen=True)
class Finding:
    """Result of one audit.

    Attributes
    ----------
    check : str
        What was audited.
    passed : bool
    measured, claimed : float
        In the unit of the check (a norm, mu, a delta).
    false_alarm : float
        Probability that a correct mechanism is flagged; 0 for a deterministic check.
    detail : str
    """

    check: str
    passed: bool
    measured: float = math.nan
    claimed: float = math.nan
    false_alarm: float = 0.0
    detail: str = ""

    def __str__(self) -> str:
        verdict = "ok     " if self.passed else "FLAGGED"
        numbers = (
            ""
            if math.isnan(self.measured)
            else f"  measured {self.measured:.6g}, claimed {self.claimed:.6g}"
        )
        return f"{verdict} {self.check}{numbers}" + (f"  ({self.detail})" if self.detail else "")


def clopper_pearson(hits: int, n: int, level: float = 0.99) -> tuple[float, float]:
    """Return the exact two-sided confidence interval of a probability."""
    tail = (1.0 - level) / 2.0
    lo = 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, tail))
    hi = 1.0 if hits == n else float(special.betaincinv(hits + 1, n - hits, 1.0 - tail))
    return lo, hi


def mu_lower(hits_p: int, hits_q: int, n: int, level: float) -> float:
    """Return a lower bound on mu: Phi^{-1}(TPR) - Phi^{-1}(FPR) at the ends of the intervals."""
    tpr, fpr = clopper_pearson(hits_p, n, level)[0], clopper_pearson(hits_q, n, level)[1]
    if tpr == 0.0 or fpr == 1.0:
        return 0.0
    return float(special.ndtri(tpr) - special.ndtri(fpr))


def delta_lower(hits_p: int, hits_q: int, n: int, eps: float, level: float) -> float:
    """Return a lower bound on P(S) - e^eps Q(S)."""
    tpr, fpr = clopper_pearson(hits_p, n, level)[0], clopper_pearson(hits_q, n, level)[1]
    return tpr - math.exp(eps) * fpr


Release = Callable[[Any, Run], npt.ArrayLike]


class _OneDraw(SeededNoise):
    """All Gaussian draws are 0 but number ``which``, which is one standard deviation."""

    def __init__(self, which: int = -1) -> None:
        super().__init__(0)
        self.which, self.count = which, 0

    def _unit(self, size: int) -> list[bool]:
        out = [self.count + i == self.which for i in range(size)]
        self.count += size
        return out

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Return zeros and at most one rounded sd."""
        sd = round(math.sqrt(sigma2))
        return [sd if is_unit else 0 for is_unit in self._unit(size)]

    def normals(self, size: int) -> Array:
        """Return zeros and at most one 1."""
        return np.array([float(is_unit) for is_unit in self._unit(size)])


def _affine(release: Release, data: Any, steps: Sequence[Step]) -> tuple[Array, Array]:
    """Return the noiseless release (d,) and the map (d, draws) of its Gaussian noise."""
    noise = _OneDraw()
    centre = np.asarray(release(data, Run(steps, noise)), dtype=float).ravel()
    columns = [
        np.asarray(release(data, Run(steps, _OneDraw(k))), dtype=float).ravel() - centre
        for k in range(noise.count)
    ]
    return centre, np.array(columns).T.reshape(len(centre), noise.count)


@dataclass(frozen=True)
class ReleaseCheck:
    """Arguments of :func:`audit_release`, for an audit case."""

    name: str
    release: Release
    pair: tuple[Any, Any]
    guarantee: Guarantee

    def run(self, draws: int, seed: int) -> Finding:
        """Run the check."""
        return audit_release(
            self.release, self.pair, self.guarantee, draws=draws, seed=seed, name=self.name
        )


def audit_release(
    release: Release,
    pair: tuple[Any, Any],
    guarantee: Guarantee,
    *,
    draws: int = 20_000,
    seed: int = 0,
    level: float = 0.99,
    name: str = "release",
) -> Finding:
    """Audit a Gaussian release at a pair of worst-case neighbours.

    Parameters
    ----------
    release : callable(data, run) -> array
        Draws every number of the release through ``run``; the whole release, not one entry.
    pair : (X, X')
    guarantee : Guarantee
        The claim: its steps are what the run is made from, its (eps, delta) what is audited.
    draws : int
        A side. Half choose the threshold, half are counted.
    level : float
        Of each Clopper-Pearson interval; the false alarm is at most ``1 - level``.

    Notes
    -----
    Draws are projected on the worst-case shift (the likelihood ratio), the threshold is the one
    with the largest lower bound on the first half, and ``Phi^{-1}(TPR) - Phi^{-1}(FPR)`` bounds
    the mu of the release from below; flagged if that is above the mu of the claim.

    Raises
    ------
    RequestError
        A claim with delta = 0, which Gaussian noise never keeps.
    """
    if guarantee.delta == 0:
        raise RequestError(
            f"{name}: a release audit is of Gaussian noise, whose guarantee has delta > 0; this "
            "one claims delta = 0. Audit a pure release by an EventCheck of its whole stage, its "
            "statistic by a SensitivityCheck(..., norm='l1')"
        )
    rng = np.random.default_rng(seed)
    samples = []
    maps = [_affine(release, data, guarantee.steps) for data in pair]
    shift = maps[1][0] - maps[0][0]
    cov = maps[0][1] @ maps[0][1].T
    direction = np.linalg.lstsq(cov, shift, rcond=1e-12)[0]
    missed = shift - cov @ direction
    claimed = mu_gdp(guarantee.eps, guarantee.delta)
    if float(np.linalg.norm(missed)) > 1e-6 * float(np.linalg.norm(shift)):
        return Finding(name, False, math.inf, claimed, 0.0, "a released number has no noise")
    for centre, noise in maps:
        z = rng.standard_normal((draws, noise.shape[1]))
        samples.append((z @ (noise.T @ direction)) + float((centre - maps[0][0]) @ direction))
    half = draws // 2
    q, p = samples[0], samples[1]
    grid = np.quantile(np.concatenate([q[:half], p[:half]]), np.linspace(0.02, 0.98, 49))
    bounds = [
        mu_lower(int((p[:half] > t).sum()), int((q[:half] > t).sum()), half, level) for t in grid
    ]
    t = float(grid[int(np.argmax(bounds))])
    counts = int((p[half:] > t).sum()), int((q[half:] > t).sum())
    measured = mu_lower(*counts, draws - half, level)
    exact = math.sqrt(max(0.0, float(shift @ direction)))
    detail = f"mu of the shift over the noise scale of the run: {exact:.6f}"
    # the scale is read without sampling error, so it is a separate bound
    passed = measured <= claimed and exact <= claimed * (1 + 1e-6)
    return Finding(name, passed, max(measured, exact), claimed, 1 - level, detail)


@dataclass(frozen=True)
class EventCheck:
    """Arguments of :func:`audit_events`, for an audit case."""

    name: str
    outcomes: tuple[Callable[[int], Any], Callable[[int], Any]]
    guarantee: Guarantee
    runs: int = 2000

    def run(self, seed: int) -> Finding:
        """Run the check."""
        return audit_events(
            *self.outcomes, self.guarantee, runs=self.runs, seed=seed, name=self.name
        )


def audit_events(
    outcome_x: Callable[[int], Any],
    outcome_y: Callable[[int], Any],
    guarantee: Guarantee,
    *,
    runs: int = 2000,
    seed: int = 0,
    level: float = 0.99,
    name: str = "end to end",
) -> Finding:
    """Audit a whole call: *no reply* as an event, and a projection of the replies.

    Parameters
    ----------
    outcome_x, outcome_y : callable(seed) -> array or None
        Run the public verb on one of two neighbours with fresh noise; None is a no-reply.
    guarantee : Guarantee
    runs : int
        A side.

    Notes
    -----
    Events, in both orders: no reply; reply; reply beyond a threshold of the projection on the
    difference of means, chosen on the first half. Flagged if a lower bound of
    ``P(S) - e^e Q(S)`` exceeds the claimed delta(e) at e = 0, eps/2 or eps. With Bonferroni over
    the six events the false alarm is at most ``1 - level``.
    """
    sides = [[f(seed + i) for i in range(runs)] for f in (outcome_x, outcome_y)]
    half = runs // 2
    replies = [
        [np.asarray(v, dtype=float).ravel() for v in s[:half] if v is not None] for s in sides
    ]
    direction, threshold = None, 0.0
    if all(len(r) > 1 for r in replies):
        a, b = np.array(replies[0]), np.array(replies[1])
        spread = np.concatenate([a - a.mean(0), b - b.mean(0)]).var(0) + 1e-300
        direction = (b.mean(0) - a.mean(0)) / spread
        threshold = 0.5 * float((a.mean(0) + b.mean(0)) @ direction)

    def events(v: Any) -> tuple[bool, ...]:
        reply = v is not None
        beyond = reply and direction is not None and bool(np.ravel(v) @ direction > threshold)
        return (not reply, reply, beyond, reply and not beyond)

    n = runs - half
    counts = [np.array([events(v) for v in s[half:]]).sum(0) for s in sides]
    each = 1 - (1 - level) / (2 * len(counts[0]) * 3)
    worst, claim = -math.inf, guarantee.delta
    for eps in (0.0, guarantee.eps / 2, guarantee.eps):
        claimed = guarantee.delta_at(eps)
        for a, b in zip(counts[0], counts[1], strict=True):
            for hits in ((int(a), int(b)), (int(b), int(a))):
                excess = delta_lower(*hits, n, eps, each)
                if excess - claimed > worst:
                    worst, measured, claim = excess - claimed, excess, claimed
    detail = f"{runs} runs a side; no reply {int(counts[0][0])} / {int(counts[1][0])} of {n}"
    return Finding(name, worst <= 0, measured, claim, 1 - level, detail)


# -- Audits that nobody writes: the private stage of a method runs once, and its queries say the
# rest.
#
# For each query of the stage the audit checks three things: the contributions of hostile rows are
# in its clip set, elements far from each other differ by no more than the proved bound, and the
# drawn sd is that of the charge. A method with a registered proof has hand-written cases besides
# (``register_case``).


_N = 60
_XY = Schema(a=Real(-1, 1), b=Real(-2, 1), y=Real(-3, 3))
_EVENT = Schema(a=Real(-1, 1), b=Real(-2, 1), y=Binary())
_CLASS = Schema(a=Real(-1, 1), b=Real(-2, 1), k=Levels(["u", "v"]))
_COUNT = Schema(a=Real(-1, 1), b=Real(-2, 1), y=Count(6))
_ORDERED = Schema(a=Real(-1, 1), o=Ordered(["l", "m", "h"]))
_TREATED = Schema(a=Real(-1, 1), y=Real(-3, 3), t=Levels(["u", "v"]))
_FOLLOWED = Schema(s=Real(0, 12), t=Real(0, 12), y=Binary(), k=Levels(["u", "v"]))
_COMPETING = Schema(t=Real(0, 12), g=Levels(["u", "v", "w"]))
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
        ('Surv(t, g, cause="w") ~ 1', _COMPETING),
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
    "dp_ate": (("y ~ a", _TREATED), ("y ~ a", _TREATED, {"estimand": "ATT"})),
    "dp_test": (("a ~ 1", _XY), ("a ~ k", _CLASS), ("~ a + b", _XY), ("~ g + k", _FACTORS)),
}
#: Required options of a method.
_OPTIONS: dict[str, dict[str, Any]] = {
    "dp_mest": {"loss": "huber"},
    "dp_ate": {"treatment": "t"},
    "dp_quantile": {"q": [0.1, 0.5], "points": 64},
    "dpgd": {"iterations": 2},
}
_PUBLIC = {"dp_ols": np.diag([1.0, 0.3, 0.6, 0.4]), "dp_moments": np.diag([0.3, 0.6, 1.0])}
#: Numbers for cells that no declared range covers: tiny, huge, infinite and missing.
_WILD = (5e-324, 1e-160, 1e154, -1e308, np.inf, -np.inf, np.nan)
#: Forms of a call: add-remove with a guess of n and without, people.
_FORMS: tuple[dict[str, Any], ...] = (
    {"relation": "add-remove", "n_guess": _N},
    {"relation": "add-remove"},
    {"unit": "id", "units": _N, "rows_per_unit": 3},
    {"vcov": {"CRV1": "id"}, "psus": 30},
    {"vcov": {"CRV1": "id"}, "relation": "add-remove", "n_guess": _N},
)


def derived_plans(verb: str, method: str) -> Iterator[Plan[Any]]:
    """Yield plans of a method for synthetic data: delta > 0 and delta = 0, rows and people.

    Both relations are planned. A form that the method refuses is left out.
    """
    dp: Any = importlib.import_module("dpmodels")
    options = dict(_OPTIONS.get(verb, {}))
    options |= _OPTIONS.get(method, {})
    if method.startswith("pmt"):
        options["public"] = {"moments": _PUBLIC.get(verb), "m": 50}
    for formula, schema, *own_options in _CALLS.get(verb, ()):
        for delta in (1e-4, 0.0):
            for form in ({}, *_FORMS):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        yield dp.plan(
                            formula, schema, n=_N, eps=4.0, delta=delta, verb=verb, method=method,
                            **options, **form, **dict(*own_options),
                        )  # fmt: skip
                except DPModelsError:  # it has no such form: raised before anything is read
                    continue


def _columns(plan: Plan[Any], n: int, seed: int, wild: bool = False) -> dict[str, Any]:
    """Return ``n`` synthetic rows whose numbers are ends or middles of their declared ranges.

    If ``wild``, about half of the numbers are arbitrary values instead (NaN and infinity too), and
    factors may have a missing or an unknown level.
    """
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


def findings_of_queries(verb: str, method: str) -> tuple[Finding, ...]:
    """Return the findings of every query of a method, run on synthetic rows.

    They are empty if the method asks no query. The check is deterministic and never flags a correct
    query.
    """
    findings: list[Finding] = []
    for plan in derived_plans(verb, method):
        door = recorded(plan, _columns(plan, _N, 1))
        for query in door.asked:
            findings += _findings(plan, query)
        for ranks, over, penalties in door.chosen:
            findings.append(_choice(plan, ranks, over, penalties))
    return tuple(dict.fromkeys(findings))


def _findings(plan: Plan[Any], asked_query: Asked) -> list[Finding]:
    """Return the findings on one query: its noise, its sensitivity and the set of its rows."""
    people = ", people" if asked_query.people else ""
    name = f"{asked_query.step} ({asked_query.relation}, {asked_query.norm}{people})"
    low, high = noise_ratio(asked_query)
    allowed = 1e-8 if isinstance(asked_query.query.statistic, Of) else 1e-12
    out = [Finding(f"noise of {name}", 1 - allowed <= low <= high <= 1 + allowed, low, 1.0)]
    if isinstance(asked_query.query.statistic, Of):  # a lemma: the number is not a sum of rows
        return out
    ratio = sensitivity_ratio(asked_query.query.statistic, asked_query.relation, asked_query.norm)
    assert ratio is not None
    out.append(Finding(f"sensitivity of {name}", ratio <= 1 + 1e-12, ratio, 1.0))
    outside = sum(
        not _inside(plan, asked_query, _columns(plan, 1, seed, True)) for seed in range(12)
    )
    out.append(Finding(f"set of {name}", not outside, float(outside), 0.0))
    return out


def _choice(plan: Plan[Any], ranks: Ranks, over: Any, penalties: Callable[[Any], Any]) -> Finding:
    """Return the finding on an exponential mechanism: how far one unit changes its penalties.

    Eight tables of ten rows differ in their last row alone, so any two are neighbours. ``over`` is
    the pass that reads them, and ``penalties`` turns its sums into integers (groups, candidates)
    (one group: candidates alone). The largest change must be at most :func:`rank_sensitivity`.
    """
    shared, penalties_of_tables = _columns(plan, n=9, seed=2), []
    for seed in range(8):
        last = {
            **_columns(plan, n=1, seed=seed, wild=True),
            **({"id": np.full(1, 99.0)} if "id" in shared else {}),
        }
        table = {k: np.concatenate([v, last[k]]) for k, v in shared.items()}
        with quiet(), np.errstate(all="ignore"):
            sums = over.total(rows_for(plan, table, 10), {})
            penalties_of_tables.append(np.atleast_2d(penalties(sums)))
    neighbours = itertools.combinations(penalties_of_tables, 2)
    change = max(int(np.abs(a.astype(object) - b).max(axis=1).sum()) for a, b in neighbours)
    bound = rank_sensitivity(ranks)
    who = "people" if plan.request.unit is not None else "rows"
    return Finding(f"penalties of a choice, {ranks.q} of {who}", change <= bound, change, bound)


def _inside(plan: Plan[Any], asked_query: Asked, columns: Mapping[str, Any]) -> bool:
    """Return whether the contribution of one unit in the production pass is in the clip set."""
    if asked_query.people:  # a person of forty such rows
        columns = {k: np.repeat(v, 40) for k, v in columns.items()}
    with quiet(), np.errstate(all="ignore"):
        sums = asked_query.query.over.total(rows_for(plan, columns, 1), {})
    return holds(
        asked_query.query.statistic,
        asked_query.contribution(sums),
        asked_query.norm,
        people=asked_query.people,
    )


# -- Structural audits: nothing but the noisy numbers may differ, and no cell may be printed.


@dataclass(frozen=True)
class StructureCheck:
    """Arguments of :func:`check_structure`, for an audit case."""

    name: str
    call: Callable[[Any], Any]
    pairs: Sequence[tuple[Any, Any]]
    shape: Callable[[Any], Any]

    def run(self) -> Finding:
        """Run the check on every pair."""
        for x, y in self.pairs:
            finding = check_structure(self.call, x, y, self.shape, name=self.name)
            if not finding.passed:
                return finding
        return Finding(self.name, bool(self.pairs), detail=f"{len(self.pairs)} pairs")


@dataclass(frozen=True)
class SentinelCheck:
    """Arguments of :func:`sentinel_search`, for an audit case."""

    name: str
    action: Callable[[], Any]
    sentinels: Sequence[str]

    def run(self) -> Finding:
        """Run the check."""
        return sentinel_search(self.action, self.sentinels, name=self.name)


def _observe_call(call: Callable[[Any], Any], data: Any, shape: Callable[[Any], Any]) -> Any:
    """Return (error, result as text, warnings) of a call, for a comparison with another call."""
    failure = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            what = repr(shape(call(data)))
        except Exception as error:
            what, failure = "", (type(error).__name__, str(error))
    return failure, what, [(w.category.__name__, str(w.message)) for w in caught]


def check_structure(
    call: Callable[[Any], Any],
    x: Any,
    y: Any,
    shape: Callable[[Any], Any],
    *,
    name: str = "structure",
) -> Finding:
    """Run a call on two neighbours; their shapes, warnings and exceptions must agree.

    Parameters
    ----------
    call : callable(data)
        With all noise fixed to zero, or with outputs that ``shape`` leaves out.
    x, y : data sets
        Differ in one odd row: a new level, a missing cell, text in a numeric column, ...
    shape : callable(result)
        The public part of a result: columns, names, n, types.
    """
    a, b = _observe_call(call, x, shape), _observe_call(call, y, shape)
    for what, left, right in zip(("exception", "shape", "warnings"), a, b, strict=True):
        if left != right:
            return Finding(name, False, detail=f"the {what} differs between neighbours")
    return Finding(name, True)


def _chain(error: BaseException) -> list[str]:
    """Return the texts of an exception and of everything reachable from it, with locals."""
    out, todo, done = [], [error], set()
    while todo:
        e = todo.pop()
        if id(e) in done:
            continue
        done.add(id(e))
        out += [str(e), repr(e), repr(e.args), "".join(traceback.format_exception(e))]
        todo += [c for c in (e.__cause__, e.__context__) if c is not None]
    return out


def sentinel_search(
    action: Callable[[], Any],
    sentinels: Sequence[str],
    *,
    directory: str | Path | None = None,
    name: str = "sentinels",
) -> Finding:
    """Run ``action`` and look for private strings in everything that comes out of it.

    Parameters
    ----------
    action : callable
        Runs the call on data that holds the sentinels.
    sentinels : sequence of str
        Unique strings, and unique numbers as they would print.
    directory : path, optional
        Where files may have been written: their bytes are searched too.

    Notes
    -----
    Searched: str, repr, HTML, LaTeX and pickle of the result; exceptions with their tracebacks and
    contexts; warnings; log records; stdout and stderr; files.
    """
    texts: list[tuple[str, str]] = []
    stream, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
        ):
            warnings.simplefilter("always")
            try:
                result = action()
                texts += [("str", str(result)), ("repr", repr(result))]
                for form in ("_repr_html_", "_repr_latex_"):
                    if hasattr(result, form):
                        texts.append((form, str(getattr(result, form)())))
                texts.append(("pickle", pickle.dumps(result).decode("latin-1")))
            except Exception as error:
                texts += [("exception", text) for text in _chain(error)]
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    texts += [("warning", str(w.message)) for w in caught]
    texts += [("log", log.getvalue()), ("stdout", stream.getvalue())]
    if directory is not None:
        for file in Path(directory).rglob("*"):
            if file.is_file():
                texts.append(("file", file.read_bytes().decode("latin-1")))
    for where, text in texts:
        if any(s in text for s in sentinels):
            return Finding(name, False, detail=f"a private value appears in: {where}")
    return Finding(name, True, detail=f"{len(texts)} places searched")


# -- Deterministic audit: a sensitivity bound against random and corner neighbours


@dataclass(frozen=True)
class SensitivityCheck:
    """Arguments of :func:`check_sensitivity`, for an audit case."""

    name: str
    statistic: Callable[[Any], npt.ArrayLike]
    neighbours: Callable[[], Iterable[tuple[Any, Any]]]
    bound: float | Callable[[Any, Any], float]
    norm: str = "l2"

    def run(self) -> Finding:
        """Run the check."""
        return check_sensitivity(
            self.statistic, self.neighbours(), self.bound, norm=self.norm, name=self.name
        )


def check_sensitivity(
    statistic: Callable[[Any], npt.ArrayLike],
    neighbours: Iterable[tuple[Any, Any]],
    bound: float | Callable[[Any, Any], float],
    *,
    norm: str = "l2",
    tolerance: float = 1e-9,
    name: str = "sensitivity",
) -> Finding:
    """Compare ``|statistic(X) - statistic(X')|`` with ``bound`` on every pair.

    Parameters
    ----------
    statistic : callable
        The very function the method releases, weights and clipping included.
    neighbours : iterable of (X, X')
    bound : float or callable(X, X')
    norm : {"l2", "l1", "linf"}
    tolerance : float
        Relative; for float statistics. Integer statistics pass with 0.

    Notes
    -----
    Deterministic: a correct bound is never flagged. The worst ratio is reported; one far below 1
    means that the neighbours are not adversarial enough, or the bound is not tight.
    """
    order = {"l2": 2.0, "l1": 1.0, "linf": math.inf}[norm]
    worst, measured, claimed, pairs = -1.0, 0.0, math.nan, 0
    for x, y in neighbours:
        pairs += 1
        gap = np.asarray(statistic(x), dtype=float) - np.asarray(statistic(y), dtype=float)
        size = float(np.linalg.norm(gap.ravel(), order))
        limit = float(bound(x, y) if callable(bound) else bound)
        ratio = size / limit if limit > 0 else (math.inf if size > 0 else 0.0)
        if math.isnan(ratio):
            ratio = math.inf
        if ratio > worst:
            worst, measured, claimed = ratio, size, limit
    passed = pairs > 0 and worst <= 1.0 + tolerance
    detail = f"{pairs} pairs, worst ratio {worst:.4f}"
    return Finding(name, passed, measured, claimed, 0.0, detail)


def corner_neighbours(
    bounds: Sequence[tuple[float, float]],
    n: Sequence[int] = (1, 2, 5),
    *,
    trials: int = 200,
    seed: int = 0,
    outside: bool = True,
) -> Iterator[tuple[Array, Array]]:
    """Yield replace-one neighbours: rows at corners, random, zero, duplicated, out of bounds.

    Parameters
    ----------
    bounds : sequence of (low, high)
        One a column; asymmetric ones are the interesting ones.
    n : sequence of int
        Numbers of rows.
    outside : bool
        Put values far outside the bounds into some rows: clipping must take care of them.
    """
    rng = np.random.default_rng(seed)
    lo, hi = np.array(bounds, dtype=float).T
    width = hi - lo

    def row() -> Array:
        kind = rng.integers(0, 6 if outside else 4)
        if kind <= 1:
            return np.asarray(np.where(rng.random(len(lo)) < 0.5, lo, hi))
        if kind == 2:
            return np.asarray(lo + width * rng.random(len(lo)))
        if kind == 3:
            return np.asarray(np.clip(np.zeros(len(lo)), lo, hi))
        far = 10.0 ** rng.integers(1, 6)
        return np.asarray(lo - far * width if kind == 4 else hi + far * width)

    for size in n:
        for trial in range(trials):
            x = np.array([row() for _ in range(size)])
            if trial % 4 == 0:
                x[:] = x[0]
            y = x.copy()
            y[int(rng.integers(size))] = lo + hi - x[0] if trial % 5 == 0 else row()
            yield x, y
        yield np.tile(lo, (size, 1)), np.vstack([hi, np.tile(lo, (size - 1, 1))])


# -- Audit cases as data, and the one call that runs those of a method.


@dataclass(frozen=True)
class AuditCase:
    """Checks of each kind on synthetic neighbours, given by the author of a method."""

    sensitivity: tuple[SensitivityCheck, ...] = ()
    release: tuple[ReleaseCheck, ...] = ()
    events: tuple[EventCheck, ...] = ()
    structure: tuple[StructureCheck, ...] = ()
    sentinels: tuple[SentinelCheck, ...] = ()


@dataclass(frozen=True)
class AuditReport:
    """Findings of all cases of a method."""

    method: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if there were findings and none was flagged."""
        return bool(self.findings) and all(f.passed for f in self.findings)

    def __str__(self) -> str:
        total = sum(f.false_alarm for f in self.findings)
        lines = [f"Audit of {self.method}: {'passed' if self.passed else 'FLAGGED'}"]
        lines += [f"  {f}" for f in self.findings]
        lines.append(
            f"  false-alarm probability of the whole report: at most {min(1.0, total):.3g}"
        )
        return "\n".join(lines)


_CASES: dict[tuple[str, str], list[AuditCase]] = {}


def register_case(method: str, verb: str, case: AuditCase) -> None:
    """Add an audit case to a method."""
    cases = _CASES.setdefault((verb, method), [])
    if case not in cases:
        cases.append(case)


def audit(
    method: str, verb: str | None = None, *, draws: int = 20_000, seed: int = 0
) -> AuditReport:
    """Run the audits that follow from a method's queries, and every one registered for it.

    Parameters
    ----------
    method : str
    verb : str, optional
        Only that verb's.
    draws : int
        A side, for release audits (2e4 takes about a second; 2e5 for the slow suite).

    Privacy
    -------
    Runs on synthetic data. A passed audit refutes nothing; it is not a proof.
    """
    verbs = [str(v) for v in dict.fromkeys(methods()["verb"])]
    registered = dict.fromkeys([*((v, name) for v in verbs for name in method_names(v)), *_CASES])
    keys = [k for k in registered if k[1] == method and verb in (None, k[0])]
    findings: list[Finding] = []
    for key in keys:
        findings += findings_of_queries(*key)
    for case in (c for k in keys for c in _CASES.get(k, ())):
        findings += [check.run() for check in case.sensitivity]
        findings += [check.run(draws, seed) for check in case.release]
        findings += [check.run(seed) for check in case.events]
        findings += [check.run() for check in case.structure]
        findings += [check.run() for check in case.sentinels]
    if not findings:
        names = sorted({k[1] for k in registered})
        raise RequestError(
            f"no audit case is registered for {method!r}.{did_you_mean(method, names)}"
        )
    return AuditReport(method, tuple(findings))
