"""What the renderers with rich signs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpmodels.tables.table import Column, Row, Table


def signs(text: str) -> str:
    """Write a no-reply with its sign."""
    return text.replace("NO REPLY", "⊥ (no reply)")


def facts_of(table: Table) -> list[tuple[str, str]]:
    """Return all facts as one list."""
    return [(label, signs(value)) for label, value in (*table.facts, *table.aside)]


def notes_of(table: Table) -> list[str]:
    """Return the notes, without the line breaks that text has."""
    return [" ".join(note.split("\n")) for note in table.notes]


def joined(label: str, value: str) -> str:
    """Return ``label: value``."""
    return f"{label}: {value}" if label else value


def grids_of(table: Table) -> list[tuple[list[Column], list[Row]]]:
    """Return columns and rows of each table shown, those of the wide layout."""
    out = []
    for part in (table, *table.more):
        shown = [k for k, column in enumerate(part.columns) if column.wide]
        rows = [
            row if row.span or not row.cells else Row(tuple(signs(row.cells[k]) for k in shown))
            for row in part.rows
        ]
        if shown:
            out.append(([part.columns[k] for k in shown], rows))
    return out


def groups_of(columns: Sequence[Column]) -> Iterator[tuple[str, int]]:
    """Yield ``(group, how many columns)`` for each run of columns of one group."""
    k = 0
    while k < len(columns):
        j = k + 1
        while j < len(columns) and columns[j].group == columns[k].group:
            j += 1
        yield columns[k].group, j - k
        k = j


def heads_of(labels: Sequence[str]) -> list[list[str]]:
    """Return the lines of the headers, from the top; none where all headers are empty."""
    if not any(labels):
        return []
    split = [label.split("\n") for label in labels]
    high = max(map(len, split))
    padded = [[""] * (high - len(lines)) + lines for lines in split]
    return [list(line) for line in zip(*padded, strict=True)]


def spanned(row: Row, columns: int) -> list[tuple[str, int]]:
    """Return ``(text, how many columns)`` of the one or two cells of a row that spans."""
    label, value = row.cells
    if not value or columns < 2:
        return [(joined(label, value) if value else label, columns)]
    return [(label, columns - columns // 2), (value, columns // 2)]
