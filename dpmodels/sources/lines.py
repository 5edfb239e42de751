"""Lines of a CSV file, whatever its separator, quotes and encoding: one line, one row."""

from __future__ import annotations

import codecs
import csv
import importlib.util
import io
import json
import re
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dpmodels.errors import DamagedFileError, SourceError, shown
from dpmodels.lazy import pd
from dpmodels.variables import NA_WORDS

# -- Lines of a CSV file: one line, one row, whatever stands in it.
#
# A parser of whole files lets one record decide what the others are: a quote that is not closed
# takes in the lines after it, a lone carriage return or an empty line adds or removes a row, a line
# with too many cells is an error. Here each line is one row. Lines of the
# right number of cells with quotes that close, nearly all of a usual file, are left to the parser
# (pyarrow's where it is installed, else pandas') as they are; any other is written anew, so that
# the parser must find one row in it.


#: No column becomes an index because of the first row, no cell stops the reader.
_CSV: dict[str, Any] = {"index_col": False, "encoding_errors": "replace"}
#: Bytes that are read at once.
_BYTES = 1 << 20
#: Longest line that is held in memory, in bytes. What a longer one has beyond it is not read.
_LONGEST_LINE = 1 << 26
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Dialect:
    """Dialect of a CSV file; public."""

    sep: str = ","
    quote: str = '"'  # "": none
    encoding: str = "utf-8"
    missing: tuple[str, ...] = NA_WORDS  # Text of cells that are missing

    @property
    def odd(self) -> tuple[bytes, ...]:
        """Characters that parsers differ about."""
        return (*([self.quote.encode()] if self.quote else []), b"\r", b"\0")

    def line(self, width: int) -> Callable[[bytes], Any]:
        """Return a match of a line that every parser reads in the same way.

        Its cells are in quotes (doubled inside them) or have none.
        """
        sep, quote = (re.escape(sign.encode()) for sign in (self.sep, self.quote))
        bare = rb"[^" + quote + sep + rb"\r\n\0]*"
        inside = rb"[^" + quote + rb"\r\n\0]*"
        cell = bare
        if quote:
            cell = rb"(?:" + quote + inside + rb"(?:" + 2 * quote + inside + rb")*" + quote
            cell += rb"|" + bare + rb")"
        return re.compile(cell + rb"(?:" + sep + cell + rb"){%d}\r?\n" % (width - 1)).fullmatch


