"""Errors by cluster with people as units: a person with parts in several clusters.

The rule (lengths of parts add up to C) and its bound 4BC against hostile parts; the production
stage against people of 1 to 1000 rows in 1 to 300 clusters; mutants. Deterministic (seeded): no
false alarms.
"""

import math
import warnings

import cloudpickle
import numpy as np
import pytest

import dpmodels as dp
from dpmodels.audit.queries import recorded, sensitivity_ratio
from dpmodels.core import clusters as core_clusters
from dpmodels.core.clusters import ClusterSums, parts_of, within
from dpmodels.core.units import GRAIN
from dpmodels.errors import DPModelsWarning, RequestError
from dpmodels.proof import prove
from dpmodels.proof.prove import cluster_move, sensitivity
from dpmodels.proof.sets import Ball
from dpmodels.proof.statistics import ClusterGram, ClusterTotals
from dpmodels.scoring import cluster_plan as cluster_rules
from tests.replaying import replay_stage, rows_for

N = 30
SCHEMA = dp.Schema(
    a=dp.Real(-1, 1), y=dp.Real(-3, 3), w=dp.Real(0, 3), h=dp.Levels(["n", "s"]),
    k=dp.Levels(["u", "v"]), p=dp.Count(9),
)  # fmt: skip
CRV = {"vcov": {"CRV1": "v"}, "psus": 25}
CASES = {
    "clusters": ("dp_ols", "y ~ a", CRV),
    "one coefficient": ("dp_ols", "y ~ 1", CRV),
    "events": ("dp_glm", "k ~ a", CRV),
    "two quantiles": ("dp_quantreg", "y ~ a", {**CRV, "tau": [0.25, 0.5]}),
    "add-remove": ("dp_ols", "y ~ a", {**CRV, "relation": "add-remove", "n_guess": N}),
    "pairs": ("dp_ols", "y ~ a", {"design": dp.Survey(
        strata="h", psu="p", psus={"n": 12, "s": 13}, weights="w")}),
    "totals": ("dp_ols", "y ~ a", {"eps": 1e5, "design": dp.Survey(
        strata="h", psu="v", psus={"n": 12, "s": 13})}),
}  # fmt: skip


