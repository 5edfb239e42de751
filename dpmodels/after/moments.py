"""Regressions from released second moments: estimates, tests, R-squared, choice of a model."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpmodels.arrays import Array
from dpmodels.families import Link
from dpmodels.lazy import special

# -- The explained share of a variance: one estimator, in [0, 1], with the set of shares in doubt.


@dataclass(frozen=True)
class Explained:
    """A share ``R = 1 - D / N`` and its 95 % interval, all of them in [0, 1]."""

    value: float
    se: float
    low: float
    high: float

    def named(self, key: str) -> dict[str, float]:
        """Return the four under the names of fit statistics."""
        ends = {f"{key}_low": self.low, f"{key}_high": self.high}
        return {key: self.value, f"{key}_se": self.se, **ends}


def share_explained(
    left: float, total: float, noise: tuple[float, float, float], sampling: float = 0.0,
    z: float = 1.959963984540054,
) -> Explained:  # fmt: skip
    """Return the share ``1 - left/total``, with Fieller's set cut to [0, 1].

    D is ``left``, N is ``total``. The set ``{R: (D - (1 - R) N)^2 <= z^2 Var}`` covers even if N is
    not well above its noise, so the decision to show a share does not depend on the noise. If the
    set is not an interval, or a noisy N is not positive, it is all of [0, 1]. ``noise``: variance
    of D, covariance, variance of N; ``sampling``: sampling variance of R, if any is given.
    """
    var_left, both, other = noise
    safe = max(total, math.sqrt(max(other, 0.0)), 1e-300)
    ratio = left / safe
    value = min(max(1.0 - ratio, 0.0), 1.0)
    spread = max(var_left - 2.0 * ratio * both + ratio * ratio * other, 0.0) / safe**2 + sampling
    # with x = 1 - R: (D - x N)^2 <= z^2 (one - 2 x both + x^2 other + sampling N^2)
    a = total * total - z * z * other
    if not (a > 0.0 and total > 0.0):
        return Explained(value, math.sqrt(spread), 0.0, 1.0)
    b = left * total - z * z * both
    c = left * left - z * z * (var_left + sampling * total * total)
    root = math.sqrt(max(b * b - a * c, 0.0))
    high, low = (min(max(1.0 - (b + sign * root) / a, 0.0), 1.0) for sign in (-1.0, 1.0))
    return Explained(value, math.sqrt(spread), min(low, value), max(high, value))


# -- A released matrix of second moments, and the exact noise of every bilinear form of it


def counted_rows(Q: Array, constant: Array) -> float:
    """Return the released count of rows, at least 1: ``constant`` is 1 in every complete row."""
    return max(float(constant @ Q @ constant), 1.0)


def isotropic_noise(k: int, s: float) -> Array:
    """Return the entry variances of ``SymN(k, s)``: s^2 on the diagonal, s^2/2 off it."""
    V = np.full((k, k), s * s / 2.0)
    V[np.diag_indices(k)] = s * s
    return V


def svec_scale(V: Array) -> float:
    """Return the largest noise scale in svec coordinates, of entry variances V."""
    upper = np.triu_indices(len(V), 1)
    off = float(V[upper].max()) if len(V) > 1 else 0.0
    return math.sqrt(max(float(np.diag(V).max()), 2.0 * off))


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """A released moment matrix."""

    Q: Array  # (k, k)
    V: Array  # (k, k): noise variance of each entry
    rows: float  # n, or the released count where n is private (its guess, if none is released)
    # (k,): the functional that is 1 in every complete row; None if the release has none.
    constant: Array | None = None
    known: float | None = None  # Effective rows, where they are given and not read off the release
    blocks: tuple[int, ...] = ()  # Ends of the blocks of Q, one per site; empty if it has one

    @property
    def k(self) -> int:
        """Dimension of the released rows."""
        return len(self.Q)

    @property
    def s(self) -> float:
        """Largest noise scale in svec coordinates."""
        return svec_scale(self.V)

    @property
    def n_eff(self) -> float:
        """Rows that count: the released moment of the constant, between 1 and n."""
        if self.known is not None:
            return self.known
        if self.constant is None:
            return self.rows
        return min(self.rows, counted_rows(self.Q, self.constant))

    def cross(self, B1: Array, r1: Array, B2: Array, r2: Array) -> Array:
        """Return ``Cov(B1 E r1, B2 E r2)``, (p1, p2), exactly.

        ``sum_ij V_ij u_i r1_j (x_i r2_j + x_j r2_i)``, less the diagonal that is counted twice;
        isotropic: ``(s^2/2) [(r1'r2) B1 B2' + B1 r2 r1'B2']``.
        """
        straight = (B1 * (self.V @ (r1 * r2))) @ B2.T
        crossed = (B1 * r2) @ self.V @ (B2 * r1).T
        twice = (B1 * (np.diag(self.V) * r1 * r2)) @ B2.T
        return np.asarray(straight + crossed - twice)

    def score_noise(self, B: Array, r: Array) -> Array:
        """Return Cn = Cov(B E r) (equation 1)."""
        return self.cross(B, r, B, r)

    def form_covariance(self, S: Array, R: Array) -> float:
        """Return the covariance of ``tr(S E)`` and ``tr(R E)``, S and R symmetric."""
        both = S * R
        return float(2.0 * np.sum(self.V * both) - np.sum(np.diag(self.V) * np.diag(both)))

    def form_variance(self, S: Array) -> float:
        """Return the variance of ``tr(S E)``; isotropic: ``s^2 |S|_F^2``."""
        return self.form_covariance(S, S)


# -- Any regression of one released functional on others, and its score test (equations 1 to 3).


#: ``lambda_min(M) / (s sqrt(2p))`` below which only score tests are reported, and from which Wald
#: intervals are as good as without noise.
UNUSABLE, TRUSTED = 1.0, 5.0


@dataclass(frozen=True, eq=False)
class Regression:
    """One regression from a release."""

    # B, a: (p, k), (k,) arrays; functionals of design and response.
    B: Array
    a: Array
    b: Array  # (p,)
    inverse: Array  # (p, p): ``M^{-1}``, ``M = B Q B'``
    r: Array  # (k,): residual functional ``a - B'b``
    rss: float  # Corrected: ``r'Qr + tr(M^{-1} Cn)``
    # v, free: residual variance ``rss / (n_eff - p)``, at least one noise sd of it; its divisor.
    v: float
    free: float
    # sampling, privacy: (p, p) arrays; the two parts of ``V = M^{-1} (v M + Cn) M^{-1}``.
    sampling: Array
    privacy: Array
    moments: SecondMoments  # Inputs

    @functools.cached_property
    def trust(self) -> float:
        """Smallest eigenvalue of M over the noise of an eigenvalue, ``s sqrt(2p)``."""
        return trust_of(self.moments, self.B)

    @property
    def V(self) -> Array:
        """Total covariance of b."""
        return self.sampling + self.privacy


def orthonormal(B: Array) -> tuple[Array, Array]:
    """Return a basis (r, k) of the rows of B, orthonormal, and ``back`` (p, r): ``b = back @ c``.

    Rows are scaled first, so neither units nor a mean far from zero decide what counts as rank.
    """
    size = np.linalg.norm(B, axis=1, keepdims=True)
    size = np.where(size > 0.0, size, 1.0)
    U, s, basis = np.linalg.svd(B / size, full_matrices=False)
    large = s > 1e-13 * s.max(initial=0.0)
    return basis[large], U[:, large] / s[large] / size


def inverse_and_rank(V: Array) -> tuple[Array, int]:
    """Return a generalised inverse of a covariance and its rank, whatever the units of its rows."""
    values, axes = scaled_axes(V)
    large = np.abs(values) > 1e-13 * np.abs(values).max(initial=0.0)
    half = axes[:, large]
    return (half / values[large]) @ half.T, int(large.sum())


def scaled_axes(V: Array) -> tuple[Array, Array]:
    """Return (eigenvalues, axes) of a covariance in its units: ``axes' V axes`` diagonal."""
    size = np.sqrt(np.abs(np.diag(V)))
    size = np.where(size > 0.0, size, 1.0)
    scaled = V / np.outer(size, size)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2.0)
    return values, vectors / size[:, None]


