"""``max_rows=``: rows of one person that go together in any way are allowed for."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

ROWS = 10
CALL = {"delta": 1e-6, "unit": "pid", "max_rows": ROWS}


def panel(people=400, seed=0):
    """Ten equal rows a person: whoever takes them for ten rows errs by a factor of root ten."""
    rng = np.random.default_rng(seed)
    value = rng.uniform(-1, 1, people)
    group, other = rng.choice(["a", "b"], people), rng.choice(["c", "d"], people)
    one = pd.DataFrame({"pid": np.arange(people), "y": value, "g": group, "h": other})
    return one.loc[np.repeat(np.arange(people), ROWS)].reset_index(drop=True)


BOUNDS = dp.Schema(y=dp.Real(-1, 1), g=dp.Levels(["a", "b"]), h=dp.Levels(["c", "d"]))


@pytest.mark.statistical
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ g", "~ g", "~ g + h"])
def test_tests_keep_their_level(quiet, formula):
    """Seeds 0-39, large eps: at level .05 more than 8 of 40 reject with probability 2e-4.

    Rows taken for independent rejected 16 of 40.
    """
    rejected = 0
    for seed in range(40):
        fit = dp.dp_test(formula, panel(seed=seed), eps=300.0, schema=BOUNDS, seed=seed, **CALL)
        rejected += fit.stats["p_value"] < 0.05
    assert rejected <= 8


def test_sampling_variances_are_ten_times_those_of_single_rows(quiet):
    data = panel(3000)
    call = {"eps": 2000.0, "schema": BOUNDS, "seed": 1, **CALL}
    truth = data.groupby("pid")["y"].first()
    fit = dp.dp_test("y ~ 1", data, **call)
    se = truth.std() / np.sqrt(len(truth))
    assert fit.bse_sampling.iloc[0] == pytest.approx(se, rel=0.02)
    assert "max_rows=10" in " ".join(fit.notes)
    z = (fit.params.iloc[0] / se) ** 2
    assert fit.stats["statistic"] == pytest.approx(z, rel=0.05)

    table = dp.dp_table("y ~ g", data, **call).tidy()
    means = table[table["statistic"] == "mean"] if "statistic" in table else table
    by_group = data[data.g == "a"].groupby("pid")["y"].first()
    width = 2 * 1.96 * by_group.std() / np.sqrt(len(by_group))
    found = [h - low for low, h in zip(means["conf_low"], means["conf_high"], strict=True)]
    assert any(w == pytest.approx(width, rel=0.05) for w in found)

    for method in ("tree", "em"):
        fit = dp.dp_quantile("y", data, q=0.5, method=method, bounds={"y": (-1, 1)},
                             **{k: v for k, v in call.items() if k != "schema"})  # fmt: skip
        low, high = fit.conf_int().to_numpy()[0]
        assert high - low > 0.95 * 2 * 1.96 * np.sqrt(0.25 / 3000) / 0.5
        assert "max_rows=10" in " ".join(fit.notes)

    data["x"] = data["y"] + np.repeat(np.random.default_rng(3).uniform(-1, 1, 3000), ROWS)
    bounds = {"x": (-2, 2), "y": (-1, 1)}
    fit = dp.dp_ols("y ~ x", data, eps=2000.0, bounds=bounds, seed=1, scoring=False, **CALL)
    people = data.groupby("pid")[["x", "y"]].first()
    X = np.column_stack([np.ones(len(people)), people["x"]])
    _, rss, *_ = np.linalg.lstsq(X, people["y"], rcond=None)
    se = np.sqrt(rss[0] / (len(people) - 2) * np.linalg.inv(X.T @ X)[1, 1])
    assert fit.bse_sampling["x"] == pytest.approx(se, rel=0.05)
    assert "r_squared_low" not in fit.stats


def test_a_test_of_ones_own_takes_one_row_a_person(quiet):
    budget = dp.Budget(eps=10, delta=1e-4, unit="pid")
    call = {"eps": 1.0, "delta": 0.0, "unit": "pid", "schema": BOUNDS, "budget": budget}

    def own(d):
        return 0.5

    with pytest.raises(RequestError, match="max_rows=1"):
        dp.dp_test("~ y", panel(), test=own, max_rows=2, **call)
    assert not budget.charges
    assert dp.dp_test("~ y", panel(), test=own, max_rows=1, **call).released
    with pytest.raises(RequestError, match="max_rows=1"):
        dp.dp_test("~ y + x", panel().assign(x=0.0), bounds={"x": (0, 1), "y": (0, 1)}, eps=1,
                   delta=1e-6, unit="pid")  # fmt: skip
