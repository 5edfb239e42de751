"""A person as the unit: what all rows of one person move, on hostile neighbours; and its mutants."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import ranges as buy
from dpmodels.core import units as unit_sets
from dpmodels.core.units import GRAIN, UnitPass
from dpmodels.errors import DPModelsWarning
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import schema_for
from dpmodels.proof.prove import joint_sensitivity
from dpmodels.proof.sets import STEPS
from dpmodels.scoring import rules
from dpmodels.scoring.clip import Lengths
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rules import OCTAVES
from dpmodels.scoring.unit_passes import RegressionRows
from dpmodels.scoring.units import unit_pass
from dpmodels.sources.people import BlockOfPeople, PeopleRows
from dpmodels.sources.tasks import as_source
from dpmodels.sums.products import squares
from dpmodels.sums.rowmap import factors, into_balls
from dpmodels.sums.scaling import UnitScale
from dpmodels.units import Person
from tests import one_pass
from tests.replaying import replay_ratios, replay_stage

N = 12
UNIT = Person("id", N, 3.0)
XY = {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "y": (-1.0, 1.0)}
COUNTS = {**XY, "y": dp.Count(20)}
EVENT = {**XY, "y": dp.Binary()}
BOUGHT = {"a": dp.Real(), "b": (-1.0, 1.0), "y": (-1.0, 1.0)}


def corner(rng, m, *, kind=0):
    """m rows of one person: corners, far out, all alike, opposite, missing, or everything."""
    cells = rng.choice([-1.0, 1.0], size=(m, 3))
    if kind == 1:
        cells = np.repeat(cells[:1], m, axis=0)  # duplicates
    if kind == 2:
        cells = rng.normal(size=(m, 3)) * 10.0 ** rng.uniform(-6, 6, size=(m, 1))
    if kind == 3:
        cells[rng.random((m, 3)) < 0.3] = np.nan
    if kind == 4:
        cells = cells * 0.1
    return cells


def base(rng, n=N):
    """People of 1, 2, 3 ... rows, in a file that interleaves them; some cells missing."""
    parts = [(i, corner(rng, 1 + i % 5, kind=4 * (i % 2))) for i in range(n)]
    ids = np.concatenate([np.full(len(c), i) for i, c in parts]).astype(float)
    cells = np.concatenate([c for _, c in parts])
    order = rng.permutation(len(ids))
    ids, cells = ids[order], cells[order]
    nobody = np.full(3, np.nan)  # rows without an id
    return np.append(ids, nobody), np.concatenate([cells, corner(rng, 3)])


def with_rows(rng, ids, cells, person, rows):
    """The table with all rows of a person replaced, the new ones strewn over the file."""
    keep = ids != person
    ids, cells = ids[keep], cells[keep]
    places = np.sort(rng.integers(0, len(ids) + 1, size=len(rows)))
    return np.insert(ids, places, person), np.insert(cells, places, rows, axis=0)


def table(ids, cells, event=False):
    columns = dict(zip("aby", cells.T, strict=True))
    if event:
        columns["y"] = np.where(np.isnan(columns["y"]), np.nan, (columns["y"] > 0).astype(float))
    return {"id": ids, **columns}


def neighbours(rng, ids, cells, most=1000):
    for m in (1, 2, 3, 40, most):
        for kind in range(5):
            for person in (3, 4):
                yield with_rows(rng, ids, cells, person, corner(rng, m, kind=kind))


TABLE = pd.DataFrame(np.random.default_rng(3).uniform(-1, 1, (60, 3)), columns=["a", "b", "y"])
PUBLIC = {"moments": np.diag([1.0, 0.3, 0.3]), "m": 100}
CASES = {
    "ols": ("dp_ols", {}, XY),
    "ols, add-remove": ("dp_ols", {"relation": "add-remove", "n_guess": N}, XY),
    "ols, people alike": ("dp_ols", {"person_weights": "equal"}, XY),
    "logit": ("dp_glm", {}, EVENT),
    "logit, people alike": ("dp_glm", {"person_weights": "equal"}, EVENT),
    "poisson": ("dp_glm", {"family": "poisson"}, COUNTS),
    "median": ("dp_quantreg", {"tau": 0.3}, XY),
    "huber": ("dp_mest", {"loss": "huber"}, XY),
    "quantiles": ("dp_quantreg", {"tau": (0.3, 0.6)}, XY),
    "statistics": ("dp_glm", {"fit_stats": True}, EVENT),
    "bought": ("dp_ols", {}, BOUGHT),
    "ols, public": ("dp_ols", {"method": "pmt", "public": TABLE}, XY),
    "mean": ("dp_mean", {}, XY),
    "mean, pure": ("dp_mean", {"delta": 0.0}, XY),
    "moments": ("dp_moments", {"stages": 2}, XY),
    "moments, pure": ("dp_moments", {"stages": 1, "delta": 0.0}, XY),
    "moments, joint": ("dp_moments", {"method": "joint"}, XY),
    "moments, joint, add-remove": (
        "dp_moments", {"method": "joint", "relation": "add-remove", "n_guess": N}, XY,
    ),
    "effects": ("dp_feols", {"formula": "y ~ a + b | id"}, XY),
    "effects, add-remove": (
        "dp_feols",
        {"formula": "y ~ a + b | id", "relation": "add-remove", "n_guess": N}, XY,
    ),
    "random intercepts": ("dp_feols", {"formula": "y ~ a + b", "re": "id"}, XY),
    "random intercepts, add-remove": (
        "dp_feols",
        {"formula": "y ~ a + b", "re": "id", "mundlak": False, "relation": "add-remove",
         "n_guess": N}, XY,
    ),
    "effects of counts": ("dp_fepois", {"formula": "y ~ a + b | id"}, COUNTS),
    "treatment effect": ("dp_ate", {"formula": "y ~ a", "treatment": "{b > 0}"}, XY),
    "treatment effect, treated": (
        "dp_ate", {"formula": "y ~ a", "treatment": "{b > 0}", "estimand": "ATT"}, XY,
    ),
    "treatment effect, halves": (
        "dp_ate", {"formula": "y ~ 1", "treatment": "{b > 0}", "folds": "{a > 0}"}, XY,
    ),
    "moments, public": ("dp_moments", {"method": "pmt", "public": PUBLIC, "stages": 2}, XY),
}


def plan_of(verb, schema, *, eps=4.0, n=N, delta=1e-4, **options):
    people = {} if options.get("relation") == "add-remove" else {"units": n}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        plain = "y + a ~ 1" if verb in ("dp_mean", "dp_moments") else "y ~ a + b"
        formula = options.pop("formula", plain)
        return dp.plan(formula, schema, n=n, eps=eps, delta=delta, verb=verb, unit="id",
                       **people, rows_per_unit=3, **options)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_rows_of_a_person_move_no_more_than_is_charged(name):
    """Seed 5, deterministic; every draw of the production stage against the bound it handed over.

    The person has 1 to 1000 rows before and after; untouched people are bit-identical, or the
    distances of exact integers would say so.
    """
    verb, options, schema = CASES[name]
    rng = np.random.default_rng(5)
    n = 60 if name == "bought" else N
    ids, cells = base(rng, n)
    plan = plan_of(verb, schema, eps=60.0 if name == "bought" else 4.0, n=n, **options)
    event = schema is EVENT
    others = [table(*o, event) for o in neighbours(rng, ids, cells)]
    if "add-remove" in name:
        others = [table(ids[ids != p], cells[ids != p]) for p in range(N)]
    ratios = replay_ratios(plan, table(ids, cells, event), others, seed=3)
    assert max(ratios.values()) <= 1.0 + 1e-9, ratios
    told = [v for k, v in ratios.items() if k.rpartition(": ")[2].startswith(("places", "information", "means", "moments", "second"))]
    told += [ratios[k] for k in ("first moments", "whitened moments") if k in ratios]
    assert max(told) > 0.5, ratios  # the neighbours are bad enough to tell
    if name == "bought":
        assert max(v for k, v in ratios.items() if k.startswith(("scale of", "range of"))) > 0.5


def images(plan, columns):
    return {name: d.value for name, d in replay_stage(plan, columns, 3).items()}


@pytest.mark.parametrize("verb", ["dp_ols", "dp_glm", "dp_quantreg", "bought"])
def test_the_sums_depend_on_no_order_no_chunks_and_nobody_else(verb):
    """What the stage draws is the same, bit for bit, however the file is cut and ordered."""
    rng = np.random.default_rng(8)
    ids, cells = base(rng, 60)
    if verb == "bought":
        cells[:, 0] = rng.uniform(-3, 3, len(cells))
        plan = plan_of("dp_ols", BOUGHT, n=60, eps=60.0)
    else:
        plan = plan_of(verb, EVENT if verb == "dp_glm" else XY, n=60)
    order = rng.permutation(len(ids))
    first = images(plan, table(ids, cells, verb == "dp_glm"))
    again = images(plan, table(ids[order], cells[order], verb == "dp_glm"))
    for name, value in first.items():
        assert np.array_equal(value, again[name]), name


def design_of(schema=None):
    full = schema_for(dict.fromkeys("aby", "numeric"), dp.Schema(**(schema or XY)), None, "yab")
    return build_design("y ~ a + b", full)


def rows_of(ids, cells, n=N, **how):
    return PeopleRows(as_source(table(ids, cells)), n, Person("id"), **how)


def test_blocks_hold_whole_people_whatever_their_size():
    rng = np.random.default_rng(2)
    ids, cells = with_rows(rng, *base(rng), 3, corner(rng, 1000))
    seen = []
    for block in rows_of(ids, cells).people(design_of(), height=16):
        assert block.rows.shape[1] == block.counts.sum()
        assert (block.starts == np.cumsum(block.counts) - block.counts).all()
        assert block.rows.shape[1] <= 16 or len(block.counts) == 1
        seen += block.counts.tolist()
    wanted = [int((ids == i).sum()) for i in range(N)]
    assert sorted(seen) == sorted(wanted) and max(seen) == 1000


def one_person(rows):
    m = rows.shape[1]
    return BlockOfPeople(rows, np.array([0]), np.array([m]))


def lattices(rng, k=3):
    for m in (1, 2, 7, 1000):
        for scale in (1e-3, 0.1, 1.0, 3.0, 1e3, 1e120):
            yield rng.normal(size=(k, m)) * scale * STEPS
            yield np.repeat(rng.normal(size=(k, 1)) * scale * STEPS, m, axis=1)


def test_a_person_stays_in_its_ball_in_exact_integers():
    rng = np.random.default_rng(4)
    longest = 0
    for z in lattices(rng):
        for image in into_balls(z, np.sqrt(squares(z)), one_person(z), STEPS, 2.5 * STEPS):
            trace = sum(int(v) ** 2 for v in image.ravel().tolist())
            assert trace <= 2**40
            longest = max(longest, trace)
    assert longest > 0.999 * 2**40


def test_mutant_clipping_every_row_by_itself_is_caught(monkeypatch):
    """Seed 5: rows in the ball one by one let 40 rows of one person weigh 40 times."""

    def by_row(length, block, *radii):
        m = len(length)
        ones = BlockOfPeople(block.rows, np.arange(m), np.ones(m, dtype=np.intp))
        return factors(length, ones, *radii)

    def trace():
        far = 1e3 * np.random.default_rng(5).normal(size=(P + 1, 40))
        return sum(int(x) for x in np.diag(sums_of(pass_of(True), far).information))

    assert trace() <= 2**40
    monkeypatch.setattr(unit_sets, "factors", by_row)
    assert trace() > 30 * 2**40


def test_mutant_clipping_scores_by_row_is_caught(monkeypatch):
    """A person's rows, each in the ball by itself, may add up to any multiple of it."""

    def unclipped(own, size, radius):
        step = radius / GRAIN / STEPS
        most = 50.0 * STEPS  # as many rows
        return np.trunc(own / step * np.minimum(1.0, most / np.maximum(size / step, 1.0))).sum(
            axis=1
        ).astype(np.int64)

    monkeypatch.setattr("dpmodels.core.units.scores_in_ball", unclipped)
    assert ratio_with() > 1.5


