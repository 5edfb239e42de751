"""Which noise a table gets, and how its parts divide the budget: rules on public facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array
from dpmodels.models.table.effects import Effects, Measured
from dpmodels.models.table.layout import Block, Layout
from dpmodels.models.table.sums import Inner, inner_weights

__all__ = ["TableNoise", "table_noise"]


@dataclass(frozen=True)
class TableNoise:
    """The noise of every part of a table.

    Attributes
    ----------
    kind : {"gaussian", "laplace"}
    budget : float
        mu, or eps, of the joint release.
    shares : tuple of float
        Of the blocks; of mu^2, or of eps.
    inner : tuple of Inner
    whole : bool
        Integer noise on integer counts (the geometric mechanism).
    """

    kind: str
    budget: float
    shares: tuple[float, ...]
    inner: tuple[Inner, ...]
    whole: bool = False

    def scale(self, block: int, weight: float) -> float:
        """Return the noise scale of the entries of a block with that inner weight."""
        inner, share = self.inner[block], self.shares[block]
        spent = self.budget * (share if self.kind == "laplace" else math.sqrt(share))
        return inner.sensitivity / (spent * weight)

    def sd(self, block: int, weight: float) -> float:
        """Return the noise sd of such entries."""
        return self.scale(block, weight) * (math.sqrt(2.0) if self.kind == "laplace" else 1.0)

    def weights(self, layout: Layout) -> Array:
        """Return a weight an entry: the sensitivity of ``weights * statistics`` is 1.

        Shares of a squared L2, or of an L1, sensitivity add up to 1.
        """
        out = []
        for b, block in enumerate(layout.blocks):
            inner, share = self.inner[b], self.shares[b]
            unit = (share if self.kind == "laplace" else math.sqrt(share)) / inner.sensitivity
            out.append(np.full(layout.cells(block.axes), inner.count * unit))
            if block.number >= 0:
                out.append(np.full(layout.cells(block.group), inner.total * unit))
                if layout.squares:
                    out.append(np.full(layout.cells(block.group), inner.square * unit))
        return np.concatenate(out)

    def measured(
        self, layout: Layout, values: Sequence[Array] | None, total: float | None
    ) -> Effects:
        """Return the effects of the noisy counts (``values``: those of each block)."""
        tables = []
        for b, block in enumerate(layout.blocks):
            shape = [layout.axes[j].size for j in block.axes]
            table = np.zeros((0,) * len(shape)) if values is None else values[b].reshape(shape)
            scale = self.scale(b, self.inner[b].count)
            if self.kind == "laplace":
                q = math.exp(-1.0 / scale) if self.whole and scale < 700 else 0.0
                variance = 2.0 * q / (1.0 - q) ** 2 if self.whole else 2.0 * scale * scale
                tables.append(Measured(block.axes, table, variance, scale))
            else:
                tables.append(Measured(block.axes, table, scale * scale))
        return Effects(layout.sizes, tables, total)

    def loss(self, layout: Layout) -> float:
        """Return the mean log sd of what is shown: counts after consistency, sums."""
        effects = self.measured(layout, None, 0.0)
        logs = [
            0.5 * math.log(max(effects.variance(s.axes), 1e-300))
            for s in layout.sections
            if s.kind == "counts"
        ]
        logs += [
            math.log(self.sd(b, self.inner[b].total))
            for b, block in enumerate(layout.blocks)
            if block.number >= 0
        ]
        return math.fsum(logs) / max(1, len(logs))


def _nested(blocks: Sequence[Block]) -> bool:
    return any(set(a.axes) < set(b.axes) for a in blocks for b in blocks)


def _divided(layout: Layout, make: Callable[[tuple[float, ...]], TableNoise]) -> TableNoise:
    """Return the noise with the least loss: equal shares, unless a block holds another."""
    m = len(layout.blocks)
    equal = make((1.0 / m,) * m)
    if m == 1 or not _nested(layout.blocks) or m > 32:
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
            inner = tuple(
                inner_weights(b, squares=layout.squares, l1=name == "laplace")
                for b in layout.blocks
            )

            def make(
                shares: tuple[float, ...],
                name: str = name,
                budget: float = budget,
                inner: tuple[Inner, ...] = inner,
            ) -> TableNoise:
                return TableNoise(name, budget, shares, inner, kind == "geometric")

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
