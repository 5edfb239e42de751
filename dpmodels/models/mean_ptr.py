"""``dp_mean(method="ptr")``: the classic Propose-Test-Release mean (``mean.md``, 6)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.own.proposed import MEAN_STEP, PtrMeanDetail, release_ptr, sensitivity
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, Step, agm
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Method, positive, register_method, share


def plan_ptr(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan T = ceil((log(1/delta) + log(1/beta)) / eps_t); needs n > 2 (T + 1)."""
    if request["width"] is None:
        raise RequestError(
            "method='ptr' needs width=: the known half-width of the data around their centre, for "
            "example width=4*sd for an sd known from elsewhere. Without one use method='clipped'"
        )
    eps_t = request.eps * float(request["test_share"])
    delta = request.delta
    slack = math.ceil((math.log(1 / delta) + math.log(1 / float(request["beta"]))) / eps_t)
    if n <= 2 * (slack + 1):
        raise RequestError(
            f"n = {n} is too small for this test: it needs n > {2 * (slack + 1)} at this eps and "
            "delta (eptr mean). Use method='clipped'"
        )
    width = np.full(design.p, float(request["width"]))
    step = Step(
        MEAN_STEP, Approximate(request.eps, delta), share=1.0, reply_test=True,
        label="Laplace test and Gaussian", no_reply_eps=eps_t,
    )  # fmt: skip
    detail = PtrMeanDetail(width, slack, eps_t)
    sd = agm(request.eps - eps_t, delta) * sensitivity(detail, n)
    return Plan.of(
        request, design, n, (step,), scales={"slack T": float(slack), "noise sd": sd},
        expected_se=dict.fromkeys(design.names, sd), detail=detail,
    )  # fmt: skip


def estimate_ptr(plan: Plan[Any], release: Release) -> Estimate:
    """Return means with the known privacy error; nothing is spent on the sampling error."""
    names = plan.design.names
    if not release.reply:
        return Estimate.silent(names)
    sd = plan.scales["noise sd"]
    return Estimate(names, release.values["mean"], vcov_privacy=sd * sd * np.eye(len(names)))


PTR = Backend(plan_ptr, release_ptr, estimate_ptr)


register_method(
    Method(
        name="ptr",
        verb="dp_mean",
        proof="models/mean.md",
        foretells=True,
        title="Propose-Test-Release mean",
        backend=PTR,
        by_rows=True,
        needs=("delta > 0", "width"),
        inference="no (privacy part only)",
        privacy_se="public",
        reference="Dwork and Lei (2009), Differential privacy and robust statistics",
        options=(
            positive("width", "known half-width of the data around their centre"),
            share("beta", "probability of no reply on good data", 0.05),
            share("test_share", "share of eps for the test", 0.5),
        ),
        comparison_only=True,
    )
)
