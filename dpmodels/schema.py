"""What is public about each variable, under one name: kinds of variables, and schemas of them."""

from __future__ import annotations

from dpmodels.formula.schema import Schema, declared_schema, schema_for
from dpmodels.variables import Binary, Count, Levels, Ordered, Real, Text, Variable

__all__ = [
    "Binary",
    "Count",
    "Levels",
    "Ordered",
    "Real",
    "Schema",
    "Text",
    "Variable",
    "declared_schema",
    "schema_for",
]
