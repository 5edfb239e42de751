"""``dp_pate``: labels from the votes of teachers, with differential privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpmodels.api.vote import charged_run
from dpmodels.errors import NoReplyWarning, RequestError, shown
from dpmodels.request import check_eps_delta

if TYPE_CHECKING:
    from dpmodels.models.votes.votes import PateResult

__all__ = ["dp_pate"]


def _checked(votes: Any, classes: Any, counts: bool, teachers: Any) -> tuple[Any, int, int]:
    """Return (array, classes, teachers) after checks of shape and type alone."""
    import numpy as np

    typed = hasattr(votes, "dtype") or hasattr(votes, "__array__")
    masked = isinstance(votes, np.ma.MaskedArray)
    if masked or any(hasattr(votes, a) for a in ("columns", "__arrow_c_stream__")):
        from dpmodels.sources.adapt import _withheld
        from dpmodels.sources.matrix import whole_numbers

        array = _withheld(lambda: whole_numbers(votes))
    else:
        array = np.asarray(votes) if typed else _listed(votes)
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


def _listed(votes: Any) -> Any:
    """Return nested lists as whole numbers, cell by cell; what is none is an abstention, -1.

    A list has no type: numpy would find one from its cells, and one odd vote would be an error.
    """
    import numpy as np

    rows = [list(row) if hasattr(row, "__len__") and not isinstance(row, str) else None
            for row in votes] if hasattr(votes, "__len__") else []  # fmt: skip
    widths = {-1 if row is None else len(row) for row in rows}
    if len(widths) != 1 or -1 in widths:
        raise RequestError("votes takes a two-dimensional array, or rows of equal length")
    out = np.full((len(rows), widths.pop()), -1, dtype=np.int64)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row or ()):
            whole = isinstance(cell, (int, np.integer)) and not isinstance(cell, bool)
            if whole and abs(int(cell)) < 1 << 62:
                out[i, j] = cell
    return out


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
    import warnings

    import numpy as np

    from dpmodels.api.run import guarded
    from dpmodels.models.votes.votes import (
        PateResult,
        answer_queries,
        answer_untested,
        data_independent_eps,
        float_notes,
        pate_steps,
    )
    from dpmodels.privacy.guarantee import Guarantee

    eps, delta = check_eps_delta(eps, delta)
    array, classes, teachers = _checked(votes, classes, counts, teachers)
    if isinstance(sigma, bool) or not (sigma > 0 and math.isfinite(sigma)):
        raise RequestError(f"sigma= must be positive and finite, got {shown(sigma)}")
    hat = eps / 2.0 if test_eps is None else float(test_eps)
    if not 0 < hat < eps:
        raise RequestError(f"test_eps= must lie between 0 and eps, got {shown(test_eps)}")
    queries = array.shape[0] if counts else array.shape[1]
    free = data_independent_eps(float(sigma), queries, delta)
    guarantee = Guarantee(
        pate_steps(eps, delta, float(sigma), queries),
        eps,
        delta,
        notes=float_notes() if free > eps else (),
    )
    run, guarantee = charged_run("dp_pate(...)", guarantee, budget, seed)

    def stage() -> Any:
        if counts:
            table = np.clip(array.astype(float), 0.0, teachers)
        else:
            table = np.stack([(array == c).sum(0) for c in range(classes)], axis=1).astype(float)
        if free <= eps:
            return answer_untested(table, run), free, math.nan
        return answer_queries(table, teachers, float(sigma), eps, hat, delta, run)

    labels, eps_total, order = guarded(stage)
    if labels is None:
        warnings.warn(
            NoReplyWarning("no reply: the private test did not pass; the charge stands"),
            stacklevel=2,
        )
    return PateResult(
        labels,
        eps_total,
        free,
        guarantee,
        {"order": order, "teachers": float(teachers), "queries": float(queries)},
    )
