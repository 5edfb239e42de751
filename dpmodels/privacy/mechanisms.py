"""Mechanisms and their curves: Gaussian differential privacy, steps of a plan, groups of rows.

Source: Balle and Wang (2018), "Improving the Gaussian mechanism", Theorem 8; Dong, Roth and Su
(2022), "Gaussian differential privacy". Gaussian noise of sd ``Delta / mu`` on a query of L2
sensitivity ``Delta`` has exactly this curve.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array, brent
from dpmodels.errors import PrivacyBugError, RequestError

#: Terms of the continued fraction from 4 on, for an error of 1e-16.
_TERMS = 40
#: Cells of the cover of a curve.
_CELLS = 600
#: Below this difference of logarithms no difference of the two terms is formed.
CLOSE = 0.02
_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _log_ndtr(x: float) -> float:
    """Return log Phi(x), to the last two digits, with ``math`` alone.

    Below -20 by the asymptotic series ``phi(x)/(-x) (1 - 1/x^2 + 3/x^4 - ...)``, whose error is
    less than the first term left out (1e-18 from nine terms on); else by ``erfc``, of which no
    difference is formed.
    """
    if x > -1.0:
        return math.log1p(-0.5 * math.erfc(x * _ROOT_HALF))
    if x > -20.0:
        return math.log(0.5 * math.erfc(-x * _ROOT_HALF))
    if x == -math.inf:
        return -math.inf
    square = x * x
    term = total = 1.0
    for k in range(1, 10):
        term *= -(2 * k - 1) / square
        total += term
    return -0.5 * square - math.log(-x) - _HALF_LOG_2PI + math.log(total)


def upper_quantile(p: float) -> float:
    """Return z with P(N(0,1) > z) = p, without ever forming 1 - p.

    ``1 - p`` would be exactly 1 for p below 1e-16, and the quantile infinite.
    """
    from scipy.special import ndtri, ndtri_exp

    if p < 1e-300:
        return -float(ndtri_exp(math.log(p))) if p > 0 else math.inf
    return -float(ndtri(p))


def log_delta_gdp(eps: float, mu: float) -> float:
    """Return the logarithm of :func:`delta_gdp`, minus infinity if the curve underflows to 0."""
    if mu == 0:
        return math.log(-math.expm1(eps)) if eps < 0 else -math.inf
    if math.isinf(mu):
        return 0.0
    if eps < 0:  # the same pair in the other order; nothing is subtracted
        return math.log(-math.expm1(eps) + math.exp(eps + log_delta_gdp(-eps, mu)))
    a = _log_ndtr(-eps / mu + mu / 2)
    b = eps + _log_ndtr(-eps / mu - mu / 2)
    if not b - a < -CLOSE:  # also where both are minus infinity
        return float(log_mills(np.array([eps]), mu)[0])
    return a + math.log(-math.expm1(b - a))


def log_mills(eps: Array, mu: float) -> Array:
    """Return the logarithms of the curve where its two terms nearly agree: nothing is subtracted.

    It is ``phi(x) (R(x) - R(x + mu))``, ``x = eps/mu - mu/2`` and R the Mills ratio; ``R'(t) =
    t R(t) - 1``, so the difference is the integral of ``1 - t R(t)`` over (x, x + mu), analytic and
    hardly curved there: of terms that nearly agree x is large beside mu.
    """
    nodes, weights = _few_nodes()
    with np.errstate(all="ignore"):  # far out all is 0
        x = eps / mu - mu / 2.0
        inside = _mills_loss(x[:, None] + mu * nodes) @ weights
        out = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi) + math.log(mu) + np.log(inside)
        return np.where(0.5 * x * x < 1e6, out, -np.inf)


def _mills_loss(t: Array) -> Array:
    """Return ``1 - t R(t)``, t > -1, from erfcx up to 4, then from the continued fraction of R.

    ``R = 1/(t + s)``, ``s = 1/(t + 2/(t + 3/(t + ...)))``, so ``1 - t R = s/(t + s)``.
    """
    from scipy.special import erfcx

    out = np.empty_like(t)
    far = t > 4.0
    near, beyond = t[~far], t[far]
    out[~far] = 1.0 - near * math.sqrt(math.pi / 2.0) * erfcx(near * math.sqrt(0.5))
    s = np.zeros_like(beyond)
    for j in range(_TERMS, 0, -1):
        np.add(s, beyond, out=s)
        np.divide(float(j), s, out=s)
    out[far] = s / (beyond + s)
    return out


@lru_cache(maxsize=1)
def _few_nodes() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return Gauss-Legendre nodes and weights on (0, 1) for functions of small curvature."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def delta_gdp(eps: float, mu: float) -> float:
    """Return delta(eps; mu) of Gaussian DP: Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2).

    Valid for every real ``eps`` (negative ones are needed when curves are composed).
    """
    return math.exp(log_delta_gdp(eps, mu))


@lru_cache(maxsize=4096)
def mu_gdp(eps: float, delta: float) -> float:
    """Return the largest mu whose Gaussian-DP curve passes through (eps, delta)."""
    if not (eps >= 0 and math.isfinite(eps)):
        raise ValueError(f"eps must be finite and not negative, got {eps!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    target = math.log(delta)

    def gap(log_mu: float) -> float:
        value = log_delta_gdp(eps, math.exp(log_mu))
        return (value if value > -1e6 else -1e6) - target

    lo, hi = math.log(1e-6), 0.0
    while gap(lo) > 0:
        lo -= 5.0
    while gap(hi) < 0:
        hi += 1.0
    # Relative accuracy in mu is absolute accuracy in log mu.
    return math.exp(brent(gap, lo, hi, xtol=1e-15, rtol=1e-14, maxiter=300))


@lru_cache(maxsize=4096)
def eps_gdp(mu: float, delta: float) -> float:
    """Return the smallest eps >= 0 with delta(eps; mu) <= delta."""
    if mu < 0:
        raise ValueError(f"mu must not be negative, got {mu!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    if delta_gdp(0.0, mu) <= delta:
        return 0.0
    target = math.log(delta)
    hi = max(1.0, mu * mu)
    while log_delta_gdp(hi, mu) > target:
        hi *= 2

    def gap(eps: float) -> float:
        value = log_delta_gdp(eps, mu)
        return (value if value > -1e6 else -1e6) - target

    return brent(gap, 0.0, hi, xtol=1e-15, rtol=1e-14, maxiter=300)


def agm(eps: float, delta: float) -> float:
    """Return the noise sd per unit L2 sensitivity of the analytic Gaussian mechanism."""
    return 1.0 / mu_gdp(eps, delta)


def mu_of_pure(eps: float) -> float:
    """Return the mu with: every eps-DP mechanism is mu-GDP.

    mu = 2 Phi^{-1}(e^eps / (1 + e^eps)): the Gaussian trade-off curve through the corner of the
    pure one lies below its two chords (Dong, Roth and Su 2022, Section 2; theory.md 2.4).
    """
    if eps <= 0:
        return 0.0
    if eps < 1:
        # Phi(z) = e^eps/(1 + e^eps) is erf(z / sqrt 2) = tanh(eps / 2), with all its digits
        from scipy.special import erfinv

        return 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(eps / 2.0)))
    return 2.0 * upper_quantile(math.exp(-eps) / (1.0 + math.exp(-eps)))


def gaussian_cover(curve: Callable[[float], float], failure: float) -> float | None:
    """Return a mu with ``curve(eps) <= dG(eps; mu) + failure`` for every eps >= 0, or None.

    ``curve`` is a proved upper bound of a mechanism's delta(eps), eps >= 0. Certain, not
    approximate: the true delta(eps) falls in eps, so on a cell (e_k, e_{k+1}) it is at most
    curve(e_k), which is compared with dG at e_{k+1}; dG is rounded down.
    """
    from scipy.special import log_ndtr

    top = 1e-3
    while curve(top) > failure:
        top *= 2.0
        if top > 512.0:
            return None
    lo = 0.0
    for _ in range(30):
        mid = 0.5 * (lo + top)
        lo, top = (mid, top) if curve(mid) > failure else (lo, mid)
    grid = np.linspace(0.0, top, _CELLS + 1)
    need = np.array([curve(e) for e in grid[:-1].tolist()]) - failure
    end = grid[1:][need > 0]
    need = need[need > 0]
    if not need.size:
        return 0.0
    if not (need < 1.0).all():
        return None

    def fits(mu: float) -> bool:
        a = log_ndtr(-end / mu + mu / 2.0)
        b = end + log_ndtr(-end / mu - mu / 2.0)
        apart = b - a < -1e-5  # nearer terms have lost digits: read as 0
        with np.errstate(all="ignore"):
            got = np.where(apart, np.exp(a) * -np.expm1(b - a), 0.0)
        return bool((got * (1.0 - 1e-9) >= need).all())

    hi = 1e-3
    while not fits(hi):
        hi *= 2.0
        if hi > 64.0:
            return None
    lo = 0.5 * hi if hi > 1e-3 else 0.0
    for _ in range(40):
        mid = 0.5 * (lo + hi)
        lo, hi = (lo, mid) if fits(mid) else (mid, hi)
    return hi


# -- Kinds of mechanism, each answering for its own privacy curve.
#
# The unit of account is *a mechanism of the plan*: its kind and its parameters. An (eps, delta)
# pair alone is never stored when the mechanism knows more.


def _not_negative(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise RequestError(f"{name} must be finite and not negative, got {value!r}")


@dataclass(frozen=True)
class Gaussian:
    """A release with the curve of mu-Gaussian DP."""

    mu: float
    kind: str = field(default="gaussian", init=False)

    def __post_init__(self) -> None:
        _not_negative("mu", self.mu)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps)."""
        return delta_gdp(eps, self.mu)


