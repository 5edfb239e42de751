"""Rows by cell and number, added up by the compiled loops: what ``mixed.py`` computes, sooner.

A block's numbers are read, decided on and added up in one go through it, by
``exact/native/cells.h``: integers to the last one, so that the sums are those of numpy
(``theory.md``, 1.9). A row that is not inside is left to the caller, who takes it the dense way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError, UtilityWarning
from dpmodels.exact import kernel
from dpmodels.exact.bycell import Integers, symmetric
from dpmodels.quiet import tell

__all__ = ["BallByKernel", "ScoresByKernel", "ready", "seen_by_kernel"]

#: Rows and numbers of a call, and cells.
_ROWS, _NUMBERS, _CELLS = 1 << 16, 16, 1 << 20
#: Rows of at most 2^40 each whose sums 64 bits hold.
_MANY = 1 << 22


class _Sums:
    """Integers that calls add to, and where they go before 64 bits are full. **Confidential**."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.parts = [np.zeros(shape, dtype=np.int64) for shape in shapes]
        self._whole: list[Integers] = [np.zeros(shape, dtype=object) for shape in shapes]
        self._rows = 0

    def room(self, m: int) -> list[npt.NDArray[np.int64]]:
        """Return what the sums of m more rows are added to."""
        if self._rows + m > _MANY:
            self._carry()
        self._rows += m
        return self.parts

    def _carry(self) -> None:
        for whole, part in zip(self._whole, self.parts, strict=True):
            whole += part.astype(object)
            part[...] = 0
        self._rows = 0

    def integers(self) -> list[Integers]:
        """Return the sums as Python integers."""
        self._carry()
        return self._whole


