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
# # Marginal means after a survey-weighted model
#
# **What you will learn.** A logistic regression with sampling weights, strata and villages; then what readers of a report ask
# for: adjusted shares by group, their differences, slopes in percentage points. All of it is computed from one release. Where
# adjusted means are taken at means of the population, these are a release of their own.
#
# **Data.** Made here, by a seed: 60 000 adults of 7500 villages in 3 regions; the cities were drawn four times as often. **Privacy
# used.** None: made data, seeded fits (**NOT PRIVATE**), so that the numbers can be repeated.

# %%
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
rng = np.random.default_rng(4)
regions, per = ["city", "plain", "hills"], {"city": 4500, "plain": 1500, "hills": 1500}
h = np.repeat([0, 1, 2], [8 * per[region] for region in regions])  # 8 adults a village
village = np.concatenate([np.repeat(np.arange(1, per[region] + 1), 8) for region in regions])
school = np.clip(rng.normal(11 - h, 3), 0, 18)
sex = rng.choice(["woman", "man"], len(h))
of_village = np.repeat(rng.normal(0, 0.3, len(h) // 8), 8)
eta = -1.2 + 0.15 * school - 0.5 * h + 0.4 * (sex == "man") + of_village
data = pd.DataFrame({
    "region": np.array(regions)[h], "village": village, "school": school, "sex": sex,
    "w": np.where(h == 0, 1.0, 4.0) * np.exp(rng.normal(0, 0.25, len(h))),
    "online": np.where(rng.random(len(h)) < 1 / (1 + np.exp(-eta)), "yes", "no"),
})

# %% [markdown]
# ## The model
#
# The design is public facts: which columns say it, levels of the strata, the largest weight, how many villages were drawn.

# %%
schema = dp.Schema(
    online=dp.Binary(["no", "yes"]), school=dp.Real(0, 18), w=dp.Real(0, 12),
    sex=dp.Levels(["woman", "man"]), region=dp.Levels(regions), village=dp.Count(4500),
)
design = dp.Survey(weights="w", strata="region", psu="village", psus=per)
call = {"schema": schema, "design": design, "delta": 1e-7}
fit = dp.dp_glm("online ~ C(sex) + C(region) + school", data, family="binomial", eps=2, seed=1, **call)
print(fit.summary())

# %% [markdown]
# ## Adjusted shares
#
# `emmeans` asks what share would be online if people differed in nothing but the region. Numbers are held at the middle of their
# declared ranges unless said otherwise; R holds them at the means of the rows. Those are private, so they are a release of
# their own, weighted as the model is, and charged.

# %%
means = dp.dp_mean("school ~ 1", data, eps=0.5, seed=2, **call)
print(means.errors().round(3))

# %%
shares = fit.emmeans("region", over=means)
print(shares)

# %% [markdown]
# `.pairs()` compares them on the scale of the model: differences of log odds, adjusted for three comparisons.

# %%
print(shares.pairs())

# %% [markdown]
# As a picture:

# %%
# alt: Adjusted shares online by region with intervals: the city highest, the hills lowest
import matplotlib.pyplot as plt

shares.plot()
plt.show()

# %% [markdown]
# ## In percentage points
#
# Slopes of a logit differ from row to row. `avg_slopes` at released means gives the change in the share for a year of
# school; `avg_comparisons` a change that is spelled out. Their errors hold those of the released means.

# %%
print(fit.avg_slopes(means, variables="school"))

# %%
print(fit.avg_comparisons({"school": (8, 12)}, means))

# %% [markdown]
# ## Against the answer without noise
#
# The same model by weighted maximum likelihood, in numpy, and the same adjusted shares at the weighted means.


# %%
def weighted_logit(X, y, w, steps=25):
    """Weighted maximum likelihood."""
    b = np.zeros(X.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-X @ b))
        b += np.linalg.solve((X * (w * p * (1 - p))[:, None]).T @ X, X.T @ (w * (y - p)))
    return b


dummies = [(data["sex"] == "man"), *((data["region"] == r) for r in regions[1:])]
X = np.column_stack([np.ones(len(data)), *dummies, data["school"]]).astype(float)
w = data["w"].to_numpy()
b = weighted_logit(X, (data["online"] == "yes").to_numpy(float), w)
at = np.average(data["school"], weights=w)
rows = [[1, 0.5, region == "plain", region == "hills", at] for region in regions]
plain = 1 / (1 + np.exp(-np.array(rows, dtype=float) @ b))
compared = pd.DataFrame({"released": shares.effect, "low": shares.low, "high": shares.high, "without noise": plain}, index=regions)
print(compared.round(3))
assert (compared["low"] < plain).all() and (plain < compared["high"]).all()

# %% [markdown]
# What it cost: the model and the means, together. Everything else on this page was free.

# %%
print(f"eps = {fit.privacy.eps:g} + {means.privacy.eps:g}, delta = {fit.privacy.delta:g} + {means.privacy.delta:g}")

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section.

# %%
import textwrap

final = dp.dp_glm("online ~ C(sex) + C(region) + school", data, family="binomial", eps=2, **call)
print(textwrap.fill(final.statement(), 100))
