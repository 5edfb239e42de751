"""Audit cases of this room: sensitivity, releases, events, structure and sentinels.

Run by ``dpmodels.audit.audit("eptr")`` and by the test suite. Everything is synthetic.
"""

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
from dpmodels.core.kernels import AtPoints
from dpmodels.formula.schema import Schema
from dpmodels.own.kernel_curve import at_points, gaussian
from dpmodels.own.least_squares import smallest_eigenvalue
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.proof.sets import Ball
from dpmodels.proof.statistics import Gram
from dpmodels.sources.rows import OfRows
from dpmodels.sums.ask import Added, Ask, Moments, Query, Residuals
from dpmodels.sums.cells import gram
from dpmodels.sums.rowmap import RowMap, WithOne
from dpmodels.sums.scaling import UnitScale
from dpmodels.variables import Levels, Real
from tests.one_pass import sums_of
from tests.privacy.cases.verbs import backend_release, plan_of, verb_case

__all__: list[str] = []

_XY = Schema(a=Real(-1, 1), b=Real(-1, 1), y=Real(-4, 4))
_CLASS = Schema(a=Real(-1, 1), b=Real(-1, 1), k=Levels(["u", "v"]))


def _frame(n: int, classes: bool = False) -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, size=(2, n))
    frame = pd.DataFrame({"a": a, "b": b})
    if classes:
        frame["k"] = np.where(a + 0.3 * rng.normal(size=n) > 0, "u", "v")
    else:
        frame["y"] = a - 0.5 * b + 0.3 * rng.normal(size=n)
    return frame


# -- sensitivity -----------------------------------------------------------------------------


def _ball(q: int) -> RowMap:
    return RowMap(UnitScale(np.ones(q), np.zeros(q), False), np.ones(q), ball=q - 1, radius=1.0)


def _gram(rows: Array) -> Array:
    """Working rows (n, 3), last column the response: real Gram matrix of the bounded rows."""
    rowmap = _ball(rows.shape[1])
    return gram([rows.T.copy()], rowmap).real(rowmap.units)


def _eigenvalue(rows: Array) -> Array:
    return np.array([smallest_eigenvalue(_gram(rows)[:-1, :-1])])


def _residual(rows: Array) -> Array:
    theta = np.array([0.7, -0.4])
    total, unit = Residuals(_ball(3), theta, 1.0).over([rows.T.copy()]), 2.0**-30
    return np.array([total * unit])


def _pairs() -> Any:
    return corner_neighbours([(-1, 1), (-0.5, 1), (-1, 1)], n=(2, 3, 6), trials=300)


_OLS_SENSITIVITY = (
    SensitivityCheck("scale matrix", lambda x: _gram(x)[:2, :2], _pairs, 2.0**0.5),
    SensitivityCheck("smallest eigenvalue", _eigenvalue, _pairs, 1.0 + 1e-9),
    SensitivityCheck("residual sum at a released vector", _residual, _pairs, 1.0),
)


def _one_step(name: str, mu: float) -> Guarantee:
    """Return the guarantee of a single Gaussian step, at delta = 1e-6."""
    from dpmodels.privacy.mechanisms import Gaussian, Step, eps_gdp

    return Guarantee((Step(name, Gaussian(mu)),), eps_gdp(mu, 1e-6) * (1 + 1e-9), 1e-6)


def release_scale(rows: Array, run: Run) -> Array:
    """Release the scale matrix of working rows, as the private stage does."""
    rowmap = _ball(3)

    class OneBlock(OfRows):
        def blocks(self, design: Any, windows: Any = None, coins: Any = None) -> Any:
            yield rows.T.copy()

    source: Any = OneBlock()
    over = Moments(source, rowmap)
    query = Query(Gram(Ball(2)), over, lambda G: Added(G.integers()[:2, :2]), rowmap.radius**2)
    return Ask(source, run)("scale matrix", query).values


def release_sums(rows: Array, run: Run) -> Array:
    """Release sums and count of complete rows of one column, as the clipped mean does."""
    rowmap = WithOne(RowMap(UnitScale(np.ones(1), np.zeros(1), False), np.ones(1)))
    G = gram([rows.T.copy()], rowmap).integers()
    weights = np.array([1.0, 3.0**0.5])
    return run.gaussian("means and count", G[1], 2.0 * 2.0**40, weights=weights, unit=2.0**-40)


def _kernel_values(rows: Array) -> Array:
    points = np.linspace(-1, 1, 9)[:, None]
    L = np.linalg.cholesky(gaussian(points, points, 0.5) + 1e-8 * np.eye(9))
    into = AtPoints(points, 0.5)
    N, D = at_points(into, sums_of(into, lambda z: (z[:1], z[1]), [rows.T.copy()]).arrays)
    return np.linalg.solve(L, np.column_stack([N, D]))


def release_curve(rows: Array, run: Run) -> Array:
    """Release the whitened kernel sums, as the functional release does."""
    return run.gaussian_real("curve", _kernel_values(rows), 2.0 * (1 + 2.0**-20))


# -- events: the whole private stage, with no reply as an event --------------------------------


def _outcomes(
    plan: Any, x: dict[str, Any], y: dict[str, Any], value: str
) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    def outcome(data: dict[str, Any]) -> Callable[[int], Any]:
        def run(seed: int) -> Any:
            release = backend_release(plan, data, Run(plan.steps, SeededNoise(seed)))
            return release.values[value] if release.reply else None

        return run

    return outcome(x), outcome(y)


