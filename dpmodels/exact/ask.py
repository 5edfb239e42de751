"""What a stage sees: it asks queries and gets noisy numbers. No row, no exact sum, no sensitivity.

A query is a statistic (what the prover reads), the pass that adds it up, and how its sums are laid
out. :class:`Ask` runs the pass, takes the reach from :mod:`dpmodels.exact.prove` and the noise
from the step as charged. What the prover does not know has a registered proof of its own
(:mod:`dpmodels.privacy.own_proofs`) and asks for rows and run by its name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.exact.lemmas import Of
from dpmodels.exact.prove import rank_reach, reach
from dpmodels.exact.statistics import Norm, Ranks, Statistic
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.privacy.run import ROUND_UP, tail_margin
from dpmodels.sources.windows import ALL_ROWS, Coins, OfRows, Windows

if TYPE_CHECKING:
    from dpmodels.privacy.own_proofs import OwnProof
    from dpmodels.privacy.run import Run


@dataclass(frozen=True)
class Read:
    """Which units a pass reads: public, or by secret coins; never by a cell.

    Attributes
    ----------
    every : int
        Each unit with probability 1 / ``every``, by a coin of its own.
    windows : Windows
        Runs of rows by their place: under replace-one and with rows as units only.
    inner : int
        Coins for the parts of a pass that are not of every row (meat, ordinary rows).
    then : tuple of int
        Of passes after this one, fresh coins each (:class:`dpmodels.sources.windows.Coins`).

    Notes
    -----
    Coins cost nothing: for any outcome at most one unit of the sample changes, and a unit that is
    not chosen adds 0, which is in every set; mixtures keep the curve (``exact/theory.md`` 1.8).
    """

    every: int = 1
    windows: Windows = ALL_ROWS
    inner: int = 1
    then: tuple[int, ...] = ()


ALL = Read()
#: What an exact sum is made of.
_WHOLE = (int, np.integer)


@dataclass(frozen=True, eq=False)
class Added:
    """Exact sums as a statistic lays them out. **Confidential**.

    Attributes
    ----------
    values : integers, or a tuple of arrays of integers
        What ``Statistic.flat`` takes. Floats for lemmas only.
    step : float, (size,) array, or None
        Size of an integer, the radius being 1; None: that of the statistic. Its own where the
        route decides it (by cell: a public fact).
    """

    values: Any
    step: Any = None


def as_is(sums: Any) -> Added:
    """Return sums as they are."""
    return Added(sums)


class Pass(Protocol):
    """Adds up exact sums of rows, in this thread or by tasks."""

    def total(self, rows: Any, reading: dict[str, Any]) -> Any:
        """Return the exact sums. Confidential."""
        ...


@dataclass(frozen=True, eq=False)
class Query:
    """A statistic of the units, and the pass that adds it up.

    Attributes
    ----------
    statistic : Statistic or Of
        What the prover reads.
    over : Pass
        Queries with one pass share its reading of the rows.
    part : function
        Of the sums: what the statistic lays out.
    unit : float
        Size of what is 1 to the statistic, in the user's units.
    factor : float
        At least 1: noise of a published size, larger than it need be.
    whole : bool
        Laplace noise keeps to the integers (the geometric mechanism).
    """

    statistic: Statistic | Of
    over: Pass
    part: Callable[[Any], Added] = as_is
    unit: float = 1.0
    factor: float = 1.0
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.factor >= 1.0:
            raise PrivacyBugError("noise of a published size may not be smaller than proved")


@dataclass(frozen=True, eq=False)
class Noisy:
    """Released numbers and the noise that is in them.

    Attributes
    ----------
    values : array
        In the shape of the statistic.
    sd : array
        Of the noise, in that shape; the scale where it is Laplace.
    laplace : bool
    whole : bool
        The noise is on the integers of the sums: margins would need a step of them.
    """

    values: Array
    sd: Array
    laplace: bool = False
    whole: bool = False

    @property
    def variance(self) -> Array:
        """Of the noise."""
        return self.sd * self.sd * (2.0 if self.laplace else 1.0)

    def margin(self, p: float) -> Array:
        """Return t with P(noise > t) <= p, each number by itself."""
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
    """Rows and run for one step with a proof of its own: the draws that it lists, no other."""

    rows: Any
    _ask: Ask
    _proof: OwnProof

    def total(self, over: Pass, read: Read = ALL) -> Any:
        """Return the exact sums of a pass, read once for this and for what is asked of it."""
        return self._ask._total(over, read)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._proof.draws:
            raise PrivacyBugError(f"the proof {self._proof.name!r} does not list the draw {name!r}")
        return getattr(self._ask._run, name)


class Ask:
    """The door of one stage: what it may ask of the private rows.

    Parameters
    ----------
    rows : Rows, PeopleRows, or the private argument of a call that has no table
    run : Run
        Of the steps that were charged.
    relation : {"replace", "add-remove"}
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
        """Whether the noise is: False where it comes of a seed."""
        return bool(getattr(self._run.noise, "private", False))

    def __call__(self, step: str, query: Query, read: Read = ALL) -> Noisy:
        """Return a query's numbers with the noise of a step.

        Parameters
        ----------
        step : str
            Of the plan, Gaussian or Pure; asked for once.
        query : Query
        read : Read

        Privacy
        -------
        The mechanism of the step, for one unit. ``theory.md`` 1.8.
        """
        mechanism = self._run.mechanism(step)
        if not isinstance(mechanism, (Gaussian, Pure)):
            raise PrivacyBugError(f"step {step!r} is planned as {mechanism!r}: not for a query")
        norm: Norm = "l1" if isinstance(mechanism, Pure) else "l2"
        statistic = query.statistic
        moved = reach(statistic, self._relation, norm) * query.factor
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
        whole = kind in "iu" or (
            kind == "O" and all(issubclass(one, _WHOLE) for one in set(map(type, flat)))
        )
        if not whole:
            if kind != "f" or not isinstance(query.statistic, Of):
                raise PrivacyBugError(f"step {step!r}: sums that are no integers")
            real = run.gaussian_real if norm == "l2" else run.laplace_real
            return np.asarray(real(step, flat, moved) * query.unit)
        draw: Any = run.gaussian if norm == "l2" else run.laplace
        how = {"whole": True} if query.whole else {}
        one = query.statistic.step if size is None else size
        if np.ndim(one):  # lattices of their own: entry by entry
            noisy = draw(step, flat, moved, weights=weights * one, **how)
            return np.asarray(noisy * one * query.unit)
        return np.asarray(
            draw(step, flat, moved / one, weights=weights, unit=one * query.unit, **how)
        )

    def _total(self, over: Pass, read: Read) -> Any:
        """Return the sums of a pass; of one that was read before, those."""
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
        # not of a seed: the order of its draws is what it stands for
        ahead = read.then if self.private else ()
        if read.every > 1 or ahead:
            then = tuple(Coins(every, self._run.coins) for every in ahead)
            out["coins"] = Coins(read.every, self._run.coins, then)
        if read.inner > 1:
            out["inner"] = Coins(read.inner, self._run.coins)
        return out

    def bins(
        self, step: str, over: Pass, find: Callable[[Any], npt.NDArray[np.int64]], tau: float
    ) -> tuple[list[int], list[float]]:
        """Return (bins, counts) of a histogram whose bins are not public: those above tau.

        Parameters
        ----------
        step : str
            Gaussian; its failure is the probability that a bin of one unit passes tau.
        over : Pass
            What ``find`` is told: cells of a public or random choice of units.
        find : function
            The bin of every unit that has one.
        tau : float
            Public.

        Privacy
        -------
        A stability histogram: a unit lies in one bin. Counts of bins that both neighbours have
        move by sqrt 2; a bin that one of them has not holds one unit (``ranges/theory.md``).
        """
        mechanism, moved = self._run.mechanism(step), math.sqrt(2.0)
        if not isinstance(mechanism, Gaussian):
            raise PrivacyBugError(f"step {step!r} is planned as {mechanism!r}: not for bins")
        least = 1.0 + tail_margin(moved / mechanism.mu, self._run.failure(step))
        if not tau >= least * (1.0 - 1e-9):
            raise PrivacyBugError(f"step {step!r}: a bin of one unit would pass too often")
        return self._run.kept_bins(step, find(self._total(over, ALL)), moved, tau)

    def choose(
        self, step: str, ranks: Ranks, over: Pass, penalties: Callable[[Any], Any], largest: int
    ) -> npt.NDArray[np.intp]:
        """Choose one candidate a group by the exponential mechanism.

        Parameters
        ----------
        step : str
            Pure.
        ranks : Ranks
            What the prover reads.
        penalties : function
            Of the sums of ``over``: integers >= 0, (groups, candidates), in steps of ``ranks``.
        largest : int
            Public bound of the penalties, in ranks.

        Privacy
        -------
        The eps of the step: the penalties of all groups together move by
        :func:`~dpmodels.exact.prove.rank_reach` at most. Replace-one.
        """
        if self._relation != "replace":
            raise PrivacyBugError("ranks have their proof under replace-one only")
        table = penalties(self._total(over, ALL))
        most = largest * ranks.step
        return self._run.choose(step, table, sensitivity=rank_reach(ranks), largest=most)

    def permutation(self, n: int) -> npt.NDArray[np.intp]:
        """Return a secret uniform permutation, drawn without looking at a cell."""
        return self._run.noise.permutation(n)

    def forget(self, over: Pass) -> None:
        """Let go of the sums (or cells) of a pass that is asked no more."""
        for key in [key for key in self._sums if key[0] == id(over)]:
            del self._sums[key]

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Return secret uniform bytes: which units a pass reads."""
        return self._run.coins(size)

    def raw(self, proof: OwnProof) -> Raw:
        """Return rows and run to a function that has a registered proof of its own."""
        caller = sys._getframe(1)
        where = f"{caller.f_globals['__name__'].removeprefix('dpmodels.')}:{caller.f_code.co_name}"
        if where not in proof.where:
            raise PrivacyBugError(f"{where} is not where the proof {proof.name!r} stands")
        return Raw(self._rows, self, proof)
