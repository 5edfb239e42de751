"""Rows in unit half-ranges, and releases of least squares that are kept for comparison.

Proofs: ``proof/theory.md`` 1.4, ``models/linear/theory.md`` 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.formula.design import Design
from dpmodels.privacy.run import own_proof
from dpmodels.proof.prove import Of
from dpmodels.proof.sets import STEPS, Ball, float_allowance
from dpmodels.proof.statistics import Gram, Objective, Sum
from dpmodels.sources.summed import Integers
from dpmodels.sums.ask import Added, Ask, Moments, Query, Sums
from dpmodels.sums.products import ball_integers, integers_of, mapped
from dpmodels.sums.rowmap import RowMap, unit_rows

COEFFICIENTS, EIGENVALUE, SKETCH = "coefficients", "smallest eigenvalue", "sketch"


class UnitRows:
    """Rows in unit half-ranges, with ranges known: ``|x| <= rx`` (intercept included), |y| <= 1."""

    def __init__(self, design: Design) -> None:
        self.design, self.p = design, design.p
        self.unit, square = unit_rows(design)
        self.rx = math.sqrt(square + design.has_intercept)
        self.rowmap = RowMap(self.unit, np.ones(design.q))
        self.over = Moments(design, self.rowmap)  # Response last

    def query(self, of: str) -> Query:
        """Return the query of X'X, of X'y, or of ``2 X'y`` and ``x_j^2, 2 x_j x_k``."""
        p, ball, upper = self.p, Ball(self.p, self.rx), np.triu_indices(self.p)
        twice = np.where(upper[0] == upper[1], 1, 2)
        queries: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "moments": (Gram(ball), lambda G: G[:p, :p]),
            "products": (Sum(ball, products=True), lambda G: G[:p, p]),
            "objective": (
                Objective(p, self.rx), lambda G: np.concatenate([2 * G[:p, p], G[upper] * twice])
            ),
        }  # fmt: skip
        return self._query(*queries[of])

    def _query(self, statistic: Any, part: Callable[[Any], Any]) -> Query:
        return Query(statistic, self.over, lambda G: Added(part(G.integers())))

    def gradient(self, b: Array) -> Query:
        """Return the query of the gradient of squared errors at released coefficients."""
        over = Sums(self.design, Gradient(self.rowmap, b, self.rx))
        return Query(Sum(Ball(self.p)), over, lambda sums: Added(sums.arrays[0]), self.rx)

    def least_eigenvalue(self, ask: Ask) -> float:
        """Release lambda_min(X'X)."""
        # Under add-remove the noise may not depend on the row count, but on a public ceiling.
        ceiling = ask.n if ask.charged(EIGENVALUE)[2] == "replace" else 1 << 30

        def least(G: Any) -> Array:
            XX = np.asarray(G[: self.p, : self.p], dtype=float) * STEPS**-2
            return np.asarray(np.linalg.eigvalsh(XX)[:1])

        bound = Of("least eigenvalue", (self.rx**2, self.p, ceiling))
        return float(ask(EIGENVALUE, self._query(bound, least)).values[0])


@dataclass(frozen=True, eq=False)
class Gradient:
    """The sum of ``x_i (x_i'b - y_i)`` in the ball of radius G, (p,), in steps of G / 2^20.

    Below 2^63 up to 2^43 rows.
    """

    rowmap: RowMap
    b: Array
    G: float

    def over(self, blocks: Iterable[Array], _: Any = None) -> Integers:
        """Return the sum over blocks. Confidential."""
        p = len(self.b)
        total = np.zeros(p, dtype=np.int64)
        with np.errstate(all="ignore"):
            for block in blocks:
                z = self.rowmap.normalised(block)
                gradients = z[:p] * (mapped(self.b[None], z[:p])[0] - z[p])
                total += integers_of(ball_integers(gradients, self.G).sum(axis=1))
        return Integers((total,))


# -- A Gaussian sketch ``Y = G [A; w I]`` (Sheffet 2017)


