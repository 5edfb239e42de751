"""Released coefficients of ``dp_ate`` and the influence functions there, as data. Sees no row."""

from __future__ import annotations

from dataclasses import dataclass

from dpmodels.arrays import Array
from dpmodels.families import Link


@dataclass(frozen=True, eq=False)
class Fitted:
    """Released coefficients of one nuisance model, at the rows of the joint design."""

    places: tuple[int, ...]  # Rows of the block that hold its columns
    coef: Array  # (p,)
    root: Array  # (p, k): root of the privacy covariance of the coefficients
    bread: Array  # (p, p): inverse information per unit
    back: Array  # (p, k): its coefficients are those of the fit times this
    mean_weight: float = 1.0  # Weights count over it in the scores of the fit


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence functions of two arms at released coefficients: public and released numbers."""

    estimand: str  # "ATE" or "ATT"
    treated: int  # Row of the block with the treatment, 0 or 1
    weights: int | None  # Row with the weights, or None
    top: float  # Largest declared weight: a row counts as w / top
    clip: tuple[float, float]  # Bounds of the propensity
    propensity: Fitted
    outcomes: tuple[Fitted | None, Fitted]  # (treated, control); None for the treated of the ATT
    link: Link  # Link of the outcome models
    most: float  # Largest declared response

    @property
    def blocks(self) -> tuple[tuple[Fitted, int, bool], ...]:
        """(model, arm, whether it is the propensity) of each block of derivatives."""
        treated_model, control_model = self.outcomes
        treated = () if treated_model is None else (
            (self.propensity, 0, True), (treated_model, 0, False),
        )  # fmt: skip
        return (*treated, (self.propensity, 1, True), (control_model, 1, False))
