"""At most so many rows of each person, as rows: what cap and pay reads (``units/theory.md``, 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmodels.errors import PrivacyBugError
from dpmodels.sources.rows import Rows
from dpmodels.sources.source import READ_ROWS

if TYPE_CHECKING:
    from dpmodels.sources.people import PeopleRows

__all__ = ["CappedRows"]


class _Kept:
    """At most so many rows of each person, as a source of rows."""

    rescannable = True
    schema_attr = None

    def __init__(self, people: PeopleRows, kinds: Mapping[str, Any], noise: Any) -> None:
        self._people, self._variables, self._noise = people, dict(kinds), noise
        self._cells: dict[str, Any] = {}
        self.most = people.person.most
        self.n: int | None = people.n * self.most
        self.kinds = dict.fromkeys(kinds, "numeric")

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield slices of coerced cells."""
        if not self._cells:
            self._cells = self._people.kept(self._variables, self.most, self._noise)
            self._people.close()
        for start in range(0, self.n or 0, READ_ROWS):
            yield {c: self._cells[c][start : start + READ_ROWS] for c in names}


class CappedRows(Rows):
    """``max_rows=`` rows of each person, for a method with a proof for rows (cap and pay).

    Parameters
    ----------
    people : PeopleRows
    kinds : mapping
        Variables of the design.
    noise : Noise
        For the key of the hashes and the order of people.
    """

    def __init__(self, people: PeopleRows, kinds: Mapping[str, Any], noise: Any) -> None:
        kept = _Kept(people, kinds, noise)
        super().__init__(kept, people.n * kept.most, False, coerced=True)
        self._of = people

    def close(self) -> None:
        """Let go of the cells."""
        super().close()
        self._of.close()

    def raw(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Refuse: which rows are kept is private."""
        raise PrivacyBugError("columns of kept rows are not public")
