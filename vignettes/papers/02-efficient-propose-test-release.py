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
# # Efficient Propose-Test-Release
#
# **The source.** Shen, Tong and Wang, *Efficient Propose-Test-Release for Optimal Differentially Private Estimation*: replace the distance to
# unsafe data, which is hard to compute, by a lower bound that is easy; flip a coin with it; release. Three examples: a Bayes
# classifier, least squares, kernel regression.
#
# **Setting.** The paper's three figures: simulations and a real table each; delta = .01 as in the paper, unless said. The paper does not state
# every constant of its figures (row bounds, c0): those of the simulations are of the scripts that its authors published since.
#
# **What you will see.** The algorithm with its printed constants ("published"), the same idea with tight ones ("eptr", `method="eptr"`), our default, and the
# methods that the paper compares with.
#
# **Privacy used.** None: kept results of `benchmarks/papers/eptr.py`, a short seeded run (**NOT PRIVATE**). delta = .01 with n = 8000 is far above 1/n: a
# comparison with the paper, not an example to follow.
#
# ## Where each item is

# %%
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits, explained above
pd.options.display.max_colwidth = None
for folder in ("benchmarks", "benchmarks/papers"):
    sys.path.append(str(Path(dp.__file__).resolve().parents[1] / folder))
from eptr import least_squares
from items import of
from shared import item

of("eptr").set_index("item")

# %% [markdown]
# "printed" is the paper's number (its results are figures: it prints none), "reproduced" its algorithm run again, "our default" what this package does
# unless told otherwise.
#
# ## Figure 1: Bayes classifier
#
# Balanced test error of three classes, against n, the share of the least class, and eps; rows bounded by 8 and c0 = .04, as in
# the authors' scripts.

# %%
STYLES = {
    "published": "C3--s", "eptr": "C1-^", "our default": "C0-o", "JL": "C2:", "DPGD": "C4:",
    "FM": "C5:", "DPNB": "C2:", "DPNBSS": "C4:", "wavelets": "C2:", "not private": "k:",
    "least squares": "k:", "published, eps a query": "C3--s", "eptr, all 41": "C1-^",
    "published, eps/41 a query": "C6--", "eptr, same columns": "C1--",
}