@dataclass(frozen=True)
class Pure:
    """A pure eps-DP mechanism."""

    eps: float
    kind: str = field(default="pure", init=False)

    def __post_init__(self) -> None:
        _not_negative("eps", self.eps)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps) of the worst pure mechanism, randomised response."""
        if eps <= -self.eps:
            return -math.expm1(eps)
        return max(0.0, -math.expm1(eps - self.eps) / (1.0 + math.exp(-self.eps)))


@dataclass(frozen=True)
class Approximate:
    """A mechanism known only as a pair (eps, delta); (0, delta) is a failure probability."""

    eps: float
    delta: float
    kind: str = field(default="approximate", init=False)

    def __post_init__(self) -> None:
        _not_negative("eps", self.eps)
        _not_negative("delta", self.delta)
        if self.delta > 1:
            raise RequestError(f"delta must not exceed 1, got {self.delta!r}")

    def delta_at(self, eps: float) -> float:
        """Return delta(eps): the tightest that the pair implies."""
        return self.delta + (1 - self.delta) * Pure(self.eps).delta_at(eps)


_OWN = "dpmodels.own"
_TILT = _OWN + ".tilted"
#: Named curves: name -> function(eps_or_alpha, **parameters), or "module:function". Curves of the
#: package's own modules are listed here, so that a saved guarantee can be read before its module is
#: imported.
_CURVES: dict[str, Callable[..., float] | str] = {
    "best of geometric runs": _OWN + ".best:geometric_rdp",
    "best of poisson runs": _OWN + ".best:poisson_rdp",
    "hessian-shaped sample": _OWN + ".curvature:tested_rdp",
    "jl": _OWN + ".compared:jl_curve",
    "objective perturbation, add-remove": _TILT + ":add_remove_curve",
    "objective perturbation, replace": _TILT + ":replace_curve",
    "objective perturbation, two-sided, add-remove": _TILT + ":two_sided_add_remove",
    "objective perturbation, two-sided, replace": _TILT + ":two_sided_replace",
    "posterior sampling, add-remove": _OWN + ".profile:add_remove_curve",
    "posterior sampling, replace": _OWN + ".profile:replace_curve",
    "sl": _OWN + ".radial:sl_hull_curve",
}


#: Curves that are known for arrays too: name -> "module:function", the same numbers.
_ON_ARRAYS: dict[str, Any] = {
    "objective perturbation, add-remove": _TILT + ":add_remove_curves",
    "objective perturbation, replace": _TILT + ":replace_curves",
    "objective perturbation, two-sided, add-remove": _TILT + ":two_sided_add_removes",
    "objective perturbation, two-sided, replace": _TILT + ":two_sided_replaces",
}


def register_curve(name: str, curve: Callable[..., float] | str) -> None:
    """Give a curve the name by which mechanisms use it, are pickled and saved.

    ``curve(eps, **parameters) -> delta`` for a profile (valid for every neighbour in both orders,
    ``eps >= 0``), ``curve(alpha, **parameters) -> eps`` for an RDP curve; or ``"module:function"``,
    imported on first use.

    Privacy
    -------
    The curve must be proved: every guarantee made with it relies on it.
    """
    _CURVES[name] = curve
    _ON_ARRAYS.pop(name, None)  # another curve than ours


def _resolve(name: str, curves: dict[str, Any] = _CURVES) -> Callable[..., Any]:
    """Return the curve (profile or RDP) registered under a name, importing its module if needed."""
    curve = curves.get(name)
    if curve is None:
        raise PrivacyBugError(
            f"no curve is registered under {name!r}; import the module that defines it"
        )
    if isinstance(curve, str):
        module, _, attribute = curve.partition(":")
        curve = getattr(importlib.import_module(module), attribute)
        curves[name] = curve
    return curve


@dataclass(frozen=True)
class Profile:
    """A mechanism with a known exact (or proved) profile delta(eps): a registered curve's."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    kind: str = field(default="profile", init=False)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps), for every real ``eps``."""
        delta = max(0.0, float(_resolve(self.name)(abs(eps), **dict(self.parameters))))
        if eps >= 0:
            return min(1.0, delta)
        # the same pair in the other order: H(c) = 1 - c + c H(1/c)
        return min(1.0, -math.expm1(eps) + math.exp(eps) * delta)

    def deltas_at(self, eps: Array) -> Array:
        """Return :meth:`delta_at` of each eps: at once, where the curve is known for arrays."""
        if self.name not in _ON_ARRAYS:
            return np.array([self.delta_at(x) for x in eps.tolist()])
        sizes, place = np.unique(np.abs(eps), return_inverse=True)
        deltas = _resolve(self.name, _ON_ARRAYS)(sizes, **dict(self.parameters))
        negative = np.minimum(eps, 0.0)  # the same pair in the other order, as above
        at_negative = np.exp(negative) * np.maximum(0.0, deltas)[place] - np.expm1(negative)
        return np.asarray(np.minimum(1.0, at_negative), dtype=np.float64)


