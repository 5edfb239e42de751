"""Private majority votes, one by one or many (PATE): the private stages, on arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.ask import Added, Ask, Pass, Query
from dpmodels.exact.lemmas import Of
from dpmodels.exact.sets import Mark
from dpmodels.exact.statistics import Stack, Sum
from dpmodels.models.votes.pate_math import cells_of, curve_table, gaussian_order, smooth
from dpmodels.privacy.gdp import eps_gdp
from dpmodels.privacy.guarantee import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.tables import Result, Table
from dpmodels.tables.pictures import forest

Labels = npt.NDArray[np.intp]
MARGIN_STEP, VOTE_STEP, PATE_STEP = "margin of the vote", "votes", "labels and their test"


@dataclass(frozen=True, repr=False)
class VoteResult(Result):
    """The released winner of one vote.

    Attributes
    ----------
    label : object
        The class that won.
    stable : bool
        True: the released margin shows that no single vote decides, and the true winner was
        answered; False: the winner of noisy counts.
    margin_lower : float
        Released lower bound of the margin.
    privacy : Guarantee
    """

    label: object
    stable: bool
    margin_lower: float
    privacy: Guarantee

    def table(self) -> Table:
        """Return the winner and how it was found."""
        how = "its margin shows that no single vote decides" if self.stable else "by noisy counts"
        facts = (("Winner", f"{self.label!r}"), ("How", how),
                 ("Lower bound of the margin", f"{self.margin_lower:.4g}"),
                 ("Privacy", self.privacy.statement()))  # fmt: skip
        return Table(title="Differentially private vote", facts=facts)

    def tidy(self) -> Any:
        """Return one row: winner, whether it is stable, the released margin."""
        import pandas as pd

        row = (self.label, self.stable, self.margin_lower)
        return pd.DataFrame([row], columns=["term", "stable", "margin_lower"])

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the released lower bound of the margin (needs matplotlib)."""
        frame = self.tidy().assign(estimate=self.margin_lower)
        return forest(frame, ax, **{"xlabel": "lower bound of the margin", **style})

    def __repr__(self) -> str:
        how = "stable" if self.stable else "noisy counts"
        return f"<vote: {self.label!r} ({how}) | {self.privacy.statement()}>"


