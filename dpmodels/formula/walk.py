"""Which raw columns a formula uses: our own walk over the expressions, before a schema exists."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping

from dpmodels.errors import FormulaError, did_you_mean
from dpmodels.formula.formulaic_terms import parse
from dpmodels.formula.functions import REGISTERED
from dpmodels.formula.refuse import refuse_r
from dpmodels.formula.syntax import literal, parse_expression
from dpmodels.variables import Levels, Text, Variable

#: names that stand for functions or modules when they are called or dotted, or for contrasts
_BINDING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
_WORDS = frozenset({"Treatment", "Sum", "Helmert", "Poly", "Diff"})
_MODULES = frozenset({"contr", "np", "numpy", "dp"})


def expressions(
    formula: str, available: Iterable[str] | None, engine: str = "formulaic"
) -> tuple[str, ...]:
    """Return the text of every factor of both sides, once each, in order."""
    parsed = parse(formula, available, engine)
    texts = [e for t in (*(parsed.lhs or ()), *parsed.rhs) for e, lit in t if not lit]
    return tuple(dict.fromkeys(texts))


def names_in(text: str, formula: str) -> Iterator[str]:
    """Yield the variables of one expression, in order of appearance (with repeats)."""
    if text.isidentifier() or not _looks_like_code(text):
        yield text
        return
    tree, quoted = parse_expression(text, formula)
    yield from _names(tree, quoted)


def _looks_like_code(text: str) -> bool:
    try:
        ast.parse(text.replace("`", "_"), mode="eval")
    except (SyntaxError, ValueError):
        return any(c in text for c in "()`+-*/<>=[]{}")
    return True


def _names(node: ast.AST, quoted: Mapping[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Name):
        name = quoted.get(node.id, node.id)
        if name not in _WORDS:
            yield name
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id not in _MODULES:  # np.log, but also a column with a dot too many
            yield from _names(node.value, quoted)
        return
    if isinstance(node, _BINDING):
        return  # refused when compiled; the names it binds are its own
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "Q" and node.args:
            quoted_name = literal(node.args[0])
            if isinstance(quoted_name, str):
                yield quoted_name
        if not isinstance(node.func, ast.Name):
            yield from _names(node.func, quoted)
        for argument in (*node.args, *(k.value for k in node.keywords)):
            yield from _names(argument, quoted)
        return
    for child in ast.iter_child_nodes(node):
        yield from _names(child, quoted)


def needed_variables(
    formula: str,
    available: Iterable[str] | None,
    *,
    engine: str = "formulaic",
    subset: str | None = None,
    weights: str | None = None,
    declared: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the raw columns a formula (with ``subset=`` and ``weights=``) uses.

    Parameters
    ----------
    formula : str
    available : iterable of str or None
        Public column names; ``.`` expands to them. ``None``: unknown, names are not checked.
    engine : {"formulaic", "patsy"}
    subset, weights : str, optional
        Further expressions whose variables are needed.
    declared : iterable of str
        Names that are known to be columns where ``available`` is None.

    Returns
    -------
    tuple of str
        Names in order of appearance, response first.

    Notes
    -----
    **Privacy.** Reads the text and the column names only.
    """
    known = None if available is None else tuple(available)
    texts = (formula, subset, weights)
    walk = _needed if all(isinstance(t, (str, type(None))) for t in texts) else _needed.__wrapped__
    return walk(formula, known, engine, subset, weights, frozenset(declared), tuple(REGISTERED))


@functools.lru_cache(maxsize=64)
def _needed(
    formula: str,
    known: tuple[str, ...] | None,
    engine: str,
    subset: str | None,
    weights: str | None,
    declared: frozenset[str],
    registered: tuple[str, ...],
) -> tuple[str, ...]:
    """Walk once: a call asks several times. What is a word depends on what was registered."""
    for text in (formula, subset, weights):
        refuse_r(text or "", {*(known or ()), *declared})
    texts = [*expressions(formula, known, engine), *(t for t in (subset, weights) if t)]
    quick = set(known or ())  # a column whose odd name reads like an expression is a column
    names = list(
        dict.fromkeys(n for t in texts for n in ([t] if t in quick else names_in(t, formula)))
    )
    if known is not None:
        for name in names:
            if name not in known:
                shown = ", ".join(map(str, known[:12])) + (", ..." if len(known) > 12 else "")
                where = _where(name, formula, {"subset": subset, "weights": weights})
                raise FormulaError(
                    f"{name!r} in {where} is not a column.{did_you_mean(name, known)} "
                    f"Columns: {shown}"
                )
    return tuple(names)


def _where(name: str, formula: str, others: Mapping[str, str | None]) -> str:
    """Say where a name stands that is no column: in the formula, or in which argument."""
    in_formula = re.search(rf"\b{re.escape(name)}\b", formula)
    for argument, text in others.items():
        if text and not in_formula and name in names_in(text, formula):
            return f"{argument}={text!r}"
    return f'"{formula}"'


def _calls(formula: str) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield (call, function, variable) of every call on a bare variable in a formula."""
    texts: tuple[str, ...] = ()
    with contextlib.suppress(FormulaError):  # the formula is read again, and refused, elsewhere
        texts = expressions(formula, ())
    for text in texts:
        parsed: tuple[ast.expr, dict[str, str]] | None = None
        with contextlib.suppress(FormulaError):
            parsed = parse_expression(text, formula)
        if parsed is None:
            continue
        for node in ast.walk(parsed[0]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if isinstance(first, ast.Name):
                    yield node, node.func.id, parsed[1].get(first.id, first.id)


def category_names(formula: str) -> tuple[str, ...]:
    """Return the variables that stand inside ``C()``, ``i()`` or ``hashed()``."""
    found = [name for _, word, name in _calls(formula) if word in ("C", "hashed", "i")]
    return tuple(dict.fromkeys(found))


def inline_variables(formula: str) -> dict[str, Variable]:
    """Return what the formula itself declares: ``C(x, levels=[...])`` and ``hashed(x, ...)``."""
    return dict(_inline(formula))


@functools.lru_cache(maxsize=64)
def _inline(formula: str) -> Mapping[str, Variable]:
    out: dict[str, Variable] = {}
    for node, word, name in _calls(formula):
        if word == "hashed":
            out.setdefault(name, Text())
        levels = [literal(k.value) for k in node.keywords if k.arg == "levels"]
        if word in ("C", "i") and levels and isinstance(levels[0], list):
            out[name] = Levels(levels[0])
    return out
