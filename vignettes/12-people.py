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
# # People with several rows
#
# **What you will learn.** What `unit=` protects and what it costs: a panel of wages, fitted by row and by person, beside
# the answer without privacy and its cluster-robust errors.
#
# **Data.** `wage_panel` of the package `linearmodels` (Vella and Verbeek 1998): 545 young men, each in eight years from 1980
# to 1987. It is loaded from that package (`pip install linearmodels`), not part of this project.
#
# **Privacy used.** None: public data, seeded fits (**NOT PRIVATE**), so that the numbers can be repeated.

# %%
import sys
import warnings

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpmodels as dp

try:
    from linearmodels.datasets import wage_panel
except ImportError:
    print("pip install linearmodels: the table is its own, and there is nothing to show without it")
    sys.exit(0)

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
table = wage_panel.load()[["nr", "year", "lwage", "educ", "union"]]
schema = dp.Schema(lwage=dp.Real(-1, 4.5), educ=dp.Real(3, 16), union=dp.Binary())
formula = "lwage ~ educ + union"
print(table.head(10).to_string(index=False))

# %% [markdown]
# ## The answer without privacy
#
# Rows of one man resemble each other: schooling never changes, and whoever earns much in one year does so in the next.
# The textbook errors take all 4360 rows for independent. Cluster-robust ones (clusters are men) do not.

# %%
model = smf.ols(formula, table)
rows = model.fit()
men = model.fit(cov_type="cluster", cov_kwds={"groups": table["nr"]})
truth, clustered, names = men.params.to_numpy(), men.bse.to_numpy(), list(men.params.index)
pd.DataFrame({"estimate": truth, "s.e. of rows": rows.bse, "s.e. of men": men.bse}).round(4)

# %% [markdown]
# ## By person
#
# `unit="nr"` names the column that says whose row it is. Protected is a man with all of his years: they may be replaced by any
# others, in any number. `rows_per_unit=8` is a public guess that sets the scale of the first look at the data; nothing breaks if
# it is wrong. A person weighs more than a row, and there are 545 and not 4360: so two slopes and eps = 10, not ten and eps = 1.
# That is weak protection; a study with as few people should know it before it promises more.

# %%
fit = dp.dp_ols(
    formula, table, eps=10, delta=1e-5, schema=schema, unit="nr", rows_per_unit=8, seed=1
)
print(fit.summary())

# %% [markdown]
# As a picture, beside the fit that protects single years: inner bars are sampling error alone.

# %%
# alt: Coefficients of educ and union by person and by row: intervals by person are about twice as long
by_row = dp.dp_ols(formula, table, eps=10, delta=1e-5, schema=schema, seed=1)
ax = dp.coef_plot(fit, by_row)

# %% [markdown]
# ## What it costs, and what rows would hide
#
# Forty fits each. The middle of the errors printed by the fit over the cluster-robust error without privacy; how far the
# estimates are from the confidential ones (root mean square, in the same unit); and how often the 95 % interval holds the
# confidential estimate.

# %%
rows = []
for eps in (1, 3, 10):
    for unit, more in (("row", {}), ("person", {"unit": "nr", "rows_per_unit": 8})):
        fits = [
            dp.dp_ols(formula, table, eps=eps, delta=1e-5, schema=schema, seed=seed, **more)
            for seed in range(40)
        ]
        away = np.array([f.params.to_numpy() - truth for f in fits])
        error = np.array([f.errors()["error"].to_numpy() for f in fits])
        ends = np.array([f.conf_int().to_numpy() for f in fits])
        held = (ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])
        for j in (1, 2):
            rows.append(
                {
                    "eps": eps,
                    "unit": unit,
                    "coefficient": names[j],
                    "s.e. printed": np.median(error[:, j]) / clustered[j],
                    "RMSE": np.sqrt(np.mean(away[:, j] ** 2)) / clustered[j],
                    "holds": np.mean(held[:, j]),
                }
            )
result = pd.DataFrame(rows).set_index(["coefficient", "eps", "unit"]).sort_index()
result.round(2)

# %% [markdown]
# Read it in this way.
#
# * **At eps = 1 there is no answer by person**: errors of more than ten times the one without privacy, and they say so. 545 people are few.
# * **At eps = 3 it is rough.** The first looks at so few people are noisy and guide the last one badly: printed errors are nearly twice the
#   one without privacy, and estimates about as far from the confidential ones as that error is long.
# * **At eps = 10 there is one**: errors near the cluster-robust one without privacy, and estimates closer to it than those errors.
# * **The fits by row look better and are not.** From eps = 3 on their printed errors are *smaller* than the honest error without any
#   privacy, at eps = 10 by four tenths for schooling. They repeat the mistake of the textbook column above, and the promise that comes with them
#   is for one year of one man: all his years have eight times the loss.
#
# ## Tables and quantiles by person
#
# A table by person counts men, each once: a man who was in a union in three of eight years counts three eighths. The noise is that of one
# row a man, so tables are useful where regressions are not.

# %%
share = dp.dp_table("~ C(union)", table, eps=1, delta=0, schema=schema, unit="nr", seed=2)
print(share.tidy()[["level", "estimate", "share", "share_conf_low", "share_conf_high"]].round(3))
middle = dp.dp_quantile(
    "~ lwage", table, q=[0.25, 0.5, 0.75], eps=1, delta=1e-5, schema=schema, unit="nr", seed=3
)
print(middle.tidy()[["term", "estimate", "conf_low", "conf_high"]].round(2))
print("without privacy:", table["union"].groupby(table["nr"]).mean().mean().round(3),
      table["lwage"].quantile([0.25, 0.5, 0.75]).round(2).tolist())

# %% [markdown]
# ## A ledger of people
#
# Losses of rows and of people do not add up, and nothing converts the one into the other: a ledger takes one kind.

# %%
budget = dp.Budget(eps=5, delta=1e-4, unit="nr")
dp.dp_mean("lwage ~ 1", table, eps=1, delta=1e-5, schema=schema, unit="nr", budget=budget)
try:
    dp.dp_mean("lwage ~ 1", table, eps=1, delta=1e-5, schema=schema, budget=budget)
except dp.errors.BudgetError as refused:
    print(refused)
print(f"spent: eps = {budget.eps_spent(1e-4):.2f}")

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section; that it is men who are
# protected, with all their years, is the part that readers should not miss.

# %%
import textwrap

final = dp.dp_ols(formula, table, eps=10, delta=1e-5, schema=schema, unit="nr", rows_per_unit=8)
print(textwrap.fill(final.statement(), 100))
