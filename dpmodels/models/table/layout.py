"""Layout of a table call, from its formula and options alone, and the formula of its rows."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core import release as core
from dpmodels.core.means import half_ranges
from dpmodels.core.rows import Rows, stack, where
from dpmodels.core.tables import Products, Table, Tables
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.formula.program import CellProgram
from dpmodels.formula.words import written_name
from dpmodels.registry import Method

#: Name of the last cell of every axis: a missing or undeclared level, or a row left out.
MISSING = "(missing)"
#: Quantiles released of a numeric variable with a median.
QUARTILES = (0.25, 0.5, 0.75)
#: Above this many cells a table is refused; above as many as there are rows the plan warns.
MOST_CELLS = 1 << 18


@dataclass(frozen=True)
class Axis:
    """One direction of a table."""

    name: str
    column: int  # Row of the block buffer
    # "level" (a code), "number" (its mass lies low, in the middle, high) or "bin" (of a numeric
    # variable's range).
    kind: str
    labels: tuple[str, ...]  # The last one is :data:`MISSING`
    # Edges of bins, as printed. Empty: equal parts of a range to be estimated
    edges: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Number of cells, the missing one included."""
        return len(self.labels)


@dataclass(frozen=True)
class Block:
    """A table that is released: one unit of mass a row."""

    axes: tuple[int, ...]  # Increasing
    # Row of the block buffer whose axis "number" is among the axes, -1 for counts alone.
    number: int = -1


@dataclass(frozen=True)
class Section:
    """One part of a printed table."""

    kind: str  # "counts", "means" or "quantiles"
    axes: tuple[int, ...]  # Axes of the counts, or of the group
    number: int = -1  # As in :class:`Block`
    variable: str = ""  # Name of the number


@dataclass(frozen=True)
class Item:
    """One released statistic: its index in a section, and its name."""

    statistic: str
    variable: str
    cell: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """``mean(wage)[region=north]``."""
        head = f"{self.statistic}({self.variable})" if self.variable else self.statistic
        inside = ", ".join(f"{axis}={label}" for axis, label in self.cell)
        return f"{head}[{inside}]" if inside else head


