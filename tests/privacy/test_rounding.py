"""Constants that pay for the rounding of floats: rows whose bound holds in rational arithmetic.

Every float is a fraction; here lengths are those of the fractions, without a rounding of their own.
Without the constant one row in three is longer than its bound by its last digit. Vectors that are
rounded to a lattice of 2^20 steps cannot show it: an integer vector longer than 2^20 is longer by
2^-21 at least, and floats err by 2^-30 there (tests/mutants says so of each). Products of integers,
as scores are, can.
"""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from dpmodels.own.minimum import WorkingRows
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rules import LINEAR, TAME
from dpmodels.sums.rowmap import RowMap, ScoreMap
from dpmodels.sums.scaling import UnitScale
from tests.one_pass import ScorePass


def square(row):
    return sum(Fraction(float(x)) ** 2 for x in row)


def rows_around(rng, q, radius, n=1500):
    """Rows longer than the radius, some by their last digits."""
    z = rng.normal(size=(q, n))
    z *= radius / np.sqrt((z * z).sum(axis=0))
    z[:, ::2] *= 1.0 + 10.0 ** rng.uniform(-15, 2, z[:, ::2].shape[1])
    return z


@pytest.mark.parametrize("radius", [1.0, 1.7, 0.3])
@pytest.mark.parametrize("thins", [False, True])
def test_working_rows_are_no_longer_than_their_radius(radius, thins):
    rows = rows_around(np.random.default_rng(0), 3, radius)
    rows = rows[:, np.sqrt((rows * rows).sum(axis=0)) < 1.99 * radius]
    block = np.vstack([rows, np.zeros(rows.shape[1])])
    working = WorkingRows(np.ones(3), np.zeros(3), radius, 2 * radius, 1.0, thins)
    X, _, w = working.apply(block)
    assert (w < 1.0).mean() > 0.4
    for x, factor in zip(X.T, w, strict=True):
        assert Fraction(float(factor)) ** 2 * square(x) <= Fraction(radius) ** 2
    if thins:  # and the curvature that they allow
        for x, factor in zip(X.T, w, strict=True):
            assert Fraction(float(factor)) * square(x) <= 2 * Fraction(radius) ** 2


@pytest.mark.parametrize("matrix", [None, np.eye(4) + 0.2])
def test_rows_in_a_ball_are_no_longer_than_the_ball(matrix):
    rows = rows_around(np.random.default_rng(1), 4, 1.7)
    rowmap = RowMap(UnitScale(np.ones(4), np.zeros(4), False), np.full(4, 1.7), 4, 1.7, matrix)
    w = rowmap.normalised(rows.copy())
    norms = [square(x) for x in w.T]
    assert max(norms) <= 1 and max(norms) > 1 - Fraction(1, 2**30)


def test_rows_that_were_scaled_onto_the_ball_are_told_from_those_inside():
    """All of them, whichever way they were rounded; a row within by 2^-28 is not one."""
    rng = np.random.default_rng(2)
    rows = rows_around(rng, 3, 2.0)
    rows[:, ::2] *= 1.0 + 1e-3
    inside = rng.random(rows.shape[1]) < 0.5
    rows[:, inside] *= (1.0 - 2.0**-28) * 2.0 / np.sqrt((rows[:, inside] ** 2).sum(axis=0))
    rowmap = RowMap(UnitScale(np.ones(3), np.zeros(3), False), np.full(3, 2.0), 3, 2.0)
    beyond = np.sqrt((rows * rows).sum(axis=0)) > 2.0 * (1.0 + 1e-12)
    scores = ScoreMap(rowmap, np.array([0.3, -0.2]), np.eye(2), 5.0, apart=True)
    k = scores.integers(rows.copy())
    assert not k[2:, inside].any() and k[:2, inside].any(axis=0).all()
    assert beyond.sum() > 300 and not k[:2, beyond].any() and k[2:, beyond].any(axis=0).all()


def test_a_score_is_no_longer_than_its_clip_in_rationals():
    """Radii made so that ``2^38 / (R a)``, the factor of a row of length a, all but is an integer."""
    rng = np.random.default_rng(3)
    one_clip = dataclasses.replace(TAME, two_clips="none")
    plan = plan_pass(LINEAR, 2, 0.3, 100, 1, "replace", meat=True, tail=100, policy=one_clip)
    at = Centre(
        UnitScale(np.ones(2), np.zeros(2), False), np.eye(1), np.zeros(1), np.eye(1), 1.0
    )
    near = 0
    for _ in range(1500):
        length, k = rng.integers(2**19, 2**20), rng.integers(2, 2**17)
        radius = np.nextafter(2.0**38 / (float(length) * float(k)), np.inf)
        one = ScorePass(dataclasses.replace(plan, information=float(radius)), at)
        (factor,) = one.factors(
            np.array([1.0]), np.array([2.0 * plan.clip]), np.array([float(length)])
        )
        # steps of (R / 2^20) (4 C / 2^20): at most C
        assert Fraction(float(factor)) * int(length) * Fraction(float(radius)) <= 2**38
        near += factor == k - 1
    assert near > 1000