@dataclass(frozen=True)
class RDP:
    """A mechanism known by its Renyi curve alpha -> eps(alpha), alpha > 1: a registered one's."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    kind: str = field(default="rdp", init=False)

    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence bound of order ``alpha``."""
        return float(_resolve(self.name)(alpha, **dict(self.parameters)))

    def delta_at(self, eps: float) -> float:
        """Return the delta that the curve converts to at ``eps``."""
        return rdp_delta(self.rdp, eps)


def rdp_delta(curve: Callable[[float], float], eps: float) -> float:
    """Convert an RDP curve: the least over a > 1 of exp((a-1)(r(a) - eps)) (1 - 1/a)^a / (a-1).

    Canonne, Kamath and Steinke (2020), Proposition 12. Every order gives a valid bound, so the
    search need not be exact.
    """
    from scipy.optimize import minimize_scalar

    def log_delta(t: float) -> float:
        a = 1.0 + math.exp(t)
        r = curve(a)
        if not math.isfinite(r):
            return math.inf
        return (a - 1) * (r - eps) + a * math.log1p(-1 / a) - math.log(a - 1)

    grid = [-7.0 + 0.25 * k for k in range(65)]
    values = [log_delta(t) for t in grid]
    k = min(range(len(grid)), key=values.__getitem__)
    best = values[k]
    if 0 < k < len(grid) - 1 and math.isfinite(values[k + 1]):
        minimum = minimize_scalar(log_delta, bounds=(grid[k - 1], grid[k + 1]), method="bounded")
        best = min(best, float(minimum.fun))
    return math.exp(min(0.0, best))


