"""Average slopes, comparisons and predictions, over public rows or at released means.

With mu the mean at a linear predictor x'b, an average is ``a(b) = mean_i w_i mu(x_i'b)`` or a
difference of such; its gradient is that of the same sum, ``mean_i w_i mu'(x_i'b) x_i``, and its
error follows by the delta method, with the bias bound of the combination that the gradient is.
No private row is averaged over: rows are public, or one row of released means stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotPrivateWarning, RequestError, did_you_mean, shown
from dpmodels.quiet import tell
from dpmodels.results.contrasts import (
    Combinations,
    combine,
    estimated,
    every_chain,
    means_of,
    predictors,
)
from dpmodels.results.joint import checked_errors
from dpmodels.results.record import interval_of
from dpmodels.verbs import new_release

if TYPE_CHECKING:
    from dpmodels.families import Link
    from dpmodels.results.fit import Fit

#: Half a step of a slope, over the range of the variable.
_STEP = 1e-4
#: Rows of ``newdata`` beyond these are refused: an average over so many is a job for a release.
_MOST = 2_000_000


@dataclass(frozen=True, eq=False)
class _Rows:
    """Public rows to average over: a table of columns, and what is said of them."""

    table: dict[str, Any]
    n: int
    notes: tuple[str, ...]
    #: Of released means: their names, and their covariance.
    means: tuple[str, ...] = ()
    spread: Array | None = None

    def with_(self, **cells: Any) -> dict[str, Any]:
        """Return the rows with some variables replaced."""
        out = dict(self.table)
        for name, value in cells.items():
            out[name] = value if isinstance(value, np.ndarray) else [value] * self.n
        return out


def _rows(fit: Fit, newdata: Any, needed: list[str], *, constant: bool) -> _Rows:
    """Return the rows to average over; none are needed where everything is the same everywhere."""
    if newdata is None and constant:
        from dpmodels.formula.span import public_points

        return _Rows(public_points(fit.design, 1, (1.0, 2.0)), 1, ("The same at every row.",))
    if newdata is None:
        raise RequestError(
            "what is averaged differs from row to row, and a fit keeps no rows: give public ones, "
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
            f"newdata has no column {shown(absent[0])}.{did_you_mean(absent[0], listed)} It needs "
            f"{', '.join(needed)}"
        )
    table = {name: np.atleast_1d(np.asarray(newdata[name])) for name in listed}
    n = max(len(cells) for cells in table.values())
    table = {k: np.repeat(v, n) if len(v) == 1 else v for k, v in table.items()}
    if n > _MOST:
        raise RequestError(f"newdata has {n} rows; at most {_MOST} are averaged over")
    if fit.nobs == n and n > 1:
        tell(
            NotPrivateWarning(
                f"newdata has {n} rows, as many as the fit was made from. If they are the same, "
                "this average is a release that nobody paid for: NOT PRIVATE. Use public rows, or "
                "released means"
            )
        )
    text = f"Averaged over {n} public row{'s' if n > 1 else ''}, to which errors are conditional."
    return _Rows(table, n, (text,))


def _at_means(fit: Fit, released: Any, needed: list[str]) -> _Rows:
    """Return one row of released means; levels of a factor in turn, with equal weights."""
    import itertools

    means = means_of(released)
    axes, said = {}, []
    for name in needed:
        variable = fit.design.schema[name]
        if name in means and not variable.codes:
            axes[name] = [means[name]]
            said.append(f"{name} = {means[name]:.4g}")
        elif variable.codes:
            axes[name] = list(variable.codes)
        else:
            raise RequestError(
                f"the release holds no mean of {name!r}.{did_you_mean(name, means)} It holds "
                f"{', '.join(means)}"
            )
    cells = list(itertools.product(*axes.values()))
    table = {name: np.array([c[k] for c in cells]) for k, name in enumerate(axes)}
    moving = tuple(name for name in needed if len(axes[name]) == 1 and name in means)
    V = _covariance(released, moving)
    text = f"At released means ({', '.join(said)}), " + (
        "to which errors are conditional" if V is None else "whose own errors are in those here"
    )
    even = [name for name in needed if fit.design.schema[name].codes]
    text += f"; equal weights to the levels of {', '.join(even)}." if even else "."
    return _Rows(table, len(cells), (text,), moving if V is not None else (), V)


def _covariance(released: Any, names: tuple[str, ...]) -> Array | None:
    """Return the covariance of released means, noise and sampling; None where it is not known."""
    if not names or not hasattr(released, "vcov"):
        return None
    V = released.vcov()
    if not set(names) <= set(V.index) or not np.isfinite(V.loc[[*names], [*names]]).all().all():
        return None
    return np.asarray(V.loc[[*names], [*names]], dtype=float)


def _link(fit: Fit) -> Link:
    from dpmodels.families import LINKS

    return LINKS[fit.kind.link_name(fit.options)]


def _mean(fit: Fit, table: dict[str, Any]) -> tuple[Array, Array]:
    """Return (mu, gradients) of every row and chain: (chains, n) and (chains, n, p)."""
    from dpmodels.results.predict import linear_predictor

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


def _wanted(fit: Fit, variables: Any) -> list[str]:
    known = predictors(fit)
    listed = [variables] if isinstance(variables, str) else list(variables or known)
    for name in listed:
        if name not in known:
            raise RequestError(
                f"{shown(name)} is no predictor of this fit.{did_you_mean(name, known)} "
                f"Predictors: {', '.join(known)}"
            )
    if not listed:
        raise RequestError("this fit has no predictor")
    return listed


def _is_factor(fit: Fit, name: str) -> bool:
    variable = fit.design.schema[name]
    return bool(variable.codes) or variable.kind == "binary"


def _levels(fit: Fit, name: str) -> list[Any]:
    variable = fit.design.schema[name]
    return list(variable.codes) if variable.codes else [0, 1]


def _width(fit: Fit, name: str) -> float:
    ends = fit.design.schema[name].interval or interval_of(fit.design, name)
    return 1.0 if ends is None else max(float(ends[1]) - float(ends[0]), 1e-12)


def _groups(rows: _Rows, by: Any) -> dict[str, Any]:
    """Return the group's words -> places of its rows."""
    if by is None:
        return {"": np.arange(rows.n)}
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in rows.table:
            raise RequestError(
                f"by={shown(name)} is no column of newdata.{did_you_mean(name, rows.table)}"
            )
    found: dict[str, Any] = {}
    for i, key in enumerate(zip(*(rows.table[name] for name in names), strict=True)):
        words = ", ".join(f"{n} = {v}" for n, v in zip(names, key, strict=True))
        found.setdefault(words, []).append(i)
    return {words: np.array(at) for words, at in found.items()}


