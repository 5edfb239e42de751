"""Numbers of tables as text."""

from __future__ import annotations

import math

__all__ = ["number"]


def number(x: float, decimals: int) -> str:
    """Return ``x`` with ``decimals`` decimals, fewer where it is large, an exponent where tiny."""
    if not math.isfinite(x):
        return "." if math.isnan(x) else f"{x:g}"
    size = abs(x)
    if size >= 1e9 or 0.0 < size < 10.0 ** -(decimals + 1):
        return f"{x:.2e}"
    whole = len(str(int(size)))
    text = f"{x:.{max(0, min(decimals, decimals + 3 - whole))}f}"
    return text.replace("-0.0", "0.0") if float(text) == 0.0 else text
