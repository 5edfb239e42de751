"""Table of follow-up: its released counts, the way they are counted, and their noise.

Cells are (group, event | censored | entered, interval), at its first break apart from within it,
and "beyond" for each group; see ``theory.md``, 1. The first interval is the beginning of the
declared range itself. More than 32 intervals are released as a binary tree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.followup import FollowUp
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows, entry, only_where, stack, where
from dpmodels.errors import RequestError, shown
from dpmodels.formula.design import Design, Survival

#: Intervals by default, and most intervals for which each has separate noise.
INTERVALS, FLAT = 16, 32
#: Whole numbers in an interval from which on it does not matter that breaks are none of them.
_PERIODS = 8
#: Most intervals, and most intervals times cells: errors are matrices of that size.
_MOST_INTERVALS, _MOST_ENTRIES = 1024, 5_000_000


@dataclass(frozen=True)
class Layout:
    """The cells of a survival table.

    A table is flat: for each group events, censorings (and entries) by interval, then "beyond" for
    each group, then "missing" where everybody is in one cell.
    """

    edges: tuple[float, ...]  # Ends of the intervals, K + 1
    # groups, stratas: labels; ("",) where there is none.
    groups: tuple[str, ...] = ("",)
    stratas: tuple[str, ...] = ("",)
    entries: bool = False  # Entries are tabulated: ``Surv(start, stop, event)``
    episodes: int = 1  # Whole episodes that a unit may have there
    # Whether the first interval, of length 0 for a range from 0, holds the events at the beginning
    # of the declared range: everybody is at risk of them.
    opening: bool = False
    in_periods: bool = False  # Times are declared to be whole numbers (``dp.Count``)
    # Whether curves fall at once, not on straight lines between breaks. None: if ``in_periods``.
    steps: bool | None = None
    causes: tuple[str, ...] = ()  # As in ``Survival.causes``; each has a run of events

    # Public facts that follow. K intervals; G groups times strata, the group fastest; kinds:
    # events, censorings within and at the first break, entries, events of further causes; M cells.
    K: int = field(init=False)
    G: int = field(init=False)
    kinds: int = field(init=False)
    M: int = field(init=False)
    # Names of the tabulated groups, ``"s=1, g=a"``; "" where there is one alone.
    labels: tuple[str, ...] = field(init=False)
    # levels: that are released, 1 where every interval is released separately; widths: intervals
    # in a node, by level, the coarsest first; sizes: numbers of each level, the cells of no
    # interval in the first.
    levels: int = field(init=False)
    widths: tuple[int, ...] = field(init=False)
    sizes: tuple[int, ...] = field(init=False)
    nodes: tuple[int, ...] = field(init=False)  # Nodes of a run of intervals, by level

    def __post_init__(self) -> None:
        K, G = len(self.edges) - 1, len(self.groups) * len(self.stratas)
        kinds = (5 if self.entries else 3) + len(self.causes[1:])
        alone = G + (not self.entries)
        inside = K - self.opening
        levels = 1 if inside <= FLAT else math.ceil(math.log2(inside))
        widths = tuple(2 ** (levels - 1 - level) for level in range(levels))
        nodes = tuple(-(-K // width) for width in widths)
        sizes = [G * kinds * many for many in nodes]
        sizes[0] += alone
        labels = tuple(", ".join(t for t in (s, g) if t) for s in self.stratas for g in self.groups)
        facts = {
            "K": K, "G": G, "kinds": kinds, "M": G * kinds * K + alone, "labels": labels,
            "levels": levels, "widths": widths, "sizes": tuple(sizes), "nodes": nodes,
        }  # fmt: skip
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def periods(self) -> Array:
        """Time between two falls of a curve in each interval, (K,); 0 on a straight line."""
        width = np.diff(self.edges)
        if not (self.in_periods if self.steps is None else self.steps):
            return np.zeros(self.K)
        return np.asarray(np.minimum(width, 1.0) if self.in_periods else width)

    # -- places ----------------------------------------------------------------------------
    def run(self, group: int, kind: int) -> slice:
        """Return the indices of the intervals of a group.

        0 events; 1 censorings within, 2 at its first break; 3, 4 entries; events of other causes.
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
    def node(self, cells: npt.NDArray[Any], level: int) -> npt.NDArray[Any]:
        """Return the node of each cell of the table at a level; -1 for none there."""
        runs = self.G * self.kinds
        inside = cells < runs * self.K
        run, k = np.divmod(cells, self.K)
        node = run * self.nodes[level] + k // self.widths[level]
        other = cells - runs * self.K + runs * self.nodes[level] if level == 0 else -1
        return np.where(inside, node, other)

    @functools.cached_property
    def sums(self) -> Array:
        """Matrix (nodes, K) of 0 and 1: the intervals in each node of a run, all levels."""
        parts = []
        for level, width in enumerate(self.widths):
            node_of = np.arange(self.K) // width
            parts.append((node_of == np.arange(self.nodes[level])[:, None]).astype(float))
        return np.concatenate(parts)

    # -- rows ------------------------------------------------------------------------------
    def last_run(self, time: Rows, event: Rows) -> Any:
        """Return the index of the run in which follow-up ends, or -1 beyond the last break.

        Events in (a, b], censorings in (a, b) or at a: who is censored at a break is at risk up to
        it, and not after it.
        """
        edges, near = np.array(self.edges), rounding(self.edges)
        died = np.maximum(np.searchsorted(edges + near, time, "left") - 1, 0)
        left = np.maximum(np.searchsorted(edges - near, time, "right") - 1, 0)
        at = time <= entry(edges, left) + near
        left = np.where(left < self.K, left + np.where(at, 2, 1) * self.K, -1)
        last = self.kinds - len(self.causes) - 1  # kind of events of a cause j > 1, less j
        run = np.trunc(np.where(event > 1.0, last + event, 0.0)) * self.K
        return np.where(event >= 1.0, np.where(died < self.K, run + died, -1), left)

    def entered(self, start: Rows) -> Any:
        """Return the index of the run in which follow-up begins, or -1 if after the last run.

        In (a, b), or at a; the first break and all before are one.
        """
        edges, near = np.array(self.edges), rounding(self.edges)
        start = np.maximum(start, edges[0])
        k = np.searchsorted(edges - near, start, "right") - 1
        kind = np.where(start <= entry(edges, k) + near, 4, 3)
        return np.where(k < self.K, k + kind * self.K, -1)


