"""Average slopes, comparisons and predictions, over public rows or at released means.

With mu the mean at a linear predictor x'b, an average is ``a(b) = mean_i w_i mu(x_i'b)`` or a
difference of such; its gradient is that of the same sum, ``mean_i w_i mu'(x_i'b) x_i``, and its
error follows by the delta method, with the bias bound of the combination that the gradient is.
No private row is averaged over: rows are public, or one row of released means stands for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.after.inference import LEAST_SHOWN, of_classes
from dpmodels.after.moments import HANDLED, UNKNOWN, about_mean_row, about_nothing, prior, shrunken
from dpmodels.arrays import Array
from dpmodels.errors import (
    NotPrivateWarning,
    NotReleasedError,
    RequestError,
    check_among,
    choice,
    did_you_mean,
    shown,
)
from dpmodels.families import LINKS, Link
from dpmodels.formula.build import build_design
from dpmodels.formula.describe import public_points
from dpmodels.formula.reading import coerce_all
from dpmodels.lazy import pd
from dpmodels.quiet import tell
from dpmodels.records import Estimate
from dpmodels.results import inference
from dpmodels.results.contrasts import (
    Combinations,
    combine,
    estimated,
    every_chain,
    means_of,
    predictors,
    range_of,
)
from dpmodels.results.inference import checked_errors
from dpmodels.results.moments import information_of
from dpmodels.results.record import Record
from dpmodels.survey import Survey
from dpmodels.variables import Levels
from dpmodels.verbs import new_release, verb_of

#: Half a step of a slope, over the range of the variable.
_STEP = 1e-4
#: More rows of ``newdata`` are refused: an average over that many needs a release.
_MOST = 2_000_000


@dataclass(frozen=True, eq=False)
class _Rows:
    """Public rows to average over: a table of columns, and its notes."""

    table: dict[str, Any]
    n: int
    notes: tuple[str, ...]
    #: Names of released means, and their covariance.
    means: tuple[str, ...] = ()
    spread: Array | None = None

    def with_(self, **cells: Any) -> dict[str, Any]:
        """Return the rows with some variables replaced."""
        out = dict(self.table)
        for name, value in cells.items():
            out[name] = value if isinstance(value, np.ndarray) else [value] * self.n
        return out


def public_rows(
    fit: Any, newdata: Any, needed: list[str], *, constant: bool, word: str = "newdata"
) -> _Rows:
    """Return the rows to average over; none are needed where everything is the same everywhere."""
    if newdata is None and constant:
        return _Rows(public_points(fit.design, 1, (1.0, 2.0)), 1, ("The same at every row.",))
    if newdata is None:
        raise RequestError(
            "this effect differs from row to row, and a fit contains no rows: give public ones, "
            f"newdata=frame with {', '.join(needed)}, or released means, "
            f"newdata=dp.dp_mean('{' + '.join(needed)} ~ 1', ...)"
        )
    if hasattr(newdata, "_record"):
        return _at_means(fit, newdata, needed)
    columns = getattr(newdata, "columns", None)
    listed = list(columns if columns is not None else newdata)
    absent = [name for name in needed if name not in listed]
    if absent:
        raise RequestError(
            f"{word} has no column {shown(absent[0])}.{did_you_mean(absent[0], listed)} It needs "
            f"{', '.join(needed)}"
        )
    table = {name: np.atleast_1d(np.asarray(newdata[name])) for name in listed}
    n = max(len(cells) for cells in table.values())
    table = {k: np.repeat(v, n) if len(v) == 1 else v for k, v in table.items()}
    if n > _MOST:
        raise RequestError(f"{word} has {n} rows; at most {_MOST} are averaged over")
    if fit.nobs == n and n > 1:
        tell(
            NotPrivateWarning(
                f"{word} has {n} rows, as many as the fit was made from. If they are the same, "
                "this average is an uncharged release: NOT PRIVATE. Use public rows, or "
                "released means"
            )
        )
    text = f"Averaged over {n} public row{'s' if n > 1 else ''}: errors treat these rows as fixed."
    return _Rows(table, n, (text,))


def _at_means(fit: Any, released: Any, needed: list[str]) -> _Rows:
    """Return one row of released means; levels of a factor in turn, with equal weights."""
    means = means_of(released)
    axes, facts = {}, []
    for name in needed:
        variable = fit.design.schema[name]
        if name in means and not variable.codes:
            axes[name] = [means[name]]
            facts.append(f"{name} = {means[name]:.4g}")
        elif variable.codes:
            axes[name] = list(variable.codes)
        else:
            raise RequestError(
                f"the release holds no mean of {name!r}.{did_you_mean(name, means)} It holds "
                f"{', '.join(means)}"
            )
    cells = list(itertools.product(*axes.values()))
    table = {name: np.array([c[k] for c in cells]) for k, name in enumerate(axes)}
    moving = [name for name in needed if len(axes[name]) == 1 and name in means]
    V = released.vcov() if moving and hasattr(released, "vcov") else None
    if V is not None:  # noise and sampling, where both are known
        has_errors = set(moving) <= set(V.index)
        V = np.asarray(V.loc[moving, moving], dtype=float) if has_errors else None
        V = V if V is not None and np.isfinite(V).all() else None
    text = f"At released means ({', '.join(facts)}), " + (
        "which errors treat as fixed" if V is None else "whose own errors are in those here"
    )
    even = [name for name in needed if fit.design.schema[name].codes]
    text += f"; equal weights to the levels of {', '.join(even)}." if even else "."
    notes = (text, *_of_release(released))
    return _Rows(table, len(cells), notes, tuple(moving) if V is not None else (), V)


def _of_release(released: Any) -> tuple[str, ...]:
    """Return the rows that released means are of, and the guarantee of their release."""
    design, sample = released.design, released._record.call.survey
    facts = [f"{name} {text}" for name, text in (("subset", design.subset),
            ("weights", design.weights)) if text]  # fmt: skip
    facts += [f"design {Survey.from_dict(sample).text}"] if sample is not None else []
    used = f"The means are of: {', '.join(facts)}. " if facts else ""
    return (f"{used}Privacy of the means: {released.privacy.statement()}.",)


def _link(fit: Any) -> Link:
    return LINKS[fit.kind.link_name(fit.options)]


def _mean(fit: Any, table: dict[str, Any]) -> tuple[Array, Array]:
    """Return (mu, gradients) of every row and chain: (chains, n) and (chains, n, p)."""
    link, b = _link(fit), np.asarray(fit._record.estimate.params)
    n = len(next(iter(table.values())))
    X = estimated(fit, fit.design.matrix(table, outside="extrapolate"))
    p = X.shape[1]
    chains = len(b) // p
    eta = X @ b.reshape(chains, p).T
    if fit.design.offset is not None:
        eta = eta + (linear_predictor(fit, table, "extrapolate")[0] - eta[:, 0])[:, None]
    mu = link.inverse(eta).T.reshape(chains, n)
    return mu, link.slope(eta).T[:, :, None] * X[None]


def _listed_variables(fit: Any, variables: Any) -> list[str]:
    """Return the requested predictors as a list, or all of them."""
    listed = [variables] if isinstance(variables, str) else list(variables or predictors(fit))
    predictors(fit, listed)
    if not listed:
        raise RequestError("this fit has no predictor")
    return listed


def _is_factor(fit: Any, name: str) -> bool:
    variable = fit.design.schema[name]
    return bool(variable.codes) or variable.kind == "binary"


def _levels(fit: Any, name: str) -> list[Any]:
    variable = fit.design.schema[name]
    return list(variable.codes) if variable.codes else [0, 1]


def _groups(rows: _Rows, by: Any) -> dict[str, Any]:
    """Return the group's words -> indices of its rows."""
    if by is None:
        return {"": np.arange(rows.n)}
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        check_among(name, rows.table, f"by={shown(name)} is not a column of newdata")
    places: dict[str, Any] = {}
    for i, key in enumerate(zip(*(rows.table[name] for name in names), strict=True)):
        words = ", ".join(f"{n} = {v}" for n, v in zip(names, key, strict=True))
        places.setdefault(words, []).append(i)
    return {words: np.array(at) for words, at in places.items()}


