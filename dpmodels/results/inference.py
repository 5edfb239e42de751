"""Estimates and errors of a fit as pandas tables, their format, and joint tests.

Let V_s be the sampling part and V_p the privacy part of the covariance. They are independent, as
the noise does not depend on the rows. Then V = V_s + V_p, so total^2 = sampling^2 + privacy^2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.after.inference import (
    Hypothesis,
    Wald,
    adjusted,
    critical_value,
    read_hypothesis,
    wald,
)
from dpmodels.after.moments import inverse_and_rank
from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, choice, did_you_mean, shown
from dpmodels.formula.schema import label_of
from dpmodels.lazy import pd, special
from dpmodels.records import OPEN_ENDS, Estimate
from dpmodels.results.record import Record, row_norm
from dpmodels.tables.content import Column, Layout
from dpmodels.tables.numbers import MISSING, number
from dpmodels.tables.table import Result, Table, also, forest, named_rows, new_axes

KINDS = ("total", "sampling", "privacy")
#: Level of the interval from which :func:`interval_errors` is computed.
DECIDES = 0.95


def series(values: Array, names: tuple[str, ...], title: str) -> pd.Series[float]:
    """Return a Series indexed by coefficient name."""
    return pd.Series(np.array(values), index=pd.Index(list(names)), name=title)


#: A combination depends on a coefficient that explains at least this part of its variance.
RESTS_ON = 0.1


def rests_on_untested(est: Estimate, L: Array) -> npt.NDArray[np.bool_]:
    """Return which combinations ``L b`` depend on coefficients that are not tested, (k,).

    A coefficient is not tested if some direction that involves it is badly determined (for example
    a level with few rows). Several coefficients can involve this direction: if the base level a is
    rare, all coefficients of its factor do, but the contrast ``b - c`` does not. So the rule is the
    share of the variance of the combination that an untested coefficient explains, for any choice
    of the base. In ``b - c`` it is nearly 0.
    """
    gone = est.untested
    if gone is None or not gone.any():
        return np.zeros(len(L), dtype=bool)
    V = np.nan_to_num(covariance(est))
    variance = np.maximum(np.einsum("ij,jk,ik->i", L, V, L), 1e-300)
    shared = (L @ V[:, gone]) ** 2 / np.maximum(np.diag(V)[gone], 1e-300)
    touched = np.abs(L[:, gone]) > 0
    return np.asarray((touched & (shared >= RESTS_ON * variance[:, None])).any(axis=1))


def covariance(est: Estimate, kind: str = "total") -> Array:
    """Return (p, p) covariance of one kind; NaN where it was not released."""
    choice("kind", kind, KINDS)
    p = est.params.size
    nan = np.full((p, p), np.nan)
    parts = {"sampling": est.vcov_sampling, "privacy": est.vcov_privacy}
    chosen = list(parts.values()) if kind == "total" else [parts[kind]]
    if not est.released or any(v is None for v in chosen):
        return nan
    return np.asarray(sum(np.asarray(v) for v in chosen))


def standard_errors(est: Estimate, kind: str = "total") -> Array:
    """Return (p,) standard errors, sqrt of the diagonal of :func:`covariance`."""
    variance = np.diag(covariance(est, kind))
    return np.sqrt(np.where(variance >= 0, variance, np.nan))


def public_and_private(est: Estimate) -> pd.DataFrame | None:
    """Return the public and the private fit of a call as columns, or None without public rows."""
    public, se = (est.arrays.get(f"public_{name}") for name in ("params", "bse"))
    if public is None:
        return None
    columns = {"public": public, "public_se": se, "private": est.params}
    return pd.DataFrame({**columns, "private_se": standard_errors(est)}, index=list(est.names))


def interval_errors(est: Estimate) -> Array:
    """Return (p,) half widths of 95 % intervals over 1.96: total errors with the bias allowance.

    With a t reference the divisor is its quantile instead of 1.96. Without a bias bound the result
    is the total standard error.
    """
    se = standard_errors(est)
    if est.bias is None:
        return se
    return half_width(se, est.bias, DECIDES, est.use_t) / quantile(DECIDES, est.use_t)


def bias_rule(level: float) -> str:
    """Return the rule of intervals and P that allow for a bias, which a reader can check."""
    two, z_one = quantile(level), float(special.ndtri(level))
    share = f"{level:g}".removeprefix("0")
    return (
        "P and intervals allow for a bias of up to the bound b. Interval: estimate +- c SE, where "
        f"P(|N(b/SE, 1)| <= c) = {share} (c = {two:.2f} for b = 0, about {z_one:.3f} + b/SE for "
        "b > SE). P is P(|N(b/SE, 1)| >= |estimate|/SE): the interval of level 1 - P touches 0."
    )


def widened(est: Estimate) -> Array:
    """Return a covariance with wide enough usual 95 % intervals for every linear combination.

    They are at least as wide as the bias-aware intervals. This is for packages that cannot use a
    bias bound. With b the bounds, k of them above 0, and any t > 0,

        V' = (1 + t) V + (1 + 1/t) (k / z^2) diag(b^2)

    has ``z sqrt(l'V'l) >= z sqrt(l'V l) + sum |l_j| b_j >= cv(bias/se) se`` for all l: Cauchy's
    inequality, and ``(x + y)^2 <= (1 + t) x^2 + (1 + 1/t) y^2``. t is chosen so that both parts
    are about equal on average.
    """
    V = covariance(est)
    if est.bias is None:
        return V
    bias, se, z = np.asarray(est.bias), standard_errors(est), quantile(DECIDES)
    biased = np.flatnonzero(np.nan_to_num(bias) > 0.0)
    if not len(biased):
        return V
    t = max(math.sqrt(len(biased)) * float(np.mean(bias[biased] / se[biased])) / z, 1e-3)
    return np.asarray((1.0 + t) * V + (1.0 + 1.0 / t) * len(biased) / z**2 * np.diag(bias**2))


def statistics(est: Estimate) -> Array:
    """Return (p,) adjusted statistics: z (or t) whose two-sided p-value is :func:`p_values`.

    Without a bias bound this is the estimate over its standard error. With a bound it is smaller
    in size. NaN where untested.
    """
    size = _adjusted_sizes(est)
    return np.asarray(np.sign(est.params) * size)


def p_values(est: Estimate) -> Array:
    """Return (p,) two-sided p-values, normal reference (t if the method says so).

    One minus the level of the interval that just touches zero. With a bias bound b this is the
    largest tail probability ``P(|N(a, 1)| > |estimate|/se)`` over ``|a| <= b / se``.
    """
    size = _adjusted_sizes(est)
    tail = special.ndtr(-size) if est.use_t is None else special.stdtr(est.use_t, -size)
    return np.asarray(2.0 * tail)


def _adjusted_sizes(est: Estimate) -> Array:
    """Return (p,) absolute adjusted statistics, NaN where there is no error or no test."""
    se = standard_errors(est)
    x = np.full(se.shape, np.nan)
    np.divide(np.abs(est.params), se, out=x, where=se > 0)
    if est.untested is not None:
        x[est.untested] = np.nan
    return x if est.bias is None else adjusted(x, np.asarray(est.bias / se), est.use_t)


#: An allowance for bias of more standard errors than this decides its interval alone.
_DECIDES_ALONE = 3.0


def decided_by_bias(est: Estimate) -> npt.NDArray[np.bool_]:
    """Return a mask (p,) of coefficients that are not clear of an allowance that decides alone."""
    return allowance_decides(est.bias, standard_errors(est), p_values(est))


def allowance_decides(bias: Array | None, se: Array, p: Array) -> npt.NDArray[np.bool_]:
    """Return a mask of effects whose P is near 1 by their allowance alone."""
    if bias is None:
        return np.zeros(np.shape(se), dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.asarray((bias > _DECIDES_ALONE * se) & (p >= 1.0 - DECIDES))


def errors(est: Estimate) -> pd.DataFrame:
    """Return the parts of each error, one row per coefficient: error, sampling, privacy, bias."""
    bias = np.zeros(est.params.shape) if est.bias is None else np.asarray(est.bias)
    return pd.DataFrame(
        {
            "error": interval_errors(est),
            "std_error": standard_errors(est),
            "sampling": standard_errors(est, "sampling"),
            "privacy": standard_errors(est, "privacy"),
            "bias_bound": bias,
        },
        index=pd.Index(list(est.names)),
    )


def quantile(level: float, use_t: float | None = None) -> float:
    """Return the two-sided critical value of a confidence level."""
    if not 0 < level < 1:
        raise RequestError(f"level must lie in (0, 1), got {shown(level)}. For example level=0.95")
    tail = (1 - level) / 2
    return -float(special.stdtrit(use_t, tail) if use_t is not None else special.ndtri(tail))


def bound_names(level: float) -> tuple[str, str]:
    """Return R's column names of an interval: ``2.5 %`` and ``97.5 %``."""
    tail = 50 * (1 - level)
    return f"{tail:.4g} %", f"{100 - tail:.4g} %"


def half_width(se: Array, bias: Array | None, level: float, use_t: float | None = None) -> Array:
    """Return half widths of intervals: ``se`` times a quantile, or times ``cv(bias / se)``.

    ``cv(a)`` is the ``level`` quantile of |N(a, 1)|: the interval covers if the true bias is
    within its bound (Armstrong and Kolesar 2018). With a t reference the half width is multiplied
    by the ratio of the t and the normal quantile.
    """
    z = quantile(level, use_t)
    if bias is None:
        return np.asarray(z * se)
    a = np.zeros(np.shape(se))
    np.divide(bias, se, out=a, where=np.asarray(se) > 0)
    # a t reference: the same factor as where there is no bias
    return np.asarray(critical_value(a, level) * se * (z / quantile(level)))


def conf_int(est: Estimate, level: float) -> tuple[Array, Array]:
    """Return lower and upper ends, estimate -+ half width."""
    half = half_width(standard_errors(est), est.bias, level, est.use_t)
    side = est.arrays.get(OPEN_ENDS, np.zeros(len(half)))
    low = np.where(side < 0.0, -np.inf, est.params - half)
    return low, np.where(side > 0.0, np.inf, est.params + half)


def privacy_share(est: Estimate) -> Array:
    """Return (p,) share of the variance that is due to privacy, privacy^2 / total^2."""
    total = standard_errors(est) ** 2
    out = np.full(total.shape, np.nan)
    np.divide(standard_errors(est, "privacy") ** 2, total, out=out, where=total > 0)
    return out


#: Default style of column names in tidy tables.
_STYLE = {"columns": "python"}


def tidy_style(style: str | None = None) -> str:
    """Set, for this session, whether columns of tidy tables have underscores or R's dots.

    Parameters
    ----------
    style : {"python", "r"}, optional
        ``"python"``: ``std_error``; ``"r"``: ``std.error``, as in broom. None changes nothing.

    Returns
    -------
    str
        The style now in force. ``tidy(style=)`` and ``glance(style=)`` have priority over it.

    Privacy
    -------
    Reads no data.
    """
    if style is not None:
        choice("style", style, ("python", "r"))
        _STYLE["columns"] = style
    return _STYLE["columns"]


def styled(frame: pd.DataFrame, style: str | None = None) -> pd.DataFrame:
    """Return a frame with names of Python, or of R."""
    style = _STYLE["columns"] if style is None else style
    choice("style", style, ("python", "r"))
    return frame.rename(columns=lambda c: c.replace("_", ".")) if style == "r" else frame


def tidy(
    est: Estimate, *, conf_int_: bool, level: float, style: str | None, exponentiate: bool = False
) -> pd.DataFrame:
    """Return one row per coefficient, with the column names of broom."""
    low, high = conf_int(est, level)
    params = np.array(est.params)
    if exponentiate:
        params, low, high = np.exp(params), np.exp(low), np.exp(high)
    ends = {"conf_low": low, "conf_high": high} if conf_int_ else {}
    bias = np.full(est.params.shape, np.nan) if est.bias is None else np.array(est.bias)
    frame = pd.DataFrame(
        {
            "term": list(est.names),
            "estimate": params,
            "std_error": standard_errors(est),
            "std_error_sampling": standard_errors(est, "sampling"),
            "std_error_privacy": standard_errors(est, "privacy"),
            "statistic": statistics(est),
            "p_value": p_values(est),
            **ends,
            "bias_bound": bias,
        }
    )
    return styled(frame, style)


def glance(record: Record, *, style: str | None) -> pd.DataFrame:
    """Return one row per fit: public facts, the guarantee, released statistics."""
    est, promise = record.estimate, record.guarantee
    row = {
        "nobs": record.n,
        "df": len(est.names),
        "method": record.call.method,
        "eps": promise.eps,
        "delta": promise.delta,
        "relation": promise.relation,
        "private": not promise.seeded,
        "released": est.released,
        "row_norm_bound": row_norm(record.design),
        "sigma": np.nan,
        "r_squared": np.nan,
        **dict(est.stats),
    }
    return styled(pd.DataFrame([row]), style)


# -- Format of values in a report; which coefficients it shows, in which order, under which names.


def tested(cells: Iterable[str], untested: Iterable[bool] | None) -> list[str]:
    """Return the cells of z or p, "n/d" where a coefficient is not determined."""
    texts = list(cells)
    if untested is None:
        return texts
    return ["n/d" if gone else cell for cell, gone in zip(texts, untested, strict=True)]


def p_value(p: float) -> str:
    """Return a p-value: ``< 1e-16``, three digits below 1e-4, else four decimals."""
    if math.isnan(p):
        return MISSING
    if p < 1e-16:
        return "< 1e-16"
    return f"{p:.2e}" if p < 1e-4 else f"{p:.4f}"


def share(x: float) -> str:
    """Return a share of a budget as ``.20``."""
    text = f"{x:.2f}"
    return text[1:] if text.startswith("0.") else text


def percent(x: float) -> str:
    """Return a share as ``62 %``."""
    return MISSING if math.isnan(x) else f"{100 * x:.0f} %"


def stars(p: float) -> str:
    """Return R's significance stars."""
    if math.isnan(p):
        return ""
    cuts = ((1e-3, "***"), (1e-2, "**"), (5e-2, "*"), (0.1, "."))
    return next((mark for cut, mark in cuts if p < cut), "")


def interval(bounds: tuple[float, float]) -> str:
    """Return ``[8, 15]``."""
    return f"[{bounds[0]:.6g}, {bounds[1]:.6g}]"


def greek(statement: str) -> str:
    """Return a privacy statement with the letters of the field."""
    return statement.replace("eps =", "ε =").replace("delta =", "δ =")


def pair(eps: float, delta: float) -> str:
    """Return ``(ε = 1, δ = 1e-06)``."""
    return f"(ε = {eps:g}, δ = {delta:g})"


def _listed(name: str, names: Any) -> list[str]:
    """Return one name or several as a list, or refuse them."""
    listed = [names] if isinstance(names, str) else list(names or ())
    if not all(isinstance(g, str) for g in listed):
        raise RequestError(f"{name}= must be names of coefficients, or regular expressions of them")
    return listed


def _matches(option: str, entry: str, names: Sequence[str]) -> list[str]:
    """Return the names that an entry means: itself, or the matches of a regular expression."""
    if entry in names:
        return [entry]
    same = [name for name in names if plain_name(name) == plain_name(entry)]
    if same:
        return same
    matching: list[str] | None = None
    try:
        matching = [name for name in names if re.search(entry, name)]
    except re.error:
        matching = None
    if not matching:
        raise RequestError(
            f"{option}: {shown(entry)} is not a coefficient of these fits, nor an expression that "
            f"finds one.{did_you_mean(entry, names)} Coefficients: {', '.join(names)}"
        )
    return matching


def chosen(
    names: Iterable[str], *, order: Any = None, keep: Any = None, drop: Any = None
) -> list[str]:
    """Return the coefficients to show, by names or regular expressions; ``order``: these first."""
    every = list(names)
    out = every
    if keep is not None:
        shown_names = {n for w in _listed("keep", keep) for n in _matches("keep", w, every)}
        out = [n for n in out if n in shown_names]
    if drop is not None:
        gone = {n for w in _listed("drop", drop) for n in _matches("drop", w, every)}
        out = [n for n in out if n not in gone]
    if order is not None:
        first = [n for w in _listed("order", order) for n in _matches("order", w, every)]
        front = [n for n in dict.fromkeys(first) if n in out]
        out = [*front, *(n for n in out if n not in front)]
    if not out:
        raise RequestError("keep= and drop= leave no coefficient to show")
    return out


def plain_name(name: str) -> str:
    """Return the name of a coefficient without the ``C()`` of factors: ``g[T.x]``.

    ``C(g)`` and ``g`` are one variable where levels are declared, so coefficients of both are one
    row of a table of several fits.
    """
    return re.sub(r"(^|:)C\((\w+)\)(?=\[)", r"\1\2", name)


def schema_labels(*records: Record) -> dict[str, str]:
    """Return coefficient (and response) -> label, if its variables have labels in the schema.

    ``sex[T.female]`` is "Sex: female". In other terms only the variable names are replaced by
    labels.
    """
    found: dict[str, str] = {}
    for record in records:
        schema = record.design.schema
        known = {v: label_of(schema, v) for v in schema.variables if label_of(schema, v) != v}
        if not known:
            continue
        words = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, known)) + r")(?![\w(])")

        def labelled(part: str, known: Mapping[str, str] = known, words: Any = words) -> str:
            level = re.fullmatch(r"(?:C\()?(\w+)\)?\[(?:T\.)?(.+)\]", part)
            if level is not None:
                return f"{known.get(level[1], level[1])}: {level[2]}"
            return str(words.sub(lambda m: known[m[1]], part))

        names = record.estimate.names
        response = [] if record.design.response is None else [record.design.response.name]
        for name in (*names, *response):
            parts = re.split(r":(?![^\[]*\])", name)  # of an interaction; levels may hold colons
            label = " \u00d7 ".join(map(labelled, parts)) if words.search(name) else name
            if label != name:
                found[name] = label
    return found


