"""The default of ``dp_ols``: private Fisher scoring, from declared ranges or public moments.

Least squares by :mod:`dpmodels.scoring`. ``ssp`` starts from the declared (or estimated) ranges,
``pmt`` from public second moments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.after.moments import share_explained
from dpmodels.arrays import Array, chi2_upper, f_upper
from dpmodels.errors import RequestError, shown
from dpmodels.formula.design import Design
from dpmodels.models.linear.solve import Stage
from dpmodels.planning import RESIDUAL, SPREAD, Plan, enough_rows, planning_rows
from dpmodels.privacy.mechanisms import Gaussian, mu_gdp
from dpmodels.proof.prove import noise_of
from dpmodels.proof.sets import Ball
from dpmodels.proof.statistics import Gram
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Option
from dpmodels.scoring.clip import missed_squares
from dpmodels.scoring.coordinates import Coordinates, constant_direction
from dpmodels.scoring.fit import Part, estimate_fit, plan_fit, release_fit
from dpmodels.scoring.models import LeastSquares
from dpmodels.scoring.rows import RowsPlan
from dpmodels.scoring.rules import CLEAR_OF_NOISE, COLUMNS, LINEAR, OPENED
from dpmodels.scoring.run import (
    Chain,
    ModelSpec,
    Opening,
    Schedule,
    ScoringRelease,
    split_names,
)
from dpmodels.sums.scaling import UnitScale

# -- Public data of the PMT methods: second moments, checked; whitening and radii from them alone.
#
# No function of this module takes anything private.


#: Shrink the public moments below this many rows beyond q = p + 1.
SHRINK_BELOW = 8
_SINGULAR = 1e-12
#: Name of the constant among the columns of (1, x).
CONSTANT = "Intercept"


@dataclass(frozen=True, eq=False)
class PublicMoments:
    """Second moments of public rows (x, y), in the units and the order of the design.

    Parameters
    ----------
    moments : (q, q) array
        ``(1/m) sum (x, y)(x, y)'``, response last; or the (p, p) moments of x alone, with
        ``response_scale``. For ``dp_moments``, which has no response: of (x, 1), the constant
        last, as it releases them.
    m : int, optional
        Number of public rows behind it. Unknown: radii are taken 20 % larger.
    names : sequence of str, optional
        Column names (response last), compared with those of the design.
    response_scale, response_centre : float, optional
        Public scale of the response about its centre, where only the moments of x are public.
    rows : (q, m) array, optional
        The public rows themselves; kept for leave-one-out radii only.

    Notes
    -----
    **Privacy.** Everything here is used as public, without noise. Never build it from rows that
    need protection.
    """

    moments: Any
    m: int | None = None
    names: Sequence[str] | None = None
    response_scale: float | None = None
    response_centre: float = 0.0
    rows: Any = None

    @classmethod
    def of(cls, public: Any) -> PublicMoments:
        """Read a mapping with these keys, or return a PublicMoments as it is."""
        if isinstance(public, PublicMoments):
            return public
        keys = ("moments", "m", "names", "response_scale", "response_centre")
        strange = [k for k in public if k not in keys]
        if strange or "moments" not in public:
            raise RequestError(
                f"public= as a mapping must have the keys {', '.join(keys)}; got "
                f"{', '.join(map(str, public))}"
            )
        return cls(**dict(public))

    def checked(self, names: Sequence[str], *, response: bool = True) -> PublicMoments:
        """Return the moments of (x, y) as a clean matrix, or raise ``RequestError``.

        ``names`` are the columns of the private design, response last; without a ``response`` the
        moments are those of (1, x).
        """
        C = np.asarray(self.moments, dtype=float)
        q = len(names)
        scale = self.response_scale
        size = q if scale is None else q - 1
        if self.names is not None and list(self.names) != list(names)[: len(list(self.names))]:
            raise RequestError(
                "the public and the private design have different columns.\n  public:  "
                f"{', '.join(self.names)}\n  private: {', '.join(names)}"
            )
        if C.shape != (size, size):
            what = "second moments of (x, y)" if scale is None else "second moments of x"
            hint = ". Moments of x alone need response_scale= too"
            if not response:
                what = "second moments of (x, 1)"
                hint = ". It includes the means: the constant is its last row and column"
            if scale is not None or C.shape != (q - 1, q - 1):
                hint = ""
            raise RequestError(
                f"public {what}: expected a {size} x {size} matrix ({', '.join(names)}), got shape "
                f"{C.shape}{hint}"
            )
        if not np.isfinite(C).all():
            raise RequestError("public moments must be finite numbers")
        top = float(np.abs(C).max(initial=0.0))
        if float(np.abs(C - C.T).max(initial=0.0)) > 1e-8 * top:
            raise RequestError("public moments must be a symmetric matrix")
        C = (C + C.T) / 2.0
        if self.m is not None and (isinstance(self.m, bool) or not self.m >= 1):
            raise RequestError(f"m must be a positive number of public rows, got {shown(self.m)}")
        if float(np.linalg.eigvalsh(C)[0]) < -1e-8 * top:
            raise RequestError(
                "public moments must be positive semidefinite: is this a matrix of second moments?"
            )
        if scale is not None:
            C = _with_response(C, float(scale), float(self.response_centre), names)
        zero = [n for n, c in zip(names, np.diag(C), strict=True) if not c > 0]
        if zero:
            raise RequestError(
                f"the public data hold nothing but zeros in {', '.join(zero)}: a level that does "
                "not occur there, or a constant. Add public rows, give public moments with a "
                "prior frequency, or leave the term out"
            )
        return PublicMoments(C, self.m, tuple(names), response_scale=scale, rows=self.rows)


def constant_first(public: PublicMoments, names: Sequence[str]) -> PublicMoments:
    """Return moments of (x, 1), as ``dp_moments`` releases them, as moments of (1, x).

    They are divided by the entry of the constant, so that sums, and moments in which incomplete
    rows count as zero, serve as well. ``names`` with ``Intercept`` first say that the constant
    comes first already.
    """
    if public.response_scale is not None or public.response_centre != 0.0:
        raise RequestError(
            "these moments have no response: drop response_scale= and response_centre="
        )
    M = np.asarray(public.moments, dtype=float)
    listed = [*names, CONSTANT] if public.names is None else list(public.names)
    if CONSTANT not in listed:
        listed.append(CONSTANT)
    rows = None if public.rows is None else np.asarray(public.rows, dtype=float)
    if listed[0] != CONSTANT:
        if M.ndim == 2:
            M = np.roll(M, 1, axis=(0, 1))
        rows = None if rows is None else np.roll(rows, 1, axis=0)
        listed = [*listed[-1:], *listed[:-1]]
    if M.ndim == 2 and M.size and math.isfinite(M[0, 0]) and M[0, 0] > 0:
        M = M / M[0, 0]
    return PublicMoments(M, public.m, listed, rows=rows)


def _with_response(C: Array, scale: float, centre: float, names: Sequence[str]) -> Array:
    """Return moments of (x, y) for a response of public scale about a constant centre."""
    if not (scale > 0 and math.isfinite(scale)):
        raise RequestError(f"response_scale must be positive, got {shown(scale)}")
    p = len(C)
    out = np.zeros((p + 1, p + 1))
    out[:p, :p] = C
    if centre != 0.0:
        if names[0] != "Intercept":
            raise RequestError("response_centre= needs an intercept in the formula")
        out[:p, p] = out[p, :p] = centre * C[:, 0]
        out[p, p] = centre**2 * C[0, 0]
    out[p, p] += scale**2
    return out


@dataclass(frozen=True, eq=False)
class PublicWhitening:
    """Whitening by public moments."""

    scale: Array  # (q,): root mean square of each column: unit rows are rows over it
    L: Array  # (q, q): cholesky factor of the (shrunk) moments of unit rows, response last
    shrink: float  # Weight of the diagonal; 0: none
    moments: PublicMoments


def shrinkage(C: Array, m: int, rows: Array | None) -> float:
    """Return the weight of the diagonal, for moments of columns with unit root mean square.

    ``l = clip(sum Var(c_ij) / sum c_ij^2, 0, 1)`` over i != j, at least .05 when ``m <= q``.
    Without the rows, the variance of a product of two Gaussian columns stands for Var(c_ij).
    """
    q = len(C)
    off = ~np.eye(q, dtype=bool)
    if m < 2:
        return 1.0
    if rows is not None:
        square = rows * rows
        var = (square @ square.T / m - C * C) / (m - 1)
    else:
        var = (1.0 + C * C) / m
    below = float(np.sum(C[off] ** 2))
    l = float(np.clip(np.sum(var[off]) / below, 0.0, 1.0)) if below > 0 else 1.0
    return max(l, 0.05) if m <= q else l


def public_whitening(
    public: PublicMoments, *, separate: bool = False, shrink: bool | None = None,
    response: bool = True,
) -> PublicWhitening:  # fmt: skip
    """Return the whitening map of moments that :meth:`PublicMoments.checked` returned.

    ``separate``: whiten x and scale y apart, as the PMT paper does (no public residual); ``shrink``
    None: by rule, when ``m < q + 8``. A ``response``, the last column, may not be a combination of
    the others; without one no column may be.
    """
    C = np.array(public.moments, dtype=float)
    names = list(public.names or [])
    q = len(C)
    scale = np.sqrt(np.diag(C))
    C = C / np.outer(scale, scale)
    m = public.m
    few = m is not None and m < q + SHRINK_BELOW
    rows = None if public.rows is None else np.asarray(public.rows) / scale[:, None]
    if separate:
        C[:-1, -1] = C[-1, :-1] = 0.0
    l = 0.0
    if shrink is True or (shrink is None and few):
        l = shrinkage(C, q if m is None else m, rows)
    L = _cholesky(C, l)
    if L is None or (response and L[-1, -1] ** 2 <= 1e-10):
        apart = C[:-1, :-1] if response else C
        if l == 0.0 and float(np.linalg.eigvalsh(apart)[0]) < _SINGULAR:
            from scipy.linalg import qr

            _, R, order = qr(apart, pivoting=True)
            lost = np.abs(np.diag(R)) <= 1e-9 * abs(R[0, 0])
            alias = [names[j] for j in order[lost]]
            raise RequestError(
                "the public moments are singular: "
                f"{', '.join(alias or names)} can be written by the other "
                "columns there. Drop it from the formula, add public rows, or shrink=True"
            )
        l = max(l, 0.05)
        L = _cholesky(C, l)
        if L is None or L[-1, -1] ** 2 <= 1e-10:
            raise RequestError(
                "the public data fit the response perfectly, so they do not say how large "
                "residuals are: give public moments of x with response_scale= instead"
            )
    return PublicWhitening(scale, L, l, public)


def _cholesky(C: Array, l: float) -> Array | None:
    """Return the root of a correlation matrix shrunk by l to the identity, or None if singular."""
    D = (1.0 - l) * C
    D[np.diag_indices(len(C))] = 1.0
    if l == 0.0 and float(np.linalg.eigvalsh(D)[0]) < _SINGULAR:
        return None
    try:
        return np.asarray(np.linalg.cholesky(D))
    except np.linalg.LinAlgError:
        return None


def hotelling(q: int, m: int, p: float) -> float:
    """Return the upper-p predictive quantile of ``|w|^2`` for a new Gaussian row whitened by m.

    ``m q / (m - q + 1) F^{-1}(1 - p; q, m - q + 1)``.
    """
    return m * q / (m - q + 1.0) * f_upper(q, m - q + 1.0, p)


def leave_one_out(white: PublicWhitening) -> Array:
    """Return ``z_j' C_{-j}^{-1} z_j`` of the public rows, with the same shrinkage."""
    rows = np.asarray(white.moments.rows) / white.scale[:, None]
    q, m = rows.shape
    C = rows @ rows.T / m
    out = np.empty(m)
    for j in range(m):
        z = rows[:, j]
        D = (m * C - np.outer(z, z)) / max(m - 1, 1)
        D = (1.0 - white.shrink) * D + white.shrink * np.diag(np.diag(D))
        D[np.diag_indices(q)] = np.maximum(np.diag(D), 1e-12)
        out[j] = float(z @ np.linalg.pinv(D, hermitian=True) @ z)
    return out


