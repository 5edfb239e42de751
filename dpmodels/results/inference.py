"""Numbers of a fit as pandas tables: the arithmetic of inference, and nothing else.

With V_s the sampling part and V_p the privacy part of the covariance (independent, since the
noise does not depend on the rows), V = V_s + V_p, so total^2 = sampling^2 + privacy^2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.after.wald import critical_value
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, choice, shown
from dpmodels.release import Estimate

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.results.record import Record

KINDS = ("total", "sampling", "privacy")
#: Level of the interval whose half width the printed error is of.
DECIDES = 0.95
TIDY = (
    "term",
    "estimate",
    "std_error",
    "std_error_sampling",
    "std_error_privacy",
    "statistic",
    "p_value",
    "conf_low",
    "conf_high",
    "bias_bound",
)


def series(values: Array, names: tuple[str, ...], title: str) -> pd.Series[float]:
    """Return a Series indexed by coefficient name."""
    import pandas as pd

    named: pd.Series[float] = pd.Series(np.array(values), index=pd.Index(list(names)), name=title)
    return named


def covariance(est: Estimate, kind: str = "total") -> Array:
    """Return (p, p) covariance of one kind; NaN where it was not released."""
    choice("kind", kind, KINDS)
    p = est.params.size
    nan = np.full((p, p), np.nan)
    parts = {"sampling": est.vcov_sampling, "privacy": est.vcov_privacy}
    if kind == "total":
        chosen = list(parts.values())
    else:
        chosen = [parts[kind]]
    if not est.released or any(v is None for v in chosen):
        return nan
    return np.asarray(sum(np.asarray(v) for v in chosen))


def standard_errors(est: Estimate, kind: str = "total") -> Array:
    """Return (p,) standard errors, sqrt of the diagonal of :func:`covariance`."""
    variance = np.diag(covariance(est, kind))
    return np.sqrt(np.where(variance >= 0, variance, np.nan))


def deciding(est: Estimate) -> Array:
    """Return (p,) errors that intervals, z and p rest on: total, with the allowance for a bias.

    The half width of the 95 % interval over that of an unbiased normal (or t) estimate: without
    a bias bound the total standard error.
    """
    se = standard_errors(est)
    if est.bias is None:
        return se
    return half_width(se, est.bias, DECIDES, est.use_t) / quantile(DECIDES, est.use_t)


def widened(est: Estimate) -> Array:
    """Return a covariance whose plain 95 % intervals hold the bias bound of every combination.

    For packages that know no bias. With b the bounds, k of them above 0, and any t > 0,

        V' = (1 + t) V + (1 + 1/t) (k / z^2) diag(b^2)

    has ``z sqrt(l'V'l) >= z sqrt(l'V l) + sum |l_j| b_j >= cv(bias/se) se`` for all l: Cauchy's
    inequality, and ``(x + y)^2 <= (1 + t) x^2 + (1 + 1/t) y^2``. t makes both parts alike on
    average.
    """
    V = covariance(est)
    if est.bias is None:
        return V
    bias, se, z = np.asarray(est.bias), standard_errors(est), quantile(DECIDES)
    some = np.flatnonzero(np.nan_to_num(bias) > 0.0)
    if not len(some):
        return V
    t = max(math.sqrt(len(some)) * float(np.mean(bias[some] / se[some])) / z, 1e-3)
    return np.asarray((1.0 + t) * V + (1.0 + 1.0 / t) * len(some) / z**2 * np.diag(bias**2))


def statistics(est: Estimate) -> Array:
    """Return (p,) estimate over the error that decides (:func:`deciding`); NaN where untested."""
    error = deciding(est)
    out = np.full(error.shape, np.nan)
    np.divide(est.params, error, out=out, where=error > 0)
    if est.untested is not None:
        out[est.untested] = np.nan
    return out


def p_values(est: Estimate) -> Array:
    """Return (p,) two-sided p-values, normal reference (t if the method says so).

    With a bias bound b the larger of the tail of z and of the largest tail probability
    ``P(|N(a, 1)| > |estimate|/se)`` over ``|a| <= b / se``: below .05 just where the 95 %
    interval excludes zero, and never smaller than z says.
    """
    from scipy.special import log_ndtr, stdtr

    z = -np.abs(statistics(est))
    tail = stdtr(est.use_t, z) if est.use_t is not None else np.exp(log_ndtr(z))
    p = np.asarray(2.0 * tail)
    if est.bias is None:
        return p
    a, se = relative_bias(est), standard_errors(est)
    own = np.full(se.shape, np.nan)
    np.divide(-np.abs(est.params), se, out=own, where=se > 0)
    own /= quantile(DECIDES, est.use_t) / quantile(DECIDES)  # agrees with the 95 % interval
    aware = np.exp(log_ndtr(own + a)) + np.exp(log_ndtr(own - a))
    return np.asarray(np.where(np.isnan(p), np.nan, np.fmax(p, aware)))


def errors(est: Estimate) -> pd.DataFrame:
    """Return what an error consists of, one row a coefficient: error, sampling, privacy, bias."""
    import pandas as pd

    bias = np.zeros(est.params.shape) if est.bias is None else np.asarray(est.bias)
    return pd.DataFrame(
        {
            "error": deciding(est),
            "std_error": standard_errors(est),
            "sampling": standard_errors(est, "sampling"),
            "privacy": standard_errors(est, "privacy"),
            "bias_bound": bias,
        },
        index=pd.Index(list(est.names)),
    )


def quantile(level: float, use_t: float | None = None) -> float:
    """Return the two-sided critical value of a confidence level."""
    from scipy.special import ndtri, stdtrit

    if not 0 < level < 1:
        raise RequestError(f"level must lie in (0, 1), got {shown(level)}. For example level=0.95")
    tail = (1 - level) / 2
    return -float(stdtrit(use_t, tail) if use_t is not None else ndtri(tail))


def bound_names(level: float) -> tuple[str, str]:
    """Return R's column names of an interval: ``2.5 %`` and ``97.5 %``."""
    tail = 50 * (1 - level)
    return f"{tail:.4g} %", f"{100 - tail:.4g} %"


def relative_bias(est: Estimate) -> Array:
    """Return (p,) bias bound over total standard error; 0 where there is no bound."""
    out = np.zeros(est.params.size)
    if est.bias is not None:
        np.divide(est.bias, standard_errors(est), out=out)
    return out


def half_width(se: Array, bias: Array | None, level: float, use_t: float | None = None) -> Array:
    """Return half widths of intervals: ``se`` times a quantile, or times ``cv(bias / se)``.

    ``cv(a)`` is the ``level`` quantile of |N(a, 1)|: the interval covers where the true bias is
    within its bound (Armstrong and Kolesar 2018). Where the reference is t, times the quantile of
    t over the normal one.
    """
    z = quantile(level, use_t)
    if bias is None:
        return np.asarray(z * se)
    a = np.zeros(np.shape(se))
    np.divide(bias, se, out=a, where=np.asarray(se) > 0)
    # a t reference: the same factor as where there is no bias
    return np.asarray(critical_value(a, level) * se * (z / quantile(level)))


def conf_int(est: Estimate, level: float) -> tuple[Array, Array]:
    """Return lower and upper ends, estimate -+ half width."""
    half = half_width(standard_errors(est), est.bias, level, est.use_t)
    return est.params - half, est.params + half


def privacy_share(est: Estimate) -> Array:
    """Return (p,) share of the variance that is due to privacy, privacy^2 / total^2."""
    total = standard_errors(est) ** 2
    out = np.full(total.shape, np.nan)
    np.divide(standard_errors(est, "privacy") ** 2, total, out=out, where=total > 0)
    return out


#: How tidy tables name their columns where a call does not say it.
_STYLE = {"columns": "python"}


def tidy_style(style: str | None = None) -> str:
    """Set, for this session, whether columns of tidy tables have underscores or R's dots.

    Parameters
    ----------
    style : {"python", "r"}, optional
        ``"python"``: ``std_error``; ``"r"``: ``std.error``, as broom has it. None: nothing is set.

    Returns
    -------
    str
        What is set. A call of ``tidy(style=)`` or ``glance(style=)`` wins.

    Privacy
    -------
    Reads no data.
    """
    if style is not None:
        choice("style", style, ("python", "r"))
        _STYLE["columns"] = style
    return _STYLE["columns"]


def styled(frame: pd.DataFrame, style: str | None = None) -> pd.DataFrame:
    """Return a frame with names of Python, or of R."""
    style = _STYLE["columns"] if style is None else style
    choice("style", style, ("python", "r"))
    return frame.rename(columns=lambda c: c.replace("_", ".")) if style == "r" else frame


def tidy(
    est: Estimate, *, conf_int_: bool, level: float, style: str | None, exponentiate: bool = False
) -> pd.DataFrame:
    """Return one row a coefficient, with broom's column names."""
    import pandas as pd

    low, high = conf_int(est, level)
    params = np.array(est.params)
    if exponentiate:
        params, low, high = np.exp(params), np.exp(low), np.exp(high)
    columns = (
        list(est.names),
        params,
        deciding(est),
        standard_errors(est, "sampling"),
        standard_errors(est, "privacy"),
        statistics(est),
        p_values(est),
        low,
        high,
        np.full(est.params.shape, np.nan) if est.bias is None else np.array(est.bias),
    )
    frame = pd.DataFrame(dict(zip(TIDY, columns, strict=True)))
    if not conf_int_:
        frame = frame.drop(columns=["conf_low", "conf_high"])
    return styled(frame, style)


def glance(record: Record, *, style: str | None) -> pd.DataFrame:
    """Return one row a fit: public facts, the guarantee, released statistics."""
    import pandas as pd

    from dpmodels.results.record import row_norm

    est, promise = record.estimate, record.guarantee
    row = {
        "nobs": record.n,
        "df": len(est.names),
        "method": record.call.method,
        "eps": promise.eps,
        "delta": promise.delta,
        "relation": promise.relation,
        "private": not promise.seeded,
        "released": est.released,
        "row_norm_bound": row_norm(record.design),
        "sigma": np.nan,
        "r_squared": np.nan,
        **dict(est.stats),
    }
    return styled(pd.DataFrame([row]), style)
