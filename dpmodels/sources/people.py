"""The rows of a call whose unit is a person: held in memory, ordered by person.

Whatever the source gives (a frame, a file, parts that interleave people), the cells that the
design needs are read once and put in the order of people; ids are compared and dropped. A stage
gets whole people. A stage that knows only rows gets nothing: there is no ``blocks`` to read.
Rows that memory does not hold are sorted on disk (:mod:`dpmodels.sources.sorted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError, SourceError
from dpmodels.formula.reading import coerce_all
from dpmodels.places import ALL_ROWS, WINDOW, Windows
from dpmodels.sources.parts import Adapter, Executor, Partition, Source
from dpmodels.sources.rows import BlockOfPeople as BlockOfPeople
from dpmodels.sources.rows import Coins, OfRows, Rows, keyed
from dpmodels.sources.summed import Partial, Task, added, results
from dpmodels.sources.tables import READ_ROWS, FrameSource, TypedPart, one_type, types_of
from dpmodels.units import Ids, OneType, Person, id_type, sort_keys

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


# -- People of a Dask frame: moved so that each is whole in one partition, then added up there.
#
# A partition of the frame as it comes may hold some rows of a person and not others, and two balls
# per person would be twice the sensitivity. So rows without an id are left out, the cells that the
# design needs become numbers, and rows move by their *canonical* id: ids that are one person here
# (``units.py``) are one there, in any spelling.


#: Name of the column of ids in a frame whose people are whole.
MOVED = Person(" person")
_PLACE = " place"
_OTHER = (
    "a partition has a column, or ids, of another type than the frame says, so one cell may have "
    "decided how the others are read: give all partitions the same types, for example by "
    "dtype={...} where they are read, or .astype(...)"
)


def move_to_people(data: Any, column: str, kinds: Mapping[str, Any]) -> Any:
    """Return a Dask frame of coerced cells in which each person lies in one partition."""
    return _by_person(data, column, dict(kinds)).shuffle(on=_PLACE)


def count_rows_by_person(data: Any, column: str) -> Any:
    """Return a Dask frame with one row per person."""
    people = _by_person(data, column, {})
    return people.drop_duplicates(split_out=max(data.npartitions, 1))


def whole_part(frame: Any) -> FrameSource:
    """Return a partition of :func:`moved` as a source; refuse undeclared types."""
    if _refused(frame):
        raise SourceError(_OTHER)
    return FrameSource(frame)


def people_of(frame: Any) -> int:
    """Return the number of rows of a partition of :func:`count_rows_by_person`; -1: refused."""
    return -1 if _refused(frame) else len(frame)


def added_people(parts: Iterable[int]) -> int:
    """Return how many people all partitions have together."""
    counts = list(parts)
    if min(counts, default=0) < 0:
        raise SourceError(_OTHER)
    return sum(counts)


def _refused(frame: Any) -> bool:
    return bool((frame[_PLACE] < 0).any())


def _by_person(data: Any, column: str, kinds: Mapping[str, Any]) -> Any:
    """Return a Dask frame of canonical ids, where they go, and coerced cells."""
    chosen = data[list(dict.fromkeys([*kinds, column]))]
    like = chosen._meta
    dtype = like[column].dtype
    are_integers = isinstance(dtype, np.dtype) and (  # ids are integers of 64 bits: a public fact
        dtype.kind in "if" or (dtype.kind == "u" and dtype.itemsize < 8)
    )
    declared = _Said(types_of(FrameSource(like)), id_type(like[column]), not are_integers)
    meta = _prepared(like, column, kinds, declared)
    return chosen.map_partitions(_part, column, kinds, declared, meta, meta=meta)


@dataclass(frozen=True)
class _Said:
    """Types that the frame declares for its partitions, of columns and of the ids."""

    types: Mapping[str, str]
    ids: str
    of_text: bool


def _part(part: Any, column: str, kinds: Mapping[str, Any], declared: _Said, meta: Any) -> Any:
    """Return :func:`_prepared`, or one row with the message that the types differ.

    An exception would be logged by the worker beside the rows.
    """
    try:
        return _prepared(part, column, kinds, declared)
    except SourceError:
        mark = meta.reindex([0], fill_value=0) if not declared.of_text else meta.reindex([0])
        return mark.assign(**{_PLACE: np.int64(-1)}).astype(meta.dtypes.to_dict())


def _prepared(part: Any, column: str, kinds: Mapping[str, Any], declared: _Said) -> Any:
    """Return the rows with an id: canonical id, where it goes, and coerced cells."""
    import pandas as pd

    OneType(declared.ids).check(part[column])
    head, number, rows = sort_keys(part[column])
    out: dict[str, Any] = {}
    if declared.of_text:
        heads = [head] * len(number) if isinstance(head, bytes) else head
        names = [f"{h.hex()}:{n}" for h, n in zip(heads, number.tolist(), strict=True)]
        out[MOVED.column] = pd.array(names, dtype="string")
        out[_PLACE] = np.array([crc32(name.encode()) for name in names], dtype=np.int64)
    else:
        out[MOVED.column] = number
        out[_PLACE] = (number ^ (number >> 32)) & 0x7FFFFFFF
    for name, cells in _coerced(part, kinds, declared).items():
        out[name] = cells if rows is None else cells[rows]
    return pd.DataFrame(out)


def _coerced(part: Any, kinds: Mapping[str, Any], declared: _Said) -> dict[str, Any]:
    """Return the coerced cells of a partition, read by the types of the frame."""
    chunks = list(TypedPart(FrameSource(part), declared.types).chunks(list(kinds))) if kinds else []
    if not chunks:
        return coerce_all({c: part[c] for c in kinds}, kinds)
    coerced = [coerce_all(chunk, kinds) for chunk in chunks]
    return {c: np.concatenate([cells[c] for cells in coerced]) for c in kinds}


# -- Columns put in the order of people, and runs of whole people


Index = npt.NDArray[np.intp]


class Columns:
    """Columns that are copied once, into their place, where the number of rows is known."""

    def __init__(self, n: int | None) -> None:
        self._whole: dict[str, Any] = {}
        self._parts: list[Mapping[str, Any]] = []
        self._n = n or 0
        self.rows = 0

    def add(self, cells: Mapping[str, Any]) -> None:
        """Copy a part of every column."""
        a = self.rows
        self.rows += len(next(iter(cells.values()))) if cells else 0
        if not self._whole and self._n and not a:
            self._whole = {c: np.empty(self._n, dtype=v.dtype) for c, v in cells.items()}
        fits = bool(self._whole) and self.rows <= self._n and not self._parts
        if fits and all(self._whole[c].dtype == v.dtype for c, v in cells.items()):
            for c, v in cells.items():
                self._whole[c][a : self.rows] = v
            return
        if self._whole and not self._parts:  # more rows than declared, or another kind of cells
            self._parts.append({c: v[:a] for c, v in self._whole.items()})
        self._parts.append({c: np.array(v) for c, v in cells.items()})

    def ordered(self, order: Any) -> dict[str, Any]:
        """Return the columns, in the order given; columns take each other's place in memory."""
        columns = {c: v[: self.rows] for c, v in self._whole.items()}
        if self._parts:
            columns = {c: np.concatenate([p[c] for p in self._parts]) for c in self._parts[0]}
        if isinstance(order, slice):
            return columns
        spare: dict[Any, Any] = {}
        for c, v in columns.items():
            to = spare.pop(v.dtype, None)
            to = np.empty_like(v) if to is None else to
            columns[c] = np.take(v, order, out=to[: len(order)], mode="clip")
            spare[v.dtype] = v
        return columns


