"""Means and shares of a table by design have design effects of their own."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
UNITS, SIZE = 120, 30
SCHEMA = dp.Schema(y=dp.Real(0, 1), z=dp.Real(0, 1), g=dp.Levels(["a", "b"]))


def sample(seed):
    """Villages differ in y (design effect 9), and in nothing else."""
    rng = np.random.default_rng(seed)
    village = np.repeat(np.arange(UNITS), SIZE)
    y = 0.5 + rng.normal(0, 0.1, UNITS)[village] + rng.normal(0, 0.15, len(village))
    d = pd.DataFrame({"village": village, "y": y.clip(0, 1), "g": rng.choice(["a", "b"], len(y))})
    return d.assign(z=rng.uniform(0, 1, len(y)))


@pytest.mark.parametrize("fpc", [None, 2.0 * UNITS])
def test_both_are_those_of_an_exact_analysis(fpc):
    """Averages over 6 samples: within a sixth where units differ, and never 1.4 times too large."""
    ratios = []
    for seed in range(6):
        d = sample(seed)
        survey = dp.Survey(psu="village", psus=UNITS, fpc=fpc)
        call = {"schema": SCHEMA, "design": survey, "eps": 60, "delta": 1e-6, "seed": seed}
        table = dp.dp_table("y + z ~ g", d, **call).tidy().set_index("term")
        mean = dp.dp_mean("y ~ 1", d, **call)
        part = UNITS / (UNITS - 1) * (1.0 if fpc is None else 0.5)

        def exact(scores, d=d, part=part):
            sums = pd.Series(scores).groupby(d["village"].to_numpy()).sum()
            return np.sqrt(part * float((sums**2).sum())) / len(d)

        a = (d["g"] == "a").to_numpy()
        ratios.append([
            table.loc["mean(y)", "std_error_sampling"] / exact(d["y"] - d["y"].mean()),
            table.loc["mean(z)", "std_error_sampling"] / exact(d["z"] - d["z"].mean()),
            table.loc["n[g=a]", "share_std_error"] / exact(a - a.mean()),
            mean.bse_sampling.iloc[0] / exact(d["y"] - d["y"].mean()),
        ])  # fmt: skip
    found = np.mean(ratios, axis=0)
    assert found[[0, 3]] == pytest.approx(np.ones(2), rel=1 / 6), found
    assert (found > 0.85).all() and (found < 1.4).all(), found
