"""A run: the only door through which numbers leave the private stage.

It is made from the steps of a plan. Each step can be drawn once, with the mu that the plan
declared; a release that was not declared, or a second draw of one that was, is refused. So what
is charged (the plan) and what is released (the run) cannot drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.mechanisms import Approximate, Gaussian
from dpmodels.privacy.noise import NoiseSource
from dpmodels.privacy.steps import Step

__all__ = ["ROUND_UP", "Run"]

#: Every noise scale is rounded up by this factor: it pays for root finders and for the lattice.
ROUND_UP = 1.0 + 1e-9
#: Noise sd over grid step; below this the lattice is refined before noise is added.
_FINE = 1 << 20


class Run:
    """The draws of one call.

    Parameters
    ----------
    steps : iterable of Step
        The plan's steps.
    noise : NoiseSource
        From :func:`dpmodels.privacy.noise.make_noise`.
    """

    def __init__(self, steps: Iterable[Step], noise: NoiseSource) -> None:
        self._open = {step.name: step for step in steps}
        self.noise = noise

    def _take(self, name: str, kind: type) -> Any:
        step = self._open.pop(name, None)
        if step is None:
            raise PrivacyBugError(f"step {name!r} is not in the plan, or was drawn already")
        if not isinstance(step.mechanism, kind):
            raise PrivacyBugError(f"step {name!r} is planned as {step.mechanism!r}")
        return step.mechanism

    def gaussian(
        self,
        name: str,
        value: npt.ArrayLike,
        sensitivity: float,
        *,
        weights: npt.ArrayLike = 1.0,
        unit: float = 1.0,
    ) -> npt.NDArray[np.float64]:
        """Release an integer vector with exact discrete Gaussian noise; return it times ``unit``.

        Parameters
        ----------
        name : str
            A step of the plan, of kind Gaussian(mu).
        value : array of int (object or int64), any shape
            The lattice statistic.
        sensitivity : float
            L2 sensitivity of ``weights * value``, in lattice units.
        weights : array broadcastable to ``value``
            Entry j gets noise of sd ``sensitivity / (mu * weights_j)``.
        unit : float
            Size of a lattice step in the statistic's own units.
        """
        mu = self._take(name, Gaussian).mu
        value = np.asarray(value, dtype=object)
        flat = [int(v) for v in value.ravel()]
        w = np.broadcast_to(np.asarray(weights, dtype=float), value.shape).ravel()
        out = np.empty(len(flat))
        sds = [sensitivity / (mu * wj) * ROUND_UP for wj in w.tolist()]
        for sd in sorted(set(sds)):
            index = [j for j, sd_j in enumerate(sds) if sd_j == sd]
            fine = max(0, math.ceil(math.log2(_FINE / sd))) if sd < _FINE else 0
            sigma2 = Fraction(sd * 2.0**fine) ** 2
            draws = self.noise.discrete_gaussian(sigma2, len(index))
            for j, k in zip(index, draws, strict=True):
                out[j] = float(Fraction((flat[j] << fine) + k, 1 << fine)) * unit
        return out.reshape(value.shape)

    def gaussian_real(
        self, name: str, value: npt.ArrayLike, sensitivity: float
    ) -> npt.NDArray[np.float64]:
        """Release a real vector: rounded to a public grid of 2^-30 sensitivity, then as above.

        ``sensitivity`` must already contain the float allowance of the statistic (2^-20 of it
        pays for the rounding).
        """
        grid = sensitivity * 2.0**-30
        value = np.asarray(value, dtype=float)
        k = np.array([round(v / grid) for v in value.ravel().tolist()], dtype=object)
        return self.gaussian(name, k.reshape(value.shape), 2.0**30, unit=grid)

    def coin_gaussian(
        self, name: str, probability: float, value: npt.ArrayLike, sd: float
    ) -> npt.NDArray[np.float64] | None:
        """Reply with the given probability, then with Gaussian noise of sd ``sd`` on ``value``.

        The accounting of the pair is the method's own proof (efficient Propose-Test-Release).
        Returns None for "no reply".
        """
        self._take(name, Approximate)
        if not self.noise.bernoulli(probability):
            return None
        value = np.asarray(value, dtype=float)
        grid = sd * 2.0**-30
        sigma2 = Fraction(2.0**30 * ROUND_UP) ** 2
        draws = self.noise.discrete_gaussian(sigma2, value.size)
        flat = [
            (round(v / grid) + k) * grid for v, k in zip(value.ravel().tolist(), draws, strict=True)
        ]
        return np.array(flat).reshape(value.shape)
