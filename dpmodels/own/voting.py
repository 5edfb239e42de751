"""Private majority votes, one by one or many (PATE), with data-dependent privacy (``votes.md``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.cells import objects_of
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import OneHot
from dpmodels.proof.statistics import Stack, Sum
from dpmodels.sums.ask import Added, Ask, Pass, Query

# -- Data-dependent privacy of noisy-argmax voting, and its smooth sensitivity.
#
# Source: Papernot et al. (2018), "Scalable private learning with PATE", Theorem 6 and section on
# smooth sensitivity; Redberg, Zhu and Wang (2023), section 5.2. Neighbours: one teacher's votes.
# Constants and the corrected index are proved in ``votes.md``, section 5.
#
# Everything is a function of x_i = erfc^{-1}(2 q_i / (C-1)), one number per query: a changed vote
# moves every x_i by at most 1/sigma. x is rounded down to cells of a public grid, and the Renyi
# curve is made monotone on the grid. So values and sensitivities are exact for the curve in use.


#: Cells for the largest move of one vote.
_CELLS_PER_MOVE = 40


def renyi_of_q(log_q: float, a: float, sigma: float) -> float:
    """Return the Renyi bound of order a of one answer whose minority probability is at most q.

    With mu2 = sigma sqrt(log(1/q)), mu1 = mu2 + 1, e_i = mu_i/sigma^2 (both with the sigma of the
    votes); the data-independent a/sigma^2 where the conditions fail.
    """
    free = a / sigma**2
    if log_q >= 0:
        return free
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1.0
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    if not (mu2 > 1 and a <= mu1):
        return free
    limit = (mu2 - 1) * e2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1)))
    if log_q > limit:
        return free
    q = math.exp(log_q)
    inner = (log_q + e2) * (mu2 - 1) / mu2
    if inner >= 0:
        return free
    log_a = math.log1p(-q) - math.log(-math.expm1(inner))
    log_b = e1 - log_q / (mu1 - 1)
    first = math.log1p(-q) + (a - 1) * log_a
    second = log_q + (a - 1) * log_b
    return min(free, max(0.0, float(np.logaddexp(first, second)) / (a - 1)))


@dataclass(frozen=True)
class CurveTable:
    """Renyi bound of one answer by cell of x, non-increasing in x."""

    # (N,): value of every x in cell i (its left end), the largest of all cells to the right
    value: Array
    # (N,): bound of the change of ``value`` between neighbours, the first of which is in cell i.
    change: Array
    step: float  # Width of a cell


@lru_cache(maxsize=16)
def curve_table(a: float, sigma: float, classes: int, teachers: int) -> CurveTable:
    """Return the table for ``teachers`` votes over ``classes`` classes."""
    from scipy.special import log_ndtr

    step = 1.0 / (sigma * _CELLS_PER_MOVE)
    n = math.ceil(teachers / (2.0 * sigma) / step) + 4 * _CELLS_PER_MOVE
    x = step * np.arange(n)
    # log((C-1)/2 erfc(x)) = log(C-1) + log Phi(-sqrt(2) x)
    log_q = math.log(classes - 1) + log_ndtr(-math.sqrt(2.0) * x)
    f = np.array([renyi_of_q(float(v), a, sigma) for v in np.minimum(log_q, 0.0)])
    value = np.maximum.accumulate(f[::-1])[::-1]
    m = _CELLS_PER_MOVE + 1  # one cell more: x of either neighbour lies anywhere in its cell
    up = np.concatenate([np.full(m, value[0]), value[:-m]])
    down = np.concatenate([value[m:], np.full(m, value[-1])])
    change = np.maximum(up - value, value - down)
    return CurveTable(value, change, step)


def cells_of(
    counts: Array, sigma: float, classes: int, size: int, step: float
) -> npt.NDArray[np.intp]:
    """Return the cell of every query, (Q,), from vote counts (Q, C)."""
    from scipy.special import log_ndtr, ndtri_exp

    top = counts.max(1, keepdims=True)
    gaps = np.sort(top - counts, axis=1)[:, 1:]  # the winner's own 0 left out
    # q = sum_j Phi(-gap_j / (sqrt(2) sigma))
    log_p = log_ndtr(-gaps / (math.sqrt(2.0) * sigma))
    high = log_p.max(1)
    log_q = high + np.log(np.exp(log_p - high[:, None]).sum(1))
    x = -ndtri_exp(np.minimum(log_q - math.log(classes - 1), math.log(0.5))) / math.sqrt(2.0)
    cell = np.floor(np.maximum(x, 0.0) / step)
    return np.asarray(np.clip(cell, 0, size - 1), dtype=np.intp)


def smooth(table: CurveTable, cells: npt.NDArray[np.intp], b: float, teachers: int) -> float:
    """Return a b-smooth upper bound of the sensitivity of the summed Renyi bound.

    max over d of e^{-b d} sum_i max of ``change`` over the cells within d votes of query i.
    """
    from scipy.ndimage import maximum_filter1d

    change, width = table.change.copy(), 2 * (_CELLS_PER_MOVE + 1) + 1
    top = float(table.change.max()) * len(cells)
    best = 0.0
    for d in range(teachers + 1):
        if math.exp(-b * d) * top <= best:
            break
        best = max(best, math.exp(-b * d) * float(change[cells].sum()))
        change = maximum_filter1d(change, width, mode="nearest")
    # beyond the last d the sum cannot exceed its top
    return best if d < teachers else max(best, math.exp(-b * (teachers + 1)) * top)


def gaussian_order(eps_hat: float, delta: float) -> tuple[float, float, float]:
    """Return (order a, smoothness b, noise sigma_s) of the release of the privacy loss.

    a = 2 log(2/delta)/eps^ + 1, b = 0.2/a, sigma_s = sqrt((3a+2)/eps^); costs eps^/2 at order a.
    """
    a = 2.0 * math.log(2.0 / delta) / eps_hat + 1.0
    return a, 0.2 / a, math.sqrt((3.0 * a + 2.0) / eps_hat)


# -- The private stages, on arrays.


Labels = npt.NDArray[np.intp]
MARGIN_STEP, VOTE_STEP, PATE_STEP = "margin of the vote", "votes", "labels and their test"


@dataclass(frozen=True)
class VotePlan:
    """Public facts of one vote: the candidates and the number of voters."""

    names: tuple[Any, ...]
    guarantee: Guarantee
    n: int
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatePlan:
    """Public facts of the queries to many teachers."""

    classes: int
    # The form of the votes: counts (queries, classes), else labels (teachers, queries).
    counts: bool
    sigma: float
    test_eps: float
    # eps of the noisy answers whatever the votes; no test is made where it is at most eps.
    free: float
    guarantee: Guarantee
    n: int  # Number of teachers, the units of this guarantee
    queries: int
    advice: tuple[str, ...] = ()


def count_votes(names: Sequence[Any], votes: Iterable[Any]) -> npt.NDArray[np.int64]:
    """Return how often each name was voted for; any other vote is an abstention."""
    if hasattr(votes, "to_pylist"):  # Arrow: its scalars are equal to no Python value
        votes = objects_of(votes)
    place = {name: j for j, name in enumerate(names)}
    counts = np.zeros(len(names), dtype=np.int64)
    for vote in votes:
        try:
            j = place.get(vote)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a cell that cannot be hashed or compared is an abstention
            j = None
        if j is not None:
            counts[j] += 1
    return counts


def release_winner(plan: VotePlan, ask: Ask) -> tuple[int, bool, float]:
    """Release the winner of one vote. **Privacy.** Unit: one vote; replace-one, voters public."""
    return majority(_Counted(plan.names), len(plan.names), ask)


def release_labels(plan: PatePlan, ask: Ask) -> tuple[Labels | None, float, float]:
    """Count the votes of every query and release (labels or None, eps, order).

    **Privacy.** Unit: one teacher, who adds one vote at most to every query.
    """
    over = _Tabled(plan)
    if plan.free <= plan.guarantee.eps:
        return answer_untested(over, plan.classes, plan.queries, ask), plan.free, math.nan
    return answer_queries(over, plan.n, plan.sigma, plan.test_eps, ask)


@dataclass(frozen=True)
class _Counted:
    """The votes of one question by candidate."""

    names: tuple[Any, ...]

    def total(self, votes: Any, reading: Any) -> npt.NDArray[np.int64]:
        """Return the counts. Confidential."""
        return count_votes(self.names, votes)


@dataclass(frozen=True, eq=False)
class _Tabled:
    """The votes of every question by class, (Q, C)."""

    plan: PatePlan

    def total(self, votes: Any, reading: Any) -> Array:
        """Return the counts. Confidential."""
        plan = self.plan
        if plan.counts:
            return np.asarray(np.clip(votes.astype(float), 0.0, plan.n))
        classes = range(plan.classes)
        return np.stack([(votes == c).sum(0) for c in classes], axis=1).astype(float)


def majority(over: Pass, candidates: int, ask: Ask) -> tuple[int, bool, float]:
    """Return (winner, stable, lower bound of the margin).

    One changed vote moves two counts by one: the margin by at most 2. With a margin above 2 every
    neighbour has the same winner, so the exact winner costs nothing (``votes.md``, 5.1).
    """
    raw = ask.raw(own_proof("stable winner"))
    miss = raw.failure(MARGIN_STEP)
    lower = float(ask(MARGIN_STEP, Query(Of("margin", ()), over, _margin)).at_least(miss)[0])
    if lower > 2.0:
        return int(np.argmax(raw.total(over))), True, lower
    votes = ask(VOTE_STEP, Query(Sum(OneHot(candidates)), over))
    return int(np.argmax(votes.values)), False, lower


def _margin(counts: npt.NDArray[np.int64]) -> Added:
    """Return the difference of the two largest counts."""
    ordered = np.sort(counts)[::-1]
    return Added(np.array([int(ordered[0] - ordered[1])], dtype=object))


def answer_queries(
    over: _Tabled, teachers: int, sigma: float, eps_hat: float, ask: Ask
) -> tuple[Labels | None, float, float]:
    """Return (labels or None, released eps, smooth sensitivity's order).

    The pass counts votes a class, (Q, C); one teacher adds at most one to every row. eps and delta
    of the charged step are of the whole call: eps = eps' + eps_hat/2.
    """
    raw = ask.raw(own_proof("PATE with a data-dependent bound"))
    charged, counts = raw.mechanism(PATE_STEP), raw.total(over)
    eps, delta = charged.eps, charged.delta
    classes = counts.shape[1]
    a, b, sigma_s = gaussian_order(eps_hat, delta)
    table = curve_table(a, sigma, classes, teachers)
    cells = cells_of(counts, sigma, classes, len(table.value), table.step)
    rdp = float(table.value[cells].sum())
    ss = max(smooth(table, cells, b, teachers), 1e-300)
    normals = raw.inner_source(PATE_STEP).normals(2 + counts.size)
    tail = math.sqrt(2.0 * math.log(4.0 / delta))  # sqrt(2 log(2/delta_2)), delta_2 = delta/2
    m = math.log(ss) + b * sigma_s * (float(normals[0]) + tail)
    upper = rdp + ss * sigma_s * float(normals[1]) + sigma_s * tail * math.exp(m)
    # noise of private width: on a public grid nothing of its float digits is left; upwards,
    # so that it stays a bound
    upper = math.ceil(min(upper, 1e9) * 2.0**30) * 2.0**-30
    converted = upper + math.log(2.0 / delta) / (a - 1.0)
    eps_total = converted + eps_hat / 2.0
    if converted > eps - eps_hat / 2.0:
        return None, eps_total, a
    noisy = counts + sigma * normals[2:].reshape(counts.shape)
    return np.asarray(noisy.argmax(1), dtype=np.intp), eps_total, a


def answer_untested(over: Pass, classes: int, queries: int, ask: Ask) -> Labels:
    """Return the noisy argmax of every query; the step's mu gives noise of sd sigma."""
    statistic = Stack((Sum(OneHot(classes)),) * queries, (1.0,) * queries)
    answer = ask(PATE_STEP, Query(statistic, over, lambda counts: Added(counts.astype(np.int64))))
    return np.asarray(answer.values.argmax(1), dtype=np.intp)
