"""Effects where one arm has few units: a shared outcome model, bounds by the share, the errors."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels._testing import ZeroNoise, noise_source
from dpmodels.models.treatment import ate
from dpmodels.models.treatment.facts import Fitted
from dpmodels.models.treatment.forecast import Overlap
from dpmodels.sums.ask import Noisy

BOUNDS = {"p": (1, 7), "age": (18, 80), "educ": (8, 18), "y": (0, 100)}
EFFECT = 2.6185  # Of 3, where the outcome is clipped to 0..100: mean over 4e6 rows


def expit(x):
    return 1 / (1 + np.exp(-x))


def table(n, seed, base=-2.6, varies=0.0):
    """Return rows of the design of the issue; the effect varies with p by this per sd."""
    rng = np.random.default_rng(seed)
    p, age = rng.integers(1, 8, n), rng.uniform(18, 80, n)
    z = (p - 4) / 2
    t = (rng.random(n) < expit(base + 0.5 * z)).astype(int)
    y = 10 + 13 * (p - 1) + (3 + varies * z) * t + 20 * rng.normal(size=n)
    columns = {"p": p, "age": age, "educ": rng.integers(8, 19, n), "t": t, "y": y.clip(0, 100)}
    return pd.DataFrame(columns)


def call(data, **how):
    given = {"eps": 1, "delta": 1e-6, "bounds": BOUNDS, "schema": {"t": dp.Binary()}, **how}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_ate("y ~ p + age + educ", data, treatment="t", **given)


@pytest.mark.statistical
def test_the_error_of_an_effect_where_few_are_treated():
    """30 fits, 7.6 % treated, seeds 0-29. Asked: 4 times .76; it was 9.

    The error is about 1.1: for a limit of 1.7 the false alarm of chi2(30) is below 1e-4. A correct
    95 % interval covers 24 of 30 or fewer with probability .0006.
    """
    errors, inside, controls = [], 0, []
    for seed in range(30):
        fit = call(table(10_000, seed), seed=seed)
        low, high = fit.conf_int().loc["ATE"]
        errors.append(fit.params["ATE"] - EFFECT)
        controls.append(fit.bse["control"])
        inside += low <= EFFECT <= high
    assert math.sqrt(np.mean(np.square(errors))) < 1.7
    assert inside >= 25
    assert np.median(controls) < 0.8


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("base", "varies"), [(-3.3, 0), (-3.3, 5), (-2.6, 5), (-1.8, 5), (2.6, 5)])
def test_intervals_cover_where_an_arm_is_small(base, varies):
    """100 fits of 10 000 rows: 87 or fewer of 100 correct intervals cover with probability .002."""
    z = (np.random.default_rng(1).integers(1, 8, 10**6) - 4) / 2
    noise = 20 * np.random.default_rng(2).normal(size=10**6)
    at = 10 + 13 * (2 * z + 3) + noise
    truth = float(((at + 3 + varies * z).clip(0, 100) - at.clip(0, 100)).mean())
    inside = 0
    for seed in range(100):
        low, high = call(table(10_000, 400 + seed, base, varies), seed=seed).conf_int().loc["ATE"]
        inside += low <= truth <= high
    assert inside >= 88


def masses(share, n=10_000, estimand="ATE", clip=None, spread=0.5, mu=0.15):
    edges = expit(np.linspace(-math.log(81), math.log(81), 25))
    e = expit(np.log(share / (1 - share)) + spread * np.random.default_rng(3).normal(size=n))
    t = np.random.default_rng(4).random(n) < e
    cell = np.searchsorted(edges, e, side="right")
    found = np.stack([np.bincount(cell[t == a], minlength=26) for a in (True, False)])
    answer = Noisy(found.ravel().astype(float), np.full(52, 40.0))
    return Overlap.of(estimand, edges, answer, clip, mu, n)


def test_bounds_have_the_least_expected_half_width():
    """Cells beyond .1 and .9 are cut where cutting them costs less than their noise."""
    assert masses(0.5).clip == pytest.approx((0.1, 0.9))  # none are there
    assert masses(0.5, n=40).clip == pytest.approx((0.1, 0.9))  # noise hides all
    few = masses(0.07)
    low, high = few.clip
    assert 1 / 82 - 1e-9 <= low <= 0.03 and high == pytest.approx(0.9)
    low, high = masses(0.93).clip
    assert low == pytest.approx(0.1) and 0.97 <= high <= 81 / 82 + 1e-9
    assert masses(0.07, clip=(0.1, 0.9)).clip == (0.1, 0.9)
    # much noise or few rows: more are cut
    wide = masses(0.5, n=40_000, spread=1.8)
    assert wide.clip[0] < 0.03 < 0.04 < masses(0.5, n=2_000, spread=1.8, mu=0.02).clip[0]
    chosen, given = (masses(0.5, spread=1.8, clip=c) for c in (None, (0.1, 0.9)))
    assert chosen.width("ATE", 0.15, 10_000) < 0.7 * given.width("ATE", 0.15, 10_000)
    assert few.weights.max() == pytest.approx(1 / few.clip[0])
    assert few.clear.sum(axis=1)[0] == pytest.approx(700, rel=0.2)
    assert few.part < 0.15 < 0.45 < masses(0.5).part < 0.55


def test_what_cutting_can_move_is_bounded_for_each_arm():
    """The arm's mean is off by (mean of 1 - weight) h for any h linear in the logit."""
    assert masses(0.07).missed("ATE").max() < 0.05
    assert masses(0.07, estimand="ATT", clip=(0.01, 0.9)).missed("ATT").max() < 0.01
    L = np.random.default_rng(5).normal(size=400_000) * 1.8
    e = expit(L)
    lost = np.stack([1 - e / e.clip(0.1, 0.9), 1 - (1 - e) / (1 - e.clip(0.1, 0.9))])
    found = masses(0.5, n=400_000, spread=1.8, clip=(0.1, 0.9)).missed("ATE")
    for angle in np.linspace(0, math.pi, 9):
        h = math.cos(angle) + math.sin(angle) * (L - L.mean()) / L.std()
        assert (np.abs((lost * h).mean(axis=1)) < 1.1 * found).all()
    np.testing.assert_allclose(found, np.hypot(*(lost @ np.stack([L**0, L / 1.8]).T / len(L)).T), rtol=0.1)


