"""What the compilers of a formula share: where an expression stands, its tree, and the words.

``ast.parse`` and nothing else reads the text: nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels.errors import FormulaError, FormulaPrivacyError
from dpmodels.formula import intervals as iv
from dpmodels.formula.nodes import Factor
from dpmodels.variables import LARGEST

if TYPE_CHECKING:
    from dpmodels.variables import Variable

__all__ = [
    "CALLS",
    "Compiler",
    "Context",
    "call_name",
    "literal",
    "overflow",
    "parse_expression",
    "pretty",
    "word",
]

_BACKTICK = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Context:
    """Where an expression stands, for messages and look-ups. All public."""

    formula: str
    schema: Mapping[str, Variable]
    term: str
    names: Mapping[str, str]  # placeholder identifier -> back-ticked name
    call: Compiler = field(repr=False)  # how a call is compiled: the words of the language

    def fail(self, what: str, *lines: str, privacy: bool = False) -> FormulaError:
        """Return the error for this term: what is wrong, then how to fix it."""
        cls = FormulaPrivacyError if privacy else FormulaError
        body = "".join(f"\n  {line}" for line in (what, *lines))
        return cls(f'term `{self.term}` in "{self.formula}"{body}')

    def refuse(self, what: str, *lines: str) -> FormulaError:
        """Return a refusal on grounds of privacy."""
        return self.fail(what, *lines, privacy=True)

    def range_of(self, interval: iv.Interval) -> str:
        """Return an interval for a message."""
        return "unknown" if interval is None else f"[{interval[0]:g}, {interval[1]:g}]"


def parse_expression(text: str, formula: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree of a factor and the back-ticked names in it."""
    names: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        key = f"_quoted_{len(names)}_"
        names[key] = match.group(1)
        return key

    code = _BACKTICK.sub(replace, text)
    problem = ""
    tree: ast.Expression | None = None
    try:
        tree = ast.parse(code.strip(), mode="eval")
    except SyntaxError as error:
        at = (error.offset or 1) - 1
        problem = f"{error.msg} at position {at + 1}: {code[:at]} >>> {code[at:]}"
    except (ValueError, RecursionError, MemoryError):
        problem = "it is too deeply nested, or holds a null byte"
    if tree is None:
        raise FormulaError(f'cannot read `{text}` in "{formula}"\n  {problem}')
    return tree.body, names


def pretty(node: ast.AST, ctx: Context) -> str:
    """Return the source of a piece of an expression, back-ticks restored."""
    text = ast.unparse(node)
    for key, name in ctx.names.items():
        text = text.replace(key, f"`{name}`")
    return text


def literal(node: ast.expr) -> Any:
    """Return the value of a literal (number, text, list ...), or ``...`` if it is not one."""
    if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, complex)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = literal(node.operand)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [literal(x) for x in node.elts]
        if all(x is not ... for x in items):
            return items
    return ...


def overflow(node: ast.AST, ctx: Context) -> FormulaError:
    """Return the refusal of an expression whose range is not finite in floating point."""
    return ctx.fail(
        f"{pretty(node, ctx)} is not finite, or beyond {LARGEST:g}, on the whole declared range",
        "Narrow the declared range of its variables, or wrap the argument: clip(x, a, b)",
    )


# -- words ---------------------------------------------------------------------------------

#: Compiles a call where it stands. The words of the language by name, filled by :func:`word`.
Compiler = Callable[[ast.Call, "Context"], Factor]
CALLS: dict[str, Compiler] = {}


def word(name: str) -> Callable[[Compiler], Compiler]:
    """Register the compiler of one word of the language."""

    def keep(compiler: Compiler) -> Compiler:
        CALLS[name] = compiler
        return compiler

    return keep


def call_name(node: ast.expr) -> str:
    """Return ``"log"`` for ``log``, ``np.log`` and ``numpy.log``; dotted text for the rest."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = call_name(node.value)
        return node.attr if base in ("np", "numpy") else f"{base}.{node.attr}"
    return "(expression)"
