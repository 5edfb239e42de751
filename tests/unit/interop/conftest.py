"""The hand-made fits of the results tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "dpmodels_results_conftest", Path(__file__).parents[1] / "results" / "conftest.py"
)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
make_fit, fit, parts = _module.make_fit, _module.fit, _module.parts
