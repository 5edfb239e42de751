"""What a pass by person reads and how it reports: coordinates, missing cells, the upper tail."""

import numpy as np
import pytest

from dpmodels.exact.products import mapped, sparsely
from dpmodels.exact.rowmap import UnitScale
from dpmodels.scoring.intervals import _careful, _left
from dpmodels.scoring.newton import Step
from dpmodels.scoring.overflow import overflow
from dpmodels.scoring.people import PersonPass, sums_of_people
from dpmodels.scoring.release import Released
from dpmodels.scoring.rules import LINEAR, plan_pass
from dpmodels.scoring.sums import BINS, Centre, ScorePass, counted_lengths
from dpmodels.sources.people import BlockOfPeople

P, N = 3, 300


def centre(seed, intercept):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(P, P))
    unit = UnitScale(rng.uniform(0.5, 2.0, P + 1), rng.normal(size=P + 1), intercept)
    W0 = np.eye(P) + 0.2 * A
    return Centre(unit, W0, rng.normal(size=P), np.eye(P) + 0.1 * (A + A.T), 0.7)


def people(seed, intercept):
    rng = np.random.default_rng(seed + 1)
    counts = rng.integers(1, 6, N)
    rows = rng.normal(size=(P + 1, counts.sum()))
    if intercept:
        rows[0] = 1.0
    return BlockOfPeople(rows, np.cumsum(counts) - counts, counts)


def plan():
    return plan_pass(LINEAR, 2, 0.3, N, P, "replace", meat=True, tail=N, people=True)


@pytest.mark.parametrize("intercept", [True, False])
def test_turned_coordinates_say_the_same(intercept):
    """The released sums, turned back, are those of the centre's own coordinates."""
    at, block = centre(2, intercept), people(2, intercept)
    one = PersonPass(plan(), at)
    sums = sums_of_people([one], [block])[0]
    real = {
        name: np.asarray(getattr(sums, name), float) * (getattr(one.plan, name) / 2**20) ** 2
        for name in ("information", "meat", "spread")
    }
    found = one.back(
        Released(score=np.asarray(sums.score, float) * one.plan.clip / 2**20, **real)
    )

    image = ScorePass(one.plan, at)._image(block.rows.copy())  # the centre's own coordinates
    w, psi = image[:-1] / one.step, image[-1]
    R2, C = one.plan.information**2, one.plan.clip
    H, J, s = np.zeros((P, P)), np.zeros((P, P)), np.zeros(P)
    for a, m in zip(block.starts, block.counts, strict=True):
        z, own = w[:, a : a + m], (w[:, a : a + m] * psi[a : a + m]).sum(axis=1)
        H += z @ z.T * min(1.0, R2 / np.sum(z * z))
        size = np.linalg.norm(own)
        J += np.outer(own, own) * min(1.0, one.plan.meat**2 / size**2)
        s += own * min(max(size, 0.65 * C + 0.35 / 0.15 * (size - 0.65 * C)), C) / size
    assert np.allclose(found.information, H, rtol=1e-4, atol=1e-3)
    assert np.allclose(found.meat, J, rtol=1e-4, atol=1e-3)
    assert np.allclose(found.score, s, rtol=1e-4, atol=1e-3)


def test_the_turned_map_is_triangular_and_a_missing_response_voids_the_row():
    at, block = centre(3, True), people(3, True)
    one = PersonPass(plan(), at)
    _, matrix, _ = one._map
    assert (matrix[:-1, :P] == np.triu(matrix[:-1, :P])).all()
    whole = sums_of_people([one], [block])[0]
    more = np.hstack([block.rows, block.rows[:, :1]])
    more[-1, -1] = np.nan  # a further row of the last person, marked as incomplete
    counts = block.counts.copy()
    counts[-1] += 1
    again = sums_of_people([one], [BlockOfPeople(more, block.starts, counts)])[0]
    assert (whole.information == again.information).all()
    assert (whole.score == again.score).all() and whole.bins == again.bins


def test_a_sparse_map_is_the_dense_one_where_there_are_no_zeros():
    rng = np.random.default_rng(0)
    M, rows = rng.normal(size=(4, 3)), rng.normal(size=(3, 100))
    assert np.array_equal(sparsely(M, rows), mapped(M, rows))
    M[1, 0] = M[2, :2] = M[3] = 0.0
    assert np.allclose(sparsely(M, rows), M @ rows)


def relative(seed, tail):
    """20 000 lengths over C: of three normals, or with a power law's tail."""
    rng = np.random.default_rng(seed)
    size = np.linalg.norm(rng.normal(size=(20_000, 3)), axis=1) / 3.5
    return size * np.sqrt(tail / rng.chisquare(tail, size.shape)) if tail else size


@pytest.mark.parametrize(("tail", "low", "high"), [(0, 0.0, 6.0), (6, 0.5, 2.0), (3, 0.5, 1.6)])
def test_the_overflow_is_read_off_the_released_histogram(tail, low, high):
    """Seeds fixed; noise of 20 people a bin. Light tails are overstated, heavy ones met."""
    size = relative(4, tail)
    true = float(np.maximum(size - 1.0, 0.0).sum())
    rng = np.random.default_rng(5)
    bins = counted_lengths(size)
    found = np.mean([overflow(bins + rng.normal(0, 20.0, BINS), 20.0).total for _ in range(20)])
    assert low * true <= found <= high * true + 30.0, (found, true)


def test_an_empty_or_negative_histogram_has_a_finite_overflow():
    for bins in (np.zeros(BINS), np.full(BINS, -50.0)):
        found = overflow(bins, 20.0)
        assert (found.total, found.error, found.squares) == (0.0, 0.0, 0.0)
    found = overflow(np.full(BINS, 1e9), 1e-3)
    assert np.isfinite([found.total, found.error]).all()


def test_small_noise_lowers_an_eigenvalue_less_than_its_sd():
    one = plan()
    step = Step(np.eye(4), 0.1, 0.0001, np.zeros(4), None)
    values = np.array([1.0, 0.2, 0.15])
    assert _careful(values, step, one) == pytest.approx(values - [0.01, 0.05, 0.1 / 1.5])
    values = np.array([0.1001, 0.00005])  # at most by one sd; below the floor a tenth of it
    assert _careful(values, step, one) == pytest.approx([0.1001 - 0.01 / 0.1001, 0.00001])


def test_what_clipping_leaves_of_a_step_is_taken_without_what_noise_would_bring():
    d = np.array([1.0, 0.0])
    lost = np.diag([0.3, 0.0])
    assert _left(lost, d, 0.0) == pytest.approx([0.3, 0.0])
    assert _left(lost, d, 0.1)[0] == pytest.approx(np.sqrt(0.09 - 0.01 / 2 * 3))
    assert not _left(lost, d, 1.0).any() and not _left(lost * 0.0, d, 0.0).any()
