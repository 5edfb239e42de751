"""Whole passes over columns as they lie: the integers of filled rows, by every instruction set.

Columns of all kinds and layouts, cells that are none, chosen rows, more rows than one sum of floats
holds; designs that need no filling; mutants of the C text; the sanitizers.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, PrivacyBugError
from dpmodels.exact import kernel as module
from dpmodels.exact import tiles
from dpmodels.exact.end import MOST, TOP, end_of_rows
from dpmodels.exact.gram import gram
from dpmodels.exact.plain import gram_by_numpy
from dpmodels.exact.rowmap import RowMap, UnitScale
from dpmodels.exact.steps import Steps
from dpmodels.exact.words import Words
from dpmodels.formula.build import build_design
from dpmodels.scoring.sums import sums_of_passes
from dpmodels.sources.columns import Columns, columns_of

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
_spec = importlib.util.spec_from_file_location("steps_of_rows", HERE / "test_steps.py")
steps = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(steps)
builds, path, DEFINED = steps.builds, steps.path, steps.DEFINED

HEIGHTS = (0, 1, 15, 16, 17, 255, 256, 257, 1013, 8192, 20_000)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The kernel, once for every instruction set of this processor that takes columns."""
    return builds.loaded(builds.built(tmp_path_factory.mktemp("tiles")))[1:]


class Some:
    """Coins that choose what they are told."""

    def __init__(self, chosen):
        self.chosen = chosen

    def choose(self, _):
        return self.chosen


def columns_like(rng, q, m):
    """Columns of all layouts, and the block that they fill: cells of all sizes, odd ones, ties."""
    table = rng.normal(size=(m + 1, q + 2)) * 2.0
    table[:, : q : 3] *= 10.0 ** rng.integers(-6, 3)
    table[::17] *= 9.0
    wild = (np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, -0.0, 1e100)
    for i, odd in enumerate(wild):
        table[i + 3 :: 53, rng.integers(q)] = odd
    table[7::37] = 0.0
    table[8::41, rng.integers(q)] = np.nan
    cells = []
    for j in range(q):
        own = table[1:, j + 1]
        if j % 5 == 1:
            own = own.copy()
        elif j % 5 == 2:
            own = np.repeat(own, 3)[1::3]
        elif j % 5 == 3:
            own = np.broadcast_to(np.array(0.75), (m,))
        cells.append(own)
    low = np.where(np.arange(q) % 4 == 3, -np.inf, -rng.uniform(0.5, 3.0, q))
    high = np.where(np.arange(q) % 4 == 3, np.inf, rng.uniform(0.5, 3.0, q))
    low[q - 1], high[q - 1] = -50.0, 50.0
    ranges = np.array([low, high])
    block = np.empty((q, m))
    for row, own, a, b in zip(block, cells, low, high, strict=True):
        np.clip(own, a, b, out=row)
    return Columns(tuple(cells), ranges), block


def cut(block, height=8192):
    return [block[:, a : a + height].copy() for a in range(0, block.shape[1], height)]


def passes_of(rng, r):
    """Scoring passes whose map has a shift: zeros that nobody put there would count."""
    unit = UnitScale(rng.uniform(0.5, 1.0, r + 1), rng.normal(size=r + 1) * 0.3, False)
    for one in steps.passes_of(rng, r, r + 1):
        yield replace(one, centre=replace(one.centre, unit=unit))


def passes_that_differ(sets, ranks=(1, 3, 4, 11, 19), heights=HEIGHTS, seed=0):
    """Where sums over columns are not those of the blocks that they fill, by the definition."""
    rng, out = np.random.default_rng(seed), []
    for r in ranks:
        for m in heights if r == 11 else heights[2::4]:
            columns, block = columns_like(rng, r + 1, m)
            for i, one in enumerate(passes_of(rng, r)):
                few = np.flatnonzero(rng.random(m) < (0.1, 1.0)[i % 2])
                with DEFINED:
                    whole = cut(block)
                    told = one.empty()
                    for k, part in enumerate(whole):
                        at = few[(few >= 8192 * k) & (few < 8192 * (k + 1))] - 8192 * k
                        with np.errstate(all="ignore"):
                            one.add(told, part, at)
                    told = one.done(told)
                for own in sets:
                    with path(own):
                        (found,) = sums_of_passes((one,), [columns], Some(few))
                    same = found.scale == told.scale and found.bins == told.bins
                    for name in ("information", "score", "meat", "spread", "far"):
                        a, b = getattr(found, name), getattr(told, name)
                        same &= (a is None) == (b is None) and (a is None or bool((a == b).all()))
                    if not same:
                        out.append(("pass", own.set, i, r, m))
    return out


