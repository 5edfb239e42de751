"""Every number beside the coefficients, against a textbook's: no noise, ranges that are not the unit.

R squared and its kin are left to the tests of their own estimator.
"""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

N = 8000
SCHEMA = dp.Schema(
    x=dp.Real(-3, 7), z=dp.Real(0, 40), v=dp.Real(-10, 12), y=dp.Real(-40, 80), e=dp.Binary(),
    c=dp.Count(60), g=dp.Levels(["u", "v", "w"]),
)  # fmt: skip
CALL = {"eps": 20, "delta": 1e-6, "schema": SCHEMA}
PUBLIC_STEPS = {"score_clip", "score_noise"}  # of the plan: below


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x, z = rng.uniform(-3, 7, N), rng.uniform(0, 40, N)
    g = rng.choice(["u", "v", "w"], N, p=[0.5, 0.3, 0.2])
    y = 20 + 3 * x - 0.4 * z + 2.0 * (g == "v") + rng.normal(0, 4, N)
    e = rng.random(N) < 1 / (1 + np.exp(0.5 - 0.4 * x + 0.05 * z))
    mean = np.exp(0.6 + 0.15 * x + 0.01 * z)
    c = rng.poisson(mean * rng.gamma(2.0, 0.5, N)).clip(0, 60)  # alpha = 1/2
    v = 2 + 0.5 * x + rng.normal(0, 1.5, N)
    return pd.DataFrame(
        {"x": x, "z": z, "v": v, "g": g, "y": y, "e": e.astype(float), "c": c.astype(float)}
    )


def stats_of(fit):
    return fit._record.estimate.stats


def scored(fit):
    """Clip and noise of the last scores are those of the plan: public numbers."""
    stats = stats_of(fit)
    assert stats["score_clip"] > 0 and stats["score_noise"] > 0
    out = {k: v for k, v in stats.items() if k not in PUBLIC_STEPS and "r_squared" not in k}
    assert out.pop("complete_share") == pytest.approx(1.0) and out.pop("complete_share_se") > 0
    return out


@pytest.mark.parametrize("options", [{}, {"vcov": "iid"}, {"unit": "pid"}])
def test_least_squares(noiseless, data, options):
    data = data.assign(pid=np.arange(N))
    fit = dp.dp_ols("y ~ x + z + g", data, **CALL, **options)
    exact = smf.ols("y ~ x + z + g", data).fit()
    stats = scored(fit)
    assert set(stats) == {"sigma"}
    assert stats["sigma"] == pytest.approx(math.sqrt(exact.scale), rel=0.05)


def test_least_squares_by_moments(noiseless, data):
    fit = dp.dp_ols("y ~ x + z + g", data, scoring=False, **CALL)
    exact = smf.ols("y ~ x + z + g", data).fit()
    stats = {k: v for k, v in stats_of(fit).items() if "r_squared" not in k}
    assert set(stats) == {"noise_sd", "ridge", "radius", "effective_rows", "sigma", "sigma_se",
                          "aic", "bic", "aic_se_privacy"}  # fmt: skip
    assert stats["sigma"] == pytest.approx(math.sqrt(exact.scale), rel=0.02)
    assert stats["ridge"] == 0.0 and stats["effective_rows"] == pytest.approx(N, rel=0.02)
    # sampling: sigma / sqrt(2 df); the noise of the moments comes on top
    assert stats["sigma_se"] >= 0.95 * math.sqrt(exact.scale / (2.0 * exact.df_resid))
    assert stats["sigma_se"] <= 3.0 * math.sqrt(exact.scale / (2.0 * exact.df_resid))
    named = {"g[v]": "g[T.v]", "g[w]": "g[T.w]"}
    for name, value in fit.params.items():
        assert value == pytest.approx(exact.params[named.get(name, name)], rel=0.01, abs=0.01)


def test_least_squares_on_released_moments(noiseless, data):
    released = dp.dp_moments("y + x + z + v ~ 1", data, **CALL)
    fit = dp.dp_ols("y ~ x + z", released)
    exact = smf.ols("y ~ x + z", data).fit()
    stats = {k: v for k, v in stats_of(fit).items() if "r_squared" not in k}
    assert set(stats) == {"sigma", "effective_rows", "noise_margin", "sigma_se", "aic", "bic",
                          "aic_se_privacy"}  # fmt: skip
    # R counts sigma as a parameter, statsmodels does not
    assert stats["aic"] == pytest.approx(exact.aic + 2.0, rel=0.01) == fit.aic
    assert stats["bic"] == pytest.approx(exact.bic + math.log(N), rel=0.01)
    assert stats["sigma"] == pytest.approx(math.sqrt(exact.scale), rel=0.03)
    assert stats["effective_rows"] == pytest.approx(N, rel=0.02)
    assert stats["noise_margin"] > 1.0  # eigenvalues over what noise could be


def test_first_stage_of_instruments(noiseless, data):
    """F of the excluded instruments; a weak one says so."""
    released = dp.dp_moments("y + x + z + v ~ 1", data, **CALL)
    stats = stats_of(dp.dp_iv("y ~ v | x + z", released))
    first = smf.ols("v ~ x + z", data).fit()
    (name,) = [k for k in stats if k.startswith("first_stage_F")]
    assert name == "first_stage_F[v]"
    assert stats[name] <= 1.1 * first.fvalue  # noise counts against it
    assert stats[name] >= 0.2 * first.fvalue
    weak = stats_of(dp.dp_iv("y ~ v | z", released))
    assert weak["first_stage_F[v]"] < 10.0


