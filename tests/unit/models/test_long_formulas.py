"""Formulas of a thousand terms in verbs other than ``dp_ols``: hazards, effects, tables, curves."""

import numpy as np
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")

N = 2000
SCHEMA = {
    "y": dp.Real(0, 1), "x": dp.Real(0, 1), "t": dp.Real(0, 1), "e": dp.Binary(),
    "g": dp.Levels([0, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize(("verb", "formula", "options"), [
    ("dp_coxph", f"Surv(t, e) ~ {' + '.join(['x'] * 1000)}", {}),
    ("dp_feols", f"y ~ {' + '.join(['x'] * 1000)} | id", {"unit": "id", "rows_per_unit": 4}),
    ("dp_table", f"~ {' + '.join(['x'] * 1000)}", {}),
    ("dp_survfit", f"Surv(t, e) ~ {' + '.join(['g'] * 1000)}", {}),
])  # fmt: skip
def test_a_thousand_terms(verb, formula, options):
    rng = np.random.default_rng(0)
    data = {
        "y": rng.uniform(0, 1, N), "x": rng.uniform(0, 1, N), "t": rng.uniform(0, 1, N),
        "e": rng.integers(0, 2, N), "g": rng.integers(0, 3, N), "id": np.arange(N) // 4,
    }  # fmt: skip
    fit = getattr(dp, verb)(formula, data, eps=5, delta=1e-6, schema=SCHEMA, **options)
    assert len(str(fit.summary())) < 50_000
