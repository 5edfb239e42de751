# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Coming from R
#
# **What you will learn.** `lm`, `glm`, `anova`, `emmeans`, `broom`, `modelsummary`, `fixest`, `ivreg`: what you would
# type in R, and what you type here. Everything after a fit works on released numbers and is free.
#
# **Data.** RAND Health Insurance Experiment, bundled (public).
#
# **Privacy used.** (5, 5e-6) in all, if the fits were not seeded: a seed makes them **NOT PRIVATE**, so that the numbers
# on this page can be repeated.

# %%
import tempfile
import warnings
from pathlib import Path

import numpy as np

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
hie = dp.datasets.rand_hie()
names = ["poor", "fair", "good", "excellent"]
hie["health"] = np.select([hie.hlthp == 1, hie.hlthf == 1, hie.hlthg == 1], names[:3], names[3])
hie["any_visit"] = (hie.mdvis > 0).astype(int)
hie["plan"] = np.where(hie.idp == 1, "deductible", "other")

# %% [markdown]
# R learns ranges and levels from the rows. Here they are said beforehand, from the codebook; a numeric range may be left
# out and is then bought from the budget.

# %%
schema = dp.Schema(
    mdvis=dp.Count(upper=52),
    disea=dp.Real(0, 60),
    lncoins=dp.Real(0, 4.62),
    physlm=dp.Real(0, 1),
    health=dp.Levels(["excellent", "good", "fair", "poor"]),
    plan=dp.Levels(["other", "deductible"]),
    any_visit=dp.Binary(),
)

# %% [markdown]
# ## `lm`, `summary`, `confint`, `vcov`, `predict`
#
# ```r
# fit <- lm(mdvis ~ disea + lncoins + health, hie)
# summary(fit); confint(fit); vcov(fit)
# predict(fit, new, interval = "confidence")
# ```

# %%
fit = dp.dp_ols(
    "mdvis ~ disea + lncoins + C(health)", hie, eps=1, delta=1e-6, schema=schema, seed=1
)
print(fit.summary())

# %%
print(fit.conf_int().round(3))
new = {"disea": [5, 20], "lncoins": [0, 3.2], "health": ["good", "poor"]}
print(fit.predict(new, interval="confidence").round(3))

# %% [markdown]
# R-squared is noisy and has an interval. Errors, intervals, z and p of this fit also allow for what clipping may have moved
# (`fit.errors()` has the parts).

# %%
low, high = fit.stats["r_squared_low"], fit.stats["r_squared_high"]
print(f"R-squared {fit.rsquared:.3f} [{low:.3f}, {high:.3f}], F {fit.fvalue:.0f}")

# %% [markdown]
# ## `car::linearHypothesis`, `car::Anova`, `multcomp::glht`
#
# ```r
# linearHypothesis(fit, c("disea = 0.1", "lncoins = -disea"))
# Anova(fit, type = 3)
# glht(fit, "10*disea - lncoins = 0")
# ```

# %%
print(fit.wald_test("disea = 0.1, lncoins = -disea"))
print(fit.wald_test("health"))  # a term: all its coefficients

# %%
print(fit.anova_table())
print(fit.contrast({"disea": 10, "lncoins": -1}))

# %% [markdown]
# ## `emmeans`
#
# ```r
# emmeans(fit, "health", at = list(disea = 11)) |> pairs()
# ```
#
# A fit keeps no means of the rows: numbers that `at=` does not name are held at the middle of their public range.

# %%
means = fit.emmeans("health", at={"disea": 11, "lncoins": 1.8})
print(means)
print(means.pairs())

# %% [markdown]
# Differences are adjusted by Tukey's method, as R does it. `emmeans(fit, ~ health | plan)` is `fit.emmeans("~ health | plan")`;
# numbers can be held at *released* means: `over=dp.dp_mean("disea + lncoins ~ 1", ...)`.
#
# ## `marginaleffects`
#
# ```r
# avg_slopes(logit, newdata = public); avg_predictions(logit, by = "health")
# ```
#
# Averages are over public rows, or at released means: averages over the private rows would be a release that nobody paid for.

# %%
public = {
    "disea": np.tile([2.0, 8.0, 15.0, 30.0], 4), "health": np.repeat(names[::-1], 4),
}