Mechanism = Any  # Gaussian | Pure | Approximate | Profile | RDP


def mechanism_to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """Return the kind and the parameters of a mechanism, ready for JSON."""
    m = mechanism
    if isinstance(m, Gaussian):
        return {"kind": "gaussian", "mu": m.mu}
    if isinstance(m, Pure):
        return {"kind": "pure", "eps": m.eps}
    if isinstance(m, Approximate):
        return {"kind": "approximate", "eps": m.eps, "delta": m.delta}
    return {"kind": m.kind, "name": m.name, "parameters": [list(p) for p in m.parameters]}


def mechanism_from_dict(saved: dict[str, Any]) -> Mechanism:
    """Rebuild a mechanism; profiles and RDP curves by their registered names."""
    kind = saved["kind"]
    if kind == "gaussian":
        return Gaussian(saved["mu"])
    if kind == "pure":
        return Pure(saved["eps"])
    if kind == "approximate":
        return Approximate(saved["eps"], saved["delta"])
    parameters = tuple((str(k), v) for k, v in saved["parameters"])
    return {"profile": Profile, "rdp": RDP}[kind](saved["name"], parameters)


# -- A step: one declared mechanism of a plan, under the name the ledger prints


#: Kind of the steps that estimate ranges, as the ledger prints it.
BOUGHT = "stability histogram"


