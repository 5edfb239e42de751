"""Tasks over worker processes of this machine: one lock of the interpreter each."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from dpmodels.errors import ClusterError
from dpmodels.sources.piece import Piece, cut, stamp
from dpmodels.sources.pieces import Task
from dpmodels.sources.source import Source, need
from dpmodels.sources.worker import received, sent, told

__all__ = ["Processes"]

#: Rows of a part, about.
_ROWS = 1 << 19
#: Seconds without an answer after which workers are given up: a part takes a few.
LIMIT = 3600.0


class Processes:
    """Tasks over processes of this machine, started at once and ended by :meth:`close`.

    Parameters
    ----------
    count : int
    limit : float
        Seconds without an answer after which the workers are given up.

    Notes
    -----
    A process is sent plans and places in files, and sends back exact sums: nothing of a row passes
    through a file or a terminal. It ends with the input that this process holds open for it.
    """

    knows_parts: ClassVar[bool] = False

    def __init__(self, count: int, limit: float = LIMIT) -> None:
        need("cloudpickle", "to send plans to processes")
        self.count, self.limit = count, limit
        self._workers = [_started() for _ in range(count)]

    def __repr__(self) -> str:
        return f"<{self.count} worker processes>"

    def pieces(self, source: Source, names: Sequence[str]) -> list[Piece]:
        """Return the parts of files; rows in the caller's memory stay there."""
        share = (source.n or _ROWS * self.count) // (2 * self.count)
        return cut(source, names, min(_ROWS, max(share, 1)), travel=True)

    def run(self, task: Task, pieces: Sequence[Piece]) -> tuple[str, Iterator[Any]]:
        """Do the tasks."""
        packed = task.packed()
        return stamp(packed), self._run(packed, pieces)

    def _run(self, packed: bytes, pieces: Sequence[Piece]) -> Iterator[Any]:
        for i, worker in enumerate(self._workers):
            if worker.poll() is not None:
                _ended(worker)
                self._workers[i] = _started()
        waiting: queue.SimpleQueue[tuple[int, Piece]] = queue.SimpleQueue()
        for numbered in enumerate(pieces):
            waiting.put(numbered)
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        ended = threading.Event()
        threads = [
            threading.Thread(target=_serve, args=(w, packed, waiting, answers, ended), daemon=True)
            for w in self._workers
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in pieces:
                try:
                    found = answers.get(timeout=self.limit)
                except queue.Empty:
                    for worker in self._workers:
                        worker.kill()  # replaced before the next pass
                    raise ClusterError(
                        f"a pass could not be finished: no worker process answered for "
                        f"{self.limit:g} s (dp.connect(processes=..., limit=seconds))"
                    ) from None
                if found is None:
                    raise ClusterError("a pass could not be finished: a worker process died")
                yield told(found)
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            _ended(worker)


def _started() -> subprocess.Popen[bytes]:
    """Start a worker: of the same interpreter, with the same modules in reach."""
    return subprocess.Popen(
        [sys.executable, "-m", "dpmodels.sources.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a traceback could show cells
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        start_new_session=True,  # an interrupt is the caller's affair
    )


def _ended(worker: subprocess.Popen[bytes]) -> None:
    """Close the input of a worker, which ends it, and wait until it has ended."""
    with contextlib.suppress(OSError):  # it has died with a message on its way
        worker.stdin.close()  # type: ignore[union-attr]
    worker.wait()
    worker.stdout.close()  # type: ignore[union-attr]


def _serve(
    worker: subprocess.Popen[bytes], packed: bytes, waiting: Any, answers: Any, ended: Any
) -> None:
    """Give a worker one task after the other; None as an answer where it died or was given up."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        sent(worker.stdin, ("plan", packed))
        while not ended.is_set():
            try:
                index, piece = waiting.get_nowait()
            except queue.Empty:
                return
            sent(worker.stdin, ("task", index, piece.opener, piece.data, piece.first))
            answers.put(received(worker.stdout))
    except Exception:  # whatever it is, who waits for the answer must be told, and no terminal
        worker.kill()  # it may be in the middle of a message
        worker.wait()  # and be replaced before the next pass
        answers.put(None)
