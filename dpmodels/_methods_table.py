"""Tables of methods and options that print all they hold, and are frames all the same."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pandas as pd

__all__ = ["MethodTable", "OptionTable"]

#: Columns of a printed page.
WIDTH = 100
#: What the printed pages are made of; a frame that lacks one prints as frames do.
_METHOD = {
    "verb", "method", "title", "needs", "relations", "inference", "comparison_only", "reference",
}  # fmt: skip
_OPTION = {"verb", "option", "default", "type", "doc"}


class _Page(pd.DataFrame):
    """A frame that prints as text, and so do the rows that are taken from it."""

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return type(self)

    def _text(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._text()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            html: str = pd.DataFrame(self).to_html(index=False, border=0, justify="left")
        return html


def _block(name: str, lines: list[str], indent: int) -> str:
    """Return ``name`` and wrapped lines beside it, or below it where it is long."""
    gap = " " * indent
    out = [f"  {name}"] if len(name) + 4 > indent else []
    for line in lines:
        out += textwrap.wrap(
            line, WIDTH, initial_indent=gap, subsequent_indent=gap + "  ", break_on_hyphens=False
        )
    if len(name) + 4 <= indent:
        out[0] = f"  {name}".ljust(indent) + out[0][indent:]
    return "\n".join(out)


class MethodTable(_Page):
    """One row a method."""

    def _text(self) -> str:
        if not set(self.columns) >= _METHOD:
            return pd.DataFrame(self).to_string()
        pages = []
        for verb, rows in pd.DataFrame(self).groupby("verb", sort=False):
            pages.append(str(verb))
            for row in rows.to_dict("records"):
                head = row["title"] + (" (for comparison only)" if row["comparison_only"] else "")
                facts = f"inference: {row['inference']}; relations: {row['relations']}"
                needs = f"; needs: {row['needs']}" if row["needs"] else ""
                lines = [line for line in (head, facts + needs, row["reference"]) if line]
                pages.append(_block(row["method"], lines, 16))
        return "\n".join([*pages, "", "Options of one: dp.methods('ssp')."])


class OptionTable(_Page):
    """One row an option."""

    def _text(self) -> str:
        if not set(self.columns) >= _OPTION:
            return pd.DataFrame(self).to_string()
        pages: list[str] = []
        for verb, rows in pd.DataFrame(self).groupby("verb", sort=False):
            pages.append(str(verb))
            for row in rows.to_dict("records"):
                pages.append(_block(_assigned(row), [row["doc"], f"type: {row['type']}"], 30))
        return "\n".join(pages) if pages else "no options of its own"


def _assigned(row: dict[Any, Any]) -> str:
    return f"{row['option']}={row['default']!r}"
