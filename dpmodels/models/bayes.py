"""``dp_bayes``: noisy class sums, efficient Propose-Test-Release, and methods of comparison.

Sensitivities and proofs: ``bayes.md`` section 7.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.core.classes import Classes
from dpmodels.core.means import half_ranges
from dpmodels.core.sets import Reading
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.notes import Note
from dpmodels.own import class_means as own
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, Pure, Step
from dpmodels.privacy.run import SMOOTH_NOTE
from dpmodels.proof.prove import sensitivity
from dpmodels.proof.sets import Ball, Blocks, Box
from dpmodels.proof.statistics import ByClass, Sum
from dpmodels.ranges import FAILURE_SHARE, Split, pair_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import (
    BOUNDS_SHARE,
    Backend,
    Method,
    automatic,
    one_of,
    positive,
    register_method,
)
from dpmodels.sums.ask import Ask

# -- Features: columns of the design in half-ranges, or with ``R=`` in the ball of radius R.


def features_of(design: Design) -> tuple[str, ...]:
    """Return the names of the features; refuse a design without any."""
    features = tuple(c.name for c in design.columns if c.kind != "intercept")
    if not features:
        raise RequestError("a classifier needs at least one feature on the right-hand side")
    return features


def parameter_names(design: Design) -> tuple[str, ...]:
    """Return "level: prior" and "level: feature" of every class, in the order of ``params``."""
    whats = ("prior", *features_of(design))
    return tuple(f"{level}: {what}" for level in design.levels for what in whats)


def class_sums(
    design: Design, radius: float | None = None, *, box: bool = False
) -> tuple[Classes, Reading]:
    """Return the set of a row, and the reading that sums rows (ranges known, or ``radius`` given).

    ``box``: the set ignores that at most one dummy of a factor is 1.
    """
    d = len(features_of(design))
    columns = slice(design.p - d, design.p)  # an intercept is the first column
    within: Ball | Blocks | Box = Ball(d)
    centre, half = np.zeros(d), np.full(d, radius or 1.0)
    if radius is None:
        features, ranges = design.columns[columns], half_ranges(design)
        numbers = np.array([c.kind != "dummy" for c in features])
        factors: dict[str, tuple[int, ...]] = {}
        for j in np.flatnonzero(~numbers).tolist():
            factors[features[j].term] = (*factors.get(features[j].term, ()), j)
        within = Box(d) if box else Blocks(d, tuple(factors.values()))
        centre[numbers], half[numbers] = (ends[columns][numbers] for ends in ranges)
    into = Classes(len(design.levels), within, centre, half)
    return into, Reading(design, (lambda z: (z[columns], z[-1]),), (into,))


# -- Backend of ``dp_bayes``: noisy class sums, and efficient Propose-Test-Release.


SIGMA_SHARE = 0.15
COUNT_SHARE = 0.15


@dataclass(frozen=True)
class BayesDetail:
    """Decided before the first row."""

    form: str
    radius: float | None  # Ball in the features' own units; None: half-ranges
    variance: str
    mu: dict[str, float]  # Step -> mu
    # c0, eps_t, eps_r, delta: pair forms.
    c0: float = 0.0
    eps_t: float = 0.0
    eps_r: float = 0.0
    delta: float = 0.0


def _form(request: Request) -> str:
    """Return the form of the release: sums, paper, fixed or auto."""
    if request.method.name == "sums":
        return "sums"
    if request["variant"] == "paper":
        missing = [k for k in ("R", "c0") if not isinstance(request[k], float)]
        if missing:
            raise RequestError(
                f"variant='paper' needs {', '.join(missing)}=: a public bound on the norm of the "
                "features and the smallest share of a class. For example R=8.0, c0=0.05"
            )
        return "paper"
    return "auto" if request["c0"] in (None, "auto") else "fixed"


def plan_sums(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a Bayes classifier."""
    form = _form(request)
    if design.response is None or len(design.levels) < 2:
        raise RequestError("the class needs at least two declared levels")
    features_of(design)  # there must be one
    radius = None if request["R"] is None else float(request["R"])
    variance = request["variance"]
    if variance is None:
        variance = "identity" if form in ("fixed", "paper") else "shared"
    if form in ("fixed", "paper") and variance != "identity":
        raise RequestError("a fixed c0 releases means only: variance='identity'")
    if variance == "identity" and radius is None:
        raise RequestError(
            "variance='identity' (and a fixed c0) means variance 1 in the features' own units: add "
            "R=, a public bound on their norm, for example R=8.0; or use variance='shared'"
        )
    if form in ("fixed", "paper"):
        part = pair_part(request, () if radius is not None else design.unknown)
        test = 0.5 if form == "paper" else 0.25
        eps_t = test * part.eps
        return Plan.of(
            request, design, n, part.coins(own.TESTED, test=test), purchase=part.purchase,
            detail=BayesDetail(
                form, radius, "identity", {}, c0=float(request["c0"]), eps_t=eps_t,
                eps_r=part.eps - eps_t, delta=part.delta,
            ),
        )  # fmt: skip
    square = 0.0 if variance == "identity" else SIGMA_SHARE
    left = 1.0 - square
    steps = {"sums": ("class sums and counts", left)}
    if form == "auto":
        steps = {
            "counts": (own.COUNTED, COUNT_SHARE * left),
            "means": (own.MEANS, (1 - COUNT_SHARE) * left),
        }
    split = Split(
        request, design, {**steps, "variance": ("sums of squares", square)},
        failure=FAILURE_SHARE * request.delta * (form == "auto"), test="counts",
        ranged=radius is None,
    )  # fmt: skip
    return split.plan(n, detail=BayesDetail(form, radius, variance, split.mu))


