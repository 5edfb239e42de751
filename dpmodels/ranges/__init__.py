"""Ranges bought from the budget: two stability histograms a column, no assumption on the data."""

from dpmodels.ranges.buy import buy_ranges, plan_purchase
from dpmodels.ranges.parts import (
    FAILURE_SHARE,
    RANGES_SHARE,
    Part,
    bounds_share,
    gaussian_part,
    no_ranges,
    pair_part,
    ranged_design,
    reaching,
    to_be_bought,
)

__all__ = [
    "FAILURE_SHARE",
    "RANGES_SHARE",
    "Part",
    "bounds_share",
    "buy_ranges",
    "gaussian_part",
    "no_ranges",
    "pair_part",
    "plan_purchase",
    "ranged_design",
    "reaching",
    "to_be_bought",
]
