"""The minimum of a sum of losses: damped Newton over rows, until the gradient is certified small.

Minimises F(theta) = sum_i l(x_i'theta; y_i) + (lam/2)|theta|^2 + tilt'theta. The source is read a
public number of times (``planned_passes``): once where the mapped rows of a public n fit into a
public amount of memory, where they stay until the minimum is found; else ``PASSES`` times. Those
passes add up integers, by tasks where there are any; the steps are taken by the caller.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array, brent
from dpmodels.privacy.composition import deltas_gdp, gdp_bounds, interval_mass
from dpmodels.privacy.mechanisms import Profile, delta_gdp, mu_gdp
from dpmodels.sources.rows import BLOCK_ROWS
from dpmodels.sources.summed import counted, sampled, skimmed
from dpmodels.sums.products import (
    SHRINK,
    TOP,
    Limbs,
    cross_product,
    joined,
    mapped,
    squares,
    towards_zero,
)

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


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

    def terms(self, eta: Array, y: Array, w: Array) -> tuple[float, Array, Array]:
        """Return (sum of w l, w l' (m,), w l'' (m,)) at linear predictors ``eta``, weights w."""
        s = 2.0 * y - 1.0
        t = s * eta
        e = np.exp(-np.abs(t))
        # log(1 + e^-t) = max(-t, 0) + log(1 + e^-|t|); a = expit(-t)
        loss = float(w @ (np.maximum(-t, 0.0) + np.log1p(e)))
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

    @property
    def score(self) -> float:
        """Bound of |l'|."""
        return self.cap

    @property
    def curvature(self) -> float:
        """Bound of l''."""
        return self.cap

    def terms(self, eta: Array, y: Array, w: Array) -> tuple[float, Array, Array]:
        """Return (sum of w l, w l' (m,), w l'' (m,))."""
        top = float(np.log(self.cap))
        rate = np.exp(np.minimum(eta, top))
        mean = rate + self.cap * np.maximum(eta - top, 0.0)
        return float(w @ (mean - y * eta)), w * (rate - y), w * np.where(eta < top, rate, 0.0)


Loss = LogisticLoss | PoissonLoss


#: Value, gradient and Hessian of a sum of losses; and what returns them, with or without Hessian.
Sums = tuple[float, Array, Array]
At = Callable[[Array, bool], Sums]
Places = npt.NDArray[np.intp]

#: Bits of the lower word of a gradient.
_LOW = 26
#: The largest value of a block, in steps of 2^-30.
_TOP = 2.0**62


def lattice_sums(
    blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array, curved: bool
) -> tuple[npt.NDArray[np.int64], ...]:
    """Return value, gradient and Hessian of the sum of losses as integers, two words each.

    The same in any order of the blocks (``glm.md``, 4.4). A row of the gradient is cut to steps
    of :func:`grain`, one of the Hessian to the lattice of ``proof/theory.md`` 1.5 (steps of Newton
    need no more); the value of a block to 2^-30. Confidential, as ``theta`` is.
    """
    p = len(theta)
    value, high, low = (np.zeros(k, dtype=np.int64) for k in (2, p, p))
    curvature = Limbs(p)
    step = 1.0 / (grain(rows, loss) * 2.0**_LOW)
    root = TOP / math.sqrt(loss.curvature * rows.radius * rows.reach)
    with np.errstate(all="ignore"):
        for block in blocks:
            X, y, w = rows.apply(block)
            # each row by itself: its integers do not depend on its place
            part, first, second = loss.terms(mapped(theta[None], X)[0], y, w)
            # where F cannot be computed it is large: the step is not taken
            whole = int(np.clip(np.nan_to_num(part * 2.0**30, nan=_TOP), -_TOP, _TOP))
            value += (whole >> 31, whole & (1 << 31) - 1)
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
    return value[:1], value[1:], high, low, *curvature.limbs()


def passes_over(
    rows: Any, design: Design, working: WorkingRows, loss: Loss
) -> dict[str, Callable[..., Any]]:
    """Return what :func:`minimise` reads rows with: blocks to be kept by the caller, or tasks."""

    def sums(theta: Array, curved: bool) -> Sums:
        job = functools.partial(lattice_sums, rows=working, loss=loss, theta=theta, curved=curved)
        return real_sums(counted(rows, design, job), working, loss)

    return {
        "blocks": lambda: rows.blocks(design),
        "sums": sums,
        "start": lambda places: sampled(rows, design, range(design.q), places),
        "skim": lambda: skimmed(rows, design),
    }


def grain(rows: WorkingRows, loss: Loss) -> float:
    """Return the step of a row's gradient: a power of two, 2^-64 of its bound or more.

    A sum over n rows is off by less than ``2^-63 n sqrt(p) B score``; half of the tolerance, which
    pays for rounding, is 2^-51 n B score at least.
    """
    return 2.0 ** (math.ceil(math.log2(rows.radius * loss.score)) - 64)


def real_sums(limbs: tuple[npt.NDArray[np.int64], ...], rows: WorkingRows, loss: Loss) -> Sums:
    """Return value, gradient and Hessian of :func:`lattice_sums`. Confidential."""
    over, under, high, low, h_high, h_low = limbs
    value = float((int(over[0]) * 2**31 + int(under[0])) / 2**30)
    gradient = high.astype(object) * 2**_LOW + low.astype(object)
    bound = loss.curvature * rows.radius * rows.reach
    hessian = np.asarray(joined(h_high, h_low) / 2**40, dtype=float) * bound
    return value, np.asarray(gradient, dtype=float) * grain(rows, loss), hessian


# -- Damped Newton over blocks of rows, until the gradient is certified small.


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

    def apply(self, block: Array) -> tuple[Array, Array, Array]:
        """Return (X (p, m), y (m,), w (m,)) of a block (q, m); overwrites it.

        Missing rows have X = 0: the zero row, of constant loss.
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
            missing = ~(np.isfinite(w) & np.isfinite(y))
            X[:, missing] = 0.0
            y[missing] = 0.0
            w[missing] = 1.0
        return X, y, w


@dataclass(frozen=True)
class Minimum:
    """Where the solver stopped. Confidential."""

    theta: Array  # (p,)
    gradient: Array  # (p,)
    hessian: Array  # (p, p): of the sum of losses, ridge left out; at an iterate near theta
    certified: bool  # The gradient norm is at most half the tolerance
    evaluations: int  # Of F and its derivatives, on kept rows or by a pass


def evaluate(
    blocks: Iterable[Array], rows: WorkingRows, loss: Loss, theta: Array
) -> tuple[float, Array, Array]:
    """Return (sum of losses, its gradient, its Hessian) at ``theta``: one pass."""
    return _sums((rows.apply(block) for block in blocks), loss, theta, True)


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
    """Return how often :func:`minimise` reads the source: a function of public numbers alone.

    ``n`` is None where the number of rows is private.
    """
    return 1 if n is not None and _stride(n, p) == 1 else PASSES


def _stride(n: int, p: int) -> int:
    return max(1, math.ceil(8 * (p + 2) * n / KEEP))


def minimise(
    blocks: Callable[[], Iterable[Array]], rows: WorkingRows, loss: Loss, lam: float, tilt: Array,
    tol: float, *, n: int, max_iter: int, passes: int = 1,
    skim: Callable[[], object] | None = None, sums: At | None = None,
    start: Callable[[Places], Array] | None = None,
) -> Minimum:  # fmt: skip
    """Minimise F until ``|grad F| <= tol / 2`` (the other half pays for rounding).

    ``blocks`` gives a fresh pass; ``tilt`` (p,) is sigma b, the random linear term of objective
    perturbation, or zero. The source is read exactly ``passes`` times, whatever the rows hold:
    ``skim`` reads it once without looking at the rows, for the passes that are left over. n decides
    which rows are kept; of those ``max_iter`` caps the steps, and ``start`` gives some of them,
    (q, m), by their places, in one pass. ``sums(theta, curved)`` is one pass over the others. All
    three default to reading ``blocks``.

    A step is accepted if F falls by a part of what Newton promises (Armijo), or if the gradient
    norm falls and F does not rise beyond rounding; otherwise it is halved. F is strongly convex
    with a Lipschitz gradient: the iteration converges from anywhere, separated classes included
    (``glm.md``, 4.4).
    """
    theta = np.zeros(len(tilt))
    stride = _stride(n, len(tilt))
    kept = _kept(blocks, rows, n, stride, start)

    def at_kept(theta: Array, curved: bool) -> Sums:
        return _sums(kept, loss, theta, curved)

    left = passes - 1
    if stride == 1:
        found = _newton(at_kept, loss, lam, tilt, tol, theta, max_iter, n)
    else:
        part = sum(X.shape[1] for X, _, _ in kept) / n
        near = (lam * part, tilt * part, tol * part, theta, _START_STEPS, n)
        theta = _newton(at_kept, loss, *near).theta
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


def _kept(
    blocks: Callable[[], Iterable[Array]], rows: WorkingRows, n: int, stride: int,
    start: Callable[[Places], Array] | None,
) -> list[Mapped]:  # fmt: skip
    """Return all mapped rows, or every ``stride``-th: one pass."""
    if stride == 1:
        found = (rows.apply(block) for block in blocks())
        return [(X.copy(), y.copy(), w.copy()) for X, y, w in found]
    if start is None:
        parts = [block[:, ::stride].copy() for block in blocks()]
        return [rows.apply(part) for part in parts]
    cells = start(np.arange(0, n, stride))
    at = range(0, cells.shape[1], BLOCK_ROWS)
    return [rows.apply(cells[:, a : a + BLOCK_ROWS]) for a in at]


def _newton(
    sums: At, loss: Loss, lam: float, tilt: Array, tol: float, theta: Array, most: int, n: int
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


# -- Objective perturbation for logistic regression: the proved privacy profile and its inverse.
#
# theta = argmin F(theta) + sigma b'theta, b ~ N(0, I); F = sum of losses + (lam/2) |theta|^2 with
# rows |x| <= R of weight w, w |x| <= B. With rho = B / sigma and kappa = B R / lam (``glm.md``,
# section 4; R = B without weights):
#
#     adding a row     delta(eps) <= dG(eps; rho)
#     removing a row   delta(eps) <= E (1 - e^(eps - L(z)))_+,  z ~ N(0, 1),
#                      L(z) = max over 0 <= a <= 1 of a rho z + (a rho)^2 / 2 + log(1 + a(1-a)
# kappa)
#
# L is convex in z (a maximum of affine functions), so its chords between grid points lie above it;
# the expectation over a chord is closed. The computed removal bound is an upper bound.


_EDGE = 12.0
_CELLS = 2400
_HALVINGS = 32
#: Halvings before Newton's steps, these steps, and how far below its maximum a loss may be left.
_FIRST, _STEPS, _SHORT_OF = 7, 3, 1e-16


def removal_loss(z: npt.ArrayLike, rho: float, kappa: float) -> Array:
    """Return L(z): the largest privacy loss of removing a row, as a function of the noise.

    The maximand is concave in a when rho^2 <= 8 kappa / (4 + kappa) (its second derivative is
    rho^2 - (2 kappa + kappa^2 - 2 kappa^2 q)/(1 + kappa q)^2, q = a(1-a), largest at q = 1/4);
    otherwise the shift form max(0, rho z + rho^2/2) + log(1 + kappa/4) bounds it.
    """
    z = np.asarray(z, dtype=float)
    if rho * rho > 8.0 * kappa / (4.0 + kappa):
        shifted: Array = np.maximum(0.0, rho * z + rho * rho / 2) + math.log1p(kappa / 4.0)
        return shifted
    a = _maximiser(z, rho, kappa)
    inside = a * rho * z + (a * rho) ** 2 / 2 + np.log1p(kappa * a * (1 - a))
    # at an end the maximum is not flat: the ends themselves are tried
    best: Array = np.maximum(inside, np.maximum(0.0, rho * z + rho * rho / 2))
    return best


def _maximiser(z: Array, rho: float, kappa: float) -> Array:
    """Return the a in [0, 1] of the largest loss, the maximand being concave.

    Halvings, and Newton's steps inside what they leave. A concave function at a is below its
    maximum by at most its slope times the distance: where that is not below ``_SHORT_OF`` (the
    slack that the table adds pays for far more) the halvings go on. So they end within 2^-33,
    where the maximum is at most 2^-67 |L''| away and |L''| at most rho^2 + 2 kappa + kappa^2.
    """

    def slope(a: Array) -> Array:
        out: Array = rho * z + a * rho * rho + kappa * (1 - 2 * a) / (1 + kappa * a * (1 - a))
        return out

    a = np.full_like(z, 0.5)
    for j in range(2, _FIRST + 2):
        a += np.copysign(0.5**j, slope(a))
    near = 0.5 ** (_FIRST + 1)
    low, high = a - near, a + near  # 0 and 1 are among these ends, exactly
    b = a
    for _ in range(_STEPS):
        inside = 1 + kappa * b * (1 - b)
        bend = rho * rho - kappa * (2 * inside + kappa * (1 - 2 * b) ** 2) / (inside * inside)
        with np.errstate(all="ignore"):
            b = np.clip(b - slope(b) / bend, low, high)
    left = slope(b)
    short = np.where(((b == 0) & (left < 0)) | ((b == 1) & (left > 0)), 0.0, np.abs(left))
    if (short * 2 * near <= _SHORT_OF).all():  # False where anything is not a number
        return b
    for j in range(_FIRST + 2, _HALVINGS + 2):
        a += np.copysign(0.5**j, slope(a))
    return a


@lru_cache(maxsize=256)
def _removal_table(rho: float, kappa: float) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return (grid, L, alpha, beta, tail mass, tail Q-mass); tails run over cells k, k+1, ..."""
    z = np.linspace(-_EDGE, _EDGE, _CELLS + 1)
    # rounding of the bisection and of the logarithm: far below one part in 1e12
    loss = removal_loss(z, rho, kappa) + 1e-13
    beta = np.diff(loss) / np.diff(z)
    alpha = loss[:-1] - beta * z[:-1]
    p = interval_mass(z[:-1], z[1:])
    q = np.exp(-alpha + beta * beta / 2) * interval_mass(z[:-1] + beta, z[1:] + beta)
    tail_p, tail_q = (np.append(np.cumsum(mass[::-1])[::-1], 0.0) for mass in (p, q))
    return z, loss, alpha, beta, tail_p, tail_q


def removal_delta(eps: float, rho: float, kappa: float) -> float:
    """Return an upper bound of delta(eps) of removing a row, for every real eps."""
    z, loss, alpha, beta, tail_p, tail_q = _removal_table(rho, kappa)
    k = int(np.searchsorted(loss, eps, side="right")) - 1
    beyond = 2e-33  # P(z > 12), given away outright
    if k < 0:
        return min(1.0, float(tail_p[0] - math.exp(eps) * tail_q[0]) + 2 * beyond)
    if k >= len(alpha):
        return beyond
    out = float(tail_p[k + 1] - math.exp(eps) * tail_q[k + 1])
    if beta[k] > 0:
        start = np.array([max(z[k], (eps - alpha[k]) / beta[k])])
        end = z[k + 1 : k + 2]
        if start[0] < end[0]:
            p = float(interval_mass(start, end)[0])
            q = float(interval_mass(start + beta[k], end + beta[k])[0])
            out += p - math.exp(eps - alpha[k] + beta[k] ** 2 / 2) * q
    return min(1.0, max(0.0, out) + beyond)


def removal_deltas(eps: Array, rho: float, kappa: float) -> Array:
    """Return :func:`removal_delta` at each eps."""
    z, loss, alpha, beta, tail_p, tail_q = _removal_table(rho, kappa)
    beyond = 2e-33
    at = np.searchsorted(loss, eps, side="right") - 1
    k = np.clip(at, 0, len(alpha) - 1)
    a, b = alpha[k], beta[k]
    with np.errstate(all="ignore"):
        out = tail_p[k + 1] - np.exp(eps) * tail_q[k + 1]
        start, end = np.maximum(z[k], (eps - a) / b), z[k + 1]
        inside = (b > 0) & (start < end)
        start = np.where(inside, start, end)
        q = np.exp(eps - a + b**2 / 2) * interval_mass(start + b, end + b)
        out = np.maximum(0.0, out + np.where(inside, interval_mass(start, end) - q, 0.0)) + beyond
        before = tail_p[0] - np.exp(eps) * tail_q[0] + 2 * beyond
    out = np.where(at < 0, before, np.where(at >= len(alpha), beyond, out))
    return np.minimum(1.0, out)


def add_remove_curves(eps: Array, *, rho: float, kappa: float) -> Array:
    """Return :func:`add_remove_curve` at each eps."""
    out = removal_deltas(eps, rho, kappa)
    above = np.flatnonzero(gdp_bounds(eps, rho) > out)  # elsewhere removing a row costs more
    out[above] = np.maximum(deltas_gdp(eps[above], rho), out[above])
    return out


def replace_curves(eps: Array, *, rho: float, kappa: float) -> Array:
    """Return :func:`replace_curve` at each eps."""
    there = 1.0 + np.exp(np.minimum(600.0, eps / 2))
    return np.minimum(1.0, there * add_remove_curves(eps / 2, rho=rho, kappa=kappa))


def add_remove_curve(eps: float, *, rho: float, kappa: float) -> float:
    """Return delta(eps), eps >= 0, of one row more or less."""
    return max(delta_gdp(eps, rho), removal_delta(eps, rho, kappa))


def replace_curve(eps: float, *, rho: float, kappa: float) -> float:
    """Return delta(eps), eps >= 0, of one row replaced: (1 + e^(eps/2)) times the above at eps/2.

    A replacement is a removal followed by an addition (``privacy/theory.md``, section 5).
    """
    return min(1.0, (1.0 + math.exp(min(600.0, eps / 2))) * add_remove_curve(
        eps / 2, rho=rho, kappa=kappa
    ))  # fmt: skip


def two_sided_add_remove(eps: float, *, rho: float, shift: float) -> float:
    """Return min(1, 2 dG(max(eps - c, 0); rho)): the score may have either sign."""
    return min(1.0, 2.0 * delta_gdp(max(eps - shift, 0.0), rho))


def two_sided_replace(eps: float, *, rho: float, shift: float) -> float:
    """Return the replace-one form of :func:`two_sided_add_remove`."""
    return min(1.0, (1.0 + math.exp(min(600.0, eps / 2))) * two_sided_add_remove(
        eps / 2, rho=rho, shift=shift
    ))  # fmt: skip


def two_sided_add_removes(eps: Array, *, rho: float, shift: float) -> Array:
    """Return :func:`two_sided_add_remove` at each eps."""
    return np.minimum(1.0, 2.0 * deltas_gdp(np.maximum(eps - shift, 0.0), rho))


def two_sided_replaces(eps: Array, *, rho: float, shift: float) -> Array:
    """Return :func:`two_sided_replace` at each eps."""
    there = 1.0 + np.exp(np.minimum(600.0, eps / 2))
    return np.minimum(1.0, there * two_sided_add_removes(eps / 2, rho=rho, shift=shift))


def logistic_profile(rho: float, kappa: float, relation: str) -> Profile:
    """Return the mechanism of a logistic fit: score of one sign, curvature a(1-a)."""
    return Profile(f"objective perturbation, {relation}", (("rho", rho), ("kappa", kappa)))


def two_sided_profile(rho: float, shift: float, relation: str) -> Profile:
    """Return the mechanism of a fit whose score can have either sign."""
    name = f"objective perturbation, two-sided, {relation}"
    return Profile(name, (("rho", rho), ("shift", shift)))


@lru_cache(maxsize=512)
def largest_rho(eps: float, delta: float, kappa: float) -> float:
    """Return the largest rho with add/remove delta(eps) <= delta: noise sigma = B / rho.

    ``kappa = B R / lam``; any positive ridge will do.
    """

    def gap(rho: float) -> float:
        return math.log(max(removal_delta(eps, rho, kappa), 1e-300)) - math.log(delta)

    high = top = mu_gdp(eps, delta)
    if gap(top) <= 0:
        return top
    low = 0.5 * top
    while gap(low) > 0:
        high, low = low, 0.5 * low
        if low < top * 2.0**-24:
            return 0.0
    rho = brent(gap, low, high, xtol=1e-8 * top, rtol=1e-8)
    while gap(rho) > 0:
        rho *= 1.0 - 1e-8
    return rho


# -- What generalised self-concordance says of neighbouring logistic fits (``glm.md``, secti


def displacement(alpha: float, B: float, Lg: float | None = None) -> float:
    """Return D(alpha) = -(1/R) log(1 - R Lg/alpha): the minimum moves by at most this.

    Needs R Lg < alpha.
    """
    Lg = B if Lg is None else Lg
    return -math.log1p(-B * Lg / alpha) / B


def curvature_sensitivity(B: float) -> float:
    """Return R Lg + beta: the most that lambda_min of the Hessian at the minimum moves."""
    return B * B + B * B / 4.0


def hessian_change(alpha: float, B: float) -> float:
    """Return c: the Frobenius norm of H^{-1/2}(H' - H)H^{-1/2} is at most this. Dimension-free."""
    return B * B / (alpha - B * B) + B * B / (4.0 * alpha)


def psi(a: float, t: float) -> float:
    """Return -(1/2) log(1 + t) - log(1 - (a-1) t) / (2(a-1)); infinite if (a-1) t >= 1."""
    if (a - 1) * t >= 1:
        return math.inf
    return -0.5 * math.log1p(t) - math.log1p(-(a - 1) * t) / (2 * (a - 1))


def hessian_rdp(a: float, gamma: float, alpha: float, B: float) -> float:
    """Return the Renyi divergence bound of N(theta*, (gamma H)^{-1}) at order a >= 2."""
    c = hessian_change(alpha, B)
    if (a - 1) * c >= 1:
        return math.inf
    k = B * displacement(alpha, B)
    m2 = gamma * (k / -math.expm1(-k) * B) ** 2 / alpha
    return 0.5 * a * m2 * (1 + c) / (1 - (a - 1) * c) + psi(a, c)


def hessian_gamma(a: float, rho: float, alpha: float, B: float) -> float:
    """Return the largest gamma with hessian_rdp(a) <= a rho^2/2, or 0.

    Then the same holds at every order in [2, a]: both terms over a increase with a.
    """
    c = hessian_change(alpha, B)
    if (a - 1) * c >= 1:
        return 0.0
    room = 0.5 * a * rho * rho - psi(a, c)
    if room <= 0:
        return 0.0
    return room / (hessian_rdp(a, 1.0, alpha, B) - psi(a, c))


def tested_rdp(alpha: float, *, rho: float, top: float) -> float:
    """Return the Renyi curve of a calibrated Hessian sample: order x rho^2/2 up to ``top``."""
    if alpha > top:
        return math.inf
    return 0.5 * max(alpha, 2.0) * rho * rho
