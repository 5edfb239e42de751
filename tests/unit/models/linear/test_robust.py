"""``vcov="hetero"``: the sandwich against statsmodels, what it costs, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.models.linear.inference import last_fit
from dpmodels.models.linear.solve import Report, Scores, Stage
from dpmodels.sums.ask import ball_map
from dpmodels.sums.cells import gram
from dpmodels.sums.rowmap import ScoreMap
from dpmodels.sums.scaling import identity_scale

CALL = dict(eps=1.0, delta=1e-6, method="ssp", vcov="hetero", scoring=False)
WIDE = {"a": (-3, 3), "b": (-3, 3), "y": (-9, 9)}
SCHEMA = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4))


def uneven(n, seed=0, intercept=0.5):
    """A table whose errors have a variance that grows ten times from a = -1 to a = 1."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, size=(2, n))
    y = intercept + a - 0.7 * b + 0.3 * np.exp(1.2 * a) * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "y": y})


def statsmodels_errors(frame, kind, intercept=True, weights=None):
    import statsmodels.api as sm

    X = frame[["a", "b"]].to_numpy()
    X = sm.add_constant(X) if intercept else X
    return sm.WLS(frame["y"].to_numpy(), X, weights=1.0 if weights is None else weights).fit(
        cov_type=kind
    )


def exact_report(X, y, scores):
    """A report whose released numbers are exact moments, without a ball."""
    Z = np.column_stack([X, y])
    plan = dp.plan("y ~ a + b", SCHEMA, n=len(y), eps=1, delta=1e-6, method="ssp")
    stage = Stage(Z.T @ Z, np.full((4, 4), 1e-12), np.eye(4), np.inf)
    return Report(
        plan.design, identity_scale(4), (stage,), len(y), plan.request, "zero", scores=scores
    )


@pytest.mark.parametrize("turn", [False, True])
def test_the_sandwich_of_exact_moments_is_that_of_statsmodels(turn):
    frame = uneven(500)
    hc1 = statsmodels_errors(frame, "HC1")
    hc0 = statsmodels_errors(frame, "HC0")
    X = hc1.model.exog
    K = np.linalg.cholesky(X.T @ X) if turn else np.eye(3)
    g = np.linalg.solve(K, (X * hc1.resid[:, None]).T)
    fit = last_fit(exact_report(X, frame["y"].to_numpy(), Scores(g @ g.T, K, 1.0, 0.0)))
    assert fit.d == pytest.approx(hc1.params, rel=1e-8)
    assert fit.errors.sampling == pytest.approx(hc1.cov_params(), rel=1e-8)
    assert fit.errors.sampling * (497 / 500) == pytest.approx(hc0.cov_params(), rel=1e-8)


def test_the_bread_holds_what_the_weights_do():
    """J on both sides of the sandwich, and the distance it would move d as an allowance."""
    frame = uneven(500)
    plain = statsmodels_errors(frame, "HC1")
    X = plain.model.exog
    K = np.linalg.cholesky(X.T @ X / 500 + np.diag([0.1, 0.0, 0.0]))
    g = np.linalg.solve(K, (X * plain.resid[:, None]).T)
    parts = [g[:, :100] @ g[:, :100].T, g[:, 100:] @ g[:, 100:].T]
    facts = exact_report(X, frame["y"].to_numpy(), Scores(parts[0], K, 1.0, 0.0, parts[1]))
    facts = replace(facts, stages=(replace(facts.stages[0], radius=2.0),))
    fit = last_fit(facts)
    J = facts.scores.weighting(2.0, fit.free)
    assert np.linalg.norm(J - np.eye(3)) > 0.1
    assert fit.d == pytest.approx(plain.params, rel=1e-8)
    assert fit.errors.sampling == pytest.approx(J @ plain.cov_params() @ J.T, rel=1e-8)
    assert fit.errors.weight_shift == pytest.approx(J @ fit.d - fit.d)


def test_a_meat_below_its_noise_is_floored_there():
    found = Scores(np.diag([5.0, -3.0]), np.eye(2), 1.0, 0.5)
    assert found.meat == pytest.approx(np.diag([5.0, 0.5]))


