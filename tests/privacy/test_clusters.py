"""Errors by cluster: how far a row that moves between clusters can move the product of sums.

The bound against search and closed forms; the production stage against hostile neighbours (new
clusters, last rows, moves, rows in no cluster); mutants of each. Deterministic (seeded): no false
alarms.
"""

import math
import warnings

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.audit import kit as derived
from dpmodels.audit.queries import recorded, sensitivity_ratio
from dpmodels.core import clusters
from dpmodels.core.clusters import ClusterPasses, Radii, pulled, statistic, totals_statistic
from dpmodels.errors import DPModelsWarning, RequestError
from dpmodels.privacy.mechanisms import mu_gdp
from dpmodels.proof import prove
from dpmodels.proof.prove import cluster_move, sensitivity
from dpmodels.proof.sets import Ball
from dpmodels.proof.statistics import ClusterGram, Clusters, ClusterTotals
from dpmodels.scoring.cluster_plan import ClusterPlan, radii
from dpmodels.scoring.clusters import of_means
from dpmodels.scoring.rules import SMALL_SHARE
from dpmodels.survey import Frame, Survey
from tests import replaying as replay
from tests.replaying import replay_stage, rows_for

SCHEMA = dp.Schema(
    a=dp.Real(-1, 1), b=dp.Real(-2, 1), y=dp.Real(-3, 3), w=dp.Real(0, 3),
    h=dp.Levels(["n", "s"]), k=dp.Levels(["u", "v"]), p=dp.Count(9),
)  # fmt: skip
CRV = {"vcov": {"CRV1": "v"}, "psus": 25}
DESIGNS = {
    "clusters": ("dp_ols", "y ~ a + b", CRV),
    "one coefficient": ("dp_ols", "y ~ 1", CRV),
    "number estimated": ("dp_ols", "y ~ a", {"vcov": {"CRV1": "v"}}),
    "add-remove": ("dp_ols", "y ~ a", {**CRV, "relation": "add-remove", "n_guess": 24}),
    "events": ("dp_glm", "k ~ a", CRV),
    "weighted": ("dp_glm", "k ~ a", {**CRV, "weights": "w"}),
    "two quantiles": ("dp_quantreg", "y ~ a", {**CRV, "tau": [0.25, 0.5]}),
    "huber": ("dp_mest", "y ~ a", {**CRV, "loss": "huber"}),
    "strata": ("dp_ols", "y ~ a", {"design": dp.Survey(
        weights="w", strata="h", psu="v", psus={"n": 12, "s": 13}, fpc={"n": 40, "s": 90})}),
    "pairs": ("dp_ols", "y ~ a", {"design": dp.Survey(
        strata="h", psu="p", psus={"n": 9, "s": 12}, weights="w")}),
    "means": ("dp_mean", "a + b ~ 1", {"design": dp.Survey(weights="w", psu="v", psus=25)}),
    "means in pairs": ("dp_mean", "a ~ 1", {"design": dp.Survey(
        strata="h", psu="p", psus={"n": 9, "s": 12})}),
    "rao-scott": ("dp_test", "~ h * k", {"design": dp.Survey(weights="w", psu="v", psus=25)}),
    "rao-scott, units bought": ("dp_test", "~ h * k", {"design": dp.Survey(psu="v")}),
    "totals": ("dp_ols", "y ~ a", {"n": 60, "eps": 1e5, "design": dp.Survey(
        weights="w", strata="h", psu="v", psus={"n": 12, "s": 13})}),
    "totals of means": ("dp_mean", "a ~ 1", {"n": 60, "eps": 1e5, "design": dp.Survey(
        strata="h", psu="v", psus={"n": 1, "s": 24}, fpc={"n": 40, "s": 90})}),
    "table": ("dp_table", "y ~ h", {"design": dp.Survey(weights="w", psu="v", psus=25)}),
    "crosstab, units bought": ("dp_table", "~ h * k", {"design": dp.Survey(psu="v")}),
    "table in pairs": ("dp_table", "~ k", {"design": dp.Survey(
        weights="w", strata="h", psu="p", psus={"n": 9, "s": 12})}),
    "quantiles": ("dp_quantile", "y", {"q": [0.25, 0.9], "design": dp.Survey(
        weights="w", psu="v", psus=25)}),
    "quantiles in strata": ("dp_quantile", "y", {"design": dp.Survey(
        strata="h", psu="v", psus={"n": 12, "s": 13})}),
    "rates": ("dp_ols", "y ~ a", {"design": dp.Survey(
        strata="h", weights="w", fpc={"n": 0.5, "s": 0.1})}),
}  # fmt: skip


