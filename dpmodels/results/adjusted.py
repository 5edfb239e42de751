"""Adjusted survival curves: survival of a hazard fit standardised over rows or released cells.

With weights w_i of public rows (or shares of released cells) and ``L_i = H(t) exp(x_i'b)`` the
curve of a level is ``S(t) = sum w_i exp(-L_i)``, every row set to the level. Errors are by the
delta method, with those of the baseline (``models/survival/theory.md``, 11).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, did_you_mean, shown
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.schema import label_of
from dpmodels.formula.survival import strata_codes
from dpmodels.lazy import pd
from dpmodels.results import inference
from dpmodels.results.capabilities import Held
from dpmodels.results.contrasts import Combinations, combine
from dpmodels.results.effects import cumulated, public_rows, released_times
from dpmodels.results.joint import joined
from dpmodels.tables.content import Column
from dpmodels.tables.numbers import by_row, places
from dpmodels.tables.table import Result, Table, also, grid, new_axes, one_line
from dpmodels.verbs import function_of

#: Smallest number of units in released cells, in sds of its noise.
_CELLS_CLEAR = 4.0


@dataclass(frozen=True, eq=False)
class AdjustedCurves(Result):
    """Adjusted survival by level of one variable at several times, with bands."""

    variable: str
    labels: tuple[str, ...]
    times: Array
    curves: Combinations  # of log(-log S), level by level
    gaps: Combinations | None  # differences of S between two levels, pair by pair
    xlabel: str
    title: str

    def tidy(self) -> pd.DataFrame:
        """Return one row per level and time."""
        at = self.curves
        S, low, high = (np.exp(-np.exp(v)) for v in (at.effect, at.high, at.low))
        columns = {"estimate": S, "std_error": S * np.exp(at.effect) * at.sd}
        levels = np.repeat(self.labels, len(self.times))
        index = {self.variable: levels, "time": np.tile(self.times, len(self.labels))}
        return pd.DataFrame({**index, **columns, "conf_low": low, "conf_high": high})

    def pairs(self, *, joint: bool = False) -> Combinations:
        """Return differences of survival between two levels at each time, first less second.

        ``joint``: with intervals that hold together. Post-processing: costs nothing.
        """
        if self.gaps is None:
            raise RequestError("pairs() needs two levels")
        with np.errstate(all="ignore"):  # at 0 nothing differs, and nothing is unknown
            return joined(self.gaps) if joint else self.gaps

    def table(self) -> Table:
        """Return the printed table."""
        frame, few = self.tidy(), places(self.tidy()["std_error"].to_numpy(), 4)
        numbers = [by_row(frame[name].to_numpy(), few, 4) for name in frame.columns[2:]]
        heads = ("Survival", "Std. Error", *inference.bound_names(self.curves.level))
        cells = zip(frame[self.variable], (f"{t:g}" for t in frame["time"]), *numbers, strict=True)
        first = (Column(self.variable, left=True, width=12), Column("Time", width=9))
        return grid(
            (*first, *(Column(h, width=10) for h in heads)), cells, title="Adjusted survival",
            facts=(("Fit", self.title),),
            notes=tuple(filter(None, (*self.curves.notes, self.curves.joint))),
        )  # fmt: skip

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the curves with their bands (needs matplotlib); ``colors=``, one per level."""
        ax, colors = new_axes(ax, (6.4, 4.0)), style.get("colors") or [f"C{i}" for i in range(10)]
        for i, (label, curve) in enumerate(self.tidy().groupby(self.variable, sort=False)):
            color, times = colors[i % len(colors)], np.append(0.0, curve["time"])
            S, low, high = (np.append(1.0, curve[k]) for k in ("estimate", "conf_low", "conf_high"))
            ax.plot(times, S, color=color, label=f"{self.variable}={label}")
            ax.fill_between(times, low, high, color=color, alpha=0.18, linewidth=0)
        ax.set(ylim=(0.0, 1.0), xlim=(0.0, None), xlabel=self.xlabel, ylabel="adjusted survival")
        ax.set_title(self.title, fontsize="small")
        ax.legend(frameon=False)
        return ax


