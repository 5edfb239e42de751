"""Pictures of tables: bars with error bars, dots of group means. Released numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import NotReleasedError, RequestError, choice, did_you_mean
from dpmodels.models.table.layout import Section
from dpmodels.models.table.show import layout_from, parts
from dpmodels.tables.pictures import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _title(fit: Any) -> str:
    return f"{fit.formula}\n{fit.privacy.statement().partition(';')[0]}"


def _chosen(fit: Any, what: str | None) -> Any:
    """Return the section to draw: the last with bins, means with groups, else the first."""
    found = {_name(fit, s): (s, items, numbers) for s, items, numbers in parts(fit._record)}
    if what is None:
        rank = {"means": 1, "counts": 2, "quantiles": 3}
        best = min(found, key=lambda k: (not found[k][0].axes, rank[found[k][0].kind]))
        return found[best]
    if what not in found:
        raise RequestError(
            f"what={what!r} is no part of this table.{did_you_mean(what, found)} "
            f"Parts: {', '.join(map(repr, found))}"
        )
    return found[what]


def _name(fit: Any, section: Section) -> str:
    from dpmodels.models.table.show import layout_from

    layout = layout_from(fit._record)
    by = " x ".join(layout.axes[j].name for j in section.axes)
    if section.kind == "counts":
        return by
    head = section.variable if section.kind == "means" else f"quantiles of {section.variable}"
    return f"{head} by {by}" if by else head


def plot_table(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, what: str | None = None,
    color: str = "C0", kind: str = "bars",
) -> Axes:  # fmt: skip
    """Draw one part of a table: means as dots with error bars, counts as bars with error bars.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
    level : float
        That of the fit: the intervals are made with it.
    what : str, optional
        ``"wage by region"``, ``"region"``, ``"region x gender"``; default: means by group if there
        are any, else the first counts.
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
    section, items, numbers = _chosen(fit, what)
    if section.kind == "means":
        keep = [i for i, item in enumerate(items) if item.statistic == "mean"]
    elif section.kind == "counts":
        keep = [i for i, item in enumerate(items) if "(missing)" not in dict(item.cell).values()]
    else:
        keep = list(range(len(items)))
    labels = [", ".join(label for _, label in items[i].cell) or "all" for i in keep]
    values = numbers["estimate"][keep]
    low, high = numbers["low"][keep], numbers["high"][keep]
    bars = np.nan_to_num(np.abs(np.stack([values - low, high - values])))
    ax = new_axes(ax, (6.0, 1.0 + 0.28 * len(keep) if section.kind != "counts" else 3.4))
    text = f"{100 * level:g} % interval"
    if section.kind == "counts":
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
        ax.set_xlabel(f"{section.kind[:-1]} of {section.variable}")
    ax.set_title(_title(fit), fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax


def _distribution(fit: Any, what: str | None, ax: Any, level: float, color: str, kind: str) -> Axes:
    """Draw the density, or the distribution function, of a number that was counted in bins."""
    from scipy.special import ndtri

    layout = layout_from(fit._record)
    found = {
        layout.axes[s.axes[0]].name: (layout.axes[s.axes[0]], numbers)
        for s, _, numbers in parts(fit._record)
        if s.kind == "counts" and len(s.axes) == 1 and layout.axes[s.axes[0]].kind == "bin"
    }
    if not found or fit.nobs is None or (what is not None and what not in found):
        known = f" Histograms: {', '.join(map(repr, found))}" if found else ""
        raise RequestError(
            f"kind={kind!r} draws a histogram of one number, dp_table('~ wage', ..., "
            f"histogram=40).plot(kind={kind!r}, what='wage').{known}"
        )
    axis, numbers = found[what] if what is not None else next(iter(found.values()))
    column = next(c for c in fit.design.columns if c.name == axis.name)
    bins = axis.size - 1
    edges = np.linspace(column.interval[0], column.interval[1], bins + 1)
    z = -float(ndtri((1.0 - level) / 2.0))
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
    ax.set_title(_title(fit), fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax


def plot_quantiles(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, color: str = "C0"
) -> Axes:
    """Draw quantiles against their probabilities, with intervals where there are any.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
    level : float
    color : str

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
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
    ax.set_title(_title(fit), fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax
