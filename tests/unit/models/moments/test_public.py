"""``dp_moments`` with public data: exact algebra, equivariance, stated noise, refusals."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.linear.inference import Stages
from dpmodels.models.linear.scored import PublicMoments
from dpmodels.models.linear.solve import Stage
from dpmodels.models.moments import covariance, ratio
from dpmodels.models.moments import estimate_pmt as estimate
from dpmodels.records import Release
from dpmodels.sums.scaling import UnitScale

CALL = dict(eps=1.0, delta=1e-6)
XY = ["a", "b", "y"]


def with_one(frame, names=XY):
    return np.column_stack([frame[list(names)], np.ones(len(frame))])


def moments(frame, names=XY):
    Z = with_one(frame, names)
    return Z.T @ Z / len(Z)


def relative(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


@pytest.mark.parametrize("factor", [1.0, 1e-6, 40.0])
def test_exact_moments_of_whitened_rows_come_back_exactly(table, factor):
    """Whatever the public moments: sums of whitened rows in, moments out to 1e-10."""
    G = np.random.default_rng(5).normal(size=(4, 4))
    public = {"moments": factor * (G @ G.T + 0.1 * np.eye(4)), "m": 100}
    schema = dp.Schema(a=dp.Real(), b=dp.Real(), y=dp.Real())
    plan = dp.plan(
        "a + b + y ~ 1", schema, n=700, verb="dp_moments", public=public, stages=1, **CALL
    )
    white = plan.detail.white
    frame = table(700, 2)
    rows = np.roll(with_one(frame), 1, axis=1).T  # (1, x)
    w = np.linalg.solve(white.L, rows / white.scale[:, None])
    stage = Stage(w @ w.T, np.ones((4, 4)), white.L, np.inf)
    unit = UnitScale(1.0 / white.scale, np.zeros(4), False)
    released = Release({}, plan.guarantee, plan.design, detail=Stages(unit, (stage,)))
    found = estimate(plan, released)
    exact = moments(frame)
    assert found.arrays["moments"] == pytest.approx(exact, abs=1e-10)
    assert found.arrays["moments_per_row"] == pytest.approx(exact, abs=1e-10)
    assert found.params == pytest.approx(exact[np.triu_indices(4)], abs=1e-10)
    assert found.names[:5] == ("a^2", "a*b", "a*y", "a", "b^2")


@pytest.mark.parametrize("stages", [1, 2])
def test_without_noise_and_ball_they_are_the_exact_moments(noiseless, table, stages):
    """Through the whole call: up to the lattice (2^20 steps a radius)."""
    frame, public = table(5000, 1), table(80)
    fit = dp.dp_moments(XY, frame, public=public, stages=stages, radius=8.0, **CALL)
    if stages == 1:
        assert fit.arrays["moments"] == pytest.approx(moments(frame), abs=3e-5)
        assert fit.params["row weights"] == pytest.approx(1.0, abs=3e-5)
    # the first of two stages has its own radius, which only whitens the second
    assert relative(fit.arrays["moments"], moments(frame)) < 3e-5


def test_default_with_public_data_buys_no_ranges(quiet, table):
    frame = table(20_000, 1) * 50.0 + 1000.0
    public = table(100) * 50.0 + 1000.0
    fit = dp.dp_moments(XY, frame, public=public, seed=1, **CALL)
    assert fit.method == "pmt"
    assert [s.name for s in fit.privacy.steps] == ["first moments", "whitened moments"]
    assert fit.privacy.delta_at(1.0) == pytest.approx(1e-6, rel=1e-6)
    text = " ".join(str(fit.summary(full=True)).split())
    assert "public data were given" in text
    assert "Variances are understated" in text
    C = fit.arrays["moments"]
    assert C[:3, 3] == pytest.approx(moments(frame)[:3, 3], rel=0.01)
    assert C[:3, :3] - np.outer(C[:3, 3], C[:3, 3]) == pytest.approx(frame.cov().to_numpy(), rel=0.15, abs=25)  # fmt: skip
    assert np.array_equal(C, C.T) and C[3, 3] == 1.0
    assert dp.dp_moments(XY, frame, bounds={v: (0, 2000) for v in XY}, **CALL).method == "ssp"


def test_equivariance_under_affine_triangular_maps(quiet, table):
    """(1, x) times T upper triangular: same seed, same released moments in the new units."""
    frame, public = table(8000, 1), table(80)

    def mapped(f):
        return pd.DataFrame(
            {"a": 3 * f["a"] - 20, "b": 0.5 * f["b"] + 2 * f["a"] + 1, "y": 7 * f["y"] + f["b"]}
        )

    #             a  b    y   1     (columns of the old rows, constant last)
    T = np.array([[3, 0, 0, -20], [2, 0.5, 0, 1], [0, 1, 7, 0], [0, 0, 0, 1.0]])
    for more in ({}, {"stages": 1}, {"delta": 0.0}):
        call = {**CALL, **more, "seed": 4}
        one = dp.dp_moments(XY, frame, public=public, **call)
        two = dp.dp_moments(XY, mapped(frame), public=mapped(public), **call)
        for name in ("moments", "moments_per_row"):
            expected = T @ one.arrays[name] @ T.T
            # up to single lattice steps of rows on a rounding edge
            assert two.arrays[name] == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "delta", "relation"),
    [
        ("pmt", 1e-6, "replace"),
        ("pmt", 1e-6, "add-remove"),
        ("pmt", 0.0, "replace"),
        ("pmt_paper", 1e-6, "replace"),
    ],
)
def test_the_stated_noise_is_the_noise(quiet, table, method, delta, relation):
    """Standardised against the noiseless release: mean square 1 over 60 seeds and 10 entries.

    Seeds 0 to 59. The mean square of 60 independent matrices has a standard error below .11 even
    if the entries of one were perfectly correlated in pairs: .45 is four of them (1e-4).
    """
    from dpmodels._testing import ZeroNoise, noise_source

    frame, public = table(6000, 1) + 1.0, table(80) + 1.0
    call = dict(eps=1.0, delta=delta, method=method, public=public)
    if method == "pmt":
        call["stages"] = 1
    if relation != "replace":
        call |= {"relation": relation, "n_guess": 6000}
    with noise_source(ZeroNoise()):
        truth = dp.dp_moments(["a", "b", "y"], frame, **call).params.to_numpy()
    z = []
    for seed in range(60):
        fit = dp.dp_moments(["a", "b", "y"], frame, seed=seed, **call)
        z.append((fit.params.to_numpy() - truth) / fit.bse_privacy.to_numpy())
    assert np.mean(np.square(z)) == pytest.approx(1.0, abs=0.45)
    assert np.mean(z) == pytest.approx(0.0, abs=0.45)
    assert fit.nobs == (6000 if relation == "replace" else None)


def test_covariance_of_mapped_noise_and_of_the_ratio():
    """Against 4e5 draws, seed 1: entries of T E T' and, to first order, of the ratio."""
    rng = np.random.default_rng(1)
    T = np.array([[2.0, 0.3, 5.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]])
    V = np.array([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]]) * 1e-6
    upper = np.triu_indices(3)
    E = np.zeros((400_000, 3, 3))
    E[:, upper[0], upper[1]] = rng.normal(size=(400_000, 6)) * np.sqrt(V[upper])
    E[:, upper[1], upper[0]] = E[:, upper[0], upper[1]]
    C = T @ np.diag([1.0, 1.0, 0.9]) @ T.T
    noisy = C + T @ E @ T.T
    cov = covariance(T, V)
    drawn = np.cov(noisy[:, upper[0], upper[1]].T)
    assert drawn == pytest.approx(cov, rel=0.02, abs=0.02 * cov.max() / 10)
    R, cov_ratio = ratio(C, cov)
    ratios = (noisy / noisy[:, 2:, 2:])[:, upper[0], upper[1]]
    ratios[:, -1] = noisy[:, 2, 2]
    assert np.cov(ratios.T) == pytest.approx(cov_ratio, rel=0.02, abs=0.02 * cov_ratio.max() / 10)
    assert R[0, 2] == pytest.approx(C[0, 2] / 0.9) and R[2, 2] == 1.0


