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
# # A study in a file
#
# **What you will learn.** Those who need private statistics most do not sit on the data. An analyst writes what is to be estimated
# as a file, without the data; a custodian runs it once, where the data are; an output checker holds the folder that leaves
# against its record and the ledger. Here all three are played, from the first line to the last.
#
# **Data.** The RAND Health Insurance Experiment (ships with the package). **Privacy used.** (eps = 3, delta = 1e-6) in one
# ledger file, with the noise of the operating system: your numbers will differ from those printed here.

# %%
import tempfile
from pathlib import Path

import dpmodels as dp
from dpmodels.cli import main as dpmodels  # what a shell runs as: dpmodels study check study.toml

folder = tempfile.TemporaryDirectory()
here = Path(folder.name)

# %% [markdown]
# ## The analyst: a file, without the data
#
# `dpmodels study new` prints a file to complete. Every choice is explained in it.

# %%
dpmodels(["study", "new", "log1p(mdvis) ~ lncoins + physlm + disea"])

# %% [markdown]
# The ranges come from the codebook, never from the data. The study asks for three releases: a regression of visits, the odds
# of poor health, a table. What is computed from a release (a Wald test, predictions at public rows, a table of models side by
# side) costs nothing more.

# %%
study = '''
[study]
title = "Doctor visits and coinsurance"
who = "Institute of Health Economics"
why = "A paper on what coinsurance does to demand"

[data]
n = 20_190

[schema]
mdvis = {type = "count", upper = 52, label = "visits to a doctor in a year"}
lncoins = {type = "real", lower = 0, upper = 4.62, label = "ln(coinsurance + 1)"}
physlm = {type = "real", lower = 0, upper = 1, label = "physical limitation"}
disea = {type = "real", lower = 0, upper = 60, label = "chronic diseases"}
hlthp = {type = "binary", label = "poor health"}

[budget]
eps = 3
delta = 1e-6

[[release]]
name = "visits"
title = "Visits to a doctor"
verb = "ols"
formula = "log1p(mdvis) ~ lncoins + physlm + disea"
eps = 1

[[release.after]]
wald = "physlm, disea"

[[release.after]]
predictions = [{lncoins = 0, physlm = 0, disea = 10}, {lncoins = 4.62, physlm = 0, disea = 10}]

[[release]]
name = "counts"
title = "The same as a Poisson regression"
verb = "glm"
formula = "mdvis ~ lncoins + physlm + disea"
options = {family = "poison"}
eps = 1

[[release]]
name = "by_health"
title = "Visits by health"
verb = "table"
formula = "mdvis ~ hlthp"
share = 0.2

[[table]]
name = "models"
title = "Two models of visits"
fits = ["visits", "counts"]

[report]
formats = ["html", "csv", "tex"]
'''
(here / "study.toml").write_text(study)

# %% [markdown]
# `check` reads no data. It finds every fault at once, each with its line and column and with what to type. (It prints to the error
# stream; in Python the same lines are `problems`.)

# %%
print(*dp.Study.read(here / "study.toml").check().problems, sep="\n")

# %% [markdown]
# Mended, it tells the plan: what each release will cost, what they cost together, what is left, and whether the noise leaves
# anything to see ("fine", "rough" or "not determined").

# %%
(here / "study.toml").write_text(study.replace("poison", "poisson"))
code = dpmodels(["study", "check", str(here / "study.toml")])
assert code == 0

# %% [markdown]
# ## The rehearsal
#
# The whole study on rows that are made from the schema alone. Its numbers mean nothing, and every page says so; but the files have
# the names and the columns of the real ones, so that scripts which read them can be written now.

# %%
code = dpmodels(["study", "rehearse", str(here / "study.toml"), "--out", str(here / "rehearsal")])
assert code == 0

# %%
import pandas as pd

pd.read_csv(here / "rehearsal" / "tables" / "visits.csv").iloc[:, [0, 1, 2, -1]]

# %% [markdown]
# ## The custodian: one run, where the data are
#
# The custodian needs the file, the data and the ledger of the project. `run` refuses before anything is charged if the data do
# not have what the study needs; then each release is charged, made, and written before the next.

# %%
dp.datasets.rand_hie().to_csv(here / "rand.csv", index=False)  # what only the custodian has
run = ["study", "run", str(here / "study.toml"), "--data", str(here / "rand.csv")]
run += ["--ledger", str(here / "project.ledger"), "--out", str(here / "results")]
code = dpmodels(run)
assert code == 0

# %% [markdown]
# Run again - after a power cut, or by a colleague who did not know - and nothing is charged: releases are read back. (What was charged
# and not written when the machine died is said, and made again only with `--again`, for another charge.)

# %%
dpmodels(run)
print(dp.Budget.open_readonly(here / "project.ledger"))

# %% [markdown]
# ## The checker: may this folder leave?
#
# `verify` works out every hash again, composes the guarantees of the fits again, and holds both against the record and the
# ledger. The record, `record.json`, answers what a checker asks of an output: the statistic, whom it protects, against which
# neighbours, for which pair, by which mechanisms and noise, why rules about small cells do not apply, with which versions.

# %%
code = dpmodels(["study", "verify", str(here / "results"), "--ledger", str(here / "project.ledger")])
assert code == 0

# %%
import json

record = json.loads((here / "results" / "record.json").read_text())
print(record["guarantee"]["statement"])
print(record["releases"][0]["mechanisms"][0])
for rule, answer in record["releases"][0]["rules"].items():
    print(f"{rule}: {answer}")

# %% [markdown]
# A folder in which something was changed does not hold:

# %%
table = here / "results" / "tables" / "visits.csv"
kept = table.read_bytes()
table.write_bytes(kept.replace(b"release", b"edited"))
print(dp.Study.verify(here / "results").problems)
table.write_bytes(kept)

# %% [markdown]
# ## The analyst again
#
# The folder has one page to read (`report.html`: no network, no scripts), tables for the paper, and the fits themselves. They load
# with all that a fit can do: further tests, means and predictions are free.

# %%
visits = dp.load(here / "results" / "fits" / "visits.json")
print(visits.summary())

# %%
# alt: Coefficients of lncoins, physlm and disea with inner bars for the sampling error and outer bars for the total error
import matplotlib.pyplot as plt

visits.plot()
plt.show()

# %%
print(visits.contrast({"from no coinsurance to 95 percent": {"lncoins": 4.56}}))

# %% [markdown]
# The same from Python: `study = dp.Study.read("study.toml")`, `study.check()`, `study.rehearse(out)`,
# `study.run(data, ledger=, out=)`, whose result holds the fits by name, and `dp.Study.verify(out, ledger)`.

# %% [markdown]
# ## What to write
#
# A fit that was loaded says it too: the paragraph for the methods section.

# %%
import textwrap

print(textwrap.fill(visits.statement(), 100))
folder.cleanup()
