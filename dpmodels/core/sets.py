"""Clip sets: bounds on the contribution of a row. Each clips, rounds and sums results of formulas.

No formula needs to be right for the claim of privacy: whatever it returns is clipped here, and the
prover reads the statistics that are stated here. A set has everything that its bound depends on,
and nothing else. :class:`Reading` is the loop in which formulas meet rows; sums by cluster have
another (:mod:`dpmodels.core.clusters`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dpmodels.core.own import OwnRows
from dpmodels.core.rows import CellRows, Rows
from dpmodels.errors import PrivacyBugError
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import STEPS, Ball, Box, ConvexHull, OneHot, svec
from dpmodels.proof.statistics import Gram, Stack, Sum
from dpmodels.sources.rows import short
from dpmodels.sources.summed import Integers as Sums
from dpmodels.sources.summed import summed
from dpmodels.sums.ask import Added, Noisy
from dpmodels.sums.cells import BallCells
from dpmodels.sums.products import (
    TOP,
    ExactSum,
    cross_product,
    end_of_numbers,
    end_of_rows,
    towards_zero,
)

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.formula.program import Grid
    from dpmodels.sources.rows import Coins

#: From one row, or from the rows of one unit, to its result: one ``Rows``, or a tuple of them for a
#: set of several parts.
Formula = Callable[..., Any]


@dataclass(frozen=True)
class Part:
    """One noisy array of a set."""

    name: str  # Name of its step
    statistic: Any  # Statistic that the prover reads
    take: Callable[[Any], Added]  # Selects the statistic's entries from the exact sums
    unit: float = 1.0  # One unit of the statistic, in the units of the release
    geometric: bool = False  # Whether Laplace noise is on the integers


class Set(Protocol):
    """Interface of a clip set that sums contributions of rows.

    ``of`` is an object that sums by cell, or None to sum by row. A set that counts declared people
    without a row has a method ``with_absent`` too.
    """

    #: Which rows it sums by cell: "" none, "some" if a row is its cell and numbers, "all" if all
    #: predictors are functions of the cell.
    cells: ClassVar[str]
    #: Whether it adds units: its formula gets the rows of whole units, and
    #: :class:`~dpmodels.core.own.OwnRows`.
    of_units: ClassVar[bool]
    #: Whether it says what a person adds who has several rows: ``add`` then takes ``starts=``.
    of_people: ClassVar[bool]

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""

    def add(self, sums: Any, chosen: Any, *results: Any) -> None:
        """Clip the results of a formula over a block, round them, and add them to running sums.

        ``chosen`` are the rows of the sample that coins chose within the block. ``starts``: where
        the rows of each person begin, in a block of whole people.
        """

    def exact(self, sums: Any) -> Any:
        """Return the exact sums as they leave a part of the table: a value with ``+``."""

    def finish(self, sums: Any, of: Any) -> Any:
        """Return the exact sums of all rows, from those by cell."""

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the noisy arrays of a release of this name."""

    def together(self, noisy: Sequence[Noisy]) -> Any:
        """Return the noisy parts as a program receives them."""


class Integers:
    """Base of sets whose sums are one array of integers, released as it is."""

    cells: ClassVar[str] = ""
    of_units: ClassVar[bool] = False
    of_people: ClassVar[bool] = False
    several: ClassVar[bool] = False  # Whether it has several parts, or one array
    statistic: Any  # Statistic that the prover reads
    shape: tuple[int, ...]  # Shape of the sums
    unit: float = 1.0  # One unit of the statistic, in the units of the release

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""
        return ExactSum(*self.shape)

    def exact(self, sums: Any) -> Any:
        """Return the exact sums, by cell if rows are summed by cell."""
        return (sums[1] if isinstance(sums, tuple) else sums).integers()

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the one noisy array."""
        return (Part(name, self.statistic, Added, self.unit),)

    def together(self, noisy: Sequence[Noisy]) -> Any:
        """Return the noisy array, or several."""
        return noisy if self.several else noisy[0]


class Marks(Integers):
    """d numbers, each 0 or 1: counts of the rows that have a property.

    NaN is 0, any other number but 0 is 1.
    """

    of_people: ClassVar[bool] = True

    def __init__(self, d: int) -> None:
        self.shape, self.statistic = (d,), Sum(Box(d, low=0))

    def add(self, sums: ExactSum, chosen: Any, x: Rows, starts: Any = None) -> None:
        """Add the number of rows, or of people with a row, that are marked, in lattice steps."""
        marked = ((x.numbers != 0) & (x.numbers == x.numbers)).astype(np.int64)
        if starts is not None:
            marked = np.maximum.reduceat(marked, starts, axis=1)
        sums.add(marked.sum(axis=1) * int(STEPS))


class Complete(Marks):
    """Marks of complete rows, by a formula that finds them among cells of a grid too."""

    cells: ClassVar[str] = "some"


class Counted(Integers):
    """d numbers in [-1/2, 1/2] of complete rows, after the count of these rows.

    Parameters
    ----------
    d : int
    weight : float
        Weight of the count in the joint release.
    people : bool
        Whether the units are people, who add 1 and the mean over their complete rows.
    """

    cells: ClassVar[str] = "all"
    of_people: ClassVar[bool] = True

    def __init__(self, d: int, weight: float, *, people: bool = False) -> None:
        box = Box(d, radius=0.5)
        unit_set = ConvexHull(box) if people else box
        self.shape = (d + 1,)
        self.statistic = Sum(unit_set, count=weight, count_first=True)

    def add(self, sums: ExactSum, chosen: Any, x: Rows, starts: Any = None) -> None:
        """Add 1 and the numbers of each complete row, or a person's mean, in lattice steps."""
        t = x.numbers
        present = np.isfinite(t).all(axis=0)
        counted = np.vstack([np.ones((1, t.shape[1])), np.clip(t, -0.5, 0.5)])
        steps = end_of_numbers(np.where(present, counted, 0.0))
        if starts is not None:
            totals = np.add.reduceat(steps, starts, axis=1)
            steps = towards_zero(totals / np.maximum(totals[0] / STEPS, 1.0))
        sums.add(steps.sum(axis=1))


