"""From the text of one factor to nodes and bases (splines, polynomials); nothing is evaluated.

The walk below handles the grammar of expressions (numbers, names, arithmetic, comparisons);
calls go through the words of :mod:`dpmodels.formula.words`. What is not on the list is refused
with a correction.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import did_you_mean
from dpmodels.formula import words as iv
from dpmodels.formula.refuse import (
    need_range,
    refused_name,
    refused_node,
    refused_private,
    refused_state,
)
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import (
    LARGEST_EXACT,
    MOST_COLUMNS,
    REGISTERED,
    Basis,
    Cat,
    Context,
    Env,
    Factor,
    Node,
    call_name,
    constant,
    literal,
    overflow,
    pretty,
    row_of,
    word,
    written_name,
)
from dpmodels.opaque import Rows, clip, entry, of_code, only_where, put_at, stack
from dpmodels.variables import Date, Levels, Text


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
        return _joined_tests(parts, isinstance(node.op, ast.And), ctx)
    if isinstance(node, ast.Call):
        value = ctx.call(node, ctx)
        if isinstance(value, Node):
            return value
        raise ctx.fail(
            f"{pretty(node, ctx)} gives several columns or a category, and cannot be used inside "
            "an expression. Write it as a separate term"
        )
    raise refused_node(node, ctx)


def _variable(node: ast.Name, ctx: Context) -> Node:
    """Compile the name of a numeric variable."""
    name = variable_name(node, ctx)
    assert name is not None
    variable = ctx.schema[name]
    if isinstance(variable, (Levels, Text)):
        level = variable.levels[0] if isinstance(variable, Levels) else "level"
        raise ctx.fail(
            f"{name!r} is declared {type(variable).__name__} and has no numeric value.",
            f"Compare it with a level ({written_name(name)} == {level!r}), or use it as a term",
        )
    return Node(variable.interval, lambda env: env.number(name), frozenset([name]), raw=name)


def _unary(node: ast.UnaryOp, ctx: Context) -> Node:
    """Compile ``+x``, ``-x`` or ``not x``."""
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
    """Compile an operation of two expressions."""
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
    if not isinstance(node.op, ast.Mult):
        _check_dates(a, b, node, ctx)
    return combine(values, image(a.interval, b.interval), a, b, node, ctx)


def _check_dates(a: Node, b: Node, node: ast.AST, ctx: Context) -> None:
    """Refuse to take together dates that count from different days, or in different units."""
    dates = {name: v for name in sorted(a.variables | b.variables)
             if isinstance(v := ctx.schema[name], Date)}  # fmt: skip
    if len({(v.lower, v.unit) for v in dates.values()}) > 1:
        counted = "; ".join(f"{name}: {v.unit} since {v.lower}" for name, v in dates.items())
        raise ctx.fail(
            f"{pretty(node, ctx)} combines dates with different first dates or units ({counted})",
            "Declare them with the same first date and the same unit",
        )


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
    """Compile ``a / b``; a denominator whose range contains 0 is refused."""
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

    def values(x: Any, y: Any) -> Any:
        return x / np.where(y == 0, np.nan, y) if d is None else x / y

    return combine(values, interval, a, b, node, ctx)


def _power(node: ast.BinOp, ctx: Context) -> Node:
    """Compile ``x ** k`` with a constant exponent."""
    a, e = compile_scalar(node.left, ctx), compile_scalar(node.right, ctx)
    k = e.constant
    if k is None:
        raise ctx.fail(
            f"the exponent of {pretty(node, ctx)} is not a constant",
            "Use a constant exponent, as in x**2, or exp(b * log(x))",
        )
    is_integer = k == int(k)
    natural = is_integer and k >= 0
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
    exponent = int(k) if is_integer else k

    def values(env: Env) -> Any:
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
    """Compile a comparison, or a chain of them, to 0 or 1."""
    left = node.left
    parts = []
    for op, right in zip(node.ops, node.comparators, strict=True):
        test = _level_test(left, op, right, ctx) or _number_test(left, op, right, node, ctx)
        parts.append(test)
        left = right
    return _joined_tests(parts, True, ctx)


def _joined_tests(parts: list[Node], both: bool, ctx: Context) -> Node:
    """Return all tests joined by and (or by or), in pairs: a thousand are ten deep."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [p[0] if len(p) == 1 else _logical(p[0], p[1], both, ctx) for p in pairs]
    return parts[0]


