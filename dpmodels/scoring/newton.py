"""From released sums to the next centre: floors, averages and the Newton step. Sees no row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.rules import PassPlan
from dpmodels.scoring.sums import Released

__all__ = ["Information", "State", "Step", "floored", "newton_step", "start_state"]


#: Eigenvalues of an information are floored at this multiple of its spectral noise, and at this.
FLOOR_NOISE, FLOOR = 0.7, 0.1
#: Smallest eigenvalue of the start, in public coordinates (a range 1000 times too wide: 1e-6).
START_FLOOR = 1e-7
#: The new scale is the old one times 1.1 q / (n p), which may move within these bounds.
SCALE_UP, SCALE_LEAST, SCALE_MOST = 1.1, 0.05, 5.0
#: Longest step before the last pass, in residual sds.
LONGEST = 1.4


@dataclass(frozen=True, eq=False)
class Information:
    """Information per row in the coordinates u, (r, r), and the noise sd of its entries there."""

    matrix: Array
    noise: float


@dataclass(frozen=True, eq=False)
class State:
    """A released fit: where the next pass looks from.

    Attributes
    ----------
    theta : (r,) array
        In units of the unit response.
    H : (r, r) array
        Floored information per row, in u.
    W : (r, r) array
        Its inverse symmetric root.
    phi : float
    earlier : Information or None
        Unfloored information of an earlier pass, to average with.
    """

    theta: Array
    H: Array
    W: Array
    phi: float
    earlier: Information | None = None


@dataclass(frozen=True, eq=False)
class Step:
    """What one pass says, in its own coordinates v = W u.

    Attributes
    ----------
    H : (r, r) array
        Information per row, averaged, not floored.
    nu : float
        Noise sd of its entries (svec).
    floor : float
    d : (r,) array
        The step in v.
    state : State
        After the step.
    """

    H: Array
    nu: float
    floor: float
    d: Array
    state: State


def floored(H: Array, floor: float) -> Array:
    """Return a symmetric matrix with its eigenvalues floored."""
    values, vectors = np.linalg.eigh((H + H.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def _roots(H: Array) -> tuple[Array, Array]:
    """Return (H^{1/2}, H^{-1/2}) of a positive matrix."""
    values, vectors = np.linalg.eigh(H)
    root = np.sqrt(values)
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T


def start_state(Q: Array, s: float, n: int, coordinates: Coordinates) -> State:
    """Return the state after the start: least squares from the joint ball.

    Parameters
    ----------
    Q : (r + 1, r + 1) array
        Noisy moments of rows ``(u, c (y - u'centre))`` in the ball.
    s : float
        Its noise sd in svec coordinates.
    n : int
        Rows that were read.
    coordinates : Coordinates
    """
    r = len(Q) - 1
    nu = s / n
    M, h, t = Q[:r, :r] / n, Q[:r, r] / n, float(Q[r, r]) / n
    H = floored(M, max(FLOOR_NOISE * nu * math.sqrt(2.0 * r), START_FLOOR))
    theta = np.linalg.solve(H, h)
    rss = t - 2.0 * float(theta @ h) + float(theta @ H @ theta)
    phi = max(rss, 0.5 * nu, 1e-4 * t)
    c = coordinates.response
    return State(coordinates.centre + theta / c, H, _roots(H)[1], phi / c**2, Information(M, nu))


def newton_step(released: Released, plan: PassPlan, state: State) -> Step:
    """Take one step from the released sums of a pass.

    ``theta + sqrt(phi) W H^{-1} s / n``, H averaged with the information of an earlier pass by
    precision, its eigenvalues floored.
    """
    r = len(state.theta)
    m = plan.rows
    nu = plan.noise.information / m
    H = released.information / m
    root = np.linalg.inv(state.W)
    own = Information(root @ H @ root, nu * float(np.trace(root @ root)) / r)
    if state.earlier is not None:
        before = state.W @ state.earlier.matrix @ state.W
        # the noise of the earlier one in today's coordinates, on average over the entries
        stretch = float(np.trace(state.W @ state.W)) / r
        old = (state.earlier.noise * stretch) ** 2
        weight = old / (old + nu * nu)
        H = weight * H + (1.0 - weight) * before
        nu = math.sqrt(weight**2 * nu * nu + (1.0 - weight) ** 2 * old)
    floor = max(FLOOR_NOISE * nu * math.sqrt(2.0 * r), FLOOR)
    safe = floored(H, floor)
    d: Array = np.asarray(math.sqrt(state.phi) * np.linalg.solve(safe, released.score / m))
    phi = state.phi
    if released.scale is not None:
        ratio = SCALE_UP * released.scale / (m * r)
        phi *= min(max(ratio, SCALE_LEAST), SCALE_MOST)
    if not plan.last:
        length, most = float(np.linalg.norm(d)), LONGEST * math.sqrt(phi)
        d = np.asarray(d * min(1.0, most / length)) if length > 0 else d
    theta = state.theta + state.W @ d
    Hu = root @ safe @ root
    return Step(H, nu, floor, d, State(theta, Hu, _roots(Hu)[1], phi, own))
