"""Interval arithmetic: from the declared range of a variable to the range of a design column.

An interval is a pair ``(lo, hi)`` of finite floats, or ``None`` when nothing public is known.
Every rule below encloses the exact image; results of operations that are not monotone under
rounding are clipped to their interval when the column is filled, so the bound holds in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dpmodels.variables import LARGEST

__all__ = [
    "Interval",
    "add",
    "divide",
    "even_power",
    "finite",
    "hull",
    "magnitude",
    "monotone",
    "multiply",
    "negate",
    "power",
    "scale",
    "subtract",
]

Interval = tuple[float, float] | None


def finite(pair: tuple[float, float]) -> Interval:
    """Return the pair, or ``None`` when an end is not a number within :data:`LARGEST`."""
    lo, hi = pair
    return (float(lo), float(hi)) if max(abs(lo), abs(hi)) <= LARGEST and lo == lo else None


def negate(a: Interval) -> Interval:
    """Return -a."""
    return None if a is None else (-a[1], -a[0])


def add(a: Interval, b: Interval) -> Interval:
    """Return a + b."""
    return None if a is None or b is None else finite((a[0] + b[0], a[1] + b[1]))


def subtract(a: Interval, b: Interval) -> Interval:
    """Return a - b."""
    return add(a, negate(b))


def multiply(a: Interval, b: Interval) -> Interval:
    """Return a * b: the extreme corner products. 0 times unknown is unknown."""
    if a is None or b is None:
        return None
    corners = [x * y for x in a for y in b]
    return finite((min(corners), max(corners)))


def scale(a: Interval, factor: float) -> Interval:
    """Multiply by a constant."""
    return multiply(a, (factor, factor))


def divide(a: Interval, b: Interval) -> Interval:
    """Return a / b for an interval b that excludes 0."""
    if a is None or b is None:
        return None
    assert b[0] > 0 or b[1] < 0
    corners = [x / y for x in a for y in b]
    return finite((min(corners), max(corners)))


def even_power(a: tuple[float, float], k: int) -> Interval:
    """Return a ** k for even k: 0 is the minimum if 0 is inside."""
    ends = [abs(a[0]), abs(a[1])]
    lo = 0.0 if a[0] <= 0 <= a[1] else min(ends)
    return monotone(lambda t: t**k, (lo, max(ends)))


def power(a: Interval, k: float) -> Interval:
    """Return a ** k; the caller has checked the domain (integer k >= 0, or a positive base)."""
    if k == 0:
        return (1.0, 1.0)
    if a is None:
        return None
    if k == int(k) and k > 0:
        if int(k) % 2 == 0:
            return even_power(a, int(k))
        return monotone(lambda t: t ** int(k), a)
    ends = monotone(lambda t: t**k, a)
    return None if ends is None else (min(ends), max(ends))


def monotone(f: Callable[[float], float], a: Interval) -> Interval:
    """Image of an interval under a monotone function, in order of the ends."""
    if a is None:
        return None
    try:
        return finite((f(a[0]), f(a[1])))
    except (OverflowError, ZeroDivisionError, ValueError):
        return None


def hull(intervals: Iterable[Interval]) -> Interval:
    """Smallest interval that holds all of them; unknown if one is."""
    items = list(intervals)
    known = [a for a in items if a is not None]
    if len(known) < len(items) or not known:
        return None
    return (min(a[0] for a in known), max(a[1] for a in known))


def magnitude(a: Interval) -> float | None:
    """Largest absolute value."""
    return None if a is None else max(abs(a[0]), abs(a[1]))
