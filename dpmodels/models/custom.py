"""``dp_eptr`` and ``dp_gptr``: a user's own estimator made private by a test that the user proves.

Three forms: a coin on a safety lower bound (Shen, Tong and Wang, Algorithm 2, general split), the
classic test on a distance (Dwork and Lei 2009), a released lower bound.
Statements and proofs: ``privacy/propose.md`` 1, 2; ``models/mean.md`` 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import (
    Approximate,
    Gaussian,
    Pure,
    Step,
    add_remove_request,
    agm,
    mu_gdp,
)
from dpmodels.privacy.noise import (
    integer_coin,
    laplace_test_probability,
    reply_probability,
    split_midpoint,
)
from dpmodels.privacy.returns import EARLY_ENDS_SHARE
from dpmodels.privacy.run import FLOAT_NOTE, ROUND_UP, own_proof, tail_margin
from dpmodels.ranges import FAILURE_SHARE
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Method, Option, one_of, positive, register_method, share
from dpmodels.sources.summed import sampled
from dpmodels.sums.ask import Ask, Raw

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


BOUND_SHARE = 0.15
#: Relative allowance for the public grid of a release.
GRID_ALLOWANCE = 1.0 + 2.0**-20


@dataclass(frozen=True)
class EptrDetail:
    """The split of the budget."""

    coin: str = "integer"
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0
    mu: tuple[float, float] = (0.0, 0.0)  # mu of the lower bound, and of the estimate
    delta_f: float = 0.0


def plan_eptr(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a private release of a user's estimator."""
    for name in ("estimator", "safety"):
        if not callable(f := request[name]):
            raise RequestError(f"{name}= must be a function of an (n, k) array, got {shown(f)}")
    alpha, size = request["alpha"], request["size"]
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RequestError(
            f"size= is the length of the estimate, for example size=1; got {shown(size)}"
        )
    kind = request.method.name
    if kind == "bound":
        if not callable(alpha):
            raise RequestError(
                "method='bound' needs alpha= as a decreasing function h(l): a bound on the change "
                "of the estimate whenever l is at most the larger of the two statistics, infinite "
                "where there is none. For example alpha=lambda l: 2 / l if l > 0 else float('inf')"
            )
        delta_f = FAILURE_SHARE * request.delta
        mu = mu_gdp(request.eps, (1.0 - EARLY_ENDS_SHARE) * request.delta - delta_f)
        mus = (math.sqrt(BOUND_SHARE) * mu, math.sqrt(1.0 - BOUND_SHARE) * mu)
        steps = (
            Step("lower bound and test", Gaussian(mus[0]), share=BOUND_SHARE, failure=delta_f,
                 reply_test=True),
            Step("estimate", Gaussian(mus[1]), share=1.0 - BOUND_SHARE),
        )  # fmt: skip
        return Plan.of(request, design, n, steps, detail=EptrDetail(mu=mus, delta_f=delta_f))
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not alpha > 0:
        raise RequestError(
            "alpha= must be a positive number: a bound on the change of the estimate "
            f"wherever the safety bound is positive; got {shown(alpha)}"
        )
    eps_t = request.eps * float(request["test_share"])
    step = Step(
        "test and estimate", Approximate(request.eps, request.delta), share=1.0, reply_test=True,
        label="Laplace test and Gaussian" if kind == "ptr" else "coin and Gaussian",
        no_reply_eps=eps_t,
    )  # fmt: skip
    coin = "laplace" if kind == "ptr" else request["coin"]
    detail = EptrDetail(coin, eps_t, request.eps - eps_t, request.delta)
    return Plan.of(request, design, n, (step,), detail=detail)


def _result_or_none(function: Callable[[], Any]) -> Any:
    """Return the result of a user-supplied function, or None if it raises.

    The text of an exception is never shown: it could quote rows.
    """
    try:
        return function()
    except KeyboardInterrupt:  # the guard raises a fresh one
        raise
    except BaseException:  # CancelledError and SystemExit too: they may depend on private rows
        return None


