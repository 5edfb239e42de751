"""Passes of kernels, components, descent, perturbation and bought ranges, cut into tasks."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.models import newton
from dpmodels.places import WINDOW
from dpmodels.sources.executors import Threads
from dpmodels.sources.parts import CONNECTED, Partition
from dpmodels.sources.rows import Rows
from dpmodels.sources.summed import Cells, Partial, Sampled, Task, added, cut, sampled
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Real

N = 30_011
NAMES = ["x", "z", "w", "y"]
BOUNDS = {"x": (-3, 3), "z": (-1, 1), "w": (0, 1), "y": (-6, 6)}
AT = {"x": [-1.0, 0.5], "z": [0.0, 0.3], "w": [0.2, 0.9]}


def make(n=N):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.uniform(-1, 1, n)})
    frame["w"] = rng.random(n)
    frame["y"] = frame["x"] - frame["z"] + rng.normal(size=n)
    frame["b"] = (rng.random(n) < 0.4).astype(float)
    frame.loc[::97, "x"] = np.nan
    return frame


CALL = dict(eps=2.0, delta=1e-6, seed=1)
KNOWN = dict(bounds=BOUNDS, **CALL)
SUMS = {
    "curve": lambda d: dp.dp_npreg("y ~ x", d, **KNOWN),
    "curve in two variables": lambda d: dp.dp_npreg("y ~ x + z", d, **KNOWN),
    "curve in three variables": lambda d: dp.dp_npreg("y ~ x + z + w", d, at=AT, **KNOWN),
    "eptr curve": lambda d: dp.dp_npreg(
        "y ~ x + z + w", d, at=AT, method="eptr", h=0.5, **{**KNOWN, "eps": 8.0}
    ),
    "wavelet": lambda d: dp.dp_npreg("y ~ x", d, method="wavelet", **KNOWN),
    "components": lambda d: dp.dp_pca("x + z + w + y ~ 1", d, **KNOWN),
    "descent": lambda d: dp.dp_ols("y ~ x + z", d, method="dpgd", iterations=3, **KNOWN),
}
#: Rows come to the caller, by tasks or not: not of a table elsewhere.
ROWS = {
    "bought, curve": lambda d: dp.dp_npreg("y ~ x", d, **CALL),
    "bought, table": lambda d: dp.dp_table("y + x", d, **CALL),
    "objpert": lambda d: dp.dp_glm("b ~ x + z", d, method="objpert", event=1, **KNOWN),
    "ptr mean": lambda d: dp.dp_mean("y ~ 1", d, method="ptr", width=12.0, **CALL),
}


def elsewhere(frame, cuts=(0, 16_384, 24_576, N)):
    parts = [frame[a:b] for a, b in itertools.pairwise(cuts)]

    def sums(task):
        return [dp.partial_sums(task, i, part) for i, part in enumerate(parts)]

    return dp.Elsewhere(dict.fromkeys(NAMES, "numeric"), n=len(frame), sums=sums)


def read_by(executor, fit, table):
    CONNECTED.append(executor)
    try:
        return fit(table)
    finally:
        CONNECTED.remove(executor)


def same(fit, plain):
    a, b = (np.asarray(f.params) for f in (fit, plain))
    return np.isfinite(b).any() and np.array_equal(a, b, equal_nan=True)


#: As ``objpert`` and ``gptr`` where the rows are too many to be kept.
MANY = {
    "objpert, not kept": ROWS["objpert"],
    "poisson, not kept": lambda d: dp.dp_glm(
        "y ~ x", d, method="objpert", family="poisson",
        **{**KNOWN, "bounds": {"x": (-3, 3), "y": (0, 6)}},
    ),
    "gptr, not kept": lambda d: dp.dp_glm(
        "b ~ x + z", d, method="gptr", event=1, **{**KNOWN, "eps": 8.0}
    ),
}  # fmt: skip
#: Passes of rows to the caller: those that are kept, or the curvature of floats.
HERE = {"objpert": 1, "gptr, not kept": 1}


@pytest.mark.parametrize("name", [*SUMS, *ROWS, *MANY])
def test_the_same_numbers_whoever_reads(name, quiet, monkeypatch, tmp_path):
    pytest.importorskip("cloudpickle")
    pytest.importorskip("pyarrow")
    frame, fit = make(), {**SUMS, **ROWS, **MANY}[name]
    if name in MANY:
        monkeypatch.setattr(newton, "KEEP", 100_000)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=9_001, index=False)
    plain = fit(frame)
    tasks, reads = [], []
    done = Task.add_part
    monkeypatch.setattr(Task, "add_part", lambda self, *a: tasks.append(1) or done(self, *a))
    read = Rows.blocks
    monkeypatch.setattr(Rows, "blocks", lambda *a, **k: reads.append(1) or read(*a, **k))
    for executor in (Threads(2, WINDOW), Threads(3, WINDOW)):
        for table in (frame, tmp_path / "rows.parquet"):
            tasks.clear(), reads.clear()
            assert same(read_by(executor, fit, table), plain)
            assert len(tasks) >= 3 and len(reads) - len(tasks) == HERE.get(name, 0)
            assert name not in MANY or len(tasks) >= 3 * newton.PASSES
    if name in SUMS:
        assert same(fit(elsewhere(frame)), plain)
        assert same(fit(elsewhere(frame, (0, 5_000, 5_000, 21_111, N))), plain)


def test_objective_perturbation_without_a_public_n(quiet, monkeypatch):
    monkeypatch.setattr(newton, "KEEP", 100_000)

    def fit(table):
        options = {"relation": "add-remove", "method": "objpert", "event": 1, **KNOWN}
        return dp.dp_glm("b ~ x + z", table, **options)

    plain = fit(make())
    assert plain.released and same(read_by(Threads(2, WINDOW), fit, make()), plain)


def test_ranges_are_not_bought_of_a_table_elsewhere(quiet):
    budget = dp.Budget(eps=9, delta=1e-4)
    with pytest.raises(dp.errors.RequestError, match=r"bounds=\{'y': \(lower, upper\)\}"):
        dp.dp_npreg("y ~ x", elsewhere(make()), budget=budget, **{**CALL, "bounds": {"x": (-3, 3)}})
    assert budget.to_frame().empty


@pytest.mark.parametrize(
    "call",
    [
        lambda t, **k: dp.dp_release(t, ["x", "y"], bounds=BOUNDS, **k),
        lambda t, **k: dp.dp_eptr(np.mean, np.mean, 1.0, "x ~ 1", t, bounds=BOUNDS, **k),
        lambda t, **k: dp.dp_gptr(
            lambda Z, s: 0.0, lambda Z: 0.1, "x ~ 1", t, sensitivity=1.0, bounds=BOUNDS, **k
        ),
        lambda t, **k: dp.dp_glm("x ~ z", t, method="objpert", event=1, bounds=BOUNDS, **k),
    ],
)
def test_what_reads_rows_is_refused_elsewhere_before_the_charge(call):
    budget = dp.Budget(eps=9, delta=1e-4)
    table = dp.Elsewhere(
        dict.fromkeys(NAMES, "numeric"), n=N, sums=lambda task: pytest.fail("a task was sent")
    )
    with pytest.raises(dp.errors.SourceError, match="a method that reads only sums"):
        call(table, eps=1.0, delta=1e-6, budget=budget)
    assert budget.to_frame().empty


# -- chosen rows --------------------------------------------------------------------------------
def design():
    return build_design("y ~ x + z", Schema(x=Real(-3, 3), z=Real(-1, 1), y=Real(-6, 6)))


@pytest.mark.parametrize("keep", [None, "some"])
def test_chosen_rows_are_those_of_one_process(keep):
    frame, one = make(), design()
    if keep is not None:
        keep = np.sort(np.random.default_rng(1).permutation(N)[:7_000])
    plain = sampled(Rows(as_source(frame), N), one, [1, 2, 3], keep)
    for executor in (Threads(2, WINDOW), Threads(2, 2 * WINDOW)):
        found = sampled(Rows(as_source(frame), N, executor=executor), one, [1, 2, 3], keep)
        assert np.array_equal(found, plain, equal_nan=True)
    assert np.isnan(plain).all(axis=0).any() and not np.isnan(plain).all()


def test_chosen_rows_of_a_design_without_a_response():
    one = build_design("~ x + z + 0", Schema(x=Real(-3, 3), z=Real(-1, 1)), one_sided_ok=True)
    plain = sampled(Rows(as_source(make()), N), one, [1], None)
    found = sampled(Rows(as_source(make()), N, executor=Threads(2, WINDOW)), one, [1])
    assert np.array_equal(found, plain, equal_nan=True) and np.isnan(plain).any()


def test_a_part_returns_no_row_that_was_not_chosen():
    keep = np.array([5, 9_000, 20_000])
    task = Task(design(), Sampled((1,), 3, keep, True))
    frame = make()
    for executor in (Threads(2, WINDOW),):
        pieces = cut(executor, as_source(frame), ["x"])
        counts = [
            sum(len(at) for at in task.add_part(i, p.opener(p.data), p.first).sums.places)
            for i, p in enumerate(pieces)
        ]
    assert counts == [1, 1, 1, 0]


@pytest.mark.parametrize("what", ["type", "columns", "length", "place", "kind", "parts"])
def test_cells_of_a_wrong_shape_are_refused(what):
    task = Task(design(), Sampled((1, 3), 4, None, True))
    at, cells = np.arange(4), np.zeros((2, 4))
    good = Cells((at,), (cells,))
    assert added(task, [Partial(0, 4, good, "")], 1)[1] == 4
    bad = {
        "type": (at,), "columns": Cells((at,), (cells[:1],)), "length": Cells((at,), (cells[:, 1:],)),
        "place": Cells((at + 1,), (cells,)), "kind": Cells((at,), (cells.astype(np.float32),)),
        "parts": Cells((at, at), (cells, cells)),
    }[what]  # fmt: skip
    with pytest.raises(dp.errors.SourceError, match="not the partial sums"):
        added(task, [Partial(0, 4, bad, "")], 1)
    assert "confidential" in repr(good)


# -- rows of the parts, between passes ----------------------------------------------------------
@dataclasses.dataclass
class Shifting:
    """Parts whose number of rows changes after some passes; the total does not."""

    frame: pd.DataFrame
    after: int
    passes: int = 0

    def __call__(self, task):
        self.passes += 1
        cut = 10_000 if self.passes <= self.after else 10_001
        parts = [self.frame[:cut], self.frame[cut:]]
        found = [dp.partial_sums(task, i, part) for i, part in enumerate(parts)]
        if self.passes % 2:  # some engines leave an empty part out, and not always
            found.append(dp.partial_sums(task, 2, self.frame[:0]))
        return found


def descent(sums, n=N, **more):
    table = dp.Elsewhere(dict.fromkeys(NAMES, "numeric"), n=n, sums=sums)
    return dp.dp_ols("y ~ x", table, method="dpgd", iterations=4, **{**KNOWN, **more})


def test_a_part_that_changes_between_passes_ends_the_call(quiet):
    pytest.importorskip("cloudpickle")
    budget, sums = dp.Budget(eps=3, delta=1e-4), Shifting(make(), 2)
    with pytest.raises(dp.errors.SourceError, match="in a pass before") as caught:
        descent(sums, budget=budget)
    assert sums.passes == 3 and len(budget.charges) == 1
    assert not any(c.isdigit() for c in str(caught.value))
    assert descent(Shifting(make(), 99)).released


def test_nothing_is_compared_where_a_row_may_be_added_or_removed(quiet):
    """The error would say that a row came."""
    pytest.importorskip("cloudpickle")
    sums = Shifting(make(), 2)
    fit = descent(sums, relation="add-remove", n_guess=N)
    assert fit.released and sums.passes == 4


def test_rows_of_parts_do_not_print():
    rows = Rows(as_source(make()), N)
    rows.check_parts({0: 12_345, 1: 6})
    assert "12345" not in repr(rows) and "12345" not in str(vars(rows).keys())


@pytest.mark.parametrize("change", [0, 1])
def test_a_part_that_is_not_as_long_as_its_place_says_is_refused(change):
    """Places of the rows are counted first: a part that then gives others would be misplaced."""
    frame, one = make(100), design()
    cuts = [slice(0, 40), slice(40, 100)], [slice(0, 40 + change), slice(40 + change, 100)]

    class Counted:
        kinds, n, rescannable, schema_attr = {}, None, True, None

        def lengths(self):
            return [len(frame[cut]) for cut in cuts[0]]

        def partitions(self, names, rows):
            return [Partition(as_source, frame[cut]) for cut in cuts[1]]

    rows = Rows(Counted(), 100, executor=Threads(2, 1))
    if change:
        with pytest.raises(dp.errors.SourceError, match="in a pass before"):
            sampled(rows, one, [2])
    else:
        plain = sampled(Rows(as_source(frame), 100), one, [2], None)
        assert np.array_equal(sampled(rows, one, [2]), plain, equal_nan=True)
