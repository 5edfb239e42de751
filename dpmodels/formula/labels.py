"""Labels: which cluster a row is in, and which stratum, as numbers that mean equality only.

A label is a function of the row's own cells, the same in every part of a table and on every
machine: no list of the labels that occur is ever made of the data before it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmodels.formula.nodes import Node

#: Labels are whole numbers from 1 to 2^52, exact as floats; a row without one is in no cluster.
MOST, ALONE = 2.0**52, 0.0
_BITS = np.uint64((1 << 52) - 1)


def label(cells: Any) -> Any:
    """Return the label of every cell, (m,): 0 where it is missing.

    Hashes and codes of levels come as integers, below 0 where they are missing; numbers as floats.
    Two different ids get one label with probability 2^-52: two clusters would then be taken for
    one, which changes an error a little and no proof.
    """
    cells = np.asarray(cells)
    if cells.dtype.kind in "iu":
        missing, bits = cells < 0, cells.astype(np.int64).view(np.uint64)
    else:
        cells = cells.astype(np.float64) + 0.0  # -0.0 and 0.0 are one value
        missing, bits = np.isnan(cells), cells.view(np.uint64)
        bits = bits ^ (bits >> np.uint64(29))  # the exponent is in the high bits
    return np.where(missing, ALONE, (bits & _BITS).astype(np.float64) + 1.0)


def labels_of(cluster: str | None, stratum: str | None, *, counted: bool) -> dict[str, Node]:
    """Return the rows of a buffer that hold the labels of clusters and codes of strata (from 1).

    ``counted``: clusters are numbered, and declared so: their numbers are the labels.
    """

    def of_cluster(env: Any) -> Any:
        cells = env.chunk[cluster]
        return np.where(cells >= 1.0, np.floor(cells), ALONE) if counted else label(cells)

    def of_stratum(env: Any) -> Any:
        return np.maximum(np.asarray(env.chunk[stratum], dtype=np.float64), -1.0) + 1.0

    out: dict[str, Node] = {}
    if cluster is not None:
        out["cluster"] = Node((ALONE, MOST), of_cluster, frozenset([cluster]))
    if stratum is not None:
        out["stratum"] = Node((ALONE, MOST), of_stratum, frozenset([stratum]))
    return out
