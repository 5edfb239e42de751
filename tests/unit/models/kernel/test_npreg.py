"""Kernel regression: kernels, binning, sensitivities, the functional release, prediction."""

import math

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models import kernel
from dpmodels.models.kernel import NpregDetail, gaussian, joint_norm

B = {"x": (-1, 1), "z": (-1, 1), "y": (-1, 1)}
CALL = dict(eps=1.0, delta=1e-6, bounds=B)


def direct_sums(*given):
    return kernel._of_lattice(kernel.lattice_sums(*given))


def binned_sums(blocks, reader, points, h):
    return kernel._of_grid(kernel.grid_sums(blocks, reader, points.shape[1]), points, h)



def table(n, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, size=(2, n))
    y = 0.7 * np.sin(3 * x) + 0.2 * z + rng.normal(0, 0.2, n)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def reader(block):
    return block[:-1], block[-1]


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
    from dpmodels.models.kernel import _per_point  # noqa: F401  (the paper's form)

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
