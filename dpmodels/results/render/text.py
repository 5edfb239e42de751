"""ASCII text: 88 columns, or two blocks of columns below that."""

from __future__ import annotations

import shutil
import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpmodels.results.summary import Column, Page, Row, Summary

__all__ = ["ascii_text", "render"]

WIDE = 88
_NARROWEST = 50
_LABEL = 14
_RIGHT = 32  # columns given to the facts on the right
_SPELLED = {"ε": "eps", "δ": "delta", "⊥": "no reply", "²": "^2", "\u2212": "-", "\u00d7": "x"}


def ascii_text(text: str) -> str:
    """Spell out the Greek letters and signs of our own words; names of columns stay as they are."""
    for sign, word in _SPELLED.items():
        text = text.replace(sign, word)
    return text


def render(summary: Summary, width: int | None = None) -> str:
    """Return the summary as ASCII text, at most ``width`` columns where names allow it."""
    if width is None:
        width = shutil.get_terminal_size(fallback=(WIDE, 24)).columns
    width = WIDE if width >= WIDE else max(width, _NARROWEST)
    wide = width == WIDE
    lines = [summary.title.center(width).rstrip(), "=" * width]
    lines += _header(summary, width) if wide else _stacked(summary, width)
    if summary.page is not None:
        lines += ["-" * width, *_page(summary.page, width)]
    if summary.rows and wide:
        shown = [k for k, c in enumerate(summary.columns) if c.wide]
        lines += ["-" * width, *_block(summary, shown, width, groups=True)]
    elif summary.rows:
        for block in (0, 1):
            shown = [k for k, c in enumerate(summary.columns) if block in c.blocks]
            lines += ["-" * width, *_block(summary, shown, width, groups=block == 1)]
    lines.append("=" * width)
    if summary.notes:
        lines.append("Notes:")
        for k, note in enumerate(summary.notes, 1):
            mark = f"[{k}] "
            lines += _wrap(ascii_text(note), width, mark, " " * len(mark))
    return ascii_text("\n".join(line.rstrip() for line in lines))


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def _pair(label: str, value: str, width: int) -> list[str]:
    return _wrap(ascii_text(value), width, f"{label}:".ljust(_LABEL), " " * _LABEL)


def _header(summary: Summary, width: int) -> list[str]:
    """Return the formula over the full width, then words left and facts right."""
    formula, *words = summary.header
    left = [line for pair in words for line in _pair(*pair, width - _RIGHT - 1)]
    right = [f"{label}:{value.rjust(_RIGHT - len(label) - 1)}" for label, value in summary.facts]
    both = zip_longest(left, right, fillvalue="")
    return _pair(*formula, width) + [f"{a:<{width - _RIGHT}}{b}" for a, b in both]


def _stacked(summary: Summary, width: int) -> list[str]:
    label = max(len(name) for name, _ in (*summary.header, *summary.facts)) + 2
    return [
        line
        for name, value in (*summary.header, *summary.facts)
        for line in _wrap(ascii_text(value), width, f"{name}:".ljust(label), " " * label)
    ]


def _page(page: Page, width: int) -> list[str]:
    lines = _wrap(ascii_text(page.text), width)
    if page.bullets:
        lines.append("")
    for bullet in page.bullets:
        lines += _wrap(ascii_text(bullet), width, "  * ", "    ")
    return lines


def _widths(columns: list[Column], rows: tuple[Row, ...], shown: list[int]) -> list[int]:
    """Column widths: the least width, or what the texts need with one blank before them."""
    return [
        max(c.width, 1 + len(c.label), *(1 + len(row.cells[k]) for row in rows))
        for k, c in zip(shown, columns, strict=True)
    ]


def _block(summary: Summary, shown: list[int], width: int, *, groups: bool) -> list[str]:
    columns = [summary.columns[k] for k in shown]
    labels = [c.label if groups or not c.alone else c.alone for c in columns]
    widths = _widths(columns, summary.rows, shown)
    widths = [max(w, 1 + len(label)) for w, label in zip(widths, labels, strict=True)]
    names = max(8, width - sum(widths))
    lines = []
    if groups:
        lines.append(_spans(columns, widths, names))
    lines.append(" " * names + "".join(t.rjust(w) for t, w in zip(labels, widths, strict=True)))
    lines.append("-" * width)
    for row in summary.rows:
        cells = "".join(row.cells[k].rjust(w) for k, w in zip(shown, widths, strict=True))
        # The first column is wider than its texts as a rule: a long name may reach into it.
        room = names + len(cells) - len(cells.lstrip()) - 1
        name = ascii_text(row.name)
        if len(name) > room:
            lines.append(name)
            name = ""
        lines.append(name + (" " * names + cells)[len(name) :])
    return lines


def _spans(columns: list[Column], widths: list[int], names: int) -> str:
    """Return the line above the labels, ``------ Std. Error ------`` over a group."""
    line, k = " " * names, 0
    while k < len(columns):
        group = columns[k].group
        j = k
        while j < len(columns) and columns[j].group == group:
            j += 1
        span = sum(widths[k:j])
        line += f" {f' {group} '.center(span - 2, '-')} " if group else " " * span
        k = j
    return line
