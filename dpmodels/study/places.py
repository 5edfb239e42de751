"""TOML texts, and where their keys stand: what an error of a study points at."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

from dpmodels.errors import StudyError

#: Keys and indices from the top of a file to a value.
Keys = tuple[Any, ...]
_NAME = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_HEAD = re.compile(rf"\s*(\[\[?)\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*\]")
_PAIR = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=\s*")
_INNER = re.compile(rf"[{{,]\s*({_NAME})\s*=")
_ITEM = re.compile(r"""[\[,]\s*("[^"\n]*"|'[^'\n]*')""")


class Places:
    """Where the keys of a TOML text stand; of what spans lines, where it begins."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._found: dict[Keys, tuple[int, int]] = {}
        table: Keys = ()
        arrays: dict[Keys, int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if head := _HEAD.match(line):
                place = number, head.start(1) + 1
                table = ()
                parts = _parts(head[2])
                for k, part in enumerate(parts, 1):
                    table += (part,)
                    self._found.setdefault(table, place)
                    if k == len(parts) and head[1] == "[[":
                        arrays[table] = arrays.get(table, -1) + 1
                    if table in arrays:
                        table += (arrays[table],)
                self._found[table] = place
            elif pair := _PAIR.match(line):
                path = (*table, *_parts(pair[1]))
                self._found.setdefault(path, (number, pair.start(1) + 1))
                for inner in _INNER.finditer(line, pair.end()):
                    self._found.setdefault((*path, *_parts(inner[1])), (number, inner.start(1) + 1))
                for k, item in enumerate(_ITEM.finditer(line, pair.end())):
                    self._found.setdefault((*path, k), (number, item.start(1) + 1))

    def line(self, path: Keys) -> str:
        """Return ``study.toml:12:3``, of the nearest key that stands in the file."""
        while path and path not in self._found:
            path = path[:-1]
        line, column = self._found.get(path, (1, 1))
        return f"{self.name}:{line}:{column}"


def _parts(key: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_NAME, key)]


def parsed(file: Path) -> tuple[dict[str, Any], Places]:
    """Return what a TOML file says, and where; refuse what is none, with line and column."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    problem, text = "", ""
    try:
        text = file.read_text(encoding="utf-8")
        return toml.loads(text), Places(text, file.name)
    except (ValueError, RecursionError) as error:
        problem = str(error) if text else "it is not in UTF-8"
    where = re.search(r"\(at line (\d+), column (\d+)\)", problem)
    line, column = where.groups() if where else (text.count("\n") + 1, 1)
    said = re.sub(r" \(at .*\)$", "", problem)
    raise StudyError(
        f"{file.name}:{line}:{column}: this is no TOML: {said}. Texts stand in quotes, "
        'title = "Wages"; lists in brackets, ["a", "b"]; a key once in its table'
    )
