"""Backend of ``dp_test(method="score")``: tests from one release of noisy sums.

Which test it is follows from the formula and ``test=``; each kind is one entry: how its noisy
sums are turned into a test (``nulls.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.arrays import Array, brent
from dpmodels.core import release as core
from dpmodels.core.means import PairMoments
from dpmodels.errors import RequestError, choice, shown
from dpmodels.formula.design import Design
from dpmodels.lazy import special
from dpmodels.models.table import nulls
from dpmodels.models.table.layout import (
    COUNT,
    SQUARE,
    TOTAL,
    Axis,
    Block,
    Layout,
    Section,
    layout_of,
    program_of,
    spread_out,
    table_release,
)
from dpmodels.models.table.noise import Effects, TableNoise, table_noise
from dpmodels.models.table.people import PAIRS_SHARE, PAIRS_STEP, PairPlan, Products, may_pair
from dpmodels.models.table.table import (
    cells_of,
    cells_of_groups,
    functions_of_means,
    table_windows,
)
from dpmodels.models.window import LOOK_FIRST, Windows, as_declared, look_steps
from dpmodels.planning import SPREAD, Plan
from dpmodels.privacy.mechanisms import Gaussian, Step
from dpmodels.proof.prove import noise_of
from dpmodels.proof.statistics import Pair
from dpmodels.ranges import Split, gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.sums.ask import Ask

# -- Which test a formula calls for, and what it tests: public, checked before anything is read.


#: Values of ``test=``.
TEST_NAMES = (
    "t", "mean", "paired", "welch", "anova", "proportion", "fit", "chi2", "independence",
    "correlation",
)  # fmt: skip


def _describe(design: Design) -> tuple[list[int], list[int]]:
    """Return the numeric and the categorical variables of a formula."""
    program = program_of(design)
    terms = (*program.left, *program.right)
    crossed = [t for t in terms if len(t) == 2]
    if (
        len(crossed) == 1
        and not program.left
        and {t for t in terms if len(t) == 1} <= {(j,) for j in crossed[0]}
    ):  # "~ a * b", as in a table; "~ a + b" says the same here
        terms = tuple((j,) for j in crossed[0])
    if any(len(t) > 1 for t in terms) or len(program.left) > 1:
        raise RequestError(f'"{design.formula}": a test needs "y ~ g", "y ~ 1", "~ g" or "~ a * b"')
    places = [t[0] for t in terms]
    numbers = [j for j in places if program.sources[j].levels is None]
    return numbers, [j for j in places if j not in numbers]


def kind_of(request: Request, design: Design) -> str:
    """Return the kind of a test by the kinds of its variables, or as ``test=`` says."""
    numbers, categories = _describe(design)
    shape = (len(numbers), len(categories))
    kind = {
        (1, 0): "mean", (1, 1): "groups", (0, 1): "fit", (0, 2): "independence",
        (2, 0): "correlation",
    }.get(shape)  # fmt: skip
    left = program_of(design).left
    if (
        kind is None
        or len({*numbers, *categories}) < sum(shape)
        or (kind == "groups" and [t[0] for t in left] != numbers)
    ):
        raise RequestError(
            f'"{design.formula}" has {len(numbers)} numbers and {len(categories)} categories: a '
            'test needs "y ~ g" (means), "y ~ 1" (one mean), "~ g" (shares), "~ a * b" '
            "(independence of two categories, correlation of two numbers)"
        )
    typed = request["test"]
    if typed is None:
        return kind
    serves = {
        "mean": ("t", "mean", "paired"), "groups": ("t", "welch", "anova"),
        "fit": ("chi2", "fit", "proportion"),
        "independence": ("chi2", "independence", "proportion"),
        "correlation": ("correlation",),
    }  # fmt: skip
    if typed not in serves[kind]:
        fitting = ", ".join(map(repr, serves[kind]))
        raise RequestError(
            f'test={typed!r} does not go with "{design.formula}", whose variables call for '
            f"{fitting}. Leave test= out to have it chosen"
        )
    levels = len(program_of(design).sources[categories[0]].levels or ()) if categories else 0
    if typed in ("t", "welch", "proportion") and levels > 2:
        raise RequestError(
            f"test={typed!r} needs two groups, and {design.columns[categories[0]].name!r} has "
            f"{levels} declared levels. For more: test='anova', or test='chi2' for counts"
        )
    return kind


def null_of(request: Request, design: Design, kind: str) -> tuple[float, ...]:
    """Return the hypothesis: a mean inside the range, or shares of the levels."""
    mu0, p = request["mu0"], request["p"]
    if kind == "mean":
        if p is not None:
            raise RequestError("p= gives shares of levels; the hypothesis of a mean is mu0=")
        value = float(mu0 or 0.0)
        interval = design.columns[0].interval
        if interval is not None and not interval[0] < value < interval[1]:
            raise RequestError(
                f"mu0={value:g} is not inside the range [{interval[0]:g}, {interval[1]:g}] of "
                f"{design.columns[0].name!r}: no mean of clipped values could be that"
            )
        return (value,)
    if mu0 is not None:
        raise RequestError('mu0= is the hypothesis of one mean: "y ~ 1"')
    if kind != "fit":
        if p is not None:
            raise RequestError('p= is the hypothesis of one category: "~ g"')
        return ()
    levels = program_of(design).sources[0].levels or ()
    if p is None:
        return (1.0 / len(levels),) * len(levels)
    if isinstance(p, (int, float)) and not isinstance(p, bool) and len(levels) == 2:
        p = (1.0 - p, p)  # of the second level, as everywhere
    if isinstance(p, Mapping):
        unknown = [k for k in p if k not in levels]
        if unknown or len(p) != len(levels):
            raise RequestError(f"p= must give a share to each of {list(levels)!r}")
        p = [p[level] for level in levels]
    shares = [float(v) for v in p] if isinstance(p, (list, tuple, np.ndarray)) else []
    if len(shares) != len(levels) or min(shares) <= 0 or abs(math.fsum(shares) - 1.0) > 1e-9:
        raise RequestError(
            f"p={shown(request['p'])}: {len(levels)} positive shares that add up to 1 are needed, "
            f"one for each of {list(levels)!r}"
        )
    return tuple(shares)


def check_name(test: Any) -> Any:
    """Return a known name of a test, None, or a function. Refuse anything else."""
    if test is None or callable(test):
        return test
    meant = {"ttest": "t", "t.test": "t", "t-test": "t", "student": "t", "chisq": "chi2",
             "f": "anova", "chi-squared": "chi2", "pearson": "correlation"}  # fmt: skip
    near = meant.get(str(test).lower())
    return choice("test", test, TEST_NAMES, more=f" Did you mean {near!r}?" if near else "")


# -- What a test by sums is made from: its kind, layout and noise, decided from public facts


@dataclass(frozen=True)
class Facts:
    """Public facts of a test."""

    kind: str  # "mean", "groups", "fit", "independence" or "correlation"
    layout: Layout | None  # None for a correlation
    noise: TableNoise | None
    mu: float  # mu of the release
    null: tuple[float, ...] = ()  # Hypothesised mean, in the user's units; or shares
    copies: int = 1  # Rows of a person that are kept, at most: factor on the sampling variance
    pairs: PairPlan | None = None  # The products of people
    look: Sequence[Step] = ()  # Before the sums, at numbers of wide ranges
    windows: Windows | None = None  # Released; None: declared ranges, for the power of a plan


# -- Power of a test before a row is read: the test of the expected sums (``theory.md``, 3.5).
#
# Under the alternative the statistic is about noncentral chi-squared; its noncentrality is the
# statistic itself at the expected sums, since the noise is part of the variance there too.


Solver = Callable[[Any, Any, Array, int], Any]


def expected_sums(request: Request, design: Design, facts: Facts, n: int, effect: float) -> Array:
    """Return the expected noiseless sums under an effect.

    effect: the difference of a mean from ``mu0``, or between the two extreme groups (equally
    spaced); the sd of the shares about the null in its units (Cohen's w: shares moved along
    one contrast); a correlation.
    """
    if facts.kind == "correlation":
        v = SPREAD**2
        return n * np.array([1.0, 0.0, 0.0, v, effect * v, v])
    assert facts.layout is not None
    if facts.kind not in ("fit", "independence"):
        return _expected_means(request, design, facts, n, effect)
    shape = [facts.layout.axes[j].size for j in facts.layout.blocks[0].axes]
    null = np.full([k - 1 for k in shape], 1.0 / math.prod(k - 1 for k in shape))
    step, out = np.zeros(null.shape), np.zeros(shape)
    if facts.kind == "fit":
        null[:] = facts.null
        step[0], step[-1] = 1.0, -1.0
    else:
        step[0, 0] = step[-1, -1] = 1.0
        step[0, -1] = step[-1, 0] = -1.0
    step /= math.sqrt(float((step**2 / null).sum()))
    out[tuple(slice(0, -1) for _ in shape)] = n * (null + effect * step)
    return out.ravel()


def _expected_means(request: Request, design: Design, facts: Facts, n: int, effect: float) -> Array:
    """Return the cells that a test of means expects at an effect, for its power."""
    assert facts.layout is not None
    (block,) = facts.layout.blocks
    interval = design.columns[block.number].interval
    assert interval is not None
    half, centre = 0.5 * (interval[1] - interval[0]), 0.5 * (interval[1] + interval[0])
    sd = float(request["sd"] or SPREAD * half) / half
    groups = [facts.layout.axes[j].size for j in facts.layout.group(block)]
    k = groups[0] - 1 if groups else 1
    shares, typed = np.full(k, 1.0 / k), request["shares"]
    if groups and typed is not None:
        shares = np.array(typed, dtype=float) if isinstance(typed, (list, tuple)) else np.zeros(0)
        if shares.size != k or not (shares > 0).all() or abs(shares.sum() - 1.0) > 1e-9:
            raise RequestError(f"shares= must be {k} positive shares, one per group, with sum 1")
    if facts.kind == "mean":
        means = np.array([(facts.null[0] + effect - centre) / half])
    else:
        means = np.linspace(0.0, effect / half, k) if k > 1 else np.zeros(1)
        means = means - float(shares @ means)
    N = n * shares
    cells = np.zeros((4, *groups)) if groups else np.zeros((4, 1))
    cells[:3, :k] = spread_out(N, N * means, N * (sd**2 + means**2))
    first = block.axes[0] == facts.layout.number_axis(block.number)
    return np.asarray(cells if first else cells.T).ravel()


def power_of(
    request: Request, design: Design, facts: Facts, n: int, solve: Solver
) -> dict[str, float]:
    """Return the power at ``effect=``, and the least effect with power .8: facts of a plan."""
    alpha = 1.0 - request.level
    out = {}

    def power(effect: float) -> float:
        test = solve(facts, design, expected_sums(request, design, facts, n, effect), n).test
        return 1.0 - float(special.chndtr(special.chdtri(test.df, alpha), test.df, test.statistic))

    if request["effect"] is not None:
        effect = float(request["effect"])
        out[f"power against an effect of {effect:g} at level {alpha:.3g}"] = power(effect)

    def short(effect: float) -> float:
        value = power(effect) - 0.8
        return value if value == value else -0.8  # a value that is none counts as below

    if facts.kind == "correlation":  # the largest effect that is looked at
        top = 0.99
    elif facts.kind in ("fit", "independence"):
        top = 0.9 * min(facts.null, default=0.5)
    else:
        assert facts.layout is not None
        interval = design.columns[facts.layout.blocks[0].number].interval
        assert interval is not None
        mean = facts.kind == "mean"
        top = interval[1] - facts.null[0] if mean else 0.5 * (interval[1] - interval[0])
    if short(top) < 0.0:
        out["least effect with power .8 (none up to here)"] = top
    else:
        least = 0.0 if short(0.0) >= 0.0 else brent(short, 0.0, top, xtol=top * 2.0**-24)
        out["least effect with power .8"] = least
    return out


# -- Backend of ``dp_test(method="score")``: tests from one release of noisy sums.


_SUMS_STEP = "sums of the test"


@dataclass(frozen=True)
class Solved:
    """Test with its estimate of the size of the effect."""

    test: nulls.Null
    names: tuple[str, ...]
    params: Array
    sampling: Array
    privacy: Array
    unseen: tuple[str, ...] = ()  # Levels that are not in the test
    bias: Array | None = None  # Bounds on what values beyond windows add to ``params``


def _layout_of(request: Request, design: Design) -> Layout:
    """Return the layout of the table of a test."""
    # rows outside ``subset=`` are missing here: n is exact, and no test counts what is missing
    layout = replace(layout_of(design), unused=False)
    if kind_of(request, design) == "independence":  # the cells alone
        layout = replace(layout, blocks=(Block((0, 1)),))
    return layout


def facts_of(request: Request, design: Design, mu: float, mu_pairs: float = 0.0) -> Facts:
    """Return the public facts of a test: its kind, layout and noise."""
    kind = kind_of(request, design)
    null = null_of(request, design, kind)
    if kind == "correlation":
        return Facts(kind, None, None, mu, null, request.copies)
    layout = _layout_of(request, design)
    noise, _ = table_noise(layout, "gaussian", mu, 0.0)
    pairs = PairPlan.of(layout, "gaussian", mu_pairs) if mu_pairs else None
    return Facts(kind, layout, noise, mu, null, request.copies, pairs)


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan a test: one Gaussian release of its sums; its power. Reads no row."""
    paired, of_mean = 0.0, kind_of(request, design) != "correlation"
    if request.by_person and of_mean:
        paired = PAIRS_SHARE if may_pair(_layout_of(request, design)) else 0.0
    # windows for means have too much noise, or too much beyond them, for products of two numbers
    part = gaussian_part(request, design.unknown)
    look = look_steps(request, design, part, n) if of_mean else []
    left = 1.0 - math.fsum(step.share or 0.0 for step in look)
    shares = {"sums": (_SUMS_STEP, left - left * paired), "products": (PAIRS_STEP, left * paired)}
    split = Split(request, design, shares, first=look)
    facts = facts_of(request, design, split.mu["sums"], split.mu.get("products", 0.0))
    facts = replace(facts, look=look)
    if facts.layout is None and request.unit is not None and request.by_person:
        raise RequestError(
            "the test of a correlation has no form for people: a regression has, "
            f'dp_ols("y ~ x", data, unit={request.unit.column!r}); or keep one row per '
            "person, max_rows=1 (max_rows=m pays for m, and allows for m correlated rows)"
        )
    if facts.noise is None:
        sd = float(pair_noise(facts.mu)[1])
    else:
        sd = float(facts.noise.scales[0]) * (2.0**0.5 if facts.kind in ("mean", "groups") else 1.0)
    scales = {"noise sd of a sum": sd}
    if not design.unknown:
        scales |= power_of(request, design, facts, n, solve)
    axes = () if facts.layout is None else facts.layout.axes
    cells = math.prod(a.size - 1 for a in axes if a.kind == "level")
    counted, advice = "people" if request.by_person else "rows", []
    if facts.layout is not None and cells > n:
        advice = [f"{cells:,} declared groups for {n:,} {counted}: the noise is all there is"]
    return split.plan(
        n, scales=scales, detail=facts, advice=tuple(advice),
        passes=1 + len(look) + bool(design.unknown),
        reasons=(*request.reasons, *(LOOK_FIRST,) * bool(look)),
    )  # fmt: skip