def rounding(edges: npt.ArrayLike) -> float:
    """Return how near to a break a time is that break: ``7 * .1`` is not .7 in floats."""
    return 1e-12 * float(np.max(np.abs(edges)))


def layout_of(design: Design, options: Mapping[str, Any], *, opening: bool = True) -> Layout:
    """Return the layout of a call; refuse breaks that are not public, or none at all.

    ``options`` may hold ``times``, ``breaks`` and ``max_episodes``. Without ``opening`` events at
    the beginning of the range are in the first interval after it, as in files of version 0.2.
    """
    survival = design.survival
    assert survival is not None
    column = design.z[survival.time]
    name = column.name
    if name not in design.schema:  # an expression: a variable of it is declared
        name = next((v for v in design.variables if v in name), name)
    edges = _edges(name, column.interval, options.get("times"), options.get("breaks"), opening)
    entries = survival.start is not None
    episodes = options.get("max_episodes")
    if episodes is not None and not entries:
        raise RequestError(
            "max_episodes= needs Surv(start, stop, event): with Surv(time, event) each unit "
            "counts once"
        )
    opening = opening and (not entries or edges[0] > 0.0)  # an episode from 0 ends later
    layout = Layout(
        (0.0, *edges) if opening else edges, survival.groups or ("",), survival.stratas or ("",),
        entries, int(episodes or 1), opening,
        getattr(design.schema.variables.get(column.name), "kind", "") == "count",
        causes=survival.causes,
    )  # fmt: skip
    if layout.K * layout.M > _MOST_ENTRIES:
        raise RequestError(
            f"{layout.K:,} intervals of {layout.G:,} groups are too many for one table: use fewer "
            "times, or merge levels of the groups"
        )
    return layout


