"""Rows in whole steps: one result by the definition, by BLAS and by every instruction set.

Blocks of all kinds, cells that are none, images that are whole numbers; scoring passes and whole
fits; mutants of the C text; the sanitizers.
"""

import importlib.util
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, PrivacyBugError
from dpmodels.exact import kernel as module
from dpmodels.exact import tiles
from dpmodels.exact.kernel import Kernel, _Loaded, load_by_kernel
from dpmodels.exact.rowmap import UnitScale
from dpmodels.exact.steps import Steps
from dpmodels.scoring.rules import LINEAR, TAME, WIDE_LEAST_SQUARES, plan_pass
from dpmodels.scoring.score import plain
from dpmodels.scoring.sums import SEEN, Centre, ScorePass, sums_of_passes
from dpmodels.sources.columns import Columns

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
_spec = importlib.util.spec_from_file_location("kernel_builds", HERE / "test_kernel.py")
builds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(builds)

NUMPY = _Loaded(Kernel(False, reason="switched off"))
HEIGHTS = (0, 1, 2, 127, 128, 129, 1013, 8191, 8192)
WIDTHS = (1, 2, 3, 5, 12, 13, 20, 52)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The kernel, once for every instruction set of this processor."""
    return builds.loaded(builds.built(tmp_path_factory.mktemp("steps")))


class path:
    """Rows are computed by one loaded library, by numpy, or as they are defined."""

    def __init__(self, loaded, word="auto"):
        self.loaded, self.word = loaded, word

    def __enter__(self):
        self.kept = module._loaded, os.environ.get("DPMODELS_KERNEL")
        module._loaded = lambda: self.loaded
        os.environ["DPMODELS_KERNEL"] = self.word

    def __exit__(self, *_):
        module._loaded = self.kept[0]
        if self.kept[1] is None:
            os.environ.pop("DPMODELS_KERNEL", None)
        else:
            os.environ["DPMODELS_KERNEL"] = self.kept[1]


DEFINED = path(NUMPY, "still")


def paths(sets):
    return [path(NUMPY), *map(path, sets)]


def integers(maps, block, way):
    with way, np.errstate(all="ignore"):
        return maps.of(block.copy())


def block_of(rng, q, m, offset):
    """Cells of all sizes, and cells that are none, in a block of columns that lie apart."""
    out = rng.normal(size=(q, m + 7))
    out *= 10.0 ** rng.integers(-6, 3, size=(q, 1))
    wild = (np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, -0.0, 1e100)
    for i, odd in enumerate(wild):
        out[rng.integers(q), i + 3 :: 53] = odd
    out[:, 7::37] = 0.0
    out[:, 8::41] = np.nan
    return out[:, offset : offset + m]


def maps_of(rng, k, q):
    """Maps as passes have them: dense, triangular, of few columns, of none."""
    dense = rng.normal(size=(k, q)) * 10.0 ** rng.integers(2, 7)
    shift = rng.normal(size=k) * (rng.integers(2) * 1e5)
    yield Steps(dense, shift, k)
    upper = np.triu(dense)
    upper[-1] = dense[-1] * 30.0
    yield Steps(upper, np.zeros(k), max(k - 1, 1))
    few = np.zeros((k, q))
    few[:, 0] = 1e4
    few[np.arange(k), np.arange(k) % q] = 3e5
    yield Steps(few, shift, k)
    yield Steps(np.zeros((k, q)), np.zeros(k), k)


def whole_images(rng, k, q, m):
    """Products that are whole numbers, or halves of the last place beside them."""
    matrix = rng.integers(-9, 10, size=(k, q)) / 3.0
    block = np.trunc(rng.normal(size=(q, m)) * 50.0) * 3.0
    block[:, ::5] = np.nextafter(block[:, ::5], 0.0)
    return Steps(matrix, np.zeros(k), max(k - 1, 1)), block


def steps_that_differ(ways, widths=WIDTHS, heights=HEIGHTS, seed=0):
    """Where integers or lengths are not those of the definition."""
    rng, out = np.random.default_rng(seed), []
    for q in widths:
        for m in heights if q in (5, 13) else heights[2:6:3]:
            for k in {1, q, q + 1, q + -q % 4}:
                cases = [(maps, block_of(rng, q, m, int(rng.integers(4)))) for maps in maps_of(rng, k, q)]
                cases.append(whole_images(rng, k, q, m))
                for i, (maps, block) in enumerate(cases):
                    told = integers(maps, block, DEFINED)
                    for j, way in enumerate(ways):
                        own = integers(maps, block, way)
                        if not all(
                            np.array_equal(a, b, equal_nan=True)
                            for a, b in zip(own, told, strict=True)
                        ):
                            out.append(("steps", j, i, k, q, m))
    return out


def test_every_way_gives_the_integers_of_the_definition(sets):
    assert steps_that_differ(paths(sets)) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24), st.integers(1, 24), st.integers(1, 70), st.data())
def test_cells_that_nobody_thought_of(sets, k, q, m, data):
    """Any floats at all; whole numbers among them, where an image is in doubt."""
    cell = st.one_of(
        st.floats(width=64), st.integers(-(2**21), 2**21).map(float), st.just(0.5), st.just(-0.0)
    )
    entry = st.one_of(
        st.floats(-1e7, 1e7), st.integers(-9, 9).map(float), st.just(0.0), st.just(1.0)
    )
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    cells = np.array(data.draw(st.lists(cell, min_size=4, max_size=12)))
    entries = np.array(data.draw(st.lists(entry, min_size=4, max_size=12)))
    block, matrix = rng.choice(cells, (q, m)), rng.choice(entries, (k, q))
    maps = Steps(matrix, rng.choice(entries, k), int(rng.integers(1, k + 1)))
    told = integers(maps, block, DEFINED)
    for way in paths(sets):
        own = integers(maps, block, way)
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(own, told, strict=True))


def test_most_rows_are_certain(sets):
    """The definition is slow: it must be what is asked of few rows, on data as they are."""
    rng = np.random.default_rng(0)
    maps = Steps(np.triu(rng.normal(size=(20, 20))) * 2.0**18, np.zeros(20), 19)
    block = rng.normal(size=(20, 8192))
    for far in (1.0, np.nan, 1e90):  # a row that is missing, or far out, is not the others' affair
        block[3, 0] = far
        with path(NUMPY), np.errstate(all="ignore"):
            assert maps._by_products(block)[2].mean() < 1e-3
    for one in sets[1:]:
        off = (maps.err, 2.0**-40)
        found = module._steps(one, maps.laid_out, maps.own, off, block)
        assert found[2].mean() < 1e-3


def test_a_row_is_the_same_wherever_it_stands(sets):
    rng = np.random.default_rng(1)
    maps = Steps(np.triu(rng.normal(size=(13, 13))) * 1e5, rng.normal(size=13), 12)
    block = block_of(rng, 13, 3000, 1)
    for way in paths(sets):
        whole = integers(maps, block, way)[0]
        cut = [integers(maps, block[:, a : a + 77], way)[0] for a in range(0, 3000, 77)]
        assert np.array_equal(np.hstack(cut), whole, equal_nan=True)


# -- columns --------------------------------------------------------------------------------------
def columns_that_differ(sets, heights=HEIGHTS, seed=0):
    rng, out = np.random.default_rng(seed), []
    for m in heights:
        table = rng.normal(size=(m + 3, 18)) * 10.0 ** rng.integers(-3, 4, size=18)
        wild = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, 5e-324, 2.0, -2.0]
        table[rng.integers(m + 3), :9] = wild
        other = np.repeat(table[:, :3], 7, axis=1)[:, 1:]
        columns = [*table[2 : m + 2].T, *other[:m, ::7].T, *np.vstack([table, table])[: 2 * m : 2, 4:6].T]
        ranges = [(-2.0, 2.0)] * len(columns)
        ranges[3:6] = [(0.0, 0.0), (1.0, 5.0), (-1e100, 1e100)]
        rows = rng.permutation(len(columns) + 2)[: len(columns)].tolist()
        told = np.zeros((len(columns) + 2, m + 5))
        for column, (low, high), row in zip(columns, ranges, rows, strict=True):
            np.clip(column, low, high, out=told[row, 1 : m + 1])
        for one in sets:
            own = np.zeros_like(told)
            with path(one):
                done = load_by_kernel(columns, ranges, rows, own[:, 1 : m + 1])
            if not (done and np.array_equal(own, told, equal_nan=True)):
                out.append(("columns", one.set, m))
    return out


def test_columns_are_those_that_numpy_cuts(sets):
    assert columns_that_differ(sets) == []


def test_columns_of_other_kinds_are_left_to_numpy(sets):
    good, out = np.zeros((40, 20))[:, 3], np.zeros((2, 40))
    with path(sets[-1]):
        assert load_by_kernel([good, good], [(0, 1)] * 2, [0, 1], out)
        odd = np.zeros(40 * 160 + 1, dtype=np.uint8)[1:].view(np.float64)[::20]
        for other in (good.astype(np.float32), good.astype(int), good[:39], good.tolist(), odd,
                      np.zeros((40, 1)), good.copy(), good[::-1]):  # fmt: skip
            assert not load_by_kernel([good, other], [(0, 1)] * 2, [0, 1], out)
        for wrong in (out[:, ::2], np.zeros((2, 9000)), out.T):
            assert not load_by_kernel([good, good], [(0, 1)] * 2, [0, 1], wrong)
        out.setflags(write=False)
        assert not load_by_kernel([good, good], [(0, 1)] * 2, [0, 1], out)
        out.setflags(write=True)
        for rows, ranges in (([0, 0], [(0, 1)] * 2), ([0, 2], [(0, 1)] * 2), ([0, 1], [(0, 1), (1, 0)]),
                             ([0, 1], [(0, 1), (np.nan, 1)])):  # fmt: skip
            with pytest.raises(PrivacyBugError):
                load_by_kernel([good, good], ranges, rows, out)


# -- scoring passes -------------------------------------------------------------------------------
def passes_of(rng, r, q):
    """Scoring passes over rows of this width: few and many columns, with meat, and without."""
    unit = UnitScale(np.ones(q), np.zeros(q), False)
    W0 = np.eye(r, q - 1)
    at = Centre(unit, W0, rng.normal(size=r), np.eye(r) + 0.1 * rng.normal(size=(r, r)), 0.7, plain)
    for manner in (TAME, WIDE_LEAST_SQUARES):
        for relation in ("replace", "add-remove"):
            plan = plan_pass(LINEAR, 2, 3.0, 9000, r, relation, meat=True, tail=900, manner=manner)
            yield ScorePass(plan, at, turned=True)
            early = plan_pass(LINEAR, 1, 3.0, 9000, r, relation, meat=True, tail=900, manner=manner)
            yield ScorePass(replace(early, plain=True), at)


def sums_that_differ(ways, ranks=(1, 3, 4, 11, 19), heights=(0, 1, 129, 1013), seed=0):
    rng, out = np.random.default_rng(seed), []
    for r in ranks:
        q = r + 1
        for m in heights:
            block = block_of(rng, q, m, int(rng.integers(4)))
            some = rng.random(m) < 0.7
            block[:, some] = rng.normal(size=(q, int(some.sum())))
            block[:, ::11] *= 6.0
            block[:, 1::13] *= 1e-9
            for i, one in enumerate(passes_of(rng, r, q)):
                with DEFINED:
                    (told,) = sums_of_passes((one,), [block.copy()])
                for j, way in enumerate(ways):
                    with way:
                        (own,) = sums_of_passes((one,), [block.copy()])
                    same = own.scale == told.scale and own.bins == told.bins
                    for name in ("information", "score", "meat", "spread", "far"):
                        a, b = getattr(own, name), getattr(told, name)
                        same &= (a is None) == (b is None) and (a is None or bool((a == b).all()))
                    if not same:
                        out.append(("sums", j, i, r, m))
    return out


def test_sums_of_scoring_passes_are_those_of_the_definition(sets):
    assert sums_that_differ(paths(sets)) == []


def test_no_row_is_longer_than_its_ball(sets):
    """In exact integers, whatever its cells are, by every way."""
    rng = np.random.default_rng(3)
    for one in passes_of(rng, 3, 4):
        step = 2.0**-20
        for j in range(60):
            row = block_of(rng, 4, 60, 0)[:, j : j + 1]
            for way in paths(sets)[:: len(sets)]:
                with way:
                    (sums,) = sums_of_passes((one,), [row.copy()])
                for matrix in (sums.information, sums.meat, sums.spread):
                    assert matrix is None or sum(int(x) ** 2 for x in matrix.ravel()) <= 2**80
                # in steps of R_H 4 C 2^-40
                long = sum(int(x) ** 2 for x in sums.score)
                assert long * (4.0 * one.plan.information * step * step) ** 2 <= 1.0 + 1e-12 or (
                    long <= 2**80 / 16
                )
                assert 0 <= sums.scale <= 2**20 and sum(sums.bins) in (0, 1)


def test_what_a_model_sees_is_close_to_what_it_was():
    """Whole steps of a residual: 2^-24 of a standard one."""
    rng = np.random.default_rng(5)
    one = next(passes_of(rng, 4, 5))
    block = rng.normal(size=(5, 500))
    matrix, _ = one.affine
    w, _, psi = one.scored(block.copy())
    assert np.abs(psi - matrix[-1] @ block).max() <= 1.0 / SEEN
    assert np.abs(w - (matrix @ block)[:4]).max() <= 1.0


# -- mutants of the C text ------------------------------------------------------------------------
MUTANTS = {
    "the error of an image left out": ("rows.h", "CUT(s##n##a - e[0])", "CUT(s##n##a)"),
    "half of the doubts forgotten": ("rows.h", "doubt[1] |= tb != lb;", ""),
    "rounded, not cut": ("rows.h", "near -= (vec)((bits)ALL(1.0) & (near > size));", ""),
    "the shift left out": ("rows.h", "i + n < k ? of->shift[i + n] : 0.0", "0.0"),
    "lengths of all coordinates": ("rows.h", "if (i + n < of->own) {", "if (i + n < k) {"),
    "a column of four rows left out": ("rows.h", "columns[++many] = j;", "columns[++many] = j, many -= j == 2;"),
    "columns not cut below": ("rows.h", "bits below = cells < ALL(low)", "bits below = {0}"),
    "what is missing becomes a number": ("rows.h", "above = cells > ALL(high)", "above = ~(cells <= ALL(high))"),
    "rows that are missing stay in": ("passes.h", "bits there = (s <= ALL(is[LONG])) & (size <= ALL(is[VAST]));", "bits there = ~((s > ALL(is[LONG])) | (size > ALL(is[VAST])));"),
    "a factor that is not capped at 1": ("passes.h", "shrink = (vec)(((bits)shrink & beyond) | ((bits)one & ~beyond));", ""),
    "a score that is not cut": ("passes.h", "f = (vec)(((bits)f & less) | ((bits)ALL(is[CLIP]) & ~less));", ""),
    "a score of the other sign": ("passes.h", "f = (vec)((bits)f | ((bits)p & sign));", ""),
    "the leverage left out": ("passes.h", "size *= top * top / (vec)", "(void)(vec)"),
    "factors that are not whole": ("passes.h", "f = CUT(f * ALL(is[FACTOR]));", "f = f * ALL(is[FACTOR]);"),
    "rows that are not there in a bin": ("passes.h", "if (there[i])\n", ""),
}  # fmt: skip
#: One instruction set, in little time: what is changed is in the text of all of them.
QUICKLY = ["-O1", "-DDP_PLAIN"]


def all_that_differs(sets):
    ways = list(map(path, sets))
    return (
        steps_that_differ(ways, (5, 13), (1, 129, 1013))
        or columns_that_differ(sets, (1, 129, 1013))
        or sums_that_differ(ways, (3, 11), (129, 1013))
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_text_are_caught(name, tmp_path):
    mutant = builds.loaded(builds.built(tmp_path / "mutant", [MUTANTS[name]], QUICKLY))
    assert all_that_differs(mutant)


def test_under_the_sanitizers(tmp_path):
    """Addresses and undefined behaviour."""
    body = """
        ways = [t.path(one) for one in sets]
        found = t.steps_that_differ(ways, (1, 5, 13), (0, 1, 127, 128, 129))
        found += t.columns_that_differ(sets, (0, 1, 127, 128, 129, 8192))
        found += t.sums_that_differ(ways, (4, 11), (0, 1, 129))
    """
    assert builds.sanitized(tmp_path / "sanitized", "test_steps", body, "-O1").endswith("clean")


# -- lengths --------------------------------------------------------------------------------------
def test_lengths_out_of_range_are_refused_before_anything_is_read(sets):
    lib, work = sets[0].library, module._work(sets[0], 4, 4)
    at, size = module.address(work), len(work)

    def steps(k=4, q=4, m=9, own=4, ld=9, work=at, size=size, which=0):
        return lib.dp_steps(which, k, q, m, own, None, None, None, 1e-9, 1e-9, None, ld, None, 9,
                            None, None, work, size)  # fmt: skip

    for code, changed in ((1, {"k": 0}), (1, {"q": 4097}), (2, {"m": 8193}), (2, {"ld": 8}),
                          (3, {"size": size - 1}), (3, {"work": at + 8}), (4, {"which": 3}),
                          (5, {"own": 5}), (5, {"own": 0})):  # fmt: skip
        assert steps(**changed) == code, changed
    for columns, m, q, code in ((0, 9, 4, 1), (5, 9, 4, 1), (4, 8193, 4, 2), (4, -1, 4, 2)):
        assert lib.dp_load(0, columns, m, q, *[None] * 6, 9000) == code


def test_what_was_worked_in_is_wiped(sets, monkeypatch):
    kept, make = [], module.work_of

    def work_of(need):
        kept.append(make(need))
        return kept[-1]

    monkeypatch.setattr(module, "work_of", work_of)
    monkeypatch.setattr(tiles, "work_of", work_of)
    rng = np.random.default_rng(0)
    (one,) = list(passes_of(rng, 5, 6))[:1]
    table = rng.normal(size=(6, 999))
    with path(sets[-1]):
        sums_of_passes((one,), [table.copy()])
        sums_of_passes((one,), [Columns(tuple(table), np.array([[-9.0] * 6, [9.0] * 6]))])
        columns = Columns(tuple(table), np.array([[-9.0] * 6, [9.0] * 6]))
        tiles.moments_by_kernel(Steps(np.eye(6) * 1e4, np.zeros(6), 6), columns, 2.0**20, 1e300)
        module.image_by_kernel(np.eye(3), rng.normal(size=(3, 999)), (0, 0))
    assert len(kept) == 5 and not any(work.any() for work in kept)


# -- whole fits -----------------------------------------------------------------------------------
def fits(path, frame, processes):
    """Fits of a frame, of Parquet, and of two processes: parameters and errors."""
    bounds = {**dict.fromkeys(frame.columns, (-3, 3)), "x0": (-300, 300)}
    text = "y ~ " + " + ".join(c for c in frame.columns if c != "y")

    def fit(data, **options):
        with pytest.warns(NotPrivateWarning):
            found = dp.dp_ols(text, data, eps=20, delta=1e-6, seed=3, bounds=bounds, **options)
        return np.concatenate([found.params, found.bse])

    out = [fit(frame), fit(frame, relation="add-remove", n_guess=len(frame)), fit(path)]
    if processes:
        with dp.connect(processes=2):
            out.append(fit(path))
    return out


@pytest.mark.parametrize("columns", [3, 13])
def test_fits_are_those_of_the_definition(columns, sets, tmp_path):
    """Bit for bit; a crew of other processes takes the path of its own installation."""
    rng = np.random.default_rng(columns)
    frame = pd.DataFrame(rng.normal(size=(9000, columns)), columns=[f"x{j}" for j in range(columns)])
    frame["y"] = frame.sum(axis=1) + rng.normal(size=len(frame))
    frame.iloc[::97, 1] = np.nan
    frame.iloc[::89, 0] *= 40.0
    file = tmp_path / "t.parquet"
    frame.to_parquet(file, row_group_size=2500, index=False)
    with DEFINED:
        told = fits(file, frame, columns > 3)
    for way in (path(NUMPY), *map(path, sets[-1:])):
        with way:
            own = fits(file, frame, columns > 3)
        assert all(np.array_equal(a, b) for a, b in zip(own, told, strict=True))
