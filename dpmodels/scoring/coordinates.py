"""Build public coordinates of a design from its declared box.

``u = W0 z`` with ``W0 = (E z z')^{-1/2}`` under the uniform distribution on the declared box
(variables independent, levels equally likely), by a fixed set of points. Another basis of the
same space only rotates u (``theory.md``, 1), and everything that follows is rotation-invariant.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring import rules
from dpmodels.sums.rowmap import UnitScale, unit_rows
from dpmodels.variables import Levels, Text, Variable

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``u = W0 (scale * x + shift)`` for the predictors, unit scale for the response."""

    unit: UnitScale  # Unit scale of the design, response last
    W0: Array  # (r, p); r < p if columns are linearly dependent
    # (p,): coefficients that the design determines, whatever the rows.
    identified: npt.NDArray[np.bool_]
    # (r,): public fit about which the start is fitted, for u, in units of the unit response.
    centre: Array
    # The start uses as response ``response (y - u'centre)``.
    response: float = rules.RESPONSE_UNIT
    # (r,): a with ``a'u = 1`` in every complete row, or None without a constant.
    constant: Array | None = None
    offset: int | None = None  # Row of the block that the start subtracts from the response
    # Where values are, by released scales, by variable; None: none was released.
    ends: Mapping[str, tuple[float, float]] | None = None
    centres: Mapping[str, float] = field(default_factory=dict)  # Released, by variable
    mean_weight: float = 1.0  # Released mean weight of a row, by which weights are divided
    spread: float = 0.0  # Released sd of the unit response, 0 if it was not released

    @property
    def rank(self) -> int:
        """Dimension r of u."""
        return len(self.W0)

    @property
    def start(self) -> Array:
        """Return the map of a unit row to ``(u, response (y - u'centre))``, (r + 1, q).

        A unit row has x, auxiliary columns (offset, weight; the map ignores them) and y.
        """
        r, p = self.W0.shape
        S = np.zeros((r + 1, len(self.unit.scale)))
        S[:r, :p] = self.W0
        S[r, :p] = -self.response * (self.centre @ self.W0)
        S[r, -1] = self.response
        if self.offset is not None:
            S[r, self.offset] = -self.response * self.unit.scale[-1]
        return S

    @functools.cached_property
    def affine(self) -> tuple[Array, Array]:
        """Matrix and shift of the affine map of a block to u, computed once."""
        M = np.zeros((len(self.W0), len(self.unit.scale)))
        M[:, : self.W0.shape[1]] = self.W0
        return M * self.unit.scale, (M @ self.unit.shift)[:, None]

    @functools.cached_property
    def declared(self) -> tuple[npt.NDArray[np.intp], Array | None, Array | None]:
        """Columns of u, v with ``x'v = 1`` in these (or None), and their decorrelating root.

        The root is None if columns are aliased over the declared box.
        """
        used = np.flatnonzero(self.W0.any(axis=0))
        W = self.W0[:, used]
        if len(used) != self.rank or np.linalg.cond(W) ** 2 * rules.ALIASED_PART > 1.0:
            return used, None, None
        cell, inverse = None if self.constant is None else W.T @ self.constant, np.linalg.inv(W)
        values, vectors = np.linalg.eigh(_by_column(inverse @ inverse.T, cell)[1])
        L = (vectors / np.sqrt(np.maximum(values, rules.ALIASED_PART * values[-1]))) @ vectors.T
        return used, cell, L

    def back(self) -> tuple[Array, Array]:
        """Return (A, a): coefficients in the user's units are ``A theta + a``; A is (p, r)."""
        A, a = of_columns(self.unit, self.W0.shape[1]).back()
        return A @ self.W0.T, a


def of_columns(unit: UnitScale, p: int) -> UnitScale:
    """Return the map of the p predictors and the response, without auxiliary columns."""
    keep = [*range(p), -1]
    return replace(unit, scale=unit.scale[keep], shift=unit.shift[keep])


