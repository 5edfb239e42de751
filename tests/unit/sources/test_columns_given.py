"""A column has one value per row: what is not one is refused by its shape, before any charge."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, SourceError
from dpmodels.sources.tables import DictSource

N = 400
RNG = np.random.default_rng(7)
X = RNG.uniform(0, 1, N)
TABLE = {
    "y": X + RNG.normal(0, 0.1, N), "x": X, "w": np.ones(N), "off": np.zeros(N),
    "g": np.arange(N) % 3, "id": np.arange(N), "t": X + 1.0, "s": X, "d": np.ones(N, int),
}  # fmt: skip
SCHEMA = {
    "y": dp.Real(-1, 2), "x": dp.Real(0, 1), "w": dp.Real(0, 2), "off": dp.Real(0, 1),
    "g": dp.Levels([0, 1, 2]), "t": dp.Real(0, 3), "s": dp.Real(0, 1), "d": dp.Binary(),
}  # fmt: skip
PAY = {"eps": 1.0, "delta": 1e-6, "schema": SCHEMA}


def _matrix(column):
    return np.column_stack([column, column])


SHAPES = {
    "matrix": _matrix,
    "three columns": lambda c: np.column_stack([c, c, c]),
    "one column": lambda c: np.asarray(c).reshape(-1, 1),
    "one row": lambda c: np.asarray(c).reshape(1, -1),
    "np.matrix": lambda c: np.matrix(c),
    "masked": lambda c: np.ma.masked_array(_matrix(c)),
    "three dimensions": lambda c: np.zeros((N, 2, 2)),
    "frame": lambda c: pd.DataFrame({"a": c, "b": c}),
    "zero dimensions": lambda c: np.array(1.0),
}
CALLS = {
    "response": ("y", lambda d, b: dp.dp_ols("y ~ x", d, budget=b, **PAY)),
    "predictor": ("x", lambda d, b: dp.dp_ols("y ~ x", d, budget=b, **PAY)),
    "weights": ("w", lambda d, b: dp.dp_ols("y ~ x", d, weights="w", budget=b, **PAY)),
    "offset": ("off", lambda d, b: dp.dp_glm("d ~ x + offset(off)", d, budget=b, **PAY)),
    "ids": ("id", lambda d, b: dp.dp_ols("y ~ x", d, unit="id", budget=b, **PAY)),
    "strata": ("g", lambda d, b: dp.dp_coxph("Surv(t, d) ~ x + strata(g)", d, budget=b, **PAY)),
    "entry": ("s", lambda d, b: dp.dp_survfit("Surv(s, t, d) ~ 1", d, budget=b, **PAY)),
    "mean": ("y", lambda d, b: dp.dp_mean("y ~ 1", d, budget=b, **PAY)),
    "quantile": ("y", lambda d, b: dp.dp_quantile("y ~ 1", d, budget=b, **PAY)),
    "table": ("g", lambda d, b: dp.dp_table("~ g", d, budget=b, **PAY)),
    "release": ("y", lambda d, b: dp.dp_release("~ y + x", d, budget=b, **PAY)),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("call", CALLS)
def test_a_value_that_is_not_one_dimensional_is_refused_before_the_charge(call, shape):
    """The error names the column, and the budget is as it was."""
    name, fit = CALLS[call]
    budget = dp.Budget(eps=10, delta=1e-3)
    with pytest.raises(DPModelsError, match=f"'{name}'"):
        fit({**TABLE, name: SHAPES[shape](TABLE[name])}, budget)
    assert not len(budget.charges)


def test_nested_types_of_arrow_and_polars_are_refused():
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    pairs = [[v, v] for v in X]
    tables = [
        pa.table({"y": TABLE["y"], "x": pa.array(pairs, pa.list_(pa.float64()))}),
        pa.table({"y": TABLE["y"], "x": pa.array(pairs, pa.list_(pa.float64(), 2))}),
        pa.table({"y": TABLE["y"], "x": pa.array([{"a": v} for v in X])}),
        pl.DataFrame({"y": TABLE["y"], "x": pl.Series(pairs, dtype=pl.Array(pl.Float64, 2))}),
        pl.DataFrame({"y": TABLE["y"], "x": pairs}).lazy(),
        {"y": TABLE["y"], "x": pl.DataFrame({"a": X, "b": X})},
        {"y": TABLE["y"], "x": pa.table({"a": X, "b": X})},
    ]
    for table in tables:
        budget = dp.Budget(eps=10, delta=1e-3)
        with pytest.raises(DPModelsError, match="'x'"):
            dp.dp_ols("y ~ x", table, budget=budget, **PAY)
        assert not len(budget.charges)


def test_public_rows_and_new_rows_are_not_flattened():
    bad = {**TABLE, "x": _matrix(X)}
    with pytest.raises(SourceError, match="'x'"):
        dp.dp_ols("y ~ x", TABLE, method="pmt", public=bad, **PAY)
    fit = dp.dp_ols("y ~ x", TABLE, **{**PAY, "eps": 50})
    with pytest.raises(SourceError, match="'x'"):
        fit.predict({"x": _matrix(X)})


# -- Mappings whose values are not columns


def test_mappings_sets_and_scalars_are_no_columns():
    frame = pd.DataFrame({"y": TABLE["y"], "x": X})
    budget = dp.Budget(eps=10, delta=1e-3)
    values = {
        "to_dict": frame.to_dict(), "set": {"y": TABLE["y"], "x": set(X)},
        "frozenset": {"y": TABLE["y"], "x": frozenset(X)}, "bytes": {"y": X, "x": b"a" * N},
        "keys": {"y": X, "x": dict.fromkeys(X).keys()}, "none": {"y": X, "x": None},
    }  # fmt: skip
    for data in values.values():
        with pytest.raises(SourceError):
            dp.dp_ols("y ~ x", data, budget=budget, **PAY)
    assert not len(budget.charges)


def test_series_of_one_index_are_columns_of_a_table():
    frame = pd.DataFrame({"a": X, "b": -X}, index=RNG.permutation(N).astype(str))
    short = frame[frame["a"] > 0]
    for rows in (frame, short, frame.reset_index(drop=True), frame[:100], frame.sort_values("b")):
        a, b = rows["a"], rows["b"]
        for other in (
            b,
            np.log(1 - b),
            b.copy(),
            b.astype(int),
            b * 2 + a,
            b.fillna(0),
            b.clip(0, 1),
        ):
            source = DictSource({"a": a, "b": other, "c": a.to_numpy()})
            assert source.n == len(rows)
            (part,) = source.partitions(["a", "b"], 10**6)
            assert part.opener(part.data).n == len(rows)


@pytest.mark.parametrize("labels", [[0, 1], [1, 0], [7, 7], [0, 1, 2], ["a", "b"]])
def test_series_of_several_indexes_are_refused_whatever_their_labels_are(labels):
    """Labels are cells: neither equal nor repeated ones change what is refused, or how."""
    first = pd.Series([1.0, 2], index=pd.Index(["a", "b"], dtype=object))
    other = pd.Series(np.arange(float(len(labels))), index=pd.Index(labels, dtype=object))
    budget = dp.Budget(eps=1, delta=1e-5)
    with pytest.raises(
        SourceError, match=r"have indexes of their own.*Nothing was charged"
    ) as said:
        dp.dp_ols("y ~ x", {"y": first, "x": other}, budget=budget, **PAY)
    assert str(said.value).startswith("the Series of the mapping have indexes of their own, and")
    assert not len(budget.charges)
    assert DictSource({"y": first, "x": other.to_numpy()[:2]}).n == 2
    with pytest.raises(SourceError, match="indexes of their own"):
        DictSource({"y": pd.Series([1.0, 2]), "x": pd.Series([1.0, 2], index=range(1, 3))})
