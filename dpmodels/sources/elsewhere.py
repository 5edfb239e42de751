"""Rows that never come here: another engine adds them up, task by task."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpmodels.errors import DPModelsError, RequestError, SourceError, shown
from dpmodels.sources.piece import Piece, stamp
from dpmodels.sources.source import Chunk, Source, check_names

__all__ = ["Elsewhere", "need_rows"]

_KINDS = ("numeric", "bool", "category", "text", "datetime")


@dataclass(frozen=True)
class Caller:
    """Tasks that the user's own engine does (Spark, Ray, a warehouse).

    Attributes
    ----------
    gather : function
        ``gather(task)`` has ``dp.partial_sums`` done for every part of the table, and returns
        what they return.
    """

    gather: Callable[[bytes], Iterable[bytes]]

    @property
    def knows_parts(self) -> bool:
        """Whether the crew cuts the table by itself."""
        return True

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return none: the parts are known to the user's engine."""
        return []

    def run(self, task: Any, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Have the tasks done."""
        packed = task.packed()
        return stamp(packed), (_unpacked(found) for found in self.gather(packed))


class Elsewhere:
    """A table in Spark, Ray or a warehouse, for any verb that takes a table.

    Parameters
    ----------
    kinds : mapping of str to str
        Column -> "numeric", "bool", "category", "text" or "datetime". Public. The parts are read by
        them, whatever a library has made of the cells of one; what cannot be (numbers for text) is
        refused.
    n : int
        Number of rows. Public.
    sums : function
        ``sums(task)`` calls ``dp.partial_sums(task, part, rows)`` for every part of the table,
        wherever that is, and returns all that they return, once a part. It is called once a pass.

    Privacy
    -------
    The sums have no noise: they are as confidential as the rows, and so is the task, which may
    hold the key of secret coins. Rows of a part must be the same in every pass. What is released,
    and charged, is that of the same fit in one process. Sums that were added up elsewhere are
    trusted: no check can tell whether each row was counted once.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dpmodels as dp
    >>> parts = [pd.DataFrame({"y": np.arange(9.0), "x": np.arange(9.0)}) for _ in range(3)]
    >>> def sums(task):  # somewhere else
    ...     return [dp.partial_sums(task, i, part) for i, part in enumerate(parts)]
    >>> table = dp.Elsewhere({"y": "numeric", "x": "numeric"}, n=27, sums=sums)
    """

    rescannable = True
    schema_attr = None

    def __init__(
        self, kinds: Mapping[str, str], n: int, sums: Callable[[bytes], Iterable[bytes]]
    ) -> None:
        check_names(kinds)
        for name, kind in kinds.items():
            if kind not in _KINDS:
                raise RequestError(f"column {name!r}: {shown(kind)} is none of {', '.join(_KINDS)}")
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise RequestError(f"n= is the number of rows, got {shown(n)}")
        if not callable(sums):
            raise RequestError("sums= is a function of a task (see the documentation)")
        self.kinds = self.types = dict(kinds)
        self.n: int | None = n
        self.crew = Caller(sums)

    def __repr__(self) -> str:
        return f"<table elsewhere, {len(self.kinds)} columns, {self.n} rows>"

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        """Refuse: there are no rows here."""
        raise SourceError(
            "this call reads rows themselves, not sums of them, and they are not here. Use a "
            "method of sums: the default of dp_ols, dp_glm (but for very small eps), dp_quantreg, "
            "dp_moments, dp_table, dp_npreg, dp_pca"
        )


def need_rows(source: Any, what: str) -> None:
    """Refuse a table elsewhere for what reads rows themselves. Call it before the charge."""
    if isinstance(source, Elsewhere):
        raise SourceError(
            f"{what} reads rows themselves, not sums of them, and they are not here: give the "
            "table, or take a method whose passes are sums"
        )


def _unpacked(found: Any) -> Any:
    """Return the partial sums that came as bytes."""
    out: Any = None
    try:
        out = pickle.loads(bytes(found))  # noqa: S301 - from the user's own engine, which is trusted
    except DPModelsError:
        raise
    except Exception:
        out = None
    return out  # is checked where it is added
