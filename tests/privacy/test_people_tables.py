"""Tables, quantiles and tests by person: one person is one unit of mass, however many rows."""

import warnings

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.core import grids
from dpmodels.errors import DPModelsWarning
from dpmodels.models.table import quantiles as ranks
from dpmodels.models.table.people import PAIRS_STEP
from dpmodels.proof.prove import rank_sensitivity
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Ranks
from dpmodels.sums.rowmap import shares
from tests.replaying import replay_ratios, replay_stage

N = 40
SCHEMA = {"x": (-1.0, 1.0), "g": dp.Ordered(["a", "b", "c"]), "h": dp.Levels(["u", "v"]),
          "t": (0.0, 12.0), "s": (0.0, 12.0), "w": (0.0, 2.0)}  # fmt: skip
COLUMNS = ("x", "g", "h", "t", "s", "w")
WORDS = np.array(["a", "b", "c", "?", None], dtype=object)
CASES = {
    "table": ("dp_table", "~ g * h + x", {"noise": "gaussian"}),
    "table, laplace": ("dp_table", "~ g * h + x", {"noise": "laplace"}),
    "table, quantiles": ("dp_table", "x ~ g", {"quantiles": [0.5]}),
    "table, medians": ("dp_table", "x ~ g", {"medians": "x"}),
    "weighted table": ("dp_table", "~ g * h", {"weights": "w"}),
    "weighted means by group": ("dp_table", "x ~ g", {"weights": "w"}),
    "weighted tree": (
        "dp_quantile", "~ x", {"q": [0.3], "method": "tree", "points": 64, "weights": "w"},
    ),
    "weighted means": ("dp_mean", "x + t ~ 1", {"weights": "w"}),
    "weights of a design": ("dp_mean", "x ~ 1", {"design": dp.Survey(weights="w")}),
    "em": ("dp_quantile", "~ x", {"q": [0.3], "method": "em", "points": 64}),
    "tree": ("dp_quantile", "~ x", {"q": [0.3], "method": "tree", "points": 64}),
    "survival": ("dp_survfit", "Surv(t, h) ~ g", {"breaks": 4}),
    "survival, tree": ("dp_survfit", "Surv(t, h) ~ 1", {"breaks": 40}),
    "episodes": ("dp_survfit", "Surv(s, t, h) ~ g", {"breaks": 4}),
    "episodes, tree": ("dp_survdiff", "Surv(s, t, h) ~ g", {"breaks": 40, "max_episodes": 2}),
    "causes": ("dp_survfit", 'Surv(t, g, cause="all") ~ h', {"breaks": 4}),
    "causes, tree": ("dp_survfit", 'Surv(t, g, cause="b") ~ 1', {"breaks": 40}),
    "causes, episodes": ("dp_survfit", 'Surv(s, t, g, cause="all") ~ h', {"breaks": 4}),
    "hazards of a cause": ("dp_coxph", 'Surv(t, g, cause="c") ~ x', {"breaks": 4}),
    "hazards": ("dp_coxph", "Surv(t, h) ~ x", {"breaks": 4, "concordance": True}),
    "hazards, episodes": (
        "dp_coxph", "Surv(s, t, h) ~ x + strata(g)", {"breaks": 4, "max_episodes": 2},
    ),
    "ordered": ("dp_polr", "g ~ x + h", {}),
    "unordered": ("dp_multinom", "g ~ x + h", {}),
    "test, groups": ("dp_test", "x ~ g", {}),
    "test, independence": ("dp_test", "~ g + h", {}),
}


@pytest.fixture(autouse=True)
def small_grid(monkeypatch):
    monkeypatch.setattr(ranks, "MOST_POINTS", 64)


def rows(rng, m, kind):
    """m rows of one person: all in one cell, strewn over all, missing, at the ends of ranges."""
    x = rng.choice([-1.0, 1.0, 0.0, np.nan], m) if kind % 2 else rng.uniform(-3, 3, m)
    g, h = WORDS[rng.integers(0, 5, m)], np.array(["u", "v"], object)[rng.integers(0, 2, m)]
    if kind >= 2:
        x, g, h = (np.repeat(v[:1], m) for v in (x, g, h))
    # times: one episode after the other, or crossing ones
    start = 3.0 * (np.arange(m) % 4)
    stop = start + 3.0 if kind % 2 else 6.0 + 6.0 * x
    # 0, too large, missing; the largest at either end of x
    weight = 1.0 + (2 - kind) * x if kind % 2 else np.abs(x)
    return {"x": x, "g": g, "h": h, "t": stop, "s": start, "w": weight}


