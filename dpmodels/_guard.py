"""The guard of every private stage: nothing but released numbers gets out of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from dpmodels import _testing
from dpmodels.errors import DPModelsError, PrivateStageError
from dpmodels.quiet import hold_memory, quiet

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


def _interrupted(error: BaseException) -> bool:
    """Tell if this is DuckDB's word for Ctrl-C, which it takes for itself while a query runs."""
    return type(error) is RuntimeError and error.args == ("Query interrupted",)


def guarded(stage: Callable[[], T], *, charged: bool = True) -> T:
    """Run a private stage: no warning gets out, and an exception says nothing about the rows.

    ``raise ... from None`` would leave the original reachable as ``__context__``; so the except
    block is left before anything is raised. BLAS runs on one thread.

    Parameters
    ----------
    stage : callable
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
            if _interrupted(error):
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
