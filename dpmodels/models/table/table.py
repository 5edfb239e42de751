"""Backend of ``dp_table``: counts, means by group and quantiles from one pass, one joint release.

``layout.py`` says what is released, ``noise.py`` with which noise, and ``core/tables.py`` counts
it; ``theory.md`` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels import messages
from dpmodels.after.inference import critical_value
from dpmodels.arrays import Array
from dpmodels.core.release import answered
from dpmodels.errors import RequestError, did_you_mean, shown
from dpmodels.formula.design import Design
from dpmodels.models.table.layout import (
    COUNT,
    SQUARE,
    TOTAL,
    Axis,
    Layout,
    Section,
    layout_of,
    program_of,
    table_release,
)
from dpmodels.models.table.noise import (
    Effects,
    Spread,
    TableNoise,
    critical,
    fieller,
    share_interval,
    table_noise,
)
from dpmodels.models.table.nulls import contrasts, independence_of
from dpmodels.models.table.people import PAIRS_SHARE, PairPlan, Products, may_pair
from dpmodels.models.table.quantiles import (
    QuantilePart,
    probabilities,
    quantile_part,
    release_quantiles,
)
from dpmodels.models.window import LOOK_FIRST, LOOKS, Windows, look_steps, released_windows
from dpmodels.notes import Note
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian, Pure, Step
from dpmodels.ranges import Part, gaussian_part, with_ranges
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Backend
from dpmodels.sums.ask import Ask

# -- From noisy counts and sums to what a table shows. Post-processing (``theory.md``, 1.3 to 1.6).


#: Columns stored for every item of a table.
COLUMNS = (
    "estimate", "se_sampling", "se_privacy", "low", "high",
    "share", "share_se", "share_low", "share_high", "missing", "missing_se",
)  # fmt: skip
#: Kurtosis of normal values.
_NORMAL_KURTOSIS = 3.0
#: A group is too small to divide by below this many sds of its count's noise.
_SMALL = 3.0


@dataclass(frozen=True)
class _Context:
    """Everything released and public that the sections are made of."""

    layout: Layout
    effects: Effects
    centre: Array
    half: Array
    level: float
    copies: int = 1
    products: Products | None = None
    windows: Windows | None = None  # To which numbers are clipped; None: to their ranges

    def people(self, section: Section, L: Array, bounds: Array) -> Array:
        """Return the design effect of people for each row of L; 1 for rows.

        The rows are functions of the cells of the section, those of its number included;
        ``bounds``: the sum of their squares over rows.
        """
        block = None if self.products is None else self.products.block_of(section)
        if self.products is None or block is None:
            return np.ones(len(bounds))
        of_number = section.number >= 0
        inside = cells_of(self.products, block, section.axes, section.number, shown=of_number)
        return self.products.effects(block, L @ inside, bounds)

    @property
    def z(self) -> float:
        """Two-sided normal quantile."""
        return critical(Spread(1.0), self.level)

    @property
    def used(self) -> float:
        """Units that count: all n, or the released number of those in ``subset=``."""
        return max(float(self.effects.effect(())), 1.0)


def shown_numbers(
    layout: Layout, noise: TableNoise, released: Mapping[str, Array], scale: tuple[Array, Array],
    n: int, *, level: float, suppress: float | None, points: Mapping[int, Array] | None,
    people: bool = False, copies: int = 1, products: Products | None = None,
    rank_scale: Callable[[Section, float], float] | None = None, windows: Windows | None = None,
) -> tuple[dict[str, Array], tuple[Note, ...]]:  # fmt: skip
    """Return :data:`COLUMNS` of all items, in the order of ``Layout.items``, and the notes.

    ``released`` holds "table" and the grid indices of quantiles by step, ``scale`` middles and
    half-ranges (q,), ``points`` the grid of each numeric variable with quantiles, ``rank_scale``
    the scale of the error of a rank. With ``people`` each person adds the mean of their rows.
    ``copies``: number of rows that may depend on each other in any way.
    """
    effects = noise.measured(layout, released["table"], float(n))
    context = _Context(layout, effects, *scale, level, copies, products, windows)
    parts, tests = [], []
    for section in layout.sections:
        if section.kind == "counts":
            part, size = _counts(context, section)
        elif section.kind == "means":
            part, size = _means(context, section)
        else:
            assert points is not None
            part, size = _chosen_quantiles(
                context, section, released, points[section.number], rank_scale
            )
        if suppress is not None:
            part[:, size < suppress] = np.nan
        parts.append(part)
        tests.append(np.full(part.shape[1], _test_effect(context, section)))
    arrays = dict(zip(COLUMNS, np.concatenate(parts, axis=1), strict=True))
    if people:
        arrays["test_effect"] = np.concatenate(tests)
    return arrays, _notes(layout, suppress, people)


def _test_effect(c: _Context, section: Section) -> float:
    """Return the design effect of people in the test of a section.

    Of two categories: independence; of a number by group: equal means, over the errors of each.
    """
    block = None if c.products is None else c.products.block_of(section)
    if c.products is None or block is None or section.kind == "quantiles":
        return 1.0
    inside = cells_of(c.products, block, section.axes, section.number)
    if section.kind == "means":
        cells, _ = cells_of_groups(c.layout, c.effects, section)
        N, T, Q = (cells @ w for w in (COUNT, TOTAL, SQUARE))
        if len(N) < 2 or not (N > 1.0).all():
            return 1.0
        m = np.clip(T / N, -1.0, 1.0)
        v = np.clip(Q / N - m * m, 1e-12, 1.0)
        L = functions_of_means(m) / N[:, None] @ inside
        each = c.products.effects(block, L, v / N)
        H = contrasts(np.ones(len(N)))
        V = H @ np.diag(v * each / N) @ H.T
        return c.products.test_effect(block, H @ L, V)
    if len(section.axes) != 2:
        return 1.0
    X = c.effects.table(section.axes)[:-1, :-1]
    if not ((X.sum(axis=0) > 1.0).all() and (X.sum(axis=1) > 1.0).all()):
        return 1.0
    K, V = independence_of(X, max(float(X.sum()), 1.0))
    return c.products.test_effect(block, K @ inside, V)


def cells_of(
    products: Products, block: int, axes: tuple[int, ...], number: int, *, shown: bool = True
) -> Array:
    """Return which cells of a block are in each cell of axes, those of a number fastest.

    ``shown``: in the cells of no missing level alone.
    """
    sizes, every = [a.size for a in products.layout.axes], axes
    if number >= 0:
        every = tuple(sorted((*axes, products.layout.number_axis(number))))
    inside = products.indicators(block, every).reshape(*(sizes[j] for j in every), -1)
    if number >= 0:
        axis = every.index(products.layout.number_axis(number))
        inside = np.moveaxis(inside, axis, len(axes))
    if shown:
        inside = inside[(slice(0, -1),) * len(axes)]
    return inside.reshape(-1, inside.shape[-1])


def functions_of_means(m: Array) -> Array:
    """Return functions of the cells of a number in k groups, (k, 4 k): ``T_g - m_g N_g``."""
    L = np.zeros((len(m), len(m), 4))
    at = np.arange(len(m))
    L[at, at] = TOTAL - m[:, None] * COUNT
    return L.reshape(len(m), -1)


def _notes(layout: Layout, suppress: float | None, people: bool) -> tuple[Note, ...]:
    """Return the notes on the items of a table."""
    kinds = {s.kind for s in layout.sections}
    notes = [messages.TABLE_TARGET(), messages.CONSISTENT_COUNTS()]
    if people:
        notes.append(messages.TABLE_PEOPLE())
    if "means" in kinds:
        notes.append(messages.FIELLER(sds=_SMALL))
    if "quantiles" in kinds:
        notes.append(messages.TABLE_QUANTILES())
    if suppress is not None:
        notes.append(messages.SUPPRESSED(least=suppress))
    return tuple(notes)


def _counts(c: _Context, section: Section) -> tuple[Array, Array]:
    """Return counts with the interval of the noise, and shares with Wilson's interval.

    There is no share where what counts is not clear of its noise.
    """
    count = c.effects.table(section.axes).ravel()
    spread = c.effects.spread(section.axes)
    out = np.full((len(COLUMNS), count.size), np.nan)
    half = critical(spread, c.level)
    n, of_total = c.used, c.effects.variance(())
    share = count / n
    p = np.clip(share, 0.0, 1.0)
    with_total = c.effects.covariance(section.axes, ())
    tau = np.sqrt(np.maximum(spread.variance - 2.0 * p * with_total + p * p * of_total, 0.0)) / n
    copies = c.copies * c.people(section, np.eye(p.size) - p[:, None], n * p * (1 - p))
    typical = float(copies.mean())
    # the law of the error of a share is that of noise and sampling together
    if spread.scale > 0:
        grid = np.linspace(0.0, 1.0, 33)
        ratio = [
            critical(spread, c.level, typical * n * g * (1 - g))
            / math.sqrt(max(spread.variance + typical * n * g * (1 - g), 1e-300))
            for g in grid.tolist()
        ]
        z = np.interp(p, grid, ratio)
    else:
        z = np.full(p.shape, c.z)
    low, high = share_interval(share, n / copies, tau, z)
    out[0], out[1], out[2] = count, 0.0, math.sqrt(spread.variance)
    out[3], out[4] = count - half, count + half
    se = np.sqrt(copies * p * (1 - p) / n + tau**2)
    if n >= _SMALL * math.sqrt(of_total):
        out[5], out[6], out[7], out[8] = share, se, low, high
    return out, count


def _means(c: _Context, section: Section) -> tuple[Array, Array]:
    """Return n, mean and sd of every group, from the cells (low, middle, high) of its number."""
    cells, K = cells_of_groups(c.layout, c.effects, section)
    N, T, Q = (cells @ w for w in (COUNT, TOTAL, SQUARE))
    tau_n, tau_t = (math.sqrt(float(w @ K @ w)) for w in (COUNT, TOTAL))
    h, middle = float(c.half[section.number]), float(c.centre[section.number])
    safe = np.maximum(N, 1.0)
    m = np.clip(T / safe, -1.0, 1.0)
    v = Q / safe - m * m
    # dv = (SQUARE - 2 m TOTAL - (v - m^2) COUNT)' d cells / N
    slope = SQUARE - 2.0 * m[:, None] * TOTAL - (v - m * m)[:, None] * COUNT
    noise_v = np.sqrt(np.einsum("gi,ij,gj->g", slope, K, slope)) / safe
    spread_v = np.clip(v, np.minimum(noise_v, 1.0), 1.0)
    large = _SMALL * tau_n <= N
    copies = c.copies * c.people(section, functions_of_means(m), safe * spread_v)
    sampling = np.sqrt(copies * spread_v / safe)
    privacy = np.sqrt(tau_t**2 + m * m * tau_n**2) / safe  # T and N are uncorrelated
    bias, squares = np.zeros_like(m), np.zeros_like(m)
    if c.windows is not None:
        bias, squares = c.windows.beyond(section.number, safe, np.maximum(Q / safe, spread_v))
    z: Any = c.z
    if bias.any():
        z = critical_value(bias / np.hypot(sampling, privacy), c.level)
    low, high = fieller(
        T, N, np.stack([tau_t**2 + copies * safe * spread_v, np.full(m.shape, tau_n**2)]), z
    )
    low, high = np.where(np.isnan(low), -1.0, low), np.where(np.isnan(high), 1.0, high)
    out = np.full((len(COLUMNS), 3, m.size), np.nan)
    wide = critical(Spread(tau_n**2), c.level)
    out[:5, 0] = N, np.zeros(m.size), np.full(m.size, tau_n), N - wide, N + wide
    out[9, 0], out[10, 0] = cells[:, -1], math.sqrt(float(K[-1, -1]))
    blank = np.where(large, 1.0, np.nan)
    out[:5, 1] = (
        (middle + h * m) * blank, h * sampling * blank, h * privacy * blank,
        middle + h * np.clip(low, -1.0, 1.0), middle + h * np.clip(high, -1.0, 1.0),
    )  # fmt: skip
    # sd: NaN where the variance is not above twice its noise. Its error is that of values with the
    # kurtosis of the released histogram, with two of its noise sds, else with that of normal ones.
    # Its interval holds for any values in the range without a histogram: the fourth moment over v
    # is at most (1 + |m|)^2.
    with np.errstate(all="ignore"):
        sd = np.sqrt(np.where(large & (v > 2.0 * noise_v), v, np.nan))
        kurtosis, most = _kurtosis(c, section, m, v), (1.0 + np.abs(m)) ** 2
        errors = [
            np.sqrt(np.maximum(np.minimum(most, k * v) - sd * sd, 0.0) * c.copies / (4.0 * safe))
            for k in (np.where(np.isfinite(kurtosis), kurtosis, _NORMAL_KURTOSIS), kurtosis)
        ]
        sampling, privacy = errors[0], noise_v / (2.0 * sd)
    half = c.z * np.hypot(errors[1], privacy)
    top = np.sqrt((sd + half) ** 2 + squares)
    out[:5, 2] = np.stack([sd, sampling, privacy, np.maximum(sd - half, 0.0), top]) * h
    return out.transpose(0, 2, 1).reshape(len(COLUMNS), -1), np.repeat(N, 3)


def _kurtosis(c: _Context, section: Section, m: Array, v: Array) -> Array:
    """Return the kurtosis of every group by the released histogram; infinite without one.

    Values are taken as even within a bin. A bin wider than the sd says nothing of it.
    """
    nothing = np.full(m.shape, np.inf)
    number = c.layout.number_axis(section.number)
    column = c.layout.axes[number].column
    bins = [j for j, a in enumerate(c.layout.axes) if a.kind == "bin" and a.column == column]
    axes = (*section.axes, *bins)
    if not bins or not any(set(axes) <= set(b.axes) for b in c.layout.blocks):
        return nothing
    inner = tuple(slice(0, -1) for _ in axes)
    width = 2.0 / (c.layout.axes[bins[0]].size - 1)
    middles = np.arange(-1.0 + 0.5 * width, 1.0, width)
    count = c.effects.table(axes)[inner].reshape(-1, len(middles))
    square = (middles - m[:, None]) ** 2
    second, fourth = square + width**2 / 12.0, square**2 + square * width**2 / 2.0 + width**4 / 80.0
    with np.errstate(all="ignore"):
        N, V = count.sum(axis=1), (count * second).sum(axis=1)
        kurtosis = N * (count * fourth).sum(axis=1) / V**2
        # what a count moves it by
        slope = (kurtosis / N)[:, None] + (N / V**2)[:, None] * fourth
        slope -= (2.0 * kurtosis / V)[:, None] * second
        kurtosis = kurtosis + 2.0 * np.sqrt(c.effects.variance(axes) * (slope**2).sum(axis=1))
        determined = (V > 0.0) & (N > 0.0) & (width**2 < v)
    return np.where(determined & np.isfinite(kurtosis), np.maximum(kurtosis, 1.0), np.inf)


def cells_of_groups(layout: Layout, effects: Effects, section: Section) -> tuple[Array, Array]:
    """Return the cells (groups, 4) of a section of means, and the noise covariance of the four."""
    axis = layout.number_axis(section.number)
    axes = tuple(sorted((*section.axes, axis)))
    cells = np.moveaxis(effects.table(axes), axes.index(axis), -1)
    inner = tuple(slice(0, -1) for _ in section.axes)
    return cells[inner].reshape(-1, 4), effects.along(axes, axis)


def _chosen_quantiles(
    c: _Context, section: Section, released: Mapping[str, Array], grid: Array,
    rank_scale: Callable[[Section, float], float] | None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the quantiles of every group: points of the grid, and the noise sds of several."""
    by = " by " + " x ".join(c.layout.axes[j].name for j in section.axes) if section.axes else ""
    shape = [c.layout.axes[j].size for j in section.axes]
    inner = tuple(slice(0, -1) for _ in section.axes)
    chosen = [
        released[f"{q:g} quantile of {section.variable}{by}"].reshape(shape)[inner].ravel()
        for q in c.layout.quantiles
    ]
    places = np.sort(np.stack(chosen, axis=-1), axis=-1).astype(np.intp)  # quantiles do not cross
    out = np.full((len(COLUMNS), places.size), np.nan)
    values = grid[places].reshape(-1, len(chosen))
    out[0] = values.ravel()
    count = c.effects.table(section.axes)[inner] if section.axes else np.array([c.used])
    if rank_scale is not None and len(chosen) > 1:
        step = float(grid[1] - grid[0])
        per_rank, noise = _errors_of_quantiles(c, section, values, count, step, rank_scale)
        q = np.asarray(c.layout.quantiles)
        ranks = np.sqrt(c.copies * np.maximum(count.reshape(-1, 1), 1.0) * q * (1.0 - q))
        out[1], out[2] = (per_rank * ranks).ravel(), noise.ravel()
    return out, np.repeat(count.ravel(), len(chosen))


