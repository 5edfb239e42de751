"""A formula on a noised table: each design column as a linear function of the released ones.

Noise was added to the released columns, so a formula may use them linearly; terms that were
released as separate columns ("log(x)") are found by name, and terms of public columns alone
may be anything. The noise covariance of the model columns is then B diag(lambda^2) B'.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import FormulaError, RequestError
from dpmodels.formula.design import Design
from dpmodels.formula.program import Block
from dpmodels.formula.reading import coerce
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import Basis, Cat, Node, parse_expression
from dpmodels.models.noised.table import NoisyTable
from dpmodels.variables import Levels, Real, Text

_MANY_LEVELS = 1000


@dataclass(frozen=True)
class Model:
    """Released data in the coordinates of a model."""

    X: Array  # (n, p)
    y: Array  # (n,)
    # (B, p + 1, p + 1): noise covariance of (x, y), a block of the release; zero rows for public
    # columns.
    K: Array
    clear_prob: float
    noise: str
    names: tuple[str, ...]
    weights: Array | None = None  # (n,)

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.y)

    @property
    def p(self) -> int:
        """Coefficients."""
        return int(self.X.shape[1])

    @property
    def noisy_y(self) -> bool:
        """Whether the response was noised."""
        return bool(self.K[:, -1, -1].sum() > 0)

    @property
    def total(self) -> Array:
        """Noise covariance of (x, y), all blocks."""
        return np.asarray(self.K.sum(axis=0))


def schema_of(rel: NoisyTable) -> Schema:
    """Return the schema that a formula on the release may assume.

    A public column without a declaration is described by its public values.
    """
    out: dict[str, Any] = dict(rel.schema.variables)
    for name, column in rel.public.items():
        if name in rel.schema and (
            not rel.schema[name].numeric or rel.schema[name].interval is not None
        ):
            continue
        out[name] = _describe(column)
    return Schema(**out)


def _describe(column: npt.NDArray[Any]) -> Any:
    """Return the declaration of a public column by its cells."""
    if column.dtype.kind in "iufb":
        finite = column[np.isfinite(column.astype(float))].astype(float)
        lo, hi = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        return Real(lo, hi if hi > lo else lo + 1.0)
    levels = sorted({str(v) for v in column.tolist()})
    return Levels(levels) if 2 <= len(levels) <= _MANY_LEVELS else Text()


class _Matcher:
    """Maps of one release: names, factor indicators, public cells."""

    def __init__(self, design: Design, rel: NoisyTable) -> None:
        self.design, self.rel = design, rel
        self.d = rel.d
        self.at = {name: j for j, name in enumerate(rel.names)}
        self.public = frozenset(rel.public)
        self._filled: Array | None = None

    # -- linear functions of released columns: (coefficients (d,), constant) ----------------
    def unit(self, name: str) -> Array:
        """Return the map that picks a released column."""
        out = np.zeros(self.d + 1)
        out[self.at[name]] = 1.0
        return out

    def indicators(self, variable: str) -> Array | None:
        """Return the (levels, d + 1) map from released dummies to level indicators."""
        schema = self.rel.schema
        declared = schema.variables.get(variable)
        if not isinstance(declared, Levels):
            return None
        levels = declared.levels
        rows: list[Array | None] = []
        for level in levels:
            for name in (f"{variable}[T.{level}]", f"{variable}[{level}]"):
                if name in self.at:
                    rows.append(self.unit(name))
                    break
            else:
                rows.append(None)
        absent = [k for k, r in enumerate(rows) if r is None]
        if len(absent) > 1 or len(absent) == len(rows):
            return None
        if absent:
            remaining = np.append(np.zeros(self.d), 1.0)
            for r in rows:
                if r is not None:
                    remaining -= r
            rows[absent[0]] = remaining
        return np.asarray(np.array(rows), dtype=float)

    def affine(self, text: str) -> Array | None:
        """Return the map of an expression that is affine in released columns, else None."""
        tree, quoted = parse_expression(text, self.design.formula)
        return self._affine(tree, quoted)

    def _affine(self, node: ast.expr, quoted: Mapping[str, str]) -> Array | None:
        """Return an expression as an affine function of the released columns, or None."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return np.append(np.zeros(self.d), float(node.value))
        if isinstance(node, ast.Name):
            name = quoted.get(node.id, node.id)
            return self.unit(name) if name in self.at else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "I" and len(node.args) == 1 and not node.keywords:
                return self._affine(node.args[0], quoted)
            return None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            inner = self._affine(node.operand, quoted)
            return None if inner is None else -inner if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.BinOp):
            return _combined(
                node.op, self._affine(node.left, quoted), self._affine(node.right, quoted)
            )
        return None

    # -- public cells ----------------------------------------------------------------------
    def filled(self) -> Array:
        """Return the design buffer (q, n) filled from public columns; other rows mean nothing."""
        if self._filled is None:
            chunk = {}
            for name, variable in self.design.kinds.items():
                if name in self.public:
                    chunk[name] = coerce(self.rel.public[name], variable)
                elif isinstance(variable, (Levels, Text)):
                    chunk[name] = np.zeros(self.rel.n, dtype=np.int32)
                else:
                    chunk[name] = np.zeros(self.rel.n)
            out = np.empty((self.design.q, self.rel.n))
            assert self.design.program is not None
            block = Block(chunk, self.rel.n, self.design.program.rules)
            with np.errstate(all="ignore"):
                self.design.program._predictors(block, out, True)
                if self.design.program.response is not None:
                    self.design.program._response(block, out[-1])
            self._filled = out
        return self._filled

    def evaluate(self, node: Node, what: str) -> Array:
        """Return a public expression (subset, weights, offset)."""
        if not node.variables <= self.public:
            hidden = sorted(node.variables - self.public)
            raise RequestError(
                f"{what}= on a release may use public columns only, and {hidden[0]!r} was noised. "
                "Selecting or weighting by noisy cells biases every estimate. Release a column "
                f"with public_columns=[{hidden[0]!r}] if it needs no protection"
            )
        assert self.design.program is not None
        chunk = {v: coerce(self.rel.public[v], self.design.kinds[v]) for v in node.variables}
        block = Block(chunk, self.rel.n, self.design.program.rules)
        with np.errstate(all="ignore"):
            return block.values(node)

    def refuse(self, text: str) -> FormulaError:
        """Return the refusal of a term, with the release to ask for instead."""
        names = ", ".join(self.rel.names)
        return FormulaError(
            f'term `{text}` in "{self.design.formula}"\n'
            "  it is not linear in the released columns: noise was added to those, and a function "
            "of a noised column is not the noised function.\n"
            f"  Release it as a column of its own: dp_release(data, columns=[..., {text!r}], ...); "
            "its range follows from the declared ones.\n"
            f"  Released columns: {names}"
        )