def plan_of(name, n=24, eps=40.0):
    verb, formula, options = DESIGNS[name]
    call = {"n": n, "eps": eps, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.plan(formula, SCHEMA, delta=1e-4, verb=verb, **call)


#: What a row may hold: ends of ranges, far beyond them, nothing.
CELLS = {
    "a": [-1.0, 1.0, 0.0, np.nan, 1e300], "b": [-2.0, 1.0, np.inf], "y": [-3.0, 3.0, 0.0, np.nan],
    "w": [0.0, 3.0, -1.0, 1e9, np.nan], "h": ["n", "s", None, "?"], "k": ["u", "v", None],
    "p": [1.0, 2.0, 9.0, 40.0, np.nan, 0.0], "v": ["c1", "c2", "c3", "new", None],
}  # fmt: skip


def row(rng):
    return {k: cells[rng.integers(len(cells))] for k, cells in CELLS.items()}


def good_row(rng):
    ends = {"a": 2, "b": 2, "y": 2, "w": 2, "h": 2, "k": 2, "p": 3, "v": 3}
    return {k: CELLS[k][rng.integers(m)] for k, m in ends.items()}


def table(rows):
    return {
        k: np.array([r[k] for r in rows], dtype=object if k in "hkv" else float) for k in CELLS
    }


def moved(name, tables=6, others=24, eps=40.0):
    """What one row moves in every step, over the bound that the stage hands over: the worst."""
    plan, rng = plan_of(name, eps=eps), np.random.default_rng(2)
    n = plan.n or 23
    worst = {}
    for i in range(tables):
        base = [good_row(rng) for _ in range(n - (plan.n is not None))]
        first_rows = [*base, good_row(rng)] if plan.n is not None else base
        first = replay_stage(plan, table(first_rows), seed=i)
        for j in range(others):
            last = good_row(rng) if j % 2 else row(rng)
            again = replay_stage(plan, table([*base, last]), seed=i, first=first)
            for step, draw in again.items():
                ratio = first[step].distance(draw) / draw.sensitivity
                worst[step] = max(worst.get(step, 0.0), ratio)
    return worst


# --- the bound ----------------------------------------------------------------------------------
def test_closed_forms():
    assert cluster_move(5, 1, 2) == 9.0
    assert 2 * cluster_move(5, 1, 2) == 18.0
    assert cluster_move(2, 1, 2) == 3.0
    assert cluster_move(1, 1, 3) == pytest.approx(1.22474, abs=1e-5)
    assert 2 * cluster_move(1, 1, 3) == pytest.approx(2.44949, abs=1e-5)
    assert 2 * cluster_move(1, 1.5, 3) == pytest.approx(2.82843, abs=1e-5)
    assert cluster_move(5, 1, 1) == 9.0  # one dimension
    assert cluster_move(1, 3, 1) == 1.0
    for B, C in ((3.0, 2.0), (3.0, 3.0 * math.sqrt(2.0))):  # the pieces meet
        assert cluster_move(B, C * (1 + 1e-9), 2) == pytest.approx(cluster_move(B, C, 2), rel=1e-7)


def climbed(B, C, p, seed, move, steps=1500):
    """A lower bound of the largest ``move(a, b)`` by hill climbing."""
    rng, best = np.random.default_rng(seed), 0.0
    a, b = rng.normal(size=p), rng.normal(size=p)

    def inside(a, b):
        a = a * min(1.0, B / max(np.linalg.norm(a), 1e-300))
        for _ in range(12):
            b = b * min(1.0, B / max(np.linalg.norm(b), 1e-300))
            gap = b - a
            b = a + gap * min(1.0, C / max(np.linalg.norm(gap), 1e-300))
        return a, b

    for i in range(steps):
        size = B * 0.5 ** (1 + 14 * i / steps)
        new = inside(a + size * rng.normal(size=p), b + size * rng.normal(size=p))
        found = move(*new)
        if found > best:
            best, (a, b) = found, new
    return best


@pytest.mark.parametrize("p", [1, 2, 3])
def test_search_reaches_the_bound_and_does_not_pass_it(p):
    def frobenius(a, b):
        return float(np.linalg.norm(np.outer(a, a) - np.outer(b, b)))

    for B, C in ((5.0, 1.0), (2.0, 1.0), (1.0, 0.8), (1.0, 1.0), (1.0, 1.5)):
        best = max(climbed(B, C, p, seed, frobenius) for seed in range(3))
        bound = cluster_move(B, C, p)
        assert best <= bound * (1 + 1e-9), (B, C)
        assert best >= 0.985 * bound, (B, C, best / bound)


def test_a_move_passes_what_units_md_said_and_that_of_one_cluster():
    """2 B^2 and g(B, 2C) are too small for a row that moves: two clusters of the same change."""
    a, b = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])  # |a - b| = 1: B = C = 1
    both = 2.0 * np.linalg.norm(np.outer(a, a) - np.outer(b, b))
    assert both > 2.0 * 1.0**2 + 0.4
    assert both == pytest.approx(2 * cluster_move(1, 1, 2))
    a, b = np.array([5.0, 0.0]), np.array([4.0, 0.0])
    same = cluster_move(5, 2, 2)
    assert 2.0 * np.linalg.norm(np.outer(a, a) - np.outer(b, b)) > same + 1.9


