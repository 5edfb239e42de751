"""Rows by cell and number: the compiled loops and numpy give the same integers, row for row.

Hostile blocks, cells that are none, maps built to cancel; mutants of the C text; the sanitizers.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, PrivacyBugError, UtilityWarning
from dpmodels.exact import bykernel
from dpmodels.exact import kernel as module
from dpmodels.exact import mixed as exact_mixed
from dpmodels.exact.bycell import seen_by_row
from dpmodels.exact.bykernel import BallByKernel, ScoresByKernel, seen_by_kernel
from dpmodels.exact.kernel import Kernel, _Loaded
from dpmodels.exact.mixed import Lattice, _Ball
from dpmodels.formula.build import build_design
from dpmodels.schema import Levels, Real, Schema
from dpmodels.scoring.coordinates import public_coordinates
from dpmodels.scoring.mixed import mixed_passes
from dpmodels.scoring.rules import LINEAR, TAME, WIDE_LEAST_SQUARES, plan_pass
from dpmodels.scoring.sums import Centre, ScorePass

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
_spec = importlib.util.spec_from_file_location("kernel_builds", HERE / "test_kernel.py")
builds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(builds)

NUMPY = _Loaded(Kernel(False, reason="switched off"))
HEIGHTS = (0, 1, 2, 63, 64, 65, 127, 128, 129, 1013, 8191, 8192, 8193, 32_768)
NUMBERS = (1, 2, 3, 4, 5, 8)
#: What a number may be beside its range, in half ranges about the middle.
WILD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, -0.0, 1.0, -1.0, 1.0 + 1e-7,
        1.0 - 2.0**-53, -1.0 - 2.0**-52, 4e9, 2.0**-20, -(2.0**-21), 0.5 + 2.0**-21)  # fmt: skip


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The kernel, once for every instruction set of this processor."""
    return builds.loaded(builds.built(tmp_path_factory.mktemp("by_cell")))


class path:
    """Rows are added up by one loaded library, or by numpy."""

    def __init__(self, loaded):
        self.loaded = loaded

    def __enter__(self):
        self.kept = module._loaded, bykernel._agrees
        module._loaded = lambda: self.loaded
        bykernel._agrees = lambda found: True  # a mutant is to be compared, not refused

    def __exit__(self, *_):
        module._loaded, bykernel._agrees = self.kept


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


# -- balls ----------------------------------------------------------------------------------------
def lattice_of(rng, d, K=23, r=5, largest=2.0**39):
    """Public tables of which some cells are void."""
    T = np.rint(rng.normal(size=(r, K)) * largest / np.sqrt(r))
    B = np.rint(rng.normal(size=(r, d)) * largest / 2**20 / np.sqrt(r * d))
    void = rng.random(K) < 0.15
    middle, half = rng.normal(size=(d, 1)), rng.uniform(0.5, 3.0, (d, 1))
    return Lattice(np.where(void, 0.0, T), B, middle, half, void)


def hostile(rng, lattice, m, offset=0):
    """Numbers in their ranges, at the ends and beyond them, and none; cells."""
    d = len(lattice.middle)
    unit = rng.uniform(-1.0, 1.0, (d, m + 7))
    for i, odd in enumerate(WILD):
        unit[rng.integers(d), i + 2 :: 43] = odd
    unit[:, 5::31] = np.sign(unit[:, 5::31])
    with np.errstate(all="ignore"):
        block = unit * lattice.half + lattice.middle
    return block[:, offset : offset + m], rng.integers(0, len(lattice.void), m)


def cancelling(seed, d, r=6, K=24):
    """Long cells and columns, short rows where the margin ends: without it some are too long."""
    rng = np.random.default_rng(seed)
    long = 2.0 ** rng.uniform(41.0, 51.0)
    B = np.rint(rng.normal(size=(r, d)) * long / 2**20 / np.sqrt(r * d))
    x = np.rint(rng.uniform(-1.0, 1.0, (d, K)) * 2**20)
    z = rng.normal(size=(r, K))
    z *= exact_mixed.TOP / np.linalg.norm(z, axis=0)
    one = np.ones((d, 1))

    def tables(z):
        return Lattice(np.rint(z - B @ x), B, 0.0 * one, one, np.zeros(K, dtype=bool))

    margin = tables(z).margin / exact_mixed.TOP**2
    near = 1.0 - margin * rng.choice([0.5, 0.05, 1e-3], K) * rng.normal(size=K)
    found = tables(z * np.sqrt(max(1.0 - margin, 0.0)) * near)
    return found, (x + 0.5 * np.sign(x) * (np.abs(x) < 2**20)) / 2**20


