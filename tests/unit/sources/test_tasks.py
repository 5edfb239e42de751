"""Passes cut into tasks: the same integers whoever adds up, and nothing else is accepted."""

import dataclasses
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.places import WINDOW, Windows
from dpmodels.sources import summed as pieces_module
from dpmodels.sources.executors import Threads
from dpmodels.sources.parts import CONNECTED, Adapter, Partition
from dpmodels.sources.rows import Key, Rows
from dpmodels.sources.summed import Partial, Task, added, alike, cut
from dpmodels.sources.tables import FrameSource
from dpmodels.sources.tasks import as_source
from dpmodels.sums.cells import GramOf, gram_over
from dpmodels.sums.rowmap import RowMap
from dpmodels.sums.scaling import unit_scale
from dpmodels.variables import Levels, Real

N = 50_011
BOUNDS = {"x": (-3, 3), "z": (-1, 1), "y": (-6, 6)}


def make(n=N):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.uniform(-1, 1, n)})
    frame["g"] = rng.choice(["a", "b", "c", "odd"], n)
    frame["y"] = frame["x"] - frame["z"] + rng.normal(size=n)
    frame["b"] = (rng.random(n) < 0.4).astype(float)
    frame.loc[::97, "x"] = np.nan
    return frame


def design():
    schema = Schema(x=Real(-3, 3), z=Real(-1, 1), y=Real(-6, 6), g=Levels(["a", "b", "c"]))
    return build_design("y ~ x * z + g", schema)


def integers(source, executor=None, **chosen):
    one = design()
    source = as_source(source)
    rows = Rows(source, N, executor=executor)
    matrix = np.eye(one.q) + 0.1
    rowmap = RowMap(unit_scale(one), np.full(one.q, 2.0), one.q, 2.0, matrix)
    return gram_over(rows, one, rowmap, **chosen).integers()


def tables(frame, folder):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame)
    paths = [folder / "a.parquet", folder / "b.parquet"]
    pq.write_table(table.slice(0, 20_005), paths[0], row_group_size=3_001)
    pq.write_table(table.slice(20_005), paths[1], row_group_size=11_000)
    return {"frame": frame, "dict": {c: frame[c].to_numpy() for c in frame}, "arrow": table,
            "files": paths}  # fmt: skip


@pytest.mark.parametrize("executor", [Threads(2, 2 * WINDOW), Threads(3, WINDOW)])
def test_the_same_integers_from_every_source_and_crew(executor, tmp_path):
    frame = make()
    plain = integers(frame)
    for name, source in tables(frame, tmp_path).items():
        assert len(cut(executor, as_source(source), ["x"])) > 2, name
        assert (integers(source, executor) == plain).all(), name


def test_windows_are_those_of_the_whole_table(tmp_path):
    frame = make()
    plain = integers(frame, windows=Windows(2))
    for name, source in tables(frame, tmp_path).items():
        assert (integers(source, Threads(2, 2 * WINDOW), windows=Windows(2)) == plain).all(), name
    assert (integers(frame) != plain).any()


def test_parts_of_files_begin_with_a_block_and_leave_nothing_out(tmp_path):
    source = as_source(tables(make(), tmp_path)["files"])
    for rows in (1, WINDOW, 20_000, 10**9):
        parts = source.partitions(["x"], rows)
        assert [p.first for p in parts] == [0, *np.cumsum([p.rows for p in parts])[:-1]]
        assert all(p.first % WINDOW == 0 for p in parts) and sum(p.rows for p in parts) == N
        read = [len(c["x"]) for p in parts for c in p.opener(p.data).chunks(["x"])]
        assert sum(read) == N


