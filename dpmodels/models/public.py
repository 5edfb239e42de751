"""Start of a scoring fit at the fit of public rows, with their coordinates and scales.

No release precedes the passes, so nothing is charged for what is public. The private fit is not
shrunk to the public one: early steps that noise explains stay there, the last step goes as from
any start (``scoring/theory.md``, 3.6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.release import Program
from dpmodels.formula.design import Design
from dpmodels.records import Estimate
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.models import Quantile, State, mean_row, whitening
from dpmodels.scoring.run import Fitting, Opening

#: Rows of average information in every direction that the start has besides the public rows. So
#: levels with few public rows or events start near no effect.
PRIOR_ROWS = 10.0
#: Shares of mu^2: no start, two early passes, and a reserve for more of them.
SHARES = (0.0, 0.10, 0.15, 0.75)


@dataclass(frozen=True)
class PublicQuantile(Quantile):
    """Quantile regression whose W is of other rows at first: the constant tells the density."""

    def updated(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the local scale of the released density."""
        if state.constant is not None:
            a = np.linalg.solve(state.W.T, state.constant)
            H = float(a @ H @ a) * np.eye(len(H))
        return super().updated(state, H, ratio)

    def white(self, before: State, after: State, H: Array) -> Array:
        """Return the root of the second moments of u, by the information."""
        return whitening(H * math.sqrt(after.phi / before.phi))


@dataclass(frozen=True, eq=False)
class PublicStart(Opening):
    """Start at the fit of public rows, in their coordinates: no release, and no charge."""

    readings: ClassVar[int] = 0

    coordinates: Coordinates
    fits: tuple[Fitting, ...]
    failure: float = field(default=0.0, init=False)

    @property
    def M(self) -> Array:
        """Second moments of u."""
        return self.fits[0].state.M

    def opens(self, model: Any) -> Any:
        """Return the models of a call, started here."""
        chains = tuple(
            replace(c, score=PublicQuantile(tau=c.score.tau))
            if isinstance(c.score, Quantile) else c for c in model.chains
        )  # fmt: skip
        return replace(
            model, chains=chains, coordinates=self.coordinates, opening=self, from_public=SHARES
        )

    def steps(self, mu: float) -> tuple[()]:
        """Return no step."""
        return ()

    def begin(self, *_: Any) -> Program:
        """Return this start."""
        yield from ()
        return self, {}

    def planned(self, plan: Any, usual: tuple[float, ...]) -> Any:
        """Return the plan with careful early steps, and the clip of a fit without public rows."""
        part = usual[-1] * (1.0 - sum(rules.NUMBER_SHARES)) / SHARES[-1]

        def careful(planned: Any) -> Any:
            C = plan.passes[-1].clip * min(part, 1.0) ** (rules.CLIP_POWER / 2.0)
            C = min(max(C, planned.policy.clip * math.sqrt(plan.p)), planned.clip)
            noise = replace(planned.noise, score=planned.noise.score * C / planned.clip)
            policy = replace(planned.policy, cautious=True)
            return replace(planned, clip=C, noise=noise, policy=policy)

        extra = tuple((careful(early), careful(last)) for early, last in plan.more)
        return replace(plan, passes=tuple(map(careful, plan.passes)), more=extra)

    def begin_units(self, plan: Any, chain: Any, c: Coordinates, design: Design) -> Program:
        """Return a model of units at the fit of public ones, with the table of a hazard."""
        public = self.fits[plan.chains.index(chain)]
        model, values = public.model, {}
        if chain.score.prelude(plan.mu):
            released = yield from chain.score.initialise(c, (), design, plan.mu)
            model, values = released.expansion, released.values
        return Fitting(chain, model, public.state, values, look=public.look, counted=plan.usable)


def before_passes(fit: Fitting, constant: Array | None, m: int) -> Fitting:
    """Return a fit of m public units as one before its first pass, with prior rows."""
    state, turn = fit.state, fit.turn
    G, safe = with_prior(state.W, m)
    a = state.constant if constant is None or len(constant) < len(G) else constant
    level = np.zeros(len(G)) if a is None else float(state.theta @ mean_row(state.M, a)) * a
    theta = level + np.linalg.solve(safe, G @ (state.theta - level))
    of_scores = state.W if turn is None else np.linalg.inv(turn) @ state.W  # units have two
    W = whitening(with_prior(of_scores, m)[1])
    state = replace(state, theta=theta, W=W, passed=False, slope=None, seen=0.0, constant=a)
    return replace(fit, state=state, look=None if turn is None else whitening(safe))


def with_prior(W: Array, m: int) -> tuple[Array, Array]:
    """Return ``G = (W'W)^{-1}``, and G with ``PRIOR_ROWS`` rows of average size besides m."""
    back = np.linalg.inv(W)
    G = back @ back.T
    return G, G + PRIOR_ROWS / m * float(np.trace(G)) / len(G) * np.eye(len(G))


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Fit of public rows: the start of a private fit, printed next to it."""

    m: int  # Number of public units
    start: PublicStart
    estimate: Estimate
    who: str = "rows"

    def printed_with(self, private: Estimate) -> Estimate:
        """Return the private estimate with the public one in its notes and arrays."""
        b, both = self.estimate.params, (self.estimate, private)
        bse, se = (
            np.sqrt(sum(np.diag(V) for V in (e.vcov_sampling, e.vcov_privacy) if V is not None))
            for e in both
        )
        parts = zip(self.estimate.names, b, bse, private.params, se * np.ones(len(b)), strict=True)
        cells = ", ".join(f"{k} {x:.4g} ({u:.2g}) / {y:.4g} ({v:.2g})" for k, x, u, y, v in parts)
        note = messages.PUBLIC_FIT(m=self.m, who=self.who, cells=cells)
        arrays = {**private.arrays, "public_params": b, "public_bse": bse}
        return replace(private, notes=(*private.notes, note), arrays=arrays)
