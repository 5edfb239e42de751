"""Backend of ``dp_test(method="score")``: tests from one release of noisy sums.

Which test it is follows from the formula and ``test=`` (``hypotheses.py``); each kind is one entry:
how its noisy sums are turned into a test (``nulls.py``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.exact.ask import Query
from dpmodels.exact.gram import gram
from dpmodels.exact.passes import Counts, first_array
from dpmodels.exact.prove import noise_of
from dpmodels.exact.rowmap import RowMap, UnitScale, WithOne
from dpmodels.exact.statistics import Pair
from dpmodels.models.table import nulls
from dpmodels.models.table.effects import Effects
from dpmodels.models.table.hypotheses import Facts, kind_of, null_of
from dpmodels.models.table.layout import Axis, Block, Layout, layout_of
from dpmodels.models.table.noise import table_noise
from dpmodels.models.table.power import power_of
from dpmodels.models.table.sums import COUNT, SQUARE, TOTAL, TablePass
from dpmodels.models.table.table import half_ranges
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.ranges import gaussian_part, no_ranges, ranged_design
from dpmodels.release import Estimate, Release

if TYPE_CHECKING:
    from dpmodels.exact.ask import Ask
    from dpmodels.formula.design import Design
    from dpmodels.request import Request

_STEP = "sums of the test"
#: Where they stand in the Gram matrix of (x, y, 1).
_PLACES = ((2, 2), (0, 2), (1, 2), (0, 0), (0, 1), (1, 1))


@dataclass(frozen=True)
class Solved:
    """A test with what it says of the size of the effect."""

    test: nulls.Null
    names: tuple[str, ...]
    params: Array
    sampling: Array
    privacy: Array


def facts_of(request: Request, design: Design, mu: float) -> Facts:
    """Return what is public about a test: its kind, layout and noise."""
    kind = kind_of(request, design)
    null = null_of(request, design, kind)
    if kind == "correlation":
        return Facts(kind, None, None, mu, null, request.alike)
    layout = _layout(design, kind)
    noise, _ = table_noise(layout, "gaussian", mu, 0.0)
    return Facts(kind, layout, noise, mu, null, request.alike)


def _layout(design: Design, kind: str) -> Layout:
    layout = layout_of(design)
    if kind != "independence":
        return layout
    return Layout(layout.axes, (Block((0, 1)),), layout.sections)  # the cells alone


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a test: one Gaussian release of its sums; its power. Reads no row."""
    part = gaussian_part(request, design.unknown)
    mu = part.mu * math.sqrt(1.0 - part.share)
    facts = facts_of(request, design, mu)
    if facts.layout is None and request.unit is not None and request.by_person:
        raise RequestError(
            "the test of a correlation has no form for people: a regression has, "
            f'dp_ols("y ~ x", data, unit={request.unit.column!r}); or keep one row a person, '
            "max_rows=1 (with max_rows=m it pays for m, and allows for m rows that go together)"
        )
    scales = {"noise sd of a sum": _noise_sd(facts)}
    if not design.unknown:
        scales |= power_of(request, design, facts, n, solve)
    steps = [*part.steps, Step(_STEP, Gaussian(mu), share=1.0 - part.share)]
    return Plan.of(
        request, design, n, steps,
        shares={**part.printed, "sums": 1.0 - part.share},
        scales=scales,
        purchase=part.purchase,
        detail=facts,
        advice=_advice(facts, n, "people" if request.by_person else "rows"),
        passes=1 + bool(part.purchase),
    )  # fmt: skip


def pair_noise(mu: float) -> Array:
    """Return the noise sds of (N, Sx, Sy, Sxx, Sxy, Syy) of a correlation."""
    return noise_of(Pair(), Gaussian(mu), "replace")


def _noise_sd(facts: Facts) -> float:
    if facts.noise is None:
        return float(pair_noise(facts.mu)[1])
    return facts.noise.scale(0) * (2.0**0.5 if facts.kind in ("mean", "groups") else 1.0)


def _advice(facts: Facts, n: int, counted: str) -> tuple[str, ...]:
    if facts.layout is None:
        return ()
    cells = math.prod(a.size - 1 for a in facts.layout.axes if a.kind == "level")
    if cells > n:
        return (f"{cells:,} declared groups for {n:,} {counted}: the noise is all there is",)
    return ()


def release(plan: Plan[Facts], ask: Ask) -> Release:
    """Release the noisy sums of a test.

    Privacy
    -------
    Unit: one row; replace-one, n public. A row with a missing cell is in the cell "(missing)", or
    void. Or one person, who lays the mean of its rows (``units/theory.md``, 11).
    """
    design = ranged_design(plan, ask)
    if design is None:
        return no_ranges(plan)
    facts = plan.detail
    centre, half = half_ranges(design)
    if facts.layout is None or facts.noise is None:
        unit = UnitScale(1.0 / half, -centre / half, False)
        over: Any = Counts(design, functools.partial(_pair_moments, unit))
        value = ask(_STEP, Query(Pair(), over, first_array)).values
    else:
        over = TablePass(design, facts.layout, centre, half, plan.request.by_person)
        value = ask(_STEP, Query(facts.noise.statistic(facts.layout), over)).values
    return Release({"sums": value}, plan.guarantee, design, detail=(centre, half))