def _grouped_averages(
    fit: Any, parts_of: Callable[[_Rows], list[tuple[str, Array, Array]]], rows: _Rows, by: Any,
    level: float, what: str, axis: str,
) -> Combinations:  # fmt: skip
    """Return averages by group of labelled values (chains, n) with gradients (chains, n, p)."""
    labels, effect, L, families = [], [], [], []
    parts = parts_of(rows)
    for words, at in _groups(rows, by).items():
        for label, values, gradients in parts:
            finite = at[np.isfinite(values[:, at]).all(axis=0)]
            if not len(finite):
                raise RequestError(
                    f"no row of newdata{f' with {words}' if words else ''} has all its cells: "
                    "compare its levels and ranges with the declared ones"
                )
            mean = gradients[:, finite].mean(axis=1)
            for chain, value in enumerate(values[:, finite].mean(axis=1)):
                row, names = every_chain(fit, mean[chain][None])
                effect_name = f"{label}{names[chain]}"  # groups are compared for one variable
                alone = words and len(parts) == len(names) == 1
                labels.append(
                    words if alone else f"{words} | {effect_name}" if words else effect_name
                )
                effect.append(float(value))
                L.append(row[chain if len(names) > 1 else 0])
                families.append("" if alone else effect_name)
    extra = None
    if rows.spread is not None and by is None:  # what means bring, by how averages move with each
        slopes = []
        for k, name in enumerate(rows.means):
            h = max(float(np.sqrt(rows.spread[k, k])), 1e-12) / 2.0
            ends = []
            for sign in (1.0, -1.0):
                moved = replace(rows, table=rows.with_(**{name: _numbers(rows, name) + sign * h}))
                ends.append(np.concatenate([v.mean(axis=1) for _, v, _ in parts_of(moved)]))
            slopes.append((ends[0] - ends[1]) / (2.0 * h))
        D = np.array(slopes)
        extra = np.asarray(np.einsum("ki,kl,li->i", D, rows.spread, D))
    families = families if by is not None and any(families) else []
    response = "" if fit.design.response is None else str(fit.design.response.name)
    return combine(
        fit._record, np.array(L), np.zeros(len(L)), tuple(labels), level, what, rows.notes,
        effect=np.array(effect), extra=extra, groups=tuple(families), xlabel=f"{axis} {response}",
    )  # fmt: skip


