"""TOML texts, and where their keys stand: what an error of a study points at."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpmodels.errors import StudyError

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|\#[^\n]*)
    |(?P<text>\"{3}(?:\\.|[^\\])*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    |(?P<line>\n)|(?P<mark>[\[\]{}=,.])|(?P<bare>[^\s\[\]{}=,.\#"']+)""",
    re.VERBOSE | re.DOTALL,
)
#: Keys and indices from the top of a file to a value.
Keys = tuple[Any, ...]


class Places:
    """Where each key of a TOML text stands.

    Parameters
    ----------
    text : str
        That the parser has taken: what is no TOML gives fewer places, and no error.
    name : str
        Of the file, as errors print it.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._text = text
        self._found: dict[Keys, int] = {}
        self._arrays: dict[Keys, int] = {}
        found = (m for m in _TOKEN.finditer(text) if m.lastgroup != "skip")
        self._tokens = [(m.lastgroup, m.group(), m.start()) for m in found]
        self._at = 0
        self._read()

    def line(self, path: Keys) -> str:
        """Return ``study.toml:12:3``, of the nearest key that stands in the file."""
        while path and path not in self._found:
            path = path[:-1]
        offset = self._found.get(path, 0)
        before = self._text[:offset]
        return f"{self.name}:{before.count(chr(10)) + 1}:{offset - before.rfind(chr(10))}"

    # -- a reader of keys: values are passed over -------------------------------------------

    def _read(self) -> None:
        table: Keys = ()
        while self._at < len(self._tokens):
            _, text, offset = self._tokens[self._at]
            if text == "[":
                double = self._peek(1) == "["
                self._at += 1 + double
                table = self._header(self._key(), offset, double=double)
                self._at += 1 + double
            elif text == "\n":
                self._at += 1
            else:
                self._pair(table)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _key(self) -> list[str]:
        """Return the parts of a dotted key."""
        parts = []
        while self._at < len(self._tokens) and self._tokens[self._at][0] in ("bare", "text"):
            text = self._peek()
            parts.append(text[1:-1] if text[0] in "\"'" else text)
            self._at += 1
            if self._peek() != ".":
                break
            self._at += 1
        return parts

    def _header(self, parts: list[str], offset: int, *, double: bool) -> Keys:
        out: Keys = ()
        for k, part in enumerate(parts):
            out += (part,)
            if double and k == len(parts) - 1:
                self._arrays[out] = self._arrays.get(out, -1) + 1
                self._found.setdefault(out, offset)
            if out in self._arrays:
                out += (self._arrays[out],)
        self._found[out] = offset
        return out

    def _pair(self, table: Keys) -> None:
        offset, before = self._tokens[self._at][2], self._at
        for part in self._key():
            table += (part,)
            self._found.setdefault(table, offset)
        self._at += self._peek() == "="
        self._value(table)
        self._at += self._at == before  # whatever stands here, it is passed over

    def _value(self, path: Keys) -> None:
        opening = self._peek()
        if opening not in ("[", "{"):
            while self._at < len(self._tokens) and (
                self._tokens[self._at][0] in ("bare", "text") or self._peek() == "."
            ):
                self._at += 1
            return
        self._at += 1
        number = 0
        while self._at < len(self._tokens) and self._peek() not in ("]", "}"):
            if self._peek() in ("\n", ","):
                self._at += 1
            elif opening == "{":
                self._pair(path)
            else:
                before = self._at
                self._found[(*path, number)] = self._tokens[self._at][2]
                self._value((*path, number))
                self._at += self._at == before
                number += 1
        self._at += 1


def parsed(text: str, name: str) -> tuple[dict[str, Any], Places]:
    """Return what a TOML text says, and where.

    Raises
    ------
    StudyError
        With line and column, where it is no TOML.
    """
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    problem = ""
    try:
        return toml.loads(text), Places(text, name)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    where = re.search(r"\(at line (\d+), column (\d+)\)", problem)
    line, column = (where[1], where[2]) if where else (str(text.count("\n") + 1), "1")
    said = re.sub(r" \(at .*\)$", "", problem)
    raise StudyError(
        [
            f"{name}:{line}:{column}: this is no TOML: {said}. Texts stand in quotes, "
            'title = "Wages"; lists in brackets, ["a", "b"]; a key once in its table'
        ]
    )


def read_text(path: Path) -> str:
    """Return the text of a file that is named by an analyst or a custodian."""
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, ValueError):
        pass
    raise StudyError([f"{path.name}:1:1: this is no text in UTF-8. Save it as UTF-8"])


def plain_values(value: Any) -> Any:
    """Return a value with dates as text, as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(k): plain_values(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain_values(v) for v in value]
    return value if isinstance(value, (str, int, float, bool)) else str(value)
