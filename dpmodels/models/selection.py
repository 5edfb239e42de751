"""Choice among candidates: its cost, and its mechanism (advanced; nothing here is default).

The methods of this room need none of it: their bounds hold for every ridge at once, so the ridge
is chosen from released numbers, free of charge. Scores must come from public validation data, or
be a part of the candidate's own private output. Sources: Liu and Talwar (2019); Papernot and
Steinke (2021), Theorems 2 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.own.best import BEST_STEP, Choice, chosen
from dpmodels.own.proposed import safe_number, safe_vector
from dpmodels.privacy.composition import Guarantee, delta_of_parts
from dpmodels.privacy.mechanisms import RDP, Approximate, Step, mu_gdp
from dpmodels.privacy.proofs import PROVED
from dpmodels.privacy.run import RUNS_NOTE
from dpmodels.records import check_eps_delta


def _step(kind: str, mu: float, mean: float) -> Step:
    return Step(BEST_STEP, RDP(f"best of {kind} runs", (("mu", mu), ("mean", mean))))


@lru_cache(maxsize=64)
def strength_per_candidate(eps: float, delta: float, kind: str, mean: float) -> float:
    """Return the mu each run may have so that the choice of the best is (eps, delta)-DP.

    ``kind`` is "geometric" or "poisson", ``mean`` the expected number of runs.
    """
    if kind not in ("geometric", "poisson") or not mean > 1:
        raise RequestError("kind= is 'geometric' or 'poisson', mean= a number above 1")
    lo, hi = 0.0, mu_gdp(eps, delta)
    for _ in range(45):
        mid = 0.5 * (lo + hi)
        ok = mid > 0 and delta_of_parts([_step(kind, mid, mean)], eps) <= delta
        lo, hi = (mid, hi) if ok else (lo, mid)
    return lo


def select(
    candidates: Sequence[Callable[[float, Any], tuple[float, Any]]], *, eps: float, delta: float,
    kind: str = "geometric", mean: float = 30.0, relation: str, budget: Any = None,
    seed: int | None = None,
) -> tuple[Any, Guarantee]:  # fmt: skip
    """Return the best-scored output of a random number of runs of random candidates, or None.

    A candidate is ``f(mu, noise) -> (score, output)``: mu-GDP under ``relation``, the score
    included (so it is public, or a function of public data and of the output).

    **Privacy.** The whole choice is (eps, delta)-DP under ``relation``, if the candidates are
    mu-GDP under it. Charged before a candidate runs; what a candidate raises is withheld.
    """
    eps, delta = check_eps_delta(eps, delta)
    if not candidates:
        raise RequestError("there are no candidates")
    mu = strength_per_candidate(eps, delta, kind, float(mean))
    steps = (_step(kind, mu, float(mean)),)
    notes = (RUNS_NOTE, PROVED["selection"].note)
    guarantee = Guarantee(steps, eps, delta, relation, notes=notes)
    return chosen("select(...)", Choice(guarantee, float(mean)), candidates, budget, seed)


def select_tested(
    candidates: Sequence[Callable[..., Any]], *, eps: float, delta: float, mean: float,
    relation: str, budget: Any = None, seed: int | None = None,
) -> tuple[Any, Guarantee]:  # fmt: skip
    """Return the best-scored output of a geometric number of runs of candidates that may not reply.

    See :func:`dpmodels.dp_select`.
    """
    step = Step(BEST_STEP, Approximate(eps, delta), share=1.0, label="best of tested runs")
    notes = (RUNS_NOTE, PROVED["selection"].note)
    guarantee = Guarantee((step,), eps, delta, relation, notes=notes)
    return chosen("dp_select(...)", Choice(guarantee, mean), candidates, budget, seed)


# -- Search for violations of the two conditions of efficient Propose-Test-Release


_SLACK = 1.0 + 1e-7
#: Share of new rows, and of tables with some rows, that are the zero row of a missing cell.
_MISSING_SHARE = 0.2


@dataclass(frozen=True)
class SafetyReport:
    """Result of the search."""

    ok: bool  # No violation was found (not a proof)
    trials: int
    positive: int  # Tables with gamma > 0: if there are few, condition (ii) was hardly tested
    worst_lipschitz: float  # Largest change of gamma; at most 1
    worst_ratio: float  # Largest ``|T - T'| / alpha`` where gamma > 0; at most 1
    counterexample: dict[str, Any] | None  # Condition, the two synthetic tables, and the numbers

    def __str__(self) -> str:
        head = (
            f"{self.trials} pairs of neighbours ({self.positive} with gamma > 0): "
            f"largest |gamma - gamma'| = {self.worst_lipschitz:.6g} (bound 1), "
            f"largest |T - T'| / alpha = {self.worst_ratio:.6g} (bound 1)"
        )
        if self.counterexample is None:
            verdict = "no violation found (a search is not a proof)"
            if self.positive == 0:
                verdict = "gamma was never positive: give tables on which it is (tables=)"
            return f"{head}\n{verdict}"
        c = self.counterexample
        with np.printoptions(precision=6, suppress=True):
            return (
                f"{head}\nVIOLATION of condition {c['condition']}: {c['what']}\n"
                f"row {c['row']} of\n{c['table']}\nreplaced by {c['new_row']}"
            )


def _corner_rows(rng: np.random.Generator, low: Array, high: Array, count: int) -> Array:
    """Return rows in the box: uniform, corners, edges, the centre, duplicates."""
    k = len(low)
    x = rng.uniform(low, high, size=(count, k))
    ends = np.where(rng.uniform(size=(count, k)) < 0.5, low, high)
    kind = rng.integers(5, size=count)
    x[kind == 0] = ends[kind == 0]
    mixed = rng.uniform(size=(count, k)) < 0.5
    x[kind == 1] = np.where(mixed, ends, x)[kind == 1]
    x[kind == 2] = (low + high) / 2.0
    return np.asarray(x)


def _table(rng: np.random.Generator, low: Array, high: Array, n: int) -> Array:
    """Return a random table to search for neighbours that violate the conditions of dp_eptr.

    Clustered, duplicated or missing rows are likely.
    """
    x = _corner_rows(rng, low, high, n)
    if rng.uniform() < 0.4:  # many equal rows: one of them can matter more than it seems
        x[: rng.integers(1, n + 1)] = x[0]
    if rng.uniform() < 0.2:
        spread = 10.0 ** rng.uniform(-3, 0)
        middle = rng.uniform(low, high)
        x = np.clip(middle + spread * (x - middle), low, high)
    if rng.uniform() < _MISSING_SHARE:
        x[rng.uniform(size=n) < rng.uniform()] = 0.0
    return x


def check_safety(
    estimator: Callable[[Array], Any],
    safety: Callable[[Array], Any],
    alpha: float,
    *,
    bounds: Sequence[tuple[float, float]],
    n: int | Sequence[int] = (3, 4, 6, 10, 30),
    size: int = 1,
    trials: int = 4000,
    tables: Callable[[np.random.Generator, int], Array] | None = None,
    seed: int = 0,
) -> SafetyReport:
    """Search random and corner neighbours for violations of the two conditions.

    Parameters
    ----------
    estimator, safety, alpha, size
        As in :func:`dpmodels.dp_eptr`.
    bounds : sequence of (low, high)
        Range of each of the k columns; synthetic rows are drawn in this box. A row with a missing
        cell reaches the estimator as a row of zeros, inside the box or not: those are tried too.
    n : int or sequence of int
        Numbers of rows to try; small ones are the sharpest.
    trials : int
    tables : function, optional
        ``tables(rng, n) -> (n, k)``: your own synthetic tables, for example such that gamma > 0.
    seed : int

    Returns
    -------
    SafetyReport
        Prints the counterexample, if one was found.

    Privacy
    -------
    Reads no data: tables are synthetic, so a counterexample can be shown.
    """
    low, high = np.array([b[0] for b in bounds], float), np.array([b[1] for b in bounds], float)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise RequestError("bounds= must be finite pairs (low, high), one a column")
    rng = np.random.default_rng(seed)
    sizes = [n] if isinstance(n, int) else list(n)
    state = _Search(estimator, safety, float(alpha), size)
    for trial in range(trials):
        rows = sizes[trial % len(sizes)]
        x = _table(rng, low, high, rows) if tables is None else np.asarray(tables(rng, rows), float)
        i = int(rng.integers(len(x)))
        # what a row may be replaced by: a row of the box, or the zero row of a missing cell
        missing = rng.uniform() < _MISSING_SHARE
        new = np.zeros(len(low)) if missing else _corner_rows(rng, low, high, 1)[0]
        state.pair(x, i, new)
        if state.best is not None and trial % 5 == 0:
            # climb from the worst pair so far: one coordinate at a time
            state.climb(rng, low, high)
        if state.counterexample is not None:
            break
    return SafetyReport(
        state.counterexample is None, state.tried, state.positive, state.worst_lipschitz,
        state.worst_ratio, state.counterexample,
    )  # fmt: skip


class _Search:
    """Running maxima and the first violation."""

    def __init__(self, estimator: Any, safety: Any, alpha: float, size: int) -> None:
        self.estimator, self.safety, self.alpha, self.size = estimator, safety, alpha, size
        self.tried = self.positive = 0
        self.worst_lipschitz = self.worst_ratio = 0.0
        self.best: tuple[Array, int, Array] | None = None
        self._score = -1.0
        self.counterexample: dict[str, Any] | None = None

    def pair(self, x: Array, i: int, new: Array) -> float:
        """Compare the safety and the estimate of a table with those of one neighbour."""
        y = x.copy()
        y[i] = new
        self.tried += 1
        g, g2 = safe_number(self.safety, x), safe_number(self.safety, y)
        step = abs(g - g2)
        ratio = 0.0
        if max(g, g2) > 0:
            self.positive += 1
            t = safe_vector(self.estimator, x, self.size)
            t2 = safe_vector(self.estimator, y, self.size)
            ratio = float(np.linalg.norm(t - t2)) / self.alpha
        self.worst_lipschitz = max(self.worst_lipschitz, step)
        self.worst_ratio = max(self.worst_ratio, ratio)
        if step > _SLACK:
            self._record("(i)", f"gamma moves from {g:.6g} to {g2:.6g}", x, i, new)
        elif ratio > _SLACK:
            what = f"gamma = {max(g, g2):.6g} > 0, yet |T - T'| = {ratio:.6g} alpha"
            self._record("(ii)", what, x, i, new)
        score = max(step, ratio)
        if score > self._score:
            self._score, self.best = score, (x.copy(), i, new.copy())
        return score

    def _record(self, condition: str, what: str, x: Array, i: int, new: Array) -> None:
        """Keep the first counterexample."""
        if self.counterexample is None:
            self.counterexample = dict(
                condition=condition, what=what, row=i, table=x.copy(), new_row=new.copy()
            )

    def climb(self, rng: np.random.Generator, low: Array, high: Array) -> None:
        """Change the worst pair found so far a little, and try it."""
        assert self.best is not None
        x, i, new = self.best[0].copy(), self.best[1], self.best[2].copy()
        width = (high - low) * 10.0 ** rng.uniform(-3, 0)
        if rng.uniform() < 0.5:
            if new.any():  # the zero row stays one: nothing can occur between it and the box
                new = np.clip(new + rng.normal(size=len(new)) * width, low, high)
        else:
            j = int(rng.integers(len(x)))
            if x[j].any():
                x[j] = np.clip(x[j] + rng.normal(size=x.shape[1]) * width, low, high)
        self.pair(x, i, new)
