"""``build_design``: formula and schema in, columns and bounds out. No data anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError, SchemaError, did_you_mean
from dpmodels.formula import _formulaic as fx
from dpmodels.formula import intervals as iv
from dpmodels.formula.compile import Context, compile_factor, compile_scalar, parse_expression
from dpmodels.formula.design import Column, Design, TermInfo
from dpmodels.formula.functions import REGISTERED, RESERVED
from dpmodels.formula.nodes import Basis, Cat, Factor, Node
from dpmodels.formula.program import Atom, Product, Program, rules
from dpmodels.formula.walk import needed_variables
from dpmodels.schema import Schema

__all__ = ["build_design", "build_mean_design"]

_NA = ("zero-row", "declared", "impute-midpoint")


def build_design(
    formula: str,
    schema: Schema,
    *,
    na: str = "zero-row",
    engine: str = "formulaic",
    subset: str | None = None,
    weights: str | None = None,
    order: str | None = None,
    one_sided_ok: bool = False,
    response_ok: str = "real",
    event: Any = None,
) -> Design:
    """Compile a formula against a public schema.

    Parameters
    ----------
    formula : str
    schema : Schema
        A variable without a range has an unknown interval; columns made of it are ``unknown``.
    na : {"zero-row", "declared", "impute-midpoint"}
        What a missing cell does to its row.
    engine : {"formulaic", "patsy"}
        Parser, and with "patsy" the column order of statsmodels.
    subset : str, optional
        Row-wise predicate; failing rows become zero rows, n is unchanged.
    weights : str, optional
        Nonnegative variable or expression with a declared range; rows are multiplied by its root.
    order : {None, "statsmodels"}
    one_sided_ok : bool
        Whether a formula without a response is allowed.
    response_ok : {"real", "event", "levels"}
        "event": a two-level response gives 0/1, the second level (or ``event=``) is 1.
        "levels": a factor response gives its code.
    event : level, optional

    Returns
    -------
    Design

    Notes
    -----
    **Privacy.** Takes no data. Whatever would have to be learnt from rows is refused.
    """
    builder = _Builder(formula, schema, na, engine, order, subset, weights)
    return builder.design(one_sided_ok, response_ok, event)


def build_mean_design(
    formula: str,
    schema: Schema,
    *,
    na: str = "zero-row",
    engine: str = "formulaic",
    subset: str | None = None,
    weights: str | None = None,
) -> Design:
    """Compile ``"x1 + x2 ~ 1"``: the columns are those of the left-hand side, no response.

    Notes
    -----
    **Privacy.** Takes no data.
    """
    return _Builder(formula, schema, na, engine, None, subset, weights).mean_design()


class _Builder:
    """One compilation. Steps: parse, compile each factor, lay out, bound, program."""

    def __init__(
        self,
        formula: str,
        schema: Schema,
        na: str,
        engine: str,
        order: str | None,
        subset: str | None,
        weights: str | None,
    ) -> None:
        if na not in _NA:
            raise FormulaError(f"na must be one of {', '.join(_NA)}, got {na!r}")
        if order not in (None, "statsmodels"):
            raise FormulaError(f"order must be None or 'statsmodels', got {order!r}")
        self.formula, self.na, self.engine, self.order = formula, na, engine, order
        self.subset, self.weights = subset, weights
        self.parsed = fx.parse(formula, list(schema), engine, by_degree=order is None)
        self.variables = needed_variables(
            formula, list(schema), engine=engine, subset=subset, weights=weights
        )
        self.schema = schema.restrict(self.variables)
        for name in self.variables:
            if name in RESERVED or name in REGISTERED:
                raise SchemaError(
                    f"the variable {name!r} is called like a function of the formula language. "
                    f"Rename the column, e.g. {name}_ "
                )
        self.compiled: dict[str, Factor] = {}
        self.atoms: dict[tuple[str, bool], Atom] = {}

    # -- compile ---------------------------------------------------------------------------
    def context(self, text: str) -> Context:
        return Context(self.formula, self.schema, text, {})

    def factor(self, text: str) -> Factor:
        """Compile one factor by its text."""
        if text not in self.compiled:
            if text in self.schema:
                text_, names = "_v_", {"_v_": text}
            else:
                text_, names = text, {}
            tree, quoted = parse_expression(text_, self.formula)
            ctx = Context(self.formula, self.schema, text, {**quoted, **names})
            self.compiled[text] = compile_factor(tree, ctx)
        return self.compiled[text]

    def scalar(self, text: str, what: str) -> Node:
        """Compile an expression that must be a number."""
        tree, quoted = parse_expression(text, self.formula)
        return compile_scalar(tree, Context(self.formula, self.schema, f"{what}={text}", quoted))

    def atom(self, text: str, reduced: bool) -> Atom:
        """Return the columns of one factor in one coding; shared by all its terms."""
        key = (text, reduced)
        if key not in self.atoms:
            self.atoms[key] = _atom(text, self.factor(text), reduced)
        return self.atoms[key]

    # -- layout ----------------------------------------------------------------------------
    def products(
        self, terms: tuple[fx.TermText, ...]
    ) -> tuple[list[Product], list[Column], list[TermInfo]]:
        """Lay out terms: products, columns and term bounds, in column order."""
        factors = {t: self.factor(t) for term in terms for t, lit in term if not lit}
        if self.engine == "patsy" or self.order == "statsmodels":
            terms = fx.clustered(terms, factors)
        laid = fx.layout(terms, factors)
        products: list[Product] = []
        columns: list[Column] = []
        infos: list[TermInfo] = []
        for term in laid:
            start = len(columns)
            mine = [
                Product(0, part.scale, tuple(self.atom(t, r) for t, r in part.factors))
                for part in term.parts
            ]
            for part in mine:
                placed = Product(len(columns), part.scale, part.atoms)
                products.append(placed)
                columns.extend(_columns(placed, term.name))
            made = tuple(c.name for c in columns[start:])
            assert made == term.columns, f"column names differ from the parser's: {term.columns}"
            norms = {n: _part_norms(mine, n) for n in ("l2", "l1", "linf")}
            infos.append(TermInfo(term.name, slice(start, len(columns)), norms["l2"], norms))
        return products, columns, infos

    # -- sides -----------------------------------------------------------------------------
    def design(self, one_sided_ok: bool, response_ok: str, event: Any) -> Design:
        """Compile a regression formula."""
        offset, terms = self._split_offset()
        if not terms:
            raise FormulaError(
                f'"{self.formula}" has nothing on the right-hand side. '
                'Use "y ~ 1" for the mean, or "y ~ x1 + x2"'
            )
        response, source, levels = self._response(one_sided_ok, response_ok, event, offset)
        products, columns, infos = self.products(terms)
        return self.finish(
            products, columns, infos, response, source, offset,
            {"response_ok": response_ok, "event": event, "levels": levels},
        )  # fmt: skip

    def mean_design(self) -> Design:
        """Compile ``"x1 + x2 ~ 1"``."""
        if self.parsed.lhs is None or [
            t for t in self.parsed.rhs if t not in ((("1", True),), (("1", False),))
        ]:
            raise FormulaError(
                f'"{self.formula}": means are asked for as "x1 + x2 ~ 1", variables on the left '
                "and 1 on the right"
            )
        products, columns, infos = self.products(self.parsed.lhs)
        return self.finish(products, columns, infos, None, None, None, {"mean": True})

    def _split_offset(self) -> tuple[str | None, tuple[fx.TermText, ...]]:
        offsets, terms = [], []
        for term in self.parsed.rhs:
            if len(term) == 1 and term[0][0].replace(" ", "").startswith("offset("):
                offsets.append(term[0][0])
            else:
                terms.append(term)
        if not offsets:
            return None, tuple(terms)
        inner = []
        for text in offsets:
            body = text.strip()
            if not body.endswith(")"):
                raise FormulaError(f"cannot read `{text}`: offset(z) is a term by itself")
            inner.append(body[body.index("(") + 1 : -1])
        return " + ".join(f"({x})" for x in inner), tuple(terms)

    def _response(
        self, one_sided_ok: bool, response_ok: str, event: Any, offset: str | None
    ) -> tuple[Column | None, Node | Cat | None, tuple[Any, ...]]:
        lhs = self.parsed.lhs
        if lhs is None:
            if one_sided_ok:
                if offset is not None:
                    raise FormulaError(f'"{self.formula}": offset() needs a response')
                return None, None, ()
            raise FormulaError(
                f'"{self.formula}" has no response. Write it on the left: '
                f'"y ~ {self.formula.strip(" ~")}"'
            )
        if len(lhs) != 1 or len(lhs[0]) != 1:
            raise FormulaError(
                f'"{self.formula}" must have exactly one response on the left of "~". '
                "A combination of variables is written I(a + b) or {a + b}"
            )
        text = lhs[0][0][0]
        factor = self.factor(text) if not lhs[0][0][1] else None
        if isinstance(factor, Node):
            interval = factor.interval
            if response_ok == "levels":
                raise FormulaError(
                    f"the response {text!r} must be a class with declared levels: "
                    f'{text} = dp.Levels(["a", "b"])'
                )
            kind = "response"
            if response_ok == "event":
                _check_event(text, interval)
                kind = "event"
            if offset is not None:
                interval = iv.subtract(interval, self.scalar(offset, "offset").interval)
            return _column(text, interval, text, kind), factor, (0, 1) if kind == "event" else ()
        if isinstance(factor, Cat):
            return _class_response(text, factor, response_ok, event)
        raise FormulaError(f'the response of "{self.formula}" must be one number a row')

    # -- program ---------------------------------------------------------------------------
    def finish(
        self,
        products: list[Product],
        columns: list[Column],
        infos: list[TermInfo],
        response: Column | None,
        source: Node | Cat | None,
        offset: str | None,
        extra: Mapping[str, Any],
    ) -> Design:
        """Assemble the design."""
        if not columns:
            raise FormulaError(f'"{self.formula}" has no columns on the right-hand side')
        weights = self._weights()
        predicate = self._subset()
        response_interval = None if response is None else response.interval
        if weights is not None:
            columns = [_weighted(c, weights) for c in columns]
            infos = [_weighted_term(t, weights) for t in infos]
            response = None if response is None else _weighted(response, weights)
        program = Program(
            products=tuple(products),
            rules=rules(self.schema, self.na),
            columns=len(columns),
            numeric=_numeric_rows(columns, response, weights is not None),
            response=source,
            response_interval=response_interval,
            offset=None if offset is None else self.scalar(offset, "offset"),
            subset=predicate,
            weights=weights,
            impute=self.na == "impute-midpoint",
        )
        return Design(
            formula=self.formula,
            response=response,
            columns=tuple(columns),
            schema=self.schema,
            variables=self.variables,
            terms=tuple(infos),
            na=self.na,
            engine=self.engine,
            order=self.order,
            subset=self.subset,
            weights=self.weights,
            offset=offset,
            program=program,
            **extra,
        )

    def _weights(self) -> Node | None:
        if self.weights is None:
            return None
        node = self.scalar(self.weights, "weights")
        if node.interval is None or node.interval[0] < 0:
            raise FormulaError(
                f"weights={self.weights!r} needs a declared nonnegative range. In the schema: "
                f"{self.weights} = dp.Real(0, w_max)"
            )
        return node

    def _subset(self) -> Node | None:
        if self.subset is None:
            return None
        node = self.scalar(self.subset, "subset")
        if not node.boolean:
            raise FormulaError(
                f'subset={self.subset!r} must be a comparison, for example subset="alcohol > 10"'
            )
        return node


# -- pieces --------------------------------------------------------------------------------


def _column(name: str, interval: iv.Interval, term: str, kind: str) -> Column:
    lo, hi = interval if interval is not None else (None, None)
    return Column(name, lo, hi, term, kind)


def _check_event(text: str, interval: iv.Interval) -> None:
    if interval != (0.0, 1.0):
        raise FormulaError(
            f"the response {text!r} must be an event, 0 or 1. Declare {text} = dp.Binary(), or two "
            f'levels of which the second is the event: {text} = dp.Levels(["no", "yes"]); or write '
            f"the event as a comparison: {{{text} > 0}} ~ ..."
        )


def _class_response(
    text: str, factor: Cat, response_ok: str, event: Any
) -> tuple[Column, Node | Cat, tuple[Any, ...]]:
    levels = factor.levels
    if response_ok == "levels":
        return Column(text, 0.0, len(levels) - 1.0, text, "class"), factor, levels
    if response_ok == "event":
        if event is None and len(levels) != 2:
            raise FormulaError(
                f"the response {text!r} has {len(levels)} levels; say which is the event: "
                f"event={levels[0]!r}"
            )
        chosen = levels[1] if event is None else event
        if chosen not in levels:
            close = did_you_mean(str(chosen), map(str, levels))
            raise FormulaError(
                f"event={chosen!r} is not a level of {text!r}.{close} Levels: {list(levels)!r}"
            )
        table = np.array([*(float(x == chosen) for x in levels), math.nan])
        node = Node((0.0, 1.0), lambda env: table[factor.evaluate(env)], factor.variables)
        rest = tuple(x for x in levels if x != chosen)
        return Column(text, 0.0, 1.0, text, "event"), node, (*rest, chosen)
    raise FormulaError(
        f"the response {text!r} has levels {list(levels)!r}, not numbers. Name the event: "
        f"{{{text} == {levels[-1]!r}}} ~ ..."
    )


def _atom(text: str, factor: Factor, reduced: bool) -> Atom:
    if isinstance(factor, Node):
        norm = iv.magnitude(factor.interval)
        return Atom(factor, (text,), (factor.interval,), dict.fromkeys(("l2", "l1", "linf"), norm))
    if isinstance(factor, Basis):
        drop = 1 if factor.spans_intercept and reduced else 0
        names = tuple(f"{text}[{f}]" for f in factor.fields[drop:])
        return Atom(factor, names, factor.intervals[drop:], factor.norms, drop=drop)
    coding = fx.coding(factor.contrast, factor.levels, reduced)
    names = tuple(coding.format.format(name=text, field=f) for f in coding.fields)
    m = coding.matrix
    bounds = tuple((float(c.min()), float(c.max())) for c in m.T)
    norms = {
        "l2": float(np.sqrt((m**2).sum(axis=1)).max()),
        "l1": float(np.abs(m).sum(axis=1).max()),
        "linf": float(np.abs(m).max(initial=0.0)),
    }
    ones = (m == 1.0).sum(axis=1)
    plain = bool(np.isin(m, (0.0, 1.0)).all() and (ones <= 1).all() and m.shape[1])
    target = None
    if plain:
        target = np.append(np.where(ones == 1, m.argmax(axis=1), -1), -1).astype(np.intp)
    return Atom(factor, names, bounds, norms, matrix=m, target=target)


def _columns(product: Product, term: str) -> list[Column]:
    if not product.atoms:
        one = product.scale
        name = "Intercept" if term == "Intercept" else term
        return [Column(name, one, one, term, "intercept" if one == 1.0 else "numeric")]
    if len(product.atoms) > 1:
        kind = "product"
    elif product.atoms[0].target is not None:
        kind = "dummy"
    else:
        source = product.atoms[0].source
        kind = (
            "contrast"
            if isinstance(source, Cat)
            else "basis"
            if isinstance(source, Basis)
            else "numeric"
        )
    out = []
    index = [0] * len(product.atoms)
    for _ in range(product.width):
        name = ":".join(a.names[i] for a, i in zip(product.atoms, index, strict=True))
        interval: iv.Interval = None
        for k, (a, i) in enumerate(zip(product.atoms, index, strict=True)):
            interval = a.intervals[i] if k == 0 else iv.multiply(interval, a.intervals[i])
        if product.scale != 1.0:
            interval = iv.scale(interval, product.scale)
        out.append(_column(name, interval, term, kind))
        for k, a in enumerate(product.atoms):
            index[k] += 1
            if index[k] < a.width:
                break
            index[k] = 0
    return out


def _part_norms(parts: list[Product], norm: str) -> float | None:
    """Norm bound of a term: product over factors, then over its parts (they are side by side)."""
    sizes = []
    for p in parts:
        size = abs(p.scale)
        for a in p.atoms:
            one = a.norms[norm]
            if one is None:
                return None
            size *= one
        sizes.append(size)
    if norm == "l1":
        return sum(sizes)
    if norm == "linf":
        return max(sizes, default=0.0)
    return math.hypot(*sizes)


def _weighted(c: Column, w: Node) -> Column:
    assert w.interval is not None
    root = (math.sqrt(w.interval[0]), math.sqrt(w.interval[1]))
    interval = iv.multiply(c.interval, root)
    lo, hi = interval if interval is not None else (None, None)
    return Column(c.name, lo, hi, c.term, c.kind)


def _weighted_term(t: TermInfo, w: Node) -> TermInfo:
    assert w.interval is not None
    root = math.sqrt(w.interval[1])
    norms = {k: None if v is None else v * root for k, v in t.norms.items()}
    return TermInfo(t.name, t.columns, norms["l2"], norms)


def _numeric_rows(
    columns: list[Column], response: Column | None, weighted: bool
) -> tuple[slice, ...]:
    """Contiguous runs of buffer rows that can hold NaN."""
    flags = [weighted or c.kind not in ("intercept", "dummy", "contrast") for c in columns]
    if response is not None:
        flags.append(True)
    out: list[slice] = []
    start = None
    for j, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = j
        elif not flag and start is not None:
            out.append(slice(start, j))
            start = None
    return tuple(out)
