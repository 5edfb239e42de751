"""Estimates from a noised table: least squares in closed form, any loss by corrected scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.noised.model import Model, second_model
from dpmodels.models.noised.objective import BOX_RADIUS, Ball
from dpmodels.notes import Note
from dpmodels.records import Estimate, Request

# -- Least squares on a noised table: moment correction in closed form, and its errors.
#
# M = X'X/n - (1-p) D, m = X'y/n - (1-p) k_xy, theta = M^{-1} m; psi_i = x_i (y_i - x_i'theta) +
# (1-p)(D theta - k_xy); sandwich M^{-1} (psi'psi/n) M^{-1} / n (theory.md, section 5).


_ROWS_OF_BLOCK = 65_536
#: Antithetic pairs of second draws for a user's function, at most; fewer beyond this many numbers.
MOST_PAIRS, MOST_NUMBERS_DRAWN = 8, 1 << 25


@dataclass(frozen=True)
class LinearFit:
    """Closed-form linear fit: coefficients, covariance and signal."""

    theta: Array  # (p,) array, NaN where the signal is below the noise
    cov: Array | None  # (p, p): sandwich covariance of theta
    M: Array  # (p, p): corrected second moment
    sigma2: float  # Residual variance without noise; NaN where it comes out negative
    signal: float  # Smallest eigenvalue of M over its standard error


def weak_signal(M: Array, model: Model) -> float:
    """Return t = v'Mv / sd((x'v)^2) sqrt n at the eigenvector v of the smallest eigenvalue."""
    scale = np.sqrt(np.maximum(np.einsum("ij,ij->j", model.X, model.X) / model.n, 1e-300))
    S = M / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(S)
    v = vectors[:, 0] / scale
    square = (model.X @ v) ** 2
    spread = float(square.std())
    return float(values[0]) / max(spread, 1e-300) * math.sqrt(model.n)


def _moments(model: Model) -> tuple[Array, Array, float]:
    """Return X'X/n, X'y/n and n of a released table, weighted if it has weights."""
    w = model.weights
    total = float(model.n) if w is None else float(w.sum())
    X = model.X if w is None else model.X * w[:, None]
    return X.T @ model.X / total, X.T @ model.y / total, total


def fit_linear(model: Model, *, corrected: bool = True) -> LinearFit:
    """Fit least squares to released data; not ``corrected``: naively, for comparison."""
    p = model.p
    K = (1.0 - model.clear_prob) * model.total if corrected else np.zeros((p + 1, p + 1))
    D, k = K[:p, :p], K[:p, p]
    S, b, total = _moments(model)
    M, m = S - D, b - k
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    smallest = float(np.linalg.eigvalsh(M / np.outer(scale, scale))[0])
    signal = weak_signal(M, model)
    if not smallest > 1e-10:
        return LinearFit(np.full(p, math.nan), None, M, math.nan, signal)
    theta: Array = np.asarray(np.linalg.solve(M, m), dtype=float)
    A = np.zeros((p, p))
    rss = 0.0
    for start in range(0, model.n, _ROWS_OF_BLOCK):
        x, y = model.X[start : start + _ROWS_OF_BLOCK], model.y[start : start + _ROWS_OF_BLOCK]
        u = y - x @ theta
        psi = x * u[:, None] + (D @ theta - k)
        if model.weights is not None:
            w = model.weights[start : start + _ROWS_OF_BLOCK]
            psi *= w[:, None]
            rss += float(w @ (u * u))
        else:
            rss += float(u @ u)
        A += psi.T @ psi
    inverse = np.linalg.inv(M)
    cov = inverse @ (A / total) @ inverse.T / total
    phi = np.append(theta, -1.0)
    sigma2 = rss / total - float(phi @ K @ phi)
    return LinearFit(theta, cov, M, sigma2 if sigma2 > 0 else math.nan, signal)


def asymptotic_variance(
    theta: Array, M: Array, D: Array, sigma2: float, *, lambda_y2: float = 0.0, p: float = 0.0,
    kind: str = "drcl",
) -> tuple[Array, Array]:  # fmt: skip
    """Return (A, AsyVar) of sqrt n (theta_hat - theta), SL noise in one block.

    M (p, p) is E xx' of the clean rows, intercept included, D the noise covariance of x, sigma2 and
    lambda_y2 the error variance and the noise variance of y, p the clear probability. Kinds beside
    those of the methods: "paper", the one-draw form; "laplace" and "gaussian", independent noise
    (p = 0, D diagonal).

    A_SL = (s2 + q) M + (s2 + 2q) D + 3 D th th'D; V = q M + (s2 + 2q) D + (2 + p) D th th'D;
    A_IDR = A_SDR = A_SL - p V; A_DR = A_IDR + (1-p)^2/p V, q = th'D th + lambda_y^2.
    Independent noise of kurtosis k: A = (s2 + q)(M + D) + D th th'D + (k - 3) diag(D th)^2.
    """
    v = D @ theta
    q = float(theta @ v) + lambda_y2
    outer = np.outer(v, v)
    if kind in ("laplace", "gaussian"):
        excess = 3.0 * np.diag((np.diag(D) * theta) ** 2) if kind == "laplace" else 0.0
        A = (sigma2 + q) * (M + D) + outer + excess
        inverse = np.linalg.inv(M)
        return A, inverse @ A @ inverse.T
    A = (sigma2 + q) * M + (sigma2 + 2.0 * q) * D + 3.0 * outer
    V = q * M + (sigma2 + 2.0 * q) * D + (2.0 + p) * outer
    if kind != "sl":
        A = A - p * V
    if kind == "paper":
        A = A + (1.0 - p) ** 2 / p * V
    inverse = np.linalg.inv(M)
    return A, inverse @ A @ inverse.T


def fit_linear_one_draw(model: Model, second: Model) -> LinearFit:
    """Fit the published one-draw form: moments X1'X1/p + (1 - 1/p) X2'X2, and the same for y."""
    q = model.clear_prob
    a, b = 1.0 / q, 1.0 - 1.0 / q
    S1, m1, total = _moments(model)
    S2, m2, _ = _moments(second)
    M, m = a * S1 + b * S2, a * m1 + b * m2
    signal = weak_signal(M, second)
    if not float(np.linalg.eigvalsh(M)[0]) > 0:
        return LinearFit(np.full(model.p, math.nan), None, M, math.nan, signal)
    theta: Array = np.asarray(np.linalg.solve(M, m), dtype=float)
    u1, u2 = model.y - model.X @ theta, second.y - second.X @ theta
    psi = a * model.X * u1[:, None] + b * second.X * u2[:, None]
    sigma2 = a * float(u1 @ u1) / total + b * float(u2 @ u2) / total
    if model.weights is not None:
        psi *= model.weights[:, None]
        sigma2 = math.nan
    inverse = np.linalg.inv(M)
    cov = inverse @ (psi.T @ psi / total) @ inverse.T / total
    return LinearFit(theta, cov, M, sigma2 if sigma2 > 0 else math.nan, signal)


# -- From released data to an estimate: which loss, which correction, which errors.


#: Signal of the smallest eigenvalue, in standard errors: below these a warning, no errors by the
#: sandwich of a loss, none of least squares.
WEAK, TOO_WEAK, TOO_WEAK_SQUARED = 5.0, 2.0, 1.0


def split_errors(total: Array, sampling: Array | None) -> tuple[Array, Array]:
    """Return (sampling, privacy) parts, both positive semidefinite, that add up to ``total``.

    ``sampling`` is what the variance would be without noise; directions where it comes out above
    the total are cut down to it.
    """
    if sampling is None or not np.isfinite(sampling).all():
        return total, np.zeros_like(total)
    values, vectors = np.linalg.eigh(total)
    top = max(float(values[-1]), 1e-300)
    root = np.sqrt(np.maximum(values, 1e-14 * top))
    half = vectors * root
    back = vectors / root
    ratio = back.T @ sampling @ back
    w, u = np.linalg.eigh(0.5 * (ratio + ratio.T))
    middle = (u * np.clip(w, 0.0, 1.0)) @ u.T
    part = half @ middle @ half.T
    return part, total - part


def signal_warnings(signal: float, too_weak: float = TOO_WEAK) -> list[str]:
    """Return the warning of a design whose noise nearly hides a direction."""
    if signal >= WEAK:
        return []
    text = f"weak signal: the smallest eigenvalue of the corrected moments is {signal:.2g} SE"
    ending = " above zero; no standard errors" if signal < too_weak else " above zero"
    return [text + ending + ". More rows, fewer columns or a larger eps would help"]


def at_the_edge(names: Sequence[str], edge: npt.NDArray[np.bool_]) -> str:
    """Return the warning of a fit that ends at an end of ``theta=``."""
    listed = ", ".join(str(name) for name, at in zip(names, edge, strict=True) if at)
    return f"at an end of theta=: {listed}; no standard errors"


def fit_least_squares(request: Request, model: Model, notes: list[Note]) -> Estimate:
    """Fit least squares in closed form."""
    name, draw = request.method.name, request.options.get("draw_seed")
    if name == "naive":
        fit = fit_linear(model, corrected=False)
        notes.append(messages.NAIVE())
    elif name == "sl":
        fit = fit_linear(second_model(model, draw))
    elif request.options.get("variant") == "paper":
        if model.clear_prob == 0.0:
            raise RequestError(
                "variant='paper' is the one-draw form, which needs a release with clear_prob > 0. "
                "Drop variant=: the default form needs no second draw"
            )
        fit = fit_linear_one_draw(model, second_model(model, draw))
    else:
        fit = fit_linear(model)
    return _linear_estimate(request, model, fit, notes)


def _linear_estimate(request: Request, model: Model, fit: LinearFit, notes: list[Note]) -> Estimate:
    """Return corrected least squares with its errors, or without an estimate."""
    warned = signal_warnings(fit.signal, TOO_WEAK_SQUARED)
    stats: dict[str, float] = {"signal": fit.signal}
    if not np.isfinite(fit.theta).all():
        warned = [
            "no estimate, because the noise exceeds the signal. After noise correction the second "
            "moments are not positive definite. Use more rows, fewer columns or a larger eps"
        ]
        return Estimate(
            model.names, fit.theta, stats=stats, notes=tuple(notes), warnings=tuple(warned)
        )
    if math.isfinite(fit.sigma2):
        stats["sigma"] = math.sqrt(fit.sigma2)
        spread = float(model.y.var()) - (1.0 - model.clear_prob) * float(model.total[-1, -1])
        stats["rsquared"] = 1.0 - fit.sigma2 / spread if spread > fit.sigma2 else math.nan
    sampling = privacy = None
    with_errors = request.inference and request.method.name != "naive"  # bias is in no error
    if fit.cov is not None and with_errors and fit.signal >= TOO_WEAK_SQUARED:
        clean = None
        if math.isfinite(fit.sigma2):
            clean = fit.sigma2 * np.linalg.inv(fit.M) / model.n
        sampling, privacy = split_errors(fit.cov, clean)
    return Estimate(
        model.names, fit.theta, vcov_sampling=sampling, vcov_privacy=privacy, stats=stats,
        notes=tuple(notes), warnings=tuple(warned),
    )  # fmt: skip


def column_scales(design: Design, model: Model) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return widths of the predictor columns (standardised units) and which are slopes."""
    scale, slopes = np.ones(model.p), np.ones(model.p, dtype=bool)
    for j, column in enumerate(design.columns):
        if column.kind == "intercept":
            slopes[j] = False
            continue
        if column.interval is not None and column.interval[1] > column.interval[0]:
            scale[j] = column.interval[1] - column.interval[0]
        else:
            spread = float(model.X[:, j].std())
            scale[j] = spread if spread > 0 else 1.0
    return scale, slopes


