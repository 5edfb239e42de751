"""Freed arrays of a block are kept: glibc gives them back otherwise, for every block."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dpmodels import resources as allocator

_CHURN = """
import resource
import numpy as np
from dpmodels.resources import hold_memory, holding_memory

def faults(blocks=200):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(blocks):
        a = np.ones(1 << 17)
        b = np.ones(1 << 17)
        del a, b
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(2)
{before}
print(faults())
"""


def _faults(before, **environment):
    pytest.importorskip("resource")
    code = _CHURN.format(before=before)
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, **environment},
    )  # fmt: skip
    return int(out.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_blocks_do_not_fault_their_pages_again():
    pages = 200 * 2 * (8 << 17) // 4096
    told = {"MALLOC_TRIM_THRESHOLD_": "65536"}
    if allocator._mallopt() is None or _faults("", **told) < pages / 2:
        pytest.skip("this allocator keeps freed arrays by itself")
    assert _faults("hold_memory()") < pages / 20
    # a Dask worker is told to give memory back, from which glibc learns nothing
    assert _faults("hold_memory()", **told) > pages / 2
    assert _faults("c = holding_memory(); c.__enter__()", **told) < pages / 20
    assert _faults("with holding_memory(): pass", **told) > pages / 2


def test_where_nothing_was_said_nothing_is_set(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setattr(allocator, "_mallopt", lambda: pytest.fail("not asked for"))
    with allocator.holding_memory():
        pass
