"""Quantiles: the exponential mechanism, the tree, and what they refuse."""

import decimal
import math
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.grids import WAYS, levels_for, outward, penalties, tree_counts
from dpmodels.errors import DPModelsError, NotPrivateWarning
from dpmodels.models.table.quantiles import (
    Cells,
    Tree,
    cells_for,
    counts_on,
    fraction,
    grid_for,
    grid_of,
    isotonic,
    leaves_for,
    rank_sd,
)
from dpmodels.privacy.mechanisms import Pure, Step
from dpmodels.privacy.noise import ExactNoise, SeededNoise, exponential_weights
from dpmodels.privacy.run import Run
from dpmodels.proof.prove import rank_sensitivity
from dpmodels.proof.statistics import Ranks


def test_weights_of_the_exponential_mechanism_are_exponentials():
    rate = 0.037
    w = exponential_weights(rate, 65_536)
    k = np.array([0, 1, 7, 500, len(w) - 1])
    assert [math.log(w[i]) - math.log(w[0]) for i in k] == pytest.approx(-rate * k, abs=1e-10)
    assert w[len(w) - 1] > 1 << 300
    assert math.exp(-rate * (len(w) - 1)) * 65_536 < 1e-34
    assert len(exponential_weights(1e-9, 100, 1000)) == 1001


def test_weights_are_those_of_one_product_after_the_other():
    """At most the roundings that are paid for; at steps where digits meet, whatever the rate."""
    for rate in (0.037, 1.3 / (2 * 256 * 5000), 1e-11):
        w = exponential_weights(rate, 65_536)
        assert sum(map(len, w._digits)) <= 256 * 6  # no list of steps
        with decimal.localcontext() as context:
            context.prec = 300
            for k in (1, 255, 256, 257, 65_535, 65_536, 12_345_678, len(w) - 2, len(w) - 1):
                if k >= len(w):
                    continue
                want = (-decimal.Decimal(rate) * k).exp() * (1 << 512)
                behind = want - decimal.Decimal(w[k])
                assert -(2.0**-60) * k <= behind <= 4 * k + 8
                assert behind / want < decimal.Decimal(2) ** -190


def test_a_quantile_with_a_large_denominator_takes_no_list_of_steps():
    """q = .1234 has the denominator 5000: 53 s and 4 GB when every step had a weight."""
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, 1001), "id": np.arange(1001) // 2})
    for unit in (None, "id"):
        before = time.process_time()
        tracemalloc.start()
        with pytest.warns(NotPrivateWarning):
            fit = dp.dp_quantile("~ x", frame, q=0.1234, method="em", eps=0.5, delta=0.0,
                                 bounds={"x": (0.0, 1.0)}, seed=1, unit=unit)  # fmt: skip
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - before < 20.0 and most < 300e6
        assert abs(fit.params.iloc[0] - 0.1234) < 0.3


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
    assert rank_sensitivity(Ranks(fraction(0.9), groups=True)) == 18 and rank_sensitivity(Ranks(fraction(0.9), groups=False)) == 10
    assert rank_sensitivity(Ranks(fraction(0.9), groups=True, offset=1)) == 20
    assert rank_sensitivity(Ranks(fraction(0.9), groups=False, offset=1)) == 10


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
    into, reading = counts_on(None, {0: np.array([0.0, 0.1, 0.2])}, 0, {1: 3})
    counts = into.counts_of_number(reading.over([block]), 0)
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
        return dp.api.tables.quantile_method(
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
    refused("q= must be", q=2)
    refused("q= is empty", q=[])
    refused("is not a number", "g", bounds=None, schema=schema)
    refused("quantiles by group", "wage ~ g", bounds=None, schema=schema)
    refused("delta = 0 estimates no ranges", delta=0, bounds=None)
    refused("points", points=1)
    refused("must lie within", bounds={"wage": (-1.5e308, 1.5e308)})


def neighbours(points, most, rng):
    """Counts and a neighbour: one of ``most`` steps of mass moves, enters, or leaves."""
    counts = rng.integers(0, 3, points) * most
    other = counts.copy()
    out, in_ = rng.integers(0, points, 2)
    part = int(rng.integers(0, most + 1)) if rng.random() < 0.5 else most
    kind = rng.integers(3)
    if kind != 1:
        counts[out] += part
    if kind != 2:
        other[in_] += int(rng.integers(0, most + 1)) if most > 1 else part
    return counts, other


@pytest.mark.parametrize("unit", [0, 8])
def test_one_row_moves_the_penalties_of_ends_by_one(unit):
    """4000 pairs: values and missing ones, targets before, inside and beyond the ranks."""
    rng = np.random.default_rng(8)
    worst = 0
    for _ in range(4000):
        q = fraction(rng.choice([0.01, 0.1, 1 / 3, 0.5, 0.9, 0.99]))
        pair = neighbours(5, unit or 1, rng)
        offset = int(rng.integers(-6, 7)) or 1
        a, b = (outward(c, q, offset, unit) for c in pair)
        assert a.shape == (6,) and min(a.min(), b.min()) >= 0
        worst = max(worst, int(np.abs(a - b).max()) / ((unit or 1) * q.denominator))
    assert worst == 1.0


def test_an_end_beyond_the_ranks_is_the_bound():
    """Cut to rank 0, the draw erred to one side only: .80 to .85 where .95 was said."""
    counts = np.array([0, 2, 3, 0, 5])
    low, high = outward(counts, fraction(0.1), -4), outward(counts, fraction(0.9), 4)
    assert low.tolist() == [0, *(10 * np.array([3, 3, 5, 8, 8]))]
    assert high.tolist() == [*(10 * np.array([13, 11, 8, 8, 3])), 0]
    inside = outward(counts, fraction(0.5), -1)
    assert inside[1:].tolist() == penalties(counts[None], fraction(0.5), -1)[0].tolist()
    assert inside[0] == 2 * 4


def test_ends_are_the_far_sides_of_cells():
    cells = Cells(np.array([0.2, 0.4, 0.6]), (0.1, 0.65), whole=False)
    low, high = cells.ends([-1, 0, 1, 2, 3], [-1, 0, 1, 2, 3])
    assert low == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.65])
    assert high == pytest.approx([0.1, 0.3, 0.5, 0.65, 0.65])
    bought = Cells(np.array([0.2, 0.4, 0.6]), (-np.inf, np.inf), whole=False)
    assert bought.ends([0, 1], [1, 2])[0].tolist() == [-np.inf, pytest.approx(0.3)]
    assert bought.ends([0, 1], [1, 2])[1].tolist() == [pytest.approx(0.5), np.inf]
    plan = dp.plan("~ c", dp.Schema(c=dp.Count(52)), n=100, eps=1, delta=1e-6, verb="dp_quantile",
                   method="tree")  # fmt: skip
    whole = cells_for(plan.design, 0, grid_for(plan.design, 0, 4096), bought=False)
    assert whole.step == 0 and whole.ends(3, 5) == (3.0, 5.0)
    assert "steps of" not in str(plan)


