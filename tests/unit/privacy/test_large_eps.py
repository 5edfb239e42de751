"""Every method has a plan at large eps, or refuses it with the largest eps that it can take."""

import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import PrivacyBugError, RequestError
from dpmodels.privacy.mechanisms import check_failure, failure_part, gaussian_replace
from dpmodels.registry import method_names

SCHEMA = dp.Schema(
    x=dp.Real(-1, 1), z=dp.Real(-1, 1), y=dp.Real(-2, 2), b=dp.Binary(), t=dp.Real(0, 10),
    g=dp.Levels(["a", "b", "c"]), k=dp.Ordered(["low", "mid", "high"]),
)  # fmt: skip
FORMULAS = {
    "dp_ols": "y ~ x + z", "dp_glm": "b ~ x + z", "dp_quantreg": "y ~ x + z",
    "dp_mean": "x + y ~ 1", "dp_quantile": "y ~ 1", "dp_bayes": "g ~ x + z", "dp_npreg": "y ~ x",
    "dp_pca": "x + z + y ~ 1", "dp_table": "~ g + b", "dp_test": "~ g * b",
    "dp_survfit": "Surv(t, b) ~ 1", "dp_coxph": "Surv(t, b) ~ x", "dp_polr": "k ~ x + z",
    "dp_multinom": "g ~ x + z", "dp_moments": "y + x + z ~ 1",
}  # fmt: skip
PUBLIC = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (200, 3)), columns=["x", "z", "y"])
#: Methods that need an argument of their own: not planned here.
OTHER = {("dp_mean", "ptr"), ("dp_test", "subsample")}


def _plan(verb, method, relation, eps, delta=1e-6):
    return dp.plan(
        FORMULAS[verb], SCHEMA, n=3000, eps=eps, delta=delta, verb=verb, method=method,
        relation=relation, public=PUBLIC if method.startswith("pmt") else None,
    )  # fmt: skip


@pytest.mark.parametrize("verb", FORMULAS)
def test_plans_at_large_eps(verb):
    """From eps 80 on, plans of gptr and adaops composed to more than delta; objpert's, from 150."""
    made = 0
    for method in method_names(verb):
        if (verb, method) in OTHER:
            continue
        for relation in ("replace", "add-remove"):
            for eps in (80.0, 300.0, 2000.0, 1e5):
                try:
                    plan = _plan(verb, method, relation, eps)
                except RequestError:
                    continue
                assert plan.guarantee.eps <= eps and plan.guarantee.delta <= 1e-6
                made += 1
    assert made >= 3


@pytest.mark.parametrize(
    ("verb", "method"), [("dp_ols", "gptr"), ("dp_ols", "adaops"), ("dp_glm", "gptr"), ("dp_pca", "gptr")]
)  # fmt: skip
def test_the_largest_eps_that_is_named_can_be_typed(verb, method):
    with pytest.raises(RequestError, match="at most eps=") as refused:
        _plan(verb, method, "replace", 1e6)
    most = float(re.search(r"at most eps=(\S+)", str(refused.value)).group(1))
    assert most > 1000 and _plan(verb, method, "replace", most).guarantee.eps <= most


def test_failures_cost_no_more_than_their_total():
    for mu in (0.1, 3.0, 8.0, 15.0, 30.0):
        for total in (1e-4, 1e-9):
            for parts in (1, 3):
                x = failure_part(mu, total, "replace", parts)
                assert 0 < gaussian_replace(mu, parts * x)[1] <= total
                check_failure(mu, parts * x, total, replaced=True)


@pytest.mark.parametrize(("failure", "replaced"), [(2e-7, False), (1e-7, True)])
def test_a_release_that_fails_more_often_than_it_was_charged_for_is_refused(failure, replaced):
    check_failure(1.0, 1e-7, 1e-7, replaced=False)
    with pytest.raises(PrivacyBugError, match="was charged"):
        check_failure(1.0, failure, 1e-7, replaced=replaced)
