"""The objective of a corrected loss on released data: value, gradient, Hessian, scores.

    L_t(theta) = mean over rows of sum over pieces of factor * term(y, x'theta, q(theta)).

One piece for the integrated form; two for the forms with a second draw (X1 and X2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.models.noised.losses import Loss
from dpmodels.models.noised.model import Model, Sums, Terms, sums_of
from dpmodels.quiet import bars_are_secret

ROWS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Piece:
    """One draw of the data and the term of the loss that is evaluated on it."""

    X: Array
    y: Array
    term: str
    p: float = 0.0  # Clear probability of the correction
    # (float, float): factor a + b t of the piece on the path t in [0, 1].
    factor: tuple[float, float] = (1.0, 0.0)


@dataclass(frozen=True)
class Objective:
    """A corrected objective."""

    loss: Loss
    pieces: tuple[Piece, ...]
    # (B, p + 1, p + 1): noise covariance of (x, y) by block; the row of y is zero where it does not
    # enter.
    K: Array
    weights: Array | None  # (n,)
    h: float = 0.0  # Smoothing of kinked losses

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.pieces[0].y)

    @property
    def p(self) -> int:
        """Coefficients."""
        return int(self.pieces[0].X.shape[1])

    def noise(self, theta: Array) -> tuple[Array, Array]:
        """Return q (B,) and its gradient (B, p)."""
        phi = np.append(theta, -1.0)
        v = self.K @ phi
        return v @ phi, 2.0 * v[:, :-1]

    def admissible(self, theta: Array) -> bool:
        """Whether the correction is defined at theta."""
        return self.loss.admissible(float(self.noise(theta)[0].sum()))

    def _terms(self, piece: Piece, y: Array, eta: Array, q: Array, t: float, second: bool) -> Terms:
        """Return the value and derivatives of one piece of the corrected loss at each row."""
        if piece.term == "plain":
            return self.loss.plain(y, eta, self.h, second)
        if piece.term == "product":
            return self.loss.product(y, eta, q, t, second)
        if piece.term == "laplacian":
            return self.loss.laplacian(y, eta, q, piece.p, 1.0, self.h, second)
        return self.loss.corrected(y, eta, q, piece.p, t, self.h, second)

    def _sums(self, theta: Array, t: float, second: bool) -> Sums:
        """Return the sums of the corrected loss C and its derivatives over all rows and pieces.

        C: ``losses.py``, at t from 0 (naive loss) to 1 (full correction). A piece is one draw of
        the data with its term of C. ``second``: whether second derivatives are summed too.
        """
        q, dq = self.noise(theta)
        total = Sums.zero(self.p, len(dq), second=second)
        for piece in self.pieces:
            factor = piece.factor[0] + piece.factor[1] * t
            if factor == 0.0:
                continue
            for start in range(0, self.n, ROWS_AT_ONCE):
                part = slice(start, min(self.n, start + ROWS_AT_ONCE))
                x, y = piece.X[part], piece.y[part]
                w = np.ones(len(x)) if self.weights is None else self.weights[part]
                eta = x @ theta
                with np.errstate(all="ignore"):
                    if piece.term == "product":
                        sums = self.loss.product_sums(y, eta, q, t, second, x, w)
                    else:
                        terms = self._terms(piece, y, eta, q, t, second)
                        sums = sums_of(terms, x, w, second=second)
                total = total.plus(sums, factor)
        return total

    @property
    def total(self) -> float:
        """Sum of weights."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    def value(self, theta: Array, t: float = 1.0) -> float:
        """Return L_t, the mean of C over the rows."""
        return self.gradient(theta, t)[0]

    def gradient(self, theta: Array, t: float = 1.0) -> tuple[float, Array]:
        """Return L_t and its gradient."""
        _, dq = self.noise(theta)
        sums, total = self._sums(theta, t, False), self.total
        return sums.value / total, (sums.grad + sums.q @ dq) / total

    def hessian(self, theta: Array, t: float = 1.0) -> tuple[float, Array, Array]:
        """Return L_t, its gradient and its Hessian (smooth losses)."""
        _, dq = self.noise(theta)
        sums, total = self._sums(theta, t, True), self.total
        grad = sums.grad + sums.q @ dq
        mixed = sums.cross.T @ dq
        H = sums.hess + mixed + mixed.T + dq.T @ sums.qq @ dq
        H = H + 2.0 * np.einsum("b,bij->ij", sums.q, self.K[:, :-1, :-1])
        return sums.value / total, grad / total, 0.5 * (H + H.T) / total

    def score_moment(self, theta: Array) -> Array:
        """Return mean of psi psi' at t = 1."""
        _, dq = self.noise(theta)
        A = np.zeros((self.p, self.p))
        for start in range(0, self.n, ROWS_AT_ONCE):
            part = slice(start, min(self.n, start + ROWS_AT_ONCE))
            psi = self._scores(theta, dq, part)
            if self.weights is not None:
                psi *= self.weights[part][:, None]
            A += psi.T @ psi
        return A / self.total

    def _scores(self, theta: Array, dq: Array, part: slice) -> Array:
        """Return the score of each row of a part of the table."""
        q, _ = self.noise(theta)
        psi = np.zeros((part.stop - part.start, self.p))
        for piece in self.pieces:
            factor = piece.factor[0] + piece.factor[1]
            x = piece.X[part]
            with np.errstate(all="ignore"):
                terms = self._terms(piece, piece.y[part], x @ theta, q, 1.0, False)
            psi += factor * (x * terms.e[:, None])
            if len(terms.q):
                psi += factor * (terms.q.T @ dq)
        return psi

    def rows(self, keep: npt.NDArray[np.intp]) -> Objective:
        """Return the objective on some rows (a start for the path, never the answer)."""
        pieces = tuple(replace(c, X=np.asfortranarray(c.X[keep]), y=c.y[keep]) for c in self.pieces)
        weights = None if self.weights is None else self.weights[keep]
        return replace(self, pieces=pieces, weights=weights)

    def with_h(self, h: float) -> Objective:
        """Return the objective with another smoothing."""
        return replace(self, h=h)


