"""Which noise a table gets, and how its parts divide the budget: rules on public facts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.exact.prove import noise_of
from dpmodels.exact.statistics import Cells
from dpmodels.models.table.effects import Effects, Measured
from dpmodels.models.table.layout import Block, Layout
from dpmodels.models.table.sums import TOTAL
from dpmodels.privacy.mechanisms import Gaussian, Pure


@dataclass(frozen=True)
class TableNoise:
    """The noise of every table of a call.

    Attributes
    ----------
    kind : {"gaussian", "laplace"}
    budget : float
        mu, or eps, of the joint release.
    shares : tuple of float
        Of the blocks; of mu^2, or of eps.
    whole : bool
        Integer noise on integer counts (the geometric mechanism).
    """

    kind: str
    budget: float
    shares: tuple[float, ...]
    whole: bool = False

    def statistic(self, layout: Layout) -> Cells:
        """Return the tables of a layout as a statistic, with their shares."""
        sizes = tuple(layout.cells(block.axes) for block in layout.blocks)
        return Cells(sizes, self.shares, counts=self.whole)

    @functools.cached_property
    def scales(self) -> Array:
        """Noise scale of the cells of every block (sd, or the scale of Laplace noise)."""
        tables = Cells((1,) * len(self.shares), self.shares)
        mechanism = Pure(self.budget) if self.kind == "laplace" else Gaussian(self.budget)
        return noise_of(tables, mechanism, "replace")

    def sds(self, layout: Layout) -> Array:
        """Return the noise scale of every cell of the tables of a layout."""
        return np.repeat(self.scales, [layout.cells(block.axes) for block in layout.blocks])

    def scale(self, block: int) -> float:
        """Return the noise scale of the cells of a block."""
        return float(self.scales[block])

    def measured(self, layout: Layout, noisy: Array | None, total: float | None) -> Effects:
        """Return the effects of the noisy tables, flat and concatenated (None: for variances)."""
        tables = []
        at = 0
        for b, block in enumerate(layout.blocks):
            shape = [layout.axes[j].size for j in block.axes]
            size = math.prod(shape)
            values = np.zeros((0,) * len(shape)) if noisy is None else noisy[at : at + size]
            at += size
            scale, variance = self.scale(b), self.variance(b)
            laplace = scale if self.kind == "laplace" else 0.0
            shaped = values if noisy is None else values.reshape(shape)
            tables.append(Measured(block.axes, shaped, variance, laplace))
        return Effects(layout.sizes, tables, total)

    def variance(self, block: int) -> float:
        """Return the noise variance of the cells of a block."""
        scale = self.scale(block)
        if self.kind == "gaussian":
            return scale * scale
        if not self.whole:
            return 2.0 * scale * scale
        q = math.exp(-1.0 / scale)
        return 2.0 * q / (1.0 - q) ** 2

    def loss(self, layout: Layout) -> float:
        """Return the mean log sd of what is shown: counts and sums, after consistency."""
        effects = self.measured(layout, None, 0.0)
        variances = []
        for s in layout.sections:
            if s.kind == "counts":
                variances.append(effects.variance(s.axes))
            elif s.kind == "means":
                axis = layout.number_axis(s.number)
                K = effects.along(tuple(sorted((*s.axes, axis))), axis)
                variances.append(float(TOTAL @ K @ TOTAL))
        return 0.5 * math.fsum(math.log(max(v, 1e-300)) for v in variances) / len(variances)


#: More blocks than this share equally: the search would take seconds.
_MOST = 12


def _nested(blocks: Sequence[Block]) -> bool:
    return any(set(a.axes) < set(b.axes) for a in blocks for b in blocks)


def _divided(layout: Layout, make: Callable[[tuple[float, ...]], TableNoise]) -> TableNoise:
    """Return the noise with the least loss: equal shares, unless a block holds another."""
    m = len(layout.blocks)
    equal = make((1.0 / m,) * m)
    if m == 1 or not _nested(layout.blocks) or m > _MOST:
        return equal
    from scipy.optimize import minimize

    def shares(logits: Array) -> tuple[float, ...]:
        e = np.exp(np.append(logits, 0.0) - max(0.0, float(logits.max())))
        e = np.maximum(e / e.sum(), 1e-4)
        return tuple((e / e.sum()).tolist())

    found = minimize(
        lambda x: make(shares(x)).loss(layout), np.zeros(m - 1), method="L-BFGS-B",
        bounds=[(-6.0, 6.0)] * (m - 1), options={"maxiter": 60},
    )  # fmt: skip
    best = make(tuple(round(s, 6) for s in shares(found.x)))
    total = math.fsum(best.shares)
    best = make(tuple(s / total for s in best.shares))
    return best if best.loss(layout) < equal.loss(layout) else equal


def table_noise(layout: Layout, kind: str, mu: float, eps: float) -> tuple[TableNoise, str]:
    """Return the noise of a table and the reason for its kind.

    Parameters
    ----------
    kind : {"auto", "gaussian", "laplace", "geometric"}
    mu, eps : float
        What a Gaussian or a Laplace release of the whole may spend; 0: not possible.
    """
    found: dict[str, TableNoise] = {}
    for name, budget in (("laplace", eps), ("gaussian", mu)):
        if budget > 0 and (kind in ("auto", name) or (kind, name) == ("geometric", "laplace")):
            def make(
                shares: tuple[float, ...], name: str = name, budget: float = budget
            ) -> TableNoise:
                return TableNoise(name, budget, shares, kind == "geometric")

            found[name] = _divided(layout, make)
    losses = {name: noise.loss(layout) for name, noise in found.items()}
    best = min(losses, key=losses.__getitem__)
    reason = f"noise: {found[best].kind if kind != 'geometric' else 'geometric'}"
    if len(found) > 1:
        other = next(n for n in found if n != best)
        ratio = math.exp(losses[other] - losses[best])
        reason += (
            f", the narrower at this guarantee: {other} noise would be {ratio:.2f} times as wide "
            "for this table"
        )
    elif kind == "auto":
        reason += (
            ", because delta = 0"
            if best == "laplace"
            else ", because ranges are bought with Gaussian noise"
        )
    return found[best], reason