@dataclass(frozen=True, repr=False)
class PateResult(Result):
    """Released labels of many queries.

    Attributes
    ----------
    labels : (Q,) array of int, or None
        None: no reply, the test did not pass.
    eps_data_dependent : float
        Released upper bound of the data-dependent eps at the delta of the call; costs included.
    eps_data_independent : float
        What the same noisy answers cost without looking at the votes.
    privacy : Guarantee
        The promise of the call, whatever the votes.
    """

    labels: Labels | None
    eps_data_dependent: float
    eps_data_independent: float
    privacy: Guarantee
    stats: dict[str, float] = field(default_factory=dict)

    @property
    def released(self) -> bool:
        """Whether there was a reply."""
        return self.labels is not None

    def table(self) -> Table:
        """Return how many labels there are, and what they cost."""
        reply = "NO REPLY" if self.labels is None else str(len(self.labels))
        facts = (("Labels", reply),
                 ("Data-dependent eps (released)", f"{self.eps_data_dependent:.4g}"),
                 ("Data-independent eps", f"{self.eps_data_independent:.4g}"),
                 ("Privacy", self.privacy.statement()))  # fmt: skip
        return Table(title="Private aggregation of teachers", facts=facts)

    def tidy(self) -> Any:
        """Return one row a query: its number and its label."""
        import pandas as pd

        labels = [] if self.labels is None else list(self.labels)
        return pd.DataFrame({"term": range(len(labels)), "estimate": labels})

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw how often each label was given (needs matplotlib)."""
        counts = self.tidy()["estimate"].value_counts().sort_index()
        frame = counts.rename_axis("term").reset_index(name="estimate")
        return forest(frame, ax, **{"xlabel": "queries with this label", **style})

    def __repr__(self) -> str:
        reply = "NO REPLY" if self.labels is None else f"{len(self.labels)} labels"
        return (
            f"<PATE: {reply} | data-dependent eps {self.eps_data_dependent:.3g}, "
            f"data-independent {self.eps_data_independent:.3g} | {self.privacy.statement()}>"
        )


@dataclass(frozen=True)
class VotePlan:
    """What is public about one vote: the candidates and the number of voters."""

    names: tuple[Any, ...]
    guarantee: Guarantee
    n: int
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatePlan:
    """What is public about the queries to many teachers.

    Attributes
    ----------
    counts : bool
        The form of the votes: counts (queries, classes), else labels (teachers, queries).
    free : float
        eps of the noisy answers whatever the votes; no test is made where it is at most eps.
    n : int
        Number of teachers, the units of this guarantee.
    """

    classes: int
    counts: bool
    sigma: float
    test_eps: float
    free: float
    guarantee: Guarantee
    n: int
    queries: int
    advice: tuple[str, ...] = ()


def vote_plan(names: Sequence[Any], voters: int, eps: float, delta: float) -> VotePlan:
    """Plan one vote."""
    own = own_proof("stable winner").said
    guarantee = Guarantee(vote_steps(eps, delta), eps, delta, notes=(own,))
    return VotePlan(tuple(names), guarantee, voters)


def pate_plan(
    shape: tuple[int, int],
    classes: int,
    *,
    counts: bool,
    teachers: int,
    sigma: float,
    test_eps: float,
    eps: float,
    delta: float,
) -> PatePlan:
    """Plan the answers to all queries of an array of votes of this shape."""
    queries = shape[0] if counts else shape[1]
    free = data_independent_eps(sigma, queries, delta)
    own = own_proof("PATE with a data-dependent bound").said
    notes = (FLOAT_NOTE, own) if free > eps else ()
    guarantee = Guarantee(pate_steps(eps, delta, sigma, queries), eps, delta, notes=notes)
    return PatePlan(classes, counts, sigma, test_eps, free, guarantee, teachers, queries)


def count_votes(names: Sequence[Any], votes: Iterable[Any]) -> npt.NDArray[np.int64]:
    """Return how often each name was voted for; any other vote is an abstention."""
    if hasattr(votes, "to_pylist"):  # Arrow: its scalars are equal to no Python value
        votes = votes.to_pylist()
    place = {name: j for j, name in enumerate(names)}
    counts = np.zeros(len(names), dtype=np.int64)
    for vote in votes:
        try:
            j = place.get(vote)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a cell that cannot be hashed or compared is an abstention
            j = None
        if j is not None:
            counts[j] += 1
    return counts


def release_winner(plan: VotePlan, ask: Ask) -> tuple[int, bool, float]:
    """Count the votes and release the winner, as :func:`majority` does.

    Privacy
    -------
    Unit: one vote; replace-one, the number of voters is public.
    """
    return majority(_Counted(plan.names), len(plan.names), plan.guarantee.delta, ask)


def release_labels(
    plan: PatePlan, ask: Ask
) -> tuple[Labels | None, float, float]:
    """Count the votes of every query and release (labels or None, eps, order).

    Privacy
    -------
    Unit: one teacher, who adds one vote at most to every query.
    """
    over = _Tabled(plan)
    eps, delta = plan.guarantee.eps, plan.guarantee.delta
    if plan.free <= eps:
        return answer_untested(over, plan.classes, plan.queries, ask), plan.free, math.nan
    return answer_queries(over, plan.n, plan.sigma, eps, plan.test_eps, delta, ask)


@dataclass(frozen=True)
class _Counted:
    """The votes of one question by candidate."""

    names: tuple[Any, ...]

    def total(self, votes: Any, reading: Any) -> npt.NDArray[np.int64]:
        """Return the counts. Confidential."""
        return count_votes(self.names, votes)


@dataclass(frozen=True, eq=False)
class _Tabled:
    """The votes of every question by class, (Q, C)."""

    plan: PatePlan

    def total(self, votes: Any, reading: Any) -> Array:
        """Return the counts. Confidential."""
        plan = self.plan
        if plan.counts:
            return np.asarray(np.clip(votes.astype(float), 0.0, plan.n))
        classes = range(plan.classes)
        return np.stack([(votes == c).sum(0) for c in classes], axis=1).astype(float)


def vote_steps(eps: float, delta: float) -> tuple[Step, Step]:
    """Return the steps of one vote: half of eps each; delta is the failure of the margin."""
    return (
        Step(MARGIN_STEP, Pure(eps / 2), share=0.5, failure=delta),
        Step(VOTE_STEP, Pure(eps / 2), share=0.5, conditional=True),
    )


def majority(
    over: Pass, candidates: int, delta: float, ask: Ask
) -> tuple[int, bool, float]:
    """Return (winner, stable, lower bound of the margin).

    One changed vote moves two counts by one: the margin by at most 2. With a margin above 2 every
    neighbour has the same winner, so the exact winner costs nothing (``theory.md``, 5.1).
    """
    lower = float(ask(MARGIN_STEP, Query(Of("margin", ()), over, _margin)).at_least(delta)[0])
    if lower > 2.0:
        return int(np.argmax(ask.raw(own_proof("stable winner")).total(over))), True, lower
    votes = ask(VOTE_STEP, Query(Sum(Mark(candidates)), over))
    return int(np.argmax(votes.values)), False, lower


def _margin(counts: npt.NDArray[np.int64]) -> Added:
    """Return the difference of the two largest counts."""
    ordered = np.sort(counts)[::-1]
    return Added(np.array([int(ordered[0] - ordered[1])], dtype=object))


def pate_steps(eps: float, delta: float, sigma: float, queries: int) -> tuple[Step, ...]:
    """Return the single step of a PATE call.

    Where the noisy answers cost no more than the request whatever the votes (a public fact), no
    test is made. Otherwise test and labels have one joint proof.
    """
    if data_independent_eps(sigma, queries, delta) <= eps:
        return (Step(PATE_STEP, Gaussian(math.sqrt(2.0 * queries) / sigma), share=1.0),)
    step = Step(PATE_STEP, Approximate(eps, delta), share=1.0, reply_test=True, label="PATE")
    return (step,)


def data_independent_eps(sigma: float, queries: int, delta: float) -> float:
    """Return the eps of answering by the noisy argmax alone: mu = sqrt(2 Q)/sigma."""
    return eps_gdp(math.sqrt(2.0 * queries) / sigma, delta)


def answer_queries(
    over: _Tabled, teachers: int, sigma: float, eps: float, eps_hat: float, delta: float, ask: Ask
) -> tuple[Labels | None, float, float]:
    """Return (labels or None, released eps, smooth sensitivity's order).

    Parameters
    ----------
    counts : (Q, C) array
        Votes a class; one teacher adds at most one to every row.
    eps, delta : float
        Of the whole call: eps = eps' + eps_hat/2.
    """
    raw = ask.raw(own_proof("PATE with a data-dependent bound"))
    counts = raw.total(over)
    classes = counts.shape[1]
    a, b, sigma_s = gaussian_order(eps_hat, delta)
    table = curve_table(a, sigma, classes, teachers)
    cells = cells_of(counts, sigma, classes, len(table.value), table.step)
    rdp = float(table.value[cells].sum())
    ss = max(smooth(table, cells, b, teachers), 1e-300)
    normals = raw.inner_source(PATE_STEP).normals(2 + counts.size)
    tail = math.sqrt(2.0 * math.log(4.0 / delta))  # sqrt(2 log(2/delta_2)), delta_2 = delta/2
    m = math.log(ss) + b * sigma_s * (float(normals[0]) + tail)
    upper = rdp + ss * sigma_s * float(normals[1]) + sigma_s * tail * math.exp(m)
    # noise of private width: on a public grid nothing of its float digits is left; upwards,
    # so that it stays a bound
    upper = math.ceil(min(upper, 1e9) * 2.0**30) * 2.0**-30
    converted = upper + math.log(2.0 / delta) / (a - 1.0)
    eps_total = converted + eps_hat / 2.0
    if converted > eps - eps_hat / 2.0:
        return None, eps_total, a
    noisy = counts + sigma * normals[2:].reshape(counts.shape)
    return np.asarray(noisy.argmax(1), dtype=np.intp), eps_total, a


def answer_untested(over: Pass, classes: int, queries: int, ask: Ask) -> Labels:
    """Return the noisy argmax of every query; the step's mu gives noise of sd sigma."""
    statistic = Stack((Sum(Mark(classes)),) * queries, (1.0,) * queries)
    found = ask(PATE_STEP, Query(statistic, over, lambda counts: Added(counts.astype(np.int64))))
    return np.asarray(found.values.argmax(1), dtype=np.intp)
