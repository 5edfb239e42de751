"""Common parts of weighted statistics: clipped weights, design effects.

Each coordinate of the pass is one ``z`` (the part of a row in the error of a share, a mean, a rank)
times a public or released factor, so that rows need hardly be clipped. What comes back is a *design
effect*: the released product over what rows drawn one by one would have, shrunk to the average of
all coordinates as far as its noise is larger than effects differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.release import answered
from dpmodels.core.tables import Table, Tables
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.notes import Note
from dpmodels.records import Request
from dpmodels.scoring.cluster_plan import ClusterPlan
from dpmodels.scoring.clusters import ClusterRelease
from dpmodels.scoring.rules import MIN_DESIGN_EFFECT, VISIBLE_SDS, WEIGHT_BINS
from dpmodels.scoring.scales import weight_middles, weight_release
from dpmodels.sums.ask import Ask

#: sd of design effects about their average, over it: a guess, by which single ones are shrunk.
DIFFER = 0.5
#: The same for shares (1) and means of numbers (10).
KINDS = 2.0
#: Noise of the average design effect over it, above which none is given.
TOO_NOISY = 0.7
#: A weight in units of the root mean square one that still fits where rows are not clipped.
_HEAVY_WEIGHT = 1.5


def scale_for(variance: Array, reach: Array, square: float, clip: Array) -> Array:
    """Return factors that give coordinates variance 1 a row, less where rows would be clipped.

    All (d,): ``variance`` of z among rows, for weights of mean square 1; ``reach``, how long the z
    of a row of weight 1 may be; ``clip``, the length that coordinates may have. ``square`` is the
    mean of u^2.
    """
    heavy = min(1.0 / math.sqrt(max(square, 1e-12)), _HEAVY_WEIGHT)
    sd = np.maximum(np.sqrt(np.maximum(variance, 0.0)), reach * heavy / clip)
    return np.asarray(1.0 / (sd * math.sqrt(max(square, 1e-12))))


@dataclass(frozen=True, eq=False)
class DesignErrors:
    """Variances by cluster of linear functions of coordinates. Released numbers only."""

    found: ClusterRelease
    scale: Array  # (d,): z times this is a coordinate
    # (d,): variance per row of each coordinate if rows are drawn one by one, 0 if it does not count
    # in the average.
    typical: Array
    n: int
    level: float
    kinds: Array | None = None  # (d,) what each coordinate is of: shares, or a number; None: one
    least: float = MIN_DESIGN_EFFECT  # Design effects below it are not believed

    @property
    def average(self) -> tuple[float, float]:
        """Design effect of all coordinates together, and the sd of its noise."""
        return self._average(self.typical > 0.0)

    def _average(self, places: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """Return the design effect of some coordinates together, and the sd of its noise."""
        total = max(float(self.typical[places].sum()), 1e-12)
        J = self.found.correction * np.diag(self.found.products[0])[places]
        sd = self.found.noise_sd * math.sqrt(len(J)) / total
        return max(float(J.sum()) / total, self.least), sd

    def _of_kinds(self, L: Array) -> tuple[Array, Array]:
        """Return the average that each function is shrunk to, and the sd of its noise.

        It is that of the coordinates of its kind, themselves shrunk to the average of all.
        """
        mean, sd = self.average
        means, sds = np.full(len(L), mean), np.full(len(L), sd)
        if self.kinds is None or not len(L):
            return means, sds
        of = self.kinds[np.argmax(np.abs(L), axis=1)]
        for kind in np.unique(of):
            average, own_sd = self._average((self.kinds == kind) & (self.typical > 0.0))
            weight = _sure(mean, own_sd, KINDS)
            means[of == kind] = weight * average + (1.0 - weight) * mean
            sds[of == kind] = math.hypot(weight * own_sd, (1.0 - weight) * sd)
        return means, sds

    @property
    def determined(self) -> bool:
        """Whether there are errors by design."""
        mean, sd = self.average
        return not self.found.few and sd <= TOO_NOISY * mean

    def effects(self, L: Array, rows: Array) -> tuple[Array, Array]:
        """Return (design effects, factors of a normal quantile that allow for degrees of freedom).

        L (k, d) are functions of z; ``rows`` (k,) the sums over rows of their squares, as if rows
        were drawn one by one. A design effect below ``least`` is not believed. Degrees of freedom
        are those of the design less what the noise takes (Satterthwaite).
        """
        if not self.determined:
            return np.full(len(L), math.nan), np.ones(len(L))
        mean, sd_mean = self._of_kinds(L)
        J = self.found.correction * self.found.products[0]
        v = L / self.scale
        each = np.maximum(rows / self.n, 1e-100)  # of an empty cell; its square is a float
        unshrunk = np.einsum("ki,ij,kj->k", v, J, v) / each
        sd = self.found.noise_sd * np.einsum("ki,ki->k", v, v) / each
        weight = _sure(mean, sd)
        effect = np.maximum(weight * unshrunk + (1.0 - weight) * mean, self.least)
        error = np.hypot(weight * sd, (1.0 - weight) * sd_mean) / effect
        free = 1.0 / (1.0 / self.found.df + error**2 / 2.0)
        tail = (1.0 + self.level) / 2.0  # the quantile of t over that of a normal
        t = special.stdtrit(np.clip(free, 1.0, 1e9), tail)
        return effect, np.asarray(t / special.ndtri(tail))


def _sure(mean: Any, sd: Any, differ: float = DIFFER) -> Any:
    """Return the weight of a noisy design effect in a mean with the average design effect."""
    return (differ * mean) ** 2 / ((differ * mean) ** 2 + sd**2)


def design_note(plan: ClusterPlan, psus: ClusterRelease) -> Note:
    """Return a note on design-based errors, and on whom the guarantee protects."""
    survey = plan.frame.survey
    if survey.psu is None:
        units = "rows as PSUs"
    else:
        which = "estimated, with noise" if plan.count else "declared"
        units = f"{psus.clusters:.0f} PSUs ({which})"
    free = "" if math.isinf(psus.df) else f", {psus.df:.0f} degrees of freedom"
    detail = f"Design: {units}{free}; {plan.centring}"
    return messages.ROW_NOT_CLUSTER(who="row", psu=survey.psu or "PSU", detail=detail)


# -- Sampling weights of tables and means: where they are trimmed, and what trimming moves.
#
# A weight w counts as ``u = min(w, T)/T``, in [0, 1]: a row adds u of its mass where it would add
# all of it, and the rest nowhere that is shown. T is a public multiple of the mean weight, which a
# histogram of ``w/W`` tells (W the declared largest weight), or ``population=`` does.


#: Share of mu^2 of the histogram of weights.
HISTOGRAM_SHARE = 0.05
#: T over the mean weight: least, and factor of (mu n/K)^.45.
_LEAST_CLIP, _CLIP_GROWS = 4.0, 0.36


@dataclass(frozen=True)
class Trim:
    """Clip of the weights."""

    top: float  # T: u = min(w, T)/T
    mean: float  # Mean weight, released or public
    lost: float  # Released part of all weight that is beyond T
    square: float = 1.0  # Mean of u^2, by the released histogram
    used: float = 1.0  # Units that count: all, or the released number of those in ``subset=``

    @property
    def part(self) -> float:
        """Mean part of a row that counts."""
        return min(self.mean / self.top, 1.0)

    @property
    def of_tails(self) -> float:
        """Part of a value beyond a window that counts: the mean u of rows drawn by u."""
        return min(max(self.square / self.part, self.part), 1.0)


def trim_of(
    ask: Ask, design: Design, strength: float, population: float | None, n: int,
    *, people: bool = False,
) -> Trim:  # fmt: skip
    """Release the histogram of weights; return where they are cut. Without weights all count 1.

    ``strength``: ``mu n/K``, K the cells of the largest table; ``population``: public sum of all
    weights, or None.
    """
    place = design.auxiliary_place("weights")
    if place is None:
        return Trim(1.0, 1.0, 0.0, used=float(n))
    interval = design.z[place].interval
    assert interval is not None
    top = float(interval[1])
    release = weight_release(place, top, design)
    if people:  # a person adds the mean of its rows
        table = Table(WEIGHT_BINS, ((0, 1),))
        release = replace(release, into=Tables([WEIGHT_BINS], [table], (1.0,)))
    noisy = answered(release, ask)
    # of a table, where rows outside ``subset=`` have no weight: the rest of the population
    part = design.cells and design.subset is not None
    return trimmed(
        noisy.values.ravel(), float(noisy.sd.flat[0]), top, strength, None if part else population,
        n, part=part,
    )  # fmt: skip


def trimmed(
    counts: Array, sd: float, most: float, strength: float, population: float | None, n: int,
    *, part: bool = False,
) -> Trim:  # fmt: skip
    """Return the clip of weights, by the released histogram of ``w/most``. Sees no row.

    ``part``: units without a weight are not of the population, and the mean is of the others.
    """
    middle = weight_middles(most)
    seen = np.where(counts > VISIBLE_SDS * sd, counts, 0.0)
    total = float(np.sum((seen * middle)[:-1]))
    used = max(float(seen[:-1].sum()), 1.0) if part else float(n)
    mean = total / used if population is None else population / n
    mean = min(max(mean, middle[-2]), most)
    top = min(most, mean * max(_LEAST_CLIP, _CLIP_GROWS * strength**0.45))
    largest = np.flatnonzero(seen[:-1])
    if len(largest):  # no larger than half an octave beyond the last weights that are seen
        top = min(top, max(most * 2.0 ** (-(float(largest[0]) - 1.0) / 2.0), _LEAST_CLIP * mean))
    beyond = float(np.sum((seen * np.maximum(middle - top, 0.0))[:-1]))
    square = float(np.sum((seen * np.minimum(middle / top, 1.0) ** 2)[:-1])) / n
    lost = min(beyond / max(total, 1e-300), 0.5)
    return Trim(top, mean, lost, min(max(square, 1e-6), 1.0), used)


def row_mass(block: Any, place: int | None, top: float, *, squared: bool = False) -> Any:
    """Return u (or ``u^2``) of rows from the weights in a row of the block, or 1 if there are none.

    0 where the weight is missing, negative or not finite. Rows are an array or opaque.
    """
    if place is None:
        return np.ones_like(block[0])
    weight = block[place]
    with np.errstate(all="ignore"):
        u = np.clip(weight / top, 0.0, 1.0)
        u = u * u if squared else u
    return np.where(np.isfinite(weight) & (weight > 0.0), u, 0.0)


# -- Weights of people: a person adds the mean of what its rows would add (``units.md``, 14).


def refuse_kept_rows(request: Request) -> None:
    """Refuse weights together with ``max_rows=``, whose rows have no errors by weights."""
    if request.copies > 1 or (request.unit is not None and not request.by_person):
        raise RequestError(
            "weights= cannot be combined with max_rows=. Leave max_rows= out: each person then "
            "counts once, by the mean weight of their rows"
        )


def unweighted(request: Request, *_: object) -> str:
    """Return the reason why a call has no weighted answer, or an empty string if it has one."""
    weighted = request.weights is not None or request.sample is not None
    return "" if weighted else "no weights and no design"
