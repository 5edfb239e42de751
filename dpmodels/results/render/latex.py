"""LaTeX for the packages booktabs and threeparttable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpmodels.results.render.common import columns_of, facts_of, groups_of

if TYPE_CHECKING:
    from dpmodels.results.summary import Page, Summary

__all__ = ["escape", "number", "render"]

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
}


def escape(text: str) -> str:
    """Return text with every character that LaTeX reads specially replaced."""
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def number(text: str) -> str:
    """Return a cell: a leading minus becomes a minus sign."""
    return "$-$" + escape(text[1:]) if text[:1] == "-" and text[1:2].isdigit() else escape(text)


def render(summary: Summary) -> str:
    """Return a ``table`` with the coefficient table, its privacy statement and its notes."""
    lines = [
        "% needs \\usepackage{booktabs,threeparttable}",
        r"\begin{table}",
        r"\centering",
        r"\begin{threeparttable}",
        rf"\caption{{{escape(summary.title)}}}",
    ]
    lines += _table(summary) if summary.rows else _facts(summary)
    lines += [r"\begin{tablenotes}\footnotesize"]
    if summary.rows:
        facts = "; ".join(f"{escape(a)}: {escape(b)}" for a, b in facts_of(summary))
        lines.append(rf"\item {facts}.")
    lines.append(rf"\item Privacy: {escape(summary.statement)}.")
    if summary.page is not None:
        lines += _page(summary.page)
    lines += [rf"\item [{k}] {escape(note)}" for k, note in enumerate(summary.notes, 1)]
    lines += [r"\end{tablenotes}", r"\end{threeparttable}", r"\end{table}"]
    return "\n".join(lines)


def _page(page: Page) -> list[str]:
    return [rf"\item {escape(text)}" for text in (page.text, *page.bullets)]


def _facts(summary: Summary) -> list[str]:
    rows = [rf"{escape(label)} & {escape(value)} \\" for label, value in facts_of(summary)]
    start = [r"\begin{tabular}{lp{0.6\textwidth}}", r"\toprule"]
    return [*start, *rows, r"\bottomrule", r"\end{tabular}"]


def _table(summary: Summary) -> list[str]:
    shown = columns_of(summary)
    columns = [summary.columns[k] for k in shown]
    heads, rules, at = [], [], 2
    for group, span in groups_of(columns):
        spanned = rf"\multicolumn{{{span}}}{{c}}{{{escape(group)}}}"
        heads.append(spanned if group else "& " * (span - 1))
        if group:
            rules.append(rf"\cmidrule(lr){{{at}-{at + span - 1}}}")
        at += span
    return [
        rf"\begin{{tabular}}{{l{'r' * len(shown)}}}",
        r"\toprule",
        f"& {' & '.join(head.strip() for head in heads)} \\\\",
        "".join(rules),
        f"& {' & '.join(escape(c.label) for c in columns)} \\\\",
        r"\midrule",
        *(
            f"{escape(row.name)} & {' & '.join(number(row.cells[k]) for k in shown)} \\\\"
            for row in summary.rows
        ),
        r"\bottomrule",
        r"\end{tabular}",
    ]