def public_radius(
    white: PublicWhitening, mu: float, n: int, *, phi: float, rule: str | float | None
) -> float:
    """Return R of the first pass, from public numbers only.

    ``R^2 = min(max(q(.95), mu sqrt(phi n)), q(1 - .05/n))`` with the predictive quantile q of a
    Gaussian row; leave-one-out quantiles, without the cap, where the moments were shrunk; for
    unknown m chi-square quantiles times 1.2.
    """
    if isinstance(rule, float):
        return rule
    q = len(white.L)
    m = white.moments.m
    noise = mu * math.sqrt(phi * n)
    if rule == "paper":
        # radii of x and y of the published algorithm, joined: d + 1 times the same factor
        return math.sqrt(q * (1.0 + math.log(2.0 * n / 0.05)))
    if rule == "loo" or white.shrink > 0 or (m is not None and m < q + 1):
        if white.moments.rows is None:
            low = 1.5 * chi2_upper(q, 0.05)
        else:
            low = float(np.quantile(leave_one_out(white), 0.95))
        return math.sqrt(max(low, noise))
    if m is None:
        low, high = 1.2 * chi2_upper(q, 0.05), 1.2 * chi2_upper(q, 0.05 / n)
    else:
        low, high = hotelling(q, m, 0.05), hotelling(q, m, 0.05 / n)
    return math.sqrt(min(max(low, noise), high))


