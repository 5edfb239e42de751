"""How numbers look in a report, and which coefficients it shows, in which order, by which names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpmodels.errors import RequestError, did_you_mean, shown

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
        same = _common(abs(v) for pair in pairs for v in pair if math.isfinite(v))
        few = max(0, min(decimals, decimals + 3 - same))
        return [_fixed(x, few) if math.isfinite(x) else number(x, decimals) for x, _ in pairs]
    sizes = [max(abs(v) for v in pair if math.isfinite(v)) for pair in pairs if _any_finite(pair)]
    least = min(size for size in sizes if size > 0)
    wanted = 1 - math.floor(math.log10(least))
    if max(sizes) < 1e4 and wanted <= decimals + 2:
        return [_fixed(x, wanted) if math.isfinite(x) else number(x, decimals) for x in cells]
    return [f"{x:.2e}" if math.isfinite(x) else number(x, decimals) for x in cells]


def _common(sizes: Iterable[float]) -> int:
    """Return the digits before the point of the largest number of a column."""
    return len(str(int(max(sizes, default=0.0))))


def decimals_of(errors: Iterable[float], most: int) -> int:
    """Return the decimals of estimates with these errors: at most ``most``, and no finer than this.

    The smallest error has three digits: standard errors are themselves known to a percent or so at
    best, and an estimate to a part of its error.
    """
    sizes = [float(e) for e in errors if math.isfinite(e) and e > 0.0]
    if not sizes:
        return most
    return max(0, min(most, 2 - math.floor(math.log10(min(sizes)))))


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


def _listed(name: str, given: Any) -> list[str]:
    listed = [given] if isinstance(given, str) else list(given or ())
    if not all(isinstance(g, str) for g in listed):
        raise RequestError(f"{name}= takes names of coefficients, or regular expressions of them")
    return listed


def _matches(option: str, wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names an entry stands for: itself, or those that a regular expression finds."""
    if wanted in names:
        return [wanted]
    found: list[str] | None = None
    try:
        found = [name for name in names if re.search(wanted, name)]
    except re.error:
        found = None
    if not found:
        raise RequestError(
            f"{option}: {shown(wanted)} is no coefficient of these fits, nor an expression that "
            f"finds one.{did_you_mean(wanted, names)} Coefficients: {', '.join(names)}"
        )
    return found


def chosen(
    names: Iterable[str], *, order: Any = None, keep: Any = None, drop: Any = None
) -> list[str]:
    """Return the coefficients to show.

    Parameters
    ----------
    names : iterable of str
    order, keep, drop : str or list of str, optional
        Names, or regular expressions. ``order``: these first.
    """
    every = list(names)
    out = every
    if keep is not None:
        kept = {n for w in _listed("keep", keep) for n in _matches("keep", w, every)}
        out = [n for n in out if n in kept]
    if drop is not None:
        gone = {n for w in _listed("drop", drop) for n in _matches("drop", w, every)}
        out = [n for n in out if n not in gone]
    if order is not None:
        first = [n for w in _listed("order", order) for n in _matches("order", w, every)]
        front = [n for n in dict.fromkeys(first) if n in out]
        out = [*front, *(n for n in out if n not in front)]
    if not out:
        raise RequestError("keep= and drop= leave no coefficient to show")
    return out


def labelled(name: str, labels: Mapping[str, str] | None) -> str:
    """Return the label of a coefficient; of an interaction, the labels of its parts."""
    if not labels:
        return name
    if not isinstance(labels, Mapping):
        raise RequestError("labels= takes a mapping, {'age': 'Age in years'}")
    if name in labels:
        return str(labels[name])
    parts = name.split(":")
    if len(parts) > 1 and any(part in labels for part in parts):
        return " \u00d7 ".join(str(labels.get(part, part)) for part in parts)
    return name
