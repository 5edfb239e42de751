"""Linear combinations of coefficients with intervals: t tests, contrasts, adjusted means."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, check_among, choice, did_you_mean, shown
from dpmodels.families import LINKS
from dpmodels.lazy import pd, special
from dpmodels.results import inference
from dpmodels.results import inference as f
from dpmodels.results.inference import checked_errors, hypothesis_of
from dpmodels.results.joint import equivalence as tested_equivalence
from dpmodels.results.joint import joined
from dpmodels.results.record import Record, interval_of
from dpmodels.tables.numbers import by_row, places
from dpmodels.tables.table import Result, Table, forest, named_rows
from dpmodels.variables import TIME_UNITS

#: Adjustments for several comparisons.
ADJUST = ("none", "bonferroni", "holm", "tukey")


@dataclass(frozen=True, eq=False, repr=False)
class Combinations(Result):
    """Estimates of ``L b - q``, or of smooth functions of b: errors, intervals and p-values."""

    labels: tuple[str, ...]
    # L, effect, sd, bias, error: rows of weights (of a smooth function its gradient), estimates,
    # standard errors without bias (printed), bounds on the bias, and the errors that p and
    # intervals use: these contain both.
    L: Array
    effect: Array
    sd: Array
    bias: Array
    # statistic, pvalue, low, high: p-values and ends of intervals as adjusted.
    statistic: Array
    pvalue: Array
    low: Array
    high: Array
    level: float
    record: Record
    what: str  # Header of the estimates
    notes: tuple[str, ...]
    error: Array
    # Rows with a coefficient that is not determined: no z and p.
    untested: npt.NDArray[np.bool_] | None = None
    # Rows of one group are compared by :meth:`pairs`; empty: all are one.
    groups: tuple[str, ...] = ()
    adjust: str = "none"  # {"none", "bonferroni", "holm", "tukey"}
    # Estimates on the scale of L, for means on the scale of the response.
    on_scale: Array | None = None
    extra: Array | None = None
    xlabel: str = ""  # Label of the estimates in plots
    joint: str = ""  # The note of joint intervals; empty: each interval is of its row alone

    def hypotheses(self, *, equivalence: Any, level: float | None = None) -> Any:
        """Return two one-sided tests that the rows are inside public margins; free."""
        return tested_equivalence(self, equivalence, level)

    def conf_int(self, level: float | None = None) -> Array:
        """Return (k, 2) ends of intervals; half widths allow for bounded bias. Not adjusted."""
        level = self.level if level is None else level
        est = self.record.estimate
        bias = None if est.bias is None else self.bias
        half = inference.half_width(self.sd, bias, level, est.use_t)
        return np.column_stack([self.effect - half, self.effect + half])

    def tidy(self) -> pd.DataFrame:
        """Return one row per combination, with the column names of broom."""
        return pd.DataFrame(
            {
                "term": list(self.labels),
                "estimate": self.effect,
                "std_error": self.sd,
                "statistic": self.statistic,
                "p_value": self.pvalue,
                "conf_low": self.low,
                "conf_high": self.high,
            }
        )

    def pairs(self, adjust: str | None = None, *, joint: bool = False) -> Combinations:
        """Return all differences between two rows (of one group), first less second.

        Parameters
        ----------
        adjust : {"none", "bonferroni", "holm", "tukey"}, optional
            Default: that of the means; where these have none, "tukey", as in R's emmeans.
        joint : bool
            Intervals that hold for all differences together, in place of ``adjust``.
        """
        if joint:
            return joined(self.pairs(), adjust)
        groups = self.groups or ("",) * len(self.labels)
        both = [
            (i, j)
            for i, j in itertools.combinations(range(len(self.labels)), 2)
            if groups[i] == groups[j]
        ]
        if not both:
            raise RequestError("pairs() needs at least two rows (of one group)")
        L = np.array([self.L[i] - self.L[j] for i, j in both])
        at = self.effect if self.on_scale is None else self.on_scale
        cut = [
            label.removesuffix(f" | {group}")
            for label, group in zip(self.labels, groups, strict=True)
        ]
        labels = tuple(
            f"{cut[i]} - {cut[j]}" + (f" | {groups[i]}" if groups[i] else "") for i, j in both
        )
        if adjust is None:
            adjust = self.adjust if self.adjust != "none" else "tukey"
        means = max(groups.count(g) for g in groups)
        extra = None
        if self.extra is not None:  # of means that both are taken at: no more than this
            extra = np.array([2.0 * (self.extra[i] + self.extra[j]) for i, j in both])
        return combine(
            self.record, L, np.zeros(len(L)), labels, self.level, "Difference",
            effect=np.array([at[i] - at[j] for i, j in both]), adjust=adjust, means=means,
            groups=tuple(groups[i] for i, _ in both) if any(groups) else (),
            xlabel="difference", extra=extra,
        )  # fmt: skip

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw estimates with their intervals (needs matplotlib)."""
        differ = self.what in ("Difference", "Slope", "Contrast", "Comparison", "Estimate")
        style = {"xlabel": self.xlabel or self.what.lower(), "zero": 0.0 if differ else None,
                 **style}  # fmt: skip
        return forest(self.tidy(), ax, **style)

    def table(self) -> Table:
        """Return the printed table: effects, errors, intervals, P; with a link intervals alone."""
        low_name, high_name = inference.bound_names(self.level)
        few = places(self.sd, 4)
        biased = self.record.estimate.bias is not None and bool((self.bias > 0.0).any())
        numbers = [(self.what, self.effect), ("Std. Error", self.sd)]
        if self.on_scale is None:  # means of a model with a link have intervals alone
            numbers += [("Bias <=", self.bias)] if biased else []
        numbers += [(low_name, self.low), (high_name, self.high)]
        spec: Any = [(head, by_row(values, few, 4)) for head, values in numbers]
        if self.on_scale is None:  # and no test against 0
            decided = inference.allowance_decides(self.bias, self.sd, self.pvalue)
            without = decided if self.untested is None else decided | self.untested
            spec.append(("P>|z|", f.tested([f.p_value(p) for p in self.pvalue], without)))
        notes = self.notes
        if self.untested is not None and self.untested.any():
            gone = [label for label, u in zip(self.labels, self.untested, strict=True) if u]
            others = f" and {len(gone) - 6} more" if len(gone) > 6 else ""
            notes = (
                *notes,
                "n/d: not determined or not to be tested; the summary has the reason for "
                f"each coefficient: {', '.join(gone[:6])}{others}.",
            )
        if self.on_scale is None and decided.any():
            notes = (
                *notes,
                "n/d: the allowance for bias, above three standard errors, decides the interval.",
            )
        if self.joint:
            notes = (*notes, self.joint)
        elif biased:
            notes = (*notes, inference.bias_rule(self.level))
        return named_rows(self.labels, spec, notes=notes)