def maps_into_a_ball(rng, q):
    unit = UnitScale(rng.uniform(0.2, 1.0, q), rng.normal(size=q) * 0.1, False)
    yield RowMap(unit, np.full(q, 2.0), ball=q, radius=2.0)
    yield RowMap(unit, np.full(q, 0.5), ball=q, radius=0.5, matrix=rng.normal(size=(q, q)))
    k = max(q - 1, 1)
    yield RowMap(unit, np.full(k, 3.0), ball=k, radius=3.0, matrix=rng.normal(size=(k, q)))


def moments_that_differ(sets, widths=(1, 2, 5, 12, 20), heights=HEIGHTS, seed=0):
    rng, out = np.random.default_rng(seed), []
    for q in widths:
        for m in heights if q == 5 else heights[2::4]:
            columns, block = columns_like(rng, q, m)
            for i, one in enumerate(maps_into_a_ball(rng, q)):
                with DEFINED:
                    told = gram(cut(block), one).integers()
                for own in sets:
                    with path(own):
                        found = gram([columns], one)
                    if not ((found.integers() == told).all() and found.rows == m):
                        out.append(("moments", own.set, i, q, m))
    return out


def doubts_that_differ(sets, widths=(1, 2, 5, 13), heights=(1, 17, 257, 1013), seed=0):
    """The same of maps whose images are whole numbers, or beside them: rows in doubt."""
    rng, out = np.random.default_rng(seed), []
    for q in widths:
        for m in heights:
            maps, block = steps.whole_images(rng, q, q, m)
            shift = rng.integers(-9, 9, size=q).astype(float)
            maps = Steps(maps.matrix, shift, q)
            block[:, 3::11] = steps.block_of(rng, q, m, 0)[:, 3::11]
            with DEFINED, np.errstate(all="ignore"):
                z, square = maps.of(block.copy())
                told = gram_by_numpy(end_of_rows(z, q, False, square)[0])
            columns = Columns(tuple(block), np.array([[-np.inf] * q, [np.inf] * q]))
            for own in sets:
                with path(own):
                    found = tiles.moments_by_kernel(maps, columns, TOP, MOST)
                if not (found == told).all():
                    out.append(("doubts", own.set, q, m))
    return out


def test_scoring_passes_over_columns_are_those_of_filled_rows(sets):
    assert passes_that_differ(sets) == []


def test_moments_of_columns_are_those_of_filled_rows(sets):
    assert moments_that_differ(sets) == []


def test_rows_in_doubt_are_those_of_the_definition(sets):
    assert doubts_that_differ(sets) == []


def test_sums_of_very_many_rows_are_exact(sets):
    """More rows than a float holds products of, all of them as long as can be."""
    m = 1 << 17
    columns = Columns((np.full(m, 1.0), np.full(m, -1.0)), np.array([[-1.0, -1.0], [1.0, 1.0]]))
    one = RowMap(UnitScale(np.ones(2), np.zeros(2), False), np.full(2, 1.0), ball=2, radius=1.0)
    for own in sets:
        with path(own):
            found = gram([columns], one).integers()
            (row,) = (gram([Columns(tuple(c[:1] for c in columns.cells), columns.ranges)], one),)
        assert (found == row.integers() * m).all()


def test_no_row_of_columns_is_longer_than_its_ball(sets):
    """In exact integers, whatever its cells are."""
    rng = np.random.default_rng(3)
    columns, _ = columns_like(rng, 4, 400)
    for one in steps.passes_of(rng, 3, 4):
        for j in range(0, 400, 7):
            row = Columns(tuple(c[j : j + 1] for c in columns.cells), columns.ranges)
            with path(sets[-1]):
                (sums,) = sums_of_passes((one,), [row])
            for matrix in (sums.information, sums.meat, sums.spread):
                assert matrix is None or sum(int(x) ** 2 for x in matrix.ravel()) <= 2**80
            assert 0 <= sums.scale <= 2**20 and sum(sums.bins) in (0, 1)


