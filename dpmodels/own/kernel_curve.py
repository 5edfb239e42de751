"""Curves of kernel sums: jointly, behind a test, or behind released masses (``kernel.md``, 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core import kernels
from dpmodels.core.kernels import AtPoints, OnGrid
from dpmodels.core.sets import Formula, Reading
from dpmodels.formula.design import Design
from dpmodels.privacy.mechanisms import agm
from dpmodels.privacy.noise import paper_midpoint, paper_sigma, reply_probability, split_midpoint
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.sums.ask import Added, Ask, Query, check_pair

CURVE, MASS, CURVE_TESTED = "curve", "smallest kernel mass", "curve and test"
_JITTER = 1e-8
#: Noise sd of a point of ePTR that is still released, in half ranges of the response.
MOST_NOISE = 0.5


def gaussian(a: Array, b: Array, h: float) -> Array:
    """Return the (len(a), len(b)) kernel matrix of points given as (k, d) arrays."""
    a, b = a / h, b / h
    square = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * (a @ b.T)
    return np.asarray(np.exp(-0.5 * np.maximum(square, 0.0)))


@dataclass(frozen=True, eq=False)
class KernelSums:
    """N and D at public points from one reading of the rows."""

    design: Design
    formula: Formula
    into: AtPoints

    def total(self, rows: Any, reading: dict[str, Any]) -> tuple[Array, Array]:
        """Return (N, D): functions of exact integers, the same for every executor."""
        over = Reading(self.design, (self.formula,), (self.into,))
        return at_points(self.into, over.total(rows, reading).arrays[0].arrays)


def at_points(into: AtPoints, sums: Any) -> tuple[Array, Array]:
    """Return (N, D) from the exact sums. **Confidential**."""
    if not isinstance(into, OnGrid):
        n_high, n_low, d_high, d_low = sums
        return _real(n_high, n_low, kernels.KERNEL), _real(d_high, d_low, kernels.KERNEL)
    side, points, h = into.side, into.points, into.h
    scale = kernels.WEIGHT_STEPS ** points.shape[1]
    high, low, count = sums
    s, c = _real(high, low, scale * kernels.LABEL), count / scale
    centres = np.linspace(-1.0, 1.0, side)[:, None]
    if points.shape[1] == 1:
        K = gaussian(points, centres, h)
        return K @ s, K @ c
    # separable kernel: one product an axis
    K1, K2 = gaussian(points[:, :1], centres, h), gaussian(points[:, 1:], centres, h)
    s2, c2 = s.reshape(side, side), c.reshape(side, side)
    return ((K1 @ s2) * K2).sum(axis=1), ((K1 @ c2) * K2).sum(axis=1)


def _real(high: Any, low: Any, scale: float) -> Array:
    """Return ``(high * 2^22 + low) / scale``, rounded once."""
    combined = high.astype(object) * (1 << kernels.WORD_BITS) + low.astype(object)
    return np.asarray(combined / int(scale), dtype=float)


def joint_norm(points: Array, h: float) -> float:
    """Return k2 with k2^2 >= sup_x sum_j K(x, q_j)^2.

    ``k2^2 <= max_i sum_j exp(-|q_i - q_j|^2 / (4 h^2))``: nearest query and triangle inequality.
    """
    return math.sqrt(float(gaussian(points, points, h * math.sqrt(2.0)).sum(axis=1).max()))


def factor_of(points: Array, h: float) -> Array:
    """Return L with ``L L' = K(Z, Z) + jitter I``."""
    from scipy.linalg import cholesky

    K = gaussian(points, points, h)
    K[np.diag_indices_from(K)] += _JITTER
    return np.asarray(cholesky(K, lower=True, overwrite_a=True, check_finite=False))


def lattice_error(m: int, ridge: float) -> float:
    """Return how much rounding to the lattice adds to the sensitivity of ``L^{-1} (N, D)``.

    N, D: direct sums at m points; K: kernel matrix of the points.
    A row at m points is off by a vector in ``[0, 2^-44]^{2m}`` up to signs, two rows by at most
    ``2 sqrt(2m) 2^-44``; ``|L^{-1}| <= ridge^{-1/2}`` with ``L L' = K + ridge I``.
    """
    return 2.0 * math.sqrt(2.0 * m) / kernels.KERNEL / math.sqrt(ridge)


