"""Centre and scale of what is declared too widely, released before the start (``theory.md``, 3.1).

A range says where values may lie, not where they do. Two histograms of a number, of cells of its
range and then of its distances from their median, tell a centre and a scale: the start looks from
these. Cells are clipped at the declared range as ever, and no bound rests on what is released.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.passes import Sums
from dpmodels.exact.prove import noise_of
from dpmodels.exact.sets import Mark
from dpmodels.exact.statistics import Stack, Sum
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.scoring.coordinates import Coordinates, most_root, narrowed, unweighted
from dpmodels.sources.summed import Integers

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design

#: Shares of mu^2 of the two histograms, together ``SHARE``.
SHARES = (0.02, 0.03)
SHARE = sum(SHARES)
#: mu n above which ranges are not asked about: there the noise of a start is small.
STRONG = 20_000.0
#: Cells of a range; half octaves of distances from its centre.
CELLS, OCTAVES = 64, 24
#: A node is split by its children where they differ by so many noise sds.
SPLIT = 2.5
#: Noise sds of a bin that tells the far end of distances.
FAR_END = 4.0
#: Quantile of distances that tells the scale, and the same of normal errors.
AT, NORMAL = 0.9, 1.645
#: Half the range of a response: so many scales, or so many times the far end of its distances.
NORMAL_RANGE, BEYOND = 4.0, 2.0
#: Part of the range's own variance in the squared scale of a predictor.
OWN = 0.02
#: A float64: bits of its mantissa, bias of its exponent.
_MANTISSA, _BIAS = 52, 1023


@dataclass(frozen=True)
class ScalePlan:
    """Which numbers are asked about, and what for.

    Attributes
    ----------
    names : tuple of str
        Columns of the block, the response last.
    places : tuple of int
        Their rows in the block.
    mu : float
        Of the whole scoring, scales included.
    relation : str
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    mu: float
    relation: str

    def histograms(self, k: int) -> Stack:
        """Return histogram k (0: places, 1: distances) of every number: one bin each."""
        d = len(self.names)
        return Stack((Sum(Mark((CELLS, OCTAVES)[k])),) * d, (1.0,) * d)

    def noise(self, k: int) -> float:
        """Return the noise sd of the bins of histogram k."""
        mechanism = Gaussian(self.mu * math.sqrt(SHARES[k]))
        return float(noise_of(self.histograms(k), mechanism, self.relation)[0])


_STEPS = ("places of values", "scales of values")


def scale_steps(plan: ScalePlan) -> tuple[Step, ...]:
    """Return the steps of the ledger; shares are of the whole scoring."""
    return tuple(
        Step(name, Gaussian(plan.mu * math.sqrt(share)), share=share)
        for name, share in zip(_STEPS, SHARES, strict=True)
    )


