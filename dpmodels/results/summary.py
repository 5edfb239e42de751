"""A summary: the numbers of a record and its notes, written into one table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError, shown
from dpmodels.privacy.run import OF_ITS_OWN
from dpmodels.registry import method_names, resolve
from dpmodels.results import inference
from dpmodels.results import inference as f
from dpmodels.results.record import (
    Record,
    event,
    interval_of,
    ranged,
    response,
    row_norm,
    rows_used,
)
from dpmodels.survey import Survey
from dpmodels.tables.content import Column, Content, Layout, Page, Row
from dpmodels.tables.numbers import by_row, number, places
from dpmodels.tables.table import Table, check_format
from dpmodels.units import column_of, named
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    from collections.abc import Mapping


# -- The sentences under a summary, from public and released numbers only.


_NA = {
    "zero-row": "rows with missing\nvalues contribute nothing",
    "impute-midpoint": "missing values\nwere replaced by the middle of the range",
    "declared": "missing values\nwere replaced by the declared constant, or the row contributes "
    "nothing",
}
_PRIVACY_SE = {
    "public": "The privacy part is the known scale of the added noise",
    "released": "The privacy part is the scale of the added noise, mapped by released numbers",
    "unavailable": "The privacy part is not available for this method",
}
STARS = "Stars: *** p < 0.001, ** p < 0.01, * p < 0.05, . p < 0.1."


#: What a sentence begins with -> its weight: what limits a fit first, what explains it last. A
#: condition of the guarantee weighs most. Methods write plain sentences, and files of earlier
#: versions hold such, so they are told by their first words.
_WEIGHTS = (
    (100, ("NOT PR", "The guarantee", "Private if", "Privacy of a whole row")),
    (95, ("Warning:", "More than half")),
    (90, ("Not determined", "No z and p", "Noise dominates", "The information of the weak",
          "About ")),
    (86, ("No standard errors", "No intervals")),
    (85, ("inference=False", "This fit released no", "No coefficient of this fit")),
    (80, ("Unit: one row", "First stage of", "Anderson-Rubin", "Suppressed:")),
    (75, ("May rest on few",)),
    (70, ("Ranges bought", "Ranges estimated", "That bias exceeds")),
    (65, ("Most of the variance",)),
    (60, ("Errors are model-based", "Privacy: converted")),
    (45, ("P and intervals allow", "Intervals and p-values are bias-aware", "Chosen by")),
    (42, ("Errors allow", "Each person counts once")),
    (40, ("Values outside", "Rows with missing")),
    (37, ("Predictions are shrunk",)),
    (35, ("Standard error", "Std. Error:")),
    (30, ("Largest share",)),
    (20, ("Not reported",)),
    (17, (OF_ITS_OWN,)),
    (15, ("Normal approximation", "t (", "Method chosen", "Moments only", "One stage", "Two stages",
          "R-squared is")),
)  # fmt: skip
_ORDINARY = 50
#: What predicts by coefficients that may be shrunk.
_BY_SHRUNK = frozenset(
    f"dpmodels.results.effects:{name}" for name in ("regression", "predict_quantiles")
)
#: So many notes are shown unless all are asked for, of each the first sentence.
SHOWN = 3
_NEXT_SENTENCE = re.compile(r"(?<=[.)])\s+(?=[A-Z])")


def notes_of(record: Record) -> tuple[str, ...]:
    """Return all notes of a fit with a table, in the order of weight."""

    def weight(note: str) -> int:
        return next((w for w, starts in _WEIGHTS if note.startswith(starts)), _ORDINARY)

    regression = not verb_of(record.call.verb).body
    parts = [
        *(_errors(record) if regression else []),
        *(_ranges(record) if regression else _bought(record)),
        *(_largest_share(record) if regression else []),
        *record.estimate.notes,
        *(f"Warning: {w}" for w in record.estimate.warnings),
        *_promise(record),
        *_shrunk(record),
        *_absent(record),
    ]
    conditions = (n for n in record.guarantee.notes if not n.startswith(OF_ITS_OWN))
    first = {" ".join(note.split()) for note in conditions}
    said = dict.fromkeys(" ".join(note.split()) for note in parts if note)
    return tuple(sorted(said, key=lambda n: -100 if n in first else -weight(n)))


def shown_notes(record: Record, *, full: bool, conditions: bool = False) -> tuple[str, ...]:
    """Return the notes that a summary shows: all, or a sentence each of those that weigh most.

    A condition of the guarantee is never cut. With ``conditions`` they alone are shown.
    """
    notes = notes_of(record)
    if full or not notes:
        return notes
    whole = {" ".join(note.split()) for note in record.guarantee.notes}
    if conditions:
        return tuple(n for n in notes if n in whole and not n.startswith(OF_ITS_OWN))
    *head, last = (
        note if note in whole else _NEXT_SENTENCE.split(note, maxsplit=1)[0]
        for note in notes[:SHOWN]
    )
    rest = len(notes) - SHOWN
    if rest > 0:
        last += f" ({rest} more note{'s' if rest > 1 else ''}: summary(full=True).)"
    elif (*head, last) != notes:
        last += " (In full: summary(full=True).)"
    return (*head, last)


# -- coefficients that deserve care ----------------------------------------------------------------

_MARKS = {
    "n": "not tested: too noisy at this budget (see the notes)",
    "c": "a combination of other columns, whatever the rows: drop a term",
}


def marks_of(record: Record) -> tuple[list[str], tuple[str, ...]]:
    """Return the mark of each coefficient, and the legend of those that occur."""
    est = record.estimate
    p = len(est.names)
    # an estimate and, of all, no error: a combination of others
    lost = np.isnan(inference.standard_errors(est))
    some = est.bias_bound is not None and not lost.all()
    which = {
        "n": np.zeros(p, dtype=bool) if est.untested is None else np.asarray(est.untested),
        "c": lost if some else np.zeros(p, dtype=bool),
    }
    cells = ["".join(mark for mark, those in which.items() if those[j]) for j in range(p)]
    legend = tuple(f"{m}  {words}" for m, words in _MARKS.items() if which[m].any())
    return cells, legend


def _shrunk(record: Record) -> list[str]:
    """Say which coefficients are others for predictions, by more than a quarter of an error."""
    if verb_of(record.call.verb).predict not in _BY_SHRUNK or not record.estimate.released:
        return []
    from dpmodels.results.effects import shrunk

    b, own = np.asarray(record.estimate.params), shrunk(record)
    se = inference.standard_errors(record.estimate)
    far = np.abs(own - b) > 0.25 * se
    if not far.any():
        return []
    names = [f"{n} {v:.3g}" for n, v, w in zip(record.estimate.names, own, far, strict=True) if w]
    more = ", ..." if len(names) > 4 else ""
    return [
        "Predictions are shrunk towards the middle of the declared range, as far as these are "
        f"noise: {', '.join(names[:4])}{more} (fit.shrunk)."
    ]


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
    whole = "Standard error² = sampling² + privacy²"
    if est.bias is not None:
        whole += "; possible clipping bias (Bias <=) is in P and intervals alone"
    reference = "Normal" if est.use_t is None else f"t ({est.use_t:g} degrees of freedom)"
    tested = any(step.reply_test for step in record.guarantee.steps)
    return [
        f"{whole}. "
        + _PRIVACY_SE.get(call.privacy_se, call.privacy_se)
        + "; the sampling part comes from private releases (fit.ledger).",
        f"{reference} approximation{', conditional on a reply' if tested else ''}.",
    ]


def _ranges(record: Record) -> list[str]:
    what = "estimated or declared" if record.bought else "declared"
    missing = _NA.get(record.call.na, record.call.na)
    moved = f"Values outside the {what} ranges were moved to the nearest bound, and {missing}. "
    if not ranged(record.design):  # public data took the place of ranges: nothing is clipped
        moved = f"{missing[0].upper()}{missing[1:]}. "
    counted = COMPLETE in record.estimate.stats
    many = "How many exactly is private." if counted else "How many is private and is not reported."
    return [*_bought(record), moved + many]


def _bought(record: Record) -> list[str]:
    if not record.bought:
        return []
    part = record.shares.get("ranges")
    cost = f", for {f.percent(part)} of the budget" if part else ""
    found = [(name, interval_of(record.design, name)) for name in record.bought]
    ranges = ", ".join(name if i is None else f"{name} {f.interval(i)}" for name, i in found)
    return [f"Ranges estimated{cost} (declared ones cost nothing: bounds= or schema=): {ranges}."]


def _largest_share(record: Record) -> list[str]:
    shares = inference.privacy_share(record.estimate)
    if np.isnan(shares).all():
        return []
    j = int(np.nanargmax(shares))
    name, most = record.estimate.names[j], float(shares[j])
    what = "Most of the" if most > 0.5 else "Largest share of"
    what += " variance is due to privacy" if most > 0.5 else " variance due to privacy"
    verb, method = record.call.verb, record.call.method
    known = method in method_names(verb)  # a file may come from where other methods are registered
    told = not record.bought and known and resolve(verb, method).foretells
    more = "; dp.plan() predicts by how much, at no cost" if told else ""
    return [f"{what}: {name}, {f.percent(most)}. More data or a larger ε narrows it{more}."]


def _promise(record: Record) -> list[str]:
    """Return what qualifies the privacy statement."""
    promise = record.guarantee
    notes = []
    name = record.call.identifier
    if name:
        notes.append(
            f"Unit: one row: if {name} names people who may have several rows, unit={name!r} "
            "protects a person."
        )
    if promise.proved == "add-remove" and promise.relation == "replace":
        notes.append("Privacy: converted from a proof for add or remove one row.")
    if promise.record_pair is not None:
        eps, delta = promise.record_pair
        notes.append(f"Privacy of a whole row: (ε = {eps:g}, δ = {delta:g})-DP.")
    return [*notes, *promise.notes]


#: What follows from the numbers that a fit by moments or by scores releases, where it can.
_FOLLOWS = {"r-squared": ("score_clip", "effective_rows")}


def _absent(record: Record) -> list[str]:
    """Say what readers look for and do not find: only where really nothing was spent on it."""
    verb, stats = verb_of(record.call.verb), record.estimate.stats
    given = {label.lower() for label, key in verb.header if key in stats}
    words = [w for w in verb.absent if w.lower() not in given]
    # released numbers would tell it, but not with weights, without an intercept or of people
    told = [w for w in words if any(k in stats for k in _FOLLOWS.get(w.lower(), ()))]
    words = [w for w in words if w not in told]
    out = [f"Not reported because nothing was spent on it: {', '.join(words)}."] if words else []
    if told:
        if column_of(record.guarantee.unit) is not None:
            why = "the residual variance is of people, not of rows"
        elif record.design.weights is not None:
            why = "with weights= the released sums are those of weighted rows"
        elif not record.design.has_intercept:
            why = "without an intercept there is no share to explain"
        else:
            why = "the released moments do not determine it"
        out.append(f"Not reported: {', '.join(told)} ({why}).")
    return out


def _declare(record: Record) -> list[str]:
    if not record.bought:
        return []
    shown = ", ".join(f'"{name}": (lower, upper)' for name in record.bought[:2])
    rest = ", ..." if len(record.bought) > 2 else ""
    return [f"Declared ranges cost nothing and leave nothing to search: bounds={{{shown}{rest}}}"]


def no_reply_page(record: Record) -> Page:
    """Return the page of a fit without a reply: why, what it cost, what to try. All public."""
    promise, call = record.guarantee, record.call
    failed = (
        "The private search for the ranges of undeclared variables did not find one for every "
        "variable"
        if record.why == "ranges"
        else "The private test did not pass"
    )
    if record.why == "rows":
        failed = "The call stopped before the fit, as too few rows are usable by a noisy count"
    text = (
        f"{failed}, so the method answered with its data-independent reply. This is a valid "
        "private outcome, not an error: it happens by design when the data may be too sensitive "
        "for the requested accuracy, and sometimes by chance alone."
    )
    nan = bool(np.isnan(record.estimate.params).all())
    louder = "a larger noise level (alpha=), " if "alpha" in call.options else ""
    bullets = [
        f"{record.returned} went back to the budget, as it was not drawn; a no-reply also reveals "
        "something, and the rest of the charge stands."
        if record.returned
        else f"The full charge {f.pair(promise.eps, promise.delta)} is recorded: a no-reply also "
        "reveals something.",
        'params are nan; pass on_no_reply="default" to receive the method\'s fixed reply instead.'
        if nan
        else "params hold the method's fixed reply, which does not depend on the data.",
        *(record.estimate.notes or _declare(record)),
        f"Public ways to make a reply more likely: a larger ε or δ, {louder}fewer or narrower "
        "terms, tighter declared ranges. dp.plan() shows what each does to the noise.",
        "Fitting again on the same data is a new release with a new charge.",
    ]
    return Page(text, tuple(bullets))


# -- A summary: the numbers of a record, written into one :class:`~dpmodels.tables.Table`.


#: A summary is a table like any other.
Summary = Table
_LAYOUT = Layout(fluid=True, gap=1, heading="Notes:", mark="[{k}] ", wrap=True, across=2)
#: Among the statistics of a fit: share of the rows (people) that count, from a released count; it
#: is printed where its sd is at most so much.
COMPLETE, UNSURE = "complete_share", 0.1
_RATIOS = (
    "Exponentiated: estimates and ends of intervals are ratios; P is that of the coefficients, "
    "whose standard errors are in summary()."
)


def build(
    record: Record,
    *,
    fmt: str | None = None,
    digits: int = 4,
    stars: bool = False,
    notes: bool = True,
    full: bool = False,
    level: float | None = None,
    exponentiate: bool = False,
    **requests: Any,
) -> Summary:
    """Write the numbers of a record into a summary; ``requests`` are those of its kind's body."""
    fmt = check_format(fmt)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 12:
        raise RequestError(
            f"digits={shown(digits)}: must be an int from 1 to 12, for example digits=4"
        )
    kind = verb_of(record.call.verb)
    silent = not record.estimate.released
    no_table = silent and bool((record.estimate.params != record.estimate.params).all())
    level = record.call.level if level is None else level
    own = None if silent else kind.load("body")
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    more: tuple[Content, ...] = ()
    legend: tuple[str, ...] = ()
    footnotes: tuple[str, ...] = ()
    if own is not None:
        body = own(record, digits, level, **requests)
        if isinstance(body, Table):
            columns, rows, more, footnotes = body.columns, body.rows, body.more, body.notes
        else:
            columns, rows, more = body
    elif not no_table:
        columns, rows, legend = _table(
            record, kind.estimates, digits, level, stars, exponentiate=exponentiate
        )
    return Summary(
        title=f"Differentially private {kind.title}",
        facts=_header(record, full),
        aside=_facts(record, full),
        columns=columns,
        rows=rows,
        page=no_reply_page(record) if silent else None,
        notes=(
            *((_RATIOS,) if exponentiate else ()), *footnotes,
            *shown_notes(record, full=full, conditions=bool(footnotes)),
        )
        if notes and not silent
        else (),
        statement=f.greek(record.guarantee.statement()),
        more=more,
        layout=_LAYOUT,
        fmt=fmt,
        legend=legend,
    )


