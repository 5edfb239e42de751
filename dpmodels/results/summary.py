"""A summary: the numbers of a record and its notes, written into one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.errors import RequestError, shown
from dpmodels.notes import Note, Severity, note_of
from dpmodels.registry import method_names, resolve
from dpmodels.results import inference
from dpmodels.results import inference as f
from dpmodels.results.effects import shrunk
from dpmodels.results.factors import effects_line, listed_rows
from dpmodels.results.joint import conf_int, level_of
from dpmodels.results.record import (
    Record,
    event,
    has_method_test,
    has_ranges,
    interval_of,
    response,
    row_norm,
    rows_used,
)
from dpmodels.survey import Survey
from dpmodels.tables.content import Column, Layout, Page
from dpmodels.tables.numbers import by_row, number, places, space_thousands
from dpmodels.tables.table import Table, check_format, grid
from dpmodels.units import column_of, named
from dpmodels.verbs import verb_of

# -- The sentences under a summary, from public and released numbers only.


_NA = {
    "zero-row": "incomplete rows were dropped",
    "impute-midpoint": "missing values were set to mid-range",
    "declared": "missing values were set to the declared constant, or the row was dropped",
}
_PRIVACY_SE = {
    "public": "known sd of the added noise",
    "released": "sd of the added noise, propagated to the coefficient by released numbers",
    "unavailable": "not available for this method",
}
STARS = "Stars: *** p < 0.001, ** p < 0.01, * p < 0.05, . p < 0.1."


#: Functions that predict by coefficients that may be shrunk.
_BY_SHRUNK = frozenset(
    f"dpmodels.results.effects:{name}" for name in ("regression", "predict_quantiles")
)
#: A summary shows all notes on the guarantee and at most this many others.
SHOWN = 3
#: Notes of one summary that name the same coefficient.
_MOST_OF_A_COLUMN = 2


def notes_of(record: Record) -> tuple[Note, ...]:
    """Return all notes of a fit with a table, the most severe first."""
    regression = not verb_of(record.call.verb).body
    parts: list[Note] = [
        *(_errors(record) if regression else []),
        *(_ranges(record) if regression else _ranges_note(record)),
        *(_largest_share(record) if regression else []),
        *(note_of(note) for note in record.estimate.notes),
        *map(_warning, record.estimate.warnings),
        *_guarantee_notes(record),
        *_shrunk(record),
        *_absent(record),
    ]
    return tuple(messages.sort_notes(list(dict.fromkeys(parts))))


def _warning(text: str) -> Note:
    """Return the note of a warning: its first sentence, then the others."""
    plain = note_of(text)
    return messages.WARNING(text=plain.short, more=plain.long)


def _select_notes(notes: Sequence[Note]) -> list[Note]:
    """Return all notes on the guarantee and up to three others.

    A caution is left out if notes that a number is invalid name all its columns, and no column is
    named by more than two notes.
    """
    out = [note for note in notes if note.severity == Severity.GUARANTEE]
    named: dict[str, int] = {}
    invalid: set[str] = set()
    free = SHOWN
    for note in notes:
        if note.severity == Severity.GUARANTEE or not free:
            continue
        columns = set(note.columns)
        if columns and note.severity == Severity.CAUTION and columns <= invalid:
            continue
        if columns and all(named.get(c, 0) >= _MOST_OF_A_COLUMN for c in columns):
            continue
        if note.severity == Severity.INVALID:
            invalid |= columns
        for column in columns:
            named[column] = named.get(column, 0) + 1
        out.append(note)
        free -= 1
    return out


def shown_notes(record: Record, *, full: bool, conditions: bool = False) -> tuple[str, ...]:
    """Return the texts of the notes that a summary shows.

    With ``full`` all notes in their long form. Without it the short form of up to three notes, and
    the long form of all conditions of the guarantee; with ``conditions`` these alone.
    """
    notes = notes_of(record)
    if conditions:
        return tuple(n.text() for n in notes if n.severity == Severity.GUARANTEE)
    if full or not notes:
        return tuple(note.text() for note in notes)
    chosen = _select_notes(notes)
    *head, last = (note.text(full=note.severity == Severity.GUARANTEE) for note in chosen)
    left_out = len(notes) - len(chosen)
    if left_out > 0:
        last += f" ({left_out} more note{'s' if left_out > 1 else ''}: summary(full=True).)"
    elif (*head, last) != tuple(note.text() for note in notes):
        last += " (In full: summary(full=True).)"
    return (*head, last)


# -- coefficients that deserve care ----------------------------------------------------------------

_MARKS = {
    "n": "not tested (see the notes)",
    "b": "P n/d: the allowance for bias, above three standard errors, decides the interval",
    "c": "a combination of other columns, whatever the rows: drop a term",
}


def marks_of(record: Record) -> tuple[list[str], tuple[str, ...]]:
    """Return the mark of each coefficient, and the legend of those that occur."""
    est = record.estimate
    p = len(est.names)
    # an estimate and, of all, no error: a combination of others
    lost = np.isnan(inference.standard_errors(est))
    any_determined = est.bias_bound is not None and not lost.all()
    untested = np.zeros(p, dtype=bool) if est.untested is None else np.asarray(est.untested)
    which = {
        "n": untested,
        "b": inference.decided_by_bias(est) & ~untested,
        "c": lost if any_determined else np.zeros(p, dtype=bool),
    }
    cells = ["".join(mark for mark, those in which.items() if those[j]) for j in range(p)]
    legend = tuple(f"{m}  {words}" for m, words in _MARKS.items() if which[m].any())
    return cells, legend


def _shrunk(record: Record) -> list[Note]:
    """Return a note with the coefficients that predictions shrink by over a quarter of an error."""
    if verb_of(record.call.verb).predict not in _BY_SHRUNK or not record.estimate.released:
        return []
    b, used = np.asarray(record.estimate.params), shrunk(record)
    se = inference.standard_errors(record.estimate)
    far = np.abs(used - b) > 0.25 * se
    if not far.any():
        return []
    names = [f"{n} {v:.3g}" for n, v, w in zip(record.estimate.names, used, far, strict=True) if w]
    ellipsis = ", ..." if len(names) > 4 else ""
    return [messages.SHRUNK_PREDICTIONS(names=", ".join(names[:4]) + ellipsis)]


def _errors(record: Record) -> list[Note]:
    """Return notes on the parts of the standard errors, or on why there are none."""
    est, call = record.estimate, record.call
    if est.vcov_sampling is None and not call.inference:
        return [messages.NO_ERRORS_ASKED()]
    if est.vcov_sampling is None or est.vcov_privacy is None:
        part = "sampling" if est.vcov_sampling is None else "privacy"
        return [messages.NO_ERRORS_RELEASED(part=part)]
    if np.isnan(est.params).all() or np.isnan(inference.standard_errors(est)).all():
        return [messages.NO_ERRORS()]
    bias = "" if est.bias is None else "; clipping bias (Bias <=) is in P and intervals only"
    tested = has_method_test(record.guarantee)
    return [
        messages.STANDARD_ERROR(
            bias=bias, privacy=_PRIVACY_SE.get(call.privacy_se, call.privacy_se)
        ),
        messages.REFERENCE(
            distribution="normal" if est.use_t is None else f"t ({est.use_t:g} degrees of freedom)",
            tested=", given that the private test passed" if tested else "",
        ),
    ]


def _ranges(record: Record) -> list[Note]:
    """Return notes on clipped and missing values, and on estimated ranges."""
    missing = _NA.get(record.call.na, record.call.na)
    template = messages.CLIPPED_VALUES if has_ranges(record.design) else messages.MISSING_VALUES
    return [*_ranges_note(record), template(missing=missing)]


def _ranges_note(record: Record) -> list[Note]:
    """Return a note with the ranges that were estimated, if any."""
    if not record.bought:
        return []
    part = record.shares.get("ranges")
    cost = f", for {f.percent(part)} of the budget" if part else ""
    intervals = [(name, interval_of(record.design, name)) for name in record.bought]
    ranges = ", ".join(name if i is None else f"{name} {f.interval(i)}" for name, i in intervals)
    return [messages.RANGES_ESTIMATED(cost=cost, ranges=ranges)]


def _largest_share(record: Record) -> list[Note]:
    """Return a note with the coefficient whose variance is privacy noise to the largest part."""
    shares = inference.privacy_share(record.estimate)
    if np.isnan(shares).all():
        return []
    j = int(np.nanargmax(shares))
    name, most = record.estimate.names[j], float(shares[j])
    verb, method = record.call.verb, record.call.method
    is_registered = method in method_names(
        verb
    )  # a file may come from where other methods are registered
    foretells = not record.bought and is_registered and resolve(verb, method).foretells
    template = messages.MAJORITY if most > 0.5 else messages.LARGEST_SHARE
    plan = " dp.plan() shows by how much, at no cost." if foretells else ""
    return [template(name=name, share=f.percent(most), plan=plan)]


def _guarantee_notes(record: Record) -> list[Note]:
    """Return the qualifications of the privacy statement."""
    promise = record.guarantee
    notes = []
    name = record.call.identifier
    if name:
        notes.append(messages.IDENTIFIER(name=name))
    if promise.proved == "add-remove" and promise.relation == "replace":
        notes.append(messages.CONVERTED())
    if promise.record_pair is not None:
        eps, delta = promise.record_pair
        notes.append(messages.WHOLE_ROW(eps=eps, delta=delta))
    return [*notes, *promise.notes]


#: Header values that follow from the numbers that a fit by moments or by scores releases.
_FOLLOWS = {"r-squared": ("score_clip", "effective_rows")}


def _absent(record: Record) -> list[Note]:
    """Return notes on the usual outputs that this fit does not have, and why."""
    verb, stats = verb_of(record.call.verb), record.estimate.stats
    released = {label.lower() for label, key in verb.header if key in stats}
    words = [w for w in verb.absent if w.lower() not in released]
    # released numbers determine these, except with weights, without an intercept or of people
    derived = [w for w in words if any(k in stats for k in _FOLLOWS.get(w.lower(), ()))]
    words = [w for w in words if w not in derived]
    out = [messages.NOTHING_SPENT(names=", ".join(words))] if words else []
    if derived:
        if column_of(record.guarantee.unit) is not None:
            why = "the residual variance is of people, not of rows"
        elif record.design.weights is not None:
            why = "with weights= the released sums are those of weighted rows"
        elif not record.design.has_intercept:
            why = "without an intercept there is no share to explain"
        else:
            why = "the released moments do not determine it"
        out.append(messages.NOT_DERIVED(names=", ".join(derived), why=why))
    return out


def _declare(record: Record) -> list[str]:
    """Return the advice to declare the ranges that were estimated, if any."""
    if not record.bought:
        return []
    shown = ", ".join(f'"{name}": (lower, upper)' for name in record.bought[:2])
    ellipsis = ", ..." if len(record.bought) > 2 else ""
    return [
        f"Declared ranges cost nothing and leave nothing to search: bounds={{{shown}{ellipsis}}}"
    ]


def no_reply_page(record: Record) -> Page:
    """Return the page of a fit without a reply: reason, cost and remedies. All of it is public."""
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
        *([str(note) for note in record.estimate.notes] or _declare(record)),
        f"Public ways to make a reply more likely: a larger ε or δ, {louder}fewer or narrower "
        "terms, tighter declared ranges. dp.plan() shows what each does to the noise.",
        "Fitting again on the same data is a new release with a new charge.",
    ]
    return Page(text, tuple(bullets))


# -- A summary: the numbers of a record, written into one :class:`~dpmodels.tables.Table`.


#: A summary is a table like any other.
Summary = Table
_SUMMARY_LAYOUT = Layout(fluid=True, gap=1, heading="Notes:", mark="[{k}] ", wrap=True, across=2)
#: Among the statistics of a fit: share of the rows (people) that count, from a released count; it
#: is printed if its sd is at most this.
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
    labels: bool = True,
    joint: bool = False,
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
    body_of = None if silent else kind.load("body")
    body = Table()
    footnotes: tuple[str, ...] = ()
    if body_of is not None:
        if joint:
            level, note = level_of(record, level)
            footnotes = (note,)
        body = body_of(record, digits, level, **requests)
        footnotes = (*footnotes, *body.notes)
    elif not no_table:
        body = _table(
            record, kind.estimates, digits, level, stars, exponentiate=exponentiate, labels=labels,
            joint=joint,
        )  # fmt: skip
        below = None if silent else kind.load("tables")
        body = body if below is None else replace(body, more=below(record, digits))
    incidence = kind.kind == "SurvivalCurves" and record.design.survival.causes
    return replace(
        body,
        title=f"Differentially private {'cumulative incidence' if incidence else kind.title}",
        facts=_header(record, full),
        aside=_facts(record, full),
        page=no_reply_page(record) if silent else None,
        notes=(
            *((_RATIOS,) if exponentiate else ()), *footnotes,
            *shown_notes(record, full=full, conditions=bool(footnotes)),
        )
        if notes and not silent
        else (),
        statement=f.greek(record.guarantee.statement()),
        layout=_SUMMARY_LAYOUT,
        fmt=fmt,
    )


def _header(record: Record, full: bool) -> tuple[tuple[str, str], ...]:
    """Return the lines at the top of a summary: formula, guarantee, method, model."""
    promise, call = record.guarantee, record.call
    pair = promise.statement() if promise.seeded else f"{f.pair(promise.eps, promise.delta)}-DP"
    who = f"; unit: {named(promise.unit)}" if promise.unit != "record" else ""
    lines = [
        ("Formula", call.formula),
        ("Privacy", f"{pair}; neighbours: {promise.neighbours}{who}"),
        ("Method", f"{call.method_title} ({_ending_name(record)})"),
    ]
    for label, key in verb_of(call.verb).says:  # what makes the model what it is
        if call.options.get(key) is not None:
            lines.append((label, f"{call.options[key]}"))
    what = event(record.design)
    lines += [("Event", what)] if what else []
    stats = record.estimate.stats
    if COMPLETE in stats and (full or stats[f"{COMPLETE}_se"] <= UNSURE):
        lines.append(_used(record, stats[COMPLETE], stats[f"{COMPLETE}_se"]))
    lines += (*rows_used(record.design), *effects_line(record))
    sample = "" if call.survey is None else Survey.from_dict(call.survey).text
    if sample:
        lines.append(("Design", sample))
    if record.shares and full:
        words = ", ".join(f"{name} {100 * v:.3g}" for name, v in record.shares.items())
        lines.append(("Split, %", words))
    return tuple(lines)


def _ending_name(record: Record) -> str:
    """Return the name of the ending of a fit by moments or scoring, else the method argument."""
    call, stats = record.call, record.estimate.stats
    if call.verb == "dp_ols" and call.method in ("ssp", "pmt") and stats:
        return "scoring" if "score_clip" in stats else "moments"
    return f'method="{call.method}"'


def _facts(record: Record, full: bool) -> tuple[tuple[str, str], ...]:
    """Return the facts in the header of a summary: number of rows, statistics."""
    kind, stats = verb_of(record.call.verb), record.estimate.stats
    # the number of rows of a person is private
    counted = "Observations" if column_of(record.guarantee.unit) is None else "People"
    facts = [(counted, "private" if record.n is None else str(record.n))]
    if full or kind.body:
        facts.append((kind.count, str(len(record.estimate.names))))
    norm = row_norm(record.design)
    if full and norm == norm and not kind.body:
        facts.append(("Row norm bound", number(norm, 4)))
    if (full and has_method_test(record.guarantee)) or not record.estimate.released:
        facts.append(("Reply", "released" if record.estimate.released else "NO REPLY"))
    for label, key in kind.header:
        if key in stats:
            facts.append((label, _with_error(stats, key)))
    return tuple(facts)


def _used(record: Record, share: float, sd: float) -> tuple[str, str]:
    """Return the label and the text of the rows (people) that a fit used, by a noisy count."""
    label = "Rows used" if column_of(record.guarantee.unit) is None else "People used"
    n = record.n
    if n is None:
        return label, f"{100 * share:.0f} % (noisy, +- {100 * sd:.1f} %)"
    used, noise = _no_finer(n * share, n * sd, 1)
    return label, f"{used} of {space_thousands(n)} (noisy, +- {noise})"


def _with_error(stats: Mapping[str, float], key: str) -> str:
    """Return ``0.2531 (0.0110)``, or ``0.253 [.21,.29]`` for a share with an interval."""
    value, error = stats[key], stats.get(f"{key}_se")
    if f"{key}_low" in stats:
        low, high = (f"{stats[key + end]:.2f}".removeprefix("0")[:3] for end in ("_low", "_high"))
        return f"{value:.3f} [{low},{high}]"
    if key == "events":
        return _about(value, error)
    if key == "df" and error is None and value == round(value):
        return str(round(value))
    return number(value, 4) + (f" ({number(error, 4)})" if error is not None else "")


def _about(count: float, sd: float | None) -> str:
    """Return ``about 512 (+- 40)``: a noisy count, no finer than its noise."""
    if sd is None:
        return f"about {space_thousands(round(count))}"
    shown, noise = _no_finer(count, sd, 2)
    return f"about {shown} (+- {noise})"


def _no_finer(count: float, sd: float, digits: int) -> tuple[str, str]:
    """Return a noisy count and its noise, rounded to ``digits`` digits of the noise."""
    step = 10 ** max(math.floor(math.log10(max(sd, 1.0))) + 1 - digits, 0)
    shown, noise = (space_thousands(round(x / step) * step) for x in (count, sd))
    return shown, noise


def _ends(est: Any, level: float, joint: bool) -> tuple[tuple[Any, Any], str]:
    """Return the ends of intervals, and the sentence that says how they were made."""
    if not joint:
        return inference.conf_int(est, level), inference.bias_rule(level)
    low, high, note = conf_int(est, level)
    return (low, high), note


def _table(
    record: Record,
    estimates: str,
    digits: int,
    level: float,
    stars: bool,
    *,
    exponentiate: bool = False,
    labels: bool = False,
    joint: bool = False,
) -> Table:
    """Return the coefficients, with a legend of marks; ``n/a`` where nothing was released."""
    est = record.estimate
    (low, high), rule = _ends(est, level, joint)
    params = np.asarray(est.params)
    if exponentiate:
        params, low, high = np.exp(params), np.exp(low), np.exp(high)
        estimates = f"exp({estimates})"
    low_name, high_name = inference.bound_names(level)
    p = inference.p_values(est)
    letter = "z" if est.use_t is None else "t"
    error = inference.standard_errors(est)
    parts = {kind: inference.standard_errors(est, kind) for kind in ("sampling", "privacy")}
    error_shown = error if np.isfinite(error).any() else parts["privacy"]
    few = places(error_shown * np.abs(params) if exponentiate else error_shown, digits)
    marks, legend = marks_of(record)
    params = np.where([mark == "c" for mark in marks], np.nan, params)
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
        (
            Column(left=True, width=8, stretch=_SUMMARY_LAYOUT.width, over=True, blocks=(0, 1)),
            _terms(record, labels),
        ),
        column(estimates, params, 10),
        *errors,
        column(low_name, low, 7),
        column(high_name, high, 8),
        (Column(f"P>|{letter}|", width=8), f.tested(
            [f.p_value(v) for v in p], ["n" in mark or "b" in mark for mark in marks]
        )),
        *([(Column(left=True, width=3 if stars else 1), marked)] if any(marked) or stars else []),
    )
    if biased or joint:
        legend = (*legend, rule)
    rows = listed_rows(record, zip(*(texts for _, texts in spec), strict=True))
    legend = (*legend, *((STARS,) if stars else ()))
    return grid((column for column, _ in spec), rows, legend=legend)


def _terms(record: Record, labels: bool) -> list[str]:
    """Return the names of the coefficients, or with their labels of the schema."""
    told = inference.schema_labels(record) if labels else {}
    return [inference.labelled(name, told) for name in record.estimate.names]


def response_of(record: Record) -> str:
    """Return the text of the response, from the design or else from the formula."""
    return response(record.design) or record.call.formula.partition("~")[0].strip()
