"""Labels of rows to clusters, row by row: by stratum, or in pairs by a public hash."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array


def _mixed(label: npt.NDArray[Any], at: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return a public hash of (stratum, number) of units."""
    mixed = (label.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) + at.astype(np.uint64)
    return (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)


#: Labels of pairs lie below this many a stratum.
_APART = 2.0**26


class Labels:
    """Clusters of rows, by the public facts of a subclass (:class:`dpmodels.survey.Frame`)."""

    strata: Any  # Number of strata, at least one
    pairs: Any  # Units of each stratum if they are compared in pairs, else empty
    factors: Any  # Function that returns the factor of each stratum

    @property
    def _bits(self) -> int:
        """Low bits of a label that say the stratum."""
        return (self.strata - 1).bit_length()

    def strata_of(self, labels: Array) -> npt.NDArray[np.intp]:
        """Return the stratum of each cluster, by its label."""
        return np.mod(labels, 2.0**self._bits).astype(np.intp)

    def placed(self, label: Array, stratum: Array | None) -> tuple[Array, Array]:
        """Return (cluster of each row, 0 for none; factor of its score, in [-1, 1]), (m,) each.

        Privacy
        -------
        Row by row: a function of the row's own labels and of public numbers.
        """
        h = np.zeros(len(label)) if stratum is None else stratum - 1.0
        inside = h >= 0.0
        at = np.where(inside, h, 0.0).astype(np.intp)
        factor = np.where(inside, self.factors()[at], 1.0)
        label = np.where(inside & (label > 0.0), label, 0.0)  # a missing one is none
        if self.pairs:
            return self._paired(label, at, factor)
        if self.strata == 1:
            return label, factor
        # the pair (stratum, id) is the unit: mixed, one label of 52 bits, the stratum the last
        cluster = (_mixed(label, at) >> np.uint64(12 + self._bits)).astype(np.float64) + 1.0
        cluster = cluster * 2.0**self._bits + at
        return np.where(label > 0.0, cluster, 0.0), factor

    @functools.cached_property
    def _places(self) -> npt.NDArray[np.intp]:
        """Return the positions of all units within their strata, stratum by stratum."""
        units = (np.arange(1, k + 1) for k in self.pairs)
        return np.concatenate([np.argsort(np.argsort(_mixed(v, np.zeros(1)))) for v in units])

    def _paired(self, label: Array, at: npt.NDArray[np.intp], factor: Array) -> tuple[Array, Array]:
        """Return clusters of two units each, the second with the opposite sign.

        Units at positions 2j - 1 and 2j of a stratum, by a hash of their numbers; the odd one left
        over with that of the next stratum.
        """
        counts = np.array(self.pairs)
        left = np.cumsum(counts % 2) - 1  # which of the odd ones a stratum's is
        number = np.clip(label - 1.0, 0.0, counts[at] - 1.0).astype(np.intp)
        j = self._places[(np.cumsum(counts) - counts)[at] + number]
        odd = (counts[at] % 2 == 1) & (j == counts[at] - 1.0)
        pair = j // 2 + 1.0 + (at + 1.0) * _APART
        cluster = np.where(odd, left[at] // 2 + 1.0, pair)
        sign = np.where(np.where(odd, left[at], j) % 2.0 == 0.0, 1.0, -1.0)
        return np.where(label > 0.0, cluster, 0.0), factor * np.where(label > 0.0, sign, 1.0)