def _coin_events(verb: str, method: str, options: dict[str, Any], value: str) -> EventCheck:
    """Neighbours on both sides of the test's threshold, at a small n and a delta one can see."""
    rng = np.random.default_rng(1)
    n = 60
    a, b = rng.choice([-1.0, 1.0], size=(2, n))
    if verb == "dp_bayes":
        k = np.array(["u", "v"], dtype=object)[np.arange(n) % 2]
        x = {"a": a, "b": b, "k": k}
        y = {**x, "k": np.concatenate([["v"], k[1:]]), "a": np.concatenate([[-a[0]], a[1:]])}
        schema, formula = _CLASS, "k ~ a + b"
    else:
        resp = np.clip(4 * a, -4, 4)
        x = {"a": a, "b": b, "y": resp}
        y = {**x, "y": np.concatenate([[-resp[0]], resp[1:]])}
        schema, formula = _XY, "y ~ a + b"
    plan = plan_of(verb, method, formula, n, schema, 2.0, 0.02, options)
    name = f"{verb}/{method} coin, whole private stage"
    return EventCheck(name, _outcomes(plan, x, y, value), plan.guarantee, runs=2000)


# -- registration ------------------------------------------------------------------------------

_BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}
_OPPOSITE = (np.array([[1.0, 0.0, 1.0]]), np.array([[0.0, 1.0, 1.0]]))

register_case(
    "eptr",
    "dp_ols",
    AuditCase(
        sensitivity=_OLS_SENSITIVITY,
        release=(
            ReleaseCheck("scale matrix", release_scale, _OPPOSITE, _one_step("scale matrix", 0.4)),
        ),
        events=(
            _coin_events("dp_ols", "eptr", {"c0": 0.2}, "theta"),
            _coin_events(
                "dp_ols", "eptr", {"variant": "paper", "Rx": 1.8, "Rtheta": 4.0, "c0": 0.2}, "theta"
            ),
        ),
    ),
)
register_case(
    "eptr",
    "dp_ols",
    verb_case("dp_ols", "eptr", "y ~ a + b", _frame(4000), eps=4.0, delta=1e-6, bounds=_BOUNDS),
)
register_case(
    "eptr",
    "dp_ols",
    verb_case("dp_ols", "eptr", "y ~ a + b", _frame(4000), eps=4.0, delta=1e-6, bounds=_BOUNDS,
              scoring=False),
)  # fmt: skip
_CLASSIFIERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sums", {}),
    ("eptr", {"variance": "shared"}),
    ("dpnb", {}),
    ("dpnbss", {}),
)
for _method, _options in _CLASSIFIERS:
    register_case(
        _method,
        "dp_bayes",
        verb_case(
            "dp_bayes",
            _method,
            "k ~ a + b",
            _frame(4000, classes=True),
            eps=4.0,
            delta=1e-6,
            schema=_CLASS,
            **_options,
        ),
    )
register_case(
    "eptr",
    "dp_bayes",
    AuditCase(events=(_coin_events("dp_bayes", "eptr", {"c0": 0.3, "R": 2.0}, "means"),)),
)
_ENDS = (np.array([[1.0], [0.2]]), np.array([[-1.0], [0.2]]))
register_case(
    "clipped",
    "dp_mean",
    AuditCase(
        release=(
            ReleaseCheck("sum and count", release_sums, _ENDS, _one_step("means and count", 0.5)),
        )
    ),
)
register_case(
    "clipped",
    "dp_mean",
    verb_case("dp_mean", "clipped", "a + b ~ 1", _frame(2000)[["a", "b"]], eps=2.0, delta=1e-6,
              bounds={"a": (-1, 1), "b": (-1, 1)}),
)  # fmt: skip
register_case(
    "clipped",
    "dp_mean",
    verb_case("dp_mean", "clipped", "a + b ~ 1", _frame(2000)[["a", "b"]], eps=2.0, delta=0.0,
              bounds={"a": (-1, 1), "b": (-1, 1)}),
)  # fmt: skip
register_case(
    "ptr",
    "dp_mean",
    verb_case("dp_mean", "ptr", "a ~ 1", _frame(2000)[["a"]], eps=4.0, delta=1e-6,
              bounds={"a": (-1, 1)}, width=1.0),
)  # fmt: skip
_FAR = (np.array([[1.0, 1.0]]), np.array([[-1.0, -1.0]]))
register_case(
    "functional",
    "dp_npreg",
    AuditCase(
        sensitivity=(
            SensitivityCheck(
                "whitened kernel sums",
                _kernel_values,
                lambda: corner_neighbours([(-1, 1), (-1, 1)], n=(1, 3), outside=False),
                2.0 * (1 + 1e-6),
            ),
        ),
        release=(ReleaseCheck("curve", release_curve, _FAR, _one_step("curve", 0.5)),),
    ),
)
for _method in ("functional", "eptr", "wavelet"):
    register_case(
        _method,
        "dp_npreg",
        verb_case("dp_npreg", _method, "y ~ a", _frame(4000)[["a", "y"]], eps=8.0, delta=1e-6,
                  bounds={"a": (-1, 1), "y": (-4, 4)}),
    )  # fmt: skip
for _method in ("coin", "ptr", "bound"):

    def _call(data: Any, method: str = _method) -> Any:
        import dpmodels as dp

        alpha: Any = (lambda low: 2e-3 if low > 0 else 0.0) if method == "bound" else 2e-3
        return dp.dp_eptr(
            lambda x: [x[:, 0].mean()], lambda x: 1e6, alpha, "a ~ 1", data, eps=2.0, delta=1e-6,
            bounds={"a": (-1, 1)}, method=method,
        )  # fmt: skip

    register_case(
        _method, "dp_eptr", verb_case("dp_eptr", _method, "", _frame(1000)[["a"]], call=_call)
    )
