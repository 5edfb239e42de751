"""A scoring pass over rows that are a cell of a public grid and a few numbers (``theory.md``, 2.9).

A row is ``z = T_c + B x``, an integer vector of the ball of R_H. Information, meat and ordinary
information are sums of ``q z z'``, q an integer of the row, scores sums of ``k z``: of most rows
only sums by cell, and products of numbers, are kept. A row that is not in the ball for certain, or
whose score is so long that it is softened, goes the dense way, all its parts with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.bycell import MULTIPLE, ByCell, Integers, seen_by_row
from dpmodels.exact.bykernel import ScoresByKernel, fits, seen_by_kernel
from dpmodels.exact.end import end_of_numbers, integers_of
from dpmodels.exact.mixed import (
    FINER,
    STEEPEST,
    Lattice,
    MixedAdding,
    MixedSums,
    at_the_middle,
    filled_rows,
    mixed_grid,
    ranges_of,
)
from dpmodels.exact.products import mapped, squares, weighted
from dpmodels.formula.grid import Grid
from dpmodels.scoring.cells import seen_of_cells
from dpmodels.scoring.rules import KEPT, PassPlan
from dpmodels.scoring.sums import (
    AT_CLIP,
    BINS,
    FACTOR,
    FIRST,
    Adding,
    PassSums,
    ScorePass,
    counted_lengths,
)

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.windows import Coins

__all__ = ["MixedPass", "MixedPasses", "MixedTally", "mixed_passes"]

#: Lengths below this part of C are in the first bin.
_LOWEST = 2.0 ** (0.5 * (1 - AT_CLIP))
#: Rows of a block that goes the dense way.
_ROWS = 1 << 13
#: Squared standardised residual up to which a row's meat is by cell.
_ORDINARY = 32.0
#: Bits of a weight q, and of a row's vector, twice; of those of a release, twice.
_WEIGHT, _OWN, _RELEASED = 20, 80, 40


@dataclass(frozen=True)
class MixedTally:
    """The sums of one pass. **Private**: integers of rows, nothing of them is released.

    Attributes
    ----------
    information, meat, spread : MixedSums
    score : (K,) object array
        ``sum k`` by cell.
    numbers : (d,) object array
        ``sum k x``.
    scale : int
    bins : tuple of int
    dense : PassSums
        Of the rows that went the dense way.
    """

    information: MixedSums
    meat: MixedSums
    spread: MixedSums
    score: Integers
    numbers: Integers
    scale: int
    bins: tuple[int, ...]
    dense: PassSums

    def __add__(self, other: MixedTally) -> MixedTally:
        return MixedTally(
            self.information + other.information,
            self.meat + other.meat,
            self.spread + other.spread,
            self.score + other.score,
            self.numbers + other.numbers,
            self.scale + other.scale,
            tuple(a + b for a, b in zip(self.bins, other.bins, strict=True)),
            self.dense + other.dense,
        )

    def __repr__(self) -> str:
        return "<sums by cell and number of a scoring pass, confidential>"


@dataclass(frozen=True)
class MixedTallies:
    """The sums of passes that read the same rows. **Private**."""

    sums: tuple[MixedTally, ...]

    def __add__(self, other: MixedTallies) -> MixedTallies:
        return MixedTallies(tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)))


@dataclass(eq=False)
class _Adding:
    """The running sums of one pass."""

    cells: int
    d: int
    dense: Adding
    scale: int = 0
    compiled: ScoresByKernel | None = None

    def __post_init__(self) -> None:
        self.information, self.meat, self.spread = (
            MixedAdding(self.cells, self.d) for _ in range(3)
        )
        self.score = ByCell(self.cells)
        self.numbers: Integers = np.zeros(self.d, dtype=object)
        self.bins = np.zeros_like(self.dense.bins)


@dataclass(frozen=True, eq=False)
class MixedPass:
    """A scoring pass by cells and numbers: the same map of a row, on a finer lattice.

    Attributes
    ----------
    one : ScorePass
        Its rows have no weights.
    grid : Grid
    lattice : Lattice
        Of w in the ball of R_H.
    """

    one: ScorePass
    grid: Grid
    lattice: Lattice

    @property
    def plan(self) -> PassPlan:
        """The plan of the pass."""
        return self.one.plan

    @functools.cached_property
    def seen(self) -> tuple[Array, Array]:
        """What the model sees of a cell (K,), NaN in void ones, and the slopes of the numbers."""
        return seen_of_cells(self.one.affine, self.grid)

    @functools.cached_property
    def reach(self) -> dict[str, int]:
        """Return h of meat and ordinary information: q is in steps of ``2^(h - 20) R^2/R_H^2``.

        R is the radius of the part: weights up to 32 of the meat, up to 1 of ordinary information.
        """
        plan = self.plan
        return {
            name: math.ceil(math.log2(most * (plan.information / radius) ** 2))
            for name, radius, most in (("meat", plan.meat, _ORDINARY), ("spread", plan.spread, 1.0))
            if radius
        }

    def most(self, name: str) -> float:
        """Return the largest weight of a part."""
        ratio: float = getattr(self.plan, name) / self.plan.information
        return math.ldexp(ratio**2, self.reach[name])

    def empty(self) -> _Adding:
        """Return the sums over no block."""
        K, d = self.grid.cells, self.lattice.B.shape[1]
        sums = _Adding(K, d, self.one.empty())
        if fits(d + 1, K):
            sums.compiled = ScoresByKernel(
                *self.lattice.packed, self._numbers, len(sums.bins)
            )
        return sums

    def add(self, sums: _Adding, block: Array, cells: Any, chosen: Any) -> None:
        """Add a block of numbers (d + 1, m) and cells (m,); ``chosen``: rows of meat and spread."""
        of_cells, slopes = self.seen
        look = seen_by_row if sums.compiled is None else seen_by_kernel
        seen = look(of_cells, slopes, block, cells)
        psi, _ = self.one.centre.evaluate(seen, block[-1])
        tail = some = None
        if self.plan.spread:
            tail = np.zeros(len(cells), dtype=bool)
            tail[chosen] = True
            some = np.flatnonzero(tail) if isinstance(chosen, slice) else chosen
        if sums.compiled is None:
            others = self._add_inside(sums, block, cells, psi, some)
            others = others[~np.isnan(seen[others])]
        else:
            others = sums.compiled.add(block, cells, seen, psi, tail)
        for a in range(0, len(others), _ROWS):
            few = others[a : a + _ROWS]
            rows = filled_rows(self.grid, block[:, few], cells[few])
            own: Any = slice(0) if tail is None else np.flatnonzero(tail[few])
            self.one.add(sums.dense, rows, own)

    def _add_inside(self, sums: _Adding, block: Array, cells: Any, psi: Array, some: Any) -> Any:
        """Add the rows that are inside; return the places of all others, void ones among them."""
        plan, d = self.plan, self.lattice.B.shape[1]
        row = self.lattice.read(block[:d], cells)
        length = np.sqrt(row.square)
        length *= 1.0 / (FINER * self.one.step)  # never below |w|
        norm = np.abs(psi)
        norm *= length
        inside = row.inside
        inside &= norm <= KEPT * plan.clip
        meat = None
        if plan.meat and some is not None:
            own = psi[some]
            meat = own * own
            meat *= np.minimum(1.0, (plan.meat / norm[some]) ** 2)
            inside[some] &= meat <= self.most("meat")
        others = np.flatnonzero(~inside)
        sums.information.add(cells, row.x, without=others)
        k = end_of_numbers(psi, FACTOR * plan.clip, MULTIPLE)
        k[others] = 0.0
        sums.score.add(cells, k, _WEIGHT)
        for a in range(0, len(k), _ROWS):
            part = slice(a, a + _ROWS)
            sums.numbers = sums.numbers + integers_of(weighted(row.x[:, part], k[part])).astype(
                object
            )
        if some is not None:
            kept = np.flatnonzero(inside[some])
            own = some[kept]
            meat = meat if meat is None else meat[kept]
            self._add_some(sums, cells[own], row.x[:, own], length[own], meat)
        norm[others] = 0.0
        self._add_lengths(sums, norm, psi, len(others))
        return others

    def _add_some(self, sums: _Adding, cells: Any, x: Array, length: Array, meat: Any) -> None:
        """Add the rows of meat and ordinary information: ``q z z'``."""
        plan = self.plan
        if meat is not None:
            q = end_of_numbers(meat, self.most("meat"), MULTIPLE, low=0.0)
            sums.meat.add(cells, x, q)
        ordinary = np.minimum(1.0, (plan.spread / length) ** 2)
        q = end_of_numbers(ordinary, self.most("spread"), MULTIPLE, low=0.0)
        sums.spread.add(cells, x, q)

    def _add_lengths(self, sums: _Adding, norm: Array, psi: Array, void: int) -> None:
        """Add the scale and the histogram of lengths; so many of them are 0, and no row's."""
        plan = self.plan
        if plan.mu_scale:
            square = norm * norm
            square /= plan.scale_cut
            sums.scale += int(end_of_numbers(square, low=0.0).sum())
        if plan.mu_histogram:
            far = norm >= _LOWEST * plan.clip
            relative = norm / plan.clip
            relative *= far
            # of the shortest the sign does not matter: the first bins of both signs are added
            low = far & ~(psi > 0.0) if plan.manner.signed else None
            sums.bins += counted_lengths(relative, low)
            sums.bins[0] -= void

    @functools.cached_property
    def _numbers(self) -> tuple[float, ...]:
        """What the compiled loops must know of the pass, in the order of ``rows.c``."""
        plan = self.plan
        some = []
        for name in ("meat", "spread"):
            radius = getattr(plan, name)
            most = self.most(name) if radius else 1.0
            some += [float(radius or 0.0), most, MULTIPLE / most]
        most = FACTOR * plan.clip
        return (
            1.0 / (FINER * self.one.step), KEPT * plan.clip, *some, most, MULTIPLE / most,
            plan.scale_cut if plan.mu_scale else 1.0, plan.clip, _LOWEST * plan.clip, FIRST, BINS,
            float(plan.manner.signed),
        )  # fmt: skip

    def tally(self, sums: _Adding) -> MixedTally:
        """Return running sums as they leave a task."""
        dense = self.one.done(sums.dense)
        if sums.compiled is None:
            return MixedTally(
                sums.information.done(), sums.meat.done(), sums.spread.done(),
                sums.score.integers(), sums.numbers, sums.scale,
                tuple(int(b) for b in sums.bins), dense,
            )  # fmt: skip
        plan, own = self.plan, sums.compiled.sums()
        information, meat, spread = (
            MixedSums(*own[name]) for name in ("information", "meat", "spread")
        )
        bins = tuple(int(b) if plan.mu_histogram else 0 for b in own["bins"])
        scale = own["scale"] if plan.mu_scale else 0
        return MixedTally(
            information, meat, spread, own["score"], own["numbers"], scale, bins, dense
        )

    def done(self, tally: MixedTally) -> PassSums:
        """Return the sums of a pass, of all rows, on the lattice of a dense pass. Confidential."""
        dense, lattice = tally.dense, self.lattice
        whole: dict[str, Any] = {
            "information": lattice.gram(tally.information, _OWN - _RELEASED) + dense.information,
            "meat": dense.meat,
            "spread": dense.spread,
        }
        for name, h in self.reach.items():
            drop = _OWN + _WEIGHT - _RELEASED - h
            whole[name] = whole[name] + lattice.gram(getattr(tally, name), drop)
        score = lattice.sum(tally.score, tally.numbers, (_OWN - _RELEASED) // 2) + dense.score
        bins = tuple(a + b for a, b in zip(tally.bins, dense.bins, strict=True))
        scale = tally.scale + dense.scale
        return PassSums(score=score, scale=scale, bins=bins, far=dense.far, **whole)


@dataclass(frozen=True, eq=False)
class MixedPasses:
    """Passes by cells and numbers that read the same rows at once, for whoever adds up.

    Attributes
    ----------
    passes : tuple of MixedPass
    grid : Grid
    """

    passes: tuple[MixedPass, ...]
    grid: Grid

    def over(
        self, blocks: Iterable[tuple[Array, npt.NDArray[np.intp]]], coins: Coins | None = None
    ) -> MixedTallies:
        """Return the sums of each pass. Confidential."""
        adding = [one.empty() for one in self.passes]
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                chosen: Any = slice(None) if coins is None else coins.choose(len(cells))
                for one, sums in zip(self.passes, adding, strict=True):
                    one.add(sums, block, cells, chosen)
        return MixedTallies(
            tuple(one.tally(sums) for one, sums in zip(self.passes, adding, strict=True))
        )

    def done(self, found: MixedTallies) -> tuple[PassSums, ...]:
        """Return the sums of each pass, of all rows. Confidential."""
        return tuple(one.done(own) for one, own in zip(self.passes, found.sums, strict=True))


def mixed_passes(passes: tuple[ScorePass, ...], design: Design) -> MixedPasses | None:
    """Return passes by cells and numbers; None where rows are filled.

    Public: a function of design, plans and released numbers.
    """
    if any(one.plan.weighted or one.centre.weights is not None for one in passes):
        return None
    grid = mixed_grid(design, min(one.plan.rows for one in passes))
    if grid is None:
        return None
    own = [_of(one, grid) for one in passes]
    found = tuple(one for one in own if one is not None)
    return MixedPasses(found, grid) if len(found) == len(own) else None


def _of(one: ScorePass, grid: Grid) -> MixedPass | None:
    """Return a pass by cells and numbers, if the numbers' steps are fine enough for it."""
    middle, half = ranges_of(grid) or (np.zeros(0), np.zeros(0))
    matrix, shift = one.affine
    r = len(one.centre.theta)

    def image(rows: Array) -> Array:
        found = mapped(matrix, rows)[:r]
        return found if shift is None else found + shift[:r]

    d = len(grid.numbers) - 1  # the last is the response
    whole, columns = at_the_middle(grid, image, middle, half, range(d))
    if float(np.sqrt(squares(columns)).max()) * one.plan.information > STEEPEST:
        return None
    lattice = Lattice.of(whole, columns, (middle[:d], half[:d]), grid.void)
    if lattice is None:
        return None
    found = MixedPass(one, grid, lattice)
    return found if max(found.reach.values(), default=0) <= _WEIGHT else None


