"""Ranges bought from the budget: two stability histograms a column, no assumption on the data."""

from dpmodels.ranges.buy import buy_ranges, plan_purchase

__all__ = ["buy_ranges", "plan_purchase"]
