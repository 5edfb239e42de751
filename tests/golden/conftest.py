"""Golden files: the hand-made fits of the results tests, and the comparison."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location(
    "dpmodels_results_conftest", HERE.parent / "unit" / "results" / "conftest.py"
)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
make_fit = _module.make_fit


@pytest.fixture
def golden():
    """Compare a text with tests/golden/files/NAME; DPMODELS_UPDATE_GOLDEN=1 writes it anew."""

    def check(name, text):
        path = HERE / "files" / name
        if os.environ.get("DPMODELS_UPDATE_GOLDEN"):
            path.write_text(text + "\n", encoding="utf-8", newline="\n")
        assert path.is_file(), f"no golden file {name}: run with DPMODELS_UPDATE_GOLDEN=1"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return check
