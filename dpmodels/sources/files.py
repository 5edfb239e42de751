"""Files: Parquet and CSV, one file or several of the same columns, decoded in a reader thread."""

from __future__ import annotations

import codecs
import copy
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpmodels.cells import read_each
from dpmodels.errors import SourceError, path_of, shown
from dpmodels.formula.types import ColumnKind
from dpmodels.places import WINDOW, Windows
from dpmodels.sources.ahead import read_ahead
from dpmodels.sources.lines import (
    PLAIN,
    Dialect,
    chosen_lines,
    count_lines,
    header_of,
    known_encoding,
    opened_bytes,
    parts_of_file,
)
from dpmodels.sources.parts import Adapter, Chunk, Partition, Signs, Source, Untyped
from dpmodels.sources.refusals import check_names, require_package
from dpmodels.sources.tables import (
    READ_ROWS,
    arrow_kind,
    batch_chunks,
    columns_of,
    withheld,
)
from dpmodels.variables import Count, Real, Variable

# -- Files: Parquet and CSV, one file or several of the same columns, decoded in a reader thread.


#: File, number of a row group, its first row in the table and the one after its last.
_Group = tuple[Path, int, int, int]
#: Rows decoded at once where most of a row group is left out.
_SHORT_READ = 16_384
#: Bytes read at once from a column of which the rest may be left out.
_BUFFER = 1 << 16


class _File(Adapter):
    """A file that a separate thread decodes."""

    decoded = True

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield the named columns part after part; the reader does not hold the whole file."""
        return read_ahead(self._chunks(names))

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        raise NotImplementedError


class ParquetSource(_File):
    """One or more Parquet files."""

    travels = True

    def __init__(self, paths: Sequence[Path]) -> None:
        require_package("pyarrow", "to read Parquet files")
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
        self.n = rows

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        """Yield the named columns of all files, part after part."""
        yield from ParquetSpan((0, self.n or 0, self._groups)).chunks(names)

    def chosen(self, names: Sequence[str], windows: Windows) -> Iterator[tuple[int, Chunk]]:
        """Yield (rows left out, batch), decoding no row group beyond its last chosen row."""
        return read_ahead(self._chosen(names, windows))

    def _chosen(
        self, names: Sequence[str], windows: Windows
    ) -> Generator[tuple[int, Chunk], None, None]:
        """Yield (rows left out before, rows) of the chosen windows, skipping other row groups."""
        columns = list(names)
        at = left_out = 0
        for path in self._paths:
            with _parquet(path, buffer_size=_BUFFER) as file:
                for group in range(file.metadata.num_row_groups):
                    stop = at + int(file.metadata.row_group(group).num_rows)
                    last = max((b for _, b in windows.spans(at, stop)), default=at)
                    if last > at:
                        batches = file.iter_batches(
                            _SHORT_READ, row_groups=[group], columns=columns, use_threads=False
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


class ParquetSpan(Adapter):
    """The rows a to b of Parquet files, read by the groups that hold them."""

    def __init__(self, span: tuple[int, int, list[_Group]]) -> None:
        self._first, self._last, self._groups = span
        self.n = self._last - self._first

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Yield batches; no thread reads ahead where several read."""
        columns = list(names)
        for path, members in groupby(self._groups, key=lambda group: group[0]):
            groups = list(members)
            at = groups[0][2]
            with _parquet(path) as file:
                # of the last group perhaps only the head is wanted
                head = [g for g in groups if g[3] > self._last]
                for part, size in ((groups[: len(groups) - len(head)], READ_ROWS), (head, WINDOW)):
                    if not part:
                        continue
                    # threads of the reader's own cost CPU time and save no wall time
                    for batch in file.iter_batches(
                        size, row_groups=[g[1] for g in part], columns=columns, use_threads=False
                    ):
                        low, high = max(self._first - at, 0), min(self._last - at, batch.num_rows)
                        at += batch.num_rows
                        if low < high:
                            yield from batch_chunks(batch.slice(low, high - low), names)
                        if at >= self._last:
                            break


class DatasetSource(_File):
    """A ``pyarrow.dataset`` of Parquet or Arrow files.

    Text files have no types of their own: a dataset would guess them from cells, so one cell could
    decide how all others are read. Their paths are read by :class:`CsvSource` instead.
    """

    decoded = False

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
        self.n = withheld(lambda: int(data.count_rows()))

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        """Yield the named columns of an Arrow dataset, part after part."""
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
    formats = {type(data.format).__name__} if hasattr(data, "format") else set()
    return formats.union(*(_formats(part) for part in getattr(data, "children", ())))


