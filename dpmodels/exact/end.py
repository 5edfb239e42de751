"""The one end of every map: from floats to integers of rows, called last.

Every map into a set of bounded rows is total: whatever the cells are, the image is in the set, in
exact integers. What multiplies a row is applied before; a length, a score or a weight that is not
finite, or so large or small that products of them might not be, has no image under a formula of
floats (``0 inf``, ``1/0``): such a row is the zero row (``theory.md``, 1.5).

Integers are held by float64, so that BLAS may add up their products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.products import squares
from dpmodels.formula.coerce import clip_cells

Mask = npt.NDArray[np.bool_]

#: Lattice steps per bound: |k| <= 2^20, so products are at most 2^40 and 2^13 of them are exact.
STEPS = 2.0**20
#: Factor on rows in balls: pays for the float rounding of length, factor and product.
SHRINK = 1.0 - 2.0**-36
TOP = STEPS * SHRINK
#: Squared lengths of rows that can be scaled: below, squares of entries may have vanished, so that
#: the length is not what was computed; above, they may not be finite.
LEAST, MOST = 1e-280, 1.7e308
#: A length below it is 0: a quotient by it could overflow.
_SHORTEST = 1e-140
#: Largest squared length, and largest score and weight, of a row that is multiplied by these.
LONG, VAST = 1e280, 1e140


def usable(square: Array, *factors: Array | None) -> tuple[Mask | None, Mask | None]:
    """Return (rows that are there, rows that have a length), (m,) each; None: all are.

    Parameters
    ----------
    square : (m,) array
        Squared lengths.
    *factors : (m,) arrays or None
        What rows are multiplied by: scores, weights.

    Notes
    -----
    A row is there if nothing of it is missing, infinite or beyond ``VAST`` (1e280 for a squared
    length); else it is void in *every* part. Its length is 0 if the square is below ``LEAST``. NaN
    is neither above nor below.
    """
    given = [f for f in factors if f is not None]
    there = None
    if not (
        square.max(initial=0.0) <= LONG
        and all(-f.min(initial=0.0) <= VAST and f.max(initial=0.0) <= VAST for f in given)
    ):
        there = square <= LONG
        for factor in given:
            there &= np.abs(factor) <= VAST
    return there, None if square.min(initial=1.0) >= LEAST else square >= LEAST


def end(w: Array, length: Array | None = None) -> tuple[Array, Array]:
    """Return rows in the ball of 2^20 lattice steps, towards zero, and the lengths they keep.

    Parameters
    ----------
    w : (k, m) array
        Rows (columns of w) in lattice steps; overwritten.
    length : (m,) array, optional
        Their lengths where they are known, to a few units in the last place; overwritten.

    Returns
    -------
    ((k, m) array, (m,) array)
        Integers of which the squares add up to at most 2^40 in each row, whatever w is; and the
        lengths before rounding, 0 of a row that has none.

    Notes
    -----
    A row is multiplied by ``min(1, TOP / length)``. One that is not finite, or whose squared
    length overflows or is below ``LEAST``, is the zero row.
    """
    if length is None:
        square = squares(w)
        length = np.sqrt(square)
        length[~(square <= MOST)] = np.inf
        length[square < LEAST] = 0.0  # whose entries are far below one step
    if not length.max(initial=0.0) <= TOP:
        beyond = np.flatnonzero(~(length <= TOP))
        long = length[beyond]
        w[:, beyond] *= TOP / long
        length[beyond] = TOP
        gone = beyond[~(long <= MOST)]
        w[:, gone] = 0.0
        length[gone] = 0.0
    return np.trunc(w, out=w), length


def end_along(
    w: Array, length: Array, radius: float, size: Array | None = None, sign: Array | None = None
) -> Array:
    """Return rows in the ball of ``radius`` as integers, in steps of radius / 2^20.

    Parameters
    ----------
    w : (k, m) array
        Rows, not overwritten ...
    length : (m,) array
        ... of this length, in units of ``radius``; the zero row where it is 0 or not finite.
    size : (m,) array, optional
        What length they get, at most ``radius``. None: their own, at most ``radius``.
    sign : (m,) array, optional
        Whose signs the sizes have.

    Returns
    -------
    (k, m) array
        Rounded towards zero: of squared length at most 2^40, and within ``sqrt(k)`` steps of a
        multiple of w.
    """
    least = length.min(initial=1.0)
    some = 1.0
    if size is None:
        factor = TOP / length
        np.minimum(factor, TOP / radius, out=factor)
    else:
        factor = np.minimum(size, radius)
        if sign is not None:
            np.copysign(factor, sign, out=factor)
        factor /= length
        factor *= STEPS / radius * SHRINK
        some = size.min(initial=1.0)  # NaN, where one is
    gone = None
    if not (least >= _SHORTEST and some > 0.0 and length.max(initial=0.0) <= MOST):
        gone = ~((length >= _SHORTEST) & (length <= MOST))
        if size is not None:
            gone |= ~(size > 0.0)
        factor[gone] = 0.0
    out = w * factor
    if gone is not None:
        out[:, gone] = 0.0
    return np.asarray(np.trunc(out, out=out))


def ball_integers(g: Array, radius: float) -> Array:
    """Return vectors g (k, m) in the ball of ``radius``, in lattice steps of radius / 2^20.

    Rounded towards zero, so the integer norm is at most 2^20; zero where a length is not usable.
    """
    square = squares(g)
    square[~((square >= LEAST) & (square <= MOST))] = 0.0
    length = np.sqrt(square, out=square)
    return end_along(g, length, radius)


def inside(
    w: Array, steps: float = STEPS, ball: int = 0, project: bool = False
) -> Mask | None:
    """Bring rows (columns of ``w``) into their set, in place; return which are there (None: all).

    Parameters
    ----------
    ball : int
        The first ``ball`` coordinates go into the ball of ``steps SHRINK``, by a factor on the
        *whole* row or, with ``project``, on those alone; then each of the others is clipped to
        ``[-steps, steps]``.

    Notes
    -----
    A row with a NaN, or whose squared length overflows, is the zero row.
    """
    there = _into_ball(w, steps * SHRINK, ball, project) if ball else None
    rest = w[ball:]
    if len(rest):
        clip_cells(rest, -steps, steps, out=rest)
        # clipping leaves no infinities: a sum that is not finite means a missing cell
        if not math.isfinite(float(rest.sum())):
            whole: Mask = ~np.asarray(np.isnan(rest).any(axis=0))
            there = whole if there is None else np.asarray(there & whole)
    if there is not None:
        w[:, ~there] = 0.0
    return there


def _into_ball(w: Array, top: float, ball: int, project: bool) -> Mask | None:
    """Scale the rows whose squared length in the ball exceeds ``top^2``; return which have one."""
    part = w[:ball]
    square = squares(part)
    if square.max(initial=0.0) <= top * top:  # nothing to scale, nothing missing
        return None
    # Mostly few rows: only those are read and written.
    index: Any = np.flatnonzero(~(square <= top * top))
    if 4 * len(index) > len(square):
        index = slice(None)
    factor = np.sqrt(square[index])
    np.divide(top, factor, out=factor)
    np.minimum(factor, 1.0, out=factor)
    (part if project else w)[:, index] *= factor
    if square.max() <= MOST:
        return None
    there: Mask = square <= MOST
    return there


def end_of_rows(w: Array, ball: int = 0, project: bool = False) -> tuple[Array, Mask | None]:
    """Return rows as :func:`inside` leaves them, in integers; and which are there (None: all).

    Parameters
    ----------
    w : (k, m) array
        In lattice steps; overwritten.
    """
    there = inside(w, STEPS, ball, project)
    return np.trunc(w, out=w), there


def end_of_numbers(
    t: Array, most: float = 1.0, steps: float = STEPS, *, low: float = -1.0
) -> Array:
    """Return numbers, each of a row, clipped to ``[low most, most]``, in steps of most / ``steps``.

    Integers, rounded towards zero; 0 for a NaN.
    """
    out = np.clip(t, low * most, most)
    out *= steps / most
    np.trunc(out, out=out)
    if not math.isfinite(float(out.sum())):
        out[~np.isfinite(out)] = 0.0
    return out


def towards_zero(w: Array) -> Array:
    """Return rows (last axis) that a factor keeps in their set, rounded towards zero; in place.

    For sets whose bound is no length: traces, means, kernels. A row that is not finite is the
    zero row.
    """
    np.trunc(w, out=w)
    if not math.isfinite(float(w.sum())):
        w[..., ~np.isfinite(w).reshape(-1, w.shape[-1]).all(axis=0)] = 0.0
    return w


def integers_of(sums: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return floats that hold integers as integers; what is not finite counts as 0.

    No row map gives such a sum. If one did, every processor would make another integer of it.
    """
    there = np.isfinite(sums)
    if there.all():
        return np.asarray(sums).astype(np.int64)
    return np.where(there, sums, 0.0).astype(np.int64)
