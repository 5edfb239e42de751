"""Weighted means and tests of numbers whose declared ranges are too wide: a look comes first."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.table import nulls
from dpmodels.models.weights import Trim
from dpmodels.models.window import LOOKS, Windows

PAY = {"eps": 1, "delta": 1e-6}
LEVELS = ["a", "b", "c"]
TIGHT, WIDE = (-4.0, 6.0), (-70.0, 130.0)


def frame(n, seed, draw="normal"):
    """Return numbers, groups of one mean, weights that grow with the numbers, and a second number."""
    rng = np.random.default_rng(seed)
    y = rng.normal(0, 1, n) if draw == "normal" else rng.lognormal(0, 1, n)
    w = np.exp(0.5 * rng.normal(size=n) + 0.3 * np.tanh(y)).clip(0.1, 6)
    g = np.array(LEVELS)[rng.integers(0, 3, n)]
    return pd.DataFrame({"y": y, "g": g, "w": w, "x": 0.4 * y + rng.normal(size=n)})


CALLS = {
    "weighted mean": ("dp_mean", "y ~ 1", {"weights": "w"}),
    "weighted table": ("dp_table", "y ~ g", {"weights": "w"}),
    "one mean": ("dp_test", "y ~ 1", {}),
    "groups": ("dp_test", "y ~ g", {}),
}


def call(what, data, bounds, seed=0, **how):
    verb, formula, options = CALLS[what]
    ranges = {"y": bounds} | ({"w": (0, 6)} if "weights" in options else {})
    schema = {"g": dp.Levels(LEVELS)} if "g" in formula else {}
    given = {**PAY, **options, "schema": schema, "bounds": ranges}
    return getattr(dp, verb)(formula, data, seed=seed, **{**given, **how})


def width(fit):
    tidy = fit.tidy()
    if "measure" in tidy:
        tidy = tidy.query("measure == 'mean' and level != 'all'")
    return float(np.mean(tidy["conf_high"] - tidy["conf_low"]))


@pytest.mark.parametrize(("bounds", "times"), [(TIGHT, 1.05), (WIDE, 1.5)])
@pytest.mark.parametrize("what", list(CALLS))
def test_wide_ranges_cost_little(what, bounds, times, quiet):
    """10 000 rows, seeds 0-2. Without a look a range 20 times too wide: 6 to 20 times."""
    before, after = (
        np.mean([width(call(what, frame(10_000, s), b, s, look=look)) for s in range(3)])
        for b, look in ((TIGHT, False), (bounds, True))
    )
    assert after < times * before


@pytest.mark.parametrize("what", list(CALLS))
def test_whether_a_call_looks_is_public_and_said(what, quiet):
    data = frame(6000, 1)
    for how, looked in (({}, True), ({"look": False}, False)):
        fit = call(what, data, WIDE, **how)
        steps = {s.name for s in fit.privacy.steps}
        assert (set(LOOKS) <= steps) == looked
        assert any("windows where" in str(note) for note in fit.notes) == looked
        assert sum(s.share for s in fit.privacy.steps) == pytest.approx(1.0)
    small = call(what, frame(500, 1), WIDE)
    assert not set(LOOKS) & {s.name for s in small.privacy.steps}


def test_tests_of_counts_and_of_products_do_not_look(quiet):
    for formula in ("~ g", "~ y * x"):
        fit = dp.dp_test(
            formula, frame(6000, 2), schema={"g": dp.Levels(LEVELS)}, seed=1,
            bounds={"y": WIDE, "x": WIDE} if "x" in formula else None, **PAY,
        )  # fmt: skip
        assert not set(LOOKS) & {s.name for s in fit.privacy.steps}


@pytest.mark.parametrize("what", ["weighted mean", "weighted table", "one mean", "groups"])
def test_people_look_too(what, quiet):
    data = frame(16_000, 3)
    data["id"] = np.arange(len(data)) // 2
    tight, wide = (width(call(what, data, b, 1, unit="id")) for b in (TIGHT, WIDE))
    assert wide < 1.6 * tight


def test_bias_lowers_the_root_of_a_statistic():
    """For any signs: the statistic of moved sums, lowered, is at most that of the sums."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        root = rng.normal(size=(3, 3))
        u, V, bias = 3 * rng.normal(size=3), root @ root.T + np.eye(3), rng.normal(size=(3, 4))
        moved = u + bias @ rng.choice([-1.0, 1.0], 4)
        lowered = nulls._chi2(moved, V, bias)
        assert lowered.statistic <= nulls._chi2(u, V).statistic + 1e-9
        assert nulls._chi2(u, V, np.zeros((3, 1))).statistic == nulls._chi2(u, V).statistic


def test_groups_have_their_part_of_what_lies_beyond():
    windows = Windows(np.zeros(1), np.array([2.0]), np.array([30.0]), np.array([90.0]), 74.0, (0,))
    N = np.array([600.0, 300.0, 100.0])
    even, _ = windows.beyond(0, N, np.ones(3))
    np.testing.assert_allclose(even, 30.0 / 2.0 / 1000.0)
    uneven, squares = windows.beyond(0, N, np.array([0.5, 1.0, 4.0]))
    assert uneven[0] == pytest.approx(even[0]) and uneven[2] == pytest.approx(10 * even[2])
    assert uneven @ N <= 3 * 15.0 and squares[0] == pytest.approx(90.0 / 4.0 / 1000.0)
    assert windows.times(0.25).excess[0] == 7.5
    trim = Trim(top=4.0, mean=1.0, lost=0.0, square=0.1)
    assert trim.part == 0.25 and trim.of_tails == pytest.approx(0.4)
    assert Trim(1.0, 1.0, 0.0).of_tails == 1.0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("draw", ["normal", "lognormal"])
@pytest.mark.parametrize("what", ["weighted mean", "one mean", "groups"])
def test_intervals_cover_and_tests_keep_their_level(what, draw, quiet):
    """200 calls of 6 000 rows, ranges 10 times too wide.

    Of 200 correct intervals (tests) fewer than 178 cover (more than 22 reject) with probability
    below 3e-4.
    """
    low, high = (-30.0, 70.0) if draw == "normal" else (-150.0, 350.0)
    whole = frame(10**6, 99, draw)
    y = whole["y"].clip(low, high)
    truth = float(np.average(y, weights=whole["w"] if "weighted" in what else None))
    inside, rejected = 0, 0
    for seed in range(200):
        how = {"mu0": truth} if what == "one mean" else {}
        fit = call(what, frame(6000, seed, draw), (low, high), seed, **how)
        a, b = fit.conf_int().to_numpy()[0]
        inside += a <= truth <= b
        rejected += fit.stats.get("p_value", 1.0) < 0.05
    assert inside >= 178
    assert rejected <= 22
