"""Plain formulas, read and laid out here: formulaic takes longer to import than most fits to run.

Plain is a sum of names, calls, ``a:b`` and ``a * b``, with ``+ 0`` and ``- 1``:

    formula  = [sum] "~" sum  |  sum
    sum      = operand (("+" | "-") operand)*
    operand  = "0" | "1" | product          "0" only added, never the operand of "-"
    product  = span ("*" span)*             a * b = a + b + a:b
    span     = factor (":" factor)*
    factor   = name | name "(" arguments ")"

Whatever else stands in a formula (powers, nesting, brackets, quotes, ``.``, numbers that scale a
term, two operators in a row), and whatever cannot be read, is not plain: :func:`plain_terms`
returns None and formulaic reads it, with its own words for what is wrong. What both read, they
read alike: the same terms, in the same order, under the same names (tested on thousands).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpmodels.formula.nodes import Factor, Node
from dpmodels.formula.syntax import MOST_TERMS, too_many_terms

#: (text, is a number) of each factor of a term
TermText = tuple[tuple[str, bool], ...]
#: The terms of a part of a formula by what makes terms equal: their factors, in any order.
_Terms = dict[frozenset[tuple[str, bool]], TermText]

_ONE: TermText = (("1", True),)
#: A call's head up to its bracket, a name, a number, an operator; blanks before it.
_TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*)(\()?|([01])(?![\w.])|([-+*:~](?!\*)))", re.ASCII)
#: What may stand between the brackets of a call: no quotes and no other brackets.
_INSIDE = re.compile(r"[\w\s.,+\-*/<>=()]*", re.ASCII)
#: An operator to formulaic, though it reads like a name.
_WORDS = frozenset({"in"})


@dataclass(frozen=True)
class Parsed:
    """Terms of both sides, in order; ``lhs`` is ``None`` for a one-sided formula."""

    lhs: tuple[TermText, ...] | None
    rhs: tuple[TermText, ...]


@dataclass(frozen=True)
class Part:
    """One scoped product of a term: a constant times factors, each in full or reduced coding."""

    scale: float
    factors: tuple[tuple[str, bool], ...]  # (text, reduced)


@dataclass(frozen=True)
class TermLayout:
    """Columns of one term, as formulaic lays them out."""

    name: str
    parts: tuple[Part, ...]
    columns: tuple[str, ...]


# -- parse ---------------------------------------------------------------------------------


class _NotPlain(Exception):
    """The formula is left to formulaic."""


def plain_terms(text: str, by_degree: bool) -> Parsed | None:
    """Return the terms of a plain formula, or None.

    Parameters
    ----------
    text : str
    by_degree : bool
        Terms of fewer factors first, as R orders them; else as they were written.
    """
    tokens: list[tuple[str, str]] = []
    try:
        tokens = list(_tokens(text))
        tildes = [i for i, token in enumerate(tokens) if token == ("op", "~")]
        if len(tildes) > 1:
            return None
        left = tokens[: tildes[0]] if tildes else []
        right = tokens[tildes[0] + 1 :] if tildes else tokens
        if any(kind == "number" for kind, _ in left):
            return None
        lhs = _sum(left, {}) if left else None
        rhs = _sum(right, {frozenset(_ONE): _ONE})
    except _NotPlain:
        return None
    return Parsed(None if lhs is None else _ordered(lhs, by_degree), _ordered(rhs, by_degree))


def _ordered(terms: _Terms, by_degree: bool) -> tuple[TermText, ...]:
    found = list(terms.values())
    if by_degree:  # stable: as written among terms of one degree; a constant has none
        found.sort(key=lambda term: sum(not number for _, number in term))
    return tuple(found)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text): "factor", "number" or "op"."""
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _NotPlain
        at = found.end()
        name, bracket, number, operator = found.groups()
        if number:
            yield "number", number
        elif operator:
            yield "op", operator
        elif name in _WORDS or text[at : at + 1] == ".":
            raise _NotPlain
        elif bracket:
            start, at = found.start(1), _closed(text, at)
            yield "factor", _call(text[start:at])
        else:
            yield "factor", name


