"""Replay audit: the production stage on neighbours, step by step, every earlier output held fixed.

A release composes adaptively: the sensitivity that a step hands to the run has to hold for *every*
value of the outputs before it, at all pairs of neighbours. So the private stage is run once and
its outputs are kept; on a neighbour it is run again and each draw returns what the first run
returned. Then all maps that depend on released numbers are the same, and what is left between the
two runs is what one row moves. It is compared with the bound that the stage itself handed over,
not with a constant typed into a test.

What it does not cover: steps whose proof is not a sensitivity (the tilt of objective perturbation,
posterior draws, sketches, smooth sensitivities): recorded as ``inner``, never compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.audit.queries import rows_for
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.quiet import quiet

if TYPE_CHECKING:
    from dpmodels.planning import Plan


@dataclass(frozen=True, eq=False)
class Draw:
    """One noisy step as the stage asked for it."""

    name: str
    # "gaussian", "histogram", "laplace", "choice", "normals", "coin", "table", "laplace table" or
    # "inner".
    kind: str
    # Before noise: integers (objects), floats for "normals", "coin" and tables; counts by bin.
    value: Any
    weights: Any
    sensitivity: float  # As handed to the run; the noise sd for "coin"
    output: Any  # Returned value
    probability: float = math.nan  # Probability of a reply ("coin")
    unit: float = 1.0  # Size of a lattice step, of integers ("gaussian")
    kept: Any = None  # Bins that passed the threshold of a histogram

    def distance(self, other: Draw) -> float:
        """Return the distance of the weighted values of two runs, in the norm of the step.

        Integers are subtracted exactly. For a table: the longest row.
        """
        if isinstance(self.value, dict):  # a histogram: counts by bin, absent ones 0
            bins = set(self.value) | set(other.value)
            moved = [self.value.get(b, 0) - other.value.get(b, 0) for b in bins]
            return math.sqrt(sum(float(m) ** 2 for m in moved))
        if np.shape(self.value) != np.shape(other.value):
            return math.inf  # the length itself would be a private output
        moved = np.asarray(self.value - other.value, dtype=float) * self.weights
        if self.kind == "laplace":
            return float(np.abs(moved).sum())
        if self.kind == "choice":  # utilities: the worst candidate of each row, rows added up
            return float(np.abs(moved).max(axis=1).sum())
        if self.kind == "table":
            return float(np.sqrt((moved**2).sum(axis=0)).max())
        if self.kind == "laplace table":
            return float(np.abs(moved).sum(axis=0).max())
        return float(np.linalg.norm(np.ravel(moved)))


class _Coins(SeededNoise):
    """Coins and permutations of their own stream: the same in every run, whatever else is drawn."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._own = np.random.default_rng(seed + 1)

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Return uniform bytes; a longer table has the same ones first."""
        return (self._own.random(size) * 256).astype(np.uint8)

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Return the order of random keys."""
        return np.argsort(self._own.random(n), kind="stable")