def _errors_of_quantiles(
    c: _Context, section: Section, values: Array, count: Array, step: float,
    rank_scale: Callable[[Section, float], float],
) -> tuple[Array, Array]:  # fmt: skip
    """Return widths per rank and approximate noise sds of quantiles, (groups, k) each.

    The error of a rank is near a Laplace law of the scale of the mechanism; it is divided by the
    density between the neighbouring released quantiles (``theory.md``, 1.7). Of medians with
    quartiles the least density counts for the three: noise may have moved two of them together.
    """
    count = count.ravel()
    q = np.asarray(c.layout.quantiles)
    below, above = np.r_[0, : len(q) - 1], np.r_[1 : len(q), len(q) - 1]
    width = np.maximum(values[:, above] - values[:, below], step)
    per_rank = width / (np.maximum(count[:, None], 1.0) * (q[above] - q[below]))
    if c.layout.medians:
        per_rank = np.broadcast_to(per_rank.max(axis=1, keepdims=True), per_rank.shape)
    ranks = math.sqrt(2.0) * np.array([rank_scale(section, float(share)) for share in q])
    return per_rank, np.asarray(np.hypot(per_rank * ranks, 0.5 * step))


# -- Backend of ``dp_table``: counts, means by group and quantiles from one pass, one joint release.


