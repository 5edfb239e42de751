"""``sort="duckdb"``: people sorted on disk are, bit for bit, people in memory."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsWarning, PrivateStageError, RequestError, SourceError
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import schema_for
from dpmodels.sources import scratch
from dpmodels.sources import sorted as ordered
from dpmodels.sources.people import PeopleRows, count_people
from dpmodels.sources.rows import Coins
from dpmodels.sources.scratch import Scratch
from dpmodels.sources.sorted import SortedPeople, count_distinct
from dpmodels.sources.tasks import as_source
from dpmodels.units import Person

BOUNDS = {"y": (-3, 3), "x": (-1, 1)}
UNIT = Person("pid", sort="duckdb")


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    """Temporary files of a test stand here, and none is left at its end."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield
    assert not list(place.iterdir())


def panel(seed=1, ids=None):
    rng = np.random.default_rng(seed)
    counts = np.concatenate([[1, 2, 3000, 1], rng.integers(1, 60, 300)])
    who = np.repeat(np.arange(len(counts)) if ids is None else ids[: len(counts)], counts)
    n = len(who)
    x, y = rng.uniform(-1, 1, n), rng.normal(size=n)
    x[rng.random(n) < 0.02], y[0], y[1] = np.nan, -0.0, np.inf
    frame = pd.DataFrame({"pid": who, "x": x, "y": y})
    return frame.iloc[rng.permutation(n)].reset_index(drop=True)


def strange(frame):
    """Ids of every sort: whole numbers of any size, text, numbers as floats, and none."""
    spelled = {
        0: None, 1: "a", 2: "1", 3: 1, 4: 2.0, 5: 10**30, 6: -(10**30), 7: 2**63, 8: -(2**70),
        9: "é", 10: "\ud800", 11: True, 12: 1.5, 13: 10**31, 14: "", 15: "zz", 16: -(10**31),
    }  # fmt: skip
    ids = [spelled.get(i, i) for i in frame["pid"].tolist()]
    return {"pid": ids, "x": frame["x"].to_numpy(), "y": frame["y"].to_numpy()}


