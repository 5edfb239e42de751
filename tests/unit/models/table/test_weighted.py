"""Weighted tables and means: right without noise, trimmed by rule, refused where unclear."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import _testing
from dpmodels.errors import DPModelsError
from dpmodels.models.table.weighted import _of_totals
from dpmodels.models.weights import DesignErrors, trimmed
from dpmodels.scoring.rules import WEIGHT_BINS

SCHEMA = dp.Schema(w=dp.Real(0, 30), g=dp.Levels(["a", "b", "c"]), k=dp.Levels(["x", "y"]))
CALL = {"eps": 50, "delta": 1e-6, "schema": SCHEMA, "bounds": {"y": (0, 10), "z": (-1, 1)}}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    n = 6000
    g = rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1])
    w = np.clip(np.exp(0.5 * rng.normal(size=n) + 0.3 * (g == "c")), 0, 4)
    y = np.clip(5 + (g == "a") + rng.normal(size=n), 0, 10)
    return pd.DataFrame({
        "y": y, "z": rng.uniform(-1, 1, n), "w": w, "g": g, "k": rng.choice(list("xy"), n),
    })  # fmt: skip


def fitted(verb, formula, data, **options):
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        return getattr(dp, verb)(formula, data, **{**CALL, "weights": "w", **options})


def test_shares_and_totals_are_those_of_svytable(people):
    frame = fitted("dp_table", "~ g * k", people).tidy().set_index("term")
    total = people.w.sum()
    for g in "abc":
        own = people[people.g == g]
        assert frame.estimate[f"n[g={g}]"] == pytest.approx(own.w.sum(), rel=2e-3)
        assert frame.share[f"n[g={g}]"] == pytest.approx(own.w.sum() / total, rel=2e-3)
        both = own[own.k == "x"].w.sum() / total
        assert frame.share[f"n[g={g}, k=x]"] == pytest.approx(both, rel=5e-3)
        p = own.w.sum() / total
        z = people.w * ((people.g == g) - p)
        se = np.sqrt((z**2).sum()) / total
        assert frame.share_std_error[f"n[g={g}]"] == pytest.approx(se, rel=0.03)
    assert frame.share.filter(regex="^n.g=[^,]*$").sum() == pytest.approx(1.0)


def test_means_by_group_are_those_of_svyby(people):
    frame = fitted("dp_table", "y ~ g", people).tidy().set_index("term")
    for g in "abc":
        own = people[people.g == g]
        mean = (own.w * own.y).sum() / own.w.sum()
        se = np.sqrt((own.w**2 * (own.y - mean) ** 2).sum()) / own.w.sum()
        assert frame.estimate[f"mean(y)[g={g}]"] == pytest.approx(mean, abs=2e-3)
        assert frame.std_error_sampling[f"mean(y)[g={g}]"] == pytest.approx(se, rel=0.05)


def test_weighted_means_are_those_of_svymean(people):
    fit = fitted("dp_mean", "y + z ~ 1", people)
    mean = (people.w * people.y).sum() / people.w.sum()
    se = np.sqrt((people.w**2 * (people.y - mean) ** 2).sum()) / people.w.sum()
    assert fit.params["y"] == pytest.approx(mean, abs=1e-3)
    assert fit.bse_sampling["y"] == pytest.approx(se, rel=0.02)
    assert "used as delivered" in fit.summary(full=True).as_text()
    kish = len(people) * (people.w**2).sum() / people.w.sum() ** 2
    assert fit._record.estimate.stats["kish"] == pytest.approx(kish, rel=0.02)


def test_ratios_are_those_of_svyratio(people):
    data = people.assign(x=np.clip(people.y / 2 + people.z, 0, 10))
    fit = fitted("dp_mean", "y + x ~ 1", data, bounds={"y": (0, 10), "x": (0, 10)})
    w, y, x = (data[c].to_numpy() for c in ("w", "y", "x"))
    R = (w * y).sum() / (w * x).sum()
    se = np.sqrt((w**2 * (y - R * x) ** 2).sum()) / (w * x).sum()
    found = fit.ratio("y", "x")
    assert found.effect[0] == pytest.approx(R, rel=1e-3)
    gradient = found.L[0]
    sampling = np.sqrt(gradient @ fit.vcov("sampling").to_numpy() @ gradient)
    assert sampling == pytest.approx(se, rel=0.05)
    low, high = found.conf_int()[0]
    assert low < R < high
    with pytest.raises(DPModelsError, match="no mean"):
        fit.ratio("y", "zz")


def test_weighted_quantiles_are_those_of_svyquantile(people):
    fit = fitted("dp_quantile", "y", people, q=[0.25, 0.5, 0.9])
    order = np.argsort(people.y.to_numpy())
    up_to = np.cumsum(people.w.to_numpy()[order]) / people.w.sum()
    for q in (0.25, 0.5, 0.9):
        own = people.y.to_numpy()[order][np.searchsorted(up_to, q)]
        assert fit.params[f"q{q:g}(y)"] == pytest.approx(own, abs=0.02)
        low, high = fit.conf_int().loc[f"q{q:g}(y)"]
        z = people.w * ((people.y <= own) - q)
        rank = 1.96 * np.sqrt((z**2).sum()) / people.w.sum()  # Woodruff
        ends = people.y.to_numpy()[order][np.searchsorted(up_to, [q - rank, q + rank])]
        assert high - low == pytest.approx(ends[1] - ends[0], rel=0.25)
    assert "Woodruff" in fit.summary(full=True).as_text()


def test_equal_weights_change_nothing(people):
    equal = people.assign(w=1.0)
    plain = dict(CALL)
    with warnings.catch_warnings(), _testing.noise_source(_testing.ZeroNoise()):
        warnings.simplefilter("ignore")
        table = dp.dp_table("y ~ g", people, **plain).tidy().set_index("term")
        mean = dp.dp_mean("y ~ 1", people, **plain)
    weighted = fitted("dp_table", "y ~ g", equal).tidy().set_index("term")
    shared = ["mean(y)[g=a]", "mean(y)", "n[g=b]"]
    assert weighted.estimate[shared].to_numpy() == pytest.approx(
        table.estimate[shared].to_numpy(), rel=1e-3
    )
    fit = fitted("dp_mean", "y ~ 1", equal)
    assert fit.params["y"] == pytest.approx(mean.params["y"], rel=1e-4)
    assert fit.bse_sampling["y"] == pytest.approx(mean.bse_sampling["y"], rel=1e-2)


def test_odd_weights_are_zero_rows_without_a_word(people):
    odd = people.copy()
    odd.loc[:999, "w"] = np.nan
    odd.loc[1000:1499, "w"] = -3.0
    kept = odd[odd.w > 0]
    fit = fitted("dp_mean", "y ~ 1", odd)
    assert fit.params["y"] == pytest.approx((kept.w * kept.y).sum() / kept.w.sum(), abs=3e-3)
    frame = fitted("dp_table", "~ g", odd).tidy().set_index("term")
    assert frame.share["n[g=a]"] == pytest.approx(
        kept.w[kept.g == "a"].sum() / kept.w.sum(), rel=5e-3
    )
    none = fitted("dp_mean", "y ~ 1", people.assign(w=0.0))
    assert np.isnan(none.params["y"])
    assert "too noisy" in " ".join(none.notes)


def test_totals_of_a_population_that_is_declared(people):
    survey = dp.Survey(weights="w", population=1e6)
    frame = fitted("dp_table", "~ g", people, weights=None, design=survey).tidy()
    assert frame.estimate.sum() == pytest.approx(1e6, rel=1e-6)


def test_where_weights_are_cut():
    """By the released histogram: at a multiple of the mean, no farther than weights are seen."""
    counts = np.zeros(WEIGHT_BINS)
    counts[10:14] = 1000.0  # 30 2^-5 .. 30 2^-7
    found = trimmed(counts, 10.0, 30.0, 1e4, None, 4000)
    assert 0.2 < found.mean < 0.95
    assert found.top <= 4.0 * found.mean * (1 + 1e-9)
    assert found.lost == 0.0
    counts[0] = 100.0  # a few heavy ones: part of the weight is beyond
    heavy = trimmed(counts, 10.0, 30.0, 100.0, None, 4100)
    assert heavy.top < 30.0
    assert 0.2 < heavy.lost < 0.5
    assert trimmed(counts, 10.0, 30.0, 100.0, 4100.0, 4100).mean == 1.0


def test_what_is_refused(people):
    bad = {
        "no range": {"schema": dp.Schema(g=dp.Levels(["a", "b", "c"]))},
        "pure": {"delta": 0.0},
        "quantiles": {"quantiles": [0.5]},
        "kept rows of people": {"unit": "id", "units": 3000, "max_rows": 2},
    }
    data = people.assign(id=np.arange(len(people)) // 2)
    for name, options in bad.items():
        with pytest.raises(DPModelsError):
            fitted("dp_table", "y ~ g", data, **options)
        assert name
    with pytest.raises(DPModelsError, match="weights= and design= together"):
        fitted("dp_mean", "y ~ 1", people, design=dp.Survey(weights="w"))


def test_an_empty_cell_has_a_design_effect():
    """Its variance is nothing, by released numbers: squares overflowed, with a warning of numpy."""
    found = SimpleNamespace(
        correction=1.0, products=(np.eye(2),), noise_sd=0.01, few=False, df=399.0
    )
    errors = DesignErrors(found, np.ones(2), np.ones(2), 1000, 0.95)
    effect, factor = errors.effects(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1000.0, 0.0]))
    assert effect[0] == pytest.approx(1.0, abs=0.01) and np.isfinite([effect, factor]).all()
    assert errors.effects(np.eye(2), np.array([1000.0, 0.0]))[0][1] == pytest.approx(1.0, abs=0.1)


def test_a_cell_whose_released_squares_are_negative_has_an_error():
    """The root was of that, with numpy's warning."""
    errors = DesignErrors(
        SimpleNamespace(correction=1.0, products=(np.eye(2),), noise_sd=0.01, few=False, df=399.0),
        np.ones(2), np.ones(2), 1000, 0.95,
    )  # fmt: skip
    laid = SimpleNamespace(weight=True, functions=lambda _: (np.eye(2), np.arange(2)))
    context = SimpleNamespace(used=1000.0, errors=errors, coordinates=laid, heavy=1010.0, n=1000)
    sampling, p = np.array([0.01, 0.0]), np.array([0.5, 0.0])
    found = _of_totals(context, None, sampling, p, np.array([500.0, -0.3]))
    assert found[0] > 0.0 and found[1] == 0.0


def test_a_plan_prints_the_bound_of_the_sums_that_it_will_release():
    """Where units are compared in pairs the weight is among the scores: the bound is of all."""
    schema = dp.Schema(k=dp.Levels(list("uvw")), w=dp.Real(0, 3), p=dp.Levels([f"v{i}" for i in range(40)]))
    plan = dp.plan("~ k", schema, n=5000, eps=8, delta=1e-6, verb="dp_table",
                   design=dp.Survey(weights="w", psu="p", psus=40))  # fmt: skip
    laid, clusters = plan.detail.coordinates, plan.detail.clusters
    assert laid.weight and clusters.frame.pairs
    assert plan.scales["bound of a cluster's sum"] == clusters.radii(laid.size).bound
