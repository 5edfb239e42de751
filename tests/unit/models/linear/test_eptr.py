"""ePTR least squares by itself, through the verb: what it returns in each of its forms."""

import numpy as np
import pytest

import dpmodels as dp

CALL = dict(eps=1.0, delta=1e-6, method="eptr", scoring=False)


def ols(frame, formula="a + b"):
    X = np.column_stack([np.ones(len(frame)), frame["a"], frame["b"]])
    return np.linalg.lstsq(X, frame["y"], rcond=None)[0]


def test_without_noise_and_clipping_it_is_least_squares(noiseless, table):
    frame = table(20_000, sd=0.1)
    wide = {"a": (-3, 3), "b": (-3, 3), "y": (-4, 4)}
    fit = dp.dp_ols("y ~ a + b", frame, bounds=wide, whiten=False, **CALL)
    assert fit.params.to_numpy() == pytest.approx(ols(frame), abs=2e-5)
    # whitened rows beyond R_w are weighted down: another consistent estimate, not the same one
    white = dp.dp_ols("y ~ a + b", frame, bounds=wide, **CALL)
    assert white.params.to_numpy() == pytest.approx(ols(frame), abs=1e-3)
    assert list(fit.params.index) == ["Intercept", "a", "b"]


def test_ranges_that_are_not_centred_map_back(noiseless, table):
    frame = table(20_000, sd=0.1)
    frame["a"] = 10 + 2 * frame["a"]
    fit = dp.dp_ols(
        "y ~ a + b", frame, bounds={"a": (2, 20), "b": (-3, 5), "y": (-4, 9)}, whiten=False, **CALL
    )
    assert fit.params.to_numpy() == pytest.approx(ols(frame), abs=5e-5)


def test_without_an_intercept(noiseless, table):
    frame = table(20_000, beta=(0.0, 1.0, -0.7), sd=0.1)
    bounds = {"a": (-3, 3), "b": (-3, 3), "y": (-4, 4)}
    fit = dp.dp_ols("y ~ a + b - 1", frame, bounds=bounds, whiten=False, **CALL)
    X = frame[["a", "b"]].to_numpy()
    assert fit.params.to_numpy() == pytest.approx(
        np.linalg.lstsq(X, frame["y"].to_numpy(), rcond=None)[0], abs=2e-5
    )
    assert "Without an intercept, rows with missing cells" in str(fit.summary(full=True))


def test_factors_and_interactions(noiseless, table):
    frame = table(30_000, sd=0.1)
    frame["g"] = np.where(np.arange(30_000) % 3 == 0, "u", "v")
    frame["y"] += np.where(frame["g"] == "v", 0.5 * frame["a"], 0.0)
    schema = dp.Schema(
        a=dp.Real(-3, 3), b=dp.Real(-3, 3), y=dp.Real(-5, 5), g=dp.Levels(["u", "v"])
    )
    fit = dp.dp_ols("y ~ a * g + b", frame, schema=schema, **{**CALL, "eps": 4.0})
    assert fit.released
    assert fit.params["a:g[T.v]"] == pytest.approx(0.5, abs=0.02)
    assert fit.params["g[T.v]"] == pytest.approx(0.0, abs=0.02)


def test_standard_errors_have_two_parts(quiet, table, bounds):
    fit = dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, seed=3, **CALL)
    assert fit.released
    total = np.sqrt(fit.bse_sampling**2 + fit.bse_privacy**2)
    assert fit.bse.to_numpy() == pytest.approx(total.to_numpy())
    X = np.column_stack([np.ones(20_000), table(20_000)[["a", "b"]]])
    classical = 0.5 * np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
    assert fit.bse_sampling.to_numpy() == pytest.approx(classical, rel=0.1)
    assert (fit.bse_privacy > 0).all()


def test_coefficients_only(quiet, table, bounds):
    fit = dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, seed=3, inference=False, **CALL)
    assert fit.released
    assert fit.bse_sampling.isna().all()
    assert fit.bse.isna().all()
    assert (fit.bse_privacy > 0).all()
    assert [s.name for s in fit.privacy.steps] == [
        "scale matrix",
        "lower bound and test",
        "coefficients",
    ]


def test_unwhitened_forms(quiet, table, bounds):
    plain = dp.dp_ols(
        "y ~ a + b", table(50_000), bounds=bounds, seed=3, whiten=False, inference=False, **CALL
    )
    assert [s.name for s in plain.privacy.steps] == ["lower bound and test", "coefficients"]
    full = dp.dp_ols("y ~ a + b", table(50_000), bounds=bounds, seed=3, whiten=False, **CALL)
    assert full.bse.notna().all()


@pytest.mark.parametrize("coin", ["logistic", "sharp"])
def test_fixed_c0(quiet, table, bounds, coin):
    fit = dp.dp_ols("y ~ a + b", table(50_000), bounds=bounds, seed=3, c0=0.1, coin=coin, **CALL)
    assert fit.released
    assert fit.params.to_numpy() == pytest.approx([0.5, 1.0, -0.7], abs=0.15)
    assert fit.bse_sampling.isna().all()


