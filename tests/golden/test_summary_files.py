"""The printed layouts, character by character, in every format."""

from __future__ import annotations

import numpy as np
import pytest

from dpmodels.results import etable

CASES = {
    "reply": {},
    "no_reply": {"reply": False, "eps": 0.1},
    "no_reply_ranges": {"reply": False, "why": "ranges", "bought": ("alcohol", "pH")},
    "coefficients_only": {"inference": False},
    "seeded": {"seeded": True},
    "bought": {"bought": ("alcohol", "pH")},
}
FORMATS = ("text", "html", "tex", "md")


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_summary(make_fit, golden, case, fmt):
    summary = make_fit(**CASES[case]).summary(fmt)
    text = summary.as_text(88) if fmt == "text" else str(summary)
    golden(f"{case}.{'txt' if fmt == 'text' else fmt}", text)


@pytest.mark.parametrize("case", CASES)
def test_narrow(make_fit, golden, case):
    text = make_fit(**CASES[case]).summary().as_text(70)
    assert max(map(len, text.splitlines())) <= 70
    golden(f"{case}.narrow.txt", text)


@pytest.mark.parametrize("fmt", FORMATS)
def test_all_notes_and_marks(make_fit, golden, fmt):
    untested = np.array([False, False, True, False, False])
    summary = make_fit(estimate={"untested": untested}).summary(fmt, full=True)
    text = summary.as_text(88) if fmt == "text" else str(summary)
    golden(f"marked.{'txt' if fmt == 'text' else fmt}", text)


@pytest.mark.parametrize("fmt", FORMATS)
def test_etable(make_fit, golden, fmt):
    fits = [make_fit(), make_fit(eps=2.0), make_fit(reply=False)]
    golden(f"etable.{'txt' if fmt == 'text' else fmt}", etable(fits, fmt, se="split"))


def test_stars_and_digits(make_fit, golden):
    golden("stars.txt", make_fit().summary(digits=6, stars=True).as_text(88))


def test_the_layout_line_by_line(make_fit):
    """The header and the table of a fit with a reply, as they were designed."""
    lines = make_fit().summary().as_text(88).splitlines()
    assert lines[:12] == [
        "                        Differentially private linear regression",
        "=" * 88,
        "Formula:      quality ~ alcohol + volatile_acidity + sulphates + pH",
        "Privacy:      (eps = 1, delta = 1e-06)-DP; neighbours: replace one row; n is public",
        'Method:       ePTR least squares (method="eptr")        Observations:               1599',
        " " * 56 + "Residual sd:              0.6500",
        "-" * 88,
        "                          Estimate Std. Error sampling privacy   2.5 %   97.5 %    P>|z|",
        "-" * 88,
        "Intercept                    2.613      0.259    0.231   0.118   2.105    3.121  < 1e-16",
        "alcohol                     0.3412     0.0204   0.0164  0.0121  0.3013   0.3811  < 1e-16",
        "volatile_acidity            -1.238      0.117    0.097   0.065  -1.468   -1.008  < 1e-16",
    ]
    full = make_fit().summary(full=True).as_text(88).splitlines()
    assert full[:4] == lines[:4]
    assert full[5] == (
        "Split, %:     scale 20, bound 12, coef 60, variance 8   Coefficients:                  5"
    )
    facts = "\n".join(full[4:9])
    assert "Row norm bound:" in facts and "Reply:                  released" in facts
    biased = make_fit(estimate={"bias": np.array([0.1, 0.01, 0.05, 0.05, 0.1])}).summary()
    lines += biased.as_text(88).splitlines()
    said = biased.as_text(88)
    assert " privacy Bias <= " in said and "estimate +- c SE" in said
    assert all(len(line) <= 88 for line in lines)
