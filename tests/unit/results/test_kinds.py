"""Results by kind: what a result lists is what it can do, and every one is shown, saved and read."""

import ast
import inspect
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, NotReleasedError, RequestError
from dpmodels.results import Fit
from dpmodels.results import capabilities as can
from dpmodels.results.fit import kind_of
from dpmodels.tables.table import Result, Shown, also

pytestmark = pytest.mark.usefixtures("quiet")
#: Most names that a result lists.
MOST = 43  # with relevel, and hypotheses and inline: statements about a fit need it before them
SCHEMA = dp.Schema(
    x=dp.Real(-1, 1), z=dp.Real(0, 2), y=dp.Real(-4, 6), g=dp.Levels(["a", "b", "c"]),
    e=dp.Binary(),
)  # fmt: skip
ORDERED = SCHEMA.update({"g": dp.Ordered(["a", "b", "c"])})
CALL = {"eps": 2.0, "delta": 1e-6, "schema": SCHEMA, "seed": 1}


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({
        "x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 2, n), "g": rng.choice(list("abc"), n),
    })  # fmt: skip
    d["y"] = 1 + d["x"] + 0.5 * (d["g"] == "b") + rng.normal(0, 0.5, n)
    d["id"] = np.arange(n) // 3
    d["e"] = (rng.uniform(size=n) < 1 / (1 + np.exp(1 - d["x"]))).astype(int)
    return d


@pytest.fixture(scope="module")
def made():
    """One result of every verb and method of a fit."""
    d = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        ols = dp.dp_ols("y ~ x + z + C(g)", d, **CALL)
        glm = dp.dp_glm("e ~ x + z", d, family="binomial", **CALL)
        m = dp.dp_moments("y + x + z + C(g)", d, **CALL)
        pure = {"eps": 2.0, "delta": 1e-6}
        return {
            "dp_ols": ols, "dp_glm": glm, "dp_moments": m, "on moments": dp.dp_ols("y ~ x", m),
            "dp_iv": dp.dp_iv("y ~ x | z", m),
            "dp_quantreg": dp.dp_quantreg("y ~ x", d, tau=[0.2, 0.8], **CALL),
            "dp_mest": dp.dp_mest("y ~ x", d, loss="huber", **CALL),
            "dp_mean": dp.dp_mean("x + z ~ 1", d, **CALL),
            "dp_table": dp.dp_table("~ g * e", d, **CALL),
            "means": dp.dp_table("y ~ g", d, **CALL),
            "dp_quantile": dp.dp_quantile("y", d, q=[0.1, 0.5], **CALL),
            "dp_test": dp.dp_test("y ~ g", d, **CALL),
            "dp_survfit": dp.dp_survfit("Surv(z, e) ~ g", d, **CALL),
            "dp_survdiff": dp.dp_survdiff("Surv(z, e) ~ g", d, **CALL),
            "dp_coxph": dp.dp_coxph("Surv(z, e) ~ x + g", d, **CALL),
            "dp_polr": dp.dp_polr("g ~ x + z", d, **{**CALL, "schema": ORDERED}),
            "dp_multinom": dp.dp_multinom("g ~ x + z", d, **CALL),
            "dp_feols": dp.dp_feols("y ~ x + z | id", d, unit="id", **CALL),
            "dp_fepois": dp.dp_fepois("e ~ x | id", d, unit="id", **CALL),
            "dp_bayes": dp.dp_bayes("g ~ x + z", d, **CALL),
            "dp_npreg": dp.dp_npreg("y ~ x", d, **CALL),
            "dp_pca": dp.dp_pca("x + z", d, **CALL),
            "dp_eptr": dp.dp_eptr(lambda x: [x.mean()], lambda x: 1e6, 2 / 3000, "x ~ 1", d,
                                  bounds={"x": (-1, 1)}, seed=1, **pure),
            "dp_release": dp.dp_release("~ x + y", d, **{**CALL, "seed": None}, accept_no_estimate=True),
            "dp_vote": dp.dp_vote(["a"] * 90 + ["b"] * 9, ["a", "b"], **pure),
            "dp_select": dp.dp_select([lambda e, d_, noise: (1.0, (2.0, 3))], **pure),
            "score": glm.score(table(2000, 1), eps=2), "rmse": ols.score(table(2000, 1), eps=2),
            "diagnosis": ols.diagnose(d, eps=2),
            "wald_test": ols.wald_test("g"), "contrast": ols.contrast({"x": 2, "z": -1}),
            "t_test": ols.contrast("x = z"), "anova": dp.anova(ols),
            "anova of two": dp.anova([dp.dp_ols("y ~ x", m), dp.dp_ols("y ~ x + z", m)]),
            "emmeans": ols.emmeans("g"), "pairs": ols.emmeans("g").pairs(),
            "emmeans of a link": glm.emmeans("x", at={"x": [0, 1]}),
            "avg_slopes": ols.avg_slopes(), "etable": dp.etable(ols, glm),
        }  # fmt: skip


