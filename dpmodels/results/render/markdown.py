"""Markdown: pipe tables by tabulate, notes as a numbered list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpmodels.results.render.common import columns_of, facts_of, label_of, signs

if TYPE_CHECKING:
    from dpmodels.results.summary import Summary

__all__ = ["escape", "pipe", "render"]

_SPECIAL = "\\`*_{}[]<>|~#$"


def escape(text: str) -> str:
    """Return text with the signs that markdown reads specially escaped."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in text)


def pipe(rows: list[list[str]], headers: list[str]) -> str:
    """Return a pipe table: the first column left, the others right."""
    from tabulate import tabulate

    return str(
        tabulate(
            [[escape(cell) for cell in row] for row in rows],
            headers=[escape(head) for head in headers],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=("left", *("right" for _ in headers[1:])),
        )
    )


def render(summary: Summary) -> str:
    """Return the summary as markdown."""
    parts = [f"**{escape(summary.title)}**"]
    parts.append("\n".join(f"- {escape(a)}: {escape(b)}" for a, b in facts_of(summary)))
    if summary.page is not None:
        parts.append(escape(summary.page.text))
        parts.append("\n".join(f"- {escape(bullet)}" for bullet in summary.page.bullets))
    if summary.rows:
        shown = columns_of(summary)
        headers = ["", *(label_of(summary.columns[k]) for k in shown)]
        rows = [[row.name, *(signs(row.cells[k]) for k in shown)] for row in summary.rows]
        parts.append(pipe(rows, headers))
    parts.append(f"*{escape(summary.statement)}*")
    if summary.notes:
        parts.append("\n".join(f"{k}. {escape(note)}" for k, note in enumerate(summary.notes, 1)))
    return "\n\n".join(parts)
