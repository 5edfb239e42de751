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
# **Setting.** The paper's Tables 1 to 3, and the trade-off curves of its Figure 1.
#
# **What you will see.** The tables again, the integrated correction (IDR, `method="drcl"`) that needs no second draw, and what the simulated settings mean as
# privacy: hardly any.
#
# **Privacy used.** None: kept results of simulations, and curves.

# %%
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpmodels as dp
from dpmodels.models.noised.curves import beta_inf, beta_one
from dpmodels.models.noised.exact import delta_exact

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
sys.path.append(str(Path(dp.__file__).resolve().parents[1] / "benchmarks"))
from common import kept

# %% [markdown]
# ## Table 1: means
#
# Root mean squared error of `mean f(X)`, X uniform; printed values in brackets. The caption of the second block says (1.5, .05) and its rows (1, .05);
# its numbers come from lambda about 1.2, not 1.4.

# %%
one = kept("zil_table1")[0]
print(one.to_string(index=False))

# %%
# alt: Bars for three functions at the first setting: the integrated correction has about a third of the error of the two-draw correction for the ramp, about two thirds for the others
first = one.iloc[:2].set_index("estimator")[["ReLU", "indicator", "abs sine"]].astype(float)
printed = [0.105, 0.183, 0.170]  # the line of the first row, in brackets above
figure, ax = plt.subplots(figsize=(6.5, 3.2))
at = np.arange(3)
for k, (values, label, color) in enumerate(
    (
        (printed, "DR, printed", "0.6"),
        (first.iloc[0], "DR, again", "C3"),
        (first.iloc[1], "integrated (ours)", "C0"),
    )
):
    ax.bar(at + 0.27 * (k - 1), values, width=0.25, label=label, color=color)
ax.set_xticks(at, first.columns)
ax.set(ylabel="root mean squared error", title="p = .1, lambda = .94, n = 500")
ax.legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Tables 2 and 3: logistic and median regression
#
# Rows with "paper" or "reference" are printed or prototype values; "bands" is what a test accepts. The covariates of Table 2 must be truncated to [-.5, .5]
# for its oracle to be reproduced (the paper says [-1, 1]). At lambda = 1 DR and SL are heavy tailed: **our DR is worse than the printed .75 to .78**, which
# needs a bound on the coefficients that the paper does not state.

# %%
for name in ("zil_table2", "zil_table3"):
    print(kept(name)[0].to_string(index=False), end="\n\n")

# %% [markdown]
# ## Figure 1: trade-off curves
#
# The least type II error of any test of level alpha that tries to tell two neighbours apart, for noise at distance c in dimension d (one, and the limit), a share p in clear. The dashed
# diagonal is perfect privacy. A share p of records in clear cuts the curve off at 1 - p.


# %%
# alt: Trade-off curves below the diagonal: larger c and larger p are less private; the curves with p = .2 reach zero at level .8
def with_clear(curve, a, c, p):
    """(1 - p) T(a/(1 - p)), zero beyond 1 - p."""
    return (1 - p) * curve(a / (1 - p), c) if a < 1 - p else 0.0


figure, ax = plt.subplots(figsize=(5.2, 4.2))
alpha = np.linspace(0.001, 0.999, 200)
settings = (
    (beta_one, "1", 0.5, 0.0), (beta_inf, "inf", 0.5, 0.05),
    (beta_inf, "inf", 1.0, 0.2), (beta_inf, "inf", 2.0, 0.2),
)  # fmt: skip
for curve, d, c, p in settings:
    least = [with_clear(curve, a, c, p) for a in alpha]
    ax.plot(alpha, least, label=f"c = {c:g}, d = {d}, p = {p:g}")
ax.plot([0, 1], [1, 0], "k--", lw=0.8)
ax.set(xlabel="type I error", ylabel="least type II error")
ax.legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
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
# 5. Table 3: lambda = 2 is c = 1; its oracle rows need errors with density .50 at zero, for which N(0, .8^2) is taken.
# 6. Tables 2 and 3 leave y unprotected. 7. The objective of 7.3 lacks the intercept. 8. Integrability under the tails of the noise is a real condition.
#
# All fourteen: `dpmodels/models/noised/theory.md`, section 7. Coverage of intervals: `benchmarks/results/zil_coverage.md`.
