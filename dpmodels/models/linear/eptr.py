"""``dp_ols(method="eptr")``: efficient Propose-Test-Release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.linear import scored
from dpmodels.models.linear.opening import (
    OPENED_OPTIONS,
    Whitened,
    WhitenedStart,
    why_alone,
)
from dpmodels.planning import SPREAD, Plan, column_radius, expected_errors, spreads
from dpmodels.privacy.mechanisms import agm, upper_quantile
from dpmodels.privacy.noise import (
    integer_coin,
    paper_midpoint,
    paper_sigma,
    reply_probability,
    split_midpoint,
)
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import Ball, float_allowance, ls_bound
from dpmodels.proof.statistics import Gram
from dpmodels.ranges import FAILURE_SHARE, Split, pair_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    Backend,
    Ending,
    Method,
    Option,
    automatic,
    one_of,
    positive,
    register_method,
    share,
)
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.sums.ask import Added, Ask, Moments, Query, Read, clipped_residuals
from dpmodels.sums.rowmap import RowMap, UnitScale, unit_scale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.scoring.coordinates import Coordinates


#: Shares of mu^2 (after the ranges) by (needs the scale matrix, needs the variance).
_EPTR_SHARES = {
    (True, True): {"scale": 0.20, "bound": 0.12, "coef": 0.60, "variance": 0.08},
    (True, False): {"scale": 0.20, "bound": 0.12, "coef": 0.68},
    (False, False): {"bound": 0.15, "coef": 0.85},
}
_STEP_NAMES = {
    "scale": "scale matrix",
    "bound": "lower bound and test",
    "coef": "coefficients",
    "variance": "residual variance",
}


@dataclass(frozen=True)
class OlsDetail:
    """Plan of ePTR, fixed before the first row."""

    # "auto": a lower bound of the smallest eigenvalue is released. "fixed": a private coin tells
    # whether it exceeds c0. "paper": the same with the paper's looser constants.
    form: str
    raw: bool  # Rows are bounded by ``Rx`` in the user's units (no ranges are used)
    rx: float  # Largest norm of a row's predictors, in public units (if ``raw`` the design's own)
    ry: float  # Largest absolute response, in the same units
    rtheta: float  # Bound on the coefficient norm: the call's, or one that c0 implies, else inf
    project: bool
    whiten: bool = False
    ridge: bool = False
    mu: dict[str, float] = field(default_factory=dict)  # Share name -> mu (auto form)
    delta_f: float = 0.0  # Probability that the released lower bound is wrong (form "auto")
    z: float = 0.0  # Normal quantile of that probability
    # The forms "fixed" and "paper" alone: eps of the coin and of the coefficients, delta, c0
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0
    c0: float = 0.0  # Least eigenvalue per row
    sharp: bool = False  # The sharper integer coin


def _form(request: Request) -> str:
    """Return which form a call asks for; refuse options that do not go together."""
    form = "auto" if request["c0"] in (None, "auto") else "fixed"
    if request["variant"] == "paper":
        form = "paper"
        missing = [k for k in ("Rx", "Rtheta", "c0") if not isinstance(request[k], float)]
        if missing:
            raise RequestError(
                f"variant='paper' runs the published algorithm and needs {', '.join(missing)}=: "
                "public bounds on the row norm (Rx), on the coefficient norm (Rtheta), and the "
                "required smallest eigenvalue per row (c0). "
                "For example Rx=2.0, Rtheta=1.0, c0=0.2"
            )
    if form != "auto":
        if request["whiten"] is True:
            raise RequestError("whiten=True goes with c0='auto': a fixed c0 has no scale matrix")
        if request["on_fail"] == "ridge":
            raise RequestError("on_fail='ridge' goes with c0='auto'")
    if request["Rx"] is not None and form != "paper" and request["Ry"] is None:
        raise RequestError(
            "Rx= bounds the row norm in the design's own units, so the response needs its own "
            "bound too: add Ry=, for example Ry=10.0; or drop Rx= and declare ranges"
        )
    if request.relation != "replace":
        raise RequestError("eptr has its proof for relation='replace' (n public)")
    return form


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="eptr")``.

    Source: Shen, Tong and Wang, Algorithms 2 and 4; the auto form and the constants are ours
    (``eptr.md``).
    """
    form = _form(request)
    raw, paper, p = form == "paper" or request["Rx"] is not None, form == "paper", design.p
    rx = float(request["Rx"]) if raw else column_radius(design)
    rtheta_option = math.inf if request["Rtheta"] is None else float(request["Rtheta"])
    ry = rx * rtheta_option if paper else float(request["Ry"]) if raw else 1.0
    project = request["clip"] == "project" or (paper and request["clip"] is None)
    if form != "auto":
        part = pair_part(request, () if raw else design.unknown)
        c0 = float(request["c0"])
        test = 0.5 if paper else float(request["test_share"])
        eps_t = test * part.eps
        # On the safe set lambda_min >= c0 n, and |theta|^2 lambda_min <= sum of y^2 <= n R_y^2.
        rtheta = rtheta_option if paper else min(rtheta_option, ry / math.sqrt(c0))
        detail = OlsDetail(
            form, raw, rx, ry, rtheta, project, eps_t=eps_t, eps_r=part.eps - eps_t,
            delta=part.delta, c0=c0, sharp=request["coin"] == "sharp",
        )  # fmt: skip
        return Plan.of(
            request, design, n, part.coins("coefficients and test", test=test),
            purchase=part.purchase,
            scales={"working row norm": rx}, detail=detail,
        )  # fmt: skip
    whiten = request["whiten"] is not False
    # Standard errors need the scale matrix even where it does not whiten.
    shares = _EPTR_SHARES[(whiten or request.inference, request.inference)]
    delta_f = FAILURE_SHARE * request.delta
    split = Split(
        request, design, {k: (_STEP_NAMES[k], share) for k, share in shares.items()},
        failure=delta_f, test="bound", ranged=not raw,
    )  # fmt: skip
    detail = OlsDetail(
        form, raw, rx, ry, rtheta_option, project, whiten, request["on_fail"] == "ridge", split.mu,
        delta_f, upper_quantile(delta_f),
    )  # fmt: skip
    radius = working_radius(detail, p)
    margin = detail.z / split.mu["bound"] + 1.0
    need = margin * radius**2
    advice = (
        f"with n = {n} and {p} coefficients the test of this method cannot be expected to pass: "
        f"it needs about n = {math.ceil(need / 1000) * 1000:d} at this eps and delta. More rows, a "
        "larger eps, fewer columns, on_fail='ridge' or method='ssp' would answer"
    )
    return split.plan(
        n, detail=detail, expected_se=_expected_se(detail, design, n),
        scales={
            "working row norm": radius,
            "margin of the eigenvalue test (in rows at the bound)": margin,
            "noise multiplier of the coefficients": 1.0 / split.mu["coef"],
        },
        # the test cannot pass if even the best design is below its margin
        advice=() if n >= need or detail.ridge else (advice,),
    )  # fmt: skip


