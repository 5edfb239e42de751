"""The compiled loops for rows, where they were built: the one module that takes addresses.

``exact/native/rows.c`` computes what :mod:`dpmodels.exact.products` and
:mod:`dpmodels.exact.steps` say, number for number, in less time; it reads columns of a table, and
adds up scoring passes. Nothing needs it: it is loaded at first use if it is there, was built from
the sources that lie beside it, runs on this processor, and gives the integers of numpy on one
hostile block; else numpy computes, silently. Under ``DPMODELS_KERNEL=still`` rows are computed as
they are defined.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError, RequestError, UtilityWarning
from dpmodels.exact.plain import (
    ONE_BY_ONE,
    bits_of,
    columns_seen,
    cut,
    gram_by_numpy,
    image_by_numpy,
)
from dpmodels.formula.program import written_by
from dpmodels.quiet import tell
from dpmodels.sources.windows import ROW_PAD

__all__ = ["Kernel", "gram_by_kernel", "image_by_kernel", "kernel", "required", "sources_number"]

_NATIVE = Path(__file__).parent / "native"
#: The library, and what it is built from.
NAMES = ("_rows.so", "_rows.dll")
SOURCES = ("rows.c", "rows.h", "passes.h", "cells.h")
#: Instruction sets, by the number that the library gives them.
SETS = ("plain", "avx2", "avx512")
_SWITCHES = ("auto", "off", "still", "need", *SETS)
#: Rows, columns and lanes that a call may have.
_ROWS, _COLUMNS, _ALIGNED = 8192, 4096, 64
#: Bytes between the cells of a column from which a line of the cache holds few rows: numpy, which
#: goes through one column after the other, then reads it once for each.
_APART = 128
#: Entries of a map, and columns of a Gram matrix, up to which two lanes beat BLAS.
_PLAIN_MAP, PLAIN_GRAM = 144, 8

#: Matrix, shift and reach of a map in whole steps.
Map = tuple[Array, Array, Array]

_I, _P, _D = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
#: Function -> (result, arguments), as ``rows.c`` has them (compared by a test).
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "dp_number": (ctypes.c_uint64, []),
    "dp_widest": (ctypes.c_int, []),
    "dp_need": (_I, [_I, _I]),
    "dp_load": (ctypes.c_int, [ctypes.c_int, _I, _I, _I, _P, _P, _P, _P, _P, _P, _I]),
    "dp_map": (ctypes.c_int, [ctypes.c_int, _I, _I, _I, _P, _P, _P, _P, _I, _P, _I, _P, _I]),
    "dp_map_exactly": (
        ctypes.c_int, [ctypes.c_int, _I, _I, _I, _P, _P, _P, _D, _D, _P, _I, _P, _I, _P, _I],
    ),
    "dp_steps": (
        ctypes.c_int,
        [ctypes.c_int, _I, _I, _I, _I, _P, _P, _P, _D, _D, _P, _I, _P, _I, _P, _P, _P, _I],
    ),
    "dp_gram": (ctypes.c_int, [ctypes.c_int, _I, _I, _P, _I, _P, _P, _I]),
    "dp_need_of_pass": (_I, [_I, _I]),
    "dp_scores": (
        ctypes.c_int, [ctypes.c_int, _I, _I, _P, _I, _P, _P, _P, _I, _P, _I, *[_P] * 3, _I, _P, _I],
    ),
    "dp_pass": (
        ctypes.c_int,
        [ctypes.c_int, _I, _I, _I, _I, _P, _P, _P, _D, _D, *[_P] * 5, _I, _P, _I, *[_P] * 3, _I, _P,
         _I],
    ),
    "dp_moments": (
        ctypes.c_int,
        [ctypes.c_int, _I, _I, _I, ctypes.c_int, _P, _P, _P, _D, _D, *[_P] * 4, _D, _D, _P, _P, _I],
    ),
    "dp_need_by_cell": (_I, [_I]),
    "dp_ball_by_cell": (
        ctypes.c_int, [ctypes.c_int, _I, _I, _I, _P, _P, _P, _I, _P, _P, _P, _P, _P, _I],
    ),
    "dp_seen_by_cell": (ctypes.c_int, [ctypes.c_int, _I, _I, _I, _P, _P, _P, _I, _P, _P]),
    "dp_scores_by_cell": (
        ctypes.c_int,
        [ctypes.c_int, _I, _I, _I, _P, _P, _P, _I, _P, _P, _P, _P, _P, _I, _P, _P, _P, _P, _I, _P,
         _P, _I],
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """Which path adds up rows in this process.

    Attributes
    ----------
    compiled : bool
    instructions : str
        "plain", "avx2" or "avx512"; empty where numpy computes.
    number : str
        Of the sources that the library was built from.
    reason : str
        Why numpy computes.
    """

    compiled: bool
    instructions: str = ""
    number: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.compiled:
            return f"compiled, {self.instructions}, {self.number}"
        return f"numpy: {self.reason}"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class _Loaded:
    """A library that passed its tests, and how far it is held down."""

    shown: Kernel
    library: Any = None
    set: int = 0


def sources_number() -> int:
    """Return what a library of the installed C sources has for a number: a hash of them."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((_NATIVE / name).read_bytes().replace(b"\r\n", b"\n"))
    return int.from_bytes(digest.digest()[:8], "big")


