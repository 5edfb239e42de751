"""``public=``: a table or moments, checked and turned into public second moments.

Everything read here is public by the caller's word; it never touches the private source.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import RequestError

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.public import PublicMoments

__all__ = ["not_the_private_data", "read_public"]


def not_the_private_data(public: Any, data: Any) -> None:
    """Refuse the private table passed as public: the same object, or the same path.

    Cells are never compared: the comparison would reveal data.
    """
    if public is None:
        return
    same = public is data
    if isinstance(public, (str, os.PathLike)) and isinstance(data, (str, os.PathLike)):
        same = same or os.path.realpath(public) == os.path.realpath(data)
    if same:
        raise RequestError(
            "public= is the private data itself: everything in public= is used without noise. "
            "Pass rows that need no protection, and leave them out of the private data"
        )


def read_public(public: Any, design: Design) -> PublicMoments:
    """Return the checked second moments of public data in the columns of ``design``.

    Incomplete public rows are dropped. A design without a response asks for moments of (1, x).
    """
    from dpmodels.models.linear.public import CONSTANT, PublicMoments, constant_first, is_moments

    names = [c.name for c in design.z]
    response = design.response is not None
    every = names if response else [CONSTANT, *names]
    if is_moments(public):
        given = PublicMoments.of(public)
        given = given if response else constant_first(given, names)
        return given.checked(every, response=response)
    from dpmodels.sources.adapt import as_source
    from dpmodels.sources.rows import Rows, count_rows

    source = as_source(public)
    absent = [v for v in design.variables if v not in source.kinds]
    if absent:
        raise RequestError(
            f"the public data have no column {', '.join(absent)}.\n  public:  "
            f"{', '.join(source.kinds)}\n  needed:  {', '.join(design.variables)}"
        )
    m = source.n if source.n is not None else count_rows(source, design.variables[0])
    parts = [b.copy() for b in Rows(source, m).blocks(design)] if m else []
    Z = np.concatenate(parts, axis=1) if parts else np.zeros((design.q, 0))
    Z = Z[:, np.isfinite(Z).all(axis=0)]
    if Z.shape[1] < 3:
        raise RequestError(
            f"public= has {Z.shape[1]} complete rows: at least 3 are needed, and "
            f"{len(every) + 8} or more to whiten without shrinkage"
        )
    complete = Z.shape[1]
    if not response:
        Z = np.vstack([np.ones(complete), Z])
    return PublicMoments(Z @ Z.T / complete, complete, rows=Z).checked(every, response=response)