def _number_test(
    left: ast.expr, op: ast.cmpop, right: ast.expr, node: ast.AST, ctx: Context
) -> Node:
    """Compile the comparison of two numbers."""
    if type(op) not in _COMPARE:
        raise ctx.fail(
            f"the comparison in {pretty(node, ctx)} is not part of the formula language",
            "Use < <= > >= == != between numbers",
        )
    _check_exact(left, op, right, ctx)
    test = _COMPARE[type(op)]
    a, b = compile_scalar(left, ctx), compile_scalar(right, ctx)
    _check_dates(a, b, node, ctx)

    def values(env: Env) -> Any:
        x, y = a.evaluate(env), b.evaluate(env)
        return np.where(np.isnan(x) | np.isnan(y), np.nan, test(x, y))

    return Node((0.0, 1.0), values, a.variables | b.variables, boolean=True)


def _check_exact(left: ast.expr, op: ast.cmpop, right: ast.expr, ctx: Context) -> None:
    """Refuse comparisons with numbers so large that floats merge neighbouring whole numbers."""
    for side, other in ((left, right), (right, left)):
        value = literal(side)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        equal = isinstance(op, (ast.Eq, ast.NotEq))
        if abs(value) >= LARGEST_EXACT and (equal or isinstance(value, int)):
            raise ctx.fail(*too_large(value, pretty(other, ctx)))


def too_large(value: float, text: str) -> tuple[str, str]:
    """Return why a number cannot be compared with cells, and what to type instead."""
    return (
        f"{value:.17g} is compared as a number, and from 2^53 = 9007199254740992 on numbers do not "
        "tell neighbouring whole numbers apart",
        f"Declare the codes as levels, which are compared exactly: {text} = dp.Levels([...])",
    )


def conjuncts(tree: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of an expression that must all hold."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        parts = tree.values
    elif isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitAnd):
        parts = [tree.left, tree.right]
    else:
        yield tree
        return
    for part in parts:
        yield from conjuncts(part)