@with_ranges
def release_sums(plan: Plan[BayesDetail], ask: Ask, design: Design) -> Release:
    """Release class statistics.

    **Privacy.** Unit: one row; replace-one, n public. Rows with a missing cell or an undeclared
    class add nothing to any sum.
    """
    detail = plan.detail
    into, over = class_sums(design, detail.radius)
    values: dict[str, Array] | None
    if detail.form == "sums":
        answer = ask("class sums and counts", into.query(over, "sums and counts"))
        sums, counts = into.joint.parts(answer.values)
        means = sums / np.maximum(counts, 1.0)[:, None]
        values = {"counts": counts, "means": np.clip(means, -1.0, 1.0)}
    elif detail.form == "auto":
        values = own.counted_means(over, into, ask)
    else:
        values = own.tested_means(over, into, detail, ask)
    if values is None:
        return Release({}, plan.guarantee, design, reply=False, why="test", detail=into)
    if "variance" in detail.mu:
        which = "squares by class" if detail.variance == "class" else "squares"
        squares = ask("sums of squares", into.query(over, which))
        values["squares"] = squares.values.reshape(-1, into.within.dim)
    return Release(values, plan.guarantee, design, detail=into)


def estimate_sums(plan: Plan[BayesDetail], release: Release) -> Estimate:
    """Return priors, class means (user units) and variances from the release."""
    if not release.reply:
        return Estimate.silent(parameter_names(release.design))
    detail, values, into = plan.detail, release.values, release.detail
    n = plan.public_n
    variance = _variances(detail, into, values, values["counts"], values["means"])
    variances = {
        "identity": "1 in units of the features",
        "shared": "pooled over the classes (private release)",
        "class": "separate for each class (private release)",
    }[detail.variance]
    noise = _privacy_errors(detail, into, values, values["counts"], n)
    noise[:, 0] *= n / max(float(values["counts"].sum()), 1.0)  # a prior is a share of usable rows
    out = _estimate(
        release, n, detail.c0 if detail.form == "paper" else 1.0 / n, variance,
        messages.FEATURES_INDEPENDENT(variances=variances),
        vcov_privacy=np.diag(noise.ravel() ** 2),
        stats={"classes": float(len(release.design.levels))},
    )  # fmt: skip
    return _with_errors(out, plan, into, values, noise) if "squares" in values else out


