"""A summary: title, header pairs, columns, rows and notes, all of them text.

:func:`build` reads the numbers off a record and writes them into one :class:`Summary`; five
renderers (``render/``) lay that out. Greek letters stand in the model; the text renderer, which
is ASCII, spells them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpmodels.errors import RequestError, choice, shown
from dpmodels.privacy.guarantee import RELATIONS
from dpmodels.results import formats as f
from dpmodels.results import inference
from dpmodels.results.design_facts import event, response, row_norm, rows_used
from dpmodels.results.kinds import kind_of
from dpmodels.results.notes import no_reply_page, notes_of

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.results.record import Record

__all__ = ["Column", "Page", "Row", "Summary", "build"]

FORMATS = {
    "text": "text",
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "tex": "latex",
    "latex": "latex",
    "typst": "typst",
}


@dataclass(frozen=True)
class Column:
    """A column of the coefficient table.

    Attributes
    ----------
    label, group : str
        Header, and the header above it that spans neighbours of the same group.
    wide : bool
        Shown in the wide layout.
    blocks : tuple of int
        Blocks of the narrow layout (0, 1) that show it.
    width : int
        Least width in text.
    alone : str
        Header where the group is not shown.
    """

    label: str
    group: str = ""
    wide: bool = True
    blocks: tuple[int, ...] = (0,)
    width: int = 9
    alone: str = ""


@dataclass(frozen=True)
class Row:
    """A coefficient: its name and one text a column."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """Text shown in place of a table: a paragraph, then bullets."""

    text: str
    bullets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summary:
    """A printable summary; ``str()`` is the text form.

    Attributes
    ----------
    title : str
    header : tuple of (label, value)
        Words of the call: formula first.
    facts : tuple of (label, value)
        Short public facts, set beside the header where there is room.
    columns, rows : tuple
        Empty for a page without a table.
    page : Page or None
        Shown in place of the table (no reply).
    notes : tuple of str
    statement : str
        The privacy statement, for captions.
    fmt : str
        Format of ``str()``.

    Privacy
    -------
    Holds text made of public and released numbers only.
    """

    title: str
    header: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    page: Page | None = None
    notes: tuple[str, ...] = ()
    statement: str = ""
    fmt: str = "text"

    def as_text(self, width: int | None = None) -> str:
        """Return ASCII text; two blocks of columns where ``width`` (the terminal's) is below 88."""
        from dpmodels.results.render.text import render

        return render(self, width)

    def as_html(self) -> str:
        """Return a plain HTML table, every string escaped."""
        from dpmodels.results.render.html import render

        return render(self)

    def as_latex(self) -> str:
        """Return LaTeX for booktabs and threeparttable."""
        from dpmodels.results.render.latex import render

        return render(self)

    def as_markdown(self) -> str:
        """Return a markdown pipe table with header and notes."""
        from dpmodels.results.render.markdown import render

        return render(self)

    def as_typst(self) -> str:
        """Return a typst table."""
        from dpmodels.results.render.typst import render

        return render(self)

    def __str__(self) -> str:
        return self.render(self.fmt)

    def render(self, fmt: str) -> str:
        """Return the summary in one of the formats text, md, html, tex, typst."""
        form: Callable[[], str] = getattr(self, f"as_{FORMATS[check_format(fmt)]}")
        return form()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()

    def _repr_latex_(self) -> str:
        return self.as_latex()


def check_format(fmt: str | None) -> str:
    """Return a known format name or raise ``RequestError``."""
    known: str = choice("fmt", "text" if fmt is None else fmt, sorted(FORMATS))
    return known


def build(
    record: Record,
    *,
    fmt: str | None = None,
    digits: int = 4,
    stars: bool = False,
    notes: bool = True,
    level: float | None = None,
) -> Summary:
    """Write the numbers of a record into a summary."""
    fmt = check_format(fmt)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 12:
        raise RequestError(
            f"digits={shown(digits)}: must be an int from 1 to 12, for example digits=4"
        )
    kind = kind_of(record.call.verb)
    silent = not record.estimate.released
    no_table = silent and bool((record.estimate.params != record.estimate.params).all())
    level = record.call.level if level is None else level
    columns, rows = ((), ()) if no_table else _table(record, kind.estimates, digits, level, stars)
    return Summary(
        title=f"Differentially private {kind.title}",
        header=_header(record),
        facts=_facts(record),
        columns=columns,
        rows=rows,
        page=no_reply_page(record) if silent else None,
        notes=notes_of(record, stars=stars) if notes and not silent else (),
        statement=greek(record.guarantee.statement()),
        fmt=fmt,
    )


def greek(statement: str) -> str:
    """Return a privacy statement with the letters of the field."""
    return statement.replace("eps =", "ε =").replace("delta =", "δ =")


def pair(eps: float, delta: float) -> str:
    """Return ``(ε = 1, δ = 1e-06)``."""
    return f"(ε = {eps:g}, δ = {delta:g})"


def _header(record: Record) -> tuple[tuple[str, str], ...]:
    promise = record.guarantee
    neighbours = RELATIONS[promise.relation]
    if promise.unit != "record":
        neighbours += f"; unit: one {promise.unit}"
    lines = [
        ("Formula", record.call.formula),
        *_model(record),
        *rows_used(record.design),
        ("Method", f'{record.call.method_title} (method="{record.call.method}")'),
        (
            "Privacy",
            promise.statement() if promise.seeded else f"{pair(promise.eps, promise.delta)}-DP",
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
    said = kind_of(record.call.verb).says
    lines = [(label, f"{options[key]}") for label, key in said if options.get(key) is not None]
    what = event(record.design)
    return [*lines, ("Event", what)] if what else lines


def _facts(record: Record) -> tuple[tuple[str, str], ...]:
    kind = kind_of(record.call.verb)
    facts = [
        ("Observations", "private" if record.n is None else str(record.n)),
        (kind.count, str(len(record.estimate.names))),
    ]
    norm = row_norm(record.design)
    if norm == norm:
        facts.append(("Row norm bound", f.number(norm, 4)))
    for label, key in kind.header:
        if key in record.estimate.stats:
            facts.append((label, f.number(record.estimate.stats[key], 4)))
    facts.append(("Reply", "released" if record.estimate.released else "NO REPLY"))
    return tuple(facts)


def _table(
    record: Record, estimates: str, digits: int, level: float, stars: bool
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    """Return columns and rows of the coefficient table; ``n/a`` where nothing was released."""
    est = record.estimate
    low, high = inference.conf_int(est, level)
    low_name, high_name = inference.bound_names(level)
    p = inference.p_values(est)
    letter = "z" if est.use_t is None else "t"

    def ends(one: Array, other: Array) -> list[str]:
        return f.column(one, digits, other)

    spec = (
        (Column(estimates, width=11), f.column(est.params, digits)),
        (
            Column("total", "Std. Error", blocks=(0, 1), alone="Std. Error"),
            f.column(inference.standard_errors(est), digits),
        ),
        (
            Column("sampling", "Std. Error", blocks=(1,)),
            f.column(inference.standard_errors(est, "sampling"), digits),
        ),
        (
            Column("privacy", "Std. Error", blocks=(1,), width=8),
            f.column(inference.standard_errors(est, "privacy"), digits),
        ),
        (
            Column("share", "Std. Error", wide=False, blocks=(1,), width=8),
            [f.percent(v) for v in inference.privacy_share(est)],
        ),
        (
            Column(letter, width=8),
            f.column(inference.statistics(est), max(digits - 2, 1)),
        ),
        (Column(f"P>|{letter}|"), [f.p_value(v) for v in p]),
        (Column(low_name, width=8), ends(low, high)),
        (Column(high_name), ends(high, low)),
        *([(Column("", width=4), [f.stars(v) for v in p])] if stars else []),
    )
    columns = tuple(column for column, _ in spec)
    cells = zip(*(texts for _, texts in spec), strict=True)
    return columns, tuple(Row(n, c) for n, c in zip(est.names, cells, strict=True))


def response_of(record: Record) -> str:
    """Return the text of the response: of the design, else of the formula."""
    return response(record.design) or record.call.formula.partition("~")[0].strip()
