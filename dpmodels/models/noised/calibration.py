"""From a target (eps, delta) to noise: kinds, blocks, scales, and the guarantee they give."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dpmodels.errors import RequestError
from dpmodels.models.noised.exact import calibrate, exact_eps
from dpmodels.models.noised.layout import Group, Layout
from dpmodels.privacy.gdp import eps_gdp, mu_gdp
from dpmodels.privacy.mechanisms import Gaussian, Profile, Pure
from dpmodels.privacy.steps import Step

__all__ = ["NOISES", "UNITS", "NoisePlan", "plan_noise", "relative_sds"]

NOISES = ("auto", "sl", "laplace", "gaussian")
UNITS = ("record", "attribute")


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a release, in units of the column scales. All public.

    Attributes
    ----------
    noise : {"sl", "laplace", "gaussian"}
    unit : {"record", "attribute"}
    blocks : tuple of tuple of int
        Columns that share one radius ("laplace": one column each).
    sd : (d,) tuple
        Noise sd of the columns before a clear probability, relative to the column's range.
    clear_prob : float
    c : tuple of float
        Distance of neighbours over the noise sd, a block ("sl", "gaussian").
    steps : tuple of Step
    shapes, sensitivities : tuple
        What the run needs: factor of each column; distance of neighbours of each step.
    eps, delta : float
        Of these steps.
    record_pair : (eps, delta) or None
        For the unit "attribute".
    """

    noise: str
    unit: str
    blocks: tuple[tuple[int, ...], ...]
    sd: tuple[float, ...]
    clear_prob: float
    c: tuple[float, ...]
    steps: tuple[Step, ...]
    shapes: tuple[float, ...]
    sensitivities: tuple[float, ...]
    eps: float
    delta: float
    record_pair: tuple[float, float] | None = None
    advice: tuple[str, ...] = field(default=())

    @property
    def stages(self) -> tuple[tuple[str, tuple[int, ...], float], ...]:
        """(step, its columns, sensitivity): one draw each."""
        if self.noise == "sl":
            columns = self.blocks
        else:
            columns = (tuple(range(len(self.sd))),)
        return tuple(
            (s.name, c, h) for s, c, h in zip(self.steps, columns, self.sensitivities, strict=True)
        )


def _sub(layout: Layout, block: tuple[int, ...]) -> Layout:
    """Return the layout of some columns; a factor cut in two counts whole in both."""
    keep = set(block)
    place = {j: i for i, j in enumerate(block)}
    groups = tuple(
        Group(tuple(place[j] for j in g.columns if j in keep), g.variables, g.diam, g.ldiam)
        for g in layout.groups
        if keep & set(g.columns)
    )
    pick = [layout.names[j] for j in block], [layout.kinds[j] for j in block]
    return Layout(tuple(layout.rows[j] for j in block), tuple(pick[0]), tuple(pick[1]), groups)


def _diam(layout: Layout, unit: str) -> float:
    return layout.record[0] if unit == "record" else layout.worst_attribute[0]


def relative_sds(
    layout: Layout, eps: float, delta: float, unit: str, clear_prob: float = 0.0, tight: bool = True
) -> dict[str, float]:
    """Return the noise sd of a numeric column under each kind of noise that is possible."""
    out: dict[str, float] = {}
    if delta > clear_prob or (layout.d == 1 and delta >= clear_prob):
        out["sl"] = _diam(layout, unit) / calibrate(eps, delta, layout.d, clear_prob, tight)
    if clear_prob == 0.0:
        if unit == "record":
            out["laplace"] = math.sqrt(2.0) * layout.record[1] / eps
        else:
            out["laplace"] = math.sqrt(2.0) * min(layout.laplace_weights()) / eps
        if delta > 0:
            out["gaussian"] = _diam(layout, unit) / mu_gdp(eps, delta)
    return out


def _choose(
    layout: Layout, delta: float, unit: str, clear_prob: float, sds: dict[str, float]
) -> str:
    if clear_prob > 0 or layout.d == 1 or delta >= 0.01:
        return "sl"
    others = {k: v for k, v in sds.items() if k != "sl"}
    if "sl" in sds and sds["sl"] <= min(others.values()):
        return "sl"
    if unit == "attribute":
        return "laplace"
    return min(others, key=others.__getitem__)


