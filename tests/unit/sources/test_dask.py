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
