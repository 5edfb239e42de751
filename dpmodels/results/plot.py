"""Coefficient plots. matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmodels.errors import DPModelsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpmodels.results.fit import Fit

__all__ = ["coefplot"]


def coefplot(
    fit: Fit,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    intercept: bool = False,
    color: str = "C0",
) -> Axes:
    """Draw estimates with two nested error bars: inner sampling error only, outer total.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
        Default: a new figure.
    level : float
    intercept : bool
        Show the intercept too.
    color : str

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

    from dpmodels.results._tables import quantile

    estimates: Any = fit.params
    shown = [name for name in estimates.index if intercept or name != "Intercept"]
    at = range(len(shown))
    z = quantile(level, fit._record.estimate.use_t)
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 0.6 + 0.45 * len(shown)), layout="constrained")
    for half, width, label in (
        (fit.bse, 1.2, f"{100 * level:g} % interval, total error"),
        (fit.bse_sampling, 4.0, "sampling error alone"),
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
    ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(list(at), shown)
    ax.invert_yaxis()
    ax.set_xlabel("estimate")
    ax.set_title(f"{fit.formula}\n{fit.privacy.statement().partition(';')[0]}", fontsize="small")
    ax.legend(fontsize="small", frameon=False)
    return ax
