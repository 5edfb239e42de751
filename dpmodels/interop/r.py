"""The Python side of the R package in folder ``r/``: columns in, plain lists out.

reticulate 1.28 sends a missing integer as -2147483648 and a missing text as "NA", and its frames
need a numpy of its own time. So columns travel as raw bytes, and results as lists of numbers and
texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmodels.lazy import pd

__all__ = ["run"]

#: The missing integer and logical of R, and the missing integer of 64 bits of its package bit64.
_NA, _NA64 = -(2**31), -(2**63)
#: Seconds that a date may be away from 1970: 9000 years.
_FARTHEST = 9000 * 365.25 * 86400.0
#: Whole numbers of R are doubles; those below it are sent on as integers.
_LARGEST = 2.0**53


def run(
    name: str, arguments: Mapping[str, Any], owner: Any = None, positional: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return the result of a function of the package, its warnings, and its error, if any.

    Parameters
    ----------
    name : str
        A name of ``dpmodels``, as "dp_ols" or "Budget.open".
    arguments : mapping
        By name. R's columns are those of :func:`table`.
    owner : mapping or object, optional
        ``r_fit``, the JSON text of a fit, or a budget: ``name`` is a method or an attribute of it.
    positional : sequence
        Arguments without a name.

    Returns
    -------
    dict
        ``value`` (plain lists), ``warnings`` (text, class), ``error`` and ``kind`` (text, class
        names; empty without an error).

    Privacy
    -------
    Errors and warnings have the text that the package gives them, which holds nothing private.
    """
    answer: dict[str, Any] = {"value": None, "error": "", "kind": []}
    with warnings.catch_warnings(record=True) as caught:
        try:
            answer["value"] = plain(_result(name, arguments, owner, positional))
        except Exception as error:
            answer["error"] = str(error)
            answer["kind"] = [
                cls.__name__ for cls in type(error).__mro__ if issubclass(cls, Exception)
            ]
    answer["warnings"] = [[str(record.message), record.category.__name__] for record in caught]
    return answer


def _result(name: str, arguments: Mapping[str, Any], owner: Any, positional: Sequence[Any]) -> Any:
    """Call a function of the package, or a method of a fit, by its dotted name."""
    import dpmodels

    result: Any = dpmodels if owner is None else argument(owner)
    for part in name.split("."):
        result = getattr(result, part)
    named = {key: argument(value) for key, value in arguments.items()}
    if not callable(result):
        return result
    if "schema" in named and isinstance(named["schema"], Mapping):
        named["schema"] = {key: _variable(spec) for key, spec in named["schema"].items()}
    if isinstance(named.get("design"), Mapping):
        named["design"] = dpmodels.Survey(**named["design"])
    return result(*map(argument, positional), **named)


def argument(value: Any) -> Any:
    """Return an argument as Python has it: whole numbers as integers, columns as a frame."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        return int(value)
    if isinstance(value, Mapping):
        if "r_columns" in value:
            return table(value["names"], value["r_columns"])
        if "r_fit" in value:
            from dpmodels.results import Fit

            return Fit.from_json(value["r_fit"])
        return {key: argument(part) for key, part in value.items()}
    return [argument(part) for part in value] if isinstance(value, list) else value


def _variable(spec: Any) -> Any:
    """Return a declaration: texts are levels, FALSE and TRUE are a 0/1 variable."""
    from dpmodels.variables import Binary, Levels

    kinds = {type(level) for level in spec} if isinstance(spec, list) else set()
    return Levels(spec) if kinds == {str} else Binary() if kinds == {bool} else spec


# -- Columns of R


def table(names: list[str], columns: list[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the frame of R's columns; a cell that is missing there is missing here.

    Parameters
    ----------
    names : list of str
    columns : list of mapping
        ``kind``, and ``cells`` as bytes. "number": doubles; "integer64"; "logical": integers of 32
        bits, as codes of texts are, which have ``levels``; "date": days since 1970; "time":
        seconds since 1970; "duration": seconds.

    Privacy
    -------
    The type of a column depends on its type in R alone, not on its cells.
    """
    cells = {place: _column(**column) for place, column in enumerate(columns)}
    frame: pd.DataFrame = pd.DataFrame(cells, copy=False)
    frame.columns = pd.Index(names)
    return frame


