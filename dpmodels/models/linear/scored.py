"""The ending of ``ssp`` and ``pmt`` that their intervals rest on: private Fisher scoring.

Plan, release and estimate of a linear model by :mod:`dpmodels.scoring`. ``ssp`` starts from the
declared (or bought) ranges, ``pmt`` from public second moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpmodels.after.moments import SecondMoments
from dpmodels.after.statistics import fit_statistics
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.estimate import Estimate
from dpmodels.exact.queries import ball_sd, joint_noise
from dpmodels.exact.rowmap import UnitScale
from dpmodels.models.linear.inference import Stage, empty_rows, no_reply, unit_back
from dpmodels.models.linear.plans import currency, mu_like, noise_ratio, planning_rows, purchase
from dpmodels.models.linear.public import public_radius
from dpmodels.models.linear.stages import guide_share, guide_windows
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.ranges import bounds_share, no_ranges, ranged_design
from dpmodels.release import Release
from dpmodels.scoring.coordinates import Coordinates, public_coordinates
from dpmodels.scoring.engine import (
    Guide,
    ScoringPlan,
    ScoringRelease,
    plan_scoring,
    release_scoring,
    steps,
)
from dpmodels.scoring.intervals import FEW_ROWS, infer
from dpmodels.scoring.rules import LINEAR
from dpmodels.sources.windows import ALL_ROWS

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.models.linear.public import PublicWhitening
    from dpmodels.privacy.run import Run
    from dpmodels.request import Request
    from dpmodels.sources.rows import Rows

__all__ = ["ScoredDetail", "estimate", "plan", "release", "start_stage", "why_not"]


#: Public noise of the information, ``nu sqrt(2 p)``, above which a plan warns.
LOUD = 0.5
#: Names of the passes, for ``split=``.
PASSES = ("start", "first", "last")
#: Options that belong to the ending by moments: a value of one's own asks for that ending.
OF_MOMENTS = (
    "stages", "query", "ridge", "phi", "radius", "inference_method", "combine", "whitening",
)  # fmt: skip
#: A bought range is a scale, not a claim: cells are clipped this many half widths from its middle.
REACH = 64.0
#: So many bounds of a bias are printed under a summary.
SHOWN = 8
#: Spread (sd) of a column, and of the residual, in half ranges, that a plan assumes.
_SPREAD = 0.5


@dataclass(frozen=True, eq=False)
class ScoredDetail:
    """What a scoring fit decided before the first row.

    Attributes
    ----------
    mu : float
        Of all releases but those of ranges.
    shares : tuple of float
        Of the passes.
    rows : int
        Row count of the public rules.
    guide : Guide
        Rows that the passes before the last read.
    meat : bool
        Release the meat of the sandwich (robust errors).
    radius : float
        Of the start (0: by rule).
    white : PublicWhitening or None
    """

    mu: float
    shares: tuple[float, ...]
    rows: int
    guide: Guide
    meat: bool
    radius: float = 0.0
    white: PublicWhitening | None = None

    def scoring(self, rank: int, relation: str) -> ScoringPlan:
        """Return the plan of the passes for a design of this rank."""
        return plan_scoring(
            replace(LINEAR, passes=self.shares), self.mu, self.rows, rank, relation,
            meat=self.meat, guide=self.guide, radius=self.radius,
        )  # fmt: skip


def why_not(request: Request) -> str:
    """Return why a call does not end by scoring, in words; empty if it does. Public."""
    asked = request.options.get("scoring")
    if asked and request.delta == 0:
        raise RequestError(
            "scoring=True has its proof for Gaussian noise: give delta > 0, as in delta=1e-6, "
            "or drop scoring="
        )
    if asked is not None:
        return "" if asked else "scoring=False was given"
    if not request.inference:
        return "inference=False asks for no intervals, so the fit is tuned for prediction"
    if request.delta == 0:
        return "scoring has its proof for Gaussian noise, and delta = 0"
    if request.split is not None and set(request.split) != set(PASSES):
        return "split= names the stages of moments"
    defaults = {o.name: o.default for o in request.method.options}
    for name in OF_MOMENTS:
        if name in defaults and request.options[name] != defaults[name]:
            return f"{name}= belongs to the ending by moments"
    return ""


def _figure(scoring: ScoringPlan) -> float:
    """Return the spectral noise of the last information, relative to it: a public number."""
    return scoring.passes[-1].noise.information / scoring.n * math.sqrt(2.0 * scoring.p)


def plan(request: Request, design: Design, n: int, white: PublicWhitening | None = None) -> Plan:
    """Plan a scoring fit: of ``ssp``, or of ``pmt`` about a public whitening."""
    rows = planning_rows(request, n)
    bought, buying, budget = (
        purchase(request, design) if white is None else (None, [], currency(request))
    )
    share = 1.0 - bounds_share(request, bought)
    shares = LINEAR.passes
    if request.split is not None:
        shares = tuple(float(request.split[name]) for name in PASSES)
    x = noise_ratio(mu_like(Gaussian(budget.mu), design.q), design.p, rows)
    radius = 0.0
    if white is not None:
        start = budget.mu * math.sqrt(shares[0])
        radius = public_radius(white, start, rows, phi=0.1, rule=None)
    detail = ScoredDetail(
        budget.mu,
        shares,
        rows,
        _guide(request, design, n, x),
        request.options["vcov"] != "iid",
        radius,
        white,
    )
    scoring = detail.scoring(design.p, request.relation)
    quiet = _figure(scoring) <= LOUD
    listed = [
        *buying,
        *(replace(step, share=(step.share or 0.0) * share) for step in steps(scoring)),
    ]
    return Plan.of(
        request,
        design,
        n,
        listed,
        shares={
            **({"ranges": 1.0 - share} if bought is not None else {}),
            **{name: part * share for name, part in zip(PASSES, shares, strict=True)},
        },
        scales={
            "public noise ratio": x,
            "noise of the information": _figure(scoring),
            "clip of scores": scoring.passes[-1].clip,
        },
        expected_se=_expected(detail, design, request.relation) if quiet else {},
        purchase=bought,
        detail=detail,
        advice=_advice(_figure(scoring)),
        passes=len(shares) + (bought is not None),
    )


def _advice(figure: float) -> tuple[str, ...]:
    if figure <= LOUD:
        return ()
    return (
        f"the noise of the information will be {figure:.2g} of its size (above {LOUD:g}): "
        "intervals will be wide and some coefficients not determined. More rows, a larger eps, "
        "narrower ranges or fewer terms help; for predictions alone inference=False spends "
        "nothing on errors",
    )


def _guide(request: Request, design: Design, n: int, x: float) -> Guide:
    """Return which rows the early passes read, by public numbers (``theory.md`` 3.2)."""
    # In a table sorted by a private column one row replaced moves the others between windows.
    ordered = request.relation == "replace" and bool(request.options.get("public_order"))
    return Guide(guide_share(x), guide_windows(design, n, x) if ordered else ALL_ROWS)


def _expected(detail: ScoredDetail, design: Design, relation: str) -> dict[str, float]:
    """Return expected privacy errors: the noise of the scores, mapped by a public guess.

    Assumed, as in :mod:`dpmodels.models.linear.expected`: uncorrelated columns about the middle of
    their ranges; their sd and the residual's a quarter of the range.
    """
    if design.unknown or detail.white is not None:
        return {}
    coordinates = public_coordinates(design)
    noise = detail.scoring(coordinates.rank, relation).passes[-1].noise.score / detail.rows
    sd = np.array([1.0 if c.kind == "intercept" else _SPREAD for c in design.columns])
    H = coordinates.W0 @ np.diag(sd**2) @ coordinates.W0.T
    A, _ = coordinates.back()
    values, vectors = np.linalg.eigh(H)
    T = A @ (vectors / np.sqrt(np.maximum(values, 1e-12)))
    se = noise * _SPREAD * np.linalg.norm(T, axis=1)
    return dict(zip(design.names, se.tolist(), strict=True))


def _white_coordinates(white: PublicWhitening) -> Coordinates:
    """Return coordinates whitened by public moments, about the public fit."""
    p = len(white.L) - 1
    unit = UnitScale(1.0 / white.scale, np.zeros(p + 1), False)
    W0 = np.asarray(np.linalg.inv(white.L[:p, :p]))
    return Coordinates(
        unit, W0, np.ones(p, dtype=bool), np.array(white.L[p, :p]), 1.0 / float(white.L[p, p])
    )


def _reaching(design: Design, asked: Design) -> Design:
    """Return the design with bought ranges widened: cells are clipped far beyond them."""
    names = asked.unknown
    wide = {}
    for column in design.z:
        if column.name in names and column.interval is not None:
            lo, hi = column.interval
            middle, half = (lo + hi) / 2.0, (hi - lo) / 2.0
            wide[column.name] = (middle - REACH * half, middle + REACH * half)
    return design.with_bounds(wide) if wide else design


def release(plan: Plan, rows: Rows, run: Run) -> Release:
    """Release the start and the scoring passes.

    Privacy
    -------
    Unit: one row; replace-one (n public) or add-remove. Charged: the steps of the plan.
    """
    detail: ScoredDetail = plan.detail
    design = ranged_design(plan, rows, run, wide=True)
    if design is None:
        return no_ranges(plan)
    if detail.white is None:
        coordinates = public_coordinates(design)
    else:
        coordinates = _white_coordinates(detail.white)
    scoring = detail.scoring(coordinates.rank, plan.request.relation)
    read = _reaching(design, plan.design)
    found = release_scoring(scoring, coordinates, read, rows, run)
    last = found.released[-1]
    values = {"start": found.Q}
    for k, one in enumerate(found.released, 1):
        values |= {f"information {k}": one.information, f"scores {k}": one.score}
    values |= {
        name: part
        for name, part in (("meat", last.meat), ("ordinary", last.spread), ("bins", last.bins))
        if part is not None
    }
    return Release(values, plan.guarantee, design, detail=found)


def estimate(plan: Plan, release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware errors."""
    if not release.reply:
        return no_reply(release)
    detail: ScoredDetail = plan.detail
    found: ScoringRelease = release.detail
    coordinates, design = found.coordinates, release.design
    scoring = detail.scoring(coordinates.rank, plan.request.relation)
    n, r = detail.rows, coordinates.rank
    A, a = coordinates.back()
    state, before = found.last.state, found.before
    params = A @ state.theta + a
    inference = infer(
        found.released[-1], scoring.passes[-1], before, found.last, free=n / max(n - r, 1.0)
    )
    T = A @ before.W
    sampling, privacy = T @ inference.sampling @ T.T, T @ inference.privacy @ T.T
    lost = ~coordinates.identified
    for part in (sampling, privacy):
        part[lost] = part[:, lost] = math.nan
    bias = np.where(lost, math.nan, inference.bias(T, before.phi))
    few = inference.leverage(T) > FEW_ROWS
    open_ = inference.undetermined(T)
    scale = float(coordinates.unit.scale[-1])
    constant = _constant(design, coordinates, before.W)
    notes = _notes(plan, design, bias, few & ~open_ & ~lost, open_ & ~lost, lost)
    if constant is not None and plan.request.relation == "replace":
        last, one = scoring.passes[-1], found.released[-1]
        kept = float(constant @ one.information @ constant) / last.rows
        sd = last.noise.information * float(constant @ constant) / last.rows
        notes += empty_rows(1.0 - kept, sd, design, shortened=True)
    about = _r_squared(plan, release)
    if about:
        notes.append(
            "R-squared is from the first pass alone, whose long rows were scaled down: a rough "
            "figure. dp_moments() and dp_ols(formula, m), or scoring=False, give a closer one."
        )
    return Estimate(
        design.names,
        params,
        vcov_sampling=sampling,
        vcov_privacy=privacy,
        bias=bias,
        stats={
            **about,
            "sigma": math.sqrt(inference.variance(constant) * before.phi) / scale,
            "score_clip": scoring.passes[-1].clip,
            "score_noise": scoring.passes[-1].noise.score,
        },
        notes=tuple(notes),
        arrays={"start": found.Q, "information": found.released[-1].information},
    )


