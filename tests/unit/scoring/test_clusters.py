"""Errors by cluster of every scored fit: right without noise, honest words, public refusals."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import _testing
from dpmodels.errors import RequestError

BOUNDS = {"x": (-4, 4), "z": (-4, 4), "y": (-12, 12)}
G, M = 400, 15


@pytest.fixture(scope="module")
def villages():
    """x goes with the village, z does not; the response has a village effect."""
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(G), M)
    u, v = rng.normal(size=(2, G))
    x = np.clip(0.8 * v[g] + 0.6 * rng.normal(size=G * M), -4, 4)
    z = np.clip(rng.normal(size=G * M), -4, 4)
    y = np.clip(1 + x - z + u[g] + rng.normal(size=G * M), -12, 12)
    return pd.DataFrame({
        "x": x, "z": z, "y": y, "village": [f"v{i}" for i in g], "code": g,
        "event": (y > 1).astype(int), "count": np.clip(rng.poisson(np.exp(0.3 * x + 0.4 * u[g])), 0, 20),
    })  # fmt: skip


def fitted(verb, formula, data, *, psus=G, eps=100.0, **options):
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        return getattr(dp, verb)(
            formula, data, eps=eps, delta=1e-6, bounds={**BOUNDS, "count": (0, 20)},
            vcov={"CRV1": "village"}, psus=psus, **options,
        )  # fmt: skip


def close(ours, theirs, rel=0.06):
    assert np.asarray(ours) == pytest.approx(np.asarray(theirs), rel=rel)


def test_least_squares_agrees_with_crv1(villages):
    smf = pytest.importorskip("statsmodels.formula.api")
    fit = fitted("dp_ols", "y ~ x + z", villages, eps=1e4)
    theirs = smf.ols("y ~ x + z", villages).fit(
        cov_type="cluster", cov_kwds={"groups": villages["code"]}
    )
    close(fit.bse_sampling[:2], theirs.bse[:2])
    close(fit.bse_sampling[2:], theirs.bse[2:], rel=0.2)  # a design effect of .74, near the floor
    rows = smf.ols("y ~ x + z", villages).fit(cov_type="HC1")
    assert theirs.bse["x"] > 1.8 * rows.bse["x"]  # which errors of rows would not have seen


def test_families_agree_with_crv1(villages):
    sm = pytest.importorskip("statsmodels.api")
    smf = pytest.importorskip("statsmodels.formula.api")
    events = villages["event"] == 1
    for verb_formula, family in (("event ~ x + z", "binomial"), ("count ~ x + z", "poisson")):
        fit = fitted("dp_glm", verb_formula, villages.assign(event=events), family=family, eps=1e4)
        of = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}[family]
        theirs = smf.glm(verb_formula, villages, family=of).fit(
            cov_type="cluster", cov_kwds={"groups": villages["code"]}
        )
        close(fit.bse_sampling, theirs.bse, rel=0.15)


def test_quantiles_and_huber_have_them_too(villages):
    """Against the same sandwich of unrelated rows: the ratio is that of least squares, roughly."""
    for verb, options in (("dp_quantreg", {"tau": 0.5}), ("dp_mest", {"loss": "huber"})):
        fit = fitted(verb, "y ~ x + z", villages, **options)
        with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
            warnings.simplefilter("ignore")
            rows = getattr(dp, verb)(
                "y ~ x + z", villages, eps=100.0, delta=1e-6, bounds=BOUNDS, **options
            )
        ratio = fit.bse_sampling / rows.bse_sampling
        assert ratio["Intercept"] > 2.0
        assert ratio["x"] > 1.6
        assert 0.8 < ratio["z"] < 1.25


def test_ids_of_any_type_are_the_same_clusters(villages):
    text = fitted("dp_ols", "y ~ x", villages)
    number = villages.assign(village=villages["code"].astype(float))
    category = villages.assign(village=villages["village"].astype("category"))
    for other in (number, category):
        assert fitted("dp_ols", "y ~ x", other).bse_sampling.to_numpy() == pytest.approx(
            text.bse_sampling.to_numpy(), rel=1e-9
        )
    # coins choose other rows for the early passes
    mixed = fitted("dp_ols", "y ~ x", villages.sample(frac=1, random_state=1))
    close(mixed.bse_sampling, text.bse_sampling, rel=0.03)


def test_the_number_of_clusters_is_declared_or_bought(villages):
    declared = fitted("dp_ols", "y ~ x", villages)
    bought = fitted("dp_ols", "y ~ x", villages, psus=None)
    close(bought.bse_sampling, declared.bse_sampling, rel=0.02)
    said = bought.summary(full=True).as_text()
    assert "400 clusters (estimated, with noise)" in said
    assert "One row is protected, not one village" in said
    text = " ".join(declared.summary(full=True).as_text().split())
    assert "400 clusters (declared); t distribution with 399" in text
    assert "up to twice too large for uncorrelated rows" in text


def test_intervals_have_the_quantile_of_t(villages):
    from scipy.special import stdtrit

    few = villages[villages["code"] < 30]
    fit = fitted("dp_ols", "y ~ 1", few, psus=30)
    low, high = fit.conf_int().to_numpy()[0]
    half = (high - low) / 2 / fit.bse["Intercept"]
    assert half >= stdtrit(29, 0.975) * (1 - 1e-9)
    p, z = fit.pvalues["Intercept"], fit.params["Intercept"]
    assert (p < 0.05) == (abs(z) > (high - low) / 2)


def test_noise_that_rules_gives_errors_from_above_and_says_why(villages):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_ols(
            "y ~ x + z + I(x**2) + I(z**2) + I(x*z)", villages.iloc[: 25 * M], eps=0.2, delta=1e-6,
            bounds=BOUNDS, vcov={"CRV1": "village"}, psus=25, seed=1,
        )  # fmt: skip
    assert np.isfinite(fit.bse_sampling).all()
    text = fit.summary(full=True).as_text()
    assert "are upper bounds" in text and "largest plausible design effect" in " ".join(text.split())
    plan = dp.plan(
        "y ~ x + z + I(x**2) + I(z**2) + I(x*z)", n=25 * M, eps=0.2, delta=1e-6,
        bounds=BOUNDS, vcov={"CRV1": "village"}, psus=25,
    )  # fmt: skip
    assert any("errors by cluster" in text for text in plan.advice)


def test_a_fit_with_clusters_is_the_fit_without_but_for_its_share(villages):
    """Coefficients do not look at clusters."""
    fit = fitted("dp_ols", "y ~ x", villages)
    mixed = villages.assign(village=np.random.default_rng(0).permutation(villages["village"]))
    assert fitted("dp_ols", "y ~ x", mixed).params.to_numpy() == pytest.approx(
        fit.params.to_numpy(), rel=1e-12
    )


def test_saved_fits_keep_their_reference(villages, tmp_path):
    fit = fitted("dp_ols", "y ~ x", villages)
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json")
    assert again.conf_int().equals(fit.conf_int())


def test_the_guarantee_and_the_ledger(villages):
    budget = dp.Budget(eps=3, delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_ols(
            "y ~ x", villages, eps=1, delta=1e-6, bounds=BOUNDS, vcov={"CRV1": "village"},
            budget=budget, seed=1,
        )  # fmt: skip
    assert fit.privacy.eps == 1
    assert fit.privacy.unit == "record"
    mus = [s.mechanism.mu for s in fit.privacy.steps]
    from dpmodels.privacy.mechanisms import mu_gdp

    assert math.sqrt(math.fsum(m * m for m in mus)) == pytest.approx(mu_gdp(1, 0.999e-6), rel=1e-9)


def test_words_for_what_cannot_be(villages):
    call = {"eps": 1, "delta": 1e-6, "bounds": BOUNDS}
    with pytest.raises(RequestError, match="must be declared, psus="):
        dp.dp_ols("y ~ x", villages, vcov={"CRV1": "village"}, unit="code", **call)
    with pytest.raises(RequestError, match="is the cluster itself"):
        dp.dp_ols("y ~ x", villages, vcov={"CRV1": "village"}, unit="village", **call)
    with pytest.raises(RequestError, match="releases no sums of scores"):
        dp.dp_npreg("y ~ x", villages, vcov={"CRV1": "village"}, **call)
    with pytest.raises(RequestError, match="design= must be a"):
        dp.dp_ols("y ~ x", villages, design="village", **call)
    with pytest.raises(RequestError, match="leave vcov= out"):
        dp.dp_ols(
            "y ~ x", villages, design=dp.Survey(psu="village"), vcov={"CRV1": "village"}, **call
        )
    with pytest.raises(RequestError, match="would be data"):
        dp.Survey(psu="village", strata="h", fpc="size")