def test_logit(noiseless, data):
    fit = dp.dp_glm("e ~ x + z", data, fit_stats=True, **CALL)
    exact = smf.glm("e ~ x + z", data, family=sm.families.Binomial()).fit()
    stats = scored(fit)
    assert {"deviance", "null_deviance", "aic"} <= set(stats)
    assert stats["deviance"] == pytest.approx(exact.deviance, rel=2e-3)
    assert stats["null_deviance"] == pytest.approx(exact.null_deviance, rel=2e-3)
    assert stats["aic"] == pytest.approx(exact.aic, rel=2e-3)
    assert stats["aic"] - stats["deviance"] == pytest.approx(2 * 3, abs=1e-6)
    assert stats["aic_se"] == stats["deviance_se"] > 0


def test_poisson(noiseless, data):
    fit = dp.dp_glm("c ~ x + z", data, family="poisson", fit_stats=True, **CALL)
    exact = smf.glm("c ~ x + z", data, family=sm.families.Poisson()).fit()
    stats = scored(fit)
    assert stats["deviance"] == pytest.approx(exact.deviance, rel=0.02)
    assert stats["null_deviance"] == pytest.approx(exact.null_deviance, rel=0.02)
    pearson = exact.pearson_chi2 / exact.df_resid
    # squared scores are cut at 6 p: of overdispersed counts a part is beyond, of which the bins of
    # lengths tell the middles of half octaves
    assert 0.75 * pearson <= stats["dispersion"] <= 1.1 * pearson


def test_negative_binomial(noiseless, data):
    stats = scored(dp.dp_glm("c ~ x + z", data, family="negative_binomial", **CALL))
    assert set(stats) == {"alpha"}
    # squared scores are cut at 6 p: of overdispersed counts a part is beyond
    assert 0.35 <= stats["alpha"] <= 0.55


@pytest.mark.parametrize("tau", [0.3, 0.5, 0.8])
def test_quantile(noiseless, data, tau):
    """Sparsity: one over the density of the residual at its quantile; normal here, but for g."""
    from scipy.stats import norm

    stats = scored(dp.dp_quantreg("y ~ x + z + g", data, tau=tau, **CALL))
    assert set(stats) == {"sparsity"}
    density = norm.pdf(norm.ppf(tau)) / 4.0
    root = math.sqrt(tau * (1.0 - tau))
    # in units of the response: of sqrt(tau (1 - tau)) / f, or of 1 / f
    assert stats["sparsity"] == pytest.approx(root / density, rel=0.15) or stats[
        "sparsity"
    ] == pytest.approx(1.0 / density, rel=0.15)


def test_robust_scales(noiseless, data):
    huber = scored(dp.dp_mest("huber", "y ~ x + z + g", data, **CALL))
    exact = sm.RLM.from_formula("y ~ x + z + g", data, M=sm.robust.norms.HuberT()).fit(
        scale_est=sm.robust.scale.HuberScale()
    )
    assert set(huber) == {"scale"} and huber["scale"] == pytest.approx(exact.scale, rel=0.2)


def test_tested_and_perturbed_fits_print_their_plans(noiseless, data):
    """Ridge and noise are public, or follow from what was released."""
    objpert = dp.dp_glm("e ~ x + z", data, method="objpert", **CALL)
    detail = objpert._record.plan.detail if hasattr(objpert._record, "plan") else None
    stats = stats_of(objpert)
    assert set(stats) == {"ridge", "score_noise_sd", "radius"}
    if detail is not None:
        assert stats["ridge"] == detail.lam and stats["score_noise_sd"] == detail.sigma
        assert stats["radius"] == detail.radius
    gptr = dp.dp_glm("e ~ x + z", data, method="gptr", **CALL)
    stats = stats_of(gptr)
    assert set(stats) == {"ridge", "curvature_lower_bound", "noise_sd"}
    assert stats["curvature_lower_bound"] >= stats["ridge"] > 0
    # the printed errors are this noise in the user's units: x spans 10, half of it is the unit
    assert float(gptr.bse_privacy["x"]) == pytest.approx(stats["noise_sd"] / 5.0, rel=1e-9)
    assert float(gptr.bse_privacy["z"]) == pytest.approx(stats["noise_sd"] / 20.0, rel=1e-9)


def test_means(noiseless, data):
    stats = stats_of(dp.dp_mean("y + x ~ 1", data, **CALL))
    assert stats == {"complete_rows": pytest.approx(N, rel=1e-6)}


def test_a_gaussian_family_has_the_dispersion_of_least_squares(noiseless, data):
    """In the response's own units: their square; of the pass before the last, which errs upwards."""
    stats = scored(dp.dp_glm("y ~ x + z + g", data, family="gaussian", **CALL))
    exact = smf.ols("y ~ x + z + g", data).fit()
    assert set(stats) == {"dispersion"}
    assert stats["dispersion"] == pytest.approx(exact.scale, rel=0.2)
