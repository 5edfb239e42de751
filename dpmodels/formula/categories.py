"""Calls: ``C()`` with its contrasts, ``cut()``, ``hashed()``, ``Q()``, ``i()``, ``I()``."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from dpmodels.errors import DPModelsError, did_you_mean
from dpmodels.formula import parser as fx
from dpmodels.formula import words as iv
from dpmodels.formula.compile import (
    arguments,
    combine,
    compile_factor,
    compile_scalar,
    numbers,
    public_integer,
    too_large,
    variable_cat,
    variable_name,
)
from dpmodels.formula.refuse import need_levels, need_range, refused_call, refused_name
from dpmodels.formula.spelled import hash_text
from dpmodels.formula.words import (
    CALLS,
    FUNCTIONS,
    LARGEST_EXACT,
    REGISTERED,
    Basis,
    Cat,
    Context,
    Env,
    Factor,
    Node,
    Rowwise,
    call_name,
    constant,
    literal,
    overflow,
    pretty,
    row_of,
    word,
)
from dpmodels.opaque import Rows, clip, of_code, of_user, stack, where
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
    """Compile ``C(x, contrasts, levels=)`` to a factor."""
    arguments_by_name = arguments(node, "x contrasts levels", ctx)
    levels = _levels(arguments_by_name.get("levels"), ctx)
    cat = _source(arguments_by_name["x"], levels, ctx)
    if "contrasts" not in arguments_by_name or literal(arguments_by_name["contrasts"]) is None:
        return cat
    contrast = _contrast(arguments_by_name["contrasts"], cat.levels, ctx)
    problem = ""
    try:  # public: the levels and the contrast
        fx.coding(contrast, cat.levels, True)
    except DPModelsError as error:
        problem = str(error)
    if problem:
        raise ctx.fail(problem)
    return Cat(cat.levels, cat.evaluate, contrast, cat.variables)


def _levels(node: ast.expr | None, ctx: Context) -> tuple[Any, ...] | None:
    """Return the levels that a formula lists, or None if it lists none."""
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


def _source(inner: ast.expr, levels: tuple[Any, ...] | None, ctx: Context) -> Cat:
    """Return the categorical source: a factor, numbers with listed levels, or a comparison."""
    if isinstance(inner, ast.Name):
        name = variable_name(inner, ctx)
        assert name is not None
        variable = ctx.schema[name]
        if isinstance(variable, Levels):
            cat = variable_cat(name, variable)
            return cat if levels is None else _relevel(name, cat, levels, ctx)
        if isinstance(variable, Text) or (levels is None and not isinstance(variable, Binary)):
            raise need_levels(name, isinstance(variable, Real), variable.interval, ctx)
        _check_exact(levels or (), inner, ctx)
        return _numeric_levels(compile_scalar(inner, ctx), levels or (0, 1))
    value = compile_factor(inner, ctx)
    if isinstance(value, Cat) and levels is None:
        return value
    if isinstance(value, Node) and (value.boolean or levels is not None):
        _check_exact(levels or (), inner, ctx)
        return _numeric_levels(value, levels or (0, 1))
    raise ctx.refuse(
        f"the levels of {pretty(inner, ctx)} are not declared",
        f"Cut it at public points: cut({pretty(inner, ctx)}, breaks=[...])",
    )


def _check_exact(levels: tuple[Any, ...], inner: ast.expr, ctx: Context) -> None:
    for level in levels:
        if not isinstance(level, str) and abs(level) >= LARGEST_EXACT:
            raise ctx.fail(*too_large(level, pretty(inner, ctx)))


def _numeric_levels(x: Node, levels: tuple[Any, ...]) -> Cat:
    """Return the factor of a numeric variable with listed levels; other values get code -1."""
    values = [float(v) if not isinstance(v, str) else np.nan for v in levels]

    def codes(env: Env) -> Rows:
        cells = row_of(x, env)
        out: Any = -1
        for code, level in enumerate(values):
            out = where(cells == level, code, out)
        return out  # type: ignore[no-any-return]

    return Cat(levels, codes, variables=x.variables)


def _relevel(name: str, cat: Cat, levels: tuple[Any, ...], ctx: Context) -> Cat:
    """Return a factor with its levels in a new order, or fewer of them."""
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
    return Cat(levels, lambda env: of_code(table, cat.evaluate(env)), variables=cat.variables)


# -- contrasts -----------------------------------------------------------------------------


def _contrast(node: ast.expr, levels: tuple[Any, ...], ctx: Context) -> Any:
    """Return the contrast of ``contr.sum``, ``Treatment(reference="b")``, a matrix or a dict."""
    call = node if isinstance(node, ast.Call) else None
    data = isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Constant))
    head = "" if data else call_name(call.func if call else node)
    name = head.split(".", 1)[1] if head.startswith("contr.") else _PATSY.get(head, "")
    name = "sas" if name == "SAS" else name
    if name in _BY_NAME:
        args = [] if call is None else [_plain(a, ctx) for a in call.args]
        kwargs = {} if call is None else {str(k.arg): _plain(k.value, ctx) for k in call.keywords}
        if "reference" in kwargs:
            kwargs["base"] = kwargs.pop("reference")
        base = args[0] if args else kwargs.get("base")
        if name in ("treatment", "sas") and base is not None and base not in levels:
            close = did_you_mean(str(base), map(str, levels))
            raise ctx.fail(f"the base {base!r} is not a level.{close} Levels: {list(levels)!r}")
        problem = ""
        try:
            return fx.contrast(name, *args, **kwargs)
        except DPModelsError as error:
            problem = str(error)
        raise ctx.fail(problem)
    custom = _custom(node, levels, ctx)
    if custom is not None:
        return custom
    contrasts = [f"contr.{x}" for x in sorted(_BY_NAME)]
    raise ctx.fail(
        f"{pretty(node, ctx)} is not a contrast.{did_you_mean(head, contrasts)} "
        f"Contrasts: {', '.join(contrasts)}"
    )


def _plain(node: ast.expr, ctx: Context) -> Any:
    """Return the value of a constant in a formula, or refuse anything else."""
    value = literal(node)
    if value is ...:
        raise ctx.fail(f"{pretty(node, ctx)} must be a constant")
    return value


def _custom(node: ast.expr, levels: tuple[Any, ...], ctx: Context) -> Any:
    """Return a contrast that the formula gives as a matrix or as named columns."""
    rows = literal(node)
    if isinstance(node, ast.Dict):
        columns = [_plain(v, ctx) for v in node.values]
        if any(len(c) != len(levels) for c in columns if isinstance(c, list)):
            raise ctx.fail(f"each column of a contrast needs {len(levels)} numbers, one a level")
        return fx.custom_contrast(
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
    """Compile ``cut(x, breaks=[...])`` to a factor of public intervals."""
    bound = arguments(node, "x breaks labels", ctx)
    x = compile_scalar(bound["x"], ctx)
    if x.interval is None:
        raise need_range(bound["x"], "cut", ctx)
    lo, hi = x.interval
    even = [round(v, 4) for v in np.linspace(lo, hi, 4)[1:-1].tolist()]
    if "breaks" not in bound or isinstance(literal(bound["breaks"]), int):
        raise ctx.refuse(
            "cut() without listed breaks would place them by the private minimum and maximum",
            f"Fix, on the declared range [{lo:g}, {hi:g}]:",
            f"    cut({pretty(bound['x'], ctx)}, breaks={even})",
        )
    breaks = numbers(bound["breaks"], "breaks", ctx)
    inside = [b for b in breaks if lo < b < hi]
    if not inside or any(b < lo or b > hi for b in breaks):
        raise ctx.fail(
            f"breaks {breaks} must lie in the declared range [{lo:g}, {hi:g}], at least one "
            "strictly inside",
            f"For example cut({pretty(bound['x'], ctx)}, breaks={even})",
        )
    edges = [lo, *inside, hi]
    labels = [
        f"{'[' if i == 0 else '('}{a:g}, {b:g}]"
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    if "labels" in bound:
        typed = _levels(bound["labels"], ctx)
        if typed is None or len(typed) != len(labels):
            raise ctx.fail(f"cut() needs {len(labels)} labels, one for each of {labels}")
        labels = list(typed)
    points = np.array(inside)

    def codes(env: Env) -> Rows:
        cells = row_of(x, env)
        return where(np.isnan(cells), -1, np.searchsorted(points, cells, "left"))

    return Cat(tuple(labels), codes, variables=x.variables)


@word("hashed")
def _hashed(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``hashed(x, levels=k)``: the factor of a text by its hash."""
    bound = arguments(node, "x levels", ctx)
    count = public_integer(bound.get("levels"), "levels", None, 2, ctx)
    name = variable_name(bound["x"], ctx)
    variable = None if name is None else ctx.schema[name]
    if name is None or not isinstance(variable, (Levels, Text)):
        raise ctx.fail(
            "hashed() needs a text variable; for a number use cut(x, breaks=[...])",
        )
    if isinstance(variable, Text):

        def codes(env: Env) -> Rows:
            h = env.code(name)
            return where(h < 0, -1, h % count)

    else:
        table = np.array([*(hash_text(v) % count for v in variable.levels), -1], dtype=np.int32)

        def codes(env: Env) -> Rows:
            return of_code(table, env.code(name))

    return Cat(tuple(range(count)), codes, variables=frozenset([name]))