def pair_noise(mu: float) -> Array:
    """Return the noise sds of (N, Sx, Sy, Sxx, Sxy, Syy) of a correlation."""
    return noise_of(Pair(), Gaussian(mu), "replace")


@with_ranges
def release(plan: Plan[Facts], ask: Ask, design: Design) -> Release:
    """Release the noisy sums of a test.

    **Privacy.** Unit: one row; replace-one, n public. A row with a missing cell is in the cell
    "(missing)", or missing. Or one person, who adds the mean of its rows (``units.md``, 11).
    """
    facts = plan.detail
    if facts.layout is None or facts.noise is None:
        windows = as_declared(design)
        to_unit, shift = 1.0 / windows.half, -windows.centre / windows.half
        sums = core.Release(_SUMS_STEP, PairMoments(), lambda z: z * to_unit + shift, design)
    else:
        windows = table_windows(
            facts.look, facts.layout, facts.noise, design, plan.public_n, ask
        )
        scale = windows.centre, windows.half
        sums = table_release(_SUMS_STEP, facts.layout, facts.noise.shares, design, scale=scale)
    values = {"sums": core.answered(sums, ask).values}
    if facts.pairs is not None:
        values["products"] = facts.pairs.release(ask, design, scale)
    return Release(values, plan.guarantee, design, detail=windows)


