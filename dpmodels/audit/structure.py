"""Structural audits: nothing but the noisy numbers may differ, and no cell may be printed."""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmodels.audit.outcomes import Finding

__all__ = ["SentinelCheck", "StructureCheck", "check_structure", "sentinel_search"]


@dataclass(frozen=True)
class StructureCheck:
    """Arguments of :func:`check_structure`, for an audit case."""

    name: str
    call: Callable[[Any], Any]
    pairs: Sequence[tuple[Any, Any]]
    shape: Callable[[Any], Any]

    def run(self) -> Finding:
        """Run the check on every pair."""
        for x, y in self.pairs:
            finding = check_structure(self.call, x, y, self.shape, name=self.name)
            if not finding.passed:
                return finding
        return Finding(self.name, bool(self.pairs), detail=f"{len(self.pairs)} pairs")


@dataclass(frozen=True)
class SentinelCheck:
    """Arguments of :func:`sentinel_search`, for an audit case."""

    name: str
    action: Callable[[], Any]
    sentinels: Sequence[str]

    def run(self) -> Finding:
        """Run the check."""
        return sentinel_search(self.action, self.sentinels, name=self.name)


def _seen(call: Callable[[Any], Any], data: Any, shape: Callable[[Any], Any]) -> Any:
    failure = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            what = repr(shape(call(data)))
        except Exception as error:
            what, failure = "", (type(error).__name__, str(error))
    return failure, what, [(w.category.__name__, str(w.message)) for w in caught]


def check_structure(
    call: Callable[[Any], Any],
    x: Any,
    y: Any,
    shape: Callable[[Any], Any],
    *,
    name: str = "structure",
) -> Finding:
    """Run a call on two neighbours; their shapes, warnings and exceptions must agree.

    Parameters
    ----------
    call : callable(data)
        With all noise fixed to zero, or with outputs that ``shape`` leaves out.
    x, y : data sets
        Differ in one odd row: a new level, a missing cell, text in a numeric column, ...
    shape : callable(result)
        The public part of a result: columns, names, n, types.
    """
    a, b = _seen(call, x, shape), _seen(call, y, shape)
    for what, left, right in zip(("exception", "shape", "warnings"), a, b, strict=True):
        if left != right:
            return Finding(name, False, detail=f"the {what} differs between neighbours")
    return Finding(name, True)


def _chain(error: BaseException) -> list[str]:
    """Texts of an exception and of everything reachable from it, tracebacks with locals."""
    out, todo, done = [], [error], set()
    while todo:
        e = todo.pop()
        if id(e) in done:
            continue
        done.add(id(e))
        out += [str(e), repr(e), repr(e.args), "".join(traceback.format_exception(e))]
        todo += [c for c in (e.__cause__, e.__context__) if c is not None]
    return out


def sentinel_search(
    action: Callable[[], Any],
    sentinels: Sequence[str],
    *,
    directory: str | Path | None = None,
    name: str = "sentinels",
) -> Finding:
    """Run ``action`` and look for private strings in everything that comes out of it.

    Parameters
    ----------
    action : callable
        Runs the call on data that holds the sentinels.
    sentinels : sequence of str
        Unique strings, and unique numbers as they would print.
    directory : path, optional
        Where files may have been written: their bytes are searched too.

    Notes
    -----
    Searched: str, repr, HTML, LaTeX and pickle of the result; exceptions with their tracebacks and
    contexts; warnings; log records; stdout and stderr; files.
    """
    texts: list[tuple[str, str]] = []
    stream, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
        ):
            warnings.simplefilter("always")
            try:
                result = action()
                texts += [("str", str(result)), ("repr", repr(result))]
                for form in ("_repr_html_", "_repr_latex_"):
                    if hasattr(result, form):
                        texts.append((form, str(getattr(result, form)())))
                texts.append(("pickle", pickle.dumps(result).decode("latin-1")))
            except Exception as error:
                texts += [("exception", text) for text in _chain(error)]
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    texts += [("warning", str(w.message)) for w in caught]
    texts += [("log", log.getvalue()), ("stdout", stream.getvalue())]
    if directory is not None:
        for file in Path(directory).rglob("*"):
            if file.is_file():
                texts.append(("file", file.read_bytes().decode("latin-1")))
    for where, text in texts:
        if any(s in text for s in sentinels):
            return Finding(name, False, detail=f"a private value appears in: {where}")
    return Finding(name, True, detail=f"{len(texts)} places searched")
