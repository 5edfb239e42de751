"""One scoring pass over blocks of rows: exact integer sums, and their release.

A row (x, y) becomes ``w = W u``; of it come ``v = sqrt(omega) w`` (information) and the score
``s = w psi``. Each is scaled into its ball, rounded towards zero to a lattice, and added up in
integers. Workers may add up parts: sums
of one fingerprint can be added (``theory.md``, 2).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.formula.design import Grid
from dpmodels.proof.sets import STEPS, Ball, Interval, OneHot
from dpmodels.proof.statistics import RankOne, Sum
from dpmodels.scoring.rules import FAR, KEPT, PassPlan
from dpmodels.scoring.scores import Evaluate, plain
from dpmodels.sources.rows import Coins, short
from dpmodels.sums.ask import ALL, Added, Ask, Pass, Query, Read
from dpmodels.sums.products import (
    SHRINK,
    TOP,
    Limbs,
    cross_product,
    end,
    end_along,
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

#: Scores are kept up to ``KEPT`` C, then grow linearly to C at this part of it.
_REACHED = 0.8
#: Bins of ``|s| / C``: half octaves, end bins open; bin ``AT_CLIP`` begins at C.
BINS, AT_CLIP = 14, 9
#: A float64: bits of its mantissa, bias of its exponent.
_MANTISSA, _BIAS = 52, 1023
#: The exponent of the first bin.
FIRST = _BIAS - AT_CLIP
#: Largest factor of a row in a score, over C: rows shorter than 1/4 are clipped earlier.
FACTOR = 4.0


@dataclass(frozen=True, eq=False)
class Centre:
    """Where a pass looks from: public or released numbers only."""

    unit: UnitScale  # Of the block: columns, what stands aside, response
    W0: Array  # (r, p): public coordinates ``u = W0 (unit row)``
    theta: Array  # (r,): fit so far, for u
    W: Array  # (r, r): whitens: ``w = W u``
    phi: float  # A standardised residual is ``(y - eta)/sqrt(phi)``
    evaluate: Evaluate = plain  # Of the model (:mod:`dpmodels.scoring.scores`)
    # The model sees the standardised residual; else the linear predictor and the response.
    of_residual: bool = True
    # offset, weights: rows of the block that hold them.
    offset: int | None = None
    weights: int | None = None


@dataclass(frozen=True)
class PassSums:
    """Exact sums of one pass. **Private**: never leaves the release stage without noise."""

    # information, meat, spread: (r, r) object arrays or None; integers in units of ``(R /
    # 2^20)^2``.
    information: Integers
    # (r,) object array: in units of ``(R_H / 2^20) (4 C / 2^20)``; where rows have weights, of ``C
    # / 2^20``.
    score: Integers
    meat: Integers | None
    spread: Integers | None
    scale: int  # In units of ``6 p / 2^20``
    bins: tuple[int, ...]
    # Scores of rows with weights are in units of ``C / 2^40``, ``far`` of ``3 C / 2^40``.
    by_cell: bool = False
    # (r,) object array or None: what scores are beyond C, in units of ``3 C / 2^20``.
    far: Integers | None = None

    def __add__(self, other: PassSums) -> PassSums:
        def both(a: Any, b: Any) -> Any:
            return None if a is None else a + b

        return PassSums(
            self.information + other.information,
            self.score + other.score,
            both(self.meat, other.meat),
            both(self.spread, other.spread),
            self.scale + other.scale,
            tuple(a + b for a, b in zip(self.bins, other.bins, strict=True)),
            self.by_cell,
            both(self.far, other.far),
        )

    def __repr__(self) -> str:
        return f"<sums of a scoring pass, p = {len(self.score)}, confidential>"


def softened(norm: Array, clip: float, plain: bool = False) -> Array:
    """Return f(|s|): the length a score is given. ``sup f = C``.

    f(r) = r up to .65 C, linear to C at .8 C, C beyond: rows just below C stand for those beyond.
    Where these are none, or of another kind (``plain``), f(r) = min(r, C).
    """
    if plain:
        return np.minimum(norm, clip)
    slope = (1.0 - KEPT) / (_REACHED - KEPT)
    out = norm - KEPT * clip
    out *= slope
    out += KEPT * clip
    np.maximum(norm, out, out=out)
    return np.minimum(out, clip, out=out)


def beyond_clip(norm: Array, plan: PassPlan) -> Array:
    """Return ``min(|s|, FAR C) - f(|s|)``, in [0, 3 C]: what a clipped score is short of."""
    size = np.minimum(norm, FAR * plan.clip)
    size -= softened(norm, plan.clip, plan.unsoftened)
    return np.maximum(size, 0.0, out=size)


def lattice_along(
    z: Array, psi: Array, size: Array, length: Array, radius: float
) -> npt.NDArray[np.int64]:
    """Return the sum of vectors ``sign(psi) size z/|z|`` on the lattice of a ball (``end_along``).

    No longer than the radius in exact integers, and within ``sqrt(p) 2^-20`` of it of a multiple
    of z.
    """
    return integers_of(end_along(z, length, radius, size, psi).sum(axis=1))


@dataclass(eq=False)
class Adding:
    """The running sums of one pass over blocks; r is filled up (:func:`filled`) by zeros."""

    limbs: dict[str, Limbs]
    score: Integers
    far: Integers
    scale: int
    bins: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ScorePass:
    """The public map of one pass: a block of rows to integers."""

    plan: PassPlan
    centre: Centre
    # Rows are mapped to ``Q'w``, by a triangular matrix: balls, clips and the law of the noise know
    # no direction, and half of the multiplications of a row fall away.
    rotated: bool = False
    grid: Grid | None = None  # Blocks are numbers and cells; None: filled rows

    def sums(self, blocks: Iterable[Array], coins: Coins | None = None) -> PassSums:
        """Return the exact sums over blocks ``(q, m)``, m <= 8192.

        Parameters
        ----------
        blocks : iterable of arrays
        coins : Coins or None
            Secret coins that choose the rows of the meat and of the ordinary information.

        Privacy
        -------
        The return value is confidential. The image of a row is a function of that row (and its
        coin) alone.
        """
        (out,) = sums_of_passes((self,), blocks, coins)
        return out

    def empty(self) -> Adding:
        """Return the sums over no block."""
        k = filled(len(self.centre.theta))
        limbs = {name: Limbs(k) for name in ("information", "meat", "spread")}
        bins = np.zeros(BINS * (1 + self.plan.policy.signed), dtype=np.int64)
        return Adding(limbs, np.zeros(k, dtype=object), np.zeros(k, dtype=object), 0, bins)

    def add(self, sums: Adding, block: Any, chosen: Any) -> None:
        """Add a block; ``chosen``: its rows of the meat and of the ordinary information."""
        plan = self.plan
        z, psi, omega, square, whole = self._rows(block)
        length = np.sqrt(square)
        psi = self.by_leverage(psi, square, omega)
        norm = np.abs(psi)
        norm *= length
        norm /= self.step
        v, long = z, length
        if omega is not None:
            # with weights of either sign the information would reach twice as far (theory.md 2.2)
            root = np.sqrt(np.maximum(omega, 0.0))
            v, long = z * root, length * root
            self._add_some(sums, (v, long), (z, length), norm, chosen)
            sums.score += self._own_scores(z, psi, norm, length).astype(object)
            if plan.mu_far:
                sums.far += self._far_scores(z, psi, norm, length).astype(object)
        end(v, long)
        sums.limbs["information"].add(cross_product(v))
        if omega is None:
            # by the rounded rows: all parts of a row are then parallel (theory.md 2.3)
            rows = (v, long)
            self._add_some(sums, rows, rows, norm, chosen)
            sums.score += self._scores(v, psi, norm, long).astype(object)
            if plan.mu_far:
                sums.far += self._far_scores(v, psi, norm, long).astype(object)
        if plan.mu_scale:
            sums.scale += int(end_of_numbers(norm * norm / plan.scale_cut, low=0.0).sum())
        if plan.mu_histogram:
            relative = norm[whole] / plan.clip
            if plan.policy.signed:
                sums.bins += lengths_by_sign(relative, psi[whole])
            else:
                sums.bins += counted_lengths(relative)

    def by_leverage(self, psi: Array, square: Array, omega: Array | None) -> Array:
        """Return psi with the weight that the ball of the information gives a row (Mallows).

        Parameters
        ----------
        psi : (m,) array
        square : (m,) array
            ``|w|^2`` in lattice steps of R_H.
        omega : (m,) array or None
            None: 1.

        Notes
        -----
        ``min(1, R_H^2/|v|^2)``: step and information are then of one weighted fit. The score of a
        row stays a multiple of its w, whatever psi is (``theory.md``, 2.7).
        """
        if not self.plan.policy.by_leverage:
            return psi
        long = square if omega is None else square * np.maximum(omega, 0.0)
        # every row by itself: no look at the block decides whether it is weighted
        return np.asarray(psi * (TOP**2 / np.maximum(long, TOP**2)))

    def _add_some(
        self, sums: Adding, v: tuple[Array, Array], z: tuple[Array, Array], norm: Array, chosen: Any
    ) -> None:
        """Add chosen rows of the ordinary information (v) and the meat (scores along z).

        Parameters
        ----------
        v, z : (rows, lengths)
        norm : (m,) array
            Lengths of scores: where z was pulled into a ball its score is as long as ever.
        """
        plan, step = self.plan, self.step
        if not plan.spread:
            return
        part, long = v[0][:, chosen], v[1][chosen]
        sums.limbs["spread"].add(scaled(part, long, plan.spread * step))
        if plan.meat:
            if z is not v:
                part, long = z[0][:, chosen], z[1][chosen]
            size = norm[chosen]
            ratio = np.divide(size, long, out=np.zeros_like(long), where=long > 0.0)
            sums.limbs["meat"].add(scaled(part * ratio, size, plan.meat))

    def done(self, sums: Adding) -> PassSums:
        """Return running sums as they leave the pass."""
        r = len(self.centre.theta)

        def matrix(name: str) -> Integers:
            return sums.limbs[name].integers()[:r, :r]

        return PassSums(
            matrix("information"),
            sums.score[:r],
            matrix("meat") if self.plan.meat else None,
            matrix("spread") if self.plan.spread else None,
            sums.scale,
            tuple(int(x) for x in sums.bins),
            far=sums.far[:r] if self.plan.mu_far else None,
        )

    def _rows(self, block: Any) -> tuple[Array, Array, Array | None, Array, Any]:
        """Return :func:`seen_rows`, w in lattice steps."""
        if self.grid is None:
            return seen_rows(self.centre, self._image(block), block)
        numbers, cells = block
        weights = self.centre.weights
        at = None if weights is None else self.grid.numbers.index(weights)
        image = looked_up(*self._images, numbers, cells)
        return seen_rows(replace(self.centre, weights=at), image, numbers)

    @functools.cached_property
    def _images(self) -> tuple[Array, Array]:
        """Images of the cells, and what each number adds."""
        assert self.grid is not None
        return images_of(*self.affine, self.grid)

    def scored(self, block: Array) -> tuple[Array, Array, Array]:
        """Return (w in lattice steps, its length, psi) of rows: the score is ``w psi``."""
        z, psi, omega, square, _ = self._rows(block)
        return z[: len(self.centre.theta)], np.sqrt(square), self.by_leverage(psi, square, omega)

    @property
    def turn(self) -> Array | None:
        """Q: rows are mapped to ``Q'w``; None: to w."""
        return self._map[0]

    def _image(self, block: Array) -> Array:
        """Return (w in lattice steps, what the model sees) of rows, NaN where one is missing."""
        matrix, shift = self.affine
        upper = self.centre.W0.shape if self.rotated else (0, 0)
        image = mapped(matrix, block, upper=upper)
        if shift is not None:
            image += shift
        return image

    def back(self, released: Any) -> Any:
        """Return what was released in the coordinates of the centre: ``Q X Q'``, ``Q s``."""
        turn = self._map[0]
        if turn is None:
            return released
        whole = {
            name: turn @ part @ turn.T
            for name in ("information", "meat", "spread")
            if (part := getattr(released, name)) is not None
        }
        far = None if released.far is None else turn @ released.far
        return replace(released, score=turn @ released.score, far=far, **whole)

    @property
    def step(self) -> float:
        """Lattice steps of a unit of v: rows of length R_H are ``2^20 (1 - 2^-36)`` steps long."""
        return STEPS / self.plan.information * SHRINK

    def _scores(self, z: Array, psi: Array, norm: Array, length: Array) -> npt.NDArray[np.int64]:
        """Return the sum over a block of clipped scores: integer rows z times integer factors.

        A score is the row's own lattice vector z times ``f(|s|)/|z|``, so that both are parallel,
        and no longer than C in exact integers: ``|z| <= length``, and factors round towards zero.
        """
        return integers_of(weighted(z, self.factors(psi, norm, length)))

    def factors(self, psi: Array, norm: Array, length: Array) -> Array:
        """Return the integers (m,) by which lattice rows of this length are multiplied."""
        factor = softened(norm, self.plan.clip, self.plan.unsoftened)
        np.copysign(factor, psi, out=factor)
        factor /= length
        factor *= self.step
        if not length.min(initial=1.0) > 0.0:
            factor[~(length > 0.0)] = 0.0
        return end_of_numbers(factor, FACTOR * self.plan.clip, TOP)

    def _own_scores(
        self, z: Array, psi: Array, norm: Array, length: Array
    ) -> npt.NDArray[np.int64]:
        """Return the sum over a block of clipped scores on a lattice of their own, steps of C."""
        size = softened(norm, self.plan.clip, self.plan.unsoftened)
        return lattice_along(z, psi, size, length, self.plan.clip)

    def _far_scores(
        self, z: Array, psi: Array, norm: Array, length: Array
    ) -> npt.NDArray[np.int64]:
        """Return the sum over a block of what scores are beyond C, on a lattice in steps of 3 C."""
        some = np.flatnonzero(norm > KEPT * self.plan.clip)
        size = beyond_clip(norm[some], self.plan)
        return lattice_along(z[:, some], psi[some], size, length[some], self.plan.far)

    @property
    def affine(self) -> tuple[Array, Array | None]:
        """Return the affine map of a block to w in lattice steps and to what the model sees.

        Matrix and shift. What the model sees is the last row; rows between are zero.
        """
        return self._map[1:]

    @functools.cached_property
    def _map(self) -> tuple[Array | None, Array, Array | None]:
        """Return (turn Q or None, matrix, shift)."""
        matrix, shift = affine_of(self.centre, self.step)
        if not self.rotated:
            return None, matrix, shift
        r, p = self.centre.W0.shape
        turn, upper = np.linalg.qr(matrix[:r, :p])
        matrix[:r, :p] = np.triu(upper)
        if shift is not None:
            shift[:r] = turn.T @ shift[:r]
        return turn, matrix, shift


