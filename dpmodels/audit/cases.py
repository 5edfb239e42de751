"""Audit cases as data, and the one call that runs those of a method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.audit.outcomes import EventCheck, Finding, ReleaseCheck
from dpmodels.audit.structure import SentinelCheck, StructureCheck
from dpmodels.errors import RequestError, did_you_mean

__all__ = [
    "AuditCase",
    "AuditReport",
    "SensitivityCheck",
    "audit",
    "check_sensitivity",
    "corner_neighbours",
    "register_case",
]


# -- Deterministic audit: a sensitivity bound against random and corner neighbours


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


@dataclass(frozen=True)
class AuditCase:
    """What a method's author gives: checks of each kind, on synthetic neighbours."""

    sensitivity: tuple[SensitivityCheck, ...] = ()
    release: tuple[ReleaseCheck, ...] = ()
    events: tuple[EventCheck, ...] = ()
    structure: tuple[StructureCheck, ...] = ()
    sentinels: tuple[SentinelCheck, ...] = ()


@dataclass(frozen=True)
class AuditReport:
    """Findings of all cases of a method."""

    method: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if there were findings and none was flagged."""
        return bool(self.findings) and all(f.passed for f in self.findings)

    def __str__(self) -> str:
        total = sum(f.false_alarm for f in self.findings)
        lines = [f"Audit of {self.method}: {'passed' if self.passed else 'FLAGGED'}"]
        lines += [f"  {f}" for f in self.findings]
        lines.append(
            f"  false-alarm probability of the whole report: at most {min(1.0, total):.3g}"
        )
        return "\n".join(lines)


_CASES: dict[tuple[str, str], list[AuditCase]] = {}


def register_case(method: str, verb: str, case: AuditCase) -> None:
    """Add an audit case to a method."""
    cases = _CASES.setdefault((verb, method), [])
    if case not in cases:
        cases.append(case)


def audit(
    method: str, verb: str | None = None, *, draws: int = 20_000, seed: int = 0
) -> AuditReport:
    """Run the audits that follow from a method's queries, and every one registered for it.

    Parameters
    ----------
    method : str
    verb : str, optional
        Only that verb's.
    draws : int
        A side, for release audits (2e4 takes about a second; 2e5 for the slow suite).

    Privacy
    -------
    Runs on synthetic data. A passed audit refutes nothing; it is not a proof.
    """
    from dpmodels.audit.derived import derived
    from dpmodels.registry import method_names, methods

    verbs = [str(v) for v in dict.fromkeys(methods()["verb"])]
    known = dict.fromkeys([*((v, name) for v in verbs for name in method_names(v)), *_CASES])
    keys = [k for k in known if k[1] == method and verb in (None, k[0])]
    findings: list[Finding] = []
    for key in keys:
        findings += derived(*key)
    for case in (c for k in keys for c in _CASES.get(k, ())):
        findings += [check.run() for check in case.sensitivity]
        findings += [check.run(draws, seed) for check in case.release]
        findings += [check.run(seed) for check in case.events]
        findings += [check.run() for check in case.structure]
        findings += [check.run() for check in case.sentinels]
    if not findings:
        names = sorted({k[1] for k in known})
        raise RequestError(
            f"no audit case is registered for {method!r}.{did_you_mean(method, names)}"
        )
    return AuditReport(method, tuple(findings))
