"""Event-study plots: effects by period against a reference period, with a joint band."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, check_among, shown
from dpmodels.formula.schema import label_of
from dpmodels.results.contrasts import Combinations, combine
from dpmodels.results.factors import hidden, levels_of, parts_of
from dpmodels.results.inference import all_labels, checked_errors, labelled
from dpmodels.results.joint import joined
from dpmodels.tables.table import new_axes, one_line


@dataclass(frozen=True)
class Periods:
    """Coefficients of one factor whose levels are periods."""

    factor: str
    other: str  # The rest of the interaction, empty for a main effect
    at: dict[float, int | None]  # Period -> place of its coefficient, None for the base


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def periods_of(fit: Any) -> list[Periods]:
    """Return the factors with numeric levels, each main effect and interaction by itself."""
    record, gone = fit._record, hidden(fit._record)
    groups: dict[tuple[str, str], dict[float, int | None]] = {}
    for j, name in enumerate(record.estimate.names):
        levels = levels_of(name)
        if name in gone or len(levels) != 1 or not math.isfinite(_number(levels[0][1])):
            continue
        factor, level, compared = levels[0]
        other = ":".join(part for part in parts_of(name) if not levels_of(part))
        group = groups.setdefault((factor, other), {})
        if compared and not group:  # the base has no coefficient: it is the level that stays
            declared = getattr(record.design.kinds.get(factor), "levels", None) or ()
            group.update(dict.fromkeys(_number(str(x)) for x in declared))
        group[_number(level)] = j
    return [
        Periods(factor, other, dict(sorted(at.items()))) for (factor, other), at in groups.items()
    ]


def _chosen(fit: Any, term: str | None) -> Periods:
    """Return the periods that are asked for; refuse a fit that has none, or several."""
    every = {
        f"{periods.factor}:{periods.other}" if periods.other else periods.factor: periods
        for periods in periods_of(fit)
    }
    if not every:
        raise RequestError(
            "iplot needs a factor whose levels are periods, y ~ C(period) with "
            "dp.Levels([-2, -1, 0, 1]) in the schema"
        )
    if term is None and len(every) > 1:
        raise RequestError(f"iplot: which factor? term={next(iter(every))!r}, of {list(every)}")
    name = next(iter(every)) if term is None else term
    check_among(name, every, f"term={shown(term)} is not a factor of periods", "Factors:")
    return every[name]


def effects_by_period(fit: Any, ref: Any, term: str | None, level: float) -> tuple[Any, Array]:
    """Return effects against the reference period, and their periods.

    Each effect is the coefficient of a period less that of ``ref``. So ``ref`` can be any period,
    whatever the reference level of the fit is.
    """
    checked_errors(fit._record)
    periods = _chosen(fit, term)
    at, p = periods.at, len(fit._record.estimate.names)
    if isinstance(ref, bool) or not isinstance(ref, (int, float)) or float(ref) not in at:
        raise RequestError(
            f"ref={shown(ref)} is not a period of {periods.factor!r}: "
            f"{', '.join(f'{t:g}' for t in at)}"
        )
    others = [t for t in at if t != float(ref)]
    L = np.zeros((len(others), p))
    for row, t in zip(L, others, strict=True):
        for sign, place in ((1.0, at[t]), (-1.0, at[float(ref)])):
            if place is not None:
                row[place] += sign
    labels = tuple(f"{periods.factor} = {t:g} - {ref:g}" for t in others)
    effects: Combinations = combine(
        fit._record, L, np.zeros(len(L)), labels, level, "Effect", xlabel="effect"
    )
    return effects, np.array(others)


def iplot(
    fit: Any, ref: Any = -1, *, term: str | None = None, level: float | None = None, ax: Any = None,
    joint: bool = True, color: str = "C0", zero: Any = None,
) -> Any:  # fmt: skip
    """Draw the effects of periods against a reference period: an event study.

    Parameters
    ----------
    fit : Fit
        With a factor whose levels are numbers, ``y ~ x + C(period) | id + year``, or with an
        interaction of it.
    ref : number
        Reference period, whose effect is 0. Any level of the factor.
    term : str, optional
        The factor, if the fit has several; of an interaction ``"period:treated"``.
    level : float, optional
        Default: the ``level`` of the fit.
    ax : matplotlib Axes, optional
    joint : bool
        Draw the band that holds for all periods together, behind the interval of each period.
    color : str
    zero : number, optional
        Where a dashed line marks the event. Default: half a step before the period after ``ref``.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    RequestError
        The fit has no factor of periods, or ``ref`` is not one of them.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    level = fit.level if level is None else level
    effects, times = effects_by_period(fit, ref, term, level)
    ax = new_axes(ax, (6.4, 3.8))
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    after = [t for t in times if t > float(ref)]
    event = (float(ref) + min(after)) / 2.0 if zero is None and after else zero
    if event is not None:
        ax.axvline(event, color="0.5", linewidth=0.8, linestyle="--")
    order = np.argsort(np.append(times, float(ref)))

    def with_reference(values: Array) -> Array:
        return np.append(values, 0.0)[order]

    at = np.append(times, float(ref))[order]
    if joint:
        band = joined(effects)
        ax.fill_between(at, with_reference(band.low), with_reference(band.high), color=color,
                        alpha=0.18, linewidth=0, label=f"{100 * level:g} % joint band")  # fmt: skip
    bars = np.nan_to_num([effects.effect - effects.low, effects.high - effects.effect])
    ax.errorbar(times, effects.effect, yerr=bars, fmt="o", color=color, elinewidth=1.4,
                label=f"{100 * level:g} % interval")  # fmt: skip
    ax.plot([float(ref)], [0.0], "o", color="white", markeredgecolor=color, zorder=3,
            label=f"reference: {ref:g}")  # fmt: skip
    ax.set_xticks(at, [f"{t:g}" for t in at])
    schema, response = fit.design.schema, fit.design.response
    ax.set_xlabel(label_of(schema, _chosen(fit, term).factor))
    of = "" if response is None else labelled(response.name, all_labels("schema", fit))
    ax.set_ylabel(f"effect on {of}" if of else "effect")
    ax.set_title(one_line(fit), fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax
