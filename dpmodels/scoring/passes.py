"""One scoring pass over blocks of rows: exact integer sums, and their release.

A row (x, y) becomes ``w = W u``; of it come ``v = sqrt(omega) w`` (information) and the score
``s = w psi``. Each is scaled into its ball, rounded towards zero to a lattice, and summed in
integers. Workers may add up parts: sums
of one fingerprint can be added (``theory.md``, 2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.formula.design import Grid
from dpmodels.proof.sets import STEPS, Ball, Interval, OneHot
from dpmodels.proof.statistics import RankOne, Sum
from dpmodels.scoring import rules
from dpmodels.scoring.models import Evaluate, plain
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.sources.rows import Coins, short
from dpmodels.sums.ask import ALL, Added, Ask, Pass, Query, Read
from dpmodels.sums.products import (
    SHRINK,
    TOP,
    ExactSum,
    cross_product,
    end_along,
    end_in_ball,
    end_of_numbers,
    filled,
    integers_of,
    looked_up,
    mapped,
    squares,
    usable,
    weighted,
)
from dpmodels.sums.rowmap import UnitScale, images_of

Integers = npt.NDArray[np.object_]

#: The exponent of the first bin.
FIRST_EXPONENT = rules.EXPONENT_BIAS - rules.AT_CLIP
#: Parts of a pass that are matrices, in the order of their draw.
MATRICES = ("information", "meat", "ordinary")


@dataclass(frozen=True, eq=False)
class Centre:
    """State at which a pass is evaluated: public or released numbers only."""

    unit: UnitScale  # Scale of the block: columns, auxiliary columns, response
    W0: Array  # (r, p): public coordinates ``u = W0 (unit row)``
    theta: Array  # (r,): fit so far, for u
    W: Array  # (r, r): whitens: ``w = W u``
    phi: float  # A standardised residual is ``(y - eta)/sqrt(phi)``
    evaluate: Evaluate = plain  # Map from rows to (psi, omega) (:mod:`dpmodels.scoring.models`)
    # The model gets the standardised residual; else the linear predictor and the response.
    of_residual: bool = True
    # offset, weights: rows of the block that hold them.
    offset: int | None = None
    weights: int | None = None
    mean_weight: float = 1.0  # Weights count over it


@dataclass(frozen=True)
class PassSums:
    """Exact sums of one pass. **Private**: never leaves the release stage without noise."""

    # information, meat, ordinary: (r, r) object arrays or None; integers in units of ``(R /
    # 2^20)^2``.
    information: Integers
    # (r,) object array: in units of ``(R_H / 2^20) (4 C / 2^20)``; where rows have weights, of ``C
    # / 2^20``.
    score: Integers
    meat: Integers | None
    ordinary: Integers | None
    scale: int  # Squared scores, in units of ``scale_cut / 2^20``
    bins: tuple[int, ...]
    # Scores of rows with weights are in units of ``C / 2^40``, ``far`` of ``2^-40``.
    by_cell: bool = False
    # (r,) object array or None: sum of the directions of scores beyond C, in units of ``2^-20``.
    far: Integers | None = None

    def __add__(self, other: PassSums) -> PassSums:
        parts: dict[str, Any] = {}
        for name in (*MATRICES, "score", "scale", "far"):
            summand = getattr(self, name)
            parts[name] = None if summand is None else summand + getattr(other, name)
        bins = tuple(a + b for a, b in zip(self.bins, other.bins, strict=True))
        return PassSums(**parts, bins=bins, by_cell=self.by_cell)

    def __repr__(self) -> str:
        return f"<sums of a scoring pass, p = {len(self.score)}, confidential>"


def clipped(norm: Array, clip: float) -> Array:
    """Return ``f(|s|) = min(|s|, C)``: the length a score is given."""
    return np.minimum(norm, clip)


def lattice_along(
    z: Array, psi: Array, size: Array, length: Array, radius: float
) -> npt.NDArray[np.int64]:
    """Return the sum of vectors ``sign(psi) size z/|z|`` on the lattice of a ball (``end_along``).

    In exact integers each vector is at most as long as the radius. It differs from a multiple of z
    by at most ``sqrt(p) 2^-20`` of the radius.
    """
    return integers_of(end_along(z, length, radius, size, psi).sum(axis=1))


class Adding:
    """Running sums of one pass over blocks; r is filled up (:func:`filled`) by zeros."""

    def __init__(self, r: int, signed: bool) -> None:
        k = filled(r)
        self.matrices = {name: ExactSum(k, k) for name in MATRICES}
        self.score, self.far = np.zeros(k, dtype=object), np.zeros(k, dtype=object)
        self.scale, self.bins = 0, np.zeros(rules.BINS * (1 + signed), dtype=np.int64)


class Affine(NamedTuple):
    """Affine map of a block of rows to w and to the model's variables (:func:`affine_of`)."""

    # Lattice steps of a unit of v: rows of length R_H are ``2^20 (1 - 2^-36)`` steps long.
    step: float
    turn: Array | None  # Q: rows are mapped to ``Q'w``; None: to w
    matrix: Array
    shift: Array | None


