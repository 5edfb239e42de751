"""What a row comes to is a function of the row: however a block lies in memory, wherever it is cut.

Every registered method's stage runs on the same table with blocks of other layouts; the integers
that it hands to its noise must be the same. Images of rows are compared bit by bit: a lattice hides
nearly every rounding. Deterministic (seeded): no false alarms.
"""

import dataclasses
import functools
import json
import operator
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from dpmodels.families import FAMILIES, LINKS
from dpmodels.own.minimum import LogisticLoss, PoissonLoss, WorkingRows
from dpmodels.scoring.mean_models import MeanModel
from dpmodels.scoring.models import Expectile, Huber, Quantile, State, plain
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.passes import Centre
from dpmodels.scoring.rules import LINEAR
from dpmodels.sources import people, rows
from dpmodels.sums.products import ball_integers, looked_up, mapped, squares
from dpmodels.sums.rowmap import OneFirst, RowMap
from dpmodels.sums.scaling import UnitScale
from tests.one_pass import ScorePass, sums_of
from tests.privacy.test_replay import CASES, NAMES, tables
from tests.replaying import replay_stage

ROOT = Path(__file__).resolve().parents[2]


def at_offset(array, offset):
    """A copy whose first cell lies ``offset`` cells behind a multiple of 64 bytes."""
    q, m = array.shape
    whole = np.empty(q * m + 16)
    start = -(whole.ctypes.data // 8) % 8 + offset
    out = whole[start : start + q * m].reshape(q, m)
    out[:] = array
    assert out.ctypes.data % 64 == 8 * offset
    return out


def strided(array):
    """A view of every second row and third column of a larger array."""
    out = np.full((2 * array.shape[0] + 1, 3 * array.shape[1] + 2), 7.0)[1::2, 2::3]
    out[:] = array
    return out


LAYOUTS = {
    "C copy": np.ascontiguousarray,
    "Fortran copy": np.asfortranarray,
    "slice": strided,
    **{f"offset {k}": lambda a, k=k: at_offset(a, k) for k in range(8)},
}


def cut(array, width):
    return [array[:, a : a + width].copy() for a in range(0, array.shape[1], width)]


# -- stages ---------------------------------------------------------------------------------------
def other_blocks(monkeypatch, layout, width):
    """Hand blocks of rows to the stages in another layout and cut (people are never cut)."""
    filled, cells_of = rows._filled, people.PeopleRows.people

    def blocks(pieces, fill, *buffers):
        for parts in filled(pieces, fill, *buffers):
            m = parts[0].shape[-1]
            for a in range(0, m, width):
                some = [part[..., a : a + width] for part in parts]
                yield (layout(some[0]), *(np.array(x) for x in some[1:]))

    def whole(self, design, *args, **kw):
        for block in cells_of(self, design, *args, **kw):
            yield dataclasses.replace(block, rows=layout(block.rows))

    monkeypatch.setattr(rows, "_filled", blocks)
    monkeypatch.setattr(people.PeopleRows, "people", whole)


#: Stages that hand over floats of all rows at once, and why that is no matter.
OF_ALL_ROWS = {
    (
        "dp_glm",
        "objpert",
    ): "the optimum of a float objective, certified to a tolerance that is paid",
    ("dp_glm", "gptr"): "the same; the curvature there has an allowance for rounding",
    ("dp_ols", "jl"): "float normals times rows: the guarantee carries a note",
    ("dp_eptr", "coin"): "a user's function of all rows",
    ("dp_eptr", "ptr"): "a user's function of all rows",
    ("dp_eptr", "bound"): "a user's function of all rows",
    ("dp_gptr", "propose"): "a user's function of all rows",
    ("dp_gptr", "choose"): "a user's function of all rows",
}
SOME = [i for i, c in enumerate(CASES) if (c.verb, c.method) not in OF_ALL_ROWS]


def test_only_listed_stages_are_left_out():
    assert set(OF_ALL_ROWS) <= {(c.verb, c.method) for c in CASES}


def same_value(a, b):
    if isinstance(a, dict):
        return a == b
    return np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object))


