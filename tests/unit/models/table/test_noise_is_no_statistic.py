"""Table 1 prints a point for means, quantiles and standard deviations that are noise.

Ten groups of 20 to 100 persons at eps 1; twelve fixed seeds, so no false alarms.
"""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.table import table_one

SCHEMA = dp.Schema(g=dp.Levels([f"g{i}" for i in range(10)]), age=dp.Real(18, 80), tenure=dp.Real(0, 40))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(10), np.linspace(20, 100, 10).astype(int))
    n = len(g)
    return pd.DataFrame({
        "g": [f"g{i}" for i in g], "age": rng.normal(45, 12, n).clip(18, 80),
        "tenure": rng.exponential(2.5, n).clip(0, 40),
    })  # fmt: skip


@pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
@pytest.mark.parametrize("medians", [None, True])
def test_unmarked_values_are_right_within_their_errors(people, medians, monkeypatch):
    """"0.00 (.)" was printed for a mean of 2.55 with noise 2.7, and sds that noise had made."""
    printed, made = [], table_one.number_of
    monkeypatch.setattr(
        table_one, "number_of", lambda *a, **k: printed.append(made(*a, **k)) or printed[-1]
    )
    off = []
    for seed in range(12):
        printed.clear()
        fit = dp.dp_table("~ age + tenure", people, by="g", eps=1, delta=1e-6, schema=SCHEMA,
                          seed=seed, medians=medians)  # fmt: skip
        text = str(fit.summary(errors=True))
        assert " 0.0±" not in text.replace("n = 0", "")
        for variable in printed:
            ends = SCHEMA[variable.label].interval
            for k, (_, cells) in enumerate(people.groupby("g")[variable.label]):
                true = (cells.mean(), cells.std()) if medians is None else cells.quantile([0.5, 0.25, 0.75])
                for value, error, is_ in zip(variable.values, variable.errors, true, strict=True):
                    if np.isfinite(value[k]):
                        assert ends[0] < value[k] < ends[1]
                        off.append(abs(value[k] - is_) > 2 * error[k])
    assert np.mean(off) < 0.1
