"""Oracles of the prover: numbers that were found by search, and what it refuses."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpmodels.audit.queries import Kept
from dpmodels.errors import PrivacyBugError
from dpmodels.models.linear.moments import split_query
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.proof.prove import LEMMAS, Of, noise_of, rank_sensitivity, sensitivity
from dpmodels.proof.sets import Ball, Blocks, Box, ConvexHull, Interval, OneHot, Simplex
from dpmodels.proof.statistics import (
    ByClass,
    Cells,
    Gram,
    Objective,
    Pair,
    Powers,
    RankOne,
    Ranks,
    Stack,
    Sum,
    Tree,
)
from dpmodels.sums.ask import Ask, Query

CASES = [
    (split_query(4, 3.0, known=True, relation="replace", r2=0.5), "replace", "l2", math.sqrt(18)),
    (Sum(Box(3), count=3.0), "replace", "l2", 2 * math.sqrt(3)),
    (Sum(Box(3)), "replace", "l1", 6.0),
    (Sum(Box(2, low=0)), "replace", "l2", math.sqrt(2)),
    (Sum(Ball(5)), "add-remove", "l1", math.sqrt(5)),
    (Sum(Interval(-1, 3)), "replace", "l2", 4.0),
    (Sum(Interval(-1, 3)), "add-remove", "l2", 3.0),
    (Sum(OneHot(4)), "replace", "l1", 2.0),
    (Sum(Simplex(4, complete=False)), "replace", "l2", math.sqrt(2)),
    (Sum(Blocks(4, ((1, 2, 3),))), "replace", "l2", math.sqrt(3)),  # a number, and a factor twice
    (Sum(Blocks(4, ((1, 2, 3),))), "add-remove", "l1", 2.0),
    (Sum(ConvexHull(Ball(3))), "replace", "l2", 2.0),
    (Gram(Ball(1)), "replace", "l2", 1.0),
    (Gram(Ball(3)), "replace", "l2", math.sqrt(2)),
    (Gram(Box(1, one=True)), "replace", "l2", math.sqrt(8)),
    (Gram(Box(2, one=True)), "replace", "l2", 4.0),
    (Gram(Box(3, one=True)), "replace", "l2", math.sqrt(32)),
    (Pair(), "replace", "l2", 4.0),
    (Powers(1, low=0), "replace", "l2", math.sqrt(3)),
    (Powers(3), "replace", "l2", math.sqrt(12) * (1 + 2.0**-18)),
    (Powers(3), "replace", "l1", 7.0 * (1 + 2.0**-18)),
    (Powers(3, count=1.5, square=0.5), "replace", "l1", 6.0 * (1 + 2.0**-18)),
    (Powers(1, count=0.5, square=0.5), "add-remove", "l1", 2.0 * (1 + 2.0**-18)),
    (ByClass(Sum(Ball(2), count=1.0), 3), "replace", "l2", 2.0),
    (ByClass(Sum(Box(1), count=1.0), 3), "replace", "l1", 4.0),
    (Tree(3, (5, 16, 64)), "replace", "l2", math.sqrt(6)),
    (Objective(2), "replace", "l1", 2 * (2 * math.sqrt(2) + 2)),
    (Stack((Sum(OneHot(2)),) * 3, (1.0,) * 3), "replace", "l2", math.sqrt(6)),
    (Of("class means", (2.0,), 4), "replace", "l2", 2 * math.sqrt(8) * (1 + 2.0**-20)),
    (Of("eigengap", ()), "replace", "l2", 2 * (1 + 2.0**-20)),
    (Of("eigengap", ()), "add-remove", "l2", 1 + 2.0**-20),
]


@pytest.mark.parametrize(("statistic", "relation", "norm", "most"), CASES)
def test_the_reach_is_what_searches_found(statistic, relation, norm, most):
    assert sensitivity(statistic, relation, norm) == pytest.approx(most, rel=1e-8)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_moments_of_a_box_with_a_constant_by_all_corners(d):
    """Largest svec distance of (1, a)(1, a)' and (1, b)(1, b)', by every pair of corners."""
    corners = np.array([(1.0, *c) for c in itertools.product((-1.0, 1.0), repeat=d)])
    grams = np.einsum("ij,ik->ijk", corners, corners)
    worst = max(np.linalg.norm(grams - one, axis=(1, 2)).max() for one in grams[:1])
    assert sensitivity(Gram(Box(d, one=True)), "replace", "l2") == pytest.approx(worst, rel=1e-12)


def test_squares_of_a_factor_by_all_rows():
    """Two numbers and a factor of three dummies, all rows of 0 and 1."""
    factor = [np.zeros(3), *np.eye(3)]
    rows = [np.append(c, f) for c in itertools.product((0.0, 1.0), repeat=2) for f in factor]
    blocks = Blocks(5, ((2, 3, 4),))
    for norm, order in (("l2", 2), ("l1", 1)):
        worst = max(np.linalg.norm(a - b, order) for a in rows for b in rows)
        assert sensitivity(Sum(blocks), "replace", norm) == pytest.approx(worst)
        alone = max(np.linalg.norm(a, order) for a in rows)
        assert sensitivity(Sum(blocks), "add-remove", norm) == pytest.approx(alone)
        classes = max(sensitivity(Sum(blocks), "replace", norm), 2 ** (1 / order) * alone)
        assert sensitivity(ByClass(Sum(blocks), 2), "replace", norm) == pytest.approx(classes)


def test_noise_is_the_reach_over_mu_and_weight():
    means = Sum(Box(2), count=math.sqrt(6))
    sd = noise_of(means, Gaussian(0.5), "replace")
    assert sd == pytest.approx([2 * math.sqrt(2) / 0.5] * 2 + [2 * math.sqrt(2) / 0.5 / 6**0.5])
    assert noise_of(Sum(OneHot(3)), Pure(2.0), "replace") == pytest.approx([1.0] * 3)
    with pytest.raises(PrivacyBugError, match="no noise"):
        noise_of(Sum(OneHot(3)), Approximate(1.0, 1e-6), "replace")


def test_ranks_move_by_whole_steps():
    assert rank_sensitivity(Ranks(Fraction(1, 2))) == 2
    assert rank_sensitivity(Ranks(Fraction(9, 10), groups=True)) == 18
    assert rank_sensitivity(Ranks(Fraction(9, 10), groups=True, unit=256)) == 18 * 256
    assert rank_sensitivity(Ranks(Fraction(1, 2), groups=True, offset=3)) == 4


@pytest.mark.parametrize(
    ("statistic", "relation", "norm"),
    [(Cells((3, 4), (0.6, 0.5)), "replace", "l2"), (Pair(), "replace", "l1"),
     (Powers(1, count=0.5), "replace", "l2"),
     (Objective(2), "replace", "l2"), (Sum(Ball(2)), "some", "l2"), (Sum(Ball(2)), "replace", "l3"),
     (RankOne(2, (1.0,), (0.0,), 1.0, 1.0), "replace", "l2"),
     (RankOne(2, (1.0,), (1.0,), 1.0, 0.0), "replace", "l2"), (Sum(Ball(2, 0.0)), "replace", "l2"),
     (Of("nothing", ()), "replace", "l2"), (Of("log residual", (2.0, 1.0)), "replace", "l2"),
     (Of("class means", (1.0,), 3), "replace", "l1"), (Of("margin", ()), "add-remove", "l1")],
)  # fmt: skip
def test_what_has_no_proof_is_refused(statistic, relation, norm):
    with pytest.raises(PrivacyBugError):
        sensitivity(statistic, relation, norm)


def test_a_query_cannot_ask_for_less_noise_than_is_proved():
    with pytest.raises(PrivacyBugError, match="published size"):
        Query(Sum(OneHot(2)), Kept(), factor=0.5)


def asking(value, statistic):
    run = Run((Step("it", Gaussian(1.0)),), SeededNoise(0))
    return Ask(np.asarray(value), run)("it", Query(statistic, Kept()))


def test_sums_that_are_no_integers_or_of_another_shape_are_refused():
    with pytest.raises(PrivacyBugError, match="not integers"):
        asking([0.5, 1.0], Sum(OneHot(2)))
    with pytest.raises(PrivacyBugError, match="shape"):
        asking([1, 2, 3], Sum(OneHot(2)))
    found = asking([1, 2], Sum(OneHot(2)))
    assert found.sd == pytest.approx([math.sqrt(2)] * 2) and not found.laplace
    assert (found.at_least(0.01) < found.values).all() and (found.at_most(0.01) > found.values).all()


def test_every_lemma_names_a_section_that_is_there():
    from pathlib import Path

    import dpmodels

    root = Path(dpmodels.__file__).parent
    for lemma in LEMMAS.values():
        file, section = lemma.theory
        text = (root / file).read_text(encoding="utf-8")
        assert any(f"{mark}{section}" in text for mark in ("## ", "### ", "**")), lemma
        assert lemma.statement


@pytest.mark.parametrize(
    "made",
    [lambda: Box(2, low=-3), lambda: Box(0), lambda: Box(2, radius=math.inf),
     lambda: Powers(1, low=-2), lambda: Sum(Ball(2), count=-1.0), lambda: Sum(Ball(2), weight=0.0),
     lambda: Sum(Box(2, one=True)), lambda: ByClass(Sum(ConvexHull(Ball(2))), 3),
     lambda: Cells((2, 3), (1.0,)), lambda: Cells((2,), (0.0,)),
     lambda: Stack((Sum(Ball(2)), Gram(Ball(2))), (1.0, 1.0)),
     lambda: Stack((Sum(OneHot(2)),), (1.0, 1.0))],
)  # fmt: skip
def test_shapes_without_a_proof_cannot_be_built(made):
    """Each was taken by the prover for another: noise of its own size would have been too small."""
    with pytest.raises(PrivacyBugError):
        made()


def test_objects_that_are_no_integers_are_refused():
    with pytest.raises(PrivacyBugError, match="not integers"):
        asking(np.array([1.75, 2.0], dtype=object), Sum(OneHot(2)))
    assert asking(np.array([2**70, 1], dtype=object), Sum(OneHot(2))).values[0] > 2**69


def test_the_number_of_units_is_told_where_it_is_public():
    rows = type("Rows", (), {"n": 7})()
    assert Ask(rows, Run((), SeededNoise(0))).n == 7
    with pytest.raises(PrivacyBugError, match="private"):
        _ = Ask(rows, Run((), SeededNoise(0)), "add-remove").n


def test_no_margin_is_claimed_of_geometric_noise():
    run = Run((Step("it", Pure(1.0)),), SeededNoise(0))
    found = Ask(np.array([3, 4]), run)("it", Query(Sum(OneHot(2)), Kept(), whole=True))
    with pytest.raises(PrivacyBugError, match="geometric"):
        found.margin(0.01)


def test_a_threshold_below_that_of_the_step_is_refused():
    run = Run((Step("it", Gaussian(1.0), failure=1e-6),), SeededNoise(0))
    with pytest.raises(PrivacyBugError, match="too often"):
        Ask(np.array([3, 3, 4]), run).bins("it", Kept(), lambda bins: bins, 2.0)
