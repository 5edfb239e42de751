"""Axes that can be read: plain numbers on log axes, numbers next to a forest plot, a histogram."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

#: Signs of a line of a label.
_WRAP = 26
#: Ticks of a log axis within a decade, from few to many.
_TICKS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
#: At least this many ticks, if a choice of them has as many, and at most.
_FEWEST, _MOST_TICKS = 3, 6
#: Places at which numbers are printed under an axis.
_UNDER = 6


def plain_log_axis(axis: Any, low: float, high: float) -> None:
    """Set plain numbers on a log axis, three to six of them, so that they do not overlap.

    Parameters
    ----------
    axis : matplotlib Axis
        ``ax.xaxis`` or ``ax.yaxis``, already on a log scale.
    low, high : float
        Ends of the values that are shown.
    """
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    decades = 10.0 ** np.arange(np.floor(np.log10(low)) - 1, np.ceil(np.log10(high)) + 1)
    for steps in _TICKS:
        every = np.unique(np.round(np.outer(decades, steps), 12))
        ticks = every[(every >= low * 0.999) & (every <= high * 1.001)]
        if len(ticks) >= _FEWEST:
            break
    if len(ticks) < 2:
        ticks = np.array([low, high])
    ticks = ticks[:: -(-len(ticks) // _MOST_TICKS)]
    axis.set_major_locator(FixedLocator(ticks.tolist()))
    axis.set_major_formatter(FixedFormatter([f"{t:,.6g}".replace(",", " ") for t in ticks]))
    axis.set_minor_locator(NullLocator())


def numbers_beside(ax: Any, rows: Iterable[tuple[float, str, str]], title: str) -> None:
    """Write one text per row of a forest plot to the right of its axes, under a title.

    Parameters
    ----------
    ax : matplotlib Axes
    rows : iterable of (place, text, color)
        Place on the y axis.
    title : str
    """
    beside = ax.get_yaxis_transform()
    for place, text, color in rows:
        ax.text(1.02, place, text, transform=beside, va="center", ha="left", fontsize="small",
                color=color, clip_on=False)  # fmt: skip
    top = max(ax.get_ylim()) if not ax.yaxis_inverted() else min(ax.get_ylim())
    ax.text(1.02, top, title, transform=beside, va="bottom", ha="left", fontsize="small",
            fontweight="bold", clip_on=False)  # fmt: skip


def draw_histogram(
    ax: Any, edges: Any, counts: Any, ends: tuple[Any, Any], *, color: str, label: str
) -> None:
    """Draw noisy counts of bins at their place on the axis, with their intervals.

    Parameters
    ----------
    ax : matplotlib Axes
    edges : array, (bins + 1,)
    counts : array, (bins,)
        Released counts, which may be below 0.
    ends : (array, array), (bins,) each
        Lower and upper ends of intervals.
    color, label : str
        The label is that of the intervals.
    """
    edges, counts = np.asarray(edges, dtype=float), np.asarray(counts, dtype=float)
    middle, width = (edges[:-1] + edges[1:]) / 2.0, np.diff(edges)
    ax.bar(middle, counts, width=width, color=color, alpha=0.5, edgecolor="white", linewidth=0.5)
    bars = np.nan_to_num(np.abs(np.stack([counts - ends[0], ends[1] - counts])))
    ax.errorbar(middle, counts, yerr=bars, fmt="none", ecolor="0.2", elinewidth=1.0, label=label)
    ax.axhline(0.0, color="0.6", linewidth=0.8)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylabel("count")


def line_styles(many: int) -> Sequence[Any]:
    """Return line styles that stay apart where lines are at the same place."""
    styles = ["-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (2, (3, 3)), (0, (8, 4))]
    return [styles[k % len(styles)] for k in range(many)]


def outside_legend(ax: Any, *, outside: bool) -> None:
    """Set a legend to the right of a figure with a constrained layout, or into the axes."""
    style: dict[str, Any] = {"fontsize": "small", "frameon": False}
    if outside:
        ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", **style)
    else:
        ax.legend(**style)


def numbers_under_axis(ax: Any, title: str, rows: Any, edges: Any, colors: Sequence[str]) -> None:
    """Write (label, numbers at the edges) under the axis, one line per row."""
    different = np.unique(edges, return_index=True)[1]
    places = different[:: max(1, -(-(len(different) - 1) // _UNDER))]
    for i, ((label, numbers), color) in enumerate(zip(rows, colors, strict=True)):
        texts = [(edges[k], f"{max(numbers[k], 0.0):,.0f}", 0.0, "center") for k in places]
        for at, text, aside, ha in [*texts, (edges[0], label, -24.0, "right")]:
            ax.annotate(
                text, (at, 0.0), (aside, -45.0 - 11.5 * i), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha=ha, va="top", fontsize=8, color=color,
                annotation_clip=False,
            )  # fmt: skip
    ax.set_xlabel(f"{ax.get_xlabel()}\n{title}" + "\n" * len(rows), fontsize=9)


def wrap_label(text: str, width: int = _WRAP) -> str:
    """Break a long label at its own joints, so that it leaves room for the picture."""
    if len(text) <= width:
        return text
    spaced = re.sub(r"(?<=[\w)\]])([:\[])", r" \1", text)
    return "\n".join(textwrap.wrap(spaced, width)) or text