def test_leaves_grow_with_n_and_not_with_noise():
    assert [leaves_for(n, 10.0) for n in (1000, 10_000, 40_000, 200_000, 10**8)] == [
        4096, 4096, 16_384, 65_536, 65_536,
    ]  # fmt: skip
    assert leaves_for(20_000, 0.05) == 4096
    assert rank_sd(6) == pytest.approx(6.5, abs=0.1)


def coverage(method, draw, true, n, fits, q, bounds):
    rng = np.random.default_rng(31)
    hits = np.zeros(len(q))
    for seed in range(fits):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            fit = dp.dp_quantile("x", {"x": draw(rng, n)}, q=q, eps=1, delta=1e-6, method=method,
                                 bounds={"x": bounds}, seed=seed)  # fmt: skip
        low, high = fit.conf_int().to_numpy().T
        assert (low < high).all()
        hits += (low <= true) & (true <= high)
    return hits


@pytest.mark.statistical
def test_intervals_are_no_narrower_than_the_grid():
    """Exponential values in 1 % of the declared range: widths of 0, coverage 0.

    Seed 31, 30 fits, 4 quantiles: below 23 of 30 with probability 4e-5 each where it is .95.
    """
    q = [0.05, 0.25, 0.5, 0.9]
    hits = coverage("tree", lambda g, n: g.exponential(1.0, n), -np.log1p(-np.array(q)), 200_000,
                    30, q, (0, 100))  # fmt: skip
    assert (hits >= 23).all()


@pytest.mark.statistical
def test_extreme_ranks_of_the_exponential_mechanism_are_covered():
    """Seed 31, 100 fits: below 88 of 100 with probability .0015 each where it is .95."""
    q = [0.01, 0.99]
    hits = coverage("em", lambda g, n: g.uniform(0, 100, n), 100 * np.array(q), 2000, 100, q,
                    (0, 100))  # fmt: skip
    assert (hits >= 88).all()


@pytest.mark.parametrize("method", ["em", "tree"])
def test_nothing_is_said_of_values_beyond_a_bought_range(method):
    rng = np.random.default_rng(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_quantile("x", {"x": rng.normal(size=4000)}, q=[0.001, 0.5, 0.999], eps=1,
                             delta=1e-6, method=method, seed=1)  # fmt: skip
    ends = fit.conf_int().to_numpy()
    assert ends[0, 0] == -np.inf and ends[2, 1] == np.inf
    said = " ".join(str(fit.summary(full=True)).split())
    assert "-inf" in said and "half a step further out" in said and "range was estimated" in said
    assert type(fit).from_json(fit.to_json()).tidy().equals(fit.tidy())
