"""Notes under a result: a record of each note, and the tuple of texts that users get.

The texts themselves are in :mod:`dpmodels.messages`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpmodels.lazy import pd

#: Code of a note that was written as a string, by a user's method or in a file of an older version.
PLAIN = "plain"
_NEXT_SENTENCE = re.compile(r"(?<=[.)])\s+(?=[A-Z])")


class Severity(enum.IntEnum):
    """Severity of a note: a summary shows the most severe first."""

    DETAIL = 1  # Describes the computation of a number
    ASSUMPTION = 2  # Assumption of a standard error or an interval
    CAUTION = 3  # Interpret with care; the long form names a remedy
    INVALID = 4  # Not tested, not estimable, no standard error
    GUARANTEE = 5  # A condition of the privacy guarantee: never shortened, never left out


@dataclass(frozen=True)
class Note:
    """A note under a result, in a short and a long form."""

    code: str  # Stable and unique, for example "clip.large_residuals"
    severity: Severity
    short: str  # One sentence without its full stop, at most 14 words plus the columns
    long: str = ""  # At most three sentences: consequence, then remedy
    columns: tuple[str, ...] = ()  # Coefficients or variables concerned

    def text(self, *, full: bool = True) -> str:
        """Return the short form, or both forms, with the columns after the first sentence."""
        named = f": {', '.join(self.columns)}" if self.columns else ""
        stop = "" if (self.short + named).endswith((".", "!", "?")) else "."
        return f"{self.short}{named}{stop}" + (f" {self.long}" if full and self.long else "")

    def __str__(self) -> str:
        return self.text()

    def clause(self) -> str:
        """Return the short form as a clause of a longer sentence: no capital, no full stop."""
        named = f": {', '.join(self.columns)}" if self.columns else ""
        first = self.short[:2]
        lower = first[:1].upper() == first[:1] and first[1:].islower()
        return (self.short[:1].lower() + self.short[1:] if lower else self.short) + named

    def to_dict(self) -> dict[str, Any]:
        """Return the five fields as JSON-ready values."""
        return {
            "code": self.code,
            "severity": self.severity.name.lower(),
            "short": self.short,
            "long": self.long,
            "columns": list(self.columns),
        }


@dataclass(frozen=True)
class Template:
    """A text of the catalogue, with places for released or public values."""

    severity: Severity
    code: str
    short: str
    long: str = ""

    def __call__(self, *, columns: Iterable[str] = (), **values: Any) -> Note:
        """Return the note with its values filled in."""
        return Note(
            self.code,
            self.severity,
            self.short.format(**values),
            self.long.format(**values),
            tuple(map(str, columns)),
        )


class Notes(tuple[str, ...]):
    """Texts of the notes of a result: a tuple of strings, with the records behind it."""

    records: tuple[Note, ...]

    @classmethod
    def of(cls, records: Iterable[Note]) -> Notes:
        """Return the long texts of some notes."""
        notes = tuple(records)
        out = cls(note.text() for note in notes)
        out.records = notes
        return out

    def to_frame(self) -> pd.DataFrame:
        """Return one row per note: code, severity, columns, short and long form."""
        rows = [
            (n.code, n.severity.name.lower(), ", ".join(n.columns), n.text(full=False), n.long)
            for n in self.records
        ]
        return pd.DataFrame(rows, columns=["code", "severity", "columns", "short", "long"])


def note_of(saved: Any, severity: Severity = Severity.ASSUMPTION) -> Note:
    """Return a note from its record, from its saved form, or from a plain string."""
    if isinstance(saved, Note):
        return saved
    if isinstance(saved, Mapping):
        fields = [saved[name] for name in ("code", "short", "long")]
        columns = tuple(saved["columns"])
        if not all(isinstance(text, str) for text in (*fields, *columns)):
            raise ValueError("a saved note is not made of strings")
        code, short, long = fields
        return Note(code, Severity[str(saved["severity"]).upper()], short, long, columns)
    if not isinstance(saved, str):
        raise TypeError("a saved note is neither a record nor a string")
    sentences: list[str] = _NEXT_SENTENCE.split(" ".join(saved.split()), maxsplit=1)
    return Note(PLAIN, severity, sentences[0].removesuffix("."), "".join(sentences[1:]))