def balls(rng, heights):
    for d in NUMBERS:
        lattice = lattice_of(rng, d, largest=2.0 ** rng.uniform(38.5, 40.0))
        for m in heights:
            yield lattice, *hostile(rng, lattice, m, int(rng.integers(4)))
    for seed in range(120):
        lattice, numbers = cancelling(seed, 1 + seed % 4)
        yield lattice, numbers, np.arange(numbers.shape[1])
    for m in (8192, 32_768):  # odd integers as large as they are, in one cell
        lattice = Lattice(np.zeros((2, 3)), np.ones((2, 2)), *np.ones((2, 2, 1)), np.zeros(3, dtype=bool))
        yield lattice, np.full((2, m), 2.0 - 2.0**-20), np.ones(m, dtype=np.intp)


def balls_that_differ(sets, heights=HEIGHTS, seed=0):
    """Where a ball is not numpy's: which rows are left, and every sum."""
    out = []
    with np.errstate(all="ignore"):
        for i, (lattice, block, cells) in enumerate(balls(np.random.default_rng(seed), heights)):
            told = _Ball(lattice)
            others = told.add(block, cells)
            for one in sets:
                with path(one):
                    own = BallByKernel(*lattice.packed)
                    left = own.add(block, cells)
                    if not (same(left, others) and all(map(same, own.sums(), told.sums()))):
                        out.append(("ball", one.set, i))
    return out


def test_balls_are_those_of_numpy(sets):
    assert balls_that_differ(sets) == []
    lattice = lattice_of(np.random.default_rng(0), 2)
    block, cells = hostile(np.random.default_rng(0), lattice, 5000)
    told = _Ball(lattice)
    assert 100 < len(told.add(block, cells)) < 4000  # or this would say little
    assert sum(told.sums()[0]) > 500


def test_a_row_is_the_same_wherever_it_stands(sets):
    rng = np.random.default_rng(3)
    lattice = lattice_of(rng, 3)
    block, cells = hostile(rng, lattice, 3000)
    for one in sets:
        with path(one):
            whole, parts = (BallByKernel(*lattice.packed) for _ in range(2))
            left = whole.add(block, cells)
            found = [a + parts.add(block[:, a : a + 77], cells[a : a + 77]) for a in range(0, 3000, 77)]
            assert same(np.concatenate(found), left)
            assert all(map(same, whole.sums(), parts.sums()))


# -- cells are data -------------------------------------------------------------------------------
def cells_that_are_none(sets):
    """Where a cell that is no place of the tables leaves a trace, or others lose one."""
    rng, out, K, far = np.random.default_rng(5), [], 23, 40
    lattice = lattice_of(rng, 2, K)
    block, cells = hostile(rng, lattice, 999)
    odd = np.arange(999) % 5 == 0
    cells[odd] = rng.choice([-1, -far, K, K + far - 1], odd.sum())
    map, at = lattice.packed
    wide = np.full((K + 2 * far, at.shape[1]), 2.0**70)
    wide[far : far + K] = at
    of_cells = np.full(K + 2 * far, 1.0)
    told = _Ball(lattice)
    places = np.flatnonzero(~odd)
    others = places[told.add(block[:, ~odd], cells[~odd])]
    job = scoring_job(3)
    numbers, own_cells, _ = rows_of(job, rng, 500)
    d, slots = job.lattice.B.shape[1], len(job.grid.void)
    for one in sets:
        with path(one):
            ball = BallByKernel(map, wide[far : far + K])
            kept = np.zeros((K + 2 * far, 3), dtype=np.int64)
            ball._sums.parts[0] = kept[far : far + K]
            left = ball.add(block, cells)
            beyond = np.delete(kept, np.s_[far : far + K], axis=0).any()
            if beyond or not same(left, others) or not all(map_same(ball.sums(), told.sums())):
                out.append(("ball", one.set))
            seen = seen_by_kernel(of_cells[far : far + K], np.ones(2), block, cells)
            if not np.isnan(seen[odd]).all():
                out.append(("seen", one.set))
            scores = ScoresByKernel(*job.lattice.packed, job._numbers, 28)
            kept = [np.zeros((slots + 2 * far, w), dtype=np.int64) for w in (2 + d, 2 + 2 * d)]
            for i, table in enumerate(kept):
                scores._sums.parts[i] = table[far : far + slots]
            none = np.where(own_cells % 2 == 0, -1, slots + far - 1)
            nothing = np.zeros(500)
            left = scores.add(numbers, none, nothing, nothing, np.ones(500, dtype=bool))
            if len(left) or any(table.any() for table in kept) or any(scores.sums()["bins"]):
                out.append(("scores", one.set))
    return out


