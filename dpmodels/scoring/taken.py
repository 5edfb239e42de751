"""Estimate the clipped part of scores from two clips in one draw.

A pass releases U, D and D' (``theory.md``, 2.8), in units of C: D is the sum of what a clip at 2 C
adds to a clip at C, D' that of what rows of large leverage lost by their weights. The sum of scores
that are cut at C is ``U + C (D + D')/2``. Everything here is in the coordinates w of the pass, and
reads no row (``method.md``, 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.after.moments import posterior
from dpmodels.arrays import Array
from dpmodels.core.parallel import ROOT, Released
from dpmodels.scoring import rules
from dpmodels.scoring.clip import beyond_second
from dpmodels.scoring.models import State
from dpmodels.scoring.pass_plan import PassPlan


@dataclass(frozen=True, eq=False)
class Taken:
    """Sum of the scores with the estimated clipped part, and its uncertainty."""

    score: Array  # (r,)
    covariance: Array  # (r, r): error of the part that was added
    # (2, r): moves of the sum that intervals allow for, by the clip and by weights of long rows.
    moved: Array
    far: float  # Length of a move by scores beyond 2 C that the histogram shows

    @property
    def sd(self) -> float:
        """Root mean variance of the added part, over the coordinates."""
        return math.sqrt(max(float(np.trace(self.covariance)) / len(self.score), 0.0))

    def over(self, n: float) -> tuple[Array, dict[str, Any]]:
        """Return the covariance of the mean score by the added part, and fields of an allowance."""
        return self.covariance / n**2, {"moved": self.moved / n, "far": self.far / n}


def taken(released: Released, plan: PassPlan, state: State, H: Array, back: Array) -> Taken | None:
    """Return the sum of scores of a pass with its clipped part, or None if it had one clip.

    D and D' count by their posterior means. What lies beyond 2 C is taken to be ``BEYOND_SECOND``
    times what lies between C and 2 C.

    Parameters
    ----------
    state : State
        At which the pass was evaluated.
    H : (r, r) array
        Information per row.
    back : (r, r) array
        Inverse of W.
    """
    if released.taken is None:
        return None
    C, sd, r = plan.clip, plan.noise.score / (ROOT * plan.clip), len(H)
    D, *D_of_long = released.taken
    beyond = rules.BEYOND_SECOND
    nothing, most = (np.zeros(r), np.zeros((r, r))), rules.MOST_TAKEN * plan.rows
    mean, cov = nothing if plan.whole else posterior(D, sd, most, main_directions(state, H, back.T))
    mean_of_long, cov_of_long = posterior(D_of_long[0], sd, most) if D_of_long else nothing
    score = released.score + C * ((beyond + 0.5) * mean + 0.5 * mean_of_long)
    covariance = C * C * ((beyond + 0.5) ** 2 * cov + 0.25 * cov_of_long)
    far = 0.0
    if released.bins is not None and not plan.whole:
        far = C * beyond_second(released.bins, plan.noise.count) / math.sqrt(r)
    return Taken(score, covariance, C * np.stack([beyond * mean, mean_of_long]), far)


def main_directions(state: State, H: Array, back: Array) -> Array | None:
    """Return orthonormal directions (r, 2) of the constant and of the fitted slopes, in w.

    Long scores of one sign move the constant; a spread that grows with the fit moves the slopes.
    ``back``: transposed inverse of W.
    """
    if state.constant is None or len(H) < 3:
        return None
    constant, theta = H @ (back @ state.constant), back @ state.theta
    slope = H @ theta - constant * float(constant @ theta)
    return np.asarray(np.linalg.qr(np.stack([constant, slope], axis=1))[0])