def _pair_moments(unit: UnitScale, blocks: Iterable[Array]) -> tuple[Any]:
    """Return the integer moments of a pair of numbers. Confidential."""
    integers = gram(_voided(blocks), WithOne(RowMap(unit, np.ones(2)))).integers()
    return (np.array([integers[i, j] for i, j in _PLACES], dtype=object),)


def _voided(blocks: Iterable[Array]) -> Iterator[Array]:
    """Yield blocks whose rows with a missing number are missing throughout."""
    for block in blocks:
        with np.errstate(all="ignore"):
            block[:, np.isnan(block).any(axis=0)] = np.nan
        yield block


def estimate(plan: Plan[Facts], release: Release) -> Estimate:
    """Return the test, and what it says of the effect."""
    facts = plan.detail
    if not release.reply:
        return Estimate.silent(("test",))
    assert plan.n is not None
    design = release.design
    solved = solve(facts, design, release.values["sums"], plan.n)
    stats = {
        "statistic": solved.test.statistic,
        "df": float(solved.test.df),
        "p_value": solved.test.p_value,
    }
    return Estimate(
        solved.names,
        solved.params,
        vcov_sampling=np.diag(solved.sampling**2),
        vcov_privacy=np.diag(solved.privacy**2),
        stats=stats,
        notes=(*_NOTES[facts.kind], _PEOPLE)
        if plan.request.by_person
        else _NOTES[facts.kind],
    )


_REFERENCE = (
    "Chi-squared reference; the variance of the statistic is that of sampling and of the noise."
)
_PEOPLE = (
    "Each person counts once, by the mean of own rows. The variance in use is that of one row of "
    "each, which is no smaller: the level holds however rows of one person depend on each other."
)
_NOTES = {
    "mean": ("Hypothesis: the mean is mu0.", _REFERENCE),
    "groups": (
        "Hypothesis: the groups have one mean. Their variances may differ (no pooling).",
        _REFERENCE,
        "Means are shown of groups whose noisy count is well above its noise: of small groups "
        "those that noise lifted, whose intervals cover less often than they say. The test itself "
        "uses all groups; dp_table() has intervals that are right for each.",
    ),
    "fit": ("Hypothesis: the shares are p.", _REFERENCE),
    "independence": ("Hypothesis: the two are independent.", _REFERENCE),
    "correlation": (
        "Hypothesis: the two are independent.",
        _REFERENCE,
        "Under the null the two are independent: with a spread of one that follows the other the "
        "test is not exact.",
    ),
}


def solve(facts: Facts, design: Design, noisy: Array, n: int) -> Solved:
    """Turn noisy sums into a test. Post-processing."""
    return _SOLVERS[facts.kind](facts, design, noisy, n)


@dataclass(frozen=True)
class _Moments:
    """Counts, sums and squares by group, and the noise on them."""

    N: Array
    T: Array
    P: Array
    tau2: float
    C: Array
    centre: float
    half: float


def _moments(facts: Facts, design: Design, noisy: Array, n: int) -> _Moments:
    layout, noise = facts.layout, facts.noise
    assert layout is not None and noise is not None
    (block,) = layout.blocks
    effects = noise.measured(layout, noisy, float(n))
    axis = layout.number_axis(block.number)
    place = block.axes.index(axis)
    cells = np.moveaxis(effects.table(block.axes), place, -1)
    cells = cells[tuple(slice(0, -1) for _ in layout.group(block))].reshape(-1, 4)
    # the covariance leaves out the last cell of every axis: of a number, the missing one
    kept = [layout.axes[j].size - 1 for j in block.axes]
    whole = effects.noise_covariance(block.axes).reshape(*kept, *kept)
    C = whole.sum(axis=(place, place + len(kept)))
    C = C.reshape(len(cells), len(cells))
    K = effects.along(block.axes, axis)
    centre, half = half_ranges(design)
    N, T, P = (cells @ w for w in (COUNT, TOTAL, SQUARE))
    tau2 = float(TOTAL @ K @ TOTAL)
    return _Moments(N, T, P, tau2, C, float(centre[block.number]), float(half[block.number]))


def _level_axis(layout: Layout) -> Axis:
    return next(a for a in layout.axes if a.kind == "level")


def _mean_of(m: _Moments) -> tuple[Array, Array, Array]:
    """Return means, sampling and privacy errors, in the user's units; NaN for tiny groups."""
    tau_n = np.sqrt(np.diag(m.C))
    large = 3.0 * tau_n < m.N
    safe = np.where(large, m.N, np.nan)
    mean = np.clip(m.T / safe, -1.0, 1.0)
    v = np.clip(m.P / safe - mean**2, np.minimum(math.sqrt(m.tau2) / safe, 1.0), 1.0)
    privacy = np.sqrt(m.tau2 + mean**2 * np.diag(m.C)) / safe
    return m.centre + m.half * mean, m.half * np.sqrt(v / safe), m.half * privacy


