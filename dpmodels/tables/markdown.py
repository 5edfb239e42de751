"""Markdown: pipe tables by tabulate, notes as a numbered list."""

from __future__ import annotations

from collections.abc import Sequence

from dpmodels.tables.common import facts_of, grids_of, joined, notes_of, spanned
from dpmodels.tables.table import Column, Row, Table

_SPECIAL = "\\`*_{}[]<>|~#$"


def escape(text: str) -> str:
    """Return text with the signs that markdown reads specially escaped."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in text)


def render(table: Table) -> str:
    """Return the table as markdown."""
    parts = [f"**{escape(table.title)}**"] if table.title else []
    parts.append("\n".join(f"- {escape(joined(*fact))}" for fact in facts_of(table)))
    if table.page is not None:
        parts.append(escape(table.page.text))
        parts.append("\n".join(f"- {escape(bullet)}" for bullet in table.page.bullets))
    parts += [_grid(columns, rows) for columns, rows in grids_of(table)]
    parts += [f"*{escape(text)}*" for text in table.legend]
    parts.append(f"*{escape(table.statement)}*" if table.statement else "")
    if table.title:
        parts.append("\n".join(f"{k}. {escape(note)}" for k, note in enumerate(notes_of(table), 1)))
    else:
        parts += [f"*{escape(note)}*" for note in notes_of(table)]
    return "\n\n".join(filter(None, parts))


def _grid(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    from tabulate import tabulate

    return str(
        tabulate(
            [[_cell(text) for text in _texts(row, columns)] for row in rows if row.cells],
            headers=[_label(column) for column in columns],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=["left" if column.left else "right" for column in columns],
        )
    )


def _cell(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _label(column: Column) -> str:
    """Return the header of a column, as groups cannot span: ``Std. Error (total)``."""
    label = column.label.replace("\n", " ")
    return escape(f"{column.group} ({label})" if column.group else label)


def _texts(row: Row, columns: Sequence[Column]) -> Sequence[str]:
    """Return the cells of a row; of one that spans, label and value at the ends."""
    if not row.span:
        return row.cells
    label, *value = (text for text, _ in spanned(row, len(columns)))
    start = [label] if columns[0].left or len(columns) < 3 else ["", label]
    return [*start, *[""] * (len(columns) - len(start) - len(value)), *value]
