"""Coefficient plots. matplotlib is imported when one is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dpmodels.errors import DPModelsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpmodels.results.fit import Fit

__all__ = ["coefplot"]

#: Rows between the marks of two fits in one plot.
_APART = 0.2


@dataclass
class _Drawn:
    """What axes hold: a name a row, a title a fit."""

    names: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)


_DRAWN: WeakKeyDictionary[Any, _Drawn] = WeakKeyDictionary()


def coefplot(
    fit: Fit,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    intercept: bool = False,
    color: str | None = None,
) -> Axes:
    """Draw estimates with two nested error bars: inner sampling error only, outer total.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
        Default: a new figure. Axes that hold a coefficient plot already get this fit beside it: a
        coefficient of the same name in the same row, a little lower, new names below.
    level : float
    intercept : bool
        Show the intercept too.
    color : str, optional
        Default: the next colour of the axes.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    failed = False
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        failed = True
    if failed:
        raise DPModelsError("plot() needs matplotlib: pip install 'dpmodels[plot]'")

    from dpmodels.results.inference import quantile

    estimates: Any = fit.params
    shown = [name for name in estimates.index if intercept or name != "Intercept"]
    z = quantile(level, fit._record.estimate.use_t)
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 0.6 + 0.45 * len(shown)), layout="constrained")
    drawn = _DRAWN.setdefault(ax, _Drawn())
    drawn.names += [name for name in shown if name not in drawn.names]
    k = len(drawn.titles)
    color = color or f"C{k}"
    at = [drawn.names.index(name) + _APART * k for name in shown]
    drawn.titles.append(f"{fit.formula}\n{fit.privacy.statement().partition(';')[0]}")
    tag = f"({k + 1}) " if k else ""
    for half, width, label in (
        (fit.bse, 1.2, f"{tag}{100 * level:g} % interval, total error"),
        (fit.bse_sampling, 4.0, f"{tag}sampling error alone"),
    ):
        ax.errorbar(
            estimates[shown],
            at,
            xerr=z * half[shown],
            fmt="none",
            ecolor=color,
            elinewidth=width,
            label=label,
        )
    ax.plot(estimates[shown], at, "o", color="white", markeredgecolor=color, zorder=3)
    ax.set_yticks(list(range(len(drawn.names))), drawn.names)
    if not k:
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.invert_yaxis()
        ax.set_xlabel("estimate")
        title = drawn.titles[0]
    else:
        title = "\n".join(f"({i + 1}) {t}" for i, t in enumerate(drawn.titles))
    ax.set_title(title, fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax
