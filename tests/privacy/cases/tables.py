"""Audit cases of tables, quantiles and tests. Everything is synthetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit.kit import (
    AuditCase,
    EventCheck,
    ReleaseCheck,
    SensitivityCheck,
    corner_neighbours,
    register_case,
)
from dpmodels.formula.schema import Schema
from dpmodels.models.holdout import (
    AtBounds,
    BinnedResiduals,
    ClassCounts,
    HoldoutPlan,
    LossSums,
    Predictor,
    Sums,
    plan_holdout,
    release,
)
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.statistics import Norm
from dpmodels.sources.rows import OfRows
from dpmodels.sums.ask import Ask
from dpmodels.variables import Levels, Real
from tests.one_pass import sums_of
from tests.privacy.cases.verbs import backend_release, plan_of, verb_case

__all__ = ["GROUPS", "sums_of"]


_SCHEMA = Schema(a=Real(-1, 3), g=Levels(["u", "v"]), h=Levels(["x", "y", "z"]))


def _frame(n: int) -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.uniform(-1, 3, n),
            "b": rng.uniform(-1, 1, n),
            "g": rng.choice(["u", "v"], n),
            "h": rng.choice(["x", "y", "z"], n),
        }
    )


def _outcomes(plan: Any, x: Any, y: Any, value: str) -> tuple[Callable[[int], Any], ...]:
    def outcome(data: Any) -> Callable[[int], Any]:
        def run(seed: int) -> Any:
            release = backend_release(plan, data, Run(plan.steps, SeededNoise(seed)))
            return np.ravel(np.asarray(release.values[value], dtype=float))

        return run

    return outcome(x), outcome(y)


def _events(
    verb: str, method: str, formula: str, value: str, eps: float, delta: float, **options: Any
) -> EventCheck:
    """One row at either end of the range, or of the levels: what is released lies far apart."""
    x: Any = {"a": np.array([3.0, 0.0]), "g": np.array(["u", "u"], dtype=object)}
    y: Any = {"a": np.array([-1.0, 0.0]), "g": np.array(["v", "u"], dtype=object)}
    schema = Schema(a=Real(-1, 3), g=Levels(["u", "v"]))
    plan = plan_of(verb, method, formula, 2, schema, eps, delta, options)
    first, second = _outcomes(plan, x, y, value)
    name = f"{verb} {formula}, whole private stage"
    return EventCheck(name, (first, second), plan.guarantee, runs=500)


register_case(
    "joint",
    "dp_table",
    AuditCase(
        events=(
            _events("dp_table", "joint", "~ g", "table", 1.0, 0.0),
            _events("dp_table", "joint", "a ~ g", "table", 1.0, 1e-3, noise="gaussian"),
        )
    ),
)
register_case(
    "joint",
    "dp_table",
    verb_case("dp_table", "joint", "a ~ h", _frame(400)[["a", "h"]], eps=2.0, delta=1e-6,
              schema=_SCHEMA),
)  # fmt: skip


# -- quantiles ---------------------------------------------------------------------------------

for _verb, _method in (("dp_survfit", "table"), ("dp_survdiff", "logrank")):
    register_case(
        _method,
        _verb,
        verb_case(_verb, _method, "Surv(a, b > 0) ~ h", _frame(400)[["a", "b", "h"]], eps=2.0,
                  delta=1e-6, schema=Schema(a=Real(0, 3), b=Real(-1, 1),
                                            h=Levels(["x", "y", "z"])), breaks=4),
    )  # fmt: skip
    register_case(  # h is a cause of two, or censored: one more column of the cells
        _method,
        _verb,
        verb_case(_verb, _method, 'Surv(a, h, cause="y") ~ {b > 0}', _frame(400)[["a", "b", "h"]],
                  eps=2.0, delta=1e-6, schema=Schema(a=Real(0, 3), b=Real(-1, 1),
                                                     h=Levels(["x", "y", "z"])), breaks=4),
    )  # fmt: skip

register_case(
    "em",
    "dp_quantile",
    AuditCase(
        events=(
            _events("dp_quantile", "em", "~ a", "q0.5(a)", 1.0, 0.0, inference=False, points=9),
        ),
    ),
)
register_case(
    "em",
    "dp_quantile",
    verb_case("dp_quantile", "em", "~ a", _frame(400)[["a"]], eps=2.0, delta=1e-6,
              bounds={"a": (-1, 3)}, points=64),
)  # fmt: skip
register_case(
    "tree",
    "dp_quantile",
    AuditCase(
        events=(_events("dp_quantile", "tree", "~ a", "tree of a", 1.0, 1e-3, points=16),),
    ),
)
register_case(
    "tree",
    "dp_quantile",
    verb_case("dp_quantile", "tree", "~ a", _frame(400)[["a"]], eps=2.0, delta=1e-6,
              bounds={"a": (-1, 3)}, points=64),
)  # fmt: skip


# -- tests -------------------------------------------------------------------------------------


def mean_test(table: Any) -> float:
    """Return a p-value that depends on every row."""
    return float(np.exp(-abs(np.nansum(table["a"]))))


register_case(
    "score",
    "dp_test",
    AuditCase(events=(_events("dp_test", "score", "a ~ g", "sums", 1.0, 1e-3),)),
)
for _formula in ("a ~ g", "~ a + b"):

    def _call(data: Any, formula: str = _formula) -> Any:
        import dpmodels as dp

        return dp.dp_test(formula, data, eps=2.0, delta=1e-6,
                          schema=_SCHEMA.update(b=Real(-1, 1)))  # fmt: skip

    _columns = [c for c in ("a", "b", "g", "h") if c in _formula]
    register_case(
        "score",
        "dp_test",
        verb_case("dp_test", "score", _formula, _frame(400)[_columns], call=_call),
    )


def _call_subsample(data: Any) -> Any:
    import dpmodels as dp

    return dp.dp_test("~ a", data, test=mean_test, eps=2.0, delta=0.0, parts=5,
                      bounds={"a": (-1, 3)})  # fmt: skip


register_case(
    "subsample",
    "dp_test",
    AuditCase(
        events=(
            _events("dp_test", "subsample", "~ a", "rejections", 1.0, 0.0, test=mean_test, parts=2,
                    a0=0.2),
        )
    ),
)  # fmt: skip
register_case(
    "subsample",
    "dp_test",
    verb_case("dp_test", "subsample", "~ a", _frame(400)[["a"]], call=_call_subsample),
)


# -- Audit cases of scores and diagnoses: the sums that go out, at adversarial neighbours


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


def sums_before(one: Sums) -> Any:
    """Return the function rows (n, 2) -> what goes out before noise."""

    def statistic(rows: Array) -> Array:
        return np.array([float(v) for v in np.ravel(sums_of(one.into, one.formula, [rows.T.copy()]))])

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
                name if norm == "l2" else f"{name} in L1",
                sums_before(one),
                _pairs,
                sensitivity(one.into.statistic, "replace", norm) / one.into.size,
                norm=norm,
            )
            for name, one in GROUPS.items()
            for norm in NORMS
        ),
        release=(_check(),),
    ),
)
