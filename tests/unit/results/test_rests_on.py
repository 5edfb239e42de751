"""A combination is tested by what it rests on, whichever level of a factor is the base."""

from __future__ import annotations

import numpy as np

from dpmodels.records import Estimate
from dpmodels.results.inference import rests_on_untested

#: Means of three levels, that of a 100 times as uncertain; by differences from a base.
MEANS = np.diag([100.0, 1.0, 1.0])
FROM_A = np.array([[1.0, 0, 0], [-1, 1, 0], [-1, 0, 1]])
FROM_B = np.array([[0, 1.0, 0], [1, -1, 0], [0, -1, 1]])


def estimate(T, untested):
    """Return an estimate of combinations T of the means."""
    V = T @ MEANS @ T.T
    return Estimate(
        ("Intercept", "one", "two"), np.zeros(3), vcov_sampling=V / 2, vcov_privacy=V / 2,
        untested=np.array(untested),
    )  # fmt: skip


def test_the_base_does_not_decide_what_is_tested():
    wanted = np.array([[1.0, -1, 0], [0, 1, -1], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]])
    for T, untested in ((FROM_A, [True, True, True]), (FROM_B, [False, True, False])):
        L = wanted @ np.linalg.inv(T)
        assert rests_on_untested(estimate(T, untested), L).tolist() == [True, False, True, False]


def test_coefficients_themselves_keep_their_marks_and_a_fit_without_marks_has_none():
    for untested in ([True, False, True], [False, False, False]):
        assert rests_on_untested(estimate(FROM_B, untested), np.eye(3)).tolist() == untested
