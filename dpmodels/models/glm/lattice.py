"""Value, gradient and Hessian of a sum of losses as exact integers, by tasks where there are any.

For rows that the optimiser does not keep (:mod:`dpmodels.models.glm.newton`); ``theory.md``, 4.4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.end import TOP, towards_zero
from dpmodels.exact.products import cross_product, mapped
from dpmodels.exact.words import Words, joined
from dpmodels.sources.summed import counted, sampled, skimmed

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.glm.newton import WorkingRows

# -- Losses of generalised linear models with a bounded score: what the privacy proofs need of


@dataclass(frozen=True)
class LogisticLoss:
    """log(1 + exp(-t)), t = (2y - 1) eta: |l'| <= 1 with the sign of the label, l'' = a(1 - a).

    y is 0 or 1 (``WorkingRows`` voids rows of any other label: value and slope would be of
    different functions there). A void row is a zero row: its loss is the constant log 2.
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

    def slope(self, eta: Array, y: Array, w: Array) -> Array:
        """Return w l' (m,) alone: expit(eta) - y."""
        from scipy.special import expit

        out: Array = expit(eta)
        out -= y
        out *= w
        return out


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

    def slope(self, eta: Array, y: Array, w: Array) -> Array:
        """Return w l' (m,) alone."""
        return np.asarray(w * (np.exp(np.minimum(eta, float(np.log(self.cap)))) - y))


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

    The same in any order of the blocks (``theory.md``, 4.4). A row of the gradient is cut to steps
    of :func:`grain`, one of the Hessian to the lattice of ``exact/theory.md`` 1.5 (steps of Newton
    need no more); the value of a block to 2^-30. Confidential, as ``theta`` is.
    """
    p = len(theta)
    value, high, low = (np.zeros(k, dtype=np.int64) for k in (2, p, p))
    curvature = Words(p)
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
    return value[:1], value[1:], high, low, *curvature.words()


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


def real_sums(words: tuple[npt.NDArray[np.int64], ...], rows: WorkingRows, loss: Loss) -> Sums:
    """Return value, gradient and Hessian of :func:`lattice_sums`. Confidential."""
    over, under, high, low, h_high, h_low = words
    value = float((int(over[0]) * 2**31 + int(under[0])) / 2**30)
    gradient = high.astype(object) * 2**_LOW + low.astype(object)
    bound = loss.curvature * rows.radius * rows.reach
    hessian = np.asarray(joined(h_high, h_low) / 2**40, dtype=float) * bound
    return value, np.asarray(gradient, dtype=float) * grain(rows, loss), hessian