@dataclass(frozen=True)
class Step:
    """One line of the ledger."""

    name: str  # Name of the release ("scale matrix", "coefficients", ...); unique within a plan
    mechanism: Mechanism  # The curve that this step is charged with
    # Share of the method's currency (mu^2 for Gaussian plans), for printing.
    share: float | None = None
    # Probability that the step adds outright (a (0, delta) part), in addition to the curve.
    failure: float = 0.0
    reply_test: bool = False  # True if the step can end in "no reply"
    label: str = ""  # Kind as printed in the ledger; empty: derived from the mechanism
    # True if an answer before it may make it needless (it is charged all the same).
    conditional: bool = False
    # For a coin: the eps of "no reply" alone, for any rows, or 0 if it is not known.
    no_reply_eps: float = 0.0

    def within(self, share: float) -> Step:
        """Return the step as one of a larger whole, of which its own whole has this share."""
        return replace(self, share=(self.share or 0.0) * share)


# -- Group privacy: what a proof for one row comes to for a person of at most m rows.
#
# Rules and proofs: ``units.md``, 7. A call keeps m rows a person (fewer are filled up), and
# its row-level steps are charged as the group of m rows that one person is.


#: Relative error of root finders.
_SHORT = 1.0 - 1e-10


def _ratio(low: float, high: float) -> float:
    """Return ``(e^low - 1)/(e^high - 1)``, low <= high, also if the powers overflow."""
    if high < 700.0:
        return math.expm1(low) / math.expm1(high)
    return max(math.exp(low - high) * -math.expm1(-low), 1e-300)


