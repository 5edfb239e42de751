"""Factors with many levels: what the counting path of a Gram matrix needs to know."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FactorInfo"]


@dataclass(frozen=True)
class FactorInfo:
    """A main-effect block of dummies."""

    name: str
    columns: slice
    levels: int
    base: int | None