def _parquet(path: Path, **options: Any) -> Any:
    """Open a Parquet file without memory map and read-ahead, its checksums verified."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        path, memory_map=False, pre_buffer=False, page_checksum_verification=True, **options
    )


_AS_USUAL = Signs()


class CsvSource(_File):
    """CSV files. Cell types are not public, so a column's kind is "unknown" until declared.

    Cells are read as text. A reader that guesses one type per chunk would let one cell decide how
    all others are read: "01" is a level of its own beside "x", and the number 1 without it. A row
    is a line, so a quoted cell cannot contain a line break (see :mod:`dpmodels.sources.files`).
    """

    def __init__(
        self, paths: Sequence[Path], dialect: Dialect = PLAIN, signs: Signs = _AS_USUAL
    ) -> None:
        self._paths, self._dialect = list(paths), dialect
        self._numbers: frozenset[str] = frozenset()

        def header(path: Path) -> list[str]:
            _check_encoding(path, dialect)
            with opened_bytes(path, dialect.encoding) as file:
                return header_of(file, path.name, dialect)

        headers = [_opened(path, header) for path in self._paths]
        if any(h != headers[0] for h in headers):
            raise SourceError("the CSV files do not have the same columns")
        check_names(headers[0])
        kinds = Untyped(dict.fromkeys(headers[0], "unknown"))
        kinds.signs = signs
        self.kinds = kinds

    def __repr__(self) -> str:
        return f"<CSV file {self._paths[0].name}, sep={self._dialect.sep!r}>"

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        for path in self._paths:
            yield from parts_of_file(path, names, READ_ROWS, self._numbers, self._dialect)

    def tossed(
        self, names: Sequence[str], choose: Callable[[int], Any]
    ) -> Iterator[tuple[int, Chunk]]:
        """Yield (m, the chosen ones of the next m rows): lines left out are not parsed."""
        for path in self._paths:
            yield from chosen_lines(path, names, READ_ROWS, self._numbers, choose, self._dialect)

    def lengths(self) -> list[int]:
        """Return how many rows the files have: a row is a line, so nothing is parsed."""
        return [count_lines(path, self._dialect) for path in self._paths]

    def reading(self, kinds: Mapping[str, Variable]) -> CsvSource:
        """Return the source for columns of declared kinds: numbers need not come as text.

        Coercion makes the same numbers of the same cells, text or not.
        """
        out = copy.copy(self)
        out._numbers = frozenset(
            name for name, v in kinds.items()
            if isinstance(v, (Real, Count)) and v.decimal in (None, ".") and v.thousands is None
            and getattr(v, "duration", None) is None
        )  # fmt: skip
        return out


# -- Files of Stata, SPSS and SAS, read in blocks of rows by pyreadstat


#: Ending -> (epoch, microseconds of a unit) of dates, then of points in time.
_EPOCHS = {
    "dta": (("1960-01-01", 86_400_000_000), ("1960-01-01", 1_000)),
    "sav": (("1582-10-14", 1_000_000), ("1582-10-14", 1_000_000)),
    "sas": (("1960-01-01", 86_400_000_000), ("1960-01-01", 1_000_000)),
}
_FAMILY = {".dta": "dta", ".sav": "sav", ".zsav": "sav", ".por": "sav", ".sas7bdat": "sas",
           ".xpt": "sas"}  # fmt: skip


class StatSource(_File):
    """A file of Stata, SPSS or SAS: types are those it states, user-missing codes are missing.

    Columns of text are read as bytes and decoded here, cell by cell: the library decodes a whole
    block, and one cell that is not of the file's encoding stops it. Such a cell is missing.
    """

    def __init__(self, path: Path) -> None:
        from dpmodels.formula.codebooks import metadata, time_kind

        meta = metadata(path)
        check_names(meta.column_names)
        self._path = path
        self._family = _FAMILY[path.suffix.lower()]
        self._codec = _codec(path, meta)
        self._stored = dict(zip(meta.column_names, meta.column_names, strict=True))
        if self._codec:  # names as they are where bytes are read as Latin-1
            raw = metadata(path, encoding="LATIN1").column_names
            self._stored = dict(zip(meta.column_names, raw, strict=True))
        types = meta.readstat_variable_types
        self._times = {name: time_kind(meta, name) for name in meta.column_names}
        self.kinds = {name: self._kind(types[name], self._times[name]) for name in types}
        rows = getattr(meta, "number_rows", None)
        self.n = None if rows is None or rows < 0 else int(rows)

    def _kind(self, stored: str, when: str) -> str:
        """Return the kind of a column of a Stata, SAS or SPSS file."""
        if stored == "string":
            return "text"
        if when in ("date", "datetime"):
            return ColumnKind("datetime", "datetime64[us]")
        return ColumnKind("numeric", "float64")

    def _chunks(self, names: Sequence[str]) -> Generator[Chunk, None, None]:
        """Yield the named columns of a Stata, SAS or SPSS file, part after part."""
        import pyreadstat

        from dpmodels.formula.codebooks import READERS

        reader = getattr(pyreadstat, READERS[self._path.suffix.lower()])
        as_bytes = {"encoding": "LATIN1"} if self._codec else {}
        columns = [self._stored[name] for name in dict.fromkeys(names)]
        at = 0
        while self.n is None or at < self.n:
            frame, _ = reader(
                str(self._path), usecols=columns, row_offset=at, row_limit=READ_ROWS,
                disable_datetime_conversion=True, **as_bytes,
            )  # fmt: skip
            if not len(frame):
                return
            at += len(frame)
            yield {name: self._column(name, frame[self._stored[name]]) for name in names}

    def _column(self, name: str, cells: Any) -> Any:
        """Return the cells of a column: text, numbers, or dates from the file's epoch."""
        if self.kinds[name] == "text":
            codec = self._codec
            return read_each(
                cells.astype(object),
                lambda cell: cell.encode("latin-1").decode(codec) if codec else cell,
                None,
                object,
            )
        numbers = cells.to_numpy(dtype=float, na_value=np.nan)
        if self.kinds[name] != "datetime":
            return numbers
        epoch, unit = _EPOCHS[self._family][self._times[name] == "datetime"]
        finite = np.isfinite(numbers)
        elapsed = np.where(finite, numbers * unit, 0.0).round().astype("m8[us]")
        return np.where(finite, np.datetime64(epoch, "us") + elapsed, np.datetime64("NaT"))


