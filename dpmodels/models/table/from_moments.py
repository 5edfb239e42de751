"""A table read off released moments: counts, means by group, at no further cost.

Every number of such a table is a bilinear form ``n a'C b`` of the moments per row C of (x, 1): a
level is the functional of its dummy, a number that of its column, "all rows" that of the constant.
Forms are linear in the entries of C, so their noise follows from its covariance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError
from dpmodels.models.table.effects import Spread, critical, share_interval
from dpmodels.models.table.layout import Axis, Layout, Section, layout_of
from dpmodels.models.table.numbers import COLUMNS
from dpmodels.release import Estimate

if TYPE_CHECKING:
    from dpmodels.formula.design import Design


@dataclass(frozen=True)
class Moments:
    """Released moments.

    Attributes
    ----------
    design : Design
        Of the columns x.
    C : (q, q) array
        Moments per row of (x, 1).
    covariance : (q(q+1)/2,) square array
        Noise covariance of the upper triangle of C, row by row.
    n : int
    """

    design: Design
    C: Array
    covariance: Array
    n: int

    def form(self, a: Array, b: Array) -> tuple[float, float]:
        """Return ``n a'C b`` and its noise variance."""
        outer = np.outer(a, b)
        both = outer + outer.T
        both[np.diag_indices(len(a))] = np.diag(outer)
        slope = self.n * both[np.triu_indices(len(a))]
        return self.n * float(a @ self.C @ b), float(slope @ self.covariance @ slope)

    @property
    def one(self) -> Array:
        """Functional of the constant."""
        return np.eye(len(self.C))[-1]

    def number(self, name: str) -> Array:
        """Return the functional of a column."""
        if name not in self.design.names:
            raise RequestError(
                f"these moments have no column {name!r}: they were released for "
                f"{', '.join(self.design.names)}"
            )
        return np.eye(len(self.C))[self.design.names.index(name)]

    def level(self, axis: Axis, code: int) -> Array:
        """Return the functional of a level; the base of a coding is the rest."""
        eye = np.eye(len(self.C))
        terms = (axis.name, f"C({axis.name})")
        mine = [j for j, c in enumerate(self.design.columns) if c.term in terms]
        known = axis.size - 1
        if len(mine) == known and self.design.columns[mine[0]].kind == "dummy":
            return eye[mine[code]]
        if len(mine) == known - 1:
            kind = self.design.columns[mine[0]].kind
            if kind == "dummy" or (known == 2 and kind == "numeric"):
                rest = eye[-1] - eye[mine].sum(axis=0)
                return rest if code == 0 else eye[mine[code - 1]]
        raise RequestError(
            f"these moments have no dummies of {axis.name!r}: release them with the others, as in "
            f'dp_moments("y + C({axis.name}) ~ 1", ...)'
        )


def table_of(design: Design, moments: Moments, level: float) -> Estimate:
    """Return the estimate of a table, from moments."""
    layout = layout_of(design)
    parts = []
    for section in layout.sections:
        if len(section.axes) > (2 if section.kind == "counts" else 1):
            raise RequestError(
                "second moments hold crosses of two variables: a table of more needs the data"
            )
        parts.append((_counts if section.kind == "counts" else _means)(
            layout, section, moments, level
        ))  # fmt: skip
    arrays = dict(zip(COLUMNS, np.concatenate(parts, axis=1), strict=True))
    names = tuple(item.name for s in layout.sections for item in layout.items(s))
    return Estimate(
        names,
        arrays["estimate"],
        notes=(
            "Read off released moments: nothing was spent. Rows with any missing cell among the "
            "columns of the moments are in the cell (missing); standard deviations within groups "
            "are not among second moments, and errors of group means take that of all rows.",
        ),
        arrays=arrays,
    )


def _counts(layout: Layout, section: Section, m: Moments, level: float) -> Array:
    axes = [layout.axes[j] for j in section.axes]
    cells = list(layout.shown(section.axes, missing=True))
    out = np.zeros((len(COLUMNS), len(cells)))
    z = critical(Spread(1.0), level)
    for i, cell in enumerate(cells):
        gone = [c == a.size - 1 for c, a in zip(cell, axes, strict=True)]
        if all(gone):
            value, variance = m.form(m.one, m.one)
            value = m.n - value
        elif any(gone):
            value, variance = 0.0, 0.0  # a row of the moments is complete, or counts for nothing
        else:
            parts = [m.level(a, c) for c, a in zip(cell, axes, strict=True)]
            value, variance = m.form(parts[0], parts[1] if len(parts) > 1 else m.one)
        share, sd = value / m.n, math.sqrt(variance)
        p = min(max(share, 0.0), 1.0)
        low, high = share_interval(np.array(share), m.n, sd / m.n, z)
        out[:, i] = (
            value, 0.0, sd, value - z * sd, value + z * sd,
            share, math.sqrt(p * (1 - p) / m.n + variance / m.n**2), float(low), float(high),
        )  # fmt: skip
    return out


def _means(layout: Layout, section: Section, m: Moments, level: float) -> Array:
    z = critical(Spread(1.0), level)
    x = m.number(section.variable)
    whole = max(m.form(m.one, m.one)[0], 1.0)
    mean, square = (m.form(a, x)[0] / whole for a in (m.one, x))
    spread = square - mean * mean
    out = []
    for cell in layout.shown(section.axes, missing=False):
        g = m.level(layout.axes[section.axes[0]], cell[0]) if cell else m.one
        N, noise_n = m.form(g, m.one)
        T, _ = m.form(g, x)
        large = 3.0 * math.sqrt(noise_n) <= N
        safe = N if large else math.nan
        value = T / safe
        _, noise = m.form(g, x - value * m.one) if large else (0.0, math.nan)
        sampling, privacy = math.sqrt(max(spread, 0.0) / max(N, 1.0)), math.sqrt(noise) / safe
        half, tau = z * math.hypot(sampling, privacy), math.sqrt(noise_n)
        blank = [math.nan] * 4
        out.append([N, 0.0, tau, N - z * tau, N + z * tau, *blank])
        out.append([value, sampling, privacy, value - half, value + half, *blank])
        sd = math.sqrt(spread) if not cell and spread > 0 else math.nan
        out.append([sd, math.nan, math.nan, math.nan, math.nan, *blank])
    return np.array(out).T