@pytest.mark.parametrize("eps", [0.05, 5.0])  # without and with coins
def test_fits_agree_whoever_reads(eps, quiet):
    frame = make()
    verbs = {
        "ols": lambda d: dp.dp_ols("y ~ x + z", d, bounds=BOUNDS, eps=eps, delta=1e-6, seed=1),
        "quantreg": lambda d: dp.dp_quantreg(
            "y ~ x + z", d, bounds=BOUNDS, eps=eps, delta=1e-6, seed=1
        ),
        "glm": lambda d: dp.dp_glm(
            "b ~ x + z", d, bounds=BOUNDS, eps=eps, delta=1e-6, seed=1, family="binomial", event=1
        ),
    }
    for name, fit in verbs.items():
        found = []
        for executor in (Threads(2, 2 * WINDOW), Threads(3, WINDOW)):
            CONNECTED.append(executor)
            try:
                found.append(fit(frame).params.to_numpy())
            finally:
                CONNECTED.remove(executor)
        assert (found[0] == found[1]).all(), name
        if eps < 0.1:
            assert (fit(frame).params.to_numpy() == found[0]).all(), name


SCHEMA = Schema(x=Real(-3, 3), z=Real(-1, 1), y=Real(-6, 6), g=Levels(["a", "b", "c"]))
TABLES = {
    "counts and means": lambda d, kw: dp.dp_table("y ~ g", d, **kw),
    "quantiles by group": lambda d, kw: dp.dp_table("y ~ g", d, quantiles=[0.5], **kw),
    "quantile": lambda d, kw: dp.dp_quantile("y", d, q=[0.1, 0.5], **kw),
    "tree": lambda d, kw: dp.dp_quantile("y", d, q=[0.1, 0.5], method="tree", **kw),
    "correlation": lambda d, kw: dp.dp_test("y ~ x", d, **kw),
    "groups": lambda d, kw: dp.dp_test("y ~ g", d, **kw),
    "survival": lambda d, kw: dp.dp_survfit("Surv(abs(x), y > 0) ~ g", d, **kw),
    "entries": lambda d, kw: dp.dp_survdiff("Surv(abs(x) / 2, abs(x), y > 0) ~ g", d, **kw),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_tests_agree_whoever_reads(name, quiet, monkeypatch):
    frame = make(30_011)
    kw = {"schema": SCHEMA, "eps": 1, "delta": 1e-6, "seed": 1}
    tasks = []
    done = Task.add_part
    monkeypatch.setattr(Task, "add_part", lambda self, *a: tasks.append(1) or done(self, *a))
    plain = TABLES[name](frame, kw).tidy()
    assert not tasks
    CONNECTED.append(Threads(2, WINDOW))
    try:
        found = TABLES[name](frame, kw).tidy()
    finally:
        CONNECTED.pop()
    assert len(tasks) % 4 == 0 < len(tasks)  # every pass was cut
    pd.testing.assert_frame_equal(found, plain)
    parts = [frame[["x", "y", "g"]].iloc[i : i + 7_000] for i in range(0, len(frame), 7_000)]
    table = dp.Elsewhere(
        {"x": "numeric", "y": "numeric", "g": "text"},
        n=len(frame),
        sums=lambda task: [dp.partial_sums(task, i, part) for i, part in enumerate(parts)],
    )
    pd.testing.assert_frame_equal(TABLES[name](table, kw).tidy(), plain)


# -- secret coins -------------------------------------------------------------------------------
def test_a_task_done_again_tosses_the_same_coins_and_no_other_task_does():
    key = Key(4, b"k" * 32)
    whole = key.coins(7, 0).draw(200_000)
    again = key.coins(7, 0)
    assert (again.draw(200_000) == whole).all() and (again.draw(200_000) != whole).any()
    others = [Key(4, b"l" * 32).coins(7, 0), key.coins(8, 0), key.coins(7, 1)]
    for other in others:
        assert abs(np.mean(other.draw(200_000) == whole) - 1 / 256) < 0.002  # 10 sd
    assert set(whole.tolist()) == set(range(256))
    assert "k" * 32 not in repr(key)


def test_coins_of_tasks_choose_their_share(quiet):
    task = Task(design(), _Count(), key=Key(8, b"s" * 32))
    counts = [task.add_part(i, as_source(make()), i << 20).sums for i in range(4)]
    assert len(set(counts)) > 1
    assert abs(sum(counts) - 4 * N / 8) < 8 * np.sqrt(4 * N / 8)  # 8 sd


class _Count:
    def over(self, blocks, coins=None):
        return sum(block.shape[1] for block in blocks)


# -- what comes back is checked -----------------------------------------------------------------
def partials(mark="m"):
    one = design()
    job = GramOf(RowMap(unit_scale(one), np.full(one.q, 1.0)))
    task = Task(one, job)
    frame = make(3000)
    parts = [task.add_part(i, as_source(frame[i * 1000 : (i + 1) * 1000]), 0, mark) for i in range(3)]
    return task, parts


def test_parts_in_any_order_give_the_sum():
    task, parts = partials()
    total, rows = added(task, parts, 3, "m")
    other, _ = added(task, parts[::-1], 3, "m")
    assert rows == 3000 and (total.integers() == other.integers()).all()


def spoilt(part, what):
    sums = part.sums
    gram = {
        "shape": type(sums)(sums.entries[1:]),
        "type": type(sums)(sums.entries.astype(float)),
    }.get(what, sums)
    mark = "other" if what == "stamp" else part.stamp
    if what == "object":
        return "text"
    return Partial(True if what == "index" else part.index, part.rows, gram, mark)


@pytest.mark.parametrize("what", ["shape", "type", "stamp", "object", "index"])
def test_what_is_not_a_partial_sum_of_this_pass_is_refused(what):
    task, parts = partials()
    with pytest.raises(dp.errors.SourceError, match="not the partial sums of this pass"):
        added(task, [parts[0], spoilt(parts[1], what), parts[2]], 3, "m")


def test_a_part_twice_or_missing_is_refused():
    task, parts = partials()
    with pytest.raises(dp.errors.SourceError, match="came twice"):
        added(task, [*parts, parts[0]], 3, "m")
    with pytest.raises(dp.errors.SourceError, match="are missing"):
        added(task, parts[:2], 3, "m")


def test_alike_looks_at_types_and_shapes_only():
    big = np.array([1, 2], dtype=object)
    assert alike((1, big, None, "a"), (5, big * 9, None, "a"))
    assert not alike((1, big), (1, np.array([1, 2.0], dtype=object)))
    assert not alike(big, np.array([1, 2])) and not alike(None, 1) and not alike("a", "b")
    assert not alike((1,), (1, 2)) and not alike(1, 1.0)


def test_confidential_things_do_not_print():
    task, parts = partials()
    assert "confidential" in repr(task) and "confidential" in repr(parts[0])


# -- elsewhere ----------------------------------------------------------------------------------
KINDS = dict.fromkeys(["x", "z", "y", "b", "count"], "numeric")


def elsewhere(frame, cuts=(0, 16_384, 40_960, N), spoil=list):
    parts = [frame[a:b] for a, b in itertools.pairwise(cuts)]

    def sums(task):
        return spoil([dp.partial_sums(task, i, part) for i, part in enumerate(parts)])

    return dp.Elsewhere(KINDS, n=len(frame), sums=sums)


CALL = dict(eps=0.05, delta=1e-6, bounds=BOUNDS, seed=1)
FITS = {
    "dp_ols": lambda d: dp.dp_ols("y ~ x + z", d, **CALL),
    "dp_quantreg": lambda d: dp.dp_quantreg("y ~ x + z", d, tau=[0.3, 0.5], **CALL),
    "dp_mest": lambda d: dp.dp_mest("huber", "y ~ x + z", d, **CALL),
    "logit": lambda d: dp.dp_glm("b ~ x", d, family="binomial", event=1, **CALL),
    "poisson": lambda d: dp.dp_glm(
        "count ~ x", d, family="poisson", **{**CALL, "bounds": {**BOUNDS, "count": (0, 20)}}
    ),
    "dp_moments": lambda d: dp.dp_moments("y + x", d, **CALL),
    "dp_mean": lambda d: dp.dp_mean("y + x ~ 1", d, method="clipped", **CALL),
    "eptr": lambda d: dp.dp_ols("y ~ x + z", d, method="eptr", **CALL),
    "eptr alone": lambda d: dp.dp_ols(
        "y ~ x + z", d, method="eptr", scoring=False, **{**CALL, "eps": 2.0}
    ),
    "dp_bayes": lambda d: dp.dp_bayes(
        "b ~ x + z", d, schema=dp.Schema(b=dp.Levels([0, 1])), **{**CALL, "eps": 2.0}
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_of_sums_from_elsewhere_is_that_of_the_frame(name, quiet):
    pytest.importorskip("cloudpickle")
    frame = make()
    frame["count"] = np.random.default_rng(0).poisson(2.0, N).astype(float)
    plain, far = FITS[name](frame), FITS[name](elsewhere(frame))
    a, b = (np.asarray(f.params) for f in (plain, far))
    assert (a == b).all()


def test_the_recipe_for_record_batches(quiet):
    """What the notes of ``partial_sums`` do on Spark, with a stand-in for its partitions."""
    pytest.importorskip("cloudpickle")
    pa = pytest.importorskip("pyarrow")
    frame = make()
    table = pa.Table.from_pandas(frame[["x", "z", "y"]], preserve_index=False)
    partitions = [table.slice(0, 16_384).to_batches(4096), [], table.slice(16_384).to_batches(9000)]

    def sums(task):
        def add_up(part, batches):
            rows = list(batches)
            found = [dp.partial_sums(task, part, rows)] if rows else []
            yield pa.RecordBatch.from_pydict({"sums": pa.array(found, pa.binary())})

        for part, batches in enumerate(partitions):
            for batch in add_up(part, batches):
                yield from batch.column(0).to_pylist()

    far = dp.Elsewhere(dict.fromkeys(["x", "z", "y"], "numeric"), n=N, sums=sums)
    plain, fit = FITS["dp_ols"](frame), FITS["dp_ols"](far)
    assert (fit.params.to_numpy() == plain.params.to_numpy()).all()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda sums: sums[:2], "another number of rows"),
        (lambda sums: [*sums, sums[0]], "came twice"),
        (lambda sums: [b"text", *sums], "not the partial sums"),
        (lambda sums: [None, *sums], "not the partial sums"),
    ],
)
def test_wrong_sums_from_elsewhere_stop_the_call_after_one_charge(spoil, said, quiet):
    pytest.importorskip("cloudpickle")
    budget = dp.Budget(eps=1, delta=1e-5)
    with pytest.raises(dp.errors.SourceError, match=said):
        dp.dp_ols("y ~ x + z", elsewhere(make(), spoil=spoil), budget=budget, **CALL)
    assert len(budget.charges) == 1


