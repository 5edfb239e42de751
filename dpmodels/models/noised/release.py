"""The release of a noised table: its options, its public plan, and its expected errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmodels import messages
from dpmodels.errors import RequestError, choice, did_you_mean, shown
from dpmodels.models.noised.calibration import (
    NOISES,
    UNITS,
    Layout,
    NoisePlan,
    layout_of,
    plan_noise,
    relative_sds,
)
from dpmodels.models.noised.table import NoisyTable, _read_only, noised_rows
from dpmodels.planning import Purchase
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Step, mu_gdp
from dpmodels.privacy.run import TABLE_NOTE, own_proof
from dpmodels.ranges import buy_ranges, plan_purchase
from dpmodels.registry import RANGES_SHARE

if TYPE_CHECKING:
    from dpmodels.formula.design import Design
    from dpmodels.formula.schema import Schema
    from dpmodels.sums.ask import Ask


#: Shares of (eps, delta) that buy undeclared ranges: (eps, delta of the Gaussian part, failure).
RANGE_EPS, RANGE_DELTA, RANGE_FAILURE = RANGES_SHARE, 0.05, 0.05


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
                f"public_columns takes a list of column names, got {shown(public)}. "
                "For example public_columns=['year']"
            )
        flags = {}
        defaults = {"keep_order": False, "tight": True, "allow_clear_records": False}
        for name, default in defaults.items():
            flags[name] = options.get(name, default)
            if not isinstance(flags[name], bool):
                raise RequestError(f"{name} must be True or False, got {shown(flags[name])}")
        blocks = options.get("blocks")
        if blocks is not None:
            if isinstance(blocks, str) or not isinstance(blocks, Sequence):
                raise RequestError("blocks takes a list of lists of released columns")
            blocks = tuple((b,) if isinstance(b, str) else tuple(str(x) for x in b) for b in blocks)
        return cls(
            unit=unit, clear_prob=float(p), noise=noise,
            public_columns=tuple(dict.fromkeys(map(str, public))), blocks=blocks, **flags,
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
                f"{text}.\n  Above 1/(10 n) = {1.0 / (10.0 * n):.3g} this must be asked for: "
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


def _left_of(eps: float, delta: float, bought: bool) -> tuple[float, float]:
    """Return the (eps, delta) of the noise, where ranges have been bought or not."""
    if not bought:
        return eps, delta
    return (1.0 - RANGE_EPS) * eps, (1.0 - RANGE_DELTA - RANGE_FAILURE) * delta


def noise_at(
    layout: Layout, eps: float, delta: float, settings: Settings, bought: bool
) -> NoisePlan:
    """Return the noise of a release of this (eps, delta), where ranges are bought or not."""
    return plan_noise(
        layout, *_left_of(eps, delta, bought),
        unit=settings.unit, noise=settings.noise, clear_prob=settings.clear_prob,
        tight=settings.tight, blocks=_column_blocks(layout, settings.blocks),
    )  # fmt: skip


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
    eps_r, delta_r = _left_of(eps, delta, bool(to_buy))
    noise = noise_at(layout, eps, delta, settings, bool(to_buy))
    steps = [*steps, *noise.steps]
    pair = noise.record_pair
    if pair is not None and to_buy:
        pair = (pair[0] + RANGE_EPS * eps, pair[1] + (RANGE_DELTA + RANGE_FAILURE) * delta)
    if pair is not None and not math.isfinite(pair[0]):
        pair = None
    notes = [TABLE_NOTE, own_proof("noised rows").note]
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
        design, layout, noise, purchase, tuple(steps), guarantee, settings, n, schema, advice,
        passes=1 + (purchase is not None),
    )  # fmt: skip


def _advice(
    layout: Layout, noise: NoisePlan, eps: float, delta: float, settings: Settings
) -> list[str]:
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
    """Buy ranges, read the rows, add noise; None if the ranges could not be bought.

    **Privacy.** Unit: as in the plan. Charged: the steps of the plan, whether or not they ran.
    """
    design = plan.design
    if plan.purchase is not None:
        bought = buy_ranges(plan.purchase, design, ask)
        if bought is None:
            return None
        design = bought
    noised = noised_rows(
        design, plan.layout, plan.noise, plan.settings.public_columns, ask,
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
        bought=() if plan.purchase is None else plan.purchase.columns,
        keep_order=plan.settings.keep_order,
        expected_clear=ask.n * plan.settings.clear_prob,
        declared=plan.declared,
    )
