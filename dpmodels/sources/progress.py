"""A progress bar over rows: public totals only, never a loss, a count or an acceptance."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Generator
from queue import SimpleQueue
from typing import Any, TypeVar

from dpmodels.quiet import bars_are_secret

#: Cells of all passes above which a bar is shown unasked (about two seconds).
LONG = 200_000_000


class _Silent:
    """No bar."""

    def update(self, rows: int) -> None:
        """Do nothing."""

    def more(self, rows: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Shown:
    """A bar of tqdm, whose total may grow."""

    def __init__(self, n: int) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = tqdm(total=n, unit=" rows", unit_scale=True, desc="reading", leave=False)

    def update(self, rows: int) -> None:
        """Move on by ``rows``."""
        self._bar.update(rows)

    def more(self, rows: int) -> None:
        """Make the total larger."""
        self._bar.total += rows
        self._bar.refresh()

    def close(self) -> None:
        """End the bar."""
        self._bar.close()


def progress_bar(asked: bool | None, n: int, columns: int) -> Any:
    """Return a bar of ``n`` rows with ``update(rows)``, ``more(rows)`` and ``close()``.

    Parameters
    ----------
    asked : bool or None
        None: only if the passes are long and the error stream is a terminal.
    n, columns : int
        Public size of all passes.
    """
    if asked is None:
        asked = n * columns > LONG and sys.stderr.isatty()
    if not asked or bars_are_secret() or importlib.util.find_spec("tqdm") is None:
        return _Silent()
    return _Shown(n)


# -- A reader thread: files are decoded while the rows before are computed with


#: Batches in memory at once: one in use, the others read or being read.
BATCHES = 3

T = TypeVar("T")
_END: Any = object()


def read_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a thread of its own, in their order.

    At most three items exist at a time if the caller lets go of each before it asks for the next.
    The thread starts with the first item and has ended when this generator has, also if it is
    closed early; the generator is closed in its own thread.

    Notes
    -----
    **Privacy.** An exception of the reader is raised here as it is, to meet the same guard as one
    without a thread; the thread itself prints nothing.
    """
    room = threading.Semaphore(BATCHES)
    ready: SimpleQueue[tuple[T, BaseException | None]] = SimpleQueue()
    stopped = threading.Event()

    def read() -> None:
        failure: BaseException | None = None
        try:
            while room.acquire() and not stopped.is_set():
                item = next(items, _END)
                if item is _END:
                    break
                ready.put((item, None))
                del item  # or it would live on while the thread waits for room
            items.close()
        except BaseException as error:  # whatever it is, it belongs to the caller
            failure = error
        ready.put((_END, failure))

    thread = threading.Thread(target=read, name="dpmodels reader", daemon=True)
    thread.start()
    try:
        while True:
            item, failure = ready.get()
            if item is _END:
                break
            yield item
            del item
            room.release()
    finally:
        stopped.set()
        room.release()
        thread.join()
    if failure is not None:
        raise failure