_TABLE_STEP = "table"
#: Share of a call that its quantiles get.
QUANTILE_SHARE = 0.5


@dataclass(frozen=True)
class TableDetail:
    """The layout of a call, its noise, and its quantiles."""

    layout: Layout
    noise: TableNoise
    quantiles: QuantilePart | None = None
    pairs: PairPlan | None = None  # Of people
    look: Sequence[Step] = ()  # Before the table, at numbers of wide ranges


def layout_for(request: Request, design: Design) -> Layout:
    """Return the layout of a request."""
    quantiles, medians = request["quantiles"], medians_of(request["medians"], design)
    if medians and quantiles is not None:
        raise RequestError(
            "quantiles= cannot be combined with medians=, which releases the quartiles of its "
            "variables: leave one of the two out"
        )
    return layout_of(
        design, histogram=request["histogram"],
        quantiles=() if quantiles is None else probabilities(quantiles, "quantiles"),
        medians=medians,
    )  # fmt: skip


def medians_of(typed: Any, design: Design) -> tuple[str, ...]:
    """Return the variables with a median, in the order of the formula, or refuse a name."""
    numbers = [s.name for s in program_of(design).sources if s.levels is None]
    if typed is None or typed is False:
        return ()
    names = numbers if typed is True else [typed] if isinstance(typed, str) else typed
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise RequestError(
            f'medians= must be the name of a number or a list of names, as in medians=["bmi"]; '
            f"got {shown(typed)}"
        )
    for name in names:
        if name not in numbers:
            raise RequestError(
                f"medians={name!r} is not a number of this table.{did_you_mean(name, numbers)} "
                f"Numbers: {', '.join(map(repr, numbers)) or 'none'}"
            )
    return tuple(name for name in numbers if name in names)


