"""Errors by cluster: one more pass at the final fit, whose scores are added up by cluster.

``J = sum_k a_k a_k'``, a_k the sum of the clipped scores of cluster k, pulled into a ball of
radius B. A row that is replaced leaves one cluster and enters another (``theory.md``, 6): the
prover knows by how much J moves. Rules are public functions of (mu, n, p) and of the number of
clusters, which is declared or bought.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Added, Query
from dpmodels.exact.end import SHRINK, end_along, towards_zero
from dpmodels.exact.products import cross_product, squares
from dpmodels.exact.prove import noise_of
from dpmodels.exact.rowmap import STEPS
from dpmodels.exact.sets import Ball
from dpmodels.exact.statistics import ClusterGram, Clusters
from dpmodels.exact.words import Words
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.scoring.state import floored, roots, shrunk
from dpmodels.scoring.sums import ScorePass
from dpmodels.sources.summed import summed
from dpmodels.survey import LEAST

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.sources.windows import Coins
    from dpmodels.survey import Frame

__all__ = [
    "SHARE", "ClusterPasses", "ClusterPlan", "ClusterRelease", "ClusterSums", "SampleDesign",
    "Scored", "Scorer",
    "radii", "release_clusters",
]  # fmt: skip

Integers = npt.NDArray[np.object_]

#: Shares of mu^2: the products of sums; the number of clusters, where it is bought.
SHARE, COUNT_SHARE = 0.10, 0.01
#: C of a row's score over sqrt p: least, and factor of (mu n)^.45, as of any clip of scores.
CLIP, GROWS = 2.5, 0.12
#: Noise of J over its guessed size that the upper radius brings.
NOISE = 0.25
#: Noise of J over its size as guessed, beyond which a plan warns, and as released, beyond which no
#: errors by cluster are given; as guessed, up to which units are compared in pairs.
LOUD, TOO_LOUD, QUIET = 0.5, 1.0, 0.35
#: A design effect below this is not believed: of the released meat of rows.
FLOOR = 0.7
#: A bought number of clusters below LEAST_BOUGHT and so many of its errors is refused.
LEAST_BOUGHT, SEEN = 60, 2.0
#: Labels that wait before they are put together.
_WAITING = 1 << 18


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """The sample of a call.

    Attributes
    ----------
    frame : Frame
        How labels become clusters.
    design : Design
        That of the call, with the labels of rows beside them.
    """

    frame: Frame
    design: Design

    @property
    def needed(self) -> bool:
        """Whether variances are not those of unrelated rows: clusters, or a finite population."""
        return self.frame.survey.psu is not None or self.frame.survey.fpc is not None

    def read(self, design: Design) -> Design:
        """Return the design with labels that reads cells as ``design`` does: ranges put in."""
        known = self.design.without_bounds() if design.buy_all else self.design
        return known.with_bounds({name: (lo, hi) for name, lo, hi in design.bought})


@dataclass(frozen=True, eq=False)
class ClusterPlan:
    """What the pass by cluster releases.

    Attributes
    ----------
    sample : SampleDesign
    mu, count : float
        Of J, all chains together; of the number of clusters, 0: it is declared.
    n : int
        Rows, public or the guess.
    relation : str
    chains : tuple of str
        What is added to the name of the step, of each.
    """

    sample: SampleDesign
    mu: float
    count: float
    n: int
    relation: str
    chains: tuple[str, ...]

    @classmethod
    def of(
        cls, sample: SampleDesign, mu: float, n: int, relation: str, chains: Sequence[str]
    ) -> ClusterPlan:
        """Plan the pass from the mu of the whole fit."""
        declared = sample.frame.survey.total is not None or sample.frame.survey.psu is None
        total = sample.frame.survey.total
        if total is not None and total < LEAST:
            raise RequestError(
                f"{total:g} clusters determine no error by cluster: at least {LEAST} are needed. "
                "Leave the clusters out (errors are then those of unrelated rows, and too small)"
            )
        return cls(
            sample, mu * math.sqrt(SHARE), 0.0 if declared else mu * math.sqrt(COUNT_SHARE),
            n, relation, tuple(chains),
        )  # fmt: skip

    @property
    def share(self) -> float:
        """Part of mu^2."""
        return SHARE + (COUNT_SHARE if self.count else 0.0)

    @property
    def steps(self) -> tuple[LedgerStep, ...]:
        """Entries of the ledger, with their shares of mu^2."""
        out = []
        if self.count:
            out.append(LedgerStep("clusters", Gaussian(self.count), share=COUNT_SHARE))
        k = len(self.chains)
        for label in self.chains:
            mu = self.mu / math.sqrt(k)
            out.append(LedgerStep(f"cluster scores{label}", Gaussian(mu), share=SHARE / k))
        return tuple(out)

    def printed(self, p: int) -> dict[str, float]:
        """Return public numbers of the plan."""
        frame = self.frame(p)
        if frame.survey.psu is not None and frame.survey.total is None:
            return {}
        own = self.radii(p)
        out = {"bound of a cluster's sum": own.bound, "noise of errors by cluster": own.ratio}
        return {**out, **({} if frame.df is None else {"degrees of freedom": frame.df})}

    def advice(self, p: int) -> tuple[str, ...]:
        """Warn where the noise will be too large for errors by cluster."""
        ratio = self.printed(p).get("noise of errors by cluster", 0.0)
        if ratio <= LOUD:
            return ()
        return (
            f"the noise of the errors by cluster will be about {ratio:.2g} of their size (above "
            f"{LOUD:g}): they may not be determined at this budget. Fewer coefficients or a larger "
            f"eps help: {self._enough(p)}. Without the clusters errors would be too small",
        )

    def _enough(self, p: int) -> str:
        """Say how much more eps would bring the noise down to where it does not rule. Public."""
        for more in (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0):
            if replace(self, mu=self.mu * more).radii(p).ratio <= LOUD:
                return f"about {more:g} times as much would do"
        return "no budget that is usual would do: there are too few clusters"

    @property
    def each(self) -> float:
        """Mu of one chain's J."""
        return self.mu / math.sqrt(len(self.chains))

    def frame(self, p: int) -> Frame:
        """Return how clusters are made: in pairs only where their noise stays low, by rule."""
        own = self.sample.frame
        if own.pairs and self._radii(own, p, None).ratio > QUIET:
            return replace(own, labelled=False)
        return own

    def radii(self, p: int, clusters: float | None = None) -> Radii:
        """Return the radii for this many clusters; None: as declared."""
        return self._radii(self.frame(p), p, clusters)

    def _radii(self, frame: Frame, p: int, clusters: float | None) -> Radii:
        survey, pairs = frame.survey, bool(frame.pairs)
        total = survey.total if clusters is None else clusters
        if survey.psu is None or total is None:  # rows are their own clusters
            total = float(self.n)
        icc = survey.icc
        return radii(p, self.n, total, self.each, self.relation, icc=icc, pairs=pairs)


