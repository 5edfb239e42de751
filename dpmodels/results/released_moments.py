"""The release of second moments that a fit holds, if it holds one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.after.moments import LEAST_ROWS, SecondMoments
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
    people : bool
        Sums are of people, whose rows may depend on each other: nothing here gives sampling errors.
    """

    moments: SecondMoments
    back: Array
    names: tuple[str, ...]
    loose: bool
    weighted: bool
    people: bool = False


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
    people = column_of(record.guarantee.unit) is not None
    if people and (record.guarantee.most or record.call.verb != "dp_moments"):
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
    Q, rows = np.asarray(arrays["released_moments"]), float(arrays["released_rows"][0])
    known = None
    if people and constant is not None:  # of people there are N, of their rows any number
        known = max(float(constant @ Q @ constant), LEAST_ROWS * rows)
    m = SecondMoments(Q, np.asarray(arrays["released_noise"]), rows, constant, known)
    return MomentFacts(m, back, names, loose, "released_weighted" in arrays, people)
