# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Logistic and count regression
#
# `dp_glm` fits logistic, Poisson and geometric regression. The default, objective perturbation
# (`objpert`), adds noise to the objective that Newton's method solves; a part of the budget buys
# the information matrix, hence standard errors. `gptr` tests the curvature first and spends all
# else on the coefficients; it gives no sampling errors.

# %%
import warnings

import numpy as np

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

# %% [markdown]
# ## Did a person see a doctor at all?

# %%
formula = "any ~ lncoins + physlm + disea"
fit = dp.dp_glm(formula, data, family="binomial", eps=1, delta=1e-6, schema=schema, seed=1)
print(fit.summary())

# %% [markdown]
# Odds ratios are transformed coefficients; their intervals are transformed intervals. Both are
# computed from released numbers, so they cost nothing.

# %%
table = fit.conf_int().assign(estimate=fit.params)
print(np.exp(table).round(3))

# %% [markdown]
# Probabilities at new values, with intervals for the mean:

# %%
import pandas as pd

new = pd.DataFrame({"lncoins": [0.0, 4.6], "physlm": [0, 0], "disea": [10, 10]})
print(fit.predict(new, interval="confidence").round(3))

# %% [markdown]
# ## How much does the noise cost?
#
# The plan answers before any row is read, and the fit afterwards: the privacy part of the standard
# errors stands beside the sampling part. The same study at four budgets:

# %%
for eps in (0.25, 0.5, 1, 4):
    fit = dp.dp_glm(formula, data, family="binomial", eps=eps, delta=1e-6, schema=schema, seed=1)
    print(
        f"eps {eps:<5} lncoins {fit.params['lncoins']:7.4f}   se {fit.bse['lncoins']:.4f}"
        f"   (sampling {fit.bse_sampling['lncoins']:.4f}, privacy {fit.bse_privacy['lncoins']:.4f})"
    )

# %% [markdown]
# ## How many visits?
#
# A Poisson model has no bounded gradient, so counts are clipped at a declared most (60 here) and
# the noise follows it. What is declared too widely is paid for: a count that seldom exceeds 20 and
# is declared up to 60 costs three times the noise.

# %%
for most in (60, 20):
    narrow = schema.update(mdvis=dp.Count(most))
    fit = dp.dp_glm(
        "mdvis ~ lncoins + physlm + disea", data, family="poisson", eps=2, delta=1e-6,
        schema=narrow, seed=1,
    )  # fmt: skip
    print(most, fit.params.round(3).to_dict(), "privacy se", fit.bse_privacy.round(3).to_dict())

# %% [markdown]
# Clipping at 20 also changes what is estimated: the mean of counts cut at 20. The standard errors of
# counts are robust (a sandwich), because counts of visits vary more than a Poisson variable.
#
# ## The other method
#
# `gptr` proves more from the data and can refuse: if the tested curvature is too small there is no
# reply, and the budget is spent. Here its noise is some ten times larger: it is there for ridge-like
# fits on many rows, and for losses without an objective perturbation.

# %%
fit = dp.dp_glm(
    formula, data, family="binomial", eps=1, delta=1e-6, schema=schema, method="gptr", seed=1
)
print(fit.summary())
