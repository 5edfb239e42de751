# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # One release, many models
#
# `dp_release` adds noise to every record once and pays once. The table that comes out is public:
# any number of models may be fitted on it, by anybody, at no further cost. The price is noise in
# each record, so this way needs many rows and few columns; where a single model is wanted, the
# verbs of the other notebooks are far more accurate at the same budget.

# %%
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded releases warn that they are not private
rng = np.random.default_rng(0)

n = 200_000
age = rng.uniform(20, 65, n)
school = np.clip(rng.normal(13, 2.5, n), 0, 21)
wage = 4 + 0.12 * age + 0.9 * school + rng.gamma(4, 2, n)
people = pd.DataFrame({"wage": wage, "age": age, "school": school})
schema = dp.Schema(wage=dp.Real(0, 60), age=dp.Real(18, 70), school=dp.Real(0, 25))

# %%
table = dp.dp_release("~ wage + age + school", people, eps=6, delta=1e-6, schema=schema, seed=1)
print(table.summary())

# %% [markdown]
# The guarantee holds for a whole record. Noised cells leave their ranges: clipping, rounding or
# selecting on them would bias every analysis.

# %%
print(table.frame.describe().round(1).loc[["mean", "std", "min", "max"]])

# %% [markdown]
# ## Naive and corrected
#
# Least squares on the noised table as it stands is wrong: noise in a covariate pulls its
# coefficient towards zero. The corrected losses (`drcl`, the default on a release) know the noise
# and undo it; their standard errors contain it.

# %%
X = np.column_stack([np.ones(n), table.frame[["age", "school"]]])
naive = np.linalg.lstsq(X, table.frame["wage"], rcond=None)[0]
print("naive    ", naive.round(3))

fit = dp.dp_ols("wage ~ age + school", table)
print("corrected", fit.params.round(3).to_numpy(), "standard errors", fit.bse.round(3).to_numpy())

# %%
print(fit.summary())

# %% [markdown]
# ## Another question, the same table
#
# The budget was spent once. Further models, subsets of the columns or other methods cost nothing.

# %%
for formula in ("wage ~ school", "wage ~ age", "school ~ age"):
    other = dp.dp_ols(formula, table)
    print(f"{formula:14s} {other.params.round(3).to_dict()}  se {other.bse.round(3).to_dict()}")

# %% [markdown]
# Median regression needs noise in one block (`noise="sl"`), for which a correction of losses with
# kinks exists; it is a release of its own, with a budget of its own.

# %%
blocked = dp.dp_release(
    people, ["wage", "age"], eps=8, delta=1e-3, schema=schema, noise="sl", seed=2
)
median = dp.dp_quantreg("wage ~ age", blocked, tau=0.5)
print(median.params.round(2).to_dict(), median.bse.round(2).to_dict())

# %% [markdown]
# ## What the table costs
#
# The same regression straight from the rows, at a quarter of that budget:

# %%
direct = dp.dp_ols("wage ~ age + school", people, eps=1.5, delta=1e-6, schema=schema, seed=1)
print("direct   ", direct.params.round(3).to_numpy(), direct.errors()["error"].round(4).to_numpy())
print("released ", fit.params.round(3).to_numpy(), fit.errors()["error"].round(4).to_numpy())

# %%
# alt: Two coefficients, each with two intervals: from the direct fit a short one, from the noised table a longer one
ax = dp.coef_plot(direct, fit)

# %% [markdown]
# Save a release with `table.save(path)`; `dp.load_release(path)` reads it back with its guarantee, and a fit
# on it says what the table cost.

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section. That of a fit on the table
# says what the table cost.

# %%
import textwrap

final = dp.dp_ols("wage ~ age + school", dp.dp_release("~ wage + age + school", people, eps=6, delta=1e-6, schema=schema))
print(textwrap.fill(final.statement(), 100))
