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
# # Declaring a schema
#
# **What you will learn.** Why a range is a claim made without looking; levels, counts, binary variables; what a formula may
# contain, and what it refuses; what happens to odd cells.
#
# **Data.** Simulated here. **Privacy used.** (eps = 1, delta = 1e-6), with `seed=` so that the notebook can be rebuilt: the fit
# says NOT PRIVATE.

# %% [markdown]
# A schema holds facts that are known **before** the data: from the questionnaire, the law, the instrument. Do not take a range
# or a list of levels from the rows: the minimum of a column is a number about one person.

# %%
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)  # explained above

schema = dp.Schema(
    income=dp.Real(0, 150, label="income, thousand a year", unit="kEUR"),
    region=dp.Levels(["north", "south", "east"], other="east"),
    children=dp.Count(upper=10),
    smoker=dp.Binary(),
    health=dp.Real(0, 100),
)
print(schema.to_toml())

# %% [markdown]
# Filtering the frame *before* the call on a private column would make the number of rows private. Use `subset=`: rows that
# fail it become zero rows and n stays the public total.
#
# `describe` shows the columns that a formula gives, and their public bounds, without data:

# %%
print(dp.describe("health ~ log1p(income) + region + children * smoker", schema=schema))

# %% [markdown]
# ## What a wide range costs
#
# Noise is in proportion to what one row could do. The same column declared wider and wider: the error to be expected, in units of the
# column, from public facts alone (`plan` reads nothing; it takes the spread of x to be a quarter of its declared range).
# A fit spends a twentieth of the budget on where values lie, so its own error grows far less (`dpmodels/scoring/theory.md`, 3.1).

# %%
# alt: Expected privacy error of a slope times the width of the column's range, against that width: it grows in proportion
import matplotlib.pyplot as plt

widths = (20, 40, 80, 160)
errors = []
for width in widths:
    declared = dp.Schema(y=dp.Real(0, width), x=dp.Real(0, 40))
    plan = dp.plan("y ~ x", declared, n=20_000, eps=1, delta=1e-6, method="eptr")
    errors.append(plan.expected_se["x"])
figure, ax = plt.subplots(figsize=(6, 2.8))
ax.plot(widths, errors, "o-")
ax.set(xlabel="declared width of the response", ylabel="expected error of the slope", ylim=0)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## What is refused, and what to write instead

# %%
for formula in (
    "health ~ scale(income)",
    "health ~ bs(income, df=4)",
    "health ~ income + regoin",
):
    try:
        dp.describe(formula, schema=schema)
    except ValueError as error:
        print(error, end="\n\n")

# %% [markdown]
# ## Odd cells
#
# A missing cell, a text in a number's place, a level that was not declared (without `other=`): the whole row becomes a row of
# zeros. Nothing warns and nothing raises, because whether it did would say something about one row.

# %%
rng = np.random.default_rng(0)
n = 20_000
data = pd.DataFrame(
    {
        "income": rng.gamma(4, 12, n),
        "region": rng.choice(["north", "south", "east", "elsewhere"], n),
        "children": rng.poisson(1.2, n),
        "smoker": rng.uniform(size=n) < 0.25,
    }
)
data["health"] = np.clip(
    60 + 5 * np.log1p(data.income) - 6 * data.smoker - data.children + rng.normal(0, 8, n), 0, 100
)
data.loc[0, "income"] = np.nan

fit = dp.dp_ols(
    "health ~ log1p(income) + region + children + smoker",
    data,
    eps=1,
    delta=1e-6,
    schema=schema,
    subset="income > 5",
    seed=1,
)
print(fit.summary())

# %% [markdown]
# A schema can be kept beside the data, and travels with a frame:

# %%
data = schema.attach(data)
print(dp.Schema.from_frame_attrs(data) == schema)
print(fit.ledger)

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section. Ranges and levels come
# with it, as a table of their own: they are public, and say what was clipped.

# %%
import textwrap

final = dp.dp_ols("health ~ log1p(income) + region + children + smoker", data, eps=1, delta=1e-6)
print(textwrap.fill(final.statement(), 100))
