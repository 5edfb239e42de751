"""Levels found in the rows: a stability histogram of values (``levels.md``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.cells import objects_of, read_each
from dpmodels.formula.spelled import hash_text
from dpmodels.sums.ask import Ask
from dpmodels.variables import NA_WORDS

#: Step of the ledger.
STEP = "levels"
#: Values of one person that count in a column. If there are more, those of the smallest hashes do.
MOST_VALUES = 16


def texts_of(cells: Iterable[Any], missing: tuple[str, ...]) -> list[str | None]:
    """Return the value of each cell as text; None where it is missing. Each cell separately."""

    def text_of(cell: Any) -> str | None:
        if isinstance(cell, str):
            text = cell.strip()
        elif isinstance(cell, (bool, int, float, np.number, np.bool_)):
            is_integer = isinstance(cell, (float, np.floating)) and float(cell).is_integer()
            text = str(int(cell)) if is_integer else str(cell)
        else:
            return None
        return None if text in NA_WORDS or text in missing else text

    texts: list[str | None] = read_each(cells, text_of, None, object).tolist()
    return texts


def shares_of_values(keys: Iterable[int], most: int) -> tuple[list[int], int]:
    """Return the values of a person that count in a column and the share of each, in 2^-20 steps.

    Each of t values adds ``1/sqrt t``, rounded down: a length of 1 at most. If there are more than
    ``most``, those of the smallest keys count, in any order of the table.
    """
    values = sorted(set(keys))[:most]
    return values, math.isqrt((1 << 40) // max(len(values), 1))


@dataclass(eq=False)
class _Values:
    """Values of the columns: a key of every cell, and its text. Confidential."""

    plan: Any  # :class:`dpmodels.levels.LevelsPlan`
    secret: bytes  # Key of the hashes, drawn for the call, so nobody can make two texts of one key
    names: dict[int, tuple[str, str]]

    def total(self, rows: Any, reading: Any) -> Any:
        """Return the keys of all cells, for people with the share that each adds."""
        if self.plan.most:
            return self._of_people(rows)
        keys: list[int] = []
        seen = 0
        for chunk in rows.raw(self.plan.columns):
            for _, cells in self._keys(chunk):
                keys += [key for key in cells if key is not None]
                size = len(cells)
            seen += size
        rows.check(seen)
        return np.array(keys, dtype=np.int64)

    def _keys(self, chunk: Mapping[str, Any]) -> Iterator[tuple[str, list[int | None]]]:
        """Yield each column with the keys of its cells, None where a cell is missing."""
        for name, words in zip(self.plan.columns, self.plan.missing, strict=True):
            texts = texts_of(objects_of(chunk[name]), words)
            keys = {
                text: hash_text(f"{name}\0{text}", self.secret)
                for text in {*texts}
                if text is not None
            }
            self.names.update((key, (name, text)) for text, key in keys.items())
            yield name, [None if text is None else keys[text] for text in texts]

    def _of_people(self, rows: Any) -> tuple[Any, Any]:
        """Return (keys, masses) of the values of all people."""
        by_person: dict[tuple[int, str], set[int]] = {}
        for chunk, people in rows.raw_people(self.plan.columns):
            for name, cells in self._keys(chunk):
                for person, key in zip(people.tolist(), cells, strict=True):
                    if key is not None and person >= 0:
                        by_person.setdefault((person, name), set()).add(key)
        keys: list[int] = []
        masses: list[int] = []
        for values in by_person.values():
            counted, mass = shares_of_values(values, self.plan.most)
            keys += counted
            masses += [mass] * len(counted)
        return np.array(keys, dtype=np.int64), np.array(masses, dtype=np.int64)


def release_levels(plan: Any, ask: Ask) -> dict[str, dict[str, float]]:
    """Release the values that enough rows have: column -> value -> noisy count.

    Privacy
    -------
    Unit: one row, or one person; one unit is replaced, the number of units is public. A row lies in
    one bin of each of k columns, a person adds a vector of length 1 in each: counts move by
    ``sqrt(2 k)``. Bins that only this unit has exceed the threshold with probability at most the
    failure part.
    """
    over = _Values(plan, ask.coins(16).tobytes(), {})
    keys, counts = ask.bins(
        STEP, over, lambda keys: keys, plan.tau, per_unit=len(plan.columns), most=plan.most
    )
    out: dict[str, dict[str, float]] = {name: {} for name in plan.columns}
    for key, count in zip(keys, counts, strict=True):
        name, text = over.names[key]
        out[name][text] = count
    ask.forget(over)
    return out