def comparisons(tree: ast.AST, ctx: Context) -> Iterator[tuple[ast.expr, Node, bool]]:
    """Yield comparisons that the declared ranges decide for all rows, or for none."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        for op, left, right in zip(
            node.ops, [node.left, *node.comparators], node.comparators, strict=False
        ):
            if type(op) not in _COMPARE or _level_test(left, op, right, ctx) is not None:
                continue
            x, y = compile_scalar(left, ctx), compile_scalar(right, ctx)
            if x.interval is None or y.interval is None:
                continue
            (low, high), (least, most) = x.interval, y.interval
            if isinstance(op, (ast.Eq, ast.NotEq)):
                ends = {isinstance(op, ast.NotEq)} if high < least or most < low else set()
            else:
                ends = {bool(_COMPARE[type(op)](*pair)) for pair in ((low, most), (high, least))}
            if len(ends) == 1:
                yield left, x, ends.pop()


def _level_test(left: ast.expr, op: ast.cmpop, right: ast.expr, ctx: Context) -> Node | None:
    """Compile ``region == "north"``, ``region != "north"``, ``region in ["north", "south"]``."""
    name = variable_name(left, ctx) if isinstance(left, ast.Name) else None
    variable = ctx.schema[name] if name is not None else None
    if name is None or not isinstance(variable, Levels):
        return None
    value = literal(right)
    levels = value if isinstance(op, (ast.In, ast.NotIn)) and isinstance(value, list) else [value]
    if not isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) or value is ...:
        bitwise = isinstance(right, ast.BinOp) and isinstance(right.op, (ast.BitAnd, ast.BitOr))
        raise ctx.fail(
            f"a category can be compared with == != or in, for example {written_name(name)} == "
            f"{variable.levels[0]!r}",
            *[_BRACKETS] * bitwise,
        )
    for level in levels:
        if level not in variable.levels:
            close = did_you_mean(str(level), [str(x) for x in variable.levels])
            raise ctx.fail(
                f"{level!r} is not a declared level of {name!r}.{close} "
                f"Levels: {list(variable.levels)!r}"
            )
    positive = isinstance(op, (ast.Eq, ast.In))
    table = np.array([float((x in levels) == positive) for x in variable.levels] + [np.nan])
    test = functools.partial(_at_code, table, name)
    return Node((0.0, 1.0), test, frozenset([name]), boolean=True)


def _at_code(table: Any, name: str, env: Env) -> Rows:
    return of_code(table, env.code(name))


_BRACKETS = (
    "& and | bind tighter than comparisons: write (x == 'a') & (z > 1), or x == 'a' and z > 1"
)


def _logical(a: Node, b: Node, both: bool, ctx: Context) -> Node:
    """Compile "and" (both) or "or" of two comparisons; missing if either is."""
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
_MOST_DESIGNS, _LONGEST = 16, 100_000

Build = TypeVar("Build", bound=Callable[..., Any])


def remember_designs(build: Build) -> Build:
    """Return the function with a memory of its last designs.

    **Privacy.** The key is the text of public arguments (``repr`` tells 1, 1.0 and True apart, as
    equality does not), and the functions that were registered. No row has been read when a design
    is made.
    """
    designs: dict[Any, Any] = {}

    @functools.wraps(build)
    def built(formula: Any, schema: Any, **options: Any) -> Any:
        text = repr(schema) if isinstance(schema, Schema) else ""
        if not isinstance(formula, str) or not 0 < len(text) <= _LONGEST:
            return build(formula, schema, **options)
        key = (formula, text, repr(sorted(options.items())), tuple(REGISTERED.values()))
        design = designs.pop(key, None)
        if design is None:
            design = build(formula, schema, **options)
        designs[key] = design  # the most recently used one is last
        for oldest in [*designs][:-_MOST_DESIGNS]:
            designs.pop(oldest, None)
        return design

    return built  # type: ignore[return-value]


# -- Several columns from one number: splines with public knots, polynomials; and ``unit``,
# ``scale``.
#
# B-splines: the recursion of de Boor (1972) on the ``degree + 1`` functions that are not zero at x.
# Legendre polynomials on the declared range: (k+1) P_{k+1} = (2k+1) t P_k - k P_{k-1}, |P_k| <= 1.


def arguments(node: ast.Call, names: str, ctx: Context) -> dict[str, ast.expr]:
    """Bind a call to parameter names; unknown or repeated ones are errors."""
    parameters = names.split()
    called = pretty(node.func, ctx)
    if len(node.args) > len(parameters):
        raise ctx.fail(
            f"{called}() accepts at most {len(parameters)} arguments: {', '.join(parameters)}"
        )
    bound = dict(zip(parameters, node.args, strict=False))
    for k in node.keywords:
        if k.arg not in parameters or k.arg in bound:
            close = did_you_mean(str(k.arg), parameters)
            raise ctx.fail(f"{called}() has no argument {k.arg!r}.{close} It accepts {names}")
        bound[str(k.arg)] = k.value
    if parameters[0] not in bound:
        raise ctx.fail(f"{called}() needs a variable: {called}(x, ...)")
    for value in bound.values():
        refused_private(value, ctx)
    return bound


def constant_of(node: ast.expr | None, what: str, ctx: Context) -> float | None:
    """Return a public number, or ``None`` when the argument is absent or ``None``."""
    if node is None or literal(node) is None:
        return None
    value = compile_scalar(node, ctx).constant
    if value is None:
        raise ctx.refuse(f"{what} must be a public number, got {pretty(node, ctx)}")
    return value


def public_integer(
    node: ast.expr | None, what: str, default: int | None, low: int, ctx: Context
) -> int:
    """Return a public whole number of at least ``low``, no larger than a design is wide."""
    value = default if node is None else literal(node)
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ctx.fail(f"{what} must be a whole number >= {low}, for example {max(low, 3)}")
    if value > MOST_COLUMNS:
        raise ctx.fail(f"{what} must be at most {MOST_COLUMNS}, for example {max(low, 3)}")
    return value


def numbers(node: ast.expr | None, what: str, ctx: Context) -> list[float]:
    """Return a public, strictly increasing list of numbers."""
    if node is None:
        return []
    items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    values = [constant_of(x, what, ctx) for x in items]
    out = [v for v in values if v is not None]
    if len(out) < len(values) or any(b <= a for a, b in itertools.pairwise(out)):
        raise ctx.fail(f"{what} must be numbers in increasing order, for example {what}=[10, 12]")
    return out


#: Inner knots up to which a place among them is found by comparing.
_FEW_KNOTS = 24


# -- splines -------------------------------------------------------------------------------


def _ends(
    node: ast.Call, bound: dict[str, ast.expr], x: Node, name: str, ctx: Context
) -> tuple[float, float]:
    """Return the public ends of a spline: as given, else those of the declared range."""
    lo = constant_of(bound.get("lower_bound"), "lower_bound", ctx)
    hi = constant_of(bound.get("upper_bound"), "upper_bound", ctx)
    if (lo is None or hi is None) and x.interval is None:
        raise need_range(bound["x"], name, ctx)
    lo = x.interval[0] if lo is None and x.interval else lo
    hi = x.interval[1] if hi is None and x.interval else hi
    assert lo is not None and hi is not None
    if not lo < hi:
        raise ctx.fail(f"{name}() needs lower_bound < upper_bound, got {lo:g} and {hi:g}")
    beyond = literal(bound["extrapolation"]) if "extrapolation" in bound else "clip"
    if beyond != "clip":
        raise ctx.fail(
            f"{name}(extrapolation={beyond!r}): values outside the range are always "
            "clipped to it; leave extrapolation out"
        )
    return lo, hi


def _inner(bound: dict[str, ast.expr], lo: float, hi: float, ctx: Context) -> list[float]:
    """Return the public knots inside the range."""
    knots = numbers(bound.get("knots"), "knots", ctx)
    outside = [k for k in knots if not lo < k < hi]
    if outside:
        raise ctx.fail(
            f"knots {[float(k) for k in outside]} lie outside the range ({lo:g}, {hi:g})",
            "Put every knot strictly inside the range: "
            + str([round(v, 4) for v in np.linspace(lo, hi, len(knots) + 2)[1:-1].tolist()]),
        )
    return knots


@word("bs")
def _bs(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``bs(x, knots=[...])``: B-splines with public knots."""
    bound = arguments(
        node, "x df knots degree include_intercept lower_bound upper_bound extrapolation", ctx
    )
    x = compile_scalar(bound["x"], ctx)
    degree = public_integer(bound.get("degree"), "degree", 3, 0, ctx)
    if "df" in bound and literal(bound["df"]) is not None:
        raise refused_state(node, "bs", ctx, x.interval, bound, degree)
    lo, hi = _ends(node, bound, x, "bs", ctx)
    knots = _inner(bound, lo, hi, ctx)
    whole_basis = literal(bound["include_intercept"]) if "include_intercept" in bound else False
    first = 0 if whole_basis is True else 1
    t = np.array([lo] * (degree + 1) + knots + [hi] * (degree + 1))
    count = len(t) - degree - 1
    if count <= first:
        raise ctx.fail("bs() has no columns; use degree >= 1 or give knots")

    def values(env: Env) -> Rows:
        return bspline(row_of(x, env), t, degree)[first:]

    return Basis(
        fields=tuple(range(first, count)),
        intervals=((0.0, 1.0),) * (count - first),
        evaluate=values,
        norms=dict.fromkeys(("l2", "l1", "linf"), 1.0),
        variables=x.variables,
        spans_intercept=first == 0,
    )


