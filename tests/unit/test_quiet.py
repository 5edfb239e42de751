"""The guard of private stages: what user code raises, and threads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from dpmodels.errors import PrivateStageError
from dpmodels.quiet import guarded, quiet

SECRET = "sentinel-4711"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_come_through_fresh(kind):
    """SystemExit("row 17 ...") and KeyboardInterrupt kept their text."""

    class Mine(kind):
        pass

    def stage():
        raise Mine(SECRET)

    with pytest.raises(kind) as caught:
        guarded(stage)
    error = caught.value
    assert type(error) is kind and error.args == ()
    assert error.__context__ is None and error.__cause__ is None
    names = [entry.name for entry in caught.traceback]
    assert "stage" not in names


def test_an_interrupt_inside_duckdb_is_an_interrupt():
    """Of 568 interrupts two came as an error, by which DuckDB said how reading a frame failed."""
    duckdb = pytest.importorskip("duckdb")
    read = "Invalid Input Error: reading the schema of 'part' failed: KeyboardInterrupt: "
    cell = "Conversion Error: Could not convert string 'KeyboardInterrupt' to INT32"
    for error, kind in (
        (RuntimeError("Query interrupted"), KeyboardInterrupt),
        (duckdb.InvalidInputException(read), KeyboardInterrupt),
        (duckdb.ConversionException(cell), PrivateStageError),
    ):

        def stage(error=error):
            raise error

        with pytest.raises(kind):
            guarded(stage)


def test_other_errors_are_withheld():
    for error in (ValueError(SECRET), asyncio.CancelledError(SECRET), BaseException(SECRET)):

        def stage(error=error):
            raise error

        with pytest.raises(PrivateStageError) as caught:
            guarded(stage)
        assert SECRET not in str(caught.value) and caught.value.__context__ is None


class _Kills(SystemExit):
    pass


@pytest.mark.parametrize("kind", [ValueError, SystemExit, asyncio.CancelledError, _Kills])
def test_user_code_that_raises_is_a_value_not_an_error(kind):
    """A CancelledError of user code was an error on one neighbour only."""
    from dpmodels.own.proposed import _number, safe_number, safe_vector

    def fails(*_):
        raise kind(SECRET)

    x = np.zeros((3, 1))
    assert safe_vector(fails, x, 2).tolist() == [0.0, 0.0]
    assert safe_number(fails, x) == 0.0
    assert _number(fails, x) == np.inf


def test_a_vote_that_cannot_be_hashed_is_an_abstention():
    import dpmodels as dp

    class Odd:
        def __init__(self, kind):
            self.kind = kind

        def __hash__(self):
            raise self.kind(SECRET)

    class Unequal(Odd):
        def __hash__(self):
            return hash("a")

        def __eq__(self, other):
            raise self.kind(SECRET)

    kinds = (TypeError, ValueError, RuntimeError, SystemExit, asyncio.CancelledError)
    votes = ["a"] * 500 + [c(k) for c in (Odd, Unequal) for k in kinds]
    assert "a" in repr(dp.dp_vote(votes, ["a", "b"], eps=5, delta=1e-6))


def test_a_block_silences_its_own_thread_alone():
    """One "ignore" was set for the whole process: other threads lost their warnings, too."""
    inside, heard = threading.Event(), threading.Event()

    def fits():
        with quiet():
            inside.set()
            warnings.warn("not heard", UserWarning, stacklevel=1)
            assert heard.wait(60)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = threading.Thread(target=fits)
        thread.start()
        assert inside.wait(60)
        warnings.warn("heard", UserWarning, stacklevel=1)
        heard.set()
        thread.join()
        with quiet(), quiet():
            warnings.warn("not heard", UserWarning, stacklevel=1)
        warnings.warn("heard again", UserWarning, stacklevel=1)
    assert [str(w.message) for w in caught] == ["heard", "heard again"]


def test_a_block_under_errors_raises_nothing_and_others_do():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quiet():
            warnings.warn("silent", UserWarning, stacklevel=1)
        with pytest.raises(UserWarning, match="loud"):
            warnings.warn("loud", UserWarning, stacklevel=1)
        before = list(warnings.filters)
        with quiet():
            pass
        assert warnings.filters == before  # one filter, once


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_hears_its_warnings():
    """Saved filters of a block in another thread were never restored in a child."""
    inside, done = threading.Event(), threading.Event()

    def fits():
        with quiet():
            inside.set()
            assert done.wait(60)

    thread = threading.Thread(target=fits)
    thread.start()
    assert inside.wait(60)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # fork beside threads
        child = os.fork()
    if not child:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("heard", UserWarning, stacklevel=1)
            with quiet():
                warnings.warn("not heard", UserWarning, stacklevel=1)
        os.write(write, ",".join(str(w.message) for w in caught).encode())
        os._exit(0)
    os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.read(read, 100) == b"heard"


def test_seeded_fits_in_threads_all_say_so():
    """Of 12 seeded fits in four threads two said that they are not private."""
    import pandas as pd

    import dpmodels as dp

    frame = pd.DataFrame({"x": np.linspace(0, 1, 400)})

    def fits():
        for seed in range(3):
            dp.dp_mean("x ~ 1", frame, eps=1, delta=1e-6, bounds={"x": (0, 1)}, seed=seed)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=fits) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(w.category is dp.errors.NotPrivateWarning for w in caught) == 12


def test_no_other_block_of_the_package_touches_the_filters():
    """Only docstrings, the command line and the audit kit may use catch_warnings."""
    import ast
    from pathlib import Path

    import dpmodels

    root = Path(dpmodels.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "catch_warnings":
                found.append(path.relative_to(root).parts[:2])
    # beside the command line and the kit a study and R, which keep what their calls warn of: each
    # has a process to itself
    kept = {("audit", "kit.py"), ("study", "running.py"), ("interop", "r.py")}
    allowed = {("cli.py",), ("quiet.py",), *kept}
    assert set(found) <= allowed, set(found) - allowed
    assert found.count(("study", "running.py")) == 1  # `keep_warnings`, and no other block of that file


def test_outputs_of_user_mechanisms_have_few_digits():
    from dpmodels.own.proposed import last_bits
    from dpmodels.privacy.run import Run

    out = np.array([np.pi, -1e-30 / 3, 1e30 / 7, 0.0, 5e-324])
    got = Run.on_grid(out, last_bits(out))
    assert got[3:].tolist() == [0.0, 5e-324]
    assert got[:3] == pytest.approx(out[:3], rel=2.0**-32)
    for value in got[:3].tolist():
        numerator, _ = value.as_integer_ratio()
        while numerator % 2 == 0:
            numerator //= 2
        assert abs(numerator) <= 2**32


def test_libraries_are_looked_up_again_when_modules_have_come(monkeypatch):
    import sys

    import threadpoolctl

    import dpmodels.resources as guard

    made = []

    class Counted(threadpoolctl.ThreadpoolController):
        def __init__(self):
            made.append(1)
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Counted)
    monkeypatch.setattr(guard, "_FOUND", [])
    for _ in range(3):
        assert guarded(lambda: 1) == 1
    assert len(made) == 1
    monkeypatch.setitem(sys.modules, "a_module_that_came", sys)
    infos = guarded(lambda: [x["num_threads"] for x in threadpoolctl.threadpool_info()])
    assert len(made) == 2 or len(made) == 3  # threadpool_info looks for itself
    assert set(infos) <= {1}


@pytest.mark.parametrize("kind", ["table", "moments", "release"])
def test_estimates_run_on_one_thread_too(monkeypatch, backend_with, kind):
    """Only the private stage did: an estimate at p = 30 took 60 ms on two threads for 16."""
    import pandas as pd
    import threadpoolctl

    import dpmodels as dp
    from dpmodels import registry
    from dpmodels.models import moments
    from dpmodels.models.noised import fit

    entry = registry.resolve("dp_ols", "ssp")
    module = {"table": entry.backend, "moments": moments, "release": fit}[kind]
    before = module.estimate
    frame = dp.datasets.rand_hie().head(2000)[["mdvis", "physlm"]]
    frame = pd.DataFrame(frame)  # without the declared schema of the file
    paid = {"eps": 2, "delta": 1e-6, "bounds": {"mdvis": (0, 50), "physlm": (0, 1)}}
    seen = []

    def watched(plan, release):
        seen.extend(x["num_threads"] for x in threadpoolctl.threadpool_info())
        return before(plan, release)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, given = frame, {**paid, "scoring": False}
        if kind == "moments":
            data, given = dp.dp_moments("mdvis + physlm", frame, **paid), {}
        elif kind == "release":
            data, given = dp.dp_release(frame, ["mdvis", "physlm"], **paid, accept_no_estimate=True), {}
        if kind == "table":
            backend_with("dp_ols", "ssp", estimate=watched)
        else:
            monkeypatch.setattr(module, "estimate", watched)
        with threadpoolctl.threadpool_limits(2):
            dp.dp_ols("mdvis ~ physlm", data, **given)
    assert seen and set(seen) == {1}


_INTERRUPTED = """
import _thread, signal, threading, time, warnings
from dpmodels.quiet import lock, quiet

# a job in the background of a script is started with interrupts ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
own = lock()
left, ready, last = [400], [], [time.monotonic()]

def press():
    # once each time the blocks are open: an interrupt outside of them ends the program, or is one
    # of those that Python's own end never comes back from
    while left[0]:
        time.sleep(2e-4)
        waited = time.monotonic() - last[0]
        if ready or waited > 5.0:  # Python ignores one that comes while it clears up an object
            ready.clear()
            last[0] = time.monotonic()
            _thread.interrupt_main()

hand = threading.Thread(target=press, daemon=True)
hand.start()
while left[0]:
    try:
        ready.append(True)
        while True:
            with quiet():
                with own:
                    pass
    except KeyboardInterrupt:
        left[0] -= 1
def another():
    with quiet(), own:
        print("open")

thread = threading.Thread(target=another, daemon=True)
thread.start()
thread.join(20)
assert not thread.is_alive(), "a lock was left closed"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("heard")
assert caught, "warnings were left off"
"""


def test_an_interrupt_leaves_no_lock_closed_and_no_warning_off():
    """A lock whose ``__enter__`` is Python code was left closed by half of such interrupts."""
    given = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and done.stdout == "open\n", done.stderr
