"""Tables that come in parts: a list of tables, a function that returns an iterator, an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpmodels.errors import SourceError
from dpmodels.sources.source import Chunk, Source, withheld
from dpmodels.sources.typed import TypedPart, check_type, type_of, types_of

__all__ = ["FramesSource"]

_FIRST = "the first table of the iterable"


class FramesSource:
    """A list of tables, a function that returns an iterator of tables, or a plain iterator.

    The types of the first part are those of the table (:class:`~dpmodels.sources.typed.TypedPart`):
    a part that a library has typed by its own cells is not read in another way for it.

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
        self._types = types_of(head)
        if parts is not None:
            self._of_a_list([as_source(part) for part in parts])

    def _of_a_list(self, sources: list[Source]) -> None:
        """Know the number of rows; refuse types that differ before anything is read."""
        counts = [source.n for source in sources]
        self.n = None if any(c is None for c in counts) else sum(c or 0 for c in counts)
        for source in sources:
            for name in self.kinds:
                if name in source.kinds:
                    check_type(name, self._types[name], type_of(source, name), _FIRST)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of each table in turn."""
        for part in self._open():
            yield from TypedPart(self._as_source(part), self._types, _FIRST).chunks(names)


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
