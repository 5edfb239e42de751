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
    assert lines[:16] == [
        "                        Differentially private linear regression",
        "=" * 88,
        "Formula:      quality ~ alcohol + volatile_acidity + sulphates + pH",
        'Method:       ePTR least squares (method="eptr")        Observations:               1599',
        "Privacy:      (eps = 1, delta = 1e-06)-DP               Coefficients:                  5",
        lines[5],  # the row norm bound is that of the real design
        "Budget:       scale .20 bound .12 coef .60 variance .08 Reply:                  released",
        " " * 56 + "Residual sd:              0.6500",
        "-" * 88,
        "                             ------ Std. Error ------",
        "                    Estimate    total sampling privacy       z    P>|z|   2.5 %   97.5 %",
        "-" * 88,
        "Intercept             2.6130   0.2594   0.2310  0.1180   10.07  < 1e-16  2.1046   3.1214",
        "alcohol               0.3412   0.0204   0.0164  0.0121   16.74  < 1e-16  0.3013   0.3811",
        "volatile_acidity     -1.2380   0.1171   0.0973  0.0652  -10.57  < 1e-16 -1.4676  -1.0084",
        "sulphates             0.6410   0.1339   0.1003  0.0887    4.79 1.69e-06  0.3786   0.9034",
    ]
    assert lines[5].startswith("Neighbours:   replace one row; n is public              Row norm")
    assert all(len(line) <= 88 for line in lines)
