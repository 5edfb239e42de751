"""Sensitivity of the passes of every model, on hostile neighbours, and the mutants it must catch."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest

from dpmodels.core import parallel as sums
from dpmodels.families import FAMILIES, LINKS
from dpmodels.proof.sets import STEPS
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import Expectile, Huber, Quantile, State, Traits
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rules import BOUNDED, LINEAR, MEANS
from dpmodels.sums.scaling import UnitScale
from tests.one_pass import ScorePass

P = 3
MODELS = {
    "logit": (MeanModel.of(FAMILIES["binomial"], LINKS["logit"]), MEANS),
    "probit": (MeanModel.of(FAMILIES["binomial"], LINKS["probit"]), MEANS),
    "cloglog": (MeanModel.of(FAMILIES["binomial"], LINKS["cloglog"]), MEANS),
    "poisson": (MeanModel.of(FAMILIES["poisson"], LINKS["log"]), MEANS),
    "gamma": (MeanModel.of(FAMILIES["gamma"], LINKS["log"]), MEANS),
    "nb": (MeanModel.of(FAMILIES["negative_binomial"], LINKS["log"]), MEANS),
    "quantile": (Quantile(tau=0.2), BOUNDED),
    "huber": (Huber(k=1.0), LINEAR),
    "expectile": (Expectile(tau=0.9), LINEAR),
}


def centre(model, p=P, theta=0.0, weights=None):
    rng = np.random.default_rng(0)
    G = rng.normal(size=(p, p))
    W = G @ G.T / p + 0.05 * np.eye(p)
    state = State(theta * rng.normal(size=p), W, 0.3, np.eye(p), nuisance=0.5)
    q = p + 1 + (weights is not None)
    unit = UnitScale(np.ones(q), np.zeros(q), False)
    return Centre(
        unit, np.eye(p), state.theta, W, state.phi, model.evaluate(state), model.of_residual,
        weights=weights,
    )  # fmt: skip


def pass_of(rules, k, relation, p=P):
    return plan_pass(rules, k, 0.3, 500, p, relation, meat=True, tail=500, weighted=True)


def rows_of(model, rng, p, m, plan, where):
    """Rows of any size and every kind of response; half of them at the radii."""
    X = rng.normal(size=(p + 1, m)) * 10.0 ** rng.uniform(-3, 4, size=m)
    at = rng.random(m) < 0.6
    e = rng.normal(size=(p, m))
    e *= plan.information * 10.0 ** rng.uniform(0, 2, size=m) / np.linalg.norm(e, axis=0)
    X[:-1, at] = np.linalg.solve(where.W, e)[:, at]
    if model.of_residual:
        X[-1] = where.theta @ X[:-1] + rng.choice([1e-9, 0.3, 50.0, 1e6], m) * rng.choice(
            [-1, 1], m
        )
    elif model.family.is_event:
        X[-1] = rng.integers(0, 2, m)
    else:
        X[-1] = rng.choice([0.0, 1.0, 7.0, 1e6], m)
    X[-1, rng.random(m) < 0.05] = np.nan
    X[rng.integers(p), rng.random(m) < 0.03] = np.inf
    X[-1, rng.random(m) < 0.03] = -2.5  # no count, no event
    return X


def images(plan, where, X):
    """What one row adds to the joint query, in units of its noise; scale; bins."""
    one = ScorePass(plan, where)
    out, scale, bins = [], [], []
    upper = np.triu_indices(X.shape[0] - 1 - (where.weights is not None), 1)
    for i in range(X.shape[1]):
        total = one.sums([X[:, [i]].copy()])
        parts = []
        for name in ("information", "meat"):
            matrix = getattr(total, name)
            if matrix is not None:
                unit = (getattr(plan, name) / STEPS) ** 2 / getattr(plan.noise, name)
                M = np.asarray(matrix, dtype=float) * unit
                parts += [np.diag(M), math.sqrt(2.0) * M[upper]]
        unit = plan.clip / STEPS / plan.noise.score
        parts.append(np.asarray(total.score, dtype=float) * unit)
        out.append(np.concatenate(parts))
        scale.append(total.scale)
        bins.append(total.bins)
    return np.array(out), np.array(scale), np.array(bins)


def moved(images, relation):
    if relation != "replace":
        return float(np.linalg.norm(images, axis=1).max())
    square = np.sum(images**2, axis=1)
    return math.sqrt(float((square[:, None] + square - 2 * images @ images.T).max()))


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("kind", ["middle", "last"])
@pytest.mark.parametrize("name", MODELS)
def test_one_row_moves_the_sums_by_no_more_than_is_charged(name, kind, relation):
    """Seed 1, deterministic: each pair of rows as neighbours."""
    model, rules = MODELS[name]
    plan = pass_of(rules, 1 if kind == "middle" else len(rules.passes) - 1, relation)
    where = centre(model)
    X = rows_of(model, np.random.default_rng(1), P, 90, plan, where)
    joint, scale, bins = images(plan, where, X)
    assert np.isfinite(joint).all()
    far = moved(joint, relation)
    assert far <= plan.mu_joint
    # the rows are bad enough to tell (the kernel and a bounded psi never fill both balls at once)
    assert far > (0.6 if name in ("quantile", "huber") else 0.8) * plan.mu_joint
    if plan.mu_scale:
        assert scale.min() >= 0 and scale.max() <= STEPS
    if plan.mu_histogram:
        assert bins.sum(axis=1).max() == 1


@pytest.mark.parametrize("name", ["logit", "poisson", "quantile"])
def test_weights_of_rows_change_no_bound(name):
    model, rules = MODELS[name]
    plan, where = pass_of(rules, len(rules.passes) - 1, "replace"), centre(model, weights=P)
    rng = np.random.default_rng(2)
    X = rows_of(model, rng, P, 90, plan, where)
    X = np.insert(X, P, rng.choice([0.0, 1e-6, 1.0, 1e8], 90), axis=0)
    joint, _, _ = images(plan, where, X)
    assert np.isfinite(joint).all() and moved(joint, "replace") <= plan.mu_joint


def test_a_score_on_its_own_lattice_is_no_longer_than_the_clip():
    model, rules = MODELS["poisson"]
    plan, where = pass_of(rules, 4, "replace"), centre(model)
    X = rows_of(model, np.random.default_rng(3), P, 300, plan, where)
    longest = 0
    for i in range(X.shape[1]):
        s = [int(v) for v in ScorePass(plan, where).sums([X[:, [i]].copy()]).score]
        longest = max(longest, sum(v * v for v in s))
    assert 0.999 * 2**40 < longest <= 2**40


@pytest.mark.parametrize("name", ["logit", "quantile", "huber"])
def test_smaller_radii_keep_the_charge(name):
    """Radii cut to what the declared box needs (theory.md, 5.6): noise falls, mu stays."""
    model, rules = MODELS[name]
    plan, where = pass_of(rules, len(rules.passes) - 1, "replace"), centre(model)
    cut = Traits.of(model)._replace(outcomes=None)  # no weights before the response is seen
    usual = plan.suited(0.0, cut, plan)
    small = plan.suited(0.0, cut, plan, (0.4 * plan.information, 0.2 * usual.clip))
    assert small.whole and small.mu_joint == plan.mu_joint
    assert small.noise.score == pytest.approx(0.2 * usual.noise.score)
    assert small.noise.information == pytest.approx(0.16 * plan.noise.information)
    X = rows_of(model, np.random.default_rng(1), P, 90, plan, where)
    assert moved(images(small, where, X)[0], "replace") <= plan.mu_joint
    assert plan.suited(0.0, cut, plan, (2.0 * plan.information, 2.0 * usual.clip)) == usual


@pytest.mark.parametrize("weighted", [False, True])
def test_the_longest_row_of_a_box_is_not_exceeded(weighted):
    """At 2000 random corners of the box, with dummies and a product."""
    import dpmodels as dp
    from dpmodels.formula.build import build_design
    from dpmodels.scoring.coordinates import longest_row, public_coordinates

    schema = dp.Schema(
        x=dp.Real(-2, 5), z=dp.Real(1, 3), g=dp.Levels(["a", "b", "c"]), y=dp.Real(0, 1),
        w=dp.Real(0, 2),
    )  # fmt: skip
    weights = "w" if weighted else None
    design = build_design("y ~ x * z + g", schema, weights=weights, aside=True)
    coordinates = public_coordinates(design)
    rng = np.random.default_rng(0)
    W = rng.normal(size=(coordinates.rank, coordinates.rank))
    m = 2000
    block = np.zeros((design.q, m))
    cells = {
        "x": rng.choice([-2.0, 5.0], m), "z": rng.choice([1.0, 3.0], m),
        "g": rng.integers(0, 3, m).astype(np.int32), "y": np.zeros(m), "w": np.full(m, 2.0),
    }  # fmt: skip
    design.fill({k: cells[k] for k in design.variables}, block)
    p = design.p
    unit = coordinates.unit
    z = block[:p] * unit.scale[:p, None] + unit.shift[:p, None]
    longest = np.linalg.norm(W @ coordinates.W0 @ z, axis=0).max()
    assert 0.3 * longest_row(design, coordinates, W) < longest
    assert longest <= longest_row(design, coordinates, W) * (1 + 1e-12)


def test_an_impossible_response_is_the_zero_row():
    model, rules = MODELS["poisson"]
    plan, where = pass_of(rules, 4, "replace"), centre(model)
    for y in (-1.0, -0.5, math.nan, math.inf):
        total = ScorePass(plan, where).sums([np.array([[1.0], [1.0], [1.0], [y]])])
        assert not any(total.score) and not total.information.any() and sum(total.bins) == 0


def test_a_negative_weight_of_information_counts_as_none():
    """With signs the bound would be 2 R^2 (theory.md, 2.2)."""
    model, rules = MODELS["expectile"]
    plan = pass_of(rules, 2, "replace")
    where = replace(centre(model), evaluate=lambda x, _: (x, -np.ones_like(x)))
    total = ScorePass(plan, where).sums([np.array([[5.0], [0.0], [0.0], [1.0]])])
    assert not total.information.any() and any(total.score)


MUTANTS = {
    "scores at half their reach": lambda plan: replace(
        plan, noise=replace(plan.noise, score=plan.noise.score / 2)
    ),
    "root two lost": lambda plan: replace(
        plan, noise=replace(plan.noise, information=plan.noise.information / math.sqrt(2.0))
    ),
    "an end beyond the ball": lambda plan: plan,
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", ["logit", "poisson", "expectile"])
def test_mutants_are_caught(name, mutant, monkeypatch):
    model, rules = MODELS[name]
    plan, where = pass_of(rules, len(rules.passes) - 1, "replace"), centre(model)
    X = rows_of(model, np.random.default_rng(1), P, 90, plan, where)
    if mutant == "an end beyond the ball":
        end = sums.end_along
        monkeypatch.setattr(sums, "end_along", lambda *given: np.trunc(1.3 * end(*given)))
    joint, _, _ = images(MUTANTS[mutant](plan), where, X)
    assert moved(joint, "replace") > plan.mu_joint


@pytest.mark.parametrize("name", MODELS)
def test_sums_do_not_depend_on_order_or_parts(name):
    model, rules = MODELS[name]
    plan, where = pass_of(rules, len(rules.passes) - 1, "add-remove"), centre(model, theta=0.3)
    X = rows_of(model, np.random.default_rng(4), P, 301, plan, where)
    one = ScorePass(plan, where)
    whole = one.sums([X.copy()])
    parts = one.sums([X[:, 77:].copy()]) + one.sums([X[:, :77].copy()])
    assert (whole.information == parts.information).all() and (whole.score == parts.score).all()
    assert (whole.meat == parts.meat).all() and whole.bins == parts.bins


@pytest.mark.parametrize("name", ["logit", "poisson", "expectile"])
def test_lengths_beyond_the_clip_end_at_it(name, monkeypatch):
    """A wrong f does not take a weighted score of one clip out of its ball: the end is of every map."""
    model, rules = MODELS[name]
    plan, where = pass_of(rules, len(rules.passes) - 1, "replace"), centre(model)
    plan = dataclasses.replace(plan, policy=dataclasses.replace(plan.policy, two_clips="none"))
    X = rows_of(model, np.random.default_rng(1), P, 90, plan, where)
    beyond = lambda self, psi, norm, long: (1.3 * np.sign(psi) * norm,)  # noqa: E731
    monkeypatch.setattr(sums.Parallel, "blocks", beyond)
    joint, _, _ = images(plan, where, X)
    assert moved(joint, "replace") <= plan.mu_joint