def test_paper_variant_needs_its_constants(table, bounds):
    with pytest.raises(ValueError, match="Rx, Rtheta, c0"):
        dp.dp_ols("y ~ a + b", table(100), variant="paper", **CALL)
    with pytest.raises(ValueError, match="Rtheta"):
        dp.dp_ols("y ~ a + b", table(100), variant="paper", Rx=2.0, c0=0.2, **CALL)


def test_paper_variant_buys_no_range(quiet, table):
    fit = dp.dp_ols(
        "y ~ a + b", table(60_000), variant="paper", Rx=1.8, Rtheta=2.0, c0=0.15, seed=1, **CALL
    )
    assert fit.released
    assert [s.name for s in fit.privacy.steps] == ["coefficients and test"]
    assert fit.privacy.eps_at(1e-6) == pytest.approx(1.0)


def test_ridge_answers_where_the_test_would_not(quiet, table, bounds):
    frame = table(250)
    silent = dp.dp_ols("y ~ a + b", frame, bounds=bounds, seed=1, **CALL)
    assert not silent.released
    answer = dp.dp_ols("y ~ a + b", frame, bounds=bounds, seed=1, on_fail="ridge", **CALL)
    assert answer.released
    assert np.isfinite(answer.params).all()
    assert answer.bse.isna().all()
    assert "ridge" in str(answer.summary())


def test_no_reply_is_an_ordinary_result(table, bounds):
    with pytest.warns(dp.errors.DPModelsWarning):
        fit = dp.dp_ols("y ~ a + b", table(300), bounds=bounds, **{**CALL, "eps": 0.1})
    assert not fit.released
    assert fit.params.isna().all()
    assert "NO REPLY" in str(fit.summary())
    assert (fit.privacy.eps, fit.privacy.delta) == (0.1, 1e-6)


def test_no_reply_can_raise(quiet, table, bounds):
    with pytest.raises(dp.errors.NoReplyError, match="charge"):
        dp.dp_ols(
            "y ~ a + b", table(300), bounds=bounds, on_no_reply="raise", **{**CALL, "eps": 0.1}
        )


def test_bought_ranges_are_said(quiet, table):
    fit = dp.dp_ols("y ~ a + b", table(20_000), seed=2, **CALL)
    assert fit.released
    names = [s.name for s in fit.privacy.steps]
    assert names[:6] == [
        f"{what} of {col}" for col in ("a", "b", "y") for what in ("scale", "range")
    ]
    assert any("Ranges were estimated" in note for note in fit.notes)
    lo, hi = fit.design.response.lower, fit.design.response.upper
    assert lo < -1.5 < 2.5 < hi


def test_declared_ranges_spend_nothing_on_ranges(quiet, table, bounds):
    fit = dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, seed=2, **CALL)
    assert not any("of" in s.name.split() for s in fit.privacy.steps)
    forced = dp.dp_ols("y ~ a + b", table(20_000), bounds="private", seed=2, **CALL)
    assert any(s.name == "range of y" for s in forced.privacy.steps)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"whiten": False},
        {"on_fail": "ridge"},
        {"c0": 0.2},
        {"c0": 0.2, "coin": "sharp", "test_share": 0.4},
        {"variant": "paper", "Rx": 1.8, "Rtheta": 2.0, "c0": 0.2},
        {"Rx": 2.0, "Ry": 4.0},
        {"bounds_share": 0.3},
        {"split": {"scale": 0.3, "bound": 0.2, "coef": 0.4, "variance": 0.1}},
        {"clip": "project"},
    ],
)
@pytest.mark.parametrize("bought", [True, False])
@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0])
def test_no_option_changes_the_guarantee(options, bought, eps):
    """The steps compose to the request, less what is set aside for early ends."""
    schema = (
        dp.Schema(a=dp.Real(), b=dp.Real(), y=dp.Real())
        if bought
        else dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4))
    )
    plan = dp.plan("y ~ a + b", schema, n=5000, eps=eps, delta=1e-6, method="eptr", **options)
    # a pair with eps > 0 is composed by its dominating pair, a little below the sum of the parts
    pairs = any(getattr(s.mechanism, "eps", 0.0) > 0 for s in plan.steps)
    assert plan.guarantee.delta_at(eps) == pytest.approx(0.999e-6, rel=0.2 if pairs else 1e-6)
    assert plan.guarantee.delta_at(eps) <= 1e-6 * (1 + 1e-8)
    if plan.steps[-1].mechanism.kind == "gaussian":
        shares = sum(v for v in plan.shares.values())
        assert shares == pytest.approx(1.0)


def test_plan_equals_what_the_fit_used(quiet, table, bounds):
    schema = dp.Schema(a=dp.Real(-1, 1), b=dp.Real(-1, 1), y=dp.Real(-4, 4))
    plan = dp.plan("y ~ a + b", schema, n=5000, **CALL)
    fit = dp.dp_ols("y ~ a + b", table(5000), bounds=bounds, **CALL)
    assert fit.privacy.steps == plan.steps
    assert fit.privacy == plan.guarantee
    assert fit.design.fingerprint == plan.design.fingerprint


