"""One table, four renderers. Knows nothing of fits, plans or privacy; computes no number."""

from dpmodels.tables.content import RULE, Column, Layout, Page, Row
from dpmodels.tables.table import Result, Shown, Table, Written, also, own_names, plain

__all__ = [
    "RULE", "Column", "Layout", "Page", "Result", "Row", "Shown", "Table", "Written", "also",
    "own_names", "plain",
]  # fmt: skip