def map_same(a, b):
    return [same(x, y) for x, y in zip(a, b, strict=True)]


def test_cells_that_are_none_are_void(sets):
    """A code out of its levels is no place to read or to write."""
    assert cells_that_are_none(sets) == []


# -- scoring passes -------------------------------------------------------------------------------
def scoring_job(d, k=2, relation="replace", manner=WIDE_LEAST_SQUARES, scale=0.7, meat=True):
    """A pass by cells and numbers over a design of two factors and d numbers."""
    schema = Schema(
        y=Real(0, 10), g=Levels([f"g{i}" for i in range(12)]), k=Levels(["a", "b"]),
        **{f"x{j}": Real(-1.0 - j, 2.0 + 50.0 * j) for j in range(d)},
    )  # fmt: skip
    design = build_design("y ~ g * k" + "".join(f" + x{j}" for j in range(d)), schema)
    co, rng = public_coordinates(design), np.random.default_rng(d)
    r = co.rank
    W = scale * np.linalg.inv(np.linalg.cholesky(np.cov(rng.normal(size=(r, 5 * r)))))
    plan = plan_pass(LINEAR, k, 0.3, 12_000, r, relation, meat=meat, tail=3000, manner=manner)
    one = ScorePass(plan, Centre(co.unit, co.W0, 0.2 * rng.normal(size=r), W, 0.3))
    (job,) = mixed_passes((one,), design).passes
    return job


def rows_of(job, rng, m):
    """Numbers and responses, cells, and the rows of meat and ordinary information."""
    block, _ = hostile(rng, job.lattice, m)
    y = rng.normal(5.0, 3.0, m)
    for i, odd in enumerate((np.nan, np.inf, 1e9, -1e300, 5e-324, -0.0)):
        y[i + 1 :: 61] = odd
    return np.vstack([block, y]), rng.integers(0, job.grid.cells, m), np.flatnonzero(rng.random(m) < 0.3)


def jobs():
    for d in NUMBERS:
        yield scoring_job(d)
    for manner in (TAME, WIDE_LEAST_SQUARES):
        for relation in ("replace", "add-remove"):
            yield scoring_job(3, 2, relation, manner, 2.5)
            yield scoring_job(2, 1, relation, manner, 0.2)
    yield scoring_job(2, meat=False)
    yield scoring_job(2, scale=0.05)
    yield scoring_job(3, 1, "replace", TAME, 0.1)
    for job in (scoring_job(2), scoring_job(1, 1)):  # a cut that scores reach
        yield replace(job, one=replace(job.one, plan=replace(job.plan, cut=job.plan.cut / 64.0)))
    job = scoring_job(2)  # a radius of the meat that scores by cell reach
    yield replace(job, one=replace(job.one, plan=replace(job.plan, meat=job.plan.meat / 4.0)))


def tally_of(job, blocks):
    sums = job.empty()
    with np.errstate(all="ignore"):
        for block, cells, chosen in blocks:
            job.add(sums, block, cells, chosen)
    return job.tally(sums)


def tallies_differ(a, b):
    for name in ("information", "meat", "spread"):
        one, other = getattr(a, name), getattr(b, name)
        for part in ("counts", "firsts", "seconds"):
            if not same(getattr(one, part), getattr(other, part)):
                return True
    whole = (same(a.score, b.score), same(a.numbers, b.numbers), a.scale == b.scale, a.bins == b.bins)
    dense = ("information", "score", "meat", "spread")
    return not all(whole) or not all(same(getattr(a.dense, n), getattr(b.dense, n)) for n in dense)


def left_over(job, block, cells, chosen):
    """The rows that go the dense way, by the compiled loops and by numpy."""
    of_cells, slopes = job.seen
    with np.errstate(all="ignore"):
        seen = seen_by_row(of_cells, slopes, block, cells)
        sums = job.empty()
        tail = np.zeros(len(cells), dtype=bool)
        tail[chosen] = True
        some = (tail, chosen) if job.plan.spread else (None, None)
        own = sums.compiled.add(block, cells, seen, seen, some[0])
        others = job._add_inside(sums, block, cells, seen, some[1])
        return own, others[~np.isnan(seen[others])]