# -- which designs are read as they lie -----------------------------------------------------------
SCHEMA = dp.Schema(
    y=dp.Real(-3, 3), x=dp.Real(-2, 2), z=dp.Real(0, 5), k=dp.Count(9), w=dp.Real(0, 1),
    g=dp.Levels(["a", "b"]), m=dp.Real(0, 1, na=0.5),
)  # fmt: skip


def bare(formula, **options):
    return build_design(formula, SCHEMA, **options).bare


def test_a_design_of_variables_as_they_stand_is_read_as_it_lies():
    assert bare("y ~ x + z + k") == (
        (None, 1.0, 1.0), ("x", -2, 2), ("z", 0, 5), ("k", 0, 9), ("y", -3, 3),
    )  # fmt: skip
    assert bare("y ~ 0 + z") == (("z", 0, 5), ("y", -3, 3))


@pytest.mark.parametrize(
    "formula",
    ["y ~ x + g", "y ~ x:z", "y ~ x + I(x**2)", "I(2 * z) ~ x", "y ~ x + offset(z)", "y ~ y + x"],
)
def test_other_designs_are_filled(formula):
    assert bare(formula) is None


@pytest.mark.parametrize(
    "options", [{"weights": "w"}, {"subset": "x > 0"}, {"na": "impute-midpoint"}, {"na": "declared"}]
)
def test_designs_with_more_to_a_row_are_filled(options):
    assert bare("y ~ x + m", **options) is None
    assert bare("m ~ x", **options) is None


def test_a_design_that_marks_no_row_is_filled():
    assert build_design("y ~ x + z", SCHEMA).unmarked().bare is None


@pytest.mark.parametrize("formula", ["y ~ x + z + k", "y ~ 0 + z + w", "x ~ 1 + y"])
@pytest.mark.parametrize("bought", [(), (("z", 1.0, 2.0), ("y", -1.0, 4.0))])
def test_columns_are_what_a_design_fills(formula, bought):
    """Ranges of the schema, then those that were put in; whatever is missing is seen."""
    rng = np.random.default_rng(5)
    names = [v for v in ("x", "z", "k", "w", "y") if v in formula]
    chunk = {v: rng.normal(size=900) * 4.0 for v in names}
    chunk[names[0]][::7] = np.nan
    design = build_design(formula, SCHEMA)
    design = replace(design, bought=tuple(b for b in bought if b[0] in names))
    told = np.empty((design.q, 900))
    design.fill(chunk, told)
    (found,) = columns_of(design.bare, chunk, 900).blocks()
    there = ~np.isnan(told).any(axis=0)
    assert np.array_equal(there, ~np.isnan(found).any(axis=0))
    assert np.array_equal(found[:, there], told[:, there])


def test_rows_that_do_not_lie_so_are_all_filled():
    from dpmodels.sources.adapt import as_source
    from dpmodels.sources.rows import Rows

    frame = pd.DataFrame(np.random.default_rng(0).uniform(-3, 3, (20_000, 2)), columns=["x", "y"])
    design = build_design("y ~ x", SCHEMA)
    told = np.hstack([b.copy() for b in Rows(as_source(frame), 20_000).columns(design) for b in b.blocks()])
    found = [b.copy() for b in Rows(as_source(frame[::-1]), 20_000).columns(design)]
    assert all(isinstance(b, np.ndarray) for b in found)
    assert np.array_equal(np.hstack(found)[:, ::-1], told)


def test_integers_of_many_rows_are_carried():
    words = Words(1)
    for _ in range(3):
        words.add_large(np.array([[2**62]]), 1 << 22)
    assert words.integers()[0, 0] == 3 * 2**62