def by_person(codes: npt.NDArray[np.int64], people: int) -> tuple[Any, Index]:
    """Return (rows in the order of people, each in that of the file; ends of people).

    A counting sort: rows without an id are left out.
    """
    from scipy.sparse import csr_matrix

    missing = len(codes) > 0 and int(codes.min()) < 0
    if not missing and bool((codes[1:] >= codes[:-1]).all()):
        ends = np.full(people + 1, len(codes), dtype=np.intp)
        ends[0] = 0
        ends[1:-1] = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return slice(None), ends
    rows = np.flatnonzero(codes >= 0) if missing else None
    present = codes if rows is None else codes[rows]
    m = len(present)
    small = np.int32 if max(m, people) < 2**31 else np.int64  # what the sort moves
    cells = np.zeros(m, dtype=np.int8), present.astype(small), np.arange(m + 1, dtype=small)
    table = csr_matrix(cells, shape=(m, people)).tocsc()
    order = table.indices.astype(np.intp)
    return order if rows is None else rows[order], table.indptr.astype(np.intp)


def runs(spans: Iterator[tuple[Index, Index]], height: int) -> Iterator[tuple[Index, Index]]:
    """Yield runs of people with at most ``height`` rows together, or one person with more.

    The runs are the same however the spans come in parts.
    """
    left: tuple[Index, Index] | None = None
    for first, counts in spans:
        if left is not None:
            first, counts = np.concatenate([left[0], first]), np.concatenate([left[1], counts])
        left = None
        for a, b in _groups(counts, height):
            if b == len(counts):  # more may come
                left = first[a:], counts[a:]
            else:
                yield first[a:b], counts[a:b]
    if left is not None:
        yield left


