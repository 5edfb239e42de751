"""Dask frames by person: whole people in a partition, sums by tasks, the integers of memory."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, PrivacyBugError, SourceError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import schema_for
from dpmodels.sources.executors import Threads
from dpmodels.sources.parts import Partition
from dpmodels.sources.people import (
    MOVED,
    PeopleRows,
    PeopleTask,
    added_people,
    count_people,
    count_rows_by_person,
    move_to_people,
    people_of,
    whole_part,
)
from dpmodels.sources.tables import FrameSource
from dpmodels.sources.tasks import as_source
from dpmodels.sums.cells import GramOf
from dpmodels.sums.rowmap import PeopleGramOf, RowMap
from dpmodels.sums.scaling import UnitScale
from dpmodels.units import Person

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
UNIT = Person("pid")
BOUNDS = {"y": (-3, 3), "x": (-1, 1)}


@pytest.fixture(autouse=True)
def settings(request):
    """Dask makes text of mixed cells by itself, and 1.0 and 1 are then two people.

    Without a cluster rows move by tasks, also where another test has left a client behind.
    """
    here = {} if request.node.get_closest_marker("slow") else {"dataframe.shuffle.method": "tasks"}
    with dask.config.set({"dataframe.convert-string": False, **here}):
        yield


def panel(people=150, seed=2):
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(people), rng.integers(1, 9, people)))
    n = len(who)
    x = np.where(rng.random(n) < 0.05, np.nan, rng.uniform(-1, 1, n))
    return pd.DataFrame({"pid": who, "x": x, "y": rng.normal(size=n)})


def spelled(frame):
    """One person is 7, 7.0 and, where a cell is text, another one; some rows are nobody's."""
    ids = [
        None if i == 3 else float(i) if k % 2 else str(i) if i % 50 == 9 else i
        for k, i in enumerate(frame["pid"].tolist())
    ]
    return frame.assign(pid=pd.Series(ids, dtype=object))


def floats(frame):
    return frame.assign(pid=frame["pid"].where(frame["pid"] % 40 != 3).astype(float))


FRAMES = {"integers": lambda f: f, "floats": floats, "mixed": spelled}


def design_of(frame):
    return build_design("y ~ x", schema_for(as_source(frame).kinds, None, BOUNDS, ("x", "y")))


def job_of(design):
    unit = UnitScale(np.ones(3), np.zeros(3), True)
    return PeopleGramOf(RowMap(unit, np.full(3, 2.0), ball=3, radius=2.0))


def parts_of(frame, design, npartitions=4):
    lazy = dd.from_pandas(frame, npartitions=npartitions, sort=False)
    return move_to_people(lazy, "pid", design.kinds).to_delayed()


@pytest.mark.parametrize("name", FRAMES)
def test_sums_of_moved_partitions_are_those_of_memory(name):
    frame = FRAMES[name](panel())
    design = design_of(frame)
    source = as_source(frame)
    n = count_people(source, UNIT)
    want = PeopleRows(source, n, UNIT).summed(design, job_of(design)).integers()
    frames = [p.compute(scheduler="synchronous") for p in parts_of(frame, design)]
    who = [set(f[MOVED.column]) for f in frames]
    assert sum(map(len, who)) == len(set().union(*who)) == n and sum(map(bool, who)) > 2
    lazy = dd.from_pandas(frame, npartitions=4, sort=False)
    assert len(count_rows_by_person(lazy, "pid").compute(scheduler="synchronous")) == n
    task = PeopleTask(design, job_of(design))
    done = [task.add_part(i, FrameSource(f), None) for i, f in enumerate(frames)]
    assert sum(p.rows for p in done) == n
    total = done[0].sums
    for part in done[1:]:
        total = total + part.sums
    assert (total.integers() == want).all()


def test_a_partition_as_it_comes_would_count_people_twice():
    """The mutant: without the move a person of six partitions has six balls."""
    frame = pd.DataFrame({"pid": [5] * 6, "x": [1.0] * 6, "y": [0.0] * 6})
    design = design_of(frame)
    task = PeopleTask(design, job_of(design))
    cut = [frame.iloc[[i]].rename(columns={"pid": MOVED.column}) for i in range(6)]
    unmoved = sum(int(np.trace(task.add_part(i, FrameSource(f), None).sums.integers()))
                  for i, f in enumerate(cut))  # fmt: skip
    frames = [p.compute(scheduler="synchronous") for p in parts_of(frame, design)]
    whole = sum(int(np.trace(task.add_part(i, FrameSource(f), None).sums.integers()))
                for i, f in enumerate(frames))  # fmt: skip
    assert whole <= 2**40 < 2 * 2**40 < unmoved


