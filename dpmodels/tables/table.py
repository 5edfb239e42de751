"""A table to be shown: title, facts, columns, rows and notes, all of them text.

Who has something to show writes it into one :class:`Table`; the five modules beside this one lay
that out. What differs between the layouts of two tables in text is data: a :class:`Layout`, and
the widths of the columns. Greek letters stand in the table; text can spell them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module

from dpmodels.errors import choice

__all__ = [
    "FORMATS", "RULE", "Column", "Layout", "Page", "Row", "Shown", "Table", "check_format", "plain",
]  # fmt: skip

#: Names of the formats -> module of the renderer.
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
    r"""A column; the first one holds the names of the rows.

    Attributes
    ----------
    label, group : str
        Header (``\n`` between its lines), and the header above it that spans neighbours of the
        same group.
    left : bool
        Set to the left; else to the right.
    width, stretch : int
        In text: least width, and the width it grows to where the line has room.
    indent : int
        In text: blanks before the cells.
    over : bool
        In text: a cell too long for the column stands on a line of its own; else the column
        grows to hold it.
    prose : bool
        Lines of words, wrapped.
    wide : bool
        Shown in the wide layout.
    blocks : tuple of int
        Blocks of the narrow layout (0, 1) that show it.
    alone : str
        Header where the group is not shown.
    """

    label: str = ""
    group: str = ""
    left: bool = False
    width: int = 0
    stretch: int = 0
    indent: int = 0
    over: bool = False
    prose: bool = False
    wide: bool = True
    blocks: tuple[int, ...] = (0,)
    alone: str = ""


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
    """How a table looks as text.

    Attributes
    ----------
    width : int
        Length of the rules, and of lines that wrap.
    fluid : bool
        Follows the terminal below ``width``: facts in one column, the table in two blocks. The
        title is centred.
    grows : bool
        Rules are as long as the table where that is wider.
    outer, inner : str
        Rules under the title and after the table, and between parts; "" is a blank line.
    ruled : bool
        A rule stands under the column headers.
    closed : bool
        The last rule stands also where no notes follow.
    label : int
        Width of the labels of facts; 0: that of the longest.
    facts_last : bool
        Facts come after the table.
    gap, indent : int
        Blanks between columns, and before the first.
    span : str
        Form of a row that spans: label, value.
    heading, mark : str
        Above the notes; before each of them (``{k}`` is its number).
    wrap : bool
        Facts and notes are wrapped; Greek letters and signs are spelled out.
    notes : int
        Least width of wrapped notes.
    """

    width: int = 88
    fluid: bool = False
    grows: bool = False
    outer: str = "="
    inner: str = "-"
    ruled: bool = True
    closed: bool = True
    label: int = 0
    facts_last: bool = False
    gap: int = 2
    indent: int = 0
    span: str = "{} {}"
    heading: str = ""
    mark: str = "* "
    wrap: bool = False
    notes: int = 0


class Shown:
    """What has a table prints as its text and shows as HTML or LaTeX in a notebook."""

    __slots__ = ()

    def table(self) -> Table:
        """Return what is shown."""
        raise NotImplementedError

    def as_text(self, width: int | None = None) -> str:
        """Return text; tables that follow the terminal do so, or ``width``, below 88 columns."""
        return str(import_module("dpmodels.tables.text").render(self.table(), width))

    def as_html(self) -> str:
        """Return plain HTML, every string escaped, no scripts."""
        return self.render("html")

    def as_latex(self) -> str:
        """Return LaTeX for booktabs and threeparttable."""
        return self.render("latex")

    def as_markdown(self) -> str:
        """Return a markdown pipe table with facts and notes."""
        return self.render("markdown")

    def as_typst(self) -> str:
        """Return a typst table."""
        return self.render("typst")

    def render(self, fmt: str) -> str:
        """Return one of the formats text, md, html, tex, typst."""
        module = import_module(f"dpmodels.tables.{FORMATS[check_format(fmt)]}")
        form: Callable[[Table], str] = module.render
        return form(self.table())

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()

    def _repr_latex_(self) -> str:
        return self.as_latex()


@dataclass(frozen=True, repr=False)
class Table(Shown):
    """A printable table; ``str()`` is its form in ``fmt``.

    Attributes
    ----------
    title : str
        Empty: a bare table, without the frame that has caption and facts.
    facts : tuple of (label, value)
        A label may be empty.
    columns, rows : tuple
        Empty for a page without a table.
    notes : tuple of str
    aside : tuple of (label, value)
        Short facts, set beside the others where there is room.
    page : Page or None
    statement : str
        Said of the table as a whole, for captions: its privacy.
    more : tuple of Table
        Their columns and rows are shown below.
    layout : Layout
    fmt : str
        Format of ``str()``.

    Privacy
    -------
    Holds text made of public and released numbers only.
    """

    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    aside: tuple[tuple[str, str], ...] = ()
    page: Page | None = None
    statement: str = ""
    more: tuple[Table, ...] = ()
    layout: Layout = Layout()
    fmt: str = "text"

    def table(self) -> Table:
        """Return itself."""
        return self

    def __str__(self) -> str:
        return self.render(self.fmt)

    def __repr__(self) -> str:
        return self.as_text()


def check_format(fmt: str | None) -> str:
    """Return a known format name or raise ``RequestError``."""
    known: str = choice("fmt", "text" if fmt is None else fmt, sorted(FORMATS))
    return known


def plain(labels: Sequence[str], rows: Iterable[tuple[str, ...]], *, label: int = 0) -> Table:
    """Return a table of words: every column to the left, no rule under the headers.

    Parameters
    ----------
    labels : sequence of str
        Headers.
    rows : iterable of tuple of str
    label : int
        Width of the labels of facts in text; 0: that of the longest.
    """
    columns = tuple(Column(text, left=True, width=len(text) + 2) for text in labels)
    layout = Layout(ruled=False, label=label)
    return Table(columns=columns, rows=tuple(map(Row, rows)), layout=layout)
