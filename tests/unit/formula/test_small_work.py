"""Calls that are refused are refused in seconds, in little memory, with a short message."""

import time
import tracemalloc

import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError

LONG = "n" * 100_000
PAY = {"n": 1000, "eps": 1, "delta": 1e-6, "bounds": {"y": (0, 1), "x": (0, 1)}}


@pytest.mark.parametrize("text", [
    "bs(x, df=100000000)", "ns(x, df=10**9)", "ns(x, df=1000000000)", "cr(x, df=30000000)",
    "bs(x, knots=[0.5], degree=10000000)", "legendre(x, 10000000)", "poly(x, 30000000, raw=True)",
    "hashed(x, levels=100000000)", LONG, f"{LONG}(x)", f"I({LONG} + 1)", f"`{LONG}`",
])  # fmt: skip
def test_sizes_are_checked_before_the_work(text):
    tracemalloc.start()
    began = time.perf_counter()
    with pytest.raises(DPModelsError) as said:
        dp.plan(f"y ~ {text}", **PAY)
    assert time.perf_counter() - began < 10.0
    assert tracemalloc.get_traced_memory()[1] < 5e7
    tracemalloc.stop()
    assert len(str(said.value)) < 1500


@pytest.mark.parametrize("more", [{"subset": f"{LONG} > 1"}, {"verb": LONG}, {"method": LONG},
                                  {LONG: 1}, {"bounds": {LONG: (0, 1)}}])  # fmt: skip
def test_long_words_elsewhere(more):
    began = time.perf_counter()
    with pytest.raises(DPModelsError) as said:
        dp.plan("y ~ x", **{**PAY, **more})
    assert time.perf_counter() - began < 10.0
    assert len(str(said.value)) < 1500


def test_a_hundred_thousand_levels():
    began = time.perf_counter()
    for kind in (dp.Levels, dp.Ordered):
        assert len(kind([f"level {i}" for i in range(100_000)]).levels) == 100_000
    assert time.perf_counter() - began < 6.0
    with pytest.raises(DPModelsError, match="at places 1 and 3"):
        dp.Levels([1, 2, True])
