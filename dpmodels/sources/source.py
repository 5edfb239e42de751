"""What a table is here: columns of public kinds, read in chunks; and what its adapters share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpmodels.errors import DPModelsError, SourceError, shown

if TYPE_CHECKING:
    from dpmodels.sources.windows import Windows

#: Rows asked from a reader at once; block height is another number (see ``rows.py``).
READ_ROWS = 65_536

Chunk = Mapping[str, Any]


class Source(Protocol):
    """A table that can be read in chunks.

    Attributes
    ----------
    kinds : mapping of str to str
        Column -> "numeric", "bool", "category", "text", "datetime" or "unknown" (CSV): public.
    n : int or None
        Row count if the container knows it without a pass.
    rescannable : bool
        Whether ``chunks`` can be called again and gives the same rows in the same order.
    schema_attr : object or None
        A schema attached to the table (``Schema.attach``).
    """

    @property
    def kinds(self) -> Mapping[str, str]:
        """Column -> public kind."""
        ...

    @property
    def n(self) -> int | None:
        """Public row count, if known."""
        ...

    @property
    def rescannable(self) -> bool:
        """Whether the rows can be read again."""
        ...

    @property
    def schema_attr(self) -> Any:
        """Schema attached to the table, or None."""
        ...

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield dictionaries of equally long raw columns."""
        ...


def numpy_kind(dtype: Any) -> str:
    """Public kind of a pandas or numpy dtype."""
    letter = getattr(dtype, "kind", "O")
    if letter == "O" and str(dtype) == "category":
        return "category"
    return {"i": "numeric", "u": "numeric", "f": "numeric", "b": "bool", "m": "datetime",
            "M": "datetime"}.get(letter, "text")  # fmt: skip


def arrow_kind(dtype: Any) -> str:
    """Public kind of an Arrow type, by its printed name (no pyarrow import needed)."""
    text = str(dtype)
    if text.startswith("dictionary"):
        return "category"
    if text.startswith(("int", "uint", "float", "double", "half", "decimal")):
        return "numeric"
    if text == "bool":
        return "bool"
    if text.startswith(("timestamp", "date", "time", "duration")):
        return "datetime"
    return "text"


def check_names(names: Iterable[Any]) -> None:
    """Refuse column names that are not text, or stand twice."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise SourceError(
                f"column names must be text, got {shown(name)}. For example: data.columns = "
                "data.columns.astype(str)"
            )
        if name in seen:
            raise SourceError(f"two columns are called {name!r}: rename one of them")
        seen.add(name)


def chosen_chunks(
    source: Source, names: Sequence[str], windows: Windows
) -> Iterator[tuple[int, Chunk]]:
    """Yield (rows left out before it, chunk): a source that can skip rows gives ``chosen``.

    What is left out is never in ``windows``; rows of a chunk may or may not be. The last chunk may
    be empty, with the rows left out at the end.
    """
    skipping = None if windows.every == 1 else getattr(source, "chosen", None)
    if skipping is not None:
        yield from skipping(names, windows)
        return
    for chunk in source.chunks(names):
        yield 0, chunk
        del chunk  # nothing is held while the next is read


#: Said where the message of a library is withheld.
_UNREADABLE = (
    "the table cannot be read: its library failed, with a message that is withheld because it "
    "could quote rows. Nothing was charged. Try to read it without this package"
)


def withheld(read: Callable[[], Any], said: str = _UNREADABLE) -> Any:
    """Return what ``read`` gives; the message of a library that fails could quote rows."""
    problem: DPModelsError | None = None
    try:
        return read()
    except DPModelsError as error:
        problem = error
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic of a library written in Rust is no Exception
        problem = SourceError(said)
    # Raised outside the except block: the library's exception must not stay in __context__.
    raise problem


def need(module: str, why: str) -> None:
    """Refuse to go on without an optional package."""
    if importlib.util.find_spec(module) is None:
        raise SourceError(f"{module} is needed {why}: pip install {module}")
