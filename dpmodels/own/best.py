"""Choice of the best of a random number of private candidates (``models/custom.md``, 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpmodels import messages
from dpmodels.door import run_stage
from dpmodels.errors import NotPrivateWarning, RequestError
from dpmodels.privacy.composition import Guarantee, delta_of_parts
from dpmodels.privacy.mechanisms import RDP, Approximate, Gaussian, Step, delta_gdp
from dpmodels.privacy.run import own_proof
from dpmodels.quiet import no_bars, quiet, tell
from dpmodels.sums.ask import Ask

BEST_STEP = "best candidate"


def geometric_rdp(alpha: float, *, mu: float, mean: float) -> float:
    """Return the Renyi curve of the best of K runs, K geometric with the given mean, mu-GDP each.

    eps(a) + 2 (1 - 1/b) eps(b) + 2 log(E K)/b + log(E K)/(a - 1), least over b >= 1.
    """
    # eps(b) = b mu^2/2: the sum (b - 1) mu^2 + 2 log(EK)/b is least at b = sqrt(2 log(EK))/mu
    log_k = math.log(mean)
    b = max(1.0, math.sqrt(2.0 * log_k) / mu)
    penalty = (b - 1.0) * mu * mu + 2.0 * log_k / b
    return 0.5 * alpha * mu * mu + penalty + log_k / (alpha - 1.0)


def poisson_rdp(alpha: float, *, mu: float, mean: float) -> float:
    """Return the Renyi curve of the best of K runs, K Poisson; the empty choice is an output.

    eps(a) + m d^ + log(m)/(a - 1), where every run is (log(1 + 1/(a-1)), d^)-DP.
    """
    hat = delta_gdp(math.log1p(1.0 / (alpha - 1.0)), mu)
    return 0.5 * alpha * mu * mu + mean * hat + math.log(mean) / (alpha - 1.0)


#: Relative error of a sum of charges that is rounding.
_ROUNDING = 1.0 + 1e-9
#: Values of eps at which the cost of a run is compared to that of its mu.
_EPS_GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
NOT_PROVED = messages.NOT_PROVED()


def pair_per_candidate(eps: float, delta: float, mean: float) -> tuple[float, float]:
    """Return the (eps, delta) each run may have so that the choice of the best has the given one.

    ``(eps/3, delta / ((1 + e^eps) mean))``, the number of runs geometric: ``custom.md``, 7.1.
    """
    if not mean > 1:
        raise RequestError("mean= is the expected number of runs, a number above 1")
    return eps / 3.0, delta / ((1.0 + math.exp(eps)) * mean)


@dataclass(frozen=True)
class Choice:
    """Public facts of a choice before a candidate runs."""

    guarantee: Guarantee
    mean: float  # Expected number of runs, unless it is a parameter of the charged step
    n: int | None = None
    advice: tuple[str, ...] = ()


def share_of_a_run(charged: RDP | Approximate, mean: float) -> tuple[str, float, tuple[float, ...]]:
    """Return (law of the number of runs, its mean, budget of one run), by the charged step."""
    if isinstance(charged, Approximate):
        return "geometric", mean, pair_per_candidate(charged.eps, charged.delta, mean)
    runs = dict(charged.parameters)
    return charged.name.split()[2], runs["mean"], (runs["mu"],)


def _runs(kind: str, mean: float, u: float) -> int:
    """Return K by inversion of its distribution function."""
    if kind == "geometric":
        return 1 + math.floor(math.log(u) / math.log1p(-1.0 / mean))
    k, term = 0, math.exp(-mean)
    total = term
    while total < u and k < 100 * mean + 1000:
        k += 1
        term *= mean / k
        total += term
    return k


class _Paid:
    """Stands for the budget while candidates run: the choice was charged as a whole.

    A charge per run would also reveal the number of runs, which the proof needs to be secret.

    Parameters
    ----------
    promise : Guarantee
        That of the choice: its neighbours.
    arguments : tuple of float
        What one run may spend: a mu, or a pair (eps, delta).
    around : sequence
        Those of the choices of which this one is a part: what is wrong here is wrong there.
    """

    def __init__(
        self, promise: Guarantee, arguments: tuple[float, ...], around: Sequence[_Paid] = ()
    ) -> None:
        self.promise, self.arguments, self.around = promise, arguments, around
        self.run: list[Guarantee] = []
        self.seeded = self.overspent = False

    def charge(self, call: str, guarantee: Guarantee) -> None:
        """Charge nothing. Remember the guarantee of the call and whether its noise was seeded."""
        self.seeded |= guarantee.seeded
        self.run.append(guarantee)

    def end_of_run(self) -> None:
        """Add up the calls of a run, and remember if they cost more than the run may spend."""
        calls, self.run = self.run, []
        self.overspent |= bool(calls) and not _within(self.promise, self.arguments, calls)
        for choice in self.around:
            choice.overspent |= self.overspent
            choice.seeded |= self.seeded

    def note(self, charge: None, step: str, text: str) -> None:
        """Record nothing: the outcome of a run is as secret as its existence."""


def _within(mine: Guarantee, arguments: tuple[float, ...], calls: Sequence[Guarantee]) -> bool:
    """Return whether the calls of one run together cost at most the budget of the run.

    They must protect the unit of the choice against its neighbours, too.
    """
    if any((call.relation, call.unit) != (mine.relation, mine.unit) for call in calls):
        return False
    if len(arguments) == 2:
        eps, delta = arguments
        return (
            math.fsum(call.eps for call in calls) <= eps * _ROUNDING
            and math.fsum(call.delta for call in calls) <= delta * _ROUNDING
        )
    (mu,) = arguments
    steps = [step for call in calls for step in call.steps]
    return all(
        delta_of_parts(steps, eps) <= delta_of_parts([Step("run", Gaussian(mu))], eps) * _ROUNDING
        for eps in _EPS_GRID
    )


def _run(candidate: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return (score, output) of one run; minus infinity where it does not reply.

    A candidate reads private rows: whether it fails is a function of them, and so is any warning.
    """
    try:
        with quiet():
            scored = candidate(*arguments)
            if scored is None:
                return -math.inf, None
            score, output = scored
            score = float(score)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None
    except BaseException:
        return -math.inf, None
    return (score, output) if math.isfinite(score) else (-math.inf, None)