PLAIN = Dialect()
#: Encodings of several bytes a character, in which a line feed is always one.
_BY_LINE = {"gb18030", "gbk", "gb2312", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"}


def known_encoding(name: Any) -> str:
    """Return the name of an encoding in which each line can be read separately, or refuse it."""
    codec = ""
    with suppress(LookupError, TypeError):
        codec = codecs.lookup(name).name.replace("-", "_")
    if codec in ("utf_8", "utf_8_sig", "ascii"):
        return "utf-8"
    if codec in _BY_LINE or _is_of_bytes(codec):
        return codec
    raise SourceError(
        f"encoding={shown(name)} cannot be read line by line. Encodings: 'utf-8', 'latin-1', "
        f"'cp1252' and others of one byte a character, {', '.join(sorted(_BY_LINE))}. Rewrite "
        "other files first, for example: iconv -f UTF-16 -t UTF-8 old.csv > new.csv"
    )


def _is_of_bytes(encoding: str) -> bool:
    """Return whether each byte is one character, and those of ASCII are themselves."""
    with suppress(LookupError, UnicodeError, ValueError):
        text = bytes(range(256)).decode(encoding, "replace")
        return len(text) == 256 and text[:128] == bytes(range(128)).decode("ascii")
    return False


def opened_bytes(path: Path, encoding: str = "utf-8") -> IO[bytes]:
    """Open a file as UTF-8, compressed or not, by the ending of its name."""
    import bz2
    import gzip
    import lzma

    ending = path.suffix.lower()
    if ending == ".zst":
        import zstandard  # type: ignore[import-not-found, unused-ignore]

        file: Any = io.BufferedReader(zstandard.open(path, "rb"))
    elif ending == ".zip":
        file = _only_member(path)
    else:
        openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        file = openers.get(ending, open)(path, "rb")
    if ending in (".gz", ".bz2", ".xz", ".zst", ".zip"):
        file = _Unpacked(file, path.name)
    return file if encoding == "utf-8" else _Recoded(file, encoding)  # type: ignore[return-value]


def _only_member(path: Path) -> Any:
    """Open the one file of an archive."""
    import zipfile

    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        archive.close()
        raise SourceError(
            f"{path.name}: the archive has {len(names)} files, and a table is one. Unpack it and "
            "give the path of the table"
        )
    return archive.open(names[0])


class _Unpacked:
    """A compressed file. That it is damaged says nothing of a row, and is said."""

    closed = False

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name
        self.close, self.seek = file.close, file.seek

    def __enter__(self) -> _Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        return self._unpack(lambda: self._file.read(size))

    def readline(self, limit: int) -> bytes:
        """Return the next line, or its first ``limit`` bytes."""
        return self._unpack(lambda: self._file.readline(limit))

    def _unpack(self, read: Callable[[], bytes]) -> bytes:
        with suppress(Exception):  # each library has errors of its own
            return read()
        raise DamagedFileError(
            f"{self._name}: the compressed file is damaged or cut short. Copy it again"
        )


class _Recoded:
    """A file of another encoding, read as UTF-8. Each line is decoded separately."""

    closed = False

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._by_line = encoding in _BY_LINE
        self._parts = _without_tails(file)
        self._ready = self._last = self._rest = b""
        self._ended = False

    def __enter__(self) -> _Recoded:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _next_bytes(self) -> bytes:
        """Return the next decoded bytes; none at the end of the file."""
        if not self._by_line:
            return self._decoded(self._file.read(_BYTES))
        for read in self._parts:
            lines, feed, self._rest = (self._rest + read).rpartition(b"\n")
            if feed:
                return self._decoded(lines + feed)
        read, self._rest = self._rest, b""
        return self._decoded(read)

    def _decoded(self, block: bytes) -> bytes:
        lines = block.split(b"\n") if self._by_line else [block]
        return b"\n".join(line.decode(self._encoding, "replace").encode() for line in lines)

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        self._ready = self._ready or self._next_bytes()
        self._last, self._ready = self._ready[:size], self._ready[size:]
        return self._last

    def readline(self, limit: int) -> bytes:
        """Return the next line, or its first ``limit`` bytes."""
        while b"\n" not in self._ready and len(self._ready) < limit:
            decoded = self._next_bytes()
            if not decoded:
                break
            self._ready += decoded
        end = self._ready.find(b"\n") + 1 or len(self._ready)
        return self.read(min(end, limit)) if self._ready else b""

    def seek(self, offset: int, whence: int) -> None:
        """Move back within the last part that was read."""
        assert whence == io.SEEK_CUR and 0 <= -offset <= len(self._last)
        if offset:
            self._ready = self._last[offset:] + self._ready


#: Longest first line of a CSV file, in bytes.
_LONGEST_HEADER = 1 << 20


def header_of(file: IO[bytes], name: str, dialect: Dialect = PLAIN) -> list[str]:
    """Return the column names: the cells of the first line that is not empty.

    What is refused, a header that is not one line, is not shown: it could be rows. A cell that is
    empty has the name that pandas gives it.
    """
    line = b"\n"
    while line and not line.removeprefix(_BOM).strip():
        line = file.readline(_LONGEST_HEADER + 1)
    if len(line) > _LONGEST_HEADER:
        raise SourceError(
            f"{name}: the first line is longer than {_LONGEST_HEADER:,} bytes, so it is not a "
            "header. Lines must end in a line feed"
        )
    line = line.removeprefix(_BOM).rstrip(b"\r\n")
    if not line:
        raise SourceError(f"{name}: the file is empty, its columns are not known")
    text = ""
    with suppress(UnicodeDecodeError):
        text = line.decode("utf-8")
    if not text and not line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(
            f"{name}: the names of the columns are not in UTF-8. Say the encoding: "
            f"{_as_typed(name, 'encoding', 'latin-1')}. Nothing was charged"
        )
    cells = None if b"\r" in line or b"\0" in line else _record(text, dialect)
    if cells is None or not text:
        raise SourceError(
            f"{name}: the first line is not a header. Lines must end in a line feed, text must be "
            "UTF-8 (or of the encoding= of dp.read_csv), and a quote must be closed in its own line"
        )
    if len(cells) == 1:
        _check_sep(cells[0], name, dialect)
    places: dict[str, int] = {}
    for place, cell in enumerate(cells, 1):
        if cell and places.setdefault(cell, place) != place:
            raise SourceError(
                f"{name}: columns {places[cell]} and {place} of the header have the same name. "
                "Rename one of them"
            )
    return [cell or f"Unnamed: {place}" for place, cell in enumerate(cells)]


def _as_typed(name: str, option: str, value: str) -> str:
    """Return an option as it is typed in Python, on the command line and in a study."""
    flag = "--" + option
    return (
        f"dp.read_csv({name!r}, {option}={value!r}); {flag} {value!r} on the command line; "
        f"{option} = {json.dumps(value)} in [data] of a study"
    )


def _check_sep(cell: str, name: str, dialect: Dialect) -> None:
    """Refuse a header of one name that contains another separator."""
    for sep in ";\t|,":
        if sep in cell and sep != dialect.sep:
            raise SourceError(
                f"{name}: with sep={dialect.sep!r} the file has one column, and {sep!r} is in "
                f"its name. Give the separator of the columns: {_as_typed(name, 'sep', sep)}. "
                "Nothing was charged"
            )


def parts_of_file(
    path: Path, names: Sequence[str], rows: int, numbers: Collection[str] = (),
    dialect: Dialect = PLAIN,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the columns ``names`` of a file, ``rows`` lines at once.

    Cells are text, except in the columns ``numbers``: these are numbers in every part whose cells
    are all numbers or missing. Both readers round correctly, so this changes no cell.

    **Privacy.** Every line after the header is one row, and its cells depend on this line alone.
    Nothing raises because of a line.
    """
    done = 0
    if importlib.util.find_spec("pyarrow") is not None:
        missing_words = dialect.missing
        for missing in (("",), missing_words) if set(names) <= set(numbers) else (missing_words,):
            ended, done = yield from _streamed(path, names, rows, numbers, missing, done, dialect)
            if ended:
                return
    with opened_bytes(path, dialect.encoding) as file:
        header = header_of(file, path.name, dialect)
        _pass_lines(file, done)
        for block in _whole_lines(file, rows):
            yield _columns(block, header, names, numbers, dialect)


class _Plain:
    """File of bytes that ends before the first character that parsers read differently (odd)."""

    closed = False

    def __init__(self, file: IO[bytes], odd: tuple[bytes, ...]) -> None:
        self._file, self._odd = file, odd
        self.odd = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, or no bytes from the first odd character on."""
        read = b"" if self.odd else self._file.read(size)
        self.odd = self.odd or any(odd in read for odd in self._odd)
        return b"" if self.odd else read

    def close(self) -> None:
        """Do nothing: the function that opened the file closes it."""


def _streamed(
    path: Path, names: Sequence[str], rows: int, numbers: Collection[str],
    missing: Sequence[str], done: int, dialect: Dialect,
) -> Generator[dict[str, Any], None, tuple[bool, int]]:  # fmt: skip
    """Yield the columns of plain lines from row ``done`` on, ``rows`` lines at once, by Arrow.

    The generator returns whether it read the whole file, and the number of rows read so far.

    A line is a row here too: without quotes, carriage returns and nulls Arrow cuts at line feeds
    alone, and takes no line of another number of cells than the header has. Where it stops, at an
    odd character, at such a line or at a cell that is no number, another way takes up the rows
    that were not yielded. Of numbers Arrow reads "nan" as one that is NaN, which coercion does not
    tell from a missing one: where no other word occurs, a short list of ``missing`` is faster.
    """
    import pyarrow as pa
    from pyarrow import csv as reader

    with opened_bytes(path, dialect.encoding) as file:
        header = header_of(file, path.name, dialect)
        _pass_lines(file, done)
        plain = _Plain(file, dialect.odd)
        held: list[Any] = []
        count = 0
        try:
            batches = reader.open_csv(
                pa.PythonFile(plain, mode="r"),
                reader.ReadOptions(use_threads=False, block_size=_BYTES, column_names=header),
                reader.ParseOptions(
                    delimiter=dialect.sep, ignore_empty_lines=False, quote_char=False
                ),
                _conversion(names, numbers, missing),
            )
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
    """Move the position of a file past its next ``lines`` lines."""
    while lines and (read := file.read(_BYTES)):
        ends = np.flatnonzero(_line_feeds(read)) + 1
        if len(ends) > lines:
            file.seek(int(ends[lines - 1]) - len(read), io.SEEK_CUR)
            return
        lines -= len(ends)
        if not lines:
            file.seek(int(ends[-1]) - len(read), io.SEEK_CUR)


def chosen_lines(
    path: Path,
    names: Sequence[str],
    rows: int,
    numbers: Collection[str],
    choose: Callable[[int], npt.NDArray[np.intp]],
    dialect: Dialect = PLAIN,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (m, columns of the chosen among the next m lines), ``rows`` lines at once.

    Lines that are not chosen are not parsed. ``names``: columns to read. ``numbers``: those of them
    to parse as numbers, the others are text. ``choose(m)`` returns the indices, in order, of the
    chosen among m lines.

    **Privacy.** A line is a row, so leaving lines out leaves rows out and changes no other.
    """
    with opened_bytes(path, dialect.encoding) as file:
        header = header_of(file, path.name, dialect)
        for block in _whole_lines(file, rows):
            ends = np.flatnonzero(_line_feeds(block)) + 1
            chosen = choose(len(ends))
            starts = np.append(0, ends[:-1])[chosen].tolist()
            lines = [block[a:b] for a, b in zip(starts, ends[chosen].tolist(), strict=True)]
            if lines:
                yield len(ends), _columns(b"".join(lines), header, names, numbers, dialect)
            else:
                yield len(ends), {name: np.empty(0) for name in names}


def count_lines(path: Path, dialect: Dialect = PLAIN) -> int:
    """Return how many lines follow the header: the rows of a file."""
    count, last = 0, b"\n"
    with opened_bytes(path, dialect.encoding) as file:
        header_of(file, path.name, dialect)
        while read := file.read(_BYTES):
            count += int(np.count_nonzero(_line_feeds(read)))
            last = read[-1:]
    return count + (last != b"\n")


def _line_feeds(block: bytes) -> npt.NDArray[np.bool_]:
    return np.frombuffer(block, dtype=np.uint8) == ord("\n")


def _whole_lines(file: IO[bytes], rows: int) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of ``rows`` lines.

    The last block may have fewer, and so may one of long lines: a parser has a largest size.
    """
    pending: list[bytes] = []
    missing = rows
    for read in _without_tails(file):
        ends = np.flatnonzero(_line_feeds(read)) + 1
        at = 0
        if len(ends) and sum(map(len, pending)) > _LONGEST_LINE:
            missing = 1  # the block ends with this line
        while len(ends) >= missing:
            cut = int(ends[missing - 1])
            yield b"".join([*pending, read[at:cut]])
            pending, ends, at, missing = [], ends[missing:], cut, rows
        pending.append(read[at:])
        missing -= len(ends)
    if any(pending):
        block = b"".join(pending)
        yield block if block.endswith(b"\n") else block + b"\n"


def _without_tails(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in parts, without the bytes of a line beyond the maximal length.

    **Privacy.** A line that never ends takes bounded memory and is one row, whose cells depend on
    this line alone: it is cut at its own length, wherever it begins. An error would tell of a row.
    """
    open_line = 0  # bytes of the line that has not ended
    while read := file.read(_BYTES):
        head, feed, tail = read.partition(b"\n")
        room = max(_LONGEST_LINE - open_line, 0)
        open_line = len(tail) - tail.rfind(b"\n") - 1 if feed else open_line + len(head)
        read = read if len(head) <= room else head[:room] + feed + tail
        if read:
            yield read


def _is_plain(block: bytes, width: int, dialect: Dialect) -> bool:
    """Return whether lines have ``width`` cells and no character that parsers disagree about."""
    if any(odd in block for odd in dialect.odd):
        return False
    sep = ord(dialect.sep)
    text = np.frombuffer(block, dtype=np.uint8)
    ends = text[np.flatnonzero((text == sep) | (text == ord("\n")))]
    if len(ends) % width:
        return False
    ends = ends.reshape(-1, width)
    return bool((ends[:, :-1] == sep).all() and (ends[:, -1] == ord("\n")).all())


def _columns(
    block: bytes, header: list[str], names: Sequence[str], numbers: Collection[str],
    dialect: Dialect,
) -> dict[str, Any]:  # fmt: skip
    """Return the columns of a block of whole lines, as text or as ``numbers``.

    Lines that parsers read differently are rewritten first, so that a line is a row to each.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not _is_plain(block, len(header), dialect):
        block = _one_row_a_line(list(io.BytesIO(block)), len(header), dialect)
    if importlib.util.find_spec("pyarrow") is not None:
        for as_numbers in (set(numbers), set()) if numbers else (set(),):
            columns = _by_arrow(block, header, names, as_numbers, dialect)
            if columns is not None:
                return columns
    frame = pd.read_csv(
        io.BytesIO(block), header=None, names=header, usecols=list(names), dtype=object,
        skip_blank_lines=False, sep=dialect.sep, na_filter=False, quotechar=dialect.quote or '"',
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE, **_CSV,
    )  # fmt: skip
    # words for a missing cell are compared here: pandas takes "-9.0" for the word "-9"
    missing = dict.fromkeys(dialect.missing)
    return {
        name: np.array([missing.get(c, c) for c in frame[name].tolist()], dtype=object)
        for name in names
    }


def _by_arrow(
    block: bytes, header: list[str], names: Sequence[str], numbers: Collection[str],
    dialect: Dialect = PLAIN,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the columns as Arrow reads them, or None if a cell is not a number or valid UTF-8."""
    import pyarrow as pa
    from pyarrow import csv as reader

    try:
        table = reader.read_csv(
            pa.BufferReader(block),
            reader.ReadOptions(use_threads=False, block_size=len(block), column_names=header),
            reader.ParseOptions(
                delimiter=dialect.sep, quote_char=dialect.quote or False, ignore_empty_lines=False
            ),
            _conversion(names, numbers, dialect.missing),
        )
    except pa.ArrowInvalid:  # its text quotes cells: nothing of it is kept
        return None
    return {name: table.column(name) for name in names}


def _conversion(names: Sequence[str], numbers: Collection[str], missing: Sequence[str]) -> Any:
    """Return how Arrow reads the cells of a CSV file: as text, or as numbers."""
    import pyarrow as pa
    from pyarrow import csv as reader

    return reader.ConvertOptions(
        column_types={name: pa.float64() if name in numbers else pa.string() for name in names},
        include_columns=list(names), null_values=list(missing), strings_can_be_null=True,
    )  # fmt: skip


def _one_row_a_line(lines: list[bytes], width: int, dialect: Dialect) -> bytes:
    """Return text of which a parser makes one row of ``width`` cells a line."""
    if not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    usual = dialect.line(width)
    for i, line in enumerate(lines):
        if not usual(line):
            lines[i] = _written(line, width, dialect)
    return b"".join(lines)


def _written(line: bytes, width: int, dialect: Dialect) -> bytes:
    """Write one line again, every cell in quotes; a line that is not a record has no cells."""
    text = line.rstrip(b"\r\n").decode("utf-8", "replace").replace("\r", " ")
    cells = _record(text, dialect)
    if cells is None or any(cells[width:]):  # too many: which is which is not known
        cells = []
    cells = [*cells[:width], *[""] * (width - len(cells))]
    q = dialect.quote
    if q:
        cells = [q + c.replace(q, 2 * q) + q for c in cells]
    return dialect.sep.join(cells).encode() + b"\n"


def _record(text: str, dialect: Dialect) -> list[str] | None:
    """Return the cells of a line, or None if a quote is not closed in it."""
    if "\0" in text or "\n" in text:
        return None
    if not dialect.quote:
        return text.split(dialect.sep)
    reader = csv.reader(iter([text, dialect.quote]), delimiter=dialect.sep, quotechar=dialect.quote)
    try:
        cells = next(reader)
    except (csv.Error, StopIteration):
        return None
    return cells if reader.line_num == 1 else None