@word("ns")
@word("cr")
def _natural(node: ast.Call, ctx: Context) -> Factor:
    """Return a natural cubic spline with one column per knot, 1 there and 0 at other knots.

    ``ns`` leaves out the column of the lower end, as R's does: with an intercept a coefficient is
    then the curve at its knot less that at the lower end. ``cr`` has all, unless the formula has an
    intercept already. Each column is a combination of B-splines, which are not negative and add up
    to 1: so it lies between the least and the largest of its weights, and a row of columns is no
    longer than the longest row of weights.
    """
    name = call_name(node.func)
    bound = arguments(node, "x df knots lower_bound upper_bound extrapolation", ctx)
    x = compile_scalar(bound["x"], ctx)
    if "df" in bound and literal(bound["df"]) is not None:
        raise refused_state(node, name, ctx, x.interval, bound, 0)
    lo, hi = _ends(node, bound, x, name, ctx)
    knots = [lo, *_inner(bound, lo, hi, ctx), hi]
    t = np.array([lo] * 3 + knots + [hi] * 3)
    weights = _cardinal(np.array(knots), t)
    first = 1 if name == "ns" else 0
    used = weights[:, first:]

    def values(env: Env) -> Rows:
        local: Any = bspline(row_of(x, env), t, 3)
        columns = []
        for weights in used.T.tolist():  # cell by cell, in one order
            columns.append(sum(weight * local[i] for i, weight in enumerate(weights)))
        return stack(*columns)

    up = 1.0 + 1e-9  # the rounding of a dozen sums
    low, high = np.minimum(used.min(axis=0), 0.0) * up, np.maximum(used.max(axis=0), 0.0) * up
    return Basis(
        fields=tuple(range(first, len(knots))),
        intervals=tuple(zip(low.tolist(), high.tolist(), strict=True)),
        evaluate=values,
        norms={
            "l2": float(np.sqrt(np.sum(used**2, axis=1)).max()) * up,
            "l1": float(np.abs(used).sum(axis=1).max()) * up,
            "linf": float(np.abs(used).max()) * up,
        },
        variables=x.variables,
        spans_intercept=first == 0,
    )


