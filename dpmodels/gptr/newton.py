"""Damped Newton over blocks of rows, until the gradient is certified small.

Minimises F(theta) = sum_i l(x_i'theta; y_i) + (lam/2)|theta|^2 + tilt'theta. Rows are mapped block
by block (affine map, ball) and never kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.gptr.losses import Loss

__all__ = ["Minimum", "WorkingRows", "minimise"]

Array = npt.NDArray[np.float64]

#: Pays for the float rounding of norm, factor and product: mapped rows have norm at most B.
_SHRINK = 1.0 - 2.0**-36
#: Blocks of the warm start (2^16 rows): one Newton solve on them replaces two or three passes.
_WARM_BLOCKS = 8
#: A step that shrinks the gradient to this part of it is followed by gradient-only passes.
_FAST = 0.05


@dataclass(frozen=True)
class WorkingRows:
    """The public (or released) row map of a fit: ``x -> scale * x + shift``, into a ball.

    Attributes
    ----------
    scale, shift : (p,) arrays
    radius : float
        B: rows beyond it get the weight B / |x|. A weight that depends on x alone leaves the
        model as it is (scaling x would change it), and bounds the score by B.
    reach : float
        R >= B: rows beyond it are scaled down to it, intercept included.
    y_max : float
        The response is clipped to [0, y_max].
    clip : float
        Single coordinates are clipped to [-clip, clip] first (an outlier in one column should
        not take the others with it).
    """

    scale: Array
    shift: Array
    radius: float
    reach: float
    y_max: float = 1.0
    clip: float = math.inf

    def apply(self, block: Array) -> tuple[Array, Array, Array]:
        """Return (X (p, m), y (m,), w (m,)) of a block (q, m); overwrites it.

        Void rows have X = 0: the zero row, of constant loss.
        """
        X, y = block[:-1], block[-1]
        X *= self.scale[:, None]
        if self.shift.any():
            X += self.shift[:, None]
        if self.clip < math.inf:
            np.clip(X, -self.clip, self.clip, out=X)
        norm = np.maximum(np.sqrt(np.einsum("ij,ij->j", X, X)), 1e-300)
        factor = np.minimum(1.0, self.reach / norm)
        if not float(factor.min(initial=1.0)) >= 1.0:  # NaN (a missing row) counts as "scale"
            # a row that stays is multiplied by 1: one long row must not touch the others
            X *= np.where(factor < 1.0, factor * _SHRINK, factor)
        w = np.minimum(1.0, self.radius / (norm * factor)) * _SHRINK
        np.clip(y, 0.0, self.y_max, out=y)
        # a NaN anywhere in a row reaches its weight or its response
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
        The gradient norm is at most the tolerance.
    passes : int
    """

    theta: Array
    gradient: Array
    hessian: Array
    certified: bool
    passes: int


def evaluate(
    blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array
) -> tuple[float, Array, Array]:
    """Return (sum of losses, its gradient, its Hessian) at ``theta``: one pass."""
    p = len(theta)
    value, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
    for block in blocks:
        X, y, w = rows.apply(block)
        part, first, second = loss.terms(theta @ X, y, w)
        value += part
        gradient += X @ first
        hessian += (X * second) @ X.T
    return value, gradient, hessian


def score_sum(blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array) -> Array:
    """Return the gradient of the sum of losses alone: a cheaper pass."""
    gradient = np.zeros(len(theta))
    for block in blocks:
        X, y, w = rows.apply(block)
        gradient += X @ loss.slope(theta @ X, y, w)
    return gradient


def _few(blocks: Iterable[Array], count: int) -> Iterator[Array]:
    for k, block in enumerate(blocks):
        if k == count:
            return
        yield block


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
) -> Minimum:
    """Minimise F until ``|grad F| <= tol / 2`` (the other half pays for rounding).

    Parameters
    ----------
    blocks : callable
        Gives a fresh pass.
    tilt : (p,) array
        sigma b: the random linear term of objective perturbation, or zero.
    n : int
        Rows of the source; decides the warm start only.

    Notes
    -----
    A step is accepted if F falls by a part of what Newton promises (Armijo) or the gradient
    norm falls; otherwise it is halved. F is convex and, with lam > 0, strongly convex: the
    iteration converges from anywhere, separated classes included.
    """
    theta = np.zeros(len(tilt))
    passes = 0
    if n > 2 * _WARM_BLOCKS * 8192:
        part = _WARM_BLOCKS * 8192 / n
        theta, used = _newton(
            lambda: _few(blocks(), _WARM_BLOCKS),
            rows, loss, lam * part, tilt * part, tol, theta, 12, 1e-4,
        )[:2]  # fmt: skip
        passes += math.ceil(used * part)
    theta, used, gradient, hessian, done = _newton(
        blocks, rows, loss, lam, tilt, tol, theta, max_iter, 0.0
    )
    return Minimum(theta, gradient, hessian, done, passes + used)


def _newton(
    blocks: Callable[[], Iterable[Array]],
    rows: WorkingRows,
    loss: Loss,
    lam: float,
    tilt: Array,
    tol: float,
    theta: Array,
    max_iter: int,
    relative: float,
) -> tuple[Array, int, Array, Array, bool]:
    """Iterate; ``relative`` > 0 stops early where the gradient fell by that factor."""
    p = len(theta)

    def at(t: Array) -> tuple[float, Array, Array]:
        value, gradient, hessian = evaluate(blocks(), rows, loss, t)
        return (
            value + 0.5 * lam * float(t @ t) + float(tilt @ t),
            gradient + lam * t + tilt,
            hessian,
        )

    def slope_at(t: Array) -> Array:
        return score_sum(blocks(), rows, loss, t) + lam * t + tilt

    value, gradient, hessian = at(theta)
    passes = 1
    goal = max(0.5 * tol, relative * float(np.linalg.norm(gradient)))
    fast = False
    while passes < max_iter:
        size = float(np.linalg.norm(gradient))
        if size <= goal:
            return theta, passes, gradient, hessian, size <= 0.5 * tol
        step = np.linalg.solve(hessian + lam * np.eye(p), -gradient)
        if fast:  # in the quadratic regime the last Hessian is good enough
            new_gradient = slope_at(theta + step)
            passes += 1
            ratio = float(np.linalg.norm(new_gradient)) / size
            if ratio <= _FAST:
                theta, gradient = theta + step, new_gradient
            else:
                fast = False
                value, gradient, hessian = at(theta)
                passes += 1
            continue
        promise = float(gradient @ step)
        length = 1.0
        while passes < max_iter:
            new = theta + length * step
            new_value, new_gradient, new_hessian = at(new)
            passes += 1
            falls = new_value <= value + 1e-4 * length * promise
            if falls or float(np.linalg.norm(new_gradient)) <= 0.9 * size:
                break
            length *= 0.5
        theta, value, gradient, hessian = new, new_value, new_gradient, new_hessian
        fast = float(np.linalg.norm(gradient)) <= _FAST * size
    return theta, passes, gradient, hessian, float(np.linalg.norm(gradient)) <= 0.5 * tol
