"""Files: Parquet and CSV, one file or several of the same columns, decoded in a reader thread."""

from __future__ import annotations

import copy
import csv
import importlib.util
import io
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dpmodels.errors import SourceError
from dpmodels.sources.rows import Windows, read_ahead
from dpmodels.sources.tables import (
    READ_ROWS,
    WINDOW,
    Chunk,
    Partition,
    Source,
    Untyped,
    arrow_kind,
    batch_chunks,
    check_names,
    columns_of,
    need,
    withheld,
)
from dpmodels.variables import Binary, Levels, Text, Variable

# -- Lines of a CSV file: one line, one row, whatever stands in it.
#
# A parser of whole files lets one record decide what the others are: a quote that is not closed
# takes in the lines after it, a lone carriage return or an empty line adds or removes a row, a line
# with too many cells is an error. Here each line is a row by itself. Lines of the
# right number of cells with quotes that close, nearly all of a usual file, are left to the parser
# (pyarrow's where it is installed, else pandas') as they are; any other is written anew, so that
# the parser must find one row in it.


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


#: Longest first line of a CSV file, in bytes.
_LONGEST_HEADER = 1 << 20


def _header(file: IO[bytes], name: str) -> list[str]:
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
    cells = None if b"\r" in line or b"\0" in line else _record(line.decode("utf-8", "replace"))
    if cells is None:
        raise SourceError(
            f"{name}: the first line is not a header. Lines must end in a line feed, text must be "
            "UTF-8, and a quote must be closed in its own line"
        )
    places: dict[str, int] = {}
    for place, cell in enumerate(cells, 1):
        if cell and places.setdefault(cell, place) != place:
            raise SourceError(
                f"{name}: columns {places[cell]} and {place} of the header have the same name. "
                "Rename one of them"
            )
    return [cell or f"Unnamed: {place}" for place, cell in enumerate(cells)]


def parts_of_file(
    path: Path, names: Sequence[str], rows: int, numbers: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the columns of ``rows`` lines at once: text cells, or numbers where asked for.

    ``numbers`` come so where every cell of a part is one (or missing), else as text. Both readers
    round correctly, so that changes no cell.

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
    that were not yielded. Of numbers Arrow reads "nan" as one that is NaN, which coercion does not
    tell from a missing one: where no other word occurs, a short list of ``missing`` is faster.
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

    ``choose(m)``: places of the chosen ones of m lines, in order. **Privacy.** A line is a row, so
    leaving lines out leaves rows out and changes no other.
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
            _conversion(names, numbers, MISSING),
        )
    except pa.ArrowInvalid:  # its text quotes cells: nothing of it is kept
        return None
    return {name: table.column(name) for name in names}


def _conversion(names: Sequence[str], numbers: Collection[str], missing: list[str]) -> Any:
    """Return how Arrow reads the cells of a CSV file: as text, or as numbers."""
    import pyarrow as pa
    from pyarrow import csv as reader

    return reader.ConvertOptions(
        column_types={name: pa.float64() if name in numbers else pa.string() for name in names},
        include_columns=list(names), null_values=missing, strings_can_be_null=True,
    )  # fmt: skip


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


# -- Files: Parquet and CSV, one file or several of the same columns, decoded in a reader thread.


#: File, number of a row group, its first row in the table and the one after its last.
_Group = tuple[Path, int, int, int]
#: Rows decoded at once where most of a row group is left out.
_SHORT_READ = 16_384
#: Bytes read at once from a column of which the rest may be left out.
_BUFFER = 1 << 16