def combine(
    record: Record, L: Array, q: Array, labels: tuple[str, ...], level: float, what: str,
    notes: tuple[str, ...] = (), *, effect: Array | None = None, extra: Array | None = None,
    groups: tuple[str, ...] = (), adjust: str = "none", means: int = 0, xlabel: str = "",
) -> Combinations:  # fmt: skip
    """Return estimates, errors and intervals of ``L b - q``; NaN where one is not determined.

    Parameters
    ----------
    effect : array, optional
        The estimates, where they are a function of b with gradient L.
    extra : array, optional
        A variance that is added: of released means that the combinations are taken at.
    groups : tuple of str
        Family of each row, for adjustments; empty: all are one.
    means : int
        How many means the differences are of, for "tukey".
    """
    choice("adjust", adjust, ADJUST)
    est = record.estimate
    V = inference.covariance(est)
    lost = np.isnan(np.diag(V))
    if effect is None:
        effect = L @ np.nan_to_num(np.asarray(est.params)) - q
    variance = np.einsum("ij,jk,ik->i", L, np.nan_to_num(V), L)
    sd = np.sqrt(variance + (0.0 if extra is None else extra))
    sd[(np.abs(L[:, lost]) > 0).any(axis=1)] = np.nan
    bound = est.bias_of(L)
    bias = np.zeros(len(L)) if bound is None else bound
    untested = None if est.untested is None else inference.rests_on_untested(est, L)
    combined = replace(
        est, names=labels, params=effect, vcov_sampling=np.diag(sd**2),
        vcov_privacy=np.zeros((len(L), len(L))), bias=bound, bias_bound=None, untested=untested,
    )  # fmt: skip
    p = inference.p_values(combined)
    at = np.full(len(L), level)
    if adjust != "none":
        p, at, note = _adjusted(p, level, adjust, groups or ("",) * len(L), means)
        notes = (*notes, note)
    ends = [inference.conf_int(combined, each) for each in at]
    low = np.array([ends[k][0][k] for k in range(len(L))])
    high = np.array([ends[k][1][k] for k in range(len(L))])
    return Combinations(
        labels, L, effect, sd, bias, inference.statistics(combined), p, low, high,
        level, record, what, notes, inference.interval_errors(combined), untested, groups, adjust,
        extra=extra, xlabel=xlabel,
    )  # fmt: skip