def public_coordinates(design: Design, *, raw: bool = False) -> Coordinates:
    """Return the coordinates of a design whose ranges are all known.

    If a column's range was estimated, the box of its variables is unknown; columns then count as
    independent and uniform over their ranges. ``raw``: the response stays in the user's units.

    **Privacy.** A function of formula, schema and estimated ranges: reads no row. So a design keeps
    its coordinates.
    """
    key = ("coordinates", raw)
    coordinates: Coordinates = cached_on(design, key, lambda: _coordinates(design, raw))
    return coordinates


def aliased_advice(design: Design) -> tuple[str, ...]:
    """Return the warning that the design leaves coefficients out, before anything is charged."""
    if design.unknown or design.bought:
        return ()
    left_out = ~public_coordinates(design).identified & ~empty_columns(design)
    names = ", ".join(n for n, out in zip(design.names, left_out, strict=False) if out)
    if not names:
        return ()
    return (
        f"{names}: a combination of the columns before it, whatever the rows, so that its "
        "coefficient and theirs cannot be separated. Drop the term",
    )


def cached_on(design: Design, key: object, make: Callable[[], Any]) -> Any:
    """Return a cached function of a design's public numbers, computed at its first use."""
    if key not in design.worked_out:
        design.worked_out[key] = make()
    return design.worked_out[key]


def of_short_rows(coordinates: Coordinates, design: Design, length: float) -> Coordinates:
    """Return coordinates for rows whose slopes, as unit rows, are no longer than a public length.

    Then ``E |z|^2 <= length^2``. If the second moments M of the box are larger, those of the slopes
    are shrunk by one factor c, with the whitening ``W0 D^{-1}`` of ``D M D``. A longer row is still
    a row of the fit: the length only gives a scale, and no proof depends on it.
    """
    slopes = np.array([column.kind != "intercept" for column in design.columns])
    M = np.linalg.pinv(coordinates.W0.T @ coordinates.W0, hermitian=True)
    c = min(length / math.sqrt(float(np.trace(M[np.ix_(slopes, slopes)]))), 1.0)
    W0 = coordinates.W0 / np.where(slopes, c, 1.0)
    constant = constant_direction(design, coordinates.unit, W0)
    return replace(coordinates, W0=W0, constant=constant)


def _coordinates(design: Design, raw: bool) -> Coordinates:
    """Compute the coordinates of a design, with read-only arrays."""
    unit = scoring_rows(design)
    beside = slice(design.p, design.q if raw else design.q - 1)
    unit.scale[beside], unit.shift[beside] = 1.0, 0.0
    if _plain_numbers(design, unit):
        # no points are needed, and a diagonal map costs a fraction of a dense one
        W0 = np.diag(1.0 / np.sqrt(np.diag(_column_moments(design, unit))))
        identified = np.ones(design.p, dtype=bool)
    else:
        z = _box_rows(design, unit)
        M = _column_moments(design, unit) if z is None else z @ z.T / z.shape[1]
        W0, identified = inverse_root(M, unit, z)
    for array in (unit.scale, unit.shift, W0, identified, unit.one):
        if array is not None:
            array.setflags(write=False)
    return Coordinates(
        unit, W0, identified, np.zeros(len(W0)), constant=constant_direction(design, unit, W0),
        offset=None if raw else design.auxiliary_place("offset"),
    )  # fmt: skip


def scoring_rows(design: Design) -> UnitScale:
    """Return the map to unit rows, the response about the middle of its range.

    This holds also if no column is constant but some sum to a constant, or if rows are multiplied
    by weights (:func:`constant_columns`). Otherwise the unit of a response far from zero would be
    as large as its distance from zero.
    """
    unit, _ = unit_rows(design)
    if unit.intercept:
        return unit
    constant = constant_columns(design)
    ends = None if constant is None else response_range(design)
    if ends is not None and ends[0] < ends[1]:
        (lo, hi), most = ends, most_root(design)
        unit.scale[-1], unit.shift[-1] = 2.0 / (hi - lo) / most, -(lo + hi) / (hi - lo) / most
    return replace(unit, one=constant)


