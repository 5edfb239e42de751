"""One scoring pass over blocks of rows: exact integer sums, and their release.

A row (x, y) becomes ``v = W u`` and its score ``s = v psi / sqrt(phi)``; each is scaled into its
ball, rounded towards zero to a lattice, and added up in integers. Workers may add up parts: sums
of one fingerprint can be added (``theory.md``, 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.exact.gram import Words
from dpmodels.exact.products import cross_product, mapped
from dpmodels.exact.rowmap import STEPS, UnitScale
from dpmodels.privacy.run import Run
from dpmodels.scoring.rules import PassPlan
from dpmodels.sources.windows import Coins

__all__ = ["AT_CLIP", "BINS", "Centre", "PassSums", "Released", "ScorePass", "release_pass"]

Integers = npt.NDArray[np.object_]

#: Factor on rows in balls: pays for the float rounding of norm, factor and product.
_SHRINK = 1.0 - 2.0**-36
#: Scores are kept up to this part of C, then grow linearly to C at ``_REACHED`` C.
_KEPT, _REACHED = 0.65, 0.8
#: Bins of ``|s| / C``: half octaves, end bins open; bin ``AT_CLIP`` begins at C.
BINS, AT_CLIP = 14, 9
#: Largest factor of a row in a score, over C: rows shorter than 1/4 are clipped earlier.
FACTOR = 4.0


@dataclass(frozen=True, eq=False)
class Centre:
    """Where a pass looks from: public or released numbers only.

    Attributes
    ----------
    unit : UnitScale
        Of the block, response last.
    W0 : (r, p) array
        Public coordinates ``u = W0 (unit row)``.
    theta : (r,) array
        Fit so far, for u, in units of the unit response.
    W : (r, r) array
        Symmetric root of the inverse information per row.
    phi : float
        Scale: a score is ``v psi / sqrt(phi)``.
    """

    unit: UnitScale
    W0: Array
    theta: Array
    W: Array
    phi: float


@dataclass(frozen=True)
class PassSums:
    """Exact sums of one pass. **Private**: never leaves the release stage without noise.

    Attributes
    ----------
    information, meat, spread : (r, r) object arrays or None
        Integers in units of ``(R / 2^20)^2``.
    score : (r,) object array
        In units of ``(R_H / 2^20) (4 C / 2^20)``.
    scale : int
        In units of ``6 p / 2^20``.
    bins : tuple of int
    """

    information: Integers
    score: Integers
    meat: Integers | None
    spread: Integers | None
    scale: int
    bins: tuple[int, ...]

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
        )

    def __repr__(self) -> str:
        return f"<sums of a scoring pass, p = {len(self.score)}, confidential>"


@dataclass(frozen=True, eq=False)
class Released:
    """The noisy sums of one pass, in real units.

    Attributes
    ----------
    information, meat, spread : (r, r) arrays or None
    score : (r,) array
    scale : float or None
    bins : (k,) array or None
    """

    information: Array
    score: Array
    meat: Array | None = None
    spread: Array | None = None
    scale: float | None = None
    bins: Array | None = None


def softened(norm: Array, clip: float) -> Array:
    """Return f(|s|): the length a score is given. ``sup f = C``.

    f(r) = r up to .65 C, linear to C at .8 C, C beyond: rows just below C stand for those beyond.
    """
    slope = (1.0 - _KEPT) / (_REACHED - _KEPT)
    return np.minimum(np.maximum(norm, _KEPT * clip + slope * (norm - _KEPT * clip)), clip)


@dataclass(frozen=True, eq=False)
class ScorePass:
    """The public map of one pass: a block of rows to integers.

    Attributes
    ----------
    plan : PassPlan
    centre : Centre
    """

    plan: PassPlan
    centre: Centre

    def sums(self, blocks: Iterable[Array], coins: Coins | None = None) -> PassSums:
        """Return the exact sums over blocks ``(q, m)``, m <= 8192, which are overwritten.

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
        plan, r = self.plan, len(self.centre.theta)
        words = {name: Words(r) for name in ("information", "meat", "spread")}
        score = np.zeros(r, dtype=object)
        scale, bins = 0, np.zeros(BINS, dtype=np.int64)
        matrix, shift, still = self._matrix()
        with np.errstate(all="ignore"):
            for block in blocks:
                w = mapped(matrix, block, still)
                if shift is not None:
                    w += shift
                z, residual = w[:-1], w[-1]  # rows in lattice steps already, not yet in the ball
                square = np.einsum("ij,ij->j", z, z)
                size = np.abs(residual)
                whole: Any = slice(None)
                if not math.isfinite(float(square @ size)):  # missing rows: zero, and in no bin
                    whole = np.isfinite(square * size)
                    w[:, ~whole] = 0.0
                    square[~whole] = size[~whole] = 0.0
                length = np.sqrt(square)
                norm = length * size
                norm /= self._step
                if plan.meat or plan.spread:
                    at: Any = slice(None) if coins is None else coins.choose(len(norm))
                    part = z[:, at]
                    words["spread"].add(_product(part, length[at], plan.spread * self._step))
                    if plan.meat:
                        long = norm[at] * self._step
                        words["meat"].add(
                            _product(part * residual[at], long, plan.meat * self._step)
                        )
                _into_ball(z, length)
                words["information"].add(cross_product(z))
                score += self._scores(z, residual, norm, length).astype(object)
                if plan.mu_scale:
                    cut = plan.scale_cut
                    scale += int(np.trunc(np.minimum(norm * norm / cut, 1.0) * STEPS).sum())
                if plan.mu_histogram:
                    bins += _lengths(norm[whole] / plan.clip)
        matrices = {name: _integers(x) for name, x in words.items()}
        return PassSums(
            matrices["information"],
            score,
            matrices["meat"] if plan.meat else None,
            matrices["spread"] if plan.spread else None,
            scale,
            tuple(int(x) for x in bins),
        )

    @property
    def _step(self) -> float:
        """Lattice steps of a unit of v: rows of length R_H are ``2^20 (1 - 2^-36)`` steps long."""
        return STEPS / self.plan.information * _SHRINK

    def _scores(
        self, z: Array, residual: Array, norm: Array, length: Array
    ) -> npt.NDArray[np.int64]:
        """Return the sum over a block of clipped scores: integer rows z times integer factors.

        A score is the row's own lattice vector z times ``f(|s|)/|z|``, so that both are parallel,
        and no longer than C in exact integers: ``|z| <= length``, and factors round towards zero.
        """
        factor = softened(norm, self.plan.clip)
        np.copysign(factor, residual, out=factor)
        factor /= length
        factor *= self._step
        factor[~(length > 0.0)] = 0.0
        most = FACTOR * self.plan.clip
        np.clip(factor, -most, most, out=factor)
        factor *= STEPS / most * _SHRINK
        out: npt.NDArray[np.int64] = (z @ np.trunc(factor, out=factor)).astype(np.int64)
        return out

    def _matrix(self) -> tuple[Array, Array | None, bool]:
        """Return the affine map of a block to (v in lattice steps, residual / sqrt(phi)).

        Matrix, shift, and whether the image of a row may not depend on its place.
        """
        c = self.centre
        p = c.W0.shape[1]
        M = np.zeros((len(c.theta) + 1, p + 1))
        M[:-1, :p] = self._step * (c.W @ c.W0)
        M[-1, :p] = -(c.theta @ c.W0) / math.sqrt(c.phi)
        M[-1, p] = 1.0 / math.sqrt(c.phi)
        shift = M @ c.unit.shift
        M *= c.unit.scale
        still = self.plan.relation != "replace"
        if c.unit.intercept:  # the intercept cell of a row is exactly 1
            M[:, 0] += shift
            return M, None, still
        return M, shift[:, None] if shift.any() else None, still


