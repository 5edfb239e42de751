"""The block program: fills a buffer with one row per design column, a block of rows at a time.

Row ``i`` of the block depends on row ``i`` of the chunk and on public constants only: every
operation below is elementwise along the last axis. Nothing here raises or warns because of a cell.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.formula.schema import Schema
from dpmodels.formula.words import Basis, Cat, Interval, Node
from dpmodels.opaque import Rows, whole_codes

Array = Any  # numpy.ndarray of float64 or int


class Block:
    """The cells of one block, prepared on demand: clipped numbers, codes, and missing rows."""

    def __init__(
        self, chunk: Mapping[str, Array], m: int, rules: Mapping[str, Rule], clip: bool = True
    ) -> None:
        self.chunk = chunk
        self.m = m
        self.rules = rules
        self.clip = clip
        self.bad: Array | None = None
        self.numbers: dict[str, Array] = {}
        self.coded: dict[int, Array] = {}

    def number(self, name: str) -> Rows:
        """Return the clipped cells of a variable, opaque."""
        if name not in self.numbers:
            self.numbers[name] = self.fill_number(name, np.empty(self.m))
        return Rows(self.numbers[name][None])

    def public(self, value: float) -> Rows:
        """Return the same public number for every row."""
        return Rows(np.full((1, self.m), value))

    def as_read(self, name: str) -> Rows:
        """Return the cells of a variable as they were read, opaque."""
        return Rows(self.chunk[name][None])

    def unclipped(self) -> Block:
        """Return the cells before ranges clip them, a missing one missing."""
        rules = dict.fromkeys(self.rules, Rule(None, None))
        return Block(self.chunk, self.m, rules, clip=False)

    def values(self, node: Node) -> Array:
        """Return the numbers of a node, (m,)."""
        value = node.evaluate(self)
        if not isinstance(value, Rows):
            return np.full(self.m, float(value))
        return np.asarray(value.numbers[0], dtype=float)

    def fill_number(self, name: str, out: Array) -> Array:
        """Write the clipped cells of a variable into ``out`` and remember it."""
        rule = self.rules[name]
        cells = self.chunk[name]
        if rule.interval is not None and self.clip:
            clip_cells(cells, rule.interval[0], rule.interval[1], out=out)
        else:
            out[...] = cells
        if rule.fill is not None and np.isnan(out.sum()):
            out[np.isnan(out)] = rule.fill
        self.numbers[name] = out
        return out

    def code(self, name: str) -> Rows:
        """Return the codes of a factor variable, opaque; -1 is missing."""
        codes = self.chunk[name]
        fill = self.rules[name].fill
        return Rows((codes if fill is None else np.where(codes < 0, int(fill), codes))[None])

    def codes(self, cat: Cat) -> Array:
        """Return the codes of a factor; rows without a level are marked missing."""
        key = id(cat)
        if key not in self.coded:
            codes = self.codes_of(cat)
            if codes.size and codes.min() < 0:
                self.mark(codes < 0)
            self.coded[key] = codes
        return self.coded[key]

    def codes_of(self, cat: Cat) -> Array:
        """Return the codes of a factor: -1, or one of its levels, whatever it says."""
        return whole_codes(cat.evaluate(self), len(cat.levels) - 1)[0]

    def mark(self, rows: Array) -> None:
        """Mark rows as missing."""
        self.bad = rows if self.bad is None else self.bad | rows


@dataclass(frozen=True)
class Rule:
    """Treatment of the cells of a variable: its range, and the value of a missing cell."""

    interval: Interval
    fill: float | None


@dataclass(frozen=True)
class Atom:
    """A factor in one coding: one or more columns of which products are made."""

    source: Node | Basis | Cat
    names: tuple[str, ...]
    intervals: tuple[Interval, ...]
    norms: Mapping[str, float | None]
    matrix: Any = None  # (levels, c): coding matrix of a category
    # (levels + 1,): for dummies: local column of each code, -1 for none (the last entry is the
    # missing code).
    target: Any = None
    drop: int = 0  # Leading columns of a basis left out in reduced coding

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    def fill(self, block: Block, out: Array, clip: bool) -> None:
        """Write the columns of the atom into ``out`` of shape (width, m)."""
        s = self.source
        if isinstance(s, Cat):
            codes = block.codes(s)
            if self.target is not None:
                scatter(out, self.target[codes], 1.0)
            else:
                np.take(self.matrix.T, codes, axis=1, out=out, mode="clip")
            return
        if isinstance(s, Basis):
            out[...] = s.evaluate(block).numbers[self.drop :]
        elif s.raw is not None:
            cached = block.numbers.get(s.raw)
            if cached is None:
                block.fill_number(s.raw, out[0])
            else:
                out[0] = cached
            return
        else:
            out[0] = block.values(s)
        if clip:
            for row, interval in zip(out, self.intervals, strict=True):
                if interval is not None:
                    clip_cells(row, interval[0], interval[1], out=row)

    def values(self, block: Block, store: dict[int, Array], clip: bool) -> Array:
        """Return the columns, from ``store`` if they are there already."""
        key = id(self)
        if key not in store:
            out = np.empty((self.width, block.m))
            self.fill(block, out, clip)
            store[key] = out
        return store[key]


def scatter(out: Array, columns: Array, values: Any) -> None:
    """Set ``out[columns[i], i] = values[i]`` and 0 elsewhere; negative columns are skipped."""
    out[...] = 0.0
    m = columns.shape[0]
    if not m or not out.shape[0]:
        return
    rows = np.arange(m)
    keep = columns >= 0
    if not keep.all():
        rows, columns = rows[keep], columns[keep]
        if np.ndim(values):
            values = values[keep]
    out[columns, rows] = values


@dataclass(frozen=True)
class Product:
    """One part of a term: rows ``start:start+width`` are products of the atoms' columns.

    The first atom's column runs fastest, as in R, patsy and formulaic.
    """

    start: int
    scale: float
    atoms: tuple[Atom, ...]

    @functools.cached_property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(a.width for a in self.atoms)

    def combined(self) -> Iterator[tuple[int, ...]]:
        """Yield the indices, one per atom, of the columns that each column is a product of."""
        places = itertools.product(*(range(a.width) for a in reversed(self.atoms)))
        return (place[::-1] for place in places)

    @functools.cached_property
    def single(self) -> bool:
        """Whether it is one atom as it stands."""
        return len(self.atoms) == 1 and self.scale == 1.0

    def fill(self, block: Block, out: Array, store: dict[int, Array], clip: bool) -> None:
        """Write the products into ``out`` of shape (width, m)."""
        if not self.atoms:
            out[...] = self.scale
            return
        if self.single:
            self.atoms[0].fill(block, out, clip)
            store[id(self.atoms[0])] = out
            return
        dummies = [a for a in self.atoms if a.target is not None]
        others = [a for a in self.atoms if a.target is None]
        if dummies and all(a.width == 1 for a in others):
            self._scatter(block, out, store, clip)
            return
        parts = [a.values(block, store, clip) for a in self.atoms]
        for row, index in zip(out, self.combined(), strict=True):
            np.multiply(
                parts[0][index[0]], parts[1][index[1]] if len(parts) > 1 else self.scale, out=row
            )
            for k in range(2, len(parts)):
                row *= parts[k][index[k]]
            if self.scale != 1.0 and len(parts) > 1:
                row *= self.scale

    def _scatter(self, block: Block, out: Array, store: dict[int, Array], clip: bool) -> None:
        """Write dummies times numbers: at most one value per row is nonzero."""
        column: Any = np.zeros(block.m, dtype=np.intp)
        value: Any = None
        stride = 1
        for a in self.atoms:
            if a.target is None:
                x = a.values(block, store, clip)[0]
                value = x if value is None else value * x
                continue
            assert isinstance(a.source, Cat)
            local = a.target[block.codes(a.source)]
            column = np.where((local < 0) | (column < 0), -1, column + stride * local)
            stride *= a.width
        if value is None:
            value = 1.0
        if self.scale != 1.0:
            value = value * self.scale
        if np.ndim(value) and not np.isfinite(value.sum()):
            block.mark(np.isnan(value))  # the reference level would hide a missing number
        scatter(out, column, value)


@dataclass(frozen=True)
class Program:
    """Everything ``Design.fill`` does."""

    products: tuple[Product, ...]  # In column order
    rules: Mapping[str, Rule]  # Variable -> Rule
    columns: int  # p
    numeric: tuple[slice, ...]  # Rows of the buffer that can hold NaN
    response: Node | Cat | None = None  # Cat: a class response, written as its code
    response_interval: Interval = None
    offset: Node | None = None
    subset: Node | None = None
    ids: Node | None = None  # Labels of clusters: a row without one is missing
    weights: Node | None = None
    # Offset and weight of a row, where they are rows of the buffer (before the response) instead of
    # being worked into it.
    aside: tuple[Node, ...] = ()
    impute: bool = False
    #: False: a row whose only fault is a missing level is not marked as missing.
    marks: bool = True

    def fill(
        self,
        chunk: Mapping[str, Array],
        out: Array,
        clips: Sequence[Interval],
        finals: Sequence[tuple[int, float, float]],
    ) -> None:
        """Fill ``out`` of shape (q, m); ``clips`` and ``finals`` refer to its rows."""
        with np.errstate(all="ignore"):
            block = Block(chunk, out.shape[1], self.rules)
            last = out.shape[0] - 1
            self._predictors(block, out, True)
            if self.response is not None:
                self._response(block, out[last])
            if self.subset is not None:  # before weights: cells of the block are rows of ``out``
                block.mark(~(block.values(self.subset) == 1.0))
            if self.ids is not None:
                block.mark(block.values(self.ids) == 0.0)
            if self.weights is not None:
                out *= np.sqrt(block.values(self.weights))
            for row, node in enumerate(self.aside, self.columns):  # no weight: labels alone
                out[row] = block.values(node)
            for row, lo, hi in finals:
                clip_cells(out[row], lo, hi, out=out[row])
            if self.impute and not np.isfinite(out.sum()):
                for row, interval in zip(out, clips, strict=True):
                    if interval is not None:  # the middle of the column's interval (``theory.md``)
                        row[np.isnan(row)] = 0.5 * (interval[0] + interval[1])
            mark = last if self.response is not None else 0
            for rows in self.numeric:
                part = out[rows]
                if not np.isfinite(part.sum()):
                    block.mark(np.isnan(part).any(axis=0))
            if block.bad is not None and self.marks:
                out[mark, block.bad] = np.nan

    def matrix(self, chunk: Mapping[str, Array], m: int, clip: bool) -> Array:
        """Return the (m, p) design of new rows; rows with a missing cell are NaN."""
        out = np.empty((self.columns, m))
        with np.errstate(all="ignore"):
            block = Block(chunk, m, self.rules, clip=clip)
            self._predictors(block, out, clip)
            bad = np.isnan(out).any(axis=0)
            if block.bad is not None:
                bad |= block.bad
            out[:, bad] = np.nan
        return np.ascontiguousarray(out.T)

    def _predictors(self, block: Block, out: Array, clip: bool) -> None:
        """Write the predictors."""
        store: dict[int, Array] = {}
        for p in self._ordered:
            p.fill(block, out[p.start : p.start + p.width], store, clip)

    @functools.cached_property
    def of_variables(self) -> bool:
        """Whether every predictor but the constant is a variable as it stands, each another."""
        sources = [p.atoms[0].source if p.single else None for p in self.products if p.atoms]
        raw = [s.raw if isinstance(s, Node) else None for s in sources]
        return None not in raw and len(set(raw)) == len(raw)

    @functools.cached_property
    def _ordered(self) -> list[Product]:
        """Products, single atoms first: the others reuse their rows of the buffer."""
        return sorted(self.products, key=lambda p: not p.single)

    def _response(self, block: Block, out: Array) -> None:
        """Write the response of a block."""
        r = self.response
        if isinstance(r, Cat):
            out[...] = block.codes(r)
            return
        assert r is not None
        if r.raw is not None:
            cached = block.numbers.get(r.raw)
            if cached is None and self.offset is None:
                block.fill_number(r.raw, out)
            else:
                out[...] = block.values(r)
        else:
            out[...] = block.values(r)
        if self.offset is not None:
            out -= block.values(self.offset)
        i = self.response_interval
        if i is not None and (r.raw is None or self.offset is not None):
            clip_cells(out, i[0], i[1], out=out)


# -- Cells of tables, and rows as a cell of a public grid and a few numbers.


@dataclass(frozen=True)
class CellSource:
    """One column: a number (``levels`` is None), or the code of a level."""

    name: str  # The factor as typed
    source: Node | Cat
    # Public, in the order of the codes; the code ``len(levels)`` stands for a missing cell.
    levels: tuple[Any, ...] | None = None

    @property
    def interval(self) -> Interval:
        """Public range of the cells."""
        if self.levels is not None:
            return (0.0, float(len(self.levels)))
        assert isinstance(self.source, Node)
        return self.source.interval

    def fill(self, block: Block, out: Any) -> None:
        """Write the cells of a block."""
        source = self.source
        if isinstance(source, Cat):
            codes = block.codes_of(source)
            out[...] = np.where(codes < 0, len(source.levels), codes)
            return
        value = block.values(source)
        if self.levels is not None:  # a comparison, a 0/1 variable, or the number of a cause
            last = len(self.levels) - 1.0
            out[...] = np.where(value == np.clip(np.rint(value), 0.0, last), value, last + 1.0)
            return
        out[...] = value
        if source.interval is not None:
            clip_cells(out, source.interval[0], source.interval[1], out=out)


@dataclass(frozen=True)
class CellProgram:
    """Fills a block with the cells of a table; the counterpart of ``Program``."""

    sources: tuple[CellSource, ...]
    rules: Mapping[str, Rule]  # Variable -> what its range is, what stands for a missing cell
    # left, right: terms of the two sides, as indices into ``sources``; one-sided formulas have no
    # ``left``.
    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]
    schema: Schema
    subset: Node | None = None  # A row that fails it has every cell missing
    # The weight of a row, and its labels, where they are rows of the buffer behind the cells.
    aside: tuple[Node, ...] = ()

    def fill(
        self, chunk: Mapping[str, Any], out: Any, clips: Sequence[Interval],
        finals: Sequence[tuple[int, float, float]],
    ) -> None:  # fmt: skip
        """Fill ``out`` of shape (q, m): NaN for a missing number, the last code for a level."""
        with np.errstate(all="ignore"):
            block = Block(chunk, out.shape[1], self.rules)
            cells = out[: len(self.sources)]
            for row, source in zip(cells, self.sources, strict=True):
                source.fill(block, row)
            for row, node in enumerate(self.aside, len(self.sources)):
                out[row] = block.values(node)
            for row, lo, hi in finals:
                clip_cells(out[row], lo, hi, out=out[row])
            if self.subset is not None:
                inside = block.values(self.subset) == 1.0
                for row, source in zip(cells, self.sources, strict=True):
                    gone = np.nan if source.levels is None else float(len(source.levels))
                    row[~inside] = gone

#: Columns up to which rows of a cell and numbers are summed sooner one by one.
_WIDE = 24


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of a design, and the numbers of a row next to its cell. Public."""

    # (q, K): the design's rows by cell, in its buffer's order; 0 in the rows ``numbers``.
    table: Array
    missing: Array  # (K,): cells whose rows are missing
    numbers: tuple[int, ...]  # Buffer rows that are read row by row
    variables: tuple[str, ...]  # Those of the cells; the last runs fastest
    sizes: tuple[int, ...]  # Values of each, a missing one included (the first)
    binary: tuple[bool, ...]  # Whether it comes as a number 0 or 1, not as a code
    program: Program  # Fills the rows ``numbers``
    # clips, finals: their ranges, as :meth:`Program.fill` takes them.
    clips: Sequence[Any]
    finals: Sequence[tuple[int, float, float]]

    @property
    def cells(self) -> int:
        """K."""
        return len(self.missing)

    @property
    def wide(self) -> bool:
        """Whether rows are summed by cell although some predictors are numbers."""
        return len(self.table) > _WIDE + len(self.numbers)

    def fill(self, chunk: Mapping[str, Any], out: Array, cells: Array) -> None:
        """Write the numbers of rows into ``out`` (d, m), and their cells into ``cells`` (m,) intp.

        A row that must become a zero row for its numbers has NaN in ``out[-1, i]`` (in
        ``out[0, i]`` without a response); for its predictors it is in a missing cell.
        """
        self.program.fill(chunk, out, self.clips, self.finals)
        place: Any = 0
        base = 0
        for name, size, binary in zip(self.variables, self.sizes, self.binary, strict=True):
            codes = chunk[name]
            if binary:
                with np.errstate(all="ignore"):
                    codes = np.where(np.isnan(codes), -1.0, codes).astype(np.int32)
            # codes begin at -1, for a missing cell
            place, base = (place * size + codes, base * size + 1)
        np.add(place, base, out=cells)


# -- The ufunc behind ``np.clip``, without its wrappers: they take longer than clipping a block


def _find_clip_function() -> Any:
    """Return NumPy's clip without its checks of arguments, or ``np.clip``."""
    for core in ("_core", "core"):
        ufunc = getattr(getattr(getattr(np, core, None), "umath", None), "clip", None)
        if isinstance(ufunc, np.ufunc):
            return ufunc
    return np.clip


clip_cells = _find_clip_function()
