"""A name that two terms make is refused before the charge; no term is lost."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import FormulaError

N = 2000
RNG = np.random.default_rng(5)
R = dp.Real(0, 1)


def _call(formula, names, budget, verb=dp.dp_ols, **schema):
    data = {name: RNG.uniform(0, 1, N) for name in ("y", "a", "b", *names)}
    data["k"] = np.array(["a", "b"])[RNG.integers(0, 2, N)]
    facts = {**dict.fromkeys(data, R), "k": dp.Levels(["a", "b"]), **schema}
    return verb(formula, data, eps=50, delta=1e-6, schema=facts, budget=budget)


@pytest.mark.parametrize(("formula", "name"), [
    ("y ~ `a:b` + a*b", "a:b"), ("y ~ . + a:b", "a:b"), ("y ~ `k[T.b]` + k", "k[T.b]"),
    ("y ~ Intercept", "Intercept"), ("y ~ `I(a ** 2)` + I(a ** 2)", "I(a ** 2)"),
    ("y ~ `I(a ** 2)` + I(a**2)", "I(a ** 2)"), ("y ~ . + I(a ** 2)", "I(a ** 2)"),
    ("y ~ `log(a + 1)` + log(a + 1)", "log(a + 1)"), ("y ~ `k[T.b]:a` + k*a", "k[T.b]:a"),
    ("y ~ `bs(a, knots=[0.5])[1]` + bs(a, knots=[0.5])", "bs(a, knots=[0.5])[1]"),
    ("y ~ `cut(a, breaks=[0, 0.5, 1])[T.(0.5, 1.0]]` + a", None),
])  # fmt: skip
def test_one_name_for_two_terms(formula, name):
    budget = dp.Budget(eps=100, delta=1e-3)
    if name is None:
        fit = _call(formula, ["cut(a, breaks=[0, 0.5, 1])[T.(0.5, 1.0]]"], budget)
        assert fit.params.index.is_unique
        return
    for verb in (dp.dp_ols, dp.dp_quantreg):
        with pytest.raises(FormulaError, match="two columns of one name"):
            _call(formula, [name], budget, verb)
    assert not len(budget.charges)


def test_levels_that_print_alike():
    with pytest.raises(FormulaError, match="two columns of one name"):
        _call("y ~ k", [], None, k=dp.Levels(["a", 1, "1"]))


@pytest.mark.parametrize("formula", ["y ~ `log(a)` + b", "y ~ `person id` + a:b", "y ~ `a + b` + a + b"])
def test_other_odd_names_stay(formula):
    names = [n for n in ("log(a)", "person id", "a + b") if f"`{n}`" in formula]
    assert _call(formula, names, None).params.index.is_unique
