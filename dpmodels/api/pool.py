"""Releases of one design at several sites, added up to one: sums exactly, noise by its squares.

Second moments of site s are ``T_s Q_s T_s'``: with one T at all sites the Q_s add, otherwise they
are the blocks of one matrix, and the T_s stand side by side. Cells of tables and of follow-up add
as they are. Rows of noised tables stand below each other: their noise has to have one law.

Nothing here reads data or draws noise. A person whose rows are at one site alone is protected by
the guarantee of that site, whatever other sites release: guarantees compose in parallel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.core.means import half_ranges
from dpmodels.errors import NotReleasedError, RequestError
from dpmodels.formula.design import Design
from dpmodels.models.moments import Back, moment_estimate
from dpmodels.models.survival.curve import SurvivalDetail
from dpmodels.models.survival.show import curves_from
from dpmodels.models.table.noise import Spread, TableNoise
from dpmodels.models.table.people import PairPlan, Products
from dpmodels.models.table.show import layout_from
from dpmodels.models.table.table import TableDetail
from dpmodels.models.window import Windows
from dpmodels.notes import Severity, note_of
from dpmodels.privacy.composition import Guarantee, delta_of_parts
from dpmodels.privacy.mechanisms import Approximate, Pure, Step
from dpmodels.privacy.reports import Charge, Ledger, frame, of_call
from dpmodels.records import Estimate
from dpmodels.registry import resolve
from dpmodels.results.fit import Fit
from dpmodels.results.meta import compare, joint_guarantee, sites_named
from dpmodels.results.record import Record, frozen, ledger_of
from dpmodels.tables.table import Table
from dpmodels.units import column_of

#: Facts of a variable that say how a site writes its cells: they may differ.
_AS_WRITTEN = (
    "label", "missing", "decimal", "thousands", "strip", "ignore_case", "recode", "format",
)  # fmt: skip
#: Verb -> options that decide what is released.
OPTIONS = {
    "dp_moments": (), "dp_table": ("histogram", "quantiles", "medians"),
    "dp_survfit": ("times", "breaks", "max_episodes", "cause"), "dp_release": (),
}  # fmt: skip
_AGAIN = "Make the releases again, with one call and one schema at all sites"
same = functools.partial(compare, remedy=_AGAIN)


def pool(
    releases: Sequence[Any], *, names: Sequence[str] | None = None, overlap: bool = False
) -> Any:
    """Add up releases of the same design that several sites made of their disjoint tables.

    Parameters
    ----------
    releases : list
        Of ``dp_moments``, ``dp_table``, ``dp_survfit`` or ``dp_release``: one call and one schema
        at all sites. Budgets may differ, but for ``dp_release``.
    names : list of str, optional
        Names of the sites.
    overlap : bool
        A person may be at several sites, or may move from one table to another: guarantees are
        summed. Otherwise the whole has the largest.

    Returns
    -------
    Fit or NoisyTable
        A release of all sites, to be used as any: ``dp.dp_ols("y ~ x", pooled)``. ``.privacy``
        names the guarantee of each site, ``.ledger`` has their charges.

    Raises
    ------
    RequestError, NotReleasedError
        Verbs, schemas, designs, units or neighbours differ, or a release is not a sum.

    Privacy
    -------
    Post-processing of released numbers: costs nothing. Each site charged its own release.
    """
    listed: list[Any] = [*releases] if isinstance(releases, (list, tuple)) else [releases]
    if len(listed) < 2:
        raise RequestError("pool needs at least two releases in a list: dp.pool([m1, m2])")
    titles = sites_named(names, len(listed))
    verb = _one_verb(titles, listed)
    promises = [part.privacy for part in listed]
    eps, delta, why = joint_guarantee(promises, titles, overlap=overlap)
    design = _one_design(verb, titles, [part.design for part in listed])
    promise = _promise(titles, promises, (eps, delta), why, overlap=overlap)
    if verb == "dp_release":
        return _rows(titles, listed, promise)
    records = [part._record for part in listed]
    for key in OPTIONS[verb]:
        same(f"{key}=", titles, [record.call.options.get(key) for record in records])
    if len({record.estimate.names for record in records}) > 1:
        same("method=", titles, [record.call.method for record in records])
    n = None if records[0].n is None else sum(record.n or 0 for record in records)
    add = {"dp_moments": _moments, "dp_table": _cells, "dp_survfit": _curves}[verb]
    estimate = frozen(add(titles, records, design, n), True)
    parts = (
        {"call": f"{title}: {o.call}", "guarantee": o.guarantee.to_dict(), "notes": {**o.notes}}
        for title, o in zip(titles, map(ledger_of, records), strict=True)
    )
    public: dict[str, Any] = {"design": design, "n": n, "shares": {}, "scales": {}, "returned": ""}
    return Fit._of(
        replace(records[0], guarantee=promise, estimate=estimate, parts=tuple(parts), **public)
    )


def _one_verb(titles: list[str], listed: list[Any]) -> str:
    """Return the verb of all releases, or refuse."""
    verbs = [
        "dp_release" if hasattr(part, "__noisy_table__") else getattr(part, "model", "no release")
        for part in listed
    ]
    for k, (title, verb, part) in enumerate(zip(titles, verbs, listed, strict=True)):
        if verb not in OPTIONS:
            adds = f"dp.pool adds {', '.join(OPTIONS)}; dp.meta combines estimates of fits"
            raise RequestError(f"{title} is {verb}: {adds}")
        if any(part is other for other in listed[:k]):
            raise RequestError(f"{title} is in the list already: give each release once")
        if not getattr(part, "released", True):
            raise NotReleasedError(f"{title} got no reply and has nothing to add: leave it out")
        if any(note.code == messages.CAP_AND_PAY.code for note in part.privacy.notes):
            raise RequestError(f"{title} has max_rows=, so its rows may be correlated: use unit=")
    same("the verb", titles, verbs)
    return verbs[0]


def _one_design(verb: str, titles: list[str], designs: list[Design]) -> Design:
    """Return the design, with the widest of estimated ranges; name a difference and refuse it."""
    facts = [design.to_dict() for design in designs]
    for key in sorted({key for fact in facts for key in fact} - {"schema", "bought", "engine"}):
        same(key, titles, [fact.get(key) for fact in facts])
    for name in sorted({name for fact in facts for name in fact["schema"]}):
        declared = [
            ", ".join(
                str(v) if k == "type" else f"{k} {v}"
                for k, v in fact["schema"].get(name, {}).items() if k not in _AS_WRITTEN
            )
            for fact in facts
        ]  # fmt: skip
        same(f"the declaration of {name!r}", titles, [text or "missing" for text in declared])
    ranges: dict[str, list[float]] = {}
    for name, *ends in (bought for design in designs for bought in design.bought):
        ranges.setdefault(name, []).extend(ends)
    if ranges and verb != "dp_moments":
        raise RequestError(
            f"the range of {min(ranges)!r} was estimated at each site, and other numbers depend on "
            f"it: declare it in the schema. {_AGAIN}"
        )
    return designs[0].with_bounds({name: (min(r), max(r)) for name, r in ranges.items()})


def _promise(
    titles: list[str], parts: list[Guarantee], pair: tuple[float, float], why: str, *, overlap: bool
) -> Guarantee:
    """Return the largest guarantee, or the sum, with that of each site in a note."""
    laws = [[(step.mechanism, step.failure) for step in part.steps] for part in parts]
    direct = all(part.proved in (None, part.relation) for part in parts)
    if overlap:
        every = [step for part in parts for step in part.steps]
        exact = direct and delta_of_parts(every, pair[0]) <= pair[1]
        lists = [part.steps if exact else _by_pair(part, part.eps, part.delta) for part in parts]
    else:
        alike = direct and all(law == laws[0] for law in laws)
        lists = [parts[0].steps if alike else _by_pair(parts[0], *pair)]
    steps = (
        replace(step, name=f"{step.name}, {titles[k]}" if k else step.name, reply_test=False)
        for k, listed in enumerate(lists) for step in listed
    )  # fmt: skip
    notes = [*(note for p in parts for note in p.notes), note_of(why, Severity.GUARANTEE)]
    rows: list[Any] = [part.record_pair for part in parts]
    total: Any = sum if overlap else max
    return Guarantee(
        tuple(steps), *pair, parts[0].relation, parts[0].unit, any(p.seeded for p in parts),
        tuple(dict.fromkeys(notes)),
        None if None in rows else (total(r[0] for r in rows), total(r[1] for r in rows)),
    )  # fmt: skip


def _by_pair(part: Guarantee, eps: float, delta: float) -> Sequence[Step]:
    """Return the steps of a guarantee that is known by its (eps, delta) alone: the first has it."""
    laws = [Approximate(eps, delta) if delta else Pure(eps), *[Pure(0.0)] * len(part.steps)]
    return [replace(s, mechanism=m, failure=0.0) for s, m in zip(part.steps, laws, strict=False)]


@dataclass(frozen=True)
class PooledLedger(Ledger):
    """Ledgers of the releases of several sites, one below the other."""

    parts: tuple[Charge, ...] = ()

    def to_frame(self) -> Any:
        """Return the charged steps of all sites; ``call`` counts the sites."""
        return frame(self.parts)

    def table(self) -> Table:
        """Return the ledger of each site, and the guarantee of the whole."""
        first, *others = (of_call(Ledger(p.call, p.guarantee, p.notes)) for p in self.parts)
        return replace(first, notes=(f"Together: {self.call}",), more=tuple(others))


def pooled_ledger(record: Record) -> PooledLedger:
    """Return the ledger of a pooled record."""
    parts = (
        Charge(k, "", part["call"], Guarantee.from_dict(part["guarantee"]), notes=part["notes"])
        for k, part in enumerate(record.parts, 1)
    )
    return PooledLedger(record.guarantee.statement(), record.guarantee, parts=tuple(parts))


def _moments(_: list[str], records: list[Record], design: Design, n: int | None) -> Estimate:
    """Return second moments of all rows, with their noise."""
    from scipy.linalg import block_diag

    every = [record.estimate for record in records]
    keys = [f"released_{key}" for key in ("map", "moments", "noise", "rows")]
    T, Q, V, each = ([np.asarray(est.arrays[key]) for est in every] for key in keys)
    rows, ends = np.ravel(each), tuple(np.cumsum([len(q) for q in Q]).tolist())
    if all(np.array_equal(t, T[0]) for t in T):
        maps, Q, V, ends = T[0], np.sum(Q, axis=0), np.sum(V, axis=0), ()
    else:
        maps, Q, V = np.hstack(T), block_diag(*Q), block_diag(*V)
    back = Back(design.names, maps, float(rows.sum()), every[0].names[-1])
    noise = np.linalg.norm([est.stats["noise_sd"] for est in every] * rows) / rows.sum()
    return moment_estimate(
        back, Q, V, stats={"noise_sd": float(noise)}, blocks=ends,
        notes=tuple(x for x in map(note_of, every[0].notes) if all(x in e.notes for e in every)),
        weighted="released_weighted" in every[0].arrays,
    )  # fmt: skip


class _Request(dict[str, Any]):
    """The public words of a call, its options as items."""


def _estimated(record: Record, n: int | None, design: Design, facts: Any, **of: Any) -> Estimate:
    """Return the estimate that the method of a record makes of summed cells."""
    call, request, column = record.call, _Request(record.call.options), record.guarantee.unit
    facts_of_call = {"copies": 1, "by_person": column_of(column) is not None}
    request.__dict__ |= {**vars(call), **facts_of_call, "delta": record.guarantee.delta}
    plan: Any = SimpleNamespace(request=request, detail=facts, public_n=n, n=n, design=design)
    release: Any = SimpleNamespace(**{"reply": True, "design": design, "detail": None, **of})
    return resolve(call.verb, call.method).backend.estimate(plan, release)


class _SummedEffects:
    """Effects of independent tables: cells, variances and covariances add up over the sites."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        each = [getattr(part, name) for part in self._parts]
        return lambda *arguments: sum(part(*arguments) for part in each)

    def spread(self, axes: tuple[int, ...]) -> Any:
        """Return the law of the noise of a cell: variances and fourth cumulants add up."""
        each = [part.spread(axes) for part in self._parts]
        return Spread(sum(s.variance for s in each), sum(s.scale**4 for s in each) ** 0.25)


