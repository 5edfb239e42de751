"""Audit of the scoring passes: all that a pass releases, at pairs that nearly attain its bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit import ReleaseCheck
from dpmodels.exact.rowmap import UnitScale
from dpmodels.privacy.gdp import eps_gdp
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.privacy.run import Run
from dpmodels.scoring.engine import plan_scoring, steps
from dpmodels.scoring.rules import LINEAR, PassPlan
from dpmodels.scoring.sums import Centre, ScorePass, release_pass

__all__ = ["PASSES", "release_of"]

_P = 2
_PLAN = plan_scoring(LINEAR, 1.0, 400, _P, "replace")
_CENTRE = Centre(
    UnitScale(np.ones(_P + 1), np.zeros(_P + 1), False),
    np.eye(_P),
    np.zeros(_P),
    np.eye(_P),
    1.0,
)


def release_of(plan: PassPlan, k: int) -> Any:
    """Return release(rows, run) -> every number of pass k, rows (n, p + 1)."""

    def release(rows: Array, run: Run) -> Array:
        sums = ScorePass(plan, _CENTRE).sums([np.asarray(rows).T.copy()])
        out = release_pass(sums, plan, run, str(k))
        # a matrix by its upper triangle: below it stands the same noise once more
        matrices = [m for m in (out.information, out.meat, out.spread) if m is not None]
        parts = [m[np.triu_indices(_P)] for m in matrices] + [out.score]
        parts += [] if out.scale is None else [np.array([out.scale])]
        parts += [] if out.bins is None else [out.bins]
        return np.concatenate(parts)

    return release


def _pass(k: int) -> ReleaseCheck:
    """Return the check of pass k: one row at its radius and clip, the other short and opposite."""
    plan = _PLAN.passes[k - 1]
    own = tuple(s for s in steps(_PLAN) if s.name.endswith(f" {k}"))
    mu = float(np.sqrt(sum(s.mechanism.mu**2 for s in own)))
    guarantee = Guarantee(own, eps_gdp(mu, 1e-6) * (1 + 1e-9), 1e-6)
    R, C = plan.information, plan.clip
    full = np.array([[R, 0.0, 10.0 * C / R]])
    # in the middle pass the scale counts, so both are long there
    length = 0.3 if plan.last else 0.3 * R
    other = np.array([[length, 0.0, -10.0 * C / length]])
    return ReleaseCheck(f"scoring pass {k}", release_of(plan, k), (full, other), guarantee)


#: One check a pass.
PASSES = tuple(_pass(k) for k in range(1, len(_PLAN.passes) + 1))
