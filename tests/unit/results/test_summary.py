"""Summaries: what is said, in ASCII, escaped, and never a private number."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpmodels.errors import RequestError


def test_text_is_ascii_and_other_formats_have_signs(make_fit):
    for kwargs in ({}, {"reply": False}, {"inference": False}, {"bought": ("alcohol",)}):
        summary = make_fit(**kwargs).summary()
        assert summary.as_text().isascii() and summary.as_text(60).isascii()
        assert "ε" in summary.as_html() and r"$\varepsilon$" in summary.as_latex()
    assert "⊥" in make_fit(reply=False).summary().as_html()
    assert r"$\bot$" in make_fit(reply=False).summary().as_latex()


def test_not_private_stands_in_the_header_of_every_format(make_fit):
    fit = make_fit(seeded=True)
    for fmt in ("text", "html", "tex", "md"):
        assert "NOT PRIVATE: the noise was seeded" in str(fit.summary(fmt)), fmt
        assert "1e-06)-DP" not in str(fit.summary(fmt)), fmt


def test_bought_ranges_are_printed(make_fit):
    text = " ".join(str(make_fit(bought=("alcohol", "pH")).summary()).split())
    assert "alcohol [8, 14], pH [2.75, 3.75]" in text
    assert "Declaring known ranges (bounds= or schema=) costs no budget." in " ".join(
        make_fit(bought=("alcohol", "pH")).notes
    )
    page = str(make_fit(bought=("alcohol", "pH"), reply=False, why="ranges").summary())
    assert "[8, 14]" not in page and "bounds={" in page


def test_a_no_reply_shows_no_table_unless_it_has_the_fixed_reply(make_fit):
    fit = make_fit(reply=False)
    assert "Estimate" not in str(fit.summary()) and "nan;" in str(fit.summary())
    fixed = make_fit(reply=False, estimate={"params": np.full(5, 5.0)})
    text = str(fixed.summary())
    assert "does not depend on the data" in text and "5.0000" in text and "Notes" not in text


def test_notes_of_the_method_and_its_warnings_are_shown(make_fit):
    fit = make_fit(estimate={"notes": ("Shrunk by a ridge.",), "warnings": ("noisy",)})
    assert "Warning: noisy" in str(fit.summary())
    text = str(fit.summary(full=True))
    assert "Shrunk by a ridge." in text and "Warning: noisy" in text
    assert fit.notes.records[0].code == "fit.warning"
    assert "Notes" not in str(fit.summary(notes=False))
    page = str(make_fit(reply=False, estimate={"notes": ("Declare the ranges.",)}).summary())
    assert "Declare the ranges." in page


def test_hostile_names_are_escaped(parts):
    from dataclasses import replace

    from dpmodels.results import Fit

    plan, release, estimate = parts()
    bad = "<script>alert('x')</script> & $x_1$ | [a](b) `c` #d"
    names = (bad, *estimate.names[1:])
    plan = replace(plan, request=replace(plan.request, formula=bad))
    summary = Fit(plan, release, replace(estimate, names=names)).summary()
    assert "<script" not in summary.as_html() and "&lt;script&gt;" in summary.as_html()
    assert r"\& \$x\_1\$ $|$" in summary.as_latex()
    row = next(
        line for line in summary.as_markdown().splitlines() if line.startswith("| \\<script")
    )
    assert len(re.findall(r"(?<!\\)\|", row)) == 9


def test_long_names_get_a_line_of_their_own(parts):
    from dataclasses import replace

    from dpmodels.results import Fit

    plan, release, estimate = parts()
    long = "volatile_acidity:sulphates:residual_sugar"
    fit = Fit(plan, release, replace(estimate, names=(long, *estimate.names[1:])))
    lines = fit.summary().as_text(88).splitlines()
    at = lines.index(long)
    assert lines[at + 1].strip().startswith("2.613") and max(map(len, lines)) <= 88


def test_numbers_of_any_size_fit(make_fit):
    scale = np.array([1e9, 1e5, 1e-9, 1e-4, 12345.678])
    fit = make_fit(estimate={"params": scale, "vcov_sampling": np.diag(scale**2)})
    text = fit.summary().as_text(88)
    assert "1.00e+09" in text and "0.0000" in text and "100000" in text
    body = text.splitlines()[9:14]
    assert len({len(line) for line in body}) == 1


@pytest.mark.parametrize(
    ("x", "decimals", "text"),
    [
        (0.0, 4, "0.0000"), (-0.00001, 4, "-1.00e-05"), (2.613, 4, "2.6130"), (float("nan"), 4, "n/a"),
        (float("-inf"), 3, "-inf"), (123456.7, 4, "123456.7"), (-10.574, 2, "-10.57"), (0.0012, 4, "0.0012"),
        (-0.004, 2, "0.00"), (5e-17, 4, "5.00e-17"), (0.004, 3, "0.004"),
    ],
)  # fmt: skip
def test_number(x, decimals, text):
    from dpmodels.tables.numbers import number

    assert number(x, decimals) == text


def test_intervals_have_as_many_digits_as_estimates(make_fit):
    fit = make_fit()
    line = next(s for s in fit.summary().as_text(88).splitlines() if s.startswith("pH"))
    words = line.split()
    assert {len(w.partition(".")[2]) for w in (*words[1:3], *words[-3:-1])} == {3}


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "< 1e-16"),
        (1.69e-6, "1.69e-06"),
        (0.1098, "0.1098"),
        (1.0, "1.0000"),
        (float("nan"), "n/a"),
    ],
)
def test_p_value(p, text):
    from dpmodels.results.inference import p_value

    assert p_value(p) == text


def test_formats(fit):
    summary = fit.summary("md")
    assert str(summary) == summary.as_markdown()
    assert summary._repr_html_() == fit._repr_html_() == fit.summary().as_html()
    assert fit._repr_latex_() == fit.summary().as_latex()
    with pytest.raises(RequestError, match="Did you mean 'html'"):
        fit.summary("htm")


def test_level_changes_the_columns(fit):
    text = str(fit.summary(level=0.9))
    assert "5 %" in text and "95 %" in text and "97.5 %" not in text


def test_t_reference_is_said(make_fit):
    text = str(make_fit(estimate={"use_t": 12.0}).summary(full=True))
    assert "P>|t|" in text and "t (12 degrees of freedom) distribution" in " ".join(text.split())


def test_names_keep_their_letters():
    from dpmodels.tables.markup import ascii_text

    assert ascii_text("gr\u00f6\u00dfe \u03b5 \u00b2") == "gr\u00f6\u00dfe eps ^2"


def test_no_word_of_errors_where_there_are_none(make_fit):
    nothing = np.full((5, 5), np.nan)
    fit = make_fit(estimate={"vcov_sampling": nothing, "vcov_privacy": nothing})
    text = " ".join(str(fit.summary()).split())
    assert "No coefficient of this fit has a standard error" in text
    assert "Standard error^2" not in text and "distribution" not in text
    assert "dp.plan() shows" not in text


def test_the_plan_is_named_only_where_it_knows(make_fit):
    assert any("dp.plan() shows" in note for note in make_fit().notes)
    assert not any("dp.plan() shows" in note for note in make_fit(bought=("pH",)).notes)
