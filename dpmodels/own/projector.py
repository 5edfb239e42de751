"""The projector on the leading eigenvectors, with a tested eigengap (``models/components.md``)."""

from __future__ import annotations

import math

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.mechanisms import failure_part
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import STEPS, Ball, svec, unsvec
from dpmodels.sums.ask import Added, Ask, Moments, Query

GAP, PROJECTOR = "eigengap", "projector"
#: Factor that allows for eigenvalues in floats.
_ALLOW = 1.0 + 2.0**-20


def projector_sensitivity(gap: float) -> float:
    """Return 1/(sqrt(2) (gap - 1)): Frobenius change of the top-k projector, a row of norm <= 1."""
    return 1.0 / (math.sqrt(2.0) * (gap - 1.0))


def eigengap(M: Array, k: int) -> float:
    """Return lambda_k - lambda_{k+1} of a symmetric matrix; one row changes it by at most 1."""
    values = np.linalg.eigvalsh(M)[::-1]
    return float(values[k - 1] - values[k])


def projector(M: Array, k: int) -> Array:
    """Return V_k V_k' of a symmetric matrix."""
    V = np.linalg.eigh(M)[1][:, -k:]
    return np.asarray(V @ V.T)


def gap_failure(mu_gap: float, mu_last: float, failure: float, relation: str) -> float:
    """Return the part of a failure that the bound of the gap has, or refuse an extreme eps."""
    factor = 2.0 if relation == "replace" else 1.0  # the proof is of a row added or removed
    core = math.sqrt((mu_gap / factor) ** 2 + (mu_last / factor) ** 2)
    return failure_part(core, failure, relation)


def tested_projector(over: Moments, k: int, ask: Ask) -> tuple[float, Array | None, float]:
    """Return a lower bound of the eigengap, the noisy projector, and the sd of its noise.

    The projector is None if the bound is not above 1.
    """
    raw, p = ask.raw(own_proof("projector")), over.set.dim
    if over.set != Ball(p):
        raise PrivacyBugError("the eigengap is that of rows in the unit ball")
    (first, failure, relation), (last, _, _) = ask.charged(GAP), ask.charged(PROJECTOR)
    factor = 2.0 if relation == "replace" else 1.0
    M = raw.total(over).real(np.full(p, 1.0 / STEPS))
    query = Query(Of("eigengap", ()), over, lambda _: Added(np.array([eigengap(M, k)])))
    miss = gap_failure(first.mu, last.mu, failure, relation)
    gap = float(ask(GAP, query).at_least(miss)[0])
    if gap <= 1.0 + 1e-6:
        return gap, None, math.inf
    bound = projector_sensitivity(gap) * _ALLOW
    out = raw.gaussian_real(PROJECTOR, svec(projector(M, k)), bound * factor)
    return gap, unsvec(out, p), bound / (last.mu / factor)
