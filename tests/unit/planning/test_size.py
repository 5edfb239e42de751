"""Designs of many columns: what they take is said, and refused where memory does not hold it."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels import planning as size
from dpmodels.errors import FormulaError, RequestError, UtilityWarning


def schema(levels):
    return dp.Schema(
        y=dp.Real(-3, 3), x=dp.Real(-1, 1), g=dp.Levels([str(i) for i in range(levels)])
    )



def test_estimates_are_those_that_were_measured():
    """dp_ols of one factor, one core: seconds and bytes within a factor of two."""
    measured = [
        (400, 100_000, 6.2, 263), (800, 2000, 6.3, 630), (800, 20_000, 9.5, 631),
        (800, 100_000, 24.6, 628), (1600, 4000, 38.6, 1679),
    ]  # fmt: skip
    for p, n, seconds, mega in measured:
        found = size.size_of(p, n)
        assert 0.5 < found.seconds / seconds < 2.0 and 0.5 < found.bytes / 2**20 / mega < 2.0


def test_a_factor_of_thousands_of_levels_is_refused_before_the_charge(monkeypatch):
    """It never ended: 4711 levels."""
    pages = {"SC_PAGE_SIZE": 1 << 12, "SC_PHYS_PAGES": 1 << 21}  # 8 GB
    monkeypatch.setattr(size.os, "sysconf", lambda name, of=size.os.sysconf: pages.get(name) or of(name))
    budget = dp.Budget(eps=2, delta=1e-5)
    table = {"y": np.zeros(30), "x": np.zeros(30), "g": np.array(["1"] * 30)}
    for verb, formula in [(dp.dp_ols, "y ~ x + g"), (dp.dp_moments, "y + x + g")]:
        with pytest.raises(RequestError, match="'g' has 4,711 levels") as caught:
            verb(formula, table, eps=1, delta=1e-6, schema=schema(4711), budget=budget)
        text = str(caught.value)
        assert "nothing was read or charged" in text and "unit=" in text and "minutes" in text
    assert not budget.charges
    with pytest.raises(RequestError, match="4,711"):
        dp.plan("y ~ x + g", schema(4711), n=10_000, eps=1, delta=1e-6)


def test_a_long_fit_is_announced():
    plan = dp.plan("y ~ x + g", schema(1200), n=20_000, eps=1, delta=1e-6)
    (said,) = [a for a in plan.advice if "1,201 coefficients" in a]
    assert "about 2" in said and "GB of memory" in said
    quick = dp.plan("y ~ x + g", schema(100), n=20_000, eps=1, delta=1e-6)
    assert not any("GB of memory" in a for a in quick.advice)
    assert str(size.Size(9, 6000.0, 3e12)) == "about 2 hours and 2,794 GB of memory"
    assert str(size.Size(9, 600.0, 3e9)) == "about 10 minutes and 2.8 GB of memory"


def test_the_estimate_is_a_warning_of_the_call(monkeypatch):
    monkeypatch.setattr(size, "SLOW", 0.0)
    rng = np.random.default_rng(0)
    data = {"y": rng.uniform(-1, 1, 500), "x": rng.uniform(-1, 1, 500)}
    with pytest.warns(UtilityWarning, match="2 coefficients need about 0 s"):
        dp.dp_ols("y ~ x", data, eps=5, delta=1e-6, bounds={"y": (-1, 1), "x": (-1, 1)})


def test_fixed_effects_of_people_are_not_answered_by_a_factor():
    with pytest.raises(FormulaError, match="unit='id'"):
        dp.plan("y ~ x | g", schema(3), n=100, eps=1, delta=1e-6)


def test_forecasts_from_ranges_say_how_far_they_were_off():
    """Of errors of real tables they were .1 to 9 times, unsaid."""
    bounds = {"y": (0, 1), "x": (-1, 1)}
    call = {"n": 5000, "eps": 1, "delta": 1e-6}
    for verb in ("dp_ols", "dp_glm"):
        plan = dp.plan("y ~ x", dp.Schema(y=dp.Binary(), x=dp.Real(-1, 1)), verb=verb, **call)
        assert "A rough guide" in " ".join(str(plan.table()).split())
    assert "rough guide" not in str(dp.plan("x ~ 1", bounds, verb="dp_mean", **call).table())
