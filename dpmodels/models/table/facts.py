"""What a test by sums is made from: its kind, layout and noise, decided from public facts."""

from __future__ import annotations

from dataclasses import dataclass

from dpmodels.models.table.layout import Layout
from dpmodels.models.table.noise import TableNoise

__all__ = ["Facts"]


@dataclass(frozen=True)
class Facts:
    """What is public about a test.

    Attributes
    ----------
    kind : str
        "mean", "groups", "fit", "independence" or "correlation".
    layout : Layout or None
        None for a correlation.
    noise : TableNoise or None
    mu : float
        Of the release.
    null : tuple of float
        Hypothesised mean, in the user's units; or shares.
    alike : int
        Rows that may depend on each other (those of a person that are kept).
    """

    kind: str
    layout: Layout | None
    noise: TableNoise | None
    mu: float
    null: tuple[float, ...] = ()
    alike: int = 1
