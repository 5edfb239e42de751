"""Joint intervals, adjusted P values, equivalence tests and sentences of one fit."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, RequestError
from dpmodels.records import Estimate
from dpmodels.results import inference, joint
from tests.unit.results.test_kinds import CALL, table

pytestmark = pytest.mark.usefixtures("quiet", "wide_pages")


@pytest.fixture(scope="module")
def made():
    d = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return {
            "ols": dp.dp_ols("y ~ x + z + C(g)", d, **CALL),
            "logit": dp.dp_glm("e ~ x + z", d, family="binomial", **CALL),
            "cox": dp.dp_coxph("Surv(z, e) ~ x + g", d, **CALL),
            "curves": dp.dp_survfit("Surv(z, e) ~ g", d, **CALL),
            "choice": dp.dp_multinom("g ~ x + z", d, **CALL),
            "table": dp.dp_table("y ~ g", d, **CALL),
            "test": dp.dp_test("y ~ g", d, **CALL),
            "other test": dp.dp_test("x ~ g", d, **CALL),
            "mean": dp.dp_mean("x + z ~ 1", d, **CALL),
        }


def changed(fit, **values):
    """Return the same fit with other released numbers."""
    record = fit._record
    return dp.results.Fit._of(replace(record, estimate=replace(record.estimate, **values)))


# -- The quantile.


@pytest.mark.parametrize("k", [1, 2, 5, 8, 30])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_quantile_of_independent_normals_is_that_of_the_closed_form(k, level):
    """``P(max |Z_j| <= q) = (2 Phi(q) - 1)^k``, for any lengths of the rows."""
    factor = np.diag(np.linspace(0.1, 7.0, k))
    exact = stats.norm.ppf(0.5 + level ** (1.0 / k) / 2.0)
    assert joint.joint_quantile(factor, level) == pytest.approx(exact, abs=2e-3)


def test_the_quantile_of_equal_normals_is_that_of_one():
    rows = np.outer([1.0, -2.0, 3.0], [1.0, 2.0])
    assert joint.joint_quantile(rows, 0.95) == pytest.approx(stats.norm.ppf(0.975), abs=1e-9)


@pytest.mark.parametrize("rho", [0.3, 0.9, -0.6])
def test_the_quantile_of_two_normals_is_that_of_their_rectangle(rho):
    cov = np.array([[1.0, rho], [rho, 1.0]])
    q = joint.joint_quantile(joint.factor_of(cov), 0.95)
    inside = stats.multivariate_normal(cov=cov).cdf([q, q], lower_limit=[-q, -q])
    assert inside == pytest.approx(0.95, abs=5e-4)


def test_the_quantile_of_all_contrasts_of_means_is_tukeys():
    L = np.array(
        [[1, -1, 0, 0], [1, 0, -1, 0], [1, 0, 0, -1], [0, 1, -1, 0], [0, 1, 0, -1], [0, 0, 1, -1]]
    )
    exact = stats.studentized_range.ppf(0.95, 4, math.inf) / math.sqrt(2)
    assert joint.joint_quantile(L.astype(float), 0.95) == pytest.approx(exact, abs=3e-3)
    by_t = stats.studentized_range.ppf(0.95, 4, 12) / math.sqrt(2)
    assert joint.joint_quantile(L.astype(float), 0.95, 12.0) == pytest.approx(by_t, abs=5e-3)


def test_the_same_fit_has_the_same_quantile():
    factor = np.random.default_rng(1).normal(size=(9, 6))
    assert joint.joint_quantile(factor, 0.95) == joint.joint_quantile(factor, 0.95)


def test_thousands_of_intervals_are_bounded_and_not_computed():
    factor = np.random.default_rng(1).normal(size=(20_000, 3))
    exact = math.sqrt(stats.chi2.ppf(0.95, 3))
    assert joint.joint_quantile(factor, 0.95) == pytest.approx(exact, abs=1e-9)


# -- Widths.


def _estimate(bias=None, seed=3, p=6, use_t=None):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p))
    names = tuple(f"x{j}" for j in range(p))
    return Estimate(names, rng.normal(size=p), A @ A.T / 9, np.eye(p) * 0.01,
                    bias=bias, use_t=use_t)  # fmt: skip


@pytest.mark.parametrize("use_t", [None, 9.0])
@pytest.mark.parametrize("size", [0.0, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("seed", range(5))
def test_joint_intervals_are_never_narrower(use_t, size, seed):
    """Each of the two ways is at least the plain interval, whatever the bounds of the bias."""
    bias = np.abs(np.random.default_rng(seed).normal(size=6)) * size if size else None
    est = _estimate(bias, seed, use_t=use_t)
    low, high = inference.conf_int(est, 0.95)
    lower, upper, note = joint.conf_int(est, 0.95)
    assert (lower <= low + 1e-12).all() and (upper >= high - 1e-12).all()
    assert "The 6 intervals hold together with probability 95 %" in note


def test_the_way_with_the_smaller_sum_of_widths_is_used():
    plain, biased = _estimate(), _estimate(np.full(6, 2.0))
    assert "SE" in joint.conf_int(plain, 0.95)[2]
    assert "Bonferroni" in joint.conf_int(biased, 0.95)[2]
    se, V = inference.standard_errors(biased), inference.covariance(biased)
    q = joint.joint_quantile(joint.factor_of(V), 0.95)
    split = inference.half_width(se, biased.bias, 1 - 0.05 / 6)
    low, high, _ = joint.conf_int(biased, 0.95)
    assert (high - low).sum() / 2 == pytest.approx(min(split.sum(), (biased.bias + q * se).sum()))


def test_one_interval_is_the_plain_one(made):
    fit = made["ols"]
    one, plain = fit.contrast({"x": 1.0}, joint=True), fit.contrast({"x": 1.0})
    assert one.low == pytest.approx(plain.low) and one.high == pytest.approx(plain.high)
    assert "plain" in one.joint


def test_coefficients_that_are_not_tested_are_not_claimed(made):
    """They count towards k, so that leaving them out is no choice by the data."""
    fit = made["ols"]
    gone = changed(fit, untested=np.array([False, False, True, False, False]))
    note = gone.conf_int(joint=True).attrs["joint"]
    assert "The 4 intervals hold together" in note and "(n/d): z" in note
    pd.testing.assert_frame_equal(gone.conf_int(joint=True), fit.conf_int(joint=True))
    V = np.array(fit._record.estimate.vcov_sampling)
    V[4, :] = V[:, 4] = np.nan
    lost = changed(fit, vcov_sampling=V).conf_int(joint=True)
    assert lost.iloc[4].isna().all() and lost.iloc[:4].notna().all(axis=None)
    assert "The 4 intervals" in lost.attrs["joint"]


def test_without_errors_there_is_no_joint_interval(made):
    bare = changed(made["ols"], vcov_sampling=None).conf_int(joint=True)
    assert bare.isna().all(axis=None) and bare.attrs["joint"].startswith("No interval")


def test_an_open_end_stays_open(made):
    arrays = {**made["ols"]._record.estimate.arrays, "open_ends": np.array([0.0, 1, 0, -1, 0])}
    ends = changed(made["ols"], arrays=arrays).conf_int(joint=True).to_numpy()
    assert ends[1, 1] == math.inf and ends[3, 0] == -math.inf


# -- Where the option is.


def test_tables_of_a_fit_have_joint_intervals(made):
    fit = made["ols"]
    ends = fit.conf_int(joint=True)
    frame = fit.tidy(joint=True)
    assert frame["conf_low"].tolist() == ends.iloc[:, 0].tolist()
    assert frame.attrs["joint"] == ends.attrs["joint"]
    ratios = fit.tidy(joint=True, exponentiate=True)
    assert ratios["conf_high"].to_numpy() == pytest.approx(np.exp(ends.iloc[:, 1]))
    assert "conf_low" not in fit.tidy(False, joint=True)
    text = str(fit.summary(joint=True))
    assert "hold together" in text and f"{ends.iloc[1, 0]:.4f}" in text
    assert "touches 0" not in text, "the rule of plain intervals"
    assert "std.error" in fit.tidy(joint=True, style="r")


def test_means_and_effects_have_joint_intervals(made):
    fit, logit = made["ols"], made["logit"]
    for one, plain in (
        (fit.emmeans("g", joint=True), fit.emmeans("g")),
        (fit.emmeans("g").pairs(joint=True), fit.emmeans("g").pairs("none")),
        (fit.emmeans("pairwise ~ g", joint=True), fit.emmeans("g").pairs("none")),
        (fit.avg_slopes(joint=True), fit.avg_slopes()),
        (fit.avg_comparisons({"x": 1, "z": 2}, joint=True), fit.avg_comparisons({"x": 1, "z": 2})),
        (logit.emmeans("x", at={"x": [0, 1]}, joint=True), logit.emmeans("x", at={"x": [0, 1]})),
        (logit.avg_predictions({"x": [0.0], "z": [1.0]}, variables={"x": [0, 1]}, joint=True),
         logit.avg_predictions({"x": [0.0], "z": [1.0]}, variables={"x": [0, 1]})),
        (fit.contrast({"a": {"x": 1}, "b": {"z": 1}}, joint=True),
         fit.contrast({"a": {"x": 1}, "b": {"z": 1}})),
    ):  # fmt: skip
        assert (one.low < plain.low).all() and (one.high > plain.high).all()
        assert one.effect == pytest.approx(plain.effect)
        np.testing.assert_array_equal(one.pvalue, plain.pvalue)
        assert "hold together" in str(one)
    assert (logit.emmeans("x", at={"x": [0, 1]}, joint=True).high < 1).all()


def test_two_adjustments_of_one_interval_are_refused(made):
    for wrong in (
        lambda: made["ols"].emmeans("g", adjust="holm", joint=True),
        lambda: made["ols"].emmeans("g").pairs("tukey", joint=True),
    ):
        with pytest.raises(RequestError, match="two adjustments"):
            wrong()


def test_means_at_released_means_use_bonferroni(made):
    """What released means add to two rows is correlated in a way that is not known."""
    d = made["logit"].avg_slopes(made["mean"], joint=True)
    assert "Bonferroni" in d.joint


def test_predictions_have_a_joint_band(made):
    new = pd.DataFrame({"x": np.linspace(-1, 1, 9), "z": 1.0, "g": "a"}, index=np.arange(9) + 5)
    for name, what in (("ols", {}), ("logit", {}), ("logit", {"what": "link"}), ("cox", {}),
                       ("cox", {"what": "risk"}), ("choice", {"what": "prob"}),
                       ("cox", {"what": "survival", "times": [0.5, 1.0]})):  # fmt: skip
        plain = made[name].predict(new, interval="confidence", **what)
        band = made[name].predict(new, interval="confidence", joint=True, **what)
        assert list(band.columns) == list(plain.columns) and band.index.equals(plain.index)
        wide = (band["upr"] - band["lwr"]).to_numpy()
        assert (wide >= (plain["upr"] - plain["lwr"]).to_numpy() - 1e-12).all()
        assert wide.sum() > (plain["upr"] - plain["lwr"]).sum()
        assert "hold together" in band.attrs["joint"]
    line = made["logit"].predict(new, interval="confidence", joint=True, what="link")
    mean = made["logit"].predict(new, interval="confidence", joint=True)
    assert mean["upr"].to_numpy() == pytest.approx(1 / (1 + np.exp(-line["upr"])))
    for wrong in ({}, {"interval": "prediction"}):
        with pytest.raises(RequestError, match='interval="confidence"'):
            made["ols"].predict(new, joint=True, **wrong)


def test_a_row_with_a_missing_cell_has_no_interval(made):
    new = pd.DataFrame({"x": [0.0, np.nan, 1.0], "z": 1.0, "g": "a"})
    band = made["ols"].predict(new, interval="confidence", joint=True)
    assert band["lwr"].isna().tolist() == [False, True, False]
    assert "The 2 intervals" in band.attrs["joint"]


def test_curves_have_bands(made):
    """At the level that the largest of all released points has, and no wider than Bonferroni."""
    fit = made["curves"]
    plain, band = fit.conf_int(), fit.conf_int(joint=True)
    each, note = joint.level_of(fit._record, 0.95)
    k = int(plain.iloc[:, 0].notna().sum())
    assert 0.95 < each <= 1 - 0.05 / k and f"all {k} released points" in note
    assert (band.iloc[:, 0] <= plain.iloc[:, 0]).all()
    pd.testing.assert_series_equal(
        band.iloc[:, 1], fit.conf_int(each).iloc[:, 1], check_names=False
    )
    text = str(fit.summary(joint=True))
    assert "joint bands" in text and f"{100 * each:g} % interval" in text
    ax = fit.plot(joint=True)
    assert "95 % joint bands" in ax.get_title()
    assert ax.collections[0].get_paths()[0].get_extents().height > (
        fit.plot().collections[0].get_paths()[0].get_extents().height
    )


def test_other_tables_say_which_level_to_ask_for(made):
    """Their intervals are not estimate -+ multiple of an error: the level is that of the call."""
    fit = made["table"]
    k = int(fit.conf_int().iloc[:, 0].notna().sum())
    with pytest.raises(RequestError, match=rf"level=0.9[0-9]+ in the call: its {k} intervals"):
        fit.conf_int(joint=True)
    for ask in (made["test"].conf_int, made["test"].tidy, made["test"].summary):
        with pytest.raises(RequestError, match="not for results of dp_test"):
            ask(joint=True)


def test_levels_are_rounded_to_wider_intervals():
    for each in (0.99, 0.9984213, 1 - 0.05 / 7, 1 - 1e-7 / 3):
        assert each <= joint._rounded(each) < 1 and 1 - joint._rounded(each) > 0.9 * (1 - each)


def test_pictures_have_joint_intervals(made):
    plt = pytest.importorskip("matplotlib.pyplot")
    fit = made["ols"]
    for draw in (fit.plot, lambda **k: dp.coef_plot(fit, made["logit"], **k)):
        spans = []
        for how in (False, True):
            ax = draw(joint=how)
            spans.append(ax.collections[0].get_segments()[0])
            assert ("joint" in str([t.get_text() for t in ax.figure.findobj(plt.Text)])) is how
            plt.close("all")
        assert spans[1][0, 0] < spans[0][0, 0]
    assert (
        "joint band over 101 points"
        in fit.plot(term="x", joint=True).get_legend().texts[0].get_text()
    )
    fit.plot(groups="terms", joint=True)
    plt.close("all")


# -- P values.


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("BH", "fdr_bh"), ("BY", "fdr_by"), ("holm", "holm"), ("bonferroni", "bonferroni")],
)
def test_adjusted_p_values_are_those_of_statsmodels(ours, theirs):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(5)
    for k in (1, 2, 7, 40):
        p = np.round(rng.beta(0.4, 2.0, k), 3)  # with ties
        expected = multitest.multipletests(p, method=theirs)[1]
        np.testing.assert_allclose(joint.adjusted_p(p, ours), expected, rtol=1e-12)
        gone = np.insert(p, 0, np.nan)
        np.testing.assert_allclose(joint.adjusted_p(gone, ours)[1:], expected, rtol=1e-12)
        assert math.isnan(joint.adjusted_p(gone, ours)[0])


def test_tidy_adjusts_p(made):
    fit = changed(made["ols"], untested=np.array([False, False, False, False, True]))
    plain, frame = fit.tidy(), fit.tidy(adjust="holm")
    expected = joint.adjusted_p(plain["p_value"], "holm")
    np.testing.assert_array_equal(frame["p_value"], expected)
    assert (
        math.isnan(frame["p_value"].iloc[4])
        and frame["p_value"].iloc[2] >= plain["p_value"].iloc[2]
    )
    assert frame.attrs["adjust"] == "P adjusted by Holm for 4 rows; intervals are not."
    pd.testing.assert_frame_equal(frame.drop(columns="p_value"), plain.drop(columns="p_value"))
    with pytest.raises(RequestError, match="BH"):
        fit.tidy(adjust="fdr")
    with pytest.raises(RequestError, match="needs P"):
        made["table"].tidy(adjust="BH")
    test = made["test"].tidy(adjust="BH")
    assert test["p_value"].tolist() == made["test"].tidy()["p_value"].tolist()


def test_a_table_of_fits_adjusts_p(made):
    fit, logit = made["ols"], made["logit"]
    table = dp.etable(fit, logit, adjust="bonferroni", keep=["x", "z"], stars=True)
    frame = table.tidy().set_index(["model", "term"])["p_value"]
    assert frame["(1)", "z"] == pytest.approx(min(2 * fit.pvalues["z"], 1.0))
    assert frame["(2)", "z"] == pytest.approx(min(2 * logit.pvalues["z"], 1.0))
    assert "P adjusted by Bonferroni over the shown coefficients" in str(table)
    weak = changed(logit, params=np.array([0.0, 0.0, 2.3 * logit.bse["z"]]), bias=None)
    for how, star in ((None, "*"), ("holm", ".")):
        rows = dp.etable(weak, stars=True, adjust=how).rows
        assert next(r.cells[1] for r in rows if r.cells and r.cells[0] == "z").endswith(star)
    with pytest.raises(RequestError, match="BH"):
        dp.etable(fit, adjust="bh")


def test_a_table_of_tests_adjusts_over_the_tests(made):
    one, two = made["test"], made["other test"]
    table = dp.etable(one, two, adjust="holm", stats=["p_value"])
    expected = joint.adjusted_p([one.pvalue, two.pvalue], "holm")
    frame = table.tidy().groupby("model")["p_value"].first()
    assert frame.to_numpy() == pytest.approx(expected)
    assert inference.p_value(expected[1]) in str(table)
    assert "P adjusted by Holm for 2 tests" in str(table)
    with pytest.raises(RequestError, match="not both"):
        dp.etable(one, made["ols"], adjust="holm")


# -- Equivalence.


def test_two_one_sided_tests_by_hand(made):
    fit = made["ols"]
    out = fit.hypotheses("x", equivalence=(0.9, 1.1))
    b, se, bound = fit.params["x"], fit.bse["x"], fit.bias_bound["x"]
    above, below = stats.norm.sf((b - bound - 0.9) / se), stats.norm.cdf((b + bound - 1.1) / se)
    row = out.tidy().iloc[0]
    assert (row["p_value_above"], row["p_value_below"]) == pytest.approx((above, below), rel=1e-6)
    assert row["p_value"] == max(row["p_value_above"], row["p_value_below"])
    assert row["verdict"] == "between 0.9 and 1.1" and "Equivalence: between 0.9 and 1.1" in str(
        out
    )
    no = fit.hypotheses("x", equivalence=(b - 0.001, 5))
    assert no.verdicts() == ("not shown",)
    # the claim holds just where the interval is inside the margins
    low, high = row["conf_low"], row["conf_high"]
    edge = fit.hypotheses("x", equivalence=(low, high)).tidy().iloc[0]
    assert edge["p_value"] == pytest.approx(0.05, rel=1e-6)


def test_one_margin_is_non_inferiority(made):
    fit = made["ols"]
    out = fit.hypotheses(equivalence=(-0.1, None))
    assert list(out.labels) == ["x", "z", "C(g)[T.b]", "C(g)[T.c]"]
    assert out.verdicts()[0] == "above -0.1" and "P below" not in str(out)
    np.testing.assert_array_equal(out.pvalue, out.above)
    other = fit.hypotheses("x", equivalence=(None, 0.5))
    assert other.claim == "below 0.5" and other.verdicts() == ("not shown",)


def test_a_t_reference_is_used(made):
    fit = changed(made["ols"], use_t=5.0)
    row = fit.hypotheses("z", equivalence=(-0.2, 0.2)).tidy().iloc[0]
    x = (fit.params["z"] - fit.bias_bound["z"] + 0.2) / fit.bse["z"]
    assert row["p_value_above"] == pytest.approx(stats.t(5).sf(x), rel=1e-6)


def test_means_are_tested_on_the_scale_of_their_link(made):
    means = made["logit"].emmeans("x", at={"x": [0.0, 1.0]})
    out = means.hypotheses(equivalence=(0.2, 0.6))
    low, high = np.log(0.2 / 0.8), np.log(0.6 / 0.4)
    se = means.sd / (means.effect * (1 - means.effect))
    expected = stats.norm.sf((means.on_scale - means.bias - low) / se)
    assert out.above == pytest.approx(expected, rel=1e-6, abs=1e-300)
    assert out.below == pytest.approx(stats.norm.cdf((means.on_scale + means.bias - high) / se))
    assert means.hypotheses(equivalence=(-1, 0.6)).above == pytest.approx(0.0)
    pairs = made["ols"].emmeans("g").pairs().hypotheses(equivalence=(-1, 1))
    assert set(pairs.verdicts()) == {"between -1 and 1"}
    assert made["ols"].avg_slopes().hypotheses(equivalence=(-2, 2)).pvalue.max() < 0.01


def test_what_is_not_determined_has_no_verdict(made):
    fit = changed(made["ols"], untested=np.array([False, True, False, False, False]))
    out = fit.hypotheses(["x = 0", "z = 0"], equivalence=(-9, 9))
    assert out.verdicts() == ("not determined", "between -9 and 9")
    assert "n/d" in str(out) and math.isnan(out.tidy()["p_value"].iloc[0])


def test_margins_that_cannot_be_are_refused(made):
    for wrong in (
        0.5,
        (1, 0),
        (0, 0),
        (None, None),
        ("a", 1),
        (1,),
        (1, 2, 3),
        (True, 2),
        (math.nan, 1),
    ):
        with pytest.raises(RequestError, match="two margins"):
            made["ols"].hypotheses("x", equivalence=wrong)
        with pytest.raises(RequestError, match="two margins"):
            made["ols"].emmeans("g").hypotheses(equivalence=wrong)
    with pytest.raises(RequestError, match=r"above 0\.5"):
        made["ols"].hypotheses("x", equivalence=(0, 1), level=0.4)


def test_tests_without_margins_are_contrasts(made):
    fit = made["ols"]
    assert str(fit.hypotheses(["x = 1"])) == str(fit.contrast(["x = 1"]))
    assert fit.hypotheses().pvalue == pytest.approx(fit.pvalues.iloc[1:].to_numpy())


def test_an_equivalence_is_saved_and_drawn(made, tmp_path):
    out = made["ols"].hypotheses(equivalence=(-0.1, 1.2))
    out.save(tmp_path / "e.json")
    again = dp.load(tmp_path / "e.json")
    assert str(again) == str(out) and again.tidy().equals(out.tidy())
    assert len(out.plot().lines) >= 2


# -- Sentences.


def test_a_coefficient_as_a_sentence(made):
    fit = made["ols"]
    low, high = fit.conf_int().loc["x"]
    assert fit.inline("x") == (f"{fit.params['x']:.3f} (95 % CI {low:.3f} to {high:.3f}, P < .001)")
    assert fit.inline("g[T.b]") == fit.inline("C(g)[T.b]")
    low, high = np.exp(fit.conf_int(0.9).loc["z"])
    text = fit.inline("z", exponentiate=True, level=0.9)
    assert text.startswith(
        f"{np.exp(fit.params['z']):.3f} (90 % CI {low:.3f} to {high:.3f}, P = ."
    )
    assert len(fit.inline("x", digits=5)) > len(fit.inline("x"))
    gone = changed(fit, untested=np.array([False, True, False, False, False]))
    assert gone.inline("x").endswith("not determined at this budget)")
    with pytest.raises(RequestError, match="no coefficient 'w'"):
        fit.inline("w")
    with pytest.raises(RequestError, match="digits"):
        fit.inline("x", digits=0)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1e-9, "P < .001"),
        (0.0123, "P = .012"),
        (0.9996, "P > .999"),
        (0.5, "P = .500"),
        (1.0, "P > .999"),
    ],
)
def test_p_in_text(p, text):
    assert joint.in_text(p) == text
