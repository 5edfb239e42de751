"""Numbers of a row have the decimals of its own standard error."""

import math

import pytest

from dpmodels.tables.numbers import by_row, cell, number, places


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        (150420.0, 2481.0, "150420"), (0.0495, 0.0062, "0.0495"), (0.4995, 0.0011, "0.4995"),
        (233849.0, 412.0, "233849"), (0.4995, 0.00011, "0.49950"), (5.02e-6, 2.1e-8, "5.020e-06"),
        (1.5e9, 2.2e6, "1.50000e+09"), (1.000000073, 1e-7, "1.00000007"), (0.0, 3e-9, "0.000000"),
        (-0.00001, 0.0123, "0.0000"), (3.0, math.nan, "3.0000"), (math.nan, 1.0, "n/a"),
        (-math.inf, 1.0, "-inf"), (2.6130, 0.259, "2.613"), (12.0, 0.0, "12.0000"),
    ],
)  # fmt: skip
def test_a_number_shows_two_digits_of_its_error(x, error, text):
    (few,) = places([error], 4)
    assert cell(x, few, 4) == text


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("size", [1e-12, 1e-7, 1e-4, 0.03, 1.0, 70.0, 5e4, 1e8, 1e12])
def test_at_any_size_the_error_is_right_to_a_twentieth(size, digits):
    """Two digits: no rounding by more than half a unit of the second."""
    errors = [size * f for f in (1.0, 1.04, 2.37, 9.94, 9.96)]
    texts = by_row(errors, places(errors, digits), digits)
    for error, text in zip(errors, texts, strict=True):
        assert float(text) == pytest.approx(error, rel=0.05)


def test_rows_of_different_sizes_do_not_share_their_decimals():
    assert by_row([150420, 0.0495], places([2481, 0.0062], 4), 4) == ["150420", "0.0495"]
    assert number(123456.7, 4) == "123456.7" and number(1e-7, 4) == "1.00e-07"
