"""The rule under a summary, checked by hand: standard error, interval and P of 300 random rows."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpmodels.records import Estimate
from dpmodels.results import inference

pytestmark = pytest.mark.usefixtures("quiet")


def inside(c, shift):
    """P(|N(shift, 1)| <= c)."""
    return norm.cdf(c - shift) - norm.cdf(-c - shift)


def by_hand(estimate, se, bias):
    """Return the ends of the interval and P by the printed rule, with bisection alone."""
    shift, low, high = bias / se, 0.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle, shift) < 0.95 else (low, middle)
    t = abs(estimate) / se
    p = norm.sf(t - shift) + norm.cdf(-t - shift)
    return estimate - low * se, estimate + low * se, p


def test_standard_error_interval_and_p_agree_in_300_rows():
    """A third of the rows without a bound, a third with a small one, a third with a large one."""
    rng = np.random.default_rng(61)
    k = 300
    sampling, privacy = 10.0 ** rng.uniform(-3, 2, (2, k))
    se = np.hypot(sampling, privacy)
    bias = se * np.where(np.arange(k) % 3 == 0, 0.0, 10.0 ** rng.uniform(-2, 1, k))
    estimate = se * rng.normal(size=k) * 10.0 ** rng.uniform(-1, 0.7, k)
    est = Estimate(
        tuple(f"x{j}" for j in range(k)), estimate, vcov_sampling=np.diag(sampling**2),
        vcov_privacy=np.diag(privacy**2), bias=bias,
    )  # fmt: skip
    assert inference.standard_errors(est) == pytest.approx(se, rel=1e-12)
    low, high = inference.conf_int(est, 0.95)
    p = inference.p_values(est)
    for j in range(k):
        bottom, top, value = by_hand(estimate[j], se[j], bias[j])
        assert low[j] == pytest.approx(bottom, rel=1e-6, abs=1e-9 * se[j])
        assert high[j] == pytest.approx(top, rel=1e-6, abs=1e-9 * se[j])
        assert p[j] == pytest.approx(value, rel=1e-6, abs=1e-14)
        if abs(value - 0.05) > 1e-9:  # the interval of level 1 - P touches 0
            assert (value < 0.05) == (bottom > 0.0 or top < 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_printed_cells_agree_with_each_other(seed, make_fit):
    """Of each row as printed: SE^2 = sampling^2 + privacy^2, and the interval, to its digits."""
    rng = np.random.default_rng(seed)
    k = 5
    sampling, privacy = 10.0 ** rng.uniform(-3, 2, (2, k))
    bias = np.hypot(sampling, privacy) * rng.uniform(0, 2, k)
    values = {
        "params": rng.normal(size=k) * 10.0 ** rng.uniform(-2, 3, k), "bias": bias,
        "vcov_sampling": np.diag(sampling**2), "vcov_privacy": np.diag(privacy**2),
    }  # fmt: skip
    table = make_fit(estimate=values).summary().table()
    at = {column.label: j for j, column in enumerate(table.columns)}
    assert "z" not in at and "total" not in at
    for row in table.rows:
        cells = {name: float(row.cells[j]) for name, j in at.items() if name and name != "P>|z|"}
        step = 10.0 ** -len(row.cells[at["Std. Error"]].partition(".")[2])
        error = math.hypot(cells["sampling"], cells["privacy"])
        assert cells["Std. Error"] == pytest.approx(error, abs=1.6 * step)
        bottom, top, _ = by_hand(cells["Estimate"], cells["Std. Error"], cells["Bias <="])
        assert cells["2.5 %"] == pytest.approx(bottom, abs=4 * step)
        assert cells["97.5 %"] == pytest.approx(top, abs=4 * step)
