"""What a pass by person reads and how it reports: coordinates, missing cells, the upper tail."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.core.units import UnitPass, octaves
from dpmodels.families import LINKS, family_of
from dpmodels.scoring.clip import (
    Lengths,
    chosen_clip,
    clear_bins,
    mean_square,
    missed_squares,
    seen_bins,
    tail_curve,
)
from dpmodels.scoring.coordinates import in_order, public_coordinates
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import Beginning, Quantile
from dpmodels.scoring.pass_plan import forecast, largest_information, needed
from dpmodels.scoring.passes import Centre, affine_of
from dpmodels.scoring.rules import AT_CLIP, BINS, CELLS, OCTAVE_ZERO, OCTAVES, OF_UNITS
from dpmodels.scoring.unit_passes import Regression, RegressionRows
from dpmodels.scoring.unit_scales import Number, Spread, recentred, scales_of
from dpmodels.scoring.units import unit_pass
from dpmodels.sources.people import BlockOfPeople
from dpmodels.sums.scaling import UnitScale
from tests.one_pass import sums_of

P, N = 3, 300


def plan(last=True):
    counts = np.zeros(OCTAVES)
    counts[OCTAVE_ZERO + 1] = N
    return unit_pass(
        Lengths(counts, 5.0), 0.3, N, P, "replace", float(P), last=last, scale=False, tail=N
    )


def centre(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(P, P))
    unit = UnitScale(rng.uniform(0.5, 2.0, P + 1), rng.normal(size=P + 1), True)
    return Centre(unit, np.eye(P) + 0.2 * A, rng.normal(size=P), np.eye(P) + 0.1 * A, 0.7)


def people(seed):
    rng = np.random.default_rng(seed + 1)
    counts = rng.integers(1, 6, N)
    rows = rng.normal(size=(P + 1, counts.sum()))
    rows[0] = 1.0
    return BlockOfPeople(rows, np.cumsum(counts) - counts, counts)


@pytest.mark.parametrize("most", [np.inf, 12.0])
def test_the_sums_of_a_pass_are_those_of_the_formulas(most):
    """Information looked at in coordinates of its own, scores cut at C, the meat in its ball.

    A person with a longer record than ``most`` is weighed, by its predictors alone.
    """
    at, block, one = centre(2), people(2), plan()
    turn = np.diag([1.0, 2.0, 0.5])
    sums = sums_of(UnitPass(one, P, turn), RegressionRows(at, most=most), [block])
    matrix, shift = affine_of(at, 1.0)
    image = matrix @ block.rows + (0.0 if shift is None else shift)
    w, psi = image[:P], image[-1]
    H, J, s = np.zeros((P, P)), np.zeros((P, P)), np.zeros(P)
    for a, m in zip(block.starts, block.counts, strict=True):
        weight = min(1.0, most / np.sum(w[:, a : a + m] ** 2))
        z = turn @ w[:, a : a + m] * np.sqrt(weight)
        H += z @ z.T * min(1.0, one.information**2 / np.sum(z * z))
        own = weight * (w[:, a : a + m] * psi[a : a + m]).sum(axis=1)
        size, C = np.linalg.norm(own), one.clip
        J += np.outer(own, own) * min(1.0, one.meat**2 / size**2)
        s += own * min(size, C) / size
    real = {
        name: np.asarray(getattr(sums, name), float) * (getattr(one, name) / 2**20) ** 2
        for name in ("information", "meat")
    }
    assert np.allclose(real["information"], H, rtol=1e-4, atol=1e-3)
    assert np.allclose(real["meat"], J, rtol=1e-4, atol=1e-3)
    assert np.allclose(np.asarray(sums.score, float) * one.clip / 2**20, s, rtol=1e-4, atol=1e-3)


def test_the_largest_information_of_a_person_grows_with_their_number():
    assert [largest_information(mu, N) for mu, N in ((0.2, 500), (0.26, 3000))] == [1.5, 1.5]
    assert largest_information(0.3, 10_000) == pytest.approx(6.0)


@pytest.mark.parametrize("most", [np.inf, 6.0])
def test_a_missing_response_voids_the_row(most):
    at, block = centre(3), people(3)
    into, formula = UnitPass(plan(), P), RegressionRows(at, most=most)
    whole = sums_of(into, formula, [block])
    more = np.hstack([block.rows, block.rows[:, :1]])
    more[-1, -1] = np.nan  # a further row of the last person, marked as incomplete
    counts = block.counts.copy()
    counts[-1] += 1
    again = sums_of(into, formula, [BlockOfPeople(more, block.starts, counts)])
    assert (whole.information == again.information).all() and (whole.score == again.score).all()


def test_coordinates_in_order_depend_on_the_columns_before():
    design = dp.plan("y ~ a + I(a**2) + b", {"y": (0, 1), "a": (2, 9), "b": (-1, 4)}, n=500, eps=1,
                     delta=1e-6, verb="dp_ols").design  # fmt: skip
    plain = public_coordinates(design)
    one = in_order(plain)
    assert np.allclose(one.W0, np.tril(one.W0)) and (np.diag(one.W0) > 0.0).all()
    assert pytest.approx(plain.W0.T @ plain.W0) == one.W0.T @ one.W0
    assert one.W0.T @ one.constant == pytest.approx(plain.W0.T @ plain.constant)
    far = Spread(Number("a", 1, 2.0, 9.0), np.eye(CELLS)[40])
    assert recentred(plain, design, (far,)).rank == plain.rank


def test_a_histogram_says_sizes_and_overflow():
    """Squares of 4000 normal lengths in 3 dimensions; noise of 30 a bin, 20 draws, seeds fixed."""
    rng = np.random.default_rng(3)
    size = np.linalg.norm(rng.normal(size=(4000, P)), axis=1)
    counts = octaves(size * size)
    assert counts.sum() == 4000 and octaves(np.array([0.0, np.nan, np.inf])).sum() == 0
    for clip, low, high in ((2.6, 0.7, 4.0), (3.5, 0.5, 6.0)):
        true = float(np.maximum(size - clip, 0.0).sum())
        found = [
            Lengths(counts + rng.normal(0, 30.0, OCTAVES), 30.0).overflow(clip)
            for _ in range(20)
        ]
        assert low * true - 60 < np.mean(found) < high * true + 60  # light tails are overstated
    squares = [Lengths(counts + rng.normal(0, 30.0, OCTAVES), 30.0).square for _ in range(20)]
    assert np.mean(squares) == pytest.approx(P, rel=0.1)
    lost = mean_square(rng.normal(0, 30.0, OCTAVES), 30.0, 0.98)  # of nothing but noise: finite
    assert np.isfinite(lost).all()


def test_noise_that_stands_far_from_the_others_is_dropped():
    counts = np.zeros(OCTAVES)
    counts[60:64] = [500, 1500, 1200, 300]
    counts[90:93] = 150.0  # three bins of 2.5 sds each
    assert (clear_bins(counts, 60.0) > 0.0).nonzero()[0].tolist() == [60, 61, 62, 63]


def test_the_clip_grows_with_the_tail():
    light = np.zeros(OCTAVES)
    light[62:67] = [400, 1200, 1800, 600, 20]
    heavy = light.copy()
    heavy[67:72] = [150, 120, 90, 60, 30]
    one, other = (chosen_clip(Lengths(c, 10.0), 0.15, 4000, P) for c in (light, heavy))
    assert other > 1.3 * one


def test_overflow_is_measured_at_the_middles_of_half_octaves():
    """Of units far beyond C what their bins say; near C a curve, at the middles of its bins."""
    clip, n, edges = 2.0, 900.0, 2.0 ** ((np.arange(OCTAVES + 1) - OCTAVE_ZERO) / 2.0)
    middles = np.sqrt(edges[:-1] * edges[1:])
    at = OCTAVE_ZERO + 2  # whose lower end is C
    assert edges[at] == clip
    counts = np.zeros(OCTAVES)
    counts[at + 12] = n
    assert Lengths(counts, 1.0).overflow(clip) == pytest.approx(n * (middles[at + 12] - clip), rel=0.02)
    near = np.arange(at - 3, at + 6)
    counts = np.zeros(OCTAVES)
    counts[near] = 4000.0 / 4.0 ** np.arange(9)
    long = np.maximum(middles[near] / clip - 1.0, 0.0)
    of_curve = clip * tail_curve(counts[near], 3.0, long)
    assert Lengths(counts, 3.0).overflow(clip) == pytest.approx(of_curve)


def test_a_forecast_says_what_would_do():
    assert forecast(0.2367, 10_000, 3, 0.73) < OF_UNITS.low_noise < forecast(0.2367, 1000, 14, 0.73)
    N, factor, p = needed(0.2367, 1000, 14, 0.73)
    assert forecast(0.2367, N, 14, 0.73) <= OF_UNITS.low_noise < forecast(0.2367, int(0.95 * N), 14, 0.73)
    assert forecast(0.2367 * factor, 1000, 14, 0.73) == pytest.approx(OF_UNITS.low_noise, rel=1e-3)
    assert p == 0 or forecast(0.2367, 1000, p, 0.73) <= OF_UNITS.low_noise < forecast(0.2367, 1000, p + 1, 0.73)


def test_bins_that_noise_hides_do_not_count():
    """A bin of two noise sds, and two neighbours that have 2 sqrt 2 together."""
    bins = np.array([0.0, 39.0, 0.0, 41.0, 0.0, 30.0, 30.0, -9.0])
    assert seen_bins(bins, 20.0).tolist() == [0, 0, 0, 41, 0, 30, 30, 0]
    assert not seen_bins(np.zeros(BINS), 20.0).any() and not seen_bins(np.full(BINS, -50.0), 20.0).any()


def test_squares_beyond_the_meat_are_those_of_the_bins():
    """theory 4: ``sum (|s|^2/C^2 - R_J^2/C^2)+`` at the middles of half octaves, over the rows."""
    bins = np.zeros(BINS)
    bins[AT_CLIP + 2] = 100.0
    plan = SimpleNamespace(
        whole=False, meat=1.5, clip=1.0, rows=1000, noise=SimpleNamespace(count=5.0)
    )
    found = missed_squares(SimpleNamespace(bins=bins), plan)
    assert found == pytest.approx(0.1 * (2.0**2.5 - 1.5**2), rel=1e-12)
    plan.whole = True
    assert missed_squares(SimpleNamespace(bins=bins), plan) == 0.0


def test_a_column_that_few_units_have_is_not_known_by_what_others_leave_in_it():
    """Seed 4, deterministic: three columns of all units, the fourth of 200 and a trace of others."""
    rng = np.random.default_rng(4)
    counts = np.zeros((4, OCTAVES))
    counts[:3, OCTAVE_ZERO : OCTAVE_ZERO + 3] = 3000.0
    counts[3, OCTAVE_ZERO + 3] = 200.0
    counts[3, OCTAVE_ZERO - 18 : OCTAVE_ZERO - 14] = 700.0
    found = scales_of(counts + rng.normal(0, 60.0, counts.shape), 60.0, 10_000.0)
    assert (found[:3] > 1.0).all() and (found[:3] < 5.0).all()
    assert 0.1 < found[3] < 10.0
    seen = scales_of(counts + rng.normal(0, 5.0, counts.shape), 5.0, 10_000.0)
    assert seen[3] == pytest.approx(200 * 8 * np.log2(np.e) / 10_000, rel=0.3)  # its own


def test_scores_of_rare_events_are_as_long_as_the_model_says():
    """A share of 4 %, rows as units: (1 - m)/sqrt(m (1 - m)) in coordinates of the information."""
    design = dp.plan("y ~ x", {"y": dp.Binary(), "x": (-1, 1)}, n=500, eps=1, delta=1e-6,
                     verb="dp_glm", family="binomial").design  # fmt: skip
    c = public_coordinates(design, raw=True)
    shares = np.zeros(CELLS)
    shares[[0, -1]] = 0.96, 0.04
    values = Spread(Number("y", design.q - 1, 0.0, 1.0), shares)
    m = values.mean
    family = family_of("binomial")
    score = MeanModel.of(family, LINKS["logit"], None)
    a, r = c.constant, c.rank
    eta = np.log(m / (1 - m))
    state = replace(
        Beginning(a, r, None).state(eta * a), W=np.eye(r) / np.sqrt(m * (1 - m)),
        M=np.eye(r) * m * (1 - m),
    )  # fmt: skip
    long = Regression(score, c, values=values).typical_long(state)
    assert long == pytest.approx(np.sqrt((1 - m) / m) / np.linalg.norm(a), rel=0.01)
    # of a quantile: one row beyond it, of a unit whose three rows carry the information
    of_rows = replace(state, M=3.0 * np.eye(r) / (a @ a))
    for tau, jump in ((0.5, 1.0), (0.8, 2.0), (0.1, 3.0)):
        long = Regression(Quantile(tau=tau), c, values=values).typical_long(of_rows)
        assert long == pytest.approx(jump * np.sqrt(r / 3.0))


def test_a_hump_of_long_scores_is_seen_beyond_the_curve_of_the_tail():
    """Sums over C of ordered classes (cloglog), of lengths even in the logarithm of each bin."""
    counts, C = np.zeros(OCTAVES), 3.5
    counts[OCTAVE_ZERO : OCTAVE_ZERO + 7] = [0, 1645, 1803, 473, 114, 81, 2]
    inside = (np.arange(1000) + 0.5) / 1000
    size = 2.0 ** ((np.arange(OCTAVES)[:, None] - OCTAVE_ZERO + inside) / 2.0)
    exact = float(counts @ np.maximum(size - C, 0.0).mean(axis=1))
    assert abs(Lengths(counts, 5.0).overflow(C) - exact) < 0.15 * exact

