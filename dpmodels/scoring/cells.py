"""A scoring pass over rows that are cells of a public grid: no dense row, no dense product.

Where every predictor is a function of levels (:mod:`dpmodels.formula.grid`), ``w = W u`` is one of
K public vectors. A row adds integer multiples of its cell's lattice vector to every sum, so that
the sums are ``sum_c (sum_i k_i) zeta_c`` and ``sum_c (sum_i k_i^2) zeta_c zeta_c'``: of a pass only
sums by cell are kept (``theory.md``, 2.6).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.bycell import (
    FINE,
    MULTIPLE,
    ByCell,
    Integers,
    checked,
    directions,
    gram_of,
    seen_by_row,
    sum_of,
)
from dpmodels.exact.end import TOP, end, end_of_numbers, usable
from dpmodels.exact.products import mapped, squares
from dpmodels.formula.grid import Grid, grid_of
from dpmodels.scoring.rules import KEPT, PassPlan
from dpmodels.scoring.sums import (
    AT_CLIP,
    BINS,
    FACTOR,
    PassSums,
    ScorePass,
    beyond_clip,
    counted_lengths,
    lengths_by_sign,
    softened,
)

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.windows import Coins

#: Lengths below this part of C are in the first bin.
_LOWEST = 2.0 ** (0.5 * (1 - AT_CLIP))


def scoring_grid(design: Design) -> Grid | None:
    """Return the grid by whose cells scoring passes of a design add up; None: by dense rows.

    Public: a function of the design. Its predictors must all be functions of the cell.
    """
    grid = grid_of(design)
    return grid if grid is not None and grid.numbers[0] >= design.p else None


def seen_of_cells(
    affine: tuple[Array, Array | None], grid: Grid
) -> tuple[Array, Array]:
    """Return what a model sees of a row (``ScorePass.affine``): of its cell, and of its numbers.

    (K,), NaN in void cells, and the slopes (d,).
    """
    matrix, shift = affine
    seen = mapped(matrix[-1:], grid.table)[0]
    if shift is not None:
        seen = seen + shift[-1]
    return np.where(grid.void, np.nan, seen), matrix[-1, list(grid.numbers)]


@dataclass(frozen=True)
class CellTally:
    """Sums by cell of one pass. **Private**: integers of rows, nothing of them is released.

    Attributes
    ----------
    information, meat, spread, score, far : (K,) object arrays
        Sums of squared multiples (of unweighted rows: counts), and of those of scores.
    scale : int
    bins : tuple of int
    """

    information: Integers
    meat: Integers
    spread: Integers
    score: Integers
    far: Integers
    scale: int
    bins: tuple[int, ...]

    def __add__(self, other: CellTally) -> CellTally:
        return CellTally(
            self.information + other.information,
            self.meat + other.meat,
            self.spread + other.spread,
            self.score + other.score,
            self.far + other.far,
            self.scale + other.scale,
            tuple(a + b for a, b in zip(self.bins, other.bins, strict=True)),
        )

    def __repr__(self) -> str:
        return "<sums by cell of a scoring pass, confidential>"


@dataclass(frozen=True)
class Tallies:
    """The sums of passes that read the same rows. **Private**."""

    sums: tuple[CellTally, ...]

    def __add__(self, other: Tallies) -> Tallies:
        return Tallies(tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)))


@dataclass(eq=False)
class _Adding:
    """The running sums of one pass."""

    cells: int
    signed: bool = False
    scale: int = 0

    def __post_init__(self) -> None:
        names = ("information", "meat", "spread", "score", "far")
        self.by = {name: ByCell(self.cells) for name in names}
        self.bins = np.zeros(BINS * (1 + self.signed), dtype=np.int64)

    def done(self) -> CellTally:
        found = {name: one.integers() for name, one in self.by.items()}
        return CellTally(**found, scale=self.scale, bins=tuple(int(x) for x in self.bins))


@dataclass(frozen=True, eq=False)
class _Tables:
    """What a pass knows of a cell before any data.

    Attributes
    ----------
    seen : (K,) array
        What the model sees of a row without its numbers; NaN in void cells.
    slopes : (d,) array
        And what each of its numbers adds.
    length : (K,) array
        ``|w|`` in lattice steps of R_H.
    zeta : (r, K) array
        Lattice vector that information and scores are multiples of: of unweighted rows w itself,
        in the ball of R_H ...
    kept : (K,) array
        ... and its length there, before it is rounded.
    ahead : (r, K) array
        The same direction at length 2^20: what all other sums are multiples of.
    cut : (K,) bool array
        Whether w is beyond the ball.
    """

    seen: Array
    slopes: Array
    length: Array
    zeta: Array
    kept: Array
    ahead: Array
    cut: Array


@dataclass(frozen=True, eq=False)
class CellPass:
    """A scoring pass by cells: the same map of a row, on the lattice of its cell.

    Attributes
    ----------
    one : ScorePass
    grid : Grid
    """

    one: ScorePass
    grid: Grid

    @property
    def plan(self) -> PassPlan:
        """The plan of the pass."""
        return self.one.plan

    @functools.cached_property
    def tables(self) -> _Tables:
        """Return the images of the cells: public and released numbers only."""
        matrix, shift = self.one.affine
        r, grid = len(self.one.centre.theta), self.grid
        with np.errstate(all="ignore"):
            image = mapped(matrix, grid.table)
            if shift is not None:
                image += shift
            z = np.ascontiguousarray(image[:r])
            there, long = usable(squares(z))
            void = grid.void if there is None else grid.void | ~there
            z[:, void if long is None else void | ~long] = 0.0
            length = np.sqrt(squares(z))
            seen = np.where(void, np.nan, image[-1])
            kept, ahead = length.copy(), directions(z)[0]
            zeta = ahead
            if not self.plan.weighted:
                zeta = z
                end(zeta, kept)
                checked(zeta)
                # all parts of a row along one lattice vector; those of w where that is zero
                found = directions(zeta)[0]
                ahead = np.where(zeta.any(axis=0), found, ahead)
        cut = kept < length
        slopes = matrix[-1, list(grid.numbers)]
        return _Tables(seen, slopes, length, zeta, kept, ahead, cut)

    def empty(self) -> _Adding:
        """Return the sums over no block."""
        return _Adding(self.grid.cells, self.plan.manner.signed)

    def add(self, sums: _Adding, block: Array, cells: Any, chosen: Any) -> None:
        """Add a block of numbers (d, m) and cells (m,); ``chosen``: rows of meat and spread."""
        plan, step = self.plan, self.one.step
        psi, omega, length, norm, cells, chosen = self._rows(block, cells, chosen)
        by = sums.by
        long = length if omega is None else length * np.sqrt(np.maximum(omega, 0.0))
        if plan.meat:
            k = _multiples(norm[chosen], plan.meat)
            by["meat"].add(cells[chosen], k * k)
        if plan.spread and plan.weighted:
            k = _multiples(long[chosen], plan.spread * step)
            by["spread"].add(cells[chosen], k * k)
        elif plan.spread:
            by["spread"].add(cells[chosen])
        if plan.weighted:
            k = _multiples(long, TOP)
            by["information"].add(cells, k * k)
            by["score"].add(cells, self._own_factors(psi, norm))
        else:
            by["information"].add(cells)
            by["score"].add(cells, self._factors(psi, norm, cells))
        if plan.mu_far:
            some = np.flatnonzero(norm > KEPT * plan.clip)
            k = np.copysign(_multiples(beyond_clip(norm[some], plan), plan.far), psi[some])
            by["far"].add(cells[some], k)
        if plan.mu_scale:
            square = norm * norm
            square /= plan.scale_cut
            sums.scale += int(end_of_numbers(square, low=0.0).sum())
        if plan.mu_histogram:
            far = np.flatnonzero(norm >= _LOWEST * plan.clip)
            if plan.manner.signed:
                sums.bins += lengths_by_sign(norm[far] / plan.clip, psi[far])
                # whose sign does not matter: the first bins of both signs are added
            else:
                sums.bins += counted_lengths(norm[far] / plan.clip)
            sums.bins[0] += len(norm) - len(far)

    def _factors(self, psi: Array, norm: Array, cells: Any) -> Array:
        """Return what :meth:`ScorePass.factors` gives: psi itself, but for long scores and rows."""
        one, t, top = self.one, self.tables, FACTOR * self.plan.clip
        k = end_of_numbers(psi, top, TOP)
        others = norm > KEPT * self.plan.clip
        others |= np.abs(k) >= TOP - 1.0
        if t.cut.any():
            others |= t.cut.take(cells)
        few = np.flatnonzero(others)
        k[few] = one.factors(psi[few], norm[few], t.kept.take(cells[few]))
        return k

    def _rows(
        self, block: Array, cells: Any, chosen: Any
    ) -> tuple[Array, Any, Array, Array, Any, Any]:
        """Return (psi, omega, |w|, |s|, cells, chosen) of the rows that are not missing."""
        t, centre = self.tables, self.one.centre
        seen = seen_by_row(t.seen, t.slopes, block, cells)
        psi, omega = centre.evaluate(seen, block[-1])
        if centre.weights is not None:
            weight = block[self.grid.numbers.index(centre.weights)]
            psi = psi * weight
            omega = weight if omega is None else omega * weight
        length = t.length.take(cells)
        psi = self.one.by_leverage(psi, length * length, omega)
        norm = np.abs(psi)
        norm *= length
        norm /= self.one.step
        there, _ = usable(length, psi, omega)
        if there is not None:
            whole = np.flatnonzero(there)
            if not isinstance(chosen, slice):
                mark = np.zeros(len(cells), dtype=bool)
                mark[chosen] = True
                chosen = np.flatnonzero(mark[whole])
            psi, length, norm, cells = psi[whole], length[whole], norm[whole], cells[whole]
            omega = None if omega is None else omega[whole]
        return psi, omega, length, norm, cells, chosen

    def _own_factors(self, psi: Array, norm: Array) -> Array:
        """Return ``f(|s|)/C`` with the sign of psi, as multiples of a vector of full length."""
        plan = self.plan
        factor = softened(norm, plan.clip, plan.unsoftened)
        np.copysign(factor, psi, out=factor)
        return end_of_numbers(factor, plan.clip, MULTIPLE)

    def done(self, tally: CellTally) -> PassSums:
        """Return the sums of a pass from its sums by cell, of all rows. Confidential."""
        plan, t = self.plan, self.tables
        meat = spread = None
        if plan.meat:
            meat = gram_of(t.ahead, tally.meat, 2 * FINE)
        if plan.spread:
            weights = tally.spread
            if not plan.weighted:
                k = _multiples(t.length, plan.spread * self.one.step).astype(np.int64)
                weights = weights * (k * k).astype(object)
            spread = gram_of(t.ahead, weights, 2 * FINE)
        information = gram_of(t.zeta, tally.information, 2 * FINE if plan.weighted else 0)
        score = sum_of(t.zeta, tally.score)
        far = sum_of(t.ahead, tally.far) if plan.mu_far else None
        return PassSums(
            information, score, meat, spread, tally.scale, tally.bins, by_cell=True, far=far
        )


def _multiples(length: Array, radius: float) -> Array:
    """Return ``trunc(2^20 (1 - 2^-24) min(1, length/radius))``: at most that whatever a row is."""
    return end_of_numbers(length / radius, steps=MULTIPLE, low=0.0)


@dataclass(frozen=True, eq=False)
class CellPasses:
    """Passes by cells that read the same rows at once, for whoever adds up.

    Attributes
    ----------
    passes : tuple of CellPass
    grid : Grid
    """

    passes: tuple[CellPass, ...]
    grid: Grid

    def over(self, blocks: Iterable[tuple[Array, Any]], coins: Coins | None = None) -> Tallies:
        """Return the sums by cell of each pass. Confidential."""
        adding = [one.empty() for one in self.passes]
        with np.errstate(all="ignore"):
            for block, cells in blocks:
                chosen: Any = slice(None) if coins is None else coins.choose(len(cells))
                for one, sums in zip(self.passes, adding, strict=True):
                    one.add(sums, block, cells, chosen)
        return Tallies(tuple(sums.done() for sums in adding))

    def done(self, found: Tallies) -> tuple[PassSums, ...]:
        """Return the sums of each pass, of all rows. Confidential."""
        return tuple(one.done(own) for one, own in zip(self.passes, found.sums, strict=True))
