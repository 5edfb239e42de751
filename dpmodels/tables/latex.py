"""LaTeX for the packages booktabs and threeparttable."""

from __future__ import annotations

from collections.abc import Sequence

from dpmodels.tables.common import (
    facts_of,
    grids_of,
    groups_of,
    heads_of,
    joined,
    notes_of,
    signs,
    spanned,
)
from dpmodels.tables.table import Column, Row, Table

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "⊥": r"$\bot$",
    "²": "$^2$",
}


def escape(text: str) -> str:
    """Return text with every character that LaTeX reads specially replaced."""
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def number(text: str) -> str:
    """Return a cell: a leading minus becomes a minus sign."""
    return "$-$" + escape(text[1:]) if text[:1] == "-" and text[1:2].isdigit() else escape(text)


def render(table: Table) -> str:
    """Return the table with its facts and notes, in a float where it has a title."""
    grids = [line for grid in grids_of(table) for line in _grid(*grid, bare=not table.title)][:-1]
    notes = [rf"\item {text}" for text in _notes(table, bool(grids))]
    if notes:
        notes = [r"\begin{tablenotes}\footnotesize", *notes, r"\end{tablenotes}"]
    lines = [r"\begin{threeparttable}"]
    if table.title:
        lines = [r"\begin{table}", r"\centering", *lines, rf"\caption{{{escape(table.title)}}}"]
    lines += (grids or _facts(table)) + notes + [r"\end{threeparttable}"]
    lines += [r"\end{table}"] * bool(table.title)
    return "\n".join(["% needs \\usepackage{booktabs,threeparttable}", *lines])


def _notes(table: Table, has_grid: bool) -> list[str]:
    facts = "; ".join(escape(joined(*fact)) for fact in facts_of(table))
    out = [f"{facts}."] if has_grid and facts else []
    out += [f"Privacy: {escape(table.statement)}."] if table.statement else []
    if table.page is not None:
        out += map(escape, (table.page.text, *table.page.bullets))
    out += map(escape, table.legend)
    mark = "[{}] " if table.title else ""
    return out + [mark.format(k) + escape(note) for k, note in enumerate(notes_of(table), 1)]


def _facts(table: Table) -> list[str]:
    rows = [rf"{escape(label)} & {escape(value)} \\" for label, value in facts_of(table)]
    start = [r"\begin{tabular}{lp{0.6\textwidth}}", r"\toprule"]
    return [*start, *rows, r"\bottomrule", r"\end{tabular}"] if rows else []


def _grid(columns: Sequence[Column], rows: Sequence[Row], bare: bool) -> list[str]:
    kinds = "".join(r"p{0.7\textwidth}" if c.prose else "l" if c.left else "r" for c in columns)
    heads = [_cells(labels) for labels in heads_of([c.label for c in columns])]
    if any(c.group for c in columns):
        heads = [*_groups(columns), *heads]
    if not bare:
        heads = [head.lstrip() for head in heads]
    body = [_row(columns, row) for row in rows]
    return [
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        *heads,
        *([r"\midrule"] if heads else []),
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\medskip",
    ]


def _cells(texts: Sequence[str]) -> str:
    name, *cells = texts
    inside = [r" \newline ".join(map(number, signs(cell).split("\n"))) for cell in cells]
    return " & ".join([escape(name), *inside]) + r" \\"


def _row(columns: Sequence[Column], row: Row) -> str:
    if not row.cells:
        return r"\midrule"
    if not row.span:
        return _cells(row.cells)
    spans = zip("lr", spanned(row, len(columns)), strict=False)
    cells = [rf"\multicolumn{{{n}}}{{{side}}}{{{escape(text)}}}" for side, (text, n) in spans]
    return " & ".join(cells) + r" \\"


def _groups(columns: Sequence[Column]) -> list[str]:
    heads, rules, at = [], [], 2
    for group, span in groups_of(columns[1:]):
        spanning = rf"\multicolumn{{{span}}}{{c}}{{{escape(group)}}}"
        heads.append(spanning if group else "& " * (span - 1))
        if group:
            rules.append(rf"\cmidrule(lr){{{at}-{at + span - 1}}}")
        at += span
    return [f"& {' & '.join(head.strip() for head in heads)} \\\\", "".join(rules)]
