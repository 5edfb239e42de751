"""What a fit by moments is made from: released stages, and the facts of its report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.models.linear.solve import Moments

if TYPE_CHECKING:
    from dpmodels.exact.rowmap import UnitScale
    from dpmodels.formula.design import Design
    from dpmodels.request import Request


@dataclass(frozen=True)
class Stage:
    """One released matrix of second moments, in the coordinates of its mapped rows.

    Attributes
    ----------
    Q : (q, q) array
        Response last.
    V : (q, q) array
        Noise variance of each entry.
    L : (q, q) array
        Lower triangular: unit rows are ``L`` times mapped rows (before the ball).
    radius : float
        Of the ball; infinity: none.
    """

    Q: Array
    V: Array
    L: Array
    radius: float

    @property
    def moments(self) -> Moments:
        """Return the blocks as moments of (x, y)."""
        p = len(self.Q) - 1
        Q, V = self.Q, self.V
        return Moments(Q[:p, :p], Q[:p, p], float(Q[p, p]), V[:p, :p], V[:p, p], float(V[p, p]))

    @property
    def s(self) -> float:
        """Largest noise scale of the matrix in svec coordinates."""
        upper = np.triu_indices(len(self.V), 1)
        return math.sqrt(max(float(np.diag(self.V).max()), 2.0 * float(self.V[upper].max())))

    def back(self, d: Array) -> Array:
        """Return unit-row coefficients ``b_B + L_yy L_xx^{-T} d``."""
        p = len(d)
        Lx = self.L[:p, :p]
        centre = self.L[p, :p] + self.L[p, p] * d
        return np.asarray(np.linalg.solve(Lx.T, centre))

    @property
    def slope(self) -> Array:
        """Return ``L_yy L_xx^{-T}``: derivative of :meth:`back`."""
        p = len(self.L) - 1
        return np.asarray(self.L[p, p] * np.linalg.inv(self.L[:p, :p]).T)

    def effective_rows(self, n: int, unit: UnitScale, *, intercept: bool) -> float:
        """Return n_eff: the released sum of squared row weights, between n/10 and n.

        Rows voided by a missing cell do not count. Without an intercept it is n.
        """
        if not intercept:
            return float(n)
        return min(
            float(n), max(float(self.Q[0, 0]) * float(self.L[0, 0] / unit.scale[0]) ** 2, n / 10.0)
        )


@dataclass(frozen=True)
class Report:
    """What a report of a moment fit needs.

    Attributes
    ----------
    rows : int
        n, or the public guess.
    towards : str
        What the ridge shrinks towards, in words.
    biased_errors : bool
        Print standard errors (with a warning) even where the ridge is active.
    notes, warnings : tuple of str
        Of the method, before those of this module.
    scores : Scores or None
        Of the last stage, for errors that allow unequal variances; None: one residual variance.
    """

    design: Design
    unit: UnitScale
    stages: tuple[Stage, ...]
    rows: int
    request: Request
    towards: str
    biased_errors: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    stats: tuple[tuple[str, float], ...] = ()
    arrays: tuple[tuple[str, Array], ...] = ()
    scores: Scores | None = None

    @property
    def known(self) -> bool:
        """Whether the first cell of every complete row is 1."""
        return self.design.has_intercept and not self.design.scaled


@dataclass(frozen=True)
class Errors:
    """Covariances of the working coefficients d, residual variance v, and the meat.

    ``meat``, (p, p): covariance of the score ``h0 - M0 d0``; ``v M`` under one variance.
    ``taken``, (p,): what row weights may have taken off d.
    ``unknown``, (p,): coefficients in the user's units that the release does not determine.
    """

    sampling: Array
    privacy: Array
    v: float
    meat: Array
    taken: Array
    unknown: npt.NDArray[np.bool_] | None = None


# -- The meat of a sandwich: released moments of scores, and what they say. Sees no row


@dataclass(frozen=True, eq=False)
class Scores:
    """Released second moments of whitened scores (``scores.py``).

    Attributes
    ----------
    inside : (p, p) array
        Of ``K^{-1} g`` over the rows, noise included; g is the score in the stage's coordinates.
    K : (p, p) array
        Lower triangular.
    radius : float
        Of the ball the whitened scores were scaled into.
    sd : float
        Noise scale of S in svec coordinates.
    outside : (p, p) array or None
        Of the rows that were scaled onto the ball of the stage; ``inside`` is then the others.
    """

    inside: Array
    K: Array
    radius: float
    sd: float
    outside: Array | None = None

    @property
    def S(self) -> Array:
        """Return the moments over all rows."""
        return self.inside if self.outside is None else self.inside + self.outside

    @property
    def values(self) -> dict[str, Array]:
        """Return the released matrices by name."""
        both = {"scores": self.inside, "scores outside": self.outside}
        return {name: S for name, S in both.items() if S is not None}

    @property
    def meat(self) -> Array:
        """Return the second moments of the scores.

        Eigenvalues of S are floored at its noise scale, which is public given the radius: no
        variance is reported that is below the noise it was measured with.
        """
        values, vectors = np.linalg.eigh(self.S)
        root = self.K @ vectors * np.sqrt(np.maximum(values, self.sd))
        return np.asarray(root @ root.T)

    def weighting(self, radius: float, free: float) -> Array:
        """Return ``J = (I - kappa)^{-1}``, (p, p); the identity where rows were not kept apart.

        ``kappa = M^{-1} (2/R^2) sum g g'`` over the rows on the ball of ``radius`` is what the
        row weights take off a deviation from its centre (4.3). Its eigenvalues are held between 0
        and 1/2: the formula is of first order.
        """
        p = len(self.K)
        if self.outside is None:
            return np.eye(p)
        values, vectors = np.linalg.eigh(self.outside)
        kappa = np.clip(2.0 / radius**2 * values / (free + p), 0.0, 0.5)
        inner = (vectors / (1.0 - kappa)) @ vectors.T
        return np.asarray(np.linalg.solve(self.K.T, inner @ self.K.T))

    def noise(self, free: float, v: float) -> float:
        """Return the noise of a variance of the sandwich, relative to it: ``sd / (n_eff v)``."""
        return self.sd / ((free + len(self.S)) * v)

    def note(self, free: float, v: float) -> str:
        """Say what the standard errors cover, and how noisy they are themselves."""
        noise = self.noise(free, v)
        return (
            "Errors allow unequal variances (vcov='hetero': HC1 sandwich of the weighted least "
            "squares of the last stage, from one more release, the moments of its scores: see the "
            "budget), not correlated rows. The noise of that release has mean zero and is about "
            f"{noise:.1%} of a variance, {noise / 2.0:.1%} of a standard error; intervals are not "
            "widened for it."
        )