def _combined(op: ast.operator, a: Array | None, b: Array | None) -> Array | None:
    """Return the affine map of ``a op b``, or None if that is not affine."""
    if a is None or b is None:
        return None
    if isinstance(op, ast.Add):
        return a + b
    if isinstance(op, ast.Sub):
        return a - b
    if isinstance(op, ast.Mult) and (not a[:-1].any() or not b[:-1].any()):
        return a * b[-1] if not b[:-1].any() else b * a[-1]
    if isinstance(op, ast.Div) and not b[:-1].any() and b[-1] != 0:
        return np.asarray(a / b[-1])
    return None


def _column_maps(design: Design, m: _Matcher) -> tuple[list[Array | None], list[bool]]:
    """Return for each predictor column its map (None: public), and whether it is public."""
    program = design.program
    assert program is not None
    maps: list[Array | None] = [None] * design.p
    public = [False] * design.p
    for product in program.products:
        variables: set[str] = set().union(*(a.source.variables for a in product.atoms))
        rows = range(product.start, product.start + product.width)
        if not variables:
            for j in rows:
                maps[j] = np.append(np.zeros(m.d), product.scale)
            continue
        if variables <= m.public:
            for j in rows:
                public[j] = True
            continue
        single = product.atoms[0] if product.single else None
        indicator = None
        if single is not None and isinstance(single.source, Cat) and single.matrix is not None:
            if len(variables) == 1:
                indicator = m.indicators(next(iter(variables)))
            if indicator is not None and len(indicator) != len(single.matrix):
                indicator = None
        for k, j in enumerate(rows):
            name = design.columns[j].name
            if name in m.at:
                maps[j] = m.unit(name)
            elif indicator is not None:
                assert single is not None
                maps[j] = np.asarray(single.matrix[:, k] @ indicator)
            elif single is not None and isinstance(single.source, Node):
                maps[j] = m.affine(single.names[0])
            if maps[j] is None:
                basis = single is not None and isinstance(single.source, Basis)
                raise m.refuse(design.columns[j].term if basis else name)
    return maps, public