def _best(plan: Choice, ask: Ask) -> tuple[Any, _Paid]:
    """Run random candidates, as many as the coins say; return the output of the best score.

    With it whether a run was seeded: then nothing is promised, and which of them ran is shown too.
    """
    raw = ask.raw(own_proof("selection"))
    candidates = raw.rows
    from dpmodels.privacy.budget import already_charged, enclosing_choices

    kind, mean, arguments = share_of_a_run(raw.mechanism(BEST_STEP), plan.mean)
    paid = _Paid(plan.guarantee, arguments, enclosing_choices())
    noise = raw.inner_source(BEST_STEP)
    best_score, best = -math.inf, None
    with already_charged(paid), no_bars():
        for _ in range(_runs(kind, mean, float(noise.uniforms(1)[0]))):
            chosen = min(len(candidates) - 1, int(float(noise.uniforms(1)[0]) * len(candidates)))
            score, output = _run(candidates[chosen], *arguments, noise)
            paid.end_of_run()
            if score > best_score:
                best_score, best = score, output
    return best, paid


def chosen(
    call: str, plan: Choice, candidates: Sequence[Callable[..., Any]], budget: Any, seed: int | None
) -> tuple[Any, Guarantee]:
    """Charge, choose, and mark the choice if a candidate's noise was seeded."""
    door, (best, paid) = run_stage(call, plan, _best, lambda: candidates, budget, seed)
    guarantee = door.guarantee
    if paid.overspent:
        guarantee = replace(guarantee, notes=(NOT_PROVED, *guarantee.notes))
    if paid.seeded and not guarantee.seeded:
        door.remark(BEST_STEP, "NOT PRIVATE: a candidate was seeded")
        tell(NotPrivateWarning("a candidate was given a seed=: the choice is NOT PRIVATE"))
        return best, guarantee.not_private()
    if paid.overspent:
        door.remark(BEST_STEP, "NOT PROVED: a candidate spent more than it may, or for others")
        tell(NotPrivateWarning(str(NOT_PROVED)))
    return best, guarantee
