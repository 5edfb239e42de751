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
# # Generalized Propose-Test-Release
#
# **The source.** Redberg, Zhu and Wang (2023), *Generalized PTR: User-Friendly Recipes for Data-Adaptive Algorithms with Differential Privacy*: test
# whether the privacy loss *at the data at hand* is within budget, instead of a sensitivity. Examples: one posterior sample of a regression, PATE,
# noisy votes, logistic regression, principal components.
#
# **Setting.** White wine and California housing, rows scaled to norm 1, add/remove, delta = 1e-6; 400 teachers, 200 queries, 10 classes.
#
# **What you will see.** Where the printed constants are not private, by how much, and what replaces them; every figure with its printed method beside the corrected
# one and our default.
#
# **Privacy used.** None: kept results of `benchmarks/papers/gptr.py`, seeded fits (**NOT PRIVATE**).
#
# ## Where each item is

# %%
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded fits below
pd.options.display.max_colwidth = None
for folder in ("benchmarks", "benchmarks/papers"):
    sys.path.append(str(Path(dp.__file__).resolve().parents[1] / folder))
from items import of
from shared import item

of("gptr").set_index("item")

# %% [markdown]
# "printed" is the paper's formula or number, "reproduced" its method run again, "our default" what this package does unless told otherwise.
#
# ## Theorem 5.1: true delta over the claimed one
#
# One sample of `N(theta*, (gamma A)^{-1})`. For a row of leverage h and scaled residual s the *exact* delta(eps) is known: two univariate normals
# (`posterior.md`, 2.1). Theorem 5.1 as printed lacks a factor `sqrt 2` in a tail, and so allows an s that is too large; it also wastes something, so that it
# *holds* for small eps. Ratios above 1 are failures:

# %%
for name, table in zip(
    ("delta = 1e-6", "the delta that Algorithm 3 leaves a run (1.6e-21)", "leverage .01"),
    item("gptr", "theorem"),
    strict=True,
):
    print(name, table.to_string(index=False), sep="\n", end="\n\n")

# %%
# alt: True delta over the claimed one against eps on log axes for two claims: at one millionth from .2 at eps .05, crossing one near eps .25, to 28 at eps 15; at the delta of Algorithm 3 from a million to two hundred million
figure, ax = plt.subplots(figsize=(6, 3.4))
for table, color, label in zip(
    item("gptr", "theorem")[:2], ("C0", "C3"), ("delta = 1e-6", "1.6e-21 (Alg. 3)"), strict=True
):
    ax.plot(table["eps"], table["leverage 0.001"].replace("no s", "nan").astype(float),
            f"{color}o-", label=label)
ax.axhline(1, color="k", lw=0.8)
ax.set(xscale="log", yscale="log", xlabel="eps", ylabel="true delta / claim", title="leverage .001")
ax.legend(frameon=False)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Selection: what is left to one of thirty candidates
#
# Algorithm 3 runs candidates of ridge a random number of times. mu of a run (larger is better):

# %%
print(item("gptr", "selection")[0].to_string(index=False))

# %% [markdown]
# Releasing all thirty leaves more than the printed rule. `dp_select` has a tighter account; a bound that holds for every ridge at once (Algorithm 5, our
# `method="gptr"`) needs no selection.
#
# ## Figure 1: linear regression on two tables
#
# Test error over that of least squares. OPS-PTR is Algorithm 8 inside Algorithm 3: as published, **not private** at the eps it says, and with the
# corrected sample chosen by `dp_select`. Both score on validation rows taken as public, which alone give nearly the non-private fit.

# %%
linear = item("gptr", "linear")[0]
print(linear.to_string(index=False))

