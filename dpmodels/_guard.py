"""The guard of every private stage: nothing but released numbers gets out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpmodels import _testing
from dpmodels.errors import DPModelsError, PrivateStageError
from dpmodels.quiet import quiet

__all__ = ["guarded"]

T = TypeVar("T")


def guarded(stage: Callable[[], T], *, charged: bool = True) -> T:
    """Run a private stage: no warning gets out, and an exception says nothing about the rows.

    ``raise ... from None`` would leave the original reachable as ``__context__``; so the except
    block is left before anything is raised. BLAS runs on one thread: a shared machine makes
    threaded small products up to 260 times slower.

    Parameters
    ----------
    stage : callable
    charged : bool
        False where rows are read before anything is charged (they are only counted): what the
        error says of the charge.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    ours: DPModelsError | None = None
    interrupt: type[BaseException] | None = None
    with quiet(), np.errstate(all="ignore"), threadpool_limits(1):
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
        except BaseException:  # a panic of a library written in Rust is no Exception
            if _testing.RERAISE.get():
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