@pytest.mark.parametrize("place", SOME, ids=[NAMES[i] for i in SOME])
def test_stages_hand_over_the_same_integers(place, monkeypatch):
    case = CASES[place]
    plan = case.plan()
    data, _ = tables(case, plan)
    rng = np.random.default_rng(3)
    for name, cells in data.items():  # numbers with all their digits, some beyond their ranges
        if cells.dtype == float and case.table not in ("line", "zeros") and name != "y":
            data[name] = cells * rng.uniform(0.3, 1.05, len(cells))
    first = replay_stage(plan, data, 0)
    for layout, width in ((np.asfortranarray, 8192), (strided, 7), (LAYOUTS["offset 3"], 1)):
        with monkeypatch.context() as patch:
            other_blocks(patch, layout, width)
            again = replay_stage(plan, data, 0, first)
        assert set(again) == set(first)
        for name, draw in first.items():
            assert same_value(draw.value, again[name].value), (name, layout)
            assert same_value(draw.weights, again[name].weights), (name, layout)
            assert draw.sensitivity == pytest.approx(again[name].sensitivity, rel=0, nan_ok=True)


# -- images, bit by bit ---------------------------------------------------------------------------
Q, M = 13, 8192  # more entries than are multiplied one by one


def block(q=Q, m=M, seed=0):
    out = np.random.default_rng(seed).normal(size=(q, m)) * 10.0 ** np.linspace(-3, 3, q)[:, None]
    out[:, ::97] *= 1e6
    out[1, ::1009] = np.nan
    out[2, 5::2003] = np.inf
    out[0] = 1.0
    return out


def matrix(k=Q, q=Q):
    return np.random.default_rng(4).normal(size=(k, q)) / 10.0 ** np.linspace(-3, 3, q)


def affine(q):
    rng = np.random.default_rng(8)
    return UnitScale(rng.uniform(0.5, 2.0, q) * 10.0 ** np.linspace(3, -3, q), rng.normal(size=q),
                     False)  # fmt: skip


def state():
    return State(np.zeros(3), np.eye(3), 0.7, np.eye(3), nuisance=0.8)


MODELS = {
    "least squares": (plain, True),
    "quantile": (Quantile(tau=0.2).evaluate(state()), True),
    "quantile, first": (Quantile(tau=0.2).evaluate(dataclasses.replace(state(), level=True)), True),
    "Huber": (Huber().evaluate(state()), True),
    "Huber, last": (Huber().evaluate(dataclasses.replace(state(), last=True)), True),
    "expectile": (Expectile(tau=0.8).evaluate(state()), True),
    **{
        f"{name} {link}": (
            MeanModel.of(family, LINKS[link]).evaluate(state()),
            False,
        )
        for name, family in FAMILIES.items()
        for link in family.links
    },
}


def score_pass(evaluate, of_residual, q=Q):
    rng = np.random.default_rng(2)
    p = q - 1
    W = np.eye(p) + 0.1 * rng.normal(size=(p, p))
    plan = plan_pass(LINEAR, 2, 0.3, M, p, "replace", meat=True, tail=M // 4,
                     weighted=evaluate is not plain)  # fmt: skip
    theta = 0.1 * rng.normal(size=p)
    return ScorePass(plan, Centre(affine(q), np.eye(p), theta, W, 0.3, evaluate, of_residual))


def cells_of_rows(b):
    """A cell of three for every row, by the row alone."""
    return np.where(b[3] > 0.1, 2, np.where(b[3] > -0.1, 1, 0))