def _adjusted(
    p: Array, level: float, adjust: str, groups: tuple[str, ...], means: int
) -> tuple[Array, Array, str]:
    """Return p-values for all rows of a group together, the level of each interval, and a note.

    From the p-value of a row alone, bias included: Tukey's by the studentized range at the normal
    quantile that has this p, which is conservative where variances differ (Tukey and Kramer).
    """
    from scipy.stats import studentized_range

    out, at = np.array(p), np.full(len(p), level)
    for group in dict.fromkeys(groups):
        here = np.array([k for k, g in enumerate(groups) if g == group])
        k, p_group = len(here), p[here]
        if adjust == "tukey":
            if means < 2:
                raise RequestError('adjust="tukey" is for differences between means: .pairs()')
            z = -special.ndtri(np.clip(p_group / 2.0, 1e-300, 0.5))
            tail = studentized_range.sf(math.sqrt(2.0) * z, means, math.inf)
            out[here] = np.where(np.isnan(p_group), np.nan, np.clip(tail, p_group, 1.0))
            cut = studentized_range.ppf(level, means, math.inf) / math.sqrt(2.0)
            at[here] = 2.0 * float(special.ndtr(cut)) - 1.0
            continue
        at[here] = 1.0 - (1.0 - level) / k
        if adjust == "bonferroni":
            out[here] = np.minimum(p_group * k, 1.0)
        else:
            order = np.argsort(p_group)
            steps = p_group[order] * (k - np.arange(k))
            out[here[order]] = np.minimum(np.maximum.accumulate(steps), 1.0)
    k, within = max(groups.count(g) for g in groups), " of each group" if any(groups) else ""
    note = {
        "tukey": f"Adjusted by Tukey's method for {means} means{within}.",
        "holm": f"P-values adjusted by Holm for {k} rows{within}; intervals by Bonferroni.",
        "bonferroni": f"Adjusted by Bonferroni for {k} rows{within}.",
    }
    return out, at, note[adjust]


def relevel(record: Record, factor: Any, base: Any, level: float) -> Combinations:
    """Return the contrasts of a factor with another base level: differences of coefficients."""
    checked_errors(record)
    variable = record.design.kinds.get(factor) if isinstance(factor, str) else None
    levels = getattr(variable, "levels", None)
    if not levels:
        factors = [name for name, v in record.design.kinds.items() if getattr(v, "levels", None)]
        raise RequestError(
            f"no factor {shown(factor)} in this fit.{did_you_mean(str(factor), factors)} Factors: "
            f"{', '.join(factors) or 'none'}"
        )
    texts = [str(x) for x in levels]
    if str(base) not in texts:
        raise RequestError(f"{shown(base)} is not a level of {factor!r}: {', '.join(texts)}")
    of = columns_of_levels(record.estimate.names, factor)
    if not of:
        raise RequestError(f"this fit has no contrasts of {factor!r}")
    others = [text for text in texts if text != str(base)]
    L = np.zeros((len(others), len(record.estimate.names)))
    for row, text in zip(L, others, strict=True):
        for sign, of_level in ((1.0, text), (-1.0, str(base))):
            if of_level in of:
                row[of[of_level]] += sign
    labels = tuple(f"{factor}[{text} - {base}]" for text in others)
    return combine(record, L, np.zeros(len(L)), labels, level, "Contrast")


