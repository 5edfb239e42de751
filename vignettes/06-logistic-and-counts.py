# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Events, counts and quantiles
#
# `dp_glm`, `dp_quantreg` and `dp_mest` fit generalised linear, quantile and robust regressions with
# one engine, private Fisher scoring: a rough start, then a few passes that release clipped *scores*
# and an information matrix. Standard errors are robust, contain the privacy noise, and allow for what
# the clipping may have moved, as intervals, z and p do.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded fits warn that they are not private
data = dp.datasets.rand_hie()  # 20190 person-years of the RAND Health Insurance Experiment
data["any"] = (data["mdvis"] > 0).astype(int)

# Public facts, from the design of the study and not from its data: a visit or none, visits counted
# up to 60, log coinsurance below log(101), an index of chronic diseases up to 60.
schema = dp.Schema(
    any=dp.Binary(),
    mdvis=dp.Count(60),
    lncoins=dp.Real(0, 4.7),
    physlm=dp.Real(0, 1),
    disea=dp.Real(0, 60),
)
call = dict(delta=1e-6, schema=schema, seed=1)

# %% [markdown]
# ## Did a person see a doctor at all?
#
# `fit_stats=True` buys the deviance and what follows from it, in one more pass for a tenth of the
# budget: no residual is kept, so it cannot be had afterwards.

# %%
formula = "any ~ lncoins + physlm + disea"
fit = dp.dp_glm(formula, data, eps=1, fit_stats=True, **call)
print(fit.summary())

# %% [markdown]
# Odds ratios are transformed coefficients, their intervals transformed intervals: free.

# %%
table = fit.conf_int().assign(estimate=fit.params)
print(np.exp(table).round(3))

# %% [markdown]
# Probabilities at new values, with intervals for the mean. Other links are an option:

# %%
new = pd.DataFrame({"lncoins": [0.0, 4.6], "physlm": [0, 0], "disea": [10, 10]})
print(fit.predict(new, interval="confidence").round(3))
probit = dp.dp_glm(formula, data, link="probit", eps=1, **call)
print(probit.predict(new, interval="confidence").round(3))

# %% [markdown]
# ## How much does the noise cost?
#
# `fit.errors()` has the parts of a printed error. The same study at four budgets; the grey line is
# the sampling part, about what the error would be without privacy:

# %%
rows = []
for eps in (0.25, 0.5, 1, 4):
    one = dp.dp_glm(formula, data, eps=eps, **call)
    rows.append((eps, one.params["lncoins"], *one.errors().loc["lncoins"]))
columns = ["eps", "estimate", "error", "std_error", "sampling", "privacy", "bias_bound"]
costs = pd.DataFrame(rows, columns=columns)
print(costs.round(4).to_string(index=False))

# %%
# alt: Standard error of a log odds ratio against eps: the total falls towards the sampling part
figure, ax = plt.subplots(figsize=(6, 3))
ax.plot(costs["eps"], costs["error"], marker="o", label="total")
ax.plot(costs["eps"], costs["sampling"], marker="o", color="grey", label="sampling part")
ax.set(xscale="log", xlabel="eps", ylabel="standard error of lncoins", ylim=(0, None))
ax.set_xticks(costs["eps"], [f"{e:g}" for e in costs["eps"]])
ax.minorticks_off()
ax.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## How many visits?
#
# Counts vary far more than a Poisson variable here, which robust errors do not mind (the printed
# dispersion is a trimmed one: long scores count up to a cut). A declared most of 60 visits costs nothing by itself: only long *scores* are clipped, not counts.
# A count that is negative or broken would be a missing cell.

# %%
visits = "mdvis ~ lncoins + physlm + disea"
poisson = dp.dp_glm(visits, data, family="poisson", eps=1, **call)
print(poisson.summary())

# %% [markdown]
# A negative binomial learns its dispersion on the way (alpha, by moments of released numbers). Where
# people were watched for unequal times, `exposure="months"` puts the logarithm beside the predictors.

# %%
nb = dp.dp_glm(visits, data, family="negative_binomial", eps=1, **call)
print(dp.etable([poisson, nb]))
print("alpha", round(nb.stats["alpha"], 2))

# %% [markdown]
# ## Quantiles
#
# The mean of visits is ruled by few people. Quantiles say what happens to the others. Several are
# fitted together: they share their start and read the rows at once. The score of a quantile is
# released as it is; only the information is smoothed, so no smoothing bias is left in the estimate.
# On the scale of `log1p(mdvis)`:

# %%
taus = [0.5, 0.75, 0.9]
quantiles = dp.dp_quantreg("log1p(mdvis) ~ lncoins + disea", data, tau=taus, eps=1, **call)
print(quantiles.tidy()[["term", "estimate", "std_error"]].round(4).to_string(index=False))

# %%
# alt: Quantiles of visits against chronic diseases: lines that rise and do not cross
grid = pd.DataFrame({"lncoins": np.zeros(30), "disea": np.linspace(0, 40, 30)})
lines = quantiles.predict(grid)  # rearranged: quantiles never cross
figure, ax = plt.subplots(figsize=(6, 3))
for name in lines:
    ax.plot(grid["disea"], np.expm1(lines[name]), label=name)
ax.set(xlabel="index of chronic diseases", ylabel="visits a year")
ax.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## Robust means
#
# Huber's loss gives far observations a bounded say; its corner is 1.345 released scales.

# %%
huber = dp.dp_mest("log1p(mdvis) ~ lncoins + physlm + disea", data, loss="huber", eps=1, **call)
print(huber.params.round(3).to_dict(), "scale", round(huber.stats["scale"], 3))

# %% [markdown]
# ## The other methods
#
# `scoring` serves every model with errors; its plan says whether the budget carries the model. With
# `inference=False` (or an option that only it has, or under `relation="add-remove"` without
# `n_guess=`) `objpert` runs: objective perturbation, which solves a noisy objective. Its ridge
# shrinks coefficients, and that bias is in its errors to first order only: it prints no z and P: "not tested".
# The summary says which method ran and why.

# %%
plan = dp.plan(formula, n=20190, eps=1, delta=1e-6, verb="dp_glm", schema=schema)
print(plan.request.method.name, {k: round(v, 4) for k, v in plan.expected_se.items()})
print(plan.forecast)
ridge = dp.dp_glm(formula, data, eps=1, method="objpert", **call)
print(dp.etable([fit, ridge]))

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section.

# %%
import textwrap

final = dp.dp_glm(formula, data, eps=1, **{**call, "seed": None})
print(textwrap.fill(final.statement(), 100))
