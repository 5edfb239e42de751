"""A table written to a file; a result as JSON, and read back."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmodels.errors import (
    DamagedError,
    RequestError,
    UtilityWarning,
    did_you_mean,
    shown,
    whole,
)

if TYPE_CHECKING:
    from dpmodels.tables.table import Shown

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
    """Write a table, in UTF-8, or as a Word file; the suffix says how."""
    write_as(shown_, SUFFIXES[path.suffix.lower()], path)


def write_as(shown_: Shown, fmt: str, path: Any) -> None:
    """Write a table in one format, whatever the name of the file."""
    if not isinstance(path, (str, Path)):
        raise RequestError(f"a table is written to a path such as 'table.html', got {shown(path)}")
    path = Path(path)
    if fmt == "docx":
        from dpmodels.tables.word import write

        write(shown_.table(), path)
        return
    text = shown_.render(fmt)
    if fmt == "html":
        text = _PAGE.format(shown_.table().title or "Table", text)
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


# -- results as JSON -------------------------------------------------------------------------------

FORMAT, VERSION = "dpmodels.result", 1
#: Kinds of results that a file may hold, and what they hold: name -> "module:class".
_KINDS = {
    "combinations": "dpmodels.results.contrasts:Combinations",
    "joint test": "dpmodels.results.joint:JointTest",
    "anova": "dpmodels.results.joint:AnovaTable",
    "etable": "dpmodels.results.side_by_side:Etable",
    "score": "dpmodels.models.holdout.report:Score",
    "diagnosis": "dpmodels.models.holdout.report:Diagnosis",
    "vote": "dpmodels.models.votes.votes:VoteResult",
    "labels": "dpmodels.models.votes.votes:PateResult",
    "selection": "dpmodels.api.custom:Selection",
    "row": "dpmodels.tables.table:Row",
    "record": "dpmodels.results.record:Record",
    "guarantee": "dpmodels.privacy.guarantee:Guarantee",
}
_NAMES = {place: name for name, place in _KINDS.items()}
WHAT, AGAIN = "this saved result", "Write it again with save(path), or use a copy"


def check_saved(path: Any) -> Path:
    """Return the path that something is saved at; the suffix of a table is refused."""
    if not isinstance(path, (str, Path)):
        raise RequestError(f"save takes a path such as 'fit.json', got {shown(path)}")
    found = Path(path)
    if found.suffix.lower() in SUFFIXES:
        how = {".html": "to_html", ".tex": "to_latex", ".md": "to_markdown", ".docx": "to_word"}
        instead = how.get(found.suffix.lower(), "to_html")
        raise RequestError(
            f"save writes what dp.load reads back, as JSON: save('{found.stem}.json'). The table "
            f"alone: {instead}({str(path)!r})"
        )
    return found


def _checksum(saved: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical text: keys in order, nothing between, as JSON has it."""
    read = json.loads(json.dumps({k: v for k, v in saved.items() if k != "checksum"}, default=str))
    text = json.dumps(read, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is saved with the checksum of all of it."""
    return {**saved, "checksum": _checksum(saved)}


def check_seal(saved: Mapping[str, Any], what: str, again: str) -> list[UtilityWarning]:
    """Refuse what was changed after it was saved; return a warning where a file has no checksum.

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
    found = check_saved(path)
    saved = sealed({"format": FORMAT, "version": VERSION, "result": _out(result)})
    found.write_text(json.dumps(saved, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def load(saved: Any) -> Any:
    """Return the result that :func:`save` wrote down."""
    if saved.get("version") != VERSION:
        raise RequestError(
            f"this result was saved in format {shown(saved.get('version'))}; this version of "
            f"dpmodels reads format {VERSION}"
        )
    with whole(WHAT, AGAIN):
        return _in(saved["result"])


def _place(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _out(value: Any) -> Any:
    """Write a value with what it is, so that it can be read back the same."""
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
    kind = _NAMES.get(_place(value))
    if kind is not None and hasattr(value, "to_dict"):
        return {"kind": kind, "value": _out(value.to_dict())}
    if kind is not None:
        own = {f.name: _out(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"kind": kind, "fields": own}
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
    if not isinstance(path, (str, Path)) or not Path(path).is_file():
        raise RequestError(f"there is no file {shown(str(path))}")
    found: Any = None
    with contextlib.suppress(json.JSONDecodeError, RecursionError, UnicodeDecodeError):
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    return found
