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
# # From a raw file to a report in 15 minutes
#
# **What you will learn.** The shortest honest way from a CSV file that somebody sent you to a table, a figure and a methods section:
# codebook, plan, budget, three calls, report.
#
# **Data.** The RAND Health Insurance Experiment (ships with the package), written out as a raw file first, with empty cells and
# a missing code, as raw files have them. **Privacy used.** (eps = 3, delta = 3e-6) in one budget, with the noise of the operating
# system: your numbers will differ from those printed here.

# %%
import tempfile
import textwrap
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

folder = tempfile.TemporaryDirectory()
here = Path(folder.name)
rand = dp.datasets.rand_hie()
raw = rand[["mdvis", "physlm", "disea"]].assign(
    coins=np.expm1(rand.lncoins).round(),
    health=np.select([rand.hlthg == 1, rand.hlthf == 1, rand.hlthp == 1], ["good", "fair", "poor"], "excellent"),
).round(2)
raw.loc[::97, "disea"] = np.nan  # not asked
raw.loc[::151, "coins"] = -9  # "unknown" in this file
raw.to_csv(here / "visits.csv", index=False)

# %% [markdown]
# ## Minutes 0 to 3: the header, and nothing below it
#
# Whatever you look at in the rows is outside the guarantee. The first line is enough; what it means stands in the codebook.

# %%
file = here / "visits.csv"
with file.open() as text:
    print(text.readline())

# %% [markdown]
# ## Minutes 3 to 6: the codebook becomes a schema
#
# Ranges and levels as the codebook gives them. Values outside are moved to the nearest end, so a code like -9 would count as "free
# care": it becomes an empty cell when the file is read (`subset="coins >= 0"` would come too late, as it sees values that were moved).
# Rows with an empty cell contribute nothing, and the summary says how many.

# %%
schema = dp.Schema(
    mdvis=dp.Count(52, label="visits to a doctor in a year"),
    coins=dp.Real(0, 100, label="coinsurance, percent"),
    physlm=dp.Real(0, 1, label="physical limitation"),
    disea=dp.Real(0, 60, label="index of chronic diseases"),
    health=dp.Levels(["excellent", "good", "fair", "poor"], label="self-rated health"),
)
data = pd.read_csv(file, na_values={"coins": [-9]})
formula = "log1p(mdvis) ~ coins + physlm + disea + health"
print(dp.describe(formula, schema=schema))

# %% [markdown]
# ## Minutes 6 to 8: does the budget carry the question?
#
# The plan reads no row and costs nothing. The line to read is the forecast.

# %%
plan = dp.plan(formula, schema, n=20_000, eps=1, delta=1e-6)
print(plan)

# %% [markdown]
# ## Minutes 8 to 10: three calls, one budget
#
# A table 1, the regression, and the odds of a visit at all. Each is charged before its noise is drawn; a fourth would be refused.

# %%
known = {"data": data, "schema": schema, "eps": 1, "delta": 1e-6}
budget = dp.Budget(eps=3, delta=3e-6)
with budget:
    one = dp.dp_table("~ mdvis + disea + health", **known)
    fit = dp.dp_ols(formula, **known)
    odds = dp.dp_glm("I(mdvis > 0) ~ coins + physlm + disea + health", family="binomial", **known)
print(one.summary())

# %%
print(fit.summary())

# %% [markdown]
# ## Minutes 10 to 13: what readers ask for
#
# All of it is computed from the three releases, and free: a figure (coefficients
# times half the range of their columns), ten points of coinsurance, groups of health, odds ratios.

# %%
# alt: Coefficients times half the range of their columns, with inner bars for sampling error and outer bars for the total: chronic diseases far above zero, coinsurance below it
ax = fit.plot(scale="standardised")

# %%
ten = fit.contrast({"ten points of coinsurance": {"coins": 10}})
print(ten)
print(fit.wald_test("health"))

# %%
print(odds.tidy(exponentiate=True)[["term", "estimate", "conf_low", "conf_high"]].round(3).to_string(index=False))

# %% [markdown]
# ## Minutes 13 to 15: the report
#
# One table of both models, as a web page, for LaTeX, and for Word where `python-docx` is installed.

# %%
labels = {"coins": "Coinsurance, percent", "physlm": "Physical limitation", "disea": "Chronic diseases"}
table = dp.etable([fit, odds], labels=labels, stats=["nobs", "r_squared", "eps_delta"], title="Visits to a doctor")
table.to_html(here / "table2.html")
table.to_latex(here / "table2.tex")
if find_spec("docx"):
    table.to_word(here / "table2.docx")
fit.save(here / "fit.json")  # opens again with dp.load, and can still be asked
print(table)

# %% [markdown]
# ## What to write
#
# The sentence of the result holds the interval, not the star; that of the method is made by the budget. Declared ranges belong
# beside it, as above: they are public, and a reader needs them to know what was clipped.

# %%
low, high = ten.low[0], ten.high[0]
print(f"Ten more points of coinsurance changed visits (plus one) by {100 * np.expm1(ten.effect[0]):.1f} percent "
      f"(95 % interval {100 * np.expm1(low):.1f} to {100 * np.expm1(high):.1f}), other things equal.\n")
print(textwrap.fill(budget.statement(), 100))
print()
print(textwrap.fill(fit.statement(), 100))
folder.cleanup()
