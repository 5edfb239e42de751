"""Layout of a table call, from its formula and options alone, and the counting of its cells."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.formula.words import written_name
from dpmodels.proof.sets import STEPS
from dpmodels.registry import Method
from dpmodels.sources.summed import integer_sums, summed
from dpmodels.sums.products import end_of_numbers
from dpmodels.sums.rowmap import CountsOfPeople, shares

if TYPE_CHECKING:
    from dpmodels.formula.design import CellProgram, Design
    from dpmodels.sources.people import BlockOfPeople


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

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each axis."""
        return tuple(a.size for a in self.axes)

    def cells(self, axes: tuple[int, ...]) -> int:
        """Return the number of cells of a table."""
        return math.prod(self.axes[j].size for j in axes)

    def number_axis(self, number: int) -> int:
        """Return the axis of a numeric variable."""
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
    variables, groups = (program.left, program.right) if program.left else (program.right, ())
    _check_categories(program, numbers, groups, variables)
    groups = tuple(tuple(sorted(g)) for g in groups) or ((),)
    largest = [g for g in groups if not any(set(g) < set(h) for h in groups)]
    blocks: list[Block] = []
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
        medians,
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


def _check_categories(
    program: CellProgram, numbers: set[int], groups: Any, variables: Any
) -> None:
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


# -- Exact statistics of a table on the lattice (``theory.md``, 1.1).
#
# A row is in one cell of every table; a numeric variable is in three at once. With t in [-1, 1] it
# lays ``((1-t)/2)^2, (1-t^2)/2, ((1+t)/2)^2`` into the cells "low", "middle" and "high" of its
# axis: they are not negative and add up to 1, and their sums are N, T = sum t and Q = sum t^2 in
# another basis: ``N = l + m + h, T = h - l, Q = l - m + h``. So whatever a table holds, one row is
# one unit of mass: replacing it moves the table by at most 2 in L1 and sqrt 2 in L2.


#: N, T and Q of the four cells of a numeric variable's axis.
COUNT = np.array([1.0, 1.0, 1.0, 0.0])
TOTAL = np.array([-1.0, 0.0, 1.0, 0.0])
SQUARE = np.array([1.0, -1.0, 1.0, 0.0])

Codes = npt.NDArray[np.intp]


def masses(t: Array, u: Array, unit_mass: Array) -> Array:
    """Return the lattice weights (4, m) of numeric values in [-1, 1], NaN missing: integers >= 0.

    Each column adds up to exactly ``unit_mass``, u in steps of 2^-20: low and high are rounded
    down, the middle is what is left.
    """
    with np.errstate(all="ignore"):
        low, high = (end_of_numbers(u * (0.5 * (1.0 + s * t)) ** 2, low=0.0) for s in (-1.0, 1.0))
    gone = np.isnan(t)
    out = np.stack([low, unit_mass - low - high, high, np.zeros_like(low)])
    out[:, gone] = 0.0
    out[3, gone] = unit_mass[gone]
    return out


def spread_out(N: Array, T: Array, Q: Array) -> Array:
    """Return the cells (low, middle, high) of given sums, last axis first: for plans."""
    return np.stack([(N - 2.0 * T + Q) / 4.0, (N - Q) / 2.0, (N + 2.0 * T + Q) / 4.0])


@dataclass(frozen=True, eq=False)
class TablePass:
    """The tables of a layout of rows, or of people: :func:`statistics`."""

    design: Design
    layout: Layout
    centre: Array
    half: Array
    people: bool = False
    row_mass: Callable[[Array], Array] | None = None  # Mass of rows, None for a unit each

    def total(self, rows: Any, reading: dict[str, Any]) -> npt.NDArray[np.object_]:
        """Return the tables, flat. Confidential."""
        if not self.people:
            job = functools.partial(
                statistics, layout=self.layout, centre=self.centre, half=self.half,
                row_mass=self.row_mass,
            )  # fmt: skip
            return integer_sums(rows, self.design, job)[0]
        pass_job = TableOfPeople(self.layout, self.centre, self.half, self.row_mass)
        sums = summed(rows, self.design, pass_job)
        out, end = sums.values.astype(object), 0
        for size in pass_job.sizes:  # declared persons without a row are "(missing)", or "(unused)"
            end += size
            out[end - 1] += (rows.n - sums.people) * int(STEPS)
        return np.asarray(out, dtype=object)


def statistics(
    blocks: Iterable[Array], layout: Layout, centre: Array, half: Array,
    row_mass: Callable[[Array], Array] | None = None,
) -> tuple[npt.NDArray[np.object_]]:  # fmt: skip
    """Return the tables of all blocks of a layout, flat and concatenated, in steps of 2^-20.

    Middles and half-ranges (q,) are of the numeric variables. ``row_mass`` gives the weight u of
    rows, and each table then has one more cell at its end for 1 - u; None: weight 1 each.
    Confidential. Exact in any order: within 2^13 rows every sum is an integer below 2^53.
    """
    with_mass = row_mass is not None
    totals = [np.zeros(layout.cells(b.axes) + with_mass, dtype=np.int64) for b in layout.blocks]
    for cells in blocks:
        u = np.ones(cells.shape[1]) if row_mass is None else row_mass(cells)
        unit_mass = end_of_numbers(u, low=0.0)
        codes, mass = _opened(layout, cells, centre, half, u, unit_mass)
        for block, total in zip(layout.blocks, totals, strict=True):
            for place, part in cell_masses(layout, block, codes, mass.get(block.number, unit_mass)):
                sums = np.bincount(place, weights=part, minlength=total.size)
                total += sums.astype(np.int64)
            if with_mass:
                total[-1] += int((STEPS - unit_mass).sum())
    return (np.concatenate(totals).astype(object),)


