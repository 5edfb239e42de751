"""Pictures of tables and quantiles: means with intervals, counts, histograms, distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.errors import NotReleasedError, RequestError, choice, did_you_mean
from dpmodels.formula.schema import label_of
from dpmodels.lazy import special
from dpmodels.models.table.layout import Section
from dpmodels.models.table.show import cell_of, layout_from, parts, title_of
from dpmodels.tables.pictures import draw_histogram
from dpmodels.tables.table import Axes, new_axes, one_line


def _chosen(fit: Any, what: str | None) -> Any:
    """Return the section to draw: the last with bins, means with groups, else the first."""
    # of a histogram and a mean of one variable, which have one name, the histogram
    listed = sorted(parts(fit._record), key=lambda part: part[0].kind == "counts")
    sections = {_name(fit, s): (s, items, numbers) for s, items, numbers in listed}
    if what is None:
        rank = {"means": 1, "counts": 2, "quantiles": 3}
        best = min(sections, key=lambda k: (not sections[k][0].axes, rank[sections[k][0].kind]))
        return sections[best]
    if what not in sections:
        raise RequestError(
            f"what={what!r} is not a part of this table.{did_you_mean(what, sections)} "
            f"Parts: {', '.join(map(repr, sections))}"
        )
    return sections[what]


def _one_a_variable(fit: Any) -> list[str]:
    """Return the parts that show every variable once: numbers by groups, then counts of others."""
    layout = layout_from(fit._record)
    sections = sorted((s for s, _, _ in parts(fit._record)), key=lambda s: len(s.axes) or 99)
    out: list[Section] = []
    shown: dict[str, set[str]] = {}
    for section in (s for s in sections if s.kind != "counts"):
        by = {layout.axes[j].name for j in section.axes}
        axes_shown = shown.setdefault(section.variable, set())
        if not by <= axes_shown or not any(s.variable == section.variable for s in out):
            out.append(section)
            axes_shown |= by
    binned = {column.name for s in sections if (column := _binned(fit, s)) is not None}
    out = [s for s in out if s.axes or s.kind != "means" or s.variable not in binned]
    seen = {s.variable for s in out}.union(*shown.values()) - binned
    for section in (s for s in sections if s.kind == "counts"):
        names = {layout.axes[j].name for j in section.axes}
        if not names <= seen:
            out.append(section)
            seen |= names
    return [_name(fit, section) for section in out]


def _panels_of(fit: Any, names: list[str], level: float, color: str) -> Any:
    """Draw parts of a table below each other, under one title."""
    import matplotlib.pyplot as plt

    sections = {name: _chosen(fit, name)[:2] for name in names}
    heights = [
        3.0 if sections[name][0].kind == "counts" else 1.0 + 0.28 * len(sections[name][1])
        for name in names
    ]
    figure, axes = plt.subplots(
        len(names), 1, figsize=(6.4, 0.4 + sum(heights)), height_ratios=heights,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for ax, name in zip(axes[:, 0], names, strict=True):
        plot_table(fit, ax, level=level, what=name, color=color)
        ax.set_title(name, fontsize="small")
    figure.suptitle(one_line(fit), fontsize="small")
    return axes[:, 0]


def _name(fit: Any, section: Section) -> str:
    head = "quantiles of " if section.kind == "quantiles" else ""
    return head + title_of(layout_from(fit._record), section)


def plot_table(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, what: str | None = None,
    color: str = "C0", kind: str = "bars",
) -> Axes:  # fmt: skip
    """Draw a table: means as dots with error bars, counts as bars with error bars.

    Where ``what`` is left out every variable is drawn, in panels below each other if there are
    several; the axes are then returned as an array.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
    level : float
        That of the fit: the intervals are made with it.
    what : str, optional
        ``"wage by region"``, ``"region"``, ``"region x gender"``. Default: each numeric variable by
        its groups, and counts of variables without an axis; with ``ax`` the first of these.
    color : str
    kind : {"bars", "density", "ecdf"}
        Of a histogram: its bars, the density, or the empirical distribution with its band.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    if not fit.released:
        raise NotReleasedError("there was no reply: nothing to draw")
    choice("kind", kind, ("bars", "density", "ecdf"))
    if kind != "bars":
        return _distribution(fit, what, ax, level, color, kind)
    several = _one_a_variable(fit) if what is None and ax is None else []
    if len(several) > 1:
        return _panels_of(fit, several, level, color)
    section, items, numbers = _chosen(fit, several[0] if several else what)
    if section.kind == "means":
        keep = [i for i, item in enumerate(items) if item.statistic == "mean"]
    elif section.kind == "counts":
        keep = [i for i, item in enumerate(items) if "(missing)" not in dict(item.cell).values()]
    else:
        keep = list(range(len(items)))
    labels = [cell_of(items[i]) for i in keep]
    values = numbers["estimate"][keep]
    low, high = numbers["low"][keep], numbers["high"][keep]
    bars = np.nan_to_num(np.abs(np.stack([values - low, high - values])))
    ax = new_axes(ax, (6.0, 1.0 + 0.28 * len(keep) if section.kind != "counts" else 3.4))
    text = f"{100 * level:g} % interval"
    column = _binned(fit, section)
    if column is not None:
        edges = np.linspace(column.interval[0], column.interval[1], len(keep) + 1)
        draw_histogram(ax, edges, values, (low, high), color=color, label=text)
        ax.set_xlabel(label_of(fit.design.schema, column.name))
    elif section.kind == "counts":
        at = np.arange(len(keep))
        ax.bar(at, values, color=color, alpha=0.5, width=0.95 if "bin" in str(labels) else 0.8)
        ax.errorbar(at, values, yerr=bars, fmt="none", ecolor="0.2", elinewidth=1.2, label=text)
        long = max(map(len, labels)) > 6
        ax.set_xticks(at, labels, rotation=60 if long else 0, ha="right" if long else "center")
        ax.set_ylabel("count")
        ax.axhline(0.0, color="0.6", linewidth=0.8)
    else:
        at = np.arange(len(keep))[::-1]
        ax.errorbar(values, at, xerr=bars, fmt="o", color=color, elinewidth=1.2, label=text)
        ax.set_yticks(at, labels)
        ax.set_ylim(-0.5, len(keep) - 0.5)
        ax.set_xlabel(f"{section.kind[:-1]} of {section.variable}")
    return _with_title(fit, ax)


