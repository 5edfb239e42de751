"""What a fit answers: public facts, the guarantee, and estimates with their errors.

Two bases of ``Fit``, split by what they answer; each reads the one record and holds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.results import inference
from dpmodels.units.person import named
from dpmodels.verbs import Verb, verb_of

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.privacy.guarantee import Guarantee
    from dpmodels.privacy.ledger import Ledger
    from dpmodels.results.record import Record

__all__ = ["Estimates", "PublicFacts"]


class PublicFacts:
    """Public facts of a fit, and its guarantee."""

    __slots__ = ()
    _record: Record

    @property
    def kind(self) -> Verb:
        """What this family of fits looks like (title, predict, ...)."""
        return verb_of(self._record.call.verb)

    @property
    def model(self) -> str:
        """The verb that made the fit, ``"dp_ols"``."""
        return self._record.call.verb

    @property
    def method(self) -> str:
        """Name of the method."""
        return self._record.call.method

    @property
    def formula(self) -> str:
        """The formula as typed."""
        return self._record.call.formula

    @property
    def level(self) -> float:
        """Confidence level of the summary."""
        return self._record.call.level

    @property
    def options(self) -> dict[str, Any]:
        """Options of the method, as used."""
        return dict(self._record.call.options)

    @property
    def nobs(self) -> int | None:
        """Public number of rows, or of people under ``unit=``; None where it is private."""
        return self._record.n

    @property
    def df_model(self) -> int:
        """Number of coefficients, the intercept not counted (as statsmodels does)."""
        names = self._record.estimate.names
        return len(names) - ("Intercept" in names)

    @property
    def use_t(self) -> bool:
        """True if tests and intervals use a t reference."""
        return self._record.estimate.use_t is not None

    @property
    def design(self) -> Any:
        """The design: columns, intervals in force (bought ones included), row norm. Public."""
        return self._record.design

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the budget by part of the method."""
        return dict(self._record.shares)

    @property
    def scales(self) -> dict[str, float]:
        """Public noise scales and radii of the plan."""
        return dict(self._record.scales)

    @property
    def release(self) -> Any:
        """The noised table the fit was made from (``method="drcl"`` and its kin), else None.

        Left out of the fit's pickle and JSON; keep it with ``fit.release.save(path)``.
        """
        return self._record.table

    @property
    def released(self) -> bool:
        """False after a no-reply."""
        return self._record.estimate.released

    @property
    def privacy(self) -> Guarantee:
        """The guarantee: ``.eps .delta .relation .unit .statement() .delta_at() .eps_at()``."""
        return self._record.guarantee

    @property
    def unit(self) -> str:
        """Whom the guarantee protects: "one row", or "one person (column person_id)"."""
        return named(self._record.guarantee.unit)

    @property
    def ledger(self) -> Ledger:
        """The charges of this call, one line a step; prints as a table."""
        from dpmodels.results.charges import ledger_of

        return ledger_of(self._record)


class Estimates:
    """Released estimates of a fit, and their errors."""

    __slots__ = ()
    _record: Record

    @property
    def params(self) -> pd.Series[float]:
        """Released estimates by coefficient name; all NaN after a no-reply."""
        est = self._record.estimate
        return inference.series(est.params, est.names, "params")

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

    @property
    def bias_bound(self) -> pd.Series[float]:
        """Bound on what clipping may have moved a coefficient; 0 where intervals need none.

        Intervals and p-values allow for it (Armstrong and Kolesar 2018). It is calibrated on real
        tables, not proved; ``bse`` stays the root of the variances.
        """
        est = self._record.estimate
        bias = np.zeros(est.params.shape) if est.bias is None else est.bias
        return inference.series(bias, est.names, "bias_bound")

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

    def _errors(self, kind: str, title: str) -> pd.Series[float]:
        est = self._record.estimate
        return inference.series(inference.standard_errors(est, kind), est.names, title)

    @property
    def zvalues(self) -> pd.Series[float]:
        """Estimate over the error that decides (``fit.errors()["error"]``).

        That is the total standard error, and what the interval allows for a bias. NaN where a
        coefficient is not determined at this budget.
        """
        est = self._record.estimate
        return inference.series(inference.statistics(est), est.names, "zvalues")

    @property
    def tvalues(self) -> pd.Series[float]:
        """Alias of :attr:`zvalues` (statsmodels' word)."""
        est = self._record.estimate
        return inference.series(inference.statistics(est), est.names, "tvalues")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided p-values, normal reference unless ``use_t``."""
        est = self._record.estimate
        return inference.series(inference.p_values(est), est.names, "pvalues")

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

        from dpmodels.errors import RequestError

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
        level = self._record.call.level if level is None else level
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

    def cov_params(self) -> pd.DataFrame:
        """Alias of ``vcov()`` (statsmodels' word)."""
        return self.vcov()

    def coef(self) -> pd.Series[float]:
        """Alias of :attr:`params`."""
        return self.params

    def se(self) -> pd.Series[float]:
        """Alias of :attr:`bse`."""
        return self.bse

    def pvalue(self) -> pd.Series[float]:
        """Alias of :attr:`pvalues`."""
        return self.pvalues

    def confint(self, level: float | None = None) -> pd.DataFrame:
        """Alias of :meth:`conf_int`."""
        return self.conf_int(level)

    @property
    def stats(self) -> dict[str, float]:
        """Released scalars besides the coefficients (``sigma``, ...)."""
        return dict(self._record.estimate.stats)

    @property
    def arrays(self) -> dict[str, Any]:
        """Released arrays besides the coefficients; read-only."""
        return dict(self._record.estimate.arrays)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences of the method about this fit."""
        return self._record.estimate.notes
