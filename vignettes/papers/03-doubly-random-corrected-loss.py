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
# # Zero-inflated noise and corrected losses
#
# **The source.** Long, Chen and Qiu, *Versatile differentially private learning for general loss functions*: noise every record once, leaving a share p
# in clear (ZIL noise); correct the loss for the noise, with a second random draw (DR); then fit any model to the released table.
#
# **Setting.** The paper's three tables, two figures and Proposition 6.1, at its settings.
#
# **What you will see.** Every item again, printed numbers beside ours; the integrated correction (IDR, `method="drcl"`, our default) that needs no second
# draw; and what the simulated settings mean as privacy: hardly any.
#
# **Privacy used.** None: kept results of `benchmarks/papers/drcl.py`, and curves.
#
# ## Where each item is

# %%
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpmodels as dp
from dpmodels.own.radial import delta_exact

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
pd.options.display.max_colwidth = None
for folder in ("benchmarks", "benchmarks/papers"):
    sys.path.append(str(Path(dp.__file__).resolve().parents[1] / folder))
from items import of
from shared import item

of("drcl").set_index("item")

# %% [markdown]
# "printed" is the paper's number, "reproduced" its method run again, "our default" what this package does unless told otherwise.
#
# ## Table 1: means
#
# Root mean squared error of `mean f(X)`, X uniform; 5000 runs, as in the paper (1000 of them by our default: `dp_release`, then `dp_mest` with the function as its loss).
# The caption of the second block says (1.5, .05) and its rows (1, .05), which is lambda 1.4.
# Its numbers come from lambda 1.2: the row SL shows it without doubt (indicator .315 at 1.4, .294 at 1.2, printed .294).

# %%
one = item("drcl", "table1")[0]
for name in ("ReLU", "indicator", "abs sine"):
    print(name)
    shown = one[["p, lambda", "n", "estimator", *(c for c in one if c.startswith(name))]]
    print(shown.rename(columns=lambda c: c.split(", ")[-1]).to_string(index=False), end="\n\n")

# %% [markdown]
# The printed SL of the absolute sine (.433, .796) is neither of the readings that give the other two columns: with the second derivative the error is about
# 11, without it .014.

# %%
# alt: Bars for three functions at the first setting: the two-draw correction again as high as printed; the integrated correction has about a third of its error for the ramp, about two thirds for the others
functions = ["ReLU", "indicator", "abs sine"]
first = one[(one["p, lambda"] == "0.1, 0.94") & (one["n"] == 500)].set_index("estimator")
bars = (
    ("DR, published", "printed", "DR, printed", "0.6"),
    ("DR, published", "reproduced", "DR, reproduced", "C3"),
    ("IDR", "our default", "IDR, our default", "C0"),
)
figure, ax = plt.subplots(figsize=(6.5, 3.2))
at = np.arange(3)
for k, (row, column, label, color) in enumerate(bars):
    values = [float(first.loc[row, f"{f}, {column}"]) for f in functions]
    ax.bar(at + 0.27 * (k - 1), values, width=0.25, label=label, color=color)
ax.set_xticks(at, functions)
ax.set(ylabel="root mean squared error", title="p = .1, lambda = .94, n = 500")
ax.legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Table 2: logistic regression
#
# The covariates must be truncated to [-.5, .5] for the oracle and the naive row to be reproduced (the paper says [-1, 1]). SL, sDR and DR are minimised inside
# the box [0, 2]: the paper asks for a compact set and names none, and this one gives its numbers. Without a box DR at lambda = 1 runs far out (root mean
# squared error 1.7), and the published estimator would look worse than it is.

# %%
two = item("drcl", "table2")
print(two[0].to_string(index=False))

# %% [markdown]
# ## Table 3: median regression
#
# Inside the same box, from zero. A wider search of the same objective finds lower values in most runs and *worse* estimates (the last table): the global minimum of
# the one-draw loss is noisy.