def plan(request: Request, design: Design, n: int) -> Plan[Any]:
    """Plan one joint release of a table. Reads no row."""
    layout = layout_for(request, design)
    to_buy = design.unknown
    kind = str(request["noise"])
    if (to_buy or kind == "gaussian") and request.delta == 0:
        raise RequestError(
            "delta = 0 allows no Gaussian noise"
            + (f", and buying the range of {to_buy[0]!r} needs it: declare the range, for example "
               f"bounds={{{to_buy[0]!r}: (lower, upper)}}" if to_buy else ": leave noise= out")
        )  # fmt: skip
    if to_buy and kind not in ("auto", "gaussian"):
        raise RequestError(f"noise={kind!r} estimates no ranges: declare that of {to_buy[0]!r}")
    if kind == "geometric" and request.by_person:
        raise RequestError(
            "noise='geometric' is for whole numbers, and a person counts in each cell by a share "
            "of their rows: leave noise= out"
        )
    if kind == "geometric" and any(b.number >= 0 for b in layout.blocks):
        raise RequestError("noise='geometric' is for counts alone: this table has means as well")
    quantiles = quantile_part(layout, request.eps, QUANTILE_SHARE) if layout.quantiles else None
    eps = request.eps * (1.0 - QUANTILE_SHARE) if quantiles else request.eps
    part = Part()
    if request.delta > 0 and kind in ("auto", "gaussian"):
        part = gaussian_part(replace(request, eps=eps), to_buy)
    remainder = 1.0 - part.share
    mu = part.mu * math.sqrt(remainder)
    ours = remainder * (1.0 - QUANTILE_SHARE if quantiles else 1.0)
    paired = PAIRS_SHARE if request.by_person and may_pair(layout) else 0.0
    strength = {"gaussian": mu * math.sqrt(1.0 - paired), "laplace": eps * (1.0 - paired)}
    noise, reason = table_noise(
        layout, kind, strength["gaussian"], 0.0 if to_buy else strength["laplace"]
    )
    pairs, steps = None, []
    if paired:
        budget = mu * math.sqrt(paired) if noise.kind == "gaussian" else eps * paired
        pairs = PairPlan.of(layout, noise.kind, budget)
        steps.append(pairs.step(ours * paired))
        ours *= 1.0 - paired
    look, noise, ours = look_before(request, design, layout, noise, n, ours)
    table = Step(_TABLE_STEP, Gaussian(noise.budget), share=ours)
    if noise.kind == "laplace":
        table = Step(_TABLE_STEP, Pure(noise.budget), share=ours, label="Laplace, joint")
    return Plan.of(
        request, design, n,
        [*part.steps, *look, table, *steps, *(quantiles.steps if quantiles else ())],
        scales=_scales(layout, noise, n),
        expected_se=_expected(layout, noise, design, n),
        purchase=part.purchase,
        detail=TableDetail(layout, noise, quantiles, pairs, look),
        reasons=(*request.reasons, reason, *(LOOK_FIRST,) * bool(look)),
        advice=_advice(layout, n, "people" if request.by_person else "rows"),
        passes=1 + bool(part.purchase) + bool(quantiles) + bool(pairs) + len(look),
    )  # fmt: skip