KINDS = {
    "dp_ols": "LinearRegression", "dp_glm": "Regression", "dp_iv": "Regression",
    "dp_mest": "Regression", "dp_quantreg": "QuantileRegression", "dp_mean": "Averages",
    "dp_moments": "Moments", "dp_table": "Tabulation", "dp_quantile": "Quantiles",
    "dp_test": "TestResult", "dp_bayes": "Classifier", "dp_npreg": "Curve", "dp_pca": "Components",
    "dp_eptr": "Estimates", "dp_gptr": "Estimates", "dp_survfit": "SurvivalCurves",
    "dp_survdiff": "TestResult", "dp_coxph": "Hazards", "dp_polr": "OrderedChoice",
    "dp_multinom": "Choice", "dp_feols": "Effects", "dp_fepois": "Effects",
}  # fmt: skip


def listed(one):
    return [name for name in dir(one) if not name.startswith("_")]


def test_every_verb_has_its_kind(made):
    for verb, kind in KINDS.items():
        assert kind_of(verb).__name__ == kind
        if verb in made:
            assert type(made[verb]).__name__ == kind and isinstance(made[verb], Fit)
    assert isinstance(made["dp_ols"], dp.results.Regression)
    assert not isinstance(made["dp_quantreg"], dp.results.Regression)


def test_no_result_lists_more_names(made):
    """``Fit`` had more than 60 for every verb; a quantile had ``lasso_path``."""
    long = {name: len(listed(one)) for name, one in made.items() if len(listed(one)) > MOST}
    assert long == {}
    from dpmodels.results import capabilities as estimates
    from dpmodels.results import contrasts, fit, side_by_side
    from dpmodels.results import inference as joint

    for module in (can, estimates, fit, contrasts, joint, side_by_side):
        classes = (c for c in vars(module).values() if inspect.isclass(c))
        for cls in (c for c in classes if c.__module__.startswith("dpmodels")):
            own = [n for n, v in vars(cls).items() if not n.startswith("_") and type(v) is not also]
            assert len(own) <= MOST, cls


def test_what_is_listed_is_there(made):
    for name, one in made.items():
        for attribute in listed(one):
            getattr(one, attribute)
            assert hasattr(one, attribute), (name, attribute)


def test_what_makes_no_sense_is_not_there(made):
    for name, absent in (
        ("dp_quantile", ("lasso_path", "best_subset", "anova_table", "predict", "vcov")),
        ("dp_table", ("wald_test", "predict", "score", "emmeans")),
        ("dp_mean", ("predict", "score", "lasso_path")),
        ("dp_test", ("predict", "emmeans", "avg_slopes")),
        ("dp_moments", ("pvalues", "predict", "score")),
        ("dp_quantreg", ("score", "diagnose", "vif", "lasso_path")),
        ("dp_coxph", ("vif", "score", "zeta")),
        ("dp_feols", ("vif", "avg_slopes", "emmeans", "score", "hazard_ratios")),
        ("dp_multinom", ("zeta", "score", "emmeans")),
        ("dp_glm", ("lasso_path", "crosstab")),
    ):
        for attribute in absent:
            assert not hasattr(made[name], attribute), (name, attribute)
            assert attribute not in dir(made[name])
    with pytest.raises(NotReleasedError, match=r"dp_quantile \(Quantiles\).*dp_moments"):
        made["dp_quantile"].lasso_path("y")


#: Facts without a table.
BARE = ("dp_vote", "dp_select")
EVERY = ("tidy", "summary", "plot", "save", "to_latex", "to_html", "to_markdown", "to_word")


