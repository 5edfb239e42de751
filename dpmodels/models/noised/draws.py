"""The second randomisation, drawn at analysis time: X2 = X1 + S, S ~ SL(p D). Post-processing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.models.noised.model import Model

__all__ = ["second_model"]


def second_model(model: Model, seed: int | None) -> Model:
    """Return the data with SL(p D) added, as plain SL data (clear_prob = 0).

    It is distributed as the clean data plus SL(D): the ZIL and SL parts add up.
    """
    p = model.clear_prob
    if p == 0.0 or not len(model.K):
        return replace(model, clear_prob=0.0)
    if len(model.K) != 1:
        raise RequestError("a second draw needs noise in a single block")
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(p * model.K[0])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    live = np.flatnonzero(np.abs(root).sum(axis=0) > 0)
    z = rng.standard_normal((model.n, len(live)))
    z *= np.sqrt(rng.standard_exponential(model.n))[:, None]
    X, y = np.array(model.X, order="F"), np.array(model.y)
    noise = root[:, live]
    for j in range(model.p):
        if np.abs(noise[j]).sum() > 0:
            X[:, j] += z @ noise[j]
    if math.fsum(np.abs(noise[-1])) > 0:
        y += z @ noise[-1]
    return replace(model, X=X, y=y, clear_prob=0.0)
