"""Audit cases of tables, quantiles and tests. Everything is synthetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit import (
    AuditCase,
    EventCheck,
    SensitivityCheck,
    backend_release,
    corner_neighbours,
    plan_of,
    register_case,
    verb_case,
)
from dpmodels.exact.prove import rank_reach
from dpmodels.exact.statistics import Ranks
from dpmodels.models.table.layout import Layout, layout_of
from dpmodels.models.table.noise import TableNoise, table_noise
from dpmodels.models.table.ranks import fraction, grid_of, histogram, penalties
from dpmodels.models.table.sums import statistics
from dpmodels.models.table.table import half_ranges
from dpmodels.models.table.tree import levels_for, tree_counts
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.schema import Levels, Real, Schema

__all__: list[str] = []

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


def _weighted(formula: str, kind: str) -> tuple[Callable[[Array], Array], Layout, TableNoise]:
    """Return the released statistics of cell rows, weighted: their sensitivity must be 1."""
    from dpmodels.formula import build_cell_design, needed_variables

    design = build_cell_design(formula, _SCHEMA.restrict(needed_variables(formula, None)))
    layout = layout_of(design)
    noise, _ = table_noise(layout, kind, 1.0, 1.0)
    centre, half = half_ranges(design)
    weights = 2.0**-20 / (noise.budget * noise.sds(layout))

    def statistic(rows: Array) -> Array:
        return statistics([rows.T.copy()], layout, centre, half).astype(float) * weights

    return statistic, layout, noise


def _cells(formula: str) -> Callable[[], Any]:
    """Return neighbours in cells: codes up to the missing one, numbers with missing ones."""
    _, layout, _ = _weighted(formula, "gaussian")
    columns = {axis.column: axis for axis in layout.axes}

    def pairs() -> Any:
        bounds = [(-1.0, 3.0) if columns[j].kind == "number" else (0.0, columns[j].size - 1.0)
                  for j in sorted(columns)]  # fmt: skip
        rng = np.random.default_rng(1)
        for x, y in corner_neighbours(bounds, n=(1, 2), trials=80):
            for z in (x, y):
                for j, axis in columns.items():
                    if axis.kind == "level":
                        z[:, j] = np.rint(np.clip(z[:, j], 0, axis.size - 1))
                    elif rng.random() < 0.2:
                        z[0, j] = np.nan
            y[1:] = x[1:]  # one row differs: the first
            yield x, y

    return pairs


_FORMULAS = ("~ g", "~ g * h", "a ~ g", "~ a", "a + g ~ h")
register_case(
    "joint",
    "dp_table",
    AuditCase(
        sensitivity=tuple(
            SensitivityCheck(
                f"weighted sums of {formula}, {kind}",
                _weighted(formula, kind)[0],
                _cells(formula),
                1.0,
                norm="l2" if kind == "gaussian" else "l1",
            )
            for formula in _FORMULAS
            for kind in ("gaussian", "laplace")
        )
    ),
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

_GRID = grid_of((-1.0, 3.0), 64)


def _penalties(q: float, grouped: bool) -> Callable[[Array], Array]:
    exact = fraction(q)

    def statistic(rows: Array) -> Array:
        group = {1: 3} if grouped else {}
        counts = histogram([rows.T.copy()], 0, _GRID, group)
        made = penalties(counts, exact).astype(float)
        # of all groups together: rows of candidates stacked so that the largest moves add up
        return made / rank_reach(Ranks(exact, groups=grouped))

    return statistic


def _rank_pairs(grouped: bool) -> Callable[[], Any]:
    def pairs() -> Any:
        rng = np.random.default_rng(2)
        for x, y in corner_neighbours([(-1, 3), (0, 2)], n=(1, 2, 5), trials=60):
            for z in (x, y):
                z[:, 1] = np.rint(np.clip(z[:, 1], 0, 2)) if grouped else 0.0
                if rng.random() < 0.3:
                    z[0, 0] = np.nan
            y[1:] = x[1:]
            yield x, y

    return pairs


def _sum_of_worst(statistic: Callable[[Array], Array]) -> Callable[[Any], Any]:
    """Return the statistic so that its L-infinity distance is the sum over groups of the worst."""

    def combined(rows: Array) -> Array:
        made = statistic(rows)
        if len(made) == 1:
            return made
        # all sums of one candidate a group, over the signs: at most 3 groups of few candidates
        some = made[:, :: max(1, made.shape[1] // 16)]
        total = some[0]
        for row in some[1:]:
            total = np.concatenate([np.add.outer(total, row), np.add.outer(total, -row)]).ravel()
        return total

    return combined


def _tree(rows: Array) -> Array:
    counts = histogram([rows.T.copy()], 0, _GRID, {})[0]
    return tree_counts(counts, len(rows) - int(counts.sum())).astype(float)


register_case(
    "em",
    "dp_quantile",
    AuditCase(
        sensitivity=tuple(
            SensitivityCheck(
                f"rank penalties, q = {q}{', by group' if grouped else ''}",
                _sum_of_worst(_penalties(q, grouped)),
                _rank_pairs(grouped),
                1.0,
                norm="linf",
            )
            for q in (0.1, 0.5)
            for grouped in (False, True)
        ),
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
        sensitivity=(
            SensitivityCheck(
                "tree counts", _tree, _rank_pairs(False), (2.0 * levels_for(len(_GRID))) ** 0.5
            ),
        ),
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
