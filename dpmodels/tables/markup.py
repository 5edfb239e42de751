"""A table in text (88 columns as a rule), Markdown, HTML, LaTeX and Word."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dpmodels.errors import DPModelsError
from dpmodels.tables.content import (
    Column,
    Content,
    Layout,
    Row,
    facts_of,
    grids_of,
    groups_of,
    heads_of,
    indented,
    label_and_value,
    notes_of,
    signs,
    spanned,
)

_NARROWEST = 50
_LABEL = 14  # width of labels if facts are in two columns
_RIGHT = 32  # columns given to the facts on the right
_SPELLED = {"ε": "eps", "δ": "delta", "⊥": "no reply", "²": "^2", "\u2212": "-", "\u00d7": "x"}


def ascii_text(text: str) -> str:
    """Spell out the Greek letters and signs of our own words; names of columns stay as they are."""
    for sign, word in _SPELLED.items():
        text = text.replace(sign, word)
    return text


def render_text(table: Content, width: int | None = None) -> str:
    """Return the table as text; a fluid one at most ``width`` wide where names allow it."""
    layout, most = table.layout, table.layout.width
    if width is None:
        width = shutil.get_terminal_size(fallback=(most, 24)).columns
    wide = not layout.fluid or width >= most
    width = most if wide else max(width, _NARROWEST)
    totals, grids = _grids(table, width, wide)
    if layout.grows:
        width = max(width, *totals)
    page: list[str] = []
    if table.page:
        page = _wrap(ascii_text(table.page.text), width) + [""] * bool(table.page.bullets)
        for bullet in table.page.bullets:
            page += _wrap(ascii_text(bullet), width, "  * ", "    ")
    legend = [line for text in table.legend for line in _wrap(ascii_text(text), width, "", "   ")]
    parts = [_facts_text(table, width, wide), page, *grids, legend]
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
    lines += [layout.heading] if layout.heading and table.notes else []
    for k, note in enumerate(table.notes, 1):
        mark = layout.mark.format(k=k)
        hung = (max(width, layout.notes), mark, " " * len(mark))
        lines += _wrap(ascii_text(note), *hung) if layout.wrap else [mark + note]
    text = "\n".join(line.rstrip() for line in lines)
    return ascii_text(text) if layout.wrap else text


def _grids(table: Content, width: int, wide: bool) -> tuple[list[int], list[list[str]]]:
    """Return widths and lines of the tables, in two blocks of columns where it is narrow."""
    grids = []
    for part in (table, *table.more):
        if part.columns and wide:
            shown = [k for k, c in enumerate(part.columns) if c.wide]
            grids.append(_grid_text(part, table.layout, shown, width, groups=True))
        elif part.columns:
            for block in (0, 1):
                shown = [k for k, c in enumerate(part.columns) if block in c.blocks]
                grids.append(_grid_text(part, table.layout, shown, width, groups=block == 1))
    return [total for total, _ in grids], [lines for _, lines in grids]


def _wrap(text: str, width: int, first: str = "", indent: str = "") -> list[str]:
    """Return a text in lines of a width, at least one."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def _pair(label: str, value: str, pad: int, width: int, layout: Layout) -> list[str]:
    start = (f"{label}: " if label else "").ljust(pad if label else 0)
    return _wrap(ascii_text(value), width, start, " " * pad) if layout.wrap else [start + value]


def _facts_text(table: Content, width: int, wide: bool) -> list[str]:
    """Return the first facts over the full width, then others in two columns."""
    facts, layout = (*table.facts, *table.aside), table.layout
    if not (wide and table.aside):
        pad = layout.label or max((len(label) for label, _ in facts), default=0) + 2
        return [line for fact in facts for line in _pair(*fact, pad, width, layout)]
    first, words = table.facts[: layout.across], table.facts[layout.across :]
    left = [line for fact in words for line in _pair(*fact, _LABEL, width - _RIGHT - 1, layout)]
    right = [f"{label}:{value.rjust(_RIGHT - len(label) - 1)}" for label, value in table.aside]
    both = zip_longest(left, right, fillvalue="")
    start = [line for fact in first for line in _pair(*fact, _LABEL, width, layout)]
    return start + [f"{a:<{width - _RIGHT}}{b}" for a, b in both]


