"""The objective of a corrected loss on released data: value, gradient, Hessian, scores.

    L_t(theta) = mean over rows of sum over pieces of factor * term(y, x'theta, q(theta)).

One piece for the integrated form; two for the forms with a second draw (X1 and X2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.models.noised.sums import Sums, sums_of

if TYPE_CHECKING:
    from dpmodels.models.noised.losses import Loss, Terms
    from dpmodels.models.noised.model import Model

__all__ = ["Objective", "Piece", "objective_of"]

ROWS = 16_384


@dataclass(frozen=True)
class Piece:
    """One draw of the data and the term of the loss that is evaluated on it.

    Attributes
    ----------
    X, y : arrays
    term : {"corrected", "plain", "laplacian", "product"}
    p : float
        Clear probability of the correction.
    factor : (float, float)
        Factor a + b t of the piece on the path t in [0, 1].
    """

    X: Array
    y: Array
    term: str
    p: float
    factor: tuple[float, float] = (1.0, 0.0)


@dataclass(frozen=True)
class Objective:
    """A corrected objective.

    Attributes
    ----------
    loss : Loss
    pieces : tuple of Piece
    K : (B, p + 1, p + 1) array
        Noise covariance of (x, y) by block; the row of y is zero where it does not enter.
    weights : (n,) array or None
    h : float
        Smoothing of kinked losses.
    """

    loss: Loss
    pieces: tuple[Piece, ...]
    K: Array
    weights: Array | None
    h: float = 0.0

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
        if piece.term == "plain":
            return self.loss.plain(y, eta, self.h, second)
        if piece.term == "product":
            return self.loss.product(y, eta, q, t, second)
        if piece.term == "laplacian":
            return self.loss.laplacian(y, eta, q, piece.p, 1.0, self.h, second)
        return self.loss.corrected(y, eta, q, piece.p, t, self.h, second)

    def _sums(self, theta: Array, t: float, second: bool) -> Sums:
        """Return the sums of C and its derivatives over all rows and pieces."""
        q, dq = self.noise(theta)
        total = Sums.zero(self.p, len(dq), second=second)
        for piece in self.pieces:
            factor = piece.factor[0] + piece.factor[1] * t
            if factor == 0.0:
                continue
            for start in range(0, self.n, ROWS):
                part = slice(start, min(self.n, start + ROWS))
                x, y = piece.X[part], piece.y[part]
                w = np.ones(len(x)) if self.weights is None else self.weights[part]
                eta = x @ theta
                with np.errstate(all="ignore"):
                    if piece.term == "product":
                        found = self.loss.product_sums(y, eta, q, t, second, x, w)
                    else:
                        terms = self._terms(piece, y, eta, q, t, second)
                        found = sums_of(terms, x, w, second=second)
                total = total.plus(found, factor)
        return total

    def _weight(self, part: slice) -> Array | None:
        return None if self.weights is None else self.weights[part]

    @property
    def total(self) -> float:
        """Sum of weights."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    def value(self, theta: Array, t: float = 1.0) -> float:
        """Return L_t."""
        return self.gradient(theta, t)[0]

    def gradient(self, theta: Array, t: float = 1.0) -> tuple[float, Array]:
        """Return L_t and its gradient."""
        _, dq = self.noise(theta)
        found, total = self._sums(theta, t, False), self.total
        return found.value / total, (found.grad + found.q @ dq) / total

    def hessian(self, theta: Array, t: float = 1.0) -> tuple[float, Array, Array]:
        """Return L_t, its gradient and its Hessian (smooth losses)."""
        _, dq = self.noise(theta)
        found, total = self._sums(theta, t, True), self.total
        grad = found.grad + found.q @ dq
        mixed = found.cross.T @ dq
        H = found.hess + mixed + mixed.T + dq.T @ found.qq @ dq
        H = H + 2.0 * np.einsum("b,bij->ij", found.q, self.K[:, :-1, :-1])
        return found.value / total, grad / total, 0.5 * (H + H.T) / total

    def score_moment(self, theta: Array) -> Array:
        """Return mean of psi psi' at t = 1."""
        _, dq = self.noise(theta)
        A = np.zeros((self.p, self.p))
        for start in range(0, self.n, ROWS):
            part = slice(start, min(self.n, start + ROWS))
            psi = self._scores(theta, dq, part)
            w = self._weight(part)
            if w is not None:
                psi *= w[:, None]
            A += psi.T @ psi
        return A / self.total

    def _scores(self, theta: Array, dq: Array, part: slice) -> Array:
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
        pieces = tuple(
            Piece(np.asfortranarray(c.X[keep]), c.y[keep], c.term, c.p, c.factor)
            for c in self.pieces
        )
        weights = None if self.weights is None else self.weights[keep]
        return Objective(self.loss, pieces, self.K, weights, self.h)

    def with_h(self, h: float) -> Objective:
        """Return the objective with another smoothing."""
        return Objective(self.loss, self.pieces, self.K, self.weights, h)


def objective_of(
    loss: Loss, model: Model, kind: str, second: Model | None = None, h: float = 0.0
) -> Objective:
    """Return the objective of an estimator.

    Parameters
    ----------
    kind : {"naive", "drcl", "sdrcl", "sl", "paper"}
    second : Model, optional
        The second draw, for the kinds that need it.
    """
    K = model.K.copy()
    if not loss.of_residual:
        K[:, -1, :] = 0.0
        K[:, :, -1] = 0.0
    live = np.array([bool(k.any()) for k in K], dtype=bool)
    K = K[live] if live.any() else np.zeros((0, *K.shape[1:]))
    p = model.clear_prob
    one = (1.0, 0.0)
    if kind == "naive" or not len(K):
        pieces: tuple[Piece, ...] = (Piece(model.X, model.y, "plain", 0.0, one),)
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
            Piece(model.X, model.y, "plain", 0.0, one),
            Piece(second.X, second.y, "laplacian", p, (0.0, 1.0)),
        )
    elif kind == "sl" and p > 0:
        assert second is not None
        pieces = (Piece(second.X, second.y, "corrected", 0.0, one),)
    elif len(K) > 1 or model.noise == "laplace":
        pieces = (Piece(model.X, model.y, "product", 0.0, one),)
    else:
        pieces = (Piece(model.X, model.y, "corrected", p, one),)
    return Objective(loss, pieces, K, model.weights, h)
