"""Follow-up of people as local expansions: own rows alone, whatever their order and company."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.formula.survival import build_survival_design
from dpmodels.models.survival.hazard import Hazard, Timeline
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.models import Beginning
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import expanded

EDGES = np.linspace(0, 12, 5)


def local(start=False, strata=False, clip=4.0):
    schema = dp.Schema(t=(0, 12), s=(0, 12), d=dp.Binary(), x=(-1, 1), g=dp.Levels(["a", "b"]))
    left = "Surv(s, t, d)" if start else "Surv(t, d)"
    design = build_survival_design(f"{left} ~ x{' + strata(g)' if strata else ''}", schema)
    S = 2 if strata else 1
    rates = np.array([[0.1, 0.2, 0.15, 0.1], [0.3, 0.1, 0.2, 0.2]])[:S]
    c = public_coordinates(design, raw=True)
    model = Hazard(c, design.survival, Timeline(EDGES, rates, 9.0 * rates), 0.5, True)
    theta = np.linspace(0.3, -0.2, c.rank + 3 * S - 1)
    return design, model.at(Beginning(None, len(theta), None).state(theta), clip)


def person(rng, design, m, wild=False):
    """Rows of one person: ties of start and end, overlaps, two strata, cells that make no sense."""
    q, where = len(design.z), design.survival
    rows = np.ones((q, m))
    rows[1] = rng.choice([-1.0, 1.0, 0.3], m)
    rows[where.event] = rng.integers(0, 2, m)
    rows[where.time] = rng.choice([2.0, 3.0, 7.5, 12.0], m)
    if where.start is not None:
        rows[where.start] = rng.choice([0.0, 3.0, 5.0, 9.0], m)
    if where.strata is not None:
        rows[where.strata] = rng.integers(0, 2, m)
    if wild and m:
        at = rng.choice([j for j in range(1, q) if j not in (where.strata, where.event)])
        rows[at, rng.integers(0, m)] = rng.choice([np.nan, np.inf, 1e300, 5e-324])
    return rows


def summed(own, rows, counts):
    counts = np.asarray(counts)
    # a person's rows that do not exist are one row that is nobody's: it counts as nothing
    found = expanded(own, BlockOfPeople(rows, np.cumsum(counts) - counts, counts))
    score = np.add.reduceat(found.score, np.cumsum(found.scores) - found.scores, axis=1)
    return score, np.split(found.information, np.cumsum(found.counts)[:-1], axis=1)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("strata", [False, True])
def test_a_person_adds_the_same_in_any_company_and_order(start, strata):
    """Seed 3, deterministic; people of 1, 2, 5 and 1000 rows."""
    design, own = local(start, strata)
    rng = np.random.default_rng(3)
    some = [person(rng, design, m, wild) for m in (1, 2, 5, 5, 1000) for wild in (False, True)]
    counts = [rows.shape[1] for rows in some]
    together, parts = summed(own, np.hstack(some), counts)
    assert np.isfinite(together).all()
    for i, rows in enumerate(some):
        alone, own_rows = summed(own, rows, counts[i : i + 1])
        np.testing.assert_array_equal(alone[:, 0], together[:, i])
        np.testing.assert_array_equal(own_rows[0], parts[i])
        turned, _ = summed(own, rows[:, rng.permutation(counts[i])], counts[i : i + 1])
        np.testing.assert_allclose(turned[:, 0], together[:, i], rtol=1e-9, atol=1e-9)


def test_with_stopping_no_expected_score_is_longer_than_the_clip():
    """What is expected of a person, by its own rows and whole cells, is at most C."""
    design, own = local(start=True, clip=2.0)
    rng = np.random.default_rng(4)
    rows = person(rng, design, 1000)
    rows[design.survival.event] = 0.0
    score, _ = summed(own, rows, [1000])
    assert np.linalg.norm(score) <= 2.0 + 1e-9


def test_what_is_left_out_knows_nothing_of_outcomes():
    """Exposure within the last cell is an outcome: who is stopped does not depend on it."""
    design, own = local(clip=1.5)
    where = design.survival
    rows = np.ones((len(design.z), 2))
    rows[1] = 0.3
    rows[where.event] = 0.0
    rows[where.time] = [6.1, 8.9]  # of the same cell
    rows[where.event] = 1.0
    found = summed(own, rows, [1, 1])[0]
    u = np.linalg.norm(found, axis=0)
    assert (u[0] == 0.0) == (u[1] == 0.0)
    hazard = own.model.timeline.rates[0]
    assert (hazard > 0).all()


def test_who_is_stopped_does_not_depend_on_how_long_the_last_cell_was_lived_through():
    """The mutant: exposure within the own last cell, an outcome, in the rule of stopping."""
    stopped = []
    for clip in np.linspace(0.1, 8.0, 80):
        design, own = local(clip=float(clip))
        where = design.survival
        rows = np.ones((len(design.z), 3))
        rows[1], rows[where.event] = 0.3, [1.0, 1.0, 0.0]
        rows[where.time] = [6.05, 8.95, 6.0]  # two of one cell; one that is censored at its start
        score = summed(own, rows, [1, 1, 1])[0]
        early, late = (np.array_equal(score[:, i], score[:, 2]) for i in (0, 1))
        assert early == late, clip
        stopped.append(late)
    assert 5 < sum(stopped) < 75


def test_an_event_after_the_last_break_is_none_of_this_study():
    design, own = local(clip=np.inf)
    where = design.survival
    rows = np.ones((len(design.z), 3))
    rows[1], rows[where.event], rows[where.time] = 0.3, [1.0, 0.0, 1.0], [13.0, 12.0, 12.0]
    score = summed(own, rows, [1, 1, 1])[0]
    np.testing.assert_array_equal(score[:, 0], score[:, 1])
    assert np.abs(score[:, 2] - score[:, 1]).max() > 0.1
