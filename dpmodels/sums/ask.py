"""Interface of the private stage: queries return noisy values, never rows or exact sums.

A query is a statistic (for which the prover has a sensitivity), the pass that sums it over the
rows, and the layout of these sums. A *pass* here is one reading of the rows. :class:`Ask` runs the
pass, with the sensitivity from :mod:`dpmodels.proof.prove` and the noise of the charged step. A
mechanism that the prover does not cover has a registered proof (:mod:`dpmodels.privacy.run`), and
gets rows and noise under the name of this proof.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.places import ALL_ROWS, Windows
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.privacy.run import ROUND_UP, OwnProof, Run, stability_threshold, tail_margin
from dpmodels.proof.prove import Of, rank_sensitivity, sensitivity
from dpmodels.proof.sets import Ball, Box, Interval, NuclearBall
from dpmodels.proof.statistics import Gram, Norm, Ranks, Split, Statistic, Sum
from dpmodels.sources.rows import Coins, OfRows
from dpmodels.sources.summed import summed
from dpmodels.sums.cells import gram_over
from dpmodels.sums.products import end_of_numbers, mapped
from dpmodels.sums.rowmap import OneFirst, PeopleGramOf, RowMap, WithOne, unit_rows
from dpmodels.sums.scaling import UnitScale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


@dataclass(frozen=True)
class Read:
    """Units that a pass reads: public, or chosen by secret coins, never by a cell.

    Notes
    -----
    Coins cost nothing: for any outcome at most one unit of the sample changes, and a unit that is
    not chosen adds 0, which is in every set; mixtures keep the curve (``proof/theory.md`` 1.8).
    """

    every: int = 1  # Each unit is read with probability 1 / ``every``, by a separate secret coin
    # Runs of rows by their position, only under replace-one and with rows as units.
    windows: Windows = ALL_ROWS
    inner: int = 1  # Coins for sums over some of the rows only (the meat)
    # Number of later passes, with fresh coins each (:class:`dpmodels.sources.rows.Coins`).
    then: tuple[int, ...] = ()


ALL = Read()
#: Parts of an exact sum.
_WHOLE = (int, np.integer)


@dataclass(frozen=True, eq=False)
class Added:
    """Exact sums in the layout of a statistic. **Confidential**."""

    values: Any  # Input of ``Statistic.flat``. Floats for lemmas only.
    # float, (size,) array, or None: size of one integer unit if the radius is 1; None: that of the
    # statistic. It differs if sums are by cell (a public fact).
    step: Any = None


class Pass(Protocol):
    """Exact sums over rows, computed in this thread or by tasks."""

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return the exact sums. Confidential."""
        ...


@dataclass(frozen=True, eq=False)
class Query:
    """A statistic of the units, and the pass that sums it over the rows."""

    statistic: Statistic | Of  # Statistic that the prover reads
    over: Pass  # Queries with one pass share its reading of the rows
    part: Callable[[Any], Added] = Added  # Selects the statistic's entries from the exact sums
    unit: float = 1.0  # One unit of the statistic, in the user's units
    factor: float = 1.0  # At least 1: noise of a published size, larger than it need be
    whole: bool = False  # Whether Laplace noise is on the integers (the geometric mechanism)

    def __post_init__(self) -> None:
        if not self.factor >= 1.0:
            raise PrivacyBugError("noise of a published size may not be smaller than proved")


@dataclass(frozen=True, eq=False)
class Noisy:
    """Released values and the sd of their noise."""

    values: Array  # In the shape of the statistic
    sd: Array  # Noise sd in that shape (the scale of Laplace noise)
    laplace: bool = False
    # The noise is on the integers of the sums: margins would need a step of them.
    whole: bool = False

    @property
    def variance(self) -> Array:
        """Return the variance of the noise."""
        return self.sd * self.sd * (2.0 if self.laplace else 1.0)

    def margin(self, p: float) -> Array:
        """Return t with P(noise > t) <= p, for each value separately."""
        if self.whole:
            raise PrivacyBugError("no margin is proved for geometric noise")
        if self.laplace:
            # a lattice tail beyond t and a step of the lattice is at most the continuous one; a
            # step is at most 2^-20 of the scale (the run refines what is coarser)
            scale = self.sd * ROUND_UP
            return np.asarray(scale * (math.log(1.0 / (2.0 * p)) + 2.0**-20))
        return np.asarray(self.sd * tail_margin(1.0, p))

    def at_least(self, p: float) -> Array:
        """Return bounds from below, each wrong with probability at most p."""
        return np.asarray(self.values - self.margin(p))

    def at_most(self, p: float) -> Array:
        """Return bounds from above, each wrong with probability at most p."""
        return np.asarray(self.values + self.margin(p))


