"""``dp_ols(method="pmt")``: public data in, coefficients out; bad public data refused."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models.linear.moments import diagnostics
from dpmodels.models.linear.scored import public_radius, public_whitening

CALL = dict(eps=1.0, delta=1e-6, method="pmt", scoring=False)  # the ending by moments


def ols(frame, names=("a", "b"), intercept=True):
    X = frame[list(names)].to_numpy()
    if intercept:
        X = np.column_stack([np.ones(len(X)), X])
    return np.linalg.lstsq(X, frame["y"].to_numpy(), rcond=None)[0]


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("formula", ["y ~ a + b", "y ~ a + b - 1"])
@pytest.mark.parametrize("factor", [1.0, 1e-3, 40.0])
def test_without_noise_and_ball_it_is_least_squares(noiseless, table, stages, formula, factor):
    """For any public moments, and for any positive multiple of them."""
    rng = np.random.default_rng(5)
    q = 3 if "- 1" in formula else 4
    G = rng.normal(size=(q, q))
    frame = table(4000)
    moments = {"moments": factor * (G @ G.T + 0.1 * np.eye(q)), "m": 100}
    radius = 30.0 / factor**0.5 if stages == 1 else (50.0 if factor >= 1 else 500.0)
    fit = dp.dp_ols(
        formula, frame, public=moments, stages=stages, radius=radius, ridge="none", **CALL
    )
    expected = ols(frame, intercept="- 1" not in formula)
    # rounding to the lattice (2^20 steps a radius) only
    assert fit.params.to_numpy() == pytest.approx(expected, abs=1e-3)


def test_public_frame_is_the_default_method_and_shown(quiet, table):
    fit = dp.dp_ols("y ~ a + b", table(20_000, 1), eps=1, delta=1e-6, public=table(100), seed=2)
    text = str(fit.summary(full=True))
    assert fit.method == "pmt"
    assert "public data were given" in text
    assert "Public-only fit (m = 100" in text
    assert fit.arrays["public_params"] == pytest.approx(ols(table(100)))
    assert fit.params.to_numpy() == pytest.approx([0.5, 1.0, -0.7], abs=0.1)
    assert (fit.bse < 0.1).all()
    plan = dp.plan(
        "y ~ a + b",
        dp.Schema(a=dp.Real(), b=dp.Real(), y=dp.Real()),
        n=20_000,
        eps=1,
        delta=1e-6,
        public=table(100),
    )
    assert plan.request.method.name == "pmt"
    assert plan.guarantee.delta_at(1.0) == pytest.approx(1e-6, rel=1e-6)


def test_equivariance_under_triangular_maps(quiet, table):
    """Same seed, columns x T with T upper triangular and positive diagonal: the same fit."""
    frame, public = table(8000, 1), table(80)

    def mapped(f):
        return pd.DataFrame({"a": 3 * f["a"], "b": 0.5 * f["b"] + 2 * f["a"], "y": 7 * f["y"]})

    one = dp.dp_ols("y ~ a + b", frame, public=public, seed=4, **CALL).params.to_numpy()
    two = dp.dp_ols(
        "y ~ a + b", mapped(frame), public=mapped(public), seed=4, **CALL
    ).params.to_numpy()
    back = np.array([two[0], 3 * two[1] + 2 * two[2], 0.5 * two[2]]) / 7
    assert back == pytest.approx(one, abs=1e-6)


def test_stages_follow_a_public_rule(quiet, table):
    few = dp.dp_ols("y ~ a + b", table(800, 1), public=table(80), seed=1, **CALL)
    many = dp.dp_ols("y ~ a + b", table(20_000, 1), public=table(80), seed=1, **CALL)
    assert [s.name for s in few.privacy.steps] == ["moments"]
    assert [s.name for s in many.privacy.steps] == ["first moments", "whitened moments"]
    assert [s.share for s in many.privacy.steps] == pytest.approx([0.2, 0.8])


def test_combine(quiet, table):
    frame, public = table(1200, 1), table(100)
    alone = dp.dp_ols("y ~ a + b", frame, public=public, seed=3, **CALL)
    both = dp.dp_ols("y ~ a + b", frame, public=public, seed=3, combine=True, **CALL)
    assert "were combined by precision" in str(both.summary(full=True))
    assert (both.bse < alone.bse).all()
    assert both.arrays["params_private"] == pytest.approx(alone.params.to_numpy())
    assert np.linalg.eigvalsh(both.vcov("sampling").to_numpy())[0] > 0


def test_few_public_rows_are_shrunk(quiet, table):
    with pytest.warns(dp.errors.UtilityWarning, match="shrunk"):
        fit = dp.dp_ols("y ~ a + b", table(20_000, 1), public=table(6), **CALL)
    assert fit.params.to_numpy() == pytest.approx([0.5, 1.0, -0.7], abs=0.4)


def test_moments_of_x_alone(quiet, table):
    public, frame = table(200), table(20_000, 1)
    X = np.column_stack([np.ones(200), public[["a", "b"]]])
    given = {"moments": X.T @ X / 200, "m": 200, "response_scale": 1.0, "response_centre": 0.5}
    fit = dp.dp_ols("y ~ a + b", frame, public=given, seed=1, **CALL)
    assert fit.params.to_numpy() == pytest.approx([0.5, 1.0, -0.7], abs=0.1)
    assert "public_params" not in fit.arrays
    with pytest.raises(ValueError, match="response_scale"):
        dp.dp_ols("y ~ a + b", frame, public={"moments": X.T @ X / 200}, **CALL)


def test_missing_and_odd_cells(quiet, table):
    frame = table(20_000, 1)
    frame.loc[::3, "a"] = np.nan
    frame.loc[1::300, "b"] = np.inf
    frame.loc[2::300, "y"] = 1e308
    fit = dp.dp_ols("y ~ a + b", frame, public=table(100), seed=1, **CALL)
    assert fit.params.to_numpy() == pytest.approx([0.5, 1.0, -0.7], abs=0.2)
    assert fit.stats["effective_rows"] == pytest.approx(13_300, rel=0.1)


def test_rare_levels_are_named(quiet, table):
    frame, public = table(20_000, 1), table(400)
    for f in (frame, public):
        f["g"] = np.where(np.arange(len(f)) % 100 == 0, "rare", "usual")
    schema = dp.Schema(
        a=dp.Real(), b=dp.Real(), y=dp.Real(), g=dp.Levels(["usual", "rare", "never"])
    )
    with pytest.raises(ValueError, match=r"zeros in g\[T.never\]"):
        dp.dp_ols("y ~ a + g", frame, schema=schema, public=public, **CALL)
    schema = schema.update(g=dp.Levels(["usual", "rare"]))
    fit = dp.dp_ols("y ~ a + g", frame, schema=schema, public=public, seed=1, **CALL)
    assert "g[T.rare]" in " ".join(fit.notes)


@pytest.mark.parametrize(
    ("move", "word"),
    [
        (lambda f: f * 8.0, "different"),
        (lambda f: f * 0.1, "different"),
        (lambda f: f, None),
    ],
)
def test_shift_diagnostics(quiet, table, move, word):
    frame = move(table(20_000, 1))
    fit = dp.dp_ols("y ~ a + b", frame, public=table(100), seed=1, **CALL)
    text = " ".join(str(fit.summary(full=True)).split())
    assert ("the public data look different" in text) == (word is not None)


REFUSED = {
    "not finite": ({"moments": np.full((4, 4), np.nan), "m": 9}, "finite"),
    "not symmetric": ({"moments": np.triu(np.ones((4, 4))), "m": 9}, "symmetric"),
    "wrong size": ({"moments": np.eye(5), "m": 9}, "4 x 4"),
    "negative": ({"moments": np.diag([1, 1, -1, 1.0]), "m": 9}, "semidefinite"),
    "zero column": ({"moments": np.diag([1, 0, 1, 1.0]), "m": 90}, "zeros in a"),
    "names": ({"moments": np.eye(4), "m": 9, "names": ["Intercept", "b", "a", "y"]}, "different"),
    "key": ({"moments": np.eye(4), "rows": 3}, "keys"),
    "alias": ({"moments": np.ones((4, 4)) + np.diag([0, 0, 0, 1.0]), "m": 500}, "singular"),
    "m": ({"moments": np.eye(4), "m": 0}, "positive number"),
    "scale": ({"moments": np.eye(3), "m": 9, "response_scale": 0.0}, "response_scale"),
    "perfect": ({"moments": np.ones((4, 4)) + np.diag([0, 1, 1, 0.0]), "m": 500}, None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_moments_are_refused_before_a_row_is_read(quiet, table, name):
    given, words = REFUSED[name]

    def unreadable():
        yield table(10)
        raise AssertionError("a row was read")

    if words is None:
        fit = dp.dp_ols("y ~ a + b", table(5000), public=given, seed=1, **CALL)
        assert fit.stats["shrinkage_of_public_moments"] >= 0.05
        return
    with pytest.raises(ValueError, match=words):
        dp.dp_ols("y ~ a + b", unreadable, n=5000, public=given, **CALL)


def test_bad_public_tables(table, tmp_path):
    frame = table(300)
    with pytest.raises(ValueError, match="private data itself"):
        dp.dp_ols("y ~ a + b", frame, public=frame, **CALL)
    path = tmp_path / "t.csv"
    frame.to_csv(path)
    with pytest.raises(ValueError, match="private data itself"):
        dp.dp_ols("y ~ a + b", str(path), public=path, **CALL)
    with pytest.raises(ValueError, match="no column b"):
        dp.dp_ols("y ~ a + b", frame, public=frame[["a", "y"]].copy(), **CALL)
    with pytest.raises(ValueError, match="2 complete rows"):
        dp.dp_ols("y ~ a + b", frame, public=frame[:2].copy(), **CALL)
    with pytest.raises(ValueError, match="needs public data"):
        dp.dp_ols("y ~ a + b", frame, **CALL)
    with pytest.raises(ValueError, match="does not use public data"):
        dp.dp_ols("y ~ a + b", frame, public=table(9), **{**CALL, "method": "ssp"})
    with pytest.raises(ValueError, match="cannot carry"):
        dp.dp_ols("y ~ a + b", frame[:3], public=table(100), **CALL)


def test_public_rules_take_no_private_argument():
    import inspect

    for function in (public_whitening, public_radius):
        names = set(inspect.signature(function).parameters)
        assert names <= {
            "public", "white", "separate", "shrink", "response", "mu", "n", "phi", "rule",
        }  # fmt: skip


def test_diagnostics_allow_for_the_noise(quiet, table):
    from dpmodels.models.linear.solve import Stage

    V = np.full((4, 4), 30.0**2)
    assert diagnostics(Stage(1000 * np.eye(4), V, np.eye(4), 4.0), 1000) == ()
    assert diagnostics(Stage(1000 * np.diag([1, 1, 1, 0.01]), V * 1e-6, np.eye(4), 4.0), 1000)


def test_one_residual_variance_releases_no_meat_and_is_refused_with_people(quiet, table):
    """``vcov="iid"`` of a fit that starts from public moments, as of one that does not."""
    call = dict(eps=1, delta=1e-6, method="pmt", public=table(500), seed=2)
    frame = table(20_000, 1).assign(id=np.arange(20_000) // 2)
    robust = dp.dp_ols("y ~ a + b", frame, **call)
    fit = dp.dp_ols("y ~ a + b", frame, vcov="iid", **call)
    assert "one residual variance" in str(fit.summary(full=True))
    assert "one residual variance" not in str(robust.summary(full=True))
    assert (fit.bse != robust.bse).all()
    with pytest.raises(dp.errors.RequestError, match="assumes independent rows"):
        dp.dp_ols("y ~ a + b", frame, vcov="iid", unit="id", units=10_000, **call)
