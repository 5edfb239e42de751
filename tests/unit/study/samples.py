"""A small study, and rows that it can run on."""

from __future__ import annotations

import numpy as np
import pandas as pd

STUDY = """\
[study]
title = "Wages and schooling"
who = "An institute"
why = "A paper"
[data]
n = 3_000
[budget]
eps = 6
delta = 1e-5
[schema.wage]
type = "real"
lower = 0
upper = 60
[schema.educ]
type = "real"
lower = 0
upper = 20
[schema.region]
type = "levels"
levels = ["north", "south"]
[[release]]
name = "wage"
verb = "ols"
formula = "wage ~ educ + C(region)"
eps = 2
[[release.after]]
wald = "educ"
[[release.after]]
predictions = [{educ = 10, region = "north"}, {educ = 16, region = "south"}]
[[release]]
name = "regions"
verb = "table"
formula = "wage ~ region"
eps = 1
[[release]]
name = "moments"
verb = "moments"
formula = "wage + educ"
share = 0.3
[[release]]
name = "simple"
verb = "ols"
formula = "wage ~ educ"
from = "moments"
[[table]]
name = "main"
title = "Two models"
fits = ["wage", "simple"]
[report]
formats = ["html", "csv", "tex"]
"""


def rows(n=3000):
    rng = np.random.default_rng(3)
    educ, region = rng.uniform(6, 18, n), rng.choice(["north", "south"], n)
    wage = 2 * educ + 3 * (region == "south") + rng.normal(0, 4, n)
    return pd.DataFrame({"wage": wage.clip(0, 60), "educ": educ, "region": region})
