"""Coefficient plots. matplotlib is imported when one is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dpmodels.errors import DPModelsError
from dpmodels.results.formats import labelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dpmodels.results.fit import Fit

__all__ = ["coefplot"]

#: Rows between the marks of two fits in one plot.
_APART = 0.2
#: Signs of a line of a label, and of a title.
_WRAP, _TITLE = 26, 70


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
    labels: Mapping[str, str] | None = None,
    names: Sequence[str] | None = None,
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
    labels : mapping, optional
        Coefficient -> what is printed.
    names : sequence of str, optional
        Coefficients to show, in this order.

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
    if names is not None:
        shown = [name for name in names if name in estimates.index]
    z = quantile(level, fit._record.estimate.use_t)
    ends = fit.conf_int(level)
    half = (ends.iloc[:, 1] - ends.iloc[:, 0]) / 2.0  # with the allowance for bias
    if ax is None:
        rows = len(shown if names is None else names)
        lines = sum(_wrapped(labelled(n, labels)).count("\n") for n in names or shown)
        size = (7.0, 1.1 + 0.45 * rows + 0.15 * lines)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    drawn = _DRAWN.setdefault(ax, _Drawn())
    drawn.names += [name for name in names or shown if name not in drawn.names]
    k = len(drawn.titles)
    color = color or f"C{k}"
    at = [drawn.names.index(name) + _APART * k for name in shown]
    drawn.titles.append(
        f"{_wrapped(fit.formula, _TITLE)}\n{fit.privacy.statement().partition(';')[0]}"
    )
    tag = f"({k + 1}) " if k else ""
    for length, width, label in (
        (half, 1.2, f"{tag}{100 * level:g} % interval, total error"),
        (z * fit.bse_sampling, 4.0, f"{tag}sampling error alone"),
    ):
        if length[shown].isna().all():  # nothing to draw, and nothing to explain
            continue
        ax.errorbar(
            estimates[shown],
            at,
            xerr=length[shown],
            fmt="none",
            ecolor=color,
            elinewidth=width,
            label=label,
        )
    ax.plot(estimates[shown], at, "o", color="white", markeredgecolor=color, zorder=3)
    ticks = [_wrapped(labelled(name, labels)) for name in drawn.names]
    ax.set_yticks(list(range(len(drawn.names))), ticks)
    ax.set_ylim(len(drawn.names) - 1 + _APART * k + 0.5, -0.5)  # first name on top, no bar cut
    if not k:
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xlabel("estimate")
        title = drawn.titles[0]
    else:
        title = "\n".join(f"({i + 1}) {t}" for i, t in enumerate(drawn.titles))
    ax.set_title(title, fontsize="small")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize="small", frameon=False)
    return ax


def _wrapped(text: str, width: int = _WRAP) -> str:
    """Break a long label at its own joints, so that it leaves room for the picture."""
    import re
    import textwrap

    if len(text) <= width:
        return text
    spaced = re.sub(r"(?<=[\w)\]])([:\[])", r" \1", text)
    return "\n".join(textwrap.wrap(spaced, width)) or text
