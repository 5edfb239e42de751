"""Rows weighed before their response is seen: no score is cut, and no set is left."""

from dataclasses import replace

import numpy as np
import pytest

from dpmodels.core.parallel import Parallel
from dpmodels.core.rows import Rows
from dpmodels.families import FAMILIES, LINKS
from dpmodels.proof.sets import STEPS
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import LeastSquares, Quantile
from dpmodels.scoring.passes import row_of
from dpmodels.scoring.rules import BOUNDED, LINEAR, MEANS
from tests.one_pass import ScorePass
from tests.privacy.test_family_sensitivity import P, centre, moved, pass_of

MODELS = {
    "events": (MeanModel.of(FAMILIES["binomial"], LINKS["logit"]), MEANS),
    "cloglog": (MeanModel.of(FAMILIES["binomial"], LINKS["cloglog"]), MEANS),
    "quantile": (Quantile(tau=0.2), BOUNDED),
    "two values": (LeastSquares(ends=(0.0, 1.0), bounded=True, outcomes=(0.0, 1.0)), LINEAR),
}
#: Cells of hostile rows; responses are of these and of [0, 1].
ODD = (0.0, 1e-300, 1e12, -1e12, np.inf, -np.inf, np.nan, 1.0, -1.0)


def weighed(name, relation="replace", weights=False):
    """Return (plan, centre) of a last pass that weighs rows."""
    model, rules = MODELS[name]
    plan = pass_of(rules, len(rules.passes) - 1, relation)
    plan = plan.suited(0.5 * plan.clip, model, plan)
    where = centre(model, theta=0.3, weights=P if weights else None)
    return plan, replace(where, outcomes=model.outcomes)


def hostile(rng, m, weights):
    """Return rows (q, m) of every size, with odd cells, responses and case weights."""
    X = rng.normal(size=(P + 1, m)) * 10.0 ** rng.uniform(-3, 3, size=m)
    X[-1] = rng.choice([0.0, 1.0, 0.4, 1.5, -2.0, 1e12, np.nan, -np.inf], m, p=[0.3, 0.3] + [0.4 / 6] * 6)
    odd = rng.random((P, m)) < 0.03
    X[:-1][odd] = rng.choice(ODD, int(odd.sum()))
    if weights:
        X = np.insert(X, P, rng.choice([0.0, 1e-6, 1.0, 40.0, -3.0, 1e12, np.nan], m), axis=0)
    return X


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_no_row_adds_a_score_longer_than_the_clip(name, weights):
    """theory 5.11: 2 700 single rows a case, in exact integers; seed 1."""
    plan, where = weighed(name, weights=weights)
    one, X = ScorePass(plan, where), hostile(np.random.default_rng(1), 2_700, weights)
    longest = 0
    for i in range(X.shape[1]):
        score = [int(v) for v in one.sums([X[:, [i]].copy()]).score]
        longest = max(longest, sum(v * v for v in score))
    assert 0.999 * STEPS**2 < longest <= STEPS**2


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_possible_responses_are_never_cut(name, weights):
    """Before the set clips: with a response that the model allows ``|s| <= C``; seed 2."""
    plan, where = weighed(name, weights=weights)
    rng = np.random.default_rng(2)
    X = hostile(rng, 20_000, weights)
    X[-1] = rng.normal(size=20_000) * 30.0 if name == "quantile" else rng.integers(0, 2, 20_000)
    into = Parallel(plan, P)
    with np.errstate(all="ignore"):
        _, psi, omega, length, present = into.vectors(*row_of(where, into.step, into.plan.clip_of_weights)[0](Rows(X)))
    norm = into.norms(psi, length)[present]
    assert norm.max() <= plan.clip and (norm > 0.9 * plan.clip).mean() > 0.05
    assert omega.min() >= 0.0 or weights


@pytest.mark.parametrize("name", MODELS)
def test_a_weight_does_not_see_the_response(name):
    """Rows with the same predictors have the same weight whatever their response is, up to rounding."""
    plan, where = weighed(name)
    X = np.random.default_rng(3).normal(size=(P + 1, 500)) * 20.0
    each = [
        row_of(where, Parallel(one, P).step, one.clip_of_weights)[0]
        for one in (plan, replace(plan, uncut=False))
    ]
    found = []
    for y in (0.0, 1.0):
        X[-1] = y
        weighed_psi, psi = (row(Rows(X.copy()))[1].numbers[0] for row in each)
        found.append(weighed_psi / psi)
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0].min() < 0.5 and found[0].max() <= 1.0


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("name", MODELS)
def test_one_weighed_row_moves_the_sums_by_no_more_than_is_charged(name, relation):
    """Each pair of 90 hostile rows as neighbours; seed 4."""
    from tests.privacy.test_family_sensitivity import images

    plan, where = weighed(name, relation)
    X = hostile(np.random.default_rng(4), 90, False)
    joint, _, bins = images(plan, where, X)
    assert np.isfinite(joint).all() and bins.sum(axis=1).max() == 1
    assert 0.5 * plan.mu_joint < moved(joint, relation) <= plan.mu_joint