def test_derivatives_of_an_arm_are_in_the_noise_of_the_fit():
    rng = np.random.default_rng(5)
    names = ("Intercept", "t", "x")
    root, eye = rng.normal(size=(3, 3)), np.eye(3)
    both = Fitted((0, 1, 2), np.array([1.0, 2.0, 3.0]), root, eye, eye, eye)
    both = Fitted((0, 0, 2), both.coef, root, eye, eye, eye, crossed=(False,) * 3)
    treated, control = ate._by_arm(both, names, "t")
    np.testing.assert_allclose(treated.coef, [3.0, 3.0])
    np.testing.assert_allclose(control.coef, [1.0, 3.0])
    for model in (treated, control):
        np.testing.assert_allclose(model.root @ model.into, model.back @ root, atol=1e-12)
        np.testing.assert_allclose(model.into @ model.into.T, np.eye(2), atol=1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("shared", [True, False])
def test_sampling_errors_are_those_of_stacked_estimating_equations(shared, monkeypatch):
    """No noise, eps = 400, both models wrong, propensities cut at .2: derivatives do not vanish."""
    monkeypatch.setattr(ate, "ENOUGH", 1e9 if shared else 0.0)
    rng = np.random.default_rng(6)
    x = rng.uniform(-1, 1, 20_000)
    t = (rng.random(len(x)) < expit(-1.2 + 0.9 * x + 0.8 * x**2)).astype(float)
    y = 0.5 * x + x**2 + t * (0.6 - 0.9 * x) + rng.normal(0, 0.5, len(x))
    data = pd.DataFrame({"x": x, "t": t.astype(int), "y": y})
    with warnings.catch_warnings(), noise_source(ZeroNoise()):
        warnings.simplefilter("ignore")
        fit = dp.dp_ate(
            "y ~ x", data, treatment="t", eps=400, delta=1e-6, bounds={"x": (-1, 1), "y": (-4, 5)},
            schema={"t": dp.Binary()}, clip=(0.2, 0.8),
        )  # fmt: skip
    one = np.ones_like(x)
    X = np.stack([one, x])
    Z = np.stack([one, x, t] if shared else [one, x, t, t * x])
    at = [np.stack([one, x, a * one] if shared else [one, x, a * one, a * x]) for a in (1, 0)]
    g, b = np.zeros(2), np.linalg.lstsq(Z.T, y, rcond=None)[0]
    for _ in range(25):
        e = expit(g @ X)
        g = g + np.linalg.solve((X * e * (1 - e)) @ X.T, X @ (t - e))
    raw = expit(g @ X)
    e, slope = raw.clip(0.2, 0.8), (raw > 0.2) & (raw < 0.8)
    w = np.stack([t / e, (1 - t) / (1 - e)])
    means = np.stack([b @ A for A in at])
    phi = means + w * (y - means)
    J_e = [-(w[0] * (y - means[0]) * (1 - e) * slope), w[1] * (y - means[1]) * e * slope]
    for arm in (0, 1):
        of_g = np.linalg.solve((X * raw * (1 - raw)) @ X.T, X * (t - raw))
        of_b = np.linalg.solve(Z @ Z.T, Z * (y - b @ Z))
        phi[arm] = phi[arm] + (X @ J_e[arm]) @ of_g + (at[arm] @ (1 - w[arm])) @ of_b
    V = np.cov(phi) / len(x)
    turn = np.array([[1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])
    expected = np.sqrt(np.diag(turn @ V @ turn.T))
    np.testing.assert_allclose(np.sqrt(np.diag(fit.vcov("sampling"))), expected, rtol=0.03)
