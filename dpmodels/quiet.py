"""Blocks and locks that an interrupt cannot leave open, warnings, and the guard of private stages.

``warnings.catch_warnings`` saves and restores a list that all threads share, so it would silence
other threads, too. Here one filter is added, for good, and it ignores a warning only inside a
``quiet()`` block of the thread that warns.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dpmodels import _testing
from dpmodels.errors import DPModelsError, PrivateStageError
from dpmodels.resources import hold_memory, one_thread

# -- Locks that a forked child finds open: the thread that held one is not in the child


_ALL: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> AbstractContextManager[Any]:
    """Return a lock for ``with``, open in a forked child unless the thread that forked holds it.

    Python's own: an interrupt cannot come between taking it and the block that gives it back. A
    class with ``__enter__`` in Python could be left locked for good.
    """
    opened = threading.RLock()
    _ALL.add(opened)
    return opened


def _renew() -> None:
    for lock in list(_ALL):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


# -- Blocks that end with their `with` statement, whatever interrupts it


class _Held(functools.partial):  # type: ignore[type-arg]
    """Exit of one ``with`` statement: a call that does nothing and returns an empty string."""

    entered: dict[str, Any]  # "value": set by the enter call, not before


#: A block as it is listed: whether it lives, and its value once it was entered.
_Known = tuple[weakref.ref[_Held], dict[str, Any]]
#: Before Python 3.14 a ``with`` statement looks up ``__enter__`` first, since then ``__exit__``.
_ENTER_FIRST = sys.version_info < (3, 14)


class Scope:
    """Values of the blocks that are open, in this thread or task and in any.

    A ``with`` statement holds the object that it will call at its end, from its first step on, and
    lets go of it however it ends. So a block is open while that object lives. No code has to run to
    close it, and none that an interrupt could come into: the calls of enter and exit are of C.
    Each thread and task has its own blocks.
    """

    def __init__(self, name: str) -> None:
        self._here: ContextVar[tuple[_Known, ...]] = ContextVar(name, default=())
        self._begun: ContextVar[_Held | None] = ContextVar(f"{name}_first", default=None)
        self._all: list[_Known] = []
        self._explicit: list[_Held] = []  # of __enter__() without a with statement
        self._lock = lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._keep_here)

    def here(self) -> list[Any]:
        """Return the values of the blocks of this thread or task that are open."""
        return _values(self._here.get())

    def anywhere(self) -> list[Any]:
        """Return the values of the blocks that are open in any thread."""
        return _values(self._all)

    def _begin_block(self) -> _Held:
        """Return a block that is not open yet: the first look-up of a ``with`` statement."""
        self._note_explicit()
        held = _Held("".format)
        held.entered = {}
        self._begun.set(held)
        mine = (weakref.ref(held), held.entered)
        with self._lock:
            self._all = [*(block for block in self._all if block[0]() is not None), mine]
        alive = (block for block in self._here.get() if block[0]() is not None)
        self._here.set((*alive, mine))
        return held

    def _take_block(self, value: Any) -> _Held:
        """Return the block of the first look-up: the second of a ``with`` statement.

        There is none if somebody called ``__exit__()`` by name: that closes the last block of
        this value that was opened so.
        """
        self._note_explicit()
        held = self._begun.get()
        if held is None:
            held = self._begin_block()
            for i in reversed(range(len(self._explicit))):
                if self._explicit[i].entered["value"] is value:
                    del self._explicit[i]
                    break
        self._begun.set(None)
        return held

    def _note_explicit(self) -> None:
        """Keep a block open that was entered by ``__enter__()``, without a ``with`` statement."""
        before = self._begun.get()
        if before is not None and before.entered:
            self._explicit.append(before)
            self._begun.set(None)

    def _keep_here(self) -> None:
        """Forget, in a forked child, the blocks of threads that are not in it."""
        self._all = list(self._here.get())


# The object of a block is never bound to a name here: the traceback of an interrupt would keep it.


def _values(blocks: Iterable[_Known]) -> list[Any]:
    return [entered["value"] for ref, entered in blocks if entered and ref() is not None]


class Enter:
    """``__enter__`` of a class with ``_scope`` and ``_opened``: opens a block when called."""

    def __get__(self, block: Any, owner: Any) -> Any:
        if block is None:
            return _enter_by_class
        scope, value = block._scope, block._opened
        held = scope._begin_block() if _ENTER_FIRST else scope._take_block(value)
        return functools.partial(held.entered.setdefault, "value", value)


class Exit:
    """``__exit__`` of such a class."""

    def __get__(self, block: Any, owner: Any) -> Any:
        if block is None:
            return _exit_by_class
        scope = block._scope  # the object that a block lives by
        return scope._take_block(block._opened) if _ENTER_FIRST else scope._begin_block()


def _enter_by_class(block: Any) -> Any:
    """Enter as ``contextlib.ExitStack`` does: the block lives by a list of the object."""
    scope: Scope = block._scope
    held = scope._begin_block()
    vars(block).setdefault("_held", []).append(held)
    scope._begun.set(None)
    return held.entered.setdefault("value", block._opened)


def _exit_by_class(block: Any, *_: object) -> None:
    vars(block)["_held"].pop()


@dataclass(eq=False)
class Within:
    """Block of a scope for a value of its own."""

    _scope: Scope
    _opened: Any = True

    if TYPE_CHECKING:

        def __enter__(self) -> Any: ...

        def __exit__(self, *_: object) -> None: ...
    else:
        __enter__, __exit__ = Enter(), Exit()


# -- Warnings of one thread


_QUIET, _SECRET = Scope("dpmodels_quiet"), Scope("dpmodels_no_bars")


class _HereOnly(type):
    """Class of a category that every warning belongs to inside a quiet block, and none outside."""

    def __subclasscheck__(cls, category: type) -> bool:
        return bool(_QUIET.here())


class _WhileQuiet(Warning, metaclass=_HereOnly):
    """Category of the one filter that :func:`quiet` adds."""


def quiet() -> Within:
    """Return a block in which this thread lets no warning out, nor raises one."""
    first = warnings.filters[0] if warnings.filters else ()
    if _WhileQuiet not in first:
        warnings.simplefilter("ignore", _WhileQuiet)
    return Within(_QUIET)


def no_bars() -> Within:
    """Return a block that shows no bar: how often something runs in it is secret."""
    return Within(_SECRET)


def bars_are_secret() -> bool:
    """Return whether a progress bar would show a secret number of runs."""
    return bool(_SECRET.here())


def tell(*messages: Warning) -> None:
    """Warn at the line outside this package that made the call."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dpmodels"):
        frame, level = frame.f_back, level + 1
    for warning in messages:
        warnings.warn(warning, stacklevel=level)


# -- The guard of every private stage: nothing but released numbers gets out of it.


T = TypeVar("T")


def _interrupted_duckdb(error: BaseException) -> bool:
    """Return whether an error is DuckDB's word for Ctrl-C: in a query, or as it read a frame."""
    if type(error) is RuntimeError:
        return error.args == ("Query interrupted",)
    theirs = type(error).__module__.split(".")[0] in ("duckdb", "_duckdb")
    return theirs and str(error).rstrip(": ").endswith(": KeyboardInterrupt")


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
            if _interrupted_duckdb(error):
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
