"""The plan of ePTR least squares: radii, shares and steps; all of it public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError
from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.gdp import upper_quantile
from dpmodels.privacy.mechanisms import Approximate, Gaussian, Step
from dpmodels.ranges import FAILURE_SHARE, gaussian_part, pair_part

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

#: Shares of mu^2 (of what the ranges leave) by (needs the scale matrix, needs the variance).
_SHARES = {
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
    """What ePTR decided before the first row.

    Attributes
    ----------
    form : {"auto", "fixed", "paper"}
        A released lower bound of the smallest eigenvalue; or a coin at a fixed c0, with tight or
        with the paper's constants.
    raw : bool
        Rows are bounded by ``Rx`` in the design's own units (no ranges are used).
    rx, ry : float
        Row bounds in the working coordinates.
    rtheta : float
        Given bound on the coefficient norm; infinity: only the free bound.
    whiten, inference, ridge, project : bool
    mu : dict
        Share name -> mu (auto form).
    delta_f, z : float
        Failure probability of the lower bound, and its quantile.
    eps_t, eps_r, delta, c0 : float
        Coin and release of the pair forms.
    sharp : bool
        The sharper integer coin.
    """

    form: str
    raw: bool
    rx: float
    ry: float
    rtheta: float
    whiten: bool
    inference: bool
    ridge: bool
    project: bool
    mu: dict[str, float]
    delta_f: float = 0.0
    z: float = 0.0
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0
    c0: float = 0.0
    sharp: bool = False


def column_radius(design: Design) -> float:
    """Return R_x for rows in unit half-ranges: half the largest squared norm of the slopes.

    ``R_x^2 = 1 + d/2`` for d >= 2 numeric slopes (2 for one); a block of dummies counts 1. Rows
    beyond it are scaled down (weighted least squares), which costs less than the noise it saves.
    """
    numeric = sum(c.kind not in ("intercept", "dummy") for c in design.columns)
    factors = len({c.term for c in design.columns if c.kind == "dummy"})
    square = 1.0 if design.has_intercept else 0.0
    square += numeric / 2.0 if numeric + factors > 1 else numeric
    return math.sqrt(max(square + factors, 0.5))


def _form(request: Request) -> str:
    if request["variant"] == "paper":
        missing = [k for k in ("Rx", "Rtheta", "c0") if not isinstance(request[k], float)]
        if missing:
            raise RequestError(
                f"variant='paper' runs the published algorithm and needs {', '.join(missing)}=: "
                "public bounds on the row norm (Rx), on the coefficient norm (Rtheta), and the "
                "smallest eigenvalue per row that is asked for (c0). "
                "For example Rx=2.0, Rtheta=1.0, c0=0.2"
            )
        return "paper"
    return "auto" if request["c0"] in (None, "auto") else "fixed"


def _check_combination(request: Request, form: str) -> None:
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


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a call of ``dp_ols(method="eptr")``.

    Source: Shen, Tong and Wang, Algorithms 2 and 4; the auto form and the constants are ours
    (``eptr.md``).
    """
    form = _form(request)
    _check_combination(request, form)
    raw = form == "paper" or request["Rx"] is not None
    to_buy = () if raw else design.unknown
    if form == "auto":
        purchase, steps, detail, shares = _plan_auto(request, design, raw, to_buy)
    else:
        purchase, steps, detail, shares = _plan_pair(request, design, n, raw, to_buy, form)
    return Plan.of(
        request,
        design,
        n,
        steps,
        shares=shares,
        scales=_scales(detail, design.p, n),
        expected_se=_expected_se(detail, design, n),
        purchase=purchase,
        detail=detail,
        advice=_advice(detail, design.p, n),
    )


def _shares(request: Request, needs_scale: bool, inference: bool) -> dict[str, float]:
    default = _SHARES[(needs_scale, inference)]
    given = request.shares_of(default)
    return dict(default) if given is None else given


def _plan_auto(
    request: Request, design: Design, raw: bool, to_buy: tuple[str, ...]
) -> tuple[Purchase | None, list[Step], OlsDetail, dict[str, float]]:
    whiten = request["whiten"] is not False
    # Standard errors need the scale matrix even where it does not whiten.
    shares = _shares(request, whiten or request.inference, request.inference)
    delta_f = FAILURE_SHARE * request.delta
    part = gaussian_part(request, to_buy, delta_f)
    steps, mu, bought = list(part.steps), part.mu, part.share
    mus = {k: mu * math.sqrt((1.0 - bought) * share) for k, share in shares.items()}
    for key, share in shares.items():
        steps.append(
            Step(
                _STEP_NAMES[key],
                Gaussian(mus[key]),
                share=share * (1.0 - bought),
                failure=delta_f if key == "bound" else 0.0,
                reply_test=key == "bound",
            )
        )
    detail = OlsDetail(
        form="auto",
        raw=raw,
        rx=float(request["Rx"]) if raw else column_radius(design),
        ry=float(request["Ry"]) if raw else 1.0,
        rtheta=math.inf if request["Rtheta"] is None else float(request["Rtheta"]),
        whiten=whiten,
        inference=request.inference,
        ridge=request["on_fail"] == "ridge",
        project=request["clip"] == "project",
        mu=mus,
        delta_f=delta_f,
        z=upper_quantile(delta_f),
    )
    printed = {k: v * (1.0 - bought) for k, v in shares.items()}
    return part.purchase, steps, detail, {**part.printed, **printed}


