"""Backend of ``dp_survdiff``: the log-rank test from one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.models.survival.layout import Layout
from dpmodels.models.survival.logrank import LogRank, logrank
from dpmodels.models.survival.release import curves_of, plan, release
from dpmodels.planning import Plan
from dpmodels.release import Estimate, Release

__all__ = ["estimate", "estimate_of", "plan", "release"]


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Observed less expected events by group, and the test."""
    layout: Layout = plan.detail.layout
    return estimate_of(layout, logrank(layout, curves_of(plan, release)))


def estimate_of(layout: Layout, test: LogRank) -> Estimate:
    """Return the estimate of a test."""
    notes = [
        "The noise is in the variance of the statistic, so the level is kept at any eps; what "
        "noise costs is power. Counts are noisy.",
    ]
    if len(layout.stratas) > 1:
        notes.append(f"Stratified: groups are compared within {len(layout.stratas)} strata.")
    return Estimate(
        layout.groups,
        test.U,
        vcov_sampling=test.V,
        vcov_privacy=test.W,
        stats={"statistic": test.statistic, "df": float(test.df), "p_value": test.p_value},
        notes=tuple(notes),
        arrays={"n": np.asarray(test.N), "observed": test.observed, "expected": test.expected},
    )