# -- A user's loss given as a vectorised function of (y, X, theta): generic forms.
#
# With clear records (p > 0): l(X1)/p + (1 - 1/p) l(X2), averaged over antithetic draws of X2.
# Without (p = 0): l - 1/2 tr(K d^2 l), second differences along the eigenvectors of the noise
# covariance (smooth losses). Gradients and scores by central differences.


Function = Callable[[Array, Array, Array], Array]


def differences(f: Callable[[Array], Any], at: Array, steps: Array) -> Array:
    """Return central differences of f by every coordinate: (p, ...)."""
    moved = zip(np.diag(steps), steps, strict=True)
    return np.array([(f(at + d) - f(at - d)) / (2.0 * step) for d, step in moved])


def _pairs(model: Model) -> int:
    """Return how many pairs of second draws the expectation of a user's function is a mean of."""
    return min(MOST_PAIRS, max(1, MOST_NUMBERS_DRAWN // model.X.size))


def _rows(loss: Function, model: Model, kind: str, seed: int | None) -> Callable[[Array], Array]:
    """Return theta -> the corrected loss of every row."""
    p = model.clear_prob

    def plain(m: Model, theta: Array) -> Array:
        out = np.asarray(loss(m.y, m.X, theta), dtype=float)
        if out.shape != (m.n,):
            raise RequestError(
                f"loss(y, X, theta) must return one number per row: shape ({m.n},), got {out.shape}"
            )
        return out

    if kind == "naive" or not len(model.K):
        return lambda theta: plain(model, theta)
    if p > 0 and kind == "paper":
        second = second_model(model, seed)
        return lambda theta: plain(model, theta) / p + (1.0 - 1.0 / p) * plain(second, theta)
    if p > 0 and kind == "drcl":
        rng = np.random.default_rng(seed)
        pairs = [second_model(model, rng) for _ in range(_pairs(model))]

        def integrated(theta: Array) -> Array:
            drawn = np.zeros(model.n)
            for second in pairs:  # antithetic: X1 - S for the draw X1 + S
                other = replace(second, X=2.0 * model.X - second.X, y=2.0 * model.y - second.y)
                drawn += plain(second, theta) + plain(other, theta)
            return plain(model, theta) / p + (1.0 - 1.0 / p) * drawn / (2.0 * len(pairs))

        return integrated
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
    request: Request, design: Design, model: Model, loss: Any, kind: str, notes: list[Note],
    box: tuple[Array, Array] | None = None,
) -> Estimate:  # fmt: skip
    """Minimise the corrected mean of a user's function from the naive fit, by BFGS."""
    from scipy.optimize import Bounds, minimize

    scale, slopes = column_scales(design, model)
    radius = float(request.options.get("radius") or BOX_RADIUS)
    w = np.ones(model.n) if model.weights is None else model.weights
    w = w / w.sum()
    rows = _rows(loss, model, kind, request.options.get("draw_seed"))
    naive = _rows(loss, model, "naive", None)
    steps = 1e-5 / scale

    def objective(f: Callable[[Array], Array]) -> Callable[[Array], tuple[float, Array]]:
        def fun(z: Array) -> tuple[float, Array]:
            theta = z / scale
            return float(w @ f(theta)), differences(f, theta, steps) @ w / scale

        return fun

    how: dict[str, Any] = {"jac": True, "method": "BFGS"}
    lower, upper = np.full(model.p, -np.inf), np.full(model.p, np.inf)
    if box is not None:
        lower, upper = Ball(scale, slopes, radius, box).ends()
        how = {"jac": True, "method": "L-BFGS-B", "bounds": Bounds(lower, upper)}
    with np.errstate(all="ignore"):
        start = minimize(objective(naive), np.clip(np.zeros(model.p), lower, upper), **how)
        result = minimize(objective(rows), start.x, options={"gtol": 1e-5}, **how)
        z = np.asarray(result.x, dtype=float)
        edge = (z <= lower + 1e-9 * scale) | (z >= upper - 1e-9 * scale)
        size = float(np.linalg.norm(np.where(edge, 0.0, result.jac)))
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
                notes.append(messages.ONE_COVARIANCE())
    return Estimate(
        model.names, theta,
        vcov_sampling=sampling, vcov_privacy=privacy,
        stats={"converged": float(converged), "gradient": size},
        notes=tuple(notes), warnings=tuple(warned),
    )  # fmt: skip


def _covariance(
    rows: Callable[[Array], Array], theta: Array, w: Array, steps: Array
) -> Array | None:
    """Return the sandwich covariance of a root of summed scores, or None if it is singular."""
    def scores(at: Array) -> Array:
        return differences(rows, at, steps).T

    psi = scores(theta)
    A = (psi * (w * w)[:, None]).T @ psi
    H = differences(lambda at: w @ scores(at), theta, 10.0 * steps)
    H = 0.5 * (H + H.T)
    if not np.isfinite(H).all() or not float(np.linalg.eigvalsh(H)[0]) > 0:
        return None
    inverse = np.linalg.inv(H)
    return np.asarray(inverse @ A @ inverse)