@pytest.mark.parametrize("column", ["pid", "x"])
@pytest.mark.parametrize("ids", ["integers", "text"])
def test_a_partition_of_another_type_is_refused_without_an_exception_on_a_worker(column, ids):
    """One "x" makes text of a partition: ids would be other people, x other cells or void rows."""
    frame = panel(12)
    if ids == "text":
        frame["pid"] = frame["pid"].astype(str)
    design = build_design("y ~ x", schema_for(as_source(frame).kinds, None, BOUNDS, ("x", "y")))
    half = len(frame) // 2
    odd = frame.iloc[half:].astype({column: object})
    if column == "pid" and ids == "text":
        odd = odd.assign(pid=np.arange(len(odd)))  # numbers where the frame says text
    else:
        odd.iloc[0, list(odd.columns).index(column)] = "x"
    made = [dask.delayed(part) for part in (frame.iloc[:half], odd)]
    lazy = dd.from_delayed(made, meta=frame.iloc[:0], verify_meta=False)
    parts = [p.compute(scheduler="synchronous") for p in move_to_people(lazy, "pid", design.kinds).to_delayed()]
    counts = [dask.delayed(people_of)(p) for p in count_rows_by_person(lazy, "pid").to_delayed()]
    found = dask.compute(*counts, scheduler="synchronous")
    if column == "x":  # numbers are read cell by cell, one row is void
        assert added_people(found) == 12
        x = np.concatenate([whole_part(p)._frame["x"].to_numpy() for p in parts])
        assert np.isnan(x).sum() == np.isnan(frame["x"]).sum() + (not np.isnan(frame["x"].iloc[half]))
        return
    with pytest.raises(SourceError, match="another type than the frame says"):
        added_people(found)
    with pytest.raises(SourceError, match="another type than the frame says"):
        [whole_part(p) for p in parts]
    with pytest.raises(SourceError, match=r"has the type|one person would be two"):
        count_people(as_source(lazy), UNIT)


class Moved:
    """A source whose people are moved, and read by tasks of this process."""

    rescannable, schema_attr, n = True, None, None
    executor = Threads(2)

    def __init__(self, frame):
        self._frame, self.kinds = frame, as_source(frame).kinds
        self.moves = 0

    def chunks(self, names):
        raise AssertionError("rows came to the caller")

    def people(self, column):
        return frame_count(self._frame)

    def partitions_of_people(self, column, kinds):
        self.moves += 1
        lazy = dd.from_pandas(self._frame, npartitions=3, sort=False)
        parts = move_to_people(lazy, column, kinds).to_delayed()
        return [Partition(whole_part, p.compute(scheduler="synchronous")) for p in parts]


def frame_count(frame):
    return count_people(as_source(frame), UNIT)


@pytest.mark.parametrize("call", [
    (dp.dp_ols, "y ~ x", {}),
    (dp.dp_quantreg, "y ~ x", {"tau": 0.3}),
    (dp.dp_mean, "y + x ~ 1", {}),
    (dp.dp_glm, "y ~ x", {"fit_stats": True, "family": "poisson", "eps": 300.0,
                          "schema": dp.Schema(y=dp.Count(3), x=dp.Real(-1, 1)), "bounds": None}),
    (dp.dp_table, "y + x", {}),
    (dp.dp_ols, "y ~ x", {"relation": "add-remove", "n_guess": 150}),
])  # fmt: skip
def test_fits_by_tasks_are_those_of_memory(call, monkeypatch):
    verb, formula, more = call
    frame = panel()
    source = Moved(frame)
    monkeypatch.setattr("dpmodels.api.call.as_source", lambda data: source)
    options = {**dict(eps=1.0, delta=1e-4, bounds=BOUNDS, unit="pid", seed=3), **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        there = verb(formula, frame, **options)
        monkeypatch.undo()
        here = verb(formula, frame, **options)
    assert there.params.equals(here.params) and source.moves == 1
    assert there.stats == here.stats


def test_a_job_of_rows_is_refused():
    frame = panel()
    design = design_of(frame)
    rows = PeopleRows(as_source(frame), 150, UNIT)
    with pytest.raises(PrivacyBugError, match="reads rows"):
        rows.summed(design, GramOf(job_of(design).rowmap))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # sockets and loops of the cluster, closed late
def test_a_cluster_gives_the_integers_of_memory():
    distributed = pytest.importorskip("distributed")
    frame = panel(4000)
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        for make in FRAMES.values():
            data = make(frame)
            lazy = dd.from_pandas(data, npartitions=7, sort=False)
            for more in ({}, {"relation": "add-remove", "n_guess": 4000}):
                call = dict(eps=1.0, delta=1e-6, bounds=BOUNDS, unit="pid", seed=3, **more)
                here = dp.dp_ols("y ~ x", data, **call)
                there = dp.dp_ols("y ~ x", lazy, **call)
                assert there.params.equals(here.params) and there.nobs == here.nobs
