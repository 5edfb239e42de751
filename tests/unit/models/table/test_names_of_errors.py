"""No bound stands under the name of an error, and no level without a row is in a test."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

N = 3000
RNG = np.random.default_rng(2)
DATA = pd.DataFrame(
    {
        "k": RNG.choice(["a", "b"], N),
        "h": RNG.choice(["x", "y", "z"], N),
        "v": RNG.normal(50, 3, N),
        "id": np.arange(N) // 3,
    }
)
WIDE = {"k": dp.Levels(list("abcdefg")), "h": dp.Levels(list("xyzuvw")), "v": dp.Real(0, 100)}
NARROW = {"k": dp.Levels(["a", "b"]), "h": dp.Levels(["x", "y", "z"]), "v": dp.Real(0, 100)}
GUARANTEE = {"eps": 4, "delta": 1e-6}


@pytest.mark.parametrize(("formula", "df"), [("~ k * h", 2), ("v ~ h", 2), ("v ~ k", 1)])
@pytest.mark.parametrize("unit", [None, "id"])
def test_levels_that_no_row_has_are_not_in_a_test(quiet, formula, df, unit):
    wide = dp.dp_test(formula, DATA, schema=WIDE, unit=unit, seed=1, **GUARANTEE)
    assert wide._record.estimate.stats["df"] == df
    assert any("Not in the test" in note for note in wide.notes)
    narrow = dp.dp_test(formula, DATA, schema=NARROW, unit=unit, seed=1, **GUARANTEE)
    assert narrow._record.estimate.stats["df"] == df
    assert not any("Not in the test" in note for note in narrow.notes)


def test_table_one_counts_the_same_degrees_of_freedom(noiseless):
    p = []
    for schema in (WIDE, NARROW):
        fit = dp.dp_table("~ h", DATA, by="k", p_values=True, schema=schema, eps=500, delta=1e-6)
        row = next(x for x in str(fit.summary()).splitlines() if x.strip().startswith("h"))
        p.append(float(row.split()[-1]))
    assert p[0] == pytest.approx(p[1], abs=0.003)


def test_a_test_of_nothing_with_empty_levels_keeps_its_level(quiet):
    """80 tests at .05, fixed seeds: 11 or more rejections once in 1 000."""
    rejected = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"k": rng.choice(["a", "b"], 800), "h": rng.choice(["x", "y"], 800)})
        fit = dp.dp_test("~ k * h", frame, schema=WIDE, seed=seed, eps=1, delta=1e-6)
        rejected += fit.pvalue < 0.05
    assert rejected < 11


def test_the_error_of_an_sd_is_no_bound(noiseless):
    table = dp.dp_table("v ~ k", DATA, schema=NARROW, eps=500, delta=1e-6).tidy()
    row = table[table["term"] == "sd(v)"].iloc[0]
    assert row["std_error_sampling"] == pytest.approx(3 / np.sqrt(2 * N), rel=0.05)
    # the interval holds for any values in the range
    assert row["conf_high"] - row["estimate"] > 3 * 1.96 * row["std_error_sampling"]


def test_a_histogram_gives_the_error_of_heavy_tails(noiseless):
    heavy = DATA.assign(v=np.clip(50 + 4 * RNG.standard_t(5, N), 0, 100))
    table = dp.dp_table("~ v", heavy, schema=NARROW, histogram=60, eps=500, delta=1e-6).tidy()
    row = table[table["term"] == "sd(v)"].iloc[0]
    v = heavy["v"] - heavy["v"].mean()
    wanted = np.sqrt(((v**4).mean() - (v**2).mean() ** 2) / (4 * N * (v**2).mean()))
    assert row["std_error_sampling"] == pytest.approx(wanted, rel=0.15)


def test_the_sd_of_people_is_headed_so(quiet):
    text = str(dp.dp_table("v ~ k", DATA, schema=NARROW, unit="id", **GUARANTEE).summary())
    assert "sd of people" in text
    assert "sd of people" not in str(
        dp.dp_table("v ~ k", DATA, schema=NARROW, **GUARANTEE).summary()
    )
    both = dp.dp_table("~ v + k", DATA, by="h", schema=NARROW, unit="id", **GUARANTEE)
    assert "mean (SD of people)" in str(both.summary()).replace("Mean", "mean")