def scores_that_differ(sets, heights=HEIGHTS, seed=0, which=None):
    rng, out = np.random.default_rng(seed), []
    for i, job in enumerate(jobs() if which is None else which):
        for m in heights if i == 2 or len(heights) < 6 else (1, 65, 1013):
            block, cells, chosen = rows_of(job, rng, m)
            some = slice(None) if m == 128 else chosen
            with path(NUMPY):
                told = tally_of(job, [(block, cells, some)])
            for one in sets:
                with path(one):
                    if tallies_differ(tally_of(job, [(block, cells, some)]), told):
                        out.append(("scores", one.set, i, m))
                    if not same(*left_over(job, block, cells, chosen)):
                        out.append(("places", one.set, i, m))
                    of_cells, slopes = job.seen
                    own = seen_by_kernel(of_cells, slopes, block, cells)
                with np.errstate(all="ignore"):
                    if not np.array_equal(own, seen_by_row(of_cells, slopes, block, cells), equal_nan=True):
                        out.append(("seen", one.set, i, m))
    return out


def test_sums_of_scoring_passes_are_those_of_numpy(sets):
    assert scores_that_differ(sets) == []
    job = scoring_job(3)
    with path(NUMPY):
        tally = tally_of(job, [rows_of(job, np.random.default_rng(0), 9000)])
    assert tally.information.counts.sum() > 1500 and tally.meat.counts.any()
    assert sum(tally.dense.bins) > 500  # rows go both ways
    assert len([b for b in tally.bins if b]) > 8


def test_sums_that_64_bits_do_not_hold_are_carried(sets, monkeypatch):
    monkeypatch.setattr(bykernel, "_MANY", 1500)
    assert scores_that_differ(sets[-1:], (1013,)) == []
    job, rng = scoring_job(2), np.random.default_rng(1)
    blocks = [rows_of(job, rng, 999) for _ in range(5)]
    with path(NUMPY):
        told = tally_of(job, blocks)
    full, room = [], bykernel._Sums.room
    monkeypatch.setattr(
        bykernel._Sums, "room", lambda self, m: full.append(self._rows + m) or room(self, m)
    )
    with path(sets[-1]):
        assert not tallies_differ(tally_of(job, blocks), told)
    assert len(full) == 5 and max(full) <= 2 * 999 and full.count(999) == 1


# -- mutants of the C text ------------------------------------------------------------------------
_INSIDE = "(vec)((bits)AT(LATTICE(j)) & (bits)AT(INSIDE))"
MUTANTS = {
    "the margin left out": ("square += ALL(map[1]);", ""),
    "the ball left out": ("(square <= ALL(map[0])) & within", "within"),
    "cells not compared with the tables": ("int there = (uint64_t)c < (uint64_t)K;", "int there = i < n;"),
    "cells below none": ("int there = (uint64_t)c < (uint64_t)K;", "int there = i < n && c < K;"),
    "cells beyond the last": ("int there = (uint64_t)c < (uint64_t)K;", "int there = i < n && c >= 0;"),
    "what is seen of a cell that is none": ("(uint64_t)cells[i] < (uint64_t)K ? of_cells", "1 ? of_cells"),
    "numbers beyond their ranges": ("within &= SIZE(t) <= ALL(1048576.0);", "within &= t == t;"),
    "numbers that are missing": ("within &= SIZE(t) <= ALL(1048576.0);", "within &= ~(SIZE(t) > ALL(1048576.0));"),
    "numbers that are not whole": ("vec t = CUT(", "vec t = ("),
    "a square left out": ("for (int64_t k = 0; k <= j; k++) {\n                vec part", "for (int64_t k = 0; k < j; k++) {\n                vec part"),
    "a fused product in a length": ("vec part = AT(LATTICE(k)) * ALL(Q[j * d + k]);\n                own += part;", "own = FMA(AT(LATTICE(k)), ALL(Q[j * d + k]), own);"),
    "products of rows beyond the ball": (f"AT(LATTICE(j)) = {_INSIDE};", ";"),
    "void cells go the dense way": ("dense[a + i] = !in && tile[LONG_ * BY_TILE + i] < __builtin_inf();", "dense[a + i] = !in;"),
    "sums of too many rows": ("a % MOST_ROWS == MOST_ROWS - BY_TILE || ", ""),
    "long scores stay": (" & (norm <= ALL(is[BY_KEPT]))", ""),
    "long scores in the meat": ("t *= PICK(less < one, less, one);", ""),
    "large weights stay": ("in &= ~some | (t <= most);", ""),
    "weights above one": ("t = PICK(t < one, t, one);\n            t = PICK(t < most, t, most);\n            AT(SPREAD_)", "t = PICK(t < most, t, most);\n            AT(SPREAD_)"),
    "scores rounded up": ("size = CUT(PICK(size < most, size, most) * ALL(is[BY_FACTOR]));", "size = CUT(PICK(size < most, size, most) * ALL(is[BY_FACTOR]) + ALL(0.5));"),
    "scores of the other sign": ("(bits)size | ((bits)psi & sign)", "(bits)size"),
    "lengths beyond the cut of the scale": ("cut = CUT(PICK(cut < one, cut, one)", "cut = CUT(PICK(cut < 4 * one, cut, one)"),
    "short scores by their sign": ("(vec)(bin & (norm >= ALL(is[BY_LOWEST])))", "(vec)bin"),
    "bins of one sign": ("bin += ~(psi > none) & by_sign;", ""),
    "low words cut": ("both & 0xffffffff", "both & 0x7fffffff"),
    "high words forgotten": ("*high++ += both >> 32;", ""),
    "rows that were seen by nobody": ("!in && own == own &&", "!in &&"),
    "the meat of all rows": ("whole[SOME * BY_TILE + i] = i < n && chooses && some[a + i] ? -1 : 0;", "whole[SOME * BY_TILE + i] = i < n && chooses ? -1 : 0;"),
}  # fmt: skip


