"""``dp_bayes``: noisy class sums, efficient Propose-Test-Release, and methods of comparison.

Sensitivities and proofs: ``bayes.md`` section 7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Approximate, Pure, Step, agm, upper_quantile
from dpmodels.privacy.noise import paper_midpoint, paper_sigma, reply_probability, split_midpoint
from dpmodels.privacy.run import SMOOTH_NOTE, own_proof
from dpmodels.proof.prove import Of, sensitivity
from dpmodels.proof.sets import Ball, Box, OneHot
from dpmodels.proof.statistics import ByClass as InClasses
from dpmodels.proof.statistics import Sum
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
from dpmodels.sums.ask import Added, Ask, Query, Sums
from dpmodels.sums.rowmap import FeatureScale, feature_scale

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.notes import Note


# -- Gaussian Bayes classifier: class statistics on the lattice, and the classifier itself.
#
# Features are the design columns without the intercept, in half-ranges (``u in [-1, 1]``, dummies
# 0/1), or, with ``R=``, in their own units scaled into the ball of radius R.


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


@dataclass(frozen=True)
class ClassSums:
    """Exact integers: counts (K,), sums (K, d) in 2^-20, squares (K, d) in 2^-40. Confidential."""

    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]
    squares: npt.NDArray[np.object_]

    def __add__(self, other: ClassSums) -> ClassSums:
        return ClassSums(
            self.counts + other.counts, self.sums + other.sums, self.squares + other.squares
        )

    def __repr__(self) -> str:
        return "<ClassSums, confidential>"


@dataclass(frozen=True, eq=False)
class ByClass:
    """Pass of :func:`class_sums`, for the executor."""

    scale: FeatureScale
    classes: int

    def over(self, blocks: Iterable[Array], _: Any = None) -> ClassSums:
        """Return the sums over blocks. Confidential."""
        return class_sums(blocks, self.scale, self.classes)


def class_sums(blocks: Iterable[Array], scale: FeatureScale, classes: int) -> ClassSums:
    """Accumulate counts, sums and sums of squares by class in one pass.

    A row with a missing cell or an undeclared class adds nothing to anything.
    """
    d = len(scale.columns)
    counts = np.zeros(classes, dtype=np.int64)
    sums = np.zeros((classes, d), dtype=np.int64)
    squares = np.zeros((classes, d), dtype=object)
    index = list(scale.columns)
    with np.errstate(all="ignore"):
        for block in blocks:
            code = block[-1]
            z, present = scale.rowmap.clip_and_round(block[index])
            missing_rows = np.isnan(code) if present is None else np.isnan(code) | ~present
            y = np.where(missing_rows, classes, code).astype(np.intp)
            size = classes + 1
            counts += np.bincount(y, minlength=size)[:classes]
            for j in range(d):
                # integers below 2^20 over 2^13 rows, squares below 2^53: float sums are exact
                part = np.bincount(y, weights=z[j], minlength=size)[:classes]
                sums[:, j] += part.astype(np.int64)
                part = np.bincount(y, weights=z[j] * z[j], minlength=size)[:classes]
                squares[:, j] += part.astype(np.int64)
    return ClassSums(counts, sums, squares)


# -- Backend of ``dp_bayes``: noisy class sums, and efficient Propose-Test-Release.


SIGMA_SHARE = 0.15
COUNT_SHARE = 0.15


@dataclass(frozen=True)
class BayesDetail:
    """Decided before the first row."""

    form: str
    radius: float | None  # Ball in the features' own units; None: half-ranges
    variance: str
    classes: int
    mu: dict[str, float]  # Step -> mu
    # delta_f, z: failure of the count bounds (auto).
    delta_f: float = 0.0
    z: float = 0.0
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
    classes = len(design.levels)
    if form in ("fixed", "paper"):
        part = pair_part(request, () if radius is not None else design.unknown)
        test = 0.5 if form == "paper" else 0.25
        eps_t = test * part.eps
        return Plan.of(
            request, design, n, part.coins("class means and test", test=test),
            purchase=part.purchase,
            detail=BayesDetail(
                form, radius, "identity", classes, {}, c0=float(request["c0"]), eps_t=eps_t,
                eps_r=part.eps - eps_t, delta=part.delta,
            ),
        )  # fmt: skip
    delta_f = FAILURE_SHARE * request.delta if form == "auto" else 0.0
    square = 0.0 if variance == "identity" else SIGMA_SHARE
    left = 1.0 - square
    steps = {"sums": ("class sums and counts", left)}
    if form == "auto":
        steps = {
            "counts": ("class counts and test", COUNT_SHARE * left),
            "means": ("class means", (1 - COUNT_SHARE) * left),
        }
    split = Split(
        request, design, {**steps, "variance": ("sums of squares", square)},
        failure=delta_f, test="counts", ranged=radius is None,
    )  # fmt: skip
    z = upper_quantile(delta_f / classes) if delta_f else 0.0
    detail = BayesDetail(form, radius, variance, classes, split.mu, delta_f=delta_f, z=z)
    return split.plan(n, detail=detail)


@dataclass(frozen=True)
class PairConstants:
    """gamma, alpha, weight v of the shares (mu block), reply probability and noise sd."""

    gamma: float
    alpha: float
    weight: float
    probability: float
    sigma: float


def pair_constants(detail: BayesDetail, smallest: float, norm: float, n: int) -> PairConstants:
    """Return the constants of the form "fixed" or "paper" at the smallest class count min N_k.

    R: bound ``norm`` on a row; v: weight of the class shares.
    Fixed: ``gamma = (min N_k - N0 + 1)_+``, ``N0 = ceil(c0 n)``,
    ``alpha^2 = 4R^2/N0^2 + 4R^2/(N0+1)^2 + 2 v^2/n^2``. The class shares are scaled by v before
    the release and back after it, so that they do not get the noise of the means.
    Paper: ``gamma = (min N_k - c0 n - 1)_+``, ``alpha = sqrt(8 R^2/c0^2 + 8)/n``, v = 1.
    """
    eps = detail.eps_t + detail.eps_r
    if detail.form == "paper":
        gamma = max(0.0, smallest - detail.c0 * n - 1.0)
        # in units of R the shares weigh 1/R, so that their noise is the paper's
        weight = 1.0 if detail.radius is None else 1.0 / detail.radius
        alpha = math.sqrt(8.0 * norm**2 / detail.c0**2 + 8.0 * weight**2) / n
        p = reply_probability(gamma, detail.eps_t, paper_midpoint(eps, detail.delta))
        return PairConstants(gamma, alpha, weight, p, paper_sigma(alpha, eps, detail.delta))
    n0 = max(1, math.ceil(detail.c0 * n))
    gamma = max(0.0, smallest - n0 + 1.0)
    means = 4.0 * norm**2 / n0**2 + 4.0 * norm**2 / (n0 + 1) ** 2
    # a tenth of the means' squared sensitivity is spent on the shares
    weight = n * math.sqrt(0.05 * means)
    alpha = math.sqrt(means + 2.0 * weight**2 / n**2) * (1.0 + 2.0**-20)
    p = reply_probability(gamma, detail.eps_t, split_midpoint(detail.eps_t, detail.delta))
    return PairConstants(gamma, alpha, weight, p, alpha * agm(detail.eps_r, detail.delta))


@with_ranges
def release_sums(plan: Plan[BayesDetail], ask: Ask, design: Design) -> Release:
    """Release class statistics.

    **Privacy.** Unit: one row; replace-one, n public. Rows with a missing cell or an undeclared
    class add nothing to any sum.
    """
    detail = plan.detail
    scale = feature_scale(design, detail.radius)
    over = Sums(design, ByClass(scale, detail.classes))
    action = {"sums": _release_sums, "auto": _release_auto}.get(detail.form, _release_pair)
    values = action(detail, scale, over, ask)
    if values is None:
        return Release({}, plan.guarantee, design, reply=False, why="test", detail=scale)
    if "variance" in detail.mu:
        K = 1 if detail.variance == "shared" else detail.classes
        each = Sum(scale.squares, products=True)
        query = (
            Query(each, over, lambda s: Added(s.squares.sum(axis=0)))
            if detail.variance == "shared"
            else Query(InClasses(each, K), over, lambda s: Added(s.squares))
        )
        values["squares"] = ask("sums of squares", query).values.reshape(K, -1)
    return Release(values, plan.guarantee, design, detail=scale)


def _release_sums(
    detail: BayesDetail, scale: FeatureScale, over: Sums, ask: Ask
) -> dict[str, Array]:
    """Release (sums / R, counts) jointly: sensitivity 2 (same class 2; two classes sqrt(2 + 2))."""
    K, d = detail.classes, len(scale.columns)
    each = Sum(Ball(d, scale.norm), count=1.0, weight=1.0 / scale.norm)
    statistic = InClasses(each, K)
    query = Query(
        statistic, over,
        lambda s: Added((s.sums.astype(object), s.counts.astype(object) << 20)),
    )  # fmt: skip
    answer = ask("class sums and counts", query)
    sums, counts = statistic.parts(answer.values)
    means = sums / np.maximum(counts, 1.0)[:, None]
    return {"counts": counts, "means": np.clip(means, -1.0, 1.0)}


def _exact_means(stats: ClassSums) -> Array:
    return stats.sums * 2.0**-20 / np.maximum(stats.counts, 1)[:, None]


def _release_auto(
    detail: BayesDetail, scale: FeatureScale, over: Sums, ask: Ask
) -> dict[str, Array] | None:
    """Release noisy counts as lower bounds lb_k, and (lb_k mean_k)_k of sensitivity sqrt(8) R."""
    K = detail.classes
    answer = ask("class counts and test", Query(Sum(OneHot(K)), over, lambda s: Added(s.counts)))
    counts = answer.values
    lower = np.floor(answer.at_least(detail.delta_f / K))
    if lower.min() < 1:
        return None
    d = len(scale.columns)
    query = Query(
        Of("class means", (scale.norm,), K * d), over,
        lambda stats: Added(lower[:, None] * _exact_means(stats)),
    )  # fmt: skip
    means = ask("class means", query).values.reshape(K, d) / lower[:, None]
    return {"counts": counts, "means": np.clip(means, -1.0, 1.0), "lower": lower}


def _release_pair(
    detail: BayesDetail, scale: FeatureScale, over: Sums, ask: Ask
) -> dict[str, Array] | None:
    """Release class means behind a coin, or return None if it gives no reply."""
    raw, n = ask.raw(own_proof("ePTR, class means")), ask.n
    stats = raw.total(over)
    c = pair_constants(detail, float(stats.counts.min()), scale.norm, n)
    K, d = stats.sums.shape
    value = np.concatenate([c.weight * stats.counts / n, _exact_means(stats).ravel()])
    noisy = raw.coin_gaussian("class means and test", c.probability, value, c.sigma)
    if noisy is None:
        return None
    means = np.clip(noisy[K:].reshape(K, d), -1.0, 1.0)
    return {"counts": noisy[:K] / c.weight * n, "means": means}


def estimate_sums(plan: Plan[BayesDetail], release: Release) -> Estimate:
    """Return priors, class means (user units) and variances from the release."""
    if not release.reply:
        return Estimate.silent(parameter_names(release.design))
    detail, values, scale = plan.detail, release.values, release.detail
    n = plan.public_n
    variance = _variances(detail, scale, values, values["counts"], values["means"])
    variances = {
        "identity": "1 in units of the features",
        "shared": "pooled over the classes (private release)",
        "class": "separate for each class (private release)",
    }[detail.variance]
    noise = _privacy_errors(detail, scale, values, values["counts"], n)
    noise[:, 0] *= n / max(float(values["counts"].sum()), 1.0)  # a prior is a share of usable rows
    out = _estimate(
        release, n, detail.c0 if detail.form == "paper" else 1.0 / n, variance,
        messages.FEATURES_INDEPENDENT(variances=variances),
        vcov_privacy=np.diag(noise.ravel() ** 2),
        stats={"classes": float(len(release.design.levels))},
    )  # fmt: skip
    return _with_errors(out, plan, scale, values, noise) if "squares" in values else out


def _with_errors(
    out: Estimate, plan: Plan[BayesDetail], scale: FeatureScale, values: Any, noise: Array
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
    squares, size = Sum(scale.squares, products=True), n if shared else count
    of_squares = sensitivity(squares if shared else InClasses(squares, len(v)), "replace", "l2")
    error = (scale.half**2 * of_squares / detail.mu["variance"] / size) ** 2 + 2.0 * m * v**2 / size
    parts = {
        "variance_of_log_priors": m / count[:, 0] + (noise[:, 0] / prior) ** 2,
        "sampling_of_means": m * v / count, "privacy_of_means": noise[:, 1:] ** 2,
        "variance_of_variances": error[: 1 if shared else None],
        "variance_by_mean": -2.0 * scale.half * values["means"] * count / size,
    }  # fmt: skip
    return replace(out, vcov_sampling=sampling, arrays={**out.arrays, **parts})


def _estimate(
    release: Release, n: int, floor: float, variance: Array, note: Note, **facts: Any
) -> Estimate:
    """Return a classifier in the user's units; no prior below ``floor``; ``variance`` (K, d)."""
    scale: FeatureScale = release.detail
    prior = np.maximum(release.values["counts"] / n, floor)
    prior = prior / prior.sum()
    means = scale.centre + scale.half * release.values["means"]
    return Estimate(
        parameter_names(release.design), np.column_stack([prior, means]).ravel(), notes=(note,),
        arrays={"prior": prior, "means": means, "variances": variance * scale.half**2}, **facts,
    )  # fmt: skip


