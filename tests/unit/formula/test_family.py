"""A random family of formulas: agreement with formulaic, row-locality, chunks, bounds."""

import numpy as np
import pandas as pd
import pytest

from dpmodels.formula import coerce
from dpmodels.formula.build import build_design

pytest.importorskip("formulaic")


def test_names_order_and_values_as_formulaic(family, tools):
    df = tools.frame(seed=1)
    assert len(family) >= 200
    for text, design in family.items():
        names, X, y = tools.plain(text, df)
        out = tools.fill(design, df)
        assert design.names == names, text
        scale = np.maximum(1.0, np.abs(X).max())
        assert np.abs(out[:-1].T - X).max() <= 1e-12 * scale, text
        assert np.abs(out[-1] - y).max() <= 1e-12 * 10, text


def test_row_locality(family, tools):
    """All other rows replaced by wild ones: the watched row does not change, bit for bit."""
    df, other = tools.frame(seed=2), tools.frame(seed=3, far=True)
    other.loc[5, tools.numbers] = np.nan
    mixed = other.copy()
    mixed.iloc[11] = df.iloc[11]
    for text, design in family.items():
        a, b = tools.fill(design, df)[:, 11], tools.fill(design, mixed)[:, 11]
        assert np.array_equal(a, b, equal_nan=True), text


def test_chunk_invariance(family, tools):
    df = tools.frame(n=60, seed=4, far=True)
    df.loc[7, "x"] = np.nan
    df.loc[8, "g"] = None
    for text, design in list(family.items()):
        whole = tools.fill(design, df)
        for rows in (1, 7, 1000):
            assert np.array_equal(tools.fill(design, df, rows), whole, equal_nan=True), (text, rows)


def test_empty_chunk(family, tools):
    empty = tools.frame(n=3).iloc[:0]
    for design in family.values():
        columns = {v: coerce(empty[v], design.schema[v]) for v in design.variables}
        out = np.empty((design.q, 0))
        design.fill(columns, out)
        assert out.shape == (design.q, 0)


def test_bounds_hold_on_rows_far_outside(family, tools):
    df = tools.frame(n=400, seed=5, far=True)
    for text, design in family.items():
        out = tools.fill(design, df)
        bounds = design.intervals()
        known = ~np.isnan(bounds[:, 0])
        good = ~np.isnan(out[-1])
        cells = out[:, good]
        assert good.any(), text
        assert (cells[known] >= bounds[known, :1]).all(), text
        assert (cells[known] <= bounds[known, 1:]).all(), text
        X = cells[:-1]
        with np.errstate(over="ignore"):
            sizes = {
                "l2": np.sqrt((X**2).sum(axis=0)),
                "l1": np.abs(X).sum(axis=0),
                "linf": np.abs(X).max(axis=0),
            }
        for norm, size in sizes.items():
            bound = design.row_norm(norm)
            if not np.isnan(bound):
                assert size.max() <= bound * (1 + 1e-12), (text, norm)
        for term in design.terms:
            bound = design.term_norm(term)
            if not np.isnan(bound):
                part = np.sqrt((X[term.columns] ** 2).sum(axis=0))
                assert part.max() <= bound * (1 + 1e-12), (text, term.name)


def test_a_missing_cell_makes_exactly_its_row_missing(family, tools):
    df = tools.frame(seed=6)
    clean = {text: tools.fill(d, df) for text, d in family.items()}
    assert not any(np.isnan(c).any() for c in clean.values())
    for i, name in enumerate([*tools.numbers, *tools.factors]):
        holed = df.copy()
        if name in tools.factors:
            holed[name] = holed[name].astype(object)
            holed.loc[i, name] = "a level nobody declared"
        else:
            holed.loc[i, name] = np.nan
        for text, design in family.items():
            out = tools.fill(design, holed)
            bad = np.isnan(out[-1])
            assert bad.sum() == (name in design.variables), (text, name)
            assert np.array_equal(out[:, ~bad], clean[text][:, ~bad]), (text, name)
            assert not bad.any() or bad[i]


# The eleven formulas on which the row norm bound is attained (numeric, log, powers, splines x sum
# contrasts, Helmert, interactions, no intercept, "."): each variable can be extreme by itself.
TIGHT = [
    "y ~ x + z + v",
    "y ~ log(x) + I(z**2) + exp(z)",
    "y ~ x*z",
    "y ~ C(g, contr.sum) * bs(x, knots=[2, 3.5])",
    "y ~ C(k, contr.helmert) + x",
    "y ~ C(k, contr.poly) * z",
    "y ~ 0 + g + z",
    "y ~ h*g*x",
    "y ~ 0 + g:x + z",
    "y ~ legendre(x, 4) * C(g, contr.diff)",
    "y ~ .",
]


@pytest.mark.parametrize("formula", TIGHT)
def test_row_norm_is_attained(formula, tools):
    """Over all corners and levels, the largest row norm is within 1 % of the bound."""
    schema = tools.schema.restrict(["y", "x", "z", "v", "g", "h", "k"])
    design = build_design(formula, schema)
    levels = [schema[f].levels for f in ("g", "h", "k")]
    grid = np.array(np.meshgrid([1, 5], [-2, 2], [0.5, 30], *(range(len(v)) for v in levels)))
    flat = grid.reshape(6, -1)
    df = pd.DataFrame({"y": 5.0, "x": flat[0], "z": flat[1], "v": flat[2]})
    for f, codes, values in zip("ghk", flat[3:], levels, strict=True):
        df[f] = pd.Categorical.from_codes(codes.astype(int), categories=list(values))
    X = tools.fill(design, df)[:-1]
    for norm, power in (("l2", 2), ("l1", 1), ("linf", np.inf)):
        if norm == "l1" and formula != "y ~ x + z + v":
            continue  # tight for the Euclidean norm; the others are checked where they must be
        reached = np.linalg.norm(X, ord=power, axis=0).max()
        assert 0.99 * design.row_norm(norm) <= reached <= design.row_norm(norm) * (1 + 1e-12)


def test_row_norm_is_valid_but_loose_where_terms_cannot_be_extreme_together(tools):
    design = build_design("y ~ b + I(1 - b)", tools.schema)
    df = tools.frame(500, seed=7, far=True)
    reached = np.sqrt((tools.fill(design, df)[:-1] ** 2).sum(axis=0))
    assert np.nanmax(reached) < design.row_norm()


STATSMODELS = [
    "y ~ x + z",
    "y ~ x*z",
    "y ~ x + g",
    "y ~ g*x",
    "y ~ g*h + x",
    "y ~ x + z + x:z + g:h",
    "y ~ np.log(x) + I(z**2) + g:z",
    "y ~ C(g, Sum) + x:h",
    "y ~ x:z + g + v - 1",
    "y ~ C(g, Treatment(reference='b'))*x + h",
    "y ~ x + z + x:z + g:h - 1",
]


@pytest.mark.parametrize("formula", STATSMODELS)
def test_patsy_engine_gives_the_columns_of_statsmodels(formula, tools):
    smf = pytest.importorskip("statsmodels.formula.api")
    df = tools.frame(n=60, seed=8)
    model = smf.ols(formula, df)
    design = build_design(formula, tools.schema, engine="patsy")
    assert list(design.names) == list(model.exog_names)
    out = tools.fill(design, df)
    assert np.abs(out[:-1].T - model.exog).max() <= 1e-12 * 50
    again = build_design(formula, tools.schema, order="statsmodels")
    assert again.names == design.names