def table(parts):
    """People of a dictionary id -> rows, in a file that interleaves them."""
    rng = np.random.default_rng(len(parts))
    ids = np.concatenate([np.full(len(p["x"]), i, float) for i, p in parts.items()])
    order = rng.permutation(len(ids))
    out = {c: np.concatenate([p[c] for p in parts.values()])[order] for c in COLUMNS}
    return {"id": ids[order], **out}


def base(rng):
    return {i: rows(rng, 1 + i % 5, i % 4) for i in range(N - 1)}  # the last one has no row


def neighbours(rng, parts):
    for m in (1, 2, 3, 40, 1000):
        for kind in range(4):
            for person in (3, 4, N - 1):
                yield {**parts, person: rows(rng, m, kind)}
    yield {i: p for i, p in parts.items() if i != 3}


def plan_of(verb, formula, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.plan(formula, dp.Schema(**SCHEMA), n=N, eps=4.0, delta=1e-4, verb=verb,
                       unit="id", units=N, **options)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_rows_of_a_person_move_no_more_than_is_charged(name):
    """Seed 5, deterministic: every draw of the stage against the bound that it handed over."""
    verb, formula, options = CASES[name]
    rng = np.random.default_rng(5)
    parts = base(rng)
    plan = plan_of(verb, formula, **options)
    ratios = replay_ratios(plan, table(parts), [table(p) for p in neighbours(rng, parts)], seed=3)
    assert max(ratios.values()) <= 1.0 + 1e-9, ratios
    assert max(ratios.values()) > 0.7, ratios


def worst_person(groups, q, offset):
    """Sum over groups of the largest move over what others lay there, over the bound (``move``)."""
    exact, rng, unit = ranks.fraction(q), np.random.default_rng(groups), grids.STEPS_OF_RANKS
    half, all_groups = groups // 2, np.arange(groups)

    def spread(low, high):
        mass = np.diff(np.linspace(0, unit, high - low + 1).astype(np.int64))
        return np.concatenate([np.zeros(low, np.int64), mass, np.zeros(groups - high, np.int64)])

    everywhere, one, none = spread(0, groups), spread(0, 1), np.zeros(groups, np.int64)
    pairs = [(everywhere, everywhere), (everywhere, one), (everywhere, none), (one, none)]
    if groups > 1:
        pairs.append((spread(0, half), spread(half, groups)))
    worst = 0.0
    for mine, other in pairs:
        most = np.zeros(groups)
        for _ in range(300):
            found = []
            start = rng.integers(0, 3 * unit, (groups, 4)) * rng.integers(0, 2, (groups, 1))
            for mass in (mine, other):
                laid = np.zeros((groups, 4), dtype=np.int64)
                laid[all_groups, rng.choice([0, 3], groups)] = mass
                found.append(grids.penalties(start + laid, exact, offset, unit))
            most = np.maximum(most, np.abs(found[0] - found[1]).max(axis=1))
        bound = rank_sensitivity(Ranks(exact, groups > 1, unit, offset))
        worst = max(worst, most.sum() / bound)
    return worst


@pytest.mark.parametrize("groups", [1, 2, 24, 50, 256, 600])
@pytest.mark.parametrize("q", [0.1, 0.3, 0.5, 0.9, 0.1234])
def test_a_person_in_many_groups_moves_no_more_ranks_than_a_row(groups, q):
    """Search, seed fixed, deterministic; without and with an offset of the target.

    Targets rounded in each group gave 1.03 at 24 groups, 1.10 at 50, 1.5 at 256.
    """
    assert 0.9 < worst_person(groups, q, 0) <= 1.0
    both = [worst_person(groups, q, offset) for offset in (-1, 1)]
    assert 0.5 < max(both) <= 1.0


def loss(a, b, eps):
    """Log ratio of two draws of every group together: the weights that the mechanism makes."""
    rate = eps / (2.0 * a.sensitivity)
    assert a.sensitivity == b.sensitivity
    heights = [-rate * d.value.astype(float) for d in (a, b)]
    logs = [h - np.logaddexp.reduce(h, axis=1, keepdims=True) for h in heights]
    return max(float((sign * (logs[0] - logs[1])).max(axis=1).sum()) for sign in (1, -1))


@pytest.mark.parametrize("groups", [2, 24, 256, 600])
def test_a_stage_with_many_groups_loses_no_more_than_it_charges(groups):
    """The whole stage of quantiles by group and person: from one half of the groups to the other.

    The loss of each draw, by the penalties and the bound that the stage handed over, and what it
    moves.
    """
    k = groups // 2  # 256 = 85 * 3 + 1: three steps a group, whose half is no step
    levels = np.array([f"g{i}" for i in range(groups)], object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        plan = dp.plan("x ~ g", dp.Schema(x=(-1.0, 1.0), g=dp.Levels(list(levels))), n=N, eps=4.0,
                       delta=0.0, verb="dp_table", quantiles=[0.1, 0.3, 0.5, 0.9, 0.1234],
                       unit="id", units=N)  # fmt: skip

    def made(last, x=-1.0):
        return {"id": np.zeros(len(last)), "x": np.full(len(last), x), "g": last}

    tables = [made(levels[:k]), made(levels[k:]), made(levels[:1]), made(levels), made(levels, 1.0)]
    first = replay_stage(plan, tables[0], 3)
    charged = {s.name: s.mechanism.eps for s in plan.steps if first[s.name].kind == "choice"}
    assert len(charged) == 5
    moved, lost = 0.0, 0.0
    for other in tables[1:]:
        second = replay_stage(plan, other, 3, first)
        assert set(first) == set(second)
        for name, eps in charged.items():
            moved = max(moved, first[name].distance(second[name]) / first[name].sensitivity)
            lost = max(lost, loss(first[name], second[name], eps) / eps)
    assert 0.9 < moved <= 1.0 and 0.2 < lost <= 1.0, (moved, lost)


def test_mutant_a_person_that_lays_all_its_rows_is_caught(monkeypatch):
    def all_rows(person, place, mass, counts, cells):
        return place, mass

    for module in ("core.tables", "core.grids"):
        monkeypatch.setattr(f"dpmodels.{module}.shares", all_rows)
    for name in ("table", "em", "tree"):
        verb, formula, options = CASES[name]
        rng = np.random.default_rng(5)
        parts = base(rng)
        ratios = replay_ratios(
            plan_of(verb, formula, **options), table(parts), [table({**parts, 3: rows(rng, 40, 2)})],
            seed=3,
        )  # fmt: skip
        assert max(ratios.values()) > 5.0, name


def entries(rng, unit=int(STEPS), people=30, cells=50):
    counts = rng.integers(1, 200, people)
    person = np.repeat(np.arange(people), counts)
    place = rng.integers(0, rng.integers(1, cells + 1, people)[person])
    return person, place, np.full(len(person), unit), counts


def test_shares_are_one_unit_a_person_and_never_negative():
    rng = np.random.default_rng(1)
    for unit in (int(STEPS), 256, 1):
        person, place, mass, counts = entries(rng, unit)
        for i in range(len(counts)):
            mine = person == i
            one, where = person[mine] * 0, place[mine]
            cell, share = shares(one, where, mass[mine], counts[i : i + 1], 50)
            assert share.sum() == unit and (share >= 0).all() and (np.diff(cell) > 0).all()
            exact = np.bincount(where, minlength=50)[cell] / counts[i] * unit
            assert np.abs(np.cumsum(share) - np.cumsum(exact)).max() <= 0.5
            order = rng.permutation(len(where))
            again = shares(one, where[order], mass[mine], counts[i : i + 1], 50)
            assert (again[0] == cell).all() and (again[1] == share).all()


def test_shares_of_a_block_are_those_of_people_one_by_one():
    rng = np.random.default_rng(2)
    person, place, mass, counts = entries(rng)
    mixed = rng.permutation(len(person))
    cell, share = shares(person[mixed], place[mixed], mass, counts, 50)
    want = np.zeros(50, dtype=np.int64)
    for i in range(len(counts)):
        mine = person == i
        c, s = shares(person[mine] * 0, place[mine], mass[mine], counts[i : i + 1], 50)
        want[c] += s
    assert (np.bincount(cell, share, 50).astype(np.int64) == want).all()


#: Where later passes look from what earlier ones released, with noise of another size.
LOOKING = ("hazards", "hazards of a cause", "hazards, episodes", "ordered", "unordered")


@pytest.mark.parametrize("name", [name for name in CASES if name not in LOOKING])
def test_one_row_a_person_gives_what_rows_give(name):
    """The same numbers as the row-level stage hands to its noise, in steps of 2^-20 or whole."""
    verb, formula, options = CASES[name]
    rng = np.random.default_rng(9)
    parts = {i: rows(rng, 1, i % 4) for i in range(N)}
    data = table(parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        plain = dp.plan(formula, dp.Schema(**SCHEMA), n=N, eps=4.0, delta=1e-4, verb=verb, **options)
    one = replay_stage(plan_of(verb, formula, **options), data, 3)
    two = replay_stage(plain, {k: v for k, v in data.items() if k != "id"}, 3)
    one.pop(PAIRS_STEP, None)  # of people alone
    for step, found in one.items():
        a, b = np.asarray(found.value, float), np.asarray(two[step].value, float)
        unit = grids.STEPS_OF_RANKS if "em" in name or "quantile" in step else STEPS
        assert np.array_equal(a, b) or np.array_equal(a, b * unit), step
