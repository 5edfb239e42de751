"""Tables of several fits, and what they promise together."""

from __future__ import annotations

import math

import pytest

from dpmodels.errors import RequestError
from dpmodels.privacy.composition import eps_of_curve, parts_of
from dpmodels.results import etable, modelsummary
from dpmodels.results.side_by_side import joint_line


def test_the_last_line_is_the_sum_and_the_exact_with_its_condition(make_fit):
    fits = [make_fit(), make_fit(eps=0.5, delta=1e-7), make_fit(reply=False)]
    line = joint_line(fits)
    steps = [s for fit in fits for s in fit.privacy.steps]
    exact = eps_of_curve(parts_of(steps), 2.1e-6)
    assert "(ε = 2.5, δ = 2.1e-06)-DP (sums)" in line
    assert "if all models were fixed beforehand" in line
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
    assert frame.loc["alcohol"].iloc[0] == "0.341" and frame.loc["alcohol"].iloc[1] == "n/a"
    assert "(0.016|0.012)" in frame.iloc[:, 0].tolist()
    assert frame.attrs["notes"][-1].startswith("Fits on the same data")
    total = etable(make_fit(), "df", digits=4, se="total")
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
    with pytest.raises(RequestError, match="accepts one type"):
        etable(fit, "md", type="tex")
    with pytest.raises(RequestError, match="at least one fit"):
        etable()


def _factor(formula, **more):
    import numpy as np
    import pandas as pd

    import dpmodels as dp

    rng = np.random.default_rng(3)
    d = pd.DataFrame({"g": rng.choice(["a", "b"], 3000), "x": rng.uniform(0, 1, 3000)})
    d["y"] = d["x"] + (d["g"] == "b") + rng.normal(0, 0.5, 3000)
    d["hit"] = (rng.uniform(size=3000) < 1 / (1 + np.exp(1 - d["x"]))).astype(int)
    schema = dp.Schema(g=dp.Levels(["a", "b"]), x=dp.Real(0, 1), y=dp.Real(-2, 4), hit=dp.Binary())
    verb = dp.dp_glm if formula.startswith("hit") else dp.dp_ols
    return verb(formula, d, eps=2, delta=1e-6, schema=schema, seed=1, **more)


@pytest.mark.usefixtures("quiet")
def test_one_row_a_coefficient_whatever_way_the_factor_is_written():
    """C(g)[T.b] and g[T.b] are one variable: each fit has a number in the row."""
    two = [_factor("y ~ x + g"), _factor("y ~ C(g) + x:C(g)"), _factor("y ~ x:g + C(g)")]
    frame = etable(two, "df", labels={"g[T.b]": "group b"})
    assert frame.index.tolist().count("group b") == 1 and "C(g)[T.b]" not in frame.index
    assert "-" not in frame.loc["group b"].tolist()
    crossed = [name for name in frame.index if name.startswith("x:")]
    assert all("-" not in frame.loc[name].tolist()[1:] for name in crossed) and crossed
    only = etable(two, "df", keep="C(g)[T.b]")
    assert only.index[0] == "g[T.b]" and "-" not in only.iloc[0].tolist()
    assert set(etable(two).tidy()["term"]) == {"Intercept", "x", "g[T.b]", *crossed}


def test_headings_are_number_response_and_model_and_what_headers_says(make_fit):
    fits = [make_fit(), make_fit(eps=2.0), make_fit(eps=3.0)]
    assert etable(fits).fits == tuple(f"({k})\nquality\nlinear regression" for k in (1, 2, 3))
    said = etable(fits, headers=["All", "Red", "White"]).fits
    assert [head.split("\n")[0] for head in said] == ["All", "Red", "White"]
    over = etable(fits, headers={"Pooled": 1, "By colour": 2}).fits
    assert [head.split("\n")[0] for head in over] == ["Pooled", "By colour", "By colour"]
    with pytest.raises(RequestError, match=r"one heading per fit: 3 fits, 2 headings"):
        etable(fits, headers=["a", "b"])
    with pytest.raises(RequestError, match=r"must sum to 3"):
        etable(fits, headers={"a": 1, "b": 1})


@pytest.mark.usefixtures("quiet")
def test_ratios_with_intervals_in_tables_frames_and_pictures():
    pytest.importorskip("matplotlib")
    import numpy as np

    import dpmodels as dp

    fit = _factor("hit ~ x + g", event=1)
    table = etable(fit, exponentiate=True, digits=3)
    frame, ratios = table.to_frame(), np.exp(fit.conf_int())
    shown = frame.iloc[:, 0].tolist()
    at = frame.index.tolist().index("x")
    assert float(shown[at]) == pytest.approx(np.exp(fit.params["x"]), abs=0.01)
    low, high = (float(v) for v in shown[at + 1].strip("[]").split(", "))
    assert (low, high) == pytest.approx(tuple(ratios.loc["x"]), abs=0.01)
    assert "intervals in brackets" in str(table)
    tidy = fit.tidy(exponentiate=True).set_index("term")
    assert table.tidy().set_index("term")["conf_high"]["x"] == tidy["conf_high"]["x"]
    ax = dp.coef_plot(fit, exponentiate=True)
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "ratio"
    drawn = ax.collections[0].get_segments()
    ends = sorted(tuple(segment[:, 0]) for segment in drawn)
    assert ends[0] == pytest.approx(
        sorted(map(tuple, ratios.drop("Intercept").to_numpy()))[0], rel=1e-6
    )
    assert "\n" not in ax.get_title() and table.plot().get_xlabel() == "ratio"
    with pytest.raises(RequestError, match="leave se= out"):
        etable(fit, exponentiate=True, se="split")


def test_a_row_shows_two_digits_of_its_error(make_fit):
    import numpy as np

    for scale in (1e-6, 1e-3, 1.0, 300.0, 1e4):
        params = scale * np.array([2.613, 0.0341, -1.238, 641.0, -0.304])
        fit = make_fit(estimate={"params": params, "vcov_sampling": np.diag((params / 50) ** 2)})
        table = etable(fit, "df", stats=[], se="total")
        for error, cell in zip(fit.bse, table.iloc[1::2, 0], strict=True):
            digits = cell.strip("()").partition("e")[0].replace(".", "").strip("0")
            assert len(digits) >= 2 or float(cell.strip("()")) == pytest.approx(error, rel=0.01)
            assert float(cell.strip("()")) == pytest.approx(error, rel=0.05)


def test_people_are_called_people_and_a_reply_is_where_a_test_was(make_fit, quiet):
    import numpy as np
    import pandas as pd

    import dpmodels as dp

    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 2000), "id": np.arange(2000) // 2})
    bounds, call = {"x": (0, 1)}, {"eps": 1, "delta": 1e-6, "seed": 1}
    rows = dp.dp_mean("x ~ 1", data, bounds=bounds, **call)
    people = dp.dp_mean("x ~ 1", data, bounds=bounds, unit="id", **call)
    index = [list(etable(*fits, "df").index) for fits in ((rows,), (people,), (rows, people))]
    assert "Observations" in index[0] and "People" in index[1]
    assert "Observations or people" in index[2] and not any("Reply" in one for one in index)
    assert "Reply" in etable(make_fit(), "df").index  # eptr tests
    assert "95 % intervals in brackets." in etable(rows).notes