@dataclass(frozen=True, eq=False)
class Raw:
    """Rows and run for one step with a registered proof: only the draws that the proof lists.

    Strengths and failures of the charged steps are public: a release takes them from there.
    """

    rows: Any
    _ask: Ask
    _proof: OwnProof

    def total(self, over: Pass, read: Read = ALL) -> Any:
        """Return the exact sums of a pass, read once for this call and for its queries."""
        return self._ask._total(over, read)

    def __getattr__(self, name: str) -> Any:
        if name not in ("mechanism", "failure", "on_grid", *self._proof.draws):
            raise PrivacyBugError(f"the proof {self._proof.name!r} does not list the draw {name!r}")
        return getattr(self._ask._run, name)


class Ask:
    """Queries that one stage may ask of the private rows, within the run of what was charged.

    ``rows`` is the private argument itself where a call has no table.
    """

    def __init__(self, rows: Any, run: Run, relation: str = "replace") -> None:
        self._rows, self._run, self._relation = rows, run, relation
        self._sums: dict[tuple[int, Read], tuple[Pass, Any]] = {}

    @property
    def n(self) -> int:
        """Number of units: public under replace-one, and there alone."""
        if self._relation != "replace":
            raise PrivacyBugError("under add-remove the number of units is private")
        return int(self._rows.n)

    @property
    def by_person(self) -> bool:
        """Whether the units are people: public."""
        return isinstance(self._rows, OfRows) and self._rows.by_person

    @property
    def private(self) -> bool:
        """Whether the noise is secret, False if it is from a seed."""
        return bool(getattr(self._run.noise, "private", False))

    def charged(self, step: str) -> tuple[Any, float, str]:
        """Return mechanism and failure probability of an open step, and the kind of neighbours."""
        return self._run.mechanism(step), self._run.failure(step), self._relation

    def pay(self, step: str, steps: Iterable[Step]) -> None:
        """Start steps within the share of a planned step, by public and released numbers alone.

        **Privacy.** At most the mechanism of the planned step (``privacy/theory.md``, 4).
        """
        self._run.pay(step, steps)

    def __call__(self, step: str, query: Query, read: Read = ALL) -> Noisy:
        """Return a query's values with the noise of a Gaussian or Pure step, each used once.

        **Privacy.** The mechanism of the step, for one unit (``proof/theory.md`` 1.8).
        """
        mechanism = self._run.mechanism(step)
        if not isinstance(mechanism, (Gaussian, Pure)):
            raise PrivacyBugError(f"step {step!r} is planned as {mechanism!r}: not for a query")
        norm: Norm = "l1" if isinstance(mechanism, Pure) else "l2"
        statistic = query.statistic
        moved = sensitivity(statistic, self._relation, norm) * query.factor
        added = query.part(self._total(query.over, read))
        flat = statistic.flat(added.values, norm)
        weights = statistic.weights(norm)
        if np.shape(flat) != weights.shape:
            raise PrivacyBugError(f"step {step!r}: the sums have not the shape of their statistic")
        budget = mechanism.eps if isinstance(mechanism, Pure) else mechanism.mu
        values = self._drawn(step, query, flat, weights, moved, added.step, norm)
        sd = moved * query.unit / (budget * weights)
        shown = statistic.shaped(values, norm), statistic.shaped(sd, norm)
        return Noisy(*shown, norm == "l1", query.whole)

    def _drawn(
        self, step: str, query: Query, flat: Any, weights: Array, moved: float, size: Any,
        norm: Norm,
    ) -> Array:  # fmt: skip
        """Return the entries with noise, in the user's units."""
        run, kind = self._run, np.asarray(flat).dtype.kind
        whole = kind == "O" and all(issubclass(of_cell, _WHOLE) for of_cell in set(map(type, flat)))
        if not (kind in "iu" or whole):
            if kind != "f" or not isinstance(query.statistic, Of):
                raise PrivacyBugError(f"step {step!r}: sums that are not integers")
            real = run.gaussian_real if norm == "l2" else run.laplace_real
            return np.asarray(real(step, flat, moved) * query.unit)
        draw: Any = run.gaussian if norm == "l2" else run.laplace
        how = {"whole": True} if query.whole else {}
        scale = query.statistic.step if size is None else size
        if np.ndim(scale):  # each entry has its lattice
            noisy = draw(step, flat, moved, weights=weights * scale, **how)
            return np.asarray(noisy * scale * query.unit)
        return np.asarray(
            draw(step, flat, moved / scale, weights=weights, unit=scale * query.unit, **how)
        )

    def _total(self, over: Pass, read: Read) -> Any:
        """Return the sums of a pass, reusing them if the pass was already read."""
        key = (id(over), read)
        if key not in self._sums:
            self._sums[key] = (over, over.total(self._rows, self._reading(read)))
        return self._sums[key][1]

    def _reading(self, read: Read) -> dict[str, Any]:
        """Return windows and coins of a pass."""
        out: dict[str, Any] = {}
        if read.windows.every > 1:
            if self._relation != "replace" or self.by_person:
                raise PrivacyBugError("windows of rows have their proof under replace-one only")
            out["windows"] = read.windows
        # not with a seed, which stands for one order of draws
        ahead = read.then if self.private else ()
        if read.every > 1 or ahead:
            then = tuple(Coins(every, self._run.coins) for every in ahead)
            out["coins"] = Coins(read.every, self._run.coins, then)
        if read.inner > 1:
            out["inner"] = Coins(read.inner, self._run.coins)
        return out

    def bins(
        self, step: str, over: Pass, find: Callable[[Any], Any], tau: float,
        *, per_unit: int = 1, most: int = 0,
    ) -> tuple[list[int], list[float]]:  # fmt: skip
        """Return (bins, counts) of a histogram whose bins are not public: those above tau.

        The failure of the step, which is Gaussian, is the probability that a bin of one unit
        exceeds tau. ``over`` gives ``find`` cells of a public or random choice of units; it returns
        the bin of every unit that has one, and with ``most`` also what each entry adds to its bin
        in steps of 2^-20. A unit has ``per_unit`` bins at most, one in each of several histograms,
        or a person ``most`` in one, to which they add a vector of length 1.

        **Privacy.** A stability histogram: a unit is in one bin. Counts of bins that both
        neighbours have move by sqrt 2; a bin that only one of them has contains one unit
        (``ranges.md``). With k histograms at once counts move by sqrt(2 k), and k bins may contain
        one unit (``levels.md``). A person's nonnegative vectors of length 1 move them by as much.
        """
        mechanism, moved = self._run.mechanism(step), math.sqrt(2.0 * per_unit)
        if not isinstance(mechanism, Gaussian):
            raise PrivacyBugError(f"step {step!r} is planned as {mechanism!r}: not for bins")
        failure = self._run.failure(step)
        least = stability_threshold(moved / mechanism.mu, failure, per_unit, most)
        if not tau >= least * (1.0 - 1e-9):
            raise PrivacyBugError(f"step {step!r}: a bin of one unit would pass too often")
        histogram = find(self._total(over, ALL))
        bins, masses = histogram if most else (histogram, None)
        return self._run.kept_bins(step, bins, moved, tau, masses)

    def choose(
        self, step: str, ranks: Ranks, over: Pass, penalties: Callable[[Any], Any], largest: int
    ) -> npt.NDArray[np.intp]:
        """Choose one candidate a group by the exponential mechanism, with a Pure step.

        ``penalties`` of the sums of ``over`` are integers >= 0, (groups, candidates), in steps of
        ``ranks``, and ``largest`` their public bound in ranks.

        **Privacy.** The eps of the step: the penalties of all groups together move by
        :func:`~dpmodels.proof.prove.rank_sensitivity` at most. Replace-one.
        """
        if self._relation != "replace":
            raise PrivacyBugError("ranks have their proof under replace-one only")
        table = penalties(self._total(over, ALL))
        most = largest * ranks.step
        return self._run.choose(step, table, sensitivity=rank_sensitivity(ranks), largest=most)

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Return a secret uniform permutation, drawn independently of all cells."""
        return self._run.noise.permutation(n)

    def forget(self, over: Pass) -> None:
        """Delete the sums (or cells) of a pass that is no longer needed."""
        for key in [key for key in self._sums if key[0] == id(over)]:
            del self._sums[key]

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Return secret uniform bytes: which units a pass reads."""
        return self._run.coins(size)

    def raw(self, proof: OwnProof) -> Raw:
        """Return rows and run to a function with a registered proof."""
        caller = sys._getframe(1)
        where = f"{caller.f_globals['__name__'].removeprefix('dpmodels.')}:{caller.f_code.co_name}"
        if where not in proof.where:
            raise PrivacyBugError(f"{where} is not where the proof {proof.name!r} is")
        return Raw(self._rows, self, proof)


