"""A Dask cluster of two workers: the same integers, also when workers die; one charge when all do.

Slow: a cluster takes seconds to start. Nothing here is statistical: noise is seeded, sums exact.
"""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.models import newton
from dpmodels.places import WINDOW
from dpmodels.sources import executors as crew_module
from dpmodels.sources.executors import Cluster
from dpmodels.sources.parts import CONNECTED

distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # sockets and loops of the cluster, closed late
]

N = 120_011
BOUNDS = {"x": (-3, 3), "z": (-1, 1), "y": (-6, 6)}
CALL = dict(eps=0.02, delta=1e-7, bounds=BOUNDS, seed=1)
MORE = {**CALL, "eps": 2.0}
FITS = {
    "dp_ols": lambda d, **k: dp.dp_ols("y ~ x + z", d, **CALL, **k),
    "dp_glm": lambda d, **k: dp.dp_glm(
        "b ~ x + z", d, family="binomial", event=1, **CALL, **k
    ),
    "dp_quantreg": lambda d, **k: dp.dp_quantreg("y ~ x + z", d, tau=0.4, **CALL, **k),
    "dp_table": lambda d, **k: dp.dp_table("y + x", d, **CALL, **k),
    "dp_npreg": lambda d, **k: dp.dp_npreg("y ~ x", d, **MORE, **k),
    "dp_npreg, direct": lambda d, **k: dp.dp_npreg(
        "y ~ x + z + b", d, at={"x": [-1, 0.5], "z": [0, 0.1], "b": [0, 1]},
        **{**MORE, "bounds": {**BOUNDS, "b": (0, 1)}}, **k,
    ),
    "dp_pca": lambda d, **k: dp.dp_pca("x + z + y ~ 1", d, **MORE, **k),
    "dpgd": lambda d, **k: dp.dp_ols("y ~ x", d, method="dpgd", iterations=3, **MORE, **k),
    "bought ranges": lambda d, **k: dp.dp_npreg(
        "y ~ x", d, **{**MORE, "bounds": None}, **k
    ),
    "dp_glm, objpert": lambda d, **k: dp.dp_glm(
        "b ~ x + z", d, family="binomial", event=1, method="objpert", **MORE, **k
    ),
}  # fmt: skip
#: Passes that workers do, at least; of the others three.
PASSES = {"dp_table": 1, "dp_npreg": 1, "dp_npreg, direct": 1, "dp_pca": 2, "bought ranges": 2,
          "dp_glm, objpert": 2}  # fmt: skip


def make():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=N), "z": rng.uniform(-1, 1, N)})
    frame["y"] = frame["x"] - frame["z"] + rng.normal(size=N)
    frame["b"] = (rng.random(N) < 1 / (1 + np.exp(-frame["x"]))).astype(float)
    frame.loc[::97, "x"] = np.nan
    return frame


@pytest.fixture(scope="module")
def client():
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def frame():
    return make()


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    pytest.importorskip("pyarrow")
    where = tmp_path_factory.mktemp("rows") / "rows.parquet"
    frame.to_parquet(where, row_group_size=9_001, index=False)
    return where


def connected(client, fit):
    executor = Cluster(client, WINDOW)
    CONNECTED.append(executor)
    try:
        return fit()
    finally:
        CONNECTED.remove(executor)


