"""The compiled kernel gives numpy's numbers, or is not used: hostile blocks, mutants, sanitizers."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import NotPrivateWarning, PrivacyBugError
from dpmodels.exact import kernel as module
from dpmodels.exact.kernel import PROTOTYPES, SETS, Kernel, _gram, _image, _Loaded, sources_number
from dpmodels.exact.plain import gram_by_numpy, image_by_numpy

NATIVE = Path(module.__file__).parent / "native"
ROOT = Path(module.__file__).parents[2]
#: As setup.py has them.
FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
         "-fvisibility=hidden", "-Wno-psabi", "-fPIC", "-shared"]  # fmt: skip
HEIGHTS = (0, 1, 2, 127, 128, 129, 1013, 8191, 8192)
WIDTHS = (*range(1, 66), 152)
#: Of which all heights are tried.
ALL_HEIGHTS = (1, 5, 12, 13, 20, 52)


def compiler():
    found = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if found is None:
        pytest.skip("no C compiler here")
    return found


def built(folder, changes=(), flags=(), number=None):
    """Build the sources, changed, into a folder; the path of the library."""
    folder.mkdir(exist_ok=True)
    for name in module.SOURCES:
        text = (NATIVE / name).read_text()
        for where, old, new in changes:
            if where == name:
                assert old in text, old
                text = text.replace(old, new)
        (folder / name).write_text(text)
    out = folder / "_rows.so"
    value = sources_number() if number is None else number
    line = [compiler(), *FLAGS, *flags, f"-DDP_NUMBER={value}ULL", "-o", str(out), "rows.c"]
    subprocess.run(line, cwd=folder, check=True, capture_output=True, text=True)
    return out


def loaded(path):
    library = module._opened(path)
    assert library is not None
    return [_Loaded(Kernel(True, SETS[i], "x"), library, i) for i in range(library.dp_widest() + 1)]


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The kernel, once for every instruction set of this processor."""
    return loaded(built(tmp_path_factory.mktemp("kernel")))


def hostile(rng, q, m, spare=5, offset=0):
    """A block of cells of all kinds; ``offset`` shifts it against the borders of vectors."""
    block = rng.normal(size=(q, m + spare + offset))
    block *= 10.0 ** rng.integers(-9, 9, size=(q, 1))
    for i, odd in enumerate((np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, -0.0)):
        block[rng.integers(q), i + 3 :: 17] = odd
    with np.errstate(all="ignore"):
        block[:, 2::29] *= 1e300
        block[:, 5::31] *= 1e-315
    block[:, 7::37] = 0.0
    block[:, 8::41] = np.nan
    return block[:, offset : offset + m]


def triangular(rng, k, q):
    """A matrix as a scoring pass has it: upper triangular, rows of zeros, and one that sees all."""
    out = np.triu(rng.normal(size=(k, q)) * 10.0 ** rng.integers(-3, 4, size=(k, 1)))
    out[-1] = rng.normal(size=q)
    return out


def matrices(rng, k, q):
    yield rng.normal(size=(k, q)), (0, 0)
    yield np.zeros((k, q)), (0, 0)
    if k > 2:
        yield triangular(rng, k, q), (0, 0)
    if 2 < q <= k:
        yield triangular(rng, k, q), (q - 1, q - 1)


def disagreements(sets, widths=WIDTHS, heights=HEIGHTS, seed=0):
    """Where an image or a Gram matrix is not numpy's."""
    rng, out = np.random.default_rng(seed), []
    for q in widths:
        some = q in ALL_HEIGHTS
        for k in {1, 3, q, q + 1, q + -q % 4} if some else {q + 1}:
            for m in heights if some else heights[1:6:2]:
                block = hostile(rng, q, m, offset=int(rng.integers(4)))
                z = np.trunc(rng.uniform(-1, 1, (k, m + 3)) * 2**20)[:, 1 : m + 1]
                z[:, ::7] = 2.0**20
                with np.errstate(all="ignore"):
                    gram = gram_by_numpy(z)
                    for one in sets:
                        if not np.array_equal(_gram(one, z), gram):
                            out.append(("gram", one.set, k, m))
                    for matrix, upper in matrices(rng, k, q):
                        image = image_by_numpy(matrix, block, upper)
                        out += [
                            ("image", one.set, k, q, m)
                            for one in sets
                            if not np.array_equal(
                                _image(one, matrix, block, upper), image, equal_nan=True
                            )
                        ]
    return out


