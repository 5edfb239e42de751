"""Fits on releases through the verbs."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, UtilityWarning
from dpmodels.models.noised import solve

SCHEMA = dp.Schema(
    a=dp.Real(-1, 1), b=dp.Real(-1, 1), c=dp.Real(-1, 1), y=dp.Binary(), z=dp.Real(-6, 6),
    k=dp.Real(0, 30), g=dp.Levels(["u", "v", "w"]),
)  # fmt: skip
THETA = np.array([-0.3, 0.8, -0.6, 0.4])


def simulate(n=6000, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    eta = THETA[0] + X @ THETA[1:]
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1
    frame["z"] = eta + rng.normal(0, 0.5, n)
    frame["k"] = rng.poisson(np.exp(eta))
    frame["g"] = rng.choice(["u", "v", "w"], n)
    frame["group"] = rng.integers(0, 2, n)
    return frame


@pytest.fixture(scope="module")
def frame():
    return simulate()


def release(frame, columns=("a", "b", "c"), **options):
    call = {"eps": 16.0, "delta": 0.05, "schema": SCHEMA, "noise": "sl", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return dp.dp_release(frame, list(columns), seed=7, **call, accept_no_estimate=True)


@pytest.fixture(scope="module")
def rel(frame):
    return release(frame, public_columns=["y", "z", "k", "group"])


@pytest.fixture(scope="module")
def clear(frame):
    return release(
        frame, delta=0.3, clear_prob=0.2, allow_clear_records=True,
        public_columns=["y", "z", "k", "group"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def exact(frame):
    """Hardly any noise: ordinary fits must come back."""
    return release(frame, ("a", "b", "c", "g"), eps=1e9, noise="laplace", delta=0.0,
                   public_columns=["y", "z", "k", "group"])  # fmt: skip


def ordinary(frame, family):
    import statsmodels.api as sm

    X = sm.add_constant(frame[["a", "b", "c"]])
    if family == "ols":
        return sm.OLS(frame["z"], X).fit().params.to_numpy()
    if family == "quantile":
        return sm.QuantReg(frame["z"], X).fit(q=0.5, p_tol=1e-9, max_iter=5000).params.to_numpy()
    which = sm.families.Binomial() if family == "binomial" else sm.families.Poisson()
    y = frame["y"] if family == "binomial" else frame["k"]
    return sm.GLM(y, X, family=which).fit().params.to_numpy()


def test_without_noise_ordinary_fits_come_back(frame, exact):
    assert dp.dp_ols("z ~ a + b + c", exact).params.to_numpy() == pytest.approx(
        ordinary(frame, "ols"), abs=1e-5
    )
    for family, verb_family in (("binomial", "y"), ("poisson", "k")):
        fit = dp.dp_glm(f"{verb_family} ~ a + b + c", exact, family=family)
        assert fit.params.to_numpy() == pytest.approx(ordinary(frame, family), abs=1e-5)
    sl = release(frame, eps=1e9, public_columns=["z"], delta=0.5)
    fit = dp.dp_quantreg("z ~ a + b + c", sl, tau=0.5, h=0.02)
    assert fit.params.to_numpy() == pytest.approx(ordinary(frame, "quantile"), abs=1e-2)


def test_standard_errors_without_noise_are_the_ordinary_ones(frame, exact):
    import statsmodels.api as sm

    X = sm.add_constant(frame[["a", "b", "c"]])
    fit = dp.dp_ols("z ~ a + b + c", exact)
    robust = sm.OLS(frame["z"], X).fit(cov_type="HC0").bse.to_numpy()
    assert fit.bse.to_numpy() == pytest.approx(robust, rel=1e-4)
    fit = dp.dp_glm("y ~ a + b + c", exact)
    robust = sm.GLM(frame["y"], X, family=sm.families.Binomial()).fit(cov_type="HC0").bse.to_numpy()
    assert fit.bse.to_numpy() == pytest.approx(robust, rel=1e-3)


@pytest.mark.parametrize("method", ["drcl", "sdrcl", "sl"])
@pytest.mark.parametrize("which", ["rel", "clear"])
def test_estimates_are_near_the_truth(request, which, method):
    """Seeded; |z| < 4.5 for 4 coefficients, 5 losses, 6 cases: false alarm about 1e-3."""
    data = request.getfixturevalue(which)
    fits = {
        "ols": dp.dp_ols("z ~ a + b + c", data, method=method),
        "logit": dp.dp_glm("y ~ a + b + c", data, method=method),
        "counts": dp.dp_glm("k ~ a + b + c", data, method=method, family="geometric"),
        "huber": dp.dp_mest("huber", "z ~ a + b + c", data, method=method, k=1.0),
    }
    for name, fit in fits.items():
        assert (fit.bse > 0).all(), name
        assert np.abs((fit.params.to_numpy() - THETA) / fit.bse.to_numpy()).max() < 4.5, name
    naive = dp.dp_ols("z ~ a + b + c", data, method="naive")
    assert abs(naive.params["a"]) < 0.85 * abs(fits["ols"].params["a"])


def test_median_on_clear_records(clear):
    fit = dp.dp_quantreg("z ~ a + b + c", clear, tau=0.5)
    assert np.abs((fit.params.to_numpy() - THETA) / fit.bse.to_numpy()).max() < 4.5
    assert fit.stats["converged"] == 1.0
    assert "smoothed with width" in str(fit.summary(full=True))
    upper = dp.dp_quantreg("z ~ a + b + c", clear, tau=0.8)
    assert upper.params["Intercept"] > fit.params["Intercept"] + 0.2


def test_integrated_equals_sl_without_clear_records(rel):
    for verb, formula in ((dp.dp_ols, "z ~ a + b"), (dp.dp_glm, "y ~ a + b")):
        one, two, three = (verb(formula, rel, method=m) for m in ("drcl", "sl", "sdrcl"))
        assert one.params.to_numpy() == pytest.approx(two.params.to_numpy(), abs=1e-9)
        assert one.params.to_numpy() == pytest.approx(three.params.to_numpy(), abs=1e-9)


def test_laplace_noise_serves_smooth_losses(frame):
    data = release(frame, ("a", "b", "c", "y"), eps=8, delta=0.0, noise="laplace", unit="attribute")
    fit = dp.dp_glm("y ~ a + b + c", data)
    assert np.abs((fit.params.to_numpy() - THETA) / fit.bse.to_numpy()).max() < 4.5
    with pytest.raises(NotImplementedError, match="noise='sl'"):
        dp.dp_quantreg("y ~ a + b", data)
    gauss = release(frame, ("a", "b", "z"), eps=16, delta=1e-3, noise="gaussian")
    fit = dp.dp_ols("z ~ a + b", gauss)
    whole = np.linalg.lstsq(
        np.column_stack([np.ones(len(frame)), frame[["a", "b"]]]), frame["z"], rcond=None
    )[0]
    assert np.abs((fit.params.to_numpy() - whole) / fit.bse.to_numpy()).max() < 4.5
    with pytest.raises(NotImplementedError, match="noise='laplace'"):
        dp.dp_glm("I(z > 0) ~ a", release(frame, ("a", "I(z > 0)"), noise="gaussian"))


def test_one_draw_form_of_the_paper(clear, rel):
    for fit in (
        dp.dp_ols("z ~ a + b + c", clear, variant="paper", draw_seed=1),
        dp.dp_glm("y ~ a + b + c", clear, variant="paper", draw_seed=1),
    ):
        assert np.abs((fit.params.to_numpy() - THETA) / fit.bse.to_numpy()).max() < 4.5
    tight = dp.dp_glm("y ~ a + b + c", clear)
    assert (tight.bse.to_numpy()[1:] < fit.bse.to_numpy()[1:]).all()
    for verb, formula in ((dp.dp_ols, "z ~ a"), (dp.dp_glm, "y ~ a")):
        with pytest.raises(ValueError, match="clear_prob > 0"):
            verb(formula, rel, variant="paper")


def test_a_loss_of_ones_own(rel, clear):
    def logistic(y, X, theta):
        return np.logaddexp(0.0, X @ theta) - y * (X @ theta)

    built_in = dp.dp_glm("y ~ a + b", rel)
    own = dp.dp_mest(logistic, "y ~ a + b", rel)
    assert own.params.to_numpy() == pytest.approx(built_in.params.to_numpy(), abs=1e-3)
    assert own.bse.to_numpy() == pytest.approx(built_in.bse.to_numpy(), rel=0.02)
    mixed = dp.dp_mest(logistic, "y ~ a + b + c", clear, draw_seed=2)
    assert np.abs((mixed.params.to_numpy() - THETA) / mixed.bse.to_numpy()).max() < 4.5
    with pytest.raises(ValueError, match="one number per row"):
        dp.dp_mest(lambda y, X, theta: 1.0, "y ~ a", rel)


def test_factors_in_any_coding(exact):
    treated = dp.dp_ols("z ~ a + g", exact)
    full = dp.dp_ols("z ~ a + g - 1", exact)
    assert list(full.params.index) == ["a", "g[u]", "g[v]", "g[w]"]
    assert full.params["g[v]"] - full.params["g[u]"] == pytest.approx(
        treated.params["g[T.v]"], abs=1e-5
    )
    summed = dp.dp_ols("z ~ a + C(g, contr.sum)", exact)
    assert summed.params["a"] == pytest.approx(treated.params["a"], abs=1e-5)


def test_affine_terms_and_public_terms(exact, frame):
    shifted = dp.dp_ols("z ~ I(2 * a + 1) + b", exact)
    plain = dp.dp_ols("z ~ a + b", exact)
    assert 2 * shifted.params["I(2 * a + 1)"] == pytest.approx(plain.params["a"], abs=1e-6)
    part = dp.dp_ols("z ~ a + b", exact, subset="group == 1")
    X = np.column_stack([np.ones(len(frame)), frame[["a", "b"]]])[frame.group == 1]
    want = np.linalg.lstsq(X, frame.z[frame.group == 1], rcond=None)[0]
    assert part.params.to_numpy() == pytest.approx(want, abs=1e-5)
    weighted = dp.dp_ols("z ~ a", exact, weights="group")
    alone = dp.dp_ols("z ~ a", exact, subset="group == 1")
    assert weighted.params.to_numpy() == pytest.approx(alone.params.to_numpy(), abs=1e-9)
    offset = dp.dp_ols("z ~ a + offset(group)", exact)
    other = dp.dp_ols("z ~ a + group", exact)
    assert offset.params["a"] == pytest.approx(other.params["a"], abs=0.05)


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("z ~ log(a + 2)", "columns=.*log"),
        ("z ~ I(a**2)", "Release it as a column"),
        ("z ~ a:b", "a:b"),
        ("z ~ bs(a, knots=[0])", "Release it"),
        ("z ~ a:group", "Release it"),
        ("log(a + 2) ~ b", "Release it"),
        ("z ~ missing", "missing"),
    ],
)
def test_terms_that_are_not_linear_are_told_what_to_release(rel, formula, match):
    with pytest.raises(ValueError, match=match):
        dp.dp_ols(formula, rel)


def test_released_transformations_are_found_by_name(frame):
    data = release(frame, ("a", "I(a**2)", "a:b", "log(b + 2)", "z"), noise="laplace", eps=100.0)
    fit = dp.dp_ols("z ~ a + I(a**2) + a:b + log(b + 2)", data)
    assert list(fit.params.index) == ["Intercept", "a", "I(a ** 2)", "log(b + 2)", "a:b"]
    new = pd.DataFrame({"a": [0.5], "b": [0.2]})
    cells = np.array([1.0, 0.5, 0.25, np.log(2.2), 0.1])
    assert float(fit.predict(new).iloc[0]) == pytest.approx(cells @ fit.shrunk.to_numpy())


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda r: dp.dp_ols("z ~ a", r, eps=1), "must not be given"),
        (lambda r: dp.dp_ols("z ~ a", r, delta=1e-6), "must not be given"),
        (lambda r: dp.dp_glm("y ~ a", r, seed=1), "must not be given"),
        (lambda r: dp.dp_ols("z ~ a", r, method="eptr"), "needs the data itself"),
        (lambda r: dp.dp_glm("y ~ a", r, method="objpert"), "needs the data itself"),
        (lambda r: dp.dp_ols("z ~ a", r, noise="sl"), "fixed when the release is made"),
        (lambda r: dp.dp_ols("z ~ a", r, weights="b"), "nonnegative"),
        (lambda r: dp.dp_ols("z ~ a", r, subset="b > 0"), "public columns only"),
        (lambda r: dp.dp_quantreg("z ~ a", r, tau=1.0), "tau"),
        (lambda r: dp.dp_quantreg("z ~ a", r, tau="half"), "tau"),
        (lambda r: dp.dp_quantreg("z ~ a", r, h=0), "kinks"),
        (lambda r: dp.dp_mest("hubber", "z ~ a", r), "Did you mean 'huber'"),
        (lambda r: dp.dp_mest("huber", "z ~ a", r), "k="),
        (lambda r: dp.dp_mest("hinge", "z ~ a", r), "0 or 1"),
        (lambda r: dp.dp_quantreg("a ~ b", r, radius=-1.0), "radius"),
    ],
)
def test_bad_calls_on_a_release(rel, call, match):
    with pytest.raises(ValueError, match=match):
        call(rel)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f: dp.dp_ols("z ~ a", f), "needs eps and delta"),
        (lambda f: dp.dp_quantreg("z ~ a", f, eps=1), "needs delta"),
        (lambda f: dp.dp_mest("huber", "z ~ a", f, delta=1e-6, k=1.0), "needs eps"),
        (lambda f: dp.dp_ols("z ~ a", f, eps=1, delta=1e-6, method="drcl", na="zero-row"), "na="),
        (
            lambda f: dp.dp_ols("z ~ a", f, eps=1, delta=1e-6, method="drcl", subset="b > 0"),
            "public columns",
        ),
        (
            lambda f: dp.dp_quantreg(
                "z ~ a", f, eps=1, delta=0.1, schema=SCHEMA, noise="laplace", method="drcl"
            ),
            "kinks",
        ),
        (
            lambda f: dp.dp_quantreg(
                "z ~ a", f, eps=1, delta=0.1, schema=SCHEMA, h=0, method="drcl"
            ),
            "kinks",
        ),
        (
            lambda f: dp.dp_mest(
                "hinge", "y ~ a", f, eps=1, delta=0.1, schema=SCHEMA, method="drcl"
            ),
            "not noised",
        ),
        (
            lambda f: dp.dp_ols("z ~ a", f, eps=1, delta=0.1, method="drcl", clear_prob=0.05),
            "allow_clear_records",
        ),
    ],
)
def test_bad_calls_on_data_before_anything_is_charged(frame, call, match):
    budget = dp.Budget(10, 0.5)
    with budget, pytest.raises((ValueError, TypeError), match=match):
        call(frame)
    assert len(budget.charges) == 0


def test_missing_eps_is_a_type_error_too(frame):
    with pytest.raises(TypeError, match="eps"):
        dp.dp_ols("z ~ a", frame, delta=1e-6)


def test_straight_fit_keeps_its_release(frame):
    budget = dp.Budget(50, 1e-3)
    fit = dp.dp_ols(
        "z ~ a + b + g", frame, eps=8, delta=1e-6, schema=SCHEMA, method="drcl", budget=budget,
        unit="attribute",
    )  # fmt: skip
    table = fit.release
    assert table.names == ("a", "b", "g[T.v]", "g[T.w]", "z")
    assert fit.privacy.unit == "attribute"
    again = dp.dp_ols("z ~ a + b + g", table)  # free, and the same fit of the same release
    assert again.params.to_numpy() == pytest.approx(fit.params.to_numpy(), abs=1e-9)
    assert again.privacy == fit.privacy
    assert len(budget.charges) == 1
    kept = pickle.loads(pickle.dumps(fit))
    assert kept.release is None
    assert kept.params.to_numpy().tolist() == fit.params.to_numpy().tolist()
    assert len(pickle.dumps(fit)) < 20_000
    assert len(fit.to_json()) < 20_000
    assert dp.results.Fit.from_json(fit.to_json()).release is None


def test_fits_cost_nothing(rel):
    with dp.Budget(1, 1e-6) as budget:
        dp.dp_ols("z ~ a", rel)
        dp.dp_glm("y ~ a", rel)
    assert len(budget.charges) == 0


def test_straight_fits_of_other_losses(frame, quiet):
    call = dict(schema=SCHEMA, seed=3, tight=False)
    logit = dp.dp_glm(
        "y ~ a + b", frame, eps=8, delta=1e-6, method="drcl", unit="attribute", **call
    )
    assert logit.release.noise == "laplace"
    median = dp.dp_quantreg("z ~ a", frame, eps=20, delta=0.2, method="drcl", **call)
    assert median.release.noise == "sl"
    counts = dp.dp_glm(
        "k ~ a", frame, eps=20, delta=1e-6, family="geometric", method="drcl", **call
    )
    assert counts.release.names == ("a", "k")


def test_weak_signals_are_flagged(frame):
    tiny = release(frame.head(300), ("a", "b", "z"), eps=0.5, delta=1e-6, noise="laplace")
    with pytest.warns(UtilityWarning, match="weak signal|noise exceeds the signal"):
        fit = dp.dp_ols("z ~ a + b", tiny)
    assert fit.bse.isna().all()


def test_non_convergence_is_flagged_and_has_no_errors(frame):
    wild = release(frame.head(400), ("a", "b"), eps=1.0, delta=0.05, public_columns=["y"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = dp.dp_glm("y ~ a + b", wild)
    if fit.stats["converged"] == 0.0:
        assert any("NOT CONVERGED" in str(w.message) for w in caught)
    else:
        assert any("weak signal" in str(w.message) for w in caught)
    assert fit.bse.isna().all()


def test_constant_column_is_weak_not_fatal(frame):
    flat = frame.assign(a=0.25)
    data = release(flat, ("a", "z"), eps=2, delta=1e-3, noise="laplace")
    with pytest.warns(UtilityWarning):
        fit = dp.dp_ols("z ~ a", data)
    assert fit.bse.isna().all()


def test_plan_of_a_release(quiet, frame):
    plan = dp.plan(
        "z ~ a + b", SCHEMA, n=6000, eps=8, delta=1e-6, method="drcl",
        variances={"a": 1 / 3, "b": 1 / 3}, guess={"a": 0.8, "b": -0.6}, sigma=0.5,
    )  # fmt: skip
    text = str(plan)
    assert "Noise sd of a" in text
    assert "Reliability of a" in text
    assert plan.expected_se["a"] > 0
    assert "four standard errors" in text
    fit = dp.dp_ols(
        "z ~ a + b", frame, eps=8, delta=1e-6, method="drcl", schema=SCHEMA, seed=2, rescale=False
    )
    assert fit.bse["a"] == pytest.approx(plan.expected_se["a"], rel=0.25)
    with pytest.raises(ValueError, match="Did you mean"):
        dp.plan("z ~ a + bb", dp.Schema(z=dp.Real(0, 1), a=dp.Real(0, 1), bb=dp.Real(0, 1)), n=10,
                eps=1, delta=1e-6, method="drcl", variances={"b": 1.0})  # fmt: skip


@pytest.mark.parametrize("method", ["drcl", "sdrcl", "sl"])
def test_a_smoothed_corner_has_no_standard_errors(rel, clear, method):
    """Intervals covered .36 to .9: what the smoothing moves was in no error."""
    fit = dp.dp_quantreg("z ~ a", rel, tau=0.75, method=method)
    assert fit.bse.isna().all() and fit.params.notna().all()
    assert "No standard errors: this loss is smoothed" in str(fit.summary(full=True))
    fit = dp.dp_quantreg("z ~ a", clear, tau=0.75, method=method)
    assert fit.bse.notna().all() == (method == "drcl")
    assert dp.dp_mest("median", "z ~ a", rel, method=method).bse.isna().all()
    assert dp.dp_mest("huber", "z ~ a", rel, method=method, k=1.0).bse.notna().all()


# -- theta=: a box for the coefficients ------------------------------------------------------------


LOSSES_IN_A_BOX = {
    "logistic": (dp.dp_glm, "y ~ a + b + c", {}),
    "median": (dp.dp_quantreg, "z ~ a + b + c", {"h": 0.5}),
    "squared": (partial(dp.dp_mest, "squared"), "z ~ a + b + c", {}),
    "own": (partial(dp.dp_mest, lambda y, X, t: 0.5 * (y - X @ t) ** 2), "z ~ a + b + c", {}),
}


@pytest.mark.parametrize("name", LOSSES_IN_A_BOX)
def test_a_wide_box_changes_nothing_and_a_narrow_one_binds(rel, name):
    verb, formula, call = LOSSES_IN_A_BOX[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        free = verb(formula, rel, **call)
        wide = verb(formula, rel, theta=(-40, 40), **call)
        narrow = verb(formula, rel, theta={"a": (0.1, 0.2)}, **call)
    np.testing.assert_allclose(wide.params, free.params, atol=2e-3)
    np.testing.assert_allclose(wide.bse, free.bse, rtol=0.02, equal_nan=True)
    assert 0.1 <= narrow.params["a"] <= 0.2
    assert narrow.params["b"] != pytest.approx(free.params["b"], abs=1e-6)


def test_an_estimate_at_an_end_of_the_box_says_so_and_has_no_errors(rel):
    with pytest.warns(UtilityWarning, match=r"at an end of theta=: a; no standard errors"):
        fit = dp.dp_glm("y ~ a + b + c", rel, theta={"a": (-0.5, 0.1)})
    assert fit.params["a"] == pytest.approx(0.1)
    assert fit.bse.isna().all()


def test_a_coefficient_that_the_box_does_not_name_stays_in_the_ball(rel):
    with pytest.warns(UtilityWarning, match=r"reached the ball of radius 0\.2"):
        fit = dp.dp_glm("y ~ a + b + c", rel, theta={"a": (-2, 2)}, radius=0.2)
    assert abs(fit.params["b"]) <= 0.1 + 1e-12  # columns of width 2


def test_the_box_is_the_minimum_inside_it(frame):
    """Without noise the minimum in the box is that of another programme."""
    from scipy.optimize import minimize

    rel = release(frame, noise="laplace", eps=1e7, public_columns=["y", "z", "k", "group"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        fit = dp.dp_glm("y ~ a + b + c", rel, theta=(-0.4, 0.5))
    X = np.column_stack([np.ones(len(frame)), frame[["a", "b", "c"]].to_numpy()])
    y = frame["y"].to_numpy()
    found = minimize(
        lambda t: np.mean(np.logaddexp(0, X @ t) - y * (X @ t)),
        np.zeros(4), method="SLSQP", bounds=[(-0.4, 0.5)] * 4, options={"ftol": 1e-12},
    )  # fmt: skip
    # the release permutes the rows, which moves nothing
    np.testing.assert_allclose(np.sort(fit.params), np.sort(found.x), atol=1e-3)


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        ((2, 0), "the lower first"),
        ((0, float("inf")), "two finite limits"),
        ((0, 1, 2), "two finite limits"),
        (3.0, "two finite limits"),
        ({"d": (0, 1)}, "not a coefficient; there are: Intercept, a"),
        ({"a": 1}, "two finite limits"),
    ],
)
def test_a_box_that_is_none_is_refused_and_nothing_is_charged(frame, theta, message):
    call = {"eps": 1, "delta": 1e-6, "schema": SCHEMA, "method": "drcl", "theta": theta}
    budget = dp.Budget(eps=2, delta=1e-3)
    with pytest.raises(dp.errors.RequestError, match=message):
        dp.dp_glm("y ~ a + b", frame, budget=budget, **call)
    assert not budget.charges


def test_expectation_of_a_users_function_is_a_mean_of_eight_pairs(monkeypatch, quiet):
    """Second draws add a third of the spread of one pair (1/sqrt 8; false alarm 1e-3 of F(39, 39))."""
    x = np.random.default_rng(0).random(400)
    release = dp.dp_release(
        pd.DataFrame({"x": x, "one": 1.0}), columns=["x", "one"], eps=1.5, delta=0.1,
        schema=dp.Schema(x=dp.Real(0, 1), one=dp.Real(0, 2)), clear_prob=0.1,
        allow_clear_records=True, noise="sl", public_columns=["one"], rescale=False,
        accept_no_estimate=True, seed=0,
    )  # fmt: skip

    def spread():
        found = [
            float(dp.dp_mest(
                "one ~ 0 + x", release, draw_seed=r, inference=False,
                loss=lambda y, X, theta: 0.5 * (np.maximum(X[:, 0], 0.0) - theta[0]) ** 2,
            ).params.iloc[0])
            for r in range(40)
        ]  # fmt: skip
        return float(np.std(found))

    mean_of_pairs = spread()
    monkeypatch.setattr(solve, "MOST_PAIRS", 1)
    assert 0.0 < mean_of_pairs < 0.6 * spread()


@pytest.mark.parametrize("verb", ["dp_ols", "dp_glm"])
def test_a_naive_fit_has_no_intervals(verb, quiet):
    """Its bias is in no error: intervals covered 0 where corrected fits were refused."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 3000)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(size=3000) > 0.0) * 1})
    schema = dp.Schema(x=dp.Real(-1, 1), y=dp.Binary())
    fit = getattr(dp, verb)("y ~ x", frame, eps=4, delta=1e-6, schema=schema, method="naive", seed=1)
    assert fit.released and np.isfinite(fit.params["x"])
    assert fit.conf_int().isna().to_numpy().all() and fit.pvalues.isna().all()
    assert "no error contains it, so there are none" in " ".join(str(fit.summary(full=True)).split())