class ParquetSource:
    """One or more Parquet files."""

    rescannable = True
    decoded = True
    schema_attr = None
    travels = True

    def __init__(self, paths: Sequence[Path]) -> None:
        need("pyarrow", "to read Parquet files")
        self._paths = list(paths)
        schemas, rows = [], 0
        self._groups: list[_Group] = []
        for path in self._paths:
            with _opened(path, _parquet) as file:
                schemas.append(file.schema_arrow)
                for group in range(file.metadata.num_row_groups):
                    count = int(file.metadata.row_group(group).num_rows)
                    self._groups.append((path, group, rows, rows + count))
                    rows += count
        if any(s.names != schemas[0].names for s in schemas):
            raise SourceError("the Parquet files do not have the same columns")
        check_names(schemas[0].names)
        self.kinds = {f.name: arrow_kind(f.type) for f in schemas[0]}
        self.n: int | None = rows

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield batches; the reader is told not to hold the whole file."""
        return read_ahead(self._chunks(names))

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        wanted = list(names)
        for path in self._paths:
            with _parquet(path) as file:
                # threads of the reader's own cost CPU time and save no wall time
                for batch in file.iter_batches(READ_ROWS, columns=wanted, use_threads=False):
                    yield from batch_chunks(batch, names)

    def chosen(self, names: Sequence[str], windows: Windows) -> Iterator[tuple[int, Chunk]]:
        """Yield (rows left out, batch), decoding no row group beyond its last chosen row."""
        return read_ahead(self._chosen(names, windows))

    def _chosen(
        self, names: Sequence[str], windows: Windows
    ) -> Generator[tuple[int, Chunk], None, None]:
        wanted = list(names)
        at = left_out = 0
        for path in self._paths:
            with _parquet(path, buffer_size=_BUFFER) as file:
                for group in range(file.metadata.num_row_groups):
                    stop = at + int(file.metadata.row_group(group).num_rows)
                    last = max((b for _, b in windows.spans(at, stop)), default=at)
                    if last > at:
                        batches = file.iter_batches(
                            _SHORT_READ, row_groups=[group], columns=wanted, use_threads=False
                        )
                        for batch in batches:
                            yield left_out, columns_of(batch, names)
                            left_out = 0
                            at += batch.num_rows
                            if at >= last:
                                break
                    left_out += stop - at
                    at = stop
        if left_out:
            yield left_out, dict.fromkeys(names, ())

    def partitions(self, names: Sequence[str], rows: int) -> list[Partition]:
        """Return runs of row groups, each from its first whole block of the table on.

        The rows before it belong to the run before, so that blocks are those of one pass over the
        table; a worker decodes at most one batch twice.
        """
        ends = [0]
        for _, _, _, stop in self._groups:
            end = min(-(-stop // WINDOW) * WINDOW, self.n or 0)
            if end - ends[-1] >= rows:
                ends.append(end)
        if ends[-1] < (self.n or 0):
            ends.append(self.n or 0)
        return [
            Partition(
                ParquetSpan,
                (a, b, [g for g in self._groups if g[2] < b and g[3] > a]),
                a,
                b - a,
            )
            for a, b in pairwise(ends)
        ]


class ParquetSpan:
    """The rows a to b of Parquet files, read by the groups that hold them."""

    rescannable = True
    schema_attr = None
    kinds: Mapping[str, str] = {}

    def __init__(self, span: tuple[int, int, list[_Group]]) -> None:
        self._first, self._last, self._groups = span
        self.n: int | None = self._last - self._first

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield batches; no thread reads ahead where several read."""
        wanted = list(names)
        for path, found in groupby(self._groups, key=lambda group: group[0]):
            groups = list(found)
            at = groups[0][2]
            with _parquet(path) as file:
                # of the last group perhaps only the head is wanted
                head = [g for g in groups if g[3] > self._last]
                for part, size in ((groups[: len(groups) - len(head)], READ_ROWS), (head, WINDOW)):
                    if not part:
                        continue
                    for batch in file.iter_batches(
                        size, row_groups=[g[1] for g in part], columns=wanted, use_threads=False
                    ):
                        low, high = max(self._first - at, 0), min(self._last - at, batch.num_rows)
                        at += batch.num_rows
                        if low < high:
                            yield from batch_chunks(batch.slice(low, high - low), names)
                        if at >= self._last:
                            break


