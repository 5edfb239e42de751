"""The block program: fills a buffer with one row per design column, a block of rows at a time.

Row ``i`` of the block depends on row ``i`` of the chunk and on public constants only: every
operation below is elementwise along the last axis. Nothing here raises or warns because of a cell.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import dimensions
from dpmodels.errors import SourceError
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import LARGEST_EXACT, Array, Basis, Cat, Interval, Node
from dpmodels.quiet import quiet
from dpmodels.variables import Binary, Levels, Text, Variable


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

    def number(self, name: str) -> Array:
        """Return the clipped cells of a variable."""
        if name not in self.numbers:
            self.numbers[name] = self.fill_number(name, np.empty(self.m))
        return self.numbers[name]

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

    def code(self, name: str) -> Array:
        """Return the codes of a factor variable; -1 is missing."""
        codes = self.chunk[name]
        fill = self.rules[name].fill
        return codes if fill is None else np.where(codes < 0, int(fill), codes)

    def codes(self, cat: Cat) -> Array:
        """Return the codes of a factor; rows without a level are marked missing."""
        key = id(cat)
        if key not in self.coded:
            codes = cat.evaluate(self)
            if codes.size and codes.min() < 0:
                self.mark(codes < 0)
            self.coded[key] = codes
        return self.coded[key]

    def mark(self, rows: Array) -> None:
        """Mark rows as missing."""
        self.bad = rows if self.bad is None else self.bad | rows


@dataclass(frozen=True)
class Rule:
    """What happens to the cells of a variable: its range, and what stands for a missing cell."""

    interval: Interval
    fill: float | None


def rules(schema: Schema, na: str) -> dict[str, Rule]:
    """Return the rule of each variable under a missing-value policy (see ``theory.md``)."""
    out = {}
    middle: float | None
    for name, v in schema.items():
        declared = getattr(v, "na", None)
        if v.kind == "text":
            code, middle = None, 0.0
        elif isinstance(v, Levels):
            level = declared if declared is not None else v.other
            code = None if level is None else float(v.levels.index(level))
            middle = 0.0
        else:
            code = declared
            middle = None if v.interval is None else 0.5 * (v.interval[0] + v.interval[1])
            if v.kind in ("binary", "count") and middle is not None:
                middle = float(int(middle))
        fill = {
            "zero-row": None,
            "declared": code,
            "impute-midpoint": code if code is not None else middle,
        }[na]
        out[name] = Rule(v.interval, fill)
    return out


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
            out[...] = s.evaluate(block)[self.drop :]
        elif s.raw is not None:
            cached = block.numbers.get(s.raw)
            if cached is None:
                block.fill_number(s.raw, out[0])
            else:
                out[0] = cached
            return
        else:
            out[0] = s.evaluate(block)
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
        """Yield the places, one an atom, of the columns that each column is a product of."""
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
        """Dummies times numbers: at most one nonzero a row, so write only that one."""
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
                block.mark(~(np.broadcast_to(self.subset.evaluate(block), (block.m,)) == 1.0))
            if self.weights is not None:
                out *= np.sqrt(self.weights.evaluate(block))
            for row, node in enumerate(self.aside, self.columns):  # no weight: labels alone
                out[row] = node.evaluate(block)
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

    def data_free(self, schema: Schema) -> list[bool]:
        """Say of each buffer row whether its range is a matter of form, not of a declared range."""

        def free(source: Node | Basis | Cat | None) -> bool:
            if not isinstance(source, Node) or source.boolean:
                return True
            return all(schema[v].kind == "binary" for v in source.variables)

        out: list[bool] = []
        for p in self.products:
            out += [all(free(a.source) for a in p.atoms)] * p.width
        if self.response is not None:
            out.append(free(self.response) and (self.offset is None or free(self.offset)))
        return out

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
                out[...] = block.number(r.raw)
        else:
            out[...] = r.evaluate(block)
        if self.offset is not None:
            out -= self.offset.evaluate(block)
        i = self.response_interval
        if i is not None and (r.raw is None or self.offset is not None):
            clip_cells(out, i[0], i[1], out=out)


# -- Cells of any column type to float64 or to codes.
#
# A cell that cannot be read as what its variable is declared to be is missing (NaN, or code -1).
# Which branch is taken depends on the *type* of the column, which is public; inside a branch every
# cell is mapped by itself.


#: Error message for a column that is a matrix or a frame.
TWO_DIMENSIONS = (
    "column {0!r} has {1} dimensions, and a column has one value per row. Give each of its columns "
    "a name of its own, for example {{'{0}1': {0}[:, 0], '{0}2': {0}[:, 1]}}; a single column is "
    "{0}.reshape(-1)"
)

_TRUE = {"true": 1.0, "false": 0.0}


def coerce(column: Any, variable: Variable) -> Any:
    """Return the cells of a column (array, Series, Arrow) as its variable wants them.

    float64 with NaN for missing (Real, Count, Binary); int32 codes with -1 for missing or
    undeclared (Levels, Ordered; undeclared counts as ``other=`` if there is one); int64 hashes with
    -1 for missing (Text). A float64 input is returned as it is, not copied.

    **Privacy.** Row by row; never raises or warns because of a cell.
    """
    return coerce_all({"": column}, {"": variable})[""]


def coerce_all(
    columns: Mapping[str, Any],
    variables: Mapping[str, Variable],
    seen: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the cells of several columns of a chunk, each as :func:`coerce` gives them.

    ``seen`` is kept by who reads several chunks of one table, and as confidential as they are: what
    the categories of a column stand for is then looked up once. Silencing warnings costs more than
    most columns do, so it is done once for all of them.
    """
    with quiet(), np.errstate(all="ignore"):
        out = {}
        for name, variable in variables.items():
            if dimensions(columns[name]) != 1:  # flattened, one row would be several
                raise SourceError(TWO_DIMENSIONS.format(name, dimensions(columns[name])))
            known = None
            if seen is not None and isinstance(variable, Levels):
                known = _by_categories(columns[name], variable, name, seen)
            out[name] = _coerced(columns[name], variable) if known is None else known
        return out


