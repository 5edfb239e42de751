"""Sixty and more mistakes that people make who come from R, statsmodels or pyfixest.

Each gets an answer that says what to type, and nothing is charged.
"""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = pytest.mark.usefixtures("quiet")
SCHEMA = dp.Schema(
    wage=dp.Real(0, 60), age=dp.Real(18, 70), exper=dp.Real(0, 40), sex=dp.Levels(["f", "m"]),
    region=dp.Levels(["n", "s", "w"]), union=dp.Binary(),
)  # fmt: skip
PAIR = {"eps": 2, "delta": 1e-6}
CALL = {**PAIR, "schema": SCHEMA}


def table(n=600):
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "wage": rng.gamma(4, 4, n).clip(0, 60), "age": rng.uniform(18, 70, n),
        "exper": rng.uniform(0, 40, n), "sex": rng.choice(["f", "m"], n),
        "region": rng.choice(["n", "s", "w"], n), "union": rng.integers(0, 2, n),
    })  # fmt: skip


@pytest.fixture(scope="module")
def k():
    """What the mistakes are made with: data, fits, a table, a release."""
    import types
    import warnings

    d = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {"seed": 1, **CALL}
        return types.SimpleNamespace(
            d=d, fit=dp.dp_ols("wage ~ age + region", d, **made),
            glm=dp.dp_glm("union ~ age", d, **made), tab=dp.dp_table("~ region", d, **made),
            m=dp.dp_moments("wage + age + exper", d, **made),
        )  # fmt: skip


def ols(formula="wage ~ age", **more):
    return lambda k: dp.dp_ols(formula, more.pop("data", k.d), **{**CALL, **more})