#: Values of ``labels=``: a mapping, "schema" for the labels of the schema, or none.
Labels = Mapping[str, str] | str | None


def all_labels(labels: Labels, *fits: Any) -> Mapping[str, str]:
    """Return ``labels=`` as a mapping: the given one, or that of the schemas of fits."""
    if isinstance(labels, str) and labels == "schema":
        return schema_labels(*(fit._record for fit in fits))
    if labels is not None and not isinstance(labels, Mapping):
        raise RequestError(
            "labels= must be a mapping, {'age': 'Age in years'}, or 'schema': the labels that the "
            "schema has"
        )
    return labels or {}


def labelled(name: str, labels: Mapping[str, str] | None) -> str:
    """Return the label of a coefficient; for an interaction, the labels of its parts."""
    if not labels:
        return name
    if name in labels:
        return str(labels[name])
    parts = name.split(":")
    if len(parts) > 1 and any(part in labels for part in parts):
        return " \u00d7 ".join(str(labels.get(part, part)) for part in parts)
    return name


# -- Joint tests of a fit: Wald, F, term-wise tables. From coefficients and their covariance.


_GONE = (
    "Not tested: a coefficient of the hypothesis is too noisy at this budget. More "
    "rows, a larger ε or fewer terms would help."
)
_WIDE = Layout(width=76, wrap=True)


