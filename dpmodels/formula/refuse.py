"""Refusals: each names the term, says why, and gives a line to paste. Decided without data."""

from __future__ import annotations

import ast

from dpmodels.errors import FormulaError, did_you_mean
from dpmodels.formula.compile import Context, pretty
from dpmodels.formula.functions import FUNCTIONS, REGISTERED, RESERVED

__all__ = ["refused_call", "refused_node"]

_STATEFUL = {
    "mean", "median", "std", "var", "min", "max", "sum", "rank", "sort", "argsort", "quantile",
    "percentile", "cumsum", "shift", "lag", "diff", "cut", "qcut", "rolling", "nunique", "unique",
}  # fmt: skip


def refused_node(node: ast.expr, ctx: Context) -> FormulaError:
    """Return the refusal of an expression that is not on the allow-list."""
    if isinstance(node, ast.Attribute):
        return ctx.refuse(
            f"{pretty(node, ctx)}: attributes are not allowed; they would reach whole columns",
            "A formula computes each row from that row alone. Use the functions of the language: "
            + ", ".join(sorted(FUNCTIONS)),
        )
    if isinstance(node, ast.Subscript):
        return ctx.refuse(
            f"{pretty(node, ctx)}: subscripts are not allowed; they would pick other rows",
            "Use the variable itself",
        )
    names = {
        ast.Lambda: "a lambda",
        ast.ListComp: "a comprehension",
        ast.SetComp: "a comprehension",
        ast.DictComp: "a comprehension",
        ast.GeneratorExp: "a comprehension",
        ast.IfExp: "a conditional expression",
        ast.JoinedStr: "a formatted string",
        ast.NamedExpr: "an assignment",
        ast.Starred: "a starred argument",
        ast.Await: "await",
    }
    what = names.get(type(node), "this expression")
    return ctx.refuse(
        f"{pretty(node, ctx)}: {what} is not part of the formula language",
        "For a function of your own that looks at one row at a time: "
        "dp.register_rowwise('name', func, interval=(lo, hi))",
    )


def refused_call(node: ast.Call, name: str, ctx: Context) -> FormulaError:
    """Return the refusal of a call to a function that is not on the allow-list."""
    from dpmodels.formula.calls import CALLS

    last = name.rsplit(".", 1)[-1]
    if last in _STATEFUL:
        return ctx.refuse(
            f"{pretty(node, ctx)}: {last}() looks at other rows, so it would read private state",
            "Use a public constant in its place, for example I(x - 10.4)",
        )
    known = [*CALLS, *FUNCTIONS, *REGISTERED, *RESERVED]
    return ctx.refuse(
        f"{name}() is not a function of the formula language.{did_you_mean(last, known)}",
        "Known: " + ", ".join(sorted({*CALLS, *FUNCTIONS, *REGISTERED})),
        "A row-wise function of your own can be added: "
        f"dp.register_rowwise({last!r}, func, interval=(lo, hi))",
    )