def test_a_person_in_several_clusters_passes_the_bound_of_a_row():
    """Parts of lengths that add up to C: 18.54 where 2 g is 18 (B = 5, C = 1); 4BC is 20."""
    B, C, parts = 5.0, 1.0, 2
    a, b = B, B - C / parts
    found = 2 * parts * (a * a - b * b)
    assert 2 * cluster_move(B, C, 2) < found <= 4 * B * C
    s = ClusterGram(Ball(2), clip=C / B, several=True)
    assert sensitivity(s, "replace", "l2") == 4 * C / B
    assert sensitivity(s, "add-remove", "l2") == 2 * C / B


def test_rows_alone_beside_clusters_cost_nothing():
    """g(B, C) + C^2 <= 2 g(B, C) where C <= B: a row leaves its cluster and is one by itself."""
    for c in np.linspace(0.01, 1.0, 50):
        for p in (1, 2, 5):
            assert c * c <= cluster_move(1.0, c, p) + 1e-12


def test_pulled_sums_are_no_farther_apart_than_rows(seed=4):
    """What the slack of the prover pays for: rounding, at any size of a sum."""
    rng = np.random.default_rng(seed)
    for p in (1, 2, 7):
        for ratio in (1.0, 1.3, 6.0, 300.0):
            own = Radii(1.0, ratio, 0.0, 1.0)
            coarse = max(math.ceil(math.log2(ratio)), 0)
            S = (rng.normal(size=(p, 400)) * 10.0 ** rng.uniform(2, 12, 400)).astype(np.int64)
            s = rng.normal(size=(p, 400))
            s = np.trunc(s / np.linalg.norm(s, axis=0) * 2.0**20 * (1 - 1e-12)).astype(np.int64)
            step = 2.0**coarse * 2.0**-20 / ratio  # of B
            a, b = pulled(S, own, coarse) * step, pulled(S + s, own, coarse) * step
            one = ClusterGram(Ball(p), clip=1.0 / ratio)
            assert np.linalg.norm(a - b, axis=0).max() <= one.clip + one.slack
            assert np.abs(a / step).max() <= 2.0**20
            assert max(np.linalg.norm(a, axis=0).max(), np.linalg.norm(b, axis=0).max()) <= 1.0