def _vector(f: Callable[..., Any], size: int, *args: Any) -> Array:
    """Return f's result of length ``size``, or zeros if it raises or has another length."""
    out = _result_or_none(lambda: np.asarray(f(*args), dtype=float).ravel())
    return np.zeros(size) if out is None or out.shape != (size,) else np.asarray(out)


def safe_vector(f: Callable[[Array], Any], x: Array, size: int) -> Array:
    """Return f(x), of length ``size``; zeros if it raises, is not finite or has another length."""
    out = _vector(f, size, x.copy())
    return out if np.isfinite(out).all() else np.zeros(size)


def _number(function: Callable[..., Any], *args: Any) -> float:
    """Return a finite number, or infinity: a loss that cannot be computed is not bounded."""
    value = _result_or_none(lambda: float(function(*args)))
    return value if value is not None and math.isfinite(value) else math.inf


def safe_number(f: Callable[[Array], Any], x: Array) -> float:
    """Return f(x) as a number; 0 if it raises or is not a finite positive number."""
    value = _number(f, x.copy())
    return value if 0.0 < value < math.inf else 0.0


def reply(detail: EptrDetail, gamma: float) -> float:
    """Return the reply probability at gamma by the chosen test."""
    if detail.coin == "laplace":
        return laplace_test_probability(gamma, detail.eps_t, detail.delta)
    # A hair below the whole number keeps a rounding error from becoming a step of one.
    integer_gamma = math.ceil(gamma / GRID_ALLOWANCE)
    if detail.coin == "sharp":
        return integer_coin(integer_gamma, detail.eps_t, detail.delta)
    value = integer_gamma if detail.coin == "integer" else gamma
    return reply_probability(value, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))


def release_eptr(plan: Plan[EptrDetail], ask: Ask) -> Release:
    """Test, then release the user's estimate.

    **Privacy.** Unit: one row; replace-one, n public. True if the user's two conditions are.
    """
    raw = ask.raw(own_proof("ePTR for a user-supplied estimator"))
    detail = plan.detail
    x = np.ascontiguousarray(sampled(raw.rows, plan.design, range(plan.design.p)).T)
    x[np.isnan(x).any(axis=1)] = 0.0  # a row with a missing cell is a row of zeros
    value = safe_vector(plan.request["estimator"], x, plan.request["size"])
    gamma = safe_number(plan.request["safety"], x)
    if plan.request.method.name == "bound":
        return _release_bound(plan, value, gamma, raw)
    sd = float(plan.request["alpha"]) * GRID_ALLOWANCE * agm(detail.eps_r, detail.delta)
    noisy = raw.coin_gaussian("test and estimate", reply(detail, gamma), value, sd)
    if noisy is None:
        return Release({}, plan.guarantee, plan.design, reply=False, why="test")
    return Release({"estimate": noisy}, plan.guarantee, plan.design, detail=sd)


def _release_bound(plan: Plan[EptrDetail], value: Array, lam: float, raw: Raw) -> Release:
    """Release a lower bound of the safety number, then the estimate if the bound is valid."""
    s = float(plan.request["sensitivity"]) * GRID_ALLOWANCE
    mu_t, mu_r = plan.detail.mu
    noisy = float(raw.gaussian_real("lower bound and test", lam, s))
    lower = noisy - tail_margin(s / mu_t, plan.detail.delta_f)
    values = {"lower": np.array(lower)}
    h = safe_number(lambda _: plan.request["alpha"](lower), np.zeros(1))
    if h <= 0.0:  # not a positive finite number: no valid bound
        return Release(values, plan.guarantee, plan.design, reply=False, why="test")
    values = {"estimate": raw.gaussian_real("estimate", value, h * GRID_ALLOWANCE), **values}
    return Release(values, plan.guarantee, plan.design, detail=h * GRID_ALLOWANCE / mu_r)


def estimate_eptr(plan: Plan[Any], release: Release) -> Estimate:
    """Return the released vector with the sd of its noise."""
    size, labels = plan.request["size"], plan.request["names"]
    names = tuple(labels) if labels else tuple(f"T[{j}]" for j in range(size))
    if not release.reply:
        return Estimate.silent(names)
    sd = float(release.detail)
    return Estimate(
        names,
        release.values["estimate"],
        vcov_privacy=sd * sd * np.eye(size),
        stats={"noise_sd": sd},
        notes=(messages.USER_BOUNDS(),),
    )


