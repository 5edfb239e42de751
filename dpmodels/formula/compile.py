"""From the text of one factor to a node: ``ast.parse`` and an allow-list. Nothing is evaluated.

The walk below handles the grammar of expressions (numbers, names, arithmetic, comparisons);
calls go through the words of :mod:`dpmodels.formula.syntax`. What is not on the list is refused
with a correction.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dpmodels.errors import did_you_mean
from dpmodels.formula import functions as iv
from dpmodels.formula.functions import REGISTERED
from dpmodels.formula.nodes import Array, Cat, Env, Factor, Node, constant
from dpmodels.formula.refuse import refused_name, refused_node
from dpmodels.formula.schema import Schema
from dpmodels.formula.syntax import Context, literal, overflow, pretty
from dpmodels.variables import Levels, Text


def variable_name(node: ast.expr, ctx: Context) -> str | None:
    """Return the schema variable a bare name stands for, or ``None`` if it is not a bare name."""
    if not isinstance(node, ast.Name):
        return None
    name = ctx.names.get(node.id, node.id)
    if name not in ctx.schema:
        raise refused_name(name, ctx)
    return name


# -- numbers -------------------------------------------------------------------------------


def compile_factor(node: ast.expr, ctx: Context) -> Factor:
    """Compile a whole factor: a number, a basis or a category."""
    if isinstance(node, ast.Name):
        name = variable_name(node, ctx)
        assert name is not None
        variable = ctx.schema[name]
        if isinstance(variable, Levels):
            return variable_cat(name, variable)
    if isinstance(node, ast.Call):
        return ctx.call(node, ctx)
    return compile_scalar(node, ctx)


def variable_cat(name: str, variable: Levels) -> Cat:
    """Return the factor of a declared variable, treatment coded."""
    return Cat(variable.levels, lambda env: env.code(name), variables=frozenset([name]))


def compile_scalar(node: ast.expr, ctx: Context) -> Node:
    """Compile an expression that must be one number per row."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return constant(float(node.value))
        if isinstance(node.value, (int, float)) and math.isfinite(node.value):
            return constant(node.value)
        raise ctx.fail(f"{pretty(node, ctx)} is not a finite number")
    if isinstance(node, ast.Name):
        return _variable(node, ctx)
    if isinstance(node, ast.UnaryOp):
        return _unary(node, ctx)
    if isinstance(node, ast.BinOp):
        return _binary(node, ctx)
    if isinstance(node, ast.Compare):
        return _compare(node, ctx)
    if isinstance(node, ast.BoolOp):
        parts = [compile_scalar(v, ctx) for v in node.values]
        out = parts[0]
        for part in parts[1:]:
            out = _logical(out, part, isinstance(node.op, ast.And), ctx)
        return out
    if isinstance(node, ast.Call):
        value = ctx.call(node, ctx)
        if isinstance(value, Node):
            return value
        raise ctx.fail(
            f"{pretty(node, ctx)} gives several columns or a category, and cannot be used inside "
            "an expression. Write it as a term of its own"
        )
    raise refused_node(node, ctx)


def _variable(node: ast.Name, ctx: Context) -> Node:
    name = variable_name(node, ctx)
    assert name is not None
    variable = ctx.schema[name]
    if isinstance(variable, (Levels, Text)):
        raise ctx.fail(
            f"{name!r} is declared {type(variable).__name__} and has no numeric value.",
            f"Compare it with a level ({name} == {_first(variable)!r}), or use it as a term",
        )
    return Node(variable.interval, lambda env: env.number(name), frozenset([name]), raw=name)


def _first(variable: Levels | Text) -> Any:
    return variable.levels[0] if isinstance(variable, Levels) else "level"


def _unary(node: ast.UnaryOp, ctx: Context) -> Node:
    a = compile_scalar(node.operand, ctx)
    if isinstance(node.op, ast.UAdd):
        return a
    if isinstance(node.op, ast.USub):
        if a.constant is not None:
            return constant(-a.constant)
        return Node(iv.negate(a.interval), lambda env: -a.evaluate(env), a.variables)
    if a.boolean:  # not, ~
        return Node((0.0, 1.0), lambda env: 1.0 - a.evaluate(env), a.variables, boolean=True)
    raise ctx.fail(f"{pretty(node, ctx)}: 'not' and '~' need a comparison, for example ~(x > 3)")


