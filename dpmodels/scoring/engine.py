"""The passes of a scoring fit, in order: start, scoring passes, last pass.

Plan (public) -> release (sees rows) -> what :mod:`dpmodels.scoring.intervals` reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.queries import release_ball
from dpmodels.exact.rowmap import RowMap
from dpmodels.exact.sensitivity import gram_sensitivity
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.steps import Step as LedgerStep
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.newton import State, Step, newton_step, start_state
from dpmodels.scoring.rules import PassPlan, Rules, plan_pass
from dpmodels.scoring.sums import Centre, Released, ScorePass, release_pass
from dpmodels.sources.windows import ALL_ROWS, Coins, Windows

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.privacy.run import Run
    from dpmodels.sources.rows import Rows

__all__ = ["ScoringPlan", "ScoringRelease", "plan_scoring", "release_scoring", "steps"]


@dataclass(frozen=True)
class Guide:
    """Which rows of a large table the passes before the last read, and meat and ordinary rows.

    Attributes
    ----------
    every : int
        Each row with probability 1 / every, by secret coins ...
    windows : Windows
        ... or whole windows of rows, where the order of the rows is public.
    """

    every: int = 1
    windows: Windows = ALL_ROWS

    def early(self, n: int) -> int:
        """Return how many of n rows the early passes read (expected, under coins). Public."""
        return max(self.windows.count(n) if self.by_place else n // self.every, 1)

    def tail(self, n: int) -> int:
        """Return how many rows meat and ordinary information are of."""
        return max(n // self.every, 1)

    @property
    def by_place(self) -> bool:
        """Whether windows choose the rows of the early passes."""
        return self.windows.every > 1

    def early_coins(self, run: Run) -> Coins | None:
        """Return the coins of an early pass."""
        return None if self.by_place else self.tail_coins(run)

    def tail_coins(self, run: Run) -> Coins | None:
        """Return the coins that choose the rows of meat and ordinary information."""
        return Coins(self.every, run.coins) if self.every > 1 else None


@dataclass(frozen=True)
class ScoringPlan:
    """What a scoring fit will release.

    Attributes
    ----------
    p, n : int
        Rank of the design; public row count, or the guess.
    mu : float
        Of all releases together.
    start, radius : float
        mu of the start, and of the ball of its rows ``(u, c (y - u'centre))``.
    every : int
        The start reads every row with probability 1 / every.
    passes : tuple of PassPlan
    """

    p: int
    n: int
    mu: float
    start: float
    radius: float
    relation: str
    passes: tuple[PassPlan, ...]
    guide: Guide


@dataclass(frozen=True, eq=False)
class ScoringRelease:
    """What went out, and what the passes made of it.

    Attributes
    ----------
    coordinates : Coordinates
    Q : (r + 1, r + 1) array
        The start.
    released : tuple of Released
    before : State
        Where the last pass looked from.
    last : Step
    """

    coordinates: Coordinates
    Q: Array
    released: tuple[Released, ...]
    before: State
    last: Step


def plan_scoring(
    rules: Rules,
    mu: float,
    n: int,
    p: int,
    relation: str,
    *,
    meat: bool = True,
    guide: Guide | None = None,
    radius: float = 0.0,
) -> ScoringPlan:
    """Plan a scoring fit from public numbers.

    Parameters
    ----------
    radius : float
        Of the start; 0: ``sqrt(p + 1)``, the root mean square length of a row over the box.
    """
    last = len(rules.passes) - 1
    guide = Guide() if guide is None else guide
    passes = tuple(
        plan_pass(
            rules, k, mu, guide.early(n) if k < last else n, p, relation, meat=meat,
            tail=guide.tail(n),
        )
        for k in range(1, last + 1)
    )  # fmt: skip
    start = mu * math.sqrt(rules.passes[0])
    return ScoringPlan(p, n, mu, start, radius or math.sqrt(p + 1.0), relation, passes, guide)


def steps(plan: ScoringPlan) -> tuple[LedgerStep, ...]:
    """Return the steps of the ledger, in the order of the release."""
    out = [("start", plan.start)]
    for k, one in enumerate(plan.passes, 1):
        out.append((f"information and scores {k}", one.mu_joint))
        out += [(f"scale {k}", one.mu_scale)] if one.mu_scale else []
        out += [(f"score lengths {k}", one.mu_histogram)] if one.mu_histogram else []
    return tuple(LedgerStep(name, Gaussian(mu), share=(mu / plan.mu) ** 2) for name, mu in out)


def release_scoring(
    plan: ScoringPlan, coordinates: Coordinates, design: Design, rows: Rows, run: Run
) -> ScoringRelease:
    """Read the rows once a pass and release its sums.

    Privacy
    -------
    The steps of the plan. Every pass looks from released numbers only.
    """
    r = coordinates.rank
    unit, W0 = coordinates.unit, coordinates.W0
    n = plan.n
    radius = plan.radius
    rowmap = RowMap(
        unit, np.full(r + 1, radius), ball=r + 1, radius=radius, matrix=coordinates.start,
        still=plan.relation != "replace",
    )  # fmt: skip
    guide = plan.guide
    Q = release_ball(
        rows, design, rowmap, run, "start", Gaussian(plan.start), plan.relation, guide.windows,
        guide.early_coins(run),
    )  # fmt: skip
    s = gram_sensitivity(r + 1, plan.relation) * radius**2 / plan.start
    state = start_state(Q, s, guide.early(n), coordinates)
    out = []
    for k, one in enumerate(plan.passes, 1):
        before = state
        centre = Centre(unit, W0, state.theta, state.W, state.phi)
        if one.last:
            blocks, tail = rows.blocks(design), guide.tail_coins(run)
        else:
            blocks = rows.blocks(design, windows=guide.windows, coins=guide.early_coins(run))
            tail = None
        sums = ScorePass(one, centre).sums(blocks, tail)
        out.append(release_pass(sums, one, run, k))
        step = newton_step(out[-1], one, state)
        state = step.state
    return ScoringRelease(coordinates, Q, tuple(out), before, step)