# %% [markdown]
# ## `glm`, odds ratios
#
# ```r
# logit <- glm(any_visit ~ disea + health, binomial, hie)
# tidy(logit, exponentiate = TRUE, conf.int = TRUE)
# ```

# %%
logit = dp.dp_glm(
    "any_visit ~ disea + C(health)", hie, family="binomial", eps=1, delta=1e-6, schema=schema,
    seed=1,
)
print(logit.tidy(exponentiate=True)[["term", "estimate", "conf_low", "conf_high"]].round(3))

# %%
print(logit.avg_slopes(public))
print(logit.avg_predictions(public, by="health"))

# %% [markdown]
# ## `update`, `splines::ns`, `vif`
#
# ```r
# update(fit, ~ . - lncoins); lm(mdvis ~ ns(disea, knots = c(5, 15, 30)), hie); car::vif(fit)
# ```
#
# An update reads the rows again: it is a release of its own, with a charge of its own. Knots are public numbers.

# %%
shorter = fit.update("~ . - lncoins", hie, eps=0.5, delta=1e-6, seed=1)
print(shorter.formula, "|", [note for note in shorter.notes if "add up" in note])
print(fit.vif().round(2))

# %%
# alt: The mean number of visits rises with the index of chronic disease, with a band that widens to the right
curve = dp.dp_ols(
    "mdvis ~ ns(disea, knots=[5, 15, 30]) + C(health)", hie, eps=0.5, delta=1e-6, schema=schema,
    seed=1,
)
ax = curve.plot(term="disea")

# %% [markdown]
# ## Several models, one payment: `lm` five times, `anova`, `cor`
#
# R reads the rows again for each model. Here one release of second moments holds every linear model of its columns.
#
# ```r
# m1 <- lm(mdvis ~ disea, hie); m2 <- update(m1, . ~ . + health); m3 <- update(m2, . ~ . + lncoins)
# anova(m1, m2, m3)
# cor.test(~ mdvis + disea, hie)
# ```

# %%
m = dp.dp_moments(
    "mdvis + disea + lncoins + physlm + C(health) + C(plan)", hie, eps=1, delta=1e-6, schema=schema,
    seed=1,
)
m1 = dp.dp_ols("mdvis ~ disea", m)
m2 = dp.dp_ols("mdvis ~ disea + C(health)", m)
m3 = dp.dp_ols("mdvis ~ disea + C(health) + lncoins", m)
print(dp.anova(m1, m2, m3))

# %% [markdown]
# These are score tests: the difference of two noisy residual sums, which R's `anova` compares, would reject true nulls
# far too often.

# %%
wanted = ["correlation", "std_error", "conf_low", "conf_high"]
print(m.corr().set_index(["x", "y"]).loc[[("mdvis", "disea"), ("mdvis", "lncoins")], wanted].round(3))
print(m.partial_corr("health").set_index(["x", "y"]).loc[[("mdvis", "disea")], wanted].round(3))

# %%
print(m.best_subset("mdvis", top=3)[["terms", "delta_bic"]].round(1))
print(m.lasso_path("mdvis").iloc[::10].round(2).T)

# %% [markdown]
# A term that was not released is refused, with the release that would hold it:

# %%
try:
    dp.dp_ols("mdvis ~ disea + I(disea**2)", m)
except ValueError as error:
    print(error)

# %% [markdown]
# ## `ivreg`
#
# ```r
# ivreg(mdvis ~ disea + lncoins | physlm + lncoins, data = hie)
# ```

# %%
iv = dp.dp_iv("mdvis ~ disea + lncoins | physlm + lncoins", m)
print(iv.tidy()[["term", "estimate", "std_error"]].round(3))
print([note for note in iv.notes if "First stage" in note or "Anderson" in note])

# %% [markdown]
# ## `broom`
#
# ```r
# tidy(fit); glance(fit)
# ```

# %%
print(m3.tidy(style="r").round(3).iloc[:, :5])
print(m3.glance(style="r").T.head(12))

# %% [markdown]
# ## `modelsummary`, `fixest::etable`
#
# ```r
# modelsummary(list(m1, m2, m3), coef_rename = labels, stars = TRUE, output = "table.docx")
# ```
#
# `.tex`, `.html`, `.md`, `.typ`, `.txt` and `.docx` (with python-docx) are written by the suffix.