def estimate(plan: Plan[Facts], release: Release) -> Estimate:
    """Return the test, and the estimate of the effect."""
    facts = plan.detail
    if not release.reply:
        return Estimate.silent(("test",))
    design = release.design
    products = None if facts.pairs is None else facts.pairs.read(release.values["products"])
    windows: Windows = release.detail
    facts = replace(facts, windows=windows)
    solved = solve(facts, design, release.values["sums"], plan.public_n, products)
    test, notes = solved.test, _TEST_NOTES[facts.kind]
    if solved.unseen:
        notes = (*notes, messages.UNSEEN_LEVELS(levels=", ".join(solved.unseen)))
    return Estimate(
        solved.names, solved.params, vcov_sampling=np.diag(solved.sampling**2),
        vcov_privacy=np.diag(solved.privacy**2),
        bias=solved.bias if windows.hidden else None,
        stats={"statistic": test.statistic, "df": float(test.df), "p_value": test.p_value},
        notes=(
            *notes, *(messages.TEST_PEOPLE(),) * plan.request.by_person,
            *windows.note(design, plan.request.delta),
        ),
    )  # fmt: skip


_TEST_NOTES = {
    "mean": (messages.HYPOTHESIS(text="the mean is mu0", more=""), messages.CHI_SQUARED()),
    "groups": (
        messages.HYPOTHESIS(
            text="the groups have one mean", more="Their variances may differ (no pooling)."
        ),
        messages.CHI_SQUARED(),
        messages.SELECTED_GROUPS(),
    ),
    "fit": (messages.HYPOTHESIS(text="the shares are p", more=""), messages.CHI_SQUARED()),
    "independence": (
        messages.HYPOTHESIS(text="the two variables are independent", more=""),
        messages.CHI_SQUARED(),
    ),
    "correlation": (
        messages.HYPOTHESIS(text="the two variables are independent", more=""),
        messages.CHI_SQUARED(),
        messages.INDEPENDENCE_EXACT(),
    ),
}