def working_radius(detail: OlsDetail, p: int) -> float:
    """Return the radius of the ball of predictors in the pass for the coefficients.

    That is the ball after whitening, if the plan whitens.
    """
    return math.sqrt(1.5 * p) if detail.whiten else detail.rx


def _expected_se(detail: OlsDetail, design: Design, n: int) -> dict[str, float]:
    """Return the expected privacy error of each coefficient, for spread-out predictors.

    A public assumption, not data: columns are uncorrelated, with sd a quarter of the range, so
    whitening multiplies a column in half-ranges by 2. Empty if the test is not expected to pass, or
    if a range is not known yet.
    """
    if detail.raw or design.unknown:
        return {}
    radius2 = working_radius(detail, design.p) ** 2
    smallest = n if detail.whiten else n * SPREAD**2
    room = smallest - (detail.z / detail.mu["bound"] + 1.0) * radius2
    if room <= 0:
        return {}
    rtheta = min(detail.ry * math.sqrt(n / room), detail.rtheta)
    rtheta = min(rtheta, detail.ry) if detail.whiten else rtheta
    sigma = ls_bound(math.sqrt(radius2), detail.ry, rtheta) / room / detail.mu["coef"]
    unit = unit_scale(design)
    A, _ = unit.back()
    return expected_errors(design.names, A / spreads(design) if detail.whiten else A, sigma)


# -- The private stage of ePTR least squares: rows in, released numbers out.


@dataclass(frozen=True)
class OlsReleased:
    """Public numbers of the release, in addition to the released ones."""

    unit: UnitScale
    whitening: Array | None = None  # (p, p): W = sqrt(n) St^{-1/2}
    # Released lower bound of the smallest eigenvalue (auto form), otherwise NaN.
    lower: float = math.nan
    ridge: float = 0.0  # rho, a function of the lower bound
    rtheta: float = math.inf  # Radius of the coefficient ball in force
    sigma: float = math.nan  # Sd of the noise on each working coefficient