def test_columns_that_do_not_lie_as_doubles_do_are_filled():
    cells = np.zeros((9, 2))
    design = (("a", -1.0, 1.0), (None, 1.0, 1.0))
    assert columns_of(design, {"a": cells[:, 1]}, 9).shape == (2, 9)
    odd = np.zeros(9 * 16 + 1, dtype=np.uint8)[1:].view(np.float64)[::2]
    for other in (cells[::-1, 1], cells[:, 1].astype(np.float32), cells[:8, 1], cells[:, 1].tolist(), odd):
        assert columns_of(design, {"a": other}, 9) is None


def test_a_block_says_nothing_of_its_rows(sets):
    columns, _ = columns_like(np.random.default_rng(0), 3, 40)
    assert "confidential" in repr(columns) and "0.75" not in repr(columns)


# -- whole fits -----------------------------------------------------------------------------------
def fits(frame, path):
    """Frames of one array, of columns, upside down; a file: parameters and errors."""
    names = [c for c in frame.columns if c != "y"]
    bounds = {**dict.fromkeys(names, (-2, 2)), "y": (-6, 6)}
    text, out = "y ~ " + " + ".join(names), []
    apart = pd.DataFrame({c: frame[c].to_numpy().copy() for c in frame})
    mixed = apart.assign(x0=apart["x0"].astype("float32"))
    for data, options in (
        (frame, {}), (apart, {}), (mixed, {}), (frame[::-1], {}), (path, {}),
        (frame, {"relation": "add-remove", "n_guess": len(frame)}),
        (frame, {"bounds": {"y": (-6, 6)}}),
    ):  # fmt: skip
        with pytest.warns(NotPrivateWarning):
            fit = dp.dp_ols(text, data, eps=30, delta=1e-6, seed=3, **{"bounds": bounds, **options})
        out.append(np.concatenate([fit.params, fit.bse]))
    return out


def test_fits_are_the_same_bit_for_bit(sets, tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(21_000, 6)), columns=[*(f"x{j}" for j in range(5)), "y"])
    frame["y"] += frame["x1"] - frame["x3"]
    frame.iloc[::97, 3] = np.nan
    where = tmp_path / "t.parquet"
    frame.to_parquet(where, row_group_size=5000)
    with path(steps.NUMPY, "off"):
        expected = fits(frame, where)
    for own in sets:
        with path(own):
            assert all(
                np.array_equal(a, b) for a, b in zip(fits(frame, where), expected, strict=True)
            )


def test_rows_are_read_as_they_lie(sets, monkeypatch):
    """Not by chance filled: the fast way is the way of a plain fit."""
    seen = []
    for name in ("pass_by_kernel", "moments_by_kernel"):
        make = getattr(tiles, name)
        for room in ("dpmodels.scoring.sums", "dpmodels.exact.rowmap"):
            if hasattr(sys.modules[room], name):
                monkeypatch.setattr(
                    sys.modules[room], name, lambda *a, f=make, n=name: seen.append(n) or f(*a)
                )
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(9000, 2)), columns=["x", "y"])
    with path(sets[-1]), pytest.warns(NotPrivateWarning):
        dp.dp_ols("y ~ x", frame, bounds={"x": (-3, 3), "y": (-3, 3)}, eps=5, delta=1e-6, seed=0)
    assert seen == ["moments_by_kernel", "pass_by_kernel", "pass_by_kernel"]