def images():
    """Name -> function of a block: floats of every row, rows last."""
    unit = affine(Q)
    maps = {
        "box": RowMap(unit, np.full(Q, 1.5)),
        "ball": RowMap(unit, np.full(Q, 2.0), ball=Q, radius=2.0),
        "ball of a matrix": RowMap(unit, np.full(Q, 2.0), Q, 2.0, matrix()),
        "ball apart": RowMap(unit, np.full(Q, 2.0), Q - 1, 2.0, matrix(), project=True),
    }
    out = {
        "mapped": lambda b: mapped(matrix(), b),
        "mapped, few": lambda b: mapped(matrix(3), b),
        "mapped, many": lambda b: mapped(matrix(40), b),
        "looked up": lambda b: looked_up(matrix(40, 3), matrix(40, Q), b, cells_of_rows(b)),
        "squares": lambda b: squares(b)[None],
        "ball_integers": lambda b: ball_integers(b.copy(), 3.0),
    }
    for name, rowmap in maps.items():
        out[name] = lambda b, r=rowmap: r.normalised(b.copy())
        out[f"{name}, image"] = lambda b, r=rowmap: r.image(b.copy())
        out[f"{name}, integers"] = lambda b, r=rowmap: r.integers(b.copy())
    first = RowMap(affine(Q + 1), np.full(Q + 1, 2.0), Q + 1, 2.0, matrix(Q + 1, Q + 1))
    out["one first"] = lambda b: OneFirst(first).integers(b.copy())
    for thins, y_max, loss in ((False, None, LogisticLoss()), (True, 9.0, PoissonLoss(9.0))):
        working = WorkingRows(unit.scale[:-1], unit.shift[:-1], 1.4, 2.8, y_max, thins)

        def terms(b, working=working, loss=loss, labels=y_max is None):
            b = b.copy()
            b[-1] = np.where(b[-1] > 0.0, 1.0, 0.0) if labels else np.abs(b[-1])
            X, y, w = working.apply(b)
            _, one, two = loss.terms(mapped(np.linspace(-1, 1, Q - 1)[None], X)[0], y, w)
            return np.vstack([X, y, w, one, two])

        out[f"working rows, {type(loss).__name__}"] = terms
    for name, (evaluate, of_residual) in MODELS.items():
        one = score_pass(evaluate, of_residual)

        def rows_of(b, one=one, of_residual=of_residual):
            b = b.copy()
            if not of_residual:
                b[-1] = np.where(b[-1] > 0.0, 1.0, 0.0)
            z, psi, omega, square, whole = one.rows(b)
            there = np.zeros(b.shape[1])
            there[whole] = 1.0
            return np.vstack([z, psi, psi if omega is None else omega, square, there])

        out[f"score, {name}"] = rows_of
    return out


IMAGES = images()


@pytest.mark.parametrize("name", IMAGES)
def test_the_image_of_a_row_is_the_same_bit_by_bit(name):
    image, table = IMAGES[name], block()
    with np.errstate(all="ignore"):
        whole = image(table)
        for label, layout in LAYOUTS.items():
            assert np.array_equal(image(layout(table)), whole, equal_nan=True), label
        for width, n in ((8191, M), (7, 1400), (1, 300)):
            parts = np.hstack([image(part) for part in cut(table[:, :n], width)])
            assert np.array_equal(parts, whole[:, :n], equal_nan=True), width
        order = np.random.default_rng(1).permutation(M)
        assert np.array_equal(image(table[:, order]), whole[:, order], equal_nan=True)


@pytest.mark.parametrize("name", MODELS)
def test_sums_of_a_pass_are_the_same_integers(name):
    evaluate, of_residual = MODELS[name]
    one, table = score_pass(evaluate, of_residual), block()
    if not of_residual:
        table[-1] = np.where(table[-1] > 0.0, 1.0, 0.0)

    def found(blocks):
        sums = one.sums(blocks)
        return [np.asarray(x).tolist() for x in dataclasses.astuple(sums)]

    whole = found([table.copy()])
    for label, layout in LAYOUTS.items():
        assert found([layout(table)]) == whole, label
    assert found(cut(table, 8191)) == whole
    assert found(cut(table[:, :1400], 7)) == found([table[:, :1400].copy()])
    assert found(cut(table[:, :300], 1)) == found([table[:, :300].copy()])


