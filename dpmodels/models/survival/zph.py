"""``fit.cox_zph``: are the hazards of a Cox fit proportional? Scores by interval of time, released.

Grambsch and Therneau (1994): a coefficient ``b + gamma g(t)`` has the score ``sum_j g_j S_j``. What
is released are the scores S_j of intervals at the fit, and what centres and weighs them; the
transform g is free then. ``theory.md``, 10.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.release import Release, answered
from dpmodels.core.rows import Rows, clip, length, stack, total, where
from dpmodels.core.units import Scores, ScoresInBall
from dpmodels.errors import choice
from dpmodels.formula.design import Design
from dpmodels.lazy import pd, special
from dpmodels.models.survival.hazard import TIME_TERMS, FollowedUp, Hazard, Timeline
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Step, mu_gdp
from dpmodels.proof.prove import noise_of
from dpmodels.sums.ask import Ask
from dpmodels.tables.content import Column
from dpmodels.tables.table import AS_WIDE, Result, Table, grid, new_axes

#: Expected events of a unit at most: later follow-up is left out, by predictors alone.
MOST_EVENTS = 2.0
#: Weights of expected events and of second moments beside scores: less must be known of them.
_LIGHT = 0.25
#: Least eigenvalue of a correlation matrix, and of second moments in whitened columns.
_LEAST_EIGENVALUE, _LEAST_MOMENT = 1e-3, 0.02
#: Expected events below this many of their noise sds: not determined.
_DETERMINED_EVENTS = 4.0
SCORES_STEP = "scores by interval"
TRANSFORMS = ("rank", "identity", "log")


@dataclass(frozen=True, eq=False)
class Whitened:
    """Columns as the check sees them: (1, z), ``z = W (x - c)``; in a block of rows affine."""

    affine: tuple[Array, Array]  # (matrix (p + 1, q), shift (p + 1, 1))
    W0: Array  # (p + 1, p + 1)
    W: Array  # (p, p)


def whitened(covariance: Array, joint: Array, events: float, at: Any, q: int) -> Whitened:
    """Return coordinates in which predictors have about mean 0 and variance 1 among events.

    Released numbers, so that only the noise depends on how right they are. The covariance
    (p, p) is of sampling, of the coefficients: over ``events`` the inverse of the predictors' own.
    ``joint`` holds errors of intercept, coefficients and terms of time: its inverse says the means.
    ``at`` (p,) are indices of the columns in a block of q rows.
    """
    p = len(covariance)
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(size, size))
    root = vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    W = math.sqrt(max(events, 1.0)) * root * size
    scale = np.sqrt(np.maximum(np.diag(joint), 1e-300))
    M = np.linalg.pinv(joint / np.outer(scale, scale), rcond=_LEAST_EIGENVALUE, hermitian=True)
    M = M / np.outer(scale, scale)
    c = M[0, 1 : p + 1] / max(float(M[0, 0]), 1e-300)
    matrix = np.zeros((p + 1, q))
    matrix[1:, at] = W
    shift = np.concatenate([[1.0], -W @ c])
    return Whitened((matrix, shift[:, None]), np.eye(p + 1), W)


@dataclass(frozen=True)
class Intervals:
    """Layout of the numbers of a unit: the sums by interval.

    z is a vector of p values, at most ``longest`` long. For the events D_j and the expected events
    m_j of each interval the sums are ``z (D_j - m_j)``; by stratum ``D_j - m_j``, ``z m_j`` and
    ``m_j``, the last two times ``_LIGHT``; and ``z z' sum m_j``, times ``_LIGHT / longest``.
    """

    p: int
    J: int
    S: int

    @property
    def longest(self) -> float:
        """Length of z at most."""
        return 1.0 + math.sqrt(self.p)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each part."""
        p, J, S = self.p, self.J, self.S
        return J * p, S * J, S * J * p, S * J, p * (p + 1) // 2

    @property
    def d(self) -> int:
        """Numbers in all."""
        return sum(self.sizes)

    @property
    def radius(self) -> float:
        """Largest length of a row's contribution (``theory.md``, 10)."""
        R2, m2, light = self.longest**2, MOST_EVENTS**2, _LIGHT**2
        return math.sqrt((1.0 + R2) * (1.0 + m2 + light * m2) + light * R2 * m2)

    @functools.cached_property
    def pairs(self) -> tuple[Any, Array]:
        """Return indices of the upper triangle, and the weight of each of its entries."""
        upper = np.triu_indices(self.p)
        weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
        return upper, weight * _LIGHT / self.longest

    def parts(self, flat: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return (scores (J, p), residuals (S, J), means (S, J, p), events (S, J), Q (p, p))."""
        p, J, S = self.p, self.J, self.S
        s, r, t, e, q = np.split(flat, np.cumsum(self.sizes)[:-1])
        upper, weight = self.pairs
        Q = np.zeros((p, p))
        Q[upper] = q / weight
        Q = Q + np.triu(Q, 1).T
        return (
            s.reshape(J, p), r.reshape(S, J), t.reshape(S, J, p) / _LIGHT,
            e.reshape(S, J) / _LIGHT, Q,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ByInterval(FollowedUp):
    """The follow-up of units at a released fit, laid out by intervals of time."""

    layout: Intervals
    ends: Array  # (J + 1,): ends of the intervals, among the ends of cells

    def _squares(self, u: Rows, stratum: Rows) -> Rows:
        """Return ones: expected events use up the bound, for any predictors."""
        return where(stratum == stratum, np.ones(self.model.timeline.K), 1.0)

    def _summed(
        self, u: Rows, risk: Rows, weight: Rows, stratum: Rows, start: Rows, T: Rows, D: Rows
    ) -> Scores:
        """Return the numbers of each row in the order of the layout."""
        lay, ends = self.layout, self.ends
        z: Any = u[1:]
        z = z * np.minimum(1.0, lay.longest / np.maximum(length(z), 1e-300))
        at_risk = where(start < T, risk, 0.0)
        which = clip(np.searchsorted(ends, T, "left") - 1, 0, lay.J - 1)
        residual, expected = [], []
        for j in range(lay.J):
            first, last = (clip(at, ends[j], ends[j + 1]) for at in (start, T))
            m = (self._at_risk_sum(stratum, last) - self._at_risk_sum(stratum, first)) * at_risk
            residual.append(where(which == j, D, 0.0) - m)
            expected.append(m)
        strata = [(stratum == k) * 1.0 for k in range(lay.S)]
        e = [_LIGHT * m * mine for mine in strata for m in expected]
        (row, other), factor = lay.pairs
        q = z[row.tolist()] * z[other.tolist()] * total(stack(*expected)) * factor
        by_stratum = (part * mine for mine in strata for part in residual)
        scores = (z * part for part in residual)
        score = stack(*scores, *by_stratum, *(z * part for part in e), *e, q)
        return Scores(score, lambda: (score,))  # nothing asks for the information

    def _at_risk_sum(self, stratum: Rows, T: Rows) -> Rows:
        """Return the cumulative baseline hazard up to T."""
        return self._integral_up_to(slice(1), stratum, T, self._cell(T))[0]


@dataclass(frozen=True, eq=False)
class ZphPlan:
    """Everything public about one check."""

    design: Design  # Design of the fit
    n: int  # Units
    local: ByInterval
    guarantee: Guarantee
    advice: tuple[str, ...] = ()

    @property
    def into(self) -> ScoresInBall:
        """Vectors in a ball."""
        return ScoresInBall(self.local.layout.d, self.local.layout.radius)

    @property
    def noise(self) -> float:
        """Noise sd of a score."""
        sds = noise_of(self.into.statistic, self.guarantee.steps[0].mechanism, "replace")
        return float(sds[0]) * self.local.layout.radius


def plan_zph(
    design: Design, n: int, unit: str, seen: Whitened, params: Array, line: Timeline,
    intervals: int, eps: float, delta: float, events: float,
) -> ZphPlan:  # fmt: skip
    """Plan the check of a fit, in intervals of about equal released events. Reads no row.

    ``seen`` are the columns that have coefficients, ``line`` released hazards of a unit whose
    columns are 0, ``events`` released.
    """
    assert design.survival is not None
    p, S = len(params), len(line.rates)
    shift = np.linalg.solve(seen.W, -seen.affine[1][1:, 0])  # c
    theta = np.concatenate(
        [[float(shift @ params)], np.linalg.solve(seen.W.T, params), np.zeros(TIME_TERMS * S - 1)]
    )
    people = unit != "record"
    coordinates: Any = seen
    model = Hazard(coordinates, design.survival, line, 1.0, people)
    ends = ends_of(line, intervals)
    lay = Intervals(p, len(ends) - 1, S)
    local = ByInterval(model, theta, np.eye(len(theta)), MOST_EVENTS, lay, ends)
    step = Step(SCORES_STEP, Gaussian(mu_gdp(eps, delta)), share=1.0)
    plan = ZphPlan(design, n, local, Guarantee((step,), eps, delta, "replace", unit))
    ratio = plan.noise / math.sqrt(max(events / lay.J, 1.0))
    if ratio <= 2.0:
        return plan
    advice = (
        f"the noise of the check is {ratio:.2g} times its sampling error: only strong departures "
        "from proportional hazards would be seen at this budget"
    )
    return replace(plan, advice=(advice,))


def ends_of(line: Timeline, many: int) -> Array:
    """Return ends of at most a given number of intervals with about equal released events."""
    events = np.maximum(line.events, 0.0).sum(axis=0) + 1e-9
    share = np.cumsum(events) / events.sum()
    inner = [int(np.argmin(np.abs(share - k / many))) + 1 for k in range(1, many)]
    places = sorted({0, line.K, *(k for k in inner if k < line.K)})
    return np.asarray(line.edges[places], dtype=float)


def release(plan: ZphPlan, ask: Ask) -> Array:
    """Release the sums of the plan. One pass; alone in seeing rows.

    **Privacy.** The mu of the one step, for one unit: a vector in a ball (``theory.md``, 10).
    """
    check = Release(SCORES_STEP, plan.into, plan.local, plan.design)
    return np.asarray(answered(check, ask).values)


# -- What the check says. Sees no row.


@dataclass(frozen=True, eq=False)
class CentredScores:
    """Centred scores by interval, their variances, and their derivatives by coefficients."""

    s: Array  # (J, p)
    cov: Array  # (J, p, p): sampling and noise
    slope: Array  # (J, p, p): derivatives of the expected scores by the coefficients
    events: Array  # (J,)
    determined: bool


def centred(lay: Intervals, flat: Array, sd: float) -> CentredScores:
    """Return the released scores of whitened columns, centred by stratum and interval.

    ``flat``: the released sums of all intervals and strata, laid out as ``lay`` says; ``sd``: the
    noise of each of them, 0 without noise. Their covariances, slopes and events are for the test.
    """
    p = lay.p
    s, r, t, e, Q = lay.parts(flat)
    of_e, of_Q = sd / _LIGHT, sd * lay.longest / _LIGHT
    m = t * (e / np.maximum(e**2 + of_e**2, 1e-300))[:, :, None]
    safe = np.maximum(e, max(of_e, 1e-9))
    events = safe.sum(axis=0)
    total = float(events.sum())
    S = s - np.einsum("sjp,sj->jp", m, r)
    V = (Q - np.einsum("sj,sjp,sjq->pq", safe, m, m)) / total
    values, vectors = np.linalg.eigh(V)
    V = vectors * np.maximum(values, _LEAST_MOMENT) @ vectors.T
    # at least the released value: noise of the second moments and of the events on top
    wide = V + of_Q / total * np.eye(p)
    grow = events + of_e * math.sqrt(lay.S)
    mm = np.einsum("sjp,sjq->jpq", m, m)
    loose = np.einsum("sj,sj->j", r**2, (of_e / safe) ** 2)
    noise = sd**2 * (np.eye(p) + mm) + loose[:, None, None] * (np.eye(p) + mm)
    sure = float(e.sum()) > _DETERMINED_EVENTS * of_e * math.sqrt(lay.S * lay.J)
    cov, slope = grow[:, None, None] * wide + noise, np.asarray(events[:, None, None] * V)
    return CentredScores(np.asarray(S), cov, slope, events, sure)


def slopes(scores: CentredScores, g: Array, along: Array) -> tuple[Array, Array]:
    """Return (gamma, covariance) of ``b + along gamma g(t)``, all of b free: least squares.

    g is (J,), and ``along`` (p, k) directions in whitened coordinates.
    """
    p = scores.s.shape[1]
    A, b = np.zeros((1, 1)), np.zeros(1)
    for s, cov, slope, g_at in zip(scores.s, scores.cov, scores.slope, g, strict=True):
        X = slope @ np.hstack([np.eye(p), g_at * along])
        over = np.linalg.solve(cov, np.column_stack([X, s]))
        A, b = A + X.T @ over[:, :-1], b + X.T @ over[:, -1]
    inverse = np.linalg.inv(A)
    return np.asarray((inverse @ b)[p:]), np.asarray(inverse[p:, p:], dtype=float)


def transformed(ends: Array, events: Array, transform: str) -> Array:
    """Return g of the intervals: middles in events ("rank"), in time, in its log; centred."""
    weight = events / events.sum()
    if transform == "rank":
        g = np.cumsum(weight) - weight / 2.0
    else:
        g = (ends[1:] + ends[:-1]) / 2.0
        if transform == "log":
            g = np.log(np.maximum(g, 1e-12 * float(np.max(np.abs(ends)))))
    return np.asarray(g - weight @ g)


_ZPH_NOTES = (
    "Score tests of b + slope g(t), each coefficient by itself and all together; the noise is in "
    "their variances, and P is never smaller for it.",
    "Predictors are assumed to vary equally at all times among those at risk, as in Grambsch and "
    "Therneau (1994); later follow-up of units with more than two expected events is left out.",
)


@dataclass(frozen=True, eq=False, repr=False)
class CoxZph(Result):
    """Tests of proportional hazards, as R's ``cox.zph``, as a separate release."""

    # {"rank", "identity", "log"}: g; :meth:`with_transform` looks at the same numbers by another
    # one.
    transform: str
    tests: Any  # ``term, slope, std_error, statistic, df, p_value``, ``GLOBAL`` last
    by_interval: Any  # Frame by coefficient and interval: ``term, low, high, estimate, std_error``
    privacy: Guarantee
    # layout, ends, params, W, flat, sd: released numbers and their layout, from which the tests are
    # recomputed.
    layout: Intervals
    ends: Array
    params: Array
    W: Array
    flat: Array
    sd: float

    def with_transform(self, transform: str) -> CoxZph:
        """Return the same check by another transform of time.

        Privacy
        -------
        Post-processing: costs nothing.
        """
        names = tuple(self.tests["term"][:-1])
        return zph_of(
            self.layout, names, self.params, self.W, self.ends, self.flat, self.sd,
            choice("transform", transform, TRANSFORMS), self.privacy,
        )  # fmt: skip

    def table(self) -> Table:
        """Return the table of tests."""

        def cell(x: float) -> str:
            return f"{x:.4g}" if math.isfinite(x) else "n/d"

        heads = ("slope", "Std. Error", "chisq", "df", "P")
        return grid(
            (Column("", left=True, width=16), *(Column(h, width=10) for h in heads)),
            ((str(r.term), *("" if r.term == "GLOBAL" else cell(x) for x in r[2:4]),
              cell(r.statistic), f"{r.df:g}", cell(r.p_value)) for r in self.tests.itertuples()),
            title=f"Proportional hazards, by {self.transform} of time",
            notes=(*_ZPH_NOTES, f"Privacy: {self.privacy.statement()}."), layout=AS_WIDE,
        )  # fmt: skip

    def tidy(self) -> pd.DataFrame:
        """Return the tests, one row per coefficient and ``GLOBAL``."""
        return self.tests.copy()

    def plot(self, ax: Any = None, *, term: str | None = None, **style: Any) -> Any:
        """Draw a coefficient by interval of time with its 95 % limits (needs matplotlib).

        Parameters
        ----------
        ax : Axes, optional
        term : str, optional
            Default: the first.
        **style
            Of the line.
        """
        names = list(self.tests["term"][:-1])
        term = choice("term", names[0] if term is None else term, names)
        bars = self.by_interval[self.by_interval["term"] == term]
        ax, middle = new_axes(ax, (5.0, 3.4)), (bars["low"] + bars["high"]) / 2.0
        ax.errorbar(
            middle, bars["estimate"], 1.959964 * bars["std_error"],
            (bars["high"] - bars["low"]) / 2.0,
            **{"fmt": "o", "color": "C0", **style},
        )  # fmt: skip
        ax.axhline(float(self.params[names.index(term)]), color="0.6", linewidth=0.8)
        ax.set(xlabel="time", ylabel=f"coefficient of {term}")
        return ax


def zph_of(
    lay: Intervals, names: tuple[str, ...], params: Array, W: Array, ends: Array, flat: Array,
    sd: float, transform: str, promise: Guarantee,
) -> CoxZph:  # fmt: skip
    """Return the check from released numbers."""
    scores = centred(lay, flat, sd)
    g = transformed(ends, scores.events, transform)
    back = np.linalg.inv(W)
    rows = []
    for k, name in enumerate(names):
        (gamma,), ((variance,),) = slopes(scores, g, back.T[:, [k]])
        square = gamma**2 / variance
        rows.append((name, gamma, math.sqrt(variance), square, 1, float(special.chdtrc(1, square))))
    gammas, covariance = slopes(scores, g, np.eye(lay.p))
    square = float(gammas @ np.linalg.solve(covariance, gammas))
    rows.append(("GLOBAL", math.nan, math.nan, square, lay.p, float(special.chdtrc(lay.p, square))))
    tests = pd.DataFrame(rows, columns=["term", "slope", "std_error", "statistic", "df", "p_value"])
    out = []
    for j, (s, cov, slope) in enumerate(zip(scores.s, scores.cov, scores.slope, strict=True)):
        to = W.T @ np.linalg.inv(slope)
        estimates = params + to @ s
        errors = np.sqrt(np.diag(to @ cov @ to.T))
        low, high = float(ends[j]), float(ends[j + 1])
        out += [(n, low, high, b, se) for n, b, se in zip(names, estimates, errors, strict=True)]
    by = pd.DataFrame(out, columns=["term", "low", "high", "estimate", "std_error"])
    if not scores.determined:
        tests.loc[:, ["slope", "std_error", "statistic", "p_value"]] = math.nan
        by.loc[:, ["estimate", "std_error"]] = math.nan
    return CoxZph(transform, tests, by, promise, lay, ends, params, W, flat, sd)
