"""A mean of persons has one error, whichever verb prints it."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.tables import means_of_people

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
SCHEMA = dp.Schema(x=dp.Real(0, 1), g=dp.Levels(["a", "b"]))
CALL = {"eps": 50, "delta": 1e-6, "schema": SCHEMA, "unit": "id", "seed": 1}


def people(alike, N=2000, rows=10):
    """Rows of a person are independent, or all the same."""
    rng = np.random.default_rng(5)
    x = np.repeat(rng.uniform(0, 1, N), rows) if alike else rng.uniform(0, 1, N * rows)
    g = np.repeat(rng.choice(["a", "b"], N), rows)
    d = pd.DataFrame({"id": np.repeat(np.arange(N), rows), "x": x, "g": g})
    return d.sample(frac=1.0, random_state=2)


@pytest.mark.parametrize("alike", [False, True])
def test_tables_tests_and_means_agree(alike):
    """Seeded; each within a twentieth of the exact error of the mean of people's means."""
    d = people(alike)
    each = d.groupby("id")["x"].mean().dropna()
    exact = each.std() / np.sqrt(len(each))
    mean = dp.dp_mean("x ~ 1", d, **CALL)
    table = dp.dp_table("~ x", d, **CALL).tidy().set_index("term")
    by_group = dp.dp_table("x ~ g", d, **CALL).tidy().set_index("term")
    for found in (mean.bse_sampling.iloc[0], table.loc["mean(x)", "std_error_sampling"],
                  by_group.loc["mean(x)", "std_error_sampling"]):  # fmt: skip
        assert found == pytest.approx(exact, rel=0.05)
    own = d[d["g"] == "a"].groupby("id")["x"].mean().dropna()
    wanted = own.std() / np.sqrt(len(own))
    test = dp.dp_test("x ~ g", d, **CALL)
    assert by_group.loc["mean(x)[g=a]", "std_error_sampling"] == pytest.approx(wanted, rel=0.05)
    assert test.bse["mean(x)[g=a]"] == pytest.approx(wanted, rel=0.05)
    assert table.loc["sd(x)", "estimate"] == pytest.approx(each.std(), rel=0.05)


def test_a_difference_between_groups_of_people_is_seen():
    d = people(alike=False)
    d["x"] = (d["x"] * 0.98 + 0.02 * (d["g"] == "b")).clip(0, 1)
    each = d.groupby(["id", "g"])["x"].mean().dropna().reset_index()
    a, b = (each.loc[each["g"] == g, "x"] for g in "ab")
    exact = (a.mean() - b.mean()) ** 2 / (a.var() / len(a) + b.var() / len(b))
    assert dp.dp_test("x ~ g", d, **CALL).statistic == pytest.approx(exact, rel=0.25)


def test_means_of_people_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(3)
    t, key = rng.uniform(-1, 1, 500), rng.integers(0, 40, 500)
    t[rng.random(500) < 0.1] = np.nan
    order = rng.permutation(500)
    whole = np.floor(rng.choice([0.3, 1.0], 40)[key] * 2**20)  # weights constant in a key
    for mass in (np.full(500, 2.0**20), whole):
        found = means_of_people(t, key, mass)
        again = means_of_people(t[order], key[order], mass[order])
        assert np.array_equal(found[order], again, equal_nan=True)
        wanted = pd.Series(t).groupby(key).transform("mean").to_numpy()
        there = ~np.isnan(t)
        np.testing.assert_allclose(found[there], wanted[there], atol=1e-6)
        assert np.isnan(found[~there]).all()
