"""Opaque rows: operations of a formula on one row, and none on another.

A *formula* is a public function from :class:`Rows` to :class:`Rows`, written as for one row. It may
use numpy's elementwise functions and the functions of this module and of
:mod:`dpmodels.core.rows`. Whatever looks at a block of rows raises: ``any``, ``max``, sums over
rows, ``if``, masks, slices of rows. Words of a formula see the cells of a row in the same way.

This is a wall against mistakes, not against malice: Python has no such wall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError


def _operator(ufunc: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of an operator, for ``rows + other`` and for ``other + rows``."""
    return lambda self, other: ufunc(self, other), lambda self, other: ufunc(other, self)


def _unary(ufunc: Any) -> Callable[..., Any]:
    """Return the method of an operator with one operand."""
    return lambda self: ufunc(self)


@dataclass(eq=False, repr=False, slots=True)
class Rows:
    """k numbers of each of m rows, (k, m). Only operations on each row separately exist."""

    numbers: Any  # (k, m), for sets. **Confidential**: a formula must not read them

    def __len__(self) -> int:
        """Return the number of columns k, which is public."""
        return len(self.numbers)

    def __getitem__(self, places: Any) -> Rows:
        """Return columns of the design, never rows of the table."""
        choice_of_columns(places)
        a = self.numbers[places]
        return Rows(a[None] if a.ndim == 1 else a)

    def put(self, place: int, x: Rows) -> Rows:
        """Return the rows with another column in one place."""
        out = self.numbers.copy()
        out[place] = x.numbers
        return Rows(out)

    def astype(self, kind: Any) -> Rows:
        """Return the numbers as another type."""
        return Rows(self.numbers.astype(kind))

    def in_steps(self, steps: float) -> Array:
        """Return the numbers times ``steps``, (k, m), for sets that overwrite them."""
        return np.asarray(self.numbers * steps)

    def padded(self, height: int) -> Array:
        """Return the numbers above any other rows, (height, m), for sets that overwrite all."""
        out = np.zeros((height, self.numbers.shape[1]))
        out[: len(self)] = self.numbers
        return out

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **how: Any) -> Any:
        """Apply an elementwise function of numpy or scipy."""
        if method != "__call__" or ufunc.signature is not None or how:
            raise _refused(f"{ufunc.__name__}.{method}")
        out = ufunc(*map(_operand, inputs))
        return tuple(map(Rows, out)) if isinstance(out, tuple) else Rows(out)

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """Apply one of the functions of numpy that are elementwise but no ufuncs."""
        if function not in _FUNCTIONS or kwargs:
            raise _refused(function.__name__)
        return _FUNCTIONS[function](*args)

    def _no(self, *_: Any, **__: Any) -> Any:
        raise _refused("a look at a row, at a block or at the number of rows")

    __bool__ = __float__ = __int__ = __complex__ = __iter__ = __array__ = __contains__ = _no
    __index__ = __setitem__ = __delitem__ = __reduce_ex__ = _no
    any = all = sum = max = min = mean = sort = argsort = tolist = item = property(_no)
    shape = size = ndim = T = property(_no)

    def __pow__(self, power: float) -> Rows:
        """Return the numbers to a public power, as numpy computes it for arrays."""
        return Rows(self.numbers**power)

    def __repr__(self) -> str:
        return f"<rows of {len(self)} columns, confidential>"

    __hash__ = None  # type: ignore[assignment]

    __neg__ = _unary(np.negative)
    __invert__ = _unary(np.logical_not)
    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide)
    __mod__, __rmod__ = _operator(np.remainder)
    __and__, __rand__ = _operator(np.logical_and)
    __or__, __ror__ = _operator(np.logical_or)
    __lt__, _ = _operator(np.less)
    __le__, _ = _operator(np.less_equal)
    __gt__, _ = _operator(np.greater)
    __ge__, _ = _operator(np.greater_equal)
    __eq__, _ = _operator(np.equal)
    __ne__, _ = _operator(np.not_equal)


