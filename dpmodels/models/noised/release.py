"""The release of a noised table: its options, its public plan, and its expected errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpmodels import messages
from dpmodels.core.release import run
from dpmodels.errors import RequestError, choice, did_you_mean, shown
from dpmodels.formula.design import Design
from dpmodels.formula.schema import Schema
from dpmodels.models.noised.calibration import NOISES, UNITS, NoisePlan, plan_noise, relative_sds
from dpmodels.models.noised.table import NoisyTable, _read_only
from dpmodels.own.noised import Layout, layout_of, noised_rows
from dpmodels.planning import Purchase
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Step, eps_gdp, mu_gdp
from dpmodels.privacy.proofs import PROVED
from dpmodels.privacy.run import TABLE_NOTE
from dpmodels.ranges import buy_ranges, plan_purchase
from dpmodels.registry import RANGES_SHARE
from dpmodels.scoring.rules import NUMBER_SHARES, TAIL_PART, VISIBLE_SDS
from dpmodels.scoring.scales import ScalePlan, released_scales
from dpmodels.sums.ask import Ask

#: Shares of (eps, delta) for estimating undeclared ranges: (eps, delta of the Gaussian part,
#: failure).
RANGE_EPS, RANGE_DELTA, RANGE_FAILURE = RANGES_SHARE, 0.05, 0.05
#: Largest share of eps that measures declared ranges, its share of delta, and the scales a side at
#: which cells are then clipped.
LOOK_EPS, LOOK_DELTA, SCALES = 0.05, 0.05, 4.0
#: Half octaves whose noise together hides no tenth of the distances, and the noise over a declared
#: range below which nothing is measured.
SEEN_OCTAVES, LITTLE_NOISE = 6.0, 0.05


@dataclass(frozen=True)
class Settings:
    """Options of a release."""

    unit: str = "record"
    clear_prob: float = 0.0
    allow_clear_records: bool = False
    noise: str = "auto"
    public_columns: tuple[str, ...] = ()
    keep_order: bool = False
    tight: bool = True
    scales: float = SCALES  # Scales a side at which cells are clipped; 0: nothing is measured
    blocks: tuple[tuple[str, ...], ...] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Check the options of a call; unknown keys are ignored."""
        unit, noise = options.get("unit", "record"), options.get("noise", "auto")
        choice("unit", unit, UNITS)
        zil = isinstance(noise, str) and "zil" in noise.lower()
        hint = " The ZIL release is clear_prob=: for example clear_prob=0.3" if zil else ""
        choice("noise", noise, NOISES, more=hint)
        p = options.get("clear_prob", 0.0)
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p < 1:
            raise RequestError(f"clear_prob must lie in [0, 1), got {shown(p)}. The default is 0")
        public = options.get("public_columns") or ()
        text = isinstance(public, str) or not isinstance(public, Iterable)
        if text or not all(isinstance(name, str) for name in public):
            raise RequestError(
                f"public_columns must be a list of column names, got {shown(public)}. "
                "For example public_columns=['year']"
            )
        flags = {}
        defaults = {"keep_order": False, "tight": True, "allow_clear_records": False}
        for name, default in defaults.items():
            flags[name] = options.get(name, default)
            if not isinstance(flags[name], bool):
                raise RequestError(f"{name} must be True or False, got {shown(flags[name])}")
        scales = options.get("rescale", True)
        if isinstance(scales, bool):
            scales = SCALES * scales
        elif not isinstance(scales, (int, float)) or not 1.0 <= scales < math.inf:
            raise RequestError(
                "rescale must be True (cells are clipped at four released scales), False, or a "
                f"number of scales of at least 1, got {shown(scales)}. For example rescale=2"
            )
        blocks = options.get("blocks")
        if blocks is not None:
            if isinstance(blocks, str) or not isinstance(blocks, Sequence):
                raise RequestError("blocks must be a list of lists of released columns")
            blocks = tuple((b,) if isinstance(b, str) else tuple(str(x) for x in b) for b in blocks)
        return cls(
            unit=unit, clear_prob=float(p), noise=noise, scales=float(scales), blocks=blocks,
            public_columns=tuple(dict.fromkeys(map(str, public))), **flags,
        )  # fmt: skip

    def check_clear(self, n: int) -> tuple[str, ...]:
        """Apply the rules of a positive clear probability; return warnings."""
        p = self.clear_prob
        if p == 0:
            return ()
        expected = n * p
        text = (
            f"clear_prob = {p:g} publishes each record UNPERTURBED with that probability: "
            f"{expected:.4g} of {n} records are expected in clear, and for discrete columns they "
            "can be recognised"
        )
        if p > 1.0 / (10.0 * n) and not self.allow_clear_records:
            raise RequestError(
                f"{text}.\n  Above 1/(10 n) = {1.0 / (10.0 * n):.3g} this needs "
                "allow_clear_records=True. The default clear_prob=0 needs no such records"
            )
        return (text,)