class Bins(Integers):
    """One of ``size`` bins for each of d numbers, or none where a code is not a number from 0.

    ``people``: a person has one unit for each number, divided evenly over its rows that have one.
    """

    of_people: ClassVar[bool] = True

    def __init__(self, d: int, size: int, *, people: bool = False) -> None:
        self.shape, self.people = (d, size), people
        bins: Any = OneHot(size)
        each = Sum(ConvexHull(bins) if people else bins)
        self.statistic = Stack((each,) * d, (1.0,) * d)

    def add(self, sums: Any, chosen: Any, code: Rows, starts: Any = None) -> None:
        """Count the codes, or of people their shares. A code beyond the last bin is in the last."""
        if self.people != (starts is not None):
            raise PrivacyBugError("bins of people are for people, and those of rows for rows")
        (d, size), mass = self.shape, None
        counts = np.empty((d, size), dtype=np.int64)
        for i, c in enumerate(code.numbers):
            present = c >= 0
            if starts is not None:
                many = np.add.reduceat(present.astype(np.float64), starts)
                share = end_of_numbers(1.0 / np.maximum(many, 1.0), low=0.0)
                mass = np.repeat(share, np.diff(starts, append=len(c)))[present]
            at = np.minimum(c[present], size - 1).astype(np.int64)
            counts[i] = np.bincount(at, weights=mass, minlength=size)
        sums.add(counts)


class _ImagesInBall(BallCells):
    """Moments by cell of the images of cells, in place of a row map."""

    @functools.cached_property
    def _affine(self) -> Any:
        return self.rowmap


class Moments(Integers):
    """``z z'``, z (k numbers) in the ball of a radius; a formula returns z over the radius."""

    cells: ClassVar[str] = "some"

    def __init__(self, k: int, radius: float) -> None:
        self.shape, self.unit, self.statistic = (k, k), radius**2, Gram(Ball(k))

    def by_cell(self, x: CellRows) -> Any:
        """Return the object that sums rows by cell, from the image of no row, or None."""
        of = _ImagesInBall(x.grid, x.images)  # type: ignore[arg-type]
        return of if of.fits else None

    def adding(self, of: Any) -> Any:
        """Return running sums of zero."""
        return ExactSum(*self.shape) if of is None else (of, of.adding())

    def add(self, sums: Any, chosen: Any, x: Any) -> None:
        """Add the products of rows in the ball."""
        if isinstance(sums, tuple):
            sums[0].add(sums[1], x.values, x.cells)
        else:
            sums.add(cross_product(end_of_rows(x.in_steps(TOP), self.shape[0])[0]))

    def finish(self, sums: Any, of: Any) -> Any:
        """Return the exact second moments, from sums by cell."""
        return of.gram(sums).integers()


