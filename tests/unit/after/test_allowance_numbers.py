"""What clipped scores may have moved, and bias-aware quantiles: against their formulas."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from dpmodels.after import inference as allowance
from dpmodels.after.inference import Allowance, Carried, critical_value, read_hypothesis

TAIL = SimpleNamespace(total=0.3, error=0.1, near=0.02, one_sided=0.2, unseen=0.5)


def moved(kind, few=0.01, r=6):
    own = SimpleNamespace(tail=TAIL, d=np.zeros(r), kind=kind)
    return float(Allowance._change_by_clipping(own, np.array([few]))[0])


def test_heavy_rows_are_long_by_their_weight_and_may_be_unseen():
    """Under weights the part is ``c/r + few``, of what is seen or what is not, the larger."""
    part = 1.0 / 6 + 0.01
    assert part < 1.0
    assert moved("weights") == pytest.approx(max(part * 0.5, allowance.TAIL * 0.02))
    assert moved("weights", few=2.0) == pytest.approx(0.5)  # never more than all of it
    assert moved("weights", r=12) == pytest.approx(
        max((1.0 / 12 + 0.01) * 0.5, allowance.TAIL * 0.02)
    )


def test_what_is_clipped_of_people_lies_in_part_one_way():
    """``min(c + 2 few, 1)`` of the overflow and of ``min(3 few, 1)`` of its error."""
    for few in (0.0, 0.01, 0.2, 0.6):
        part = min(allowance.one_way(6) + allowance.OF_CLIPPED * few, 1.0)
        unsure = TAIL.total + min(allowance.UNSURE_OF_PEOPLE * few, 1.0) * TAIL.error
        assert moved("people", few=few) == pytest.approx(part * unsure)
    assert moved("people", few=0.2) > 1.5 * moved("people", few=0.0)


def test_scores_are_as_long_as_a_count_of_the_group_allows():
    """The last half octave whose count with two sd of noise holds the part ``IN_ONE_BIN`` of a group."""
    counts, sd, n = np.array([50.0, 12.0, 3.0]), 2.0, 1000
    one = Carried(1.0, counts, sd, n, None)
    for share in (0.001, 0.01, 0.02, 0.05, 0.2):
        asked = allowance.IN_ONE_BIN * n * share
        top = [2.0 ** ((k + 1) / 2.0) for k, c in enumerate(counts) if c + 2.0 * sd >= asked]
        assert one.beyond(np.array([share]), np.ones(1))[0] == pytest.approx(max([1.0, *top]))
    # on the very edge it counts; just beyond it does not
    edge = (12.0 + 2.0 * sd) / (allowance.IN_ONE_BIN * n)
    found = one.beyond(np.array([edge * (1 - 1e-9), edge * (1 + 1e-9)]), np.ones(2))
    assert found == pytest.approx([2.0, 2.0**0.5])
    # an open half octave is as long as the largest residual makes it
    known = Carried(2.0, counts, sd, n, 30.0)
    assert known.beyond(np.array([0.001]), np.array([0.5])) == pytest.approx([7.5])


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
