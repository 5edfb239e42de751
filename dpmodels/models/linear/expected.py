"""Expected privacy errors of a moment fit, before any data: for ``plan()``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.exact.queries import ball_sd
from dpmodels.exact.rowmap import unit_scale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.mechanisms import Gaussian, Pure

__all__ = ["expected_se"]

#: Spread (sd) of a column, and of the residual, in half ranges: a quarter of the range.
_SPREAD = 0.5


def expected_se(
    design: Design,
    mechanism: Gaussian | Pure,
    radius: float,
    n: int,
    relation: str,
    *,
    whitened: bool,
) -> dict[str, float]:
    """Return the expected privacy error of each coefficient (``theory.md``, 3.5).

    Assumed (public, not data): uncorrelated columns about the middle of their ranges, their sd
    and the residual's a quarter of the range. An entry of ``X'y`` has noise sd ``s / sqrt 2``; in
    whitened rows its second moments are n I, in unit rows n times the square of the spread.
    """
    unit = unit_scale(design)
    A, _ = unit.back()
    if not np.isfinite(A).all():
        return {}
    noise = ball_sd(mechanism, radius, design.q, relation) / math.sqrt(2.0) / n
    flat = np.array([c.kind == "intercept" for c in design.columns])
    slope = np.where(flat, 1.0, _SPREAD)
    # whitened: residual in units of its sd, column in units of its own; else 1 / second moment
    size = _SPREAD / slope if whitened else 1.0 / slope**2
    se = noise * np.sqrt(np.sum((A * size) ** 2, axis=1))
    return dict(zip(design.names, se.tolist(), strict=True))
