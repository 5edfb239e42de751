"""People of a Dask frame: moved so that each is whole in one partition, then added up there.

A partition of the frame as it comes may hold some rows of a person and not others, and two balls a
person would be twice the sensitivity. So rows without an id are left out, the cells that the
design needs become numbers, and rows move by their *canonical* id: what is one person here
(``units/ids.py``) is one there, whatever its cells look like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np

from dpmodels.formula.coerce import coerce_all
from dpmodels.units.ids import sort_keys
from dpmodels.units.person import Person

__all__ = ["MOVED", "counted", "moved"]

#: Name of the column of ids in a frame whose people are whole.
MOVED = Person(" person")
_PLACE = " place"


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
    wanted = data[list(dict.fromkeys([*kinds, column]))]
    of_text = not _of_numbers(wanted._meta[column].dtype)
    meta = _prepared(wanted._meta, column, dict(kinds), of_text)
    found = wanted.map_partitions(_prepared, column, dict(kinds), of_text, meta=meta)
    return found.shuffle(on=_PLACE)


def counted(data: Any, column: str) -> Any:
    """Return a Dask frame with one row a person."""
    wanted = data[[column]]
    of_text = not _of_numbers(wanted._meta[column].dtype)
    meta = _prepared(wanted._meta, column, {}, of_text)
    found = wanted.map_partitions(_prepared, column, {}, of_text, meta=meta)
    return found.drop_duplicates(split_out=max(data.npartitions, 1))


def _of_numbers(dtype: Any) -> bool:
    """Say whether ids of a type are integers of 64 bits: a public fact."""
    return isinstance(dtype, np.dtype) and (
        dtype.kind in "if" or (dtype.kind == "u" and dtype.itemsize < 8)
    )


def _prepared(part: Any, column: str, kinds: Mapping[str, Any], of_text: bool) -> Any:
    """Return the rows with an id: canonical id, where it goes, and coerced cells."""
    import pandas as pd

    head, number, rows = sort_keys(part[column])
    out: dict[str, Any] = {}
    if of_text:
        heads = [head] * len(number) if isinstance(head, bytes) else head
        names = [f"{h.hex()}:{n}" for h, n in zip(heads, number.tolist(), strict=True)]
        out[MOVED.column] = pd.array(names, dtype="string")
        out[_PLACE] = np.array([crc32(name.encode()) for name in names], dtype=np.int64)
    else:
        out[MOVED.column] = number
        out[_PLACE] = (number ^ (number >> 32)) & 0x7FFFFFFF
    for name, cells in coerce_all({c: part[c] for c in kinds}, kinds).items():
        out[name] = cells if rows is None else cells[rows]
    return pd.DataFrame(out)
