"""A table that is shown, written to a file, saved and drawn.

Who has something to show writes it into one :class:`Table`: ``content.py`` says what that holds,
``markup.py`` renders it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial, wraps
from importlib import import_module
from inspect import getattr_static
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import (
    DamagedError,
    DPModelsError,
    NotReleasedError,
    RequestError,
    UtilityWarning,
    choice,
    damage_reported,
    did_you_mean,
    path_of,
    shown,
)
from dpmodels.tables.content import Column, Content, Layout, Row
from dpmodels.tables.markup import (
    render_html,
    render_latex,
    render_markdown,
    render_text,
    write_word,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any

#: Names of the formats -> the function that renders.
FORMATS: dict[str, Callable[[Content], str]] = {
    "text": render_text,
    "md": render_markdown,
    "markdown": render_markdown,
    "html": render_html,
    "tex": render_latex,
    "latex": render_latex,
}


class also:
    """Another spelling of an attribute: accepted, and left out of ``dir()``.

    ``what``: the attribute that is meant, "bse" or "facts.level"; or a function of the object.
    """

    def __init__(self, what: str | Callable[[Any], Any]) -> None:
        self.what = what

    def __get__(self, result: Any, owner: type | None = None) -> Any:
        if callable(self.what):
            return self if result is None else self.what(result)
        return attrgetter(self.what)(owner if result is None else result)

    @classmethod
    def method(cls, function: Callable[..., Any]) -> Any:
        """Return a method under another spelling; a decorator."""
        return cls(lambda result: wraps(function)(partial(function, result)))


def own_names(result: object) -> list[str]:
    """Return the list for ``dir()`` of an object: its attributes, each under one name."""
    cls = type(result)
    return [n for n in object.__dir__(result) if not isinstance(getattr_static(cls, n, None), also)]


class Written:
    """Mixin for results that are written to a file or string by the four renderers."""

    __slots__ = ()

    def _shown(self) -> Shown:
        """Return the object that has a table."""
        raise NotImplementedError

    def to_html(self, path: Any = None) -> str:
        """Return plain HTML, every string escaped, no scripts; written to ``path`` if given."""
        return self._written("html", path)

    def to_latex(self, path: Any = None) -> str:
        """Return LaTeX for booktabs and threeparttable; written to ``path`` if given."""
        return self._written("latex", path)

    def to_markdown(self, path: Any = None) -> str:
        """Return a markdown pipe table with facts and notes; written to ``path`` if given."""
        return self._written("markdown", path)

    def to_word(self, path: Any) -> None:
        """Write a Word file (needs python-docx): ``to_word("table.docx")``."""
        self._shown()._file("docx", path)

    @also.method
    def as_gt(self) -> Any:
        """Return the table as ``great_tables.GT`` (needs ``dpmodels[tables]``), to be styled."""
        from dpmodels.tables.great import great_table

        return great_table(self._shown().table())

    def _written(self, fmt: str, path: Any) -> str:
        """Return the table in a format, and write it to a file if a path is given."""
        shown = self._shown()
        if path is not None:
            shown._file(fmt, path)
        return shown.render(fmt)

    def __dir__(self) -> list[str]:
        return own_names(self)


class Shown(Written):
    """Mixin for results with a table: text in a terminal, HTML or LaTeX in a notebook."""

    __slots__ = ()

    def table(self) -> Table:
        """Return the printed table of the result."""
        raise NotImplementedError

    def _shown(self) -> Shown:
        return self

    def _file(self, fmt: str, path: Any) -> None:
        write_as(self, fmt, path)

    def as_text(self, width: int | None = None) -> str:
        """Return text; tables that follow the terminal do so, or ``width``, below 88 columns."""
        return render_text(self.table(), width)

    as_html, as_latex, as_markdown = also("to_html"), also("to_latex"), also("to_markdown")

    def render(self, fmt: str) -> str:
        """Return one of the formats text, md, html, tex."""
        return FORMATS[check_format(fmt)](self.table())

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.render("html")

    def _repr_latex_(self) -> str:
        return self.render("latex")


class Result(Shown):
    """Result made from a fit or next to one: shown, tidy, drawn, saved and loaded."""

    __slots__ = ()

    def summary(self) -> Table:
        """Return the table; ``print`` it."""
        return self.table()

    def tidy(self) -> Any:
        """Return the numbers as a DataFrame, broom's column names."""
        raise NotImplementedError

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw estimates with their intervals (needs matplotlib)."""
        return forest(self.tidy(), ax, **style)

    def save(self, path: Any) -> None:
        """Write the result as JSON: ``dp.load(path)`` reads it back, with all its methods.

        Privacy
        -------
        The file holds public and released numbers only.
        """
        save(self, path)

    to_frame, summary_frame = also("tidy"), also("tidy")


class Table(Content, Shown):
    """A printable table; ``str()`` is its form in ``fmt``. The attributes are those of `Content`.

    Privacy
    -------
    Holds text made of public and released numbers only.
    """

    def table(self) -> Table:
        """Return itself."""
        return self

    def __str__(self) -> str:
        return self.render(self.fmt)


def check_format(fmt: str | None) -> str:
    """Return a known format name or raise ``RequestError``."""
    return choice("fmt", "text" if fmt is None else fmt, sorted(FORMATS))


#: Layout of estimates: as wide as their columns, with wrapped notes below.
AS_WIDE = Layout(width=0, grows=True, wrap=True, notes=76)


def grid(columns: Iterable[Any], rows: Iterable[Row | Iterable[str]], **parts: Any) -> Table:
    """Return a table of columns (or heads: the first to the left) and rows (or cells)."""
    heads = (Column(c, left=not k) if isinstance(c, str) else c for k, c in enumerate(columns))
    lines = (row if isinstance(row, Row) else Row(tuple(row)) for row in rows)
    return Table(columns=tuple(heads), rows=tuple(lines), **parts)


def named_rows(
    names: Sequence[str], columns: Sequence[tuple[Any, Iterable[str]]], *, least: int = 12,
    width: int = 10, **parts: Any,
) -> Table:  # fmt: skip
    """Return a table with one row per name; ``columns`` are heads (or columns) and cells.

    ``least``: least width of the names, ``width`` that of other columns.
    """
    first = Column(left=True, width=max([least, *(len(name) + 1 for name in names)]))
    heads = (Column(head, width=width) if isinstance(head, str) else head for head, _ in columns)
    rows = zip(names, *(cells for _, cells in columns), strict=True)
    return grid([first, *heads], rows, **{"layout": AS_WIDE, **parts})


def interval_heads(level: float, end: str = "") -> tuple[Column, Column]:
    """Return the columns of an interval, ``low`` and ``high``, under its level."""
    over = f"{100 * level:g} % interval{end}"
    return Column("low", over), Column("high", over)


def plain(
    labels: Sequence[str], rows: Iterable[Iterable[str]], *, label: int = 0, **parts: Any
) -> Table:
    """Return a table of words: every column to the left, no rule under the headers.

    ``label``: width of the labels of facts in text; 0: that of the longest.
    """
    columns = (Column(text, left=True, width=len(text) + 2) for text in labels)
    return grid(columns, rows, layout=Layout(ruled=False, label=label), **parts)


# -- A table written to a file; a result as JSON, and read back.


#: Suffix -> format.
SUFFIXES = {
    ".tex": "tex",
    ".html": "html",
    ".md": "md",
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
        raise RequestError(f"file= must be a path such as 'table.tex', got {shown(path)}")
    file = path_of(path)
    if file.suffix.lower() not in SUFFIXES:
        suffixes = ", ".join(SUFFIXES)
        raise RequestError(
            f"file={shown(str(path))}: the suffix gives the format, one of {suffixes}."
            f"{did_you_mean(file.suffix, SUFFIXES)}"
        )
    return file


def write_as(shown_: Shown, fmt: str, path: Any) -> None:
    """Write a table in one format, whatever the name of the file."""
    if not isinstance(path, (str, Path)):
        raise RequestError(f"a table is written to a path such as 'table.html', got {shown(path)}")
    path = path_of(path)
    if fmt == "docx":
        write_whole(path, partial(write_word, shown_.table()))
        return
    text = shown_.render(fmt)
    if fmt == "html":
        text = _PAGE.format(shown_.table().title or "Table", text)
    write_whole(path, text if text.endswith("\n") else f"{text}\n")


def write_whole(path: Path, write: str | Callable[[Path], object]) -> None:
    """Write a file under another name and rename it: it is whole, or as it was before.

    ``write`` is the text, or a function that writes to the path that it is given.

    Raises
    ------
    RequestError
        The file cannot be written, for example on a full disk. No part of it is left.
    """
    place = path.resolve()
    special = place.exists() and not place.is_file()  # a pipe, a terminal
    aside = place if special else place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    problem = ""
    try:
        if isinstance(write, str):
            aside.write_text(write, encoding="utf-8")
        else:
            write(aside)
        if not special:
            with contextlib.suppress(OSError):
                shutil.copymode(place, aside)
            aside.replace(place)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    finally:
        if not special:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
    if problem:
        raise RequestError(
            f"{shown(str(path))} could not be written ({problem}). Nothing is lost: write it to "
            "another place"
        )


# -- results as JSON -------------------------------------------------------------------------------

FORMAT, VERSION = "dpmodels.result", 1
#: Kinds of results that a file may hold, and what they hold: name -> "module:class".
_KINDS = {
    "combinations": "dpmodels.results.contrasts:Combinations",
    "joint test": "dpmodels.results.inference:JointTest",
    "adjusted curves": "dpmodels.results.adjusted:AdjustedCurves",
    "meta-analysis": "dpmodels.results.meta:MetaAnalysis",
    "joined tables": "dpmodels.results.merged:Joined",
    "column": "dpmodels.tables.content:Column",
    "equivalence": "dpmodels.results.joint:Equivalence",
    "anova": "dpmodels.results.inference:AnovaTable",
    "etable": "dpmodels.results.side_by_side:Etable",
    "score": "dpmodels.models.holdout:Score",
    "diagnosis": "dpmodels.models.holdout:Diagnosis",
    "cox_zph": "dpmodels.models.survival.zph:CoxZph",
    "intervals": "dpmodels.models.survival.zph:Intervals",
    "vote": "dpmodels.models.votes:VoteResult",
    "labels": "dpmodels.models.votes:PateResult",
    "selection": "dpmodels.api.custom:Selection",
    "row": "dpmodels.tables.content:Row",
    "record": "dpmodels.results.record:Record",
    "guarantee": "dpmodels.privacy.composition:Guarantee",
}
_NAMES = {place: name for name, place in _KINDS.items()}
WHAT, AGAIN = "this saved result", "Write it again with save(path), or use a copy"


def check_saved(path: Any) -> Path:
    """Return the path that something is saved at; the suffix of a table is refused."""
    if not isinstance(path, (str, Path)):
        raise RequestError(f"save needs a path such as 'fit.json', got {shown(path)}")
    file = path_of(path)
    if file.suffix.lower() in SUFFIXES:
        how = {".html": "to_html", ".tex": "to_latex", ".md": "to_markdown", ".docx": "to_word"}
        instead = how.get(file.suffix.lower(), "to_html")
        raise RequestError(
            f"save writes what dp.load reads back, as JSON: save('{file.stem}.json'). The table "
            f"alone: {instead}({str(path)!r})"
        )
    return file


def _checksum(saved: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical text: keys in order, nothing between, as JSON has it."""
    read = json.loads(json.dumps({k: v for k, v in saved.items() if k != "checksum"}, default=str))
    text = json.dumps(read, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved record with the checksum of all of it."""
    return {**saved, "checksum": _checksum(saved)}


def check_seal(saved: Mapping[str, Any], what: str, again: str) -> list[UtilityWarning]:
    """Refuse a file that was changed after saving; return a warning if it has no checksum.

    A check of files, no signature: who means to deceive can work the checksum out again.
    """
    held = saved.get("checksum")
    if held is None:
        text = f"{what} has no checksum (it was written before 0.2.1): a change would not show"
        return [UtilityWarning(f"{text}. {again}")]
    if held != _checksum(saved):
        raise DamagedError(f"{what} is damaged: its checksum does not hold. {again}")
    return []


def save(result: Any, path: Any) -> None:
    """Write a result as JSON text."""
    file = check_saved(path)
    saved = sealed({"format": FORMAT, "version": VERSION, "result": _out(result)})
    write_whole(file, json.dumps(saved, allow_nan=False, indent=1) + "\n")


def load(saved: Any) -> Any:
    """Return the result that :func:`save` wrote down."""
    if saved.get("version") != VERSION:
        raise RequestError(
            f"this result was saved in format {shown(saved.get('version'))}; this version of "
            f"dpmodels reads format {VERSION}"
        )
    with damage_reported(WHAT, AGAIN):
        return _in(saved["result"])


def _out(value: Any) -> Any:
    """Write a value with its type, so that it can be read back unchanged."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.generic):
        return _out(value.item())
    if isinstance(value, np.ndarray):
        listed = [_out(v) for v in value.ravel().tolist()]
        return {"array": listed, "shape": list(value.shape), "type": value.dtype.kind}
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [_out(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_out(k), _out(v)] for k, v in value.items()]}
    kind = _NAMES.get(f"{type(value).__module__}:{type(value).__qualname__}")
    if kind is not None and hasattr(value, "to_dict"):
        return {"kind": kind, "value": _out(value.to_dict())}
    if kind is not None:
        values = {f.name: _out(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"kind": kind, "fields": values}
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        columns = {str(c): {"list": [_out(v) for v in value[c].tolist()]} for c in value.columns}
        return {"frame": columns}
    raise RequestError(f"a {type(value).__name__} cannot be written into a file of results")


def _in(saved: Any) -> Any:
    """Read a value that :func:`_out` wrote."""
    if not isinstance(saved, dict):
        return saved
    if "float" in saved:
        return float(saved["float"])
    if "array" in saved:
        types = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}
        listed: Any = np.array([_in(v) for v in saved["array"]], dtype=types[saved["type"]])
        return listed.reshape(saved["shape"])
    if "tuple" in saved or "list" in saved:
        return tuple(map(_in, saved["tuple"])) if "tuple" in saved else [*map(_in, saved["list"])]
    if "dict" in saved:
        return {_in(k): _in(v) for k, v in saved["dict"]}
    if "frame" in saved:
        import pandas as pd

        return pd.DataFrame({name: _in(column) for name, column in saved["frame"].items()})
    module, _, name = _KINDS[saved["kind"]].partition(":")
    cls: Any = getattr(import_module(module), name)
    if "value" in saved:
        return cls.from_dict(_in(saved["value"]))
    return cls(**{k: _in(v) for k, v in saved["fields"].items()})


