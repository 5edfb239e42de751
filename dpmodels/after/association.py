"""Simple and partial correlations, two-stage least squares, components of a release."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmodels.after.explained import SecondMoments
from dpmodels.after.regression import orthonormal, regress, score
from dpmodels.arrays import Array


@dataclass(frozen=True)
class Correlation:
    """A correlation with its errors; ``low`` and ``high`` are ends of an interval on atanh.

    ``se_privacy`` and ``se`` are on the scale of the correlation.
    """

    value: float
    se_privacy: float
    se: float
    low: float
    high: float


def correlation(m: SecondMoments, j: Array, l: Array, given: Array, level: float) -> Correlation:
    """Return the correlation of the functionals j and l, given those of ``given`` (2.4).

    ``given``, (c + 1, k), holds the constant and the c controls.
    """
    from scipy.special import ndtri

    fits = [regress(m, given, x) for x in (j, l)]
    scale = [math.sqrt(max(f.rss, f.v * f.free)) for f in fits]
    u, w = fits[0].r / scale[0], fits[1].r / scale[1]
    rho = float(u @ m.Q @ w)
    inside = min(max(rho, -1.0 + 1e-9), 1.0 - 1e-9)
    S = (np.outer(u, w) + np.outer(w, u)) / 2.0
    S -= inside / 2.0 * (np.outer(u, u) + np.outer(w, w))
    noise = m.form_variance(S)
    free = max(m.n_eff - 3.0 - (len(given) - 1), 1.0)
    rest = 1.0 - inside**2
    half = -float(ndtri((1.0 - level) / 2.0)) * math.sqrt(noise / rest**2 + 1.0 / free)
    middle = math.atanh(inside)
    return Correlation(
        rho,
        math.sqrt(noise),
        math.sqrt(noise + rest**2 / free),
        math.tanh(middle - half),
        math.tanh(middle + half),
    )


@dataclass(frozen=True, eq=False)
class TwoStage:
    """Two-stage least squares from a release.

    Attributes
    ----------
    b : (p,) array
    sampling, privacy : (p, p) arrays
    v, free : float
    first : tuple of (float, int, float)
        For each endogenous regressor the F of the excluded instruments (Wald / q), q, p-value.
    """

    b: Array
    sampling: Array
    privacy: Array
    v: float
    free: float
    first: tuple[tuple[float, int, float], ...]


def two_stage(
    m: SecondMoments, Bx: Array, Bz: Array, a: Array, endogenous: list[int], excluded: list[int]
) -> TwoStage:
    """Return two-stage least squares of ``a'w`` on ``Bx w`` with instruments ``Bz w`` (2.5).

    ``endogenous`` are rows of Bx, ``excluded`` rows of Bz.
    """
    from dpmodels.after.wald import wald

    (X, back), (Z, _) = orthonormal(Bx), orthonormal(Bz)
    Mz = Z @ m.Q @ Z.T
    Pi = np.linalg.solve(Mz, Z @ m.Q @ X.T)
    inverse = np.linalg.inv(Pi.T @ Z @ m.Q @ X.T)
    c = inverse @ Pi.T @ Z @ m.Q @ a
    r = a - X.T @ c
    Cn = m.score_noise(Z, r)
    free = max(m.n_eff - len(Bx), 1.0)
    # no trace term: at the instrumental fit r'Qr is not a minimum, its noise has mean zero
    rss = max(float(r @ m.Q @ r), math.sqrt(m.form_variance(np.outer(r, r))))
    v = rss / free
    side = back @ inverse @ Pi.T
    first = []
    for j in endogenous:
        stage = regress(m, Bz, Bx[j])
        L = np.eye(len(Bz))[excluded]
        found = wald(L, stage.b, stage.V)
        first.append((found.statistic / found.df, found.df, found.pvalue))
    return TwoStage(back @ c, v * side @ Mz @ side.T, side @ Cn @ side.T, v, free, tuple(first))


def anderson_rubin(
    m: SecondMoments, exogenous: Array, excluded: Array, x: Array, a: Array, level: float,
    centre: float, scale: float,
) -> tuple[tuple[float, float], ...]:  # fmt: skip
    """Return the Anderson-Rubin set of one endogenous coefficient, as intervals.

    All b0 at which the score test of the instruments in ``y - x b0`` on the exogenous regressors
    does not reject. The line is searched at ``centre + scale tan(t)``; ends by bisection. Empty,
    unbounded and split sets are possible and said as they are.
    """
    from scipy.stats import chi2

    top = float(chi2.ppf(level, len(excluded)))

    def inside(t: float) -> bool:
        b0 = centre + scale * math.tan(t)
        return score(m, exogenous, excluded, a - b0 * x).statistic <= top

    edge = math.pi / 2.0 - 1e-6
    grid = np.linspace(-edge, edge, 801)
    kept = [inside(float(t)) for t in grid]
    out: list[tuple[float, float]] = []
    start: float | None = -math.inf if kept[0] else None
    for k in range(1, len(grid)):
        if kept[k] == kept[k - 1]:
            continue
        low, high = float(grid[k - 1]), float(grid[k])
        for _ in range(50):
            middle = (low + high) / 2.0
            low, high = (middle, high) if inside(middle) == kept[k - 1] else (low, middle)
        end = centre + scale * math.tan((low + high) / 2.0)
        if kept[k]:
            start = end
        else:
            assert start is not None
            out.append((start, end))
            start = None
    if start is not None:
        out.append((start, math.inf))
    return tuple(out)
