"""dp_glm: the tested method, Poisson, inference; and the solver."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dpmodels as dp
from dpmodels.errors import DPModelsError, RequestError
from dpmodels.own.minimum import LogisticLoss, PoissonLoss, WorkingRows, evaluate, minimise

pytestmark = pytest.mark.usefixtures("quiet")

objpert = partial(dp.dp_glm, method="objpert")


@pytest.mark.parametrize("shape", ["iso", "hessian"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_tested_method_answers_and_keeps_its_promise(shape, relation, logistic, glm_schema):
    fit = objpert(
        "y ~ a + b", logistic(20000), eps=2, delta=1e-6, schema=glm_schema, method="gptr",
        shape=shape, relation=relation,
    )  # fmt: skip
    assert fit.released and 0.97e-6 < fit.privacy.delta_at(2.0) <= 1e-6 * (1 + 1e-8)
    assert fit.params["a"] > 0 > fit.params["b"]


def test_the_tested_method_refuses_what_is_not_proved(logistic, glm_schema):
    data = logistic(100)
    with pytest.raises(RequestError, match="estimates no ranges"):
        objpert("y ~ a", data, eps=1, delta=1e-6, schema=dp.Schema(y=dp.Binary()), method="gptr")
    with pytest.raises(RequestError, match="must exceed"):
        objpert("y ~ a", data, eps=1, delta=1e-6, schema=glm_schema, method="gptr", lam=0.1)
    counts = data.assign(y=np.arange(100) % 5)
    schema = dp.Schema(a=dp.Real(-1, 1), y=dp.Count(10))
    with pytest.raises(RequestError, match="proved for family='binomial'"):
        objpert(
            "y ~ a", counts, eps=1, delta=1e-6, schema=schema, method="gptr", family="poisson"
        )


def test_poisson_recovers_rates_and_predicts_means():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 60_000)
    data = pd.DataFrame({"x": x, "y": rng.poisson(np.exp(0.3 + 0.8 * x))})
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Count(12))
    fit = objpert("y ~ x", data, eps=2, delta=1e-6, schema=schema, family="poisson", seed=2)
    error = np.abs(fit.params.to_numpy() - [0.3, 0.8])
    assert np.all(error < 4 * fit.bse.to_numpy() + 0.02)
    assert fit.predict(data).mean() == pytest.approx(data.y.mean(), rel=0.05)
    assert "robust" in str(fit.summary(full=True))


def test_poisson_needs_a_public_cap():
    data = pd.DataFrame({"x": [0.0, 1.0], "y": [1, 2]})
    with pytest.raises(DPModelsError, match="mean_cap"):
        objpert("y ~ x", data, eps=1, delta=1e-6, bounds={"x": (0, 1)}, family="poisson")


@pytest.mark.parametrize("loss", [LogisticLoss(), PoissonLoss(5.0)])
def test_derivatives_of_losses(loss):
    rng = np.random.default_rng(0)
    eta, w = rng.normal(0, 2, 40), rng.uniform(0.2, 1, 40)
    y = rng.integers(0, 2, 40) * 1.0
    _, first, second = loss.terms(eta, y, w)
    mean = expit(eta) if loss.one_sided else np.exp(np.minimum(eta, np.log(loss.cap)))
    np.testing.assert_allclose(first, w * (mean - y), rtol=1e-12, atol=1e-15)
    h = 1e-6
    for i in range(40):
        e = np.zeros(40)
        e[i] = h
        up, down = loss.terms(eta + e, y, w), loss.terms(eta - e, y, w)
        assert w @ (up[0] - down[0]) / (2 * h) == pytest.approx(first[i], abs=1e-6)
        if abs(eta[i] - np.log(5.0)) > 1e-3:
            assert (up[1][i] - down[1][i]) / (2 * h) == pytest.approx(second[i], abs=1e-5)
    assert np.all(np.abs(first) <= loss.score + 1e-12)
    assert np.all((second >= 0) & (second <= loss.curvature + 1e-12))


@pytest.mark.parametrize("thins", [True, False])
def test_working_rows_keep_their_bounds(thins):
    rng = np.random.default_rng(1)
    rows = WorkingRows(np.ones(4), np.zeros(4), 1.5, 3.0, thins=thins)
    block = rng.normal(0, 3, (5, 2000)) * 10.0 ** rng.integers(-3, 6, 2000)
    block[4] = rng.choice([0.0, 1.0, np.nan], 2000)
    block[2, :20] = np.nan
    block[3, 20:30] = np.inf
    cells, size = block[:4].copy(), np.linalg.norm(block[:4], axis=0)
    void = np.isnan(block[4]) | ~(size <= (1e300 if thins else 3.0))
    X, y, w = rows.apply(block)
    norm = np.linalg.norm(X, axis=0)
    assert thins or np.all(norm <= 3.0)
    assert np.all(w * norm <= 1.5) and np.all(w * norm**2 <= 4.5)
    np.testing.assert_array_equal(X[:, ~void], cells[:, ~void])  # never scaled, never clipped
    assert np.all(w[~void] > 0) and (~void).sum() > 400
    assert np.all(norm[void] == 0) and np.all(np.isfinite(X)) and np.all((y >= 0) & (y <= 1))


@pytest.mark.parametrize("n", [50, 200_000])
def test_the_minimum_is_certified(n):
    rng = np.random.default_rng(2)
    Z = np.vstack([np.ones(n), rng.uniform(-1, 1, (2, n)), rng.integers(0, 2, n)])

    def blocks():
        for start in range(0, n, 8192):
            yield Z[:, start : start + 8192].copy()

    rows = WorkingRows(np.ones(3), np.zeros(3), 1.4, 2.0)
    tilt = np.array([40.0, -20.0, 5.0])
    found = minimise(blocks, rows, LogisticLoss(), 0.5, tilt, 1e-7, n=n, passes=1, sums=None, skim=None)
    gradient = evaluate(blocks(), rows, LogisticLoss(), found.theta)[1] + 0.5 * found.theta + tilt
    assert found.certified and np.linalg.norm(gradient) <= 1e-7
    full = evaluate(blocks(), rows, LogisticLoss(), found.theta)[1] + 0.5 * found.theta + tilt
    np.testing.assert_allclose(full, gradient, atol=1e-8)


def test_few_passes_cannot_be_asked_for(logistic, glm_schema):
    """With max_iter=3 one of two neighbours was certified, the other answered with zeros."""
    for method in ("objpert", "gptr"):
        with pytest.raises(ValueError, match="max_iter"):
            objpert(
                "y ~ a + b", logistic(50), eps=1, delta=1e-6, schema=glm_schema, max_iter=3,
                method=method,
            )  # fmt: skip


def test_a_long_row_does_not_touch_the_others():
    """Rows of a block were shrunk by 1 - 2^-36, all of them, if one was too long."""
    block = np.array([[1.0, 1.0, 1.0], [0.3, -0.2, 0.5], [1.0, 0.0, 1.0]])
    long = block.copy()
    long[1, 2] = 9.0
    rows = WorkingRows(np.ones(2), np.zeros(2), 1.4, 2.0)
    for a, b in zip(rows.apply(block), rows.apply(long), strict=True):
        np.testing.assert_array_equal(a[..., :2], b[..., :2])


@pytest.mark.statistical
@pytest.mark.slow
def test_coverage_of_95_percent_intervals(logistic, glm_schema):
    """Seeds 0..399, n = 20000, eps = 1: coverage of the slopes within .92 .. .99.

    P(binomial(800, .95) below 736) is below 1e-3. It is above .95 (.98 seen): row weights below 1
    make the information equality overstate the sampling part, and the ridge's bias counts as a
    mean square. P(binomial(800, .98) above 792) is below .01 (fixed seeds).
    """
    hit = []
    for seed in range(400):
        fit = objpert(
            "y ~ a + b", logistic(20000, seed), eps=1, delta=1e-6, schema=glm_schema, seed=seed
        )
        ci = fit.conf_int().to_numpy()
        for j, truth in ((1, 1.0), (2, -0.4)):
            hit.append(ci[j, 0] <= truth <= ci[j, 1])
    assert 0.92 <= np.mean(hit) <= 0.99


def test_rows_may_be_longer_where_n_allows():
    """From B to twice B, growing with n and rho; a function of public numbers."""
    from dpmodels.models.objpert import NOISE_PART, longer_radius

    logistic = LogisticLoss()
    assert longer_radius(2.0, logistic, 0.1, 500) == 2.0
    grown = [longer_radius(2.0, logistic, 0.1, n) for n in (5_000, 10_000, 20_000, 10**9)]
    assert grown == sorted(grown) and grown[-1] == 4.0 and 2.0 < grown[2] < 4.0
    # the noise is then NOISE_PART of the sampling variance of n rows of weight .15
    n, rho = 20_000, 0.1
    noise = (longer_radius(2.0, logistic, rho, n) * logistic.score / rho) ** 2 / (n * 0.15) ** 2
    assert noise * n * 0.15 == pytest.approx(NOISE_PART)
    # counts of up to 100 are too noisy for longer rows
    assert longer_radius(2.0, PoissonLoss(100.0), 0.1, 20_000) == 2.0


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_a_given_radius_and_a_private_n_are_left_alone(relation):
    schema = dp.Schema(y=dp.Binary(), x=dp.Real(-1, 1))
    call = dict(n=10**6, eps=1, delta=1e-6, verb="dp_glm", method="objpert", family="binomial", relation=relation)
    assert dp.plan("y ~ x", schema, radius=1.5, **call).detail.radius == 1.5
    free = dp.plan("y ~ x", schema, **call).detail.radius
    assert free == pytest.approx(2.0**0.5 * (2.0 if relation == "replace" else 1.0))


def test_a_label_that_is_neither_0_nor_1_voids_its_row():
    """Value and slope of the loss were of different functions there: truth 2, answer 1e-7."""
    block = np.array([[1.0] * 6, [0.3] * 6, [0.0, 1.0, 0.5, 1e-9, 1.0 - 1e-9, np.nan]])
    rows = WorkingRows(np.ones(2), np.zeros(2), 1.4, 2.0)
    X, y, _ = rows.apply(block)
    np.testing.assert_array_equal(y[:2], [0.0, 1.0])
    assert not X[:, 2:].any() and not y[2:].any()


@pytest.mark.parametrize("method", ["objpert", "gptr"])
def test_fractional_labels_are_missing_labels(method, noiseless):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 4000)
    data = pd.DataFrame({"x": x, "y": (rng.random(4000) < 1 / (1 + np.exp(-2 * x))) * 1.0})
    call = {"eps": 1, "delta": 1e-6, "bounds": {"x": (-1, 1), "y": (0, 1)}, "method": method}
    if method == "objpert":
        call |= {"rescale": False, "inference": False}
    part = data.assign(y=np.where(data.y == 1, rng.uniform(0.01, 0.99, 4000), 0.0))
    params = [
        objpert("y ~ x", d, **call).params.to_numpy()
        for d in (part, part.assign(y=part.y.where(part.y == 0)))
    ]
    np.testing.assert_allclose(*params, rtol=1e-7)


def _counts_with_long_rows(seed, n=20_000):
    rng = np.random.default_rng(seed)
    x = np.minimum(rng.lognormal(0, 1, (n, 2)), 30.0)
    y = rng.poisson(np.exp(0.3 + x @ [0.1, -0.1]).clip(0, 50))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})


def test_long_rows_do_not_bias_an_exact_model():
    """Columns were clipped and rows scaled: slope of ``a`` 3.4 errors too large. Seeds 0..5.

    The mean of 6 errors in units of their sd is below 1.6 in size with probability above .9999.
    """
    schema = dp.Schema(a=dp.Real(0, 30), b=dp.Real(0, 30), y=dp.Count(20))
    off = []
    for seed in range(6):
        fit = objpert(
            "y ~ a + b", _counts_with_long_rows(seed), eps=2, delta=1e-6, schema=schema,
            family="poisson", seed=seed,
        )  # fmt: skip
        off.append((fit.params.to_numpy() - [0.3, 0.1, -0.1]) / fit.bse.to_numpy())
    assert np.all(np.abs(np.mean(off, 0)) < 1.6)


def test_without_noise_the_weighted_estimate_is_the_truth(noiseless):
    """Long rows, n = 200 000, hardly any ridge: within 5 sampling errors (about .01) of the truth."""
    data = _counts_with_long_rows(1, 200_000)
    fit = objpert(
        "y ~ a + b", data, eps=50, delta=1e-6, family="poisson", radius=0.5, lam=60.0,
        schema=dp.Schema(a=dp.Real(0, 30), b=dp.Real(0, 30), y=dp.Count(20)), inference=False,
    )  # fmt: skip
    np.testing.assert_allclose(fit.params, [0.3, 0.1, -0.1], atol=0.02)


def test_no_row_of_the_tested_method_is_beyond_its_radius():
    """B was sqrt(1 + d/2): two binary columns made every row too long, and it was scaled."""
    schema = dp.Schema(y=dp.Binary(), a=dp.Binary(), b=dp.Binary(), g=dp.Levels(["u", "v", "w"]))
    plan = dp.plan("y ~ a + b + g", schema, n=500, eps=2, delta=1e-6, verb="dp_glm", method="gptr")
    assert 5.0 < plan.detail.working.radius**2 < 5.0 + 1e-6