MISTAKES = [
    # the guarantee
    (lambda k: dp.dp_ols("wage ~ age", k.d), r"eps=1, delta=1e-6"),
    (lambda k: dp.dp_ols("wage ~ age", k.d, epsilon=1, delta=1e-6), "eps is not called epsilon"),
    (ols(eps=-1), "For example eps=1"),
    (ols(eps="1"), "For example eps=1"),
    (ols(delta=2), "for example delta=1e-6"),
    (ols(budget=3), r"dp.Budget\(eps=3, delta=1e-5\)"),
    (ols(budget=dp.Budget(0.5, 1e-5)), "Nothing was read and nothing was charged"),
    # the formula
    (lambda k: dp.dp_ols(k.d, "wage ~ age", **CALL), "the formula comes before the data"),
    (ols("wage = age"), "Fix.*: wage ~ age"),
    (ols("wage ~ agee"), "Did you mean 'age'"),
    (ols("wage ~ age + "), "Fix, without a sign at the end: wage ~ age"),
    (ols("wage ~ age +* exper"), r"Fix.*: wage ~ age \+ exper"),
    (ols("wage ~ age > 30"), r"Fix.*: wage ~ \{age > 30\}"),
    (ols("~ age"), '"y ~ age"'),
    (ols("wage ~ scale(age)"), r"I\(\(age - 44\) / 26\)"),
    (ols("wage ~ poly(age, 2)"), r"legendre\(age, 2\)"),
    (ols("wage ~ bs(age, df=4)"), r"bs\(age, knots=\[44\]\)"),
    (ols("wage ~ ns(age, 3)"), r"ns\(age, knots=\[35.33, 52.67\]\)"),
    (ols("wage ~ s(age)"), r"ns\(age, knots=\[...\]\)"),
    (ols("wage ~ factor(region)"), r"wage ~ C\(region\)"),
    (ols("wage ~ i(age)"), r"cut\(age, breaks="),
    (ols("wage ~ age | region"), "y ~ x . region"),
    (ols("wage ~ (1 | region)"), "unit='id'"),
    (ols("wage ~ lag(age)"), "age_lag"),
    (ols("log(wage) ~ age"), r"log1p\(wage\)"),
    (ols("wage ~ C(age)"), r"cut\(age, breaks=\[35.33, 52.67\]\)"),
    # the declarations
    (ols(schema=None, bounds={"age": (70, 18)}), r"Did you mean Real\(18, 70\)"),
    (ols(schema=None, bounds={"agee": (18, 70)}), "Did you mean 'age'"),
    (ols(schema=None, bounds=(0, 70)), r"\{\"alcohol\": \(8, 15\)\}"),
    (ols("wage ~ region", schema=None), r"region = dp.Levels\(\[...\]\)"),
    (lambda k: dp.Schema(wage=dp.Real(60, 0)), r"Did you mean Real\(0, 60\)"),
    (lambda k: dp.Schema(sex=dp.Levels("f")), r"Levels\(\['north', 'south'\]\)"),
    # the method and its options
    (ols(method="sps"), "Did you mean 'ssp'"),
    (ols(method="lm"), "Methods for dp_ols: 'ssp'"),
    (ols(vcov="HC3"), "Did you mean 'hetero'"),
    (ols(vcov={"CRV1": "villag"}), "no column of this name"),
    (ols(vcov={"CRV3": "region"}), "CRV1"),
    (ols(vcov={"CRV1": "region + sex"}), "clusters of one column"),
    (ols(vcov={"CRV1": "region"}, psus=7), "at least 20"),
    (ols(vcov={"CRV1": "region"}, psus=70, scoring=False), "last estimate is a scoring"),
    (ols(psus=70), 'vcov={"CRV1": "village"}'),
    (ols(cluster="region"), 'unit="person_id"'),
    (ols(cov_type="HC1"), "robust by default"),
    (ols(weights="wt"), "Columns: wage, age"),
    (lambda k: dp.dp_ols("wage ~ age", k.d, weights=k.d.age, **CALL), 'weights="w"'),
    (lambda k: dp.dp_ols("wage ~ age", k.d, subset=k.d.age > 30, **CALL), "subset=\"age >= 30"),
    (ols(subset="age > 30 & exper > 2"), "x == 'a' and z > 1"),
    (ols(na="drop"), "na='zero-row'"),
    (ols(level=95), "For example level=0.95"),
    (ols(split=0.5), r"for example \{"),
    (ols(unit="person"), "Columns: wage"),
    (lambda k: dp.dp_ols("wage ~ age", k.d, public=k.d, **CALL), "leave them out of the private"),
    # the data
    (lambda k: dp.dp_ols("wage ~ age", k.d.to_numpy(), **CALL), r"pd.DataFrame\(array, columns="),
    (lambda k: dp.dp_ols("wage ~ age", "nofile.csv", **CALL), "no file 'nofile.csv'"),
    (lambda k: dp.dp_ols("wage ~ age", None, **CALL), "Pass a pandas or polars frame"),
    (lambda k: dp.dp_ols("wage ~ age", k.m, **CALL), r"Type dp_ols\('wage ~ age', m\)"),
    (lambda k: dp.dp_ols("wage ~ age + region", k.m), r"dp.dp_moments\(\"wage . age . exper . region\""),
    # other verbs
    (lambda k: dp.dp_glm("union ~ age", k.d, family="binomal", **CALL), "Did you mean 'binomial'"),
    (lambda k: dp.dp_glm("union ~ age", k.d, link="logistic", **CALL), "Did you mean 'logit'"),
    (lambda k: dp.dp_glm("wage ~ age", k.d, family="binomial", **CALL), r"\{wage > 30\} ~"),
    (lambda k: dp.dp_glm("sex ~ age", k.d, family="poisson", **CALL), r"\{sex == 'm'\}"),
    (lambda k: dp.dp_quantreg("wage ~ age", k.d, tau=50, **CALL), "For example tau=0.5"),
    (lambda k: dp.dp_quantile("wage", k.d, q=50, **CALL), r"q=\[0.25, 0.5, 0.75\]"),
    (lambda k: dp.dp_mest("wage ~ age", k.d, **CALL), "loss='huber'"),
    (lambda k: dp.dp_mest("wage ~ age", k.d, loss="hubr", **CALL), "Did you mean 'huber'"),
    (lambda k: dp.dp_table("~ regoin", k.d, **CALL), "Did you mean 'region'"),
    (lambda k: dp.dp_test("wage ~ sex", k.d, test="ttest", **CALL), "Did you mean 't'"),
    (lambda k: dp.dp_test("wage ~ region", k.d, test="t", **CALL), "test='anova'"),
    (lambda k: dp.dp_iv("wage ~ age", k.d, **CALL), "wage ~ school . age . distance . age"),
    (lambda k: dp.plan("wage ~ age", SCHEMA, **PAIR), "n=1000"),
    (lambda k: dp.plan("wage ~ age", SCHEMA, n=100, verb="ols", **PAIR), "Did you mean 'dp_ols'"),
    (lambda k: dp.methods("ols"), "Its methods: ssp"),
    (lambda k: dp.lm("wage ~ age"), "Type dp.dp_ols"),
    (lambda k: dp.feols("wage ~ age"), "Type dp.dp_ols"),
    (lambda k: dp.logit("union ~ age"), "dp.dp_glm"),
    (lambda k: dp.ttest("wage ~ sex"), "dp.dp_test"),
    (lambda k: dp.dp_olss("wage ~ age"), "Did you mean 'dp_ols'"),
    # after a fit
    (lambda k: k.fit.resid, "no budget makes them private"),
    (lambda k: k.fit.fittedvalues, r"Use predict\(new\)"),
    (lambda k: k.fit.predict(), r"fit.predict\(new\)"),
    (lambda k: k.fit.predict(pd.DataFrame({"age": [30]})), "It needs age, region"),
    (lambda k: k.fit.predict(k.d.head(2), interval="conf"), "Did you mean 'confidence'"),
    (lambda k: k.fit.conf_int(0.05), r"conf_int\(0.95\)"),
    (lambda k: k.fit.wald_test("agee = 0"), "Did you mean 'age'"),
    (lambda k: k.fit.contrast({"agee": 1}), "Did you mean 'age'"),
    (lambda k: k.fit.emmeans("regoin"), "Did you mean 'region'"),
    (lambda k: k.fit.emmeans("age"), r"emmeans\('age', at=\{'age': \[...\]\}\)"),
    (lambda k: k.fit.emmeans("region", adjust="tuckey"), "Did you mean 'tukey'"),
    (lambda k: k.glm.avg_slopes(), r"newdata=dp.dp_mean\('age ~ 1'"),
    (lambda k: k.fit.update("~ . - age"), r"fit.update\('~ . - age', data, eps=2, delta=1e-06\)"),
    (lambda k: k.fit.summry(), "Did you mean 'summary'"),
    (lambda k: k.fit.to_csv("x.csv"), r"fit.tidy\(\).to_csv\(path\)"),
    (lambda k: k.fit.save("fit.html"), r"to_html\('fit.html'\)"),
    (lambda k: k.fit.plot(term="agee"), "Did you mean 'age'"),
    (lambda k: k.fit.plot(groups={"a": ["agee"]}), "Did you mean 'age'"),
    (lambda k: k.tab.predict(k.d), "regressions, classifiers and curves predict"),
    (lambda k: k.tab.lasso_path("wage"), "dp.dp_moments"),
    (lambda k: k.tab.plot(kind="ecdf"), "histogram=40"),
    (lambda k: dp.etable(k.d), r"etable\(fit1, fit2\)"),
    (lambda k: dp.etable(k.fit, type="word"), "file='table.docx'"),
    (lambda k: dp.etable(k.fit, file="t.pdf"), ".docx"),
    (lambda k: dp.etable(k.fit, keep="agee"), "Did you mean 'age'"),
    (lambda k: dp.anova(k.fit, k.glm), "models of one response"),
    (lambda k: dp.load("nofile.json"), "no file 'nofile.json'"),
]


def test_there_are_sixty_at_least():
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize(("mistake", "says"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_answered_with_what_to_type(k, mistake, says):
    with pytest.raises((dp.errors.DPModelsError, AttributeError), match=f"(?s){says}") as caught:
        mistake(k)
    text = str(caught.value)
    assert len(text) < 1500
    assert not any(f"{v:.6g}" in text for v in k.d["wage"].head(50))  # no private cell
