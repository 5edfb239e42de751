"""A source that gives its rows once is refused before the charge wherever two passes are planned."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import SourceError
from dpmodels.registry import method_names, resolve

FORMULAS = {
    "dp_ols": "y ~ a", "dp_glm": "e ~ a", "dp_quantreg": "y ~ a", "dp_mest": "y ~ a",
    "dp_mean": "a ~ 1", "dp_bayes": "k ~ a", "dp_npreg": "y ~ a", "dp_moments": "a + b ~ 1",
    "dp_table": "a ~ k", "dp_quantile": "a ~ 1",
}  # fmt: skip
BUYING = [
    (verb, name)
    for verb in FORMULAS
    for name in method_names(verb)
    if not {"public", "ranges"} & set(resolve(verb, name).needs)
    # these buy no ranges, or need more than a formula
    and name not in ("jl", "functional", "ops", "pmt", "pmt_paper", "ptr")
]
SCHEMA = dp.Schema(
    k=dp.Levels(["u", "v"]), a=dp.Real(), b=dp.Real(), y=dp.Real(), e=dp.Binary()
)


@pytest.mark.parametrize(("verb", "method"), BUYING)
def test_ranges_are_bought_in_a_pass_of_their_own(verb, method, quiet):
    n = 300
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({c: rng.normal(size=n) for c in "aby"})
    frame["k"], frame["e"] = rng.choice(["u", "v"], n), rng.integers(0, 2, n)
    budget = dp.Budget(100.0, 0.1)
    more = {"q": [0.5]} if verb == "dp_quantile" else {}
    more |= {"k": 1.0} if verb == "dp_mest" and method != "scoring" else {}
    call = dict(schema=SCHEMA, eps=30.0, delta=1e-3, method=method, budget=budget, n=n, **more)
    first = ("huber",) if verb == "dp_mest" else ()
    with pytest.raises(SourceError, match="only"):
        getattr(dp, verb)(*first, FORMULAS[verb], iter([frame]), **call)
    assert budget.to_frame().empty
