"""A reader thread: files are decoded while the rows before are computed with."""

from __future__ import annotations

import threading
from collections.abc import Generator
from queue import SimpleQueue
from typing import Any, TypeVar

from dpmodels.quiet import quiet

#: Batches in memory at once: one in use, the others read or being read.
BATCHES = 3

T = TypeVar("T")
_END: Any = object()


def read_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a separate thread, in their order.

    At most three items exist at a time if the caller lets go of each before it asks for the next.
    The thread starts with the first item and has ended when this generator has, also if it is
    closed early; the generator is closed in its own thread. An exception of the reader is raised
    here as it is, to meet the same guard as one without a thread; the thread itself prints nothing.
    """
    room = threading.Semaphore(BATCHES)
    ready: SimpleQueue[tuple[T, BaseException | None]] = SimpleQueue()
    stopped = threading.Event()

    def read() -> None:
        failure: BaseException | None = None
        try:
            with quiet():
                while room.acquire() and not stopped.is_set():
                    item = next(items, _END)
                    if item is _END:
                        break
                    ready.put((item, None))
                    del item  # or it would live on while the thread waits for room
                items.close()
        except BaseException as error:  # an exception of the caller
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
