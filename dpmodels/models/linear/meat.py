"""The meat of a sandwich: released moments of scores, and what they say. Sees no row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array

__all__ = ["Scores"]


@dataclass(frozen=True, eq=False)
class Scores:
    """Released second moments of whitened scores (``scores.py``).

    Attributes
    ----------
    inside : (p, p) array
        Of ``K^{-1} g`` over the rows, noise included; g is the score in the stage's coordinates.
    K : (p, p) array
        Lower triangular.
    radius : float
        Of the ball the whitened scores were scaled into.
    sd : float
        Noise scale of S in svec coordinates.
    outside : (p, p) array or None
        Of the rows that were scaled onto the ball of the stage; ``inside`` is then the others.
    """

    inside: Array
    K: Array
    radius: float
    sd: float
    outside: Array | None = None

    @property
    def S(self) -> Array:
        """Return the moments over all rows."""
        return self.inside if self.outside is None else self.inside + self.outside

    @property
    def values(self) -> dict[str, Array]:
        """Return the released matrices by name."""
        both = {"scores": self.inside, "scores outside": self.outside}
        return {name: S for name, S in both.items() if S is not None}

    @property
    def meat(self) -> Array:
        """Return the second moments of the scores.

        Eigenvalues of S are floored at its noise scale, which is public given the radius: no
        variance is reported that is below the noise it was measured with.
        """
        values, vectors = np.linalg.eigh(self.S)
        root = self.K @ vectors * np.sqrt(np.maximum(values, self.sd))
        return np.asarray(root @ root.T)

    def weighting(self, radius: float, free: float) -> Array:
        """Return ``J = (I - kappa)^{-1}``, (p, p); the identity where rows were not kept apart.

        ``kappa = M^{-1} (2/R^2) sum g g'`` over the rows on the ball of ``radius`` is what the
        row weights take off a deviation from its centre (4.3). Its eigenvalues are held between 0
        and 1/2: the formula is of first order.
        """
        p = len(self.K)
        if self.outside is None:
            return np.eye(p)
        values, vectors = np.linalg.eigh(self.outside)
        kappa = np.clip(2.0 / radius**2 * values / (free + p), 0.0, 0.5)
        inner = (vectors / (1.0 - kappa)) @ vectors.T
        return np.asarray(np.linalg.solve(self.K.T, inner @ self.K.T))

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