def _variances(
    detail: BayesDetail, scale: FeatureScale, values: Any, counts: Array, u: Array
) -> Array:
    """Return (K, d) variances of u; floors keep a noisy difference positive."""
    K, d = u.shape
    if detail.variance == "identity":
        assert detail.radius is not None
        return np.full((K, d), 1.0 / detail.radius**2)
    weights = np.maximum(counts, 1.0)
    noise, squares = detail.mu["variance"], Sum(scale.squares, products=True)
    if detail.variance == "shared":
        total = weights.sum()
        v = values["squares"][0] / total - (weights[:, None] * u**2).sum(axis=0) / total
        floor = sensitivity(squares, "replace", "l2") / (noise * total)
        return np.tile(np.clip(v, min(floor, 1.0) + 1e-9, 1.0), (K, 1))
    v = values["squares"] / weights[:, None] - u**2
    floors = sensitivity(InClasses(squares, K), "replace", "l2") / (noise * weights)
    return np.clip(v, np.minimum(floors, 1.0)[:, None] + 1e-9, 1.0)


def _privacy_errors(
    detail: BayesDetail, scale: FeatureScale, values: Any, counts: Array, n: int
) -> Array:
    """Return the noise (K, 1 + d) of the prior and the means of each class, in the user's units."""
    K, d = values["means"].shape
    weights = np.maximum(counts, 1.0)
    if detail.form == "sums":
        mu = detail.mu["sums"]
        of_prior = np.full(K, 2.0 / mu / n)
        of_mean = 2.0 / mu / weights
        # noise of the sum (R per unit) and of the count the sum is divided by
        spread = of_mean[:, None] * np.sqrt(scale.norm**2 + values["means"] ** 2)
    elif detail.form == "auto":
        of_prior = np.full(K, math.sqrt(2.0) / detail.mu["counts"] / n)
        sd = math.sqrt(8.0) * scale.norm / detail.mu["means"] / values["lower"]
        spread = np.tile(sd[:, None], (1, d))
    else:
        c = pair_constants(detail, float(n), scale.norm, n)
        of_prior = np.full(K, c.sigma / c.weight)
        spread = np.full((K, d), c.sigma)
    return np.column_stack([of_prior, spread * scale.half])