def is_moments(public: Any) -> bool:
    """Return whether ``public=`` holds moments rather than a table."""
    return isinstance(public, PublicMoments) or (
        isinstance(public, Mapping) and "moments" in public
    )


# -- The public-only fit: shown beside the private one, and combined with it on request


@dataclass(frozen=True, eq=False)
class PublicFit:
    """Least squares on the public rows, in the user's units."""

    # params, bse: (p,) arrays; ``bse`` NaN where the number of public rows is unknown.
    params: Array
    bse: Array
    C: Array  # (p, p): second moments of x
    m: int | None

    def covariance(self, sigma2: float) -> Array | None:
        """Return ``sigma^2 / (m - p - 1) C^{-1}``; None if m is unknown or too small."""
        p = len(self.params)
        if self.m is None or self.m <= p + 1:
            return None
        return np.asarray(sigma2 / (self.m - p - 1.0) * np.linalg.inv(self.C))


def public_fit(public: PublicMoments) -> PublicFit | None:
    """Return the public-only fit; None where the public rows do not determine one."""
    C = np.asarray(public.moments, dtype=float)
    p = len(C) - 1
    scale = np.sqrt(np.diag(C)[:p])
    unit = C[:p, :p] / np.outer(scale, scale)
    if (public.m is not None and public.m <= p) or np.linalg.eigvalsh(unit)[0] < 1e-12:
        return None
    inverse = np.linalg.inv(unit) / np.outer(scale, scale)
    params = inverse @ C[:p, p]
    bse = np.full(p, math.nan)
    if public.m is not None:
        rss = max(float(C[p, p] - C[:p, p] @ params), 0.0) * public.m / (public.m - p)
        bse = np.sqrt(rss / public.m * np.diag(inverse))
    return PublicFit(params, bse, C[:p, :p], public.m)