def _solve_mean(facts: Facts, design: Design, noisy: Array, n: int) -> Solved:
    m = _moments(facts, design, noisy, n)
    mu0 = (facts.null[0] - m.centre) / m.half
    noise = (m.tau2, float(m.C[0, 0]))
    test = nulls.one_mean(float(m.N[0]), float(m.T[0]), float(m.P[0]), mu0, noise, facts.alike)
    return Solved(test, (f"mean({design.columns[0].name})",), *_mean_of(m))


def _solve_groups(facts: Facts, design: Design, noisy: Array, n: int) -> Solved:
    assert facts.layout is not None
    m = _moments(facts, design, noisy, n)
    test = nulls.groups(m.N, m.T, m.P, m.tau2, m.C, facts.alike)
    axis = _level_axis(facts.layout)
    number = next(a.name for a in facts.layout.axes if a.kind == "number")
    names = [f"mean({number})[{axis.name}={label}]" for label in axis.labels[:-1]]
    params, sampling, privacy = _mean_of(m)
    if len(names) == 2:
        names.append(f"difference: {axis.labels[1]} - {axis.labels[0]}")
        params = np.append(params, params[1] - params[0])
        sampling = np.append(sampling, math.hypot(*sampling))
        privacy = np.append(privacy, math.hypot(*privacy))
    return Solved(test, tuple(names), params, sampling, privacy)


def _counted(facts: Facts, noisy: Array, n: int) -> tuple[Effects, tuple[int, ...], Array]:
    layout, noise = facts.layout, facts.noise
    assert layout is not None and noise is not None
    (block,) = layout.blocks
    effects = noise.measured(layout, noisy, float(n))
    there = tuple(slice(0, -1) for _ in block.axes)
    return effects, block.axes, effects.table(block.axes)[there]


def _solve_fit(facts: Facts, design: Design, noisy: Array, n: int) -> Solved:
    assert facts.layout is not None
    effects, axes, X = _counted(facts, noisy, n)
    p0 = np.array(facts.null)
    total = max(float(X.sum()), 1.0)
    C = effects.noise_covariance(axes)
    off = np.eye(len(X)) - np.outer(p0, np.ones(len(X)))
    test = nulls.fit(X, total, p0, off @ C @ off.T, facts.alike)
    axis = facts.layout.axes[0]
    share = np.clip(X / total, 0.0, 1.0)
    turn = (np.eye(len(X)) - np.outer(share, np.ones(len(X)))) / total
    return Solved(
        test,
        tuple(f"share[{axis.name}={label}]" for label in axis.labels[:-1]),
        X / total,
        np.sqrt(share * (1.0 - share) / total),
        np.sqrt(np.diag(turn @ C @ turn.T)),
    )


def _solve_independence(facts: Facts, design: Design, noisy: Array, n: int) -> Solved:
    assert facts.layout is not None
    effects, axes, X = _counted(facts, noisy, n)
    C = effects.noise_covariance(axes)
    test = nulls.independence(X, float(X.sum()), C, facts.alike)
    a, b = (facts.layout.axes[j] for j in axes)
    names = tuple(
        f"n[{a.name}={x}, {b.name}={y}]" for x in a.labels[:-1] for y in b.labels[:-1]
    )
    return Solved(test, names, X.ravel(), np.zeros(X.size), np.sqrt(np.diag(C)))


def _solve_correlation(facts: Facts, design: Design, noisy: Array, n: int) -> Solved:
    sd = pair_noise(facts.mu)
    V = sd**2
    sums = noisy.copy()
    sums[0] = min(max(sums[0], n / 2.0), float(n))  # complete rows: at most n, rarely below half
    test = nulls.uncorrelated(sums, V, facts.alike)
    N, Sx, Sy, Sxx, Sxy, Syy = sums.tolist()
    Q = np.array([[N, Sx, Sy], [Sx, Sxx, Sxy], [Sy, Sxy, Syy]])
    s = float(sd[3])  # of the diagonal; that of the count is smaller
    rho, se = nulls.correlation(Q, s, N)
    sampling = math.sqrt((1.0 - rho * rho) ** 2 / max(N - 3.0, 1.0)) if se == se else math.nan
    privacy = math.sqrt(max(se * se - sampling * sampling, 0.0)) if se == se else math.nan
    name = f"cor({design.columns[0].name}, {design.columns[1].name})"
    return Solved(
        test, (name,), np.array([rho]), np.array([sampling]), np.array([privacy]),
    )  # fmt: skip


_SOLVERS: dict[str, Callable[[Facts, Any, Array, int], Solved]] = {
    "mean": _solve_mean,
    "groups": _solve_groups,
    "fit": _solve_fit,
    "independence": _solve_independence,
    "correlation": _solve_correlation,
}