def solve(
    facts: Facts, design: Design, noisy: Array, n: int, products: Products | None = None
) -> Solved:
    """Turn noisy sums into a test, and released products of people. Post-processing."""
    return _SOLVERS[facts.kind](facts, design, noisy, n, _People(products, facts.copies))


@dataclass(frozen=True)
class _People:
    """Factors of the sampling variances of rows drawn one by one."""

    products: Products | None
    copies: int

    def test(self, L: Array, V: Array) -> float:
        """Return the factor of a test of L times the shown cells, of covariance V for rows."""
        if self.products is None:
            return float(self.copies)
        return self.products.test_effect(0, self._cells(L), V)

    def errors(self, L: Array, bounds: Array) -> Array:
        """Return the factor of each row of L, whose variances for rows are ``bounds``."""
        if self.products is None:
            return np.ones(len(bounds))
        return self.products.effects(0, self._cells(L), bounds)

    def _cells(self, L: Array) -> Array:
        """Return functions of the cells that are shown as functions of all cells of the table."""
        assert self.products is not None
        layout = self.products.layout
        (block,) = layout.blocks
        axes = tuple(j for j in block.axes if layout.axes[j].kind != "number")
        return L @ cells_of(self.products, 0, axes, block.number)


@dataclass(frozen=True)
class _Moments:
    """Released counts, sums and sums of squares by group, with the variances of their noise."""

    N: Array  # Counts
    T: Array  # Sums of t, the numeric variable in half ranges from the middle of its range
    Q: Array  # Sums of t^2
    tau2: float  # Noise variance of a sum
    C: Array  # Noise covariance of the counts
    centre: float  # Middle of the window, in the user's units
    half: float  # Half width, in the user's units
    bias: Array  # Bounds on what values beyond the window add to the means, in half widths


