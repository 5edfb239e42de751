"""Coefficient plots. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dpmodels.errors import RequestError, check_among, choice
from dpmodels.errors import shown as quoted
from dpmodels.results.effect_curve import effect_curve
from dpmodels.results.factors import hidden
from dpmodels.results.fit import Fit
from dpmodels.results.inference import (
    Labels,
    all_labels,
    labelled,
    plain_name,
    quantile,
    series,
    terms_of,
)
from dpmodels.tables.pictures import wrap_label
from dpmodels.tables.table import Axes, new_axes, one_line

#: Rows between the marks of two fits in one plot.
APART = 0.2


@dataclass
class _Drawn:
    """Contents of axes: a name for each row and a title for each fit."""

    names: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    ours: bool = False


_DRAWN: WeakKeyDictionary[Any, _Drawn] = WeakKeyDictionary()


def coefplot(
    fit: Fit,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    intercept: bool = False,
    color: str | None = None,
    labels: Labels = "schema",
    names: Sequence[str] | None = None,
    scale: str = "raw",
    groups: Any = None,
    term: str | None = None,
    at: Mapping[str, Any] | None = None,
    exponentiate: bool = False,
    joint: bool = False,
) -> Any:
    """Draw estimates with two nested error bars: inner sampling error only, outer total.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Default: a new figure. Axes that hold a coefficient plot already get this fit beside it: a
        coefficient of the same name in the same row, a little lower, new names below.
    intercept : bool
        Show the intercept too.
    color : str, optional
        Default: the next colour of the axes.
    labels : mapping or "schema", optional
        Coefficient -> what is printed; "schema": the labels of the schema; None: names as typed.
    names : sequence of str, optional
        Coefficients to show, in this order.
    scale : {"raw", "standardised"}
        "standardised": each coefficient times half the public range of its column, so that one with
        small units is not flattened by the others.
    groups : "terms" or mapping of str to list of str, optional
        Panels with separate scales: one a term, or title -> coefficients. Returns their axes.
    term : str, optional
        In place of coefficients the mean as this variable moves over its range, with its band; the
        others are held at the middle of their range or their first level, or as ``at`` says.
    at : mapping, optional
        Of ``term``.
    exponentiate : bool
        Odds, rate or hazard ratios: exp of estimates and of ends of intervals, on a log axis.
    joint : bool
        Intervals that hold for all coefficients of the fit together; of ``term`` a joint band.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    choice("scale", scale, ("raw", "standardised"))
    if term is not None:
        return effect_curve(fit, term, ax, level=level, at=at, color=color, joint=joint)
    if groups is not None:
        return _panels(
            fit, groups, level=level, color=color, labels=labels, scale=scale,
            exponentiate=exponentiate, joint=joint,
        )  # fmt: skip
    labels = all_labels(labels, fit)
    bars = _bars_of(fit, ax, level, scale, names, joint)
    gone = hidden(fit._record) if names is None else ()
    shown = [name for name in bars.shown(names, intercept) if name not in gone]
    chosen = list(names or shown)
    if ax is None:
        lines = sum(wrap_label(labelled(n, labels)).count("\n") for n in chosen)
        ax = new_axes(None, (7.0, 1.1 + 0.45 * len(chosen) + 0.15 * lines))
        _DRAWN[ax] = _Drawn(ours=True)
    drawn = _DRAWN.setdefault(ax, _Drawn())
    drawn.names += [name for name in chosen if name not in drawn.names]
    k = len(drawn.titles)
    drawn.titles.append(one_line(fit))
    if k == 1:  # of several fits each has its number in the legend
        first = ax.containers[0]
        first.set_label(f"(1) {first.get_label()}")
    _draw_bars(ax, bars.of(shown), [drawn.names.index(name) + APART * k for name in shown],
               (f"({k + 1})" if k else f"{100 * level:g} % {'joint ' * joint}interval",
                None if k else "sampling error alone"),
               color or f"C{k}", exponentiate)  # fmt: skip
    _set_rows(ax, drawn, labels)
    if not k:
        ax.axvline(1.0 if exponentiate else 0.0, color="0.6", linewidth=0.8, zorder=0)
        what = "ratio" if exponentiate else "estimate"
        ax.set_xlabel(what if scale == "raw" else f"{what} x half the range of its column")
    if exponentiate:
        _set_log_axis(ax, first=not k)
    several = "\n".join(f"({i + 1}) {t}" for i, t in enumerate(drawn.titles))
    ax.set_title(several if k else drawn.titles[0], fontsize="small")
    _set_legend(ax, below=bool(k and drawn.ours))
    return ax


@dataclass(frozen=True)
class _Bars:
    """Estimates and half lengths of their two error bars, by the names in the plot."""

    estimates: Any
    total: Any  # with the bound of a bias
    sampling: Any
    scaled: Any  # factor of each, or None for no scaling

    def shown(self, names: Sequence[str] | None, intercept: bool) -> list[str]:
        """Return the coefficients that are drawn, in their order."""
        every = list(self.estimates.index)
        listed = [n for n in every if intercept or n != "Intercept"]
        if names is not None:
            listed = [name for name in names if name in every]
        return [n for n in listed if self.scaled is None or np.isfinite(self.scaled[n])]

    def of(self, names: Sequence[str]) -> _Bars:
        """Return the bars of some names, in this order."""
        listed = list(names)
        return _Bars(self.estimates[listed], self.total[listed], self.sampling[listed], None)


