"""What rule (U) asks: a person adds the same bits in any company, in any order of the people.

Company that a sum over the block would see: linear predictors of hundreds, missing and vast cells.
"""

import functools
from dataclasses import replace

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.models import choice
from dpmodels.models.choice import APART, CategoryModel, Multinomial, ProportionalOdds
from dpmodels.models.panel import FixedPoisson, Intercepts, Variances, without_constant
from dpmodels.scoring.models import Beginning, LeastSquares
from dpmodels.scoring.rules import RARE_LENGTH_OF_UNITS
from dpmodels.scoring.unit_passes import Regression
from dpmodels.sources.people import BlockOfPeople
from tests import one_pass
from tests.unit.models.test_expansions_exact import coordinates_of, planned

BOX = {"x": (-1, 2), "z": (-3, 3)}
PANEL = {"unit": "id", "rows_per_unit": 3}


def categories(verb):
    kind = dp.Ordered(list("abc")) if verb == "dp_polr" else dp.Levels(list("abc"))
    plan = planned(verb, "q ~ x + z", {**BOX, "q": kind}, 300)
    c, classes = coordinates_of(plan), choice._classes(plan.request, plan.design)
    r = choice.ChoiceModel(classes).dimension(c.rank)
    theta = np.linspace(-1.5, 1.0, r)
    return plan, CategoryModel(classes, c, 0.1, theta), theta


def panels(what):
    poisson = what == "counts"
    schema = {**BOX, "y": dp.Count(20) if poisson else (-9, 9)}
    random = what.startswith("intercepts")
    plan = planned(
        "dp_fepois" if poisson else "dp_feols", f"y ~ x + z{'' if random else ' | id'}", schema,
        300, **PANEL, **({"re": "id"} if random else {}),
    )  # fmt: skip
    c = coordinates_of(plan)
    if random:
        mundlak = what == "intercepts"
        r = 2 * c.rank - 1 if mundlak else c.rank
        known = Variances(0.4, 1.0, 1.0, 0.0, 1.0)  # a share of 0.4 goes with the person
        return plan, Intercepts(c, mundlak, 1.0, known), np.linspace(-0.5, 0.5, r)
    c = without_constant(c)
    model = FixedPoisson(c, 3.0, 1.0) if poisson else Regression(LeastSquares(), c, demean=True)
    return plan, model, np.linspace(0.4, -0.3, c.rank)


MODELS = {
    "ordered": functools.partial(categories, "dp_polr"),
    "unordered": functools.partial(categories, "dp_multinom"),
    **{one: functools.partial(panels, one)
       for one in ("effects", "counts", "intercepts", "intercepts alone")},
}  # fmt: skip


def begun(name, stretch=1.0):
    plan, model, theta = MODELS[name]()
    state = Beginning(None, len(theta), None).state(stretch * theta)
    # scales are known, and coordinates are turned: as in a late pass
    W = np.eye(len(theta)) + 0.1 * np.random.default_rng(1).normal(size=(len(theta),) * 2)
    M = np.diag(np.linspace(0.5, 2.0, len(theta)))
    return plan, model, replace(state, W=W, M=M)


def person(plan, rng, m, wild):
    rows = np.ones((plan.design.q, m))
    rows[1], rows[2] = rng.uniform(-1, 2, m), rng.uniform(-3, 3, m)
    rows[-1] = rng.integers(0, 3, m)
    if wild == 1:  # as far as ranges go, all alike
        rows[1], rows[2] = 2.0, -3.0
    if wild == 2:
        rows[rng.integers(1, len(rows)), rng.integers(m)] = rng.choice([np.nan, np.inf, 1e300])
    if wild == 3:
        rows[-1] = rng.choice([-1.0, 0.5, 99.0], m)
    return rows


def expanded(local, rows, counts):
    counts = np.asarray(counts)
    found = one_pass.expanded(local, BlockOfPeople(rows, np.cumsum(counts) - counts, counts))
    scores = np.split(found.score, np.cumsum(found.scores)[:-1], axis=1)
    return scores, np.split(found.information, np.cumsum(found.counts)[:-1], axis=1)