def _made(
    fit: Fit, parts_of: Callable[[_Rows], list[tuple[str, Array, Array]]], rows: _Rows, by: Any,
    level: float, what: str, xlabel: str,
) -> Combinations:  # fmt: skip
    """Return averages by group of labelled values (chains, n) with gradients (chains, n, p)."""
    labels, effect, L, families = [], [], [], []
    parts = parts_of(rows)
    for words, at in _groups(rows, by).items():
        for label, values, gradients in parts:
            known = at[np.isfinite(values[:, at]).all(axis=0)]
            if not len(known):
                raise RequestError(
                    f"no row of newdata{f' with {words}' if words else ''} has all its cells: "
                    "compare its levels and ranges with the declared ones"
                )
            mean = gradients[:, known].mean(axis=1)
            for chain, value in enumerate(values[:, known].mean(axis=1)):
                row, names = every_chain(fit, mean[chain][None])
                own = f"{label}{names[chain]}"  # groups are compared for one variable
                alone = words and len(parts) == len(names) == 1
                labels.append(words if alone else f"{words} | {own}" if words else own)
                effect.append(float(value))
                L.append(row[chain if len(names) > 1 else 0])
                families.append("" if alone else own)
    families = families if by is not None and any(families) else []
    return combine(
        fit._record, np.array(L), np.zeros(len(L)), tuple(labels), level, what, rows.notes,
        effect=np.array(effect), extra=_by_means(parts_of, rows, by), groups=tuple(families),
        xlabel=xlabel,
    )  # fmt: skip


def _by_means(
    parts_of: Callable[[_Rows], list[tuple[str, Array, Array]]], rows: _Rows, by: Any
) -> Array | None:
    """Return the variance that released means bring, by how the averages move with each of them."""
    if rows.spread is None or by is not None:
        return None
    slopes = []
    for k, name in enumerate(rows.means):
        h = max(float(np.sqrt(rows.spread[k, k])), 1e-12) / 2.0
        ends = []
        for sign in (1.0, -1.0):
            moved = replace(rows, table=rows.with_(**{name: _numbers(rows, name) + sign * h}))
            ends.append(np.concatenate([v.mean(axis=1) for _, v, _ in parts_of(moved)]))
        slopes.append((ends[0] - ends[1]) / (2.0 * h))
    D = np.array(slopes)
    return np.asarray(np.einsum("ki,kl,li->i", D, rows.spread, D))


def _response(fit: Fit) -> str:
    return "" if fit.design.response is None else str(fit.design.response.name)


def charged_means(fit: Fit, data: Any, paid: Mapping[str, Any]) -> Any:
    """Return means of the predictors, released from private rows for a charge of their own.

    None of ``eps, delta, budget, seed`` is given: the rows are public, and are returned.
    """
    given = {k: v for k, v in paid.items() if v is not None}
    if not given:
        return data
    unknown = [k for k in given if k not in ("eps", "delta", "budget", "seed")]
    if unknown:
        raise RequestError(
            f"no argument {unknown[0]}=: newdata, variables=, by=, level=, and eps=, delta=, "
            "budget= for an average over private rows"
        )
    if data is None or "eps" not in given or "delta" not in given:
        raise RequestError(
            "an average over private rows is a release of its own, of the means of the predictors: "
            "newdata=data, eps=..., delta=..."
        )
    if _link(fit).name != "identity":
        raise RequestError(
            f"with the link {_link(fit).name!r} an average over rows is no function of released "
            "means: give public rows, or take the effect at the means, "
            "newdata=dp.dp_mean('x + z ~ 1', data, ...)"
        )
    numbers = [n for n in predictors(fit) if not fit.design.schema[n].codes]
    if not numbers:
        raise RequestError("there is no number among the predictors to release a mean of")
    return new_release("means")(fit, numbers, data, **given)