EPTR = Backend(plan_eptr, release_eptr, estimate_eptr)


# -- Backend of ``dp_gptr``: a user's mechanism whose privacy loss depends on the data.
#
# "propose" (Algorithm 2 of Redberg, Zhu and Wang): release only if a noisy upper bound of the
# privacy loss stays below what was promised. "choose" (Algorithm 5): release a bound that holds for
# every parameter at once, and choose the parameter from it; it always answers.


LOSS_STEP, OUTPUT_STEP = "privacy loss", "mechanism"


@dataclass(frozen=True)
class GptrDetail:
    """The split of the (add/remove or replace-one) pair."""

    # eps_t, eps_m: eps of the Laplace release of the privacy loss, and eps of the mechanism.
    eps_t: float
    eps_m: float
    # delta_m, delta_f: delta of the mechanism where its bound holds, and failure of the bound.
    delta_m: float
    delta_f: float


def plan_gptr(request: Request, design: Design, n: int | None) -> Plan[Any]:
    """Plan a release of a user's mechanism. Reads no row."""
    propose = request.method.name == "propose"
    for name in ("mechanism", "privacy_loss"):
        if not callable(request[name]):
            raise RequestError(f"{name}= must be a function of an (n, k) array")
    choose = request.options.get("choose")
    if not propose and not callable(choose):
        raise RequestError(
            "test='choose' needs choose=: a function (bound, eps, delta) -> parameter, such that "
            "the mechanism with that parameter is (eps, delta)-DP wherever the bound holds"
        )
    if design.unknown:
        names = ", ".join(design.unknown)
        raise RequestError(f"dp_gptr estimates no ranges: declare those of {names}")
    # proofs of the user's bounds are for add/remove: at Z against rows more and rows less
    pair = (request.eps, request.delta)
    proved = None
    if request.relation == "replace" and request["proof"] == "add-remove":
        pair, proved = add_remove_request(*pair), "add-remove"
    eps_t = float(request["test_share"]) * pair[0]
    delta_f = 0.1 * pair[1]
    detail = GptrDetail(eps_t, pair[0] - eps_t, pair[1] - delta_f, delta_f)
    steps = (
        Step(LOSS_STEP, Pure(eps_t), share=eps_t / pair[0], failure=delta_f, reply_test=propose),
        Step(OUTPUT_STEP, Approximate(detail.eps_m, detail.delta_m), share=detail.eps_m / pair[0]),
    )
    return Plan.of(request, design, n, steps, notes=(FLOAT_NOTE,), proved=proved, detail=detail)


def _rounded(out: Array) -> Array:
    """Round to 32 significant bits: a public set of numbers, whatever noise the user drew."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(out), out, 0.0))
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**32) * 2.0**-32, exponent))


def release_gptr(plan: Plan[GptrDetail], ask: Ask) -> Release:
    """Release an upper bound of the privacy loss; then the mechanism, if the bound allows.

    **Privacy.** Unit: one row. (eps_t, 0) for the bound, failure delta_f, and the mechanism's pair:
    the one-sided composition (``privacy/one_sided.md``, section 1), **if the user's bounds are
    right**.
    """
    raw = ask.raw(own_proof("generalized propose-test-release for a user-supplied mechanism"))
    request, detail, design = plan.request, plan.detail, plan.design
    # read by the caller: the user's functions take all rows at once, and are not sent to workers;
    # a row with a missing cell is a row of zeros
    parts = [np.where(np.isnan(b).any(0), 0.0, b).T for b in raw.rows.blocks(design)]
    Z = np.vstack([np.zeros((0, design.p)), *parts])
    sensitivity = float(request["sensitivity"])
    # an unbounded loss is released as a number far beyond any use
    loss = min(_number(request["privacy_loss"], Z), 1e9 * max(1.0, sensitivity))
    s = sensitivity * (1.0 + 2.0**-20)
    noisy = float(raw.laplace_real(LOSS_STEP, loss, s))
    scale = s / detail.eps_t * ROUND_UP
    # P(Laplace < -t) = exp(-t/scale)/2; one grid step more for the lattice
    bound = noisy + scale * (math.log(1.0 / (2.0 * detail.delta_f)) + 2.0**-20)
    values = {"loss bound": np.array(bound)}
    arguments = [Z]
    if request.method.name == "propose":
        if bound > detail.eps_m:
            return Release(values, plan.guarantee, design, reply=False, why="test")
    else:
        arguments.append(request["choose"](bound, detail.eps_m, detail.delta_m))
    out = _vector(request["mechanism"], request["size"], *arguments, raw.inner_source(OUTPUT_STEP))
    values["output"] = _rounded(out)
    return Release(values, plan.guarantee, design)


def estimate_gptr(plan: Plan[GptrDetail], release: Release) -> Estimate:
    """Name the entries of the mechanism's output."""
    size = plan.request["size"]
    names = plan.request["names"] or tuple(f"out{j + 1}" for j in range(size))
    bound = float(release.values["loss bound"])
    note = messages.USER_LOSS()
    if not release.reply:
        return Estimate.silent(names, stats={"loss_bound": bound})
    return Estimate(names, release.values["output"], stats={"loss_bound": bound}, notes=(note,))