@dataclass(frozen=True)
class TablePlan:
    """Everything public about a release before a row is read."""

    design: Design
    layout: Layout
    noise: NoisePlan
    purchase: Purchase | None
    look: Measurement | None  # Release of the scales of declared numbers
    steps: tuple[Step, ...]
    guarantee: Guarantee
    settings: Settings
    n: int
    declared: Schema
    advice: tuple[str, ...] = ()
    passes: int = 1
    refusal: str = ""  # Why the call is refused before the charge; empty: it is not


def _column_blocks(
    layout: Layout, blocks: tuple[tuple[str, ...], ...] | None
) -> tuple[tuple[int, ...], ...] | None:
    """Return the indices of the columns in each requested block, or None without blocks."""
    if blocks is None:
        return None
    out = []
    for block in blocks:
        places: list[int] = []
        for name in block:
            mine = [
                j
                for g in layout.groups
                for j in g.columns
                if layout.names[j] == name or (len(g.columns) > 1 and name in g.variables)
            ]
            if not mine:
                raise RequestError(
                    f"blocks: no noised column {name!r}.{did_you_mean(name, layout.names)}"
                )
            places += mine
        out.append(tuple(dict.fromkeys(places)))
    return tuple(out)


@dataclass(frozen=True)
class Measurement:
    """Release of the centre and scale of numeric variables with declared ranges, and its cost.

    The noise of a cell is in proportion to its range, which may be far wider than the data.
    """

    at: tuple[int, ...]  # Rows of the design
    scales: ScalePlan
    reach: float  # Scales a side at which cells are clipped
    # eps, delta: what it takes of those of the release.
    eps: float
    delta: float

    def steps(self, eps: float) -> tuple[Step, ...]:
        """Return the steps of the ledger, with their shares of the eps of the release."""
        part = self.eps / (eps * ScalePlan.share)
        return tuple(replace(step, share=(step.share or 0.0) * part) for step in self.scales.steps)

    def clip_to_scales(self, design: Design, ask: Ask) -> Design:
        """Release the scales, and return the design with ranges of some of them a side.

        A number whose distances tell no scale keeps its range, and so do both ends that lie nearer.

        Privacy
        -------
        Unit: one record. Two Gaussian releases of counts, a record in one bin of each number.
        """
        centre, width, seen = run(released_scales(self.scales, design, self.at), ask)
        names, ends = [column.name for column in design.z], design.intervals()
        bounds = {}
        for j, c, w, scale in zip(self.at, centre, width, seen, strict=True):
            if scale is not None:
                reach = self.reach * scale * w
                bounds[names[j]] = (max(ends[j, 0], c - reach), min(ends[j, 1], c + reach))
        return design.with_bounds(bounds)


def look_of(
    layout: Layout, n: int, eps: float, delta: float, settings: Settings, unknown: Iterable[str]
) -> Measurement | None:
    """Return the release of centres and scales that n records allow, or None. A public rule.

    Its mu is the least at which a tenth of the distances stands out of the noise of six half
    octaves together: a scale of a thirtieth of the range.
    """
    bought = set(unknown)
    numbers = [
        (row, name)
        for row, name, kind in zip(layout.rows, layout.names, layout.kinds, strict=True)
        if kind != "dummy" and name not in bought
    ]
    if not (numbers and settings.scales and delta > 0.0):
        return None
    part = NUMBER_SHARES[1] / sum(NUMBER_SHARES)
    noise = math.sqrt(2.0 * len(numbers) * SEEN_OCTAVES / part)  # of the bins at mu = 1
    mu = VISIBLE_SDS * noise / (TAIL_PART * n)
    cost = eps_gdp(mu, LOOK_DELTA * delta)
    if cost > LOOK_EPS * eps:
        return None
    rows, names = zip(*numbers, strict=True)
    plan = ScalePlan(names, False, mu / math.sqrt(ScalePlan.share), "replace", float(n))
    return Measurement(rows, plan, settings.scales, cost, LOOK_DELTA * delta)


def _left_of(
    eps: float, delta: float, bought: bool, look: Measurement | None
) -> tuple[float, float]:
    """Return the (eps, delta) of the noise after what ranges and scales take."""
    if bought:
        eps, delta = (1.0 - RANGE_EPS) * eps, (1.0 - RANGE_DELTA - RANGE_FAILURE) * delta
    return (eps, delta) if look is None else (eps - look.eps, delta - look.delta)


def noise_at(
    layout: Layout, n: int, eps: float, delta: float, settings: Settings, unknown: Collection[str]
) -> tuple[NoisePlan, Measurement | None]:
    """Return the noise of a release of this (eps, delta), and its release of centres and scales.

    ``unknown``: columns whose ranges are estimated. Under SL noise nothing is measured: the
    guarantee of one block is exact, and is composed by an upper bound.
    """
    plan = functools.partial(
        plan_noise, layout, unit=settings.unit, clear_prob=settings.clear_prob,
        tight=settings.tight, blocks=_column_blocks(layout, settings.blocks),
    )  # fmt: skip
    look = look_of(layout, n, eps, delta, settings, unknown)
    noise = plan(*_left_of(eps, delta, bool(unknown), None), noise=settings.noise)
    if look is None or max(noise.sd) < LITTLE_NOISE or noise.noise == "sl":
        return noise, None
    # of the same kind: a second choice may be SL noise, under which nothing is measured
    return plan(*_left_of(eps, delta, bool(unknown), look), noise=noise.noise), look