SUMS = Backend(plan_sums, release_sums, estimate_sums)


# -- Published private naive Bayes classifiers, for comparison with the methods of ``bayes.py``.
#
# ``dpnb`` (Vaidya, Shafiq, Basu and Hong 2013): Laplace noise on counts and on the class
# statistics.
# The published algorithm divides the sensitivity of a mean by the *exact* class count, which is
# private; here sums are perturbed (sensitivity from the ranges alone) and divided by noisy counts.
# ``dpnbss`` (Zafarani and Clifton 2020): class means with noise at their smooth sensitivity.


#: Released means of ``dpnbss`` are whole multiples of this.
_MEANS_GRID = 2.0**-30


@dataclass(frozen=True)
class CompareDetail:
    """eps of counts, of means and of squares; delta of the means (smooth sensitivity only)."""

    classes: int
    eps: float
    delta: float


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
        Step("class means", means, share=1 / 3, label=label),
        Step("sums of squares", Pure(third), share=1 / 3, label="Laplace"),
    ]
    detail = CompareDetail(len(design.levels), third, delta if smooth else 0.0)
    return Plan.of(
        request, design, n, steps, notes=(SMOOTH_NOTE,) if smooth else (),
        purchase=part.purchase, detail=detail,
    )  # fmt: skip


