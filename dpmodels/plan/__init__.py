"""Everything public about a fit, decided before any row is read."""

from dpmodels.plan._plan import Plan, Purchase

__all__ = ["Plan", "Purchase"]
