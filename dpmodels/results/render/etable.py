"""Renderers of a table of fits."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpmodels.results.render import latex as tex
from dpmodels.results.render.common import signs
from dpmodels.results.render.markdown import escape as md_escape
from dpmodels.results.render.markdown import pipe
from dpmodels.results.render.text import ascii_text
from dpmodels.results.render.typst import content

if TYPE_CHECKING:
    from dpmodels.results.side_by_side import Etable

__all__ = ["RENDERERS"]


def _lines(table: Etable) -> list[tuple[str, tuple[str, ...]]]:
    """Return coefficient lines: the estimate, then its brackets."""
    return [
        line for name, cells, brackets in table.rows for line in ((name, cells), ("", brackets))
    ]


def text(table: Etable) -> str:
    """Return ASCII text."""
    body = [*_lines(table), *table.stats]
    heads = [("", tuple(head)) for head in zip(*table.heads, strict=True)]
    every = [(ascii_text(n), tuple(map(ascii_text, c))) for n, c in (*heads, *body)]
    names = max(16, *(len(name) + 1 for name, _ in every))
    widths = [max(16, *(len(c[k]) + 2 for _, c in every)) for k in range(len(table.heads))]
    right = ["".join(c.rjust(w) for c, w in zip(cs, widths, strict=True)) for _, cs in every]
    lines = [(name.ljust(names) + r).rstrip() for (name, _), r in zip(every, right, strict=True)]
    total = names + sum(widths)
    at = 2 + 2 * len(table.rows)
    rule = ["-" * total]
    notes = [
        line
        for note in table.notes
        for line in textwrap.wrap(ascii_text(note), max(total, 76), break_on_hyphens=False)
    ]
    return "\n".join(lines[:2] + rule + lines[2:at] + rule + lines[at:] + rule + notes)


def md(table: Etable) -> str:
    """Return a markdown pipe table and its notes."""
    rows = [[name, *cells] for name, cells in _lines(table)]
    rows += [[name, *map(signs, cells)] for name, cells in table.stats]
    heads = ["", *(f"{number} {response}" for number, response in table.heads)]
    notes = "\n\n".join(f"*{md_escape(note)}*" for note in table.notes)
    return f"{pipe(rows, heads)}\n\n{notes}"


def html_(table: Etable) -> str:
    """Return an HTML table, every string escaped."""
    right = "padding:0.1em 0.6em;text-align:right;border:0"
    left = "padding:0.1em 0.6em;text-align:left;border:0"

    def row(name: str, cells: tuple[str, ...], tag: str = "td", scope: str = "") -> str:
        inside = "".join(
            f'<{tag}{scope} style="{right}">{html.escape(signs(c))}</{tag}>' for c in cells
        )
        return f'<tr><th scope="row" style="{left}">{html.escape(name)}</th>{inside}</tr>'

    scope = ' scope="col"'
    heads = [row("", tuple(h), "th", scope) for h in zip(*table.heads, strict=True)]
    body = [row(*line) for line in (*_lines(table), *table.stats)]
    caption = html.escape(" ".join(table.notes))
    return "\n".join(
        [
            '<table class="dpmodels" style="border-collapse:collapse">',
            f'<caption style="caption-side:bottom">{caption}</caption>',
            "<thead>",
            *heads,
            "</thead>",
            "<tbody>",
            *body,
            "</tbody>",
            "</table>",
        ]
    )


def latex(table: Etable) -> str:
    """Return LaTeX for booktabs and threeparttable."""

    def row(name: str, cells: tuple[str, ...]) -> str:
        return f"{tex.escape(name)} & {' & '.join(tex.number(signs(c)) for c in cells)} \\\\"

    return "\n".join(
        [
            "% needs \\usepackage{booktabs,threeparttable}",
            r"\begin{threeparttable}",
            rf"\begin{{tabular}}{{l{'r' * len(table.heads)}}}",
            r"\toprule",
            *(row("", tuple(head)) for head in zip(*table.heads, strict=True)),
            r"\midrule",
            *(row(*line) for line in _lines(table)),
            r"\midrule",
            *(row(*line) for line in table.stats),
            r"\bottomrule",
            r"\end{tabular}",
            r"\begin{tablenotes}\footnotesize",
            *(rf"\item {tex.escape(note)}" for note in table.notes),
            r"\end{tablenotes}",
            r"\end{threeparttable}",
        ]
    )


def typst(table: Etable) -> str:
    """Return a typst table and its notes."""

    def row(name: str, cells: tuple[str, ...]) -> str:
        return "  " + ", ".join(content(signs(c)) for c in (name, *cells)) + ","

    heads = [row("", tuple(head)) for head in zip(*table.heads, strict=True)]
    return "\n".join(
        [
            "#table(",
            f"  columns: {len(table.heads) + 1}, stroke: none,",
            "  align: (x, y) => if x == 0 { left } else { right },",
            "  table.hline(),",
            *heads,
            "  table.hline(),",
            *(row(*line) for line in _lines(table)),
            "  table.hline(),",
            *(row(*line) for line in table.stats),
            "  table.hline(),",
            ")",
            *(f"#emph{content(note)}" for note in table.notes),
        ]
    )


RENDERERS: dict[str, Callable[[Etable], str]] = {
    "text": text,
    "md": md,
    "html": html_,
    "tex": latex,
    "typst": typst,
}
