"""The grammar of one factor: its nodes, its syntax, and the allow-list of elementwise functions.

``register_rowwise`` adds to it; a registration is a claim, made by the caller, that the function
is elementwise and stays inside the interval. We clip its values to that interval in any case.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dpmodels.errors import FormulaError, FormulaPrivacyError, shown
from dpmodels.opaque import Rows
from dpmodels.variables import LARGEST, Variable

# -- Interval arithmetic: from the declared range of a variable to the range of a design column


#: Floats at or above this do not tell neighbouring whole numbers apart.
LARGEST_EXACT = 2.0**53

Interval = tuple[float, float] | None


def finite(pair: tuple[float, float]) -> Interval:
    """Return the pair, or ``None`` when an end is not a number within :data:`LARGEST`."""
    lo, hi = pair
    return (float(lo), float(hi)) if max(abs(lo), abs(hi)) <= LARGEST and lo == lo else None


def negate(a: Interval) -> Interval:
    """Return -a."""
    return None if a is None else (-a[1], -a[0])


def add(a: Interval, b: Interval) -> Interval:
    """Return a + b."""
    return None if a is None or b is None else finite((a[0] + b[0], a[1] + b[1]))


def subtract(a: Interval, b: Interval) -> Interval:
    """Return a - b."""
    return add(a, negate(b))


def multiply(a: Interval, b: Interval) -> Interval:
    """Return a * b: the extreme corner products. 0 times unknown is unknown."""
    if a is None or b is None:
        return None
    corners = [x * y for x in a for y in b]
    return finite((min(corners), max(corners)))


def scale(a: Interval, factor: float) -> Interval:
    """Multiply by a constant."""
    return multiply(a, (factor, factor))


def divide(a: Interval, b: Interval) -> Interval:
    """Return a / b for an interval b that excludes 0."""
    if a is None or b is None:
        return None
    assert b[0] > 0 or b[1] < 0
    corners = [x / y for x in a for y in b]
    return finite((min(corners), max(corners)))


def power(a: Interval, k: float) -> Interval:
    """Return a ** k; the caller has checked the domain (integer k >= 0, or a positive base)."""
    if k == 0:
        return (1.0, 1.0)
    if a is None:
        return None
    if k == int(k) and k > 0:
        if int(k) % 2 == 0:
            sizes = abs(a[0]), abs(a[1])  # 0 is the minimum if 0 is inside
            lo = 0.0 if a[0] <= 0 <= a[1] else min(sizes)
            return monotone(lambda t: t ** int(k), (lo, max(sizes)))
        return monotone(lambda t: t ** int(k), a)
    ends = monotone(lambda t: t**k, a)
    return None if ends is None else (min(ends), max(ends))


def monotone(f: Callable[[float], float], a: Interval) -> Interval:
    """Return the image of an interval under a monotone function, with ordered ends."""
    if a is None:
        return None
    try:
        return finite((f(a[0]), f(a[1])))
    except (OverflowError, ZeroDivisionError, ValueError):
        return None


def hull(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest interval that contains all of them, unknown if one is."""
    items = list(intervals)
    intervals_known = [a for a in items if a is not None]
    if len(intervals_known) < len(items) or not intervals_known:
        return None
    return (min(a[0] for a in intervals_known), max(a[1] for a in intervals_known))


def magnitude(a: Interval) -> float | None:
    """Return the largest absolute value."""
    return None if a is None else max(abs(a[0]), abs(a[1]))


@dataclass(frozen=True)
class Elementwise:
    """A function of one number."""

    # On arrays; outside its domain the value is NaN (missing), never infinite by a pole.
    values: Callable[[Any], Any]
    image: Callable[[Interval], Interval]  # Interval -> interval
    # (float, float, bool): open or closed lower end of the domain: ``(lower, upper, open)``.
    domain: tuple[float, bool] | None = None
    range: Interval = None  # Image of the whole line, for an argument whose range is not declared


