"""Picture of the mean of a fit as one variable moves over its public range."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.formula.schema import label_of
from dpmodels.results.contrasts import predictors, range_of
from dpmodels.results.inference import all_labels, labelled
from dpmodels.tables.pictures import wrap_label
from dpmodels.tables.table import Axes, new_axes

#: Signs of a line of a title.
_TITLE = 70


def effect_curve(
    fit: Any, name: str, ax: Axes | None = None, *, level: float, at: Any = None,
    color: str | None = None, joint: bool = False,
) -> Any:  # fmt: skip
    """Draw the mean as one variable moves over its public range, with its band."""
    held: dict[str, Any] = {}
    for predictor in predictors(fit, (name, *(at or {}))):
        variable = fit.design.schema[predictor]
        ends = range_of(fit.design, predictor)
        if at and predictor in at:
            held[predictor] = at[predictor]
        elif variable.codes or variable.kind == "binary":
            held[predictor] = next(iter(variable.codes), 0)
        elif ends is None:
            raise RequestError(
                f"the range of {predictor!r} is not public: at={{{predictor!r}: value}}"
            )
        else:
            held[predictor] = (ends[0] + ends[1]) / 2.0
    variable, ends = fit.design.schema[name], range_of(fit.design, name)
    factor = bool(variable.codes) or variable.kind == "binary"
    if factor:
        points: Any = list(variable.codes) or [0, 1]
    elif ends is None:
        raise RequestError(f"the range of {name!r} is not public: there is nothing to move over")
    else:
        points = np.linspace(*ends, 101)
    rows = {k: [v] * len(points) for k, v in held.items()} | {name: points}
    band = fit.predict(rows, interval="confidence", level=level, joint=joint)
    ax = new_axes(ax, (5.6, 3.4))
    line = color or "C0"
    if factor:
        places = np.arange(len(points))
        bars = np.array([band["fit"] - band["lwr"], band["upr"] - band["fit"]])
        ax.errorbar(places, band["fit"], yerr=bars, fmt="o", color=line)
        ax.set_xticks(places, [str(p) for p in points])
    else:
        ax.plot(points, band["fit"], color=line)
        ax.fill_between(points, band["lwr"], band["upr"], alpha=0.25, color=line, linewidth=0,
                        label=f"{100 * level:g} % joint band over {len(points)} points" if joint
                        else f"{100 * level:g} % interval at each point")  # fmt: skip
        ax.legend(fontsize="small", frameon=False)
    ax.set_xlabel(label_of(fit.design.schema, name))
    response = fit.design.response.name if fit.design.response else ""
    ax.set_ylabel(f"mean of {labelled(response, all_labels('schema', fit))}".removesuffix(" of "))
    others = ", ".join(
        f"{k} = {v:.4g}" if isinstance(v, float) else f"{k} = {v}"
        for k, v in held.items() if k != name
    )  # fmt: skip
    ax.set_title(wrap_label(f"at {others}", _TITLE) if others else fit.formula, fontsize="small")
    return ax
