"""The picture of survival curves: bands, and numbers at risk under the axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import NotReleasedError, choice
from dpmodels.models.survival.show import curves_from
from dpmodels.tables.pictures import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Times at which numbers at risk stand under the axis.
_RISK = 6


def plot_curves(
    fit: Any, ax: Axes | None = None, *, level: float = 0.95, kind: str = "survival",
    bands: bool = True, at_risk: bool = True, colors: list[str] | None = None,
) -> Axes:  # fmt: skip
    """Draw the curves of all groups.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes, optional
    level : float
    kind : {"survival", "event", "hazard"}
        Survival, its complement, or the cumulative hazard.
    bands, at_risk : bool
        Pointwise intervals; numbers at risk (released, so noisy) under the axis.
    colors : list of str, optional
        One a group.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    if not fit.released:
        raise NotReleasedError("there was no reply: nothing to draw")
    choice("kind", kind, ("survival", "event", "hazard"))
    found = curves_from(fit._record)
    rows = len(found) if at_risk else 0
    ax = new_axes(ax, (6.4, 4.0 + 0.22 * rows))
    edges = np.array(found[0].layout.edges)
    conf_type = str(fit._record.call.options["conf_type"])

    def shown(S: Any) -> Any:
        with np.errstate(divide="ignore"):
            return {"survival": S, "event": 1.0 - S, "hazard": -np.log(S)}[kind]

    drawn = []
    for i, curve in enumerate(found):
        color = colors[i % len(colors)] if colors else f"C{i}"
        # a rise is noise: the drawn curve is levelled out, the intervals are as they are
        S = np.minimum.accumulate(np.clip(np.append(1.0, curve.S), 0.0, 1.0))
        label = curve.layout.labels[curve.group] or None
        ax.plot(edges, shown(S), color=color, label=label, marker=".", markersize=3)
        if bands:
            low, high = curve.band(level, conf_type)
            ends = [shown(np.append(1.0, v)) for v in (low, high)]
            ax.fill_between(edges, *ends, color=color, alpha=0.18, linewidth=0)
        drawn.append(color)
    survival = fit.design.survival
    ax.set_xlabel(survival.names[1])
    ax.set_ylabel(
        {"survival": "survival", "event": "share with the event", "hazard": "cumulative hazard"}[
            kind
        ]
    )
    ax.set_xlim(edges[0], edges[-1])
    if kind != "hazard":
        ax.set_ylim(0.0, 1.0)
    ax.set_title(f"{fit.formula}\n{fit.privacy.statement().partition(';')[0]}", fontsize=9)
    if len(found) > 1:
        ax.legend(frameon=False)
    if at_risk:
        _risk_rows(ax, found, edges, drawn)
    return ax


def _risk_rows(ax: Axes, found: Any, edges: Any, colors: list[str]) -> None:
    """Write released numbers at risk under the axis, a line a group."""
    step = max(1, -(-(len(edges) - 1) // _RISK))
    places = list(range(0, len(edges), step))
    for i, (curve, color) in enumerate(zip(found, colors, strict=True)):
        for k in places:
            ax.annotate(
                f"{max(curve.entering[k], 0.0):,.0f}", (edges[k], 0.0), (0.0, -45.0 - 11.5 * i),
                xycoords=("data", "axes fraction"), textcoords="offset points", ha="center",
                va="top", fontsize=8, color=color, annotation_clip=False,
            )  # fmt: skip
    ax.set_xlabel(f"{ax.get_xlabel()}\nnumbers at risk" + "\n" * len(found), fontsize=9)
