"""``dp_eptr`` and ``dp_gptr``: a user's own estimator made private by a test that the user proves.

Plans, estimates and options of :mod:`dpmodels.own.proposed`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.errors import RequestError, shown
from dpmodels.formula.design import Design
from dpmodels.own.proposed import (
    ESTIMATE_STEP,
    LOSS_STEP,
    OUTPUT_STEP,
    REPLY_STEP,
    TEST_STEP,
    EptrDetail,
    release_eptr,
    release_gptr,
)
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import (
    Approximate,
    Gaussian,
    Pure,
    Step,
    add_remove_request,
    mu_gdp,
)
from dpmodels.privacy.returns import EARLY_ENDS_SHARE
from dpmodels.privacy.run import FLOAT_NOTE
from dpmodels.ranges import FAILURE_SHARE
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Method, Option, one_of, positive, register_method, share

BOUND_SHARE = 0.15


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
            Step(TEST_STEP, Gaussian(mus[0]), share=BOUND_SHARE, failure=delta_f,
                 reply_test=True),
            Step(ESTIMATE_STEP, Gaussian(mus[1]), share=1.0 - BOUND_SHARE),
        )  # fmt: skip
        return Plan.of(request, design, n, steps)
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not alpha > 0:
        raise RequestError(
            "alpha= must be a positive number: a bound on the change of the estimate "
            f"wherever the safety bound is positive; got {shown(alpha)}"
        )
    eps_t = request.eps * float(request["test_share"])
    step = Step(
        REPLY_STEP, Approximate(request.eps, request.delta), share=1.0, reply_test=True,
        label="Laplace test and Gaussian" if kind == "ptr" else "coin and Gaussian",
        no_reply_eps=eps_t,
    )  # fmt: skip
    coin = "laplace" if kind == "ptr" else request["coin"]
    return Plan.of(request, design, n, (step,), detail=EptrDetail(coin, eps_t))


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
    rest = Approximate(pair[0] - eps_t, pair[1] - delta_f)
    steps = (
        Step(LOSS_STEP, Pure(eps_t), share=eps_t / pair[0], failure=delta_f, reply_test=propose),
        Step(OUTPUT_STEP, rest, share=rest.eps / pair[0]),
    )
    return Plan.of(request, design, n, steps, notes=(FLOAT_NOTE,), proved=proved)


def estimate_gptr(plan: Plan[Any], release: Release) -> Estimate:
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