def test_mutant_clipping_a_later_block_by_what_is_left_is_caught(monkeypatch):
    """Other people's rows cut mine into blocks: what is left over depends on them.

    1000 people with rows e1, e2 each, and one more whose rows make the blocks end inside of them.
    """

    def left_over(blocks):
        """Sum of z z' with each block of a person scaled by what its earlier ones left."""
        used, total = {}, np.zeros((2, 2))
        for part in blocks:
            for who in dict.fromkeys(w for w, _ in part):
                mine = np.array([z for w, z in part if w == who])
                room = 1.0 - used.get(who, 0.0)
                trace = float((mine**2).sum())
                c = min(1.0, room / trace)
                used[who] = used.get(who, 0.0) + c * trace
                total += c * mine.T @ mine
        return total

    e = np.eye(2)
    people = [(who, e[i]) for who in range(1000) for i in range(2)]
    whole = [people[i : i + 2] for i in range(0, 2000, 2)]
    cut = [people[:1], *(people[i : i + 2] for i in range(1, 1999, 2)), people[1999:]]
    moved = np.linalg.norm(left_over(whole) - left_over(cut))
    assert moved == pytest.approx(707.1, abs=0.1)  # units.md 5: not sqrt2

    rows = np.array([z for _, z in people])
    ids = np.array([who for who, _ in people], dtype=float)
    cells = np.column_stack([rows, np.zeros(len(rows))])
    sums = []
    for ahead in ([], [[1.0, 1.0, 1.0]]):  # one more row in front moves every block
        more = np.array(ahead).reshape(-1, 3)
        held = rows_of(np.append(np.full(len(more), 5000.0), ids), np.vstack([more, cells]), 1000)
        held._public_n = False
        total = np.zeros((4, 4))
        for block in held.people(design_of(), height=3):
            z = block.rows * STEPS
            (image,) = into_balls(z, np.sqrt(squares(z)), block, STEPS)
            total += image @ image.T / STEPS**2
        sums.append(total)
    assert np.linalg.norm(sums[1] - sums[0]) <= np.sqrt(2.0)


