"""Curves of the package are found by name before their room was imported."""

import subprocess
import sys

import pytest

from dpmodels.privacy import mechanisms

KNOWN = [name for name, path in mechanisms._CURVES.items() if isinstance(path, str)]


def test_every_named_curve_exists():
    assert len(KNOWN) >= 8
    for name in KNOWN:
        assert callable(mechanisms._resolve(name)), name


@pytest.mark.parametrize("name", ["glm-0.1.0.json"])
def test_a_saved_guarantee_is_read_in_a_fresh_process(name):
    from pathlib import Path

    path = Path(__file__).parents[1] / "results" / "files" / name
    code = f"import dpmodels as dp; print(dp.load({str(path)!r}).privacy.delta_at(1.0))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(out.stdout) <= 1.001e-6
