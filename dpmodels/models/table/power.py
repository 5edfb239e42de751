"""Power of a test before a row is read: the test of the expected sums (``theory.md``, 3.5).

Under the alternative the statistic is about noncentral chi-squared; its noncentrality is the
statistic itself at the expected sums, since the noise is part of the variance there too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.table.sums import spread_out

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.table.hypotheses import Facts
    from dpmodels.request import Request

Solver = Callable[[Any, Any, Array, int], Any]

#: Public guess of a standard deviation: this part of the range.
_SD = 0.25


def _shares(request: Request, k: int) -> Array:
    """Return the expected shares of the groups (``shares=``), equal by default."""
    given = request["shares"]
    if given is None:
        return np.full(k, 1.0 / k)
    shares = np.array(given, dtype=float) if isinstance(given, (list, tuple)) else np.zeros(0)
    if shares.size != k or not (shares > 0).all() or abs(shares.sum() - 1.0) > 1e-9:
        raise RequestError(f"shares= takes {k} positive shares of the groups that add up to 1")
    return shares


def expected_sums(
    request: Request, design: Design, facts: Facts, n: int, effect: float
) -> Array:
    """Return the expected noiseless sums under an effect.

    effect: the difference of a mean from ``mu0``, or between the two extreme groups (equally
    spaced); the sd of the shares about the null in its own units (Cohen's w); a correlation.
    """
    if facts.kind == "correlation":
        v = (2.0 * _SD) ** 2
        return n * np.array([1.0, 0.0, 0.0, v, effect * v, v])
    assert facts.layout is not None
    if facts.kind in ("fit", "independence"):
        return _expected_counts(facts, n, effect)
    return _expected_means(request, design, facts, n, effect)


def _expected_counts(facts: Facts, n: int, w: float) -> Array:
    """Return counts with Cohen's effect w: shares moved along one contrast."""
    assert facts.layout is not None
    shape = [facts.layout.axes[j].size for j in facts.layout.blocks[0].axes]
    out = np.zeros(shape)
    if facts.kind == "fit":
        p0 = np.array(facts.null)
        step = np.zeros(len(p0))
        step[0], step[-1] = 1.0, -1.0
        step /= math.sqrt(float((step**2 / p0).sum()))
        out[:-1] = n * (p0 + w * step)
    else:
        r, c = shape[0] - 1, shape[1] - 1
        flat = np.full((r, c), 1.0 / (r * c))
        step = np.zeros((r, c))
        step[0, 0] = step[-1, -1] = 1.0
        step[0, -1] = step[-1, 0] = -1.0
        step /= math.sqrt(float((step**2 / flat).sum()))
        out[:-1, :-1] = n * (flat + w * step)
    return out.ravel()


def _expected_means(
    request: Request, design: Design, facts: Facts, n: int, effect: float
) -> Array:
    assert facts.layout is not None
    (block,) = facts.layout.blocks
    interval = design.columns[block.number].interval
    assert interval is not None
    half, centre = 0.5 * (interval[1] - interval[0]), 0.5 * (interval[1] + interval[0])
    sd = float(request["sd"] or 2.0 * _SD * half) / half
    groups = [facts.layout.axes[j].size for j in facts.layout.group(block)]
    k = groups[0] - 1 if groups else 1
    shares = _shares(request, k) if groups else np.ones(1)
    if facts.kind == "mean":
        means = np.array([(facts.null[0] + effect - centre) / half])
    else:
        means = np.linspace(0.0, effect / half, k) if k > 1 else np.zeros(1)
        means = means - float(shares @ means)
    N = n * shares
    cells = np.zeros((4, *groups)) if groups else np.zeros((4, 1))
    cells[:3, :k] = spread_out(N, N * means, N * (sd**2 + means**2))
    first = block.axes[0] == facts.layout.number_axis(block.number)
    return np.asarray(cells if first else cells.T).ravel()


def _power(
    request: Request, design: Design, facts: Facts, n: int, effect: float, solve: Solver
) -> float:
    from scipy.special import chdtri, chndtr

    test = solve(facts, design, expected_sums(request, design, facts, n, effect), n).test
    return 1.0 - float(chndtr(chdtri(test.df, 1.0 - request.level), test.df, test.statistic))


def power_of(
    request: Request, design: Design, facts: Facts, n: int, solve: Solver
) -> dict[str, float]:
    """Return the power at ``effect=``, and the least effect with power .8: facts of a plan.

    ``solve`` turns sums into a test, as :func:`dpmodels.models.table.testing.solve` does.
    """
    alpha = 1.0 - request.level
    out = {}
    if request["effect"] is not None:
        effect = float(request["effect"])
        name = f"power against an effect of {effect:g} at level {alpha:.3g}"
        out[name] = _power(request, design, facts, n, effect, solve)
    top = _largest(design, facts)
    if _power(request, design, facts, n, top, solve) < 0.8:
        out["least effect with power .8 (none up to here)"] = top
        return out

    def beyond(effect: float) -> float:
        return _power(request, design, facts, n, effect, solve) - 0.8

    out["least effect with power .8"] = _crossing(beyond, top)
    return out


def _crossing(f: Callable[[float], float], top: float) -> float:
    """Return where f comes to be at least 0 between 0, where it is not, and ``top``, where it is.

    To 2^-24 of ``top``, by chords whose end that stays counts half each time (Illinois), and by
    halves where they take long; a value that is none counts as below 0. A test is solved for each
    point, so there should be few.
    """
    low, high = 0.0, top
    below, above = f(low), f(high)
    kept = 0
    for step in range(60):
        if high - low <= top * 2.0**-24:
            break
        chord = high - above * (high - low) / (above - below) if below < above else math.nan
        far = step % 8 == 7 or not low < chord < high
        middle = 0.5 * (low + high) if far else chord
        # a point beside an end that is as good as found brings the other end there too
        middle = min(max(middle, low + top * 2.0**-25), high - top * 2.0**-25)
        value = f(middle)
        if value >= 0.0:
            high, above = middle, value
            below = 0.5 * below if kept == 1 else below
            kept = 1
        else:
            low, below = middle, value
            above = 0.5 * above if kept == -1 else above
            kept = -1
    return high


def _largest(design: Design, facts: Facts) -> float:
    """Return the largest effect that is looked at."""
    if facts.kind == "correlation":
        return 0.99
    if facts.kind in ("fit", "independence"):
        return 0.9 * min(facts.null, default=0.5)
    assert facts.layout is not None
    interval = design.columns[facts.layout.blocks[0].number].interval
    assert interval is not None
    if facts.kind == "mean":
        return interval[1] - facts.null[0]
    return 0.5 * (interval[1] - interval[0])