def _plan_pair(
    request: Request, design: Design, n: int, raw: bool, to_buy: tuple[str, ...], form: str
) -> tuple[Purchase | None, list[Step], OlsDetail, dict[str, float]]:
    part = pair_part(request, to_buy)
    steps, eps, delta, bought = list(part.steps), part.eps, part.delta, part.share
    c0 = float(request["c0"])
    eps_t = 0.5 * eps if form == "paper" else float(request["test_share"]) * eps
    rx = float(request["Rx"]) if raw else column_radius(design)
    given = math.inf if request["Rtheta"] is None else float(request["Rtheta"])
    if form == "paper":
        rtheta, ry = given, rx * given
    else:
        ry = float(request["Ry"]) if raw else 1.0
        # On the safe set lambda_min >= c0 n, and |theta|^2 lambda_min <= sum of y^2 <= n R_y^2.
        rtheta = min(given, ry / math.sqrt(c0))
    steps.append(
        Step(
            "coefficients and test",
            Approximate(eps, delta),
            share=1.0 - bought,
            reply_test=True,
            label="ePTR coin and Gaussian",
        )
    )
    project = request["clip"] == "project" or (form == "paper" and request["clip"] is None)
    detail = OlsDetail(
        form=form,
        raw=raw,
        rx=rx,
        ry=ry,
        rtheta=rtheta,
        whiten=False,
        inference=False,
        ridge=False,
        project=project,
        mu={},
        eps_t=eps_t,
        eps_r=eps - eps_t,
        delta=delta,
        c0=c0,
        sharp=request["coin"] == "sharp",
    )
    shares = {**part.printed, "coef": 1.0 - bought} if to_buy else {}
    return part.purchase, steps, detail, shares


def working_radius(detail: OlsDetail, p: int) -> float:
    """Return the radius of the rows that the coefficients are computed from."""
    return math.sqrt(1.5 * p) if detail.whiten else detail.rx


def _expected_se(detail: OlsDetail, design: Design, n: int) -> dict[str, float]:
    """Return expected privacy errors for predictors spread evenly over their ranges.

    Assumed (a public assumption, not data): uncorrelated columns with sd a quarter of the range,
    so that whitening multiplies a column in half-ranges by 2. Empty where the test is not expected
    to pass, or a range is not known yet.
    """
    import numpy as np

    from dpmodels.exact.rowmap import unit_scale
    from dpmodels.exact.symmetric import ls_bound

    if detail.form != "auto" or detail.raw or design.unknown:
        return {}
    radius2 = working_radius(detail, design.p) ** 2
    smallest = n if detail.whiten else n * 0.25
    room = smallest - (detail.z / detail.mu["bound"] + 1.0) * radius2
    if room <= 0:
        return {}
    rtheta = min(detail.ry * math.sqrt(n / room), detail.rtheta)
    rtheta = min(rtheta, detail.ry) if detail.whiten else rtheta
    sigma = ls_bound(math.sqrt(radius2), detail.ry, rtheta) / room / detail.mu["coef"]
    unit = unit_scale(design)
    A, _ = unit.back()
    spread = np.array([1.0 if c.kind == "intercept" else 2.0 for c in design.columns])
    W = np.diag(spread if detail.whiten else np.ones(design.p))
    se = sigma * np.sqrt(np.sum((A @ W) ** 2, axis=1))
    return dict(zip(design.names, se.tolist(), strict=True))


def _scales(detail: OlsDetail, p: int, n: int) -> dict[str, float]:
    radius = working_radius(detail, p)
    out = {"working row norm": radius}
    if detail.form == "auto":
        sd = 1.0 / detail.mu["bound"]
        out["margin of the eigenvalue test (in rows at the bound)"] = detail.z * sd + 1.0
        out["noise multiplier of the coefficients"] = 1.0 / detail.mu["coef"]
    return out


def _advice(detail: OlsDetail, p: int, n: int) -> tuple[str, ...]:
    """Public advice: the test cannot pass if even the best design is below its margin."""
    if detail.form != "auto":
        return ()
    radius2 = working_radius(detail, p) ** 2
    need = (detail.z / detail.mu["bound"] + 1.0) * radius2
    if n >= need or detail.ridge:
        return ()
    return (
        f"with n = {n} and {p} coefficients the test of this method cannot be expected to pass: "
        f"it needs about n = {math.ceil(need / 1000) * 1000:d} at this eps and delta. More rows, a "
        "larger eps, fewer columns, on_fail='ridge' or method='ssp' would answer",
    )
