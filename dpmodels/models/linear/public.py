"""Public data of the PMT methods: second moments, checked; whitening and radii from them alone.

No function of this module takes anything private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, shown
from dpmodels.exact.symmetric import chi2_upper, f_upper

if TYPE_CHECKING:
    from dpmodels.release import Estimate

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
    def of(cls, given: Any) -> PublicMoments:
        """Read a mapping with these keys, or return a PublicMoments as it is."""
        if isinstance(given, PublicMoments):
            return given
        known = ("moments", "m", "names", "response_scale", "response_centre")
        strange = [k for k in given if k not in known]
        if strange or "moments" not in given:
            raise RequestError(
                f"public= as a mapping takes the keys {', '.join(known)}; got "
                f"{', '.join(map(str, given))}"
            )
        return cls(**dict(given))

    def checked(self, names: Sequence[str], *, response: bool = True) -> PublicMoments:
        """Return the moments of (x, y) as a clean matrix, or raise ``RequestError``.

        Parameters
        ----------
        names : sequence of str
            Columns of the private design, response last.
        response : bool
            False: the moments are those of (1, x).
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
                hint = ". The means belong to it: the constant is its last row and column"
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
        _no_zero_column(C, names)
        return PublicMoments(C, self.m, tuple(names), response_scale=scale, rows=self.rows)


def constant_first(given: PublicMoments, names: Sequence[str]) -> PublicMoments:
    """Return moments of (x, 1), as ``dp_moments`` releases them, as moments of (1, x).

    They are divided by the entry of the constant, so that sums, and moments in which incomplete
    rows count as zero, serve as well. ``names`` with ``Intercept`` first say that the constant
    comes first already.
    """
    if given.response_scale is not None or given.response_centre != 0.0:
        raise RequestError(
            "these moments have no response: drop response_scale= and response_centre="
        )
    M = np.asarray(given.moments, dtype=float)
    listed = [*names, CONSTANT] if given.names is None else list(given.names)
    if CONSTANT not in listed:
        listed.append(CONSTANT)
    rows = None if given.rows is None else np.asarray(given.rows, dtype=float)
    if listed[0] != CONSTANT:
        if M.ndim == 2:
            M = np.roll(M, 1, axis=(0, 1))
        rows = None if rows is None else np.roll(rows, 1, axis=0)
        listed = [*listed[-1:], *listed[:-1]]
    if M.ndim == 2 and M.size and math.isfinite(M[0, 0]) and M[0, 0] > 0:
        M = M / M[0, 0]
    return PublicMoments(M, given.m, listed, rows=rows)


def _with_response(C: Array, scale: float, centre: float, names: Sequence[str]) -> Array:
    """Moments of (x, y) for a response of public scale about a constant centre."""
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


def _no_zero_column(C: Array, names: Sequence[str]) -> None:
    zero = [n for n, c in zip(names, np.diag(C), strict=True) if not c > 0]
    if zero:
        raise RequestError(
            f"the public data hold nothing but zeros in {', '.join(zero)}: a level that does not "
            "occur there, or a constant. Add public rows, give public moments with a prior "
            "frequency, or leave the term out"
        )


@dataclass(frozen=True, eq=False)
class PublicWhitening:
    """Whitening by public moments.

    Attributes
    ----------
    scale : (q,) array
        Root mean square of each column: unit rows are rows over it.
    L : (q, q) array
        Cholesky factor of the (shrunk) moments of unit rows, response last.
    shrink : float
        Weight of the diagonal; 0: none.
    moments : PublicMoments
    """

    scale: Array
    L: Array
    shrink: float
    moments: PublicMoments

    @property
    def m(self) -> int | None:
        """Number of public rows."""
        return self.moments.m


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


def _alias(C: Array, names: Sequence[str]) -> list[str]:
    """Columns that are (nearly) combinations of others, by pivoted QR."""
    from scipy.linalg import qr

    _, R, order = qr(C, pivoting=True)
    diagonal = np.abs(np.diag(R))
    return [names[j] for j, r in zip(order, diagonal, strict=True) if r <= 1e-9 * diagonal[0]]


def public_whitening(
    public: PublicMoments,
    *,
    separate: bool = False,
    shrink: bool | None = None,
    response: bool = True,
) -> PublicWhitening:
    """Return the whitening map of checked public moments.

    Parameters
    ----------
    public : PublicMoments
        From :meth:`PublicMoments.checked`.
    separate : bool
        Whiten x and scale y apart, as the PMT paper does (no public residual).
    shrink : bool or None
        None: by rule, when ``m < q + 8``.
    response : bool
        The last column is a response, which may not be a combination of the others. False: no
        column may be one.
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
            raise RequestError(
                "the public moments are singular: "
                f"{', '.join(_alias(apart, names) or names)} can be written by the other "
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
    m = white.m
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


def is_moments(given: Any) -> bool:
    """Say whether ``public=`` holds moments rather than a table."""
    return isinstance(given, PublicMoments) or (isinstance(given, Mapping) and "moments" in given)


# -- The public-only fit: shown beside the private one, and combined with it on request


@dataclass(frozen=True, eq=False)
class PublicFit:
    """Least squares on the public rows, in the user's units.

    Attributes
    ----------
    params, bse : (p,) arrays
        ``bse`` NaN where the number of public rows is unknown.
    C : (p, p) array
        Second moments of x.
    m : int or None
    """

    params: Array
    bse: Array
    C: Array
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
        return replace(
            estimate,
            notes=(
                *estimate.notes,
                "combine=True had nothing to combine: no covariance was released.",
            ),
        )
    prior = public.covariance(float(estimate.stats["sigma"]) ** 2)
    if prior is None:
        note = "combine=True had nothing to combine: too few public rows."
        return replace(estimate, notes=(*estimate.notes, note))
    total = estimate.vcov_sampling + estimate.vcov_privacy
    gain = np.linalg.solve((total + prior).T, prior.T).T  # prior (total + prior)^{-1}
    params = public.params + gain @ (estimate.params - public.params)
    cov = prior - gain @ prior
    privacy = gain @ estimate.vcov_privacy @ gain.T
    cov, privacy = (cov + cov.T) / 2.0, (privacy + privacy.T) / 2.0
    note = (
        f"Combined with the public fit by precision (combine=True, m = {public.m}): the public and "
        "the private rows are assumed to share their coefficients."
    )
    return replace(
        estimate,
        params=params,
        vcov_sampling=cov - privacy,
        vcov_privacy=privacy,
        notes=(*estimate.notes, note),
        arrays={**estimate.arrays, "params_private": estimate.params},
    )
