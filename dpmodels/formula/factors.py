"""Factors with many levels: what the counting path of a Gram matrix needs to know.

A main effect coded by dummies, or an interaction of such, has at most one 1 in a row. Instead of
writing L buffer rows, the program can give the local column of each row
(``Design.fill(chunk, out, codes=...)``); products with it are then sums by code. ``out`` holds the
remaining rows, ``Design.dense`` of the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FactorInfo"]


@dataclass(frozen=True)
class FactorInfo:
    """The dummies of a main effect or of an interaction.

    Attributes
    ----------
    name : str
        Term.
    columns : slice
        Buffer rows it stands for; code c is row ``columns.start + c``, code -1 none of them.
    """

    name: str
    columns: slice

    @property
    def width(self) -> int:
        """Number of dummies."""
        return int(self.columns.stop - self.columns.start)
