"""Wald tests and intervals of linear combinations, with an allowance for bounded bias."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.after.regression import chi2_upper_tail, inverse_and_rank, scaled_axes
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown

#: Corners of the bias box are counted up to so many coefficients; beyond, a bound stands for them.
_CORNERS = 12


@dataclass(frozen=True)
class Wald:
    """A joint test: ``W = (Lb - q)'(L V L')^{-1}(Lb - q)``.

    Attributes
    ----------
    statistic : float
    df : int
        Rank of ``L V L'``.
    pvalue : float
    noncentrality : float
        What bounded bias may add; 0 without a bound.
    """

    statistic: float
    df: int
    pvalue: float
    noncentrality: float = 0.0


def noncentrality(L: Array, inverse: Array, bias: Array) -> float:
    """Return the largest ``d' inverse d`` over d = L c, ``|c_j| <= bias_j``.

    A convex function is largest at a corner of the box. Beyond 12 coefficients the triangle
    inequality bounds it: ``(sum_j bias_j |L_j|)^2`` in the norm of ``inverse``.
    """
    moved = np.flatnonzero((bias > 0) & (np.abs(L).max(axis=0) > 0))
    if not len(moved):
        return 0.0
    D = L[:, moved] * bias[moved]
    if len(moved) > _CORNERS:
        lengths = np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", D, inverse, D), 0.0))
        return float(lengths.sum() ** 2)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(moved) - 1)))
    corners = D @ np.column_stack([np.ones(len(signs)), signs]).T
    return float(np.einsum("ic,ij,jc->c", corners, inverse, corners).max())


def wald(
    L: Array,
    b: Array,
    V: Array,
    q: Array | None = None,
    *,
    bias: Array | None = None,
    bias_of: Callable[[Array], Array | None] | None = None,
    free: float | None = None,
) -> Wald:
    """Return the Wald test of ``L b = q``.

    Parameters
    ----------
    L, b, V : (k, p), (p,), (p, p) arrays
    q : (k,) array, optional
        Zero if left out.
    bias : (p,) array, optional
        Bounds on the bias of b: the reference is then noncentral chi2.
    bias_of : function, optional
        Bounds of combinations (k, p) of b, where these are known to be smaller.
    free : float, optional
        Denominator degrees of freedom of a t or F reference.
    """
    from scipy.stats import f, ncx2

    d = L @ b - (0.0 if q is None else q)
    spread = L @ V @ L.T
    inverse, df = inverse_and_rank(spread)
    statistic = float(d @ inverse @ d)
    moved = 0.0 if bias is None else noncentrality(L, inverse, bias)
    if moved > 0.0 and bias_of is not None:
        moved = min(moved, _along(L, spread, bias_of))
    if moved > 0:
        return Wald(statistic, df, float(ncx2.sf(statistic, df, moved)), moved)
    if free is not None:
        return Wald(statistic, df, float(f.sf(statistic / df, df, free)))
    return Wald(statistic, df, chi2_upper_tail(statistic, df))


def _along(L: Array, spread: Array, bias_of: Callable[[Array], Array | None]) -> float:
    """Return a bound on ``d' spread^+ d``, d the bias of L b, by combinations of L b.

    ``sum_i (v_i'd)^2/lambda_i`` over the eigenvectors of the covariance, each at its own bound.
    """
    values, axes = scaled_axes(spread)
    some = values > values.max(initial=0.0) * 1e-12
    along = bias_of(axes[:, some].T @ L)
    return math.inf if along is None else float(np.sum(along**2 / values[some]))


def critical_value(a: Array, level: float) -> Array:
    """Return the ``level`` quantile of |N(a, 1)|, a >= 0, by bisection."""
    from scipy.special import ndtr, ndtri

    low = a + ndtri(level)
    high = a + ndtri((1.0 + level) / 2.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        under = ndtr(middle - a) - ndtr(-middle - a) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray((low + high) / 2.0)


# -- Linear hypotheses as they are typed: ``"age = 0, bmi = 2*children"`` to (L, q)


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
