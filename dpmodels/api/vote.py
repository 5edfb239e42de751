"""``dp_vote``: the winner of one vote, with differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError
from dpmodels.private import answered
from dpmodels.request import check_eps_delta

if TYPE_CHECKING:
    from dpmodels.models.votes.votes import VoteResult

__all__ = ["dp_vote"]


def dp_vote(
    votes: Any,
    classes: Sequence[Any],
    *,
    eps: float,
    delta: float,
    budget: Any = None,
    seed: int | None = None,
) -> VoteResult:
    """Release the winner of a vote; exactly so where no single vote can decide.

    Parameters
    ----------
    votes : sequence
        One vote a voter: a member of ``classes``. Anything else is an abstention.
    classes : sequence
        The public list of at least two candidates; ties go to the first.
    eps, delta : float
    budget : Budget, optional
    seed : int, optional
        For tests: the result is then NOT PRIVATE.

    Returns
    -------
    VoteResult

    Privacy
    -------
    Unit: one voter's vote (replace-one; the number of voters is public). (eps, delta): half of
    eps releases the margin; if it shows a stable winner the answer is exact and free, otherwise
    the other half buys noisy counts. Charged in full either way.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     dp.dp_vote(["a"] * 300 + ["b"] * 60, ["a", "b"], eps=1, delta=1e-6, seed=1).label
    'a'
    """
    from dpmodels.models.votes.votes import VoteResult, release_winner, vote_plan

    eps, delta = check_eps_delta(eps, delta)
    names = list(classes) if not isinstance(classes, str) else []
    if len(names) < 2 or len(set(map(repr, names))) != len(names):
        raise RequestError("classes= takes the list of at least two different candidates")
    if isinstance(votes, str) or not hasattr(votes, "__len__"):
        raise RequestError("votes takes one vote a voter: a list, an array or a Series")
    plan = vote_plan(names, len(votes), eps, delta)
    door, (winner, stable, lower) = answered(
        "dp_vote(...)", plan, release_winner, votes, budget, seed
    )
    return VoteResult(names[winner], stable, lower, door.guarantee)