@pytest.mark.parametrize("spoil", ["constant", "duplicate", "all missing", "n = 2"])
def test_degenerate_tables_answer_through_the_mechanism(quiet, table, bounds, spoil):
    frame = table(2 if spoil == "n = 2" else 2000)
    if spoil == "constant":
        frame["b"] = 0.25
    elif spoil == "duplicate":
        frame["b"] = frame["a"]
    elif spoil == "all missing":
        frame["b"] = np.nan
    fit = dp.dp_ols("y ~ a + b", frame, bounds=bounds, **CALL)
    assert not fit.released


def test_sources_give_the_same_answer(quiet, table, bounds, tmp_path):
    import polars as pl
    import pyarrow as pa

    frame = table(20_000)
    frame.loc[5, "a"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = [
        frame,
        {c: frame[c].to_numpy() for c in frame},
        pl.from_pandas(frame),
        pl.from_pandas(frame).lazy(),
        pa.Table.from_pandas(frame),
        tmp_path / "t.parquet",
        str(tmp_path / "t.csv"),
        [frame.iloc[:7], frame.iloc[7:15_000], frame.iloc[15_000:]],
        lambda: (frame.iloc[i : i + 999] for i in range(0, 20_000, 999)),
    ]
    fits = [dp.dp_ols("y ~ a + b", s, bounds=bounds, seed=5, **CALL) for s in sources]
    for fit in fits[1:]:
        assert fit.params.to_numpy() == pytest.approx(fits[0].params.to_numpy(), rel=1e-9)
        assert fit.nobs == 20_000


def test_an_iterator_cannot_be_read_twice(quiet, table, bounds):
    parts = iter([table(100), table(100)])
    with pytest.raises(ValueError, match="number of rows"):
        dp.dp_ols("y ~ a + b", parts, bounds=bounds, **CALL)
    parts = iter([table(100), table(100)])
    with pytest.raises(ValueError, match="only once"):
        dp.dp_ols("y ~ a + b", parts, bounds=bounds, n=200, **CALL)


def test_the_fixed_reply_is_public(quiet, table, bounds):
    frame = table(100)
    bounds = {**bounds, "y": (0, 6)}
    fit = dp.dp_ols(
        "y ~ a + b", frame, bounds=bounds, on_no_reply="default", **{**CALL, "eps": 0.1}
    )
    assert not fit.released
    assert fit.params.to_dict() == {"Intercept": 3.0, "a": 0.0, "b": 0.0}
    assert "NO REPLY" in str(fit.summary())


def test_weights(noiseless, table, bounds):
    frame = table(40_000)
    frame["w"] = np.where(frame["a"] > 0, 4.0, 1.0)
    bounds = {**bounds, "w": (0, 4)}
    fit = dp.dp_ols("y ~ a + b", frame, bounds=bounds, weights="w", whiten=False, **CALL)
    X = np.column_stack([np.ones(40_000), frame[["a", "b"]]])
    r = np.sqrt(frame["w"].to_numpy())
    wls = np.linalg.lstsq(X * r[:, None], frame["y"] * r, rcond=None)[0]
    assert fit.params.to_numpy() == pytest.approx(wls, abs=0.01)
    assert fit.params.to_numpy() != pytest.approx(ols(frame), abs=1e-5)


def test_the_ledger_says_what_came_of_the_test(quiet, table, bounds):
    budget = dp.Budget(eps=3, delta=1e-5)
    dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, budget=budget, **CALL)
    dp.dp_ols("y ~ a + b", table(100), bounds=bounds, budget=budget, **{**CALL, "eps": 0.1})
    text = str(budget.report())
    assert "NO REPLY" in text
    assert text.count("reply test") == 2
    frame = budget.to_frame()
    assert frame["call"].nunique() == 2
    with pytest.raises(dp.errors.BudgetExceededError, match="Nothing was read"):
        dp.dp_ols("y ~ a + b", table(100), bounds=bounds, budget=budget, **{**CALL, "eps": 5.0})
    assert budget.to_frame()["call"].nunique() == 2
    with budget:
        dp.dp_ols("y ~ a + b", table(20_000), bounds=bounds, **{**CALL, "eps": 0.1})
    assert budget.to_frame()["call"].nunique() == 3


def test_the_summary_says_what_the_bound_on_rows_does(quiet, table, bounds):
    call = dict(eps=2, delta=1e-6, bounds=bounds, method="eptr", seed=1, scoring=False)
    whole = dp.dp_ols("y ~ a + b", table(20_000), **call)
    assert any("were shrunk (weighted least squares)" in note for note in whole.notes)
    project = dp.dp_ols("y ~ a + b", table(20_000), clip="project", **call)
    assert any("were shrunk, with bias" in note for note in project.notes)
