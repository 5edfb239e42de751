"""Readers of one cell: numbers, dates, durations, levels and text, as the schema spells them.

Each takes a cell and public facts, with nothing of the column in sight. ``cells.read_each`` applies
it to the cells that :mod:`dpmodels.formula.reading` opens: whatever a reader says of a cell, a row
stays a function of its own cells (``theory.md``).
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import hashlib
import math
import numbers
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpmodels.cells import read_or_none
from dpmodels.formula.words import LARGEST_EXACT
from dpmodels.variables import (
    NA_WORDS,
    NUMERAL,
    TIME_UNITS,
    Binary,
    Date,
    Levels,
    in_utc,
    microseconds,
    missing_spans,
)

_TRUE = {"true": 1.0, "false": 0.0}


def number_of(cell: Any) -> float:
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
        ticks = cell.astype("M8[us]")  # nanoseconds end in 2262
        return np.nan if np.isnat(ticks) else float(ticks.astype(np.int64) * 1e-6)
    if isinstance(cell, (np.timedelta64, datetime.timedelta, complex, np.complexfloating)):
        return np.nan  # a length of time is in no unit that somebody named
    return float(cell)


def number_reader(variable: Any) -> Callable[[Any], float] | None:
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
            return number_of(cell)
        text = cell.strip()
        if grouped is not None and grouped.fullmatch(text):
            text = re.sub(sign, "", text)
        if point == ",":
            text = "." if "." in text else text.replace(",", ".")
        return number_of(text)

    return read


@functools.lru_cache(maxsize=64)
def missing_numbers(variable: Any) -> Any:
    """Return the missing codes as numbers, also as a column of 32-bit floats holds them."""
    read = number_reader(variable) or number_of
    codes = np.array([read(c) if isinstance(c, str) else float(c) for c in variable.missing])
    codes = codes[np.isfinite(codes)]
    return np.concatenate([codes, codes.astype(np.float32).astype(float)])


def _exact_number(cell: Any) -> float:
    """Return the number of a cell: whole numbers exactly, where floats would merge neighbours."""
    if isinstance(cell, (int, np.integer)):
        return int(cell)
    number = number_of(cell)
    if not LARGEST_EXACT <= abs(number) < math.inf or isinstance(cell, (float, np.floating)):
        return number
    exact = decimal.Decimal(cell.replace("_", "") if isinstance(cell, str) else cell)
    return int(exact) if exact == exact.to_integral_value() else number


def _strip_decimals(text: str) -> str:
    """Return "1" for "1.0": as :func:`printed_cell` writes a whole number."""
    head, _, tail = text.partition(".")
    return head if tail and not tail.strip("0") and head.lstrip("-").isdecimal() else text


def printed_cell(cell: Any) -> str:
    """Return the text of a cell; integers are printed without decimals, and instants in UTC.

    Whether a column of integers is kept as floats may depend on a missing cell elsewhere in it.
    """
    if isinstance(cell, datetime.datetime):
        return str(in_utc(cell))
    if isinstance(cell, (float, np.floating)) and cell == np.trunc(cell) and abs(cell) < 2.0**63:
        return str(int(cell))
    return str(cell)


# -- dates and durations, in microseconds


def date_reader(variable: Date) -> tuple[Callable[[Any], int | None], list[int]]:
    """Return the reader of a cell of a declared date, and its missing codes, in microseconds."""
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
            cell = _strip_decimals(printed_cell(cell))
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
    return read, codes


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


_PRINTED = re.compile(
    r"(?:(-?[0-9]+) days?)?,? ?(?:([+-]?)([0-9]+):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6})[0-9]*)?)?"
)


def duration(cell: Any) -> int | None:
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


# -- levels, and text


def spellings(variable: Levels | Binary) -> Callable[[Any], int | None]:
    """Return a function from a cell to the code of its level.

    The function returns -1 for a spelling that is declared as missing, and None for a cell that
    matches neither a level nor such a spelling.
    """
    return _spellings(
        variable.levels or (0, 1), variable.recode or (), variable.missing or (), variable.strip,
        variable.ignore_case,
    ).code_of  # fmt: skip


@functools.lru_cache(maxsize=64)
def _spellings(
    levels: tuple[Any, ...], recode: tuple[tuple[str, Any], ...], missing: tuple[Any, ...],
    strip: bool, ignore_case: bool,
) -> _Spellings:  # fmt: skip
    """Return the spellings of levels, which are made once per declaration."""
    codes: dict[Any, int] = {}
    for code, level in enumerate(levels):
        codes.setdefault(level, code)
    for spelling, level in recode:
        codes.setdefault(spelling, codes[level])
    for spelling in missing:
        codes.setdefault(spelling, -1)
    return _Spellings(codes, missing_spans(missing), strip, ignore_case)


class _Spellings:
    """Codes of levels by their spellings: as they are, without blanks, without case, by value."""

    def __init__(
        self, codes: dict[Any, int], spans: tuple[tuple[float, float], ...], strip: bool,
        ignore_case: bool,
    ) -> None:  # fmt: skip
        self.spans, self.strip, self.ignore_case = spans, strip, ignore_case
        self.text = {x: c for x, c in codes.items() if isinstance(x, str)}
        self.numbers = {x: c for x, c in codes.items() if not isinstance(x, str)}
        # of numbers: a float that is whole matches "1" as an integer does
        self.printed = dict(self.text)
        for level, code in self.text.items():
            self.printed.setdefault(_strip_decimals(level), code)
        bare = [(self.bare(x), c) for x, c in self.text.items()]
        self.by_blanks = _of_one(bare)
        self.by_case = _of_one((self.folded(x), c) for x, c in self.text.items())
        self.by_value = _of_one((_exact_number(x), c) for x, c in bare if NUMERAL.fullmatch(x))

    def bare(self, written: str) -> str:
        """Return a spelling without the blanks around it, where these do not count."""
        return written.strip() if self.strip else written

    def folded(self, written: str) -> str:
        """Return such a spelling without case, where this does not count."""
        return self.bare(written).casefold() if self.ignore_case else self.bare(written)

    def code_of(self, cell: Any) -> int | None:
        """Return the code of a cell, -1 if it is declared as missing, None if nothing matches."""
        if isinstance(cell, (bytes, np.bytes_)):
            cell = cell.decode("utf-8", "replace")
        code = self._of_text(cell) if isinstance(cell, str) else self._of_number(cell)
        if code is None and self.spans:
            number = number_of(cell)
            code = -1 if any(low <= number <= high for low, high in self.spans) else None
        return code

    def _of_number(self, cell: Any) -> int | None:
        """Return the code of a cell that is not text."""
        code = self.numbers.get(_exact_number(cell)) if self.numbers else None
        if code is None and self.text:
            code = self.printed.get(printed_cell(cell))
        if code is None and self.by_value:
            code = self.by_value.get(_exact_number(cell))
        if code is None and self.by_case and isinstance(cell, (bool, np.bool_)):
            code = self.by_case.get(self.folded(str(cell)))
        return code

    def _of_text(self, cell: str) -> int | None:
        """Return the code of text."""
        code = self.text.get(cell)
        if code is None:
            code = self.by_blanks.get(self.bare(cell))
        if code is None:
            code = self.by_case.get(self.folded(cell))
        if code is None and self.numbers:
            code = self.numbers.get(_exact_number(cell))
        if code is None and self.by_value and NUMERAL.fullmatch(bare := self.bare(cell)):
            code = self.printed.get(_strip_decimals(bare), self.by_value.get(_exact_number(bare)))
        return code


def _of_one(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Return the code of each key, without the keys that occur with different codes."""
    out: dict[Any, int | None] = {}
    for key, code in pairs:
        out[key] = code if out.get(key, code) == code else None
    return {key: code for key, code in out.items() if code is not None}


def level_map(variable: Levels) -> Callable[[Any], int]:
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


def hash_but(words: set[str], cell: Any) -> int:
    """Return the hash of the text of a cell, -1 if it is one of some words."""
    return -1 if printed_cell(cell).strip() in words else hash_text(cell)


def hash_text(cell: Any, key: bytes = b"") -> int:
    """Return a 63-bit hash of the text of a cell, which is stable without a ``key``."""
    text = cell if isinstance(cell, str) else printed_cell(cell)
    encoded = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") >> 1
