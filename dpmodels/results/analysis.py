"""What a statistician does with a fit: thin methods, one line each into the modules that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpmodels.errors import NotReleasedError

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.contrasts import Combinations
    from dpmodels.results.joint import AnovaTable, JointTest
    from dpmodels.results.record import Record
    from dpmodels.results.statsmodels_like import StatsmodelsLike

__all__ = ["Analysis", "NewReleases", "OnMoments"]


class Analysis:
    """Tests, contrasts and fit statistics of a fit; a base of ``Fit``.

    Privacy
    -------
    Post-processing of released numbers: costs nothing, however often.
    """

    __slots__ = ()
    _record: Record

    def wald_test(self, hypothesis: Any, *, use_f: bool = False) -> JointTest:
        """Test linear hypotheses jointly: ``(Lb - q)'(L V L')^{-1}(Lb - q)``, chi2.

        Parameters
        ----------
        hypothesis : str, list of str, array or (array, values)
            ``"region"`` (all coefficients of a term), ``"age = 0, bmi = 2*children"``, names, or
            a matrix with a column a coefficient.
        use_f : bool
            Report ``chi2 / df``.

        Privacy
        -------
        Post-processing: costs nothing. V holds the noise; where the fit has a bias bound the
        reference is noncentral chi2 and the p-value the largest that the bound allows.
        """
        from dpmodels.results.joint import joint_test

        return joint_test(self._record, hypothesis, use_f=use_f)

    def f_test(self, hypothesis: Any) -> JointTest:
        """Return :meth:`wald_test` as an F, ``chi2 / df``.

        Privacy
        -------
        Post-processing: costs nothing. Not the difference of residual sums of squares, whose
        noise F does not know.
        """
        return self.wald_test(hypothesis, use_f=True)

    def t_test(self, hypothesis: Any, *, level: float | None = None) -> Combinations:
        """Test linear hypotheses one by one, with intervals.

        Parameters
        ----------
        hypothesis
            As in :meth:`wald_test`.
        level : float, optional

        Privacy
        -------
        Post-processing: costs nothing.
        """
        from dpmodels.results.contrasts import t_tests

        return t_tests(self._record, hypothesis, self._level(level))

    def anova_table(self, typ: int = 3) -> AnovaTable:
        """Test each term by Wald: type III (default), II or I.

        Parameters
        ----------
        typ : {3, 2, 1}

        Privacy
        -------
        Post-processing: costs nothing.
        """
        from dpmodels.results.joint import anova_table

        return anova_table(self._record, typ)

    def contrast(self, weights: Mapping[str, Any], *, level: float | None = None) -> Combinations:
        """Estimate weighted sums of coefficients: ``{"age": 10, "bmi": -1}``.

        Parameters
        ----------
        weights : mapping
            Coefficient -> weight, or label -> such a mapping for several.
        level : float, optional

        Privacy
        -------
        Post-processing: costs nothing. Half widths allow for ``sum |l_j| bias_bound_j``.
        """
        from dpmodels.results.contrasts import contrast

        return contrast(self._record, weights, self._level(level))

    def emmeans(
        self,
        specs: Any,
        *,
        at: Mapping[str, Any] | None = None,
        what: str = "mean",
        level: float | None = None,
    ) -> Combinations:
        """Estimate adjusted means over a public grid, as R's emmeans does.

        Parameters
        ----------
        specs : str or list of str
            Factors: ``"gender"``, ``"gender * region"``. ``.pairs()`` of the result compares them.
        at : mapping, optional
            Values of other variables: ``{"age": 40}``. Numbers that are not named are held at the
            middle of their public range (a fit keeps no means of the rows); other factors get
            equal weights.
        what : {"mean", "link"}
            For models with a link.
        level : float, optional

        Privacy
        -------
        Post-processing: costs nothing. The grid is public; errors are conditional on it.
        """
        from dpmodels.results.contrasts import emmeans

        fit: Any = self
        return emmeans(fit, specs, at=at, what=what, level=self._level(level))

    def _level(self, level: float | None) -> float:
        return self._record.call.level if level is None else level

    def _stat(self, key: str) -> float:
        found = self._record.estimate.stats.get(key)
        if found is None:
            raise NotReleasedError(key)  # Fit.__getattr__ says what would pay for it
        return float(found)

    @property
    def rsquared(self) -> float:
        """R-squared, in [0, 1]; its interval is ``r_squared_low`` and ``_high`` of ``stats``."""
        return self._stat("r_squared")

    @property
    def rsquared_adj(self) -> float:
        """Adjusted R-squared."""
        return self._stat("adj_r_squared")

    @property
    def rsquared_se(self) -> float:
        """Standard error of R-squared, noise and sampling (the latter for normal rows)."""
        return self._stat("r_squared_se")

    @property
    def fvalue(self) -> float:
        """F of all slopes: Wald from coefficients and their covariance, over its df."""
        return self._overall().statistic

    @property
    def f_pvalue(self) -> float:
        """P-value of :attr:`fvalue`."""
        return self._overall().pvalue

    def _overall(self) -> JointTest:
        import numpy as np

        from dpmodels.results.inference import covariance

        est = self._record.estimate
        lost = np.isnan(np.diag(covariance(est)))
        slopes = [j for j, n in enumerate(est.names) if n != "Intercept" and not lost[j]]
        if not slopes:
            raise NotReleasedError("fvalue")
        return self.f_test(np.eye(len(est.names))[slopes])

    def as_statsmodels(self) -> StatsmodelsLike:
        """Return the fit with statsmodels' names: ``params, bse, cov_params(), predict(...)``.

        Privacy
        -------
        Post-processing: costs nothing. Without residuals and fitted values, which no budget makes
        private.
        """
        from dpmodels.results.statsmodels_like import StatsmodelsLike

        fit: Any = self
        return StatsmodelsLike(fit)


def _new_release(name: str) -> Callable[..., Any]:
    """Return the function of the top floor that makes a new release about a fit.

    By name: this room knows neither sources nor the door, and no estimate may reach them here.
    """
    function: Callable[..., Any] = getattr(import_module("dpmodels.api.holdout"), name)
    return function


class NewReleases:
    """New releases about a fit, on rows that are handed over; a base of ``Fit``.

    Privacy
    -------
    Each call is a release of its own, charged before a row is read.
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
            None: "auc" for events, "rmse" for numbers. "auc" brings ``.roc()`` and
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
        fit: Any = self
        function = _new_release("score")
        return function(
            fit, holdout, eps=eps, delta=delta, metric=metric, bins=bins, clip=clip, budget=budget,
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
        """Release what a residual plot is looked at for: shares at the bounds, residual means.

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
        fit: Any = self
        function = _new_release("diagnose")
        return function(fit, data, eps=eps, delta=delta, bins=bins, budget=budget, seed=seed)


class OnMoments:
    """Analyses of a release of second moments (``dp_moments``); a base of ``Fit``.

    Privacy
    -------
    Post-processing of the released matrix: costs nothing, however often.
    """

    __slots__ = ()
    _record: Record

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
        from dpmodels.results.on_moments import correlations

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
        from dpmodels.results.on_moments import correlations

        return correlations(self._record, given, level)

    def ridge_path(self, response: str, lams: Any = None) -> pd.DataFrame:
        """Return ridge coefficients of a column on all others, one row a penalty. No intervals.

        Parameters
        ----------
        response : str
        lams : sequence of float, optional
            Per row and for columns of variance one. Default: from the noise of the release up.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        from dpmodels.results.on_moments import path

        return path(self._record, response, lams, lasso_=False)

    def lasso_path(self, response: str, lams: Any = None) -> pd.DataFrame:
        """Return lasso coefficients of a column on all others, one row a penalty. No intervals.

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
        from dpmodels.results.on_moments import path

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
        from dpmodels.results.on_moments import subsets

        return subsets(self._record, response, top)

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
        from dpmodels.results.on_moments import principal

        return principal(self._record, standardised)