def _cardinal(knots: Array, t: Array) -> Array:
    """Return the weights on cubic B-splines of natural splines that are 1 at one knot: (m, k).

    The values at the k knots, and second derivatives of zero at both ends: k + 2 equations.
    """
    from scipy.interpolate import BSpline

    count = len(t) - 4
    curved = BSpline(t, np.eye(count), 3).derivative(2)
    width = (t[-1] - t[0]) ** 2  # second derivatives in units of the range
    ends = np.array([curved(knots[0]), curved(knots[-1])]) * width
    at_knots = BSpline.design_matrix(knots, t, 3).toarray()
    system = np.vstack([at_knots, ends])
    right = np.vstack([np.eye(len(knots)), np.zeros((2, len(knots)))])
    return np.asarray(np.linalg.solve(system, right))


def bspline(x: Rows, t: Array, degree: int) -> Rows:
    """Return the B-spline basis on padded knots ``t`` at x, clipped to the range."""
    count = len(t) - degree - 1
    present, x = x == x, clip(x, t[0], t[-1])
    # span: t[j] <= x < t[j + 1]; the last span is closed on the right
    inner = t[degree + 1 : count]
    # place of the span in a table over spans
    if len(inner) <= _FEW_KNOTS:  # comparing with each is faster than searching
        at: Any = (x > t[-1]).astype(np.intp)  # none is
        for knot in inner:
            at = at + (x >= knot)
    else:
        at = np.clip(np.searchsorted(t, x, "right") - 1, degree, count - 1) - degree
    spans = np.arange(degree, count)
    # distances to the knots around x
    right = [entry(t[spans + r], at) - x for r in range(1, degree + 1)]
    left = [x - entry(t[spans + r], at) for r in range(1 - degree, 1)]
    local: list[Any] = [np.ones_like(x)]
    for d in range(1, degree + 1):  # local[r] = N_{j-d+r, d}(x)
        nxt: list[Any] = []
        for r in range(d):
            near, far = left[degree + r - d], right[r]
            share = local[r] / entry(t[spans + r + 1] - t[spans + r + 1 - d], at)
            if r:
                nxt[r] = nxt[r] + far * share
            else:
                nxt.append(far * share)
            nxt.append(near * share)
        local = nxt
    return only_where(put_at(at, local, count), present, np.nan)


# -- polynomials ---------------------------------------------------------------------------