def _cells(titles: list[str], records: list[Record], design: Design, n: int | None) -> Estimate:
    """Return the printed numbers of the summed cells of tables."""
    layout, effects, products = layout_from(records[0]), [], []
    for title, record in zip(titles, records, strict=True):
        arrays = record.estimate.arrays
        if "released_table" not in arrays:
            raise NotReleasedError(
                f"{title} holds no cells that add up: it looked for windows of its own (type "
                "look=False), has weights=, quantiles=, medians= or suppress=, was pooled or read "
                "off moments, or is of an older version"
            )
        laplace, integers, budget, *shares = arrays["released_noise"].tolist()
        kind = "laplace" if laplace else "gaussian"
        noise = TableNoise(kind, budget, tuple(shares), bool(integers))
        effects.append(noise.measured(layout, arrays["released_table"], float(record.n or 0)))
        if "released_products" in arrays:
            pairs = PairPlan.of(layout, kind, float(arrays["released_pairs"][0]))
            products.append(pairs.read(arrays["released_products"]).of_block)
    together: Any = SimpleNamespace(measured=lambda *_: _SummedEffects(effects))
    summed: Any = None
    if len(products) == len(records):
        blocks = {b: [*zip(*(p[b] for p in products), strict=True)] for b in products[0]}
        sums = {b: (np.sum(each, axis=0), math.hypot(*sds)) for b, (each, sds) in blocks.items()}
        summed = SimpleNamespace(read=lambda _: Products(layout, sums))
    return _estimated(
        records[0], n, design, TableDetail(layout, together, None, summed),
        values={"table": None, "products": None},
        detail=Windows(*half_ranges(design), *np.zeros((2, design.p))),
    )  # fmt: skip


