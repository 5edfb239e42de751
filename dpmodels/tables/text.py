"""Text: at most 88 columns as a rule, or two blocks of columns below that."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from dpmodels.tables.common import groups_of, heads_of
from dpmodels.tables.table import Column, Layout, Page, Table

_NARROWEST = 50
_LABEL = 14  # width of labels where facts stand on both sides
_RIGHT = 32  # columns given to the facts on the right
_SPELLED = {"ε": "eps", "δ": "delta", "⊥": "no reply", "²": "^2", "\u2212": "-", "\u00d7": "x"}


def ascii_text(text: str) -> str:
    """Spell out the Greek letters and signs of our own words; names of columns stay as they are."""
    for sign, word in _SPELLED.items():
        text = text.replace(sign, word)
    return text


def render(table: Table, width: int | None = None) -> str:
    """Return the table as text; a fluid one at most ``width`` wide where names allow it."""
    layout, most = table.layout, table.layout.width
    if width is None:
        width = shutil.get_terminal_size(fallback=(most, 24)).columns
    wide = not layout.fluid or width >= most
    width = most if wide else max(width, _NARROWEST)
    totals, grids = _grids(table, width, wide)
    if layout.grows:
        width = max(width, *totals)
    page = _page(table.page, width) if table.page else []
    legend = [line for text in table.legend for line in _wrap(ascii_text(text), width, "", "   ")]
    parts = [_facts(table, width, wide), page, *grids, legend]
    if layout.facts_last:
        parts = [*parts[1:], parts[0]]
    lines: list[str] = []
    for part in filter(None, parts):
        lines += [layout.inner * width] * bool(lines) + part
    if table.title:
        title = table.title.center(width) if layout.fluid else table.title
        lines = [title, layout.outer * width, *lines]
    if layout.closed or table.notes:
        lines.append(layout.outer * width)
    lines += _notes(table, max(width, layout.notes))
    text = "\n".join(line.rstrip() for line in lines)
    return ascii_text(text) if layout.wrap else text


def _grids(table: Table, width: int, wide: bool) -> tuple[list[int], list[list[str]]]:
    """Return widths and lines of the tables, in two blocks of columns where it is narrow."""
    grids = []
    for part in (table, *table.more):
        if part.columns and wide:
            shown = [k for k, c in enumerate(part.columns) if c.wide]
            grids.append(_grid(part, table.layout, shown, width, groups=True))
        elif part.columns:
            for block in (0, 1):
                shown = [k for k, c in enumerate(part.columns) if block in c.blocks]
                grids.append(_grid(part, table.layout, shown, width, groups=block == 1))
    return [total for total, _ in grids], [lines for _, lines in grids]


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def _pair(label: str, value: str, pad: int, width: int, layout: Layout) -> list[str]:
    start = (f"{label}: " if label else "").ljust(pad if label else 0)
    return _wrap(ascii_text(value), width, start, " " * pad) if layout.wrap else [start + value]


def _facts(table: Table, width: int, wide: bool) -> list[str]:
    """Return the first fact over the full width, then words left and those aside right."""
    facts, layout = (*table.facts, *table.aside), table.layout
    if not (wide and table.aside):
        pad = layout.label or max((len(label) for label, _ in facts), default=0) + 2
        return [line for fact in facts for line in _pair(*fact, pad, width, layout)]
    first, *words = table.facts
    left = [line for fact in words for line in _pair(*fact, _LABEL, width - _RIGHT - 1, layout)]
    right = [f"{label}:{value.rjust(_RIGHT - len(label) - 1)}" for label, value in table.aside]
    both = zip_longest(left, right, fillvalue="")
    start = _pair(*first, _LABEL, width, layout)
    return start + [f"{a:<{width - _RIGHT}}{b}" for a, b in both]


def _page(page: Page, width: int) -> list[str]:
    lines = _wrap(ascii_text(page.text), width)
    if page.bullets:
        lines.append("")
    for bullet in page.bullets:
        lines += _wrap(ascii_text(bullet), width, "  * ", "    ")
    return lines


def _notes(table: Table, width: int) -> list[str]:
    layout = table.layout
    lines = [layout.heading] if layout.heading and table.notes else []
    for k, note in enumerate(table.notes, 1):
        mark = layout.mark.format(k=k)
        hang = " " * len(mark)
        lines += _wrap(ascii_text(note), width, mark, hang) if layout.wrap else [mark + note]
    return lines


def _grid(
    table: Table, layout: Layout, shown: Sequence[int], width: int, *, groups: bool
) -> tuple[int, list[str]]:
    """Return the width of a table and its lines: groups, headers, rule, rows."""
    columns = [table.columns[k] for k in shown]
    heads = heads_of([c.label if groups or not c.alone else c.alone for c in columns])
    cells = [
        [" " * c.indent + row.cells[k] for k, c in zip(shown, columns, strict=True)]
        for row in table.rows
        if row.cells and not row.span
    ]
    if layout.wrap:
        cells = [[ascii_text(cell) for cell in row] for row in cells]
    widths = _widths(columns, [*heads, *cells], layout, width)
    total = sum(widths) + layout.gap * (len(widths) - 1) + layout.indent
    indent = " " * layout.indent
    rule = indent + "-" * ((max(width, total) if layout.grows else width) - layout.indent)
    lines = []
    if groups and any(c.group for c in columns):
        lines.append(_spans(columns, widths, layout.gap))
    lines += [indent + _line(columns, head, widths, layout.gap) for head in heads]
    lines += [rule] * (bool(heads) and layout.ruled)
    body = iter(cells)
    for row in table.rows:
        if row.span:
            lines.append(layout.span.format(*row.cells))
        elif not row.cells:
            lines.append(rule)
        else:
            lines += [indent + line for line in _row(columns, next(body), widths, layout.gap)]
    return total, lines


def _widths(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], layout: Layout, width: int
) -> list[int]:
    """Return what the texts need, and more for a column that stretches where there is room."""
    widths = [
        max(c.width, 0 if c.over or c.prose else max((len(line[k]) for line in lines), default=0))
        for k, c in enumerate(columns)
    ]
    for k, column in enumerate(columns):
        room = width - layout.indent - sum(widths) - layout.gap * (len(widths) - 1)
        widths[k] += max(0, min(column.stretch - widths[k], room))
    return widths


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], gap: int) -> str:
    parts = zip(columns, cells, widths, strict=True)
    return (" " * gap).join(t.ljust(w) if c.left else t.rjust(w) for c, t, w in parts)


def _row(
    columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], gap: int
) -> list[str]:
    """Return the lines of a row: more than one for prose, and for a name that has no room."""
    texts = [
        [
            line
            for text in cell.split("\n")
            for line in textwrap.wrap(text, w, subsequent_indent="  ", break_on_hyphens=False)
        ]
        if c.prose
        else [cell]
        for c, cell, w in zip(columns, cells, widths, strict=True)
    ]
    lines = list(zip_longest(*texts, fillvalue=""))
    if not columns or not columns[0].over:
        return [_line(columns, line, widths, gap) for line in lines]
    # The first column is wider than its texts as a rule: a long name may reach into it.
    name = cells[0]
    first, *others = (_line(columns, ["", *line[1:]], widths, gap) for line in lines)
    if len(name) > len(first) - len(first.lstrip()) - gap:
        return [name, first, *others]
    return [name + first[len(name) :], *others]


def _spans(columns: Sequence[Column], widths: Sequence[int], gap: int) -> str:
    """Return the line above the labels, ``------ Std. Error ------`` over a group."""
    line, k = "", 0
    for group, count in groups_of(columns):
        span = sum(widths[k : k + count]) + gap * (count - (k == 0))
        line += f" {f' {group} '.center(span - 2, '-')} " if group else " " * span
        k += count
    return line