def charged_means(fit: Any, data: Any, paid: Mapping[str, Any]) -> Any:
    """Return means of the predictors, released from private rows for a separate charge.

    None of ``eps, delta, budget, seed`` is given: the rows are public, and are returned.
    """
    paid_arguments = {k: v for k, v in paid.items() if v is not None}
    if not paid_arguments:
        return data
    unknown = [k for k in paid_arguments if k not in ("eps", "delta", "budget", "seed")]
    if unknown:
        raise RequestError(
            f"no argument {unknown[0]}=: newdata, variables=, by=, level=, and eps=, delta=, "
            "budget= for an average over private rows, which are those that the fit used and are "
            "protected as the fit protects them (unit, relation, subset, weights, design)"
        )
    if data is None or "eps" not in paid_arguments or "delta" not in paid_arguments:
        raise RequestError(
            "an average over private rows needs another release, of the means of the predictors: "
            "newdata=data, eps=..., delta=..."
        )
    if _link(fit).name != "identity":
        raise RequestError(
            f"with the link {_link(fit).name!r} an average over rows is not a function of released "
            "means: give public rows, or ask for the effect at the means, "
            "newdata=dp.dp_mean('x + z ~ 1', data, ...)"
        )
    numbers = [n for n in predictors(fit) if not fit.design.schema[n].codes]
    if not numbers:
        raise RequestError("there is no number among the predictors to release a mean of")
    return new_release("means")(fit, numbers, data, **paid_arguments)


