"""``dp_select``: the best of several private candidates, for one price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpmodels.errors import RequestError, choice
from dpmodels.privacy.guarantee import Guarantee

__all__ = ["Selection", "dp_select"]


@dataclass(frozen=True)
class Selection:
    """What :func:`dp_select` chose.

    Attributes
    ----------
    output : object
        Of the best-scored run; None if no run replied.
    reply : bool
    privacy : Guarantee
        Of the whole choice.
    """

    output: Any
    reply: bool
    privacy: Guarantee

    def __repr__(self) -> str:
        reply = type(self.output).__name__ if self.reply else "NO REPLY"
        return f"<Selection: {reply} | {self.privacy.statement()}>"


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
        Charged once, for the choice; calls inside candidates are part of it.
    seed : int, optional
        For tests: the result is then NOT PRIVATE, as it is where a candidate is given one.

    Returns
    -------
    Selection

    Privacy
    -------
    Unit: one row, as for the candidates. (eps, delta), **if** every candidate is private at what
    it is given: (eps/3, delta/((1 + e^eps) mean)) a run, or the mu of a run. Charged before the
    first run. The number of runs has to stay secret: candidates must not print, log, count or
    give a budget of their own. Progress bars of calls inside are not shown.

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
    from dpmodels.models.custom.selection import select, select_tested
    from dpmodels.request import check_eps_delta

    eps, delta = check_eps_delta(eps, delta)
    listed = list(candidates) if isinstance(candidates, (list, tuple)) else []
    if not listed or not all(callable(f) for f in listed):
        raise RequestError("candidates= takes a list of at least one function")
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