@dataclass(frozen=True)
class Radii:
    """Radii of a pass by cluster, and the noise they bring.

    Attributes
    ----------
    clip, bound : float
        C of a row's score; B of a cluster's sum.
    noise : float
        sd of the entries of J in svec coordinates, per row.
    guess : float
        Guessed eigenvalue of J per row (1: rows do not go together).
    """

    clip: float
    bound: float
    noise: float
    guess: float

    @property
    def ratio(self) -> float:
        """Noise of J over its guessed size: a public forecast."""
        return self.noise / self.guess


def statistic(p: int, radii: Radii) -> ClusterGram:
    """Return what the pass releases, the radius of a pulled sum being 1."""
    return ClusterGram(Ball(p), clip=radii.clip / radii.bound)


def clip_of(p: int, n: int, mu: float) -> float:
    """Return C, by public numbers; of the number of clusters it knows nothing."""
    return math.sqrt(p) * max(CLIP, GROWS * (mu * n) ** 0.45)


def radii(
    p: int, n: int, clusters: float, mu: float, relation: str, *, icc: float, pairs: bool = False
) -> Radii:
    """Return the radii, by public numbers.

    ``C = sqrt p max(2.5, .12 (mu n)^.45)``; ``B = .25 tau mu n/(4 C)`` (where the noise of J is a
    quarter of it), between twice the root mean square length of a sum as guessed and twice that
    of one whose rows are all alike; never below C. In pairs sums are of two units.
    """
    m = max(n / max(clusters, 1.0), 1.0)
    tau = 1.0 + icc * (m - 1.0)
    C = clip_of(p, n, mu)
    low, high = 2.0 * math.sqrt(p * m * tau), 2.0 * m * math.sqrt(p)
    B = max(low, min(NOISE * tau * mu * n / (4.0 * C), high), C)
    B *= math.sqrt(2.0) if pairs else 1.0
    B = max(B, C)
    made = Radii(C, B, 0.0, tau)
    sd = float(noise_of(statistic(p, made), Gaussian(mu), relation)[0]) * B * B
    return replace(made, noise=sd / n)


# -- The pass


