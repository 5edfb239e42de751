"""Noise of a table, chosen by public rules, and the consistent table after the noise."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpmodels.arrays import Array, brent
from dpmodels.lazy import special
from dpmodels.models.table.layout import TOTAL, Layout
from dpmodels.privacy.mechanisms import Gaussian, Pure
from dpmodels.proof.prove import noise_of
from dpmodels.proof.statistics import Cells

# -- Consistent tables from noisy ones: least squares in closed form (``theory.md``, 1.3).
#
# Every measured table is a complete margin of the joint table of its axes, with independent noise
# of one variance. The space of tables splits into orthogonal *effects*, one a set S of axes: what a
# table over S has beyond its own margins. Least squares ``(A'WA)^{-1} A'W y`` is then the mean of
# the effects that the tables show, weighted by precision: no matrix is formed.


Axes = tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """A noisy margin."""

    axes: Axes  # Increasing
    values: Array  # Cells, in the shape of its axes
    variance: float  # Variance of the noise of every cell
    laplace: float = 0.0  # Scale of the noise if it is Laplace, else 0


@dataclass(frozen=True)
class Spread:
    """Law of the noise of a cell, by its variance and kurtosis.

    ``Laplace(scale) + N(0, variance - 2 scale^2)``; ``scale`` is 0 where the noise is Gaussian.
    """

    variance: float
    scale: float = 0.0


def subsets(axes: Axes) -> list[Axes]:
    """Return every subset, smaller ones first."""
    return [s for k in range(len(axes) + 1) for s in itertools.combinations(axes, k)]


class Effects:
    """Least squares effects of the measured tables, which make every consistent table.

    ``sizes``: number of cells of each axis. ``total``: public number of rows, or None if it is
    private. A set ``s`` of axes is a tuple of their numbers, increasing.
    """

    def __init__(
        self, sizes: Sequence[int], tables: Iterable[Measured], total: float | None
    ) -> None:
        self.sizes = tuple(sizes)
        self.tables = tuple(tables)
        self.total = total
        self._effect: dict[Axes, Array] = {}
        # Noise variance of a cell of the margin over s that is pooled from all tables that have it
        self._variance = {}
        for s in {s for t in self.tables for s in subsets(t.axes)}:
            used = [
                t.variance * self._cells(set(t.axes) - set(s))  # of a cell of its margin over s
                for t in self.tables
                if set(s) <= set(t.axes)
            ]
            exact = not s and total is not None
            self._variance[s] = 0.0 if exact else 1.0 / math.fsum(1.0 / v for v in used)

    def _cells(self, axes: Iterable[int]) -> float:
        """Return the number of cells of a table over some axes."""
        return float(math.prod(self.sizes[j] for j in axes))

    def effect(self, s: Axes) -> Array:
        """Return the effect of the axes ``s``: a table over them that sums to 0 along each.

        It is the mean over the measured tables, weighted by precision. Without axes it is the
        total.
        """
        if s in self._effect:
            return self._effect[s]
        if not s and self.total is not None:
            value = np.array(float(self.total))
        else:
            value = np.zeros([self.sizes[j] for j in s])
            for table in self.tables:
                if set(s) <= set(table.axes):
                    summed = tuple(i for i, j in enumerate(table.axes) if j not in s)
                    margin = table.values.sum(axis=summed)
                    for i in range(len(s)):
                        margin = margin - margin.mean(axis=i, keepdims=True)
                    spread = table.variance * self._cells(set(table.axes) - set(s))
                    weight = self._variance[s] / spread
                    value = value + margin * weight
        self._effect[s] = value
        return value

    def table(self, axes: Axes) -> Array:
        """Return the consistent table over ``axes`` (increasing): least squares, all tables."""
        out = np.zeros([self.sizes[j] for j in axes])
        for s in subsets(axes):
            shape = [self.sizes[j] if j in s else 1 for j in axes]
            spread = self._cells(set(axes) - set(s))
            out = out + self.effect(s).reshape(shape) / spread
        return out

    def variance(self, axes: Axes) -> float:
        """Return the noise variance of a cell of :meth:`table`."""
        return self.covariance(axes, axes)

    def covariance(self, axes: Axes, margin: Axes) -> float:
        """Return the noise covariance of a cell over ``axes`` with its cell of a ``margin``.

        ``margin`` is a subset of the axes, and its cell is the one that the cell is summed into.
        """
        return math.fsum(
            self._variance[s]
            * math.prod(1.0 - 1.0 / self.sizes[j] for j in s)
            / self._cells(set(axes) - set(s))
            / self._cells(set(margin) - set(s))
            for s in subsets(margin)
        )

    def noise_covariance(self, axes: Axes) -> Array:
        """Return the noise covariance of the cells of a table, each axis without its last cell.

        It is ``sum over S of v_S prod_{j in S} (same_j - 1/k_j) / prod_{j not in S} k_j^2``, over
        the subsets S of the axes. v_S is the variance of the pooled margin over S, k_j the size of
        axis j, and same_j is 1 for two cells of one place on axis j, else 0.
        """
        sizes = [self.sizes[j] for j in axes]
        out = np.zeros([math.prod(k - 1 for k in sizes)] * 2)
        for s in subsets(axes):
            part = np.ones((1, 1))
            for j, k in zip(axes, sizes, strict=True):
                factor = np.eye(k - 1) - 1.0 / k if j in s else np.full((k - 1, k - 1), 1.0 / k**2)
                # their Kronecker product: numpy's own takes ten times as long to begin
                part = part[:, None, :, None] * factor[None, :, None, :]
                part = part.reshape(len(part) * (k - 1), -1)
            out += self._variance[s] * part
        return out

    def along(self, axes: Axes, axis: int) -> Array:
        """Return the noise covariance (k, k) of the k cells along one axis of a table.

        ``axes``: those of the table, ``axis`` included. The places on the others are held fixed.
        """
        k = self.sizes[axis]
        out = np.zeros((k, k))
        for s in subsets(axes):
            others = [j for j in axes if j != axis]
            part = self._variance[s] * math.prod(
                1.0 - 1.0 / self.sizes[j] if j in s else 1.0 / self.sizes[j] ** 2 for j in others
            )
            out += part * (np.eye(k) - 1.0 / k if axis in s else np.full((k, k), 1.0 / k**2))
        return out

    def spread(self, axes: Axes) -> Spread:
        """Return the law of the noise of a cell over ``axes``: its variance and fourth moment."""
        fourth = 0.0
        for place, t in enumerate(self.tables):
            if t.laplace > 0:  # the weight of one cell of it in every cell of ``axes``
                impulse = [Measured(o.axes, np.zeros(o.values.shape), o.variance)
                           for o in self.tables]  # fmt: skip
                impulse[place].values[(0,) * len(t.axes)] = 1.0
                other = Effects(self.sizes, impulse, None if self.total is None else 0.0)
                weights = other.table(axes)
                fourth += t.laplace**4 * float((weights**4).sum()) * t.values.size / weights.size
        return Spread(self.variance(axes), fourth**0.25)


# -- Intervals with the noise in them (``theory.md``, 1.4 to 1.6)


def critical(spread: Spread, level: float, extra: float = 0.0) -> float:
    """Return c with ``P(|noise + N(0, extra)| <= c) = level``.

    With a Laplace part of scale b and a normal part of sd s the tail beyond c is
    ``ndtr(-c/s) + [e^{s^2/2b^2 - c/b} ndtr(c/s - s/b) - e^{s^2/2b^2 + c/b} ndtr(-c/s - s/b)] / 2``.
    """
    b = spread.scale
    variance = max(spread.variance - 2.0 * b * b, 0.0) + extra
    sd = math.sqrt(spread.variance + extra)
    tail = (1.0 - level) / 2.0
    if sd == 0.0:
        return 0.0
    if b * b < 1e-4 * sd * sd:
        return -float(special.ndtri(tail)) * sd
    s = math.sqrt(variance)
    if s < 1e-6 * b:
        return b * math.log(1.0 / (2.0 * tail))
    return brent(lambda c: _tail(c, b, s) - tail, 0.0, 60.0 * sd, xtol=1e-12 * sd)


def _tail(c: float, b: float, s: float) -> float:
    """Return P(Laplace(b) + N(0, s^2) > c), c >= 0."""
    k = 0.5 * (s / b) ** 2
    up = math.exp(k - c / b + float(special.log_ndtr(c / s - s / b)))
    down = math.exp(k + c / b + float(special.log_ndtr(-c / s - s / b)))
    return float(special.ndtr(-c / s)) + 0.5 * (up - down)


def share_interval(
    share: Array, n: float | Array, tau: float | Array, z: float | Array
) -> tuple[Array, Array]:
    """Return Wilson's interval of a share with noise of sd ``tau`` on it.

    ``[p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2 + tau^2 (1 + z^2/n))] / (1 + z^2/n)``: the p with
    ``(share - p)^2 <= z^2 (p(1-p)/n + tau^2)``. Ends outside [0, 1] are left to the print.
    """
    p = np.asarray(share, dtype=float)
    n, z = np.asarray(n, dtype=float), np.asarray(z, dtype=float)
    lift = z * z / n
    # a noisy share may lie outside [0, 1]: the discriminant is that of the quadratic all the same
    inside = p * (1.0 - p) / n + lift / (4.0 * n) + np.square(tau) * (1.0 + lift)
    half = z * np.sqrt(np.maximum(inside, 0.0))
    # noise may put the whole set outside [0, 1]: then the nearest share is all that is left
    middle = np.where(inside < 0, np.clip(p, 0.0, 1.0) * (1.0 + lift), p + lift / 2.0)
    return (middle - half) / (1.0 + lift), (middle + half) / (1.0 + lift)


def fieller(total: Array, count: Array, variance: Array, z: float) -> tuple[Array, Array]:
    """Return the set of m with ``(T - m N)^2 <= z^2 (a + m^2 b)``, NaN if it is not an interval.

    ``variance`` (2, ...): a (of T - m N at m = 0: sampling and noise) and b (noise of the count).
    """
    a, b = variance
    lead = count**2 - z * z * b
    inner = (total * count) ** 2 - lead * (total**2 - z * z * a)
    with np.errstate(all="ignore"):
        root = np.sqrt(inner)
        low, high = (total * count - root) / lead, (total * count + root) / lead
    open_ = ~(lead > 0)
    return np.where(open_, np.nan, low), np.where(open_, np.nan, high)


# -- Which noise a table gets, and how its parts divide the budget: rules on public facts.


@dataclass(frozen=True)
class TableNoise:
    """The noise of every table of a call."""

    kind: str
    budget: float  # mu, or eps, of the joint release
    shares: tuple[float, ...]  # Shares of the blocks, in mu^2 or in eps
    whole: bool = False  # Integer noise on integer counts (the geometric mechanism)

    @functools.cached_property
    def scales(self) -> Array:
        """Noise scale of the cells of every block (sd, or the scale of Laplace noise)."""
        tables = Cells((1,) * len(self.shares), self.shares)
        mechanism = Pure(self.budget) if self.kind == "laplace" else Gaussian(self.budget)
        return noise_of(tables, mechanism, "replace")

    def sds(self, layout: Layout) -> Array:
        """Return the noise scale of every cell of the tables of a layout."""
        return np.repeat(self.scales, layout.lengths)

    def measured(self, layout: Layout, noisy: Array | None, total: float | None) -> Effects:
        """Return the effects of the noisy tables, which are given flat and concatenated.

        If ``noisy`` is None the effects have variances only. The total is that of all units; where
        a table has an unused cell, what counts is the total less that cell, and as noisy.
        """
        tables, at = [], 0
        for b, (block, size) in enumerate(zip(layout.blocks, layout.lengths, strict=True)):
            shape = [layout.axes[j].size for j in block.axes]
            laplace = float(self.scales[b]) if self.kind == "laplace" else 0.0
            noise = self.variance(b), laplace
            values, unused = np.zeros((0,) * len(shape)), 0.0
            if noisy is not None:
                values = noisy[at : at + math.prod(shape)].reshape(shape)
                unused = float(noisy[at + size - 1])
            at += size
            tables.append(Measured(block.axes, values, *noise))
            if layout.unused:
                tables.append(Measured((), np.array((total or 0.0) - unused), *noise))
        sizes = [axis.size for axis in layout.axes]
        return Effects(sizes, tables, None if layout.unused else total)

    def variance(self, block: int) -> float:
        """Return the noise variance of the cells of a block."""
        scale = float(self.scales[block])
        if self.kind == "gaussian":
            return scale * scale
        if not self.whole:
            return 2.0 * scale * scale
        q = math.exp(-1.0 / scale)
        return 2.0 * q / (1.0 - q) ** 2

    def loss(self, layout: Layout) -> float:
        """Return the mean log noise sd of the printed counts and sums of consistent tables.

        The shares of the blocks are chosen to make it small (:func:`_divided`).
        """
        effects = self.measured(layout, None, 0.0)
        variances = []
        for section in layout.sections:
            if section.kind == "counts":
                variances.append(effects.variance(section.axes))
            elif section.kind == "means":  # the sum of a numeric variable is TOTAL times its cells
                axis = layout.number_axis(section.number)
                covariance = effects.along(tuple(sorted((*section.axes, axis))), axis)
                variances.append(float(TOTAL @ covariance @ TOTAL))
        return 0.5 * math.fsum(math.log(max(v, 1e-300)) for v in variances) / len(variances)


#: More blocks than this share equally: the search would take seconds.
_MOST_BLOCKS = 12


def _divided(layout: Layout, make: Callable[[tuple[float, ...]], TableNoise]) -> TableNoise:
    """Return the noise whose shares of the budget have the least loss (:meth:`TableNoise.loss`).

    The shares are equal unless the axes of one block contain those of another.
    """
    m = len(layout.blocks)
    equal = make((1.0 / m,) * m)
    nested = any(set(a.axes) < set(b.axes) for a in layout.blocks for b in layout.blocks)
    if m == 1 or not nested or m > _MOST_BLOCKS:
        return equal
    from scipy.optimize import minimize

    def shares(logits: Array) -> tuple[float, ...]:
        e = np.exp(np.append(logits, 0.0) - max(0.0, float(logits.max())))
        e = np.maximum(e / e.sum(), 1e-4)
        return tuple((e / e.sum()).tolist())

    result = minimize(
        lambda x: make(shares(x)).loss(layout), np.zeros(m - 1), method="L-BFGS-B",
        bounds=[(-6.0, 6.0)] * (m - 1), options={"maxiter": 60},
    )  # fmt: skip
    best = make(tuple(round(s, 6) for s in shares(result.x)))
    total = math.fsum(best.shares)
    best = make(tuple(s / total for s in best.shares))
    return best if best.loss(layout) < equal.loss(layout) else equal


def table_noise(layout: Layout, kind: str, mu: float, eps: float) -> tuple[TableNoise, str]:
    """Return the noise of a table, of the given kind ("auto" is a choice), and the reason for it.

    ``mu`` is the budget of a release with Gaussian noise, and ``eps`` that with Laplace noise. It
    is 0 if that kind is not possible.
    """
    candidates: dict[str, TableNoise] = {}
    for name, budget in (("laplace", eps), ("gaussian", mu)):
        if budget > 0 and (kind in ("auto", name) or (kind, name) == ("geometric", "laplace")):
            make = functools.partial(TableNoise, name, budget, whole=kind == "geometric")
            candidates[name] = _divided(layout, make)
    losses = {name: noise.loss(layout) for name, noise in candidates.items()}
    best = min(losses, key=losses.__getitem__)
    reason = f"noise: {candidates[best].kind if kind != 'geometric' else 'geometric'}"
    if len(candidates) > 1:
        other = next(n for n in candidates if n != best)
        ratio = math.exp(losses[other] - losses[best])
        reason += (
            f", the narrower at this guarantee: {other} noise would be {ratio:.2f} times as wide "
            "for this table"
        )
    elif kind == "auto":
        why = "delta = 0" if best == "laplace" else "ranges are estimated with Gaussian noise"
        reason += f", because {why}"
    return candidates[best], reason
