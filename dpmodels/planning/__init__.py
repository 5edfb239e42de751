"""Everything public about a fit, decided before any row is read."""

from dpmodels.planning.plan import Plan, Purchase

__all__ = ["Plan", "Purchase"]