def test_scores_that_stand_apart_have_no_cross_products():
    """Each is in one half, and the halves add up to the scores that do not stand apart."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(4, 500)) * np.exp(rng.normal(size=500))
    rows[2, 7] = np.nan
    found = []
    for apart in (True, False):
        rows_in = ball_map(identity_scale(4), 1.5, None)
        scoremap = ScoreMap(rows_in, np.array([0.5, 0.0, -1.0]), np.eye(3), 2.0, apart)
        with np.errstate(all="ignore"):  # as in the loop over blocks
            found.append(scoremap.integers(rows.copy()))
    k, whole = found
    assert len(k) == 6 and (np.diag(k @ k.T) > 0).all() and not (k[:3] @ k[3:].T).any()
    assert np.array_equal(k[:3] + k[3:], whole) and not whole[:, 7].any()


def test_what_row_weights_take_off_is_released():
    """Rows about a wrong centre, no noise: d falls short of the deviation t, J d does not."""
    rng = np.random.default_rng(3)
    n, t, radius = 400_000, np.array([0.3, -0.2]), 2.0
    x = rng.normal(size=(2, n))
    rows = np.vstack([x, t @ x + np.exp(0.5 * x[0] - 0.25) * rng.normal(size=n)])
    z = ball_map(identity_scale(3), radius, None).real(rows.copy())
    M = z[:2] @ z[:2].T
    d = np.linalg.solve(M, z[:2] @ z[2])
    K = np.linalg.cholesky(M / n)
    scoremap = ScoreMap(ball_map(identity_scale(3), radius, None), d, np.linalg.inv(K), 20.0, True)
    step = 20.0 / 2.0**20
    S = (
        np.asarray(gram(np.array_split(rows, 50, axis=1), scoremap).integers(), dtype=float)
        * step**2
    )
    J = Scores(S[:2, :2], K, 20.0, 0.0, S[2:, 2:]).weighting(radius, n - 2)
    short, corrected = np.linalg.norm(d - t), np.linalg.norm(J @ d - t)
    assert short > 0.03  # many times the sampling error, .003
    assert corrected < 0.35 * short
    assert Scores(S[:2, :2], K, 20.0, 0.0).weighting(radius, n - 2) == pytest.approx(np.eye(2))


FITS = [
    ("ssp", {"stages": 1}),
    ("ssp", {"stages": 2}),
    ("ssp", {"stages": 1, "query": "bounded"}),
    ("ssp", {"stages": 2, "query": "bounded"}),
    ("pmt", {"stages": 1}),
    ("pmt", {"stages": 2}),
]


@pytest.mark.parametrize(("method", "options"), FITS)
@pytest.mark.parametrize("formula", ["y ~ a + b", "y ~ a + b - 1"])
def test_without_noise_and_ball_it_is_hc1(noiseless, method, options, formula):
    """Coefficients and scores are rounded to a lattice: 1e-3, not 1e-8."""
    intercept = "- 1" not in formula
    frame = uneven(20_000, intercept=0.5 if intercept else 0.0)
    more = {"public": uneven(200, 1)} if method == "pmt" else {"bounds": WIDE}
    fit = dp.dp_ols(
        formula, frame, radius=20.0, ridge="none", **more, **options,
        **{**CALL, "method": method, "eps": 500},
    )  # fmt: skip
    robust = statsmodels_errors(frame, "HC1", intercept)
    plain = statsmodels_errors(frame, "nonrobust", intercept)
    assert fit.bse_sampling.to_numpy() == pytest.approx(robust.bse, rel=1e-3)
    assert np.abs(robust.bse / plain.bse - 1).max() > 0.1  # the two are told apart


def test_weights(noiseless):
    frame = uneven(20_000)
    frame["w"] = np.where(frame["a"] > 0, 4.0, 0.5)
    schema = dp.Schema(a=dp.Real(-3, 3), b=dp.Real(-3, 3), y=dp.Real(-9, 9), w=dp.Real(0, 5))
    fit = dp.dp_ols(
        "y ~ a + b", frame, schema=schema, weights="w", radius=80.0, ridge="none",
        **{**CALL, "eps": 500},
    )  # fmt: skip
    robust = statsmodels_errors(frame, "HC1", weights=frame["w"])
    assert fit.bse_sampling.to_numpy() == pytest.approx(robust.bse, rel=3e-3)


@pytest.mark.parametrize("method", ["ssp", "pmt"])
def test_with_noise_it_is_near_and_says_so(quiet, method):
    frame = uneven(60_000)
    more = {"public": uneven(200, 1)} if method == "pmt" else {"bounds": WIDE}
    # the scores' noise is about .06 of an error; seed 1 is 3 sd out for one of six
    fit = dp.dp_ols("y ~ a + b", frame, seed=2, **more, **{**CALL, "method": method})
    robust = statsmodels_errors(frame, "HC1")
    assert fit.bse_sampling.to_numpy() == pytest.approx(robust.bse, rel=0.15)
    assert 0.0 < fit.stats["score_noise"] < 0.2
    assert [s.name for s in fit.privacy.steps] == ["first moments", "whitened moments", "scores"]
    assert [s.share for s in fit.privacy.steps] == pytest.approx([0.18, 0.72, 0.1])
    assert "scores" in str(fit.ledger)
    text = " ".join(str(fit.summary(full=True)).split())
    assert "moments of the scores of the last stage" in text and "one residual variance" not in text
    assert "scores" in text
    assert fit.arrays["scores"].shape == (3, 3)
    assert fit.__maketables_vcov_info__["vcov_type"] == "sampling (hetero) + privacy"
    assert fit.glance()["score_noise"].iloc[0] == fit.stats["score_noise"]


def test_iid_is_the_default_and_has_no_such_step(quiet, table, bounds):
    call = {k: v for k, v in CALL.items() if k != "vcov"}
    one = dp.dp_ols("y ~ a + b", table(9000), bounds=bounds, seed=1, **call)
    two = dp.dp_ols("y ~ a + b", table(9000), bounds=bounds, seed=1, vcov="iid", **call)
    assert (one.bse == two.bse).all() and (one.params == two.params).all()
    assert str(one.summary(full=True)) == str(two.summary(full=True))
    assert "scores" not in [s.name for s in one.privacy.steps]
    assert "scores" not in one.arrays and "score_noise" not in one.stats


@pytest.mark.parametrize(
    ("word", "meant"),
    [("HC1", "hetero"), ("robust", "hetero"), ("heteroscedastic", "hetero"), ("nonrobust", "iid")],
)
def test_other_packages_words_are_answered(table, bounds, word, meant):
    with pytest.raises(dp.errors.RequestError, match=f"Did you mean '{meant}'"):
        dp.dp_ols("y ~ a + b", table(500), bounds=bounds, **{**CALL, "vcov": word})


def test_a_word_that_nobody_uses_is_refused(table, bounds):
    with pytest.raises(dp.errors.RequestError, match=r"vcov='xyz' is not one of \['iid'") as found:
        dp.dp_ols("y ~ a + b", table(500), bounds=bounds, **{**CALL, "vcov": "xyz"})
    assert "Did you mean" not in str(found.value)


def test_refusals(table, bounds):
    with pytest.raises(ValueError, match="inference=False"):
        dp.dp_ols("y ~ a + b", table(500), bounds=bounds, inference=False, **CALL)
    with pytest.raises(ValueError, match="first, second, scores"):
        dp.dp_ols(
            "y ~ a + b", table(500), bounds=bounds, stages=2, split={"first": 0.2, "second": 0.8},
            **CALL,
        )  # fmt: skip
    call = {**CALL, "vcov": "iid"}
    with pytest.raises(ValueError, match="split= must name moments for this fit"):
        dp.dp_ols(
            "y ~ a + b", table(500), bounds=bounds, stages=1,
            split={"moments": 0.9, "scores": 0.1}, **call,
        )  # fmt: skip


def test_a_source_that_is_read_once_is_refused_before_the_charge(table, bounds):
    frame = table(6000)
    with dp.Budget(eps=3, delta=1e-5) as budget:
        with pytest.raises(ValueError, match="more than once"):
            dp.dp_ols(
                "y ~ a + b", iter([frame[:2000], frame[2000:]]), n=6000, bounds=bounds, stages=1,
                budget=budget, **CALL,
            )  # fmt: skip
        assert len(budget.to_frame()) == 0


OPTIONS = [
    {},
    {"stages": 1},
    {"stages": 2, "split": {"first": 0.2, "second": 0.5, "scores": 0.3}},
    {"stages": 1, "split": {"moments": 0.75, "scores": 0.25}},
    {"query": "bounded"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bought", [True, False])
def test_no_option_changes_the_guarantee(options, bought):
    schema = dp.Schema(a=dp.Real(), b=dp.Real(), y=dp.Real()) if bought else SCHEMA
    plan = dp.plan("y ~ a + b", schema, n=5000, **CALL, **options)
    assert plan.guarantee.delta_at(1.0) == pytest.approx(0.999e-6 if bought else 1e-6, rel=1e-6)
    assert sum(plan.shares.values()) == pytest.approx(1.0)
    asked = options.get("split", {}).get("scores", 0.1)
    assert plan.shares["scores"] == pytest.approx(asked * (0.85 if bought else 1.0))
    assert plan.steps[-1].name == "scores"
    assert plan.passes == (2 if options.get("stages") == 1 else 3) + bought


def test_noise_of_the_errors_is_told_before_the_fit():
    few = dp.plan("y ~ a + b", SCHEMA, n=300, **CALL)
    many = dp.plan("y ~ a + b", SCHEMA, n=50_000, **CALL)
    name = "relative noise of robust variances"
    assert few.scales[name] > 0.3 > many.scales[name]
    assert any("robust variances" in text for text in few.advice)
    assert not any("robust variances" in text for text in many.advice)


def test_missing_rows(quiet):
    frame = uneven(60_000)
    whole = frame.copy()
    frame.loc[frame.index % 5 < 2, "a"] = np.nan
    fit = dp.dp_ols("y ~ a + b", frame, bounds=WIDE, seed=3, **CALL)
    robust = statsmodels_errors(whole[whole.index % 5 >= 2], "HC1")
    assert fit.bse_sampling.to_numpy() == pytest.approx(robust.bse, rel=0.2)


def test_one_coefficient(quiet):
    frame = uneven(20_000, intercept=0.0)
    fit = dp.dp_ols("y ~ a - 1", frame, bounds=WIDE, seed=3, **CALL)
    assert fit.arrays["scores"].shape == (1, 1)
    assert fit.bse["a"] > 0


def test_pure_privacy_and_add_remove(quiet):
    frame = uneven(60_000)
    robust = statsmodels_errors(frame, "HC1")
    pure = dp.dp_ols("y ~ a + b", frame, bounds=WIDE, seed=1, **{**CALL, "eps": 2, "delta": 0})
    assert [s.mechanism.kind for s in pure.privacy.steps] == ["pure"] * 3
    assert pure.privacy.eps_at(0.0) == pytest.approx(2.0)
    assert pure.bse_sampling.to_numpy() == pytest.approx(robust.bse, rel=0.4)
    other = dp.dp_ols(
        "y ~ a + b", frame, bounds=WIDE, seed=1, relation="add-remove", n_guess=50_000, **CALL
    )
    assert other.nobs is None
    assert other.bse_sampling.to_numpy() == pytest.approx(robust.bse, rel=0.2)
    assert "60000" not in str(other.summary(full=True)) + other.to_json()


def test_it_goes_with_the_other_options(quiet):
    frame, public = uneven(20_000), uneven(200, 1)
    plain = dp.dp_ols("y ~ a + b", frame, bounds=WIDE, seed=3, **CALL)
    boot = dp.dp_ols("y ~ a + b", frame, bounds=WIDE, seed=3, inference_method="bootstrap", **CALL)
    assert boot.bse.to_numpy() == pytest.approx(plain.bse.to_numpy(), rel=0.12)
    stein = dp.dp_ols("y ~ a + b", frame, bounds=WIDE, seed=3, ridge="stein", **CALL)
    assert stein.bse.to_numpy() == pytest.approx(plain.bse.to_numpy())
    call = {**CALL, "method": "pmt", "public": public, "seed": 3}
    both = dp.dp_ols("y ~ a + b", frame, combine=True, **call)
    assert (both.bse < dp.dp_ols("y ~ a + b", frame, **call).bse).all()


def test_where_noise_dominates_it_still_answers(quiet, table, bounds):
    fit = dp.dp_ols("y ~ a + b", table(60), bounds=bounds, seed=1, **{**CALL, "eps": 0.05})
    assert fit.released
    Q, lam = fit.arrays["moments"], fit.stats["ridge"]
    assert lam == pytest.approx(
        fit.stats["noise_sd"] * np.sqrt(6.0) - np.linalg.eigvalsh(Q[:3, :3])[0]
    )
    ridge = np.linalg.solve(Q[:3, :3] + lam * np.eye(3), Q[:3, 3])
    assert fit.params.to_numpy() == pytest.approx(4.0 * ridge)
    assert fit.bse.isna().all()
    assert any("No standard errors, the release is too noisy: Intercept, a, b" in note for note in fit.notes)