def _row_map(detail: OlsDetail, unit: UnitScale, p: int, matrix: Array | None = None) -> RowMap:
    """Return the row map of a pass: predictors scaled into a ball, the response into its range.

    A row has p predictors and then the response, in public units (``unit``). ``matrix`` (p, p) is
    the released whitening of the predictors. It is None in the pass before that release.
    """
    radius = working_radius(detail, p) if matrix is not None else detail.rx
    row_matrix = None
    if matrix is not None:
        row_matrix = np.eye(p + 1)  # the response is not whitened
        row_matrix[:p, :p] = matrix
    bounds = np.full(p + 1, radius)
    bounds[p] = detail.ry
    return RowMap(unit, bounds, ball=p, radius=radius, matrix=row_matrix, project=detail.project)


def solve_projected(S: Array, b: Array, rtheta: float) -> Array:
    """Return S^{-1} b, shrunk into the ball of radius ``rtheta``.

    It is the zero vector if the system is singular or its solution is not finite.
    """
    p = len(b)
    try:
        theta = np.linalg.solve(S, b)
    except np.linalg.LinAlgError:
        return np.zeros(p)
    norm = float(np.linalg.norm(theta))
    if not math.isfinite(norm):
        return np.zeros(p)
    return np.asarray(theta * min(1.0, rtheta / norm) if norm > 0 else theta, dtype=float)


def smallest_eigenvalue(S: Array) -> float:
    """Return lambda_min of a positive semidefinite matrix, never below 0."""
    return max(0.0, float(np.linalg.eigvalsh(S)[0]))


def auto_noise(
    lower: float, detail: OlsDetail, radius: float, top: float, n: int, allowance: float
) -> tuple[float, float, float] | None:
    """Return (rho, R_theta, h) as functions of the released lower bound, or None for no reply.

    h(l) = B(R_theta) / (l - R^2 + rho): the estimator's sensitivity whenever l <= max(lam, lam').
    """
    room = lower - radius * radius * (1.0 + allowance)
    rho = max(0.0, 0.3 * n - room) if detail.ridge else 0.0
    safe = max(room, 0.3 * n) if detail.ridge else room
    if safe <= 0:
        return None
    # |theta|^2 (lam + rho) <= sum of y^2 <= n R_y^2 holds at both neighbours.
    free = detail.ry * math.sqrt(n / safe)
    rtheta = min(top, free)
    return rho, rtheta, ls_bound(radius, detail.ry, rtheta) / safe * (1.0 + allowance)


@with_ranges
def release(plan: Plan[OlsDetail], ask: Ask, design: Design) -> Release:
    """Run ePTR least squares on the rows.

    Privacy
    -------
    Unit: one row; replace-one, n public. Charged: the steps of the plan, whether or not they ran.
    """
    detail, n, p, q = plan.detail, ask.n, design.p, design.q
    unit = UnitScale(np.ones(q), np.zeros(q), False) if detail.raw else unit_scale(design)
    allowance = float_allowance(p, n)
    raw = ask.raw(own_proof("ePTR, least squares"))
    values: dict[str, Array] = {}
    rowmap = _row_map(detail, unit, p)
    over = Moments(design, rowmap)
    if detail.form != "auto":
        G = raw.total(over).real(rowmap.units)
        S, b = G[:p, :p], G[:p, p]
        _, probability, sd = safety(detail, smallest_eigenvalue(S), n, allowance)
        theta = solve_projected(S, b, detail.rtheta)
        noisy = raw.coin_gaussian("coefficients and test", probability, theta, sd)
        if noisy is None:
            return Release({}, plan.guarantee, design, reply=False, why="test")
        released = OlsReleased(unit, rtheta=detail.rtheta, sigma=sd)
        return Release({"theta": noisy}, plan.guarantee, design, detail=released)
    if "scale" in detail.mu:
        ball = Gram(Ball(p))  # the predictors' coordinates
        scale = Query(ball, over, lambda G: Added(G.integers()[:p, :p]), rowmap.radius**2)
        values["scale"] = ask("scale matrix", scale).values
    W = None
    if detail.whiten:
        nu = math.sqrt(2.0) * detail.rx**2 / detail.mu["scale"] * math.sqrt(2.0 * p)
        # W = sqrt(n) St^{-1/2}, eigenvalues of the released St floored at nu
        floored, vectors = np.linalg.eigh(values["scale"])
        W = (vectors * np.sqrt(n / np.maximum(floored, nu))) @ vectors.T
        rowmap = _row_map(detail, unit, p, W)
        over = Moments(design, rowmap)
    G = raw.total(over).real(rowmap.units)
    S, b = G[:p, :p], G[:p, p]
    radius = rowmap.radius
    # Auto form: a lower bound that exceeds lam with probability delta_f only.
    lemma = Of("least eigenvalue", (radius * radius, p, n))
    least = Query(lemma, over, lambda _: Added(np.array([smallest_eigenvalue(S)])))
    lower = float(ask("lower bound and test", least).at_least(detail.delta_f)[0])
    values["lower"] = np.array(lower)
    # The given bound on the working coefficients, before the free one: whitened they are W^{-1}
    # theta, so R_theta stretches by at most |W^{-1}|; and they are of size R_y at most where the
    # whitened eigenvalues are near n.
    top = detail.rtheta
    if W is not None:
        top = min(detail.ry, top / float(np.linalg.eigvalsh(W)[0]))
    proposal = auto_noise(lower, detail, radius, top, n, allowance)
    if proposal is None:
        return Release(
            values, plan.guarantee, design, reply=False, why="test",
            detail=OlsReleased(unit, W, lower),
        )  # fmt: skip
    rho, rtheta, h = proposal
    theta = solve_projected(S + rho * np.eye(p), b, rtheta)
    values["theta"] = raw.gaussian_real("coefficients", theta, h)
    if "variance" in detail.mu:
        values["residual"] = _release_residual(ask, detail, over, G, values["theta"])
    sigma = h / detail.mu["coef"]
    released = OlsReleased(unit, W, lower, rho, rtheta, sigma)
    return Release(values, plan.guarantee, design, detail=released)