def test_sums_of_another_pass_are_refused(quiet):
    pytest.importorskip("cloudpickle")
    frame, kept = make(), []

    def stale(sums):
        kept.append(sums)
        return kept[0]

    with pytest.raises(dp.errors.SourceError, match="another plan"):
        dp.dp_ols("y ~ x + z", elsewhere(frame, spoil=stale), **CALL)


def test_another_version_of_the_package_is_refused(quiet, monkeypatch):
    pytest.importorskip("cloudpickle")
    with monkeypatch.context() as older:
        older.setattr(pieces_module, "_package", lambda: "dpmodels 0.1.0, Python 3.11")
        packed = partials()[0].packed()
    with pytest.raises(dp.errors.SourceError, match=r"has dpmodels 0\.1\.0.*install the same"):
        dp.partial_sums(packed, 0, make(100))


def test_ranges_are_not_bought_of_a_table_elsewhere(quiet):
    budget = dp.Budget(eps=3, delta=1e-4)
    with pytest.raises(dp.errors.RequestError, match=r"bounds=\{'x': \(lower, upper\)\}"):
        dp.dp_ols("y ~ x", elsewhere(make()), eps=1, delta=1e-6, seed=1, budget=budget)
    assert len(budget.charges) == 0  # known before the charge


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dp.Elsewhere({"x": "float"}, 3, list), "'float' is none of"),
        (lambda: dp.Elsewhere({"x": "numeric"}, 0, list), "number of rows"),
        (lambda: dp.Elsewhere({"x": "numeric"}, 3, None), "function of a task"),
        (lambda: dp.partial_sums("task", 0, {}), "as bytes"),
        (lambda: dp.partial_sums(b"", -1, {}), "number of the part"),
        (lambda: dp.connect(), "give one of the two"),
        (lambda: dp.connect("tcp://host:8786"), "needs a Dask client"),
        (lambda: dp.connect(threads=0), "number of threads"),
    ],
)
def test_bad_arguments_say_what_to_type(call, said):
    with pytest.raises(dp.errors.RequestError, match=said):
        call()