def _by_categories(column: Any, variable: Levels, name: str, seen: dict[str, Any]) -> Any:
    """Return the codes of a pandas categorical by the table of its categories; None: another type.

    The chunks of one column have one index of categories: the same object.
    """
    if type(column).__module__.split(".")[0] != "pandas":
        return None
    if type(getattr(column, "dtype", None)).__name__ != "CategoricalDtype":
        return None
    cells = getattr(column, "array", column)
    codes, categories = cells.codes, cells.categories
    kept = seen.get(name)
    if kept is None or kept[0] is not categories or kept[1] is not variable:
        table = _table(_plain(categories), _level_map(variable), -1, np.int32)
        same = bool((table == np.append(np.arange(len(table) - 1), -1)).all())
        kept = seen[name] = (categories, variable, table, same)
    table, same = kept[2:]
    return codes.astype(np.int32) if same else _looked_up(table, codes)


def _coerced(column: Any, variable: Variable) -> Any:
    kind, payload = _open(column)
    if kind == "text":
        if not isinstance(variable, (Levels, Text, Binary)):
            parsed = _tried(lambda: _parsed(payload))
            if parsed is not None:
                return parsed
        kind, payload = _open_arrow(payload.dictionary_encode())
    if isinstance(variable, Levels):
        return _mapped(kind, payload, _level_map(variable), -1, np.int32)
    if isinstance(variable, Text):
        return _mapped(kind, payload, hash_text, -1, np.int64)
    if isinstance(variable, Binary):
        return _binary(kind, payload, variable)
    return _numbers(kind, payload)


# -- opening a column ----------------------------------------------------------------------


def _open(column: Any) -> tuple[str, Any]:
    """Return the kind of a column, and its cells as an array or a pair of arrays.

    ("numpy", array), ("text", Arrow array), ("masked", (array, missing)), or ("dictionary",
    (codes, values)) with codes below 0 for missing cells.
    """
    module = type(column).__module__.split(".")[0]
    if module == "pandas":
        return _open_pandas(column)
    if module == "polars":
        return _open_polars(column)
    if module == "pyarrow":
        return _open_arrow(column)
    array = column if isinstance(column, np.ndarray) else _object_array(column)
    if isinstance(array, np.ma.MaskedArray):
        cells: Any = array.astype(object)
        return "numpy", cells.filled(None)
    return "numpy", array


