"""Backend of ``dp_moments(method="pmt")``: second moments of rows whitened by public ones.

The rows (1, x) are whitened by their public second moment and scaled into a ball, so no range is
needed; one release, or two by the rule of ``dp_ols(method="pmt")``, whose plan and passes these
are (``models/linear/theory.md`` 2, ``theory.md`` 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.after.explained import SecondMoments
from dpmodels.after.statistics import kept_moments
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.linear.pmt import PmtDetail, diagnostics, release, whitened_plan
from dpmodels.models.linear.public import public_whitening
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.stages import Stages
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.request import Request

__all__ = [
    "OF_PEOPLE",
    "ROWS_OF_ONE",
    "Back",
    "covariance",
    "estimate",
    "moment_estimate",
    "plan",
    "ratio",
    "release",
]


# -- From released second moments of mapped rows to moments in the user's units. Sees no row


#: What the moment of the constant is, where sums are of people.
ROWS_OF_ONE = "rows a person"
#: Said of moments whose sums are of people.
OF_PEOPLE = (
    "Moments of rows, each person's weighed by what all rows of that person come to: one with many "
    "rows, or rows far from the centre, counts less, so spread is understated where either has "
    f"heavy tails. '{ROWS_OF_ONE}' is the released number of rows that count, per person. Rows of "
    "one person may depend on each other in any way: what follows from these moments has errors of "
    "the noise alone; dp_ols(formula, data, unit=...) has cluster-robust ones."
)
#: Least mean weight of a row that moments are divided by.
LEAST_WEIGHT = 0.1


@dataclass(frozen=True, eq=False)
class Back:
    """The way from mapped rows w to rows (x, 1).

    Attributes
    ----------
    names : tuple of str
        Of the columns of x.
    T : (q, q) array
        ``(x, 1) = T w``.
    rows : int
        What the sums are divided by: n, or the public guess.
    last : str
        What the moment of the constant with itself is called.
    """

    names: tuple[str, ...]
    T: Array
    rows: int
    last: str

    def labels(self) -> tuple[str, ...]:
        """Return the names of the upper triangle, row by row."""
        names = self.names
        out = []
        for i, a in enumerate(names):
            out += [f"{a}^2" if b == a else f"{a}*{b}" for b in names[i:]]
            out.append(a)
        return (*out, self.last)


def covariance(T: Array, V: Array) -> Array:
    """Return the covariance of the upper triangle of ``T E T'``.

    E is symmetric with independent entries (of its upper triangle) of variances V: entry (i, j)
    of ``T E T'`` is ``sum_ab T_ia T_jb E_ab``.
    """
    q = len(T)
    i, j = upper = np.triu_indices(q)
    B = T[np.ix_(i, i)] * T[np.ix_(j, j)]
    B += T[np.ix_(i, j)] * T[np.ix_(j, i)]
    B[:, i == j] /= 2.0
    return np.asarray((B * V[upper]) @ B.T)


def ratio(C: Array, cov: Array) -> tuple[Array, Array]:
    """Return moments of (x, 1) over the moment of the constant, and their covariance.

    The last cell of the upper triangle stays what it is: the divisor. Rows that were scaled down
    or voided count in both, and so does the noise of the divisor, which the means would otherwise
    multiply: for a column far from zero most of the noise cancels. First order. The divisor is at
    least a tenth; below that noise rules.
    """
    w = max(float(C[-1, -1]), LEAST_WEIGHT)
    R = C / w
    R[-1, -1] = 1.0
    # the Jacobian is the identity over w, without its last row, less v in its last column
    v = C[np.triu_indices(len(C))] / w**2
    v[-1] = -1.0
    own, last = cov / w**2, cov[:, -1] / w
    own[-1] = own[:, -1] = last[-1] = 0.0
    crossed = np.outer(last, v)
    return R, own - crossed - crossed.T + cov[-1, -1] * np.outer(v, v)


def moment_estimate(
    back: Back,
    Q: Array,
    V: Array,
    *,
    stats: Mapping[str, float],
    notes: tuple[str, ...],
    warnings: tuple[str, ...] = (),
    arrays: Mapping[str, Array] | None = None,
    weighted: bool = False,
) -> Estimate:
    """Return the moments ``T Q T' / n`` of (x, 1), with the privacy covariance of each entry.

    Parameters
    ----------
    back : Back
    Q, V : (q, q) arrays
        Released sums of mapped rows, and the noise variance of each entry.
    weighted : bool
        Divide by the moment of the constant; ``arrays["moments_per_row"]`` keeps the others.
    """
    C = back.T @ Q @ back.T.T / back.rows
    C = (C + C.T) / 2.0
    cov = covariance(back.T, V) / back.rows**2
    kept = {"moments": C, **(arrays or {})}
    kept |= kept_moments(SecondMoments(Q, V, float(back.rows)), back.T)
    if weighted:
        kept["released_weighted"] = np.ones(1)
    upper = np.triu_indices(len(C))
    params = C[upper]
    if weighted:
        R, cov = ratio(C, cov)
        params = np.append(R[upper][:-1], C[-1, -1])
        kept |= {"moments": R, "moments_per_row": C}
    return Estimate(
        back.labels(),
        params,
        vcov_privacy=cov,
        stats=dict(stats),
        notes=notes,
        warnings=warnings,
        arrays=kept,
    )


WEIGHTS = "row weights"


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_moments(method="pmt")``. The public data are part of the request."""
    if request.public is None:
        raise RequestError(
            "method='pmt' needs public data: public= a table with the same columns, or second "
            "moments of (x, 1). Without public data use method='joint'"
        )
    white = public_whitening(request.public, shrink=request["shrink"], response=False)
    return whitened_plan(request, design, n, white)


def _counted(released: Stages, detail: PmtDetail) -> int:
    """Return n, or the rows of people that the first release counts."""
    if not detail.per:
        return detail.rows
    stage = released.stages[0]
    constant = detail.white.scale[0] * stage.L[0]
    return max(round(float(constant @ stage.Q @ constant)), detail.rows)


def estimate(plan: Plan[PmtDetail], release: Release) -> Estimate:
    """Map the last stage back to (x, 1), per row."""
    detail = plan.detail
    released: Stages = release.detail
    stage = released.stages[-1]
    # (1, x) = scale L w; the constant goes last
    T = np.roll(detail.white.scale[:, None] * stage.L, -1, axis=0)
    per = detail.per
    back = Back(release.design.names, T, detail.rows, ROWS_OF_ONE if per else WEIGHTS)
    notes = plan.sentences
    notes.append(
        OF_PEOPLE
        if per
        else "Moments of weighted rows: one far from the centre of the public data counts less and "
        "one with a missing cell not at all, so spread is understated, more so with heavy tails. "
        f"'{WEIGHTS}' is the released mean weight; times it (arrays['moments_per_row']) they are "
        "sums of scaled rows over n."
    )
    return moment_estimate(
        back,
        stage.Q,
        stage.V,
        stats={
            "noise_sd": stage.s / detail.rows,
            "radius": stage.radius,
            "shrinkage_of_public_moments": detail.white.shrink,
        },
        notes=tuple(notes),
        warnings=diagnostics(released.stages[0], _counted(released, detail)),
        arrays={"whitened_moments": stage.Q, "whitening": T},
        weighted=True,
    )