def plan_of(name):
    verb, formula, options = CASES[name]
    people = {} if "relation" in options else {"units": N}
    call = {"eps": 60.0, **people, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.plan(formula, SCHEMA, n=N, delta=1e-4, verb=verb, unit="id", rows_per_unit=3,
                       **call)  # fmt: skip


def rows_of(rng, person, m, spread, sign=0.0):
    """m rows of one person in up to ``spread`` clusters; some missing or far out."""
    y = np.full(m, 3.0 * sign) if sign else rng.choice([-3.0, 3.0, 0.5, np.nan, 1e200], m)
    label = rng.integers(0, spread, m)
    return {
        "id": np.full(m, float(person)), "a": rng.choice([-1.0, 1.0], m), "y": y,
        "w": rng.choice([0.0, 3.0, np.nan], m) if not sign else np.full(m, 3.0),
        "h": rng.choice(np.array(["n", "s", None], dtype=object), m),
        "k": rng.choice(np.array(["u", "v"], dtype=object), m),
        "p": (label % 9 + 1).astype(float),
        "v": np.array([None if i == 7 else f"c{i}" for i in label], dtype=object),
    }  # fmt: skip


def table(parts, rng):
    whole = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    order = rng.permutation(len(whole["id"]))
    return {k: v[order] for k, v in whole.items()}


def moved(name):
    plan, rng = plan_of(name), np.random.default_rng(4)
    people = N if plan.n is not None else N - 1
    base = [rows_of(rng, i, 1 + i % 4, 6, sign=1.0) for i in range(people - (plan.n is not None))]
    starts = [[rows_of(rng, N, 3, 2, sign=-1.0)] if plan.n is not None else []]
    worst = {}
    for own in starts:
        first = replay_stage(plan, table([*base, *own], np.random.default_rng(1)), seed=2)
        for m in (1, 2, 40, 1000):
            for spread in (1, 2, 300):
                for sign in (0.0, 1.0):
                    last = rows_of(rng, N, m, spread, sign)
                    data = table([*base, last], np.random.default_rng(m))
                    again = replay_stage(plan, data, seed=2, first=first)
                    for step, draw in again.items():
                        ratio = first[step].distance(draw) / draw.sensitivity
                        worst[step] = max(worst.get(step, 0.0), ratio)
    return worst


@pytest.mark.parametrize("name", CASES)
def test_all_rows_of_a_person_move_no_more_than_is_charged(name):
    worst = moved(name)
    mine = {k: v for k, v in worst.items() if k.startswith(("cluster", "stratum"))}
    assert max(worst.values()) <= 1.0 + 1e-9, worst
    assert mine
    assert min(mine.values()) > 0.05, mine  # neighbours that try
    assert ("stratum totals" in worst) == (name == "totals")


@pytest.mark.parametrize("name", CASES)
def test_what_a_stage_by_person_asks_is_of_people_in_several_clusters(name):
    plan, rng = plan_of(name), np.random.default_rng(4)
    door = recorded(plan, table([rows_of(rng, i, 2, 3, 1.0) for i in range(N)], rng))
    asked = [q.query for q in door.asked if q.step.startswith(("cluster", "stratum"))]
    assert asked
    for one in asked:
        bound = one.unit if isinstance(one.statistic, ClusterTotals) else math.sqrt(one.unit)
        assert one.statistic.several
        assert one.over.slack == pytest.approx(one.statistic.slack * bound)
        assert one.statistic.clip == pytest.approx(one.over.clip / bound)


def test_the_sums_do_not_depend_on_order_or_blocks_and_travel():
    """Untouched people are bit-identical: a table is the sum of its people, in any cut."""
    plan, rng = plan_of("pairs"), np.random.default_rng(8)
    people = [rows_of(rng, i, 1 + i % 9, 300, 0.0) for i in range(N)]
    door = recorded(plan, table(people, np.random.default_rng(1)))
    over = next(q for q in door.asked if q.step == "cluster scores").query.over
    over = cloudpickle.loads(cloudpickle.dumps(over))  # as tasks are sent
    found = []
    for seed, height in ((1, 8192), (2, 8192), (3, 7)):
        rows = rows_for(plan, table(people, np.random.default_rng(seed)), seed=0)
        with np.errstate(all="ignore"):
            found.append(over.over(rows.people(over.design, height=height)))
    parts = []
    for half in (people[:11], people[11:]):
        with np.errstate(all="ignore"):
            rows = rows_for(plan, table(half, np.random.default_rng(4)), seed=0)
            parts.append(over.over(rows.people(over.design)))
    found.append(parts[0] + parts[1])
    first = found[0]
    assert len(first.labels) > 5
    for other in found[1:]:
        assert np.array_equal(first.labels, other.labels)
        assert np.array_equal(first.sums, other.sums)
        assert (first.alone[0] == other.alone[0]).all()
        assert first.singles == other.singles


def hostile(rng, r):
    """Parts of people: one or many, alike or of very different lengths, huge, zero, not finite."""
    many = rng.choice([1, 2, 3, 50, 400], 40)
    k = int(many.sum())
    parts = np.rint(rng.normal(size=(r, k)) * 10.0 ** rng.uniform(0, 14, k))
    parts[:, rng.random(k) < 0.05] = 0.0
    parts[:, rng.random(k) < 0.01] = np.nan
    parts[:, rng.random(k) < 0.01] = 1e300
    return parts, many


def longest(laid, many, clip, slack):
    """Return the largest sum of lengths, slack included, of the parts of one person, over C."""
    length = np.sqrt((laid.astype(float) ** 2).sum(axis=0)) * clip / 2.0**20
    touched = length > 0.0
    starts = np.cumsum(many) - many
    return float(np.add.reduceat(length + slack * touched, starts).max()) / clip


@pytest.mark.parametrize("r", [1, 2, 5])
def test_parts_of_a_person_add_up_to_c(r):
    rng = np.random.default_rng(r)
    for clip, slack in ((2.5, 0.0), (4.0, 1e-4), (2.5, 0.02), (1.0, 0.4)):
        parts, many = hostile(rng, r)
        with np.errstate(all="ignore"):
            laid = within(parts, many, clip, slack)
        assert np.isfinite(laid).all()
        assert (laid == np.trunc(laid)).all()
        assert 0.5 < longest(laid, many, clip, slack) <= 1.0


def test_a_person_with_more_parts_than_slack_allows_lays_nothing():
    laid = within(np.full((1, 100), 2.0**34), np.array([100]), 1.0, 0.02)
    assert not laid.any()


def test_one_part_is_a_row_in_its_ball():
    z = np.rint(np.array([[0.5, 3.0], [0.2, 4.0]]) / GRAIN)
    laid = within(z, np.array([1, 1]), 2.0, 0.0) * 2.0 / 2.0**20
    assert laid[:, 0] == pytest.approx([0.5, 0.2], abs=1e-5)
    assert laid[:, 1] == pytest.approx([1.2, 1.6], abs=1e-5)


def test_parts_are_those_of_the_person_alone_in_any_order():
    rng = np.random.default_rng(6)
    counts = np.array([3, 1, 200, 7])
    z = np.rint(rng.normal(size=(2, counts.sum())) * 1e10)
    label = rng.integers(0, 5, counts.sum()).astype(float)
    parts, where, many = parts_of(z, label, counts)
    starts = np.cumsum(counts) - counts
    at = 0
    for i, (a, k) in enumerate(zip(starts, counts, strict=True)):
        order = rng.permutation(k)
        own = parts_of(z[:, a : a + k][:, order], label[a : a + k][order], np.array([k]))
        assert np.array_equal(own[0], parts[:, at : at + many[i]])
        assert np.array_equal(own[1], where[at : at + many[i]])
        alone = within(own[0], own[2], 2.5, 1e-5)
        assert np.array_equal(alone, within(parts, many, 2.5, 1e-5)[:, at : at + many[i]])
        at += many[i]


def two_clusters(B, C, shares):
    """J before and after a person of parts C times ``shares`` against the clusters at B leaves
    and one of the same parts towards B enters others: the largest move there is."""
    own = cluster_rules.Radii(C, B, 0.0, 1.0)
    none, k = (np.zeros((1, 1), dtype=object),), len(shares)
    step = np.round(np.array(shares) * 2.0**20).astype(np.int64)
    top = int(B / C * 2.0**20 * (1 - 1e-9))
    labels = np.arange(1.0, 2 * k + 1)
    before = np.r_[np.full(k, top) - step, np.full(k, top) - step]
    after = np.full(2 * k, top)
    found = [
        ClusterSums(labels, x.astype(np.int64)[None, None], none).products(0, own)
        for x in (before, after)
    ]
    a, b = (float(x.values[0, 0]) * x.step * B * B for x in found)
    return b - a


def test_a_person_in_two_clusters_passes_the_bound_of_a_row_and_not_its_own():
    """B = 5, C = 1: 19 in two parts and 19.9 in many, where 2 g is 18 and 4BC 20."""
    s = ClusterGram(Ball(1), clip=0.2, several=True)
    bound = sensitivity(s, "replace", "l2") * 25.0
    assert bound == pytest.approx(20.0)
    halves, many = two_clusters(5.0, 1.0, [0.5, 0.5]), two_clusters(5.0, 1.0, [0.05] * 20)
    assert 2 * cluster_move(5.0, 1.0, 2) + 0.5 < halves <= bound
    assert halves < many <= bound
    assert many > 19.5


def test_parts_that_are_clipped_one_by_one_are_seen(monkeypatch):
    """The mutant: each part in the ball of C by itself moves J beyond 4BC."""
    assert two_clusters(5.0, 1.0, [1.0, 1.0]) > 1.7 * 20.0
    parts, many = np.full((1, 6), 5.0 / GRAIN), np.array([6])
    assert longest(within(parts, many, 1.0, 1e-5), many, 1.0, 1e-5) <= 1.0
    right = core_clusters.within

    def one_by_one(parts, many, clip, slack):
        return right(parts, np.ones(parts.shape[1], dtype=int), clip, slack)

    monkeypatch.setattr(core_clusters, "within", one_by_one)
    worst = moved("one coefficient")
    assert max(worst.values()) > 1.0 + 1e-3, worst


def test_people_under_the_bound_of_rows_are_seen(monkeypatch):
    wrong = {
        ClusterGram: lambda s, *_: 2.0 * cluster_move(1.0, s.clip, s.dim),
        ClusterTotals: lambda s, *_: math.sqrt(2.0) * s.clip,
    }
    for s in (ClusterGram(Ball(2), clip=0.2, several=True), ClusterTotals(2, 3, 0.2, several=True)):
        assert sensitivity_ratio(s, "replace", "l2") <= 1.0
        monkeypatch.setitem(prove._REACHES, type(s), wrong[type(s)])
        assert sensitivity_ratio(s, "replace", "l2") > 1.0


def test_what_is_refused():
    call = {"n": N, "eps": 1, "delta": 1e-6, "unit": "id"}
    with pytest.raises(RequestError, match="must be declared, psus="):
        dp.plan("y ~ a", SCHEMA, vcov={"CRV1": "v"}, **call)
    with pytest.raises(RequestError, match="is the cluster itself"):
        dp.plan("y ~ a", SCHEMA, vcov={"CRV1": "id"}, psus=30, **call)
    with pytest.raises(RequestError, match="max_rows= together with clusters"):
        dp.plan("y ~ a", SCHEMA, **CRV, **call, max_rows=2)
    with pytest.raises(RequestError, match="or strata works for rows only"):
        dp.plan("y ~ 1", SCHEMA, verb="dp_mean", design=dp.Survey(psu="v", psus=25), **call)
