"""What people who come from R, statsmodels, lifelines and fixest type, beside the list of
``test_sixty_mistakes.py``: nothing is silent, and what is wrong is said before the charge.

The first list is that of a trial with a statistician; the second was made up for this test.
"""

import re
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from tests.unit.api.test_sixty_mistakes import CALL, PAIR, SCHEMA, table

pytestmark = pytest.mark.usefixtures("quiet")


def data():
    d = table()
    return d.assign(
        name=d["sex"].astype("string"), id=np.arange(len(d)) // 2, w=1.0,
        day=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(d)), unit="D"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def k(tmp_path_factory):
    d = data()
    path = tmp_path_factory.mktemp("mistakes") / "d.csv"
    d.to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {"seed": 1, **CALL}
        return types.SimpleNamespace(
            d=d, csv=str(path), fit=dp.dp_ols("wage ~ age + region", d, **made),
            glm=dp.dp_glm("union ~ age + region", d, **{**made, "eps": 40}),
            cox=dp.dp_coxph("Surv(wage, union) ~ age", d, **made),
            km=dp.dp_survfit("Surv(wage, union) ~ sex", d, **made),
            tab=dp.dp_table("~ region", d, **made),
        )  # fmt: skip


def ols(formula="wage ~ age", **more):
    return lambda k, b: dp.dp_ols(formula, more.pop("data", k.d), **{**CALL, "budget": b, **more})


def declared(name, variable, formula):
    return ols(formula, schema=SCHEMA.update({name: variable}))


#: Of the trial: call -> what the answer says to type.
TRIED = [
    (declared("name", dp.Binary(), "wage ~ name"), r"dp.Binary\(\('no', 'yes'\)\)"),
    (declared("name", dp.Real(0, 1), "wage ~ name"), r"'name': dp.Levels\(\[...\]\)"),
    (declared("name", dp.Real(0, 1), "name ~ age"), r"dp.Real\(0, 10, decimal='.'\)"),
    (declared("name", dp.Count(3), "wage ~ name"), r"dp.Levels\(\[...\]\)"),
    (ols("wage ~ name", schema=None, bounds={"name": (0, 1), "wage": (0, 60)}), "column of text"),
    (
        lambda k, b: dp.dp_table(
            "name ~ sex", k.d, budget=b, schema=SCHEMA.update(name=dp.Real(0, 1)), **PAIR
        ),
        "column of text",
    ),
    (declared("day", dp.Real(0, 1), "wage ~ day"), r"dp.Date\('2020-01-01'"),
    (declared("day", dp.Binary(), "wage ~ day"), r"dp.Date\('2020-01-01'"),
    (
        lambda k, b: dp.dp_ols("wage ~ age", k.csv, bounds={"wage": (0, 60)}, budget=b, **PAIR),
        r"'age': dp.Real\(lower, upper\)",
    ),
    (
        lambda k, b: dp.dp_ols("wage ~ region", k.csv, bounds={"wage": (0, 60)}, budget=b, **PAIR),
        r"'region': dp.Levels\(\[...\]\)",
    ),
    (lambda k, b: dp.Survey(weights="~w"), "weights='w'"),
    (lambda k, b: dp.Survey(ids="~id"), 'psu="village"'),
    (lambda k, b: dp.Survey(cluster="id"), 'psu="village"'),
    (lambda k, b: dp.Survey(weights="w", nest=True), "nested in strata="),
    (
        lambda k, b: dp.dp_coxph(
            "Surv(wage, union) ~ sex*age + strata(sex)", k.d, budget=b, **CALL
        ),
        r"Surv\(wage, union\) ~ age \+ sex:age \+ strata\(sex\)",
    ),
    (
        lambda k, b: dp.dp_coxph("Surv(wage, union) ~ C(sex) + strata(sex)", k.d, budget=b, **CALL),
        "absorbs the effect",
    ),
    (lambda k, b: dp.Levels("a", "b"), r"Levels\(\['a', 'b'\]\)"),
    (lambda k, b: dp.Ordered("a", "b", "c"), r"Ordered\(\['a', 'b'\]\)"),
    (lambda k, b: dp.Count(0, 10), r"Count\(10\)"),
    (lambda k, b: k.fit.emmeans("region", type="respons"), "Did you mean|is not one of"),
    (lambda k, b: k.fit.emmeans("region", contr="pairwise"), "It accepts specs, by, at"),
    (lambda k, b: dp.dp_ols("wage ~ age", k.d, unit=k.d["id"], budget=b, **CALL), "unit='id'"),
    (lambda k, b: k.fit.coef_, "fit.params"),
    (lambda k, b: k.fit.intercept_, r"fit.params\['Intercept'\]"),
    (ols(ledger="study.ledger"), r"dp.Budget.open\('study.ledger'"),
    (ols(survey=None), r"design=dp.Survey"),
    (lambda k, b: dp.Budget(3, 1e-5, accounting="renyi"), "'gaussian'"),
    (lambda k, b: dp.Budget(3, 1e-5, accounting="gaussian", rule="basic"), "give one"),
]

