from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import BudgetExceededError, DPModelsWarning

SCHEMA = {"x": (-1, 1), "y": (-2, 2)}


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 400)
    return pd.DataFrame({"x": x, "y": 0.5 * x + rng.normal(0, 0.2, 400)})


def fit(frame, **kw):
    args = {"eps": 1, "delta": 1e-6, "method": "eptr", "bounds": SCHEMA, **kw}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_ols("y ~ x", frame, **args)


def test_two_calls_share_a_file(frame, tmp_path):
    budget = dp.Budget.open(tmp_path / "study.ledger", eps=3, delta=1e-5, label="toy")
    fit(frame, budget=budget)
    with budget:
        fit(frame)
    assert len(budget.charges) == 2
    assert budget.to_frame()["call"].nunique() == 2
    assert 1 < budget.eps_spent(2e-6) < 2
    assert (
        'dp_ols("y ~ x", method="eptr")'
        in dp.Budget.open_readonly(tmp_path / "study.ledger").report()
    )


def test_overspending_reads_and_charges_nothing(frame, monkeypatch):
    import dpmodels.sources.rows

    budget = dp.Budget(1.2, 2e-6)
    fit(frame, budget=budget)

    def touched(*args, **kw):
        raise AssertionError("rows were reached")

    monkeypatch.setattr(dpmodels.sources.rows, "Rows", touched)
    before = budget.account
    with pytest.raises(BudgetExceededError, match="Nothing was read"):
        fit(frame, budget=budget)
    assert budget.account == before
    assert len(budget.charges) == 1


def test_a_failure_after_the_charge_keeps_the_charge(frame, monkeypatch):
    import dpmodels.sources.rows

    budget = dp.Budget(3, 1e-5)

    def crash(*args, **kw):
        raise KeyboardInterrupt

    monkeypatch.setattr(dpmodels.sources.rows, "Rows", crash)
    with pytest.raises(KeyboardInterrupt):
        fit(frame, budget=budget)
    assert len(budget.charges) == 1


def test_fits_compose_below_their_sums(frame):
    budget = dp.Budget(6, 5e-5)
    fits = [fit(frame, budget=budget) for _ in range(3)]
    assert budget.joint().eps_at(3e-6) < sum(f.privacy.eps for f in fits)
