"""Cells of any column type to numbers and codes, as the schema says that a cell is read.

A cell that cannot be read as what its variable is declared to be is missing (NaN, or code -1).
Which branch is taken depends on the *type* of the column, which is public; inside a branch every
cell is mapped separately, by public facts alone. So whatever a schema says of missing codes,
spellings, signs of numbers and dates changes nothing of the guarantee (``theory.md``).

A reader is a function of one cell, and ``cells.read_each`` is the one place that applies it to
cells of any kind. No library compares cells with each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import functools
import hashlib
import math
import numbers
import re
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
from dpmodels.formula.words import LARGEST_EXACT
from dpmodels.quiet import quiet
from dpmodels.variables import (
    NA_WORDS,
    NUMERAL,
    TIME_UNITS,
    Binary,
    Count,
    Date,
    Levels,
    Real,
    Text,
    Variable,
    in_utc,
    microseconds,
    missing_spans,
)

#: Error message for a column that is a matrix or a frame.
TWO_DIMENSIONS = (
    "column {0!r} has {1} dimensions, and a column has one value per row. Give each of its columns "
    "a name of its own, for example {{'{0}1': {0}[:, 0], '{0}2': {0}[:, 1]}}; a single column is "
    "{0}.reshape(-1)"
)

_TRUE = {"true": 1.0, "false": 0.0}


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
        table = read_each([*objects_of(categories), None], _level_map(variable), -1, np.int32)
        same = bool((table == np.append(np.arange(len(table) - 1), -1)).all())
        entry = seen[name] = (categories, variable, table, same)
    table, same = entry[2:]
    return codes.astype(np.int32) if same else looked_up(table, codes)


def _coerced(column: Any, variable: Variable) -> Any:
    """Return the cells of a column as the numbers or codes of its declared variable."""
    kind, payload = opened(column)
    if kind == "text":
        if isinstance(variable, (Real, Count)) and _plain_text(variable):
            parsed = read_or_none(lambda: _parsed(payload, variable.decimal))
            if parsed is not None:
                return _without_codes(parsed, variable)
        kind, payload = "numpy", python_cells(payload)
    if isinstance(variable, Levels):
        return _mapped(kind, payload, _level_map(variable), -1, np.int32)
    if isinstance(variable, Text):
        words = {str(code).strip() for code in variable.missing or ()}
        read = hash_text if not words else lambda cell: _hash_but(words, cell)
        return _mapped(kind, payload, read, -1, np.int64)
    if isinstance(variable, Binary):
        return _binary(kind, payload, variable)
    if isinstance(variable, Date):
        return _dates(variable).cells(kind, payload)
    if isinstance(variable, Real) and variable.duration is not None:
        numbers = _durations(variable.duration).cells(kind, payload)
    else:
        numbers = _numbers(kind, payload, _number_reader(variable))
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
        return read_each(cells.tolist(), read or _number, np.nan, np.float64)
    return np.full(cells.shape[0], np.nan)


def _number(cell: Any) -> float:
    """Read one cell: a number, text that is a number or "true" or "false", or missing."""
    if type(cell) is float:
        return cell
    try:
        return float(cell) if type(cell) is str else _as_number(cell)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever the cell is, it is missing; nothing of it is kept
        return _TRUE.get(str.strip(cell).lower(), np.nan) if isinstance(cell, str) else np.nan


def _as_number(cell: Any) -> float:
    """Return the number of a cell that is not text; fails if there is none."""
    if isinstance(cell, (datetime.datetime, datetime.date)):
        if not isinstance(cell, datetime.datetime):
            cell = datetime.datetime(cell.year, cell.month, cell.day)
        aware = cell.replace(tzinfo=datetime.timezone.utc) if cell.tzinfo is None else cell
        return float(aware.timestamp())
    if isinstance(cell, np.datetime64):
        return float(_array_numbers(np.array([cell]))[0])
    if isinstance(cell, (np.timedelta64, datetime.timedelta, complex, np.complexfloating)):
        return np.nan  # a length of time is in no unit that somebody named
    return float(cell)


# -- what a schema says of numbers, dates and durations -------------------------------------


def _plain_text(variable: Real | Count) -> bool:
    """Return whether text is read without signs between thousands, and as a number."""
    return variable.thousands is None and getattr(variable, "duration", None) is None


def _number_reader(variable: Any) -> Callable[[Any], float] | None:
    """Return the reader of text cells by the declared signs, or None for the default."""
    point, group = variable.decimal or ".", variable.thousands
    if point == "." and group is None:
        return None
    grouped = None
    if group is not None:
        sign = "[ \u00a0\u202f]" if group == " " else re.escape(group)
        grouped = re.compile(
            rf"[+-]?[0-9]{{1,3}}(?:{sign}[0-9]{{3}})+(?:{re.escape(point)}[0-9]*)?(?:[eE][+-]?[0-9]+)?"
        )

    def read(cell: Any) -> float:
        if isinstance(cell, (bytes, np.bytes_)):
            cell = cell.decode("utf-8", "replace")
        if not isinstance(cell, str):
            return _number(cell)
        text = cell.strip()
        if grouped is not None and grouped.fullmatch(text):
            text = re.sub(sign, "", text)
        if point == ",":
            text = "." if "." in text else text.replace(",", ".")
        return _number(text)

    return read


def _without_codes(numbers: Any, variable: Any) -> Any:
    """Return the numbers with missing codes as NaN; codes are compared by value."""
    if variable.missing is None:
        return numbers
    is_code = np.isin(numbers, _missing_numbers(variable))
    for low, high in missing_spans(variable.missing):
        is_code |= (low <= numbers) & (numbers <= high)
    return np.where(is_code, np.nan, numbers) if is_code.any() else numbers


@functools.lru_cache(maxsize=64)
def _missing_numbers(variable: Any) -> Any:
    """Return the missing codes as numbers, also as a column of 32-bit floats holds them."""
    read = _number_reader(variable) or _number
    codes = np.array([read(c) if isinstance(c, str) else float(c) for c in variable.missing])
    codes = codes[np.isfinite(codes)]
    return np.concatenate([codes, codes.astype(np.float32).astype(float)])


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
            payload = object_array(map(_printed, payload.tolist()))
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
    """Return the function that reads a cell of a declared date."""
    words = {str(code).strip() for code in variable.missing or ()}

    shapes, digits, day = variable.shapes, variable.of_digits, datetime.datetime(2020, 12, 31)
    # digits that begin with a day, month or short year: a number has lost its first zero
    short = [re.fullmatch(r"%[dmy](?:%[Ymd])*", shape) for shape in shapes]
    widths = [len(day.strftime(s)) if cut else 0 for s, cut in zip(shapes, short, strict=True)]

    def parsed(text: str) -> int | None:
        for shape, width in zip(shapes, widths, strict=True):
            padded = "0" + text if len(text) == width - 1 and text.isdecimal() else text
            with contextlib.suppress(ValueError):
                return microseconds(datetime.datetime.strptime(padded, shape))
        return None if shapes else _iso_microseconds(text)

    def read(cell: Any) -> int | None:
        if isinstance(cell, (bytes, np.bytes_)):
            cell = cell.decode("utf-8", "replace")
        if digits and isinstance(cell, numbers.Number):
            cell = _strip_decimals(_printed(cell))
        if isinstance(cell, str):
            return None if cell.strip() in words else parsed(cell.strip())
        if isinstance(cell, np.datetime64):
            return int(cell.astype("M8[us]").astype(np.int64))
        if isinstance(cell, datetime.datetime):
            return microseconds(cell)
        if isinstance(cell, datetime.date):
            return microseconds(datetime.datetime(cell.year, cell.month, cell.day))
        return None

    readers = (parsed, _iso_microseconds)
    tried = [read_or_none(functools.partial(reader, word)) for word in words for reader in readers]
    codes = [code for code in tried if code is not None]
    return _Clock("M", variable.start, variable.unit, read, codes, digits)


_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?)?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _iso_microseconds(text: str) -> int | None:
    """Return the microseconds since 1970 of an ISO 8601 date, or None if it is not one."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    *numbers, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (int(x or 0) for x in numbers)
    micro = int((fraction or "0").ljust(6, "0"))
    at = datetime.datetime(year, month, day, hour, minute, second, micro)
    away = 0
    if zone not in (None, "Z"):
        away = (1 if zone[0] == "+" else -1) * (60 * int(zone[1:3]) + int(zone[4:6]))
    return microseconds(at) - 60_000_000 * away