def test_mutant_feeding_rows_to_bought_ranges_is_caught(monkeypatch):
    def every_row(self, design, indices, keep, draw):
        parts = [b.rows[list(indices)] for b in self.people(design)]
        return np.hstack(parts)[:, : 10 * N]

    monkeypatch.setattr(PeopleRows, "sample", every_row)
    rng = np.random.default_rng(5)
    ids, cells = base(rng, 60)
    plan = plan_of("dp_ols", BOUGHT, n=60, eps=60.0)
    more = with_rows(rng, ids, cells, 0, corner(rng, 400, kind=2))
    tau = buy.threshold(plan.purchase)
    ratios = replay_ratios(plan, table(ids, cells), [table(*more)], seed=3)
    assert tau and max(v for k, v in ratios.items() if " of " in k) > 1.5


P = 3
CENTRE = Centre(
    UnitScale(np.ones(P + 1), np.zeros(P + 1), False), np.eye(P), np.zeros(P), np.eye(P), 1.0
)


def person(*rows):
    return np.array(rows).T


def far_apart(plan):
    """Two people: information in one direction each, scores opposite along a third."""
    R, C = plan.information, plan.clip * (1.0 - 1e-6)
    small = 1e-3 * R
    e = np.eye(P)
    return (
        person([*(R * e[0]), 0.0], [*(small * e[2]), C / small]),
        person([*(R * e[1]), 0.0], [*(small * e[2]), -C / small]),
    )


