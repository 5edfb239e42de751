"""Passes by cells and numbers where C is far above R_J: what long scores may do to the meat.

So it is of large tables: a score that goes by cell, up to ``KEPT C``, is longer than R_J there.
"""

from dataclasses import replace

import numpy as np
import pytest

from dpmodels.exact.rowmap import STEPS
from dpmodels.scoring import mixed
from dpmodels.scoring.mixed import MixedPass
from dpmodels.scoring.sums import Passes
from tests.privacy.test_mixed_sensitivity import (
    GRID,
    NUMBERS,
    parts_hold,
    tame,
    the_pass,
    worst,
)

#: Rows of the public rules, and a scale at which scores of ordinary rows pass R_J.
LARGE, SCALE = 1_000_000, 10.0
#: Everything here holds of both ways in which rows are added up.
pytestmark = pytest.mark.usefixtures("way")



def heavy_pass(phi=2e-3, scale=0.8):
    """A pass of residuals many standard deviations long: weights of the meat beyond the largest."""
    _, job = the_pass(n=LARGE, scale=scale)
    (one,) = job.passes
    centre = replace(one.one.centre, phi=phi)
    narrow = MixedPass(replace(one.one, centre=centre), one.grid, one.lattice)
    return replace(job, passes=(narrow,))


def rows_of(ys):
    """(block, cells) of single rows: cells that are not void, ends and middles of the numbers."""
    rows = [(c, *ab, y) for c in np.flatnonzero(~GRID.void) for ab in NUMBERS[:4] for y in ys]
    return [(np.array([row[1:]], float).T, np.array(row[:1])) for row in rows]


def test_scores_longer_than_the_radius_of_the_meat_go_by_cell():
    """Or what follows would say nothing."""
    plan, job = the_pass(n=LARGE, scale=SCALE)
    assert plan.meat < 0.5 * mixed.KEPT * plan.clip
    met = 0
    for tally in tame(job):
        if any(tally.sums[0].information.counts):  # by cell; a score that is cut has length R_J
            (total,) = job.done(tally)
            met += float(np.trace(total.meat.astype(float))) > 0.999 * STEPS**2
    assert met > 15


def test_their_parts_stay_in_their_sets():
    _, job = the_pass(n=LARGE, scale=SCALE)
    assert parts_hold(job) > 15


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_one_of_them_moves_a_pass_by_no_more_than_is_charged(relation):
    plan, job = the_pass(relation, n=LARGE, scale=SCALE)
    assert worst(job, plan, relation, 1) <= plan.mu_joint


def test_a_weight_beyond_the_largest_goes_the_dense_way_and_is_not_cut():
    """The meat of a short row with a long residual is that of the dense pass."""
    job = heavy_pass()
    (one,) = job.passes
    beyond = 0
    for block, cells in rows_of([-1.0, 0.3, 1.0]):
        (own,) = job.over([(block.copy(), cells)]).sums
        (found,) = job.done(job.over([(block.copy(), cells)]))
        rows = mixed.filled_rows(GRID, block.copy(), cells)
        (dense,) = Passes((one.one,)).over([rows]).sums
        a, b = (np.asarray(s.meat, dtype=float) for s in (dense, found))
        assert np.abs(a - b).max() <= 1e-4 * STEPS**2  # the longest is one: 2^40 steps
        beyond += not any(own.information.counts)
    assert beyond > 5