def combined(estimate: Estimate, public: PublicFit) -> Estimate:
    """Combine by precision, under the assumption that both sources share the coefficients.

    ``d <- (P + K)^{-1} (P d + K d_public)``, covariance ``(P + K)^{-1}``; its privacy part is what
    the privacy noise of d leaves in it.
    """
    if estimate.vcov_sampling is None or estimate.vcov_privacy is None:
        note = messages.NOTHING_COMBINED(why="no covariance was released")
        return replace(estimate, notes=(*estimate.notes, note))
    prior = public.covariance(float(estimate.stats["sigma"]) ** 2)
    if prior is None:
        note = messages.NOTHING_COMBINED(why="too few public rows")
        return replace(estimate, notes=(*estimate.notes, note))
    total = estimate.vcov_sampling + estimate.vcov_privacy
    gain = np.linalg.solve((total + prior).T, prior.T).T  # prior (total + prior)^{-1}
    params = public.params + gain @ (estimate.params - public.params)
    cov = prior - gain @ prior
    privacy = gain @ estimate.vcov_privacy @ gain.T
    cov, privacy = (cov + cov.T) / 2.0, (privacy + privacy.T) / 2.0
    note = messages.COMBINED(m=public.m)
    return replace(
        estimate,
        params=params,
        vcov_sampling=cov - privacy,
        vcov_privacy=privacy,
        notes=(*estimate.notes, note),
        arrays={**estimate.arrays, "params_private": estimate.params},
    )


