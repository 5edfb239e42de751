"""``dp_moments``: the noisy second-moment matrix of (1, x) as a separate release."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.after.inference import anderson_rubin, two_stage
from dpmodels.after.moments import (
    TRUSTED,
    UNUSABLE,
    SecondMoments,
    counted_rows,
    fit_statistics,
    kept_moments,
    regress,
    trust_of,
)
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.linear.compared import published_mu, published_roots
from dpmodels.models.linear.inference import (
    Passes,
    Stages,
    ball_stage,
    mu_like,
    stage_steps,
    unit_back,
    whitened_stage,
)
from dpmodels.models.linear.moments import (
    LEAST_MOMENT_EIGENVALUE,
    NOISE_FLOOR,
    TWO_STAGE_RATIO,
    PmtDetail,
    diagnostics,
    first_radius,
    release_pmt,
    stages_of,
    whitened_plan,
)
from dpmodels.models.linear.scored import public_whitening
from dpmodels.notes import Note
from dpmodels.planning import Plan, guessed_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.ranges import Split, gaussian_part, no_ranges, ranged_design, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    GUESS,
    PHI,
    PMT_PAPER,
    PUBLIC_RADIUS,
    PUBLISHED,
    SHRINK,
    STAGES,
    Backend,
    Method,
    register_method,
)
from dpmodels.scoring.notes import empty_rows, no_ranges_note
from dpmodels.scoring.pass_plan import coin_share, noise_ratio
from dpmodels.scoring.rules import FIRST_NOISE
from dpmodels.sums.ask import Ask, Moments, ball_map, ball_moments_query, moments_query
from dpmodels.sums.rowmap import OneFirst, RowMap, WithOne, unit_rows
from dpmodels.sums.scaling import UnitScale, identity_scale

# -- Backend of ``dp_moments(method="pmt")``: second moments of rows whitened by public ones.
#
# The rows (1, x) are whitened by their public second moment and scaled into a ball, so no range is
# needed; one release, or two by the rule of ``dp_ols(method="pmt")``, whose plan and passes these
# are (``models/linear/theory.md`` 2, ``moments.md`` 7).


# -- From released second moments of mapped rows to moments in the user's units. Sees no row


#: Name of the moment of the constant, if sums are of people.
ROWS_OF_ONE = "rows a person"
#: Least mean weight of a row that moments are divided by.
LEAST_WEIGHT = 0.1


#: Columns whose products of two have a covariance matrix of about a gigabyte.
MOST_COLUMNS = 150


@dataclass(frozen=True, eq=False)
class Back:
    """The way from mapped rows w to rows (x, 1)."""

    names: tuple[str, ...]  # Names of the columns of x
    T: Array  # (q, q): ``(x, 1) = T w``
    rows: float  # Divisor of the sums: n, or the released count
    last: str  # Name of the moment of the constant with itself

    def labels(self) -> tuple[str, ...]:
        """Return the names of the upper triangle, row by row."""
        names = self.names
        out = []
        for i, a in enumerate(names):
            out += [f"{a}^2" if b == a else f"{a}*{b}" for b in names[i:]]
            out.append(a)
        return (*out, self.last)


def check_columns(design: Design) -> None:
    """Refuse more columns than the covariance of their moments has room for: public facts."""
    if design.p > MOST_COLUMNS:
        raise RequestError(
            f"dp_moments accepts at most {MOST_COLUMNS} columns, and this formula has {design.p}: "
            "the covariance of all products of two would need more than a gigabyte. Split the "
            "formula, or fit the model itself: dp_ols accepts more columns"
        )


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
    scaled, last = cov / w**2, cov[:, -1] / w
    scaled[-1] = scaled[:, -1] = last[-1] = 0.0
    crossed = np.outer(last, v)
    return R, scaled - crossed - crossed.T + cov[-1, -1] * np.outer(v, v)


def moment_estimate(
    back: Back, Q: Array, V: Array, *, stats: Mapping[str, float], notes: tuple[Note, ...],
    warnings: tuple[str, ...] = (), arrays: Mapping[str, Array] | None = None,
    weighted: bool = False, blocks: tuple[int, ...] = (),
) -> Estimate:  # fmt: skip
    """Return the moments ``T Q T' / n`` of (x, 1), with the privacy covariance of each entry.

    Q and V (q, q): released sums of mapped rows, and the noise variance of each entry.
    ``weighted``: divide by the moment of the constant; ``arrays["moments_per_row"]`` keeps others.
    ``blocks``: ends of the blocks of several sites in Q, or () for one site.
    """
    C = back.T @ Q @ back.T.T / back.rows
    C = (C + C.T) / 2.0
    ends = itertools.pairwise((0, *(blocks or (len(Q),))))
    parts = [covariance(back.T[:, a:b], V[a:b, a:b]) for a, b in ends]
    cov = np.sum(parts, axis=0) / back.rows**2
    stored = {"moments": C, **(arrays or {})}
    stored |= kept_moments(SecondMoments(Q, V, back.rows, blocks=blocks), back.T)
    if weighted:
        stored["released_weighted"] = np.ones(1)
    upper = np.triu_indices(len(C))
    params = C[upper]
    if weighted:
        R, cov = ratio(C, cov)
        params = np.append(R[upper][:-1], C[-1, -1])
        stored |= {"moments": R, "moments_per_row": C}
    return Estimate(
        back.labels(), params, vcov_privacy=cov, stats=dict(stats), notes=notes,
        warnings=warnings, arrays=stored,
    )  # fmt: skip


def plan_pmt(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a call of ``dp_moments(method="pmt")``. The public data are part of the request."""
    check_columns(design)
    if request.public is None:
        raise RequestError(
            "method='pmt' needs public data: public= a table with the same columns, or second "
            "moments of (x, 1). Without public data use method='joint'"
        )
    white = public_whitening(request.public, shrink=request["shrink"], response=False)
    return whitened_plan(request, design, n, white)


