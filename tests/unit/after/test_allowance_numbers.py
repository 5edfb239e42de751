"""What clipped scores may have moved, and bias-aware quantiles: against their formulas."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from dpmodels.after import inference as allowance
from dpmodels.after.inference import Allowance, Tail, critical_value, read_hypothesis

TAIL = Tail(total=0.3, error=0.1)


def moved(few=0.01, r=6):
    own = SimpleNamespace(tail=TAIL, d=np.zeros(r))
    return float(Allowance._change_by_clipping(own, np.array([few]))[0])


def test_what_is_clipped_of_people_lies_in_part_one_way():
    """``min(c + 2 few, 1)`` of the overflow and of ``min(3 few, 1)`` of its error."""
    for few in (0.0, 0.01, 0.2, 0.6):
        part = min(allowance.one_way(6) + allowance.OF_CLIPPED * few, 1.0)
        unsure = TAIL.total + min(allowance.UNSURE_OF_PEOPLE * few, 1.0) * TAIL.error
        assert moved(few) == pytest.approx(part * unsure)
    assert moved(0.2) > 1.5 * moved(0.0)


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
