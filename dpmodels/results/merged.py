"""Printed tables next to or below each other, with one statement of privacy for the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpmodels.errors import RequestError
from dpmodels.lazy import pd
from dpmodels.results.side_by_side import joint_line
from dpmodels.tables.content import RULE, Column, Row
from dpmodels.tables.table import AS_WIDE, Result, Shown, Table, Written, grid


@dataclass(frozen=True)
class _Part:
    """One table of several: its title, its text, and the fits behind it."""

    title: str
    table: Table
    fits: tuple[Any, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Result):
    """Several printed tables as one. All text; the guarantee of the whole is the last note."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    title: str = ""

    def table(self) -> Table:
        """Return the table."""
        return grid(
            self.columns, self.rows, title=self.title, notes=self.notes, layout=AS_WIDE
        )

    def tidy(self) -> Any:
        """Return the cells as a DataFrame of text, one column per column of the table."""
        heads = [" ".join(f"{c.group} {c.label}".split()) or "term" for c in self.columns]
        rows = [row.cells for row in self.rows if row.cells]
        frame = pd.DataFrame([[*r, *[""] * (len(heads) - len(r))] for r in rows])
        frame.columns = pd.Index(heads)
        return frame

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Raise an error: a table of several tables has no picture."""
        raise RequestError("a merged table has no picture: plot() of each of its parts")


def _parts(verb: str, tables: Any) -> list[_Part]:
    """Return the tables of a call, from a list or a mapping of titles."""
    titled = isinstance(tables, Mapping)
    items = list(tables.items()) if titled else [("", item) for item in _several(verb, tables)]
    if len(items) < 2:
        raise RequestError(f"{verb} needs at least two tables: {verb}([table, fit])")
    return [_part(verb, str(title), item) for title, item in items]


def _several(verb: str, tables: Any) -> Sequence[Any]:
    if isinstance(tables, (list, tuple)):
        return tables
    raise RequestError(f"{verb} needs a list of tables and fits, or a mapping of titles to them")


def _part(verb: str, title: str, item: Any) -> _Part:
    """Return one table with the fits behind it; refuse one whose guarantee is not known."""
    shown = None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Table):
        item, shown = item
    fits = _fits_behind(item)
    if not fits or not isinstance(item, Written):
        raise RequestError(
            f"{verb} needs fits, or results of them. With options of a summary: a pair, "
            "(fit, fit.summary(labels=True))"
        )
    text = item._shown() if shown is None else shown
    return _Part(title, text.table() if isinstance(text, Shown) else text, fits)


def _fits_behind(item: Any) -> tuple[Any, ...]:
    """Return objects with a ``privacy`` for a fit, a table of fits or combinations of one."""
    if hasattr(item, "privacy") and hasattr(item, "_record"):
        return (item,)
    if isinstance(item, tuple) and all(hasattr(fit, "privacy") for fit in item):
        return item
    record = getattr(item, "record", None)
    if record is not None:
        return (_Behind(record.guarantee),)
    return tuple(map(_Behind, getattr(item, "guarantees", ())))


@dataclass(frozen=True)
class _Behind:
    """A guarantee where a fit is expected."""

    privacy: Any


def _keyed(rows: Sequence[Row]) -> dict[str, Row]:
    """Return rows by variable and level, so that ``  b`` under ``Group`` is ``Group: b``."""
    out: dict[str, Row] = {}
    above = ""
    for k, row in enumerate(row for row in rows if row.cells):
        name = row.cells[0]
        if name[:1] == " " and name.strip():
            key = f"{above}: {name.strip()}"
        elif not name.strip():
            key = f"{above}\n{k}"  # the second line of a row
        else:
            level = re.fullmatch(r"(?:C\()?(\w+)\)?\[(?:T\.)?(.+)\]", name)
            key = f"{level[1]}: {level[2]}" if level is not None else name.split(",")[0].strip()
            above = key if level is None else level[1]
        out[key if key not in out else f"{key}\n{k}"] = row
    return out


def _heads(part: _Part) -> tuple[Column, ...]:
    """Return the columns of a part but the first, under its title."""
    columns = part.table.columns[1:]
    if not part.title:
        return columns
    return tuple(
        replace(c, group=part.title, label=f"{c.group}\n{c.label}" if c.group else c.label)
        for c in columns
    )


def _notes(parts: Sequence[_Part]) -> tuple[str, ...]:
    """Return the notes of all parts, each once, and the guarantee of the whole."""
    every = [note for part in parts for note in (*part.table.legend, *part.table.notes)]
    of_parts = {joint_line(part.fits) for part in parts}
    listed = [note for note in dict.fromkeys(every) if note not in of_parts]
    return (*listed, joint_line([fit for part in parts for fit in part.fits]))


def tbl_merge(tables: Any, *, title: str = "") -> Joined:
    """Put printed tables next to each other: a row per variable and level, columns of each.

    Parameters
    ----------
    tables : list, or mapping of titles to them
        Fits, results of ``etable`` and of means, or pairs (fit, its summary). A title stands above
        the columns of its table.
    title : str

    Returns
    -------
    Joined
        Rows with one name are one row: ``sex: b`` of a regression and ``  b`` below ``sex`` of a
        table of counts too.

    Raises
    ------
    RequestError
        There are fewer than two tables, or one is not of a fit.

    Privacy
    -------
    Post-processing: costs nothing. The last note is the guarantee of all fits together.
    """
    parts = _parts("tbl_merge", tables)
    keyed = [_keyed(part.table.rows) for part in parts]
    names: dict[str, str] = {}
    for rows in keyed:
        for key, row in rows.items():
            names.setdefault(key, row.cells[0])
    widths = [len(part.table.columns) - 1 for part in parts]
    merged: list[Row] = []
    for key, name in names.items():
        cells = [name]
        for each, width in zip(keyed, widths, strict=True):
            texts = list(each[key].cells[1:]) if key in each else []
            cells += [*texts, *[""] * (width - len(texts))]
        merged.append(Row(tuple(cells)))
    first = Column(left=True, width=max(12, *(len(name) + 1 for name in names.values())))
    columns = (first, *(column for part in parts for column in _heads(part)))
    return Joined(columns, tuple(merged), _notes(parts), title)


def tbl_stack(tables: Any, *, title: str = "") -> Joined:
    """Put printed tables below each other; the columns are those of the widest table.

    Parameters
    ----------
    tables : list, or mapping of titles to them
        As in :func:`tbl_merge`. A title is a line above the rows of its table.
    title : str

    Returns
    -------
    Joined

    Raises
    ------
    RequestError
        There are fewer than two tables, one is not of a fit, or their columns differ.

    Privacy
    -------
    Post-processing: costs nothing. The last note is the guarantee of all fits together.
    """
    parts = _parts("tbl_stack", tables)
    heads = [[c.label for c in part.table.columns[1:]] for part in parts]
    if any(head != heads[0] for head in heads):
        raise RequestError(
            "tbl_stack needs tables with the same columns: "
            + "; ".join(", ".join(filter(None, head)) for head in heads)
            + ". Next to each other: tbl_merge"
        )
    columns = parts[0].table.columns
    rows: list[Row] = []
    for k, part in enumerate(parts):
        rows += [RULE] if k else []
        rows += [Row((part.title, *[""] * (len(columns) - 1)))] if part.title else []
        rows += part.table.rows
    wide = max(len(row.cells[0]) for row in rows if row.cells) + 1
    columns = (replace(columns[0], width=max(columns[0].width, wide)), *columns[1:])
    return Joined(columns, tuple(rows), _notes(parts), title)
