"""Separated events: not tested, and the interval is open on the outer side."""

import numpy as np
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning")
N = 10_000


def fitted(slope, seed, **options):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, N)
    eta = slope * x if np.isfinite(slope) else np.sign(slope) * np.where(x > 0, 1e9, -1e9)
    event = (rng.random(N) < 1.0 / (1.0 + np.exp(-np.clip(eta, -500, 500)))) * 1.0
    return dp.dp_glm(
        "b ~ x", {"x": x, "b": event, "person": np.arange(N) // 2}, family="binomial", eps=1,
        delta=1e-6, schema={"x": dp.Real(-1, 1), "b": dp.Binary()}, seed=seed, **options,
    )  # fmt: skip


@pytest.mark.parametrize("slope", [15.0, -15.0, np.inf, -np.inf])
@pytest.mark.parametrize("options", [{}, {"link": "probit"}, {"unit": "person"}])
def test_separated_events_are_marked_and_open(slope, options):
    """Deterministic: seeded. 11.6 [9.2, 14.0] for 15 was printed with P < 1e-16."""
    for seed in range(4):
        fit = fitted(slope, seed, **options)
        low, high = fit.conf_int().loc["x"]
        assert np.isnan(fit.pvalues["x"])
        outer, inner = (high, low) if slope > 0 else (low, high)
        assert np.isinf(outer) and np.sign(outer) == np.sign(slope)
        least = 9.0 if "link" in options else 15.0
        least += np.isinf(slope)  # what would be true of it
        assert abs(inner) < least  # of a true slope of 15 logits
        assert any("separate the events" in note for note in fit.notes)


@pytest.mark.parametrize("slope", [3.0, 6.0])
def test_slopes_that_the_data_determine_stay_closed(slope):
    for seed in range(4):
        fit = fitted(slope, seed)
        assert np.isfinite(fit.conf_int().to_numpy()).all()
        assert not any("separate the events" in note for note in fit.notes)


def test_an_open_interval_is_kept_and_printed(tmp_path):
    fit = fitted(np.inf, 1)
    assert "inf" in str(fit.summary())
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json")
    assert np.isinf(again.conf_int().loc["x"].iloc[1])