def residual_bound(detail: OlsDetail, radius: float, theta: Array) -> float:
    """Return the largest squared residual a row can have: (R_y + R |theta|)^2."""
    return (detail.ry + radius * float(np.linalg.norm(theta))) ** 2


def _release_residual(ask: Ask, detail: OlsDetail, over: Moments, G: Array, theta: Array) -> Array:
    """Release the residual sum of squares at the *released* vector.

    From the moments at hand if n is so large that the noise for unclipped residuals does not
    matter (a rule on public numbers; it saves a pass), otherwise from clipped residuals.
    """
    rowmap = over.rowmap
    bound = residual_bound(detail, rowmap.radius, theta)
    if not detail.project and bound / detail.mu["variance"] <= 2e-4 * ask.n * detail.ry**2:
        t = np.append(-theta, 1.0)
        lemma = Of("squared residuals", (bound, len(theta), ask.n))
        query = Query(lemma, over, lambda _: Added(np.array([t @ G @ t])))
    else:
        query = clipped_residuals(over.design, rowmap, theta, detail.ry)
    return ask("residual variance", query).values[0]


def safety(detail: OlsDetail, lam: float, n: int, allowance: float) -> tuple[float, float, float]:
    """Return (gamma, reply probability, noise sd) of the pair forms at smallest eigenvalue lam."""
    r2 = detail.rx * detail.rx
    if detail.form == "paper":
        gamma = max(0.0, lam - detail.c0 * n - 2.0 * r2) / (2.0 * r2)
        alpha = 4.0 * r2 * detail.rtheta / (detail.c0 * n)
        eps = detail.eps_t + detail.eps_r
        p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
        return gamma, p, paper_sigma(alpha, eps, detail.delta)
    # s (1 + allowance), not s: with the exact s the ceiling breaks the Lipschitz bound at
    # rounding errors.
    s = r2 * (1.0 + allowance)
    steps = math.ceil(max(0.0, lam - detail.c0 * n - s) / s)
    alpha = ls_bound(detail.rx, detail.ry, detail.rtheta) / (detail.c0 * n) * (1.0 + allowance)
    if detail.sharp:
        p = integer_coin(steps, detail.eps_t, detail.delta)
    else:
        p = reply_probability(steps, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))
    return float(steps), p, alpha * agm(detail.eps_r, detail.delta)


# -- ePTR as the start of a fit by scores: the same releases, in the coordinates of the passes.


#: Shares of mu^2 of the start.
START_SHARES = _EPTR_SHARES[True, True]
#: Options that belong to the release of ePTR alone.
OF_RELEASE = (
    "c0", "variant", "whiten", "clip", "Rx", "Ry", "Rtheta", "on_fail", "coin", "test_share",
)  # fmt: skip
BOUND_STEP = "lower bound"