def places_of(record: Record) -> list[tuple[int, ...]]:
    """Return, for each design column, the positions of its coefficients in the coefficient vector.

    They are found by name. A model that estimates no intercept (hazards, fixed effects of people,
    thresholds) has one coefficient fewer, and that column has none. With a categorical response
    each column has one coefficient per level, ``"level:column"``. If names do not match, column j
    has position j.
    """
    names, columns = record.estimate.names, record.design.names
    if names[: len(columns)] == columns or not set(columns) - {"Intercept"}:
        return [(j,) for j in range(len(names))]
    if set(columns) - {"Intercept"} <= set(names):
        return [(names.index(name),) if name in names else () for name in columns]
    levels = [str(level) for level in record.design.levels]
    each = [tuple(f"{level}:{name}" for level in levels[1:]) for name in columns]
    if {name for group in each for name in group} == set(names):
        return [tuple(names.index(name) for name in group) for group in each]
    return [(j,) for j in range(len(names))]


def terms_of(record: Record) -> dict[str, tuple[int, ...]]:
    """Return term -> positions of its coefficients; a term ``C(g)`` is also under ``g``."""
    at = places_of(record)
    out: dict[str, tuple[int, ...]] = {}
    for term in record.design.terms:
        places = tuple(k for j in range(len(at))[term.columns] for k in at[j])
        if not places or term.name in ("1", "Intercept"):
            continue
        out[term.name] = places
        inside = term.name.removeprefix("C(").removesuffix(")").partition(",")[0]
        if term.name.startswith("C(") and ":" not in term.name:
            out.setdefault(inside, places)
    return out


