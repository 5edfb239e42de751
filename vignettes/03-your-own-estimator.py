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
# # Your own estimator, private in thirty lines
#
# **What you will learn.** How to take an estimator from an idea to a private release with `dp_eptr`: two conditions to prove, a
# search that tries to refute them, a test that refuses fragile data.
#
# **Data.** Simulated. **Privacy used.** (eps = 2, delta = 1e-6), seeded: NOT PRIVATE, so that the notebook can be rebuilt.

# %% [markdown]
# ## The idea: a trimmed ratio
#
# We want the ratio of two totals, `T(X) = sum(b) / sum(a)`, `0 <= a, b <= 1`. One row moves it a lot if `sum(a)` is small, and
# hardly at all if `sum(a)` is large. Efficient Propose-Test-Release asks for two things, for tables of n rows that differ in
# one row:
#
# 1. a *safety bound* `gamma(X) >= 0` that one row moves by at most 1;
# 2. a number `alpha` with `|T(X) - T(X')| <= alpha` for every neighbour X' whenever `gamma(X) > 0`.
#
# **Proof.** `A = sum(a)` moves by at most 1, so `gamma = max(0, A - m)` does too (1). T is clipped to [0, 2]. If both
# ratios are above 2 nothing moves; otherwise let r be one that is at most 2. Replacing its row (a, b) by (a', b') gives
# `r' - r = ((b' - b) - r (a' - a)) / A'`: the numerator is at most `1 + 2`, and both totals are at least `m - 1` (2):
# `alpha = 3 / (m - 1)`. Clipping moves no two values apart.

# %%
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)  # explained above
M = 200.0


def ratio(x):
    return [np.clip(x[:, 1].sum() / max(x[:, 0].sum(), 1e-12), 0, 2)]


def safety(x):
    return max(0.0, x[:, 0].sum() - M)


ALPHA = 3.0 / (M - 1)

# %% [markdown]
# ## Try to refute it
#
# `check_safety` searches random and corner neighbours on *synthetic* tables. It refutes; it never proves. To make small tables
# reach the safe set we check the same claim with m = 3:


# %%
def small(m):
    return ratio, lambda x: max(0.0, x[:, 0].sum() - m), 3.0 / (m - 1)


print(dp.check_safety(*small(3.0), bounds=[(0, 1), (0, 1)], n=(5, 8, 12), trials=3000))

# %% [markdown]
# A tempting mistake is to forget that the denominator itself moves, `alpha = 1 / m`:

# %%
wrong = (ratio, lambda x: max(0.0, x[:, 0].sum() - 3.0), 1.0 / 3.0)
print(dp.check_safety(*wrong, bounds=[(0, 1), (0, 1)], n=(5, 8, 12), trials=3000))

# %% [markdown]
# ## Release

# %%
rng = np.random.default_rng(0)
data = pd.DataFrame({"a": rng.beta(2, 3, 5000)})
data["b"] = np.clip(0.6 * data.a + rng.normal(0, 0.1, 5000), 0, 1)
fit = dp.dp_eptr(
    ratio, safety, ALPHA, "a + b ~ 1", data,
    eps=2, delta=1e-6, bounds={"a": (0, 1), "b": (0, 1)}, names=["ratio"], seed=1,
)
print(fit.summary())

# %% [markdown]
# How many rows does the test want? The coin is a logistic function of the safety bound; ten seeded tables of each size show it.

# %%
# alt: Share of replies against n: none up to 500 rows, all from 600 on
import matplotlib.pyplot as plt

sizes = (400, 500, 550, 600, 700, 900)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    replies = [
        np.mean([
            dp.dp_eptr(
                ratio, safety, ALPHA, "a + b ~ 1", data.sample(n, random_state=r),
                eps=2, delta=1e-6, bounds={"a": (0, 1), "b": (0, 1)}, names=["ratio"], seed=r,
            ).released
            for r in range(10)
        ])
        for n in sizes
    ]
figure, ax = plt.subplots(figsize=(6, 2.8))
ax.plot(sizes, replies, "o-")
ax.set(xlabel="n", ylabel="share of replies", ylim=(-0.03, 1.03))
figure.tight_layout()
plt.show()

# %% [markdown]
# With fifty rows the total is below m: the test refuses, and that answer too was paid for.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    silent = dp.dp_eptr(
        ratio, safety, ALPHA, "a + b ~ 1", data.head(50),
        eps=2, delta=1e-6, bounds={"a": (0, 1), "b": (0, 1)}, names=["ratio"], seed=1,
    )
print(silent)
print(silent.ledger)

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section. The proof of the safety
# margin goes into an appendix: nobody else has read it.

# %%
import textwrap

final = dp.dp_eptr(
    ratio, safety, ALPHA, "a + b ~ 1", data, eps=2, delta=1e-6, bounds={"a": (0, 1), "b": (0, 1)}, names=["ratio"]
)
print(textwrap.fill(final.statement(), 100))