#: Grid of the cells of blocks, images of its cells, and slopes of the numeric variables.
ByCell = tuple[Grid, Array, Array]


@dataclass(frozen=True, eq=False)
class ScorePass:
    """Public map of one pass: a block of rows to integers."""

    plan: PassPlan
    centre: Centre
    # Whether rows are mapped to ``Q'w`` by a triangular matrix. Balls, clips and the distribution
    # of the noise do not depend on directions, and this saves half of the multiplications.
    rotated: bool = False

    def sums(self, blocks: Iterable[Array], coins: Coins | None = None) -> PassSums:
        """Return the exact sums over blocks (:meth:`Passes.over`). Confidential."""
        return Passes((self,)).over(blocks, coins).sums[0]

    def add(self, sums: Adding, block: Any, chosen: Any, by_cell: ByCell | None = None) -> None:
        """Add a block; ``chosen``: its rows of the meat and of the ordinary information."""
        plan, step = self.plan, self.map.step
        z, psi, omega, square, complete = self.rows(block, by_cell)
        length = np.sqrt(square)
        if plan.policy.by_leverage:
            psi = self.by_leverage(psi, square, omega)
        norm = np.abs(psi)
        norm *= length
        norm /= step
        if omega is None:
            # by the rounded rows: all parts of a row are then parallel (theory.md 2.3)
            end_in_ball(z, length)
            v, long = z, length
            score = integers_of(weighted(z, self.factors(psi, norm, length)))
        else:
            # with weights of either sign the information would reach twice as far (theory.md 2.2)
            root = np.sqrt(np.maximum(omega, 0.0))
            v, long = z * root, length * root
            size = clipped(norm, plan.clip)
            score = lattice_along(z, psi, size, length, plan.clip)
        sums.score += score.astype(object)
        if plan.mu_far:
            far = np.flatnonzero(norm > plan.clip)
            ones = np.ones(len(far))
            sums.far += lattice_along(z[:, far], psi[far], ones, length[far], 1.0).astype(object)
        if plan.ordinary:
            sums.matrices["ordinary"].add(scaled(v[:, chosen], long[chosen], plan.ordinary * step))
        if plan.meat:
            # where z was scaled into a ball its score has the same length as before
            size, at = norm[chosen], length[chosen]
            ratio = np.divide(size, at, out=np.zeros_like(at), where=at > 0.0)
            sums.matrices["meat"].add(scaled(z[:, chosen] * ratio, size, plan.meat))
        if omega is not None:
            end_in_ball(v, long)
        sums.matrices["information"].add(cross_product(v))
        if plan.mu_scale:
            sums.scale += int(end_of_numbers(norm * norm / plan.scale_cut, low=0.0).sum())
        if plan.mu_histogram:
            low = ~(psi[complete] > 0.0) if plan.policy.signed else None
            sums.bins += counted_lengths(norm[complete] / plan.clip, low)

    def by_leverage(self, psi: Array, square: Array, omega: Array | None) -> Array:
        """Return psi with the weight that the ball of the information gives a row (Mallows).

        ``min(1, R_H^2/|v|^2)``: step and information are then of one weighted fit. The score of a
        row stays a multiple of its w, whatever psi is (``theory.md``, 2.7). ``square`` is
        ``|w|^2`` in lattice steps of R_H, omega None 1.
        """
        long = square if omega is None else square * np.maximum(omega, 0.0)
        # each row separately: nothing else in the block decides whether it is weighted
        return np.asarray(psi * (TOP**2 / np.maximum(long, TOP**2)))

    def pass_sums(self, sums: Adding) -> PassSums:
        """Return running sums as they leave the pass."""
        r, plan = len(self.centre.theta), self.plan
        matrices: dict[str, Any] = {
            name: total.integers()[:r, :r] if getattr(plan, name) else None
            for name, total in sums.matrices.items()
        }
        return PassSums(
            **matrices, score=sums.score[:r], scale=sums.scale,
            bins=tuple(int(x) for x in sums.bins), far=sums.far[:r] if plan.mu_far else None,
        )  # fmt: skip

    def rows(
        self, block: Any, by_cell: ByCell | None = None
    ) -> tuple[Array, Array, Array | None, Array, Any]:
        """Return :func:`seen_rows`, with w in lattice steps, of a block or of (numbers, cells)."""
        if by_cell is not None:
            (grid, images, slopes), (numbers, cells) = by_cell, block
            weights = self.centre.weights
            at = None if weights is None else grid.numbers.index(weights)
            image = looked_up(images, slopes, numbers, cells)
            return seen_rows(replace(self.centre, weights=at), image, numbers)
        upper = self.centre.W0.shape if self.rotated else (0, 0)
        image = mapped(self.map.matrix, block, upper=upper)
        if self.map.shift is not None:
            image += self.map.shift
        return seen_rows(self.centre, image, block)

    def back(self, released: Any) -> Any:
        """Return the release in the coordinates of the centre: ``Q X Q'``, ``Q s``."""
        turn = self.map.turn
        if turn is None:
            return released
        matrices = {
            name: turn @ part @ turn.T
            for name in MATRICES
            if (part := getattr(released, name)) is not None
        }
        far = None if released.far is None else turn @ released.far
        return replace(released, score=turn @ released.score, far=far, **matrices)

    def factors(self, psi: Array, norm: Array, length: Array) -> Array:
        """Return the integers (m,) by which lattice rows of this length are multiplied.

        A score is the row's own lattice vector z times ``f(|s|)/|z|``, so that both are parallel,
        and no longer than C in exact integers: ``|z| <= length``, and factors round towards zero.
        """
        factor = clipped(norm, self.plan.clip)
        np.copysign(factor, psi, out=factor)
        factor /= length
        factor *= self.map.step
        if not length.min(initial=1.0) > 0.0:
            factor[~(length > 0.0)] = 0.0
        return end_of_numbers(factor, rules.ROW_FACTOR_MAX * self.plan.clip, TOP)

    @functools.cached_property
    def map(self) -> Affine:
        """Affine map of rows, computed once."""
        step = STEPS / self.plan.information * SHRINK
        matrix, shift = affine_of(self.centre, step)
        if not self.rotated:
            return Affine(step, None, matrix, shift)
        r, p = self.centre.W0.shape
        turn, upper = np.linalg.qr(matrix[:r, :p])
        matrix[:r, :p] = np.triu(upper)
        if shift is not None:
            shift[:r] = turn.T @ shift[:r]
        return Affine(step, turn, matrix, shift)


