"""The noise that errors speak of is the noise that is there.

Data are fixed and only the noise changes: the standard deviation of what is released, over seeds,
against the error that is printed for it. Tests without noise cannot see a term that is left out.
Seeds are fixed; false-alarm probabilities are stated for a fresh set of them.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning

pytestmark = pytest.mark.statistical

N, SEEDS = 6000, 200
SCHEMA = dp.Schema(
    x=dp.Real(-3, 7), z=dp.Real(0, 40), y=dp.Real(-20, 60), w=dp.Real(0, 2), e=dp.Binary(),
    c=dp.Count(40), g=dp.Levels(["u", "v", "w"]),
)  # fmt: skip


def population(rng, n=N):
    """A table whose columns have units: nothing in it is as long as its range is wide."""
    x, z = rng.uniform(-3, 7, n), rng.uniform(0, 40, n)
    g = rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2])
    y = np.clip(20 + 3 * x - 0.4 * z + 2.0 * (g == "v") + rng.normal(0, 4, n), -20, 60)
    e = rng.random(n) < 1 / (1 + np.exp(0.5 - 0.4 * x + 0.05 * z))
    c = rng.poisson(np.exp(0.6 + 0.15 * x - 0.02 * z)).clip(0, 40)
    return pd.DataFrame(
        {
            "x": x, "z": z, "g": g, "y": y, "e": e.astype(float), "c": c.astype(float),
            "w": rng.uniform(0.5, 2, n), "pid": np.repeat(np.arange(n // 4), 4),
        }
    )  # fmt: skip


DATA = population(np.random.default_rng(0))
LINE = "y ~ x + z"


def fitted(call, seed, data=DATA, **more):
    verb, args, options = call
    options = {"delta": 1e-6, "schema": SCHEMA, **options, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return getattr(dp, verb)(*args, data, seed=seed, **options)


def call(verb, *args, **options):
    return verb, args, options


#: Small eps, at which the noise is several times the sampling error or as large. (Scored fits print
#: errors a tenth too large at any eps, a fifth at eps = 1: their information is noisy, and floored,
#: and a last step loses half of what its noise explains.)
CALLS = {
    "ols, moments": call("dp_ols", "y ~ x + z + g", eps=1, scoring=False),
    "ols, moments, robust": call("dp_ols", LINE, eps=1, scoring=False, vcov="hetero"),
    "ols, pure": call("dp_ols", LINE, eps=8, delta=0),
    "ols, eptr": call("dp_ols", LINE, eps=4, method="eptr", scoring=False),
    "logit, gptr": call("dp_glm", "e ~ x + z", eps=1, method="gptr"),
    "quantile": call("dp_quantreg", LINE, eps=1.5, tau=0.3),
    "huber": call("dp_mest", "huber", LINE, eps=2),
    "mean": call("dp_mean", "y + x ~ 1", eps=0.1),
    "mean of people": call("dp_mean", "y + x ~ 1", eps=0.1, unit="pid"),
}
#: Printed errors with an allowance: they may be larger than the noise, never smaller.
CAUTIOUS = {
    # these allow for what their clip may have taken, and nothing was taken here
    "ols, scored": call("dp_ols", "y ~ x + z + g", eps=1),
    "ols, scored, iid": call("dp_ols", LINE, eps=2, vcov="iid"),
    "ols, weights": call("dp_ols", LINE, eps=1, weights="w"),
    "ols, people": call("dp_ols", LINE, eps=4, unit="pid"),
    "logit": call("dp_glm", "e ~ x + z", eps=1),
    "poisson": call("dp_glm", "c ~ x + z", eps=1, family="poisson"),
    "expectile": call("dp_mest", "expectile", LINE, eps=4, tau=0.7),
    "logit, objpert": call("dp_glm", "e ~ x + z", eps=1, method="objpert"),
}


def ratio(one):
    """Return sd over seeds over the printed error of privacy: root mean square over coefficients."""
    fits = [fitted(one, seed) for seed in range(SEEDS)]
    values = np.array([np.asarray(f.params, dtype=float) for f in fits])
    errors = np.array([np.asarray(f.bse_privacy, dtype=float) for f in fits])
    assert np.isfinite(errors).all()
    each = values.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))
    return float(np.sqrt((each**2).mean())), each


@pytest.mark.parametrize("name", CALLS)
def test_the_printed_error_is_the_noise(name):
    """Within 15 %; 200 seeds: an sd is off by 5 %, their mean over coefficients by less.

    False alarm below 5e-3 each where the truth is a ratio of 1 (two or three coefficients whose
    noise is nearly independent).
    """
    together, each = ratio(CALLS[name])
    assert together == pytest.approx(1.0, abs=0.2), each


@pytest.mark.parametrize("name", CAUTIOUS)
def test_cautious_errors_are_not_below_the_noise(name):
    """At most a third of it beside the point, on average: an error of nothing would pass too."""
    together, each = ratio(CAUTIOUS[name])
    assert 0.55 <= together <= 1.1, each


@pytest.mark.parametrize("family, response", [("binomial", "e"), ("poisson", "c")])
def test_statistics_of_a_fit_have_the_errors_that_are_printed(family, response):
    """False alarm below 1e-3: an sd of 200 numbers within 20 %."""
    one = call("dp_glm", f"{response} ~ x + z", eps=2, family=family, fit_stats=True)
    stats = [fitted(one, seed)._record.estimate.stats for seed in range(SEEDS)]
    for name in ("deviance", "aic"):
        if name in stats[0]:
            drawn = np.array([s[name] for s in stats])
            printed = np.mean([s[f"{name}_se"] for s in stats])
            assert drawn.std(ddof=1) == pytest.approx(printed, rel=0.2), name


# -- coverage -------------------------------------------------------------------------------------
TRUTH = {"Intercept": 20.0, "x": 3.0, "z": -0.4}
REPETITIONS = 40


def clean(rng, n=4000):
    """No clipping, no factor: the line is the truth."""
    x, z = rng.uniform(-3, 7, n), rng.uniform(0, 40, n)
    y = 20 + 3 * x - 0.4 * z + rng.normal(0, 4, n)
    e = rng.random(n) < 1 / (1 + np.exp(0.5 - 0.4 * x + 0.05 * z))
    c = rng.poisson(np.exp(0.6 + 0.15 * x - 0.02 * z)).clip(0, 40)
    return pd.DataFrame({"x": x, "z": z, "y": y, "e": e.astype(float), "c": c.astype(float)})


#: room -> (call without eps, truth, eps where noise dominates, eps where sampling does)
ROOMS = {
    "linear": (call("dp_ols", LINE), TRUTH, 0.5, 20.0),
    "linear, moments": (call("dp_ols", LINE, scoring=False), TRUTH, 0.5, 20.0),
    "glm, binomial": (
        call("dp_glm", "e ~ x + z"), {"Intercept": -0.5, "x": 0.4, "z": -0.05}, 0.7, 20.0,
    ),
    "glm, poisson": (
        call("dp_glm", "c ~ x + z", family="poisson"),
        {"Intercept": 0.6, "x": 0.15, "z": -0.02}, 0.7, 20.0,
    ),
    "quantile": (call("dp_quantreg", LINE, tau=0.5), TRUTH, 0.7, 20.0),
    "robust": (call("dp_mest", "huber", LINE), TRUTH, 0.7, 20.0),
    "mean": (call("dp_mean", "x + z ~ 1"), {"x": 2.0, "z": 20.0}, 0.05, 20.0),
}  # fmt: skip


@pytest.mark.parametrize("dominates", ["noise", "sampling"])
@pytest.mark.parametrize("room", ROOMS)
def test_intervals_cover_where_noise_dominates_and_where_sampling_does(room, dominates):
    """At least .87 of 40 tables x coefficients; false alarm below 5e-3 at a coverage of .95.

    And each of the two parts of the error is the larger one where it should be.
    """
    one, truth, low, high = ROOMS[room]
    covered, parts = [], []
    for seed in range(REPETITIONS):
        data = clean(np.random.default_rng(1000 + seed))
        fit = fitted(one, seed, data, eps=low if dominates == "noise" else high)
        ends = fit.conf_int().loc[list(truth)].to_numpy()
        there = np.array(list(truth.values()))
        covered.append((ends[:, 0] <= there) & (there <= ends[:, 1]))
        parts.append(
            np.mean(fit.bse_privacy.loc[list(truth)] / fit.bse_sampling.loc[list(truth)])
        )
    share = np.mean(parts)
    assert (share > 1.0) if dominates == "noise" else (share < 0.6)
    assert np.mean(covered) >= 0.87, np.mean(covered, axis=0)