def look_before(
    request: Request, design: Design, layout: Layout, noise: TableNoise, n: int, share: float
) -> tuple[list[Step], TableNoise, float]:
    """Return the steps of a look, the noise of the table after them, and its share of the budget.

    Bins of a number are of its range, so a table with bins has none.
    """
    gaussian, budget = noise.kind == "gaussian", noise.budget
    part = Part(mu=budget) if gaussian else Part(eps=budget)
    if any(axis.kind == "bin" for axis in layout.axes):
        return [], noise, share
    steps = look_steps(request, design, part, n, share)
    left = 1.0 - sum(LOOKS.values()) * bool(steps)
    after = replace(noise, budget=budget * (math.sqrt(left) if gaussian else left))
    return steps, after, share * left


def _scales(layout: Layout, noise: TableNoise, n: int) -> dict[str, float]:
    """Return the expected noise of printed numbers: counts after consistency, and sums."""
    effects = noise.measured(layout, None, float(n))
    out = {}
    for s in layout.sections:
        if s.kind == "counts":
            name = " x ".join(layout.axes[j].name for j in s.axes)
            out[f"noise sd of a count by {name}"] = math.sqrt(effects.variance(s.axes))
        elif s.kind == "means":
            by = " by " + " x ".join(layout.axes[j].name for j in s.axes) if s.axes else ""
            out[f"noise sd of a sum of {s.variable}{by}, in half-ranges"] = _sum_sd(
                layout, effects, s
            )
    return out


