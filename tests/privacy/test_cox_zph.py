"""``fit.cox_zph``: what one unit moves, whatever its rows, against the bound that was handed over."""

import itertools

import numpy as np
import pytest

from dpmodels.audit import audit
from dpmodels.models.survival.hazard import Timeline
from dpmodels.models.survival.zph import plan_zph, whitened
from dpmodels.privacy.run import Run
from dpmodels.sources.people import BlockOfPeople
from tests.one_pass import expanded, sums_of
from tests.privacy.cases.survival import CHECKS, check_of, stage_of
from tests.replaying import replay_ratios

N = 12
WILD = [np.nan, np.inf, -np.inf, 1e300, -7.5, 3e-9, 5e-324]
COLUMNS = {"t": (0.0, 12.0), "s": (0.0, 12.0), "a": (-1.0, 1.0), "b": (-2.0, 1.0)}


def rows(rng, m, kind):
    """m rows of a unit: at corners (alike or not), one episode after the other, or anything."""
    out = {k: rng.choice([lo, hi, (lo + hi) / 2, rng.uniform(lo, hi)], m) for k, (lo, hi) in COLUMNS.items()}
    out["d"] = rng.integers(0, 2, m).astype(float)
    out["g"] = np.array(["u", "v", None, "?"], dtype=object)[rng.integers(0, 4 if kind == 2 else 2, m)]
    if kind == 0:
        out = {k: np.repeat(v[:1], m) for k, v in out.items()}
    if kind == 1:
        out["s"] = 12.0 * np.arange(m) / m
        out["t"] = out["s"] + 12.0 / m
    if kind == 2:
        out[rng.choice(list(COLUMNS))][rng.integers(m)] = rng.choice(WILD)
    return out


def corners():
    """Single rows at all corners of the predictors, that end at ends of cells, with event or not."""
    for a, b, t, d in itertools.product([-1.0, 1.0], [-2.0, 1.0], [2.0, 4.0, 8.0, 12.0], [0.0, 1.0]):
        cells = {"a": a, "b": b, "t": t, "d": d, "s": 0.0, "g": "u"}
        yield {k: np.array([v], dtype=object if k == "g" else float) for k, v in cells.items()}


def table(name, parts):
    used = [*columns_of(name)]
    out = {c: np.concatenate([p[c] for p in parts]) for c in used}
    if CHECKS[name][1]:
        out["id"] = np.concatenate([np.full(len(p["t"]), float(i)) for i, p in enumerate(parts)])
    return out


def columns_of(name):
    return check_of(name, N).design.kinds


@pytest.mark.parametrize("name", CHECKS)
def test_one_unit_moves_no_more_than_is_charged(name):
    """Seed 7, deterministic: replay of the production stage on adversarial neighbours."""
    rng = np.random.default_rng(7)
    many = (1, 2, 3, 40, 300) if CHECKS[name][1] else (1,)
    parts = [rows(rng, many[i % len(many)], i % 3) for i in range(N)]
    worst = 0.0
    for first in range(6):
        parts[-1] = [*corners()][5 * first + 6]
        last = [*corners(), *(rows(rng, m, k) for m in many for k in range(3) for _ in range(8))]
        others = [table(name, [*parts[:-1], one]) for one in last]
        (ratio,) = replay_ratios(stage_of(name, N), table(name, parts), others, seed=3).values()
        worst = max(worst, ratio)
    assert 0.4 < worst <= 1.0 + 1e-9


@pytest.mark.parametrize("name", CHECKS)
def test_a_unit_adds_the_same_integers_in_any_company_and_order(name):
    """Seed 2, deterministic; people of 1, 3 and 60 rows, rows one by one."""
    plan = check_of(name, N)
    rng, where = np.random.default_rng(2), plan.design.survival
    units = []
    for m in (1, 3, 60, 2, 1) if CHECKS[name][1] else (1,) * 8:
        block = rng.choice([-1.0, 0.3, 1.0], (plan.design.q, m))
        block[0] = 1.0
        block[where.event] = rng.integers(0, 2, m)
        block[where.time] = rng.choice([2.0, 3.0, 7.5, 12.0], m)
        if where.start is not None:
            block[where.start] = rng.choice([0.0, 3.0, 5.0, 9.0], m)
        if where.strata is not None:
            block[where.strata] = rng.integers(0, 2, m)
        units.append(block)

    def added(some):
        counts = np.array([u.shape[1] for u in some])
        block = BlockOfPeople(np.concatenate(some, axis=1), np.cumsum(counts) - counts, counts)
        return sums_of(plan.into, plan.local, [block])

    alone = [added([u]) for u in units]
    for order in itertools.islice(itertools.permutations(range(len(units))), 0, 120, 7):
        shuffled = [units[k][:, rng.permutation(units[k].shape[1])] for k in order]
        assert (added(shuffled) == sum(alone[k] for k in order)).all()


def test_the_longest_row_is_as_long_as_the_ball():
    """theory.md, 10: all expected events in one interval, the event in another, z at its longest.

    So no row is cut, and scores keep their mean.
    """
    given = check_of("rows", 1)
    line = Timeline(np.linspace(0, 12, 4), np.array([[0.4998, 0.0, 1e-9]]), np.ones((1, 3)))
    seen = whitened(np.eye(2), np.eye(3), 1e4, np.arange(1, 3), given.design.q)
    plan = plan_zph(given.design, 1, "record", seen, np.zeros(2), line, 3, 4.0, 1e-4, 500.0)
    where = plan.design.survival
    block = np.ones((plan.design.q, 1))
    block[where.time], block[where.event] = 11.0, 1.0
    found = expanded(plan.local, BlockOfPeople(block, np.arange(1), np.ones(1, dtype=np.intp)))
    longest = np.linalg.norm(found.score)
    assert 0.999 < longest / plan.local.layout.radius <= 1.0


@pytest.mark.statistical
def test_the_audit_passes_and_half_the_noise_is_flagged(monkeypatch):
    """Seed 0; false-alarm probability as the report states it."""
    assert audit("cox_zph", draws=4000).passed
    plain = Run.gaussian
    monkeypatch.setattr(
        Run, "gaussian", lambda self, name, value, s, **kw: plain(self, name, value, s / 2, **kw)
    )
    assert not audit("cox_zph", draws=4000).passed
