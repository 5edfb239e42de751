"""Categories: ``C()`` with its contrasts, ``cut()``, ``hashed()``, ``Q()``, ``i()``."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.errors import DPModelsError, did_you_mean
from dpmodels.formula import formulaic_terms as fx
from dpmodels.formula.bases import arguments, numbers, whole
from dpmodels.formula.coerce import hash_text
from dpmodels.formula.compile import (
    compile_factor,
    compile_scalar,
    variable_cat,
    variable_name,
)
from dpmodels.formula.nodes import Array, Basis, Cat, Env, Factor, Node
from dpmodels.formula.refuse import need_levels, need_range, refused_name
from dpmodels.formula.syntax import Context, call_name, literal, pretty, word
from dpmodels.variables import Binary, Levels, Real, Text

_PATSY = {
    "Diff": "diff",
    "Treatment": "treatment",
    "Sum": "sum",
    "Helmert": "helmert",
    "Poly": "poly",
}
_BY_NAME = {"treatment", "sas", "sum", "helmert", "poly", "diff"}


@word("C")
def _category(node: ast.Call, ctx: Context) -> Factor:
    given = arguments(node, "x contrasts levels", ctx)
    levels = _levels(given.get("levels"), ctx)
    cat = _source(given["x"], levels, node, ctx)
    if "contrasts" not in given or literal(given["contrasts"]) is None:
        return cat
    contrast = _contrast(given["contrasts"], cat.levels, ctx)
    problem = ""
    try:  # public: the levels and the contrast
        fx.coding(contrast, cat.levels, True)
    except DPModelsError as error:
        problem = str(error)
    if problem:
        raise ctx.fail(problem)
    return Cat(cat.levels, cat.evaluate, contrast, cat.variables)


def _levels(node: ast.expr | None, ctx: Context) -> tuple[Any, ...] | None:
    if node is None or literal(node) is None:
        return None
    value = literal(node)
    if not isinstance(value, list):
        raise ctx.fail('levels must be a list, for example levels=["north", "south"]')
    problem = ""
    try:
        return Levels(value).levels
    except DPModelsError as error:
        problem = str(error)
    raise ctx.fail(problem)


def _source(inner: ast.expr, levels: tuple[Any, ...] | None, node: ast.Call, ctx: Context) -> Cat:
    """Return what is to be coded: a declared factor, numbers with listed levels, a comparison."""
    if isinstance(inner, ast.Name):
        name = variable_name(inner, ctx)
        assert name is not None
        variable = ctx.schema[name]
        if isinstance(variable, Levels):
            cat = variable_cat(name, variable)
            return cat if levels is None else _relevel(name, cat, levels, ctx)
        if isinstance(variable, Text) or (levels is None and not isinstance(variable, Binary)):
            raise need_levels(node, name, isinstance(variable, Real), variable.interval, ctx)
        return _numeric_levels(compile_scalar(inner, ctx), levels or (0, 1))
    value = compile_factor(inner, ctx)
    if isinstance(value, Cat) and levels is None:
        return value
    if isinstance(value, Node) and (value.boolean or levels is not None):
        return _numeric_levels(value, levels or (0, 1))
    raise ctx.refuse(
        f"the levels of {pretty(inner, ctx)} are not declared",
        f"Cut it at public points: cut({pretty(inner, ctx)}, breaks=[...])",
    )


def _numeric_levels(x: Node, levels: tuple[Any, ...]) -> Cat:
    wanted = [float(v) if not isinstance(v, str) else np.nan for v in levels]

    def codes(env: Env) -> Array:
        cells = np.atleast_1d(x.evaluate(env))
        out = np.full(cells.shape, -1, dtype=np.int32)
        for code, level in enumerate(wanted):
            out[cells == level] = code
        return out

    return Cat(levels, codes, variables=x.variables)


def _relevel(name: str, cat: Cat, levels: tuple[Any, ...], ctx: Context) -> Cat:
    for level in levels:
        if level not in cat.levels:
            close = did_you_mean(str(level), map(str, cat.levels))
            raise ctx.fail(
                f"{level!r} is not a declared level of {name!r}.{close} "
                f"Declared: {list(cat.levels)!r}"
            )
    table = np.array(
        [*(levels.index(v) if v in levels else -1 for v in cat.levels), -1], dtype=np.int32
    )
    return Cat(levels, lambda env: table[cat.evaluate(env)], variables=cat.variables)


# -- contrasts -----------------------------------------------------------------------------


def _contrast(node: ast.expr, levels: tuple[Any, ...], ctx: Context) -> Any:
    """``contr.sum``, ``contr.treatment("b")``, ``Treatment(reference="b")``, a matrix, a dict."""
    call = node if isinstance(node, ast.Call) else None
    head = call_name(call.func if call else node) if not _is_data(node) else ""
    name = head.split(".", 1)[1] if head.startswith("contr.") else _PATSY.get(head, "")
    name = "sas" if name == "SAS" else name
    if name in _BY_NAME:
        args = [] if call is None else [_plain(a, ctx) for a in call.args]
        kwargs = {} if call is None else {str(k.arg): _plain(k.value, ctx) for k in call.keywords}
        if "reference" in kwargs:
            kwargs["base"] = kwargs.pop("reference")
        _check_base(name, args, kwargs, levels, ctx)
        problem = ""
        try:
            return fx.contrast(name, *args, **kwargs)
        except DPModelsError as error:
            problem = str(error)
        raise ctx.fail(problem)
    custom = _custom(node, levels, ctx)
    if custom is not None:
        return custom
    known = [f"contr.{x}" for x in sorted(_BY_NAME)]
    raise ctx.fail(
        f"{pretty(node, ctx)} is not a contrast.{did_you_mean(head, known)} "
        f"Contrasts: {', '.join(known)}"
    )


def _is_data(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Constant))


def _plain(node: ast.expr, ctx: Context) -> Any:
    value = literal(node)
    if value is ...:
        raise ctx.fail(f"{pretty(node, ctx)} must be a constant")
    return value


def _check_base(
    name: str, args: list[Any], kwargs: Mapping[str, Any], levels: tuple[Any, ...], ctx: Context
) -> None:
    if name not in ("treatment", "sas"):
        return
    base = args[0] if args else kwargs.get("base")
    if base is not None and base not in levels:
        close = did_you_mean(str(base), map(str, levels))
        raise ctx.fail(f"the base {base!r} is not a level.{close} Levels: {list(levels)!r}")


def _custom(node: ast.expr, levels: tuple[Any, ...], ctx: Context) -> Any:
    rows = literal(node)
    if isinstance(node, ast.Dict):
        columns = [_plain(v, ctx) for v in node.values]
        if any(len(c) != len(levels) for c in columns if isinstance(c, list)):
            raise ctx.fail(f"each column of a contrast needs {len(levels)} numbers, one a level")
        return fx.contrast_columns(
            {str(_plain(k, ctx)) if k else "": c for k, c in zip(node.keys, columns, strict=True)}
        )
    if not isinstance(rows, list):
        return None
    if len(rows) != len(levels) or not all(isinstance(r, list) for r in rows):
        raise ctx.fail(
            f"a contrast matrix has {len(levels)} rows, one a level, each a list of numbers"
        )
    return fx.custom_contrast(rows)


# -- cut, hashed, Q ------------------------------------------------------------------------


@word("cut")
def _cut(node: ast.Call, ctx: Context) -> Factor:
    given = arguments(node, "x breaks labels", ctx)
    x = compile_scalar(given["x"], ctx)
    if x.interval is None:
        raise need_range(node, given["x"], "cut", ctx)
    lo, hi = x.interval
    even = [round(v, 4) for v in np.linspace(lo, hi, 4)[1:-1].tolist()]
    if "breaks" not in given or isinstance(literal(given["breaks"]), int):
        raise ctx.refuse(
            "cut() without listed breaks would place them by the private minimum and maximum",
            f"Fix, on the declared range [{lo:g}, {hi:g}]:",
            f"    cut({pretty(given['x'], ctx)}, breaks={even})",
        )
    breaks = numbers(given["breaks"], "breaks", ctx)
    inside = [b for b in breaks if lo < b < hi]
    if not inside or any(b < lo or b > hi for b in breaks):
        raise ctx.fail(
            f"breaks {breaks} must lie in the declared range [{lo:g}, {hi:g}], at least one "
            "strictly inside",
            f"For example cut({pretty(given['x'], ctx)}, breaks={even})",
        )
    edges = [lo, *inside, hi]
    labels = [
        f"{'[' if i == 0 else '('}{a:g}, {b:g}]"
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    if "labels" in given:
        wanted = _levels(given["labels"], ctx)
        if wanted is None or len(wanted) != len(labels):
            raise ctx.fail(f"cut() needs {len(labels)} labels, one for each of {labels}")
        labels = list(wanted)
    points = np.array(inside)

    def codes(env: Env) -> Array:
        cells = np.atleast_1d(x.evaluate(env))
        out = np.searchsorted(points, cells, side="left").astype(np.int32)
        out[np.isnan(cells)] = -1
        return out

    return Cat(tuple(labels), codes, variables=x.variables)


@word("hashed")
def _hashed(node: ast.Call, ctx: Context) -> Factor:
    given = arguments(node, "x levels", ctx)
    count = whole(given.get("levels"), "levels", None, 2, ctx)
    name = variable_name(given["x"], ctx)
    variable = None if name is None else ctx.schema[name]
    if name is None or not isinstance(variable, (Levels, Text)):
        raise ctx.fail(
            "hashed() takes a text variable; for a number use cut(x, breaks=[...])",
        )
    if isinstance(variable, Text):

        def codes(env: Env) -> Array:
            h = env.code(name)
            return np.where(h < 0, -1, h % count).astype(np.int32)

    else:
        table = np.array([*(hash_text(v) % count for v in variable.levels), -1], dtype=np.int32)

        def codes(env: Env) -> Array:
            return table[env.code(name)]

    return Cat(tuple(range(count)), codes, variables=frozenset([name]))


@word("Q")
def _quoted(node: ast.Call, ctx: Context) -> Factor:
    given = arguments(node, "x", ctx)
    name = literal(given["x"])
    if not isinstance(name, str) or name not in ctx.schema:
        raise refused_name(str(name), ctx)
    return compile_factor(ast.Name(id="_q_"), replace(ctx, names={**ctx.names, "_q_": name}))


@word("i")
def _event_study(node: ast.Call, ctx: Context) -> Factor:
    """``i(year, treat, ref=2000)``: a dummy of every level but ``ref`` times a number (fixest)."""
    given = arguments(node, "x by ref levels", ctx)
    cat = _source(given["x"], _levels(given.get("levels"), ctx), node, ctx)
    ref = cat.levels[0] if "ref" not in given else literal(given["ref"])
    if ref not in cat.levels:
        close = did_you_mean(str(ref), map(str, cat.levels))
        raise ctx.fail(f"i(): ref={ref!r} is not a level.{close} Levels: {list(cat.levels)!r}")
    codes = [k for k, level in enumerate(cat.levels) if level != ref]
    by = _multiplier(given["by"], ctx) if "by" in given else None
    interval = (1.0, 1.0) if by is None else by.interval

    def values(env: Env) -> Array:
        code = np.atleast_1d(cat.evaluate(env))
        times = np.ones(code.shape) if by is None else by.evaluate(env) + np.zeros(code.shape)
        times = np.where(code < 0, np.nan, times)
        return np.stack([np.where(code == k, times, 0.0 * times) for k in codes])

    top = None if interval is None else max(abs(interval[0]), abs(interval[1]))
    box = None if interval is None else (min(interval[0], 0.0), max(interval[1], 0.0))
    fields = tuple(cat.levels[k] for k in codes)
    norms = {"l1": top, "l2": top, "linf": top}  # one of them is not 0
    variables = cat.variables | (by.variables if by is not None else frozenset())
    return Basis(fields, (box,) * len(codes), values, norms, variables)


def _multiplier(node: ast.expr, ctx: Context) -> Node:
    """Return what dummies are multiplied by: a number, 0/1, or the second of two levels."""
    factor = compile_factor(node, ctx)
    if isinstance(factor, Node):
        return factor
    if not isinstance(factor, Cat) or len(factor.levels) != 2:
        raise ctx.fail(
            f"i(): {pretty(node, ctx)} is no number and has not two levels",
            "Say which level is treated: i(year, group == 'treated', ref=...)",
        )
    table = np.array([0.0, 1.0, np.nan])
    return Node((0.0, 1.0), lambda env: table[factor.evaluate(env)], factor.variables)