def trust_of(m: SecondMoments, B: Array) -> float:
    """Return the smallest eigenvalue of M over ``s sqrt(2p)``, in coordinates of isotropic noise.

    Invariant to the basis of the design: M is taken relative to B B'.
    """
    basis = orthonormal(B)[0]
    least = float(np.linalg.eigvalsh(basis @ m.Q @ basis.T)[0])
    ends = itertools.pairwise((0, *(m.blocks or (m.k,))))
    parts = (svec_scale(m.V[a:b, a:b]) * np.linalg.norm(basis[:, a:b], 2) ** 2 for a, b in ends)
    noise = math.sqrt(2.0 * len(B)) * (math.hypot(*parts) if m.blocks else m.s)
    return least / noise if noise > 0 else math.copysign(math.inf, least)


def regress(m: SecondMoments, B: Array, a: Array) -> Regression:
    """Return the regression of ``a'w`` on ``B w``: equations (1) and (2)."""
    basis, back = orthonormal(B)
    core = basis @ m.Q @ basis.T
    inner = np.linalg.pinv((core + core.T) / 2.0, hermitian=True, rcond=1e-14)
    c = inner @ (basis @ m.Q @ a)
    r = a - basis.T @ c
    Cn = m.score_noise(basis, r)
    rss = float(r @ m.Q @ r) + float(np.sum(inner * Cn))
    free = max(m.n_eff - len(B), 1.0)
    least = math.sqrt(m.form_variance(np.outer(r, r)))
    v = max(rss, least) / free
    half = back @ inner
    return Regression(
        B, a, back @ c, half @ back.T, r, rss, v, free, v * half @ core @ half.T,
        half @ Cn @ half.T, m,
    )  # fmt: skip