def _moments(facts: Facts, design: Design, noisy: Array, n: int) -> _Moments:
    """Return the counts, sums and sums of squares of the groups, with their noise variances."""
    layout, noise = facts.layout, facts.noise
    assert layout is not None and noise is not None
    (block,) = layout.blocks
    effects = noise.measured(layout, noisy, float(n))
    place = block.axes.index(layout.number_axis(block.number))
    section = Section("means", layout.group(block), block.number)
    cells, K = cells_of_groups(layout, effects, section)
    # the covariance leaves out the last cell of every axis, which is the missing one for a numeric
    # variable
    sizes = [layout.axes[j].size - 1 for j in block.axes]
    covariance = effects.noise_covariance(block.axes).reshape(*sizes, *sizes)
    C = covariance.sum(axis=(place, place + len(sizes)))
    C = C.reshape(len(cells), len(cells))
    N, T, Q = (cells @ w for w in (COUNT, TOTAL, SQUARE))
    tau2, safe = float(TOTAL @ K @ TOTAL), np.maximum(N, 1.0)
    windows = facts.windows or as_declared(design)
    bias, _ = windows.beyond(block.number, safe, np.clip(Q / safe, math.sqrt(tau2) / safe, 1.0))
    centre, half = (float(ends[block.number]) for ends in (windows.centre, windows.half))
    return _Moments(N, T, Q, tau2, C, centre, half, bias)


