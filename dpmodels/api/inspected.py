"""``inspect_source``: a look at a file for the holder of the data. Not private."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, SchemaError, did_you_mean
from dpmodels.formula.codebooks import gaps
from dpmodels.formula.schema import as_recorded, declared_schema
from dpmodels.formula.types import check_types
from dpmodels.sources.executors import need_rows
from dpmodels.sources.inspected import inspected
from dpmodels.sources.tasks import as_source
from dpmodels.tables.content import Layout
from dpmodels.tables.table import grid

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.sources.inspected import Seen

__all__ = ["inspect_source"]

#: First line of every printed page.
_WARNING = (
    "These are counts of the private rows. They are not covered by the guarantee: do not pass them "
    "on, and do not choose ranges or models by them."
)
#: Spellings that are shown of a variable, and characters of each.
_SHOWN, _LONGEST = 10, 40


def inspect_source(data: Any, schema: Any = None) -> None:
    """Print how many cells of each variable cannot be read, for the holder of the data alone.

    Parameters
    ----------
    data : table
        Any table that ``data=`` of a verb takes: a frame, a path, ``dp.read_csv(...)``.
    schema : Schema, optional
        How cells are read. Default: the schema that is attached to the frame.

    Privacy
    -------
    **Not private.** Prints exact counts of private rows, and the ten most frequent spellings that
    match nothing. It is for the person who holds the data, and nobody else. It writes to no file,
    no ledger and no record, and returns nothing. Use it to repair how cells are read (spellings,
    separators, formats, missing codes that the codebook names), never to choose ranges, levels,
    variables or models.

    Examples
    --------
    >>> import dpmodels as dp
    >>> rows = {"smoker": ["yes", "No ", "maybe"], "age": ["54", "-9", "x"]}
    >>> dp.inspect_source(rows, dp.Schema(smoker=dp.Levels(["no", "yes"]),
    ...                                   age=dp.Real(0, 100, missing=[-9])))
    These are counts of the private rows. ...
    """
    source = as_source(data)
    need_rows(source, "inspect_source")
    declared = declared_schema(schema, source.schema_attr)
    if declared is None:
        raise RequestError(
            "inspect_source compares cells with a schema: dp.inspect_source(data, "
            "dp.Schema(age=dp.Real(0, 100), ...))"
        )
    inspection = inspected(source, dict(declared.variables))
    print(_WARNING + "\n")
    rows = (_cells(name, seen) for name, seen in inspection.columns.items())
    labels = ("variable", "missing", "do not parse", "match no level", "outside the range")
    print(grid(labels, rows, layout=Layout(ruled=False)))
    print(
        f"\n{inspection.rows:,} rows, of which {inspection.usable:,} have a usable cell in every "
        "variable of the schema that can be read."
    )
    for name, seen in inspection.columns.items():
        if seen.problem:
            close = did_you_mean(name, source.kinds) if name not in source.kinds else ""
            print(f"\n{name}: {seen.problem}{close}")
        if seen.spellings:
            most = seen.spellings.most_common(_SHOWN)
            words = ", ".join(f"{text[:_LONGEST]!r} {count:,}" for text, count in most)
            print(f"\n{name}: matches nothing: {words}{_encoding_of(seen.spellings)}")
    others = [name for name in source.kinds if name not in declared and name != declared.unit]
    if others:
        print(f"\nColumns that the schema does not declare: {', '.join(others)}")


def _encoding_of(spellings: Iterable[str]) -> str:
    """Return advice if cells were decoded by another encoding than that of their file."""
    for text in spellings:
        if "\ufffd" in text:
            return '. Cells are not in UTF-8: read the file by dp.read_csv(path, encoding="cp1252")'
        for encoding in ("latin-1", "cp1252"):
            with contextlib.suppress(UnicodeError):
                if text.encode(encoding).decode("utf-8") != text:
                    return f". Cells are UTF-8 that was read as {encoding}: leave encoding= out"
    return ""


def problems(schema: Schema, data: Any) -> list[str]:
    """Return the differences between a schema and a table. Reads names and types only."""
    source = as_source(data)
    kinds = source.kinds
    out = []
    for name, variable in schema.variables.items():
        if name not in kinds:
            out.append(f"{name}: the table has no such column.{did_you_mean(name, kinds)}".strip())
            continue
        try:
            check_types(kinds, {name: as_recorded(name, variable, kinds)})
        except SchemaError as error:
            out.append(f"{name}: {error}")
        between = gaps(code for code, _ in getattr(variable, "recode", None) or ())
        if between and kinds[name] in ("numeric", "unknown"):
            first = ", ".join(map(str, between[:3])) + (", ..." if len(between) > 3 else "")
            out.append(
                f"{name}: {first} lie between the codes of its levels and are read as missing. "
                "Numbers of which a few have labels are dp.Real"
            )
    if schema.unit is not None and schema.unit not in kinds:
        out.append(f"{schema.unit}: the table has no such column, and unit= names it")
    return out + [f"{name}: not declared" for name in kinds
                  if name not in schema and name != schema.unit]  # fmt: skip


def _cells(name: str, seen: Seen) -> tuple[str, ...]:
    if seen.problem:
        return (name, "cannot be read", "", "", "")
    return (name, *(f"{k:,}" for k in (seen.missing, seen.unread, seen.unmatched, seen.outside)))