@dataclass(frozen=True)
class EptrStart(WhitenedStart):
    """Start of a fit by scores: least squares by ePTR, with a ridge where the bound is low."""

    shares: ClassVar[Mapping[str, float]] = START_SHARES
    names: ClassVar[Mapping[str, str]] = _STEP_NAMES | {"bound": BOUND_STEP}

    def failures(self, mu: float) -> Mapping[str, float]:
        """Return the failure probability of the lower bound."""
        return {"bound": self.failure}

    def coefficients(
        self, mu: float, rows: Whitened, coordinates: Coordinates, ask: Ask, read: Read
    ) -> tuple[Array, float, dict[str, Any]]:
        """Release the lower bound and the coefficients."""
        return begin_eptr(self, mu, rows, ask, read)


def begin_eptr(
    start: EptrStart, mu: float, rows: Whitened, ask: Ask, read: Read
) -> tuple[Array, float, dict[str, Any]]:
    """Release lower bound and coefficients of whitened rows, with the noise sd of these.

    Privacy
    -------
    Unit: one row; replace-one. These two steps of the start. Rows that coins leave out are zero
    rows, and the projected ridge estimate moves by ``B(R)/(l - R^2 + rho)`` whatever n is.
    """
    each, raw = start.step_mus(mu), ask.raw(own_proof("ePTR, least squares"))
    over, radius, r = rows.over, rows.rowmap.radius, len(rows.W)
    G = raw.total(over, read).real(rows.rowmap.units)
    S, b = G[:r, :r], G[:r, r]
    lemma = Of("least eigenvalue", (radius * radius, r, ask.n))
    least = Query(lemma, over, lambda _: Added(np.array([smallest_eigenvalue(S)])))
    lower = float(ask(BOUND_STEP, least, read).at_least(start.failure)[0])
    detail = OlsDetail(
        "auto", False, radius, rows.bound, math.inf, False, True, ridge=True, mu=each
    )
    allowance = float_allowance(r, ask.n)
    proposal = auto_noise(lower, detail, radius, rows.bound, rows.n, allowance)
    assert proposal is not None  # a ridge always gives one
    rho, rtheta, h = proposal
    theta = solve_projected(S + rho * np.eye(r), b, rtheta)
    noisy = raw.gaussian_real(_STEP_NAMES["coef"], theta, h)
    sd = h / each["coef"]
    return noisy, sd, {
        "lower": np.array(lower), "theta": rows.W @ noisy, "ridge": np.array(rho),
        "noise": np.array(sd),
    }  # fmt: skip


def why_not(request: Request, design: Design, n: int | None) -> str:
    """Return the reason why a call releases ePTR alone, or "" if it ends by scores. Public."""
    return why_alone(request, OF_RELEASE, "the release of ePTR alone")


