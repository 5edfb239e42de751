"""The cells of a table, as they are: numbers in their units, categories as codes.

A *cell design* has one column a factor of the formula, response side first. Unlike the columns of
a regression, a cell that is missing stays missing where it is: one variable's missing cell says
nothing about another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError
from dpmodels.formula.clip import clip_cells
from dpmodels.formula.intervals import Interval
from dpmodels.formula.nodes import Basis, Cat, Factor, Node
from dpmodels.formula.program import Block, Rule
from dpmodels.formula.schema import Schema

__all__ = ["CellProgram", "CellSource", "as_cell"]


@dataclass(frozen=True)
class CellSource:
    """One column: a number (``levels`` is None), or the code of a level.

    Attributes
    ----------
    name : str
        The factor as typed.
    source : Node or Cat
    levels : tuple or None
        Public, in the order of the codes; the code ``len(levels)`` stands for a missing cell.
    """

    name: str
    source: Node | Cat
    levels: tuple[Any, ...] | None = None

    @property
    def interval(self) -> Interval:
        """Public range of the cells."""
        if self.levels is not None:
            return (0.0, float(len(self.levels)))
        assert isinstance(self.source, Node)
        return self.source.interval

    def fill(self, block: Block, out: Any) -> None:
        """Write the cells of a block."""
        source = self.source
        if isinstance(source, Cat):
            codes = source.evaluate(block)
            out[...] = np.where(codes < 0, len(source.levels), codes)
            return
        value = np.broadcast_to(source.evaluate(block), out.shape)
        if self.levels is not None:  # a comparison, or a 0/1 variable
            out[...] = np.where((value == 0.0) | (value == 1.0), value, 2.0)
            return
        out[...] = value
        if source.interval is not None:
            clip_cells(out, source.interval[0], source.interval[1], out=out)


@dataclass(frozen=True)
class CellProgram:
    """Fills a block with the cells of a table; the counterpart of ``Program``.

    Attributes
    ----------
    sources : tuple of CellSource
    rules : mapping
        Variable -> what its range is, what stands for a missing cell.
    subset : Node or None
        A row that fails it has every cell missing.
    left, right : tuple of tuples of int
        Terms of the two sides, as places in ``sources``; one-sided formulas have no ``left``.
    schema : Schema
    """

    sources: tuple[CellSource, ...]
    rules: Mapping[str, Rule]
    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]
    schema: Schema
    subset: Node | None = None

    #: No column is a dummy that could be counted instead.
    counted = ()

    def fill(
        self,
        chunk: Mapping[str, Any],
        out: Any,
        clips: Sequence[Interval],
        finals: Sequence[tuple[int, float, float]],
        codes: Any = None,
    ) -> None:
        """Fill ``out`` of shape (q, m): NaN for a missing number, the last code for a level."""
        with np.errstate(all="ignore"):
            block = Block(chunk, out.shape[1], self.rules)
            for row, source in zip(out, self.sources, strict=True):
                source.fill(block, row)
            for row, lo, hi in finals:
                clip_cells(out[row], lo, hi, out=out[row])
            if self.subset is not None:
                inside = np.broadcast_to(self.subset.evaluate(block), (block.m,)) == 1.0
                for row, source in zip(out, self.sources, strict=True):
                    gone = np.nan if source.levels is None else float(len(source.levels))
                    row[~inside] = gone

    def data_free(self, schema: Schema) -> tuple[bool, ...]:
        """Say of each column whether no data could improve its range."""
        return tuple(s.levels is not None for s in self.sources)


def as_cell(text: str, factor: Factor, schema: Schema, formula: str) -> CellSource:
    """Return the column of one factor of a table, or refuse it."""
    if isinstance(factor, Basis):
        raise FormulaError(
            f'"{formula}": `{text}` makes several columns; a table takes variables, row-wise '
            "expressions and categories"
        )
    if isinstance(factor, Cat):
        return CellSource(text, factor, tuple(factor.levels))
    declared = schema.variables.get(text)
    if declared is not None and declared.kind == "binary":
        return CellSource(text, factor, tuple(getattr(declared, "levels", None) or (0, 1)))
    if factor.boolean:
        return CellSource(text, factor, (False, True))
    return CellSource(text, factor)