def _released_count(released: Stages, detail: PmtDetail) -> int:
    """Return n, or the rows of people that the first release counts."""
    if not detail.per:
        return detail.rows
    stage = released.stages[0]
    constant = detail.white.scale[0] * stage.L[0]
    return max(round(float(constant @ stage.Q @ constant)), detail.rows)


def estimate_pmt(plan: Plan[PmtDetail], release: Release) -> Estimate:
    """Map the last stage back to (x, 1), per row."""
    detail, released = plan.detail, release.detail
    # (1, x) = scale L w; the constant goes last
    T = np.roll(detail.white.scale[:, None] * released.stages[-1].L, -1, axis=0)
    return _of_last_stage(
        plan, release, T,
        messages.WHITENED_BY_PUBLIC(weights=WEIGHTS),
        stats={"shrinkage_of_public_moments": detail.white.shrink},
        warnings=diagnostics(released.stages[0], _released_count(released, detail)),
    )  # fmt: skip


def _rows(plan: Plan[Any], Q: Array, constant: Array) -> float:
    """Return the divisor of the sums: n, or the released count where n is private."""
    detail = plan.detail
    if detail.per or plan.request.relation == "replace":
        return float(detail.rows)
    return counted_rows(Q, constant)


def _of_last_stage(
    plan: Plan[Any], release: Release, T: Array, note: Note, *, notes: Sequence[Note] = (),
    stats: Mapping[str, float] | None = None, warnings: tuple[str, ...] = (),
) -> Estimate:  # fmt: skip
    """Return the moments of the last stage: rows (x, 1) are ``T w``, ``note`` is not of people."""
    detail, stage = plan.detail, release.detail.stages[-1]
    last, rows = ROWS_OF_ONE if detail.per else WEIGHTS, _rows(plan, stage.Q, T[-1])
    return moment_estimate(
        Back(release.design.names, T, rows, last), stage.Q, stage.V,
        stats={"noise_sd": stage.s / rows, "radius": stage.radius, **(stats or {})},
        notes=(*plan.reason_notes, messages.PEOPLE_MOMENTS() if detail.per else note, *notes),
        warnings=warnings,
        arrays={"whitened_moments": stage.Q, "whitening": T}, weighted=True,
    )  # fmt: skip


