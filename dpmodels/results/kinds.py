"""Results of hazard, choice and panel models, with their additional outputs.

Kept out of ``fit.py`` for its length; :func:`dpmodels.results.fit.kind_of` loads them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice
from dpmodels.formula.survival import strata_codes
from dpmodels.lazy import pd
from dpmodels.results import inference
from dpmodels.results.adjusted import Standardised, between
from dpmodels.results.capabilities import JointTests, Means, Numbers, Predictions, Updates
from dpmodels.results.effects import cumulated, released_times, widths
from dpmodels.results.fit import Fit
from dpmodels.results.inference import JointTest
from dpmodels.tables.table import also
from dpmodels.verbs import new_release


def _ratios(fit: Fit, level: float | None, places: slice = slice(None)) -> pd.DataFrame:
    """Return exp of coefficients and of ends of intervals; tests are those of coefficients."""
    frame = inference.tidy(
        fit._record.estimate, conf_int_=True, level=fit._level(level), style="python",
        exponentiate=True,
    )
    shown = ["term", "estimate", "conf_low", "conf_high", "statistic", "p_value", "bias_bound"]
    columns = [name for name in shown if name in frame]
    return frame[columns].iloc[places].reset_index(drop=True)


class Hazards(Standardised, Numbers, JointTests, Means, Predictions, Updates, Fit):
    """A proportional hazards model (``dp_coxph``); its means and slopes are of log hazards."""

    __slots__ = ()

    @also.method
    def hazard_ratios(self, *, level: float | None = None) -> pd.DataFrame:
        """Return hazard ratios with intervals, z and p: ``tidy(exponentiate=True)``, in short.

        Parameters
        ----------
        level : float, optional

        Returns
        -------
        DataFrame
            ``term, estimate, conf_low, conf_high, statistic, p_value, bias_bound``: estimate and
            interval are exp of those of the coefficients; the bias bound is on the scale of the
            coefficients.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        return _ratios(self, level)

    def baseline(self) -> pd.DataFrame:
        """Return the released baseline hazard, one row per stratum and cell of time.

        Returns
        -------
        DataFrame
            ``strata, time, hazard, cumulative``: ``time`` is the end of the cell, ``hazard`` that
            of a unit whose columns are 0 within it, ``cumulative`` up to its end.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        columns = ["strata", "time", "hazard", "cumulative"]
        if not self.released:
            return pd.DataFrame(columns=columns)
        edges, cumulative = cumulated(self)
        rates = np.atleast_2d(np.asarray(self.arrays["baseline"]))
        labels = self.design.survival.stratas or ("",)
        rows = [
            (label, float(end), float(h), float(H))
            for label, rates_of_stratum, sums in zip(labels, rates, cumulative, strict=True)
            for end, h, H in zip(edges[1:], rates_of_stratum, sums[1:], strict=True)
        ]
        return pd.DataFrame(rows, columns=columns)

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
        columns = ["estimate", "std_error", "conf_low", "conf_high"]
        if not self.released:
            return pd.DataFrame(columns=columns)
        if "concordance" not in self.stats:
            raise RequestError(
                "this fit released no concordance. Request it with the fit, "
                "dp_coxph(..., concordance=True)"
            )
        C, se = self.stats["concordance"], self.stats["concordance_se"]
        half = inference.quantile(self._level(level)) * se
        low, high = (C, C) if C != C else (max(C - half, 0.0), min(C + half, 1.0))
        return pd.DataFrame([(C, se, low, high)], columns=columns)

    def cox_zph(
        self,
        data: Any,
        *,
        eps: float,
        delta: float,
        transform: str = "rank",
        intervals: int = 3,
        units: int | None = None,
        budget: Any = None,
        seed: int | None = None,
    ) -> Any:
        """Check whether hazards are proportional, as R's ``cox.zph``: a new release.

        Parameters
        ----------
        data : table
            Rows of the fit, which does not contain them.
        eps, delta : float
            The guarantee of this call.
        transform : {"rank", "identity", "log"}
            g of ``b + slope g(t)``: events so far over all, time, its log. Free to change
            afterwards: ``with_transform("log")``.
        intervals : int
            Parts of the follow-up, of about equal released events, by which scores are released.
        units : int, optional
            Of a fit with ``unit=``: the number of people, if it is declared.
        budget : Budget, optional
        seed : int, optional
            For tests: the check is then NOT PRIVATE.

        Returns
        -------
        CoxZph
            ``tests`` (chi-square, df and P of each coefficient and ``GLOBAL``), ``by_interval``
            (each coefficient by interval), ``plot(term=)``.

        Privacy
        -------
        Unit: that of the fit, one row or one person; one unit is replaced, the number of units is
        public. Charged: (eps, delta), before anything is read; on the rows of the fit it adds to
        what the fit cost.
        """
        return new_release("cox_zph")(
            self, data, eps=eps, delta=delta, transform=transform, intervals=intervals, units=units,
            budget=budget, seed=seed,
        )  # fmt: skip


class Choice(Numbers, JointTests, Predictions, Updates, Fit):
    """A regression of categories (``dp_multinom``)."""

    __slots__ = ()

    def odds_ratios(self, *, level: float | None = None) -> pd.DataFrame:
        """Return odds ratios with intervals, z and p; for levels against a base, relative risks.

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
        means = [name for name in self._record.estimate.names if name.startswith("mean(")]
        if not means or self._record.call.options.get("re") is None:
            raise RequestError(
                "hausman() compares effects within and between people, which needs person means: "
                'dp_feols("y ~ x", data, unit="id", re="id"), with mundlak=True (the default)'
            )
        return inference.joint_test(self._record, [f"{name} = 0" for name in means], use_f=False)


