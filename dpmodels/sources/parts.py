"""Tables that come in parts: a list of tables, a function that returns an iterator, an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpmodels.errors import SourceError
from dpmodels.formula.coerce import coerce
from dpmodels.sources.memory import FrameSource
from dpmodels.sources.source import Chunk, Source, withheld
from dpmodels.variables import Real

__all__ = ["FramesSource"]

#: What a cell may come as, where the first part says numbers (or truth values).
_READABLE = ("numeric", "bool", "text", "category", "category of numbers", "unknown")


class FramesSource:
    """A list of tables, a function that returns an iterator of tables, or a plain iterator.

    The types of the first part are those of the table. A part that a library has typed by its own
    cells (text where one cell is no number) must not be read in another way for it, or one row
    would decide how the others of its part are read: numbers are read cell by cell, so that the
    value of a cell is the same whatever its part was taken for. What cannot be read so (a part
    that has numbers where the first has text: "01" is lost) is refused.

    Notes
    -----
    **Privacy.** The types of the first part are public, as those of a frame are, and so is whether
    a later part has others. Readers that are known to guess types part by part are refused.
    """

    def __init__(self, data: Any, as_source: Callable[[Any], Source]) -> None:
        _refuse_reader(data)
        self._as_source = as_source  # how a part is opened: a part may itself come in parts
        self.rescannable = not isinstance(data, Iterator)
        self._open: Callable[[], Iterator[Any]]
        self.n: int | None = None
        self._cast: frozenset[str] | None = None
        parts: list[Any] | None = None
        if isinstance(data, Iterator):
            first = withheld(lambda: next(data, None))

            def once() -> Iterator[Any]:
                if first is not None:
                    yield first
                yield from data

            self._open = once
        elif callable(data):

            def opened() -> Iterator[Any]:
                made = data()
                try:
                    _refuse_reader(made)
                except SourceError:
                    made.close()  # a file that nobody else can close
                    raise
                return iter(made)

            self._open = opened
            first = withheld(lambda: next(self._open(), None))
        else:
            parts = list(data)
            self._open = lambda: iter(parts)
            first = parts[0] if parts else None
        if first is None:
            raise SourceError("the iterable of tables is empty: its columns are not known")
        head = as_source(first)
        self.kinds = head.kinds
        self.schema_attr = head.schema_attr
        self._types = {name: _type_of(head, name) for name in head.kinds}
        if parts is not None:
            self._of_a_list([as_source(part) for part in parts])

    def _of_a_list(self, sources: list[Source]) -> None:
        """Know the number of rows, and which columns have the same type in every part."""
        counts = [source.n for source in sources]
        self.n = None if any(c is None for c in counts) else sum(c or 0 for c in counts)
        cast = set()
        for name in self.kinds:
            shared = [source for source in sources if name in source.kinds]
            if len({_dtype_of(source, name) for source in shared}) > 1:
                cast.add(name)
                for source in shared:
                    _check_part(name, self._types[name], _type_of(source, name))
        self._cast = frozenset(cast)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of each table in turn."""
        for part in self._open():
            source = self._as_source(part)
            missing = [c for c in names if c not in source.kinds]
            if missing:
                raise SourceError(f"a later table of the iterable has no column {missing[0]!r}")
            for name in names:
                _check_part(name, self._types[name], _type_of(source, name))
            cast = [c for c in names if self._cast is None or c in self._cast]
            for chunk in source.chunks(names):
                yield {**chunk, **{c: _cells(chunk[c], self._types[c]) for c in cast}}


def _refuse_reader(data: Any) -> None:
    module = type(data).__module__.split(".")[0]
    if module == "pandas" and type(data).__name__ in ("TextFileReader", "JsonReader"):
        raise SourceError(
            "a pandas reader guesses the types of each part from its cells, so one row could "
            "decide how the others are read. Pass the path of the CSV file itself: it is read in "
            "parts too. For other files pass a function that yields frames of stated types, for "
            "example lambda: (part for part in pd.read_json(path, lines=True, chunksize=10**5, "
            "dtype={'x': float}))"
        )


def _dtype_of(source: Source, name: str) -> str:
    """Return the exact type of a pandas column; of another source its kind says enough."""
    return str(source._frame[name].dtype) if isinstance(source, FrameSource) else source.kinds[name]


def _type_of(source: Source, name: str) -> str:
    """Return the kind of a column; of categories also the kind of what they are."""
    kind = source.kinds[name]
    if kind == "category" and isinstance(source, FrameSource):
        letter = getattr(source._frame[name].dtype.categories.dtype, "kind", "O")
        return "category of numbers" if letter in "iufb" else kind
    return kind


def _check_part(name: str, first: str, kind: str) -> None:
    if first == kind or {first, kind} <= {"text", "category"}:
        return
    if first in ("numeric", "bool") and kind in _READABLE:
        return
    raise SourceError(
        f"column {name!r} has the type {first!r} in the first table of the iterable and {kind!r} "
        "in a later one: give all of them the same types, for example by dtype={...} where they "
        "are read"
    )


def _truth(column: Any) -> bool:
    return getattr(column, "dtype", None) == np.dtype(bool)


def _cells(column: Any, kind: str) -> Any:
    """Return the cells of a part as the first part has them, whatever its own type is."""
    if kind not in ("numeric", "bool") or (kind == "bool" and _truth(column)):
        return column
    numbers = coerce(column, Real())
    if kind == "numeric":
        return numbers
    out = np.full(len(numbers), None, dtype=object)
    out[numbers == 0.0] = False
    out[numbers == 1.0] = True
    return out