def columns_of_levels(names: Sequence[str], factor: str) -> dict[str, int]:
    """Return level -> place of its contrast with the base; refuse interactions."""
    head = rf"(C\()?`?{re.escape(factor)}`?(, ?Treatment\(.*\))?\)?"
    of: dict[str, int] = {}
    for k, name in enumerate(names):
        if match := re.fullmatch(rf"{head}\[(T\.)?(.*)\]", name):
            of[match[4]] = k
        elif ":" in name and re.search(rf"(^|:){head}\[", name):
            raise RequestError(
                f"{factor!r} is in the interaction {name!r}: a contrast is then one at given "
                "values of the others: fit.contrast({...}), or avg_comparisons"
            )
    return of


def better_base(
    kinds: Mapping[str, Any], names: Sequence[str], vcov: Array
) -> tuple[str, str, str] | None:
    """Return (factor, base, other level): the errors of contrasts with the other are a third."""
    for factor, variable in kinds.items():
        levels = [str(x) for x in getattr(variable, "levels", None) or ()]
        if len(levels) < 3:  # two contrasts, and the base
            continue
        try:
            of = columns_of_levels(names, factor)
        except RequestError:
            continue
        base = [text for text in levels if text not in of]
        if len(of) < 2 or len(base) != 1:
            continue
        at = list(of.values())
        V = np.zeros((len(at) + 1, len(at) + 1))  # the base last, with a coefficient of 0
        V[:-1, :-1] = vcov[np.ix_(at, at)]
        d = np.diag(V)
        errors = np.sqrt(np.maximum(d[:, None] + d[None, :] - 2.0 * V, 0.0))
        middle = (len(errors) - 2) // 2  # of two contrasts the better one
        typical = [float(np.sort(np.delete(e, k))[middle]) for k, e in enumerate(errors)]
        best = int(np.argmin(typical[:-1]))
        if 0.0 < 3.0 * typical[best] < typical[-1] < math.inf:
            return factor, base[0], [*of][best]
    return None


def contrast(record: Record, typed: Any, level: float) -> Combinations:
    """Return weighted sums of coefficients, by weights or label -> weights; or test hypotheses."""
    if isinstance(typed, (str, list, tuple, np.ndarray)) and len(typed):
        hypothesis = hypothesis_of(record, typed)
        return combine(record, hypothesis.L, hypothesis.q, hypothesis.labels, level, "Estimate")
    checked_errors(record)
    if not isinstance(typed, Mapping) or not typed:
        raise RequestError(
            "contrast needs weights by coefficient, {'age': 10, 'bmi': -1}, or several with "
            "labels, {'old': {'age': 10}, 'heavy': {'bmi': 5}}"
        )
    several = all(isinstance(v, Mapping) for v in typed.values())
    listed = dict(typed) if several else {"contrast": typed}
    names = record.estimate.names
    rows = []
    for weights in listed.values():
        row = np.zeros(len(names))
        for name, w in weights.items():
            check_among(name, names, f"no coefficient {shown(name)}", "Coefficients:")
            if isinstance(w, bool) or not isinstance(w, (int, float)) or not np.isfinite(w):
                raise RequestError(f"the weight of {name!r} must be a number, got {shown(w)}")
            row[names.index(name)] = w
        rows.append(row)
    L = np.array(rows)
    hypothesis_of(record, L)
    return combine(record, L, np.zeros(len(L)), tuple(map(str, listed)), level, "Contrast")


#: Errors of a denominator below which a ratio says nothing.
_CLEAR = 3.0


