"""Quantiles: the exponential mechanism, the tree, and what they refuse."""

import decimal
import math
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, NotPrivateWarning
from dpmodels.models.table.ranks import fraction, grid_for, grid_of, histogram, move, penalties
from dpmodels.models.table.tree import WAYS, Tree, isotonic, levels_for, tree_counts
from dpmodels.privacy.exponential import exponential_weights
from dpmodels.privacy.mechanisms import Pure
from dpmodels.privacy.noise import ExactNoise, SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.privacy.steps import Step


def test_weights_of_the_exponential_mechanism_are_exponentials():
    rate = 0.037
    w = exponential_weights(rate, 65_536)
    k = np.array([0, 1, 7, 500, len(w) - 1])
    assert [math.log(w[i]) - math.log(w[0]) for i in k] == pytest.approx(-rate * k, abs=1e-10)
    assert w[-1] > 1 << 300
    assert math.exp(-rate * (len(w) - 1)) * 65_536 < 1e-34
    assert len(exponential_weights(1e-9, 100, 1000)) == 1001


def test_weights_are_those_of_one_product_after_the_other():
    """Relative to 2^-190, at steps of two lists and where they meet; any denominator is cheap."""
    rate = 1.3 / (2 * 256 * 5000)
    w = exponential_weights(rate, 65_536)
    assert len(w) > 1 << 26 and len(w._fine) + len(w._coarse) < 1 << 16
    m = w._short
    with decimal.localcontext() as context:
        context.prec = 180
        for k in (1, m - 1, m, m + 1, 7 * m - 1, 7 * m, 12_345_678, len(w) - 1):
            want = (-decimal.Decimal(rate) * k).exp() * (1 << 512)
            assert abs(decimal.Decimal(w[k]) / want - 1) < decimal.Decimal(2) ** -190


def test_a_quantile_with_a_large_denominator_takes_no_list_of_steps():
    """q = .1234 has the denominator 5000: 53 s and 4 GB when every step had a weight."""
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, 1001)})
    before = time.process_time()
    with pytest.warns(NotPrivateWarning):
        fit = dp.dp_quantile("~ x", frame, q=0.1234, method="em", eps=0.5, delta=0.0,
                             bounds={"x": (0.0, 1.0)}, seed=1)  # fmt: skip
    assert time.process_time() - before < 20.0
    assert abs(fit.params.iloc[0] - 0.1234) < 0.2


@pytest.mark.parametrize("noise", [ExactNoise(), SeededNoise(5)])
def test_choices_have_the_probabilities_of_the_mechanism(noise):
    """4000 draws: five sds of each frequency, false alarms below 1e-5."""
    eps, table = 1.3, np.array([[0, 0, 1, 3, 200]])
    draws = np.array(
        [int(Run([Step("a", Pure(eps))], noise).choose("a", table)[0]) for _ in range(4000)]
    )
    p = np.exp(-eps * table[0] / 2)
    p /= p.sum()
    for k in range(5):
        assert abs((draws == k).mean() - p[k]) <= 5 * math.sqrt(p[k] / 4000) + 1e-12


def test_heaps_have_no_penalty():
    counts = np.array([[3, 0, 10, 0, 2]])
    found = penalties(counts, fraction(0.5))[0]
    assert found[2] == 0 and found[1] == 2 * (7.5 - 3) and found[3] == 2 * (13 - 7.5)
    assert move(fraction(0.9), grouped=True) == 18 and move(fraction(0.9), grouped=False) == 10


def test_the_grid_has_the_numbers_that_people_write():
    grid = grid_of((0.0, 75.0), 65_536)
    assert 16.25 in grid and 3.1 in grid and 7.5 in grid
    assert 0.9 * 65_536 / 2.5 < len(grid) <= 65_536
    assert grid_of((-1.0, 3.0), 64)[[0, -1]].tolist() == [-1.0, 3.0]
    assert len(grid_of((0.3, 0.30001), 11)) >= 2 and len(grid_of((5.0, 5.0), 11)) >= 2


def test_counts_have_a_grid_of_integers():
    plan = dp.plan("~ c", dp.Schema(c=dp.Count(52)), n=100, eps=1, delta=1e-6, verb="dp_quantile",
                   method="tree")  # fmt: skip
    assert grid_for(plan.design, 0, 4096).tolist() == list(range(53))


def test_values_go_to_the_nearest_point_of_their_group():
    block = np.array([[0.04, 0.06, np.nan, 9.0, -1.0], [0, 1, 1, 1, 2]])
    counts = histogram([block], 0, np.array([0.0, 0.1, 0.2]), {1: 3})
    assert counts.tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]