def _sum_sd(layout: Layout, effects: Effects, section: Section) -> float:
    axis = layout.number_axis(section.number)
    K = effects.along(tuple(sorted((*section.axes, axis))), axis)
    return math.sqrt(float(TOTAL @ K @ TOTAL))


def _expected(layout: Layout, noise: TableNoise, design: Design, n: int) -> dict[str, float]:
    """Return the expected privacy error of a mean in a group of average size."""
    out: dict[str, float] = {}
    effects = noise.measured(layout, None, float(n))
    for s in layout.sections:
        interval = design.columns[s.number].interval if s.kind == "means" else None
        if interval is not None:
            groups = math.prod(layout.axes[j].size - 1 for j in s.axes)
            error = 0.5 * (interval[1] - interval[0]) * _sum_sd(layout, effects, s) * groups / n
            name = design.columns[s.number].name
            out[name] = max(error, out.get(name, 0.0))
    return out


def _advice(layout: Layout, n: int, counted: str) -> tuple[str, ...]:
    """Return warnings on public facts: a table with more cells than rows."""
    out = []
    for block in layout.blocks:
        levels = layout.group(block)
        cells = math.prod(layout.axes[j].size - 1 for j in levels)
        if cells > n:
            names = " x ".join(layout.axes[j].name for j in levels)
            out.append(f"{names} has {cells:,} declared cells for {n:,} {counted}: most are noise")
    return tuple(dict.fromkeys(out))


def table_windows(
    look: Sequence[Step], layout: Layout, noise: TableNoise, design: Design, n: int, ask: Ask,
    part: float = 1.0,
) -> Windows:  # fmt: skip
    """Release histograms of numbers, and return windows. ``part``: mean part of a row in sums.

    Privacy
    -------
    As :func:`released_windows`.
    """
    effects = noise.measured(layout, None, float(n))
    means = [s for s in layout.sections if s.kind == "means"]
    sd = max((_sum_sd(layout, effects, s) for s in means), default=0.0)
    groups = max((math.prod(layout.axes[j].size - 1 for j in s.axes) for s in means), default=1)
    return released_windows(look, design, n, sd / part, ask, groups)


