"""Capabilities of a result: one small class per capability, combined by ``results/fit.py``.

Each is a face on the one record of a fit and holds nothing itself; the work is done in the module
that a method imports. A spelling of another package is accepted by ``also`` and not listed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError, RequestError, UtilityWarning, did_you_mean
from dpmodels.formula.design import odd_cells
from dpmodels.lazy import pd
from dpmodels.results import inference
from dpmodels.results.adapters import StatsmodelsLike
from dpmodels.results.bands import predicted
from dpmodels.results.contrasts import Combinations, contrast, emmeans, relevel
from dpmodels.results.effects import (
    avg_comparisons,
    avg_predictions,
    avg_slopes,
    charged_means,
    shrunk,
    widths,
)
from dpmodels.results.inference import AnovaTable, JointTest
from dpmodels.results.joint import ends_of, joined
from dpmodels.results.moments import correlations, path, principal, subsets
from dpmodels.results.record import Record
from dpmodels.results.statements import Statements
from dpmodels.results.synthetic import SyntheticTables, draws, synthetic
from dpmodels.tables.table import also
from dpmodels.verbs import new_release, verb_of


class Held:
    """Whatever has the record of a fit; the base of every capability."""

    __slots__ = ()
    _record: Record

    def _level(self, level: float | None) -> float:
        return self._record.call.level if level is None else level

    def _stat(self, key: str) -> float:
        """Return a released statistic, or raise the error that names the option to release it."""
        value = self._record.estimate.stats.get(key)
        if value is None:
            raise NotReleasedError(key)  # Fit.__getattr__ says what would pay for it
        return float(value)


class Intervals(Held):
    """Released numbers and their intervals."""

    __slots__ = ()

    @property
    def params(self) -> pd.Series[float]:
        """Released numbers by name; all NaN after a no-reply."""
        est = self._record.estimate
        return inference.series(est.params, est.names, "params")

    def conf_int(
        self,
        level: float | None = None,
        *,
        alpha: float | None = None,
        method: str | None = None,
        joint: bool = False,
    ) -> pd.DataFrame:
        """Return confidence intervals from the standard error, and the bias bound if there is one.

        Parameters
        ----------
        level : float, optional
            Default: the ``level`` of the fit.
        alpha : float, optional
            ``1 - level``, as statsmodels writes it.
        method : {"normal"}, optional
            How; None: the method's own (normal, or t where ``use_t``).
        joint : bool
            Intervals that hold for all coefficients together; ``.attrs["joint"]`` says which.

        Returns
        -------
        DataFrame
            Indexed by coefficient, columns such as ``2.5 %`` and ``97.5 %``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        if alpha is not None:
            if level is not None:
                raise RequestError("conf_int accepts level= or alpha=, not both")
            level = 1 - alpha
        elif level is not None and isinstance(level, (int, float)) and 0 < level < 0.5:
            raise RequestError(
                f"conf_int({level:g}) would be an interval of {100 * level:g} %: level= is the "
                f"coverage, conf_int({1 - level:g}); as in statsmodels, conf_int(alpha={level:g})"
            )
        if method not in (None, "normal"):
            raise RequestError(f"method={method!r}: this fit knows method='normal' only")
        level = self._level(level)
        est = self._record.estimate
        tidy = verb_of(self._record.call.verb).load("tidy") if est.released else None
        note = ""
        if joint:
            low, high, note = ends_of(self._record, level)
        elif tidy is None:
            low, high = inference.conf_int(est, level)
        else:  # intervals that are not estimate -+ multiple of an error
            frame = tidy(self._record, True, level)
            low, high = frame["conf_low"].to_numpy(), frame["conf_high"].to_numpy()
        names = inference.bound_names(level)
        table: pd.DataFrame = pd.DataFrame(
            {names[0]: low, names[1]: high}, index=pd.Index(list(est.names))
        )
        table.attrs.update({"joint": note} if joint else {})
        return table

    coef = also(lambda fit: lambda: fit.params)
    confint = also("conf_int")


