"""A table whose columns have other names than the study that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpmodels.errors import SourceError, did_you_mean
from dpmodels.sources.tables import Chunk, Source


class Renamed:
    """A source under other names of its columns; its cells are read as they are there.

    Notes
    -----
    **Privacy.** Names are public; each cell passes as the source below gives it.
    """

    def __init__(self, source: Source, columns: Mapping[str, str]) -> None:
        known = source.kinds
        if hasattr(source, "ids"):  # parts that others hold answer by the names they have there
            raise SourceError(
                "columns of tables in parts elsewhere (Dask, dp.Elsewhere) are renamed there: "
                "leave [data.columns] out"
            )
        for name, there in columns.items():
            if there not in known:
                raise SourceError(
                    f"[data.columns] {name} = {there!r}: the data have no such column."
                    f"{did_you_mean(there, known)}"
                )
        taken = set(columns.values())
        self._there = {**{k: k for k in known if k not in taken}, **columns}
        self._source = source
        self.kinds = {name: known[there] for name, there in self._there.items()}
        self.n, self.rescannable, self.schema_attr = source.n, source.rescannable, None

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the chunks of the source, under the names of the study."""
        for chunk in self._source.chunks([self._there[name] for name in names]):
            yield {name: chunk[self._there[name]] for name in names}
