"""Clip set of a scoring pass: all that a row adds lies along one vector w.

A row has a vector w, a score psi and a weight omega. It adds ``v v'``, ``v = sqrt(omega) w`` in the
ball of R_H, to the information, and ``s = w psi`` in the ball of C to the scores; ``s s'`` to the
meat, the square of ``|s|`` to the scale, and one bin to a histogram of ``|s|/C``. Each is scaled
into its ball, rounded towards zero to a lattice, and summed in integers (``scoring/theory.md``, 2).
The last pass of least squares cuts scores at C and at 2 C in one draw, so that what the first clip
took is known with its error (2.8).

Where every predictor is a function of levels (a *grid*), w is one of K public vectors. A row then
adds integer multiples of its cell's lattice vector, and only sums by cell are kept
(``scoring/theory.md``, 2.6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.core.rows import CellRows, Rows
from dpmodels.core.sets import Part
from dpmodels.proof.sets import STEPS, Interval, OneHot
from dpmodels.proof.statistics import RankOne, Sum
from dpmodels.sums.ask import Added, Noisy
from dpmodels.sums.cells import (
    LOW_NOISE,
    MULTIPLE,
    Adding,
    ByCell,
    checked,
    directions,
    gram_of,
    narrow,
    sum_of,
)
from dpmodels.sums.products import (
    LEAST,
    SHORTEST,
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
    squares,
    usable,
    weighted,
)

Integers = npt.NDArray[np.object_]

#: Number of bins of ``|s|/C``, one per half octave. The first and the last are open.
BINS = 14
#: Index of the bin that begins at C.
AT_CLIP = 9
#: Largest factor by which a row is multiplied in its score, over C. Scores of rows shorter than 1/4
#: are therefore clipped earlier (``scoring/theory.md``, 2.1).
ROW_FACTOR_MAX = 4.0
#: Dimension up to which 90 coordinates of w may depend on numbers by cell; beyond it 3 may (2.6).
_MANY_NUMBERS, _DIMENSION, _FEW_NUMBERS = 90, 3000, 3
#: Bits of the mantissa of a float64, and bias of its exponent.
MANTISSA_BITS, EXPONENT_BIAS = 52, 1023
#: Lengths below this part of C are in the first bin.
_LOWEST = 2.0 ** (0.5 * (1 - AT_CLIP))
#: Length of the second and third block of a score over what they measure (theory 2.8).
ROOT = math.sqrt(0.75)
#: Matrices of a pass, in the order of their draw.
MATRICES = ("information", "meat")


@dataclass(frozen=True)
class PassSums:
    """Exact sums of one pass. **Confidential**: never leaves the release stage without noise.

    Between the parts of a table, sums by cell are (K,) arrays of multiples.
    """

    # information, meat: (r, r) object arrays or None; integers in units of ``(R / 2^20)^2``.
    information: Integers
    # (k r,) object array, the k blocks one behind the other: in units of ``(R_H / 2^20) (4 C /
    # 2^20)``; where rows have weights, of ``C / 2^20``.
    score: Integers
    meat: Integers | None
    scale: int  # Squared scores, in units of ``scale_cut / 2^20``
    bins: tuple[int, ...]
    fine: bool = False  # Scores are in units of ``C / 2^40``

    def __add__(self, other: PassSums) -> PassSums:
        parts: dict[str, Any] = {}
        for name in (*MATRICES, "score", "scale"):
            summand = getattr(self, name)
            parts[name] = None if summand is None else summand + getattr(other, name)
        bins = tuple(a + b for a, b in zip(self.bins, other.bins, strict=True))
        return PassSums(**parts, bins=bins)

    def __repr__(self) -> str:
        return f"<sums of a scoring pass, p = {len(self.score)}, confidential>"


@dataclass(frozen=True, eq=False)
class Released:
    """Noisy sums of one pass, in real units."""

    # information, meat: (r, r) arrays or None
    information: Array
    score: Array  # (r,)
    meat: Array | None = None
    scale: float | None = None
    bins: Array | None = None  # (k,)
    # (1 or 2, r): sums of ``t e`` and ``t' e``: what the clip and the weights of long rows took, up
    # to C, in units of C.
    taken: Array | None = None


def costs_of_pass(plan: Any, name: str) -> tuple[tuple[str, float], ...]:
    """Return name and mu of each release of a pass; a mu of 0 means that it is not released."""
    return (
        (f"information and scores {name}", plan.mu_joint), (f"scale {name}", plan.mu_scale),
        (f"score lengths {name}", plan.mu_histogram),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Parallel:
    """The sums of a scoring pass: all parts of a row lie along one vector w.

    A formula returns w (in lattice steps, :attr:`step` per unit), psi and omega (or None for 1).
    Radii, clip and noise are those of ``plan``. No proof depends on how they were chosen.
    """

    plan: Any  # :class:`dpmodels.scoring.pass_plan.PassPlan`
    r: int  # Dimension of w
    cells: ClassVar[str] = "some"
    of_units: ClassVar[bool] = False
    of_people: ClassVar[bool] = False

    @property
    def step(self) -> float:
        """Lattice steps of a unit of w: rows of length R_H are ``2^20 (1 - 2^-36)`` long."""
        return STEPS / self.plan.information * SHRINK

    def by_cell(self, w: CellRows, *_: Any) -> ParallelByCell | None:
        """Return the object that sums rows by cell, from the image of no row, or None."""
        of = ParallelByCell(self, w)
        most = _MANY_NUMBERS if self.r <= _DIMENSION else _FEW_NUMBERS
        return of if len(of.places) <= min(most, len(w.grid.numbers)) else None

    def adding(self, of: ParallelByCell | None) -> Any:
        """Return running sums of zero."""
        blocks = self.plan.blocks
        return _Adding(self.r, blocks) if of is None else (of, _AddingByCell(of, blocks))

    def add(self, sums: Any, chosen: Any, w: Any, psi: Any, omega: Any) -> None:
        """Add a block; ``chosen`` are its rows of the meat."""
        if isinstance(sums, tuple):
            of, by = sums
            return of.add(by, w, chosen, psi, omega)
        plan = self.plan
        z, psi, omega, length, present = self.vectors(w, psi, omega)
        norm = self.norms(psi, length)
        # with weights of either sign the information would reach twice as far (2.2)
        root = None if omega is None else np.sqrt(np.maximum(omega, 0.0))
        long = length if root is None else length * root
        parts = self.blocks(psi, norm, long)
        if root is None:
            # by the rounded rows: all parts of a row are then parallel (scoring/theory.md 2.3)
            end_in_ball(z, length)
            v, long = z, length
        else:
            v = z * root
        for i, part in enumerate(parts):
            # most rows lose nothing to the clip
            rows = np.flatnonzero(part) if i else slice(None)
            sums.score[i] += self.scores(z[:, rows], part[rows], length[rows], root).astype(object)
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
            sums.bins += counted_lengths(norm[present] / plan.clip)

    def vectors(
        self, w: Any, psi: Rows, omega: Rows | None
    ) -> tuple[Array, Array, Array | None, Array, Any]:
        """Return (w, psi, omega, ``|w|``, complete rows) as :func:`complete_rows` does.

        psi has the weight that the ball gives a long row, if the policy says so.
        """
        z, factor, weight, square, present = complete_rows(self.r, w, psi, omega)
        if self.plan.policy.by_leverage:
            factor = by_leverage(factor, square, weight)
        return z, factor, weight, np.sqrt(square), present

    def norms(self, psi: Array, length: Array) -> Array:
        """Return the lengths (m,) of scores."""
        norm = np.abs(psi)
        norm *= length
        norm /= self.step
        return np.asarray(norm)

    def blocks(self, psi: Array, norm: Array, long: Array) -> tuple[Array, ...]:
        """Return the signed lengths (m,) of the blocks of a score: along e, together at most C.

        One block is the score cut at C, ``a C``. With two clips they are ``(a - (t + t')/2) C``,
        ``ROOT t C`` and, where rows are weighted by leverage, ``ROOT t' C``: t is what a clip at
        2 C adds, and t' what a row longer than R_H lost by its weight, up to C. One of t and t' is
        0 in every row (``scoring/theory.md``, 2.8). ``long``: length of v in lattice steps.
        """
        plan, C = self.plan, self.plan.clip
        size = np.minimum(norm, C)
        if not plan.two_clips:
            return (np.copysign(size, psi, out=size),)
        taken = np.zeros((plan.blocks - 1, len(norm)))
        np.minimum(norm - size, C, out=taken[0])
        if plan.policy.by_leverage:
            rows = np.flatnonzero(long > TOP)
            taken[0, rows] = 0.0
            ahead = long[rows] / TOP
            taken[1, rows] = np.minimum(norm[rows] * ahead * ahead - size[rows], C)
        size -= 0.5 * taken.sum(axis=0)
        sign = np.sign(psi)
        return (sign * size, *(sign * ROOT * taken))

    def scores(
        self, z: Array, part: Array, length: Array, root: Array | None
    ) -> npt.NDArray[np.int64]:
        """Return the sum of one block of scores; ``root`` is None where rows have no weights."""
        if root is None:
            return integers_of(weighted(z, self.factors(part, length)))
        return lattice_along(z, part, length, self.plan.clip)

    def factors(self, part: Array, length: Array) -> Array:
        """Return the integers (m,) by which lattice rows of this length are multiplied.

        A block of a score is the row's own lattice vector z times ``part/|z|``, so that both are
        parallel, and no longer than ``part`` in exact integers: ``|z| <= length``, and factors
        round towards zero.
        """
        factor = part / length
        factor *= self.step
        if not length.min(initial=1.0) > 0.0:
            factor[~(length > 0.0)] = 0.0
        return end_of_numbers(factor, ROW_FACTOR_MAX * self.plan.clip, TOP)

    def exact(self, sums: Any) -> PassSums:
        """Return the exact sums as they leave a part of the table."""
        r, plan = self.r, self.plan
        if isinstance(sums, tuple):
            by = {name: exact.integers() for name, exact in sums[1].by.items()}
            bins = tuple(int(x) for x in sums[1].bins)
            return PassSums(**by, scale=sums[1].scale, bins=bins)
        parts: dict[str, Any] = {
            name: total.integers()[:r, :r] if getattr(plan, name) else None
            for name, total in sums.matrices.items()
        }
        return PassSums(
            **parts, score=sums.score[:, :r].reshape(-1), scale=sums.scale,
            bins=tuple(int(x) for x in sums.bins),
        )  # fmt: skip

    def finish(self, sums: PassSums, of: ParallelByCell) -> PassSums:
        """Return the exact sums of all rows, from those by cell."""
        return of.pass_sums(sums)

    @property
    def statistic(self) -> RankOne:
        """Joint statistic of matrices and scores: its radii, and the noise that the plan asks for.

        A plan that asks for less noise than its radii need gets a larger sensitivity at the charged
        mu, not less noise.
        """
        plan = self.plan
        radii = {name: radius for name in MATRICES if (radius := getattr(plan, name))}
        noise = tuple(getattr(plan.noise, name) for name in radii)
        return RankOne(
            self.r, tuple(radii.values()), noise, plan.clip, plan.noise.score, plan.people,
            plan.blocks,
        )  # fmt: skip

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return matrices and scores, which are released jointly, and scale and histogram.

        Privacy
        -------
        ``mu_joint``-, ``mu_scale``- and ``mu_histogram``-GDP for one unit (``scoring/theory.md``,
        2).
        """
        plan = self.plan
        every = (
            (self.statistic, self._joint, 1.0),
            (
                Sum(Interval(0, int(STEPS))),
                lambda sums: Added(np.array([sums.scale], dtype=object)),
                plan.scale_cut / STEPS,
            ),
            (
                Sum(OneHot(BINS)),
                lambda sums: Added(np.array(sums.bins, dtype=object)),
                1.0,
            ),
        )
        named = zip(costs_of_pass(plan, name), every, strict=True)
        return tuple(Part(label, *how) for (label, mu), how in named if mu)

    def together(self, noisy: Sequence[Noisy]) -> Released:
        """Return the released sums of the pass."""
        plan, parts = self.plan, iter(noisy)
        *matrices, score = self.statistic.parts(next(parts).values)
        names = [name for name in MATRICES if getattr(plan, name)]
        first, *taken = score.reshape(plan.blocks, self.r)
        out: dict[str, Any] = dict(zip(names, matrices, strict=True), score=first)
        if taken:
            out["taken"] = np.array(taken) / (ROOT * plan.clip)
        if plan.mu_scale:
            out["scale"] = float(next(parts).values[0])
        if plan.mu_histogram:
            out["bins"] = next(parts).values
        return Released(**out)

    def _joint(self, sums: PassSums) -> Added:
        """Return matrices and scores with the sizes of their integers, entry by entry."""
        r, plan = self.r, self.plan
        values, steps = [], []
        for name in MATRICES:
            if radius := getattr(plan, name):
                values.append(getattr(sums, name))
                steps.append(np.full(r * (r + 1) // 2, (radius / STEPS) ** 2))
        lattice = plan.clip / STEPS  # of an integer of the scores: by their route
        if sums.fine:
            lattice /= STEPS
        elif not plan.weighted:
            lattice *= plan.information / STEPS * ROW_FACTOR_MAX
        steps.append(np.full(plan.blocks * r, lattice))
        return Added((*values, sums.score), np.concatenate(steps))


class _Adding:
    """Running sums of one pass over blocks; r is filled up (:func:`filled`) by zeros."""

    def __init__(self, r: int, blocks: int) -> None:
        k = filled(r)
        self.matrices = {name: ExactSum(k, k) for name in MATRICES}
        self.score = np.zeros((blocks, k), dtype=object)
        self.scale, self.bins = 0, np.zeros(BINS, dtype=np.int64)


def complete_rows(
    r: int, w: Any, psi: Rows, omega: Rows | None
) -> tuple[Array, Array, Array | None, Array, Any]:
    """Return (w, psi, omega, ``|w|^2``, complete rows) of what a formula returned.

    All are zero for rows that are not complete. w (r, m) is filled up with rows of zeros to a
    height whose products are fast.
    """
    factor = psi.numbers[0]
    weight = None if omega is None else omega.numbers[0]
    z = w.padded(filled(r))
    if np.may_share_memory(factor, z):  # psi of least squares is the last row of the image
        factor = factor.copy()
    z[r:] = 0.0
    square = squares(z)
    present, long = usable(square, factor, weight)
    for mask in (present, long):
        if mask is not None:
            z[:, ~mask] = 0.0
            square[~mask] = 0.0
    if present is None:
        return z, factor, weight, square, slice(None)
    factor = np.where(present, factor, 0.0)  # missing rows: zero, and in no bin
    weight = None if weight is None else np.where(present, weight, 0.0)
    return z, factor, weight, square, present


def by_leverage(psi: Array, square: Array, omega: Array | None) -> Array:
    """Return psi with the weight that the ball of the information gives a row (Mallows).

    ``min(1, R_H^2/|v|^2)``: step and information are then of one weighted fit. The score of a row
    stays a multiple of its w, whatever psi is (``scoring/theory.md``, 2.7). ``square`` is ``|w|^2``
    in lattice steps of R_H, omega None 1. Nothing else in the block decides whether a row is
    weighted.
    """
    long = square if omega is None else square * np.maximum(omega, 0.0)
    return np.asarray(psi * (TOP**2 / np.maximum(long, TOP**2)))


def lattice_along(z: Array, part: Array, length: Array, radius: float) -> npt.NDArray[np.int64]:
    """Return the sum of vectors ``part z/|z|`` on the lattice of a ball (``end_along``).

    In exact integers each vector is at most as long as its part. It differs from a multiple of z by
    at most ``sqrt(p) 2^-20`` of the radius.
    """
    return integers_of(end_along(z, length, radius, np.abs(part), part).sum(axis=1))


def scaled(v: Array, length: Array, radius: float) -> Array:
    """Return ``sum v v'`` over rows scaled into the ball, in squared lattice steps of ``radius``.

    Rows, lengths and radius in one unit, whichever.
    """
    return cross_product(end_along(v, length, radius))


def counted_lengths(relative: Array) -> npt.NDArray[np.int64]:
    """Count lengths over C by half octaves: octaves of the square, the exponents of its floats."""
    # 2^octave <= square < 2^(octave + 1); a zero has the least exponent
    bins = (relative * relative).view(np.int64)
    bins >>= MANTISSA_BITS
    bins -= EXPONENT_BIAS - AT_CLIP
    np.clip(bins, 0, BINS - 1, out=bins)
    return np.asarray(np.bincount(bins, minlength=BINS).astype(np.int64))


# -- The same sums by cell: w of a row is that of its cell, but for d coordinates.


class _AddingByCell:
    """Running sums by cell of one pass."""

    def __init__(self, of: ParallelByCell, blocks: int) -> None:
        d = len(of.places)
        self.by: dict[str, Any] = {name: Adding(of.cells, d) for name in MATRICES}
        self.by["score"] = ByCell(blocks * (of.cells + d))
        self.scale, self.bins = 0, np.zeros(BINS, dtype=np.int64)


class ParallelByCell:
    """A pass by cells: a row is rounded to multiples of its cell's lattice vector.

    Coordinates that depend on numbers of the row are rounded separately.

    Attributes
    ----------
    missing : (K,) bool array
        Cells without a vector.
    places : list of int
        The d coordinates that depend on numbers; the arrays below are 0 there.
    length : (K,) array
        ``|w|`` in lattice steps of R_H.
    zeta : (r, K) array
        Lattice vector that information and scores are multiples of: for unweighted rows without
        numbers w itself, in the ball of R_H.
    kept : (K,) array
        Its length in this ball, before rounding.
    ahead : (r, K) array
        The same direction at length 2^20, of which all other sums are multiples.
    """

    def __init__(self, into: Parallel, w: CellRows) -> None:
        self.into, grid = into, w.grid
        assert w.images is not None
        self.cells, slopes = grid.cells, w.images[1][: into.r]
        self.places = np.flatnonzero(slopes.any(axis=1)).tolist()
        self.apart = into.plan.weighted or bool(self.places)
        with np.errstate(all="ignore"):
            z = np.array(w.images[0][: into.r], order="C")
            self.numeric = z[self.places], slopes[self.places]
            complete, _ = usable(squares(z))
            self.missing = grid.missing if complete is None else grid.missing | ~complete
            z[self.places] = 0.0
            z[:, self.missing | ~(squares(z) >= LEAST)] = 0.0
            self.length = np.sqrt(squares(z))
            self.kept, self.ahead = self.length.copy(), directions(z)[0]
            self.zeta = self.ahead
            if not self.apart:
                self.zeta = z
                end_in_ball(z, self.kept)
                checked(z)
                # all parts of a row along one lattice vector; those of w where that is zero
                self.ahead = np.where(z.any(axis=0), directions(z)[0], self.ahead)

    def add(
        self, sums: _AddingByCell, w: CellRows, chosen: Any, psi: Rows, omega: Rows | None
    ) -> None:
        """Add rows of cells (m,); ``chosen`` are those of the meat."""
        plan = self.into.plan
        factor, weight, length, norm, cells, chosen, ahead = self._complete(w, chosen, psi, omega)
        by = sums.by

        def put(to: Adding, length: Array, radius: float, rows: Any) -> None:
            k = _multiples(length[rows], radius, ahead[:, rows])
            to.add(cells[rows], k[0], k[1:])

        long = length if weight is None else length * np.sqrt(np.maximum(weight, 0.0))
        if plan.meat:
            put(by["meat"], norm, plan.meat, chosen)
        if self.apart:
            put(by["information"], long, TOP, slice(None))
            numbers = self.cells + np.arange(len(self.places))
            # over C, as multiples of a vector of full length
            for i, part in enumerate(self.into.blocks(factor, norm, long)):
                at = i * (self.cells + len(self.places))
                k = end_of_numbers(part * ahead, plan.clip, MULTIPLE)
                by["score"].add_rows(cells + at, k[0])
                by["score"].add_rows(numbers + at, k[1:].sum(axis=1))
        else:
            by["information"].squares.add_rows(cells)
            self._add_scores(by["score"], factor, norm, length, cells)
        if plan.mu_scale:
            sums.scale += int(end_of_numbers(norm * norm / plan.scale_cut, low=0.0).sum())
        if plan.mu_histogram:
            far = np.flatnonzero(norm >= _LOWEST * plan.clip)
            sums.bins += counted_lengths(norm[far] / plan.clip)
            sums.bins[0] += len(norm) - len(far)

    def _complete(
        self, w: CellRows, chosen: Any, psi: Rows, omega: Rows | None
    ) -> tuple[Array, Array | None, Array, Array, Any, Any, Array]:
        """Return (psi, omega, ``|w|``, ``|s|``, cells, chosen, e) of the rows that are complete.

        e (1 + d, m): lengths of the cell's part and of the numeric coordinates over ``|w|``.
        """
        factor, weight = psi.numbers[0], None if omega is None else omega.numbers[0]
        cells = w.cells
        if self.missing.any():  # public
            factor = np.where(self.missing[cells], np.nan, factor)
        length, ahead = self.length.take(cells), np.ones((1, len(cells)))
        if self.places:
            ahead = np.vstack([length, looked_up(*self.numeric, w.values, cells)])
            length = np.sqrt(squares(ahead))
            length[length < SHORTEST] = 0.0
            ahead *= np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
        if self.into.plan.policy.by_leverage:
            factor = by_leverage(factor, length * length, weight)
        norm = self.into.norms(factor, length)
        present, _ = usable(length, factor, weight)
        if present is not None:
            rows = np.flatnonzero(present)
            if not isinstance(chosen, slice):
                mark = np.zeros(len(cells), dtype=bool)
                mark[chosen] = True
                chosen = np.flatnonzero(mark[rows])
            factor, length, norm, cells = factor[rows], length[rows], norm[rows], cells[rows]
            weight = None if weight is None else weight[rows]
            ahead = ahead[:, rows]
        return factor, weight, length, norm, cells, chosen, ahead

    def _add_scores(self, by: ByCell, psi: Array, norm: Array, length: Array, cells: Any) -> None:
        """Add :meth:`Parallel.factors`: psi, made smaller for long scores and rows."""
        clip, cut = self.into.plan.clip, self.kept < self.length
        k = end_of_numbers(psi, ROW_FACTOR_MAX * clip, TOP)
        others = norm > clip
        others |= np.abs(k) >= TOP - 1.0
        if cut.any():  # public
            others |= cut.take(cells)
        few = np.flatnonzero(others)
        in_ball = self.kept.take(cells[few])
        parts = self.into.blocks(psi[few], norm[few], length[few])
        k[few], *taken = (self.into.factors(part, in_ball) for part in parts)
        by.add_rows(cells, k)
        for i, part in enumerate(taken, 1):
            by.add_rows(cells[few] + i * self.cells, part)

    def pass_sums(self, by: PassSums) -> PassSums:
        """Return the sums of a pass from its sums by cell, of all rows. **Confidential**."""
        plan, of, meat = self.into.plan, cast("Any", by), None
        if plan.meat:
            meat = of.meat.gram(self.ahead, self.places)
        if self.apart:
            information = of.information.gram(self.zeta, self.places)
        else:
            information = gram_of(self.zeta, of.information.squares)
        scores = []
        for part in np.split(by.score, plan.blocks):
            scores.append(sum_of(self.zeta, part[: self.cells]).astype(object))
            scores[-1][self.places] = part[self.cells :] << LOW_NOISE
        score = narrow(np.concatenate(scores))
        return PassSums(information, score, meat, by.scale, by.bins, self.apart)


def _multiples(length: Array, radius: float, ahead: Array | float = 1.0) -> Array:
    """Return at most ``trunc(2^20 (1 - 2^-24) min(1, length/radius) ahead)``, for any row."""
    return end_of_numbers(np.minimum(length, radius) * ahead / radius, steps=MULTIPLE)
