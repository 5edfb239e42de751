"""The rows of a call whose unit is a person: held in memory, ordered by person.

Whatever the source gives (a frame, a file, parts that interleave people), the cells that the
design needs are read once and put in the order of people; ids are compared and dropped. A stage
gets whole people. A stage that knows only rows gets nothing: there is no ``blocks`` to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError, SourceError
from dpmodels.formula.coerce import coerce_all
from dpmodels.sources.adapt import READ_ROWS, Source
from dpmodels.sources.rows import Rows
from dpmodels.sources.windows import WINDOW, Coins
from dpmodels.units.ids import Ids

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.units.person import Person

__all__ = ["BlockOfPeople", "CappedRows", "PeopleRows", "count_people", "row_hashes"]

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BlockOfPeople:
    """Whole people: the rows of one after the other.

    Attributes
    ----------
    rows : (q, m) array
        As a block of :class:`dpmodels.sources.rows.Rows`.
    starts : (k,) array
        First row of each.
    counts : (k,) array
        How many rows each has, at least one.
    """

    rows: Array
    starts: Index
    counts: Index


def count_people(source: Source, person: Person) -> int:
    """Count the different ids of a table: a public number."""
    ids = Ids(getattr(source, "n", None))
    for chunk in source.chunks([person.column]):
        ids.add(chunk[person.column])
    return ids.count()


class PeopleRows:
    """The private rows of one call, person by person.

    Parameters
    ----------
    source : Source
    n : int
        Number of people: public, or the guess of it (add-remove).
    person : Person
    public_n : bool
        False under add-remove.

    Notes
    -----
    **Privacy.** How many rows there are is private: no bar, no error and no block height outside
    this stage depends on it. The number of people is public; a table with another one stops the
    call, where it was declared (``units=``) one with more.
    """

    def __init__(self, source: Source, n: int, person: Person, *, public_n: bool = True) -> None:
        self._source = source
        self.person = person
        self._public_n = public_n
        self._cells: dict[str, Any] = {}
        self._ends: Index | None = None
        self.n = n

    def blocks(self, *_: Any, **__: Any) -> Iterator[Array]:
        """Refuse: a proof for rows says nothing of people."""
        raise PrivacyBugError("this stage reads rows, but the unit of the call is a person")

    raw = coded_blocks = skim = blocks

    def people(
        self, design: Design, coins: Coins | None = None, height: int = WINDOW
    ) -> Iterator[BlockOfPeople]:
        """Yield one pass of blocks of whole people, about ``height`` rows each.

        Rows without an id are nobody's and left out. A person of more rows is a block of its own.
        With ``coins`` only the people that they choose, one coin a person.
        """
        first, counts = self._spans(design.kinds)
        if coins is not None:
            chosen = coins.choose(len(counts))
            first, counts = first[chosen], counts[chosen]
        for a, b in _groups(counts, height):
            size = counts[a:b]
            starts = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.intp)
            m = int(size.sum())
            low, high = int(first[a]), int(first[b - 1] + size[-1])
            where: Any = slice(low, high)
            if high - low != m:
                where = np.repeat(first[a:b] - starts, size) + np.arange(m)
            rows = np.empty((design.q, m))
            design.fill({c: v[where] for c, v in self._cells.items()}, rows)
            yield BlockOfPeople(rows, starts, size)

    def sample(
        self,
        design: Design,
        indices: Sequence[int],
        keep: Index | None,
        draw: Callable[[int], npt.NDArray[np.uint8]],
    ) -> Array:
        """Return design columns of one row a person, that of the smallest keyed hash: (k, n).

        Parameters
        ----------
        keep : array or None
            Which places of people are wanted (sorted); None: all.
        draw : function
            ``draw(m)``: secret uniform bytes, for the key.

        Notes
        -----
        **Privacy.** Which row stands for a person is a function of its own rows and of the key
        alone: one person is one column of what comes back. People without rows are NaN.
        """
        self._spans(design.kinds)
        out = np.full((len(indices), self.n), np.nan)
        hashes = row_hashes([self._cells[c] for c in sorted(design.kinds)], draw(8))
        index, at, first = list(indices), 0, 0
        for block in self.people(design):
            own = hashes[first : first + block.rows.shape[1]]
            first += len(own)
            lowest = np.minimum.reduceat(own, block.starts)
            rows = np.flatnonzero(own == np.repeat(lowest, block.counts))
            # rows of equal cells have equal hashes: the first of them stands for all
            _, one = np.unique(np.searchsorted(block.starts, rows, side="right"), return_index=True)
            part = block.rows[:, rows[one]]
            void = np.isnan(part[0 if design.response is None else -1])
            part = part[index]
            part[:, void] = np.nan
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return out if keep is None else out[:, keep]

    def kept(self, kinds: Mapping[str, Any], most: int, noise: Any) -> dict[str, Any]:
        """Return the cells of exactly ``most`` rows of each of n people; missing ones fill up.

        Kept are the rows of the smallest keyed hashes: of the cells, and of a running number among
        a person's rows of equal cells. People stand in a secret uniform order.

        Notes
        -----
        **Privacy.** One person changes ``most`` consecutive rows: which of its rows are kept is a
        function of them and of the key, and the order of people knows nothing of cells or ids.
        """
        first, counts = self._spans(kinds)
        key = noise.coins(8)
        of = np.repeat(np.arange(len(counts)), counts)
        cells = row_hashes([self._cells[c] for c in sorted(kinds)], key)
        order = np.lexsort((cells, of))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (of[order][1:] != of[order][:-1]) | (cells[order][1:] != cells[order][:-1])
        running = np.arange(len(order)) - np.maximum.accumulate(
            np.where(new, np.arange(len(order)), 0)
        )
        hashes = np.empty_like(cells)
        hashes[order] = row_hashes([cells[order], running], key)
        order = np.lexsort((hashes, of))
        rank = np.arange(len(order)) - np.repeat(first, counts)
        taken = rank < most
        place = noise.permutation(self.n)[of[taken]] * most + rank[taken]
        out = {}
        for name in kinds:
            column = self._cells[name]
            missing: Any = np.nan if column.dtype.kind == "f" else -1
            full = np.full(self.n * most, missing, dtype=column.dtype)
            full[place] = column[order[taken]]
            out[name] = full
        return out

    def close(self) -> None:
        """Let go of the cells."""
        self._cells, self._ends = {}, None

    def _spans(self, kinds: Mapping[str, Any]) -> tuple[Index, Index]:
        """Return (first row, number of rows) of each person, reading the table if need be."""
        if self._ends is None or set(kinds) - set(self._cells):
            self._read(kinds)
        assert self._ends is not None
        return self._ends[:-1], np.diff(self._ends)

    def _read(self, kinds: Mapping[str, Any]) -> None:
        column = self.person.column
        names = list(dict.fromkeys([*kinds, column]))
        n = getattr(self._source, "n", None)
        ids, held = Ids(n), _Held(n)
        for chunk in self._source.chunks(names):
            ids.add(chunk[column])
            cells = coerce_all({c: chunk[c] for c in kinds}, kinds)
            # what a source hands out may be a view of a buffer that it uses again
            held.add(cells)
            del chunk
        codes, found = ids.codes()
        self._check(found)
        del ids
        order, self._ends = _by_person(codes, found)
        del codes
        if not held.rows:  # a table without rows, whose people were declared
            held.add(coerce_all({c: np.empty(0) for c in kinds}, kinds))
        self._cells = held.ordered(order)

    def _check(self, found: int) -> None:
        if not self._public_n:
            return
        if self.person.count is not None and found > self.person.count:
            raise SourceError("the table has more people than units= declares")
        if self.person.count is None and found != self.n:
            raise SourceError(
                "this pass met another number of people than was counted before: the source must "
                "give the same rows each time"
            )


class _Held:
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
        if self._whole and not self._parts:  # more rows than were said, or another kind of cells
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


def _by_person(codes: npt.NDArray[np.int64], found: int) -> tuple[Any, Index]:
    """Return (rows in the order of people, each in that of the file; ends of people).

    A counting sort: rows without an id are left out.
    """
    from scipy.sparse import csr_matrix

    missing = len(codes) > 0 and int(codes.min()) < 0
    if not missing and bool((codes[1:] >= codes[:-1]).all()):
        ends = np.full(found + 1, len(codes), dtype=np.intp)
        ends[0] = 0
        ends[1:-1] = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return slice(None), ends
    rows = np.flatnonzero(codes >= 0) if missing else None
    present = codes if rows is None else codes[rows]
    m = len(present)
    small = np.int32 if max(m, found) < 2**31 else np.int64  # what the sort moves
    cells = np.zeros(m, dtype=np.int8), present.astype(small), np.arange(m + 1, dtype=small)
    table = csr_matrix(cells, shape=(m, found)).tocsc()
    order = table.indices.astype(np.intp)
    return order if rows is None else rows[order], table.indptr.astype(np.intp)


def _groups(counts: Index, height: int) -> Iterator[tuple[int, int]]:
    """Yield runs of people with at most ``height`` rows together, or one person with more."""
    ends = np.cumsum(counts)
    a = done = 0
    while a < len(counts):
        b = max(int(np.searchsorted(ends, done + height, side="right")), a + 1)
        yield a, b
        a, done = b, int(ends[b - 1])


class _Kept:
    """At most so many rows of each person, as a source of rows."""

    rescannable = True
    schema_attr = None

    def __init__(self, people: PeopleRows, kinds: Mapping[str, Any], noise: Any) -> None:
        self._people, self._variables, self._noise = people, dict(kinds), noise
        self._cells: dict[str, Any] = {}
        self.most = people.person.most
        self.n: int | None = people.n * self.most
        self.kinds = dict.fromkeys(kinds, "numeric")

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield slices of coerced cells."""
        if not self._cells:
            self._cells = self._people.kept(self._variables, self.most, self._noise)
            self._people.close()
        for start in range(0, self.n or 0, READ_ROWS):
            yield {c: self._cells[c][start : start + READ_ROWS] for c in names}


class CappedRows(Rows):
    """``max_rows=`` rows of each person, for a method with a proof for rows (cap and pay).

    Parameters
    ----------
    people : PeopleRows
    kinds : mapping
        Variables of the design.
    noise : Noise
        For the key of the hashes and the order of people.
    """

    def __init__(self, people: PeopleRows, kinds: Mapping[str, Any], noise: Any) -> None:
        kept = _Kept(people, kinds, noise)
        super().__init__(kept, people.n * kept.most, False, coerced=True)

    def raw(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Refuse: which rows are kept is private."""
        raise PrivacyBugError("columns of kept rows are not public")


def row_hashes(cells: Sequence[Any], key: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return a keyed number of each row, a function of its cells and of the key alone.

    Cells are compared by value (0 and -0 are one, missing cells too). No proof rests on how well
    it mixes: a key fixed for ever would do for privacy (``units/theory.md``, 5).
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