# %%
# alt: Two panels, wine and California: test error over least squares against eps; output perturbation highest, the published and the corrected selection in between, posterior and score below, our default lowest almost everywhere, level on California
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8))
STYLES = {
    "OutPert": "C5:", "OPS-Balanced": "C4:", "OPS-PTR, published (NOT PRIVATE)": "C3--s",
    "OPS-PTR, dp_select": "C1-^", "AdaOPS": "C2:", "AdaSSP": "0.5", "posterior": "C6-",
    "score": "C9-", "our default": "C0-o",
}
for ax, (name, rows) in zip(axes, linear.groupby("data", sort=False), strict=True):
    for column, style in STYLES.items():
        ax.plot(rows["eps"], rows[column].astype(float), style, ms=4, label=column)
    ax.set(xscale="log", yscale="log", xlabel="eps", title=name)
    ax.set_xticks(rows["eps"], [f"{e:g}" for e in rows["eps"]])
    ax.minorticks_off()
axes[0].set_ylabel("test error, least squares = 1")
axes[1].legend(frameon=False, fontsize=6.5)
figure.tight_layout()
plt.show()

# %% [markdown]
# **Our default** for a regression is `dp_ols` (`ssp`), with intervals; on California it shortens rows that least squares follows, and stays about 3 % above it at
# every eps here. The two calls on the bundled table:

# %%
data = dp.datasets.rand_hie()
formula, call = "log1p(mdvis) ~ lncoins + disea", {"eps": 1, "delta": 1e-6, "seed": 1}
pd.DataFrame(
    {
        "gptr": dp.dp_ols(formula, data, method="gptr", scoring=False, **call).params,
        "default": dp.dp_ols(formula, data, **call).params,
        "its error": dp.dp_ols(formula, data, **call).bse,
    }
).round(3)

# %% [markdown]
# ## PATE (Figure 2)
#
# Three prices of 200 answers: fixed; data-dependent with the cost of releasing it; and data-dependent without, which is a function of the votes and **not
# private**. With high consensus the tested price wins where noise is small. With less, its *release* (smooth sensitivity) costs more than it saves, although at
# .3 the loss itself is still small: at eps = 8 there is no reply until the fixed price itself is within the budget.

# %%
pate = item("gptr", "pate")[0]
print(pate.to_string(index=False))

# %%
# alt: Price in eps against noise on a log axis for three regimes: with high consensus the tested price is flat near 4 to 5 while the fixed price falls from 24; with little consensus the tested price lies above the fixed one; the price that is not paid for lies far below where there is consensus
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True)
for ax, (name, rows) in zip(axes, pate.groupby("regime", sort=False), strict=True):
    for column, style in (
        ("fixed eps", "k--"),
        ("data-dependent eps, paid for", "C0-o"),
        ("data-dependent eps (NOT PRIVATE)", "C3:"),
    ):
        ax.plot(rows["sigma"], rows[column].astype(float), style, ms=4, label=column)
    ax.set(yscale="log", xlabel="noise of a vote (sd)")
    ax.set_title(name, fontsize=10)
axes[0].set_ylabel("eps of 200 queries")
axes[0].legend(frameon=False, fontsize=7)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Noisy majority: Example C.1 and Figure 3
#
# **The worst slip of the paper.** The data-dependent eps of a noisy majority does *not* vanish with the margin. The printed display drops a leading e: it is
# negative, and tends to zero. The exact one tends to e: nothing is gained without a delta. With one, there is a gain once the margin is wide.

# %%
majority, tested = item("gptr", "votes")
print(majority.to_string(index=False), end="\n\n")
print(tested.to_string(index=False))

# %%
# alt: Two panels, data-dependent eps against the margin: printed curves are negative and rise to zero; exact pure ones rise to the eps of a count; with delta one millionth the curve falls to zero at a margin of about twenty for eps 1
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.4))
rows = majority[majority["e of a count"] == 1.0]
for column, style in (
    ("printed", "C3--s"),
    ("exact, delta = 0", "C0-o"),
    ("exact, delta = 1e-6", "C2-^"),
):
    axes[0].plot(rows["margin"], rows[column].astype(float), style, ms=4, label=column)
