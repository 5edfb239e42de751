"""Release the centre and scale of every numeric variable before the start, and use them as units.

A range says where values may lie, not where they do. For rows two histograms of each variable are
released, and one of their weights; for people one of each variable, and one of each column of the
information (``method.md``, 3.1, 3.3 and 8.3).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.release import Release
from dpmodels.core.rows import Rows, clip, where
from dpmodels.core.sets import Bins
from dpmodels.formula.build import build_design
from dpmodels.formula.design import Design, variables_of
from dpmodels.lazy import special
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.prove import noise_of
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates, most_root, narrowed
from dpmodels.scoring.pass_plan import count_of, power_of_two
from dpmodels.sums.ask import ALL, Read
from dpmodels.variables import Binary, Levels, Text

# -- Rows: centre and scale of every numeric variable (``theory.md``, 3.1).
#
# Two histograms of a variable, of cells of its range and then of its distances from their median,
# tell a centre and a scale: the start looks from these. Cells are clipped at the declared range as
# ever, and no bound depends on the released values.


@dataclass(frozen=True)
class ScalePlan:
    """Numbers whose scales are released, and their budget."""

    names: tuple[str, ...]  # Variables, the response last if it is released
    response: bool  # Whether it is
    mu: float  # mu of all scoring, scales included
    relation: str
    rows: float  # That are read: public, or the guess (expected under coins)
    read: Read = ALL
    label: ClassVar[str] = "scales"
    share: ClassVar[float] = sum(rules.NUMBER_SHARES)

    @classmethod
    def of(
        cls, names: tuple[str, ...], response: bool, mu: float, relation: str, n: int
    ) -> ScalePlan:
        """Plan the release over n rows, of which one in k is read if there are enough."""
        plan = cls(names, response, mu, relation, n)
        every = power_of_two(
            min(rules.TAIL_PART * n / (rules.CLEAR_TAIL_SDS * plan.noise(1)), rules.PILOT_COINS)
        )
        return replace(plan, rows=n / every, read=Read(every))

    @property
    def predictors(self) -> tuple[str, ...]:
        """Variables of the predictors."""
        return self.names[: len(self.names) - self.response]

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the ledger. Shares are of the whole scoring."""
        return tuple(
            Step(name, Gaussian(self.mu * math.sqrt(share)), share=share)
            for name, share in zip(
                (rules.PLACES, rules.DISTANCES), rules.NUMBER_SHARES, strict=True
            )
        )

    def noise(self, k: int) -> float:
        """Return the noise sd of histogram k (0: positions, 1: distances): one per variable."""
        d, bins = len(self.names), (rules.CELLS, rules.DISTANCE_OCTAVES)[k]
        mechanism = Gaussian(self.mu * math.sqrt(rules.NUMBER_SHARES[k]))
        return float(noise_of(Bins(d, bins).statistic, mechanism, self.relation)[0])


