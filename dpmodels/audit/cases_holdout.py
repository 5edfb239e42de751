"""Audit cases of scores and diagnoses: the sums that go out, at adversarial neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit import (
    AuditCase,
    ReleaseCheck,
    SensitivityCheck,
    corner_neighbours,
    register_case,
)
from dpmodels.exact.ask import Ask
from dpmodels.exact.prove import reach
from dpmodels.exact.statistics import Norm
from dpmodels.models.holdout.release import HoldoutPlan, plan_holdout, release
from dpmodels.models.holdout.sums import (
    AtBounds,
    BinnedResiduals,
    ClassCounts,
    LossSums,
    Predictor,
    Sums,
    added_up,
)
from dpmodels.privacy.run import Run
from dpmodels.sources.windows import OfRows

__all__ = ["GROUPS", "sums_of"]

_FIT = Predictor(np.array([1.0]), lambda eta: (eta + 1.0) / 2.0)
_LINE = Predictor(np.array([1.0]), lambda eta: eta)
#: Rows are (x, y), both in [-1, 1]; an event is y > 1/2.
GROUPS: dict[str, Sums] = {
    "counts by class": ClassCounts(_FIT, np.array([0.3, 0.7])),
    "squared errors": LossSums(_LINE, "squared", 1.0),
    "log losses": LossSums(_FIT, "log", 1.0),
    "cells at their bounds": AtBounds(-np.ones(2), np.ones(2), np.array([0, 1])),
    "residuals by prediction": BinnedResiduals(_LINE, np.array([0.0]), 1.0),
}


def sums_of(one: Sums) -> Any:
    """Return the function rows (n, 2) -> what goes out before noise."""

    def statistic(rows: Array) -> Array:
        return np.array([float(v) for v in added_up([rows.T.copy()], (one,))[0]])

    return statistic


def _pairs() -> Any:
    return corner_neighbours([(-1, 1), (-1, 1)], n=(1, 2, 4), trials=200)


def _of(name: str) -> Any:
    """Return (release(rows, run) -> all numbers, plan) of one group."""
    design: Any = None
    plan: HoldoutPlan = plan_holdout(design, 1, {name: (GROUPS[name], 1.0)}, 2.0, 1e-4)

    def private(rows: Array, run: Run) -> Array:
        class OneBlock(OfRows):
            def blocks(self, design: Any) -> Any:
                yield rows.T.copy()

        source: Any = OneBlock()
        return np.concatenate(release(plan, Ask(source, run)))

    return private, plan


def _check() -> ReleaseCheck:
    private, plan = _of("residuals by prediction")
    pair = (np.array([[-1.0, -2.0]]), np.array([[1.0, 2.0]]))
    return ReleaseCheck("residuals by prediction", private, pair, plan.guarantee)


NORMS: tuple[Norm, ...] = ("l2", "l1")

register_case(
    "holdout",
    "fit.score",
    AuditCase(
        sensitivity=tuple(
            SensitivityCheck(
                name if norm == "l2" else f"{name} in L1", sums_of(one), _pairs,
                reach(one.statistic, "replace", norm) / one.unit, norm=norm,
            )
            for name, one in GROUPS.items()
            for norm in NORMS
        ),
        release=(_check(),),
    ),
)