def _into_ball(z: Array, length: Array) -> None:
    """Scale rows (columns of z, in lattice steps) into the ball, and round them towards zero.

    Overwrites both: z with integers of norm at most 2^20, ``length`` with what was kept of it. A
    row stays as it is if its length, as computed, is at most ``2^20 (1 - 2^-36)``.
    """
    top = STEPS * _SHRINK
    beyond = np.flatnonzero(length > top)
    if len(beyond):
        z[:, beyond] *= top / length[beyond]
        length[beyond] = top
    np.trunc(z, out=z)


def _product(v: Array, length: Array, radius: float) -> Array:
    """Return ``sum v v'`` over rows scaled into the ball, in squared lattice steps of ``radius``.

    Rows, lengths and radius in one unit, whichever.
    """
    top = STEPS * _SHRINK
    factor = np.minimum(top / length, top / radius)
    factor[~(length > 0.0)] = 0.0
    z = v * factor
    return cross_product(np.trunc(z, out=z))


def _lengths(relative: Array) -> npt.NDArray[np.int64]:
    """Count lengths over C by half octaves: octaves of the square."""
    octave = np.frexp(relative * relative)[1] - 1  # 2^octave <= square < 2^(octave + 1)
    place = np.clip(octave + AT_CLIP, 0, BINS - 1)
    return np.bincount(place, minlength=BINS).astype(np.int64)


