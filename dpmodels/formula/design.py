"""Compiled design: the columns, their public bounds, and the program that fills a block."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import FormulaError, choice, did_you_mean
from dpmodels.formula.program import CellProgram, CellSource, Grid, Product, Program
from dpmodels.formula.reading import coerce_all
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import Basis, Cat, Factor, Interval, Node, magnitude
from dpmodels.lazy import pd
from dpmodels.variables import LARGEST, Binary, Levels, Variable

_NORMS = ("l2", "l1", "linf")
_OUTSIDE = ("clip", "nan", "extrapolate")


@dataclass(frozen=True)
class Column:
    """One column of the design."""

    name: str
    lower: float | None  # Public range of the cells; None until it is estimated
    upper: float | None
    term: str  # Term it belongs to
    # "intercept", "numeric", "dummy", "contrast", "basis", "product", "response", "event" or
    # "class"; "level" in a table; "offset", "weights", "cluster" or "stratum" for auxiliary
    # columns.
    kind: str

    @functools.cached_property
    def interval(self) -> Interval:
        """(lower, upper), or ``None``."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)


@dataclass(frozen=True)
class TermInfo:
    """One term: its columns and a bound on the Euclidean norm of its cells in any row."""

    name: str
    columns: slice
    norm: float | None
    norms: Mapping[str, float | None] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Survival:
    """Buffer rows of the follow-up declared by ``Surv()`` and ``strata()``."""

    # time, event: row with the (stop) time, in its declared range, NaN for a row that counts as
    # nothing; row with the event, 0 or 1, or the number of its cause.
    time: int
    event: int
    # Row with the time of entry; None: everybody is followed from the first.
    start: int | None = None
    # group, strata: rows with the codes of groups (of a table alone) and of strata; None: there are
    # none.
    group: int | None = None
    strata: int | None = None
    # groups, stratas: labels of the codes, ``"sex=1, arm=b"``.
    groups: tuple[str, ...] = ()
    stratas: tuple[str, ...] = ()
    # (str, str, str): start, time and event as typed.
    names: tuple[str, str, str] = ("", "time", "event")
    causes: tuple[str, ...] = ()  # Labels, ``"status=relapse"``, "" for all others together


