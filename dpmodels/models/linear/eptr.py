"""``dp_ols(method="eptr")``: efficient Propose-Test-Release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.release import Own, Program
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.models.linear import scored
from dpmodels.models.linear.opening import (
    OPENED_OPTIONS,
    Whitened,
    WhitenedStart,
    why_alone,
)
from dpmodels.own.least_squares import (
    BOUND_STEP,
    PAIR_STEP,
    STEP_NAMES,
    OlsDetail,
    OlsReleased,
    begin_eptr,
    release,
    working_radius,
)
from dpmodels.planning import SPREAD, Plan, column_radius, expected_errors, spreads
from dpmodels.privacy.mechanisms import upper_quantile
from dpmodels.proof.sets import ls_bound
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
from dpmodels.scoring.coordinates import Coordinates
from dpmodels.scoring.notes import no_ranges_note
from dpmodels.sums.ask import Read
from dpmodels.sums.scaling import unit_scale

#: Shares of mu^2 (after the ranges) by (needs the scale matrix, needs the variance).
_EPTR_SHARES = {
    (True, True): {"scale": 0.20, "bound": 0.12, "coef": 0.60, "variance": 0.08},
    (True, False): {"scale": 0.20, "bound": 0.12, "coef": 0.68},
    (False, False): {"bound": 0.15, "coef": 0.85},
}


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
            form, raw, rx, ry, rtheta, project, eps_t=eps_t, c0=c0,
            sharp=request["coin"] == "sharp",
        )  # fmt: skip
        return Plan.of(
            request, design, n, part.coins(PAIR_STEP, test=test),
            purchase=part.purchase,
            scales={"working row norm": rx}, detail=detail,
        )  # fmt: skip
    whiten = request["whiten"] is not False
    # Standard errors need the scale matrix even where it does not whiten.
    shares = _EPTR_SHARES[(whiten or request.inference, request.inference)]
    delta_f = FAILURE_SHARE * request.delta
    split = Split(
        request, design, {k: (STEP_NAMES[k], share) for k, share in shares.items()},
        failure=delta_f, test="bound", ranged=not raw,
    )  # fmt: skip
    detail = OlsDetail(
        form, raw, rx, ry, rtheta_option, project, whiten, request["on_fail"] == "ridge", split.mu,
    )  # fmt: skip
    radius = working_radius(detail, p)
    margin = upper_quantile(delta_f) / split.mu["bound"] + 1.0
    need = margin * radius**2
    advice = (
        f"with n = {n} and {p} coefficients the test of this method cannot be expected to pass: "
        f"it needs about n = {math.ceil(need / 1000) * 1000:d} at this eps and delta. More rows, a "
        "larger eps, fewer columns, on_fail='ridge' or method='ssp' would answer"
    )
    return split.plan(
        n, detail=detail, expected_se=_expected_se(detail, design, n, margin),
        scales={
            "working row norm": radius,
            "margin of the eigenvalue test (in rows at the bound)": margin,
            "noise multiplier of the coefficients": 1.0 / split.mu["coef"],
        },
        # the test cannot pass if even the best design is below its margin
        advice=() if n >= need or detail.ridge else (advice,),
    )  # fmt: skip


def _expected_se(detail: OlsDetail, design: Design, n: int, margin: float) -> dict[str, float]:
    """Return the expected privacy error of each coefficient, for spread-out predictors.

    A public assumption, not data: columns are uncorrelated, with sd a quarter of the range, so
    whitening multiplies a column in half-ranges by 2. Empty if the test is not expected to pass, or
    if a range is not known yet.
    """
    if detail.raw or design.unknown:
        return {}
    radius2 = working_radius(detail, design.p) ** 2
    smallest = n if detail.whiten else n * SPREAD**2
    room = smallest - margin * radius2
    if room <= 0:
        return {}
    rtheta = min(detail.ry * math.sqrt(n / room), detail.rtheta)
    rtheta = min(rtheta, detail.ry) if detail.whiten else rtheta
    sigma = ls_bound(math.sqrt(radius2), detail.ry, rtheta) / room / detail.mu["coef"]
    unit = unit_scale(design)
    A, _ = unit.back()
    return expected_errors(design.names, A / spreads(design) if detail.whiten else A, sigma)


# -- ePTR as the start of a fit by scores: the same releases, in the coordinates of the passes.


#: Shares of mu^2 of the start.
START_SHARES = _EPTR_SHARES[True, True]
#: Options that belong to the release of ePTR alone.
OF_RELEASE = (
    "c0", "variant", "whiten", "clip", "Rx", "Ry", "Rtheta", "on_fail", "coin", "test_share",
)  # fmt: skip


@dataclass(frozen=True)
class EptrStart(WhitenedStart):
    """Start of a fit by scores: least squares by ePTR, with a ridge where the bound is low."""

    shares: ClassVar[Mapping[str, float]] = START_SHARES
    names: ClassVar[Mapping[str, str]] = STEP_NAMES | {"bound": BOUND_STEP}

    def failures(self, mu: float) -> Mapping[str, float]:
        """Return the failure probability of the lower bound."""
        return {"bound": self.failure}

    def coefficients(
        self, mu: float, rows: Whitened, coordinates: Coordinates, read: Read
    ) -> Program:
        """Release the lower bound and the coefficients."""
        noisy, lower, rho, h = yield Own(partial(begin_eptr, rows.over, rows.n, read=read))
        sd = h / self.step_mus(mu)["coef"]
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
        title="ePTR least squares", backend=Backend(plan, with_ranges(release), estimate),
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
