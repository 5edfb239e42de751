"""An adapter for the package marginaleffects, imported when :func:`as_model` is called.

With no ``newdata=``, marginaleffects averages over the model's data. A fit keeps none, and an
average over private rows would be a new release; so the adapter's data are a public grid.
A bare fit cannot be handed over: marginaleffects 0.6 knows three packages by name and has no place
to register another, so it is always ``as_model(fit)``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import DPModelsError, RequestError
from dpmodels.lazy import pd
from dpmodels.results import Fit, inference
from dpmodels.results.contrasts import predictors, range_of
from dpmodels.results.summary import response_of

__all__ = ["as_model", "public_grid"]


def public_grid(fit: Fit, points: int = 5) -> pd.DataFrame:
    """Return a grid over the public ranges and levels of the variables of a fit.

    Parameters
    ----------
    fit : Fit
    points : int
        Points a numeric variable, equally spaced over its range in force.

    Privacy
    -------
    Made from the schema (and from estimated ranges, which are released): costs nothing.
    """
    import itertools

    axes: dict[str, Any] = {}
    for name in predictors(fit):
        variable, ends = fit.design.schema[name], range_of(fit.design, name)
        if variable.codes:
            axes[name] = list(variable.codes)
        elif ends is not None:
            axes[name] = np.linspace(*ends, points).tolist()
        else:
            raise RequestError(
                f"the range of {name!r} is not public; pass a grid: as_model(fit, grid)"
            )
    cells = list(itertools.product(*axes.values()))
    return pd.DataFrame(cells, columns=list(axes))


def as_model(fit: Fit, grid: Any = None) -> Any:
    """Return a model that ``marginaleffects`` works with.

    Parameters
    ----------
    fit : Fit
    grid : DataFrame, optional
        Public rows that averages are taken over. Default: :func:`public_grid`. **Never** the
        private frame: an average over it is not covered by the guarantee of the fit.

    Returns
    -------
    marginaleffects.classes.ModelAbstract
        For ``predictions``, ``slopes``, ``comparisons``, ``hypotheses`` and their averages.

    Privacy
    -------
    Post-processing of released coefficients on public rows: costs nothing. Standard errors hold
    the privacy noise, and are widened by what an interval must allow for a bias, of which that
    package knows nothing: its intervals cover, and are wider than those of ``fit.contrast``.
    """
    missing = False
    try:
        import polars as pl
        from marginaleffects.classes import ModelAbstract
        from marginaleffects.classes.model import ModelVault
    except ImportError:
        missing = True
    if missing:
        raise DPModelsError('as_model needs: pip install "marginaleffects>=0.6"')
    if not fit.released:
        raise RequestError("a no-reply has no coefficients")
    if fit.design.offset is not None:
        raise RequestError("as_model does not know offset(); use fit.predict(new)")
    frame = public_grid(fit) if grid is None else grid
    data = _polars(fit, frame, response_of(fit._record), pl)

    class Model(ModelAbstract):  # type: ignore[misc]
        """The adapter: released coefficients, public rows."""

        def validation(self) -> None:
            # As in the base class, but the types are ours: its look at the columns fails on
            # polars 2 (a column of floats is not compared with whole numbers any more).
            self.validate_coef()
            self.validate_response_name()
            self.validate_formula()
            if _polars_1(pl):  # its look at columns of text refuses what polars 2 needs (_polars)
                self.validate_modeldata()
            self.vault.variables_type = {c: _type(data[c]) for c in data.columns}

        def get_vcov(self, vcov: Any = True) -> Any:
            return None if vcov is False else inference.widened(fit._record.estimate)

        def find_predictors(self) -> Any:
            # Its joint tests look for names of coefficients among the predictors, and so fail
            # for every model with a factor, a spline or an interaction, its own included.
            if sys._getframe(1).f_code.co_name == "joint_hypotheses":
                return list(fit._record.estimate.names)
            return super().find_predictors()

        def get_df(self) -> float:
            # the reference of a fit is normal unless it says t
            free = fit._record.estimate.use_t
            return 1e12 if free is None else float(free)

        def get_exog(self, newdata: Any) -> Array:
            rows = {name: newdata[name].to_list() for name in newdata.columns}
            return np.asarray(fit.design.matrix(rows, outside="extrapolate"), dtype=float)

        def get_predict(self, params: Any, newdata: Any) -> Any:
            X = newdata if isinstance(newdata, np.ndarray) else self.get_exog(newdata)
            fitted = fit.kind.mean(X @ np.asarray(params, dtype=float), fit.options)
            ids = np.arange(len(fitted), dtype=np.int32)
            return pl.DataFrame({"rowid": ids, "estimate": fitted})

    vault = ModelVault(
        coef=np.array(fit.params),
        coefnames=np.array(fit.params.index, dtype=str),
        vcov=inference.widened(fit._record.estimate),
        modeldata=data,
        # Its text check refuses "scale(" and "center(" although ours are row-wise.
        formula=fit.formula.replace("scale(", "scaled(").replace("center(", "centered("),
        variable_names=[response_of(fit._record), *frame.columns],
        package="dpmodels",
    )
    return Model(fit, vault)


def _type(column: Any) -> str:
    """Return the name in marginaleffects for the type of a column of the grid."""
    cells = column.to_list()
    if any(isinstance(cell, str) for cell in cells):
        return "character"
    if all(isinstance(cell, bool) for cell in cells):
        return "boolean"
    if all(cell in (0, 1) for cell in cells):
        return "binary"
    return "integer" if all(isinstance(cell, int) for cell in cells) else "numeric"


def _polars_1(pl: Any) -> bool:
    return int(pl.__version__.split(".")[0]) < 2


def _polars(fit: Fit, frame: Any, response: str, pl: Any) -> Any:
    """Return the grid as polars, declared levels as Enum, with an empty response column."""
    columns = {}
    for name in frame.columns:
        cells = list(frame[name])
        variable = fit.design.schema.get(name)
        levels = [str(code) for code in variable.codes] if variable is not None else []
        text = bool(levels) and all(isinstance(cell, str) for cell in cells)
        # marginaleffects 0.6 asks an Enum for its levels by a name that polars 2 has not any more;
        # of a column of text it takes the levels that occur in the grid.
        kind = pl.Enum(levels) if _polars_1(pl) else pl.String
        columns[name] = pl.Series(cells, dtype=kind) if text else pl.Series(cells)
    columns[response] = pl.Series([0.0] * len(frame))
    return pl.DataFrame(columns)
