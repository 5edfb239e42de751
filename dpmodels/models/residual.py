"""``dp_quantreg`` and ``dp_mest`` on data: models of a residual by private Fisher scoring.

The score is not smoothed, only its information is (``scoring/method.md`` 5.2). Several quantiles
share their start and read the rows together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.rows import entry
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.families import LINKS, family_of
from dpmodels.formula.design import Design
from dpmodels.planning import SPREAD, Plan, planning_rows
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Option, positive, register_method, scoring_method
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import scoring_rows
from dpmodels.scoring.fit import Part, estimate_fit, plan_fit, release_fit
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import (
    Beginning,
    Evaluate,
    Expectile,
    Huber,
    LeastSquares,
    Model,
    Quantile,
    Start,
    State,
    whitening,
)
from dpmodels.scoring.rules import PassShares
from dpmodels.scoring.run import Chain, ModelSpec

#: The release of the passes.
release = release_fit


def taus_of(value: Any) -> tuple[float, ...]:
    """Return the quantiles of a call, in ascending order, or refuse."""
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    for tau in several:
        if isinstance(tau, bool) or not isinstance(tau, (int, float)) or not 0 < tau < 1:
            raise RequestError(
                f"tau must lie strictly between 0 and 1, got {shown(value)}. For example tau=0.5, "
                "or tau=[0.25, 0.5, 0.75]"
            )
    if not several or len(set(several)) < len(several):
        raise RequestError("tau= must be one quantile, or a list of different ones")
    return tuple(sorted(float(tau) for tau in several))


def plan_quantile(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_quantreg(method="scoring")``."""
    taus = taus_of(request["tau"])
    labels = [f"tau = {tau:g}" if len(taus) > 1 else "" for tau in taus]
    chains = tuple(Chain(Quantile(tau=tau), label) for tau, label in zip(taus, labels, strict=True))
    return plan_fit(request, design, planning_rows(request, n), ModelSpec(chains, guess=SPREAD))


