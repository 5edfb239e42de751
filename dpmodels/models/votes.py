"""Plans and results of private votes, one by one or many (PATE)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dpmodels.lazy import pd
from dpmodels.own.voting import (
    MARGIN_STEP,
    PATE_STEP,
    VOTE_STEP,
    Labels,
    PatePlan,
    VotePlan,
)
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Pure, Step, eps_gdp
from dpmodels.privacy.proofs import PROVED
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.tables.table import Result, Table, forest


@dataclass(frozen=True, repr=False)
class VoteResult(Result):
    """The released winner of one vote."""

    label: object  # The class that won
    # True: the released margin shows that no single vote decides, and the true winner was answered;
    # False: the winner of noisy counts.
    stable: bool
    margin_lower: float  # Released lower bound of the margin
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
    """Released labels of many queries."""

    labels: Labels | None  # (Q,) array of int, or None: none: no reply, the test did not pass
    # Released upper bound of the data-dependent eps at the delta of the call; costs included.
    eps_data_dependent: float
    eps_data_independent: float  # Cost of the same noisy answers without looking at the votes
    privacy: Guarantee  # The promise of the call, whatever the votes
    stats: dict[str, float] = field(default_factory=dict)

    @property
    def released(self) -> bool:
        """Whether there was a reply."""
        return self.labels is not None

    def table(self) -> Table:
        """Return the number of labels and their cost."""
        reply = "NO REPLY" if self.labels is None else str(len(self.labels))
        facts = (("Labels", reply),
                 ("Data-dependent eps (released)", f"{self.eps_data_dependent:.4g}"),
                 ("Data-independent eps", f"{self.eps_data_independent:.4g}"),
                 ("Privacy", self.privacy.statement()))  # fmt: skip
        return Table(title="Private aggregation of teachers", facts=facts)

    def tidy(self) -> Any:
        """Return one row per query: its number and its label."""
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


def vote_plan(names: Sequence[Any], voters: int, eps: float, delta: float) -> VotePlan:
    """Plan one vote."""
    proof_note = PROVED["stable winner"].note
    guarantee = Guarantee(vote_steps(eps, delta), eps, delta, notes=(proof_note,))
    return VotePlan(tuple(names), guarantee, voters)


def pate_plan(
    shape: tuple[int, int], classes: int, *, counts: bool, teachers: int, sigma: float,
    test_eps: float, eps: float, delta: float,
) -> PatePlan:  # fmt: skip
    """Plan the answers to all queries of an array of votes of this shape."""
    queries = shape[0] if counts else shape[1]
    free = data_independent_eps(sigma, queries, delta)
    proof_note = PROVED["PATE with a data-dependent bound"].note
    notes = (FLOAT_NOTE, proof_note) if free > eps else ()
    guarantee = Guarantee(pate_steps(eps, delta, sigma, queries), eps, delta, notes=notes)
    return PatePlan(classes, counts, sigma, test_eps, free, guarantee, teachers, queries)


def vote_steps(eps: float, delta: float) -> tuple[Step, Step]:
    """Return the steps of one vote: half of eps each; delta is the failure of the margin."""
    return (
        Step(MARGIN_STEP, Pure(eps / 2), share=0.5, failure=delta),
        Step(VOTE_STEP, Pure(eps / 2), share=0.5, conditional=True),
    )


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
