"""Sums over rows that Newton's method needs of a corrected loss.

A loss gives its terms row by row (``Terms``); what the optimiser uses of
most of them are sums only, which a loss may know more cheaply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.noised.model import Model


@dataclass(frozen=True)
class Terms:
    """One loss at m rows: value and derivatives in eta and in q = (q_1, ..., q_B).

    Attributes
    ----------
    c, e : (m,) arrays
        C and C_eta.
    q : (B, m) array
        C_q.
    ee : (m,) array or None
    eq : (B, m) array or None
    qq : (B, B) array or None
        Mean-ready: weighted means over rows are taken with ``weights`` at evaluation.
    """

    c: Array
    e: Array
    q: Array
    ee: Array | None = None
    eq: Array | None = None
    qq: Array | None = None


@dataclass(frozen=True)
class Sums:
    """Weighted sums over rows of one loss, B blocks of noise, p coefficients.

    Attributes
    ----------
    value : float
        Of C.
    grad : (p,) array
        Of C_eta x.
    q : (B,) array
        Of C_q.
    hess : (p, p) array
        Of C_eta_eta x x'; empty without second derivatives, as are the next two.
    cross : (B, p) array
        Of C_eta_q x.
    qq : (B, B) array
        Of C_q_q.
    """

    value: float
    grad: Array
    q: Array
    hess: Array
    cross: Array
    qq: Array

    def plus(self, other: Sums, factor: float) -> Sums:
        """Return ``self + factor * other``."""
        return Sums(
            self.value + factor * other.value,
            self.grad + factor * other.grad,
            self.q + factor * other.q if len(other.q) else self.q,
            self.hess + factor * other.hess,
            self.cross + factor * other.cross if len(other.cross) else self.cross,
            self.qq + factor * other.qq if len(other.qq) else self.qq,
        )

    @classmethod
    def zero(cls, p: int, blocks: int, *, second: bool) -> Sums:
        """Return the empty sum."""
        b, k = (blocks, p) if second else (0, 0)
        return cls(
            0.0, np.zeros(p), np.zeros(blocks), np.zeros((k, k)), np.zeros((b, k)),
            np.zeros((b, b)),
        )  # fmt: skip


def sums_of(terms: Terms, x: Array, w: Array, *, second: bool) -> Sums:
    """Return the sums of terms over rows x (m, p) with weights w (m,)."""
    value, grad, q = float(terms.c @ w), (terms.e * w) @ x, terms.q @ w
    none = np.zeros((0, 0))
    if not second:
        return Sums(value, grad, q, none, none, none)
    assert terms.ee is not None
    hess = (x * (terms.ee * w)[:, None]).T @ x
    if not len(q):
        return Sums(value, grad, q, hess, none, none)
    assert terms.eq is not None
    assert terms.qq is not None
    return Sums(value, grad, q, hess, (terms.eq * w) @ x, terms.qq @ w)


# -- The second randomisation, drawn at analysis time: X2 = X1 + S, S ~ SL(p D). Post-processin


def second_model(model: Model, seed: int | None) -> Model:
    """Return the data with SL(p D) added, as plain SL data (clear_prob = 0).

    It is distributed as the clean data plus SL(D): the ZIL and SL parts add up.
    """
    p = model.clear_prob
    if p == 0.0 or not len(model.K):
        return replace(model, clear_prob=0.0)
    if len(model.K) != 1:
        raise RequestError("a second draw needs noise in a single block")
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(p * model.K[0])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    live = np.flatnonzero(np.abs(root).sum(axis=0) > 0)
    z = rng.standard_normal((model.n, len(live)))
    z *= np.sqrt(rng.standard_exponential(model.n))[:, None]
    X, y = np.array(model.X, order="F"), np.array(model.y)
    noise = root[:, live]
    for j in range(model.p):
        if np.abs(noise[j]).sum() > 0:
            X[:, j] += z @ noise[j]
    if math.fsum(np.abs(noise[-1])) > 0:
        y += z @ noise[-1]
    return replace(model, X=X, y=y, clear_prob=0.0)
