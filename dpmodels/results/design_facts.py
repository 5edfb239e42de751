"""What this room reads of a design: response, intervals, row norm. All public or bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

__all__ = ["event", "interval_of", "ranged", "response", "row_norm", "rows_used"]


def row_norm(design: Design) -> float:
    """Return the bound on the Euclidean norm of a row of X; NaN if a range is not known."""
    return float(design.row_norm())


def response(design: Design) -> str:
    """Return the name of the response; empty if there is none."""
    return "" if design.response is None else design.response.name


def event(design: Design) -> str:
    """Return ``income = '>50K'`` for a two-level response, whose second level is the event."""
    levels = design.levels if design.response_ok == "event" else ()
    named = len(levels) == 2 and design.response is not None and levels[1] not in (1, True)
    return f"{response(design)} = {levels[1]!r}" if named else ""


def rows_used(design: Design) -> list[tuple[str, str]]:
    """Return the arguments that choose or weigh rows, as header pairs."""
    said = [("Subset", design.subset), ("Weights", design.weights)]
    return [(label, str(text)) for label, text in said if text]


def ranged(design: Design) -> bool:
    """Return whether the range of any column is in force."""
    return any(c.interval is not None for c in design.z if c.kind != "intercept")


def interval_of(design: Design, column: str) -> tuple[float, float] | None:
    """Return the interval in force of a design column or the response, None if unknown."""
    return next((c.interval for c in design.z if c.name == column), None)
