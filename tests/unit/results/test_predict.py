"""Predictions: numbers against matrix algebra, ranges, missing cells, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpmodels.errors import NotReleasedError, RequestError, UtilityWarning
from dpmodels.results import Fit
from dpmodels.verbs import Verb, register_verb, verb_of

NEW = pd.DataFrame(
    {
        "alcohol": [9.0, 12.0],
        "volatile_acidity": [0.3, 0.9],
        "sulphates": [0.5, 0.6],
        "pH": [3.1, 3.4],
    },
    index=[7, 9],
)
X = np.column_stack([np.ones(2), NEW.to_numpy()])


def test_mean_and_intervals(fit):
    expected, eta = X @ fit.shrunk.to_numpy(), X @ fit.params.to_numpy()
    out = fit.predict(NEW)
    assert list(out.index) == [7, 9]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    se = np.sqrt(np.diag(X @ fit.vcov().to_numpy() @ X.T))
    both = fit.predict(NEW, interval="confidence", se_fit=True)
    assert list(both.columns) == ["fit", "lwr", "upr", "se_fit"]
    np.testing.assert_allclose(both["se_fit"], se, rtol=1e-12)
    np.testing.assert_allclose(both["upr"] - both["lwr"], 2 * 1.959963984540054 * se, rtol=1e-9)
    wide = fit.predict(NEW, interval="prediction", level=0.8)
    half = 1.2815515655446004 * np.sqrt(se**2 + 0.65**2)
    np.testing.assert_allclose(wide["upr"] - eta, half, rtol=1e-9)  # about the estimate


def test_outside_the_declared_ranges(fit):
    far = NEW.assign(alcohol=[20.0, 12.0])
    with pytest.warns(UtilityWarning, match="1 of 2 cells of 'alcohol' are outside"):
        clipped, nan = fit.predict(far, outside="clip"), fit.predict(far, outside="nan")
    asis = fit.predict(far, outside="extrapolate")
    slope = fit.shrunk["alcohol"]
    np.testing.assert_allclose(clipped - fit.predict(NEW), [slope * (15 - 9), 0], atol=1e-12)
    np.testing.assert_allclose(asis - fit.predict(NEW), [slope * (20 - 9), 0], atol=1e-12)
    assert np.isnan(nan.iloc[0]) and nan.iloc[1] == fit.predict(NEW).iloc[1]


def test_missing_cells_and_missing_columns(fit):
    out = fit.predict(NEW.assign(pH=[np.nan, 3.4]), interval="confidence")
    assert out.iloc[0].isna().all() and out.iloc[1].notna().all()
    with pytest.raises(ValueError, match="pH"):
        fit.predict(NEW.drop(columns="pH"))
    assert len(fit.predict({k: v.tolist() for k, v in NEW.items()})) == 2


def test_there_is_no_default_for_new(fit):
    with pytest.raises(RequestError, match="predict needs rows"):
        fit.predict()


def test_bad_arguments(fit, make_fit):
    for kwargs in (
        {"what": "prob"},
        {"interval": "credible"},
        {"outside": "wrap"},
        {"level": 95, "interval": "confidence"},
    ):
        with pytest.raises(RequestError):
            fit.predict(NEW, **kwargs)
    coefficients = make_fit(inference=False)
    np.testing.assert_allclose(coefficients.predict(NEW), X @ coefficients.params.to_numpy())
    with pytest.raises(NotReleasedError, match="inference=True"):
        coefficients.predict(NEW, interval="prediction")
    assert make_fit(reply=False).predict(NEW).isna().all()


@pytest.mark.parametrize("link", ["logit", "log"])
def test_links_transform_ends_and_use_the_delta_method(parts, link):
    from dataclasses import replace

    plan, release, estimate = parts()
    plan = replace(plan, request=replace(plan.request, options={"link": link}))
    estimate = replace(estimate, params=estimate.params / 5)
    fit = Fit(plan, release, estimate)
    inverse = {"logit": lambda e: 1 / (1 + np.exp(-e)), "log": np.exp}[link]
    eta = X @ fit.shrunk.to_numpy()
    np.testing.assert_allclose(fit.predict(NEW), inverse(eta), rtol=1e-12)
    np.testing.assert_allclose(fit.predict(NEW, what="link"), eta, rtol=1e-12)
    eta = X @ fit.params.to_numpy()
    out = fit.predict(NEW, interval="confidence", se_fit=True)
    link_out = fit.predict(NEW, what="link", interval="confidence", se_fit=True)
    np.testing.assert_allclose(out["upr"], inverse(link_out["upr"]), rtol=1e-12)
    step = 1e-6
    slope = (inverse(eta + step) - inverse(eta - step)) / (2 * step)
    np.testing.assert_allclose(out["se_fit"], slope * link_out["se_fit"], rtol=1e-6)
    with pytest.raises(RequestError, match="linear model"):
        fit.predict(NEW, interval="prediction")


def test_a_family_registers_its_kind(parts, monkeypatch):
    from dataclasses import replace

    from dpmodels import verbs

    monkeypatch.setattr(verbs, "_VERBS", dict(verbs._VERBS))
    register_verb(
        Verb(
            name="dp_test",
            title="test family",
            predict="json:dumps",
            header=(("Sigma", "sigma"), ("Absent", "nothing")),
            estimates="Mean",
            count="Cells",
        )
    )
    plan, release, estimate = parts()
    plan = replace(plan, request=replace(plan.request, verb="dp_test"))
    fit = Fit(plan, release, estimate)
    text = str(fit.summary(full=True))
    assert "Differentially private test family" in text and "Sigma:" in text and "Mean" in text
    assert "Cells:" in text and "Absent" not in text and "R-squared" not in text
    assert Fit.from_json(fit.to_json()).kind.title == "test family"
    register_verb(Verb(name="dp_test", title="mute", predict=""))
    with pytest.raises(NotReleasedError):
        fit.predict(NEW)
    assert verb_of("dp_ols").title == "linear regression"


def test_an_offset_is_part_of_the_prediction():
    """As predict.lm: the response is fitted less the offset, and the prediction has it again."""
    import warnings

    import dpmodels as dp

    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"x": rng.uniform(0, 1, 5000), "z": rng.uniform(0, 1, 5000)})
    rows["y"] = 1 + rows["x"] + 3 * rows["z"]
    bounds = {"y": (0, 6), "x": (0, 1), "z": (0, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_ols(
            "y ~ x + offset(3*z)", rows, eps=8, delta=1e-6, method="eptr", bounds=bounds, seed=1
        )
    by_hand = fit.shrunk["Intercept"] + fit.shrunk["x"] * rows["x"] + 3 * rows["z"]
    np.testing.assert_allclose(fit.predict(rows), by_hand, rtol=1e-12)
    assert abs(fit.predict(rows) - rows["y"]).mean() < 0.2
    assert Fit.from_json(fit.to_json()).predict(rows).equals(fit.predict(rows))
