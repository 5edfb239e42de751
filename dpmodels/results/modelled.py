"""Kinds of results of hazards, of categories and of panels: what else each can say.

Kept out of ``fit.py`` for its length; :func:`dpmodels.results.fit.kind_of` loads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.results import inference
from dpmodels.results.capabilities import Means, Predictions, Updates
from dpmodels.results.estimates import JointTests, Numbers
from dpmodels.results.fit import Fit
from dpmodels.tables import also

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.joint import JointTest


def _ratios(fit: Fit, level: float | None, some: slice = slice(None)) -> pd.DataFrame:
    """Return exp of coefficients and of ends of intervals; tests are those of coefficients."""
    frame = inference.tidy(
        fit._record.estimate, conf_int_=True, level=fit._level(level), style="python",
        exponentiate=True,
    )
    wanted = ["term", "estimate", "conf_low", "conf_high", "statistic", "p_value", "bias_bound"]
    kept = [name for name in wanted if name in frame]
    return frame[kept].iloc[some].reset_index(drop=True)


class Hazards(Numbers, JointTests, Means, Predictions, Updates, Fit):
    """A proportional hazards model (``dp_coxph``); its means and slopes are of log hazards."""

    __slots__ = ()

    def hazard_ratios(self, *, level: float | None = None) -> pd.DataFrame:
        """Return hazard ratios with intervals, z and p.

        Parameters
        ----------
        level : float, optional

        Returns
        -------
        DataFrame
            ``term, estimate, conf_low, conf_high, statistic, p_value, bias_bound``: estimate and
            interval are exp of those of the coefficients; the bias bound is on their own scale.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return _ratios(self, level)

    def baseline(self) -> pd.DataFrame:
        """Return the released baseline hazard, one row a stratum and cell of time.

        Returns
        -------
        DataFrame
            ``strata, time, hazard, cumulative``: ``time`` is the end of the cell, ``hazard`` that
            of a unit whose columns are 0 within it, ``cumulative`` up to its end.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        from dpmodels.results.within import baseline

        return baseline(self)

    basehaz = also("baseline")

    def concordance(self, *, level: float | None = None) -> pd.DataFrame:
        """Return Harrell's C, as ``dp_coxph(..., concordance=True)`` released it.

        Parameters
        ----------
        level : float, optional

        Returns
        -------
        DataFrame
            ``estimate, std_error, conf_low, conf_high``: the share of pairs in which the unit of
            the higher risk has its event first, ties of risk by half; NaN where the table does not
            determine it. The noise is in the error.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        from dpmodels.results.within import concordance

        return concordance(self, self._level(level))


class Choice(Numbers, JointTests, Predictions, Updates, Fit):
    """A regression of categories (``dp_multinom``)."""

    __slots__ = ()

    def odds_ratios(self, *, level: float | None = None) -> pd.DataFrame:
        """Return odds ratios with intervals, z and p; of levels against the base: relative risks.

        Parameters
        ----------
        level : float, optional

        Returns
        -------
        DataFrame
            ``term, estimate, conf_low, conf_high, statistic, p_value, bias_bound``.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return _ratios(self, level, self._slopes())

    def _slopes(self) -> slice:
        """Return the coefficients that are log odds ratios."""
        return slice(None)

    rrr = also("odds_ratios")


class OrderedChoice(Choice):
    """A regression of ordered categories (``dp_polr``)."""

    __slots__ = ()

    def _slopes(self) -> slice:
        return slice(0, len(self._record.estimate.names) - len(self._record.design.levels) + 1)

    @property
    def zeta(self) -> pd.Series[float]:
        """The thresholds ``low|mid``, as in R: ``P(y <= k) = F(zeta_k - x'b)``."""
        est = self._record.estimate
        cut = self._slopes().stop
        return inference.series(np.asarray(est.params)[cut:], est.names[cut:], "zeta")


class Effects(Numbers, JointTests, Predictions, Updates, Fit):
    """A regression with an effect of every person (``dp_feols, dp_fepois``)."""

    __slots__ = ()

    def hausman(self) -> JointTest:
        """Test jointly that effects between and within people are the same (``re=``).

        Returns
        -------
        JointTest
            All coefficients of person means are 0 (Mundlak 1978): Hausman's test.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        from dpmodels.results.joint import joint_test

        means = [name for name in self._record.estimate.names if name.startswith("mean(")]
        if not means or self._record.call.options.get("re") is None:
            raise RequestError(
                "hausman() compares effects within and between people, which person means tell: "
                'dp_feols("y ~ x", data, unit="id", re="id"), with mundlak=True (the default)'
            )
        return joint_test(self._record, [f"{name} = 0" for name in means], use_f=False)
