"""The one end of every map: whatever a row is, its integers lie in the set."""

import itertools

import numpy as np
import pytest

from dpmodels.proof.sets import STEPS
from dpmodels.sums.products import (
    LEAST,
    MOST,
    TOP,
    ball_integers,
    end_along,
    end_in_ball,
    end_of_numbers,
    end_of_rows,
    inside,
    towards_zero,
)
from dpmodels.sums.rowmap import RowMap, WithOne
from dpmodels.sums.scaling import UnitScale

#: Zeros, denormals, what is lost when squared, steps, the ends of the squares and of floats.
CELLS = (0.0, 5e-324, -1e-300, 1e-162, -1e-141, 1e-3, 1.0, -1.5, 2.0**20, -(2.0**20) * (1 + 2e-16),
         1e100, -1e140, 1.3e154, -1.4e154, 1e308, np.inf, np.nan)  # fmt: skip


@pytest.fixture
def rows():
    assert len(CELLS) == 17
    return np.array(list(itertools.product(CELLS, repeat=3))).T


@pytest.fixture(autouse=True)
def quiet_floats():
    with np.errstate(all="ignore"):
        yield


def in_ball(k):
    """Whether every row is whole and no longer than 2^20: exact integers."""
    assert np.isfinite(k).all() and (k == np.trunc(k)).all()
    return all(sum(int(x) ** 2 for x in row) <= 2**40 for row in k.T)


def void(rows):
    """Rows that have no length: a cell that is not finite, or a square that is not."""
    square = (rows * rows).sum(axis=0)
    return ~(square <= MOST)


def ended(rows):
    """Rows in the ball, by their lengths as passes compute them."""
    square = (rows * rows).sum(axis=0)
    length = np.where(square <= MOST, np.sqrt(square), np.inf)
    return end_in_ball(rows.copy(), np.where(square < LEAST, 0.0, length))


def test_every_row_ends_in_the_ball(rows):
    k, kept = ended(rows)
    assert k.shape == (3, 17**3) and in_ball(k)
    assert not k[:, void(rows)].any() and not kept[void(rows)].any()
    assert (kept <= TOP).all() and not kept[(rows * rows).sum(axis=0) < LEAST].any()
    there = ~void(rows)
    long = there & ((rows * rows).sum(axis=0) > TOP**2)
    assert long.sum() > 500 and (kept[long] == TOP).all()
    assert (np.sqrt((k[:, long] ** 2).sum(axis=0)) > STEPS - 3.0).all()


def test_the_least_and_the_longest_row():
    """Squared lengths of 1e-280 and 1.7e308 stay, what is beyond them does not."""
    size = np.sqrt(np.array([LEAST * 1.01, LEAST * 0.99, MOST * 0.999, MOST * 1.01]))
    k, kept = ended(np.array([size, 0.0 * size]))
    assert (kept > 0.0).tolist() == [True, False, True, False]
    assert k[0].tolist() == [0.0, 0.0, STEPS - 1.0, 0.0] and not k[1].any()


def test_the_end_of_a_row_is_its_own(rows):
    whole, kept = ended(rows)
    for j in range(0, rows.shape[1], 7):
        k, own = ended(rows[:, j : j + 1])
        assert np.array_equal(k[:, 0], whole[:, j]) and own[0] == kept[j]


def test_lengths_that_are_known_end_in_the_ball_too(rows):
    length = np.sqrt((rows * rows).sum(axis=0))
    k, kept = end_in_ball(rows.copy(), length.copy())
    assert in_ball(k) and (kept <= TOP).all() and not k[:, void(rows)].any()
    for one in (np.nan, np.inf):
        k, kept = end_in_ball(np.full((2, 3), np.nan), np.full(3, one))
        assert not k.any() and not kept.any()


@pytest.mark.parametrize("radius", [1e-165, 1e-3, 1.7, 2.0**20, 1e99])
def test_every_vector_ends_in_a_ball_of_any_radius(rows, radius):
    k = ball_integers(rows, radius)
    assert in_ball(k) and not k[:, void(rows)].any()


@pytest.mark.parametrize("size", CELLS)
def test_a_vector_of_another_length_ends_in_the_ball(rows, size):
    """Whatever length is asked for, and of whichever sign."""
    square = (rows * rows).sum(axis=0)
    length = np.sqrt(np.where((square >= LEAST) & (square <= MOST), square, 0.0))
    sizes, sign = np.full(rows.shape[1], size), np.where(np.arange(rows.shape[1]) % 2, 1.0, -1.0)
    k = end_along(rows, length, 1.7, sizes, sign)
    assert in_ball(k) and not k[:, length == 0.0].any()
    if not size > 0.0:
        assert not k.any()


@pytest.mark.parametrize("ball", [0, 1, 2, 3])
@pytest.mark.parametrize("project", [False, True])
def test_every_row_ends_in_its_ball_and_box(rows, ball, project):
    k, there = end_of_rows(rows.copy(), ball, project)
    assert in_ball(k[:ball]) if ball else np.isfinite(k).all()
    assert np.abs(k).max() <= STEPS and there is not None
    gone = np.isnan(rows).any(axis=0)
    if ball:
        gone |= void(rows[:ball])
    assert np.array_equal(there, ~gone) and not k[:, gone].any()
    other = rows[:, ~gone].copy()
    assert np.array_equal(end_of_rows(other, ball, project)[0], k[:, ~gone])


def test_nothing_is_missing_where_nothing_is():
    w = np.random.default_rng(0).normal(size=(3, 50))
    assert inside(w.copy()) is None and inside(w.copy(), ball=2) is None


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_numbers_end_in_their_interval(low):
    for most in (1e-100, 1.0, 3.0, 1e100):
        k = end_of_numbers(np.array(CELLS), most, 2.0**30, low=low)
        assert (k == np.trunc(k)).all() and k[-1] == 0.0
        assert k.min() >= low * 2.0**30 and k.max() <= 2.0**30


def test_a_row_that_is_not_finite_is_the_zero_row(rows):
    k = towards_zero(rows.copy())
    gone = ~np.isfinite(rows).all(axis=0)
    assert not k[:, gone].any() and np.array_equal(k[:, ~gone], np.trunc(rows[:, ~gone]))


def test_the_constant_of_a_row_goes_with_it(rows):
    """A row that is void is so in every part: its count too."""
    unit = UnitScale(np.ones(3), np.zeros(3), False)
    for ball in (0, 3):
        one = WithOne(RowMap(unit, np.ones(3), ball, 1.0)).integers(rows.copy())
        gone = np.isnan(rows).any(axis=0)
        if ball:
            gone |= void(rows * TOP)
        assert not one[:, gone].any() and (one[-1, ~gone] == STEPS).all()
