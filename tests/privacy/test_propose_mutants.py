"""Broken twins of this room's mechanisms: every audit must flag its own."""

import numpy as np
import pytest

from dpmodels.audit.kit import (
    EventCheck,
    ReleaseCheck,
    StructureCheck,
    check_sensitivity,
    corner_neighbours,
)
from dpmodels.sums.cells import gram
from tests.privacy.cases import propose as cases
from tests.privacy.cases.verbs import odd_neighbours


class Louder:
    """A run whose callers understate the sensitivity by ``factor``."""

    def __init__(self, run, factor):
        self._run, self._factor = run, factor

    def __getattr__(self, name):
        return getattr(self._run, name)

    def gaussian(self, name, value, sensitivity, **kw):
        return self._run.gaussian(name, value, sensitivity * self._factor, **kw)

    def gaussian_real(self, name, value, sensitivity):
        return self._run.gaussian_real(name, value, sensitivity * self._factor)


RELEASES = [
    (cases.release_scale, cases._OPPOSITE, "scale matrix", 0.4),
    (cases.release_sums, cases._ENDS, "means and count", 0.5),
    (cases.release_curve, cases._FAR, "curve", 0.5),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("release", "pair", "step", "mu"), RELEASES, ids=[r[2] for r in RELEASES])
@pytest.mark.parametrize("factor", [0.5, 1 / np.sqrt(2)])
def test_noise_below_its_scale_is_flagged(release, pair, step, mu, factor):
    """Seed 3; the honest twin fails with probability at most 1 %."""
    guarantee = cases._one_step(step, mu)
    honest = ReleaseCheck(step, release, pair, guarantee).run(20_000, 3)
    broken = ReleaseCheck(
        step, lambda data, run: release(data, Louder(run, factor)), pair, guarantee
    ).run(20_000, 3)
    assert honest.passed, honest
    assert not broken.passed


def test_rows_without_their_ball_are_flagged():
    def unbounded(rows):
        return rows.T @ rows

    finding = check_sensitivity(
        unbounded, corner_neighbours([(-1, 1), (-0.5, 1)], n=(2, 3), trials=200), 2.0**0.5
    )
    assert not finding.passed


def test_an_intercept_left_in_a_missing_row_is_flagged():
    """The row count then leaks through the released intercept cell."""

    def broken(rows):
        rowmap = cases._ball(3)
        z = np.nan_to_num(rows.T.copy(), nan=0.0)
        z[0] = 1.0
        return gram([z], rowmap).real(rowmap.units)[:2, :2]

    honest = cases._gram
    void = np.array([[np.nan, 0.0, 0.0]])
    assert honest(void)[0, 0] == 0.0
    assert broken(void)[0, 0] > 0.0


@pytest.mark.statistical
def test_a_hard_threshold_is_flagged():
    """A test without randomness: reply on one side, silence on the other. Seed 0."""
    honest = cases._coin_events("dp_ols", "eptr", {"c0": 0.2}, "theta")
    broken = EventCheck(
        "hard threshold", (lambda s: np.zeros(3), lambda s: None), honest.guarantee, runs=500
    )
    assert not broken.run(0).passed


def test_a_call_that_trips_over_a_cell_is_flagged():
    frame = cases._frame(50)

    def fragile(data):
        return float(np.asarray(data["a"], dtype=float).sum())

    check = StructureCheck("fragile", fragile, odd_neighbours(frame), lambda out: type(out))
    assert not check.run().passed