def _integers(words: Words) -> Integers:
    high, low = words.words()
    out: Integers = high.astype(object) * (1 << 32) + low.astype(object)
    return out


def release_pass(sums: PassSums, plan: PassPlan, run: Run, k: int) -> Released:
    """Release the sums of pass k: matrices and scores jointly, scale and histogram by themselves.

    Privacy
    -------
    ``mu_joint``-GDP, ``mu_scale``-GDP and ``mu_histogram``-GDP for one row (``theory.md``, 2).
    """
    r, noise = len(sums.score), plan.noise
    upper = np.triu_indices(r, 1)
    radii = {"information": plan.information, "meat": plan.meat, "spread": plan.spread}
    values, weights, units = [], [], []
    for name, radius in radii.items():
        matrix = getattr(sums, name)
        if matrix is None:
            continue
        unit = (radius / STEPS) ** 2
        weight = unit / getattr(noise, name)
        values += [np.diag(matrix), matrix[upper]]
        weights += [np.full(r, weight), np.full(len(upper[0]), weight * math.sqrt(2.0))]
        units.append(np.full(r + len(upper[0]), unit))
    values.append(sums.score)
    units.append(np.full(r, plan.information / STEPS * (FACTOR * plan.clip / STEPS)))
    weights.append(units[-1] / noise.score)
    flat = run.gaussian(
        f"information and scores {k}",
        np.concatenate(values),
        plan.mu_joint,
        weights=np.concatenate(weights),
    ) * np.concatenate(units)
    out: dict[str, Any] = {"score": flat[-r:]}
    size = r + len(upper[0])
    for i, name in enumerate(n for n in radii if getattr(sums, n) is not None):
        out[name] = _symmetric(flat[i * size : (i + 1) * size], r, upper)
    if plan.mu_scale:
        unit = plan.scale_cut / STEPS
        noisy = run.gaussian(f"scale {k}", np.array([sums.scale], dtype=object), STEPS, unit=unit)
        out["scale"] = float(noisy[0])
    if plan.mu_histogram:
        reach = noise.count * plan.mu_histogram
        out["bins"] = run.gaussian(f"score lengths {k}", np.array(sums.bins, dtype=object), reach)
    return Released(**out)


def _symmetric(entries: Array, r: int, upper: Any) -> Array:
    out = np.diag(entries[:r])
    out[upper] = entries[r:]
    out.T[upper] = entries[r:]
    return out