def _with_errors(
    out: Estimate, plan: Plan[BayesDetail], into: Classes, values: Any, noise: Array
) -> Estimate:
    """Return the estimate with sampling errors, and the parts of the errors of predictions.

    Sampling is that of the model: multinomial classes of normal features with these variances.
    Up to m rows of a person go together: ``Estimate.of_copied_rows`` widens the errors alone.
    """
    detail, n, m = plan.detail, max(float(values["counts"].sum()), 1.0), plan.request.copies
    prior, v, count = out.arrays["prior"], out.arrays["variances"], out.arrays["prior"][:, None] * n
    d, shared = v.shape[1], detail.variance == "shared"
    sampling = np.diag(np.column_stack([prior, v / count]).ravel())
    sampling[:: d + 1, :: d + 1] = (np.diag(prior) - np.outer(prior, prior)) / n
    squares, size = Sum(into.squares, products=True), n if shared else count
    of_squares = sensitivity(squares if shared else ByClass(squares, len(v)), "replace", "l2")
    error = (into.half**2 * of_squares / detail.mu["variance"] / size) ** 2 + 2.0 * m * v**2 / size
    parts = {
        "variance_of_log_priors": m / count[:, 0] + (noise[:, 0] / prior) ** 2,
        "sampling_of_means": m * v / count, "privacy_of_means": noise[:, 1:] ** 2,
        "variance_of_variances": error[: 1 if shared else None],
        "variance_by_mean": -2.0 * into.half * values["means"] * count / size,
    }  # fmt: skip
    return replace(out, vcov_sampling=sampling, arrays={**out.arrays, **parts})


def _estimate(
    release: Release, n: int, floor: float, variance: Array, note: Note, **facts: Any
) -> Estimate:
    """Return a classifier in the user's units; no prior below ``floor``; ``variance`` (K, d)."""
    into: Classes = release.detail
    prior = np.maximum(release.values["counts"] / n, floor)
    prior = prior / prior.sum()
    means = into.centre + into.half * release.values["means"]
    return Estimate(
        parameter_names(release.design), np.column_stack([prior, means]).ravel(), notes=(note,),
        arrays={"prior": prior, "means": means, "variances": variance * into.half**2}, **facts,
    )  # fmt: skip


def _variances(
    detail: BayesDetail, into: Classes, values: Any, counts: Array, u: Array
) -> Array:
    """Return (K, d) variances of u; floors keep a noisy difference positive."""
    K, d = u.shape
    if detail.variance == "identity":
        assert detail.radius is not None
        return np.full((K, d), 1.0 / detail.radius**2)
    weights = np.maximum(counts, 1.0)
    noise, squares = detail.mu["variance"], Sum(into.squares, products=True)
    if detail.variance == "shared":
        total = weights.sum()
        v = values["squares"][0] / total - (weights[:, None] * u**2).sum(axis=0) / total
        floor = sensitivity(squares, "replace", "l2") / (noise * total)
        return np.tile(np.clip(v, min(floor, 1.0) + 1e-9, 1.0), (K, 1))
    v = values["squares"] / weights[:, None] - u**2
    floors = sensitivity(ByClass(squares, K), "replace", "l2") / (noise * weights)
    return np.clip(v, np.minimum(floors, 1.0)[:, None] + 1e-9, 1.0)


def _privacy_errors(
    detail: BayesDetail, into: Classes, values: Any, counts: Array, n: int
) -> Array:
    """Return the noise (K, 1 + d) of the prior and the means of each class, in the user's units."""
    K, d = values["means"].shape
    weights = np.maximum(counts, 1.0)
    if detail.form == "sums":
        mu = detail.mu["sums"]
        of_prior = np.full(K, 2.0 / mu / n)
        of_mean = 2.0 / mu / weights
        # noise of the sum (R per unit) and of the count the sum is divided by
        spread = of_mean[:, None] * np.sqrt(into.norm**2 + values["means"] ** 2)
    elif detail.form == "auto":
        of_prior = np.full(K, math.sqrt(2.0) / detail.mu["counts"] / n)
        sd = math.sqrt(8.0) * into.norm / detail.mu["means"] / values["lower"]
        spread = np.tile(sd[:, None], (1, d))
    else:
        c = own.pair_constants(detail, float(n), into.norm, n)
        of_prior = np.full(K, c.sigma / c.weight)
        spread = np.full((K, d), c.sigma)
    return np.column_stack([of_prior, spread * into.half])


SUMS = Backend(plan_sums, release_sums, estimate_sums)


# -- Published private naive Bayes classifiers, for comparison (``bayes.md``, 9).


