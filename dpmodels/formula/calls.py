"""Words that give one number: ``I()``, elementwise functions, ``minimum()``, ``clip()``."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

import dpmodels.formula.bases
import dpmodels.formula.categories  # noqa: F401  (both register words)
from dpmodels.formula import functions as iv
from dpmodels.formula.compile import combine, compile_scalar
from dpmodels.formula.functions import FUNCTIONS, REGISTERED, Rowwise
from dpmodels.formula.nodes import Array, Env, Factor, Node, constant
from dpmodels.formula.refuse import refused_call
from dpmodels.formula.syntax import CALLS, Context, call_name, overflow, pretty, word


def only_positional(node: ast.Call, name: str, count: int, ctx: Context) -> list[ast.expr]:
    """Return the arguments of a call that takes exactly ``count`` positional ones."""
    if node.keywords or len(node.args) != count:
        raise ctx.fail(f"{name}() takes {count} argument{'s' if count > 1 else ''}")
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
    """Compile a function of the user's own, which is called a row at a time if need be."""
    if node.keywords or not node.args:
        raise ctx.fail(f"{f.name}() takes positional arguments only")
    parts = [compile_scalar(a, ctx) for a in node.args]
    interval = f.image(tuple(p.interval for p in parts))

    def one(cells: list[Any]) -> float:
        try:
            return float(np.asarray(f.func(*cells), dtype=float).reshape(-1)[0])
        except KeyboardInterrupt:
            raise
        except BaseException:  # the row is missing; nothing of the cell is kept
            return np.nan

    def values(env: Env) -> Array:
        cells = np.broadcast_arrays(*[p.evaluate(env) for p in parts])
        out: Any = None
        try:
            out = np.array(f.func(*[c.copy() for c in cells]), dtype=float)
        except KeyboardInterrupt:
            raise
        except BaseException:
            out = None
        if out is None or out.shape != cells[0].shape:
            rows = [one([c[i : i + 1].copy() for c in cells]) for i in range(len(cells[0]))]
            out = np.array(rows, dtype=float)
        for c in cells:
            out[np.isnan(c)] = np.nan
        return out if interval is None else np.clip(out, *interval)

    return Node(interval, values, frozenset().union(*(p.variables for p in parts)))


@word("minimum")
def _minimum(node: ast.Call, ctx: Context) -> Factor:
    return _extreme(node, "minimum", np.minimum, min, ctx)


@word("maximum")
def _maximum(node: ast.Call, ctx: Context) -> Factor:
    return _extreme(node, "maximum", np.maximum, max, ctx)


def _extreme(node: ast.Call, name: str, values: Any, pick: Any, ctx: Context) -> Node:
    first, second = only_positional(node, name, 2, ctx)
    a, b = compile_scalar(first, ctx), compile_scalar(second, ctx)
    interval = None
    if a.interval is not None and b.interval is not None:
        interval = (pick(a.interval[0], b.interval[0]), pick(a.interval[1], b.interval[1]))
    return combine(values, interval, a, b, node, ctx)


@word("clip")
def _clip(node: ast.Call, ctx: Context) -> Factor:
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
    raise ctx.fail(
        "offset() is a term by itself, on the right-hand side: y ~ x + offset(z); it cannot be "
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
