"""The minimum of a sum of losses: damped Newton over rows, until the gradient is certified small.

Minimises F(theta) = sum_i l(x_i'theta; y_i) + (lam/2)|theta|^2 + tilt'theta, from theta = 0:

1. Newton steps on sums of floats (rows in memory) or of integers (a pass over the source).
2. The gradient at the end is added up in exact integers, from predictors that are rounded once. If
   it is not small enough, steps go on with such sums.

There is no cap on the steps: whether a cap is reached would depend on the rows, and the answer
would jump there (``glm.md``, 4.4). Rows of a public n that fit into a public amount of memory are
read once. Otherwise the source is read ``PASSES`` times, and more often only if that is not enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows, clip, complete, length, only_where, where
from dpmodels.formula.design import Design
from dpmodels.sources.summed import Integers, idle_pass, summed
from dpmodels.sums.products import (
    SHRINK,
    TOP,
    ExactSum,
    cross_product,
    mapped,
    towards_zero,
)

# -- Losses of generalised linear models with a bounded score: what the privacy proofs need of


@dataclass(frozen=True)
class LogisticLoss:
    """log(1 + exp(-t)), t = (2y - 1) eta: |l'| <= 1 with the sign of the label, l'' = a(1 - a).

    y is 0 or 1 (``WorkingRows`` makes rows of any other label missing: value and slope would be of
    different functions there). A missing row is a zero row: its loss is the constant log 2.
    """

    score: float = 1.0
    curvature: float = 0.25
    one_sided: bool = True
    #: Rounding of a row's score, in units of 2^-53 of its bound (``glm.md``, 4.4).
    rounding: float = 9.0

    def terms(self, eta: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
        """Return (l, w l', w l'') of rows at linear predictors ``eta``, weights w."""
        s = 2.0 * y - 1.0
        t = s * eta
        e = np.exp(-np.abs(t))
        # log(1 + e^-t) = max(-t, 0) + log(1 + e^-|t|); a = expit(-t)
        loss = np.maximum(-t, 0.0) + np.log1p(e)
        curve = w * e / (1.0 + e) ** 2
        a = np.where(t >= 0, e, 1.0) / (1.0 + e)
        return loss, -s * a * w, curve


@dataclass(frozen=True)
class PoissonLoss:
    """Poisson loss with the mean function continued linearly above a public cap.

    m(eta) = e^eta for eta <= log M and M (1 + eta - log M) above; l = m(eta) - y eta, where the
    count y is clipped to [0, M]. Then l' = min(e^eta, M) - y lies in [-M, M] and l'' in [0, M].
    Where the true means stay below M it is the Poisson likelihood.
    """

    cap: float
    one_sided: bool = False

    score = property(attrgetter("cap"))  # Bound of |l'|
    curvature = property(attrgetter("cap"))  # Bound of l''

    @property
    def rounding(self) -> float:
        """Rounding of a row's score, in units of 2^-53 of its bound (``glm.md``, 4.4)."""
        return 9.0 + math.log(max(self.cap, 1.0))

    def terms(self, eta: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
        """Return (l, w l', w l'') of rows."""
        top = float(np.log(self.cap))
        rate = np.exp(np.minimum(eta, top))
        mean = rate + self.cap * np.maximum(eta - top, 0.0)
        return mean - y * eta, w * (rate - y), w * np.where(eta < top, rate, 0.0)


Loss = LogisticLoss | PoissonLoss


#: Value, gradient and Hessian of a sum of losses; and what returns them, with or without Hessian.
Sums = tuple[float, Array, Array]
At = Callable[[Array, bool], Sums]

#: Bits of the lower word of a gradient.
_LOW = 26
#: The largest value of a block, in steps of 2^-30.
_TOP = 2.0**62


@dataclass(frozen=True, eq=False)
class LatticeSums:
    """Pass of :func:`mapped_sums` over the blocks of a source."""

    rows: WorkingRows
    loss: Loss
    theta: Array
    curved: bool
    base: Array | None = None

    def over(self, blocks: Iterable[Array], _: Any = None) -> Integers:
        """Return the sums over blocks. Confidential."""
        mapped = (self.rows.apply(block) for block in blocks)
        of = self.rows, self.loss, self.theta, self.curved, self.base
        return Integers(mapped_sums(mapped, *of))


def mapped_sums(
    mapped_blocks: Iterable[Mapped], rows: WorkingRows, loss: Loss, theta: Array, curved: bool,
    base: Array | None = None,
) -> tuple[npt.NDArray[Any], ...]:  # fmt: skip
    """Return value, gradient (two words each) and Hessian of the sum of losses, as integers.

    With ``base`` (p,) they are of ``base + theta``, and each linear predictor is rounded once, not
    at every product. The same in any order of the blocks (``glm.md``, 4.4). A row of the gradient
    is cut to steps of :func:`grain`, one of the Hessian to the lattice of ``proof/theory.md`` 1.5
    (steps of Newton need no more); the value of a block to 2^-30. Confidential, as ``theta`` is.
    """
    p = len(theta)
    value, high, low = (np.zeros(k, dtype=np.int64) for k in (2, p, p))
    curvature = ExactSum(p, p)
    step = 1.0 / (grain(rows, loss) * 2.0**_LOW)
    root = TOP / math.sqrt(loss.curvature * rows.radius * rows.reach)
    with np.errstate(all="ignore"):
        for X, y, w in mapped_blocks:
            # each row separately: its integers do not depend on its position
            eta = mapped(theta[None], X)[0]
            if base is not None:
                eta = _predictor(base, X, eta)
            each, first, second = loss.terms(eta, y, w)
            part = in_floats(w, each)
            # where F cannot be computed it is large: the step is not taken
            steps = int(np.clip(np.nan_to_num(part / _VALUE_STEP, nan=_TOP), -_TOP, _TOP))
            value += (steps >> 31, steps & (1 << 31) - 1)
            g = X * first
            g *= step  # a power of two
            upper = np.trunc(g)
            g -= upper
            g *= 2.0**_LOW
            # at most 2^38 and 2^26, of at most 2^13 rows: exact in any order
            high += np.nan_to_num(upper.sum(axis=1), nan=2.0**52).astype(np.int64)
            low += np.nan_to_num(np.trunc(g, out=g).sum(axis=1)).astype(np.int64)
            if curved:
                curvature.add(cross_product(towards_zero(X * (np.sqrt(second) * root))))
    return value[:1], value[1:], high, low, curvature.integers()


def _predictor(base: Array, X: Array, offset: Array) -> Array:
    """Return ``base @ X + offset`` (m,), rounded once.

    The rounding errors of products and sums are exact floats (Dekker 1971; Knuth), added at the
    end. So large coefficients that cancel cost no digits.
    """
    total, low_part = np.zeros(X.shape[1]), offset.copy()
    for t, x in zip(base, X, strict=True):
        t_high, x_high = (v * _VELTKAMP - (v * _VELTKAMP - v) for v in (t, x))
        t_low, x_low = t - t_high, x - x_high
        product = t * x
        low_part += ((x_high * t_high - product) + x_high * t_low + x_low * t_high) + x_low * t_low
        grown = total + product
        part = grown - total
        low_part += (total - (grown - part)) + (product - part)
        total = grown
    return total + low_part


def passes_over(
    rows: Any, design: Design, working: WorkingRows, loss: Loss
) -> dict[str, Callable[..., Any]]:
    """Return the reader of :func:`minimise`: blocks to be kept by the caller, or tasks."""

    def sums(theta: Array, curved: bool, base: Array | None = None) -> Sums:
        job = LatticeSums(working, loss, theta, curved, base)
        return real_sums(summed(rows, design, job).arrays, working, loss)

    return {
        "blocks": lambda: rows.blocks(design),
        "sums": sums,
        "skim": lambda: idle_pass(rows, design),
    }


def grain(rows: WorkingRows, loss: Loss) -> float:
    """Return the step of a row's gradient: a power of two, 2^-64 of its bound or more.

    A sum over n rows is off by less than ``2^-63 n sqrt(p) B score``; half of the tolerance, which
    allows for rounding, is at least :func:`rounding_error`.
    """
    return 2.0 ** (math.ceil(math.log2(rows.radius * loss.score)) - 64)


def real_sums(sums: tuple[npt.NDArray[Any], ...], rows: WorkingRows, loss: Loss) -> Sums:
    """Return value, gradient and Hessian of :func:`mapped_sums`. Confidential."""
    over, under, high, low, curvature = sums
    value = float((int(over[0]) * 2**31 + int(under[0])) / 2**30)
    gradient = high.astype(object) * 2**_LOW + low.astype(object)
    bound = loss.curvature * rows.radius * rows.reach
    hessian = np.asarray(curvature / 2**40, dtype=float) * bound
    return value, np.asarray(gradient, dtype=float) * grain(rows, loss), hessian


# -- Damped Newton over blocks of rows, until the gradient is certified small.


Mapped = tuple[Array, Array, Array]

#: Rows that the tolerance is planned for where their number is private.
PRIVATE_ROWS = 2**22
#: Splits a float into two halves of 26 bits (Dekker 1971).
_VELTKAMP = 2.0**27 + 1.0
#: A step that shrinks the gradient to this part of it is followed by steps with the same Hessian.
_FAST = 0.05
#: A step by which F is not seen to fall must leave this part of the smallest gradient so far.
_CALMER = 0.9
#: Smallest rise of F that counts, relative to its size, and the step of its integer sums.
_MIN_RISE, _VALUE_STEP = 1e-11, 2.0**-30
#: Length below which a step changes nothing in floats.
_SHORTEST = 2.0**-60


@dataclass(frozen=True)
class WorkingRows:
    """The public (or released) row map of a fit: ``x -> scale * x + shift``, into a ball."""

    # scale, shift: (p,) arrays
    scale: Array
    shift: Array
    # B: rows beyond it get the weight B / |x|. A weight that depends on x alone leaves the model as
    # it is (scaling or clipping x would change it), and bounds the score by B.
    radius: float
    reach: float  # R >= B: rows beyond it are missing, or thinned
    # The response is clipped to [0, y_max]. None: it is an event, and a cell other than 0 or 1
    # makes its row missing (a loss of labels in between would be of another model).
    y_max: float | None = None
    # Rows beyond R get the weight B R / |x|^2 instead: |w x x'| <= B R. Only a proof that asks for
    # no more than that and for |w x| <= B may do so (``glm.md``, 4.1 and 4.2).
    thins: bool = False

    def of(self, z: Rows) -> tuple[Rows, Rows, Rows]:
        """Return predictors x, responses y and weights w of rows.

        Missing rows have x = 0: the zero row, of constant loss.
        """
        x, y = z[:-1] * self.scale, z[-1]
        if self.shift.any():
            x = x + self.shift
        norm = length(x)
        w = np.minimum(1.0, self.radius / np.maximum(norm, 1e-300)) * SHRINK
        beyond = where(np.isfinite(norm), w * (self.reach / norm), np.nan) if self.thins else np.nan
        w = where(norm <= self.reach * SHRINK, w, beyond)  # NaN, a missing row, is beyond
        if self.y_max is None:
            y = where((y == 0.0) | (y == 1.0), y, np.nan)
        else:
            y = clip(y, 0.0, self.y_max)
        # a NaN anywhere in a row reaches its weight or its response, and so does an infinite cell
        present = complete(w) & complete(y)
        return only_where(x, present), only_where(y, present), only_where(w, present, 1.0)

    def apply(self, block: Array) -> Mapped:
        """Return the numbers of :meth:`of` for a block (q, m): (p, m), (m,) and (m,)."""
        x, y, w = (part.numbers for part in self.of(Rows(block)))
        return x, y[0], w[0]


@dataclass(frozen=True)
class Minimum:
    """Result of :func:`minimise`. Confidential."""

    theta: Array  # (p,)
    # (p, p): Hessian of the sum of losses, without the ridge, at an iterate near theta
    hessian: Array
    # Whether the gradient norm is at most half the tolerance. False only where floats allow no
    # better point: theta is the best then, and is released like any other.
    certified: bool
    evaluations: int  # Number of evaluations of F and its derivatives


def evaluate(
    blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array
) -> tuple[float, Array, Array]:
    """Return (sum of losses, its gradient, its Hessian) at ``theta``; reads the rows once."""
    return _sums((rows.apply(block) for block in blocks), loss, theta, True)


def _sums(mapped: Iterable[Mapped], loss: Loss, theta: Array, curved: bool) -> Sums:
    """Return value, gradient and, if ``curved``, the Hessian of the sum of losses."""
    p = len(theta)
    value, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
    for X, y, w in mapped:
        each, first, second = loss.terms(in_floats(theta, X), y, w)
        value += float(in_floats(w, each))
        gradient += in_floats(X, first)
        if curved:
            hessian += in_floats(X * second, X.T)
    return value, gradient, hessian


def in_floats(a: Any, b: Any) -> Any:
    """Return ``a @ b``, which floats round in any order: the certificate pays (``glm.md``, 4.4)."""
    return a @ b


def rounding_error(n: int | None, radius: float, loss: Loss) -> float:
    """Return a bound of the rounding error of a sum of gradients of n rows (``glm.md``, 4.4).

    A private number of rows (``n`` is None) counts as ``PRIVATE_ROWS``.
    """
    return (PRIVATE_ROWS if n is None else n) * radius * loss.score * loss.rounding * 2.0**-53


def minimise(
    blocks: Callable[[], Iterable[Array]], rows: WorkingRows, loss: Loss, lam: float, tilt: Array,
    tol: float, *, n: int, passes: int, skim: Callable[[], object], sums: Callable[..., Sums],
) -> Minimum:  # fmt: skip
    """Minimise F until ``|grad F| <= tol / 2`` (the other half allows for rounding).

    ``F(theta) = sum of losses + (lam/2) |theta|^2 + tilt'theta``. A step is accepted if F falls by
    a part of the decrease that the quadratic model predicts (Armijo), or if the gradient
    norm falls below nine tenths of the smallest so far and F does not rise beyond rounding;
    otherwise it is halved. F is strongly convex with a Lipschitz gradient: the iteration converges
    from anywhere, separated classes included (``glm.md``, 4.4).

    Parameters
    ----------
    blocks : callable
        Starts a new reading of the rows, in blocks (q, m).
    tilt : (p,) array
        sigma b, the random linear term of objective perturbation, or zero.
    tol : float
        At least ``2 rounding_error(n, rows.radius, loss)``.
    n : int
        Number of rows: scales what counts as a rise of F beyond rounding, and nothing else.
    passes : int
        1: the rows are read once and stored. Otherwise the source is read at least this often.
    skim : callable
        Reads the source once and ignores it. The number of readings was announced, so readings
        that are not needed are made all the same.
    sums : callable
        ``sums(theta, curved, base)`` reads the rows once, if they are not stored.
    """
    if passes == 1:
        mapped = (rows.apply(block) for block in blocks())
        copies = list(mapped)
        coarse: At = functools.partial(_sums, copies, loss)

        def fine(theta: Array, curved: bool, base: Array | None = None) -> Sums:
            return real_sums(mapped_sums(copies, rows, loss, theta, curved, base), rows, loss)
    else:
        coarse = fine = sums
    start = np.zeros(len(tilt))
    near = _newton(coarse, loss, lam, tilt, tol, start, n)
    exactly = functools.partial(fine, base=near.theta)
    shifted = tilt + lam * near.theta
    last = _newton(exactly, loss, lam, shifted, tol, start, n, hessian=near.hessian)
    evaluations = near.evaluations + last.evaluations
    for _ in range(passes - evaluations if passes > 1 else 0):
        skim()
    return Minimum(near.theta + last.theta, last.hessian, last.certified, evaluations)


def _newton(
    sums: At, loss: Loss, lam: float, tilt: Array, tol: float, theta: Array, n: int,
    hessian: Array | None = None,
) -> Minimum:  # fmt: skip
    """Iterate from ``theta`` until the gradient is small, or floats allow no better point.

    ``hessian`` is one at a point near ``theta``, if there is one.
    """
    ridge = lam * np.eye(len(theta))

    def at(t: Array, curved: bool) -> Sums:
        value, gradient, hessian = sums(t, curved)
        value += 0.5 * lam * float(in_floats(t, t)) + float(in_floats(tilt, t))
        return value, gradient + lam * t + tilt, hessian

    fast = hessian is not None
    value, gradient, fresh = at(theta, not fast)
    H = fresh if hessian is None else hessian
    used, length = 1, 1.0
    size = least = math.sqrt(in_floats(gradient, gradient))
    while size > 0.5 * tol and length >= _SHORTEST:
        step = np.linalg.solve(H + ridge, -gradient)
        new_value, new_gradient, fresh = at(theta + length * step, not fast)
        used += 1
        new_size = math.sqrt(in_floats(new_gradient, new_gradient))
        allowed = _MIN_RISE * (abs(value) + n * loss.score) + 2.0 * _VALUE_STEP
        armijo = value + 1e-4 * length * float(in_floats(gradient, step))
        falls = new_value < value and new_value <= armijo
        if not falls and not (new_size <= _CALMER * least and new_value <= value + allowed):
            if fast:
                # the old Hessian fails here: a fresh one, at the same place
                fast = False
                value, gradient, H = at(theta, True)
                used += 1
            else:
                length *= 0.5
            continue
        ratio = new_size / size
        theta, value, gradient, size = theta + length * step, new_value, new_gradient, new_size
        least = min(least, size)
        if not fast:
            H = fresh
        elif ratio > _FAST and size > 0.5 * tol:
            value, gradient, H = at(theta, True)
            used += 1
        fast, length = length == 1.0 and ratio <= _FAST, 1.0
    return Minimum(theta, H, size <= 0.5 * tol, used)
