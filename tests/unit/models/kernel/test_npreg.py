"""Kernel regression: kernels, binning, sensitivities, the functional release, prediction."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.core.kernels import AtPoints, OnGrid
from dpmodels.errors import PrivacyBugError
from dpmodels.models.kernel import NpregDetail
from dpmodels.own import kernel_curve
from dpmodels.own.kernel_curve import at_points, gaussian, joint_norm
from tests.one_pass import sums_of

B = {"x": (-1, 1), "z": (-1, 1), "y": (-1, 1)}
CALL = dict(eps=1.0, delta=1e-6, bounds=B)


def direct_sums(blocks, formula, points, h):
    into = AtPoints(points, h)
    return at_points(into, sums_of(into, formula, blocks).arrays)


def binned_sums(blocks, formula, points, h):
    into = OnGrid(points, h)
    return at_points(into, sums_of(into, formula, blocks).arrays)



def table(n, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, size=(2, n))
    y = 0.7 * np.sin(3 * x) + 0.2 * z + rng.normal(0, 0.2, n)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def reader(z):
    return z[:-1], z[-1]


@pytest.mark.parametrize("d", [1, 2])
def test_binning_agrees_with_direct_sums(d):
    rng = np.random.default_rng(d)
    block = rng.uniform(-1, 1, size=(d + 1, 5000))
    block[-1, 7] = np.nan
    points = rng.uniform(-1, 1, size=(20, d))
    exact = direct_sums([block.copy()], reader, points, 0.2)
    fast = binned_sums([block[:, :999].copy(), block[:, 999:].copy()], reader, points, 0.2)
    assert fast[1] == pytest.approx(exact[1], rel=2e-3 if d == 2 else 2e-5)
    assert fast[0] == pytest.approx(exact[0], abs=(2e-3 if d == 2 else 1e-4) * exact[1].max())


@pytest.mark.parametrize("use", [direct_sums, binned_sums])
@pytest.mark.parametrize("d", [1, 2])
def test_functional_sensitivity(use, d):
    """|L^{-1}(dN, dD)| <= 2 for replaced rows, corners and missing ones; nearly attained."""
    rng = np.random.default_rng(5)
    points = rng.uniform(-1, 1, size=(30, d))
    h, worst = 0.3, 0.0
    K = gaussian(points, points, h) + 1e-8 * np.eye(30)
    L = np.linalg.cholesky(K)
    base = rng.uniform(-1, 1, size=(d + 1, 3))
    for trial in range(60):
        rows = []
        for _ in range(2):
            x = points[rng.integers(30)] if trial % 2 else rng.choice([-1.0, 0.3, 1.0], size=d)
            y = rng.choice([-1.0, 1.0, np.nan, 0.2])
            rows.append(np.append(x, y))
        sums = [use([np.column_stack([base, r])], reader, points, h) for r in rows]
        change = np.column_stack([sums[0][0] - sums[1][0], sums[0][1] - sums[1][1]])
        size = float(np.linalg.norm(np.linalg.solve(L, change)))
        assert size <= 2.0 * (1 + 1e-6)
        worst = max(worst, size)
    assert worst > 1.9


def test_pointwise_sensitivities():
    """|D - D'| <= 1, |f - f'| <= 2 / max(D, D'), and jointly sqrt(2) k2 times as much."""
    rng = np.random.default_rng(6)
    q = np.linspace(-1, 1, 7)[:, None]
    h = 0.5
    k2 = joint_norm(q, h)
    for _ in range(3000):
        n = int(rng.integers(1, 6))
        x, y = rng.uniform(-1, 1, n), rng.choice([-1.0, 1.0], n)
        x2, y2 = x.copy(), y.copy()
        x2[0], y2[0] = rng.choice([-1.0, 1.0, q[3, 0]]), rng.choice([-1.0, 1.0])
        D, D2 = (gaussian(q, v[:, None], h).sum(axis=1) for v in (x, x2))
        f = gaussian(q, x[:, None], h) @ y / D
        f2 = gaussian(q, x2[:, None], h) @ y2 / D2
        assert np.max(np.abs(D - D2)) <= 1 + 1e-12
        assert np.all(np.abs(f - f2) <= 2 / np.maximum(D, D2) * (1 + 1e-9))
        low = max(D.min(), D2.min())
        assert np.linalg.norm(f - f2) <= 2 * math.sqrt(2) * k2 / low * (1 + 1e-9)


@pytest.mark.oracle
def test_kernel_oracles():
    c0, n, D = 0.1, 100, 30.0
    assert max(0.0, D - c0 * n - 2.0) / 2.0 == 9
    assert 4.0 / (c0 * n) == 0.4
    assert (D - c0 * n, 2.0 / (c0 * n)) == (20.0, 0.2)


def test_functional_curve(quiet):
    fit = dp.dp_npreg("y ~ x", table(20_000), seed=1, **CALL)
    assert fit.released
    assert len(fit.params) == 41
    q = np.linspace(-0.9, 0.9, 31)
    curve = fit.predict(pd.DataFrame({"x": q}), interval="confidence")
    assert np.max(np.abs(curve["fit"] - 0.7 * np.sin(3 * q))) < 0.06
    assert (curve["lwr"] < curve["fit"]).all()
    at_points = fit.predict(pd.DataFrame({"x": fit.arrays["points"][:, 0]}))
    assert at_points.to_numpy() == pytest.approx(fit.params.to_numpy(), abs=1e-4)


def test_plot_shows_the_curve(quiet):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    fit = dp.dp_npreg("y ~ x", table(20_000), seed=1, **CALL)
    ax = fit.plot()
    assert ax.get_xlabel() == "x"
    assert ax.lines[0].get_ydata() == pytest.approx(fit.params.to_numpy())
    again = dp.results.Fit.from_dict(fit.to_dict())
    assert again.predict(pd.DataFrame({"x": [0.1]})).equals(fit.predict(pd.DataFrame({"x": [0.1]})))
    matplotlib.pyplot.close("all")


def test_two_variables_and_given_points(quiet):
    fit = dp.dp_npreg("y ~ x + z", table(20_000), seed=1, **CALL)
    assert len(fit.params) == 225
    at = pd.DataFrame({"x": [-0.5, 0.0, 0.5], "z": [0.0, 0.0, 0.0]})
    fit = dp.dp_npreg("y ~ x + z", table(20_000), seed=1, at=at, **CALL)
    assert fit.params.to_numpy() == pytest.approx(0.7 * np.sin(3 * at["x"]), abs=0.12)


def test_three_variables_need_points(quiet):
    frame = table(5000).assign(w=0.1)
    bounds = {**B, "w": (-1, 1)}
    with pytest.raises(ValueError, match="at="):
        dp.dp_npreg("y ~ x + z + w", frame, eps=1, delta=1e-6, bounds=bounds)
    at = pd.DataFrame({"x": [0.0], "z": [0.0], "w": [0.1]})
    fit = dp.dp_npreg("y ~ x + z + w", frame, eps=4, delta=1e-6, bounds=bounds, at=at, seed=1)
    assert fit.released


@pytest.mark.parametrize(
    "options",
    [
        {"eps": 4.0},
        {"c0": 0.05, "eps": 8.0, "h": 0.3},
        {"at": pd.DataFrame({"x": [0.0]}), "c0": 0.1, "h": 0.3},
        {"at": pd.DataFrame({"x": [0.0]}), "variant": "paper", "c0": 0.1, "eps": 4.0, "h": 0.3},
    ],
)
def test_eptr_forms(quiet, options):
    fit = dp.dp_npreg("y ~ x", table(50_000), seed=1, method="eptr", **{**CALL, **options})
    assert fit.released
    assert fit.privacy.delta_at(fit.privacy.eps) <= 1e-6 * (1 + 1e-8)
    q = fit.arrays["points"][:, 0]
    assert fit.params.to_numpy() == pytest.approx(0.7 * np.sin(3 * q), abs=0.35)


@pytest.mark.parametrize(
    ("formula", "options", "words"),
    [
        ("y ~ x", {"h": 0.0}, "h=0"),
        ("y ~ x", {"h": -1.0}, "h=-1"),
        ("y ~ x", {"method": "eptr", "variant": "paper", "c0": 0.1,
                   "at": pd.DataFrame({"x": np.linspace(-1, 1, 100)})}, "functional"),
        ("y ~ x", {"method": "eptr", "variant": "paper"}, "c0"),
        ("y ~ 1", {}, "numeric variable"),
        ("y ~ x", {"kernel": "epanechnikov"}, "no option 'kernel'"),
    ],
)  # fmt: skip
def test_refused(formula, options, words):
    with pytest.raises(ValueError, match=words):
        dp.dp_npreg(formula, table(100), **{**CALL, **options})


def test_prediction_draws_no_noise(quiet):
    fit = dp.dp_npreg("y ~ x", table(2000), **CALL)
    new = pd.DataFrame({"x": np.linspace(-1, 1, 50)})
    assert fit.predict(new).equals(fit.predict(new))


def test_detail_is_public():
    assert "points" in NpregDetail.__dataclass_fields__


def test_eptr_releases_the_points_that_pass_and_marks_the_others(quiet):
    """Few rows beyond .3: their points have no reply, and the others do not wait for them."""
    x = np.concatenate([np.random.default_rng(0).uniform(-1, 0.3, 20_000), [0.9]])
    frame = pd.DataFrame({"x": x, "y": 0.5 * x})
    call = dict(method="eptr", h=0.05, seed=1, delta=1e-6, bounds={"x": (-1, 1), "y": (-1, 1)})
    fit = dp.dp_npreg("y ~ x", frame, eps=4.0, **call)
    q, found = fit.arrays["points"][:, 0], np.isfinite(fit.params.to_numpy())
    assert found[q < 0.2].all() and not found[q > 0.5].any()
    se = fit.arrays["se"]
    assert (np.isfinite(se) == found).all()
    middle = (q > -0.9) & (q < 0.2)
    error = fit.params.to_numpy()[middle] - 0.5 * q[middle]
    assert np.abs(error / (se[middle] + 0.01)).max() < 5.0
    assert fit.predict(pd.DataFrame({"x": [0.0, 0.8]})).isna().tolist() == [False, True]
    nothing = dp.dp_npreg("y ~ x", frame[:30], eps=1.0, **call)
    assert not nothing.released


def masses_of(rows, points, h):
    """(N, D) at points of rows (x, y), by the direct sums."""
    blocks = [rows.T.copy()]
    return direct_sums(blocks, lambda b: (b[:1], b[1]), points, h)


def test_masses_and_kept_quotients_move_by_their_bounds():
    """Random and corner neighbours: sqrt 2 in the norm of L, and the joint factor of l f."""
    rng = np.random.default_rng(3)
    worst = [0.0, 0.0]
    for _ in range(400):
        h, m = float(rng.choice([0.05, 0.3, 1.0])), int(rng.integers(1, 8))
        points = np.sort(rng.uniform(-1, 1, m))[:, None]
        if rng.uniform() < 0.3:
            points = np.linspace(-1, 1, m)[:, None]
        n = int(rng.integers(2, 12))
        rows = np.column_stack([rng.choice([-1.0, 0.0, 1.0], n), rng.choice([-1.0, 1.0], n)])
        rows[rng.uniform(size=n) < 0.5, 0] = points[rng.integers(m), 0]
        other = rows.copy()
        other[0] = [rng.choice([-1.0, 1.0, points[0, 0]]), rng.choice([-1.0, 1.0])]
        (N, D), (N2, D2) = masses_of(rows, points, h), masses_of(other, points, h)
        L = kernel_curve.factor_of(points, h)
        moved = float(np.linalg.norm(np.linalg.solve(L, D - D2)))
        assert moved <= math.sqrt(2.0) * (1 + 1e-6)
        keep = np.maximum(D, D2) > 1e-3
        if keep.any():
            lower = np.maximum(D, D2)[keep]
            f, f2 = (np.where(d > 0, a / np.where(d > 0, d, 1), 0.0)[keep] for a, d in ((N, D), (N2, D2)))
            factor = kernel_curve._joint_factor(points[keep], h)
            change = float(np.linalg.norm(lower * (f - f2)))
            assert change <= factor * (1 + 1e-9)
            worst[1] = max(worst[1], change / factor)
        worst[0] = max(worst[0], moved / math.sqrt(2.0))
    assert worst[0] > 0.95 and worst[1] > 0.6


def test_lower_bounds_fail_less_often_than_charged(quiet):
    """2 000 draws, delta_f = .02 over eight points: at most 60 failures (false alarm below .01)."""
    x = np.random.default_rng(0).uniform(-1, 1, 300)
    frame = {"x": x, "y": 0.0 * x}
    at = pd.DataFrame({"x": np.linspace(-0.9, 0.9, 8)})
    plan = dp.plan("y ~ x", dp.Schema(x=dp.Real(-1, 1), y=dp.Real(-1, 1)), n=300, eps=2.0, delta=0.2,
                   verb="dp_npreg", method="eptr", h=0.3, at=at)  # fmt: skip
    from dpmodels.privacy.noise import SeededNoise
    from dpmodels.privacy.run import Run
    from tests.privacy.cases.verbs import backend_release

    K = np.exp(-((at["x"].to_numpy()[:, None] - x) ** 2) / (2 * 0.3**2)).sum(axis=1)
    failed = 0
    for seed in range(2000):
        done = backend_release(plan, frame, Run(plan.steps, SeededNoise(seed)))
        failed += bool((done.values["masses"] > K * (1 + 1e-3)).any())
    (bound,) = (step for step in plan.steps if step.name == kernel_curve.MASS)
    assert bound.failure == pytest.approx(0.02)
    assert failed <= 60


@pytest.mark.parametrize("larger", [{"eps_t": 1.0}, {"eps_r": 1.0}, {"delta": 0.1}])
def test_a_test_that_costs_more_than_was_charged_is_refused(larger):
    """A plan that says another pair to the release than to the ledger."""
    from dpmodels.privacy.noise import SeededNoise
    from dpmodels.privacy.run import Run
    from tests.privacy.cases.verbs import backend_release

    plan = dp.plan("y ~ x", dp.Schema(x=dp.Real(-1, 1), y=dp.Real(-1, 1)), n=30, eps=1.0, delta=0.01,
                   verb="dp_npreg", method="eptr", c0=0.1, at={"x": [0.0]})  # fmt: skip
    wrong = replace(plan, detail=replace(plan.detail, **larger))
    with pytest.raises(PrivacyBugError, match="more than was charged"):
        backend_release(wrong, {"x": np.zeros(30), "y": np.zeros(30)}, Run(plan.steps, SeededNoise(1)))