def avg_predictions(fit: Any, newdata: Any, by: Any, variables: Any, level: float) -> Combinations:
    """Return averaged predictions, at given values of some variables in turn if asked."""
    checked_errors(fit._record)
    names = predictors(fit)
    values: dict[str, list[Any]] = {}
    if variables is not None:
        requested = (
            variables
            if isinstance(variables, Mapping)
            else dict.fromkeys(_listed_variables(fit, variables))
        )
        for name, value in requested.items():
            _listed_variables(fit, name)
            if value is None and not _is_factor(fit, name):
                raise RequestError(
                    f"{name!r} is numeric: give its values, variables={{{name!r}: [...]}}"
                )
            several = isinstance(value, (list, tuple, np.ndarray))
            values[name] = (
                _levels(fit, name) if value is None else list(value) if several else [value]
            )
    needed = [name for name in names if name not in values]
    rows = public_rows(fit, newdata, needed, constant=not needed)

    def parts(rows: _Rows) -> list[tuple[str, Array, Array]]:
        out = []
        for cell in itertools.product(*values.values()):
            at = dict(zip(values, cell, strict=True))
            label = ", ".join(f"{n} = {v}" for n, v in at.items()) or "average"
            out.append((label, *_mean(fit, rows.with_(**at))))
        return out

    return _grouped_averages(fit, parts, rows, by, level, "Mean", "average prediction of")


def _difference(
    fit: Any, rows: _Rows, first: dict[str, Any], second: dict[str, Any], over: float = 1.0
) -> tuple[Array, Array]:
    """Return (mu at the second less mu at the first) / over, with gradients."""
    (low, left), (high, right) = (_mean(fit, rows.with_(**cells)) for cells in (first, second))
    return (high - low) / over, (right - left) / over


def _numbers(rows: _Rows, name: str) -> Array:
    return np.asarray(rows.table[name], dtype=float)


def _same_everywhere(fit: Any, names: list[str]) -> bool:
    """Return whether changes of these variables move the mean equally at every row."""
    if _link(fit).name != "identity":
        return False
    points = _Rows(public_points(fit.design, 64, (1.0, 2.0)), 64, ())
    for name in names:
        if _is_factor(fit, name):
            levels = _levels(fit, name)
            changes = [({name: levels[0]}, {name: level}, 1.0) for level in levels[1:]]
        else:
            changes = [_around(fit, points, name)]
        for first, second, over in changes:
            gradient = _difference(fit, points, first, second, over)[1]
            spread = np.abs(gradient - gradient[:, :1]).max()
            if spread > 1e-6 * max(float(np.abs(gradient).max()), 1.0):
                return False
    return True