def test_a_part_that_fails_says_nothing_of_its_rows(quiet):
    pytest.importorskip("cloudpickle")

    def wild():
        yield make(10)
        raise ValueError("row 7: secret")

    with pytest.raises(dp.errors.PrivateStageError) as caught:
        dp.partial_sums(partials()[0].packed(), 0, wild)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None


def test_a_worker_returns_its_failure_as_a_value():
    """An exception would be logged beside the arguments of the task: rows."""
    pytest.importorskip("cloudpickle")
    from dpmodels.sources.executors import _unwrapped
    from dpmodels.sources.summed import Failed, on_worker

    found = on_worker(partials()[0].packed(), Partition(as_source, make(5)[["x"]], 0, index=0))
    assert type(found) is Failed and found.kind is dp.errors.PrivateStageError
    with pytest.raises(dp.errors.PrivateStageError, match="withheld"):
        _unwrapped(pickle.loads(pickle.dumps(found)))


def test_a_connection_ends(quiet):
    with dp.connect(threads=2):
        assert [Threads(2)] == CONNECTED
    assert CONNECTED == []


@dataclasses.dataclass(frozen=True)
class Dying(Threads):
    """Its workers die in pass number ``dead`` of the fits that it reads, once."""

    dead: int = 1
    passes: list = dataclasses.field(default_factory=list)

    def run(self, task, pieces):
        self.passes.append(1)
        if len(self.passes) == self.dead:
            raise dp.errors.ClusterError("the workers died")
        return super().run(task, pieces)


