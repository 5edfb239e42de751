"""Class means behind a test, behind released counts, or with smooth noise (``models/bayes.md``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.classes import Classes
from dpmodels.core.sets import Reading
from dpmodels.privacy.mechanisms import agm
from dpmodels.privacy.noise import paper_midpoint, paper_sigma, reply_probability, split_midpoint
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.sums.ask import Added, Ask, Query, check_pair

TESTED, COUNTED, MEANS = "class means and test", "class counts and test", "class means"
#: Means with smooth noise are whole multiples of this.
_MEANS_GRID = 2.0**-30


@dataclass(frozen=True)
class PairConstants:
    """gamma, alpha, weight v of the shares (mu block), reply probability and noise sd."""

    gamma: float
    alpha: float
    weight: float
    probability: float
    sigma: float


def pair_constants(detail: Any, smallest: float, norm: float, n: int) -> PairConstants:
    """Return the constants of the form "fixed" or "paper" at the smallest class count min N_k.

    R: bound ``norm`` on a row; v: weight of the class shares.
    Fixed: ``gamma = (min N_k - N0 + 1)_+``, ``N0 = ceil(c0 n)``,
    ``alpha^2 = 4R^2/N0^2 + 4R^2/(N0+1)^2 + 2 v^2/n^2``. The class shares are scaled by v before
    the release and back after it, so that they do not get the noise of the means.
    Paper: ``gamma = (min N_k - c0 n - 1)_+``, ``alpha = sqrt(8 R^2/c0^2 + 8)/n``, v = 1.
    """
    eps = detail.eps_t + detail.eps_r
    if detail.form == "paper":
        gamma = max(0.0, smallest - detail.c0 * n - 1.0)
        # in units of R the shares weigh 1/R, so that their noise is the paper's
        weight = 1.0 if detail.radius is None else 1.0 / detail.radius
        alpha = math.sqrt(8.0 * norm**2 / detail.c0**2 + 8.0 * weight**2) / n
        p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
        return PairConstants(gamma, alpha, weight, p, paper_sigma(alpha, eps, detail.delta))
    n0 = max(1, math.ceil(detail.c0 * n))
    gamma = max(0.0, smallest - n0 + 1.0)
    means = 4.0 * norm**2 / n0**2 + 4.0 * norm**2 / (n0 + 1) ** 2
    # a tenth of the means' squared sensitivity is spent on the shares
    weight = n * math.sqrt(0.05 * means)
    alpha = math.sqrt(means + 2.0 * weight**2 / n**2) * (1.0 + 2.0**-20)
    p = reply_probability(gamma, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))
    return PairConstants(gamma, alpha, weight, p, alpha * agm(detail.eps_r, detail.delta))


def exact_means(counts: Any, sums: Any) -> Array:
    """Return the means of the classes (K, d), 0 of an empty one. **Confidential**."""
    return np.asarray(sums * 2.0**-20 / np.maximum(counts, 1)[:, None])


def counted_means(over: Reading, into: Classes, ask: Ask) -> dict[str, Array] | None:
    """Release noisy counts as lower bounds lb_k, and (lb_k mean_k)_k of sensitivity sqrt(8) R.

    Return None if a bound is below 1.
    """
    K, d = into.classes, into.within.dim
    failure = ask.charged(COUNTED)[1]
    answer = ask(COUNTED, into.query(over, "counts"))
    lower = np.floor(answer.at_least(failure / K))
    if lower.min() < 1:
        return None
    query = Query(
        Of("class means", (into.norm,), K * d), over,
        lambda sums: Added(lower[:, None] * exact_means(*sums.arrays[0].arrays[:2])),
    )  # fmt: skip
    means = ask(MEANS, query).values.reshape(K, d) / lower[:, None]
    return {"counts": answer.values, "means": np.clip(means, -1.0, 1.0), "lower": lower}


def tested_means(over: Reading, into: Classes, detail: Any, ask: Ask) -> dict[str, Array] | None:
    """Release class means behind a coin, or return None if it gives no reply."""
    check_pair(ask, TESTED, detail.eps_t + detail.eps_r, detail.delta)
    raw, n = ask.raw(own_proof("ePTR, class means")), ask.n
    counts, sums, _ = raw.total(over).arrays[0].arrays
    c = pair_constants(detail, float(counts.min()), into.norm, n)
    K, d = sums.shape
    value = np.concatenate([c.weight * counts / n, exact_means(counts, sums).ravel()])
    noisy = raw.coin_gaussian(TESTED, c.probability, value, c.sigma)
    if noisy is None:
        return None
    means = np.clip(noisy[K:].reshape(K, d), -1.0, 1.0)
    return {"counts": noisy[:K] / c.weight * n, "means": means}


# -- Noise at smooth sensitivity


def smoothness(eps: float, delta: float) -> float:
    """Return beta = eps / (2 log(2 e^(eps/2) / delta)), for which ``2 SS / eps`` noise is private.

    The usual ``eps / (2 log(2 / delta))`` is proved for e^(eps/2) <= 2 only, and gives up to five
    times delta at eps = 20; bayes.md, section 9 has the proof for every eps.
    """
    return eps / (eps + 2.0 * math.log(2.0 / delta))


def smooth_sensitivity(count: int, beta: float) -> float:
    """Return the beta-smooth sensitivity of a class mean of values in [-1, 1].

    Local sensitivity at distance t: ``min(2, 2 / max(N - t, 1))`` (a row leaves, enters or moves
    within the class); smooth: ``max_t exp(-beta t) LS_t`` (Nissim, Raskhodnikova and Smith 2007).
    The maximum is at t = 0 or where ``N - t = 1/beta``, or at ``t = N - 1``.
    """
    best = 0.0
    inner = max(0, math.floor(count - 1.0 / beta))
    for t in {0, inner, inner + 1, max(0, count - 1)}:
        if 0 <= t <= max(0, count - 1):
            best = max(best, math.exp(-beta * t) * min(2.0, 2.0 / max(count - t, 1)))
    return best


def smooth_means(over: Reading, into: Classes, ask: Ask) -> Array:
    """Add ``2 SS / eps'`` Laplace noise to each class mean; see :func:`smoothness`."""
    pair, parts = ask.charged(MEANS)[0], 2.0 * into.within.dim
    raw = ask.raw(own_proof("smooth sensitivity, class means"))
    counts, sums, _ = raw.total(over).arrays[0].arrays
    eps, delta = pair.eps / parts, pair.delta / parts
    beta = smoothness(eps, delta)
    exact = exact_means(counts, sums)
    spread = np.array([smooth_sensitivity(int(c), beta) for c in counts.tolist()])
    scale = np.broadcast_to((2.0 / eps) * spread[:, None], exact.shape)
    return np.clip(raw.scaled_laplace(MEANS, exact, scale, grid=_MEANS_GRID), -1.0, 1.0)