@with_ranges
def release(plan: Plan[TableDetail], ask: Ask, design: Design) -> Release:
    """Release the noisy counts, sums and squares of a table, and its quantiles.

    **Privacy.** Unit: one row; replace-one, n public. Sensitivities:
    ``core/tables.py``, ``quantiles.py``. A missing cell counts in the cell "(missing)" of its axis.
    Or one person, who adds the mean of its rows: one unit of mass too (``units.md``, 11).
    """
    detail = plan.detail
    noise, layout = detail.noise, detail.layout
    windows = table_windows(detail.look, layout, noise, design, plan.public_n, ask)
    scale = windows.centre, windows.half
    counted = table_release(
        _TABLE_STEP, layout, noise.shares, design, geometric=noise.whole, scale=scale
    )
    values = {"table": answered(counted, ask).values}
    if detail.pairs:
        values["products"] = detail.pairs.release(ask, design, scale)
    if detail.quantiles:
        people = plan.request.by_person
        values |= release_quantiles(detail.quantiles, layout, design, ask, people=people)
    return Release(values, plan.guarantee, design, detail=windows)


def estimate(plan: Plan[TableDetail], release: Release) -> Estimate:
    """Return printed numbers: consistent counts, means, sds and quantiles, with intervals."""
    detail = plan.detail
    names = [item.name for s in detail.layout.sections for item in detail.layout.items(s)]
    if not release.reply:
        return Estimate.silent(names)
    windows: Windows = release.detail
    numbers = any(block.number >= 0 for block in detail.layout.blocks)
    arrays, notes = shown_numbers(
        detail.layout, detail.noise, release.values, (windows.centre, windows.half), plan.public_n,
        level=plan.request.level, suppress=plan.request["suppress"],
        points=None if detail.quantiles is None else detail.quantiles.grids(release.design),
        people=plan.request.by_person, copies=plan.request.copies,
        products=None if detail.pairs is None else detail.pairs.read(release.values["products"]),
        rank_scale=None if detail.quantiles is None else detail.quantiles.rank_scale,
        windows=windows if windows.hidden else None,
    )  # fmt: skip
    table, law, pairs = release.values["table"], detail.noise, detail.pairs
    sums = plan.request["suppress"] is None and detail.quantiles is None and not windows.hidden
    if sums and table is not None:
        facts = np.array([law.kind == "laplace", law.whole, law.budget, *law.shares])
        arrays |= {"released_table": table, "released_noise": facts}  # what sites add up
        if pairs is not None:
            arrays["released_products"] = release.values["products"]
            arrays["released_pairs"] = np.array([pairs.noise.budget])
    return Estimate(
        tuple(names),
        arrays["estimate"],
        # for single rows; the caller multiplies it for kept rows of people
        vcov_sampling=_diagonal(arrays["se_sampling"] / math.sqrt(plan.request.copies)),
        vcov_privacy=_diagonal(arrays["se_privacy"]),
        notes=(*notes, *(windows.note(release.design, plan.request.delta) if numbers else ())),
        arrays=arrays,
    )


def _diagonal(se: Array) -> Array | None:
    """Return a diagonal covariance matrix with NaN off the diagonal, or None for large tables."""
    if len(se) > 1000:
        return None
    out = np.full((len(se), len(se)), np.nan)
    out[np.diag_indices(len(se))] = se**2
    return out


TABLE_BACKEND = Backend(plan, release, estimate, people=True)


# -- A table read off released moments: counts, means by group, at no further cost.
#
# Every number of such a table is a bilinear form ``n a'C b`` of the moments per row C of (x, 1): a
# level is the functional of its dummy, a numeric variable that of its column, "all rows" that of
# the constant. Forms are linear in the entries of C, so their noise follows from its covariance.


@dataclass(frozen=True)
class Moments:
    """Released moments."""

    design: Design  # Design of the columns x
    C: Array  # (q, q): moments per row of (x, 1)
    covariance: Array  # Noise covariance of the upper triangle of C, row by row
    n: int

    def form(self, a: Array, b: Array, share: float = 0.0) -> tuple[float, float]:
        """Return ``n a'C b`` and its noise variance, less that of a share of all complete rows."""
        outer = np.outer(a, b) - share * np.outer(self.constant, self.constant)
        both = outer + outer.T
        both[np.diag_indices(len(a))] = np.diag(outer)
        slope = self.n * both[np.triu_indices(len(a))]
        return self.n * float(a @ self.C @ b), float(slope @ self.covariance @ slope)

    @property
    def constant(self) -> Array:
        """Functional of the constant."""
        return np.eye(len(self.C))[-1]

    def number(self, name: str) -> Array:
        """Return the functional of a column."""
        if name not in self.design.names:
            raise RequestError(
                f"these moments have no column {name!r}: they were released for "
                f"{', '.join(self.design.names)}"
            )
        return np.eye(len(self.C))[self.design.names.index(name)]

    def level(self, axis: Axis, code: int) -> Array:
        """Return the functional of a level; the base of a coding is the rest."""
        eye = np.eye(len(self.C))
        terms = (axis.name, f"C({axis.name})")
        mine = [j for j, c in enumerate(self.design.columns) if c.term in terms]
        levels = axis.size - 1
        if len(mine) == levels and self.design.columns[mine[0]].kind == "dummy":
            return eye[mine[code]]
        if len(mine) == levels - 1:
            kind = self.design.columns[mine[0]].kind
            if kind == "dummy" or (levels == 2 and kind == "numeric"):
                base = eye[-1] - eye[mine].sum(axis=0)
                return base if code == 0 else eye[mine[code - 1]]
        raise RequestError(
            f"these moments have no dummies of {axis.name!r}: release them with the others, as in "
            f'dp_moments("y + C({axis.name}) ~ 1", ...)'
        )