def sums_of(plan, rows):
    """The sums of one person."""
    return one_pass.sums_of(UnitPass(plan, P), RegressionRows(CENTRE), [one_person(rows.copy())])


def pass_of(last, relation="replace"):
    """A pass of 500 people whose scores have the length of the identity's."""
    counts = np.zeros(OCTAVES)
    counts[rules.OCTAVE_ZERO + 1] = 500.0
    return unit_pass(
        Lengths(counts, 10.0), 0.3, 500, P, relation, float(P), last=last, scale=False, tail=500
    )


def query(plan, rows):
    """The joint query of one person, in units of its noise sds, as released."""
    sums = sums_of(plan, rows)
    upper, out = np.triu_indices(P, 1), []
    for name in ("information", "meat"):
        matrix = getattr(sums, name)
        if matrix is not None:
            m = np.asarray(matrix, float) * (getattr(plan, name) / STEPS) ** 2
            m /= getattr(plan.noise, name)
            out += [np.diag(m), np.sqrt(2.0) * m[upper]]
    out.append(np.asarray(sums.score, float) * plan.clip / STEPS / plan.noise.score)
    return np.concatenate(out)


@pytest.mark.parametrize("last", [False, True])
def test_the_joint_bound_of_people_holds_and_that_of_rows_does_not(last):
    """Scores and information of a person are not parallel: the sharper bound is for rows."""
    plan = pass_of(last)
    one, other = (query(plan, rows) for rows in far_apart(plan))
    moved = np.linalg.norm(one - other)
    assert 0.8 * plan.mu_joint < moved <= plan.mu_joint
    parts = [getattr(plan, name) for name in ("information", "meat")]
    noise = [getattr(plan.noise, name) for name in ("information", "meat")]
    matrices = sum((R * R / sd) ** 2 for R, sd in zip(parts, noise, strict=True) if R)
    scores = (plan.clip / plan.noise.score) ** 2
    of_rows = joint_sensitivity(matrices, scores, "replace", P, people=False)
    assert of_rows < joint_sensitivity(matrices, scores, "replace", P, people=True)
    assert not last or moved > of_rows  # mutant: joint_reach(people=False)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_random_people_move_no_more_than_is_charged(last, relation):
    """Seed 7, deterministic: every pair of 120 people with 1 to 50 rows of any size."""
    rng = np.random.default_rng(7)
    plan = pass_of(last, relation)
    found = [query(plan, rows) for rows in far_apart(plan)]
    for _ in range(120):
        m = int(rng.integers(1, 50))
        rows = rng.normal(size=(P + 1, m)) * 10.0 ** rng.uniform(-2, 3, size=m)
        if rng.random() < 0.5:
            rows[:] = rows[:, :1]
        rows[-1] *= 10.0 ** rng.uniform(-2, 4)
        found.append(query(plan, rows))
    found = np.array(found)
    pairs = np.linalg.norm(found[:, None] - found[None], axis=2)
    moved = pairs.max() if relation == "replace" else np.linalg.norm(found, axis=1).max()
    assert 0.8 * plan.mu_joint < moved <= plan.mu_joint


