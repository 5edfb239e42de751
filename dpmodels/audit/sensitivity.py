"""Deterministic audit: a sensitivity bound against random and corner neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.audit.stats import Finding

__all__ = ["SensitivityCheck", "check_sensitivity", "corner_neighbours"]


@dataclass(frozen=True)
class SensitivityCheck:
    """Arguments of :func:`check_sensitivity`, for an audit case."""

    name: str
    statistic: Callable[[Any], npt.ArrayLike]
    neighbours: Callable[[], Iterable[tuple[Any, Any]]]
    bound: float | Callable[[Any, Any], float]
    norm: str = "l2"

    def run(self) -> Finding:
        """Run the check."""
        return check_sensitivity(
            self.statistic, self.neighbours(), self.bound, norm=self.norm, name=self.name
        )


def check_sensitivity(
    statistic: Callable[[Any], npt.ArrayLike],
    neighbours: Iterable[tuple[Any, Any]],
    bound: float | Callable[[Any, Any], float],
    *,
    norm: str = "l2",
    tolerance: float = 1e-9,
    name: str = "sensitivity",
) -> Finding:
    """Compare ``|statistic(X) - statistic(X')|`` with ``bound`` on every pair.

    Parameters
    ----------
    statistic : callable
        The very function the method releases, weights and clipping included.
    neighbours : iterable of (X, X')
    bound : float or callable(X, X')
    norm : {"l2", "l1", "linf"}
    tolerance : float
        Relative; for float statistics. Integer statistics pass with 0.

    Notes
    -----
    Deterministic: a correct bound is never flagged. The worst ratio is reported; one far below 1
    means that the neighbours are not adversarial enough, or the bound is not tight.
    """
    order = {"l2": 2.0, "l1": 1.0, "linf": math.inf}[norm]
    worst, measured, claimed, pairs = -1.0, 0.0, math.nan, 0
    for x, y in neighbours:
        pairs += 1
        gap = np.asarray(statistic(x), dtype=float) - np.asarray(statistic(y), dtype=float)
        size = float(np.linalg.norm(gap.ravel(), order))
        limit = float(bound(x, y) if callable(bound) else bound)
        ratio = size / limit if limit > 0 else (math.inf if size > 0 else 0.0)
        if math.isnan(ratio):
            ratio = math.inf
        if ratio > worst:
            worst, measured, claimed = ratio, size, limit
    passed = pairs > 0 and worst <= 1.0 + tolerance
    detail = f"{pairs} pairs, worst ratio {worst:.4f}"
    return Finding(name, passed, measured, claimed, 0.0, detail)


def corner_neighbours(
    bounds: Sequence[tuple[float, float]],
    n: Sequence[int] = (1, 2, 5),
    *,
    trials: int = 200,
    seed: int = 0,
    outside: bool = True,
) -> Iterator[tuple[Array, Array]]:
    """Yield replace-one neighbours: rows at corners, random, zero, duplicated, out of bounds.

    Parameters
    ----------
    bounds : sequence of (low, high)
        One a column; asymmetric ones are the interesting ones.
    n : sequence of int
        Numbers of rows.
    outside : bool
        Put values far outside the bounds into some rows: clipping must take care of them.
    """
    rng = np.random.default_rng(seed)
    lo, hi = np.array(bounds, dtype=float).T
    width = hi - lo

    def row() -> Array:
        kind = rng.integers(0, 6 if outside else 4)
        if kind <= 1:
            return np.asarray(np.where(rng.random(len(lo)) < 0.5, lo, hi))
        if kind == 2:
            return np.asarray(lo + width * rng.random(len(lo)))
        if kind == 3:
            return np.asarray(np.clip(np.zeros(len(lo)), lo, hi))
        far = 10.0 ** rng.integers(1, 6)
        return np.asarray(lo - far * width if kind == 4 else hi + far * width)

    for size in n:
        for trial in range(trials):
            x = np.array([row() for _ in range(size)])
            if trial % 4 == 0:
                x[:] = x[0]
            y = x.copy()
            y[int(rng.integers(size))] = lo + hi - x[0] if trial % 5 == 0 else row()
            yield x, y
        yield np.tile(lo, (size, 1)), np.vstack([hi, np.tile(lo, (size - 1, 1))])
