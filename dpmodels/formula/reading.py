"""Cells of any column type to numbers and codes, as the schema says that a cell is read.

A cell that cannot be read as what its variable is declared to be is missing (NaN, or code -1).
Which branch is taken depends on the *type* of the column, which is public; inside a branch every
cell is mapped separately, by public facts alone. So whatever a schema says of missing codes,
spellings, signs of numbers and dates changes nothing of the guarantee (``theory.md``).

A reader is a function of one cell, and ``cells.read_each`` is the one place that applies it to
cells of any kind. No library compares cells with each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dpmodels.arrays import dimensions
from dpmodels.cells import (
    looked_up,
    object_array,
    objects_of,
    opened,
    parts_of,
    python_cells,
    read_each,
    read_or_none,
)
from dpmodels.errors import SourceError
from dpmodels.formula.spelled import (
    date_reader,
    duration,
    hash_but,
    hash_text,
    level_map,
    missing_numbers,
    number_of,
    number_reader,
    printed_cell,
    spellings,
)
from dpmodels.quiet import quiet
from dpmodels.variables import (
    TIME_UNITS,
    Binary,
    Count,
    Date,
    Levels,
    Real,
    Text,
    Variable,
    missing_spans,
)

#: Error message for a column that is a matrix or a frame.
TWO_DIMENSIONS = (
    "column {0!r} has {1} dimensions, and a column has one value per row. Give each of its columns "
    "a name of its own, for example {{'{0}1': {0}[:, 0], '{0}2': {0}[:, 1]}}; a single column is "
    "{0}.reshape(-1)"
)


def coerce(column: Any, variable: Variable) -> Any:
    """Return the cells of a column (array, Series, Arrow) as its variable wants them.

    float64 with NaN for missing (Real, Count, Binary); int32 codes with -1 for missing or
    undeclared (Levels, Ordered; undeclared counts as ``other=`` if there is one); int64 hashes with
    -1 for missing (Text). A float64 input is returned as it is, not copied.

    **Privacy.** Row by row; never raises or warns because of a cell.
    """
    return coerce_all({"": column}, {"": variable})[""]


def coerce_all(
    columns: Mapping[str, Any],
    variables: Mapping[str, Variable],
    seen: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the cells of several columns of a chunk, each as :func:`coerce` gives them.

    ``seen`` is kept by who reads several chunks of one table, and as confidential as they are: what
    the categories of a column stand for is then looked up once. Silencing warnings costs more than
    most columns do, so it is done once for all of them.
    """
    with quiet(), np.errstate(all="ignore"):
        out = {}
        for name, variable in variables.items():
            if dimensions(columns[name]) != 1:  # flattened, one row would be several
                raise SourceError(TWO_DIMENSIONS.format(name, dimensions(columns[name])))
            codes = None
            if seen is not None and isinstance(variable, Levels):
                codes = _by_categories(columns[name], variable, name, seen)
            if codes is None:
                parts = [_coerced(part, variable) for part in parts_of(columns[name])]
                codes = parts[0] if len(parts) == 1 else np.concatenate(parts)
            out[name] = codes
        return out


def _by_categories(column: Any, variable: Levels, name: str, seen: dict[str, Any]) -> Any:
    """Return the codes of a pandas categorical from its categories, or None for another type.

    The chunks of one column have one index of categories: the same object.
    """
    if type(column).__module__.split(".")[0] != "pandas":
        return None
    if type(getattr(column, "dtype", None)).__name__ != "CategoricalDtype":
        return None
    cells = getattr(column, "array", column)
    codes, categories = cells.codes, cells.categories
    entry = seen.get(name)
    if entry is None or entry[0] is not categories or entry[1] is not variable:
        table = read_each([*objects_of(categories), None], level_map(variable), -1, np.int32)
        same = bool((table == np.append(np.arange(len(table) - 1), -1)).all())
        entry = seen[name] = (categories, variable, table, same)
    table, same = entry[2:]
    return codes.astype(np.int32) if same else looked_up(table, codes)


def _coerced(column: Any, variable: Variable) -> Any:
    """Return the cells of a column as the numbers or codes of its declared variable."""
    kind, payload = opened(column)
    if kind == "text":
        by_unit = getattr(variable, "duration", None) is not None
        if isinstance(variable, (Real, Count)) and variable.thousands is None and not by_unit:
            parsed = read_or_none(lambda: _parsed(payload, variable.decimal))
            if parsed is not None:
                return _without_codes(parsed, variable)
        kind, payload = "numpy", python_cells(payload)
    if isinstance(variable, Levels):
        return _mapped(kind, payload, level_map(variable), -1, np.int32)
    if isinstance(variable, Text):
        words = {str(code).strip() for code in variable.missing or ()}
        read = hash_text if not words else lambda cell: hash_but(words, cell)
        return _mapped(kind, payload, read, -1, np.int64)
    if isinstance(variable, Binary):
        return _binary(kind, payload, variable)
    if isinstance(variable, Date):
        return _dates(variable).cells(kind, payload)
    if isinstance(variable, Real) and variable.duration is not None:
        numbers = _durations(variable.duration).cells(kind, payload)
    else:
        numbers = _numbers(kind, payload, number_reader(variable))
    return _without_codes(numbers, variable)