# -- The default of ``ssp`` and ``pmt``, with intervals: the last estimate is a scoring step.


#: Options of fits that end with second moments. If one of them is set, the fit does so.
OF_MOMENTS = (
    "stages", "query", "ridge", "phi", "radius", "inference_method", "combine", "whitening",
)  # fmt: skip

#: Least mu n over p^1.5 at which scoring determines anything: with fewer than ``COLUMNS`` columns,
#: and from there on (``theory.md``, 3.6).
DETERMINES = (40.0, 1.5)

SCORING = Option(
    "scoring",
    "end with private Fisher scoring, on which honest intervals rest, or with moments alone; "
    "None: by a public rule, printed",
    None,
    bool,
)

VCOV = Option(
    "vcov",
    "standard errors: any variances ('hetero': HC1 sandwich) or one residual variance ('iid'); "
    "None: 'hetero' with scoring, 'iid' with moments only, where 'hetero' is one more release",
    None,
    str,
    choices=("iid", "hetero"),
    instead=dict.fromkeys(
        ("clus", "crv"),
        'errors by cluster are vcov={"CRV1": "village"} (a row is protected), or come with '
        'unit="person_id": the guarantee is then of the cluster too',
    ),
    other_words={
        **dict.fromkeys(
            ("hc0", "hc1", "hc2", "hc3", "robust", "white", "sandwich", "heteroskedastic",
             "heteroscedastic"), "hetero",
        ),
        **dict.fromkeys(("nonrobust", "classical", "standard", "homoskedastic", "model"), "iid"),
    },
)  # fmt: skip

#: The release of the passes.
release = release_fit


@dataclass(frozen=True, eq=False)
class LinearModel(ModelSpec):
    """Least squares, about a public whitening if there is one."""

    guess: float = RESIDUAL * SPREAD
    white: PublicWhitening | None = None


def why_not(request: Request, design: Design, n: int | None) -> str:
    """Return the reason why the last estimate of a call is not a scoring step, or "". Public."""
    scoring = request.options.get("scoring")
    if scoring and request.delta == 0:
        raise RequestError(
            "scoring=True has its proof for Gaussian noise: give delta > 0, as in delta=1e-6, "
            "or drop scoring="
        )
    why = _why_moments(request, scoring)
    if why and request.sample is not None:
        raise RequestError(
            "errors of a survey design need the default method, whose last estimate is a scoring "
            f"step. This call ends with second moments, because {why}. Leave out that option, or "
            "design="
        )
    if why and request.options.get("ranges") == "uncertain":
        raise RequestError(
            'ranges="uncertain" needs a fit whose last estimate is a scoring step, and here '
            f"{why}. Leave out ranges="
        )
    if why and request.options.get("stop"):
        raise RequestError(
            f"stop= needs a fit whose last estimate is a scoring step, and here {why}. Leave out "
            "stop="
        )
    return why or _nothing_to_determine(request, design, n)


def _nothing_to_determine(request: Request, design: Design, n: int | None) -> str:
    """Return the reason why scoring would determine no coefficient, or "" if it would.

    Second moments then still give standard errors of a few coefficients, and predictions, for
    which scoring could only return the public guess (``theory.md``, 3.6). The result is "" for a
    call with an option that only scoring has.
    """
    asks = (request.options.get(word) for word in ("scoring", "vcov"))
    if any(v is not None for v in asks) or request.split is not None:
        return ""
    if request.unit is not None or request.sample is not None or request.public is not None:
        return ""
    if request.options.get("ranges") == "uncertain" or request.options.get("stop"):
        return ""
    signal = mu_gdp(request.eps, request.delta) * planning_rows(request, n)
    needed = DETERMINES[design.p >= COLUMNS] * design.p**1.5
    if signal >= needed:
        return ""
    return (
        f"mu n = {signal:.3g} is below {needed:.3g}, where scoring has no interval to show for a "
        f"fit of {design.p} columns: more rows, a larger eps or fewer columns would give intervals"
    )