class Numbers(Intervals):
    """Released numbers with their two errors."""

    __slots__ = ()

    @property
    def bse(self) -> pd.Series[float]:
        """Root of the variances, sqrt(sampling^2 + privacy^2).

        The printed standard error. Intervals and p-values also allow for a bias: ``fit.errors()``.
        """
        return self._errors("total", "bse")

    @property
    def bse_sampling(self) -> pd.Series[float]:
        """Sampling part of the standard error; NaN where nothing was spent on it."""
        return self._errors("sampling", "bse_sampling")

    @property
    def bse_privacy(self) -> pd.Series[float]:
        """Privacy part of the standard error; NaN where it is not known."""
        return self._errors("privacy", "bse_privacy")

    def _errors(self, kind: str, title: str) -> pd.Series[float]:
        est = self._record.estimate
        return inference.series(inference.standard_errors(est, kind), est.names, title)

    def errors(self) -> pd.DataFrame:
        """Return the parts of the error of each coefficient.

        Returns
        -------
        DataFrame
            Indexed by coefficient: ``error`` (half the width of the 95 % interval over 1.96, bias
            included), ``std_error`` (root of the variances, printed, ``bse``), its parts
            ``sampling`` and ``privacy``, and ``bias_bound``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return inference.errors(self._record.estimate)

    def draws(self, m: int = 1000, *, prior: Any = None, seed: int | None = None) -> pd.DataFrame:
        """Return draws of the coefficients from their approximate posterior, one row per draw.

        Parameters
        ----------
        m : int
        prior : mapping or float, optional
            Normal prior: coefficient -> (mean, sd), or one sd about 0 for all. Default: flat.
        seed : int, optional
            Makes the same draws again. The fit is as private as before.

        Returns
        -------
        DataFrame
            Normal draws about the estimates with the total covariance (sampling and noise), not the
            allowance for bias. For arviz:
            ``arviz.from_dict({c: d[c].to_numpy()[None] for c in d})``.

        Privacy
        -------
        Post-processing of released numbers: costs nothing.
        """
        return draws(self._record, m, prior, seed)

    def vcov(self, kind: str = "total") -> pd.DataFrame:
        """Return the covariance of the estimates.

        Parameters
        ----------
        kind : {"total", "sampling", "privacy"}

        Privacy
        -------
        Post-processing: costs nothing. NaN where the part was not released.
        """
        est = self._record.estimate
        names = list(est.names)
        return pd.DataFrame(
            inference.covariance(est, kind), index=names, columns=names
        )

    def _bias_bound(self) -> pd.Series[float]:
        est = self._record.estimate
        bias = np.zeros(est.params.shape) if est.bias is None else est.bias
        return inference.series(bias, est.names, "bias_bound")

    bias_bound = also(_bias_bound)
    cov_params = also("vcov")
    se = also(lambda fit: lambda: fit.bse)


def _joined(means: Combinations, joint: bool, adjust: Any = None) -> Combinations:
    """Return combinations, with joint intervals if asked."""
    if not joint:
        return means
    return joined(means, adjust)


class JointTests(Statements, Held):
    """Tests of hypotheses about coefficients, one by one and together.

    Privacy
    -------
    Post-processing of released numbers: costs nothing, however often.
    """

    __slots__ = ()

    @also
    def zvalues(self) -> pd.Series[float]:
        """Return the normal (or t) quantiles of the p-values, with the sign of the estimate.

        Without a bias bound this is the estimate over its standard error. With one it is smaller.
        NaN where a coefficient is not determined at this budget.
        """
        est = self._record.estimate
        return inference.series(inference.statistics(est), est.names, "zvalues")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided p-values, normal reference unless the method says t."""
        est = self._record.estimate
        return inference.series(inference.p_values(est), est.names, "pvalues")

    def wald_test(self, hypothesis: Any, *, use_f: bool = False, **other: Any) -> JointTest:
        """Test linear hypotheses jointly: ``(Lb - q)'(L V L')^{-1}(Lb - q)``, chi2.

        Parameters
        ----------
        hypothesis : str, list of str, array or (array, values)
            ``"region"`` (all coefficients of a term), ``"age = 0, bmi = 2*children"``, names, or a
            matrix with one column per coefficient.
        use_f : bool
            Report ``chi2 / df``. (It is not the difference of residual sums of squares, whose noise
            an F test ignores.)
        **other
            ``scalar=`` of statsmodels is accepted and has no effect.

        Privacy
        -------
        Post-processing: costs nothing. V includes the noise; where the fit has a bias bound the
        reference is noncentral chi2 and the p-value the largest that the bound allows.
        """
        unknown = [name for name in other if name != "scalar"]
        if unknown:
            raise RequestError(f"wald_test has no argument {unknown[0]}=: wald_test(hypothesis)")
        return inference.joint_test(self._record, hypothesis, use_f=use_f)

    @also.method
    def f_test(self, hypothesis: Any) -> JointTest:
        """Return :meth:`wald_test` as an F, ``chi2 / df``."""
        return self.wald_test(hypothesis, use_f=True)

    def relevel(self, factor: str, base: Any, *, level: float | None = None) -> Combinations:
        """Return the contrasts of a factor with another base level.

        Parameters
        ----------
        factor : str
            Variable of the formula, whose contrasts are with a level that few rows have.
        base : level
            The level to compare with.
        level : float, optional
            Of the intervals.

        Returns
        -------
        Combinations
            Contrasts, errors and bounds of bias, from the fit.

        Privacy
        -------
        Post-processing of released numbers: free.
        """
        return relevel(self._record, factor, base, self._level(level))

    def contrast(
        self, weights: Any, *, level: float | None = None, joint: bool = False
    ) -> Combinations:
        """Estimate and test linear combinations of coefficients, with intervals.

        Parameters
        ----------
        weights : mapping, str, list of str or array
            Coefficient -> weight, ``{"age": 10, "bmi": -1}``, or label -> such a mapping for
            several; or hypotheses as in :meth:`wald_test`, ``"age = 2*bmi"``.
        level : float, optional
        joint : bool
            Intervals that hold for all rows together.

        Privacy
        -------
        Post-processing: costs nothing. Half widths allow for the bias bound of the combination.
        """
        return _joined(contrast(self._record, weights, self._level(level)), joint)

    @also.method
    def t_test(self, hypothesis: Any, *, level: float | None = None) -> Combinations:
        """Return :meth:`contrast` of hypotheses, by statsmodels' word."""
        return self.contrast(hypothesis, level=level)

    def anova_table(self, typ: int = 3) -> AnovaTable:
        """Test each term by Wald: type III (default), II or I.

        Parameters
        ----------
        typ : {3, 2, 1}

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return inference.anova_table(self._record, typ)

    def _overall(self) -> JointTest:
        """Test all slopes together."""
        est = self._record.estimate
        lost = np.isnan(np.diag(inference.covariance(est)))
        slopes = [j for j, n in enumerate(est.names) if n != "Intercept" and not lost[j]]
        if not slopes:
            raise NotReleasedError("fvalue")
        return self.f_test(np.eye(len(est.names))[slopes])

    @also.method
    def as_statsmodels(self) -> StatsmodelsLike:
        """Return the fit with statsmodels' names: ``params, bse, cov_params(), predict(...)``.

        Privacy
        -------
        Post-processing: costs nothing. Without residuals and fitted values, which no budget makes
        private.
        """
        return StatsmodelsLike(self)

    tvalues, pvalue = also("zvalues"), also(lambda fit: lambda: fit.pvalues)
    fvalue = also(lambda fit: fit._overall().statistic)
    f_pvalue = also(lambda fit: fit._overall().pvalue)


class Means(Held):
    """Adjusted means, average slopes and averaged predictions of a regression.

    Privacy
    -------
    Post-processing of released numbers: costs nothing. No private row is averaged over.
    """

    __slots__ = ()

    def emmeans(
        self,
        specs: Any,
        *,
        by: Any = None,
        at: Mapping[str, Any] | None = None,
        over: Any = None,
        adjust: str | None = None,
        what: str = "mean",
        level: float | None = None,
        joint: bool = False,
        **other: Any,
    ) -> Combinations:
        """Estimate adjusted means over a public grid, as R's emmeans does.

        Parameters
        ----------
        specs : str or list of str
            Factors: ``"gender"``, ``"gender * region"``, ``"~ gender | region"`` (by region).
            ``.pairs()`` of the result compares them, within each level of ``by``.
        by : str or list of str, optional
            The part after ``|`` in a formula.
        at : mapping, optional
            Values of other variables: ``{"age": 40}``. Other numeric variables are set to their
            released centre (of a fit by scoring), otherwise to the middle of their public range, or
            to released means (``over=``). Other factors get equal weights.
        over : fit of ``dp_mean`` or ``dp_moments``, mapping or table, optional
            Released means for numeric variables. Their errors are not in the intervals, which are
            conditional on the grid. A mapping or public rows can be given instead.
        adjust : {"none", "bonferroni", "holm", "tukey"}, optional
            Of p-values and intervals for several of them (holm: p-values; intervals are then
            Bonferroni's). Default: none for means, "tukey" for ``.pairs()``.
        what : {"mean", "link"}
            For models with a link; also called ``type=``, as in R. Means are printed without z and
            P, which would refer to the link scale. ``.pairs()`` tests differences.
        level : float, optional
        joint : bool
            Intervals that hold for all means (or differences) together, in place of ``adjust``.

        Privacy
        -------
        Post-processing: costs nothing. The grid is public; errors are conditional on it.
        """
        if "type" in other:
            scale = other.pop("type")
            what = _SCALES.get(scale, scale)
        if other:
            name = next(iter(other))
            arguments = ("specs", "by", "at", "over", "adjust", "what", "type", "level", "joint")
            raise RequestError(
                f"emmeans has no argument {name!r}.{did_you_mean(name, arguments)} It accepts "
                f"{', '.join(arguments)}"
            )
        means = emmeans(
            self, specs, by=by, at=at, over=over, adjust=adjust, what=what, level=self._level(level)
        )
        return _joined(means, joint, adjust)

    def avg_slopes(
        self,
        newdata: Any = None,
        *,
        variables: Any = None,
        by: Any = None,
        level: float | None = None,
        joint: bool = False,
        **paid: Any,
    ) -> Combinations:
        """Average the slopes of the mean over public rows, or at released means.

        Parameters
        ----------
        newdata : table, mapping, or fit of ``dp_mean`` or ``dp_moments``, optional
            Public rows to average over, or released means to take slopes at. If slopes are the same
            everywhere (a linear predictor without interactions) none is needed. A fit contains no
            rows, and an average over private rows would be an uncharged release: ``dp_moments``
            releases means.
        variables : str or list of str, optional
            Default: every variable of the right side. For a factor the result is differences from
            its first level.
        by : str or list of str, optional
            Averages within the values of these columns of ``newdata``.
        level : float, optional
        joint : bool
            Intervals that hold for all rows together.
        **paid
            ``eps=, delta=`` (``budget=, seed=``): ``newdata`` is then a private table, and means of
            its numeric variables are released first, for a separate charge (models without a link).

        Returns
        -------
        Combinations
            Delta-method errors, with those of released means; intervals allow for the bias bound of
            the fit.

        Privacy
        -------
        Post-processing of public or released ``newdata``: costs nothing. With ``eps=`` it is a
        separate release: (eps, delta) is charged before anything is read, in addition to the charge
        of the fit.
        """
        rows = charged_means(self, newdata, paid)
        return _joined(avg_slopes(self, rows, variables, by, self._level(level)), joint)

    def avg_comparisons(
        self,
        *positional: Any,
        newdata: Any = None,
        variables: Any = None,
        by: Any = None,
        level: float | None = None,
        joint: bool = False,
        **paid: Any,
    ) -> Combinations:
        """Average the change of the mean when a variable changes, over public rows.

        Parameters
        ----------
        *given
            ``newdata`` first, then ``variables``. An argument that can only be ``variables`` is
            used so: ``avg_comparisons({"age": 10})``.
        newdata, by, level, joint, **paid
            As in :meth:`avg_slopes`.
        variables : str, list of str or mapping, optional
            ``{"age": 10}`` (ten more), ``{"age": (20, 60)}`` (from 20 to 60), names (a numeric
            variable: one more; a factor: each level against the first). Default: all.

        Privacy
        -------
        Post-processing: costs nothing. ``newdata`` is public or released.
        """
        for argument in positional:
            if variables is None and (_names_changes(argument) or newdata is not None):
                variables = argument
            elif newdata is None:
                newdata = argument
            elif argument is not None:
                raise RequestError("avg_comparisons needs newdata, then variables={'age': 10}")
        rows = charged_means(self, newdata, paid)
        return _joined(avg_comparisons(self, variables, rows, by, self._level(level)), joint)

    def avg_predictions(
        self,
        newdata: Any = None,
        *,
        by: Any = None,
        variables: Any = None,
        level: float | None = None,
        joint: bool = False,
        **paid: Any,
    ) -> Combinations:
        """Average predictions over public rows, or at released means.

        Parameters
        ----------
        newdata, by, level, joint, **paid
            As in :meth:`avg_slopes`.
        variables : mapping or str, optional
            Values that every row is given in turn: ``{"age": [20, 40, 60]}``, or a factor: all its
            levels (counterfactual means).

        Privacy
        -------
        Post-processing: costs nothing. ``newdata`` is public or released.
        """
        rows = charged_means(self, newdata, paid)
        return _joined(avg_predictions(self, rows, by, variables, self._level(level)), joint)


def _names_changes(argument: Any) -> bool:
    """Return whether an argument names variables or changes of them, and is not a table."""
    if isinstance(argument, str):
        return True
    if isinstance(argument, Mapping):
        return all(np.isscalar(v) or isinstance(v, tuple) for v in argument.values())
    return isinstance(argument, (list, tuple)) and all(isinstance(v, str) for v in argument)


#: Other names of the predicted quantity and of its scale.
_SCALES = {"response": "mean", "lp": "link", "linear": "link", "classes": "class",
           "probs": "prob", "probability": "prob"}  # fmt: skip


class Predictions(Held):
    """Predictions at public rows."""

    __slots__ = ()

    def _widths(self, L: Array, level: float) -> tuple[Array, Array]:
        """Return (standard errors, half widths) of ``L b``, (k,) each, for models that predict."""
        return widths(self._record.estimate, L, level)

    def _shrunk(self) -> pd.Series[float]:
        """Return coefficients for predictions; noisy ones are shrunk towards the public guess.

        They are a posterior mean (``after/theory.md``). Its prior gives the level at the mean row
        the variance of the declared range of the response, and the predictors together half of the
        response's variance. If the printed errors are small compared with that, the result is close
        to the estimates. ``predict``, plots of a term and the estimators of scikit-learn use these
        coefficients. Tables with tests use the estimates, the centres of their intervals.

        Returns
        -------
        Series of length p. It has the estimates if there is no public guess: no constant, no range
        of the response, no errors, or a link without a scale.

        Privacy
        -------
        Post-processing of released and public numbers: costs nothing.
        """
        return inference.series(shrunk(self._record), self._record.estimate.names, "shrunk")

    shrunk = also(_shrunk)

    def predict(
        self,
        new: Any = None,
        interval: str | None = None,
        level: float | None = None,
        what: str = "mean",
        *,
        se_fit: bool = False,
        outside: str = "clip",
        joint: bool = False,
        **other: Any,
    ) -> Any:
        """Predict at new rows, by the coefficients for predictions (``shrunk``).

        Intervals and errors are those of the estimate, which may differ from the prediction. Warns
        of cells outside the ranges or undeclared levels. The rows are the caller's, so a warning
        reveals nothing.

        Parameters
        ----------
        new : DataFrame or mapping of columns
            Rows with the variables of the formula. There is no default, as a fit contains no rows.
            Also called ``newdata=`` (R), ``exog=`` (statsmodels), ``X=``.
        interval : {None, "confidence", "prediction"}
            As ``predict.lm`` in R.
        level : float, optional
            Default: the ``level`` of the fit.
        what : str
            ``"mean"`` (R: ``type="response"``); families add their own (``"link"``, ``"class"``,
            ``"prob"``, ``"risk"``, ``"survival"`` with ``times=``). Also called ``type=`` and
            ``which=``.
        se_fit : bool
            Add a column ``se_fit``. Also ``se.fit`` (in R) or ``se=``.
        outside : {"clip", "nan", "extrapolate"}
            Cells outside the ranges in force: moved to the bound, answered by NaN, or used as
            they are.
        joint : bool
            Confidence intervals that hold for all rows together: a band over these rows.

        Returns
        -------
        Series, or DataFrame with ``fit, lwr, upr`` (and ``se_fit``)

        Privacy
        -------
        Post-processing of released coefficients: costs nothing. But a prediction *computed from
        a private row* is as private as that row; the guarantee does not cover it.
        """
        verb = verb_of(self._record.call.verb)
        function = verb.load("predict")
        if function is None:
            raise NotReleasedError(f"{verb.name} has no predict")
        for name in ("newdata", "exog", "X", "data"):
            new = other.pop(name, None) if new is None else new
        for name in ("type", "which"):
            what = other.pop(name) if what == "mean" and name in other else what
        se_fit = bool(other.pop("se", se_fit))
        alpha = other.pop("alpha", None)
        level = 1.0 - alpha if level is None and alpha is not None else level
        words = {name: other.pop(name) for name in verb.predict_words if name in other}
        if new is None or other:
            name = next(iter(other), "")
            raise RequestError(
                (f"predict has no argument {name}=: " if name else "predict needs rows: ")
                + "fit.predict(new), new a frame with the variables of the formula. A fit keeps no "
                "rows"
            )
        what = _SCALES.get(what, what) if isinstance(what, str) else what
        if self._record.estimate.released and (hasattr(new, "keys") or hasattr(new, "columns")):
            problems = odd_cells(self._record.design, new, outside)
            if problems:
                hint = " (outside='nan' or 'extrapolate' do otherwise)" * (outside == "clip")
                warnings.warn(UtilityWarning(f"predict: {'; '.join(problems)}{hint}"), stacklevel=2)
        if joint:
            function = partial(predicted, function)
        return function(
            self, new, what=what, interval=interval, level=self._level(level), se_fit=se_fit,
            outside=outside, **words,
        )  # fmt: skip


class Updates(Held):
    """Repeats of the call that made a fit, with arguments changed."""

    __slots__ = ()

    def update(
        self, formula: str = ". ~ .", data: Any = None, *, eps: Any = None, delta: Any = None,
        **changed: Any,
    ) -> Any:  # fmt: skip
        """Fit again with a changed formula: a new release with a separate charge.

        Parameters
        ----------
        formula : str
            As in R: ``"~ . - x"``, ``". ~ . + z"``, ``"log(y) ~ ."``; a dot stands for that side of
            the old formula.
        data : table, or a release
            It must be given again, as a fit contains no data. A release (``dp_moments``,
            ``dp_release``) costs nothing more, and takes no eps and delta.
        eps, delta : float
            The guarantee of the new call. There is no default: it is charged on top of the old one.
        **changed
            Other arguments of the verb; the others are those of the old call (except the budget).

        Privacy
        -------
        A separate release: (eps, delta) is charged as for the verb, in addition to this fit.
        """
        return new_release("update")(self, formula, data, eps=eps, delta=delta, **changed)


class NewReleases(Held):
    """New releases about a fit, on rows that are handed over.

    Privacy
    -------
    Each call is a separate release, charged before a row is read.
    """

    __slots__ = ()

    def score(
        self,
        holdout: Any,
        *,
        eps: float,
        delta: float = 0.0,
        metric: str | None = None,
        bins: int = 32,
        clip: float | None = None,
        budget: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Release the performance of the fit on held-out rows.

        Parameters
        ----------
        holdout : table
            Rows that were not in the fit, with its variables.
        eps, delta : float
            The guarantee of this call. ``delta=0``: pure differential privacy.
        metric : {"auc", "logloss", "rmse"}, optional
            None: "auc" for events, "rmse" for numeric responses. "auc" brings ``.roc()`` and
            ``.calibration()``.
        bins : int
            Of the prediction, for the AUC.
        clip : float, optional
            Largest loss of a row. Default: log 100, or (4 sigma)^2.
        budget : Budget, optional
        seed : int, optional
            For tests: the score is then NOT PRIVATE.

        Returns
        -------
        Score
            ``value, se, se_privacy, se_sampling, conf_int()``.

        Privacy
        -------
        Unit: one row of ``holdout``; replace-one, n public. Charged: (eps, delta), before anything
        is read. A row that was in the fit too is protected by the sum of both.
        """
        return new_release("score")(
            self, holdout, eps=eps, delta=delta, metric=metric, bins=bins, clip=clip, budget=budget,
            seed=seed,
        )  # fmt: skip

    def diagnose(
        self,
        data: Any,
        *,
        eps: float,
        delta: float = 0.0,
        bins: int = 10,
        budget: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Release diagnostics of the residuals: shares at the bounds, and residual means.

        Parameters
        ----------
        data : table
            Rows of the fit, or others.
        eps, delta : float
            The guarantee of this call.
        bins : int
            Of the prediction.
        budget, seed
            As in :meth:`score`.

        Returns
        -------
        Diagnosis
            ``complete``, ``bounds``, ``residuals``.

        Privacy
        -------
        Unit: one row of ``data``; replace-one, n public. Charged: (eps, delta), before anything is
        read; on the rows of the fit it adds to what the fit cost.
        """
        return new_release("diagnose")(
            self, data, eps=eps, delta=delta, bins=bins, budget=budget, seed=seed
        )


class MomentAnalyses(Held):
    """Analyses of a release of second moments (``dp_moments``).

    Privacy
    -------
    Post-processing of the released matrix: costs nothing, however often.
    """

    __slots__ = ()

    def corr(self, *, level: float = 0.95) -> pd.DataFrame:
        """Return correlations of all pairs of columns, with errors and intervals.

        Parameters
        ----------
        level : float

        Returns
        -------
        DataFrame
            One row a pair; ``.attrs["matrix"]`` is the matrix.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return correlations(self._record, (), level)

    def partial_corr(self, given: Any, *, level: float = 0.95) -> pd.DataFrame:
        """Return correlations of all pairs of columns, given others.

        Parameters
        ----------
        given : str or list of str
            Columns or terms that are held: ``"age"``.
        level : float

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return correlations(self._record, given, level)

    def ridge_path(self, response: str, lams: Any = None) -> pd.DataFrame:
        """Return ridge coefficients of one column on all others, one row per penalty.

        Parameters
        ----------
        response : str
        lams : sequence of float, optional
            Per row and for columns of variance one. Default: from the noise of the release up.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return path(self._record, response, lams, lasso_=False)

    def lasso_path(self, response: str, lams: Any = None) -> pd.DataFrame:
        """Return lasso coefficients of one column on all others, one row per penalty.

        Parameters
        ----------
        response : str
        lams : sequence of float, optional
            As in :meth:`ridge_path`; ``.attrs["penalty"]`` is the one that keeps pure noise out
            with probability .95.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return path(self._record, response, lams, lasso_=True)

    def best_subset(self, response: str, top: int = 10) -> pd.DataFrame:
        """Return the best subsets of terms for a column, by BIC with noise-corrected RSS.

        Parameters
        ----------
        response : str
        top : int
            Rows of the answer.

        Privacy
        -------
        Post-processing: costs nothing. P-values and intervals of a chosen model are conditional on
        the choice; ``.attrs["notes"]`` says so.
        """
        return subsets(self._record, response, top)

    def synthetic(
        self, m: int = 100, *, rows: int | None = None, seed: int | None = None
    ) -> SyntheticTables:
        """Return synthetic tables: normal rows whose moments are draws about the released ones.

        Parameters
        ----------
        m : int
            Number of tables.
        rows : int, optional
            Rows of each; default: the effective rows of the release.
        seed : int, optional
            Makes the same tables again. The release is as private as before.

        Returns
        -------
        SyntheticTables
            A sequence of frames. Fit each of them, and combine: :func:`dpmodels.combine`. Ordinary
            standard errors of a fit to one table are too small: 95 % intervals cover .77 at most.
            A release that scales rows into a ball ("ssp", "pmt") gives extreme rows less weight,
            and so do fits to its tables, with a warning. ``dp_moments(..., method="joint")``
            weights no row.

        Privacy
        -------
        Post-processing of the released matrix: costs nothing. Rows are drawn from a normal
        distribution; none is of a person.
        """
        return synthetic(self._record, m, rows, seed)

    def components(self, *, standardised: bool = True) -> pd.DataFrame:
        """Return principal components: eigenvalues, shares and loadings.

        Parameters
        ----------
        standardised : bool
            Of correlations; else of covariances.

        Privacy
        -------
        Post-processing: costs nothing. ``.attrs["noise"]``: eigenvalues below it are noise.
        """
        return principal(self._record, standardised)
