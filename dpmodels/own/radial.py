"""Privacy curves of SL and ZIL noise: exact by dimension, and the limit of infinite dimension.

``c`` is the distance between neighbours in units in which the noise is isotropic with sd one.
Closed forms of Long, Chen and Qiu's limiting curve, simplified; proofs in
``models/noised/theory.md``.
"""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_right
from typing import Any

import numpy as np

from dpmodels.arrays import Array, brent


def delta_inf(eps: float, c: float) -> float:
    """Return delta_c(eps) of the limit d = inf: 1 - exp(-c^2 / (eps + sqrt(eps^2 + 2 c^2)))."""
    if c <= 0:
        return 0.0
    return -math.expm1(-c * c / (eps + math.sqrt(eps * eps + 2.0 * c * c)))


def delta_one(eps: float, c: float) -> float:
    """Return delta(eps) of Laplace noise of sd one and a shift c: 0 from eps = sqrt2 c on."""
    gap = eps - math.sqrt(2.0) * c
    return -math.expm1(0.5 * gap) if gap < 0 else 0.0


def with_clear(delta: float, clear_prob: float) -> float:
    """Return p + (1 - p) delta: the curve when a record is published unperturbed with prob. p."""
    return clear_prob + (1.0 - clear_prob) * delta


def eps_inf(c: float, delta: float, clear_prob: float = 0.0) -> float:
    """Return eps >= 0 at delta in the limit d = inf; infinity where there is none."""
    if c <= 0 and clear_prob <= delta:
        return 0.0
    if not clear_prob < delta < 1:
        return math.inf
    lg = math.log1p(-clear_prob) - math.log1p(-delta)
    return max(0.0, c * c / (2.0 * lg) - lg)


# -- Exact privacy curve of SL noise in finite dimension, by one-dimensional quadrature.
#
# Notation: g(r) = v log r + log K_|v|(sqrt2 r), v = (2 - d)/2, is the log density of SL_d(I) at
# radius r up to a constant; strictly decreasing. With u = log r and B(k) = P(cos of the angle > k),
#
#     Q(L > eps) = int q(u) B((R^2 - r^2 - c^2) / (2 r c)) du,   g(R) = g(r) - eps,
#     P(L > eps) = int q(u) B((r^2 + c^2 - R^2) / (2 r c)) du,   g(R) = g(r) + eps,
#     delta = Q - e^eps P.
#
# L is the privacy loss, P and Q are the laws of the release at two neighbours, q is the density of
# u, and the angle is that between the noise and the shift from one neighbour to the other. R is the
# distance of the released point from the other neighbour at which the loss is eps.
#
# The integrands have kinks where the argument of B passes +-1 and a needle near u = log c: break
# points are found by bisection and panels are graded towards them.


_LO, _HI = -60.0, 4.6


class Radial:
    """Log density of the radius of SL_d(I), and its inverse, in u = log r."""

    def __init__(self, d: int) -> None:
        from scipy.interpolate import CubicHermiteSpline
        from scipy.special import gammaln

        self.d, self.v = d, abs(0.5 * (2.0 - d))
        sign = 0.5 * (2.0 - d)
        self.const = (
            math.log(2.0) - 0.5 * d * math.log(2 * math.pi) - 0.5 * sign * math.log(2.0)
        ) + (math.log(2.0) + 0.5 * d * math.log(math.pi) - float(gammaln(0.5 * d)))
        # start of Newton's method, to 1e-11: g decreases in u
        grid = np.linspace(-90.0, 12.0, 20_401)
        self.table = self.g(grid)
        self.start = CubicHermiteSpline(-self.table, grid, -1.0 / self.slope(grid))

    def g(self, u: Array) -> Array:
        """Return v log r + log K_|v|(sqrt2 r) at r = e^u."""
        from scipy.special import gammaln, kve

        u = np.asarray(u, dtype=float)
        z = math.sqrt(2.0) * np.exp(u)
        with np.errstate(all="ignore"):
            log_k = np.log(kve(self.v, z)) - z
            if self.v == 0:
                small = np.log(-(np.log(z / 2.0)) - 0.57721566490153286)
            else:
                # two terms of the series, then one: K_v(z) ~ Gamma(v)/2 (2/z)^v
                small = gammaln(self.v) - math.log(2.0) + self.v * (math.log(2.0) - np.log(z))
        log_k = np.where(np.isfinite(log_k), log_k, small)
        return np.asarray((1.0 - 0.5 * self.d) * u + log_k)

    def slope(self, u: Array) -> Array:
        """Return dg/du = -sqrt2 r K_{v+1}(sqrt2 r) / K_v(sqrt2 r) (for v >= 0 in r^-v K_v)."""
        from scipy.special import kve

        z = math.sqrt(2.0) * np.exp(u)
        with np.errstate(all="ignore"):
            ratio = kve(self.v + 1.0, z) / kve(self.v, z)
            out = -z * ratio
            small = 1.0 / u if self.v == 0 else -2.0 * self.v
        return np.asarray(np.where(np.isfinite(out) & (out < 0), out, small))

    def inverse(self, value: Array) -> Array:
        """Return u with g(u) = value, or -inf if the value is above the table of g."""
        value = np.asarray(value, dtype=float)
        u = self.start(np.clip(-value, -self.table[0], -self.table[-1]))
        step = (self.g(u) - value) / self.slope(u)
        u = np.clip(u - np.where(np.isfinite(step), step, 0.0), -120.0, 14.0)
        return np.asarray(np.where(value > self.table[0], -math.inf, u))

    def log_q(self, u: Array) -> Array:
        """Return the log density of u = log r."""
        return np.asarray(self.const + self.g(u) + self.d * u)


