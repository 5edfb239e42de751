"""Typst: a figure with a table, or a bare table."""

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

__all__ = ["content", "render"]

_SPECIAL = "\\`*_{}[]<>~#$@/'\"-=+."


def content(text: str) -> str:
    """Return a content block ``[...]`` with the signs that typst reads specially escaped."""
    return "[" + "".join(f"\\{c}" if c in _SPECIAL else c for c in text).replace("\n", " \\ ") + "]"


def render(table: Table) -> str:
    """Return the table as typst markup."""
    grids = grids_of(table)
    if not table.title:
        lines = [line for grid in grids for line in _bare(*grid)]
        return "\n".join(lines + [f"#emph{content(note)}" for note in notes_of(table)])
    body = _grid(*grids[0]) if grids else _facts(table)
    lines = ["#figure(", f"  caption: {content(table.title)},", *body, ")", ""]
    for grid in grids[1:]:
        lines += [*_bare(*grid), ""]
    if grids:
        lines += [f"- {content(joined(*fact))[1:-1]}" for fact in facts_of(table)]
    if table.page is not None:
        lines += ["", content(table.page.text)[1:-1], ""]
        lines += [f"- {content(bullet)[1:-1]}" for bullet in table.page.bullets]
    for text in table.legend:
        lines += ["", f"#emph{content(text)}"]
    if table.statement:
        lines += ["", f"#emph{content(table.statement)}"]
    lines += ["", *(f"+ {content(note)[1:-1]}" for note in notes_of(table))]
    return "\n".join(lines).rstrip()


def _grid(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    head = [f"[], {_groups(columns)}"] if any(c.group for c in columns) else []
    head += [", ".join(map(content, labels)) for labels in heads_of([c.label for c in columns])]
    header = f"table.header({', '.join(head)}), table.hline()," if head else ""
    return [
        "  table(",
        f"    columns: {len(columns)},",
        "    stroke: none,",
        f"    align: {_align(columns)},",
        f"    table.hline(), {header}".rstrip(),
        *(f"    {_row(columns, row)}" for row in rows),
        "    table.hline(),",
        "  ),",
    ]


def _bare(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    heads = [Row(tuple(labels)) for labels in heads_of([c.label for c in columns])]
    heads = [Row(()), *heads, *([Row(())] if heads else [])]
    return [
        "#table(",
        f"  columns: {len(columns)}, stroke: none,",
        f"  align: {_align(columns)},",
        *(f"  {_row(columns, row)}" for row in (*heads, *rows, Row(()))),
        ")",
    ]


def _align(columns: Sequence[Column]) -> str:
    if [c.left for c in columns] == [True] + [False] * (len(columns) - 1):
        return "(x, y) => if x == 0 { left } else { right }"
    return f"({', '.join('left' if c.left else 'right' for c in columns)})"


def _row(columns: Sequence[Column], row: Row) -> str:
    if not row.cells:
        return "table.hline(),"
    if row.span:
        cells = [f"table.cell(colspan: {n}){content(t)}" for t, n in spanned(row, len(columns))]
    else:
        cells = [content(signs(cell)) for cell in row.cells]
    return ", ".join(cells) + ","


def _groups(columns: Sequence[Column]) -> str:
    return ", ".join(
        f"table.cell(colspan: {span}, align: center){content(group)}"
        for group, span in groups_of(columns[1:])
    )


def _facts(table: Table) -> list[str]:
    rows = [f"    {content(a)}, {content(b)}," for a, b in facts_of(table)]
    return ["  table(", "    columns: 2, stroke: none, align: left,", *rows, "  ),"]
