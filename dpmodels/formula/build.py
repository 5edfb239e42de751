"""``build_design``: formula and schema in, columns and bounds out. No data anywhere."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError, choice, did_you_mean, shown
from dpmodels.formula import parser as fx
from dpmodels.formula import words as iv
from dpmodels.formula.categories import compile_call
from dpmodels.formula.compile import (
    comparisons,
    compile_factor,
    compile_scalar,
    conjuncts,
    remember_designs,
)
from dpmodels.formula.design import Column, Design, TermInfo, as_cell
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.program import Atom, CellProgram, CellSource, Product, Program, Rule
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import (
    Basis,
    Cat,
    Context,
    Env,
    Factor,
    Node,
    constant,
    parse_expression,
    pretty,
    row_of,
)
from dpmodels.opaque import Rows, label, of_code, where
from dpmodels.variables import LARGEST, Levels

# -- Columns of a design from its factors: names, intervals, norms. All public.


def column_of(name: str, interval: iv.Interval, term: str, kind: str) -> Column:
    """Return a column from its interval."""
    lo, hi = interval if interval is not None else (None, None)
    return Column(name, lo, hi, term, kind)


def class_response(
    text: str, factor: Cat, response_ok: str, event: Any
) -> tuple[Column, Node | Cat, tuple[Any, ...]]:
    """Return column, source and levels of a response that is a category."""
    levels = factor.levels
    if response_ok == "levels":
        return Column(text, 0.0, len(levels) - 1.0, text, "class"), factor, levels
    if response_ok in ("event", "either"):
        if event is None and len(levels) != 2:
            raise FormulaError(
                f"the response {text!r} has {len(levels)} levels. Give the one that is the event: "
                f"event={levels[0]!r}"
            )
        chosen = levels[1] if event is None else event
        if chosen not in levels:
            close = did_you_mean(str(chosen), map(str, levels))
            raise FormulaError(
                f"event={shown(chosen)} is not a level of {text!r}.{close} Levels: {list(levels)!r}"
            )
        table = np.array([*(float(x == chosen) for x in levels), math.nan])
        node = Node((0.0, 1.0), lambda env: of_code(table, factor.evaluate(env)), factor.variables)
        others = tuple(x for x in levels if x != chosen)
        return Column(text, 0.0, 1.0, text, "event"), node, (*others, chosen)
    raise FormulaError(
        f"the response {text!r} has levels {list(levels)!r}, not numbers. Name the event: "
        f"{{{text} == {levels[-1]!r}}} ~ ..."
    )


def _of_subset(subset: Node, weights: Node | None) -> Node:
    """Return the weight of a row that meets ``subset=``, 1 without weights; NaN of another row."""
    mass = constant(1.0) if weights is None else weights

    def evaluate(env: Env) -> Rows:
        return where(row_of(subset, env) == 1.0, mass.evaluate(env), math.nan)

    interval = (0.0, 1.0) if weights is None else weights.interval
    return Node(interval, evaluate, subset.variables | mass.variables)


def _no_event(text: str, interval: iv.Interval, variable: bool) -> str:
    """Return the refusal of a number as an event, with spellings for codes 0, 1 and for 1, 2."""
    written = f"`{text}`" if variable and not text.isidentifier() else text
    cut = f"{sum(interval) / 2.0:g}" if interval is not None else "0"
    declared = (
        f" Or declare its codes: schema={{{text!r}: dp.Binary()}} for 0 and 1, or "
        f"schema={{{text!r}: dp.Levels([1, 2])}}, the second of which is the event."
        if variable
        else ""
    )
    return (
        f"the response {text!r} must be an event, 0 or 1. Say which number is the event: event=1, "
        f"or event=2 for codes 1 and 2.{declared} Or write the event as a comparison: "
        f"{{{written} > {cut}}} ~ ..."
    )


def atom_of(text: str, factor: Factor, reduced: bool) -> Atom:
    """Return the columns of one factor in one coding."""
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


def columns_of(product: Product, term: str) -> list[Column]:
    """Return the columns of a product, first factor running fastest, with their intervals."""
    if not product.atoms:
        scale = product.scale
        name = "Intercept" if term == "Intercept" else term
        return [Column(name, scale, scale, term, "intercept" if scale == 1.0 else "numeric")]
    if len(product.atoms) > 1:
        kind = "product"
    elif product.atoms[0].target is not None:
        kind = "dummy"
    else:
        source = product.atoms[0].source
        kind = {Cat: "contrast", Basis: "basis", Node: "numeric"}[type(source)]
    out = []
    for index in product.combined():
        name = ":".join(a.names[i] for a, i in zip(product.atoms, index, strict=True))
        interval: iv.Interval = None
        for k, (a, i) in enumerate(zip(product.atoms, index, strict=True)):
            interval = a.intervals[i] if k == 0 else iv.multiply(interval, a.intervals[i])
        if product.scale != 1.0:
            interval = iv.scale(interval, product.scale)
        declared = all(a.intervals[i] for a, i in zip(product.atoms, index, strict=True))
        _within(interval, declared, name)
        out.append(column_of(name, interval, term, kind))
    return out


def _within(interval: iv.Interval, declared: bool, name: str) -> None:
    """Refuse a product of declared ranges that is beyond any range that could be declared."""
    if declared and interval is None:
        raise FormulaError(
            f"the range of {name!r}, a product of declared ranges, goes beyond {LARGEST:g}. Narrow "
            "the ranges of its variables, or give them in larger units"
        )


def part_norms(parts: list[Product], norm: str) -> float | None:
    """Return norm bounds of a term: products over factors, then over its parts."""
    sizes = []
    for p in parts:
        size = abs(p.scale)
        for a in p.atoms:
            bound = a.norms[norm]
            if bound is None:
                return None
            size *= bound
        sizes.append(size)
    if norm == "l1":
        return sum(sizes)
    if norm == "linf":
        return max(sizes, default=0.0)
    return math.hypot(*sizes)


def weighted(c: Column, w: Node) -> Column:
    """Return a column after multiplication by the root of the weight."""
    assert w.interval is not None
    root = (math.sqrt(w.interval[0]), math.sqrt(w.interval[1]))
    interval = iv.multiply(c.interval, root)
    _within(interval, c.interval is not None, c.name)
    return column_of(c.name, interval, c.term, c.kind)


def numeric_rows(
    columns: list[Column], response: Column | None, weighted: bool, aside: int = 0
) -> tuple[slice, ...]:
    """Return contiguous runs of buffer rows that can hold NaN."""
    flags = [weighted or c.kind not in ("intercept", "dummy", "contrast") for c in columns]
    flags += [True] * (aside + (response is not None))
    out: list[slice] = []
    start = None
    for j, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = j
        elif not flag and start is not None:
            out.append(slice(start, j))
            start = None
    return tuple(out)


# -- Labels: which cluster a row is in, and which stratum, as numbers that mean equality only.
#
# A label is a function of the row's own cells, the same in every part of a table and on every
# machine: no list of the labels that occur is ever made of the data before it is needed.


#: Labels are whole numbers from 1 to 2^52, exact as floats; a row without one is in no cluster.
LAST_LABEL, ALONE = 2.0**52, 0.0
def check_subset(text: str, schema: Schema, formula: str) -> None:
    """Refuse a comparison in ``subset=`` that every row of the declared ranges meets, or none does.

    This is checked in a call, not when a design is made: a fit saved with one can still be opened.
    """
    tree, names = parse_expression(text, formula)
    ctx = Context(formula, schema, f"subset={text}", names, compile_call)
    for left, node, all_rows in comparisons(tree, ctx):
        raise ctx.fail(
            f"{pretty(left, ctx)} is within {ctx.range_of(node.interval)}: the comparison holds "
            f"for {'every' if all_rows else 'no'} row, as values are moved to the ends of their "
            "declared range before subset= is evaluated",
            "Declare the code of a missing cell in the schema (missing=[-9]), declare a range "
            "that holds the rows to be left out, or leave this comparison out",
        )


# -- ``build_design``: formula and schema in, columns and bounds out. No data anywhere.


_NA = ("zero-row", "declared", "impute-midpoint")


@dataclass(frozen=True)
class _Codes:
    """One public row per level of a factor."""

    codes: Any  # (L,) integers

    def number(self, name: str) -> Rows:
        """Return the codes: no number is asked for."""
        return Rows(self.codes[None].astype(float))

    def code(self, name: str) -> Rows:
        """Return the codes."""
        return Rows(self.codes[None])

    def public(self, value: float) -> Rows:
        """Return the same public number for every row."""
        return Rows(np.full((1, len(self.codes)), value))

    def unclipped(self) -> _Codes:
        """Return itself: no range clips a code."""
        return self

    as_read = code


@remember_designs
def build_design(
    formula: str,
    schema: Schema,
    *,
    one_sided_ok: bool = False,
    response_ok: str = "real",
    event: Any = None,
    **how: Any,
) -> Design:
    """Compile a formula against a public schema; ``how``: arguments of :class:`Builder`.

    Parameters
    ----------
    one_sided_ok : bool
        Whether a formula without a response is allowed.
    response_ok : {"real", "event", "levels", "either"}
        "either": a number, or one of two levels.
        "event": a two-level response gives 0/1, the second level (or ``event=``) is 1.
        "levels": a factor response gives its code.

    Notes
    -----
    **Privacy.** Takes no data. Whatever would have to be learnt from rows is refused.
    """
    return Builder(formula, schema, **how).design(one_sided_ok, response_ok, event)


@remember_designs
def build_mean_design(formula: str, schema: Schema, **how: Any) -> Design:
    """Compile ``"x1 + x2 ~ 1"``: the columns are those of the left-hand side, no response."""
    return Builder(formula, schema, **how).mean_design()


@remember_designs
def build_cell_design(formula: str, schema: Schema, **how: Any) -> Design:
    """Compile the formula of a table: one column per variable, levels as codes.

    The weight of a row, and its labels, stand behind its cells. ``"~ a * b"`` and ``"x + b ~ g"``:
    which terms stand on which side is ``design.program``.
    """
    return Builder(formula, schema, **how).cell_design()


#: Error message for a name that a column of the data and a term share.
_MADE_TWICE = (
    '"{0}" makes two columns of one name, {1!r} (terms: {2}), so neither could be tested by name. '
    "Rename the column of the data, or the levels, that it comes from. Nothing was charged"
)
_TICKED = re.compile(r"`[^`]*`")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


class Builder:
    """One compilation. Steps: parse, compile each factor, lay out, bound, program.

    Parameters
    ----------
    schema : Schema
        A variable without a range has an unknown interval; columns made of it are ``unknown``.
    na : {"zero-row", "declared", "impute-midpoint"}
        What a missing cell does to its row.
    engine : {"formulaic", "patsy"}
        Parser, and with "patsy" the column order of statsmodels.
    order : {None, "statsmodels"}
    subset : str, optional
        Row-wise predicate; failing rows become zero rows, n is unchanged.
    weights : str, optional
        Nonnegative variable or expression with a declared range; rows are multiplied by its root.
    aside : bool
        Offset and weight of a row become rows of the buffer, before the response, and are worked
        into neither response nor columns.
    labels : (cluster, stratum) or None
        Columns whose cells say in which cluster (or none) and in which declared stratum a row is:
        two more rows of the buffer, before the response. A cell that is missing is 0.
    ids : str or None
        Column of clusters. A row without an id is missing: it could not be in the errors by
        cluster. With ``labels`` it is the first of these.
    """

    def __init__(
        self,
        formula: str,
        schema: Schema,
        *,
        na: str = "zero-row",
        engine: str = "formulaic",
        order: str | None = None,
        subset: str | None = None,
        weights: str | None = None,
        aside: bool = False,
        labels: tuple[str | None, str | None] | None = None,
        ids: str | None = None,
    ) -> None:
        choice("na", na, _NA, FormulaError)
        choice("order", order, (None, "statsmodels"), FormulaError)
        self.formula, self.na, self.engine, self.order = formula, na, engine, order
        self.subset, self.weights, self.aside, self.labels = subset, weights, aside, labels
        self.ids = ids if labels is None else labels[0]
        self.parsed = fx.parse(formula, list(schema), engine, by_degree=order is None)
        self.variables = needed_variables(
            formula, list(schema), engine=engine, subset=subset, weights=weights
        )
        named = [n for n in labels or (ids,) if n and n not in self.variables]
        self.variables = (*self.variables, *named)
        self.schema = schema.restrict(self.variables)
        self.compiled: dict[str, Factor] = {}
        self.atoms: dict[tuple[str, bool], Atom] = {}

    # -- compile ---------------------------------------------------------------------------
    def context(self, text: str, names: Mapping[str, str]) -> Context:
        """Return the position of an expression of this formula."""
        return Context(self.formula, self.schema, text, names, compile_call)

    def factor(self, text: str) -> Factor:
        """Compile one factor by its text."""
        if text not in self.compiled:
            if text in self.schema:
                text_, names = "_v_", {"_v_": text}
            else:
                text_, names = text, {}
            tree, quoted = parse_expression(text_, self.formula)
            factor = compile_factor(tree, self.context(text, {**quoted, **names}))
            self.compiled[text] = (
                self._on_rows_let_in(factor) if isinstance(factor, Cat) else factor
            )
        return self.compiled[text]

    def _on_rows_let_in(self, factor: Cat) -> Cat:
        """Return a factor whose first level is its base, or the first that ``subset=`` lets in.

        A base that no row can have leaves a constant and all other levels collinear. Only parts of
        ``subset=`` that see this one variable are asked, at its levels: public.
        """
        (name, *others) = factor.variables or ("",)
        variable = self.schema.get(name)
        if self.subset is None or others or not isinstance(variable, Levels) or factor.contrast:
            return factor
        env = _Codes(np.arange(len(variable.levels)))
        tree, quoted = parse_expression(self.subset, self.formula)
        ctx = self.context(f"subset={self.subset}", quoted)
        in_subset = np.ones(len(env.codes), dtype=bool)
        for part in conjuncts(tree):
            node = compile_scalar(part, ctx)
            if node.variables == {name}:
                in_subset &= row_of(node, env).numbers[0] > 0.0
        codes = factor.evaluate(env).numbers[0][in_subset]
        first = min((int(code) for code in codes if code >= 0), default=0)
        if first == 0:
            return factor
        return replace(factor, contrast=fx.contrast("treatment", base=factor.levels[first]))

    def scalar(self, text: str, what: str) -> Node:
        """Compile an expression that must be a number."""
        tree, quoted = parse_expression(
            f"`{text}`" if text in self.schema and "`" not in text else text, self.formula
        )
        return compile_scalar(tree, self.context(f"{what}={text}", quoted))

    def atom(self, text: str, reduced: bool) -> Atom:
        """Return the columns of one factor in one coding; shared by all its terms."""
        key = (text, reduced)
        if key not in self.atoms:
            self.atoms[key] = atom_of(text, self.factor(text), reduced)
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
                columns.extend(columns_of(placed, term.name))
            names = tuple(c.name for c in columns[start:])
            self._check_names(columns[start:])
            assert names == term.columns, f"column names differ from the parser's: {term.columns}"
            norms = {n: part_norms(mine, n) for n in ("l2", "l1", "linf")}
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
        subtracted = None if self.aside else offset
        response, source, levels = self._response(one_sided_ok, response_ok, event, subtracted)
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
                f'"{self.formula}": this verb needs the variables on the left and 1 on the right, '
                'as in "x1 + x2 ~ 1". Means by group: dp_ols("y ~ 0 + group", ...)'
            )
        products, columns, infos = self.products(self.parsed.lhs)
        return self.finish(products, columns, infos, None, None, None, {"mean": True})

    def cell_design(self) -> Design:
        """Compile the formula of a table."""
        places: dict[str, int] = {}
        sources: list[CellSource] = []
        sides = []
        for side in (self.parsed.lhs or (), self.parsed.rhs):
            terms = []
            for term in side:
                texts = [text for text, literal in term if not literal]
                for text in texts:
                    if text not in places:
                        places[text] = len(sources)
                        sources.append(as_cell(text, self.factor(text), self.schema, self.formula))
                if texts:
                    terms.append(tuple(places[text] for text in texts))
            sides.append(tuple(dict.fromkeys(terms)))
        if not sources:
            raise FormulaError(
                f'"{self.formula}" names no variable. For example "~ region", "wage ~ region"'
            )
        return self.cells_of(sources, sides[0], sides[1])

    def cells_of(
        self,
        sources: Sequence[CellSource],
        left: tuple[tuple[int, ...], ...],
        right: tuple[tuple[int, ...], ...],
        **facts: Any,
    ) -> Design:
        """Assemble the design of a table from its columns."""
        columns = tuple(
            column_of(s.name, s.interval, s.name, "numeric" if s.levels is None else "level")
            for s in sources
        )
        weights, subset = self._weights(), self._subset()
        aside = {} if weights is None else {"weights": weights}
        if subset is not None and not facts:
            aside = {"weights" if aside else "subset": _of_subset(subset, weights)}
        aside |= self._labels()
        program = CellProgram(
            tuple(sources), rules(self.schema, self.na), left, right, self.schema, subset,
            tuple(aside.values()),
        )  # fmt: skip
        terms = tuple(TermInfo(c.name, slice(j, j + 1), None) for j, c in enumerate(columns))
        return self._design_of(program, None, columns, terms, aside, cells=True, **facts)

    def _design_of(
        self,
        program: Any,  # a Program, or a CellProgram, which fills blocks as that does
        response: Column | None,
        columns: Sequence[Column],
        terms: Sequence[TermInfo],
        aside: Mapping[str, Node],
        **facts: Any,
    ) -> Design:
        """Return the design of a compiled program, after checking the names of its columns."""
        self._check_names(columns)
        return Design(
            formula=self.formula, response=response, columns=tuple(columns), schema=self.schema,
            variables=self.variables, terms=tuple(terms), na=self.na, engine=self.engine,
            subset=self.subset, weights=self.weights, labels=self.labels, ids=self.ids,
            program=program,
            aside=tuple(column_of(f"({k})", node.interval, k, k) for k, node in aside.items()),
            **facts,
        )  # fmt: skip

    def _check_names(self, columns: Sequence[Column]) -> None:
        """Refuse a name that two terms make, and a term that a column of its name has replaced."""
        terms: dict[str, str] = {}
        for column in columns:
            if column.name in terms:
                pair = dict.fromkeys((terms[column.name], column.term))
                raise FormulaError(_MADE_TWICE.format(self.formula, column.name, _quoted(pair)))
            terms[column.name] = column.term
        bare = re.sub(r"\s", "", _TICKED.sub("", self.formula))
        for name in self.schema:
            written = not name.isidentifier() and re.sub(r"\s", "", name) in bare
            if written and "(" in name and name in self.compiled:
                is_typed = f"`{name}`" in self.formula or "." in re.split(
                    r"[\s~+*:/-]+", self.formula
                )
                if is_typed:
                    raise FormulaError(_MADE_TWICE.format(self.formula, name, _quoted([name])))

    def _split_offset(self) -> tuple[str | None, tuple[fx.TermText, ...]]:
        """Return the offset of the right-hand side as text, or None, and the other terms."""
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
                raise FormulaError(f"cannot read `{text}`: offset(z) is a separate term")
            inner.append(body[body.index("(") + 1 : -1])
        return " + ".join(f"({x})" for x in inner), tuple(terms)

    def _response(
        self, one_sided_ok: bool, response_ok: str, event: Any, offset: str | None
    ) -> tuple[Column | None, Node | Cat | None, tuple[Any, ...]]:
        """Compile the left-hand side: its column, its node and its levels."""
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
            if response_ok == "event" and event is not None:
                factor = self._named_event(text, event, factor)
            interval = factor.interval
            if response_ok == "levels":
                raise FormulaError(
                    f"the response {text!r} must be a class with declared levels: "
                    f'{text} = dp.Levels(["a", "b"])'
                )
            kind = "response"
            if response_ok == "event":
                if interval != (0.0, 1.0):
                    raise FormulaError(_no_event(text, interval, text in self.schema))
                kind = "event"
            binary = getattr(self.schema.variables.get(text), "kind", "") == "binary"
            is_event = event is not None or factor.boolean or binary
            if offset is not None:
                interval = iv.subtract(interval, self.scalar(offset, "offset").interval)
            levels = (0, 1) if kind == "event" and is_event else ()  # a share has none
            return column_of(text, interval, text, kind), factor, levels
        if isinstance(factor, Cat):
            return class_response(text, factor, response_ok, event)
        raise FormulaError(f'the response of "{self.formula}" must be one number per row')

    @staticmethod
    def _named_event(text: str, event: Any, number: Node) -> Node:
        """Return 1 where a number is the event named by ``event=``, 0 where it is another."""
        if not isinstance(event, (bool, int, float, np.number)) or event != event:
            raise FormulaError(
                f"event={shown(event)}: the response {text!r} is a number, so its event is one "
                "too, for example event=1"
            )
        if abs(event) >= iv.LARGEST_EXACT:
            raise FormulaError(
                f"event={shown(event)}: from 2^53 = 9007199254740992 on numbers do not tell "
                "neighbouring whole numbers apart. Declare the codes as levels, which are compared "
                f"exactly: {text} = dp.Levels([...])"
            )
        value = float(event)

        def happened(env: Any) -> Any:
            cells = row_of(number, env)
            return where(np.isnan(cells), np.nan, cells == value)

        return Node((0.0, 1.0), happened, number.variables)

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
        auxiliary_rows: Mapping[str, Node] | None = None,
    ) -> Design:
        """Assemble the design; ``auxiliary_rows`` are the other buffer rows."""
        if not columns:
            raise FormulaError(f'"{self.formula}" has no columns on the right-hand side')
        weights = self._weights()
        offset_node = None if offset is None else self.scalar(offset, "offset")
        aside = dict(auxiliary_rows or {})
        if self.aside:
            nodes = {"offset": offset_node, "weights": weights}
            aside |= {kind: node for kind, node in nodes.items() if node is not None}
            offset_node = weights = None
        aside |= self._labels()
        predicate = self._subset()
        response_interval = None if response is None else response.interval
        if weights is not None:
            columns = [weighted(c, weights) for c in columns]
            assert weights.interval is not None
            root = math.sqrt(weights.interval[1])
            for k, t in enumerate(infos):
                norms = {name: None if v is None else v * root for name, v in t.norms.items()}
                infos[k] = TermInfo(t.name, t.columns, norms["l2"], norms)
            response = None if response is None else weighted(response, weights)
        program = Program(
            products=tuple(products),
            rules=rules(self.schema, self.na),
            columns=len(columns),
            numeric=numeric_rows(columns, response, weights is not None, len(aside)),
            response=source,
            response_interval=response_interval,
            offset=offset_node,
            subset=predicate,
            ids=None if self.ids is None else self._cluster(self.ids),
            weights=weights,
            aside=tuple(aside.values()),
            impute=self.na == "impute-midpoint",
        )
        return self._design_of(
            program, response, columns, infos, aside, order=self.order, offset=offset, **extra
        )

    def _labels(self) -> dict[str, Node]:
        """Return the rows of the buffer with labels of clusters, and codes of strata (from 1)."""
        cluster, stratum = self.labels or (None, None)

        def of_stratum(env: Env) -> Any:
            return np.maximum(env.as_read(str(stratum)) * 1.0, -1.0) + 1.0

        out: dict[str, Node] = {}
        if cluster is not None:
            out["cluster"] = self._cluster(cluster)
        if stratum is not None:
            out["stratum"] = Node((ALONE, LAST_LABEL), of_stratum, frozenset([stratum]))
        return out

    def _cluster(self, column: str) -> Node:
        """Return the labels of the clusters in a column, ``ALONE`` where an id is missing."""
        # clusters that are numbered, and declared so: their numbers are the labels
        numbered = self.schema[column].kind == "count"

        def of_cluster(env: Env) -> Any:
            cells = env.as_read(column)
            return where(cells >= 1.0, np.floor(cells), ALONE) if numbered else label(cells, ALONE)

        return Node((ALONE, LAST_LABEL), of_cluster, frozenset([column]))

    def _weights(self) -> Node | None:
        """Compile ``weights=``, or return None; a range that may be negative is refused."""
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
        """Compile ``subset=``, or return None; anything but a comparison is refused."""
        if self.subset is None:
            return None
        node = self.scalar(self.subset, "subset")
        if not node.boolean:
            raise FormulaError(
                f'subset={self.subset!r} must be a comparison, for example subset="alcohol > 10"'
            )
        return node


def rules(schema: Schema, na: str) -> dict[str, Rule]:
    """Return the rule of each variable under a missing-value policy (see ``theory.md``)."""
    out = {}
    middle: float | None
    for name, v in schema.items():
        declared = getattr(v, "na", None)
        if v.kind == "text":
            code, middle = None, 0.0
        elif isinstance(v, Levels):
            level = declared if declared is not None else v.other
            code = None if level is None else float(v.levels.index(level))
            middle = 0.0
        else:
            code = declared
            middle = None if v.interval is None else 0.5 * (v.interval[0] + v.interval[1])
            if v.kind in ("binary", "count") and middle is not None:
                middle = float(int(middle))
        fill = {
            "zero-row": None,
            "declared": code,
            "impute-midpoint": code if code is not None else middle,
        }[na]
        out[name] = Rule(v.interval, fill)
    return out