def affine_of(c: Centre, step: float) -> tuple[Array, Array | None]:
    """Return (matrix, shift) of the map of a block to ``step w`` and to the model's variables.

    What the model gets is the last row; rows between are zero, up to a height whose products are
    fast.
    """
    r, p = c.W0.shape
    M = np.zeros((max(r + 1, filled(r)), len(c.unit.scale)))
    M[:r, :p] = step * (c.W @ c.W0)
    if c.of_residual:
        M[-1, :p] = -(c.theta @ c.W0) / math.sqrt(c.phi)
        M[-1, -1] = 1.0 / math.sqrt(c.phi)
    else:
        M[-1, :p] = c.theta @ c.W0
    shift = M @ c.unit.shift
    M *= c.unit.scale
    if c.offset is not None:  # in the user's units, as the response
        M[-1, c.offset] = -M[-1, -1] if c.of_residual else 1.0
    left = c.unit.absorb_shift(M, shift)
    return M, None if left is None else left[:, None]


def seen_rows(
    centre: Centre, image: Array, block: Array
) -> tuple[Array, Array, Array | None, Array, Any]:
    """Return (w, psi, omega, |w|^2, rows not missing) of mapped rows; zero where missing.

    ``image``, of :func:`affine_of`, is overwritten. w is filled up with rows of zeros to a height
    whose products are fast.
    """
    z = image[: filled(len(centre.theta))]
    seen = image[-1]
    if len(z) == len(image):  # its index is that of a row of zeros
        seen = seen.copy()
        image[-1] = 0.0
    psi, omega = centre.evaluate(seen, block[-1])
    if centre.weights is not None:
        weight = block[centre.weights] / centre.mean_weight
        psi = psi * weight
        omega = weight if omega is None else omega * weight
    square = squares(z)
    complete, long = usable(square, psi, omega)
    for mask in (complete, long):
        if mask is not None:
            z[:, ~mask] = 0.0
            square[~mask] = 0.0
    if complete is None:
        return z, psi, omega, square, slice(None)
    psi = np.where(complete, psi, 0.0)  # missing rows: zero, and in no bin
    omega = None if omega is None else np.where(complete, omega, 0.0)
    return z, psi, omega, square, complete


