"""A table written to a file; the suffix says how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmodels.errors import RequestError, did_you_mean, shown

if TYPE_CHECKING:
    from dpmodels.tables.table import Shown

__all__ = ["SUFFIXES", "check_file", "write_file"]

#: Suffix -> format.
SUFFIXES = {
    ".tex": "tex",
    ".html": "html",
    ".md": "md",
    ".typ": "typst",
    ".txt": "text",
    ".docx": "docx",
}
_PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{}</title></head>\n'
    "<body>\n{}\n</body></html>\n"
)


def check_file(path: Any) -> Path:
    """Return the path of a file whose suffix is known, or refuse it."""
    if not isinstance(path, (str, Path)):
        raise RequestError(f"file= takes a path such as 'table.tex', got {shown(path)}")
    found = Path(path)
    if found.suffix.lower() not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise RequestError(
            f"file={shown(str(path))}: the suffix says the format, one of {known}."
            f"{did_you_mean(found.suffix, SUFFIXES)}"
        )
    return found


def write_file(shown_: Shown, path: Path) -> None:
    """Write a table, in UTF-8, or as a Word file."""
    fmt = SUFFIXES[path.suffix.lower()]
    if fmt == "docx":
        from dpmodels.tables.word import write

        write(shown_.table(), path)
        return
    text = shown_.render(fmt)
    if fmt == "html":
        text = _PAGE.format(shown_.table().title or "Table", text)
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