# -- What hazards and effects of people predict: ratios, survival, differences within a person.


def hazards(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str, times: Any = None,
) -> Any:  # fmt: skip
    """Predict log hazard ratios ("lp"), hazard ratios ("risk") or survival at public times.

    All are against a unit whose columns are 0 (R centres at the means of the rows, which are
    private). Survival is ``exp(-H_0(t) e^{x'b})``, H_0 piecewise linear between the breaks, in the
    row's stratum: a frame with one column per time; with ``interval=`` or ``se_fit=`` one row
    per time for each row of ``new``: ``time, fit, lwr, upr, se_fit``. Intervals are symmetric in
    ``log(-log S)``, errors those of baseline and coefficients together.
    """
    what = "link" if what == "mean" else what
    choice("what", {"link": "lp"}.get(what, what), ("lp", "risk", "survival"))
    choice("interval", interval, (None, "confidence"))
    X = np.asarray(fit.design.matrix(new, outside=outside), dtype=float)[:, 1:]
    if what != "survival":
        if times is not None:
            raise RequestError(
                'times= needs what="survival". Type predict(new, what="survival", times=...)'
            )
        return _linear(fit, new, X, interval, level, se_fit, ratios=what == "risk")
    return _survival(fit, new, X, times, (interval is not None, se_fit), level)


def _survival(
    fit: Fit, new: Any, X: Array, times: Any, with_errors: tuple[bool, bool], level: float
) -> pd.DataFrame:
    """Return survival at times, one row per row of ``new``, or per row and time if with errors."""
    est, index = fit._record.estimate, getattr(new, "index", None)
    if fit.released:
        edges, cumulative = cumulated(fit)
        at = edges[1:] if times is None else released_times(times, edges)
        code = strata_codes(fit.design, new) if len(cumulative) > 1 else np.zeros(len(X))
        stratum = np.nan_to_num(code).astype(int)
        H = np.array([np.interp(at, edges, hazard) for hazard in cumulative])  # (S, times)
        eta = np.where(np.isnan(code), np.nan, X @ np.asarray(est.params))
        S = np.exp(-H[stratum] * np.exp(eta)[:, None])
    else:
        at = np.atleast_1d(np.asarray([0.0] if times is None else times, dtype=float))
        S = np.full((len(X), len(at)), np.nan)
    if not any(with_errors):
        return pd.DataFrame(S, index=index, columns=at)
    columns = {"time": np.tile(at, len(X)), "fit": S.ravel()}
    ends, errors = (np.full((2, *S.shape), np.nan), np.full(S.shape, np.nan))
    if fit.released:
        se, bias = _log_hazard_errors(fit, X, at, stratum, H)
        half = inference.half_width(se, bias, level, est.use_t)
        log_H = np.log(np.maximum(H[stratum], 1e-300)) + eta[:, None]
        ends = np.exp(-np.exp(log_H + np.array([half, -half])))
        errors = S * np.exp(log_H) * se
    if with_errors[0]:
        columns |= {"lwr": ends[0].ravel(), "upr": ends[1].ravel()}
    if with_errors[1]:
        columns["se_fit"] = errors.ravel()
    rows = np.arange(len(X)) if index is None else index
    return pd.DataFrame(columns, index=np.repeat(np.asarray(rows), len(at)))


