"""The recipe of ``dp.partial_sums`` on Spark, where there are a JVM and pyspark.

Slow: a JVM takes seconds to start. Nothing is statistical: noise is seeded, sums are exact.
"""

import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # sockets, closed late

BOUNDS = {"x1": (-3, 3), "x2": (-1, 1), "y": (-6, 6)}
CALL = dict(eps=0.02, delta=1e-7, bounds=BOUNDS, seed=1)


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    made = pd.DataFrame({"x1": rng.normal(size=40_003), "x2": rng.uniform(-1, 1, 40_003)})
    made["y"] = made["x1"] - made["x2"] + rng.normal(size=len(made))
    made.loc[::97, "x1"] = np.nan
    return made


@pytest.mark.parametrize("verb", ["dp_ols", "dp_quantreg", "dp_table", "dp_npreg", "dp_pca"])
def test_spark_adds_up_the_integers_of_one_process(verb, spark, frame, tmp_path, quiet):
    import pyarrow as pa
    from pyspark import TaskContext

    for i, start in enumerate(range(0, len(frame), 9_001)):
        part = frame.iloc[start : start + 9_001]
        part.to_parquet(tmp_path / f"part{i}.parquet", index=False)
    df = spark.read.parquet(str(tmp_path))

    def sums(task):
        def add_up(batches):
            part, rows = TaskContext.get().partitionId(), list(batches)
            found = [dp.partial_sums(task, part, rows)] if rows else []
            yield pa.RecordBatch.from_pydict({"sums": pa.array(found, pa.binary())})

        wanted = df.select("y", "x1", "x2").mapInArrow(add_up, "sums binary")
        return [bytes(row.sums) for row in wanted.collect()]

    table = dp.Elsewhere(dict.fromkeys(["y", "x1", "x2"], "numeric"), n=df.count(), sums=sums)
    fit = {
        "dp_ols": lambda d: dp.dp_ols("y ~ x1 + x2", d, **CALL),
        "dp_quantreg": lambda d: dp.dp_quantreg("y ~ x1 + x2", d, tau=0.4, **CALL),
        "dp_table": lambda d: dp.dp_table("y + x1", d, **CALL),
        "dp_npreg": lambda d: dp.dp_npreg("y ~ x1 + x2", d, **{**CALL, "eps": 2.0}),
        "dp_pca": lambda d: dp.dp_pca("y + x1 + x2 ~ 1", d, **{**CALL, "eps": 2.0}),
    }[verb]
    found, plain = fit(table).params.to_numpy(), fit(frame).params.to_numpy()
    assert np.isfinite(plain).any()
    np.testing.assert_array_equal(found, plain)