# --- the stage ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DESIGNS)
def test_no_step_of_the_stage_moves_farther_than_its_noise_is_made_for(name):
    worst = moved(name)
    of_clusters = {k: v for k, v in worst.items() if k.startswith(("cluster", "stratum"))}
    assert of_clusters
    assert max(worst.values()) <= 1.0 + 1e-9, worst
    assert min(of_clusters.values()) > 0.09, of_clusters  # neighbours that try
    assert ("stratum totals" in worst) == name.startswith("totals")


def test_the_stage_of_one_row_a_cluster_and_of_one_cluster_is_tight():
    """Two clusters near B, a row that leaves the one and enters the other: .9 of the bound."""
    plan = plan_of("one coefficient", eps=4000.0)
    detail = plan.detail.clusters
    own = detail.radii(1)
    job = ClusterPasses((), None, detail.sample.frame, own.clip)
    one = clusters.ClusterSums(
        np.array([1.0, 2.0]), np.zeros((1, 1, 2), dtype=np.int64),
        (np.zeros((1, 1), dtype=object),),
    )  # fmt: skip
    assert job.clip == own.clip
    ratio = own.bound / own.clip
    top, C = int(ratio * 2**20 * (1 - 1e-6)), 2**20
    before, after = (
        clusters.ClusterSums(one.labels, np.array([[pair]], dtype=np.int64), one.alone)
        for pair in ([top - C, top - C], [top, top])
    )  # row: -C in the second -> +C in the first
    a, b = (float(x.products(0, own).values[0, 0]) for x in (before, after))
    step = before.products(0, own).step
    bound = sensitivity(statistic(1, own), "replace", "l2")
    assert 0.99 < (b - a) * step / bound <= 1.0


def test_totals_of_a_row_that_leaves_and_of_one_that_enters_are_tight():
    """-C in one cluster of a stratum becomes +C in another: 2C; in two strata sqrt 2 C."""
    own = Radii(1.0, 3.0, 0.0, 1.0)
    none, C = (np.zeros((1, 1), dtype=object),), 2**20
    frame = Frame(Survey(strata="h", psu="v", psus={"n": 9, "s": 9}), ("n", "s"), totals=True)
    bound = sensitivity(totals_statistic(1, 2, own), "replace", "l2")
    assert bound == pytest.approx(2.0 / 3.0, rel=1e-4)
    for labels, largest in (([2.0, 4.0], 2.0), ([2.0, 3.0], math.sqrt(2.0))):
        assert frame.strata_of(np.array(labels)).tolist() == [0, int(labels[1]) % 2]
        before, after = (
            clusters.ClusterSums(np.array(labels), np.array([[pair]], dtype=np.int64), none)
            .totals(0, own, frame)
            for pair in ([-C, C], [0, 2 * C])
        )  # a row of -C leaves the first, one of C enters the second
        moved = float(np.linalg.norm((after.values - before.values).astype(float))) * before.step
        assert moved * 3.0 == pytest.approx(largest, rel=1e-5)
        assert moved <= bound


def test_stratum_means_come_out_as_by_the_formula():
    """n_h/(n_h - 1) (sum SS' - T T'/n_h), strata of 1, 3 and 4 units, by the production sums."""
    rng = np.random.default_rng(5)
    units = {"a": 1, "b": 3, "c": 4}
    frame = Frame(Survey(strata="h", psu="v", psus=units), tuple(units), totals=True)
    stratum = np.repeat([1.0, 2.0, 3.0], [1, 3, 4])
    S = rng.normal(size=(8, 2)) + stratum[:, None]
    labels, factor = frame.placed(np.arange(1.0, 9.0), stratum)
    order = np.argsort(labels)
    own = Radii(1.0, 50.0, 0.0, 1.0)
    laid = np.round((S * factor[:, None])[order].T * 2.0**20).astype(np.int64)
    sums = clusters.ClusterSums(labels[order], laid[None], (np.zeros((2, 2), dtype=object),))
    J, T = sums.products(0, own), sums.totals(0, own, frame)
    J = J.values.astype(float) * J.step * own.bound**2
    T = (T.values.astype(float) * T.step * own.bound).reshape(3, 2)
    found = frame.correction * (J - of_means(T, 0.0, frame.units))
    right = np.outer(S[0], S[0])
    for h, n in ((2.0, 3), (3.0, 4)):
        d = S[stratum == h] - S[stratum == h].mean(axis=0)
        right = right + n / (n - 1) * d.T @ d
    assert found == pytest.approx(right, rel=1e-3)


