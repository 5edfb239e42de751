"""Kinds of mechanism, each answering for its own privacy curve.

The unit of account is *a mechanism of the plan*: its kind and its parameters. An (eps, delta)
pair alone is never stored when the mechanism knows more.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.privacy.gdp import delta_gdp


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


_TILT = "dpmodels.models.glm.perturbation"
#: Named curves: name -> function(eps_or_alpha, **parameters), or "module:function".
#: Those of the package's own rooms are listed here, so that a saved guarantee can be read before
#: its room was imported.
_CURVES: dict[str, Callable[..., float] | str] = {
    "best of geometric runs": "dpmodels.models.custom.selection:geometric_rdp",
    "best of poisson runs": "dpmodels.models.custom.selection:poisson_rdp",
    "hessian-shaped sample": "dpmodels.models.glm.perturbation:tested_rdp",
    "jl": "dpmodels.models.linear.jl:jl_curve",
    "objective perturbation, add-remove": _TILT + ":add_remove_curve",
    "objective perturbation, replace": _TILT + ":replace_curve",
    "objective perturbation, two-sided, add-remove": _TILT + ":two_sided_add_remove",
    "objective perturbation, two-sided, replace": _TILT + ":two_sided_replace",
    "posterior sampling, add-remove": "dpmodels.models.linear.posterior:add_remove_curve",
    "posterior sampling, replace": "dpmodels.models.linear.posterior:replace_curve",
    "sl": "dpmodels.models.noised.exact:sl_hull_curve",
}


#: Curves that are known for arrays too: name -> "module:function", the same numbers.
_ON_ARRAYS: dict[str, Any] = {
    "objective perturbation, add-remove": _TILT + ":add_remove_curves",
    "objective perturbation, replace": _TILT + ":replace_curves",
    "objective perturbation, two-sided, add-remove": _TILT + ":two_sided_add_removes",
    "objective perturbation, two-sided, replace": _TILT + ":two_sided_replaces",
}


def register_curve(name: str, curve: Callable[..., float] | str) -> None:
    """Give a curve a name, so that mechanisms that use it can be pickled and saved.

    Parameters
    ----------
    name : str
    curve : callable or str
        ``curve(eps, **parameters) -> delta`` for a profile (valid for every neighbour in both
        orders, ``eps >= 0``), ``curve(alpha, **parameters) -> eps`` for an RDP curve; or
        ``"module:function"``, imported on first use.

    Privacy
    -------
    The curve must be proved: every guarantee made with it relies on it.
    """
    _CURVES[name] = curve
    _ON_ARRAYS.pop(name, None)  # another curve than ours


def _resolve(name: str, curves: dict[str, Any] = _CURVES) -> Callable[..., Any]:
    found = curves.get(name)
    if found is None:
        from dpmodels.errors import PrivacyBugError

        raise PrivacyBugError(
            f"no curve is registered under {name!r}; import the module that defines it"
        )
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        curves[name] = found
    return found


@dataclass(frozen=True)
class _Named:
    """A curve known by name and parameters, or by a function given in place."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    given: Callable[[float], float] | None = field(default=None, compare=False, repr=False)

    def at(self, x: float) -> float:
        """Evaluate the curve."""
        if self.given is not None:
            return self.given(x)
        return float(_resolve(self.name)(x, **dict(self.parameters)))


@dataclass(frozen=True)
class Profile:
    """A mechanism with a known exact (or proved) profile delta(eps).

    ``profile`` may be left out if a curve of that name is registered
    (:func:`register_curve`); only then can the mechanism be pickled or saved.
    """

    name: str
    parameters: tuple[tuple[str, float], ...]
    profile: Callable[[float], float] | None = field(default=None, compare=False, repr=False)
    kind: str = field(default="profile", init=False)

    def delta_at(self, eps: float) -> float:
        """Return delta(eps), for every real ``eps``."""
        at = _Named(self.name, self.parameters, self.profile).at
        if eps >= 0:
            return min(1.0, max(0.0, at(eps)))
        # the same pair in the other order: H(c) = 1 - c + c H(1/c)
        return min(1.0, -math.expm1(eps) + math.exp(eps) * max(0.0, at(-eps)))

    def deltas_at(self, eps: Array) -> Array:
        """Return :meth:`delta_at` of each eps: at once, where the curve is known for arrays."""
        import numpy as np

        if self.profile is not None or self.name not in _ON_ARRAYS:
            return np.array([self.delta_at(x) for x in eps.tolist()])
        sizes, place = np.unique(np.abs(eps), return_inverse=True)
        found = _resolve(self.name, _ON_ARRAYS)(sizes, **dict(self.parameters))
        negative = np.minimum(eps, 0.0)  # the same pair in the other order, as above
        whole = np.exp(negative) * np.maximum(0.0, found)[place] - np.expm1(negative)
        return np.asarray(np.minimum(1.0, whole), dtype=np.float64)

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            self.name,
            self.parameters,
            _portable(self.name, self.profile),
        )


@dataclass(frozen=True)
class RDP:
    """A mechanism known by its Renyi curve alpha -> eps(alpha), alpha > 1."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    curve: Callable[[float], float] | None = field(default=None, compare=False, repr=False)
    kind: str = field(default="rdp", init=False)

    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence bound of order ``alpha``."""
        return _Named(self.name, self.parameters, self.curve).at(alpha)

    def delta_at(self, eps: float) -> float:
        """Return the delta that the curve converts to at ``eps``."""
        return rdp_delta(self.rdp, eps)

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.name, self.parameters, _portable(self.name, self.curve))


def _portable(name: str, function: Any) -> Any:
    return None if name in _CURVES else function


def _rebuild(kind: type, name: str, parameters: Any, function: Any) -> Any:
    return kind(name, parameters, function)


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
        found = minimize_scalar(log_delta, bounds=(grid[k - 1], grid[k + 1]), method="bounded")
        best = min(best, float(found.fun))
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


@dataclass(frozen=True)
class Step:
    """One line of the ledger.

    Attributes
    ----------
    name : str
        What is released ("scale matrix", "coefficients", ...); unique within a plan.
    mechanism : Gaussian, Pure, Approximate, Profile or RDP
        The curve that this step is charged with.
    share : float or None
        Share of the method's currency (mu^2 for Gaussian plans), for printing.
    failure : float
        Probability that the step adds outright (a (0, delta) part), in addition to the curve.
    reply_test : bool
        True if the step can end in "no reply".
    conditional : bool
        True if an answer before it may make it needless (it is charged all the same).
    label : str
        Kind as printed in the ledger; empty: derived from the mechanism.
    """

    name: str
    mechanism: Mechanism
    share: float | None = None
    failure: float = 0.0
    reply_test: bool = False
    label: str = ""
    conditional: bool = False

    def within(self, share: float) -> Step:
        """Return the step as one of a larger whole, of which its own whole has this share."""
        return replace(self, share=(self.share or 0.0) * share)