#: Made up for this test.
MADE_UP = [
    (lambda k, b: k.fit.get_prediction(k.d), r"fit.predict\(new, interval='confidence'\)"),
    (lambda k, b: k.fit["age"], r"fit.params\['age'\]"),
    (lambda k, b: k.fit.plot_diagnostics(), r"fit.diagnose\(data"),
    (lambda k, b: k.fit.outlier_test(), r"fit.diagnose\(data"),
    (lambda k, b: k.fit.get_robustcov_results("HC3"), r'vcov=\{"CRV1"'),
    (lambda k, b: k.fit.remove_data(), "contains no data"),
    (lambda k, b: k.fit.summary2(), "Did you mean 'summary'"),
    (lambda k, b: k.fit.avg_slopes(vcov="HC3"), "newdata, variables="),
    (lambda k, b: k.fit.tidy(conf_level=0.9), "level=0.9"),
    (lambda k, b: k.fit.tidy(exponentiated=True), "Did you mean 'exponentiate'"),
    (lambda k, b: k.cox.check_assumptions(k.d), "dp.dp_survfit"),
    (lambda k, b: k.cox.predict_survival_function(k.d), r"what='survival', times="),
    (lambda k, b: k.km.median_survival_time_, r"fit.quantile\(0.5\)"),
    (lambda k, b: k.glm.predict(k.d.head(2), type="odds"), r"\['mean', 'link'"),
    (ols("wage ~ age^2"), r"I\(age\*\*2\)"),
    (ols("wage ~ age**3"), r"I\(age\*\*3\)"),
    (ols("wage ~ I(age^2)"), r"I\(age\*\*2\)"),
    (ols("wage ~ relevel(region, ref='s')"), r"C\(region, Treatment\('s'\)\)"),
    (ols("wage ~ C(region, Treatment('x'))"), r"Levels: \['n', 's', 'w'\]"),
    (ols("wage ~ ifelse(age > 30, 1, 0)"), r"I\(age > 30\)"),
    (ols("wage ~ I(age - mean(age))"), r"I\(age - 10.4\)"),
    (ols("np.log(wage) ~ age"), r"log1p\(wage\)"),
    (ols("wage ~ wage + age"), "Leave it out on the right"),
    (ols("wage, age"), "cannot read the formula"),
    (lambda k, b: dp.dp_ols(k.d["wage"], k.d[["age"]], budget=b, **CALL), "'y ~ x1"),
    (ols(random_state=1), "NOT PRIVATE"),
    (ols(disp=0), "nothing to control"),
    (ols(nobs=600), "n=1000"),
    (ols(by="sex"), r"subset="),
    (ols(robust=True), "robust by default"),
    (ols(schema={"wage": (0, 60), "age": ["f", "m"]}), r"dp.Levels\(\['a', 'b', 'c'\]\)"),
    (ols(schema=None, bounds=[(0, 60), (18, 70)]), r"\{\"alcohol\": \(8, 15\)\}"),
    (lambda k, b: dp.Real([0, 60]), r"Real\(0, 10\)"),
    (lambda k, b: dp.Real("0", "60"), r"Real\(lower=0, upper=10\)"),
    (lambda k, b: dp.Binary("f", "m"), r"Binary\(\('no', 'yes'\)\)"),
    (lambda k, b: dp.Levels(k.d["sex"]), "List each level once"),
    (lambda k, b: dp.Budget(3), r"dp.Budget\(3, 1e-6\)"),
    (
        lambda k, b: dp.dp_glm("cbind(union, 1 - union) ~ age", k.d, budget=b, **CALL),
        r"\{y > 3\} ~ x",
    ),
    (
        lambda k, b: dp.dp_glm(
            "union ~ age + offset(log(exper))", k.d, family="poisson", budget=b, **CALL
        ),
        r"log\(clip\(exper",
    ),
    (
        lambda k, b: dp.dp_coxph("Surv(wage, union) ~ age + cluster(id)", k.d, budget=b, **CALL),
        'unit="id"',
    ),
    (
        lambda k, b: dp.dp_coxph("Surv(wage, union) ~ age + frailty(id)", k.d, budget=b, **CALL),
        're="id"',
    ),
    (lambda k, b: dp.dp_coxph("Surv(wage, union) ~ tt(age)", k.d, budget=b, **CALL), "subset="),
    (lambda k, b: dp.dp_coxph("Surv(union, wage) ~ age", k.d, budget=b, **CALL), "wage == 60"),
    (lambda k, b: dp.dp_coxph("wage ~ age", k.d, budget=b, **CALL), r"Surv\(time, event\) ~"),
    (lambda k, b: dp.dp_feols("wage ~ age", k.d, budget=b, **CALL), r'"y ~ x . id'),
    (lambda k, b: dp.dp_table("wage ~ sex", k.d, margins=True, budget=b, **CALL), "crosstab"),
    (lambda k, b: dp.dp_quantile("wage", k.d, probs=[50], budget=b, **CALL), r"q=\[0.25"),
    (lambda k, b: dp.dp_test("wage ~ sex", k.d, test="wilcoxon", budget=b, **CALL), "'welch'"),
    (lambda k, b: dp.etable(k.fit, coef_map={"age": "Age"}), "labels="),
    (lambda k, b: dp.etable(k.fit, output="latex"), "type='tex'"),
    (lambda k, b: dp.etable(k.fit, fitstat="r2"), r"stats=\["),
    (lambda k, b: dp.etable(k.fit, vcov="HC1"), "that of each fit"),
    (lambda k, b: dp.svyglm("union ~ age", k.d), r"dp.Survey\(weights='w'"),
    (lambda k, b: dp.lmer("wage ~ age + (1 | id)", k.d), 're="id"'),
    (lambda k, b: dp.stargazer(k.fit), r"dp.etable\(fit1, fit2\)"),
    (lambda k, b: dp.coxph("Surv(wage, union) ~ age", k.d), "dp.dp_coxph"),
    (lambda k, b: dp.set_seed(1), "seed=1"),
    (lambda k, b: dp.plan("wage ~ age", k.d, n=600, **PAIR), r"dp.Schema\(x=dp.Real\(0, 10\)\)"),
    (ols(weights="w"), r"w = dp.Real\(0, w_max\)"),
    (ols(design="w"), r"dp.Survey\(weights='w'"),
    (lambda k, b: dp.load(k.csv), r"fit.save\(path\)"),
]


