"""Damped Newton over blocks of rows, until the gradient is certified small.

Minimises F(theta) = sum_i l(x_i'theta; y_i) + (lam/2)|theta|^2 + tilt'theta. The source is read a
public number of times (``planned_passes``): once where the mapped rows of a public n fit into a
public amount of memory, where they stay until the minimum is found; else ``PASSES`` times. Those
passes add up integers, by tasks where there are any; the steps are taken by the caller.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.end import SHRINK
from dpmodels.exact.products import squares
from dpmodels.models.glm.lattice import At, Loss, Places, Sums, lattice_sums, real_sums
from dpmodels.sources.rows import BLOCK_ROWS

Mapped = tuple[Array, Array, Array]

#: Pays for the float rounding of norm, factor and product: mapped rows have norm at most B.
#: Bytes of mapped rows that are kept for the length of a fit.
KEEP = 2**28
#: Passes over rows that are not kept: one that keeps a sample, the others from its minimum on.
PASSES = 12
#: A step that shrinks the gradient to this part of it is followed by steps with the same Hessian.
_FAST = 0.05
#: F is not said to rise unless it does by this part of its size: rounding of a sum of blocks.
_ROUNDING = 1e-11
#: Steps of the start on a sample.
_START_STEPS = 100


@dataclass(frozen=True)
class WorkingRows:
    """The public (or released) row map of a fit: ``x -> scale * x + shift``, into a ball.

    Attributes
    ----------
    scale, shift : (p,) arrays
    radius : float
        B: rows beyond it get the weight B / |x|. A weight that depends on x alone leaves the
        model as it is (scaling or clipping x would change it), and bounds the score by B.
    reach : float
        R >= B: rows beyond it are void, or thinned.
    y_max : float or None
        The response is clipped to [0, y_max]. None: it is an event, and a cell other than 0 or 1
        voids its row (a loss of labels in between would be of another model).
    thins : bool
        Rows beyond R get the weight B R / |x|^2 instead: |w x x'| <= B R. Only a proof that asks
        for no more than that and for |w x| <= B may do so (``theory.md``, 4.1 and 4.2).
    """

    scale: Array
    shift: Array
    radius: float
    reach: float
    y_max: float | None = None
    thins: bool = False

    def apply(self, block: Array) -> tuple[Array, Array, Array]:
        """Return (X (p, m), y (m,), w (m,)) of a block (q, m); overwrites it.

        Void rows have X = 0: the zero row, of constant loss.
        """
        X, y = block[:-1], block[-1]
        X *= self.scale[:, None]
        if self.shift.any():
            X += self.shift[:, None]
        norm = np.sqrt(squares(X))
        w = np.minimum(1.0, self.radius / np.maximum(norm, 1e-300)) * SHRINK
        far = ~(norm <= self.reach * SHRINK)  # NaN, a missing row, counts as far
        if far.any():
            if self.thins:
                w[far] *= self.reach / norm[far]
                w[~np.isfinite(norm)] = np.nan
            else:
                w[far] = np.nan
        if self.y_max is None:
            y[(y != 0.0) & (y != 1.0)] = np.nan
        else:
            np.clip(y, 0.0, self.y_max, out=y)
        # a NaN anywhere in a row reaches its weight or its response, and so does an infinite cell
        if not math.isfinite(float(w.sum() + y.sum())):
            void = ~(np.isfinite(w) & np.isfinite(y))
            X[:, void] = 0.0
            y[void] = 0.0
            w[void] = 1.0
        return X, y, w


@dataclass(frozen=True)
class Minimum:
    """Where the solver stopped. Confidential.

    Attributes
    ----------
    theta : (p,) array
    gradient : (p,) array
    hessian : (p, p) array
        Of the sum of losses, ridge left out; at an iterate near theta.
    certified : bool
        The gradient norm is at most half the tolerance.
    evaluations : int
        Of F and its derivatives, on kept rows or by a pass.
    """

    theta: Array
    gradient: Array
    hessian: Array
    certified: bool
    evaluations: int


def evaluate(
    blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array
) -> tuple[float, Array, Array]:
    """Return (sum of losses, its gradient, its Hessian) at ``theta``: one pass."""
    return _sums((rows.apply(block) for block in blocks), loss, theta, True)


def score_sum(blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array) -> Array:
    """Return the gradient of the sum of losses alone."""
    gradient = np.zeros(len(theta))
    for block in blocks:
        X, y, w = rows.apply(block)
        gradient += X @ loss.slope(theta @ X, y, w)
    return gradient


def _sums(found: Iterable[Mapped], loss: Loss, theta: Array, curved: bool) -> Sums:
    """Return value, gradient and, if ``curved``, the Hessian of the sum of losses."""
    p = len(theta)
    value, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
    for X, y, w in found:
        part, first, second = loss.terms(theta @ X, y, w)
        value += part
        gradient += X @ first
        if curved:
            hessian += (X * second) @ X.T
    return value, gradient, hessian


def planned_passes(n: int | None, p: int) -> int:
    """Return how often :func:`minimise` reads the source: a function of public numbers.

    Parameters
    ----------
    n : int or None
        Public number of rows; None where it is private.
    p : int
    """
    return 1 if n is not None and _stride(n, p) == 1 else PASSES


def _stride(n: int, p: int) -> int:
    return max(1, math.ceil(8 * (p + 2) * n / KEEP))


def minimise(
    blocks: Callable[[], Iterable[Array]],
    rows: WorkingRows,
    loss: Loss,
    lam: float,
    tilt: Array,
    tol: float,
    *,
    n: int,
    max_iter: int,
    passes: int = 1,
    skim: Callable[[], object] | None = None,
    sums: At | None = None,
    start: Callable[[Places], Array] | None = None,
) -> Minimum:
    """Minimise F until ``|grad F| <= tol / 2`` (the other half pays for rounding).

    Parameters
    ----------
    blocks : callable
        Gives a fresh pass.
    tilt : (p,) array
        sigma b: the random linear term of objective perturbation, or zero.
    n : int
        Rows of the source; decides which of them are kept.
    max_iter : int
        Cap of steps on rows that are kept.
    passes : int
        The source is read exactly so often, whatever the rows hold.
    skim : callable, optional
        Reads the source once without looking at the rows: what is done with the passes that are
        left over. None: ``blocks`` is read to its end.
    sums : callable, optional
        One pass over rows that are not kept: ``sums(theta, curved)``. None: over ``blocks``.
    start : callable, optional
        The rows of given places, (q, m), of one pass. None: taken from ``blocks``.

    Notes
    -----
    A step is accepted if F falls by a part of what Newton promises (Armijo), or if the gradient
    norm falls and F does not rise beyond rounding; otherwise it is halved. F is strongly convex
    with a Lipschitz gradient: the iteration converges from anywhere, separated classes included
    (``theory.md``, 4.4).
    """
    theta = np.zeros(len(tilt))
    stride = _stride(n, len(tilt))
    kept = _kept(blocks, rows) if stride == 1 else _spread(blocks, rows, n, stride, start)

    def at_kept(theta: Array, curved: bool) -> Sums:
        return _sums(kept, loss, theta, curved)

    left = passes - 1
    if stride == 1:
        found = _newton(at_kept, loss, lam, tilt, tol, theta, max_iter, n)
    else:
        part = sum(X.shape[1] for X, _, _ in kept) / n
        theta = _newton(
            at_kept, loss, lam * part, tilt * part, tol * part, theta, _START_STEPS, n
        ).theta
        kept = []

        def at_blocks(theta: Array, curved: bool) -> Sums:
            return real_sums(lattice_sums(blocks(), rows, loss, theta, curved), rows, loss)

        found = _newton(sums or at_blocks, loss, lam, tilt, tol, theta, left, n)
        left -= found.evaluations
    for _ in range(left):
        if skim is not None:
            skim()
        else:
            deque(blocks(), maxlen=0)
    return found


def _kept(blocks: Callable[[], Iterable[Array]], rows: WorkingRows) -> list[Mapped]:
    """Return all mapped rows: one pass."""
    found = (rows.apply(block) for block in blocks())
    return [(X.copy(), y.copy(), w.copy()) for X, y, w in found]


def _spread(
    blocks: Callable[[], Iterable[Array]],
    rows: WorkingRows,
    n: int,
    stride: int,
    start: Callable[[Places], Array] | None,
) -> list[Mapped]:
    """Return every ``stride``-th row, mapped: one pass."""
    if start is None:
        parts = [block[:, ::stride].copy() for block in blocks()]
        return [rows.apply(part) for part in parts]
    cells = start(np.arange(0, n, stride))
    at = range(0, cells.shape[1], BLOCK_ROWS)
    return [rows.apply(cells[:, a : a + BLOCK_ROWS]) for a in at]


def _newton(
    sums: At,
    loss: Loss,
    lam: float,
    tilt: Array,
    tol: float,
    theta: Array,
    most: int,
    n: int,
) -> Minimum:
    """Iterate from ``theta`` with at most ``most`` evaluations of F and its derivatives."""
    ridge = lam * np.eye(len(theta))

    def at(t: Array, curved: bool) -> Sums:
        value, gradient, hessian = sums(t, curved)
        value += 0.5 * lam * float(t @ t) + float(tilt @ t)
        return value, gradient + lam * t + tilt, hessian

    value, gradient, hessian = at(theta, True)
    used, length, fast = 1, 1.0, False
    while used < most:
        size = float(np.linalg.norm(gradient))
        if size <= 0.5 * tol:
            break
        step = np.linalg.solve(hessian + ridge, -gradient)
        new_value, new_gradient, new_hessian = at(theta + length * step, not fast)
        used += 1
        ratio = float(np.linalg.norm(new_gradient)) / size
        allowed = _ROUNDING * (abs(value) + n * loss.score)
        falls = new_value <= value + 1e-4 * length * float(gradient @ step)
        if not falls and not (ratio <= 0.9 and new_value <= value + allowed):
            if fast:
                # the old Hessian is no good here: a fresh one, at the same place
                fast = False
                value, gradient, hessian = at(theta, True)
                used += 1
            else:
                length *= 0.5
            continue
        theta, value, gradient = theta + length * step, new_value, new_gradient
        if not fast:
            hessian = new_hessian
        elif ratio > _FAST and used < most:
            value, gradient, hessian = at(theta, True)
            used += 1
        fast, length = length == 1.0 and ratio <= _FAST, 1.0
    certified = float(np.linalg.norm(gradient)) <= 0.5 * tol
    return Minimum(theta, gradient, hessian, certified, used)


def back_map(scale: Array, shift: Array, intercept: bool) -> Array:
    """Return A with beta = A theta: eta = sum theta_j (s_j x_j + h_j)."""
    A = np.diag(scale)
    if intercept:
        A[0] = np.where(np.arange(len(scale)) == 0, 1.0, shift)
    return A
