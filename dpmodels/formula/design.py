"""A compiled design: what every column is, its public bound, and how a block of rows fills it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import FormulaError, choice, did_you_mean
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import Interval, magnitude
from dpmodels.variables import LARGEST, Variable

if TYPE_CHECKING:
    from dpmodels.formula.program import Program

_NORMS = ("l2", "l1", "linf")


@dataclass(frozen=True)
class Column:
    """One column of the design.

    Attributes
    ----------
    name : str
    lower, upper : float or None
        Public range of the cells; ``None`` until it is bought.
    term : str
        Term it belongs to.
    kind : str
        "intercept", "numeric", "dummy", "contrast", "basis", "product", "response", "event"
        or "class".
    """

    name: str
    lower: float | None
    upper: float | None
    term: str
    kind: str

    @property
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
    """Which rows of the buffer hold the follow-up that ``Surv()`` and ``strata()`` say.

    Attributes
    ----------
    time, event : int
        Row with the (stop) time, in its declared range, NaN for a row that counts as nothing; row
        with the event, 0 or 1.
    start : int or None
        Row with the time of entry; None: everybody is followed from the first.
    group, strata : int or None
        Rows with the codes of groups (of a table alone) and of strata; None: there are none.
    groups, stratas : tuple of str
        Labels of the codes, ``"sex=1, arm=b"``.
    names : (str, str, str)
        Start, time and event as typed.
    """

    time: int
    event: int
    start: int | None = None
    group: int | None = None
    strata: int | None = None
    groups: tuple[str, ...] = ()
    stratas: tuple[str, ...] = ()
    names: tuple[str, str, str] = ("", "time", "event")


@dataclass(frozen=True)
class Design:
    """Columns of a model, known before a row is read.

    Attributes
    ----------
    formula : str
    response : Column or None
    columns : tuple of Column
        "Intercept" first when there is one. ``out[j]`` of :meth:`fill` is ``columns[j]``.
    schema : Schema
        Restricted to the variables used.
    variables : tuple of str
        Raw columns to read, in a fixed order.
    terms : tuple of TermInfo
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
    ranges that were bought, which are released numbers). :meth:`fill` maps each row by itself.
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
    program: Program | None = field(default=None, compare=False, repr=False)

    # -- shape -----------------------------------------------------------------------------
    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the predictor columns."""
        return tuple(c.name for c in self.columns)

    @property
    def p(self) -> int:
        """Number of predictor columns, intercept included."""
        return len(self.columns)

    @property
    def q(self) -> int:
        """Rows of the block buffer: p, those of ``aside``, plus one for the response."""
        return self.p + len(self.aside) + (self.response is not None)

    @functools.cached_property
    def z(self) -> tuple[Column, ...]:
        """Columns of the block buffer, response last."""
        response = () if self.response is None else (self.response,)
        return (*self.columns, *self.aside, *response)

    @property
    def has_intercept(self) -> bool:
        """Whether there is a constant column."""
        return any(c.kind == "intercept" for c in self.columns)

    @property
    def scaled(self) -> bool:
        """Whether rows are multiplied by the root of their weight: no cell is constant then."""
        return self.weights is not None and self.place_aside("weights") is None

    def place_aside(self, kind: str) -> int | None:
        """Return the row of the buffer that holds "offset" or "weights"; None: there is none."""
        kinds = [c.kind for c in self.aside]
        return self.p + kinds.index(kind) if kind in kinds else None

    @property
    def kinds(self) -> dict[str, Variable]:
        """Variable -> schema variable: what coercion needs."""
        return {name: self.schema[name] for name in self.variables}

    @functools.cached_property
    def worked_out(self) -> dict[Any, Any]:
        """What was computed from this design alone, by name: public, like the design."""
        return {}

    # -- public bounds ---------------------------------------------------------------------
    def intervals(self) -> Any:
        """Return the (q, 2) array of public ranges, NaN where still unknown."""
        return np.array([c.interval or (math.nan, math.nan) for c in self.z], dtype=float).reshape(
            self.q, 2
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns of the block buffer whose range must be bought."""
        return tuple(c.name for c in self.z if c.interval is None)

    @property
    def response_bound(self) -> float:
        """Bound on the absolute response; NaN if unknown, 0 without a response."""
        if self.response is None:
            return 0.0
        bound = magnitude(self.response.interval)
        return math.nan if bound is None else bound

    def row_norm(self, norm: str = "l2") -> float:
        """Return a public bound on the norm of any predictor row; NaN if a range is unknown.

        Parameters
        ----------
        norm : {"l2", "l1", "linf"}

        Notes
        -----
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
        known = [c for c in cells if c is not None]
        options = []
        if len(known) == len(cells):
            options.append(
                {"l2": math.hypot(*known), "l1": sum(known), "linf": max(known, default=0.0)}[norm]
            )
        whole = term.norms.get(norm)
        if whole is not None:
            options.append(whole)
        return min(options) if options else math.nan

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> Design:
        """Return the design with ranges filled in (bought ones, say); cells are clipped to them.

        Parameters
        ----------
        bounds : mapping
            Column name -> (lo, hi). The response may be among them.

        Notes
        -----
        **Privacy.** The ranges must be public or released.
        """
        known = [c.name for c in self.z]
        kept = {name: (lo, hi) for name, lo, hi in self.bought}
        for name, pair in bounds.items():
            if name not in known:
                raise FormulaError(f"no column {name!r}.{did_you_mean(name, known)}")
            lo, hi = float(pair[0]), float(pair[1])
            if not -LARGEST <= lo <= hi <= LARGEST:
                raise FormulaError(
                    f"range of {name!r} must lie within {-LARGEST:g} and {LARGEST:g}, with "
                    "lower <= upper"
                )
            kept[name] = (lo, hi)

        def filled(c: Column) -> Column:
            return replace(c, lower=kept[c.name][0], upper=kept[c.name][1]) if c.name in kept else c

        return replace(
            self,
            columns=tuple(map(filled, self.columns)),
            aside=tuple(map(filled, self.aside)),
            response=None if self.response is None else filled(self.response),
            bought=tuple((k, lo, hi) for k, (lo, hi) in sorted(kept.items())),
        )

    def without_bounds(self) -> Design:
        """Return the design with the range of every numeric column still to be bought.

        What ``bounds="private"`` asks for. Declared ranges still clip the raw cells and still
        place knots; only the ranges of columns that depend on a number are forgotten. Dummies,
        comparisons, splines and events have ranges that no data can improve.
        """
        assert self.program is not None
        free = self.program.data_free(self.schema)

        def forget(c: Column, j: int) -> Column:
            return c if free[j] else replace(c, lower=None, upper=None)

        return replace(
            self,
            columns=tuple(forget(c, j) for j, c in enumerate(self.columns)),
            response=None if self.response is None else forget(self.response, self.p),
            buy_all=True,
        )

    def unmarked(self) -> Design:
        """Return the design that marks no row as missing: no variable touches another's column.

        For releases that protect single attributes: a level that is not listed would else put a
        NaN into the cell of another variable. Only with ``na="impute-midpoint"``.
        """
        assert self.program is not None
        return replace(self, program=replace(self.program, marks=False))

    # -- rows ------------------------------------------------------------------------------
    def fill(self, chunk: Mapping[str, Any], out: Any) -> None:
        """Write the design of a block of rows into ``out``.

        Parameters
        ----------
        chunk : mapping of str to array
            Coerced cells (see :func:`dpmodels.formula.coerce.coerce`) of ``variables``, m rows.
        out : (q, m) float64 array
            ``out[j]`` receives column j in the user's units, inside its public range; the response
            last. A row that must become a zero row has NaN in ``out[-1, i]`` (in ``out[0, i]``
            when there is no response).

        Notes
        -----
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

    def limits(
        self, rows: Sequence[int]
    ) -> tuple[list[Interval], list[tuple[int, float, float]]]:
        """Return the ranges of some buffer rows, for a buffer of these alone.

        Their intervals, and (row, lower, upper) of those that are clipped to a range put in later.
        """
        clips, finals = self._limits
        place = {j: i for i, j in enumerate(rows)}
        return [clips[j] for j in rows], [(place[j], a, b) for j, a, b in finals if j in place]

    def matrix(self, new: Any, outside: str = "clip") -> Any:
        """Return the (k, p) predictor matrix of new rows, for prediction.

        Parameters
        ----------
        new : DataFrame, mapping of columns
        outside : {"clip", "nan", "extrapolate"}
            Cells outside a public range: clipped, missing, or used as they are.

        Returns
        -------
        (k, p) array
            NaN rows where a cell is missing.

        Notes
        -----
        **Privacy.** ``new`` is the caller's own; nothing of it is kept.
        """
        from dpmodels.formula.cells import matrix

        return matrix(self, new, outside)

    # -- identity --------------------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Return what ``formula.survival.design_from`` compiles the same design from."""
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
            **({"cells": True} if self.cells else {}),
            **({"survival": True} if self.survival is not None else {}),
        }

    @property
    def fingerprint(self) -> str:
        """Hash of formula, schema and rules: equal designs, equal fingerprints."""
        text = json.dumps({**self.to_dict(), "names": self.names}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()