def _response_map(design: Design, m: _Matcher) -> Array | None:
    """Return the map of the response; None if it is public."""
    program = design.program
    assert program is not None
    assert design.response is not None
    source = program.response
    assert source is not None
    if set(source.variables) <= m.public:
        return None
    name = design.response.name
    if name in m.at:
        return m.unit(name)
    if len(source.variables) == 1 and design.response.kind == "event" and len(design.levels) == 2:
        variable = next(iter(source.variables))
        indicator = m.indicators(variable)
        if indicator is not None and design.levels[1] in m.rel.schema[variable].codes:
            return np.asarray(indicator[m.rel.schema[variable].codes.index(design.levels[1])])
    response = m.affine(name) if isinstance(source, Node) else None
    if response is None:
        raise m.refuse(name)
    return response


def _covariance(maps: Array, rel: NoisyTable) -> Array:
    """Return (B, p + 1, p + 1): B_b diag(lambda^2) B_b' for each block of the release."""
    variance = np.asarray(rel.noise_sd) ** 2
    blocks = []
    for block in rel.blocks:
        index = list(block)
        part = maps[:, index]
        if part.any():
            blocks.append((part * variance[index]) @ part.T)
    return np.array(blocks).reshape(-1, len(maps), len(maps))


def model_of(design: Design, rel: NoisyTable) -> Model:
    """Return the released data in the coordinates of a design compiled by :func:`schema_of`."""
    program = design.program
    assert program is not None
    m = _Matcher(design, rel)
    maps, public = _column_maps(design, m)
    response = _response_map(design, m)
    n, p = rel.n, design.p
    X = np.empty((n, p), order="F")
    full = np.zeros((p + 1, rel.d))
    for j, row in enumerate(maps):
        if row is None:
            X[:, j] = m.filled()[j]
            continue
        X[:, j] = _apply(row, rel.values)
        full[j] = row[:-1]
    if response is None:
        y = m.filled()[-1].copy()
    else:
        y = _apply(response, rel.values)
        full[p] = response[:-1]
        if program.offset is not None:
            y = y - m.evaluate(program.offset, "offset")
    weights = None
    if program.weights is not None:
        weights = m.evaluate(program.weights, "weights")
    if program.subset is not None:
        in_subset = m.evaluate(program.subset, "subset") == 1.0
        X, y = X[in_subset], y[in_subset]
        weights = None if weights is None else weights[in_subset]
        if not len(y):
            raise RequestError("subset= keeps no row")
    bad = np.isnan(y).any() or any(public[j] and np.isnan(X[:, j]).any() for j in range(p))
    if bad:
        raise RequestError(
            "a public column used by the formula has missing cells; fill them, or select complete "
            "rows with subset="
        )
    if weights is not None and not (weights >= 0).all():
        raise RequestError("weights= must not be negative")
    return Model(X, y, _covariance(full, rel), rel.clear_prob, rel.noise, design.names, weights)


def _apply(row: Array, values: Array) -> Array:
    """Return an affine function of the released columns, without copies where it is one column."""
    hit = np.flatnonzero(row[:-1])
    if len(hit) == 1 and row[hit[0]] == 1.0 and row[-1] == 0.0:
        return np.asarray(values[hit[0]], dtype=float)
    out = np.full(values.shape[1], row[-1])
    for j in hit:
        out += row[j] * values[j]
    return out


