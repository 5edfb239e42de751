"""Opaque rows: what a formula may compute from one row, and nothing from another.

A *formula* is a public function from :class:`Rows` to :class:`Rows`, written as for one row. It may
use numpy's elementwise functions, :func:`linear`, :func:`where`, :func:`clip`, :func:`stack`,
:func:`complete` and :func:`entry`. Whatever looks at a block of rows raises: ``any``, ``max``, sums
over rows, ``if``, masks, slices of rows. Sets (:mod:`dpmodels.core.sets`) clip the result of a
formula and sum it.

This is a wall against mistakes, not against malice: Python has no such wall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.sums.products import looked_up, mapped, squares
from dpmodels.sums.rowmap import images_of

if TYPE_CHECKING:
    from dpmodels.formula.design import Grid

__all__ = [
    "CellRows", "Rows", "clip", "column_at", "complete", "entry", "kept", "length", "linear",
    "stack", "total", "used_up", "where",
]  # fmt: skip

#: A public affine map: matrix (k, q), shift (k, 1) or None, and (r, p) if its first r rows are
#: upper triangular in p columns (:func:`dpmodels.sums.products.mapped`).
AffineMap = tuple[Array, Array | None, tuple[int, int]]


def _operator(ufunc: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of an operator, for ``rows + other`` and for ``other + rows``."""
    return lambda self, other: ufunc(self, other), lambda self, other: ufunc(other, self)


def _unary(ufunc: Any) -> Callable[..., Any]:
    """Return the method of an operator with one operand."""
    return lambda self: ufunc(self)


class Rows:
    """k numbers of each of m rows, (k, m). Only operations on each row separately exist."""

    __slots__ = ("_a",)

    def __init__(self, a: Any) -> None:
        self._a = a

    @property
    def numbers(self) -> Any:
        """The numbers, (k, m), for sets. **Confidential**: a formula must not read them."""
        return self._a

    def __len__(self) -> int:
        """Return the number of columns k, which is public."""
        return len(self._a)

    def __getitem__(self, places: Any) -> Rows:
        """Return columns of the design, never rows of the table."""
        _refuse_rows(places)
        a = self.numbers[places]
        return Rows(a[None] if a.ndim == 1 else a)

    def put(self, place: int, x: Rows) -> Rows:
        """Return the rows with another column in one place."""
        out = self.numbers.copy()
        out[place] = x.numbers
        return Rows(out)

    def length(self) -> Array:
        """Return the Euclidean length of each row (see :func:`length`)."""
        return np.asarray(np.sqrt(squares(self.numbers)))

    def astype(self, kind: Any) -> Rows:
        """Return the numbers as another type."""
        return Rows(self.numbers.astype(kind))

    def image(self, of: AffineMap) -> Rows:
        """Return the image under a public affine map (see :func:`linear`)."""
        return Image(self.numbers, of)

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

    def __repr__(self) -> str:
        return f"<rows of {len(self)} columns, confidential>"

    __hash__ = None  # type: ignore[assignment]

    __neg__ = _unary(np.negative)
    __invert__ = _unary(np.logical_not)
    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide)
    __pow__, __rpow__ = _operator(np.power)
    __and__, __rand__ = _operator(np.logical_and)
    __or__, __ror__ = _operator(np.logical_or)
    __lt__, _ = _operator(np.less)
    __le__, _ = _operator(np.less_equal)
    __gt__, _ = _operator(np.greater)
    __ge__, _ = _operator(np.greater_equal)
    __eq__, _ = _operator(np.equal)
    __ne__, _ = _operator(np.not_equal)


class Image(Rows):
    """Image of rows under a public affine map, computed when a set or a formula uses it."""

    __slots__ = ("_block", "_map")

    def __init__(self, block: Array, of: AffineMap) -> None:
        self._a, self._block, self._map = None, block, of

    @property
    def numbers(self) -> Any:
        """The image, (k, m)."""
        if self._a is None:
            self._a = self.in_steps(1.0)
        return self._a

    def __len__(self) -> int:
        return len(self._map[0])

    def __getitem__(self, places: Any) -> Rows:
        image = self.numbers
        first = isinstance(places, slice) and places == slice(None, places.stop)
        return FirstOf(image, places.stop) if first else Rows(image).__getitem__(places)

    def in_steps(self, steps: float) -> Array:
        """Return the image times ``steps``: the map is multiplied, then applied."""
        matrix, shift, upper = self._map
        out = mapped(matrix if steps == 1.0 else matrix * steps, self._block, upper=upper)
        if shift is not None:
            out += shift if steps == 1.0 else shift * steps
        return out