def test_the_noise_of_totals_is_taken_off():
    """10 000 draws about fixed totals: their mean is off by at most 5 of its errors (6e-7)."""
    rng = np.random.default_rng(7)
    T, units, sd = np.array([[3.0, 1.0], [2.0, -4.0], [9.0, 9.0]]), (2.0, 5.0, 1.0), 2.0
    drawn = np.array([
        of_means(T + sd * rng.normal(size=T.shape), sd, units) for _ in range(10_000)
    ])  # fmt: skip
    off = (drawn.mean(axis=0) - of_means(T, 0.0, units)) / drawn.std(axis=0) * 100.0
    assert np.abs(off).max() < 5.0


def test_clusters_that_are_not_touched_are_bit_identical():
    plan, rng = plan_of("clusters"), np.random.default_rng(8)
    base = [good_row(rng) for _ in range(23)]
    over = None
    found = []
    for last in ({**good_row(rng), "v": "c1"}, {**good_row(rng), "v": "new"}):
        door = recorded(plan, table([*base, good_row(rng)]))
        one = next(q for q in door.asked if q.step == "cluster scores")
        over = over or one.query.over
        with np.errstate(all="ignore"):
            found.append(over.total(rows_for(plan, table([*base, last]), 24), {}))
    first, second = found
    same = np.intersect1d(first.labels, second.labels)
    differ = 0
    for label in same:
        a = first.sums[0][:, first.labels == label]
        b = second.sums[0][:, second.labels == label]
        differ += not np.array_equal(a, b)
    assert differ <= 1  # the cluster that lost the row
    assert len(np.setdiff1d(second.labels, first.labels)) == 1


def test_the_sums_do_not_depend_on_order_blocks_or_parts():
    plan, rng = plan_of("strata"), np.random.default_rng(9)
    rows = [row(rng) for _ in range(60)]
    door = recorded(plan, table(rows))
    over = next(q for q in door.asked if q.step == "cluster scores").query.over
    with np.errstate(all="ignore"):
        whole = over.total(rows_for(plan, table(rows), 60), {})
        order = rng.permutation(60)
        mixed = over.total(rows_for(plan, table([rows[i] for i in order]), 60), {})
        parts = [over.total(rows_for(plan, table(rows[a:b]), b - a), {})
                 for a, b in ((0, 7), (7, 40), (40, 60))]
    added = parts[0] + parts[1] + parts[2]
    for other in (mixed, added):
        assert np.array_equal(whole.labels, other.labels)
        assert np.array_equal(whole.sums, other.sums)
        assert (whole.alone[0] == other.alone[0]).all()
        assert whole.singles == other.singles


def test_rows_without_an_id_add_nothing():
    """They are missing: what is summed is what the other rows sum to."""
    plan, rng = plan_of("clusters"), np.random.default_rng(10)
    rows = [good_row(rng) for _ in range(24)]
    door = recorded(plan, table(rows))
    over = next(q for q in door.asked if q.step.startswith("cluster scores")).query.over
    some = [{**row, "v": None} if i % 2 else row for i, row in enumerate(rows)]
    with np.errstate(all="ignore"):
        found, other = (over.total(rows_for(plan, table(t), len(t)), {}) for t in (some, rows[::2]))
    assert len(found.labels) and np.array_equal(found.labels, other.labels)
    assert np.array_equal(found.sums, other.sums)


# --- mutants ------------------------------------------------------------------------------------
def too_small(monkeypatch, wrong):
    """Whether corners or the search see a bound that is too small, somewhere."""
    monkeypatch.setitem(prove._REACHES, ClusterGram, wrong)
    shapes = [ClusterGram(Ball(p), clip=c) for p in (2, 3) for c in (0.1, 0.5, 0.8, 1.0)]
    return any(sensitivity_ratio(s, "replace", "l2") > 1.0 + 1e-3 for s in shapes)


