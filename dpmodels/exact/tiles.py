"""Whole passes by the compiled loops: a table's columns in, sums of integers out.

What a row adds is what :class:`~dpmodels.exact.rowmap.RowMap` and
:class:`~dpmodels.scoring.sums.ScorePass` say, number for number; on the way a row is written down
in the work of the call alone, which is wiped. Lengths, layouts and indices are checked here and in
``rows.c``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.exact.kernel import PLAIN_GRAM, address, blocks_fit, compiled, loaded, told, work_of
from dpmodels.exact.steps import Steps
from dpmodels.sources.columns import MOST_ROWS, Columns

__all__ = ["Scores", "moments_by_kernel", "pass_by_kernel", "scores_by_kernel"]

#: Sums of products of rows: information, ordinary information, meat.
_GRAMS = 3


@dataclass(frozen=True, eq=False)
class Scores:
    """What rows add to a scoring pass. **Confidential**.

    Attributes
    ----------
    grams : (3, k, k) int64 array
        Of information, ordinary information and meat.
    score, far : (k,) int64 arrays
        Scores, and what they are beyond the clip.
    scale : int
    bins : int64 array
    """

    grams: npt.NDArray[np.int64]
    score: npt.NDArray[np.int64]
    far: npt.NDArray[np.int64]
    scale: int
    bins: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        return "<sums of scores, confidential>"


class _Sums:
    """Where a call adds up."""

    def __init__(self, k: int, numbers: Sequence[float], bins: int, chosen: Any, m: int) -> None:
        self.numbers = np.array(numbers, dtype=np.float64)
        if isinstance(chosen, slice):
            chosen = np.arange(m)[chosen]
        self.chosen = np.ascontiguousarray(chosen, dtype=np.int64)
        self.grams = np.zeros((_GRAMS, k, k), dtype=np.int64)
        self.sums = np.zeros(2 * k + 1, dtype=np.int64)
        self.bins = np.zeros(bins, dtype=np.int64)

    def arguments(self) -> tuple[int, ...]:
        """Return addresses and lengths, in the order of ``rows.c``."""
        return (
            address(self.numbers), len(self.numbers), address(self.chosen), len(self.chosen),
            address(self.grams), address(self.sums), address(self.bins), len(self.bins),
        )  # fmt: skip

    def found(self) -> Scores:
        """Return the sums."""
        k = self.grams.shape[1]
        return Scores(
            self.grams, self.sums[:k], self.sums[k : 2 * k], int(self.sums[-1]), self.bins
        )


def scores_by_kernel(
    z: Array, psi: Array, square: Array, numbers: Sequence[float], bins: int, chosen: Any
) -> Scores | None:
    """Return what mapped rows z (k, m) in whole steps add to a pass; None: numpy computes it.

    Parameters
    ----------
    psi, square : (m,) arrays
        Of their scores; squared lengths.
    numbers : sequence of float
        What the pass is, in the order of ``rows.c``.
    bins : int
    chosen : slice or increasing indices
        Rows of the ordinary information and of the meat.

    Notes
    -----
    **Privacy.** Confidential. Which way is taken goes by shapes and types alone.
    """
    run = loaded()
    k, m = z.shape
    if run.library is None or (run.set == 0 and k > PLAIN_GRAM):
        return None
    if not blocks_fit(k, z) or psi.dtype != np.float64:
        return None
    psi, square = np.ascontiguousarray(psi), np.ascontiguousarray(square, dtype=np.float64)
    if psi.shape != (m,) or square.shape != (m,):
        raise PrivacyBugError("a score of another length than its rows")
    to, work = _Sums(k, numbers, bins, chosen, m), work_of(run.library.dp_need_of_pass(k, 1))
    code = run.library.dp_scores(
        run.set, k, m, address(z), z.strides[0] // 8, address(psi), address(square),
        *to.arguments(), address(work), len(work),
    )  # fmt: skip
    told(code, work)
    return to.found()


def pass_by_kernel(
    steps: Steps, columns: Columns, k: int, numbers: Sequence[float], bins: int, chosen: Any
) -> Scores:
    """Return what the rows of columns add to a pass of least squares, filled up to k coordinates.

    As :func:`scores_by_kernel`, psi the last coordinate of the map. Where :func:`compiled` is.
    """
    run, (q, m) = loaded(), columns.shape
    lie, to = _Lying(columns), _Sums(k, numbers, bins, chosen, m)
    work = work_of(run.library.dp_need_of_pass(k, q))
    code = run.library.dp_pass(
        run.set, k, q, m, steps.own, *_map_of(steps, q, steps.own + 1), *steps.off,
        *lie.arguments(), *to.arguments(), address(work), len(work),
    )  # fmt: skip
    told(code, work)
    return to.found()


def moments_by_kernel(
    steps: Steps, columns: Columns, top: float, most: float
) -> npt.NDArray[np.int64]:
    """Return ``sum z z'`` (k, k) of the rows of columns in the ball of ``top`` steps. Confidential.

    Parameters
    ----------
    steps : Steps
        Of a matrix (k, q); or of a factor for each column, (k, 1), and a shift.
    most : float
        Squared length from which a row is none.
    """
    run, (q, m) = loaded(), columns.shape
    k, diagonal = len(steps.matrix), steps.matrix.shape[1] == 1
    lie, out = _Lying(columns), np.zeros((k, k), dtype=np.int64)
    work = work_of(run.library.dp_need_of_pass(k, q))
    code = run.library.dp_moments(
        run.set, k, q, m, int(diagonal), *_map_of(steps, 1 if diagonal else q, k), *steps.off,
        *lie.arguments(), top, most, address(out), address(work), len(work),
    )  # fmt: skip
    told(code, work)
    return out


class _Lying:
    """Addresses of columns, which the caller keeps."""

    def __init__(self, columns: Columns) -> None:
        q, m = columns.shape
        if not (compiled() and m <= MOST_ROWS and columns.ranges.shape == (2, q)):
            raise PrivacyBugError("columns that the compiled loops do not take")
        for cells in columns.cells:
            if cells.dtype != np.float64 or cells.shape != (m,) or cells.strides[0] % 8:
                raise PrivacyBugError("columns that do not lie as doubles do")
        self.places = np.array(
            [[address(c), c.strides[0] // 8] for c in columns.cells], dtype=np.int64
        ).T.copy()
        self.ranges = np.ascontiguousarray(columns.ranges, dtype=np.float64)

    def arguments(self) -> tuple[int, ...]:
        """Return addresses in the order of ``rows.c``."""
        return (*map(address, self.places), *map(address, self.ranges))


def _map_of(steps: Steps, q: int, k: int) -> tuple[int, ...]:
    """Return the addresses of a map; they live as long as ``steps`` does."""
    if steps.matrix.shape != (k, q) or steps.shift.shape != (k,) or steps.reach.shape != (2, q + 1):
        raise PrivacyBugError("a map of another shape than its columns")
    return tuple(map(address, steps.laid_out))