def test_every_result_is_shown_drawn_and_saved(made, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    for name, one in made.items():
        assert not [n for n in EVERY if n not in dir(one)], name
        frame = one.tidy()
        # a row of a curve is a time, as in R's broom
        assert len(frame) and ("time" if name == "dp_survfit" else "term") in frame.columns, name
        assert str(one.summary()).strip() and one.to_html().startswith("<"), name
        assert "tabular" in one.to_latex() or name in BARE, name
        assert one.to_markdown().strip()
        assert one.plot() is not None, name
        plt.close("all")
        path = tmp_path / f"{name}.json"
        one.save(path)
        again = dp.load(path)
        assert type(again) is type(one), name
        assert str(again.summary()) == str(one.summary()), name
        assert listed(again) == listed(one), name
        pd.testing.assert_frame_equal(again.tidy(), frame)
        written = tmp_path / f"{name}.html"
        one.to_html(written)
        assert "<table" in written.read_text() or name in BARE
    with pytest.raises(RequestError, match=r"save\('fit.json'\).*to_html\('fit.html'\)"):
        made["dp_ols"].save("fit.html")
    with pytest.raises(RequestError, match="needs a path"):
        made["dp_ols"].save(3)


def test_every_result_goes_to_word(made, tmp_path):
    pytest.importorskip("docx")
    for name, one in made.items():
        one.to_word(tmp_path / "t.docx")
        assert (tmp_path / "t.docx").stat().st_size > 1000, name
        (tmp_path / "t.docx").unlink()


def test_a_loaded_result_goes_on(made, tmp_path):
    """Means from a file are compared; a fit of a pickle has its kind."""
    means = made["emmeans"]
    means.save(tmp_path / "m.json")
    again = dp.load(tmp_path / "m.json").pairs("holm")
    assert again.tidy().equals(means.pairs("holm").tidy())
    fit = pickle.loads(pickle.dumps(made["dp_ols"]))
    assert type(fit) is type(made["dp_ols"]) and fit.params.equals(made["dp_ols"].params)


def test_a_file_of_results_makes_nothing_else(tmp_path):
    """Only kinds that are on the list are made of a file."""
    path = tmp_path / "odd.json"
    start = '{"format": "dpmodels.result", "version": 1, "result": '
    for text in ('{"kind": "os:system", "fields": {}}', '{"kind": "record", "value": 3}', "{}"):
        path.write_text(start + text + "}")
        with pytest.raises(dp.errors.DPModelsError):
            dp.load(path)
    path.write_text(start.replace("1", "9") + "3}")
    with pytest.raises(RequestError, match="format 9"):
        dp.load(path)


def test_other_spellings_are_accepted(made):
    fit = made["dp_ols"]
    assert fit.coef().equals(fit.params) and fit.tvalues.equals(fit.zvalues)
    assert fit.cov_params().equals(fit.vcov()) and fit.confint().equals(fit.conf_int())
    assert fit.model == fit.facts.verb == "dp_ols" and fit.level == fit.facts.level == 0.95
    assert fit.options == fit.facts.options and fit.shares == fit.facts.shares
    assert fit.bias_bound.equals(fit.errors()["bias_bound"].rename("bias_bound"))
    assert str(fit.t_test("x = z")) == str(fit.contrast("x = z"))
    assert fit.f_test("g").statistic == fit.wald_test("g").statistic / 2
    assert fit.wald_test("g", scalar=True) == fit.wald_test("g")
    assert Fit.from_json(fit.to_json()).params.equals(fit.params)
    assert Fit.from_dict(fit.to_dict()).params.equals(fit.params)
    assert fit.summary().as_html() == fit.to_html()
    assert "draws" in dir(fit)
    hidden = ("coef", "tvalues", "zvalues", "cov_params", "confint", "t_test", "f_test", "to_json", "shares")
    assert not set(hidden) & set(dir(fit))
    with pytest.raises(RequestError, match="no argument scalr"):
        fit.wald_test("g", scalr=True)


def test_both_words_for_a_quantile(made):
    d = table(500)
    call = {**CALL, "inference": False}
    one, two = (dp.dp_quantile("y", d, **{w: [0.2, 0.5]}, **call) for w in ("q", "tau"))
    assert one.params.equals(two.params)
    one, two = (dp.dp_quantreg("y ~ x", d, **{w: 0.5}, **CALL) for w in ("q", "tau"))
    assert one.params.equals(two.params) and "Quantile:" in str(one.summary())


def test_old_orders_are_accepted():
    d = table(800)
    one, two = dp.dp_mest("y ~ x", d, "huber", **CALL), dp.dp_mest("huber", "y ~ x", d, **CALL)
    assert one.params.equals(two.params)
    with pytest.raises(RequestError, match="loss='huber'"):
        dp.dp_mest("y ~ x", d, **CALL)
    ways = (
        dp.dp_release("~ x + y", d, **CALL, accept_no_estimate=True), dp.dp_release(["x", "y"], d, **CALL, accept_no_estimate=True),
        dp.dp_release(d, ["x", "y"], **CALL, accept_no_estimate=True), dp.dp_release(d, columns=["x", "y"], **CALL, accept_no_estimate=True),
        dp.dp_release(data=d, columns=["x", "y"], **CALL, accept_no_estimate=True),
        dp.dp_release("~ x + y", data=d, **CALL, accept_no_estimate=True),
    )  # fmt: skip
    assert {way.names for way in ways} == {("x", "y")}
    assert dp.dp_release(d[["x", "y"]], **{**CALL, "schema": SCHEMA.restrict(["x", "y"])}, accept_no_estimate=True).d == 2
    with pytest.raises(RequestError, match=r"no response.*'~ y \+ x'"):
        dp.dp_release("y ~ x", d, **CALL, accept_no_estimate=True)
    with pytest.raises(RequestError, match="columns in one place"):
        dp.dp_release("~ x", d, columns=["x"], **CALL, accept_no_estimate=True)
    with pytest.raises(RequestError, match="needs a table"):
        dp.dp_release("~ x", **CALL, accept_no_estimate=True)


def test_a_test_crosses_as_a_table_does():
    d = table(800)
    one, two = (dp.dp_test(f"~ g {sign} e", d, **CALL) for sign in "*+")
    assert one.pvalue == two.pvalue and "~ g * e" in str(one.summary())
    assert "~ g * e" in str(dp.dp_table("~ g * e", d, **CALL).summary())


def test_fits_one_by_one_or_in_a_list(made):
    m, d = made["dp_moments"], made["dp_ols"]
    small, large = dp.dp_ols("y ~ x", m), dp.dp_ols("y ~ x + z", m)
    assert str(dp.anova(small, large)) == str(dp.anova([small, large]))
    assert str(dp.etable(small, large)) == str(dp.etable([small, large]))
    for verb in (dp.anova, dp.etable, dp.coef_plot):
        with pytest.raises(RequestError, match="needs fits"):
            verb([small, 3])
        with pytest.raises(RequestError, match="at least one fit"):
            verb([])
    assert str(dp.anova(d, typ=2)) == str(d.anova_table(2))


def test_the_style_of_columns_is_one_setting(made):
    fit = made["dp_ols"]
    assert dp.tidy_style() == "python"
    try:
        dp.tidy_style("r")
        assert "std.error" in fit.tidy() and "row.norm.bound" in fit.glance()
        assert "std_error" in fit.tidy(style="python")
    finally:
        dp.tidy_style("python")
    assert "std_error" in fit.tidy()
    with pytest.raises(RequestError, match="stata"):
        dp.tidy_style("stata")


def test_the_method_that_ran_is_the_one_that_is_printed(made):
    d = table(1500)
    scores = "least squares, private"
    moments = "least squares from noisy moments"
    fit = made["dp_ols"]
    assert fit.facts.title == scores and scores in str(fit.summary())
    other = dp.dp_ols("y ~ x", d, scoring=False, **CALL)
    assert other.facts.title == moments and moments in str(other.summary())
    shown = " ".join(str(dp.methods()).split())
    assert f"{scores}; or {moments}" in shown
    text = str(dp.etable(fit, other, made["dp_glm"], made["dp_mest"]))
    assert "binomial, logit" in text and "huber" in text
    assert f"(1) {scores}" in " ".join(text.split()) and f"(2) {moments}" in " ".join(text.split())
    plan = dp.plan("y ~ x", SCHEMA, n=1500, eps=2, delta=1e-6)
    assert scores in str(plan)
    one = dp.dp_quantreg("y ~ x", d, tau=0.5, **CALL)
    assert "tau = 0.5" in str(dp.etable(one))


def test_no_module_of_results_is_reached_around_the_wall():
    """``import_module("dpmodels.api...")`` had stood in a method of a fit."""
    folder = Path(dp.__file__).parent / "results"
    for path in folder.glob("*.py"):
        if path.name == "__init__.py":
            continue
        names = {n.id for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)}
        assert not names & {"import_module", "importlib", "__import__"}, path.name