# -- what the product rests on --------------------------------------------------------------------
@pytest.mark.parametrize("q", [13, 31, 32, 33, 64, 200])
def test_the_parts_of_a_product_are_exact_and_what_is_left_out_is_small(q):
    """Against rational arithmetic: the worst entry is off by less than the docstring says."""
    from fractions import Fraction

    rng = np.random.default_rng(q)
    A, z = rng.normal(size=(13, q)), rng.normal(size=(q, 3))
    z[:, 1] = rng.choice([-1.0, 1.0], q)
    A[0] = rng.choice([-1.0, 1.0], q)
    rows, columns = 10.0 ** rng.uniform(-9, 9, 13), 10.0 ** rng.uniform(-9, 9, q)
    A *= rows[:, None] / columns
    z *= columns[:, None]
    got = mapped(A, z)
    bits = (53 - (q - 1).bit_length()) // 2
    assert q * 2 ** (2 * bits) <= 2**53  # partial sums in units of the products
    across = 2.0 ** np.frexp(np.abs(A).max(axis=0))[1]
    size = 2.0 ** np.frexp(np.abs(A / across).max(axis=1))[1]
    for j in range(z.shape[1]):
        top = float(np.abs(z[:, j] * across).max())
        for i in range(len(A)):
            exact = sum(Fraction(a) * Fraction(x) for a, x in zip(A[i], z[:, j], strict=True))
            off = abs(float(Fraction(float(got[i, j])) - exact))
            assert off <= 4 * q * 2.0 ** (-2 * bits) * top * size[i]
    for seed in range(20):  # exact, so in whatever order a processor adds up
        order = np.random.default_rng(seed).permutation(q)
        assert np.array_equal(mapped(A[:, order], z[order]), got)


@pytest.mark.parametrize("q", [3, 13, 40])
@pytest.mark.parametrize("triangular", [False, True])
def test_the_unit_of_a_column_changes_no_image(q, triangular):
    """Bit by bit: cells 2^50 times as large, under entries 2^-50 times as large."""
    rng = np.random.default_rng(q)
    A, z = rng.normal(size=(13, q)), rng.normal(size=(q, 9))
    if triangular:  # the last row sees one column alone: what it is over decides nothing
        A = np.triu(A)
    units = 2.0 ** rng.integers(-50, 51, q)
    assert np.array_equal(mapped(A / units, z * units[:, None]), mapped(A, z))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, 1e200, 1e-300, 5e-324, 0.0])
def test_a_product_is_total(value):
    """Any cell: no warning beyond floats, and the rows beside it do not notice."""
    table = np.random.default_rng(0).normal(size=(Q, 9))
    before = mapped(matrix(), table)
    table[4, 3] = value
    with np.errstate(all="ignore"):
        after = mapped(matrix(), table)
        alone = mapped(matrix(), table[:, 3:4])
    others = [i for i in range(9) if i != 3]
    assert np.array_equal(after[:, others], before[:, others])
    assert np.array_equal(after[:, 3:4], alone, equal_nan=True)
    if not np.isfinite(value):
        assert not np.isfinite(after[:, 3]).any()


