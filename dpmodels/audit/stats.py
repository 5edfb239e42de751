"""Findings and the confidence bounds they rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Finding", "clopper_pearson", "delta_lower", "mu_lower"]


@dataclass(frozen=True)
class Finding:
    """Result of one audit.

    Attributes
    ----------
    check : str
        What was audited.
    passed : bool
    measured, claimed : float
        In the unit of the check (a norm, mu, a delta).
    false_alarm : float
        Probability that a correct mechanism is flagged; 0 for a deterministic check.
    detail : str
    """

    check: str
    passed: bool
    measured: float = math.nan
    claimed: float = math.nan
    false_alarm: float = 0.0
    detail: str = ""

    def __str__(self) -> str:
        verdict = "ok     " if self.passed else "FLAGGED"
        numbers = (
            ""
            if math.isnan(self.measured)
            else f"  measured {self.measured:.6g}, claimed {self.claimed:.6g}"
        )
        return f"{verdict} {self.check}{numbers}" + (f"  ({self.detail})" if self.detail else "")


def clopper_pearson(hits: int, n: int, level: float = 0.99) -> tuple[float, float]:
    """Return the exact two-sided confidence interval of a probability."""
    from scipy.special import betaincinv

    tail = (1.0 - level) / 2.0
    lo = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, tail))
    hi = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1.0 - tail))
    return lo, hi


def mu_lower(hits_p: int, hits_q: int, n: int, level: float) -> float:
    """Return a lower bound on mu: Phi^{-1}(TPR) - Phi^{-1}(FPR) at the ends of the intervals."""
    from scipy.special import ndtri

    tpr, fpr = clopper_pearson(hits_p, n, level)[0], clopper_pearson(hits_q, n, level)[1]
    if tpr == 0.0 or fpr == 1.0:
        return 0.0
    return float(ndtri(tpr) - ndtri(fpr))


def delta_lower(hits_p: int, hits_q: int, n: int, eps: float, level: float) -> float:
    """Return a lower bound on P(S) - e^eps Q(S)."""
    tpr, fpr = clopper_pearson(hits_p, n, level)[0], clopper_pearson(hits_q, n, level)[1]
    return tpr - math.exp(eps) * fpr
