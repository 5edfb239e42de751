"""Starts of a least-squares fit by scores that the methods of this package share.

ePTR and a posterior draw both whiten rows by a released second moment, release coefficients in
their own way, and the residual variance at these. The passes of :mod:`dpmodels.scoring` go on from
there, so that estimate and errors are of the last pass.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.release import Program, Queried
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.linear.scored import SCORING, VCOV
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.records import Request
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.models import Start, floored
from dpmodels.scoring.rules import FLOOR_NOISE, START_FLOOR
from dpmodels.scoring.run import Opening
from dpmodels.sums.ask import Moments, Noisy, Read, ball_moments_query, clipped_residuals
from dpmodels.sums.rowmap import RowMap

#: Names of the steps that every such start has.
MATRIX_STEP, VARIANCE_STEP = "scale matrix", "residual variance"
#: Bound of the response, in released standard deviations of it.
RESPONSE_SDS = 3.0
#: Squared radius of the whitened rows over their rank.
WHITENED_ROOM = 1.5
#: Noise of an eigenvalue of the scale matrix, per row, up to which its ball grows; its squared
#: radius over the rank, at least and at most.
SCALE_NOISE, SCALE_ROOM = 0.1, (1.0, 4.0)
#: Least residual variance of a start, over the square of the bound of the response.
LEAST_VARIANCE = 1e-4


#: Options of a fit that starts so.
OPENED_OPTIONS = (
    replace(
        SCORING,
        doc="end by private Fisher scoring, on which honest intervals rest (None, True), or with "
        "the release of the method by itself (False)",
    ),
    replace(
        VCOV,
        doc="standard errors of the fit by scores: any variances ('hetero': HC1 sandwich, the "
        "default) or one residual variance ('iid')",
    ),
)


def why_alone(request: Request, start_options: Sequence[str], what: str, other: str = "") -> str:
    """Return the reason why a call releases its start alone, or "" if Newton steps follow. Public.

    ``start_options``: options of the start alone; ``other``: another reason of the method.
    """
    why = _why_alone(request, start_options, what) or other
    scoring_options = [k for k in ("scoring", "vcov") if request.options.get(k)]
    if why and scoring_options:
        raise RequestError(
            f"{scoring_options[0]}= needs Newton steps after the initial fit, and here {why}. "
            f"Leave out {scoring_options[0]}="
        )
    return why


def _why_alone(request: Request, start_options: Sequence[str], what: str) -> str:
    """Return why a start is released without passes after it, or an empty text."""
    if request.options.get("scoring") is False:
        return "scoring=False was given"
    if not request.inference:
        return "inference=False asks for no intervals"
    if request.split is not None and "start" not in request.split:
        return f"split= names the steps of {what}"
    defaults = {o.name: o.default for o in request.method.options}
    for name in start_options:
        if name in defaults and request.options[name] != defaults[name]:
            return f"{name}= applies to {what}"
    return ""


def scale_room(mu: float, r: int, n: int) -> float:
    """Return R^2/r of the ball of the scale matrix, as large as its noise allows. Public."""
    quiet = SCALE_NOISE * mu * n / (math.sqrt(2.0) * r * math.sqrt(2.0 * r))
    least, most = SCALE_ROOM
    return min(max(quiet, least), most)


@dataclass(frozen=True, eq=False)
class Whitened:
    """Rows ``(W u, y)`` of a start, whitened by their released second moments."""

    moments: Array  # (r, r): released second moments of u, summed over the rows
    sd: float  # Noise of their entries in svec coordinates
    W: Array  # (r, r)
    over: Moments  # Pass over the rows, of u in a ball and y clipped at its bound
    n: int  # Number of rows, expected under coins

    rowmap = property(attrgetter("over.rowmap"))  # Map to the rows

    @property
    def bound(self) -> float:
        """Largest |y|."""
        return float(self.rowmap.box[-1])


def whitened_rows(
    mu: float, coordinates: Coordinates, design: Design, read: Read, n: int
) -> Generator[Queried, Noisy, Whitened]:
    """Release the second moments of u in a ball, and return the rows that they whiten.

    ``mu``: of this release. The response is clipped at ``RESPONSE_SDS`` released sds, or at its
    range if its sd is not known.
    """
    r = coordinates.rank
    plain = replace(coordinates, response=1.0).start
    ry = min(1.0, RESPONSE_SDS * coordinates.spread) if coordinates.spread else 1.0
    size = math.sqrt(r * scale_room(mu, r, n))
    box = np.append(np.full(r, size), ry)
    first = RowMap(coordinates.unit, box, ball=r, radius=size, matrix=plain)
    answer = yield Queried(MATRIX_STEP, ball_moments_query(Moments(design, first), r), read)
    sd = float(answer.sd[0, 0])
    values, vectors = np.linalg.eigh(answer.values)
    W = (vectors * np.sqrt(n / np.maximum(values, sd * math.sqrt(2.0 * r)))) @ vectors.T
    radius = math.sqrt(WHITENED_ROOM * r)
    matrix = plain.copy()
    matrix[:r] = W @ plain[:r]
    box = np.append(np.full(r, radius), ry)
    rowmap = RowMap(coordinates.unit, box, ball=r, radius=radius, matrix=matrix)
    return Whitened(answer.values, sd, W, Moments(design, rowmap), n)


def above_noise(theta: Array, sd: float) -> Array:
    """Return released coefficients without the part of their length that noise explains.

    James and Stein's factor, positive part, of noise with this sd on each.
    """
    square = float(theta @ theta)
    return theta * (max(0.0, 1.0 - len(theta) * sd * sd / square) if square > 0.0 else 0.0)


def start_at(
    rows: Whitened, theta: Array, coordinates: Coordinates, read: Read
) -> Generator[Queried, Noisy, tuple[Start, float]]:
    """Release the residual variance at a released theta (for ``W u``); return the start and it."""
    r, n, ry = len(theta), rows.n, rows.bound
    query = clipped_residuals(rows.over.design, rows.rowmap, theta, ry)
    answer = yield Queried(VARIANCE_STEP, query, read)
    s2, sd = float(answer.values[0]) / n, float(answer.sd[0]) / n
    nu = rows.sd / n
    M = floored(rows.moments / n, max(FLOOR_NOISE * nu * math.sqrt(2.0 * r), START_FLOOR))
    start = Start(
        rows.W @ theta, max(s2, sd, LEAST_VARIANCE * ry * ry), M,
        nu, coordinates.constant, np.zeros(r), seen=s2,
    )  # fmt: skip
    return start, s2


@dataclass(frozen=True)
class WhitenedStart(Opening):
    """Start that releases coefficients of whitened rows, and the residual variance at these."""

    readings: ClassVar[int] = 3
    shares: ClassVar[Mapping[str, float]]  # Shares of mu^2 of the start, by step
    names: ClassVar[Mapping[str, str]]  # Names of the steps in the ledger
    labels: ClassVar[Mapping[str, str]] = {}  # Their mechanisms, if not Gaussian

    @abstractmethod
    def failures(self, mu: float) -> Mapping[str, float]:
        """Return the failure probabilities of the steps that have one."""

    @abstractmethod
    def coefficients(
        self, mu: float, rows: Whitened, coordinates: Coordinates, read: Read
    ) -> Program:
        """Release coefficients (for ``W u``); return them, their noise sd and released values."""

    def step_mus(self, mu: float) -> dict[str, float]:
        """Return the mu of each step."""
        return {k: mu * math.sqrt(share) for k, share in self.shares.items()}

    def steps(self, mu: float) -> tuple[Step, ...]:
        """Return the steps, with their failures."""
        failures, mus = self.failures(mu), self.step_mus(mu)
        return tuple(
            Step(
                self.names[k], Gaussian(mus[k]), share=share, failure=failures.get(k, 0.0),
                label=self.labels.get(k, ""),
            )
            for k, share in self.shares.items()
        )  # fmt: skip

    def begin(
        self, mu: float, coordinates: Coordinates, design: Design, read: Read, n: int
    ) -> Program:
        """Release the start."""
        scale = self.step_mus(mu)["scale"]
        rows = yield from whitened_rows(scale, coordinates, design, read, n)
        theta, sd, values = yield from self.coefficients(mu, rows, coordinates, read)
        begun, s2 = yield from start_at(rows, above_noise(theta, sd), coordinates, read)
        return begun, {"scale": rows.moments, **values, "residual": np.array(s2)}