def _r_squared(plan: Plan, release: Release) -> dict[str, float]:
    """Return R-squared and its errors from the start; nothing without an intercept or full rank."""
    c, design = release.detail.coordinates, release.design
    if not design.has_intercept or design.weights is not None or c.rank < design.p:
        return {}
    stage = start_stage(plan, release)
    back = unit_back(c.unit) @ np.linalg.inv(c.start)
    read = plan.detail.guide.early(plan.detail.rows)
    m = SecondMoments(stage.Q, stage.V, float(read), back[0])
    found = fit_statistics(m, back[:-1], back[-1])
    found.pop("sigma_se", None)  # sigma is that of the last pass
    return found


def _constant(design: Design, coordinates: Coordinates, W: Array) -> Array | None:
    """Return a with ``a'v = 1`` in every complete row: None without an intercept, or weighted."""
    if not design.has_intercept or design.weights is not None:
        return None
    cell = np.array([float(c.kind == "intercept") for c in design.columns])
    cell /= coordinates.unit.scale[:-1]
    return np.asarray(np.linalg.lstsq((W @ coordinates.W0).T, cell, rcond=None)[0])


def start_stage(plan: Plan, release: Release) -> Stage:
    """Return the start as a released stage, for comparing private with public moments."""
    detail: ScoredDetail = plan.detail
    found: ScoringRelease = release.detail
    scoring = detail.scoring(found.coordinates.rank, plan.request.relation)
    mechanism, q = Gaussian(scoring.start), len(found.Q)
    s = ball_sd(mechanism, scoring.radius, q, plan.request.relation)
    return Stage(found.Q, joint_noise(q, s, mechanism), np.eye(q), scoring.radius)