def kernel() -> Kernel:
    """Say which path adds up rows: the compiled kernel, or numpy, and why.

    Returns
    -------
    Kernel
        Prints one line: ``compiled, avx512, 3f2a91``, or ``numpy: not built``, ``switched off``,
        ``processor``, ``self-test failed``, ``other sources``.

    Privacy
    -------
    Reads no data. Both paths give every row the same integers.
    """
    return loaded().shown


def required() -> None:
    """Refuse a call where ``DPMODELS_KERNEL=need`` and numpy would compute. Reads nothing."""
    if _switch() == "need" and not kernel().compiled:
        raise RequestError(
            f"DPMODELS_KERNEL=need, but rows would be added up by {kernel()}. Build the package "
            "where there is a C compiler (pip install --no-cache-dir --force-reinstall), or leave "
            "the variable out"
        )


def _switch() -> str:
    """Return the switch: an unknown word is refused."""
    word = os.environ.get("DPMODELS_KERNEL") or "auto"
    if word not in _SWITCHES:
        raise RequestError(f"DPMODELS_KERNEL takes one of {', '.join(_SWITCHES)}")
    return word


def loaded() -> _Loaded:
    """Return the library that passed its tests, or why there is none."""
    return _loaded()


@functools.cache
def _loaded() -> _Loaded:
    """Load the library once, or say why not. Functions of the installation alone."""
    switch = _switch()
    if switch in ("off", "still"):
        return _Loaded(Kernel(False, reason="switched off"))
    path = next((p for p in (_NATIVE / name for name in NAMES) if p.is_file()), None)
    if path is None:
        return _Loaded(Kernel(False, reason="not built"))
    library = _opened(path)
    number = sources_number()
    if library is None or library.dp_number() != number:
        return _Loaded(Kernel(False, reason="other sources"))
    widest = library.dp_widest()
    held = SETS.index(switch) if switch in SETS else widest
    if held > widest:
        return _Loaded(Kernel(False, reason="processor"))
    found = _Loaded(Kernel(True, SETS[held], f"{number:016x}"[:6]), library, held)
    if not _agrees(found):
        tell(UtilityWarning("the compiled kernel failed its self-test: numpy adds up rows"))
        return _Loaded(Kernel(False, reason="self-test failed"))
    return found


def _opened(path: Path) -> Any:
    """Return the library with its prototypes; None: it is none of ours."""
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return library


