# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Tables and tests: what comes before a regression
#
# The RAND Health Insurance Experiment assigned families to insurance plans with different
# coinsurance: the share of a bill that they paid themselves. The table is public; here its rows
# are treated as if they were private. It has ten columns, and we add two that say the same in
# words: the coinsurance in percent, and self-rated health as one variable. A row is a person in a
# year, and it is the row that the guarantee protects.

# %%
import warnings

import numpy as np

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded calls warn that they are not private

rand = dp.datasets.rand_hie()
percent = np.rint(np.expm1(rand["lncoins"])).astype(int)
rand["coinsurance"] = np.select([percent == 0, percent <= 50], ["free", "25 to 50"], "95")
health = rand[["hlthg", "hlthf", "hlthp"]].to_numpy()
rand["health"] = np.select(list(health.T == 1), ["good", "fair", "poor"], "excellent")
print(rand.shape)

schema = dp.datasets.rand_hie_schema().update(
    coinsurance=dp.Levels(["free", "25 to 50", "95"]),
    health=dp.Levels(["excellent", "good", "fair", "poor"]),
)
budget = dp.Budget(eps=3, delta=1e-5)

# %% [markdown]
# ## Before anything is read
#
# A plan says what would be released and with how much noise. Everything in it is public. It also
# says which noise is the narrower one at this guarantee.

# %%
plan = dp.plan("mdvis + disea + health ~ coinsurance", schema, n=len(rand), eps=1, delta=1e-6,
               verb="dp_table")
print(plan)

# %% [markdown]
# ## Table 1
#
# Visits, chronic disease and health by plan: one call, one release, (1, 1e-6) for all of it. Each
# row of the data is one unit of mass in every table, so means and standard deviations cost what
# counts cost. Margins agree with cells, and everything adds up to n.

# %%
one = dp.dp_table("~ mdvis + disea + health", rand, by="coinsurance", eps=1, delta=1e-6,
                  schema=schema, budget=budget, seed=1)
print(one.summary())

# %% [markdown]
# The cell `(missing)` of an axis holds missing and undeclared cells. How many there are is private,
# so it is released with the same noise as any other cell, also where there are none.
#
# The numbers come as a frame too, with the names of R's broom; `fit.summary("tex")` or `"html"`
# gives the table for a paper.

# %%
tidy = one.tidy()
print(tidy[tidy["measure"] == "mean"][["term", "estimate", "std_error", "std_error_privacy"]])
print(one.crosstab().round(1))

# %% [markdown]
# A picture: means of visits by plan, with intervals that contain the noise.

# %%
# alt: Mean number of visits by coinsurance, with intervals that contain the noise
one.plot(what="mdvis by coinsurance")

# %% [markdown]
# ## Two tests
#
# Does the plan change the number of visits? Power first. An effect of a third of a visit is what
# we would not like to miss.

# %%
power = dp.plan("mdvis ~ coinsurance", schema, n=len(rand), eps=0.5, delta=1e-6, verb="dp_test",
                effect=1 / 3, sd=4.5)
print({name: round(value, 3) for name, value in power.scales.items()})

# %%
visits = dp.dp_test("mdvis ~ coinsurance", rand, eps=0.5, delta=1e-6, schema=schema, budget=budget,
                    seed=2)
print(visits.summary())

# %% [markdown]
# Were the plans assigned independently of health? The noise is in the variance of the statistic:
# a test that forgot it would reject far too often.

# %%
balance = dp.dp_test("~ health + coinsurance", rand, eps=0.5, delta=1e-6, schema=schema,
                     budget=budget, seed=3)
print(f"chi-squared {balance.stats['statistic']:.2f} on {balance.stats['df']:g} degrees of "
      f"freedom, p = {balance.stats['p_value']:.3g}")

# %% [markdown]
# ## A quantile
#
# Means of counts with long tails say little. The exponential mechanism finds quantiles within a
# few ranks; with intervals, a tree of counts does.

# %%
quantiles = dp.dp_quantile("mdvis", rand, q=[0.5, 0.9, 0.99], eps=0.5, delta=1e-6, schema=schema,
                           budget=budget, seed=4)
print(quantiles.summary())

# %% [markdown]
# ## What it cost
#
# Every call was charged to the budget before its noise was drawn. A call that does not fit into
# what is left is refused, and costs nothing.

# %%
print(budget.report())
try:
    dp.dp_table("~ health", rand, eps=1, delta=1e-6, schema=schema, budget=budget, seed=5)
except dp.errors.BudgetError as error:
    print(type(error).__name__)

# %% [markdown]
# ## What to write
#
# In a paper the calls have no seed. `statement()` of the budget is then the paragraph for the methods section: one for
# all calls.

# %%
import textwrap

final = dp.Budget(eps=2, delta=1e-5)
with final:
    dp.dp_table("~ mdvis + disea + health", rand, by="coinsurance", eps=1, delta=1e-6, schema=schema)
    dp.dp_test("mdvis ~ coinsurance", rand, eps=0.5, delta=1e-6, schema=schema)
print(textwrap.fill(final.statement(), 100))
