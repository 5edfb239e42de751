"""Importing the package stays light, and report code never loads what it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pandas", "scipy", "formulaic", "patsy", "matplotlib", "tabulate", "sklearn", "pyarrow")


def modules_after(code: str) -> set[str]:
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.partition(".")[0] for name in out.stdout.split()}


@pytest.mark.parametrize(
    "code",
    [
        "import dpmodels",
        "import dpmodels.results, dpmodels.interop, dpmodels.datasets, dpmodels.cli",
        "from dpmodels.results import Fit, Summary, etable, load",
    ],
)
def test_nothing_heavy(code):
    assert not modules_after(code) & set(HEAVY)


def test_the_check_can_fail():
    assert "tabulate" in modules_after("import dpmodels, tabulate")
