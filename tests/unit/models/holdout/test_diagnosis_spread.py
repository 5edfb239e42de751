"""The spread of a bin of a diagnosis is that of the family at the fitted mean."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning"),
    pytest.mark.filterwarnings("ignore::dpmodels.errors.NotPrivateWarning"),
]
SCHEMA = dp.Schema(x=dp.Real(-2, 2), y=dp.Real(0, 40), b=dp.Binary((0, 1)), g=dp.Real(0.001, 40))
CALL = {"schema": SCHEMA, "eps": 8, "delta": 1e-6, "seed": 1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(6)
    n = 20_000
    x = rng.uniform(-2, 2, n)
    mean = np.exp(0.3 + 0.5 * x)
    rare = rng.random(n) < 1.0 / (1.0 + np.exp(4.6 - 0.4 * x))
    table = {"x": x, "y": rng.poisson(mean), "b": rare * 1}
    table |= {"g": rng.gamma(2.0, mean / 2.0), "bent": rng.poisson(mean * np.exp(0.15 * (x**2 - 1)))}
    return pd.DataFrame(table)


def _exact(data, column, fit, edges):
    """Mean residual and its error by bin, from all rows."""
    mean = fit.predict(data[["x"]]).to_numpy()
    rest = data[column].to_numpy() - mean
    place = np.searchsorted(edges, mean, side="right")
    each = [rest[place == k] for k in range(len(edges) + 1)]
    return np.array([e.mean() for e in each]), np.array([e.std() / np.sqrt(len(e)) for e in each])


@pytest.mark.parametrize(
    ("family", "column"),
    [("poisson", "y"), ("quasipoisson", "y"), ("binomial", "b"), ("gamma", "g"), ("negative_binomial", "y")],
)  # fmt: skip
def test_errors_are_those_of_an_exact_analysis(data, family, column):
    """Sampling parts within a fifth of the exact ones; z of a right model within 4 (P = 1e-3)."""
    event = {"event": 1} if column == "b" else {}
    fit = dp.dp_glm(f"{column} ~ x", data, family=family, **event, **CALL)
    found = fit.diagnose(data, eps=8, delta=1e-6, seed=2).residuals
    _, exact = _exact(data, column, fit, found["low"].to_numpy()[1:])
    sampling = np.sqrt(found["std_error"] ** 2 - found["std_error_privacy"] ** 2)
    assert sampling.to_numpy() == pytest.approx(exact, rel=0.2)
    assert found["z"].abs().max() < 4


def test_a_misfit_that_an_exact_analysis_shows_is_seen(data):
    d = data.assign(y=data["bent"].clip(0, 40))
    fit = dp.dp_glm("y ~ x", d, family="poisson", **CALL)
    diagnosis = fit.diagnose(d, eps=4, delta=1e-6, seed=2)
    found = diagnosis.residuals
    mean, error = _exact(d, "y", fit, found["low"].to_numpy()[1:])
    z = mean / error
    far = np.abs(z) > 6
    assert far.sum() >= 3 and (np.sign(found["z"]) == np.sign(z))[far].all()
    assert (np.abs(found["z"]) > np.abs(z) / 2)[far].all()
    assert any("family='poisson'" in note for note in diagnosis.notes)


def test_without_a_residual_variance_it_says_bound(data):
    fit = dp.dp_glm("g ~ x", data, family="gamma", inference=False, **CALL)
    assert "bounds" in " ".join(fit.diagnose(data, eps=4, delta=1e-6, seed=2).notes)
