"""Refusals of tables, columns and features by names and types, with what to type instead.

No cell comes here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpmodels.errors import RequestError, SourceError, did_you_mean, path_of, shown


def check_names(names: Iterable[Any]) -> None:
    """Refuse column names that are not strings, or are duplicates."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise SourceError(
                f"column names must be text, got {shown(name)}. For example: data.columns = "
                "data.columns.astype(str)"
            )
        if name in seen:
            raise SourceError(f"two columns are called {name!r}: rename one of them")
        seen.add(name)


def require_package(module: str, why: str) -> None:
    """Refuse to go on without an optional package."""
    if importlib.util.find_spec(module) is None:
        raise SourceError(f"{module} is needed {why}: pip install {module}")


def refuse_other_objects(data: Any) -> None:
    """Refuse a column, or a connection to a database, with what to type."""
    if type(data).__name__ == "Series":
        raise SourceError("a Series is one column, not a table. For example: series.to_frame('y')")
    connects = any(hasattr(data, name) for name in ("cursor", "sql", "connect"))
    if connects and not hasattr(data, "columns"):  # a polars frame has sql(), too
        raise SourceError(
            f"a {type(data).__name__} is a connection to a database, not a table. Pass what a "
            "query gives: con.sql(query) of DuckDB, else pd.read_sql(query, con)"
        )


def check_polars(schema: Mapping[str, Any]) -> None:
    """Refuse a column of a type that Arrow cannot represent, by its type alone."""
    for name, dtype in schema.items():
        if str(dtype) in ("Int128", "UInt128", "Object") or str(dtype).startswith("Object("):
            raise SourceError(
                f"column {name!r} has the polars type {dtype}, which cannot be read from here. "
                f"Cast it, for example df.with_columns(pl.col({name!r}).cast(pl.Float64)), or drop "
                "it"
            )


def listed_paths(entries: Sequence[Any]) -> list[Path]:
    """Return the paths of a list. An entry that is not a file is described, not quoted."""
    paths = []
    for place, entry in enumerate(entries, 1):
        path = path_of(entry, f"entry {place} of the list: the path of a table", SourceError)
        if not path.exists():
            raise SourceError(
                f"entry {place} of the list, <{type(entry).__name__}>, is not the path of a file. "
                "A list is a table if its entries are paths, or frames with the same columns"
            )
        paths.append(path)
    return paths


def feature_of(
    kinds: Mapping[str, str], name: str, feature: Any, functions: Collection[str]
) -> tuple[str, str]:
    """Return (function, column) of a feature as it was typed."""
    how, column = (feature, "") if isinstance(feature, str) else (*feature, "", "")[:2]
    if how not in functions or not isinstance(column, str) or (not column and how != "count"):
        listed, close = ", ".join(functions), did_you_mean(str(how), functions)
        raise RequestError(
            f"{name}= must be a function and a column, for example {name}=('max', 'income'), or "
            f"'count' (of rows). Functions: {listed}.{close}"
        )
    if column and column not in kinds:
        raise no_column(kinds, column, f"{name}=: ")
    return how, column


def no_column(kinds: Mapping[str, str], column: str, what: str) -> RequestError:
    """Return the refusal of a column that a table does not have."""
    close = did_you_mean(column, kinds)
    return RequestError(f"{what}{shown(column)} is not a column of the table.{close}")