def _around(fit: Any, rows: _Rows, name: str) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Return a number slightly lower, one slightly higher, and the step between them."""
    ends, x = range_of(fit.design, name), _numbers(rows, name)
    h = _STEP * (1.0 if ends is None else max(ends[1] - ends[0], 1e-12))
    return {name: x - h}, {name: x + h}, 2.0 * h


def avg_slopes(fit: Any, newdata: Any, variables: Any, by: Any, level: float) -> Combinations:
    """Return average slopes of numeric variables, and differences to the first level of factors."""
    checked_errors(fit._record)
    names = _listed_variables(fit, variables)
    constant = by is None and newdata is None and _same_everywhere(fit, names)
    rows = public_rows(fit, newdata, predictors(fit), constant=constant)

    def parts(rows: _Rows) -> list[tuple[str, Array, Array]]:
        out = []
        for name in names:
            if _is_factor(fit, name):
                out += _of_factor(fit, rows, name)
            else:
                out.append((name, *_difference(fit, rows, *_around(fit, rows, name))))
        return out

    return _grouped_averages(fit, parts, rows, by, level, "Slope", "average slope of")


def _of_factor(fit: Any, rows: _Rows, name: str) -> list[tuple[str, Array, Array]]:
    """Return the difference of each level from the first, with its gradient and variance."""
    first, *others = _levels(fit, name)
    return [
        (f"{name}: {other} - {first}", *_difference(fit, rows, {name: first}, {name: other}))
        for other in others
    ]


def avg_comparisons(fit: Any, variables: Any, newdata: Any, by: Any, level: float) -> Combinations:
    """Return average changes of the mean when variables change."""
    checked_errors(fit._record)
    changes = dict(variables) if isinstance(variables, Mapping) else None
    names = _listed_variables(fit, list(changes) if changes is not None else variables)
    constant = newdata is None and by is None and _same_everywhere(fit, names)
    rows = public_rows(fit, newdata, predictors(fit), constant=constant)

    def parts(rows: _Rows) -> list[tuple[str, Array, Array]]:
        out = []
        for name in names:
            change = None if changes is None else changes[name]
            if isinstance(change, (list, tuple)) and len(change) == 2:
                low, high = change
                label = f"{name}: {high} - {low}"
                out.append((label, *_difference(fit, rows, {name: low}, {name: high})))
            elif _is_factor(fit, name) and change is None:
                out += _of_factor(fit, rows, name)
            elif isinstance(change, (int, float)) or change is None:
                step = 1.0 if change is None else float(change)
                x = _numbers(rows, name)
                label = f"{name}: +{step:g}"
                out.append((label, *_difference(fit, rows, {name: x}, {name: x + step})))
            else:
                raise RequestError(
                    f"variables={{{name!r}: {shown(change)}}}: give how much more, "
                    f"{{{name!r}: 10}}, or from and to, {{{name!r}: (20, 60)}}"
                )
        return out

    return _grouped_averages(fit, parts, rows, by, level, "Comparison", "average change of")


# -- Predictions from released coefficients: eta = X theta, se^2 = x' V x; quantiles; classes.
#
# The total covariance V = V_sampling + V_privacy carries the noise that was added for privacy, so
# intervals of a prediction do too.


def linear_predictor(fit: Any, new: Any, outside: str) -> tuple[Array, Array, Any]:
    """Return (eta, X, index): X is (k, p), NaN in the rows with a missing cell."""
    choice("outside", outside, ("clip", "nan", "extrapolate"))
    X = np.asarray(fit.design.matrix(new, outside=outside), dtype=float)
    eta = X @ np.asarray(fit._record.estimate.params)
    if fit.design.offset is not None:  # the known part, ``offset(z)``
        text = f"~ 0 + I({fit.design.offset})"
        offset_design = build_design(text, fit.design.schema, na=fit.design.na, one_sided_ok=True)
        eta = eta + np.asarray(offset_design.matrix(new, outside=outside), dtype=float)[:, 0]
    return eta, X, getattr(new, "index", None)


def shrunk(record: Record) -> Array:
    """Return the coefficients for predictions, as they are where there is no public guess."""
    est, design = record.estimate, record.design
    b, p = np.asarray(est.params), len(design.columns)
    link = LINKS.get(verb_of(record.call.verb).link_name(record.call.options))
    response = None if design.response is None else design.response.interval
    if link is None or link.name not in HANDLED or response is None or est.vcov_privacy is None:
        return b
    ends, V = design.intervals()[:p], inference.covariance(est)
    # hazards and effects of people have no intercept: no public guess is of them
    if not np.isfinite(ends).all() or len(b) % p:
        return b
    middle, level, tau2 = prior(link, response, est.stats)
    level *= 1.0 if design.offset is None else UNKNOWN
    b0, D = _public_guess(record, ends, (middle, level, tau2), of_response=link.name == "identity")
    out = np.array(b)
    for at in range(0, len(b), p):
        block = slice(at, at + p)
        if np.isfinite(b[block]).all() and np.isfinite(V[block, block]).all():
            out[block] = shrunken(b[block], V[block, block], b0, D)
    return out


def _public_guess(
    record: Record, ends: Array, guess: tuple[float, float, float], *, of_response: bool
) -> tuple[Array, Array]:
    """Return mean and covariance of the prior of a design, by its released information."""
    design, S = record.design, information_of(record)
    kinds = [column.kind for column in design.columns]
    if "intercept" in kinds:
        return about_mean_row(S, ends, kinds.index("intercept"), guess)
    X = np.asarray(design.matrix(public_points(design, 64)), dtype=float)
    X = X[np.isfinite(X).all(axis=1)]
    a = np.linalg.lstsq(X, np.ones(len(X)), rcond=None)[0]
    constant = a if np.abs(X @ a - 1.0).max() < 1e-6 else None
    square = None
    if S is not None and constant is not None:
        square = np.diag(S) / float(constant @ S @ constant)
    elif S is not None and of_response:  # in units of half the range of the response
        low, high = design.response.interval
        square = np.diag(S) * ((high - low) / 2.0) ** 2
    return about_nothing(square, ends, constant, guess)


def regression(
    fit: Any, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict a regression with an inverse link: mean (or link), intervals, standard errors.

    The mean is by the shrunk coefficients (``Fit.shrunk``). Confidence intervals are of the
    estimate: transformed end points of the linear predictor's; standard errors of a mean use the
    delta method. A prediction interval adds the released residual variance and
    exists for the identity link only.
    """
    choice("what", what, ("mean", "link"))
    choice("interval", interval, (None, "confidence", "prediction"))
    link = fit.kind.link_name(fit.options)
    shown = LINKS["identity" if what == "link" else link]
    inverse = shown.inverse
    eta, X, index = linear_predictor(fit, new, outside)
    mean = inverse(eta + X @ (shrunk(fit._record) - np.asarray(fit._record.estimate.params)))
    if interval is None and not se_fit:
        return pd.Series(mean, index=index, name="fit")
    est = fit._record.estimate
    se = spread(X, inference.covariance(est))
    columns = {"fit": mean}
    if interval == "prediction" and link != "identity":
        raise RequestError('interval="prediction" needs a linear model; use interval="confidence"')
    if interval == "prediction" and fit.stats.get("sigma") is None:
        raise NotReleasedError(
            'interval="prediction" needs the residual variance, which this fit does not '
            "have: none is released with weights=, and nothing is spent on it without "
            "inference=True"
        )
    if interval is not None:
        sigma = fit.stats["sigma"] if interval == "prediction" else 0.0
        wide = np.sqrt(se**2 + sigma**2) if sigma else se
        half = inference.half_width(wide, est.bias_of(X), level, est.use_t)
        columns |= {"lwr": inverse(eta - half), "upr": inverse(eta + half)}
    if se_fit:
        columns["se_fit"] = shown.slope(eta) * se
    return pd.DataFrame(columns, index=index)


