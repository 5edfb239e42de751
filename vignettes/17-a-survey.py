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
import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

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
# What `svydesign`, `svymean` and `svyglm` of R compute: weighted least squares of statsmodels, and errors from what each row
# adds to an estimate, summed by village and compared within regions (linearisation, villages drawn with replacement).


# %%
def by_design(model):
    """Estimates with errors by region and village, and those of rows taken for unrelated."""
    each = pd.DataFrame(model.model.exog).mul(data["w"] * model.resid, axis=0) @ np.asarray(model.normalized_cov_params)
    each.columns = model.params.index
    villages = each.groupby([data["region"], data["village"]]).sum().groupby("region")
    design = np.sqrt((villages.count() * villages.var()).sum())
    return pd.DataFrame({"estimate": model.params, "by design": design, "of rows": np.sqrt((each**2).sum())})


plain = {f: by_design(smf.wls(f, data, weights=data["w"]).fit()) for f in ("income ~ 1", "income ~ school", "income ~ 0 + work")}
print(pd.concat(plain).round(4))

# %% [markdown]
# ## Means and domains

# %%
income = dp.dp_mean("income ~ 1", data, design=design, **call)
print(income.errors().round(4))
print({name: round(value, 2) for name, value in income.stats.items()})
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
# alt: Mean income of those without and with work, with intervals: those with work earn more by about three quarters
table.plot(what="income by work")
plt.show()

# %%
shown = table.tidy().set_index("term").loc[[f"mean(income)[work={group}]" for group in ("no", "yes")]]
print(shown[["estimate", "std_error_sampling"]].round(4))
print(plain["income ~ 0 + work"].round(4))

# %% [markdown]
# Quantiles by Woodruff: the error of a rank by village, then read off the distribution function.

# %%
median = dp.dp_quantile("income", data, q=[0.25, 0.5, 0.75], design=design, **call)
print(median.conf_int().round(3))
print(median.notes[-2])

# %% [markdown]
# ## A regression, with and without its villages
#
# Schooling goes with the village. Errors that take rows for unrelated are too small, by a quarter for the slope.

# %%
fit = dp.dp_ols("income ~ school", data, design=design, **call)
naive = dp.dp_ols("income ~ school", data, weights="w", **call)
print(pd.DataFrame({
    "estimate": fit.params, "sampling, by design": fit.bse_sampling,
    "sampling, of rows": naive.bse_sampling, "without noise": plain["income ~ school"]["by design"],
}).round(4))

# %%
# alt: The slope of school in two fits: the inner bar by design is longer than that of rows
ax = dp.coef_plot(fit, naive)

# %%
logit = dp.dp_glm("work ~ school", data, design=design, **call)
print(logit.conf_int().round(3))

# %% [markdown]
# ## What to write
#
# > Estimates are weighted; errors allow for strata and villages (1200, declared) and contain the noise of differential
# > privacy at (eps = 1, delta = 1e-6) a release. One respondent is protected, not one village. Weights were taken as
# > delivered; how they were made is outside the guarantee.
#
# In a paper the call has no seed; `statement()` then says the rest.

# %%
print(fit.summary())

# %%
final = dp.dp_ols("income ~ school", data, design=design, **{**call, "seed": None})
print(textwrap.fill(final.statement(), 100))
