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
# # Quick start: a linear regression with differential privacy
#
# **What you will learn.** How to fit a regression on private rows, how to read its standard errors and its privacy
# statement, what is bought and what is declared, and how to plan before you spend.
#
# **Data.** The RAND Health Insurance Experiment (public domain, ships with the package): 20190 person-years.
#
# **Privacy used.** One ledger of (eps = 2, delta = 1e-5); the last cell prints what is left of it.
#
# The cells below pass `seed=` so that this notebook prints the same numbers every time. Seeded noise can be
# repeated by anybody, so every such fit says **NOT PRIVATE** and warns. In real work leave `seed=` out.

# %%
import warnings

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)  # explained above
data = dp.datasets.rand_hie()
data.head()

# %% [markdown]
# ## Public facts first
#
# A range is a claim that you make **without looking at the data**: from the questionnaire, the law, the instrument. The
# bundled data come with the ranges of the study's design. A numeric variable without a declared range is fine too: its
# range is then bought from the same `eps` and `delta`.

# %%
schema = dp.Schema.from_frame_attrs(data)
print(dp.describe("log1p(mdvis) ~ lncoins + physlm + disea", schema=schema))

# %% [markdown]
# ## Plan before you spend
#
# `plan` reads no data and costs nothing. It is the same code that a fit runs before it reads its first row.

# %%
formula = "log1p(mdvis) ~ lncoins + physlm + disea"
print(dp.plan(formula, schema, n=20190, eps=1, delta=1e-6))

# %% [markdown]
# ## Fit
#
# Everything that this call does - the moments, the coefficients, the standard errors - fits inside (eps = 1, delta = 1e-6).

# %%
budget = dp.Budget(eps=2, delta=1e-5)
fit = dp.dp_ols(formula, data, eps=1, delta=1e-6, budget=budget, seed=2)
print(fit.summary())

# %% [markdown]
# ## Read it
#
# The printed error (`error` below, `std_error` of `tidy()`) is the one that z, p and the interval rest on. Its parts: sampling, which you
# would have without privacy; privacy noise (`std_error^2 = sampling^2 + privacy^2`, also `fit.bse`); and a bound on what the clipping of
# long rows may have moved.

# %%
fit.errors().round(4)

# %%
fit.tidy().round(4)

# %%
fit.conf_int()

# %%
# alt: Three coefficients with nested error bars: a thick inner bar for sampling error alone, a thin outer bar for the total error with privacy noise and the allowance for bias
ax = fit.plot()

# %% [markdown]
# What was not paid for does not exist. The last pass holds an R-squared, with an interval; there are no residuals to look at:

# %%
try:
    fit.resid
except AttributeError as error:
    print(error)

# %% [markdown]
# Prediction uses released coefficients and the *new* rows that you bring:

# %%
import pandas as pd

new = pd.DataFrame({"lncoins": [0.0, 4.6], "physlm": [0.0, 0.0], "disea": [10.0, 10.0]})
fit.predict(new, interval="confidence").round(3)

# %% [markdown]
# ## Without any declared range
#
# The same call on a bare frame buys a range for every numeric column and says so in the notes.

# %%
bare = pd.DataFrame(data).copy()
bare.attrs.clear()
second = dp.dp_ols(formula, bare, eps=0.8, delta=1e-6, budget=budget, seed=3)
print(second.summary())

# %% [markdown]
# ## The ledger
#
# Both calls were charged before their noise was drawn; a call that would overrun the budget is refused unread.

# %%
try:
    dp.dp_ols(formula, data, eps=1.8, delta=1e-6, budget=budget)
except dp.errors.BudgetExceededError as error:
    print(error)

# %%
print(budget.report())

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section.

# %%
import textwrap

final = dp.dp_ols(formula, data, eps=1, delta=1e-6)
print(textwrap.fill(final.statement(), 100))
