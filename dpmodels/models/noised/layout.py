"""Which columns a release has, which variables they come from, and how far one person moves them.

A *group* is a set of columns that move together: the dummies of one factor, or one column. An
*attribute* is a variable with all groups computed from it. Distances are in units of the column
scales ``s_j = hi_j - lo_j`` (see ``theory.md``, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.formula.nodes import Basis, Cat, Node

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


@dataclass(frozen=True)
class Group:
    """Columns that move together.

    Attributes
    ----------
    columns : tuple of int
        Positions among the noised columns.
    variables : frozenset of str
    diam, ldiam : float
        Largest l2 and l1 distance of two rows in these columns, in units of the scales.
    """

    columns: tuple[int, ...]
    variables: frozenset[str]
    diam: float
    ldiam: float


@dataclass(frozen=True)
class Layout:
    """The noised columns of a release.

    Attributes
    ----------
    rows : tuple of int
        Rows of the design's block buffer, in order.
    names, kinds : tuple of str
    groups : tuple of Group
    """

    rows: tuple[int, ...]
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

    @property
    def worst_attribute(self) -> tuple[float, float]:
        """Largest diam and largest ldiam of an attribute."""
        pairs = [self.attribute(v) for v in self.variables]
        return max(p[0] for p in pairs), max(p[1] for p in pairs)

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
