"""Designs whose predictors take few values: a row as a cell of a public grid, and a few numbers.

Where every predictor is a function of declared levels and 0/1 variables, the row of the design is
one of K rows that are known before any data: the *cells*, one for every combination of levels
(and of missing ones). Of a row of the table only its cell and its numbers (the response, what
stands aside, numeric columns) have to be read; what is done with predictors is done K times, not
n times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.formula.nodes import Array
from dpmodels.formula.program import Product, Program
from dpmodels.variables import Binary, Levels, Variable

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

#: Combinations of levels up to which rows are counted by cell.
MOST_CELLS = 4096
#: Columns up to which filled rows are mapped sooner than looked up.
_FEW = 12


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of a design, and what is read of a row beside its cell. Public.

    Attributes
    ----------
    table : (q, K) array
        The design's rows by cell, in its buffer's order; 0 in the rows ``numbers``.
    void : (K,) bool array
        Cells whose rows are missing.
    numbers : tuple of int
        Buffer rows that are read row by row.
    variables : tuple of str
        Those of the cells; the last runs fastest.
    sizes : tuple of int
        Values of each, a missing one included (the first).
    binary : tuple of bool
        Whether it comes as a number 0 or 1, not as a code.
    program : Program
        Fills the rows ``numbers``.
    clips, finals
        Their ranges, as :meth:`Program.fill` takes them.
    """

    table: Array
    void: Array
    numbers: tuple[int, ...]
    variables: tuple[str, ...]
    sizes: tuple[int, ...]
    binary: tuple[bool, ...]
    program: Program
    clips: Sequence[Any]
    finals: Sequence[tuple[int, float, float]]

    @property
    def cells(self) -> int:
        """K."""
        return len(self.void)

    def fill(self, chunk: Mapping[str, Any], out: Array, cells: Array) -> None:
        """Write the numbers of rows into ``out`` (d, m), and their cells into ``cells`` (m,) intp.

        A row that must become a zero row for its numbers has NaN in ``out[-1, i]`` (in
        ``out[0, i]`` without a response); for its predictors it is in a void cell.
        """
        self.program.fill(chunk, out, self.clips, self.finals)
        place: Any = 0
        base = 0
        for name, size, binary in zip(self.variables, self.sizes, self.binary, strict=True):
            codes = chunk[name]
            if binary:
                with np.errstate(all="ignore"):
                    codes = np.where(np.isnan(codes), -1.0, codes).astype(np.int32)
            # codes begin at -1, for a missing cell
            place, base = (place * size + codes, base * size + 1)
        np.add(place, base, out=cells)


def grid_of(design: Design) -> Grid | None:
    """Return the grid of a design; None where its predictors take other or too many values.

    Notes
    -----
    **Privacy.** A function of formula and schema.
    """
    kept = design.worked_out
    if "grid" not in kept:
        kept["grid"] = _grid(design)
    found: Grid | None = kept["grid"]
    return found


def grid_of_images(design: Design) -> Grid | None:
    """Return the grid from whose cells rows are mapped; None: filled rows are, which costs less.

    Notes
    -----
    **Privacy.** A function of formula and schema.
    """
    grid = grid_of(design)
    return grid if grid is not None and design.q > max(_FEW, 3 * len(grid.numbers)) else None


def _grid(design: Design) -> Grid | None:
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
    table, void = _cells(design, program, inner, places, dict(zip(names, variables, strict=True)))
    clips, finals = design.limits(numbers)
    d = design.p - len(places)
    rows = replace(program, products=_moved(outer), columns=d, numeric=(slice(0, len(numbers)),))
    binary = tuple(isinstance(v, Binary) for v in variables)
    return Grid(table, void, numbers, tuple(names), sizes, binary, rows, clips, finals)


def _variables(product: Product) -> frozenset[str]:
    return frozenset().union(*(a.source.variables for a in product.atoms))


def _size(variable: Variable) -> int:
    return 1 + (len(variable.codes) if isinstance(variable, Levels) else 2)


def _moved(products: Sequence[Product]) -> tuple[Product, ...]:
    """Return products in rows of their own, in the same order."""
    out, at = [], 0
    for p in products:
        out.append(replace(p, start=at))
        at += p.width
    return tuple(out)


def _cells(
    design: Design,
    program: Program,
    products: Sequence[Product],
    places: Sequence[int],
    variables: Mapping[str, Variable],
) -> tuple[Array, Array]:
    """Return (table, void): the program's own rows of every combination of codes."""
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
        program, products=_moved(products), columns=d, numeric=(slice(0, d),), response=None,
        offset=None, subset=None, aside=(),
    )  # fmt: skip
    out = np.empty((d, K))
    alone.fill(chunk, out, [design.z[j].interval for j in places], ())
    void = np.isnan(out).any(axis=0)
    out[:, void] = 0.0
    table = np.zeros((design.q, K))
    table[list(places)] = out
    return table, void
