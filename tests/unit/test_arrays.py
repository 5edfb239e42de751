"""Roots are scipy's; what has none is refused as bad input is."""

import math

import pytest

from dpmodels.arrays import brent


def test_a_root_within_its_tolerance():
    assert abs(brent(lambda x: x**3 - 2.0, 0.0, 3.0, xtol=1e-15, rtol=1e-14) - 2 ** (1 / 3)) < 1e-13
    assert brent(lambda x: x, 0.0, 1.0) == 0.0


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: x * x + 1.0, "different signs"),
        (lambda x: math.nan if 0 < x < 1 else x - 0.5, "not a number"),
    ],
)
def test_what_has_no_root_is_a_value_error(f, words):
    with pytest.raises(ValueError, match=words):
        brent(f, 0.0, 1.0)


def test_too_few_steps_are_a_value_error():
    with pytest.raises(ValueError, match="converge"):
        brent(lambda x: math.exp(9 * x) - 2.0, -9.0, 9.0, maxiter=2)