class Standardised(Held):
    """Survival of a hazard model standardised over public rows or released cells."""

    __slots__ = ()

    @also.method
    def adjusted_curves(
        self, variable: Any, over: Any = None, *, times: Any = None, level: float | None = None,
        joint: bool = False,
    ) -> AdjustedCurves:  # fmt: skip
        """Standardise survival over rows in which one variable is set to each of its levels.

        Parameters
        ----------
        variable : str or mapping
            A factor or 0/1 variable of the fit, among the predictors or in ``strata()``; of a
            number its values, ``{"age": [40, 60]}``.
        over : DataFrame, mapping or fit of ``dp_table``
            Public rows with the other variables of the fit, with equal weights; or released counts
            of their cells, ``dp_table("~ sex * stage", ...)``, whose errors are in the bands.
        times : float or list of float, optional
            Default: the ends of the cells of the baseline.
        level : float, optional
        joint : bool
            Bands that hold at all times of all levels together.

        Returns
        -------
        AdjustedCurves
            ``tidy()``, ``plot()``, ``pairs()``, ``summary()``.

        Raises
        ------
        RequestError
            ``over=`` lacks a variable of the fit, or holds a row that is not complete.
        NotReleasedError
            The fit got no reply.

        Privacy
        -------
        Post-processing of released numbers: costs nothing. Rows given as ``over=`` must be public.
        """
        return _adjusted(self, variable, over, times, self._level(level), joint=joint)


@np.errstate(all="ignore")
def _adjusted(
    fit: Any, variable: Any, over: Any, times: Any, level: float, *, joint: bool
) -> AdjustedCurves:
    """Return the adjusted curves of a fit: see :meth:`Standardised.adjusted_curves`."""
    if not fit.released:
        raise NotReleasedError("this fit got no reply: there is nothing to adjust")
    used = needed_variables(f"~ {fit.formula.rpartition('~')[2]}", fit.design.variables)
    name, values = _values(fit, variable, used)
    table, weights, errors, note = _weighted_rows(fit, over, [v for v in used if v != name])
    edges, cumulative = cumulated(fit)
    at = edges[1:] if times is None else released_times(times, edges)
    H = np.array([np.interp(at, edges, hazard) for hazard in cumulative])  # (S, T)
    size, T, est = np.maximum(H, 1e-300), len(at), fit._record.estimate
    slopes = between(fit, "baseline_gradient", at) / size[:, None]  # (S, d, T)
    offset = (between(fit, "baseline_offset", at) / size).T  # (T, S)
    unknown, parts = errors > 0.0, []
    for value in values:
        rows = {**table, name: [value] * len(weights)}
        X = np.asarray(fit.design.matrix(rows), dtype=float)[:, 1:]
        code = strata_codes(fit.design, rows) if len(H) > 1 else np.zeros(len(X))
        if not len(X) or not np.isfinite(np.append(X.sum(axis=1), code)).all():
            raise RequestError(
                f"over= has no rows, or some whose cells are missing or not among the declared "
                f"levels of {', '.join(used)}: leave those out"
            )
        members = code == np.arange(len(H))[:, None]  # (S, n)
        hazard = H[code.astype(int)] * np.exp(X @ np.asarray(est.params))[:, None]  # (n, T)
        each = np.exp(-hazard)
        fallen = weights[:, None] * each * hazard
        by_stratum, by_row, mean = (members @ fallen).T, fallen.T @ X, weights @ each
        by_params = np.einsum("ts,sdt->td", by_stratum, slopes)
        by_params[:, 1 : X.shape[1] + 1] += by_row
        apart = (np.eye(T)[:, :, None] * by_stratum[:, None, :]).reshape(T, -1)
        moves = np.hstack([by_params, apart, (mean - each)[unknown].T])
        parts.append((mean, by_stratum, by_row, moves))
    S, *derivatives = (np.array(part) for part in zip(*parts, strict=True))

    def weights_of(signs: Array) -> Array:
        """Return weights (T, parameters) of a combination of levels (A,), its bias last."""
        by_stratum, by_row, moves = (np.tensordot(signs, part, 1) for part in derivatives)
        bound = est.bias_of(by_row)
        bias = (np.abs(by_stratum) * between(fit, "baseline_bias", at).T).sum(axis=1)
        return np.column_stack([moves, bias if bound is None else bias + bound])

    def combined(L: list[Array], who: list[str], what: str, effect: Array) -> Combinations:
        names = tuple(f"{label} at {t:g}" for label in who for t in at)
        rows = np.concatenate(L)
        return combine(record, rows, np.zeros(len(rows)), names, level, what, notes, effect=effect)

    record = _extended(fit, np.concatenate([offset.ravel(), errors[unknown]]))
    cause, unit = fit.design.survival.causes, np.eye(len(values))
    notes = (note, *((f"Of {cause[0]} alone: as if no other cause acted.",) if cause else ()))
    labels = [f"{name}={v}" for v in values]
    log_H = np.log(np.maximum(-np.log(np.clip(S, 1e-300, 1.0)), 1e-300))
    scale = np.maximum(S * np.exp(log_H), 1e-300)[..., None]
    L = [weights_of(signs) / by for signs, by in zip(unit, scale, strict=True)]
    curves, gaps = combined(L, labels, "log(-log S)", log_H.ravel()), None
    if both := list(itertools.combinations(range(len(values)), 2)):
        who = [f"{labels[i]} - {labels[j]}" for i, j in both]
        L = [weights_of(unit[j] - unit[i]) for i, j in both]
        gaps = combined(L, who, "Difference", np.concatenate([S[i] - S[j] for i, j in both]))
    return AdjustedCurves(
        name, tuple(map(str, values)), at, joined(curves) if joint else curves, gaps,
        label_of(fit.design.schema, fit.design.survival.names[1]), one_line(fit),
    )  # fmt: skip


