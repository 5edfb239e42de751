"""Means: clipped with a free count, and the classic Propose-Test-Release mean."""

import math
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.means import Means
from dpmodels.core.release import Release
from dpmodels.own.proposed import PtrMeanDetail, best_interval, distance, sensitivity
from dpmodels.own.proposed import release_ptr as release
from dpmodels.privacy.mechanisms import Approximate, Step, agm
from dpmodels.privacy.noise import laplace_test_probability
from dpmodels.privacy.run import Run, _on_grid
from dpmodels.sources.rows import OfRows
from dpmodels.sums.ask import Ask
from tests.one_pass import added


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(3, 1, n), "b": rng.uniform(0, 1, n)})


BOUNDS = {"a": (-2, 8), "b": (0, 1)}


def test_equals_the_mean_without_noise(noiseless):
    frame = table(5000)
    fit = dp.dp_mean("a + b ~ 1", frame, eps=1, delta=1e-6, bounds=BOUNDS)
    assert fit.params.to_numpy() == pytest.approx(frame.mean().to_numpy(), abs=1e-5)
    se = frame.std() / math.sqrt(5000)
    assert fit.bse_sampling.to_numpy() == pytest.approx(se.to_numpy(), rel=1e-2)


def test_missing_rows_leave_the_mean_of_the_complete_ones(noiseless):
    frame = table(5000)
    frame.loc[:2499, "a"] = np.nan
    fit = dp.dp_mean("a + b ~ 1", frame, eps=1, delta=1e-6, bounds=BOUNDS)
    assert fit.params.to_numpy() == pytest.approx(frame.dropna().mean().to_numpy(), abs=1e-5)
    assert fit.stats["complete_rows"] == pytest.approx(2500)
    assert fit.nobs == 5000


@pytest.mark.statistical
def test_intervals_cover(quiet):
    """Seeds 0-399; a correct 95 % interval leaves [.90, .985] with probability below 1e-4."""
    hits = []
    for seed in range(400):
        fit = dp.dp_mean("a ~ 1", table(1000, seed), eps=1, delta=1e-6, bounds=BOUNDS, seed=seed)
        low, high = fit.conf_int().iloc[0]
        hits.append(low <= 3.0 <= high)
    assert 0.90 <= np.mean(hits) <= 0.985


@pytest.mark.parametrize("d", [1, 2, 3])
def test_joint_sensitivity_of_sums_and_count(d):
    """|(sum u, k N) - ...| <= 2 sqrt(d), k^2 = 3d, over corner and missing rows; attained."""
    release_of = Release("", Means(d), lambda z: z, None)
    rng = np.random.default_rng(0)
    rows = [np.ones(d), -np.ones(d), np.full(d, np.nan), np.full(d, np.inf), np.zeros(d)]
    rows += list(rng.uniform(-1, 1, size=(40, d)))
    base = rng.uniform(-1, 1, size=(d, 3))
    k = math.sqrt(3 * d)
    worst = square = 0.0
    for x in rows:
        for y in rows:
            a = added(release_of, [np.column_stack([base, x])])
            b = added(release_of, [np.column_stack([base, y])])
            change = (a[d] - b[d]).astype(float) * 2.0**-40
            worst = max(worst, math.hypot(np.linalg.norm(change[:d]), k * change[d]))
            frob = np.linalg.norm((a[:d, :d] - b[:d, :d]).astype(float) * 2.0**-40)
            square = max(square, frob)
    assert worst <= 2 * math.sqrt(d) * (1 + 1e-12)
    assert worst >= 2 * math.sqrt(d) * (1 - 1e-9)
    assert square <= (1.0 if d == 1 else math.sqrt(2) * d) * (1 + 1e-12)


def test_private_ranges(quiet):
    fit = dp.dp_mean("a + b ~ 1", table(20_000), eps=1, delta=1e-6, seed=1)
    assert fit.released
    assert fit.params.to_numpy() == pytest.approx([3.0, 0.5], abs=0.1)


@pytest.mark.oracle
def test_classic_test_probabilities():
    assert laplace_test_probability(0, 0.5, 1e-6) == pytest.approx(5e-7)
    assert laplace_test_probability(math.log(1e6) / 0.5, 0.5, 1e-6) == pytest.approx(0.5)


def test_best_interval():
    m, start = best_interval(np.array([0.0, 1.0, 1.5, 2.0, 9.0, np.nan]), 0.5)
    assert (m, start) == (3, 1.0)
    assert best_interval(np.array([np.nan]), 1.0) == (0, 0.0)