@word("Q")
def _quoted(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``Q("name")``: the variable of any name."""
    bound = arguments(node, "x", ctx)
    name = literal(bound["x"])
    if not isinstance(name, str) or name not in ctx.schema:
        raise refused_name(str(name), ctx)
    return compile_factor(ast.Name(id="_q_"), replace(ctx, names={**ctx.names, "_q_": name}))


@word("i")
def _event_study(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``i(year, treat, ref=2000)``: dummies of all other levels times a number (fixest)."""
    bound = arguments(node, "x by ref levels", ctx)
    cat = _source(bound["x"], _levels(bound.get("levels"), ctx), ctx)
    ref = cat.levels[0] if "ref" not in bound else literal(bound["ref"])
    if ref not in cat.levels:
        close = did_you_mean(str(ref), map(str, cat.levels))
        raise ctx.fail(f"i(): ref={ref!r} is not a level.{close} Levels: {list(cat.levels)!r}")
    codes = [k for k, level in enumerate(cat.levels) if level != ref]
    by = _multiplier(bound["by"], ctx) if "by" in bound else None
    interval = (1.0, 1.0) if by is None else by.interval

    def values(env: Env) -> Rows:
        code = cat.evaluate(env)
        times = where(code < 0, np.nan, 1.0 if by is None else by.evaluate(env))
        return stack(*(where(code == k, times, 0.0 * times) for k in codes))

    top = None if interval is None else max(abs(interval[0]), abs(interval[1]))
    box = None if interval is None else (min(interval[0], 0.0), max(interval[1], 0.0))
    fields = tuple(cat.levels[k] for k in codes)
    norms = {"l1": top, "l2": top, "linf": top}  # one of them is not 0
    variables = cat.variables | (by.variables if by is not None else frozenset())
    return Basis(fields, (box,) * len(codes), values, norms, variables)


def _multiplier(node: ast.expr, ctx: Context) -> Node:
    """Return the factor of dummies: a number, 0/1, or the second of two levels."""
    factor = compile_factor(node, ctx)
    if isinstance(factor, Node):
        return factor
    if not isinstance(factor, Cat) or len(factor.levels) != 2:
        raise ctx.fail(
            f"i(): {pretty(node, ctx)} is neither a number nor a variable with two levels",
            "Say which level is treated: i(year, group == 'treated', ref=...)",
        )
    table = np.array([0.0, 1.0, np.nan])
    return Node((0.0, 1.0), lambda env: of_code(table, factor.evaluate(env)), factor.variables)


# -- Words that give one number: ``I()``, elementwise functions, ``minimum()``, ``clip()``.


def only_positional(node: ast.Call, name: str, count: int, ctx: Context) -> list[ast.expr]:
    """Return the arguments of a call that takes exactly ``count`` positional ones."""
    if node.keywords or len(node.args) != count:
        raise ctx.fail(f"{name}() needs {count} argument{'s' if count > 1 else ''}")
    return node.args


def number(node: ast.expr, what: str, ctx: Context) -> float:
    """Return a public constant: a number, or arithmetic on numbers."""
    value = compile_scalar(node, ctx).constant
    if value is None:
        raise ctx.fail(f"{what} must be a constant, got {pretty(node, ctx)}")
    return value


@word("I")
def _identity(node: ast.Call, ctx: Context) -> Factor:
    return compile_scalar(only_positional(node, "I", 1, ctx)[0], ctx)


def elementwise(node: ast.Call, name: str, ctx: Context) -> Node:
    """Compile a function of the allow-list, with the range it has on the declared one."""
    f = FUNCTIONS[name]
    inner = only_positional(node, name, 1, ctx)[0]
    a = compile_scalar(inner, ctx)
    if a.interval is None:
        interval = f.range
    else:
        if f.domain is not None:
            low, strict = f.domain
            if a.interval[0] < low or (strict and a.interval[0] == low):
                need = f"> {low:g}" if strict else f">= {low:g}"
                fix = "log1p" if name.startswith("log") and a.interval[0] == 0 else ""
                near, top = low + 0.1, max(a.interval[1], low + 1)
                raise ctx.fail(
                    f"{name}() needs an argument {need}; {pretty(inner, ctx)} has range "
                    f"{ctx.range_of(a.interval)}",
                    f"Use log1p({pretty(inner, ctx)}), or say which values count as the smallest: "
                    f"{name}(clip({pretty(inner, ctx)}, {near:g}, {top:g})). If none is 0, declare "
                    f"a lower bound above 0"
                    if fix
                    else "Declare a range inside the domain, or write "
                    f"{name}(clip({pretty(inner, ctx)}, {near:g}, {top:g}))",
                )
        interval = f.image(a.interval)
        if interval is None:
            raise overflow(node, ctx)
    values = f.values
    if a.constant is not None:
        return constant(float(values(np.float64(a.constant))))
    return Node(interval, lambda env: values(a.evaluate(env)), a.variables)


def registered(node: ast.Call, f: Rowwise, ctx: Context) -> Node:
    """Compile a user-supplied function, which is called row by row if necessary."""
    if node.keywords or not node.args:
        raise ctx.fail(f"{f.name}() accepts positional arguments only")
    parts = [compile_scalar(a, ctx) for a in node.args]
    interval = f.image(tuple(p.interval for p in parts))

    def values(env: Env) -> Rows:
        out = of_user(f.func, *(row_of(p, env) for p in parts))
        return out if interval is None else clip(out, *interval)

    return Node(interval, values, frozenset().union(*(p.variables for p in parts)))


@word("minimum")
@word("maximum")
def _extreme(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``minimum(a, b)`` or ``maximum(a, b)``, row by row."""
    name = call_name(node.func)
    values, pick = {"minimum": (np.minimum, min), "maximum": (np.maximum, max)}[name]
    first, second = only_positional(node, name, 2, ctx)
    a, b = compile_scalar(first, ctx), compile_scalar(second, ctx)
    interval: iv.Interval = None
    if a.interval is not None and b.interval is not None:
        interval = (pick(a.interval[0], b.interval[0]), pick(a.interval[1], b.interval[1]))
    return combine(values, interval, a, b, node, ctx)


@word("clip")
def _clip(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``clip(x, a, b)`` with constant bounds."""
    x, lo, hi = only_positional(node, "clip", 3, ctx)
    a, low, high = compile_scalar(x, ctx), number(lo, "clip: a", ctx), number(hi, "clip: b", ctx)
    if not low <= high:
        raise ctx.fail(f"clip(x, a, b) needs a <= b, got {low:g} and {high:g}")
    interval: iv.Interval = (low, high)
    if a.interval is not None:
        interval = (min(max(a.interval[0], low), high), min(max(a.interval[1], low), high))
    return Node(interval, lambda env: np.clip(a.evaluate(env), low, high), a.variables)


@word("offset")
def _offset(node: ast.Call, ctx: Context) -> Factor:
    """Refuse ``offset()`` inside another expression."""
    raise ctx.fail(
        "offset() is a separate term on the right-hand side: y ~ x + offset(z); it cannot be "
        "inside another expression or an interaction"
    )


# -- The whole language of formulas: a call is one of its words, or refused


def compile_call(node: ast.Call, ctx: Context) -> Factor:
    """Compile a call, or refuse it."""
    name = call_name(node.func)
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        raise ctx.refuse(f"{pretty(node, ctx)}: starred arguments are not allowed")
    if name in CALLS:
        return CALLS[name](node, ctx)
    if name in FUNCTIONS:
        return elementwise(node, name, ctx)
    if name in REGISTERED:
        return registered(node, REGISTERED[name], ctx)
    raise refused_call(node, name, ctx)
