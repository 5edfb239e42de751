"""Corrected losses with kinks: check, hinge, Huber; notation of ``losses.py``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.noised import filters
from dpmodels.models.noised.filters import Kernel
from dpmodels.models.noised.losses import Loss, Terms

__all__ = ["KinkLoss", "check", "hinge", "huber"]


class KinkLoss(Loss):
    """s u + g(u), u = y - eta: slope s (a number or y/2) plus a convex part with g'' a measure.

    Parameters
    ----------
    kernel : Kernel
        g'' seen through Laplace filters.
    convex : callable(u) -> (g, g')
    slope : float or None
        None: y / 2 (hinge, y = -1 or 1).
    """

    kinked = True
    of_residual = True

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        convex: Callable[[Array], tuple[Array, Array]],
        slope: float | None,
    ) -> None:
        self.name, self.kernel, self.convex, self.slope = name, kernel, convex, slope
        self.public_y = slope is None

    def _base(self, y: Array, u: Array, h: float) -> tuple[Array, Array, Array | None]:
        """Return l_h, its derivative in eta, and l_h'' (None without smoothing)."""
        s = 0.5 * y if self.slope is None else self.slope
        g, g1 = self.convex(u)
        if h <= 0.0:
            return s * u + g, -(s + g1), None
        f = self.kernel(u, h)
        return s * u + g + h * h * f.one, -(s + g1 + h * h * f.one_slope), f.one

    def plain(self, y: Array, eta: Array, h: float, second: bool) -> Terms:
        """Return the (smoothed) loss."""
        l = self._base(y, y - eta, h)
        zero = np.zeros((0, len(eta)))
        return Terms(l[0], l[1], zero, l[2], zero)

    def corrected(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """Integrated correction of the smoothed loss."""
        u = y - eta
        kappa, q0 = t * (1.0 - p), float(q[0])
        l = self._base(y, u, h)
        b = math.sqrt(0.5 * p * q0)
        if q0 <= 0.0 or (h <= 0.0 and b <= 0.0):
            return Terms(l[0], l[1], np.zeros((1, len(u))))
        f = filters.smoothed(self.kernel, u, b, h)
        return Terms(
            l[0] - kappa * 0.5 * q0 * f.one,
            l[1] + kappa * 0.5 * q0 * f.one_slope,
            (-0.5 * kappa * f.two)[None],
        )

    def laplacian(
        self, y: Array, eta: Array, q: Array, p: float, t: float, h: float, second: bool
    ) -> Terms:
        """-kappa (q/2) l_h''."""
        if h <= 0.0:
            raise RequestError(f"the {self.name} loss has kinks: method='sdrcl' needs h > 0")
        k, q0 = t * (1.0 - p), float(q[0])
        f = self.kernel(y - eta, h)
        return Terms(-k * 0.5 * q0 * f.one, k * 0.5 * q0 * f.one_slope, (-0.5 * k * f.one)[None])


def check(tau: float) -> KinkLoss:
    """Return the check loss (tau - 1/2) u + |u|/2."""
    return KinkLoss(
        "check", filters.point, lambda u: (0.5 * np.abs(u), 0.5 * np.sign(u)), tau - 0.5
    )


def hinge() -> KinkLoss:
    """Return the hinge loss (1 - y eta)_+ for public y = -1 or 1."""
    return KinkLoss("hinge", filters.point, lambda u: (0.5 * np.abs(u), 0.5 * np.sign(u)), None)


def huber(k: float) -> KinkLoss:
    """Return Huber's loss with corners at -k and k."""

    def convex(u: Array) -> tuple[Array, Array]:
        c = np.clip(u, -k, k)
        return c * (u - 0.5 * c), c

    return KinkLoss("huber", filters.box(k), convex, 0.0)