_radial = functools.lru_cache(maxsize=64)(Radial)


@functools.lru_cache(maxsize=1)
def _nodes() -> tuple[Array, Array]:
    """Return the 24 nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    return np.polynomial.legendre.leggauss(24)


def _cosine_bound(radial: Radial, u: Array, c: float, eps: float, under_q: bool) -> Array:
    """Return the cosine above which the privacy loss exceeds eps, at noise of log radius ``u``.

    It is the argument of B in the formulas above: that of Q if ``under_q``, else that of P. Values
    outside [-1, 1] stand for a loss that exceeds eps at every angle, or at none.
    """
    log_R = radial.inverse(radial.g(u) + (-eps if under_q else eps))
    r = np.exp(u)
    with np.errstate(all="ignore"):
        difference = r * r * np.expm1(2.0 * (log_R - u))  # R^2 - r^2 without cancellation
        numerator = difference - c * c if under_q else c * c - difference
        cosine = numerator / (2.0 * r * c)
    return np.asarray(np.nan_to_num(cosine, nan=0.0, posinf=1e300, neginf=-1e300))


def _breaks(radial: Radial, c: float, eps: float, under_q: bool) -> list[float]:
    """Return the points u, in order, where :func:`_cosine_bound` crosses -1 or 1, and log c."""
    log_c = math.log(c)
    near = 10.0 ** np.linspace(-14.0, 0.0, 141)
    grid = np.unique(
        np.concatenate([np.linspace(_LO, _HI, 1601), log_c + near, log_c - near, [log_c]])
    )
    grid = grid[(grid >= _LO) & (grid <= _HI)]
    levels = np.array([-1.0, 1.0])
    sign = np.sign(_cosine_bound(radial, grid, c, eps, under_q) - levels[:, None])
    which, i = np.nonzero(sign[:, 1:] * sign[:, :-1] < 0)
    lo, hi = grid[i], grid[i + 1]
    parts, every = np.linspace(0.0, 1.0, 17)[:, None], np.arange(len(i))
    for _ in range(12):  # all crossings at once, in sixteenths
        at = lo + (hi - lo) * parts
        same = np.sign(_cosine_bound(radial, at, c, eps, under_q) - levels[which]) == sign[which, i]
        first = np.maximum(np.argmin(same, axis=0), 1)
        lo, hi = at[first - 1, every], at[first, every]
    points = [log_c, *(0.5 * (lo + hi)).tolist()]
    return sorted(x for x in points if _LO < x < _HI)


def _panels(breaks: list[float]) -> tuple[Array, Array]:
    """Return (lower, upper) ends of panels that get geometrically shorter towards the breaks."""
    ends = [_LO, *breaks, _HI]
    cuts: list[float] = []
    for a, b in itertools.pairwise(ends):
        half = 0.5 * (b - a)
        if half <= 0:
            continue
        steps: list[float] = []
        s = half
        while s > 1e-13 * max(1.0, abs(a), abs(b)) and len(steps) < 40:
            steps.append(s)
            s *= 0.35
        # wide smooth stretches are cut evenly too
        pts = [a, *[a + s for s in reversed(steps)], *[b - s for s in steps[1:]], b]
        cuts += pts
    cut = np.unique(np.array(cuts))
    wide = np.diff(cut)
    m = np.maximum(1, np.ceil(wide)).astype(int)
    step = np.arange(m.sum()) - np.repeat(np.cumsum(m) - m, m)
    lower = np.repeat(cut[:-1], m) + step * np.repeat(wide / m, m)
    return lower, np.append(lower[1:], cut[-1])


def _tail(d: int, c: float, eps: float, under_q: bool) -> float:
    """Return Q(L > eps) if ``under_q``, else P(L > eps), by quadrature over u = log radius."""
    from scipy.special import betainc

    radial = _radial(d)
    lo, hi = _panels(_breaks(radial, c, eps, under_q))
    x, w = _nodes()
    mid, half = 0.5 * (hi + lo), 0.5 * (hi - lo)
    u = (mid[:, None] + half[:, None] * x).ravel()
    cosine = np.clip(_cosine_bound(radial, u, c, eps, under_q), -1.0, 1.0)
    m = 0.5 * (d - 1)
    values = np.exp(radial.log_q(u)) * betainc(m, m, 0.5 * (1.0 - cosine))
    return math.fsum((values.reshape(-1, 24) @ w * half).tolist())


@functools.lru_cache(maxsize=4096)
def tails(d: int, c: float, eps: float) -> tuple[float, float]:
    """Return (Q(L > eps), P(L > eps)) of noise in ``d`` dimensions, d >= 2."""
    return _tail(d, c, eps, True), _tail(d, c, eps, False)


def delta_exact(eps: float, c: float, d: int) -> float:
    """Return delta_{d,c}(eps), eps >= 0; d = 0 stands for the limit d = inf.

    Between the closed forms of d = 1 and d = inf, which also bound what quadrature may say.
    """
    if c <= 0:
        return 0.0
    if d == 1:
        return delta_one(eps, c)
    if d == 0 or d > 40:
        return delta_inf(eps, c)
    q, p = tails(int(d), float(c), float(eps))
    value = q - (math.exp(min(eps, 700.0)) * p if p > 0 else 0.0)
    return min(max(value, delta_one(eps, c), 0.0), delta_inf(eps, c))


@functools.lru_cache(maxsize=64)
def _hull(c: float, d: int, knot: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    top = max(4.0 * knot, 4.0)
    eps = sorted({knot, *(top * (k / 24.0) ** 2 for k in range(25))})
    return tuple(eps), tuple(delta_exact(e, c, d) for e in eps)


def delta_hull(eps: float, c: float, d: int, knot: float) -> float:
    """Return an upper bound of delta_{d,c} that is cheap: chords in e^eps of 26 exact points.

    The curve is convex in e^eps, so chords lie above it; the knots include ``knot``. Beyond the
    last knot the curve is at most its value there and at most the limit curve.
    """
    if d in (0, 1):
        return delta_exact(eps, c, d)
    at, values = _hull(float(c), int(d), float(knot))
    limit = delta_inf(eps, c)
    if eps >= at[-1]:
        return min(limit, values[-1])
    i = bisect_right(at, eps) - 1
    if at[i] == eps:
        return values[i]
    a, b = eps - at[i], at[i + 1] - at[i]
    share = math.exp(a - b) * math.expm1(-a) / math.expm1(-b)  # expm1(a) / expm1(b), any size
    return min(limit, values[i] + share * (values[i + 1] - values[i]))


def sl_hull_curve(eps: float, *, c: float, d: float, p: float, knot: float) -> float:
    """Return the profile of a block inside a composition, where thousands of points are needed."""
    return with_clear(delta_hull(eps, c, int(d), knot), p)


@functools.lru_cache(maxsize=256)
def exact_eps(c: float, delta: float, d: int, p: float = 0.0) -> float:
    """Return the smallest eps >= 0 at which SL noise in d columns is (eps, delta)-DP.

    ``c``: distance of neighbours over the noise sd; ``p``: share of clear records. It solves
    ``p + (1 - p) delta_{d,c}(eps) <= delta``.
    """
    if d == 1:
        if p > delta:
            return math.inf
        lg = math.log1p(-p) - math.log1p(-delta)
        return max(0.0, math.sqrt(2.0) * c - 2.0 * lg)
    top = eps_inf(c, delta, p)
    if d == 0 or d > 40 or not math.isfinite(top) or top == 0.0 or top > 100.0:
        return top  # an upper bound for every d; beyond 100 its size does not matter
    gap: Any = lambda e: with_clear(delta_exact(e, c, d), p) - delta  # noqa: E731
    if gap(0.0) <= 0:
        return 0.0
    # never above the limit's eps; rounded up by the quadrature's error
    if gap(top) > 0:
        return top
    root = brent(gap, 0.0, top, xtol=1e-10, rtol=1e-12)
    return min(top, root * (1.0 + 1e-7) + 1e-12)
