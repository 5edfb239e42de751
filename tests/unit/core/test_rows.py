"""Opaque rows: a formula computes from one row, and every look at another is refused."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.own import OwnRows
from dpmodels.core.rows import (
    CellRows,
    Rows,
    clip,
    column_at,
    complete,
    entry,
    length,
    linear,
    only_where,
    stack,
    total,
    used_up,
    where,
)
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.build import build_design, rules
from dpmodels.formula.program import Block
from dpmodels.formula.words import Node
from dpmodels.opaque import label, of_code, of_user, put_at
from dpmodels.sources.rows import Rows as Source
from dpmodels.sources.tasks import as_source

M = 40
SCHEMA = dp.Schema(g=dp.Levels(list("abc")), k=dp.Levels(list("uv")), y=dp.Real(-3, 3))
DESIGN = build_design("y ~ g + k", SCHEMA)
MATRIX = np.random.default_rng(0).normal(size=(3, DESIGN.q))


def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"g": rng.choice(list("abc"), M), "k": rng.choice(list("uv"), M), "y": rng.normal(0, 1, M)}
    )


def cells():
    rows = Source(as_source(table()), M)
    (block,) = [
        (numbers.copy(), index.copy()) for numbers, index in rows.cell_blocks(DESIGN, DESIGN.grid)
    ]
    return CellRows(DESIGN.grid, *block, {})


def dense():
    rows = Source(as_source(table()), M)
    (block,) = [block.copy() for block in rows.blocks(DESIGN)]
    return Rows(block)


FORMS = {
    "filled": dense,
    "image": lambda: linear(MATRIX, dense(), np.ones((3, 1))),
    "first of an image": lambda: linear(MATRIX, dense())[:2],
    "cells": cells,
    "image of cells": lambda: linear(MATRIX, cells()),
    "part of an image of cells": lambda: linear(MATRIX, cells())[:2],
}
LOOKS = {
    "any": lambda z: z.any(), "all": lambda z: z.all(), "sum": lambda z: z.sum(),
    "max": lambda z: z.max(), "min": lambda z: z.min(), "mean": lambda z: z.mean(),
    "np.sum": lambda z: np.sum(z), "np.max": lambda z: np.max(z), "np.any": lambda z: np.any(z),
    "np.sort": lambda z: np.sort(z), "np.mean": lambda z: np.mean(z),
    "np.cumsum": lambda z: np.cumsum(z), "np.unique": lambda z: np.unique(z),
    "np.einsum": lambda z: np.einsum("ij->j", z), "np.asarray": lambda z: np.asarray(z),
    "np.array": lambda z: np.array(z), "matmul": lambda z: np.matmul(np.ones((1, len(z))), z),
    "@": lambda z: np.ones((1, len(z))) @ z, "reduce": lambda z: np.add.reduce(z),
    "accumulate": lambda z: np.add.accumulate(z), "at": lambda z: np.add.at(z, 0, 1.0),
    "out=": lambda z: np.add(z, 1.0, out=z), "where=": lambda z: np.add(z, 1.0, where=True),
    "if": lambda z: 1 if z[0] > 0 else 2, "and": lambda z: (z[0] > 0) and (z[0] < 1),
    "float": lambda z: float(z[0]), "int": lambda z: int(z[0]), "iteration": lambda z: list(z),
    "in": lambda z: 1.0 in z, "hash": lambda z: hash(z), "mask": lambda z: z[z[0] > 0],
    "rows": lambda z: z[:, 3:], "one row": lambda z: z[0, 0], "array of places": lambda z: z[np.array([0])],
    "bools": lambda z: z[[True] * len(z)], "True": lambda z: z[True], "shape": lambda z: z.shape,
    "size": lambda z: z.size, "transpose": lambda z: z.T, "tolist": lambda z: z.tolist(),
    "assignment": lambda z: z.__setitem__(0, 1.0), "one number per row": lambda z: z + np.ones((1, M)),
    "pickle": lambda z: pickle.dumps(z), "copy": lambda z: copy.copy(z),
    "index": lambda z: [1, 2, 3][z], "range": lambda z: range(z[0]),
    "where of an array": lambda z: np.where(z > 0, np.ones((1, M)), 0.0),
    "searchsorted of rows": lambda z: np.searchsorted(z, z),
    "searchsorted in rows": lambda z: np.searchsorted(z[0], 1.0),
    "frame": lambda z: pd.Series(np.zeros(M)) + z,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_a_block_is_refused(form, look):
    rows = FORMS[form]()
    with pytest.raises((PrivacyBugError, TypeError, ValueError)):
        LOOKS[look](rows)


@pytest.mark.parametrize("form", FORMS)
def test_a_formula_of_a_block_is_that_of_its_rows(form):
    """Bit for bit: every operation that exists, on the block and on each row alone."""

    def formula(z):
        a, b = z[0], z[-1]
        t = where(a > b, a * 2.0 - 1.0, np.exp(-abs_of(b))) + clip(b, -0.5, 0.5) / 3.0
        t = t + entry(np.array([0.0, 1.0, 4.0]), b) + complete(z).astype(float) + length(z[:-1])
        mantissa, exponent = np.frexp(b)
        columns = stack(a, b, t) ** 2
        last = used_up(columns, clip(b, 0.0, 1.0), 2.0)
        return stack(t, mantissa, exponent, ~(a == b) & (a < 1.0), np.zeros_like(a), -b, b**2,
                     np.searchsorted((-0.5, 0.5), a, "right"), only_where(t, a > b), total(columns), last,
                     column_at(columns, b), b % 0.7, label(b, 0.0), of_code([3.0, 4.0], a),
                     put_at(clip(np.floor(b), 0.0, 2.0), [a, b], 4))  # fmt: skip

    def abs_of(x):
        return np.abs(x)

    rows = FORMS[form]()
    whole = formula(rows).numbers
    for j in range(M):
        (alone,) = formula(row_alone(form, j)).numbers.T
        assert alone.tobytes() == whole[:, j].tobytes()


def row_alone(form, j):
    """Return row j of a form, made of a table of one row."""
    filled = Rows(dense().numbers[:, [j]].copy())
    by_cell = cells()
    one = CellRows(DESIGN.grid, by_cell.values[:, [j]], by_cell.cells[[j]], {})
    of = one if "cells" in form else filled
    if "image" not in form:
        return of
    image = linear(MATRIX, of, np.ones((3, 1)) if form == "image" else None)
    return image[:2] if form.startswith(("first", "part")) else image


def test_cells_are_the_same_rows():
    """A formula cannot tell a row of a grid from a filled one."""
    for a, b in ((dense(), cells()), (linear(MATRIX, dense()), linear(MATRIX, cells()))):
        np.testing.assert_allclose(a.numbers, b.numbers, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(a[1].numbers, b[1].numbers, rtol=1e-13, atol=1e-13)
        for part in (slice(None), slice(None, 2)):
            found = length(b[part]).numbers
            np.testing.assert_allclose(length(a[part]).numbers, found, rtol=1e-13, atol=1e-13)
        assert len(a) == len(b)
    y = cells()[-1] * 2.0
    assert (cells().put(-1, y)[-1].numbers == dense()[-1].numbers * 2.0).all()


def test_places_of_a_table_are_clipped():
    places = Rows(np.array([[np.nan, -np.inf, -1.0, 0.0, 1.7, 2.0, 1e300, np.inf]]))
    found = entry(np.array([5.0, 6.0, 7.0]), places).numbers
    assert found.tolist() == [[5.0, 5.0, 5.0, 5.0, 6.0, 7.0, 7.0, 5.0]]


def test_rows_show_nothing():
    assert "confidential" in repr(dense()) and "0." not in repr(dense())


def of_units(z, own):
    """Every operation within a unit."""
    a, b = z[0], z[-1]
    there = (b == b) * 1.0
    whole = np.floor(np.abs(only_where(b, b == b)) * 9.0)
    return stack(
        own.sum(a), own.mean(only_where(b, b == b), there), own.largest(b),
        own.before(whole, a, b), own.separate(a, a + 0.4, b == b, b),
    )  # fmt: skip


def test_what_a_unit_computes_is_of_its_own_rows():
    """Bit for bit, in any company; sums of later rows and marks of overlaps in any order too."""
    rng = np.random.default_rng(3)
    counts = np.array([1, 2, 5, 1, 40, 3])
    cells = rng.normal(size=(3, counts.sum())).round(1)
    cells[-1, rng.random(counts.sum()) < 0.2] = np.nan
    found = of_units(Rows(cells), OwnRows(counts)).numbers
    ends = np.cumsum(counts)
    for start, end, m in zip(ends - counts, ends, counts, strict=True):
        own = cells[:, start:end].copy()
        alone = of_units(Rows(own), OwnRows(np.array([m]))).numbers
        assert alone.tobytes() == np.ascontiguousarray(found[:, start:end]).tobytes()
        order = rng.permutation(m)
        turned = of_units(Rows(own[:, order].copy()), OwnRows(np.array([m]))).numbers
        np.testing.assert_array_equal(turned[-2:], alone[-2:, order])


def test_a_word_of_a_formula_that_looks_at_other_rows_is_refused():
    """Centring at the mean of a column, as scale() of other packages does: refused, whatever it is."""
    chunk = {"y": np.array([0.5, -1.0, 2.0])}
    block = Block(chunk, 3, rules(DESIGN.schema, "zero-row"))
    for word in (
        lambda env: env.number("y") - env.number("y").mean(),
        lambda env: env.number("y") / np.max(env.number("y")),
        lambda env: np.cumsum(env.number("y")),
        lambda env: np.asarray(env.number("y")),
    ):
        with pytest.raises((PrivacyBugError, TypeError)):
            block.values(Node(None, word))
    double = Node(None, lambda env: env.number("y") * 2.0)
    assert block.values(double).tolist() == [1.0, -2.0, 4.0]


def test_a_function_of_the_user_that_fails_takes_no_other_row_along():
    def picky(x):
        if np.any(x > 1.0):
            raise ValueError(str(x))
        return x + 1.0

    found = of_user(picky, Rows(np.array([[0.0, 2.0, np.nan, 1.0]]))).numbers
    np.testing.assert_array_equal(found, [[1.0, np.nan, np.nan, 2.0]])


def test_an_image_of_another_matrix_with_the_number_of_this_one_is_not_taken():
    """A cache that came from another process has numbers of objects that are gone there."""
    x, wrong = cells(), (np.zeros((3, DESIGN.grid.cells)), np.zeros((3, 1)))
    want = linear(MATRIX, cells()).numbers
    x.cache[id(MATRIX)] = MATRIX.copy(), wrong
    assert (linear(MATRIX, x).numbers == want).all() and want.any()
    assert x.cache[id(MATRIX)][0] is MATRIX


def test_complete_rows_are_found_among_cells():
    d = table()
    d.loc[::7, "g"], d.loc[::5, "y"], d.loc[::11, "k"] = "undeclared", np.nan, None
    rows = Source(as_source(d), M)
    (numbers, index), = [(a.copy(), b.copy()) for a, b in rows.cell_blocks(DESIGN, DESIGN.grid)]
    x = CellRows(DESIGN.grid, numbers, index, {})
    want = d.g.isin(list("abc")) & d.k.isin(list("uv")) & d.y.notna()
    assert (complete(x).numbers[0] == want).all() and 10 < want.sum() < M
    assert (complete(linear(MATRIX, x)).numbers[0] == want).all()