def checked_errors(record: Record) -> None:
    """Raise if a result needs a covariance and none was released."""
    est = record.estimate
    if not est.released:
        raise NotReleasedError("this fit got no reply: there is nothing to test")
    if est.vcov_sampling is None or est.vcov_privacy is None:
        raise NotReleasedError(
            "tests need total standard errors, which this fit does not have. Fit with "
            "inference=True, by a method that gives them (dp.methods(), column 'inference')"
        )


def hypothesis_of(record: Record, typed: Any) -> Hypothesis:
    """Read a hypothesis, and refuse one that touches a coefficient without errors."""
    checked_errors(record)
    names = record.estimate.names
    hypothesis = read_hypothesis(typed, names, terms_of(record))
    lost = np.isnan(np.diag(covariance(record.estimate)))
    touched = [
        n
        for n, bad, w in zip(names, lost, np.abs(hypothesis.L).max(0), strict=True)
        if bad & (w > 0)
    ]
    if touched:
        raise RequestError(
            f"{', '.join(touched)}: not determined in this fit, so no combination with it is "
            "either (the notes of fit.summary() say why). Drop it from the hypothesis"
        )
    return hypothesis


def _zero_filled(record: Record) -> tuple[Array, Array | None]:
    """Return (covariance, bias) with zeros where a coefficient has none."""
    est = record.estimate
    bias = None if est.bias is None else np.nan_to_num(np.asarray(est.bias))
    return np.nan_to_num(covariance(est)), bias