def test_every_number_is_that_of_numpy(sets):
    """Every instruction set, odd heights and places, cells of all kinds, cells that are none."""
    assert disagreements(sets) == []


def test_a_row_is_the_same_wherever_it_stands(sets):
    """Cuts of a table, and two threads at once."""
    rng = np.random.default_rng(1)
    matrix, block = triangular(rng, 20, 20), hostile(rng, 20, 5000)
    for one in sets:
        whole = _image(one, matrix, block, (0, 0))
        cut = [_image(one, matrix, block[:, a : a + 77], (0, 0)) for a in range(0, 5000, 77)]
        assert np.array_equal(np.hstack(cut), whole, equal_nan=True)
        found = {}

        def work(i, one=one, found=found):
            found[i] = [_image(one, matrix, block, (0, 0)) for _ in range(5)]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for images in found.values():
            assert all(np.array_equal(image, whole, equal_nan=True) for image in images)


# -- mutants of the C text ------------------------------------------------------------------------
MUTANTS = {
    "a fused product in an image": (
        "rows.h", "vec u = *(const vec *)p * ALL(row[j]);\n",
        "vec u = {0}; s = FMA(*(const vec *)p, ALL(row[j]), s);\n",
    ),
    "a part that is not cut": (
        "rows.h", "t = (t + ALL(second)) - ALL(second);\n            *(vec *)p", "*(vec *)p",
    ),
    "rounded twice": ("rows.h", "(s##n##a + t##n##a) * back[0]", "s##n##a * back[0] + t##n##a * back[0]"),
    "a cell that is not finite lets rows pass": (
        "rows.h", "| (none & ((bits){0} + INT64_MAX))", "",
    ),
    "one product left out": ("rows.h", "s##n##b = FMA(l, hb, s##n##b);", ""),
    "columns skipped though they count": ("rows.h", "int64_t j = 0, end = q;", "int64_t j = i ? i + 1 : 0, end = q;"),
    "rows left out of a Gram matrix": ("rows.h", "for (int64_t at = whole; at < m; at++)", "for (int64_t at = whole + 1; at < m; at++)"),
    "a chunk read twice": ("rows.h", "at += CHUNK)", "at += CHUNK - 8)"),
    "the first column of a row dropped": ("rows.h", "int64_t j = from[i] + 1; j < to[i]", "int64_t j = from[i] + 2; j < to[i]"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_text_are_caught(name, tmp_path):
    # one instruction set takes a third of the time; only wider ones have fused products
    flags = [] if "fused" in name else ["-O1", "-DDP_PLAIN"]
    mutant = loaded(built(tmp_path / "mutant", [MUTANTS[name]], flags))
    assert disagreements(mutant, widths=(5, 12, 13, 20), heights=(1, 129, 1013))


# -- lengths and prototypes -----------------------------------------------------------------------
def test_prototypes_are_those_of_the_text():
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / "rows.c").read_text(), flags=re.DOTALL)
    kinds = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "double": ctypes.c_double,
             "uint64_t": ctypes.c_uint64}  # fmt: skip
    found = {}
    for result, name, arguments in re.findall(r"PUBLIC (\w+) (\w+)\(([^)]*)\)", text):
        parts = [] if arguments == "void" else [a.strip() for a in arguments.split(",")]
        found[name] = kinds[result], [
            ctypes.c_void_p if "*" in p else kinds[p.split()[0]] for p in parts
        ]
    assert found == PROTOTYPES


