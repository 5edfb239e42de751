"""Plans, ledgers, designs and options, character by character, in every format."""

from __future__ import annotations

import pytest

import dpmodels as dp
from dpmodels.planning import plan_table

SCHEMA = dp.Schema(
    quality=dp.Real(0, 10), alcohol=dp.Real(8, 15), pH=dp.Real(2.7, 4.1), kind=dp.Levels(["a", "b"])
)


def _plan():
    alone = {"method": "eptr", "scoring": False}
    return dp.plan("quality ~ alcohol + pH", SCHEMA, n=1599, eps=1, delta=1e-6, **alone)


def _budget():
    budget = dp.Budget(3, 1e-5)
    charge = budget.charge('dp_ols("quality ~ alcohol + pH", method="eptr")', _plan().guarantee)
    budget.note(charge, "lower bound and test", "NO REPLY")
    return budget


CASES = {
    "plan": _plan,
    "ledger": _budget,
    "describe": lambda: dp.describe("quality ~ alcohol * kind + pH", SCHEMA),
    "options": lambda: dp.methods("objpert"),
}


@pytest.mark.parametrize("fmt", ["text", "html", "tex", "md"])
@pytest.mark.parametrize("case", CASES)
def test_table(golden, case, fmt):
    shown = CASES[case]()
    golden(f"{case}.{'txt' if fmt == 'text' else fmt}", shown.render(fmt))
    assert str(shown) == shown.render("text")


def test_a_budget_reports_in_every_format():
    budget = _budget()
    for fmt in ("text", "html", "latex", "markdown"):
        assert budget.report(fmt) == budget.render(fmt) == getattr(budget, f"as_{fmt}")()
    assert budget._repr_latex_() == budget.as_latex()


def test_the_plan_of_a_fit_is_its_table():
    plan = _plan()
    assert str(plan_table(plan)) == str(plan) and repr(plan).startswith("<plan of dp_ols")
