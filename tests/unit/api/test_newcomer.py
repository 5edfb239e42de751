"""What somebody from R, statsmodels or pyfixest looks for: twenty-four things, each in a line."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.usefixtures("quiet")
SCHEMA = dp.Schema(
    wage=dp.Real(0, 60), age=dp.Real(18, 70), exper=dp.Real(0, 40), sex=dp.Levels(["f", "m"]),
    region=dp.Levels(["n", "s", "w"]), union=dp.Binary(), kids=dp.Count(upper=8),
    dist=dp.Real(0, 1),
)  # fmt: skip
CALL = {"eps": 4, "delta": 1e-6, "schema": SCHEMA, "seed": 1}


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({
        "age": rng.uniform(18, 70, n), "exper": rng.uniform(0, 40, n),
        "sex": rng.choice(["f", "m"], n), "region": rng.choice(["n", "s", "w"], n),
        "kids": rng.poisson(1.2, n).clip(0, 8), "dist": rng.uniform(0, 1, n),
        "pid": np.arange(n) // 2,
    })  # fmt: skip
    d["wage"] = (10 + 0.2 * d.age + 2 * (d.sex == "m") + rng.normal(0, 4, n)).clip(0, 60)
    d["union"] = (rng.uniform(size=n) < 0.3 + 0.2 * (d.sex == "m")).astype(int)
    return d


class Newcomer:
    """Makes things once."""

    def __init__(self):
        self.d, self.new = table(), table(5, 9)
        self.fit = dp.dp_ols("wage ~ age + exper + C(region) + sex", self.d, **CALL)
        self.logit = dp.dp_glm("union ~ age + sex", self.d, family="binomial", **CALL)
        self.m = dp.dp_moments("wage + age + exper + sex", self.d, **CALL)


@pytest.fixture(scope="module")
def k():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Newcomer()


FEATURES = {
    "lm, summary": lambda k, p: "Bias <=" in str(k.fit.summary()),
    "confint, vcov": lambda k, p: k.fit.conf_int().shape == (6, 2) and k.fit.vcov().shape == (6, 6),
    "predict with an interval": lambda k, p: (
        list(k.fit.predict(newdata=k.new, interval="prediction")) == ["fit", "lwr", "upr"]
    ),
    "broom: tidy, glance": lambda k, p: (
        "std.error" in k.fit.tidy(style="r") and len(k.fit.glance()) == 1
    ),
    "R-squared, F": lambda k, p: 0 < k.fit.rsquared < 1 and k.fit.fvalue > 1,
    "linearHypothesis, wald_test": lambda k, p: k.fit.wald_test("age = 0.2").pvalue > 0.001,
    "glht, lincom": lambda k, p: abs(k.fit.contrast({"age": 10}).effect[0] - 2) < 1,
    "Anova of terms": lambda k, p: list(dp.anova(k.fit).tidy()["term"])[-1] in ("region", "C(region)", "sex"),
    "anova of nested models": lambda k, p: len(
        dp.anova([dp.dp_ols("wage ~ age", k.m), dp.dp_ols("wage ~ age + exper", k.m)]).tidy()
    ) == 1,
    "update": lambda k, p: k.fit.update(
        "~ . - exper", k.d, eps=1, delta=1e-6, seed=1
    ).formula == "wage ~ age + C(region) + sex",
    "emmeans, pairs, Tukey": lambda k, p: len(k.fit.emmeans("~ region").pairs().effect) == 3,
    "marginaleffects: avg_slopes": lambda k, p: 0 < k.logit.avg_slopes(
        k.new, variables="sex").effect[0] < 0.5,
    "avg_comparisons": lambda k, p: abs(
        k.fit.avg_comparisons({"age": 10}).effect[0] - 10 * k.fit.params["age"]) < 1e-6,
    "avg_predictions by group": lambda k, p: len(
        k.logit.avg_predictions(k.new, by="sex").effect) <= 2,
    "glm, odds ratios": lambda k, p: (k.logit.tidy(exponentiate=True)["estimate"] > 0).all(),
    "robust and clustered errors": lambda k, p: "person" in dp.dp_ols(
        "wage ~ age", k.d, unit="pid", **CALL).unit,
    "quantreg of several quantiles": lambda k, p: list(dp.dp_quantreg(
        "wage ~ age", k.d, q=[0.25, 0.75], **CALL).predict(k.new).columns
    ) == ["tau = 0.25", "tau = 0.75"],
    "two-stage least squares": lambda k, p: "first_stage_F[exper]" in dp.dp_iv(
        "wage ~ exper | age", k.m).stats,
    "natural splines and their curve": lambda k, p: dp.dp_ols(
        "wage ~ ns(age, knots=[30, 50])", k.d, **CALL).plot(term="age") is not None,
    "vif, AIC, BIC": lambda k, p: (
        (k.fit.vif()["vif"] >= 1).all() and np.isfinite(dp.dp_ols("wage ~ age", k.m).aic)
    ),
    "lasso, ridge, best subset": lambda k, p: len(k.m.lasso_path("wage")) > 3
    and len(k.m.best_subset("wage")) > 1,
    "etable, modelsummary to a file": lambda k, p: (
        dp.etable([k.fit, k.logit], file=p / "t.tex") is not None and (p / "t.tex").exists()
    ),
    "coefplot": lambda k, p: dp.coef_plot([k.fit, dp.dp_ols("wage ~ age", k.m)]) is not None,
    "t.test, chisq.test": lambda k, p: (
        dp.dp_test("wage ~ sex", k.d, **CALL).pvalue < 0.05
        and 0 <= dp.dp_test("~ sex * region", k.d, **CALL).pvalue <= 1
    ),
    "table 1, histogram, density, ecdf": lambda k, p: dp.dp_table(
        "~ wage + region", k.d, histogram=20, **CALL).plot(kind="ecdf") is not None,
    "power": lambda k, p: "power" in " ".join(dp.plan(
        "wage ~ age", SCHEMA, n=5000, eps=1, delta=1e-6, want="power", effect={"age": 0.1}).advice),
    "save, load, Word": lambda k, p: (
        k.fit.save(p / "f.json") is None and dp.load(p / "f.json").params.equals(k.fit.params)
    ),
}


def test_there_are_twenty_four_at_least():
    assert len(FEATURES) >= 24


@pytest.mark.parametrize("feature", FEATURES)
def test_it_is_where_a_newcomer_looks(k, feature, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    assert FEATURES[feature](k, tmp_path)
    plt.close("all")
