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
# # Every item of the five documents
#
# Five documents stand behind parts of this package. Here is every algorithm, theorem, table and figure of theirs: the printed number, the same method run
# again at the document's settings, and what this package does unless told otherwise. An item without a number has a reason. Errata are at the end of each
# notebook.
#
# Settings of the papers are theirs: some mean hardly any privacy (delta = .01 with 8000 rows, eps of 50, a fifth of the records in clear). Columns marked
# NOT PRIVATE show what a document does; the package does not offer it.
#
# | notebook | document |
# |---|---|
# | [01](01-propose-test-release.ipynb) | Lecture notes on Propose-Test-Release |
# | [02](02-efficient-propose-test-release.ipynb) | Shen, Tong and Wang: Efficient Propose-Test-Release |
# | [03](03-doubly-random-corrected-loss.ipynb) | Long, Chen and Qiu: Versatile differentially private learning |
# | [04](04-generalized-propose-test-release.ipynb) | Redberg, Zhu and Wang: Generalized PTR |
# | [05](05-public-moments.ipynb) | Cao and Zhang: Public second-moment |

# %%
import sys
from pathlib import Path

import pandas as pd

import dpmodels as dp

pd.options.display.max_colwidth = None
for folder in ("benchmarks", "benchmarks/papers"):
    sys.path.append(str(Path(dp.__file__).resolve().parents[1] / folder))
from items import of

# %% [markdown]
# ## Lecture notes on Propose-Test-Release

# %%
of("lecture").set_index("item")

# %% [markdown]
# ## Efficient Propose-Test-Release

# %%
of("eptr").set_index("item")

# %% [markdown]
# ## Zero-inflated noise and corrected losses

# %%
of("drcl").set_index("item")

# %% [markdown]
# ## Generalized Propose-Test-Release

# %%
of("gptr").set_index("item")

# %% [markdown]
# ## Public moments

# %%
of("pmt").set_index("item")

# %% [markdown]
# Kept results, with runs and seeds: `benchmarks/results/papers/`; scripts: `benchmarks/papers/`. A test holds reproductions to printed numbers
# (`tests/vignettes/test_papers.py`).
