"""A table as an object of great_tables: spanners over groups of columns, notes, the guarantee."""

from __future__ import annotations

from typing import Any

from dpmodels.errors import DPModelsError
from dpmodels.tables.content import Column, Content, Row, facts_of, notes_of, spanned


def great_table(table: Content) -> Any:
    """Return a printed table as ``great_tables.GT``; the object is that package's own.

    Parameters
    ----------
    table : Content
        Columns with a group get a spanner. Notes, legend and the guarantee are source notes.

    Returns
    -------
    great_tables.GT

    Raises
    ------
    DPModelsError
        great_tables is not installed.
    """
    import pandas as pd

    package = _package()
    columns, cells = _grid(table)
    keys = [f"c{k}" for k in range(len(columns))]
    heads = {key: _head(column.label) for key, column in zip(keys, columns, strict=True)}
    gt = package.GT(pd.DataFrame(cells, columns=keys)).cols_label(**heads)
    for side in ("left", "right"):
        chosen = [k for k, c in zip(keys, columns, strict=True) if c.left == (side == "left")]
        gt = gt.cols_align(side, columns=chosen) if chosen else gt
    for at, end, group in _spanners(columns):
        gt = gt.tab_spanner(label=group, columns=keys[at:end], id=f"s{at}")
    facts = "; ".join(f"{label}: {text}" if label else text for label, text in facts_of(table))
    if table.title or facts:
        gt = gt.tab_header(title=table.title or facts, subtitle=facts if table.title else None)
    notes = (*table.legend, *notes_of(table), *((table.statement,) if table.statement else ()))
    for note in dict.fromkeys(notes):
        gt = gt.tab_source_note(source_note=note)
    return gt


def _package() -> Any:
    """Return the package great_tables, or say how it is installed."""
    package: Any = None
    try:
        import great_tables as package
    except ImportError:
        package = None
    if package is None:
        raise DPModelsError("as_gt() needs great_tables: pip install 'dpmodels[tables]'")
    return package


def _grid(table: Content) -> tuple[tuple[Column, ...], list[list[str]]]:
    """Return columns and cells; parts below the first begin with their column names."""
    parts = (table, *table.more)
    width = max(len(part.columns) for part in parts)
    columns = (*table.columns, *(Column() for _ in range(width - len(table.columns))))
    cells = []
    for k, part in enumerate(parts):
        if k and [c.label for c in part.columns] != [c.label for c in table.columns]:
            cells.append(_cells(Row(tuple(_head(c.label) for c in part.columns)), width))
        cells += [_cells(row, width) for row in part.rows if row.cells]
    return columns, cells


def _cells(row: Any, width: int) -> list[str]:
    """Return the cells of one row; a row that spans the table is its label and its value."""
    if not row.span:
        return [*row.cells, *[""] * (width - len(row.cells))]
    texts = [text for text, _ in spanned(row, width)]
    return [*texts, *[""] * (width - len(texts))]


def _head(label: str) -> str:
    return " ".join(label.split())


def _spanners(columns: Any) -> list[tuple[int, int, str]]:
    """Return (first, end, text) of neighbouring columns with the same group."""
    out: list[tuple[int, int, str]] = []
    for k, column in enumerate(columns):
        if not column.group:
            continue
        if out and out[-1][1] == k and out[-1][2] == column.group:
            out[-1] = (out[-1][0], k + 1, column.group)
        else:
            out.append((k, k + 1, column.group))
    return out