def narrowed(
    coordinates: Coordinates, design: Design, box: Mapping[str, tuple[float, float]]
) -> Coordinates:
    """Return coordinates for a narrower box: named variables are clipped to their new ranges.

    Columns are centred, if there is a constant, and each is scaled separately. The remaining second
    moments, relative to those of the declared box, are whitened with floored eigenvalues. So the
    declared box decides which directions exist. W0 is unchanged if the box of the variables is
    unknown (an estimated range, a subset).

    **Privacy.** The box must be public or released.
    """
    z = _box_rows(design, coordinates.unit, box)
    if z is None:
        return coordinates
    W0, (used, cell, L) = coordinates.W0, coordinates.declared
    if L is None:
        u = W0 @ z
        left = u @ u.T / u.shape[1]
    else:
        narrow, left = _by_column((z @ z.T / z.shape[1])[np.ix_(used, used)], cell)
        left = L @ left @ L
    values, vectors = np.linalg.eigh(left)
    floored = np.maximum(values, rules.MIN_NARROWED_EIGENVALUE * values[-1])
    root = (vectors / np.sqrt(floored)) @ vectors.T
    W0 = root @ W0 if L is None else np.zeros(W0.shape)
    if L is not None:
        W0[:, used] = root @ L @ narrow
    return replace(
        coordinates, W0=W0, centre=np.zeros(len(W0)),
        constant=constant_direction(design, coordinates.unit, W0),
    )  # fmt: skip


def _by_column(M: Array, cell: Array | None) -> tuple[Array, Array]:
    """Return the map that centres and scales columns of second moments M, and its result."""
    T = np.eye(len(M))
    if cell is not None:
        T -= np.outer(np.where(np.abs(cell) > 1e-9, 0.0, M @ cell), cell)
    left = T @ M @ T.T
    size = np.sqrt(np.maximum(np.diag(left), 0.0))
    size[size <= rules.ALIASED_PART * size.max()] = 1.0  # a column of zeros
    return T / size[:, None], left / np.outer(size, size)


def constant_direction(design: Design, unit: UnitScale, W0: Array) -> Array | None:
    """Return a with ``a'u = 1`` in every complete row: None without a constant in the span."""
    constant = constant_columns(design) if design.has_intercept else unit.one
    if constant is None or design.scaled:
        return None
    cell = constant / unit.scale[: design.p]
    return np.asarray(np.linalg.lstsq(W0.T, cell, rcond=None)[0])


def unweighted(design: Design) -> Design:
    """Return the design whose rows are not multiplied by the root of their weight: declared."""
    if not design.scaled:
        return design
    from dpmodels.formula.survival import design_from

    saved: dict[str, Any] = {"weights": None, "bought": []}
    plain: Design = cached_on(design, "unweighted", lambda: design_from(design.to_dict() | saved))
    return plain


def most_root(design: Design) -> float:
    """Return the largest root of a weight by which rows are multiplied, or 1 without weights."""
    weights = None if design.program is None else design.program.weights
    interval = None if weights is None else weights.interval
    return 1.0 if interval is None else math.sqrt(interval[1])


def response_range(design: Design) -> tuple[float, float] | None:
    """Return the public range of the response before any weight, or None if it is unknown."""
    if design.scaled and (design.bought or design.unknown):  # of rows as they are multiplied
        return None
    plain = unweighted(design).response
    return None if plain is None else plain.interval


def constant_columns(design: Design) -> Array | None:
    """Return v with ``x'v = 1`` in every row before any weight, or None if there is no such v.

    v is found from points of the box. An example is ``C(g) - 1``, a complete set of indicators. A
    shift along v is a part of the fit for any ``x'v`` at other points, so no result depends on it.
    """
    if design.has_intercept:
        return np.array([float(c.kind == "intercept") for c in design.columns])
    plain = unweighted(design)
    direction: Array | None = cached_on(design, "constant", lambda: _constant_columns(plain))
    return direction