@pytest.mark.parametrize("slack", [0, 1, 2])
def test_ptr_mean_sensitivity_and_distance(slack):
    """Distance is 1-Lipschitz; on the safe set the mean moves by at most (4T + 6) c / n."""
    rng = np.random.default_rng(slack)
    n, c, worst = 9, 1.0, 0.0
    width = np.array([c])
    for _ in range(6000):
        x = rng.choice([0.0, 2.0, -2.0, 4.0, -4.0, 1.0, np.nan], size=n, p=[0.4, *[0.1] * 6])
        y = x.copy()
        y[rng.integers(n)] = rng.choice([0.0, 2.0, -2.0, 50.0, -50.0, np.nan])
        means, ks = [], []
        for v in (x, y):
            k, start = distance(v[None], width, slack, n)
            off = np.clip(v - start[0], 0.0, 2.0 * c)
            means.append(start[0] + np.where(np.isnan(off), c, off).sum() / n)
            ks.append(k)
        assert abs(ks[0] - ks[1]) <= 1
        if min(ks) >= 1 and n > 2 * (slack + 1):
            change = abs(means[0] - means[1])
            assert change <= (4 * slack + 6) * c / n * (1 + 1e-9)
            worst = max(worst, change / ((4 * slack + 6) * c / n))
    assert worst > 0.3


def test_ptr_mean_through_the_verb(quiet):
    frame = table(5000)
    fit = dp.dp_mean("a ~ 1", frame, eps=2, delta=1e-6, method="ptr", width=4.0, seed=1)
    assert fit.released
    assert abs(fit.params["a"] - 3.0) < 6 * fit.bse_privacy["a"]
    assert fit.bse.isna().all()


def test_ptr_mean_refuses(quiet):
    with pytest.raises(ValueError, match="width="):
        dp.dp_mean("a ~ 1", table(100), eps=1, delta=1e-6, method="ptr")
    with pytest.raises(ValueError, match="too small"):
        dp.dp_mean("a ~ 1", table(50), eps=1, delta=1e-6, method="ptr", width=4.0)