def _mean_of(m: _Moments, people: _People) -> tuple[Array, Array, Array]:
    """Return means, sampling and privacy errors, in the user's units; NaN for tiny groups."""
    tau_n = np.sqrt(np.diag(m.C))
    large = 3.0 * tau_n < m.N
    safe = np.where(large, m.N, np.nan)
    mean = np.clip(m.T / safe, -1.0, 1.0)
    v = np.clip(m.Q / safe - mean**2, np.minimum(math.sqrt(m.tau2) / safe, 1.0), 1.0)
    privacy = np.sqrt(m.tau2 + mean**2 * np.diag(m.C)) / safe
    factor = people.errors(functions_of_means(np.nan_to_num(mean)), np.nan_to_num(v * safe))
    sampling = m.half * np.sqrt(factor * v / safe)
    return m.centre + m.half * mean, sampling, m.half * privacy


def _solve_mean(facts: Facts, design: Design, noisy: Array, n: int, people: _People) -> Solved:
    """Test whether the mean of a numeric variable equals its null value, from released sums."""
    m = _moments(facts, design, noisy, n)
    mu0 = (facts.null[0] - m.centre) / m.half
    sums = float(m.N[0]), float(m.T[0]), float(m.Q[0])
    D = nulls.spread_about(m.N, m.T, m.Q, mu0)
    factor = people.test(functions_of_means(np.array([mu0])), np.diag(D))
    moved = float(m.bias[0]) * max(sums[0], 1.0)
    test = nulls.one_mean(*sums, mu0, (m.tau2, float(m.C[0, 0])), factor, moved)
    name = f"mean({design.columns[0].name})"
    return Solved(test, (name,), *_mean_of(m, people), bias=m.half * m.bias)


def _solve_groups(facts: Facts, design: Design, noisy: Array, n: int, people: _People) -> Solved:
    """Test the equality of the means of groups."""
    assert facts.layout is not None
    m = _moments(facts, design, noisy, n)
    keep = nulls.clear_levels(m.N, np.sqrt(np.diag(m.C)))
    N, T, Q = m.N[keep], m.T[keep], m.Q[keep]
    common, Pm, D = nulls.groups_of(N, T, Q)
    H = nulls.contrasts(np.ones(len(N))) @ Pm
    L = functions_of_means(np.full(len(keep), common))[keep]
    factor = people.test(H @ L, H @ np.diag(D) @ H.T)
    moved = m.bias[keep] * np.maximum(N, 1.0)
    test = nulls.groups(N, T, Q, m.tau2, m.C[np.ix_(keep, keep)], factor, moved)
    axis = next(a for a in facts.layout.axes if a.kind == "level")
    number = next(a.name for a in facts.layout.axes if a.kind == "number")
    names = [f"mean({number})[{axis.name}={label}]" for label in axis.labels[:-1]]
    (params, sampling, privacy), bias = _mean_of(m, people), m.half * m.bias
    if len(names) == 2:
        names.append(f"difference: {axis.labels[1]} - {axis.labels[0]}")
        params = np.append(params, params[1] - params[0])
        apart = math.hypot(*sampling)
        if people.products is not None:  # the groups share people
            apart = math.sqrt(factor) * math.hypot(*_mean_of(m, _People(None, 1))[1])
        sampling = np.append(sampling, apart)
        privacy, bias = np.append(privacy, math.hypot(*privacy)), np.append(bias, bias.sum())
    return Solved(test, tuple(names), params, sampling, privacy, _unseen(axis, keep), bias)