@dataclass(frozen=True)
class JointTest(Result):
    """A joint test of linear hypotheses."""

    # statistic, df, pvalue: the statistic is chi2, or F if ``use_f``. It is the quantile that
    # belongs to the p-value.
    statistic: float
    df: int
    pvalue: float
    use_f: bool  # ``statistic`` is divided by ``df``
    df_denom: float | None  # Denominator degrees of freedom of an F reference, if finite
    # Noncentrality that bounded bias may add (``fit.bias_bound``); the p-value allows for it.
    noncentrality: float
    hypotheses: tuple[str, ...]

    def table(self) -> Table:
        """Return the test as a table."""
        letter = "F" if self.use_f else "chi2"
        note = "Statistic and P are adjusted for possible clipping bias (the bias bound)."
        return named_rows(
            ["Wald"], [
                (letter, [number(self.statistic, 4)]), (Column("df", width=4), [str(self.df)]),
                (Column(f"P>{letter}", width=9), [p_value(self.pvalue)]),
            ], least=8, layout=_WIDE,
            facts=tuple(("" if k else "Hypothesis", h) for k, h in enumerate(self.hypotheses)),
            notes=(_GONE,) if math.isnan(self.pvalue) else (note,) if self.noncentrality else (),
        )  # fmt: skip

    def tidy(self) -> pd.DataFrame:
        """Return one row: ``term, statistic, df, df_denom, p_value``."""
        row = ("; ".join(self.hypotheses), self.statistic, self.df, self.df_denom, self.pvalue)
        return pd.DataFrame([row], columns=["term", "statistic", "df", "df_denom", "p_value"])

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the reference density, its upper 5 %, and the statistic (needs matplotlib)."""
        from scipy import stats

        x = self.statistic * (self.df if self.use_f else 1)
        free = stats.chi2(self.df)
        ax = new_axes(ax, (5.6, 3.0))
        at = np.linspace(0.0, max(float(free.ppf(0.999)), 1.1 * x), 400)[1:]
        color = style.get("color", "C0")
        ax.plot(at, free.pdf(at), color=color)
        cut = float(free.ppf(0.95))
        tail = at[at >= cut]
        ax.fill_between(tail, free.pdf(tail), color=color, alpha=0.3, label="upper 5 %")
        text = p_value(self.pvalue)
        text = text if text.startswith("<") else f"= {text}"
        ax.axvline(x, color="0.2", linestyle="--", label=f"statistic, p {text}")
        ax.set_xlabel(f"chi2, {self.df} degrees of freedom")
        ax.set_yticks([])
        ax.legend(fontsize="small", frameon=False)
        return ax


def _joint(record: Record, L: Array, q: Array) -> Wald:
    """Test L b = q with the covariance and the bounds of bias of a fit."""
    V, bias = _zero_filled(record)
    est = record.estimate
    test = wald(L, np.nan_to_num(est.params), V, q, bias=bias, bias_of=est.bias_of, free=est.use_t)
    test = replace(test, statistic=test.adjusted)
    if not rests_on_untested(est, L).any():
        return test
    # not determined at this budget: no statistic and no P
    return replace(test, statistic=math.nan, pvalue=math.nan)


def joint_test(record: Record, typed: Any, *, use_f: bool) -> JointTest:
    """Return the Wald test of a hypothesis."""
    hypothesis = hypothesis_of(record, typed)
    test = _joint(record, hypothesis.L, hypothesis.q)
    if test.df < len(hypothesis.L):
        raise RequestError(
            f"the {len(hypothesis.L)} restrictions of this hypothesis have rank {test.df}. Drop "
            "those that follow from the others"
        )
    return JointTest(
        test.statistic / test.df if use_f else test.statistic, test.df, test.pvalue, use_f,
        record.estimate.use_t, test.noncentrality, hypothesis.labels,
    )  # fmt: skip


@dataclass(frozen=True)
class AnovaTable(Result):
    """Table of tests, one row per term or comparison."""

    title: str
    # tuple of (str, float, int, float): name, chi2, degrees of freedom, p-value.
    rows_: tuple[tuple[str, float, int, float], ...]
    notes: tuple[str, ...]

    def tidy(self) -> pd.DataFrame:
        """Return one row per term: ``term, df, statistic, p_value``."""
        rows = [(name, df, x, p) for name, x, df, p in self.rows_]
        return pd.DataFrame(rows, columns=["term", "df", "statistic", "p_value"])

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw chi2 over its degrees of freedom for each term (needs matplotlib)."""
        frame = self.tidy().assign(estimate=lambda t: t["statistic"] / t["df"])
        label = "chi2 / df (about 1 where nothing is there)"
        return forest(frame, ax, xlabel=label, zero=1.0, title=self.title, **style)

    @also.method
    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame with columns ``df, chi2, F, p_value``."""
        rows = [(df, x, x / df, p) for _, x, df, p in self.rows_]
        index = pd.Index([name for name, *_ in self.rows_], name="term")
        return pd.DataFrame(rows, columns=["df", "chi2", "F", "p_value"], index=index)

    def table(self) -> Table:
        """Return the printed table: df, chi2, F and P of each term."""
        numbers = [(str(df), number(x, 4), number(x / df, 4), p_value(p))
                   for _, x, df, p in self.rows_]  # fmt: skip
        heads = (Column("df", width=4), "chi2", "F", Column("P>chi2", width=9))
        columns = [(head, [row[k] for row in numbers]) for k, head in enumerate(heads)]
        names = [name for name, *_ in self.rows_]
        return named_rows(names, columns, least=16, title=self.title, notes=self.notes)


def _factors(term: str) -> set[str]:
    return {part.strip() for part in term.split(":")}


def _later(record: Record, kind: int) -> Mapping[str, list[int]]:
    """Return, for each term, the coefficients that are set to 0 in its test.

    Type III: none. Type II: those of terms that contain it. Type I: those of all later terms.
    """
    at = places_of(record)
    terms = [
        (t.name, tuple(k for j in range(len(at))[t.columns] for k in at[j]))
        for t in record.design.terms
        if t.name not in ("1", "Intercept")
    ]
    out = {}
    for k, (name, _) in enumerate(terms):
        if kind == 1:
            others = [places for _, places in terms[k + 1 :]]
        elif kind == 2:
            others = [p for other, p in terms if _factors(name) < _factors(other)]
        else:
            others = []
        out[name] = [j for places in others for j in places]
    return out


def anova_table(record: Record, kind: int = 3) -> AnovaTable:
    """Return one Wald test per term."""
    checked_errors(record)
    choice("typ", {1: "1", 2: "2", 3: "3"}.get(kind, kind), ("1", "2", "3"))
    V, _ = _zero_filled(record)
    nan = np.isnan(np.diag(covariance(record.estimate)))
    p, rows, lost = len(record.estimate.names), [], []
    terms = terms_of(record)
    gone = record.estimate.untested
    untested = set() if gone is None else set(np.flatnonzero(gone).tolist())
    for name, later in _later(record, kind).items():
        L = np.eye(p)[list(terms[name])]
        if nan[list(terms[name])].any() or (untested & set(terms[name])):
            lost.append(name)
            continue
        if later:
            K = np.eye(p)[later]
            L = L - (L @ V @ K.T) @ inverse_and_rank(K @ V @ K.T)[0] @ K
        test = _joint(record, L, np.zeros(len(L)))
        rows.append((name, test.statistic, test.df, test.pvalue))
    roman = {1: "I", 2: "II", 3: "III"}[kind]
    notes = [
        f"Type {roman}, by Wald tests from coefficients and their total covariance: privacy noise "
        "is inside. Sums of squares are not compared: their noise would make F invalid."
    ]
    if kind == 3 and any(":" in name for name, *_ in rows):
        notes.append(
            "With interactions, type III depends on the coding of factors: C(g, Sum) makes main "
            "effects averages over the other factor."
        )
    if record.estimate.bias is not None:
        notes.append("Statistics and P are adjusted for possible clipping bias (the bias bound).")
    if lost:
        notes.append(f"Not determined at this budget, so not tested: {', '.join(lost)}.")
    return AnovaTable("Analysis of variance", tuple(rows), tuple(notes))
