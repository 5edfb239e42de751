"""Plain HTML: tables and a list, every string escaped, no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dpmodels.tables.common import facts_of, grids_of, groups_of, heads_of, notes_of, signs, spanned
from dpmodels.tables.table import Column, Page, Row, Table

_BARE = "border-collapse:collapse"
_TABLE = f"{_BARE};margin:0.5em 0"
_CELL = "padding:0.1em 0.6em;text-align:right;border:0"
_NAME = "padding:0.1em 0.6em;text-align:left;border:0"
_RULE = ";border-bottom:1px solid currentColor"


def render(table: Table) -> str:
    """Return the table as HTML."""
    parts = [] if table.title == "" else ['<div class="dpmodels">', *_facts(table)]
    if table.page is not None:
        parts += _page(table.page)
    caption = f"<caption>{escape(table.statement)}</caption>" if table.statement else ""
    if not table.title and table.notes:
        said = escape(" ".join(notes_of(table)))
        caption = f'<caption style="caption-side:bottom">{said}</caption>'
    for columns, rows in grids_of(table):
        parts += _grid(columns, rows, caption, bare=not table.title)
        caption = ""
    parts += [f'<p style="font-size:smaller">{escape(text)}</p>' for text in table.legend]
    if table.title and table.notes:
        parts.append('<ol class="dpmodels-notes" style="font-size:smaller">')
        parts += [f"<li>{escape(note)}</li>" for note in notes_of(table)]
        parts.append("</ol>")
    return "\n".join(parts + ["</div>"] * bool(table.title))


def _facts(table: Table) -> list[str]:
    rows = [
        f'<tr><th scope="row" style="{_NAME}">{escape(label)}</th>'
        f'<td style="{_NAME}">{escape(value)}</td></tr>'
        for label, value in facts_of(table)
    ]
    if not rows:
        return [f"<p><strong>{escape(table.title)}</strong></p>"]
    return [
        f'<table class="dpmodels dpmodels-facts" style="{_TABLE}">',
        f"<caption><strong>{escape(table.title)}</strong></caption>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table>",
    ]


def _page(page: Page) -> list[str]:
    bullets = [f"<li>{escape(bullet)}</li>" for bullet in page.bullets]
    return [f"<p>{escape(page.text)}</p>", "<ul>", *bullets, "</ul>"]


def _grid(columns: Sequence[Column], rows: Sequence[Row], caption: str, bare: bool) -> list[str]:
    head = _head(columns, bare)
    return [
        f'<table class="dpmodels" style="{_BARE if bare else _TABLE}">',
        *filter(None, [caption]),
        *(["<thead>", *head, "</thead>"] if head else []),
        "<tbody>",
        *(_row(columns, row) for row in rows if row.cells),
        "</tbody>",
        "</table>",
    ]


def _style(column: Column) -> str:
    return _NAME if column.left else _CELL


def _head(columns: Sequence[Column], bare: bool) -> list[str]:
    """Return the line of groups, where there are any, and the lines of labels."""
    lines = []
    if any(c.group for c in columns):
        groups = "".join(
            f'<th scope="colgroup" colspan="{span}" style="{_CELL};text-align:center{_RULE}">'
            f"{escape(group)}</th>"
            if group
            else f'<td colspan="{span}" style="{_CELL}"></td>'
            for group, span in groups_of(columns[1:])
        )
        lines.append(f'<tr><td style="{_NAME}"></td>{groups}</tr>')
    rule = "" if bare else _RULE
    for labels in heads_of([c.label for c in columns]):
        corner = f'<th scope="row" style="{_NAME}">' if bare else f'<td style="{_NAME}{rule}">'
        line = "".join(
            f'<th scope="col" style="{_style(c)}{rule}">{escape(signs(label))}</th>'
            for c, label in zip(columns[1:], labels[1:], strict=True)
        )
        lines.append(f"<tr>{corner}{escape(labels[0])}</{corner[1:3]}>{line}</tr>")
    return lines


def _row(columns: Sequence[Column], row: Row) -> str:
    if row.span:
        label, *value = spanned(row, len(columns))
        cells = f'<th scope="row" colspan="{label[1]}" style="{_NAME}">{escape(label[0])}</th>'
        cells += "".join(f'<td colspan="{n}" style="{_CELL}">{escape(v)}</td>' for v, n in value)
        return f"<tr>{cells}</tr>"
    cells = "".join(
        f'<td style="{_style(c)}">{"<br>".join(map(escape, cell.splitlines()))}</td>'
        for c, cell in zip(columns[1:], row.cells[1:], strict=True)
    )
    name = f'<th scope="row" style="{_style(columns[0])}">{escape(row.cells[0])}</th>'
    return f"<tr>{name}{cells}</tr>"
