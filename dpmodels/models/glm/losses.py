"""Losses of generalised linear models with a bounded score: what the privacy proofs need of them.

A row (x, y, w), |x| <= R, w |x| <= B, contributes w l(x'theta; y). Score w l' x, curvature
w l'' x x'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array

__all__ = ["LogisticLoss", "Loss", "PoissonLoss"]


@dataclass(frozen=True)
class LogisticLoss:
    """log(1 + exp(-t)), t = (2y - 1) eta: |l'| <= 1 with the sign of the label, l'' = a(1 - a).

    y is 0 or 1 (``WorkingRows`` voids rows of any other label: value and slope would be of
    different functions there). A void row is a zero row: its loss is the constant log 2.
    """

    score: float = 1.0
    curvature: float = 0.25
    one_sided: bool = True

    def terms(self, eta: Array, y: Array, w: Array) -> tuple[float, Array, Array]:
        """Return (sum of w l, w l' (m,), w l'' (m,)) at linear predictors ``eta``, weights w."""
        s = 2.0 * y - 1.0
        t = s * eta
        e = np.exp(-np.abs(t))
        # log(1 + e^-t) = max(-t, 0) + log(1 + e^-|t|); a = expit(-t)
        loss = float(w @ (np.maximum(-t, 0.0) + np.log1p(e)))
        curve = w * e / (1.0 + e) ** 2
        a = np.where(t >= 0, e, 1.0) / (1.0 + e)
        return loss, -s * a * w, curve

    def slope(self, eta: Array, y: Array, w: Array) -> Array:
        """Return w l' (m,) alone: expit(eta) - y."""
        from scipy.special import expit

        out: Array = expit(eta)
        out -= y
        out *= w
        return out


@dataclass(frozen=True)
class PoissonLoss:
    """Poisson loss with the mean function continued linearly above a public cap.

    m(eta) = e^eta for eta <= log M and M (1 + eta - log M) above; l = m(eta) - y eta, where the
    count y is clipped to [0, M]. Then l' = min(e^eta, M) - y lies in [-M, M] and l'' in [0, M].
    Where the true means stay below M it is the Poisson likelihood.
    """

    cap: float
    one_sided: bool = False

    @property
    def score(self) -> float:
        """Bound of |l'|."""
        return self.cap

    @property
    def curvature(self) -> float:
        """Bound of l''."""
        return self.cap

    def terms(self, eta: Array, y: Array, w: Array) -> tuple[float, Array, Array]:
        """Return (sum of w l, w l' (m,), w l'' (m,))."""
        top = float(np.log(self.cap))
        rate = np.exp(np.minimum(eta, top))
        mean = rate + self.cap * np.maximum(eta - top, 0.0)
        return float(w @ (mean - y * eta)), w * (rate - y), w * np.where(eta < top, rate, 0.0)

    def slope(self, eta: Array, y: Array, w: Array) -> Array:
        """Return w l' (m,) alone."""
        return np.asarray(w * (np.exp(np.minimum(eta, float(np.log(self.cap)))) - y))


Loss = LogisticLoss | PoissonLoss
