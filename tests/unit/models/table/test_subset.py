"""With ``subset=`` a table is that of the rows inside: the others are in no cell, nor missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

N, PER = 6000, 3
SCHEMA = dp.Schema(
    k=dp.Levels(["a", "b", "c"]),
    g=dp.Levels(["x", "y"]),
    s=dp.Real(0, 1),
    v=dp.Real(-10, 10),
    w=dp.Real(0, 4),
)
SUBSET = "s < 0.3"
GUARANTEE = {"eps": 1, "delta": 1e-6, "schema": SCHEMA}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    s = rng.uniform(0, 1, N)
    k = np.where(s < 0.3, rng.choice(["a", "b", "c"], N, p=[0.2, 0.5, 0.3]), "a").astype(object)
    k[::50] = None
    v = np.where(s < 0.3, rng.normal(1, 1, N), 5.0)
    v[::40] = np.nan
    return pd.DataFrame(
        {
            "k": k,
            "g": rng.choice(["x", "y"], N),
            "s": s,
            "v": v,
            "w": rng.choice([0.5, 1.0, 2.0], N),
            "psu": rng.integers(0, 300, N),
            "id": np.arange(N) // PER,
        }
    )


def shares(fit, variable="k"):
    table = fit.tidy().query("measure == 'n'").dropna(subset=["share"])
    return table.set_index("level")["share"].to_numpy(float)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delta": 0.0},
        {"noise": "geometric"},
        {"design": dp.Survey(psu="psu", psus=300)},
        {"weights": "w"},
        {"design": dp.Survey(weights="w", psu="psu", psus=300)},
        {"design": dp.Survey(weights="w", psu="psu", psus=300, population=N * 1.2)},
    ],
    ids=str,
)
def test_shares_are_of_the_rows_inside(noiseless, data, options):
    inside = data[data["s"] < 0.3]
    weighted = "weights='w'" in str(options).replace('"', "'") or "weights" in options
    mass = inside["w"] if weighted else pd.Series(1.0, index=inside.index)
    names = inside["k"].fillna("(missing)")
    wanted = mass.groupby(names).sum().reindex(["a", "b", "c", "(missing)"]) / mass.sum()
    fit = dp.dp_table("~ k", data, subset=SUBSET, **{**GUARANTEE, **options})
    assert shares(fit) == pytest.approx(wanted.to_numpy(), abs=2e-3)


def test_people_count_by_the_rows_that_are_inside(noiseless, data):
    inside = data[data["s"] < 0.3]
    fit = dp.dp_table("~ k", data, subset=SUBSET, unit="id", **GUARANTEE)
    wanted = inside["k"].fillna("(missing)").value_counts(normalize=True)
    assert shares(fit) == pytest.approx(wanted[["a", "b", "c", "(missing)"]].to_numpy(), abs=1e-3)
    counts = fit.tidy()["estimate"]
    assert counts.sum() == pytest.approx(len(inside) / PER, abs=0.1)


@pytest.mark.parametrize("unit", [None, "id"])
def test_a_table_one_of_a_subset_is_that_of_its_rows(noiseless, data, unit):
    options = {**GUARANTEE, "by": "g", "medians": "v", "errors": True}
    part = data[data["s"] < 0.3]
    if unit is None:  # without noise, it is the table of the rows that are left
        asked = dp.dp_table("~ k + v", data, subset=SUBSET, **options)
        alone = dp.dp_table("~ k + v", part, **options)
        both = asked.tidy().merge(alone.tidy(), on="term", suffixes=("", "_alone"))
        assert both["estimate"].to_numpy() == pytest.approx(
            both["estimate_alone"].to_numpy(), rel=1e-6, abs=2e-2, nan_ok=True
        )
        assert both["share"].to_numpy() == pytest.approx(
            both["share_alone"].to_numpy(), abs=1e-6, nan_ok=True
        )
    text = str(dp.dp_table("~ k + v", data, subset=SUBSET, unit=unit, **options).summary())
    assert "leaves out" not in text
    shown = [row for row in text.splitlines() if row.strip().startswith("b ")]
    share = 100 * part["k"].value_counts(normalize=True)["b"]
    assert float(shown[0].split("(")[-1].split("±")[0]) == pytest.approx(share, abs=1)


def test_the_noise_of_a_share_holds_that_of_the_rows_inside(quiet):
    """Shares cover theirs: false alarms below 1e-4 of 60 draws at .95, fixed seeds."""
    rng = np.random.default_rng(5)
    n = 1500
    covered = 0
    draws = 60
    for seed in range(draws):
        frame = pd.DataFrame({"k": rng.choice(["a", "b"], n), "s": rng.uniform(0, 1, n)})
        schema = dp.Schema(k=dp.Levels(["a", "b"]), s=dp.Real(0, 1))
        fit = dp.dp_table(
            "~ k", frame, subset="s < 0.1", eps=0.3, delta=0.0, schema=schema, seed=seed
        )
        row = fit.tidy().iloc[0]
        covered += row["share_conf_low"] <= 0.5 <= row["share_conf_high"]
    assert covered >= 48


def test_a_subset_that_is_not_clear_of_its_noise_has_no_shares(quiet, data):
    fit = dp.dp_table("~ k", data, subset="s < 0.0005", seed=3, **{**GUARANTEE, "eps": 0.05})
    assert np.isnan(fit.tidy()["share"]).all()


def test_the_table_of_moments_of_a_subset_has_its_shares(noiseless, data):
    moments = dp.dp_moments("v + C(g) ~ 1", data, subset=SUBSET, method="joint", **GUARANTEE)
    inside = data[(data["s"] < 0.3) & data["v"].notna()]
    found = dp.dp_table("~ g", moments)
    assert shares(found)[:2] == pytest.approx(
        inside["g"].value_counts(normalize=True)[["x", "y"]].to_numpy(), abs=1e-4
    )
    assert found.tidy()["estimate"].iloc[-1] == 0.0