def test_there_are_ninety_and_half_of_the_sixty_are_in_no_list():
    assert len(MADE_UP) >= 60 and len(TRIED) >= 25


@pytest.mark.parametrize(
    ("mistake", "says"), [*TRIED, *MADE_UP], ids=range(len(TRIED) + len(MADE_UP))
)
def test_a_mistake_is_answered_with_what_to_type_and_nothing_is_charged(k, mistake, says):
    budget = dp.Budget(100, 1e-3)
    with pytest.raises((dp.errors.DPModelsError, AttributeError)) as caught:
        mistake(k, budget)
    text = str(caught.value)
    assert re.search(says, text, re.DOTALL), text
    assert len(text) < 1500 and not budget.charges
    assert not any(f"{v:.6g}" in text for v in k.d["wage"].head(50))  # no private cell


#: Allowed, and not what was meant as a rule: said before the charge.
WARNED = [
    (ols("union ~ age"), r'dp.dp_glm\("union ~ age", ...\)'),
]


@pytest.mark.parametrize(("call", "says"), WARNED, ids=range(len(WARNED)))
def test_what_is_allowed_and_odd_is_said(k, call, says):
    with pytest.warns(dp.errors.UtilityWarning, match=says):
        call(k, dp.Budget(5000, 1e-3))


