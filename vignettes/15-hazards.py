# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Proportional hazards
#
# What moves the hazard of an event: Cox regression with a privacy guarantee, beside the fit without
# one. statsmodels brings one table of survival, 69 heart transplants, which no private fit can use,
# so 10 000 people are simulated whose log hazard ratios are known: .5, -.4, .3. **Public data,
# seeded fits (NOT PRIVATE), so that the numbers can be repeated.**

# %%
import textwrap
import warnings

import numpy as np
import pandas as pd
from statsmodels.duration.hazard_regression import PHReg

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded calls warn that they are not private

rng = np.random.default_rng(10)
n = 10_000
people = pd.DataFrame({
    "treated": (rng.random(n) < 0.4) * 1.0,
    "score": np.clip(rng.normal(size=n), -3, 3),
    "age": rng.uniform(40, 80, n),
})
eta = 0.5 * people.treated - 0.4 * people.score + 0.3 * (people.age - 60) / 20
dies = 8 * (rng.exponential(size=n) / np.exp(eta)) ** (1 / 1.3)
leaves = rng.uniform(2, 12, n)
people["years"] = np.minimum(dies, leaves)
people["dead"] = (dies <= leaves) * 1.0

# %% [markdown]
# ## What is declared, and what to expect
#
# Ranges of the numbers and of time; 13 cells of it unless `breaks=` says otherwise. The plan reads no
# row. It says how loud the noise of the information will be, and what would do if it is too loud.

# %%
schema = dp.Schema(years=dp.Real(0, 12), dead=dp.Binary(), treated=dp.Real(0, 1),
                   score=dp.Real(-3, 3), age=dp.Real(40, 80))
formula = "Surv(years, dead) ~ treated + score + age"
print(dp.plan(formula, schema, n=n, eps=1, delta=1e-6, verb="dp_coxph"))

# %% [markdown]
# ## The fit, and the one without noise

# %%
fit = dp.dp_coxph(formula, people, eps=1, delta=1e-6, schema=schema, seed=2)
print(fit.summary())

# %%
columns = ["treated", "score", "age"]
exact = PHReg(people.years, people[columns], status=people.dead, ties="efron").fit()
low, high = fit.conf_int().to_numpy().T
print(pd.DataFrame({
    "private": fit.params, "Cox (Efron)": exact.params,
    "interval over its own": (high - low) / 2 / 1.96 / exact.bse,
    "truth": [0.5, -0.4, 0.3 / 20],
}).round(3))
assert ((fit.params - exact.params).abs() < 6 * exact.bse).all()

# %% [markdown]
# Hazard ratios with their intervals, as a table and as a picture:

# %%
print(fit.hazard_ratios().round(3))

# %%
# alt: Hazard ratios on a log axis: treated above one, score below one, age a little above one, each with its interval
ax = fit.plot(exponentiate=True)

# %% [markdown]
# The released baseline, and the risk of new people:

# %%
print(fit.baseline().head(4).round(4))

# %%
new = pd.DataFrame({"treated": [0.0, 1.0], "score": [0.0, 0.0], "age": [60.0, 60.0]})
print(fit.predict(new, what="survival", times=[2, 5, 10], interval="confidence").round(3))

# %%
# alt: Predicted survival over ten years of an untreated and a treated person of 60: the curve of the treated is lower throughout
times = list(range(11))
curves = fit.predict(new, what="survival", times=times).T
ax = curves.set_axis(["untreated", "treated"], axis=1).plot(
    xlabel="years", ylabel="share alive", ylim=(0, 1), figsize=(5, 3))

# %% [markdown]
# ## What to keep in mind
#
# * A person's follow-up counts until its expected weight is used up. When that is depends on the
#   predictors and on released numbers, never on what happened, so scores keep mean zero.
# * `+ strata(site)` has a baseline of its own in each declared stratum; `Surv(start, stop, event)`
#   with `unit="id"` takes delayed entry and predictors that change.
# * Curves and the log-rank test are [the vignette before](14-survival-curves.ipynb).

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed; `statement()` is then the paragraph for the methods section.

# %%
final = dp.dp_coxph(formula, people, eps=1, delta=1e-6, schema=schema)
print(textwrap.fill(final.statement(), 100))