def fit(data, **more):
    call = {"eps": 5.0, "delta": 1e-4, "bounds": BOUNDS, "unit": "pid", "seed": 3, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return call.pop("verb", dp.dp_ols)("y ~ x", data, **call)


def design_of(data):
    kinds = as_source(data).kinds
    return build_design("y ~ x", schema_for(kinds, None, BOUNDS, ("x", "y")))


def passes(data, coins=None, **more):
    """Every block of two passes, in memory and on disk."""
    design = design_of(data)
    out = []
    for kind, count in ((PeopleRows, count_people), (SortedPeople, count_distinct)):
        source = as_source(data)
        rows = kind(source, count(source, UNIT), UNIT)
        again = []
        for _ in range(2):
            drawn = np.random.default_rng(4)
            toss = coins and Coins(coins, lambda m, g=drawn: g.integers(0, 256, m, np.uint8))
            again.append([
                (b.rows.tobytes(), b.starts.tolist(), b.counts.tolist())
                for b in rows.people(design, toss, **more)
            ])  # fmt: skip
        assert again[0] == again[1]
        out.append(again[0])
        rows.close()
    return out


@pytest.mark.parametrize("coins", [None, 4])
@pytest.mark.parametrize("make", [lambda f: f, strange], ids=["integers", "strange"])
def test_blocks_are_those_of_memory_to_the_bit(make, coins, monkeypatch):
    monkeypatch.setattr(ordered, "_PEOPLE", 7)
    memory, disk = passes(make(panel()), coins, height=500)
    assert memory == disk and len(memory) > 5 - 2 * bool(coins)


def test_people_longer_than_a_batch_and_batches_longer_than_people(monkeypatch):
    monkeypatch.setattr(ordered, "READ_ROWS", 100)  # one of 3000 rows lies in thirty batches
    memory, disk = passes(panel(), height=64)
    assert memory == disk and max(len(c) for _, c, _ in memory) > 1


def sources(frame, place):
    table = pa.Table.from_pandas(frame)
    path = place / "panel.parquet"
    pq.write_table(table, path, row_group_size=1000)
    by_person = place / "sorted.parquet"
    pq.write_table(table.sort_by("pid"), by_person, row_group_size=1000)
    duckdb = pytest.importorskip("duckdb")
    cuts = [frame.iloc[a : a + 777] for a in range(0, len(frame), 777)]
    yield path
    yield by_person
    yield table
    connection = duckdb.connect()  # before 1.5 a relation ends with it
    yield connection.from_arrow(table)
    yield cuts
    yield iter(cuts)


@pytest.mark.parametrize("more", [
    {}, {"relation": "add-remove", "n_guess": 300, "units": None},
    {"bounds": None, "schema": {"y": dp.Real(), "x": (-1, 1)}, "eps": 30.0},
    {"method": "adassp", "max_rows": 3},
])  # fmt: skip
def test_fits_are_those_of_memory_whatever_the_source(tmp_path, more):
    """An interleaving file, a sorted one, Arrow, a relation, parts, an iterator of them."""
    frame = panel()
    call = {"units": frame["pid"].nunique(), **more}
    want = fit(frame, **call).params
    for source in sources(frame, tmp_path):
        assert fit(source, sort="duckdb", **call).params.equals(want)


def test_people_are_counted_on_disk():
    for data in (panel(), strange(panel())):
        source = as_source(data)
        assert count_distinct(source, UNIT) == count_people(source, UNIT)
    assert fit(panel(), sort="duckdb").nobs == panel()["pid"].nunique()


def test_files_are_of_this_user_alone_and_gone_after_a_failure(monkeypatch):
    seen = []

    def broken(self, ids, cells):
        seen.append(self._place.stat().st_mode & 0o777)
        raise ValueError(str(cells))

    monkeypatch.setattr(ordered._Sorter, "add", broken)
    with pytest.raises(PrivateStageError) as told:
        fit(panel(), sort="duckdb", units=400)
    assert "array" not in str(told.value) and set(seen) == {0o700}


_KILLED = """
import os, signal, sys, tempfile
import numpy as np, pandas as pd
from dpmodels.formula.build import build_design
from dpmodels.formula.schema import schema_for
from dpmodels.sources import sorted as ordered
from dpmodels.sources.tasks import as_source
from dpmodels.units import Person

tempfile.tempdir, when = sys.argv[1], sys.argv[3]
if sys.argv[2] != "SIGKILL":
    signal.signal(getattr(signal, sys.argv[2]), signal.SIG_DFL)  # nohup has SIGHUP ignored
frame = pd.DataFrame({"pid": np.arange(20_000) % 7000, "x": 0.123456789012345, "y": 0.5})
design = build_design("y ~ x", schema_for(as_source(frame).kinds, None, {}, ("x", "y")))
die = lambda: os.kill(os.getpid(), getattr(signal, sys.argv[2]))
whole = ordered._Counts.add
if when == "sorted":  # while the sorted table is read
    def add(self, head, number):
        whole(self, head, number)
        die()
    ordered._Counts.add = add
rows = ordered.SortedPeople(as_source(frame), 7000, Person("pid", sort="duckdb"))
for block in rows.people(design):  # while a pass reads
    die()
"""


@pytest.mark.parametrize("when", ["sorted", "read"])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP", "SIGABRT"])
def test_a_killed_process_leaves_no_cell_and_its_folder_is_swept(tmp_path, name, when):
    """Cells had stayed on disk, in files that others could read."""
    place = tmp_path / "tmp"
    given = [sys.executable, "-c", _KILLED, str(place), name, when]
    done = subprocess.run(given, capture_output=True, check=False, timeout=120)
    assert done.returncode == -getattr(signal, name), done.stderr.decode()
    cell = np.float64(0.123456789012345).tobytes()
    (left,) = place.iterdir()
    assert left.stat().st_mode & 0o777 == 0o700
    assert not [f for f in left.rglob("*") if f.is_file() and cell in f.read_bytes()]
    ours = Scratch()
    assert [f.name for f in place.iterdir()] == [ours.path.name]
    ours.close()


def test_a_sort_that_spills_is_that_of_memory_and_leaves_no_cell_in_plain(monkeypatch):
    """DuckDB 2.0 refused to encrypt, so the sort failed exactly where it is for: beyond memory."""
    monkeypatch.setattr(ordered, "_MEMORY", "16MB")
    cell, seen, plain = 0.123456789012345, [], []
    whole = ordered._Counts.add

    def add(self, head, number):
        for file in Path(tempfile.tempdir).rglob("*"):
            found = file.read_bytes() if file.is_file() else b""
            seen.append(len(found))
            plain.append(np.float64(cell).tobytes() in found)
        whole(self, head, number)

    monkeypatch.setattr(ordered._Counts, "add", add)
    n = 400_000
    who = np.random.default_rng(3).integers(0, 70_000, n)
    frame = pd.DataFrame({"pid": who, "x": cell, "y": np.arange(n) / n})
    memory, disk = passes(frame)
    assert max(seen) > 1 << 20
    assert not (any(plain) and scratch.way_to_spill()[0])  # DuckDB encrypts from 1.4 on
    assert memory == disk


def test_a_sort_that_could_not_spill_is_refused_before_anything_is_read(monkeypatch):
    if not scratch.way_to_spill()[0]:
        pytest.skip("this DuckDB encrypts nothing")
    scratch.way_to_spill.cache_clear()
    monkeypatch.setattr(scratch, "_WAYS", ((scratch._ENCRYPTED, ("SET no_such_setting = 1",)),))
    monkeypatch.setattr("dpmodels.door.opened", None)  # nothing is charged
    with pytest.raises(SourceError, match="cannot write encrypted temporary files"):
        fit(panel(), sort="duckdb")
    scratch.way_to_spill.cache_clear()


def test_an_interrupt_inside_duckdb_is_an_interrupt(monkeypatch):
    """DuckDB takes Ctrl-C for itself and raises a RuntimeError, which was a failed stage."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("Ctrl-C is ignored here, as in a process of the background: it would never end")
    query = "SELECT count(*) FROM range(1000000000) a, range(1000000) b"

    def slow(self, files):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return self._do(query)

    monkeypatch.setattr(ordered._Sorter, "write", slow)
    with pytest.raises(KeyboardInterrupt):
        fit(panel(), sort="duckdb", units=400)


def test_a_folder_that_was_never_named_is_swept_when_it_is_old():
    made = Path(tempfile.mkdtemp(prefix="dpmodels-new-"))
    Scratch().close()
    assert made.is_dir()  # its maker may be about to lock it
    os.utime(made, (0, 0))
    Scratch().close()
    assert not made.exists()


def test_a_folder_in_use_is_not_swept():
    one = Scratch()
    with one.file("cells") as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
        assert [f.name for f in one.path.iterdir()] == ["lock"]
        two = Scratch()
        assert one.path.is_dir() and two.path.is_dir()
    two.close()
    one.close()


def test_what_is_refused(monkeypatch):
    with pytest.raises(RequestError, match="unit=, the column that names the person"):
        fit(panel(), unit=None, sort="duckdb")
    with pytest.raises(RequestError, match=r"sort='duckbd' is not one of.*Did you mean 'duckdb'"):
        fit(panel(), sort="duckbd")
    found = scratch.require_package.__globals__["importlib"].util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda m, *a: None if m == "duckdb" else found(m, *a)
    )
    with pytest.raises(SourceError, match=r'duckdb is needed for sort="duckdb": pip install duckdb'):
        fit(panel(), sort="duckdb")
