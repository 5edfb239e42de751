"""Draws of coefficients, synthetic rows of a release of moments, and how fits to these combine.

Everything is post-processing of released numbers: nothing here costs a budget.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import (
    NotReleasedError,
    RequestError,
    UtilityWarning,
    check_among,
    shown,
)
from dpmodels.lazy import pd, special
from dpmodels.notes import Note
from dpmodels.records import check_n, check_seed
from dpmodels.results.moments import moments_of
from dpmodels.results.record import Record
from dpmodels.tables.numbers import cell, places
from dpmodels.tables.table import Shown, Table, grid, interval_heads

#: Least eigenvalue of a covariance of columns of variance one.
LEAST_VARIANCE = 1e-6
#: Least variance of a column over its squared range.
LEAST_SPREAD = 1e-4
#: Most rows of one synthetic table unless ``rows=`` says another number.
MOST_ROWS = 1_000_000


# -- Draws from the approximate posterior of the coefficients


def _number_of(m: Any, name: str) -> int:
    try:
        return check_n(m)
    except RequestError:
        raise RequestError(
            f"{name} must be a positive whole number, got {shown(m)}. For example {name}=100"
        ) from None


def prior_of(prior: Any, names: Sequence[str]) -> tuple[Array, Array]:
    """Return means and precisions of a normal prior, 0 for coefficients without one."""
    mean, precision = np.zeros(len(names)), np.zeros(len(names))
    if prior is None:
        return mean, precision
    if not isinstance(prior, Mapping):
        prior = dict.fromkeys(names, (0.0, prior))
    for name, value in prior.items():
        check_among(name, names, f"prior= names {name!r}, which is not a coefficient")
        pair = value if isinstance(value, (tuple, list)) else (0.0, value)
        try:
            center, sd = (float(x) for x in pair)
        except (TypeError, ValueError):
            center, sd = math.nan, math.nan
        if not (math.isfinite(center) and sd > 0.0):
            raise RequestError(
                f"prior={{{name!r}: {shown(value)}}}: give (mean, sd), for example "
                f"prior={{{name!r}: (0, 0.5)}}"
            )
        j = names.index(name)
        mean[j], precision[j] = center, sd**-2.0
    return mean, precision


def draws(record: Record, m: Any, prior: Any, seed: Any) -> pd.DataFrame:
    """Return draws from the normal posterior of the coefficients, one row per draw."""
    m, seed = _number_of(m, "m"), check_seed(seed)
    estimate = record.estimate
    if not estimate.released:
        raise NotReleasedError("no reply: nothing was released to draw from")
    parts = [estimate.vcov_sampling, estimate.vcov_privacy]
    if any(V is None for V in parts):
        raise NotReleasedError(
            "draws need both parts of the covariance, and this method releases one: "
            "see fit.bse_sampling and fit.bse_privacy"
        )
    names, b = list(estimate.names), np.asarray(estimate.params)
    V = np.asarray(parts[0]) + np.asarray(parts[1])
    mean, precision = prior_of(prior, names)
    usable = np.isfinite(b) & np.isfinite(np.diag(V))
    out = np.full((m, len(b)), np.nan)
    at = np.ix_(usable, usable)
    center, covariance = b[usable], V[at]
    if precision.any():  # K = V D^{-1}: no inverse of V, which may be singular
        gain = np.linalg.solve(np.eye(len(center)) + covariance * precision[usable], covariance)
        center = center + gain @ (precision[usable] * (mean[usable] - center))
        covariance = (gain + gain.T) / 2.0
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
    z = np.random.default_rng(seed).standard_normal((m, len(values)))
    out[:, usable] = center + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return pd.DataFrame(out, columns=names)


# -- Synthetic rows of a release of moments


@dataclass(frozen=True, eq=False)
class SyntheticTables:
    """Tables of normal rows, each drawn from the posterior of the released moments.

    A sequence: ``len(tables)``, ``tables[0]``, ``for frame in tables``. A table is made when it is
    asked for, and is the same each time.
    """

    names: tuple[str, ...]
    moments: Array  # (k + 1, k + 1): released moments per row of the columns, then of 1
    noise: Array  # (q, q): noise variances of the released sums
    back: Array  # (k + 1, q): columns as functionals of the released rows
    least: Array  # (k,): least variances of the columns
    n: float  # Effective rows of the release
    rows: int
    m: int
    entropy: int
    notes: tuple[Note, ...] = ()  # That rows were weighted in the release

    def __len__(self) -> int:
        return self.m

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (self[i] for i in range(self.m))

    def __getitem__(self, i: int) -> pd.DataFrame:
        if not -self.m <= i < self.m:
            raise IndexError(f"there are {self.m} synthetic tables")
        rng = np.random.default_rng([self.entropy, i % self.m])
        center, root = self._moments(rng)
        rows = rng.standard_normal((self.rows, len(center))) @ root.T + center
        return pd.DataFrame(rows, columns=list(self.names))

    def _moments(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return mean and root of the covariance from their posterior: noise, then n rows."""
        k = len(self.names)
        error = np.triu(rng.standard_normal(self.noise.shape) * np.sqrt(self.noise))
        error = error + np.triu(error, 1).T
        mean, S = centered(self.moments - self.back @ error @ self.back.T / self.n)
        S = positive(S, np.maximum(np.diag(centered(self.moments)[1]), self.least))
        # inverse Wishart with the Bartlett factor A of a Wishart matrix
        free = max(self.n - 1.0, k + 1.0)
        A = np.tril(rng.standard_normal((k, k)), -1)
        A[np.diag_indices(k)] = np.sqrt(rng.chisquare(free - np.arange(k)))
        root = math.sqrt(free) * np.linalg.cholesky(S) @ np.linalg.inv(A).T
        return mean + root @ rng.standard_normal(k) / math.sqrt(self.n), root


