"""The error of no moment method rises with eps: 12 eps, 50 replications, medians."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import error_against_eps as bench

pytestmark = pytest.mark.statistical


def test_the_rule_keeps_its_level():
    """Exact: 66 pairs, 8 methods and 2 designs raise a false alarm in less than 1 of 1000 runs."""
    least = bench.least_count(bench.REPS)
    tail = sum(math.comb(bench.REPS, k) for k in range(least, bench.REPS + 1)) / 2**bench.REPS
    pairs = math.comb(len(bench.EPS), 2)
    assert tail * pairs * len(bench.METHODS) * len(bench.DESIGNS) < 1e-3
    assert least == 42


def test_the_rule_finds_a_rise_and_no_fall():
    """Log-normal errors, sd .3, seed 0: flat and falling pass, a rise by 1.8 at one eps fails."""
    noise = np.exp(0.3 * np.random.default_rng(0).normal(size=(12, 50)))
    falling = noise * np.geomspace(1.0, 0.1, 12)[:, None]
    assert bench.rises(noise) == []
    assert bench.rises(falling) == []
    up = noise.copy()
    up[7:] *= 1.8
    found = bench.rises(up)
    assert found and all(i < 7 <= j for i, j, _, _ in found)
    dip = falling.copy()
    dip[4] *= 0.2  # good luck at one eps is a rise at the next: it must not hide in the trend
    assert {i for i, *_ in bench.rises(dip)} == {4}


@pytest.mark.slow
@pytest.mark.parametrize("design", bench.DESIGNS)
@pytest.mark.parametrize("method", bench.METHODS)
def test_error_does_not_rise_with_eps(quiet, design, method):
    """Seeds 31 and 32 for data, 1000 r + i for noise; false alarm of all cells below 7e-4.

    Rule: for no pair of eps is the median error larger at the larger eps together with the error
    in at least 42 of the 50 replications. A lasting rise of the median by 2.5 would be found in
    each cell (by 1.2 to 1.7 in most).
    """
    folder = Path(os.environ.get("DPMODELS_DATA", "."))
    if design == "wine" and not (folder / "winequality.csv.gz").exists():
        pytest.skip("the wine data are not on this machine")
    table = bench.errors(design, (method,))[method]
    assert np.isfinite(table).all()
    assert bench.rises(table) == []
    assert bench.rises(bench.lifted(table, 8, 2.5)), "the rule could not have failed here"
