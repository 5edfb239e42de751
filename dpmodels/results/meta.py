"""Meta-analysis of fits of the same model at several sites, from their released numbers.

Per coefficient, with estimates ``y_i`` of variance ``v_i`` (sampling and noise) at k sites:

* fixed effects: weights ``1 / v_i``, variance ``1 / sum(1 / v_i)``;
* random effects: weights ``1 / (v_i + tau2)``, tau2 by restricted maximum likelihood, the error of
  Hartung and Knapp with k - 1 degrees of freedom.

Heterogeneity is Cochran's Q and I2. A bias of up to ``b_i`` at each site moves the mean by at most
``sum w_i b_i``, which is the bound of the result.

Nothing here reads data. A person whose rows are at one site alone is protected by the guarantee of
that site, whatever the other sites release: guarantees compose in parallel, to the largest one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, check_among, choice, printable, shown
from dpmodels.lazy import pd, special
from dpmodels.privacy.composition import Guarantee
from dpmodels.records import Estimate
from dpmodels.results import inference
from dpmodels.results.side_by_side import fits_of
from dpmodels.tables.numbers import by_row, places
from dpmodels.tables.table import Result, Table, forest, named_rows
from dpmodels.units import column_of

#: Steps of the search for tau2, and its relative precision.
_REML_STEPS, _REML_DIGITS = 500, 1e-12


def reml(y: Array, v: Array) -> float:
    """Return the variance between sites that maximises the restricted likelihood.

    Parameters
    ----------
    y, v : array, (k,)
        Estimates and their variances.
    """

    def score(tau2: float) -> float:
        w = 1.0 / (v + tau2)
        mean = float(w @ y) / float(w.sum())
        return float(w**2 @ (y - mean) ** 2 - w.sum() + (w**2).sum() / w.sum())

    if len(y) < 2 or score(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, float(np.var(y, ddof=1)) + float(v.max())
    while score(high) > 0.0:
        high *= 2.0
    for _ in range(_REML_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if score(middle) > 0.0 else (low, middle)
        if high - low <= _REML_DIGITS * high:
            break
    return (low + high) / 2.0


@dataclass(frozen=True)
class _Mean:
    """One coefficient over the sites."""

    estimate: float
    se: float
    bias: float
    weights: Array  # (k,), 0 where a site has no usable estimate
    tau2: float
    Q: float
    df: int
    half: float  # Half width of the interval
    half_new: float  # Half width of the interval of a new site, NaN for fixed effects
    p: float


def _mean_of(y: Array, v: Array, b: Array, *, random: bool, level: float) -> _Mean:
    """Return the mean of one coefficient; NaN if fewer than two sites have an estimate."""
    usable = np.isfinite(y) & np.isfinite(v) & (v > 0.0)
    k, weights = int(usable.sum()), np.zeros(len(y))
    if k < 2:
        nan = math.nan
        return _Mean(nan, nan, nan, weights, nan, nan, 0, nan, nan, nan)
    y, v, b = y[usable], v[usable], b[usable]
    fixed = 1.0 / v
    Q = float(fixed @ (y - fixed @ y / fixed.sum()) ** 2)
    tau2 = reml(y, v) if random else 0.0
    w = 1.0 / (v + tau2)
    share = w / w.sum()
    mean, bias = float(share @ y), float(share @ b)
    weights[usable] = share
    se = math.sqrt(1.0 / float(w.sum()))
    if not random:
        half = float(inference.half_width(np.array([se]), np.array([bias]), level)[0])
        p = float(inference.p_values(_as_estimate(mean, se, bias))[0])
        return _Mean(mean, se, bias, weights, tau2, Q, k - 1, half, math.nan, p)
    se = math.sqrt(float(w @ (y - mean) ** 2) / (k - 1) / float(w.sum()))
    t = inference.quantile(level, k - 1)
    new = inference.quantile(level, k - 2) * math.sqrt(tau2 + se**2) + bias if k > 2 else math.nan
    size = max(abs(mean) - bias, 0.0) / se if se > 0.0 else math.inf
    p = min(2.0 * float(special.stdtr(k - 1, -size)), 1.0)
    return _Mean(mean, se, bias, weights, tau2, Q, k - 1, t * se + bias, new, p)


def _as_estimate(mean: float, se: float, bias: float) -> Any:
    """Return one number as an estimate with its bound of the bias."""
    V = np.array([[se**2]])
    return Estimate(("mean",), np.array([mean]), V, np.zeros((1, 1)), bias=np.array([bias]))


@dataclass(frozen=True, eq=False, repr=False)
class MetaAnalysis(Result):
    """Coefficients over several sites, with heterogeneity and the guarantee of the whole."""

    names: tuple[str, ...]
    titles: tuple[str, ...]  # Names of the sites
    effects: str  # {"fixed", "random"}
    # sites, errors: (k, p) estimates and standard errors by site; weights: (k, p) shares
    sites: Array
    errors: Array
    weights: Array
    estimate: Array  # (p,)
    std_error: Array  # (p,)
    bias_bound: Array  # (p,)
    low: Array  # (p,)
    high: Array  # (p,)
    pvalue: Array  # (p,)
    tau2: Array  # (p,) variance between sites, 0 for fixed effects
    Q: Array  # (p,) Cochran's Q
    df: Array  # (p,) its degrees of freedom
    # new_low, new_high: (p,) interval of the coefficient at a new site (random effects)
    new_low: Array
    new_high: Array
    covariance: Array  # (p, p) covariance of the means, NaN for random effects off the diagonal
    level: float
    eps: float
    delta: float
    statement: str  # The guarantee of the whole, in a sentence

    def vcov(self) -> pd.DataFrame:
        """Return the covariance of the means; with random effects its diagonal alone."""
        names = list(self.names)
        return pd.DataFrame(self.covariance, index=names, columns=names)

    @property
    def i2(self) -> Array:
        """Share of the spread between sites that is not noise or sampling, (p,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip(np.where(self.Q > 0.0, 1.0 - self.df / self.Q, 0.0), 0.0, 1.0)

    def tidy(self) -> pd.DataFrame:
        """Return one row per coefficient, with heterogeneity."""
        return pd.DataFrame(
            {
                "term": list(self.names), "estimate": self.estimate, "std_error": self.std_error,
                "p_value": self.pvalue, "conf_low": self.low, "conf_high": self.high,
                "bias_bound": self.bias_bound, "tau2": self.tau2, "i2": self.i2, "q": self.Q,
                "q_df": self.df, "q_p_value": special.chdtrc(self.df, self.Q),
                "new_low": self.new_low, "new_high": self.new_high,
            }
        )  # fmt: skip

    def table(self) -> Table:
        """Return the printed table."""
        few = places(self.std_error, 4)
        low_name, high_name = inference.bound_names(self.level)
        numbers = [("Estimate", self.estimate), ("Std. Error", self.std_error)]
        numbers += [("Bias <=", self.bias_bound)] if (self.bias_bound > 0.0).any() else []
        numbers += [(low_name, self.low), (high_name, self.high)]
        spec: Any = [(head, by_row(values, few, 4)) for head, values in numbers]
        spec.append(("P", [inference.p_value(p) for p in self.pvalue]))
        spec.append(("I2", [inference.percent(share) for share in self.i2]))
        if self.effects == "random":
            spec.append(("tau", by_row(np.sqrt(self.tau2), few, 4)))
        how = {
            "fixed": "Fixed effects: one coefficient at all sites, weights by variance.",
            "random": "Random effects: tau by restricted maximum likelihood, errors of Hartung and "
            "Knapp.",
        }[self.effects]
        notes = (
            f"{len(self.titles)} sites: {', '.join(self.titles)}. {how}",
            "Variances contain the noise for privacy. I2 is the share of the spread between sites "
            "beyond that and sampling.",
            self.statement,
        )
        return named_rows(self.names, spec, width=9, title="Meta-analysis", notes=notes)

    def plot(self, ax: Any = None, *, term: str | None = None, **style: Any) -> Any:
        """Draw one coefficient at every site, and its mean (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, optional
        term : str, optional
            Default: the first that is not the intercept.
        **style
            Of the plot, ``color="C1"``.
        """
        slopes = [name for name in self.names if name != "Intercept"] or list(self.names)
        term = slopes[0] if term is None else term
        check_among(term, self.names, f"no coefficient {shown(term)}", "Coefficients:")
        j = self.names.index(term)
        half = inference.quantile(self.level) * self.errors[:, j]
        frame = pd.DataFrame(
            {
                "term": [*self.titles, f"mean ({self.effects})"],
                "estimate": [*self.sites[:, j], self.estimate[j]],
                "conf_low": [*(self.sites[:, j] - half), self.low[j]],
                "conf_high": [*(self.sites[:, j] + half), self.high[j]],
            }
        )
        axes = forest(frame, ax, **{"xlabel": term, **style})
        axes.axhline(len(self.titles) - 0.5, color="0.6", linewidth=0.8)
        return axes


def meta(
    fits: Sequence[Any], *, effects: str = "fixed", names: Sequence[str] | None = None,
    overlap: bool = False, level: float | None = None,
) -> MetaAnalysis:  # fmt: skip
    """Combine fits of the same model at several sites, which hold disjoint tables.

    Parameters
    ----------
    fits : list of Fit
        Same function, response and coefficients.
    effects : {"fixed", "random"}
        One coefficient at all sites, or a distribution of them.
    names : list of str, optional
        Names of the sites.
    overlap : bool
        A person may be at several sites, or may move from one table to another. The guarantee of
        the whole is then the sum of those of the sites. Otherwise it is the largest.
    level : float, optional
        Default: that of the first fit.

    Returns
    -------
    MetaAnalysis
        ``tidy()``, ``plot(term=)``, ``vcov()``, ``statement``.

    Raises
    ------
    RequestError
        Models, coefficients, units or neighbours differ.
    NotReleasedError
        A fit has no total standard errors.

    Privacy
    -------
    Post-processing of released numbers: costs nothing. Each site charged its own fit.

    Notes
    -----
    A coefficient that is not determined at a site (n/d) does not enter there. Bounds of the bias
    add up with the weights of the sites: the worst case.
    """
    choice("effects", effects, ("fixed", "random"))
    fits = fits_of("meta", [fits])
    if len(fits) < 2:
        raise RequestError("meta needs at least two fits: meta([fit1, fit2])")
    for fit in fits:
        inference.checked_errors(fit._record)
    titles = sites_named(names, len(fits))
    coefficients = _same_models(fits, titles)
    eps, delta, why = joint_guarantee([fit.privacy for fit in fits], titles, overlap=overlap)
    statement = f"{inference.pair(eps, delta)}-DP; neighbours: {fits[0].privacy.neighbours}. {why}."
    if any(fit.privacy.seeded for fit in fits):
        statement = "NOT PRIVATE: the noise of a site was seeded."
    level = fits[0].level if level is None else level
    inference.quantile(level)
    y, V, b = zip(*(_numbers(fit, coefficients) for fit in fits), strict=True)
    estimates, bounds = np.array(y), np.array(b)
    variances = np.array([np.diag(part) for part in V])
    each = [
        _mean_of(estimates[:, j], variances[:, j], bounds[:, j], random=effects == "random",
                 level=level)
        for j in range(len(coefficients))
    ]  # fmt: skip
    weights = np.array([mean.weights for mean in each]).T

    def column(name: str) -> Array:
        return np.array([getattr(mean, name) for mean in each], dtype=float)

    mean, half, half_new = column("estimate"), column("half"), column("half_new")
    covariance = np.diag(column("se") ** 2)
    shared = np.einsum("kj,kl,kjl->jl", weights, weights, np.nan_to_num(np.array(V)))
    outside = ~np.eye(len(coefficients), dtype=bool)
    covariance[outside] = shared[outside] if effects == "fixed" else math.nan
    return MetaAnalysis(
        tuple(coefficients), tuple(titles), effects, estimates, np.sqrt(variances),
        weights, mean, column("se"), column("bias"), mean - half, mean + half, column("p"),
        column("tau2"), column("Q"), column("df"), mean - half_new, mean + half_new, covariance,
        level, eps, delta, statement,
    )  # fmt: skip


def _model_of(fit: Any) -> tuple[Any, ...]:
    """Return the facts that must agree between sites: function, link, family or quantile."""
    says = (fit.options.get(key) for _, key in fit.kind.says)
    return (fit.model, fit.kind.link_name(fit.options), *says)


def sites_named(names: Sequence[str] | None, many: int) -> list[str]:
    """Return a name for each site, each another, or refuse the names."""
    titles = [f"site {k + 1}" for k in range(many)] if names is None else [*map(str, names)]
    if not len(titles) == len({*titles}) == many:
        raise RequestError(f"names= needs one name per fit, each another: {many} fits, {titles}")
    return titles


def compare(what: str, titles: list[str], facts: Sequence[Any], remedy: str) -> None:
    """Refuse a fact of a call that is not the same at all sites."""
    for title, fact in zip(titles, facts, strict=True):
        if fact != facts[0]:
            fact, first = (printable(str(f)) for f in (fact, facts[0]))
            raise RequestError(f"{what} is {fact} at {title}, and {first} at {titles[0]}. {remedy}")


def _same_models(fits: Sequence[Any], titles: list[str]) -> list[str]:
    """Return the coefficients of all fits, or refuse fits of different models."""
    again = "Fit the same formula at each site, with the same levels in its schema"
    compare("the model", titles, [str(_model_of(fit)) for fit in fits], again)
    sides = [fit.design.response and fit.design.response.name for fit in fits]
    compare("the response", titles, sides, again)
    names = [{inference.plain_name(name) for name in fit._record.estimate.names} for fit in fits]
    for title, here in zip(titles, names, strict=True):
        if missing := sorted(names[0] - here) or sorted(here - names[0]):
            where = title if missing[0] in names[0] else titles[0]
            raise RequestError(f"the coefficient {missing[0]!r} is not in {where}. {again}")
    return list(fits[0]._record.estimate.names)


def _numbers(fit: Any, coefficients: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return estimates, covariance and bounds of the bias, in the order of the coefficients."""
    est = fit._record.estimate
    places_of = {inference.plain_name(name): j for j, name in enumerate(est.names)}
    order = [places_of[inference.plain_name(name)] for name in coefficients]
    y, V = np.array(est.params)[order], inference.covariance(est)[np.ix_(order, order)]
    if est.untested is not None:
        y[np.asarray(est.untested)[order]] = math.nan
    b = np.zeros(len(order)) if est.bias is None else np.nan_to_num(est.bias)[order]
    return y, V, b


def joint_guarantee(
    promises: Sequence[Guarantee], titles: Sequence[str], *, overlap: bool
) -> tuple[float, float, str]:
    """Return eps and delta of the guarantee of all sites together, and why it is that."""
    if len({(p.relation, "" if column_of(p.unit) else p.unit) for p in promises}) > 1:
        raise RequestError(
            "the sites promise privacy for different neighbours or units (rows, people), so the "
            "whole has no single statement. Use the same relation= and unit= at each site"
        )
    total = sum if overlap else max
    whom = "row" if column_of(promises[0].unit) is None else "person"
    each = ", ".join(f"{k} ({p.eps:g}, {p.delta:g})" for k, p in zip(titles, promises, strict=True))
    why = (
        f"Guarantees add up, as a {whom} may be at several sites"
        if overlap
        else f"Each {whom} is at one site, so guarantees compose in parallel and the largest holds"
    )
    eps, delta = total(p.eps for p in promises), total(p.delta for p in promises)
    return eps, delta, f"{why}. (ε, δ) by site: {each}"
