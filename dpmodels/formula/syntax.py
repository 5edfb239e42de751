"""What the compilers of a formula share: where an expression stands, its tree, and the words.

``ast.parse`` and nothing else reads the text: nothing is evaluated.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels.errors import FormulaError, FormulaPrivacyError
from dpmodels.formula import functions as iv
from dpmodels.formula.nodes import Factor
from dpmodels.variables import LARGEST

if TYPE_CHECKING:
    from dpmodels.variables import Variable

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


# -- Powers of sums in formulas: ``(x + z)**k`` is a product of k sums, and no more than that


#: Terms that a formula may ask for, and columns.
MOST_TERMS, MOST_COLUMNS = 20_000, 50_000
#: Characters of a formula whose powers were written out.
_LONGEST = 100_000
_POWER = re.compile(r"\s*(?:\*\*|\^)\s*(\d+)")
_NAMED = re.compile(r"([^\W\d]\w*)\s*(?:\*\*|\^)\s*(\d+)")
_NAME = re.compile(r"[^\W\d]\w*|`[^`]*`|\{[^{}]*\}")


def subsets(factors: int, degree: int) -> int:
    """Return how many products of up to ``degree`` of these factors there are."""
    return sum(math.comb(factors, i) for i in range(1, min(degree, factors) + 1))


def too_many_terms(what: str) -> FormulaError:
    """Return the refusal of a product that takes longer to write out than any fit."""
    return FormulaError(
        f"{what} asks for more than {MOST_TERMS} terms: take products of two, as in (x + z + w)**2"
    )


def check_columns(widths: Sequence[Mapping[str, int]]) -> None:
    """Refuse terms of more columns than any fit can have, before they are written out.

    Parameters
    ----------
    widths : sequence of mapping
        The least columns of the factors of each term, by text.
    """
    each = [math.prod(own.values()) for own in widths]
    if sum(each) > MOST_COLUMNS:
        term = widths[each.index(max(each))]
        named = ", ".join(f"{name}: {k}" for name, k in term.items())
        raise FormulaError(
            f"the formula has more than {MOST_COLUMNS} columns (its largest term: {named}): leave "
            f"products of factors out, as in {' + '.join(term)}, or join levels"
        )


def capped_powers(text: str, others: int = 0) -> str:
    """Return a formula with its powers of brackets written as products of sums.

    Parameters
    ----------
    text : str
    others : int
        Factors that ``.`` stands for.
    """
    factors = len(set(_NAME.findall(text))) + others
    at = 0
    while True:
        found = _next_power(text, at)
        if found is None:
            return text
        start, stop, end, digits = found
        power = min(int(digits) if len(digits) < 7 else factors, factors)
        if power > 2 and subsets(factors, power) > MOST_TERMS:
            raise too_many_terms(f"a power of {factors} factors")
        if power == int(digits[:7]) <= 2 and len(digits) < 7:  # as it is
            at = end
            continue
        whole = text[start:stop]
        if len(text) + power * len(whole) > _LONGEST:
            raise FormulaError("powers of powers of brackets: one power says the same")
        text = text[:start] + "(" + ":".join([whole] * max(power, 1)) + ")" + text[end:]
        at = start


def _next_power(text: str, at: int) -> tuple[int, int, int, str] | None:
    """Return (start, end of the bracket, end of the power, its digits) of the next power.

    Of brackets of the formula's own: what stands in a call, in braces or in quotes is arithmetic.
    """
    opened: list[tuple[int, bool]] = []  # place, and whether what is inside is arithmetic
    quoted = ""
    for i, sign in enumerate(text):
        inside = bool(opened) and opened[-1][1]
        if quoted:
            quoted = "" if sign == quoted else quoted
        elif sign in "`'\"":
            quoted = sign
        elif not inside and i >= at and (name := _NAMED.match(text, i)) and _starts(text, i):
            return i, name.end(1), name.end(), name[2]
        elif sign in "([{":
            before = text[:i].rstrip()[-1:]
            call = sign != "(" or before.isalnum() or before in ("_", "`", ")", "]")
            opened.append((i, inside or call))
        elif sign in ")]}" and opened:
            start, arithmetic = opened.pop()
            found = None if arithmetic or i < at else _POWER.match(text, i + 1)
            if found is not None:
                return start, i + 1, found.end(), found[1]
    return None


def _starts(text: str, at: int) -> bool:
    """Say whether a name begins here, rather than goes on."""
    return not (at and (text[at - 1].isalnum() or text[at - 1] == "_"))