def plan_noise(
    layout: Layout,
    eps: float,
    delta: float,
    *,
    unit: str = "record",
    noise: str = "auto",
    clear_prob: float = 0.0,
    tight: bool = True,
    blocks: tuple[tuple[int, ...], ...] | None = None,
) -> NoisePlan:
    """Calibrate the noise of a release.

    Parameters
    ----------
    layout : Layout
    eps, delta : float
        For the rows themselves (what ranges cost has been taken off).
    unit : {"record", "attribute"}
    noise : {"auto", "sl", "laplace", "gaussian"}
    clear_prob : float
    tight : bool
        Exact finite-d calibration of SL noise.
    blocks : tuple of tuple of int, optional
        SL noise with one radius a block; eps and delta are split evenly (sums).
    """
    if layout.d < 1:
        raise RequestError(
            "a release needs at least one column that is noised; every column asked for is public "
            "or constant"
        )
    if noise == "auto" and blocks is not None:
        noise = "sl"
    if clear_prob > 0 and noise not in ("sl", "auto", "auto-smooth"):
        raise RequestError(
            f"clear_prob > 0 goes with noise='sl' only, got noise={noise!r}: other noise has no "
            "correction for records that are published unperturbed"
        )
    if delta == 0 and (noise == "gaussian" or (noise == "sl" and layout.d > 1)):
        raise RequestError(
            f"delta = 0: noise={noise!r} on {layout.d} column(s) needs delta > 0. "
            "Use noise='laplace', or for example delta=1e-6"
        )
    if noise in ("auto", "auto-smooth"):
        sds = relative_sds(layout, eps, delta, unit, clear_prob, tight)
        if noise == "auto-smooth":  # smooth losses have no correction for Gaussian noise
            sds.pop("gaussian", None)
        noise = _choose(layout, delta, unit, clear_prob, sds)
    if noise == "laplace":
        return _laplace(layout, eps, delta, unit)
    if noise == "gaussian":
        return _gaussian(layout, eps, delta, unit)
    return _sl(layout, eps, delta, unit, clear_prob, tight, blocks)


def _laplace(layout: Layout, eps: float, delta: float, unit: str) -> NoisePlan:
    """Independent Laplace noise: eps = sqrt2 sum of ldiam / lambda (theory.md 2.5)."""
    d = layout.d
    weights = (1.0,) * d if unit == "record" else layout.laplace_weights()
    reach = layout.record[1] if unit == "record" else 1.0
    sd = tuple(math.sqrt(2.0) * reach * w / eps for w in weights)
    pair = None
    if unit == "attribute":
        whole = sum(g.ldiam / weights[g.columns[0]] for g in layout.groups)
        pair = (eps * whole, 0.0)
    return NoisePlan(
        "laplace", unit, tuple((j,) for j in range(d)), sd, 0.0, (),
        (Step("noised table", Pure(eps), label="Laplace noise"),),
        weights, (reach,), eps, delta, pair,
    )  # fmt: skip


def _gaussian(layout: Layout, eps: float, delta: float, unit: str) -> NoisePlan:
    mu = mu_gdp(eps, delta)
    reach = _diam(layout, unit)
    sd = reach / mu
    pair = None
    if unit == "attribute":
        pair = (eps_gdp(layout.record[0] / sd, delta), delta)
    return NoisePlan(
        "gaussian", unit, (tuple(range(layout.d)),), (sd,) * layout.d, 0.0, (mu,),
        (Step("noised table", Gaussian(mu), label="Gaussian noise"),),
        (1.0,) * layout.d, (reach,), eps, delta, pair,
    )  # fmt: skip


def _sl(
    layout: Layout,
    eps: float,
    delta: float,
    unit: str,
    clear_prob: float,
    tight: bool,
    blocks: tuple[tuple[int, ...], ...] | None,
) -> NoisePlan:
    """SL or ZIL noise: one radius a block and record; blocks compose by sums."""
    parts = blocks if blocks is not None else (tuple(range(layout.d)),)
    if sorted(j for b in parts for j in b) != list(range(layout.d)) or not all(parts):
        raise RequestError("blocks must name every noised column exactly once")
    if len(parts) > 1 and clear_prob > 0:
        raise RequestError("clear_prob > 0 needs a single block of noise")
    b = len(parts)
    shares = [(eps / b, delta / b)] * b
    sd = [0.0] * layout.d
    cs, steps, reaches = [], [], []
    whole = [0.0, 0.0]
    for k, (block, (e, dl)) in enumerate(zip(parts, shares, strict=True)):
        part = _sub(layout, block)
        d = part.d
        c = calibrate(e, dl, d, clear_prob, tight)
        reach = _diam(part, unit)
        for j in block:
            sd[j] = reach / c
        form = d if tight else 0 if d > 1 else 1
        curve = Profile("sl", (("c", c), ("d", form), ("knot", e), ("p", clear_prob)))
        name = "noised table" if b == 1 else f"noised block {k + 1}"
        label = "ZIL noise" if clear_prob > 0 else "SL noise"
        steps.append(Step(name, curve, label=label))
        cs.append(c)
        reaches.append(reach)
        whole[0] += exact_eps(part.record[0] * c / reach, max(dl, 1e-300), d, clear_prob)
        whole[1] += dl
    return NoisePlan(
        "sl", unit, parts, tuple(sd), clear_prob, tuple(cs), tuple(steps),
        (1.0,) * layout.d, tuple(reaches), eps, delta,
        (whole[0], whole[1]) if unit == "attribute" else None,
    )  # fmt: skip
