"""Backend of ``dp_test(method="subsample")``: any public test, by a test of tests.

Kazan, Shi, Groce and Bray (2023). The rows are split at random into m parts, the test is run in
each, and the number of rejections at level a0, which one row moves by at most 1, gets the noise of
the most powerful private binomial test (Awan and Slavkovic 2018). ``theory.md``, 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.lemmas import Of
from dpmodels.models.table.layout import program_of
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.release import Estimate, Release
from dpmodels.roots import brent

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request
    from dpmodels.sources.rows import Rows

_STEP = "rejections"
#: Noncentrality of the z test that plans take the public test to be.
SHIFT = 5.0
#: Fewest rows of a part, and most parts, by default.
_ROWS, _PARTS = 20, 200


def noise_cdf(x: Array, eps: float) -> Array:
    """Return P(G1 - G2 + U <= x): G geometric(1 - e^-eps), U uniform on (-1/2, 1/2)."""
    x = np.asarray(x, dtype=float)
    b = math.exp(-eps)
    low = -np.abs(x)
    near = np.rint(low)
    with np.errstate(over="ignore", under="ignore"):
        left = np.exp(eps * near) / (1.0 + b) * (b + (low - near + 0.5) * (1.0 - b))
    return np.asarray(np.where(x <= 0, left, 1.0 - left), dtype=float)


def _binomial(m: int, p: float) -> Array:
    """Return the probabilities of 0, ..., m."""
    from scipy.special import gammaln, xlog1py, xlogy

    x = np.arange(m + 1)
    log = gammaln(m + 1) - gammaln(x + 1) - gammaln(m - x + 1) + xlogy(x, p) + xlog1py(m - x, -p)
    return np.asarray(np.exp(log), dtype=float)


def p_value(z: float, m: int, a0: float, eps: float) -> float:
    """Return ``sum_x Bin(x; m, a0) F(x - z)``."""
    return float(np.dot(_binomial(m, a0), noise_cdf(np.arange(m + 1.0) - z, eps)))


def critical_count(m: int, a0: float, eps: float, alpha: float) -> float:
    """Return kappa with p-value alpha."""
    width = 40.0 / eps + 2.0
    return brent(lambda z: p_value(z, m, a0, eps) - alpha, -width, m + width, xtol=1e-10)


def power(theta: float, m: int, a0: float, eps: float, alpha: float) -> float:
    """Return ``sum_x Bin(x; m, theta) F(x - kappa)``: theta is the power of the test in a part."""
    return p_value(critical_count(m, a0, eps, alpha), m, theta, eps)


def _theta(shift: float, m: int, a0: float, sides: int) -> float:
    """Return the power in a part of a z test whose shift in all rows is ``shift``."""
    from scipy.special import ndtr, ndtri

    z, cut = shift / math.sqrt(m), float(ndtri(a0 / sides))
    return float(ndtr(z + cut)) + (float(ndtr(cut - z)) if sides == 2 else 0.0)


def best_split(
    shift: float, eps: float, alpha: float, most: int, a0: float | None, m: int | None,
    sides: int = 2,
) -> tuple[int, float, float]:  # fmt: skip
    """Return (m, a0, power) with the most power for a z test with that shift."""

    def reached(p: int, a: float) -> tuple[float, int, float]:
        return power(_theta(shift, p, a, sides), p, a, eps, alpha), p, a

    parts = [m] if m else _spread(most)
    levels = [a0] if a0 else [round(0.02 * k, 2) for k in range(1, 30)]
    best = max(reached(p, a) for p in parts for a in levels)
    if m is None:  # once more around the best of the sparse list
        near = range(max(2, best[1] - 8), min(most, best[1] + 8) + 1)
        some = [a0] if a0 else [best[2] - 0.01, best[2], best[2] + 0.01]
        best = max(reached(p, a) for p in near for a in some)
    return best[1], best[2], best[0]


def _spread(most: int) -> list[int]:
    return sorted({max(2, round(most * (k / 12) ** 1.5)) for k in range(1, 13)})


@dataclass(frozen=True)
class Split:
    """Parts, level of each, and the public test."""

    m: int
    a0: float
    test: Callable[[Any], Any]


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a test of tests: parts and level by the power of a z test. Reads no row."""
    test = request["test"]
    if not callable(test):
        raise RequestError(
            "method='subsample' takes test= a function of a table that returns a p-value, for "
            "example test=lambda d: scipy.stats.ttest_1samp(d['x'], 0).pvalue"
        )
    if request.alike > 1:
        raise RequestError(
            "a test of one's own takes rows for independent, and those of one person are not: no "
            "level could be promised. Keep one row a person, max_rows=1, or make a table of one "
            "row a person first"
        )
    m, a0 = request["parts"], request["a0"]
    if m is not None and m > n:
        raise RequestError(f"parts={m} is more than there are rows ({n})")
    if n < 2 * _ROWS and m is None:
        raise RequestError(f"{n} rows are too few to split: parts= of {_ROWS} rows are the least")
    shift = SHIFT if request["effect"] is None else float(request["effect"])
    alpha = 1.0 - request.level
    most = min(_PARTS, n // _ROWS)
    sides = int(request["sides"])
    m, a0, reached = best_split(shift, request.eps, alpha, most, a0, m, sides)
    return Plan.of(
        request, design, n, (Step(_STEP, Pure(request.eps), share=1.0, label="geometric"),),
        shares={"rejections": 1.0},
        scales={
            "parts": float(m),
            "level in a part": a0,
            "rejections that are significant": critical_count(m, a0, request.eps, alpha),
            f"power, of a z test with {sides} side{'s' * (sides > 1)} and shift {shift:g}": reached,
        },
        detail=Split(m, a0, test),
    )  # fmt: skip


def release(plan: Plan[Split], ask: Ask) -> Release:
    """Release the noisy number of rejections.

    Privacy
    -------
    Unit: one row; replace-one, n public. Which rows make a part is drawn without looking at them,
    so a row is in one part whatever it holds, and moves the count by at most 1. A test that fails,
    or says nothing, rejects nothing.
    """
    split = plan.detail
    over = _Parts(split, plan.design, ask)
    rejected = Query(Of("rejections", ()), over, _as_integer, whole=True)
    noisy = ask(_STEP, rejected).values
    dither = int(ask.coins(8).copy().view(np.uint64)[0]) * 2.0**-64 - 0.5
    return Release({"rejections": noisy + dither}, plan.guarantee, plan.design)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The number of random parts on which the test rejects."""

    split: Split
    design: Design
    ask: Ask

    def total(self, rows: Rows, reading: Any) -> int:
        """Return the number. Confidential."""
        n, m = rows.n, self.split.m
        table = _frame(rows, self.design)
        keys = self.ask.coins(8 * n).copy().view(np.uint64)
        part = np.empty(n, dtype=np.intp)
        part[np.argsort(keys, kind="stable")] = np.arange(n) % m
        parts = (table[part == k].reset_index(drop=True) for k in range(m))
        return sum(_rejects(self.split, one) for one in parts)


def _as_integer(rejected: int) -> Added:
    """Return the number of rejections."""
    return Added(np.array([rejected], dtype=object))


def _rejects(split: Split, table: Any) -> bool:
    try:
        p = float(split.test(table))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever the test does with these rows is private
        return False
    return p <= split.a0


def _frame(rows: Rows, design: Design) -> Any:
    """Return the cells of all rows: numbers in their ranges, categories by their levels.

    Read by the caller: the user's test takes a table, and is not sent to workers.
    """
    import pandas as pd

    cells = np.concatenate([block.copy() for block in rows.blocks(design)], axis=1)
    columns = {}
    for source, values in zip(program_of(design).sources, cells, strict=True):
        if source.levels is None:
            columns[source.name] = values
        else:
            levels = np.array([*source.levels, None], dtype=object)
            columns[source.name] = levels[values.astype(np.intp)]
    return pd.DataFrame(columns)


def estimate(plan: Plan[Split], release: Release) -> Estimate:
    """Return the p-value of the noisy number of rejections."""
    split = plan.detail
    z = float(release.values["rejections"][0])
    eps = plan.request.eps
    b = math.exp(-eps)
    sd = math.sqrt(2.0 * b / (1.0 - b) ** 2 + 1.0 / 12.0)
    p = min(max(z / split.m, 0.0), 1.0)
    return Estimate(
        ("rejections",),
        np.array([z]),
        vcov_sampling=np.array([[split.m * p * (1.0 - p)]]),
        vcov_privacy=np.array([[sd * sd]]),
        stats={"statistic": z, "df": float(split.m), "p_value": p_value(z, split.m, split.a0, eps)},
        notes=(
            f"Test of tests: {split.m} parts, each tested at level {split.a0:g}; the number of "
            "rejections, with noise, is compared with its law under the null. The test must keep "
            "its level in a part.",
        ),
    )
