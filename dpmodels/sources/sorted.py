"""People of a table that memory does not hold: sorted once on disk, read many times.

DuckDB sorts the cells of the design by person, within a limit of memory and in a directory that
only this user can open; what comes of it are plain files without a name, one column each, that
every pass reads from first to last. They end with the call, or with the process. Whether a table
comes sorted by person is as private as its rows, so it is never trusted: it is sorted whatever its
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dpmodels.formula.reading import coerce_all
from dpmodels.sources.parts import Source
from dpmodels.sources.people import Cut, Index, PeopleRows
from dpmodels.sources.scratch import Scratch, connected, way_to_spill
from dpmodels.sources.tables import READ_ROWS, one_type
from dpmodels.units import OneType, Person, sort_keys

if TYPE_CHECKING:
    from dpmodels.sources.rows import Coins


#: Of DuckDB: enough to merge sorted runs of wide rows.
_MEMORY = "256MB"
#: People whose numbers of rows are read at once.
_PEOPLE = 1 << 18
#: Sort key of an id: numbers before text (``units.py``), then its position in the table.
_KEY = ("head", "number")


def count_distinct(source: Source, person: Person) -> int:
    """Count the different ids of a table, in bounded memory: a public number."""
    id_type = one_type(source, person.column)
    with closing(Scratch()) as scratch, _Sorter(scratch, (), id_type) as sorter:
        for chunk in source.chunks([person.column]):
            sorter.add(chunk[person.column], {})
        return sorter.distinct()


class SortedPeople(PeopleRows):
    """The private rows of one call, person by person, in files of a temporary directory.

    Blocks, people and integers are those of :class:`dpmodels.sources.people.PeopleRows`.

    **Privacy.** The files hold the cells of the table. They stand where temporary files stand
    (``TMPDIR``), in a directory of this user alone, and have no name once they are open: nothing
    of them outlives the process, however it ends. What DuckDB spills while it sorts is encrypted,
    where DuckDB can (1.4), and removed by the next call if the process is killed meanwhile. From
    DuckDB 2.0 on without its ``httpfs`` extension the cipher is that of its own mbedtls ("unsafe"
    in DuckDB's words: keys are not drawn by a cryptographic library): cells are not in plain
    text, and whoever must withstand an attack on the disk wants an encrypted ``TMPDIR``. In
    memory are the rows of a block, or of one person who has more.
    """

    def __init__(
        self, source: Source, n: int, person: Person, *, public_n: bool = True, **_: Any
    ) -> None:
        super().__init__(source, n, person, public_n=public_n)
        self._scratch: Scratch | None = None
        self._types: dict[str, Any] = {}
        self._files: list[BinaryIO] = []  # one column each, and the numbers of rows of people
        self._found = 0

    def close(self) -> None:
        """Remove the files."""
        for file in self._files:
            file.close()
        if self._scratch is not None:
            self._scratch.close()
        self._scratch, self._types, self._files = None, {}, []

    def _ready(self, kinds: Mapping[str, Any]) -> None:
        """Sort the table on disk if these columns were not sorted yet."""
        if self._scratch is None or set(kinds) - set(self._types):
            self.close()
            self._scratch = Scratch()
            self._read(kinds)

    def _read(self, kinds: Mapping[str, Any]) -> None:
        """Write the coerced cells to disk, sorted by person."""
        empty = coerce_all({c: np.empty(0) for c in kinds}, kinds)
        types = {c: v.dtype for c, v in empty.items()}
        column, scratch = self.person.column, self._scratch
        assert scratch is not None
        id_type = one_type(self._source, column)
        with _Sorter(scratch, tuple(types.values()), id_type) as sorter:
            for chunk in self._source.chunks(list(dict.fromkeys([*kinds, column]))):
                sorter.add(chunk[column], coerce_all({c: chunk[c] for c in kinds}, kinds))
                del chunk
            self._files = [scratch.file(f"column{i}") for i in range(len(types))]
            self._files.append(scratch.file("counts"))
            self._found = sorter.write(self._files)
        self._types = types
        self._check(self._found)

    def _opened(self, kinds: Mapping[str, Any]) -> AbstractContextManager[Cut]:
        """Open the sorted files of these columns for one pass."""
        files = {
            name: (self._files[i], dtype)
            for i, (name, dtype) in enumerate(self._types.items())
            if name in kinds
        }

        def cut(low: int, high: int) -> dict[str, Any]:
            out = {}
            for name, (file, dtype) in files.items():
                file.seek(low * dtype.itemsize)
                out[name] = np.fromfile(file, dtype, high - low)
            return out

        return nullcontext(cut)

    def _spans(self, coins: Coins | None) -> Iterator[tuple[Index, Index]]:
        """Yield (first row, number of rows) of people, those that the coins choose."""
        chosen = None if coins is None else np.zeros(self._found, dtype=bool)
        if coins is not None:
            chosen[coins.choose(self._found)] = True  # type: ignore[index]
        row = person = 0
        while person < self._found:
            self._files[-1].seek(8 * person)  # another pass may have moved it
            counts = np.fromfile(self._files[-1], np.int64, _PEOPLE).astype(np.intp)
            first = row + np.cumsum(counts) - counts
            row += int(counts.sum())
            those: Any = slice(None)
            if chosen is not None:
                those = chosen[person : person + len(counts)]
            person += len(counts)
            yield first[those], counts[those]


class _Sorter:
    """A table of ids and cells in DuckDB: filled part by part, then sorted or counted."""

    def __init__(self, scratch: Scratch, types: tuple[Any, ...], id_type: OneType) -> None:
        self._place, self._types = scratch.path, types
        self._names = [f"c{i}" for i in range(len(types))]
        self._rows = self._waiting = 0
        self._parts: list[Any] = []
        self._connection = connected(self._place / "sort", way_to_spill(), _MEMORY)
        cells = "".join(f", {name} BIGINT" for name in self._names)
        self._one = id_type
        self._do(f"CREATE TABLE cells (head BLOB, number BIGINT, place BIGINT{cells})")

    def __enter__(self) -> _Sorter:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _do(self, query: str) -> Any:
        return self._connection.execute(query)

    def add(self, ids: Any, cells: Mapping[str, Any]) -> None:
        """Add a part of the table; rows without an id are left out."""
        import pyarrow as pa

        self._one.check(ids)
        head, number, rows = sort_keys(ids)
        m = len(number)
        place = np.arange(self._rows, self._rows + m)
        self._rows += m
        columns = {
            "head": pa.repeat(pa.scalar(head, pa.binary()), m)
            if isinstance(head, bytes)
            else pa.array(head, pa.binary()),
            "number": number,
            "place": place,
        }
        for name, column in zip(self._names, cells.values(), strict=True):
            columns[name] = _bits(column if rows is None else column[rows])
        self._parts.append(pa.table(columns))
        self._waiting += m
        if self._waiting >= READ_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Insert the waiting rows into the table that is sorted."""
        import pyarrow as pa

        if self._waiting:
            self._connection.register("part", pa.concat_tables(self._parts))
            self._do("INSERT INTO cells SELECT * FROM part")
            self._connection.unregister("part")
        self._parts, self._waiting = [], 0

    def distinct(self) -> int:
        """Return how many people there are."""
        self._flush()
        result = self._do("SELECT count(*) FROM (SELECT DISTINCT head, number FROM cells)")
        return int(result.fetchone()[0])

    def write(self, files: Sequence[BinaryIO]) -> int:
        """Write the cells in the order of people, a file a column; return how many people.

        The last file gets the numbers of their rows.
        """
        self._flush()
        columns = ", ".join([*_KEY, *self._names])
        result = self._connection.sql(
            f"SELECT {columns} FROM cells ORDER BY head, number, place"  # noqa: S608
        )
        # in batches, straight into files without a name: no sorted copy is on disk
        batches = (getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader)(READ_ROWS)
        *out, counts = files
        people = _Counts(counts.write)
        for batch in batches:
            people.add(batch.column(0), batch.column(1).to_numpy())
            for i, (file, dtype) in enumerate(zip(out, self._types, strict=True)):
                file.write(_cells(batch.column(2 + i).to_numpy(), dtype).tobytes())
        people.end_person()
        for file in files:
            file.flush()
        return people.found


class _Counts:
    """Numbers of rows of people, from ids in order."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._last: tuple[bytes, int] | None = None
        self._open = self.found = 0

    def add(self, head: Any, number: Any) -> None:
        """Add the ids of a batch."""
        m = len(number)
        if not m:
            return
        new = np.ones(m, dtype=bool)
        new[1:] = number[1:] != number[:-1]
        texts = head.to_pylist() if head[0] != head[m - 1] else None
        if texts is not None:
            new[1:] |= np.fromiter((a != b for a, b in zip(texts[1:], texts, strict=False)), bool)
        key = (head[0].as_py(), int(number[0]))
        new[0] = key != self._last
        self._last = (head[m - 1].as_py(), int(number[m - 1]))
        starts = np.flatnonzero(new)
        if not len(starts):
            self._open += m
            return
        self._open += int(starts[0])
        self.end_person()
        self._write(np.diff(starts).astype(np.int64).tobytes())
        self.found += len(starts) - 1
        self._open = m - int(starts[-1])

    def end_person(self) -> None:
        """End the last person."""
        if self._open:
            self._write(np.int64(self._open).tobytes())
            self.found += 1
        self._open = 0


def _bits(column: Any) -> Any:
    """Return cells as integers of 64 bits: the very bits of floats."""
    cells = np.ascontiguousarray(column)
    return cells.view(np.int64) if cells.dtype == np.float64 else cells.astype(np.int64)


def _cells(bits: Any, dtype: Any) -> Any:
    return bits.view(np.float64) if dtype == np.float64 else bits.astype(dtype)
