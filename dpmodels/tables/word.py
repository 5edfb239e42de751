"""Word: a table with plain rules in a .docx file. python-docx is imported when one is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmodels.errors import DPModelsError
from dpmodels.tables.common import (
    facts_of,
    grids_of,
    groups_of,
    heads_of,
    joined,
    notes_of,
    spanned,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpmodels.tables.table import Column, Row, Table

_SMALL = 9


def _docx() -> Any:
    """Import python-docx, or say how to get it."""
    from importlib.util import find_spec

    if find_spec("docx") is None:
        raise DPModelsError("a Word file needs python-docx: pip install python-docx")
    import docx

    return docx


def write(table: Table, path: Path) -> None:
    """Write the table with its facts and notes."""
    docx = _docx()
    document = docx.Document()
    if table.title:
        document.add_heading(table.title, level=2)
    for columns, rows in grids_of(table):
        _grid(document, columns, rows)
    said = [joined(*fact) for fact in facts_of(table)]
    lines = [f"{'; '.join(said)}."] if said else []
    lines += [table.page.text, *table.page.bullets] if table.page is not None else []
    lines += [*table.legend, *([f"Privacy: {table.statement}."] if table.statement else [])]
    for text in [*lines, *notes_of(table)]:
        _small(document.add_paragraph(), text)
    document.save(str(path))


def _small(paragraph: Any, text: str, *, bold: bool = False) -> None:
    from docx.shared import Pt

    paragraph.paragraph_format.space_after = Pt(0)
    run = paragraph.add_run(text)
    run.font.size, run.bold = Pt(_SMALL), bold


def _grid(document: Any, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    heads = heads_of([c.label for c in columns])
    if any(c.group for c in columns):
        heads = [
            [text for group, n in groups_of(columns) for text in [group] + [""] * (n - 1)],
            *heads,
        ]
    table = document.add_table(rows=0, cols=len(columns))
    for line in heads:
        _line(table, columns, line, bold=True)
    if heads:
        _rule(table, "bottom")
    for row in rows:
        if not row.cells:
            _rule(table, "bottom")
        elif row.span:
            cells = [""] * len(columns)
            at = 0
            for text, width in spanned(row, len(columns)):
                cells[at], at = text, at + width
            _line(table, columns, cells)
        else:
            _line(table, columns, row.cells)
    if table.rows:
        _rule(table, "top", first=True)
        _rule(table, "bottom")


def _line(
    table: Any, columns: Sequence[Column], texts: Sequence[str], *, bold: bool = False
) -> None:
    from docx.enum.text import WD_ALIGN_PARAGRAPH

    cells = table.add_row().cells
    for cell, column, text in zip(cells, columns, texts, strict=True):
        paragraph = cell.paragraphs[0]
        _small(paragraph, text, bold=bold)
        if not column.left:
            paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT


def _rule(table: Any, side: str, *, first: bool = False) -> None:
    """Draw a line under the last row so far, or above the first."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    if not table.rows:
        return
    for cell in table.rows[0 if first else -1].cells:
        properties = cell._tc.get_or_add_tcPr()
        borders = properties.find(qn("w:tcBorders"))
        if borders is None:
            borders = OxmlElement("w:tcBorders")
            properties.append(borders)
        line = OxmlElement(f"w:{side}")
        for key, value in (("val", "single"), ("sz", "6"), ("space", "0"), ("color", "000000")):
            line.set(qn(f"w:{key}"), value)
        borders.append(line)