def table_of(design: Design, moments: Moments, level: float) -> Estimate:
    """Return the estimate of a table, from moments."""
    layout = layout_of(design)
    parts = []
    for section in layout.sections:
        if len(section.axes) > (2 if section.kind == "counts" else 1):
            raise RequestError(
                "second moments hold crosses of two variables: a table of more needs the data"
            )
        parts.append((_counts_from_moments if section.kind == "counts" else _means_from_moments)(
            layout, section, moments, level
        ))  # fmt: skip
    arrays = dict(zip(COLUMNS, np.concatenate(parts, axis=1), strict=True))
    names = tuple(item.name for s in layout.sections for item in layout.items(s))
    return Estimate(
        names,
        arrays["estimate"],
        notes=(messages.READ_FROM_MOMENTS(),),
        arrays=arrays,
    )


def _counts_from_moments(layout: Layout, section: Section, m: Moments, level: float) -> Array:
    """Return the counts of a section with errors, computed from released moments."""
    axes = [layout.axes[j] for j in section.axes]
    cells = list(layout.shown(section.axes, missing=True))
    out = np.zeros((len(COLUMNS), len(cells)))
    out[9:] = np.nan
    z = critical(Spread(1.0), level)
    complete, noise = m.form(m.constant, m.constant)
    subset = m.design.subset is not None  # the rows outside are not told from incomplete ones
    n = max(complete, 1.0) if subset else float(m.n)
    for i, cell in enumerate(cells):
        gone = [c == a.size - 1 for c, a in zip(cell, axes, strict=True)]
        if any(gone):
            value, variance = 0.0, 0.0  # a row of the moments is complete, or counts for nothing
            of_share = 0.0
            if all(gone) and not subset:
                value, variance = m.n - complete, noise
                of_share = variance
        else:
            parts = [m.level(a, c) for c, a in zip(cell, axes, strict=True)]
            pair = parts[0], parts[1] if len(parts) > 1 else m.constant
            value, variance = m.form(*pair)
            of_share = m.form(*pair, value / n)[1] if subset else variance
        share, sd, tau = value / n, math.sqrt(variance), math.sqrt(of_share) / n
        p = min(max(share, 0.0), 1.0)
        low, high = share_interval(np.array(share), n, tau, z)
        out[:9, i] = (
            value, 0.0, sd, value - z * sd, value + z * sd,
            share, math.sqrt(p * (1 - p) / n + tau**2), float(low), float(high),
        )  # fmt: skip
    return out


def _means_from_moments(layout: Layout, section: Section, m: Moments, level: float) -> Array:
    """Return the means of a section with errors, computed from released moments."""
    z = critical(Spread(1.0), level)
    x = m.number(section.variable)
    rows = max(m.form(m.constant, m.constant)[0], 1.0)
    mean, square = (m.form(a, x)[0] / rows for a in (m.constant, x))
    spread = square - mean * mean
    out = []
    for cell in layout.shown(section.axes, missing=False):
        g = m.level(layout.axes[section.axes[0]], cell[0]) if cell else m.constant
        N, noise_n = m.form(g, m.constant)
        T, _ = m.form(g, x)
        large = 3.0 * math.sqrt(noise_n) <= N
        safe = N if large else math.nan
        value = T / safe
        _, noise = m.form(g, x - value * m.constant) if large else (0.0, math.nan)
        sampling, privacy = math.sqrt(max(spread, 0.0) / max(N, 1.0)), math.sqrt(noise) / safe
        half, tau = z * math.hypot(sampling, privacy), math.sqrt(noise_n)
        blank = [math.nan] * 6
        out.append([N, 0.0, tau, N - z * tau, N + z * tau, *blank])
        out.append([value, sampling, privacy, value - half, value + half, *blank])
        sd = math.sqrt(spread) if not cell and spread > 0 else math.nan
        out.append([sd, math.nan, math.nan, math.nan, math.nan, *blank])
    return np.array(out).T