def change(m: SecondMoments, first: Regression, two: Regression) -> tuple[Array, Array]:
    """Return the (sampling, noise) covariance of the coefficients of two regressions (3)."""
    v12 = float(first.r @ m.Q @ two.r) / m.rows
    sampling = v12 * first.inverse @ (first.B @ m.Q @ two.B.T) @ two.inverse
    noise = first.inverse @ m.cross(first.B, first.r, two.B, two.r) @ two.inverse
    return sampling, noise


def chi2_upper_tail(x: float, k: int) -> float:
    """Return ``P(chi2_k > x)``."""
    return float(special.gammaincc(k / 2.0, max(x, 0.0) / 2.0))


@dataclass(frozen=True, eq=False)
class Score:
    """A score test: ``u`` with covariance ``variance`` under the restricted fit."""

    u: Array
    variance: Array
    statistic: float
    df: int
    pvalue: float


def score(m: SecondMoments, B1: Array, B2: Array, a: Array) -> Score:
    """Test the functionals B2 next to B1 in a regression of ``a'w`` (Rao), from the fit on B1.

    Only ``M11`` is inverted, so a test is right also where the larger regression is lost in noise.
    """
    zero = regress(m, B1, a)
    Bt = B2 - (B2 @ m.Q @ B1.T) @ zero.inverse @ B1
    u = Bt @ m.Q @ zero.r
    spread = Bt @ m.Q @ Bt.T
    values, vectors = np.linalg.eigh((spread + spread.T) / 2.0)
    spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
    variance = zero.v * spread + m.score_noise(Bt, zero.r)
    statistic = float(u @ inverse_and_rank(variance)[0] @ u)
    df = len(B2)
    return Score(u, variance, statistic, df, chi2_upper_tail(statistic, df))


@dataclass(frozen=True)
class RSquared:
    """R-squared of a regression with its errors."""

    # The estimate and its interval, in [0, 1]; noise and sampling (the latter for normal rows).
    share: Explained
    adjusted: float  # For the number of regressors; at most 1
    se_privacy: float  # Noise alone
    rss: float
    tss: float


def r_squared(m: SecondMoments, fit: Regression, constant: Array) -> RSquared:
    """Return R-squared against the intercept alone, with errors by the envelope theorem.

    ``constant`` must be the intercept of the design of ``fit``. If there is a factor, whose levels
    sum to the intercept, other functionals are 1 in every row too, but the noise of a large mean
    does not cancel in them.
    """
    basis = orthonormal(fit.B)[0]
    zero = regress(m, (constant @ basis.T @ basis)[None], fit.a)
    residual_form, total_form = np.outer(fit.r, fit.r), np.outer(zero.r, zero.r)
    noise = (
        m.form_variance(residual_form),
        m.form_covariance(residual_form, total_form),
        m.form_variance(total_form),
    )
    n, tss = m.n_eff, max(zero.rss, math.sqrt(noise[2]))
    value = share_explained(fit.rss, zero.rss, noise).value
    sampling = 4.0 * value * (1.0 - value) ** 2 / n
    share = share_explained(fit.rss, zero.rss, noise, sampling)
    private = math.sqrt(max(share.se**2 - sampling, 0.0))
    adjusted = 1.0 - (1.0 - value) * max(n - 1.0, 1.0) / fit.free
    return RSquared(share, adjusted, private, fit.rss, tss)


