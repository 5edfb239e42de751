"""The whole language of formulas: a call is one of its words, or refused."""

from __future__ import annotations

import ast

import dpmodels.formula.bases
import dpmodels.formula.categories  # noqa: F401  (both register words)
from dpmodels.formula.calls import elementwise, registered
from dpmodels.formula.functions import FUNCTIONS, REGISTERED
from dpmodels.formula.nodes import Factor
from dpmodels.formula.refuse import refused_call
from dpmodels.formula.syntax import CALLS, Context, call_name, pretty

__all__ = ["compile_call"]


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