@dataclass
class ReplayRun(Run):
    """A run that records its draws; with ``first`` it returns the outputs of that run."""

    steps: Iterable[Step]
    seed: int = 0
    first: Mapping[str, Draw] | None = None  # Draws of the first run
    drawn: dict[str, Draw] = field(default_factory=dict)
    #: Bins of the histogram about to be released.
    bins: Any = None

    def __post_init__(self) -> None:
        super().__init__(self.steps, _Coins(self.seed))

    def _keep(
        self, name: str, kind: str, value: Any, weights: Any, sensitivity: float,
        draw: Callable[[], Any], probability: float = math.nan,
    ) -> Any:  # fmt: skip
        """Draw and record a release; in a replay return the output of the first run instead."""
        if self.first is None:
            output = draw()
        else:
            self._take(name, object)
            earlier = self.first.get(name)
            # a step that the first run never reached: the comparison of names will tell
            shape = np.shape(value)[:1] if kind == "choice" else np.shape(value)
            output = np.zeros(shape) if earlier is None else earlier.output
        self.drawn[name] = Draw(name, kind, value, weights, sensitivity, output, probability)
        return output

    def gaussian(
        self, name: str, value: Any, sensitivity: float, *, weights: Any = 1.0, unit: float = 1.0
    ) -> Array:
        """Record, draw or replay."""
        exact = np.array(np.asarray(value, dtype=object))
        w = np.broadcast_to(np.asarray(weights, dtype=float), exact.shape).copy()
        base = super().gaussian
        if self.bins is not None:
            counts = dict(zip(self.bins.tolist(), exact.tolist(), strict=True))
            self._keep(
                name, "histogram", counts, 1.0, sensitivity,
                lambda: base(name, value, sensitivity, weights=weights, unit=unit),
            )  # fmt: skip
            out = self.drawn[name].output
            return np.array(out) if self.first is None else np.zeros(exact.shape)
        out = self._keep(
            name, "gaussian", exact, w, sensitivity,
            lambda: base(name, value, sensitivity, weights=weights, unit=unit),
        )  # fmt: skip
        self.drawn[name] = replace(self.drawn[name], unit=unit)
        return np.array(out)

    def laplace(
        self, name: str, value: Any, sensitivity_l1: float, *, weights: Any = 1.0,
        unit: float = 1.0, whole: bool = False,
    ) -> Array:  # fmt: skip
        """Record, draw or replay."""
        exact = np.array(np.asarray(value, dtype=object))
        w = np.broadcast_to(np.asarray(weights, dtype=float), exact.shape).copy()
        base = super().laplace
        out: Array = self._keep(
            name, "laplace", exact, w, sensitivity_l1,
            lambda: base(name, value, sensitivity_l1, weights=weights, unit=unit, whole=whole),
        )  # fmt: skip
        return np.array(out)

    def choose(
        self, name: str, penalties: Any, *, sensitivity: int = 1, largest: int = 1 << 62
    ) -> Any:
        """Record, draw or replay."""
        exact = np.atleast_2d(np.array(penalties, dtype=np.int64))
        base = super().choose
        out = self._keep(
            name, "choice", exact, 1.0, float(sensitivity),
            lambda: base(name, penalties, sensitivity=sensitivity, largest=largest),
        )  # fmt: skip
        return np.array(out, dtype=np.intp)

    def kept_bins(
        self, name: str, bins: Any, sensitivity: float, tau: float, masses: Any = None
    ) -> Any:
        """Record all bins; release those that passed the threshold, or that did before."""
        self.bins = np.unique(bins)
        try:
            bins_kept = super().kept_bins(name, bins, sensitivity, tau, masses)
        finally:
            self.bins = None
        if self.first is not None and name in self.first:
            bins_kept = self.first[name].kept
        self.drawn[name] = replace(self.drawn[name], kept=bins_kept)
        return bins_kept

    def float_normals(self, name: str, value: Any, sensitivity: float) -> Array:
        """Record, draw or replay."""
        base = super().float_normals
        out: Array = self._keep(
            name, "normals", np.array(value, dtype=float), 1.0, sensitivity,
            lambda: base(name, value, sensitivity),
        )  # fmt: skip
        return np.array(out)

    def scaled_laplace(self, name: str, value: Any, scale: Any, *, grid: float) -> Array:
        """Record (as inner), draw or replay."""
        base = super().scaled_laplace
        out: Array = self._keep(
            name, "inner", np.array(value), 1.0, math.nan,
            lambda: base(name, value, scale, grid=grid),
        )  # fmt: skip
        return np.array(out)

    def inner_normals(self, name: str, size: int) -> Array:
        """Record (as inner), draw or replay."""
        out: Array = self._keep(
            name,
            "inner",
            np.zeros(size),
            1.0,
            math.nan,
            lambda: Run.inner_normals(self, name, size),
        )
        return np.array(out)

    def inner_draw(self, name: str, size: int, function: Callable[[Array], Array]) -> Array:
        """Record (as inner), draw or replay."""
        draw = super().inner_draw
        zero = np.zeros(size)
        return np.array(
            self._keep(name, "inner", zero, 1.0, math.nan, lambda: draw(name, size, function))
        )

    def noisy_table(self, name: str, values: Array, **how: Any) -> None:
        """Record, draw or replay, in place."""
        before = np.array(values)
        weights = 1.0 / np.asarray(how["shape"], dtype=float)[:, None]
        base = super().noisy_table

        def draw() -> Array:
            base(name, values, **how)
            return np.array(values)

        pure = isinstance(self._open[name].mechanism, Pure)
        kind = "laplace table" if pure else "table"
        values[:] = self._keep(name, kind, before, weights, how["sensitivity"], draw)

    def coin_gaussian(
        self, name: str, probability: float, value: Any, sd: float, *, base: Any = None
    ) -> Array | None:
        """Record, draw or replay."""
        moved = np.asarray(value, dtype=float) + (0.0 if base is None else np.asarray(base))
        draw = super().coin_gaussian
        out: Array | None = self._keep(
            name, "coin", moved, 1.0, sd,
            lambda: draw(name, probability, value, sd, base=base), float(probability),
        )  # fmt: skip
        return None if out is None else np.array(out)