def check_pair(ask: Ask, step: str, eps: float, delta: float) -> None:
    """Refuse a test and a release that together cost more than the pair of their step."""
    pair = ask.charged(step)[0]
    if eps > pair.eps * (1.0 + 1e-12) or delta > pair.delta:
        raise PrivacyBugError(f"step {step!r} costs more than was charged")


@dataclass(frozen=True)
class Labelled:
    """An :class:`Ask` for one part of a plan, whose steps have names that begin with a label.

    It is for a stage within a stage. Queries use the steps of the whole stage.
    """

    _ask: Any
    label: str

    def name(self, step: str) -> str:
        """Return the name of a step in the plan."""
        return f"{self.label}: {step}"

    def pay(self, step: str, steps: Iterable[Step]) -> None:
        """Start steps within the share of a step of the part (:meth:`Ask.pay`)."""
        self._ask.pay(self.name(step), [replace(s, name=self.name(s.name)) for s in steps])

    def __call__(self, step: str, query: Query, read: Read = ALL) -> Noisy:
        """Return a query's values with the noise of a step of the part."""
        found: Noisy = self._ask(self.name(step), query, read)
        return found

    def __getattr__(self, name: str) -> Any:
        if name not in ("n", "by_person", "private", "coins", "forget"):
            raise PrivacyBugError(f"a part of a stage does not ask for {name!r}")
        return getattr(self._ask, name)