def _column(kind: str, cells: bytearray, levels: Any = ()) -> Any:
    """Return one column from its bytes."""
    if kind == "text":
        codes = np.frombuffer(cells, np.int32)
        places = np.where(codes == _NA, 0, codes).astype(np.int64) - 1
        return pd.Categorical.from_codes(places, pd.Index(list(levels), dtype=object))
    if kind == "logical":
        codes = np.frombuffer(cells, np.int32)
        return pd.arrays.BooleanArray(codes == 1, codes == _NA)
    if kind == "integer64":
        integers = np.frombuffer(cells, np.int64)
        return np.where(integers == _NA64, np.nan, integers.astype(float))
    numbers = np.frombuffer(cells, np.float64)
    with np.errstate(invalid="ignore"):  # R's NA is a signalling NaN, at which numpy would warn
        numbers = np.where(np.isnan(numbers), np.nan, numbers)
    if kind == "number":
        return numbers
    seconds = numbers * 86400.0 if kind == "date" else numbers
    usable = np.abs(seconds) < _FARTHEST
    ticks = np.floor(np.where(usable, seconds, 0.0) * 1e6).astype(np.int64)
    if kind == "duration":
        return pd.Series(np.where(usable, ticks.astype("timedelta64[us]"), np.timedelta64("NaT")))
    times = pd.Series(np.where(usable, ticks.astype("datetime64[us]"), np.datetime64("NaT")))
    return times.dt.floor("D") if kind == "date" else times


# -- Results as plain lists


def plain(value: Any) -> Any:
    """Return a result as lists, numbers and text; a budget as it is."""
    if hasattr(value, "_record") and hasattr(value, "to_json"):
        return _fit(value)
    if hasattr(value, "expected_se") and hasattr(value, "steps"):
        return _plan(value)
    if hasattr(value, "columns") and hasattr(value, "index"):
        return columns_of(value)
    if hasattr(value, "index") and hasattr(value, "to_numpy"):
        return {"names": [str(n) for n in value.index], "values": _cells(value)}
    if isinstance(value, Mapping):
        parts = {str(key): plain(part) for key, part in value.items()}
        return parts if type(value) is dict else {"text": str(value), **parts}
    if hasattr(value, "check"):  # a budget, or a study
        return value
    if hasattr(value, "as_text"):
        return {"text": value.as_text(), "object": value}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def columns_of(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as names of rows and columns and a list of cells per column."""
    return {
        "rows": [str(row) for row in frame.index],
        "columns": [str(name) for name in frame.columns],
        "cells": [_cells(frame.iloc[:, place]) for place in range(frame.shape[1])],
    }


def _cells(column: Any) -> list[Any]:
    """Return cells of one type: numbers as floats, True and False, or text and None."""
    if getattr(column.dtype, "kind", "O") in "iuf":
        return [float(cell) for cell in column]
    if getattr(column.dtype, "kind", "O") == "b":
        return [bool(cell) for cell in column]
    return [None if cell is None or cell != cell else str(cell) for cell in column]


def _fit(fit: Any) -> dict[str, Any]:
    """Return the parts of a fit that R keeps: its record as text, and its most used numbers."""
    return {
        "record": fit.to_json(),
        "verb": fit.facts.verb,
        "formula": fit.formula,
        "nobs": None if fit.nobs is None else float(fit.nobs),
        "statement": fit.privacy.statement(),
        "ledger": columns_of(fit.ledger.to_frame()),
    }


def _plan(plan: Any) -> dict[str, Any]:
    """Return the parts of a plan that R keeps."""
    parts = {
        part: {"names": list(numbers), "values": [float(n) for n in numbers.values()]}
        for part, numbers in (("shares", plan.shares), ("scales", plan.scales))
    }
    columns = columns_of(plan.to_frame())
    return {"text": plan.as_text(), "verdict": plan.verdict, "columns": columns, **parts}