def plan_eptr(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan the shares: a third of eps each for counts, means and sums of squares."""
    features_of(design)  # there must be one
    part = pair_part(request, design.unknown)
    steps, delta, third = list(part.steps), part.delta, part.eps / 3.0
    smooth = request.method.name == "dpnbss"
    means = Approximate(third, delta) if smooth else Pure(third)
    label = "Laplace at smooth sensitivity" if smooth else "Laplace"
    steps += [
        Step("class counts", Pure(third), share=1 / 3, label="Laplace"),
        Step(own.MEANS, means, share=1 / 3, label=label),
        Step("sums of squares", Pure(third), share=1 / 3, label="Laplace"),
    ]
    notes = (SMOOTH_NOTE,) if smooth else ()
    return Plan.of(request, design, n, steps, notes=notes, purchase=part.purchase, detail=third)


@with_ranges
def release_eptr(plan: Plan[float], ask: Ask, design: Design) -> Release:
    """Release counts, means and pooled sums of squares with Laplace noise.

    **Privacy.** Unit: one row; replace-one, n public. Counts: L1 sensitivity 2. Sums in
    half-ranges: 2 d. Pooled squares: d. Smooth sensitivity: each of the at most 2 d class means
    that a row can move gets a (2 d)-th of the budget.
    """
    into, over = class_sums(design, box=True)
    counts = ask("class counts", into.query(over, "counts")).values
    if plan.request.method.name == "dpnbss":
        means = own.smooth_means(over, into, ask)
    else:
        sums = ask(own.MEANS, into.query(over, "sums")).values.reshape(into.classes, -1)
        means = np.clip(sums / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    squares = ask("sums of squares", into.query(over, "squares")).values
    values = {"counts": counts, "means": means, "squares": squares}
    return Release(values, plan.guarantee, design, detail=into)


def estimate_eptr(plan: Plan[float], release: Release) -> Estimate:
    """Return priors, class means and pooled variances in the user's units."""
    if not release.reply:
        return Estimate.silent(parameter_names(release.design))
    n = plan.public_n
    weights, u = np.maximum(release.values["counts"], 1.0), release.values["means"]
    v = release.values["squares"] / weights.sum()
    v = v - (weights[:, None] * u**2).sum(axis=0) / weights.sum()
    floor = u.shape[1] / (plan.detail * n)
    variance = np.tile(np.clip(v, min(floor, 0.5) + 1e-9, 1.0), (len(weights), 1))
    return _estimate(release, n, 1.0 / n, variance, messages.COMPARISON_BAYES())


EPTR = Backend(plan_eptr, release_eptr, estimate_eptr)


# -- Methods of the Gaussian Bayes classifier, as data.


_R = positive("R", "bound on the norm of the features, in their own units; None: half-ranges")


_VARIANCE = one_of(
    "variance", "'shared' by the classes, by 'class', or 'identity'; None: by the form",
    "shared", "class", "identity", default=None,
)  # fmt: skip

_bayes = functools.partial(
    Method, verb="dp_bayes", proof="models/bayes.md", backend=SUMS,
    needs=("delta > 0", "declared classes", "one pass"),
)  # fmt: skip

register_method(_bayes(
    name="sums", title="Noisy class sums", reference="Gaussian mechanism on class sums and counts",
    options=(_R, _VARIANCE, BOUNDS_SHARE),
))  # fmt: skip

register_method(_bayes(
    name="eptr", title="ePTR Bayes classifier",
    reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 3",
    options=(
        _R, _VARIANCE, automatic("c0", "smallest share of a class; 'auto' releases lower bounds"),
        one_of("variant", "'paper' runs the published constants (needs R, c0)", "default", "paper"),
        BOUNDS_SHARE,
    ),
))  # fmt: skip

for _name, _title, _reference in (
    ("dpnb", "Naive Bayes with Laplace noise", "Vaidya, Shafiq, Basu, Hong (2013), corrected"),
    ("dpnbss", "Naive Bayes at smooth sensitivity", "Zafarani and Clifton (2020)"),
):
    register_method(_bayes(
        name=_name, title=_title, backend=EPTR, needs=("declared classes", "one pass", "delta > 0"),
        inference="no", privacy_se="unavailable", reference=_reference, options=(BOUNDS_SHARE,),
        comparison_only=True,
    ))  # fmt: skip