@pytest.mark.parametrize("budget", ["in memory", "in a file"])
def test_a_fit_whose_workers_died_before_anything_was_released_is_taken_up(
    budget, quiet, tmp_path
):
    opened = {
        "in memory": lambda: dp.Budget(eps=1, delta=1e-5),
        "in a file": lambda: dp.Budget.open(tmp_path / "ledger", eps=1, delta=1e-5),
    }[budget]()

    def fit(formula="y ~ x", eps=0.1):
        return dp.dp_ols(
            formula, make(), bounds=BOUNDS, eps=eps, delta=1e-7, seed=1, budget=opened
        )

    CONNECTED.append(Dying(2, 2 * WINDOW))
    try:
        with pytest.raises(dp.errors.ClusterError, match=r"charge stands.*not charged again"):
            fit()
        assert len(opened.charges) == 1
        fit("y ~ z")  # another call is another charge, and so is the same one at another eps
        fit(eps=0.11)
        assert len(opened.charges) == 3
        again = fit()
        assert len(opened.charges) == 3
        fit()  # taken up once
        assert len(opened.charges) == 4
    finally:
        CONNECTED.pop()
    assert again.released


def test_a_fit_whose_workers_died_after_a_release_is_another_charge(quiet):
    budget = dp.Budget(eps=1, delta=1e-5)
    call = dict(bounds=BOUNDS, eps=0.1, delta=1e-7, seed=1, budget=budget)
    CONNECTED.append(Dying(2, 2 * WINDOW, dead=2))
    try:
        with pytest.raises(dp.errors.ClusterError, match="something was released"):
            dp.dp_ols("y ~ x", make(), **call)
        dp.dp_ols("y ~ x", make(), **call)
    finally:
        CONNECTED.pop()
    assert len(budget.charges) == 2
    CONNECTED.append(Dying(2, 2 * WINDOW))
    try:
        with pytest.raises(dp.errors.ClusterError, match=r"died\. Nothing was released$"):
            dp.dp_ols("y ~ x", make(), **{**call, "budget": None})
    finally:
        CONNECTED.pop()


