"""How likely it is that ranges can be bought: a public number, before anything is spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.ranges.buy import SAMPLE_ROWS, threshold

if TYPE_CHECKING:
    from dpmodels.planning import Purchase

__all__ = ["expected_reply", "purchase_advice"]

#: Below this chance of a reply a plan says so.
_POOR = 0.5


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def expected_reply(purchase: Purchase, n: int) -> float:
    """Return the chance that every histogram keeps a bin, for bell-shaped columns.

    The rule of :func:`dpmodels.ranges.buy._column_range` for the fullest bin of normal columns of
    unknown scale (averaged over where it falls between powers of two). Of public numbers only; a
    column with few values does better, one with heavy tails worse.
    """
    sd, tau = threshold(purchase)
    rows = min(n, SAMPLE_ROWS)
    base = 2 if rows >= 12 * tau else 4
    parts = (4 if rows > 40 * tau else 2) * base // 2
    chances = []
    for phase in (np.arange(16) + 0.5) / 16:
        low = base ** (phase + np.arange(-6, 4))
        # pairs differ by sqrt(2) standard deviations: P(low <= |difference| < base * low)
        share = np.array([math.erf(base * a / 2.0) - math.erf(a / 2.0) for a in low.tolist()])
        fullest = int(share.argmax())
        width = base * float(low[fullest]) / parts
        near = math.erf(width / 2.0 / math.sqrt(2.0))
        scale = _phi((rows / 2 * float(share[fullest]) - tau) / sd)
        chances.append(scale * _phi((rows * near - tau) / sd))
    return float(np.mean(chances)) ** len(purchase.columns)


def purchase_advice(purchase: Purchase, n: int) -> tuple[str, ...]:
    """Return what to say of a purchase that is unlikely to succeed; empty if it is likely to.

    Notes
    -----
    **Privacy.** Of n, eps, delta and the number of columns: n must be public.
    """
    if expected_reply(purchase, n) >= _POOR:
        return ()
    enough = n
    while expected_reply(purchase, enough) < 0.95 and enough < SAMPLE_ROWS:
        enough *= 2
    rows = f"more rows (about {enough}) or " if expected_reply(purchase, enough) >= 0.95 else ""
    names = ", ".join(purchase.columns[:3]) + (", ..." if len(purchase.columns) > 3 else "")
    return (
        f"the ranges of {len(purchase.columns)} columns ({names}) are to be bought from {n} rows: "
        "a reply cannot be expected, and all of eps would be spent. Declare what is known without "
        f"the data, bounds={{{purchase.columns[0]!r}: (lower, upper)}}, or use "
        f"{rows}a larger eps",
    )
