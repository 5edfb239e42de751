"""The root of a function that changes sign, with ``math`` alone.

Importing ``scipy.optimize`` for one such root takes longer than a fit. Source of the method:
R. P. Brent (1973), *Algorithms for Minimization without Derivatives*, chapter 4: bisection, with a
step of inverse quadratic interpolation (or of the secant) where that stays well inside the bracket
and shrinks fast enough. ``scipy.optimize.brentq`` does the same, and takes the same arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable

#: Four units in the last place: nothing nearer can be told apart.
_RTOL = 4.0 * 2.0**-52


def brent(
    f: Callable[[float], float],
    lo: float,
    hi: float,
    *,
    xtol: float = 2e-12,
    rtol: float = _RTOL,
    maxiter: int = 100,
) -> float:
    """Return x in [lo, hi] within ``xtol + rtol |x|`` of a change of sign of f.

    Parameters
    ----------
    f : callable
        With values of different sign at the ends. Need not be monotone: a change of sign stays
        in the bracket throughout.
    lo, hi : float
        Finite.
    xtol, rtol : float
        Positive.
    maxiter : int

    Raises
    ------
    ValueError
        Where the ends have one sign, a value is not a number, or ``maxiter`` steps were too few.

    Notes
    -----
    Either side of the root may be returned: a caller for whom only one side is safe steps there
    itself, as after any root finder.
    """
    before, at = float(lo), float(hi)
    f_before, f_at = _value(f, before), _value(f, at)
    if f_before == 0.0:
        return before
    if f_at == 0.0:
        return at
    if (f_before < 0.0) == (f_at < 0.0):
        raise ValueError("f(lo) and f(hi) must have different signs")
    # the change of sign lies between ``at``, the best point, and ``far``
    far, f_far = before, f_before
    step = last = at - before
    for _ in range(maxiter):
        if (f_at < 0.0) == (f_far < 0.0):
            far, f_far = before, f_before
            step = last = at - before
        if abs(f_far) < abs(f_at):
            before, at, far = at, far, at
            f_before, f_at, f_far = f_at, f_far, f_at
        near = 0.5 * (xtol + rtol * abs(at))
        half = 0.5 * (far - at)
        if f_at == 0.0 or abs(half) < near:
            return at
        tried = None
        if abs(last) > near and abs(f_at) < abs(f_before):
            tried = _interpolated(before, f_before, at, f_at, far, f_far)
        if tried is not None and 2.0 * abs(tried) < min(abs(last), 3.0 * abs(half) - near):
            last, step = step, tried
        else:
            last = step = half
        before, f_before = at, f_at
        at += step if abs(step) > near else math.copysign(near, half)
        f_at = _value(f, at)
    raise ValueError(f"no root to this tolerance in {maxiter} steps")


def _value(f: Callable[[float], float], x: float) -> float:
    value = float(f(x))
    if math.isnan(value):
        raise ValueError("the function is not a number inside the bracket")
    return value


def _interpolated(
    before: float, f_before: float, at: float, f_at: float, far: float, f_far: float
) -> float | None:
    """Return the step from ``at`` to the root of the secant, or of x as a quadratic in f.

    In divided differences; None where two values agree to the last digit.
    """
    try:
        if before == far:
            return -f_at * (at - before) / (f_at - f_before)
        first = (f_before - f_at) / (before - at)
        second = (f_far - f_at) / (far - at)
        return -f_at * (f_far * second - f_before * first) / (second * first * (f_far - f_before))
    except (ZeroDivisionError, OverflowError):
        return None
