"""The result of a verb: a frozen face on released and public numbers."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpmodels.errors import NotReleasedError, RequestError, whole
from dpmodels.quiet import quiet
from dpmodels.results import inference
from dpmodels.results.analysis import Analysis, NewReleases, OnMoments
from dpmodels.results.plugin import MaketablesPlugin, register
from dpmodels.results.record import Record
from dpmodels.results.views import Estimates, PublicFacts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpmodels.estimate import Estimate
    from dpmodels.planning import Plan
    from dpmodels.release import Release
    from dpmodels.results.summary import Summary

__all__ = ["Fit", "load"]

_MOMENTS = (
    "R-squared is a function of released second moments, which linear models with an intercept "
    "hold by method='ssp' or 'pmt', or on m = dp_moments('y + x1 + x2', ...): dp_ols(formula, m)."
)
#: Names that readers of statsmodels or R try, and what each would take.
_NOT_RELEASED = {
    "resid": "Residuals are one number a row; no budget makes them private.",
    "residuals": "Residuals are one number a row; no budget makes them private.",
    "fittedvalues": "Fitted values are one number a row. Use predict(new) on public rows.",
    **dict.fromkeys(("rsquared", "rsquared_adj", "rsquared_se"), _MOMENTS),
    **dict.fromkeys(("fvalue", "f_pvalue"), "F needs total standard errors: inference=True."),
    "llf": "The log-likelihood is a function of the data; it would need a release of its own.",
    "aic": "The log-likelihood is a function of the data; it would need a release of its own.",
    "bic": "The log-likelihood is a function of the data; it would need a release of its own.",
    "deviance": "dp_glm(..., fit_stats=True) pays for it: fit.stats['deviance'].",
    "null_deviance": "dp_glm(..., fit_stats=True) pays for it: fit.stats['null_deviance'].",
    "df_resid": "Intervals are normal, or say otherwise; fit.as_statsmodels().df_resid is n less "
    "the coefficients, where n is public.",
    "get_influence": "Influence measures are one number a row; no budget makes them private.",
    "data": "A fit keeps no data.",
    "exog": "A fit keeps no data.",
    "endog": "A fit keeps no data.",
}


class Fit(PublicFacts, Estimates, Analysis, NewReleases, OnMoments, MaketablesPlugin):
    """A differentially private fit.

    Frozen; holds released numbers, public facts and the guarantee, and no row of the data: its
    pickle and its JSON have the same size at any number of rows.

    Parameters
    ----------
    plan : Plan
    release : Release
    estimate : Estimate

    Privacy
    -------
    Post-processing of a release: costs nothing. What the release cost is ``fit.privacy``, step
    by step in ``fit.ledger``.

    Notes
    -----
    Residuals, fitted values and influence measures are absent: they are functions of private rows
    on which nothing was spent. Asking for one raises ``NotReleasedError``; so does R-squared of a
    fit without released second moments.
    """

    __slots__ = ("_record",)

    def __init__(self, plan: Plan, release: Release, estimate: Estimate) -> None:
        object.__setattr__(self, "_record", Record.of(plan, release, estimate))
        register()

    @classmethod
    def _of(cls, record: Record) -> Fit:
        self = cls.__new__(cls)
        object.__setattr__(self, "_record", record)
        register()
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a fit is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a fit is frozen: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Fit._of, (self._record,)

    def __getattr__(self, name: str) -> Any:
        view = None if name.startswith("_") else self.kind.load_view(name)
        if view is not None:
            return partial(view, self)
        if name in ("deviance", "null_deviance") and name in self.stats:
            return self.stats[name]
        if name == "family" and "family" in self._record.call.options:
            return self._record.call.options["family"]
        if name in _NOT_RELEASED:
            raise NotReleasedError(f"{name} was not released. {_NOT_RELEASED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def summary(
        self,
        fmt: str | None = None,
        digits: int = 4,
        stars: bool = False,
        *,
        notes: bool = True,
        level: float | None = None,
        exponentiate: bool = False,
    ) -> Summary:
        """Summary table; ``print`` it, or ask it for HTML, LaTeX, markdown or typst.

        Parameters
        ----------
        fmt : {"text", "md", "html", "tex", "typst"}, optional
            Format of ``str()``.
        digits : int
            Decimals of estimates and standard errors.
        stars, notes : bool
            Significance stars (off by default, with their legend); the notes.
        level : float, optional
            Confidence level; default: that of the fit.
        exponentiate : bool
            Show exp of estimates and of ends of intervals (odds or rate ratios); standard errors
            and tests stay on the scale of the coefficients.

        Privacy
        -------
        Post-processing: costs nothing. Every number is public or released.
        """
        from dpmodels.results.summary import build

        return build(
            self._record, fmt=fmt, digits=digits, stars=stars, notes=notes, level=level,
            exponentiate=exponentiate,
        )  # fmt: skip

    def tidy(
        self,
        conf_int: bool = True,
        level: float | None = None,
        style: str = "python",
        *,
        exponentiate: bool = False,
    ) -> pd.DataFrame:
        """One row a coefficient, with the column names of R's broom.

        Parameters
        ----------
        conf_int : bool
            Add ``conf_low, conf_high``.
        level : float, optional
            Confidence level; default: that of the fit.
        style : {"python", "r"}
            ``"r"`` writes ``std.error`` for ``std_error``.
        exponentiate : bool
            Exp of estimates and of ends of intervals, as broom does it; standard errors stay.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        level = self.level if level is None else level
        own = self.kind.load_tidy()
        if own is not None and self.released:
            return inference.styled(own(self._record, conf_int, level), style)
        return inference.tidy(
            self._record.estimate, conf_int_=conf_int, level=level, style=style,
            exponentiate=exponentiate,
        )  # fmt: skip

    def glance(self, style: str = "python") -> pd.DataFrame:
        """One row: public facts, the guarantee and released statistics (NaN if not released).

        Parameters
        ----------
        style : {"python", "r"}

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return inference.glance(self._record, style=style)

    def _warn_of_odd_cells(self, new: Any, outside: str) -> None:
        from dpmodels.errors import UtilityWarning
        from dpmodels.formula.predict import odd_cells

        if not self.released or not (hasattr(new, "keys") or hasattr(new, "columns")):
            return
        said = odd_cells(self.design, new, outside)
        if said:
            more = "" if outside != "clip" else " (outside='nan' or 'extrapolate' do otherwise)"
            warnings.warn(UtilityWarning(f"predict: {'; '.join(said)}{more}"), stacklevel=3)

    def predict(
        self,
        new: Any = None,
        interval: str | None = None,
        level: float | None = None,
        what: str = "mean",
        *,
        se_fit: bool = False,
        outside: str = "clip",
        **other: Any,
    ) -> Any:
        """Predict at new rows.

        Warns of cells that are outside the ranges in force, or not a declared level: the rows are
        the caller's, so that may be said.

        Parameters
        ----------
        new : DataFrame or mapping of columns
            Rows with the variables of the formula. There is no default: a fit keeps no rows.
        interval : {None, "confidence", "prediction"}
            As ``predict.lm`` in R.
        level : float, optional
            Default: the ``level`` of the fit.
        what : str
            ``"mean"``; families add their own (``"link"``, ``"class"``, ``"prob"``).
        se_fit : bool
            Add a column ``se_fit``.
        outside : {"clip", "nan", "extrapolate"}
            Cells outside the ranges in force: moved to the bound, answered by NaN, or used as
            they are.

        Returns
        -------
        Series, or DataFrame with ``fit, lwr, upr`` (and ``se_fit``)

        Privacy
        -------
        Post-processing of released coefficients: costs nothing. But a prediction *computed from
        a private row* is as private as that row; the guarantee does not cover it.
        """
        function = self.kind.load_predict()
        if function is None:
            raise NotReleasedError(f"{self.model} has no predict")
        if new is None or other:
            name = next(iter(other), "")
            raise RequestError(
                (f"predict has no argument {name}=: " if name else "predict needs rows: ")
                + "fit.predict(new), new a frame with the variables of the formula. A fit keeps no "
                "rows of its own"
            )
        level = self.level if level is None else level
        self._warn_of_odd_cells(new, outside)
        return function(
            self,
            new,
            what=what,
            interval=interval,
            level=level,
            se_fit=se_fit,
            outside=outside,
        )

    def plot(self, ax: Axes | None = None, *, level: float | None = None, **style: Any) -> Axes:
        """Coefficient plot: inner bar sampling error only, outer bar total (needs matplotlib).

        A family may have a picture of its own: a kernel regression shows its curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        level : float, optional
            Default: the ``level`` of the fit.
        **style
            ``intercept=True`` shows the intercept too; ``color=``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        draw = self.kind.load_plot()
        axes: Axes = draw(self, ax, level=self.level if level is None else level, **style)
        return axes

    coefplot = plot

    def to_dict(self) -> dict[str, Any]:
        """Return the fit as plain lists and numbers, with a format version."""
        from dpmodels.results.saved import to_dict

        return to_dict(self._record)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the fit as JSON text, and write it to ``path`` if one is given.

        Privacy
        -------
        The file holds public and released numbers only; its size does not grow with the data.
        """
        from dpmodels.results.saved import dumps

        text = dumps(self._record)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Fit:
        """Restore a fit from :meth:`to_dict`."""
        from dpmodels.results.saved import from_dict

        return cls._shown_once(from_dict(saved))

    @classmethod
    def from_json(cls, text: str) -> Fit:
        """Restore a fit from :meth:`to_json`."""
        from dpmodels.results.saved import loads

        return cls._shown_once(loads(text))

    @classmethod
    def _shown_once(cls, record: Record) -> Fit:
        """Return a fit of a file that can be shown; another file is damaged."""
        from dpmodels.results.saved import AGAIN, WHAT

        fit = cls._of(record)
        with whole(WHAT, AGAIN), quiet():
            str(fit.summary()), repr(fit), fit.tidy(), fit.glance()
        return fit

    def __repr__(self) -> str:
        call, promise = self._record.call, self._record.guarantee
        if promise.seeded:
            privacy = "NOT PRIVATE (seeded)"
        else:
            privacy = f"(eps = {promise.eps:g}, delta = {promise.delta:g})-DP"
        reply = "released" if self.released else "NO REPLY"
        n = "private" if self.nobs is None else self.nobs
        return (
            f"<{call.verb}: {call.formula} | {call.method} | n = {n} | {privacy} | {reply}>\n"
            "fit.summary() for the table, fit.ledger for the charges"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _repr_latex_(self) -> str:
        return self.summary().as_latex()


def load(path: str | Path) -> Fit:
    """Load a fit that ``fit.to_json(path)`` wrote.

    Parameters
    ----------
    path : str or Path

    Privacy
    -------
    Costs nothing: the file holds public and released numbers.
    """
    from dpmodels.results.saved import AGAIN, WHAT

    if not Path(path).is_file():
        raise RequestError(f"there is no file {str(path)!r}")
    with whole(WHAT, AGAIN):
        text = Path(path).read_text(encoding="utf-8")
    return Fit.from_json(text)
