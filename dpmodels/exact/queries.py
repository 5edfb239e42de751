"""One pass, one joint release: the queries that put second moments out.

* ``ball``: ``sum z z'`` of rows scaled into a ball (``theory.md`` 1.1);
* ``bounded``: X'X, X'y, y'y (and, with a known intercept, sum x, sum y and the count of complete
  rows) of rows with separate bounds on x and y (1.2, 1.3).

Both end in :class:`~dpmodels.models.linear.solve.Moments`, in the coordinates of the mapped rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.gram import gram_over
from dpmodels.exact.people import PeopleGramOf
from dpmodels.exact.rowmap import STEPS, OneFirst, RowMap, UnitScale
from dpmodels.exact.sensitivity import (
    INTERCEPT_WEIGHTS,
    add_remove_sensitivity,
    count_weight,
    gram_l1,
    gram_sensitivity,
    intercept_sensitivity,
    separate_sensitivity,
    separate_weights,
)
from dpmodels.exact.symmetric import release_symmetric
from dpmodels.exact.words import LatticeMap
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.sources.summed import summed
from dpmodels.sources.windows import ALL_ROWS, Coins, Windows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.run import Run
    from dpmodels.sources.rows import Rows

__all__ = ["Bounded", "ball_map", "ball_sd", "bounded_plan", "joint_noise", "release_ball"]

Mechanism = Gaussian | Pure


class BallMap(LatticeMap, Protocol):
    """A lattice map whose whole image lies in the ball of ``radius``."""

    @property
    def radius(self) -> float:
        """Of the ball; a lattice step is radius / 2^20."""
        ...


def ball_map(
    unit: UnitScale, radius: float, matrix: Array | None, relation: str = "replace",
    *, people: bool = False,
) -> RowMap:  # fmt: skip
    """Return the row map ``z = min(1, R/|w|) w``, ``w = matrix (scale z + shift)``.

    ``people``: the ball is that of the trace of a person's rows.
    """
    q = len(unit.scale)
    return RowMap(
        unit, np.full(q, radius), ball=q, radius=radius, matrix=matrix
    )


def ball_sd(mechanism: Mechanism, radius: float, q: int, relation: str) -> float:
    """Return s: the noise scale of ``sum z z'`` in svec coordinates.

    Laplace (pure eps): ``s = 2 b_L``, the scale with the same variance off the diagonal.
    """
    if isinstance(mechanism, Pure):
        return 2.0 * gram_l1(q, relation) * radius**2 / mechanism.eps
    return gram_sensitivity(q, relation) * radius**2 / mechanism.mu


def joint_noise(q: int, s: float, mechanism: Mechanism) -> Array:
    """Return the noise variance of each entry of a released (q, q) matrix."""
    V = np.full((q, q), s * s / 2.0)
    if isinstance(mechanism, Gaussian):
        V[np.diag_indices(q)] = s * s
    return V


def release_ball(
    rows: Any,
    design: Design,
    rowmap: BallMap,
    run: Run,
    step: str,
    mechanism: Mechanism,
    relation: str,
    windows: Windows = ALL_ROWS,
    coins: Coins | None = None,
    *,
    people: bool = False,
) -> Array:
    """Release ``Q = sum z z' + noise``, shape (q, q), over the chosen windows or rows.

    Parameters
    ----------
    people : bool
        Rows come by person, and the ball is that of a person's trace (``units/theory.md``, 2).

    Privacy
    -------
    The mechanism of the step, for one row replaced (n public) or added or removed. One pass. In
    integers the row norm is at most 2^20, so the sensitivity is exact. Windows are fixed by
    position: under replace-one a row is in them or not; under add-remove every row is read.
    Coins are secret and independent of everything: for any outcome at most one row of the sample
    changes, and mixtures keep the curve (``models/linear/theory.md`` 3.2).
    """
    if people:
        assert isinstance(rowmap, (RowMap, OneFirst))
        integers = summed(rows, design, PeopleGramOf(rowmap), coins=coins).integers()
    else:
        integers = gram_over(rows, design, rowmap, windows=windows, coins=coins).integers()
    q = len(integers)
    unit = (rowmap.radius / STEPS) ** 2
    if isinstance(mechanism, Gaussian):
        sensitivity = gram_sensitivity(q, relation) * 2.0**40
        return release_symmetric(run, step, integers, sensitivity, unit)
    upper = np.triu_indices(q)
    noisy = run.laplace(step, integers[upper], gram_l1(q, relation) * 2.0**40, unit=unit)
    Q = np.zeros((q, q))
    Q[upper] = noisy
    Q.T[upper] = noisy
    return Q


@dataclass(frozen=True)
class Bounded:
    """The query with separate bounds on x and y, and its noise.

    Attributes
    ----------
    rx, ry : float
        Bounds of the slopes' norm and of the response, in unit rows.
    known : bool
        The first column is an intercept that every complete row has: sums and count are cells.
    weights : (a, b, c, e, f, k)
        At unit radii; e, f and k are 0 without a known intercept.
    S : float
        Sensitivity of the weighted query.
    """

    rx: float
    ry: float
    known: bool
    weights: tuple[float, float, float, float, float, float]
    S: float

    def cell_weights(self, p: int) -> Array:
        """Return the weight of each entry of the upper triangle, (q, q), q = p + 1, response last.

        In real units: the sensitivity of ``weights * cells`` is S.
        """
        a, b, c, e, f, k = self.weights
        W = np.full((p + 1, p + 1), math.sqrt(2.0) * a / self.rx**2)
        W[np.diag_indices(p + 1)] = a / self.rx**2
        W[:p, p] = b / (self.rx * self.ry)
        W[p, p] = c / self.ry**2
        if self.known:
            W[0, :p] = e / self.rx
            W[0, 0] = k
            W[0, p] = f / self.ry
        return W

    def noise(self, p: int, mu: float) -> Array:
        """Return the noise variance of each entry of the released matrix, (q, q)."""
        upper = np.triu((self.S / mu / self.cell_weights(p)) ** 2)
        return np.asarray(upper + np.triu(upper, 1).T)

    def release(self, rows: Rows, design: Design, unit: UnitScale, run: Run, step: str) -> Array:
        """Release the moments of unit rows, (q, q).

        Privacy
        -------
        mu-GDP with the mu of the step. One pass; cells are clipped to [-1, 1] in integers.
        """
        q = design.q
        integers = gram_over(rows, design, RowMap(unit, np.ones(q))).integers()
        upper = np.triu_indices(q)
        noisy = run.gaussian(
            step,
            integers[upper],
            self.S * 2.0**40,
            weights=self.cell_weights(q - 1)[upper],
            unit=STEPS**-2,
        )
        Q = np.zeros((q, q))
        Q[upper] = noisy
        Q.T[upper] = noisy
        return Q


def bounded_plan(p: int, square: float, *, known: bool, relation: str, r2: float) -> Bounded:
    """Choose the weights of the bounded query.

    Parameters
    ----------
    p : int
        Coefficients, intercept included.
    square : float
        Bound on the squared norm of the slopes in unit rows.
    known : bool
    relation : {"replace", "add-remove"}
    r2 : float
        Public guess of the R-squared.
    """
    rx, ry = math.sqrt(square), 1.0
    if known:
        a, b, c, e, f = INTERCEPT_WEIGHTS
        if relation == "replace":
            S = intercept_sensitivity(a, b, c, e, f)
            k = count_weight(S, a, b, c, e, f)
        else:
            k = math.sqrt(5.0)
            S = add_remove_sensitivity(a, b, c, e, f, k)
        return Bounded(rx, ry, True, (a, b, c, e, f, k), S)
    ratio = (p + 1.0) / (2.0 * p) * r2 * rx**2 / ry**2
    a, b, c, S = separate_weights(ratio)
    if relation == "replace":
        S = max(S, separate_sensitivity(a, b, c))
    else:
        S = add_remove_sensitivity(a, b, c)
    return Bounded(rx, ry, False, (a, b, c, 0.0, 0.0, 0.0), S)