def _why_moments(request: Request, scoring: bool | None) -> str:
    """Return the reason why a call ends with second moments, or "" if it does not."""
    if scoring is not None:
        return "" if scoring else "scoring=False was given"
    if not request.inference:
        return "inference=False asks for no intervals, so the fit is tuned for prediction"
    if request.delta == 0:
        return "scoring has its proof for Gaussian noise, and delta = 0"
    stages = split_names(RowsPlan.before, len(LINEAR.passes))
    if request.split is not None and set(request.split) != set(stages):
        return "split= names the stages of moments"
    defaults = {o.name: o.default for o in request.method.options}
    for name in OF_MOMENTS:
        if name in defaults and request.options[name] != defaults[name]:
            return f"{name}= is an option of fits that end with second moments"
    return ""


def plan(
    request: Request, design: Design, n: int | None, white: PublicWhitening | None = None, *,
    opening: Opening | None = None,
) -> Plan[Any]:  # fmt: skip
    """Plan a scoring fit for ``ssp``, for ``pmt`` with public moments, or after another start."""
    score = LeastSquares() if opening is None else LeastSquares(pass_shares=OPENED)
    chains, meat = (Chain(score),), request.options["vcov"] != "iid"
    model = LinearModel(
        chains, row_norm=request.options.get("row_norm"), meat=meat, opening=opening
    )
    if white is not None:
        share = LINEAR.passes[0] if request.split is None else float(request.split["start"])
        mu = mu_gdp(request.eps, request.delta) * math.sqrt(share)
        radius = public_radius(white, mu, enough_rows(request, design, n), phi=0.1, rule=None)
        # coordinates whitened by public moments, about the public fit
        p = len(white.L) - 1
        unit = UnitScale(1.0 / white.scale, np.zeros(p + 1), False)
        W0 = np.asarray(np.linalg.inv(white.L[:p, :p]))
        coordinates = Coordinates(
            unit, W0, np.ones(p, dtype=bool), np.array(white.L[p, :p]),
            1.0 / float(white.L[p, p]), constant_direction(design, unit, W0),
        )  # fmt: skip
        model = replace(model, coordinates=coordinates, radius=radius, white=white)
    return plan_fit(request, design, planning_rows(request, n), model)


def estimate(plan: Plan[Any], release: Release) -> Estimate:
    """Map the last step to the user's units, with bias-aware errors."""

    def stats(part: Part) -> dict[str, float]:
        if release.design.scaled:  # the meat has squares of weights: the spread of no residual
            return {}
        a, r_squared = part.constant, {}
        # by the information; the count of the histogram has less noise, and rows by it are complete
        share = 1.0 if a is None else min(float(a @ part.inference.H @ a), 1.0)
        variance = _residual_variance(part, share) * part.release.before.phi
        if a is not None:
            r_squared = _r_squared(plan, release, part, variance, share)
        return {**r_squared, "sigma": math.sqrt(variance) / part.unit}

    fit = estimate_fit(plan, release, stats)
    if "r_squared" not in fit.stats:
        return fit
    return replace(fit, notes=(*fit.notes, messages.R_SQUARED()))


#: Largest change of the residual variance by leverage, as a part of it.
_BY_LEVERAGE = 0.03


