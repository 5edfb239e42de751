"""What a survival table releases, from its formula and options alone: all of it public.

Cells are (group, event | censored | entered, interval), at its first break apart from within it,
and "beyond" for each group; see
``theory.md``, 1. More than 32 intervals are released as a binary tree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown

if TYPE_CHECKING:
    from dpmodels.formula.design import Design

#: Intervals where the call does not say, and most of which each has noise of its own.
INTERVALS, FLAT = 16, 32
#: Most intervals, and most intervals times cells: errors are matrices of that size.
_MOST, _MOST_ENTRIES = 1024, 5_000_000


@dataclass(frozen=True)
class Layout:
    """The cells of a survival table.

    A table is flat: for each group events, censorings (and entries) by interval, then "beyond" for
    each group, then "missing" where everybody is in one cell.

    Attributes
    ----------
    edges : tuple of float
        Ends of the intervals, K + 1.
    groups, stratas : tuple of str
        Labels; ("",) where there is none.
    entries : bool
        Entries are tabulated: ``Surv(start, stop, event)``.
    episodes : int
        Whole episodes that a unit may have there.
    """

    edges: tuple[float, ...]
    groups: tuple[str, ...] = ("",)
    stratas: tuple[str, ...] = ("",)
    entries: bool = False
    episodes: int = 1

    @property
    def K(self) -> int:
        """Number of intervals."""
        return len(self.edges) - 1

    @property
    def G(self) -> int:
        """Groups times strata: the groups that are tabulated, the group fastest."""
        return len(self.groups) * len(self.stratas)

    @property
    def kinds(self) -> int:
        """Events, censorings within and at the first break, and entries where there are any."""
        return 5 if self.entries else 3

    @property
    def M(self) -> int:
        """Cells of the table."""
        return self.G * (self.kinds * self.K + 1) + (not self.entries)

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Of the tabulated groups: ``"s=1, g=a"``; "" where there is one alone."""
        return tuple(", ".join(t for t in (s, g) if t) for s in self.stratas for g in self.groups)

    # -- places ----------------------------------------------------------------------------
    def run(self, group: int, kind: int) -> slice:
        """Return where the intervals of a group stand.

        0 events; 1 censorings within, 2 at the first break of an interval; 3, 4 entries likewise.
        """
        first = (group * self.kinds + kind) * self.K
        return slice(first, first + self.K)

    def beyond(self, group: int) -> int:
        """Return the cell of those who are followed to the end."""
        return self.G * self.kinds * self.K + group

    def first(self, group: int) -> int:
        """Return the cell of those who were there from the first."""
        return self.run(group, 4).start

    # -- the tree --------------------------------------------------------------------------
    @property
    def levels(self) -> int:
        """Levels that are released: 1 where every interval is released by itself."""
        return 1 if self.K <= FLAT else math.ceil(math.log2(self.K))

    @property
    def widths(self) -> tuple[int, ...]:
        """Intervals in a node, by level: the coarsest first, single intervals last."""
        return tuple(2 ** (self.levels - 1 - level) for level in range(self.levels))

    def nodes(self, level: int) -> int:
        """Return the nodes of a run of intervals at a level; none is padding throughout."""
        return -(-self.K // self.widths[level])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each level: the cells of no interval are in the first."""
        runs = self.G * self.kinds
        alone = self.M - runs * self.K
        return tuple(runs * self.nodes(v) + (alone if v == 0 else 0) for v in range(self.levels))

    def node(self, cells: npt.NDArray[Any], level: int) -> npt.NDArray[Any]:
        """Return the node of each cell of the table at a level; -1 for none there."""
        runs = self.G * self.kinds
        inside = cells < runs * self.K
        run, k = np.divmod(cells, self.K)
        node = run * self.nodes(level) + k // self.widths[level]
        rest = cells - runs * self.K + runs * self.nodes(level) if level == 0 else -1
        return np.where(inside, node, rest)

    @functools.cached_property
    def sums(self) -> Array:
        """Which intervals are in which node of a run, all levels: 0 and 1, (nodes, K)."""
        parts = []
        for level, width in enumerate(self.widths):
            own = np.arange(self.K) // width
            parts.append((own == np.arange(self.nodes(level))[:, None]).astype(float))
        return np.concatenate(parts)

    # -- rows ------------------------------------------------------------------------------
    def ended(self, time: Array, event: Array) -> npt.NDArray[np.int64]:
        """Return where follow-up ends among the runs of its group; -1: beyond the last break.

        Events in (a, b], censorings in (a, b) or at a: who is censored at a break is at risk up to
        it, and not after it.
        """
        edges = np.array(self.edges)
        died = np.maximum(np.searchsorted(edges, time, side="left") - 1, 0)
        left = np.maximum(np.searchsorted(edges, time, side="right") - 1, 0)
        left = np.where(left < self.K, left + np.where(edges[left] == time, 2, 1) * self.K, -1)
        return np.where(event == 1.0, np.where(died < self.K, died, -1), left)

    def entered(self, start: Array) -> npt.NDArray[np.int64]:
        """Return where follow-up begins among the runs of its group; -1: too late.

        In (a, b), or at a; the first break and all before are one.
        """
        edges = np.array(self.edges)
        start = np.maximum(start, edges[0])
        k = np.searchsorted(edges, start, side="right") - 1
        return np.where(k < self.K, k + np.where(edges[k] == start, 4, 3) * self.K, -1)


def layout_of(design: Design, options: Mapping[str, Any]) -> Layout:
    """Return the layout of a call; refuse breaks that are not public, or none at all.

    Parameters
    ----------
    design : Design
        Of :func:`dpmodels.formula.build_survival_cells`.
    options : mapping
        ``times``, ``breaks``, ``max_episodes``.
    """
    survival = design.survival
    assert survival is not None
    column = design.z[survival.time]
    name = column.name
    if name not in design.schema:  # an expression: what is declared is a variable of it
        name = next((v for v in design.variables if v in name), name)
    edges = _edges(name, column.interval, options.get("times"), options.get("breaks"))
    entries = survival.start is not None
    episodes = options.get("max_episodes")
    if episodes is not None and not entries:
        raise RequestError(
            "max_episodes= belongs to Surv(start, stop, event): with Surv(time, event) each unit "
            "counts once"
        )
    layout = Layout(
        edges, survival.groups or ("",), survival.stratas or ("",), entries, int(episodes or 1)
    )
    if layout.K * layout.M > _MOST_ENTRIES:
        raise RequestError(
            f"{layout.K:,} intervals of {layout.G:,} groups are too many for one table: take fewer "
            "times, or merge levels of the groups"
        )
    return layout


def _edges(
    name: str, interval: tuple[float, float] | None, times: Any, breaks: Any
) -> tuple[float, ...]:
    """Return the ends of the intervals: declared times, or equal parts of the declared range."""
    if times is not None and breaks is not None:
        raise RequestError("times= and breaks= say the same: give one of them")
    given = times if times is not None else breaks
    word = "times" if times is not None else "breaks"
    if given is None or (isinstance(given, (int, np.integer)) and not isinstance(given, bool)):
        count = INTERVALS if given is None else int(given)
        if times is not None or not 1 <= count <= _MOST:
            raise RequestError(
                f"{word}={shown(given)}: times=[6, 12, 24] lists times, breaks= is a number of "
                f"equal intervals, 1 to {_MOST}"
            )
        if interval is None:
            raise RequestError(
                f"the range of {name!r} is not declared, and reading the longest time from the "
                f"rows would reveal it. Declare it: bounds={{{name!r}: (0, 60)}}, or the times "
                "at which survival is wanted: times=[6, 12, 24, 60]"
            )
        low, high = interval
        return tuple(float(v) for v in np.linspace(low, high, count + 1))
    try:
        points = [float(v) for v in given]
    except (TypeError, ValueError):
        points = [math.nan]
    if not points or not all(map(math.isfinite, points)) or sorted(set(points)) != points:
        raise RequestError(
            f"{word}= takes public times in rising order, as in {word}=[6, 12, 24]; got "
            f"{shown(given)}"
        )
    low = 0.0 if interval is None else interval[0]
    if points[0] < low or (interval is not None and points[-1] > interval[1]):
        high = math.inf if interval is None else interval[1]
        raise RequestError(
            f"{word}= goes beyond the declared range of {name!r}, [{low:g}, {high:g}]: times "
            "outside of it are never seen"
        )
    edges = points if points[0] == low else [low, *points]
    if not 1 <= len(edges) - 1 <= _MOST:
        raise RequestError(f"{word}= needs a time after {low:g}, and at most {_MOST} of them")
    return tuple(edges)
