"""What a fit of many columns takes, from public numbers: said beforehand, refused if too much.

A factor has a column for each level but one, and a fit releases matrices of columns by columns:
memory and noise grow with the square, their algebra with the third power of the number of levels.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

__all__ = ["Size", "check_size", "memory_of_machine", "size_of"]

#: Verbs that release matrices of columns by columns.
_OF_MATRICES = ("dp_glm", "dp_mest", "dp_moments", "dp_ols", "dp_pca", "dp_quantreg")
#: Seconds a cell of a design, of a matrix, and a product of three of its sides: dp_ols of one
#: factor of 400 to 1600 levels and 2000 to 100 000 rows, one core of a machine of 2024. Good to a
#: factor of two there. (dp_glm takes the same, other endings up to a half more or less.)
_CELL, _ENTRY, _ALGEBRA = 3e-10, 4.5e-6, 6e-9
#: Bytes an entry of a matrix, at the peak: exact integers, noise, their floats (660 to 980 there).
_BYTES = 1000.0
#: Seconds that are worth a word; part of the machine's memory that a fit may take.
SLOW, ROOM = 20.0, 0.8
#: Levels that are said to be the reason.
_MANY = 50


@dataclass(frozen=True)
class Size:
    """Estimated seconds and bytes of a fit of p columns."""

    p: int
    seconds: float
    bytes: float

    def __str__(self) -> str:
        size = self.bytes / 2**30
        said = f"{size:.1f} GB" if size < 100 else f"{size:,.0f} GB"
        return f"{_time(self.seconds)} and {said} of memory"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:,.0f} hours"


def size_of(p: int, n: int) -> Size:
    """Return what a fit of p columns and n rows takes. Public numbers only."""
    square = float(p) * p
    seconds = _CELL * n * square + _ENTRY * square + _ALGEBRA * square * p
    return Size(p, seconds, _BYTES * square)


def memory_of_machine() -> float:
    """Return the bytes of memory of this machine; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def check_size(request: Request, design: Design, n: int | None) -> tuple[str, ...]:
    """Return advice on a design that takes long; refuse one that memory does not hold.

    Called before anything is read or charged. No row count is asked for under add-remove, where it
    is private: the columns alone decide.
    """
    if request.verb not in _OF_MATRICES or "release" in request.method.accepts:
        return ()
    size = size_of(design.p, n or 0)
    room = ROOM * memory_of_machine()
    if size.bytes <= room and size.seconds < SLOW:
        return ()
    levels = {
        name: len(variable.codes)
        for name, variable in design.schema.variables.items()
        if getattr(variable, "codes", None) is not None and len(variable.codes) >= _MANY
    }
    why = ", ".join(f"{name!r} has {k:,} levels" for name, k in levels.items())
    said = f"{design.p:,} coefficients{f' ({why})' if why else ''} take {size}"
    if size.bytes <= room:
        return (f"{said} (a rough estimate from public numbers)",)
    raise RequestError(
        f"{said}, more than this machine has to spare ({room / 2**30:.1f} GB); nothing was read or "
        "charged. A factor costs one coefficient a level: merge levels (regions for cities), or "
        "leave it out. If it says whose row it is, unit= protects that person and clusters errors "
        "by person, without any coefficient for it"
    )
