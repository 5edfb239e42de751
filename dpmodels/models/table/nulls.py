"""Statistics of noisy sums with the variance of sampling and noise, and the test of tests (3).

Nothing is divided by a small noisy number: a statistic is a linear function of released sums, or
nearly one, its variance under the null is sampling plus noise, and the reference is chi-squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.after.moments import inverse_and_rank
from dpmodels.arrays import Array, brent
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.models.table.layout import table_method
from dpmodels.own.subsample import _REJECTIONS_STEP, Split, release
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend, Option, register_method


@dataclass(frozen=True)
class Null:
    """A test: statistic, degrees of freedom, p-value."""

    statistic: float
    df: int
    p_value: float


def _chi2(u: Array, V: Array, bias: Array | None = None) -> Null:
    """Return the test of u = 0 with covariance V; ``bias`` (k, j): vectors that may move u by +-1.

    They move the root of the statistic by at most the sum of theirs.
    """
    u, V = np.atleast_1d(u), np.atleast_2d(V)
    value = max(float(u @ np.linalg.solve(V, u)), 0.0)
    if bias is not None and bias.any():
        moved = np.sqrt(np.maximum(np.sum(bias * np.linalg.solve(V, bias), axis=0), 0.0)).sum()
        value = max(math.sqrt(value) - float(moved), 0.0) ** 2
    return Null(value, len(u), float(special.chdtrc(len(u), value)))


def contrasts(weights: Array) -> Array:
    """Return (k - 1, k) orthonormal rows orthogonal to ``weights``: a Householder reflection."""
    w = np.asarray(weights, dtype=float)
    w = w / np.linalg.norm(w)
    v = w.copy()
    v[0] += 1.0 if w[0] >= 0 else -1.0
    H = np.eye(len(w)) - 2.0 * np.outer(v, v) / (v @ v)
    return np.asarray(H[1:])


def groups(
    N: Array, T: Array, Q: Array, tau2: float, C: Array, copies: float = 1.0,
    bias: Array | float = 0.0,
) -> Null:  # fmt: skip
    """Test equal means of k groups, variances unequal, from sums of values in [-1, 1] (k,).

    tau2 is the noise variance of a sum, C (k, k) the noise covariance of the counts. ``copies``,
    here and below: number of rows that may depend on each other in any way. The sampling variance
    of independent rows is multiplied by it, which is its upper bound. ``bias`` (k,): bounds on what
    values beyond a window add to T.

    ``pi = N/n, m = sum T/n, Pm = I - pi 1', u = Pm T``, ``Var u = Pm [diag(Q - 2 m T + m^2 N) +
    tau2 I + m^2 C] Pm'`` on k - 1 contrasts; cells of the diagonal are cut to [0, N (1 + |m|)^2].
    """
    m, Pm, D = groups_of(N, T, Q)
    k = len(N)
    V = Pm @ (copies * np.diag(D) + tau2 * np.eye(k) + m * m * C) @ Pm.T
    H = contrasts(np.ones(k))
    return _chi2(H @ Pm @ T, H @ V @ H.T, H @ Pm * bias)


def groups_of(N: Array, T: Array, Q: Array) -> tuple[float, Array, Array]:
    """Return m, Pm and the diagonal of :func:`groups`."""
    N = np.maximum(N, 0.0)
    n = max(float(N.sum()), 1.0)
    m = float(np.clip(T.sum() / n, -1.0, 1.0))
    Pm = np.eye(len(N)) - np.outer(N / n, np.ones(len(N)))
    return m, Pm, spread_about(N, T, Q, m)


def spread_about(N: Array, T: Array, Q: Array, m: float) -> Array:
    """Return the sums of squared deviations from m, cut to ``[0, N (1 + |m|)^2]``."""
    most = np.maximum(N, 0.0) * (1.0 + abs(m)) ** 2
    return np.asarray(np.clip(Q - 2.0 * m * T + m * m * N, 0.0, most))


def one_mean(
    N: float, T: float, Q: float, mu0: float, noise: tuple[float, float], copies: float = 1.0,
    bias: float = 0.0,
) -> Null:  # fmt: skip
    """Test the mean mu0 of values in [-1, 1].

    ``T - mu0 N`` has variance ``D + tau_T^2 + mu0^2 tau_N^2``. ``noise`` holds the
    two noise variances; D is the sum of squared deviations from mu0, cut.
    """
    D = float(spread_about(np.array(N), np.array(T), np.array(Q), mu0))
    V = copies * D + noise[0] + mu0**2 * noise[1]
    return _chi2(np.array([T - mu0 * N]), np.array([[V]]), np.array([[bias]]))


def fit(X: Array, n: float, p0: Array, C: Array, copies: float = 1.0) -> Null:
    """Test the shares p0: ``H(X - n p0)`` with ``H [n (diag p0 - p0 p0') + C] H'``.

    C is the noise covariance of ``X - n p0`` (Kifer and Rogers 2017).
    """
    H = contrasts(np.ones(len(X)))
    V = copies * n * (np.diag(p0) - np.outer(p0, p0)) + C
    return _chi2(H @ (X - n * p0), H @ V @ H.T)


def independence(X: Array, n: float, C: Array, copies: float = 1.0) -> Null:
    """Test independence of the rows and columns of X (r, c), C the noise covariance of vec X.

    ``U = A_r X A_c'`` with rows of A_r (A_c) an orthonormal basis orthogonal to the margin p_r
    (p_c); ``Var vec U = n (A_r D_r A_r') x (A_c D_c A_c') + (A_r x A_c) C (A_r x A_c)'``.
    """
    K, V = independence_of(X, max(n, 1.0))
    return _chi2(K @ X.ravel(), copies * V + K @ C @ K.T)


Mask = npt.NDArray[np.bool_]

#: A level is in a test if its released count is above this many of its noise sds.
_SEEN = 3.0


def clear_levels(counts: Array, sd: Array) -> Mask:
    """Return which levels are in a test: all that are clear of their noise, or all if one is.

    Degrees of freedom are not counted for declared levels that no row has.
    """
    clear = np.asarray(counts > _SEEN * sd)
    return clear if clear.sum() > 1 else np.ones(len(counts), dtype=bool)


def clear_cells(X: Array, C: Array) -> tuple[Mask, Mask]:
    """Return which rows and columns of X (r, c) are in a test; C is the noise covariance of X."""
    r, c = X.shape
    by_cell = C.reshape(r, c, r, c)
    rows = np.sqrt(np.maximum(np.einsum("ijik->i", by_cell), 0.0))
    columns = np.sqrt(np.maximum(np.einsum("ijkj->j", by_cell), 0.0))
    return clear_levels(X.sum(axis=1), rows), clear_levels(X.sum(axis=0), columns)


def independence_of(X: Array, n: float) -> tuple[Array, Array]:
    """Return the contrasts of the cells X (r, c), and their covariance for n independent rows."""
    p_r, p_c = (_shares(X.sum(axis=a)) for a in (1, 0))
    A, B = contrasts(p_r), contrasts(p_c)
    K, V = np.kron(A, B), n * np.kron((A * p_r) @ A.T, (B * p_c) @ B.T)
    return np.asarray(K), np.asarray(V)


def _shares(margin: Array) -> Array:
    floored = np.maximum(margin, 0.0)
    total = float(floored.sum())
    return floored / total if total > 0 else np.full(margin.shape, 1.0 / margin.size)


def residual(Q: Array, s: float, base: Array, y: Array, r: Array) -> float:
    """Return the residual sum of squares, ``r'Qr + tr(M^{-1} Cn)``: the noise does not bias it."""
    M = base @ Q @ base.T
    B_r = base @ r
    Cn = 0.5 * s * s * (float(r @ r) * base @ base.T + np.outer(B_r, B_r))
    return float(r @ Q @ r + np.trace(inverse_and_rank(M)[0] @ Cn))


def uncorrelated(sums: Array, V: Array, copies: float = 1.0) -> Null:
    """Test independence of two numeric variables, from (N, Sx, Sy, Sxx, Sxy, Syy) in the box.

    ``u = Sxy - Sx Sy / N`` with variance ``N v_x v_y`` and the noise of the five sums, V (6,), the
    product of two of them included: Sx and Sy may be noise alone.
    """
    N, Sx, Sy, Sxx, Sxy, Syy = (float(v) for v in sums)
    mx, my = float(np.clip(Sx / N, -1.0, 1.0)), float(np.clip(Sy / N, -1.0, 1.0))
    # E (m + noise)^2 = m^2 + noise^2: taken back
    vx = float(np.clip(Sxx / N - mx * mx + V[1] / N**2, 0.0, 1.0))
    vy = float(np.clip(Syy / N - my * my + V[2] / N**2, 0.0, 1.0))
    noise = V[4] + my * my * V[1] + mx * mx * V[2] + (mx * my) ** 2 * V[0] + V[1] * V[2] / N**2
    return _chi2(np.array([Sxy - Sx * Sy / N]), np.array([[copies * N * vx * vy + noise]]))


def correlation(Q: Array, s: float, n: float) -> tuple[float, float]:
    """Return (rho, its standard error) of the last two of the coordinates (1, x, y).

    ``after-fit.md`` 2.4; NaN where a residual sum of squares is not above its noise.
    """
    base = np.array([[1.0, 0.0, 0.0]])
    e = np.eye(3)
    r, rss = [], []
    for j in (1, 2):
        b = float(Q[0, j] / max(Q[0, 0], 1.0))
        r.append(e[j] - b * e[0])
        rss.append(residual(Q, s, base, e[j], r[-1]))
    if min(rss) <= 2.0 * s:
        return math.nan, math.nan
    rho = float(r[0] @ Q @ r[1]) / math.sqrt(rss[0] * rss[1])
    a, b_ = (v / math.sqrt(w) for v, w in zip(r, rss, strict=True))
    inner = 0.5 * (np.outer(a, b_) + np.outer(b_, a))
    inner -= 0.5 * rho * (np.outer(a, a) + np.outer(b_, b_))
    noise = s * s * float((inner**2).sum())
    rho = float(np.clip(rho, -1.0, 1.0))
    return rho, math.sqrt(noise + (1.0 - rho * rho) ** 2 / max(n - 3.0, 1.0))


# -- Backend of ``dp_test(method="subsample")``: any public test, by a test of tests.
#
# Kazan, Shi, Groce and Bray (2023). The rows are split at random into m parts, the test is run in
# each, and the number of rejections at level a0, which one row moves by at most 1, gets the noise
# of the most powerful private binomial test (Awan and Slavkovic 2018). ``theory.md``, 3.4.


#: Noncentrality of the z test that plans take the public test to be.
SHIFT = 5.0
#: Fewest rows of a part, and most parts, by default.
_LEAST_ROWS, _PARTS = 20, 200


def noise_cdf(x: Array, eps: float) -> Array:
    """Return P(G1 - G2 + U <= x): G geometric(1 - e^-eps), U uniform on (-1/2, 1/2)."""
    x = np.asarray(x, dtype=float)
    b = math.exp(-eps)
    low = -np.abs(x)
    near = np.rint(low)
    with np.errstate(over="ignore", under="ignore"):
        left = np.exp(eps * near) / (1.0 + b) * (b + (low - near + 0.5) * (1.0 - b))
    return np.asarray(np.where(x <= 0, left, 1.0 - left), dtype=float)


def _binomial(m: int, p: float) -> Array:
    """Return the probabilities of 0, ..., m."""
    x = np.arange(m + 1)
    log = special.gammaln(m + 1) - special.gammaln(x + 1) - special.gammaln(m - x + 1)
    log = log + special.xlogy(x, p) + special.xlog1py(m - x, -p)
    return np.asarray(np.exp(log), dtype=float)


def p_value(z: float, m: int, a0: float, eps: float) -> float:
    """Return ``sum_x Bin(x; m, a0) F(x - z)``."""
    return float(np.dot(_binomial(m, a0), noise_cdf(np.arange(m + 1.0) - z, eps)))


def critical_count(m: int, a0: float, eps: float, alpha: float) -> float:
    """Return kappa with p-value alpha."""
    width = 40.0 / eps + 2.0
    return brent(lambda z: p_value(z, m, a0, eps) - alpha, -width, m + width, xtol=1e-10)


def power(theta: float, m: int, a0: float, eps: float, alpha: float) -> float:
    """Return ``sum_x Bin(x; m, theta) F(x - kappa)``: theta is the power of the test in a part."""
    return p_value(critical_count(m, a0, eps, alpha), m, theta, eps)


def _theta(shift: float, m: int, a0: float, sides: int) -> float:
    """Return the power in a part of a z test whose shift in all rows is ``shift``."""
    z, cut = shift / math.sqrt(m), float(special.ndtri(a0 / sides))
    return float(special.ndtr(z + cut)) + (float(special.ndtr(cut - z)) if sides == 2 else 0.0)


def best_split(
    shift: float, eps: float, alpha: float, most: int, a0: float | None, m: int | None,
    sides: int = 2,
) -> tuple[int, float, float]:  # fmt: skip
    """Return (m, a0, power) with the most power for a z test with that shift in all rows."""

    def reached(p: int, a: float) -> tuple[float, int, float]:
        return power(_theta(shift, p, a, sides), p, a, eps, alpha), p, a

    spread = sorted({max(2, round(most * (k / 12) ** 1.5)) for k in range(1, 13)})
    parts = [m] if m else spread
    levels = [a0] if a0 else [round(0.02 * k, 2) for k in range(1, 30)]
    best = max(reached(p, a) for p in parts for a in levels)
    if m is None:  # once more around the best of the sparse list
        near = range(max(2, best[1] - 8), min(most, best[1] + 8) + 1)
        nearby = [a0] if a0 else [best[2] - 0.01, best[2], best[2] + 0.01]
        best = max(reached(p, a) for p in near for a in nearby)
    return best[1], best[2], best[0]


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a test of tests: parts and level by the power of a z test. Reads no row."""
    test = request["test"]
    if not callable(test):
        raise RequestError(
            "method='subsample' needs test=, a function of a table that returns a p-value, for "
            "example test=lambda d: scipy.stats.ttest_1samp(d['x'], 0).pvalue"
        )
    if request.copies > 1:
        raise RequestError(
            "a custom test assumes independent rows, so with unit= its level is unknown. Keep one "
            "row per person, max_rows=1, or make a table of one row per person first"
        )
    m, a0 = request["parts"], request["a0"]
    if m is not None and m > n:
        raise RequestError(f"parts={m} is more than there are rows ({n})")
    if n < 2 * _LEAST_ROWS and m is None:
        raise RequestError(
            f"{n} rows are too few to split: parts= of {_LEAST_ROWS} rows are the least"
        )
    shift = SHIFT if request["effect"] is None else float(request["effect"])
    alpha = 1.0 - request.level
    most = min(_PARTS, n // _LEAST_ROWS)
    sides = int(request["sides"])
    m, a0, reached = best_split(shift, request.eps, alpha, most, a0, m, sides)
    step = Step(_REJECTIONS_STEP, Pure(request.eps), share=1.0, label="geometric")
    return Plan.of(
        request, design, n, (step,),
        scales={
            "parts": float(m),
            "level in a part": a0,
            "rejections that are significant": critical_count(m, a0, request.eps, alpha),
            f"power, of a z test with {sides} side{'s' * (sides > 1)} and shift {shift:g}": reached,
        },
        detail=Split(m, a0, test),
    )  # fmt: skip


def estimate(plan: Plan[Split], release: Release) -> Estimate:
    """Return the p-value of the noisy number of rejections."""
    split = plan.detail
    z = float(release.values["rejections"][0])
    eps = plan.request.eps
    b = math.exp(-eps)
    sd = math.sqrt(2.0 * b / (1.0 - b) ** 2 + 1.0 / 12.0)
    p = min(max(z / split.m, 0.0), 1.0)
    return Estimate(
        ("rejections",),
        np.array([z]),
        vcov_sampling=np.array([[split.m * p * (1.0 - p)]]),
        vcov_privacy=np.array([[sd * sd]]),
        stats={"statistic": z, "df": float(split.m), "p_value": p_value(z, split.m, split.a0, eps)},
        notes=(messages.TEST_OF_TESTS(m=split.m, a0=split.a0),),
    )


NULLS_BACKEND = Backend(plan, release, estimate)
EFFECT_OPTION = Option(
    "effect",
    "for plans: difference of means in the units of the variable, Cohen's w, a correlation, or "
    "the noncentrality of the public test",
    None, float, lower=0.0,
)  # fmt: skip
TEST = Option("test", "which test; None: by the variables", None, object)
register_method(
    table_method(
        name="subsample",
        verb="dp_test",
        title="Test of tests",
        backend=NULLS_BACKEND,
        by_rows=True,
        needs=("one pass", "rows in memory"),
        privacy_se="public",
        reference="Kazan, Shi, Groce and Bray (2023), The test of tests",
        options=(
            TEST,
            Option("parts", "parts of the rows; None: by power", None, int, lower=1),
            Option("a0", "level of the test in a part; None: by power", None, float, lower=0.0,
                   upper=1.0),
            Option("sides", "of the z test by whose power parts and a0 are chosen", 2, int,
                   lower=0, upper=3),
            EFFECT_OPTION,
        ),
    )
)  # fmt: skip