def replay_stage(
    plan: Plan[Any], data: Any, seed: int, first: Mapping[str, Draw] | None = None
) -> dict[str, Draw]:
    """Run the private stage of a plan on columns; return its draws.

    Under add-remove the columns may have any length.
    """
    from dpmodels.sums.ask import Ask

    run = ReplayRun(plan.steps, seed, first)
    rows = rows_for(plan, data, seed=seed)
    with quiet(), np.errstate(all="ignore"):
        plan.backend.release(plan, Ask(rows, run, plan.guarantee.relation))
    return run.drawn


def replay_ratios(
    plan: Plan[Any],
    data: Any,
    others: Iterable[Any],
    *,
    seed: int = 0,
    skip: Iterable[str] = (),
    coin: tuple[float, float, float] | None = None,
) -> dict[str, float]:
    """Return, a step, the largest distance of neighbours over the bound the stage handed over.

    ``others`` are neighbours of the columns ``data`` (or of ``dp.per_person`` of a table). A ratio
    is infinite where a step is drawn for one neighbour only, or has another scale: the control flow
    and the noise may depend on released numbers, and on nothing else. ``skip``: steps whose proof
    is not a sensitivity. ``coin``: of steps "reply with probability p, then Gaussian noise" what
    the coin may cost (eps, delta), and the noise sd over the sensitivity that a reply is calibrated
    for; compared where both neighbours may reply with more than delta.
    """
    first = replay_stage(plan, data, seed)
    worst = {name: 0.0 for name, d in first.items() if d.kind != "inner"}
    if coin is not None:
        worst |= {f"{name}, coin": 0.0 for name, d in first.items() if d.kind == "coin"}
    for name in skip:
        worst.pop(name, None)
    for other in others:
        second = replay_stage(plan, other, seed, first)
        for name in set(first) ^ set(second):
            worst[name] = math.inf
        for name in tuple(worst):
            a, b = first.get(name), second.get(name)
            if a is None or b is None:
                continue
            if a.kind == "coin":
                assert coin is not None, "coin= says what a reply is calibrated for"
                odds, reply = _coin_ratios(a, b, *coin)
                worst[f"{name}, coin"] = max(worst[f"{name}, coin"], odds)
                worst[name] = max(worst[name], reply)
                continue
            same = a.sensitivity == b.sensitivity and np.array_equal(a.weights, b.weights)
            ratio = a.distance(b) / a.sensitivity if same else math.inf
            worst[name] = max(worst[name], ratio)
    return worst


def _coin_ratios(a: Draw, b: Draw, eps: float, delta: float, factor: float) -> tuple[float, float]:
    """Return the worst ratios of the coin's two outcomes, and of the values behind it."""
    odds = 0.0
    for p, q in ((a.probability, b.probability), (b.probability, a.probability)):
        for x, y in ((p, q), (1.0 - p, 1.0 - q)):
            excess = x - delta * (1.0 + 1e-9)
            if excess > 1e-15:
                odds = max(odds, excess / (math.exp(eps) * y) if y > 0 else math.inf)
    both = min(a.probability, b.probability) > delta
    same = a.sensitivity == b.sensitivity
    reply = a.distance(b) * factor / a.sensitivity if both and same else 0.0
    return odds, reply if same else math.inf