@functools.lru_cache(maxsize=64)
def _durations(unit: str) -> _Clock:
    return _Clock("m", 0, unit, _duration)


_PRINTED = re.compile(
    r"(?:(-?[0-9]+) days?)?,? ?(?:([+-]?)([0-9]+):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?)?"
)


def _duration(cell: Any) -> int | None:
    """Return the microseconds of a duration: an object, or text as it is printed."""
    if isinstance(cell, datetime.timedelta):
        return cell // datetime.timedelta(microseconds=1)
    if isinstance(cell, np.timedelta64):
        return int(cell.astype("m8[us]").astype(np.int64))
    if hasattr(cell, "months") and hasattr(cell, "nanoseconds"):  # an interval of Arrow, DuckDB
        days = cell.months * TIME_UNITS["months"] + cell.days * TIME_UNITS["days"]
        micro = int(getattr(cell, "microseconds", 0))  # an offset of pandas splits the nanoseconds
        return int(days) + micro + int(cell.nanoseconds) // 1000
    match = _PRINTED.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None or not any(match.groups()):
        return None
    days, sign, hours, minutes, seconds, fraction = match.groups()
    clock = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    part = 1_000_000 * clock + int((fraction or "0").ljust(6, "0"))
    return 86_400_000_000 * int(days or 0) + (-part if sign == "-" else part)


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