def widths(est: Estimate, X: Array, level: float) -> tuple[Array, Array]:
    """Return (standard errors, half widths of bias-aware intervals) of ``X b``, (k,) each."""
    se = spread(X, inference.covariance(est))
    return se, inference.half_width(se, est.bias_of(X), level, est.use_t)


def spread(X: Array, V: Array) -> Array:
    """Return (k,) standard errors of ``X b``; NaN where a coefficient without errors enters."""
    lost = np.isnan(np.diag(V))
    covariance = np.where(lost[:, None] | lost[None, :], 0.0, V)
    se = np.sqrt(np.einsum("kp,pq,kq->k", X, covariance, X))
    se[(X[:, lost] != 0).any(axis=1)] = np.nan
    return np.asarray(se)


def predict_quantiles(fit: Any, new: Any, **options: Any) -> Any:
    """Predict one quantile like any regression, several as a frame with one column per quantile.

    Where fitted quantiles cross they are rearranged, in every row in ascending order (Chernozhukov,
    Fernandez-Val and Galichon 2010: never further from the truth).
    """
    taus = fit.options["tau"]
    if not isinstance(taus, (list, tuple)) or len(taus) < 2:
        return regression(fit, new, **options)
    if options["interval"] is not None or options["se_fit"]:
        raise RequestError(
            "intervals of predictions are given for one quantile: fit one alone, as in tau=0.5"
        )
    X = np.asarray(fit.design.matrix(new, outside=options["outside"]), dtype=float)
    params = shrunk(fit._record).reshape(len(taus), X.shape[1])
    values = np.sort(X @ params.T, axis=1)
    index = getattr(new, "index", None)
    return pd.DataFrame(values, index=index, columns=[f"tau = {t:g}" for t in sorted(taus)])