def _agrees(found: _Loaded) -> bool:
    """Whether the library gives the numbers of numpy on one hostile block of 300 rows."""
    places = np.arange(13 * 311)
    block = np.cos(1.7 * places).reshape(13, 311)[:, 3:303]
    block[3, ::41] = np.nan
    block[5, 1::37] = np.inf
    block[:, 2::53] *= 1e300
    block[:, 4::59] *= 1e-310
    with np.errstate(all="ignore"):
        for rows in (5, 13):
            matrix, part = np.triu(np.ones((rows, rows)) / 3.0), block[:rows]
            matrix[0] = np.linspace(-3.0, 1e5, rows)
            own = _image(found, matrix, part, (0, 0))
            if not np.array_equal(own, image_by_numpy(matrix, part), equal_nan=True):
                return False
            if not _agrees_in_steps(found, matrix, part):
                return False
        z = (places * 48271 % 2097153 - 1048576).astype(float).reshape(13, 311)[:, 3:303]
        return np.array_equal(_gram(found, z), gram_by_numpy(z))


def compiled() -> bool:
    """Whether the compiled loops run, on registers that make them worth it."""
    found = loaded()
    return found.library is not None and found.set > 0


def reference() -> bool:
    """Whether rows are computed as they are defined, one column after the other."""
    return _switch() == "still"


def _agrees_in_steps(found: _Loaded, matrix: Array, block: Array) -> bool:
    """Whether whole steps that are in no doubt are those of one column after the other."""
    k, q = matrix.shape
    size = np.append(np.abs(matrix).max(axis=0), 0.0)
    parts = (matrix, np.zeros(k), np.stack([size, size]))
    own, _, doubtful = _steps(found, parts, k, ((q + 8) * 2.0**-52, 2.0**-40), block)
    image = sum(matrix[:, j, None] * block[j] for j in range(q))
    sure = ~doubtful
    return bool(sure.any()) and np.array_equal(own[:, sure], np.trunc(image[:, sure]))


# -- calls: every length is checked here and there ------------------------------------------------


def image_by_kernel(matrix: Array, block: Array, upper: tuple[int, int]) -> Array | None:
    """Return ``products.mapped`` by the kernel; None: numpy computes. By shapes alone."""
    found = loaded()
    k, q = matrix.shape
    if found.library is None or (found.set == 0 and k * q > _PLAIN_MAP):
        return None
    return _image(found, matrix, block, upper) if blocks_fit(k, block) and q <= _COLUMNS else None


def gram_by_kernel(z: Array) -> Array | None:
    """Return ``products.cross_product`` by the kernel; None: numpy computes. By shapes alone."""
    found = loaded()
    if found.library is None or (found.set == 0 and len(z) > PLAIN_GRAM):
        return None
    return _gram(found, z) if blocks_fit(len(z), z) else None


def steps_by_kernel(
    parts: Map, own: int, off: tuple[float, float], block: Array
) -> tuple[Array, Array, Any] | None:
    """Return (integers, their squared lengths, rows in doubt) of ``steps.Steps``, or None.

    None: numpy computes. By shapes alone.
    """
    found = loaded()
    k, q = parts[0].shape
    if found.library is None or (found.set == 0 and k * q > _PLAIN_MAP):
        return None
    if not blocks_fit(k, block) or q > _COLUMNS:
        return None
    return _steps(found, parts, own, off, block)