def _curves(_: list[str], records: list[Record], design: Design, n: int | None) -> Estimate:
    """Return the curves of the summed cells of follow-up."""
    first, arrays = curves_from(records[0])[0], [record.estimate.arrays for record in records]
    sd = math.hypot(*(float(each["sd"][0]) for each in arrays))
    cells = np.sum([each["cells"] for each in arrays], axis=0)
    facts = SurvivalDetail(first.layout, replace(first.noise, sd=sd))
    return _estimated(records[0], n, design, facts, values={"cells": cells})


def _rows(titles: list[str], tables: list[Any], promise: Guarantee) -> Any:
    """Return a noised table with the rows of all sites, whose noise has one law."""
    for j, name in enumerate(tables[0].names):
        ends = [f"{table.lower[j]:g} to {table.upper[j]:g}" for table in tables]
        same(f"the range of {name!r}", titles, ends)
        same(f"the noise sd of {name!r}", titles, [f"{t.noise_sd[j]:.9g}" for t in tables])
    for key in ("noise", "unit", "clear_prob", "public_columns"):
        same(f"{key}=", titles, [getattr(table, key) for table in tables])
    values = np.concatenate([table.values for table in tables], axis=1)
    values.setflags(write=False)
    return replace(
        tables[0], values=values, guarantee=promise,
        public={k: np.concatenate([t.public[k] for t in tables]) for k in tables[0].public},
        batches=tuple(size for table in tables for size in table.batches),
        expected_clear=sum(table.expected_clear for table in tables),
        origins=tuple(origin for table in tables for origin in table.origins),
    )  # fmt: skip