def _constant_columns(design: Design) -> Array | None:
    block = _box_block(design, {}, unknown=(0.0, 1.0))
    if block is None:
        return None
    z = block[: design.p]
    largest = np.abs(z).max(axis=1)
    size = np.where(largest > 0.0, largest, 1.0)  # a column of zeros has no part in it
    z = z / size[:, None]
    v, basis = np.zeros(len(z)), _in_turn(z)[0]  # a column that is left out has no part in it
    v[basis] = np.linalg.lstsq(z[basis].T, np.ones(z.shape[1]), rcond=rules.DEPENDENT_PART)[0]
    v = np.round(v, 9) + 0.0
    return v / size if float(np.abs(v @ z - 1.0).max()) < 1e-6 else None


def longest_row(design: Design, coordinates: Coordinates, W: Array) -> float:
    """Return a bound on ``|W u|`` over the rows that a design can have.

    ``w = sum_j c_j x_j``, x_j in its range: ``|w|`` at the middles, plus half widths times
    ``|c_j|``; of the dummies of one factor at most one is on. inf where a range is unknown.
    """
    p = design.p
    unit = coordinates.unit
    lo, hi = design.intervals()[:p].T
    if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
        return math.inf
    C = W @ coordinates.W0 * unit.scale[:p]
    shift = W @ coordinates.W0 @ unit.shift[:p]
    middle, half = (lo + hi) / 2.0, (hi - lo) / 2.0
    length = np.linalg.norm(C, axis=0)
    reach = 0.0
    for term in design.terms:
        columns = list(range(p))[term.columns]
        kinds = {design.columns[j].kind for j in columns}
        if kinds == {"dummy"} and term.norm == 1.0:
            middle[columns] = 0.0
            reach += float(length[columns].max())
        else:
            reach += float(half[columns] @ length[columns])
    return float(np.linalg.norm(C @ middle + shift)) + reach