def _groups(counts: Index, height: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of people whose rows together are about ``height``."""
    ends = np.cumsum(counts)
    a = done = 0
    while a < len(counts):
        b = max(int(np.searchsorted(ends, done + height, side="right")), a + 1)
        yield a, b
        a, done = b, int(ends[b - 1])


#: ``cut(a, b)``: the cells of rows a to b, in the order of people.
Cut = Callable[[int, int], dict[str, Any]]
#: Rows at once where a person's rows are kept by their hashes.
_KEPT = 1 << 17


def count_people(source: Source, person: Person) -> int:
    """Count the different ids of a table: a public number."""
    counter = getattr(source, "people", None)  # of parts that others hold
    people = None if counter is None else counter(person.column)
    if people is not None:
        return int(people)
    ids = Ids(getattr(source, "n", None), one_type(source, person.column))
    for chunk in source.chunks([person.column]):
        ids.add(chunk[person.column])
    return ids.count()


class PeopleRows(OfRows):
    """The private rows of one call, person by person.

    ``n`` is the number of people: public, or under add-remove (``public_n=False``) a guess of it.
    ``coerced``: the cells of the source are as coercion would give them. ``executor``: who does the
    tasks of passes that are sums, where the source has whole people in its parts.

    **Privacy.** How many rows there are is private: no bar, no error and no block height outside
    this stage depends on it. The number of people is public; a table with another one stops the
    call, where it was declared (``units=``) one with more.
    """

    by_person = own_sums = True

    def __init__(
        self, source: Source, n: int, person: Person, *, public_n: bool = True,
        coerced: bool = False, executor: Executor | None = None,
    ) -> None:  # fmt: skip
        self._source, self._coerced, self._executor = source, coerced, executor
        self._whole: tuple[frozenset[str], list[Partition]] = frozenset(), []
        self.person = person
        self._public_n = public_n
        self._cells: dict[str, Any] = {}
        self._ends: Index | None = None
        self.n = n

    def blocks(self, *_: Any, **__: Any) -> Iterator[Array]:
        """Raise an error: a proof for rows does not cover people."""
        raise PrivacyBugError("this stage reads rows, but the unit of the call is a person")

    raw = skim = blocks

    def people(
        self, design: Design, coins: Coins | None = None, height: int = WINDOW
    ) -> Iterator[BlockOfPeople]:
        """Yield blocks of whole people, about ``height`` rows each, of one reading.

        Rows without an id are nobody's and left out. A person of more rows is a separate block.
        With ``coins`` only the people that they choose, one coin a person.
        """
        for cells, starts, counts in self._parts(design.kinds, coins, height):
            rows = np.empty((design.q, int(counts.sum())))
            design.fill(cells, rows)
            yield BlockOfPeople(rows, starts, counts)

    def summed(
        self, design: Design, job: Any, *, windows: Windows = ALL_ROWS,
        coins: Coins | None = None, inner: Coins | None = None,
    ) -> Any:  # fmt: skip
        """Return the sums of one pass over people (:func:`dpmodels.sources.summed.summed`).

        All rows are read: positions do not matter for people.
        """
        if windows.every > 1 or not getattr(job, "of_people", False):
            raise PrivacyBugError("this stage reads rows, but the unit of the call is a person")
        partitions = self._partitions(design.kinds)
        if not partitions or self._executor is None:
            return job.over(self.people(design, coins), inner)
        task = PeopleTask(design, job, ALL_ROWS, keyed(coins), keyed(inner))
        mark, parts = results(self._executor, task, partitions)
        total, people = added(task, parts, len(partitions), mark)
        self._check(people)
        return total

    def raw_people(self, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], Index]]:
        """Yield cells as they are, with the index of the person of each row: -1 for nobody's.

        The table is read twice: ids first.
        """
        column = self.person.column
        ids = Ids(getattr(self._source, "n", None), one_type(self._source, column))
        for chunk in self._source.chunks([column]):
            ids.add(chunk[column])
        codes, people = ids.codes()
        self._check(people)
        at = 0
        for chunk in self._source.chunks(list(names)):
            size = len(chunk[names[0]])
            yield chunk, codes[at : at + size]
            at += size
        if at != len(codes):
            raise SourceError("the source must give the same rows each time")

    def count_people(self, kinds: Mapping[str, Any]) -> int:
        """Return how many people there are. Confidential: under add-remove their number is."""
        self._ready(kinds)
        assert self._ends is not None
        return len(self._ends) - 1

    def _partitions(self, kinds: Mapping[str, Any]) -> list[Partition]:
        """Return the parts of the source that hold whole people; none: read in this process."""
        partitions = getattr(self._source, "partitions_of_people", None)
        if self._executor is None or partitions is None:
            return []
        if self._whole[0] != frozenset(kinds):
            self._whole = frozenset(kinds), partitions(self.person.column, kinds)
        return self._whole[1]

    def sample(
        self, design: Design, indices: Sequence[int], keep: Index | None,
        draw: Callable[[int], npt.NDArray[np.uint8]],
    ) -> Array:  # fmt: skip
        """Return design columns (k, n) with one row per person, that of the smallest keyed hash.

        ``keep``: which indices of people are wanted (sorted); ``draw(m)``: secret uniform bytes,
        for the key. People without rows are NaN.

        **Privacy.** Which row stands for a person is a function of its own rows and of the key
        alone: one person is one column of what comes back.
        """
        out = np.full((len(indices), self.n), np.nan)
        index, at, key = list(indices), 0, draw(8)
        for cells, starts, counts in self._parts(design.kinds):
            hashes = row_hashes([cells[c] for c in sorted(design.kinds)], key)
            lowest = np.minimum.reduceat(hashes, starts)
            rows = np.flatnonzero(hashes == np.repeat(lowest, counts))
            # rows of equal cells have equal hashes: the first of them stands for all
            _, firsts = np.unique(np.searchsorted(starts, rows, side="right"), return_index=True)
            filled = np.empty((design.q, len(hashes)))
            design.fill(cells, filled)
            part = filled[:, rows[firsts]]
            missing_rows = np.isnan(part[0 if design.response is None else -1])
            part = part[index]
            part[:, missing_rows] = np.nan
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return out if keep is None else out[:, keep]

    def rows_of_each(self, kinds: Mapping[str, Any], most: int, noise: Any) -> dict[str, Any]:
        """Return the cells of exactly ``most`` rows of each of n people; missing ones fill up.

        Kept are the rows of the smallest keyed hashes: of the cells, and of a running number among
        a person's rows of equal cells. People stand in a secret uniform order.

        **Privacy.** One person changes ``most`` consecutive rows: which of its rows are kept is a
        function of them and of the key, and the order of people does not depend on cells or ids.
        """
        key, order, at = noise.coins(8), noise.permutation(self.n), 0
        out: dict[str, Any] = {}
        for cells, starts, counts in self._parts(kinds, height=_KEPT):
            rows, of, rank = _smallest(cells, starts, counts, most, key)
            place = order[at + of] * most + rank
            at += len(counts)
            for name in kinds:
                if name not in out:
                    out[name] = self._missing(cells[name].dtype, most)
                out[name][place] = cells[name][rows]
        if not out:
            empty = coerce_all({c: np.empty(0) for c in kinds}, kinds)
            out = {c: self._missing(v.dtype, most) for c, v in empty.items()}
        return out

    def _missing(self, dtype: Any, most: int) -> Any:
        missing: Any = np.nan if dtype.kind == "f" else -1
        return np.full(self.n * most, missing, dtype=dtype)

    def close(self) -> None:
        """Let go of the cells."""
        self._cells, self._ends = {}, None
        self._whole = frozenset(), []

    def _parts(
        self, kinds: Mapping[str, Any], coins: Coins | None = None, height: int = WINDOW
    ) -> Iterator[tuple[dict[str, Any], Index, Index]]:
        """Yield (cells, first row, number of rows) of whole people, about ``height`` rows at once.

        The table is read first if need be.
        """
        self._ready(kinds)
        with self._opened(kinds) as cut:
            for first, size in runs(self._spans(coins), height):
                starts = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.intp)
                m = int(size.sum())
                low, high = int(first[0]), int(first[-1] + size[-1])
                cells = cut(low, high)
                if high - low != m:  # people in between are left out
                    where = np.repeat(first - low - starts, size) + np.arange(m)
                    cells = {c: v[where] for c, v in cells.items()}
                yield cells, starts, size
                del cells

    def _opened(self, kinds: Mapping[str, Any]) -> AbstractContextManager[Cut]:
        """Return the reader that slices the table in the order of people."""
        return nullcontext(lambda a, b: {c: self._cells[c][a:b] for c in kinds})

    def _spans(self, coins: Coins | None) -> Iterator[tuple[Index, Index]]:
        """Yield (first row, number of rows) of people, or of those that the coins choose."""
        assert self._ends is not None
        first, counts = self._ends[:-1], np.diff(self._ends)
        if coins is not None:
            chosen = coins.choose(len(counts))
            first, counts = first[chosen], counts[chosen]
        yield first, counts

    def _ready(self, kinds: Mapping[str, Any]) -> None:
        """Read the table if need be."""
        if self._ends is None or set(kinds) - set(self._cells):
            self._read(kinds)

    def _read(self, kinds: Mapping[str, Any]) -> None:
        """Read ids and cells of all rows into memory, in the order of people."""
        column = self.person.column
        names = list(dict.fromkeys([*kinds, column]))
        n = getattr(self._source, "n", None)
        ids, held = Ids(n, one_type(self._source, column)), Columns(n)
        for chunk in self._source.chunks(names):
            ids.add(chunk[column])
            cells = {c: chunk[c] for c in kinds}
            if not self._coerced:
                cells = coerce_all(cells, kinds)
            # what a source hands out may be a view of a buffer that it uses again
            held.add(cells)
            del chunk
        codes, people = ids.codes()
        self._check(people)
        del ids
        order, self._ends = by_person(codes, people)
        del codes
        if not held.rows:  # a table without rows, whose people were declared
            held.add(coerce_all({c: np.empty(0) for c in kinds}, kinds))
        self._cells = held.ordered(order)

    def _check(self, people: int) -> None:
        """Refuse a source that gave another number of people than was declared or counted."""
        if not self._public_n:
            return
        if self.person.count is not None and people > self.person.count:
            raise SourceError("the table has more people than units= declares")
        if self.person.count is None and people != self.n:
            raise SourceError(
                "the source has another number of people than was counted before. It must "
                "give the same rows each time"
            )


@dataclass(frozen=True, eq=False, repr=False)
class PeopleTask(Task):
    """The plan of one pass over people, for a part that has whole people alone."""

    def add_part(self, index: int, source: Source, first: int | None, mark: str = "") -> Partial:
        """Add up one part; its length is counted in people."""
        rows = PeopleRows(source, 0, MOVED, public_n=False, coerced=True)
        coins = None if self.key is None else self.key.coins(index, 0)
        inner = None if self.inner is None else self.inner.coins(index, 1)
        with np.errstate(all="ignore"):
            sums = self.job.over(rows.people(self.design, coins), inner)
            return Partial(index, rows.count_people(self.design.kinds), sums, mark)


def _smallest(
    cells: Mapping[str, Any], starts: Index, counts: Index, most: int, key: npt.NDArray[np.uint8]
) -> tuple[Index, Index, Index]:
    """Return (row, its person, its rank) of the rows of the ``most`` smallest hashes of each."""
    of = np.repeat(np.arange(len(counts)), counts)
    hashes_of_cells = row_hashes([cells[c] for c in sorted(cells)], key)
    order = np.lexsort((hashes_of_cells, of))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (of[order][1:] != of[order][:-1]) | (
        hashes_of_cells[order][1:] != hashes_of_cells[order][:-1]
    )
    running = np.arange(len(order)) - np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    hashes = np.empty_like(hashes_of_cells)
    hashes[order] = row_hashes([hashes_of_cells[order], running], key)
    order = np.lexsort((hashes, of))
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    taken = rank < most
    return order[taken], of[taken], rank[taken]


def row_hashes(cells: Sequence[Any], key: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return a keyed number of each row, a function of its cells and of the key alone.

    Cells are compared by value (0 and -0 are one, missing cells too). No proof depends on how well
    it mixes: a key fixed for ever would do for privacy (``units.md``, 5).
    """
    seed = np.frombuffer(np.ascontiguousarray(key[:8]).tobytes(), dtype=np.uint64)[0]
    out = np.full(len(cells[0]) if cells else 0, seed, dtype=np.uint64)
    for column in cells:
        bits = np.asarray(column)
        if bits.dtype.kind == "f":
            bits = np.where(np.isnan(bits), -np.inf, bits + 0.0).view(np.uint64)
        out ^= bits.astype(np.uint64)
        out += np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            out ^= out >> np.uint64(shift)
            out *= np.uint64(factor)
        out ^= out >> np.uint64(31)
    return out


# -- At most so many rows of each person, as rows: as group privacy needs (``units.md``).


class _Kept(Adapter):
    """Source of at most a fixed number of rows per person."""

    def __init__(self, people: PeopleRows, kinds: Mapping[str, Any], noise: Any) -> None:
        self._people, self._variables, self._noise = people, dict(kinds), noise
        self._cells: dict[str, Any] = {}
        self.most = people.person.most
        self.n = people.n * self.most
        self.kinds = dict.fromkeys(kinds, "numeric")

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield slices of coerced cells."""
        if not self._cells:
            self._cells = self._people.rows_of_each(self._variables, self.most, self._noise)
            self._people.close()
        for start in range(0, self.n or 0, READ_ROWS):
            yield {c: self._cells[c][start : start + READ_ROWS] for c in names}


class CappedRows(Rows):
    """``max_rows=`` rows of each person, for a method with a proof for rows (group privacy).

    ``noise`` is for the key of the hashes and the order of people.
    """

    def __init__(self, people: PeopleRows, kinds: Mapping[str, Any], noise: Any) -> None:
        capped = _Kept(people, kinds, noise)
        super().__init__(capped, people.n * capped.most, False, coerced=True)
        self._of = people

    def close(self) -> None:
        """Let go of the cells."""
        super().close()
        self._of.close()

    def raw(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Raise an error: the choice of the kept rows is private."""
        raise PrivacyBugError("columns of kept rows are not public")