def test_parts_in_memory_are_views():
    frame = make()
    for source in (as_source(frame), as_source({c: frame[c].to_numpy() for c in ("x", "y")})):
        (part, *_) = source.partitions(["x"], WINDOW)
        (chunk, *_) = part.opener(part.data).chunks(["x"])
        assert np.shares_memory(chunk["x"], frame["x"].to_numpy())


@pytest.mark.parametrize(
    ("verb", "method", "formula", "more"),
    [
        ("dp_ols", "jl", "y ~ x", {}),
        ("dp_ols", "drcl", "y ~ x", {}), ("dp_glm", "objpert", "b ~ x", {"event": 1}),
        ("dp_glm", "gptr", "b ~ x", {"event": 1}),
        ("dp_mean", "ptr", "y ~ 1", {"width": 1.0}),
    ],
)  # fmt: skip
def test_methods_that_read_rows_are_refused_elsewhere_before_the_charge(
    verb, method, formula, more
):
    budget = dp.Budget(10.0, 0.1)
    table = dp.Elsewhere(KINDS, n=N, sums=lambda task: pytest.fail("a task was sent"))
    call = dict(eps=1, delta=1e-6, bounds=BOUNDS, method=method, budget=budget, **more)
    with pytest.raises(dp.errors.SourceError, match="a method that reads only sums"):
        getattr(dp, verb)(formula, table, **call)
    assert budget.to_frame().empty


def test_coins_of_a_row_do_not_depend_on_the_cut_of_the_table():
    key = Key(8, b"s" * 32)
    whole = key.coins(0, 0, 0).choose(40_000)
    parts = [key.coins(i, 0, first).choose(n) + first
             for i, (first, n) in enumerate([(0, 16_384), (16_384, 8_192), (24_576, 15_424)])]  # fmt: skip
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ g + x", "y ~ g"])
def test_many_rows_use_threads_and_one_thread_gives_the_same_numbers(formula, quiet, monkeypatch, tmp_path):
    from dpmodels.sources import executors as executor

    frame, used = make(), []
    done = Task.add_part
    monkeypatch.setattr(Task, "add_part", lambda self, *a: used.append(1) or done(self, *a))
    monkeypatch.setattr(executor, "_LEAST", 8192)

    def fit(table):
        return dp.dp_ols(formula, table, eps=1, delta=1e-8, schema=design().schema, seed=3).tidy()

    monkeypatch.setattr(executor, "MANY_ROWS", 10**9)
    fit(frame)
    assert not used
    monkeypatch.setattr(executor, "MANY_ROWS", N - 1)
    narrow = fit(frame)
    assert not used  # threads do not pay
    monkeypatch.setattr(executor, "WIDE", 0)
    found = fit(frame)
    assert used
    pd.testing.assert_frame_equal(found, narrow)
    with dp.connect(threads=1):
        pd.testing.assert_frame_equal(fit(frame), found)
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=9_001, index=False)
    pd.testing.assert_frame_equal(fit(tmp_path / "t.parquet"), found)


class Travelling(FrameSource, Adapter):
    travels = True


@dataclasses.dataclass(frozen=True)
class Wrong(Threads):
    """Moves parts wrongly: it repeats one, leaves one out, or does another plan than it was sent."""

    how: str = ""
    remote = True

    def run(self, task, parts):
        from dpmodels.sources.summed import on_worker

        parts = {"repeats": [*parts, parts[0]], "in place of another": [parts[1], *parts[1:]],
                 "leaves out": parts[1:]}.get(self.how, parts)  # fmt: skip
        if self.how == "another plan":
            task = partials()[0].packed()
        return (on_worker(task, part) for part in reversed(parts))


@pytest.mark.parametrize(("how", "message"), [
    ("", ""), ("repeats", "came twice"), ("in place of another", "came twice"),
    ("leaves out", "are missing"), ("another plan", "another plan"),
])  # fmt: skip
def test_an_executor_that_mixes_up_parts_or_plans_is_found_out(how, message):
    pytest.importorskip("cloudpickle")
    source, executor = Travelling(make()), Wrong(2, WINDOW, how=how)
    if not message:
        assert (integers(source, executor) == integers(make())).all()
        return
    with pytest.raises(dp.errors.SourceError, match=message):
        integers(source, executor)