# -- What a release of second moments adds to any fit that is made from one.


def kept_moments(m: SecondMoments, back: Array) -> dict[str, Array]:
    """Return the arrays that later analyses read: the release, its noise, its map, its rows."""
    return {
        "released_moments": m.Q,
        "released_noise": m.V,
        "released_map": back,
        "released_rows": np.array([m.rows]),
        **({"released_blocks": np.array(m.blocks, dtype=float)} if m.blocks else {}),
    }


def fit_statistics(m: SecondMoments, B: Array, a: Array) -> dict[str, float]:
    """Return R-squared of the regression of ``a'w`` on ``B w``, its errors, that of sigma.

    ``sigma_se``: of the residual standard deviation; both sampling parts are those of normal rows.
    """
    assert m.constant is not None
    fit = regress(m, B, a)
    fitted = r_squared(m, fit, m.constant)
    share = fitted.share
    if fit.trust < UNUSABLE:  # noise dominates, and its errors hold to first order only
        share = replace(share, low=0.0, high=1.0)
    noise = m.form_variance(np.outer(fit.r, fit.r)) / fit.free**2
    spread = noise + 2.0 * fit.v**2 / fit.free
    return {
        "sigma_se": math.sqrt(spread / fit.v) / 2.0,
        **_criteria(m, fit.v * fit.free, len(B), math.sqrt(noise) / fit.v),
        **share.named("r_squared"),
        "adj_r_squared": fitted.adjusted,
        "r_squared_se_privacy": fitted.se_privacy,
    }


def _criteria(m: SecondMoments, rss: float, p: int, noise: float) -> dict[str, float]:
    """Return AIC and BIC of the normal model, as R counts (sigma is a parameter), and their error.

    ``noise`` is the relative error of RSS by the noise of the release: an AIC moves by n of it. Two
    models from one release share most of it, but differences below the error are not to be read.
    """
    if m.known is not None or not rss > 0.0:  # of people: rows are not independent
        return {}
    n = m.n_eff
    deviance = n * (math.log(2.0 * math.pi * rss / n) + 1.0)
    return {
        "aic": deviance + 2.0 * (p + 1),
        "bic": deviance + math.log(n) * (p + 1),
        "aic_se_privacy": n * noise,
    }


# -- Shrinkage, selection and components from a release: no intervals after any of them.


_SWEEPS, _SMALL = 10_000, 1e-12


@dataclass(frozen=True, eq=False)
class Slopes:
    """A regression without its intercept, columns of length one: ``b'Mb/2 - h'b``."""

    # M, h: (p, p), (p,) arrays; per effective row; eigenvalues of M floored at its noise, else the
    # problem is not convex.
    M: Array
    h: Array
    # (p,): standard deviations of the columns as released: coefficients are ``b / scale``.
    scale: Array
    noise: float  # Largest noise scale of M
    penalty: float  # Penalty of the lasso: ``1.1 z_{1 - .05/p} sqrt(max_j (v M_jj + Cn_jj))``
    # Means of the columns (p,) and mean of the response.
    means: Array
    mean: float

    def user(self, b: Array) -> Array:
        """Return (intercept, slopes) in the units of the functionals."""
        back = b / self.scale
        return np.append(self.mean - self.means @ back, back)

    def ridge(self, lam: float) -> Array:
        """Return ``(M + lam I)^{-1} h``."""
        return np.asarray(np.linalg.solve(self.M + lam * np.eye(len(self.h)), self.h))


