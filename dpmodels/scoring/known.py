"""Exact properties of a matrix ``sum omega x x'`` that hold for any rows, and their use.

Levels of one factor never meet, so their entry is zero; a dummy squared is itself, so two entries
are equal. A released matrix is projected on the matrices with these properties: post-processing,
which takes away only noise (``theory.md``, 3.4).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.core.parallel import Released
from dpmodels.formula.design import Design
from dpmodels.proof.sets import diagonal_first, svec, unsvec
from dpmodels.scoring import rules
from dpmodels.scoring.coordinates import Coordinates, cached_on
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.variables import Binary

#: A pair of columns of a design.
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Known:
    """Entries of ``X'diag(omega) X`` that are zero, and pairs of entries that are equal. Public."""

    zero: tuple[Pair, ...]
    equal: tuple[tuple[Pair, Pair], ...]
    back: Array  # (p, r): x = back u in every row

    def projection(self, W: Array) -> Projection | None:
        """Return the projection in coordinates w = W u.

        None if the forms are dependent but for rounding: numbers far from zero hardly vary.
        """
        B, r = self.back @ np.linalg.inv(W), len(W)
        i, j = diagonal_first(r)
        weight = np.where(i == j, 1.0, math.sqrt(2.0))

        def entries(pairs: Iterable[Pair]) -> Array:
            """Return the linear forms of entries of X'X, on svec of a matrix in w."""
            left, right = (B[list(side)] for side in zip(*pairs, strict=True))
            products = left[:, i] * right[:, j] + left[:, j] * right[:, i]
            return np.asarray(products * weight / 2.0)

        forms = [entries(self.zero)] if self.zero else []
        if self.equal:
            left, other = (entries(side) for side in zip(*self.equal, strict=True))
            forms.append(left - other)
        N = np.concatenate(forms)
        N /= np.maximum(np.linalg.norm(N, axis=1, keepdims=True), 1e-300)
        # entries are other linear forms each, so these are independent, but for rounding
        products = N @ N.T
        if not float(np.linalg.eigvalsh(products)[0]) > rules.ALIASED_PART:
            return None
        return Projection(r, N, np.linalg.cholesky(products))


@dataclass(frozen=True, eq=False)
class Projection:
    """A projection of symmetric (r, r) matrices."""

    r: int
    forms: Array  # (c, r (r + 1) / 2): linear forms on svec, each zero for known entries
    root: Array  # (c, c): lower triangular, of their inner products

    def of(self, M: Array) -> Array:
        """Return the projection of a matrix."""
        from scipy.linalg import cho_solve

        v = svec(M)
        away = cho_solve((self.root, True), self.forms @ v)
        return unsvec(v - self.forms.T @ away, self.r)

    def applied(self, released: Released, plan: PassPlan) -> tuple[Released, PassPlan]:
        """Return the released matrices without the noise that is known, and the plan with less."""
        square = 1.0 - len(self.forms) / (self.r * (self.r + 1) / 2)
        spectral = min(rules.PROJECTED_NORM * math.sqrt(square), 1.0)
        noise = replace(
            plan.noise, information=plan.noise.information * spectral,
            meat=plan.noise.meat * spectral,
        )  # fmt: skip
        released = replace(
            released, information=self.of(released.information),
            meat=None if released.meat is None else self.of(released.meat),
        )  # fmt: skip
        return released, replace(plan, noise=noise, energy=square / spectral**2)


def known_entries(design: Design, coordinates: Coordinates) -> Known | None:
    """Return known entries of a design, or None if none is known or u holds no row completely."""
    p, unit = design.p, coordinates.unit
    shift = unit.shift[:p]
    if coordinates.rank != p or design.bought or (shift.any() and not unit.intercept):
        return None
    zero, equal = cached_on(design, "known entries", lambda: _entries(design))
    if not zero and not equal:
        return None
    # of unit rows first: the user's units may lie so far apart that one inverse loses digits
    of_unit_rows = np.linalg.inv(coordinates.W0)
    first = np.array([float(column.kind == "intercept") for column in design.columns])
    back = of_unit_rows - np.outer(shift, first @ of_unit_rows)
    return Known(zero, equal, back / unit.scale[:p, None])


#: Factors of a column: (dummies, each a factor and a level, or a 0/1 number; numbers).
_Parts = tuple[frozenset[tuple[Any, Any]], tuple[Any, ...]]


def _entries(design: Design) -> tuple[tuple[Pair, ...], tuple[tuple[Pair, Pair], ...]]:
    """Return the pairs of columns with a product of zero, and pairs of pairs with equal ones.

    None if a projection would take too long.
    """
    most = math.sqrt(rules.MAX_PROJECTION_WORK / (design.p * (design.p + 1)))
    parts = _parts(design)
    zero: list[Pair] = []
    equal: list[tuple[Pair, Pair]] = []
    seen: dict[_Parts, Pair] = {}
    for j, k in itertools.combinations_with_replacement(range(design.p), 2):
        if len(zero) + len(equal) > most:
            return (), ()
        left, right = parts[j], parts[k]
        dummies = left[0] | right[0]
        if len({factor for factor, _ in dummies}) < len(dummies):  # two levels of one factor
            zero.append((j, k))
            continue
        key = dummies, tuple(sorted(left[1] + right[1]))
        if key in seen:
            equal.append((seen[key], (j, k)))
        else:
            seen[key] = (j, k)
    return tuple(zero), tuple(equal)


def _parts(design: Design) -> list[_Parts]:
    """Return the factors of each column, which is their product."""
    program = design.program
    out: list[_Parts] = [(frozenset(), (("column", j),)) for j in range(design.p)]
    if program is None:
        return out
    for product in program.products:
        if product.scale != 1.0:
            continue
        for j, place in enumerate(product.combined(), product.start):
            dummies: set[tuple[Any, Any]] = set()
            numbers: list[tuple[Any, int]] = []
            for atom, column in zip(product.atoms, place, strict=True):
                factor = str(id(atom.source))
                raw = getattr(atom.source, "raw", None)
                if atom.target is not None:
                    codes = np.flatnonzero(np.asarray(atom.target)[:-1] == column)
                    dummies.add((factor, tuple(codes.tolist())))
                elif raw is not None and isinstance(design.kinds.get(raw), Binary):
                    dummies.add((raw, True))
                else:
                    numbers.append((raw or factor, column))
            out[j] = frozenset(dummies), tuple(numbers)
    return out
