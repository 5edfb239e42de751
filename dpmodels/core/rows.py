"""Maps of opaque rows, and rows of a design of factors, each a cell of a public grid.

:func:`linear` and :func:`length` are functions of each row alone, whatever the processor. Sets
(:mod:`dpmodels.core.sets`) clip the result of a formula and sum it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.opaque import (
    Rows,
    choice_of_columns,
    clip,
    column_at,
    entry,
    only_where,
    stack,
    total,
    used_up,
    where,
)
from dpmodels.sums.products import looked_up, mapped, squares
from dpmodels.sums.rowmap import images_of

if TYPE_CHECKING:
    from dpmodels.formula.program import Grid

__all__ = [
    "CellRows",
    "Rows",
    "clip",
    "column_at",
    "complete",
    "entry",
    "length",
    "linear",
    "only_where",
    "stack",
    "total",
    "used_up",
    "where",
]  # fmt: skip

#: A public affine map: matrix (k, q), shift (k, 1) or None, and (r, p) if its first r rows are
#: upper triangular in p columns (:func:`dpmodels.sums.products.mapped`).
AffineMap = tuple[Array, Array | None, tuple[int, int]]


class Image(Rows):
    """Image of rows under a public affine map, computed when a set or a formula uses it."""

    __slots__ = ("_a", "_block", "_map")

    def __init__(self, block: Array, of: AffineMap) -> None:
        self._block, self._map = block, of
        self._a: Array | None = None

    @property
    def numbers(self) -> Any:  # type: ignore[override]
        """The image, (k, m)."""
        if self._a is None:
            self._a = self.in_steps(1.0)
        return self._a

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

    __slots__ = ("_image",)

    def __init__(self, image: Array, k: int) -> None:
        self.numbers, self._image = image[:k], image

    def padded(self, height: int) -> Array:
        """Return the numbers above other columns of the image, for sets that overwrite all."""
        image = self._image
        return np.asarray(image[:height]) if len(image) >= height else super().padded(height)


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

    __slots__ = ("_a", "_map", "cache", "cells", "grid", "images", "values")

    def __init__(
        self, grid: Grid, values: Array, cells: npt.NDArray[np.intp], cache: dict[int, Any],
        images: tuple[Array, Array] | None = None, of: AffineMap | None = None,
    ) -> None:  # fmt: skip
        self.grid, self.values, self.cells, self.cache = grid, values, cells, cache
        self.images, self._map = images, of
        self._a: Array | None = None

    @property
    def numbers(self) -> Any:  # type: ignore[override]
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
        choice_of_columns(places)
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
        matrix, images = self.cache.get(id(of[0]), (None, None))
        if matrix is not of[0]:  # a number of another process may be that of another matrix
            images = images_of(of[0], of[1], self.grid)
            self.cache[id(of[0])] = of[0], images
        return CellRows(self.grid, self.values, self.cells, self.cache, images, of)

    def length(self) -> Array:
        """Return the Euclidean length of each row: that of its cell, where no number moves it."""
        if self.images is None:
            return np.asarray(np.sqrt(squares(self.numbers)))
        images, slopes = self.images
        moved = slopes.any(axis=1)  # public
        if moved.all() or (moved.any() and not self.grid.wide):
            return np.asarray(np.sqrt(squares(self.numbers)))
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


def linear(
    matrix: Array, x: Rows, shift: Array | None = None, upper: tuple[int, int] = (0, 0)
) -> Rows:
    """Return ``matrix x + shift`` of each row separately, whatever the processor.

    ``upper``: (r, p) if the first r rows of the matrix are upper triangular in p columns.
    """
    of = (matrix, shift, upper)
    return x.image(of) if isinstance(x, CellRows) else Image(x.numbers, of)


def length(x: Rows) -> Rows:
    """Return the Euclidean length of each row."""
    size = x.length() if isinstance(x, CellRows) else np.sqrt(squares(x.numbers))
    return Rows(size[None])


def complete(x: Rows) -> Rows:
    """Return whether all numbers of a row are finite."""
    if not isinstance(x, CellRows) or x.images is not None:
        return Rows(np.isfinite(x.numbers).all(axis=0)[None])
    return Rows((np.isfinite(x.values).all(axis=0) & ~x.grid.missing[x.cells])[None])
