"""State at which a pass is evaluated, and the map of a row to its vector and the model's variables.

A row (x, y) becomes ``w = W u`` and what the model sees of it: the standardised residual, or the
linear predictor. What a row adds to a pass is the business of :mod:`dpmodels.core.parallel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.rows import Rows, length, linear
from dpmodels.formula.design import Design
from dpmodels.scoring.coordinates import Coordinates, longest_row
from dpmodels.scoring.models import Evaluate, Model, State, plain
from dpmodels.sums.products import SHRINK, filled
from dpmodels.sums.scaling import UnitScale


@dataclass(frozen=True, eq=False)
class Centre:
    """State at which a pass is evaluated: public or released numbers only."""

    unit: UnitScale  # Scale of the block: columns, auxiliary columns, response
    W0: Array  # (r, p): public coordinates ``u = W0 (unit row)``
    theta: Array  # (r,): fit so far, for u
    W: Array  # (r, r): whitens: ``w = W u``
    phi: float  # A standardised residual is ``(y - eta)/sqrt(phi)``
    evaluate: Evaluate = plain  # Map from rows to (psi, omega) (:mod:`dpmodels.scoring.models`)
    # The model gets the standardised residual; else the linear predictor and the response.
    of_residual: bool = True
    # offset, weights: rows of the block that hold them.
    offset: int | None = None
    weights: int | None = None
    mean_weight: float = 1.0  # Weights count over it
    # Columns of numbers where rows are summed by cell: few coordinates of w depend on them.
    numbers: tuple[int, ...] = ()
    # Two responses at which ``|psi|`` is largest, whatever the fit; None: rows are not weighed.
    outcomes: tuple[float, float] | None = None


def affine_of(c: Centre, step: float) -> tuple[Array, Array | None]:
    """Return (matrix, shift) of the map of a block to ``step w`` and to the model's variables.

    What the model gets is the last row; rows between are zero, up to a height whose products are
    fast.
    """
    r, p = c.W0.shape
    M = np.zeros((max(r + 1, filled(r)), len(c.unit.scale)))
    M[:r, :p] = step * (c.W @ c.W0)
    if c.of_residual:
        M[-1, :p] = -(c.theta @ c.W0) / math.sqrt(c.phi)
        M[-1, -1] = 1.0 / math.sqrt(c.phi)
    else:
        M[-1, :p] = c.theta @ c.W0
    shift = M @ c.unit.shift
    M *= c.unit.scale
    if c.offset is not None:  # in the user's units, as the response
        M[-1, c.offset] = -M[-1, -1] if c.of_residual else 1.0
    left = c.unit.absorb_shift(M, shift)
    return M, None if left is None else left[:, None]


def row_of(
    centre: Centre, step: float, clip: float = 0.0, *, rotated: bool = True
) -> tuple[Callable[[Rows], Any], Array]:
    """Return the formula of a row in a pass, ``(step w, psi, omega)``, and the rotation of its w.

    With a ``clip`` C rows are weighed: psi and omega have the weight ``min(1, C/(|w| P))``, P the
    largest ``|psi|`` that any response gives at the row's linear predictor, times its case weight.
    A row is weighed before its response is seen, and no score is cut (``scoring/theory.md``, 5.11).
    The rotation makes the map triangular, which saves half of the products. Balls, clips and the
    distribution of the noise do not depend on directions.
    """
    matrix, shift = affine_of(centre, step)
    r, p = centre.W0.shape
    turn, upper = np.eye(r), (0, 0)
    of_y = 0.0
    if clip and centre.of_residual:  # the weight is a function of the fit alone
        of_y, matrix[-1, -1] = matrix[-1, -1], 0.0
    most = clip * step * SHRINK
    if rotated:
        order = [*centre.numbers, *(j for j in range(p) if j not in centre.numbers)]
        turn, triangle = np.linalg.qr(matrix[:r, order])
        matrix[:r, order], upper = np.triu(triangle), (0, 0) if centre.numbers else (r, p)
        if shift is not None:
            shift[:r] = turn.T @ shift[:r]

    def score(fit: Any, y: Any) -> tuple[Any, Any]:
        return centre.evaluate(fit + of_y * y if of_y else fit, y)

    def row(z: Rows) -> tuple[Any, Any, Any]:
        image: Any = linear(matrix, z, shift, upper)
        w, fit, weight = image[:r], image[-1], None
        psi, omega = score(fit, z[-1])
        if centre.weights is not None:
            weight = z[centre.weights] / centre.mean_weight
        if clip and centre.outcomes is not None:
            both = np.abs(score(fit, np.array(centre.outcomes))[0])
            largest = np.maximum(both[0], both[1])
            size = length(w) * largest * (1.0 if weight is None else np.abs(weight))
            h = most / np.maximum(size, most)
            weight = h if weight is None else h * weight
        if weight is not None:
            psi, omega = psi * weight, weight if omega is None else omega * weight
        return w, psi, omega

    return row, turn


def reach(
    score: Model, state: State, coordinates: Coordinates, design: Design
) -> tuple[float, float]:
    """Return the largest |v| and |s| of a row in the declared ranges (inf: no bound)."""
    psi, omega = score.most(state)
    if not math.isfinite(psi):
        return math.inf, math.inf
    row = longest_row(design, coordinates, state.W)
    place = design.auxiliary_place("weights")
    if place is not None:
        interval = design.z[place].interval
        weight = math.inf if interval is None else interval[1] / coordinates.mean_weight
        psi, omega = psi * weight, omega * weight
    return (row * math.sqrt(omega), row * psi) if row * psi > 0.0 else (math.inf, math.inf)