GPTR_CUSTOM = Backend(plan_gptr, release_gptr, estimate_gptr)


# -- Methods of a user's own estimator, as data.


_FUNCTIONS = (
    Option("estimator", "function of an (n, k) array", None),
    Option("safety", "function of an (n, k) array", None),
    Option("alpha", "bound on the change of the estimate", None),
    Option("size", "length of the estimate", 1, int, lower=0),
    Option("names", "names of its entries", None),
)

_eptr = functools.partial(
    Method, verb="dp_eptr", proof="models/custom.md", backend=EPTR, by_rows=True,
    needs=("delta > 0", "a proof of the user"), inference="privacy part only", privacy_se="public",
)  # fmt: skip

register_method(
    _eptr(
        name="coin",
        title="Efficient Propose-Test-Release",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 2",
        options=(
            *_FUNCTIONS,
            share("test_share", "share of eps for the test", 0.25),
            one_of("coin", "'integer', 'sharp' or 'logistic'", "integer", "sharp", "logistic"),
        ),
    )
)

register_method(
    _eptr(
        name="ptr",
        title="Propose-Test-Release with a distance",
        reference="Dwork and Lei (2009), Differential privacy and robust statistics",
        options=(*_FUNCTIONS, share("test_share", "share of eps for the test", 0.5)),
    )
)

register_method(
    _eptr(
        name="bound",
        title="Release of a lower bound, then of the estimate",
        reference="theory note of the ptr room, section 2",
        options=(*_FUNCTIONS, positive("sensitivity", "sensitivity of the statistic", 1.0)),
    )
)

_USER = (
    Option("mechanism", "the user's mechanism", None, object),
    Option("privacy_loss", "its data-dependent privacy loss, or a statistic", None, object),
    positive("sensitivity", "of the privacy loss", 1.0),
    Option("size", "length of the output", 1, int, lower=0),
    Option("names", "names of the outputs", None, object),
    share("test_share", "share of eps for the test", 0.25),
    one_of("proof", "relation of the user's proofs", "add-remove", "replace"),
)  # fmt: skip

for _name, _more in (
    ("propose", ()),
    ("choose", (Option("choose", "(bound, eps, delta) -> parameter", None, object),)),
):
    register_method(
        Method(
            name=_name,
            verb="dp_gptr",
            proof="models/custom.md",
            title="Generalized Propose-Test-Release"
            + (" (bound for every parameter)" if _more else ""),
            backend=GPTR_CUSTOM,
            by_rows=True,
            needs=("delta > 0", "one pass", "ranges", "a proof"),
            relations=("replace", "add-remove"),
            inference="no",
            privacy_se="unavailable",
            reference="Redberg, Zhu, Wang (2023), Algorithm " + ("5" if _more else "2"),
            options=_USER + _more,
        )
    )
