"""The reader thread: order, errors, early ends, and how many batches there are at once."""

import gc
import threading
import time
import weakref
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import PrivateStageError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.sources.ahead import BATCHES, read_ahead
from dpmodels.sources.lines import parts_of_file
from dpmodels.sources.rows import Rows
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Real

NAME = "dpmodels reader"


def readers():
    return [t for t in threading.enumerate() if t.name == NAME]


class Batch:
    """Something that can be counted while it lives."""

    alive = weakref.WeakSet()

    def __init__(self, number):
        self.number = number
        self.alive.add(self)


def test_order_is_kept_and_the_work_is_done_elsewhere():
    threads = set()

    def items():
        for k in range(500):
            threads.add(threading.current_thread().name)
            yield k

    assert list(read_ahead(items())) == list(range(500))
    assert threads == {NAME}
    assert not readers()
    assert list(read_ahead(k for k in ())) == []


def test_never_more_than_three_batches_in_memory():
    most = [0]

    def items():
        for k in range(60):
            most[0] = max(most[0], len(Batch.alive) + 1)
            yield Batch(k)

    got = []
    for item in read_ahead(items()):
        if item.number % 20 == 0:
            for _ in range(1000):  # the reader runs ahead as far as it may
                if len(Batch.alive) == BATCHES:
                    break
                time.sleep(0.01)
            assert len(Batch.alive) == BATCHES
        got.append(item.number)
        del item
    assert got == list(range(60))
    assert most[0] == BATCHES
    assert len(Batch.alive) == 0


def test_rows_let_go_of_a_batch_before_they_ask_for_the_next():
    """Else the reader's count of batches would be one short of the truth."""
    design = build_design("y ~ x", Schema(x=Real(-1, 1), y=Real(-1, 1)))
    last = []

    class Source:
        rescannable = True

        def chunks(self, names):
            for _ in range(5):
                chunk = {c: np.zeros(20_000) for c in names}
                last.append(weakref.ref(chunk["x"]))
                yield chunk
                del chunk
                gc.collect()
                assert last[-1]() is None

    assert sum(b.shape[1] for b in Rows(Source(), 100_000).blocks(design)) == 100_000
    assert len(last) == 5


def test_an_error_comes_after_the_items_before_it_and_ends_the_thread():
    def items():
        yield 1
        yield 2
        raise KeyError("zq-sentinel")

    got = []
    with pytest.raises(KeyError, match="zq-sentinel"):
        for k in read_ahead(items()):
            got.append(k)
    assert got == [1, 2]
    assert not readers()


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_stopping_early_closes_the_file_and_ends_the_thread(taken):
    closed = []

    def items():
        try:
            yield from range(10**9)
        finally:
            closed.append(threading.current_thread().name)

    reading = read_ahead(items())
    for _ in range(taken):
        next(reading)
    assert len(readers()) == (taken > 0)
    reading.close()
    assert not readers()
    assert closed == ([NAME] if taken else [])


def test_a_reader_that_fails_says_nothing_of_the_rows(tmp_path, capfd, monkeypatch):
    """The text of a cell may be in the library's message: it meets the guard of every stage.

    (An odd line no longer makes the reader fail, so it is made to.)
    """
    n = 70_000
    cells = np.full(n, "0.5", dtype=object)
    path = tmp_path / "t.csv"
    pd.DataFrame({"x": cells, "y": cells}).to_csv(path, index=False)

    def broken(*args):
        yield from islice(parts_of_file(*args), 1)
        raise ValueError("zq-sentinel,1,2,3")

    monkeypatch.setattr("dpmodels.sources.files.parts_of_file", broken)
    with pytest.raises(PrivateStageError) as caught:
        dp.dp_ols("y ~ x", path, n=n, eps=1, delta=1e-6, bounds={"x": (0, 1), "y": (0, 1)})
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    out, err = capfd.readouterr()
    assert "zq-sentinel" not in str(caught.value) + out + err
    assert not readers()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_are_read_ahead(tmp_path, kind):
    data = pd.DataFrame({"x": np.arange(200_000.0)})
    path = tmp_path / f"t.{kind}"
    data.to_parquet(path) if kind == "parquet" else data.to_csv(path, index=False)
    chunks = as_source(path).chunks(["x"])
    got = [np.asarray(next(chunks)["x"])]
    assert len(readers()) == 1
    got += [np.asarray(c["x"]) for c in chunks]
    assert not readers()
    assert np.array_equal(np.concatenate(got).astype(float), data["x"])  # CSV cells are text