# -- Sums over rows that Newton's method needs of a corrected loss.
#
# A loss gives its terms row by row (``Terms``); what the optimiser uses of
# most of them are sums only, which a loss may know more cheaply.


@dataclass(frozen=True)
class Terms:
    """One loss at m rows: value and derivatives in eta and in q = (q_1, ..., q_B)."""

    # c, e: (m,) arrays; C and C_eta.
    c: Array
    e: Array
    q: Array  # (B, m): C_q
    ee: Array | None = None  # (m,)
    eq: Array | None = None  # (B, m)
    # (B, B): mean-ready: weighted means over rows are taken with ``weights`` at evaluation.
    qq: Array | None = None


@dataclass(frozen=True)
class Sums:
    """Weighted sums over rows of one loss, B blocks of noise, p coefficients."""

    value: float  # Of C
    grad: Array  # (p,): of C_eta x
    q: Array  # (B,): of C_q
    hess: Array  # (p, p): of C_eta_eta x x'; empty without second derivatives, as are the next two
    cross: Array  # (B, p): of C_eta_q x
    qq: Array  # (B, B): of C_q_q

    def plus(self, other: Sums, factor: float) -> Sums:
        """Return ``self + factor * other``."""
        return Sums(
            self.value + factor * other.value,
            self.grad + factor * other.grad,
            self.q + factor * other.q if len(other.q) else self.q,
            self.hess + factor * other.hess,
            self.cross + factor * other.cross if len(other.cross) else self.cross,
            self.qq + factor * other.qq if len(other.qq) else self.qq,
        )

    @classmethod
    def zero(cls, p: int, blocks: int, *, second: bool) -> Sums:
        """Return the empty sum."""
        b, k = (blocks, p) if second else (0, 0)
        return cls(
            0.0, np.zeros(p), np.zeros(blocks), np.zeros((k, k)), np.zeros((b, k)),
            np.zeros((b, b)),
        )  # fmt: skip


def sums_of(terms: Terms, x: Array, w: Array, *, second: bool) -> Sums:
    """Return the sums of terms over rows x (m, p) with weights w (m,)."""
    value, grad, q = float(terms.c @ w), (terms.e * w) @ x, terms.q @ w
    none = np.zeros((0, 0))
    if not second:
        return Sums(value, grad, q, none, none, none)
    assert terms.ee is not None
    hess = (x * (terms.ee * w)[:, None]).T @ x
    if not len(q):
        return Sums(value, grad, q, hess, none, none)
    assert terms.eq is not None
    assert terms.qq is not None
    return Sums(value, grad, q, hess, (terms.eq * w) @ x, terms.qq @ w)


# -- The second randomisation, drawn at analysis time: X2 = X1 + S, S ~ SL(p D). Post-processin


def second_model(model: Model, seed: int | np.random.Generator | None) -> Model:
    """Return the data with symmetric Laplace noise SL(p D) added, now without clear rows.

    D: covariance of the noise, p: ``clear_prob`` (``theory.md``, Symbols), which is 0 afterwards.
    It is distributed as the clean data plus SL(D): the ZIL and SL parts add up.
    """
    p = model.clear_prob
    if p == 0.0 or not len(model.K):
        return replace(model, clear_prob=0.0)
    if len(model.K) != 1:
        raise RequestError("a second draw needs noise in a single block")
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(p * model.K[0])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    live = np.flatnonzero(np.abs(root).sum(axis=0) > 0)
    z = rng.standard_normal((model.n, len(live)))
    z *= np.sqrt(rng.standard_exponential(model.n))[:, None]
    X, y = np.array(model.X, order="F"), np.array(model.y)
    noise = root[:, live]
    for j in range(model.p):
        if np.abs(noise[j]).sum() > 0:
            X[:, j] += z @ noise[j]
    if math.fsum(np.abs(noise[-1])) > 0:
        y += z @ noise[-1]
    return replace(model, X=X, y=y, clear_prob=0.0)