class FirstOf(Rows):
    """First columns of an image. A set may overwrite them in place: nothing else reads them."""

    __slots__ = ("_k",)

    def __init__(self, image: Array, k: int) -> None:
        self._a, self._k = image, k

    @property
    def numbers(self) -> Any:
        """The first k numbers, (k, m)."""
        return self._a[: self._k]

    def __len__(self) -> int:
        return self._k

    def padded(self, height: int) -> Array:
        """Return the numbers above other columns of the image, for sets that overwrite all."""
        return np.asarray(self._a[:height]) if len(self._a) >= height else super().padded(height)


class CellRows(Rows):
    """Rows of a design of factors, each a cell of a public grid and a few numbers.

    A formula cannot tell them from :class:`Rows`. A set may sum them by cell.

    Attributes
    ----------
    grid : Grid
    values : (d, m) array
        Numeric variables of each row. **Confidential**.
    cells : (m,) int array
        Index of each row's cell. **Confidential**.
    cache : dict
        Images of cells under the maps of one reading, by the identity of their matrix: public.
    images : ((k, K) array, (k, d) array) or None
        Images of the cells and slopes of the numeric variables, or None for the rows themselves.
    """

    __slots__ = ("_map", "cache", "cells", "grid", "images", "values")

    def __init__(
        self, grid: Grid, values: Array, cells: npt.NDArray[np.intp], cache: dict[int, Any],
        images: tuple[Array, Array] | None = None, of: AffineMap | None = None,
    ) -> None:  # fmt: skip
        self.grid, self.values, self.cells, self.cache = grid, values, cells, cache
        self.images, self._map, self._a = images, of, None

    @property
    def numbers(self) -> Any:
        """The numbers, (k, m)."""
        if self._a is None:
            images = self.images
            if images is None:
                table, numbers = self.grid.table.copy(), list(self.grid.numbers)
                table[:, self.grid.missing] = np.nan
                images = table, np.eye(len(table))[:, numbers]
            self._a = looked_up(*images, self.values, self.cells)
        return self._a

    def __len__(self) -> int:
        return len(self.grid.table if self.images is None else self.images[0])

    def __getitem__(self, places: Any) -> Rows:
        _refuse_rows(places)
        if self.images is None:
            place = places % len(self) if isinstance(places, int) else None
            if place in self.grid.numbers:
                return Rows(self.values[self.grid.numbers.index(place)][None])
            return super().__getitem__(places)
        images, slopes = self.images
        part = slice(places, places + 1 or None) if isinstance(places, int) else places
        images, slopes = images[part], slopes[part]
        if isinstance(places, int):
            return Rows(looked_up(images, slopes, self.values, self.cells))
        return CellRows(self.grid, self.values, self.cells, self.cache, (images, slopes))

    def put(self, place: int, x: Rows) -> Rows:
        """Return the rows with another numeric variable in one place."""
        values = self.values.copy()
        values[self.grid.numbers.index(place % len(self))] = x.numbers
        return CellRows(self.grid, values, self.cells, self.cache)

    def image(self, of: AffineMap) -> Rows:
        """Return the image under a public affine map: that of each cell is computed once."""
        if id(of[0]) not in self.cache:
            self.cache[id(of[0])] = of[0], images_of(of[0], of[1], self.grid)
        images = self.cache[id(of[0])][1]
        return CellRows(self.grid, self.values, self.cells, self.cache, images, of)

    def length(self) -> Array:
        """Return the Euclidean length of each row: that of its cell, where no number moves it."""
        if self.images is None:
            return super().length()
        images, slopes = self.images
        moved = slopes.any(axis=1)  # public
        if moved.all() or (moved.any() and not self.grid.wide):
            return super().length()
        square = squares(images[~moved]).take(self.cells)
        if moved.any():
            square += squares(looked_up(images[moved], slopes[moved], self.values, self.cells))
        return np.asarray(np.sqrt(square))

    def in_steps(self, steps: float) -> Array:
        """Return the image times ``steps``: the map is multiplied, then applied."""
        if self._map is None:
            return super().in_steps(steps)
        matrix, shift, _ = self._map
        images = images_of(matrix * steps, None if shift is None else shift * steps, self.grid)
        return looked_up(*images, self.values, self.cells)