def _parsed(column: Any, decimal: str | None = None) -> Any:
    """Return the numbers of an Arrow array of text; fails if one cell is none.

    Both readers round correctly, so whether this one or ``float`` reads a cell changes nothing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ",":
        if pc.any(pc.match_substring(column, ".")).as_py():
            raise ValueError
        column = pc.replace_substring(column, ",", ".")
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


# -- numbers -------------------------------------------------------------------------------


def _numbers(kind: str, payload: Any, read: Callable[[Any], float] | None = None) -> Any:
    """Return numbers; ``read`` reads a cell that is an object or text, and has a default."""
    if kind == "dictionary":
        codes, values = payload
        return looked_up(np.append(_array_numbers(values, read), np.nan), codes)
    if kind == "masked":
        return np.where(payload[1], np.nan, _array_numbers(payload[0], read))
    return _array_numbers(payload, read)


def _array_numbers(cells: Any, read: Callable[[Any], float] | None = None) -> Any:
    """Return the cells of an array as floats, NaN where one cannot be read."""
    if cells.dtype == np.float64:
        return cells
    kind = cells.dtype.kind
    if kind in "fiub":
        return cells.astype(np.float64)
    if kind == "M":
        ticks = cells.astype("datetime64[us]")  # nanoseconds end in 2262
        return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) * 1e-6)
    if kind in "USO":
        return read_each(cells.tolist(), read or number_of, np.nan, np.float64)
    return np.full(cells.shape[0], np.nan)


# -- what a schema says of numbers, dates and durations -------------------------------------


def _without_codes(numbers: Any, variable: Any) -> Any:
    """Return the numbers with missing codes as NaN; codes are compared by value."""
    if variable.missing is None:
        return numbers
    is_code = np.isin(numbers, missing_numbers(variable))
    for low, high in missing_spans(variable.missing):
        is_code |= (low <= numbers) & (numbers <= high)
    return np.where(is_code, np.nan, numbers) if is_code.any() else numbers


# -- dates and durations -------------------------------------------------------------------


#: Microseconds that no date or duration reaches: such a cell is missing.
_FAR = 1 << 61


class _Clock:
    """Reads points or lengths of time as numbers of a unit from a start; both are public."""

    def __init__(
        self, letter: str, start: int, unit: str, read: Callable[[Any], int | None],
        missing: Iterable[int] = (), digits: bool = False,
    ) -> None:  # fmt: skip
        self.letter, self.start, self.unit = letter, start, TIME_UNITS[unit]
        self.read = read  # microseconds of a cell that is an object or text, None: it is none
        self.missing = list(missing)  # in microseconds
        self.digits = digits  # whether ``read`` reads the digits of numbers

    def cells(self, kind: str, payload: Any) -> Any:
        """Return the cells of an opened column, NaN for missing.

        Numbers are digits of dates, if a format is declared. Else they are numbers of the unit
        already: rows that were made from a schema. The type of a private column is checked before
        (``types.py``).
        """
        if kind == "dictionary":
            codes, values = payload
            return looked_up(np.append(self.cells("numpy", values), np.nan), codes)
        if kind == "masked":
            return np.where(payload[1], np.nan, self.cells("numpy", payload[0]))
        letter = payload.dtype.kind
        if letter in "fiub" and not self.digits:
            return payload.astype(np.float64)
        if letter in "fiub":
            payload = object_array(map(printed_cell, payload.tolist()))
            letter = "O"
        if letter in "mM":
            ticks = payload.astype(f"{letter}8[us]")
            present = ~np.isnat(ticks) & (letter == self.letter)
            return self._numbers(ticks.astype(np.int64), present)
        ticks = read_each(payload.tolist(), self._tick, _FAR, np.int64)
        return self._numbers(ticks, ticks != _FAR)

    def _tick(self, cell: Any) -> int:
        tick = self.read(cell)
        return _FAR if tick is None or abs(tick) >= _FAR else tick

    def _numbers(self, ticks: Any, present: Any) -> Any:
        present = present & ~np.isin(ticks, self.missing)
        ticks = np.clip(ticks, -_FAR, _FAR)
        return np.where(present, (ticks - self.start) / self.unit, np.nan)


@functools.lru_cache(maxsize=64)
def _dates(variable: Date) -> _Clock:
    """Return the clock of a declared date."""
    read, codes = date_reader(variable)
    return _Clock("M", variable.start, variable.unit, read, codes, variable.of_digits)


@functools.lru_cache(maxsize=64)
def _durations(unit: str) -> _Clock:
    return _Clock("m", 0, unit, duration)


# -- categories ----------------------------------------------------------------------------


def _mapped(
    kind: str, payload: Any, code_of: Callable[[Any], int], missing: int, dtype: Any
) -> Any:
    """Return the codes of all cells of an opened column, computed by ``code_of`` from each cell.

    A cell that is absent or cannot be read has the code ``missing``.
    """
    if kind == "masked":
        codes = _mapped("numpy", payload[0], code_of, missing, dtype)
        return np.where(payload[1], np.asarray(missing, dtype=dtype), codes)
    if kind == "numpy" and payload.dtype.kind in "biuf":
        # numbers of one type are equal as Python's are, but for zeros
        payload = payload + 0.0 if payload.dtype.kind == "f" else payload
        values, codes = np.unique(payload, return_inverse=True)
        kind, payload = "dictionary", (codes, values.astype(object))
    if kind == "dictionary":
        codes, values = payload
        return looked_up(read_each([*values, None], code_of, missing, dtype), codes)
    return read_each(payload.tolist(), code_of, missing, dtype)


def _binary(kind: str, payload: Any, variable: Binary) -> Any:
    """Return the cells of a declared 0/1 variable as 0.0, 1.0 or NaN."""
    if variable.levels is not None or variable.recode is not None:
        spelled = spellings(variable)

        def code_of(cell: Any) -> int:
            code = spelled(cell)
            return -1 if code is None else code

        codes = _mapped(kind, payload, code_of, -1, np.int32)
        return np.where(codes < 0, np.nan, codes.astype(np.float64))
    x = _numbers(kind, payload)
    odd = (x != 0.0) & (x != 1.0) & ~np.isnan(x)
    return np.where(odd, np.nan, x) if odd.any() else x


