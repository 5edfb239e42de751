"""Typst: a figure with a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpmodels.results.render.common import columns_of, facts_of, groups_of, signs

if TYPE_CHECKING:
    from dpmodels.results.summary import Summary

__all__ = ["content", "render"]

_SPECIAL = "\\`*_{}[]<>~#$@/'\"-=+."


def content(text: str) -> str:
    """Return a content block ``[...]`` with the signs that typst reads specially escaped."""
    return "[" + "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in text) + "]"


def render(summary: Summary) -> str:
    """Return the summary as typst markup."""
    body = _table(summary) if summary.rows else _facts(summary)
    lines = ["#figure(", f"  caption: {content(summary.title)},", *body, ")", ""]
    if summary.rows:
        lines += [f"- {content(f'{a}: {b}')[1:-1]}" for a, b in facts_of(summary)]
    if summary.page is not None:
        lines += ["", content(summary.page.text)[1:-1], ""]
        lines += [f"- {content(bullet)[1:-1]}" for bullet in summary.page.bullets]
    lines += ["", f"#emph{content(summary.statement)}", ""]
    lines += [f"+ {content(note)[1:-1]}" for note in summary.notes]
    return "\n".join(lines).rstrip()


def _table(summary: Summary) -> list[str]:
    shown = columns_of(summary)
    columns = [summary.columns[k] for k in shown]
    groups = ", ".join(
        f"table.cell(colspan: {span}, align: center){content(group)}"
        for group, span in groups_of(columns)
    )
    labels = ", ".join(content(c.label) for c in columns)
    rows = [
        f"    {content(row.name)}, {', '.join(content(signs(row.cells[k])) for k in shown)},"
        for row in summary.rows
    ]
    return [
        "  table(",
        f"    columns: {len(shown) + 1},",
        "    stroke: none,",
        "    align: (x, y) => if x == 0 { left } else { right },",
        f"    table.hline(), table.header([], {groups}, [], {labels}), table.hline(),",
        *rows,
        "    table.hline(),",
        "  ),",
    ]


def _facts(summary: Summary) -> list[str]:
    rows = [f"    {content(a)}, {content(b)}," for a, b in facts_of(summary)]
    return ["  table(", "    columns: 2, stroke: none, align: left,", *rows, "  ),"]
