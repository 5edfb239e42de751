"""One scoring pass over blocks made in a test: its formula, its set, and the exact sums."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from dpmodels.core.own import OwnRows
from dpmodels.core.parallel import Parallel, ParallelByCell
from dpmodels.core.rows import CellRows, Rows
from dpmodels.core.sets import Reading
from dpmodels.core.units import rows_of
from dpmodels.scoring.passes import affine_of, row_of
from dpmodels.sources.rows import BlockOfPeople


def added(release, blocks):
    """Return the exact sums of one release over blocks."""
    return Reading(release.of, (release.formula,), (release.into,)).over(blocks).arrays[0]


def sums_of(into, formula, blocks, coins=None):
    """Return the exact sums of a set over blocks."""
    return Reading(None, (formula,), (into,)).over(blocks, coins).arrays[0]


def units_of(block):
    """Return a block of units, each of them one row."""
    m = block.shape[1]
    return BlockOfPeople(block, np.arange(m), np.ones(m, dtype=np.intp))


def expanded(formula, block):
    """Return what a formula gives for the rows of units, as arrays.

    ``score`` (r, m); ``information`` (r, l), the rows v of a unit one after the other; ``counts``,
    how many of these a unit has.
    """
    own = OwnRows(block.counts)
    with np.errstate(all="ignore"):
        found = formula(Rows(block.rows), own)
        v, counts = rows_of(found, own)
    return SimpleNamespace(
        score=found.score.numbers, information=v, counts=counts, scores=block.counts
    )


def asked(program):
    """Return the releases that a program asks for, answered by zeros."""
    out = []
    try:
        release = next(program)
        while True:
            out.append(release)
            shape = release.into.statistic.weights("l2")
            zeros = release.into.statistic.shaped(np.zeros_like(shape), "l2")
            release = program.send(SimpleNamespace(values=zeros, sd=zeros + 1.0))
    except StopIteration:
        return out


@dataclass(frozen=True, eq=False)
class ScorePass:
    """A pass of a plan, evaluated at a centre; w is not rotated unless asked."""

    plan: object
    centre: object
    rotated: bool = False

    @property
    def into(self):
        return Parallel(self.plan, len(self.centre.theta))

    @property
    def affine(self):
        """The map of a block: (matrix, shift)."""
        return affine_of(self.centre, self.into.step)

    def formula(self, z):
        return row_of(
            self.centre, self.into.step, self.plan.clip_of_weights, rotated=self.rotated
        )[0](z)

    def sums(self, blocks, coins=None):
        return Reading(None, (self.formula,), (self.into,)).over(blocks, coins).arrays[0]

    def rows(self, block):
        """Return (w, psi, omega, |w|^2, complete rows)."""
        z, psi, omega, length, whole = self.into.vectors(*self.formula(Rows(block)))
        return z, psi, omega, length * length, whole

    def factors(self, psi, norm, length):
        return self.into.factors(self.into.blocks(psi, norm, length)[0], length)


@dataclass(frozen=True, eq=False)
class ByCell:
    """The same pass, summed by the cells of a grid."""

    one: ScorePass
    grid: object

    @property
    def reading(self):
        return Reading(None, (self.one.formula,), (self.one.into,), self.grid, by_cell=True)

    @property
    def tables(self) -> ParallelByCell:
        return self.reading.tables[0]

    def over(self, blocks, coins=None):
        """Return the sums by cell."""
        return self.reading.over(blocks, coins).arrays[0]

    def pass_sums(self, sums):
        """Return the sums of the pass from those by cell."""
        return self.tables.pass_sums(sums)


def cell_rows(grid, numbers, cells):
    """Return rows of a grid as a formula sees them."""
    return CellRows(grid, numbers, np.asarray(cells), {})