def between(fit: Any, name: str, at: Array) -> Array:
    """Return (S, ..., times) of an array of ends of cells, straight between them, 0 at first."""
    ends = np.moveaxis(np.asarray(fit.arrays[name]), 1, -1)
    before = np.concatenate([np.zeros((*ends.shape[:-1], 1)), ends], axis=-1)
    flat = before.reshape(-1, before.shape[-1])
    values = np.array([np.interp(at, fit.arrays["edges"], row) for row in flat])
    return values.reshape(*before.shape[:-1], len(at))


def _extended(fit: Any, errors: Array) -> Any:
    """Return the record of a fit with all parameters that adjusted curves move by.

    Intercept, coefficients and time terms, independent ones of sd ``errors`` (k,), and a last one
    without error whose bias is at most 1.
    """
    baseline = np.asarray(fit.arrays["baseline_vcov"])
    d, total = len(baseline), len(baseline) + len(errors) + 1
    V = np.diag(np.concatenate([np.zeros(d), errors**2, [0.0]]))
    V[:d, :d] = baseline
    estimate = replace(
        fit._record.estimate, names=tuple(f"p{k}" for k in range(total)), params=np.zeros(total),
        vcov_sampling=V, vcov_privacy=np.zeros_like(V), bias=np.eye(total)[-1], bias_bound=None,
        untested=None, arrays={},
    )  # fmt: skip
    return replace(fit._record, estimate=estimate)


def _levels(fit: Any, name: str) -> list[Any]:
    """Return the levels of a variable, none of a number."""
    kind = fit.design.schema[name]
    return list(kind.codes or ([0, 1] if kind.kind == "binary" else []))


def _values(fit: Any, variable: Any, used: tuple[str, ...]) -> tuple[str, list[Any]]:
    """Return the variable that is set, and its values."""
    is_mapping = isinstance(variable, Mapping) and len(variable) == 1
    name = next(iter(variable)) if is_mapping else variable
    if not isinstance(name, str) or name not in used:
        raise RequestError(
            f"{shown(name)} is not one variable of this fit.{did_you_mean(str(name), used)} "
            f"Variables: {', '.join(used)}"
        )
    levels = _levels(fit, name)
    values = np.atleast_1d(variable[name]).tolist() if is_mapping else levels
    if not values or (levels and not set(values) <= set(levels)):
        raise RequestError(
            f"{shown(values)} are not values of {name!r}: give some, {{{name!r}: "
            f"{levels or [40, 60]}}}"
        )
    return name, values


def _weighted_rows(
    fit: Any, over: Any, needed: list[str]
) -> tuple[dict[str, Any], Array, Array, str]:
    """Return rows to standardise over, their weights with errors (0 of public ones), a note."""
    released = hasattr(over, "_record")
    refused = RequestError(
        f"curves differ by {', '.join(needed)}, and over= must hold them: public rows, over=frame, "
        f"or released cells without numbers, over=dp.dp_table('~ {' * '.join(needed)}', ...)"
    )
    if (over is None and needed) or (released and over.model != "dp_table"):
        raise refused
    if not released:
        rows = public_rows(fit, over, needed, constant=not needed, word="over")
        return rows.table, np.full(rows.n, 1.0 / max(rows.n, 1)), np.zeros(rows.n), rows.notes[0]
    sections = function_of("dpmodels.models.table.show:parts")(over._record)
    texts = {v: {str(x): x for x in _levels(fit, v)} for v in needed}
    for _, items, numbers in sections:  # noqa: B007
        if items[0].statistic == "n" and set(needed) <= set(dict(items[0].cell)):
            break
    else:
        raise refused
    cells = [dict(item.cell) for item in items]
    inside = [k for k, cell in enumerate(cells) if all(cell[v] in texts[v] for v in needed)]
    counts, noise = numbers["estimate"][inside], numbers["se_privacy"][inside]
    total = float(counts.sum())
    if not total > _CELLS_CLEAR * float(np.sqrt((noise**2).sum())):
        raise NotReleasedError(f"the counts of these {len(inside)} cells sink into their noise")
    columns = {v: np.array([texts[v][cells[k][v]] for k in inside]) for v in needed}
    errors = np.hypot(noise / total, np.sqrt(np.maximum(counts, 0.0)) / total)
    note = f"Standardised over {len(inside)} released cells: {over.privacy.statement()}."
    return columns, counts / total, errors, note