def test_mutants_of_the_bound(monkeypatch):
    right = prove._REACHES[ClusterGram]
    assert not too_small(monkeypatch, right)
    wrong = {
        "2 B^2": lambda s, *_: min(2.0, 4.0 * s.clip),
        "a move as within one cluster": lambda s, *_: cluster_move(1.0, 2.0 * s.clip, s.dim),
        "add-remove": lambda s, *_: cluster_move(1.0, s.clip, s.dim),
        "C^2": lambda s, *_: math.sqrt(2.0) * s.clip**2,
    }
    for name, bound in wrong.items():
        assert too_small(monkeypatch, bound), name


def test_people_under_the_bound_of_rows_are_seen(monkeypatch):
    s = ClusterGram(Ball(2), clip=0.2, several=True)
    assert sensitivity_ratio(s, "replace", "l2") <= 1.0
    monkeypatch.setitem(
        prove._REACHES, ClusterGram, lambda s, *_: 2.0 * cluster_move(1.0, s.clip, s.dim)
    )
    assert sensitivity_ratio(s, "replace", "l2") > 1.0


def test_totals_at_half_their_price_are_seen(monkeypatch):
    for s in (ClusterTotals(2, 3, 0.2), ClusterTotals(1, 2, 1.0, several=True)):
        assert 0.99 < sensitivity_ratio(s, "replace", "l2") <= 1.0
        assert 0.99 < sensitivity_ratio(s, "add-remove", "l2") <= 1.0
    monkeypatch.setitem(prove._REACHES, ClusterTotals, lambda s, *_: s.clip)  # 2C -> C
    assert sensitivity_ratio(ClusterTotals(2, 3, 0.2), "replace", "l2") > 1.9


def test_centring_by_the_means_of_the_sums_themselves_is_seen():
    """Without its price: J about exact stratum means moves by up to g(2B, C) a cluster, not g.

    Two clusters of a stratum; a row takes one sum from B to B - C, the other is at -B.
    """
    B, C = 5.0, 1.0

    def centred(a, b):
        m = (a + b) / 2.0
        return 2.0 * ((a - m) ** 2 + (b - m) ** 2)

    moved = centred(B, -B) - centred(B - C, -B)
    assert moved == pytest.approx(19.0)
    assert cluster_move(2 * B, C, 2) == pytest.approx(19.0)
    assert moved > 2 * cluster_move(B, C, 2)


def test_counts_at_half_their_price_are_seen(monkeypatch):
    assert 0.55 < sensitivity_ratio(Clusters(), "replace", "l2") <= 1.0
    monkeypatch.setitem(prove._REACHES, Clusters, lambda *_: 0.5)
    assert sensitivity_ratio(Clusters(), "replace", "l2") > 1.0


def test_a_ball_that_is_not_there_is_seen(monkeypatch):
    """Sums that nothing pulls, and rows that nothing clips."""
    def whole(sums, own, coarse):
        return np.trunc(sums.astype(float) * 0.5**coarse)

    monkeypatch.setattr(clusters, "pulled", whole)
    rng = np.random.default_rng(1)
    own = Radii(1.0, 2.0, 0.0, 1.0)
    S = (rng.normal(size=(2, 50)) * 2.0**24).astype(np.int64)
    s = np.array([[2**20], [0]])
    none = (np.zeros((2, 2), dtype=object),)
    a, b = (
        clusters.ClusterSums(np.arange(1.0, 51.0), x[None], none).products(0, own)
        for x in (S, np.where(np.arange(50) == 3, S + s, S))
    )
    gap = np.asarray(a.values - b.values, dtype=float) * a.step
    assert np.linalg.norm(gap) > sensitivity(statistic(2, own), "replace", "l2")


def test_half_the_noise_is_seen_by_the_audit(monkeypatch):
    from dpmodels.sums import ask

    def flagged():
        names = ("cluster scores", "clusters")
        return [f for f in derived.findings_of_queries("dp_ols", "ssp")
                if not f.passed and any(n in f.check for n in names)]

    assert not flagged()
    whole = prove.sensitivity
    monkeypatch.setattr(ask, "sensitivity", lambda *a: whole(*a) / 2.0)
    assert len(flagged()) >= 2