@dataclass(frozen=True, eq=False)
class Passes:
    """Passes that read the same rows at once, for the executor."""

    passes: tuple[ScorePass, ...]
    grid: Grid | None = None  # Blocks are numbers and cells; None: filled rows

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> ManySums:
        """Return the exact sums of each pass over blocks ``(q, m)``, m <= 8192.

        Secret coins choose the rows of the meat and of the ordinary information.

        Privacy
        -------
        The return value is confidential. The image of a row is a function of that row (and its
        coin) alone.
        """
        grid = self.grid
        by_cell = [
            None if grid is None else (grid, *images_of(p.map.matrix, p.map.shift, grid))
            for p in self.passes
        ]
        adding = [Adding(len(p.centre.theta), p.plan.policy.signed) for p in self.passes]
        with np.errstate(all="ignore"):
            for block in short(blocks):
                m = block.shape[1] if grid is None else len(block[1])
                chosen: Any = slice(None) if coins is None else coins.choose(m)
                for score_pass, sums, images in zip(self.passes, adding, by_cell, strict=True):
                    score_pass.add(sums, block, chosen, images)
        pairs = zip(self.passes, adding, strict=True)
        return ManySums(tuple(score_pass.pass_sums(added) for score_pass, added in pairs))


@dataclass(frozen=True)
class ManySums:
    """The sums of several passes. **Private**."""

    sums: tuple[PassSums, ...]

    def __add__(self, other: ManySums) -> ManySums:
        return ManySums(tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)))


def scaled(v: Array, length: Array, radius: float) -> Array:
    """Return ``sum v v'`` over rows scaled into the ball, in squared lattice steps of ``radius``.

    Rows, lengths and radius in one unit, whichever.
    """
    return cross_product(end_along(v, length, radius))


def counted_lengths(relative: Array, low: Any = None) -> npt.NDArray[np.int64]:
    """Count lengths over C by half octaves: octaves of the square, the exponents of its floats.

    ``low``: True where a row is of the second lot of bins, which then stand behind the first.
    """
    # 2^octave <= square < 2^(octave + 1); a zero has the least exponent
    bins = (relative * relative).view(np.int64)
    bins >>= rules.MANTISSA_BITS
    bins -= FIRST_EXPONENT
    np.clip(bins, 0, rules.BINS - 1, out=bins)
    if low is not None:
        bins += rules.BINS * low
    counts = np.bincount(bins, minlength=rules.BINS * (1 if low is None else 2))
    return np.asarray(counts.astype(np.int64))