def ratio(record: Record, over: str, under: str, level: float) -> Combinations:
    """Return the ratio of two means: the delta method at the released ones."""
    checked_errors(record)
    names = record.estimate.names
    for name in (over, under):
        check_among(name, names, f"no mean {shown(name)}", "Means:")
    b, se = record.estimate.params, inference.standard_errors(record.estimate)
    i, j = names.index(over), names.index(under)
    if not abs(b[j]) > _CLEAR * se[j]:
        raise RequestError(
            f"the mean of {under!r} is within {_CLEAR:g} errors of 0: their ratio is not determined"
        )
    L = np.zeros((1, len(names)))
    R = b[i] / b[j]
    L[0, i] += 1.0 / b[j]
    L[0, j] -= R / b[j]
    return combine(record, L, np.array([L[0] @ b - R]), (f"{over} / {under}",), level, "Ratio")


def emmeans(
    fit: Any, specs: Any, *, by: Any, at: Mapping[str, Any] | None, over: Any, adjust: str | None,
    what: str, level: float,
) -> Combinations:  # fmt: skip
    """Return adjusted means over a public grid."""
    record = fit._record
    checked_errors(record)
    choice("what", what, ("link", "mean"))
    factors, within, paired = _specs(specs, by)
    held = means_of(over)
    at = dict(at or {})
    fixed = {**{k: v for k, v in held.items() if k not in factors + within}, **at}
    variables = predictors(fit, [*factors, *within, *at])
    if not factors:
        raise RequestError(f"emmeans needs the name of a factor, as in emmeans({variables[0]!r})")
    heads = [*within, *factors]
    found_axes = {name: _axis(fit, name, fixed.get(name), name in heads) for name in variables}
    axes = {name: axis for name, (axis, _) in found_axes.items()}
    middles, centres = _held_numbers(fit, found_axes)
    groups = list(itertools.product(*(axes[name] for name in heads)))
    X = _grid(fit, axes, heads, groups)
    L, names = every_chain(fit, X.mean(axis=1))
    families = [_words(within, g[: len(within)]) for g in groups]
    labels = [
        _words(factors, g[len(within) :]) + (f" | {family}" if family else "")
        for g, family in zip(groups, families, strict=True)
    ]
    link = fit.kind.link_name(fit.options)
    given_means = {k: v for k, v in held.items() if k in set(variables) - {*heads, *at}}
    relative = X.shape[-1] < fit.design.p
    notes = _grid_notes(middles, centres, given_means, relative=relative, link=link, what=what)
    labels = [f"{label}{name}" for name in names for label in labels]
    # of one quantile, within one level of by
    family = [f"{prefix}{name}".removeprefix(", ") for name in names for prefix in families]
    means = combine(
        record, L, np.zeros(len(L)), tuple(labels), level, "Mean", notes,
        groups=tuple(family) if any(family) else (), adjust=adjust or "none",
        xlabel="linear predictor" if what == "link" or fit.design.response is None
        else f"mean of {fit.design.response.name}",
    )  # fmt: skip
    if what == "mean":
        means = _back_transformed(means, link)
    return means.pairs() if paired else means


def _grid(
    fit: Any, axes: Mapping[str, list[Any]], heads: list[str], groups: list[tuple[Any, ...]]
) -> Array:
    """Return the design rows of a public grid: one block per group, one row per other cell."""
    averaged = [name for name in axes if name not in heads]
    others = list(itertools.product(*(axes[name] for name in averaged)))
    if len(groups) * len(others) > 100_000:
        raise RequestError("the grid has more than 100 000 cells: hold some variables with at=")
    cells = [(*g, *o) for g in groups for o in others]
    table = {name: [c[k] for c in cells] for k, name in enumerate([*heads, *averaged])}
    X = estimated(fit, fit.design.matrix(table))
    return np.asarray(X.reshape(len(groups), len(others), -1))


