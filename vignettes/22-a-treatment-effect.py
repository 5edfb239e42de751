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
# # A treatment effect, from plan to sentence
#
# **What you will learn.** What early rehabilitation does to days in hospital: the plan before the data, one private call, whether
# the arms are comparable, the sentence for the paper, and the answer without noise beside it.
#
# **Data.** Made here, by a seed: 20 000 patients. Older and sicker patients get early rehabilitation more often and stay longer, so
# the raw difference is wrong. **Privacy used.** None: made data, seeded fits (**NOT PRIVATE**), so that the numbers can be repeated.

# %%
import textwrap
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
rng = np.random.default_rng(8)
n = 20_000
age, severity = rng.uniform(40, 90, n), np.clip(rng.normal(5, 2, n), 0, 10)
woman = rng.integers(0, 2, n)
chance = 1 / (1 + np.exp(-(0.03 * (age - 65) + 0.25 * (severity - 5) - 0.2)))
early = (rng.random(n) < chance).astype(int)
days = 9 + 0.05 * (age - 65) + 0.8 * (severity - 5) - 1.2 * early + rng.normal(0, 2.5, n)
data = pd.DataFrame({"days": days, "early": early, "age": age, "severity": severity, "woman": woman})
schema = dp.Schema(
    days=dp.Real(0, 20), early=dp.Binary(), age=dp.Real(40, 90), severity=dp.Real(0, 10),
    woman=dp.Binary(),
)
print(data.groupby("early")["days"].mean().round(2).to_string())

# %% [markdown]
# The arms hardly differ, because patients with early rehabilitation were older and sicker. In these data it shortens a stay by 1.2 days.
#
# ## The plan
# Before the data, from the schema alone. One call is one charge; two models, balance, and the mean of the influence function share it.

# %%
call = {"treatment": "early", "eps": 1, "delta": 1e-6}
plan = dp.plan("days ~ age + severity + woman", schema, verb="dp_ate", n=n, **call)
for name, share in plan.shares.items():
    print(f"{name:<12}{share:.2f}")

# %% [markdown]
# ## The call

# %%
fit = dp.dp_ate("days ~ age + severity + woman", data, schema=schema, seed=1, **call)
print(fit.summary())

# %% [markdown]
# ## Are the arms comparable?
# Standardised mean differences before weighting say how different the arms were, after weighting what the propensity left. The noise
# of each difference stands beside it. The histogram shows whether there are patients of both arms at every propensity.

# %%
# alt: Left, standardised mean differences of age, severity and sex, large before weighting and near 0 after it. Right, histograms of the propensity in both arms, which overlap.
import matplotlib.pyplot as plt

fit.plot()
plt.tight_layout()
plt.show()

# %% [markdown]
# ## The sentence

# %%
effect, (low, high) = fit.params["ATE"], fit.conf_int().loc["ATE"]
print(
    f"Early rehabilitation changed the stay by {effect:.2f} days on average (95 % interval {low:.2f} to {high:.2f}; "
    f"AIPW, {fit.nobs} patients)."
)

# %% [markdown]
# ## Without noise
# The same estimator on the same rows, for comparison. Nobody who only sees the release can compute it.

# %%
X = np.column_stack([np.ones(n), (age - 65) / 25, (severity - 5) / 5, woman])
g = np.zeros(4)
for _ in range(20):
    e = 1 / (1 + np.exp(-X @ g))
    g += np.linalg.solve((X * (e * (1 - e))[:, None]).T @ X, X.T @ (early - e))
e = np.clip(1 / (1 + np.exp(-X @ g)), 0.1, 0.9)
y = np.clip(days, 0, 20)
m1, m0 = (X @ np.linalg.lstsq(X[early == arm], y[early == arm], rcond=None)[0] for arm in (1, 0))
influence = m1 - m0 + early * (y - m1) / e - (1 - early) * (y - m0) / (1 - e)
print(f"without noise {influence.mean():.2f}, standard error {influence.std() / np.sqrt(n):.3f}")
print(f"private       {effect:.2f}, standard error {fit.bse['ATE']:.3f}")

# %% [markdown]
# The two agree within their errors. The private error is larger by the noise, and the interval includes it.
#
# ## What to write

# %%
final = dp.dp_ate("days ~ age + severity + woman", data, schema=schema, **call)
print(textwrap.fill(final.statement(), 100))
