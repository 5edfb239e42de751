"""Released coefficients of ``dp_ate`` and the influence functions there, as data. Sees no row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.families import Link
from dpmodels.opaque import Rows


@dataclass(frozen=True, eq=False)
class Fitted:
    """Released coefficients of one nuisance model, at the rows of the joint design."""

    places: tuple[int, ...]  # Rows of the block that hold its columns
    coef: Array  # (p,)
    root: Array  # (p, k): root of the privacy covariance of the coefficients
    bread: Array  # (q, p): columns of the inverse information per unit of the fit's coefficients
    back: Array  # (p, q): its coefficients are those of the fit times this
    into: Array  # (k, l): the noise along ``root`` is this times the noise of the fit
    mean_weight: float = 1.0  # Weights count over it in the scores of the fit
    fold: int | None = None  # Row of the block with the half of a row, 0 or 1
    crossed: tuple[bool, ...] = ()  # Columns times the half, if there are halves

    def factors(self, half: Any) -> Any:
        """Return the factors of the columns: the half (of rows, or one number), or 1."""
        return np.where(np.array(self.crossed), half, 1.0)

    def columns(self, z: Rows, *, in_fit: bool = False) -> Rows:
        """Return columns for the coefficients of the other half, or with ``in_fit`` of this one."""
        x = z[list(self.places)]
        if self.fold is None:
            return x
        half = z[self.fold]
        return x * self.factors(half if in_fit else 1.0 - half)

    def at_mean(self, row: Array) -> Array:
        """Return the columns at the mean row, which is in either half by chance."""
        x = row[list(self.places)]
        return x if self.fold is None else np.asarray(x * self.factors(0.5))


@dataclass(frozen=True, eq=False)
class Assignment:
    """A released propensity model, and where treatment and weights stand."""

    estimand: str  # "ATE" or "ATT"
    treated: int  # Row of the block with the treatment, 0 or 1
    weights: int | None  # Row with the weights, or None
    top: float  # Largest declared weight: a row counts as w / top
    propensity: Fitted


@dataclass(frozen=True, eq=False)
class Influence(Assignment):
    """Influence functions of two arms at released coefficients: public and released numbers."""

    clip: tuple[float, float]  # Bounds of the propensity
    outcomes: tuple[Fitted, Fitted]  # (treated, control)
    link: Link  # Link of the outcome models
    most: float  # Largest declared response

    @property
    def blocks(self) -> tuple[tuple[Fitted, int, bool], ...]:
        """(model, arm, whether it is the propensity) of each block of derivatives."""
        arms = (0, 1) if self.estimand == "ATE" else (1,)
        fits = ((self.propensity, True), (None, False))
        return tuple((fit or self.outcomes[arm], arm, of_e) for arm in arms for fit, of_e in fits)