def _grid_text(
    table: Content, layout: Layout, shown: Sequence[int], width: int, *, groups: bool
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
    lines += [indent + _line_text(columns, head, widths, layout.gap) for head in heads]
    lines += [rule] * (bool(heads) and layout.ruled)
    body = iter(cells)
    for row in table.rows:
        if row.span:
            lines.append(layout.span.format(*row.cells))
        elif not row.cells:
            lines.append(rule)
        else:
            lines += [indent + line for line in _row_text(columns, next(body), widths, layout.gap)]
    return total, lines


def _widths(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], layout: Layout, width: int
) -> list[int]:
    """Return the widths that the texts need; a stretching column gets the free room."""
    widths = [
        max(c.width, 0 if c.over or c.prose else max((len(line[k]) for line in lines), default=0))
        for k, c in enumerate(columns)
    ]
    for k, column in enumerate(columns):
        room = width - layout.indent - sum(widths) - layout.gap * (len(widths) - 1)
        widths[k] += max(0, min(column.stretch - widths[k], room))
    return widths


def _line_text(
    columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], gap: int
) -> str:
    """Return one line of a text table."""
    parts = zip(columns, cells, widths, strict=True)
    return (" " * gap).join(t.ljust(w) if c.left else t.rjust(w) for c, t, w in parts)


