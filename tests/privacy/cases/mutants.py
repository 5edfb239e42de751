"""Generic mechanisms and their deliberately broken twins: audits of the audits.

A privacy test that no mutant can fail is not a test. Every mutant here is a mistake that was made
in some published or shipped code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit.kit import (
    Finding,
    audit_events,
    audit_release,
    check_sensitivity,
    corner_neighbours,
)
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Step, mu_gdp, upper_quantile
from dpmodels.privacy.run import Run

__all__ = ["MUTANTS", "Mutant", "flagged"]

_BOUNDS = ((-1.0, 5.0), (0.0, 2.0), (-3.0, -1.0))
_LO, _HI = np.array(_BOUNDS).T
_R = 1 << 20


@dataclass(frozen=True)
class Mutant:
    """A correct mechanism's audit and its broken twin's.

    Attributes
    ----------
    name : str
    honest, broken : callable(draws, seed) -> Finding
    """

    name: str
    honest: Callable[[int, int], Finding]
    broken: Callable[[int, int], Finding]


def flagged(mutant: Mutant, draws: int = 20_000, seed: int = 0) -> tuple[bool, bool]:
    """Return (the broken twin is flagged, the honest one is)."""
    return not mutant.broken(draws, seed).passed, not mutant.honest(draws, seed).passed


# -- sensitivity ---------------------------------------------------------------------------------


def _clipped_sum(x: Array) -> Array:
    return np.asarray(np.clip(x, _LO, _HI).sum(0))


def _by_data_bounds(x: Array) -> Array:
    lo, hi = x.min(0), x.max(0)
    return np.asarray(((x - lo) / np.where(hi > lo, hi - lo, 1.0)).sum(0))


def _unit_sum(x: Array) -> Array:
    return np.asarray(((np.clip(x, _LO, _HI) - _LO) / (_HI - _LO)).sum(0))


def _sensitivity(
    statistic: Callable[[Array], Array], bound: float
) -> Callable[[int, int], Finding]:
    def run(draws: int, seed: int) -> Finding:
        return check_sensitivity(statistic, corner_neighbours(_BOUNDS, seed=seed), bound)

    return run


# -- release -------------------------------------------------------------------------------------


def _promise(shares: tuple[float, ...]) -> Guarantee:
    mu = mu_gdp(1.0, 1e-6)
    steps = tuple(
        Step(f"part {i}", Gaussian(math.sqrt(s) * mu), share=s) for i, s in enumerate(shares)
    )
    return Guarantee(steps, 1.0, 1e-6)


#: Two data sets of lattice rows (norm at most 2^20) that differ in one: orthogonal at the bound.
_PAIR = (
    np.array([[_R, 0, 0], [0, 0, 1000]], dtype=object),
    np.array([[0, _R, 0], [0, 0, 1000]], dtype=object),
)


def _gram(factor: float) -> Callable[[int, int], Finding]:
    """Gram matrix with sensitivity ``factor`` R^2; sqrt(2) is right under replace-one."""

    def release(rows: Any, run: Run) -> Array:
        G = rows.T @ rows
        i, j = np.triu_indices(len(G))
        weights = np.where(i == j, 1.0, math.sqrt(2.0))
        return run.gaussian("part 0", G[i, j], factor * float(_R) ** 2, weights=weights)

    def audit(draws: int, seed: int) -> Finding:
        return audit_release(release, _PAIR, _promise((1.0,)), draws=draws, seed=seed)

    return audit


def _two_sums(factor: float) -> Callable[[int, int], Finding]:
    """Two sums, one row moves both by R each; each noise is divided by ``factor``."""

    def release(rows: Any, run: Run) -> Array:
        delta = math.sqrt(2.0) * _R / factor
        total = rows.sum(0)
        first = run.gaussian("part 0", total, delta)
        return np.concatenate([first, run.gaussian("part 1", total, delta)])

    def audit(draws: int, seed: int) -> Finding:
        return audit_release(release, _PAIR, _promise((0.5, 0.5)), draws=draws, seed=seed)

    return audit


# -- end to end ----------------------------------------------------------------------------------


def _threshold(z: Callable[[float], float]) -> Callable[[int, int], Finding]:
    """Audit a test with failure 1e-3 that guards the release of a raw value."""
    failure = 1e-3

    def audit(draws: int, seed: int) -> Finding:
        margin = z(failure)
        noise = np.random.default_rng(seed).standard_normal((2, draws))

        def call(side: int) -> Callable[[int], Any]:
            return lambda i: float(side) if noise[side, i - seed] > margin else None

        promise = Guarantee(
            (Step("test", Approximate(0.0, failure), reply_test=True),), 1.0, failure
        )
        return audit_events(call(0), call(1), promise, runs=draws, seed=seed)

    return audit


_RIGHT = float(np.linalg.norm(_HI - _LO))

#: Every mistake the kit must catch, next to the correct mechanism it must not flag.
MUTANTS = (
    Mutant(
        "no clipping",
        _sensitivity(_clipped_sum, _RIGHT),
        _sensitivity(lambda x: np.asarray(x.sum(0)), _RIGHT),
    ),
    Mutant(
        "bounds from the data",
        _sensitivity(_unit_sum, math.sqrt(3.0)),
        _sensitivity(_by_data_bounds, math.sqrt(3.0)),
    ),
    Mutant(
        "lower bound twice",
        _sensitivity(_clipped_sum, _RIGHT),
        _sensitivity(_clipped_sum, float(np.linalg.norm(np.abs(_LO) + np.abs(_LO)))),
    ),
    Mutant("unsplit budget", _two_sums(1.0), _two_sums(math.sqrt(2.0))),
    Mutant("add/remove sensitivity under replace-one", _gram(math.sqrt(2.0)), _gram(1.0)),
    Mutant("noise halved", _gram(math.sqrt(2.0)), _gram(math.sqrt(0.5))),
    Mutant(
        "classical tail without its sqrt 2",
        _threshold(upper_quantile),
        _threshold(lambda p: math.sqrt(-math.log(p))),
    ),
)
