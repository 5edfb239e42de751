"""One row a person: its cells are a function of the person's own rows, whoever stands around."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError, SourceError
from dpmodels.sources.tables import FUNCTIONS

MADE = {
    "rows": "count", "there": ("count", "x"), "total": ("sum", "x"), "some": ("any", "b"),
    "least": ("min", "x"), "most": ("max", "x"), "now": ("first", "x"), "group": ("first", "g"),
}  # fmt: skip
SCHEMA = dp.Schema(
    rows=dp.Count(30), total=dp.Real(-50, 50), most=dp.Real(-9, 9), group=dp.Levels(["a", "b"])
)


def table(rng, n=900, people=150):
    x = rng.normal(size=n) * 3
    x[rng.random(n) < 0.1] = np.nan
    x[rng.random(n) < 0.02] = np.inf
    g = rng.choice(["a", "b", "odd"], n).astype(object)
    g[rng.random(n) < 0.1] = None
    return pd.DataFrame({"id": rng.integers(0, people, n), "x": x, "b": rng.integers(0, 2, n), "g": g})


def rows_of(data, ids=None):
    """Return id -> cells of its row, as bytes where they are numbers."""
    source = dp.per_person(data, "id", **MADE)
    (chunk,) = source.chunks(["id", *MADE])
    there = sorted(set(ids if ids is not None else data["id"]))
    assert len(chunk["id"]) == len(there)
    return {
        one: tuple(c if isinstance(c, str) or c is None else np.float64(c).tobytes()
                   for c in (chunk[name][k] for name in MADE))
        for k, one in enumerate(there)
    }  # fmt: skip


def test_cells_are_those_of_a_groupby():
    data = table(np.random.default_rng(1))
    (chunk,) = dp.per_person(data, "id", **MADE).chunks(["id", *MADE])
    clean = data.assign(x=data["x"].replace(np.inf, np.nan)).groupby("id")
    for name, wanted in {
        "rows": clean.size(), "there": clean["x"].count(), "total": clean["x"].sum(),
        "some": clean["b"].max(), "least": clean["x"].min(), "most": clean["x"].max(),
        "now": clean["x"].first(),
    }.items():  # fmt: skip
        assert np.allclose(chunk[name], wanted, equal_nan=True, rtol=1e-12, atol=1e-12), name
    assert [c or "" for c in chunk["group"]] == list(clean["g"].first().fillna(""))
    assert set(FUNCTIONS) == {given if isinstance(given, str) else given[0] for given in MADE.values()}


@pytest.mark.parametrize("seed", range(20))
def test_the_law_of_place(seed):
    """Others moved, replaced, cut into parts: a person's row stays, bit for bit."""
    rng = np.random.default_rng(seed)
    data = table(rng)
    mine = rows_of(data)
    place = rng.random(len(data))
    order = np.argsort(place)
    for one in data["id"].unique():  # a person's own rows keep their order
        own = np.flatnonzero(data["id"].to_numpy()[order] == one)
        order[own] = np.sort(order[own])
    assert rows_of(data.iloc[order].reset_index(drop=True)) == mine
    cuts = sorted(rng.integers(1, len(data), 3))
    parts = [part for part in np.split(np.arange(len(data)), cuts) if len(part)]
    assert rows_of([data.iloc[part] for part in parts], data["id"]) == mine
    gone = data["id"].iloc[0]
    new = table(rng, n=int(rng.integers(1, 60)), people=1).assign(id=int(rng.choice([gone, -7, 999])))
    new.loc[:, "x"] = rng.choice([1e300, -np.inf, np.nan, 3.0], len(new))
    changed = pd.concat([new, data[data["id"] != gone], new]).reset_index(drop=True)
    after = rows_of(changed)
    assert {k: v for k, v in after.items() if k != new["id"].iloc[0]} == {
        k: v for k, v in mine.items() if k != gone
    }


@pytest.mark.parametrize("call", [
    lambda data: dp.dp_ols("total ~ rows + group", data, schema=SCHEMA, unit="id", eps=8, delta=1e-6,
                           seed=1),
    lambda data: dp.dp_mean("total + most ~ 1", data, schema=SCHEMA, unit="id", eps=2, delta=1e-6,
                            seed=1),
    lambda data: dp.dp_table("~ group", data, schema=SCHEMA, unit="id", max_rows=1, eps=2,
                             delta=1e-6, seed=1),
], ids=["ols", "mean", "kept"])  # fmt: skip
def test_a_fit_is_that_of_the_table_of_people(call):
    """The same seed, the same numbers: what is proved of a table of people holds of the first."""
    data = table(np.random.default_rng(2), n=4000, people=900)
    people = dp.per_person(data, "id", rows="count", total=("sum", "x"), most=("max", "x"),
                           group=("first", "g"))  # fmt: skip
    clean = data.assign(x=data["x"].replace(np.inf, np.nan)).groupby("id")
    made = clean.agg(rows=("x", "size"), total=("x", "sum"), most=("x", "max"), group=("g", "first"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = call(people), call(made.reset_index())
    assert one.privacy.unit == "one person (column id)"
    assert np.isfinite(one.params).all()
    assert np.allclose(one.params, other.params, rtol=1e-9, atol=1e-9)


def test_other_units_are_refused_before_any_charge():
    data = table(np.random.default_rng(3)).assign(other=1)
    people = dp.per_person(data, "id", rows="count", total=("sum", "x"))
    budget = dp.Budget(1, 1e-6)
    verbs = (
        lambda **unit: dp.dp_ols("total ~ rows", people, schema=SCHEMA, eps=1, delta=1e-6,
                                 budget=budget, **unit),
        lambda **unit: dp.dp_mean("total ~ 1", people, schema=SCHEMA, eps=1, delta=1e-6,
                                  budget=budget, **unit),
        lambda **unit: dp.dp_moments("total + rows", people, schema=SCHEMA, eps=1, delta=1e-6,
                                     budget=budget, **unit),
        lambda **unit: dp.dp_release(people, ["total"], schema=SCHEMA, eps=1, delta=1e-6,
                                     budget=budget),
    )  # fmt: skip
    for verb in verbs:
        with pytest.raises(RequestError, match="Add unit='id'"):
            verb()
    with pytest.raises(RequestError, match="Add unit='id'"):
        dp.dp_ols(
            "total ~ most", dp.per_person(data, "id", k="count", total=("sum", "x"),
                                          most=("max", "x")),
            eps=1, delta=1e-6, bounds={"total": (-9, 9), "most": (-9, 9)}, unit="k", budget=budget,
        )  # fmt: skip
    assert not budget.charges


def test_what_is_typed_is_checked():
    data = table(np.random.default_rng(4))
    for typed, said in (
        ({"y": "mean"}, "Functions: count"), ({"y": ("maxx", "x")}, "Did you mean 'max'"),
        ({"y": ("max", "z")}, "not a column"), ({"y": "max"}, "must be a function and a column"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=said):
            dp.per_person(data, "id", **typed)
    with pytest.raises(RequestError, match="not a column of the table"):
        dp.per_person(data, "person", n="count")
    with pytest.raises(SourceError, match="read again"):
        dp.per_person(iter([data]), "id", n="count")