def test_lengths_out_of_range_are_refused_before_anything_is_read(sets):
    lib = sets[0].library
    work = module._work(sets[0], 4, 4)
    at, size = module.address(work), len(work)
    assert lib.dp_gram(0, 4, 0, None, 0, at, at, size) == 0
    for code, arguments in {
        1: [(0, 0, 9, None, 9, None, at, size), (0, 4097, 9, None, 9, None, at, size)],
        2: [(0, 4, 8193, None, 9000, None, at, size), (0, 4, 9, None, 8, None, at, size),
            (0, 4, -1, None, 8, None, at, size)],
        3: [(0, 4, 9, None, 9, None, at + 8, size), (0, 4, 9, None, 9, None, at, size - 1)],
        4: [(-1, 4, 9, None, 9, None, at, size), (3, 4, 9, None, 9, None, at, size)],
    }.items():  # fmt: skip
        assert [lib.dp_gram(*a) for a in arguments] == [code] * len(arguments)
    seen = np.array([0, 5, 0, 0], dtype=np.int64)
    first = module.address(seen)
    assert lib.dp_map(0, 4, 4, 9, None, first, first, None, 9, None, 9, at, size) == 5
    with pytest.raises(PrivacyBugError, match="lengths"):
        module.told(2)


def test_blocks_of_other_layouts_are_left_to_numpy(sets, monkeypatch):
    monkeypatch.setattr(module, "_loaded", lambda: sets[-1])
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5, 40))
    assert module.gram_by_kernel(z) is not None
    for other in (z[:, ::2], z.T.copy().T, z.astype(np.float32), np.broadcast_to(z[:1], (5, 40)),
                  np.zeros((5, 8200)), z[:0]):  # fmt: skip
        assert module.gram_by_kernel(other) is None


# -- what is loaded, and what is said -------------------------------------------------------------
CHILD = """
    import sys, dpmodels as dp
    from pathlib import Path
    from dpmodels.exact import kernel
    folder = sys.argv[1]
    if folder:
        kernel.NAMES = (folder + "/_rows.so",)
    print(dp.kernel())
"""


def said(folder="", **env):
    env = {**{k: v for k, v in os.environ.items() if k != "DPMODELS_KERNEL"}, **env}
    out = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(CHILD), str(folder)], cwd=ROOT, env=env,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return out.stdout.strip(), out.stderr


def test_what_is_said_of_the_path(tmp_path):
    assert said(tmp_path)[0] == "numpy: not built"
    good = built(tmp_path / "good").parent
    assert re.fullmatch(r"compiled, (plain|avx2|avx512), [0-9a-f]{6}", said(good)[0])
    assert said(good, DPMODELS_KERNEL="plain")[0].startswith("compiled, plain, ")
    for word in ("off", "still"):
        assert said(good, DPMODELS_KERNEL=word)[0] == "numpy: switched off"


def test_a_library_of_other_sources_is_refused(tmp_path):
    stale = built(tmp_path / "stale", number=12345).parent
    assert said(stale)[0] == "numpy: other sources"
    corrupt = tmp_path / "corrupt"
    corrupt.mkdir()
    (corrupt / "_rows.so").write_bytes(b"\x7fELF" + bytes(100))
    assert said(corrupt)[0] == "numpy: other sources"


def test_a_library_that_is_wrong_fails_its_test_and_warns_once(tmp_path):
    wrong = built(tmp_path / "wrong", [MUTANTS["one product left out"]]).parent
    line, errors = said(wrong)
    assert line == "numpy: self-test failed" and errors.count("self-test") == 1