# -- processors -----------------------------------------------------------------------------------
_FEATURES = """
try:
    from numpy._core import _multiarray_umath as core
except ImportError:
    from numpy.core import _multiarray_umath as core
wide = [f for f in core.__cpu_dispatch__ if f.startswith(("AVX512", "X86_V4"))]
has = core.__cpu_features__
"""
_INTEGERS = """
import hashlib
import numpy as np
from dpmodels.sums.cells import gram
from dpmodels.sums.products import mapped
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import UnitScale
from dpmodels.scoring.pass_plan import plan_pass
from dpmodels.scoring.rules import LINEAR
from dpmodels.scoring.models import plain
from dpmodels.core.parallel import Parallel
from dpmodels.core.sets import Reading
from dpmodels.scoring.passes import Centre, row_of

out = hashlib.sha256()
for q in (5, 14, 33):
    cell = np.arange(q * 9000.0).reshape(q, 9000)
    rows = np.modf(cell * 0.6180339887498949)[0] * 2.0 - 1.0  # no generator, no function of floats
    matrix = np.modf(np.arange(q * q * 1.0).reshape(q, q) * 0.7548776662466927)[0] - 0.5
    out.update(mapped(matrix, rows).tobytes())
    rowmap = RowMap(UnitScale(np.ones(q), np.zeros(q), False), np.full(q, 2.0), q, 2.0, matrix)
    blocks = lambda: [rows[:, :8192].copy(), rows[:, 8192:].copy()]
    out.update(str(gram(blocks(), rowmap).integers().tolist()).encode())
    plan = plan_pass(LINEAR, 2, 0.3, 9000, q - 1, "replace", meat=True, tail=2000)
    unit = UnitScale(np.ones(q), np.zeros(q), False)
    at = Centre(unit, np.eye(q - 1), rows[:-1, 0], np.eye(q - 1) + 0.1 * matrix[1:, 1:], 0.3, plain)
    into = Parallel(plan, q - 1)
    (sums,) = Reading(None, (row_of(at, into.step, rotated=False)[0],), (into,)).over(blocks()).arrays
    out.update(str([sums.information.tolist(), sums.score.tolist(), sums.scale]).encode())
print(out.hexdigest())
"""


