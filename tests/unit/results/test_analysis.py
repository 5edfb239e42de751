"""What a statistician does with a fit, against statsmodels: without noise, to the lattice."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, NotReleasedError, RequestError
from dpmodels.results import load

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")
#: The cells of the table lie on the lattice of the release, so nothing but the last bits differs.
NEAR = dict(rel=1e-6, abs=1e-9)
SCHEMA = dp.Schema(
    y=dp.Real(-16, 16), x=dp.Real(-1, 1), v=dp.Real(-1, 1), z=dp.Real(-1, 1),
    g=dp.Levels(["a", "b", "c"]), h=dp.Levels(["p", "q"]),
)  # fmt: skip


def frame(n=3000, seed=4):
    rng = np.random.default_rng(seed)
    x, v, z = np.round(rng.uniform(-1, 1, (3, n)) * 1024) / 1024
    g, h = rng.choice(list("abc"), n), rng.choice(list("pq"), n)
    y = 1 + x - 0.5 * v + 0.4 * (g == "b") + 0.3 * x * (g == "c") + rng.normal(0, 1, n)
    y = np.round(y * 1024) / 1024
    return pd.DataFrame({"y": y, "x": x, "v": v, "z": z, "g": g, "h": h})


@pytest.fixture(scope="module")
def m():
    import warnings

    from dpmodels._testing import ZeroNoise, noise_source

    with warnings.catch_warnings(), noise_source(ZeroNoise()):
        warnings.simplefilter("ignore")
        # a finer lattice is not to be had; more rows or eps change nothing without noise
        return dp.dp_moments(
            "y + x + v + z + C(g) + C(h) + x:C(g) + C(g):C(h)", frame(), eps=1e9, delta=1e-6,
            schema=SCHEMA, method="joint",
        )  # fmt: skip


FORMULA = "y ~ x + v + C(g)"


@pytest.fixture(scope="module")
def both(m):
    return dp.dp_ols(FORMULA, m), smf.ols(FORMULA, frame()).fit()


def test_a_regression_from_the_release_is_that_of_statsmodels(both):
    ours, theirs = both
    order = list(ours.params.index)
    assert ours.params.to_numpy() == pytest.approx(theirs.params[order].to_numpy(), **NEAR)
    assert ours.bse.to_numpy() == pytest.approx(theirs.bse[order].to_numpy(), rel=1e-6)
    assert ours.rsquared == pytest.approx(theirs.rsquared, **NEAR)
    assert ours.rsquared_adj == pytest.approx(theirs.rsquared_adj, **NEAR)
    assert ours.fvalue == pytest.approx(theirs.fvalue, rel=1e-6)
    assert ours.stats["sigma"] ** 2 == pytest.approx(theirs.scale, rel=1e-6)
    assert "R-squared" in str(ours.summary())


@pytest.mark.parametrize(
    "hypothesis",
    ["x = 0, v = 0", "x = -2*v", "x + v = 0.5, C(g)[T.b] = C(g)[T.c]", "C(g)[T.b] = 0.4"],
)
def test_wald_and_t_tests(both, hypothesis):
    ours, theirs = both
    one, other = ours.wald_test(hypothesis), theirs.wald_test(hypothesis, use_f=False, scalar=True)
    assert one.statistic == pytest.approx(float(other.statistic), rel=1e-6)
    assert one.df == len(one.hypotheses)
    assert one.pvalue == pytest.approx(float(other.pvalue), rel=1e-6, abs=1e-12)
    assert ours.f_test(hypothesis).statistic == pytest.approx(one.statistic / one.df)
    found, told = ours.t_test(hypothesis), theirs.t_test(hypothesis)
    assert found.sd == pytest.approx(np.ravel(told.sd), rel=1e-6)
    assert found.statistic == pytest.approx(np.ravel(told.tvalue), rel=1e-6, abs=1e-9)


def test_terms_names_and_matrices_say_the_same(both):
    ours, _ = both
    p = len(ours.params)
    R = np.eye(p)[[list(ours.params.index).index(f"C(g)[T.{k}]") for k in "bc"]]
    asked = ["g", "C(g)", "C(g) = 0", ["C(g)[T.b]", "C(g)[T.c]"], "`C(g)[T.b]` = 0 = C(g)[T.c]", R]
    found = [ours.wald_test(h).statistic for h in asked]
    assert found == pytest.approx([found[0]] * len(asked))
    assert ours.wald_test((R, [0.4, 0.0])).statistic != pytest.approx(found[0])


@pytest.mark.parametrize("typ", [1, 2, 3])
def test_anova_tables(m, typ):
    text = "y ~ C(g, contr.sum) * C(h, contr.sum) + x" if typ == 3 else "y ~ C(g) * C(h) + x"
    theirs_text = text.replace("contr.sum", "Sum")
    ours = dp.dp_ols(text, m).anova_table(typ).to_frame()
    # formulaic puts terms by degree, patsy categories first: the same order for type I
    theirs_text = theirs_text if typ > 1 else "y ~ C(g) + C(h) + x + C(g):C(h)"
    theirs = sm.stats.anova_lm(smf.ols(theirs_text, frame()).fit(), typ=typ)
    names = {n.replace("contr.sum", "Sum"): n for n in ours.index}
    both_have = [n for n in theirs.index if n in names]
    assert len(both_have) == 4
    for name in both_have:
        if typ == 1 and name in ("x", "C(g):C(h)"):
            continue  # x stands before the interaction with us, after the factors with patsy
        assert ours.loc[names[name], "F"] == pytest.approx(
            theirs.loc[name, "F"], rel=1e-4, abs=1e-5
        )


def test_nested_models_by_score_tests(m):
    small, large = dp.dp_ols("y ~ x", m), dp.dp_ols("y ~ x + v + C(g)", m)
    table = dp.anova(small, large).to_frame()
    data = frame()
    a, b = (smf.ols(f, data).fit() for f in ("y ~ x", "y ~ x + v + C(g)"))
    # Rao's test with the variance of the restricted fit
    expected = (a.ssr - b.ssr) / (a.ssr / a.df_resid)
    assert table["chi2"].iloc[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert table["df"].iloc[0] == 3
    wald = dp.anova(small, large, test="wald").to_frame()["chi2"].iloc[0]
    assert wald == pytest.approx((a.ssr - b.ssr) / b.scale, rel=1e-6, abs=1e-9)
    three = dp.anova(small, dp.dp_ols("y ~ x + v", m), large)
    assert len(three.to_frame()) == 2 and "x + v < x + v + C(g)" in str(three)


def test_correlations(m):
    data = frame()
    pairs = m.corr().set_index(["x", "y"])
    assert pairs.loc[("y", "x"), "correlation"] == pytest.approx(data["y"].corr(data["x"]), **NEAR)
    held = m.partial_corr(["v", "g"]).set_index(["x", "y"])
    controls = sm.add_constant(
        np.column_stack([data["v"], data["g"] == "b", data["g"] == "c"]) * 1.0
    )
    r = [sm.OLS(data[c], controls).fit().resid for c in ("y", "x")]
    assert held.loc[("y", "x"), "correlation"] == pytest.approx(np.corrcoef(*r)[0, 1], **NEAR)
    assert not any("C(g)" in name for pair in held.index for name in pair[:1] if name == "v")


def test_two_stage_least_squares(m):
    fit = dp.dp_iv("y ~ x + v | z + v", m)
    data = frame()
    X, Z = (np.column_stack([np.ones(len(data)), data[c]]) for c in (["x", "v"], ["z", "v"]))
    P = Z @ np.linalg.solve(Z.T @ Z, Z.T @ X)
    b = np.linalg.solve(P.T @ X, P.T @ data["y"])
    r = data["y"] - X @ b
    V = r @ r / (len(data) - 3) * np.linalg.inv(P.T @ P)
    assert fit.params.to_numpy() == pytest.approx(b, rel=1e-6)
    assert fit.bse.to_numpy() == pytest.approx(np.sqrt(np.diag(V)), rel=1e-6)
    first = smf.ols("x ~ z + v", data).fit().f_test("z = 0")
    assert fit.stats["first_stage_F[x]"] == pytest.approx(float(first.fvalue), rel=1e-6)
    assert fit.arrays["anderson_rubin"].shape[1] == 2


def test_adjusted_means_and_contrasts(both):
    ours, theirs = both
    found = ours.emmeans("g", at={"x": 0.25})
    L = np.array([[1, 0, 0, 0.25, 0], [1, 1, 0, 0.25, 0], [1, 0, 1, 0.25, 0]])
    order = ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x", "v"]
    b, V = theirs.params[order], theirs.cov_params().loc[order, order]
    assert found.effect == pytest.approx(L @ b, **NEAR)  # v at the middle of its range, 0
    assert found.sd == pytest.approx(np.sqrt(np.diag(L @ V @ L.T)), rel=1e-6, abs=1e-9)
    assert found.pairs().effect[0] == pytest.approx(-b["C(g)[T.b]"], **NEAR)
    assert "g = a" in str(found) and "v = 0" in str(found)
    one = ours.contrast({"x": 10, "v": -1})
    assert one.effect[0] == pytest.approx(10 * b["x"] - b["v"], **NEAR)
    two = ours.contrast({"first": {"x": 1}, "second": {"v": 2}})
    assert two.to_frame()["term"].tolist() == ["first", "second"]


def test_like_statsmodels(both):
    ours, theirs = both
    like = ours.as_statsmodels()
    order = list(ours.params.index)
    assert np.asarray(like.conf_int()) == pytest.approx(
        np.asarray(theirs.conf_int().loc[order]), rel=1e-2, abs=1e-3
    )
    assert like.scale == pytest.approx(theirs.scale, rel=1e-6)
    new = frame().head(4)
    moved = np.abs(like.shrunk - like.params)  # for predictions: well within the errors
    assert (moved < 0.2 * like.bse).all()
    near = np.asarray(like.predict(new)) - np.asarray(theirs.predict(new))
    assert np.abs(near).max() < 0.01
    assert like.cov_params(np.eye(5)[:2]).shape == (2, 2) and like.df_resid == theirs.df_resid
    assert "params" in dir(like)
    with pytest.raises(AttributeError, match="Residuals"):
        _ = like.resid


def test_the_file_keeps_what_later_analyses_need(m, tmp_path):
    m.to_json(tmp_path / "m.json")
    again = dp.dp_ols(FORMULA, load(tmp_path / "m.json"))
    assert again.params.equals(dp.dp_ols(FORMULA, m).params)
    assert again.privacy.eps == m.privacy.eps


def test_columns_of_a_formula_are_found_as_combinations(m):
    """Another coding, a shifted or doubled column, a sum: linear functions of what was released."""
    one = dp.dp_ols("y ~ I(2*x + 1) + I(v - z) + C(g, contr.sum)", m)
    theirs = smf.ols("y ~ I(2*x + 1) + I(v - z) + C(g, Sum)", frame()).fit()
    assert one.params["I(2 * x + 1)"] == pytest.approx(theirs.params["I(2 * x + 1)"], **NEAR)
    assert one.rsquared == pytest.approx(theirs.rsquared, **NEAR)
    other = dp.dp_ols("I(y - x) ~ v", m)
    assert other.params["v"] == pytest.approx(
        smf.ols("I(y - x) ~ v", frame()).fit().params["v"], **NEAR
    )


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        (
            "y ~ I(x**2)",
            r"not in the release, whose columns are .*\n?.*dp_moments\(.*I\(x \*\* 2\)",
        ),
        ("y ~ x:v", "not in the release"),
        ("y ~ agee", "'agee' is not in the release.*dp_moments"),
        ("I(y**2) ~ x", "not in the release"),
        ("~ x", "no response"),
    ],
)
def test_a_term_that_is_not_in_the_release_is_refused(m, formula, says):
    with pytest.raises(DPModelsError, match=says):
        dp.dp_ols(formula, m)


def test_a_release_takes_no_second_payment(m):
    for more in (dict(eps=1, delta=1e-6), dict(seed=1), dict(method="ssp"), dict(vcov="iid")):
        with pytest.raises(RequestError, match="charged when"):
            dp.dp_ols(FORMULA, m, **more)
    with pytest.raises(NotReleasedError, match="dp_moments"):
        dp.dp_ols("y ~ x", _scored())
    with pytest.raises(NotReleasedError, match="dp_moments"):
        _scored().corr()


def _scored(n=3000):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.dp_ols("y ~ x + v", frame(n), eps=1, delta=1e-6, schema=SCHEMA, seed=3)


def test_fits_with_a_bias_bound_allow_for_it():
    fit = _scored()
    assert (fit.bias_bound > 0).all()
    one = fit.wald_test("x")
    assert one.noncentrality > 0 and one.pvalue == pytest.approx(fit.pvalues["x"], rel=1e-6)
    sums = fit.contrast({"x": 1, "v": 1})
    assert 0.0 < sums.bias[0] < fit.bias_bound[["x", "v"]].sum()  # its own, not the sum
    alone = fit.contrast({"x": 1})
    assert alone.bias[0] == pytest.approx(fit.bias_bound["x"], rel=1e-9)
    again = type(fit).from_json(fit.to_json()).contrast({"x": 1, "v": 1})
    assert again.bias == pytest.approx(sums.bias, rel=1e-12)
    half = (sums.high - sums.low)[0] / 2
    assert half > 1.96 * sums.sd[0]
    assert "bias bound" in str(fit.wald_test("x, v")) and "Bias <=" in str(sums)
    assert 0 < fit.rsquared < 1 and fit.rsquared_se > 0 and "last iteration" in str(fit.summary(full=True))


@pytest.mark.parametrize(
    ("hypothesis", "says"),
    [
        ("xx = 0", "no coefficient or term 'xx'. Did you mean 'x'"),
        ("x * v = 0", "not a linear hypothesis"),
        ("x ==", "cannot be read"),
        ("", "empty hypothesis"),
        ("1 = 1", "no coefficient"),
        ("C(g) = 2", "several coefficients"),
        ("x = 0, 2*x = 0", "have rank 1"),
        (np.eye(3), "matrix with 5 columns"),
        (np.full((1, 5), np.nan), "matrix with 5 columns"),
        (None, "a hypothesis is a string"),
        ("__import__('os')", "not a linear hypothesis|no coefficient"),
    ],
)
def test_a_hypothesis_that_says_nothing_is_refused(both, hypothesis, says):
    with pytest.raises(RequestError, match=says):
        both[0].wald_test(hypothesis)


def test_other_bad_input(both, m):
    ours, _ = both
    for call, says in (
        (lambda: ours.contrast({"x1": 1}), "Did you mean 'x'"),
        (lambda: ours.contrast({}), "weights by coefficient"),
        (lambda: ours.contrast({"x": "1"}), "must be a number"),
        (lambda: ours.emmeans("h"), "not a predictor"),
        (lambda: ours.emmeans("x"), "is numeric"),
        (lambda: ours.emmeans("g", at={"g": ["d"]}), "not a level"),
        (lambda: ours.anova_table(4), "typ"),
        (lambda: dp.anova(ours, "m2"), "needs fits"),
        (lambda: dp.anova(ours, dp.dp_ols("y ~ x", m)), "not nested"),
        (lambda: dp.anova(ours, ours), "same coefficients"),
        (lambda: dp.anova(dp.dp_ols("z ~ x", m), ours), "one response"),
        (lambda: dp.anova(dp.dp_ols("y ~ x", m), _scored(2000)), "same data"),
        (lambda: m.best_subset("w"), "not a column of the release"),
        (lambda: m.partial_corr("w"), "not in the release"),
        (lambda: m.lasso_path("y", lams=[-1]), "at least 0"),
        (lambda: dp.dp_glm("h ~ x", m, eps=1, delta=1e-6), "needs a table, got a fit"),
        (lambda: dp.dp_iv("y ~ x", m), "one bar"),
        (lambda: dp.dp_iv("y ~ x + v | v", m), "not identified"),
        (lambda: dp.dp_iv("y ~ x | z", m, eps=1, delta=1e-6), "was charged when"),
    ):
        with pytest.raises(DPModelsError, match=says):
            call()
            pytest.fail(says)


def test_a_fit_without_a_reply_says_so(quiet):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.normal(size=30), "x": rng.normal(size=30)})
    fit = dp.dp_ols("y ~ x", data, eps=0.1, delta=1e-6, seed=1)
    assert not fit.released
    for call in (lambda: fit.wald_test("x"), fit.anova_table, lambda: fit.emmeans("x")):
        with pytest.raises(NotReleasedError, match="no reply"):
            call()


def test_exponentiated(quiet):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 4000)
    data = pd.DataFrame({"x": x, "y": (rng.uniform(size=4000) < 1 / (1 + np.exp(-x))) * 1})
    fit = dp.dp_glm("y ~ x", data, family="binomial", eps=4, delta=1e-6, seed=1,
                    schema=dp.Schema(x=dp.Real(-1, 1), y=dp.Binary()))  # fmt: skip
    plain, exp = fit.tidy(), fit.tidy(exponentiate=True)
    for name in ("estimate", "conf_low", "conf_high"):
        assert exp[name].to_numpy() == pytest.approx(np.exp(plain[name].to_numpy()))
    assert exp["std_error"].equals(plain["std_error"])
    text = str(fit.summary(exponentiate=True))
    assert "exp(Estimate)" in text and f"{np.exp(fit.params['x']):.3f}" in text and "Std. Error" not in text


def test_the_lasso_says_what_noise_would_have_chosen(m):
    table = m.lasso_path("y")
    assert table.attrs["penalty"] > 0 and not table.iloc[0, 1:].any()
    chosen = m.best_subset("y", top=1)
    assert "x" in chosen["terms"][0] and "conditional" in chosen.attrs["notes"][0]
    assert m.components()["eigenvalue"].is_monotonic_decreasing
    assert m.ridge_path("y", lams=[0.0, 1e6]).iloc[1, 1:].abs().max() < 1e-4


def test_a_path_of_the_lasso_ends_at_the_noise_and_begins_where_all_are_zero(m):
    """No smaller penalty than the noise of a correlation, no less than a thousandth of the top."""
    path = m.lasso_path("y")
    penalties = np.asarray(path.index, dtype=float)
    assert (np.diff(penalties) < 0).all()
    assert np.abs(path.iloc[0].drop("Intercept", errors="ignore")).max() < 1e-9
    assert penalties[-1] >= 0.999e-3 * penalties[0] and penalties[-1] < 0.5 * penalties[0]
