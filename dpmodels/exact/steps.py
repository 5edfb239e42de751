"""Rows in whole lattice steps: the integers of an affine map, the same by whatever way.

The image of a row is ``t = trunc(sum_j M_ij x_j + s_i)``, column after column, each product and
each sum rounded once. Only the integers count, so that they may be computed in any order: an image
that is farther from every whole number than floats can err has the integers of the definition, and
the few rows that are not are computed as the definition says (``theory.md``, 1.10).
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.kernel import compiled, reference, steps_by_kernel
from dpmodels.exact.products import squares
from dpmodels.sources.windows import ROW_PAD

__all__ = ["Steps"]

#: Units in the last place that an image may be off, beside one for each of its products.
_BESIDE = 8
#: What vanishes under a product, and of images near 0: far below a step.
_TINY = 2.0**-40
#: Columns of a row beside the first which it may see, up to which products are written out.
_SPARSE = 1
#: Steps that all rows of a block may be off; entries from which a map is cut in two.
_CLOSE, _LARGE = 2.0**-16, 1 << 12
_ULP = 2.0**-52


@dataclass(frozen=True, eq=False)
class Steps:
    """An affine map of rows to lattice steps, and the integers of a block under it.

    Attributes
    ----------
    matrix : (k, q) array
        To lattice steps. Everything in it is public or was released.
    shift : (k,) array
    own : int
        The first ``own`` coordinates are of one size, those behind them of another: how far
        floats may err is worked out for each of the two.
    """

    matrix: Array
    shift: Array
    own: int

    @functools.cached_property
    def reach(self) -> Array:
        """Largest entries of each column and of the shift, (2, q + 1): own rows, and the others."""
        size = np.abs(np.hstack([self.matrix, self.shift[:, None]]))
        size[:, :-1] = np.maximum(size[:, :-1], np.finfo(float).tiny)  # which tells what is missing
        none = np.zeros(size.shape[1])
        parts = (size[: self.own], size[self.own :])
        return np.stack([p.max(axis=0) if len(p) else none for p in parts])

    @functools.cached_property
    def laid_out(self) -> tuple[Array, Array, Array]:
        """Return matrix, shift and reach as the compiled loops read them."""
        parts = (self.matrix, self.shift, self.reach)
        first, second, third = (np.ascontiguousarray(a, dtype=np.float64) for a in parts)
        return first, second, third

    @property
    def err(self) -> float:
        """What an image may be off twice, over the sum of absolute values of its terms."""
        return (self.matrix.shape[1] + _BESIDE) * _ULP

    @property
    def off(self) -> tuple[float, float]:
        """What an image may be off twice: over the sum of its terms, and whatever these are."""
        return self.err, _TINY

    @functools.cached_property
    def _seen(self) -> list[list[int]] | None:
        """The columns that each coordinate sees, where these are few; None: they are many."""
        if np.count_nonzero(self.matrix[:, 1:], axis=1).max() > _SPARSE:
            return None
        return [np.flatnonzero(row).tolist() for row in self.matrix]

    def of(self, block: Array) -> tuple[Array, Array]:
        """Return the integers (k, m) of a block (q, m), and squared lengths of the own ones (m,).

        NaN in a row with a cell that is none.

        Privacy
        -------
        The integers of a row are a function of this row and the map alone.
        """
        if reference() or (self._seen is not None and not compiled()):
            out = self._written_out(block)
            return out, squares(out[: self.own])
        found = steps_by_kernel(self.laid_out, self.own, self.off, block)
        out, square, doubtful = self._by_products(block) if found is None else found
        if doubtful.any():
            rows = np.flatnonzero(doubtful)
            part = block[:, rows]
            there = np.isfinite(part).all(axis=0)
            image = np.full((len(self.matrix), len(rows)), np.nan)
            image[:, there] = self._written_out(part[:, there])
            out[:, rows] = image
            square[rows] = squares(image[: self.own])
        return out, square

    def _by_products(self, block: Array) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Return integers by BLAS, squared lengths, and the rows that it leaves in doubt."""
        k, m = len(self.matrix), block.shape[1]
        out = np.empty((k, m + ROW_PAD))[:, :m]
        for rows, first in self._parts:
            np.matmul(self.matrix[rows, first:], block[first:], out=out[rows])
        if self.shift.any():
            out += self.shift[:, None]
        longest = np.maximum(block.max(axis=1, initial=0.0), -block.min(axis=1, initial=0.0))
        err = self._off(longest[:, None])
        if not err.max() <= _CLOSE:  # a row that is far out, or missing, is not the others' affair
            err = self._off(np.abs(block))
        doubtful = np.zeros(m, dtype=bool)
        for part, by in ((out[: self.own], err[0]), (out[self.own :], err[1])):
            if len(part):
                low = part - by
                part += by
                np.trunc(low, out=low)
                np.trunc(part, out=part)
                doubtful |= (low != part).any(axis=0)
        return out, squares(out[: self.own]), doubtful

    def _off(self, size: Array) -> Array:
        """Return how far images may be off twice, (2, m), of cells (q, m) of this size."""
        out: Array = self.reach[:, :-1] @ size
        out += self.reach[:, -1:]
        out *= self.err
        out += _TINY
        return out

    @functools.cached_property
    def _parts(self) -> list[tuple[slice, int]]:
        """Rows of the matrix and the first column that they see, cut where it pays."""
        k = len(self.matrix)
        cuts = [0, self.own // 2, self.own, k] if self.matrix.size >= _LARGE else [0, k]
        rows = [slice(a, b) for a, b in itertools.pairwise(cuts) if a < b]
        seen = [np.flatnonzero(self.matrix[r].any(axis=0)) for r in rows]
        return [(r, int(js[0]) if len(js) else 0) for r, js in zip(rows, seen, strict=True)]

    def _written_out(self, block: Array) -> Array:
        """Return the integers of a block as they are defined; of a map that sees little in turn."""
        if self._seen is None:
            image = self.matrix[:, :1] * block[:1]
            term = np.empty_like(image)
            for factors, cells in zip(self.matrix.T[1:], block[1:], strict=True):
                np.multiply(factors[:, None], cells, out=term)
                image += term
        else:
            m = block.shape[1]
            image, term = np.empty((len(self.matrix), m + ROW_PAD))[:, :m], np.empty(m)
            for row, factors, columns in zip(image, self.matrix, self._seen, strict=True):
                first, *others = columns or [0]
                np.multiply(block[first], factors[first], out=row)
                for j in others:
                    row += np.multiply(block[j], factors[j], out=term)
        image += self.shift[:, None]
        return _whole(image, block)


def _whole(image: Array, block: Array) -> Array:
    """Cut images to whole steps, in place; NaN in rows with a cell or an image that is not finite.

    A cell through a zero of the map is none the less missing.
    """
    np.trunc(image, out=image)
    if not np.isfinite(block.sum() + image.sum()):
        there: Any = np.isfinite(block).all(axis=0) & np.isfinite(image).all(axis=0)
        image[:, ~there] = np.nan
    return image
