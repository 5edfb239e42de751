"""Audit cases of ``fit.cox_zph``: scores by interval of units at a released fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import dpmodels as dp
from dpmodels.arrays import Array
from dpmodels.audit.kit import AuditCase, ReleaseCheck, SensitivityCheck, register_case
from dpmodels.formula.survival import build_survival_design
from dpmodels.models.survival.hazard import Timeline
from dpmodels.models.survival.zph import ZphPlan, plan_zph, release, whitened
from dpmodels.privacy.run import Run
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import STEPS
from dpmodels.sources.rows import OfRows
from dpmodels.sums.ask import Ask
from dpmodels.units import Person, unit_of
from tests.one_pass import sums_of

__all__ = ["CHECKS", "check_of", "stage_of"]

SCHEMA: dict[str, Any] = {
    "t": dp.Real(0, 12), "s": dp.Real(0, 12), "d": dp.Binary(), "a": dp.Real(-1, 1),
    "b": dp.Real(-2, 1), "g": dp.Levels(["u", "v"]),
}  # fmt: skip
#: formula, units are people.
CHECKS = {
    "rows": ("Surv(t, d) ~ a + b", False),
    "rows, strata": ("Surv(t, d) ~ a + strata(g)", False),
    "rows, entries": ("Surv(s, t, d) ~ a + g", False),
    "people": ("Surv(t, d) ~ a + b", True),
    "people, episodes": ("Surv(s, t, d) ~ a + b + strata(g)", True),
}


def check_of(name: str, n: int, eps: float = 4.0, delta: float = 1e-4) -> ZphPlan:
    """Return the plan of a check of a fit whose numbers are given."""
    formula, people = CHECKS[name]
    design = build_survival_design(formula, dp.Schema(**SCHEMA))
    S, p = len(design.survival.stratas or ("",)), design.p - 1
    hazards = np.array([[0.02, 0.3, 0.1, 0.25, 0.05, 0.2], [0.3, 0.05, 0.1, 0.02, 0.2, 0.1]])[:S]
    line = Timeline(np.linspace(0, 12, 7), hazards, 100.0 * hazards)
    joint = np.diag(np.full(p + 1, 0.08)) + 0.01
    seen = whitened(joint[1:, 1:], joint, 60.0, np.arange(1, p + 1), design.q)
    unit = unit_of("id") if people else "record"
    params = np.linspace(0.8, -0.5, p)
    return plan_zph(design, n, unit, seen, params, line, 3, eps, delta, 500.0)


def stage_of(name: str, n: int) -> Any:
    """Return the check as what the replay audit takes for the plan of a method."""
    plan = check_of(name, n)
    return SimpleNamespace(
        request=SimpleNamespace(unit=Person("id", n) if CHECKS[name][1] else None), n=n, people=n,
        design=plan.design, guarantee=plan.guarantee, steps=plan.guarantee.steps,
        backend=SimpleNamespace(release=lambda _, ask: release(plan, ask)),
    )  # fmt: skip


def _block(plan: ZphPlan, rows: Array) -> Array:
    """Return (a, b, time, event) of rows (n, 4) as a block of the design."""
    where: Any = plan.design.survival
    out = np.ones((plan.design.q, len(rows)))
    out[1], out[2] = np.clip(rows[:, 0], -1, 1), np.clip(rows[:, 1], -2, 1)
    out[where.time], out[where.event] = np.clip(rows[:, 2], 0, 12), rows[:, 3] > 0.5
    return out


def _sums(rows: Array) -> Array:
    plan = check_of("rows", 1)
    return np.asarray(sums_of(plan.into, plan.local, [_block(plan, rows)]), dtype=float)


def _pairs() -> Any:
    rng = np.random.default_rng(0)
    ends = np.array([[-1.0, 1.0], [-2.0, 1.0], [0.0, 12.0], [0.0, 1.0]])
    for m in (1, 2, 4):
        for k in range(200):
            x = rng.uniform(*ends.T, size=(m + 1, 4))
            x = np.where(rng.random((m + 1, 4)) < 0.5, ends[np.arange(4), rng.integers(0, 2, (m + 1, 4))], x)
            x[:, 2] = np.where(rng.random(m + 1) < 0.5, rng.choice([2.0, 4.0, 8.0, 12.0], m + 1), x[:, 2])
            x[k % (m + 1), rng.integers(0, 3)] *= 1e6 if k % 7 == 0 else 1.0
            yield x[:-1], np.concatenate([x[:-2], x[-1:]])


def _release() -> ReleaseCheck:
    plan = check_of("rows", 1, 2.0, 1e-4)

    def private(rows: Array, run: Run) -> Array:
        class OneBlock(OfRows):
            def blocks(self, design: Any) -> Any:
                yield _block(plan, rows)

        source: Any = OneBlock()
        return release(plan, Ask(source, run))

    pair = (np.array([[-1.0, -2.0, 8.5, 1.0]]), np.array([[1.0, 1.0, 8.5, 1.0]]))
    return ReleaseCheck("scores by interval", private, pair, plan.guarantee)


register_case(
    "cox_zph",
    "fit.cox_zph",
    AuditCase(
        sensitivity=(
            SensitivityCheck(
                "scores by interval", _sums, _pairs,
                sensitivity(check_of("rows", 1).into.statistic, "replace", "l2") * STEPS,
            ),
        ),
        release=(_release(),),
    ),
)  # fmt: skip
