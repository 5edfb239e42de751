"""Lines of a CSV file: one line, one row, whatever stands in it.

A parser of whole files lets one record decide what the others are: a quote that is not closed
takes in the lines after it, a lone carriage return or an empty line adds or removes a row, a line
with too many cells is an error. Here each line is a row by itself. Lines of the
right number of cells with quotes that close, nearly all of a usual file, are left to pandas as they
are; any other is written anew, so that pandas must find one row in it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dpmodels.errors import SourceError

__all__ = ["opened_bytes", "parts_of_file", "read_header"]

#: No column is taken for an index because of the first row, no cell stops the reader.
_CSV: dict[str, Any] = {"index_col": False, "encoding_errors": "replace"}
#: A line of cells that every parser reads alike, in quotes (doubled inside them) or without any.
_CELL = rb'(?:"[^"\r\n\0]*(?:""[^"\r\n\0]*)*"|[^",\r\n\0]*)'
_CELLS = _CELL + rb"(?:," + _CELL + rb"){%d}\r?\n"
_BOM = b"\xef\xbb\xbf"


def opened_bytes(path: Path) -> IO[bytes]:
    """Open a file, compressed or not, by the ending of its name."""
    import bz2
    import gzip
    import lzma

    ending = path.suffix.lower()
    if ending == ".zst":
        import zstandard  # type: ignore[import-not-found, unused-ignore]

        return io.BufferedReader(zstandard.open(path, "rb"))
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers.get(ending, open)(path, "rb")


def read_header(path: Path) -> list[str]:
    """Return the column names: the cells of the first line that is not empty.

    Raises
    ------
    SourceError
        The header is not one line; what it says is not shown, since it could be rows.
    """
    with opened_bytes(path) as file:
        return _header(file, path.name)


def _header(file: IO[bytes], name: str) -> list[str]:
    import pandas as pd

    line = next((text for text in file if text.removeprefix(_BOM).strip()), b"")
    line = line.removeprefix(_BOM).rstrip(b"\r\n")
    if not line:
        raise SourceError(f"{name}: the file is empty, its columns are not known")
    cells = None if b"\r" in line or b"\0" in line else _record(line.decode("utf-8", "replace"))
    if cells is None:
        raise SourceError(
            f"{name}: the first line is not a header. Lines must end in a line feed, text must be "
            "UTF-8, and a quote must be closed in its own line"
        )
    return list(pd.read_csv(io.BytesIO(line + b"\n"), nrows=0, **_CSV).columns)


def parts_of_file(path: Path, names: Sequence[str], rows: int) -> Iterator[Any]:
    """Yield frames of text cells, ``rows`` lines at once.

    Notes
    -----
    **Privacy.** Every line after the header is one row, and its cells depend on this line alone.
    Nothing raises because of a line.
    """
    import pandas as pd

    with opened_bytes(path) as file:
        header = _header(file, path.name)
        while lines := list(islice(file, rows)):
            yield pd.read_csv(
                io.BytesIO(_one_row_a_line(lines, len(header))),
                header=None,
                names=header,
                usecols=list(names),
                dtype=str,
                skip_blank_lines=False,
                **_CSV,
            )


def _one_row_a_line(lines: list[bytes], width: int) -> bytes:
    """Return text of which a parser makes one row of ``width`` cells a line."""
    if not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    quoted = re.compile(_CELLS % (width - 1)).fullmatch
    for i in np.flatnonzero(~_plain(lines, width)).tolist():
        if not quoted(lines[i]):
            lines[i] = _written(lines[i], width)
    return b"".join(lines)


def _plain(lines: list[bytes], width: int) -> npt.NDArray[np.bool_]:
    """Return which lines a parser reads as one row of ``width`` cells, all at once."""
    text = np.frombuffer(b"".join(lines), dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)))

    def count(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.bincount(np.searchsorted(ends, places, side="right"), minlength=len(lines))

    returns = np.flatnonzero(text == ord("\r"))
    lone = returns[text[returns + 1] != ord("\n")]  # every line ends in a line feed
    odd = np.concatenate([np.flatnonzero((text == ord('"')) | (text == 0)), lone])
    return (count(np.flatnonzero(text == ord(","))) == width - 1) & (count(odd) == 0)


def _written(line: bytes, width: int) -> bytes:
    """Write one line anew, every cell in quotes; a line that is no record has no cells."""
    text = line.rstrip(b"\r\n").decode("utf-8", "replace").replace("\r", " ")
    cells = _record(text)
    if cells is None or any(cells[width:]):  # too many: which is which is not known
        cells = []
    cells = [*cells[:width], *[""] * (width - len(cells))]
    return ",".join('"' + c.replace('"', '""') + '"' for c in cells).encode() + b"\n"


def _record(text: str) -> list[str] | None:
    """Return the cells of a line, or None if a quote is not closed in it."""
    if "\0" in text or "\n" in text:
        return None
    reader = csv.reader(iter([text, '"']))
    try:
        cells = next(reader)
    except (csv.Error, StopIteration):
        return None
    return cells if reader.line_num == 1 else None