@pytest.mark.parametrize("stretch", [1.0, 100.0])
@pytest.mark.parametrize("name", MODELS)
def test_a_person_adds_the_same_bits_in_any_company(name, stretch):
    """Seed 3; people of 1, 2, 5 and 1000 rows; linear predictors up to some hundreds."""
    plan, model, state = begun(name, stretch)
    local, rng = model.at(state), np.random.default_rng(3)
    some = [person(plan, rng, m, wild) for wild in range(4) for m in (1, 2, 5, 1000)]
    counts = [rows.shape[1] for rows in some]
    for order in (range(16), rng.permutation(16)):
        together = expanded(local, np.hstack([some[i] for i in order]), [counts[i] for i in order])
        for place, i in enumerate(order):
            alone = expanded(local, some[i], counts[i : i + 1])
            for both, one in zip(together, alone, strict=True):
                np.testing.assert_array_equal(both[place], one[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_row_that_makes_no_sense_adds_nothing(name):
    plan, model, state = begun(name)
    local, rng = model.at(state), np.random.default_rng(4)
    rows = person(plan, rng, 5, 0)
    wrong = [(1, np.nan), (2, np.inf), (-1, np.nan)]
    if name in ("ordered", "unordered", "counts"):
        wrong += [(-1, -1.0)] + ([] if name == "counts" else [(-1, 0.5), (-1, 3.0)])
    (plain,), (v,) = expanded(local, rows, [5])
    for place, cell in wrong:
        more = np.hstack([rows, rows[:, :1]])
        more[place, -1] = cell
        (score,), (w,) = expanded(local, more, [6])
        np.testing.assert_allclose(score.sum(axis=1), plain.sum(axis=1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(w @ w.T, v @ v.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_information_is_that_of_the_score(name):
    """``-dS/dtheta``; of classes its mean over them, by their probabilities."""
    plan, model, state = begun(name)
    rng = np.random.default_rng(5)
    rows, counts = person(plan, rng, 40, 0), [8, 1, 11, 20]
    eye = replace(state, W=np.eye(len(state.theta)))

    def score(theta, block):
        found = model.at(replace(eye, theta=theta))
        return np.hstack(expanded(found, block, counts)[0]).sum(axis=1)

    v = np.hstack(expanded(model.at(eye), rows, counts)[1])
    if name in ("ordered", "unordered"):
        p, grad = _probabilities(model, state.theta, rows)
        want = sum((g / q) @ g.T for g, q in zip(grad, p, strict=True))
        np.testing.assert_allclose(v @ v.T, want, rtol=1e-8, atol=1e-10)
        return
    if name == "counts":  # without weights, which move with theta
        plain = type(model)(model.coordinates, model.rate)
        v = np.hstack(expanded(plain.at(eye), rows, counts)[1])
        model = plain
    h, slope = 1e-6, []
    for step in h * np.eye(len(state.theta)):
        ends = score(state.theta + step, rows) - score(state.theta - step, rows)
        slope.append(-ends / (2 * h))
    np.testing.assert_allclose(v @ v.T, np.array(slope), rtol=1e-5, atol=1e-6)


def _probabilities(model, theta, rows):
    matrix, shift = model.coordinates.affine
    return choice.at_public_rows(model.classes, theta, matrix @ rows + shift)


# -- ordered classes: what noise may not do to thresholds, and to C ---------------------------
def test_thresholds_keep_a_part_of_their_first_distance():
    classes, start = ProportionalOdds(4), np.array([-2.0, 0.0, 1.0, 0.3])
    found = classes.constrained(np.array([1.5, 1.4, -7.0, 0.1]), start)
    np.testing.assert_allclose(found[:3], [1.5, 1.5 + 2.0 * APART, 1.5 + 3.0 * APART])
    assert found[3] == 0.1
    np.testing.assert_array_equal(classes.constrained(start, start), start)
    np.testing.assert_array_equal(Multinomial(3).constrained(start, 0 * start), start)


@pytest.mark.parametrize("name", ["ordered", "unordered"])
def test_the_clip_is_no_shorter_than_the_scores_of_a_rare_class(name):
    """Whitened by its own meat: of 4 % about five; never more than the share lets expect."""
    _, model, state = begun(name)
    rare = np.array(state.theta)
    first = 0.5 * np.log(0.04 / 0.96)
    K = model.classes.K
    rare[:] = 0.0
    if name == "ordered":
        rare[: K - 1] = [2 * first, 0.0]
    else:
        a = model.coordinates.constant
        rare[: len(a)] = np.log(0.08) * a
    rng = np.random.default_rng(6)
    x = np.ones((4, 20_000))
    x[1], x[2] = rng.uniform(-1, 2, 20_000), rng.uniform(-3, 3, 20_000)
    p, grad = _probabilities(model, rare, x)
    J = sum((g / q) @ g.T for g, q in zip(grad, p, strict=True)) / 20_000
    W = np.linalg.inv(np.linalg.cholesky(J))
    at = replace(state, theta=rare, W=W)
    long = CategoryModel(model.classes, model.coordinates, 0.04, rare).typical_long(at)
    assert 4.0 < long < 6.5
    led = replace(state, theta=rare, W=50.0 * W)  # by coordinates of noise
    most = CategoryModel(model.classes, model.coordinates, 0.04, rare).typical_long(led)
    assert most == pytest.approx(RARE_LENGTH_OF_UNITS * np.sqrt(25.0 + len(rare)))
