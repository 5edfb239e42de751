"""A plan that asks for too little noise does not get it: the derived sensitivity grows instead.

The default fit weights the entries of a pass by one over the noise that its plan asks for. Were
the number that goes with them taken from the plan too, noise a hundred times too small would raise
nothing. It is derived from radii and noise, and what is drawn is what the charge says.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from dpmodels.audit.queries import Asked, Kept, drawn_sd, noise_ratio, recorded, sensitivity_ratio
from dpmodels.core.parallel import Parallel
from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.statistics import RankOne
from dpmodels.scoring import rows as engine
from dpmodels.scoring import units as expand_engine
from dpmodels.scoring.pass_plan import Noise, PassPlan, plan_pass
from dpmodels.scoring.rules import LINEAR, TAME
from dpmodels.scoring.units import unit_pass
from dpmodels.sums.ask import Added, Query
from tests.privacy import test_people
from tests.privacy.test_replay import EVENT, XY, Case, tables

P = 5


def last_pass(**changed):
    one_clip = replace(TAME, two_clips="none")
    plan = plan_pass(LINEAR, 2, 0.5, 5000, P, "replace", meat=True, tail=5000, policy=one_clip)
    return replace(plan, noise=replace(plan.noise, **changed)) if changed else plan


def hundredth(plan, *names):
    """The plan with the noise of some parts (or of all) divided by 100."""
    parts = names or [f.name for f in fields(Noise)]
    return replace(
        plan, noise=replace(plan.noise, **{name: getattr(plan.noise, name) / 100 for name in parts})
    )


def drawn(plan):
    """The sd of every entry of a pass, from the production door."""
    statistic = Parallel(plan, P).statistic
    nought = [np.zeros((P, P), dtype=int).astype(object) for _ in statistic.radii]
    added = Added((*nought, np.zeros(P, dtype=int).astype(object)), np.ones(statistic.size))
    query = Query(statistic, Kept())
    one = Asked("pass", query, Gaussian(plan.mu_joint), plan.relation, added, None)
    return drawn_sd(one)[0]


@pytest.mark.oracle
def test_noise_of_the_last_pass():
    """Section 14 of the specification: sd of the score 59.04 at mu = .389, without the ordinary information 58.58."""
    plan = last_pass()
    assert plan.mu_joint == pytest.approx(0.389, abs=5e-4)
    assert drawn(plan)[-P:] == pytest.approx(np.full(P, 58.58), abs=5e-3)
    assert sensitivity(Parallel(plan, P).statistic, "replace", "l2") == pytest.approx(plan.mu_joint, rel=1e-9)
    # of the score's own noise a hundredth: what remains is that of a release of scores alone
    assert drawn(hundredth(plan, "score"))[-P:] == pytest.approx(np.full(P, 53.83), abs=5e-3)


def test_a_hundredth_of_all_noise_changes_nothing_that_is_drawn():
    plan = last_pass()
    assert drawn(hundredth(plan)) == pytest.approx(drawn(plan), rel=1e-12)


@pytest.mark.parametrize("name", ["information", "meat", "score"])
def test_a_hundredth_of_one_noise_is_paid_by_the_others(name):
    """Never below what that part alone would need at the charge: reach over mu of the part."""
    plan = last_pass()
    sd = drawn(hundredth(plan, name))
    statistic = Parallel(plan, P).statistic
    alone = {"information": plan.information**2, "meat": plan.meat**2, "score": plan.clip}
    own = 2.0 if name == "score" else np.sqrt(2.0)
    at = {"information": 0, "meat": statistic.r * (statistic.r + 1) // 2, "score": -1}[name]
    assert sd[at] >= own * alone[name] / plan.mu_joint * (1.0 - 1e-9)


def joint(plan, data):
    """What was asked of scoring passes, in their order."""
    asked = recorded(plan, data).asked
    return [one for one in asked if isinstance(one.query.statistic, RankOne)]


def people_case():
    ids, cells = test_people.base(np.random.default_rng(5))
    return test_people.plan_of("dp_ols", test_people.XY), test_people.table(ids, cells)


def of_case(case):
    plan = case.plan()
    return plan, tables(case, plan)[0]


def rows_case():
    return of_case(Case("dp_ols", "ssp", schema=XY, scoring=True))


def logit_case():
    return of_case(Case("dp_glm", "scoring", schema=EVENT))


def check(before, after):
    """The same charges, the noise that these and the radii want, and no less at the same radii.

    After the first pass a fit that is wrong about its noise goes another way.
    """
    assert len(before) == len(after) > 0
    for a, b in zip(before, after, strict=True):
        assert a.mechanism == b.mechanism
        low, high = noise_ratio(b)
        assert 1.0 - 1e-12 <= low <= high <= 1.0 + 1e-12
        assert sensitivity_ratio(b.query.statistic, b.relation, "l2") <= 1.0 + 1e-12
    first, other = before[0], after[0]
    assert other.query.statistic.radii == first.query.statistic.radii
    assert other.query.statistic.noise != first.query.statistic.noise
    assert other.noisy.sd == pytest.approx(first.noisy.sd, rel=1e-9)
    assert other.noisy.values == pytest.approx(first.noisy.values, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("case", "method"), [(logit_case, "suited")])
def test_a_fit_whose_radii_change_with_a_hundredth_of_the_noise(monkeypatch, case, method):
    plan, data = case()
    before = joint(plan, data)
    plain = getattr(PassPlan, method)
    monkeypatch.setattr(PassPlan, method, lambda self, *args: hundredth(plain(self, *args)))
    check(before, joint(plan, data))


@pytest.mark.parametrize("case", [rows_case, people_case])
def test_a_fit_that_is_planned_with_a_hundredth_of_the_noise(monkeypatch, case):
    """Not of events: their C is by the planned noise, so sums are in other units (test above)."""
    before = joint(*case())
    monkeypatch.setattr(engine, "plan_pass", lambda *a, **how: hundredth(plan_pass(*a, **how)))
    monkeypatch.setattr(
        expand_engine, "unit_pass", lambda *a, **how: hundredth(unit_pass(*a, **how))
    )
    check(before, joint(*case()))


def test_a_part_with_a_radius_and_no_noise_is_refused():
    with pytest.raises(PrivacyBugError, match="no noise"):
        drawn(last_pass(meat=0.0))