def _edges(
    name: str, interval: tuple[float, float] | None, times: Any, breaks: Any, opening: bool
) -> tuple[float, ...]:
    """Return the ends of the intervals: declared times, or equal parts of the declared range."""
    if times is not None and breaks is not None:
        raise RequestError("times= and breaks= say the same: give one of them")
    typed = times if times is not None else breaks
    word = "times" if times is not None else "breaks"
    if typed is None or (isinstance(typed, (int, np.integer)) and not isinstance(typed, bool)):
        count = INTERVALS if typed is None else int(typed)
        if times is not None or not 1 <= count <= _MOST_INTERVALS:
            raise RequestError(
                f"{word}={shown(typed)}: times=[6, 12, 24] lists times, breaks= is a number of "
                f"equal intervals, 1 to {_MOST_INTERVALS}"
            )
        if interval is None:
            raise RequestError(
                f"the range of {name!r} is not declared, and reading the longest time from the "
                f"rows would reveal it. Declare it: bounds={{{name!r}: (0, 60)}}, or the times "
                "at which survival is wanted: times=[6, 12, 24, 60]"
            )
        low, high = interval
        if typed is None and opening:
            return _whole_breaks(low, high)
        return tuple(float(v) for v in np.linspace(low, high, count + 1))
    points = _numbers(typed)
    if not points or sorted(set(points)) != points:
        raise RequestError(
            f"{word}= must be public times in rising order, as in {word}=[6, 12, 24]; got "
            f"{shown(typed)}"
        )
    low = 0.0 if interval is None else interval[0]
    if points[0] < low or (interval is not None and points[-1] > interval[1]):
        high = math.inf if interval is None else interval[1]
        raise RequestError(
            f"{word}= goes beyond the declared range of {name!r}, [{low:g}, {high:g}]: times "
            "outside of it are never seen"
        )
    edges = points if points[0] == low else [low, *points]
    if not 1 <= len(edges) - 1 <= _MOST_INTERVALS:
        raise RequestError(
            f"{word}= needs a time after {low:g}, and at most {_MOST_INTERVALS} of them"
        )
    return tuple(edges)


def _numbers(typed: Any) -> list[float]:
    """Return a list of finite numbers; empty if it is none."""
    try:
        points = [float(v) for v in typed]
    except (TypeError, ValueError):
        points = []
    return points if all(map(math.isfinite, points)) else []


def _whole_breaks(low: float, high: float) -> tuple[float, ...]:
    """Return about :data:`INTERVALS` ends of intervals, whole numbers among them if the range is.

    Follow-up in whole periods then ends at breaks: who is censored within an interval of several
    periods is at risk of half of its events, which holds if its last period is its end.
    """
    if low != round(low) or high != round(high) or high - low > _PERIODS * INTERVALS:
        return tuple(float(v) for v in np.linspace(low, high, INTERVALS + 1))
    width = round(high - low)
    parts = max(1, round(INTERVALS / width))
    step = max(1, round(width / INTERVALS))
    inner = np.arange(0, width * parts, step) / parts
    return (*(float(low + v) for v in inner), float(high))


# -- The release of a survival table: the formula of a row (``theory.md``, 2).


def spells(
    z: Rows, places: Survival, layout: Layout, group_of: Callable[[Rows], Rows] | None = None
) -> tuple[Rows, Rows, Rows, Rows]:
    """Return the parts of a row's episode for :class:`dpmodels.core.followup.FollowUp`.

    Which rows count: an episode that begins after the last break, or whose end is not a time, does
    not. The cells in which follow-up begins and ends. And start, time, event and group. ``places``:
    rows of the block that hold them. ``group_of``: groups by released numbers instead of a column.
    """
    time, event = z[places.time], z[places.event]
    counted: Any = np.isfinite(time)
    group: Any = np.zeros_like(time)
    codes = [None if places.strata is None else z[places.strata]]
    codes.append(group_of(z) if group_of else None if places.group is None else z[places.group])
    for code, labels in zip(codes, (layout.stratas, layout.groups), strict=True):
        at = group * 0.0 if code is None else code
        counted = counted & (at < len(labels))
        group = group * len(labels) + only_where(at, at < len(labels))
    event = only_where(event, counted)
    end = layout.last_run(where(counted, time, layout.edges[0]), event)
    runs = layout.kinds * layout.K
    ends = where(end < 0, layout.G * runs + group, group * runs + end)
    begins: Any = np.zeros_like(time)
    start: Any = begins
    if layout.entries:
        assert places.start is not None
        start = z[places.start]
        begun = layout.entered(where(counted, start, layout.edges[0]))
        counted = counted & (begun >= 0)
        begins = group * runs + np.maximum(begun, 0)
    return counted, begins, ends, stack(start, time, event, group)