def _refused(name: str) -> PrivacyBugError:
    return PrivacyBugError(f"{name} is not a function of each row by itself")


def _refuse_rows(places: Any) -> None:
    """Refuse places that would choose rows of the table."""
    each = places if isinstance(places, list) else [places]
    kinds = (int, np.integer) if isinstance(places, list) else (int, np.integer, slice)
    if not all(isinstance(j, kinds) and not isinstance(j, bool) for j in each):
        raise _refused("a choice of rows")


def _operand(x: Any) -> Any:
    """Return the numbers of rows, or public numbers: one, or one per column, never one per row."""
    if isinstance(x, Rows):
        return x.numbers
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


def linear(
    matrix: Array, x: Rows, shift: Array | None = None, upper: tuple[int, int] = (0, 0)
) -> Rows:
    """Return ``matrix x + shift`` of each row separately, whatever the processor.

    ``upper``: (r, p) if the first r rows of the matrix are upper triangular in p columns.
    """
    return x.image((matrix, shift, upper))


def stack(*parts: Rows) -> Rows:
    """Return the columns of several, one after the other."""
    return Rows(np.vstack([part.numbers for part in parts]))


def length(x: Rows) -> Rows:
    """Return the Euclidean length of each row."""
    return Rows(x.length()[None])


def complete(x: Rows) -> Rows:
    """Return whether all numbers of a row are finite."""
    return Rows(np.isfinite(x.numbers).all(axis=0)[None])


def kept(x: Rows, there: Rows) -> Rows:
    """Return rows of zeros where a row is not ``there``, whatever it holds."""
    mask = there.numbers
    return x if mask.all() else Rows(np.where(mask, x.numbers, 0.0))


def place_in(table: Array, place: Rows) -> npt.NDArray[np.intp]:
    """Return each row's place in a public table (..., k), clipped to 0, ..., k - 1.

    Numbers that are not finite have the first place.
    """
    at = place.numbers
    if at.dtype.kind == "f":
        at = np.where(np.isfinite(at), np.clip(at, 0.0, np.shape(table)[-1] - 1.0), 0.0)
    return np.asarray(np.clip(at, 0, np.shape(table)[-1] - 1).astype(np.intp))


def entry(table: Array, place: Any) -> Any:
    """Return the entries of a public table (k,) at each row's place, or (d, k): d columns.

    Places are clipped to 0, ..., k - 1; numbers that are not finite have the first entry. An array
    of places is taken like rows.
    """
    if not isinstance(place, Rows):
        return entry(table, Rows(place)).numbers
    at = place_in(table, place)
    return Rows(np.asarray(table)[at] if np.ndim(table) == 1 else np.take(table, at[0], axis=1))


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


def used_up(x: Rows, before: Rows, most: float) -> tuple[Rows, Rows]:
    """Return the first column at which ``before`` and the columns so far exceed ``most``.

    And which part of the sum of its columns a row has ahead of that one. A row that never exceeds
    it has the number of columns, and 1.
    """
    steps, spent = x.numbers, before.numbers[0]
    sums = total(x).numbers[0]
    last, part = np.full((1, len(sums)), len(steps)), np.ones((1, len(sums)))
    long = np.flatnonzero(spent + sums > most)  # few: they alone are added up column by column
    over = spent[long] + np.cumsum(steps[:, long], axis=0) > most
    last[0, long] = np.argmax(over, axis=0)
    ahead = np.where(np.arange(len(steps))[:, None] < last[0, long], steps[:, long], 0.0)
    part[0, long] = total(Rows(ahead)).numbers[0] / sums[long]
    return Rows(last), Rows(part)


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
