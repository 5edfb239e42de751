"""Results of the fitting functions: one class per kind, for released and public numbers only.

A kind is a base, :class:`Fit`, and the capabilities that hold for it (``capabilities.py``): what a
result lists is what it can do. ``Fit(plan, release, estimate)`` makes one of the right kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from dpmodels.errors import (
    NotReleasedError,
    RequestError,
    damage_reported,
    did_you_mean,
    path_of,
    printable,
    shown,
)
from dpmodels.lazy import pd
from dpmodels.notes import Notes
from dpmodels.planning import Plan
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.reports import Ledger
from dpmodels.quiet import quiet, tell
from dpmodels.records import Estimate, Release
from dpmodels.results import inference
from dpmodels.results.adapters import MaketablesPlugin, register
from dpmodels.results.capabilities import (
    Held,
    Intervals,
    JointTests,
    Means,
    MomentAnalyses,
    NewReleases,
    Numbers,
    Predictions,
    Updates,
)
from dpmodels.results.contrasts import Combinations, ratio
from dpmodels.results.effects import balanced_error, confusion_table
from dpmodels.results.joint import level_of, tidy_together
from dpmodels.results.moments import decomposition, inflation
from dpmodels.results.record import (
    AGAIN,
    WHAT,
    Record,
    dumps,
    from_dict,
    ledger_of,
    loads,
    methods_paragraph,
    to_dict,
)
from dpmodels.results.summary import Summary, build, notes_of
from dpmodels.tables import table as table_files
from dpmodels.tables.table import Axes, Written, also
from dpmodels.units import named
from dpmodels.verbs import function_of, new_release, verb_of

_MOMENTS = (
    "R-squared is a function of released second moments, which linear models with an intercept "
    "hold by method='ssp' or 'pmt', or on m = dp_moments('y + x1 + x2', ...): dp_ols(formula, m)."
)
_LIKELIHOOD = (
    "The log-likelihood is a function of the data. Of a linear fit on released second moments it "
    "follows from them: m = dp_moments('y + x1 + x2', ...), dp_ols(formula, m).stats['aic']; "
    "dp_glm(..., fit_stats=True) pays for it."
)
#: Names that readers of statsmodels or R try, and what each would take.
_NOT_RELEASED = {
    "resid": "Residuals are one number per row; no budget makes them private.",
    "residuals": "Residuals are one number per row; no budget makes them private.",
    "fittedvalues": "Fitted values are one number per row. Use predict(new) on public rows.",
    **dict.fromkeys(("rsquared", "rsquared_adj", "rsquared_se"), _MOMENTS),
    **dict.fromkeys(("fvalue", "f_pvalue"), "F needs total standard errors: inference=True."),
    **dict.fromkeys(("llf", "aic", "bic"), _LIKELIHOOD),
    "deviance": "dp_glm(..., fit_stats=True) pays for it: fit.stats['deviance'].",
    "null_deviance": "dp_glm(..., fit_stats=True) pays for it: fit.stats['null_deviance'].",
    "df_resid": "Intervals are normal unless a note says otherwise; fit.as_statsmodels().df_resid "
    "is n less the coefficients, if n is public.",
    **dict.fromkeys(
        ("get_influence", "outlier_test", "hatvalues", "cooks_distance", "plot_diagnostics"),
        "Influence and residuals are numbers of single rows; no budget makes them private. "
        "fit.diagnose(data, eps=, delta=) releases means of residuals by groups.",
    ),
    **dict.fromkeys(
        ("get_robustcov_results", "vcovHC"),
        'Errors are robust from the start; another kind is given in the call, vcov={"CRV1": "g"}.',
    ),
    **dict.fromkeys(
        ("check_assumptions", "cox_zph"),
        "Residuals of hazards are one number per row. Compare curves by group: dp.dp_survfit.",
    ),
    "remove_data": "A fit contains no data.",
    "data": "A fit contains no data.",
    "exog": "A fit contains no data.",
    "endog": "A fit contains no data.",
}
#: Released scalars under the names that other packages have for them.
_STATS = {
    "rsquared": "r_squared", "rsquared_adj": "adj_r_squared", "rsquared_se": "r_squared_se",
    "deviance": "deviance", "null_deviance": "null_deviance", "aic": "aic", "bic": "bic",
    **{stat: stat for name in ("sigma_u2", "sigma_e2", "icc") for stat in (name, f"{name}_se")},
}  # fmt: skip
#: Attribute of another kind of result -> the call that has it.
_ELSEWHERE = {
    **dict.fromkeys(
        ("icc", "sigma_e2", "sigma_u2"),
        'random intercepts release them, dp_feols("y ~ x", data, unit="id", re="id")',
    ),
    "lasso_path": "m = dp.dp_moments('y + x1 + x2', ...), then m.lasso_path('y')",
    "ridge_path": "m = dp.dp_moments('y + x1 + x2', ...), then m.ridge_path('y')",
    "best_subset": "m = dp.dp_moments('y + x1 + x2', ...), then m.best_subset('y')",
    "corr": "m = dp.dp_moments('y + x1 + x2', ...), then m.corr()",
    "predict": "regressions, classifiers and curves predict",
    **dict.fromkeys(("coef_", "coefs", "coefficients", "betas"), "fit.params has the coefficients"),
    "get_prediction": "fit.predict(new, interval='confidence')",
    "predict_survival_function": "fit.predict(new, what='survival', times=[...])",
    **dict.fromkeys(("median", "median_survival_time_"), "fit.quantile(0.5)"),
    "intercept_": "fit.params['Intercept']",
    "to_csv": "fit.tidy().to_csv(path)",
    "to_excel": "fit.tidy().to_excel(path)",
    "to_pickle": "fit.save('fit.json'), read by dp.load",
    **dict.fromkeys(
        ("score", "diagnose"), "it predicts no mean to be scored; regressions do (dp_ols, dp_glm)"
    ),
    "crosstab": "dp.dp_table('~ a * b', ...) has crosstabs",
}


@dataclass(frozen=True)
class Facts:
    """Public facts of a call: its arguments, and the decisions made before the first row.

    Attributes
    ----------
    verb, method, title : str
        ``"dp_ols"``, ``"ssp"``, and what ran, in words.
    level : float
    options : dict
        Of the method, as used.
    unit : str
        Whom the guarantee protects: "one row", or "one person (column person_id)".
    shares, scales : dict
        Shares of the budget by part of the method; noise scales and radii of the plan.
    df_model : int
        Number of coefficients, the intercept not counted (as statsmodels does).
    use_t : bool
        Whether tests and intervals use a t reference.
    """

    verb: str
    method: str
    title: str
    level: float
    options: dict[str, Any]
    unit: str
    shares: dict[str, float]
    scales: dict[str, float]
    df_model: int
    use_t: bool


class Fit(Written, Held, MaketablesPlugin):
    """A differentially private result; the base of every kind.

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
    ``dir(fit)`` lists what a kind can do, each thing under one name; spellings of R, statsmodels
    and earlier versions are accepted too (``fit.coef()``, ``fit.cov_params()``, ``fit.to_json()``).
    Residuals, fitted values and influence measures are absent: they are functions of private rows
    on which nothing was spent. Asking for one raises ``NotReleasedError``; so does R-squared of a
    fit without released second moments.
    """

    __slots__ = ("_record",)
    _kinds: ClassVar[dict[str, type[Fit]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Fit._kinds[cls.__name__] = cls

    def __new__(cls, plan: Plan[Any], release: Release, estimate: Estimate) -> Fit:
        """Return a fit of the kind that its verb has."""
        return Fit._of(Record.of(plan, release, estimate))

    @classmethod
    def _of(cls, record: Record) -> Fit:
        """Return the fit of a record, in the class of its function."""
        self = object.__new__(kind_of(record.call.verb))
        object.__setattr__(self, "_record", record)
        register()
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a fit is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a fit is frozen: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Fit._of, (self._record,)

    def __getitem__(self, name: Any) -> Any:
        raise RequestError(
            f"a fit has no items: fit.params[{shown(name)}], fit.tidy() for a table of all"
        )

    __iter__: None = None

    def _absent(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        stats = self._record.estimate.stats
        if _STATS.get(name) in stats:
            return float(stats[_STATS[name]])
        if name == "family" and "family" in self._record.call.options:
            return self._record.call.options["family"]
        if name in _NOT_RELEASED:
            raise NotReleasedError(f"{name} was not released. {_NOT_RELEASED[name]}")
        what = f"a result of {self._record.call.verb} ({type(self).__name__}) has no attribute"
        if name in _ELSEWHERE:
            raise NotReleasedError(f"{what} {name!r}: {_ELSEWHERE[name]}")
        raise AttributeError(f"{what} {name!r}.{did_you_mean(name, dir(self))}")

    if TYPE_CHECKING:  # a checker knows released statistics, and finds names that no result has
        rsquared: float
        rsquared_adj: float
        rsquared_se: float
        deviance: float
        null_deviance: float
        aic: float
        bic: float
        sigma_u2: float
        sigma_u2_se: float
        sigma_e2: float
        sigma_e2_se: float
        icc: float
        icc_se: float
        family: str
    else:
        __getattr__ = _absent

    # -- public facts ----------------------------------------------------------------------
    @property
    def method(self) -> str:
        """Name of the method."""
        return self._record.call.method

    @property
    def formula(self) -> str:
        """The formula as typed."""
        return self._record.call.formula

    @property
    def nobs(self) -> int | None:
        """Public number of rows, or of people under ``unit=``; None where it is private."""
        return self._record.n

    @property
    def facts(self) -> Facts:
        """Public facts of the call: options, level, unit, shares, noise scales."""
        record, names = self._record, self._record.estimate.names
        call = record.call
        return Facts(
            call.verb, call.method, call.method_title, call.level, dict(call.options),
            named(record.guarantee.unit), dict(record.shares), dict(record.scales),
            len(names) - ("Intercept" in names), record.estimate.use_t is not None,
        )  # fmt: skip

    @property
    def design(self) -> Any:
        """The design: columns, intervals in force (estimated ones included), row norm. Public."""
        return self._record.design

    @property
    def released(self) -> bool:
        """False after a no-reply."""
        return self._record.estimate.released

    @property
    def privacy(self) -> Guarantee:
        """The guarantee: ``.eps .delta .relation .unit .statement() .delta_at() .eps_at()``."""
        return self._record.guarantee

    @property
    def ledger(self) -> Ledger:
        """The charges of this call, one line per step; prints as a table."""
        return ledger_of(self._record)

    @property
    def stats(self) -> dict[str, float]:
        """Released scalars (``sigma``, ``r_squared``, the statistic of a test, ...)."""
        return dict(self._record.estimate.stats)

    @property
    def notes(self) -> Notes:
        """All notes of the fit as strings, as in ``summary(full=True)``.

        ``fit.notes.to_frame()`` has the code, severity, columns, short and long form of each.
        """
        return Notes.of(notes_of(self._record))

    @also.method
    def statement(self) -> str:
        """Return a paragraph for a methods section: guarantee, neighbours, noise, method, errors.

        Privacy
        -------
        Post-processing: costs nothing. Every number is public.
        """
        return methods_paragraph(self._record)

    # -- tables, pictures, files -----------------------------------------------------------
    def summary(
        self,
        fmt: str | None = None,
        digits: int = 4,
        stars: bool = False,
        *,
        notes: bool = True,
        full: bool = False,
        level: float | None = None,
        exponentiate: bool = False,
        labels: bool = True,
        joint: bool = False,
    ) -> Summary:
        """Return the summary table; ``print`` it, or convert it to HTML, LaTeX or Markdown.

        Parameters
        ----------
        fmt : {"text", "md", "html", "tex"}, optional
            Format of ``str()``.
        digits : int
            Decimals of estimates and standard errors.
        stars, notes : bool
            Significance stars (off by default, with their legend); the notes.
        full : bool
            All notes; else the three that weigh most.
        level : float, optional
            Confidence level; default: that of the fit.
        exponentiate : bool
            Show exp of estimates and of ends of intervals (odds or rate ratios); standard errors
            and tests stay on the scale of the coefficients.
        labels : bool
            Print the labels of the schema, if it has any, instead of names of coefficients.
        joint : bool
            Intervals that hold for all coefficients (of curves: all points) together.

        Privacy
        -------
        Post-processing: costs nothing. Every number is public or released.
        """
        return build(
            self._record, fmt=fmt, digits=digits, stars=stars, notes=notes, full=full, level=level,
            exponentiate=exponentiate, labels=labels, joint=joint,
        )  # fmt: skip

    def _shown(self) -> Any:
        return self.summary()

    def tidy(
        self,
        conf_int: bool = True,
        level: float | None = None,
        style: str | None = None,
        *,
        exponentiate: bool = False,
        joint: bool = False,
        adjust: str | None = None,
        **other: Any,
    ) -> pd.DataFrame:
        """Return one row per estimate, with the column names of R's broom.

        Parameters
        ----------
        conf_int : bool
            Add ``conf_low, conf_high``.
        level : float, optional
            Confidence level; default: that of the fit.
        style : {"python", "r"}, optional
            ``"r"`` writes ``std.error`` for ``std_error``. None: as ``dp.tidy_style("r")`` set it
            for the session, at first ``"python"``.
        exponentiate : bool
            Exp of estimates and of ends of intervals, as broom does it; standard errors stay.
        joint : bool
            Intervals that hold for all rows together; ``.attrs["joint"]`` says which.
        adjust : {"BH", "BY", "holm", "bonferroni"}, optional
            Adjust P for the number of tested rows; ``.attrs["adjust"]`` says for how many.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        for name in other:
            meant = {"conf_level": "level=0.9", "alpha": "level=0.9", "exp": "exponentiate=True"}
            arguments = ("conf_int", "level", "style", "exponentiate", "joint", "adjust")
            hint = f" Type {meant[name]}" if name in meant else did_you_mean(name, arguments)
            raise RequestError(f"tidy has no argument {name!r}.{hint}")
        level = self._level(level)
        if joint or adjust is not None:
            plain = self.tidy(conf_int, level, "python", exponentiate=exponentiate)
            frame = tidy_together(self._record, plain, level, exponentiate and "exp", joint, adjust)
            return inference.styled(frame, style)
        tidy = self.kind.load("tidy")
        if tidy is not None and self.released:
            return inference.styled(tidy(self._record, conf_int, level), style)
        return inference.tidy(
            self._record.estimate, conf_int_=conf_int, level=level, style=style,
            exponentiate=exponentiate,
        )  # fmt: skip

    def glance(self, style: str | None = None) -> pd.DataFrame:
        """Return one row: public facts, the guarantee and released statistics.

        Parameters
        ----------
        style : {"python", "r"}, optional

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return inference.glance(self._record, style=style)

    def plot(self, ax: Axes | None = None, *, level: float | None = None, **style: Any) -> Axes:
        """Draw the released estimates with their intervals (needs matplotlib).

        Coefficients: inner bar sampling error only, outer bar total. A kind may have its own
        picture: a kernel regression shows its curve, a table its counts.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        level : float, optional
            Default: the ``level`` of the fit.
        **style
            For a plot of coefficients: ``intercept=True`` shows the intercept too,
            ``scale="standardised"`` those of predictors in units of half their range, ``groups=``,
            ``color=``. ``joint=True``: intervals, or bands of curves, that hold together.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        draw, level = self.kind.load("plot"), self._level(level)
        if style.get("joint") and self.kind.tidy:
            style["joint"], level = level, level_of(self._record, level)[0]
        return draw(self, ax, level=level, **style)

    def save(self, path: str | Path) -> None:
        """Write the fit as JSON: ``dp.load(path)`` reads it back.

        Privacy
        -------
        The file holds public and released numbers only; its size does not grow with the data.
        """
        table_files.write_whole(table_files.check_saved(path), dumps(self._record))

    # -- other spellings, accepted and not listed ------------------------------------------
    coefplot = also("plot")
    model, level, options = also("facts.verb"), also("facts.level"), also("facts.options")
    shares, scales, unit = also("facts.shares"), also("facts.scales"), also("facts.unit")
    df_model, use_t = also("facts.df_model"), also("facts.use_t")
    from_json, from_dict = also("_from_json"), also("_from_dict")

    kind = also(lambda fit: verb_of(fit._record.call.verb))
    # The released arrays beside the estimates; read-only.
    arrays = also(lambda fit: dict(fit._record.estimate.arrays))
    # Public fit (``public=``) and private fit, a DataFrame, or None without public rows.
    public = also(lambda fit: inference.public_and_private(fit._record.estimate))
    # The noised table the fit was made from (``method="drcl"`` and its kin), else None. Left out of
    # the fit's pickle and JSON; keep it with ``fit.release.save(path)``.
    release = also(lambda fit: fit._record.table)

    @also.method
    def to_dict(self) -> dict[str, Any]:
        """Return the fit as plain lists and numbers, with a format version."""
        return to_dict(self._record)

    @also.method
    def to_json(self, path: str | Path | None = None) -> str:
        """Return the JSON text that :meth:`save` writes, and write it to ``path`` if given."""
        text = dumps(self._record)
        if path is not None:
            table_files.write_whole(path_of(path), text)
        return text

    @classmethod
    def _from_dict(cls, saved: dict[str, Any]) -> Fit:
        """Restore a fit from ``to_dict()``."""
        return cls._shown_once(from_dict(saved))

    @classmethod
    def _from_json(cls, text: str) -> Fit:
        """Restore a fit from ``to_json()``."""
        return cls._shown_once(loads(text))

    @classmethod
    def _shown_once(cls, record: Record) -> Fit:
        """Return a fit of a file that can be shown; another file is damaged."""
        with damage_reported(WHAT, AGAIN), quiet():
            fit = cls._of(record)
            str(fit.summary(full=True)), repr(fit), fit.tidy(), fit.glance()
        return fit

    def __repr__(self) -> str:
        call, promise = self._record.call, self._record.guarantee
        if promise.seeded:
            privacy = "NOT PRIVATE (seeded)"
        else:
            privacy = f"(eps = {promise.eps:g}, delta = {promise.delta:g})-DP"
        reply = "released" if self.released else "NO REPLY"
        n = "private" if self.nobs is None else self.nobs
        return printable(
            f"<{call.verb}: {call.formula} | {call.method} | n = {n} | {privacy} | {reply}>\n"
            "fit.summary() for the table, fit.ledger for the charges"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _repr_latex_(self) -> str:
        return self.summary().as_latex()


# -- the kinds -------------------------------------------------------------------------------------


class Estimates(Numbers, Fit):
    """Released numbers with errors: a user's own estimator or mechanism (``dp_eptr, dp_gptr``)."""

    __slots__ = ()


class Averages(Numbers, JointTests, Fit):
    """Means with errors (``dp_mean``), and tests between them."""

    __slots__ = ()

    def ratio(self, over: str, under: str, *, level: float | None = None) -> Combinations:
        """Return the ratio of two means, with its interval (as ``svyratio`` of a weighted fit).

        Parameters
        ----------
        over, under : str
            Names of means of this fit: ``dp_mean("y + x ~ 1", ...).ratio("y", "x")``.
        level : float, optional

        Privacy
        -------
        Post-processing: costs nothing. The delta method, with the covariances of sampling and
        noise; refused where the denominator is within three errors of 0.
        """
        return ratio(self._record, over, under, self._level(level))


class TreatmentEffect(Numbers, JointTests, Fit):
    """An average treatment effect, with the means of both arms (``dp_ate``)."""

    __slots__ = ()

    def balance(self) -> pd.DataFrame:
        """Return means and standardised mean differences of covariates, before and after weighting.

        Privacy
        -------
        Released with the effect: costs nothing. ``noise`` is the sd of the noise of a difference.
        """
        return function_of("dpmodels.models.treatment.show:balance")(self)

    def overlap(self) -> pd.DataFrame:
        """Return the released histogram of the propensity in both arms, one row per cell.

        Privacy
        -------
        Released with the effect: costs nothing. Counts are noisy, and may be below 0.
        """
        return function_of("dpmodels.models.treatment.show:overlap")(self)


class Regression(Numbers, JointTests, Means, Predictions, Updates, NewReleases, Fit):
    """A regression with one linear predictor (``dp_glm, dp_mest, dp_iv``)."""

    __slots__ = ()

    def vif(self) -> pd.DataFrame:
        """Return variance inflation factors, one per coefficient, from the released information.

        How many times larger the sampling variance is than if the column were unrelated to the
        others: in a generalised linear model at the weights of the fit, as R's car has it. For
        terms with several columns the generalised factor (Fox and Monette 1992) is given too, as
        ``gvif`` with ``df``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return inflation(self._record)


class LinearRegression(Regression):
    """A linear regression (``dp_ols``)."""

    __slots__ = ()

    @also.method
    def decompose(
        self, name: str, *, groups: Any = None, given: Any = (), level: float | None = None
    ) -> pd.DataFrame:
        """Decompose the change of a coefficient when the others came in (Gelbach 2016).

        The base model has the constant, ``name`` and ``given``; the full model is this fit. Their
        coefficients of ``name`` differ by a sum over what came in, whatever its order.

        Parameters
        ----------
        name : str
            A coefficient of this fit.
        groups : mapping, optional
            Label -> terms or columns that are taken together. Default: one group per term.
        given : str or list of str
            Terms that the base model has too.
        level : float, optional

        Returns
        -------
        DataFrame
            Rows "base", "full", "explained" (their difference) and one a group, whose estimates
            add up to it; ``share`` of it. Errors hold the noise of the release.

        Privacy
        -------
        Post-processing of released second moments: costs nothing.
        """
        return decomposition(self._record, name, groups, given, self._level(level))

    corr, partial_corr = also.method(MomentAnalyses.corr), also.method(MomentAnalyses.partial_corr)
    ridge_path = also.method(MomentAnalyses.ridge_path)
    lasso_path = also.method(MomentAnalyses.lasso_path)
    best_subset = also.method(MomentAnalyses.best_subset)
    components = also.method(MomentAnalyses.components)


class QuantileRegression(Numbers, JointTests, Means, Predictions, Updates, Fit):
    """A regression of one or several quantiles (``dp_quantreg``)."""

    __slots__ = ()


class Predictor(Numbers, Predictions, Fit):
    """Released numbers that predict, by a rule of their verb."""

    __slots__ = ()


class Classifier(Predictor):
    """A classifier: class statistics, predicted classes and probabilities (``dp_bayes``)."""

    __slots__ = ()

    def confusion_table(self, new: Any) -> pd.DataFrame:
        """Count public test rows by true and predicted class: :func:`dpmodels.confusion_table`."""
        return confusion_table(self, new)

    def balanced_error(self, new: Any) -> float:
        """Return one minus the mean recall on public test rows: :func:`dpmodels.balanced_error`."""
        return balanced_error(self, new)


class Curve(Predictor):
    """A curve at released points, and between them (``dp_npreg``)."""

    __slots__ = ()


class Components(Numbers, Fit):
    """Principal components (``dp_pca``)."""

    __slots__ = ()


class Moments(Numbers, MomentAnalyses, Fit):
    """Second moments (``dp_moments``): also the data of further regressions, at no cost."""

    __slots__ = ()


class Tabulation(Numbers, Fit):
    """Counts, shares, means and quantiles by group (``dp_table``)."""

    __slots__ = ()

    def summary(
        self,
        fmt: str | None = None,
        digits: int = 4,
        stars: bool = False,
        *,
        notes: bool = True,
        full: bool = False,
        level: float | None = None,
        exponentiate: bool = False,
        labels: bool = True,
        joint: bool = False,
        errors: bool | None = None,
        smd: bool | None = None,
        p_values: bool | None = None,
    ) -> Summary:
        """Return the table; ``print`` it, or ask it for HTML, LaTeX or markdown.

        Several variables are one table: variables in rows, groups and their total in columns. Any
        other table has one part per margin, with intervals.

        Parameters
        ----------
        fmt, digits, stars, notes, full, level, exponentiate, labels, joint
            As for any fit.
        errors : bool, optional
            Print the standard deviation of the noise of each number. Default: as in the call, or
            True.
        smd : bool, optional
            Print the standardised difference of the groups, the largest if there are several.
        p_values : bool, optional
            Print P of equal means or shares in all groups, where errors were released.

        Privacy
        -------
        Post-processing: costs nothing. Every number is public or released.
        """
        return build(
            self._record, fmt=fmt, digits=digits, stars=stars, notes=notes, full=full, level=level,
            exponentiate=exponentiate, labels=labels, joint=joint, errors=errors, smd=smd,
            p_values=p_values,
        )  # fmt: skip

    def __str__(self) -> str:
        return str(self.summary())

    def crosstab(
        self, rows: str | None = None, columns: str | None = None, *, margins: bool = True
    ) -> pd.DataFrame:
        """Return the released counts of two variables as a frame, with margins.

        Parameters
        ----------
        rows, columns : str, optional
            Names of two variables that were crossed; default: the first pair.
        margins : bool

        Privacy
        -------
        Post-processing: costs nothing.
        """
        show = function_of("dpmodels.models.table.show:crosstab")
        return show(self, rows, columns, margins=margins)


class SurvivalCurves(Numbers, Fit):
    """Survival curves by group, with medians and restricted means (``dp_survfit``).

    Everything here is post-processing of one release: it costs nothing.
    """

    __slots__ = ()

    def quantile(
        self, q: Any = 0.5, *, level: float | None = None, steps: bool | None = None
    ) -> pd.DataFrame:
        """Return the times by which shares q have had the event; 0.5 is the median.

        Parameters
        ----------
        q : float or list of float
        level : float, optional
        steps : bool, optional
            As in :meth:`rmst`.

        Returns
        -------
        DataFrame
            ``strata, q, estimate, conf_low, conf_high``; NaN where curve or band stays above.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return self._read_off("quantile", q, level=level, steps=steps)

    def at(self, times: Any, *, level: float | None = None) -> pd.DataFrame:
        """Return survival at public times.

        A released curve is known at its breaks. Between two of them the estimate is that of the
        last one (a step function, as Kaplan and Meier's), and the interval reaches from the lower
        end at the next break to the upper end at the last one.

        Parameters
        ----------
        times : float or list of float
        level : float, optional

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return self._read_off("at", times, level=level)

    def rmst(
        self, tau: float | None = None, *, level: float | None = None, steps: bool | None = None
    ) -> pd.DataFrame:
        """Return restricted mean survival times: the areas under the curves up to ``tau``.

        Parameters
        ----------
        tau : float, optional
            Default: the last break.
        level : float, optional
        steps : bool, optional
            Whether curves fall at once, as Kaplan and Meier's: at every whole number if times are
            declared to be whole (``dp.Count``), else at the breaks. Otherwise they are straight
            between breaks. Default: if times are declared to be whole.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return self._read_off("rmst", tau, level=level, steps=steps)

    def difference(
        self, times: Any = None, *, tau: float | None = None, level: float | None = None,
        steps: bool | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Return differences between groups, each pair once.

        Parameters
        ----------
        times : float or list of float, optional
            Of survival at these times.
        tau : float, optional
            Of restricted means up to tau.
        level : float, optional
        steps : bool, optional
            As in :meth:`rmst`.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return self._read_off("difference", times, tau=tau, level=level, steps=steps)

    def cumulative_hazard(self, *, level: float | None = None) -> pd.DataFrame:
        """Return cumulative hazards, ``-log S``, with intervals.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return self._read_off("cumulative_hazard", level=level)

    def risk_table(self, times: Any = None) -> pd.DataFrame:
        """Return released numbers at risk at the breaks: noisy, and maybe negative.

        Parameters
        ----------
        times : list of float, optional
            Among the breaks.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return self._read_off("risk_table", times)

    def survdiff(self) -> Fit:
        """Return the log-rank test of the groups: :func:`dpmodels.dp_survdiff`, already released.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return new_release("survdiff")(self)

    def _read_off(self, name: str, *positional: Any, **named: Any) -> pd.DataFrame:
        """Return a frame that is computed from the released curves."""
        return function_of(f"dpmodels.models.survival.show:{name}")(
            self, *positional, **named
        )


class Quantiles(Intervals, Fit):
    """Quantiles with intervals (``dp_quantile``)."""

    __slots__ = ()
    bse = also(lambda fit: Numbers.bse.fget(fit))  # type: ignore[attr-defined]


class TestResult(Numbers, Fit):
    """Test: statistic, degrees of freedom, p-value and hypothesis (``dp_test``)."""

    __slots__ = ()
    __test__ = False

    @property
    def statistic(self) -> float:
        """The statistic; noise is in its variance."""
        return self._stat("statistic")

    @property
    def df(self) -> float:
        """Degrees of freedom of its reference."""
        return self._stat("df")

    @property
    def pvalue(self) -> float:
        """The p-value."""
        return self._stat("p_value")


def kind_of(verb: str) -> type[Fit]:
    """Return the class of the fits of a verb."""
    entry = verb_of(verb)
    plain = entry.predict == "dpmodels.results.effects:regression"
    other = "Predictor" if entry.predict else "Estimates"
    name = entry.kind or ("Regression" if plain else other)
    if name not in Fit._kinds:  # kinds that are kept apart enter themselves
        function_of(f"dpmodels.results.kinds:{name}")
    return Fit._kinds[name]


def load(path: str | Path) -> Any:
    """Load a file of ``save(path)``: a fit, a test, a score, a table, or a release.

    Parameters
    ----------
    path : str or Path

    Privacy
    -------
    Costs nothing: the file holds public and released numbers.
    """
    saved = table_files.read(path)
    if isinstance(saved, dict) and saved.get("format") == table_files.FORMAT:
        tell(*table_files.check_seal(saved, table_files.WHAT, table_files.AGAIN))
        return table_files.load(saved)
    if isinstance(saved, dict) and str(saved.get("format", "")).startswith("dpmodels.records"):
        noised: Any = function_of("dpmodels.models.noised.table:NoisyTable")
        return noised.load(path)
    with damage_reported(WHAT, AGAIN):
        text = Path(path).read_text(encoding="utf-8")
    return Fit.from_json(text)