def _codec(path: Path, meta: Any) -> str:
    """Return the encoding of the text of a file of Stata or SAS, or SPSS, by its header.

    It is empty where the library can not be told to leave bytes as they are (.por).
    """
    if path.suffix.lower() == ".por":
        return ""
    encoding = meta.file_encoding
    if not encoding:
        with path.open("rb") as file:
            release = re.search(rb"<release>(\d+)<", file.read(64))
        old = path.suffix.lower() == ".dta" and (release is None or int(release[1]) < 118)
        encoding = "cp1252" if old else "utf-8"
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return ""


def _check_encoding(path: Path, dialect: Dialect) -> None:
    """Refuse an encoding of bytes where the header has letters that are UTF-8."""
    if dialect.encoding == "utf-8":
        return
    with opened_bytes(path) as file:
        line = file.readline(1 << 16)
    try:
        has_letters = not line.isascii() and bool(line.decode("utf-8"))
    except UnicodeDecodeError:
        return
    if has_letters:
        raise SourceError(
            f"{path.name}: the names of the columns are in UTF-8, and encoding="
            f"{dialect.encoding!r} would read them wrongly. Leave encoding out. Nothing was charged"
        )


def csv_options(
    *, sep: str = ",", encoding: str = "utf-8", decimal: str | None = None,
    thousands: str | None = None, quotechar: str | None = '"', na: Sequence[str] | None = None,
) -> tuple[Dialect, Signs]:  # fmt: skip
    """Return how a file is written, from the arguments of :func:`read_csv`, or refuse them."""
    quote = quotechar or ""
    for name, sign in (("sep", sep), ("quotechar", quote)):
        if name == "quotechar" and not sign:
            continue
        if not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign in "\r\n\0":
            raise SourceError(
                f"{name}={shown(sign)} must be one character of ASCII, for example "
                + ("sep=';' or sep='\\t'" if name == "sep" else "quotechar=\"'\"")
            )
    if sep == quote:
        raise SourceError(f"sep= and quotechar= are both {sep!r}: they must differ")
    if decimal is not None and decimal == sep:
        raise SourceError(
            f"sep= and decimal= are both {sep!r}: numbers would be cut in two. Files with decimal "
            "commas usually have sep=';'"
        )
    if isinstance(na, str) or not all(isinstance(word, str) for word in na or ()):
        raise SourceError("na= must be a list of words, for example na=['-9', '.']")
    check = Real(decimal=decimal, thousands=thousands)  # refuses other signs
    dialect = Dialect(sep, quote, known_encoding(encoding))
    if na is not None:
        dialect = replace(dialect, missing=("", *(word for word in na if word)))
    words = None if na is None else dialect.missing[1:]
    signs = Signs(check.decimal, check.thousands, words, sep == ";" and decimal is None)
    return dialect, signs


