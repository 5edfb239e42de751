"""One table, five renderers: names, spans, rules, prose, foreign signs."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import dpmodels.tables
from dpmodels.errors import RequestError
from dpmodels.tables.content import RULE, Column, Layout, Page, Row
from dpmodels.tables.table import Table, plain

TABLE = Table(
    title="Of two things",
    facts=(("Reply", "NO REPLY"), ("", "alone")),
    columns=(Column("name", left=True), Column("x", "both"), Column("y", "both")),
    rows=(Row(("a", "-1", "2")), RULE, Row(("total", "3"), span=True)),
    notes=("first\nand on", "second"),
    statement="said of all",
)


def test_text():
    assert str(TABLE).splitlines() == [
        "Of two things",
        "=" * 88,
        "Reply: NO REPLY",
        "alone",
        "-" * 88,
        "      both",
        "name   x  y",
        "-" * 88,
        "a     -1  2",
        "-" * 88,
        "total 3",
        "=" * 88,
        "* first",
        "and on",
        "* second",
    ]


def test_rules_spans_and_groups_of_every_format():
    html, tex = TABLE.as_html(), TABLE.as_latex()
    md = TABLE.as_markdown()
    assert '<th scope="row" colspan="2"' in html and '<td colspan="1"' in html
    assert r"\multicolumn{2}{l}{total} & \multicolumn{1}{r}{3} \\" in tex
    assert tex.count(r"\midrule") == 2 and r"\cmidrule(lr){2-3}" in tex and "$-$1" in tex
    assert re.search(r"\| total +\| +\| +3 \|", md) and "both (x)" in md


@pytest.mark.parametrize("fmt", ["md", "html", "tex"])
def test_facts_notes_and_statement_stand_in_every_rich_format(fmt):
    text = TABLE.render(fmt)
    for words in ("Of two things", "alone", "first and on", "second", "said of all"):
        assert words in text, words
    assert ("bot" if fmt == "tex" else "⊥") in text and "NO REPLY" not in text


def test_the_guarantee_stands_once_in_latex_and_word(tmp_path):
    facts = (("Privacy", "(eps = 1)-DP"), ("Method", "m"))
    table = replace(TABLE, facts=facts, statement="(eps = 1)-DP; unit: one row")
    texts = [table.as_latex()]
    if find_spec("docx"):
        import docx

        table.to_word(tmp_path / "t.docx")
        texts.append("\n".join(p.text for p in docx.Document(str(tmp_path / "t.docx")).paragraphs))
    for text in texts:
        assert text.count("Privacy:") == 1 and "unit: one row" in text and "Method: m" in text
    assert "Privacy" in replace(table, statement="").as_latex()


def test_a_bare_table_has_no_frame_and_keeps_its_notes():
    bare = replace(TABLE, title="", facts=(), statement="")
    assert bare.as_html().startswith("<table") and "<caption" in bare.as_html()
    assert r"\begin{table}" not in bare.as_latex() and r"\item second" in bare.as_latex()
    assert bare.as_markdown().endswith("*second*") and bare.as_markdown().startswith("|")


def test_a_page_stands_in_place_of_a_table():
    page = Table("Title", (("a", "b"),), page=Page("why", ("one", "two")))
    assert str(page).splitlines()[-5:] == ["why", "", "  * one", "  * two", "=" * 88]
    for fmt in ("md", "html", "tex"):
        assert all(word in page.render(fmt) for word in ("Title", "why", "one", "two"))
    assert "tabular}{lp" in page.as_latex()


def test_more_tables_stand_below():
    both = replace(plain(["p", "q"], [("1", "2")]), title="T", more=(plain(["r"], [("3",)]),))
    lines = str(both).splitlines()
    assert lines == ["T", "=" * 88, "p    q", "1    2", "-" * 88, "r", "3", "=" * 88]
    assert both.as_html().count("<table") == 2 and both.as_latex().count(r"\toprule") == 2
    assert both.as_markdown().count("|:-") == 3


def test_prose_wraps_in_text_and_breaks_lines_elsewhere():
    words = Column(left=True, stretch=40, prose=True)
    layout = Layout(width=40, outer="", closed=False, indent=2)
    rows = (Row(("name", "word " * 12 + "\nnext")), Row(("a_very_long_name", "x")))
    table = Table(columns=(Column(left=True, width=8, over=True), words), rows=rows, layout=layout)
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 40 and lines[0].startswith("  name      word word")
    assert lines[1].startswith(" " * 14 + "word") and "            next" in lines
    assert lines[-2:] == ["  a_very_long_name", "            x"]
    assert "<br>next" in table.as_html() and "<br>next" in table.as_markdown()
    assert r"\newline next" in table.as_latex()


def test_no_text_of_a_table_is_read_as_markup():
    bad = "<b>$x_1$ & | [a](b) `c` #d\\"
    table = Table(
        bad, ((bad, bad),), (Column(bad, left=True), Column(bad)),
        (Row((bad, bad)), Row((bad, bad), span=True)), (bad,), statement=bad,
        page=Page(bad, (bad,)),
    )  # fmt: skip
    assert "<b>" not in table.as_html() and table.as_html().count("&lt;b&gt;") == 13
    assert "$x_1$" not in table.as_latex() and table.as_latex().count(r"\$x\_1\$") == 13
    assert "<b>" not in table.as_markdown().replace("\\<b\\>", "")
    assert len(re.findall(r"(?<!\\)\|", table.as_markdown())) == 4 * 3


def test_an_unknown_format_is_refused():
    with pytest.raises(RequestError, match="Did you mean 'html'"):
        TABLE.render("htm")


def test_the_ground_floor_imports_only_errors():
    for path in Path(dpmodels.tables.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("dpmodels"):
                assert node.module.startswith(("dpmodels.tables", "dpmodels.errors")), path