def _closed(text: str, at: int) -> int:
    """Return the place after the bracket that closes a call whose arguments start at ``at``."""
    inside = _INSIDE.match(text, at)
    assert inside is not None  # it matches the empty text
    depth = 1
    for place in range(at, inside.end()):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise _NotPlain


def _call(text: str) -> str:
    """Return a call as Python writes it: so are equal calls of different spacing one factor."""
    try:
        return ast.unparse(ast.parse(text, mode="eval")).replace("\n", " ")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _NotPlain from None


def _sum(tokens: Sequence[tuple[str, str]], terms: _Terms) -> _Terms:
    """Add and take away the terms of a part, from left to right."""
    places = [i for i, (kind, text) in enumerate(tokens) if kind == "op" and text in "+-"]
    signed = list(tokens) if places[:1] == [0] else [("op", "+"), *tokens]
    while signed:
        sign = signed[0][1]
        stop = 1
        while stop < len(signed) and signed[stop] not in (("op", "+"), ("op", "-")):
            stop += 1
        operand, signed = signed[1:stop], signed[stop:]
        if operand == [("number", "0")]:  # no constant
            if sign == "-":
                raise _NotPlain
            terms.pop(frozenset(_ONE), None)
            continue
        found = {frozenset(_ONE): _ONE} if operand == [("number", "1")] else _product(operand)
        for key, term in found.items():
            if sign == "-":
                terms.pop(key, None)
            else:
                terms.setdefault(key, term)
    return terms


def _product(tokens: Sequence[tuple[str, str]]) -> _Terms:
    """Return ``a * b * c``: the terms of both sides, then all their products, from the left."""
    made: _Terms = {}
    for k, group in enumerate(_split(tokens, "*")):
        factors = [text for kind, text in group if kind == "factor"]
        if [kind for kind, _ in group] != ["factor", *["op", "factor"] * (len(factors) - 1)]:
            raise _NotPlain  # an operator without an operand, an operand without an operator
        span = tuple(dict.fromkeys((text, False) for text in factors))
        if k == 0:
            made = {frozenset(span): span}
            continue
        both = [*made.values(), span]
        for before in list(made.values()):
            both.append(tuple(dict.fromkeys((*before, *span))))
        made = {}
        for term in both:
            made.setdefault(frozenset(term), term)
        if len(made) > MOST_TERMS:
            raise too_many_terms("a product with *")
    return made


def _split(tokens: Sequence[tuple[str, str]], operator: str) -> list[list[tuple[str, str]]]:
    """Return the runs between an operator."""
    runs = itertools.groupby(tokens, key=lambda token: token == ("op", operator))
    parts = [(cut, list(run)) for cut, run in runs]
    if any(cut and len(run) > 1 for cut, run in parts) or not parts or parts[0][0] or parts[-1][0]:
        raise _NotPlain
    return [run for cut, run in parts if not cut]


# -- layout --------------------------------------------------------------------------------


def plain_layout(
    terms: Sequence[TermText], factors: Mapping[str, Factor]
) -> tuple[TermLayout, ...] | None:
    """Return one column a term where every factor is a number, or None.

    Nothing is coded then, so nothing can be reduced: a term is the product of its factors.
    """
    plain = all(isinstance(f, Node) for f in factors.values())
    if not plain or any(number and len(term) > 1 for term in terms for _, number in term):
        return None

    def one(term: TermText) -> TermLayout:
        if term == _ONE:
            return TermLayout("Intercept", (Part(1.0, ()),), ("Intercept",))
        name = ":".join(text for text, _ in term)
        return TermLayout(name, (Part(1.0, tuple((text, False) for text, _ in term)),), (name,))

    made: Any = tuple(map(one, terms))
    return made  # type: ignore[no-any-return]