def read_csv(
    path: Any, *, sep: str = ",", encoding: str = "utf-8", decimal: str | None = None,
    thousands: str | None = None, quotechar: str | None = '"', na: Sequence[str] | None = None,
) -> CsvSource:  # fmt: skip
    r"""Return a CSV file as a table for the data of a call: read in blocks, inside the call.

    Parameters
    ----------
    path : path, or list of paths of files with the same columns
        Compressed files are read by their ending: .gz, .bz2, .xz, .zip with one file in it.
    sep : str
        What separates the cells of a line: ``","``, ``";"``, ``"\t"``, ``"|"``.
    encoding : str
        ``"utf-8"``, ``"latin-1"``, ``"cp1252"``, ``"gb18030"``, ...
    decimal, thousands : str, optional
        Signs of all numbers of the file; ``dp.Real(decimal=)`` says that of one column. With
        ``sep=";"`` the decimal sign must be said, as it is often a comma.
    quotechar : str, optional
        What stands around a cell that has a separator in it; None or ``""``: nothing does.
    na : list of str, optional
        Words that stand for a missing cell, instead of the usual ones ("NA", "NaN", "null", ...).
        An empty cell is always missing.

    Returns
    -------
    table
        To be given to a verb, to ``dp.per_person`` or to a study as its data.

    Privacy
    -------
    Reads the header, which is public: a wrong separator or encoding is refused by it. No cell is
    read before a call has been charged. A line is a row by itself: its cells depend on this line
    alone, also where a quote is not closed, or where the line has too many cells.

    Examples
    --------
    >>> import dpmodels as dp, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
    >>> _ = file.write_text("age;smoker\n54,5;yes\n61,0;No\n")
    >>> dp.read_csv(file, sep=";", decimal=",")
    <CSV file visits.csv, sep=';'>
    """
    entries = list(path) if isinstance(path, (list, tuple)) else [path]
    paths = [path_of(entry, "the path of a table", SourceError) for entry in entries]
    _check_files(paths)
    options = csv_options(
        sep=sep, encoding=encoding, decimal=decimal, thousands=thousands, quotechar=quotechar, na=na
    )
    return CsvSource(paths, *options)


def _opened(path: Path, opener: Callable[[Path], Any]) -> Any:
    """Open a file's header; the library's own message could quote content, so it is not shown."""
    problem = f"{path.name}: cannot be read as a {path.suffix or 'CSV'} file"
    return withheld(lambda: opener(path), problem)


#: Ending of a file that is not read here -> what to type.
_READERS = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), "pd.read_excel({!r})"),
    ".json": "pd.read_json({!r}, dtype=False)",
    **dict.fromkeys((".jsonl", ".ndjson"), "pd.read_json({!r}, lines=True, dtype=False)"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "pd.read_feather({!r})"),
    ".orc": "pd.read_orc({!r})",
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), "pd.read_hdf({!r})"),
    **dict.fromkeys((".pkl", ".pickle"), "pd.read_pickle({!r})"),
    ".xml": "pd.read_xml({!r})",
    **dict.fromkeys((".rds", ".rda", ".rdata"), "pyreadr.read_r({!r})[None]"),
    **dict.fromkeys((".tsv", ".tab"), "dp.read_csv({!r}, sep='\\t')"),
    **dict.fromkeys(
        (".db", ".sqlite", ".sqlite3", ".duckdb"),
        "duckdb.connect({!r}).sql('select * from mytable')",
    ),
}


def _check_files(paths: Sequence[Path]) -> None:
    """Refuse an address, paths of no file, and a file that cannot be read again, as a pipe."""
    for path in paths:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
            raise SourceError(
                "a table is not read from an address: download it first and pass the path, or pass "
                "a frame, for example pd.read_csv(url). Nothing was charged"
            )
        if not path.exists():
            raise SourceError(f"there is no file {str(path)!r}")
        if not path.is_file():
            what = "a folder" if path.is_dir() else "a pipe or a device, whose rows come only once"
            raise SourceError(
                f"{str(path)!r} is {what}, and a table is a file (or a list of files). Nothing was "
                "charged"
            )


def path_source(paths: Sequence[Path]) -> Source:
    """Return the source of one or more files, chosen by the ending of their names."""
    _check_files(paths)
    for path in paths:
        if (reader := _READERS.get(path.suffix.lower())) is not None:
            raise SourceError(
                f"{path.name}: files of this kind are read by their own library, and the frame is "
                f"passed: data = {reader.format(path.name)}. Nothing was charged"
            )
    names = [p.name.lower() for p in paths]
    if len(paths) == 1 and paths[0].suffix.lower() in _FAMILY:
        return StatSource(paths[0])
    if all(n.endswith((".parquet", ".pq")) for n in names):
        return ParquetSource(paths)
    endings = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".csv.zip")
    if all(n.endswith(endings) for n in names):
        return CsvSource(paths)
    raise SourceError(
        f"{paths[0].name}: a path must end in .parquet, .csv or .csv.gz. A file of text with "
        f"another ending: dp.read_csv({paths[0].name!r}, sep='\\t'). Others are read by their own "
        "library, for example pandas, and the frame is passed"
    )
