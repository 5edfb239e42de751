"""Tables for papers and readable pictures: great_tables, merged tables, forest and event plots."""

import itertools
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, DPModelsWarning, RequestError
from dpmodels.results import factors
from dpmodels.results.event_study import effects_by_period, periods_of
from dpmodels.tables.pictures import plain_log_axis

pytestmark = pytest.mark.usefixtures("quiet", "wide_pages")
PERIODS = (-2, -1, 0, 1)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    people, years = 500, 4
    n = people * years
    d = pd.DataFrame({
        "id": np.repeat(np.arange(people), years), "year": np.tile(np.arange(2001, 2005), people),
        "x": rng.uniform(-1, 1, n), "g": rng.choice(list("abc"), n), "t": rng.exponential(1, n).clip(0.01, 2),
        "e": rng.integers(0, 2, n), "treated": np.repeat(rng.integers(0, 2, people), years),
    })  # fmt: skip
    d["rel"] = rng.choice(PERIODS, n)
    d["y"] = 0.5 * d.x + 0.3 * (d.rel >= 0) * (d.rel + 1) + rng.normal(0, 0.5, n)
    schema = dp.Schema(
        x=dp.Real(-1, 1, label="Exposure"), y=dp.Real(-4, 5, label="Outcome"),
        g=dp.Levels(["a", "b", "c"], label="Group"), year=dp.Levels([2001, 2002, 2003, 2004]),
        rel=dp.Levels(list(PERIODS)), t=dp.Real(0, 2, label="Years"), e=dp.Binary(),
        treated=dp.Binary(),
    )  # fmt: skip
    call = {"eps": 20.0, "delta": 1e-6, "schema": schema, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return {
            "ols": dp.dp_ols("y ~ x + C(g)", d, **call),
            "small": dp.dp_ols("y ~ x", d, **call),
            "effects": dp.dp_feols("y ~ x + C(rel) | id + year", d, unit="id", **call),
            "with": dp.dp_ols("y ~ x + C(rel) + C(rel):treated", d, **call),
            "counts": dp.dp_table("~ x + g", d, **call),
            "histogram": dp.dp_table("~ x", d, histogram=20, **call),
            "curves": dp.dp_survfit("Surv(t, e) ~ g", d, **call),
            "schema": schema,
        }


# -- great_tables.


def test_every_table_is_one_of_great_tables(made):
    package = pytest.importorskip("great_tables")
    fit, table = made["ols"], dp.etable(made["ols"], made["small"], headers={"Both": 2})
    for one in (fit, fit.summary(), table, fit.emmeans("g"), made["counts"], made["curves"],
                fit.ledger, dp.explain(eps=1), fit.hypotheses(equivalence=(-1, 1))):  # fmt: skip
        assert isinstance(one.as_gt(), package.GT)
    page = fit.as_gt().as_raw_html()
    for text in (
        "Exposure",
        "Group: b",
        f"{fit.params['x']:.4f}",
        "Reference: Group = a",
        "NOT PRIVATE",
    ):
        assert text in page
    assert "Mean (SD)" in made["counts"].as_gt().as_raw_html()


def test_without_great_tables_it_says_what_to_install(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "great_tables", None)
    with pytest.raises(DPModelsError, match=r"dpmodels\[tables\]"):
        made["ols"].as_gt()


def test_groups_of_columns_are_spanners(made):
    pytest.importorskip("great_tables")
    merged = dp.tbl_merge({"Counts": made["counts"], "Model": made["ols"]})
    page = merged.as_gt().as_raw_html()
    assert page.count('class="gt_column_spanner"') == 2 and "Counts" in page and "Model" in page


# -- Tables beside and below each other.


def test_a_table_one_beside_a_regression(made):
    fit, counts = made["ols"], made["counts"]
    merged = dp.tbl_merge({"All": counts, "Model": fit}, title="Table 1")
    rows = {row.cells[0]: row.cells for row in merged.rows}
    assert f"{fit.params['x']:.4f}" in rows["Exposure"] and "(" in rows["Exposure"][1]
    b = rows["  b"]
    assert "%" in b[1] and f"{fit.params['C(g)[T.b]']:.4f}" in b, "one row for a level"
    assert rows["  a"][2] == "" and rows["Intercept"][1] == ""
    assert list(rows).count("Group: b") == 0
    text = str(merged)
    assert (
        text.startswith("Table 1")
        and "All" in text
        and "NOT PRIVATE: the noise of fit 1, 2" in text
    )
    frame = merged.tidy()
    assert len(frame) == len(merged.rows) and frame.shape[1] == len(merged.columns)


def test_one_statement_of_privacy_for_the_whole():
    rng = np.random.default_rng(1)
    d = pd.DataFrame({"x": rng.uniform(0, 1, 800), "y": rng.uniform(0, 1, 800)})
    schema = dp.Schema(x=dp.Real(0, 1), y=dp.Real(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        fits = [dp.dp_ols(f, d, eps=0.5, delta=1e-6, schema=schema) for f in ("y ~ x", "x ~ y")]
    for table in (
        dp.tbl_merge(fits),
        dp.tbl_stack(fits),
        dp.tbl_merge([dp.etable(f) for f in fits]),
    ):
        assert table.notes[-1].startswith(
            "Fits on the same data add up: the table as a whole is (ε = 1, "
        )
        assert sum("DP" in note for note in table.notes) == 1
    same = dp.tbl_merge([fits[0], (fits[0], fits[0].summary(labels=False))])
    assert same.notes[-1].startswith("Privacy of the table: (ε = 0.5")


def test_tables_below_each_other(made, tmp_path):
    stacked = dp.tbl_stack({"Small": made["small"], "Large": made["ols"]})
    names = [row.cells[0] for row in stacked.rows if row.cells]
    assert names == [
        "Small",
        "Intercept",
        "Exposure",
        "Large",
        "Intercept",
        "Exposure",
        "Group: b",
        "Group: c",
    ]
    stacked.save(tmp_path / "s.json")
    assert str(dp.load(tmp_path / "s.json")) == str(stacked)
    for one in (stacked, dp.tbl_merge([made["ols"].emmeans("g"), made["ols"].emmeans("g")])):
        assert one.to_html().startswith("<") and "tabular" in one.to_latex()
    with pytest.raises(RequestError, match="same columns"):
        dp.tbl_stack([made["small"], made["counts"]])


def test_what_is_no_table_of_a_fit_is_refused(made):
    for verb in (dp.tbl_merge, dp.tbl_stack):
        for wrong, says in (
            ([made["ols"]], "at least two"), (made["ols"], "list"), ([made["ols"], 3], "needs fits"),
            ([made["ols"], made["ols"].summary()], "pair"),
        ):  # fmt: skip
            with pytest.raises(RequestError, match=says):
                verb(wrong)
    with pytest.raises(RequestError, match="no picture"):
        dp.tbl_merge([made["ols"], made["small"]]).plot()


# -- Reference levels and fixed effects.


def test_reference_levels_are_named(made):
    assert factors.references(made["ols"]._record) == "g = a"
    assert "Reference:    Group = a" in str(made["ols"].summary())
    assert "Reference" not in str(made["small"].summary())
    assert factors.references(made["with"]._record) == "rel = -2"
    assert "Reference levels: Group = a." in str(dp.etable(made["ols"], made["small"]))
    assert factors.contrasts_of("C(g, Treatment('a'))[T.b:c]:x") == [("g", "b:c")]
    assert factors.contrasts_of("x") == factors.contrasts_of("g[a]") == []


def test_fixed_effects_are_one_line_each(made):
    fit = made["effects"]
    text = str(fit.summary())
    assert "Fixed effects: id: yes, year: yes" in text and "2003" not in text
    assert "Reference:    rel = -2" in text
    assert [n for n in fit.params.index if "year" in n], "they are in params and tidy()"
    assert "C(rel)[T.0]" in text
    table = dp.etable(fit, made["ols"])
    rows = {row.cells[0]: row.cells[1:] for row in table.rows if row.cells}
    assert rows["id"] == rows["year"] == ("yes", "-") and not any("2003" in name for name in rows)
    assert (
        set(table.tidy()["term"]) & {"C(rel)[T.0]"}
        and not table.tidy()["term"].str.contains("2003").any()
    )
    ticks = [t.get_text() for t in fit.plot().get_yticklabels()]
    assert not any("2003" in t for t in ticks) and any("rel" in t for t in ticks)
    assert not any("2003" in t.get_text() for t in dp.coef_plot(fit).get_yticklabels())
    assert factors.fixed_effects(made["ols"]._record) == ()


# -- Event study.


def test_effects_are_against_any_reference(made):
    fit = made["effects"]
    b = {t: fit.params.get(f"C(rel)[T.{t}]", 0.0) for t in PERIODS}
    for ref in PERIODS:
        effects, times = effects_by_period(fit, ref, None, 0.95)
        assert times.tolist() == [t for t in PERIODS if t != ref]
        assert effects.effect == pytest.approx([b[t] - b[ref] for t in times])
    base = effects_by_period(fit, -2, None, 0.95)[0]
    assert base.low == pytest.approx(
        fit.conf_int().loc[["C(rel)[T.-1]", "C(rel)[T.0]", "C(rel)[T.1]"]].iloc[:, 0]
    )


def test_an_interaction_is_an_event_study_too(made):
    fit = made["with"]
    assert {p.other for p in periods_of(fit)} == {"", "treated"}
    with pytest.raises(RequestError, match="which factor"):
        dp.iplot(fit)
    effects, _ = effects_by_period(fit, -1, "rel:treated", 0.95)
    b = fit.params
    name = "C(rel)[{}]:treated"
    assert effects.effect[-1] == pytest.approx(b[name.format(1)] - b[name.format(-1)])


def test_the_picture_of_an_event_study(made):
    pytest.importorskip("matplotlib")
    ax = dp.iplot(made["effects"])
    texts = [t.get_text() for t in ax.get_legend().texts]
    assert {"95 % joint band", "reference: -1", "95 % interval"} <= set(texts)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["-2", "-1", "0", "1"]
    lines = [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
    assert 0.0 in lines and ax.get_ylabel() == "effect on Outcome"
    assert any(set(line.get_xdata()) == {-0.5} for line in ax.lines), "the event"
    band = ax.collections[0].get_paths()[0].vertices
    effects, times = effects_by_period(made["effects"], -1, None, 0.95)
    at = band[band[:, 0] == times[-1]][:, 1]
    assert at.min() < effects.low[-1] and at.max() > effects.high[-1], "the joint band is wider"
    assert len(dp.iplot(made["effects"], joint=False).get_legend().texts) == 2
    for wrong, says in (
        ({"ref": 5}, "not a period"),
        ({"ref": "a"}, "not a period"),
        ({"term": "g"}, "not a factor"),
    ):
        with pytest.raises(RequestError, match=says):
            dp.iplot(made["effects"], **wrong)
    with pytest.raises(RequestError, match="levels are periods"):
        dp.iplot(made["ols"])


# -- Pictures.


def test_a_forest_plot_has_its_numbers(made):
    plt = pytest.importorskip("matplotlib.pyplot")
    fit, small = made["ols"], made["small"]
    ax = dp.coef_plot(fit, table=True)
    low, high = fit.conf_int().loc["x"]
    texts = [t.get_text() for t in ax.texts]
    assert (
        f"{fit.params['x']:.3f} [{low:.3f}, {high:.3f}]" in texts
        and "Estimate [95 % interval]" in texts
    )
    assert len(texts) == 4
    ax.figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts]
    assert all(box.x1 <= ax.figure.bbox.x1 for box in boxes), "nothing is cut"
    both = dp.coef_plot(fit, small, table=True, joint=True, exponentiate=True)
    both.figure.canvas.draw()
    assert [t.get_text() for t in both.get_yticklabels()] == ["Exposure", "Group: b", "Group: c"]
    boxes = [t.get_window_extent() for t in both.texts]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert "Ratio [95 % joint interval]" in [t.get_text() for t in both.texts]
    with pytest.raises(RequestError, match="scale="):
        dp.coef_plot(fit, table=True, scale="standardised")
    with pytest.raises(RequestError, match="new axes"):
        dp.coef_plot(fit, table=True, ax=ax)
    plt.close("all")


def test_a_histogram_is_drawn_at_its_place(made):
    pytest.importorskip("matplotlib")
    ax = made["histogram"].plot()
    bars = ax.patches
    assert len(bars) == 20 and ax.get_xlim() == (-1.0, 1.0) and ax.get_xlabel() == "Exposure"
    assert bars[3].get_x() == pytest.approx(-0.7) and bars[3].get_width() == pytest.approx(0.1)
    counts = made["histogram"].tidy().query("measure == 'n'")["estimate"]
    assert [b.get_height() for b in bars] == pytest.approx(counts.iloc[:20].tolist())


def test_the_axes_of_a_plan_do_not_overlap(made):
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    plan = dp.plan("y ~ x + C(g)", made["schema"], n=4000, eps=1, delta=1e-6)
    axes = plan.plot()
    figure = axes[0].figure
    FigureCanvasAgg(figure).draw()
    for ax in axes:
        for axis in (ax.xaxis, ax.yaxis):
            boxes = [
                t.get_window_extent()
                for t in axis.get_ticklabels()
                if t.get_text() and t.get_visible()
            ]
            assert 2 <= len(boxes) <= 7 or ax is axes[1]
            assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
            assert "10^" not in "".join(t.get_text() for t in axis.get_ticklabels())
    (legend,) = (legend.get_window_extent() for legend in figure.legends)
    assert not legend.overlaps(axes[1].get_window_extent()) and legend.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("low", "high"), [(0.5, 4), (3e-4, 2e-3), (1000, 16000), (0.11, 0.13), (1, 1e9)]
)
def test_a_log_axis_has_plain_numbers(low, high):
    plt = pytest.importorskip("matplotlib.pyplot")
    _, ax = plt.subplots(figsize=(4, 3))
    ax.plot([low, high], [1, 2])
    ax.set_xscale("log")
    plain_log_axis(ax.xaxis, low, high)
    ax.figure.canvas.draw()
    texts = [t for t in ax.get_xticklabels() if t.get_text()]
    assert 2 <= len(texts) <= 6
    boxes = [t.get_window_extent() for t in texts]
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
    plt.close("all")


def test_groups_are_named_at_the_numbers_at_risk(made):
    pytest.importorskip("matplotlib")
    ax = made["curves"].plot()
    texts = [t.get_text() for t in ax.texts]
    assert [t for t in texts if t.startswith("g=")] == ["g=a", "g=b", "g=c"]
    assert ax.get_xlabel().startswith("Years")
    ax.figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert min(box.x0 for box in boxes) >= 0, "nothing is cut"


def test_an_effect_has_the_labels_of_the_schema(made):
    pytest.importorskip("matplotlib")
    ax = made["ols"].plot(term="x")
    assert ax.get_xlabel() == "Exposure" and ax.get_ylabel() == "mean of Outcome"