class Scorer(Protocol):
    """What lays the scores of rows, scaled so that their mean square is their number."""

    @property
    def size(self) -> int:
        """Dimension of a score."""
        ...

    @property
    def back(self) -> Array | None:
        """Q, where scores come turned: ``Q J Q'`` is J; None: they do not."""
        ...

    def laid(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (r, m)."""
        ...


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a scoring pass, at the final fit."""

    one: ScorePass

    @property
    def size(self) -> int:
        """Rank of the design."""
        return len(self.one.centre.theta)

    @property
    def back(self) -> Array | None:
        """Of the pass."""
        return self.one.turn

    def laid(self, rows: Array, factor: Array, clip: float) -> Array:
        """Return the scores of rows times their factors, in the ball of C: integers (r, m)."""
        z, length, psi = self.one.scored(rows)
        psi = psi * factor
        size = np.minimum(np.abs(psi) * (length / self.one.step), clip)
        return end_along(z, length, clip, size, psi)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums of clipped scores by cluster. **Private**: nothing of it leaves without noise.

    Attributes
    ----------
    labels : (k,) array
        Of the clusters that have a row, ascending.
    sums : (chains, r, k) int64 array
        In steps of ``C / 2^20``.
    alone : tuple of (r, r) object arrays
        ``sum s s'`` over the rows that are in no cluster, in squared steps, one a chain.
    singles : int
        How many rows these are.
    """

    labels: Array
    sums: npt.NDArray[np.int64]
    alone: tuple[Integers, ...]
    singles: int = 0

    def __add__(self, other: ClusterSums) -> ClusterSums:
        labels, sums = _together([self.labels, other.labels], [self.sums, other.sums])
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
        exact (``exact/theory.md``, 1.5).
        """
        coarse = max(math.ceil(math.log2(radii.bound / radii.clip)), 0)
        a = pulled(self.sums[chain], radii, coarse)
        words = Words(len(a))
        for first in range(0, a.shape[1], 8192):
            words.add(cross_product(a[:, first : first + 8192]))
        whole = words.integers() * (1 << 2 * coarse) + self.alone[chain]
        return Added(whole, (radii.clip / radii.bound / STEPS) ** 2)


def pulled(sums: npt.NDArray[np.int64], radii: Radii, coarse: int) -> Array:
    """Return sums (r, k) no longer than B, towards zero, in steps of ``2^coarse C/2^20``."""
    S = sums.astype(np.float64)
    length = np.sqrt(squares(S))
    most = radii.bound / radii.clip * STEPS * SHRINK
    factor = np.ones_like(length)
    np.divide(most, length, out=factor, where=length > most)
    S *= factor * 0.5**coarse
    return towards_zero(S)


def _together(
    labels: Sequence[Array], sums: Sequence[npt.NDArray[np.int64]]
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return sums of equal labels added up, the labels ascending."""
    every = np.concatenate(labels)
    found, where = np.unique(every, return_inverse=True)
    chains, r = sums[0].shape[:2]
    out = np.zeros((chains, r, len(found)), dtype=np.int64)
    at = 0
    for one in sums:
        out[:, :, where[at : at + one.shape[2]]] += one  # labels of one part are all different
        at += one.shape[2]
    return found, out


@dataclass(frozen=True, eq=False)
class ClusterPasses:
    """The pass of all chains over rows with labels: a pass of a query, and a job of its tasks.

    Attributes
    ----------
    passes : tuple of Scorer
        Of each chain.
    design : Design
        With labels.
    frame : Frame
    clip : float
        C.
    """

    passes: tuple[Scorer, ...]
    design: Design
    frame: Frame
    clip: float

    def total(self, rows: Any, reading: dict[str, Any]) -> ClusterSums:
        """Return the sums by cluster. Confidential."""
        found: ClusterSums = summed(rows, self.design, self, **reading)
        return found

    def over(self, blocks: Iterable[Array], _: Coins | None = None) -> ClusterSums:
        """Return the sums over blocks. Confidential."""
        places = [self.design.place_aside(kind) for kind in ("cluster", "stratum")]
        gone = {p for p in places if p is not None}
        kept = [j for j in range(self.design.q) if j not in gone]
        r, k = self.passes[0].size, len(self.passes)
        words, singles = [Words(r) for _ in self.passes], 0
        labels, sums = [np.empty(0)], [np.zeros((k, r, 0), dtype=np.int64)]
        with np.errstate(all="ignore"):
            for block in blocks:
                of, stratum = (None if p is None else block[p] for p in places)
                mine, factor = self.frame.placed(
                    np.zeros(block.shape[1]) if of is None else of, stratum
                )
                rows = block[kept]
                scores = [one.laid(rows, factor, self.clip) for one in self.passes]
                apart = mine == 0.0
                if apart.any():
                    singles += int(apart.sum())
                    for to, z in zip(words, scores, strict=True):
                        to.add(cross_product(z[:, apart]))
                found, where = np.unique(mine, return_inverse=True)
                own = np.empty((k, r, len(found)), dtype=np.int64)
                for i, z in enumerate(scores):
                    for j in range(r):  # integers of at most 2^20: exact
                        own[i, j] = np.bincount(where, weights=z[j], minlength=len(found))
                there = found > 0.0
                labels.append(found[there])
                sums.append(own[:, :, there])
                if sum(map(len, labels[1:])) > _WAITING + len(labels[0]):
                    one, all_of = _together(labels, sums)
                    labels, sums = [one], [all_of]
        one, all_of = _together(labels, sums)
        return ClusterSums(one, all_of, tuple(w.integers() for w in words), singles)

    def accepts(self, found: Any) -> bool:
        """Say whether a part returned sums by cluster of these shapes."""
        k, r = len(self.passes), self.passes[0].size
        return (
            type(found) is ClusterSums and type(found.singles) is int
            and type(found.labels) is np.ndarray and found.labels.dtype == np.float64
            and type(found.sums) is np.ndarray and found.sums.dtype == np.int64
            and found.sums.shape == (k, r, len(found.labels)) and len(found.alone) == k
            and all(type(a) is np.ndarray and a.shape == (r, r) for a in found.alone)
        )  # fmt: skip


# -- Release and what is made of it


@dataclass(frozen=True, eq=False)
class ClusterRelease:
    """What a pass by cluster released.

    Attributes
    ----------
    products : tuple of (r, r) arrays
        J per row, of each chain, in the coordinates of its last pass.
    radii : Radii
    clusters : float
        Declared, or released.
    df : float
    correction : float
        Factor on J: ``G/(G - 1)``; 1 in pairs.
    """

    products: tuple[Array, ...]
    radii: Radii
    clusters: float
    df: float
    correction: float
    few: bool = False

    def noise(self, chain: int) -> float:
        """Return the noise of J over its size, by released numbers."""
        J = self.products[chain]
        size = float(np.trace(J)) / len(J)
        return self.radii.noise / size if size > 0.0 else math.inf

    def determined(self, chain: int) -> bool:
        """Say whether errors by cluster are given."""
        return not self.few and self.noise(chain) <= TOO_LOUD

    def meat(self, chain: int, of_rows: Array) -> Array:
        """Return J per row: shrunk as far as noise explains its spread, no less than of rows.

        Parameters
        ----------
        of_rows : (r, r) array
            Released meat of rows, positive: a design effect below .7 is not believed.
        """
        J = self.correction * self.products[chain]
        J = shrunk(J, self.radii.noise, len(J))
        root, back = roots(of_rows)
        return np.asarray(root @ floored(back @ J @ back, FLOOR) @ root)


def release_clusters(
    plan: ClusterPlan, passes: tuple[Scorer, ...], design: Design, ask: Ask
) -> ClusterRelease:
    """Release the number of clusters, where it is not declared, and J of every chain.

    Parameters
    ----------
    passes : tuple of Scorer
        At the final fit of each chain.
    design : Design
        As the passes read it: ranges put in.

    Privacy
    -------
    The steps of the plan, each a query of the prover, over one reading of the rows.
    """
    frame, r = plan.frame(passes[0].size), passes[0].size
    clip = clip_of(r, plan.n, plan.each)
    over = ClusterPasses(passes, plan.sample.read(design), frame, clip)
    total, few = frame.survey.total, False
    if plan.count:
        found = ask("clusters", Query(Clusters(), over, ClusterSums.count))
        few = float(found.values[0]) < LEAST_BOUGHT + SEEN * float(found.sd[0])
        total = max(float(found.values[0]), float(LEAST))
    own = plan.radii(r, total)
    out = []
    for i, (label, one) in enumerate(zip(plan.chains, passes, strict=True)):
        query = Query(
            statistic(r, own), over, _Products(i, own), unit=own.bound**2,
        )  # fmt: skip
        J = ask(f"cluster scores{label}", query).values / plan.n
        out.append(J if one.back is None else one.back @ J @ one.back.T)
    if total is None:  # rows are their own units
        return ClusterRelease(tuple(out), own, float(plan.n), math.inf, 1.0)
    df = frame.df if frame.df is not None else total - frame.strata
    pairs = bool(frame.pairs)
    return ClusterRelease(
        tuple(out), own, total, max(df, 1.0), 1.0 if pairs else total / (total - 1.0), few
    )


@dataclass(frozen=True)
class _Products:
    """What of the sums a query lays out."""

    chain: int
    radii: Radii

    def __call__(self, sums: ClusterSums) -> Added:
        return sums.products(self.chain, self.radii)