@dataclass(frozen=True)
class Design:
    """Columns of a model, known before a row is read.

    Attributes
    ----------
    columns : tuple of Column
        "Intercept" first when there is one. ``out[j]`` of :meth:`fill` is ``columns[j]``.
    schema : Schema
        Restricted to the variables used.
    variables : tuple of str
        Raw columns to read, in a fixed order.
    na : {"zero-row", "declared", "impute-midpoint"}
    engine : {"formulaic", "patsy"}
    order : None or "statsmodels"
    subset, weights, offset : str or None
        Row-wise predicate; nonnegative weight; known part of the linear predictor.
    aside : tuple of Column
        Offset and weight where they are rows of the block buffer (before the response). Else a
        row is multiplied by the root of its weight, and the offset subtracted from the response.
    response_ok, event : see :func:`build_design`
    levels : tuple
        Classes of a "class" response; (non-event, event) of an "event" response.
    survival : Survival or None
        Where the follow-up of ``Surv()`` stands in the buffer.

    Notes
    -----
    **Privacy.** A design holds no data: it is a function of the formula and the schema (and of
    estimated ranges, which are released numbers). :meth:`fill` maps each row separately.
    """

    formula: str
    response: Column | None
    columns: tuple[Column, ...]
    schema: Schema
    variables: tuple[str, ...]
    terms: tuple[TermInfo, ...]
    na: str = "zero-row"
    engine: str = "formulaic"
    order: str | None = None
    subset: str | None = None
    weights: str | None = None
    offset: str | None = None
    aside: tuple[Column, ...] = ()
    response_ok: str = "real"
    event: Any = None
    levels: tuple[Any, ...] = ()
    mean: bool = False
    bought: tuple[tuple[str, float, float], ...] = ()
    buy_all: bool = False
    #: The cells of a table as they are (``build_cell_design``), not the columns of a model.
    cells: bool = False
    survival: Survival | None = None
    #: Columns of clusters and strata, whose labels are rows of the buffer; None: there are none.
    labels: tuple[str | None, str | None] | None = None
    #: Column of clusters without whose id a row is missing, or None.
    ids: str | None = None
    program: Program | None = field(default=None, compare=False, repr=False)

    # -- shape -----------------------------------------------------------------------------
    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the predictor columns."""
        return tuple(c.name for c in self.columns)

    @functools.cached_property
    def p(self) -> int:
        """Number of predictor columns, intercept included."""
        return len(self.columns)

    @functools.cached_property
    def q(self) -> int:
        """Rows of the block buffer: p, those of ``aside``, plus one for the response."""
        return self.p + len(self.aside) + (self.response is not None)

    @functools.cached_property
    def z(self) -> tuple[Column, ...]:
        """Columns of the block buffer, response last."""
        response = () if self.response is None else (self.response,)
        return (*self.columns, *self.aside, *response)

    @functools.cached_property
    def has_intercept(self) -> bool:
        """Whether there is a constant column."""
        return any(c.kind == "intercept" for c in self.columns)

    @functools.cached_property
    def scaled(self) -> bool:
        """Whether rows are multiplied by the root of their weight: no cell is constant then."""
        return self.weights is not None and self.auxiliary_place("weights") is None

    def auxiliary_place(self, kind: str) -> int | None:
        """Return the buffer row of "offset" or "weights", or None if there is none."""
        for row, column in enumerate(self.aside, self.p):
            if column.kind == kind:
                return row
        return None

    @property
    def mass_place(self) -> int | None:
        """Buffer row of what a row of a table weighs, by its weight or ``subset=``; or None."""
        weights = self.auxiliary_place("weights")
        return self.auxiliary_place("subset") if weights is None else weights

    @functools.cached_property
    def kinds(self) -> Mapping[str, Variable]:
        """Variable -> schema variable, for coercion."""
        return {name: self.schema[name] for name in self.variables}

    @functools.cached_property
    def grid(self) -> Grid | None:
        """The grid of the rows; None where predictors take other values, or too many."""
        return _grid(self)

    @functools.cached_property
    def grid_of_images(self) -> Grid | None:
        """Grid from whose cells rows are mapped, or None if mapping filled rows costs less."""
        grid = self.grid
        return grid if grid is not None and self.q > max(_FEW, 3 * len(grid.numbers)) else None

    @functools.cached_property
    def numbers_first(self) -> tuple[int, ...]:
        """Columns of numbers in a design whose rows are summed by cell; empty for other designs."""
        grid = self.grid_of_images
        wide = grid is not None and grid.wide
        return tuple(j for j in grid.numbers if j < self.p) if grid is not None and wide else ()

    @functools.cached_property
    def grid_of_factors(self) -> Grid | None:
        """Grid of which all predictors are functions of the cell, or None if some are numbers."""
        grid = self.grid
        return grid if grid is not None and grid.numbers[0] >= self.p else None

    @functools.cached_property
    def worked_out(self) -> dict[Any, Any]:
        """Cache of values computed from this design alone, by name: public, like the design."""
        return {}

    # -- public bounds ---------------------------------------------------------------------
    def intervals(self) -> Any:
        """Return the (q, 2) array of public ranges, NaN where still unknown."""
        return np.array([c.interval or (math.nan, math.nan) for c in self.z], dtype=float).reshape(
            self.q, 2
        )

    @functools.cached_property
    def unknown(self) -> tuple[str, ...]:
        """Columns of the block buffer whose range must be estimated."""
        return tuple(c.name for c in self.z if c.interval is None)

    def row_norm(self, norm: str = "l2") -> float:
        """Return a public bound on the norm of any predictor row; NaN if a range is unknown.

        **Privacy.** A function of formula and schema. Valid for every possible row.
        """
        choice("norm", norm, _NORMS, FormulaError)
        parts = [self.term_norm(t, norm) for t in self.terms]
        if norm == "l1":
            return sum(parts)
        if norm == "linf":
            return max(parts, default=0.0) if not any(map(math.isnan, parts)) else math.nan
        return math.sqrt(sum(x * x for x in parts))

    def term_norm(self, term: TermInfo, norm: str = "l2") -> float:
        """Return the norm bound of one term: the smaller of two valid bounds; NaN if unknown."""
        cells = [magnitude(c.interval) for c in self.columns[term.columns]]
        bounds = [c for c in cells if c is not None]
        options = []
        if len(bounds) == len(cells):
            options.append(
                {"l2": math.hypot(*bounds), "l1": sum(bounds), "linf": max(bounds, default=0.0)}[
                    norm
                ]
            )
        term_bound = term.norms.get(norm)
        if term_bound is not None:
            options.append(term_bound)
        return min(options) if options else math.nan

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> Design:
        """Return the design with ranges filled in, for example estimated ones; cells are clipped.

        ``bounds``: name of a column, or of the response -> (lo, hi). **Privacy.** They must be
        public or released.
        """
        names = [c.name for c in self.z]
        ranges = {name: (lo, hi) for name, lo, hi in self.bought}
        for name, pair in bounds.items():
            if name not in names:
                raise FormulaError(f"no column {name!r}.{did_you_mean(name, names)}")
            lo, hi = float(pair[0]), float(pair[1])
            if not -LARGEST <= lo <= hi <= LARGEST:
                raise FormulaError(
                    f"range of {name!r} must lie within {-LARGEST:g} and {LARGEST:g}, with "
                    "lower <= upper"
                )
            ranges[name] = (lo, hi)

        def filled(c: Column) -> Column:
            return (
                replace(c, lower=ranges[c.name][0], upper=ranges[c.name][1])
                if c.name in ranges
                else c
            )

        return replace(
            self,
            columns=tuple(map(filled, self.columns)),
            aside=tuple(map(filled, self.aside)),
            response=None if self.response is None else filled(self.response),
            bought=tuple((k, lo, hi) for k, (lo, hi) in sorted(ranges.items())),
        )

    def without_bounds(self) -> Design:
        """Return the design with the range of every numeric column still to be estimated.

        What ``bounds="private"`` asks for. Declared ranges still clip the raw cells and still
        place knots; only the ranges of columns that depend on a number are forgotten. Dummies,
        comparisons, splines and events have ranges that no data can improve.
        """
        assert self.program is not None
        free = _data_free(self.program, self.schema)

        def forget(c: Column, j: int) -> Column:
            return c if free[j] else replace(c, lower=None, upper=None)

        return replace(
            self,
            columns=tuple(forget(c, j) for j, c in enumerate(self.columns)),
            response=None if self.response is None else forget(self.response, self.p),
            buy_all=True,
        )

    def without_missing_marks(self) -> Design:
        """Return the design that marks no row as missing: no variable touches another's column.

        For releases that protect single attributes: a level that is not listed would else put a
        NaN into the cell of another variable. Only with ``na="impute-midpoint"``.
        """
        assert self.program is not None
        return replace(self, program=replace(self.program, marks=False))

    # -- rows ------------------------------------------------------------------------------
    def fill(self, chunk: Mapping[str, Any], out: Any) -> None:
        """Write the design of a block of rows, coerced cells of ``variables``, into ``out`` (q, m).

        ``out[j]`` receives column j in the user's units, inside its public range; the response
        last. A row that must become a zero row has NaN in ``out[-1, i]`` (in ``out[0, i]`` when
        there is no response).

        **Privacy.** Row i of ``out`` is a function of row i of ``chunk``. Never raises or warns
        because of a cell.
        """
        assert self.program is not None
        self.program.fill(chunk, out, *self._limits)

    @functools.cached_property
    def _limits(self) -> tuple[list[Interval], list[tuple[int, float, float]]]:
        """Interval of each buffer row, and the rows that are clipped to a range put in later."""
        row = {c.name: j for j, c in enumerate(self.z)}
        return [c.interval for c in self.z], [(row[n], lo, hi) for n, lo, hi in self.bought]

    def limits(self, rows: Sequence[int]) -> tuple[list[Interval], list[tuple[int, float, float]]]:
        """Return the ranges of some buffer rows, for a buffer of these alone.

        Their intervals, and (row, lower, upper) of those that are clipped to a range put in later.
        """
        clips, finals = self._limits
        place = {j: i for i, j in enumerate(rows)}
        return [clips[j] for j in rows], [(place[j], a, b) for j, a, b in finals if j in place]

    def matrix(self, new: Any, outside: str = "clip") -> Any:
        """Return the (k, p) predictor matrix of new rows, for prediction; NaN where one is missing.

        ``outside``: "clip", "nan" or "extrapolate", what becomes of cells outside a public range.
        **Privacy.** ``new`` is the caller's own; nothing of it is kept.
        """
        choice("outside", outside, _OUTSIDE, FormulaError)
        program = self.program
        assert program is not None
        used = frozenset().union(*map(_variables, program.products))
        if not hasattr(new, "keys") and not hasattr(new, "columns"):
            raise FormulaError(
                "new data must be a table with the names of the variables, got "
                f"{type(new).__name__}. "
                f"For example {{{', '.join(f'{name!r}: [...]' for name in self.variables[1:3])}}}"
            )
        columns = list(new.keys() if hasattr(new, "keys") else new.columns)
        chunk: dict[str, Any] = {}
        rows: int | None = None
        for name in self.variables:
            if name not in used:
                continue
            if name not in columns:
                needed = ", ".join(n for n in self.variables if n in used)
                raise FormulaError(
                    f"the new data has no column {name!r}.{did_you_mean(name, columns)} It needs "
                    f"{needed}"
                )
            variable = self.schema[name]
            if isinstance(new, Made):
                variable = variable.read_plainly()
            cells = coerce_all({name: _listed(new[name])}, {name: variable})[name]
            if outside == "nan" and variable.interval is not None:
                lo, hi = variable.interval
                with np.errstate(invalid="ignore"):
                    cells = np.where((cells < lo) | (cells > hi), np.nan, cells)
            chunk[name] = cells
            rows = len(cells) if rows is None else rows
            if len(cells) != rows:
                raise FormulaError("the columns of the new data differ in length")
        if rows is None:
            rows = len(_listed(new[columns[0]])) if columns else 1
        x = program.matrix(chunk, rows, clip=outside != "extrapolate")
        for name, lo, hi in self.bought:
            if name not in self.names or outside == "extrapolate":
                continue
            j = self.names.index(name)
            if outside == "clip":
                x[:, j] = np.clip(x[:, j], lo, hi)
            else:
                with np.errstate(invalid="ignore"):
                    x[(x[:, j] < lo) | (x[:, j] > hi)] = np.nan
        return x

    # -- identity --------------------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Return the fields from which ``formula.survival.design_from`` compiles it again."""
        return {
            "formula": self.formula,
            "schema": self.schema.to_dict(),
            "na": self.na,
            "engine": self.engine,
            "order": self.order,
            "subset": self.subset,
            "weights": self.weights,
            "response_ok": self.response_ok,
            "event": self.event,
            "mean": self.mean,
            "one_sided": self.response is None and not self.mean,
            "buy_all": self.buy_all,
            "bought": [list(b) for b in self.bought],
            **({"aside": True} if any(c.kind in ("offset", "weights") for c in self.aside) else {}),
            **({"labels": list(self.labels)} if self.labels is not None else {}),
            **({"ids": self.ids} if self.ids is not None and self.labels is None else {}),
            **({"cells": True} if self.cells else {}),
            **({"survival": True} if self.survival is not None else {}),
        }

    @property
    def fingerprint(self) -> str:
        """Hash of formula, schema and rules: equal designs, equal fingerprints."""
        text = json.dumps({**self.to_dict(), "names": self.names}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


# -- Designs of cells: numbers in their units, categories as codes, and the grid of their levels.
#
# A *cell design* has one column per factor of the formula, response side first. Unlike the columns
# of a regression, a cell that is missing stays missing where it is: one variable's missing cell
# says nothing about another's.


class Made(dict[str, Any]):
    """Public rows that were made from a schema: no cell of them is a missing code."""


def as_cell(text: str, factor: Factor, schema: Schema, formula: str) -> CellSource:
    """Return the column of one factor of a table, or refuse it."""
    if isinstance(factor, Basis):
        raise FormulaError(
            f'"{formula}": `{text}` makes several columns; a table needs variables, row-wise '
            "expressions and categories"
        )
    if isinstance(factor, Cat):
        return CellSource(text, factor, tuple(factor.levels))
    declared = schema.variables.get(text)
    if declared is not None and declared.kind == "binary":
        return CellSource(text, factor, tuple(getattr(declared, "levels", None) or (0, 1)))
    if factor.boolean:
        return CellSource(text, factor, (False, True))
    return CellSource(text, factor)


# -- Cells of new rows, which are the caller's own


def odd_cells(design: Design, new: Any, outside: str) -> list[str]:
    """Return masks of cells of new rows that were clipped, became NaN, or were not understood.

    **Privacy.** Reads ``new``, which is the caller's, and public or released ranges. Not for rows
    of a release.
    """
    assert design.program is not None
    used = variables_of(design)
    if not used.issubset(new.keys() if hasattr(new, "keys") else new.columns):
        return []  # the prediction itself says what is missing
    what = {"clip": "moved to the nearer bound", "nan": "answered by NaN"}.get(outside, "")
    messages: list[str] = []
    for name in design.variables:
        if name not in used:
            continue
        variable, raw = design.schema[name], _listed(new[name])
        cells = coerce_all({name: raw}, {name: variable})[name]
        present = ~np.asarray(pd.isna(np.asarray(raw, dtype=object)), dtype=bool)
        lost = (np.asarray(cells) < 0) if isinstance(variable, Levels) else np.isnan(cells)
        unknown = int((lost & present).sum())
        if unknown:
            kind = "not a declared level" if isinstance(variable, Levels) else "not readable"
            messages.append(
                f"{unknown} of {len(present)} cells of {name!r} are {kind}: answered by NaN"
            )
        if what and variable.interval is not None and not isinstance(variable, Levels):
            messages += _beyond(name, np.asarray(cells, dtype=float), *variable.interval, what)
    if what and design.bought:
        x = design.matrix(new, "extrapolate")
        for name, lo, hi in design.bought:
            if name in design.names:
                messages += _beyond(name, x[:, design.names.index(name)], lo, hi, what)
    return messages


def _beyond(name: str, cells: Any, lo: float, hi: float, what: str) -> list[str]:
    """Return a sentence on the cells of synthetic rows outside a range, empty if none are."""
    with np.errstate(invalid="ignore"):
        out = int(((cells < lo) | (cells > hi)).sum())
    if not out:
        return []
    return [f"{out} of {len(cells)} cells of {name!r} are outside [{lo:g}, {hi:g}]: {what}"]


def _listed(column: Any) -> Any:
    """Return a column; a scalar is one row."""
    if isinstance(column, (str, bytes)) or (
        np.ndim(column) == 0 and not hasattr(column, "__len__")
    ):
        return np.array([column], dtype=object)
    return (
        column
        if hasattr(column, "dtype") or hasattr(column, "type")
        else np.asarray(list(column), dtype=object)
    )


# -- Designs whose predictors take few values: a row as a cell of a public grid, and a few numbers.
#
# Where every predictor is a function of declared levels and 0/1 variables, the row of the design is
# one of K rows that are known before any data: the *cells*, one for every combination of levels
# (and of missing ones). Only the cell of a row and its numbers (the response, auxiliary columns,
# numeric columns) have to be read. Work on predictors is done K times, not n times.


#: Combinations of levels up to which rows are counted by cell.
MOST_CELLS = 4096
#: Columns up to which filled rows are mapped sooner than looked up.
_FEW = 12


def _grid(design: Design) -> Grid | None:
    """Return the public grid of cells of a design of factors, or None if it has none."""
    program = design.program
    if type(program) is not Program or program.weights is not None or not program.marks:
        return None
    discrete = {name for name, v in design.kinds.items() if isinstance(v, (Levels, Binary))}
    inner = [p for p in program.products if _variables(p) <= discrete]
    outer = [p for p in program.products if not _variables(p) <= discrete]
    names = sorted(set().union(*map(_variables, inner)))
    if not names or any(_variables(p) & set(names) for p in outer):
        return None
    variables = [design.schema[name] for name in names]
    sizes = tuple(_size(v) for v in variables)
    if math.prod(sizes) > MOST_CELLS:
        return None
    places = [j for p in inner for j in range(p.start, p.start + p.width)]
    numbers = tuple(j for j in range(design.q) if j not in set(places))
    bought = {name for name, _, _ in design.bought}
    if not numbers or any(design.names[j] in bought for j in places):
        return None
    variable_of = dict(zip(names, variables, strict=True))
    table, missing = _cells(design, program, inner, places, variable_of)
    clips, finals = design.limits(numbers)
    d = design.p - len(places)
    rows = replace(
        program, products=_separate_rows(outer), columns=d, numeric=(slice(0, len(numbers)),)
    )
    binary = tuple(isinstance(v, Binary) for v in variables)
    return Grid(table, missing, numbers, tuple(names), sizes, binary, rows, clips, finals)


def _variables(product: Product) -> frozenset[str]:
    return frozenset().union(*(a.source.variables for a in product.atoms))


def variables_of(design: Design) -> frozenset[str]:
    """Return the names of the variables that predictors are made of."""
    products = () if design.program is None else design.program.products
    return frozenset().union(*(a.source.variables for p in products for a in p.atoms))


def _size(variable: Variable) -> int:
    return 1 + (len(variable.codes) if isinstance(variable, Levels) else 2)


def _separate_rows(products: Sequence[Product]) -> tuple[Product, ...]:
    """Return products with separate rows, in the same order."""
    out, at = [], 0
    for p in products:
        out.append(replace(p, start=at))
        at += p.width
    return tuple(out)


def _cells(
    design: Design, program: Program, products: Sequence[Product], places: Sequence[int],
    variables: Mapping[str, Variable],
) -> tuple[Array, Any]:  # fmt: skip
    """Return (table, missing): the program's own rows of every combination of codes."""
    sizes = [_size(v) for v in variables.values()]
    K = math.prod(sizes)
    places_of = np.unravel_index(np.arange(K), sizes)
    chunk = {
        name: codes.astype(np.int32) - 1
        if isinstance(v, Levels)
        else np.array([np.nan, 0.0, 1.0])[codes]
        for (name, v), codes in zip(variables.items(), places_of, strict=True)
    }
    d = len(places)
    alone = replace(
        program, products=_separate_rows(products), columns=d, numeric=(slice(0, d),),
        response=None,
        offset=None, subset=None, ids=None, aside=(),
    )  # fmt: skip
    out = np.empty((d, K))
    alone.fill(chunk, out, [design.z[j].interval for j in places], ())
    missing = np.isnan(out).any(axis=0)
    out[:, missing] = 0.0
    table = np.zeros((design.q, K))
    table[list(places)] = out
    return table, missing


def _data_free(program: Program | CellProgram, schema: Schema) -> list[bool]:
    """Return for each buffer row whether its range follows from its form: no data improve it."""
    if isinstance(program, CellProgram):
        return [source.levels is not None for source in program.sources]

    def free(source: Node | Basis | Cat | None) -> bool:
        if not isinstance(source, Node) or source.boolean:
            return True
        return all(schema[v].kind == "binary" for v in source.variables)

    out: list[bool] = []
    for p in program.products:
        out += [all(free(a.source) for a in p.atoms)] * p.width
    if program.response is not None:
        out.append(free(program.response) and (program.offset is None or free(program.offset)))
    return out