def _parts(
    block: Array, cells: npt.NDArray[np.intp]
) -> Iterator[tuple[slice, Array, npt.NDArray[np.int64]]]:
    """Yield the parts of a block that calls take, laid out as these read them, and their cells."""
    if cells.shape != block.shape[1:] or cells.dtype.kind not in "iu":
        raise PrivacyBugError("a block that the compiled loops cannot read")
    apart, step = block.strides
    lies = (
        block.dtype == np.float64 and block.flags.aligned and apart % 8 == 0 and step == 8
        and (block.shape[1] <= apart // 8 or len(block) == 1)
    )  # fmt: skip
    for a in range(0, len(cells), _ROWS):
        part = slice(a, a + _ROWS)
        own = block[:, part] if lies else np.array(block[:, part], dtype=np.float64, order="C")
        yield part, own, np.ascontiguousarray(cells[part], dtype=np.int64)


def _apart(block: Array) -> int:
    """Return the doubles between two rows of a block."""
    return max(int(block.strides[0]) // 8, block.shape[1])


def _work(found: Any, d: int) -> Array:
    """Return doubles for a call, at an address that vectors may have."""
    return kernel.work_of(found.library.dp_need_by_cell(d))


def fits(d: int, cells: int) -> bool:
    """Whether the compiled loops run, and take rows of d numbers in so many cells."""
    wide = np.dtype(np.intp) == np.int64  # as cells are read
    return wide and 1 <= d <= _NUMBERS and 1 <= cells <= _CELLS and ready()


class BallByKernel:
    """The running sums of a ball by cell and number.

    Parameters
    ----------
    map : (2 + 2 d + d d,) array
        Largest square, margin, middles and factors of the numbers, Q by rows.
    at : (K, 1 + d) array
        A and g of each cell; A infinite in void ones.
    """

    def __init__(self, map: Array, at: Array) -> None:
        self._map, self._at = np.ascontiguousarray(map), np.ascontiguousarray(at)
        K, d = len(at), at.shape[1] - 1
        self._sums = _Sums((K, 1 + d), (d * (d + 1) // 2,))
        if self._map.shape != (2 + 2 * d + d * d,):
            raise PrivacyBugError("tables of another number of columns than the map")

    def add(self, block: Array, cells: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Add the rows (d, m) that are inside; return the places of those that are not."""
        found, at = kernel.loaded(), kernel.address
        K, d = len(self._at), self._at.shape[1] - 1
        if len(block) != d:
            raise PrivacyBugError("rows of another number of numbers than the tables")
        dense = np.zeros(len(cells), dtype=bool)
        for part, own, some in _parts(block, cells):
            out, work = dense[part], _work(found, d)
            by, among = self._sums.room(len(some))
            code = found.library.dp_ball_by_cell(
                found.set, d, K, len(some), at(self._map), at(self._at), at(own), _apart(own),
                at(some), at(by), at(among), at(out), at(work), len(work),
            )  # fmt: skip
            kernel.told(code, work)
        return np.flatnonzero(dense)

    def sums(self) -> tuple[Integers, Integers, Integers]:
        """Return (counts (K,), sums of integers (d, K), of their products (d, d))."""
        by, among = self._sums.integers()
        return by[:, 0], by[:, 1:].T, symmetric(among, by.shape[1] - 1, lower=True)


def seen_by_kernel(
    of_cells: Array, slopes: Array, block: Array, cells: npt.NDArray[np.intp]
) -> Array:
    """Return ``bycell.seen_by_row``: the same numbers."""
    found, at = kernel.loaded(), kernel.address
    of_cells, slopes = (np.ascontiguousarray(a, dtype=np.float64) for a in (of_cells, slopes))
    if slopes.shape != (len(block),) or of_cells.ndim != 1:
        raise PrivacyBugError("slopes of other numbers than the rows'")
    out = np.empty(len(cells))
    for part, own, some in _parts(block, cells):
        code = found.library.dp_seen_by_cell(
            found.set, len(block), len(of_cells), len(some), at(of_cells), at(slopes), at(own),
            _apart(own), at(some), at(out[part]),
        )  # fmt: skip
        kernel.told(code)
    return out


class ScoresByKernel:
    """The running sums of a scoring pass by cell and number.

    Parameters
    ----------
    map, at
        As of :class:`BallByKernel`.
    numbers : sequence of float
        Of the pass, in the order of ``rows.c``.
    bins : int
    """

    def __init__(self, map: Array, at: Array, numbers: Sequence[float], bins: int) -> None:
        self._map, self._at = np.ascontiguousarray(map), np.ascontiguousarray(at)
        self._numbers = np.array(numbers, dtype=np.float64)
        K, d = len(at), at.shape[1] - 1
        pairs = d * (d + 1) // 2
        self._sums = _Sums((K, 2 + d), (K, 2 * (1 + d)), (5 * pairs + 1 + d,), (bins,))
        if self._map.shape != (2 + 2 * d + d * d,):
            raise PrivacyBugError("tables of another number of columns than the map")

    def add(
        self, block: Array, cells: npt.NDArray[np.intp], seen: Array, psi: Array, some: Any
    ) -> npt.NDArray[np.intp]:
        """Add the rows that are inside; return the places of those that are not.

        Parameters
        ----------
        block : (d + 1, m) array
            The last row is not read.
        seen, psi : (m,) arrays
            What the model sees, NaN: no row; and its score.
        some : (m,) bool array or None
            Rows of meat and ordinary information.
        """
        found, at = kernel.loaded(), kernel.address
        K, d = len(self._at), self._at.shape[1] - 1
        seen, psi = (np.ascontiguousarray(a, dtype=np.float64) for a in (seen, psi))
        dense = np.zeros(len(cells), dtype=bool)
        chosen = dense if some is None else np.ascontiguousarray(some, dtype=bool)
        if len(block) < d or not seen.shape == psi.shape == chosen.shape == cells.shape:
            raise PrivacyBugError("scores of another length than their rows")
        for part, own, its in _parts(block, cells):
            out, work = dense[part], _work(found, d)
            by, by_some, among, bins = self._sums.room(len(its))
            code = found.library.dp_scores_by_cell(
                found.set, d, K, len(its), at(self._map), at(self._at), at(own), _apart(own),
                at(its), at(seen[part]), at(psi[part]),
                None if some is None else at(chosen[part]), at(self._numbers),
                len(self._numbers), at(by), at(by_some), at(among), at(bins), len(bins), at(out),
                at(work), len(work),
            )  # fmt: skip
            kernel.told(code, work)
        return np.flatnonzero(dense)

    def sums(self) -> dict[str, Any]:
        """Return the sums by name; of information, meat, spread as :meth:`BallByKernel.sums`."""
        by, chosen, among, bins = self._sums.integers()
        d = by.shape[1] - 2
        p = d * (d + 1) // 2
        words = among[p + 1 + d :].reshape(2, 2, p)  # of meat and spread, low and high
        both = words[:, 0] + (words[:, 1] << 32)
        out = {
            "information": (by[:, 0], by[:, 1:-1].T, symmetric(among[:p], d, lower=True)),
            "score": by[:, -1], "scale": int(among[p]), "numbers": among[p + 1 : p + 1 + d],
            "bins": bins.astype(np.int64),
        }  # fmt: skip
        for i, name in enumerate(("meat", "spread")):
            own = chosen[:, i * (1 + d) : (i + 1) * (1 + d)]
            out[name] = (own[:, 0], own[:, 1:].T, symmetric(both[i], d, lower=True))
        return out


def ready() -> bool:
    """Whether the compiled loops run and give the integers of numpy on one hostile block."""
    found = kernel.loaded()
    return found.library is not None and _agrees(found)


@functools.cache
def _agrees(found: Any) -> bool:
    """Compare a ball with its definition: once for a library."""
    K, d, m = 7, 2, 131
    places = np.arange(3.0 * m)
    block = np.cos(1.7 * places).reshape(3, m)
    block[0, ::41], block[1, 1::37], block[0, 2::53] = np.nan, np.inf, -1e300
    cells = np.arange(m) % (K + 2) - 1  # of which the first and the last are none
    at = np.linspace(0.1, 1.3, K * (1 + d)).reshape(K, 1 + d) * 2.0**78
    at[:, 1:] *= 2.0**-20
    at[3, 0] = np.inf
    map = np.array([2.0**80, 1e9, 0.1, -0.2, 2.0**20, 2.0**20, 1.1 * 2.0**38, 0, 3e10, 2.0**38])
    job = BallByKernel(map, at)
    with np.errstate(all="ignore"):
        dense = job.add(block[:d], cells)
        there = (cells >= 0) & (cells < K)
        A, *g = at[np.where(there, cells, 0)].T
        x = np.trunc((block[:d] - map[2:4, None]) * map[4:6, None])
        within = there & (np.abs(x) <= 2.0**20).all(axis=0)
        x[:, ~within] = 0.0
        square = A + (g[0] + x[0] * map[6]) * x[0]
        square = square + (g[1] + x[0] * map[8] + x[1] * map[9]) * x[1] + map[1]
        inside = within & (square <= map[0])
        own = np.flatnonzero(~inside & there & np.isfinite(A))
    counts, firsts, seconds = job.sums()
    x = x[:, inside]
    want = [np.bincount(cells[inside], row, K) for row in x]
    same = np.array_equal(dense, own) and 0 < len(own) < m // 2 and bool(
        (counts == np.bincount(cells[inside], minlength=K)).all()
        and (firsts == want).all()
        and (seconds == [[(a * b).sum() for a in x] for b in x]).all()
    )
    if not same:
        tell(UtilityWarning("the compiled kernel failed its self-test: numpy adds up rows by cell"))
    return same