def centered(C: Array) -> tuple[Array, Array]:
    """Return mean and covariance of moments whose last row is of the constant."""
    C = C / max(float(C[-1, -1]), 1e-12)
    mean = C[:-1, -1]
    return mean, C[:-1, :-1] - np.outer(mean, mean)


def positive(S: Array, scale: Array) -> Array:
    """Return a covariance whose eigenvalues, columns of variance one, are not below a floor."""
    size = np.sqrt(np.maximum(scale, 1e-300))
    values, vectors = np.linalg.eigh(S / np.outer(size, size))
    half = size[:, None] * vectors * np.sqrt(np.maximum(values, LEAST_VARIANCE))
    return np.asarray(half @ half.T)


def synthetic(record: Record, m: Any, rows: Any, seed: Any) -> SyntheticTables:
    """Return synthetic tables of a release of moments."""
    facts = moments_of(record)
    if facts.people:
        raise NotReleasedError(
            "synthetic rows need the sampling errors of independent rows, and these moments are "
            "of people"
        )
    if facts.moments.constant is None:
        raise NotReleasedError("synthetic rows need the moments of the constant")
    n = facts.moments.n_eff
    back = facts.back if facts.loose else np.vstack([facts.back, facts.moments.constant])
    names = facts.names
    kinds = [] if facts.loose else [c.kind for c in record.design.z]
    if "intercept" in kinds:  # the constant is kept once
        at = kinds.index("intercept")
        back, names = np.delete(back, at, axis=0), (*names[:at], *names[at + 1 :])
    count = min(round(n), MOST_ROWS) if rows is None else _number_of(rows, "rows")
    entropy = check_seed(seed)
    if entropy is None:
        entropy = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    ends = {c.name: c.interval or (0.0, 1.0) for c in record.design.z}
    least = LEAST_SPREAD * np.array([(ends[name][1] - ends[name][0]) ** 2 for name in names])
    C = back @ facts.moments.Q @ back.T / n
    notes = (messages.WEIGHTED_RELEASE(),) if facts.weighted else ()
    for note in notes:
        warnings.warn(UtilityWarning(f"synthetic: {note.text()}"), stacklevel=3)
    return SyntheticTables(
        names, (C + C.T) / 2.0, facts.moments.V, back, np.maximum(least, 1e-300), n, count,
        _number_of(m, "m"), entropy, notes,
    )  # fmt: skip


# -- Fits to several synthetic tables, combined