PMT_MOMENTS = Backend(plan_pmt, release_pmt, estimate_pmt, people=True)


# -- Backend of ``dp_moments``: the noisy second-moment matrix of (1, x) as a separate release.


_MOMENTS_STEP = "second moments"


@dataclass(frozen=True)
class SecondDetail:
    """Mechanism of the release, row count of the estimate (n, or the public guess).

    ``per``: public guess of the rows of a person, where that is the unit; 0: rows.
    """

    mechanism: Gaussian | Pure
    rows: int
    per: float = 0.0


def plan_joint(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan one release of ``sum (u, 1)(u, 1)'`` of unit rows."""
    check_columns(design)
    split = Split(request, design, {"moments": (_MOMENTS_STEP, 1.0)})
    detail = SecondDetail(split["moments"], planning_rows(request, n), guessed_rows(request))
    return split.plan(n, shares={}, detail=detail)


@with_ranges
def release_joint(plan: Plan[SecondDetail], ask: Ask, design: Design) -> Release:
    """Release the second moments of (u, 1), u the columns in unit half-ranges. One pass.

    **Privacy.** Unit: one row. ``|(u, 1)|^2 <= k + 1`` holds by clipping each cell, in integers. Or
    one person, whose rows are scaled into a ball: their squares come to at most as many times k + 1
    as ``rows_per_unit=`` says (``units.md``, 2).
    """
    detail = plan.detail
    # the map of every column to [-1, 1]; there is no intercept among the columns
    lo, hi = design.intervals().T
    width = np.where(hi > lo, hi - lo, 2.0)
    unit = UnitScale(2.0 / width, -(lo + hi) / width, False)
    q = design.p + 1
    ones = RowMap(unit, np.ones(q - 1))
    over = Moments(design, WithOne(ones))
    radius = 1.0
    if detail.per:
        # rows (1, u) in the ball of a person
        with_constant = UnitScale(np.append(1.0, unit.scale), np.append(0.0, unit.shift), False)
        rowmap = ball_map(with_constant, math.sqrt(detail.per * q), None)
        over, radius = Moments(design, OneFirst(rowmap), people=True), rowmap.radius
    answer = ask(_MOMENTS_STEP, moments_query(over, radius=radius))
    parts = {"Q": answer.values, "V": answer.variance}
    if detail.per:  # the constant last, as of rows
        parts = {name: np.roll(part, -1, (0, 1)) for name, part in parts.items()}
    # the map of the columns, and the noise variance of every moment
    return Release({"Q": parts["Q"]}, plan.guarantee, design, detail=(unit, parts["V"]))


def estimate_joint(plan: Plan[SecondDetail], release: Release) -> Estimate:
    """Return moments per row in the user's units: means, mean products, share of complete rows."""
    if not release.reply:
        return no_ranges_note(release.design.names)
    detail, (unit, V) = plan.detail, release.detail
    # (x, 1) = T (u, 1)
    T = np.diag(np.append(1.0 / unit.scale, 1.0))
    T[:-1, -1] = -unit.shift / unit.scale
    Q = release.values["Q"]
    rows = _rows(plan, Q, T[-1])
    s = math.sqrt(2.0 * float(V[0, -1]))  # in svec coordinates
    return moment_estimate(
        Back(release.design.names, T, rows, ROWS_OF_ONE if detail.per else "complete rows"),
        Q, V, stats={"noise_sd": s / rows},
        notes=(messages.PEOPLE_MOMENTS() if detail.per else messages.JOINT_MOMENTS(),),
        arrays={"unit_moments": Q}, weighted=detail.per > 0.0,
    )  # fmt: skip


JOINT = Backend(plan_joint, release_joint, estimate_joint, people=True)


# -- Backend of ``dp_moments(method="ssp")``: second moments from ranges, the second release
# whitened.
#
# Rows (1, x) in unit half-ranges are scaled into a ball; a first release whitens (and re-centres)
# the rows of a second, which takes most of the budget. The passes are those of
# ``dp_ols(method="ssp")`` (``models/linear/theory.md`` 3, ``moments.md`` 7).


WEIGHTS = "row weights"


@dataclass(frozen=True)
class WhitenedDetail:
    """Public decisions before the first row."""

    rows: int  # n, or the public guess
    first: Gaussian | Pure
    second: Gaussian | Pure | None
    every: int  # The first of two stages reads each row with probability 1 / every
    phi: float
    per: float = 0.0  # Public guess of the rows of a person, where that is the unit; 0: rows


def plan_whitened(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan one release of the moments of (1, x), or two by a rule on public numbers."""
    check_columns(design)
    rows, p = planning_rows(request, n), design.p
    part = gaussian_part(request, design.unknown)
    x = noise_ratio(mu_like(part.mechanism(1.0 - part.share), p + 1), p, rows)
    two, why = stages_of(request, x, TWO_STAGE_RATIO, "ratio", digits=False)
    split = Split(request, design, stage_steps(two=two, scores=0.0))
    detail = WhitenedDetail(
        rows, split["first" if two else "moments"], split.parts.get("second"),
        coin_share(FIRST_NOISE / x, rows) if two else 1, float(request["phi"]),
        guessed_rows(request),
    )  # fmt: skip
    return split.plan(
        n,
        scales={"public noise ratio": x},
        detail=detail,
        reasons=(*request.reasons, why),
        passes=1 + two + bool(design.unknown),
    )


def release_whitened(plan: Plan[WhitenedDetail], ask: Ask) -> Release:
    """Release the second moments of (1, x) in one or two passes.

    **Privacy.** Unit: one row, or one person; replace-one (n public) or add-remove. Charged: the
    steps of the plan. Rows (the trace of a person's) are bounded by the ball, in integers; the
    second map was released by the first stage.
    """
    detail = plan.detail
    relation = plan.request.relation
    design = ranged_design(plan, ask, wide=detail.second is not None)
    if design is None:
        return no_ranges(plan)
    # the map of rows (1, x) to unit rows, centred, and the squared norm of x in them
    columns, square = unit_rows(design, centred=not design.scaled)
    scale, shift = np.append(1.0, columns.scale), np.append(0.0, columns.shift)
    unit = UnitScale(scale, shift, not design.scaled)
    q = design.p + 1
    passes = Passes(ask, design, unit, relation, constant=True, per=detail.per)
    name = "moments" if detail.second is None else "first moments"
    read = detail.rows // detail.every
    radius = first_radius(square, detail.first, q, read, relation, response=0.0)
    radius *= math.sqrt(detail.per or 1.0)
    stages = [ball_stage(passes, None, radius, name, detail.first, every=detail.every)]
    if detail.second is not None:
        second = whitened_stage(
            passes, stages[0], detail.second, n=detail.rows, first_n=read, phi=detail.phi,
            radius=0.0, floor=NOISE_FLOOR, least=LEAST_MOMENT_EIGENVALUE,
        )  # fmt: skip
        stages.append(second)
    values = {f"Q{k}": stage.Q for k, stage in enumerate(stages, 1)}
    return Release(values, plan.guarantee, design, detail=Stages(unit, tuple(stages)))


def estimate_whitened(plan: Plan[WhitenedDetail], release: Release) -> Estimate:
    """Map the last stage back to (x, 1), per row."""
    if not release.reply:
        return no_ranges_note(release.design.names)
    detail = plan.detail
    released: Stages = release.detail
    stage = released.stages[-1]
    # (1, x) = S^{-1} L w; the constant goes last
    T = np.roll(unit_back(released.unit) @ stage.L, -1, axis=0)
    notes: list[Note] = []
    if not detail.per and plan.request.relation == "replace":
        cell = float(T[-1] @ stage.Q @ T[-1]) / detail.rows
        noise = SecondMoments(stage.Q, stage.V, detail.rows).form_variance(np.outer(T[-1], T[-1]))
        sd = math.sqrt(noise) / detail.rows
        notes = empty_rows(1.0 - cell, sd, release.design, shortened=True)
    return _of_last_stage(
        plan, release, T,
        messages.WHITENED_MOMENTS(weights=WEIGHTS),
        notes=notes,
    )  # fmt: skip


WHITENED = Backend(plan_whitened, release_whitened, estimate_whitened, people=True)


# -- Backend of ``dp_moments(method="pmt_paper")``: the published Algorithm 2, constants and all.
#
# Rows (1, x) are truncated at ``R^2 = d (1 + log(2n/eta))``, with noise ``2 R^2 / sqrt(2 rho)`` of
# full size on every entry of the upper triangle: one Gaussian release, ``mu = sqrt(2 rho)``.


@dataclass(frozen=True, eq=False)
class PaperSecond:
    """Public facts of the published algorithm."""

    # root, back: (d, d) arrays; ``S^{-1/2}`` and ``S^{1/2}`` of the rows (1, x), symmetric.
    root: Array
    back: Array
    radius: float
    mu: float
    rows: int

    @property
    def sd(self) -> float:
        """Noise of each entry of the sum."""
        return 2.0 * self.radius**2 / self.mu


def plan_paper(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the one release. ``rho=`` is its zCDP parameter, as in the paper."""
    check_columns(design)
    if request.public is None:
        raise RequestError("method='pmt_paper' needs public data: public=")
    mu = published_mu(request)
    C = np.asarray(request.public.moments, dtype=float)
    root, back = published_roots(C)
    radius = math.sqrt(len(C) * (1.0 + math.log(2.0 * n / float(request["eta"]))))
    detail = PaperSecond(root, back, radius, mu, n)
    return Plan.of(
        request, design, n, [Step(_MOMENTS_STEP, Gaussian(mu), share=1.0)], detail=detail,
        scales={"radius of whitened rows": radius, "noise scale per row": detail.sd / n},
    )  # fmt: skip


def release_paper(plan: Plan[PaperSecond], ask: Ask) -> Release:
    """Release ``sum x~x~'`` of whitened, truncated rows (1, x). One pass.

    **Privacy.** Unit: one row, replace-one. The published noise exceeds what the sensitivity asks
    for (``2 R^2`` for ``sqrt2 R^2``; full size off the diagonal), so the stated guarantee holds.
    """
    detail = plan.detail
    q = len(detail.root)
    rowmap = OneFirst(ball_map(identity_scale(q), detail.radius, detail.root))
    over = Moments(plan.design, rowmap)
    Q = ask(_MOMENTS_STEP, ball_moments_query(over, q, published=True)).values
    return Release({"Q": Q}, plan.guarantee, plan.design, detail=detail)


def estimate_paper(plan: Plan[Any], release: Release) -> Estimate:
    """Return ``S^{1/2} Q S^{1/2} / n``, the constant last."""
    detail: PaperSecond = release.detail
    Q = release.values["Q"]
    back = Back(release.design.names, np.roll(detail.back, -1, axis=0), detail.rows, WEIGHTS)
    return moment_estimate(
        back, Q, np.full(Q.shape, detail.sd**2), arrays={"whitened_moments": Q},
        stats={"noise_sd": detail.sd / detail.rows, "radius": detail.radius},
        notes=(messages.PUBLISHED_MOMENTS(),),
    )  # fmt: skip


PAPER = Backend(plan_paper, release_paper, estimate_paper)


# -- Methods of second moments, as data.


_moments = functools.partial(
    Method, verb="dp_moments", proof="models/moments.md", relations=("replace", "add-remove"),
    inference="privacy part only", privacy_se="public",
)  # fmt: skip


register_method(
    _moments(
        name="ssp",
        title="second moments, whitened by a first release",
        backend=WHITENED,
        needs=("ranges", "two passes"),
        reference="Vu and Slavkovic 2009; two stages: dpmodels/models/linear/theory.md",
        options=(BOUNDS_SHARE, STAGES, PHI, GUESS),
    )
)


register_method(
    _moments(
        name="joint",
        title="noisy second moments",
        backend=JOINT,
        needs=("ranges",),
        reference="Blum, Dwork, McSherry and Nissim 2005; dpmodels/models/linear/theory.md",
        options=(BOUNDS_SHARE, GUESS),
    )
)


register_method(
    _moments(
        name="pmt",
        title="second moments of rows whitened by public ones",
        backend=PMT_MOMENTS,
        needs=("public data", "two passes"),
        accepts=("public",),
        reference=(
            f"after '{PMT_PAPER}'; joint whitening, radii and stages: "
            "dpmodels/models/linear/theory.md"
        ),
        options=(STAGES, SHRINK, PHI, PUBLIC_RADIUS, GUESS),
    )
)


register_method(
    _moments(
        name="pmt_paper",
        title="PMT second moments as published (Algorithm 2)",
        backend=PAPER,
        needs=("delta > 0", "public data"),
        relations=("replace",),
        accepts=("public",),
        comparison_only=True,
        reference=PMT_PAPER,
        options=PUBLISHED,
    )
)


# -- Least squares and two-stage least squares on released second moments. Sees no row.
#
# Estimates of ``dp_ols(formula, m)`` and ``dp_iv``; the formulas are those of
# ``after/theory.md``.


#: Statistics whose errors assume independent rows.
_OF_ROWS = (
    "sigma_se", "r_squared_se", "r_squared_low", "r_squared_high", "adj_r_squared",
)  # fmt: skip
_LOST = (
    "the noise of the release exceeds the information on some direction of this design: "
    "coefficients have no errors here. Fewer terms, or a release with a larger eps; "
    "fit.anova() on a smaller model still tests terms"
)
@dataclass(frozen=True, eq=False)
class Instruments:
    """The instruments of a two-stage fit."""

    B: Array  # (q, k): functionals of all instruments, the exogenous regressors among them
    # endogenous, excluded: columns of the design that are endogenous; instruments that are not in
    # it.
    endogenous: tuple[int, ...]
    excluded: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OnMoments:
    """Inputs of a fit on released moments: the detail of its release."""

    moments: SecondMoments
    # B, a: (p, k), (k,) arrays; functionals of design and response.
    B: Array
    a: Array
    weighted: bool = False  # Rows of the release may have been scaled down
    paid: bool = False  # The release was made for this fit: it did cost something
    instruments: Instruments | None = None
    # Sums are of people, whose rows may depend on each other: errors of the noise alone.
    people: bool = False


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Return least squares, or two-stage least squares, with errors that hold the noise."""
    detail: OnMoments = release.detail
    if detail.instruments is not None:
        return _two_stage_fit(plan, release, detail, detail.instruments)
    m = detail.moments
    fit = regress(m, detail.B, detail.a)
    lost = fit.trust < UNUSABLE
    stats: dict[str, float] = {"sigma": math.sqrt(fit.v), "effective_rows": m.n_eff}
    stats["noise_margin"] = fit.trust
    notes = []
    if not lost and fit.trust < TRUSTED:
        notes.append(messages.WEAK_DIRECTION(ratio=fit.trust, trusted=TRUSTED))
    if release.design.has_intercept and m.constant is not None:
        stats |= fit_statistics(m, detail.B, detail.a)
    if detail.people:
        stats = {k: v for k, v in stats.items() if k not in _OF_ROWS}
    return _estimate(release, detail, fit, lost, stats, notes)


def _estimate(
    release: Release, detail: OnMoments, fit: Any, lost: bool, stats: dict[str, float],
    notes: list[Note], extra_arrays: Mapping[str, Array] | None = None,
) -> Estimate:  # fmt: skip
    """Return an estimate on moments; for people it has the errors of the noise alone."""
    m, nan = detail.moments, np.full_like(fit.privacy, math.nan)
    constant = np.zeros((0, m.k)) if m.constant is None else m.constant[None]
    functionals = np.vstack([detail.B, detail.a[None]])
    return Estimate(
        release.design.names, fit.b,
        vcov_sampling=nan if lost or detail.people else fit.sampling,
        vcov_privacy=nan if lost else fit.privacy, stats=stats,
        notes=(*_notes(detail), *notes), warnings=(_LOST,) if lost else (),
        arrays={
            **kept_moments(m, np.vstack([functionals, constant])), "functionals": functionals,
            **(extra_arrays or {}),
        },
    )  # fmt: skip


def _notes(detail: OnMoments) -> tuple[Note, ...]:
    """Return notes on the release, its errors and the weights of its rows."""
    errors = "" if detail.people else "Errors are model-based (one residual variance)."
    cost = " made for this fit" if detail.paid else ": this fit cost nothing"
    notes = [messages.FREE_MOMENTS(cost=cost, errors=errors)]
    if detail.people:
        notes += [messages.ERRORS_OF_NOISE(), messages.LONG_PEOPLE()]
    elif detail.weighted:
        notes.append(messages.WEIGHTED_RELEASE())
    return tuple(notes)


def _two_stage_fit(
    plan: Plan[Any], release: Release, detail: OnMoments, instruments: Instruments
) -> Estimate:
    """Return two-stage least squares from released moments, with its notes."""
    m, names = detail.moments, release.design.names
    inside, excluded = list(instruments.endogenous), list(instruments.excluded)
    fit = two_stage(m, detail.B, instruments.B, detail.a, inside, excluded)
    stats: dict[str, float] = {"sigma": math.sqrt(fit.v), "effective_rows": m.n_eff}
    notes: list[Note] = []
    lost = min(trust_of(m, detail.B), trust_of(m, instruments.B)) < UNUSABLE
    if detail.people:
        return replace(_estimate(release, detail, fit, lost, stats, notes), warnings=())
    for j, (F, df, p) in zip(inside, fit.first, strict=True):
        stats[f"first_stage_F[{names[j]}]"] = F
        notes.append(
            messages.WEAK_INSTRUMENTS(
                name=names[j], F=F, df=df, s="s" if df > 1 else "",
                p="< 1e-16" if p < 1e-16 else f"= {p:.3g}",
            )
        )
    arrays = {"instruments": instruments.B}
    if len(inside) == 1:
        j, level = inside[0], plan.request.level
        others = [i for i in range(len(names)) if i != j]
        V = float(fit.sampling[j, j] + fit.privacy[j, j])
        se = math.sqrt(V) if V > 0.0 else 1.0  # where the line is searched, no error
        intervals = anderson_rubin(
            m, detail.B[others], instruments.B[excluded], detail.B[j], detail.a, level,
            float(fit.b[j]), se,
        )  # fmt: skip
        arrays["anderson_rubin"] = np.array(intervals).reshape(-1, 2)
        words = " and ".join(f"[{low:.4g}, {high:.4g}]" for low, high in intervals)
        if not intervals:
            words = "empty (no value agrees with the instruments: they are not all valid)"
        elif intervals == ((-math.inf, math.inf),):
            words = "the whole line (the instruments say nothing at this budget)"
        weighted = ", for the rows with their weights" if detail.weighted else ""
        notes.append(
            messages.ANDERSON_RUBIN(
                level=100.0 * level, name=names[j], set=words, weighted=weighted
            )
        )
    else:
        notes.append(messages.NO_ANDERSON_RUBIN())
    return _estimate(release, detail, fit, lost, stats, notes, arrays)
