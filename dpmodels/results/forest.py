"""Pictures of the coefficients of several fits, and forest plots with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.results.inference import Labels, all_labels, chosen, plain_name
from dpmodels.results.plot import APART, coefplot
from dpmodels.results.side_by_side import fits_of, shared_names
from dpmodels.tables.numbers import by_row, places
from dpmodels.tables.pictures import numbers_beside
from dpmodels.tables.table import Axes

#: Inches for the numbers, and for each of them; rows of the picture between those of two fits.
_ROOM, _INCHES, _BETWEEN = 1.9, 0.3, 0.3


def _check_room(ax: Any, scale: str) -> None:
    """Refuse numbers next to axes that hold a picture already, and next to scaled coefficients."""
    if scale != "raw":
        raise RequestError("table=True prints estimates as they are: leave scale= out")
    if ax is not None and (ax.lines or ax.containers):
        raise RequestError("table=True needs new axes: leave ax= out, or give empty ones")


def _write_numbers(
    ax: Any, fits: Sequence[Any], names: Sequence[str], apart: float, **how: Any
) -> None:
    """Write the estimates of a picture of coefficients, with their intervals, next to its axes.

    Parameters
    ----------
    ax : matplotlib Axes
        As ``coef_plot`` drew them, one row per name.
    fits : sequence of Fit
    names : sequence of str
    apart : float
        Rows between the marks of two fits.
    **how
        ``level, exponentiate, joint`` of the picture.
    """
    rows: list[tuple[float, str, str]] = []
    shared = {plain_name(name): k for k, name in enumerate(names)}
    for k, fit in enumerate(fits):
        ends, errors = fit.conf_int(how["level"], joint=how["joint"]), fit.bse
        for name, middle, (low, high) in zip(
            fit.params.index, fit.params, ends.to_numpy(), strict=True
        ):
            if plain_name(name) not in shared:
                continue
            values, error = np.array([middle, low, high]), float(errors[name])
            if how["exponentiate"]:
                values = np.exp(values)
                error *= values[0]
            first, lower, upper = by_row(values, places([error] * 3, 2), 2)
            color = f"C{k}" if len(fits) > 1 else "black"
            place = shared[plain_name(name)] + max(apart, _BETWEEN) * k
            rows.append((place, f"{first} [{lower}, {upper}]", color))
    what, joint = "Ratio" if how["exponentiate"] else "Estimate", "joint " * how["joint"]
    numbers_beside(ax, rows, f"{what} [{100 * how['level']:g} % {joint}interval]")
    if how["fresh"]:
        width, height = ax.figure.get_size_inches()
        ax.figure.set_size_inches(width + _ROOM, max(height, 1.0 + _INCHES * len(rows)))


def coef_plot(
    *fits: Any,
    labels: Labels = "schema",
    order: Any = None,
    keep: Any = None,
    drop: Any = None,
    intercept: bool = False,
    level: float | None = None,
    ax: Axes | None = None,
    scale: str = "raw",
    exponentiate: bool = False,
    joint: bool = False,
    table: bool = False,
) -> Axes:
    """Draw the coefficients of several fits in one picture, aligned by name.

    Parameters
    ----------
    *fits : Fit, or a list of them
    labels, order, keep, drop
        As in ``dp.etable``.
    intercept : bool
        Show the intercept too.
    level : float, optional
        Default: that of the first fit.
    ax : matplotlib Axes, optional
    scale : {"raw", "standardised"}
        As in ``fit.plot``.
    exponentiate : bool
        Odds, rate and hazard ratios, on a log axis.
    joint : bool
        Intervals that hold for all coefficients of a fit together.
    table : bool
        Write each estimate with its interval next to the picture: a forest plot.

    Privacy
    -------
    Draws released numbers: costs nothing.
    """
    fits = tuple(fits_of("coef_plot", fits))
    every = dict.fromkeys(shared_names(fits))
    if not intercept and len(every) > 1:
        every.pop("Intercept", None)
    labels = all_labels(labels, *fits)
    names, fresh = chosen(every, order=order, keep=keep, drop=drop), ax is None
    if table:
        _check_room(ax, scale)
    for fit in fits:
        ax = coefplot(
            fit,
            ax,
            level=fits[0].level if level is None else level,
            labels=labels,
            names=names,
            scale=scale,
            exponentiate=exponentiate,
            joint=joint,
        )
    if table:
        level = fits[0].level if level is None else level
        how = {"level": level, "exponentiate": exponentiate, "joint": joint, "fresh": fresh}
        _write_numbers(ax, fits, names, APART, **how)
    assert ax is not None
    return ax