def _unseen(axis: Axis, keep: Any) -> tuple[str, ...]:
    """Return the levels of an axis that are not in a test, as they are printed."""
    return tuple(
        f"{axis.name}={label}" for label, k in zip(axis.labels[:-1], keep, strict=True) if not k
    )


def _count_effects(facts: Facts, noisy: Array, n: int) -> tuple[Effects, tuple[int, ...], Array]:
    """Return the consistent counts of a table without its missing cells."""
    layout, noise = facts.layout, facts.noise
    assert layout is not None and noise is not None
    (block,) = layout.blocks
    effects = noise.measured(layout, noisy, float(n))
    inner = tuple(slice(0, -1) for _ in block.axes)
    return effects, block.axes, effects.table(block.axes)[inner]


def _solve_fit(facts: Facts, design: Design, noisy: Array, n: int, people: _People) -> Solved:
    """Test the shares of levels against their null values."""
    assert facts.layout is not None
    effects, axes, X = _count_effects(facts, noisy, n)
    p0 = np.array(facts.null)
    total = max(float(X.sum()), 1.0)
    C = effects.noise_covariance(axes)
    off = np.eye(len(X)) - np.outer(p0, np.ones(len(X)))
    H = nulls.contrasts(np.ones(len(X)))
    factor = people.test(H @ off, total * H @ (np.diag(p0) - np.outer(p0, p0)) @ H.T)
    test = nulls.fit(X, total, p0, off @ C @ off.T, factor)
    axis = facts.layout.axes[0]
    share = np.clip(X / total, 0.0, 1.0)
    turn = (np.eye(len(X)) - np.outer(share, np.ones(len(X)))) / total
    names = tuple(f"share[{axis.name}={label}]" for label in axis.labels[:-1])
    variance = share * (1.0 - share)
    factors = people.errors(total * turn, total * variance)
    sampling = np.sqrt(factors * variance / total)
    return Solved(test, names, X / total, sampling, np.sqrt(np.diag(turn @ C @ turn.T)))


def _solve_independence(
    facts: Facts, design: Design, noisy: Array, n: int, people: _People
) -> Solved:
    """Test the independence of two categories."""
    assert facts.layout is not None
    effects, axes, X = _count_effects(facts, noisy, n)
    C = effects.noise_covariance(axes)
    in_rows, in_columns = nulls.clear_cells(X, C)
    keep = np.flatnonzero(np.outer(in_rows, in_columns))
    counts = X.ravel()[keep].reshape(int(in_rows.sum()), -1)
    K, V = nulls.independence_of(counts, max(float(counts.sum()), 1.0))
    factor = people.test(K @ np.eye(X.size)[keep], V)
    test = nulls.independence(counts, float(counts.sum()), C[np.ix_(keep, keep)], factor)
    a, b = (facts.layout.axes[j] for j in axes)
    names = tuple(f"n[{a.name}={x}, {b.name}={y}]" for x in a.labels[:-1] for y in b.labels[:-1])
    unseen = (*_unseen(a, in_rows), *_unseen(b, in_columns))
    return Solved(test, names, X.ravel(), np.zeros(X.size), np.sqrt(np.diag(C)), unseen)


def _solve_correlation(
    facts: Facts, design: Design, noisy: Array, n: int, people: _People
) -> Solved:
    """Test the correlation of two numeric variables against 0, and estimate it with its errors."""
    sd = pair_noise(facts.mu)
    V = sd**2
    sums = noisy.copy()
    sums[0] = min(max(sums[0], n / 2.0), float(n))  # complete rows: at most n, rarely below half
    test = nulls.uncorrelated(sums, V, facts.copies)
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


_SOLVERS: dict[str, Callable[[Facts, Any, Array, int, _People], Solved]] = {
    "mean": _solve_mean,
    "groups": _solve_groups,
    "fit": _solve_fit,
    "independence": _solve_independence,
    "correlation": _solve_correlation,
}


TESTS_BACKEND = Backend(plan, release, estimate, people=True)
