"""The protocol of a fit: names, numbers, aliases, what is absent."""

from __future__ import annotations

import numpy as np
import pytest

from dpmodels.errors import NotReleasedError, RequestError


def test_total_error_is_the_root_of_the_sum_of_squares(fit):
    total = np.hypot(
        [0.2310, 0.0164, 0.0973, 0.1003, 0.1165], [0.1180, 0.0121, 0.0652, 0.0887, 0.1502]
    )
    np.testing.assert_allclose(fit.bse, total, rtol=1e-12)
    np.testing.assert_allclose(fit.bse**2, fit.bse_sampling**2 + fit.bse_privacy**2, rtol=1e-12)
    np.testing.assert_allclose(fit.zvalues, fit.params / total, rtol=1e-12)


def test_inference_agrees_with_scipy(fit):
    from scipy import stats

    np.testing.assert_allclose(fit.pvalues, 2 * stats.norm.sf(abs(fit.zvalues)), rtol=1e-9)
    ci = fit.conf_int(level=0.9)
    assert list(ci.columns) == ["5 %", "95 %"]
    half = stats.norm.ppf(0.95) * fit.bse
    np.testing.assert_allclose(ci["5 %"], fit.params - half, rtol=1e-9)
    np.testing.assert_allclose(ci["95 %"], fit.params + half, rtol=1e-9)
    assert list(fit.conf_int().columns) == ["2.5 %", "97.5 %"]
    assert fit.conf_int(alpha=0.1).equals(fit.conf_int(0.9))


def test_t_reference(make_fit):
    from scipy import stats

    fit = make_fit(estimate={"use_t": 7.0})
    np.testing.assert_allclose(fit.pvalues, 2 * stats.t(7).sf(abs(fit.zvalues)), rtol=1e-9)
    half = stats.t(7).ppf(0.975) * fit.bse
    np.testing.assert_allclose(fit.conf_int()["97.5 %"], fit.params + half, rtol=1e-9)
    assert fit.use_t


def test_aliases(fit):
    assert fit.coef().equals(fit.params)
    assert fit.se().equals(fit.bse)
    assert fit.pvalue().equals(fit.pvalues)
    assert fit.confint().equals(fit.conf_int())
    assert fit.cov_params().equals(fit.vcov())
    assert fit.tvalues.equals(fit.zvalues)
    assert fit.vcov("total").equals(fit.vcov("sampling") + fit.vcov("privacy"))


def test_public_facts(fit):
    assert fit.nobs == 1599 and fit.df_model == 4 and fit.model == "dp_ols" and fit.method == "eptr"
    assert fit.released and fit.privacy.eps == 1 and fit.level == 0.95 and not fit.use_t
    assert "__bool__" not in dir(fit) and "__len__" not in dir(fit)


def test_not_released_names_raise_and_hasattr_is_false(fit):
    for name in ("resid", "fittedvalues", "rsquared", "llf", "exog", "data"):
        assert not hasattr(fit, name)
        with pytest.raises(NotReleasedError, match=name):
            getattr(fit, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fit.nonsense  # noqa: B018


def test_frozen(fit):
    with pytest.raises(AttributeError, match="frozen"):
        fit.params = 1
    with pytest.raises(AttributeError, match="frozen"):
        del fit._record
    with pytest.raises(ValueError, match="read-only"):
        fit._record.estimate.params[0] = 1.0
    params = fit.params
    params["alcohol"] = 99.0  # a copy: the fit does not change
    assert fit.params["alcohol"] == 0.3412


def test_estimate_given_in_is_copied(parts):
    from dpmodels.results import Fit

    plan, release, estimate = parts()
    fit = Fit(plan, release, estimate)
    before = fit.params.copy()
    assert estimate.params.flags.writeable
    estimate.vcov_sampling[:] = 0
    assert fit.bse_sampling.min() > 0
    assert fit.params.equals(before)


def test_coefficients_only(make_fit):
    fit = make_fit(inference=False)
    assert fit.bse.isna().all() and fit.pvalues.isna().all() and fit.bse_sampling.isna().all()
    assert fit.bse_privacy.notna().all() and fit.conf_int().isna().all().all()


def test_no_reply(make_fit):
    fit = make_fit(reply=False)
    assert not fit.released and fit.params.isna().all() and fit.bse.isna().all()
    assert np.isnan(fit.vcov()).all().all()


def test_bad_arguments(fit):
    for call in (
        lambda: fit.conf_int(level=95),
        lambda: fit.conf_int(level=0.9, alpha=0.1),
        lambda: fit.vcov("sandwich"),
        lambda: fit.tidy(style="stata"),
        lambda: fit.summary("pdf"),
        lambda: fit.summary(digits=0),
        lambda: fit.conf_int(method="profile"),
    ):
        with pytest.raises(RequestError):
            call()


def test_tidy_and_glance(fit):
    tidy = fit.tidy()
    assert list(tidy.columns) == [
        "term", "estimate", "std_error", "std_error_sampling", "std_error_privacy",
        "statistic", "p_value", "conf_low", "conf_high", "bias_bound",
    ]  # fmt: skip
    assert "std.error" in fit.tidy(style="r").columns
    assert "conf_low" not in fit.tidy(conf_int=False).columns
    row = fit.glance().iloc[0]
    assert row["nobs"] == 1599 and row["df"] == 5 and row["eps"] == 1 and row["sigma"] == 0.65
    assert np.isnan(row["r_squared"]) and row["released"] and row["private"]
    assert "row.norm.bound" in fit.glance(style="r").columns


def test_repr_is_two_lines(fit, make_fit):
    assert repr(fit) == (
        "<dp_ols: quality ~ alcohol + volatile_acidity + sulphates + pH | eptr | n = 1599 | "
        "(eps = 1, delta = 1e-06)-DP | released>\n"
        "fit.summary() for the table, fit.ledger for the charges"
    )
    assert "NOT PRIVATE" in repr(make_fit(seeded=True))
    assert "NO REPLY" in repr(make_fit(reply=False))


def test_outcomes_of_the_ledger(make_fit):
    from dpmodels.results.record import outcomes

    assert outcomes(make_fit()._record) == {"bound": "reply"}
    assert outcomes(make_fit(reply=False)._record) == {
        "bound": "NO REPLY",
        "coef": "charged",
        "variance": "charged",
    }


def test_outcomes_when_ranges_were_not_found(parts):
    from dataclasses import replace

    from dpmodels.privacy.mechanisms import Gaussian, Step
    from dpmodels.results import Fit
    from dpmodels.results.record import outcomes

    plan, release, estimate = parts(reply=False, why="ranges", bought=("pH",))
    bought = tuple(
        Step(name, Gaussian(1e-3), reply_test=True) for name in ("scale of pH", "range of pH")
    )
    promise = replace(release.guarantee, eps=1.01, steps=(*bought, *release.guarantee.steps))
    release = replace(release, guarantee=promise, ended="scale of pH")
    record = Fit(plan, release, estimate)._record
    assert outcomes(record) == {
        "scale of pH": "NO REPLY",
        "range of pH": "charged",
        **dict.fromkeys(("scale", "bound", "coef", "variance"), "charged"),
    }
