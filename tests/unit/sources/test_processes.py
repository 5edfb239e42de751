"""Worker processes of this machine: the same integers, an end without a trace, deaths that are told."""

import dataclasses
import io
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.sources.piece import CONNECTED
from dpmodels.sources.worker import received, sent

pytest.importorskip("pyarrow")
pytest.importorskip("cloudpickle")

BOUNDS = {"x": (-3, 3), "y": (-6, 6)}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40_011)
    frame = pd.DataFrame({"x": x, "y": 0.5 * x + rng.normal(size=len(x))})
    path = tmp_path_factory.mktemp("rows") / "t.parquet"
    frame.to_parquet(path, row_group_size=9_000)
    return path


@pytest.fixture(scope="module")
def connection():
    """Two processes, which take a second to start, for the tests of this file."""
    found = dp.connect(processes=2)
    crew = found._crew
    CONNECTED.remove(crew)
    yield crew
    crew.close()
    assert all(worker.poll() is not None for worker in crew._workers)


@pytest.fixture
def crew(connection):
    CONNECTED.append(connection)
    yield connection
    CONNECTED.remove(connection)


def fit(data, **more):
    return dp.dp_ols("y ~ x", data, bounds=BOUNDS, eps=0.2, delta=1e-6, seed=1, **more)


def test_the_fit_is_that_of_one_process(file, crew, quiet):
    CONNECTED.remove(crew)
    alone = fit(file).params.to_numpy()
    CONNECTED.append(crew)
    assert len(crew.pieces(dp.sources.adapt.as_source(file), ["x"])) > 2
    for _ in range(2):
        assert (fit(file).params.to_numpy() == alone).all()
    # rows in memory stay there
    assert (fit(pd.read_parquet(file)).params.to_numpy() == alone).all()


def test_a_process_that_dies_ends_the_call_and_is_replaced(file, crew, quiet):
    before = fit(file).params.to_numpy()
    own = crew._workers[0]
    # it takes the plan, and ends in the middle of a task
    dying = "import sys; n = int.from_bytes(sys.stdin.buffer.read(8), 'big'); sys.stdin.buffer.read(n)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    crew._workers[0] = victim = subprocess.Popen([sys.executable, "-c", dying], **pipes)
    with pytest.raises(dp.errors.ClusterError, match="a worker process died"):
        fit(file)
    assert victim.wait() == 0
    assert (fit(file).params.to_numpy() == before).all()
    crew._workers[0].kill()  # between two passes: nobody notices
    crew._workers[0].wait()
    assert (fit(file).params.to_numpy() == before).all()
    own.kill()
    own.communicate()


def test_a_process_that_hangs_is_given_up(file, crew, quiet, monkeypatch):
    """Nobody had waited for less than for ever."""
    before = fit(file).params.to_numpy()
    hanging = "import sys, time; sys.stdin.buffer.read(8); time.sleep(600)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    own, crew.limit = list(crew._workers), 1.0
    crew._workers[:] = [subprocess.Popen([sys.executable, "-c", hanging], **pipes) for _ in own]
    with pytest.raises(dp.errors.ClusterError, match=r"no worker process answered for 1 s"):
        fit(file)
    crew.limit = 60.0
    assert (fit(file).params.to_numpy() == before).all()
    for worker in own:
        worker.kill()
        worker.communicate()
    with pytest.raises(dp.errors.RequestError, match="limit= is a number of seconds"):
        dp.connect(threads=2, limit=3)


def test_a_task_that_cannot_be_sent_ends_the_call(file, crew, quiet, monkeypatch, capfd):
    """Nobody waits for its answer for ever, and nothing is printed."""
    source = type(dp.sources.adapt.as_source(file))
    real = source.pieces

    def unsent(self, names, rows):
        return [dataclasses.replace(p, opener=lambda data: data) for p in real(self, names, rows)]

    monkeypatch.setattr(source, "pieces", unsent)
    with pytest.raises(dp.errors.ClusterError, match="a worker process died"):
        fit(file)
    monkeypatch.undo()
    assert np.isfinite(fit(file).params).all()
    assert capfd.readouterr().err == ""


def test_what_a_task_raises_is_withheld(file, crew, quiet, tmp_path):
    broken = tmp_path / "u.parquet"
    pd.DataFrame({"x": ["secret"] * 40_000, "y": 1.0}).to_parquet(broken, row_group_size=9_000)
    with pytest.raises(dp.errors.DPModelsError) as caught:
        dp.dp_ols("y ~ log(x)", broken, bounds=BOUNDS, eps=1, delta=1e-6, seed=1)
    assert "secret" not in str(caught.value)


def test_messages_are_whole_or_the_end():
    stream = io.BytesIO()
    sent(stream, {"a": 1})
    sent(stream, None)
    stream.seek(0)
    assert received(stream) == {"a": 1} and received(stream) is None
    with pytest.raises(EOFError):
        received(stream)
    with pytest.raises(EOFError):
        received(io.BytesIO(len(pickle.dumps(1)).to_bytes(8, "big") + b"x"))


@pytest.mark.parametrize("count", [0, 1.5, True, "2"])
def test_a_number_of_processes(count):
    with pytest.raises(dp.errors.RequestError, match="processes= is a number of processes"):
        dp.connect(processes=count)


def test_one_way_of_reading():
    with pytest.raises(dp.errors.RequestError, match="give one of them"):
        dp.connect(threads=2, processes=2)


def test_what_is_needed_is_said_before_a_process_starts(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda m: None if m == "cloudpickle" else real(m))
    with pytest.raises(dp.errors.SourceError, match="pip install cloudpickle"):
        dp.connect(processes=1)
