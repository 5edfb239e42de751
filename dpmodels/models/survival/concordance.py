"""Harrell's C of a released fit: one more table, by tenths of the released risk.

Which of two units has its event first, and which of them the fit says is at higher risk, is a
question about pairs; a table of (tenth of risk, cell of time, event | censored | beyond) answers
it. ``theory.md``, 9.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Query
from dpmodels.models.survival.counts import SurvivalPass, added, statistic_of
from dpmodels.models.survival.hazard import Hazard
from dpmodels.models.survival.layout import Layout
from dpmodels.models.survival.noise import CellNoise
from dpmodels.scoring.expand import in_u, predictor

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.scoring.coordinates import Coordinates
    from dpmodels.scoring.expand_engine import UnitPlan, UnitRelease

#: Groups of risk.
TENTHS = 10
#: Comparable pairs below so many of their noise sds: not determined.
_DETERMINED = 4.0


@dataclass(frozen=True, eq=False)
class Risk:
    """The linear predictor of rows, cut where a normal one of its released spread has its tenths.

    Attributes
    ----------
    coordinates : Coordinates
    theta : (r,) array
        Released coefficients in u, the time terms left out.
    """

    coordinates: Coordinates
    theta: Array

    @functools.cached_property
    def cuts(self) -> Array:
        """Return the inner ends of the tenths: released numbers only.

        In u second moments are the identity over the box of the released places, so a predictor
        theta'u has mean theta'a, a the coefficients of the constant.
        """
        from scipy.special import ndtri

        a = self.coordinates.constant
        mean = 0.0 if a is None else float(self.theta @ a)
        sd = math.sqrt(max(float(self.theta @ self.theta) - mean * mean, 1e-12))
        return np.asarray(mean + sd * ndtri(np.arange(1, TENTHS) / TENTHS))

    def added_to(self, block: Array) -> Array:
        """Return a block with a row more: the tenth of each row; NaN where it is not known."""
        with np.errstate(all="ignore"):
            eta = predictor(self.theta, in_u(self.coordinates, block))
        known = np.isfinite(eta)
        tenth = np.searchsorted(self.cuts, np.where(known, eta, 0.0), side="right")
        return np.concatenate([block, np.where(known, tenth, np.nan)[None, :]])


def by_risk(layout: Layout) -> Layout:
    """Return the layout with tenths of risk for groups, stratum by stratum."""
    return replace(layout, groups=tuple(f"risk {k + 1}" for k in range(TENTHS)))


def concordance_of(layout: Layout, noise: CellNoise, cells: Array) -> dict[str, float]:
    """Return C with its errors: ``concordance, concordance_se, concordance_noise``.

    ``C = A / P``, over strata and cells k of time. P are pairs: of an event in k and all that leave
    later; of an event and a censoring in k by half, as either may come first; of two events in k. A
    are those in which the event has the higher tenth; half of those of one tenth, and of two events
    in one cell. To leave pairs of one cell out would leave out the closest: C would be too large.
    Noise of different cells is independent, so it biases squares alone, by its variance: nothing
    beside pairs that are determined. Errors by the gradient of C: ``sum n psi^2`` of sampling,
    ``psi V psi'`` of noise. NaN: not determined.

    Parameters
    ----------
    layout : Layout
        Of :func:`by_risk`.
    cells : (M,) array
        Noisy, consistent, never clipped.
    """
    to_A, to_P = np.zeros(layout.M), np.zeros(layout.M)
    A = P = 0.0
    G = len(layout.groups)
    ranks = np.tril(np.ones((G, G)), -1) + 0.5 * np.eye(G)  # the row's tenth over the column's
    for s in range(len(layout.stratas)):
        groups = range(s * G, (s + 1) * G)
        events = np.array([cells[layout.run(g, 0)] for g in groups])  # (G, K)
        censored = np.array([cells[layout.run(g, 1)] for g in groups])
        at_break = np.array([cells[layout.run(g, 2)] for g in groups])
        beyond = cells[[layout.beyond(g) for g in groups]]
        leave = events + censored + at_break
        later = np.cumsum(leave[:, ::-1], axis=1)[:, ::-1] - leave
        later += beyond[:, None] + 0.5 * censored
        together = events.sum(axis=0)  # in one cell: (K,)
        square = together * (together - 1.0)
        for to, of, part in ((to_A, ranks, 0.5), (to_P, np.ones((G, G)), 1.0)):
            by_event, by_later = of @ later, of.T @ events
            before = np.cumsum(by_later, axis=1) - by_later
            for i, g in enumerate(groups):
                to[layout.run(g, 0)] += by_event[i] + before[i] + part * (together - 0.5)
                to[layout.run(g, 1)] += before[i] + 0.5 * by_later[i]
                to[layout.run(g, 2)] += before[i]
                to[layout.beyond(g)] += by_later[i].sum()
        A += float(np.sum(events * (ranks @ later)) + np.sum(square) / 4.0)
        P += float(np.sum(together * later.sum(axis=0)) + np.sum(square) / 2.0)
    if not _DETERMINED * math.sqrt(float(noise.covariance(to_P[None, :])[0, 0])) < P:
        return dict.fromkeys(("concordance", "concordance_se", "concordance_noise"), math.nan)
    C = A / P
    psi = (to_A - C * to_P) / P
    privacy = float(noise.covariance(psi[None, :])[0, 0])
    sampling = max(float(cells @ psi**2), 0.0)
    return {
        "concordance": C,
        "concordance_se": math.sqrt(sampling + privacy),
        "concordance_noise": math.sqrt(privacy),
    }


@dataclass(frozen=True)
class Concordance:
    """The table that C is read off, released after the passes.

    Attributes
    ----------
    layout : Layout
        Of the baseline's table.
    people : bool
    N : int
    """

    layout: Layout
    people: bool
    N: int

    step: ClassVar[str] = "concordance table"
    share: ClassVar[float] = 0.05

    def conclude(
        self, found: UnitRelease, scoring: UnitPlan, design: Design, ask: Ask
    ) -> dict[str, float]:
        """Release the table by tenths of the released risk, and read C off it.

        Privacy
        -------
        ``share`` of the call's mu^2, for one unit: its mass in one table, as of the baseline's
        (``theory.md``, 2). Cuts are released numbers.
        """
        model = found.chains[0].expansion
        assert isinstance(model, Hazard)
        theta = found.chains[0].last.state.theta[: len(model.coordinates.W0)]
        layout = by_risk(self.layout)
        over = SurvivalPass(design, layout, self.people, Risk(model.coordinates, theta))
        noisy = ask(self.step, Query(statistic_of(layout, people=self.people), over, added))
        noise = CellNoise(layout, float(noisy.sd.flat[0]))
        return concordance_of(layout, noise, noise.fit(noisy.values, float(self.N)))