def objective_of(
    loss: Loss, model: Model, kind: str, second: Model | None = None, h: float = 0.0
) -> Objective:
    """Return the objective of an estimator: naive, drcl, sdrcl, sl or paper.

    ``second``: the second draw, for the kinds that need it.
    """
    K = model.K.copy()
    if not loss.of_residual:
        K[:, -1, :] = 0.0
        K[:, :, -1] = 0.0
    live = np.array([bool(k.any()) for k in K], dtype=bool)
    K = K[live] if live.any() else np.zeros((0, *K.shape[1:]))
    p = model.clear_prob
    if kind == "naive" or not len(K):
        pieces: tuple[Piece, ...] = (Piece(model.X, model.y, "plain"),)
        K = np.zeros((0, *K.shape[1:]))
    elif kind == "paper":
        assert second is not None
        pieces = (
            Piece(model.X, model.y, "plain", 0.0, (1.0, 1.0 / p - 1.0)),
            Piece(second.X, second.y, "plain", 0.0, (0.0, 1.0 - 1.0 / p)),
        )
    elif kind == "sdrcl" and p > 0:
        assert second is not None
        pieces = (
            Piece(model.X, model.y, "plain"),
            Piece(second.X, second.y, "laplacian", p, (0.0, 1.0)),
        )
    elif kind == "sl" and p > 0:
        assert second is not None
        pieces = (Piece(second.X, second.y, "corrected"),)
    elif len(K) > 1 or model.noise == "laplace":
        pieces = (Piece(model.X, model.y, "product"),)
    else:
        pieces = (Piece(model.X, model.y, "corrected", p),)
    return Objective(loss, pieces, K, model.weights, h)


# -- Minimising a corrected loss: a homotopy from the naive fit, inside a ball, with honest fla


BOX_RADIUS = 20.0
PATH = (0.25, 0.5, 0.75, 1.0)
_START_ROWS = 40_000


@dataclass(frozen=True)
class Solution:
    """End of the path, and whether it is a minimum."""

    theta: Array  # (p,)
    converged: bool
    why: str  # Reason for a failure, or empty
    gradient: float  # Norm of the gradient in standardised units
    naive: Array  # (p,): the naive fit the path started from
    h: float = 0.0  # Smoothing in force
    # (p,): coefficients at an end of the box, if there is one.
    edge: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Ball:
    """Standardised coordinates z = theta * scale; slopes are kept inside radius R.

    With a ``box`` (lower and upper ends of theta) every coordinate is kept inside it instead;
    a slope without ends of its own is kept inside the radius.
    """

    scale: Array
    slopes: npt.NDArray[np.bool_]
    radius: float
    box: tuple[Array, Array] | None = None

    def ends(self) -> tuple[Array, Array]:
        """Return the ends of the box in standardised coordinates."""
        assert self.box is not None
        most = np.where(self.slopes, self.radius, np.inf)
        lower, upper = (np.asarray(end) * self.scale for end in self.box)
        return (
            np.where(np.isfinite(lower), lower, -most),
            np.where(np.isfinite(upper), upper, most),
        )

    def norm(self, z: Array) -> float:
        """Return the length of the slopes."""
        return float(np.linalg.norm(z[self.slopes]))

    def pull(self, z: Array) -> Array:
        """Scale the slopes back onto the ball."""
        size = self.norm(z)
        if size <= self.radius:
            return z
        out = z.copy()
        out[self.slopes] *= self.radius / size
        return out