def numbers_of(design: Design, *, predictors: bool) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return (names, places) of the numbers whose scale can be asked about, the response last.

    Parameters
    ----------
    predictors : bool
        Numeric variables that are columns of their own, too.
    """
    assert design.response is not None
    names, places = [], []
    if predictors:
        for j, column in enumerate(design.columns):
            variable = design.kinds.get(column.name)
            if column.interval is None or variable is None or variable.interval is None:
                continue
            if variable.kind not in ("binary", "levels"):
                names.append(column.name)
                places.append(j)
    return (*names, design.response.name), (*places, design.q - 1)


def _numbers(block: Array, places: tuple[int, ...], root: Array | None) -> Iterator[Array]:
    """Yield numbers of rows; ``root``: columns that add up to what a row is multiplied by."""
    with np.errstate(all="ignore"):  # rows of weight 0 are missing here
        one = None if root is None else (block[: len(root)] * root[:, None]).sum(axis=0)
        for j in places:
            yield block[j] if one is None else block[j] / one


@dataclass(frozen=True, eq=False)
class _Places:
    """The histogram of numbers over equal cells of their ranges. Row by row; missing: in none."""

    places: tuple[int, ...]
    low: Array
    width: Array
    root: Array | None = None

    def over(self, blocks: Iterable[Array], _: Any = None) -> Integers:
        """Return the counts over blocks, (numbers, CELLS). Confidential."""
        out = np.zeros((len(self.places), CELLS), dtype=np.int64)
        for block in blocks:
            for i, number in enumerate(_numbers(block, self.places, self.root)):
                cell = (number - self.low[i]) * (CELLS / self.width[i])
                there = np.isfinite(cell)
                at = np.clip(np.floor(cell[there]), 0, CELLS - 1).astype(np.int64)
                out[i] += np.bincount(at, minlength=CELLS)
        return Integers((out,))


@dataclass(frozen=True, eq=False)
class _Distances:
    """The histogram of distances from centres, by half octaves of the range. Row by row."""

    places: tuple[int, ...]
    centre: Array
    width: Array
    root: Array | None = None

    def over(self, blocks: Iterable[Array], _: Any = None) -> Integers:
        """Return the counts over blocks, (numbers, OCTAVES), the longest first. Confidential."""
        out = np.zeros((len(self.places), OCTAVES), dtype=np.int64)
        for block in blocks:
            for i, number in enumerate(_numbers(block, self.places, self.root)):
                part = (number - self.centre[i]) / self.width[i]
                square = part[np.isfinite(part)]
                square *= square
                # the exponent of the square: half octaves of the distance, from the range down
                octave = _BIAS - 1 - (square.view(np.int64) >> _MANTISSA)
                out[i] += np.bincount(np.clip(octave, 0, OCTAVES - 1), minlength=OCTAVES)
        return Integers((out,))


def shares_of_tree(counts: Array, sd: float) -> Array:
    """Return shares of the cells of [0, 1], of a noisy histogram: not negative, adding up to 1.

    A node of the dyadic tree over the cells is split in proportion to its children where they
    differ by ``SPLIT`` noise sds, else in halves: noise of empty cells does not add up.
    """
    counts, share = np.asarray(counts, dtype=float), np.ones(1)
    while len(share) < len(counts):
        children = counts.reshape(2 * len(share), -1)
        each = sd * math.sqrt(children.shape[1])
        raw = children.sum(axis=1).reshape(-1, 2)
        pair = np.maximum(raw, 0.0)
        differ = np.abs(raw[:, 0] - raw[:, 1]) > SPLIT * math.sqrt(2.0) * each
        left = np.where(differ, pair[:, 0] / np.maximum(pair.sum(axis=1), 1e-300), 0.5)
        share = np.stack([share * left, share * (1.0 - left)], axis=1).ravel()
    return share


def median_of(counts: Array, sd: float) -> float:
    """Return the median of a noisy histogram of cells of [0, 1] (:func:`shares_of_tree`)."""
    share = shares_of_tree(counts, sd)
    below = np.concatenate([[0.0], np.cumsum(share)])
    k = int(np.clip(np.searchsorted(below, 0.5, side="right") - 1, 0, len(share) - 1))
    within = (0.5 - below[k]) / max(float(share[k]), 1e-300)
    return float((k + min(max(within, 0.0), 1.0)) / len(share))


def scale_of(counts: Array, sd: float) -> tuple[float, float]:
    """Return (the .9 quantile over 1.645, the far end) of distances, over the range.

    From noisy half octaves, those that do not stand out of their noise left out; the far end is
    that of the longest that does.
    """
    found = np.where(counts > SPLIT * sd, counts, 0.0)
    total = float(found.sum())
    if not total > 0.0:
        return 1.0 / math.sqrt(12.0), 1.0
    beyond = np.cumsum(found) / total
    k = int(np.searchsorted(beyond, 1.0 - AT, side="left"))
    before = float(beyond[k - 1]) if k else 0.0
    within = (1.0 - AT - before) / max(float(beyond[k]) - before, 1e-300)
    scale = 2.0 ** (-(k + min(max(within, 0.0), 1.0)) / 2.0) / NORMAL
    sure = np.flatnonzero(counts > FAR_END * sd)
    return float(scale), float(2.0 ** (-0.5 * int(sure[0]))) if len(sure) else 1.0


def located(plan: ScalePlan, coordinates: Coordinates, design: Design, ask: Ask) -> Coordinates:
    """Release centres and scales, and return the coordinates that look from there.

    Privacy
    -------
    Unit: one row. Two Gaussian releases of counts, a row in one bin of each number.
    """
    root = coordinates.unit.one if design.scaled else None
    ends = (design if root is None else unweighted(design)).intervals()[list(plan.places)]
    low, width = ends[:, 0], np.maximum(ends[:, 1] - ends[:, 0], 1e-300)
    counts = _noisy(plan, 0, design, ask, _Places(plan.places, low, width, root))
    middle = np.array([median_of(one, plan.noise(0)) for one in counts])
    centre = low + width * middle
    counts = _noisy(plan, 1, design, ask, _Distances(plan.places, centre, width, root))
    scale, end = np.array([scale_of(one, plan.noise(1)) for one in counts]).T
    half = width[-1] * min(max(NORMAL_RANGE * scale[-1], BEYOND * end[-1]), 0.5)
    sd = width * np.sqrt((1.0 - OWN) * scale**2 + OWN / 12.0)
    return _looking_from(coordinates, design, plan.names[:-1], centre, sd, half)


def _noisy(plan: ScalePlan, k: int, design: Design, ask: Ask, job: _Places | _Distances) -> Array:
    over = Sums(design, job)
    query = Query(plan.histograms(k), over, lambda found: Added(found.arrays[0].astype(object)))
    return ask(_STEPS[k], query).values


def _looking_from(
    coordinates: Coordinates, design: Design, names: Sequence[str], centre: Array, sd: Array,
    half: float,
) -> Coordinates:  # fmt: skip
    """Return coordinates about a narrower range of the response, and a narrower box.

    Parameters
    ----------
    names : sequence of str
        Predictors: each as if uniform, with this centre and sd.
    half : float
        Half the range of the response before any weight, about its centre (0 without a constant).
    """
    unit = coordinates.unit
    scale, shift = np.array(unit.scale), np.array(unit.shift)
    if unit.intercept or unit.one is not None:
        half *= most_root(design)
        scale[-1], shift[-1] = 1.0 / half, -centre[-1] / half
    else:  # nothing gives a centre back: about 0
        scale[-1] = max(scale[-1], 1.0 / (abs(centre[-1]) + half))
    box: Mapping[str, tuple[float, float]] = {
        name: (c - math.sqrt(3.0) * s, c + math.sqrt(3.0) * s)
        for name, c, s in zip(names, centre.tolist(), sd.tolist(), strict=False)
    }
    if box:
        coordinates = narrowed(coordinates, design, box)
    return replace(coordinates, unit=replace(unit, scale=scale, shift=shift))
