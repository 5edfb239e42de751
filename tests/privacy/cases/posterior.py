"""Audit cases of this room: densities against claimed profiles, sensitivities, structure.

Run by ``dpmodels.audit.audit("objpert")`` and by the test suite. Everything is synthetic.
Profiles are checked against the *exact* densities of small problems: a SensitivityCheck whose
statistic is the ratio of the true hockey-stick divergence to the claimed one, with bound 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.audit.kit import (
    AuditCase,
    EventCheck,
    SensitivityCheck,
    corner_neighbours,
    register_case,
)
from dpmodels.core.means import PowersOfRows
from dpmodels.core.rows import complete
from dpmodels.core.sets import UnitMatrices
from dpmodels.formula.schema import Schema
from dpmodels.models.components import working_map
from dpmodels.models.objpert import information_row
from dpmodels.own.curvature import curvature_sensitivity, displacement, hessian_rdp
from dpmodels.own.minimum import LogisticLoss, Loss, PoissonLoss, WorkingRows, evaluate
from dpmodels.own.profile import d_add, d_rem, largest_m, largest_s
from dpmodels.own.projector import eigengap, projector, projector_sensitivity
from dpmodels.own.tilted import tilt_profile
from dpmodels.privacy.composition import gdp_curve
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.proof.prove import Of, sensitivity
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Powers
from dpmodels.sums.cells import gram
from dpmodels.variables import Binary, Real
from tests.one_pass import sums_of
from tests.privacy.cases.verbs import backend_release, plan_of, verb_case

__all__: list[str] = []

EPS = (0.0, 0.1, 0.5, 1.0, 2.0)


def hockey_stick(log_p: Array, log_q: Array, step: Array, eps: float) -> float:
    """Return the integral of (p - e^eps q)_+ on a grid with cell widths ``step``."""
    return float(np.sum(np.maximum(np.exp(log_p) - np.exp(eps + log_q), 0.0) * step))


# -- objective perturbation in one dimension ---------------------------------------------------


def _log_density(t: Array, rows: Array, loss: Loss, lam: float, sigma: float) -> Array:
    """Log density of argmin F + sigma b theta; rows are (m, 3): x, y, weight."""
    x, y, w = rows.T if len(rows) else np.zeros((3, 0))
    eta = np.outer(t, x)
    first, second = np.zeros(len(t)), np.zeros(len(t))
    for j in range(len(x)):
        _, a, b = loss.terms(eta[:, j], np.full(len(t), y[j]), np.full(len(t), w[j]))
        first, second = first + a * x[j], second + b * x[j] ** 2
    g, h = first + lam * t, second + lam
    out: Array = -0.5 * (g / sigma) ** 2 + np.log(h / sigma) - 0.5 * math.log(2 * math.pi)
    return out


def objpert_ratio(case: Any, shrink: float = 1.0) -> Array:
    """Return true over claimed delta at ``EPS`` of one case; ``shrink`` divides the noise."""
    if case is None:
        return np.zeros(len(EPS))
    before, after, loss, lam, rho, radius, relation = case
    sigma = loss.score / rho / shrink
    kappa = radius / lam
    claim = tilt_profile(loss, rho, kappa, relation)
    half = 12.0 * sigma / lam + 60.0 * (len(before) + 1) / lam
    u = np.linspace(-1, 1, 40001)
    t = half * u**3  # fine near 0
    step = np.gradient(t)
    p, q = (_log_density(t, rows, loss, lam, sigma) for rows in (before, after))
    return np.array([hockey_stick(p, q, step, e) / (claim.delta_at(e) + 1e-9) for e in EPS])


def _objpert_cases(poisson: bool, relation: str) -> Iterator[tuple[Any, None]]:
    rng = np.random.default_rng(3 if poisson else 2)
    for k in range(60):
        radius = float(rng.choice([1.0, 2.0]))
        n = int(rng.integers(0, 4))
        loss: Loss = PoissonLoss(3.0) if poisson else LogisticLoss()
        top = 3 if poisson else 1
        x = rng.choice([-1.0, 1.0], n + 2) * np.where(rng.random(n + 2) < 0.7, radius, 0.4)
        y = rng.integers(0, top + 1, n + 2).astype(float)
        rows = np.column_stack([x, y, np.minimum(1.0, 1.0 / np.abs(x))])
        lam = float(rng.choice([0.5, 2.0, 10.0]))
        rho = float(rng.choice([0.1, 0.5, 1.5]))
        before, after = rows[:-2], rows[:-1]
        if relation == "replace":
            before = np.vstack([rows[:-2], rows[-1:]])
        elif k % 2:
            before, after = after, before
        yield (before, after, loss, lam, rho, radius, relation), None


def _density_check(name: str, poisson: bool, relation: str) -> SensitivityCheck:
    return SensitivityCheck(
        name, objpert_ratio, lambda: _objpert_cases(poisson, relation), 1.0 + 1e-4, "linf"
    )


def _blocks(rows: Array) -> list[Array]:
    """Rows (n, k) as one block (k, n) whose last row is the response."""
    return [rows.T.copy()]


def _sums(rows: Array) -> Array:
    found = sums_of(PowersOfRows(2), lambda z: (z[:2], complete(z)), _blocks(rows))
    return np.asarray(found, dtype=float)


def _information(rows: Array) -> Array:
    working, theta = WorkingRows(np.ones(2), np.zeros(2), 1.0, 2.0), np.array([0.7, -0.4])
    row = partial(
        information_row, working=working, loss=LogisticLoss(), theta=theta, scales=(0.25 * 2.0,)
    )
    (found,) = sums_of(UnitMatrices(2, 1), row, _blocks(rows))
    return np.asarray(found, dtype=float)


def _binary_pairs() -> Iterator[tuple[Array, Array]]:
    for x, y in corner_neighbours([(-1, 1), (-1, 1), (0, 1)], n=(1, 2, 5)):
        for z in (x, y):
            z[:, 2] = np.round(np.clip(z[:, 2], 0, 1))
        yield x, y


_OBJPERT = (
    _density_check("logistic densities, add-remove", False, "add-remove"),
    _density_check("logistic densities, replace", False, "replace"),
    _density_check("poisson densities, add-remove", True, "add-remove"),
    SensitivityCheck(
        "column sums", _sums, _binary_pairs, STEPS * sensitivity(Powers(2), "replace", "l2")
    ),
    SensitivityCheck("information matrix", _information, _binary_pairs, math.sqrt(2.0) * 2.0**40),
)

# -- posterior sampling and score perturbation -------------------------------------------------


def _linear_cases() -> Iterator[tuple[Any, None]]:
    rng = np.random.default_rng(5)
    for k in range(80):
        d = 1 if k % 2 else 3
        n = int(rng.integers(1, 30))
        X = rng.normal(size=(n, d))
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        X[0] /= max(np.linalg.norm(X[0]), 1e-9)
        y = rng.choice([-1.0, 1.0, 0.3], n)
        yield (X, y, float(rng.choice([30.0, 100.0, 1000.0])), float(rng.choice([0.2, 1.0]))), None


def _both_sides(case: Any) -> tuple[float, float, float, float, Array, Array, float]:
    X, y, lam, rho = case
    A = X.T @ X + lam * np.eye(X.shape[1])
    theta = np.linalg.solve(A, X.T @ y)
    hbar = 1.0 / (lam + float(np.linalg.eigvalsh(X.T @ X)[0]))
    return hbar, 1.0 + float(np.linalg.norm(theta)), lam, rho, A, theta, 1e-5


def posterior_ratio(case: Any, shrink: float = 1.0) -> Array:
    """Return true over claimed delta of posterior sampling, adding and removing a row."""
    if case is None:
        return np.zeros(2 * len(EPS))
    X, y, _, _ = case
    hbar, rbar, _, rho, A, theta, delta_t = _both_sides(case)
    s = largest_s(hbar, rho, delta_t) * shrink
    root = s / rbar
    x0 = X[0]
    h = float(x0 @ np.linalg.solve(A, x0))
    claim = gdp_curve(np.array(EPS), rho) + delta_t
    worst = -np.sign(float(x0 @ theta)) or 1.0
    add = d_add(np.array(EPS), h, root * abs(worst - float(x0 @ theta)))
    rem = d_rem(np.array(EPS), h, root * abs(y[0] - float(x0 @ theta)))
    return np.concatenate([add / claim, rem / claim])


def score_ratio(case: Any, shrink: float = 1.0) -> Array:
    """Return true over claimed delta of score perturbation in one dimension (two normals)."""
    if case is None or case[0].shape[1] > 1:
        return np.zeros(2 * len(EPS))
    X, y, lam, rho = case
    hbar, rbar, _, _, A, theta, delta_t = _both_sides(case)
    m = largest_m(hbar, rho, delta_t)
    if m <= 0:
        return np.zeros(2 * len(EPS))
    sigma = rbar / m / shrink
    claim = gdp_curve(np.array(EPS), rho) + delta_t
    out = []
    plus = np.append(X[:, 0], X[0, 0]), np.append(y, -np.sign(theta[0] * X[0, 0]) or 1.0)
    minus = X[1:, 0], y[1:]
    a, t0 = float(A[0, 0]), float(theta[0])
    for x, v in (plus, minus):
        a2 = float(x @ x) + lam
        t2 = float(x @ v) / a2
        grid = t0 + np.linspace(-14, 14, 40001) * sigma / a
        p = -0.5 * ((grid - t0) * a / sigma) ** 2 + math.log(a / sigma)
        q = -0.5 * ((grid - t2) * a2 / sigma) ** 2 + math.log(a2 / sigma)
        step = np.full(len(grid), grid[1] - grid[0]) / math.sqrt(2 * math.pi)
        true = np.array([hockey_stick(p, q, step, e) for e in EPS])
        out.append(true / claim)
    return np.concatenate(out)


def _log_bound(case: Any) -> Array:
    if case is None:
        return np.zeros(2)
    X, y, lam, _ = case
    lam = lam / 30.0 * 1.3  # close to B^2: where the removal matters
    size, star = [], math.nan
    for rows in (slice(None), slice(1, None)):
        A = X[rows].T @ X[rows] + lam * np.eye(X.shape[1])
        if rows == slice(None):
            star = lam + float(np.linalg.eigvalsh(X.T @ X)[0])
        size.append(math.log(1.0 + float(np.linalg.norm(np.linalg.solve(A, X[rows].T @ y[rows])))))
    allowed = sensitivity(Of("log residual", (1.0, star)), "add-remove", "l2")
    return np.array([(size[0] - size[1]) / allowed, 0.0])


_LINEAR = (
    SensitivityCheck("posterior densities", posterior_ratio, _linear_cases, 1.0 + 1e-9, "linf"),
    SensitivityCheck("score densities", score_ratio, _linear_cases, 1.0 + 1e-6, "linf"),
    SensitivityCheck("log residual bound, removal", _log_bound, _linear_cases, 1.0, "linf"),
)

# -- tested curvature --------------------------------------------------------------------------


def _fit(rows: Array, lam: float) -> tuple[Array, Array]:
    """Minimise exactly by many Newton steps; return (theta, Hessian with ridge)."""
    # rows are unit vectors up to rounding: none may be void
    working = WorkingRows(np.ones(2), np.zeros(2), 1.0, 1.0 + 2.0**-30)
    theta = np.zeros(2)
    for _ in range(60):
        if len(rows):
            _, g, H = evaluate(_blocks(rows), working, LogisticLoss(), theta)
        else:
            g, H = np.zeros(2), np.zeros((2, 2))
        H = H + lam * np.eye(2)
        theta = theta - np.linalg.solve(H, g + lam * theta)
    return theta, H


def _curvature_cases() -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(7)
    for k in range(150):
        n = int(rng.integers(1, 9))
        x = rng.normal(size=(n, 2))
        x /= np.linalg.norm(x, axis=1)[:, None]
        if k % 3 == 0:
            x = np.abs(np.sign(x)) * np.array([1.0, 0.0])
        rows = np.column_stack([x, rng.integers(0, 2, n)])
        lam = float(rng.choice([1.2, 3.0, 10.0]))
        pair = ((rows, lam), (rows[1:], lam))
        yield pair if k % 2 else pair[::-1]


def _minimum(case: Any) -> Array:
    return _fit(*case)[0]


def _displaced(x: Any, y: Any) -> float:
    return displacement(float(np.linalg.eigvalsh(_fit(*x)[1])[0]), 1.0)


def _curvature(case: Any) -> Array:
    return np.array([np.linalg.eigvalsh(_fit(*case)[1])[0]])


def hessian_ratio(case: Any, shrink: float = 1.0) -> Array:
    """Return true over claimed Renyi divergence (order 4) of the Hessian-shaped sample."""
    if case is None:
        return np.zeros(1)
    (rows, lam), other = case
    a, gamma = 4.0, 2.0
    (t0, H0), (t1, H1) = _fit(rows, lam), _fit(*other)
    claim = hessian_rdp(a, gamma, float(np.linalg.eigvalsh(H0)[0]), 1.0)
    gamma *= shrink * shrink
    mix = a * H1 + (1 - a) * H0
    if not math.isfinite(claim) or np.linalg.eigvalsh(mix)[0] <= 0:
        return np.zeros(1)
    v = t1 - t0
    # Renyi divergence of normals with precisions gamma H0 and gamma H1
    inner = H0 @ np.linalg.solve(mix, H1)
    det = np.linalg.slogdet
    log = det(mix)[1] - (1 - a) * det(H0)[1] - a * det(H1)[1]
    true = 0.5 * a * gamma * float(v @ inner @ v) + log / (2 * (a - 1)) * -1.0
    return np.array([true / claim])


def _hessian_cases() -> Iterator[tuple[Any, None]]:
    for x, y in _curvature_cases():
        scaled = (x[0], x[1] * 8.0), (y[0], y[1] * 8.0)
        yield scaled, None


_TESTED = (
    SensitivityCheck("minimum", _minimum, _curvature_cases, _displaced),
    SensitivityCheck("smallest curvature", _curvature, _curvature_cases, curvature_sensitivity(1)),
    SensitivityCheck("Hessian-shaped sample", hessian_ratio, _hessian_cases, 1.0, "linf"),
)

# -- principal components ----------------------------------------------------------------------


def _pca_cases() -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(9)
    for k in range(300):
        X = rng.normal(size=(int(rng.integers(4, 40)), 3)) * rng.uniform(0.2, 3, 3)
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        M = X.T @ X
        N = M - np.outer(X[0], X[0])
        yield (M, N) if k % 2 else (N, M)


def _gap_bound(M: Array, N: Array) -> float:
    gap = eigengap(M, 1)
    return projector_sensitivity(gap) if gap > 1 else math.inf


def _working_pairs() -> Iterator[tuple[Array, Array]]:
    """One row more or less: beyond the ball, on it, and void."""
    base = np.array([[0.3, -0.2, 0.9], [4.0, 4.0, -4.0]])
    for row in ([9.0, 0, 0], [1.0, 1.0, 1.0], [1e300, -1e300, 0], [np.nan, 1.0, 1.0]):
        more = np.vstack([base, row])
        yield from ((base, more), (more, base))


def _second_moment(rows: Array) -> Array:
    rowmap = working_map(np.ones(3), np.zeros(3), 1.5)
    return np.asarray(gram(_blocks(rows), rowmap).integers(), dtype=float)


_PCA = (
    SensitivityCheck("second moments", _second_moment, _working_pairs, 2.0**40),
    SensitivityCheck("projector", lambda M: projector(M, 1), _pca_cases, _gap_bound),
    SensitivityCheck("eigengap", lambda M: np.array([eigengap(M, 1)]), _pca_cases, 1.0),
)

# -- registration ------------------------------------------------------------------------------


def _frame(n: int, binary: bool) -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, size=(2, n))
    y = a - 0.5 * b + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "y": (y > 0).astype(int) if binary else y})


_BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}
_SCHEMA = Schema(a=Real(-1, 1), b=Real(-1, 1), y=Binary())


def _events() -> EventCheck:
    """Run the whole private stage at opposite rows, with a delta that one can see."""
    rng = np.random.default_rng(1)
    a, b = rng.choice([-1.0, 1.0], size=(2, 12))
    x = {"a": a, "b": b, "y": (a > 0).astype(float)}
    y = {**x, "y": np.concatenate([[1.0 - x["y"][0]], x["y"][1:]])}
    options = {"inference": False}
    plan = plan_of("dp_glm", "objpert", "y ~ a + b", 12, _SCHEMA, 2.0, 0.02, options)

    def outcome(data: dict[str, Array]) -> Callable[[int], Any]:
        def run(seed: int) -> Any:
            release = backend_release(plan, data, Run(plan.steps, SeededNoise(seed)))
            return np.concatenate([release.values["theta"], release.values["sums"]])

        return run

    pair = (outcome(x), outcome(y))
    return EventCheck("objpert, whole private stage", pair, plan.guarantee, runs=600)


register_case("objpert", "dp_glm", AuditCase(sensitivity=_OBJPERT, events=(_events(),)))
register_case("gptr", "dp_glm", AuditCase(sensitivity=_TESTED))
for _method in ("objpert", "gptr"):
    register_case(
        _method,
        "dp_glm",
        verb_case("dp_glm", _method, "y ~ a + b", _frame(300, True), eps=4.0, delta=1e-6,
                  schema=_SCHEMA),
    )  # fmt: skip
for _method in ("gptr", "adaops", "ops"):
    register_case(_method, "dp_ols", AuditCase(sensitivity=_LINEAR))
    register_case(
        _method,
        "dp_ols",
        verb_case("dp_ols", _method, "y ~ a + b", _frame(300, False), eps=4.0, delta=1e-6,
                  bounds=_BOUNDS),
    )  # fmt: skip
register_case(
    "gptr",
    "dp_ols",
    verb_case("dp_ols", "gptr", "y ~ a + b", _frame(300, False), eps=4.0, delta=1e-6,
              bounds=_BOUNDS, scoring=False),
)  # fmt: skip
register_case("gptr", "dp_pca", AuditCase(sensitivity=_PCA))


def _pca(data: Any) -> Any:
    import dpmodels as dp

    return dp.dp_pca("~ a + b + y", data, eps=4.0, delta=1e-6, bounds=_BOUNDS)


register_case("gptr", "dp_pca", verb_case("dp_pca", "gptr", "", _frame(300, False), call=_pca))


def _generic(test: str) -> Callable[[Any], Any]:
    def call(data: Any) -> Any:
        import dpmodels as dp

        more: dict[str, Any] = {"choose": lambda b, e, d: 1.0} if test == "choose" else {}

        def mechanism(Z: Array, *rest: Any) -> Array:
            value: Array = Z[:, 0].mean() + rest[-1].normals(1)
            return value

        return dp.dp_gptr(
            mechanism, lambda Z: 0.01, "a ~ 1", data, eps=4.0, delta=1e-6, sensitivity=1e-3,
            bounds={"a": (-1, 1)}, test=test, **more,
        )  # fmt: skip

    return call


for _method in ("propose", "choose"):
    register_case(
        _method,
        "dp_gptr",
        verb_case("dp_gptr", _method, "", _frame(300, False)[["a"]], call=_generic(_method)),
    )
