"""Lines of a CSV file: one line, one row, whatever stands in it.

A parser of whole files lets one record decide what the others are: a quote that is not closed
takes in the lines after it, a lone carriage return or an empty line adds or removes a row, a line
with too many cells is an error. Here each line is a row by itself. Lines of the
right number of cells with quotes that close, nearly all of a usual file, are left to the parser
(pyarrow's where it is installed, else pandas') as they are; any other is written anew, so that the
parser must find one row in it.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import re
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dpmodels.errors import SourceError

#: No column is taken for an index because of the first row, no cell stops the reader.
_CSV: dict[str, Any] = {"index_col": False, "encoding_errors": "replace"}
#: Bytes that are read at once.
_BYTES = 1 << 20
#: Cells that are missing, whoever reads them: what pandas takes for missing.
MISSING = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
#: A line of cells that every parser reads alike, in quotes (doubled inside them) or without any.
_CELL = rb'(?:"[^"\r\n\0]*(?:""[^"\r\n\0]*)*"|[^",\r\n\0]*)'
_CELLS = _CELL + rb"(?:," + _CELL + rb"){%d}\r?\n"
#: Characters that parsers differ about.
_ODD = (b'"', b"\r", b"\0")
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


def parts_of_file(
    path: Path, names: Sequence[str], rows: int, numbers: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the columns of ``rows`` lines at once: text cells, or numbers where asked for.

    Parameters
    ----------
    numbers : collection of str
        Columns that are wanted as numbers: they come so where every cell of a part is one (or
        missing), else as text. Both readers round correctly, so that changes no cell.

    Notes
    -----
    **Privacy.** Every line after the header is one row, and its cells depend on this line alone.
    Nothing raises because of a line.
    """
    done = 0
    if importlib.util.find_spec("pyarrow") is not None:
        for missing in ([""], MISSING) if set(names) <= set(numbers) else (MISSING,):
            ended, done = yield from _streamed(path, names, rows, numbers, missing, done)
            if ended:
                return
    with opened_bytes(path) as file:
        header = _header(file, path.name)
        _pass_lines(file, done)
        for block in _whole_lines(file, rows):
            yield _columns(block, header, names, numbers)


class _Plain:
    """A file of bytes that ends where a character comes that parsers differ about."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.odd = False

    def read(self, size: int) -> bytes:
        """Return the next bytes; none once a character was odd."""
        more = b"" if self.odd else self._file.read(size)
        self.odd = self.odd or any(odd in more for odd in _ODD)
        return b"" if self.odd else more

    def close(self) -> None:
        """Leave the file to who opened it."""


def _streamed(
    path: Path, names: Sequence[str], rows: int, numbers: Collection[str], missing: list[str],
    done: int,
) -> Generator[dict[str, Any], None, tuple[bool, int]]:  # fmt: skip
    """Yield the columns of plain lines from row ``done`` on, and say how far it went.

    A line is a row here too: without quotes, carriage returns and nulls Arrow cuts at line feeds
    alone, and takes no line of another number of cells than the header has. Where it stops, at an
    odd character, at such a line or at a cell that is no number, another way takes up the rows
    that were not yielded.

    Parameters
    ----------
    missing : list of str
        Cells that are missing. Of numbers Arrow reads "nan" as one that is NaN, which coercion does
        not tell from a missing one: where no other word occurs, a short list is the faster one.
    """
    import pyarrow as pa
    from pyarrow import csv as reader

    with opened_bytes(path) as file:
        header = _header(file, path.name)
        _pass_lines(file, done)
        plain = _Plain(file)
        held: list[Any] = []
        count = 0
        try:
            batches = reader.open_csv(
                pa.PythonFile(plain, mode="r"),
                reader.ReadOptions(use_threads=False, block_size=_BYTES, column_names=header),
                reader.ParseOptions(ignore_empty_lines=False, quote_char=False),
                reader.ConvertOptions(
                    column_types=_types(names, numbers), include_columns=list(names),
                    null_values=missing, strings_can_be_null=True,
                ),
            )  # fmt: skip
            for batch in batches:
                if plain.odd:  # the last row may be cut
                    return False, done
                held.append(batch)
                count += batch.num_rows
                while count >= rows:
                    table = pa.Table.from_batches(held)
                    held, count = table.slice(rows).to_batches(), count - rows
                    yield {name: table.column(name).slice(0, rows) for name in names}
                    done += rows
                    del table
        except pa.ArrowInvalid:  # its text quotes cells: nothing of it is kept
            return False, done
        if plain.odd:
            return False, done
        if count:
            table = pa.Table.from_batches(held)
            yield {name: table.column(name) for name in names}
    return True, done + count


def _pass_lines(file: IO[bytes], lines: int) -> None:
    """Go to the start of the line that comes after so many."""
    while lines and (more := file.read(_BYTES)):
        ends = np.flatnonzero(_line_feeds(more)) + 1
        if len(ends) > lines:
            file.seek(int(ends[lines - 1]) - len(more), io.SEEK_CUR)
            return
        lines -= len(ends)
        if not lines:
            file.seek(int(ends[-1]) - len(more), io.SEEK_CUR)


def chosen_lines(
    path: Path,
    names: Sequence[str],
    rows: int,
    numbers: Collection[str],
    choose: Callable[[int], npt.NDArray[np.intp]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (m, columns of the chosen ones of the next m lines): the others are not parsed.

    Parameters
    ----------
    choose : function
        Places of the chosen ones of m lines, in order.

    Notes
    -----
    **Privacy.** A line is a row, so leaving lines out leaves rows out and changes no other.
    """
    with opened_bytes(path) as file:
        header = _header(file, path.name)
        for block in _whole_lines(file, rows):
            ends = np.flatnonzero(_line_feeds(block)) + 1
            keep = choose(len(ends))
            starts = np.append(0, ends[:-1])[keep].tolist()
            lines = [block[a:b] for a, b in zip(starts, ends[keep].tolist(), strict=True)]
            if lines:
                yield len(ends), _columns(b"".join(lines), header, names, numbers)
            else:
                yield len(ends), {name: np.empty(0) for name in names}


