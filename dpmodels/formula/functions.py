"""The allow-list: elementwise functions with the interval they map to.

``register_rowwise`` adds to it; a registration is a claim, made by the caller, that the function
is elementwise and stays inside the interval. We clip its values to that interval in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError, shown
from dpmodels.variables import LARGEST

# -- Interval arithmetic: from the declared range of a variable to the range of a design column


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


@dataclass(frozen=True)
class Elementwise:
    """A function of one number.

    Attributes
    ----------
    values : callable
        On arrays; outside its domain the value is NaN (missing), never infinite by a pole.
    image : callable
        Interval -> interval.
    domain : (float, float, bool)
        Open or closed lower end of the domain: ``(lower, upper, open)``.
    range : interval
        Image of the whole line, for an argument whose range is not declared.
    """

    values: Callable[[Any], Any]
    image: Callable[[Interval], Interval]
    domain: tuple[float, bool] | None = None
    range: Interval = None


def _masked(f: Callable[[Any], Any], low: float, strict: bool) -> Callable[[Any], Any]:
    """Return f with NaN outside ``x > low`` (or ``x >= low``)."""

    def values(x: Any) -> Any:
        inside = x > low if strict else x >= low
        return np.where(inside, f(np.where(inside, x, 1.0)), np.nan)

    return values


def _logistic(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def _logistic1(x: float) -> float:
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0 else e / (1.0 + e)


def _abs_image(a: Interval) -> Interval:
    if a is None:
        return None
    top = magnitude(a)
    assert top is not None
    return (0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1])), top)


def _wave_image(phase: float) -> Callable[[Interval], Interval]:
    """Image of sin(x + phase): end points, and +-1 where a crest or trough lies inside."""

    def image(a: Interval) -> Interval:
        if a is None or a[1] - a[0] >= 2 * math.pi:
            return (-1.0, 1.0)
        lo, hi = a[0] + phase, a[1] + phase
        ends = (math.sin(lo), math.sin(hi))
        crest = math.ceil((lo - math.pi / 2) / (2 * math.pi)) * 2 * math.pi + math.pi / 2
        trough = math.ceil((lo + math.pi / 2) / (2 * math.pi)) * 2 * math.pi - math.pi / 2
        return (
            -1.0 if trough <= hi else min(ends),
            1.0 if crest <= hi else max(ends),
        )

    return image


def _mono(f: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda a: monotone(f, a)


#: name -> elementwise function; also reachable as ``np.name`` where numpy has it
FUNCTIONS: dict[str, Elementwise] = {
    "log": Elementwise(_masked(np.log, 0.0, True), _mono(math.log), (0.0, True)),
    "log2": Elementwise(_masked(np.log2, 0.0, True), _mono(math.log2), (0.0, True)),
    "log10": Elementwise(_masked(np.log10, 0.0, True), _mono(math.log10), (0.0, True)),
    "log1p": Elementwise(_masked(np.log1p, -1.0, True), _mono(math.log1p), (-1.0, True)),
    "exp": Elementwise(np.exp, _mono(math.exp)),
    "expm1": Elementwise(np.expm1, _mono(math.expm1)),
    "sqrt": Elementwise(_masked(np.sqrt, 0.0, False), _mono(math.sqrt), (0.0, False)),
    "abs": Elementwise(np.abs, _abs_image),
    "sin": Elementwise(np.sin, _wave_image(0.0), range=(-1.0, 1.0)),
    "cos": Elementwise(np.cos, _wave_image(math.pi / 2), range=(-1.0, 1.0)),
    "tanh": Elementwise(np.tanh, _mono(math.tanh), range=(-1.0, 1.0)),
    "arctan": Elementwise(np.arctan, _mono(math.atan), range=(-math.pi / 2, math.pi / 2)),
    "logistic": Elementwise(_logistic, _mono(_logistic1), range=(0.0, 1.0)),
}

#: names with a meaning of their own in a formula; a variable may not be called like one
RESERVED: frozenset[str] = frozenset(
    {*FUNCTIONS, "I", "C", "clip", "cut", "minimum", "maximum", "bs", "poly", "legendre"}
    | {"scale", "center", "unit", "hashed", "offset", "np", "contr", "dp"}
)


@dataclass(frozen=True)
class Rowwise:
    """A user's elementwise function: one or more numbers in, one number out."""

    name: str
    func: Callable[..., Any]
    interval: Interval | Callable[..., Any]

    def image(self, arguments: tuple[Interval, ...]) -> Interval:
        """Return the declared interval (a callable receives the argument intervals)."""
        if not callable(self.interval):
            return self.interval
        if any(a is None for a in arguments):
            return None
        lo, hi = self.interval(*arguments)
        return finite((float(lo), float(hi)))


REGISTERED: dict[str, Rowwise] = {}


def register_rowwise(name: str, func: Callable[..., Any], interval: Any) -> None:
    """Allow ``name(x, ...)`` in formulas.

    Parameters
    ----------
    name : str
        Identifier; must not be one of the language's own words.
    func : callable
        Elementwise: arrays of the block's numbers in, an array of the same length out, and
        element ``i`` of the result must depend on element ``i`` of the arguments only.
    interval : (lo, hi) or callable
        Range of the values, or a function of the argument intervals that returns it. Values are
        clipped to it.

    Notes
    -----
    **Privacy.** Registering is a *claim* by the caller that ``func`` is elementwise; a function
    that looks at other rows (a mean, a rank) breaks the guarantee of every fit that uses it.
    It cannot be checked by running it. The claim includes that ``func`` does not raise because
    of a cell. If it does raise, or returns the wrong shape, the block is evaluated again one row
    at a time, and only the rows that fail by themselves are missing.

    Examples
    --------
    >>> register_rowwise("softplus", lambda x: np.logaddexp(0, x), lambda a: (0, a[1] + 1))
    """
    if not (isinstance(name, str) and name.isidentifier()):
        raise FormulaError(f"register_rowwise: the name must be an identifier, got {shown(name)}")
    if name in RESERVED:
        raise FormulaError(f"register_rowwise: {name!r} is a word of the formula language already")
    if not callable(func):
        raise FormulaError(f"register_rowwise({name!r}): func must be callable")
    if not callable(interval):
        pair = finite((float(interval[0]), float(interval[1])))
        if pair is None or pair[0] > pair[1]:
            raise FormulaError(
                f"register_rowwise({name!r}): interval must be a finite (lo, hi), "
                f"got {shown(interval)}"
            )
        interval = pair
    REGISTERED[name] = Rowwise(name, func, interval)