def load_by_kernel(
    columns: Sequence[Any], ranges: Sequence[tuple[float, float]], rows: Sequence[int], out: Array
) -> bool:
    """Write columns, cut to their ranges, into rows of ``out``; False: nothing was done.

    By types and shapes alone.
    """
    found = loaded()
    q, m = out.shape
    if found.library is None or not blocks_fit(1, out) or not out.flags.writeable or not columns:
        return False
    if not all(
        type(c) is np.ndarray and c.dtype == np.float64 and c.shape == (m,)
        and c.strides[0] % 8 == 0 and c.strides[0] >= _APART and c.flags.aligned
        for c in columns
    ):  # fmt: skip
        return False
    if not (len(columns) == len(ranges) == len(set(rows)) <= q):
        raise PrivacyBugError("as many ranges and rows as columns")
    places = np.array(
        [[c.__array_interface__["data"][0], c.strides[0] // 8] for c in columns], dtype=np.int64
    ).T.copy()
    limits = np.array(ranges, dtype=np.float64).T.copy()
    at = np.array(rows, dtype=np.int64)
    code = found.library.dp_load(
        found.set, len(columns), m, q, address(places[0]), address(places[1]), address(limits[0]),
        address(limits[1]), address(at), address(out), out.strides[0] // 8,
    )  # fmt: skip
    told(code)
    return True


written_by(load_by_kernel, first=True)


def blocks_fit(k: int, block: Array) -> bool:
    """Whether a block of rows is laid out as the kernel reads it."""
    q, m = block.shape
    apart, step = block.strides
    return (
        block.dtype == np.float64 and step == 8 and apart % 8 == 0 and m <= apart // 8
        and m <= _ROWS and 1 <= q <= _COLUMNS and 1 <= k <= _COLUMNS
        and block.flags.aligned
    )  # fmt: skip


def _image(found: _Loaded, matrix: Array, block: Array, upper: tuple[int, int]) -> Array:
    (k, q), m = matrix.shape, block.shape[1]
    out = np.empty((k, m + ROW_PAD))
    work = _work(found, k, q)
    behind = (
        address(block), block.strides[0] // 8, address(out), m + ROW_PAD, address(work), len(work),
    )  # fmt: skip
    if k * q <= ONE_BY_ONE:
        matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        seen = np.array([columns_seen(i, k, q, upper) for i in range(k)], dtype=np.int64)
        first, last = np.ascontiguousarray(seen[:, 0]), np.ascontiguousarray(seen[:, 1])
        code = found.library.dp_map(
            found.set, k, q, m, address(matrix), address(first), address(last), *behind
        )
    else:
        high, low, size, numbers = cut(matrix, bits_of(q))
        high, low, size = (np.ascontiguousarray(a, dtype=np.float64) for a in (high, low, size))
        code = found.library.dp_map_exactly(
            found.set, k, q, m, address(high), address(low), address(size), *numbers, *behind
        )
    told(code, work)
    return out[:, :m]


def _steps(
    found: _Loaded, parts: Map, own: int, off: tuple[float, float], block: Array
) -> tuple[Array, Array, Any]:
    matrix, shift, reach = parts
    (k, q), m = matrix.shape, block.shape[1]
    out, square, doubtful = np.empty((k, m + ROW_PAD)), np.empty(m), np.empty(m, dtype=bool)
    if shift.shape != (k,) or reach.shape != (2, q + 1):
        raise PrivacyBugError("a map of another shape than its matrix")
    work = _work(found, k, q)
    code = found.library.dp_steps(
        found.set, k, q, m, own, *map(address, parts), *off, address(block),
        block.strides[0] // 8, address(out), m + ROW_PAD, address(square), address(doubtful),
        address(work), len(work),
    )  # fmt: skip
    told(code, work)
    return out[:, :m], square, doubtful


def _gram(found: _Loaded, z: Array) -> Array:
    k, m = z.shape
    out, work = np.empty((k, k)), _work(found, k, k)
    code = found.library.dp_gram(
        found.set, k, m, address(z), z.strides[0] // 8, address(out), address(work), len(work)
    )
    told(code, work)
    return out


def _work(found: _Loaded, k: int, q: int) -> Array:
    """Return doubles for a call on a block."""
    return work_of(found.library.dp_need(k, q))


def work_of(size: int) -> Array:
    """Return so many doubles, at an address that vectors may have."""
    whole = np.empty(size + _ALIGNED // 8)
    start = -(whole.ctypes.data // 8) % (_ALIGNED // 8)
    return whole[start : start + size]


def address(array: Any) -> int:
    """Return the address of an array, which the caller keeps."""
    return int(array.__array_interface__["data"][0])


def told(code: int, work: Array | None = None) -> None:
    """Tell a refused call; and wipe what was worked in, which holds rows."""
    if work is not None:
        work[:] = 0.0
    if code:
        raise PrivacyBugError(f"the compiled kernel refused the lengths of a call ({code})")