def _header(record: Record, full: bool) -> tuple[tuple[str, str], ...]:
    promise, call = record.guarantee, record.call
    pair = promise.statement() if promise.seeded else f"{f.pair(promise.eps, promise.delta)}-DP"
    who = f"; unit: {named(promise.unit)}" if promise.unit != "record" else ""
    lines = [
        ("Formula", call.formula),
        ("Privacy", f"{pair}; neighbours: {promise.neighbours}{who}"),
        ("Method", f'{call.method_title} (method="{call.method}")'),
    ]
    for label, key in verb_of(call.verb).says:  # what makes the model what it is
        if call.options.get(key) is not None:
            lines.append((label, f"{call.options[key]}"))
    what = event(record.design)
    lines += [("Event", what)] if what else []
    lines += rows_used(record.design)
    sample = "" if call.survey is None else Survey.from_dict(call.survey).text
    if sample:
        lines.append(("Design", sample))
    if record.shares and full:
        words = ", ".join(f"{name} {100 * v:.3g}" for name, v in record.shares.items())
        lines.append(("Split, %", words))
    return tuple(lines)


def _facts(record: Record, full: bool) -> tuple[tuple[str, str], ...]:
    kind, stats = verb_of(record.call.verb), record.estimate.stats
    # the number of rows of a person is private
    counted = "Observations" if column_of(record.guarantee.unit) is None else "People"
    facts = [(counted, "private" if record.n is None else str(record.n))]
    if COMPLETE in stats and (full or stats[f"{COMPLETE}_se"] <= UNSURE):
        of, sd = (100 * stats[key] for key in (COMPLETE, f"{COMPLETE}_se"))
        facts.append(("of which used", f"{of:.0f} % (sd {sd:.1f})"))
    if full or kind.body:
        facts.append((kind.count, str(len(record.estimate.names))))
    norm = row_norm(record.design)
    if full and norm == norm and not kind.body:
        facts.append(("Row norm bound", number(norm, 4)))
    if full or not record.estimate.released:
        facts.append(("Reply", "released" if record.estimate.released else "NO REPLY"))
    for label, key in kind.header:
        if key in stats:
            facts.append((label, _with_error(stats, key)))
    return tuple(facts)