class DatasetSource:
    """A ``pyarrow.dataset`` of Parquet or Arrow files.

    Text files have no types of their own: a dataset would guess them from cells, so one cell could
    decide how all others are read. Their paths are read by :class:`CsvSource` instead.
    """

    rescannable = True
    schema_attr = None

    def __init__(self, data: Any) -> None:
        if not _formats(data) <= {"ParquetFileFormat", "IpcFileFormat", "FeatherFileFormat"}:
            raise SourceError(
                "a dataset of text files guesses the types of its columns from cells. Pass the "
                "paths of the CSV files, or a dataset of Parquet files"
            )
        check_names(data.schema.names)
        self._data = data
        self.kinds = {f.name: arrow_kind(f.type) for f in data.schema}
        # a filter of the dataset reads cells
        self.n: int | None = withheld(lambda: int(data.count_rows()))

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield batches in the order of the files."""
        return read_ahead(self._chunks(names))

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        import pyarrow.dataset as ds

        # read ahead, a file is held whole: ten times the memory, and no faster
        options = {}
        if _formats(self._data) == {"ParquetFileFormat"}:
            options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(
                pre_buffer=False, page_checksum_verification=True
            )
        batches = self._data.to_batches(
            columns=list(names), batch_size=READ_ROWS, use_threads=False, batch_readahead=1,
            fragment_readahead=1, **options,
        )  # fmt: skip
        for batch in batches:
            yield from batch_chunks(batch, names)


def _formats(data: Any) -> set[str]:
    """Return the file formats of a dataset; none for tables in memory."""
    found = {type(data.format).__name__} if hasattr(data, "format") else set()
    return found.union(*(_formats(part) for part in getattr(data, "children", ())))


def _parquet(path: Path, **options: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        path, memory_map=False, pre_buffer=False, page_checksum_verification=True, **options
    )


class CsvSource:
    """CSV files. Cell types are not public, so a column's kind is "unknown" until declared.

    Cells are read as text. A reader that guesses a type a chunk would let one cell decide how all
    others are read: "01" is a level of its own beside "x", and the number 1 without it. A row is a
    line, so a quoted cell cannot contain a line break (see :mod:`dpmodels.sources.files`).
    """

    rescannable = True
    decoded = True
    schema_attr = None
    n: int | None = None

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self._numbers: frozenset[str] = frozenset()

        def header(path: Path) -> list[str]:
            with opened_bytes(path) as file:
                return _header(file, path.name)

        headers = [_opened(path, header) for path in self._paths]
        if any(h != headers[0] for h in headers):
            raise SourceError("the CSV files do not have the same columns")
        check_names(headers[0])
        self.kinds = Untyped.fromkeys(headers[0], "unknown")

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield parsed chunks."""
        return read_ahead(self._chunks(names))

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        for path in self._paths:
            yield from parts_of_file(path, names, READ_ROWS, self._numbers)

    def tossed(
        self, names: Sequence[str], choose: Callable[[int], Any]
    ) -> Iterator[tuple[int, Chunk]]:
        """Yield (m, the chosen ones of the next m rows): lines left out are not parsed."""
        for path in self._paths:
            yield from chosen_lines(path, names, READ_ROWS, self._numbers, choose)

    def lengths(self) -> list[int]:
        """Return how many rows the files have: a row is a line, so nothing is parsed."""
        return [count_lines(path) for path in self._paths]

    def reading(self, kinds: Mapping[str, Variable]) -> CsvSource:
        """Return the source for columns of declared kinds: numbers need not come as text.

        Coercion makes the same numbers of the same cells, text or not.
        """
        out = copy.copy(self)
        out._numbers = frozenset(
            name for name, v in kinds.items() if not isinstance(v, (Levels, Text, Binary))
        )
        return out


def _opened(path: Path, opener: Callable[[Path], Any]) -> Any:
    """Open a file's header; the library's own message could quote content, so it is not shown."""
    said = f"{path.name}: cannot be read as a {path.suffix or 'CSV'} file"
    return withheld(lambda: opener(path), said)


def path_source(paths: Sequence[Path]) -> Source:
    """Return the source of one or more files, chosen by the ending of their names."""
    for path in paths:
        if not path.exists():
            raise SourceError(f"there is no file {str(path)!r}")
    names = [p.name.lower() for p in paths]
    if all(n.endswith((".parquet", ".pq")) for n in names):
        return ParquetSource(paths)
    if all(n.endswith((".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst")) for n in names):
        return CsvSource(paths)
    raise SourceError(
        f"{paths[0].name}: a path must end in .parquet, .csv or .csv.gz. Read other files "
        "yourself, for example pd.read_csv(path, sep='\\t'), and pass the frame"
    )