def estimate_quantile(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step of every quantile to the user's units."""
    return estimate_fit(
        plan, release, lambda part: {"sparsity": math.sqrt(part.release.before.phi) / part.unit}
    )


QUANTILE = Backend(plan_quantile, release, estimate_quantile, people=True)


# -- A user's loss of the residual as a table: the user's functions are never evaluated at a private
# row.
#
# psi and omega are evaluated on a public grid over all residuals that the declared response can
# have, and interpolated. So a function that mixed its rows, raised, or kept them could do no harm:
# it gets the grid, whatever the data (``scoring/theory.md`` 5.4).


#: Points of the grid, and the number of ranges of the response that it covers on either side.
_GRID_POINTS, _WIDE = (1 << 15) + 1, 2.0


@dataclass(frozen=True, eq=False)
class Tabulated(Model):
    """A score given on a grid of residuals, in units of the unit response."""

    # grid, psi, omega, early: (k,) arrays; early: the information of early passes, at least omega
    grid: Any = None
    psi: Any = None
    omega: Any = None
    early: Any = None
    pass_shares: PassShares = rules.BENT
    averages: bool = False
    weighted: bool = True
    learns_scale: bool = False
    in_own_units: bool = True

    @classmethod
    def of(cls, loss: Any, design: Design) -> Tabulated:
        """Tabulate ``dp.IndexLoss(..., of_residual=True)``."""
        if not getattr(loss, "of_residual", False):
            raise RequestError(
                "method='scoring' needs a loss of the residual: dp.IndexLoss(value, d1, d2, "
                "of_residual=True). For events and counts: dp_glm(family=)"
            )
        interval = None if design.response is None else design.response.interval
        if interval is None:
            raise RequestError(
                "a user-supplied loss is tabulated over the residuals that the response can have: "
                "declare its range, for example bounds={'y': (0, 10)}"
            )
        half = 1.0 / float(scoring_rows(design).scale[-1])
        grid = np.linspace(-2.0 * _WIDE, 2.0 * _WIDE, _GRID_POINTS)
        with np.errstate(all="ignore"):
            first, second = loss.derivatives(half * grid, np.zeros(_GRID_POINTS), [1, 2])
        psi, omega = -half * np.asarray(first, float), half**2 * np.asarray(second, float)
        if not (np.isfinite(psi).all() and np.isfinite(omega).all()):
            raise RequestError(
                "the loss must have finite derivatives at every residual that the response can "
                f"have, up to {2.0 * _WIDE * half:g} in absolute value"
            )
        if not omega.max() > 0.0:
            raise RequestError("the second derivative of the loss is nowhere positive")
        psi, omega = psi / float(omega.max()), np.maximum(omega / float(omega.max()), 0.0)
        at_zero = len(grid) // 2  # slope of the chord from there, as of Huber
        chord = np.divide(psi - psi[at_zero], grid, out=omega.copy(), where=grid != 0.0)
        return cls(grid=grid, psi=psi, omega=omega, early=np.maximum(omega, chord))

    def begin(self, start: Beginning) -> State:
        """Return the median of the response, and its spread."""
        return start.state(start.middle(), nuisance=start.sd)

    def start(self, start: Start) -> State:
        """Return least squares; information and scale of the score at normal errors."""
        sd = math.sqrt(start.variance)
        weight = np.exp(-0.5 * (self.grid / sd) ** 2)
        weight /= weight.sum()
        information = max(float(weight @ self.omega), 1e-3)
        phi = max(float(weight @ self.psi**2) / information, 1e-12)
        W = whitening(information * start.M)
        return State(start.theta, W, phi, start.M, nuisance=sd, constant=start.constant)

    def evaluate(self, state: State) -> Evaluate:
        """Interpolate, with constant values beyond the grid."""
        root, grid, psi = math.sqrt(state.phi), self.grid, self.psi
        omega = self.omega if state.last else self.early
        step = (len(grid) - 1) / (grid[-1] - grid[0])
        psi_step, omega_step = np.diff(psi), np.diff(omega)

        def rows(x: Array, _: Array) -> tuple[Array, Array]:
            place = np.clip((x * root - grid[0]) * step, 0.0, len(grid) - 1.0)
            part = np.mod(place, 1.0)
            low = place - part
            interpolated = entry(psi, low) + part * entry(psi_step, low)
            return interpolated / root, entry(omega, low) + part * entry(omega_step, low)

        return rows

    def most(self, state: State) -> tuple[float, float]:
        """Return the largest values of the table."""
        return float(np.abs(self.psi).max()) / math.sqrt(state.phi), float(self.early.max())

    def unit(self, state: State) -> float:
        """Return the residual sd of the start."""
        return state.nuisance


# -- Backend of ``dp_mest(method="scoring")``: M-estimators of the residual by private scoring.


#: Losses by name; families of the same loss beside them.
_LOSS_NAMES = (
    "squared", "huber", "expectile", "quantile", "median", "logistic", "poisson", "geometric",
)  # fmt: skip
#: Corner of the Huber loss: efficiency .95 at normal errors.
_CORNER = 1.345


#: Expectiles that passes over people find: beyond, the information of the few on the rarer side is
#: cut, and steps go past the root (5 000 people, .95: thirteen errors off).
EXPECTILES_OF_PEOPLE = 0.1, 0.9


def score_of(request: Request, design: Design) -> Model:
    """Return the score of a call, or refuse."""
    loss, options = request["loss"], request.options
    if hasattr(loss, "derivatives"):
        return Tabulated.of(loss, design)
    if callable(loss):
        raise RequestError(
            "method='scoring' needs a named loss, or dp.IndexLoss(value, d1, d2, "
            "of_residual=True). A function loss(y, X, theta) is minimised on a noised table: "
            "method='drcl'"
        )
    if not isinstance(loss, str) or loss not in _LOSS_NAMES:
        hint = " 'hinge' needs method='drcl'." if loss == "hinge" else ""
        raise RequestError(
            f"loss={shown(loss)} is not one of {list(_LOSS_NAMES)}."
            f"{did_you_mean(str(loss), _LOSS_NAMES)}{hint} "
            "Or give dp.IndexLoss(value, d1, d2, of_residual=True)"
        )
    owners = {"k": ("huber",), "scale": ("huber",), "tau": ("quantile", "expectile")}
    defaults = {o.name: o.default for o in request.method.options}
    for name, losses in owners.items():  # options of another loss
        if loss not in losses and request[name] != defaults[name]:
            raise RequestError(f"{name}= needs loss={' or '.join(map(repr, losses))}")
    tau = 0.5 if loss == "median" else float(options["tau"])
    if loss in ("quantile", "median"):
        return Quantile(tau=tau)
    if loss == "expectile":
        low, high = EXPECTILES_OF_PEOPLE
        if request.unit is not None and not low <= tau <= high:
            raise RequestError(
                f"loss='expectile' with unit= needs tau from {low} to {high}, got {shown(tau)}: "
                "beyond, few people have nearly all the weight. loss='quantile' accepts any tau"
            )
        return Expectile(tau=tau)
    if loss == "huber":
        return Huber(k=float(options["k"] or _CORNER))
    if loss == "squared":
        return LeastSquares()
    family = family_of(loss)
    return MeanModel.of(family, LINKS[family.link])


def plan_mest(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_mest(method="scoring")``."""
    score = score_of(request, design)
    fixed = request["scale"]
    if fixed is not None and isinstance(score, Huber):
        score = replace(score, given=float(fixed))
    model = ModelSpec((Chain(score),), guess=SPREAD)
    return plan_fit(request, design, planning_rows(request, n), model)


def estimate_mest(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware robust errors."""

    def stats(part: Part) -> dict[str, float]:
        if plan.detail.chains[0].raw:  # a family: its scale is not one of residuals
            return {}
        return {"scale": math.sqrt(part.release.before.phi) / part.unit}

    return estimate_fit(plan, release, stats)


MEST = Backend(plan_mest, release, estimate_mest, people=True)


# -- Methods of quantile regression on data, as data (on a noised table: ``models/noised``).


register_method(
    scoring_method(
        "dp_quantreg", QUANTILE, "Koenker and Bassett (1978)", "models/quantile.md",
        Option("tau", "quantile, or a list of quantiles", 0.5, object),
    )
)  # fmt: skip


# -- Methods of robust regression on data, as data (on a noised table: ``models/noised``).


register_method(
    scoring_method(
        "dp_mest", MEST, "Huber (1964); Newey and Powell (1987)", "models/robust.md",
        Option("loss", "name, or dp.IndexLoss(of_residual=True)", None, object),
        positive("k", "corner of the Huber loss, in units of the scale; None: 1.345"),
        positive("scale", "scale of the Huber loss, in units of the response; None: released"),
        Option("tau", "expectile, or quantile", 0.5, float, lower=0.0, upper=1.0),
    )
)  # fmt: skip
