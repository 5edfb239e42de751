"""The rows that feed the histograms of a large table: a uniform subset, in flat memory."""

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from dpmodels.bought import random_subset
from dpmodels.privacy.noise import make_noise


@pytest.mark.parametrize("n", [5, 8, 10**9])
def test_subsets_are_sorted_and_distinct(n):
    found = random_subset(n, 4, make_noise(None).coins)
    assert len(set(found.tolist())) == 4 and found.min() >= 0 and found.max() < n
    assert (np.diff(found) > 0).all()


def test_every_subset_is_as_likely():
    """False alarms: one in a million seeds; this seed is fixed."""
    coins = make_noise(1).coins
    counts = Counter(tuple(random_subset(5, 3, coins).tolist()) for _ in range(10_000))
    subsets = list(itertools.combinations(range(5), 3))
    assert chisquare([counts[s] for s in subsets]).pvalue > 1e-6


def test_values_that_would_come_too_often_are_drawn_again():
    """Of n = 3 the last value of 64 bits is left over: 2^64 - 1 is a multiple of 3."""
    words = iter([[2**64 - 1, 2], [1, 1], [0, 2]])
    coins = lambda size: np.array(next(words), dtype=np.uint64).view(np.uint8)  # noqa: E731
    assert random_subset(3, 2, coins).tolist() == [1, 2]


def test_memory_does_not_grow_with_the_table():
    tracemalloc.start()
    random_subset(10**12, 1 << 14, make_noise(None).coins)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
