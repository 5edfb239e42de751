"""Noised rows: a released row is one row of the table plus noise (``models/noised/theory.md``)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError, SourceError
from dpmodels.formula.design import Design
from dpmodels.formula.words import Basis, Cat, Node
from dpmodels.privacy.mechanisms import Pure
from dpmodels.privacy.run import own_proof
from dpmodels.sources.rows import Rows
from dpmodels.sums.ask import Ask

# -- Which columns a release has, which variables they come from, and how far one person moves them.
#
# A *group* is a set of columns that move together: the dummies of one factor, or one column. An
# *attribute* is a variable with all groups computed from it. Distances are in units of the column
# scales ``s_j = hi_j - lo_j`` (see ``models/noised/theory.md``, section 2).


@dataclass(frozen=True)
class Group:
    """Columns that move together."""

    columns: tuple[int, ...]  # Positions among the noised columns
    variables: frozenset[str]
    # diam, ldiam: largest l2 and l1 distance of two rows in these columns, in units of the scales.
    diam: float
    ldiam: float


@dataclass(frozen=True)
class Layout:
    """The noised columns of a release."""

    rows: tuple[int, ...]  # Rows of the design's block buffer, in order
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def d(self) -> int:
        """Number of noised columns."""
        return len(self.rows)

    @property
    def variables(self) -> tuple[str, ...]:
        """Attributes, sorted."""
        return tuple(sorted({v for g in self.groups for v in g.variables}))

    def attribute(self, variable: str) -> tuple[float, float]:
        """Return (diam, ldiam) of one attribute: all groups computed from the variable."""
        mine = [g for g in self.groups if variable in g.variables]
        return math.sqrt(sum(g.diam**2 for g in mine)), sum(g.ldiam for g in mine)

    @property
    def record(self) -> tuple[float, float]:
        """(diam, ldiam) of a whole record."""
        return math.sqrt(sum(g.diam**2 for g in self.groups)), sum(g.ldiam for g in self.groups)

    def laplace_weights(self) -> tuple[float, ...]:
        """Return m_j: the largest ldiam of an attribute that column j belongs to.

        Laplace scale proportional to m_j gives every attribute the same pure eps or less.
        """
        out = [1.0] * self.d
        for g in self.groups:
            m = max(self.attribute(v)[1] for v in g.variables)
            for j in g.columns:
                out[j] = m
        return tuple(out)


def spread_of(matrix: Any) -> tuple[float, float]:
    """Return the largest l2 and l1 distance of two codes (rows) in units of the column ranges.

    A cell without a level is coded by zeros, so the zero row counts as a code.
    """
    m = np.vstack([np.asarray(matrix, dtype=float), np.zeros((1, np.shape(matrix)[1]))])
    width = m[:-1].max(axis=0) - m[:-1].min(axis=0)
    z = m / np.where(width > 0, width, 1.0)
    diff = z[:, None, :] - z[None, :, :]
    return float(np.sqrt((diff**2).sum(-1)).max()), float(np.abs(diff).sum(-1).max())


def _variables(source: Node | Basis | Cat | None) -> frozenset[str]:
    return frozenset() if source is None else frozenset(source.variables)


def layout_of(design: Design, public: Collection[str] = ()) -> Layout:
    """Return the noised columns of a design: all that depend on a variable that is not public."""
    program = design.program
    assert program is not None
    hidden = frozenset(public)
    pieces: list[tuple[list[int], frozenset[str], tuple[float, float] | None]] = []
    for product in program.products:
        names: frozenset[str] = frozenset().union(*(_variables(a.source) for a in product.atoms))
        rows = list(range(product.start, product.start + product.width))
        single = product.atoms[0] if product.single else None
        if single is not None and isinstance(single.source, Cat) and single.matrix is not None:
            pieces.append((rows, names, spread_of(single.matrix)))
        else:
            pieces += [([j], names, None) for j in rows]
    if program.weights is not None or program.subset is not None:
        raise AssertionError("a release has no weights and no subset")
    if design.response is not None:
        names = _variables(program.response) | _variables(program.offset)
        pieces.append(([design.p], names, None))
    index: list[int] = []
    groups: list[Group] = []
    for rows, names, spread in pieces:
        if names <= hidden:  # constants and public columns
            continue
        at = tuple(range(len(index), len(index) + len(rows)))
        index += rows
        diam, ldiam = spread if spread is not None else (1.0, 1.0)
        groups.append(Group(at, names - hidden, diam, ldiam))
    z = design.z
    return Layout(
        tuple(index),
        tuple(z[j].name for j in index),
        tuple(z[j].kind for j in index),
        tuple(groups),
    )


def moved(
    layout: Layout, unit: str, columns: Collection[int], shapes: Sequence[float], *, l1: bool
) -> float:
    """Return the largest move of some columns, in units of their shapes, if one unit changes.

    ``unit``: "record", or "attribute". A factor cut in two counts whole in both.
    """
    sizes = [
        (group, (group.ldiam if l1 else group.diam) / min(shapes[j] for j in mine))
        for group in layout.groups
        if (mine := [j for j in group.columns if j in columns])
    ]
    whose = [None] if unit == "record" else layout.variables
    each = [[s for g, s in sizes if v is None or v in g.variables] for v in whose]
    return max(sum(x) if l1 else math.sqrt(sum(s * s for s in x)) for x in each)


# -- The private stage.


#: Released cells lie on lo + k (hi - lo) 2^-20.
CELL_GRID = 2.0**-20


@dataclass(frozen=True)
class Noised:
    """Output of the private stage: the noised cells, and public columns unchanged."""

    values: Array  # (d, n)
    public: Mapping[str, npt.NDArray[Any]]  # mapping of str to (n,) array
    # lower, scale: (d,) arrays; lo_j and s_j = hi_j - lo_j.
    lower: Array
    scale: Array


def column_scales(design: Design, layout: Layout) -> tuple[Array, Array]:
    """Return (lo_j, s_j) of the noised columns; a column without width gets the scale 1."""
    ends = design.intervals()[list(layout.rows)]
    width = ends[:, 1] - ends[:, 0]
    return ends[:, 0].copy(), np.where(width > 0, width, 1.0)


def noised_rows(
    design: Design, plan: Any, public: Sequence[str], ask: Ask, *, keep_order: bool
) -> Noised:  # fmt: skip
    """Read the rows once, clip, permute, add noise, round.

    **Privacy.** Unit: one row (or one attribute of it); replace-one, n public. Each released row is
    a function of one row of the data; rows are matched by position, so unless ``keep_order`` they
    are put in a uniformly random order first. Read by the caller and by no task: each row meets
    noise of its own, which workers must not draw.
    """
    layout = layout_of(design, public)
    lower, scale = column_scales(design, layout)
    upper = lower + scale
    raw = ask.raw(own_proof("noised rows"))
    rows, n = raw.rows, ask.n
    if sorted(j for _, columns, _ in plan.stages for j in columns) != list(range(layout.d)):
        raise PrivacyBugError("the steps do not add noise to each column once")
    for name, columns, reach in plan.stages:
        l1 = isinstance(raw.mechanism(name), Pure)
        if not moved(layout, plan.unit, columns, plan.shapes, l1=l1) <= reach * (1.0 + 1e-9):
            raise PrivacyBugError(f"step {name!r}: a unit moves its columns by more than {reach!r}")
    order = None if keep_order else ask.permutation(n)
    values = np.empty((layout.d, n))
    index = list(layout.rows)
    at = 0
    # A level outside an inline list marks its row in the cell of another attribute: not here.
    for block in rows.blocks(design.without_missing_marks()):
        part = block[index]
        m = part.shape[1]
        missing = np.isnan(part)
        if missing.any():
            part = np.where(missing, (0.5 * (lower + upper))[:, None], part)
        np.clip(part, lower[:, None], upper[:, None], out=part)
        where: Any = slice(at, at + m) if order is None else order[at : at + m]
        for column, cells in zip(values, part, strict=True):  # twice as fast as all at once
            column[where] = cells
        at += m
    public_cells = _public_columns(rows, public, order)
    shapes = np.asarray(plan.shapes) * scale
    for name, columns, reach in plan.stages:
        places = list(columns)
        is_all = len(places) == layout.d
        part = values if is_all else values[places]
        raw.noisy_table(
            name, part, shape=shapes[places], sensitivity=reach, lower=lower[places],
            grid=CELL_GRID * scale[places],
        )  # fmt: skip
        if not is_all:
            values[places] = part
    return Noised(values, public_cells, lower, scale)


def _public_columns(
    rows: Rows, names: Sequence[str], order: npt.NDArray[np.intp] | None
) -> dict[str, npt.NDArray[Any]]:
    """Return public columns as they are, in the released order."""
    if not names:
        return {}
    parts: dict[str, list[npt.NDArray[Any]]] = {c: [] for c in names}
    for chunk in rows.raw(list(names)):
        for c in names:
            parts[c].append(np.asarray(chunk[c]))
    out = {c: np.concatenate(chunks) for c, chunks in parts.items()}
    if any(len(column) != rows.n for column in out.values()):
        raise SourceError("the source did not give the same rows in every pass")
    if order is None:
        return out
    place = np.argsort(order)
    return {c: column[place] for c, column in out.items()}