def _newton(
    f: Callable[[Array], tuple[float, Array, Array]], value: Callable[[Array], float], z: Array,
    ball: Ball, tol: float, most: int,
) -> tuple[Array, float]:  # fmt: skip
    """Minimise by safeguarded Newton: eigenvalues made positive, capped steps, Armijo halving."""
    v, g, H = f(z)
    for _ in range(most):
        size = float(np.linalg.norm(g))
        if not math.isfinite(v) or not np.isfinite(H).all() or size < tol:
            break
        w, U = np.linalg.eigh(H)
        w = np.maximum(np.abs(w), 1e-3 * float(np.abs(w).max()) + 1e-300)
        step = -(U @ ((U.T @ g) / w))
        length = float(np.linalg.norm(step))
        cap = 0.5 * max(1.0, float(np.linalg.norm(z)))
        if length > cap:
            step *= cap / length
        slope = float(g @ step)
        # the full step is nearly always taken: its Hessian is the next iteration's
        new = ball.pull(z + step)
        at = f(new)
        t = 1.0
        while not (math.isfinite(at[0]) and at[0] <= v + 1e-4 * t * slope + 1e-14 * abs(v)):
            t *= 0.5
            if t < 1e-9:
                return z, size
            new = ball.pull(z + t * step)
            if value(new) <= v + 1e-4 * t * slope:
                at = f(new)
        if not np.abs(new - z).max() > 0:
            break
        z, (v, g, H) = new, at
    size = float(np.linalg.norm(g))
    return z, size


class _Scaled:
    """The objective in standardised coordinates."""

    def __init__(self, objective: Objective, ball: Ball) -> None:
        self.objective, self.ball = objective, ball

    def bounded(self, z: Array, t: float, tol: float) -> tuple[Array, float]:
        """Minimise L_t from z inside the box, by L-BFGS-B."""
        from scipy.optimize import Bounds, minimize

        s, o = self.ball.scale, self.objective
        lower, upper = self.ball.ends()

        def fun(x: Array) -> tuple[float, Array]:
            if not o.admissible(x / s):
                return 1e300, np.zeros_like(x)
            v, g = o.gradient(x / s, t)
            return (v, g / s) if math.isfinite(v) else (1e300, np.zeros_like(x))

        result = minimize(
            fun, np.clip(z, lower, upper), jac=True, method="L-BFGS-B", bounds=Bounds(lower, upper),
            options={"gtol": tol, "ftol": 1e-15, "maxiter": 500},
        )  # fmt: skip
        x = np.clip(np.asarray(result.x, dtype=float), lower, upper)
        return x, float(np.linalg.norm(x - np.clip(x - fun(x)[1], lower, upper)))

    def newton(self, z: Array, t: float, tol: float, most: int) -> tuple[Array, float]:
        """Minimise L_t from z."""
        if self.ball.box is not None:
            return self.bounded(z, t, tol)
        s, o = self.ball.scale, self.objective

        def full(x: Array) -> tuple[float, Array, Array]:
            if not o.admissible(x / s):
                return math.inf, x, np.eye(len(x))
            v, g, H = o.hessian(x / s, t)
            return v, g / s, H / np.outer(s, s)

        def value(x: Array) -> float:
            return o.value(x / s, t) if o.admissible(x / s) else math.inf

        return _newton(full, value, z, self.ball, tol, most)

    def bfgs(self, z: Array, t: float, tol: float) -> tuple[Array, float]:
        """Minimise L_t from z by BFGS (kinked losses)."""
        if self.ball.box is not None:
            return self.bounded(z, t, tol)
        from scipy.optimize import minimize

        s = self.ball.scale

        def fun(x: Array) -> tuple[float, Array]:
            inside = self.ball.pull(x)
            v, g = self.objective.gradient(inside / s, t)
            over = max(0.0, self.ball.norm(x) - self.ball.radius)
            if not math.isfinite(v):
                return 1e300, np.zeros_like(x)
            # outside the ball: the value on it plus a wall
            wall = np.where(self.ball.slopes, x - inside, 0.0)
            return v + 0.5 * over * over, g / s + wall

        result = minimize(fun, z, jac=True, method="BFGS", options={"gtol": tol, "maxiter": 200})
        x = np.asarray(result.x, dtype=float)
        _, g = fun(x)
        return self.ball.pull(x), float(np.linalg.norm(g))


