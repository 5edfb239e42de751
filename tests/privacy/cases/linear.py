"""Audit cases of this room: sensitivity, whole releases, structure and sentinels.

Run by ``dpmodels.audit.audit("ssp")`` and by the test suite. Everything is synthetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit.kit import (
    AuditCase,
    ReleaseCheck,
    SensitivityCheck,
    corner_neighbours,
    register_case,
)
from dpmodels.formula.schema import Schema
from dpmodels.models.linear.inference import Passes, release_scores
from dpmodels.models.linear.solve import Report, Stage
from dpmodels.own.compared import output_sensitivity
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.run import Run
from dpmodels.sources.rows import OfRows
from dpmodels.sums.ask import Ask, Moments, ball_map, moments_query
from dpmodels.sums.scaling import identity_scale
from dpmodels.variables import Real
from tests.privacy.cases.scoring import BY_CELL, FAR, PASSES
from tests.privacy.cases.verbs import backend_release, plan_of, verb_case

__all__: list[str] = []

_XY = Schema(a=Real(-1, 1), b=Real(-1, 1), y=Real(-1, 1))
_BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (-1, 1)}


def frame(n: int) -> Any:
    """Return a synthetic table."""
    import pandas as pd

    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, size=(2, n))
    y = np.clip(0.4 * a - 0.3 * b + 0.1 * rng.normal(size=n), -1, 1)
    return pd.DataFrame({"a": a, "b": b, "y": y})


# -- sensitivity -----------------------------------------------------------------------------


def ridge_solution(rows: Array) -> Array:
    """Return the ridge solution of rows (n, 3) in the unit box at lambda = 1.5."""
    z = np.clip(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), -1, 1)
    x, y = z[:, :2], z[:, 2]
    return np.asarray(np.linalg.solve(x.T @ x + 1.5 * np.eye(2), x.T @ y))


def ridge_bound(x: Array, other: Array) -> float:
    """Return the bound that output perturbation uses at that lambda."""
    return output_sensitivity(1.5, len(x), math.sqrt(2.0), 1.0) * (1.0 + 1e-9)


def _pairs() -> Any:
    return corner_neighbours([(-1, 1), (-0.5, 1), (-1, 1)], n=(2, 3, 6), trials=300)


# -- whole releases ----------------------------------------------------------------------------


def release_moments(rows: Array, run: Run, guarantee: Guarantee | None = None) -> Array:
    """Release the moments of working rows in a ball of radius 1, as every stage does."""

    class OneBlock(OfRows):
        def blocks(self, design: Any, windows: Any = None, coins: Any = None) -> Any:
            yield rows.T.copy()

    rowmap = ball_map(identity_scale(rows.shape[1]), 1.0, None)
    source: Any = OneBlock()
    return Ask(source, run)("moments", moments_query(Moments(source, rowmap))).values


def _score_plan() -> Any:
    options = {"vcov": "hetero", "stages": 1}
    return plan_of("dp_ols", "ssp", "y ~ a + b - 1", 4, _XY, 2.0, 1e-4, options)


def score_moments(stages: int) -> Any:
    """Return release(columns, run) of the moments of the scores after given stages."""

    def release(data: dict[str, Any], run: Run) -> Array:
        plan = _score_plan()

        class OneBlock(OfRows):
            def blocks(self, design: Any, windows: Any = None, coins: Any = None) -> Any:
                yield np.array([data["a"], data["b"], data["y"]])

        source: Any = OneBlock()
        stage = Stage(np.diag([4.0, 4.0, 0.04]), np.full((3, 3), 1e-8), np.eye(3), 1.0)
        unit = identity_scale(3)
        facts = Report(plan.design, unit, (stage,) * stages, 4, plan.request, "zero")
        passes = Passes(Ask(source, run), plan.design, unit, "replace")
        scores = release_scores(passes, facts, plan.detail.scores)
        return np.concatenate([np.ravel(S) for S in scores.values.values()])

    return release


def of_plan(
    method: str,
    names: tuple[str, ...],
    *,
    verb: str = "dp_ols",
    formula: str = "y ~ a + b",
    **kw: Any,
) -> tuple[Any, Any]:
    """Return (release(columns, run) -> every released number, plan) of a private stage."""
    plan = plan_of(verb, method, formula, 4, _XY, 2.0, 1e-4, kw)

    def release(data: dict[str, Any], run: Run) -> Array:
        values = backend_release(plan, data, run).values
        return np.concatenate([np.ravel(values[n]) for n in names])

    return release, plan


def columns(a: float, b: float, y: float) -> dict[str, Any]:
    """Return four rows, the first as given and the others zero."""
    return {k: np.array([v, 0.0, 0.0, 0.0]) for k, v in (("a", a), ("b", b), ("y", y))}


#: Scores beyond their ball: orthogonal ones; and equal ones, one of a row beyond the row's ball.
SCORED = (columns(0.7, 0, 0.7), columns(0, 0.7, 0.7))
APART = (columns(0.7, 0, 0.7), columns(0.8, 0, 0.8))
#: Orthogonal corners of the domain; and the pair at which the known-intercept bound is attained.
ORTHOGONAL = (columns(1, 0, 0), columns(0, 1, 0))
ATTAINED = (columns(1, 1, 1), columns(1, -1, -1))
_EYE = (np.eye(3)[:1], np.eye(3)[1:2])
_IDENTITY = {"moments": np.eye(3), "m": 100}


def _check(name: str, method: str, values: tuple[str, ...], pair: Any, **kw: Any) -> ReleaseCheck:
    release, plan = of_plan(method, values, **kw)
    return ReleaseCheck(name, release, pair, plan.guarantee)


def _one_step(name: str, mu: float) -> Guarantee:
    from dpmodels.privacy.mechanisms import Gaussian, Step, eps_gdp

    return Guarantee((Step(name, Gaussian(mu)),), eps_gdp(mu, 1e-6) * (1 + 1e-9), 1e-6)


_SCORE_STEP = _one_step("scores", _score_plan().detail.scores.mu)
_SCORES = (
    ReleaseCheck("scores", score_moments(1), SCORED, _SCORE_STEP),
    ReleaseCheck("scores kept apart", score_moments(2), APART, _SCORE_STEP),
)
register_case(
    "ssp",
    "dp_ols",
    AuditCase(
        release=(
            *_SCORES,
            *PASSES,
            *BY_CELL,
            *FAR,
            ReleaseCheck("a stage", release_moments, _EYE, _one_step("moments", 0.4)),
            _check("one stage", "ssp", ("Q1",), ORTHOGONAL, formula="y ~ a + b - 1", stages=1),
            _check("bounded", "ssp", ("Q1",), ATTAINED, stages=1, query="bounded"),
        ),
    ),
)
register_case(
    "pmt",
    "dp_ols",
    AuditCase(
        release=(
            *_SCORES,
            *PASSES,
            _check(
                "one stage", "pmt", ("Q1",), ORTHOGONAL, formula="y ~ a + b - 1", stages=1,
                public=_IDENTITY, radius=1.0,
            ),
        ),
    ),
)  # fmt: skip
register_case(
    "adassp",
    "dp_ols",
    AuditCase(
        release=(
            _check("moments", "adassp", ("second_moments", "cross_moments"), ATTAINED),
        ),
    ),
)  # fmt: skip
register_case(
    "pmt_paper",
    "dp_ols",
    AuditCase(
        release=(
            _check(
                "moments", "pmt_paper", ("second_moments", "cross_moments"),
                (columns(1, 0, 1), columns(0, 1, 1)), formula="y ~ a + b - 1",
                public={"moments": np.eye(3) * 0.02, "m": 100},
            ),
        )
    ),
)  # fmt: skip
register_case(
    "outpert",
    "dp_ols",
    AuditCase(
        sensitivity=(SensitivityCheck("ridge solution", ridge_solution, _pairs, ridge_bound),)
    ),
)
_ENDS = (columns(1, 1, 1), columns(1, -1, 1))
register_case(
    "joint",
    "dp_moments",
    AuditCase(
        release=(
            _check("moments", "joint", ("Q",), _ENDS, verb="dp_moments", formula="a + b + y ~ 1"),
        )
    ),
)

register_case(
    "ssp",
    "dp_moments",
    AuditCase(
        release=(
            _check(
                "moments", "ssp", ("Q1",), _ENDS, verb="dp_moments", formula="a + b + y ~ 1",
                stages=1,
            ),
        ),
    ),
)  # fmt: skip

#: (1, a, b) at right angles on the unit sphere; and nearly so in the published map.
OPPOSITE = (columns(1, 0, 0), columns(-1, 0, 0))
SECOND: dict[str, Any] = {
    "verb": "dp_moments", "formula": "a + b ~ 1", "stages": 1, "public": _IDENTITY, "radius": 1.0,
}  # fmt: skip
register_case(
    "pmt",
    "dp_moments",
    AuditCase(release=(_check("moments", "pmt", ("Q1",), OPPOSITE, **SECOND),)),
)
register_case(
    "pmt_paper",
    "dp_moments",
    AuditCase(
        release=(
            _check(
                "moments", "pmt_paper", ("Q",), ORTHOGONAL, verb="dp_moments", formula="a + b ~ 1",
                public={"moments": np.diag([1e-3, 1e-3, 1.0]), "m": 100},
            ),
        )
    ),
)  # fmt: skip

_PLAIN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ssp", {}),
    ("ssp", {"vcov": "iid"}),
    ("ssp", {"scoring": False}),
    ("ssp", {"vcov": "hetero", "scoring": False}),
    ("adassp", {}),
    ("jl", {"rows": 20}),
    ("dpgd", {"iterations": 3}),
    ("functional", {}),
    ("outpert", {}),
)
for _method, _options in _PLAIN:
    register_case(
        _method,
        "dp_ols",
        verb_case(
            "dp_ols", _method, "y ~ a + b", frame(2000), eps=4.0, delta=1e-6, bounds=_BOUNDS,
            **_options,
        ),
    )  # fmt: skip
#: Second moments of the synthetic table: no warning about a shift may depend on the noise.
_MOMENTS = np.diag([1.0, 1 / 3, 1 / 3, 0.0933])
_MOMENTS[3, 1:3] = _MOMENTS[1:3, 3] = 0.4 / 3, -0.1
_WITH_PUBLIC: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pmt", {}),
    ("pmt", {"scoring": False}),
    ("pmt", {"vcov": "hetero", "scoring": False}),
    ("pmt_paper", {}),
)
for _method, _options in _WITH_PUBLIC:
    register_case(
        _method,
        "dp_ols",
        verb_case(
            "dp_ols", _method, "y ~ a + b", frame(2000), eps=4.0, delta=1e-6,
            public={"moments": _MOMENTS, "m": 20}, **_options,
        ),
    )  # fmt: skip


_SECOND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ssp", {"bounds": {"a": (-1, 1), "b": (-1, 1)}}),
    ("joint", {"bounds": {"a": (-1, 1), "b": (-1, 1)}}),
    ("pmt", {"public": {"moments": np.diag([1 / 3, 1 / 3, 1.0]), "m": 20}}),
    ("pmt_paper", {"public": {"moments": np.diag([1 / 3, 1 / 3, 1.0]), "m": 20}}),
)
for _method, _options in _SECOND:
    register_case(
        _method,
        "dp_moments",
        verb_case(
            "dp_moments", _method, "a + b ~ 1", frame(1000)[["a", "b"]], eps=4.0, delta=1e-6,
            **_options,
        ),
    )  # fmt: skip