def kill_one(client, first):
    """Kill a worker, once two run.

    A nanny may give up with its worker, and a cluster without any waits for some: it is filled up.
    """
    running, end = distributed.Status.running, time.monotonic() + 60.0
    while True:
        client.cluster.scale(2)
        workers = list(client.cluster.workers.values())
        up = [w for w in workers if w.status == running and w.process and w.process.pid]
        if len(up) == 2 and len(client.scheduler_info()["workers"]) == 2:
            break
        assert time.monotonic() < end, "two workers do not come up"
        time.sleep(0.05)
    os.kill(up[first].process.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", FITS)
def test_row_groups_and_partitions_give_the_integers_of_one_process(
    name, client, frame, path, quiet
):
    plain = FITS[name](frame).params.to_numpy()
    groups = connected(client, lambda: FITS[name](path))
    assert np.isfinite(plain).any()
    np.testing.assert_array_equal(groups.params.to_numpy(), plain)
    parts = dd.from_pandas(frame, npartitions=5)
    for table in (parts, parts.persist()):
        fit = FITS[name](table)
        assert fit.nobs == N
        np.testing.assert_array_equal(fit.params.to_numpy(), plain)


@pytest.mark.parametrize("name", FITS)
def test_a_worker_killed_in_each_pass_changes_nothing(
    name, client, frame, path, quiet, monkeypatch
):
    rng = np.random.default_rng(5)
    run, passes = Cluster.run, []

    def deadly(self, packed, pieces):
        at = int(rng.integers(0, len(pieces) // 2))
        passes.append(at)
        for i, part in enumerate(run(self, packed, pieces)):
            if i == at:
                kill_one(client, int(rng.integers(0, 2)))
            yield part

    plain = FITS[name](frame).params.to_numpy()
    monkeypatch.setattr(Cluster, "run", deadly)
    fit = connected(client, lambda: FITS[name](path))
    assert len(passes) >= PASSES.get(name, 3)
    np.testing.assert_array_equal(fit.params.to_numpy(), plain)


def test_steps_of_an_optimiser_that_keeps_no_rows(client, frame, path, quiet, monkeypatch):
    """Twelve passes, some of them after a worker was killed."""
    monkeypatch.setattr(newton, "KEEP", 1 << 20)
    plain = FITS["dp_glm, objpert"](frame).params.to_numpy()
    run, passes = Cluster.run, []

    def deadly(self, packed, pieces):
        passes.append(1)
        for i, part in enumerate(run(self, packed, pieces)):
            if i == 1 and len(passes) in (2, 5):
                kill_one(client, 0)
            yield part

    monkeypatch.setattr(Cluster, "run", deadly)
    fit = connected(client, lambda: FITS["dp_glm, objpert"](path))
    assert len(passes) >= newton.PASSES
    np.testing.assert_array_equal(fit.params.to_numpy(), plain)


def test_coins_of_a_task_that_is_done_again(client, frame, path, quiet, monkeypatch):
    """A large eps: rows are read by coins; the reference does the same tasks in this process."""
    call = {**CALL, "eps": 20.0}
    reference = crew_module.Threads(2, WINDOW)
    CONNECTED.append(reference)
    plain = dp.dp_ols("y ~ x + z", path, **call).params.to_numpy()
    CONNECTED.remove(reference)
    run = Cluster.run

    def deadly(self, packed, pieces):
        for i, part in enumerate(run(self, packed, pieces)):
            if i == 1:
                kill_one(client, 0)
            yield part

    monkeypatch.setattr(Cluster, "run", deadly)
    fit = connected(client, lambda: dp.dp_ols("y ~ x + z", path, **call))
    assert (fit.params.to_numpy() == plain).all()


def test_a_cluster_that_dies_is_said_and_charged_once(frame, path, quiet, monkeypatch):
    options = dict(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    cluster = distributed.LocalCluster(**options)
    client = distributed.Client(cluster, set_as_default=False)
    run = Cluster.run

    def ended(self, packed, pieces):
        for i, part in enumerate(run(self, packed, pieces)):
            if i == 0:
                closing = threading.Thread(target=lambda: cluster.close(timeout=1))
                closing.start()
                closing.join(60)
            yield part

    monkeypatch.setattr(Cluster, "run", ended)
    budget = dp.Budget(eps=1, delta=1e-5)
    with pytest.raises(dp.errors.SourceError, match="The charge stands, once"):
        connected(client, lambda: FITS["dp_ols"](path, budget=budget))
    assert len(budget.charges) == 1
    client.close(timeout=1)


def test_workers_log_no_rows(client, quiet):
    """A partition without a column fails on the worker, which must not print its arguments."""
    frame = pd.DataFrame({"x": [0.123456789] * 50, "y": [0.987654321] * 50})
    bad = dd.from_map(lambda i: frame if i == 0 else frame.drop(columns="y"), range(2), meta=frame)
    with pytest.raises(dp.errors.DPModelsError) as caught:
        dp.dp_ols("y ~ x", bad, n=100, **{**CALL, "bounds": {"x": (0, 1), "y": (0, 1)}})
    assert "0.98765" not in str(caught.value)