def test_update_is_a_new_release(made, tmp_path):
    fit, d = made["dp_ols"], table()
    with pytest.raises(RequestError, match=r"needs data again.*fit.update\('~ . - z', data, eps=2"):
        fit.update("~ . - z")
    with pytest.raises(RequestError, match="needs eps= and delta="):
        fit.update("~ . - z", d)
    budget = dp.Budget(3, 1e-5)
    new = fit.update("~ . - z", d, eps=1, delta=1e-6, budget=budget)
    assert new.formula == "y ~ x + C(g)" and new.privacy.eps == 1
    assert budget.eps_spent(1e-5) > 0.5
    assert "(ε = 3, δ = 2e-06)-DP together" in " ".join(new.notes)
    assert new.design.schema["x"] == SCHEMA["x"]
    glm = made["dp_glm"].update("~ . - z", d, eps=1, delta=1e-6, link="probit", seed=1)
    assert glm.formula == "e ~ x" and glm.options["link"] == "probit"
    assert glm.family == "binomial"
    m = made["dp_moments"]
    free = dp.dp_ols("y ~ x", m).update(". ~ . + z", m)
    assert free.params.equals(dp.dp_ols("y ~ x + z", m).params)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("y ~ x + z", "~ . - z", "y ~ x"),
        ("y ~ x + z", "~ . + w", "y ~ x + z + w"),
        ("y ~ x + z", "log(y) ~ .", "log(y) ~ x + z"),
        ("y ~ x + I(x - 1)", "~ . - I(x - 1)", "y ~ x"),
        ("y ~ x * z", "~ . - x:z", "y ~ x * z - x:z"),
        ("y ~ x", "~ . - x", "y ~ 1"),
        ("y ~ x", "~ . - 1", "y ~ x - 1"),
        ("y ~ x", "~ w", "y ~ w"),
        ("y ~ x", "~ . + x", "y ~ x"),
    ],
)
def test_updated_formulas(old, new, text):
    from dpmodels.api.followups import updated

    assert updated(old, new) == text


