"""Factors of a fit: reference levels, and fixed effects that a page shows as one line each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dpmodels.formula.schema import label_of
from dpmodels.results.record import Record
from dpmodels.tables.content import Row

#: Verbs whose formula has fixed effects behind its bar.
_WITH_EFFECTS = ("dp_feols", "dp_fepois")
#: A level of a factor in the name of a coefficient; ``T.`` if it is compared with a reference.
_LEVEL = re.compile(r"(?:C\()?`?(\w+)`?(?:, ?Treatment\(.*\))?\)?\[(T\.)?(.*)\]")


def parts_of(name: str) -> list[str]:
    """Return the parts of an interaction; levels may hold colons."""
    return re.split(r":(?![^\[]*\])", name)


def levels_of(name: str) -> list[tuple[str, str, bool]]:
    """Return (factor, level, whether it is compared with a reference) of a coefficient's parts."""
    matches = (_LEVEL.fullmatch(part) for part in parts_of(name))
    return [(match[1], match[3], bool(match[2])) for match in matches if match is not None]


def contrasts_of(name: str) -> list[tuple[str, str]]:
    """Return (factor, level) of each part of a coefficient that is a contrast with a reference."""
    return [(factor, level) for factor, level, compared in levels_of(name) if compared]


def reference_of(record: Record, factor: str) -> str | None:
    """Return the level of a factor with which its coefficients compare, or None if it has none."""
    levels = [str(x) for x in getattr(record.design.kinds.get(factor), "levels", None) or ()]
    pairs = {pair for name in record.estimate.names for pair in contrasts_of(name)}
    missing = [level for level in levels if (factor, level) not in pairs]
    return missing[0] if len(missing) == 1 and len(levels) > 1 else None


def references(*records: Record, labels: bool = False) -> str:
    """Return the reference levels of all factors with coefficients: ``g = a, year = 2001``."""
    out: dict[str, None] = {}
    for record in records:
        hidden = set(fixed_effects(record))
        for factor in record.design.kinds:
            base = None if factor in hidden else reference_of(record, factor)
            if base is not None:
                shown = label_of(record.design.schema, factor) if labels else factor
                out[f"{shown} = {base}"] = None
    return ", ".join(out)


def fixed_effects(record: Record) -> tuple[str, ...]:
    """Return the variables behind the bar of a formula with fixed effects, in their order."""
    call = record.call
    if call.verb not in _WITH_EFFECTS or "|" not in call.formula:
        return ()
    words = re.split(r"[+*:\s]+", call.formula.partition("|")[2].strip())
    return tuple(dict.fromkeys(word.strip("`() ").removeprefix("C(") for word in words if word))


def hidden(record: Record) -> frozenset[str]:
    """Return the coefficients of fixed effects, which pages and pictures do not list."""
    effects = set(fixed_effects(record))
    return frozenset(
        name for name in record.estimate.names
        if effects and (pairs := contrasts_of(name)) and {f for f, _ in pairs} <= effects
    )  # fmt: skip


def effects_line(record: Record) -> tuple[tuple[str, str], ...]:
    """Return the line of a page on fixed effects, and the line on reference levels."""
    effects, base = fixed_effects(record), references(record, labels=True)
    lines = [("Fixed effects", ", ".join(f"{name}: yes" for name in effects))] if effects else []
    return (*lines, *([("Reference", base)] if base else ()))


def listed_rows(record: Record, cells: Iterable[tuple[str, ...]]) -> tuple[Row, ...]:
    """Return the rows of a page, without those of fixed effects."""
    gone = hidden(record)
    pairs = zip(record.estimate.names, cells, strict=True)
    return tuple(Row(texts) for name, texts in pairs if name not in gone)


def rows_of_effects(fits: Iterable[Any]) -> list[Row]:
    """Return one row per fixed effect of any fit of a table: yes, or a dash."""
    each = [fixed_effects(fit._record) for fit in fits]
    names = dict.fromkeys(name for effects in each for name in effects)
    return [Row((n, *("yes" if n in effects else "-" for effects in each))) for n in names]
