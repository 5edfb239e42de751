"""The sentences under a summary, from public and released numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmodels.registry import method_names, resolve
from dpmodels.results import formats as f
from dpmodels.results import inference
from dpmodels.results.design_facts import interval_of, ranged
from dpmodels.tables import Page
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    from dpmodels.results.record import Record

__all__ = ["STARS", "no_reply_page", "notes_of"]

_NA = {
    "zero-row": "rows with missing\nvalues were replaced by zero rows",
    "impute-midpoint": "missing values\nby the middle of the range",
    "declared": "missing values\nby the declared constant, or the row by a zero row",
}
_PRIVACY_SE = {
    "public": "The privacy part is the known scale of the added noise",
    "released": "The privacy part is the scale of the added noise, mapped by released numbers",
    "unavailable": "The privacy part is not available for this method",
}
STARS = "Stars: *** p < 0.001, ** p < 0.01, * p < 0.05, . p < 0.1."


def notes_of(record: Record, *, stars: bool) -> tuple[str, ...]:
    """Return the notes of a fit with a table, in the order of printing."""
    regression = not verb_of(record.call.verb).body
    parts = [
        *(_errors(record) if regression else []),
        *(_ranges(record) if regression else _bought(record)),
        *(_largest_share(record) if regression else []),
        *record.estimate.notes,
        *(f"Warning: {w}" for w in record.estimate.warnings),
        *_promise(record),
        *_absent(record),
        *([STARS] if stars else []),
    ]
    return tuple(" ".join(note.split()) for note in parts if note)


def _errors(record: Record) -> list[str]:
    est, call = record.estimate, record.call
    if est.vcov_sampling is None and not call.inference:
        return [
            "inference=False asked for no sampling uncertainty, so total standard errors, tests "
            "and intervals do not exist for this fit. A fit with inference=True is a new charge."
        ]
    if est.vcov_sampling is None or est.vcov_privacy is None:
        return [
            "This fit released no "
            + ("sampling" if est.vcov_sampling is None else "privacy")
            + " part of the standard errors, so total standard errors, tests and intervals "
            "do not exist for this fit."
        ]
    if np.isnan(est.params).all() or np.isnan(inference.standard_errors(est)).all():
        return ["No coefficient of this fit has standard errors: the notes below say why."]
    whole = (
        "total² = sampling² + privacy²"
        if est.bias is None
        else "total: sampling, privacy and what an interval allows for a bias (fit.errors())"
    )
    reference = "Normal" if est.use_t is None else f"t ({est.use_t:g} degrees of freedom)"
    tested = any(step.reply_test for step in record.guarantee.steps)
    return [
        f"Std. Error: {whole}. "
        + _PRIVACY_SE.get(call.privacy_se, call.privacy_se)
        + "; the sampling part comes from private releases (fit.ledger).",
        f"{reference} approximation{', conditional on a reply' if tested else ''}.",
    ]


def bought_ranges(record: Record) -> list[str]:
    """Return ``alcohol [8, 14]`` for each column whose range was bought."""
    found = [(name, interval_of(record.design, name)) for name in record.bought]
    return [name if i is None else f"{name} {f.interval(i)}" for name, i in found]


def _ranges(record: Record) -> list[str]:
    what = "bought or declared" if record.bought else "declared"
    missing = _NA.get(record.call.na, record.call.na)
    moved = f"Values outside the {what} ranges were moved to the nearest bound and {missing}. "
    if not ranged(record.design):  # public data took the place of ranges: nothing is clipped
        moved = f"{missing[0].upper()}{missing[1:]}. "
    # a share from a released count may stand among the notes of the estimate
    counted = any("of the rows were empty" in note for note in record.estimate.notes)
    many = "How many exactly is private." if counted else "How many is private and is not reported."
    return [*_bought(record), moved + many]


def _bought(record: Record) -> list[str]:
    if not record.bought:
        return []
    return [
        "Ranges bought from the budget (declared ones cost nothing: bounds= or schema=): "
        + ", ".join(bought_ranges(record))
        + "."
    ]


def _largest_share(record: Record) -> list[str]:
    shares = inference.privacy_share(record.estimate)
    if np.isnan(shares).all():
        return []
    j = int(np.nanargmax(shares))
    return [
        f"Largest share of variance due to privacy: {record.estimate.names[j]}, "
        f"{f.percent(float(shares[j]))}. More data or a larger ε narrows it{_foretold(record)}."
    ]


def _foretold(record: Record) -> str:
    """Return where to learn by how much, for the methods whose plan says it."""
    if record.bought or not _foretells(record.call.verb, record.call.method):
        return ""
    return "; dp.plan() predicts by how much, at no cost"


def _foretells(verb: str, method: str) -> bool:
    """Say whether the plans of a method print expected errors; one that is not known here: no."""
    return method in method_names(verb) and resolve(verb, method).foretells


def _promise(record: Record) -> list[str]:
    """Return what qualifies the privacy statement."""
    promise = record.guarantee
    notes = []
    name = record.call.identifier
    if name:
        notes.append(
            f"Unit: one row. If {name} names people who may have several rows, unit={name!r} "
            "protects a person."
        )
    if promise.proved == "add-remove" and promise.relation == "replace":
        notes.append("Privacy: converted from a proof for add or remove one row.")
    if promise.record_pair is not None:
        eps, delta = promise.record_pair
        notes.append(f"Privacy of a whole row: (ε = {eps:g}, δ = {delta:g})-DP.")
    return [*notes, *promise.notes]


def _absent(record: Record) -> list[str]:
    verb, stats = verb_of(record.call.verb), record.estimate.stats
    given = {label.lower() for label, key in verb.header if key in stats}
    words = [w for w in verb.absent if w.lower() not in given]
    return [f"Not reported because nothing was spent on it: {', '.join(words)}."] if words else []


def _declare(record: Record) -> list[str]:
    if not record.bought:
        return []
    shown = ", ".join(f'"{name}": (lower, upper)' for name in record.bought[:2])
    rest = ", ..." if len(record.bought) > 2 else ""
    return [f"Declared ranges cost nothing and leave nothing to search: bounds={{{shown}{rest}}}"]


def no_reply_page(record: Record) -> Page:
    """Return the page of a fit without a reply: why, what it cost, what to try. All public."""
    promise, call = record.guarantee, record.call
    if record.why == "ranges":
        start = (
            "The private search for the ranges of undeclared variables did not find one for every "
            "variable, so the method answered with its data-independent reply."
        )
    else:
        start = (
            "The private test did not pass, so the method answered with its data-independent reply."
        )
    text = (
        f"{start} This is a valid private outcome, not an error: it happens by design when the "
        "data may be too sensitive for the requested accuracy, and sometimes by chance alone."
    )
    nan = bool(np.isnan(record.estimate.params).all())
    bullets = [
        f"The full charge {f.pair(promise.eps, promise.delta)} is recorded: a no-reply also "
        "reveals something.",
        'params are nan; pass on_no_reply="default" to receive the method\'s fixed reply instead.'
        if nan
        else "params hold the method's fixed reply, which does not depend on the data.",
        *(record.estimate.notes or _declare(record)),
        "Public ways to make a reply more likely: a larger ε or δ, a larger noise level "
        "(alpha=), fewer or narrower terms, tighter declared ranges. dp.plan() shows what each "
        "does to the noise."
        if "alpha" in call.options
        else "Public ways to make a reply more likely: a larger ε or δ, fewer or narrower "
        "terms, tighter declared ranges. dp.plan() shows what each does to the noise.",
        "Fitting again on the same data is a new release with a new charge.",
    ]
    return Page(text, tuple(bullets))
