"""Numbers as text: each with two significant digits of its own standard error, or more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

#: A number that is not known.
MISSING = "n/a"
#: With more decimals numbers below a size are written with an exponent; and all from a size on.
_DECIMALS, _SMALL_NUMBER, _LARGE = 6, 0.1, 1e7


def number(x: float, decimals: int) -> str:
    """Return ``x`` with ``decimals`` decimals; fewer when it is large, ``1.23e-05`` when tiny."""
    if not math.isfinite(x):
        return _odd(x)
    size = abs(x)
    if size >= _LARGE or 0.0 < size < 10.0 ** -max(decimals - 1, 3):
        return f"{x:.2e}"
    digits = len(str(int(size)))
    return fixed(x, max(0, min(decimals, decimals + 3 - digits)))


def fixed(x: float, decimals: int) -> str:
    """Return ``x`` with ``decimals`` decimals, and no minus before a zero."""
    text = f"{x:.{decimals}f}"
    return text[1:] if float(text) == 0 and text.startswith("-") else text


def space_thousands(x: float) -> str:
    """Return a whole number with spaces between thousands: ``1 020``."""
    return f"{x:,.0f}".replace(",", " ")


def places(errors: Iterable[float], digits: int) -> list[int | None]:
    """Return the decimals of a row with each error; below 0 tens are not known either.

    An error shows two significant digits, and a third if ``digits`` decimals are enough for it:
    errors are themselves known to a percent or so at best. None where there is no error.
    """
    decimals: list[int | None] = []
    for error in map(float, errors):
        if not (math.isfinite(error) and error > 0.0):
            decimals.append(None)
            continue
        two = 1 - math.floor(math.log10(error))
        decimals.append(max(two, min(digits, two + 1)))
    return decimals


def cell(x: float, decimals: int | None, digits: int) -> str:
    """Return a number with the decimals of its row, or as :func:`number` if they are None."""
    if not math.isfinite(x):
        return _odd(x)
    if decimals is None:
        return number(x, digits)
    if x == 0.0:
        return fixed(x, min(max(decimals, 0), _DECIMALS))
    if (decimals > _DECIMALS and abs(x) < _SMALL_NUMBER) or abs(x) >= _LARGE:
        significant = math.floor(math.log10(abs(x))) + decimals
        return f"{x:.{min(max(significant, 1), 15)}e}"
    return fixed(x, max(decimals, 0))


def to_error(x: float, digits: int, error: float = math.nan) -> str:
    """Return ``x`` with two digits of its error or more; "." where it is not known."""
    (few,) = places([error], digits)
    return "." if math.isnan(x) else cell(x, few, digits)


def by_row(values: Iterable[float], rows: Iterable[int | None], digits: int) -> list[str]:
    """Return a column of numbers, with the decimals of each row (:func:`places`)."""
    return [cell(float(x), few, digits) for x, few in zip(values, rows, strict=True)]


def spread_of(low: Any, high: Any) -> Any:
    """Return the standard error that a 95 % interval implies; NaN if an end is not known."""
    return (high - low) / 3.92


def _odd(x: float) -> str:
    if math.isnan(x):
        return MISSING
    return "inf" if x > 0 else "-inf"
