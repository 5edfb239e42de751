"""A summary: the numbers of a record, written into one :class:`~dpmodels.tables.Table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmodels.errors import RequestError, shown
from dpmodels.results import formats as f
from dpmodels.results import inference
from dpmodels.results.notes import STARS, marks_of, no_reply_page, shown_notes
from dpmodels.results.record import event, response, row_norm, rows_used
from dpmodels.survey import Survey
from dpmodels.tables import Column, Layout, Page, Row, Table
from dpmodels.tables.table import check_format
from dpmodels.units.person import column_of, named
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpmodels.arrays import Array
    from dpmodels.results.record import Record

__all__ = ["Page", "Summary", "build"]

#: A summary is a table like any other.
Summary = Table
_LAYOUT = Layout(fluid=True, gap=1, heading="Notes:", mark="[{k}] ", wrap=True)


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
) -> Summary:
    """Write the numbers of a record into a summary."""
    fmt = check_format(fmt)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 12:
        raise RequestError(
            f"digits={shown(digits)}: must be an int from 1 to 12, for example digits=4"
        )
    kind = verb_of(record.call.verb)
    silent = not record.estimate.released
    no_table = silent and bool((record.estimate.params != record.estimate.params).all())
    level = record.call.level if level is None else level
    own = None if silent else kind.load_body()
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    more: tuple[Table, ...] = ()
    legend: tuple[str, ...] = ()
    if own is not None:
        columns, rows, more = own(record, digits, level)
    elif not no_table:
        columns, rows, legend = _table(
            record, kind.estimates, digits, level, stars, exponentiate=exponentiate
        )
    return Summary(
        title=f"Differentially private {kind.title}",
        facts=_header(record),
        aside=_facts(record),
        columns=columns,
        rows=rows,
        page=no_reply_page(record) if silent else None,
        notes=_notes(record, exponentiate, full) if notes and not silent else (),
        statement=f.greek(record.guarantee.statement()),
        more=more,
        layout=_LAYOUT,
        fmt=fmt,
        legend=legend,
    )


def _notes(record: Record, exponentiate: bool, full: bool) -> tuple[str, ...]:
    said = (
        "Exponentiated: estimates and ends of intervals; standard errors and tests are those of "
        "the coefficients."
    )
    return (*((said,) if exponentiate else ()), *shown_notes(record, full=full))


def _header(record: Record) -> tuple[tuple[str, str], ...]:
    promise = record.guarantee
    neighbours = promise.neighbours
    if promise.unit != "record":
        neighbours += f"; unit: {named(promise.unit)}"
    lines = [
        ("Formula", record.call.formula),
        *_model(record),
        *rows_used(record.design),
        *_sample(record),
        ("Method", f'{record.call.method_title} (method="{record.call.method}")'),
        (
            "Privacy",
            promise.statement() if promise.seeded else f"{f.pair(promise.eps, promise.delta)}-DP",
        ),
        ("Neighbours", neighbours),
    ]
    if record.shares:
        words = " ".join(f"{name} {f.share(v)}" for name, v in record.shares.items())
        lines.append(("Budget", words))
    return tuple(lines)


def _model(record: Record) -> list[tuple[str, str]]:
    """Return what makes the model what it is, beside its formula: family, event, quantile."""
    options = record.call.options
    said = verb_of(record.call.verb).says
    lines = [(label, f"{options[key]}") for label, key in said if options.get(key) is not None]
    what = event(record.design)
    return [*lines, ("Event", what)] if what else lines


def _sample(record: Record) -> list[tuple[str, str]]:
    """Return the design of the sample, as it was declared."""
    said = "" if record.call.survey is None else Survey.from_dict(record.call.survey).text
    return [("Design", said)] if said else []


def _facts(record: Record) -> tuple[tuple[str, str], ...]:
    kind = verb_of(record.call.verb)
    facts = [
        (_counted(record), "private" if record.n is None else str(record.n)),
        (kind.count, str(len(record.estimate.names))),
    ]
    norm = row_norm(record.design)
    if norm == norm and not kind.body:
        facts.append(("Row norm bound", f.number(norm, 4)))
    facts.append(("Reply", "released" if record.estimate.released else "NO REPLY"))
    for label, key in kind.header:
        if key in record.estimate.stats:
            facts.append((label, _with_error(record.estimate.stats, key)))
    return tuple(facts)


def _counted(record: Record) -> str:
    """Say what n counts: the number of rows of a person is private."""
    return "Observations" if column_of(record.guarantee.unit) is None else "People"


def _with_error(stats: Mapping[str, float], key: str) -> str:
    """Return ``0.2531 (0.0110)``; of a share with an interval ``0.253 [.21,.29]``, as wide."""
    value, error = stats[key], stats.get(f"{key}_se")
    if f"{key}_low" in stats:
        low, high = (f"{stats[key + end]:.2f}".removeprefix("0")[:3] for end in ("_low", "_high"))
        return f"{value:.3f} [{low},{high}]"
    return f.number(value, 4) + (f" ({f.number(error, 4)})" if error is not None else "")


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
        params, low, high, estimates = (
            np.exp(params),
            np.exp(low),
            np.exp(high),
            f"exp({estimates})",
        )
    low_name, high_name = inference.bound_names(level)
    p = inference.p_values(est)
    letter = "z" if est.use_t is None else "t"
    z = f.column(inference.statistics(est), max(digits - 2, 1))
    error = inference.deciding(est)
    parts = {kind: inference.standard_errors(est, kind) for kind in ("sampling", "privacy")}
    few = f.decimals_of(error if np.isfinite(error).any() else parts["privacy"], digits)
    total = f.column(error, few)
    # parts of an error have its decimals, unless it is written with exponents
    beside = None if any("e" in cell for cell in total) else error
    marks, legend = marks_of(record)

    def ends(one: Array, other: Array) -> list[str]:
        return f.column(one, few, other)

    errors = "Std. Error"
    marked = [m + f.stars(v) for m, v in zip(marks, p, strict=True)] if stars else marks
    spec = (
        (Column(left=True, width=8, stretch=_LAYOUT.width, over=True, blocks=(0, 1)), est.names),
        (Column(estimates, width=10), f.column(params, few)),
        (
            Column("total", errors, width=8, blocks=(0, 1), alone=errors),
            total,
        ),
        (
            Column("sampling", errors, width=8, blocks=(1,)),
            f.column(parts["sampling"], few, beside),
        ),
        (Column("privacy", errors, width=7, blocks=(1,)), f.column(parts["privacy"], few, beside)),
        (
            Column("share", errors, width=7, wide=False, blocks=(1,)),
            [f.percent(v) for v in inference.privacy_share(est)],
        ),
        (Column(letter, width=7), f.tested(z, est.untested)),
        (Column(f"P>|{letter}|", width=8), f.tested([f.p_value(v) for v in p], est.untested)),
        (Column(low_name, width=7), ends(low, high)),
        (Column(high_name, width=8), ends(high, low)),
        *([(Column(left=True, width=3 if stars else 1), marked)] if any(marked) or stars else []),
    )
    columns = tuple(column for column, _ in spec)
    cells = zip(*(texts for _, texts in spec), strict=True)
    return columns, tuple(map(Row, cells)), (*legend, *((STARS,) if stars else ()))


def response_of(record: Record) -> str:
    """Return the text of the response: of the design, else of the formula."""
    return response(record.design) or record.call.formula.partition("~")[0].strip()
