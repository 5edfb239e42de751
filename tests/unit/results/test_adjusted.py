"""Adjusted survival curves against predictions and numerical derivatives."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, NotPrivateWarning, NotReleasedError, RequestError
from dpmodels.results.adjusted import between
from dpmodels.results.kinds import cumulated

pytestmark = pytest.mark.usefixtures("quiet")
N = 12_000
SCHEMA = {
    "t": dp.Real(0, 12), "dead": dp.Binary(), "arm": dp.Levels(["u", "v"]), "sex": dp.Binary(),
    "stage": dp.Levels(["i", "ii", "iii"]), "age": dp.Real(-1, 1), "why": dp.Levels([0, 1, 2]),
}  # fmt: skip
CALL = {"schema": SCHEMA, "eps": 2.0, "delta": 1e-6, "seed": 1}
AT = [3.0, 6.0, 11.5]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    arm, sex = rng.choice(["u", "v"], N), rng.integers(0, 2, N)
    stage, age = rng.choice(["i", "ii", "iii"], N, p=[0.5, 0.3, 0.2]), rng.uniform(-1, 1, N)
    eta = 0.5 * (arm == "v") - 0.4 * sex + 0.6 * (stage == "ii") + 1.0 * (stage == "iii")
    dies, leaves = rng.exponential(10 * np.exp(-eta)), rng.uniform(3, 15, N)
    dead = (dies <= leaves).astype(int)
    return pd.DataFrame({"t": np.minimum(dies, leaves), "dead": dead, "arm": arm, "sex": sex, "stage": stage,
                         "age": age, "why": dead * rng.integers(1, 3, N)})  # fmt: skip


def fitted(formula, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_coxph(formula, data, **{**CALL, **options})


@pytest.fixture(scope="module")
def fit(data):
    return fitted("Surv(t, dead) ~ arm + sex + stage + age", data)


@pytest.fixture(scope="module")
def public(data):
    return data.sample(40, random_state=2).reset_index(drop=True)


def test_one_row_is_the_prediction_of_that_row(fit):
    row = pd.DataFrame({"sex": [1], "stage": ["ii"], "age": [0.3]})
    found = fit.adjusted_curves("arm", row, times=AT, level=0.9).tidy()
    both = pd.concat([row, row]).assign(arm=["u", "v"])
    wanted = fit.predict(
        both, what="survival", times=AT, interval="confidence", se_fit=True, level=0.9
    )
    for ours, theirs in (
        ("estimate", "fit"),
        ("std_error", "se_fit"),
        ("conf_low", "lwr"),
        ("conf_high", "upr"),
    ):
        np.testing.assert_allclose(found[ours], wanted[theirs], rtol=1e-9)
    assert found["arm"].tolist() == ["u"] * 3 + ["v"] * 3


def test_curves_are_means_of_predictions(fit, public):
    found = fit.adjusted_curves("arm", over=public, times=AT).tidy()
    for level in "uv":
        each = fit.predict(public.assign(arm=level), what="survival", times=AT)
        own = found[found["arm"] == level]
        np.testing.assert_allclose(own["estimate"], each.mean(axis=0), rtol=1e-12)


def test_errors_are_those_of_numerical_derivatives(fit, public):
    """Of curves and of differences, by central differences in all released parameters."""
    found = fit.adjusted_curves("arm", over=public, times=AT)
    V = np.asarray(fit.arrays["baseline_vcov"])
    at, d = np.array(AT), len(V)
    edges, cumulative = cumulated(fit)
    H = np.interp(at, edges, cumulative[0])
    G = between(fit, "baseline_gradient", at)[0]  # (d, T)
    rest = between(fit, "baseline_offset", at)[0] / H
    b = fit.params.to_numpy()
    X = {a: np.asarray(fit.design.matrix(public.assign(arm=a)), dtype=float)[:, 1:] for a in "uv"}

    def S(level, step, log_H=0.0):
        hazard = (H + step @ G) * np.exp(log_H)
        return np.exp(-np.exp(X[level] @ (b + step[1 : len(b) + 1]))[:, None] * hazard).mean(axis=0)

    h = 1e-5
    steps = h * np.eye(d)
    J = {a: np.array([(S(a, s) - S(a, -s)) / (2 * h) for s in steps]) for a in "uv"}
    off = {a: (S(a, 0 * steps[0], h) - S(a, 0 * steps[0], -h)) / (2 * h) * rest for a in "uv"}
    for k, a in enumerate("uv"):
        se = np.sqrt(np.einsum("dt,de,et->t", J[a], V, J[a]) + off[a] ** 2)
        np.testing.assert_allclose(
            found.tidy()["std_error"].to_numpy().reshape(2, 3)[k], se, rtol=1e-5
        )
    gap = J["u"] - J["v"]
    se = np.sqrt(np.einsum("dt,de,et->t", gap, V, gap) + (off["u"] - off["v"]) ** 2)
    rows = found.pairs().tidy()
    np.testing.assert_allclose(rows["std_error"], se, rtol=1e-5)
    np.testing.assert_allclose(rows["estimate"], S("u", 0 * steps[0]) - S("v", 0 * steps[0]))
    assert (rows["conf_low"] < rows["estimate"]).all() and (
        rows["conf_high"] > rows["estimate"]
    ).all()


def test_a_bias_widens_the_bands(fit, public):
    """The bound of the bias of each combination is in the interval, and not in the error."""
    found, alone = fit.adjusted_curves("arm", over=public, times=AT), public.iloc[:1]
    est = fit._record.estimate
    moved = replace(est, bias=est.bias + 0.3, bias_bound=None)
    other = type(fit)._of(replace(fit._record, estimate=moved))
    rows = found.pairs().tidy()
    wide = other.adjusted_curves("arm", over=public, times=AT).pairs().tidy()
    assert (
        wide["conf_high"] - wide["conf_low"] > 1.2 * (rows["conf_high"] - rows["conf_low"])
    ).all()
    np.testing.assert_allclose(wide["std_error"], rows["std_error"])
    new = pd.concat([alone, alone]).assign(arm=["u", "v"])
    wanted = other.predict(new, what="survival", times=AT, interval="confidence")
    own = other.adjusted_curves("arm", over=alone, times=AT).tidy()
    np.testing.assert_allclose(own["conf_low"], wanted["lwr"], rtol=1e-9)


def test_joint_bands_hold_the_plain_ones(fit, public):
    plain, joint = (
        fit.adjusted_curves("arm", over=public, times=[0.0, *AT], joint=j) for j in (False, True)
    )
    widths = [v.tidy()["conf_high"] - v.tidy()["conf_low"] for v in (plain, joint)]
    np.testing.assert_allclose(plain.tidy().loc[[0, 4], ["estimate", "conf_low", "conf_high"]], 1.0)
    assert (widths[1] >= widths[0]).all() and (widths[1] > 1.05 * widths[0])[[1, 2, 3]].all()
    assert "hold together" in joint.summary().as_text()
    gaps = [
        plain.pairs(joint=j).tidy()[["conf_low", "conf_high"]].to_numpy() for j in (False, True)
    ]
    assert (gaps[1][1:, 0] < gaps[0][1:, 0]).all() and (gaps[1][1:, 1] > gaps[0][1:, 1]).all()


def test_released_cells_are_weighted_rows(data):
    """Noise off, a table is its cells: as many public rows of each."""
    few = fitted("Surv(t, dead) ~ arm + sex + stage", data)
    how = {**CALL, "eps": 1e6, "delta": 0.5}
    table = dp.dp_table("~ sex * stage", data, **how)
    cells = few.adjusted_curves("arm", over=table, times=AT)
    rows = few.adjusted_curves("arm", over=data[["sex", "stage"]].iloc[:-1], times=AT)
    cells, rows = cells.tidy(), rows.tidy()
    np.testing.assert_allclose(cells["estimate"], rows["estimate"], atol=2e-4)
    assert (cells["std_error"] > rows["std_error"]).all()  # of sampling
    np.testing.assert_allclose(cells["std_error"], rows["std_error"], rtol=0.15)
    more = dp.dp_table("~ arm * sex * stage", data, **how)  # a margin of it
    again = few.adjusted_curves("arm", over=more, times=AT).tidy()
    np.testing.assert_allclose(again["estimate"], cells["estimate"], atol=1e-3)
    noisy = few.adjusted_curves(
        "arm", over=dp.dp_table("~ sex * stage", data, **{**CALL, "eps": 0.02}), times=AT
    )
    assert (noisy.tidy()["std_error"] > cells["std_error"]).all()
    assert (noisy.tidy()["std_error"] / cells["std_error"]).max() > 1.1
    assert "6 released cells" in noisy.summary().as_text()


def test_the_level_may_be_a_stratum_or_a_number(data, public):
    by_arm = fitted("Surv(t, dead) ~ sex + age + strata(arm)", data)
    found = by_arm.adjusted_curves("arm", over=public, times=[6.0])
    each = by_arm.predict(public.assign(arm="v"), what="survival", times=[6.0])
    np.testing.assert_allclose(found.tidy()["estimate"][1:2], each.mean(axis=0))
    ages = by_arm.adjusted_curves({"age": [-0.5, 0.5]}, over=public, times=[6.0])
    each = by_arm.predict(public.assign(age=0.5), what="survival", times=[6.0])
    np.testing.assert_allclose(ages.tidy()["estimate"][1:2], each.mean(axis=0))
    assert ages.tidy()["age"].tolist() == ["-0.5", "0.5"]


def test_alone_it_needs_no_rows(data):
    alone = fitted("Surv(t, dead) ~ arm", data)
    assert alone.adjusted_curves("arm", times=[6.0]).tidy().shape == (2, 6)


def test_of_one_cause_a_note_says_so(data):
    one = fitted("Surv(t, why) ~ arm", data, cause=2)
    assert "why=2 alone" in one.adjusted_curves("arm").summary().as_text()


def test_file_and_picture(fit, public, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    found = fit.adjusted_curves("arm", over=public)
    found.save(tmp_path / "curves.json")
    again = dp.load(tmp_path / "curves.json")
    pd.testing.assert_frame_equal(again.tidy(), found.tidy())
    pd.testing.assert_frame_equal(again.pairs().tidy(), found.pairs().tidy())
    ax = found.plot()
    assert [line.get_label() for line in ax.get_lines()] == ["arm=u", "arm=v"]
    assert ax.get_ylabel() == "adjusted survival"
    text = found.summary().as_text()
    assert "Adjusted survival" in text and "40 public rows" in text


@pytest.mark.parametrize(
    ("variable", "change", "message"),
    [
        ("arm", None, "over=frame"),
        ("armm", {}, "Did you mean 'arm'"),
        (["arm", "sex"], {}, "not one variable"),
        ("age", {}, "give some"),
        ({"arm": ["u", "z"]}, {}, "not values of 'arm'"),
        ("arm", {"drop": "sex"}, "no column 'sex'"),
        ("arm", {"stage": "iv"}, "leave those out"),
        ("arm", {"rows": 0}, "no rows"),
        ("arm", {"times": [20]}, "20"),
        ("arm", {"table": "~ sex * stage"}, "without numbers"),
        ("sex", {"mean": "age ~ 1"}, "released cells"),
    ],
)
def test_bad_input_is_refused(fit, data, public, variable, change, message):
    change = dict(change) if change is not None else None
    over, times = public, None
    if change is None:
        over = None
    elif "drop" in change:
        over = public.drop(columns=change["drop"])
    elif "rows" in change:
        over = public.iloc[:0]
    elif "table" in change:
        over = dp.dp_table(change["table"], data, **CALL)
    elif "mean" in change:
        over = dp.dp_mean(change["mean"], data, **CALL)
    else:
        times = change.pop("times", None)
        over = public.assign(**change)
    with pytest.raises(RequestError, match=message):
        fit.adjusted_curves(variable, over=over, times=times)


def test_cells_in_the_noise_and_fits_without_reply_are_refused(data):
    few = fitted("Surv(t, dead) ~ arm + sex", data)
    table = dp.dp_table("~ sex", data.iloc[:20], **{**CALL, "eps": 0.05})
    with pytest.raises(NotReleasedError, match="noise"):
        few.adjusted_curves("arm", over=table)
    with pytest.raises(RequestError, match=r"sex.*released cells"):
        few.adjusted_curves("arm", over=dp.dp_table("~ stage", data, **CALL))
    with pytest.raises(RequestError, match="two levels"):
        few.adjusted_curves({"arm": ["u"]}, over=data.iloc[:5]).pairs()
    stopped = fitted("Surv(t, dead) ~ arm", data.assign(t=np.nan), stop=True)
    assert not stopped.released
    with pytest.raises(DPModelsError, match="no reply"):
        stopped.adjusted_curves("arm")


def test_the_private_rows_are_not_public(fit, data):
    with pytest.warns(NotPrivateWarning, match="NOT PRIVATE"):
        fit.adjusted_curves("arm", over=data, times=[6.0])