def _row_text(
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
        return [_line_text(columns, line, widths, gap) for line in lines]
    # The first column is wider than its texts as a rule: a long name may reach into it.
    name = cells[0]
    first, *others = (_line_text(columns, ["", *line[1:]], widths, gap) for line in lines)
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


# -- Markdown: pipe tables by tabulate, notes as a numbered list.


_SPECIAL = "\\`*_{}[]<>|~#$"


def escape_markdown(text: str) -> str:
    """Return text with the signs that markdown reads specially escaped."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in text)


def render_markdown(table: Content) -> str:
    """Return the table as markdown."""
    parts = [f"**{escape_markdown(table.title)}**"] if table.title else []
    facts = [escape_markdown(label_and_value(*fact)) for fact in facts_of(table)]
    parts.append("\n".join(f"- {fact}" for fact in facts))
    if table.page is not None:
        parts.append(escape_markdown(table.page.text))
        parts.append("\n".join(f"- {escape_markdown(bullet)}" for bullet in table.page.bullets))
    parts += [_grid_markdown(columns, rows) for columns, rows in grids_of(table)]
    parts += [f"*{escape_markdown(text)}*" for text in table.legend]
    parts.append(f"*{escape_markdown(table.statement)}*" if table.statement else "")
    if table.title:
        notes = [escape_markdown(note) for note in notes_of(table)]
        parts.append("\n".join(f"{k}. {note}" for k, note in enumerate(notes, 1)))
    else:
        parts += [f"*{escape_markdown(note)}*" for note in notes_of(table)]
    return "\n\n".join(filter(None, parts))


def _grid_markdown(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return the cells of a table in Markdown."""
    from tabulate import tabulate

    return str(
        tabulate(
            [[_cell(text) for text in _texts(row, columns)] for row in rows if row.cells],
            headers=[_label(column) for column in columns],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=["left" if column.left else "right" for column in columns],
        )
    )


def _cell(text: str) -> str:
    return indented(escape_markdown(text).replace("\n", "<br>"), "&nbsp;")


def _label(column: Column) -> str:
    """Return the header of a column, as groups cannot span: ``Std. Error (total)``."""
    label = column.label.replace("\n", " ")
    return escape_markdown(f"{column.group} ({label})" if column.group else label)


def _texts(row: Row, columns: Sequence[Column]) -> Sequence[str]:
    """Return the cells of a row; for a spanning row, label and value at the ends."""
    if not row.span:
        return row.cells
    label, *value = (text for text, _ in spanned(row, len(columns)))
    start = [label] if columns[0].left or len(columns) < 3 else ["", label]
    return [*start, *[""] * (len(columns) - len(start) - len(value)), *value]


# -- Plain HTML: tables and a list, every string escaped, no scripts.


_BARE = "border-collapse:collapse"
_TABLE = f"{_BARE};margin:0.5em 0"
_CELL = "padding:0.1em 0.6em;text-align:right;border:0"
_NAME = "padding:0.1em 0.6em;text-align:left;border:0"
_RULE_STYLE = ";border-bottom:1px solid currentColor"


def render_html(table: Content) -> str:
    """Return the table as HTML."""
    parts = [] if table.title == "" else ['<div class="dpmodels">', *_facts_html(table)]
    if table.page is not None:
        bullets = [f"<li>{escape(bullet)}</li>" for bullet in table.page.bullets]
        parts += [f"<p>{escape(table.page.text)}</p>", "<ul>", *bullets, "</ul>"]
    caption = f"<caption>{escape(table.statement)}</caption>" if table.statement else ""
    if not table.title and table.notes:
        notes = escape(" ".join(notes_of(table)))
        caption = f'<caption style="caption-side:bottom">{notes}</caption>'
    for columns, rows in grids_of(table):
        parts += _grid_html(columns, rows, caption, bare=not table.title)
        caption = ""
    parts += [f'<p style="font-size:smaller">{escape(text)}</p>' for text in table.legend]
    if table.title and table.notes:
        parts.append('<ol class="dpmodels-notes" style="font-size:smaller">')
        parts += [f"<li>{escape(note)}</li>" for note in notes_of(table)]
        parts.append("</ol>")
    return "\n".join(parts + ["</div>"] * bool(table.title))


def _facts_html(table: Content) -> list[str]:
    """Return the facts above a table in HTML."""
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


def _grid_html(
    columns: Sequence[Column], rows: Sequence[Row], caption: str, bare: bool
) -> list[str]:
    """Return the cells of a table in HTML."""
    head = _head(columns, bare)
    return [
        f'<table class="dpmodels" style="{_BARE if bare else _TABLE}">',
        *filter(None, [caption]),
        *(["<thead>", *head, "</thead>"] if head else []),
        "<tbody>",
        *(_row_html(columns, row) for row in rows if row.cells),
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
            f'<th scope="colgroup" colspan="{span}" style="{_CELL};text-align:center{_RULE_STYLE}">'
            f"{escape(group)}</th>"
            if group
            else f'<td colspan="{span}" style="{_CELL}"></td>'
            for group, span in groups_of(columns[1:])
        )
        lines.append(f'<tr><td style="{_NAME}"></td>{groups}</tr>')
    rule = "" if bare else _RULE_STYLE
    for labels in heads_of([c.label for c in columns]):
        corner = f'<th scope="row" style="{_NAME}">' if bare else f'<td style="{_NAME}{rule}">'
        line = "".join(
            f'<th scope="col" style="{_style(c)}{rule}">{escape(signs(label))}</th>'
            for c, label in zip(columns[1:], labels[1:], strict=True)
        )
        lines.append(f"<tr>{corner}{escape(labels[0])}</{corner[1:3]}>{line}</tr>")
    return lines


def _row_html(columns: Sequence[Column], row: Row) -> str:
    """Return one row of a table in HTML."""
    if row.span:
        label, *value = spanned(row, len(columns))
        cells = f'<th scope="row" colspan="{label[1]}" style="{_NAME}">{escape(label[0])}</th>'
        cells += "".join(f'<td colspan="{n}" style="{_CELL}">{escape(v)}</td>' for v, n in value)
        return f"<tr>{cells}</tr>"
    cells = "".join(
        f'<td style="{_style(c)}">{"<br>".join(map(escape, cell.splitlines()))}</td>'
        for c, cell in zip(columns[1:], row.cells[1:], strict=True)
    )
    first = indented(escape(row.cells[0]), "&nbsp;")
    name = f'<th scope="row" style="{_style(columns[0])}">{first}</th>'
    return f"<tr>{name}{cells}</tr>"


# -- LaTeX for the packages booktabs and threeparttable.


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "⊥": r"$\bot$",
    "²": "$^2$",
    "±": r"$\pm$",
}


