"""Threads and memory of stages and passes: what decides how fast they are, and nothing else."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

# -- Memory that blocks used stays with the process until the next block


#: Bytes up to which freed arrays are kept; glibc does not adapt to arrays of more than 32 MiB.
_KEPT = 1 << 24
#: glibc: the codes of its parameters, and their default values.
_TRIM, _MMAP = -1, -3
_DEFAULT = 128 * 1024


@functools.cache
def hold_memory() -> None:
    """Make glibc keep freed arrays, by freeing one of the largest size first.

    That is what any program does which once frees an array of 16 MiB. Elsewhere nothing happens.
    """
    import numpy as np

    np.empty(_KEPT // 8)


@contextlib.contextmanager
def holding_memory() -> Iterator[None]:
    """Keep freed arrays for a while if glibc is set not to adapt.

    Dask tells its workers to give memory back at once (``MALLOC_TRIM_THRESHOLD_``). So it is
    again afterwards.
    """
    setting = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    tune = _mallopt() if setting.isdigit() else None
    if tune is None:
        yield
        return
    tune(_TRIM, 2 * _KEPT)
    tune(_MMAP, _KEPT)
    try:
        yield
    finally:
        tune(_TRIM, int(setting))
        tune(_MMAP, _DEFAULT)


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    """Return glibc's ``mallopt``; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), "mallopt", None)


# -- BLAS on one thread


#: Number of modules when the libraries were looked up, and what was found.
_FOUND: list[tuple[int, Any]] = []


def one_thread() -> Any:
    """Return the limit of BLAS to one thread; libraries are looked up when modules have come.

    Every stage and every estimate runs under it: a shared machine makes threaded small products
    up to 260 times slower. Looking the libraries up takes 3 ms, as long as a small fit.
    """
    from threadpoolctl import ThreadpoolController

    loaded = len(sys.modules)
    controller = _FOUND[-1] if _FOUND else None
    if controller is None or controller[0] != loaded:
        controller = (loaded, ThreadpoolController())
        _FOUND[:] = [controller]
    return controller[1].limit(limits=1)
