"""Pictures of a tidy table. matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import DPModelsError, NotReleasedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Signs of a title.
_TITLE = 80


def one_line(fit: Any) -> str:
    """Return the title of a picture of a fit: formula and guarantee; the model where it is long."""
    promise = fit.privacy.statement().partition(";")[0]
    whole = f"{fit.formula}; {promise}"
    if len(whole) <= _TITLE:
        return whole
    left = fit.formula.partition("~")[0].strip()
    said = f"{left}: {fit.kind.title}; {promise}"
    return said if left and len(said) <= _TITLE else f"{fit.kind.title}; {promise}"


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Any:
    """Return the axes that are given, or new ones of a size in inches."""
    if ax is not None:
        return ax
    failed = False
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        failed = True
    if failed:
        raise DPModelsError("plot() needs matplotlib: pip install 'dpmodels[plot]'")
    return plt.subplots(figsize=size, layout="constrained")[1]


def forest(
    frame: Any,
    ax: Axes | None = None,
    *,
    by: str | None = None,
    title: str = "",
    xlabel: str = "estimate",
    zero: float | None = 0.0,
    color: str | None = None,
) -> Any:
    """Draw the rows of a tidy table: a mark an estimate, a bar its interval, the first on top.

    Parameters
    ----------
    frame : DataFrame
        With ``term, estimate``, and ``conf_low, conf_high`` where there are intervals.
    ax : matplotlib Axes, optional
    by : str, optional
        Column whose values stand beside each other in the row of a term, each in its colour.
    title, xlabel : str
    zero : float, optional
        Where a thin line stands for "no effect"; None: none.
    color : str, optional
    """
    if not np.isfinite(frame["estimate"].to_numpy(dtype=float)).any():
        raise NotReleasedError("there is no estimate to draw")
    names = list(dict.fromkeys(str(t) for t in frame["term"]))
    groups = [None] if by is None else list(dict.fromkeys(frame[by]))
    step = 0.0 if len(groups) == 1 else min(0.22, 0.7 / len(groups))
    ax = new_axes(ax, (6.4, 1.2 + max(0.38, step * 1.4 * len(groups)) * len(names)))
    for k, group in enumerate(groups):
        part = frame if group is None else frame[frame[by] == group]
        values = part["estimate"].to_numpy(dtype=float)
        at = np.array([names.index(str(t)) for t in part["term"]], dtype=float)
        at += step * (k - (len(groups) - 1) / 2.0)
        bars = None
        if "conf_low" in part:
            ends = [values - part["conf_low"], part["conf_high"] - values]
            bars = np.nan_to_num(np.abs(np.array(ends, dtype=float)))
        ax.errorbar(
            values, at, xerr=bars, fmt="o", color=color or f"C{k}", elinewidth=1.3, markersize=5,
            label=None if group is None else str(group),
        )  # fmt: skip
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    if zero is not None:
        ax.axvline(zero, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel(xlabel)
    if by is not None:
        ax.legend(fontsize="small", frameon=False)
    if title:
        ax.set_title(title, fontsize="small")
    return ax
