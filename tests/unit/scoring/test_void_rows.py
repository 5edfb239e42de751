"""Rules follow the released number of usable rows: sd, R-squared and dispersion of few of them."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

N = 20_000


def table(seed, share):
    """R-squared .685, sd 1; a part of the responses is missing."""
    rng = np.random.default_rng([3, seed])
    frame = pd.DataFrame(rng.normal(size=(N, 2)).clip(-5, 5), columns=["x", "z"])
    frame["y"] = 1.2 * frame["x"] + 0.857 * frame["z"] + rng.normal(size=N)
    frame["count"] = rng.poisson(np.exp(1.0 + 0.3 * frame["x"]) * rng.gamma(2.0, 0.5, N)).clip(
        max=200
    )
    frame["kept"] = (rng.random(N) < share) * 1
    return frame


SCHEMA = dp.Schema(
    x=dp.Real(-5, 5), z=dp.Real(-5, 5), y=dp.Real(-20, 20), count=dp.Count(200), kept=dp.Binary(),
)  # fmt: skip
CALL = {"schema": SCHEMA, "eps": 1, "delta": 1e-6}


@pytest.mark.parametrize("how", ["missing", "subset"])
def test_the_spread_of_few_usable_rows_is_that_of_all(quiet, how):
    """A fifth of the rows: the median sd of 9 fits was .90, R-squared .72.

    The sd of a fit has an error of .06: a median outside .93 to 1.07 once in 1e3.
    """
    found = []
    for seed in range(9):
        frame, more = table(seed, 0.2), {}
        if how == "missing":
            frame.loc[frame["kept"] < 0.5, "y"] = np.nan
        else:
            more = {"subset": "kept == 1"}
        fit = dp.dp_ols("y ~ x + z", frame, **CALL, **more, seed=seed)
        found.append((fit.stats["sigma"], fit.stats["r_squared"]))
        low, high = fit.conf_int(level=0.9999).loc["x"]
        assert low <= 1.2 <= high
    sigma, explained = np.median(found, axis=0)
    assert 0.93 < sigma < 1.07
    assert 0.65 < explained < 0.72


def test_a_dispersion_does_not_follow_the_number_of_missing_rows(quiet):
    """At 30 % of the rows alpha fell from .36 to .002, the dispersion from 2.3 to 1.3."""
    found = {}
    for share in (1.0, 0.3):
        frame = table(0, share)
        frame["count"] = frame["count"].where(frame["kept"] == 1)
        call = {**CALL, "seed": 1}
        alpha = dp.dp_glm("count ~ x", frame, family="negative_binomial", **call).stats["alpha"]
        spread = dp.dp_glm("count ~ x", frame, family="quasipoisson", **call).stats["dispersion"]
        found[share] = np.array([alpha, spread])
    assert found[0.3] == pytest.approx(found[1.0], rel=0.25)


def test_people_of_whom_few_are_usable(quiet):
    """A fifth of 8 000 people: the errors are those of 1 600 people, not half as large."""
    errors = {}
    for n, share in ((8_000, 0.2), (1_600, 1.0)):
        rng = np.random.default_rng(5)
        person = np.repeat(np.arange(n), 2)
        x = rng.normal(size=2 * n).clip(-5, 5)
        frame = pd.DataFrame({"id": person, "x": x, "y": x + rng.normal(size=2 * n)})
        frame.loc[rng.random(n)[person] >= share, "y"] = np.nan
        schema = dp.Schema(x=dp.Real(-5, 5), y=dp.Real(-20, 20))
        fit = dp.dp_ols("y ~ x", frame, schema=schema, unit="id", eps=8, delta=1e-6, seed=2)
        errors[n] = fit.bse["x"]
        assert abs(fit.params["x"] - 1.0) < 4.0 * fit.bse["x"]
    assert errors[8_000] == pytest.approx(errors[1_600], rel=0.35)