def _grid_notes(
    middles: list[str], centres: list[str], held: Mapping[str, float], *, relative: bool,
    link: str, what: str,
) -> tuple[str, ...]:  # fmt: skip
    """Return the notes of adjusted means: the values at which variables are held, and the scale.

    ``held``: means that ``over=`` gives. ``relative``: to a first unit, without an intercept.
    """
    notes = ["Means over a public grid, equal weights to the levels of other factors."]
    if centres:
        notes.append(f"Held at its released centre, or as at= says: {', '.join(centres)}.")
    if middles:
        notes.append(
            f"Held at the middle of its declared range, or as at= says: {', '.join(middles)}. A "
            "marginal mean of R is evaluated at means of the rows, which may lie far from it: "
            "emmeans(..., over=<released means>) is that."
        )
    if held:
        at_means = ", ".join(f"{k} = {v:.4g}" for k, v in held.items())
        notes.append(
            f"Held at the means that over= gives: {at_means}; intervals are conditional on them."
        )
    if relative:
        notes.append(
            "Log hazards, relative to a unit whose numbers are 0 and whose factors are at their "
            "first levels: differences (.pairs()) are logs of hazard ratios."
        )
    if link != "identity":
        scale = (
            "back-transformed (ends of intervals too)" if what == "mean" else "on the link scale"
        )
        notes.append(f"Link {link}: {scale}; averages are taken on the link scale.")
    return tuple(notes)


def _back_transformed(means: Combinations, link: str) -> Combinations:
    """Return combinations of a link scale on the scale of the mean."""
    if link == "identity":
        return means
    slope, inverse = np.abs(LINKS[link].slope(means.effect)), LINKS[link].inverse
    nothing = np.full(len(means.effect), np.nan)  # tests are of the link scale: not of mean 0
    return replace(
        means, effect=inverse(means.effect), sd=slope * means.sd, error=slope * means.error,
        low=inverse(means.low), high=inverse(means.high), on_scale=means.effect,
        statistic=nothing, pvalue=nothing,
    )  # fmt: skip


def _words(names: list[str], values: Any) -> str:
    return ", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))


def _specs(specs: Any, by: Any) -> tuple[list[str], list[str], bool]:
    """Return the variables of the means, their groups, and whether differences are requested."""

    def listed(spec: Any) -> list[str]:
        if isinstance(spec, str):
            return [s.strip() for s in re.split(r"[+*:]", spec) if s.strip()]
        return [str(s) for s in spec] if isinstance(spec, (list, tuple)) else []

    paired = False
    if isinstance(specs, str) and "~" in specs:
        left, _, specs = (part.strip() for part in specs.partition("~"))
        paired = left == "pairwise"
        if left and not paired:
            raise RequestError(
                f"emmeans needs '~ a | b', or 'pairwise ~ a' for differences; got {shown(left)} "
                "before the '~'"
            )
    if isinstance(specs, str) and "|" in specs:
        specs, _, groups = (part.strip() for part in specs.partition("|"))
        by = groups if by is None else [*listed(by), *listed(groups)]
    factors, within = listed(specs), listed(by)
    return [w for w in factors if w not in within], within, paired


def means_of(over: Any) -> dict[str, float]:
    """Return means by name, from a release of means or moments, a mapping, or public rows."""
    if over is None:
        return {}
    if hasattr(over, "_record") and hasattr(over, "params"):
        if not over.released:
            raise NotReleasedError("the released means got no reply: there are none")
        return {str(k): float(v) for k, v in over.params.items() if "*" not in k and "^2" not in k}
    if hasattr(over, "columns") and hasattr(over, "mean"):
        return {str(c): float(over[c].mean()) for c in over.columns if over[c].dtype.kind in "fiub"}
    if isinstance(over, Mapping):
        return {str(k): float(np.mean(np.asarray(v, dtype=float))) for k, v in over.items()}
    raise RequestError(
        "means come from a release, dp.dp_mean('age + bmi ~ 1', ...) or dp.dp_moments(...), a "
        f"mapping {{'age': 40}} or public rows; got {type(over).__name__}"
    )


