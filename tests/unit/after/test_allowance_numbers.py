"""Bias-aware quantiles and hypotheses, against their formulas."""

import numpy as np
import pytest
from scipy.stats import norm

from dpmodels.after.inference import critical_value, read_hypothesis


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9, 0.95, 0.999])
def test_a_bias_aware_quantile_has_its_probability(level):
    """``P(|N(a, 1)| < c)`` is the level, for any a: the bisection holds the root."""
    a = np.array([0.0, 0.1, 0.7, 2.0, 6.0, 40.0])
    c = critical_value(a, level)
    assert norm.cdf(c - a) - norm.cdf(-c - a) == pytest.approx(level, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "weights", "value"),
    [
        ("2*(x - 3) = z/4 + 1", [0, 2, -0.25], 7.0), ("(x - 3)*2 - z*0.5", [0, 2, -0.5], 6.0),
        ("(x + 6)/4 = -(z - 1)*3", [0, 0.25, 3], 1.5), ("2*3*x = 5/2", [0, 6, 0], 2.5),
        ("(z + 2)/4 - (x - 1)/0.5", [0, -2, 0.25], -2.5),
    ],
)  # fmt: skip
def test_a_linear_hypothesis_is_what_is_written(text, weights, value):
    """Constants go through products and quotients with the coefficients beside them."""
    found = read_hypothesis(text, ["Intercept", "x", "z"], {})
    assert found.L.tolist() == [weights]
    assert found.q.tolist() == [value]
