"""Values of a factor, row by row: a number, a basis of several columns, or a code per row.

Each node is a closed function of the cells of *one* row (see ``theory.md``): it is built from
elementwise numpy functions only, so row ``i`` of its value depends on row ``i`` of its input and
on public constants. A missing cell is NaN (code -1) and stays so through every operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dpmodels.formula.functions import Interval

Array = Any  # numpy.ndarray of float64 or int


class Env(Protocol):
    """What a node may ask for: the prepared cells of one variable in the current block."""

    def number(self, name: str) -> Array:
        """Return the clipped float64 cells of a numeric variable."""

    def code(self, name: str) -> Array:
        """Return the integer codes of a factor variable."""


@dataclass(frozen=True)
class Node:
    """A number per row.

    Attributes
    ----------
    interval : pair or None
        Public bound; ``None`` if it depends on an undeclared range.
    evaluate : callable
        ``Env -> (m,) float64``; elementwise.
    variables : frozenset of str
    constant : float or None
        Set when the value is the same for every row.
    raw : str or None
        Name of the variable when the node is just that variable.
    """

    interval: Interval
    evaluate: Callable[[Env], Array]
    variables: frozenset[str] = frozenset()
    constant: float | None = None
    raw: str | None = None
    boolean: bool = False


@dataclass(frozen=True)
class Basis:
    """Several columns per row (splines, polynomials).

    Attributes
    ----------
    fields : tuple of str
        What formulaic puts in the brackets of the column name.
    intervals : tuple of intervals
    evaluate : callable
        ``Env -> (c, m) float64``.
    norms : mapping
        "l1", "l2", "linf": bound on the norm of the c values of a row, ``None`` if unknown.
    """

    fields: tuple[Any, ...]
    intervals: tuple[Interval, ...]
    evaluate: Callable[[Env], Array]
    norms: dict[str, float | None]
    variables: frozenset[str] = frozenset()
    spans_intercept: bool = False


@dataclass(frozen=True)
class Cat:
    """A code per row.

    Attributes
    ----------
    levels : tuple
        Public levels, in code order.
    evaluate : callable
        ``Env -> (m,) integer codes``, -1 for missing.
    contrast : object
        What the coding module understands; ``None`` is treatment coding.
    """

    levels: tuple[Any, ...]
    evaluate: Callable[[Env], Array]
    contrast: Any = None
    variables: frozenset[str] = frozenset()
    spans_intercept: bool = True
    extra: dict[str, Any] = field(default_factory=dict, compare=False)


Factor = Node | Basis | Cat


def constant(value: float) -> Node:
    """Return a node whose value is the same public number in every row."""
    value = float(value)
    return Node((value, value), lambda env: np.float64(value), constant=value)