def test_updated_formulas_that_cannot_be():
    from dpmodels.api.followups import updated

    for given, says in ((None, "needs a formula"), ("- x", "'~ - x'"), ("", "needs a formula")):
        with pytest.raises(RequestError, match=says):
            updated("y ~ x", given)
    with pytest.raises(RequestError, match="both parts"):
        updated("y ~ x | z", "~ . - x")


def test_inflation_factors_are_those_of_statsmodels(noiseless):
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    d = table(4000)
    d["w"] = 0.8 * d["x"] + 0.2 * d["z"] - 0.2 + np.random.default_rng(3).uniform(-0.2, 0.2, 4000)
    schema = SCHEMA.update(w=dp.Real(-1.5, 1.5))
    call = {"eps": 1e9, "delta": 1e-6, "schema": schema}
    X = np.column_stack([np.ones(4000), d["x"], d["z"], d["w"]])
    expected = [variance_inflation_factor(X, j) for j in (1, 2, 3)]
    m = dp.dp_moments("y + x + z + w", d, method="joint", **call)
    on = dp.dp_ols("y ~ x + z + w", m).vif()["vif"]
    assert on.to_numpy() == pytest.approx(expected, rel=1e-3)
    scored = dp.dp_ols("y ~ x + z + w", d, **call).vif()["vif"]
    assert scored.to_numpy() == pytest.approx(expected, rel=0.05)
    assert isinstance(on, pd.Series) and list(on.index) == ["x", "z", "w"]
    with pytest.raises(RequestError, match="needs a predictor"):
        dp.dp_ols("y ~ 1", m).vif()


def test_shown_things_have_one_writer():
    assert issubclass(Result, Shown) and "as_html" not in dir(dp.etable)
    assert "to_html" in dir(Shown()) and "as_html" not in dir(Shown())


@pytest.mark.oracle
def test_inflation_factors_of_a_logit_are_those_of_its_information():
    """At the weights of the fit, as car::vif has them: statsmodels' covariance, one seed."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    z = rng.normal(size=60_000)
    x = 0.7 * z + 0.6 * rng.normal(size=60_000)
    y = (rng.random(60_000) < 1 / (1 + np.exp(0.5 - 0.8 * x - 0.4 * z))).astype(int)
    data = pd.DataFrame({"x": x.clip(-4, 4), "z": z.clip(-4, 4), "y": y})
    schema = dp.Schema(x=dp.Real(-4, 4), z=dp.Real(-4, 4), y=dp.Binary())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dp.dp_glm("y ~ x + z", data, eps=30, delta=1e-6, schema=schema, seed=1)
        X = sm.add_constant(data[["x", "z"]])
        V = sm.GLM(data["y"], X, family=sm.families.Binomial()).fit().cov_params().to_numpy()[1:, 1:]
    R = V / np.sqrt(np.outer(np.diag(V), np.diag(V)))
    assert np.allclose(fit.vif()["vif"], np.diag(np.linalg.inv(R)), rtol=0.03)
    plain = np.corrcoef(data["x"], data["z"])[0, 1]
    assert abs(fit.vif()["vif"].iloc[0] - 1 / (1 - plain**2)) > 0.1, "not that of the columns alone"
