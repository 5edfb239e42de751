"""Fits without noise, planned at a real budget, are the non-private ones: centres and starts.

Deterministic data (fixed seeds) and no noise: no false alarms.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.errors import DPModelsWarning

smf = pytest.importorskip("statsmodels.formula.api")

N = 8000
LEVELS = list("tuvwxyz")


@pytest.fixture(scope="module")
def far_from_zero():
    """A response near 26 in (0, 60), seven levels, five numbers, weights."""
    rng = np.random.default_rng(1)
    g, X = rng.integers(0, 7, N), rng.uniform(-1, 1, (N, 5))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["y"] = 20 + 2 * g + X @ np.arange(0.5, 3.0, 0.5) + rng.normal(size=N)
    frame["w"], frame["g"] = rng.uniform(0.5, 2, N), np.array(LEVELS)[g]
    numbers = {c: dp.Real(-1, 1) for c in "abcde"}
    return frame, dp.Schema(y=dp.Real(0, 60), w=dp.Real(0, 3), g=dp.Levels(LEVELS), **numbers)


def without_noise(verb, formula, frame, schema, **options):
    with noise_source(ZeroNoise()), warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return verb(formula, frame, eps=1, delta=1e-6, schema=schema, **options)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize(
    "formula",
    ["y ~ g", "y ~ g - 1", "y ~ g + a + b - 1", "y ~ a + b + c + d + e", "y ~ a + b + c + d + e - 1"],
)
@pytest.mark.parametrize("verb", ["dp_ols", "dp_glm"])
def test_the_centre_of_the_response_is_given_back(far_from_zero, verb, formula, weights):
    """Without a constant, and with weights, it was not: ``y ~ g - 1`` gave -7 .. 7 for 20 .. 34."""
    frame, schema = far_from_zero
    options = {} if verb == "dp_ols" else {"family": "gaussian"}
    if weights:
        options["weights"] = weights
    fit = without_noise(getattr(dp, verb), formula, frame, schema, **options)
    model = smf.ols(formula, frame) if weights is None else smf.wls(formula, frame, weights=frame["w"])
    exact = model.fit().params
    assert list(fit.params.index) == list(exact.index)
    assert (np.abs(fit.params - exact) < 1.5 * fit.bse).all()


@pytest.mark.parametrize(
    ("rate", "ratio", "n"), [(0.01, 30, 200_000), (0.01, 3, 50_000), (0.02, 10, 50_000)]
)
def test_rare_events_of_two_groups_start_at_the_mean(rate, ratio, n):
    """Events of 1 % started at a mean near .2, as the mean row had lost what the ball takes."""
    rng = np.random.default_rng(2)
    high = rng.integers(0, 2, n)
    low = 2 * rate / (1 + ratio)
    frame = pd.DataFrame({"h": np.where(high == 1, "high", "low")})
    frame["y"] = (rng.random(n) < np.where(high == 1, low * ratio, low)).astype(int)
    schema = dp.Schema(y=dp.Binary(), h=dp.Levels(["low", "high"]))
    fit = without_noise(dp.dp_glm, "y ~ h", frame, schema, family="binomial")
    p = frame.groupby("h")["y"].mean()
    exact = np.log(p["high"] / (1 - p["high"])) - np.log(p["low"] / (1 - p["low"]))
    assert abs(fit.params.iloc[1] - exact) < 1.5 * fit.bse.iloc[1]


def test_an_effect_that_no_range_allows_is_marked_and_not_tested():
    """Persons' estimates of 100 and more for a response in (-2, 4) were "significant"."""
    from dpmodels.formula.build import build_design
    from dpmodels.scoring.notes import effects_beyond

    ranges = {"x": (0, 1), "z": (1990, 2020), "y": (-2, 4)}
    schema = dp.Schema(g=dp.Levels(["u", "v", "w"]), **{k: dp.Real(*v) for k, v in ranges.items()})
    design = build_design("y ~ x + g + z + I(z ** 2)", schema)
    names = ["Intercept", "x", "g[T.v]", "g[T.w]", "z", "I(z ** 2)"]
    assert list(design.names) == names
    fine = np.array([40.0, 17.9, 17.9, -0.1, -40.1, 0.01])  # the year's two columns cancel
    assert not effects_beyond(design, fine).any()
    for place, marked in ((1, ["x"]), (2, names[2:4]), (4, names[4:])):
        wild = fine.copy()
        wild[place] += 1.0
        found = effects_beyond(design, wild)
        assert [n for n, w in zip(names, found, strict=True) if w] == marked


