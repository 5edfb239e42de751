"""Quantiles that radius rules use; ``scipy.special`` only, loaded on first use."""

from __future__ import annotations

__all__ = ["chi2_upper", "f_upper"]


def chi2_upper(k: float, p: float) -> float:
    """Return q with P(chi-square_k > q) = p."""
    from scipy.special import chdtri

    return float(chdtri(k, p))


def f_upper(a: float, b: float, p: float) -> float:
    """Return q with P(F_{a, b} > q) = p."""
    from scipy.special import fdtri

    # fdtri inverts the lower tail; for tiny p swap the degrees of freedom instead of forming 1-p
    return 1.0 / float(fdtri(b, a, p))
