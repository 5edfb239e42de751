"""What the renderers with rich signs share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpmodels.results.summary import Column, Summary

__all__ = ["columns_of", "facts_of", "groups_of", "label_of", "signs"]


def signs(text: str) -> str:
    """Write a no-reply with its sign."""
    return text.replace("NO REPLY", "⊥ (no reply)")


def facts_of(summary: Summary) -> list[tuple[str, str]]:
    """Return header words and facts as one list."""
    return [(label, signs(value)) for label, value in (*summary.header, *summary.facts)]


def columns_of(summary: Summary) -> list[int]:
    """Return the indices of the columns of the wide layout."""
    return [k for k, column in enumerate(summary.columns) if column.wide]


def groups_of(columns: list[Column]) -> Iterator[tuple[str, int]]:
    """Yield ``(group, how many columns)`` for each run of columns of one group."""
    k = 0
    while k < len(columns):
        j = k + 1
        while j < len(columns) and columns[j].group == columns[k].group:
            j += 1
        yield columns[k].group, j - k
        k = j


def label_of(column: Column) -> str:
    """Return the header of a column where groups cannot span: ``Std. Error (total)``."""
    return f"{column.group} ({column.label})" if column.group else column.label
