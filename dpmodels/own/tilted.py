"""Objective perturbation: its privacy curves, and the release of the minimum (``glm.md``, 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.design import Design
from dpmodels.own.minimum import (
    PRIVATE_ROWS,
    Loss,
    WorkingRows,
    minimise,
    passes_over,
    rounding_error,
)
from dpmodels.planning import Plan
from dpmodels.privacy.composition import deltas_gdp, gdp_bounds, interval_mass
from dpmodels.privacy.mechanisms import Profile, delta_gdp
from dpmodels.privacy.run import own_proof
from dpmodels.sums.ask import Ask

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
_TABLE_CELLS = 2400
_HALVINGS = 32
#: Halvings before Newton's steps, these steps, and how far below its maximum a loss may be left.
_FIRST_HALVINGS, _NEWTON_STEPS, _SHORT_OF = 7, 3, 1e-16


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
    for j in range(2, _FIRST_HALVINGS + 2):
        a += np.copysign(0.5**j, slope(a))
    near = 0.5 ** (_FIRST_HALVINGS + 1)
    low, high = a - near, a + near  # 0 and 1 are among these ends, exactly
    b = a
    for _ in range(_NEWTON_STEPS):
        inside = 1 + kappa * b * (1 - b)
        bend = rho * rho - kappa * (2 * inside + kappa * (1 - 2 * b) ** 2) / (inside * inside)
        with np.errstate(all="ignore"):
            b = np.clip(b - slope(b) / bend, low, high)
    left = slope(b)
    short = np.where(((b == 0) & (left < 0)) | ((b == 1) & (left > 0)), 0.0, np.abs(left))
    if (short * 2 * near <= _SHORT_OF).all():  # False where anything is not a number
        return b
    for j in range(_FIRST_HALVINGS + 2, _HALVINGS + 2):
        a += np.copysign(0.5**j, slope(a))
    return a


@lru_cache(maxsize=256)
def _removal_table(rho: float, kappa: float) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return (grid, L, alpha, beta, tail mass, tail Q-mass); tails run over cells k, k+1, ..."""
    z = np.linspace(-_EDGE, _EDGE, _TABLE_CELLS + 1)
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
    factor = 1.0 + np.exp(np.minimum(600.0, eps / 2))
    return np.minimum(1.0, factor * add_remove_curves(eps / 2, rho=rho, kappa=kappa))


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
    factor = 1.0 + np.exp(np.minimum(600.0, eps / 2))
    return np.minimum(1.0, factor * two_sided_add_removes(eps / 2, rho=rho, shift=shift))


# -- The release: the minimum of the losses and a random linear term.


COEF_STEP, INEXACT_STEP = "coefficients", "inexactness of the optimum"
#: Longest coefficients at which the minimum of a loss of counts is certain to be found, and normal
#: sds that the length of the tilt exceeds sqrt(p) by at most.
FARTHEST, TILTED = 2.0**20, 8.0


def tilt_profile(loss: Loss, rho: float, kappa: float, relation: str) -> Profile:
    """Return the mechanism of a minimum: ``rho = B score / sigma``, ``kappa = B R / lam``."""
    if loss.one_sided:
        return Profile(f"objective perturbation, {relation}", (("rho", rho), ("kappa", kappa)))
    shift = math.log1p(loss.curvature * kappa)
    name = f"objective perturbation, two-sided, {relation}"
    return Profile(name, (("rho", rho), ("shift", shift)))


@dataclass(frozen=True)
class Tilted:
    """Public numbers of an objective with a random linear term."""

    loss: Loss  # In working units: the score of a row is at most ``radius * loss.score``
    # radius, reach: B, the largest weighted norm of a working row; R, its largest norm (labels), or
    # B R the largest weighted square of it (counts).
    radius: float
    reach: float
    kappa: float  # B R over the ridge
    rho: float  # Strength: B score over the sd of the linear term
    n: int | None  # Number of rows, or None if it is private
    passes: int  # Passes of the minimisation

    @property
    def lam(self) -> float:
        """Ridge of every coordinate."""
        return self.radius * self.reach / self.kappa

    @property
    def sigma(self) -> float:
        """Standard deviation of the linear term."""
        return self.radius * self.loss.score / self.rho

    @property
    def tol(self) -> float:
        """Certified bound on the gradient norm."""
        return max(1e-8 * self.sigma, 2.0 * rounding_error(self.n, self.radius, self.loss))

    def least_ridge(self, p: int) -> float:
        """Return the ridge of counts below which the search for the minimum could end early.

        The largest gradient of a row is ``B score``. Coefficients are at most ``(n B score +
        |tilt|) / lam`` long at the minimum: beyond ``FARTHEST`` floats do not resolve the loss
        (``glm.md``, 4.4.5).
        """
        rows = PRIVATE_ROWS if self.n is None else self.n
        most = rows * (self.radius * self.loss.score) + self.sigma * (math.sqrt(p) + TILTED)
        return most / FARTHEST

    def working(self, scale: Array, shift: Array) -> WorkingRows:
        """Return the rows of the losses, from released scales."""
        counts = not self.loss.one_sided
        top = self.loss.score if counts else None
        return WorkingRows(scale, shift, self.radius, self.reach, y_max=top, thins=counts)


def tilted_minimum(
    plan: Plan[Any], design: Design, scale: Array, shift: Array, ask: Ask
) -> Array:
    """Release the coefficients.

    **Privacy.** Unit: one row. Charged: the minimum and its inexactness. The random linear term is
    drawn before the rows are read; the optimum is certified, never assumed (``glm.md``, 4.4).

    Where the mapped rows fit in memory (a function of n and p) they are read once by the caller,
    and kept until the minimum is found. Other passes are sums of integers, by tasks where there are
    any.
    """
    raw, detail = ask.raw(own_proof("objective perturbation")), plan.detail
    assert isinstance(detail, Tilted)
    relation = ask.charged(COEF_STEP)[2]
    if raw.mechanism(COEF_STEP) != tilt_profile(detail.loss, detail.rho, detail.kappa, relation):
        raise PrivacyBugError("an objective that costs more than was charged")
    if relation == "replace" and detail.n not in (None, ask.n):
        raise PrivacyBugError("a certificate for another number of rows")
    of_user = plan.request["lam"] is not None and not detail.loss.one_sided
    if of_user and detail.lam < detail.least_ridge(design.p):
        raise PrivacyBugError("a ridge at which the search for the minimum could end early")
    working = detail.working(scale, shift)
    tilt = detail.sigma * raw.inner_normals(COEF_STEP, design.p)
    solution = minimise(
        rows=working, loss=detail.loss, lam=detail.lam, tilt=tilt, tol=detail.tol, n=raw.rows.n,
        passes=detail.passes, **passes_over(raw.rows, design, working, detail.loss),
    )  # fmt: skip
    return raw.gaussian_real(INEXACT_STEP, solution.theta, 2.0 * detail.tol / detail.lam)
