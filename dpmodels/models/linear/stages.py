"""The passes of ``ssp`` and ``pmt``: rows into a ball, moments out, one whitened by the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Read
from dpmodels.exact.passes import Moments, ball_map, moments_query
from dpmodels.exact.rowmap import OneFirst
from dpmodels.exact.symmetric import floored_cholesky, turned
from dpmodels.formula.grid import grid_of
from dpmodels.models.linear.facts import Stage
from dpmodels.models.linear.plans import mu_like, second_radius
from dpmodels.sources.windows import ALL_ROWS, Windows

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.exact.rowmap import UnitScale
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.facts import Scores
    from dpmodels.privacy.mechanisms import Gaussian, Pure


@dataclass(frozen=True)
class Passes:
    """What every pass of one call shares.

    Attributes
    ----------
    ask, design, unit, relation
    constant : bool
        Put the constant 1 in front of every row (the design has no intercept column).
    per : float
        Public guess of the rows of a person, where that is the unit; 0: rows.
    """

    ask: Ask
    design: Design
    unit: UnitScale
    relation: str
    constant: bool = False
    per: float = 0.0

    @property
    def q(self) -> int:
        """Columns of a mapped row."""
        return self.design.q + self.constant


@dataclass(frozen=True, eq=False)
class Stages:
    """What a call released, in the order of the passes: the detail of its release.

    Attributes
    ----------
    unit : UnitScale
    stages : tuple of Stage
    scores : Scores or None
        With ``vcov="hetero"``.
    """

    unit: UnitScale
    stages: tuple[Stage, ...]
    scores: Scores | None = None


def ball_stage(
    passes: Passes,
    L: Array | None,
    radius: float,
    step: str,
    mechanism: Gaussian | Pure,
    windows: Windows = ALL_ROWS,
    every: int = 1,
) -> Stage:
    """Release the moments of ``min(1, R/|w|) w``, ``w = L^{-1} unit row``. One pass.

    Privacy
    -------
    The mechanism of the step. L and the radius must be public or released before. With
    ``every = k`` each row is read with probability 1/k, by secret coins. By person the ball is that
    of the trace of a person's rows (``units/theory.md``, 2 and 10).
    """
    q = passes.q
    inverse = None if L is None else np.asarray(np.linalg.inv(L), dtype=np.float64)
    rowmap = ball_map(passes.unit, radius, inverse)
    over = Moments(
        passes.design, OneFirst(rowmap) if passes.constant else rowmap, people=passes.per > 0.0
    )
    found = passes.ask(step, moments_query(over, radius=radius), Read(every, windows))
    return Stage(found.values, found.variance, np.eye(q) if L is None else L, radius)


def whitened_stage(
    passes: Passes,
    first: Stage,
    mechanism: Gaussian | Pure,
    *,
    n: int,
    first_n: int | None = None,
    phi: float,
    radius: float,
    floor: float,
    least: float,
) -> Stage:
    """Whiten (and re-centre) by a released first stage, and release the moments again.

    ``C2 = L Q1/n L'`` with the eigenvalues of ``Q1/n`` floored at ``max(floor s1 sqrt(2q)/n,
    least)`` where the smallest is below that. ``radius = 0``: by rule. ``first_n``: rows that the
    first stage read, if not all.
    """
    q = passes.q
    read = n if first_n is None else first_n
    noise = first.s * math.sqrt(2.0 * q) / read
    K = floored_cholesky(first.Q / read, noise, multiple=floor, least=least)
    # whitened is the trace of a person: phi speaks of rows, of which each has so many
    R = radius or second_radius(mu_like(mechanism, q), q, n, phi / (passes.per or 1.0))
    L = first.L @ K
    grid = None if passes.per else grid_of(passes.design)
    if grid is not None and len(grid.numbers) == 1:  # rows can then be added up by cell
        L = turned(L, grid.numbers[0] + passes.constant)
    return ball_stage(passes, L, R, "whitened moments", mechanism)
