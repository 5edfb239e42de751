"""Data for demonstrations and tests, with public design ranges.

``rand_hie()`` ships with the package; ``wine()`` reads a copy that the user has.
"""

from __future__ import annotations

from dpmodels.datasets.rand import rand_hie, wine

__all__ = ["rand_hie", "wine"]