def _progress(show: bool | None, n: int, stages: int) -> Any:
    """Return a progress bar, or None: long fits only, and only where tqdm is installed."""
    if show is False or (show is None and n < 200_000) or bars_are_secret():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(
        total=stages, desc="corrected fit", leave=False, disable=None if show is None else False
    )


def residual_mad(objective: Objective, theta: Array) -> float:
    """Return 1.4826 MAD of y - x'theta on the first draw."""
    piece = objective.pieces[0]
    u = piece.y - piece.X @ theta
    return 1.4826 * float(np.median(np.abs(u - np.median(u))))


def minimise(
    objective: Objective, scale: Array, slopes: npt.NDArray[np.bool_], *,
    radius: float = BOX_RADIUS, h: float | None = None, p: float = 0.0,
    progress: bool | None = None, box: tuple[Array, Array] | None = None,
) -> Solution:  # fmt: skip
    """Minimise a corrected objective.

    ``scale``: ``z_j = theta_j scale_j``; slopes (p,) is False for the intercept, which the ball
    does not bind. ``h``: smoothing of a kinked loss, None by rule; ``p``: clear probability of the
    release. ``box``: ends of theta, the minimum inside them, the path too; infinite: only the ball
    binds.
    """
    ball = Ball(scale, slopes, radius, box)
    start = np.zeros(objective.p)
    bar = _progress(progress, objective.n, 1 + len(PATH))
    try:
        if objective.loss.kinked:
            return _kinked(objective, ball, start, h, p, bar)
        return _smooth(objective, ball, start, bar)
    finally:
        if bar is not None:
            bar.close()


def _tick(bar: Any) -> None:
    if bar is not None:
        bar.update(1)


