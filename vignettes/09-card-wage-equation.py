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
# # Card's wage equation, a published negative result, again
#
# **What you will learn.** How far a differentially private regression is from the confidential one on the equation with
# which a feasibility study of a validation server (Barrientos, Williams, Snoke and Bowen 2023) found existing methods
# wanting: in their runs the best methods gave the right sign in 56, 94, 70, 47 and 97 % of cases.
#
# **Data.** Current Population Survey, March 1988: 28 155 men (`CPS1988` of the R package AER). The table is not part of
# this project: set `DPMODELS_DATA` to a folder that holds `cps1988_wage.csv.gz` to run the notebook yourself.
#
# **Privacy used.** None: public data, seeded fits (**NOT PRIVATE**), so that the numbers can be repeated.

# %%
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
folder = os.environ.get("DPMODELS_DATA", "")
if not (Path(folder) / "cps1988_wage.csv.gz").is_file():
    print("DPMODELS_DATA names no folder with cps1988_wage.csv.gz: nothing to show")
    sys.exit(0)
table = pd.read_csv(Path(folder) / "cps1988_wage.csv.gz")
schema = dp.Schema(
    wage=dp.Real(50, 20_000),
    education=dp.Real(0, 20),
    experience=dp.Real(-5, 65),
    ethnicity=dp.Levels(["afam", "cauc"]),
)
formula = "log(wage) ~ education + experience + I(experience**2) + I(experience**3) + C(ethnicity)"

# %% [markdown]
# ## The confidential answer
#
# Ordinary least squares with robust (HC1) errors on all rows.

# %%
x = table["experience"].to_numpy(dtype=float)
X = np.column_stack(
    [np.ones(len(x)), table["education"], x, x**2, x**3, table["ethnicity"] == "cauc"]
).astype(float)
y = np.log(table["wage"].to_numpy(dtype=float))
scale = np.sqrt((X**2).mean(axis=0))
U = X / scale
G = np.linalg.inv(U.T @ U)
S = U * (y - U @ (G @ U.T @ y))[:, None]
truth = G @ U.T @ y / scale
error = np.sqrt(np.diag(G @ (S.T @ S) @ G) * len(y) / (len(y) - 6)) / scale
low, high = truth - 1.96 * error, truth + 1.96 * error

# %% [markdown]
# ## One private answer
#
# The cubic is typed as anybody would type it. The answer does not depend on that: the engine works in public coordinates
# in which every basis of the same space is the same (`legendre(experience, 3)` has the same law).

# %%
fit = dp.dp_ols(formula, table, eps=1, delta=1e-6, schema=schema, seed=0)
print(fit.summary())

# %% [markdown]
# ## A hundred private answers, by the study's criteria
#
# * relative bias: mean of (private - confidential) / |confidential|;
# * sign and significance (5 %): share of runs that agree with the confidential fit;
# * interval ratio: median of private width over confidential width;
# * overlap: mean of the two shares that the intervals have in common. A wide interval that contains the confidential one
#   has overlap (1 + 1 / ratio) / 2 and no more: .76 at a ratio of 1.9;
# * coverage of the confidential estimate; root mean squared error over the confidential standard error.

# %%
runs = []
for seed in range(100):
    fit = dp.dp_ols(formula, table, eps=1, delta=1e-6, schema=schema, seed=seed)
    estimate, (a, b) = fit.params.to_numpy(), fit.conf_int().to_numpy().T
    common = np.clip(np.minimum(b, high) - np.maximum(a, low), 0, None)
    runs.append(
        {
            "relative bias": (estimate - truth) / np.abs(truth),
            "sign": np.sign(estimate) == np.sign(truth),
            "significance": (fit.pvalues.to_numpy() < 0.05) == (np.abs(truth / error) > 1.96),
            "interval ratio": (b - a) / (high - low),
            "overlap": (common / (b - a) + common / (high - low)) / 2,
            "coverage": (a <= truth) & (truth <= b),
            "squared": ((estimate - truth) / error) ** 2,
        }
    )
result = pd.DataFrame(
    {
        name: (np.median if name == "interval ratio" else np.mean)([r[name] for r in runs], axis=0)
        for name in runs[0]
    },
    index=fit.params.index,
)
result.insert(6, "RMSE / s.e.", np.sqrt(result.pop("squared")))
result.round(3)

# %%
# alt: Six rows of a hundred dots: private estimates as distances from the confidential coefficient in its standard errors, with the band of its own 95 % interval
import matplotlib.pyplot as plt

away = np.array([r["relative bias"] for r in runs]) * np.abs(truth) / error
figure, ax = plt.subplots(figsize=(7, 3))
ax.axvspan(-1.96, 1.96, color="0.9", label="confidential 95 % interval")
for row, values in enumerate(away.T):
    ax.plot(values, np.full(len(values), row), "|", color="C0", alpha=0.5)
ax.set_yticks(range(len(truth)), fit.params.index, fontsize=8)
ax.invert_yaxis()
ax.set(xlabel="private estimate less confidential one, in confidential standard errors")
ax.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1))
figure.tight_layout()
plt.show()

# %% [markdown]
# ## What to write
#
# In a paper the call has no seed. `statement()` is then the paragraph for the methods section.

# %%
import textwrap

final = dp.dp_ols(formula, table, eps=1, delta=1e-6, schema=schema)
print(textwrap.fill(final.statement(), 100))
