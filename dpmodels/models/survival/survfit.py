"""Backend of ``dp_survfit``: Kaplan-Meier curves by group from one table."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.models.survival.curve import Curve
from dpmodels.models.survival.layout import Layout
from dpmodels.models.survival.release import SurvivalDetail, curves_of, plan, release
from dpmodels.planning import Plan
from dpmodels.release import Estimate, Release

__all__ = ["estimate", "names_of", "plan", "release"]

#: More points than this, and covariances between them are not worked out.
_MOST = 600


def names_of(layout: Layout) -> tuple[str, ...]:
    """Return ``S(12)``, ``S(12)[g=a]``: group by group."""
    return tuple(
        f"S({t:g})" + (f"[{label}]" if label else "")
        for label in layout.labels
        for t in layout.edges[1:]
    )


def estimate(plan: Plan[SurvivalDetail], release: Release) -> Estimate:
    """Survival at the end of every interval, by group, with both errors."""
    detail = plan.detail
    found = curves_of(plan, release)
    sampling, privacy = _covariances(found)
    notes = [
        "Counts are noisy, and may be negative or no whole numbers; at every time numbers at risk, "
        "events and survival come from one release.",
        f"Intervals are made on the scale {plan.request['conf_type']!r}"
        + (" (R's default is 'log')." if plan.request["conf_type"] == "log-log" else "."),
    ]
    ended = [c for c in found if c.known < detail.layout.K]
    if ended:
        notes.insert(
            0,
            "A curve ends where its number at risk is within the noise: "
            + ", ".join(
                f"{detail.layout.labels[c.group] or 'all'} at {detail.layout.edges[c.known]:g}"
                for c in ended
            )
            + ".",
        )
    if plan.request.by_person and detail.layout.entries:
        notes.append(
            "Errors take episodes for independent: of recurrent events they are too small."
        )
    return Estimate(
        names_of(detail.layout),
        np.concatenate([np.clip(c.S, 0.0, 1.0) for c in found]),
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        stats={"events": float(sum(c.d.sum() for c in found))},
        notes=tuple(notes),
        arrays={"cells": release.values["cells"], "sd": np.array([detail.noise.sd])},
    )


def _covariances(found: tuple[Curve, ...]) -> tuple[Any, Any]:
    """Return the two covariances of S at the ends of the intervals, all groups."""
    layout = found[0].layout
    size = layout.G * layout.K
    S = np.concatenate([c.S for c in found])
    if size > _MOST:  # the diagonals alone
        parts = []
        for v in ("greenwood", "privacy"):
            own = np.full((size, size), np.nan)
            own[np.diag_indices(size)] = S**2 * np.concatenate([getattr(c, v) for c in found])
            parts.append(own)
        return parts[0], parts[1]
    sampling = np.zeros((size, size))
    for c in found:
        at = slice(c.group * layout.K, (c.group + 1) * layout.K)
        sampling[at, at] = np.minimum.outer(c.greenwood, c.greenwood)
    privacy = found[0].noise.covariance(np.concatenate([c.J for c in found]))
    scale = np.outer(S, S)
    return sampling * scale, privacy * scale