def panels(tables, logs, height=3.6):
    """A panel a table, the first column across, a line a method."""
    figure, axes = plt.subplots(1, len(tables), figsize=(3.9 * len(tables), height))
    for ax, (title, table), log in zip(axes, tables, logs, strict=True):
        at = table.iloc[:, 0]
        for name in table.columns[1:]:
            if name in STYLES:
                ax.plot(at, table[name].astype(float), STYLES[name], ms=3, label=name)
        ax.set(xscale="log", yscale=log, xlabel=at.name)
        ax.set_xticks(at[:: max(1, len(at) // 6)], [f"{v:g}" for v in at[:: max(1, len(at) // 6)]])
        ax.minorticks_off()
        ax.set_title(title, fontsize=10)
    axes[0].legend(fontsize=6.5)
    figure.tight_layout()
    plt.show()


one, credit = item("eptr", "figure1"), item("eptr", "credit")[0]
for table in one:
    print(table.to_string(index=False), end="\n\n")

# %%
# alt: Four panels of balanced error, against n, least share and eps for the simulation and against eps on the credit table: the published algorithm starts high and comes near the others at n = 8000, at a least share of .2 or at eps = 3, the tight version and our default are close to the non-private classifier throughout, naive Bayes with Laplace noise is above the published algorithm, and at smooth sensitivity it guesses
panels(
    [("simulation", one[0]), ("simulation", one[1]), ("simulation", one[2]), ("credit", credit)],
    ["linear"] * 4,
)

# %% [markdown]
# Noisy class sums and counts (our default) need no test. On the credit table the published algorithm is close to the others once its columns are z-scores and its
# constants are chosen well:

# %%
print(credit.to_string(index=False))

# %% [markdown]
# ## Figure 2: least squares
#
# p = 10, n = 8000, theta ~ 1/j: eleven eps, then n at eps = 4; rows bounded by 4, theta by 1, c0 = .4 (.5 against n), as in the authors' scripts (the paper
# prints p = 5).

# %%
two = item("eptr", "figure2")
print(two[0].to_string(index=False), end="\n\n")
print(two[3].to_string(index=False))

# %%
# alt: Four panels for least squares on log axes, squared error and test error against eps and against n: the published algorithm lies above the tight version and our default, which are close to least squares, by a factor of about fifty at eps 1 and of two and a half at eps 8; the functional mechanism is highest
panels(
    list(
        zip(
            ("squared error", "test error", "squared error, eps = 4", "test error, eps = 4"),
            two,
            strict=True,
        )
    ),
    ["log"] * 4,
)

# %% [markdown]
# Published noise is the same in every direction and scaled by `4 Rx^2 Rtheta/(c0 n)`. Tight: the eigenvalue's lower bound is released instead of assumed, the
# constant is `B(R) <= 2.6 Rx^2 Rtheta` here, and the noise is calibrated exactly. This design, all variances one and no correlation, is the best case of the
# test. Our default is given wider declared ranges than the norm bound that the test uses, and pays for robust errors and intervals.
#
# ## Wine
#
# Four columns, 20 % for training. **Where the test fails, and why**: with wide declared ranges the eigenvalue that it can rely on is small, and at eps = .5 its
# error is many times that of our default. It is the *standardisation* that decides, not the constants and not the split: on z-scores with rows bounded by
# 3 the test with tight constants is level with our default from eps = 2 on, and better than the sketch, gradient descent and the functional mechanism, as the
# paper claims. With the printed constants, at the best bounds that we found, it is level with the sketch at eps = 2 and behind gradient descent: that
# "best throughout" is of the algorithm as printed, we could not reproduce.

# %%
wine = item("eptr", "wine")[0]
print(wine.to_string(index=False))

# %% [markdown]
# z-scores use means and sds of the whole table, which are not paid for. Paid-for ranges ("ranges bought") and tight declared ones lie between. What to do with
# wide ranges: `Rx=`, or our default, which needs neither.
#
# The authors' script runs another case: 80 % for training, seven columns, **no intercept** (so that the line called not private is worse than predicting the
# mean of the training rows), z-scores of the private rows that are not paid for, and noise scaled for all of eps after a coin that has spent half of it.
# California: all of eps for each of 20 queries. At these settings:

# %%
for table in item("eptr", "authors"):
    print(table.to_string(index=False), end="\n\n")

# %% [markdown]
# ## Figure 3: kernel regression
#
# A smooth curve at 41 points. The printed guarantee is one *per query point*. As the paper reads it, each of the 41 has its own (eps, delta), and together they
# are **not private** at (eps, delta) ("eps a query"); divided by 41 almost nothing is left. Our default releases the whole curve once. For delta = .01:

# %%
kernel, california = item("eptr", "kernel"), item("eptr", "california")[0]
print("delta = .01", kernel[0].to_string(index=False), sep="\n", end="\n\n")
print("delta = 1e-6", kernel[1].to_string(index=False), sep="\n")

# %%
# alt: Two panels, delta .01 and 1e-6, error of a curve at 41 points against eps on log axes: divided by 41 the published algorithm stays at .25; with eps a query it falls from about .06 or .2 to below our default; the test for all points at once falls likewise; our default is flat near .005 and wavelets are lowest nearly everywhere
panels([("delta = .01", kernel[0]), ("delta = 1e-6", kernel[1])], ["log"] * 2)

# %% [markdown]
# Of what is private for the whole curve our default is the best at eps = .5 and delta = 1e-6; elsewhere wavelets, made for smooth curves of one variable, are
# better: where noise is small the fixed bandwidth of our default shows.
#
# California housing, 2000 queries, 50 splits (test error):

# %%
print(california.to_string(index=False))

# %% [markdown]
# ## A short run of the same script
#
# Three runs, least squares, eps = 1 (squared error of the coefficients):

# %%
pd.Series(least_squares(1, 3)[0]).round(5)

# %% [markdown]
# ## Where the default of this package is better, and where the test is of use
#
# On real, ill-conditioned tables the test answers up to about four predictors and is silent beyond. What it has over the default is a *refusal*:
# it answers only where the data are safe. `dp_ols(..., method="eptr")`.
#
# ## Errata of the paper
#
# 1. "Hellinger distance" means Hamming distance.
# 2. Algorithm 1 spends eps/2 on the test and a *full* eps on the Gaussian: the argument gives 3 eps/2, not eps. (Algorithm 2 halves it properly.)
# 3. Propose-Test-Release is described as releasing when the distance to the *safe* set is small; it must be a large distance to the *unsafe* set.
# 4. The bound of least squares uses `||theta_hat|| <= R_theta` for the estimate before projection. The claim holds all the same, and is proved in our note for the
#    projected estimate with a smaller constant.
# 5. The classical noise `sqrt(2 log(1.25/delta))/eps` is proved for eps < 1 only, and fails at large eps. `variant="paper"` takes the larger of it and the exact one.
# 6. Algorithm 2 writes N(0, 1) for a vector.
# 7. The theorems need delta <= n^-3; the simulations use .01.
# 8. Kernel regression: privacy holds for one query; it is evaluated on a test set without a word on composition.
#
# Proofs and constants: `dpmodels/privacy/propose.md`, `dpmodels/models/linear/eptr.md`, `bayes/theory.md`, `kernel/theory.md`.