def escape_latex(text: str) -> str:
    """Return text with every character that LaTeX reads specially replaced."""
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def number(text: str) -> str:
    """Return a cell: a leading minus becomes a minus sign."""
    negative = text[:1] == "-" and text[1:2].isdigit()
    return "$-$" + escape_latex(text[1:]) if negative else escape_latex(text)


def render_latex(table: Content) -> str:
    """Return the table with its facts and notes, in a float where it has a title."""
    bare = not table.title
    grids = [line for grid in grids_of(table) for line in _grid_latex(*grid, bare=bare)][:-1]
    notes = [rf"\item {text}" for text in _notes_latex(table, bool(grids))]
    if notes:
        notes = [r"\begin{tablenotes}\footnotesize", *notes, r"\end{tablenotes}"]
    lines = [r"\begin{threeparttable}"]
    if table.title:
        caption = rf"\caption{{{escape_latex(table.title)}}}"
        lines = [r"\begin{table}", r"\centering", *lines, caption]
    facts = [" & ".join(map(escape_latex, fact)) + r" \\" for fact in facts_of(table)]
    if facts and not grids:
        start = [r"\begin{tabular}{lp{0.6\textwidth}}", r"\toprule"]
        grids = [*start, *facts, r"\bottomrule", r"\end{tabular}"]
    lines += grids + notes + [r"\end{threeparttable}"]
    lines += [r"\end{table}"] * bool(table.title)
    return "\n".join(["% needs \\usepackage{booktabs,threeparttable}", *lines])


def _facts(table: Content) -> list[str]:
    """Return the facts as texts, without that of privacy where the statement has all of it."""
    once = "Privacy" if table.statement else None
    return [label_and_value(*fact) for fact in facts_of(table) if fact[0] != once]


def _notes_latex(table: Content, has_grid: bool) -> list[str]:
    """Return the notes under a table in LaTeX."""
    facts = "; ".join(map(escape_latex, _facts(table)))
    out = [f"{facts}."] if has_grid and facts else []
    out += [f"Privacy: {escape_latex(table.statement)}."] if table.statement else []
    if table.page is not None:
        out += map(escape_latex, (table.page.text, *table.page.bullets))
    out += map(escape_latex, table.legend)
    mark = "[{}] " if table.title else ""
    return out + [mark.format(k) + escape_latex(note) for k, note in enumerate(notes_of(table), 1)]


def _grid_latex(columns: Sequence[Column], rows: Sequence[Row], bare: bool) -> list[str]:
    """Return the cells of a table in LaTeX."""
    kinds = "".join(r"p{0.7\textwidth}" if c.prose else "l" if c.left else "r" for c in columns)
    heads = [_cells(labels) for labels in heads_of([c.label for c in columns])]
    if any(c.group for c in columns):
        heads = [*_groups(columns), *heads]
    if not bare:
        heads = [head.lstrip() for head in heads]
    body = [_row_latex(columns, row) for row in rows]
    return [
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        *heads,
        *([r"\midrule"] if heads else []),
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\medskip",
    ]


def _cells(texts: Sequence[str]) -> str:
    name, *cells = texts
    inside = [r" \newline ".join(map(number, signs(cell).split("\n"))) for cell in cells]
    return " & ".join([indented(escape_latex(name), "~"), *inside]) + r" \\"


def _row_latex(columns: Sequence[Column], row: Row) -> str:
    """Return one row of a table in LaTeX."""
    if not row.cells:
        return r"\midrule"
    if not row.span:
        return _cells(row.cells)
    spans = zip("lr", spanned(row, len(columns)), strict=False)
    cells = [rf"\multicolumn{{{n}}}{{{side}}}{{{escape_latex(text)}}}" for side, (text, n) in spans]
    return " & ".join(cells) + r" \\"


