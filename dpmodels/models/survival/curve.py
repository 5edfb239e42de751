"""Kaplan-Meier on a table of cells: curve, errors, quantiles, restricted means (``theory.md``, 4).

Everything is a function of released cells: nothing here costs anything.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.survival.layout import Layout
from dpmodels.models.survival.noise import CellNoise

CONF_TYPES = ("log-log", "log", "plain")
#: A number at risk below so many of its noise sds ends the curve: a quotient by it says nothing.
_DETERMINED = 4.0


@dataclass(frozen=True)
class Curve:
    """The curve of one tabulated group.

    Attributes
    ----------
    layout : Layout
    noise : CellNoise
    cells : (M,) array
        Of the whole table: noisy, consistent, never clipped.
    group : int
    """

    layout: Layout
    noise: CellNoise
    cells: Array
    group: int

    # -- the life table --------------------------------------------------------------------
    @functools.cached_property
    def weights(self) -> tuple[Array, Array, Array]:
        """Return d, c and Y as weights of the cells: three (K, M) arrays."""
        lay, g = self.layout, self.group
        d, c, Y = (np.zeros((lay.K, lay.M)) for _ in range(3))
        one, before = np.eye(lay.K), np.tril(np.ones((lay.K, lay.K)), -1)
        event, within, at, *entry = (lay.run(g, kind) for kind in range(lay.kinds))
        d[:, event] = c[:, within] = c[:, at] = one
        if entry:  # entered before less gone before, those within by half
            Y[:, entry[0]], Y[:, entry[1]] = before + 0.5 * one, before + one
            Y[:, event], Y[:, within], Y[:, at] = -before, -before - 0.5 * one, -before - one
        else:  # all that leave later, of those within half
            Y[:, event], Y[:, within], Y[:, at] = 1 - before, 1 - before - 0.5 * one, before.T
            Y[:, lay.beyond(g)] = 1.0
        return d, c, Y

    @functools.cached_property
    def d(self) -> Array:
        """Events by interval, (K,)."""
        return self.cells[self.layout.run(self.group, 0)]

    @functools.cached_property
    def c(self) -> Array:
        """Censorings by interval, its first break included, (K,)."""
        return np.asarray(self.weights[1] @ self.cells)

    @functools.cached_property
    def Y(self) -> Array:
        """Numbers at risk, those censored (and entered) in an interval by half, (K,)."""
        return np.asarray(self.weights[2] @ self.cells)

    @functools.cached_property
    def entering(self) -> Array:
        """Numbers at risk at the beginning of the intervals, and at the end of the last, (K+1,)."""
        lay = self.layout
        start = self.Y + 0.5 * self.cells[lay.run(self.group, 1)]
        if lay.entries:
            start -= 0.5 * self.cells[lay.run(self.group, 3)]
        return np.append(start, self.cells[lay.beyond(self.group)])

    @property
    def followed(self) -> float:
        """How many are followed at all: from the first, or from an entry."""
        lay, g = self.layout, self.group
        if not lay.entries:  # those censored at the first break are at risk of nothing
            return float(self.entering[0] + self.cells[lay.run(g, 2).start])
        return float(self.cells[lay.run(g, 3).start : lay.run(g, 4).stop].sum())

    @functools.cached_property
    def known(self) -> int:
        """Intervals before the numbers at risk sink into the noise: the curve ends there."""
        sd = np.sqrt(np.diag(self.noise.covariance(self.weights[2])))
        bad = (_DETERMINED * sd >= self.Y) | (self.Y <= 1.0) | (self.d >= self.Y)
        return int(np.argmax(bad)) if bad.any() else self.layout.K

    # -- the curve -------------------------------------------------------------------------
    @functools.cached_property
    def log_S(self) -> Array:
        """Log of survival at the ends of the intervals, (K,); NaN where it is not known."""
        k = self.known
        out = np.full(self.layout.K, np.nan)
        out[:k] = np.cumsum(np.log1p(-self.d[:k] / self.Y[:k]))
        return out

    @functools.cached_property
    def S(self) -> Array:
        """Survival at the ends of the intervals, (K,)."""
        return np.exp(self.log_S)

    @functools.cached_property
    def greenwood(self) -> Array:
        """Sampling variance of log S, (K,): ``sum d / (Y (Y - d))``."""
        k = self.known
        out = np.full(self.layout.K, np.nan)
        terms = self.d[:k] / (self.Y[:k] * (self.Y[:k] - self.d[:k]))
        out[:k] = np.maximum.accumulate(np.maximum(np.cumsum(terms), 0.0)) if k else 0.0
        return out

    @functools.cached_property
    def J(self) -> Array:
        """Jacobian of log S by the cells of the table, (K, M); 0 where it is not known."""
        k = self.known
        d, _, Y = self.weights
        out = np.zeros_like(d)
        gone = self.Y[:k] - self.d[:k]
        by_Y = self.d[:k] / (self.Y[:k] * gone)
        out[:k] = np.cumsum(by_Y[:, None] * Y[:k] - d[:k] / gone[:, None], axis=0)
        return out

    @functools.cached_property
    def privacy(self) -> Array:
        """Noise variance of log S, (K,)."""
        out = np.diag(self.noise.covariance(self.J)).copy()
        out[self.known :] = np.nan
        return np.maximum(out, 0.0)

    @property
    def variance(self) -> Array:
        """Variance of log S: sampling and noise, (K,)."""
        return self.greenwood + self.privacy

    def band(self, level: float, conf_type: str) -> tuple[Array, Array]:
        """Return the ends of the intervals of S, (K,) each: :func:`band`."""
        return band(self.log_S, self.greenwood, self.privacy, level, conf_type)

    # -- what is linear in S ---------------------------------------------------------------
    def at(self, t: float, *, after: bool = False) -> Array:
        """Return the weights of S at the ends of the intervals for the last break until t.

        ``after``: for the first one from t on. Survival at t lies between the two.
        """
        edges = np.array(self.layout.edges)
        end = edges[-1]
        if not edges[0] <= t <= end:
            raise RequestError(
                f"time {t:g} is outside of the table, [{edges[0]:g}, {end:g}]: the call's times= "
                "or breaks= say how far it goes"
            )
        k = np.searchsorted(edges, t, side="left" if after else "right") - (not after)
        return np.asarray(np.arange(self.layout.K + 1) == k, dtype=float)  # S = 1 at the first end

    def up_to(self, tau: float) -> Array:
        """Return the weights of S whose sum is its integral to tau: straight between breaks."""
        edges = np.array(self.layout.edges)
        before, after = self.at(tau), self.at(tau, after=True)  # checks tau
        gap = (after - before) @ edges
        share = (tau - before @ edges) / gap if gap else 0.0
        last = (1.0 - share) * before + share * after
        w = np.zeros(self.layout.K + 1)
        for k in range(self.layout.K):
            width = min(edges[k + 1], tau) - edges[k]
            if width <= 0.0:
                break
            if edges[k + 1] <= tau:
                w[k] += 0.5 * width
                w[k + 1] += 0.5 * width
            else:
                w[k] += 0.5 * width
                w += 0.5 * width * last
        return w

    def value(self, w: Array) -> float:
        """Return ``w @ (1, S)``; NaN if it needs what is not known."""
        used = w[1:] != 0.0
        return float(w[0] + w[1:][used] @ self.S[used])

    def gradient(self, w: Array) -> Array:
        """Return the weights of log S that ``w @ (1, S)`` moves by, (K,)."""
        return np.where(w[1:] != 0.0, w[1:] * self.S, 0.0)


def curves(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Curve, ...]:
    """Return the curves of all tabulated groups."""
    return tuple(Curve(layout, noise, cells, g) for g in range(layout.G))


def covariance_of(parts: Sequence[tuple[Curve, Array]]) -> tuple[float, float]:
    """Return the sampling and noise variance of a sum of ``w @ (1, S)`` over curves.

    Parameters
    ----------
    parts : sequence of (Curve, (K + 1,) weights)
        Curves of different groups, which are sampled independently. NaN where a weight needs
        what is not known.
    """
    sampling = 0.0
    for curve, w in parts:
        a = curve.gradient(w)
        if not np.isfinite(a).all():
            return math.nan, math.nan
        var = np.where(a != 0.0, curve.greenwood, 0.0)
        least = np.minimum.outer(var, var) * np.outer(a, a)
        sampling += float(least.sum())
    row = sum(curve.gradient(w) @ curve.J for curve, w in parts)
    total = float(parts[0][0].noise.covariance(np.atleast_2d(row))[0, 0])
    return sampling, max(total, 0.0)


def band(
    log_S: Array, sampling: Array, privacy: Array, level: float, conf_type: str = "log-log"
) -> tuple[Array, Array]:
    """Return the ends of pointwise intervals of S.

    Parameters
    ----------
    log_S, sampling, privacy : (K,) arrays
        Log of survival, and the two parts of its variance.
    conf_type : {"log-log", "log", "plain"}
        Scale on which the interval is symmetric; without noise R's.

    Notes
    -----
    The noise is symmetric in H = -log S itself: for "log-log" its half width is joined with that
    of sampling in squares, end by end. Where hardly anybody has died log H has no error to speak
    of: there sampling is taken symmetric in H too. Where the curve is not known survival lies
    between 0 and the upper end before: it never rises.
    """
    from scipy.special import ndtri

    z = -float(ndtri((1.0 - level) / 2.0))
    with np.errstate(all="ignore"):
        se, half = np.sqrt(sampling + privacy), z * np.sqrt(sampling)
        if conf_type == "plain":
            S = np.exp(log_S)
            low, high = S - z * S * se, S + z * S * se
        elif conf_type == "log":
            low, high = np.exp(log_S - z * se), np.exp(log_S + z * se)
        else:
            H = -log_S
            factor = np.exp(half / H)
            up = np.where(half < H, H * factor - H, half)
            down = np.where(half < H, H - H / factor, half)
            noise = z * np.sqrt(privacy)
            low, high = np.exp(-H - np.hypot(up, noise)), np.exp(-H + np.hypot(down, noise))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    known = np.isfinite(low) & np.isfinite(high)
    k = int(np.argmin(known)) if not known.all() else len(known)
    low[k:], high[k:] = 0.0, high[k - 1] if k else 1.0
    return low, high


def level_at(edges: Array, S: Array, q: float) -> float:
    """Return the first time at which a falling curve is at most q; infinite if it never is.

    Parameters
    ----------
    edges : (K + 1,) array
    S : (K,) array
        At the ends of the intervals, 1 before; rises are levelled out, NaN ends it.
    """
    known = np.isfinite(S)
    S = S[: int(np.argmin(known)) if not known.all() else len(S)]
    whole = np.concatenate([[1.0], np.minimum.accumulate(np.minimum(S, 1.0))])
    below = np.flatnonzero(whole <= q)
    if not len(below):
        return math.inf
    k = int(below[0])
    if k == 0:
        return float(edges[0])
    drop = whole[k - 1] - whole[k]
    return float(edges[k - 1] + (edges[k] - edges[k - 1]) * (whole[k - 1] - q) / drop)


