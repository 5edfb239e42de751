"""Contributions of hostile rows and people to the sums of ``dp_ate``: inside their clip sets."""

import numpy as np
import pytest

from dpmodels.core.units import LengthsOfMeans, Masses, MeansInBalls
from dpmodels.families import LINKS
from dpmodels.models.treatment.facts import Fitted, Influence
from dpmodels.models.treatment.rows import BalanceRows, EffectRows, OverlapRows, SquareRows
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import sums_of, units_of

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


def alone(units):
    """Yield the rows of each unit, as units."""
    for start, many in zip(units.starts, units.counts, strict=True):
        rows = units.rows[:, start : start + many].copy()
        yield BlockOfPeople(rows, np.array([0]), np.array([many]))


def effects(at):
    """Return the sets of the effect and the formulas into them."""
    effect = EffectRows(at, (0.5, -0.5), 2.0, 0.3)
    turns = tuple(np.random.default_rng(5).normal(size=(2, 3)) for _ in range(3))
    weights = at.weights is not None
    balance = BalanceRows(
        at, (2, 3, 4 + weights), np.zeros(3), np.array([1.0, 1.0, 3.0]), (3.0, 2.0)
    )
    balls = ("difference", 1, 1.5, 2.0), ("mean", 1, 0.7, 2.0), ("slopes", effect.width, 0.2, 2.0)
    return {
        "sums": (MeansInBalls(*balls), effect),
        "balance": (MeansInBalls(("balance", balance.size, 2.0, 1.0)), balance),
        "squares": (
            MeansInBalls(("squares", 2, 4.0, 1.0), products=True),
            SquareRows(effect, turns, (0.3, 0.4)),
        ),
        "lengths": (LengthsOfMeans("a", "b"), effect.lengths),
        "overlap": (Masses(10), OverlapRows(at, np.linspace(0.1, 0.9, 4))),
    }


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("link", ["identity", "logit", "log"])
@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_contributions_are_in_their_sets(estimand, link, weights):
    rng = np.random.default_rng(5)
    of = effects(influence(estimand, link, weights))
    for _ in range(4):
        block = hostile(rng, 60, weights)
        starts = np.unique(np.append(0, rng.integers(0, 60, 20)))
        people = BlockOfPeople(block, starts, np.diff(np.append(starts, 60)))
        for units in (units_of(block), people):
            for unit in alone(units):
                for name in ("sums", "balance"):
                    for part in sums_of(*of[name], [unit]).arrays:
                        assert int((part * part).sum()) <= STEPS**2
                (products,) = sums_of(*of["squares"], [unit]).arrays
                assert 0 <= int(np.trace(products)) <= STEPS**2
                counts = sums_of(*of["lengths"], [unit])
                assert set(counts.sum(axis=1).tolist()) <= {0, 1}
                masses = sums_of(*of["overlap"], [unit])
                assert (masses >= 0).all() and masses.sum() <= STEPS


@pytest.mark.parametrize("estimand", ["ATE", "ATT"])
def test_a_unit_is_a_function_of_its_own_rows(estimand):
    rng = np.random.default_rng(6)
    block = hostile(rng, 30, True)
    for into, formula in effects(influence(estimand, "logit", True)).values():
        def flat(blocks, into=into, formula=formula):
            found = sums_of(into, formula, blocks)
            return np.concatenate([np.ravel(x) for x in getattr(found, "arrays", (found,))])

        whole = flat([block.copy()])
        assert (whole == sum(flat([unit]) for unit in alone(units_of(block)))).all()


def test_one_person_with_all_its_mass_in_a_cell():
    overlap = OverlapRows(influence("ATE", "identity", False), np.linspace(0.1, 0.9, 5))
    block = np.tile(np.array([[1.0], [1.0], [0.2], [0.1], [1.0]]), (1, 7))
    people = BlockOfPeople(block, np.array([0]), np.array([7]))
    assert STEPS - 7 <= sums_of(Masses(12), overlap, [people]).sum() <= STEPS