def _whitened(
    step: str, lemma: str, over: KernelSums, ask: Ask, columns: slice
) -> tuple[Any, Array]:
    """Release ``L^{-1}`` times N and D, or D alone; return the answer, and L."""
    from scipy.linalg import solve_triangular

    into = over.into
    m, d = into.points.shape
    L = factor_of(into.points, into.h)
    # direct sums are on a lattice; jitter/4 is kept
    lattice = 0.0 if d in kernels.CELLS_BY_DIMENSION else lattice_error(m, _JITTER / 4.0)

    def white(sums: tuple[Array, Array]) -> Added:
        both = np.column_stack(sums)[:, columns]
        return Added(solve_triangular(L, both, lower=True, check_finite=False))

    size = len(range(2)[columns]) * m
    # 2^-20 allows for the public grid, the rest for the float triangular solve (condition 1e4)
    return ask(step, Query(Of(lemma, (ask.n, lattice), size), over, white)), L


def functional_curve(over: KernelSums, ask: Ask) -> tuple[Array, Array]:
    """Release the sums N and D at fixed points; return them as ``L^{-1} (N, D)``, and L."""
    answer, L = _whitened(CURVE, "kernel curves", over, ask, slice(0, 2))
    return answer.values.reshape(-1, 2), L


def _quotient(N: Array, D: Array) -> Array:
    return np.where(D > 0, N / np.where(D > 0, D, 1.0), 0.0)


def tested_curve(over: KernelSums, detail: Any, ask: Ask) -> tuple[Array | None, float]:
    """Release the curve behind a private test of its kernel mass; return it, and the noise sd.

    None: there is no reply. As published, each point has its part of the budget and a test.
    """
    raw, n = ask.raw(own_proof("ePTR, kernel regression")), ask.n
    into = over.into
    m, eps = len(into.points), detail.eps_t + detail.eps_r
    N, D = raw.total(over)
    f = _quotient(N, D)
    if detail.form == "paper":  # Algorithm 5 of the paper at each point
        sigma = paper_sigma(4.0 / (detail.c0 * n), eps, detail.delta)
        out = np.full(m, np.nan)
        for j, (value, mass) in enumerate(zip(f.tolist(), D.tolist(), strict=True)):
            gamma = max(0.0, mass - detail.c0 * n - 2.0) / 2.0
            p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
            name = CURVE_TESTED if m == 1 else f"point {j + 1} and test"
            check_pair(ask, name, eps, detail.delta)
            noisy = raw.coin_gaussian(name, p, np.array([value]), sigma)
            out[j] = np.nan if noisy is None else noisy[0]
        return out if np.isfinite(out).any() else None, sigma
    allowance = 1.0 + 2.0**-20 + 64.0 * n * 2.0**-53
    gamma = max(0.0, float(D.min()) - detail.c0 * n) / allowance
    alpha = _joint_factor(into.points, into.h) / (detail.c0 * n) * allowance
    p = reply_probability(gamma, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))
    sigma = alpha * agm(detail.eps_r, detail.delta)
    check_pair(ask, CURVE_TESTED, eps, detail.delta)
    return raw.coin_gaussian(CURVE_TESTED, p, f, sigma), sigma


def counted_curve(over: KernelSums, ask: Ask) -> tuple[Array, Array, Array] | Array:
    """Release lower bounds of the masses, and the curve where they allow it.

    Return the values, their noise sds (NaN elsewhere) and the bounds, or the bounds alone if no
    point has a reply.
    """
    into = over.into
    points, m = into.points, len(into.points)
    failure, mu = ask.charged(MASS)[1], ask.charged(CURVE)[0].mu
    answer, L = _whitened(MASS, "kernel masses", over, ask, slice(1, 2))
    margin = float(answer.margin(failure / m)[0]) * np.linalg.norm(L, axis=1)
    lower = np.asarray(L @ answer.values - margin * (1.0 + 2.0**-20))
    precise, factor = kept_points(points, into.h, lower, mu)
    if not precise.any():
        return lower
    quotient = Of("kernel quotient", (factor, 1.0, ask.n), int(precise.sum()))

    query = Query(quotient, over, lambda sums: Added((lower * _quotient(*sums))[precise]))
    released = ask(CURVE, query)
    values, sds = np.full((2, m), np.nan)
    values[precise], sds[precise] = released.values / lower[precise], released.sd / lower[precise]
    return values, sds, lower


def kept_points(
    points: Array, h: float, lower: Array, mu: float
) -> tuple[npt.NDArray[np.bool_], float]:
    """Return the points with noise up to ``MOST_NOISE``, by bounds of masses, and their factor."""
    precise = lower >= _joint_factor(points, h) / (mu * MOST_NOISE)
    return precise, _joint_factor(points[precise], h) if precise.any() else math.inf


def _joint_factor(points: Array, h: float) -> float:
    return 2.0 if len(points) == 1 else 2.0 * math.sqrt(2.0) * joint_norm(points, h)