def avg_predictions(fit: Fit, newdata: Any, by: Any, variables: Any, level: float) -> Combinations:
    """Return averaged predictions, at given values of some variables in turn if asked."""
    checked_errors(fit._record)
    known = predictors(fit)
    values: dict[str, list[Any]] = {}
    if variables is not None:
        asked = (
            variables if isinstance(variables, Mapping) else dict.fromkeys(_wanted(fit, variables))
        )
        for name, given in asked.items():
            _wanted(fit, name)
            if given is None and not _is_factor(fit, name):
                raise RequestError(
                    f"{name!r} is a number: say at which values, variables={{{name!r}: [...]}}"
                )
            several = isinstance(given, (list, tuple, np.ndarray))
            values[name] = (
                _levels(fit, name) if given is None else list(given) if several else [given]
            )
    needed = [name for name in known if name not in values]
    rows = _rows(fit, newdata, needed, constant=not needed)
    import itertools

    def parts(rows: _Rows) -> list[tuple[str, Array, Array]]:
        out = []
        for cell in itertools.product(*values.values()):
            at = dict(zip(values, cell, strict=True))
            label = ", ".join(f"{n} = {v}" for n, v in at.items()) or "average"
            out.append((label, *_mean(fit, rows.with_(**at))))
        return out

    return _made(fit, parts, rows, by, level, "Mean", f"average prediction of {_response(fit)}")


def _difference(
    fit: Fit, rows: _Rows, first: dict[str, Any], second: dict[str, Any], over: float = 1.0
) -> tuple[Array, Array]:
    """Return (mu at the second less mu at the first) / over, with gradients."""
    (low, left), (high, right) = (_mean(fit, rows.with_(**cells)) for cells in (first, second))
    return (high - low) / over, (right - left) / over


def _numbers(rows: _Rows, name: str) -> Array:
    return np.asarray(rows.table[name], dtype=float)


def _same_everywhere(fit: Fit, names: list[str]) -> bool:
    """Say whether changes of these variables move the mean alike at every row."""
    from dpmodels.formula.span import public_points

    if _link(fit).name != "identity":
        return False
    points = _Rows(public_points(fit.design, 64, (1.0, 2.0)), 64, ())
    for name in names:
        if _is_factor(fit, name):
            levels = _levels(fit, name)
            changes = [({name: levels[0]}, {name: level}, 1.0) for level in levels[1:]]
        else:
            h, x = _STEP * _width(fit, name), _numbers(points, name)
            changes = [({name: x - h}, {name: x + h}, 2.0 * h)]
        for first, second, over in changes:
            gradient = _difference(fit, points, first, second, over)[1]
            spread = np.abs(gradient - gradient[:, :1]).max()
            if spread > 1e-6 * max(float(np.abs(gradient).max()), 1.0):
                return False
    return True


def avg_slopes(fit: Fit, newdata: Any, variables: Any, by: Any, level: float) -> Combinations:
    """Return average slopes of numbers, and differences from the first level of factors."""
    checked_errors(fit._record)
    names = _wanted(fit, variables)
    needed = predictors(fit)
    constant = by is None and newdata is None and _same_everywhere(fit, names)
    rows = _rows(fit, newdata, needed, constant=constant)

    def parts(rows: _Rows) -> list[tuple[str, Array, Array]]:
        out = []
        for name in names:
            if _is_factor(fit, name):
                out += _of_factor(fit, rows, name)
                continue
            h, x = _STEP * _width(fit, name), _numbers(rows, name)
            out.append((name, *_difference(fit, rows, {name: x - h}, {name: x + h}, 2.0 * h)))
        return out

    label = f"average slope of {_response(fit)}"
    return _made(fit, parts, rows, by, level, "Slope", label)


def _of_factor(fit: Fit, rows: _Rows, name: str) -> list[tuple[str, Array, Array]]:
    first, *others = _levels(fit, name)
    return [
        (f"{name}: {other} - {first}", *_difference(fit, rows, {name: first}, {name: other}))
        for other in others
    ]


def avg_comparisons(fit: Fit, variables: Any, newdata: Any, by: Any, level: float) -> Combinations:
    """Return average changes of the mean when variables change."""
    checked_errors(fit._record)
    asked = dict(variables) if isinstance(variables, Mapping) else None
    names = _wanted(fit, list(asked) if asked is not None else variables)
    constant = newdata is None and by is None and _same_everywhere(fit, names)
    rows = _rows(fit, newdata, predictors(fit), constant=constant)

    def parts(rows: _Rows) -> list[tuple[str, Array, Array]]:
        out = []
        for name in names:
            change = None if asked is None else asked[name]
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

    label = f"average change of {_response(fit)}"
    return _made(fit, parts, rows, by, level, "Comparison", label)
