"""Importing the package stays light, and report code never loads what it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pandas", "scipy", "formulaic", "patsy", "matplotlib", "tabulate", "sklearn", "pyarrow")


def modules_after(code: str) -> set[str]:
    return {name.partition(".")[0] for name in names_after(code)}


def names_after(code: str) -> set[str]:
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(out.stdout.split())


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


PLAIN_FIT = """
import numpy as np, pandas as pd, dpmodels as dp
x = np.arange(1000.0) % 7
dp.dp_ols("y ~ x", pd.DataFrame({"x": x, "y": x}), bounds={"x": (0, 6), "y": (0, 6)}, eps=1.0,
          delta=1e-6, seed=1)
"""


def test_a_plain_fit_loads_no_module_of_another_kind():
    """Half of a first call is making classes: those of people, clusters and means wait."""
    other = ("sources.people", "scoring.units", "scoring.clusters", "scoring.mean_models",
             "models.noised.fit")  # fmt: skip
    found = names_after(PLAIN_FIT)
    assert "dpmodels.scoring.fit" in found
    assert not found & {f"dpmodels.{name}" for name in other}


def test_every_name_that_is_imported_on_first_use_is_there():
    """A public name whose module had moved failed only where somebody typed it."""
    import re
    from pathlib import Path

    import dpmodels as dp
    from dpmodels import results
    from dpmodels.verbs import function_of

    for holder in (dp, results):
        assert all(getattr(holder, name) is not None for name in holder.__all__)
    texts = (p.read_text(encoding="utf-8") for p in Path(dp.__file__).parent.rglob("*.py"))
    found = {place for text in texts for place in re.findall(r'"(dpmodels\.[a-z_.]+:\w+)"', text)}
    assert len(found) > 20
    for place in found:
        assert callable(function_of(place)), place