def _listed(names: tuple[str, ...], bias: Array) -> str:
    """Return the first bounds in words."""
    given = [f"{n} {b:.2g}" for n, b in zip(names, bias, strict=True) if math.isfinite(b)]
    return ", ".join(given[:SHOWN]) + (", ..." if len(given) > SHOWN else "") or "none"


def _notes(
    plan: Plan,
    design: Design,
    bias: Array,
    few: npt.NDArray[np.bool_],
    undetermined: npt.NDArray[np.bool_],
    lost: npt.NDArray[np.bool_],
) -> list[str]:
    """Say what the errors cover, and which coefficients deserve care."""

    def names(which: npt.NDArray[np.bool_]) -> str:
        return ", ".join(n for n, w in zip(design.names, which, strict=True) if w)

    robust = plan.detail.meat
    notes = [text[:1].upper() + text[1:] + "." for text in plan.reasons]
    notes.append(
        "Intervals and p-values are bias-aware: they allow for what the clipping of long scores "
        "may have moved, by a rule calibrated on real tables, not a proof. Bound of the bias "
        "(fit.bias_bound): "
        f"{_listed(design.names, bias)}."
    )
    notes.append(
        "Errors allow unequal variances (HC1 sandwich), not correlated rows."
        if robust
        else "Errors are model-based (vcov='iid': one residual variance)."
    )
    if few.any():
        notes.append(
            f"Rests on few rows: {names(few)}. The interval allows for a bias of bias_bound; more "
            "is possible."
        )
    if undetermined.any():
        notes.append(
            f"Not determined at this budget, so the interval is wide: {names(undetermined)}. More "
            "rows, a larger eps, narrower ranges or fewer terms would help."
        )
    if lost.any():
        notes.append(
            f"Not determined by the design, whatever the rows: {names(lost)} (a column is a "
            "combination of others). Drop a term."
        )
    return notes