def pair_of_people(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of m rows, of one row's: ``(m eps, delta (e^{m eps} - 1)/(e^eps - 1))``."""
    if delta == 0.0:
        return m * eps, 0.0
    return m * eps, min(1.0, delta / _ratio(eps, m * eps))


def pair_of_rows(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the (eps, delta) per row at which a person with m rows has the given (eps, delta)."""
    if delta == 0.0:
        return eps / m, 0.0
    return eps / m, delta * _ratio(eps / m, eps)


def gaussian_rows(eps: float, delta: float, m: int) -> tuple[float, float]:
    """Return the pair of one row whose mu, m times, is that of (eps, delta): (0, ...) if none."""
    if delta == 0.0:
        return 0.0, 0.0
    return eps_gdp(mu_gdp(eps, delta) / m, delta) * _SHORT, delta


def is_gaussian(steps: Sequence[Step]) -> bool:
    """Return whether all steps are Gaussian, so that mu is m times that of a row."""
    return all(isinstance(s.mechanism, Gaussian) and s.failure == 0.0 for s in steps)


def charged(
    steps: Sequence[Step], m: int, row: tuple[float, float], *, by_pair: bool = False
) -> tuple[Step, ...]:
    """Return the steps that are charged for a person of whom m rows are used, at most.

    ``steps`` are those of the call, for one row replaced, and ``row`` is the (eps, delta) of all of
    them together. ``by_pair``: it is converted also if all are Gaussian, for steps that were proved
    for another neighbour relation and cannot be scaled one by one.
    """
    if is_gaussian(steps) and not by_pair:
        return tuple(
            Step(s.name, Gaussian(m * s.mechanism.mu), s.share, 0.0, s.reply_test, s.label)
            for s in steps
        )
    return (
        Step(
            f"{m} rows a person",
            Approximate(*pair_of_people(*row, m)),
            share=1.0,
            reply_test=any(s.reply_test for s in steps),
        ),
    )


# -- Conversions between neighbouring relations, each with its proof in theory.md, section 5


def pair_replace(eps: float, delta: float) -> tuple[float, float]:
    """Return the replace-one pair (2 eps, (1 + e^eps) delta) of an add/remove (eps, delta)."""
    return 2.0 * eps, min(1.0, (1.0 + math.exp(eps)) * delta)


def add_remove_request(eps: float, delta: float) -> tuple[float, float]:
    """Return the add/remove pair to ask for so that replace-one (eps, delta) follows."""
    return eps / 2.0, delta / (1.0 + math.exp(eps / 2.0))


def gaussian_replace(mu: float, failure: float) -> tuple[float, float]:
    """Return (2 mu, failure') of an add/remove curve dG(eps; mu) + failure, all real eps.

    failure' = failure + Phi(Phi^{-1}(failure) + mu).
    """
    from scipy.special import ndtr

    if failure <= 0:
        return 2.0 * mu, 0.0
    if failure >= 1:
        return 2.0 * mu, 1.0
    return 2.0 * mu, min(1.0, failure + float(ndtr(mu - upper_quantile(failure))))


def failure_part(mu: float, total: float, relation: str, parts: int = 1) -> float:
    """Return x such that ``parts`` failures of x cost ``total`` under the relation.

    Under replace-one, of k failures: kx + Phi(Phi^{-1}(kx) + mu) = total (``theory.md``, 5). The
    lower end of the search fits: it costs less than half of ``total``.

    Raises
    ------
    RequestError
        If x is below the smallest float: from mu of about 30 on.
    """
    from scipy.special import ndtr

    hi = total / parts
    if relation != "replace":
        return hi

    def fits(x: float) -> bool:
        return gaussian_replace(mu, parts * x)[1] <= total

    lo = 1e-12 * total
    if not fits(lo):
        lo = float(ndtr(-upper_quantile(0.5 * total) - mu)) / (2 * parts)
    if not lo > 0.0:
        room = 37.0 - upper_quantile(0.5 * total)
        most = f"at most eps={2.0 * room * room:.3g} at this delta"
        remedy = most if room > 1.0 else "delta=1e-9"
        raise RequestError(
            "eps= and delta= are too extreme for this method under replace-one: its tests would "
            f"have to fail with a probability below 1e-308. Type {remedy}, or "
            "relation='add-remove' if the method has it. Nothing was read or charged"
        )
    while hi / lo >= 1 + 1e-14:
        middle = math.sqrt(lo * hi)
        if not lo < middle < hi:
            break
        lo, hi = (middle, hi) if fits(middle) else (lo, middle)
    return lo


def check_failure(mu: float, failure: float, charged: float, *, replaced: bool) -> None:
    """Raise ``PrivacyBugError`` if a release fails with more probability than was charged for it.

    Of an add/remove run at strength mu, whose failure costs more where it is stated under
    replace-one (:func:`gaussian_replace`). Shares that add up to a last digit are allowed for.
    """
    cost = gaussian_replace(mu, failure)[1] if replaced else failure
    if not cost <= charged * (1.0 + 1e-9):
        raise PrivacyBugError(f"a failure of {cost!r} was charged as one of {charged!r}")


def gaussian_form(steps: tuple[Step, ...]) -> tuple[float, float] | None:
    """Return (mu, failure) with curve <= dG(eps; mu) + failure, or None."""
    mu2 = failure = 0.0
    for step in steps:
        m = step.mechanism
        failure += step.failure
        if isinstance(m, Gaussian):
            mu2 += m.mu**2
        elif isinstance(m, (Pure, Approximate)):
            mu2 += mu_of_pure(m.eps) ** 2
            failure += m.delta if isinstance(m, Approximate) else 0.0
        else:
            return None
    return math.sqrt(mu2), failure


def replace_delta(
    steps: tuple[Step, ...], eps: float, add_remove: Callable[[float], float]
) -> float:
    """Return a replace-one delta(eps) of steps proved under add/remove: the smaller bound."""
    bound = (1.0 + math.exp(min(700.0, eps / 2.0))) * add_remove(eps / 2.0)
    form = gaussian_form(steps)
    if form is not None:
        mu, failure = gaussian_replace(*form)
        bound = min(bound, delta_gdp(eps, mu) + failure)
    return min(1.0, bound)