def plan_table(
    design: Design, n: int, eps: float, delta: float, settings: Settings,
    declared: Schema | None = None,
) -> TablePlan:  # fmt: skip
    """Plan a release: estimated ranges, the noise, and the guarantee."""
    layout = layout_of(design, settings.public_columns)
    warned = settings.check_clear(n)
    unknown = set(design.unknown)
    to_buy = tuple(name for name in layout.names if name in unknown)
    purchase: Purchase | None = None
    steps: list[Step] = []
    if to_buy:
        if delta == 0:
            raise RequestError(
                "delta = 0 needs declared bounds for every column: ranges cannot be estimated "
                f"with it. Declare {', '.join(to_buy)}: bounds={{{to_buy[0]!r}: (lower, upper)}}"
            )
        mu = mu_gdp(RANGE_EPS * eps, RANGE_DELTA * delta)
        purchase, steps = plan_purchase(to_buy, mu, RANGE_FAILURE * delta, RANGE_EPS)
    noise, look = noise_at(layout, n, eps, delta, settings, to_buy)
    eps_r, delta_r = _left_of(eps, delta, bool(to_buy), look)
    steps = [*steps, *(() if look is None else look.steps(eps)), *noise.steps]
    pair = noise.record_pair
    if pair is not None:
        pair = (pair[0] + eps - eps_r, pair[1] + delta - delta_r)
    if pair is not None and not math.isfinite(pair[0]):
        pair = None
    notes = [TABLE_NOTE, PROVED["noised rows"].note]
    if settings.clear_prob > 0:
        prob = settings.clear_prob
        notes.append(messages.CLEAR_RECORDS(count=n * prob, prob=prob))
    if settings.public_columns:
        notes.append(messages.PUBLIC_COLUMNS(columns=settings.public_columns))
    guarantee = Guarantee(
        tuple(steps), eps, delta, "replace", settings.unit, notes=tuple(notes), record_pair=pair
    )
    advice = (*warned, *_advice(layout, noise, eps_r, delta_r, settings))
    schema = design.schema if declared is None else declared
    return TablePlan(
        design, layout, noise, purchase, look, tuple(steps), guarantee, settings, n, schema, advice,
        passes=1 + (purchase is not None) + 2 * (look is not None),
    )  # fmt: skip


def _advice(
    layout: Layout, noise: NoisePlan, eps: float, delta: float, settings: Settings
) -> list[str]:
    """Return advice on the noise: other kinds that are smaller, ranges that are too wide."""
    out: list[str] = []
    worst = max(noise.sd)
    if noise.noise == "sl" and layout.d >= 2 and delta < 0.01 and len(noise.blocks) == 1:
        sds = relative_sds(layout, eps, delta, settings.unit, settings.clear_prob, settings.tight)
        others = ", ".join(f"{k} {v:.4g}" for k, v in sds.items() if k != "sl")
        if others:
            out.append(
                f"SL noise on {layout.d} columns with delta below 0.01 needs a noise sd of "
                f"{worst:.4g} times a column's range; the alternatives: {others}"
            )
    if worst > 5.0:
        where = layout.names[max(range(layout.d), key=noise.sd.__getitem__)]
        out.append(
            f"the noise sd of {where} is {worst:.4g} times its range ({layout.d} noised columns): "
            "analyses of this release will say little. Fewer columns, a larger eps or "
            "unit='attribute' would help"
        )
    return out


def make_table(plan: TablePlan, ask: Ask) -> NoisyTable | None:
    """Buy ranges, measure scales, add noise to the rows; None if no range could be estimated.

    **Privacy.** Unit: as in the plan. Charged: the steps of the plan, whether or not they ran.
    """
    design = plan.design
    if plan.purchase is not None:
        bought = buy_ranges(plan.purchase, design, ask)
        if bought is None:
            return None
        design = bought
    if plan.look is not None:
        design = plan.look.clip_to_scales(design, ask)
    noised = noised_rows(
        design, plan.noise, plan.settings.public_columns, ask,
        keep_order=plan.settings.keep_order,
    )  # fmt: skip
    return NoisyTable(
        design=design,
        layout=plan.layout,
        plan=plan.noise,
        guarantee=plan.guarantee if ask.private else plan.guarantee.not_private(),
        values=_read_only(noised.values),
        public=noised.public,
        lower=noised.lower,
        scale=noised.scale,
        batches=(ask.n,),
        bought=tuple(name for name, _, _ in design.bought),
        keep_order=plan.settings.keep_order,
        expected_clear=ask.n * plan.settings.clear_prob,
        declared=plan.declared,
    )