# -- mutants of the C text ------------------------------------------------------------------------
MUTANTS = {
    "zeros behind a tile count": ("passes.h", "square[a + i] = NONE;", "(void)0;"),
    "zeros behind a tile count in moments": ("passes.h", "            square[a] = NONE;\n        JOIN(tile_into", "            (void)0;\n        JOIN(tile_into"),
    "doubtful rows as they are": ("passes.h", "else if (doubt[i / LANES][i % LANES])", "else if (0)"),
    "a tail of columns not cut": ("passes.h", "*(vec *)(end + a) = JOIN(within, SET)(*(vec *)(end + a), of->low[j], of->high[j]);", ";"),
    "columns side by side not cut": ("passes.h", "*(vec *)(to + LANES) = JOIN(within, SET)(two, of->low[j], of->high[j]);", "*(vec *)(to + LANES) = two;"),
    "a constant read on": ("passes.h", "step ? (vec)LOAD(p + a) : ALL(*p)", "step ? (vec)LOAD(p + a) : ALL(p[1])"),
    "sums kept after they were counted": ("rows.c", "        parts[i] = 0.0;\n", ""),
    "rows that wait are lost": ("passes.h", "    JOIN(some_done, SET)(to);\n    for (int part", "    to->waiting = 0;\n    for (int part"),
    "rows that were chosen before": ("passes.h", "row[a] = 0.0;", ";"),
    "chosen rows not cut to whole steps": ("passes.h", "*(vec *)(row + a) = CUT(*(vec *)(row + a));", ";"),
    "rows beyond the ball": ("passes.h", "*to = CUT((vec)((bits)*to & there) * by);", "*to = CUT((vec)((bits)*to & there));"),
    "rows that are none": ("passes.h", "there = s <= ALL(most)", "there = ~(s > ALL(most))"),
    "the shift of a diagonal": ("passes.h", " + ALL(of->shift[i]);", ";"),
    "far scores of either sign": ("rows.c", "__builtin_copysign(by, to->psi[i])", "by"),
    "far scores from zero on": ("rows.c", " - to->kept[i];", ";"),
    "ordinary rows of any length": ("rows.c", "near = near < is[TOP] / is[ORDINARY] ? near : is[TOP] / is[ORDINARY];", ""),
    "meat of any length": ("rows.c", "far = far < is[TOP] / is[MEAT] ? far : is[TOP] / is[MEAT];", ""),
    "a row in doubt rounded": ("rows.c", "s = (double)(int64_t)s;", "s = __builtin_floor(s);"),
    "the last column of a row in doubt": ("rows.c", "for (int64_t j = 1; j < of->q; j++)\n            s +=", "for (int64_t j = 1; j + 1 < of->q; j++)\n            s +="),
    "the shift of a row in doubt": ("rows.c", "s += of->shift[i];", ""),
}  # fmt: skip
#: AVX2 alone, in little time: what is changed is in the text of all.
QUICKLY = ["-O1"]


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_text_are_caught(name, tmp_path, sets):
    mutant = builds.loaded(builds.built(tmp_path / "mutant", [MUTANTS[name]], QUICKLY))[1:2]
    assert (
        doubts_that_differ(mutant)
        or moments_that_differ(mutant, (5,), (1, 257, 1013))
        or passes_that_differ(mutant, (3, 11), (1, 257, 1013, 20_000))
    )


# -- lengths --------------------------------------------------------------------------------------
def test_lengths_out_of_range_are_refused_before_anything_is_read(sets):
    lib = sets[0].library
    need = lib.dp_need_of_pass(4, 4)
    work = module.work_of(need)
    at = module.address(work)
    numbers = np.zeros(22)
    numbers[[12, 14]] = 1.0  # cut of the scale, bins
    low, apart = np.zeros(4), np.ones(4, dtype=np.int64)
    chosen = np.array([1, 3, 5], dtype=np.int64)

    def scoring(k=4, q=4, m=9, own=3, n=22, many=3, bins=1, work=at, size=need, which=0):
        return lib.dp_pass(which, k, q, m, own, None, None, None, 1e-9, 1e-9, None,
                           module.address(apart), module.address(low), module.address(low),
                           module.address(numbers), n, module.address(chosen), many, None, None, None,
                           bins, work, size)  # fmt: skip

    lengths = ((1, {"k": 0}), (1, {"q": 4097}), (2, {"m": -1}), (2, {"m": (1 << 20) + 1}),
               (3, {"size": need - 1}), (3, {"work": at + 8}), (4, {"which": 3}), (5, {"own": 5}),
               (5, {"own": 0}), (5, {"n": 21}), (5, {"bins": 0}), (6, {"m": 5}), (6, {"many": -1}))  # fmt: skip
    for code, changed in lengths:
        assert scoring(**changed) == code, changed
    for wrong in ([3, 1, 5], [1, 1, 5], [-1, 3, 5]):
        chosen[:] = wrong
        assert scoring() == 6
    chosen[:] = 1, 3, 5
    apart[2] = -1
    assert scoring() == 5
    apart[2], low[1] = 1, np.nan
    assert scoring() == 5
    low[1] = 0.0
    at_low = module.address(low)

    def moments(k=4, q=4, m=9, diagonal=1, top=9.0):
        return lib.dp_moments(0, k, q, m, diagonal, None, None, None, 1e-9, 1e-9, None,
                              module.address(apart), at_low, at_low, top, 1e300, None, at, need)  # fmt: skip

    for code, changed in ((1, {"k": 0}), (2, {"m": -1}), (5, {"k": 3}), (5, {"top": 0.0}), (5, {"top": 2e6})):
        assert moments(**changed) == code, changed