def _binned(fit: Any, section: Section) -> Any:
    """Return the column of a histogram of one number, or None for any other part."""
    axes = [layout_from(fit._record).axes[j] for j in section.axes]
    if section.kind != "counts" or [axis.kind for axis in axes] != ["bin"]:
        return None
    return next(c for c in fit.design.columns if c.name == axes[0].name)


def _distribution(fit: Any, what: str | None, ax: Any, level: float, color: str, kind: str) -> Axes:
    """Draw the density, or the distribution function, of a variable that was counted in bins."""
    layout = layout_from(fit._record)
    histograms = {
        layout.axes[s.axes[0]].name: (layout.axes[s.axes[0]], numbers)
        for s, _, numbers in parts(fit._record)
        if s.kind == "counts" and len(s.axes) == 1 and layout.axes[s.axes[0]].kind == "bin"
    }
    if not histograms or fit.nobs is None or (what is not None and what not in histograms):
        hint = f" Histograms: {', '.join(map(repr, histograms))}" if histograms else ""
        raise RequestError(
            f"kind={kind!r} draws a histogram of one number, dp_table('~ wage', ..., "
            f"histogram=40).plot(kind={kind!r}, what='wage').{hint}"
        )
    axis, numbers = histograms[what] if what is not None else next(iter(histograms.values()))
    column = next(c for c in fit.design.columns if c.name == axis.name)
    bins = axis.size - 1
    edges = np.linspace(column.interval[0], column.interval[1], bins + 1)
    z = -float(special.ndtri((1.0 - level) / 2.0))
    ax = new_axes(ax, (6.0, 3.4))
    if kind == "density":
        width = edges[1] - edges[0]
        middle = (edges[:-1] + edges[1:]) / 2.0
        shares = (numbers[k][:bins] / width for k in ("share", "share_low", "share_high"))
        values, low, high = shares
        ax.plot(middle, np.maximum(values, 0.0), color=color, drawstyle="steps-mid")
        ax.fill_between(
            middle, np.maximum(low, 0.0), np.maximum(high, 0.0), step="mid", alpha=0.25,
            color=color, linewidth=0, label=f"{100 * level:g} % interval",
        )  # fmt: skip
        ax.set_ylabel("density")
    else:
        n = float(fit.nobs)
        k = np.arange(bins + 1)
        S = np.clip(np.append(0.0, np.cumsum(numbers["estimate"][:bins]) / n), 0.0, 1.0)
        # cells of alike noise add up to n: k of K of them have k (K - k) / K of its variance
        tau = float(np.nanmax(numbers["se_privacy"])) / n
        spread = np.sqrt(S * (1.0 - S) / n + tau**2 * k * (axis.size - k) / axis.size)
        S = np.maximum.accumulate(S)
        ax.plot(edges, S, color=color)
        ax.fill_between(
            edges, np.clip(S - z * spread, 0, 1), np.clip(S + z * spread, 0, 1), alpha=0.25,
            color=color, linewidth=0, label=f"{100 * level:g} % interval at each point",
        )  # fmt: skip
        ax.set_ylabel("share of rows at most")
    ax.set_xlabel(column.name)
    return _with_title(fit, ax)


def _with_title(fit: Any, ax: Axes) -> Axes:
    ax.set_title(one_line(fit), fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax


def plot_quantiles(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, color: str = "C0"
) -> Axes:
    """Draw quantiles against their probabilities, with intervals where there are any."""
    if not fit.released:
        raise NotReleasedError("there was no reply: nothing to draw")
    est = fit._record.estimate
    ax = new_axes(ax, (6.0, 3.4))
    q, values = est.arrays["q"], est.params
    ends = np.stack([values - est.arrays["low"], est.arrays["high"] - values])
    bars = np.nan_to_num(np.abs(ends))
    ax.errorbar(q, values, yerr=bars, fmt="o", color=color, label=f"{100 * level:g} % interval")
    ax.set_xlabel("probability")
    ax.set_ylabel("quantile")
    return _with_title(fit, ax)
