"""What a result can do with its numbers: intervals, errors, tests one by one and together.

Capabilities, of which ``results/fit.py`` builds kinds (see ``capabilities.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import NotReleasedError, RequestError
from dpmodels.results import inference
from dpmodels.tables import also
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.adapters import StatsmodelsLike
    from dpmodels.results.contrasts import Combinations
    from dpmodels.results.joint import AnovaTable, JointTest
    from dpmodels.results.record import Record


class Held:
    """Whatever has the record of a fit; the base of every capability."""

    __slots__ = ()
    _record: Record

    def _level(self, level: float | None) -> float:
        return self._record.call.level if level is None else level

    def _stat(self, key: str) -> float:
        found = self._record.estimate.stats.get(key)
        if found is None:
            raise NotReleasedError(key)  # Fit.__getattr__ says what would pay for it
        return float(found)


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
    ) -> pd.DataFrame:
        """Confidence intervals from the total standard error, and the bias bound if there is one.

        Parameters
        ----------
        level : float, optional
            Default: the ``level`` of the fit.
        alpha : float, optional
            ``1 - level``, as statsmodels writes it.
        method : {"normal"}, optional
            How; None: the method's own (normal, or t where ``use_t``).

        Returns
        -------
        DataFrame
            Indexed by coefficient, columns such as ``2.5 %`` and ``97.5 %``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        import pandas as pd

        if alpha is not None:
            if level is not None:
                raise RequestError("conf_int takes level= or alpha=, not both")
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
        own = verb_of(self._record.call.verb).load_tidy() if est.released else None
        if own is None:
            low, high = inference.conf_int(est, level)
        else:  # intervals that are not estimate -+ multiple of an error
            made = own(self._record, True, level)
            low, high = made["conf_low"].to_numpy(), made["conf_high"].to_numpy()
        names = inference.bound_names(level)
        table: pd.DataFrame = pd.DataFrame(
            {names[0]: low, names[1]: high}, index=pd.Index(list(est.names))
        )
        return table

    coef = also(lambda fit: lambda: fit.params)
    confint = also("conf_int")


class Numbers(Intervals):
    """Released numbers with their two errors."""

    __slots__ = ()

    @property
    def bse(self) -> pd.Series[float]:
        """Root of the variances, sqrt(sampling^2 + privacy^2).

        The printed error also holds what an interval allows for a bias: ``fit.errors()``.
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
        """Return what the error of each coefficient consists of.

        Returns
        -------
        DataFrame
            Indexed by coefficient: ``error`` (printed; z, p and intervals rest on it: the half
            width of the 95 % interval over 1.96), ``std_error`` (root of the variances, ``bse``),
            its parts ``sampling`` and ``privacy``, and ``bias_bound``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return inference.errors(self._record.estimate)

    def vcov(self, kind: str = "total") -> pd.DataFrame:
        """Covariance of the estimates.

        Parameters
        ----------
        kind : {"total", "sampling", "privacy"}

        Privacy
        -------
        Post-processing: costs nothing. NaN where the part was not released.
        """
        import pandas as pd

        est = self._record.estimate
        names = list(est.names)
        table: pd.DataFrame = pd.DataFrame(
            inference.covariance(est, kind), index=names, columns=names
        )
        return table

    def _bias_bound(self) -> pd.Series[float]:
        est = self._record.estimate
        bias = np.zeros(est.params.shape) if est.bias is None else est.bias
        return inference.series(bias, est.names, "bias_bound")

    bias_bound = also(_bias_bound)
    cov_params = also("vcov")
    se = also(lambda fit: lambda: fit.bse)


class JointTests(Held):
    """Tests of hypotheses about coefficients, one by one and together.

    Privacy
    -------
    Post-processing of released numbers: costs nothing, however often.
    """

    __slots__ = ()

    @property
    def zvalues(self) -> pd.Series[float]:
        """Estimate over the error that decides (``fit.errors()["error"]``).

        That is the total standard error, and what the interval allows for a bias. NaN where a
        coefficient is not determined at this budget.
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
            ``"region"`` (all coefficients of a term), ``"age = 0, bmi = 2*children"``, names, or
            a matrix with a column a coefficient.
        use_f : bool
            Report ``chi2 / df``. (Not the difference of residual sums of squares, whose noise F
            does not know.)
        **other
            ``scalar=`` of statsmodels is taken and changes nothing.

        Privacy
        -------
        Post-processing: costs nothing. V holds the noise; where the fit has a bias bound the
        reference is noncentral chi2 and the p-value the largest that the bound allows.
        """
        from dpmodels.results.joint import joint_test

        unknown = [name for name in other if name != "scalar"]
        if unknown:
            raise RequestError(f"wald_test has no argument {unknown[0]}=: wald_test(hypothesis)")
        return joint_test(self._record, hypothesis, use_f=use_f)

    @also.method
    def f_test(self, hypothesis: Any) -> JointTest:
        """Return :meth:`wald_test` as an F, ``chi2 / df``."""
        return self.wald_test(hypothesis, use_f=True)

    def contrast(self, weights: Any, *, level: float | None = None) -> Combinations:
        """Estimate and test linear combinations of coefficients, with intervals.

        Parameters
        ----------
        weights : mapping, str, list of str or array
            Coefficient -> weight, ``{"age": 10, "bmi": -1}``, or label -> such a mapping for
            several; or hypotheses as in :meth:`wald_test`, ``"age = 2*bmi"``.
        level : float, optional

        Privacy
        -------
        Post-processing: costs nothing. Half widths allow for the bias bound of the combination.
        """
        from dpmodels.results.contrasts import contrast, t_tests

        made = contrast if isinstance(weights, Mapping) or not _says_something(weights) else t_tests
        return made(self._record, weights, self._level(level))

    @also.method
    def t_test(self, hypothesis: Any, *, level: float | None = None) -> Combinations:
        """Return :meth:`contrast` of hypotheses, by statsmodels' word."""
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

    def _overall(self) -> JointTest:
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
        from dpmodels.results.adapters import StatsmodelsLike

        fit: Any = self
        return StatsmodelsLike(fit)

    tvalues, pvalue = also("zvalues"), also(lambda fit: lambda: fit.pvalues)
    fvalue = also(lambda fit: fit._overall().statistic)
    f_pvalue = also(lambda fit: fit._overall().pvalue)


def _says_something(weights: Any) -> bool:
    return isinstance(weights, (str, list, tuple, np.ndarray)) and len(weights) > 0
