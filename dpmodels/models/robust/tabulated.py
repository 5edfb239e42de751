"""A user's loss of the residual as a table: the user's functions never see a private row.

psi and omega are evaluated on a public grid over all residuals that the declared response can
have, and interpolated. So a function that mixed its rows, raised, or kept them could do no harm:
it gets the grid, whatever the data (``scoring/theory.md`` 5.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.scoring.coordinates import scoring_rows
from dpmodels.scoring.score import Beginning, Evaluate, Score, Start
from dpmodels.scoring.state import State, roots, scaled_up

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

#: Points of the grid; it covers so many ranges of the response on either side.
_POINTS, _WIDE = (1 << 15) + 1, 2.0


@dataclass(frozen=True, eq=False)
class Tabulated(Score):
    """A score given on a grid of residuals, in units of the unit response.

    Attributes
    ----------
    grid, psi, omega : (k,) arrays
    """

    grid: Any = None
    psi: Any = None
    omega: Any = None
    leverage: float = 1.0
    averages: bool = False
    weighted: bool = True

    @classmethod
    def of(cls, loss: Any, design: Design) -> Tabulated:
        """Tabulate ``dp.IndexLoss(..., of_residual=True)``."""
        if not getattr(loss, "of_residual", False):
            raise RequestError(
                "method='scoring' takes a loss of the residual: dp.IndexLoss(value, d1, d2, "
                "of_residual=True). For events and counts: dp_glm(family=)"
            )
        interval = None if design.response is None else design.response.interval
        if interval is None:
            raise RequestError(
                "a loss of one's own is tabulated over the residuals that the response can have: "
                "declare its range, for example bounds={'y': (0, 10)}"
            )
        half = 1.0 / float(scoring_rows(design).scale[-1])
        grid = np.linspace(-2.0 * _WIDE, 2.0 * _WIDE, _POINTS)
        with np.errstate(all="ignore"):
            first, second = loss.derivatives(half * grid, np.zeros(_POINTS), [1, 2])
        psi, omega = -half * np.asarray(first, float), half**2 * np.asarray(second, float)
        if not (np.isfinite(psi).all() and np.isfinite(omega).all()):
            raise RequestError(
                "the loss must have finite derivatives at every residual that the response can "
                f"have, up to {2.0 * _WIDE * half:g} in absolute value"
            )
        if not omega.max() > 0.0:
            raise RequestError("the second derivative of the loss is nowhere positive")
        scale = float(omega.max())
        return cls(grid=grid, psi=psi / scale, omega=np.maximum(omega / scale, 0.0))

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
        W = roots(information * start.M)[1]
        return State(start.theta, W, phi, start.M, nuisance=sd, constant=start.constant)

    def evaluate(self, state: State, k: int) -> Evaluate:
        """Interpolate; beyond the grid its ends."""
        root, grid, psi, omega = math.sqrt(state.phi), self.grid, self.psi, self.omega
        step = (len(grid) - 1) / (grid[-1] - grid[0])

        def rows(x: Array, _: Array) -> tuple[Array, Array]:
            place = np.clip((x * root - grid[0]) * step, 0.0, len(grid) - 1.0)
            gone = np.isnan(place)
            low = np.minimum(np.where(gone, 0.0, place).astype(np.intp), len(grid) - 2)
            part = place - low
            found = psi[low] + part * (psi[low + 1] - psi[low])
            weight = omega[low] + part * (omega[low + 1] - omega[low])
            return found / root, weight

        return rows

    def most(self, state: State) -> tuple[float, float]:
        """Return the largest values of the table."""
        return float(np.abs(self.psi).max()) / math.sqrt(state.phi), float(self.omega.max())

    def learnt(self, state: State, H: Array, ratio: float | None) -> State:
        """Return the scale of the score."""
        return state if ratio is None else replace(state, phi=scaled_up(state.phi, ratio))

    def unit(self, state: State) -> float:
        """Return the residual sd of the start."""
        return state.nuisance