def smoothness(eps: float, delta: float) -> float:
    """Return beta = eps / (2 log(2 e^(eps/2) / delta)), for which ``2 SS / eps`` noise is private.

    The usual ``eps / (2 log(2 / delta))`` is proved for e^(eps/2) <= 2 only, and gives up to five
    times delta at eps = 20; bayes.md, section 9 has the proof for every eps.
    """
    return eps / (eps + 2.0 * math.log(2.0 / delta))


def smooth_sensitivity(count: int, beta: float) -> float:
    """Return the beta-smooth sensitivity of a class mean of values in [-1, 1].

    Local sensitivity at distance t: ``min(2, 2 / max(N - t, 1))`` (a row leaves, enters or moves
    within the class); smooth: ``max_t exp(-beta t) LS_t`` (Nissim, Raskhodnikova and Smith 2007).
    The maximum is at t = 0 or where ``N - t = 1/beta``, or at ``t = N - 1``.
    """
    best = 0.0
    inner = max(0, math.floor(count - 1.0 / beta))
    for t in {0, inner, inner + 1, max(0, count - 1)}:
        if 0 <= t <= max(0, count - 1):
            best = max(best, math.exp(-beta * t) * min(2.0, 2.0 / max(count - t, 1)))
    return best


@with_ranges
def release_eptr(plan: Plan[CompareDetail], ask: Ask, design: Design) -> Release:
    """Release counts, means and pooled sums of squares with Laplace noise.

    **Privacy.** Unit: one row; replace-one, n public. Counts: L1 sensitivity 2. Sums in
    half-ranges: 2 d. Pooled squares: d. Smooth sensitivity: each of the at most 2 d class means
    that a row can move gets a (2 d)-th of the budget.
    """
    detail = plan.detail
    scale = feature_scale(design, None)
    over = Sums(design, ByClass(scale, detail.classes))
    d, K = len(scale.columns), detail.classes
    counts = ask("class counts", Query(Sum(OneHot(K)), over, lambda s: Added(s.counts))).values
    if detail.delta:
        means = _smooth_means(detail, over, d, ask)
    else:
        each = InClasses(Sum(Box(d)), K)
        sums = ask("class means", Query(each, over, lambda s: Added(s.sums))).values
        means = np.clip(sums.reshape(K, d) / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    pooled = Sum(Box(d, low=0), products=True)
    query = Query(pooled, over, lambda s: Added(s.squares.sum(axis=0)))
    squares = ask("sums of squares", query).values
    values = {"counts": counts, "means": means, "squares": squares}
    return Release(values, plan.guarantee, design, detail=scale)


def _smooth_means(detail: CompareDetail, over: Sums, d: int, ask: Ask) -> Array:
    """Add ``2 SS / eps'`` Laplace noise to each class mean; see :func:`smoothness`."""
    raw = ask.raw(own_proof("smooth sensitivity, class means"))
    stats = raw.total(over)
    eps, delta = detail.eps / (2.0 * d), detail.delta / (2.0 * d)
    beta = smoothness(eps, delta)
    exact = _exact_means(stats)
    spread = np.array([smooth_sensitivity(int(c), beta) for c in stats.counts.tolist()])
    scale = np.broadcast_to((2.0 / eps) * spread[:, None], exact.shape)
    return np.clip(raw.scaled_laplace("class means", exact, scale, grid=_MEANS_GRID), -1.0, 1.0)


def estimate_eptr(plan: Plan[CompareDetail], release: Release) -> Estimate:
    """Return priors, class means and pooled variances in the user's units."""
    if not release.reply:
        return Estimate.silent(parameter_names(release.design))
    detail, n = plan.detail, plan.public_n
    weights, u = np.maximum(release.values["counts"], 1.0), release.values["means"]
    v = release.values["squares"] / weights.sum()
    v = v - (weights[:, None] * u**2).sum(axis=0) / weights.sum()
    floor = u.shape[1] / (detail.eps * n)
    variance = np.tile(np.clip(v, min(floor, 0.5) + 1e-9, 1.0), (detail.classes, 1))
    note = messages.COMPARISON_BAYES()
    return _estimate(release, n, 1.0 / n, variance, note)


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