def _masked(f: Callable[[Any], Any], low: float, strict: bool) -> Callable[[Any], Any]:
    """Return f with NaN outside ``x > low`` (or ``x >= low``)."""

    def values(x: Any) -> Any:
        inside = x > low if strict else x >= low
        return np.where(inside, f(np.where(inside, x, 1.0)), np.nan)

    return values


def _logistic(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def _logistic1(x: float) -> float:
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0 else e / (1.0 + e)


def _abs_image(a: Interval) -> Interval:
    """Return the interval of the absolute value."""
    if a is None:
        return None
    top = magnitude(a)
    assert top is not None
    return (0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1])), top)


def _wave_image(phase: float) -> Callable[[Interval], Interval]:
    """Return the image of sin(x + phase): end points, and +-1 at a crest or trough inside."""

    def image(a: Interval) -> Interval:
        if a is None or a[1] - a[0] >= 2 * math.pi:
            return (-1.0, 1.0)
        lo, hi = a[0] + phase, a[1] + phase
        ends = (math.sin(lo), math.sin(hi))
        crest = math.ceil((lo - math.pi / 2) / (2 * math.pi)) * 2 * math.pi + math.pi / 2
        trough = math.ceil((lo + math.pi / 2) / (2 * math.pi)) * 2 * math.pi - math.pi / 2
        return (
            -1.0 if trough <= hi else min(ends),
            1.0 if crest <= hi else max(ends),
        )

    return image


