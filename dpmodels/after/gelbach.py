"""Why a coefficient changes when others come in: Gelbach's decomposition, from second moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmodels.after.moments import Regression, SecondMoments, change, regress
from dpmodels.arrays import Array


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A coefficient of the base model, of the full one, and the parts of their difference.

    Attributes
    ----------
    values : (2 + q,) array
        Base, full, and ``delta_k = gamma_k beta_k`` of each column that came in; these add up to
        base less full exactly, whatever the noise.
    sampling, privacy : (2 + q, 2 + q) arrays
        The two parts of their covariance, by the delta method.
    trust : float
        Of the full model (``regression.UNUSABLE``).
    """

    values: Array
    sampling: Array
    privacy: Array
    trust: float


def decompose(m: SecondMoments, base: Array, j: int, added: Array, a: Array) -> Decomposition:
    """Return the decomposition of coefficient j of ``a'w`` on ``base w`` when ``added w`` come in.

    beta_k is the coefficient of a column that came in, in the full model; gamma_k the coefficient
    of column j where that column is regressed on the base model. All are regressions from one
    release: they share its noise, and equation (3) gives how (Gelbach 2016, equation 4).
    """
    p, q = len(base), len(added)
    full = regress(m, np.vstack([base, added]), a)
    alone = [regress(m, base, column) for column in added]
    picks: list[tuple[Regression, int]] = [(full, j)]
    picks += [(full, p + k) for k in range(q)] + [(one, j) for one in alone]
    covariance = np.zeros((2, len(picks), len(picks)))
    for s, (one, at) in enumerate(picks):
        for t, (two, to) in enumerate(picks[: s + 1]):
            for kind, both in enumerate(change(m, one, two)):
                covariance[kind, s, t] = covariance[kind, t, s] = both[at, to]
    beta, gamma = full.b[p:], np.array([one.b[j] for one in alone])
    gradient = np.zeros((2 + q, len(picks)))
    gradient[:2, 0] = 1.0
    gradient[2:, 1 : 1 + q], gradient[2:, 1 + q :] = np.diag(gamma), np.diag(beta)
    gradient[0] += gradient[2:].sum(axis=0)
    delta = gamma * beta
    values = np.concatenate([[full.b[j] + delta.sum(), full.b[j]], delta])
    sampling, privacy = (gradient @ part @ gradient.T for part in covariance)
    return Decomposition(values, sampling, privacy, full.trust)