@dataclass(frozen=True, eq=False)
class Combined(Shown):
    """Estimates of several synthetic tables, combined (Raghunathan, Reiter and Rubin 2003)."""

    names: tuple[str, ...]
    estimates: Array  # (p,): means over tables
    covariance: Array  # (p, p): ``(1 + 1/m) b - u``
    df: Array  # (p,)
    m: int

    @property
    def params(self) -> pd.Series[float]:
        """Mean estimates."""
        return self._series(self.estimates, "params")

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors."""
        return self._series(np.sqrt(np.diag(self.covariance)), "bse")

    @property
    def pvalues(self) -> pd.Series[float]:
        """P-values of single zeros, by t with the degrees of freedom of the rule."""
        t = np.abs(self.estimates) / np.sqrt(np.diag(self.covariance))
        return self._series(2.0 * special.stdtr(self.df, -t), "pvalues")

    def _series(self, values: Any, title: str) -> pd.Series[float]:
        return pd.Series(np.asarray(values), index=list(self.names), name=title)

    def vcov(self) -> pd.DataFrame:
        """Return the covariance of the estimates."""
        return pd.DataFrame(self.covariance, index=list(self.names), columns=list(self.names))

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return intervals, one row per coefficient."""
        half = special.stdtrit(self.df, (1.0 + level) / 2.0) * np.sqrt(np.diag(self.covariance))
        ends = {"low": self.estimates - half, "high": self.estimates + half}
        return pd.DataFrame(ends, index=list(self.names))

    def table(self) -> Table:
        """Return the printed table: estimates, standard errors, 95 % intervals, P-values."""
        ends, errors, p = self.conf_int().to_numpy(), self.bse.to_numpy(), self.pvalues.to_numpy()
        rows = []
        for j, name in enumerate(self.names):
            few = places([float(errors[j])], 4)[0]
            numbers = (self.estimates[j], errors[j], *ends[j])
            rows.append((name, *(cell(float(v), few, 4) for v in numbers), f"{p[j]:.3g}"))
        return grid(
            ("", "Estimate", "Std. Error", *interval_heads(0.95), "P"), rows,
            title=f"Estimates from {self.m} synthetic tables",
            notes=("Variance: (1 + 1/m) b - u (Raghunathan, Reiter and Rubin 2003).",),
        )  # fmt: skip


def _estimate_of(fit: Any, place: int) -> tuple[tuple[str, ...], Array, Array]:
    """Return names, estimates and covariance of a fit (statsmodels), or of a pair of arrays."""
    if isinstance(fit, (tuple, list)) and len(fit) == 2:
        params, covariance = fit
    else:
        params = getattr(fit, "params", None)
        covariance = getattr(fit, "cov_params", None)
        covariance = covariance() if callable(covariance) else covariance
    if params is None or covariance is None:
        raise RequestError(
            f"combine needs fits with params and cov_params(), as those of statsmodels, or pairs "
            f"(estimates, covariance); item {place} is a {type(fit).__name__}"
        )
    q = np.atleast_1d(np.asarray(params, dtype=float))
    labels = getattr(params, "index", None)
    names = tuple(map(str, range(len(q)) if labels is None or callable(labels) else labels))
    return names, q, np.asarray(covariance, dtype=float).reshape(len(q), len(q))


def combine(fits: Iterable[Any]) -> Combined:
    """Combine the same fit to each of several synthetic tables.

    Parameters
    ----------
    fits : iterable
        Fits of statsmodels (or anything with ``params`` and ``cov_params()``), one per table; or
        pairs of estimates and covariance.

    Returns
    -------
    Combined
        ``params``, ``bse``, ``conf_int()``, ``pvalues``; prints itself. Variances are
        ``(1 + 1/m) b - u``: b the variance between tables, u the mean variance within. Where that
        is not positive, u stands for it.

    Privacy
    -------
    Post-processing of released numbers: costs nothing.

    Examples
    --------
    >>> import dpmodels as dp
    >>> pooled = dp.combine([([1.0], [[0.01]]), ([1.4], [[0.01]]), ([1.2], [[0.01]])])
    >>> round(float(pooled.params.iloc[0]), 3), round(float(pooled.bse.iloc[0]), 3)
    (1.2, 0.208)
    """
    found = [_estimate_of(fit, i) for i, fit in enumerate(fits)]
    m = len(found)
    if m < 2:
        raise RequestError(f"combine needs the fits to two tables or more, got {m}")
    names = found[0][0]
    for i, (others, _, _) in enumerate(found):
        if others != names:
            raise RequestError(
                f"combine needs the same fit to each table; item {i} has other coefficients"
            )
    Q = np.array([q for _, q, _ in found])
    within = np.mean([V for _, _, V in found], axis=0)
    between = np.atleast_2d(np.cov(Q, rowvar=False))
    total = (1.0 + 1.0 / m) * between - within
    single = np.diag(total) > 0.0
    values, vectors = np.linalg.eigh((total + total.T) / 2.0)
    if values[0] < 0.0:  # few tables: the diagonal stays where it is positive
        fixed = (vectors * np.maximum(values, 0.0)) @ vectors.T
        want = np.where(single, np.diag(total), np.diag(within))
        size = np.sqrt(want / np.maximum(np.diag(fixed), 1e-300))
        total = fixed * np.outer(size, size)
    ratio = np.diag(within) / ((1.0 + 1.0 / m) * np.maximum(np.diag(between), 1e-300))
    df = np.where(single, (m - 1.0) * (1.0 - ratio) ** 2, m - 1.0)
    return Combined(names, Q.mean(axis=0), total, np.maximum(df, 1.0), m)