def slopes(m: SecondMoments, B: Array, a: Array, constant: Array) -> Slopes:
    """Return the problem of the slopes of ``a'w`` on ``B w`` (without the constant)."""
    n = m.n_eff
    cell = float(constant @ m.Q @ constant)
    means, mean = (B @ m.Q @ constant) / cell, float(a @ m.Q @ constant) / cell
    C, y = B - np.outer(means, constant), a - mean * constant
    scale, noises = _spreads(m, C)
    C = C / scale[:, None]
    M = C @ m.Q @ C.T / n
    noise = float(np.max(noises / scale**2))
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    M = (vectors * np.maximum(values, noise)) @ vectors.T
    h = C @ m.Q @ y / n
    full = regress(m, np.vstack([constant, C]), y)
    Cn = np.diag(m.score_noise(C, full.r))
    z = -float(special.ndtri(0.05 / len(C)))
    penalty = 1.1 * z * math.sqrt(float(np.max(full.v * np.diag(M) * n + Cn))) / n
    return Slopes(M, h, scale, noise, penalty, means, mean)


def _spreads(m: SecondMoments, C: Array) -> tuple[Array, Array]:
    """Return the standard deviations of centred columns, and the noise of their squares."""
    n = m.n_eff
    variances = np.einsum("ij,jk,ik->i", C, m.Q, C) / n
    noises = np.array([math.sqrt(m.form_variance(np.outer(c, c))) for c in C]) / n
    return np.sqrt(np.maximum(variances, np.maximum(noises, 1e-300))), noises


def lasso(M: Array, h: Array, lam: float, start: Array | None = None) -> Array:
    """Return the minimiser of ``b'Mb/2 - h'b + lam |b|_1`` by coordinate descent, M positive."""
    b = np.zeros(len(h)) if start is None else start.copy()
    slope = M @ b
    for _ in range(_SWEEPS):
        moved = 0.0
        for j in range(len(h)):
            pull = h[j] - slope[j] + M[j, j] * b[j]
            new = math.copysign(max(abs(pull) - lam, 0.0), pull) / M[j, j]
            if new != b[j]:
                slope += M[:, j] * (new - b[j])
                moved = max(moved, abs(new - b[j]))
                b[j] = new
        if moved <= _SMALL * max(1.0, float(np.abs(b).max())):
            break
    return b


def best_subset(
    m: SecondMoments, constant: Array, terms: list[Array], a: Array
) -> list[tuple[tuple[int, ...], float, Regression]]:
    """Return all subsets of terms with ``n log(RSS/n) + p log n``, best first.

    RSS is that of (2), corrected for noise: ``r'Qr`` alone rewards fitting noise.
    """
    n, subsets = m.n_eff, []
    for size in range(len(terms) + 1):
        for chosen in itertools.combinations(range(len(terms)), size):
            fit = regress(m, np.vstack([constant[None], *(terms[j] for j in chosen)]), a)
            bic = n * math.log(fit.v * fit.free / n) + len(fit.b) * math.log(n)
            subsets.append((chosen, bic, fit))
    return sorted(subsets, key=lambda subset: subset[1])


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of a released covariance or correlation.

    ``noise``: eigenvalues below it are noise, and directions need gaps beyond it.
    """

    values: Array
    vectors: Array
    noise: float


def components(m: SecondMoments, B: Array, constant: Array, *, standardised: bool) -> Components:
    """Return eigenvalues (largest first) and directions of the columns ``B w``."""
    n = m.n_eff
    means = (B @ m.Q @ constant) / float(constant @ m.Q @ constant)
    C = B - np.outer(means, constant)
    if standardised:
        C = C / _spreads(m, C)[0][:, None]
    values, vectors = np.linalg.eigh(C @ m.Q @ C.T / n)
    largest = float(_spreads(m, C)[1].max())
    return Components(values[::-1], vectors[:, ::-1], largest * math.sqrt(2.0 * len(B)))


# -- Why a coefficient changes when others come in: Gelbach's decomposition, from second moments.


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A coefficient of the base model, of the full one, and the parts of their difference."""

    # (2 + q,): base, full, and ``delta_k = gamma_k beta_k`` of each column that came in; these add
    # up to base less full exactly, whatever the noise.
    values: Array
    # sampling, privacy: (2 + q, 2 + q) arrays; the two parts of their covariance, by the delta
    # method.
    sampling: Array
    privacy: Array
    trust: float  # Trust in the full model (``regression.UNUSABLE``)


