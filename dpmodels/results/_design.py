"""What this room reads of a design: response, intervals, row norm. All public or bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["interval_of", "response", "row_norm"]


def row_norm(design: Design) -> float:
    """Return the bound on the Euclidean norm of a row of X; NaN if a range is not known."""
    return float(design.row_norm())


def response(design: Design) -> str:
    """Return the name of the response; empty if there is none."""
    return "" if design.response is None else design.response.name


def interval_of(design: Design, column: str) -> tuple[float, float] | None:
    """Return the interval in force of a design column or the response, None if unknown."""
    return next((c.interval for c in design.z if c.name == column), None)
