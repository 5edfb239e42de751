"""Linear hypotheses as they are typed: ``"age = 0, bmi = 2*children"`` to (L, q)."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown

__all__ = ["Hypothesis", "read_hypothesis"]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """``L b = q``.

    Attributes
    ----------
    L, q : (k, p), (k,) arrays
    labels : tuple of str
        One a row, as typed.
    """

    L: Array
    q: Array
    labels: tuple[str, ...]


def read_hypothesis(
    given: Any, names: Sequence[str], terms: Mapping[str, Sequence[int]]
) -> Hypothesis:
    """Return the hypothesis in a text, a list of names or texts, a matrix, or (matrix, values).

    Parameters
    ----------
    names : sequence of str
        Coefficients.
    terms : mapping
        Name of a term -> places of its coefficients: such a name tests them all.
    """
    if isinstance(given, str):
        parts = [_part(p, names, terms) for p in _split(given, names, terms)]
    elif isinstance(given, (list, tuple)) and given and all(isinstance(g, str) for g in given):
        parts = [_part(p, names, terms) for g in given for p in _split(g, names, terms)]
    else:
        return _matrix(given, names)
    rows = [row for part in parts for row in part]
    if not rows:
        raise RequestError(f"an empty hypothesis. For example {names[-1]!r}, or '{names[-1]} = 0'")
    L = np.array([row[0] for row in rows])
    if not np.abs(L).max(axis=1).all():
        raise RequestError(f"{shown(given)}: a part of it holds no coefficient after collecting")
    return Hypothesis(L, np.array([row[1] for row in rows]), tuple(row[2] for row in rows))


def _matrix(given: Any, names: Sequence[str]) -> Hypothesis:
    pair = isinstance(given, tuple) and len(given) == 2 and not np.isscalar(given[0])
    matrix, values = given if pair else (given, 0.0)
    failed, L, q = False, np.zeros((0, 0)), np.zeros(0)
    try:
        L = np.atleast_2d(np.asarray(matrix, dtype=float))
        q = np.array(np.broadcast_to(np.asarray(values, dtype=float), (len(L),)))
    except (TypeError, ValueError):
        failed = True
    if failed or L.ndim != 2 or L.shape[1] != len(names) or not np.isfinite(L).all():
        raise RequestError(
            f"a hypothesis is a text such as '{names[-1]} = 0', a list of names, or a matrix with "
            f"{len(names)} columns (with values: (matrix, values)); got {shown(given)}"
        )
    return Hypothesis(L, q, tuple(_words(row, names) for row in L))


def _words(row: Array, names: Sequence[str]) -> str:
    said = [
        name if w == 1 else f"-{name}" if w == -1 else f"{w:g}*{name}"
        for w, name in zip(row, names, strict=True)
        if w
    ]
    return " + ".join(said).replace("+ -", "- ") or "0"


def _marked(text: str, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Replace names, the longest first, by words that Python reads: ``C(g)[T.b]`` -> ``_v3``."""
    found: dict[str, str] = {}
    out, k = "", 0
    listed = sorted(known, key=len, reverse=True)
    while k < len(text):
        for j, name in enumerate(listed):
            for typed in (f"`{name}`", name):
                end = k + len(typed)
                whole = not (_wordy(text[k - 1 : k]) and _wordy(typed[0]))
                whole &= not (_wordy(text[end : end + 1]) and _wordy(typed[-1]))
                if whole and text.startswith(typed, k):
                    found[f"_v{j}_"] = name
                    out, k = f"{out}_v{j}_", end
                    break
            else:
                continue
            break
        else:
            out, k = out + text[k], k + 1
    return out, found


def _wordy(sign: str) -> bool:
    return bool(sign) and (sign.isalnum() or sign in "_.")


def _split(
    text: str, names: Sequence[str], terms: Mapping[str, Sequence[int]]
) -> list[tuple[str, dict[str, str], str]]:
    marked, found = _marked(text, [*names, *(t for t in terms if t not in names)])
    parts = [part for part in marked.split(",") if part.strip()]
    return [(part, found, _spoken(part, found)) for part in parts]


def _spoken(part: str, found: Mapping[str, str]) -> str:
    return re.sub(r"_v\d+_", lambda m: found[m.group()], part).strip()


def _part(
    given: tuple[str, dict[str, str], str], names: Sequence[str],
    terms: Mapping[str, Sequence[int]],
) -> list[tuple[Array, float, str]]:  # fmt: skip
    """Return the rows of one part: a term, an expression that is zero, or ``a = b = c``."""
    text, found, spoken = given
    sides = [side.strip() for side in text.replace("==", "=").split("=")]
    if any(not side for side in sides):
        raise RequestError(f"{spoken!r} cannot be read. For example '{names[-1]} = 0'")
    only = found.get(sides[0])
    if (
        only is not None
        and only in terms
        and only not in names
        and (len(sides) == 1 or sides[1:] == ["0"])
    ):
        return [(np.eye(len(names))[j], 0.0, f"{names[j]} = 0") for j in terms[only]]
    read = [_linear(side, found, names, spoken, terms) for side in sides]
    if len(read) == 1:
        read.append((np.zeros(len(names)), 0.0))
        spoken = f"{spoken} = 0"
    last, value = read[-1]
    return [(row - last, value - const, spoken) for row, const in read[:-1]]


def _linear(
    side: str, found: Mapping[str, str], names: Sequence[str], spoken: str,
    terms: Mapping[str, Sequence[int]],
) -> tuple[Array, float]:  # fmt: skip
    """Return (weights, constant) of a linear expression."""
    tree: Any = None
    try:
        tree = ast.parse(side, mode="eval").body
    except SyntaxError:
        tree = None
    if tree is None:
        raise _unreadable(spoken, names, terms)

    def walk(node: Any) -> tuple[Array, float]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return np.zeros(len(names)), float(str(node.value))
        if isinstance(node, ast.Name) and found.get(node.id) in names:
            return np.eye(len(names))[list(names).index(found[node.id])], 0.0
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            row, const = walk(node.operand)
            sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
            return sign * row, sign * const
        if isinstance(node, ast.BinOp):
            left, right = walk(node.left), walk(node.right)
            if isinstance(node.op, (ast.Add, ast.Sub)):
                sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
                return left[0] + sign * right[0], left[1] + sign * right[1]
            if isinstance(node.op, ast.Mult) and not (left[0].any() and right[0].any()):
                number, other = (left, right) if not left[0].any() else (right, left)
                return number[1] * other[0], number[1] * other[1]
            if isinstance(node.op, ast.Div) and not right[0].any() and right[1]:
                return left[0] / right[1], left[1] / right[1]
        if isinstance(node, ast.Name) and node.id in found:
            raise RequestError(
                f"{found[node.id]!r} is a term of several coefficients: name it alone, or one of "
                f"{', '.join(names[j] for j in terms[found[node.id]])}"
            )
        if isinstance(node, ast.Name):
            raise RequestError(
                f"no coefficient or term {node.id!r}.{did_you_mean(node.id, [*names, *terms])} "
                f"Coefficients: {', '.join(names)}"
            )
        raise _unreadable(spoken, names, terms)

    return walk(tree)


def _unreadable(
    spoken: str, names: Sequence[str], terms: Mapping[str, Sequence[int]]
) -> RequestError:
    hint = did_you_mean(spoken.partition("=")[0].strip(), [*names, *terms])
    return RequestError(
        f"{shown(spoken)} is not a linear hypothesis.{hint} Type a name, or for example "
        f"'{names[-1]} = 0' or '{names[-1]} = 2*{names[0]}'. Coefficients: {', '.join(names)}"
    )