# -- The release of a scoring pass: its matrices and scores jointly, scale and histogram apart.
#
# The contribution of one unit is in a :class:`~dpmodels.proof.statistics.RankOne`, made of the
# radii and noises of the pass; its sensitivity is the prover's business. A plan that asks for less
# noise than its radii need gets a larger sensitivity at the charged mu, not less noise.


@dataclass(frozen=True, eq=False)
class Released:
    """Noisy sums of one pass, in real units."""

    # information, meat, ordinary: (r, r) arrays or None
    information: Array
    score: Array  # (r,)
    meat: Array | None = None
    ordinary: Array | None = None
    scale: float | None = None
    bins: Array | None = None  # (k,)
    # (k,): signed histogram: lengths of positive scores less those of negative ones.
    signed: Array | None = None
    far: Array | None = None  # (r,): the sum of the directions of scores beyond C


def joint_statistic(plan: PassPlan, r: int) -> RankOne:
    """Return the joint statistic of a pass: its radii, and the noise that it asks for."""
    radii = {name: radius for name in MATRICES if (radius := getattr(plan, name))}
    noise = tuple(getattr(plan.noise, name) for name in radii)
    return RankOne(r, tuple(radii.values()), noise, plan.clip, plan.noise.score, plan.people)


def _joint(sums: PassSums, plan: PassPlan) -> Added:
    """Return matrices and scores with the sizes of their integers, entry by entry."""
    r = len(sums.score)
    values, steps = [], []
    for name in MATRICES:
        if radius := getattr(plan, name):
            values.append(getattr(sums, name))
            steps.append(np.full(r * (r + 1) // 2, (radius / STEPS) ** 2))
    lattice = plan.clip / STEPS  # of an integer of the scores: by their route
    if not plan.weighted:
        lattice *= plan.information / STEPS * rules.ROW_FACTOR_MAX
    elif sums.by_cell:
        lattice /= STEPS
    steps.append(np.full(r, lattice))
    return Added((*values, sums.score), np.concatenate(steps))


def ask_pass(
    ask: Ask, plan: PassPlan, over: Pass, pick: Callable[[Any], PassSums], label: str, r: int,
    read: Read = ALL,
) -> Released:  # fmt: skip
    """Release the sums of a pass for one model, which ``pick`` selects from the sums ``over`` rows.

    Privacy
    -------
    ``mu_joint``-, ``mu_scale``-, ``mu_histogram``- and ``mu_far``-GDP for one unit
    (``theory.md``, 2).
    """
    statistic = joint_statistic(plan, r)
    joint = Query(statistic, over, lambda sums: _joint(pick(sums), plan))
    *matrices, score = statistic.parts(ask(f"information and scores {label}", joint, read).values)
    names = [name for name in MATRICES if getattr(plan, name)]
    out: dict[str, Any] = dict(zip(names, matrices, strict=True), score=score)
    if plan.mu_scale:
        square = Query(
            Sum(Interval(0, int(STEPS))), over,
            lambda sums: Added(np.array([pick(sums).scale], dtype=object)),
            plan.scale_cut / STEPS,
        )  # fmt: skip
        out["scale"] = float(ask(f"scale {label}", square, read).values[0])
    if plan.mu_histogram:
        signed = plan.policy.signed
        counts = Query(
            Sum(OneHot(rules.BINS * (1 + signed))), over,
            lambda sums: Added(np.array(pick(sums).bins, dtype=object)),
        )  # fmt: skip
        bins = ask(f"score lengths {label}", counts, read).values
        if signed:
            out["signed"] = bins[:rules.BINS] - bins[rules.BINS:]
            bins = bins[:rules.BINS] + bins[rules.BINS:]
        out["bins"] = bins
    if plan.mu_far:

        def directions(sums: Any) -> Added:  # by cell on a finer lattice
            pass_sums = pick(sums)
            return Added(pass_sums.far, STEPS**-2 if pass_sums.by_cell else 1.0 / STEPS)

        out["far"] = ask(f"far scores {label}", Query(Sum(Ball(r)), over, directions), read).values
    return Released(**out)
