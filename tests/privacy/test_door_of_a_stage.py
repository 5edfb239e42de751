"""What a stage may do at its door, and what is refused: nothing is released then."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpmodels import door as private
from dpmodels.audit.queries import Kept
from dpmodels.errors import PrivacyBugError
from dpmodels.places import Windows
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step, eps_gdp
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import FLOAT_NOTE, Run, own_proof
from dpmodels.proof.prove import Of, noise_of, sensitivity
from dpmodels.proof.sets import Ball, Box, Interval, NuclearBall, OneHot
from dpmodels.proof.statistics import Cells, Gram, RankOne, Ranks, Sum
from dpmodels.sources.people import PeopleRows
from dpmodels.sources.rows import Rows
from dpmodels.sources.tables import DictSource
from dpmodels.sums.ask import Added, Ask, Moments, Query, Read, set_of
from dpmodels.sums.rowmap import OneFirst, RowMap, WithOne
from dpmodels.sums.scaling import UnitScale
from dpmodels.units import Person

DELTA = 1e-6
VOTES = Query(Sum(OneHot(3)), Kept())
TABLE = np.array([4, 5, 6], dtype=object)


@dataclass(frozen=True)
class Asking:
    """A plan of some steps, and nothing else."""

    guarantee: Guarantee
    n: int | None = 15
    advice: tuple[str, ...] = ()


def plan_of(*steps, notes=(), relation="replace"):
    mu = float(np.sqrt(sum(s.mechanism.mu**2 for s in steps if isinstance(s.mechanism, Gaussian))))
    eps = eps_gdp(mu, DELTA) if mu else 0.0
    eps += sum(s.mechanism.eps for s in steps if not isinstance(s.mechanism, Gaussian))
    return Asking(Guarantee(steps, eps * (1 + 1e-9) + 1e-9, DELTA, relation, notes=notes))


ONE = Step("votes", Gaussian(0.5))
TWO = Step("more votes", Gaussian(0.5))


def run(stage, *steps, **how):
    return private.released(
        private.opened("a test", plan_of(*(steps or (ONE,)), **how), None, None), stage, TABLE
    )


def test_a_stage_that_asks_for_what_was_planned_gets_it():
    found = run(lambda plan, ask: ask("votes", VOTES))
    assert found.values.shape == (3,)
    assert found.sd == pytest.approx(np.full(3, np.sqrt(2.0) / 0.5))


def twice(plan, ask):
    return ask("votes", VOTES), ask("votes", VOTES)


def unplanned(plan, ask):
    return ask("votes", VOTES), ask("voters", VOTES)


def one_of_two(plan, ask):
    return ask("votes", VOTES)


def nothing(plan, ask):
    return np.zeros(3)


@pytest.mark.parametrize(
    ("stage", "steps", "told"),
    [
        (twice, (ONE,), "'votes' is not in the plan, or was drawn already"),
        (unplanned, (ONE,), "'voters' is not in the plan"),
        (one_of_two, (ONE, TWO), "left planned steps undrawn: more votes"),
        (nothing, (ONE,), "left planned steps undrawn: votes"),
        (nothing, (replace(ONE, reply_test=True),), "left planned steps undrawn: votes"),
    ],
)
def test_a_stage_that_keeps_to_no_plan_releases_nothing(stage, steps, told):
    with pytest.raises(PrivacyBugError, match=told):
        run(stage, *steps)


def test_a_second_answer_is_never_drawn():
    """Whoever swallows the error has one answer all the same."""
    drawn = []

    def stage(plan, ask):
        drawn.append(ask("votes", VOTES))
        try:
            drawn.append(ask("votes", VOTES))
        except PrivacyBugError:
            return drawn[0]

    assert run(stage) is drawn[0] and len(drawn) == 1


def test_what_may_be_left_undrawn():
    may = replace(TWO, conditional=True)
    assert run(one_of_two, ONE, may).values.shape == (3,)
    # behind a test, and there was no reply
    tested = replace(TWO, reply_test=True)
    assert run(lambda plan, ask: ask("votes", VOTES) and None, ONE, tested) is None


@pytest.mark.parametrize("found", [object(), (object(),), [1.0]])
def test_a_reply_does_not_excuse_a_step_that_was_left(found):
    with pytest.raises(PrivacyBugError, match="undrawn"):
        run(lambda plan, ask: found, replace(ONE, reply_test=True))


def test_float_noise_wants_a_note():
    def stage(plan, ask):
        return ask._run.float_normals("votes", np.zeros(3), 1.0)

    with pytest.raises(PrivacyBugError, match="float noise was drawn and no note"):
        run(stage)
    assert run(stage, notes=(FLOAT_NOTE,)).shape == (3,)


def test_one_charge_is_good_for_one_stage():
    door = private.opened("a test", plan_of(ONE), None, None)
    private.released(door, lambda plan, ask: ask("votes", VOTES), TABLE)
    with pytest.raises(PrivacyBugError, match="charged once"):
        private.released(door, lambda plan, ask: ask("votes", VOTES), TABLE)


def test_the_error_says_nothing_of_the_table():
    with pytest.raises(PrivacyBugError) as caught:
        run(twice)
    told = repr(caught.value) + repr(caught.value.__context__) + repr(caught.value.__cause__)
    assert not any(str(v) in told for v in TABLE)


# --- queries that are none ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "told"),
    [
        (Query(Sum(OneHot(4)), Kept()), "shape"),
        (Query(Sum(OneHot(3)), Kept(), lambda sums: Added(sums.astype(float))), "not integers"),
        (Query(Sum(Ball(3, 0.0)), Kept()), "no sensitivity"),
        (Query(Sum(Ball(3, np.inf)), Kept()), "no sensitivity"),
        (Query(Sum(Ball(3, np.nan)), Kept()), "no sensitivity"),
        (Query(Cells((3,), (1.1,), counts=True), Kept()), "more than 1"),
        (Query(Of("no such lemma", ()), Kept()), "no lemma"),
        (Query(Gram(OneHot(2)), Kept()), "no proof"),  # type: ignore[arg-type]
    ],
)
def test_a_query_without_a_proof_draws_nothing(query, told):
    with pytest.raises(PrivacyBugError, match=told):
        run(lambda plan, ask: ask("votes", query))


def test_a_step_of_another_kind_is_no_step_of_a_query():
    step = Step("votes", Approximate(1.0, 0.0))
    with pytest.raises(PrivacyBugError, match="not for a query"):
        run(lambda plan, ask: ask("votes", VOTES), step)


@pytest.mark.parametrize("factor", [0.99, 0.0, -1.0, np.nan])
def test_noise_of_a_published_size_is_not_smaller_than_proved(factor):
    with pytest.raises(PrivacyBugError, match="smaller than proved"):
        Query(Sum(OneHot(3)), Kept(), factor=factor)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
def test_a_part_of_a_pass_has_noise(noise):
    with pytest.raises(PrivacyBugError):
        sensitivity(RankOne(2, (1.0,), (noise,), 1.0, 1.0), "replace", "l2")


@pytest.mark.parametrize("ends", [(1, 5), (-5, -1)])
def test_a_void_unit_is_in_every_interval(ends):
    with pytest.raises(PrivacyBugError, match="does not hold 0"):
        Interval(*ends)


@pytest.mark.parametrize("relation", ["bounded", "", "Replace"])
def test_relations_are_two(relation):
    with pytest.raises(PrivacyBugError, match="no sensitivity for relation"):
        sensitivity(Sum(OneHot(3)), relation, "l2")


def test_noise_is_of_two_kinds():
    with pytest.raises(PrivacyBugError, match="no noise"):
        noise_of(Sum(OneHot(3)), Approximate(1.0, 0.0), "replace")


# --- what was read ------------------------------------------------------------------------------
def rows_of(people):
    """What the door gets of a table."""
    columns = DictSource({"id": np.arange(10.0), "a": np.zeros(10)})
    return PeopleRows(columns, 10, Person("id")) if people else Rows(columns, 10)


@pytest.mark.parametrize(("relation", "people"), [("add-remove", False), ("replace", True)])
def test_windows_are_of_rows_under_replace_one(relation, people):
    ask = Ask(rows_of(people), None, relation)
    assert ask.by_person == people
    with pytest.raises(PrivacyBugError, match="windows"):
        ask._reading(Read(windows=Windows(4)))
    assert (
        Ask(rows_of(False), Run((), SeededNoise(0)))._reading(Read(windows=Windows(4)))["windows"].every
        == 4
    )


def test_ranks_are_of_replace_one():
    step = Step("votes", Pure(0.5))

    def stage(plan, ask):
        return ask.choose("votes", Ranks(1, 2), Kept(), lambda sums: [[0, 1]], 1)

    with pytest.raises(PrivacyBugError, match="replace-one only"):
        run(stage, step, relation="add-remove")


def test_raw_rows_are_given_to_the_function_of_the_proof_alone():
    for name in ("posterior draws", "noised rows", "selection"):
        with pytest.raises(PrivacyBugError, match="is not where the proof"):
            run(lambda plan, ask, name=name: ask.raw(own_proof(name)))


def test_a_proof_makes_the_draws_that_it_lists():
    from dpmodels.sums.ask import Raw

    raw = Raw(TABLE, Ask(TABLE, None), own_proof("stable winner"))
    for draw in ("gaussian", "laplace", "coin", "inner_normals", "_take"):
        with pytest.raises(PrivacyBugError, match="does not list"):
            getattr(raw, draw)


# --- maps and their sets ------------------------------------------------------------------------
def row_map(k, ball):
    return RowMap(UnitScale(np.ones(k), np.zeros(k), False), np.ones(k), ball, 1.0)


def test_sets_are_read_off_the_maps():
    ball, box = row_map(3, 3), row_map(3, 0)
    assert set_of(ball) == set_of(OneFirst(ball)) == Ball(3)
    assert set_of(ball, people=True) == NuclearBall(3)
    assert set_of(box) == Box(3)
    assert set_of(WithOne(box)) == Box(3, one=True)


@pytest.mark.parametrize(
    ("rowmap", "how", "told"),
    [
        (object(), {}, "no clip set is known of object"),
        (lambda block: block, {}, "no clip set is known of function"),
        (row_map(3, 2), {}, "say the parts"),  # a ball beside a box
        (WithOne(row_map(3, 3)), {}, "say the parts"),
        (row_map(3, 0), {"people": True}, "say the parts"),  # sums of a person have no bound
    ],
)
def test_a_map_that_may_leave_its_set_makes_no_query(rowmap, how, told):
    with pytest.raises(PrivacyBugError, match=told):
        set_of(rowmap, **how)
    with pytest.raises(PrivacyBugError, match=told):
        Gram(Moments(None, rowmap, **how).set)
