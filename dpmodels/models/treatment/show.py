"""Balance and overlap of a treatment effect as tables and pictures. Nothing new is released."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError
from dpmodels.lazy import pd
from dpmodels.tables.content import Column
from dpmodels.tables.numbers import cell, fixed, places
from dpmodels.tables.table import Table, grid, new_axes

#: Columns of a balance table as they are kept in a fit (``estimate.balance_of``).
KEPT_COLUMNS = (
    "mean_treated", "mean_control", "difference", "noise",
    "weighted_treated", "weighted_control", "weighted_difference", "weighted_noise",
)  # fmt: skip
#: Standardised differences beyond this are called imbalance.
THRESHOLD = 0.1


def _arrays(record: Any) -> Any:
    """Return the released arrays of a fit's record. Raise if nothing was released."""
    if not record.estimate.released:
        raise NotReleasedError("no reply: balance and overlap were not released")
    return record.estimate.arrays


def _names(record: Any) -> list[str]:
    """Return the names of the covariates: columns but intercept, treatment and half."""
    design = record.design
    multipliers = {int(j) for j in _arrays(record)["treated"]}  # treatment, and half of a row
    return [
        column.name
        for j, column in enumerate(design.columns)
        if column.kind != "intercept" and j not in multipliers
    ]


def balance(fit: Any) -> pd.DataFrame:
    """Return one row per covariate: means of both arms and standardised mean differences."""
    table = np.asarray(_arrays(fit._record)["balance"])
    frame = pd.DataFrame(table, columns=list(KEPT_COLUMNS))
    return frame.set_index(pd.Index(_names(fit._record), name="covariate"))


def overlap(fit: Any) -> pd.DataFrame:
    """Return one row per interval of the propensity: its ends and the noisy counts of both arms."""
    arrays = _arrays(fit._record)
    edges = np.concatenate([[0.0], arrays["overlap_edges"], [1.0]])
    treated, control = np.asarray(arrays["overlap"])
    return pd.DataFrame(
        {"low": edges[:-1], "high": edges[1:], "treated": treated, "control": control}
    )


def tables(record: Any, digits: int) -> tuple[Table, ...]:
    """Return the balance table of the summary."""
    heads = ("treated", "control", "SMD", "noise")
    columns = ("Balance", *(
        Column(name, f"{when} weighting") for when in ("Before", "After") for name in heads
    ))  # fmt: skip
    rows = []
    for name, line in zip(_names(record), np.asarray(_arrays(record)["balance"]), strict=True):
        few = places([max(abs(float(line[3])), 1e-6)], digits)[0]
        cells = [
            cell(float(v), few, digits) if k % 4 < 2 else fixed(float(v), 2)
            for k, v in enumerate(line)
        ]
        rows.append((name, *cells))
    return (grid(columns, rows),)


def plot(fit: Any, ax: Any = None, *, level: float | None = None) -> Any:
    """Draw standardised mean differences and the propensity of both arms; return two axes.

    Parameters
    ----------
    ax : pair of matplotlib Axes, optional
        For balance and for overlap. Default: a new figure.
    level : float, optional
        Not used: the bars of balance are one noise sd.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    frame, cells = balance(fit), overlap(fit)
    if ax is None:
        first = new_axes(None, (9.0, 1.6 + 0.35 * len(frame)))
        figure = first.figure
        figure.clear()
        ax = figure.subplots(1, 2)
    left, right = ax
    y = np.arange(len(frame))[::-1]
    for what, error, label, marker in (
        ("difference", "noise", "before weighting", "o"),
        ("weighted_difference", "weighted_noise", "after weighting", "s"),
    ):
        left.errorbar(
            frame[what], y, xerr=frame[error], fmt=marker, label=label, capsize=2, linewidth=1
        )
    left.axvline(0.0, color="0.6", linewidth=0.8)
    for x in (-THRESHOLD, THRESHOLD):
        left.axvline(x, color="0.6", linewidth=0.8, linestyle=":")
    left.set_yticks(y, frame.index)
    left.set_xlabel("standardised mean difference")
    left.legend(frameon=False, fontsize="small")
    width = (cells["high"] - cells["low"]).to_numpy()
    for name, sign in (("treated", 1.0), ("control", -1.0)):
        height = sign * np.maximum(cells[name].to_numpy(), 0.0) / width
        right.bar(cells["low"], height, width, align="edge", label=name, alpha=0.7)
    right.axhline(0.0, color="0.4", linewidth=0.8)
    right.set_xlabel("propensity")
    right.set_yticks([])
    right.legend(frameon=False, fontsize="small")
    return np.array([left, right])


def balance_of(blocks: Array, centre: Array, half: Array, noise: float) -> Array:
    """Return the columns ``KEPT`` of each covariate from the released moments of both arms.

    ``noise``: sd of a sum, the largest weight counting 1. The standard deviation is that within
    arms.
    """
    n = np.maximum(blocks[:4, 0], 1.0)
    u = np.clip(blocks[:4, 1:] / n[:, None], -1.0, 1.0)
    units = float(n[0] + n[1])
    inside = blocks[4, 1:] / units - (n[0] * u[0] ** 2 + n[1] * u[1] ** 2) / units
    sd = np.sqrt(np.clip(inside, 1e-3, 1.0))
    means = centre + half * u
    out = []
    for a, b in ((0, 1), (2, 3)):
        error = noise * math.hypot(1.0 / n[a], 1.0 / n[b]) / sd
        out += [means[a], means[b], (u[a] - u[b]) / sd, error]
    return np.stack(out, axis=1)
