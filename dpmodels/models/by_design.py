"""Errors by design of linearised statistics: of tables and quantiles, from one pass by cluster.

Each coordinate of the pass is one ``z`` (the part of a row in the error of a share, a mean, a rank)
times a public or released factor, so that rows need hardly be clipped. What comes back is a *design
effect*: the released product over what rows drawn one by one would have, shrunk to the average of
all coordinates as far as its noise is larger than effects differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.end import end_along
from dpmodels.exact.products import squares
from dpmodels.scoring.cluster_rules import FLOOR

if TYPE_CHECKING:
    from dpmodels.scoring.cluster_rules import ClusterPlan
    from dpmodels.scoring.clusters import ClusterRelease

#: sd of design effects about their average, over it: a guess, by which single ones are shrunk.
DIFFER = 0.5
#: Noise of the average design effect over it, above which none is given.
TOO_LOUD = 0.7
#: A weight in units of the root mean square one that still fits where rows are not clipped.
_HEAVY = 1.5


def clipped(z: Array, factor: Array, clip: float) -> Array:
    """Return linearised rows (d, m) times their factors in the ball of C: lattice integers."""
    length = np.sqrt(squares(z))
    return end_along(z, length, clip, np.minimum(length * np.abs(factor), clip), factor)


def scale_for(variance: Array, reach: Array, square: float, clip: Array) -> Array:
    """Return factors that give coordinates variance 1 a row, less where rows would be clipped.

    Parameters
    ----------
    variance : (d,) array
        Of z among rows, for weights of mean square 1.
    reach : (d,) array
        How long the z of a row of weight 1 may be.
    square : float
        Mean of u^2.
    clip : (d,) array
        Length that coordinates may have.
    """
    heavy = min(1.0 / math.sqrt(max(square, 1e-12)), _HEAVY)
    sd = np.maximum(np.sqrt(np.maximum(variance, 0.0)), reach * heavy / clip)
    return np.asarray(1.0 / (sd * math.sqrt(max(square, 1e-12))))


@dataclass(frozen=True, eq=False)
class DesignErrors:
    """What a pass by cluster says of linear functions of its coordinates. Released numbers only.

    Attributes
    ----------
    found : ClusterRelease
    scale : (d,) array
        z times this is a coordinate.
    typical : (d,) array
        Of each coordinate, its variance a row where rows are drawn one by one; 0: it does not
        count in the average.
    n : int
    level : float
    """

    found: ClusterRelease
    scale: Array
    typical: Array
    n: int
    level: float

    @property
    def _noise(self) -> float:
        """Noise sd of an entry of J on the diagonal, per row."""
        return self.found.noise_sd

    @property
    def average(self) -> tuple[float, float]:
        """Design effect of all coordinates together, and the sd of its noise."""
        whole = max(float(self.typical.sum()), 1e-12)
        own = self.typical > 0.0
        J = self.found.correction * np.diag(self.found.products[0])[own]
        sd = self._noise * math.sqrt(len(J)) / whole
        return max(float(J.sum()) / whole, FLOOR), sd

    @property
    def determined(self) -> bool:
        """Whether there are errors by design."""
        mean, sd = self.average
        return not self.found.few and sd <= TOO_LOUD * mean

    def effects(self, L: Array, rows: Array) -> tuple[Array, Array]:
        """Return (design effects, factors of a normal quantile that allow for degrees of freedom).

        Parameters
        ----------
        L : (k, d) array
            Functions of z.
        rows : (k,) array
            Sum over rows of their squares, as if rows were drawn one by one.

        Notes
        -----
        A design effect below .7 is not believed. Degrees of freedom are those of the design less
        what the noise takes (Satterthwaite).
        """
        if not self.determined:
            return np.full(len(L), math.nan), np.ones(len(L))
        mean, sd_mean = self.average
        J = self.found.correction * self.found.products[0]
        v = L / self.scale
        each = np.maximum(rows / self.n, 1e-100)  # of an empty cell; its square is a float
        own = np.einsum("ki,ij,kj->k", v, J, v) / each
        sd = self._noise * np.einsum("ki,ki->k", v, v) / each
        weight = (DIFFER * mean) ** 2 / ((DIFFER * mean) ** 2 + sd**2)
        effect = np.maximum(weight * own + (1.0 - weight) * mean, FLOOR)
        error = np.hypot(weight * sd, (1.0 - weight) * sd_mean) / effect
        free = 1.0 / (1.0 / self.found.df + error**2 / 2.0)
        return effect, t_factor(free, self.level)


def t_factor(df: Array, level: float) -> Array:
    """Return the quantile of t over that of a normal."""
    from scipy.special import ndtri, stdtrit

    tail = (1.0 + level) / 2.0
    free = np.minimum(np.maximum(df, 1.0), 1e9)
    return np.asarray(stdtrit(free, tail) / ndtri(tail))


def said(plan: ClusterPlan, found: ClusterRelease) -> str:
    """Say what errors by design rest on, and whom the guarantee protects."""
    survey = plan.frame.survey
    if survey.psu is None:
        units = "rows as PSUs"
    else:
        which = "bought, with noise" if plan.count else "declared"
        units = f"{found.clusters:.0f} PSUs ({which})"
    free = "" if math.isinf(found.df) else f", {found.df:.0f} degrees of freedom"
    return (
        f"Design: {units}{free}; {plan.centring}. The guarantee protects one row, not one "
        f"{survey.psu or 'PSU'} with all its rows."
    )