def affine_of(c: Centre, step: float) -> tuple[Array, Array | None]:
    """Return (matrix, shift) of the map of a block to ``step w`` and to what the model sees.

    What the model sees is the last row; rows between are zero, up to a height whose products are
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
    left = c.unit.taken(M, shift)
    return M, None if left is None else left[:, None]


def seen_rows(
    centre: Centre, image: Array, block: Array
) -> tuple[Array, Array, Array | None, Array, Any]:
    """Return (w, psi, omega, |w|^2, rows not missing) of mapped rows; zero where missing.

    Parameters
    ----------
    image : (k, m) array
        Of :func:`affine_of`; overwritten. w is filled up with rows of zeros to a height whose
        products are fast.
    """
    z = image[: filled(len(centre.theta))]
    seen = image[-1]
    if len(z) == len(image):  # it stands where a row of zeros is to be
        seen = seen.copy()
        image[-1] = 0.0
    psi, omega = centre.evaluate(seen, block[-1])
    if centre.weights is not None:
        weight = block[centre.weights]
        psi = psi * weight
        omega = weight if omega is None else omega * weight
    square = squares(z)
    there, long = usable(square, psi, omega)
    for kept in (there, long):
        if kept is not None:
            z[:, ~kept] = 0.0
            square[~kept] = 0.0
    if there is None:
        return z, psi, omega, square, slice(None)
    psi = np.where(there, psi, 0.0)  # missing rows: zero, and in no bin
    omega = None if omega is None else np.where(there, omega, 0.0)
    return z, psi, omega, square, there


def sums_of_passes(
    passes: Sequence[ScorePass], blocks: Iterable[Any], coins: Coins | None = None
) -> tuple[PassSums, ...]:
    """Return the exact sums of several passes that read the same rows at once.

    Privacy
    -------
    As :meth:`ScorePass.sums`, of each.
    """
    adding = [one.empty() for one in passes]
    with np.errstate(all="ignore"):
        for block in short(blocks):
            m = len(block[1]) if isinstance(block, tuple) else block.shape[1]
            chosen: Any = slice(None) if coins is None else coins.choose(m)
            for one, sums in zip(passes, adding, strict=True):
                one.add(sums, block, chosen)
    return tuple(one.done(sums) for one, sums in zip(passes, adding, strict=True))


@dataclass(frozen=True, eq=False)
class Passes:
    """Passes that read the same rows at once, for whoever adds up."""

    passes: tuple[ScorePass, ...]

    @property
    def grid(self) -> Grid | None:
        """The grid of whose cells blocks are; None: they are filled."""
        return self.passes[0].grid

    def over(self, blocks: Iterable[Any], coins: Coins | None = None) -> ManySums:
        """Return the sums of each pass. Confidential."""
        return ManySums(sums_of_passes(self.passes, blocks, coins))


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
    # 2^octave <= square < 2^(octave + 1); of zero the exponent is the least there is
    bins = (relative * relative).view(np.int64)
    bins >>= _MANTISSA
    bins -= FIRST
    np.clip(bins, 0, BINS - 1, out=bins)
    if low is not None:
        bins += BINS * low
    found = np.bincount(bins, minlength=BINS * (1 if low is None else 2))
    return np.asarray(found.astype(np.int64))


def lengths_by_sign(relative: Array, psi: Array) -> npt.NDArray[np.int64]:
    """Count lengths over C of positive scores, then of the others: a row lies in one bin."""
    return counted_lengths(relative, ~(psi > 0.0))


# -- The release of a scoring pass: its matrices and scores jointly, scale and histogram apart.
#
# What one unit may add is a :class:`~dpmodels.proof.statistics.RankOne`, made of the radii and
# noises of the pass; how far that moves is the prover's business. A plan that asks for less noise
# than its radii need gets a larger sensitivity at the charged mu, not less noise.


#: Parts of a pass that are matrices, in the order of their draw.
MATRICES = ("information", "meat", "spread")


@dataclass(frozen=True, eq=False)
class Released:
    """The noisy sums of one pass, in real units."""

    # information, meat, spread: (r, r) arrays or None
    information: Array
    score: Array  # (r,)
    meat: Array | None = None
    spread: Array | None = None
    scale: float | None = None
    bins: Array | None = None  # (k,)
    # (k,): of a histogram by sign: lengths of positive scores less those of negative ones.
    signed: Array | None = None
    far: Array | None = None  # (r,): what scores are beyond C


def by_name(passes: Sequence[Released], label: str) -> dict[str, Any]:
    """Return what the passes of one model released, by name: of the last one all of it.

    Parameters
    ----------
    label : str
        Of the model; empty: the only one.
    """
    end = f" ({label})" if label else ""
    values: dict[str, Any] = {}
    for k, sums in enumerate(passes, 1):
        values |= {f"information {k}{end}": sums.information, f"scores {k}{end}": sums.score}
    last = passes[-1]
    parts = {"meat": last.meat, "ordinary": last.spread, "bins": last.bins, "far": last.far}
    return values | {name + end: part for name, part in parts.items() if part is not None}


def _matrices(plan: PassPlan) -> tuple[str, ...]:
    """Return the matrices that a pass releases."""
    return tuple(name for name in MATRICES if getattr(plan, name))


def joint_statistic(plan: PassPlan, r: int) -> RankOne:
    """Return the joint statistic of a pass: its radii, and the noise that it asks for."""
    names = _matrices(plan)
    return RankOne(
        r,
        tuple(getattr(plan, name) for name in names),
        tuple(getattr(plan.noise, name) for name in names),
        plan.clip,
        plan.noise.score,
        plan.people,
    )


def _score_step(sums: PassSums, plan: PassPlan) -> float:
    """Return the size of an integer of the scores, which follows from their route."""
    lattice = plan.clip / STEPS
    if not plan.weighted:
        return lattice * (plan.information / STEPS * FACTOR)
    return lattice / STEPS if sums.by_cell else lattice


def _joint(sums: PassSums, plan: PassPlan) -> Added:
    """Return matrices and scores with the sizes of their integers, entry by entry."""
    r = len(sums.score)
    values, steps = [], []
    for name in _matrices(plan):
        values.append(getattr(sums, name))
        steps.append(np.full(r * (r + 1) // 2, (getattr(plan, name) / STEPS) ** 2))
    steps.append(np.full(r, _score_step(sums, plan)))
    return Added((*values, sums.score), np.concatenate(steps))


def ask_pass(
    ask: Ask, plan: PassPlan, over: Pass, pick: Callable[[Any], PassSums], label: str, r: int,
    read: Read = ALL,
) -> Released:  # fmt: skip
    """Release the sums of a pass.

    Parameters
    ----------
    over : Pass
        Of one or several chains.
    pick : function
        The sums of this chain among those of the pass.
    r : int
        Dimension of the scores.

    Privacy
    -------
    ``mu_joint``-, ``mu_scale``-, ``mu_histogram``- and ``mu_far``-GDP for one unit
    (``theory.md``, 2).
    """
    statistic = joint_statistic(plan, r)
    joint = Query(statistic, over, lambda sums: _joint(pick(sums), plan))
    *matrices, score = statistic.parts(ask(f"information and scores {label}", joint, read).values)
    out: dict[str, Any] = dict(zip(_matrices(plan), matrices, strict=True), score=score)
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
            Sum(OneHot(BINS * (1 + signed))), over,
            lambda sums: Added(np.array(pick(sums).bins, dtype=object)),
        )  # fmt: skip
        bins = ask(f"score lengths {label}", counts, read).values
        if signed:
            out["signed"] = bins[:BINS] - bins[BINS:]
            bins = bins[:BINS] + bins[BINS:]
        out["bins"] = bins
    if plan.mu_far:
        far = Query(Sum(Ball(r)), over, lambda sums: _far(pick(sums)), plan.far)
        out["far"] = ask(f"far scores {label}", far, read).values
    return Released(**out)


def _far(sums: PassSums) -> Added:
    """Return what scores are beyond C: by cell on a finer lattice."""
    return Added(sums.far, STEPS**-2 if sums.by_cell else 1.0 / STEPS)
