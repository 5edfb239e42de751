"""Contributions of hostile rows and people to the sums of ``dp_ate``: inside their clip sets."""

import numpy as np
import pytest

from dpmodels.core.own import units_of
from dpmodels.families import LINKS
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.rows import (
    BalanceRows,
    EffectRows,
    EffectSums,
    OverlapRows,
    SquareRows,
    lengths,
)
from dpmodels.sources.people import BlockOfPeople

STEPS = 2**20
WILD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 3e-9, -7.5, 0.0, 1.0]


def influence(estimand, link, weights):
    rng = np.random.default_rng(3)

    def fitted():
        root = rng.normal(size=(3, 3))
        return Fitted((0, 2, 3), 4 * rng.normal(size=3), root @ root.T, *[np.eye(3)] * 3)

    place = 4 if weights else None
    return Influence(
        estimand, 1, place, 2.0, fitted(), (0.1, 0.9), (fitted(), fitted()), LINKS[link], 6.0
    )


def hostile(rng, m, weights):
    """Return a block of rows: corners of the box, outside it, and cells that are no numbers."""
    block = np.vstack(
        [
            np.ones(m), rng.integers(0, 2, m).astype(float), rng.choice([-1.0, 1.0], (2, m)),
            *([rng.uniform(0, 2, m)] if weights else []), rng.choice([-3.0, 0.0, 6.0], m),
        ]
    )  # fmt: skip
    for _ in range(m):
        block[rng.integers(1, len(block)), rng.integers(m)] = WILD[rng.integers(len(WILD))]
    return block


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("link", ["identity", "logit", "log"])
@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_contributions_are_in_their_sets(estimand, link, weights):
    rng = np.random.default_rng(5)
    at = influence(estimand, link, weights)
    effect = EffectRows(at, (0.5, -0.5), 2.0, 0.3)
    sums = EffectSums(effect, (1.5, 0.7, 0.2))
    turns = tuple(rng.normal(size=(2, 3)) for _ in range(3))
    squares = SquareRows(effect, turns, (0.3, 0.4), 4.0)
    places = (2, 3, 4 + weights)
    balance = BalanceRows(at, places, np.zeros(3), np.array([1.0, 1.0, 3.0]), (3.0, 2.0), 2.0)
    overlap = OverlapRows(at, np.linspace(0.1, 0.9, 5))
    with np.errstate(all="ignore"):
        for _ in range(40):
            block = hostile(rng, 60, weights)
            starts = np.unique(np.append(0, rng.integers(0, 60, 20)))
            people = BlockOfPeople(block, starts, np.diff(np.append(starts, 60)))
            for units in (units_of(block), people):
                for part in (*sums.of(units), squares.of(units), balance.of(units)):
                    integers = part.astype(object)
                    assert all(float(x).is_integer() for x in part.ravel())
                    lengths_ = (integers * integers).sum(axis=0)
                    assert max(int(v) for v in lengths_) <= STEPS**2
                masses = overlap.of(units)
                assert (masses >= 0).all()
                assert masses.sum() <= STEPS * len(units.counts)
                counts = lengths([people.rows] if units is not people else [people], effect)
                assert all(0 <= int(c.sum()) <= len(units.counts) for c in counts)


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_a_unit_is_a_function_of_its_own_rows(estimand):
    rng = np.random.default_rng(6)
    at = influence(estimand, "logit", True)
    sums = EffectSums(EffectRows(at, (0.5, -0.5), 2.0, 0.3), (1.5, 0.7, 0.2))
    with np.errstate(all="ignore"):
        block = hostile(rng, 30, True)
        whole = sums.of(units_of(block))
        for i in range(30):
            alone = sums.of(units_of(block[:, i : i + 1].copy()))
            for a, b in zip(whole, alone, strict=True):
                assert np.array_equal(a[:, i], b[:, 0])


def test_one_person_with_all_its_mass_in_a_cell():
    at = influence("ATE", "identity", False)
    overlap = OverlapRows(at, np.linspace(0.1, 0.9, 5))
    block = np.tile(np.array([[1.0], [1.0], [0.2], [0.1], [1.0]]), (1, 7))
    people = BlockOfPeople(block, np.array([0]), np.array([7]))
    assert STEPS - 7 <= overlap.of(people).sum() <= STEPS