def columns_of_numbers(design: Design) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return (names, indices) of the numeric variables that are single columns."""
    names, places = [], []
    for j, column in enumerate(design.columns):
        variable = design.kinds.get(column.name)
        if column.interval is None or variable is None or variable.interval is None:
            continue
        if variable.kind not in ("binary", "levels"):
            names.append(column.name)
            places.append(j)
    return tuple(names), tuple(places)


def numbers_of(design: Design) -> tuple[str, ...]:
    """Return the numeric variables with a declared range that predictors are made of. Public."""
    used = variables_of(design)
    return tuple(
        name
        for name in design.variables
        if name in used
        and not isinstance(v := design.kinds[name], Levels | Text | Binary)
        and v.interval is not None
        and v.interval[0] < v.interval[1]
    )


def design_of_numbers(design: Design, names: Sequence[str], *, response: bool) -> Design:
    """Return the design whose columns are variables as they stand, without weights.

    With the response, if it is released, less an offset.
    """
    left = design.formula.partition("~")[0].strip() if response else ""
    terms = [f"`{name}`" for name in names] or ["1"]
    if response and design.offset is not None:
        terms.append(f"offset({design.offset})")
    return build_design(
        f"{left} ~ {' + '.join(terms)}", design.schema, one_sided_ok=not response,
        response_ok=design.response_ok, event=design.event, na=design.na, subset=design.subset,
    )  # fmt: skip


def released_scales(
    plan: ScalePlan, numbers: Design, places: Sequence[int]
) -> Generator[Release, Any, tuple[Array, Array, list[float | None]]]:
    """Release centres and scales of the numeric variables in these columns of a design.

    Two histograms of each variable: of cells of its range, and of half octaves of its distance from
    the centre, from the width of the range down.

    Returns
    -------
    centre, width : (numbers,) arrays
        Medians, and widths of the declared ranges.
    seen : list of float or None
        Scales over the width, or None where noise hides the distances.

    Privacy
    -------
    Unit: one row. Two Gaussian releases of counts, a row is in one bin of each numeric variable.
    """
    low, high = numbers.intervals()[list(places)].T
    width, d, last = high - low, len(places), rules.DISTANCE_OCTAVES - 1

    def cell(z: Rows) -> Rows:
        part = (z[list(places)] - low) * (rules.CELLS / width)
        return where(np.isfinite(part), clip(np.floor(part), 0.0, rules.CELLS - 1.0), -1.0)

    counts = yield Release(rules.PLACES, Bins(d, rules.CELLS), cell, numbers, plan.read)
    centre = low + width * [median_of(histogram, plan.noise(0)) for histogram in counts.values]

    def half_octave(z: Rows) -> Rows:
        part = (z[list(places)] - centre) / width
        # the exponent of the square counts half octaves of the distance
        below = where(part == 0.0, float(last), -np.frexp(part * part)[1])
        return where(np.isfinite(part), clip(below, 0.0, float(last)), -1.0)

    counts = yield Release(rules.DISTANCES, Bins(d, last + 1), half_octave, numbers, plan.read)
    sd = plan.noise(1)
    many = [count_of(c, sd, plan.rows, plan.relation) for c in counts.values]
    return centre, width, [scale_of(c, sd, n) for c, n in zip(counts.values, many, strict=True)]


def located(
    plan: ScalePlan, coordinates: Coordinates, rows: Design, clear: float
) -> Generator[Release, Any, Coordinates]:
    """Release centres and scales of numbers, and return the coordinates that use them.

    ``clear``: ratio of the start to its noise, by public numbers.
    """
    numbers = design_of_numbers(rows, plan.predictors, response=plan.response)
    at = {column.name.strip("`"): j for j, column in enumerate(numbers.columns)}
    places = [at[name] for name in plan.predictors] + [numbers.q - 1] * plan.response
    centre, width, seen = yield from released_scales(plan, numbers, places)
    return looking_from(coordinates, rows, plan, centre, width, seen, clear)


def shares_of_tree(counts: Array, sd: float) -> Array:
    """Return shares of the cells of [0, 1] from a noisy histogram; they are not negative, sum 1.

    A node of the dyadic tree over the cells is split between its children by positive-part
    shrinkage towards equal halves, ``1/2 + (left/both - 1/2) (1 - 2 m sd^2/(left - right)^2)+``
    with m cells under each child. So the noise of empty cells does not accumulate.
    """
    counts, share = np.asarray(counts, dtype=float), np.ones(1)
    while len(share) < len(counts):
        children = counts.reshape(2 * len(share), -1)
        noise = 2.0 * sd * sd * children.shape[1]
        raw = children.sum(axis=1).reshape(-1, 2)
        pair = np.maximum(raw, 0.0)
        both = pair.sum(axis=1)
        away = np.where(both > 0.0, pair[:, 0] / np.maximum(both, 1e-300) - 0.5, 0.0)
        differ = np.maximum((raw[:, 0] - raw[:, 1]) ** 2, 1e-300)
        left = 0.5 + away * np.maximum(1.0 - noise / differ, 0.0)
        share = np.stack([share * left, share * (1.0 - left)], axis=1).ravel()
    return share


def median_of(counts: Array, sd: float) -> float:
    """Return the median of a noisy histogram of cells of [0, 1] (:func:`shares_of_tree`)."""
    share = shares_of_tree(counts, sd)
    below = np.concatenate([[0.0], np.cumsum(share)])
    k = int(np.clip(np.searchsorted(below, 0.5, side="right") - 1, 0, len(share) - 1))
    within = (0.5 - below[k]) / max(float(share[k]), 1e-300)
    return float((k + min(max(within, 0.0), 1.0)) / len(share))


def scale_of(counts: Array, sd: float, n: float) -> float | None:
    """Return the scale of distances over the range, or None if noise hides it.

    ``counts`` is a noisy histogram of n distances by half octaves, the longest first. The scale is
    the sd of a normal distribution with the tail at the first half octave at which the count beyond
    reaches ``q n = max(.1 n, 2 sd sqrt(j + 1))``.
    """
    sums = np.cumsum(counts)
    j = np.arange(1.0, len(counts) + 1.0)
    need = np.maximum(rules.TAIL_PART * n, rules.VISIBLE_SDS * sd * np.sqrt(j))
    reached = np.flatnonzero(sums >= need)
    if float(np.max(counts)) > rules.ONE_LENGTH_PART * n:
        return _of_few_values(counts, sd, n)
    if not len(reached):
        return None
    k = int(reached[0])
    if need[k] > rules.MAX_TAIL_PART * n:
        return None
    before = float(sums[k - 1]) if k else 0.0
    within = (need[k] - before) / max(float(sums[k]) - before, 1e-300)
    distance = 2.0 ** (-(k + min(max(within, 0.0), 1.0)) / 2.0)
    scale = -distance / float(special.ndtri(need[k] / n / 2.0))
    return scale if scale < 1.0 / math.sqrt(12.0) else None


def _of_few_values(counts: Array, sd: float, n: float) -> float | None:
    """Return the root mean square of distances of which most have one length (a 0/1 variable).

    It uses the half octaves that exceed the noise. The number of distances that noise may hide is
    added at the whole range. A variable whose other values are rare has None, as scaling would make
    these huge.
    """
    squares = 2.0 ** -(np.arange(len(counts)) + 0.5)
    clear = np.where(counts > rules.VISIBLE_SDS * sd, counts, 0.0)
    if float(clear.sum() - clear.max()) < rules.TAIL_PART * n:
        return None
    scale = math.sqrt((float(clear @ squares) + rules.VISIBLE_SDS * sd) / n)
    return scale if scale < 1.0 / math.sqrt(12.0) else None


def sd_of_box(scale: float, width: float) -> float:
    """Return the sd of a variable in the box, by its scale over the width of its declared range."""
    return width * math.sqrt(
        (1.0 - rules.RANGE_VARIANCE_PART) * scale**2 + rules.RANGE_VARIANCE_PART / 12.0
    )


def looking_from(
    coordinates: Coordinates, design: Design, plan: ScalePlan, centre: Array, width: Array,
    seen: Sequence[float | None], clear: float,
) -> Coordinates:  # fmt: skip
    """Return coordinates for a narrower range of the response and narrower ranges of predictors.

    Predictors are treated as uniform with this centre and sd. Half the range of the response is at
    least the multiple of its scale that the noise of the start requires. A variable without a
    released scale keeps its declared range.
    """
    unit = coordinates.unit
    scale, shift, spread = np.array(unit.scale), np.array(unit.shift), 0.0
    if plan.response and (measured := seen[-1]) is not None:
        wide = max(rules.PUBLIC_END_SDS, rules.START_NOISE_OF_RANGE * rules.RESPONSE_UNIT * clear)
        half = width[-1] * min(wide * measured, 0.5)
        if unit.intercept or unit.one is not None:
            half *= most_root(design)
            scale[-1], shift[-1] = 1.0 / half, -centre[-1] / half
        else:  # nothing gives a centre back: about 0
            scale[-1] = max(scale[-1], 1.0 / (abs(centre[-1]) + half))
        spread = float(scale[-1] * width[-1] * measured) * most_root(design)
    box, ends = {}, {}
    for name, c, w, measured in zip(plan.predictors, centre, width, seen, strict=False):
        if measured is not None:
            sd, c = sd_of_box(measured, float(w)), float(c)
            box[name], ends[name] = (
                (c - k * sd, c + k * sd) for k in (math.sqrt(3.0), rules.PUBLIC_END_SDS)
            )
    if box:
        middles = {name: (low + high) / 2.0 for name, (low, high) in box.items()}
        coordinates = replace(narrowed(coordinates, design, box), ends=ends, centres=middles)
    return replace(coordinates, unit=replace(unit, scale=scale, shift=shift), spread=spread)


# -- Mean weight of the rows. Scoring counts every weight over it (``theory.md``, 3.3).


def weight_release(place: int, top: float, rows: Design) -> Release:
    """Return the release of a histogram of weights by half octaves of the declared range."""
    last = rules.WEIGHT_BINS - 1.0

    def half_octave(z: Rows) -> Rows:
        below = np.floor(-2.0 * np.log2(z[place] / top))
        return where(np.isfinite(below), clip(below, 0.0, last), last)

    return Release(rules.WEIGHT_STEP, Bins(1, rules.WEIGHT_BINS), half_octave, rows)


def weight_middles(top: float) -> Array:
    """Return the weights that the bins stand for: their geometric middles."""
    return np.asarray(top * 2.0 ** (-(np.arange(rules.WEIGHT_BINS) + 0.5) / 2.0))


def mean_weight(counts: Array, sd: float, top: float) -> float:
    """Return the mean weight by a noisy histogram, or ``top`` if no bin is clear of its noise."""
    clear = np.where(counts > rules.VISIBLE_SDS * sd, counts, 0.0)
    total = float(np.sum((clear * weight_middles(top))[:-1]))
    return total / float(clear.sum()) if total > 0.0 else top


@dataclass(frozen=True)
class WeightPlan:
    """Release of the mean weight before the start of a fit of rows."""

    place: int  # Row of the block that holds the weights
    top: float  # Largest declared weight
    mu: float  # mu of the whole scoring, this step included
    label: ClassVar[str] = rules.WEIGHT_STEP
    share: ClassVar[float] = rules.SMALL_SHARE

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the ledger. Shares are of the whole scoring."""
        mu = self.mu * math.sqrt(rules.SMALL_SHARE)
        return (Step(rules.WEIGHT_STEP, Gaussian(mu), share=rules.SMALL_SHARE),)


def weighed(
    plan: WeightPlan, coordinates: Coordinates, rows: Design
) -> Generator[Release, Any, Coordinates]:
    """Release the histogram of weights, and return coordinates with their mean.

    Privacy
    -------
    Unit: one row. One Gaussian release of counts, a row in one bin.
    """
    noisy = yield weight_release(plan.place, plan.top, rows)
    mean = mean_weight(noisy.values[0], float(noisy.sd[0, 0]), plan.top)
    return replace(coordinates, mean_weight=mean)