def _with_error(stats: Mapping[str, float], key: str) -> str:
    """Return ``0.2531 (0.0110)``; of a share with an interval ``0.253 [.21,.29]``, as wide."""
    value, error = stats[key], stats.get(f"{key}_se")
    if f"{key}_low" in stats:
        low, high = (f"{stats[key + end]:.2f}".removeprefix("0")[:3] for end in ("_low", "_high"))
        return f"{value:.3f} [{low},{high}]"
    few = 0 if key == "events" else 4
    return number(value, few) + (f" ({number(error, 4)})" if error is not None else "")


def _table(
    record: Record,
    estimates: str,
    digits: int,
    level: float,
    stars: bool,
    *,
    exponentiate: bool = False,
) -> tuple[tuple[Column, ...], tuple[Row, ...], tuple[str, ...]]:
    """Return columns, rows and legend of the coefficients; ``n/a`` where nothing was released."""
    est = record.estimate
    low, high = inference.conf_int(est, level)
    params = np.asarray(est.params)
    if exponentiate:
        params, low, high = np.exp(params), np.exp(low), np.exp(high)
        estimates = f"exp({estimates})"
    low_name, high_name = inference.bound_names(level)
    p = inference.p_values(est)
    letter = "z" if est.use_t is None else "t"
    error = inference.standard_errors(est)
    parts = {kind: inference.standard_errors(est, kind) for kind in ("sampling", "privacy")}
    known = error if np.isfinite(error).any() else parts["privacy"]
    few = places(known * np.abs(params) if exponentiate else known, digits)
    marks, legend = marks_of(record)
    biased = est.bias is not None and bool((np.nan_to_num(est.bias) > 0.0).any())
    marked = [m + f.stars(v) for m, v in zip(marks, p, strict=True)] if stars else marks

    def column(name: str, values: Any, width: int, **where: Any) -> tuple[Column, list[str]]:
        return Column(name, width=width, **where), by_row(values, few, digits)

    # errors of a ratio are those of its logarithm: its interval says what is known
    errors = [] if exponentiate else [
        column("Std. Error", error, 10, blocks=(0, 1)),
        column("sampling", parts["sampling"], 8, blocks=(1,)),
        column("privacy", parts["privacy"], 7, blocks=(1,)),
    ]  # fmt: skip
    if biased and not exponentiate:
        errors.append(column("Bias <=", np.asarray(est.bias), 7, blocks=(1,)))
    spec = (
        (Column(left=True, width=8, stretch=_LAYOUT.width, over=True, blocks=(0, 1)), est.names),
        column(estimates, params, 10),
        *errors,
        column(low_name, low, 7),
        column(high_name, high, 8),
        (Column(f"P>|{letter}|", width=8), f.tested([f.p_value(v) for v in p], est.untested)),
        *([(Column(left=True, width=3 if stars else 1), marked)] if any(marked) or stars else []),
    )
    if biased:
        legend = (*legend, inference.bias_rule(level))
    columns = tuple(column for column, _ in spec)
    cells = zip(*(texts for _, texts in spec), strict=True)
    return columns, tuple(map(Row, cells)), (*legend, *((STARS,) if stars else ()))


def response_of(record: Record) -> str:
    """Return the text of the response: of the design, else of the formula."""
    return response(record.design) or record.call.formula.partition("~")[0].strip()
