"""What a table call releases, from its formula and options alone: all of it public."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.formula.cells import CellProgram
    from dpmodels.formula.design import Design

#: What the last cell of every axis is called: a missing or undeclared level, a row left out.
MISSING = "(missing)"
#: Above this many cells a table is refused; above as many as there are rows the plan warns.
MOST_CELLS = 1 << 18


@dataclass(frozen=True)
class Axis:
    """One direction of a table.

    Attributes
    ----------
    name : str
    column : int
        Row of the block buffer.
    kind : str
        "level" (a code), "number" (its mass lies low, in the middle, high: ``sums.py``) or "bin"
        (of a number's range).
    labels : tuple of str
        The last one is :data:`MISSING`.
    """

    name: str
    column: int
    kind: str
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of cells, the missing one included."""
        return len(self.labels)


@dataclass(frozen=True)
class Block:
    """A table that is released: one unit of mass a row.

    Attributes
    ----------
    axes : tuple of int
        Increasing.
    number : int
        Row of the block buffer whose axis "number" is among the axes, -1 for counts alone.
    """

    axes: tuple[int, ...]
    number: int = -1


@dataclass(frozen=True)
class Section:
    """One part of what is shown.

    Attributes
    ----------
    kind : str
        "counts", "means" or "quantiles".
    axes : tuple of int
        Of the counts, or of the group.
    number : int
        As in :class:`Block`.
    variable : str
        Name of the number.
    """

    kind: str
    axes: tuple[int, ...]
    number: int = -1
    variable: str = ""


@dataclass(frozen=True)
class Item:
    """One released statistic: its place in a section, and its name."""

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
    """Axes, what is released, and what is shown of it."""

    axes: tuple[Axis, ...]
    blocks: tuple[Block, ...]
    sections: tuple[Section, ...]
    quantiles: tuple[float, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each axis."""
        return tuple(a.size for a in self.axes)

    def cells(self, axes: tuple[int, ...]) -> int:
        """Return the number of cells of a table."""
        return math.prod(self.axes[j].size for j in axes)

    def number_axis(self, number: int) -> int:
        """Return the axis of a number."""
        return next(
            j for j, a in enumerate(self.axes) if a.kind == "number" and a.column == number
        )

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
        """Return what a section shows, in the order of its numbers."""
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


def layout_of(
    design: Design,
    *,
    histogram: int | None = None,
    quantiles: tuple[float, ...] = (),
) -> Layout:
    """Lay out the tables of a formula.

    One-sided: a table for each term; two-sided: each variable on the left within each group on
    the right. Groups that are margins of other groups are added up, not released.
    """
    program = program_of(design)
    axes = [
        Axis(s.name, j, "level", (*map(str, s.levels), MISSING))
        if s.levels is not None
        else Axis(s.name, j, "number", ("low", "middle", "high", MISSING))
        for j, s in enumerate(program.sources)
    ]
    numbers = {j for j, s in enumerate(program.sources) if s.levels is None}
    variables, groups = (program.left, program.right) if program.left else (program.right, ())
    for group in groups:
        for j in numbers.intersection(group):
            name = program.sources[j].name
            raise RequestError(
                f"{name!r} is a number, and groups are made of categories: cut it at public "
                f"points, as in cut({name}, breaks=[...])"
            )
    groups = tuple(tuple(sorted(g)) for g in groups) or ((),)
    largest = [g for g in groups if not any(set(g) < set(h) for h in groups)]
    blocks: list[Block] = []
    sections = [Section("counts", g) for g in groups if g]
    for term in variables:
        mine = numbers.intersection(term)
        if mine and len(term) > 1:
            raise RequestError(
                f"a table of {':'.join(program.sources[j].name for j in term)} crosses a number "
                "with another variable: cut it at public points, as in cut(x, breaks=[...])"
            )
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
        wanted = list(dict.fromkeys([*groups, ()]))
        sections += [Section("means", g, number, name) for g in wanted]
        if quantiles:
            sections += [Section("quantiles", g, number, name) for g in largest]
    layout = Layout(
        tuple(axes), tuple(dict.fromkeys(blocks)), tuple(dict.fromkeys(sections)), quantiles
    )
    for block in layout.blocks:
        if layout.cells(block.axes) > MOST_CELLS:
            raise RequestError(
                f"this table has {layout.cells(block.axes):,} cells, more than {MOST_CELLS:,}: "
                "the noise of a cell would be all there is. Merge levels, or drop a variable"
            )
    return layout


def _bins(design: Design, number: int, bins: int) -> Axis:
    """Return the axis of the bins of a number: equal widths over its range."""
    column = design.columns[number]
    labels = tuple(f"bin {b + 1}" for b in range(bins))
    if column.interval is not None:
        lo, hi = column.interval
        edges = [lo + (hi - lo) * b / bins for b in range(bins + 1)]
        labels = tuple(f"[{a:.6g}, {b:.6g})" for a, b in itertools.pairwise(edges))
        labels = (*labels[:-1], labels[-1][:-1] + "]")
    return Axis(column.name, number, "bin", (*labels, MISSING))