@pytest.mark.parametrize("given", ["last", "first", "bare", "sums", "release"])
def test_public_moments_in_any_stated_layout(quiet, table, given):
    """The constant last as released, or named first; sums and noisy moments serve as well."""
    frame, public = table(20_000, 1), table(300)
    C = moments(public, ["a", "b"])
    first = np.roll(C, 1, axis=(0, 1))
    layouts = {
        "last": {"moments": C, "names": ["a", "b", "Intercept"]},
        "first": {"moments": first, "names": ["Intercept", "a", "b"]},
        "bare": {"moments": C},
        "sums": {"moments": 300 * C},
        "release": PublicMoments(0.8 * C, 300),
    }  # fmt: skip
    public_moments = layouts[given]
    if isinstance(public_moments, dict):
        public_moments["m"] = 300
    by_rows = dp.dp_moments(["a", "b"], frame, public=public, seed=1, **CALL)
    fit = dp.dp_moments(["a", "b"], frame, public=public_moments, seed=1, **CALL)
    assert fit.params.to_numpy() == pytest.approx(by_rows.params.to_numpy(), abs=1e-6)


def test_missing_rows_count_in_the_weights_only(quiet, table):
    frame = table(20_000, 1) + 2.0
    holes = frame.copy()
    holes.loc[::4, "a"] = np.nan
    holes.loc[1::400, "b"] = np.inf
    fit = dp.dp_moments(["a", "b"], holes, public=table(100) + 2.0, seed=1, **CALL)
    assert fit.params["row weights"] == pytest.approx(0.7475, abs=0.02)
    assert fit.params["a"] == pytest.approx(frame["a"].mean(), abs=0.02)
    assert fit.params["a^2"] == pytest.approx((frame["a"] ** 2).mean(), rel=0.02)


