"""The worked example of CONTRIBUTING.md, taken off its page and run."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import audit, registry, verbs
from dpmodels.audit import kit as cases
from dpmodels.models import mean as mean_methods
from dpmodels.proof.sets import Box
from dpmodels.proof.statistics import Sum
from tests.privacy.cases import propose, uncovered

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAME = "dpmodels.models.laplace"


def block(file):
    found = re.search(rf"```python\n# file: {re.escape(file)}\n(.*?)```", PAGE, re.DOTALL)
    assert found, file
    return found.group(1)


@pytest.fixture
def registries(monkeypatch):
    """Let a test add methods, verbs and cases for its own time."""
    dp.methods(), uncovered()  # the registries are full before they are copied
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(verbs, "_VERBS", dict(verbs._VERBS))
    monkeypatch.setattr(cases, "_CASES", {k: list(v) for k, v in cases._CASES.items()})


@pytest.fixture
def added(monkeypatch, registries):
    """Put the example of a method where the page says, for the time of a test."""
    module = types.ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, module)
    exec(block("dpmodels/models/laplace.py"), vars(module))
    return module


def test_the_method_of_the_page_is_a_method(added):
    shown = str(dp.methods())
    assert "Mean of clipped values, pure DP" in shown and uncovered() == []
    data = pd.DataFrame({"a": np.linspace(0.0, 1.0, 1001)})
    call = {"eps": 1, "delta": 0, "method": "laplace"}
    with pytest.warns(dp.errors.NotPrivateWarning):
        fit = dp.dp_mean("a ~ 1", data, bounds={"a": (0, 2)}, seed=1, **call)
    sd = 2**0.5 * 2.0 / 1001  # half-range 1, scale 2/eps
    assert fit.bse_privacy["a"] == pytest.approx(sd) and fit.privacy.eps == 1
    assert abs(fit.params["a"] - 0.5) < 8 * sd  # P(|Laplace| > 8 sd) = e^(-8 sqrt 2) = 1.2e-5
    with pytest.raises(dp.errors.RequestError, match="cannot estimate ranges"):
        dp.dp_mean("a ~ 1", data, **call)


@pytest.fixture
def added_verb(monkeypatch, registries):
    """Put the example of a verb where the page says, for the time of a test."""
    verbs.register_verb(eval(block("dpmodels/verbs.py"), dict(vars(verbs))))
    exec(block("dpmodels/models/mean.py (dp_share)"), dict(vars(mean_methods)))
    assert uncovered() == [("dp_share", "sums")], "a method without a case is found"
    module, name = re.search(r'`"((?:\w+\.)+\w+)": "(dp_share)"`', PAGE).groups()
    module = f"dpmodels.{module}"
    shared = types.ModuleType(module)
    exec(block("dpmodels/api/share.py"), vars(shared))
    monkeypatch.setitem(sys.modules, module, shared)
    monkeypatch.setitem(dp._EXPORTS, name, module)
    exec(block("tests/privacy/cases/propose.py (dp_share)"), dict(vars(propose)))
    yield
    vars(dp).pop(name, None)  # kept when it was first used


def test_the_verb_of_the_page_is_a_verb(added_verb):
    assert uncovered() == [] and "Shares of rows" in str(dp.methods())
    data = pd.DataFrame({"a": np.linspace(0.0, 1.0, 10_001)})
    with pytest.warns(dp.errors.NotPrivateWarning):
        fit = dp.dp_share("{a > 0.25} ~ 1", data, eps=1, delta=1e-6, seed=1)
    assert abs(fit.params.iloc[0] - 0.75) < 8 * fit.bse.iloc[0]  # P(|normal| > 8) < 1e-14
    page = str(fit.summary())
    assert "Differentially private shares" in page and 'Shares of rows (method="sums")' in page
    report = audit.audit("sums", verb="dp_share")
    assert report.passed and report.findings


def test_the_audit_of_the_page_passes_and_flags_half_a_set(added, monkeypatch):
    """Nobody wrote it: the queries that the stage asks. Deterministic."""
    report = audit.audit("laplace")
    assert report.passed
    laws = {finding.check.split(" of ")[0] for finding in report.findings}
    assert laws == {"noise", "sensitivity", "set"}
    monkeypatch.setattr(added, "sums", lambda d: Sum(Box(d, radius=0.5)))
    flagged = [f.check for f in audit.audit("laplace").findings if not f.passed]
    assert flagged and all(check.startswith("set of sums") for check in flagged)


def test_the_files_that_the_page_names_exist():
    for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md))`", PAGE):
        if path not in ("models/laplace.py", "api/share.py"):
            assert (ROOT / "dpmodels" / path).is_file() or (ROOT / path).is_file(), path
