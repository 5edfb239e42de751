"""``dp_eptr``, ``dp_gptr``, ``dp_select``, ``dp_vote``, ``dp_pate``: a user's own mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpmodels.api.call import call
from dpmodels.api.regressions import dp_ols
from dpmodels.arrays import with_numpy_defaults
from dpmodels.door import checked, run_stage
from dpmodels.errors import NoReplyWarning, RequestError, choice, shown
from dpmodels.formula.schema import Schema
from dpmodels.lazy import pd
from dpmodels.models.selection import select, select_tested
from dpmodels.models.votes import PateResult, VoteResult, pate_plan, vote_plan
from dpmodels.own.voting import release_labels, release_winner
from dpmodels.privacy.composition import Guarantee
from dpmodels.quiet import tell
from dpmodels.records import check_eps_delta
from dpmodels.results.fit import Fit
from dpmodels.sources.tables import listed_numbers, whole_numbers, withheld
from dpmodels.tables.table import Result, Table
from dpmodels.verbs import like


@like(dp_ols)
def dp_eptr(
    estimator: Callable[..., Any],
    safety: Callable[..., Any],
    alpha: float | Callable[[float], float],
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float,
    method: str | None = None,
    size: int = 1,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    budget: Any = None,
    seed: int | None = None,
    **options: Any,
) -> Fit:
    """Release a user's estimator by efficient Propose-Test-Release.

    You supply an estimator T, a *safety lower bound* gamma >= 0 and a bound alpha, with a proof
    that for tables X, X' of n rows that differ in one row

    (i) ``|gamma(X) - gamma(X')| <= 1``;
    (ii) ``gamma(X) > 0`` implies ``|T(X) - T(X')| <= alpha`` for every neighbour X'.

    ``dpmodels.check_safety`` searches for counterexamples on synthetic tables.

    Parameters
    ----------
    estimator : function
        (n, k) array -> vector of ``size``. If it raises or is not finite, T := 0.
    safety : function
        (n, k) array -> gamma (method "coin"), the distance to the unsafe tables (method "ptr"), or
        a statistic of sensitivity ``sensitivity=`` (method "bound"). Raising, NaN: 0.
    alpha : float or function
        The bound of (ii); for method "bound" a decreasing function h(l) that bounds the change of
        T whenever l is at most the larger of the two statistics.
    formula : str
        The columns handed to the functions: ``"x1 + x2 ~ 1"``. Declared ranges are enforced first;
        a row with a missing cell is a row of zeros.
    data, eps, delta, budget, seed, schema, bounds
        As in :func:`dpmodels.dp_ols`. Ranges are not estimated here.
    method : {"coin", "ptr", "bound"}
    size : int
        Length of the estimate.
    names : sequence of str, optional
        Names of its entries.
    **options
        ``test_share=`` (share of eps for the test), ``coin=`` ("integer", "sharp", "logistic"),
        ``sensitivity=``, and the common ones.

    Returns
    -------
    Fit
        ``params``: the noisy estimate, or NaN after a no-reply.

    Privacy
    -------
    Unit: one row. Neighbours: replace one row, n public. (eps, delta), **if (i) and (ii) hold** -
    also where T is replaced by 0, so gamma must be 0 there. Charged before noise is drawn.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dpmodels as dp
    >>> def mean(x):
    ...     return [x.mean()]
    >>> def always_safe(x):  # a clipped mean is safe everywhere: any constant is 1-Lipschitz
    ...     return 1e6
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_eptr(mean, always_safe, 52 / 20190, "mdvis ~ 1", dp.datasets.rand_hie(),
    ...                      eps=1, delta=1e-6, bounds={"mdvis": (0, 52)}, seed=1)
    >>> round(float(fit.params.iloc[0]), 1)
    2.9
    """
    names = _named(names, size)
    return call(
        "dp_eptr", default="coin", estimator=estimator, safety=safety, alpha=alpha, formula=formula,
        data=data, eps=eps, delta=delta, method=method, size=size, names=names, schema=schema,
        bounds=bounds, budget=budget, seed=seed, options=options,
    )  # fmt: skip


@like(dp_ols)
def dp_gptr(
    mechanism: Callable[..., Any],
    privacy_loss: Callable[..., Any],
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float,
    sensitivity: float,
    test: str = "propose",
    size: int = 1,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    budget: Any = None,
    seed: int | None = None,
    **options: Any,
) -> Fit:
    """Release a user's mechanism whose privacy loss depends on the data.

    Parameters
    ----------
    mechanism : function
        ``mechanism(Z, noise)`` (test="propose") or ``mechanism(Z, phi, noise)`` (test="choose")
        -> vector of ``size``. ``noise.normals(k)``, ``noise.uniforms(k)`` draw.
    privacy_loss : function
        "propose": ``eps(Z)``, such that at Z, against every neighbour, the mechanism is
        (eps(Z), delta_m)-DP, delta_m = 0.9 of the add/remove delta. "choose": a statistic.
    formula : str
        The columns handed to the functions as an (n, k) array: ``"x1 + x2 ~ 1"``. Declared ranges
        are enforced first; a row with a missing cell is a row of zeros.
    eps, delta, data, budget, seed, schema, bounds
        As in :func:`dpmodels.dp_ols`. Ranges are not estimated here.
    sensitivity : float
        Bound on the change of ``privacy_loss`` between neighbours.
    test : {"propose", "choose"}
        Algorithm 2 (may not reply) or Algorithm 5 (always replies; needs ``choose=``).
    size : int
        Length of the output.
    names : sequence of str, optional
    **options
        ``choose=`` (function (bound, eps, delta) -> phi), ``test_share=``, ``proof=``
        ("add-remove", the default, or "replace": the relation of the user's proofs).

    Returns
    -------
    Fit

    Privacy
    -------
    Unit: one row; replace-one, n public (or ``relation="add-remove"``). (eps, delta), **if** the
    sensitivity and the privacy loss are right. Validity is needed at the data set at hand only.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> def noisy_mean(Z, noise):  # sd 1/10: eps(Z) is a constant here
    ...     return [Z.mean() + 0.1 * noise.normals(1)[0]]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fit = dp.dp_gptr(noisy_mean, lambda Z: 0.1, "mdvis ~ 1", dp.datasets.rand_hie(),
    ...         eps=4, delta=1e-6, sensitivity=1e-3, bounds={"mdvis": (0, 50)}, seed=1)
    >>> bool(abs(fit.params.iloc[0] - 2.86) < 0.5)
    True
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RequestError(
            f"size= is the length of the output, for example size=1; got {shown(size)}"
        )
    names, method = _named(names, size), test
    return call(
        "dp_gptr", default=method, inference=False, mechanism=mechanism, privacy_loss=privacy_loss,
        formula=formula, data=data, eps=eps, delta=delta, sensitivity=sensitivity, size=size,
        names=names, schema=schema, bounds=bounds, budget=budget, seed=seed, options=options,
        method=method,
    )  # fmt: skip


def _named(names: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    """Return the names of the entries of an output, if they are as many."""
    if names is not None and len(names) != size:
        raise RequestError(f"names= has {len(names)} entries, size={size}")
    return None if names is None else tuple(names)


@dataclass(frozen=True, repr=False)
class Selection(Result):
    """Choice of :func:`dp_select`."""

    output: Any  # Output of the best-scored run, or None if no run replied
    reply: bool
    privacy: Guarantee  # Guarantee of the whole choice

    def table(self) -> Table:
        """Return the choice and its cost."""
        reply = repr(self.output) if self.reply else "NO REPLY"
        facts = (("Output", reply), ("Privacy", self.privacy.statement()))
        return Table(title="Choice of private candidates", facts=facts)

    def tidy(self) -> Any:
        """Return one row per number of the output."""
        listed = self.output if isinstance(self.output, (tuple, list)) else [self.output]
        numbers = [v for v in listed if isinstance(v, (int, float)) and not isinstance(v, bool)]
        return pd.DataFrame({"term": [f"output {k}" for k in range(1, len(numbers) + 1)],
                             "estimate": numbers})  # fmt: skip

    def __repr__(self) -> str:
        reply = type(self.output).__name__ if self.reply else "NO REPLY"
        return f"<Selection: {reply} | {self.privacy.statement()}>"


@with_numpy_defaults
def dp_select(
    candidates: Sequence[Callable[..., Any]],
    *,
    eps: float,
    delta: float,
    proof: str = "pair",
    mean: float = 30.0,
    relation: str = "replace",
    budget: Any = None,
    seed: int | None = None,
) -> Selection:
    """Run random candidates a random number of times and return the best-scored output.

    For methods that have to be *tuned*, each run private and each with a score: generalized
    Propose-Test-Release with selection (Redberg, Zhu and Wang 2023, Algorithm 3), with a tighter
    account. Choosing by a formula, or among numbers already released, is free and needs none of it.

    Parameters
    ----------
    candidates : sequence of function
        ``proof="pair"``: ``f(eps, delta, noise) -> (score, output)``, or None for no reply, with
        the (eps, delta) that a run may have. ``proof="gdp"``: ``f(mu, noise) -> (score, output)``,
        each run mu-GDP. Score and output together are the release: the score is a function of
        public data and of the output, never of private rows. A candidate that fails does not reply.
    eps, delta : float
        Of the whole choice, however many runs there are.
    proof : {"pair", "gdp"}
        What is proved of a run. Tested candidates (``dp_eptr``, ``dp_gptr``) state pairs.
    mean : float
        Expected number of runs (geometric). Give a few times the number of candidates.
    relation : {"replace", "add-remove"}
        Neighbours for which the candidates are private; the guarantee states the same.
    budget : Budget, optional
        Charged once, for the choice; calls inside candidates are part of it, whatever theirs is.
    seed : int, optional
        For tests: the result is then NOT PRIVATE, as it is where a candidate is given one.

    Returns
    -------
    Selection

    Privacy
    -------
    Unit: one row, as for the candidates. (eps, delta), **if** every candidate is private at what
    it is given: (eps/3, delta/((1 + e^eps) mean)) a run, or the mu of a run. Charged before the
    first run. The number of runs has to stay secret: candidates must not print, log or count.
    Progress bars of calls inside are not shown, and their ``budget=`` is not charged: every call
    counts against what its run may spend, in threads too. Where a run spends more, or protects
    another unit or against other neighbours, the guarantee is marked NOT PROVED. While the choice
    runs, calls with a budget in other threads are refused. Other processes are not seen.

    Examples
    --------
    >>> import dpmodels as dp
    >>> visits = dp.datasets.rand_hie()
    >>> def clipped_mean(top):  # one candidate: the mean of visits, clipped at ``top``
    ...     def run(eps, delta, noise):
    ...         fit = dp.dp_eptr(lambda x: [x.mean()], lambda x: 1e6, top / 20190, "mdvis ~ 1",
    ...                          visits, eps=eps, delta=delta, bounds={"mdvis": (0, top)})
    ...         mean = float(fit.params.iloc[0])
    ...         return -abs(mean - 2.9), (top, mean)  # score: near a figure published elsewhere
    ...     return run
    >>> chosen = dp.dp_select([clipped_mean(top) for top in (5, 50)], eps=3, delta=1e-6, mean=10)
    >>> chosen.reply and 1 < chosen.output[1] < 4
    True
    """
    eps, delta = check_eps_delta(eps, delta)
    listed = list(candidates) if isinstance(candidates, (list, tuple)) else []
    if not listed or not all(callable(f) for f in listed):
        raise RequestError("candidates= must be a list of at least one function")
    if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not 1 < mean < 1e6:
        raise RequestError("mean= is the expected number of runs, a number above 1, say mean=30")
    choice("relation", relation, ("replace", "add-remove"))
    choice("proof", proof, ("pair", "gdp"))
    common: dict[str, Any] = {
        "eps": eps, "delta": delta, "mean": float(mean), "relation": relation, "budget": budget,
        "seed": seed,
    }  # fmt: skip
    output, guarantee = (select_tested if proof == "pair" else select)(listed, **common)
    return Selection(output, output is not None, guarantee)


# -- ``dp_vote``, ``dp_pate``: votes and labels of many queries.


@with_numpy_defaults
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
    the other half pays for noisy counts. Charged in full either way.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     dp.dp_vote(["a"] * 300 + ["b"] * 60, ["a", "b"], eps=1, delta=1e-6, seed=1).label
    'a'
    """
    eps, delta = check_eps_delta(eps, delta)
    names = list(classes) if not isinstance(classes, str) else []
    if len(names) < 2 or len(set(map(repr, names))) != len(names):
        raise RequestError("classes= must be a list of at least two different candidates")
    if isinstance(votes, str) or not hasattr(votes, "__len__"):
        raise RequestError("votes must be a list, an array or a Series with one vote per voter")
    plan = vote_plan(names, len(votes), eps, delta)
    door, (winner, stable, lower) = run_stage(
        "dp_vote(...)", plan, release_winner, lambda: votes, budget, seed
    )
    return VoteResult(names[winner], stable, lower, door.guarantee)


def _checked(votes: Any, classes: Any, counts: bool, teachers: Any) -> tuple[Any, int, int]:
    """Return (array, classes, teachers) after checks of shape and type alone."""
    import numpy as np

    typed = hasattr(votes, "dtype") or hasattr(votes, "__array__")
    masked = isinstance(votes, np.ma.MaskedArray)
    if masked or any(hasattr(votes, a) for a in ("columns", "__arrow_c_stream__")):
        array = withheld(lambda: whole_numbers(votes))
    else:
        array = np.asarray(votes) if typed else listed_numbers(votes)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise RequestError(
            "votes must be a two-dimensional array of whole numbers: labels (teachers, queries), "
            f"or counts (queries, classes) with counts=True; got shape {array.shape}, "
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


@with_numpy_defaults
@like(dp_vote)
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
    teachers : int, optional
        Their number, where ``votes`` are counts: a public fact.
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
    door, (labels, eps_total, order) = run_stage(
        "dp_pate(...)", plan, release_labels, lambda: array, budget, seed
    )
    door.note(labels is not None)
    if labels is None:
        tell(NoReplyWarning("no reply: the private test did not pass; the charge stands"))
    queries = array.shape[0 if counts else 1]
    stats = {"order": order, "teachers": float(teachers), "queries": float(queries)}
    return PateResult(labels, eps_total, plan.free, door.guarantee, stats)