def test_a_kernel_that_is_needed_and_missing_stops_the_call(monkeypatch):
    """Before anything is read or charged."""
    monkeypatch.setattr(module, "_loaded", lambda: _Loaded(Kernel(False, reason="not built")))
    monkeypatch.setenv("DPMODELS_KERNEL", "need")
    budget = dp.Budget(eps=1, delta=1e-5)
    frame = pd.DataFrame({"y": [0.0, 1.0] * 50, "x": np.arange(100.0)})
    with pytest.raises(dp.errors.RequestError, match="not built"):
        dp.dp_ols("y ~ x", frame, bounds={"y": (0, 1), "x": (0, 100)}, eps=1, delta=1e-6,
                  budget=budget)  # fmt: skip
    assert not budget.charges
    monkeypatch.setenv("DPMODELS_KERNEL", "perhaps")
    with pytest.raises(dp.errors.RequestError, match="takes one of"):
        module.required()


def test_fits_are_the_same_bit_for_bit(sets, monkeypatch, tmp_path):
    """Frame and file, few columns and many, both relations: numpy and every instruction set."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20_000, 15)), columns=[f"x{j}" for j in range(15)])
    frame["y"] = frame.sum(axis=1) + rng.normal(size=len(frame))
    frame.iloc[::97, 3] = np.nan
    path = tmp_path / "t.csv"
    frame[:3000].to_csv(path, index=False)
    bounds = dict.fromkeys(frame.columns, (-3, 3))
    many = "y ~ " + " + ".join(f"x{j}" for j in range(15))

    def fits():
        out = []
        for data, formula, options in (
            (frame, many, {}),
            (frame, "y ~ x0 + x3", {}),
            (frame, many, {"relation": "add-remove", "n_guess": 20_000}),
            (path, many, {"bounds": bounds}),
        ):
            with pytest.warns(NotPrivateWarning):
                fit = dp.dp_ols(formula, data, eps=50, delta=1e-6, seed=3, **{"bounds": bounds, **options})
            out.append(np.concatenate([fit.params, fit.bse]))
        return out

    monkeypatch.setattr(module, "_loaded", lambda: _Loaded(Kernel(False, reason="switched off")))
    expected = fits()
    for one in sets:
        monkeypatch.setattr(module, "_loaded", lambda one=one: one)
        assert all(np.array_equal(a, b) for a, b in zip(fits(), expected, strict=True))


def test_nothing_else_takes_addresses():
    for path in (ROOT / "dpmodels").rglob("*.py"):
        if "ctypes" in path.read_text() and path.name != "quiet.py":  # mallopt: no address of ours
            assert path == Path(module.__file__), path


def test_versions_are_printed_without_paths(capsys):
    dp.show_versions()
    out = capsys.readouterr().out
    for name in ("dpmodels", "Python", "numpy", "pyarrow", "kernel", "platform"):
        assert re.search(rf"^{name} ", out, re.MULTILINE), name
    assert os.sep not in out.replace("x86_64", "") and str(dp.kernel()) in out


def sanitized(folder, name, body, *flags):
    """What a test module says of the sources under the sanitizers, in a process of its own.

    ``body`` has the module as t, the libraries as sets, and puts what differs into found.
    """
    found = subprocess.run(
        [compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(found):
        pytest.skip("no sanitizers here")
    checks = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover"]
    library = built(folder, flags=["-g", *flags, *checks])
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.unit.exact import {name} as t
from tests.unit.exact.test_kernel import loaded
sets = loaded(Path({str(library)!r}))
{textwrap.dedent(body)}
print("numbers differ" if found else "clean")
"""
    env = {**os.environ, "LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0", "DPMODELS_KERNEL": "off"}
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    return out.stdout.strip()[-30:] or out.stderr[-2000:]


def test_under_the_sanitizers(tmp_path):
    """Addresses and undefined behaviour: the hostile blocks once more."""
    body = "found = t.disagreements(sets, (1, 5, 12, 13, 53), (0, 1, 127, 128, 129, 8192))"
    assert sanitized(tmp_path / "sanitized", "test_kernel", body).endswith("clean")
