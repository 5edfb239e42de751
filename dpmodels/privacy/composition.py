"""The guarantee of a call: composed from the mechanisms of its plan, never typed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array, brent
from dpmodels.errors import PrivacyBugError, choice
from dpmodels.notes import Note, Severity, note_of
from dpmodels.privacy.mechanisms import (
    CLOSE,
    RDP,
    Approximate,
    Gaussian,
    Profile,
    Pure,
    Step,
    charged,
    delta_gdp,
    eps_gdp,
    gaussian_cover,
    log_mills,
    mechanism_from_dict,
    mechanism_to_dict,
    rdp_delta,
    replace_delta,
)
from dpmodels.privacy.statements import RELATIONS, StatedGuarantee

# -- Tightest proved composition of the steps of one plan (parameters fixed in advance).
#
# Every mechanism is dominated by a pair of distributions; an adaptive composition is dominated by
# the product of the pairs (Zhu, Dong and Wang 2022, Theorem 10). The product here is
#
# * one Gaussian pair with mu = sqrt(sum mu_i^2), exact;
# * a discrete part: randomised response for each eps of a pure or (eps, delta) part, and for a
#   profile the pair that joins its points (:func:`_of_profile`); losses ``l_k``, masses ``p_k``;
# * mass at infinity: the delta_i of (eps_i, delta_i) parts. Failures of steps are events of the
#   outputs themselves, not mechanisms beside them, so they are added: the steps that stay are not
#   what is left of them.
#
#     delta(eps) = sum f_i + inf + sum_k p_k dG(eps - l_k; mu),   inf = 1 - prod(1 - delta_i).
#
# It never exceeds ``sum delta_i + dG(eps - sum eps_i; mu)``. Steps known by an RDP curve: the
# Renyi curves of all parts add, and one conversion is made. Proofs: theory.md, section 3.


# -- Gaussian curves on arrays: the same functions as ``privacy.gdp``, for grids of eps


def gdp_curve(eps: npt.ArrayLike, mu: float) -> Array:
    """Return dG(eps; mu) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) for every real eps."""
    from scipy.special import log_ndtr

    e = np.asarray(eps, dtype=float)
    if mu <= 0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0)))
    a = log_ndtr(mu / 2 - e / mu)
    b = e + log_ndtr(-mu / 2 - e / mu)
    gap = np.minimum(b - a, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(a + np.log(-np.expm1(gap))))


def interval_mass(lo: Array, hi: Array) -> Array:
    """Return Phi(hi) - Phi(lo) without cancellation in the upper tail."""
    from scipy.special import ndtr

    upper = lo > 0
    a = np.where(upper, -hi, lo)
    b = np.where(upper, -lo, hi)
    return np.asarray(np.maximum(0.0, ndtr(b) - ndtr(a)))


def deltas_gdp(eps: npt.ArrayLike, mu: float) -> Array:
    """Return ``delta_gdp`` at each eps: the same sums, many at a time."""
    e = np.asarray(eps, dtype=float)
    if mu == 0.0 or math.isinf(mu):
        return np.array([delta_gdp(x, mu) for x in e.ravel().tolist()]).reshape(e.shape)
    logs = _log_deltas(np.abs(e).ravel(), mu).reshape(e.shape)
    with np.errstate(over="ignore"):
        # the same pair in the other order; nothing is subtracted
        below = -np.expm1(np.minimum(e, 0.0)) + np.exp(np.minimum(e, 0.0) + logs)
    return np.where(e < 0.0, below, np.exp(logs))


def gdp_bounds(eps: npt.ArrayLike, mu: float) -> Array:
    """Return an upper bound of the curve at each eps, for a look at which of them matter.

    With ``x = eps/mu - mu/2 > 0`` the curve is ``phi(x) (R(x) - R(x + mu))``, R the Mills ratio,
    which is convex: at most ``-mu R'(x) phi(x)``, and ``-R'(x) = 1 - x R(x) <= 1/(1 + x^2)``
    (Gordon 1941). Elsewhere 1. A part in 1e9 is added for the rounding.
    """
    if not 0.0 < mu < math.inf:
        return np.ones(np.shape(eps))
    x = np.maximum(np.asarray(eps, dtype=float) / mu - mu / 2.0, 0.0)
    with np.errstate(under="ignore", over="ignore"):
        tail = np.exp(-0.5 * x * x) * (mu * (1.0 + 1e-9) / math.sqrt(2.0 * math.pi)) / (1.0 + x * x)
    return np.where(x > 0.0, np.minimum(tail, 1.0), 1.0)


def _log_deltas(eps: Array, mu: float) -> Array:
    """Return the logarithms of the curve at eps >= 0, (m,)."""
    from scipy.special import log_ndtr

    a = log_ndtr(-eps / mu + mu / 2)
    b = eps + log_ndtr(-eps / mu - mu / 2)
    with np.errstate(all="ignore"):
        gap = b - a
        out = np.asarray(a + np.log(-np.expm1(gap)), dtype=np.float64)
    close = ~(gap < -CLOSE)
    out[close] = log_mills(eps[close], mu)
    return out


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
        """Return the sum over the losses, with upper bounds for terms that add nothing."""
        away = eps - self.losses
        most = gdp_bounds(away, self.mu) * self.masses
        counts = most > NEGLIGIBLE * most.max()
        terms = self.masses[counts] * deltas_gdp(away[counts], self.mu)
        return math.fsum([*terms.tolist(), float(most[~counts].sum())])

    def _renyi(self, alpha: float) -> float:
        """Return the Renyi curve of everything except the mass at infinity."""
        total = 0.5 * alpha * self.mu**2 + math.fsum(m.rdp(alpha) for m in self.rdp)
        with np.errstate(divide="ignore"):
            terms = np.log(self.masses) + (alpha - 1.0) * self.losses
        top = float(terms.max())
        return total + (top + math.log(float(np.exp(terms - top).sum()))) / (alpha - 1.0)


#: Largest eps up to which points of a profile are even, and how far they bend beyond it.
_EVEN_UP_TO, _BEND = 16.0, 6.0


def _of_profile(m: Profile) -> tuple[Array, Array, float]:
    """Return the pair whose hockey stick is the convex hull of points of the profile.

    In c = e^eps the true curve H(c) is convex, so chords between points on or above it, and the
    lower convex hull of them, lie on or above it (Doroshenko et al. 2022, "connect the dots").
    A kink at c with slope change q' is an atom of Q of mass q' at loss log c, of P of mass c q'.
    """
    top = 1.0
    while m.delta_at(top) > 1e-18 and top < 300.0:
        top *= 2.0
    grid = np.linspace(-top, top, 2 * _POINTS + 1)
    if top > _EVEN_UP_TO:  # a long tail: points lie close where eps are asked about
        grid = top * np.sinh(_BEND * grid / top) / math.sinh(_BEND)
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
    """Return the losses and masses of two independent discrete parts together."""
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
                # randomised response: loss +eps with probability e^eps / (1 + e^eps), else -eps
                p = 1.0 / (1.0 + math.exp(-m.eps))
                pair = np.array([-m.eps, m.eps]), np.array([math.exp(-m.eps) * p, p])
                atoms = _product(atoms, pair)
            deltas.append(m.delta if isinstance(m, Approximate) else 0.0)
        elif isinstance(m, Profile):
            losses, masses, infinite = _of_profile(m)
            deltas.append(infinite)
            if len(losses):  # otherwise every loss is beyond the grid: delta is 1
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


def smallest_eps(curve: Callable[[float], float], delta: float) -> float:
    """Return the smallest eps >= 0 with ``curve(eps) <= delta``, by bisection: the upper end."""
    lo, hi = 0.0, 1.0
    if curve(0.0) <= delta:
        return 0.0
    while curve(hi) > delta:
        hi *= 2.0
        if hi > 1e6:
            return math.inf
    while hi - lo > 1e-12 * hi:
        mid = 0.5 * (lo + hi)
        lo, hi = (mid, hi) if curve(mid) > delta else (lo, mid)
    return hi


def eps_of_curve(parts: Parts, delta: float) -> float:
    """Return the smallest eps >= 0 with ``parts.delta(eps) <= delta``."""
    if delta < parts.infinite or delta < 0:
        return math.inf
    if parts.alone is not None:
        return smallest_eps(parts.alone.delta_at, delta)
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


# -- The guarantee of a call: computed from the mechanisms of its plan, never typed in.


#: Relative error of sums of shares of eps.
_EPS_DIGITS = 1e-12
@dataclass(frozen=True, repr=False)
class Guarantee(StatedGuarantee):
    """Privacy guarantee of a release: parameters, unit, neighbours and mechanisms."""

    steps: tuple[Step, ...]  # The mechanisms, those that a no-reply skipped included
    # eps, delta: the requested pair. Construction fails if the steps do not compose to it.
    eps: float
    delta: float
    relation: str = "replace"  # {"replace", "add-remove"}: neighbours the promise is about
    unit: str = "record"  # "record", "attribute", or "one person (column person_id)"
    # True if the noise came from a seed: then nothing is promised. The curve is that of the same
    # call without a seed.
    seeded: bool = False
    # Qualifications that belong to the statement (float noise, ...). A string is made a note.
    notes: tuple[Note, ...] = field(default=())
    # (eps, delta): for the unit "attribute": what a whole row gets.
    record_pair: tuple[float, float] | None = None
    # {"replace", "add-remove"} or None: relation the mechanisms are stated for, if not
    # ``relation``: the curve is then converted.
    proved: str | None = None
    # Group privacy: the steps of one row, which are run; ``steps`` then holds their cost for
    # ``most`` rows. Empty: ``steps`` are run.
    inner: tuple[Step, ...] = field(default=(), compare=False)
    most: int = 0
    row_pair: tuple[float, float] | None = None  # (eps, delta) of the composition of ``inner``

    def __post_init__(self) -> None:
        notes = tuple(note_of(note, Severity.GUARANTEE) for note in self.notes)
        object.__setattr__(self, "notes", notes)
        if self.inner:
            assert self.row_pair is not None
            rules = (
                charged(self.inner, self.most, self.row_pair, by_pair=b) for b in (False, True)
            )
            if self.steps not in rules:
                raise PrivacyBugError("a person is not charged with the sum over its rows")
        choice("relation", self.relation, RELATIONS)
        choice("proved", self.proved, (None, *RELATIONS))
        if self.proved == "replace" and self.relation == "add-remove":
            raise PrivacyBugError("a replace-one proof implies nothing under add/remove")
        # Root finders and shares that add up to eps and a last digit: the noise, which is rounded
        # up by one part in 1e9, pays (theory.md, 6.2).
        allowed = self.delta * (1 + 1e-9) + 1e-300
        above = self.delta_at(self.eps) > allowed
        if above and not self.delta_at(self.eps * (1 + _EPS_DIGITS)) <= allowed:
            raise PrivacyBugError(
                f"the steps of this plan compose to delta = {self.delta_at(self.eps)!r} at "
                f"eps = {self.eps!r}, above the requested {self.delta!r}"
            )

    @cached_property
    def _parts(self) -> Parts:
        return parts_of(self.steps)

    @property
    def _converted(self) -> bool:
        return self.proved == "add-remove" and self.relation == "replace"

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the composed steps."""
        if self._converted:
            return replace_delta(self.steps, eps, self._parts.delta)
        return self._parts.delta(eps)

    def eps_at(self, delta: float) -> float:
        """Return the smallest eps with delta(eps) <= delta."""
        if not self._converted:
            return eps_of_curve(self._parts, delta)
        return smallest_eps(self.delta_at, delta)

    @cached_property
    def gaussian_cover(self) -> tuple[float, float] | None:
        """(mu, failure) with delta(eps) <= dG(eps; mu) + failure for every real eps, or None.

        A tenth of delta, beside what the steps give away outright, is taken as the failure: more
        would spare little mu. Without it no Gaussian curve lies above that of most mechanisms.
        """
        infinite = 0.0 if self._parts.alone is not None else self._parts.infinite
        if self._converted:
            infinite = 0.0
        failure = infinite + 0.1 * max(0.0, self.delta - infinite)
        if not 0.0 < failure < 1.0:
            return None
        mu = gaussian_cover(self.delta_at, failure)
        return None if mu is None else (mu, failure)

    def not_private(self) -> Guarantee:
        """Return the same plan, marked as run with seeded noise."""
        return replace(self, seeded=True)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; mechanisms by kind, name and parameters."""
        steps = [
            {
                "name": s.name, "mechanism": mechanism_to_dict(s.mechanism), "share": s.share,
                "failure": s.failure, "reply_test": s.reply_test, "label": s.label,
                **({"no_reply_eps": s.no_reply_eps} if s.no_reply_eps else {}),
            }
            for s in self.steps
        ]  # fmt: skip
        return {
            "steps": steps, "eps": self.eps, "delta": self.delta, "relation": self.relation,
            "unit": self.unit, "seeded": self.seeded,
            "notes": [note.to_dict() for note in self.notes],
            "record_pair": None if self.record_pair is None else list(self.record_pair),
            "proved": self.proved,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Guarantee:
        """Rebuild a guarantee from :meth:`to_dict`; unknown keys are ignored."""
        steps = tuple(
            Step(**{**s, "mechanism": mechanism_from_dict(s["mechanism"])}) for s in saved["steps"]
        )
        pair = saved.get("record_pair")
        plain = {name: saved[name] for name in ("eps", "delta", "relation", "unit", "seeded")}
        pair = None if pair is None else (pair[0], pair[1])
        notes, proved = tuple(saved["notes"]), saved.get("proved")
        return cls(steps, **plain, notes=notes, record_pair=pair, proved=proved)

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_parts", "_curve", "gaussian_cover")
        return {k: v for k, v in self.__dict__.items() if k not in hidden}
