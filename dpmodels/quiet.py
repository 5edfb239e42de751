"""Warnings told or silenced, locks that an interrupt cannot hold, and errors that tell of no row.

``warnings.catch_warnings`` saves and restores a list that all threads share: two blocks that
overlap in time can restore each other's "ignore", for good. Here the first block to open saves
the filters and the last one to close restores them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from dpmodels import _testing
from dpmodels.errors import DPModelsError, PrivateStageError

# -- Locks that a forked child finds open: the thread that held one is not in the child


_ALL: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> AbstractContextManager[Any]:
    """Return a lock for ``with``, open in a forked child unless the thread that forked holds it.

    Python's own: an interrupt cannot come between taking it and the block that gives it back. A
    class with ``__enter__`` in Python could be left locked for good.
    """
    made = threading.RLock()
    _ALL.add(made)
    return made


def _renew() -> None:
    for one in list(_ALL):
        if not one._is_owned():
            one._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


_SECRET: ContextVar[bool] = ContextVar("dpmodels_no_bars", default=False)

_LOCK = lock()
#: The filters to be restored, while any block is open.
_SAVED: list[warnings.catch_warnings] = []  # type: ignore[type-arg, unused-ignore]


class _Block:
    """A block that is open; gone with its frame, however that ends."""


_BLOCKS: weakref.WeakSet[_Block] = weakref.WeakSet()


@contextmanager
def quiet() -> Iterator[None]:
    """Let no warning out while the block runs, in this thread or another."""
    block = _Block()
    try:  # from the first step on: an interrupt may come after any
        with _LOCK:
            _restore()  # what an interrupt kept the last block from
            _BLOCKS.add(block)
            if not _SAVED:
                saved = warnings.catch_warnings()
                saved.__enter__()  # changes nothing that shows
                _SAVED.append(saved)
                warnings.simplefilter("ignore")
        yield
    finally:
        with _LOCK:
            _BLOCKS.discard(block)
            _restore()


def _restore() -> None:
    """Restore the filters if no block is open; done twice it is done once."""
    if _SAVED and not _BLOCKS:
        _SAVED[0].__exit__(None, None, None)
        _SAVED.clear()


@contextmanager
def no_bars() -> Iterator[None]:
    """Show no bar inside, whatever is asked: how often something runs there is secret."""
    token = _SECRET.set(True)
    try:
        yield
    finally:
        _SECRET.reset(token)


def bars_are_secret() -> bool:
    """Tell if a bar would show what has to stay secret."""
    return _SECRET.get()


def tell(*found: Warning) -> None:
    """Warn at the line outside this package that made the call."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dpmodels"):
        frame, level = frame.f_back, level + 1
    for warning in found:
        warnings.warn(warning, stacklevel=level)


# -- Memory that blocks used stays with the process until the next block


#: Bytes up to which freed arrays are kept; glibc learns nothing from arrays of more than 32 MiB.
_KEPT = 1 << 24
#: glibc: the names of its parameters, and what they are where nothing else is said.
_TRIM, _MMAP = -1, -3
_DEFAULT = 128 * 1024


@functools.cache
def hold_memory() -> None:
    """Have glibc keep freed arrays: it goes by the largest one that was freed before.

    That is what any program does which once frees an array of 16 MiB. Elsewhere nothing happens.
    """
    import numpy as np

    np.empty(_KEPT // 8)


@contextlib.contextmanager
def holding_memory() -> Iterator[None]:
    """Keep freed arrays for a while where glibc was told not to learn.

    Dask tells its workers to give memory back at once (``MALLOC_TRIM_THRESHOLD_``). So it is
    again afterwards.
    """
    said = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    tune = _mallopt() if said.isdigit() else None
    if tune is None:
        yield
        return
    tune(_TRIM, 2 * _KEPT)
    tune(_MMAP, _KEPT)
    try:
        yield
    finally:
        tune(_TRIM, int(said))
        tune(_MMAP, _DEFAULT)


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    """Return glibc's ``mallopt``; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    found: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    return found


# -- The guard of every private stage: nothing but released numbers gets out of it.


T = TypeVar("T")


#: Number of modules when the libraries were looked up, and what was found.
_FOUND: list[tuple[int, Any]] = []


def one_thread() -> Any:
    """Return the limit of BLAS to one thread; libraries are looked up when modules have come.

    Every stage and every estimate runs under it: a shared machine makes threaded small products
    up to 260 times slower. Looking the libraries up takes 3 ms, as long as a small fit.
    """
    from threadpoolctl import ThreadpoolController

    loaded = len(sys.modules)
    found = _FOUND[-1] if _FOUND else None
    if found is None or found[0] != loaded:
        found = (loaded, ThreadpoolController())
        _FOUND[:] = [found]
    return found[1].limit(limits=1)


def guarded(stage: Callable[[], T], *, charged: bool = True) -> T:
    """Run a private stage: no warning gets out, and an exception says nothing about the rows.

    ``raise ... from None`` would leave the original reachable as ``__context__``; so the except
    block is left before anything is raised. BLAS runs on one thread.

    Parameters
    ----------
    charged : bool
        False where rows are read before anything is charged (they are only counted): what the
        error says of the charge.
    """
    import numpy as np

    hold_memory()
    ours: DPModelsError | None = None
    interrupt: type[BaseException] | None = None
    with quiet(), np.errstate(all="ignore"), one_thread():
        try:
            return stage()
        except DPModelsError as error:
            # Our own errors are functions of public facts (a source that cannot be read twice).
            ours = type(error)(*error.args)
        except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
            interrupt = next(
                kind
                for kind in (KeyboardInterrupt, SystemExit, GeneratorExit)
                if isinstance(error, kind)
            )
        except BaseException as error:  # a panic of a library written in Rust is no Exception
            # DuckDB's word for Ctrl-C, which it takes for itself while a query runs
            if type(error) is RuntimeError and error.args == ("Query interrupted",):
                interrupt = KeyboardInterrupt
            elif _testing.RERAISE.get():
                raise
    if ours is not None:
        raise ours
    if interrupt is not None:  # a fresh one: its arguments and its traceback could hold rows
        raise interrupt()
    raise PrivateStageError(
        "the stage that reads private rows failed; its message is withheld because it could quote "
        f"them. {'The charge stands' if charged else 'Nothing was charged'}. If the data can be "
        "read elsewhere, this is a bug worth reporting"
    )
