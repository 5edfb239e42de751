"""Tested PATE: how far one vote moves a cell, and what the smooth bound makes of it, exactly."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from dpmodels.own import voting as pate_math
from dpmodels.own.voting import _CELLS_PER_MOVE, cells_of, curve_table, smooth

SIGMA, TEACHERS, CLASSES, ORDER = 2.0, 30, 3, 6.0
#: Cells that one changed vote can move: 1/sigma is _CELLS_PER_MOVE cells, and x lies anywhere in its cell.
MOVE = 41


def table():
    return curve_table(ORDER, SIGMA, CLASSES, TEACHERS)


def all_counts(teachers, classes):
    """Every table of votes: one answer of every teacher."""
    cuts = itertools.combinations(range(teachers + classes - 1), classes - 1)
    return np.array([np.diff([-1, *c, teachers + classes - 1]) - 1 for c in cuts], dtype=float)


def cells(counts, shown):
    return cells_of(counts, SIGMA, counts.shape[1], len(shown.value), shown.step)


def test_a_changed_vote_moves_no_answer_beyond_the_window():
    """All tables of 30 votes and all their neighbours; the window of 41 cells is attained."""
    shown, counts = table(), all_counts(TEACHERS, CLASSES)
    here, most = cells(counts, shown), 0
    for a, b in itertools.permutations(range(CLASSES), 2):
        move = np.zeros(CLASSES)
        move[a], move[b] = -1.0, 1.0
        legal = counts[:, a] > 0
        there = cells(counts[legal] + move, shown)
        most = max(most, int(np.abs(there - here[legal]).max()))
        jump = np.abs(shown.value[there] - shown.value[here[legal]])
        assert (jump <= shown.change[here[legal]]).all()
    assert MOVE == _CELLS_PER_MOVE + 1
    assert MOVE - 1 <= most <= MOVE


def test_the_change_is_the_largest_difference_in_the_table_window():
    """Against every pair of cells, not the ends alone; the curve falls, so nothing is above it."""
    shown = table()
    value, n = shown.value, len(shown.value)
    assert (np.diff(value) <= 0).all() and value[0] == ORDER / SIGMA**2
    for i in range(n):
        window = value[max(0, i - MOVE) : i + MOVE + 1]
        assert shown.change[i] == pytest.approx(np.abs(window - value[i]).max(), abs=1e-15)


def test_a_curve_that_is_not_monotone_is_made_so(monkeypatch):
    """The bound of a cell is that of every cell to its right too, whatever the curve."""
    monkeypatch.setattr(
        pate_math,
        "renyi_of_q",
        lambda log_q, a, sigma: math.exp(log_q / 9) * (1.5 + math.sin(log_q)),
    )
    shown = curve_table.__wrapped__(ORDER, SIGMA, CLASSES, TEACHERS)
    log_q = math.log(CLASSES - 1) + log_ndtr(
        -math.sqrt(2) * shown.step * np.arange(len(shown.value))
    )
    bumpy = np.exp(np.minimum(log_q, 0) / 9) * (1.5 + np.sin(np.minimum(log_q, 0)))
    assert (np.diff(bumpy) > 0.01).any()
    for i in range(len(bumpy)):
        assert shown.value[i] == pytest.approx(bumpy[i:].max())


@pytest.mark.parametrize("b", [0.004, 0.05, 0.6])
@pytest.mark.parametrize("votes", [[[30, 0, 0]] * 2, [[16, 14, 0], [28, 1, 1]], [[10, 10, 10]]])
def test_the_smooth_bound_is_the_maximum_over_all_distances(b, votes):
    shown = table()
    at, n = cells(np.array(votes, dtype=float), shown), len(shown.change)
    best = 0.0
    for d in range(n // MOVE + 2):
        total = sum(shown.change[max(0, c - d * MOVE) : min(n, c + d * MOVE + 1)].max() for c in at)
        best = max(best, math.exp(-b * d) * total)
    assert smooth(shown, at, b, TEACHERS) == pytest.approx(best, rel=1e-12)


def test_the_bound_is_smooth_between_neighbours():
    """S(x) <= e^b S(x') for every pair of neighbours, and it covers the step between them."""
    b, teachers = 0.3, 12
    shown = curve_table(ORDER, SIGMA, 2, teachers)
    counts = all_counts(teachers, 2)
    at = cells(counts, shown)
    s = [smooth(shown, at[[i]], b, teachers) for i in range(len(at))]
    for i, j in itertools.permutations(range(len(at)), 2):
        if np.abs(counts[i] - counts[j]).max() == 1:
            assert s[i] <= math.exp(b) * s[j] * (1 + 1e-12)
            assert abs(shown.value[at[i]] - shown.value[at[j]]) <= s[i]


def test_votes_that_agree_have_the_cell_of_their_exact_tail():
    """Two classes, gap g: q = Phi(-g / (sqrt 2 sigma)), so x = g / (2 sigma)."""
    shown = curve_table(ORDER, SIGMA, 2, TEACHERS)
    for gap in range(0, TEACHERS + 1, 2):
        half = gap / 2
        (cell,) = cells(np.array([[TEACHERS / 2 + half, TEACHERS / 2 - half]]), shown)
        assert cell * shown.step <= gap / (2 * SIGMA) + 1e-9
        assert gap / (2 * SIGMA) < (cell + 1) * shown.step + 1e-9
