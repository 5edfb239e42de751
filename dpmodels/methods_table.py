"""Tables of methods and options that print all they hold, and are frames all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from dpmodels.tables.content import Column, Layout, Page, Row
from dpmodels.tables.table import Shown, Table, plain

#: Columns of a printed page.
WIDTH = 100
_LAYOUT = Layout(width=WIDTH, outer="", closed=False, indent=2, span="{}{}", mark="")


class _Page(Shown, pd.DataFrame):  # type: ignore[misc]
    """Frame that prints as names with texts next to them, as do rows selected from it."""

    #: Columns that the words are made of; a frame that lacks one prints as frames do.
    _of: frozenset[str]
    #: Width of the names.
    _names: int

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return type(self)

    def _words(self, row: dict[Any, Any]) -> tuple[str, ...]:
        """Return the name of a row, then the lines of its text."""
        raise NotImplementedError

    def _page(self) -> bool:
        return set(self.columns) >= self._of

    def table(self) -> Table:
        """Return the names below their verbs."""
        frame = pd.DataFrame(self)
        if not self._page():
            return plain(list(map(str, frame)), map(tuple, frame.astype(str).to_numpy()))
        rows: list[Row] = []
        for verb, methods in frame.groupby("verb", sort=False):
            rows.append(Row((str(verb), ""), span=True))
            for name, *lines in map(self._words, methods.to_dict("records")):
                rows.append(Row((name, "\n".join(lines))))
        names = Column(left=True, width=self._names, over=True)
        words = Column(left=True, stretch=WIDTH, prose=True)
        return Table(columns=(names, words), rows=tuple(rows), layout=_LAYOUT)

    def as_text(self, width: int | None = None) -> str:
        """Return the table as text. A frame without the expected columns prints as in pandas."""
        return super().as_text(width) if self._page() else pd.DataFrame(self).to_string()


class MethodTable(_Page):
    """One row a method."""

    _of = frozenset({
        "verb", "method", "title", "needs", "relations", "inference", "proof", "comparison_only",
        "reference",
    })  # fmt: skip
    _names = 12

    def _words(self, row: dict[Any, Any]) -> tuple[str, ...]:
        """Return the paragraphs of a method: title, facts, proof, reference."""
        head = row["title"] + (" (for comparison only)" if row["comparison_only"] else "")
        facts = f"inference: {row['inference']}; relations: {row['relations']}"
        needs = f"; needs: {row['needs']}" if row["needs"] else ""
        return row["method"], *filter(None, (head, facts + needs, row["proof"], row["reference"]))

    def table(self) -> Table:
        """Return the methods below their verbs, and how to see the options of one."""
        table = super().table()
        return replace(table, notes=("Options of one: dp.methods('ssp').",) * self._page())


class OptionTable(_Page):
    """One row an option."""

    _of = frozenset({"verb", "option", "default", "type", "doc"})
    _names = 26

    def _words(self, row: dict[Any, Any]) -> tuple[str, ...]:
        return f"{row['option']}={row['default']!r}", row["doc"], f"type: {row['type']}"

    def table(self) -> Table:
        """Return the options below their verbs."""
        nothing = Table(page=Page("no options of its own"), layout=_LAYOUT)
        return super().table() if len(self) else nothing