def test_published_algorithm_2(noiseless, table):
    """Radius and noise in numbers, and the exact moments where nothing is truncated."""
    frame, public = table(4000, 1), table(200)
    fit = dp.dp_moments(["a", "b"], frame, public=public, method="pmt_paper", rho=0.5, eps=5.0, delta=1e-6)  # fmt: skip
    square = 3 * (1 + np.log(2 * 4000 / 0.05))
    assert fit.stats["radius"] ** 2 == pytest.approx(square)
    assert fit.stats["noise_sd"] == pytest.approx(2 * square / (np.sqrt(2 * 0.5) * 4000))
    assert fit.privacy.eps_at(1e-6) == pytest.approx(4.886554117462, rel=1e-6)
    assert fit.arrays["moments"] == pytest.approx(moments(frame, ["a", "b"]), abs=1e-4)
    with pytest.raises(ValueError, match="needs eps"):
        dp.dp_moments(["a"], frame, public=public, method="pmt_paper", rho=0.5, eps=4.0, delta=1e-6)


ONES = np.ones((3, 3))
REFUSED = {
    "not finite": ({"moments": np.full((3, 3), np.nan), "m": 9}, "finite"),
    "not symmetric": ({"moments": np.triu(ONES), "m": 9}, "symmetric"),
    "wrong size": ({"moments": np.eye(5), "m": 9}, "3 x 3"),
    "without the constant": ({"moments": np.eye(2), "m": 9}, "constant is its last"),
    "not a matrix": ({"moments": np.ones(3), "m": 9}, "3 x 3"),
    "negative": ({"moments": np.diag([1, -1, 1.0]), "m": 9}, "semidefinite"),
    "zero column": ({"moments": np.diag([0, 1, 1.0]), "m": 90}, "zeros in a"),
    "zero constant": ({"moments": np.diag([1, 1, 0.0]), "m": 90}, "zeros in Intercept"),
    "names": ({"moments": np.eye(3), "m": 9, "names": ["b", "a", "Intercept"]}, "different columns"),
    "key": ({"moments": np.eye(3), "rows": 3}, "keys"),
    "alias": ({"moments": ONES + np.diag([1, 0, 0.0]), "m": 500}, "singular: "),
    "m": ({"moments": np.eye(3), "m": 0}, "positive number"),
    "response": ({"moments": np.eye(3), "response_scale": 1.0}, "no response"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("method", [None, "pmt_paper"])
def test_bad_moments_are_refused_before_a_row_is_read_or_charged(quiet, table, name, method):
    given, words = REFUSED[name]

    def unreadable():
        yield table(10)
        raise AssertionError("a row was read")

    budget = dp.Budget(eps=3, delta=1e-5)
    with pytest.raises(ValueError, match="singular" if name == "alias" else words):
        dp.dp_moments(
            ["a", "b"], unreadable, n=5000, public=given, method=method, budget=budget, **CALL
        )
    assert budget.eps_spent(1e-5) == 0.0


def test_names_on_both_sides_are_listed(table):
    given = {"moments": np.eye(3), "names": ["a", "z"], "m": 50}
    with pytest.raises(ValueError, match=r"public:  Intercept, a, z\n  private: Intercept, a, b"):
        dp.dp_moments(["a", "b"], table(100), public=given, **CALL)


def test_bad_public_tables(table, tmp_path):
    frame = table(300)
    with pytest.raises(ValueError, match="private data itself"):
        dp.dp_moments(["a"], frame, public=frame, **CALL)
    path = tmp_path / "t.csv"
    frame.to_csv(path)
    with pytest.raises(ValueError, match="private data itself"):
        dp.dp_moments(["a"], str(path), public=path, **CALL)
    with pytest.raises(ValueError, match=r"no column b.\n  public:  a, y\n  needed:  a, b"):
        dp.dp_moments(["a", "b"], frame, public=frame[["a", "y"]].copy(), **CALL)
    with pytest.raises(ValueError, match="2 complete rows"):
        dp.dp_moments(["a", "b"], frame, public=frame[:2].copy(), **CALL)
    with pytest.raises(ValueError, match="zeros in b"):
        dp.dp_moments(["a", "b"], frame, public=frame.assign(b=0.0), **CALL)
    with pytest.raises(ValueError, match="singular"):
        dp.dp_moments(["a", "b"], frame, public=frame.assign(b=3.0), **CALL)
    for method in ("pmt", "pmt_paper"):
        with pytest.raises(ValueError, match="needs public data"):
            dp.dp_moments(["a"], frame, method=method, **CALL)
    with pytest.raises(ValueError, match="does not use public data"):
        dp.dp_moments(["a"], frame, method="joint", public=table(9), **CALL)
    with pytest.raises(ValueError, match="radius"):
        dp.dp_moments(["a"], frame, public=table(90), radius=0.0, **CALL)
    with pytest.raises(ValueError, match="public guess"):
        dp.dp_moments(["a"], frame, public=table(90), relation="add-remove", **CALL)
    with pytest.raises(ValueError, match="no proof for relation"):
        dp.dp_moments(["a"], frame, public=table(90), relation="add-remove", method="pmt_paper", **CALL)  # fmt: skip
    with pytest.raises(ValueError, match="split= must name"):
        dp.dp_moments(["a"], frame, public=table(90), stages=1, split={"first": 1.0}, **CALL)


def test_public_advice_and_diagnostics(table):
    """Few rows, unknown m, too much noise: from public facts. Another spread: from the release."""
    import warnings

    frame = table(20_000, 1)

    def said(columns, data, **call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dp.dp_moments(columns, data, seed=1, **{**CALL, **call})
        return " | ".join(str(w.message) for w in caught)

    assert "shrunk" in said(XY, frame, public=table(6))
    assert "unknown" in said(["a"], frame, public={"moments": np.diag([1 / 3, 1])})
    assert "exceed the signal" in said(XY, frame[:50], public=table(90), eps=0.1)
    assert "look different" in said(XY, frame * 9.0, public=table(90))
    quiet = said(XY, frame, public=table(90))
    assert "look different" not in quiet and "shrunk" not in quiet
