"""The row count of public rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

__all__ = ["enough_rows", "guessed_rows", "planning_rows"]


def planning_rows(request: Request, n: int | None) -> int:
    """Return the row count that rules may use: n, or the public guess where n is private."""
    if n is not None:
        return n
    guess = request["n_guess"]
    if guess is None:
        raise RequestError(
            "under relation='add-remove' the number of rows is private: give a public guess of "
            "it for the planning, for example n_guess=10000"
        )
    return int(guess)


def guessed_rows(request: Request) -> float:
    """Return the public guess of the rows of a person; 0 where the unit is a row."""
    return 0.0 if request.unit is None else request.unit.rows


def enough_rows(request: Request, design: Design, n: int | None) -> int:
    """Return the row count of the public rules; refuse fewer rows than coefficients."""
    rows = planning_rows(request, n)
    if request.relation == "replace" and rows <= design.p:
        counted = "rows" if request.unit is None else "people"
        raise RequestError(f"n = {rows} {counted} cannot carry {design.p} coefficients")
    return rows