def _residual_variance(part: Part, share: float) -> float:
    """Return the residual variance of complete rows in units of the scale.

    ``a'Ja/share`` of the meat J as released, of scores up to R_J, and what the histogram of their
    lengths shows beyond: a row of mean leverage has r times its residual in its score. Where the
    noise of J is more than the difference can be, ``tr(H^{-1} J)/r``, which is the same if the
    variance does not depend on leverage.
    """
    inference, last, a = part.inference, part.inference.plan, part.constant
    meat, r = part.release.released[-1].meat, len(inference.H)
    if a is None or last.people or meat is None:
        return inference.variance(a) / share
    # eigenvalues of H^{-1} J are those of H^{-1/2} J H^{-1/2}
    noise, J = last.noise.meat / last.tail_rows, part.release.last.inverse @ meat / last.tail_rows
    even = max(float(np.trace(J)) / r, noise / r, 1e-12)
    from_scores = float(a @ meat @ a) / last.tail_rows / share
    J -= even * np.eye(r)
    away = float(np.sum(J * J.T))
    weight = 1.0 / (1.0 + (noise * float(a @ a) / (_BY_LEVERAGE * even)) ** 2)
    if away > 0.0:
        weight = max(weight, 1.0 - r * (r + 1) / 2.0 * noise**2 / away)
    inside = max(weight * from_scores + (1.0 - weight) * even, 0.25 * even)
    return inside + inference.clear / share


def _r_squared(
    plan: Plan[Any], release: Release, part: Part, residual: float, share: float
) -> dict[str, float]:
    """Return R-squared of the last pass and its interval (``scoring/method.md``, 5.8).

    Nothing without an intercept, or of people, whose residual variance is not that of rows.
    """
    inference, last, a = part.inference, part.inference.plan, part.constant
    n = last.rows
    coordinates: Coordinates = release.detail.coordinates
    p, phi = coordinates.rank, part.release.before.phi
    if not release.design.has_intercept or a is None or last.people:
        return {}
    # as a function of rows: aliased columns have no other
    theta = part.release.state.theta - coordinates.unit.shift[-1] * coordinates.constant
    fitted = np.linalg.solve(part.release.before.W.T, theta)
    H = inference.H / share
    t = fitted - float(fitted @ H @ a) * a  # of fitted values about their mean
    H = H - np.outer(H @ a, H @ a)
    # The noise part is subtracted. The sampling part stays: it is part of the table's own
    # R-squared, and only the adjusted one subtracts it.
    spread = float(t @ H @ t - np.sum(H * inference.privacy))
    steep, noisy = H @ t, H @ inference.privacy
    of_fit = 4.0 * steep @ inference.privacy @ steep + 2.0 * np.sum(noisy * noisy.T)
    of_fit += (part.release.last.nu / share * float(t @ t)) ** 2
    meat = last.noise.meat or last.noise.scale
    noise_sd = meat / last.tail_rows / share * float(a @ a) * phi
    noise = (noise_sd**2, noise_sd**2, float(of_fit) + noise_sd**2)
    value = share_explained(residual, spread + residual, noise).value
    sampling = 4.0 * value * (1.0 - value) ** 2 / n
    # secret coins chose the rows of the residual variance: which of them, and how many
    more_rows = 3.0 * (1.0 / last.tail_rows - 1.0 / last.rows)
    sampling += (value * (1.0 - value)) ** 2 * more_rows
    out = share_explained(residual, spread + residual, noise, sampling)
    # bins of lengths that are less clear hold at most this beyond R_J
    lost = last.clip**2 * missed_squares(part.release.released[-1], last, CLEAR_OF_NOISE) / len(a)
    largest = residual + max(lost - inference.clear, 0.0) / share * phi
    least = share_explained(largest, spread + largest, noise, sampling).low
    out = replace(out, low=min(out.low, least))
    adjusted = 1.0 - (1.0 - out.value) * (n - 1.0) / max(n - p, 1.0)
    private = math.sqrt(max(out.se**2 - sampling, 0.0))
    return {
        **out.named("r_squared"), "adj_r_squared": adjusted, "r_squared_se_privacy": private,
    }  # fmt: skip


def start_stage(plan: Plan[Schedule], release: Release) -> Stage:
    """Return the start as a released stage, for comparing private with public moments."""
    detail = plan.detail
    released: ScoringRelease = release.detail
    scoring = detail.scoring(released.coordinates.rank, plan.request.relation)
    Q = released.fits[0].values["start"]
    mechanism, q = Gaussian(scoring.start), len(Q)
    moments = Gram(Ball(q))
    sd = noise_of(moments, mechanism, plan.request.relation) * scoring.radius**2
    return Stage(Q, moments.shaped(sd * sd, "l2"), np.eye(q), scoring.radius)


SCORED_BACKEND = Backend(plan, release, estimate, people=True, title="least squares, private")
