"""Lengths that the overlap lets expect, and noisy derivatives, against simulated rows."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.units import octaves
from dpmodels.errors import DPModelsWarning
from dpmodels.families import LINKS
from dpmodels.models.treatment.estimate import clear_pieces, pieces
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.forecast import (
    Expected,
    Overlap,
    Tail,
    clip_of_slopes,
    residuals_of_event,
    residuals_within,
)
from dpmodels.models.treatment.plan import SLOPES
from dpmodels.models.treatment.rows import EffectRows
from dpmodels.scoring.clip import Lengths
from dpmodels.sums.ask import Noisy

EDGES = np.linspace(0.1, 0.9, 19)


def influence(estimand="ATE", link="identity"):
    one = Fitted((0, 2, 3), np.zeros(3), *[np.eye(3)] * 4)
    return Influence(estimand, 1, None, 1.0, one, (0.1, 0.9), (one, one), LINKS[link], 5.0)


def rows(link="identity", mean=0.0):
    return EffectRows(influence(link=link), (mean, mean), 1.0, 0.5)


def units(n=40_000, seed=0):
    """Return propensities and treatments, with few units of large weight."""
    rng = np.random.default_rng(seed)
    e = np.clip(0.5 + 0.18 * rng.normal(size=n), 0.03, 0.97)
    return e, (rng.random(n) < e).astype(int), rng


def masses(e, t):
    cell = np.searchsorted(EDGES, e, side="right")
    return np.stack([np.bincount(cell[t == a], minlength=20) for a in (1, 0)]).astype(float)


def overlap(e, t, sd=0.0, seed=1, estimand="ATE"):
    noise = sd * np.random.default_rng(seed).normal(size=(2, 20))
    answer = Noisy((masses(e, t) + noise).ravel(), np.full(40, max(sd, 1e-9)))
    return Overlap.of(estimand, EDGES, answer, (0.1, 0.9), 0.1, len(e))


def test_masses_are_divided_by_the_propensity_unless_clearly_otherwise():
    e, t, _ = units()
    found = overlap(e, t, 40.0)
    exact = masses(e, t)
    few = slice(1, 5)  # treated of small propensity
    off, raw = np.abs(found.likely - exact), np.abs(found.masses - exact)
    assert off.max() < 160.0
    assert off[0, few].mean() < 0.7 * raw[0, few].mean()
    # treated where the propensity says there are none: the released mass counts
    odd = replace(found, released=found.released + np.outer([1, 0], [0, 2000] + 18 * [0]))
    assert odd.likely[0, 1] == pytest.approx(odd.released[0, 1])


@pytest.mark.parametrize("kind", ["normal", "event", "count", "skewed", "skewed down"])
def test_expected_excess_is_that_of_simulated_residuals(kind):
    """40 000 units, seed 0, no noise: within 20 %, twice the largest error of five seeds."""
    e, t, rng = units()
    mean = {"normal": 0.0, "event": 0.3, "count": 1.5, "skewed": 1.5, "skewed down": -1.5}[kind]
    y, sd = {
        "normal": lambda: (rng.normal(size=len(e)), 1.0),
        "event": lambda: (rng.random(len(e)) < mean, 1.0),
        "count": lambda: (rng.poisson(mean, len(e)), math.sqrt(mean)),
        "skewed": lambda: (rng.gamma(mean, size=len(e)), math.sqrt(mean)),
        "skewed down": lambda: (-rng.gamma(-mean, size=len(e)), math.sqrt(-mean)),
    }[kind]()
    clipped = e.clip(0.1, 0.9)
    s = np.where(t == 1, 1 / clipped, 1 / (1 - clipped)) * (y - mean)
    found, room = overlap(e, t), abs(mean) / sd
    residuals = {
        "normal": lambda: residuals_within(5.0, 6.0, 0.0),
        "event": lambda: residuals_of_event(mean),
        "count": lambda: residuals_within(room, 20.0, 1.0 / sd),
        "skewed": lambda: residuals_within(room, 20.0, 0.0),
        "skewed down": lambda: residuals_within(20.0, room, 0.0),
    }[kind]()
    cells = zip(found.likely, found.weights * sd, [residuals] * 2, strict=True)
    expected = Expected.of(list(cells))
    for clip in (2.0, 3.0):
        beyond = np.copysign(np.maximum(np.abs(s) - clip, 0), s)
        assert expected.beyond(clip) == pytest.approx(np.abs(beyond).sum(), rel=0.2)
        assert expected.squares_beyond(clip) == pytest.approx(
            np.maximum(s**2 - clip**2, 0).sum(), rel=0.25
        )
        net = sum(abs(beyond[t == a].sum()) for a in (0, 1))
        assert expected.net(clip) == pytest.approx(net, rel=0.2, abs=0.1 * expected.beyond(clip))
    assert expected.mean_square == pytest.approx(np.mean(s**2), rel=0.05)


def test_the_scale_is_that_of_all_units_though_the_histogram_hides_the_longest():
    e, t, rng = units()
    clipped = e.clip(0.1, 0.9)
    s = np.where(t == 1, 1 / clipped, 1 / (1 - clipped)) * rng.normal(size=len(e)) * 0.3
    histogram = Lengths(octaves(s**2) + 40.0 * rng.normal(size=len(octaves(s**2))), 40.0)
    far, none = (-9.0, 9.0), (0.0, 0.0)
    tail = Tail.of(histogram, overlap(e, t, 40.0), rows(), 0, far, none)
    assert histogram.square < 0.93 * np.mean(s**2)
    assert tail.mean_square == pytest.approx(np.mean(s**2), rel=0.09)
    assert tail.moved(2.0) == pytest.approx(
        max(0.45 * tail.models[0].beyond(2.0), 0.45 * histogram.overflow(2.0)), rel=0.05
    )
    # beside the end of the range, or where an outcome model is off, long residuals have one sign
    beside = Tail.of(histogram, overlap(e, t, 40.0), rows(), 0, (-0.4, 9.0), none)
    wrong = Tail.of(histogram, overlap(e, t, 40.0), rows(), 0, far, (0.3, 0.0))
    assert beside.moved(2.0) > 1.5 * tail.moved(2.0)
    assert wrong.moved(2.0) > 1.5 * tail.moved(2.0)
    event = Tail.of(histogram, overlap(e, t), rows("logit", 0.3), 0, (0.0, 1.0), none)
    assert event.event and event.moved(2.0) > tail.moved(2.0)


def test_the_clip_of_derivatives_follows_what_is_long():
    even = Expected(np.ones(3), np.full(3, 10_000.0), np.zeros((1, 3)))
    few_long = Expected(np.array([1.0, 12.0]), np.array([29_000.0, 1_000.0]), np.zeros((1, 2)))
    mu = 0.08
    assert clip_of_slopes(few_long, mu, 30_000, 16) > 3.0 * clip_of_slopes(even, mu, 30_000, 16)
    # with more noise less of the excess is worth it
    assert clip_of_slopes(few_long, mu / 30, 30_000, 16) < clip_of_slopes(few_long, mu, 30_000, 16)


def test_derivatives_that_are_noise_do_not_count_as_sampling_error():
    """400 draws of pure noise, seed 2: a twelfth of their square is left, a fifth at most."""
    rng = np.random.default_rng(2)
    at = influence()
    kept, drawn = 0.0, 0.0

    class Facts:
        pass

    for _ in range(400):
        facts = Facts()
        facts.at, values = at, rng.normal(size=12)
        facts.answers = {SLOPES: Noisy(values, np.ones(12))}
        kept += sum(float(part @ part) for part in clear_pieces(facts))
        drawn += float(values @ values)
    assert kept < 0.2 * drawn
    values = rng.normal(size=12) + np.repeat([0.0, 30.0], 6)
    facts.answers = {SLOPES: Noisy(values, np.ones(12))}
    clear, raw = clear_pieces(facts), pieces(at, values)
    for one, other in zip(clear[2:], raw[2:], strict=True):
        np.testing.assert_allclose(one, other, rtol=0.02)


@pytest.mark.statistical
def test_a_small_arm_does_not_make_the_variance_many_times_too_large():
    """80 fits of 12 000 rows, 83 % treated: claimed variance at most 2.5 times that of the errors.

    It was 3.8 times. At a true ratio of 1.75 the false alarm is that of chi2(80)/80 < .7: .02.
    """
    claimed, errors = [], []
    for seed in range(80):
        rng = np.random.default_rng(7000 + seed)
        x = rng.uniform(-1, 1, (12_000, 3))
        t = (rng.random(len(x)) < 1 / (1 + np.exp(-1.8 - 0.8 * x[:, 0]))).astype(int)
        y = 0.3 + x @ [0.8, -0.5, 0.4] + 0.5 * t + rng.normal(0, 0.3 + 0.8 * t)
        frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(t=t, y=y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPModelsWarning)
            fit = dp.dp_ate(
                "y ~ a + b + c", frame, treatment="t", eps=1, delta=1e-6, seed=seed,
                bounds={"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (-5, 6), "t": (0, 1)},
            )  # fmt: skip
        claimed.append(fit.bse["ATE"] ** 2)
        errors.append((fit.params["ATE"] - 0.5) ** 2)
    assert np.mean(claimed) < 2.5 * np.mean(errors)
    assert math.sqrt(np.mean(claimed)) > 0.8 * math.sqrt(np.mean(errors))
