"""A table by design: its cells and means, linearised, as coordinates of one pass by cluster.

``z = u (1_c - p_c)`` of a share, ``u 1_g (t - m_g)`` of a mean, p and m released; ``u`` itself of a
total, where units are compared in pairs. Shares of margins are sums of those of cells, so the
largest tables alone are laid down (``theory.md``, 4.7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.by_design import DesignErrors, clipped, scale_for
from dpmodels.models.table.layout import Layout, Section
from dpmodels.models.table.sums import codes_of
from dpmodels.models.weighted import shares_of_weight

#: More coordinates than this have more noise than errors.
MOST = 60
#: Least sd of a number in a group, in half ranges, that is believed.
_SPREAD = 0.02
#: Length of a row in standard deviations of its group that still fits, beside heavy weights.
_LONG = 1.2


@dataclass(frozen=True)
class Laid:
    """What a pass lays down of a table: the sections whose cells are coordinates. Public.

    Attributes
    ----------
    layout : Layout
    sections : tuple of Section
        Counts that are no margins of others, and all means.
    weight : bool
        The last coordinate is u.
    """

    layout: Layout
    sections: tuple[Section, ...]
    weight: bool = False

    def cells(self, section: Section) -> int:
        """Return the coordinates of a section: all cells but the last, or groups."""
        axes = [self.layout.axes[j].size for j in section.axes]
        if section.kind == "counts":
            return int(np.prod(axes)) - 1
        return int(np.prod([k - 1 for k in axes]))

    @property
    def size(self) -> int:
        """Coordinates."""
        return sum(map(self.cells, self.sections)) + self.weight

    def places(self) -> Iterable[tuple[Section, slice]]:
        """Yield sections with the coordinates that are theirs."""
        at = 0
        for section in self.sections:
            end = at + self.cells(section)
            yield section, slice(at, end)
            at = end

    def functions(self, section: Section) -> tuple[Array, npt.NDArray[np.intp]]:
        """Return (functions of z that a section shows, which of its items they are), (k, d), (k,).

        The cells whose last level of every axis is "(missing)" have none of their own: they are
        what the others leave.
        """
        for own, at in self.places():
            if own == section and section.kind == "means":
                L = np.zeros((self.cells(section), self.size))
                L[:, at] = np.eye(len(L))
                return L, np.arange(len(L))
            if section.kind == own.kind == "counts" and set(section.axes) <= set(own.axes):
                shape = [self.layout.axes[j].size for j in own.axes]
                keep = [own.axes.index(j) for j in section.axes]
                cell = np.array(np.unravel_index(np.arange(self.cells(own)), shape))[keep]
                sizes = [shape[i] for i in keep]
                to = np.ravel_multi_index(tuple(cell), sizes)
                k = int(np.prod(sizes)) - 1  # the last one holds the last cell, which is not laid
                L = np.zeros((k, self.size))
                inside = to < k
                L[to[inside], at.start + np.flatnonzero(inside)] = 1.0
                return L, np.arange(k)
        return np.zeros((0, self.size)), np.zeros(0, dtype=np.intp)


def laid_of(layout: Layout, *, weight: bool) -> Laid:
    """Return what is laid down of a layout, or refuse."""
    counts = [s for s in layout.sections if s.kind == "counts"]
    own = [s for s in counts if not any(set(s.axes) < set(o.axes) for o in counts)]
    means = [s for s in layout.sections if s.kind == "means"]
    found = Laid(layout, (*own, *means), weight and bool(own))
    if found.size > MOST:
        raise RequestError(
            f"errors by PSU of {found.size} cells and means at once: their noise would be all "
            f"there is. Take at most {MOST}: merge levels, or make several tables"
        )
    return found


@dataclass(frozen=True, eq=False)
class CellScores:
    """The coordinates of rows: public and released numbers alone.

    Attributes
    ----------
    laid_down : Laid
    middle, scale : (d,) arrays
        p of cells and m of groups; factors.
    centre, half : (q,) arrays
        Of the numbers.
    top : float
        T, where weights are cut.
    place : int or None
        Row of the block that holds them.
    """

    laid_down: Laid
    middle: Array
    scale: Array
    centre: Array
    half: Array
    top: float
    place: int | None
    back: None = None

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.laid_down.size

    def laid(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return coordinates of rows times their factors, in the ball of C: integers (d, m)."""
        layout, m = self.laid_down.layout, rows.shape[1]
        u = np.ones(m) if self.place is None else shares_of_weight(rows[self.place], self.top)
        numbers = {a.column for a in layout.axes if a.kind != "level"}
        unit = {j: np.clip((rows[j] - self.centre[j]) / self.half[j], -1.0, 1.0) for j in numbers}
        codes = codes_of(layout, rows, unit)
        z = np.empty((self.size, m))
        if self.laid_down.weight:
            z[-1] = 1.0
        for section, at in self.laid_down.places():
            means = section.kind == "means"
            where, there = np.zeros(m, dtype=np.intp), np.ones(m, dtype=bool)
            for j in section.axes:
                levels = layout.axes[j].size - means
                there &= codes[j] < levels
                where = where * levels + np.minimum(codes[j], levels - 1)
            mine = (where == np.arange(at.stop - at.start)[:, None]) & there
            middle = self.middle[at, None]
            if means:
                t = unit[section.number]
                z[at] = np.where(mine & ~np.isnan(t), t - middle, 0.0)
            else:
                z[at] = mine - middle
        z *= u
        z *= self.scale[:, None]
        return clipped(z, factor, clip)


def scales(
    laid: Laid, shares: dict[Section, Array], means: dict[Section, tuple[Array, Array, Array]],
    square: float, clip: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return (middles, factors, typical variance a row) of coordinates, by released numbers.

    Parameters
    ----------
    shares : mapping
        Of the cells of counts.
    means : mapping
        Of groups: their shares, means and variances, in half ranges.
    square : float
        Mean of u^2.
    clip : float
        C.
    """
    middle, variance, reach = (np.ones(laid.size) for _ in range(3))
    part = np.full(laid.size, clip)
    for section, at in laid.places():
        d = at.stop - at.start
        part[at] = clip * np.sqrt(d / laid.size)
        if section.kind == "counts":
            p = np.clip(shares[section][:d], 0.0, 1.0)
            middle[at], variance[at] = p, p * (1.0 - p)
        else:
            share, m, v = means[section]
            v = np.maximum(v, _SPREAD**2)
            middle[at], variance[at] = m, np.clip(share, 0.0, 1.0) * v
            reach[at] = _LONG * np.sqrt(v)
    if laid.weight:
        middle[-1], part[-1] = 0.0, clip
    factor = scale_for(variance, reach, square, part)
    typical = factor**2 * variance * square
    if laid.weight:  # a sum of weights is no share: PSUs of one size have the same
        typical[-1] = 0.0
    return middle, factor, typical


def errors_of(
    errors: DesignErrors, laid: Laid, section: Section, rows: Array
) -> tuple[Array, Array]:
    """Return (design effects, factors for degrees of freedom) of the items of a section.

    Parameters
    ----------
    rows : (k,) array
        Of each item, the sum of squares of its z over rows.
    """
    mean = errors.average[0] if errors.determined else np.nan
    effect, factor = np.full(len(rows), mean), np.ones(len(rows))
    L, which = laid.functions(section)
    effect[which], factor[which] = errors.effects(L, rows[which])
    return effect, factor