def ratio_with(monkeypatch=None, module=None, name="", new=None):
    if module is not None:
        monkeypatch.setattr(module, name, new)
        if hasattr(unit_sets, name):
            monkeypatch.setattr(unit_sets, name, new)
    rng = np.random.default_rng(5)
    ids, cells = base(rng)
    others = [table(*o) for o in neighbours(rng, ids, cells, most=100)]
    ratios = replay_ratios(plan_of("dp_ols", XY), table(ids, cells), others, seed=3)
    return max(ratios.values())


@pytest.mark.parametrize("place", range(0, 40, 3))
def test_a_person_adds_the_same_bits_wherever_it_stands(place):
    """Families with exp, log and roots: the image of a row may not know its neighbours."""
    rng = np.random.default_rng(9)
    mine = rng.uniform(-1, 1, size=(5, 3))
    mine[:, 2] = rng.integers(0, 9, 5)
    plan = plan_of("dp_glm", COUNTS, family="poisson", n=4)
    alone = images(plan, table(np.zeros(5), mine))
    filler = np.full((place, 3), np.nan)  # people without a whole row add nothing
    where = 37 - place
    ids = np.concatenate([np.ones(place), np.zeros(5), np.ones(max(where, 0))])
    cells = np.vstack([filler, mine, np.full((max(where, 0), 3), np.nan)])
    among = images(plan, table(ids, cells))
    for name, value in alone.items():
        assert np.array_equal(value, among[name]), name