def test_a_bought_number_is_charged():
    plan = plan_of("number estimated")
    steps = {s.name: s.mechanism.mu for s in plan.steps}
    assert {"clusters", "cluster scores"} <= set(steps)
    whole = math.sqrt(math.fsum(s.mechanism.mu**2 for s in plan.steps))
    early = plan.steps[0].reply_test  # a call that may end early sets a part of delta aside
    assert whole == pytest.approx(mu_gdp(40.0, 1e-4 * (0.999 if early else 1.0)), rel=1e-9)
    assert steps["clusters"] ** 2 == pytest.approx(SMALL_SHARE * whole**2, rel=2e-2)


# --- labels, pairs, strata ----------------------------------------------------------------------
def test_pairs_are_made_of_declared_numbers_alone():
    frame = Frame(Survey(strata="h", psu="p", psus={"n": 5, "s": 3}), ("n", "s"), labelled=True)
    label = np.array([1.0, 2, 3, 4, 5, 1, 2, 3, 0, 9])
    stratum = np.array([1.0, 1, 1, 1, 1, 2, 2, 2, 1, 2])
    cluster, factor = frame.placed(label, stratum)
    for c in np.unique(cluster[:8]):  # two units each, of opposite sign
        assert (cluster[:8] == c).sum() == 2 and factor[:8][cluster[:8] == c].sum() == 0
    across = [c for c in np.unique(cluster[:8]) if len(set(stratum[:8][cluster[:8] == c])) == 2]
    assert len(across) == 1  # the odd ones of two strata
    assert cluster[8] == 0.0  # no label: a row by itself
    assert (cluster[9], factor[9]) == (cluster[7], factor[7])  # beyond the declared number: the last
    assert frame.df == 5  # 3 and 2 pairs
    assert len(np.unique(cluster[cluster > 0])) == 4


def test_a_rows_cluster_is_a_function_of_its_own_cells():
    """Pairing by order, or by the ids that are there, would re-pair others: labels are looked at one by one."""
    rng = np.random.default_rng(3)
    for survey, labelled in (
        (Survey(strata="h", psu="v", psus={"n": 30, "s": 40}), False),
        (Survey(strata="h", psu="p", psus={"n": 9, "s": 12}), True),
        (Survey(psu="v", psus=30), False),
    ):
        frame = Frame(survey, ("n", "s") if survey.strata else (), labelled)
        label = rng.integers(0, 13, 200).astype(float)
        stratum = rng.integers(0, 3, 200).astype(float) if survey.strata else None
        cluster, factor = frame.placed(label, stratum)
        for i in range(0, 200, 7):
            alone = frame.placed(label[i : i + 1], None if stratum is None else stratum[i : i + 1])
            assert alone[0][0] == cluster[i]
            assert alone[1][0] == factor[i]
        assert np.abs(factor).max() <= 1.0


def test_the_same_id_in_two_strata_is_two_units():
    frame = Frame(Survey(strata="h", psu="v", psus={"n": 30, "s": 40}), ("n", "s"))
    cluster, _ = frame.placed(np.array([7.0, 7.0, 7.0]), np.array([1.0, 2.0, 1.0]))
    assert cluster[0] == cluster[2] != cluster[1]


def test_radii_keep_b_above_c_and_follow_public_numbers():
    for n, G, p, mu in ((400, 400, 1, 0.2), (1e4, 1020, 3, 0.07), (1e6, 30, 10, 0.3)):
        own = radii(p, int(n), G, mu, "replace", icc=0.15)
        assert own.bound >= own.clip
        assert own.noise > 0.0
    plan = ClusterPlan.of(plan_of("clusters").detail.clusters.sample, 0.2, 1000, "replace", [""], 2)
    assert plan.share == 0.10


def test_replay_needs_no_seeded_guess():
    assert replay.rows_for is rows_for  # one way to make rows


def test_few_clusters_are_refused_from_declared_numbers():
    with pytest.raises(RequestError, match="at least 20"):
        dp.plan("y ~ a", SCHEMA, n=100, eps=1, delta=1e-6, vcov={"CRV1": "v"}, psus=12)
