"""``dp_survfit`` and ``dp_survdiff`` as they are typed: what they say, refuse, keep and cost."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, FormulaError, RequestError

pytestmark = pytest.mark.usefixtures("quiet")
N = 4000
SCHEMA = {"arm": dp.Levels(["a", "b"]), "site": dp.Levels([1, 2]), "time": dp.Real(0, 12),
          "dead": dp.Binary()}  # fmt: skip
CALL = {"schema": SCHEMA, "eps": 1.0, "delta": 1e-6, "seed": 3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    arm = rng.choice(["a", "b"], N)
    dies = rng.exponential(np.where(arm == "a", 9.0, 14.0))
    leaves = rng.uniform(3, 18, N)
    return pd.DataFrame(
        {
            "time": np.minimum(dies, leaves),
            "dead": (dies <= leaves).astype(float),
            "arm": arm,
            "site": rng.integers(1, 3, N),
        }
    )


@pytest.fixture(scope="module")
def fit(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_survfit("Surv(time, dead) ~ arm", data, **CALL)


def test_tidy_has_the_columns_of_r(fit):
    frame = fit.tidy()
    assert list(frame) == [
        "time", "n_risk", "n_event", "n_censor", "estimate", "std_error", "conf_low", "conf_high",
        "strata",
    ]  # fmt: skip
    assert len(frame) == 24  # twelve months, each an interval
    assert frame["strata"].unique().tolist() == ["arm=a", "arm=b"]
    first = frame[frame["time"] == 1]
    assert abs(first["n_risk"].sum() - N) < 80  # ten noise sds of two counts
    assert ((frame["conf_low"] <= frame["estimate"]) & (frame["estimate"] <= frame["conf_high"])).all()
    r = fit.tidy(style="r")
    assert {"n.risk", "std.error", "conf.low"} <= set(r)


def test_errors_are_of_sampling_and_noise(fit):
    frame = fit.tidy()
    np.testing.assert_allclose(frame["std_error"], fit.bse.to_numpy(), rtol=1e-9)
    np.testing.assert_allclose(np.hypot(fit.bse_sampling, fit.bse_privacy), fit.bse, rtol=1e-9)
    assert (fit.bse_privacy > 0.1 * fit.bse_sampling).all()


def test_people_without_a_row_are_missing(data):
    kw = {**CALL, "eps": 1e6, "delta": 0.5}
    fit = dp.dp_survfit(
        "Surv(time, dead) ~ 1", data.assign(id=np.arange(N)), unit="id", units=N + 1000, **kw
    )
    assert fit.nobs == N + 1000
    assert fit.risk_table([0]).iloc[0, 0] == pytest.approx(N, abs=0.1)


def test_glance_has_units_and_noisy_events(fit, data):
    row = fit.glance().iloc[0]
    assert row["nobs"] == N
    seen = ((data["dead"] == 1) & (data["time"] <= 12)).sum()
    assert abs(row["events"] - seen) < 300  # ten noise sds of 32 cells
    assert row["events"] != round(row["events"])


def test_numbers_that_are_read_off(fit):
    median = fit.quantile()
    truth = 9.0 * np.log(2), 14.0 * np.log(2)
    for value, (_, row) in zip(truth, median.iterrows(), strict=True):
        assert row["conf_low"] < value < row["conf_high"] or abs(row["estimate"] - value) < 0.6
    at = fit.at([3, 6.1])
    np.testing.assert_allclose(at["estimate"], np.exp(-np.tile([3, 6], 2) / [9, 9, 14, 14]), atol=0.05)
    mean = fit.rmst(10)
    np.testing.assert_allclose(
        mean["estimate"], [9 * (1 - np.exp(-10 / 9)), 14 * (1 - np.exp(-10 / 14))], atol=0.25
    )
    gap = fit.difference([6], level=0.9).iloc[0]
    assert gap["contrast"] == "arm=a - arm=b"
    assert gap["estimate"] == pytest.approx(at["estimate"].diff().iloc[-1], abs=0.2)
    assert gap["conf_high"] < 0 < gap["std_error_privacy"] < gap["std_error"]
    assert fit.difference(tau=10)["estimate"].iloc[0] < 0
    hazard = fit.cumulative_hazard()
    np.testing.assert_allclose(np.exp(-hazard["estimate"]), fit.tidy()["estimate"], atol=1e-12)
    risk = fit.risk_table([0, 6])
    assert risk.shape == (2, 2)
    assert (risk[0] > risk[6]).all()


def test_the_test_of_a_curve_is_that_of_its_table_and_costs_nothing(fit, data):
    budget = dp.Budget(eps=1, delta=1e-6)
    bought = dp.dp_survdiff("Surv(time, dead) ~ arm", data, budget=budget, **CALL)
    before = budget.remaining()
    free = fit.survdiff()
    assert free.stats == pytest.approx(bought.stats)  # one seed, one table
    assert dp.dp_survdiff("Surv(time, dead) ~ arm", fit).stats == free.stats
    assert budget.remaining() == before
    assert free.privacy.eps == fit.privacy.eps
    assert free.pvalue < 1e-4
    assert list(free.tidy())[:4] == ["term", "n", "observed", "expected"]
    np.testing.assert_allclose(free.params.sum(), 0.0, atol=1e-9)
    with pytest.raises(RequestError, match="eps"):
        dp.dp_survdiff("Surv(time, dead) ~ arm", fit, eps=1)
    with pytest.raises(RequestError, match="same"):
        dp.dp_survdiff("Surv(time, dead) ~ site", fit)


def test_strata_enter_the_test_and_the_curves(data):
    fit = dp.dp_survfit("Surv(time, dead) ~ arm + strata(site)", data, breaks=6, **CALL)
    assert fit.tidy()["strata"].unique().tolist() == [
        "site=1, arm=a", "site=1, arm=b", "site=2, arm=a", "site=2, arm=b",
    ]  # fmt: skip
    test = fit.survdiff()
    assert list(test.params.index) == ["arm=a", "arm=b"]
    assert test.df == 1


def test_a_charge_is_one_step_of_the_ledger(data):
    budget = dp.Budget(eps=1, delta=1e-6)
    fit = dp.dp_survfit("Surv(time, dead) ~ 1", data, budget=budget, **CALL)
    assert "survival table" in str(fit.ledger)
    assert [s.name for s in fit.privacy.steps] == ["survival table"]
    with pytest.raises(DPModelsError):
        dp.dp_survfit("Surv(time, dead) ~ 1", data, budget=budget, **CALL)


def test_saved_and_read_again(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    again = dp.load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(again.tidy(), fit.tidy())
    pd.testing.assert_frame_equal(again.rmst(9), fit.rmst(9))
    assert again.survdiff().stats == fit.survdiff().stats
    test = fit.survdiff()
    test.save(tmp_path / "test.json")
    assert dp.load(tmp_path / "test.json").pvalue == test.pvalue


def test_it_prints_in_every_format(fit):
    for one in (fit, fit.survdiff()):
        for fmt in ("text", "md", "html", "tex"):
            assert "arm=a" in str(one.summary(fmt=fmt)).replace("\\", "")
    text = str(fit.summary())
    assert re.search(r"Events: +about [\d ]+ \(\+- \d+\)", text)
    assert "(R's default: log)" in text


def test_the_same_table_from_any_source(data, tmp_path, fit):
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    data.to_csv(tmp_path / "t.csv", index=False)
    data.to_parquet(tmp_path / "t.parquet")
    frame = data  # noqa: F841
    sources = [
        pl.DataFrame(data), tmp_path / "t.csv", tmp_path / "t.parquet", duckdb.sql("from frame"),
    ]  # fmt: skip
    for source in sources:
        # a CSV file has no types: its event is declared
        call = CALL | {"schema": SCHEMA}
        other = dp.dp_survfit("Surv(time, dead) ~ arm", source, **call)
        np.testing.assert_allclose(other.tidy()["estimate"], fit.tidy()["estimate"], atol=1e-12)


def test_many_intervals_are_a_tree(data):
    plan = dp.plan("Surv(time, dead) ~ 1", SCHEMA, n=N, eps=1, delta=1e-6,
                   verb="dp_survfit", breaks=256)  # fmt: skip
    assert "binary tree of 8 levels" in str(plan)
    fit = dp.dp_survfit("Surv(time, dead) ~ 1", data, breaks=256, **CALL)
    at = fit.at([3.0, 9.0])
    truth = np.exp(-np.array([[3, 9], [3, 9]]) / [[9], [14]]).mean(axis=0)
    np.testing.assert_allclose(at["estimate"], truth, atol=0.06)
    assert len(fit.tidy()) == 256


def test_delayed_entry_and_people(data):
    rng = np.random.default_rng(5)
    cut = data["time"] * rng.uniform(0.2, 0.8, N)
    first = pd.DataFrame({"start": 0.0, "time": cut, "dead": 0.0})
    second = pd.DataFrame({"start": cut, "time": data["time"], "dead": data["dead"]})
    spells = pd.concat([first, second], ignore_index=True)
    spells["id"] = np.tile(np.arange(N), 2)
    spells["arm"] = np.tile(data["arm"], 2)
    kw = {**CALL, "schema": {**SCHEMA, "start": dp.Real(0, 12)}, "eps": 50.0}
    one = dp.dp_survfit("Surv(start, time, dead) ~ arm", spells, unit="id", **kw)
    whole = dp.dp_survfit("Surv(time, dead) ~ arm", data, **{**CALL, "eps": 50.0})
    # a person's episodes one after the other are one: the same curve
    np.testing.assert_allclose(one.at([3, 9])["estimate"], whole.at([3, 9])["estimate"], atol=0.01)
    assert "person" in one.facts.unit
    same = dp.dp_survfit(
        "Surv(time, dead) ~ arm", data.assign(id=np.arange(N)), unit="id", **{**CALL, "eps": 50.0}
    )
    np.testing.assert_allclose(same.at([3, 9])["estimate"], whole.at([3, 9])["estimate"], atol=0.01)


@pytest.mark.parametrize(
    ("formula", "given", "said"),
    [
        ("Surv(time, dead) ~ arm", {"schema": {k: SCHEMA[k] for k in ("arm", "dead")}}, r"times=\[6, 12"),
        ("Surv(time / 12, dead) ~ arm", {"schema": {k: SCHEMA[k] for k in ("arm", "dead")}}, r"bounds=\{'time'"),
        ("Surv(time, dead) ~ arm", {"times": [3, 2]}, "rising"),
        ("Surv(time, dead) ~ arm", {"times": [3, 13]}, "beyond the declared range"),
        ("Surv(time, dead) ~ arm", {"times": [3], "breaks": 4}, "one of them"),
        ("Surv(time, dead) ~ arm", {"breaks": 0}, "number of equal"),
        ("Surv(time, dead) ~ arm", {"breaks": "many"}, "rising"),
        ("Surv(time, dead) ~ arm", {"breaks": 2000}, "1 to 1024"),
        ("Surv(time, dead) ~ arm + site", {"breaks": 1000}, "too many for one table"),
        ("Surv(time, dead) ~ arm", {"delta": 0}, "delta > 0"),
        ("Surv(time, dead) ~ arm", {"conf_type": "loglog"}, "log-log"),
        ("Surv(time, dead) ~ arm", {"max_episodes": 2}, "start, stop"),
        ("Surv(time, dead) ~ arm", {"weights": "time"}, "weights"),
        ("Surv(time, dead) ~ arm", {"unit": "id", "max_rows": 2}, "max_rows"),
        ("time ~ arm", {}, "Surv"),
    ],
)
def test_what_is_refused_before_a_row_is_read(data, formula, given, said):
    budget = dp.Budget(eps=9, delta=1e-5)
    data = data.assign(id=np.arange(len(data)))
    with pytest.raises(DPModelsError, match=said):
        dp.dp_survfit(formula, data, budget=budget, **{**CALL, **given})
    assert not budget.charges


def test_one_group_has_no_test(data, fit):
    with pytest.raises(RequestError, match="one group"):
        dp.dp_survdiff("Surv(time, dead) ~ 1", data, **CALL)
    alone = dp.dp_survfit("Surv(time, dead) ~ 1", data, **CALL)
    with pytest.raises(RequestError, match="one group"):
        alone.survdiff()
    with pytest.raises(RequestError, match="two groups"):
        alone.difference([3])
    with pytest.raises(RequestError, match="needs either"):
        fit.difference()
    with pytest.raises(RequestError, match="outside"):
        fit.at([13])
    with pytest.raises(RequestError, match="none of"):
        fit.risk_table([1.1])
    with pytest.raises(RequestError, match="shares"):
        fit.quantile(2)


def test_undeclared_levels_are_asked_for(data):
    with pytest.raises(DPModelsError, match="arm"):
        dp.dp_survfit("Surv(time, dead) ~ arm", data, eps=1, delta=1e-6, bounds={"time": (0, 12)})
    with pytest.raises(FormulaError, match="number"):
        dp.dp_survfit("Surv(time, dead) ~ time", data, **CALL)


def test_odd_rows_count_as_nothing_and_silently(data):
    """A table with 500 odd rows gives the curve of the others; and no word is said."""
    odd = data.iloc[:500].copy()
    odd.loc[odd.index[:100], "time"] = -1.0
    odd.loc[odd.index[100:200], "time"] = np.nan
    odd.loc[odd.index[200:300], "dead"] = 2.0
    odd.loc[odd.index[300:400], "arm"] = "?"
    odd.loc[odd.index[400:], "time"] = -0.0001
    call = {**CALL, "eps": 1e6, "delta": 0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
        mixed = dp.dp_survfit("Surv(time, dead) ~ arm", pd.concat([data, odd]), **call)
    alone = dp.dp_survfit("Surv(time, dead) ~ arm", data, **call)
    np.testing.assert_allclose(
        mixed.tidy()[["n_risk", "estimate"]], alone.tidy()[["n_risk", "estimate"]], atol=0.05
    )


def test_too_few_people_are_named_before_the_charge(data):
    with pytest.warns(dp.errors.UtilityWarning, match="larger than its sampling error"):
        dp.dp_survfit("Surv(time, dead) ~ arm", data.iloc[:150], **CALL)


def test_a_curve_ends_where_nobody_is_left_but_noise(data):
    fit = dp.dp_survfit("Surv(time, dead) ~ arm", data.iloc[:400], **CALL)
    frame = fit.tidy()
    gone = frame["estimate"].isna()
    assert gone.any()
    assert (frame.loc[gone, "conf_low"] == 0).all()
    assert "within the noise" in " ".join(fit.notes)
    assert fit.quantile(0.99)["estimate"].isna().all()
    str(fit.summary(full=True))


def test_the_picture(fit):
    plt = pytest.importorskip("matplotlib.pyplot")
    for kind in ("survival", "event", "hazard"):
        ax = fit.plot(kind=kind)
        assert len(ax.lines) == 2
        assert len(ax.collections) == 2  # bands
        plt.close("all")
    line = fit.plot(at_risk=False, bands=False).lines[0].get_ydata()
    assert (np.diff(line) <= 0).all()
    plt.close("all")


def test_colon_cancer(real_data):
    """Deaths of the trial (Moertel 1990): three arms, 929 people, without noise and with it."""
    from tests.unit.models.survival.test_curve import kaplan_meier

    survdiff = pytest.importorskip("statsmodels.duration.survfunc").survdiff
    colon = real_data("colon.csv.gz")
    dead = colon[colon["etype"] == 2]
    arms = ["Obs", "Lev", "Lev+5FU"]
    call = {"schema": {"rx": dp.Levels(arms), "status": dp.Binary(), "time": dp.Real(0, 3400)},
            "seed": 1}  # fmt: skip
    quiet = dp.dp_survfit("Surv(time, status) ~ rx", dead, eps=1e6, delta=0.5, **call)
    found = quiet.tidy()
    for arm in arms:
        mine, rows = found[found["strata"] == f"rx={arm}"], dead[dead["rx"] == arm]
        at = mine["time"].to_numpy()
        S, G = kaplan_meier(rows["time"].to_numpy(float), rows["status"].to_numpy(), at)
        known = at <= 2800  # beyond hardly anybody is left
        gap = np.abs(mine["estimate"] - S) / (S * np.sqrt(G))
        assert gap[known].max() < 0.2
    exact = survdiff(dead["time"], dead["status"], dead["rx"])
    assert quiet.survdiff().statistic == pytest.approx(exact[0], rel=0.03)
    # both kinds of events are one person's: two rows, one unit
    loud = dp.dp_survdiff("Surv(time, status) ~ rx", colon, eps=10, delta=1e-6, unit="id",
                          subset="etype == 2", **{**call, "schema": {
                              **call["schema"], "etype": dp.Levels([1, 2])}})  # fmt: skip
    assert loud.nobs == 929
    assert loud.pvalue < 0.2


def test_between_breaks_the_interval_holds_what_a_step_cannot_know(noiseless):
    """Survival that falls to nothing within one interval: both ends are in the interval."""
    d = pd.DataFrame({"t": np.repeat([2.0, 6.5, 9.0], [100, 700, 200]), "d": 1.0})
    d["g"] = np.tile(["a", "b"], 500)
    schema = {"g": dp.Levels(["a", "b"]), "t": dp.Real(0, 12), "d": dp.Real(0, 1)}
    fit = dp.dp_survfit("Surv(t, d) ~ g", d, eps=1, delta=1e-6, schema=schema, times=[4, 8, 12])
    ends = fit.at([4, 8]).set_index(["strata", "time"])
    for strata, one in fit.at([6]).groupby("strata"):
        first, last = ends.loc[(strata, 4.0)], ends.loc[(strata, 8.0)]
        assert one.estimate.iloc[0] == pytest.approx(0.9) == first.estimate
        assert one.conf_low.iloc[0] == last.conf_low and one.conf_high.iloc[0] == first.conf_high
    at_8, at_6 = (fit.difference([t]).iloc[0] for t in (8, 6))
    assert at_6.conf_high - at_6.conf_low > 1.0 > at_8.conf_high - at_8.conf_low