def run_python(code, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_integers_are_those_of_any_processor():
    """BLAS made for others, as far as this one knows their instructions; numpy without its widest.

    Linear maps alone: ``exp`` and its kin may differ by a last bit.
    """
    known = json.loads(run_python(f"import json{_FEATURES}print(json.dumps([wide, has]))"))
    wide, has = known
    other = [{"OPENBLAS_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "2"}]
    if has.get("AVX2"):
        other += [{"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Zen"}]
    if has.get("AVX512F"):
        other += [{"OPENBLAS_CORETYPE": "SkylakeX"}]
    if disabled := " ".join(f for f in wide if has.get(f)):
        other += [{"NPY_DISABLE_CPU_FEATURES": disabled}]
        other += [{"NPY_DISABLE_CPU_FEATURES": disabled, "OPENBLAS_CORETYPE": "Haswell"}]
    here = run_python(_INTEGERS)
    assert {here} == {run_python(_INTEGERS, **more) for more in other}


# -- cells, as sources hand them over -------------------------------------------------------------
FORMULA = "y ~ log(a) + exp(b) + sqrt(a) + a:b + I(a**3) + sin(b) + bs(a, knots=[2, 5]) + legendre(b, 3) + g + a:g"


@pytest.mark.parametrize("width", [8192, 7, 1])
def test_columns_of_a_design_do_not_depend_on_how_cells_lie(width):
    from dpmodels.formula.build import build_design
    from dpmodels.formula.schema import Schema
    from dpmodels.sources.rows import Rows
    from dpmodels.sources.tables import DictSource
    from dpmodels.variables import Levels, Real

    schema = Schema(y=Real(-3, 3), a=Real(0.1, 9), b=Real(-2, 1), g=Levels(["u", "v", "w"]))
    design, rng = build_design(FORMULA, schema), np.random.default_rng(0)
    n = 1500 if width < 8192 else 9000
    table = np.vstack([rng.normal(size=n), rng.uniform(0, 10, n), rng.normal(size=n)])
    table[1, ::101], table[2, ::211] = np.nan, np.inf
    words = np.array(["u", "v", "w", "x"], dtype=object)[rng.integers(0, 4, n)]

    def filled(cells):
        columns = {**dict(zip("yab", cells, strict=True)), "g": words}
        blocks = Rows(DictSource(columns), n).blocks(design, height=width)
        return np.hstack([b.copy() for b in blocks])

    whole = filled(table)
    assert np.isfinite(whole).any(axis=1).all()
    wide = np.hstack([b.copy() for b in Rows(DictSource(
        {**dict(zip("yab", table, strict=True)), "g": words}), n).blocks(design)])  # fmt: skip
    assert np.array_equal(whole, wide, equal_nan=True)
    for label, layout in LAYOUTS.items():
        assert np.array_equal(filled(layout(table)), whole, equal_nan=True), label


# -- total ----------------------------------------------------------------------------------------
#: Weights, responses and regressors that nobody declared.
WILD = (0.0, -0.0, -1.0, 1e-320, 1e-170, 1e-141, 3e-9, 1.0, 1e100, 1e141, 1e160, 1e308, np.inf,
        -np.inf, np.nan)  # fmt: skip


def wild_rows(rng, q, m=600):
    """Rows of a few wild cells each: regressors, a weight (next to last), a response (last)."""
    out = rng.normal(size=(q, m))
    out[-2] = rng.choice(WILD, m)
    for _ in range(2):
        out[rng.integers(0, q, m), np.arange(m)] = rng.choice(WILD, m)
    out[0, ::3] = 1.0
    out[1, ::4] = 0.0
    # short rows, whose squares vanish or nearly, of long scores
    short = np.arange(1, m, 3)
    out[:-2, short] = rng.normal(size=(q - 2, len(short)))
    out[:-2, short] *= 10.0 ** rng.choice(
        [-168.0, -167.0, -166.0, -150.0, -138.0, -7.0, -6.0], len(short)
    )
    out[-2, short] = rng.choice([1.0, 1e20, 1e139, 1.5e308], len(short))
    out[-1, short] = rng.choice([1.0, 1e100, 1e138, 1e165, 1e200], len(short))
    return out


def wild_pass(name, cls=ScorePass, **more):
    evaluate, of_residual = MODELS[name]
    q = 5
    plan = plan_pass(LINEAR, 2, 0.3, 50, 3, "replace", meat=True, tail=20, weighted=True, **more)
    unit = UnitScale(np.ones(q), np.zeros(q), False)
    W0 = np.hstack([np.eye(3), np.zeros((3, 1))])
    at = Centre(unit, W0, np.array([0.3, -1.0, 0.5]), np.eye(3), 0.7, evaluate, of_residual,
                weights=3)  # fmt: skip
    return cls(plan, at)


def bounded(sums, plan):
    """Every sum of one row, or person, lies in its clip set: exact integers."""
    for name in ("information", "meat"):
        matrix = getattr(sums, name)
        assert sum(int(x) ** 2 for x in matrix.ravel()) <= 2**80, name
    step = 2.0**-40 if sums.fine else 2.0**-20
    assert sum(int(x) ** 2 for x in sums.score) * step**2 <= 1.0
    assert 0 <= sums.scale <= 2**20 and sum(sums.bins) in (0, 1)


def at_the_fit(one):
    """Rows of score zero under a log link, with weights whose products are not floats."""
    out = np.array([[1.0], [0.0], [0.0], [1.7e308], [0.0]])
    matrix, shift = one.affine
    eta = mapped(matrix, out)[-1]
    out[-1] = np.exp(eta if shift is None else eta + shift[-1])
    return out


@pytest.mark.parametrize("name", MODELS)
def test_no_row_leaves_its_clip_set(name):
    one, rng = wild_pass(name), np.random.default_rng(1)
    table = np.hstack([wild_rows(rng, 5), at_the_fit(one)])
    alone = []
    for j in range(table.shape[1]):
        sums = one.sums([table[:, j : j + 1].copy()])
        bounded(sums, one.plan)
        alone.append(sums)
    whole = one.sums([table.copy()])
    total = functools.reduce(operator.add, alone)  # no row takes another's away
    for name in ("information", "meat", "score", "scale", "bins"):
        assert np.array_equal(getattr(whole, name), getattr(total, name)), name


@pytest.mark.parametrize("name", MODELS)
def test_no_person_leaves_its_clip_set(name):
    from dpmodels.core.units import UnitPass
    from dpmodels.scoring.clip import Lengths
    from dpmodels.scoring.rules import OCTAVE_ZERO, OCTAVES
    from dpmodels.scoring.unit_passes import RegressionRows
    from dpmodels.scoring.units import unit_pass
    from dpmodels.sources.people import BlockOfPeople

    counts = np.zeros(OCTAVES)
    counts[OCTAVE_ZERO + 1] = 50.0
    plan = unit_pass(
        Lengths(counts, 1.0), 0.3, 50, 3, "replace", 3.0, last=True, scale=False, tail=20
    )
    early = unit_pass(
        Lengths(counts, 1.0), 0.3, 50, 3, "replace", 3.0, last=False, scale=True, tail=50
    )
    at, rng = wild_pass(name).centre, np.random.default_rng(2)
    table = wild_rows(rng, 5)
    for one in (plan, early):
        into = UnitPass(one, 3, np.diag([1.0, 3.0, 0.2]))
        for j in range(0, table.shape[1], 3):
            block = BlockOfPeople(table[:, j : j + 3].copy(), np.array([0]), np.array([3]))
            sums = sums_of(into, RegressionRows(at), [block])
            for part in ("information", "meat"):
                matrix = getattr(sums, part)
                assert matrix is None or sum(int(x) ** 2 for x in matrix.ravel()) <= 2**80, part
            assert sum(int(x) ** 2 for x in sums.score) <= 2**40
            assert 0 <= sums.scale <= 2**20


def test_a_row_too_short_to_scale_is_the_zero_row():
    """Squares of its entries vanish: no length can be divided by."""
    one = wild_pass("least squares")
    for size in (1e-141, 1e-160, 1e-170):
        row = np.array([[size], [size], [0.0], [1.0], [1e99]])
        sums = one.sums([row])
        assert not any(sums.score) and not sums.information.any() and sum(sums.bins) == 1


@pytest.mark.parametrize("radius", [1e-165, 1e-162, 1e-3, 1e99])
def test_no_short_vector_leaves_its_ball(radius):
    """Lengths of which the squares are not floats, or hardly: exact integers."""
    rng = np.random.default_rng(4)
    g = rng.normal(size=(4, 3000)) * 10.0 ** rng.uniform(-170, -130, 3000)
    g[:, ::7] *= 1e200
    g[2, ::11] = rng.choice(WILD, len(g[2, ::11]))
    with np.errstate(all="ignore"):
        k = ball_integers(g, radius)
    assert max(sum(int(x) ** 2 for x in row) for row in k.T) <= 2**40


@pytest.mark.parametrize(("psi", "omega"), [(1.0, np.inf), (np.inf, 1.0), (1e200, 1.0)])
def test_a_row_whose_score_or_information_is_not_finite_leaves_nothing_of_it(psi, omega):
    """Nor the other part of it: it is missing in all, as with a missing cell."""

    def evaluate(seen, response):
        gone = response > 0.0
        return np.where(gone, psi, 1.0), np.where(gone, omega, 1.0)

    one, rows = score_pass(evaluate, False), block()
    gone = rows[-1] > 0.0
    assert 0 < gone.sum() < M
    parts = [dataclasses.asdict(one.sums([x.copy()])) for x in (rows, rows[:, ~gone])]
    assert str(parts[0]) == str(parts[1])


def test_sums_that_are_not_finite_count_as_nothing():
    from dpmodels.sums.products import ExactSum

    total = ExactSum(2, 2)
    total.add(np.array([[np.nan, 3.0], [np.inf, -np.inf]]))
    assert total.integers().tolist() == [[0, 3], [0, 0]]


def test_ranges_beyond_what_squares_allow_are_refused():
    import dpmodels as dp
    from dpmodels.errors import FormulaError, SchemaError
    from dpmodels.variables import Count, Real

    for make in (lambda: Real(0, 1e101), lambda: Real(-1.1e100, 0), lambda: Count(1e101)):
        with pytest.raises(SchemaError, match=r"within -1e\+100 and 1e\+100"):
            make()
    assert Real(-1e100, 1e100).interval == (-1e100, 1e100)
    data = {"x": np.zeros(9), "y": np.zeros(9)}
    more = {"eps": 1.0, "delta": 1e-5}
    for term in ("I(x**3)", "exp(x)"):
        with pytest.raises(FormulaError, match=r"beyond 1e\+100"):
            dp.dp_ols(f"y ~ {term}", data, bounds={"x": (0, 1e60), "y": (0, 1)}, **more)
    wide = {"x": (0, 1e60), "z": (-1e60, 1), "y": (0, 1)}
    with pytest.raises(FormulaError, match=r"'x:z', a product .* beyond 1e\+100"):
        dp.dp_ols("y ~ x:z", {**data, "z": data["x"]}, bounds=wide, **more)


#: Verbs whose scores are multiplied by weights, or are steps, or grow without end.
VAST = {
    "quantile": ("dp_quantreg", {"tau": 0.2}),
    "expectile": ("dp_mest", {"loss": "expectile", "tau": 0.9}),
    "linear": ("dp_ols", {}),
    "poisson": ("dp_glm", {"family": "poisson", "method": "scoring"}),
    "logistic": ("dp_glm", {"family": "binomial", "method": "scoring"}),
}


@pytest.mark.parametrize("unit", [None, "id"])
@pytest.mark.parametrize("size", [1e-100, 1e100])
@pytest.mark.parametrize("name", VAST)
def test_vast_weights_and_ranges_move_no_more_than_is_charged(name, size, unit):
    """Every draw of the stage, replayed: ranges and weights as far as they may be declared.

    Cells go further, to 1e308 and all that is not finite. Deterministic.
    """
    import dpmodels as dp
    from dpmodels.errors import DPModelsWarning
    from dpmodels.formula.schema import Schema
    from dpmodels.variables import Count, Levels, Real
    from tests.replaying import replay_ratios

    verb, options = VAST[name]
    y = {"poisson": Count(6), "logistic": Levels(["no", "yes"])}.get(name, Real(-size, size))
    most = 1e100 if name != "linear" or size < 1.0 else 1.0  # products of ranges are ranges there
    schema = Schema(a=Real(-size, size), b=Real(0, 1), y=y, w=Real(0, most))
    n, rng = 24, np.random.default_rng(9)
    people = {} if unit is None else {"unit": unit, "units": 8}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        plan = dp.plan("y ~ a + b", schema, n=n, eps=4.0, delta=1e-4, verb=verb, weights="w",
                       **options, **people)  # fmt: skip

    def table(m):
        ends = {"logistic": np.array(["no", "yes"], object), "poisson": np.array([0.0, 6.0])}
        out = {
            "a": rng.choice([-size, size, 0.0, np.nextafter(0, 1)], m), "b": rng.uniform(0, 1, m),
            "y": rng.choice(ends.get(name, np.array([-size, size, 0.0])), m),
            "w": rng.choice([0.0, 1e-100, 1.0, 1e100], m),
        }  # fmt: skip
        return out if unit is None else {"id": np.arange(m) // 3 * 1.0, **out}

    first, others = table(n), []
    for _ in range(40):
        other, row = {k: v.copy() for k, v in first.items()}, table(n)
        few = slice(n - 1, n) if unit is None else slice(n - 3, n)
        for k in ("a", "b", "y", "w"):
            other[k][few] = row[k][few]
            if other[k].dtype.kind == "f" and rng.random() < 0.4:
                other[k][n - 1] = rng.choice([1e308, -1e308, 1e160, 5e-324, np.inf, np.nan])
        others.append(other)
    ratios = replay_ratios(plan, first, others, seed=4)
    print(name, size, unit, ratios)
    assert ratios and max(ratios.values()) <= 1.0, ratios
