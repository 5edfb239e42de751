"""Broken twins of the moment methods: every audit must flag its own."""

import math

import numpy as np
import pytest

from dpmodels.audit.kit import ReleaseCheck, check_sensitivity, corner_neighbours
from dpmodels.models.linear import moments
from dpmodels.proof import prove
from dpmodels.proof import prove as sensitivity
from dpmodels.sums.cells import gram
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import identity_scale
from tests.privacy.cases import linear as cases


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


PLANS = {
    "ssp": ("ssp", ("Q1",), cases.ORTHOGONAL, {"formula": "y ~ a + b - 1", "stages": 1}),
    "bounded": ("ssp", ("Q1",), cases.ATTAINED, {"stages": 1, "query": "bounded"}),
    "pmt": (
        "pmt",
        ("Q1",),
        cases.ORTHOGONAL,
        {"formula": "y ~ a + b - 1", "stages": 1, "public": cases._IDENTITY, "radius": 1.0},
    ),
    "second moments": ("pmt", ("Q1",), cases.OPPOSITE, cases.SECOND),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("factor", [0.5, 1 / math.sqrt(2)])
def test_a_lost_root_two_is_flagged(name, factor):
    """Seed 3; the honest twin fails with probability at most 1 %."""
    method, values, pair, options = PLANS[name]
    release, plan = cases.of_plan(method, values, **options)
    honest = ReleaseCheck(name, release, pair, plan.guarantee).run(20_000, 3)
    broken = ReleaseCheck(
        name, lambda data, run: release(data, Louder(run, factor)), pair, plan.guarantee
    ).run(20_000, 3)
    assert honest.passed, honest
    assert not broken.passed


@pytest.mark.statistical
@pytest.mark.parametrize("honest", cases._SCORES, ids=lambda check: check.name)
@pytest.mark.parametrize("factor", [0.5, 1 / math.sqrt(2)])
def test_scores_with_too_little_noise_are_flagged(honest, factor):
    """Seed 3; the honest twin fails with probability at most 1 %."""
    broken = ReleaseCheck(
        "scores", lambda data, run: honest.release(data, Louder(run, factor)), honest.pair,
        honest.guarantee,
    )  # fmt: skip
    finding = honest.run(20_000, 3)
    assert finding.passed, finding
    assert finding.measured > 0.99 * finding.claimed  # the pair is a worst one
    assert not broken.run(20_000, 3).passed


@pytest.mark.statistical
def test_the_add_remove_sensitivity_under_replace_one_is_flagged(monkeypatch):
    """Seed 3, as above."""
    monkeypatch.setattr(prove, "gram_sensitivity", lambda q, relation="replace": 1.0)
    release, plan = cases.of_plan("ssp", ("Q1",), formula="y ~ a + b - 1", stages=1)
    finding = ReleaseCheck("ssp", release, cases.ORTHOGONAL, plan.guarantee).run(20_000, 3)
    assert not finding.passed


@pytest.mark.statistical
def test_a_free_lunch_of_the_count_cell_is_flagged():
    """A count weight beyond the free one: a missing row is then too visible. Seed 3."""
    data = cases.columns(1, 1, 1)
    missing = {k: np.array([np.nan, *v[1:]]) for k, v in data.items()}
    options = {"stages": 1, "query": "bounded"}
    release, plan = cases.of_plan("ssp", ("Q1",), **options)
    honest = ReleaseCheck("count", release, (data, missing), plan.guarantee)
    assert honest.run(20_000, 3).passed

    class Greedy(Louder):
        def gaussian(self, name, value, sensitivity, *, weights, unit):
            more = np.array(weights)
            more[0] *= 3.0
            return self._run.gaussian(name, value, sensitivity, weights=more, unit=unit)

    broken = ReleaseCheck(
        "count", lambda d, run: release(d, Greedy(run, 1.0)), (data, missing), plan.guarantee
    )
    assert not broken.run(20_000, 3).passed


PAIRS = dict(n=(2, 3), trials=200)


def test_rows_without_their_ball_are_flagged():
    def boxed(rows):
        rowmap = RowMap(identity_scale(3), np.ones(3))
        return gram([rows.T.copy()], rowmap).real(rowmap.units)

    finding = check_sensitivity(
        boxed, corner_neighbours([(-1, 1), (-0.5, 1), (-1, 1)], **PAIRS), math.sqrt(2.0)
    )
    assert not finding.passed


def test_private_row_count_instead_of_the_released_cell_is_flagged():
    """Mutant: complete rows counted exactly and used as n; one missing cell then shows."""

    def mean_moment(rows):
        z = np.nan_to_num(np.clip(rows, -1, 1), nan=0.0)
        complete = max(1, int(np.isfinite(rows).all(axis=1).sum()))
        return z.T @ z / complete * len(rows)

    finding = check_sensitivity(
        mean_moment, corner_neighbours([(-0.57, 0.57)] * 3, **PAIRS), math.sqrt(2.0)
    )
    assert not finding.passed


def test_the_lower_bound_used_twice_is_flagged():
    """Mutant: asymmetric ranges, each column scaled by |lo| alone."""

    def scaled(rows):
        lo = np.array([1.0, 0.5, 1.0])
        z = np.nan_to_num(np.clip(rows, [-1, -0.5, -1], [3, 2, 1]), nan=0.0) / lo
        return z.T @ z / 3.0

    finding = check_sensitivity(
        scaled, corner_neighbours([(-1, 3), (-0.5, 2), (-1, 1)], **PAIRS), math.sqrt(2.0)
    )
    assert not finding.passed


def test_a_narrower_intercept_bound_is_flagged():
    """Mutant: the intercept form charged by the bound without an intercept."""
    a, b, c, e, f = moments.INTERCEPT_WEIGHTS
    assert sensitivity.separate_sensitivity(a, b, c) < 0.95 * sensitivity.intercept_sensitivity(
        a, b, c, e, f
    )