@word("poly")
def _poly(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``poly(x, degree, raw=True)``: powers of x."""
    bound = arguments(node, "x degree raw", ctx)
    x = compile_scalar(bound["x"], ctx)
    k = public_integer(bound.get("degree"), "degree", 1, 1, ctx)
    if "raw" not in bound or literal(bound["raw"]) is not True:
        raise refused_state(node, "poly", ctx, x.interval, bound, k)
    bounds = tuple(iv.power(x.interval, i) for i in range(1, k + 1))
    if x.interval is not None and any(b is None for b in bounds):
        raise overflow(node, ctx)
    norms: dict[str, float | None] = dict.fromkeys(("l2", "l1", "linf"))
    top = iv.magnitude(x.interval)
    if top is not None:
        sizes = [top**i for i in range(1, k + 1)]
        norms = {"l2": math.hypot(*sizes), "l1": math.fsum(sizes), "linf": max(sizes)}

    def values(env: Env) -> Rows:
        base: Any = row_of(x, env)
        return stack(base, *(np.power(base, i + 1) for i in range(1, k)))

    return Basis(tuple(range(k)), bounds, values, norms, x.variables)


@word("legendre")
def _legendre(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``legendre(x, degree)``: Legendre polynomials over the declared range."""
    bound = arguments(node, "x degree", ctx)
    x = compile_scalar(bound["x"], ctx)
    k = public_integer(bound.get("degree"), "degree", None, 1, ctx)
    if x.interval is None:
        raise need_range(bound["x"], "legendre", ctx)
    if x.interval[0] == x.interval[1]:
        raise ctx.fail("legendre() of a constant has no meaning")
    t = _unit(x)

    def values(env: Env) -> Rows:
        u: Any = row_of(t, env)
        out, before = [u], 1.0
        for n in range(1, k):
            out.append(((2 * n + 1) * u * out[n - 1] - n * before) / (n + 1))
            before = out[n - 1]
        return stack(*out)

    return Basis(
        tuple(range(1, k + 1)),
        ((-1.0, 1.0),) * k,
        values,
        {"l2": math.sqrt(k), "l1": float(k), "linf": 1.0},
        x.variables,
    )


# -- affine maps with public constants -----------------------------------------------------


def _unit(x: Node) -> Node:
    """Return a node mapped from its range to [-1, 1]."""
    assert x.interval is not None
    lo, hi = x.interval
    middle, half = 0.5 * (lo + hi), 0.5 * (hi - lo)
    return Node(
        (-1.0, 1.0),
        lambda env: np.clip((x.evaluate(env) - middle) / half, -1.0, 1.0),
        x.variables,
    )


@word("unit")
def _unit_word(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``unit(x)``: x mapped from its declared range to [-1, 1]."""
    bound = arguments(node, "x", ctx)
    x = compile_scalar(bound["x"], ctx)
    if x.interval is None:
        raise need_range(bound["x"], "unit", ctx)
    if x.constant is not None or x.interval[0] == x.interval[1]:
        raise ctx.fail("unit() of a constant has no meaning")
    return _unit(x)


#: Word -> the arguments it takes, and which of them are its shift and its scale.
_AFFINE = {
    "scale": ("x center scale ddof", ("center", "scale")),
    "standardize": ("x center rescale ddof", ("center", "rescale")),
    "center": ("x center", ("center",)),
}


@word("scale")
@word("standardize")
@word("center")
def _affine(node: ast.Call, ctx: Context) -> Factor:
    """Compile ``scale``, ``center`` or ``standardize`` with public constants."""
    names, keys = _AFFINE[call_name(node.func)]
    bound = arguments(node, names, ctx)
    x = compile_scalar(bound["x"], ctx)
    constants = []
    for key, neutral in zip(keys, (0.0, 1.0), strict=False):
        value = literal(bound[key]) if key in bound else True
        if value is True or value is None:
            raise refused_state(node, pretty(node.func, ctx), ctx, x.interval, bound, 0)
        number = neutral if value is False else constant_of(bound[key], key, ctx)
        assert number is not None
        constants.append(number)
    shift, size = (*constants, 1.0)[:2]
    if size == 0:
        raise ctx.fail("the scale must not be 0")
    interval = iv.divide(iv.subtract(x.interval, (shift, shift)), (size, size))
    if interval is None and x.interval is not None:
        raise overflow(node, ctx)
    if x.constant is not None:
        return constant((x.constant - shift) / size)
    return Node(interval, lambda env: (x.evaluate(env) - shift) / size, x.variables)
