"""What setup.cfg cannot say: the optional compiled loops (dpmodels/exact/native), one library."""

import hashlib
import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # a setuptools that somebody brings along: no wheel is made with it
    from setuptools import Command as bdist_wheel

NATIVE = Path("dpmodels/exact/native")
SOURCES = ("rows.c", "rows.h", "passes.h", "cells.h")
DIGEST = hashlib.sha256(
    b"".join((NATIVE / name).read_bytes().replace(b"\r\n", b"\n") for name in SOURCES)
).digest()
#: With DPMODELS_KERNEL=need a compile that fails ends the build; else numpy computes.
NEEDED = os.environ.get("DPMODELS_KERNEL") == "need"
WITHOUT = os.environ.get("DPMODELS_KERNEL") == "off"


class Plain(build_ext):
    """A library that is loaded by ctypes: no Python in it, nor in its name."""

    def run(self):
        """Build, after what an earlier build left behind is gone."""
        for old in (Path(self.build_lib), Path()):  # never packed where this compile fails
            for name in ("_rows.so", "_rows.dll"):
                (old / NATIVE / name).unlink(missing_ok=True)
        super().run()

    def get_ext_filename(self, fullname):
        """Leave Python's tag out."""
        suffix = ".dll" if os.name == "nt" else ".so"
        return str(Path(*fullname.split("."))) + suffix

    def get_export_symbols(self, ext):
        """Leave PyInit out."""
        return ext.export_symbols


class AnyPython(bdist_wheel):
    """One wheel for all Pythons of a platform."""

    def get_tag(self):
        """Name the platform alone."""
        return "py3", "none", super().get_tag()[2]


ROWS = Extension(
    "dpmodels.exact.native._rows",
    [str(NATIVE / "rows.c")],
    depends=[str(NATIVE / name) for name in SOURCES],
    define_macros=[("DP_NUMBER", f"0x{DIGEST[:8].hex()}ULL")],
    extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno",
                        "-fno-trapping-math", "-fvisibility=hidden", "-Wno-psabi"],
    optional=not NEEDED,
)  # fmt: skip

setup(
    ext_modules=[] if WITHOUT else [ROWS],
    cmdclass={} if WITHOUT else {"build_ext": Plain, "bdist_wheel": AnyPython},
)