def _groups(columns: Sequence[Column]) -> list[str]:
    """Return the line of group headings in LaTeX, and the rules under it."""
    heads, rules, at = [], [], 2
    for group, span in groups_of(columns[1:]):
        spanning = rf"\multicolumn{{{span}}}{{c}}{{{escape_latex(group)}}}"
        heads.append(spanning if group else "& " * (span - 1))
        if group:
            rules.append(rf"\cmidrule(lr){{{at}-{at + span - 1}}}")
        at += span
    return [f"& {' & '.join(head.strip() for head in heads)} \\\\", "".join(rules)]


# -- Word: a table with plain rules in a .docx file. python-docx is imported when one is made.


_SMALL = 9


def write_word(table: Content, path: Path) -> None:
    """Write the table with its facts and notes."""
    if find_spec("docx") is None:
        raise DPModelsError("a Word file needs python-docx: pip install python-docx")
    import docx

    document = docx.Document()
    if table.title:
        document.add_heading(table.title, level=2)
    for columns, rows in grids_of(table):
        _grid_word(document, columns, rows)
    facts = _facts(table)
    lines = [f"{'; '.join(facts)}."] if facts else []
    lines += [table.page.text, *table.page.bullets] if table.page is not None else []
    lines += [*table.legend, *([f"Privacy: {table.statement}."] if table.statement else [])]
    for text in [*lines, *notes_of(table)]:
        _small(document.add_paragraph(), text)
    document.save(str(path))


def _small(paragraph: Any, text: str, *, bold: bool = False) -> None:
    """Write a text of small type into a paragraph of a Word document."""
    from docx.shared import Pt

    paragraph.paragraph_format.space_after = Pt(0)
    run = paragraph.add_run(text)
    run.font.size, run.bold = Pt(_SMALL), bold


def _grid_word(document: Any, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write the cells of a table into a Word document."""
    heads = heads_of([c.label for c in columns])
    if any(c.group for c in columns):
        heads = [
            [text for group, n in groups_of(columns) for text in [group] + [""] * (n - 1)],
            *heads,
        ]
    table = document.add_table(rows=0, cols=len(columns))
    for line in heads:
        _line_word(table, columns, line, bold=True)
    if heads:
        _rule(table, "bottom")
    for row in rows:
        if not row.cells:
            _rule(table, "bottom")
        elif row.span:
            cells = [""] * len(columns)
            at = 0
            for text, width in spanned(row, len(columns)):
                cells[at], at = text, at + width
            _line_word(table, columns, cells)
        else:
            name = indented(row.cells[0], "\u00a0")
            _line_word(table, columns, (name, *row.cells[1:]))
    if table.rows:
        _rule(table, "top", first=True)
        _rule(table, "bottom")


def _line_word(
    table: Any, columns: Sequence[Column], texts: Sequence[str], *, bold: bool = False
) -> None:
    """Write one line of cells into a Word table."""
    from docx.enum.text import WD_ALIGN_PARAGRAPH

    cells = table.add_row().cells
    for cell, column, text in zip(cells, columns, texts, strict=True):
        paragraph = cell.paragraphs[0]
        _small(paragraph, text, bold=bold)
        if not column.left:
            paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT


def _rule(table: Any, side: str, *, first: bool = False) -> None:
    """Draw a line under the last row so far, or above the first."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    if not table.rows:
        return
    for cell in table.rows[0 if first else -1].cells:
        properties = cell._tc.get_or_add_tcPr()
        borders = properties.find(qn("w:tcBorders"))
        if borders is None:
            borders = OxmlElement("w:tcBorders")
            properties.append(borders)
        line = OxmlElement(f"w:{side}")
        for key, value in (("val", "single"), ("sz", "6"), ("space", "0"), ("color", "000000")):
            line.set(qn(f"w:{key}"), value)
        borders.append(line)