def estimated(fit: Any, X: Any) -> Array:
    """Return the columns of a design that a fit has coefficients of: hazards have no intercept."""
    names = fit.design.names
    places = [j for j, name in enumerate(names) if name != "Intercept"]
    alone = fit._record.estimate.names == tuple(names[j] for j in places)
    return np.asarray(X, dtype=float)[:, places if alone else slice(None)]


def every_chain(fit: Any, L: Array) -> tuple[Array, list[str]]:
    """Return rows of weights for every quantile of a fit, and the endings of their labels."""
    p, count = L.shape[1], len(fit._record.estimate.names)
    if count == p:
        return L, [""]
    taus = fit.options.get("tau")
    if not isinstance(taus, (list, tuple)) or len(taus) * p != count:
        raise RequestError(f"{fit.model} has no linear predictor to average")
    blocks = np.zeros((len(taus) * len(L), count))
    for k in range(len(taus)):
        blocks[k * len(L) : (k + 1) * len(L), k * p : (k + 1) * p] = L
    return blocks, [f", tau = {t:g}" for t in taus]


def predictors(fit: Any, requested: Iterable[Any] = ()) -> list[str]:
    """Return the variables of the right side; raise if a requested one is missing."""
    atoms = [atom for product in fit.design.program.products for atom in product.atoms]
    used: set[str] = set().union(*(atom.source.variables for atom in atoms))
    names = [name for name in fit.design.variables if name in used]
    for name in requested:
        check_among(name, names, f"{shown(name)} is not a predictor of this fit", "Predictors:")
    return names


def range_of(design: Any, name: str) -> tuple[float, float] | None:
    """Return the public range of a variable, declared or estimated; None where it is private."""
    ends = design.schema[name].interval or interval_of(design, name)
    return None if ends is None else (float(ends[0]), float(ends[1]))


def _held_numbers(
    fit: Any, axes: Mapping[str, tuple[list[Any], float | None]]
) -> tuple[list[str], list[str]]:
    """Return the numbers that are held at middles of ranges and at released centres, as text."""
    at = {name: value for name, (_, value) in axes.items() if value is not None}
    released = {name for name in at if released_centre(fit, name) is not None}
    texts = {name: f"{name} = {value:.4g}" for name, value in at.items()}
    middles = [text for name, text in texts.items() if name not in released]
    return middles, [text for name, text in texts.items() if name in released]


def released_centre(fit: Any, name: str) -> float | None:
    """Return the released centre of a number, or None if the fit has none."""
    centre = fit._record.estimate.arrays.get(f"centre({name})")
    return None if centre is None else float(centre[0])


def _cell_at(variable: Any, value: float) -> Any:
    """Return the cell of a number; a date or a duration is rounded to microseconds."""
    if variable.kind == "date":
        return np.datetime64(variable.start + round(value * TIME_UNITS[variable.unit]), "us")
    duration = getattr(variable, "duration", None)
    if duration is not None:
        return np.timedelta64(round(value * TIME_UNITS[duration]), "us")
    return value


def _axis(fit: Any, name: str, value: Any, is_factor: bool) -> tuple[list[Any], float | None]:
    """Return the points of one variable of the grid, and the value at which a number is held."""
    variable = fit.design.schema[name]
    if value is not None:
        points = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
        bad = [p for p in points if variable.codes and p not in variable.codes]
        if bad:
            codes = [str(c) for c in variable.codes]
            raise RequestError(
                f"at: {shown(bad[0])} is not a level of {name!r}.{did_you_mean(str(bad[0]), codes)}"
            )
        return points, None
    if variable.codes:
        return list(variable.codes), None
    if variable.kind == "binary":
        return [0, 1], None
    if is_factor:
        raise RequestError(
            f"{name!r} is numeric: give its values, emmeans({name!r}, at={{{name!r}: [...]}})"
        )
    centre = released_centre(fit, name)
    if centre is not None:
        return [_cell_at(variable, centre)], centre
    ends = range_of(fit.design, name)
    if ends is None:
        raise RequestError(f"the range of {name!r} is not public: hold it, at={{{name!r}: value}}")
    middle = (ends[0] + ends[1]) / 2.0
    return [_cell_at(variable, middle)], middle