def inverse_root(
    M: Array, unit: UnitScale, z: Array | None = None
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return ``(M^{-1/2}, identified)`` of public second moments, without aliased directions.

    z are the unit rows (p, m) that M is of, if there are any: they tell columns that are far from
    zero and hardly vary from columns that do not vary, which M does not. The root is (r, p), and
    the symmetric one if M has full rank. Else a column that is a combination of columns before it
    is left out, as R does: the coefficients of the others are identified.
    """
    values, vectors = np.linalg.eigh(M)
    keep = values > rules.ALIASED_PART * max(float(values[-1]), 0.0)
    if keep.all():
        return (vectors / np.sqrt(values)) @ vectors.T, np.ones(len(M), dtype=bool)
    basis, coefficients = (_independent(M), M) if z is None else _in_turn(z)
    W0 = np.zeros((max(len(basis), int(keep.sum())), len(M)))
    if len(basis) > int(keep.sum()):
        W0[:, basis] = coefficients[np.ix_(basis, basis)]
    elif len(basis) == len(W0):
        W0[:, basis] = inverse_root(M[np.ix_(basis, basis)], unit)[0]
    else:  # rounding hides which columns depend on others
        W0 = np.ascontiguousarray((vectors[:, keep] / np.sqrt(values[keep])).T)
        return W0, _identified(vectors[:, ~keep], unit)
    return W0, np.isin(np.arange(len(M)), basis)


def _identified(aliased: Array, unit: UnitScale) -> npt.NDArray[np.bool_]:
    """Return which coefficients no aliased direction (p, k) of unit rows changes."""
    p = len(aliased)
    moved = of_columns(unit, p).back()[0] @ aliased
    moved /= np.abs(unit.scale[:p, None])  # over half ranges, so without a unit
    moved /= np.maximum(np.linalg.norm(moved, axis=0), 1e-300)
    return np.asarray(np.sum(moved**2, axis=1) <= rules.UNIDENTIFIED_PART)


def _in_turn(z: Array) -> tuple[list[int], Array]:
    """Return columns that do not depend on those before, and coefficients (p, p).

    Row j of the coefficients gives the residual of column j on earlier columns of the basis. It has
    mean square 1 if column j is in the basis; otherwise it is 0.
    """
    left = np.array(z)
    basis: list[int] = []
    coefficients = np.eye(len(z))
    for j in range(len(z)):
        size = float(np.linalg.norm(left[j]))
        for _ in range(2):  # once more for what rounding leaves
            for k in basis:
                part = float(left[k] @ left[j]) / z.shape[1]
                left[j] -= part * left[k]
                coefficients[j] -= part * coefficients[k]
        residual = float(np.linalg.norm(left[j]))
        if residual > rules.ROUNDING_PART * size:
            basis.append(j)
            scale = math.sqrt(z.shape[1]) / residual
            left[j] *= scale
            coefficients[j] *= scale
    return basis, coefficients


def _independent(M: Array) -> list[int]:
    """Return the columns that are not combinations of columns before them."""
    basis: list[int] = []
    for j in range(len(M)):
        left = float(M[j, j])
        if basis:
            left -= float(M[j, basis] @ np.linalg.solve(M[np.ix_(basis, basis)], M[basis, j]))
        if left > rules.DEPENDENT_PART * max(float(M[j, j]), 1e-300):
            basis.append(j)
    return basis


def empty_columns(design: Design) -> npt.NDArray[np.bool_]:
    """Return whether each column is zero in every row that ``subset=`` lets in. Public."""
    none = np.zeros(design.p, dtype=bool)
    if design.subset is None or design.bought or design.unknown:
        return none
    block = _box_block(design, {})
    return none if block is None else np.asarray((block[: design.p] == 0.0).all(axis=1))


def _box_rows(
    design: Design, unit: UnitScale, box: Mapping[str, tuple[float, float]] | None = None
) -> Array | None:
    """Return unit rows over the declared box, (p, m); None if it is not declared.

    ``box``: narrower ranges of some variables.
    """
    if design.bought or design.unknown:
        return None
    z = _root_by_cell(design, unit, box or {}) if design.numbers_first else None
    block = None if z is not None else _box_block(design, box or {})
    if block is None:
        return z
    z = block[: design.p] * unit.scale[: design.p, None] + unit.shift[: design.p, None]
    return z


def _root_by_cell(
    design: Design, unit: UnitScale, box: Mapping[str, tuple[float, float]]
) -> Array | None:
    """Return p unit rows with the second moments of rows over the box, computed by cell, or None.

    None if a range is not declared, or if columns depend on each other.
    """
    grid: Any = design.grid
    places, p = list(design.numbers_first), design.p
    points = _box_block(design, box, grid=grid)
    if points is None:
        return None
    x, cells = points
    scale, shift = unit.scale[:p, None], unit.shift[:p, None]
    z = grid.table[:p] * scale + shift
    z[places], x = 0.0, x[: len(places)] * scale[places] + shift[places]
    M = z * np.bincount(cells, minlength=grid.cells) @ z.T
    M[places] = np.array([np.bincount(cells, row, grid.cells) for row in x]) @ z.T
    M[:, places], M[np.ix_(places, places)] = M[places].T, x @ x.T
    try:
        return np.asarray(np.linalg.cholesky(M * (p / len(cells))))
    except np.linalg.LinAlgError:
        return None


def _box_block(
    design: Design, box: Mapping[str, tuple[float, float]],
    unknown: tuple[float, float] | None = None, grid: Any = None,
) -> Any:  # fmt: skip
    """Return complete rows of the design over its box, (q, m), or None if a range is not declared.

    ``unknown``: the range of a variable without a declared one. With a ``grid`` the rows are its
    numbers (d, m) and cells (m,).
    """
    variables = design.kinds
    least, a_column, most = rules.BOX_POINTS
    m = min(max(least, a_column * design.p), most)
    table = {}
    # by name, not by position: a formula with its terms in another order has the same points
    for j, name in enumerate(sorted(variables)):
        points: Array = 0.5 + math.sqrt(_prime(j)) * np.arange(1, m + 1, dtype=float)
        points = np.asarray(points - np.floor(points))  # in (0, 1) evenly, jointly over j
        table[name] = _spread(variables[name], points, box.get(name), unknown)
    if any(v is None for v in table.values()):
        return None
    if grid is not None:
        numbers, cells = np.empty((len(grid.numbers), m)), np.empty(m, dtype=np.intp)
        grid.fill(table, numbers, cells)
        complete = np.isfinite(numbers).all(axis=0) & ~grid.missing[cells]
        return numbers[:, complete], cells[complete]
    block = np.zeros((design.q, m))
    design.fill(table, block)
    complete = np.isfinite(block).all(axis=0)
    if complete.sum() < 2 * design.p:  # subset= leaves out most of the box
        return None
    return block[:, complete]


def _plain_numbers(design: Design, unit: UnitScale) -> bool:
    """Whether predictors are a constant and variables as they stand: uncorrelated over the box."""
    program = design.program
    if program is None or design.subset is not None or not unit.intercept:
        return False
    if design.bought or design.unknown:
        return False
    ranges = [c.interval for c in design.columns if c.kind != "intercept"]
    return (
        {"intercept", "numeric"} >= {c.kind for c in design.columns}
        and program.of_variables
        and all(v.kind != "binary" for v in design.kinds.values())
        and all(i is not None and i[0] < i[1] for i in ranges)
    )


def _column_moments(design: Design, unit: UnitScale) -> Array:
    """Return the second moments of independent columns, uniform over their ranges."""
    intervals = design.intervals()[: design.p]
    s, h = unit.scale[: design.p], unit.shift[: design.p]
    lo, hi = intervals[:, 0] * s + h, intervals[:, 1] * s + h
    mean, variance = (lo + hi) / 2.0, (hi - lo) ** 2 / 12.0
    for term in design.terms:
        columns = list(range(design.p))[term.columns]
        if {design.columns[j].kind for j in columns} == {"dummy"}:
            share = 1.0 / (len(columns) + 1.0)
            mean[columns] = lo[columns] + share * (hi - lo)[columns]
            variance[columns] = share * (1.0 - share) * ((hi - lo)[columns]) ** 2
    M: Array = np.outer(mean, mean) + np.diag(variance)
    return M


@functools.lru_cache(maxsize=1024)
def _prime(j: int) -> int:
    """Return the j-th prime, from 0."""
    if j == 0:
        return 2
    k = _prime(j - 1) + (1 if j == 1 else 2)
    while any(k % f == 0 for f in range(3, math.isqrt(k) + 1, 2)):
        k += 2
    return k


def _spread(
    variable: Variable, points: Array, narrow: tuple[float, float] | None = None,
    unknown: tuple[float, float] | None = None,
) -> Any:  # fmt: skip
    """Return cells of a variable at the given quantiles, as coercion would give them.

    ``narrow``: a part of its range, or beyond: it is cut to it. ``unknown``: the range of one
    without.
    """
    if isinstance(variable, Levels):
        return np.minimum((points * len(variable.codes)).astype(np.int32), len(variable.codes) - 1)
    if isinstance(variable, Text):  # hashed text: any spread of integers will do
        return (points * 2.0**62).astype(np.int64)
    interval = variable.interval or unknown
    if interval is None:
        return None
    lo, hi = interval
    if variable.kind == "binary":
        return (points >= 0.5).astype(float)
    if narrow is not None:
        lo, hi = max(lo, narrow[0]), min(hi, narrow[1])
    return lo + (hi - lo) * points


def in_order(coordinates: Coordinates) -> Coordinates:
    """Return coordinates turned so that u_i depends on the first i columns (Gram-Schmidt).

    The intercept is then separate. If the box of one column is far too wide or narrow, only this
    column has a wrong scale, which the released scales repair. A symmetric root would mix it into
    all columns.
    """
    r, p = coordinates.W0.shape
    used = np.flatnonzero(coordinates.W0.any(axis=0))  # combinations of columns before are left out
    used = used if len(used) == r else np.arange(p)
    Q, R = np.linalg.qr(coordinates.W0[:, used[::-1]])
    turn = Q[:, ::-1].T
    sign = np.where(np.diag(R)[::-1] < 0.0, -1.0, 1.0)
    turn = turn * sign[:, None]
    a = coordinates.constant
    W0 = np.zeros((r, p))
    W0[:, used] = np.tril(R[::-1, ::-1], R.shape[1] - len(R)) * sign[:, None]
    return replace(
        coordinates, W0=W0,
        centre=turn @ coordinates.centre, constant=None if a is None else turn @ a,
    )  # fmt: skip
