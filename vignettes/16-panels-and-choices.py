# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Panels and choices
#
# Effects of people, taken off by their own rows (`dp_feols`, `dp_fepois`), and categories as
# responses (`dp_polr`, `dp_multinom`), each beside the fit without privacy. The panel is simulated, so
# that the effect within people is known; the categories are visits to a doctor in the bundled RAND
# table. **Public data, seeded fits (NOT PRIVATE), so that the numbers can be repeated.**

# %%
import textwrap
import warnings

import numpy as np
import pandas as pd
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded calls warn that they are not private

rng = np.random.default_rng(16)
who = np.repeat(np.arange(8000), 5)
able = rng.normal(size=8000)[who]
hours = np.clip(rng.normal(size=len(who)) + 0.7 * able, -4, 4)  # goes with what is not seen
panel = pd.DataFrame({
    "id": who, "hours": hours, "wage": 0.2 * hours + able + rng.normal(size=len(who)),
})

# %% [markdown]
# ## An effect of every person
#
# Without it the slope holds what is not seen of people; within people it is .2.

# %%
bounds = {"wage": (-8, 8), "hours": (-4, 4)}
pooled = dp.dp_ols("wage ~ hours", panel, eps=1, delta=1e-6, bounds=bounds, unit="id", seed=3)
within = dp.dp_feols("wage ~ hours | id", panel, eps=1, delta=1e-6, bounds=bounds, unit="id",
                     seed=3)
mean = panel.groupby("id")[["wage", "hours"]].transform("mean")
y, x = panel.wage - mean.wage, panel.hours - mean.hours
print("pooled", pooled.params["hours"].round(3), "within", within.params["hours"].round(3),
      "without privacy", round(float(x @ y / (x @ x)), 3))
print(within.tidy().round(3))
assert abs(within.params["hours"] - 0.2) < 0.05 < pooled.params["hours"] - 0.2

# %% [markdown]
# The guarantee is of a person with all five rows, and so are the errors. Further effects are factors
# with declared levels (`| id + year`); each of their coefficients costs.

# %% [markdown]
# ## Random intercepts
#
# `re="id"` makes the person's effect random. Two variances are released first; people are then weighed
# by them, so the target is the fit *at the released weights*. Means of a person's own rows are in the
# model by default: `hours` is the effect within people again, `mean(hours)` the effect between minus
# within, and that it is zero is Hausman's test, free. Here it is far from zero.

# %%
random = dp.dp_feols("wage ~ hours", panel, eps=1, delta=1e-6, bounds=bounds, unit="id", re="id",
                     seed=3)
print(random.summary())

# %%
# alt: The slope of hours in three fits: pooled far above .2, within people and with random intercepts at .2
ax = dp.coef_plot(pooled, within, random, keep="hours")

# %%
print(random.hausman())
new = pd.DataFrame({"id": [1, 1, 2], "hours": [-1.0, 1.0, 1.0]})  # means by the rows of one id
print(random.predict(new, interval="confidence").round(3))
assert abs(random.params["hours"] - 0.2) < 0.05
assert random.hausman().pvalue < 0.01 and 0.0 < random.icc < 0.8

# %% [markdown]
# Without noise and at the variances of `MixedLM` it is `MixedLM`. With noise the correlation within
# people is off by its error; intervals do not believe it, as they are clustered by person.

# %% [markdown]
# ## Ordered categories
#
# Visits to a doctor in a year: none, a few, many. Health is better understood as a category with an
# order than as a number.

# %%
rand = dp.datasets.rand_hie()
levels = ["none", "few", "many"]
rand["visits"] = np.array(levels, object)[np.digitize(rand.mdvis, [1, 5])]
schema = dp.Schema(visits=dp.Ordered(levels), lncoins=dp.Real(0, 5), disea=dp.Real(0, 60),
                   physlm=dp.Real(0, 1))
fit = dp.dp_polr("visits ~ lncoins + disea + physlm", rand, eps=1, delta=1e-6, schema=schema, seed=1)
print(fit.summary())

# %%
code = pd.Categorical(rand.visits, levels, ordered=True).codes
exact = OrderedModel(code, rand[["lncoins", "disea", "physlm"]], distr="logit").fit(
    disp=False, method="bfgs"
)
print(pd.DataFrame({
    "private": fit.params[:3], "OrderedModel": exact.params[:3], "its error": exact.bse[:3],
}).round(4))
assert ((fit.params[:3] - exact.params[:3]).abs() < 8 * exact.bse[:3]).all()

# %%
# alt: Odds ratios of more visits on a log axis: lncoins below one, disea a little above, physlm well above
ax = dp.coef_plot(fit, keep=["lncoins", "disea", "physlm"], exponentiate=True)

# %%
print(fit.odds_ratios().round(3))
new = pd.DataFrame({"lncoins": [0.0, 4.6], "disea": [10.0, 10.0], "physlm": [0.0, 0.0]})
print(fit.predict(new, what="probs", interval="confidence").round(3))

# %% [markdown]
# Rows are the unit here: people of the RAND study have up to five, and the bundled table has no
# reliable id of theirs. With one, `unit=` protects the person, as above.
#
# Without an order the verb is `dp_multinom`: log odds of each level against the first declared one.

# %%
multi = dp.dp_multinom("visits ~ lncoins + physlm", rand, eps=1, delta=1e-6, seed=1,
                       schema=dp.Schema(visits=dp.Levels(levels), lncoins=dp.Real(0, 5),
                                        physlm=dp.Real(0, 1)))
print(multi.tidy().round(3))

# %% [markdown]
# ## What to write
#
# In a paper the calls have no seed. `statement()` is then the paragraph for the methods section, here of the panel:

# %%
final = dp.dp_feols("wage ~ hours | id", panel, eps=1, delta=1e-6, bounds=bounds, unit="id")
print(textwrap.fill(final.statement(), 100))