def _errors_of_odds(arrays: Mapping[str, Array], x: Array, p: Array) -> Array:
    """Return standard errors (m, K) of log odds of classes, to first order (``bayes.md``, 7.6)."""
    v, room = arrays["variances"], np.maximum(1.0 - p, LEAST_SHOWN)
    gap = (x[:, None] - arrays["means"]) / v  # of a log posterior by a mean, and by a variance:
    bend = 0.5 * (gap**2 - 1.0 / v)
    w = (np.eye(p.shape[1]) - p[:, None]) / room[:, :, None]  # of log odds by log posteriors
    by_mean, by_variance = w[..., None] * gap[:, None], w[..., None] * bend[:, None]
    if len(arrays["variance_of_variances"]) == 1:  # shared by the classes
        by_variance = by_variance.sum(2, keepdims=True)
    noisy = by_mean + by_variance * arrays["variance_by_mean"]
    each = by_mean**2 * arrays["sampling_of_means"] + noisy**2 * arrays["privacy_of_means"]
    others = by_variance**2 * arrays["variance_of_variances"]
    total = w**2 @ arrays["variance_of_log_priors"] + each.sum((2, 3)) + others.sum((2, 3))
    return np.asarray(np.sqrt(total))


def predict_class(
    fit: Any, new: Any, *, what: str, outside: str, interval: str | None, se_fit: bool, level: float
) -> Any:
    """Predict classes (``what="class"``) or their probabilities (``"prob"``)."""
    choice("what", what, ("mean", "class", "prob"))
    choice("interval", interval, (None, "confidence"))
    design, arrays, levels = fit.design, fit.arrays, list(fit.design.levels)
    if (interval is not None or se_fit) and what != "prob":
        raise RequestError(
            "a class has no interval= and no se_fit=: its probability has, predict(new, "
            'what="prob", interval="confidence")'
        )
    keep = [j for j, c in enumerate(design.columns) if c.kind != "intercept"]
    x = np.asarray(design.matrix(new, outside=outside), dtype=float)[:, keep]
    index, score = getattr(new, "index", None), np.full((len(x), len(levels)), np.nan)
    missing = np.isnan(x).any(axis=1) | (not fit.released)
    if fit.released:  # log posteriors up to common terms
        distance = (x[:, None] - arrays["means"]) ** 2 / arrays["variances"]
        logs = np.log(arrays["prior"]) - 0.5 * np.log(arrays["variances"]).sum(axis=1)
        score = logs - 0.5 * distance.sum(axis=2)
    if what == "prob":
        p = np.exp(score - score.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if interval is None and not se_fit:
            return pd.DataFrame(p, index=index, columns=levels)
        if fit.released and "variance_of_variances" not in arrays:
            raise NotReleasedError(
                "these probabilities have no errors: no variances of classes were released. "
                "variance='shared' or 'class' of method 'sums' or 'eptr' releases them"
            )
        se = _errors_of_odds(arrays, x, p) if fit.released else p
        half = inference.quantile(level) * se
        return of_classes(levels, p, se, half, index, interval=interval, se_fit=se_fit)
    best = np.where(missing, 0, np.nan_to_num(score, nan=-np.inf).argmax(axis=1))
    classes = pd.Series([levels[k] for k in best.tolist()], index=index, name="class")
    return classes.mask(missing) if missing.any() else classes


def _truth(fit: Any, new: Any) -> list[Any]:
    """Return the true class of each public row as the model reads it; None where it is missing."""
    design, levels = fit.design, list(fit.design.levels)
    name = design.response.term
    variable = design.schema[name] if name in design.schema else None  # noqa: SIM401
    if variable is not None and name not in new:
        raise RequestError(f"the new data has no column {name!r}, the response")
    if isinstance(variable, Levels):
        codes = coerce_all({name: new[name]}, {name: variable})[name]
        return [variable.levels[c] if c >= 0 else None for c in codes.tolist()]
    if variable is not None:
        cells = np.asarray(coerce_all({name: new[name]}, {name: variable})[name], float)
    else:
        text = "~ 0 + " + design.formula.partition("~")[0]
        event = build_design(text, design.schema, na=design.na, one_sided_ok=True)
        cells = np.asarray(event.matrix(new), dtype=float)[:, -1]
    return [levels[int(c)] if c in (0.0, 1.0) else None for c in cells.tolist()]


def _guess(fit: Any, new: Any) -> list[Any]:
    """Return the predicted class of each public row; for an event, the likelier outcome."""
    predicted = fit.predict(new)
    if fit.design.response.kind == "event":
        no, yes = fit.design.levels
        return [None if q != q else (yes if q > 0.5 else no) for q in predicted.tolist()]
    return [None if v != v else v for v in predicted.tolist()]


def confusion_table(fit: Any, new: Any) -> pd.DataFrame:
    """Count public test rows by true class (rows) and predicted class (columns).

    Parameters
    ----------
    fit : Fit
        Of a classifier, or of ``dp_glm(family="binomial")``, which predicts the event where its
        probability exceeds one half.
    new : DataFrame
        **Public** test data with the variables of the response. Rows without a known class or
        prediction are not counted.

    Privacy
    -------
    A function of released numbers and of ``new``; on private rows the table would be an uncharged
    release.
    """
    response = fit.design.response
    if response is None or len(fit.design.levels) < 2:
        raise RequestError(
            f"{fit.kind.name} does not predict classes: confusion_table() and balanced_error() "
            'need a fit of dp_bayes, or of dp_glm(family="binomial")'
        )
    if fit.nobs is not None and fit.nobs == len(new):
        text = (
            f"these are {len(new)} rows, as many as the fit was made from. If they are the same, "
            "this table is an uncharged release: NOT PRIVATE. Use public rows"
        )
        tell(NotPrivateWarning(text))
    levels = list(fit.design.levels)
    at = {level: k for k, level in enumerate(levels)}
    counts = np.zeros((len(levels), len(levels)), dtype=int)
    for true, guess in zip(_truth(fit, new), _guess(fit, new), strict=True):
        if true in at and guess in at:
            counts[at[true], at[guess]] += 1
    table = pd.DataFrame(counts, index=levels, columns=levels)
    return table.rename_axis(index="true", columns="predicted")


def balanced_error(fit: Any, new: Any) -> float:
    """Return one minus the mean recall over the classes present in public test data.

    Parameters
    ----------
    fit, new
        As in :func:`confusion_table`.

    Returns
    -------
    float
        NaN if the fit gave no reply.

    Privacy
    -------
    As :func:`confusion_table`.
    """
    table = confusion_table(fit, new).to_numpy(dtype=float)
    total = table.sum(axis=1)
    present = total > 0
    if not present.any():
        if not fit.released:
            return float("nan")
        raise RequestError(
            f"no row of the new data has one of the classes {list(fit.design.levels)!r} and a "
            "prediction: compare the cells of the response with the declared levels"
        )
    return float(1.0 - (np.diag(table)[present] / total[present]).mean())


def cumulated(fit: Any) -> tuple[Array, Array]:
    """Return (edges (K + 1,), cumulative baseline hazard at each (S, K + 1))."""
    arrays = fit.arrays
    edges, rates = np.asarray(arrays["edges"]), np.atleast_2d(np.asarray(arrays["baseline"]))
    cumulative = np.cumsum(rates * np.diff(edges), axis=1)
    return edges, np.concatenate([np.zeros((len(rates), 1)), cumulative], axis=1)


def released_times(times: Any, edges: Array) -> Array:
    """Return public times, or refuse those that were not followed."""
    at: Any = None
    first, last = max(float(edges[0]), 0.0), float(edges[-1])
    try:
        at = np.atleast_1d(np.asarray(times, dtype=float))
    except (TypeError, ValueError):
        at = None
    if at is None or at.ndim != 1 or not np.isfinite(at).all():
        raise RequestError(f"times= must be numbers between {first:g} and {last:g}")
    if (at < first).any() or (at > last).any():
        odd = at[(at < first) | (at > last)][0]
        raise RequestError(
            f"times= holds {odd:g}; follow-up was released from {first:g} to {last:g}"
        )
    return np.asarray(at, dtype=float)
