"""Contents of a table: title, facts, columns, rows and notes, all of them text.

:class:`~dpmodels.tables.table.Table` adds how it is shown, saved and written; ``markup.py`` renders
it. What differs between the layouts of two tables in text is data: a :class:`Layout`, and the
widths of the columns. Greek letters stand in the table; text can spell them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpmodels.errors import printable


@dataclass(frozen=True)
class Column:
    """A column; the first one holds the names of the rows."""

    label: str = ""  # Header, a line feed between its lines
    group: str = ""  # The header above it, that spans neighbours of the same group
    left: bool = False  # Set to the left; else to the right
    # In text: least width, and the width it grows to where the line has room; blanks before cells.
    width: int = 0
    stretch: int = 0
    indent: int = 0
    # In text a cell too long for the column gets a separate line, else the column grows.
    over: bool = False
    prose: bool = False  # Lines of words, wrapped
    wide: bool = True  # Shown in the wide layout
    blocks: tuple[int, ...] = (0,)  # Blocks of the narrow layout (0, 1) that show it
    alone: str = ""  # Header where the group is not shown


@dataclass(frozen=True)
class Row:
    """One text a column; or, where it spans the table, a label and a value."""

    cells: tuple[str, ...]
    span: bool = False


#: A row that is a line between the rows above and below it.
RULE = Row(())


@dataclass(frozen=True)
class Page:
    """A paragraph before the table or in its place, then bullets."""

    text: str
    bullets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Layout of a table as text."""

    width: int = 88  # Length of the rules, and of lines that wrap
    # Follows the terminal below ``width``: facts in one column, the table in two blocks. The title
    # is centred.
    fluid: bool = False
    grows: bool = False  # Rules are as long as the table where that is wider
    # Rules under the title and after the table, and between parts; "" is a blank line.
    outer: str = "="
    inner: str = "-"
    ruled: bool = True  # Draw a rule under the column headers
    closed: bool = True  # Draw the last rule also if no notes follow
    label: int = 0  # Width of the labels of facts; 0: that of the longest
    facts_last: bool = False  # Facts come after the table
    across: int = 1  # Number of facts over the full width, before the two columns of facts
    gap: int = 2  # Blanks between columns ..
    indent: int = 0  # .. and before the first
    span: str = "{} {}"  # Form of a row that spans: label, value
    heading: str = ""  # Above the notes
    mark: str = "* "  # Before each of them; ``{k}`` is its number
    wrap: bool = False  # Facts and notes are wrapped; Greek letters and signs are spelled out
    notes: int = 0  # Least width of wrapped notes


#: Fields of a table that are text.
_TEXTS = ("title", "facts", "columns", "rows", "notes", "aside", "page", "statement", "legend")


def _written_out(part: Any) -> Any:
    """Return a part of a table with its control characters written out."""
    if isinstance(part, str):
        return printable(part)
    if isinstance(part, tuple):
        return tuple(map(_written_out, part))
    if isinstance(part, Row):
        cells = tuple(map(printable, part.cells))
        if cells:  # the name of the row, one line
            cells = (cells[0].replace("\n", "\\n"), *cells[1:])
        return part if cells == part.cells else replace(part, cells=cells)
    if isinstance(part, Column):
        label, group = printable(part.label), printable(part.group)
        same = label == part.label and group == part.group
        return part if same else replace(part, label=label, group=group)
    if isinstance(part, Page):
        return Page(printable(part.text), _written_out(part.bullets))
    return part


@dataclass(frozen=True, repr=False)
class Content:
    """The texts of a table, and its layout.

    Attributes
    ----------
    title : str
        Empty: a bare table, without the frame that has caption and facts.
    facts : tuple of (label, value)
        A label may be empty.
    columns, rows : tuple
        Empty for a page without a table.
    aside : tuple of (label, value)
        Short facts, set beside the others where there is room.
    statement : str
        Said of the table as a whole, for captions: its privacy.
    more : tuple of Content
        Their columns and rows are shown below.
    fmt : str
        Format of ``str()``.
    legend : tuple of str
        What the marks in the cells mean; shown under the table, without numbers.
    """

    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    aside: tuple[tuple[str, str], ...] = ()
    page: Page | None = None
    statement: str = ""
    more: tuple[Content, ...] = ()
    layout: Layout = Layout()
    fmt: str = "text"
    legend: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _TEXTS:
            object.__setattr__(self, name, _written_out(getattr(self, name)))


# -- What the renderers with rich signs share.


def signs(text: str) -> str:
    """Write a no-reply with its sign."""
    return text.replace("NO REPLY", "⊥ (no reply)")


def facts_of(table: Content) -> list[tuple[str, str]]:
    """Return all facts as one list."""
    return [(label, signs(value)) for label, value in (*table.facts, *table.aside)]


def notes_of(table: Content) -> list[str]:
    """Return the notes, without the line breaks that text has."""
    return [" ".join(note.split("\n")) for note in table.notes]


def indented(text: str, blank: str) -> str:
    """Return a name with a format's own blanks in place of those that begin it."""
    name = text.lstrip(" ")
    return blank * (len(text) - len(name)) + name


def label_and_value(label: str, value: str) -> str:
    """Return ``label: value``."""
    return f"{label}: {value}" if label else value


def grids_of(table: Content) -> list[tuple[list[Column], list[Row]]]:
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
        return [(label_and_value(label, value) if value else label, columns)]
    return [(label, columns - columns // 2), (value, columns // 2)]
