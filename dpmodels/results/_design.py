"""What this room reads of a design: names, response, intervals, row norm. All public."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["interval_of", "response", "row_norm"]


def row_norm(design: Any) -> float:
    """Return the bound on the Euclidean norm of a row of X; NaN if it is not known."""
    value = getattr(design, "row_norm", None)
    if callable(value):
        value = value()
    return float("nan") if value is None else float(value)


def response(design: Any) -> str:
    """Return the text of the response."""
    return str(getattr(design, "response", ""))


def interval_of(design: Any, column: str) -> tuple[float, float] | None:
    """Return the interval in force of a design column, None if it has none."""
    intervals = getattr(design, "intervals", None)
    if intervals is None:
        return None
    found = intervals.get(column) if hasattr(intervals, "get") else None
    if found is None:
        return None
    lower, upper = np.asarray(found, dtype=float)
    return float(lower), float(upper)
