"""A part of a table, read by the types of the whole table.

A library types a part by its own cells: text where one of them is no number. If the others of the
part were then read as text, one row would decide how they are read ("07" and 7 are two values).
So the types are those of the whole (the first part, Dask's meta, what was declared), and a part of
another type is read cell by cell or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpmodels.errors import SourceError
from dpmodels.formula.coerce import coerce
from dpmodels.sources.memory import ArrowSource, DictSource, FrameSource
from dpmodels.sources.source import Chunk, Source
from dpmodels.units.ids import OneType
from dpmodels.variables import Real

#: What has the types, where they were declared or are those of a lazy frame.
WHOLE = "the whole table"
#: What a cell may come as, where the table says numbers (or truth values).
_READABLE = ("numeric", "bool", "text", "category", "category of numbers", "unknown")
#: Cells that are read one by one as they are written, whatever their part was taken for.
_WRITTEN = {"text", "category", "unknown"}


class TypedPart:
    """A part of a table whose types are known.

    Numbers are read cell by cell, so that the value of a cell is the same whatever its part was
    taken for. What cannot be read so (a part that has numbers where the table has text: "01" is
    lost) is refused.

    Parameters
    ----------
    source : Source
        The part.
    types : mapping
        Column -> type, of :func:`types_of` or as declared; columns that are not in it are read as
        they come.
    whole : str
        What has these types, in words.

    Notes
    -----
    **Privacy.** Types are public, as those of a frame are, and so is whether a part has others.
    """

    def __init__(self, source: Source, types: Mapping[str, str], whole: str = WHOLE) -> None:
        self._source, self._types, self._whole = source, types, whole
        self.kinds = source.kinds
        self.n = source.n
        self.rescannable = source.rescannable
        self.schema_attr = source.schema_attr

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of the part, as the table has them."""
        cast = []
        for name in names:
            if name not in self.kinds:
                raise SourceError(f"a later part has no column {name!r}, which {self._whole} has")
            if name in self._types:
                found = type_of(self._source, name)
                check_type(name, self._types[name], found, self._whole)
                if found != self._types[name] and self._types[name] in ("numeric", "bool"):
                    cast.append(name)
        for chunk in self._source.chunks(names):
            yield {**chunk, **{c: _cells(chunk[c], self._types[c]) for c in cast}}


def types_of(source: Source) -> dict[str, str]:
    """Return the type of every column: its kind; of categories also the kind of what they are."""
    return {name: type_of(source, name) for name in source.kinds}


def type_of(source: Source, name: str) -> str:
    """Return the type of one column."""
    kind = source.kinds[name]
    if kind != "category":
        return kind
    if isinstance(source, ArrowSource):
        return "category of numbers" if source.has_numbers(name) else kind
    cells: Any = None
    if isinstance(source, FrameSource):
        cells = source._frame[name]
    elif isinstance(source, DictSource):
        cells = source._data[name]
    categories = getattr(getattr(cells, "dtype", None), "categories", None)
    letter = getattr(getattr(categories, "dtype", None), "kind", "O")
    return "category of numbers" if letter in "iufb" else kind


def one_type(source: Source, column: str) -> OneType:
    """Return what refuses ids of another type: than the table says, or than the first part has."""
    said = getattr(source, "ids", None)
    return OneType("" if said is None else said(column))


def check_type(name: str, wanted: str, found: str, whole: str) -> None:
    """Refuse a part whose column cannot be read as the table has it."""
    if wanted == found or {wanted, found} <= _WRITTEN - {"unknown"}:
        return
    if found == "unknown" and wanted in _WRITTEN:  # a CSV file: cells as they are written
        return
    if wanted in ("numeric", "bool") and found in _READABLE:
        return
    said = (
        f"column {name!r} has the type {wanted!r} in {whole} and {found!r} in a later part: give "
        "all of them the same types, for example by dtype={...} where they are read"
    )
    if found == "category of numbers":
        said += (
            f". Categories that are numbers must be known to all (Dask: .cat.as_known()), or be "
            f"text: .astype({{{name!r}: str}})"
        )
    raise SourceError(said)


def _truth(column: Any) -> bool:
    return getattr(column, "dtype", None) == np.dtype(bool)


def _cells(column: Any, kind: str) -> Any:
    """Return the cells of a part as the table has them, whatever its own type is."""
    if kind == "bool" and _truth(column):
        return column
    numbers = coerce(column, Real())
    if kind == "numeric":
        return numbers
    out = np.full(len(numbers), None, dtype=object)
    out[numbers == 0.0] = False
    out[numbers == 1.0] = True
    return out