def _log_hazard_errors(fit: Fit, X: Array, at: Array, stratum: Any, H: Array) -> tuple[Any, Any]:
    """Return (se, bound of the bias) of log cumulative hazards, (rows, times) each.

    Gradients and errors of the baseline are straight between the ends of cells, as H is: of an
    error that is at least as large as it is.
    """
    vcov, p = np.asarray(fit.arrays["baseline_vcov"]), X.shape[1]
    size = np.maximum(H, 1e-300)  # (S, times)
    gradient = (between(fit, "baseline_gradient", at) / size[:, None])[stratum]  # (rows, d, times)
    gradient[:, 1 : p + 1] += X[:, :, None]
    square = np.einsum("idt,de,iet->it", gradient, vcov, gradient)
    square += (between(fit, "baseline_offset", at) / size)[stratum] ** 2
    bias = np.broadcast_to(between(fit, "baseline_bias", at)[stratum], square.shape)
    bound = fit._record.estimate.bias_of(X)
    return np.sqrt(np.maximum(square, 0.0)), bias + (0.0 if bound is None else bound[:, None])


def within(
    fit: Fit, new: Any, *, what: str, interval: str | None, level: float, se_fit: bool,
    outside: str,
) -> Any:  # fmt: skip
    """Predict ``x'b`` (``what="link"``): differences of rows are those within a person.

    With random intercepts the mean of people whose intercept is 0. Person means are then those of
    the rows of ``new`` with the same id; without a column of that name each row is a person.
    """
    person = fit._record.call.options.get("re")
    if person is None and what != "link":
        raise RequestError(
            f"{fit.kind.name} predicts no level: each person has its own, which is not released. "
            'predict(new, what="link") is what the predictors add to it; differences of two rows '
            "are those within a person"
        )
    choice("what", what, ("mean", "link"))
    if interval not in (None, "confidence"):
        why = "a level is not predicted" if person is None else (
            "of a new person's response the released variances are too noisy to be an interval's"
        )  # fmt: skip
        raise RequestError(f'interval= is None or "confidence" here: {why}')
    X = np.asarray(fit.design.matrix(new, outside=outside), dtype=float)
    if person is None:
        X = X[:, 1:]
    elif len(fit._record.estimate.names) > X.shape[1]:
        X = np.hstack([X, _own_means(X[:, 1:], new, str(person))])
    return _linear(fit, new, X, interval, level, se_fit)


def _linear(
    fit: Fit, new: Any, X: Array, interval: str | None, level: float, se_fit: bool, *,
    ratios: bool = False,
) -> Any:  # fmt: skip
    """Return ``X b`` with errors or intervals on request; ``ratios`` exponentiates the results."""
    est, shown = fit._record.estimate, np.exp if ratios else np.asarray
    eta, index = X @ np.asarray(est.params), getattr(new, "index", None)
    if interval is None and not se_fit:
        return pd.Series(shown(eta), index=index, name="fit")
    se, half = widths(est, X, level)
    columns = {"fit": shown(eta)}
    if interval is not None:
        columns |= {"lwr": shown(eta - half), "upr": shown(eta + half)}
    if se_fit:
        columns["se_fit"] = se * np.exp(eta) if ratios else se
    return pd.DataFrame(columns, index=index)


def _own_means(X: Array, new: Any, unit: str) -> Array:
    """Return the means of columns over the rows with the same id: complete ones."""
    try:
        ids = np.asarray(new[unit])
    except (KeyError, IndexError, TypeError, ValueError):
        return X
    if ids.shape != (len(X),):
        return X
    seen: dict[Any, int] = {}
    who = np.array([seen.setdefault(label, len(seen)) for label in ids.tolist()], dtype=np.intp)
    complete: Any = ~np.isnan(X).any(axis=1)
    many = np.maximum(np.bincount(who, complete, len(seen)), 1.0)
    filled = np.where(complete[:, None], X, 0.0)
    means = np.stack([np.bincount(who, column, len(seen)) / many for column in filled.T], axis=1)
    return np.where(complete[:, None], means[who], np.nan)
