"""Backend of ``dp_gptr``: a user's mechanism whose privacy loss depends on the data.

"propose" (Algorithm 2 of Redberg, Zhu and Wang): release only if a noisy upper bound of the
privacy loss stays below what was promised. "choose" (Algorithm 5): release a bound that holds for
every parameter at once, and choose the parameter from it; it always answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.planning import Plan
from dpmodels.privacy.group import add_remove_request
from dpmodels.privacy.mechanisms import Approximate, Pure, Step
from dpmodels.privacy.own_proofs import own_proof
from dpmodels.privacy.run import FLOAT_NOTE, ROUND_UP
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request
    from dpmodels.sources.rows import Rows

TEST_STEP, OUT_STEP = "privacy loss", "mechanism"


@dataclass(frozen=True)
class GptrDetail:
    """The user's functions and the split of the (add/remove or replace-one) pair.

    Attributes
    ----------
    eps_t, eps_m : float
        Of the Laplace release of the privacy loss, and of the mechanism.
    delta_m, delta_f : float
        Of the mechanism where its bound holds; failure of the bound.
    """

    mechanism: Callable[..., Any]
    loss: Callable[..., Any]
    choose: Callable[..., Any] | None
    sensitivity: float
    size: int
    eps_t: float
    eps_m: float
    delta_m: float
    delta_f: float


def plan(request: Request, design: Design, n: int | None) -> Plan[Any]:
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
        raise RequestError(f"dp_gptr buys no ranges: declare those of {', '.join(design.unknown)}")
    # proofs of the user's bounds are for add/remove: at Z against rows more and rows less
    pair = (request.eps, request.delta)
    proved = None
    if request.relation == "replace" and request["proof"] == "add-remove":
        pair, proved = add_remove_request(*pair), "add-remove"
    eps_t = float(request["test_share"]) * pair[0]
    delta_f = 0.1 * pair[1]
    detail = GptrDetail(
        mechanism=request["mechanism"],
        loss=request["privacy_loss"],
        choose=choose,
        sensitivity=float(request["sensitivity"]),
        size=int(request["size"]),
        eps_t=eps_t,
        eps_m=pair[0] - eps_t,
        delta_m=pair[1] - delta_f,
        delta_f=delta_f,
    )
    steps = (
        Step(TEST_STEP, Pure(eps_t), share=eps_t / pair[0], failure=delta_f, reply_test=propose),
        Step(OUT_STEP, Approximate(detail.eps_m, detail.delta_m), share=detail.eps_m / pair[0]),
    )
    return Plan.of(
        request,
        design,
        n,
        steps,
        notes=(FLOAT_NOTE,),
        proved=proved,
        shares={"test": eps_t / pair[0], "mechanism": detail.eps_m / pair[0]},
        detail=detail,
    )


def _rows(rows: Rows, design: Design) -> Array:
    """Return all rows, (n, k); a row with a missing cell is a row of zeros.

    Read by the caller: the user's functions take all rows at once, and are not sent to workers.
    """
    parts = []
    for block in rows.blocks(design):
        part = np.where(np.isnan(block).any(0), 0.0, block)
        parts.append(part.T.copy())
    return np.vstack(parts) if parts else np.zeros((0, design.p))


def _number(function: Callable[..., Any], *args: Any) -> float:
    """Return a finite number, or infinity: a loss that cannot be computed is not bounded."""
    try:
        value = float(function(*args))
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever the user's function does is a function of private rows
        return math.inf
    return value if math.isfinite(value) else math.inf


def _rounded(out: Array) -> Array:
    """Round to 32 significant bits: a public set of numbers, whatever noise the user drew."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(out), out, 0.0))
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**32) * 2.0**-32, exponent))


def release(plan: Plan[GptrDetail], ask: Ask) -> Release:
    """Release an upper bound of the privacy loss; then the mechanism, if the bound allows.

    Privacy
    -------
    Unit: one row. (eps_t, 0) for the bound, failure delta_f, and the mechanism's pair: the
    one-sided composition (``privacy/one_sided.md``, section 1), **if the user's bounds are right**.
    """
    raw = ask.raw(own_proof("generalized propose-test-release of the user's own mechanism"))
    detail = plan.detail
    design = plan.design
    Z = _rows(raw.rows, design)
    # an unbounded loss is released as a number far beyond any use
    loss = min(_number(detail.loss, Z), 1e9 * max(1.0, detail.sensitivity))
    s = detail.sensitivity * (1.0 + 2.0**-20)
    noisy = float(raw.laplace_real(TEST_STEP, loss, s))
    scale = s / detail.eps_t * ROUND_UP
    # P(Laplace < -t) = exp(-t/scale)/2; one grid step more for the lattice
    bound = noisy + scale * (math.log(1.0 / (2.0 * detail.delta_f)) + 2.0**-20)
    values = {"loss bound": np.array(bound)}
    if detail.choose is None:
        if bound > detail.eps_m:
            return Release(values, plan.guarantee, design, reply=False, why="test")
        arguments: tuple[Any, ...] = (Z,)
    else:
        arguments = (Z, detail.choose(bound, detail.eps_m, detail.delta_m))
    source = raw.inner_source(OUT_STEP)
    try:
        out = np.asarray(detail.mechanism(*arguments, source), dtype=float).ravel()
    except KeyboardInterrupt:
        raise
    except BaseException:  # see above
        out = np.zeros(detail.size)
    if out.shape != (detail.size,):
        out = np.zeros(detail.size)
    values["output"] = _rounded(out)
    return Release(values, plan.guarantee, design)


def estimate(plan: Plan[GptrDetail], release: Release) -> Estimate:
    """Name the entries of the mechanism's output."""
    detail = plan.detail
    names = plan.request["names"] or tuple(f"out{j + 1}" for j in range(detail.size))
    bound = float(release.values["loss bound"])
    note = "Private if the user's privacy loss, its sensitivity and the mechanism are as stated."
    if not release.reply:
        return Estimate.silent(names, stats={"loss_bound": bound})
    return Estimate(names, release.values["output"], stats={"loss_bound": bound}, notes=(note,))