def _level_map(variable: Levels) -> Callable[[Any], int]:
    """Return a function from a cell to the code of its level, or to -1 if it is missing.

    A cell without a level has the code of ``other=``, if that is declared, else -1.
    """
    other = -1 if variable.other is None else variable.levels.index(variable.other)
    spelled = spellings(variable)

    def code_of(cell: Any) -> int:
        code = spelled(cell)
        if code is None:
            absent = isinstance(cell, str) and cell.strip() in NA_WORDS
            code = -1 if absent else other
        return code

    return code_of


def spellings(variable: Levels | Binary) -> Callable[[Any], int | None]:
    """Return a function from a cell to the code of its level.

    The function returns -1 for a spelling that is declared as missing, and None for a cell that
    matches neither a level nor such a spelling.
    """
    return _spellings(
        variable.levels or (0, 1), variable.recode or (), variable.missing or (), variable.strip,
        variable.ignore_case,
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _spellings(
    levels: tuple[Any, ...], recode: tuple[tuple[str, Any], ...], missing: tuple[Any, ...],
    strip: bool, ignore_case: bool,
) -> Callable[[Any], int | None]:  # fmt: skip
    """Return the function of :func:`spellings`, which is made once per declaration.

    It compares a cell with the spellings exactly, then without blanks, without case, and by value.
    """
    exact: dict[Any, int] = {}
    for code, level in enumerate(levels):
        exact.setdefault(level, code)
    for spelling, level in recode:
        exact.setdefault(spelling, exact[level])
    for spelling in missing:
        exact.setdefault(spelling, -1)
    text = {x: c for x, c in exact.items() if isinstance(x, str)}
    numbers = {x: c for x, c in exact.items() if not isinstance(x, str)}
    printed = dict(text)  # of numbers: a float that is whole matches "1" as an integer does
    for level, code in text.items():
        printed.setdefault(_strip_decimals(level), code)

    def bare(written: str) -> str:
        return written.strip() if strip else written

    def folded(written: str) -> str:
        return bare(written).casefold() if ignore_case else bare(written)

    by_blanks = _of_one((bare(x), c) for x, c in text.items())
    by_case = _of_one((folded(x), c) for x, c in text.items())
    spans = missing_spans(missing)
    by_value = _of_one(
        (_exact_number(bare(x)), c) for x, c in text.items() if NUMERAL.fullmatch(bare(x))
    )

    def code_of(cell: Any) -> int | None:
        if isinstance(cell, (bytes, np.bytes_)):
            cell = cell.decode("utf-8", "replace")
        code = listed(cell)
        if code is None and spans:
            number = _number(cell)
            code = -1 if any(low <= number <= high for low, high in spans) else None
        return code

    def listed(cell: Any) -> int | None:
        if not isinstance(cell, str):
            code = numbers.get(_exact_number(cell)) if numbers else None
            if code is None and text:
                code = printed.get(_printed(cell))
            if code is None and by_value:
                code = by_value.get(_exact_number(cell))
            if code is None and by_case and isinstance(cell, (bool, np.bool_)):
                code = by_case.get(folded(str(cell)))
            return code
        code = text.get(cell)
        if code is None:
            code = by_blanks.get(bare(cell))
        if code is None:
            code = by_case.get(folded(cell))
        if code is None and numbers:
            code = numbers.get(_exact_number(cell))
        if code is None and by_value and NUMERAL.fullmatch(bare(cell)):
            code = printed.get(_strip_decimals(bare(cell)), by_value.get(_exact_number(bare(cell))))
        return code

    return code_of


def readable_spellings(variable: Variable) -> Callable[[Any], bool | None]:
    """Return a function from a cell to whether it can be read, or to None if it is missing.

    Missing is a cell that is declared as a missing code of the variable.
    """
    if isinstance(variable, (Levels, Binary)):
        spelled = spellings(variable)

        def level(cell: Any) -> bool | None:
            code = spelled(cell)
            return None if code == -1 else code is not None

        return level
    codes = {str(code).strip() for code in getattr(variable, "missing", None) or ()}
    plain = dataclasses.replace(variable, missing=None)

    def number(cell: Any) -> bool | None:
        if isinstance(cell, str) and cell.strip() in codes:
            return None
        column = np.empty(1, dtype=object)
        column[0] = cell
        if np.isnan(np.asarray(coerce(column, plain), dtype=float)[0]):
            return False
        return None if np.isnan(np.asarray(coerce(column, variable), dtype=float)[0]) else True

    return number


def _of_one(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Return the code of each key, without the keys that occur with different codes."""
    out: dict[Any, int | None] = {}
    for key, code in pairs:
        out[key] = code if out.get(key, code) == code else None
    return {key: code for key, code in out.items() if code is not None}


def _exact_number(cell: Any) -> float:
    """Return the number of a cell: whole numbers exactly, where floats would merge neighbours."""
    if isinstance(cell, (int, np.integer)):
        return int(cell)
    number = _number(cell)
    if not LARGEST_EXACT <= abs(number) < math.inf or isinstance(cell, (float, np.floating)):
        return number
    exact = decimal.Decimal(cell.replace("_", "") if isinstance(cell, str) else cell)
    return int(exact) if exact == exact.to_integral_value() else number


def _strip_decimals(text: str) -> str:
    """Return "1" for "1.0": as :func:`_printed` writes a whole number."""
    head, _, tail = text.partition(".")
    return head if tail and not tail.strip("0") and head.lstrip("-").isdecimal() else text


def _printed(cell: Any) -> str:
    """Return the text of a cell; integers are printed without decimals, and instants in UTC.

    Whether a column of integers is kept as floats may depend on a missing cell elsewhere in it.
    """
    if isinstance(cell, datetime.datetime):
        return str(in_utc(cell))
    if isinstance(cell, (float, np.floating)) and cell == np.trunc(cell) and abs(cell) < 2.0**63:
        return str(int(cell))
    return str(cell)


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


def _hash_but(words: set[str], cell: Any) -> int:
    """Return the hash of the text of a cell, -1 if it is one of some words."""
    return -1 if _printed(cell).strip() in words else hash_text(cell)


def hash_text(cell: Any, key: bytes = b"") -> int:
    """Return a 63-bit hash of the text of a cell, which is stable without a ``key``."""
    text = cell if isinstance(cell, str) else _printed(cell)
    encoded = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") >> 1
