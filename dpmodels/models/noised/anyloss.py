"""A user's loss given as a vectorised function of (y, X, theta): generic forms.

With clear records (p > 0): l(X1)/p + (1 - 1/p) l(X2), averaged over antithetic draws of X2. Without
(p = 0): l - 1/2 tr(K d^2 l), second differences along the eigenvectors of the noise covariance
(smooth losses). Gradients and scores by central differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.noised.fitting import at_the_edge, column_scales, split_errors
from dpmodels.models.noised.sums import second_model
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.noised.model import Model
    from dpmodels.request import Request

Function = Callable[[Array, Array, Array], Array]


def _antithetic(model: Model, second: Model) -> Model:
    """Return X1 - S for the draw X1 + S."""
    return replace(second, X=2.0 * model.X - second.X, y=2.0 * model.y - second.y)


def _rows(loss: Function, model: Model, kind: str, seed: int | None) -> Callable[[Array], Array]:
    """Return theta -> the corrected loss of every row."""
    p = model.clear_prob

    def plain(m: Model, theta: Array) -> Array:
        out = np.asarray(loss(m.y, m.X, theta), dtype=float)
        if out.shape != (m.n,):
            raise RequestError(
                f"loss(y, X, theta) must return one number a row: shape ({m.n},), got {out.shape}"
            )
        return out

    if kind == "naive" or not len(model.K):
        return lambda theta: plain(model, theta)
    if p > 0 and kind in ("paper", "drcl"):
        second = second_model(model, seed)
        other = _antithetic(model, second) if kind == "drcl" else None

        def one_draw(theta: Array) -> Array:
            l2 = plain(second, theta)
            if other is not None:
                l2 = 0.5 * (l2 + plain(other, theta))
            return plain(model, theta) / p + (1.0 - 1.0 / p) * l2

        return one_draw
    base = model if p == 0 else second_model(model, seed)
    first = model if kind == "sdrcl" else base
    factor = (1.0 - p) if kind == "sdrcl" else 1.0
    values, vectors = np.linalg.eigh(model.K[0])
    live = [j for j, v in enumerate(values) if v > 1e-14 * float(values[-1])]

    def second_order(theta: Array) -> Array:
        centre = plain(base, theta)
        out = centre if first is base else plain(first, theta)
        for j in live:
            step = 1e-3 * np.sqrt(values[j])
            d = step * vectors[:, j]
            up = replace(base, X=base.X + d[:-1], y=base.y + d[-1])
            down = replace(base, X=base.X - d[:-1], y=base.y - d[-1])
            curve = (plain(up, theta) - 2.0 * centre + plain(down, theta)) / step**2
            out = out - 0.5 * factor * values[j] * curve
        return out

    return second_order


def fit_function(
    request: Request,
    design: Design,
    model: Model,
    loss: Any,
    kind: str,
    notes: list[str],
    box: tuple[Array, Array] | None = None,
) -> Estimate:
    """Minimise the corrected mean of a user's function from the naive fit, by BFGS."""
    from scipy.optimize import Bounds, minimize

    from dpmodels.models.noised.objective import RADIUS, Ball

    scale, slopes = column_scales(design, model)
    radius = float(request.options.get("radius") or RADIUS)
    w = np.ones(model.n) if model.weights is None else model.weights
    w = w / w.sum()
    rows = _rows(loss, model, kind, request.options.get("draw_seed"))
    naive = _rows(loss, model, "naive", None)
    steps = 1e-5 / scale

    def objective(f: Callable[[Array], Array]) -> Callable[[Array], tuple[float, Array]]:
        def fun(z: Array) -> tuple[float, Array]:
            theta = z / scale
            g = np.empty(model.p)
            for j in range(model.p):
                d = np.zeros(model.p)
                d[j] = steps[j]
                g[j] = float(w @ (f(theta + d) - f(theta - d))) / (2.0 * steps[j])
            return float(w @ f(theta)), g / scale

        return fun

    how: dict[str, Any] = {"jac": True, "method": "BFGS"}
    lower, upper = np.full(model.p, -np.inf), np.full(model.p, np.inf)
    if box is not None:
        lower, upper = Ball(scale, slopes, radius, box).ends()
        how = {"jac": True, "method": "L-BFGS-B", "bounds": Bounds(lower, upper)}
    with np.errstate(all="ignore"):
        start = minimize(objective(naive), np.clip(np.zeros(model.p), lower, upper), **how)
        found = minimize(objective(rows), start.x, options={"gtol": 1e-5}, **how)
        z = np.asarray(found.x, dtype=float)
        edge = (z <= lower + 1e-9 * scale) | (z >= upper - 1e-9 * scale)
        size = float(np.linalg.norm(np.where(edge, 0.0, found.jac)))
        theta = z / scale
        inside = box is not None or float(np.linalg.norm(z[slopes])) < radius
        converged = bool(np.isfinite(z).all() and size < 1e-3 and inside)
        warned, sampling, privacy = [], None, None
        if not converged:
            warned.append(f"NOT CONVERGED: gradient {size:.2g}, inside the ball: {inside}")
        elif edge.any():
            warned.append(at_the_edge(model.names, edge))
        elif request.inference:
            cov = _covariance(rows, theta, w, 1e-4 / scale)
            if cov is None:
                warned.append("the Hessian is not positive definite; no standard errors")
            else:
                sampling, privacy = split_errors(cov, None)
                notes.append("The two parts of the errors are not separated for this loss.")
    return Estimate(
        model.names, theta,
        vcov_sampling=sampling, vcov_privacy=privacy,
        stats={"converged": float(converged), "gradient": size},
        notes=tuple(notes), warnings=tuple(warned),
    )  # fmt: skip


def _covariance(
    rows: Callable[[Array], Array], theta: Array, w: Array, steps: Array
) -> Array | None:
    p = len(theta)

    def scores(at: Array) -> Array:
        out = np.empty((len(w), p))
        for j in range(p):
            d = np.zeros(p)
            d[j] = steps[j]
            out[:, j] = (rows(at + d) - rows(at - d)) / (2.0 * steps[j])
        return out

    psi = scores(theta)
    A = (psi * (w * w)[:, None]).T @ psi
    H = np.empty((p, p))
    for j in range(p):
        d = np.zeros(p)
        d[j] = 10.0 * steps[j]
        H[j] = (w @ (scores(theta + d) - scores(theta - d))) / (20.0 * steps[j])
    H = 0.5 * (H + H.T)
    if not np.isfinite(H).all() or not float(np.linalg.eigvalsh(H)[0]) > 0:
        return None
    inverse = np.linalg.inv(H)
    return np.asarray(inverse @ A @ inverse)