_ARITHMETIC: dict[type, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], iv.Interval]]] = {
    ast.Add: (operator.add, iv.add),
    ast.Sub: (operator.sub, iv.subtract),
    ast.Mult: (operator.mul, iv.multiply),
}


def _binary(node: ast.BinOp, ctx: Context) -> Node:
    if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        a, b = compile_scalar(node.left, ctx), compile_scalar(node.right, ctx)
        return _logical(a, b, isinstance(node.op, ast.BitAnd), ctx)
    if isinstance(node.op, ast.Pow):
        return _power(node, ctx)
    if isinstance(node.op, ast.Div):
        return _quotient(node, ctx)
    if type(node.op) not in _ARITHMETIC:
        raise ctx.fail(
            f"the operator of {pretty(node, ctx)} is not part of the formula language",
            "Use + - * / and powers with a constant exponent",
        )
    values, image = _ARITHMETIC[type(node.op)]
    a, b = compile_scalar(node.left, ctx), compile_scalar(node.right, ctx)
    return combine(values, image(a.interval, b.interval), a, b, node, ctx)


def combine(
    values: Callable[[Any, Any], Any],
    interval: iv.Interval,
    a: Node,
    b: Node,
    node: ast.AST,
    ctx: Context,
) -> Node:
    """Return the node of an elementwise function of two numbers."""
    if interval is None and a.interval is not None and b.interval is not None:
        raise overflow(node, ctx)
    if a.constant is not None and b.constant is not None:
        return constant(float(values(a.constant, b.constant)))
    return Node(
        interval,
        lambda env: values(a.evaluate(env), b.evaluate(env)),
        a.variables | b.variables,
    )


def _quotient(node: ast.BinOp, ctx: Context) -> Node:
    a, b = compile_scalar(node.left, ctx), compile_scalar(node.right, ctx)
    d = b.interval
    if d is not None and d[0] <= 0 <= d[1]:
        raise ctx.fail(
            f"the denominator {pretty(node.right, ctx)} has range {ctx.range_of(d)}, which "
            "contains 0",
            "Keep it away from 0: declare a range that excludes 0, or write "
            f"{pretty(node.left, ctx)} / clip({pretty(node.right, ctx)}, 0.1, {max(d[1], 1):g})",
        )
    interval = None if d is None else iv.divide(a.interval, d)

    def values(x: Array, y: Array) -> Array:
        return x / np.where(y == 0, np.nan, y) if d is None else x / y

    return combine(values, interval, a, b, node, ctx)


def _power(node: ast.BinOp, ctx: Context) -> Node:
    a, e = compile_scalar(node.left, ctx), compile_scalar(node.right, ctx)
    k = e.constant
    if k is None:
        raise ctx.fail(
            f"the exponent of {pretty(node, ctx)} is not a constant",
            "Use a constant exponent, as in x**2, or exp(b * log(x))",
        )
    whole = k == int(k)
    natural = whole and k >= 0
    if a.interval is not None and not natural:
        low = a.interval[0]
        if low < 0 or (low == 0 and k < 0):
            raise ctx.fail(
                f"{pretty(node, ctx)} needs a positive base; {pretty(node.left, ctx)} has range "
                f"{ctx.range_of(a.interval)}",
                "Declare a positive range, or use an integer exponent >= 0",
            )
    interval = iv.power(a.interval, k)
    if interval is None and a.interval is not None:
        raise overflow(node, ctx)
    if a.constant is not None:
        return constant(float(a.constant**k))
    exponent = int(k) if whole else k

    def values(env: Env) -> Array:
        x = a.evaluate(env)
        if k == 0:
            return np.where(np.isnan(x), np.nan, 1.0)
        if natural:
            return x * x if k == 2 else x**exponent
        safe = x > 0 if k < 0 else x >= 0
        return np.where(safe, np.where(safe, x, 1.0) ** exponent, np.nan)

    return Node(interval, values, a.variables)


# -- comparisons ---------------------------------------------------------------------------

