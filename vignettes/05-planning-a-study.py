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
# # Planning a study, and keeping its ledger
#
# **What you will learn.** Power analysis before a row is read; a ledger in a file that several people share; what a refusal
# looks like; several fits side by side.
#
# **Data.** The RAND Health Insurance Experiment (ships with the package). **Privacy used.** (eps = 2, delta = 1e-5) in one
# ledger. Fits are seeded so that the notebook can be rebuilt: they say NOT PRIVATE.

# %%
import tempfile
import warnings
from pathlib import Path

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)  # explained above
schema = dp.Schema(
    visits=dp.Count(upper=52), coinsurance=dp.Real(0, 100), age=dp.Real(18, 65), smoker=dp.Binary()
)

# %% [markdown]
# ## How many people, how much eps?
#
# Nothing below reads data. `want=` asks for a privacy standard error; the plan says what would reach it.

# %%
plan = dp.plan(
    "visits ~ coinsurance + age + smoker",
    schema,
    n=3000,
    eps=0.5,
    delta=1e-6,
    method="eptr",
    want={"smoker": 0.5},
)
print(plan)

# %%
expected = {}
for n in (5_000, 20_000, 80_000):  # ePTR by itself: a fit by scores keeps longer rows as n grows
    se = dp.plan(
        "visits ~ coinsurance + age + smoker", schema, n=n, eps=1, delta=1e-6, method="eptr",
        scoring=False,
    ).expected_se
    expected[n] = se["smoker"]
    print(n, {k: round(v, 4) for k, v in se.items()})

# %%
# alt: Expected privacy error of smoker against n on log axes: a straight line that falls like one over n, faster than the dotted line of one over root n
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 3))
ax.plot(list(expected), list(expected.values()), "o-", label="privacy error of smoker")
first = expected[5_000]
ax.plot(list(expected), [first * (5_000 / n) ** 0.5 for n in expected], "k:", label="like sampling error")
ax.set(xscale="log", yscale="log", xlabel="n")
ax.set_xticks(list(expected), [f"{n:,}" for n in expected])
ax.minorticks_off()
ax.legend(frameon=False)
figure.tight_layout()
plt.show()

# %% [markdown]
# The default method has a forecast: how large the noise of its information matrix will be beside the matrix. Up to .25 is fine, up
# to .5 rough; beyond, coefficients are not determined (their z and p print as n/d), and a fit warns before it charges.

# %%
for n in (1_000, 3_000, 10_000):
    plan = dp.plan("visits ~ coinsurance + age + smoker", schema, n=n, eps=0.5, delta=1e-6)
    print(n, plan.forecast)

# %% [markdown]
# ## A ledger in a file
#
# The label names the data set; it is given by you, never computed from rows. A charge is committed before noise is drawn, so a
# crash never under-counts; several processes may share the file.

# %%
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "study.ledger"
data = dp.datasets.rand_hie()
with dp.Budget.open(path, eps=2, delta=1e-5, label="RAND HIE"):
    small = dp.dp_ols("log1p(mdvis) ~ lncoins + physlm", data, eps=0.5, delta=1e-6, seed=1)
    large = dp.dp_ols("log1p(mdvis) ~ lncoins + physlm + disea", data, eps=0.5, delta=1e-6, seed=2)
    plain = dp.dp_mean("mdvis ~ 1", data, eps=0.2, delta=1e-6, seed=3)

print(dp.Budget.open_readonly(path).report())

# %% [markdown]
# A call that would overrun is refused before anything is read:

# %%
try:
    dp.dp_mean("mdvis ~ 1", data, eps=2.5, delta=1e-6, budget=dp.Budget.open(path))
except dp.errors.BudgetExceededError as error:
    print(error)

# %% [markdown]
# ## Side by side

# %%
print(dp.etable([small, large], se="split"))

# %%
plain.tidy().round(3)

# %% [markdown]
# ## What to write
#
# In a paper the calls have no seed. `statement()` of the budget is then the paragraph for the methods section: one for
# all calls.

# %%
import textwrap

final = dp.Budget(eps=2, delta=1e-5)
with final:
    dp.dp_ols("log1p(mdvis) ~ lncoins + physlm", data, eps=0.5, delta=1e-6)
    dp.dp_mean("mdvis ~ 1", data, eps=0.2, delta=1e-6)
print(textwrap.fill(final.statement(), 100))
folder.cleanup()