def _refused(name: str) -> PrivacyBugError:
    return PrivacyBugError(f"{name} is not a function of each row by itself")


def choice_of_columns(places: Any) -> None:
    """Refuse places that would choose rows of the table."""
    each = places if isinstance(places, list) else [places]
    kinds = (int, np.integer) if isinstance(places, list) else (int, np.integer, slice)
    if not all(isinstance(j, kinds) and not isinstance(j, bool) for j in each):
        raise _refused("a choice of rows")


def _operand(x: Any) -> Any:
    """Return the numbers of rows, or public numbers: one, or one per column, never one per row."""
    if isinstance(x, Rows):
        return x.numbers
    if type(x) in (float, int):
        return x
    x = np.asarray(x)
    if x.ndim > 1 or x.dtype.kind not in "fiub":
        raise PrivacyBugError("public numbers of a formula are one number, or one per column")
    return x if x.ndim == 0 else x[:, None]


def where(condition: Any, x: Any, y: Any) -> Rows:
    """Return x in the rows where a condition holds, else y."""
    return Rows(np.where(*map(_operand, (condition, x, y))))


def clip(x: Any, low: Any, high: Any) -> Rows:
    """Return numbers clipped to public ends."""
    return Rows(np.clip(*map(_operand, (x, low, high))))


def stack(*parts: Rows) -> Rows:
    """Return the columns of several, one after the other."""
    return Rows(np.vstack([part.numbers for part in parts]))


def only_where(x: Rows, present: Rows, other: float = 0.0) -> Rows:
    """Return another number in the rows that are not ``present``, whatever they hold."""
    mask = present.numbers
    return x if mask.all() else Rows(np.where(mask, x.numbers, other))


def place_in(table: Array, place: Rows) -> npt.NDArray[np.intp]:
    """Return each row's place in a public table (..., k), clipped to 0, ..., k - 1.

    Numbers that are not finite have the first place.
    """
    at = place.numbers
    if at.dtype.kind != "f":
        return np.asarray(np.minimum(np.maximum(at, 0), np.shape(table)[-1] - 1))
    at = np.where(np.isfinite(at), np.clip(at, 0.0, np.shape(table)[-1] - 1.0), 0.0)
    return np.asarray(at.astype(np.intp))


def entry(table: Array, place: Any) -> Any:
    """Return the entries of a public table (k,) at each row's place, or (d, k): d columns.

    Places are clipped to 0, ..., k - 1; numbers that are not finite have the first entry. An array
    of places is taken like rows.
    """
    if not isinstance(place, Rows):
        return entry(table, Rows(place)).numbers
    as_integers = place.numbers.dtype.kind == "i"
    at = place.numbers if as_integers else place_in(table, place)
    at = at if np.ndim(table) == 1 else at[0]
    return Rows(np.take(table, at, axis=-1, mode="clip"))


def column_at(x: Rows, place: Rows) -> Rows:
    """Return the column of each row that is at its place, clipped to 0, ..., k - 1."""
    numbers = x.numbers
    return Rows(np.take_along_axis(numbers, place_in(numbers.T, place), axis=0))


def total(x: Rows) -> Rows:
    """Return the sum of the columns of each row, one column after the other."""
    out = x.numbers[:1]
    for column in x.numbers[1:]:  # np.sum would add in another order where there is one row
        out = out + column
    return Rows(out)


def used_up(x: Rows, before: Rows, most: float) -> Rows:
    """Return the first column at which ``before`` and the columns so far exceed ``most``.

    A row that never exceeds it has the number of columns.
    """
    steps, spent = x.numbers, before.numbers[0]
    sums = total(x).numbers[0]
    last = np.full((1, len(sums)), len(steps))
    long = np.flatnonzero(spent + sums > most)  # few: they alone are added up column by column
    over = spent[long] + np.cumsum(steps[:, long], axis=0) > most
    last[0, long] = np.argmax(over, axis=0)
    return Rows(last)


