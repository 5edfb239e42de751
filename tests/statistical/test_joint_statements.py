"""Joint coverage of simulated fits, and the size of equivalence tests at their margins."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet")]
N, FITS, SLOPES = 2000, 400, 7
TRUE = np.array([0.5, 1.0, -0.5, 0.0, 0.25, 0.3, 0.0, -0.2])
NAMES = [f"x{j}" for j in range(1, SLOPES + 1)]


@pytest.fixture(scope="module")
def fits():
    """400 fits with 8 coefficients of correlated predictors, eps 1; seeds 0 to 399."""
    schema = dp.Schema(**dict.fromkeys(NAMES, dp.Real(-1, 1)), y=dp.Real(-5, 6))
    mix = 0.6 * np.eye(SLOPES) + 0.4 / SLOPES
    out = []
    for seed in range(FITS):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (N, SLOPES)) @ mix
        d = pd.DataFrame(X, columns=NAMES)
        d["y"] = TRUE[0] + X @ TRUE[1:] + rng.normal(0, 0.7, N)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            out.append(dp.dp_ols("y ~ " + " + ".join(NAMES), d, eps=1, delta=1e-6, schema=schema,
                                 seed=seed))  # fmt: skip
    return out


def covers(ends):
    """Return whether all intervals hold."""
    low, high = ends.to_numpy().T
    return bool(((low <= TRUE) & (high >= TRUE)).all())


def test_joint_intervals_cover_together(fits):
    """At least .92 of 400. With coverage .95 it fails with probability .005 (binomial)."""
    inside, alone = (
        np.mean([covers(fit.conf_int(joint=how)) for fit in fits]) for how in (True, False)
    )
    assert inside >= 0.92
    assert alone < inside, "plain intervals hold one by one"


def test_bands_of_predictions_cover_together(fits):
    """The mean at 15 public rows at once, 400 fits: at least .92, false alarm at most .005."""
    X = np.random.default_rng(9).uniform(-1, 1, (15, SLOPES))
    new, truth = pd.DataFrame(X, columns=NAMES), TRUE[0] + X @ TRUE[1:]
    inside = []
    for fit in fits:
        band = fit.predict(new, interval="confidence", joint=True)
        inside.append(((band["lwr"] <= truth) & (truth <= band["upr"])).all())
    assert np.mean(inside) >= 0.92


@pytest.mark.parametrize("side", ["low", "high"])
def test_the_size_at_a_margin(fits, side):
    """At most .075 of 400 claims where the effect is at a margin.

    With size .05 this fails with probability .011 (binomial); the allowance for bias makes the
    true size smaller.
    """
    for name, at in zip(NAMES, TRUE[1:], strict=True):
        margins = (at, at + 1.5) if side == "low" else (at - 1.5, at)
        claimed = [f.hypotheses(name, equivalence=margins).pvalue[0] <= 0.05 for f in fits]
        assert np.mean(claimed) <= 0.075, name
    inside = [f.hypotheses("x1", equivalence=(0.5, 1.5)).pvalue[0] <= 0.05 for f in fits]
    assert np.mean(inside) > 0.5, "the test has power inside the margins"


def test_bands_of_curves_cover_together():
    """Both curves at all released points, 400 tables: at least .92, false alarm at most .005."""
    schema = dp.Schema(t=dp.Real(0, 2), e=dp.Binary(), g=dp.Levels(["a", "b"]))
    breaks, rates = np.linspace(0, 2, 9), {"a": 0.6, "b": 1.0}
    inside, alone = [], []
    for seed in range(FITS):
        rng = np.random.default_rng(seed)
        g = rng.choice(["a", "b"], N)
        time = rng.exponential(1 / np.vectorize(rates.get)(g))
        leave = rng.uniform(0.5, 4.0, N)
        d = pd.DataFrame({"t": np.minimum(np.minimum(time, leave), 2.0), "g": g})
        d["e"] = (time <= np.minimum(leave, 2.0)).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            fit = dp.dp_survfit("Surv(t, e) ~ g", d, eps=1, delta=1e-6, schema=schema,
                                breaks=breaks.tolist(), seed=seed)  # fmt: skip
        frame = fit.tidy(joint=True)
        hazard = frame["strata"].map(lambda s: rates[s.removeprefix("g=")])
        truth = np.exp(-hazard * frame["time"])
        for tally, table in ((inside, frame), (alone, fit.tidy())):
            tally.append(((table["conf_low"] <= truth) & (truth <= table["conf_high"])).all())
    assert np.mean(inside) >= 0.92
    assert np.mean(alone) < np.mean(inside)
