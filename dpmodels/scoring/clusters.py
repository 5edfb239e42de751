"""Errors by cluster: one more pass at the final fit, whose scores are summed by cluster.

``J = sum_k a_k a_k'``, a_k the sum of the clipped scores of cluster k, scaled into a ball of
radius B. A replaced row leaves one cluster and enters another (``theory.md``, 6): the
prover knows by how much J moves. Radii are rules (:mod:`dpmodels.scoring.cluster_plan`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.parallel import Parallel
from dpmodels.core.rows import Rows
from dpmodels.core.sets import Formula
from dpmodels.proof.sets import STEPS
from dpmodels.proof.statistics import Clusters
from dpmodels.scoring import rules
from dpmodels.scoring.cluster_plan import ClusterPlan, Radii, clip_of, statistic, totals_statistic
from dpmodels.scoring.models import floored, roots, shrunk
from dpmodels.scoring.passes import Centre, row_of
from dpmodels.scoring.unit_passes import Local
from dpmodels.sources.people import BlockOfPeople
from dpmodels.sources.summed import summed
from dpmodels.sums.ask import Added, Ask, Query
from dpmodels.sums.products import (
    SHRINK,
    ExactSum,
    cross_product,
    end_along,
    mapped,
    squares,
    towards_zero,
)
from dpmodels.sums.rowmap import lengths
from dpmodels.survey import LEAST, Frame

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.sources.rows import Coins


Integers = npt.NDArray[np.object_]
Places = tuple[int | None, int | None]


# -- The pass


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a scoring pass, at the final fit: their mean square is their number.

    What adds up scores of other models has the same three members.
    """

    into: Parallel
    formula: Formula  # (w, psi, omega) of one row
    back: Array  # (r, r): rotation Q for which ``Q J Q'`` is J

    @classmethod
    def of(cls, centre: Centre, into: Parallel) -> Scored:
        """Return the scores of rows at a released fit."""
        return cls(into, *row_of(centre, into.step, into.plan.clip_of_weights))

    @property
    def size(self) -> int:
        """Dimension of a score."""
        return self.into.r

    def contribution(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (r, m)."""
        z, psi, _, length, _ = self.into.vectors(*self.formula(Rows(rows)))
        psi = psi * factor
        size = np.minimum(np.abs(psi) * (length / self.into.step), clip)
        return end_along(z[: self.size], length, clip, size, psi)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums of clipped scores by cluster. **Private**: nothing of it leaves without noise."""

    labels: Array  # (k,): labels of the clusters that have a row, ascending
    sums: npt.NDArray[np.int64]  # (chains, r, k) int64 array: in steps of ``C / 2^20``
    # tuple of (r, r) object arrays: ``sum s s'`` over the rows that are in no cluster, in squared
    # steps, one a chain.
    alone: tuple[Integers, ...]
    singles: int = 0  # How many rows these are

    def __add__(self, other: ClusterSums) -> ClusterSums:
        labels, sums = together([self.labels, other.labels], [self.sums, other.sums])
        alone = tuple(a + b for a, b in zip(self.alone, other.alone, strict=True))
        return ClusterSums(labels, sums, alone, self.singles + other.singles)

    def __repr__(self) -> str:
        return "<sums by cluster, confidential>"

    def count(self) -> Added:
        """Return the number of clusters."""
        return Added(np.array([len(self.labels)], dtype=object))

    def products(self, chain: int, radii: Radii) -> Added:
        """Return ``sum a a'`` over pulled sums, and its step, the radius B being 1.

        A sum is brought to length B at most, then towards zero to steps of ``2^s C/2^20``, the
        least power of two with ``2^s >= B/C``: entries are at most 2^20, so that products are
        exact (``proof/theory.md``, 1.5).
        """
        coarse = coarse_of(radii)
        a = pulled(self.sums[chain], radii, coarse)
        total = ExactSum(len(a), len(a))
        add_products(total, a)
        integers = total.integers() * (1 << 2 * coarse) + self.alone[chain]
        return Added(integers, (radii.clip / radii.bound / STEPS) ** 2)

    def totals(self, chain: int, radii: Radii, frame: Frame) -> Added:
        """Return the totals of pulled sums by stratum, flat, the radius B being 1.

        Integers of at most 2^20, as in :meth:`products`: sums of 2^33 of them are exact.
        """
        coarse = coarse_of(radii)
        a = pulled(self.sums[chain], radii, coarse)
        where = frame.strata_of(self.labels)
        out = np.array([np.bincount(where, weights=v, minlength=frame.strata) for v in a])
        integers = out.T.astype(np.int64).astype(object) * (1 << coarse)
        return Added(integers.ravel(), radii.clip / radii.bound / STEPS)


def add_products(total: ExactSum, z: Array) -> None:
    """Add ``z z'`` of integers of at most 2^20, in blocks of columns whose sums are exact."""
    for first in range(0, z.shape[1], rules.EXACT_COLUMNS):
        total.add(cross_product(z[:, first : first + rules.EXACT_COLUMNS]))


def coarse_of(radii: Radii) -> int:
    """Return s, the least power of two with ``2^s >= B/C``: pulled sums are in steps of it."""
    return max(math.ceil(math.log2(radii.bound / radii.clip)), 0)


def pulled(sums: npt.NDArray[np.int64], radii: Radii, coarse: int) -> Array:
    """Return sums (r, k) no longer than B, towards zero, in steps of ``2^coarse C/2^20``."""
    S = sums.astype(np.float64)
    length = np.sqrt(squares(S))
    most = radii.bound / radii.clip * STEPS * SHRINK
    factor = np.ones_like(length)
    np.divide(most, length, out=factor, where=length > most)
    S *= factor * 0.5**coarse
    return towards_zero(S)


def coded(labels: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Return (labels that occur, which of them each is): a hash table, half the time of a sort."""
    import pandas as pd

    codes, distinct = pd.factorize(labels)
    return np.asarray(distinct, dtype=np.float64), codes


def together(
    labels: Sequence[Array], sums: Sequence[npt.NDArray[np.int64]]
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return sums of equal labels added up, the labels ascending."""
    every = np.concatenate(labels)
    distinct, where = np.unique(every, return_inverse=True)
    chains, r = sums[0].shape[:2]
    out = np.zeros((chains, r, len(distinct)), dtype=np.int64)
    at = 0
    for part in sums:
        out[:, :, where[at : at + part.shape[2]]] += part  # labels of one part are all different
        at += part.shape[2]
    return distinct, out


@dataclass(frozen=True, eq=False)
class ClusterPasses:
    """Pass of all models over rows with labels: the pass of a query, and the job of its tasks."""

    passes: tuple[Any, ...]  # Pass that scores rows, per chain (:class:`Scored`)
    design: Design  # With labels
    frame: Frame
    clip: float  # C
    slack: float = 0.0  # Part of C that each part of a person needs for rounding
    of_people: ClassVar[bool] = False

    def total(self, rows: Any, reading: dict[str, Any]) -> ClusterSums:
        """Return the sums by cluster. Confidential."""
        sums: ClusterSums = summed(rows, self.design, self, **reading)
        return sums

    def split(self) -> tuple[list[int], Places]:
        """Return (rows of a block that the scores read, those of cluster and stratum)."""
        cluster, stratum = (self.design.auxiliary_place(kind) for kind in ("cluster", "stratum"))
        score_rows = [j for j in range(self.design.q) if j not in (cluster, stratum)]
        return score_rows, (cluster, stratum)

    def placed(self, block: Array, places: Places) -> tuple[Array, Array]:
        """Return (cluster of each row, factor of its score)."""
        of, stratum = (None if p is None else block[p] for p in places)
        return self.frame.placed(np.zeros(block.shape[1]) if of is None else of, stratum)

    def parts(self, block: Any, score_rows: list[int], places: Places) -> tuple[Array, list[Array]]:
        """Return (cluster of each part, parts in each chain as integers (r, m)); a row is one part.

        ``score_rows`` and ``places`` are what :meth:`split` returns.
        """
        label, factor = self.placed(block, places)
        rows = block[score_rows]
        return label, [scorer.contribution(rows, factor, self.clip) for scorer in self.passes]

    def over(self, blocks: Iterable[Any], _: Coins | None = None) -> ClusterSums:
        """Return the sums over blocks. Confidential."""
        score_rows, places = self.split()
        r, k = self.passes[0].size, len(self.passes)
        totals, singles = [ExactSum(r, r) for _ in self.passes], 0
        labels, sums = [np.empty(0)], [np.zeros((k, r, 0), dtype=np.int64)]
        with np.errstate(all="ignore"):
            for block in blocks:
                label, parts = self.parts(block, score_rows, places)
                alone = label == 0.0
                if alone.any():
                    singles += int(alone.sum())
                    for to, z in zip(totals, parts, strict=True):
                        add_products(to, z[:, alone])
                distinct, at = coded(label)
                total = np.empty((k, r, len(distinct)), dtype=np.int64)
                for i, z in enumerate(parts):
                    for j in range(r):  # integers of at most 2^20: exact
                        total[i, j] = np.bincount(at, weights=z[j], minlength=len(distinct))
                labelled = distinct > 0.0
                labels.append(distinct[labelled])
                sums.append(total[:, :, labelled])
                if sum(map(len, labels[1:])) > rules.WAITING_LABELS + len(labels[0]):
                    one_of, all_of = together(labels, sums)
                    labels, sums = [one_of], [all_of]
        one_of, all_of = together(labels, sums)
        return ClusterSums(one_of, all_of, tuple(w.integers() for w in totals), singles)

    def accepts(self, returned: Any) -> bool:
        """Return whether a task returned sums by cluster of these shapes."""
        k, r = len(self.passes), self.passes[0].size
        return (
            type(returned) is ClusterSums and type(returned.singles) is int
            and type(returned.labels) is np.ndarray and returned.labels.dtype == np.float64
            and type(returned.sums) is np.ndarray and returned.sums.dtype == np.int64
            and returned.sums.shape == (k, r, len(returned.labels)) and len(returned.alone) == k
            and all(type(a) is np.ndarray and a.shape == (r, r) for a in returned.alone)
        )  # fmt: skip


# -- Release and what is made of it


@dataclass(frozen=True, eq=False)
class ClusterRelease:
    """Release of a pass by cluster."""

    # tuple of (r, r) arrays: J per row, of each chain, in the coordinates of its last pass.
    products: tuple[Array, ...]
    radii: Radii
    clusters: float  # Declared, or released
    df: float
    correction: float  # Factor on J: ``G/(G - 1)``; 1 in pairs
    few: bool = False

    @property
    def noise_sd(self) -> float:
        """Noise sd of an entry of the corrected J in svec coordinates, per row."""
        return self.correction * self.radii.noise

    def noise(self, chain: int) -> float:
        """Return the noise of J over its size, by released numbers."""
        J = self.products[chain]
        size = float(np.trace(J)) / len(J)
        return self.radii.noise / size if size > 0.0 else math.inf

    def determined(self, chain: int) -> bool:
        """Return whether J exceeds its noise. Otherwise errors are upper bounds."""
        return not self.few and self.noise(chain) <= rules.CLUSTER_NOISE_MAX

    def meat(self, chain: int, of_rows: Array) -> Array:
        """Return J per row, shrunk by the spread that noise explains, and at least that of rows.

        If it does not exceed its noise, the design effects sum to at most the released value plus
        two noise sds, and each but one is at least ``MIN_DESIGN_EFFECT``: the one may be any. Each
        design effect is raised to at least .7 of the released meat of rows.
        """
        J = self.correction * self.products[chain]
        root, back = roots(of_rows)
        if not self.determined(chain):
            sd = self.noise_sd * float(np.linalg.norm(back @ back))
            trace = float(np.trace(back @ J @ back)) + rules.VISIBLE_SDS * sd
            return of_rows * max(trace - rules.MIN_DESIGN_EFFECT * (len(J) - 1.0), 1.0)
        J = shrunk(J, self.noise_sd, len(J))
        return np.asarray(root @ floored(back @ J @ back, rules.MIN_DESIGN_EFFECT) @ root)


def release_clusters(
    plan: ClusterPlan, passes: tuple[Any, ...], design: Design, ask: Ask
) -> ClusterRelease:
    """Release the number of clusters, where it is not declared, and J of every chain.

    ``passes`` score rows at the final fit of each; the design has its ranges put in.

    Privacy
    -------
    The steps of the plan, each a query of the prover, over one reading of the rows.
    """
    kind = PeopleByCluster if plan.people else ClusterPasses
    frame, r = plan.frame, passes[0].size
    clip = clip_of(r, plan.n, plan.each)
    slack = statistic(r, plan.radii(r)).slack * plan.radii(r).bound if plan.people else 0.0
    over = kind(passes, plan.sample.read(design), frame, clip, slack)
    total, few = frame.survey.total, False
    if plan.count:
        count = ask("clusters", Query(Clusters(), over, ClusterSums.count))
        few = float(count.values[0]) < rules.MIN_RELEASED_CLUSTERS + rules.VISIBLE_SDS * float(
            count.sd[0]
        )
        total = max(float(count.values[0]), float(LEAST))
    radii = plan.radii(r, total)
    out = []
    for i, (label, scorer) in enumerate(zip(plan.chains, passes, strict=True)):
        products = functools.partial(ClusterSums.products, chain=i, radii=radii)
        of_sums = statistic(r, radii, people=plan.people)
        query = Query(of_sums, over, products, unit=radii.bound**2)
        J = ask(f"cluster scores{label}", query).values
        if plan.totals:
            totals = functools.partial(ClusterSums.totals, chain=i, radii=radii, frame=frame)
            of_totals = totals_statistic(r, frame.strata, radii, people=plan.people)
            by_stratum = ask(f"stratum totals{label}", Query(of_totals, over, totals, radii.bound))
            T, sd = by_stratum.values.reshape(frame.strata, r), float(by_stratum.sd[0])
            J = J - of_means(T, sd, frame.units)
        J = J / plan.n
        out.append(J if scorer.back is None else scorer.back @ J @ scorer.back.T)
    if total is None:  # rows are their own units
        return ClusterRelease(tuple(out), radii, float(plan.n), math.inf, 1.0)
    df = frame.df if frame.df is not None else total - frame.strata
    factor = frame.correction if frame.totals else 1.0 if frame.pairs else total / (total - 1.0)
    return ClusterRelease(tuple(out), radii, total, max(df, 1.0), factor, few)


def of_means(T: Array, sd: float, units: Sequence[float]) -> Array:
    """Return ``sum_h (T_h T_h' - sd^2 I)/n_h`` over strata of two units or more.

    It is computed from released totals T, less the part of their noise. The mean of a stratum of
    one unit is not removed.
    """
    many = np.asarray(units)
    several = many > 1.0
    means = T[several] / np.sqrt(many[several])[:, None]
    noise = sd**2 * float(np.sum(1.0 / many[several]))
    return np.asarray(means.T @ means - noise * np.eye(T.shape[1]))


# -- Errors by cluster where people are the units, each with rows in any number of clusters.
#
# A person adds one part into every cluster it has rows in: the sum of its scores there. The lengths
# of its parts, each with an allowance for rounding, are scaled down to C *together*: then it moves
# ``J = sum_k a_k a_k'`` by 2BC at most, 4BC where it is replaced (``proof/theory.md``, 1.9). The
# bound of a row, 2 g(B, C), would not do. A person inside one cluster is treated as a row is,
# except for the bound.


Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class PersonScores:
    """Scores of rows of people, turned so that those of people have length sqrt r on average."""

    local: Local  # The expansion at the final fit: one score a row
    root: Array  # (r, r): released
    back: None = None

    @property
    def size(self) -> int:
        """Rank of the design."""
        return len(self.root)

    def contribution(self, rows: Array, factor: Array, clip: float) -> Array:
        """Raise an error: a proof for rows does not cover people."""
        raise NotImplementedError

    def of_rows(self, block: BlockOfPeople, factor: Array) -> Array:
        """Return the scores of rows (r, m) times their factors, in steps of ``GRAIN``."""
        score = mapped(self.root, self.local.expand(block).score)
        return np.rint(score * (factor / rules.GRAIN))


def parts_of(z: Array, label: Array, counts: Index) -> tuple[Array, Array, Index]:
    """Return (sums by person and cluster (r, k), cluster of each, how many each person has).

    z (r, m) are integers: sums below 2^53 are exact in any order of a person's rows, of which there
    are ``counts``, one after the other. Label 0: in no cluster; such rows are one part.
    """
    person = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((label, person))
    whose, where = person[order], label[order]
    first = np.flatnonzero(np.r_[True, (whose[1:] != whose[:-1]) | (where[1:] != where[:-1])])
    many = np.bincount(whose[first], minlength=len(counts)).astype(np.intp)
    return np.add.reduceat(z[:, order], first, axis=1), where[first], many


def within(parts: Array, many: Index, clip: float, slack: float) -> Array:
    """Return parts as lattice integers, in steps of C/2^20, with lengths that sum to C at most.

    A *part* is the sum of a person's scores in one cluster. ``parts`` (r, k) are in steps of
    ``GRAIN``, ``many`` of each person one after the other. Each person has one factor, at most 1,
    and products are rounded towards zero: a function of the person's own parts. ``slack`` is the
    largest amount that rounding of a cluster's scaled sum adds to the distance of two sums. It is
    subtracted from C for each part. A person with too many parts adds nothing.
    """
    size = lengths(parts) * rules.GRAIN
    starts = np.cumsum(many) - many
    length = np.add.reduceat(size, starts)
    room = np.maximum(clip - many * slack, 0.0) * rules.ROUNDED_DOWN
    factor = np.minimum(np.divide(room, length, out=np.ones_like(length), where=length > 0.0), 1.0)
    factor = np.where(
        np.isfinite(length) & (length < rules.MAX_SCORE_GRAINS * rules.GRAIN), factor, 0.0
    )
    share = np.repeat(factor * (rules.GRAIN * STEPS / clip * SHRINK), many)
    coordinates = np.where(np.isfinite(parts), parts, 0.0) * share
    return np.asarray(towards_zero(coordinates))


@dataclass(frozen=True, eq=False)
class PeopleByCluster(ClusterPasses):
    """Pass of all models over people; ``slack``, of each part, is ``2^-17 sqrt r B``."""

    of_people: ClassVar[bool] = True

    def parts(
        self, block: BlockOfPeople, score_rows: list[int], places: Places
    ) -> tuple[Array, list[Array]]:
        """Return (cluster of each part, parts in each chain); a person has one part per cluster."""
        label, factor = self.placed(block.rows, places)
        people = BlockOfPeople(block.rows[score_rows], block.starts, block.counts)
        out = []
        for scorer in self.passes:
            assert isinstance(scorer, PersonScores)
            parts, where, many = parts_of(scorer.of_rows(people, factor), label, block.counts)
            out.append(within(parts, many, self.clip, self.slack))
        return where, out