# -- Passes over the rows of a query: routes of summation, and the layout of exact sums.
#
# A pass has its design and its job, and is read once for any number of queries. The route of the
# summation (dense, counted, by cell, by person) is a public function of design and job.


@dataclass(frozen=True, eq=False)
class Moments:
    """``sum z z'`` of mapped rows: a :class:`~dpmodels.sums.products.Gram`."""

    design: Design
    rowmap: Any
    people: bool = False  # Units are people: a person's matrix is scaled to a bounded trace

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return the Gram matrix. Confidential."""
        if self.people:
            return summed(rows, self.design, PeopleGramOf(self.rowmap), **reading)
        return gram_over(rows, self.design, self.rowmap, **reading)

    @property
    def set(self) -> Ball | Box | NuclearBall:
        """Clip set of one unit, from the map."""
        return set_of(self.rowmap, people=self.people)


def set_of(rowmap: Any, *, people: bool = False) -> Any:
    """Return the clip set of a row map: that into which its :mod:`~dpmodels.sums.products` cuts."""
    # of maps that are not row maps, also clipped by `end_in_ball`
    clip_set = getattr(rowmap, "clip_set", None)
    if clip_set is not None and not people:
        return clip_set
    inner = rowmap.rowmap if isinstance(rowmap, (OneFirst, WithOne)) else rowmap
    if not isinstance(inner, RowMap):
        raise PrivacyBugError(f"no clip set is known of {type(rowmap).__name__}")
    k = len(inner.box)
    if inner.ball == k and not isinstance(rowmap, WithOne):
        return NuclearBall(k) if people else Ball(k)
    if inner.ball or people:
        raise PrivacyBugError("a map into a ball and a box has no set of its own: say the parts")
    return Box(k, one=isinstance(rowmap, WithOne))


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of one job over a design: whatever it adds up."""

    design: Design
    job: Any

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return them. Confidential."""
        return summed(rows, self.design, self.job, **reading)




def whole_matrix(matrix: Any) -> Added:
    """Return the integers of a Gram matrix."""
    return Added(matrix.integers())


def moments_query(over: Moments, *, radius: float = 1.0) -> Query:
    """Return the query of all moments of a map into one set, whose radius may be scaled."""
    return Query(Gram(over.set), over, whole_matrix, unit=radius * radius)


def ball_moments_query(over: Moments, r: int, *, published: bool = False) -> Query:
    """Return the query of the moments of the first r coordinates of a map, those in its ball.

    ``published``: noise of the published size ``2 R^2``, more than proved, on every entry.
    """
    rowmap = over.rowmap.rowmap if isinstance(over.rowmap, OneFirst) else over.rowmap
    if rowmap.ball != r:
        raise PrivacyBugError("the ball of a map holds other coordinates")
    statistic = Gram(Ball(r), entries=published)
    factor, unit = 1.0, rowmap.radius**2
    if published:  # the product may be another float than the power
        unit = rowmap.radius * rowmap.radius
        factor = max(1.0, 2.0 / sensitivity(statistic, "replace", "l2"))
    return Query(statistic, over, lambda G: Added(G.integers()[:r, :r]), unit, factor=factor)


@dataclass(frozen=True, eq=False)
class Residuals:
    """The sum of ``trunc(clip(r / c)^2 2^30)``, r = y - z'theta; its sensitivity is 2^30.

    theta is the *released* vector: with the exact one the sensitivity would be wrong.
    """

    rowmap: RowMap
    theta: Array
    c: float

    def over(self, blocks: Iterable[Array], _: Any = None) -> int:
        """Return the integer over blocks. Confidential."""
        p, box = len(self.theta), self.rowmap.box
        ratio = self.theta * box[:p] / self.c
        total = 0
        with np.errstate(all="ignore"):
            for block in blocks:
                w = self.rowmap.normalised(block)
                r = w[p] * (box[p] / self.c) - mapped(ratio[None], w[:p])[0]
                total += int(end_of_numbers(r * r, steps=2.0**30, low=0.0).sum())
        return total


def clipped_residuals(design: Design, rowmap: RowMap, theta: Array, c: float) -> Query:
    """Return the query of the sum of squared residuals clipped at c^2, at a released theta."""
    return Query(
        Sum(Interval(0, 1 << 30)), Sums(design, Residuals(rowmap, theta, c)),
        lambda k: Added(np.array([k], dtype=object)), c * c * 2.0**-30,
    )  # fmt: skip


# -- Second moments as queries: rows scaled into a ball, or with separate bounds on x and y


def ball_map(unit: UnitScale, radius: float, matrix: Array | None) -> RowMap:
    """Return the row map ``z = min(1, R/|w|) w``, ``w = matrix (scale z + shift)``."""
    q = len(unit.scale)
    return RowMap(unit, np.full(q, radius), ball=q, radius=radius, matrix=matrix)


def bounded_moments_query(design: Design, statistic: Split) -> Query:
    """Return the query of the moments of unit rows, with separate bounds of x and y."""
    unit, square = unit_rows(design)
    # an intercept that not every complete row has counts as a column of x
    square += float(design.has_intercept and not statistic.known)
    has_constant = design.has_intercept and not design.scaled
    if square > statistic.rx**2 * (1.0 + 1e-12) or (statistic.known and not has_constant):
        raise PrivacyBugError("the rows of this design exceed the norm that was planned")
    return Query(statistic, Moments(design, RowMap(unit, np.ones(design.q))), whole_matrix)