def _object_array(cells: Any) -> Any:
    items = list(cells)
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out


def _open_pandas(column: Any) -> tuple[str, Any]:
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        cat = getattr(column, "array", column)
        return "dictionary", (np.asarray(cat.codes), _plain(cat.categories))
    if isinstance(dtype, np.dtype):
        return "numpy", column.to_numpy()
    if isinstance(dtype, getattr(pd, "SparseDtype", ())):
        return "numpy", np.asarray(column)
    if type(dtype).__name__ == "ArrowDtype":
        import pyarrow as pa

        if not pa.types.is_timestamp(dtype.pyarrow_dtype):
            return _open_arrow(column.array.__arrow_array__())
    if pd.api.types.is_integer_dtype(dtype):  # exact beyond 2^53, whether or not a cell is missing
        missing = column.isna().to_numpy(dtype=bool)
        return "masked", (column.to_numpy(dtype=dtype.numpy_dtype, na_value=0), missing)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        return "numpy", column.to_numpy(dtype=float, na_value=np.nan)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "numpy", column.dt.tz_localize(None).to_numpy(dtype="datetime64[ns]")
    if hasattr(column.array, "__arrow_array__") and getattr(dtype, "storage", "") == "pyarrow":
        return _open_arrow(column.array.__arrow_array__())
    return _encoded(column.to_numpy(dtype=object))


def _tried(read: Callable[[], Any]) -> Any:
    """Return what ``read`` gives, or None if a single cell made it fail for a whole column."""
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a cell may be any object, and raise anything
        return None


def _plain(index: Any) -> Any:
    return np.asarray(index, dtype=object)


def _encoded(cells: Any) -> tuple[str, Any]:
    """Dictionary-encode text: each distinct cell is read once (a speed-up, nothing else).

    Only where every cell is text or missing: Python holds ``1 == True == 1.0``, so in a mixed
    column the first of equal cells would decide how the others are read, and a row would depend
    on other rows.
    """
    import pandas as pd

    if pd.api.types.infer_dtype(cells, skipna=True) != "string":
        return "numpy", cells
    codes, values = pd.factorize(cells)
    return "dictionary", (codes, np.asarray(values, dtype=object))


def _open_polars(column: Any) -> tuple[str, Any]:
    import polars as pl

    dtype = column.dtype
    if dtype.is_numeric() or dtype == pl.Boolean:
        if dtype.is_decimal() or (column.null_count() and dtype.is_integer()):
            return _open_arrow(column.to_arrow())  # exact
        if column.null_count():
            return "numpy", column.cast(pl.Float64, strict=False).to_numpy()
        return "numpy", column.to_numpy()
    if dtype in (pl.Categorical, pl.Enum):
        column, dtype = column.cast(pl.String), pl.String
    if dtype == pl.String:
        ranks = column.rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1
        values = column.drop_nulls().unique().sort().to_list()
        return "dictionary", (ranks, _object_array(values))
    return "numpy", _object_array(column.to_list())


def _open_arrow(column: Any) -> tuple[str, Any]:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # no chunks, or too large for one
            column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([])
    kind = column.type
    if pa.types.is_floating(kind):
        return "numpy", column.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        if not column.null_count:
            return "numpy", column.to_numpy(zero_copy_only=False)
        # Not to_numpy(): one missing cell would make all others floats, and 1.0 is other text
        # than 1.
        missing = column.is_null().to_numpy(zero_copy_only=False)
        blank = column.fill_null(False if pa.types.is_boolean(kind) else 0)
        return "masked", (blank.to_numpy(zero_copy_only=False), missing)
    if pa.types.is_dictionary(kind):
        codes = column.indices.to_numpy(zero_copy_only=False)
        if column.indices.null_count:
            codes = np.where(np.isnan(codes), -1, codes)
        return "dictionary", (codes.astype(np.int64), _python_cells(column.dictionary))
    if pa.types.is_null(kind):
        return "numpy", np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text", column
    if pa.types.is_time(kind) or pa.types.is_duration(kind):  # in no unit that somebody named
        return "numpy", np.full(len(column), np.nan)
    if pa.types.is_temporal(kind):
        return "numpy", column.to_numpy(zero_copy_only=False)
    return "numpy", _python_cells(column)


