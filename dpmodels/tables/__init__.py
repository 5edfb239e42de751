"""One table, four renderers. Knows nothing of fits, plans or privacy; computes no number."""

from dpmodels.tables.table import (
    RULE,
    Column,
    Layout,
    Page,
    Result,
    Row,
    Shown,
    Table,
    Written,
    also,
    own_names,
    plain,
)

__all__ = [
    "RULE", "Column", "Layout", "Page", "Result", "Row", "Shown", "Table", "Written", "also",
    "own_names", "plain",
]  # fmt: skip
