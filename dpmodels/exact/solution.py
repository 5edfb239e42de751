"""Bounds of least squares near a well-conditioned design (``models/linear/eptr.md``)."""

from __future__ import annotations

import math

__all__ = ["float_allowance", "ls_bound"]


def ls_bound(rx: float, ry: float, rho: float) -> float:
    """Return B(rho) = max_t [2 R_x R_y cos t + R_x^2 rho sin 2t].

    If one row is replaced, rows bounded by ``|x| <= R_x``, ``|y| <= R_y``, then
    ``|theta' - theta| <= B(|theta|) / lambda_min'``.

    Parameters
    ----------
    rx, ry : float
        Row bounds.
    rho : float
        Bound on the norm of the coefficient vector; 0 gives ``2 R_x R_y``.
    """
    if rho == 0:
        return 2.0 * rx * ry
    k = ry / (rx * rho)
    # (-k + sqrt(k^2 + 8)) / 4, in the form that does not cancel for large k.
    s = 2.0 / (k + math.sqrt(k * k + 8.0))
    c = math.sqrt(1.0 - s * s)
    return rx * rx * rho * (2.0 * k * c + 2.0 * s * c)


def float_allowance(p: int, n: int) -> float:
    """Return the relative allowance for float eigenvalues and solves, and for rounding to a grid.

    2^-20 pays for the public grid of the release; 32 p^2 n 2^-53 covers backward errors of the
    eigenvalue routine and of the solve (the constant 32 is a conjecture, about ten times what a
    search over random and graded matrices showed).
    """
    return 2.0**-20 + 32.0 * p * p * n * 2.0**-53
