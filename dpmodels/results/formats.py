"""How numbers look in a summary. Pure functions from a float to a short text."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["column", "greek", "interval", "number", "p_value", "pair", "percent", "share"]

MISSING = "n/a"


def number(x: float, decimals: int, beside: float = 0.0) -> str:
    """Return ``x`` with ``decimals`` decimals; fewer when it is large, ``1.23e-05`` when tiny.

    Tiny is judged by the larger of ``x`` and ``beside``: an end of an interval near zero is not
    tiny if the other end is far.
    """
    if math.isnan(x):
        return MISSING
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    size = abs(x)
    if _is_odd(x, decimals, beside):
        return f"{x:.2e}"
    whole = len(str(int(size)))
    return _fixed(x, max(0, min(decimals, decimals + 3 - whole)))


def _is_odd(x: float, decimals: int, beside: float = 0.0) -> bool:
    """Return whether a number is too large or too small for decimals."""
    if not math.isfinite(x):
        return False
    size = abs(x)
    return size >= 1e7 or (size > 0 and max(size, abs(beside)) < 10.0 ** -max(decimals - 1, 3))


def column(
    values: Iterable[float], decimals: int, beside: Iterable[float] | None = None
) -> list[str]:
    """Return the numbers of a column in one notation.

    Where a number is too small for ``decimals``, the column gets up to two decimals more; if they
    do not do, or a number is too large, all cells have an exponent. With ``beside``, the other
    ends of intervals, both columns come to the same.
    """
    cells = [float(x) for x in values]
    others = [0.0] * len(cells) if beside is None else [float(x) for x in beside]
    pairs = list(zip(cells, others, strict=True))
    if not any(_is_odd(x, decimals, w) or _is_odd(w, decimals, x) for x, w in pairs):
        return [number(x, decimals, w) for x, w in pairs]
    sizes = [max(abs(v) for v in pair if math.isfinite(v)) for pair in pairs if _any_finite(pair)]
    least = min(size for size in sizes if size > 0)
    wanted = 1 - math.floor(math.log10(least))
    if max(sizes) < 1e4 and wanted <= decimals + 2:
        return [_fixed(x, wanted) if math.isfinite(x) else number(x, decimals) for x in cells]
    return [f"{x:.2e}" if math.isfinite(x) else number(x, decimals) for x in cells]


def _any_finite(pair: tuple[float, float]) -> bool:
    return any(map(math.isfinite, pair))


def _fixed(x: float, decimals: int) -> str:
    text = f"{x:.{decimals}f}"
    return text[1:] if float(text) == 0 and text.startswith("-") else text


def tested(cells: Iterable[str], untested: Iterable[bool] | None) -> list[str]:
    """Return the cells of z or p, "n/d" where a coefficient is not determined."""
    given = list(cells)
    if untested is None:
        return given
    return ["n/d" if gone else cell for cell, gone in zip(given, untested, strict=True)]


def p_value(p: float) -> str:
    """Return a p-value: ``< 1e-16``, three digits below 1e-4, else four decimals."""
    if math.isnan(p):
        return MISSING
    if p < 1e-16:
        return "< 1e-16"
    return f"{p:.2e}" if p < 1e-4 else f"{p:.4f}"


def share(x: float) -> str:
    """Return a share of a budget as ``.20``."""
    text = f"{x:.2f}"
    return text[1:] if text.startswith("0.") else text


def percent(x: float) -> str:
    """Return a share as ``62 %``."""
    return MISSING if math.isnan(x) else f"{100 * x:.0f} %"


def stars(p: float) -> str:
    """Return R's significance stars."""
    if math.isnan(p):
        return ""
    cuts = ((1e-3, "***"), (1e-2, "**"), (5e-2, "*"), (0.1, "."))
    return next((mark for cut, mark in cuts if p < cut), "")


def interval(bounds: tuple[float, float]) -> str:
    """Return ``[8, 15]``."""
    return f"[{bounds[0]:.6g}, {bounds[1]:.6g}]"


def greek(statement: str) -> str:
    """Return a privacy statement with the letters of the field."""
    return statement.replace("eps =", "ε =").replace("delta =", "δ =")


def pair(eps: float, delta: float) -> str:
    """Return ``(ε = 1, δ = 1e-06)``."""
    return f"(ε = {eps:g}, δ = {delta:g})"
