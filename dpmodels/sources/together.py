"""People of a Dask frame: moved so that each is whole in one partition, then added up there.

A partition of the frame as it comes may hold some rows of a person and not others, and two balls a
person would be twice the sensitivity. So rows without an id are left out, the cells that the
design needs become numbers, and rows move by their *canonical* id: what is one person here
(``units/ids.py``) is one there, whatever its cells look like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from dpmodels.errors import SourceError
from dpmodels.formula.coerce import coerce_all
from dpmodels.sources.memory import FrameSource
from dpmodels.sources.typed import TypedPart, types_of
from dpmodels.units.ids import OneType, id_type, sort_keys
from dpmodels.units.person import Person

#: Name of the column of ids in a frame whose people are whole.
MOVED = Person(" person")
_PLACE = " place"
_OTHER = (
    "a partition has a column, or ids, of another type than the frame says, so one cell may have "
    "decided how the others are read: give all partitions the same types, for example by "
    "dtype={...} where they are read, or .astype(...)"
)


def moved(data: Any, column: str, kinds: Mapping[str, Any]) -> Any:
    """Return a Dask frame of coerced cells in which each person lies in one partition.

    Parameters
    ----------
    data : dask DataFrame
    column : str
        Of ids.
    kinds : mapping
        Variables of the design.
    """
    return _by_person(data, column, dict(kinds)).shuffle(on=_PLACE)


def counted(data: Any, column: str) -> Any:
    """Return a Dask frame with one row a person."""
    found = _by_person(data, column, {})
    return found.drop_duplicates(split_out=max(data.npartitions, 1))


def whole_part(frame: Any) -> FrameSource:
    """Return a partition of :func:`moved` as a source; refuse it if a type was not as said."""
    if _refused(frame):
        raise SourceError(_OTHER)
    return FrameSource(frame)


def people_of(part: Any) -> Any:
    """Return the task that counts the rows of a partition of :func:`counted`; -1: refused."""
    import dask

    return dask.delayed(_people)(part)


def added_people(found: Iterable[int]) -> int:
    """Return how many people all partitions have together."""
    counts = list(found)
    if min(counts, default=0) < 0:
        raise SourceError(_OTHER)
    return sum(counts)


def _people(frame: Any) -> int:
    return -1 if _refused(frame) else len(frame)


def _refused(frame: Any) -> bool:
    return bool((frame[_PLACE] < 0).any())


def _by_person(data: Any, column: str, kinds: Mapping[str, Any]) -> Any:
    """Return a Dask frame of canonical ids, where they go, and coerced cells."""
    wanted = data[list(dict.fromkeys([*kinds, column]))]
    like = wanted._meta
    said = _Said(types_of(FrameSource(like)), id_type(like[column]), _of_text(like[column].dtype))
    meta = _prepared(like, column, kinds, said)
    return wanted.map_partitions(_part, column, kinds, said, meta, meta=meta)


def _of_text(dtype: Any) -> bool:
    """Say whether ids of a type are anything but integers of 64 bits: a public fact."""
    whole = isinstance(dtype, np.dtype) and (
        dtype.kind in "if" or (dtype.kind == "u" and dtype.itemsize < 8)
    )
    return not whole


@dataclass(frozen=True)
class _Said:
    """What the frame says of the types of its partitions: of columns, and of the ids."""

    types: Mapping[str, str]
    ids: str
    of_text: bool


def _part(part: Any, column: str, kinds: Mapping[str, Any], said: _Said, meta: Any) -> Any:
    """Return :func:`_prepared`, or one row that says that the types are not as said.

    An exception would be logged by the worker beside the rows.
    """
    try:
        return _prepared(part, column, kinds, said)
    except SourceError:
        mark = meta.reindex([0], fill_value=0) if not said.of_text else meta.reindex([0])
        return mark.assign(**{_PLACE: np.int64(-1)}).astype(meta.dtypes.to_dict())


def _prepared(part: Any, column: str, kinds: Mapping[str, Any], said: _Said) -> Any:
    """Return the rows with an id: canonical id, where it goes, and coerced cells."""
    import pandas as pd

    OneType(said.ids).check(part[column])
    head, number, rows = sort_keys(part[column])
    out: dict[str, Any] = {}
    if said.of_text:
        heads = [head] * len(number) if isinstance(head, bytes) else head
        names = [f"{h.hex()}:{n}" for h, n in zip(heads, number.tolist(), strict=True)]
        out[MOVED.column] = pd.array(names, dtype="string")
        out[_PLACE] = np.array([crc32(name.encode()) for name in names], dtype=np.int64)
    else:
        out[MOVED.column] = number
        out[_PLACE] = (number ^ (number >> 32)) & 0x7FFFFFFF
    for name, cells in _coerced(part, kinds, said).items():
        out[name] = cells if rows is None else cells[rows]
    return pd.DataFrame(out)


def _coerced(part: Any, kinds: Mapping[str, Any], said: _Said) -> dict[str, Any]:
    """Return the coerced cells of a partition, read by the types of the frame."""
    chunks = list(TypedPart(FrameSource(part), said.types).chunks(list(kinds))) if kinds else []
    if not chunks:
        return coerce_all({c: part[c] for c in kinds}, kinds)
    found = [coerce_all(chunk, kinds) for chunk in chunks]
    return {c: np.concatenate([cells[c] for cells in found]) for c in kinds}