def test_effects_that_carry_the_response_are_not_beyond_its_range():
    """Without a constant the response is measured from zero; with weights as if without them."""
    from dpmodels.formula.build import build_design
    from dpmodels.scoring.notes import effects_beyond

    ranges = {"x": (1, 3), "z": (1, 3), "y": (294, 306), "w": (0, 3)}
    schema = dp.Schema(g=dp.Levels(["u", "v"]), **{k: dp.Real(*v) for k, v in ranges.items()})
    carrying = build_design("y ~ x - 1", schema)
    assert not effects_beyond(carrying, np.array([150.0])).any()
    assert effects_beyond(carrying, np.array([150.0 + 3 * 306])).all()
    for formula, weights in (("y ~ x + z", "w"), ("y ~ x + g - 1", None)):
        design = build_design(formula, schema, weights=weights)
        effects = pd.Series(np.where(np.array(design.names) == "x", 17.0, 300.0), design.names)
        if "z" in effects:
            effects["z"] = 0.0
        assert not effects_beyond(design, effects.to_numpy()).any()
        effects["x"] = 19.0
        assert list(effects.index[effects_beyond(design, effects.to_numpy())]) == ["x"]


def test_a_step_that_has_not_arrived_at_a_public_row_is_marked():
    from dpmodels.formula.build import build_design
    from dpmodels.scoring.notes import public_rows, still_moving

    design = build_design(
        "y ~ g + x", dp.Schema(y=dp.Real(0, 1), x=dp.Real(-1, 1), g=dp.Levels(["u", "v", "w"]))
    )
    found = public_rows(design)
    rows = np.where(found.moved, found.rows, 0.0)  # means of 0, whitened by nothing
    d = np.array([0.0, 0.4, 0.0, 0.0])
    quiet, loud = 1e-4 * np.eye(4), 0.05 * np.eye(4)
    far = still_moving(rows, d, quiet)
    assert found.columns(far).tolist() == [False, True, True, False]
    assert not still_moving(rows, d, loud).any()
    assert not still_moving(rows, 0.7 * d, quiet).any()


@pytest.mark.parametrize("rates", [(0.0003, 0.0095), (0.0095, 0.0003)])
@pytest.mark.parametrize("family", ["logit", "probit", "poisson"])
def test_a_level_with_few_expected_events_is_not_tested(family, rates):
    """Eight events in the low group covered .78, unmarked; also where it is the base level."""
    n = 50_000
    y = np.concatenate([np.arange(n // 2) < r * n / 2 for r in (*rates, 0.01, 0.01)]).astype(int)
    frame = pd.DataFrame({"y": y, "g": np.repeat(list("abcd"), n // 2)})
    response = dp.Count(5) if family == "poisson" else dp.Binary()
    schema = dp.Schema(y=response, g=dp.Levels(list("abcd")))
    how = {"family": "poisson"} if family == "poisson" else {"family": "binomial", "link": family}
    fit = without_noise(dp.dp_glm, "y ~ g", frame, schema, **how)
    marked = list(fit.params.index[fit.pvalues.isna()])
    few = "b" if rates[1] < rates[0] else "bcd"  # all are compared with the base level
    expected = [f"g[T.{level}]" for level in few]
    assert marked == (["Intercept", *expected] if len(few) == 3 else expected)  # the base level
    assert any("fewer than 25 expected events" in note for note in fit.notes)
    plenty = frame.replace({"g": {"a": "c", "b": "d"}})
    schema = dp.Schema(y=response, g=dp.Levels(["c", "d"]))
    assert without_noise(dp.dp_glm, "y ~ g", plenty, schema, **how).pvalues.notna().all()


@pytest.mark.parametrize(("mean", "alpha"), [(3.0, 0.0), (3.0, 1.0), (3.0, 2.0), (1.0, 4.0)])
def test_the_error_of_a_deviance_holds_what_is_cut(mean, alpha):
    """Overdispersed counts lost 4 to 20 errors of the noise alone, without a word."""
    sm = pytest.importorskip("statsmodels.api")
    rng, n = np.random.default_rng(1), 50_000
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n)})
    spread = rng.gamma(1 / alpha, alpha, n) if alpha else 1.0
    frame["y"] = rng.poisson(mean * np.exp(0.5 * frame.x) * spread)
    exact = sm.GLM(frame.y, sm.add_constant(frame.x), sm.families.Poisson()).fit().deviance
    schema = dp.Schema(y=dp.Count(100), x=dp.Real(-1, 1))
    fit = without_noise(dp.dp_glm, "y ~ x", frame, schema, family="poisson", fit_stats=True)
    assert abs(exact - fit.stats["deviance"]) < 1.96 * fit.stats["deviance_se"]
    assert ("deviance.clipped" in {note.code for note in fit.notes.records}) == (alpha > 0)


@pytest.mark.parametrize(("shape", "top"), [(0.3, 60.0), (0.5, 40.0), (1.0, 30.0), (2.0, 20.0)])
def test_deviances_of_small_amounts_are_those_of_the_table(shape, top):
    """Null deviance 66 640 +- 1 121 for 93 300 (shape .3), deviance 86 832 +- 246 for 91 670."""
    sm = pytest.importorskip("statsmodels.api")
    rng, n = np.random.default_rng(5), 20_000
    x = rng.uniform(-1, 1, n)
    frame = pd.DataFrame({"x": x, "y": np.exp(0.3 + 0.5 * x) / shape * rng.gamma(shape, size=n)})
    frame.y = frame.y.clip(1e-300, top)
    family = sm.families.Gamma(sm.families.links.Log())
    exact = sm.GLM(frame.y, sm.add_constant(frame.x), family).fit()
    schema = dp.Schema(y=dp.Real(0, top), x=dp.Real(-1, 1))
    told = without_noise(dp.dp_glm, "y ~ x", frame, schema, family="gamma", fit_stats=True).stats
    assert abs(exact.null_deviance - told["null_deviance"]) < 1.5 * told["null_deviance_se"]
    assert told["null_deviance_se"] < 0.08 * exact.null_deviance
    assert abs(exact.deviance - told["deviance"]) < 1.5 * told["deviance_se"]
    share = 1 - exact.deviance / exact.null_deviance
    assert told["pseudo_r2_low"] <= share <= told["pseudo_r2_high"]


def test_a_null_deviance_of_large_counts_has_the_error_of_their_spread():
    """Of phi without its chord: 380 000 for 25 361."""
    rng, n = np.random.default_rng(6), 20_000
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n)})
    frame["y"] = rng.poisson(300 * np.exp(0.05 * frame.x))
    schema = dp.Schema(y=dp.Count(1000), x=dp.Real(-1, 1))
    told = without_noise(dp.dp_glm, "y ~ x", frame, schema, family="poisson", fit_stats=True).stats
    mean = frame.y.mean()
    exact = 2 * (frame.y * np.log(frame.y / mean)).sum()
    assert told["null_deviance_se"] < exact
    assert abs(told["null_deviance"] - exact) < 0.2 * told["null_deviance_se"]