def _smooth(objective: Objective, ball: Ball, z: Array, bar: Any) -> Solution:
    """Minimise a smooth corrected loss along its path from the uncorrected one."""
    scaled = _Scaled(objective, ball)
    path = scaled
    large = objective.n > 4 * _START_ROWS
    if large:  # walk the path on every k-th row; polish on all
        keep = np.arange(0, objective.n, objective.n // _START_ROWS)
        path = _Scaled(objective.rows(keep), ball)
    z, _ = path.newton(z, 0.0, 1e-8, 60)
    naive = z / ball.scale
    _tick(bar)
    for t in PATH:
        z, size = path.newton(z, t, 1e-6 if t < 1.0 or large else 1e-8, 60)
        _tick(bar)
        if not np.isfinite(z).all():
            break
    if large:
        z, size = scaled.newton(z, 1.0, 1e-6, 60)
    return _accept(objective, ball, z, size, 1e-5, naive, 0.0)


def _kinked(
    objective: Objective, ball: Ball, z: Array, h: float | None, p: float, bar: Any
) -> Solution:
    """Follow the path at a wide smoothing, then narrow it (clear records only)."""
    n = objective.n
    large = n > 4 * _START_ROWS
    first = objective
    if large:
        first = objective.rows(np.arange(0, n, n // _START_ROWS))
    y = first.pieces[0].y
    spread = max(1.4826 * float(np.median(np.abs(y - np.median(y)))), float(y.std()) * 1e-3, 1e-12)
    z, _ = _Scaled(first.with_h(0.3 * spread), ball).bfgs(z, 0.0, 1e-6)
    mad = max(residual_mad(first, z / ball.scale), 1e-12)
    z, _ = _Scaled(first.with_h(0.05 * mad), ball).bfgs(z, 0.0, 1e-6)
    naive = z / ball.scale
    _tick(bar)
    if len(objective.K) == 0:
        target = 1e-3 * mad if h is None else max(h, 1e-3 * mad)
        z, size = _Scaled(objective.with_h(target), ball).bfgs(z, 0.0, 1e-6)
        return _accept(objective.with_h(target), ball, z, size, 1e-3, naive, target)
    if h is None:
        h = 0.03 * mad if p >= 0.05 else 1.06 * mad * n ** (-1.0 / 7.0)
    wide = max(h, 0.5 * mad) if p >= 0.05 else h
    for t in PATH:
        z, size = _Scaled(first.with_h(wide), ball).bfgs(z, t, 1e-6)
        _tick(bar)
    steps = [k * mad for k in (0.3, 0.1) if k * mad > h] if p >= 0.05 else []
    for width in (*steps, h):
        z, size = _Scaled(objective.with_h(width), ball).bfgs(z, 1.0, 1e-6)
    return _accept(objective.with_h(h), ball, z, size, 1e-3, naive, h)


def _accept(
    objective: Objective, ball: Ball, z: Array, size: float, tol: float, naive: Array, h: float
) -> Solution:
    """Return the solution, with a check that the end of the path is a minimum inside the ball."""
    theta = z / ball.scale
    value, g = objective.gradient(theta, 1.0)
    size = float(np.linalg.norm(g / ball.scale))
    edge, beyond = None, ball.box is None and ball.norm(z) > ball.radius * (1 - 1e-6)
    if ball.box is not None:
        lower, upper = ball.ends()
        edge = (z <= lower + 1e-9 * ball.scale) | (z >= upper - 1e-9 * ball.scale)
        size = float(np.linalg.norm(np.where(edge, 0.0, g / ball.scale)))
        beyond = bool((edge & ~np.isfinite(ball.box[0])).any())  # no end of its own: the ball's
    if not (np.isfinite(theta).all() and math.isfinite(value)):
        why = "the path left the domain of the loss"
    elif not objective.admissible(theta):
        why = "the noise is too large for this loss"
    elif beyond:
        why = f"the estimate reached the ball of radius {ball.radius:g} (standardised slopes)"
    else:
        why = "" if size < tol else f"the gradient is {size:.2g}, not below {tol:g}"
    return Solution(theta, not why, why, size, naive, h, None if why else edge)


# -- Errors of a fit by resampling released rows: post-processing, free (``theory.md``, 5.2).
#
# The sandwich divides by a Hessian that is corrected for noise. Where noise nearly hides a
# direction the error of that Hessian is of first order. Resampled rows are fitted again along the
# whole path, so it is in the spread of the fits; starts from the estimate stay in its basin.

#: Resamples, and the least share of them that has to converge.
RESAMPLES, LEAST_CONVERGED = 40, 0.8
#: Rows times coefficients up to which errors are resampled by rule: kinked losses, smooth ones.
MOST_KINKED, MOST_SMOOTH = 3e5, 1.5e6
#: Quantiles of the fits, and their distance in standard deviations of a normal variable.
_TAILS, _TAILS_APART = (0.05, 0.95), 3.29
#: Seed of the resamples: a fit on released rows is the same whenever it is made.
_RESAMPLING_SEED = 20_240


def is_quick(objective: Objective) -> bool:
    """Return whether resampling takes about a minute at most. Public."""
    most = MOST_KINKED if objective.loss.kinked else MOST_SMOOTH
    return objective.n * objective.p <= most


def resampled_fits(
    objective: Objective, solution: Solution, scale: Array, slopes: npt.NDArray[np.bool_], *,
    radius: float, p: float, progress: bool | None = None,
) -> Array:  # fmt: skip
    """Return the fits of resampled released rows, (draws, p); NaN where one does not converge."""
    coins = np.random.default_rng(_RESAMPLING_SEED)
    out = np.full((RESAMPLES, objective.p), math.nan)
    bar = _progress(progress, max(objective.n, 200_000), RESAMPLES)
    for k in range(RESAMPLES):
        count = np.bincount(coins.integers(0, objective.n, objective.n), minlength=objective.n)
        keep = np.flatnonzero(count)
        part = objective.rows(keep)
        weights = count[keep].astype(np.float64)
        if part.weights is not None:
            weights = weights * part.weights
        refit = minimise(
            replace(part, weights=weights), scale, slopes, radius=radius,
            h=solution.h if objective.loss.kinked else None, p=p, progress=False,
        )  # fmt: skip
        if refit.converged:
            out[k] = refit.theta
        _tick(bar)
    if bar is not None:
        bar.close()
    return out


def resampled_covariance(fits: Array) -> Array | None:
    """Return the covariance of resampled fits, or None if too few converged.

    Standard deviations by quantiles, correlations by ranks: one fit that ran away decides neither.
    """
    good = fits[np.isfinite(fits).all(axis=1)]
    if len(good) < LEAST_CONVERGED * len(fits):
        return None
    low, high = np.quantile(good, _TAILS, axis=0)
    sd = (high - low) / _TAILS_APART
    ranks = np.argsort(np.argsort(good, axis=0), axis=0).astype(float)
    return np.asarray(np.atleast_2d(np.corrcoef(ranks.T)) * np.outer(sd, sd))