# %%
labels = {
    "disea": "Chronic diseases", "lncoins": "log(coinsurance + 1)", "mdvis": "Visits",
    "C(health)[T.good]": "Health good", "C(health)[T.fair]": "Health fair",
    "C(health)[T.poor]": "Health poor",
}
with tempfile.TemporaryDirectory() as folder:
    for name in ("table.tex", "table.html", "table.md"):
        table = dp.etable(
            [m1, m2, m3], labels=labels, order="health", stars=True, file=Path(folder) / name,
            stats=["nobs", "r_squared", "eps_delta"], title="Visits to a physician",
        )
print(table)

# %% [markdown]
# ## `fixest::coefplot`, `modelsummary::modelplot`

# %%
# alt: Coefficients of three models side by side, each with the sampling part and the total of its error
ax = dp.coef_plot([m1, m2, m3], labels=labels)

# %% [markdown]
# ## `survey`: `svydesign`, `svymean`, `svyglm`; `feols(vcov = ~ village)`
#
# ```r
# des <- svydesign(ids = ~ school, strata = ~ stype, weights = ~ pw, fpc = ~ fpc, data = d, nest = TRUE)
# svymean(~ api00, des); svyby(~ api00, ~ stype, des, svymean); svyglm(api00 ~ ell, des)
# feols(y ~ x, data = d, vcov = ~ village)
# ```
#
# | R, Stata, samplics | here |
# |---|---|
# | `svydesign(ids=, strata=, weights=, fpc=)`, `svyset` | `des = dp.Survey(psu=, strata=, weights=, fpc=, psus=, population=)`: names of columns and public numbers |
# | `svymean`, `svy: mean`, `TaylorEstimator` | `dp.dp_mean("y ~ 1", d, design=des, ...)`; a domain: `subset=` |
# | `svytotal`, `svytable`, `svyby(svymean)` | `dp.dp_table("~ g", d, design=des, ...)`, `"y ~ g"`; with `population=` totals of it |
# | `svyglm`, `svy: regress`, `svy: logit` | `dp.dp_ols`, `dp.dp_glm`, `dp.dp_quantreg`, `dp.dp_mest` with `design=des` |
# | `feols(vcov = ~ v)`, `vce(cluster v)` | `vcov={"CRV1": "v"}, psus=194`; with `unit="person"` people are protected and clusters hold them |
# | `deff` | in `fit.summary()` and the estimates' statistics: Kish's for weights, `deff_clusters` for units |
# | `svychisq` | `dp.dp_test("~ a * b", d, design=des, ...)` |
# | `svyratio` | `dp.dp_mean("y + x ~ 1", d, design=des, ...).ratio("y", "x")` |
# | `svyquantile` | `dp.dp_quantile("y", d, design=des, ...)` |
# | replicate weights | not here: each column of them would be one more release |
#
# Strata are declared levels. Ids of units are compared and never shown; declared as `dp.Count(k)` (1 to k in each stratum)
# they are compared in pairs, which takes stratum means out. One row is protected, not one school.

# %%
clustered = dp.dp_ols(
    "mdvis ~ lncoins + disea", hie.assign(site=[i // 20 for i in range(len(hie))]), eps=1,
    delta=1e-6, bounds={"mdvis": (0, 80), "lncoins": (0, 5), "disea": (0, 60)},
    vcov={"CRV1": "site"}, psus=1010, seed=1,
)
print(clustered.summary(full=True).notes[0])

# %% [markdown]
# ## `pROC::auc`, `plot(fit)`
#
# Performance on held-out rows, and what a residual plot is looked at for, are new releases with a price of their own.
#
# ```r
# auc(roc(held$any_visit, predict(logit, held, type = "response")))
# plot(fit, which = 1)
# ```

# %%
held = hie.sample(5000, random_state=1)
print(logit.score(held, eps=0.5, seed=1))
print(fit.diagnose(hie, eps=0.5, seed=1, bins=6))

# %% [markdown]
# ## What to write
#
# What `citation()` and `report::report()` are for. In a paper the call has no seed. `statement()` is then the paragraph
# for the methods section.

# %%
import textwrap

final = dp.dp_glm(
    "any_visit ~ disea + C(health)", hie, family="binomial", eps=1, delta=1e-6, schema=schema
)
print(textwrap.fill(final.statement(), 100))
