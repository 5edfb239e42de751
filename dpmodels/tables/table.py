"""A table to be shown: title, facts, columns, rows and notes, all of them text.

Who has something to show writes it into one :class:`Table`; the five modules beside this one lay
that out. What differs between the layouts of two tables in text is data: a :class:`Layout`, and
the widths of the columns. Greek letters stand in the table; text can spell them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from inspect import getattr_static
from operator import attrgetter
from typing import Any

from dpmodels.errors import choice

#: Names of the formats -> module of the renderer.
FORMATS = {
    "text": "text",
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "tex": "latex",
    "latex": "latex",
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


def _of(module: str, name: str) -> Callable[..., Any]:
    """Import a function of a module beside this one, which that one imports."""
    function: Callable[..., Any] = getattr(import_module(f"dpmodels.tables.{module}"), name)
    return function


class also:
    """Another spelling of an attribute: accepted, and left out of ``dir()``.

    Parameters
    ----------
    what : str or function
        The attribute that is meant, ``"bse"`` or ``"facts.level"``; or a function of the object.
    """

    def __init__(self, what: str | Callable[[Any], Any]) -> None:
        self.what = what

    def __get__(self, one: Any, owner: type | None = None) -> Any:
        if callable(self.what):
            return self if one is None else self.what(one)
        return attrgetter(self.what)(owner if one is None else one)

    @classmethod
    def method(cls, function: Callable[..., Any]) -> Any:
        """Return a method under another spelling; a decorator."""
        return cls(lambda one: wraps(function)(partial(function, one)))


def own_names(one: object) -> list[str]:
    """Return what ``dir()`` lists of an object: its attributes, each under one name."""
    cls = type(one)
    return [n for n in object.__dir__(one) if not isinstance(getattr_static(cls, n, None), also)]


class Written:
    """What is written to a file or into a text, in the formats of the four renderers."""

    __slots__ = ()

    def _shown(self) -> Shown:
        """Return what has a table."""
        raise NotImplementedError

    def to_html(self, path: Any = None) -> str:
        """Return plain HTML, every string escaped, no scripts; written to ``path`` if given."""
        return self._written("html", path)

    def to_latex(self, path: Any = None) -> str:
        """Return LaTeX for booktabs and threeparttable; written to ``path`` if given."""
        return self._written("latex", path)

    def to_markdown(self, path: Any = None) -> str:
        """Return a markdown pipe table with facts and notes; written to ``path`` if given."""
        return self._written("markdown", path)

    def to_word(self, path: Any) -> None:
        """Write a Word file (needs python-docx): ``to_word("table.docx")``."""
        self._shown()._file("docx", path)

    def _written(self, fmt: str, path: Any) -> str:
        shown = self._shown()
        if path is not None:
            shown._file(fmt, path)
        return shown.render(fmt)

    def __dir__(self) -> list[str]:
        return own_names(self)


class Shown(Written):
    """What has a table prints as its text and shows as HTML or LaTeX in a notebook."""

    __slots__ = ()

    def table(self) -> Table:
        """Return what is shown."""
        raise NotImplementedError

    def _shown(self) -> Shown:
        return self

    def _file(self, fmt: str, path: Any) -> None:
        _of("files", "write_as")(self, fmt, path)

    def as_text(self, width: int | None = None) -> str:
        """Return text; tables that follow the terminal do so, or ``width``, below 88 columns."""
        return str(_of("text", "render")(self.table(), width))

    as_html, as_latex, as_markdown = also("to_html"), also("to_latex"), also("to_markdown")

    def render(self, fmt: str) -> str:
        """Return one of the formats text, md, html, tex."""
        return str(_of(FORMATS[check_format(fmt)], "render")(self.table()))

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.render("html")

    def _repr_latex_(self) -> str:
        return self.render("latex")


class Result(Shown):
    """A result that is made from a fit or beside one: shown, tidy, drawn, saved and loaded."""

    __slots__ = ()

    def summary(self) -> Table:
        """Return the table; ``print`` it."""
        return self.table()

    def tidy(self) -> Any:
        """Return the numbers as a DataFrame, broom's column names."""
        raise NotImplementedError

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw estimates with their intervals (needs matplotlib)."""
        return _of("pictures", "forest")(self.tidy(), ax, **style)

    def save(self, path: Any) -> None:
        """Write the result as JSON: ``dp.load(path)`` reads it back, with all its methods.

        Privacy
        -------
        The file holds public and released numbers only.
        """
        _of("files", "save")(self, path)

    to_frame, summary_frame = also("tidy"), also("tidy")

    def __repr__(self) -> str:
        return self.as_text()


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
    legend : tuple of str
        What the marks in the cells mean; shown under the table, without numbers.

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
    legend: tuple[str, ...] = ()

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