def _opened(
    layout: Layout, cells: Array, centre: Array, half: Array, u: Array, unit_mass: Array
) -> tuple[list[Codes], dict[int, Array]]:
    """Return the codes of rows along the axes, and the weights of numeric variables."""
    unit = _unit(layout, cells, centre, half)
    mass = {b.number: masses(unit[b.number], u, unit_mass) for b in layout.blocks if b.number >= 0}
    return codes_of(layout, cells, unit), mass


def _unit(layout: Layout, cells: Array, centre: Array, half: Array) -> dict[int, Array]:
    """Return the numbers of a block in half-ranges, clipped to [-1, 1]."""
    numbers = {a.column for a in layout.axes if a.kind != "level"}
    with np.errstate(all="ignore"):
        return {j: np.clip((cells[j] - centre[j]) / half[j], -1.0, 1.0) for j in numbers}


def means_of_people(t: Array, key: npt.NDArray[np.int64], unit_mass: Array) -> Array:
    """Return for each row the mean of the numbers with its key; NaN where its own is missing.

    Means are weighted by the masses of rows (``unit_mass``). Sums are of whole numbers, so the
    order of rows changes nothing below 2^53.
    """
    present = ~np.isnan(t)
    keys, place = np.unique(key[present], return_inverse=True)
    steps, mass = end_of_numbers(t[present]), unit_mass[present]
    rows = np.bincount(place, minlength=len(keys))
    total, count = (
        np.bincount(place, weights=w, minlength=len(keys)) for w in (steps * mass, mass)
    )
    out = np.full(len(t), np.nan)
    means = np.where(rows == 1, np.nan, total / np.maximum(count, 1) / STEPS)
    out[present] = means[place]
    return np.where(present & np.isnan(out), t, out)  # one row is its mean, to the last digit


@dataclass(frozen=True, eq=False)
class TableOfPeople:
    """The tables of :func:`statistics` where a person adds the mean of its rows.

    For a numeric variable each row of a person in a group gets the mean of these rows. Counts and
    sums do not change, and the squares then show how people differ, for the errors of the mean.
    """

    layout: Layout
    centre: Array
    half: Array
    row_mass: Callable[[Array], Array] | None = None
    of_people: ClassVar[bool] = True

    @property
    def sizes(self) -> list[int]:
        """Cells of every table, the unused one behind it included where rows have masses."""
        return [self.layout.cells(b.axes) + (self.row_mass is not None) for b in self.layout.blocks]

    def over(self, blocks: Iterable[BlockOfPeople], _: Any = None) -> CountsOfPeople:
        """Return the sums over people. Confidential."""
        layout = self.layout
        totals = [np.zeros(size, dtype=np.int64) for size in self.sizes]
        people = 0
        for part in blocks:
            people += len(part.counts)
            u = np.ones(part.rows.shape[1])
            if self.row_mass is not None:
                u = self.row_mass(part.rows)
            unit_mass = end_of_numbers(u, low=0.0)
            unit = _unit(layout, part.rows, self.centre, self.half)
            codes = codes_of(layout, part.rows, unit)
            person = np.repeat(np.arange(len(part.counts)), part.counts)
            for block, total in zip(layout.blocks, totals, strict=True):
                mass: Array = unit_mass
                if block.number >= 0:
                    (group, _), *_ = cell_masses(layout, block, codes, np.atleast_2d(unit_mass))
                    means = means_of_people(
                        unit[block.number], person * total.size + group, unit_mass
                    )
                    mass = masses(means, u, unit_mass)
                entries = list(cell_masses(layout, block, codes, mass))
                if self.row_mass is not None:
                    entries.append((np.full(len(unit_mass), total.size - 1), STEPS - unit_mass))
                place = np.concatenate([place for place, _ in entries])
                weight = np.concatenate([mass for _, mass in entries]).astype(np.int64)
                whose = np.tile(person, len(entries))
                where, share = shares(whose, place, weight, part.counts, total.size)
                np.add.at(total, where, share)
        return CountsOfPeople(np.concatenate(totals), people)


def codes_of(layout: Layout, block: Array, unit: Mapping[int, Array]) -> list[Codes]:
    """Return the code of each row along each axis; 0 along the axis of a numeric variable."""
    out = []
    for axis in layout.axes:
        if axis.kind == "level":
            codes = block[axis.column]
        elif axis.kind == "bin":
            width = axis.size - 1
            t = unit[axis.column]
            if axis.edges:  # those that are printed: a value on an edge lies in the bin above it
                at = np.searchsorted(axis.edges[1:-1], block[axis.column], side="right")
            else:
                at = np.minimum(np.floor((t + 1.0) * (0.5 * width)), width - 1)
            codes = np.where(np.isnan(t), width, at)
        else:
            codes = np.zeros(block.shape[1])
        out.append(codes.astype(np.intp))
    return out


def cell_masses(
    layout: Layout, block: Block, codes: list[Codes], mass: Array
) -> Iterator[tuple[Codes, Array]]:
    """Yield (cell of each row, its weight): for weights (m,), or (4, m) of a numeric variable."""
    place: Codes = np.zeros(len(codes[0]), dtype=np.intp)
    for j in block.axes:
        place = place * layout.axes[j].size + codes[j]
    behind = block.axes.index(layout.number_axis(block.number)) + 1 if mass.ndim > 1 else 0
    stride = layout.cells(block.axes[behind:])
    for e, part in enumerate(np.atleast_2d(mass)):
        yield place + e * stride, part


#: Shared fields of the entries of tables, quantiles and tests.
table_method = functools.partial(Method, proof="models/table/theory.md", needs=("one pass",))
