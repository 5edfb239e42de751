"""Meta-analysis of several sites: against statsmodels, likelihoods, and the fit of the union."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import DPModelsWarning, NotReleasedError, RequestError
from dpmodels.results.meta import _mean_of, reml

pytestmark = pytest.mark.usefixtures("quiet")
SCHEMA = dp.Schema(x=dp.Real(-1, 1), z=dp.Real(0, 1), y=dp.Real(-4, 5), e=dp.Binary())


def site(seed, n=2000, slope=1.0):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 1, n)})
    d["y"] = 0.5 + slope * d.x - 0.3 * d.z + rng.normal(0, 0.5, n)
    d["e"] = (d.y > 0.5).astype(int)
    return d


def fitted(d, formula="y ~ x + z", eps=1.0, **call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_ols(formula, d, **{"eps": eps, "delta": 1e-6, "schema": SCHEMA, **call})


@pytest.fixture(scope="module")
def fits():
    """Three sites of 2000 rows with eps 1, 2 and 4; the noise is not seeded."""
    return [fitted(site(k), eps=eps) for k, eps in enumerate((1.0, 2.0, 4.0))]


# -- Numbers.


@pytest.mark.oracle
def test_fixed_effects_are_those_of_statsmodels():
    analysis = pytest.importorskip("statsmodels.stats.meta_analysis")
    rng = np.random.default_rng(3)
    for k in (2, 5, 12):
        y, v = rng.normal(0.4, 0.3, k), rng.uniform(0.01, 0.2, k)
        theirs = analysis.combine_effects(y, v)
        ours = _mean_of(y, v, np.zeros(k), random=False, level=0.95)
        table = theirs.summary_frame()
        assert (ours.estimate, ours.se) == pytest.approx(
            table.loc["fixed effect", ["eff", "sd_eff"]]
        )
        assert (ours.estimate - ours.half, ours.estimate + ours.half) == pytest.approx(
            table.loc["fixed effect", ["ci_low", "ci_upp"]]
        )
        assert pytest.approx(theirs.q) == ours.Q


def test_tau_maximises_the_restricted_likelihood():
    rng = np.random.default_rng(4)
    for _ in range(8):
        v = rng.uniform(0.01, 0.1, 7)
        y = rng.normal(0.2, np.sqrt(v + 0.05))

        def likelihood(tau2, y=y, v=v):
            w = 1.0 / (v + tau2)
            mean = w @ y / w.sum()
            return 0.5 * (np.log(v + tau2).sum() + np.log(w.sum()) + w @ (y - mean) ** 2)

        best = optimize.minimize_scalar(likelihood, bounds=(0.0, 2.0), method="bounded",
                                        options={"xatol": 1e-10}).x  # fmt: skip
        assert reml(y, v) == pytest.approx(best, abs=1e-5)
    assert reml(np.ones(4), np.ones(4)) == 0.0


def test_random_effects_have_the_error_of_hartung_and_knapp():
    y, v = np.array([0.1, 0.5, 0.9, 0.2]), np.array([0.01, 0.02, 0.015, 0.05])
    out = _mean_of(y, v, np.zeros(4), random=True, level=0.95)
    w = 1.0 / (v + out.tau2)
    mean = w @ y / w.sum()
    se = np.sqrt(w @ (y - mean) ** 2 / 3 / w.sum())
    assert out.tau2 > 0 and (out.estimate, out.se) == pytest.approx((mean, se))
    assert out.half == pytest.approx(stats.t(3).ppf(0.975) * se)
    assert out.half_new == pytest.approx(stats.t(2).ppf(0.975) * np.sqrt(out.tau2 + se**2))
    assert out.p == pytest.approx(2 * stats.t(3).sf(abs(mean) / se))


def test_the_bias_of_sites_adds_up_with_their_weights():
    y, v, b = np.array([1.0, 1.2]), np.array([0.01, 0.03]), np.array([0.1, 0.4])
    for random in (False, True):
        out, none = (_mean_of(y, v, bound, random=random, level=0.95) for bound in (b, 0 * b))
        assert out.bias == pytest.approx(out.weights @ b) and out.half > none.half
        assert out.p > none.p


@pytest.mark.statistical
@pytest.mark.parametrize("tau", [0.0, 0.3])
@pytest.mark.parametrize("random", [False, True])
def test_intervals_cover(tau, random):
    """2000 meta-analyses of 6 sites; between .93 and .98, fails by chance below 1e-4 (binomial).

    Fixed effects are claimed for equal coefficients alone. seed 7.
    """
    rng, inside = np.random.default_rng(7), []
    for _ in range(2000):
        v = rng.uniform(0.02, 0.1, 6)
        y = 0.7 + rng.normal(0, tau, 6) + rng.normal(0, np.sqrt(v))
        out = _mean_of(y, v, np.zeros(6), random=random, level=0.95)
        inside.append(abs(out.estimate - 0.7) <= out.half)
    if random or tau == 0.0:
        assert 0.93 <= np.mean(inside) <= 0.98
    else:
        assert np.mean(inside) < 0.85, "the reason for random effects"


def test_sites_together_are_the_union_without_noise():
    tables = [site(k, n=3000) for k in range(3)]
    with noise_source(ZeroNoise()):
        parts = [fitted(d, eps=1e6) for d in tables]
        union = fitted(pd.concat(tables, ignore_index=True), eps=1e6)
    out = dp.meta(parts)
    assert out.estimate == pytest.approx(union.params.to_numpy(), abs=4e-3)
    assert out.std_error == pytest.approx(union.bse.to_numpy(), rel=0.05)
    covariance = out.vcov().to_numpy()
    assert covariance == pytest.approx(union.vcov().to_numpy(), abs=0.1 * np.abs(covariance).max())


# -- The result.


def test_the_largest_guarantee_or_the_sum(fits):
    one, two = dp.meta(fits), dp.meta(fits, overlap=True)
    assert (one.eps, one.delta) == (4.0, 1e-6) and "(ε = 4, δ = 1e-06)-DP" in one.statement
    assert "parallel" in one.statement and "site 1 (1, 1e-06), site 2 (2, 1e-06), site 3 (4, 1e-06)" in one.statement
    assert (two.eps, two.delta) == (7.0, pytest.approx(3e-6)) and "add up" in two.statement
    assert one.statement in one.table().notes
    seeded = [fits[0], fitted(site(1), seed=1)]
    assert "NOT PRIVATE" in dp.meta(seeded).statement


def test_a_result_is_shown_drawn_and_saved(fits, tmp_path):
    for effects in ("fixed", "random"):
        out = dp.meta(fits, effects=effects, names=["Leeds", "York", "Hull"])
        frame = out.tidy().set_index("term")
        assert (frame["conf_low"] < frame["estimate"]).all() and (frame["i2"] <= 1).all()
        assert frame.loc["x", "conf_low"] < 1.0 < frame.loc["x", "conf_high"]
        text = str(out)
        assert "Leeds, York, Hull" in text and ("tau" in text) is (effects == "random")
        out.save(tmp_path / "m.json")
        assert str(dp.load(tmp_path / "m.json")) == text
        pytest.importorskip("matplotlib")
        ticks = [t.get_text() for t in out.plot(term="x").get_yticklabels()]
        assert ticks == ["Leeds", "York", "Hull", f"mean ({effects})"]
    assert np.isnan(out.vcov().to_numpy()[0, 1]) and (frame["new_high"] > frame["conf_high"]).all()
    with pytest.raises(RequestError, match="no coefficient"):
        out.plot(term="w")


def test_a_coefficient_that_is_not_determined_does_not_enter(fits):
    record = fits[0]._record
    est = replace(record.estimate, untested=np.array([False, True, False]))
    weak = dp.results.Fit._of(replace(record, estimate=est))
    out = dp.meta([weak, *fits[1:]])
    assert out.weights[0].tolist()[1] == 0.0 and out.weights.sum(axis=0) == pytest.approx(1.0)
    only = dp.meta([weak, fits[1]])
    assert np.isnan(only.estimate[1]) and np.isfinite(only.estimate[2])


def test_fits_that_do_not_belong_together_are_refused(fits):
    d = site(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        logit = dp.dp_glm("e ~ x + z", d, family="binomial", eps=1, delta=1e-6, schema=SCHEMA)
        d["id"] = np.arange(len(d)) // 2
        people = dp.dp_ols("y ~ x + z", d, eps=1, delta=1e-6, schema=SCHEMA, unit="id")
        bare = dp.dp_ols("y ~ x + z", d, eps=1, delta=1e-6, schema=SCHEMA, inference=False)
    for wrong, says in (
        ([fits[0]], "at least two"), ([fits[0], logit], "the model is .* at site 2"),
        ([fits[0], fitted(d, "y ~ x")], "coefficient 'z' is not in site 2"),
        ([fitted(d, "y ~ x"), fits[0]], "coefficient 'z' is not in site 1"),
        ([fits[0], fitted(d, "x ~ y + z")], "response"), ([fits[0], people], "units"),
        ([fits[0], 3], "needs fits"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=says):
            dp.meta(wrong)
    with pytest.raises(NotReleasedError, match="total standard errors"):
        dp.meta([fits[0], bare])
    for options, says in (
        ({"effects": "mixed"}, "fixed"),
        ({"names": ["a"]}, "one name"),
        ({"level": 2}, "level"),
    ):
        with pytest.raises(RequestError, match=says):
            dp.meta(fits, **options)