def _mono(f: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda a: monotone(f, a)


#: name -> elementwise function; also reachable as ``np.name`` where numpy has it
FUNCTIONS: dict[str, Elementwise] = {
    "log": Elementwise(_masked(np.log, 0.0, True), _mono(math.log), (0.0, True)),
    "log2": Elementwise(_masked(np.log2, 0.0, True), _mono(math.log2), (0.0, True)),
    "log10": Elementwise(_masked(np.log10, 0.0, True), _mono(math.log10), (0.0, True)),
    "log1p": Elementwise(_masked(np.log1p, -1.0, True), _mono(math.log1p), (-1.0, True)),
    "exp": Elementwise(np.exp, _mono(math.exp)),
    "expm1": Elementwise(np.expm1, _mono(math.expm1)),
    "sqrt": Elementwise(_masked(np.sqrt, 0.0, False), _mono(math.sqrt), (0.0, False)),
    "abs": Elementwise(np.abs, _abs_image),
    "sin": Elementwise(np.sin, _wave_image(0.0), range=(-1.0, 1.0)),
    "cos": Elementwise(np.cos, _wave_image(math.pi / 2), range=(-1.0, 1.0)),
    "tanh": Elementwise(np.tanh, _mono(math.tanh), range=(-1.0, 1.0)),
    "arctan": Elementwise(np.arctan, _mono(math.atan), range=(-math.pi / 2, math.pi / 2)),
    "logistic": Elementwise(_logistic, _mono(_logistic1), range=(0.0, 1.0)),
}

#: names with a special meaning in a formula; a variable may not be called like one
RESERVED: frozenset[str] = frozenset(
    {*FUNCTIONS, "I", "C", "clip", "cut", "minimum", "maximum", "bs", "poly", "legendre"}
    | {"scale", "center", "unit", "hashed", "offset", "np", "contr", "dp"}
)


@dataclass(frozen=True)
class Rowwise:
    """A user's elementwise function: one or more numbers in, one number out."""

    name: str
    func: Callable[..., Any]
    interval: Interval | Callable[..., Any]

    def image(self, arguments: tuple[Interval, ...]) -> Interval:
        """Return the declared interval (a callable receives the argument intervals)."""
        if not callable(self.interval):
            return self.interval
        if any(a is None for a in arguments):
            return None
        lo, hi = self.interval(*arguments)
        return finite((float(lo), float(hi)))


REGISTERED: dict[str, Rowwise] = {}


def register_rowwise(name: str, func: Callable[..., Any], interval: Any) -> None:
    """Allow ``name(x, ...)`` in formulas.

    Parameters
    ----------
    name : str
        Identifier; must not be one of the language's own words.
    func : callable
        Elementwise: arrays of the block's numbers in, an array of the same length out, and
        element ``i`` of the result must depend on element ``i`` of the arguments only.
    interval : (lo, hi) or callable
        Range of the values, or a function of the argument intervals that returns it. Values are
        clipped to it.

    Notes
    -----
    **Privacy.** Registering is a *claim* by the caller that ``func`` is elementwise; a function
    that looks at other rows (a mean, a rank) breaks the guarantee of every fit that uses it.
    It cannot be checked by running it. The claim includes that ``func`` does not raise because
    of a cell. If it does raise, or returns the wrong shape, the block is evaluated again one row
    at a time, and only the rows that fail by themselves are missing.

    Examples
    --------
    >>> register_rowwise("softplus", lambda x: np.logaddexp(0, x), lambda a: (0, a[1] + 1))
    """
    if not (isinstance(name, str) and name.isidentifier()):
        raise FormulaError(f"register_rowwise: the name must be an identifier, got {shown(name)}")
    if name in RESERVED:
        raise FormulaError(f"register_rowwise: {name!r} is a word of the formula language already")
    if not callable(func):
        raise FormulaError(f"register_rowwise({name!r}): func must be callable")
    if not callable(interval):
        pair = finite((float(interval[0]), float(interval[1])))
        if pair is None or pair[0] > pair[1]:
            raise FormulaError(
                f"register_rowwise({name!r}): interval must be a finite (lo, hi), "
                f"got {shown(interval)}"
            )
        interval = pair
    REGISTERED[name] = Rowwise(name, func, interval)


# -- Values of a factor, row by row: a number, a basis of several columns, or a code per row.
#
# Each node is a closed function of the cells of *one* row (see ``theory.md``), which are opaque:
# it may use elementwise functions only, others raise. A missing cell is NaN (code -1) and stays so
# through every operation.


class Env(Protocol):
    """Cells of a row, as a node sees them: opaque."""

    def number(self, name: str) -> Rows:
        """Return the clipped cell of a numeric variable."""

    def code(self, name: str) -> Rows:
        """Return the code of a factor variable, a whole number."""

    def public(self, value: float) -> Rows:
        """Return the same public number for every row."""

    def as_read(self, name: str) -> Rows:
        """Return the cell of a variable as it was read: a number, a code or a hash."""

    def unclipped(self) -> Env:
        """Return the cells before ranges clip them."""


@dataclass(frozen=True)
class Node:
    """A number per row."""

    interval: Interval  # Public bound; ``None`` if it depends on an undeclared range
    evaluate: Callable[[Env], Any]  # A number of the row, or the same public one for all
    variables: frozenset[str] = frozenset()
    constant: float | None = None  # Set when the value is the same for every row
    raw: str | None = None  # Name of the variable when the node is just that variable
    boolean: bool = False


@dataclass(frozen=True)
class Basis:
    """Several columns per row (splines, polynomials)."""

    fields: tuple[Any, ...]  # Text of formulaic in the brackets of the column name
    intervals: tuple[Interval, ...]
    evaluate: Callable[[Env], Rows]  # c numbers of the row
    # "l1", "l2", "linf": bound on the norm of the c values of a row, ``None`` if unknown.
    norms: dict[str, float | None]
    variables: frozenset[str] = frozenset()
    spans_intercept: bool = False


@dataclass(frozen=True)
class Cat:
    """A code per row."""

    levels: tuple[Any, ...]  # Public levels, in code order
    evaluate: Callable[[Env], Rows]  # Code of the row, a whole number; -1 for missing
    contrast: Any = None  # Contrast for the coding module; ``None`` is treatment coding
    variables: frozenset[str] = frozenset()
    spans_intercept: bool = True


Factor = Node | Basis | Cat


def row_of(node: Node, env: Env) -> Rows:
    """Return the value of a node for each row, if it is the same for all too."""
    value = node.evaluate(env)
    return value if isinstance(value, Rows) else env.public(float(value))


def constant(value: float) -> Node:
    """Return a node whose value is the same public number in every row."""
    value = float(value)
    return Node((value, value), lambda env: np.float64(value), constant=value)


# -- What the compilers of a formula share: where an expression stands, its tree, and the words.
#
# ``ast.parse`` and nothing else reads the text: nothing is evaluated.


#: A name in back-ticks, a text, or a word without either.
_SPANS = re.compile(r"`[^`]*`|'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\w+")


def is_read_as_itself(name: str) -> bool:
    """Return whether Python reads a name unchanged: not a keyword, and no other letter.

    ``class`` is a word of Python, ``x²`` no name, and Python takes the micro sign of ``µg`` for mu.
    """
    same = name.isascii() or unicodedata.normalize("NFKC", name) == name
    return same and name.isidentifier() and not keyword.iskeyword(name)


def written_name(name: str) -> str:
    """Return a name as it is written in a formula: in back-ticks where it needs them."""
    return name if is_read_as_itself(name) or "`" in name else f"`{name}`"


def one_name(text: str) -> str:
    """Return an argument that is a term, with back-ticks if it is a name with blanks."""
    text = text.strip()
    if not re.fullmatch(r"\w+(?: +\w+)+", text):
        return text
    try:
        ast.parse(text, mode="eval")  # ``a and b``
    except SyntaxError:
        return f"`{text}`"
    return text


def is_one_name(text: str) -> bool:
    """Return whether a term is one name, with or without back-ticks."""
    return re.fullmatch(r"`[^`]*`|\w+", text) is not None


def split_effects(text: str) -> list[str]:
    """Return the terms of a sum of effects; a plus in back-ticks belongs to a name."""
    return [term.strip() for term in re.split(r"\+(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]


def ticked(text: str) -> str:
    """Return a text with back-ticks around the words that Python reads as others: µg, x²."""

    def tick(match: re.Match[str]) -> str:
        text = match.group()
        odd = not text.isascii() and text[0] not in "`'\"" and not text[0].isdigit()
        return f"`{text}`" if odd and not is_read_as_itself(text) else text

    return text if text.isascii() else _SPANS.sub(tick, text)


def without_ticked(text: str, stem: str = "_quoted_") -> tuple[str, dict[str, str]]:
    """Return a text with an identifier for each name in back-ticks, and the name of each."""
    names: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        text = match.group()
        if not text.startswith("`"):
            return text
        names[key := f"{stem}{len(names)}_"] = text[1:-1]
        return key

    return _SPANS.sub(replace, ticked(text)), names


def tick_hint(text: str) -> str:
    """Return a line that puts words of Python in back-ticks, if a text has any bare ones."""

    def tick(match: re.Match[str]) -> str:
        text = match.group()
        return f"`{text}`" if keyword.iskeyword(text) and text not in _OPERATORS else text

    fixed = _SPANS.sub(tick, text)
    return "" if fixed == text else f"\n  Fix, if that is the name of a column: {fixed}"


#: Words of Python that expressions are made of.
_OPERATORS = frozenset({"and", "or", "not", "in", "is", "if", "else", "True", "False", "None"})


@dataclass(frozen=True)
class Context:
    """Position of an expression, for messages and look-ups. All public."""

    formula: str
    schema: Mapping[str, Variable]
    term: str
    names: Mapping[str, str]  # placeholder identifier -> back-ticked name
    call: Compiler = field(repr=False)  # how a call is compiled: the words of the language

    def fail(self, what: str, *lines: str, privacy: bool = False) -> FormulaError:
        """Return the error of this term: the fault, then the remedy."""
        cls = FormulaPrivacyError if privacy else FormulaError
        body = "".join(f"\n  {line}" for line in (what, *lines))
        return cls(f'term `{self.term}` in "{self.formula}"{body}')

    def refuse(self, what: str, *lines: str) -> FormulaError:
        """Return a refusal on grounds of privacy."""
        return self.fail(what, *lines, privacy=True)

    def range_of(self, interval: Interval) -> str:
        """Return an interval for a message."""
        return "unknown" if interval is None else f"[{interval[0]:g}, {interval[1]:g}]"


#: Longest name in a formula. A search for a similar name takes time by its square.
LONGEST_NAME = 1000


def check_names(text: Any) -> None:
    """Refuse a formula, or another expression, with a name that is longer than any column's."""
    names = re.findall(r"[^\W\d]\w*", text) if isinstance(text, str) else []
    if max(map(len, names), default=0) > LONGEST_NAME:
        raise FormulaError(
            f"a name in the formula has more than {LONGEST_NAME} letters. Nothing was charged"
        )


#: Deepest nesting of an expression; a sum of k numbers is k deep.
DEEPEST = 250


def check_depth(tree: ast.AST, text: str) -> None:
    """Refuse an expression that is nested so deeply that walks of it would exhaust the stack."""
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise FormulaError(
        f"the expression `{text[:60]}{'...' if len(text) > 60 else ''}` is nested more than "
        f"{DEEPEST} deep, or sums more numbers than that. Make a column of it first, or write "
        "several terms. Nothing was charged"
    )


def bracket_sums(text: str) -> str:
    """Return a formula whose long sums are bracketed in pairs of halves: the same terms, not deep.

    Only sums of more than 64 terms are rewritten. Numbers stay outside the brackets, as 0 and 1
    stand for the intercept.
    """
    if text.count("+") + text.count("-") <= _SHORT_SUM:
        return text
    frames: list[tuple[list[str], list[str]]] = [([], [])]  # (signs, terms) of open brackets
    buffer: list[str] = []
    buffers: list[list[str]] = []
    quoted, depth = "", 0  # depth: number of open brackets
    last = " "  # the last character other than a blank
    called = "_`)]"  # before a bracket, beside letters: it is that of a call

    def close() -> str:
        signs, terms = frames[-1]
        return _bracket_halves(signs, [*terms, "".join(buffer)])

    for sign in text:
        if quoted:
            quoted = "" if sign == quoted else quoted
            buffer.append(sign)
        elif sign in "`'\"":
            quoted = sign
            buffer.append(sign)
        elif depth or sign in "[{" or (sign == "(" and (last.isalnum() or last in called)):
            depth += (sign in "([{") - (sign in ")]}")
            buffer.append(sign)
        elif sign == "(":
            buffers.append(buffer)
            frames.append(([], []))
            buffer = []
        elif sign == ")" and len(frames) > 1:
            inside = close()
            frames.pop()
            buffer = [*buffers.pop(), "(", inside, ")"]
        elif sign in "+-~|" and last not in ("*", ":", "/", "^"):
            frames[-1][0].append(sign)
            frames[-1][1].append("".join(buffer))
            buffer = []
        else:
            buffer.append(sign)
        last = sign if not sign.isspace() else last
    return close() if len(frames) == 1 else text


#: Number of terms up to which sums are left as they are written.
_SHORT_SUM = 64


def _bracket_halves(signs: list[str], terms: list[str]) -> str:
    """Return ``t0 s1 t1 s2 t2 ...`` with its runs of terms that are added put in brackets."""
    out = [terms[0]]
    run: list[str] = []

    def flush() -> None:
        if run:
            out.append("+" + _tree(run))
            run.clear()

    for sign, term in zip(signs, terms[1:], strict=True):
        plain = sign == "+" and term.strip() and not term.strip().isdigit()
        if plain:
            run.append(term)
        else:
            flush()
            out.append(sign + term)
    flush()
    return "".join(out)


def _tree(terms: list[str]) -> str:
    """Return the sum of terms as a tree of brackets."""
    while len(terms) > _SHORT_SUM:
        parts = [terms[i : i + 8] for i in range(0, len(terms), 8)]
        terms = [p[0] if len(p) == 1 else "(" + "+".join(p) + ")" for p in parts]
    return "+".join(terms)


def parse_expression(text: str, formula: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree of a factor and the back-ticked names in it."""
    code, names = without_ticked(text)
    problem = ""
    tree: ast.Expression | None = None
    try:
        tree = ast.parse(code.strip(), mode="eval")
    except SyntaxError as error:
        at = (error.offset or 1) - 1
        shown_code = f"{code[max(at - 200, 0) : at]} >>> {code[at : at + 200]}"
        for key, name in names.items():
            shown_code = shown_code.replace(key, f"`{name}`")
        problem = f"{error.msg} at position {at + 1}: {shown_code}{tick_hint(text)}"
    except (ValueError, RecursionError, MemoryError):
        problem = "it is too deeply nested, or holds a null byte"
    if tree is None:
        raise FormulaError(f'cannot read `{text}` in "{formula}"\n  {problem}')
    check_depth(tree.body, text)
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

#: Compiles a call in its place. The words of the language by name, filled by :func:`word`.
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
        f"{what} makes more than {MOST_TERMS} terms: use products of two, as in (x + z + w)**2"
    )


def refuse_powers_of_one(text: str) -> None:
    """Refuse ``x^2`` in a call, which is x alone, as in R; files that hold it are read."""
    place = _next_power(text, 0)
    while place is not None:
        start, stop, end, digits = place
        if text[start] not in "([{" and digits != "1":
            name, power = text[start:stop], digits[:20]
            raise FormulaError(
                f'"{text[:200]}": {name}^{power} crosses {name} with itself, which is {name} '
                f"alone. The power of a number is written I({name}**{power})"
            )
        place = _next_power(text, end)


def check_columns(widths: Sequence[Mapping[str, int]]) -> None:
    """Refuse terms of more columns than any fit can have, before they are written out.

    ``widths``: the least columns of the factors of each term, by text.
    """
    each = [math.prod(factors.values()) for factors in widths]
    if sum(each) > MOST_COLUMNS:
        term = widths[each.index(max(each))]
        named = ", ".join(f"{name}: {k}" for name, k in term.items())
        raise FormulaError(
            f"the formula has more than {MOST_COLUMNS} columns (its largest term: {named}): leave "
            f"products of factors out, as in {' + '.join(term)}, or join levels"
        )


def capped_powers(text: str, others: int = 0) -> str:
    """Return a formula with its powers of brackets written as products of sums.

    ``others``: how many factors ``.`` stands for.
    """
    factors = len(set(_NAME.findall(text))) + others
    at = 0
    while True:
        next_power = _next_power(text, at)
        if next_power is None:
            return text
        start, stop, end, digits = next_power
        power = min(int(digits) if len(digits) < 7 else factors, factors)
        if power > 2 and subsets(factors, power) > MOST_TERMS:
            raise too_many_terms(f"a power of {factors} factors")
        if power == int(digits[:7]) <= 2 and len(digits) < 7:  # as it is
            at = end
            continue
        bracket = text[start:stop]
        if len(text) + power * len(bracket) > _LONGEST:
            raise FormulaError("powers of powers of brackets: one power says the same")
        text = text[:start] + "(" + ":".join([bracket] * max(power, 1)) + ")" + text[end:]
        at = start


def _next_power(text: str, at: int) -> tuple[int, int, int, str] | None:
    """Return (start, end of the bracket, end of the power, its digits) of the next power.

    Only brackets of the formula count. The content of a call, of braces and of quotes is
    arithmetic.
    """
    opened: list[tuple[int, bool]] = []  # place, and whether what is inside is arithmetic
    quoted = ""
    for i, sign in enumerate(text):
        inside = bool(opened) and opened[-1][1]
        if quoted:
            quoted = "" if sign == quoted else quoted
        elif sign in "`'\"":
            quoted = sign
        elif (
            not inside and i >= at
            and not (i and (text[i - 1].isalnum() or text[i - 1] == "_"))  # it begins here
            and (name := _NAMED.match(text, i))
        ):  # fmt: skip
            return i, name.end(1), name.end(), name[2]
        elif sign in "([{":
            before = text[:i].rstrip()[-1:]
            call = sign != "(" or before.isalnum() or before in ("_", "`", ")", "]")
            opened.append((i, inside or call))
        elif sign in ")]}" and opened:
            start, arithmetic = opened.pop()
            match = None if arithmetic or i < at else _POWER.match(text, i + 1)
            if match is not None:
                return start, i + 1, match.end(), match[1]
    return None
