"""Dask frames are read partition by partition; the answer is that of the plain frame."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

dd = pytest.importorskip("dask.dataframe")


def test_same_fit_as_from_the_frame(quiet):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, 5000)})
    frame["y"] = 2 * frame["a"] + rng.normal(0, 0.1, 5000)
    call = dict(eps=1, delta=1e-6, bounds={"a": (-1, 1), "y": (-3, 3)}, seed=1)
    plain = dp.dp_ols("y ~ a", frame, **call)
    parts = dp.dp_ols("y ~ a", dd.from_pandas(frame, npartitions=7), **call)
    assert parts.params.to_numpy() == pytest.approx(plain.params.to_numpy(), rel=1e-12)
    assert parts.nobs == 5000


def test_a_frame_held_by_a_cluster_is_fetched_from_it(quiet):
    distributed = pytest.importorskip("distributed")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, 2000), "y": rng.uniform(-1, 1, 2000)})
    call = dict(eps=1, delta=1e-6, bounds={"a": (-1, 1), "y": (-1, 1)}, seed=1)
    plain = dp.dp_ols("y ~ a", frame, **call)
    options = dict(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with distributed.Client(**options) as client:
        held = client.persist(dd.from_pandas(frame, npartitions=3))
        fit = dp.dp_ols("y ~ a", held, **call)
    assert fit.params.to_numpy() == pytest.approx(plain.params.to_numpy(), rel=1e-12)


def test_the_scheduler_is_that_of_the_futures():
    """Without a cluster: a graph with a future goes to its client, any other stays here."""
    from dpmodels.sources.tasks import _holder

    Future = type("Future", (), {"client": "its client"})
    part = type("Part", (), {"__dask_graph__": lambda self: {"a": 1, "b": Future()}})
    assert _holder(part()) == "its client"
    part = type("Part", (), {"__dask_graph__": lambda self: {"a": 1}})
    assert _holder(part()) is None