def follow_up_release(
    name: str, design: Design, layout: Layout, *, people: bool,
    group_of: Callable[[Rows], Rows] | None = None,
) -> Release:  # fmt: skip
    """Return the release of the table of a layout."""
    assert design.survival is not None
    row = functools.partial(spells, places=design.survival, layout=layout, group_of=group_of)
    return Release(name, FollowUp(layout, people=people), row, design)


# -- From noisy nodes to cells: least squares over the tree and the public totals (``theory.md``,
# 3).
#
# The cells of a run of intervals share one small covariance, whatever the run; the totals that are
# public (of everybody, or of entries and ends of each group) take away as many directions.


@dataclass(frozen=True)
class CellNoise:
    """The noise of the cells of a layout, where every released number has one variance."""

    layout: Layout
    sd: float  # Noise sd of every released number, in units

    @functools.cached_property
    def _tree(self) -> tuple[Array, Array]:
        """Return (S, L): covariance of a run's intervals over the variance, and their solver."""
        A = self.layout.sums
        S = np.linalg.inv(A.T @ A) if self.layout.levels > 1 else np.eye(self.layout.K)
        return S, S @ A.T

    @functools.cached_property
    def totals(self) -> Array:
        """Return the public sums as rows of weights: (constraints, cells)."""
        lay = self.layout
        if not lay.entries:  # everybody is in one cell
            return np.ones((1, lay.M))
        C = np.zeros((lay.G, lay.M))  # everyone who enters a group leaves it
        for g in range(lay.G):
            ends = slice(lay.run(g, 0).start, lay.run(g, lay.kinds - 1).stop)
            C[g, ends] = C[g, lay.beyond(g)] = -1.0
            C[g, lay.run(g, 3).start : lay.run(g, 4).stop] = 1.0
        return C

    def free(self, J: Array) -> Array:
        """Return ``J V`` for weights J (r, cells), V the covariance before totals."""
        lay = self.layout
        inside = lay.G * lay.kinds * lay.K
        runs = J[:, :inside].reshape(len(J), -1, lay.K) @ self._tree[0]
        return np.concatenate([runs.reshape(len(J), inside), J[:, inside:]], axis=1) * self.sd**2

    @functools.cached_property
    def _through(self) -> tuple[Array, Array]:
        """Return (C V, (C V C')^{-1})."""
        CV = self.free(self.totals)
        return CV, np.linalg.inv(CV @ self.totals.T)

    def fit(self, noisy: Array, n: float | None) -> Array:
        """Return the least squares cells (M,) of released numbers; n: the public total."""
        lay = self.layout
        runs = lay.G * lay.kinds
        ends = np.cumsum(lay.sizes)[:-1]
        levels = np.split(noisy, ends)
        nodes = [v[: runs * lay.nodes[i]].reshape(runs, -1) for i, v in enumerate(levels)]
        cells = np.concatenate(nodes, axis=1) @ self._tree[1].T
        out = np.concatenate([cells.ravel(), levels[0][runs * lay.nodes[0] :]])
        target = np.zeros(len(self.totals)) if n is None or lay.entries else np.array([float(n)])
        CV, inverse = self._through
        return np.asarray(out + (target - self.totals @ out) @ inverse @ CV)

    def covariance(self, J: Array, other: Array | None = None) -> Array:
        """Return the noise covariance of ``J @ cells`` (and of ``other @ cells``): J V J'."""
        other = J if other is None else other
        CV, inverse = self._through
        through = (J @ CV.T) @ inverse @ (CV @ other.T)
        return np.asarray(self.free(J) @ other.T - through)