def of_code(table: Any, code: Rows) -> Rows:
    """Return the entries of a public table at each row's code, the last one below 0."""
    at, last = whole_codes(code, len(table) - 1), len(table) - 1
    return Rows(np.asarray(table)[np.where(at < 0, last, at)])


def whole_codes(code: Rows, most: int) -> npt.NDArray[np.intp]:
    """Return codes as integers from -1 to ``most``; -1 where a code is not a number."""
    at = code.numbers
    if at.dtype.kind == "f":
        at = np.where(np.isnan(at), -1.0, at)
    return np.asarray(np.clip(at, -1, most).astype(np.intp))


def put_at(place: Rows, parts: list[Any], k: int) -> Rows:
    """Return k columns: the parts one after the other from each row's place on, 0 elsewhere."""
    at = np.clip(place.numbers[0], 0, k - len(parts)).astype(np.intp)
    m = len(at)
    out = np.zeros((k, m))
    cells, first = out.reshape(-1), at * m + np.arange(m)
    for r, part in enumerate(parts):
        cells[first + r * m] = part.numbers[0]
    return Rows(out)


_MIXED = np.uint64((1 << 52) - 1)


def label(x: Rows, alone: float) -> Rows:
    """Return the label of every cell: ``alone`` where it is missing.

    Hashes and codes of levels come as integers, below 0 where they are missing; numbers as floats.
    Two different ids get one label with probability 2^-52: two clusters would then be taken for
    one, which changes an error a little and no proof.
    """
    cells = x.numbers
    if cells.dtype.kind in "iu":
        missing, bits = cells < 0, cells.astype(np.int64).view(np.uint64)
    else:
        cells = cells.astype(np.float64) + 0.0  # -0.0 and 0.0 are one value
        missing, bits = np.isnan(cells), cells.view(np.uint64)
        bits = bits ^ (bits >> np.uint64(29))  # the exponent is in the high bits
    return Rows(np.where(missing, alone, (bits & _MIXED).astype(np.float64) + 1.0))


def of_user(func: Callable[..., Any], *parts: Rows) -> Rows:
    """Return a user's function of each row's numbers, NaN where one of them is missing.

    **Privacy.** That it is a function of each row alone is the user's claim
    (``dp.register_rowwise``). If it raises, or returns the wrong shape, it is called row by row,
    and only the rows that fail by themselves are missing.
    """
    cells = [part.numbers[0] for part in parts]

    def row_value(cells_of_row: list[Any]) -> float:
        try:
            return float(np.asarray(func(*cells_of_row), dtype=float).reshape(-1)[0])
        except KeyboardInterrupt:
            raise
        except BaseException:  # the row is missing; nothing of the cell is kept
            return np.nan

    out: Any = None
    try:
        out = np.array(func(*[c.copy() for c in cells]), dtype=float)
    except KeyboardInterrupt:
        raise
    except BaseException:
        out = None
    if out is None or out.shape != cells[0].shape:
        rows = [row_value([c[i : i + 1].copy() for c in cells]) for i in range(len(cells[0]))]
        out = np.array(rows, dtype=float)
    for c in cells:
        out[np.isnan(c)] = np.nan
    return Rows(out[None])


_FUNCTIONS: dict[Any, Any] = {
    np.where: where,
    np.clip: clip,
    np.ones_like: lambda x: Rows(np.ones_like(x.numbers)),
    np.zeros_like: lambda x: Rows(np.zeros_like(x.numbers)),
    # public edges, ascending
    np.searchsorted: lambda edges, x, side="left": Rows(
        np.searchsorted(np.asarray(edges, dtype=float), x.numbers, side)
    ),
    np.full_like: lambda x, value: Rows(np.full_like(x.numbers, value)),
}
