"""Tables of several fits, and what they promise together."""

from __future__ import annotations

import math

import pytest

from dpmodels.errors import RequestError
from dpmodels.privacy.composition import eps_of_parts
from dpmodels.results import etable, modelsummary
from dpmodels.results.side_by_side import joint_line


def test_the_last_line_is_the_sum_and_the_exact_with_its_condition(make_fit):
    fits = [make_fit(), make_fit(eps=0.5, delta=1e-7), make_fit(reply=False)]
    line = joint_line(fits)
    steps = [s for fit in fits for s in fit.privacy.steps]
    exact = eps_of_parts(steps, 2.1e-6)
    assert "(ε = 2.5, δ = 2.1e-06)-DP (sums)" in line
    assert "if all were declared before the first ran" in line
    shown = float(line.split("; (ε = ")[1].split(",")[0])
    assert exact <= shown <= exact + 1.1e-4 and exact < 2.5
    assert str(etable(fits)).splitlines()[-1].endswith(".")


def test_one_fit_shown_twice_is_counted_once(fit):
    assert "(ε = 1, δ = 1e-06)-DP" in joint_line([fit, fit])
    assert "add up" not in joint_line([fit, fit])


def test_seeded_fits_and_mixed_relations_get_no_sum(make_fit, parts):
    from dataclasses import replace

    from dpmodels.results import Fit

    assert joint_line([make_fit(), make_fit(seeded=True)]) == (
        "NOT PRIVATE: the noise of fit 2 was seeded."
    )
    plan, release, estimate = parts()
    other = replace(release, guarantee=replace(release.guarantee, relation="add-remove"))
    assert "no single statement" in joint_line([make_fit(), Fit(plan, other, estimate)])


def test_cells(make_fit):
    frame = etable([make_fit(), make_fit(reply=False)], "df", se="split", digits=2)
    assert frame.loc["alcohol"].iloc[0] == "0.34" and frame.loc["alcohol"].iloc[1] == "n/a"
    assert "(0.02|0.01)" in frame.iloc[:, 0].tolist()
    assert frame.attrs["notes"][-1].startswith("Fits on the same data")
    total = etable(make_fit(), "df", digits=4)
    assert f"({math.hypot(0.0164, 0.0121):.4f})" in total.iloc[:, 0].tolist()


def test_stats_can_be_chosen(fit):
    frame = etable([fit], "df", stats=["nobs", "sigma", "method", "df", "level", "r_squared"])
    assert frame.iloc[-6:, 0].tolist() == ["1599", "0.650", "eptr", "5", "0.95", "n/a"]
    with pytest.raises(RequestError, match=r"Did you mean 'sigma'"):
        etable([fit], stats=["sigme"])


def test_bad_arguments(fit):
    assert modelsummary is etable
    for call in (
        lambda: etable([]),
        lambda: etable([fit], "pdf"),
        lambda: etable([fit], se="robust"),
        lambda: etable([fit, 3]),
    ):
        with pytest.raises(RequestError):
            call()


def test_other_names_of_types_and_fits_without_a_list(make_fit):
    fit = make_fit()
    assert etable(fit, type="latex") == etable(fit, type="tex")
    assert etable(fit, type="markdown") == etable(fit, type="md")
    both = etable([fit, fit], "tex")
    assert etable(fit, fit, type="tex") == both == etable(fit, fit, "tex")
    assert etable((f for f in (fit, fit)), type="tex") == both
    with pytest.raises(RequestError, match="type once"):
        etable(fit, "md", type="tex")
    with pytest.raises(RequestError, match="at least one fit"):
        etable()