def test_numbers_kept_as_objects_and_dates_with_their_range_are_still_read(k):
    """What has no type is read cell by cell, and a range in seconds since 1970 is one."""
    d = k.d.assign(age=k.d["age"].astype(object))
    assert dp.dp_ols("wage ~ age", d, **CALL).released
    schema = SCHEMA.update(day=dp.Real(1.5e9, 1.7e9))
    assert dp.dp_ols("wage ~ day", k.d, schema=schema, **PAIR).released
    whole = {"age": dp.Real(), "wage": dp.Real(0, 60)}
    assert dp.dp_ols("wage ~ age", k.csv, schema=whole, **PAIR).nobs == len(k.d)


def test_every_line_of_a_ledger_says_what_changes_the_release(k):
    budget = dp.Budget(100, 1e-3)
    dp.dp_ols("wage ~ age", k.d, budget=budget, **CALL)
    dp.dp_ols("wage ~ age", k.d, budget=budget, vcov="iid", subset="age > 30", **CALL)
    dp.dp_glm("union ~ age", k.d, budget=budget, link="probit", **CALL)
    lines = [charge.call for charge in budget.charges]
    assert lines[0] == 'dp_ols("wage ~ age", method="ssp")'
    assert 'vcov="iid"' in lines[1] and 'subset="age > 30"' in lines[1]
    assert 'link="probit"' in lines[2]
    people = dp.Budget(100, 1e-3, unit="id")
    dp.dp_feols("wage ~ age | id", k.d, budget=people, unit="id", **CALL)
    dp.dp_feols("wage ~ age", k.d, budget=people, unit="id", re="id", **CALL)
    dp.dp_ols("wage ~ age", k.d, budget=people, unit="id", **CALL)
    within, random, plain = (charge.call for charge in people.charges)
    assert "wage ~ age | id" in within and 're="id"' in random and 'unit="id"' in plain
    assert len({within, random, plain}) == 3


def test_accounting_is_said_and_may_be_chosen(k, tmp_path):
    budget = dp.Budget(100, 1e-3)
    dp.dp_ols("wage ~ age", k.d, budget=budget, **CALL)
    assert "accounting: Gaussian" in repr(budget) and "accounting: Gaussian" in str(budget)
    sums = dp.Budget.open(tmp_path / "a.ledger", 3, 1e-5, accounting="sums")
    assert sums.account.rule == "basic" and "accounting: sums" in repr(sums)
    assert dp.Budget(3, 1e-5, accounting="gaussian").account.rule == "mixed"


def test_a_paragraph_for_a_methods_section(k):
    budget = dp.Budget(100, 1e-3)
    fit = dp.dp_ols("wage ~ age", k.d, budget=budget, **CALL)
    said = fit.statement()
    for part in ("(2, 1e-06)-differentially private", "replace one row", "unit of privacy: one row",
                 "Gaussian noise", "composed", "dp_ols", "clipping", "dpmodels"):  # fmt: skip
        assert part in said, part
    assert "\n" not in said and said.count(". ") >= 4
    assert "NOT PRIVATE" in k.fit.statement()
    whole = budget.statement()
    assert "eps = 100" in whole and "one release was" in whole and "Gaussian" in whole


def test_a_mean_of_a_logit_has_no_z_of_another_scale(k):
    means = k.glm.emmeans("region")
    assert means.tidy()["statistic"].isna().all() and "P>|z|" not in str(means)
    assert k.glm.emmeans("region", type="response").tidy().equals(means.tidy())
    assert "P>|z|" in str(k.glm.emmeans("region", type="link"))
    assert np.isfinite(means.pairs().tidy()["statistic"]).all() and "P>|z|" in str(means.pairs())


def test_averages_take_the_rows_first_whatever_they_are_of(k):
    rows = k.d.head(20)
    found = k.fit.avg_comparisons(rows, {"age": 10}).tidy()
    for other in (
        k.fit.avg_comparisons(rows, variables={"age": 10}),
        k.fit.avg_comparisons({"age": 10}, rows),
        k.fit.avg_comparisons({"age": 10}, newdata=rows),
        k.fit.avg_comparisons(variables={"age": 10}),
    ):
        assert other.tidy()["estimate"].to_numpy() == pytest.approx(found["estimate"].to_numpy())
    assert len(k.fit.avg_slopes(rows).tidy()) and len(k.fit.predict(rows)) == 20
    assert k.fit.avg_comparisons("age").labels == k.fit.avg_comparisons(variables="age").labels
