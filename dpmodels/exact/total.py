"""The one place where rows of which no bound could be kept become zero rows.

Every map into a set of bounded rows is total: whatever the cells are, the image is in the set. A
length, a score or a weight that is not finite, or so large or small that products of them might
not be, has no image under a formula of floats (``0 inf``, ``1/0``): such a row is the zero row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array

__all__ = ["LEAST", "MOST", "VAST", "integers_of", "usable"]

#: Squared lengths of rows that can be scaled: below, squares of entries may have vanished, so that
#: the length is not what was computed; above, products of a row may not be finite.
LEAST, MOST = 1e-280, 1e280
#: Largest score and weight of a row.
VAST = 1e140


def usable(
    square: Array, *factors: Array | None
) -> tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.bool_] | None]:
    """Return (rows that are there, rows that have a length), (m,) each; None: all are.

    Parameters
    ----------
    square : (m,) array
        Squared lengths.
    *factors : (m,) arrays or None
        What rows are multiplied by: scores, weights.

    Notes
    -----
    A row is there if nothing of it is missing, infinite or beyond ``VAST`` (``MOST`` for a squared
    length). Its length is 0 if the square is below ``LEAST``. NaN is neither above nor below.
    """
    given = [f for f in factors if f is not None]
    there = None
    if not (
        square.max(initial=0.0) <= MOST
        and all(-f.min(initial=0.0) <= VAST and f.max(initial=0.0) <= VAST for f in given)
    ):
        there = square <= MOST
        for factor in given:
            there &= np.abs(factor) <= VAST
    return there, None if square.min(initial=1.0) >= LEAST else square >= LEAST


def integers_of(sums: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return floats that hold integers as integers; what is not finite counts as 0.

    No row map gives such a sum. If one did, every processor would make another integer of it.
    """
    whole = np.isfinite(sums)
    if whole.all():
        return np.asarray(sums).astype(np.int64)
    return np.where(whole, sums, 0.0).astype(np.int64)
