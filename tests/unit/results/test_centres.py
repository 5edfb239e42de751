"""Adjusted means hold numbers at their released centres; a declared integer response is an event."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError

SCHEMA = dp.Schema(
    x=dp.Real(0, 100), y=dp.Real(0, 250), g=dp.Levels(["a", "b"]), z=dp.Real(0, 1),
)  # fmt: skip
EVENT = SCHEMA.update(event=dp.Binary())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 5000
    frame = pd.DataFrame(
        {"x": rng.gamma(2, 1.5, n), "g": rng.choice(["a", "b"], n), "id": np.arange(n) // 2,
         "z": rng.random(n)}
    )  # fmt: skip
    frame["y"] = 1 + 2 * frame["x"] + (frame["g"] == "b") + rng.normal(0, 1, n)
    frame["event"] = (rng.random(n) < 1 / (1 + np.exp(3 - frame["x"]))).astype(int)
    return frame


def fitted(data, verb="dp_ols", formula="y ~ x + g", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = {"eps": 2, "delta": 1e-6, "schema": SCHEMA, "seed": 1, **options}
        return getattr(dp, verb)(formula, data, **call)


@pytest.mark.parametrize("options", [{}, {"unit": "id"}])
def test_numbers_are_held_at_released_centres(data, options, tmp_path):
    fit = fitted(data, **options)
    means = fit.emmeans("g")
    centre = data["x"].median()  # the middle of the range is 50
    held = float(fit._record.estimate.arrays["centre(x)"][0])
    assert held == pytest.approx(centre, abs=1.0)
    b = fit.params
    assert means.effect[0] == pytest.approx(b["Intercept"] + held * b["x"], rel=1e-9)
    assert means.effect[1] - means.effect[0] == pytest.approx(b["g[T.b]"], rel=1e-9)
    assert f"released centre, or as at= says: x = {held:.4g}" in str(means)
    fit.save(tmp_path / "fit.json")
    assert np.array_equal(dp.load(tmp_path / "fit.json").emmeans("g").effect, means.effect)
    assert fit.emmeans("g", at={"x": 50}).effect[0] == pytest.approx(
        b["Intercept"] + 50 * b["x"], rel=1e-9
    )


def test_without_a_released_centre_it_is_the_middle(data):
    fit = fitted(data, method="ssp", scoring=False)
    assert "middle of its declared range" in str(fit.emmeans("g"))
    both = fitted(data, "dp_glm", "event ~ x + g", family="binomial", schema=EVENT)
    assert "released centre" in str(both.emmeans("g"))


def test_an_integer_response_is_an_event_if_it_is_declared(data):
    named = fitted(data, "dp_glm", "event ~ x", event=1)
    declared = fitted(data, "dp_glm", "event ~ x", schema=EVENT)
    assert declared.params.to_numpy() == pytest.approx(named.params.to_numpy(), abs=0.6)
    for cells in (int, float, "Int64"):
        with pytest.raises(FormulaError, match="event=1"):
            fitted(data.assign(event=data["event"].astype(cells)), "dp_glm", "event ~ x")


def test_another_number_of_an_integer_response_is_missing(data):
    coded = data.assign(event=data["event"].where(data.index % 4 > 0, 9))
    fit = fitted(coded, "dp_glm", "event ~ x", eps=10, schema=EVENT)
    kept = fitted(data[data.index % 4 > 0], "dp_glm", "event ~ x", eps=10, schema=EVENT)
    assert fit.params.to_numpy() == pytest.approx(kept.params.to_numpy(), abs=0.15)
    counts = fitted(data, "dp_glm", "event ~ x", family="poisson",
                    schema=SCHEMA.update(event=dp.Count(3)))  # fmt: skip
    assert counts.design.schema["event"].kind == "count"


def test_dates_and_durations_are_held_too(data):
    days = np.datetime64("2019-01-01") + (np.arange(5000) % 900).astype("timedelta64[D]")
    timed = data.assign(day=days, wait=pd.to_timedelta(data["x"], unit="D"))
    schema = SCHEMA.update(
        day=dp.Date("2019-01-01", "2021-12-31", unit="years"), wait=dp.Real(0, 100, duration="days")
    )
    for options in ({}, {"method": "ssp", "scoring": False}):
        fit = fitted(timed, formula="y ~ day + wait + g", schema=schema, **options)
        means = fit.emmeans("g")
        assert np.isfinite(means.effect).all()
        slope = means.effect[1] - means.effect[0]
        assert slope == pytest.approx(fit.params["g[T.b]"], rel=1e-9)