axes[0].axhline(0, color="k", lw=0.6)
axes[0].set(xscale="log", xlabel="margin", ylabel="eps", title="(a) e = 1")
axes[0].legend(frameon=False, fontsize=8)
for e, rows in tested.groupby("e of a count"):
    axes[1].plot(rows["margin"], rows["total eps"].astype(float), "o-", ms=4,
                 label=f"with a test, e = {e:g}")
    axes[1].axhline(e, ls=":", lw=0.8, color="0.4")
axes[1].set(xscale="log", xlabel="margin", title="(b) the test costs more than it saves")
axes[1].legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Logistic regression: Example C.8
#
# Test log-loss. The mechanism with a tested curvature (`method="gptr"`), the shape of the paper's noise with corrected constants, objective perturbation (which
# needs no test), our default.

# %%
print(item("gptr", "logistic")[0].to_string(index=False))

# %% [markdown]
# ## Principal components
#
# One row of norm 1 moves the projector on the first k components by at most `1/(sqrt 2 (gap - 1))`: 2.8 times less than the classical `2/gap`, whose printed noise
# lacks a `sqrt 2` (`components/theory.md`, 5.3). Then the share of the variance that two released components of eight keep: ours pays for the eigengap, the
# published noise here does not, and so is better for few rows; at the edge of a reply (n = 2000, eps = 2) our answer is of little use.

# %%
noise, kept_share = item("gptr", "components")
print(noise.to_string(index=False), end="\n\n")
print(kept_share.to_string(index=False))

# %%
# alt: Share of variance kept against eps for two sizes: with the published noise it starts at about half for two thousand rows and is near one for twenty thousand; our default replies later for few rows, and where it just replies keeps less than half; for twenty thousand rows both keep nearly everything
figure, ax = plt.subplots(figsize=(6, 3.2))
for color, (n, rows) in zip(("C1", "C0"), kept_share.groupby("n"), strict=True):
    for column, style in (
        ("variance kept, published noise", "--s"),
        ("variance kept, our default", "-o"),
    ):
        values = pd.to_numeric(rows[column], errors="coerce")
        ax.plot(rows["eps"], values, color + style, ms=4, label=f"{column[15:]}, n = {n}")
ax.set(xscale="log", xlabel="eps", ylabel="share of the variance kept", ylim=(0, 1.03))
ax.legend(frameon=False, fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Errata of the paper
#
# | place | as printed | correct |
# |---|---|---|
# | Example C.1 | `e log(...)`, tends to 0 with the margin | `e + log(...)`, tends to e: at margin 20, e = 1, exact .956, printed -.044 |
# | Thm 5.1, Alg. 8 | tail `sqrt(log(2/delta))` | `sqrt(2 log(2/delta))`; true delta over the claim, at 1e-6: .21 at eps .05, .84 at .2, 2.1 at .5, 12.6 at 4; at the delta of Algorithm 3: 1e6 to 2e8 |
# | Lemma D.2 | sensitivity `log(1 + B^2/lam*)` | removing a row: `-log(1 - B^2/lam*)` |
# | Alg. 8 line 3, 5 | no `B^2`; `sqrt(6/delta)` | scale `B^2`; `sqrt(log(6/delta))` |
# | Alg. 8 line 8 | ridge outside gamma | inside |
# | Thm 4.7, Ex. 5.2, D.1 | `eps^P <= eps_lambda(Z)` | `>=` |
# | Section 4, T(X) | 0 if the noisy distance is large | 1 |
# | Def. C.3 | `2R` | `R` |
# | Thm C.6, E.1, Rem. C.7 | a lost `sqrt 2`, chi taken as half-normal, `R` for `d R` | `glm/theory.md`, 3 |
# | Thm C.11 | `2RL + beta`, one direction, a condition | `RL + beta`, both, none |
# | C.13 | `sqrt(log(1.25/delta))` | `sqrt(2 log(1.25/delta))` |
# | Thm B.5, Alg. 6 | Renyi with a false-pass probability | not proved; our note composes one-sided, section 1 |
# | Thm D.11 | `mu_2/sigma_2^2` | `mu_2/sigma_1^2` |
#
# All of them: `dpmodels/models/custom.md`, section 6. `variant="paper"` is refused.