# %%
three = item("drcl", "table3")
print("Slopes", three[0].to_string(index=False), sep="\n", end="\n\n")
print("Intercept", three[1].to_string(index=False), sep="\n", end="\n\n")
print(item("drcl", "search")[0].to_string(index=False))

# %% [markdown]
# ## Figure 2: boxplots
#
# Estimates of the first coefficient (truth 1). Whiskers end at the 5 and 95 % quantiles.

# %%
# alt: Boxplots of the first coefficient for logistic and median regression: oracle narrow at one, naive near zero, the corrected estimators centred at one; the published two-draw estimator is the widest, the integrated one the narrowest of the corrected
figure, axes = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True)
for ax, (title, table, case) in zip(
    axes,
    (
        ("Logistic, lambda 1, n = 5000", two[1], "1, 5000"),
        ("Median, lambda 2.5, n = 5000", three[2], "2.5, 5000"),
    ),
    strict=True,
):
    rows = table[table["lambda, n"] == case]
    stats = [
        {"label": r["estimator"], "whislo": r["q0.05"], "q1": r["q0.25"], "med": r["q0.5"],
         "q3": r["q0.75"], "whishi": r["q0.95"]}
        for _, r in rows.iterrows()
    ]
    ax.bxp(stats, showfliers=False)
    ax.axhline(1, color="0.7", lw=0.8, zorder=0)
    ax.tick_params(axis="x", labelsize=8, rotation=20)
    ax.set_title(title, fontsize=10)
axes[0].set_ylabel("first coefficient")
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Figure 1: trade-off curves
#
# The least type II error of any test of level alpha that tries to tell two neighbours apart: noise at distance c, a share p = .05 in clear, two and four
# columns, and the limit of many (beta). The dashed diagonal is perfect privacy. On the right the seven (eps, delta) that bound the curve of c = .5, and
# (.8, .17), for which the paper takes c = .5.

# %%
# alt: Left, trade-off curves for c from .2 to 1, below the diagonal and lower for larger c, curves of two and four columns close to their limit; right, the limit for c = .5 with seven envelopes of straight lines that touch it from below
curves, envelopes, constant = item("drcl", "figure1")
alpha = np.array([float(c) for c in curves.columns[2:]])
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2))
for color, (c, rows) in zip(("C0", "C1", "C2", "C3"), curves.groupby("c"), strict=True):
    for style, (_, row) in zip(("-", "--", ":"), rows.iterrows(), strict=True):
        label = f"{row['curve']}, c = {c:g}" if c in (0.2, 1.0) else None
        axes[0].plot(alpha, row.iloc[2:].astype(float), style, color=color, lw=1.2, label=label)
axes[0].plot([0, 1], [1, 0], "k--", lw=0.6)
limit = curves[(curves["curve"] == "beta") & (curves["c"] == 0.5)].iloc[0, 2:].astype(float)
axes[1].plot(alpha, limit, "C1", lw=2, label="c = .5")
grid = np.linspace(0, 1, 400)
for _, row in envelopes.iterrows():
    eps, delta = float(row["eps"]), float(row["delta of beta, c = .5"])
    line = np.maximum(1 - delta - np.exp(eps) * grid, np.exp(-eps) * (1 - delta - grid))
    axes[1].plot(grid, np.maximum(line, 0), lw=0.7, color="0.4")
for ax in axes:
    ax.set(xlabel="type I error", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False, fontsize=7)
axes[0].set_ylabel("least type II error")
figure.tight_layout()
plt.show()

# %%
print(envelopes.drop(columns="printed").to_string(index=False), end="\n\n")
print(constant.to_string(index=False))

# %% [markdown]
# ## Proposition 6.1: variance against the share in clear
#
# Linear model: n times the variance of the first coefficient, formula and runs. The last curve is what many would do with the release: least squares on the
# clear records alone, where they can be told.

