"""Shared fixtures: small public tables, real data where the machine has them, quiet fits."""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]


def data_folder():
    """Return the folder of real data sets, or None: they are never part of the repository."""
    for folder in (os.environ.get("DPMODELS_DATA"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    return None


@pytest.fixture(scope="session")
def wine():
    folder = data_folder()
    if folder is None or not (folder / "winequality.csv.gz").exists():
        pytest.skip("the wine data are not on this machine")
    return pd.read_csv(folder / "winequality.csv.gz")


@pytest.fixture(scope="session")
def real_data():
    """Return a function name -> DataFrame for the optional real data sets."""

    def read(name):
        folder = data_folder()
        if folder is None or not (folder / name).exists():
            pytest.skip(f"{name} is not on this machine")
        return pd.read_csv(folder / name)

    return read


def simulate(n, seed=0, beta=(0.5, 1.0, -0.7), sd=0.5):
    """A table with columns a, b in [-1, 1] and a linear response y, mostly within [-4, 4]."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, size=(2, n))
    y = beta[0] + beta[1] * a + beta[2] * b + rng.normal(0, sd, n)
    return pd.DataFrame({"a": a, "b": b, "y": y})


@pytest.fixture
def table():
    return simulate


@pytest.fixture
def bounds():
    return {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}


@pytest.fixture
def quiet():
    """Silence the package's own public warnings (seeded, no reply, utility)."""
    from dpmodels.errors import DPModelsWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        yield


@pytest.fixture
def noiseless(quiet):
    """All noise is zero and exceptions of the private stage keep their text."""
    from dpmodels._testing import ZeroNoise, noise_source

    with noise_source(ZeroNoise()):
        yield


def pytest_terminal_summary(terminalreporter):
    """Say how much was not tested, and why: a skip must not pass for a success."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    reasons = [str(r.longrepr[2] if isinstance(r.longrepr, tuple) else r.longrepr) for r in skipped]
    data = sum("not on this machine" in reason for reason in reasons)
    packages = sum("could not import" in reason for reason in reasons)
    terminalreporter.write_line(
        f"not tested: {len(skipped)} skipped, {data} for want of the data folder (DPMODELS_DATA), "
        f"{packages} for want of a package, {len(skipped) - data - packages} by design"
    )


@pytest.fixture
def backend_with(monkeypatch):
    """Replace functions of the backend of a method, for the time of a test."""
    from dataclasses import replace

    from dpmodels import registry

    def change(verb, method, **functions):
        entry = registry.resolve(verb, method)
        changed = replace(entry, backend=replace(entry.backend, **functions))
        monkeypatch.setitem(registry._REGISTRY, (verb, method), changed)

    return change
