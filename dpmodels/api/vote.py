"""``dp_vote``: the winner of one vote, with differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.errors import NotPrivateWarning, RequestError, shown
from dpmodels.request import check_eps_delta

if TYPE_CHECKING:
    from dpmodels.models.votes.votes import VoteResult

__all__ = ["charged_run", "dp_vote"]


def charged_run(call: str, guarantee: Any, budget: Any, seed: int | None) -> tuple[Any, Any]:
    """Charge a call that has no formula; return (run, the guarantee in force)."""
    import warnings

    from dpmodels import _testing
    from dpmodels.privacy.ledger import current_budget
    from dpmodels.privacy.noise import make_noise
    from dpmodels.privacy.run import Run

    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RequestError(f"seed must be a whole number or None, got {shown(seed)}")
    if budget is None:
        budget = current_budget()
    if budget is not None and not hasattr(budget, "charge"):
        raise RequestError("budget= takes a dp.Budget, for example dp.Budget(eps=3, delta=1e-5)")
    noise = _testing.NOISE.get() or make_noise(seed)
    if not noise.private:
        guarantee = guarantee.not_private()
    if seed is not None:
        warnings.warn(
            NotPrivateWarning("seed= was given: the noise is reproducible, NOT PRIVATE"),
            stacklevel=3,
        )
    if budget is not None:
        budget.charge(call, guarantee)
    return Run(guarantee.steps, noise), guarantee


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
    import numpy as np

    from dpmodels.api.run import guarded
    from dpmodels.models.votes.votes import VoteResult, majority, vote_steps
    from dpmodels.privacy.guarantee import Guarantee

    eps, delta = check_eps_delta(eps, delta)
    names = list(classes) if not isinstance(classes, str) else []
    if len(names) < 2 or len(set(map(repr, names))) != len(names):
        raise RequestError("classes= takes the list of at least two different candidates")
    if isinstance(votes, str) or not hasattr(votes, "__len__"):
        raise RequestError("votes takes one vote a voter: a list, an array or a Series")
    guarantee = Guarantee(vote_steps(eps, delta), eps, delta)
    run, guarantee = charged_run("dp_vote(...)", guarantee, budget, seed)

    def stage() -> tuple[int, bool, float]:
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
        return majority(counts, eps, delta, run)

    winner, stable, lower = guarded(stage)
    return VoteResult(names[winner], stable, lower, guarantee)