def read(path: Any) -> Any:
    """Return the JSON of a file, or None where it is none."""
    file = path_of(path, "the path of a saved file")
    if not file.is_file():
        raise RequestError(f"there is no file {shown(str(path))}")
    saved: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        saved = json.loads(file.read_text(encoding="utf-8"))
    return saved


# -- Pictures of a tidy table. matplotlib is imported when one is drawn.


#: Signs of a title.
_TITLE = 80


def one_line(fit: Any) -> str:
    """Return the title of a picture of a fit: formula and guarantee; the model where it is long."""
    promise = fit.privacy.statement().partition(";")[0]
    long = f"{fit.formula}; {promise}"
    if len(long) <= _TITLE:
        return long
    left = fit.formula.partition("~")[0].strip()
    short = f"{left}: {fit.kind.title}; {promise}"
    return short if left and len(short) <= _TITLE else f"{fit.kind.title}; {promise}"


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Any:
    """Return the axes that are given, or new ones of a size in inches."""
    if ax is not None:
        return ax
    failed = False
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        failed = True
    if failed:
        raise DPModelsError("plot() needs matplotlib: pip install 'dpmodels[plot]'")
    return plt.subplots(figsize=size, layout="constrained")[1]


def forest(
    frame: Any,
    ax: Axes | None = None,
    *,
    by: str | None = None,
    title: str = "",
    xlabel: str = "estimate",
    zero: float | None = 0.0,
    color: str | None = None,
) -> Any:
    """Draw the rows of a tidy table: a mark an estimate, a bar its interval, the first on top.

    ``frame`` has ``term, estimate``, and ``conf_low, conf_high`` where there are intervals. ``by``:
    column whose values stand beside each other in the row of a term, each in its colour. ``zero``:
    where a thin line stands for "no effect"; None: none.
    """
    if not np.isfinite(frame["estimate"].to_numpy(dtype=float)).any():
        raise NotReleasedError("there is no estimate to draw")
    names = list(dict.fromkeys(str(t) for t in frame["term"]))
    groups = [None] if by is None else list(dict.fromkeys(frame[by]))
    step = 0.0 if len(groups) == 1 else min(0.22, 0.7 / len(groups))
    ax = new_axes(ax, (6.4, 1.2 + max(0.38, step * 1.4 * len(groups)) * len(names)))
    for k, group in enumerate(groups):
        part = frame if group is None else frame[frame[by] == group]
        values = part["estimate"].to_numpy(dtype=float)
        at = np.array([names.index(str(t)) for t in part["term"]], dtype=float)
        at += step * (k - (len(groups) - 1) / 2.0)
        bars = None
        if "conf_low" in part:
            ends = [values - part["conf_low"], part["conf_high"] - values]
            bars = np.nan_to_num(np.abs(np.array(ends, dtype=float)))
        ax.errorbar(
            values, at, xerr=bars, fmt="o", color=color or f"C{k}", elinewidth=1.3, markersize=5,
            label=None if group is None else str(group),
        )  # fmt: skip
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    if zero is not None:
        ax.axvline(zero, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel(xlabel)
    if by is not None:
        ax.legend(fontsize="small", frameon=False)
    if title:
        ax.set_title(title, fontsize="small")
    return ax