def plan_scored(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan ``dp_ols(method="eptr")`` that starts by ePTR and ends by scores."""
    _form(request)
    return scored.plan(request, design, n, opening=EptrStart(FAILURE_SHARE * request.delta))


def estimate_scored(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, and add the arrays and notes of the ePTR start."""
    fit = scored.estimate(plan, release)
    if not release.reply:
        return fit
    values = release.detail.fits[0].values
    rho = float(values["ridge"])
    note = messages.EPTR_START_RIDGE if rho > 0.0 else messages.EPTR_START
    stats = {
        "eigenvalue_lower_bound": float(values["lower"]), "noise_sd": float(values["noise"]),
        "ridge": rho,
    }  # fmt: skip
    return replace(fit, notes=(*fit.notes, note()), stats={**fit.stats, **stats})


EPTR_SCORED = Backend(
    plan_scored, scored.release, estimate_scored, title="least squares, private, from ePTR"
)


# -- Coefficients and standard errors of ePTR least squares, from released numbers alone


def covariances(
    detail: OlsDetail, released: OlsReleased, values: dict[str, Array], n: int, p: int
) -> tuple[Array, Array, float]:
    """Return (sampling covariance, privacy covariance, s2) of the *working* coefficients.

    T = W St W with eigenvalues floored at the released lower bound; the residual sum contains
    sigma^2 tr T of privacy noise, which is taken off:
    ``s2 = max((q - sigma^2 tr T) / (m - p), c^2 / (mu_q (m - p)))``.
    """
    W = np.eye(p) if released.whitening is None else released.whitening
    T = W @ values["scale"] @ W
    eigenvalues, vectors = np.linalg.eigh((T + T.T) / 2.0)
    eigenvalues = np.maximum(eigenvalues, max(released.lower, 1e-12 * n))
    # With an intercept, cell (0, 0) of the released matrix is the noisy sum of squared weights:
    # rows voided by a missing cell do not count.
    m = float(n)
    if released.unit.intercept:
        m = min(m, max(float(values["scale"][0, 0]), 1.0))
    free = max(m - p, 1.0)
    sigma2 = released.sigma**2
    q = float(values["residual"])
    c2 = detail.ry**2
    s2 = max((q - sigma2 * float(eigenvalues.sum())) / free, c2 / (detail.mu["variance"] * free))
    sampling = s2 * (vectors / eigenvalues) @ vectors.T
    return sampling, sigma2 * np.eye(p), s2


def estimate(plan: Plan[OlsDetail], release: Release) -> Estimate:
    """Map the release back to the user's units."""
    detail = plan.detail
    design = release.design
    p, names = design.p, design.names
    if not release.reply:
        return no_ranges_note(names) if release.why == "ranges" else Estimate.silent(names)
    released: OlsReleased = release.detail
    A, a = released.unit.back()
    W = np.eye(p) if released.whitening is None else released.whitening
    # theta_unit = W theta, then the affine map of the ranges.
    B = A @ W
    theta = release.values["theta"]
    params = B @ theta + a
    template = messages.BIASED_ROWS if detail.project else messages.SHRUNK_ROWS
    notes = [template(radius=working_radius(detail, p))]
    warnings: list[str] = []
    stats = {"noise_sd": released.sigma, "coefficient_bound": released.rtheta}
    if detail.form == "auto":
        stats["eigenvalue_lower_bound"] = released.lower
        if released.sigma * math.sqrt(p) > released.rtheta:
            warnings.append(
                "the privacy noise exceeds the bound on the coefficients: the estimate says "
                "little. More rows, a larger eps or fewer columns would help"
            )
    privacy = released.sigma**2 * B @ B.T
    sampling = None
    if "residual" in release.values and released.ridge == 0.0:
        cov, _, s2 = covariances(detail, released, dict(release.values), plan.public_n, p)
        sampling = B @ cov @ B.T
        stats["sigma"] = math.sqrt(s2) / float(released.unit.scale[-1])
        notes.append(messages.EPTR_ALONE())
        if not released.unit.intercept:
            notes.append(messages.NO_COUNT())
    if released.ridge > 0.0:
        stats["ridge"] = released.ridge
        notes.append(messages.TESTED_RIDGE())
    return Estimate(
        names,
        params,
        vcov_sampling=sampling,
        vcov_privacy=None if released.ridge > 0.0 else privacy,
        untested=None if sampling is None else np.ones(p, dtype=bool),
        stats=stats,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


register_method(
    Method(
        name="eptr", verb="dp_ols", proof="models/linear/eptr.md", foretells=True,
        title="ePTR least squares", backend=Backend(plan, release, estimate),
        endings=(Ending(EPTR_SCORED, why_not, "ePTR alone"),),
        needs=("delta > 0", "several passes"), inference="yes", accepts=("weights",),
        reference=(
            "Shen, Tong, Wang: Efficient Propose-Test-Release for Optimal Differentially "
            "Private Estimation"
        ),
        options=(
            automatic(
                "c0", "smallest eigenvalue per row to be tested for; 'auto' releases a lower bound"
            ),
            one_of(
                "variant", "'paper' runs the published constants (needs Rx, Rtheta, c0)", "default",
                "paper",
            ),
            Option("whiten", "precondition the design by a private second moment", None, bool),
            one_of(
                "clip",
                "bound rows by scaling x and y together ('scale', default) or x only ('project')",
                "scale", "project", default=None,
            ),
            positive("Rx", "bound on the row norm in the design's own units"),
            positive("Ry", "bound on |response|, with Rx"),
            positive("Rtheta", "public bound on the coefficient norm"),
            one_of(
                "on_fail", "'no-reply', or 'ridge' to answer always with a shrunk estimate",
                "no-reply", "ridge",
            ),
            one_of(
                "coin", "'logistic', or the 'sharp' integer coin (fixed c0)", "logistic", "sharp"
            ),
            share("test_share", "share of eps for the test (fixed c0)", 0.25), *OPENED_OPTIONS,
            BOUNDS_SHARE,
        ),
    )
)  # fmt: skip