def _bars_of(
    fit: Any, ax: Axes | None, level: float, scale: str, names: Sequence[str] | None,
    joint: bool = False,
) -> _Bars:  # fmt: skip
    """Return the bars of a fit; C(g)[T.x] and g[T.x] share one row of the axes."""
    estimates: Any = fit.params
    before = [] if ax is None or ax not in _DRAWN else _DRAWN[ax].names
    shown_as = {plain_name(name): name for name in [*(names or ()), *before]}
    renamed = {name: shown_as.get(plain_name(name), name) for name in estimates.index}
    ends = fit.conf_int(level, joint=joint)
    half = (ends.iloc[:, 1] - ends.iloc[:, 0]) / 2.0
    inner = quantile(level, fit._record.estimate.use_t) * fit.bse_sampling
    bars = _Bars(estimates.rename(renamed), half.rename(renamed), inner.rename(renamed), None)
    if scale == "raw":
        return bars
    columns = {c.name: c.interval for c in fit.design.columns}
    listed = [columns.get(n.partition(" [tau")[0]) for n in fit._record.estimate.names]
    halves = [float("nan") if i is None else (i[1] - i[0]) / 2.0 for i in listed]
    unit = series(np.array(halves), fit._record.estimate.names, "half range").rename(renamed)
    return _Bars(bars.estimates * unit, bars.total * unit, bars.sampling * unit, unit)


def _draw_bars(
    ax: Any, bars: _Bars, rows: list[float], labels: tuple[str | None, str | None], color: str,
    exponentiate: bool,
) -> None:  # fmt: skip
    """Draw a thin bar of the total error, a thick one of the sampling error, and the marks."""
    middle = np.exp(bars.estimates) if exponentiate else bars.estimates
    for length, width, label in zip((bars.total, bars.sampling), (1.2, 4.0), labels, strict=True):
        if length.isna().all():  # nothing to draw, and nothing to explain
            continue
        shown = length
        if exponentiate:
            low, high = (np.exp(bars.estimates + sign * length) for sign in (-1.0, 1.0))
            shown = np.stack([middle - low, high - middle])
        ax.errorbar(
            middle, rows, xerr=shown, fmt="none", ecolor=color, elinewidth=width, label=label
        )
    ax.plot(middle, rows, "o", color="white", markeredgecolor=color, zorder=3)


def _set_rows(ax: Any, drawn: _Drawn, labels: Mapping[str, str] | None) -> None:
    """Name the rows, and give each fit but the first more room in a figure of our own."""
    k = len(drawn.titles) - 1
    ticks = [wrap_label(labelled(name, labels)) for name in drawn.names]
    ax.set_yticks(list(range(len(drawn.names))), ticks)
    ax.set_ylim(len(drawn.names) - 1 + APART * k + 0.5, -0.5)  # first name on top, no bar cut
    if k and drawn.ours:  # a line of the title, room between the marks of a row, the legend below
        width, height = ax.figure.get_size_inches()
        height += 0.25 * (k == 1)
        ax.figure.set_size_inches(width, height + 0.15 + APART * 0.45 * len(drawn.names))


def _set_log_axis(ax: Any, *, first: bool) -> None:
    """Show ratios on a log axis: plain numbers, several of them also where the axis is short."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    if first:
        ax.set_xscale("log")
    low, high = ax.get_xlim()
    subs = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9) if high < 4 * low else (1, 2, 5)
    ax.xaxis.set_major_locator(LogLocator(subs=subs if high < 200 * low else (1,)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _set_legend(ax: Any, *, below: bool) -> None:
    """Set the legend into the axes, or one for the figure below them."""
    marks, texts = ax.get_legend_handles_labels()
    style: dict[str, Any] = {"fontsize": "small", "framealpha": 0.8, "edgecolor": "none"}
    if marks and not below:
        ax.legend(**style)
    elif marks:
        for old in [ax.get_legend(), *ax.figure.legends]:
            if old is not None:
                old.remove()
        ax.figure.legend(marks, texts, loc="outside lower center", ncols=len(marks), **style)


def _panels(
    fit: Fit, groups: Any, *, level: float, color: str | None, labels: Any, scale: str,
    exponentiate: bool, joint: bool = False,
) -> Any:  # fmt: skip
    """Draw groups of coefficients in panels with separate scales."""
    import matplotlib.pyplot as plt

    every = fit._record.estimate.names
    if groups == "terms":
        panels: dict[str, list[str]] = {}
        for name, places in terms_of(fit._record).items():
            listed = [every[j] for j in places]
            if listed not in panels.values():
                panels[name] = listed
    else:
        panels = {str(k): [v] if isinstance(v, str) else list(v) for k, v in dict(groups).items()}
        for name in (name for listed in panels.values() for name in listed):
            problem = f"groups= names {quoted(name)}, which is not a coefficient"
            check_among(name, every, problem, "Coefficients:")
    if not panels:
        raise RequestError("groups= leaves no coefficient to show")
    heights = [len(v) + 0.8 for v in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(7.0, 0.6 + 0.42 * sum(heights)), height_ratios=heights,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    marks: Any = None
    for k, (ax, (title, listed)) in enumerate(zip(axes[:, 0], panels.items(), strict=True)):
        coefplot(fit, ax, level=level, color=color or "C0", labels=labels, names=listed,
                 scale=scale, exponentiate=exponentiate, joint=joint)  # fmt: skip
        ax.set_title(title, fontsize="small")
        if ax.get_legend() is not None:  # one for all panels, below them
            marks = ax.get_legend_handles_labels()
            ax.get_legend().remove()
        if k < len(panels) - 1:
            ax.set_xlabel("")
    if marks is not None:
        figure.legend(*marks, loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    figure.suptitle(one_line(fit), fontsize="small")
    return axes[:, 0]
