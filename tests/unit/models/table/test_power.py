"""Fast checks of size and coverage: a few hundred draws, fixed seeds, gross faults only."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.core.means import half_ranges
from dpmodels.models.table.table import shown_numbers
from dpmodels.models.table.testing import expected_sums, solve

SCHEMA = dp.Schema(y=dp.Real(0, 10), g=dp.Levels(["a", "b", "c"]), k=dp.Levels(["1", "2"]))


@pytest.mark.parametrize("formula", ["y ~ g", "y ~ 1", "~ g + k"])
def test_noise_alone_keeps_the_level(formula):
    """250 nulls where noise is nearly all: size .05 exceeds .11 with probability below 1e-4."""
    rng = np.random.default_rng(5)
    kw = {"mu0": 5.0} if formula == "y ~ 1" else {}
    plan = dp.plan(formula, SCHEMA, n=400, eps=0.1, delta=1e-6, verb="dp_test", **kw)
    exact = expected_sums(plan.request, plan.design, plan.detail, 400, 0.0)
    sd = plan.detail.noise.sds(plan.detail.layout)
    hits = [
        solve(plan.detail, plan.design, exact + sd * rng.normal(size=exact.size), 400).test.p_value
        < 0.05
        for _ in range(250)
    ]
    assert 0.005 <= np.mean(hits) <= 0.11


def test_counts_are_covered():
    """60 tables of 12 cells: mean coverage within .05 of .95, more than five sds."""
    rng = np.random.default_rng(6)
    plan = dp.plan("~ g * k", SCHEMA, n=100, eps=0.5, delta=0, verb="dp_table")
    layout, noise = plan.detail.layout, plan.detail.noise
    joint = np.array([[0.0, 1, 0], [40, 20, 0], [1, 38, 0], [0, 0, 0]])
    exact = np.concatenate([
        joint.sum(axis=tuple(j for j in (0, 1) if j not in b.axes)).ravel() for b in layout.blocks
    ])  # fmt: skip
    truth = np.concatenate([
        joint.sum(axis=tuple(j for j in (0, 1) if j not in s.axes)).ravel()
        for s in layout.sections
    ])  # fmt: skip
    scale = noise.sds(layout)
    hits = np.zeros(len(truth))
    for _ in range(60):
        noisy = exact + scale * rng.laplace(size=len(exact))
        found = shown_numbers(
            layout, noise, {"table": noisy}, half_ranges(plan.design), 100, level=0.95,
            suppress=None, points=None,
        )[0]  # fmt: skip
        hits += (found["low"] <= truth) & (truth <= found["high"])
    assert np.mean(hits / 60) == pytest.approx(0.95, abs=0.05)
    assert (found["low"] + found["high"]) / 2 == pytest.approx(found["estimate"])


def test_a_plan_goes_by_the_arguments_of_the_verb():
    kw = {"n": 500, "eps": 1, "delta": 1e-6}
    table = dp.plan("~ y + k", SCHEMA, verb="dp_table", by="g", **kw)
    assert table.request.formula == "y + k ~ g"
    assert dp.plan("y", SCHEMA, verb="dp_quantile", **kw).request.method.name == "tree"
    assert dp.plan("y", SCHEMA, verb="dp_quantile", inference=False, **kw).request.method.name == "em"
    two = SCHEMA.update(x=dp.Real(0, 10))
    assert dp.plan("y ~ x", two, verb="dp_test", test="paired", **kw).detail.kind == "mean"
    some = dp.plan("~ y", SCHEMA, verb="dp_test", test=lambda part: 0.5, **kw)
    assert some.request.method.name == "subsample"