class UnitMatrices(Integers):
    """``z z'`` for each of several vectors z (p numbers), each in the unit ball: one release.

    A formula returns the vectors z of a row. Sums are released as floats (``svec``).
    """

    def __init__(self, p: int, many: int) -> None:
        self.shape = many, p, p
        self.statistic = Of("unit matrices", (many,), many * p * (p + 1) // 2)

    def add(self, sums: ExactSum, chosen: Any, *vectors: Rows) -> None:
        """Add the products of each vector of the rows."""
        ends = [end_of_rows(z.in_steps(STEPS), self.shape[1])[0] for z in vectors]
        sums.add(np.array([cross_product(z) for z in ends]))

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the matrices."""
        take: Any = lambda sums: Added(  # noqa: E731 - one line of many
            np.concatenate([svec(np.asarray(M / 2**40, dtype=float)) for M in sums])
        )
        return (Part(name, self.statistic, take),)


# -- The one loop over rows.


@dataclass(frozen=True, eq=False)
class Reading:
    """One reading of the rows for several releases, each a formula and a set.

    Rows come filled, or as a cell of a public grid and a few numbers: a public function of the
    design and of the sets.
    """

    of: Design  # Columns that the formulas see
    formulas: tuple[Formula, ...]
    into: tuple[Any, ...]  # Set of each formula
    grid: Grid | None = None  # Grid of the cells of rows, or None if rows are filled
    by_cell: bool = False  # Whether sets sum by cell
    images: dict[int, Any] = field(default_factory=dict)  # Images of cells under maps: public

    @property
    def of_people(self) -> bool:
        """Whether all sets bound the contribution of a person with several rows."""
        return all(into.of_people or into.of_units for into in self.into)

    def total(self, rows: Any, reading: dict[str, Any]) -> Sums:
        """Return the exact sums of all rows. **Confidential**."""
        job, kinds = self, {into.cells for into in self.into}
        if rows.by_cell and "" not in kinds:
            if self.of.grid_of_factors is not None:
                job = replace(self, grid=self.of.grid_of_factors, by_cell=True)
            elif kinds <= {"some"}:
                grid = self.of.grid_of_images
                job = replace(self, grid=grid, by_cell=grid is not None and grid.wide)
        sums = summed(rows, self.of, job, **reading)
        out = []
        for into, exact, of in zip(self.into, sums.arrays, job.tables, strict=True):
            exact = exact if of is None else into.finish(exact, of)
            count_absent = rows.by_person and hasattr(into, "with_absent")
            out.append(into.with_absent(exact, rows.n) if count_absent else exact)
        return Sums(tuple(out))

    @functools.cached_property
    def tables(self) -> tuple[Any, ...]:
        """Object that sums by cell for each set, or None: public, from formulas of no row."""
        if not self.by_cell:
            return (None,) * len(self.into)
        assert self.grid is not None
        grid, out = self.grid, []
        numbers, cells = np.empty((len(grid.numbers), 0)), np.empty(0, dtype=np.intp)
        none = CellRows(grid, numbers, cells, self.images)
        for formula, into in zip(self.formulas, self.into, strict=True):
            make = getattr(into, "by_cell", None)
            result = formula(none)
            parts = result if isinstance(result, tuple) else (result,)
            out.append(None if make is None else make(*parts))
        return tuple(out)

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> Sums:
        """Return the exact sums over blocks: the place where formulas meet rows.

        Privacy
        -------
        **Confidential**. What a row adds is a function of that row, of its coin and of public
        facts: formulas see opaque rows, and a set clips each result separately.
        """
        adding = [into.adding(of) for into, of in zip(self.into, self.tables, strict=True)]
        chosen: Any
        with np.errstate(all="ignore"):
            for block in short(blocks):
                if self.into[0].of_units:  # formulas see the rows of whole units
                    filled, counts = getattr(block, "rows", block), getattr(block, "counts", None)
                    if counts is None:  # each row is one unit
                        counts = np.ones(filled.shape[1], dtype=np.intp)
                    z, person = Rows(filled), OwnRows(counts)
                    chosen = slice(None) if coins is None else coins.choose(len(counts))
                    for formula, into, sums in zip(self.formulas, self.into, adding, strict=True):
                        into.add(sums, chosen, person, formula(z, person))
                    continue
                starts = getattr(block, "starts", None)
                if starts is not None:  # whole people, each with its rows
                    m, z = 0, Rows(block.rows)
                elif self.grid is None:
                    m, z = block.shape[1], Rows(block)
                else:
                    m, z = len(block[1]), CellRows(self.grid, block[0], block[1], self.images)
                chosen = slice(None)
                if coins is not None and starts is None:
                    chosen = coins.choose(m)
                of_people = {} if starts is None else {"starts": starts}
                for formula, into, sums in zip(self.formulas, self.into, adding, strict=True):
                    result = formula(z)
                    parts = result if isinstance(result, tuple) else (result,)
                    into.add(sums, chosen, *parts, **of_people)
        return Sums(tuple(into.exact(sums) for into, sums in zip(self.into, adding, strict=True)))