def all_that_differs(sets):
    return (
        balls_that_differ(sets, (65, 1013))
        or cells_that_are_none(sets)
        or scores_that_differ(sets, (129, 1013))
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_text_are_caught(name, tmp_path):
    # one instruction set takes a third of the time; only wider ones have fused products
    flags = [] if "fused" in name else ["-O1", "-DDP_PLAIN"]
    changes = [("cells.h", *MUTANTS[name])]
    assert all_that_differs(builds.loaded(builds.built(tmp_path / "mutant", changes, flags)))


def test_a_library_that_is_wrong_fails_its_test_and_numpy_adds_up(tmp_path, monkeypatch):
    changes = [("cells.h", *MUTANTS["numbers beyond their ranges"])]
    (mutant,) = builds.loaded(builds.built(tmp_path / "wrong", changes, ["-O1", "-DDP_PLAIN"]))
    monkeypatch.setattr(module, "_loaded", lambda: mutant)
    with pytest.warns(UtilityWarning, match="self-test"):
        assert not bykernel.fits(2, 10)
    assert scoring_job(2).empty().compiled is None


def test_under_the_sanitizers(tmp_path):
    """Addresses and undefined behaviour."""
    body = """
        heights = (0, 1, 127, 129, 8192)
        found = t.balls_that_differ(sets, heights) + t.cells_that_are_none(sets)
        found += t.scores_that_differ(sets, heights, which=[t.scoring_job(d) for d in (1, 3)])
    """
    assert builds.sanitized(tmp_path / "sanitized", "test_bykernel", body, "-O1").endswith("clean")


# -- lengths --------------------------------------------------------------------------------------
def test_lengths_out_of_range_are_refused_before_anything_is_read(sets):
    lib = sets[0].library
    size = lib.dp_need_by_cell(2)
    work = module.work_of(size)
    at = module.address(work)
    one = np.ones(16)

    def ball(d=2, K=5, m=9, ld=9, work=at, size=size, which=0):
        return lib.dp_ball_by_cell(which, d, K, m, None, None, None, ld, None, None, None, None, work, size)

    def scores(d=2, K=5, m=9, ld=9, work=at, size=size, which=0, numbers=16, many=28, of=one):
        return lib.dp_scores_by_cell(which, d, K, m, None, None, None, ld, None, None, None, None,
                                     module.address(of), numbers, None, None, None, None, many, None,
                                     work, size)  # fmt: skip

    for code, changed in ((1, {"d": 0}), (1, {"d": 17}), (1, {"K": 0}), (1, {"K": 2**20 + 1}),
                          (2, {"m": -1}), (2, {"m": 65537}), (2, {"ld": 8}), (3, {"size": size - 1}),
                          (3, {"work": at + 8}), (4, {"which": 3}), (4, {"which": -1})):  # fmt: skip
        assert ball(**changed) == code and scores(**changed) == code, changed
    for code, changed in ((1, {"d": 0}), (2, {"m": 65537}), (4, {"which": 9})):
        call = {"which": 0, "d": 2, "K": 5, "m": 9, **changed}
        assert lib.dp_seen_by_cell(*call.values(), None, None, None, 9, None, None) == code
    assert scores(numbers=15) == 5 and scores(many=1) == 5
    for place in (4, 7, 9, 10, 11, 13, 14):  # factors, cuts, places of bins
        for bad in (np.nan, -1.0, 1e9):
            of = one.copy()
            of[place] = bad
            free = place in (10, 11) and bad > 0
            assert free or scores(of=of) == 5, (place, bad)


def test_blocks_lie_as_they_like(sets):
    """The sums of rows do not ask how a block lies in memory; what is no block is refused."""
    lattice = lattice_of(np.random.default_rng(0), 2)
    block, cells = hostile(np.random.default_rng(0), lattice, 40)
    with path(sets[-1]):

        def added(numbers, places):
            job = BallByKernel(*lattice.packed)
            return job.add(numbers, places).tolist(), [part.tolist() for part in job.sums()]

        told = added(block, cells)
        apart = np.zeros((4, 80))[::2, ::2]
        apart[...] = block
        for numbers in (np.asfortranarray(block), apart, np.vstack([block, block])[:2]):
            assert added(numbers, cells) == told
        for places in (cells.astype(np.int32), np.repeat(cells, 2)[::2]):
            assert added(block, places) == told
        job = BallByKernel(*lattice.packed)
        for numbers, places in ((block[:1], cells), (block, cells[:39]), (block, cells.astype(float))):
            with pytest.raises(PrivacyBugError):
                job.add(numbers, places)
        with pytest.raises(PrivacyBugError):
            BallByKernel(lattice.packed[0][1:], lattice.packed[1])
        with pytest.raises(PrivacyBugError):
            seen_by_kernel(np.ones(5), np.ones(3), block, cells)
        assert not sum(job.sums()[0])


def test_what_was_worked_in_is_wiped(sets, monkeypatch):
    kept, make = [], module.work_of
    monkeypatch.setattr(module, "work_of", lambda size: kept.append(make(size)) or kept[-1])
    job = scoring_job(2)
    rows = rows_of(job, np.random.default_rng(0), 999)
    with path(sets[-1]):
        tally_of(job, [rows])
        BallByKernel(*job.lattice.packed).add(rows[0][:2], rows[1])
    assert len(kept) >= 2 and not any(work.any() for work in kept)


# -- whole fits -----------------------------------------------------------------------------------
def test_fits_are_the_same_bit_for_bit(sets):
    """Both relations, one number and several; numpy and every instruction set."""
    rng, n = np.random.default_rng(0), 9000
    frame = pd.DataFrame({
        "a": rng.choice([f"a{i}" for i in range(13)], n), "b": rng.choice(["u", "v"], n),
        **{f"x{j}": rng.normal(size=n) for j in range(3)},
    })  # fmt: skip
    frame["y"] = rng.normal(size=n) + frame["x0"] + (frame["b"] == "u")
    frame.loc[::97, "x1"], frame.loc[5::89, "y"], frame.loc[::83, "a"] = np.nan, 40.0, None
    schema = dp.Schema(
        y=Real(-6, 6), a=Levels([f"a{i}" for i in range(13)]), b=Levels(["u", "v"]),
        **{f"x{j}": Real(-3, 3) for j in range(3)},
    )  # fmt: skip
    used = []

    def fits():
        out = []
        for formula, options in (
            ("y ~ a * b + x0 + x1 + x2", {}),
            ("y ~ a * b + x1", {}),
            ("y ~ a * b + x0 + x1 + x2", {"relation": "add-remove", "n_guess": n}),
        ):
            with pytest.warns(NotPrivateWarning):
                fit = dp.dp_ols(formula, frame, schema=schema, eps=30, delta=1e-6, seed=3, **options)
            out.append(np.concatenate([fit.params, fit.bse]))
        return out

    add = BallByKernel.add
    BallByKernel.add = lambda self, *a: used.append(1) or add(self, *a)
    try:
        with path(NUMPY):
            told = fits()
        assert not used
        for one in sets:
            with path(one):
                assert all(map(np.array_equal, fits(), told))
            assert used and not used.clear()
    finally:
        BallByKernel.add = add
