# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Choosing a method for linear regression
#
# `dp_ols` without `method=` chooses from *public* facts: public data lead to `pmt`, otherwise it is
# `ssp`. Neither has a private test, so both always answer; both print what they decided and why.
#
# | you have | method | what it spends on |
# |---|---|---|
# | ranges only | `ssp` | noisy second moments for a start, then scores at the fit so far |
# | ranges nobody declared | `ssp` | 15 % of the budget buys them first |
# | public rows, or public second moments | `pmt` | moments of rows whitened by the public ones |
# | a wish for the exact sensitivity of the estimate | `eptr` | a test, then the coefficients |
#
# `adassp`, `jl`, `dpgd`, `functional`, `outpert` and `pmt_paper` exist to be compared with.

# %%
import warnings

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore")  # seeded fits warn that they are not private
rng = np.random.default_rng(0)


def people(n):
    age = rng.uniform(20, 65, n)
    school = np.clip(rng.normal(13, 2.5, n), 0, 21)
    wage = 4 + 0.12 * age + 0.9 * school + rng.normal(0, 4, n)
    return pd.DataFrame({"wage": wage, "age": age, "school": school})


private, public = people(8000), people(150)
ranges = {"age": (18, 70), "school": (0, 25), "wage": (0, 60)}

# %% [markdown]
# ## Only ranges are known
#
# The plan is free: it reads no row. What is released, with which share of the budget, follows from
# n, the number of coefficients, eps and delta alone; the forecast says what intervals to expect.

# %%
schema = dp.Schema(age=dp.Real(18, 70), school=dp.Real(0, 25), wage=dp.Real(0, 60))
print(dp.plan("wage ~ age + school", schema, n=8000, eps=1, delta=1e-6))

# %%
fit = dp.dp_ols("wage ~ age + school", private, eps=1, delta=1e-6, bounds=ranges, seed=1)
print(fit.summary())

# %% [markdown]
# ## Public data
#
# Public rows need the same columns. They are used without noise: only rows that need no protection
# may be among them. The public-only fit is printed beside the private one, because it can be the
# better of the two.

# %%
fit = dp.dp_ols("wage ~ age + school", private, eps=1, delta=1e-6, public=public, seed=1)
print(fit.summary())

# %% [markdown]
# Where both sources share their coefficients, `combine=True` weights them by their precision.

# %%
for combine in (False, True):
    fit = dp.dp_ols(
        "wage ~ age + school", private[:1500], eps=0.5, delta=1e-6, public=public,
        combine=combine, seed=1,
    )
    print(combine, fit.params.round(3).to_dict(), fit.bse.round(3).to_dict())

# %% [markdown]
# ## Side by side
#
# Errors of the fitted values against least squares, ten seeded fits each.

# %%
X = np.column_stack([np.ones(8000), private[["age", "school"]]])
ols = np.linalg.lstsq(X, private["wage"], rcond=None)[0]


def error(**options):
    found = []
    for seed in range(10):
        fit = dp.dp_ols("wage ~ age + school", private, eps=1, delta=1e-6, seed=seed, **options)
        found.append(np.sqrt(np.mean((X @ (fit.params.to_numpy() - ols)) ** 2)))
    return float(np.median(found))


found = {}
for name, options in {
    "ssp": {"bounds": ranges},
    "ssp, one stage": {"bounds": ranges, "stages": 1},
    "ssp, ranges bought": {},
    "pmt": {"public": public},
    "adassp": {"bounds": ranges, "method": "adassp"},
    "outpert": {"bounds": ranges, "method": "outpert"},
}.items():
    found[name] = error(**options)
    print(f"{name:20s} {found[name]:.3f}")

# %%
# alt: Horizontal bars on a log axis, error of six methods: the defaults are shortest, output perturbation is longest by far
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 2.8))
ax.barh(list(found), list(found.values()), color=["C0", "C7", "C0", "C0", "C7", "C7"])
ax.invert_yaxis()
ax.set(xscale="log", xlabel="error of fitted values (blue: what the default rule takes)")
figure.tight_layout()
plt.show()

# %% [markdown]
# ## One release, many regressions
#
# `dp_moments` releases the second moments themselves; what is computed from them costs nothing.

# %%
moments = dp.dp_moments(
    ["age", "school", "wage"], private, eps=1, delta=1e-6, bounds=ranges, seed=1
)
C = moments.arrays["moments"]
print(np.linalg.solve(C[np.ix_([3, 0, 1], [3, 0, 1])], C[[3, 0, 1], 2]))

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section. It names the method; add
# that the choice was made before the data, by the rule above, and where public rows come from.

# %%
import textwrap

final = dp.dp_ols("wage ~ age + school", private, eps=1, delta=1e-6, public=public)
print(textwrap.fill(final.statement(), 100))
