"""Second moments as queries: rows scaled into a ball, or with separate bounds on x and y.

Both end in :class:`~dpmodels.models.linear.solve.Moments`, in the coordinates of the mapped rows.
What their noise is, before anything is read: :func:`ball_sd`, from the prover.
"""

from __future__ import annotations

import math

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.prove import noise_of
from dpmodels.exact.rowmap import RowMap, UnitScale
from dpmodels.exact.sensitivity import (
    INTERCEPT_WEIGHTS,
    count_weight,
    intercept_sensitivity,
    separate_weights,
)
from dpmodels.exact.sets import Ball
from dpmodels.exact.statistics import Gram, Split
from dpmodels.privacy.mechanisms import Gaussian, Pure

__all__ = ["ball_map", "ball_sd", "split_query"]

Mechanism = Gaussian | Pure


def ball_map(
    unit: UnitScale, radius: float, matrix: Array | None, relation: str = "replace",
    *, people: bool = False,
) -> RowMap:  # fmt: skip
    """Return the row map ``z = min(1, R/|w|) w``, ``w = matrix (scale z + shift)``.

    ``people``: the ball is that of the trace of a person's rows.
    """
    q = len(unit.scale)
    return RowMap(unit, np.full(q, radius), ball=q, radius=radius, matrix=matrix)


def ball_sd(mechanism: Mechanism, radius: float, q: int, relation: str) -> float:
    """Return s: the noise scale of ``sum z z'`` in svec coordinates.

    Laplace (pure eps): ``s = 2 b_L``, the scale with the same variance off the diagonal.
    """
    sd = float(noise_of(Gram(Ball(q)), mechanism, relation)[0]) * radius**2
    return 2.0 * sd if isinstance(mechanism, Pure) else sd


def split_query(p: int, square: float, *, known: bool, relation: str, r2: float) -> Split:
    """Choose the weights of the moments of rows with separate bounds on x and y.

    Parameters
    ----------
    p : int
        Coefficients, intercept included.
    square : float
        Bound on the squared norm of the slopes in unit rows.
    known : bool
        The first column is an intercept that every complete row has: sums and count are cells.
    relation : {"replace", "add-remove"}
    r2 : float
        Public guess of the R-squared.
    """
    rx, ry = math.sqrt(square), 1.0
    if known:
        a, b, c, e, f = INTERCEPT_WEIGHTS
        if relation == "replace":
            # the largest at which the count of complete rows joins for free
            k = count_weight(intercept_sensitivity(a, b, c, e, f), a, b, c, e, f)
        else:
            k = math.sqrt(5.0)
        return Split(p, True, (a, b, c, e, f, k), rx, ry)
    ratio = (p + 1.0) / (2.0 * p) * r2 * rx**2 / ry**2
    a, b, c, _ = separate_weights(ratio)
    return Split(p, False, (a, b, c, 0.0, 0.0, 0.0), rx, ry)
