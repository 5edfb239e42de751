"""Numbers in the formulas of method.md are those of rules.py.

A formula is written here with the names of its constants in braces. Where rules.py lacks one of the
names (a rule was removed), the note must have lost the formula too.
"""

import re
from pathlib import Path

import pytest

from dpmodels.scoring import rules

METHOD = (Path(rules.__file__).parent / "method.md").read_text(encoding="utf-8")
FORMULAS = [
    "{CLIP_FACTOR} (mu_s n)^{CLIP_POWER})",
    "R_H^2 = p max({MIN_RADIUS}, {INFORMATION_FACTOR} x^{INFORMATION_POWER})",
    "R_J^2 = p max({MIN_RADIUS}, {MEAT_FACTOR} sqrt(mu_J n/p))",
    "R_H^2 = p max({MIN_NARROW_RADIUS}, min({INFORMATION_FACTOR} x^{INFORMATION_POWER}, "
    "{NARROW_FACTOR} x/sqrt p))",
    "eigenvalues floored at `max({FLOOR_NOISE} nu sqrt(2r), {START_FLOOR})`",
    "Eigenvalues are at least `max({FLOOR_NOISE} nu sqrt(2r), {FLOOR})`, or {FLOOR_SHRUNK} in place",
    "d (1 - {DAMPING} min(1, {DAMPING_STRONG}/(mu n))",
    "Steps before the last are at most {MAX_EARLY_STEP} residual sd long",
    "updates `phi` to `{SCALE_UPDATE} phi` times its ratio",
    "Squared scores are cut at {SCALE_CUT}p",
    "the cut is `max({SCALE_CUT_OF_WEIGHTS} p, ({SCALE_CUT_OVER_CLIP} C)^2)`",
    "an extra pass takes {EXTRA_PASS_SHARE} R",
    "K is {START_RADIUS_MAX};",
    "H is below {MIN_INFORMATION_SDS} nu_e.",
    "Once `{RARE_CLIP} L > {HUMP_PART} C`, passes read all rows",
    "C = min({UNCUT_CLIP} C_rule, {UNCUT_NOISE} sqrt(n)/q)",
    "`min(sigma, sqrt(phi)/{QUANTILE_SCALE})`, at least {MIN_SCALE_FALL} of the last one",
    "moves a public row by more than {MOVED_LINK} link units",
    "C = sqrt p max({MIN_CLUSTER_CLIP}, {CLUSTER_CLIP_FACTOR} (mu n)^{CLIP_POWER})",
    "B = {CLUSTER_NOISE} tau mu n/(4C)",
    "J has a share of {CLUSTER_SHARE_AVERAGED} instead of {CLOSING_SHARE}",
    "its noise may be {CLUSTER_NOISE_AVERAGED} times as large",
    "R_H^2 = r max({MIN_NARROW_RADIUS}, min(max({MIN_RADIUS_OF_UNITS}, {INFORMATION_FACTOR} "
    "x^{INFORMATION_POWER}), {NARROW_FACTOR_OF_UNITS} x/sqrt r))",
    "`k = max({LEAST_INFORMATION_OF_PEOPLE}, mu^2 N/{WEIGHED_UP_TO})`",
    "R_J^2 = m2 max({MIN_RADIUS_OF_UNITS}, {MEAT_FACTOR} sqrt(mu_J N/r))",
    "{CLIP_FACTOR_OF_UNITS} (mu_s N)^{CLIP_POWER}) sqrt(m2/r)",
    "Eigenvalues are floored at {MIN_NARROWED_EIGENVALUE} of the largest",
]


def number(value):
    """Return a constant as the note writes it: .36, 1.5, 4000, 1e-7."""
    text = f"{value:g}".replace("e-0", "e-")
    if value == 1e-4:
        text = "1e-4"
    return text.removeprefix("0") if "." in text else text


def normal(text):
    """Return a text with one blank between words and no zero at the end of a fraction."""
    return re.sub(r"(\.\d*?[1-9])0+(?!\d)", r"\1", " ".join(text.split()))


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_numbers_of_a_formula_are_those_of_the_rules(formula):
    names = re.findall(r"\{(\w+)\}", formula)
    if all(hasattr(rules, name) for name in names):
        filled = re.sub(r"\{(\w+)\}", lambda m: number(getattr(rules, m[1])), formula)
        assert normal(filled) in normal(METHOD)
    else:  # the rule was removed: no formula of this form is left
        pattern = re.sub(r"\\\{\w+\\\}", r"[\\d.e-]+", re.escape(" ".join(formula.split())))
        assert not re.search(pattern, normal(METHOD))


def test_the_check_can_fail():
    assert number(0.36) == ".36" and number(4000.0) == "4000" and number(1e-7) == "1e-7"
    assert normal("share of .20 and  1.50") == "share of .2 and 1.5"
    assert normal(".37 (mu_s n)^.45)") not in normal(METHOD)
