"""Plain HTML: two tables and a list, every string escaped, no scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpmodels.results.render.common import columns_of, facts_of, groups_of, signs

if TYPE_CHECKING:
    from dpmodels.results.summary import Page, Summary

__all__ = ["render"]

_TABLE = "border-collapse:collapse;margin:0.5em 0"
_CELL = "padding:0.1em 0.6em;text-align:right;border:0"
_NAME = "padding:0.1em 0.6em;text-align:left;border:0"
_RULE = ";border-bottom:1px solid currentColor"


def render(summary: Summary) -> str:
    """Return the summary as HTML."""
    parts = ['<div class="dpmodels">', *_facts(summary)]
    if summary.page is not None:
        parts += _page(summary.page)
    if summary.rows:
        parts += _coefficients(summary)
    if summary.notes:
        parts.append('<ol class="dpmodels-notes" style="font-size:smaller">')
        parts += [f"<li>{escape(note)}</li>" for note in summary.notes]
        parts.append("</ol>")
    parts.append("</div>")
    return "\n".join(parts)


def _facts(summary: Summary) -> list[str]:
    rows = [
        f'<tr><th scope="row" style="{_NAME}">{escape(label)}</th>'
        f'<td style="{_NAME}">{escape(value)}</td></tr>'
        for label, value in facts_of(summary)
    ]
    return [
        f'<table class="dpmodels dpmodels-facts" style="{_TABLE}">',
        f"<caption><strong>{escape(summary.title)}</strong></caption>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table>",
    ]


def _page(page: Page) -> list[str]:
    bullets = [f"<li>{escape(bullet)}</li>" for bullet in page.bullets]
    return [f"<p>{escape(page.text)}</p>", "<ul>", *bullets, "</ul>"]


def _coefficients(summary: Summary) -> list[str]:
    shown = columns_of(summary)
    columns = [summary.columns[k] for k in shown]
    groups = "".join(
        f'<th scope="colgroup" colspan="{span}" style="{_CELL};text-align:center{_RULE}">'
        f"{escape(group)}</th>"
        if group
        else f'<td colspan="{span}" style="{_CELL}"></td>'
        for group, span in groups_of(columns)
    )
    labels = "".join(
        f'<th scope="col" style="{_CELL}{_RULE}">{escape(c.label)}</th>' for c in columns
    )
    rows = [
        f'<tr><th scope="row" style="{_NAME}">{escape(row.name)}</th>'
        + "".join(f'<td style="{_CELL}">{escape(signs(row.cells[k]))}</td>' for k in shown)
        + "</tr>"
        for row in summary.rows
    ]
    return [
        f'<table class="dpmodels" style="{_TABLE}">',
        f"<caption>{escape(summary.statement)}</caption>",
        "<thead>",
        f'<tr><td style="{_NAME}"></td>{groups}</tr>',
        f'<tr><td style="{_NAME}{_RULE}"></td>{labels}</tr>',
        "</thead>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table>",
    ]
