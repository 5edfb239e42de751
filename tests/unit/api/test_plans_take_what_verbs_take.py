"""``dp.plan`` takes the calls that the verb takes, and the ledger has the formula as it was typed."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.study.asked import Probe, Stopped

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")
N = 4_000
SCHEMA = dp.Schema(
    y=dp.Real(0, 10), x=dp.Real(0, 10), z=dp.Real(-1, 1), k=dp.Count(9), b=dp.Binary(),
    g=dp.Levels(["a", "b", "c"]), t=dp.Real(0, 5), e=dp.Binary(), o=dp.Ordered(["a", "b", "c"]), year=dp.Levels([1, 2]),
)  # fmt: skip
SURVIVAL = "Surv(t, e) ~ x"
PANEL = {"unit": "id", "rows_per_unit": 2}
CALLS = [
    ("dp_mean", "x + z", {}), ("dp_mean", "~ x + z", {}), ("dp_mean", ["x", "z"], {}),
    ("dp_mean", "x ~ 1", {"method": "clipped"}), ("dp_mean", "x", PANEL),
    ("dp_moments", "x + z", {}), ("dp_moments", ["x", "z"], {}), ("dp_moments", "y + x + C(g)", {}),
    ("dp_pca", "x + z + y", {"k": 1}), ("dp_pca", "~ x + z + y", {}),
    ("dp_quantreg", "y ~ x", {"q": 0.5}), ("dp_quantreg", "y ~ x", {"tau": [0.25, 0.5]}),
    ("dp_quantreg", "y ~ x", {}), ("dp_quantreg", "y ~ x", {"q": 0.3, "inference": False}),
    ("dp_quantile", "y", {"tau": 0.5}), ("dp_quantile", "y", {"probs": [0.5]}),
    ("dp_quantile", "~ y + x", {"quantiles": [0.1, 0.9]}), ("dp_quantile", "y ~ 1", {"q": 0.5}),
    ("dp_quantile", "y", {"probs": list(np.arange(1, 20) / 20)}),
    ("dp_quantile", "y", {"tau": 0.5, "inference": False}),
    ("dp_ols", "y ~ x + g", {}), ("dp_ols", "y ~ x", {"method": "scoring"}), ("dp_ols", "y ~ x", PANEL),
    ("dp_ols", "y ~ x", {"vcov": {"CRV1": "id"}, "psus": 50}),
    ("dp_glm", "b ~ x", {}), ("dp_glm", "k ~ x", {"family": "poisson", "offset": "z"}),
    ("dp_glm", "k ~ x", {"family": "poisson", "exposure": "t + 1"}),
    ("dp_mest", "y ~ x", {"loss": "huber"}),
    ("dp_table", "~ g", {}), ("dp_table", "~ x + b", {"by": "g"}), ("dp_table", "y ~ g", {}),
    ("dp_table", "~ x", {"by": "g", "medians": "x"}),
    ("dp_test", "y ~ b", {}), ("dp_test", "y ~ x", {"test": "paired"}), ("dp_test", "~ g * b", {}),
    ("dp_survfit", "Surv(t, e) ~ g", {}), ("dp_survdiff", "Surv(t, e) ~ g", {}),
    ("dp_coxph", SURVIVAL, {}), ("dp_coxph", SURVIVAL, {"breaks": [1, 2]}),
    ("dp_polr", "o ~ x", {}), ("dp_polr", "o ~ x", {"method": "probit"}),
    ("dp_multinom", "g ~ x", {}), ("dp_multinom", "g ~ x", {"base": "b"}),
    ("dp_feols", "y ~ x | id", PANEL), ("dp_feols", "y ~ x | id + year", PANEL),
    ("dp_feols", "y ~ x", {**PANEL, "re": "id"}), ("dp_fepois", "k ~ x | id", PANEL),
    ("dp_feols", "y ~ x", {**PANEL, "re": "id", "mundlak": False}),
    ("dp_ate", "y ~ x", {"treatment": "b"}), ("dp_ate", "y ~ x + z", {"treatment": "b", "folds": "e"}),
    ("dp_ate", "y ~ x", {"treatment": "b", "propensity": "z", "estimand": "ATT"}),
    ("dp_npreg", "y ~ x", {}), ("dp_bayes", "g ~ x + z", {}),
]  # fmt: skip


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return {
        "y": rng.uniform(0, 10, N), "x": rng.uniform(0, 10, N), "z": rng.uniform(-1, 1, N),
        "k": rng.integers(0, 9, N), "b": rng.integers(0, 2, N), "e": rng.integers(0, 2, N),
        "g": rng.choice(["a", "b", "c"], N), "t": rng.uniform(0.1, 5, N),
        "o": rng.choice(["a", "b", "c"], N), "id": np.arange(N) // 2, "year": np.arange(N) % 2 + 1,
    }  # fmt: skip


def charged(verb, formula, data, options):
    probe = Probe()
    with pytest.raises(Stopped):
        getattr(dp, verb)(
            formula, data, eps=2, delta=1e-6, schema=SCHEMA, budget=probe, **options
        )
    return probe


@pytest.mark.parametrize(("verb", "formula", "options"), CALLS)
def test_a_plan_takes_what_the_verb_takes(data, verb, formula, options):
    """``"x + z"``, ``q=``, ``tau=``, ``probs=``, ``base=``, ``mundlak=`` were refused by dp.plan."""
    probe = charged(verb, formula, data, options)
    people = N // 2 if "unit" in options else N
    planned = dp.plan(formula, SCHEMA, n=people, eps=2, delta=1e-6, verb=verb, **options)
    assert [(s.name, s.mechanism) for s in planned.guarantee.steps] == [
        (s.name, s.mechanism) for s in probe.guarantee.steps
    ]
    text = f'"{formula}"' if isinstance(formula, str) else repr(formula)
    assert probe.label.startswith(f"{verb}({text}, ")
    for name in ("offset", "exposure", "by", "unit", "re", "treatment", "folds"):
        if name in options:
            assert f'{name}="{options[name]}"' in probe.label
    assert "outcome=" not in probe.label
