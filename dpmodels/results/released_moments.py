"""The release of second moments that a fit holds, if it holds one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.after.moments import SecondMoments
from dpmodels.arrays import Array
from dpmodels.errors import NotReleasedError
from dpmodels.units.person import column_of

if TYPE_CHECKING:
    from dpmodels.results.record import Record

__all__ = ["MomentFacts", "has_moments", "moments_of"]


@dataclass(frozen=True, eq=False)
class MomentFacts:
    """A release of second moments in a fit.

    Attributes
    ----------
    moments : SecondMoments
    back : (q, k) array
        Columns of the design (response last, then the constant) as functionals.
    names : tuple of str
        Of the rows of ``back`` but the constant.
    loose : bool
        The constant is a row of its own, no column of the design.
    weighted : bool
        Rows may have been scaled down.
    """

    moments: SecondMoments
    back: Array
    names: tuple[str, ...]
    loose: bool
    weighted: bool


def has_moments(record: Record) -> bool:
    """Return whether a fit holds a release of second moments."""
    return record.estimate.released and "released_moments" in record.estimate.arrays


def moments_of(record: Record) -> MomentFacts:
    """Return the release of second moments in a record, or say which fit would hold one."""
    arrays = record.estimate.arrays
    if not has_moments(record):
        raise NotReleasedError(
            "this fit holds no release of second moments"
            + (": it got no reply" if not record.estimate.released else "")
            + '. One that does: m = dp.dp_moments("y + x1 + x2", data, eps=..., delta=...)'
        )
    if column_of(record.guarantee.unit) is not None:
        raise NotReleasedError(
            f"these moments are of kept rows of {record.guarantee.unit}: what follows from them "
            "takes rows for independent. Fit the data itself: dp_ols(..., unit=...)"
        )
    design, back = record.design, np.asarray(arrays["released_map"])
    names = tuple(c.name for c in design.z)
    loose = len(back) > len(names)
    constant = back[-1] if loose else None
    if not loose and design.has_intercept:
        constant = back[[c.kind for c in design.columns].index("intercept")]
    m = SecondMoments(
        np.asarray(arrays["released_moments"]),
        np.asarray(arrays["released_noise"]),
        float(arrays["released_rows"][0]),
        constant,
    )
    return MomentFacts(m, back, names, loose, "released_weighted" in arrays)
