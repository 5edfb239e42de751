"""``dp_vote``, ``dp_pate``: votes and labels of many queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.errors import NoReplyWarning, RequestError, shown
from dpmodels.private import answered, checked, tell
from dpmodels.request import check_eps_delta

if TYPE_CHECKING:
    from dpmodels.models.votes.votes import PateResult, VoteResult

__all__ = ["dp_pate", "dp_vote"]


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
        "dp_vote(...)", plan, release_winner, lambda: votes, budget, seed
    )
    return VoteResult(names[winner], stable, lower, door.guarantee)


def _checked(votes: Any, classes: Any, counts: bool, teachers: Any) -> tuple[Any, int, int]:
    """Return (array, classes, teachers) after checks of shape and type alone."""
    import numpy as np

    from dpmodels.sources.memory import listed_numbers, whole_numbers
    from dpmodels.sources.source import withheld

    typed = hasattr(votes, "dtype") or hasattr(votes, "__array__")
    masked = isinstance(votes, np.ma.MaskedArray)
    if masked or any(hasattr(votes, a) for a in ("columns", "__arrow_c_stream__")):
        array = withheld(lambda: whole_numbers(votes))
    else:
        array = np.asarray(votes) if typed else listed_numbers(votes)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise RequestError(
            "votes takes a two-dimensional array of whole numbers: labels (teachers, queries), or "
            f"counts (queries, classes) with counts=True; got shape {array.shape}, "
            f"dtype {array.dtype}"
        )
    if counts:
        if not isinstance(teachers, int) or isinstance(teachers, bool) or teachers < 1:
            raise RequestError("counts=True needs teachers=<number of teachers>, a public number")
        classes = array.shape[1]
    else:
        teachers = array.shape[0]
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
        raise RequestError(f"classes= is the number of classes, at least 2; got {shown(classes)}")
    if array.size == 0:
        raise RequestError("there are no votes: the array is empty")
    return array, classes, teachers


def dp_pate(
    votes: Any,
    *,
    eps: float,
    delta: float,
    classes: int | None = None,
    counts: bool = False,
    teachers: int | None = None,
    sigma: float = 40.0,
    test_eps: float | None = None,
    budget: Any = None,
    seed: int | None = None,
) -> PateResult:
    """Answer queries by the noisy vote of teachers, if the votes allow it at the promised eps.

    Parameters
    ----------
    votes : (teachers, queries) array or table of int
        Labels 0, ..., classes - 1; anything else, and a missing cell, is an abstention. The type
        of a table's columns is its schema's, whatever its cells. With ``counts=True``: vote
        counts (queries, classes).
    eps, delta : float
        The promise of the call.
    classes : int
        Number of classes (labels form).
    counts : bool
        The form of ``votes``; needs ``teachers``. Counts below 0 are 0.
    sigma : float
        Noise on every count.
    test_eps : float, optional
        eps^ of the released privacy loss, which costs half of it; default eps/2.
    budget, seed
        As in :func:`dpmodels.dp_vote`.

    Returns
    -------
    PateResult
        Labels, or None where the released bound of the data-dependent loss exceeds the promise.
        No test is made (and there is always a reply) where the noisy answers cost at most eps
        whatever the votes: a public fact of sigma and the number of queries.

    Privacy
    -------
    Unit: one teacher (all its votes); one record must belong to one teacher. (eps, delta),
    charged in full. The data-dependent eps is released by its smooth sensitivity.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dpmodels as dp
    >>> votes = np.zeros((400, 100), dtype=int)  # all agree
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     answer = dp.dp_pate(votes, classes=10, eps=4, delta=1e-6, seed=1)
    >>> int(answer.labels.sum())
    0
    """
    from dpmodels.models.votes.votes import PateResult, pate_plan, release_labels

    eps, delta = check_eps_delta(eps, delta)
    checked(budget, seed)
    array, classes, teachers = _checked(votes, classes, counts, teachers)
    if isinstance(sigma, bool) or not (sigma > 0 and math.isfinite(sigma)):
        raise RequestError(f"sigma= must be positive and finite, got {shown(sigma)}")
    hat = eps / 2.0 if test_eps is None else float(test_eps)
    if not 0 < hat < eps:
        raise RequestError(f"test_eps= must lie between 0 and eps, got {shown(test_eps)}")
    plan = pate_plan(
        array.shape, classes, counts=counts, teachers=teachers, sigma=float(sigma), test_eps=hat,
        eps=eps, delta=delta,
    )  # fmt: skip
    door, (labels, eps_total, order) = answered(
        "dp_pate(...)", plan, release_labels, lambda: array, budget, seed
    )
    door.note(labels is not None)
    if labels is None:
        tell(NoReplyWarning("no reply: the private test did not pass; the charge stands"))
    queries = array.shape[0 if counts else 1]
    stats = {"order": order, "teachers": float(teachers), "queries": float(queries)}
    return PateResult(labels, eps_total, plan.free, door.guarantee, stats)