def dense_tree(levels):
    """Rows of A: level 1, missing, level 2, ...; unknowns: leaves, missing."""
    leaves = WAYS**levels
    rows = []
    for k in range(1, levels + 1):
        width = leaves // WAYS**k
        for j in range(WAYS**k):
            row = np.zeros(leaves + 1)
            row[j * width : (j + 1) * width] = 1
            rows.append(row)
        if k == 1:
            rows.append(np.eye(leaves + 1)[-1])
    return np.array(rows)


def test_the_tree_is_least_squares():
    rng = np.random.default_rng(4)
    levels, v = 3, 2.5
    A = dense_tree(levels)
    y = rng.normal(10, 5, len(A))
    total = np.ones((1, WAYS**levels + 1))
    big = np.vstack([A, total])
    w = np.append(np.full(len(A), 1 / v), 1e6)
    V = np.linalg.inv((big.T * w) @ big)
    x = V @ (big.T * w) @ np.append(y, 300.0)
    tree = Tree(levels, v)
    leaves, missing = tree.fit(y, 300.0)
    assert leaves == pytest.approx(x[:-1], abs=1e-3)
    assert missing == pytest.approx(x[-1], abs=1e-3)
    assert leaves.sum() + missing == pytest.approx(300.0)
    c = (np.arange(64) < 23) - 0.3
    assert tree.functional_variance(c[None])[0] == pytest.approx(c @ V[:64, :64] @ c, rel=1e-4)


def test_counts_of_a_tree():
    counts = tree_counts(np.array([1, 2, 3, 4, 5, 6]), 7)
    assert counts.tolist()[:6] == [10, 11, 0, 0, 7, 1] and counts.sum() == 2 * 21 + 7
    assert [levels_for(k) for k in (2, 4, 5, 16, 17, 4096)] == [1, 1, 2, 2, 3, 6]


def test_isotonic():
    assert isotonic(np.array([1.0, 3, 2, 2, 5, 4])).tolist() == [
        1, pytest.approx(7 / 3), pytest.approx(7 / 3), pytest.approx(7 / 3), 4.5, 4.5,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def wages():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"wage": np.round(rng.gamma(4, 4, 5000) * 2) / 2, "g": "a"})
    frame.loc[:499, "wage"] = np.nan
    return frame


@pytest.mark.parametrize("method", ["em", "tree"])
def test_quantiles_of_the_values_that_are_there(wages, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        fit = dp.dp_quantile("wage", wages, q=[0.1, 0.5, 0.9], eps=5, delta=1e-6, method=method,
                             bounds={"wage": (0, 100)}, seed=1)  # fmt: skip
    true = wages["wage"].quantile([0.1, 0.5, 0.9]).to_numpy()
    assert fit.params.to_numpy() == pytest.approx(true, abs=0.6)
    ends = fit.conf_int().to_numpy()
    assert (ends[:, 0] <= true).all() and (true <= ends[:, 1]).all()
    assert "0.5" in str(fit.summary()) or "q0.5(wage)" in str(fit.summary())
    assert list(fit.tidy()) == ["term", "quantile", "estimate", "conf_low", "conf_high"]
    assert type(fit).from_json(fit.to_json()).tidy().equals(fit.tidy())
    if method == "em":
        pytest.importorskip("matplotlib")
        assert fit.plot().get_xlabel() == "probability"


def test_the_rule():
    def method(**kw):
        return dp.api.quantile.quantile_method(
            **{"q": 0.5, "inference": True, "delta": 1e-6, **kw}
        )[0]

    assert method() == "tree" and method(inference=False) == "em" and method(delta=0) == "em"
    assert method(inference=False, q=list(np.linspace(0.05, 0.95, 19))) == "tree"


def test_refusals(wages):
    def refused(match, formula="wage", **kw):
        arguments = {"eps": 1, "delta": 1e-6, "bounds": {"wage": (0, 100)}, **kw}
        with pytest.raises(DPModelsError, match=match):
            dp.dp_quantile(formula, wages, **arguments)

    schema = dp.Schema(wage=dp.Real(0, 100), g=dp.Levels(["a", "b"]))
    refused("q= takes", q=2)
    refused("q= is empty", q=[])
    refused("is not a number", "g", bounds=None, schema=schema)
    refused("quantiles by group", "wage ~ g", bounds=None, schema=schema)
    refused("delta = 0 buys no ranges", delta=0, bounds=None)
    refused("points", points=1)
    refused("must lie within", bounds={"wage": (-1.5e308, 1.5e308)})
