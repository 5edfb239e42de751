"""Weighted totals, means and quantiles of people: each person once, by the weight of own rows."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

SCHEMA = dp.Schema(
    x=dp.Real(0, 100), z=dp.Real(0, 1), w=dp.Real(0, 2), g=dp.Levels(["a", "b", "c"]),
    h=dp.Levels(["u", "v"]),
)  # fmt: skip
CALL = {"schema": SCHEMA, "unit": "id", "weights": "w", "delta": 1e-6}


def panel(people=1500, seed=0):
    """Rows of people, in any order: 1 to 5 each, weights constant in a person."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 6, people)
    who = np.repeat(np.arange(people), rows)
    w, base = rng.uniform(0.2, 2, people), rng.normal(50, 10, people)
    frame = pd.DataFrame(
        {
            "id": who, "w": w[who], "g": rng.choice(["a", "b", "c"], people)[who],
            "h": rng.choice(["u", "v"], len(who)), "z": rng.random(len(who)),
            "x": np.clip(base[who] + rng.normal(0, 3, len(who)), 0, 100),
        }
    )  # fmt: skip
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


@pytest.fixture(scope="module")
def data():
    return panel()


def alone(data):
    """Return one row per person: means of numbers and weights."""
    return data.groupby("id").agg(
        w=("w", "mean"), g=("g", "first"), x=("x", "mean"), z=("z", "mean")
    )


def test_totals_and_means_by_group_without_noise(noiseless, data):
    tidy = dp.dp_table("x ~ g", data, eps=1, **CALL).tidy().set_index("term")
    people = alone(data)
    for level, part in people.groupby("g"):
        total, mean = tidy.loc[f"n[g={level}]"], tidy.loc[f"mean(x)[g={level}]"]
        wanted = np.average(part["x"], weights=part["w"])
        assert total["estimate"] == pytest.approx(part["w"].sum(), rel=1e-4)
        assert mean["estimate"] == pytest.approx(wanted, abs=1e-3)
        z = part["w"] * (part["x"] - wanted)
        assert mean["std_error_sampling"] == pytest.approx(
            np.sqrt((z**2).sum()) / part["w"].sum(), rel=0.02
        )


def test_shares_of_own_rows_without_noise(noiseless, data):
    found = dp.dp_table("~ h", data, eps=1, **CALL).tidy().set_index("term")
    own = data.assign(u=data["h"] == "u").groupby("id").agg(w=("w", "first"), u=("u", "mean"))
    assert found.loc["n[h=u]", "estimate"] == pytest.approx((own["w"] * own["u"]).sum(), rel=1e-4)
    share = np.average(own["u"], weights=own["w"])
    z = own["w"] * (own["u"] - share)
    people = np.sqrt((z**2).sum()) / own["w"].sum()
    assert people <= found.loc["n[h=u]", "share_std_error"] <= 2.5 * people


def test_means_without_noise(noiseless, data):
    fit = dp.dp_mean("x + z ~ 1", data, eps=1, **CALL)
    people = alone(data)
    for name in ("x", "z"):
        wanted = np.average(people[name], weights=people["w"])
        assert fit.params[name] == pytest.approx(wanted, abs=1e-3)
        z = people["w"] * (people[name] - wanted)
        assert fit.bse_sampling[name] == pytest.approx(
            np.sqrt((z**2).sum()) / people["w"].sum(), rel=0.02
        )
    same = dp.dp_mean("x + z ~ 1", data, eps=1, schema=SCHEMA, unit="id", delta=1e-6,
                      design=dp.Survey(weights="w"))  # fmt: skip
    assert same.params.to_numpy() == pytest.approx(fit.params.to_numpy(), rel=1e-9)


def test_means_of_complete_rows_of_a_person(noiseless, data):
    some = data.copy()
    some.loc[some.index % 3 == 0, "x"] = np.nan
    complete = some.dropna(subset=["x"])
    people = complete.groupby("id").agg(w=("w", "mean"), x=("x", "mean"))
    fit = dp.dp_mean("x ~ 1", some, eps=1, **CALL)
    assert fit.params["x"] == pytest.approx(np.average(people["x"], weights=people["w"]), abs=1e-3)


def test_quantiles_without_noise(noiseless, data):
    found = dp.dp_quantile("x", data, q=[0.25, 0.5, 0.9], eps=1, **CALL).params.to_numpy()
    k = data["w"] / data.groupby("id")["id"].transform("size")
    order = np.argsort(data["x"].to_numpy())
    share = np.cumsum(k.to_numpy()[order]) / k.sum()
    wanted = data["x"].to_numpy()[order][np.searchsorted(share, [0.25, 0.5, 0.9])]
    assert found == pytest.approx(wanted, abs=0.1)


def test_population_is_of_people(noiseless, data):
    fit = dp.dp_table("~ g", data, eps=1, schema=SCHEMA, unit="id", delta=1e-6,
                      design=dp.Survey(weights="w", population=90_000))  # fmt: skip
    people = alone(data)
    share = people.loc[people["g"] == "a", "w"].sum() / people["w"].sum()
    assert fit.params["n[g=a]"] == pytest.approx(90_000 * share, rel=1e-3)


def test_intervals_cover_the_population():
    """Shares and means of 40 seeded samples at eps 1: at least 140 of 160 intervals cover.

    The truth is that of the law of the sample. At a coverage of .95 fewer than 140 of 160 have
    probability below 1e-4.
    """
    covered = all_ = 0
    for seed in range(40):
        data = panel(1000, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = dp.dp_table("~ g", data, eps=1.0, seed=seed, **CALL).tidy().set_index("term")
            mean = dp.dp_mean("x ~ 1", data, eps=1.0, seed=seed, **CALL).conf_int().loc["x"]
        for level in "abc":
            row = table.loc[f"n[g={level}]"]
            covered += row["share_conf_low"] <= 1 / 3 <= row["share_conf_high"]
        covered += mean.iloc[0] <= 50.0 <= mean.iloc[1]
        all_ += 4
    assert all_ == 160 and covered >= 140


@pytest.mark.parametrize(
    ("verb", "formula", "options", "words"),
    [
        ("dp_table", "~ g", {"max_rows": 3}, "max_rows="),
        ("dp_quantile", "~ x", {"max_rows": 2, "q": 0.5}, "max_rows="),
        ("dp_test", "~ g * h", {}, "wald_test"),
        ("dp_test", "x ~ g", {}, "wald_test"),
        ("dp_mean", "x ~ 1", {"weights": None, "design": dp.Survey(weights="w", psu="h")}, "unit"),
        ("dp_table", "~ g", {"medians": "x"}, "not a number"),
    ],
)
def test_what_is_refused_costs_nothing(data, verb, formula, options, words):
    budget = dp.Budget(eps=2, delta=1e-5)
    with pytest.raises(RequestError, match=words):
        getattr(dp, verb)(formula, data, eps=1, budget=budget, **{**CALL, **options})
    assert not budget.charges


def test_what_the_refusal_says_to_type(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_ols("x ~ g", data, eps=5, seed=1, **CALL)
    assert np.isfinite(fit.wald_test("g").pvalue)