def jl_curve(alpha: float, r: float, theta: float) -> float:
    """Return the Renyi bound of order ``alpha`` of an r-row sketch, ``theta = B^2 / w^2``.

    ``g(1 + theta) + g(1/(1 + theta))``, ``g(c) = -(r / (2 (alpha - 1))) [log(alpha + (1 - alpha) c)
    - (1 - alpha) log c]``; infinite where an argument is not positive (theory.md, 5.1).
    """
    total = 0.0
    for c in (1.0 + theta, 1.0 / (1.0 + theta)):
        inside = alpha + (1.0 - alpha) * c
        if inside <= 0:
            return math.inf
        total -= r / (2.0 * (alpha - 1.0)) * (math.log(inside) - (1.0 - alpha) * math.log(c))
    return total


def sketch(rows: UnitRows, r: int, ratio: float, ask: Ask) -> tuple[Array, float]:
    """Release the sketch Y, r x q; r normals a row, which workers must not draw: read here."""
    if dict(ask.charged(SKETCH)[0].parameters) != {"r": float(r), "theta": 1.0 / ratio}:
        raise PrivacyBugError("a sketch that costs more than was charged")
    raw, q = ask.raw(own_proof("gaussian sketch")), rows.design.q
    w = math.hypot(rows.rx, 1.0) * math.sqrt(ratio)
    normals = raw.sketch_normals(SKETCH)
    Y = w * normals(r * q).reshape(r, q)
    with np.errstate(all="ignore"):
        for block in raw.rows.blocks(rows.design):
            z = rows.rowmap.normalised(block)
            Y += normals(r * z.shape[1]).reshape(r, -1) @ z.T
    return raw.on_grid(Y, w * 2.0**-30), w


# -- Ridge regression with noise on its output


def output_sensitivity(lam: float, n: int, rx: float, ry: float) -> float:
    """Return ``D = 2 L R_x / lam`` with ``L = R_y + R_x |theta|_max``, replace-one.

    ``|theta| <= min(R_y sqrt n / (2 sqrt lam), n R_x R_y / lam)`` for the minimiser of
    ``sum (y - x'th)^2 / 2 + lam |th|^2 / 2``, which is lam-strongly convex; one row changes the
    gradient by at most ``2 L R_x`` (the published ``L B / lam`` is the add/remove figure).
    """
    top = min(ry * math.sqrt(n) / (2.0 * math.sqrt(lam)), n * rx * ry / lam)
    return 2.0 * (ry + rx * top) * rx / lam


def noisy_ridge(rows: UnitRows, ask: Ask) -> tuple[Array, float, float]:
    """Release ``(X'X + lam I)^{-1} X'y``; return it, lam by a public rule, and the noise sd."""
    raw = ask.raw(own_proof("output perturbation"))
    mu, n, p = ask.charged(COEFFICIENTS)[0].mu, ask.n, rows.p

    def D(lam: float) -> float:
        return output_sensitivity(lam, n, rows.rx, 1.0)

    grid = n * rows.rx**2 * np.geomspace(1e-6, 10.0, 60)
    lam = float(min(grid, key=lambda lam: lam + n * (D(lam) / mu) ** 2))
    G = np.asarray(raw.total(rows.over).integers(), dtype=float) * STEPS**-2
    theta = np.linalg.solve(G[:p, :p] + lam * np.eye(p), G[:p, p])
    moved = D(lam) * (1.0 + float_allowance(p, n))
    return raw.gaussian_real(COEFFICIENTS, theta, moved), lam, moved / mu


def products_in_ball(over: Moments, ry: float) -> Query:
    """Return the query of ``sum x y``, x in the ball of a map, |y| <= ry its last column."""
    d, rowmap = over.design.p, over.rowmap
    if not (rowmap.ball == d and rowmap.project and rowmap.box[d] == ry):
        raise PrivacyBugError("the ball of a map holds other coordinates")
    products = Sum(Ball(d), products=True)  # x y is in the ball of rx ry
    return Query(products, over, lambda G: Added(G.integers()[:d, d]), rowmap.radius * ry)
