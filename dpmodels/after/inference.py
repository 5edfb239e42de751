"""Tests and intervals of released estimates, with an allowance for bounded bias."""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.after.moments import (
    SecondMoments,
    chi2_upper_tail,
    inverse_and_rank,
    orthonormal,
    regress,
    scaled_axes,
    score,
)
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.lazy import pd, special

#: Corners of the bias box are enumerated up to this many coefficients. Above, a bound is used.
_CORNERS = 12
#: Smallest p-value of which quantiles are taken.
SMALLEST = 1e-300


@dataclass(frozen=True)
class Wald:
    """A joint test: ``W = (Lb - q)'(L V L')^{-1}(Lb - q)``."""

    statistic: float
    df: int  # Rank of ``L V L'``
    pvalue: float
    noncentrality: float = 0.0  # Noncentrality from bounded bias, 0 without a bound
    free: float | None = None  # Denominator degrees of freedom of the reference

    @property
    def adjusted(self) -> float:
        """The quantile of the p-value: the statistic without a bound of the bias, else less.

        Where the p-value is too small for a number what is left after the largest bias.
        """
        from scipy.stats import f

        if self.noncentrality <= 0.0:
            return self.statistic
        if self.pvalue < SMALLEST:
            return max(math.sqrt(self.statistic) - math.sqrt(self.noncentrality), 0.0) ** 2
        if self.free is None:
            return float(special.chdtri(self.df, self.pvalue))
        return float(self.df * f.isf(self.pvalue, self.df, self.free))


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
    L: Array, b: Array, V: Array, q: Array | None = None, *, bias: Array | None = None,
    bias_of: Callable[[Array], Array | None] | None = None, free: float | None = None,
) -> Wald:  # fmt: skip
    """Return the Wald test of ``L b = q``, L (k, p); q is zero if left out.

    With bounds on the ``bias`` of b the reference is noncentral chi2; ``bias_of``: those of
    combinations (k, p) of b, where these are known to be smaller. ``free``: denominator degrees of
    freedom of a t or F reference.
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
        central = statistic if free is None else _as_normal(statistic, df, moved, free)
        return Wald(statistic, df, float(ncx2.sf(central, df, moved)), moved, free)
    if free is not None:
        return Wald(statistic, df, float(f.sf(statistic / df, df, free)), free=free)
    return Wald(statistic, df, chi2_upper_tail(statistic, df))


def _along(L: Array, spread: Array, bias_of: Callable[[Array], Array | None]) -> float:
    """Return a bound on ``d' spread^+ d``, d the bias of L b, by combinations of L b.

    ``sum_i (v_i'd)^2/lambda_i`` over the eigenvectors of the covariance, each at its bound.
    """
    values, axes = scaled_axes(spread)
    spread_out = values > values.max(initial=0.0) * 1e-12
    along = bias_of(axes[:, spread_out].T @ L)
    return math.inf if along is None else float(np.sum(along**2 / values[spread_out]))


def _as_normal(statistic: float, df: int, moved: float, free: float) -> float:
    """Return the noncentral chi2 that corresponds to ``statistic`` of an F reference.

    The factor is the ratio of the two central quantiles of the same p-value, as for an interval
    with a t reference (:func:`adjusted`).
    """
    from scipy.stats import f, ncx2

    low, high = 0.0, statistic
    for _ in range(60):
        middle = (low + high) / 2.0
        p = max(float(ncx2.sf(middle, df, moved)), SMALLEST)
        below = special.chdtri(df, p)
        stretched = middle * (df * f.isf(p, df, free) / below if below > 0.0 else 1.0)
        low, high = (middle, high) if stretched < statistic else (low, middle)
    return (low + high) / 2.0


def adjusted(x: Array, a: Array, free: float | None = None) -> Array:
    """Return the sizes z of adjusted statistics, ``P = P(|N(a, 1)| > x) = 2 P(N > z)``.

    x is the estimate over its standard error, a the bound of the bias over it (where 0 the size is
    x). ``free``: degrees of freedom of a t reference: an interval is then stretched by the ratio of
    the quantiles of t and normal at its level, and the size is one of t.
    """
    def normal(c: Array) -> Array:
        near = special.log_ndtr(a - c)
        with np.errstate(invalid="ignore"):  # a is NaN where nothing is known
            tail = np.logaddexp(near, special.log_ndtr(-a - c))
        log_p = np.minimum(tail, 0.0) - math.log(2.0)
        return np.asarray(np.maximum(-special.ndtri_exp(log_p), 0.0))

    if free is None:
        return np.asarray(np.where(a > 0.0, normal(x), x))

    def reference(z: Array) -> Array:
        return np.asarray(-special.stdtrit(free, np.maximum(special.ndtr(-z), SMALLEST)))

    low, high = np.zeros_like(x), np.array(x, dtype=float)
    for _ in range(60):
        middle = (low + high) / 2.0
        z = normal(middle)
        stretch = np.divide(reference(z), z, out=np.ones_like(z), where=z > 0.0)
        under = middle * stretch < x
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray(np.where(a > 0.0, reference(normal((low + high) / 2.0)), x))


def critical_value(a: Array, level: float) -> Array:
    """Return the ``level`` quantile of |N(a, 1)|, a >= 0, by bisection."""
    low = a + special.ndtri(level)
    high = a + special.ndtri((1.0 + level) / 2.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        under = special.ndtr(middle - a) - special.ndtr(-middle - a) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray((low + high) / 2.0)


# -- Linear hypotheses as they are typed: ``"age = 0, bmi = 2*children"`` to (L, q)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """``L b = q``."""

    # L, q: (k, p), (k,) arrays
    L: Array
    q: Array
    labels: tuple[str, ...]  # One per row, as typed


def read_hypothesis(
    hypothesis: Any, names: Sequence[str], terms: Mapping[str, Sequence[int]]
) -> Hypothesis:
    """Return the hypothesis in a text, a list of names or texts, a matrix, or (matrix, values).

    The name of a term tests all its coefficients, whose indices among the ``names`` are its value.
    """
    if isinstance(hypothesis, str):
        parts = [_part(p, names, terms) for p in _split(hypothesis, names, terms)]
    elif (
        isinstance(hypothesis, (list, tuple))
        and hypothesis
        and all(isinstance(g, str) for g in hypothesis)
    ):
        parts = [_part(p, names, terms) for g in hypothesis for p in _split(g, names, terms)]
    else:
        return _matrix(hypothesis, names)
    rows = [row for part in parts for row in part]
    if not rows:
        raise RequestError(f"an empty hypothesis. For example {names[-1]!r}, or '{names[-1]} = 0'")
    L = np.array([row[0] for row in rows])
    if not np.abs(L).max(axis=1).all():
        raise RequestError(
            f"{shown(hypothesis)}: a part of it holds no coefficient after collecting"
        )
    return Hypothesis(L, np.array([row[1] for row in rows]), tuple(row[2] for row in rows))


def _matrix(hypothesis: Any, names: Sequence[str]) -> Hypothesis:
    """Return the hypothesis L b = q of a matrix (or a pair of matrix and values), or refuse it."""
    pair = isinstance(hypothesis, tuple) and len(hypothesis) == 2 and not np.isscalar(hypothesis[0])
    matrix, values = hypothesis if pair else (hypothesis, 0.0)
    failed, L, q = False, np.zeros((0, 0)), np.zeros(0)
    try:
        L = np.atleast_2d(np.asarray(matrix, dtype=float))
        q = np.array(np.broadcast_to(np.asarray(values, dtype=float), (len(L),)))
    except (TypeError, ValueError):
        failed = True
    if failed or L.ndim != 2 or L.shape[1] != len(names) or not np.isfinite(L).all():
        raise RequestError(
            f"a hypothesis is a string such as '{names[-1]} = 0', a list of names, or a matrix "
            "with "
            f"{len(names)} columns (with values: (matrix, values)); got {shown(hypothesis)}"
        )
    return Hypothesis(L, q, tuple(_words(row, names) for row in L))


def _words(row: Array, names: Sequence[str]) -> str:
    """Return a linear combination as text, for example "x - 2*z"."""
    terms = [
        name if w == 1 else f"-{name}" if w == -1 else f"{w:g}*{name}"
        for w, name in zip(row, names, strict=True)
        if w
    ]
    return " + ".join(terms).replace("+ -", "- ") or "0"


def _marked(text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Replace names, the longest first, by words that Python reads: ``C(g)[T.b]`` -> ``_v3``."""
    marks: dict[str, str] = {}
    out, k = "", 0
    listed = sorted(names, key=len, reverse=True)
    while k < len(text):
        for j, name in enumerate(listed):
            for typed in (f"`{name}`", name):
                end = k + len(typed)
                is_word = not (_wordy(text[k - 1 : k]) and _wordy(typed[0]))
                is_word &= not (_wordy(text[end : end + 1]) and _wordy(typed[-1]))
                if is_word and text.startswith(typed, k):
                    marks[f"_v{j}_"] = name
                    out, k = f"{out}_v{j}_", end
                    break
            else:
                continue
            break
        else:
            out, k = out + text[k], k + 1
    return out, marks


def _wordy(sign: str) -> bool:
    return bool(sign) and (sign.isalnum() or sign in "_.")


def _split(
    text: str, names: Sequence[str], terms: Mapping[str, Sequence[int]]
) -> list[tuple[str, dict[str, str], str]]:
    """Return (text, marks of quoted names, text as typed) of each hypothesis between commas."""
    marked, marks = _marked(text, [*names, *(t for t in terms if t not in names)])
    parts = [part for part in marked.split(",") if part.strip()]
    typed = [re.sub(r"_v\d+_", lambda m: marks[m.group()], part).strip() for part in parts]
    return [(part, marks, spoken) for part, spoken in zip(parts, typed, strict=True)]


def _part(
    marked: tuple[str, dict[str, str], str], names: Sequence[str],
    terms: Mapping[str, Sequence[int]],
) -> list[tuple[Array, float, str]]:  # fmt: skip
    """Return the rows of one part: a term, an expression that is zero, or ``a = b = c``."""
    text, marks, spoken = marked
    sides = [side.strip() for side in text.replace("==", "=").split("=")]
    if any(not side for side in sides):
        raise RequestError(f"{spoken!r} cannot be read. For example '{names[-1]} = 0'")
    only = marks.get(sides[0])
    if (
        only is not None
        and only in terms
        and only not in names
        and (len(sides) == 1 or sides[1:] == ["0"])
    ):
        return [(np.eye(len(names))[j], 0.0, f"{names[j]} = 0") for j in terms[only]]
    read = [_linear(side, marks, names, spoken, terms) for side in sides]
    if len(read) == 1:
        read.append((np.zeros(len(names)), 0.0))
        spoken = f"{spoken} = 0"
    last, value = read[-1]
    return [(row - last, value - const, spoken) for row, const in read[:-1]]


def _linear(
    side: str, marks: Mapping[str, str], names: Sequence[str], spoken: str,
    terms: Mapping[str, Sequence[int]],
) -> tuple[Array, float]:  # fmt: skip
    """Return (weights, constant) of a linear expression."""
    tree: Any = None
    with contextlib.suppress(SyntaxError):
        tree = ast.parse(side, mode="eval").body
    if tree is None:
        raise _unreadable(spoken, names, terms)

    def walk(node: Any) -> tuple[Array, float]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return np.zeros(len(names)), float(str(node.value))
        if isinstance(node, ast.Name) and marks.get(node.id) in names:
            return np.eye(len(names))[list(names).index(marks[node.id])], 0.0
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
        if isinstance(node, ast.Name) and node.id in marks:
            raise RequestError(
                f"{marks[node.id]!r} is a term of several coefficients: name it alone, or one of "
                f"{', '.join(names[j] for j in terms[marks[node.id]])}"
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
    """Return the error for a text that is not a linear hypothesis."""
    hint = did_you_mean(spoken.partition("=")[0].strip(), [*names, *terms])
    return RequestError(
        f"{shown(spoken)} is not a linear hypothesis.{hint} Type a name, or for example "
        f"'{names[-1]} = 0' or '{names[-1]} = 2*{names[0]}'. Coefficients: {', '.join(names)}"
    )


# -- Allowance for bias: clipping, leverage, curvature (scoring/method.md, 4)
#
# A function of any linear combination of coefficients, not of single ones: bounds of a contrast, an
# adjusted mean or a prediction are far below the sum of those of its coefficients. Released numbers
# only. These constants are in the table of ``scoring/constants.md``.


#: Smallest allowance, in sds of the noise of scores. [N 81]
BASE_BIAS = 0.6
#: Largest part of the excess that may point in one direction. [N 50]
ONE_WAY = 0.45
#: The same over the root of the number of columns. [tried]
ONE_WAY_ROOT = 0.9
#: A step has not converged if it changes the scores of its rows by more than this part of C. [N 28]
SETTLED = 0.6


def one_way(r: int) -> float:
    """Return the part of the overflow that may point in one direction of r."""
    return min(ONE_WAY, ONE_WAY_ROOT / math.sqrt(r))


def read_only(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return float64 copies that cannot be written to; None stays None."""
    out = {k: None if v is None else np.array(v, dtype=float) for k, v in arrays.items()}
    for copy in out.values():
        if copy is not None:
            copy.setflags(write=False)
    return out


@dataclass(frozen=True, eq=False)
class Allowance:
    """The bias that an interval allows for, of linear functions of the step d."""

    scores: Array  # (r, r): maps the mean score to d
    H: Array  # (r, r): information per row, floored
    # least, far: lengths of a change of the mean score in any direction: at least, and by scores
    # beyond the second clip.
    least: float
    far: float = 0.0
    moved: Array | None = None  # (2, r): changes of the mean score by what two clips took
    every: float = 0.0  # Length of a change of d in any direction, by a step of unknown cause

    def bias(self, rows: Array) -> Array:
        """Return the bias allowance of linear functions of d (k, r)."""
        along = rows @ self.scores
        out, length = self.every * np.linalg.norm(rows, axis=1), np.linalg.norm(along, axis=1)
        sizes = 0.0 if self.moved is None else np.abs(along @ self.moved.T).sum(axis=1)
        out += np.maximum(length * self.least, sizes) + length * self.far
        return np.asarray(out)


@dataclass(frozen=True, eq=False)
class BiasBound:
    """The bias that a fit allows for, of any combination of its coefficients."""

    # (T, Allowance) of every chain of the fit, in the order of coefficients: T (p, r)
    # maps its step to them.
    parts: tuple[tuple[Array, Allowance], ...]

    def frozen(self) -> BiasBound:
        """Return a copy whose arrays cannot be written to."""
        parts = []
        for T, rule in self.parts:
            copies = read_only({"T": T, "scores": rule.scores, "H": rule.H, "moved": rule.moved})
            parts.append((copies.pop("T"), replace(rule, **copies)))
        return BiasBound(tuple(parts))

    def of(self, L: Array) -> Array:
        """Return (k,) bounds on the bias of combinations ``L b``, L (k, coefficients)."""
        out, first = np.zeros(len(L)), 0
        for T, allowance in self.parts:
            rows = L[:, first : first + len(T)] @ T
            moved = (rows != 0.0).any(axis=1)
            if moved.any():
                out[moved] += allowance.bias(rows[moved])
            first += len(T)
        return out


# -- Simple and partial correlations, two-stage least squares, components of a release.


@dataclass(frozen=True)
class Correlation:
    """A correlation with its errors; ``low`` and ``high`` are ends of an interval on atanh.

    ``se_privacy`` and ``se`` are on the scale of the correlation.
    """

    value: float
    se_privacy: float
    se: float
    low: float
    high: float


def correlation(m: SecondMoments, j: Array, l: Array, controls: Array, level: float) -> Correlation:
    """Return the correlation of the functionals j and l, given those of ``controls`` (2.4).

    ``controls``, (c + 1, k), holds the constant and the c controls.
    """
    fits = [regress(m, controls, x) for x in (j, l)]
    scale = [math.sqrt(max(f.rss, f.v * f.free)) for f in fits]
    u, w = fits[0].r / scale[0], fits[1].r / scale[1]
    rho = float(u @ m.Q @ w)
    inside = min(max(rho, -1.0 + 1e-9), 1.0 - 1e-9)
    S = (np.outer(u, w) + np.outer(w, u)) / 2.0
    S -= inside / 2.0 * (np.outer(u, u) + np.outer(w, w))
    noise = m.form_variance(S)
    free = max(m.n_eff - 3.0 - (len(controls) - 1), 1.0)
    unexplained = 1.0 - inside**2
    z = -float(special.ndtri((1.0 - level) / 2.0))
    half = z * math.sqrt(noise / unexplained**2 + 1.0 / free)
    middle = math.atanh(inside)
    return Correlation(
        rho,
        math.sqrt(noise),
        math.sqrt(noise + unexplained**2 / free),
        math.tanh(middle - half),
        math.tanh(middle + half),
    )


@dataclass(frozen=True, eq=False)
class TwoStage:
    """Two-stage least squares from a release."""

    b: Array  # (p,)
    # sampling, privacy: (p, p) arrays
    sampling: Array
    privacy: Array
    v: float
    free: float
    # tuple of (float, int, float): for each endogenous regressor the F of the excluded instruments
    # (Wald / q), q, p-value.
    first: tuple[tuple[float, int, float], ...]


def two_stage(
    m: SecondMoments, Bx: Array, Bz: Array, a: Array, endogenous: list[int], excluded: list[int]
) -> TwoStage:
    """Return two-stage least squares of ``a'w`` on ``Bx w`` with instruments ``Bz w`` (2.5).

    ``endogenous`` are rows of Bx, ``excluded`` rows of Bz.
    """
    (X, back), (Z, _) = orthonormal(Bx), orthonormal(Bz)
    Mz = Z @ m.Q @ Z.T
    Pi = np.linalg.solve(Mz, Z @ m.Q @ X.T)
    inverse = np.linalg.inv(Pi.T @ Z @ m.Q @ X.T)
    c = inverse @ Pi.T @ Z @ m.Q @ a
    r = a - X.T @ c
    Cn = m.score_noise(Z, r)
    free = max(m.n_eff - len(Bx), 1.0)
    # no trace term: at the instrumental fit r'Qr is not a minimum, its noise has mean zero
    rss = max(float(r @ m.Q @ r), math.sqrt(m.form_variance(np.outer(r, r))))
    v = rss / free
    side = back @ inverse @ Pi.T
    first = []
    for j in endogenous:
        stage = regress(m, Bz, Bx[j])
        L = np.eye(len(Bz))[excluded]
        relevance = wald(L, stage.b, stage.V)
        first.append((relevance.statistic / relevance.df, relevance.df, relevance.pvalue))
    return TwoStage(back @ c, v * side @ Mz @ side.T, side @ Cn @ side.T, v, free, tuple(first))


def anderson_rubin(
    m: SecondMoments, exogenous: Array, excluded: Array, x: Array, a: Array, level: float,
    centre: float, scale: float,
) -> tuple[tuple[float, float], ...]:  # fmt: skip
    """Return the Anderson-Rubin set of one endogenous coefficient, as intervals.

    All b0 at which the score test of the instruments in ``y - x b0`` on the exogenous regressors
    does not reject. The line is searched at ``centre + scale tan(t)``; ends by bisection. Empty,
    unbounded and split sets are possible and said as they are.
    """
    from scipy.stats import chi2

    top = float(chi2.ppf(level, len(excluded)))

    def inside(t: float) -> bool:
        b0 = centre + scale * math.tan(t)
        return score(m, exogenous, excluded, a - b0 * x).statistic <= top

    edge = math.pi / 2.0 - 1e-6
    grid = np.linspace(-edge, edge, 801)
    accepted = [inside(float(t)) for t in grid]
    out: list[tuple[float, float]] = []
    start: float | None = -math.inf if accepted[0] else None
    for k in range(1, len(grid)):
        if accepted[k] == accepted[k - 1]:
            continue
        low, high = float(grid[k - 1]), float(grid[k])
        for _ in range(50):
            middle = (low + high) / 2.0
            low, high = (middle, high) if inside(middle) == accepted[k - 1] else (low, middle)
        end = centre + scale * math.tan((low + high) / 2.0)
        if accepted[k]:
            start = end
        else:
            assert start is not None
            out.append((start, end))
            start = None
    if start is not None:
        out.append((start, math.inf))
    return tuple(out)


# -- Performance from released sums of held-out rows: AUC of binned scores, means with noise.


#: Areas that an interval is searched on; its ends lie a step outside.
_AREAS = 4001


@dataclass(frozen=True)
class Auc:
    """Area under the curve with its two errors."""

    value: float
    se_privacy: float
    se_sampling: float

    @property
    def se(self) -> float:
        """Total standard error."""
        return math.hypot(self.se_privacy, self.se_sampling)


def auc(n1: Array, n0: Array, tau: float) -> Auc:
    """Return the AUC of counts of events and others by bin of the score, lowest bin first.

    ``V10 = K n0/N0``, ``V01 = K'n1/N1``, K = 1 above, 1/2 in the same bin; noise by the delta
    method, sampling by DeLong on the bins. NaN where a class is not seen above its noise.
    """
    N1, N0 = float(n1.sum()), float(n0.sum())
    if min(N1, N0) <= 3.0 * tau * math.sqrt(len(n1)):
        return Auc(math.nan, math.nan, math.nan)
    k = len(n1)
    K = np.tril(np.ones((k, k)), -1) + 0.5 * np.eye(k)
    V10, V01 = K @ n0 / N0, K.T @ n1 / N1
    value = float(n1 @ V10) / N1
    noise = tau**2 * (np.sum((V10 - value) ** 2) / N1**2 + np.sum((V01 - value) ** 2) / N0**2)
    seen1, seen0 = np.maximum(n1, 0.0), np.maximum(n0, 0.0)
    S10 = float(seen1 @ (V10 - value) ** 2) / N1
    S01 = float(seen0 @ (V01 - value) ** 2) / N0
    return Auc(value, math.sqrt(noise), math.sqrt(S10 / N1 + S01 / N0))


def auc_set(n1: Array, n0: Array, tau: float, z: float) -> tuple[float, float]:
    """Return the ends of the set of areas A that released counts do not reject, in [0, 1].

    ``D(A) = n1'(K - A) n0`` has mean 0 at the true A, and no division by a noisy class; its
    variance is ``sum_i (n1_i + tau^2) a_i^2 + sum_j (n0_j + tau^2) b_j^2``, a = (K - A) n0, b =
    (K - A)' n1: DeLong's sampling part and the noise. The set is right however few events there
    are; with very few it is all of [0, 1].
    """
    k = len(n1)
    K = np.tril(np.ones((k, k)), -1) + 0.5 * np.eye(k)
    A = np.linspace(0.0, 1.0, _AREAS)
    above, below = K @ n0, K.T @ n1
    gap = n1 @ above - A * n1.sum() * n0.sum()
    a, b = above[:, None] - A * n0.sum(), below[:, None] - A * n1.sum()
    spread1, spread0 = np.maximum(n1, 0.0) + tau**2, np.maximum(n0, 0.0) + tau**2
    variance = spread1 @ a**2 + spread0 @ b**2
    accepted = A[gap**2 <= z * z * variance]
    if not len(accepted):  # narrower than the grid
        accepted = A[[int(np.argmin(np.abs(gap)))]]
    step = 1.0 / (_AREAS - 1)
    return max(float(accepted[0]) - step, 0.0), min(float(accepted[-1]) + step, 1.0)


def roc(n1: Array, n0: Array) -> tuple[Array, Array]:
    """Return (false, true) positive rates from the strictest threshold to none, made monotone."""
    rates = []
    for counts in (n0, n1):
        above = np.append(0.0, np.cumsum(counts[::-1]))
        total = max(float(above[-1]), 1.0)
        rates.append(np.clip(np.maximum.accumulate(above) / total, 0.0, 1.0))
    return rates[0], rates[1]


#: Least probability whose log odds are looked at.
LEAST_SHOWN = 1e-9


def of_classes(
    levels: Sequence[Any], p: Array, se: Array, half: Array, index: Any, *, interval: str | None,
    se_fit: bool,
) -> Any:  # fmt: skip
    """Return ``class, fit, lwr, upr, se_fit`` of probabilities p (m, K), a row for each.

    ``se`` and the half widths ``half`` are of log odds, in which intervals are symmetric.
    """
    odds = np.clip(p, LEAST_SHOWN, 1.0 - LEAST_SHOWN)
    columns: dict[str, Any] = {"class": np.tile(levels, len(p)), "fit": p.ravel()}
    if interval is not None:
        for name, end in (("lwr", -half), ("upr", half)):
            columns[name] = 1.0 / (1.0 + (1.0 / odds - 1.0) * np.exp(-end)).ravel()
    if se_fit:
        columns["se_fit"] = (se * odds * (1.0 - odds)).ravel()
    rows = np.arange(len(p)) if index is None else np.asarray(index)
    return pd.DataFrame(columns, index=np.repeat(rows, p.shape[1]))