def count_lines(path: Path) -> int:
    """Return how many lines follow the header: the rows of a file."""
    count, last = 0, b"\n"
    with opened_bytes(path) as file:
        _header(file, path.name)
        while more := file.read(_BYTES):
            count += int(np.count_nonzero(_line_feeds(more)))
            last = more[-1:]
    return count + (last != b"\n")


def _line_feeds(block: bytes) -> npt.NDArray[np.bool_]:
    return np.frombuffer(block, dtype=np.uint8) == ord("\n")


def _whole_lines(file: IO[bytes], rows: int) -> Iterator[bytes]:
    """Yield the rest of a file, ``rows`` lines at once, each with its line feed."""
    rest: list[bytes] = []
    missing = rows
    while more := file.read(_BYTES):
        ends = np.flatnonzero(_line_feeds(more)) + 1
        at = 0
        while len(ends) >= missing:
            cut = int(ends[missing - 1])
            yield b"".join([*rest, more[at:cut]])
            rest, ends, at, missing = [], ends[missing:], cut, rows
        rest.append(more[at:])
        missing -= len(ends)
    if any(rest):
        whole = b"".join(rest)
        yield whole if whole.endswith(b"\n") else whole + b"\n"


def _is_plain(block: bytes, width: int) -> bool:
    """Say whether every line has ``width`` cells and no character that parsers differ about."""
    if any(odd in block for odd in _ODD):
        return False
    text = np.frombuffer(block, dtype=np.uint8)
    ends = text[np.flatnonzero((text == ord(",")) | (text == ord("\n")))]
    if len(ends) % width:
        return False
    ends = ends.reshape(-1, width)
    return bool((ends[:, :-1] == ord(",")).all() and (ends[:, -1] == ord("\n")).all())


def _columns(
    block: bytes, header: list[str], names: Sequence[str], numbers: Collection[str]
) -> dict[str, Any]:
    """Return the columns of some lines, made such that every parser finds the same rows."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not _is_plain(block, len(header)):
        block = _one_row_a_line(list(io.BytesIO(block)), len(header))
    if importlib.util.find_spec("pyarrow") is not None:
        for wanted in (set(numbers), set()) if numbers else (set(),):
            found = _by_arrow(block, header, names, wanted)
            if found is not None:
                return found
    import pandas as pd

    frame = pd.read_csv(
        io.BytesIO(block), header=None, names=header, usecols=list(names), dtype=str,
        skip_blank_lines=False, **_CSV,
    )  # fmt: skip
    return {name: frame[name] for name in names}


def _by_arrow(
    block: bytes, header: list[str], names: Sequence[str], numbers: Collection[str]
) -> dict[str, Any] | None:
    """Return the columns as Arrow reads them; None if a cell is no number, or no UTF-8."""
    import pyarrow as pa
    from pyarrow import csv as reader

    try:
        table = reader.read_csv(
            pa.BufferReader(block),
            reader.ReadOptions(use_threads=False, block_size=len(block), column_names=header),
            reader.ParseOptions(ignore_empty_lines=False),
            reader.ConvertOptions(
                column_types=_types(names, numbers), include_columns=list(names),
                null_values=MISSING, strings_can_be_null=True,
            ),
        )  # fmt: skip
    except pa.ArrowInvalid:  # its text quotes cells: nothing of it is kept
        return None
    return {name: table.column(name) for name in names}


def _types(names: Sequence[str], numbers: Collection[str]) -> dict[str, Any]:
    import pyarrow as pa

    return {name: pa.float64() if name in numbers else pa.string() for name in names}


def _one_row_a_line(lines: list[bytes], width: int) -> bytes:
    """Return text of which a parser makes one row of ``width`` cells a line."""
    if not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    usual = re.compile(_CELLS % (width - 1)).fullmatch
    for i, line in enumerate(lines):
        if not usual(line):
            lines[i] = _written(line, width)
    return b"".join(lines)


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
