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
# # A survey, from design to report
#
# **What you will learn.** How weights, strata and villages of a household survey enter tables, means and regressions: what
# is public of a design, what it costs, and what happens to errors that leave it out. Beside the answers without noise.
#
# **Data.** Made here, by a seed: 24 000 adults of 1200 villages in 4 regions. Villages of the south were drawn three times as
# often, so its rows weigh a third; incomes of one village resemble each other.
#
# **Privacy used.** None: made data, seeded fits (**NOT PRIVATE**), so that the numbers can be repeated.

# %%
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
rng = np.random.default_rng(1)
regions, per = ["north", "east", "west", "south"], {"north": 200, "east": 200, "west": 200, "south": 600}
parts = []
for h, region in enumerate(regions):
    for village in range(1, per[region] + 1):
        effect = rng.normal(0, 0.5)
        school = np.clip(rng.normal(9 + h / 2 + effect, 3, 20), 0, 18)
        weight = (1.0 if region == "south" else 3.0) * np.exp(rng.normal(0, 0.3, 20))
        income = np.clip(8 + 0.1 * school + 0.3 * h + effect + rng.normal(0, 0.6, 20), 5, 13)
        work = np.where(rng.random(20) < 1 / (1 + np.exp(-(income - 9.5))), "yes", "no")
        parts.append(pd.DataFrame({
            "region": region, "village": village, "w": weight, "school": school,
            "income": income, "work": work,
        }))
data = pd.concat(parts, ignore_index=True)
print(data.groupby("region").agg(villages=("village", "nunique"), rows=("w", "size"), weight=("w", "sum")).round(0))

# %% [markdown]
# ## The design, as public facts
#
# Names of columns, levels of the strata, the largest weight, the number of villages drawn in each region: whatever a survey
# report prints. Which village a row is in is private. Declared as a `Count`, villages have numbers from 1 in each
# region, and are compared in pairs.

# %%
schema = dp.Schema(
    income=dp.Real(5, 13), school=dp.Real(0, 18), w=dp.Real(0, 10), work=dp.Levels(["no", "yes"]),
    region=dp.Levels(regions), village=dp.Count(600),
)
design = dp.Survey(weights="w", strata="region", psu="village", psus=per)
call = {"schema": schema, "eps": 1, "delta": 1e-6, "seed": 1}
plan = dp.plan("income ~ school", schema, n=len(data), eps=1, delta=1e-6, design=design)
print({name: round(value, 3) for name, value in plan.scales.items()})

# %% [markdown]
# ## The answer without noise
#
# What `svydesign`, `svymean` and `svyglm` of R compute (linearisation, villages drawn with replacement), in numpy.


# %%
def by_design(X, y, w):
    """Weighted least squares with errors by region and village."""
    H = np.linalg.inv((X * w[:, None]).T @ X)
    theta = H @ ((X * w[:, None]).T @ y)
    scores = pd.DataFrame(X * (w * (y - X @ theta))[:, None])
    meat = np.zeros((X.shape[1],) * 2)
    for _, rows in scores.groupby(data["region"]):
        sums = rows.groupby(data["village"]).sum().to_numpy()
        sums = sums - sums.mean(axis=0)
        meat += len(sums) / (len(sums) - 1) * sums.T @ sums
    rows = scores.to_numpy()
    return theta, np.sqrt(np.diag(H @ meat @ H)), np.sqrt(np.diag(H @ rows.T @ rows @ H))


y, w = data["income"].to_numpy(), data["w"].to_numpy()
ones = np.ones((len(data), 1))
mean, mean_se, _ = by_design(ones, y, w)
slopes, slopes_se, slopes_rows = by_design(np.column_stack([ones, data["school"]]), y, w)
print("mean", mean.round(4), "error", mean_se.round(4))
print("slopes", slopes.round(4), "errors", slopes_se.round(4), "of rows alone", slopes_rows.round(4))

# %% [markdown]
# ## Means and domains

# %%
income = dp.dp_mean("income ~ 1", data, design=design, **call)
print(income.errors().round(4))
print({name: round(value, 2) for name, value in income._record.estimate.stats.items()})
south = dp.dp_mean("income ~ 1", data, design=design, subset="region == 'south'", **call)
print(south.params.round(3).to_dict(), "degrees of freedom as before: the design stays whole")

# %% [markdown]
# ## A table
#
# Totals, shares and means by group are weighted; how heavy weights are cut, and what that may have moved, is said below it.
# Errors are by village: beside them what `svyby` would say without noise.

# %%
table = dp.dp_table("income ~ work", data, design=design, **call)
print(table.summary())


# %%
def svyby(group):
    """Mean of a group, with its error by region and village."""
    inside = (data["work"] == group).to_numpy()
    m = np.average(y[inside], weights=w[inside])
    z = pd.Series(np.where(inside, w * (y - m), 0.0) / w[inside].sum())
    total = 0.0
    for _, rows in z.groupby(data["region"]):
        sums = rows.groupby(data["village"]).sum()
        total += len(sums) / (len(sums) - 1) * ((sums - sums.mean()) ** 2).sum()
    return m, np.sqrt(total), np.sqrt((z**2).sum())


shown = table.tidy().set_index("term")
for group in ("no", "yes"):
    one = shown.loc[f"mean(income)[work={group}]"]
    print(group, "released", round(one.estimate, 3), round(one.std_error_sampling, 4), "without noise, by village, of rows",
          *(round(float(x), 4) for x in svyby(group)))

# %% [markdown]
# Quantiles by Woodruff: the error of a rank by village, then read off the distribution function.

# %%
median = dp.dp_quantile("income", data, q=[0.25, 0.5, 0.75], design=design, **call)
print(median.conf_int().round(3))
print(median.notes[-2])

# %% [markdown]
# ## A regression, with and without its villages
#
# Schooling goes with the village. Errors that take rows for unrelated are half of what they should be.

# %%
fit = dp.dp_ols("income ~ school", data, design=design, **call)
naive = dp.dp_ols("income ~ school", data, weights="w", **call)
print(pd.DataFrame({
    "estimate": fit.params, "sampling, by design": fit.bse_sampling,
    "sampling, of rows": naive.bse_sampling, "without noise": slopes_se,
}).round(4))
logit = dp.dp_glm("work ~ school", data, design=design, **call)
print(logit.conf_int().round(3))

# %% [markdown]
# ## What to write
#
# > Estimates are weighted; errors allow for strata and villages (1200, declared) and contain the noise of differential
# > privacy at (eps = 1, delta = 1e-6) a release. One respondent is protected, not one village. Weights were taken as
# > delivered; how they were made is outside the guarantee.

# %%
print(fit.summary())
