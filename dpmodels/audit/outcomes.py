"""Statistical audits: of one release at worst-case neighbours, and of a whole call by events.

What the release audit covers: the statistic, its clipping, and the noise *scale* that the run
uses, with the budget as the plan splits it. The run is given test sources: one that returns
zeros, and for each draw one that returns one standard deviation, so that the affine map from
standard normals to released numbers is known and 2e4 draws cost a matrix product. What it does
not cover: the sampler itself (its own tests do), and releases that are no affine function of
Gaussian noise or whose scale depends on noise (the end-to-end audit does).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.privacy.mechanisms import Step
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run

__all__ = [
    "EventCheck",
    "Finding",
    "ReleaseCheck",
    "audit_events",
    "audit_release",
    "clopper_pearson",
    "delta_lower",
    "mu_lower",
]


# -- Findings and the confidence bounds they rest on


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


Release = Callable[[Any, Run], npt.ArrayLike]


class _OneDraw(SeededNoise):
    """All Gaussian draws are 0 but number ``which``, which is one standard deviation."""

    def __init__(self, which: int = -1) -> None:
        super().__init__(0)
        self.which, self.count = which, 0

    def _unit(self, size: int) -> list[bool]:
        out = [self.count + i == self.which for i in range(size)]
        self.count += size
        return out

    def discrete_gaussian(self, sigma2: Fraction, size: int) -> list[int]:
        """Return zeros and at most one rounded sd."""
        sd = round(math.sqrt(sigma2))
        return [sd if one else 0 for one in self._unit(size)]

    def normals(self, size: int) -> Array:
        """Return zeros and at most one 1."""
        return np.array([float(one) for one in self._unit(size)])


def _affine(release: Release, data: Any, steps: Sequence[Step]) -> tuple[Array, Array]:
    """Return the noiseless release (d,) and the map (d, draws) of its Gaussian noise."""
    noise = _OneDraw()
    centre = np.asarray(release(data, Run(steps, noise)), dtype=float).ravel()
    columns = [
        np.asarray(release(data, Run(steps, _OneDraw(k))), dtype=float).ravel() - centre
        for k in range(noise.count)
    ]
    return centre, np.array(columns).T.reshape(len(centre), noise.count)


@dataclass(frozen=True)
class ReleaseCheck:
    """Arguments of :func:`audit_release`, for an audit case."""

    name: str
    release: Release
    pair: tuple[Any, Any]
    guarantee: Guarantee

    def run(self, draws: int, seed: int) -> Finding:
        """Run the check."""
        return audit_release(
            self.release, self.pair, self.guarantee, draws=draws, seed=seed, name=self.name
        )


def audit_release(
    release: Release,
    pair: tuple[Any, Any],
    guarantee: Guarantee,
    *,
    draws: int = 20_000,
    seed: int = 0,
    level: float = 0.99,
    name: str = "release",
) -> Finding:
    """Audit a Gaussian release at a pair of worst-case neighbours.

    Parameters
    ----------
    release : callable(data, run) -> array
        Draws every number of the release through ``run``; the whole release, not one entry.
    pair : (X, X')
    guarantee : Guarantee
        The claim: its steps are what the run is made from, its (eps, delta) what is audited.
    draws : int
        A side. Half choose the threshold, half are counted.
    level : float
        Of each Clopper-Pearson interval; the false alarm is at most ``1 - level``.

    Notes
    -----
    Draws are projected on the worst-case shift (the likelihood ratio), the threshold is the one
    with the largest lower bound on the first half, and ``Phi^{-1}(TPR) - Phi^{-1}(FPR)`` bounds
    the mu of the release from below; flagged if that is above the mu of the claim.

    Raises
    ------
    RequestError
        A claim with delta = 0, which Gaussian noise never keeps.
    """
    from dpmodels.privacy.gdp import mu_gdp

    if guarantee.delta == 0:
        raise RequestError(
            f"{name}: a release audit is of Gaussian noise, whose guarantee has delta > 0; this "
            "one claims delta = 0. Audit a pure release by an EventCheck of its whole stage, its "
            "statistic by a SensitivityCheck(..., norm='l1')"
        )
    rng = np.random.default_rng(seed)
    samples = []
    maps = [_affine(release, data, guarantee.steps) for data in pair]
    shift = maps[1][0] - maps[0][0]
    cov = maps[0][1] @ maps[0][1].T
    direction = np.linalg.lstsq(cov, shift, rcond=1e-12)[0]
    missed = shift - cov @ direction
    claimed = mu_gdp(guarantee.eps, guarantee.delta)
    if float(np.linalg.norm(missed)) > 1e-6 * float(np.linalg.norm(shift)):
        return Finding(name, False, math.inf, claimed, 0.0, "a released number has no noise")
    for centre, noise in maps:
        z = rng.standard_normal((draws, noise.shape[1]))
        samples.append((z @ (noise.T @ direction)) + float((centre - maps[0][0]) @ direction))
    half = draws // 2
    q, p = samples[0], samples[1]
    grid = np.quantile(np.concatenate([q[:half], p[:half]]), np.linspace(0.02, 0.98, 49))
    bounds = [
        mu_lower(int((p[:half] > t).sum()), int((q[:half] > t).sum()), half, level) for t in grid
    ]
    t = float(grid[int(np.argmax(bounds))])
    counts = int((p[half:] > t).sum()), int((q[half:] > t).sum())
    measured = mu_lower(*counts, draws - half, level)
    exact = math.sqrt(max(0.0, float(shift @ direction)))
    detail = f"mu of the shift over the noise scale of the run: {exact:.6f}"
    # the scale is read without sampling error, so it is a bound of its own
    passed = measured <= claimed and exact <= claimed * (1 + 1e-6)
    return Finding(name, passed, max(measured, exact), claimed, 1 - level, detail)


@dataclass(frozen=True)
class EventCheck:
    """Arguments of :func:`audit_events`, for an audit case."""

    name: str
    outcomes: tuple[Callable[[int], Any], Callable[[int], Any]]
    guarantee: Guarantee
    runs: int = 2000

    def run(self, seed: int) -> Finding:
        """Run the check."""
        return audit_events(
            *self.outcomes, self.guarantee, runs=self.runs, seed=seed, name=self.name
        )


def audit_events(
    outcome_x: Callable[[int], Any],
    outcome_y: Callable[[int], Any],
    guarantee: Guarantee,
    *,
    runs: int = 2000,
    seed: int = 0,
    level: float = 0.99,
    name: str = "end to end",
) -> Finding:
    """Audit a whole call: *no reply* as an event, and a projection of the replies.

    Parameters
    ----------
    outcome_x, outcome_y : callable(seed) -> array or None
        Run the public verb on one of two neighbours with fresh noise; None is a no-reply.
    guarantee : Guarantee
    runs : int
        A side.

    Notes
    -----
    Events, in both orders: no reply; reply; reply beyond a threshold of the projection on the
    difference of means, chosen on the first half. Flagged if a lower bound of
    ``P(S) - e^e Q(S)`` exceeds the claimed delta(e) at e = 0, eps/2 or eps. With Bonferroni over
    the six events the false alarm is at most ``1 - level``.
    """
    sides = [[f(seed + i) for i in range(runs)] for f in (outcome_x, outcome_y)]
    half = runs // 2
    replies = [
        [np.asarray(v, dtype=float).ravel() for v in s[:half] if v is not None] for s in sides
    ]
    direction, threshold = None, 0.0
    if all(len(r) > 1 for r in replies):
        a, b = np.array(replies[0]), np.array(replies[1])
        spread = np.concatenate([a - a.mean(0), b - b.mean(0)]).var(0) + 1e-300
        direction = (b.mean(0) - a.mean(0)) / spread
        threshold = 0.5 * float((a.mean(0) + b.mean(0)) @ direction)

    def events(v: Any) -> tuple[bool, ...]:
        reply = v is not None
        beyond = reply and direction is not None and bool(np.ravel(v) @ direction > threshold)
        return (not reply, reply, beyond, reply and not beyond)

    n = runs - half
    counts = [np.array([events(v) for v in s[half:]]).sum(0) for s in sides]
    each = 1 - (1 - level) / (2 * len(counts[0]) * 3)
    worst, claim = -math.inf, guarantee.delta
    for eps in (0.0, guarantee.eps / 2, guarantee.eps):
        claimed = guarantee.delta_at(eps)
        for a, b in zip(counts[0], counts[1], strict=True):
            for hits in ((int(a), int(b)), (int(b), int(a))):
                excess = delta_lower(*hits, n, eps, each)
                if excess - claimed > worst:
                    worst, measured, claim = excess - claimed, excess, claimed
    detail = f"{runs} runs a side; no reply {int(counts[0][0])} / {int(counts[1][0])} of {n}"
    return Finding(name, worst <= 0, measured, claim, 1 - level, detail)