# %%
# alt: Variance against the share of clear records on a log axis: the two-draw estimator falls steeply from four thousand, SL is flat, the integrated one lies below both, and least squares on the clear rows alone far below all of them
v = item("drcl", "variance")[0]
figure, ax = plt.subplots(figsize=(6.5, 3.6))
for name, style in (("DR", "C3"), ("SL", "C1"), ("IDR", "C0")):
    ax.plot(v["p"], v[f"{name}, formula"].astype(float), style, label=f"{name}, formula")
    ax.plot(v["p"], v[f"{name}, runs"].astype(float), style + "o", label=f"{name}, runs")
ax.plot(v["p"], v["clear rows alone"].astype(float), "k:", label="clear rows alone")
ax.set(yscale="log", xlabel="share of records in clear", ylabel="n x variance")
ax.legend(fontsize=7, ncol=2, frameon=False)
figure.tight_layout()
plt.show()

# %% [markdown]
# sDR has the variance of IDR here. In every setting of the paper's tables the one-draw variance exceeds that of the clear records alone: a share p that is
# "published in clear, nothing else" would be more private *and* more exact. Hence `clear_prob=0` is our default.
#
# ## Intervals
#
# Nominal 95 %, sandwich errors from the release.

# %%
print(item("drcl", "coverage")[0].to_string(index=False))

# %% [markdown]
# ## A box by default?
#
# `theta=(0, 2)` keeps the coefficients inside; the tables above use it. Should a public box be the default? Root mean squared error of the slopes, IDR:

# %%
print(item("drcl", "box")[0].to_string(index=False))

# %% [markdown]
# No. What public ranges allow ("wide") does not bind, and for logistic models ranges bound nothing; a box as large as the ball of our default hides failures
# that the ball reports. A *narrow* box that is true helps where noise is loud: it is an option, `theta=`. (Median, p = 0: the corrected loss has corners, at
# which its gradient does not vanish; every such fit says that it is not converged, and has no errors, with a box or without.)
#
# ## What the simulated settings mean
#
# The delta that belongs to eps = 1 is `p + (1 - p) delta_{d,c}(1)`: it must be small for a guarantee to mean something.

# %%
pd.Series(
    {f"d = 6, c = {c:g}, p = .2": 0.2 + 0.8 * delta_exact(1.0, c, 6) for c in (2.0, 1.0, 0.8)},
    name="delta at eps = 1",
).round(3)

# %% [markdown]
# ## Our default beside it
#
# `dp_release` protects the whole record, the response too, leaves nothing in clear (p = 0) unless asked, and is calibrated to the (eps, delta) that you give.
# One noised table serves any number of analyses; a single regression is far better off with `dp_ols`, which adds noise to sums, not to rows.

# %%
data = dp.datasets.rand_hie()
formula, call = "mdvis ~ lncoins + disea", {"eps": 4, "delta": 1e-6, "seed": 1}
table = dp.dp_release(data, columns=["mdvis", "lncoins", "disea"], **call)
pd.DataFrame(
    {
        "noised table, integrated": dp.dp_ols(formula, table).bse,
        "dp_ols": dp.dp_ols(formula, data, **call).bse,
    }
).round(4)

# %% [markdown]
# ## Errata of the paper
#
# 1. The diameter of `[-M, M]^d` is `2 M sqrt(d)`, not `4 d M^2`. 2. `T_{1,c} >= f_{sqrt2 c, 0}`, without the division by lambda.
# 3. Labels of Table 1: above; (.1, .94) gives (1.5045, .1). 4. The constant of Figure 1(b) is .5025.
# 5. Table 1: SL of the absolute sine cannot be .433 (11.1 or .014). 6. Table 2: covariates on [-.5, .5]; its labels are c = 2 and 1.
# 7. Table 3: lambda = 2 is c = 1; its oracle rows need errors with density .50 at zero, for which N(0, .8^2) is taken.
# 8. Tables 2 and 3 need a set for the coefficients, which is not stated: [0, 2]. 9. Both leave y unprotected.
# 10. The objective of 7.3 lacks the intercept. 11. Integrability under the tails of the noise is a real condition.
#
# All fifteen: `dpmodels/models/noised/theory.md`, section 7.