def test_ptr_mean_where_values_are_far_larger_than_their_width():
    """One row of 20000 moved the answer by 256 where 8.3 were allowed: a float step of 2^60."""
    n, base = 20_000, 2.0**60
    detail = PtrMeanDetail(np.array([1000.0]), 40, 0.5)
    allowed = sensitivity(detail, n)
    grid = agm(0.5, 1e-6) * allowed * (1.0 + 2.0**-20) * 2.0**-50

    class Known:
        """Replies, with the known "noise" -base: what is left is small enough to be a float."""

        def bernoulli(self, p):
            return True

        def discrete_gaussian(self, sigma2, size):
            return [-round(Fraction(base) / Fraction(grid))] * size

    def answer(high):
        values = np.full((1, n), base)
        values[0, :high] += 512.0
        rows = OfRows()
        rows.n, rows.sample, rows.by_person = n, lambda *_: values, True
        plan = SimpleNamespace(detail=detail, design=SimpleNamespace(p=1), guarantee=None)
        run = Run([Step("distance test and mean", Approximate(1.0, 1e-6))], Known())
        return float(release(plan, Ask(rows, run)).values["mean"][0])

    low, high = 0, n // 2
    assert answer(high) - answer(low) == pytest.approx(256.0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if answer(middle) < 128.0 else (low, middle)
    assert answer(high) - answer(low) == pytest.approx(512.0 / n, abs=1e-6)


def test_grids_do_not_stretch_the_distance_of_neighbours():
    """v / grid as a float skipped integers: neighbouring values moved up to twice as far."""
    rng = np.random.default_rng(1)
    for grid in 10.0 ** rng.uniform(-12, 3, 300):
        for v in (1e6, 1e12, 3e12, 7.7e15):
            after = np.nextafter(v, 2 * v)
            a, b = _on_grid([v, after], grid)
            assert (b - a) * Fraction(grid) <= Fraction(after) - Fraction(v) + Fraction(grid)


def of_people(n, seed=0):
    """People of one to six rows, a third of the cells missing, and people without any."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 7, n)
    frame = pd.DataFrame({"pid": np.repeat(np.arange(n), rows)})
    frame["a"] = 7 + np.repeat(rng.uniform(-0.4, 0.4, n), rows) + rng.uniform(-0.5, 0.5, rows.sum())
    frame["b"] = 0.9 + 0.02 * (frame["a"] - 7)
    frame.loc[rng.random(len(frame)) < 0.2, "a"] = np.nan
    frame.loc[rng.random(len(frame)) < 0.2, "b"] = np.nan
    return frame


def test_people_count_by_the_mean_of_their_complete_rows(noiseless):
    """Weighed by the share of complete rows, errors of means far from the middle were 4 x less."""
    frame = of_people(4000)
    means = frame.dropna().groupby("pid")[["a", "b"]].mean()
    fit = dp.dp_mean("a + b ~ 1", frame, eps=1, delta=1e-6, bounds=BOUNDS, unit="pid")
    assert fit.params.to_numpy() == pytest.approx(means.mean().to_numpy(), abs=1e-5)
    assert fit.stats["complete_people"] == pytest.approx(len(means)) and len(means) < 4000
    means = frame.dropna(subset="a").groupby("pid")["a"].mean()
    fit = dp.dp_mean("a ~ 1", frame, eps=50, delta=1e-3, bounds=BOUNDS, unit="pid")
    assert fit.bse_sampling["a"] == pytest.approx(means.std() / math.sqrt(len(means)), rel=0.01)


@pytest.mark.statistical
def test_intervals_of_people_with_missing_cells_cover(quiet):
    """Seeds 0-199; a correct 95 % interval covers below 178 of 200 with probability 4e-4."""
    hits = 0
    for seed in range(200):
        frame = of_people(1500, seed)
        fit = dp.dp_mean("a ~ 1", frame, eps=4, delta=1e-6, bounds=BOUNDS, unit="pid", seed=seed)
        low, high = fit.conf_int().iloc[0]
        hits += low <= 7.0 <= high
    assert hits >= 178


# -- delta = 0: one Laplace release


def test_pure_means_without_noise(noiseless):
    frame = table(5000)
    frame.loc[:999, "a"] = np.nan
    fit = dp.dp_mean("a + b ~ 1", frame, eps=1, delta=0, bounds=BOUNDS)
    there = frame.dropna()
    assert fit.params.to_numpy() == pytest.approx(there.mean().to_numpy(), abs=1e-4)
    assert fit.stats["complete_rows"] == pytest.approx(4000)
    se = there.std() / math.sqrt(4000)
    assert fit.bse_sampling.to_numpy() == pytest.approx(se.to_numpy(), rel=1e-2)
    alone = dp.dp_mean("a ~ 1", frame, eps=1, delta=0, bounds={"a": BOUNDS["a"]}, inference=False)
    assert alone.params["a"] == pytest.approx(there["a"].mean(), abs=1e-4)
    assert not np.isfinite(alone.bse).any()


def test_pure_noise_is_a_third_of_gaussian_noise():
    pure, gaussian = (
        dp.plan("a ~ 1", dp.Schema(a=dp.Real(-2, 8)), n=1000, eps=1, delta=delta, verb="dp_mean")
        for delta in (0, 1e-6)
    )
    name = "noise sd of a sum in half-ranges"
    assert pure.scales[name] == pytest.approx(2 * math.sqrt(2), rel=1e-4)
    assert pure.scales[name] < 0.34 * gaussian.scales[name]
    assert pure.guarantee.delta == 0 and pure.guarantee.eps == 1
    assert "pure" in str(pure).lower() or "Laplace" in str(pure)


def test_pure_intervals_cover(quiet):
    """Seeds 0-399, eps .5: coverage of .937 (Laplace noise alone) to .95 leaves [.90, .985] with
    probability below 2e-3.
    """
    hits = []
    for seed in range(400):
        frame = pd.DataFrame({"a": np.random.default_rng(seed).normal(3, 1, 400)})
        fit = dp.dp_mean("a ~ 1", frame, eps=0.5, delta=0, bounds={"a": (-2, 8)}, seed=seed)
        low, high = fit.conf_int().loc["a"]
        hits.append(low <= 3 <= high)
    assert 0.90 <= np.mean(hits) <= 0.985


def test_pure_noise_has_the_scale_that_is_charged():
    """The mean of |noise| over 1000 draws is the scale 2/eps within 15 %.

    |noise| is exponential: the mean of 1000 is off by 15 % (4.7 sds) with probability 1e-5. Noise
    at half its scale is off by 50 %.
    """
    frame = pd.DataFrame({"a": [1.0] * 50 + [-1.0] * 50})
    errors = []
    for seed in range(1000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_mean("a ~ 1", frame, eps=4, delta=0, bounds={"a": (-1, 1)}, seed=seed)
        errors.append(fit.params["a"] * fit.stats["complete_rows"])
    assert np.mean(np.abs(errors)) == pytest.approx(2 / 4, rel=0.15)


def test_pure_means_of_people(noiseless):
    rng = np.random.default_rng(0)
    who = rng.integers(0, 400, 2000)
    frame = pd.DataFrame({"id": who, "a": rng.normal(3, 1, 2000) + (who % 3)})
    fit = dp.dp_mean("a ~ 1", frame, eps=1, delta=0, bounds={"a": (-2, 8)}, unit="id")
    means = frame.groupby("id")["a"].mean()
    assert fit.params["a"] == pytest.approx(means.mean(), abs=1e-4)
    assert fit.bse_sampling["a"] == pytest.approx(means.sem(), rel=0.02)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": None}, "bounds="), ({"bounds": "private"}, "bounds="),
        ({"weights": "b"}, "delta"), ({"method": "ptr", "width": 1.0}, "delta"),
    ],
)  # fmt: skip
def test_what_delta_of_nothing_refuses(options, words):
    budget = dp.Budget(eps=2, delta=1e-5)
    given = {"bounds": {"a": (-2, 8), "b": (0, 1)}, **options}
    with pytest.raises(dp.errors.DPModelsError, match=words):
        dp.dp_mean("a ~ 1", table(100), eps=1, delta=0, budget=budget, **given)
    assert not budget.charges