def test_errors_by_cluster_that_may_be_missing_are_announced_by_the_plan():
    """300 clusters of 20 rows at eps = 1: 6 of 8 fits had no errors, and the plan was content."""
    from dpmodels.scoring.rules import CLUSTER_NOISE_HIGH, CLUSTER_NOISE_MAX

    ranges = {**{c: (-1, 1) for c in "abcd"}, "y": (-4, 4)}

    def planned(clusters, rows):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            return dp.plan(
                "y ~ a + b + c + d", n=clusters * rows, eps=1, delta=1e-6, bounds=ranges,
                vcov={"CRV1": "v"}, psus=clusters,
            )  # fmt: skip

    few, many = planned(300, 20), planned(1020, 10)
    own = few.detail.clusters
    assert own.radii(4).ratio < CLUSTER_NOISE_HIGH  # by the guess that rows of a cluster go together: fine
    assert own.radii(4).noise > CLUSTER_NOISE_MAX  # but not if they do not
    assert any("errors by cluster" in one for one in few.advice)
    assert not any("errors by cluster" in one for one in many.advice)


@pytest.mark.parametrize(("eps", "n"), [(4, 20_000), (20, 10_000)])
def test_the_privacy_error_of_a_quantile_holds_what_the_last_step_leaves(eps, n):
    """A linear step misses the sample's own quantile by rows between the two fits.

    Noise off, fixed seeds: no false alarms. The root mean square over the error was 1.2 and 4.3;
    it is .3 and .9.
    """
    smf, missed = pytest.importorskip("statsmodels.formula.api"), []
    ranges = {"x": (-1, 1), "z": (-1, 1), "y": (-10, 10)}
    schema = dp.Schema(**{name: dp.Real(*ends) for name, ends in ranges.items()})
    for seed in range(25):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(-1, 1, n)})
        frame["y"] = 0.5 * frame.x - 0.3 * frame.z + rng.normal(size=n)
        exact = smf.quantreg("y ~ x + z", frame).fit(q=0.5).params
        with noise_source(ZeroNoise()), warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            fit = dp.dp_quantreg("y ~ x + z", frame, eps=eps, delta=1e-6, schema=schema, tau=0.5)
        missed.append((fit.params - exact) / fit.bse_privacy)
    found = float(np.sqrt(np.mean(np.square(missed))))
    assert 0.2 < found < 1.1
