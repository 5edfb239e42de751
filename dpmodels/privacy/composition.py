"""Tightest proved composition of the steps of one plan (parameters fixed in advance).

Every mechanism is dominated by a pair of distributions; an adaptive composition is dominated by
the product of the pairs (Zhu, Dong and Wang 2022, Theorem 10). The product here is

* one Gaussian pair with mu = sqrt(sum mu_i^2), exact;
* a discrete part: randomised response for each eps of a pure or (eps, delta) part, and for a
  profile the pair that joins its points (:func:`_of_profile`); losses ``l_k``, masses ``p_k``;
* mass at infinity: the delta_i of (eps_i, delta_i) parts. Failures of steps are events of the
  outputs themselves, not mechanisms beside them, so they are added: the steps that stay are not
  what is left of them.

    delta(eps) = sum f_i + inf + sum_k p_k dG(eps - l_k; mu),   inf = 1 - prod(1 - delta_i).

It never exceeds ``sum delta_i + dG(eps - sum eps_i; mu)``. Steps known by an RDP curve: the
Renyi curves of all parts add, and one conversion is made. Proofs: theory.md, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.privacy.curves import deltas_gdp, gdp_bounds
from dpmodels.privacy.gdp import delta_gdp
from dpmodels.privacy.mechanisms import RDP, Approximate, Gaussian, Profile, Pure, rdp_delta
from dpmodels.privacy.steps import Step
from dpmodels.roots import brent

__all__ = ["Parts", "delta_of_parts", "eps_of_parts", "parts_of"]

#: Above this many atoms losses are rounded up onto a common grid (which can only add delta).
_ATOMS = 4096
_POINTS = 1024
#: Fewer atoms than this are worked out one by one.
_FEW = 16
#: Terms whose bound is below this part of the largest bound are replaced by their bound.
NEGLIGIBLE = 1e-26


@dataclass(frozen=True)
class Parts:
    """The dominating product of a list of steps."""

    mu: float
    losses: Array
    masses: Array
    infinite: float
    rdp: tuple[RDP, ...]
    #: A plan that is one profile and nothing else: its own curve, no dominating pair needed.
    alone: Profile | None = None

    def delta(self, eps: float) -> float:
        """Return delta(eps)."""
        if self.alone is not None:
            return self.alone.delta_at(eps)
        if self.rdp:
            return min(1.0, self.infinite + rdp_delta(self._renyi, eps))
        if len(self.losses) < _FEW:
            pairs = zip(self.masses.tolist(), self.losses.tolist(), strict=True)
            tail = math.fsum(p * delta_gdp(eps - x, self.mu) for p, x in pairs)
        else:
            tail = self._tail(eps)
        return min(1.0, self.infinite + tail)

    def _tail(self, eps: float) -> float:
        """Return the sum over the losses; of terms that add nothing their upper bounds."""
        away = eps - self.losses
        most = gdp_bounds(away, self.mu) * self.masses
        counts = most > NEGLIGIBLE * most.max()
        terms = self.masses[counts] * deltas_gdp(away[counts], self.mu)
        return math.fsum([*terms.tolist(), float(most[~counts].sum())])

    def _renyi(self, alpha: float) -> float:
        """Renyi curve of everything but the mass at infinity."""
        total = 0.5 * alpha * self.mu**2 + math.fsum(m.rdp(alpha) for m in self.rdp)
        with np.errstate(divide="ignore"):
            terms = np.log(self.masses) + (alpha - 1.0) * self.losses
        top = float(terms.max())
        return total + (top + math.log(float(np.exp(terms - top).sum()))) / (alpha - 1.0)


def _of_pure(eps: float) -> tuple[Array, Array]:
    """Randomised response: loss +eps with probability e^eps/(1+e^eps), else -eps."""
    p = 1.0 / (1.0 + math.exp(-eps))
    return np.array([-eps, eps]), np.array([math.exp(-eps) * p, p])


def _of_profile(m: Profile) -> tuple[Array, Array, float]:
    """Pair whose hockey stick is the convex hull of points of the profile, joined by chords.

    In c = e^eps the true curve H(c) is convex, so chords between points on or above it, and the
    lower convex hull of them, lie on or above it (Doroshenko et al. 2022, "connect the dots").
    A kink at c with slope change q' is an atom of Q of mass q' at loss log c, of P of mass c q'.
    """
    top = 1.0
    while m.delta_at(top) > 1e-18 and top < 300.0:
        top *= 2.0
    grid = np.linspace(-top, top, 2 * _POINTS + 1)
    c = np.concatenate([[0.0], np.exp(grid)])
    h = np.concatenate([[1.0], m.deltas_at(grid)])
    hull = [0]
    x, y = c.tolist(), h.tolist()
    for k in range(1, len(x)):
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            if (y[j] - y[i]) * (x[k] - x[j]) >= (y[k] - y[j]) * (x[j] - x[i]):
                hull.pop()
            else:
                break
        hull.append(k)
    c, h = c[hull], h[hull]
    slopes = np.append(np.diff(h) / np.diff(c), 0.0)
    masses = c[1:] * np.diff(slopes)
    infinite = float(h[-1])
    keep = masses > 0
    # float rounding: put back whatever the masses are short of 1
    short = max(0.0, 1.0 - infinite - float(masses[keep].sum()))
    return np.log(c[1:][keep]), masses[keep], infinite + short


def _product(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    losses: Array
    masses: Array
    losses = np.add.outer(a[0], b[0]).ravel()
    masses = np.multiply.outer(a[1], b[1]).ravel()
    order = np.argsort(losses, kind="stable")
    losses, masses = losses[order], masses[order]
    # equal sums differ in the last bits: join them, at the larger loss
    start = np.concatenate([[True], np.diff(losses) > 1e-13 * (1.0 + np.abs(losses[1:]))])
    group = np.cumsum(start) - 1
    ends = np.append(np.flatnonzero(start)[1:] - 1, len(losses) - 1)
    losses, masses = losses[ends], np.asarray(np.bincount(group, masses), dtype=np.float64)
    if len(losses) > _ATOMS:
        step = (losses[-1] - losses[0]) / _ATOMS
        cell = np.ceil((losses - losses[0]) / step).astype(int)
        masses = np.asarray(np.bincount(cell, masses), dtype=np.float64)
        losses = losses[0] + step * np.arange(len(masses), dtype=np.float64)
        keep = masses > 0
        losses, masses = losses[keep], masses[keep]
    return losses, masses


def parts_of(steps: Iterable[Step]) -> Parts:
    """Return the dominating product of ``steps``."""
    steps = tuple(steps)
    if len(steps) == 1 and isinstance(steps[0].mechanism, Profile) and steps[0].failure == 0.0:
        return Parts(0.0, np.zeros(1), np.ones(1), 0.0, (), steps[0].mechanism)
    mu2 = log_ok = 0.0
    atoms = (np.zeros(1), np.ones(1))
    rdp: list[RDP] = []
    deltas: list[float] = []
    for step in steps:
        m = step.mechanism
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, (Pure, Approximate)):
            if m.eps > 0:
                atoms = _product(atoms, _of_pure(m.eps))
            deltas.append(m.delta if isinstance(m, Approximate) else 0.0)
        elif isinstance(m, Profile):
            losses, masses, infinite = _of_profile(m)
            deltas.append(infinite)
            atoms = _product(atoms, (losses, masses / max(1e-300, 1.0 - infinite)))
        elif isinstance(m, RDP):
            rdp.append(m)
        else:
            raise TypeError(f"cannot compose a {type(m).__name__}")
    if any(d >= 1.0 for d in deltas):
        log_ok = -math.inf
    else:
        log_ok = math.fsum(math.log1p(-d) for d in deltas)
    alive = math.exp(log_ok)
    infinite = min(1.0, -math.expm1(log_ok) + math.fsum(step.failure for step in steps))
    return Parts(math.sqrt(mu2), atoms[0], atoms[1] * alive, infinite, tuple(rdp))


def delta_of_parts(steps: Iterable[Step], eps: float) -> float:
    """Return delta(eps) of the joint release of all steps."""
    return parts_of(steps).delta(eps)


def eps_of_parts(steps: Iterable[Step], delta: float) -> float:
    """Return the smallest eps >= 0 with delta(eps) <= delta (infinity if there is none)."""
    return eps_of_curve(parts_of(steps), delta)


def _eps_alone(m: Profile, delta: float) -> float:
    """Return the smallest eps >= 0 of one profile, by bisection; the upper end is returned."""
    lo, hi = 0.0, 1.0
    if m.delta_at(0.0) <= delta:
        return 0.0
    while m.delta_at(hi) > delta:
        hi *= 2.0
        if hi > 1e6:
            return math.inf
    while hi - lo > 1e-12 * hi:
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if m.delta_at(mid) > delta else (lo, mid)
    return hi


def eps_of_curve(parts: Parts, delta: float) -> float:
    """Return the smallest eps >= 0 with ``parts.delta(eps) <= delta``."""
    from dpmodels.privacy.gdp import eps_gdp

    if delta < parts.infinite or delta < 0:
        return math.inf
    if parts.alone is not None:
        return _eps_alone(parts.alone, delta)
    if parts.delta(0.0) <= delta:
        return 0.0
    if not parts.rdp and len(parts.losses) == 1 and parts.infinite == 0.0 and 0 < delta < 1:
        return eps_gdp(parts.mu, delta)
    top = float(parts.losses[-1])
    if not parts.rdp and parts.mu == 0 and parts.delta(top * (1 - 1e-12)) > delta:
        return top
    if delta == parts.infinite:
        return math.inf
    room = math.log(delta - parts.infinite)

    def gap(eps: float) -> float:
        value = parts.delta(eps) - parts.infinite
        return (math.log(value) if value > 0 else -1e6) - room

    hi = max(1.0, top)
    while gap(hi) > 0:
        hi *= 2.0
        if hi > 1e12:
            return math.inf
    eps = brent(gap, 0.0, hi, xtol=1e-14, rtol=1e-13, maxiter=300)
    # near a pure part the curve falls steeply: the root's last digits are not enough
    step = 1e-14 * max(1.0, eps)
    while parts.delta(eps) > delta and step < 1e-6:
        eps, step = eps + step, 2.0 * step
    return eps
