"""The hazard that a Cox fit starts from: a number for each half of a cell of time, and its errors.

An offset, so it need not be right: the time terms of the model take what it is wrong by in level,
slope and bend. What they leave is in the errors of survival that is predicted (``theory.md``, 8).
Functions of released cells: nothing here costs anything.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.survival.curve import Curve, curves
from dpmodels.models.survival.hazard import Timeline
from dpmodels.models.survival.layout import Layout
from dpmodels.models.survival.noise import CellNoise

#: Cells of time that need no halves.
ENOUGH = 24
#: Hazards of cells, over their mean: at least, at most.
WITHIN = (0.2, 8.0)
#: Newton's steps of three coefficients, and the largest log of a factor.
_STEPS, _REACH = 20, 5.0


def offset_of(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Timeline, float]:
    """Return the offset of a released table, and the events in it."""
    rates, events = hazards_of(layout, noise, cells)
    line = in_halves(np.array(layout.edges), rates, events)
    parts = [
        _unsmoothed(own, noise, line, s) for s, own in enumerate(curves(layout, noise, cells))
    ]
    factors, spread = (np.array(part) for part in zip(*parts, strict=True))
    return replace(line, factors=factors, spread=spread), float(events.sum())


def hazards_of(layout: Layout, noise: CellNoise, cells: Array) -> tuple[Array, Array]:
    """Return (hazard a unit of time of every cell, events), each (strata, K).

    Three-cell moving sums of events over exposure, within ``WITHIN`` times the mean. An offset: the
    time terms of the model take what it is wrong by.
    """
    rates, events = [], []
    for curve in curves(layout, noise, cells):
        exposure = _exposure(curve)
        mean = max(float(curve.d.sum()), 1.0) / max(float(exposure.sum()), 1e-300)
        three = np.ones(3)
        d, time = (np.convolve(v, three)[1:-1] for v in (curve.d, exposure))
        found = np.where(time > 0.0, d / np.maximum(time, 1e-300), mean)
        rates.append(np.clip(found, WITHIN[0] * mean, WITHIN[1] * mean))
        events.append(curve.d)
    return np.array(rates), np.array(events)


def _exposure(curve: Curve) -> Array:
    """Return the time at risk in every cell, (K,)."""
    width = np.diff(curve.layout.edges)
    return np.asarray(np.maximum(curve.Y - 0.5 * curve.d, 0.0) * width)


def in_halves(edges: Array, rates: Array, events: Array) -> Timeline:
    """Return the timeline of both halves of every cell, hazards of their middles on straight lines.

    A hazard that is level within few long cells stands below that of those who are left: slopes
    are a tenth of a standard error off, on straight lines a third of that (``theory.md``, 7).

    Parameters
    ----------
    edges : (K + 1,) array
    rates, events : (S, K) arrays
    """
    K = len(edges) - 1
    if not 1 < K < ENOUGH:
        return Timeline(edges, rates, events)
    fine = np.interp(np.arange(2 * K + 1) / 2.0, np.arange(K + 1.0), edges)
    out = []
    for own in rates:
        mean = float(np.mean(own))
        out.append(np.clip(_lines(edges, fine, own), WITHIN[0] * mean, WITHIN[1] * mean))
    return Timeline(fine, np.array(out), np.repeat(events, 2, axis=1) / 2.0)


def _lines(edges: Array, fine: Array, own: Array) -> Array:
    """Return what straight lines through the middles of cells are at those of their halves."""
    middle, at = (edges[1:] + edges[:-1]) / 2.0, (fine[1:] + fine[:-1]) / 2.0
    line = np.interp(at, middle, own)
    for end, inner, half in ((0, 1, 0), (-1, -2, -1)):  # beyond the middles the line goes on
        slope = (own[inner] - own[end]) / (middle[inner] - middle[end])
        line[half] = own[end] + slope * (at[half] - middle[end])
    return line


# -- What a cumulative hazard is made of: the cells as they were released


def _unsmoothed(curve: Curve, noise: CellNoise, line: Timeline, s: int) -> tuple[Array, Array]:
    """Return (factors (F,) to the hazard of each cell by itself, covariance (F, F) of the logs).

    Moving sums keep noise out of the passes, and bend what is cumulated. The time terms of a fit
    make up for that, and for how the columns of those who are left change. The first is what they
    come to in the table itself (``k``): of the hazards of the cells only the second is wanted. Of
    the errors of the cells (events are Poisson given the exposure; the noise of the table is in
    both) ``I - P`` is left, P the projection on the time terms in the metric of the events.
    """
    edges = np.array(curve.layout.edges)
    K = len(edges) - 1
    each = line.K // K
    d, exposure = np.maximum(curve.d, 0.0), np.maximum(_exposure(curve), 1e-300)
    mass = line.rates[s] * np.diff(line.edges)
    smooth = mass.reshape(K, each).sum(axis=1)
    f = np.repeat(d / exposure * np.diff(edges) / smooth, each)
    expected = mass * np.repeat(exposure / np.diff(edges), each)
    Z = line.terms[s].T
    k = _poisson(expected * f, expected, Z)
    # what a unit of each cell of the table adds to the log of a cell's hazard
    of_d, _, of_Y = curve.weights
    d = np.maximum(d, 1.0)
    J = of_d / d[:, None]
    J -= np.diff(edges)[:, None] * (of_Y - 0.5 * of_d) / exposure[:, None]
    errors = np.diag(1.0 / d) + noise.covariance(J)
    D = np.repeat(d, each) / each
    rest = np.eye(line.K) - Z @ np.linalg.pinv(Z.T @ (D[:, None] * Z)) @ (Z.T * D)
    left = rest @ np.repeat(np.eye(K), each, axis=0)
    return f * np.exp(-Z @ k), left @ errors @ left.T


def _poisson(events: Array, expected: Array, Z: Array) -> Array:
    """Return k with ``sum z (events - expected e^{z'k}) = 0``: a few steps from 0."""
    k = np.zeros(Z.shape[1])
    for _ in range(_STEPS):
        fitted = expected * np.exp(np.clip(Z @ k, -_REACH, _REACH))
        k = k + np.linalg.pinv(Z.T @ (fitted[:, None] * Z)) @ (Z.T @ (events - fitted))
    return np.asarray(np.clip(k, -_REACH, _REACH))


def residual(line: Timeline, mass: Array) -> Array:
    """Return sds (S, K) of cumulative hazards at the ends of cells, of what the time terms leave.

    Parameters
    ----------
    mass : (S, K) array
        Hazard that each cell adds.
    """
    if line.spread is None:
        return np.zeros_like(mass)
    up_to = np.tril(np.ones((line.K, line.K))) * mass[:, None, :]
    return np.sqrt(np.maximum(np.einsum("sij,sjk,sik->si", up_to, line.spread, up_to), 0.0))
