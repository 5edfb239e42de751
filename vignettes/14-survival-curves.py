# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Survival curves and the log-rank test
#
# How long until an event, for people some of whom are not followed that long. statsmodels brings
# one table of survival, 69 heart transplants: at 69 people a private curve is its noise. So the
# people here are simulated: 6000 in a trial of two arms at two sites, followed for 36 months at
# most. The curves that they come from are known, and the exact curves stand beside.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded calls warn that they are not private

rng = np.random.default_rng(14)
n = 6000
arm = rng.choice(["standard", "new"], n)
site = rng.choice(["north", "south"], n)
rate = np.where(arm == "new", 0.7, 1.0) * np.where(site == "south", 1.4, 1.0)
dies = 30 * (rng.exponential(size=n) / rate) ** (1 / 1.3)
leaves = rng.uniform(12, 60, n)
trial = pd.DataFrame({
    "months": np.minimum(np.minimum(dies, leaves), 36.0),
    "dead": ((dies <= leaves) & (dies <= 36)).astype(int),
    "arm": arm,
    "site": site,
})
print(trial.head(3))

# %% [markdown]
# ## What is declared
#
# The levels of the groups and the range of time: the longest time in the table is private, as is
# which levels occur. The range gives the breaks, 16 equal intervals; `times=[6, 12, 24]` says them
# one by one.

# %%
schema = dp.Schema(
    months=dp.Real(0, 36),
    dead=dp.Binary(),
    arm=dp.Levels(["standard", "new"]),
    site=dp.Levels(["north", "south"]),
)
plan = dp.plan("Surv(months, dead) ~ arm", schema, n=n, eps=1, delta=1e-6, verb="dp_survfit")
print(plan)

# %% [markdown]
# ## The curves
#
# One release: a table of events and censorings by arm and interval, and of those who are followed
# to the end. Curves, medians, areas and the test are read off it, and cost nothing more.

# %%
budget = dp.Budget(eps=2, delta=1e-5)
fit = dp.dp_survfit("Surv(months, dead) ~ arm", trial, eps=1, delta=1e-6, schema=schema,
                    budget=budget, seed=1)
print(fit.summary())

# %%
# alt: two falling survival curves with bands, the new arm above, numbers at risk below
ax = fit.plot()
plt.show()

# %% [markdown]
# The exact curves of the same rows, and what the noise adds to the width of an interval:

# %%
found = fit.tidy()
for name in ("standard", "new"):
    rows = trial[trial["arm"] == name]
    exact = SurvfuncRight(rows["months"], rows["dead"])
    mine = found[found["strata"] == f"arm={name}"]
    at = np.searchsorted(exact.surv_times, mine["time"], side="right") - 1
    se = exact.surv_prob_se[at]
    print(name, "largest difference:", round(np.abs(mine["estimate"] - exact.surv_prob[at]).max(), 4),
          "error over the exact one:", round((mine["std_error"] / se).median(), 2))

# %% [markdown]
# ## Read off the same release

# %%
print(fit.quantile([0.25, 0.5]).round(2))
print(fit.rmst(36).round(2).to_string())
print(fit.difference([12, 24, 36]).round(4).to_string())
print(fit.risk_table([0, 18, 36]).round(1))

# %% [markdown]
# ## Log-rank
#
# The test of a curve that was paid for costs nothing. Its noise is in the variance of the statistic,
# so that it keeps its level.

# %%
test = fit.survdiff()
print(test.summary())
print("exact:", np.round(survdiff(trial["months"], trial["dead"], trial["arm"]), 4))

# %% [markdown]
# Stratified by site it is another table, and another charge:

# %%
by_site = dp.dp_survdiff("Surv(months, dead) ~ arm + strata(site)", trial, eps=1, delta=1e-6,
                         schema=schema, budget=budget, seed=2)
print(by_site.tidy()[["term", "observed", "expected", "p_value"]].round(4))
print(budget.remaining())

# %% [markdown]
# ## Delayed entry, and people with several rows
#
# `Surv(start, stop, event)` counts entries too. With `unit=` a person is protected with all rows:
# episodes that go on where the last one stopped are one; more than `max_episodes=` (1) separate ones
# are scaled down.

# %%
cut = trial["months"] * rng.uniform(0.2, 0.8, n)
early = trial.assign(start=0.0, stop=cut, dead=0, id=np.arange(n))
late = trial.assign(start=cut, stop=trial["months"], id=np.arange(n))
episodes = pd.concat([early, late], ignore_index=True)
spells = dp.dp_survfit(
    "Surv(start, stop, dead) ~ arm", episodes, eps=1, delta=1e-6, unit="id", times=[6, 12, 24, 36],
    schema=schema.update(start=dp.Real(0, 36), stop=dp.Real(0, 36)), seed=3,
)
print(spells.tidy()[["time", "n_risk", "n_event", "estimate", "strata"]].round(3))

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section.

# %%
import textwrap

final = dp.dp_survfit("Surv(months, dead) ~ arm", trial, eps=1, delta=1e-6, schema=schema)
print(textwrap.fill(final.statement(), 100))
