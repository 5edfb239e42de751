"""The release of a scoring pass: its matrices and scores jointly, scale and histogram apart.

What one unit may lay down is a :class:`~dpmodels.exact.statistics.Along`, made of the radii and
noises of the pass; how far that moves is the prover's business. A plan that asks for less noise
than its radii need gets a larger sensitivity at the charged mu, not less noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import ALL, Added, Pass, Query, Read
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.sets import Ball, Interval, Mark
from dpmodels.exact.statistics import Along, Sum
from dpmodels.scoring.sums import BINS, FACTOR

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.scoring.rules import PassPlan
    from dpmodels.scoring.sums import PassSums

#: Parts of a pass that are matrices, in the order of their draw.
MATRICES = ("information", "meat", "spread")


@dataclass(frozen=True, eq=False)
class Released:
    """The noisy sums of one pass, in real units.

    Attributes
    ----------
    information, meat, spread : (r, r) arrays or None
    score : (r,) array
    scale : float or None
    bins : (k,) array or None
    signed : (k,) array or None
        Of a histogram by sign: lengths of positive scores less those of negative ones.
    far : (r,) array or None
        What scores are beyond C.
    """

    information: Array
    score: Array
    meat: Array | None = None
    spread: Array | None = None
    scale: float | None = None
    bins: Array | None = None
    signed: Array | None = None
    far: Array | None = None


def by_name(passes: Sequence[Released], label: str) -> dict[str, Any]:
    """Return what the passes of one model released, by name: of the last one all of it.

    Parameters
    ----------
    label : str
        Of the model; empty: the only one.
    """
    end = f" ({label})" if label else ""
    values: dict[str, Any] = {}
    for k, sums in enumerate(passes, 1):
        values |= {f"information {k}{end}": sums.information, f"scores {k}{end}": sums.score}
    last = passes[-1]
    parts = {"meat": last.meat, "ordinary": last.spread, "bins": last.bins, "far": last.far}
    return values | {name + end: part for name, part in parts.items() if part is not None}


def _matrices(plan: PassPlan) -> tuple[str, ...]:
    """Return the matrices that a pass releases."""
    return tuple(name for name in MATRICES if getattr(plan, name))


def along(plan: PassPlan, r: int) -> Along:
    """Return the joint statistic of a pass: its radii, and the noise that it asks for."""
    names = _matrices(plan)
    return Along(
        r,
        tuple(getattr(plan, name) for name in names),
        tuple(getattr(plan.noise, name) for name in names),
        plan.clip,
        plan.noise.score,
        plan.people,
    )


def _score_step(sums: PassSums, plan: PassPlan) -> float:
    """Return the size of an integer of the scores, which follows from their route."""
    lattice = plan.clip / STEPS
    if not plan.weighted:
        return lattice * (plan.information / STEPS * FACTOR)
    return lattice / STEPS if sums.by_cell else lattice


def _joint(sums: PassSums, plan: PassPlan) -> Added:
    """Return matrices and scores with the sizes of their integers, entry by entry."""
    r = len(sums.score)
    values, steps = [], []
    for name in _matrices(plan):
        values.append(getattr(sums, name))
        steps.append(np.full(r * (r + 1) // 2, (getattr(plan, name) / STEPS) ** 2))
    steps.append(np.full(r, _score_step(sums, plan)))
    return Added((*values, sums.score), np.concatenate(steps))


def ask_pass(
    ask: Ask, plan: PassPlan, over: Pass, pick: Callable[[Any], PassSums], label: str, r: int,
    read: Read = ALL,
) -> Released:  # fmt: skip
    """Release the sums of a pass.

    Parameters
    ----------
    over : Pass
        Of one or several chains.
    pick : function
        The sums of this chain among those of the pass.
    r : int
        Dimension of the scores.

    Privacy
    -------
    ``mu_joint``-, ``mu_scale``-, ``mu_histogram``- and ``mu_far``-GDP for one unit
    (``theory.md``, 2).
    """
    statistic = along(plan, r)
    joint = Query(statistic, over, lambda sums: _joint(pick(sums), plan))
    *matrices, score = statistic.parts(ask(f"information and scores {label}", joint, read).values)
    out: dict[str, Any] = dict(zip(_matrices(plan), matrices, strict=True), score=score)
    if plan.mu_scale:
        square = Query(
            Sum(Interval(0, int(STEPS))), over,
            lambda sums: Added(np.array([pick(sums).scale], dtype=object)),
            plan.scale_cut / STEPS,
        )  # fmt: skip
        out["scale"] = float(ask(f"scale {label}", square, read).values[0])
    if plan.mu_histogram:
        signed = plan.manner.signed
        counts = Query(
            Sum(Mark(BINS * (1 + signed))), over,
            lambda sums: Added(np.array(pick(sums).bins, dtype=object)),
        )  # fmt: skip
        bins = ask(f"score lengths {label}", counts, read).values
        if signed:
            out["signed"] = bins[:BINS] - bins[BINS:]
            bins = bins[:BINS] + bins[BINS:]
        out["bins"] = bins
    if plan.mu_far:
        far = Query(Sum(Ball(r)), over, lambda sums: _far(pick(sums)), plan.far)
        out["far"] = ask(f"far scores {label}", far, read).values
    return Released(**out)


def _far(sums: PassSums) -> Added:
    """Return what scores are beyond C: by cell on a finer lattice."""
    return Added(sums.far, STEPS**-2 if sums.by_cell else 1.0 / STEPS)