def test_columns_that_are_none_are_refused(sets):
    one = next(steps.passes_of(np.random.default_rng(0), 1, 2))
    good, ends = np.zeros(9), np.array([[0.0, 0.0], [1.0, 1.0]])
    with path(sets[-1]):
        for cells, ranges in (
            ((good, good[:8]), ends), ((good, good.astype(np.float32)), ends), ((good, good), ends[:, :1]),
            ((good,), ends[:, :1]),
        ):  # fmt: skip
            with pytest.raises(PrivacyBugError):
                sums_of_passes((one,), [Columns(cells, ranges)])
        with pytest.raises(PrivacyBugError):
            sums_of_passes((one,), [Columns((good, good), ends)], Some(np.array([9])))
    with path(steps.NUMPY), pytest.raises(PrivacyBugError):
        tiles.moments_by_kernel(Steps(np.eye(2), np.zeros(2), 2), Columns((good, good), ends), TOP, MOST)


def test_under_the_sanitizers(tmp_path):
    """Addresses and undefined behaviour."""
    body = """
        found = t.passes_that_differ(sets[1:], (1, 4, 11), (0, 1, 257, 8193))
        found += t.doubts_that_differ(sets[1:], (1, 5), (1, 257))
        found += t.moments_that_differ(sets[1:], (1, 5, 12), (0, 1, 257, 8193))
    """
    assert builds.sanitized(tmp_path / "sanitized", "test_tiles", body, "-O1").endswith("clean")


def test_columns_are_filled_as_a_design_fills_them(sets):
    """Where numpy adds up, and for models whose scores numpy works out."""
    rng = np.random.default_rng(2)
    for q in (1, 3, 5, 18):
        for m in (0, 1, 700, 8192, 20_000):
            columns, block = columns_like(rng, q, m)
            wide = rng.normal(size=(m, q + 1))  # side by side, in order
            wide[::7] = np.nan
            abreast = Columns((np.broadcast_to(np.array(1.0), (m,)), *wide[:, 1:].T),
                              np.array([[-1.0] * (q + 1), [1.0] * (q + 1)]))  # fmt: skip
            told = np.vstack([np.ones((1, m)), np.clip(wide[:, 1:].T, -1.0, 1.0)])
            turned = Columns(abreast.cells[::-1], abreast.ranges)
            for given, expected in ((columns, block), (abreast, told), (turned, told[::-1])):
                parts = []
                for part in given.blocks():
                    parts.append(part.copy())
                    part[...] = 9.0  # as row maps do
                assert all(part.shape[1] <= 8192 for part in parts)
                found = np.hstack(parts) if parts else np.empty((given.shape[0], 0))
                assert np.array_equal(found, expected, equal_nan=True)


def test_a_family_reads_columns_and_gives_what_filled_rows_give(sets, monkeypatch):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(9000, 3)), columns=["x", "z", "y"])
    frame["y"] = (frame["y"] + frame["x"] > 0) * 1.0
    frame.iloc[::31, 0], frame.iloc[::37, 2] = np.nan, np.nan
    bounds = {"x": (-3, 3), "z": (-3, 3), "y": (0, 1)}

    def fit():
        with pytest.warns(NotPrivateWarning):
            found = dp.dp_glm("y ~ x + z", frame, family="binomial", bounds=bounds, eps=20,
                              delta=1e-6, seed=3)  # fmt: skip
        return np.concatenate([found.params, found.bse])

    own = fit()
    monkeypatch.setattr("dpmodels.scoring.sums.Passes.reads_columns", False)
    monkeypatch.setattr("dpmodels.exact.gram.GramOf.reads_columns", False)
    assert np.array_equal(fit(), own)