def _python_cells(column: Any) -> Any:
    """Return the cells of an Arrow array as objects; one that Python cannot hold is missing."""
    cells = _tried(column.to_pylist)  # text that is no UTF-8, a date after the year 9999
    return _object_array([_tried(c.as_py) for c in column] if cells is None else cells)


def _parsed(column: Any) -> Any:
    """Return the numbers of an Arrow array of text; fails if one cell is none.

    Both readers round correctly, so whether this one or ``float`` reads a cell changes nothing.
    """
    import pyarrow as pa

    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


# -- numbers -------------------------------------------------------------------------------


def _numbers(kind: str, payload: Any) -> Any:
    if kind == "dictionary":
        codes, values = payload
        table = np.append(_array_numbers(values), np.nan)
        return _looked_up(table, codes)
    if kind == "masked":
        return np.where(payload[1], np.nan, _array_numbers(payload[0]))
    return _array_numbers(payload)


def _looked_up(table: Any, codes: Any) -> Any:
    """Return the table entry of each code; -1 is the last entry, the one for missing."""
    return np.take(table, codes, mode="wrap")


def _array_numbers(cells: Any) -> Any:
    if cells.dtype == np.float64:
        return cells
    kind = cells.dtype.kind
    if kind in "fiub":
        return cells.astype(np.float64)
    if kind == "M":
        whole = cells.astype("datetime64[ns]")
        return np.where(np.isnat(whole), np.nan, whole.astype(np.int64) * 1e-9)
    if kind in "USO":
        out = np.empty(cells.shape[0])
        for i, cell in enumerate(cells):
            out[i] = _number(cell)
        return out
    return np.full(cells.shape[0], np.nan)


def _number(cell: Any) -> float:
    """Read one cell: a number, text that is a number or "true" or "false", or missing."""
    if type(cell) is float:
        return cell
    try:
        if isinstance(cell, (datetime.datetime, datetime.date)):
            if not isinstance(cell, datetime.datetime):
                cell = datetime.datetime(cell.year, cell.month, cell.day)
            aware = cell.replace(tzinfo=datetime.timezone.utc) if cell.tzinfo is None else cell
            return float(aware.timestamp())
        if isinstance(cell, np.datetime64):
            return float(_array_numbers(np.array([cell]))[0])
        if isinstance(cell, (np.timedelta64, datetime.timedelta)):
            return np.nan  # in no unit that somebody named
        if isinstance(cell, (complex, np.complexfloating)):
            return np.nan
        return float(cell)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever the cell is, it is missing; nothing of it is kept
        return _TRUE.get(cell.strip().lower(), np.nan) if isinstance(cell, str) else np.nan


# -- categories ----------------------------------------------------------------------------


def _mapped(kind: str, payload: Any, one: Callable[[Any], int], missing: int, dtype: Any) -> Any:
    if kind == "masked":
        codes = _mapped("numpy", payload[0], one, missing, dtype)
        return np.where(payload[1], np.asarray(missing, dtype=dtype), codes)
    if kind == "numpy" and payload.dtype.kind in "biufUSO":
        if payload.dtype.kind in "biuf":
            if payload.dtype.kind == "f":
                payload = payload + 0.0  # -0.0 and 0.0 are one value
            values, codes = np.unique(payload, return_inverse=True)
            kind, payload = "dictionary", (codes, values.astype(object))
        else:
            kind, payload = _encoded(payload.astype(object))
    if kind == "dictionary":
        codes, values = payload
        return _looked_up(_table(values, one, missing, dtype), codes)
    return np.array([_try(one, v, missing) for v in payload.tolist()], dtype=dtype)


def _table(values: Any, one: Callable[[Any], int], missing: int, dtype: Any) -> Any:
    """Return what each value stands for; the last entry is that of a missing cell."""
    return np.array([*(_try(one, v, missing) for v in values), missing], dtype=dtype)


def _try(one: Callable[[Any], int], cell: Any, missing: int) -> int:
    try:
        return missing if _absent(cell) else one(cell)
    except KeyboardInterrupt:
        raise
    except BaseException:  # an odd object: missing
        return missing


