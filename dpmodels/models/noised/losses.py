"""Corrected index losses: the terms of each loss in the objective and its derivatives.

For a loss l(y, eta), eta = x'theta, and one block of SL noise with q = phi'K phi (phi = (theta, -1)
if the loss depends on y - eta, else (theta, 0)):

    C(eta, q) = l - kappa (q/2) F l'',   F = (1 - (p q / 2) d^2)^{-1},   kappa = t (1 - p)

(t runs from 0, the naive loss, to 1). Derivatives: with F^k l'' the k-fold filter,
C_q = -kappa F^2 l'' / 2, C_qq = -kappa (F^3 - F^2) l'' / q, C_eta_eta = l'' - kappa (F - 1) l''/p.
Several blocks (independent noise): the product operator prod_b (1 - v_b d^2), v_b = t q_b / 2.
Proofs: theory.md, section 4.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.lazy import special
from dpmodels.models.noised import calibration as filters
from dpmodels.models.noised.calibration import Filtered, Kernel
from dpmodels.models.noised.model import Sums, Terms, sums_of

#: A sum of c l^{(m)}: its (c, m).
Combination = tuple[tuple[float, int], ...]
Combinations = tuple[Combination, ...]
Pairs = tuple[tuple[int, int], ...]


class Loss:
    """Base class of the corrected losses."""

    name = ""
    of_residual = False  # The loss depends on y - eta: then the noise of y enters q
    kinked = False  # l'' is not continuous: needs smoothing or clear records
    public_y = False  # The response must not be noised

    def plain(self, y: Array, eta: Array, h: float, second: bool) -> Terms:
        """Return l and its derivatives in eta."""
        raise NotImplementedError

    def corrected(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Return C and its derivatives, noise of one block."""
        raise NotImplementedError

    def laplacian(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Return -kappa (q/2) l'' and its derivatives (the second term of SDR)."""
        raise NotImplementedError

    def product(self, y: Array, eta: Array, q: Array, t: float, second: bool) -> Terms:
        """Return the product operator of several blocks, p = 0."""
        raise NotImplementedError

    def product_sums(
        self, y: Array, eta: Array, q: Array, t: float, second: bool, x: Array, w: Array
    ) -> Sums:
        """Return the sums of :meth:`product` over rows x with weights w."""
        return sums_of(self.product(y, eta, q, t, second), x, w, second=second)

    def admissible(self, q: float) -> bool:
        """Whether the corrected loss has finite score variance at q."""
        return math.isfinite(q)


def _assemble(
    l: tuple[Array, Array, Array | None], f: Filtered, q: float, p: float, kappa: float,
    fourth: Array | None, second: bool,
) -> Terms:  # fmt: skip
    """Assemble C and its derivatives from l, l', l'' and the filters of l''."""
    c = l[0] - kappa * 0.5 * q * f.one
    e = l[1] - kappa * 0.5 * q * f.one_slope
    cq = (-0.5 * kappa * f.two)[None]
    if not second:
        return Terms(c, e, cq)
    assert l[2] is not None
    if p > 0:
        ee = l[2] - (kappa / p) * (f.one - l[2])
    else:
        assert fourth is not None
        ee = l[2] - kappa * 0.5 * q * fourth
    qq = -kappa * (f.three - f.two) / q if q > 1e-10 and p > 0 else np.zeros_like(c)
    return Terms(c, e, cq, ee, (-0.5 * kappa * f.two_slope)[None], qq[None, None])


def symmetric(size: int, pairs: Pairs, values: Array) -> Array:
    """Return the symmetric (size, size, ...) array with ``values`` at the pairs and zeros else."""
    out = np.zeros((size, size, *values.shape[1:]))
    for (b, c), value in zip(pairs, values, strict=True):
        out[b, c] = out[c, b] = value
    return out


def elementary(v: Iterable[float]) -> list[float]:
    """Return e_0, ..., e_B of the numbers v."""
    e = [1.0]
    for x in v:
        e = [a + x * b for a, b in zip([*e, 0.0], [0.0, *e], strict=True)]
    return e


@functools.lru_cache(maxsize=8)
def _combinations(v: tuple[float, ...], t: float, second: bool) -> tuple[Combinations, Pairs]:
    """Return the combinations of ``SmoothLoss.combinations`` for v_b = t q_b / 2."""
    blocks = len(v)
    combos: list[Combination] = []

    def operator(e: list[float], shift: int, sign: int, factor: float) -> None:
        combos.append(
            tuple((factor * (-1.0) ** (k + sign) * x, 2 * (k + sign) + shift)
                  for k, x in enumerate(e))
        )  # fmt: skip

    all_blocks = elementary(v)
    for shift in (0, 1, 2) if second else (0, 1):
        operator(all_blocks, shift, 0, 1.0)
    without = [elementary((*v[:b], *v[b + 1 :])) for b in range(blocks)]
    for shift in (0, 1) if second else (0,):
        for b in range(blocks):
            operator(without[b], shift, 1, 0.5 * t)
    pairs = tuple(itertools.combinations(range(blocks), 2)) if second else ()
    for b, c in pairs:
        operator(elementary([x for i, x in enumerate(v) if i not in (b, c)]), 0, 2, 0.25 * t * t)
    return tuple(combos), pairs


class SmoothLoss(Loss):
    """A loss with derivatives of every order that is asked for.

    ``derivatives(y, eta, orders)`` returns l^{(k)} for each k; ``filtered(y, eta, b)`` the Laplace
    filters of l''.
    """

    most_blocks = 8

    def derivatives(self, y: Array, eta: Array, orders: list[int]) -> list[Array]:
        """Return derivatives in eta."""
        raise NotImplementedError

    def filtered(self, y: Array, eta: Array, b: float) -> Filtered:
        """Return the filters of l''."""
        second, third = (lambda x, k=k: self.derivatives(y, x, [k])[0] for k in (2, 3))
        return filters.by_nodes(second, third, eta, b)

    def plain(self, y: Array, eta: Array, h: float, second: bool) -> Terms:
        """Return l, l' and l''."""
        zero = np.zeros((0, len(eta)))
        d = self.derivatives(y, eta, [0, 1, 2] if second else [0, 1])
        return Terms(d[0], d[1], zero, d[2] if second else None, zero if second else None)

    def corrected(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Return the integrated correction (filters if p > 0, l'' itself if p = 0)."""
        kappa, q0 = t * (1.0 - p), float(q[0])
        if p == 0.0:  # l - t (q/2) l'': the product operator of a single block
            return self.product(y, eta, q[:1], t, second)
        if q0 <= 0.0:
            d = self.derivatives(y, eta, [0, 1, 2, 3, 4] if second else [0, 1, 2, 3])
            f = Filtered(d[2], d[3], d[2], d[3], d[2])
            last = d[4] if second else None
            return _assemble((d[0], d[1], d[2]), f, q0, 0.0, kappa, last, second)
        d = self.derivatives(y, eta, [0, 1, 2])
        f = self.filtered(y, eta, math.sqrt(0.5 * p * q0))
        return _assemble((d[0], d[1], d[2]), f, q0, p, kappa, None, second)

    def laplacian(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Return -kappa (q/2) l''."""
        k = t * (1.0 - p)
        q0 = float(q[0])
        d = self.derivatives(y, eta, [2, 3, 4] if second else [2, 3])
        c, e, cq = -k * 0.5 * q0 * d[0], -k * 0.5 * q0 * d[1], (-0.5 * k * d[0])[None]
        if not second:
            return Terms(c, e, cq)
        return Terms(
            c, e, cq, -k * 0.5 * q0 * d[2], (-0.5 * k * d[1])[None], np.zeros((1, 1, len(c)))
        )

    def product(self, y: Array, eta: Array, q: Array, t: float, second: bool) -> Terms:
        """Return prod_b (1 - v_b d^2) l = sum_k (-1)^k e_k(v) l^{(2k)}."""
        combos, pairs = self.combinations(q, t, second)
        blocks = len(q)
        rows = self.combine(y, eta, combos)
        if not second:
            return Terms(rows[0], rows[1], rows[2 : 2 + blocks])
        eq = rows[3 + blocks : 3 + 2 * blocks]
        return Terms(
            rows[0], rows[1], rows[3 : 3 + blocks], rows[2], eq,
            symmetric(blocks, pairs, rows[3 + 2 * blocks :]),
        )  # fmt: skip

    def combinations(self, q: Array, t: float, second: bool) -> tuple[Combinations, Pairs]:
        """Return the terms of the product as sums of c l^{(m)}, and the pairs of blocks.

        In order: C, C_eta, (C_eta_eta), C_q of each block, (C_eta_q of each block, C_q_q of each
        pair); those in brackets with ``second``.
        """
        blocks = len(q)
        if blocks > self.most_blocks:
            raise RequestError(
                f"independent noise on {blocks} regressor columns: the product correction is "
                f"offered for at most {self.most_blocks} (its alternating sums lose accuracy). "
                "Use fewer columns, or dp_ols"
            )
        return _combinations(tuple((0.5 * t * q).tolist()), t, second)

    def combine(self, y: Array, eta: Array, combos: Combinations) -> Array:
        """Return each linear combination sum c l^{(m)}, shape (combinations, m)."""
        orders = sorted({m for combo in combos for _, m in combo})
        d = dict(zip(orders, self.derivatives(y, eta, orders), strict=True))
        out = np.zeros((len(combos), len(eta)))
        for row, combo in zip(out, combos, strict=True):
            for factor, m in combo:
                row += factor * d[m]
        return out


class Squared(SmoothLoss):
    """(y - eta)^2 / 2."""

    name = "squared"
    of_residual = True

    def derivatives(self, y: Array, eta: Array, orders: list[int]) -> list[Array]:
        """Return derivatives; zero from the third on."""
        u = y - eta
        derivatives = {0: 0.5 * u * u, 1: -u, 2: np.ones_like(u)}
        return [derivatives.get(k, np.zeros_like(u)) for k in orders]


@functools.lru_cache(maxsize=8)
def _coefficients(combos: Combinations, size: int) -> Array:
    """Return the polynomials in sigma of the parts with m >= 1, (combinations, size)."""
    return np.array([filters.polynomials([(f, m) for f, m in c if m >= 1], size) for c in combos])


class Logistic(SmoothLoss):
    """Log-likelihood loss w log(1 + e^eta) - y eta; w = 1 (logistic) or 1 + y (geometric)."""

    def __init__(self, *, geometric: bool = False) -> None:
        self.geometric = geometric
        self.name = "geometric" if geometric else "logistic"

    def _weight(self, y: Array) -> Array | float:
        return 1.0 + y if self.geometric else 1.0

    def derivatives(self, y: Array, eta: Array, orders: list[int]) -> list[Array]:
        """Return derivatives: polynomials in sigma(eta)."""
        w, s = self._weight(y), special.expit(eta)
        out = []
        for k in orders:
            if k == 0:
                out.append(w * np.logaddexp(0.0, eta) - y * eta)
            elif k == 1:
                out.append(w * s - y)
            else:
                out.append(w * filters._horner(np.asarray(filters.polynomial(k)), s))
        return out

    def filtered(self, y: Array, eta: Array, b: float) -> Filtered:
        """Return the filters of w sigma (1 - sigma)."""
        f = filters.logistic_filter(eta, b)
        if not self.geometric:
            return f
        w = 1.0 + y
        return Filtered(w * f.one, w * f.one_slope, w * f.two, w * f.two_slope, w * f.three)

    def _powers(self, eta: Array, combos: Combinations) -> tuple[Array, Array]:
        """Return (coefficients, powers of sigma): their product is the part with m >= 1."""
        top = max(m for combo in combos for _, m in combo)
        powers = np.empty((top + 1, len(eta)))
        powers[0] = 1.0
        s = special.expit(eta)
        for k in range(1, top + 1):
            np.multiply(powers[k - 1], s, out=powers[k])
        return _coefficients(combos, top + 1), powers

    def combine(self, y: Array, eta: Array, combos: Combinations) -> Array:
        """Combine polynomials in sigma first: one matrix product for all rows."""
        coefficients, powers = self._powers(eta, combos)
        out = np.asarray(coefficients @ powers)
        if self.geometric:
            out *= 1.0 + y
        for row, combo in zip(out, combos, strict=True):
            for factor, m in combo:
                if m == 0:
                    row += factor * (self._weight(y) * np.logaddexp(0.0, eta) - y * eta)
                elif m == 1:
                    row -= factor * y
        return out

    def product_sums(
        self, y: Array, eta: Array, q: Array, t: float, second: bool, x: Array, w: Array
    ) -> Sums:
        """Sum powers of sigma over the rows first: only C_eta_eta is needed row by row."""
        combos, pairs = self.combinations(q, t, second)
        C, powers = self._powers(eta, combos)
        weighted = w * self._weight(y)
        scalar, vector = C @ (powers @ weighted), C @ (powers @ (x * weighted[:, None]))
        # the part that is not a polynomial in sigma: l itself in C, and -y in C_eta
        value = scalar[0] + weighted @ np.logaddexp(0.0, eta) - (w * y) @ eta
        grad = vector[1] - (w * y) @ x
        B, none = len(q), np.zeros((0, 0))
        if not second:
            return Sums(float(value), grad, scalar[2 : 2 + B], none, none, none)
        return Sums(
            float(value), grad, scalar[3 : 3 + B],
            (x * (weighted * (C[2] @ powers))[:, None]).T @ x,
            vector[3 + B : 3 + 2 * B], symmetric(B, pairs, scalar[3 + 2 * B :]),
        )  # fmt: skip


class Poisson(SmoothLoss):
    """e^eta - y eta. Corrected loss e^eta (1 - q/2) / (1 - p q/2) - y eta; needs q < 1/2."""

    name = "poisson"

    def derivatives(self, y: Array, eta: Array, orders: list[int]) -> list[Array]:
        """Return derivatives."""
        mean = np.exp(np.minimum(eta, 300.0))
        derivatives = {0: mean - y * eta, 1: mean - y}
        return [derivatives.get(k, mean) for k in orders]

    def filtered(self, y: Array, eta: Array, b: float) -> Filtered:
        """Return the filtered exponential: E e^{bL} = 1 / (1 - b^2)."""
        if b >= 1.0:
            bad = np.full_like(eta, math.nan)
            return Filtered(bad, bad, bad, bad, bad)
        f = 1.0 / (1.0 - b * b)
        mean = np.exp(np.minimum(eta, 300.0))
        return Filtered(f * mean, f * mean, f * f * mean, f * f * mean, f**3 * mean)

    def admissible(self, q: float) -> bool:
        """Whether q < 0.45: finite variance of the score with a margin."""
        return q < 0.45


class IndexLoss(SmoothLoss):
    """A user's smooth loss of the index: functions of (y, eta).

    Parameters
    ----------
    value, d1, d2 : callable(y, eta) -> array
        The loss and its first two derivatives in eta.
    d3, d4 : callable, optional
        Further derivatives; differences of the last given one otherwise.
    of_residual : bool
        The loss is a function of y - eta (then noise of y is corrected for). If not, it must be
        linear in y for fixed eta, or y must be public.
    public_y : bool
        The response must be public.
    """

    name = "user's index loss"
    most_blocks = 1

    def __init__(
        self,
        value: Callable[[Array, Array], Array],
        d1: Callable[[Array, Array], Array],
        d2: Callable[[Array, Array], Array],
        d3: Callable[[Array, Array], Array] | None = None,
        d4: Callable[[Array, Array], Array] | None = None,
        *,
        of_residual: bool = False,
        public_y: bool = False,
    ) -> None:
        self.of_residual, self.public_y = of_residual, public_y
        third = d3 or _difference(d2)
        self._given: list[Any] = [value, d1, d2, third, d4 or _difference(third)]

    def derivatives(self, y: Array, eta: Array, orders: list[int]) -> list[Array]:
        """Return the given derivatives."""
        return [
            np.asarray(np.broadcast_to(self._given[k](y, eta), eta.shape), dtype=float).copy()
            for k in orders
        ]


def _difference(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    step = 1e-4
    return lambda y, eta: (f(y, eta + step) - f(y, eta - step)) / (2.0 * step)


# -- Corrected losses with kinks: check, hinge, Huber; notation of ``losses.py``


class KinkLoss(Loss):
    """s u + g(u), u = y - eta: slope s (a number or y/2) plus a convex part with g'' a measure.

    ``kernel`` is g'' seen through Laplace filters, ``convex`` u -> (g, g'); a slope of None is
    y / 2 (hinge, y = -1 or 1).
    """

    kinked = True
    of_residual = True

    def __init__(
        self, name: str, kernel: Kernel, convex: Callable[[Array], tuple[Array, Array]],
        slope: float | None,
    ) -> None:  # fmt: skip
        self.name, self.kernel, self.convex, self.slope = name, kernel, convex, slope
        self.public_y = slope is None

    def _base(self, y: Array, u: Array, h: float) -> tuple[Array, Array, Array | None]:
        """Return l_h, its derivative in eta, and l_h'' (None without smoothing)."""
        s = 0.5 * y if self.slope is None else self.slope
        g, g1 = self.convex(u)
        if h <= 0.0:
            return s * u + g, -(s + g1), None
        f = self.kernel(u, h)
        return s * u + g + h * h * f.one, -(s + g1 + h * h * f.one_slope), f.one

    def plain(self, y: Array, eta: Array, h: float, second: bool) -> Terms:
        """Return the (smoothed) loss."""
        l = self._base(y, y - eta, h)
        zero = np.zeros((0, len(eta)))
        return Terms(l[0], l[1], zero, l[2], zero)

    def corrected(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Return the integrated correction of the smoothed loss."""
        u = y - eta
        kappa, q0 = t * (1.0 - p), float(q[0])
        l = self._base(y, u, h)
        b = math.sqrt(0.5 * p * q0)
        if q0 <= 0.0 or (h <= 0.0 and b <= 0.0):
            return Terms(l[0], l[1], np.zeros((1, len(u))))
        f = filters.smoothed(self.kernel, u, b, h)
        k = kappa * 0.5 * q0
        return Terms(l[0] - k * f.one, l[1] + k * f.one_slope, (-0.5 * kappa * f.two)[None])

    def laplacian(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Return -kappa (q/2) l_h''."""
        if h <= 0.0:
            raise RequestError(f"the {self.name} loss has kinks: method='sdrcl' needs h > 0")
        k, q0 = t * (1.0 - p), float(q[0])
        f = self.kernel(y - eta, h)
        return Terms(-k * 0.5 * q0 * f.one, k * 0.5 * q0 * f.one_slope, (-0.5 * k * f.one)[None])


def check(tau: float) -> KinkLoss:
    """Return the check loss (tau - 1/2) u + |u|/2."""
    return KinkLoss(
        "check", filters.point, lambda u: (0.5 * np.abs(u), 0.5 * np.sign(u)), tau - 0.5
    )


def hinge() -> KinkLoss:
    """Return the hinge loss (1 - y eta)_+ for public y = -1 or 1."""
    return KinkLoss("hinge", filters.point, lambda u: (0.5 * np.abs(u), 0.5 * np.sign(u)), None)


def huber(k: float) -> KinkLoss:
    """Return Huber's loss with corners at -k and k."""

    def convex(u: Array) -> tuple[Array, Array]:
        c = np.clip(u, -k, k)
        return c * (u - 0.5 * c), c

    return KinkLoss("huber", filters.box(k), convex, 0.0)
