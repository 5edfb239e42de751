"""Categories: ``C()`` with its contrasts, ``cut()``, ``hashed()``."""

from __future__ import annotations

import ast

from dpmodels.formula.calls import word
from dpmodels.formula.compile import Context, variable_cat, variable_name
from dpmodels.formula.nodes import Factor
from dpmodels.schema import Levels


@word("C")
def _category(node: ast.Call, ctx: Context) -> Factor:
    name = variable_name(node.args[0], ctx) if node.args else None
    variable = ctx.schema[name] if name is not None else None
    if name is None or not isinstance(variable, Levels):
        raise ctx.refuse(
            "C() needs a variable with declared levels",
            f'Fix, in the schema:   {name or "x"} = Levels(["a", "b"])',
        )
    if len(node.args) > 1 or node.keywords:
        raise ctx.fail("contrasts are not available yet")
    return variable_cat(name, variable)
