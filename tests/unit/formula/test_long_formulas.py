"""A thousand terms in every verb; what is still too long is refused in a short message."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError
from dpmodels.formula import parser, words

MANY = [f"x{i}" for i in range(1000)]
SUM = " + ".join(MANY)
BOUNDS = {"y": (0, 1), **dict.fromkeys(MANY, (0, 1))}
SCHEMA = {"y": dp.Real(0, 1), "t": dp.Real(0, 9), "e": dp.Binary(), "g": dp.Levels(["a", "b"]),
          "o": dp.Levels(["lo", "mid", "hi"]), **dict.fromkeys(MANY, dp.Real(0, 1))}  # fmt: skip
PAY = {"n": 10**7, "eps": 10, "delta": 1e-9, "schema": SCHEMA}


@pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")
@pytest.mark.parametrize(("formula", "verb", "more"), [
    (f"y ~ {SUM}", "dp_ols", {}), (f"y ~ {SUM}", "dp_ols", {"engine": "patsy"}),
    (f"e ~ {SUM}", "dp_glm", {}), (f"y ~ {SUM}", "dp_quantreg", {}),
    (f"{SUM} ~ 1", "dp_mean", {}), (f"y ~ g*({' + '.join(MANY[:500])})", "dp_ols", {}),
])  # fmt: skip
def test_a_thousand_terms(formula, verb, more):
    plan = dp.plan(formula, verb=verb, **PAY, **more)
    assert len(plan.design.names) >= 1000


def test_a_thousand_tests_are_evaluated():
    rng = np.random.default_rng(1)
    data = {"y": rng.uniform(size=400), **{c: rng.uniform(size=400) for c in MANY}}
    how = " and ".join(f"{c} > 0.0001" for c in MANY)
    assert dp.dp_mean("y ~ 1", data, eps=50, delta=1e-6, bounds=BOUNDS, subset=how).released
    short = " & ".join(f"({c} > 0.0001)" for c in MANY[:200])
    assert dp.dp_mean("y ~ 1", data, eps=50, delta=1e-6, bounds=BOUNDS, subset=short).released


def test_sums_in_brackets_of_arithmetic():
    rng = np.random.default_rng(1)
    data = {"y": rng.uniform(size=400), **{c: rng.uniform(size=400) for c in MANY}}
    pay = {"eps": 50, "delta": 1e-6, "bounds": BOUNDS}
    assert dp.dp_mean("I(" + "+".join(MANY[:240]) + ") ~ 1", data, **pay).released
    budget = dp.Budget(eps=100, delta=1e-3)
    for text in ("+".join(MANY), "-" * 2000 + "x1", "(" * 3000 + "x1" + ")" * 3000):
        for call in (
            lambda text=text: dp.dp_mean(f"I({text}) ~ 1", data, budget=budget, **pay),
            lambda text=text: dp.dp_mean("y ~ 1", data, subset=f"{text} > 1", budget=budget, **pay),
        ):
            with pytest.raises(DPModelsError) as said:
                call()
            assert len(str(said.value)) < 1000
    assert not len(budget.charges)


def test_the_same_terms_in_the_same_order(monkeypatch):
    """Random sums, bracketed and not, have the same terms."""
    rng = np.random.default_rng(3)
    for size in (5, 20, 70, 130):
        for _ in range(8):
            made = [
                str(rng.choice([f"x{i % 40}", f"x{i}:x{i + 1}", f"I(x{i}+1)", f"(x{i}+x{i + 2})",
                                f"x{i}*x{i + 1}", "0", "1", f"`a + {i}`"],
                               p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.1]))
                for i in range(size)
            ]  # fmt: skip
            signs = rng.choice(list("++++-"), size - 1)
            rest = "".join(f" {s} {term}" for s, term in zip(signs, made[1:], strict=True))
            found = []
            for limit in (10**9, 4):
                monkeypatch.setattr(words, "_SHORT_SUM", limit)
                parser._parsed.cache_clear()
                found.append(parser.parse(f"y ~ {made[0]}{rest}", None))
            assert found[0] == found[1]
    parser._parsed.cache_clear()