@dataclass(frozen=True)
class Layout:
    """Axes of a table, its released blocks, and its printed sections."""

    axes: tuple[Axis, ...]
    blocks: tuple[Block, ...]
    sections: tuple[Section, ...]
    quantiles: tuple[float, ...] = ()
    medians: tuple[str, ...] = ()  # Numbers that have quartiles, those of all groups too
    # Each table has one more cell at its end, of the mass of rows that does not count: what their
    # weights leave, and rows outside ``subset=``.
    unused: bool = False

    def cells(self, axes: tuple[int, ...]) -> int:
        """Return the number of cells of a table."""
        return math.prod(self.axes[j].size for j in axes)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of cells that are released of each block."""
        return tuple(self.cells(block.axes) + self.unused for block in self.blocks)

    def number_axis(self, number: int) -> int:
        """Return the axis of a numeric variable."""
        return next(j for j, a in enumerate(self.axes) if a.kind == "number" and a.column == number)

    def group(self, block: Block) -> tuple[int, ...]:
        """Return the axes of a block besides that of its number."""
        return tuple(j for j in block.axes if self.axes[j].kind != "number")

    def shown(self, axes: tuple[int, ...], *, missing: bool) -> Iterator[tuple[int, ...]]:
        """Yield the cells of a table, with or without the missing levels."""
        ends = [self.axes[j].size - (0 if missing else 1) for j in axes]
        return itertools.product(*map(range, ends))

    def labels(self, axes: tuple[int, ...], cell: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
        """Return the labels of a cell."""
        return tuple(
            (self.axes[j].name, self.axes[j].labels[c]) for j, c in zip(axes, cell, strict=True)
        )

    def items(self, section: Section) -> list[Item]:
        """Return the items of a section, in the order of its numbers."""
        if section.kind == "counts":
            return [
                Item("n", "", self.labels(section.axes, cell))
                for cell in self.shown(section.axes, missing=True)
            ]
        if section.kind == "means":
            what: tuple[str, ...] = ("n", "mean", "sd")
        else:
            what = tuple(f"q{q:g}" for q in self.quantiles)
        return [
            Item(statistic, section.variable, self.labels(section.axes, cell))
            for cell in self.shown(section.axes, missing=False)
            for statistic in what
        ]


def program_of(design: Design) -> CellProgram:
    """Return the program of a cell design."""
    program: Any = design.program
    return program


def largest_groups(program: CellProgram) -> list[tuple[int, ...]]:
    """Return the groups of a two-sided table that are not margins of others."""
    groups = [tuple(sorted(g)) for g in program.right] if program.left else []
    return [g for g in groups if g and not any(set(g) < set(h) for h in groups)]


def variables_of(program: CellProgram) -> tuple[tuple[int, ...], ...]:
    """Return the variables of a table, each with its crossed ones, but those that make its groups.

    Within such a group a variable has one level, so that it tells nothing that the group does not.
    """
    groups = largest_groups(program)
    return tuple(
        term for term in program.left or program.right
        if not groups or not all(set(term) <= set(g) for g in groups)
    )  # fmt: skip


def layout_of(
    design: Design,
    *,
    histogram: int | None = None,
    quantiles: tuple[float, ...] = (),
    medians: tuple[str, ...] = (),
) -> Layout:
    """Lay out the tables of a formula.

    One-sided: a table for each term; two-sided: each variable on the left within each group on
    the right. Groups that are margins of other groups are added up, not released. Numbers with
    ``medians`` have quartiles in the largest groups and in all of them together.
    """
    program = program_of(design)
    if medians:
        quantiles = QUARTILES
    axes = [
        Axis(s.name, j, "level", (*map(str, s.levels), MISSING))
        if s.levels is not None
        else Axis(s.name, j, "number", ("low", "middle", "high", MISSING))
        for j, s in enumerate(program.sources)
    ]
    numbers = {j for j, s in enumerate(program.sources) if s.levels is None}
    groups = program.right if program.left else ()
    _check_categories(program, numbers, groups, program.left or program.right)
    groups = tuple(tuple(sorted(g)) for g in groups) or ((),)
    largest = largest_groups(program) or [()]
    variables = variables_of(program)
    blocks = [] if variables else [Block(g) for g in largest]
    sections = [Section("counts", g) for g in groups if g]
    for term in variables:
        mine = numbers.intersection(term)
        if not mine:
            for g in largest:
                blocks.append(Block(tuple(sorted({*g, *term}))))
                sections.append(Section("counts", tuple(sorted({*g, *term}))))
            if program.left:  # without groups, from the same release
                sections.append(Section("counts", tuple(sorted(term))))
            continue
        (number,) = mine
        name = program.sources[number].name
        if histogram:
            axes.append(_bins(design, number, histogram))
            blocks += [Block((*g, len(axes) - 1)) for g in largest]
            sections += [Section("counts", (*g, len(axes) - 1)) for g in largest]
        blocks += [Block(tuple(sorted((*g, number))), number) for g in largest]
        groupings = list(dict.fromkeys([*groups, ()]))
        sections += [Section("means", g, number, name) for g in groupings]
        sections += [
            Section("quantiles", g, number, name)
            for g in _groups_of_quantiles(name, largest, quantiles, medians)
        ]
    layout = Layout(
        tuple(axes), tuple(dict.fromkeys(blocks)), tuple(dict.fromkeys(sections)), quantiles,
        medians, design.mass_place is not None,
    )  # fmt: skip
    _check_size(layout)
    return layout


def _groups_of_quantiles(
    name: str, largest: list[tuple[int, ...]], quantiles: tuple[float, ...],
    medians: tuple[str, ...],
) -> list[tuple[int, ...]]:  # fmt: skip
    """Return the groups in which a variable has quantiles; with a median also all rows."""
    if not medians:
        return largest if quantiles else []
    return list(dict.fromkeys([*largest, ()])) if name in medians else []


def _check_categories(program: CellProgram, numbers: set[int], groups: Any, variables: Any) -> None:
    """Refuse a numeric variable where a table needs categories."""
    for group in groups:
        for j in numbers.intersection(group):
            name = program.sources[j].name
            raise RequestError(
                f"{name!r} is a number, and groups are made of categories: cut it at public "
                f"points, as in cut({written_name(name)}, breaks=[...])"
            )
    for term in variables:
        if numbers.intersection(term) and len(term) > 1:
            raise RequestError(
                f"a table of {':'.join(program.sources[j].name for j in term)} crosses a number "
                "with another variable: cut it at public points, as in cut(x, breaks=[...])"
            )


def _check_size(layout: Layout) -> None:
    """Refuse a table of more cells than noise leaves anything of."""
    for block in layout.blocks:
        if layout.cells(block.axes) > MOST_CELLS:
            raise RequestError(
                f"this table has {layout.cells(block.axes):,} cells, more than {MOST_CELLS:,}: "
                "the noise of a cell would be all there is. Merge levels, or drop a variable"
            )


def _bins(design: Design, number: int, bins: int) -> Axis:
    """Return the axis of the bins of a numeric variable: equal widths over its range."""
    column = design.columns[number]
    labels: tuple[str, ...] = tuple(f"bin {b + 1}" for b in range(bins))
    edges: tuple[float, ...] = ()
    if column.interval is not None:
        lo, hi = column.interval
        edges = tuple(lo + (hi - lo) * b / bins for b in range(bins + 1))
        labels = tuple(f"[{a:.6g}, {b:.6g})" for a, b in itertools.pairwise(edges))
        labels = (*labels[:-1], labels[-1][:-1] + "]")
    return Axis(column.name, number, "bin", (*labels, MISSING), edges)


#: N, T and Q of the four cells of a numeric variable's axis.
COUNT = np.array([1.0, 1.0, 1.0, 0.0])
TOTAL = np.array([-1.0, 0.0, 1.0, 0.0])
SQUARE = np.array([1.0, -1.0, 1.0, 0.0])


def spread_out(N: Array, T: Array, Q: Array) -> Array:
    """Return the cells (low, middle, high) of given sums, last axis first: for plans."""
    return np.stack([(N - 2.0 * T + Q) / 4.0, (N - Q) / 2.0, (N + 2.0 * T + Q) / 4.0])


# -- The formula of a row of a table, for :class:`dpmodels.core.tables.Tables`.


def table_release(
    name: str, layout: Layout, shares: tuple[float, ...], design: Design,
    row_mass: Callable[[Any], Any] | None = None, *, geometric: bool = False,
    pairs: Sequence[Block] = (), scale: tuple[Array, Array] | None = None,
) -> core.Release:  # fmt: skip
    """Return the release of the tables of a layout, or of products of people in some of them.

    ``row_mass`` gives the mass of a row. None: 1, or 0 outside ``subset=``. ``scale``: middles and
    half-widths of windows in place of the ranges of columns.
    """
    numbers = list(dict.fromkeys(a.column for a in layout.axes if a.kind != "level"))
    coded = [j for j, a in enumerate(layout.axes) if a.kind != "number"]
    tables = []
    for block in pairs or layout.blocks:
        sizes = [layout.axes[j].size for j in block.axes]
        strides = {j: math.prod(sizes[i + 1 :]) for i, j in enumerate(block.axes)}
        codes = tuple((coded.index(j), step) for j, step in strides.items() if j in coded)
        (step,) = [step for j, step in strides.items() if j not in coded] or [0]
        number = numbers.index(block.number) if step else -1
        tables.append(Table(math.prod(sizes), codes, number, step))
    into = (Products if pairs else Tables)(
        [layout.axes[j].size for j in coded],
        tables,
        shares,
        unused=layout.unused,
        geometric=geometric,
    )
    centre, half = half_ranges(design) if scale is None else scale
    inside = design.mass_place if layout.unused else None

    def row(z: Rows) -> tuple[Rows, Rows, Any]:
        unit = {j: (z[j] - centre[j]) / half[j] for j in numbers}
        codes = (code for code in codes_of(layout, z, unit) if code is not None)
        u = None if row_mass is None else row_mass(z)
        if row_mass is None and inside is not None:
            u = where(np.isnan(z[inside]), 0.0, 1.0)
        return stack(z[:0], *codes), stack(z[:0], *unit.values()), u

    return core.Release(name, into, row, design)


def codes_of(layout: Layout, block: Any, unit: Mapping[int, Any]) -> list[Any]:
    """Return the code of each row along each axis; None along the axis of a numeric variable."""
    out: list[Any] = []
    for axis in layout.axes:
        if axis.kind == "level":
            out.append(block[axis.column])
        elif axis.kind == "bin":
            width, t = axis.size - 1.0, unit[axis.column]
            if axis.edges:  # those that are printed: a value on an edge lies in the bin above it
                at = np.searchsorted(axis.edges[1:-1], block[axis.column], "right")
            else:
                at = np.floor((np.clip(t, -1.0, 1.0) + 1.0) * (0.5 * width))
                at = np.minimum(at, width - 1.0)
            out.append(np.where(np.isnan(t), width, at))
        else:
            out.append(None)
    return out


#: Shared fields of the entries of tables, quantiles and tests.
table_method = functools.partial(Method, proof="models/table/theory.md", needs=("one pass",))