_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _compare(node: ast.Compare, ctx: Context) -> Node:
    out: Node | None = None
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        part = _level_test(left, op, right, ctx) or _number_test(left, op, right, node, ctx)
        out = part if out is None else _logical(out, part, True, ctx)
        left = right
    assert out is not None
    return out


def _number_test(
    left: ast.expr, op: ast.cmpop, right: ast.expr, node: ast.AST, ctx: Context
) -> Node:
    if type(op) not in _COMPARE:
        raise ctx.fail(
            f"the comparison in {pretty(node, ctx)} is not part of the formula language",
            "Use < <= > >= == != between numbers",
        )
    test = _COMPARE[type(op)]
    a, b = compile_scalar(left, ctx), compile_scalar(right, ctx)

    def values(env: Env) -> Array:
        x, y = a.evaluate(env), b.evaluate(env)
        return np.where(np.isnan(x) | np.isnan(y), np.nan, test(x, y))

    return Node((0.0, 1.0), values, a.variables | b.variables, boolean=True)


def _level_test(left: ast.expr, op: ast.cmpop, right: ast.expr, ctx: Context) -> Node | None:
    """``region == "north"``, ``region != "north"``, ``region in ["north", "south"]``."""
    name = variable_name(left, ctx) if isinstance(left, ast.Name) else None
    variable = ctx.schema[name] if name is not None else None
    if name is None or not isinstance(variable, Levels):
        return None
    value = literal(right)
    wanted = value if isinstance(op, (ast.In, ast.NotIn)) and isinstance(value, list) else [value]
    if not isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) or value is ...:
        raise ctx.fail(
            f"a category can be compared with == != or in, for example {name} == "
            f"{variable.levels[0]!r}",
            *([_BRACKETS] if _joined(right) else []),
        )
    for level in wanted:
        if level not in variable.levels:
            close = did_you_mean(str(level), [str(x) for x in variable.levels])
            raise ctx.fail(
                f"{level!r} is not a declared level of {name!r}.{close} "
                f"Levels: {list(variable.levels)!r}"
            )
    positive = isinstance(op, (ast.Eq, ast.In))
    table = np.array([float((x in wanted) == positive) for x in variable.levels] + [np.nan])
    return Node((0.0, 1.0), lambda env: table[env.code(name)], frozenset([name]), boolean=True)


_BRACKETS = (
    "& and | bind tighter than comparisons: write (x == 'a') & (z > 1), or x == 'a' and z > 1"
)


def _joined(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr))


def _logical(a: Node, b: Node, both: bool, ctx: Context) -> Node:
    if not (a.boolean and b.boolean):
        raise ctx.fail("and, or, & and | join comparisons", _BRACKETS)
    pick = np.minimum if both else np.maximum  # NaN (missing) wins in either
    return Node(
        (0.0, 1.0),
        lambda env: pick(a.evaluate(env), b.evaluate(env)),
        a.variables | b.variables,
        boolean=True,
    )


# -- Designs that were compiled lately, by the text of what they were compiled from


#: Designs of each kind that are kept, and characters of a schema beyond which none is.
_MOST, _LONGEST = 16, 100_000

Build = TypeVar("Build", bound=Callable[..., Any])


def remembered(build: Build) -> Build:
    """Return the function with a memory of its last designs.

    Notes
    -----
    **Privacy.** The key is the text of public arguments (``repr`` tells 1, 1.0 and True apart, as
    equality does not), and the functions that were registered. No row has been read when a design
    is made.
    """
    kept: dict[Any, Any] = {}

    @functools.wraps(build)
    def found(formula: Any, schema: Any, **options: Any) -> Any:
        text = repr(schema) if isinstance(schema, Schema) else ""
        if not isinstance(formula, str) or not 0 < len(text) <= _LONGEST:
            return build(formula, schema, **options)
        key = (formula, text, repr(sorted(options.items())), tuple(REGISTERED.values()))
        design = kept.pop(key, None)
        if design is None:
            design = build(formula, schema, **options)
        kept[key] = design  # the last one used stands last
        for oldest in [*kept][:-_MOST]:
            kept.pop(oldest, None)
        return design

    return found  # type: ignore[return-value]
