"""Size and power of private tests, coverage of private tables and quantiles. Slow.

Every cell of sizes has 4000 nulls: a test of true size .05 exceeds .06 with probability .002.
Values are drawn from a few points, so that sums of 50 000 rows come from one multinomial draw.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.means import half_ranges
from dpmodels.models.table.layout import spread_out
from dpmodels.models.table.table import shown_numbers
from dpmodels.models.table.testing import pair_noise, solve

pytestmark = pytest.mark.slow
SCHEMA = dp.Schema(
    y=dp.Real(0, 10), x=dp.Real(0, 10), two=dp.Levels(["a", "b"]), four=dp.Levels(list("abcd")),
    k=dp.Levels(["1", "2", "3"]),
)  # fmt: skip
POINTS = np.linspace(0.5, 9.5, 7)


def law(mean, sd):
    """Probabilities on the points with this mean and sd (an exponential tilt)."""
    from scipy.optimize import fsolve

    def p(t):
        w = np.exp(t[0] * (POINTS - 5) + t[1] * (POINTS - 5) ** 2)
        return w / w.sum()

    def gap(t):
        m = p(t) @ POINTS
        return [m - mean, np.sqrt(max(p(t) @ POINTS**2 - m * m, 0)) - sd]

    return p(fsolve(gap, [0.0, -0.5 / sd**2]))


def plan_of(formula, n, eps, **kw):
    return dp.plan(formula, SCHEMA, n=n, eps=eps, delta=1e-6, verb="dp_test", **kw)


def group_sums(plan, draws, groups):
    """(reps, statistics): low, middle, high of each group, in the order of the axes."""
    layout = plan.detail.layout
    (block,) = layout.blocks
    centre, half = half_ranges(plan.design)
    t = (POINTS - centre[block.number]) / half[block.number]
    parts = spread_out(*(draws @ w for w in (np.ones(len(t)), t, t * t)))  # (3, reps, groups)
    cells = np.zeros((4, len(draws), groups + bool(layout.group(block))))
    cells[:3, :, :groups] = parts
    order = (1, 0, 2) if block.axes[0] == layout.number_axis(block.number) else (1, 2, 0)
    return cells.transpose(order).reshape(len(draws), -1)


def noisy(plan, exact, rng):
    facts = plan.detail
    sd = pair_noise(facts.mu) if facts.layout is None else facts.noise.sds(facts.layout)
    return exact + rng.normal(size=exact.shape) * sd


def rejections(plan, exact, rng):
    sums = noisy(plan, exact, rng)
    return np.mean([solve(plan.detail, plan.design, s, plan.n).test.p_value < 0.05 for s in sums])


def draws_by_group(rng, n, shares, laws, reps):
    cells = np.concatenate([s * p for s, p in zip(shares, laws, strict=True)])
    return rng.multinomial(n, cells, reps).reshape(reps, len(shares), -1).astype(float)


def null_sums(kind, plan, n, reps, rng):
    if kind == "one":
        return group_sums(plan, draws_by_group(rng, n, [1.0], [law(4.5, 1.4)], reps), 1)
    if kind == "two":
        laws = [law(4.5, 0.9), law(4.5, 2.0)]
        return group_sums(plan, draws_by_group(rng, n, [0.4, 0.6], laws, reps), 2)
    if kind == "four":
        laws = [law(4.5, s) for s in (0.8, 1.2, 1.6, 2.0)]
        return group_sums(plan, draws_by_group(rng, n, [0.1, 0.2, 0.3, 0.4], laws, reps), 4)
    if kind == "fit":
        return np.pad(rng.multinomial(n, [0.2, 0.3, 0.5], reps).astype(float), [(0, 0), (0, 1)])
    if kind == "independence":
        p = np.outer([0.3, 0.7], [0.2, 0.3, 0.5])
        X = np.zeros((reps, 3, 4))
        X[:, :2, :3] = rng.multinomial(n, p.ravel(), reps).reshape(reps, 2, 3)
        return X.reshape(reps, -1)
    a, b = law(4.0, 1.0), law(6.0, 2.0)
    joint = rng.multinomial(n, np.outer(a, b).ravel(), reps).reshape(reps, 7, 7).astype(float)
    t = (POINTS - 5) / 5
    x, y = np.meshgrid(t, t, indexing="ij")
    return np.stack([(joint * w).sum(axis=(1, 2)) for w in (1 + 0 * x, x, y, x * x, x * y, y * y)],
                    axis=1)  # fmt: skip


CALLS = {
    "one": ("y ~ 1", {"mu0": 4.5}), "two": ("y ~ two", {}), "four": ("y ~ four", {}),
    "fit": ("~ k", {"p": [0.2, 0.3, 0.5]}), "independence": ("~ two + k", {}),
    "correlation": ("~ y + x", {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CALLS)
def test_size(kind):
    rng = np.random.default_rng(11)
    formula, kw = CALLS[kind]
    for n in (200, 2000, 50_000):
        for eps in (0.1, 1.0):
            plan = plan_of(formula, n, eps, **kw)
            size = rejections(plan, null_sums(kind, plan, n, 4000, rng), rng)
            print(f"{kind}, n = {n}, eps = {eps}: {size:.4f}")
            assert size <= 0.06


@pytest.mark.parametrize(("n", "eps", "effect"), [(2000, 1.0, 0.22), (50_000, 0.1, 0.1),
                                                  (500, 1.0, 0.7)])  # fmt: skip
def test_power_is_what_the_plan_says(n, eps, effect):
    """6000 draws: sd .0065."""
    rng = np.random.default_rng(12)
    plan = plan_of("y ~ two", n, eps, effect=effect, sd=1.5)
    said = plan.scales[f"power against an effect of {effect:g} at level 0.05"]
    half = effect / 2
    laws = [law(5 - half, 1.5), law(5 + half, 1.5)]
    exact = group_sums(plan, draws_by_group(rng, n, [0.5, 0.5], laws, 6000), 2)
    found = rejections(plan, exact, rng)
    print(f"n = {n}, eps = {eps}, effect = {effect}: {found:.3f}, plan {said:.3f}")
    assert found == pytest.approx(said, abs=0.02)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("formula", ["~ k", "~ two * k"])
def test_counts_are_covered(kind, formula):
    """2000 replications a cell, cells of 0 and 1 included: .94 to .96 is 2 sds, so of the mean."""
    rng = np.random.default_rng(13)
    n = 300
    plan = dp.plan(formula, SCHEMA, n=n, eps=0.7, delta=1e-6, verb="dp_table", noise=kind)
    layout, noise = plan.detail.layout, plan.detail.noise
    cells = {1: np.array([0.0, 1, 299, 0]),
             2: np.array([[0, 1, 150, 0], [100.0, 48, 1, 0], [0, 0, 0, 0]])}  # fmt: skip
    joint = cells[len(layout.axes)]
    parts, truth = [], []
    for block in layout.blocks:
        gone = tuple(j for j in range(joint.ndim) if j not in block.axes)
        parts.append(joint.sum(axis=gone).ravel())
    for section in layout.sections:
        gone = tuple(j for j in range(joint.ndim) if j not in section.axes)
        truth.append(joint.sum(axis=gone).ravel())
    exact, truth = np.concatenate(parts), np.concatenate(truth)
    scale = noise.sds(layout)
    hits = np.zeros(len(truth))
    reps = 2000
    for _ in range(reps):
        z = rng.laplace(size=len(exact)) if kind == "laplace" else rng.normal(size=len(exact))
        found = shown_numbers(
            layout, noise, {"table": exact + scale * z}, half_ranges(plan.design), n,
            level=0.95, suppress=None, points=None,
        )[0]  # fmt: skip
        hits += (found["low"] <= truth) & (truth <= found["high"])
    cover = hits / reps
    print(kind, formula, np.round(cover, 3))
    assert (cover > 0.935).all() and (cover < 0.965).all()
    assert 0.94 <= cover.mean() <= 0.96


@pytest.mark.parametrize(("eps", "n"), [(1.0, 2000), (0.1, 20_000)])
@pytest.mark.parametrize("heaps", [False, True])
def test_quantiles_are_covered(eps, n, heaps):
    """300 fits: sd .013. Ends lie half a step of the grid (.025) outside: above .95 by so much."""
    rng = np.random.default_rng(14)
    q = [0.1, 0.5, 0.9]
    big = rng.gamma(4, 4, 2_000_000)
    if heaps:
        big = np.round(big / 2.5) * 2.5
    true = np.quantile(big, q)
    hits = np.zeros(3)
    for seed in range(300):
        sample = pd.DataFrame({"w": rng.choice(big, n)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = dp.dp_quantile("w", sample, q=q, eps=eps, delta=1e-6, bounds={"w": (0, 100)},
                                 seed=seed)  # fmt: skip
        ends = fit.conf_int().to_numpy()
        hits += (ends[:, 0] <= true + 0.02) & (true - 0.02 <= ends[:, 1])
    print(f"eps = {eps}, n = {n}, heaps {heaps}: {np.round(hits / 300, 3)}")
    assert (hits / 300 >= 0.915).all()
    if not heaps:
        assert (hits / 300 <= 0.99).all()


def test_the_test_of_tests_keeps_its_level():
    """2000 nulls of a z test in parts: sd .005."""
    from dpmodels.models.table import nulls as subsample

    rng = np.random.default_rng(15)
    eps, m, a0 = 1.0, 40, 0.3
    x = rng.binomial(m, a0, 4000)
    b = np.exp(-eps)
    z = x + rng.geometric(1 - b, 4000) - rng.geometric(1 - b, 4000) + rng.uniform(-0.5, 0.5, 4000)
    p = np.array([subsample.p_value(v, m, a0, eps) for v in z])
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.012)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.03)
