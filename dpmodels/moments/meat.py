"""The meat of a sandwich: released moments of scores, and what they say. Sees no row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Scores"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Released second moments of whitened scores (``scores.py``).

    Attributes
    ----------
    S : (p, p) array
        Of ``K^{-1} g`` over the rows, noise included; g is the score in the stage's coordinates.
    K : (p, p) array
        Lower triangular.
    radius : float
        Of the ball the whitened scores were scaled into.
    sd : float
        Noise scale of S in svec coordinates.
    """

    S: Array
    K: Array
    radius: float
    sd: float

    @property
    def meat(self) -> Array:
        """Return the second moments of the scores.

        Eigenvalues of S are floored at its noise scale, which is public given the radius: no
        variance is reported that is below the noise it was measured with.
        """
        values, vectors = np.linalg.eigh(self.S)
        root = self.K @ vectors * np.sqrt(np.maximum(values, self.sd))
        return np.asarray(root @ root.T)

    def noise(self, free: float, v: float) -> float:
        """Return the noise of a variance of the sandwich, relative to it: ``sd / (n_eff v)``."""
        return self.sd / ((free + len(self.S)) * v)

    def note(self, free: float, v: float) -> str:
        """Say what the standard errors cover, and how noisy they are themselves."""
        noise = self.noise(free, v)
        return (
            "Errors allow unequal variances (vcov='hetero': HC1 sandwich of the weighted least "
            "squares of the last stage, from one more release, the moments of its scores: see the "
            "budget), not correlated rows. The noise of that release has mean zero and is about "
            f"{noise:.1%} of a variance, {noise / 2.0:.1%} of a standard error; intervals are not "
            "widened for it."
        )
