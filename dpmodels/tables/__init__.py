"""One table, five renderers. Knows nothing of fits, plans or privacy; computes no number."""

from dpmodels.tables.table import RULE, Column, Layout, Page, Row, Shown, Table, plain

__all__ = ["RULE", "Column", "Layout", "Page", "Row", "Shown", "Table", "plain"]