def decompose(m: SecondMoments, base: Array, j: int, added: Array, a: Array) -> Decomposition:
    """Return the decomposition of coefficient j of ``a'w`` on ``base w`` when ``added w`` come in.

    beta_k is the coefficient of a column that came in, in the full model; gamma_k the coefficient
    of column j where that column is regressed on the base model. All are regressions from one
    release: they share its noise, and equation (3) gives how (Gelbach 2016, equation 4).
    """
    p, q = len(base), len(added)
    full = regress(m, np.vstack([base, added]), a)
    alone = [regress(m, base, column) for column in added]
    picks: list[tuple[Regression, int]] = [(full, j)]
    picks += [(full, p + k) for k in range(q)] + [(fit, j) for fit in alone]
    covariance = np.zeros((2, len(picks), len(picks)))
    for s, (first, at) in enumerate(picks):
        for t, (two, to) in enumerate(picks[: s + 1]):
            for kind, both in enumerate(change(m, first, two)):
                covariance[kind, s, t] = covariance[kind, t, s] = both[at, to]
    beta, gamma = full.b[p:], np.array([fit.b[j] for fit in alone])
    gradient = np.zeros((2 + q, len(picks)))
    gradient[:2, 0] = 1.0
    gradient[2:, 1 : 1 + q], gradient[2:, 1 + q :] = np.diag(gamma), np.diag(beta)
    gradient[0] += gradient[2:].sum(axis=0)
    delta = gamma * beta
    values = np.concatenate([[full.b[j] + delta.sum(), full.b[j]], delta])
    sampling, privacy = (gradient @ part @ gradient.T for part in covariance)
    return Decomposition(values, sampling, privacy, full.trust)


@dataclass(frozen=True)
class NoisyMean:
    """A mean from a noisy sum over a noisy count."""

    value: float
    se_privacy: float
    se_sampling: float
    count: float

    @property
    def se(self) -> float:
        """Total standard error."""
        return math.hypot(self.se_privacy, self.se_sampling)


def noisy_mean(count: float, total: float, square: float, tau: float) -> NoisyMean:
    """Return ``total / count`` with errors: noise of both, and the spread of the cells.

    ``square`` is the sum of squares of the cells. NaN where the count is within 3 of its noise
    sds.
    """
    if count <= 3.0 * tau:
        return NoisyMean(math.nan, math.nan, math.nan, count)
    value = total / count
    noise = tau * math.sqrt(1.0 + value**2) / count
    variance = max(square / count - value**2, 0.0)
    return NoisyMean(value, noise, math.sqrt(variance / count), count)


# -- Coefficients for predictions: a posterior mean about the public guess. Sees no row.
#
# A released estimate may be noise; a prediction from it need not be worse than the middle of the
# declared range. Post-processing of released and public numbers (``theory.md``, "Coefficients for
# predictions")


#: Variance that the prior gives the predictors together, on the scale of the link: that of the
#: latent response, as if they explained half of it. For logs of counts and amounts it is a factor
#: of e.
LATENT = {"logit": math.pi**2 / 3.0, "probit": 1.0, "cloglog": math.pi**2 / 6.0, "log": 1.0}
#: Links of which there is a public guess.
HANDLED = frozenset({"identity", *LATENT})
#: Credible means of an event are between these ends, and means of an amount above this part of the
#: range.
EVENTS, AMOUNTS = (0.01, 0.99), 1e-3
#: Factor of the prior variance of a level without a guess, as in a model with an offset.
UNKNOWN = 1e6
#: Variance of a column over that of its declared range: at least, at most.
LEAST_SPREAD, MOST_SPREAD = 0.002, 3.0


def prior(
    link: Link, response: tuple[float, float], stats: Mapping[str, float]
) -> tuple[float, float, float]:
    """Return (middle and variance of the level, variance of the predictors), in link units.

    By the range of the response and, of a linear model, half of its variance by ``sigma`` and
    ``r_squared``, or as large as the residual's, as far as they are released.
    """
    low, high = response
    if link.name == "identity":
        box = (high - low) ** 2 / 12.0
        unexplained = max(1.0 - stats.get("r_squared", 0.5), 1e-6)
        tau2 = 0.5 * stats.get("sigma", math.inf) ** 2 / unexplained
        return (low + high) / 2.0, box, min(tau2, box)
    ends = (max(low, AMOUNTS * high), high) if link.name == "log" else EVENTS
    low, high = (link.forward(v) for v in ends)
    box = (high - low) ** 2 / 12.0
    return (low + high) / 2.0, box, min(LATENT[link.name], box)


