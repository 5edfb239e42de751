"""Audit cases of people as units: what all rows of one person move, through pass and verb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from dpmodels.arrays import Array
from dpmodels.audit.cases import AuditCase, register_case
from dpmodels.audit.sensitivity import SensitivityCheck
from dpmodels.audit.verbs import verb_case
from dpmodels.exact.people import into_balls, lengths
from dpmodels.exact.rowmap import STEPS, UnitScale
from dpmodels.exact.shares import shares
from dpmodels.schema import Binary, Real
from dpmodels.scoring.people import PersonPass, sums_of_people
from dpmodels.scoring.rules import LINEAR, plan_pass
from dpmodels.scoring.sums import Centre
from dpmodels.sources.people import BlockOfPeople

_P = 3
_PLAN = plan_pass(LINEAR, 2, 0.5, 400, _P, "replace", meat=True, tail=400, people=True)
#: Of people whose information was released to be three times that of the plan.
_WIDE = _PLAN.of_trace(3.0 * _P)
_CENTRE = Centre(
    UnitScale(np.ones(_P + 1), np.zeros(_P + 1), False),
    np.eye(_P),
    np.zeros(_P),
    np.eye(_P),
    1.0,
)


def _block(rows: Array) -> BlockOfPeople:
    """Return the people of a table (m, 1 + k), its first column the person."""
    order = np.argsort(rows[:, 0], kind="stable")
    _, starts, counts = np.unique(rows[order, 0], return_index=True, return_counts=True)
    return BlockOfPeople(np.ascontiguousarray(rows[order, 1:].T), starts, counts)


def _moments(rows: Array) -> Array:
    """Return the real sum of ``c_p G_p`` at radius 1."""
    block = _block(rows)
    z = block.rows * STEPS
    (image,) = into_balls(z, lengths(z), block, STEPS)
    return (image @ image.T).ravel() / STEPS**2


def _shares(rows: Array) -> Array:
    """Return what people lay into eight cells, by the signs of three columns, over one unit."""
    block = _block(rows)
    cell = ((block.rows[:3] > 0.0) * np.array([[1], [2], [4]])).sum(axis=0)
    person = np.repeat(np.arange(len(block.counts)), block.counts)
    where, share = shares(person, cell, np.full(len(cell), int(STEPS)), block.counts, 8)
    return np.bincount(where, weights=share, minlength=8) / STEPS


def _scores(rows: Array) -> Array:
    """Return the real sum of people's clipped scores, over C."""
    sums = sums_of_people([PersonPass(_PLAN, _CENTRE)], [_block(rows)])[0]
    return np.asarray(sums.score, dtype=float) / STEPS


def _ordinary(rows: Array) -> Array:
    """Return the real sum of information of people that are not clipped, over R_L^2."""
    sums = sums_of_people([PersonPass(_WIDE, _CENTRE)], [_block(rows)])[0]
    return np.asarray(sums.spread, dtype=float).ravel() / STEPS**2


def _information(rows: Array) -> Array:
    """Return the real sum of people's information, over R_H^2: radii by a released trace."""
    sums = sums_of_people([PersonPass(_WIDE, _CENTRE)], [_block(rows)])[0]
    return np.asarray(sums.information, dtype=float).ravel() / STEPS**2


def _pairs() -> Iterator[tuple[Array, Array]]:
    """Yield tables that differ in all rows of person 1: 1, 2, 40 or 1000, corners and far out."""
    rng = np.random.default_rng(0)

    def rows(who: int, m: int) -> Array:
        cells = rng.choice([-1.0, 1.0], size=(m, _P + 1)) * 10.0 ** rng.uniform(-1, 3)
        if rng.random() < 0.5:
            cells[:] = cells[0]
        return np.column_stack([np.full(m, float(who)), cells])

    others = np.vstack([rows(who, 1 + who) for who in (0, 2, 3)])
    for m in (1, 2, 40, 1000):
        for k in (1, 3, 1000):
            yield np.vstack([rows(1, m), others]), np.vstack([others, rows(1, k)])
    one, far = rows(1, 40), rows(1, 3)
    far[:, 1:] = one[0, 1:]
    far[:, -1] *= -1.0
    yield np.vstack([others, one]), np.vstack([others, far])


def _frame(n: int, event: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(n), 3)
    x = rng.uniform(-1, 1, 3 * n)
    y = 0.5 * x + rng.normal(0, 0.3, 3 * n)
    return pd.DataFrame({"pid": ids, "x": x, "y": (y > 0) * 1.0 if event else y})


_FORMULAS = {
    "dp_moments": "y + x ~ 1", "dp_table": "~ y + cut(x, breaks=[0])", "dp_quantile": "~ y",
    "dp_test": "y ~ 1",
}  # fmt: skip


def _formula(verb: str) -> str:
    return _FORMULAS.get(verb, "y ~ x")


_SCHEMA: dict[str, Any] = {"x": Real(-1, 1), "y": Real(-2, 2)}
_CALL: dict[str, Any] = {"eps": 4.0, "delta": 1e-4, "unit": "pid", "units": 80}

register_case(
    "ssp",
    "dp_ols",
    AuditCase(
        sensitivity=(
            SensitivityCheck("moments of people", _moments, _pairs, 2.0**0.5),
            SensitivityCheck("scores of people", _scores, _pairs, 2.0),
            SensitivityCheck("information of people", _information, _pairs, 2.0**0.5),
            SensitivityCheck("ordinary information of people", _ordinary, _pairs, 2.0**0.5),
        )
    ),
)
register_case(
    "joint",
    "dp_table",
    AuditCase(
        sensitivity=(
            SensitivityCheck("shares of people", _shares, _pairs, 2.0**0.5),
            SensitivityCheck("shares of people", _shares, _pairs, 2.0, norm="l1"),
        )
    ),
)
for _verb, _method, _schema in (
    ("dp_ols", "ssp", _SCHEMA),
    ("dp_glm", "scoring", {**_SCHEMA, "y": Binary()}),
    ("dp_quantreg", "scoring", _SCHEMA),
    ("dp_moments", "ssp", _SCHEMA),
    ("dp_moments", "joint", _SCHEMA),
    ("dp_table", "joint", _SCHEMA),
    ("dp_quantile", "em", _SCHEMA),
    ("dp_quantile", "tree", _SCHEMA),
    ("dp_test", "score", _SCHEMA),
):
    register_case(
        _method,
        _verb,
        verb_case(
            _verb, _method, _formula(_verb), _frame(60, _verb == "dp_glm"), schema=_schema, **_CALL
        ),
    )  # fmt: skip