def _absent(cell: Any) -> bool:
    """Return whether a cell is a missing value of Python, numpy, pandas or decimal.

    Wherever :func:`_encoded` lets pandas find the missing cells it must find these: whether it is
    asked at all depends on the other cells of the column.
    """
    if cell is None or cell is np.ma.masked:
        return True
    if type(cell).__module__.startswith("pandas") and type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(cell))
    if isinstance(cell, decimal.Decimal):
        return cell.is_nan()  # a signalling NaN compares with nothing
    if isinstance(cell, (float, complex, np.inexact)):
        return bool(cell != cell)
    return False


def _level_map(variable: Levels) -> Callable[[Any], int]:
    """Return cell -> code. Text levels also match numbers by their text; number levels by value."""
    exact: dict[Any, int] = {}
    for code, level in enumerate(variable.levels):
        exact.setdefault(level, code)
    text = {x: c for x, c in exact.items() if isinstance(x, str)}
    printed = dict(text)  # of numbers: a float that is whole matches "1" as an integer does
    for level, code in text.items():
        printed.setdefault(_whole(level), code)
    numbers = {x: c for x, c in exact.items() if not isinstance(x, str)}
    other = -1 if variable.other is None else variable.levels.index(variable.other)

    def one(cell: Any) -> int:
        if isinstance(cell, (bytes, np.bytes_)):
            cell = cell.decode("utf-8", "replace")
        if isinstance(cell, str):
            code = text.get(cell)
            if code is None and numbers:
                code = numbers.get(_exact_number(cell))
        else:
            code = numbers.get(_exact_number(cell)) if numbers else None
            if code is None and text:
                code = printed.get(_printed(cell))
        return other if code is None else code

    return one


def _exact_number(cell: Any) -> float:
    """Return the number of a cell: whole numbers exactly, where floats would merge neighbours."""
    if isinstance(cell, (int, np.integer)):
        return int(cell)
    number = _number(cell)
    if not LARGEST_EXACT <= abs(number) < math.inf or isinstance(cell, (float, np.floating)):
        return number
    exact = decimal.Decimal(cell.replace("_", "") if isinstance(cell, str) else cell)
    return int(exact) if exact == exact.to_integral_value() else number


def _whole(text: str) -> str:
    """Return "1" for "1.0": as :func:`_printed` writes a whole number."""
    head, _, tail = text.partition(".")
    return head if tail and not tail.strip("0") and head.lstrip("-").isdecimal() else text


def _printed(cell: Any) -> str:
    """Return the text of a cell; of a whole number without decimals.

    Whether a column of integers is kept as floats may depend on a missing cell elsewhere in it.
    """
    if isinstance(cell, (float, np.floating)) and cell == np.trunc(cell) and abs(cell) < 2.0**63:
        return str(int(cell))
    return str(cell)


def _binary(kind: str, payload: Any, variable: Binary) -> Any:
    if variable.levels is not None:
        codes = _mapped(kind, payload, _level_map(Levels(variable.levels)), -1, np.int32)
        return np.where(codes < 0, np.nan, codes.astype(np.float64))
    if kind == "masked" or (kind == "numpy" and payload.dtype.kind not in "USO"):
        x = _numbers(kind, payload)
    else:
        values: Iterable[Any] = payload[1] if kind == "dictionary" else payload
        read = np.array([_number(v) for v in values], dtype=float)
        if kind == "dictionary":
            read = _looked_up(np.append(read, np.nan), payload[0])
        x = read
    odd = (x != 0.0) & (x != 1.0) & ~np.isnan(x)
    return np.where(odd, np.nan, x) if odd.any() else x


def hash_text(cell: Any) -> int:
    """Return a stable 63-bit hash of the text of a cell."""
    text = cell if isinstance(cell, str) else _printed(cell)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


# -- The ufunc behind ``np.clip``, without its wrappers: they take longer than clipping a block


def _found() -> Any:
    for core in ("_core", "core"):
        ufunc = getattr(getattr(getattr(np, core, None), "umath", None), "clip", None)
        if isinstance(ufunc, np.ufunc):
            return ufunc
    return np.clip


clip_cells = _found()