def about_mean_row(
    S: Array | None, ends: Array, constant: int, guess: tuple[float, float, float]
) -> tuple[Array, Array]:
    """Return (b_0, D) of a design with a constant.

    At the mean row the level has the variance of the declared range, and the k slopes share the
    variance of the predictors: ``tau^2/(k var_j)``. S is the released information of the columns,
    in any unit (None: moments over their ranges), ``ends`` their ranges (p, 2), ``constant`` the
    index of the constant, ``guess`` the result of :func:`prior`.
    """
    middle, level, tau2 = guess
    p, slopes = len(ends), np.delete(np.arange(len(ends)), constant)
    low, high = ends[slopes].T
    box = (high - low) ** 2 / 12.0
    mean, var = (low + high) / 2.0, box
    if S is not None:
        mean = np.clip(S[constant, slopes] / S[constant, constant], low, high)
        var = np.diag(S)[slopes] / S[constant, constant] - mean**2
    var = np.clip(var, LEAST_SPREAD * box, MOST_SPREAD * box)
    D, back, b0 = np.full(p, level), np.eye(p), np.zeros(p)
    D[slopes] = tau2 / (len(slopes) * np.maximum(var, 1e-300))
    back[constant, slopes], b0[constant] = -mean, middle
    return b0, back @ np.diag(D) @ back.T


def about_nothing(
    square: Array | None, ends: Array, constant: Array | None, guess: tuple[float, float, float]
) -> tuple[Array, Array]:
    """Return (b_0, D) of a design without an intercept.

    If columns sum to a constant, ``x'a = 1``, the prior mean is its level along ``a``, otherwise 0.
    ``square``: released mean squares of the columns; None: those over their ranges.
    """
    middle, level, tau2 = guess
    low, high = ends.T
    most = np.maximum(low**2, high**2)
    box = (low**2 + low * high + high**2) / 3.0
    m = np.clip(box if square is None else square, LEAST_SPREAD * most, most)
    p = len(ends)
    if constant is None:
        return np.zeros(p), np.diag((tau2 + middle**2) / (p * np.maximum(m, 1e-300)))
    D = np.diag(tau2 / (p * np.maximum(m, 1e-300))) + level * np.outer(constant, constant)
    return middle * constant, D


def shrunken(b: Array, V: Array, b0: Array, D: Array) -> Array:
    """Return coefficients shrunk towards their prior mean b0, for predictions.

    The result is the posterior mean ``b - V (V + D)^{-1} (b - b0)``. V (p, p) is the printed
    covariance of b, and D (p, p) that of the prior. If V is small relative to D it is close to b.
    """
    size = np.sqrt(np.diag(D))  # columns may be of any unit: everything over the sd of its prior
    v, d = V / np.outer(size, size), D / np.outer(size, size)
    return np.asarray(b - size * (v @ np.linalg.solve(v + d, (b - b0) / size)))


# -- A released vector that may be zero

#: Values between the least and the largest part of an estimate that is noise.
_GRID = (np.arange(400) + 0.5) / 400


def posterior(x: Array, sd: float, most: float, apart: Array | None = None) -> tuple[Array, Array]:
    """Return mean (r,) and covariance (r, r) of a vector D from its release x.

    x has noise of this sd. ``D | v ~ N((1 - v) x, (1 - v) sd^2 I)`` with v uniform a priori
    (Strawderman 1971) between 1 and its value for a D of sd ``most``, in each of the directions
    ``apart`` (r, j) and in the space that is left.
    """
    least = sd * sd / (sd * sd + most * most)
    r = len(x)
    spaces = [] if apart is None else [np.outer(b, b) for b in apart.T]
    spaces.append(np.eye(r) - sum(spaces, np.zeros((r, r))))
    mean, cov = np.zeros(r), np.zeros((r, r))
    for P in spaces:
        k, along = round(float(np.trace(P))), P @ x
        if k:
            v, spread = _part_of_noise(float(along @ along) / sd**2, k, least)
            mean += (1.0 - v) * along
            cov += (1.0 - v) * sd**2 * P + spread * np.outer(along, along)
    return mean, cov


def _part_of_noise(square: float, k: int, least: float) -> tuple[float, float]:
    """Return mean and variance of v, given the squared length over sd^2 in k dimensions."""
    parts = least + (1.0 - least) * _GRID
    log = k / 2.0 * np.log(parts) - parts * square / 2.0
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    v = float(weight @ parts)
    return v, float(weight @ (parts - v) ** 2)
