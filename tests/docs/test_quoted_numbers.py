"""Numbers that README and guides quote are those of the kept results, of rules.py and of the code."""

import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

import dpmodels as dp
from dpmodels.models.survival import cox, table
from dpmodels.scoring import rules

ROOT = Path(__file__).resolve().parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
GUIDE = " ".join((ROOT / "docs/guides/intervals.md").read_text(encoding="utf-8").split())

#: First words of a row of the README's table -> group of ``benchmarks/real_models.py``.
GROUPS = {
    "least squares": "wide", "logit and Poisson": "factors", "rare events": "rare",
    "skewed responses": "skew", "quantiles and Huber": "robust",
}  # fmt: skip


def rounded(text, places):
    """Return a number as the README writes it: rounded half up, without a zero before the point."""
    value = Decimal(text).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return str(value).removeprefix("0")


def held_out():
    """Return (rows by (group, n, eps), numbers of coefficients by group) of the kept results."""
    text = (ROOT / "benchmarks/results/real_models.md").read_text(encoding="utf-8")
    over, designs = text.split("## aside: over designs")[1].split("## aside: designs")
    designs = designs.split("\n## ")[0]
    by_group, sizes = {}, {}
    for line in over.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 13 and cells[1].isdigit():
            by_group[cells[0], int(cells[1]), cells[2]] = cells
    for line in designs.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 14 and cells[2].isdigit():
            sizes.setdefault(cells[0], set()).add(int(cells[2]))
    return by_group, sizes


def table_of_readme():
    """Yield (group, rows, eps, cells) of the table of the README, without bold type."""
    label = ""
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("*", "") for cell in line.strip("|").split("|")]
        if len(cells) == 7 and re.fullmatch(r"[\d ]+", cells[1]):
            label = cells[0] or label
            group = next(group for words, group in GROUPS.items() if label.startswith(words))
            yield group, int(cells[1].replace(" ", "")), cells[2], cells


def test_the_table_of_the_readme_is_that_of_the_kept_results():
    by_group, _ = held_out()
    rows = list(table_of_readme())
    assert len(rows) == 11 and {group for group, *_ in rows} == set(GROUPS.values())
    for group, n, eps, cells in rows:
        kept = by_group[group, n, eps]
        mean, worst, _ = (part.strip() for part in kept[4].split("/"))
        expected = [
            f"{rounded(mean, 3)} / {rounded(worst, 2)}", rounded(kept[7], 1),
            rounded(kept[9].split("/")[0].strip(), 1), rounded(kept[10], 2),
        ]  # fmt: skip
        assert cells[3:] == expected, (group, n, eps)


def test_the_rule_of_thumb_and_the_numbers_of_coefficients_are_those_of_the_kept_results():
    by_group, sizes = held_out()
    low, high = min(sizes["wide"]), max(sizes["wide"])
    width = {n: rounded(by_group["wide", n, "1"][7], 1) for n in (10_000, 50_000)}
    assert (
        f"least squares with {low} to {high} coefficients at eps = 1: intervals are "
        f"{width[10_000]} times as wide as without privacy at 10 000 rows, and "
        f"{width[50_000]} times at 50 000." in README
    )
    assert f"| least squares, {low} to {high} coefficients, factors |" in README
    low, high = min(sizes["robust"]), max(sizes["robust"])
    assert f"| quantiles and Huber, {low} to {high} coefficients |" in README


def test_the_limits_of_the_guide_on_intervals_are_those_of_the_rules():
    first, last = rules.ROWS_BEAR
    assert f"this begins at {first:g} times the matrix, and at {last:g} times" in GUIDE
    assert f"errors are multiplied by {rules.STRETCH_MAX:g} and no coefficient is tested" in GUIDE
    first, last = rules.UNITS_BEAR
    assert f"With `unit=` it begins at {first:g} and ends at {last:g}, with a factor of " in GUIDE
    assert f"factor of {rules.STRETCH_MAX_OF_PEOPLE:g} (quantiles and bounded losses: " in GUIDE
    assert "bounded losses: {:g} and {:g})".format(*rules.BOUNDED_BEAR) in GUIDE
    assert f"or with a factor of {rules.MAX_RATIO:g} for a ratio" in GUIDE and rules.KNOWN_EFFECT == 0.5


@pytest.mark.parametrize(
    ("model", "forecast"),
    [
        ("rows", rules.OF_ROWS), ("people (`unit=`) and hazards", rules.OF_UNITS),
        ("linear models of people", rules.OF_LINEAR_UNITS),
        ("quantiles and bounded losses of people", rules.OF_BOUNDED_UNITS),
    ],
)  # fmt: skip
def test_the_forecasts_of_the_guide_are_those_of_the_rules(model, forecast):
    low, high = f"{100 * forecast.low_noise:g}", f"{100 * forecast.high_noise:g}"
    assert f"| {model} | up to {low} % | {low} to {high} % | above {high} % |" in GUIDE


def test_the_default_number_of_intervals_of_time_is_that_of_the_code():
    def text(verb, method):
        return dp.methods(method).query("verb == @verb and option == 'breaks'")["doc"].item()

    assert f"None: {cox.TIME_CELLS}" in text("dp_coxph", "scoring")
    assert f"None: about {table.INTERVALS}" in text("dp_survfit", "table")
    assert f"{cox.TIME_CELLS} equal ones by default" in " ".join(dp.dp_coxph.__doc__.split())
    assert f"about {table.INTERVALS} by default" in " ".join(dp.dp_survfit.__doc__.split())


def test_every_text_on_p_says_the_same():
    """P of README, guide and method.md: one minus the level of the interval that touches zero."""
    method = " ".join((ROOT / "dpmodels/scoring/method.md").read_text(encoding="utf-8").split())
    assert "the interval of level 1 - P touches 0" in README
    assert "The interval of level 1 - P just touches zero" in GUIDE
    assert "the interval of level 1 - P just touches zero" in method
    assert not re.search(r"\bz is the estimate\b|\blevel at which (?:it|the interval)", README + method)
