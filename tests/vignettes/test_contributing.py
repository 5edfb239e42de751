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
from dpmodels import audit, registry
from dpmodels.audit import cases, cases_propose

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAME = "dpmodels.models.mean.laplace"


def block(file):
    found = re.search(rf"```python\n# file: {re.escape(file)}\n(.*?)```", PAGE, re.DOTALL)
    assert found, file
    return found.group(1)


@pytest.fixture
def added(monkeypatch):
    """Put the example where the page says, for the time of a test."""
    dp.methods(), audit.uncovered()  # both registries are full before they are copied
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(cases, "_CASES", {k: list(v) for k, v in cases._CASES.items()})
    module = types.ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, module)
    monkeypatch.setattr("dpmodels.models.mean.laplace", module, raising=False)
    exec(block("dpmodels/models/mean/laplace.py"), vars(module))
    room = {"Method": registry.Method, "register_method": registry.register_method}
    exec(block("dpmodels/models/mean/methods.py"), room)
    assert audit.uncovered() == [("dp_mean", "laplace")], "a method without a case is found"
    exec(block("dpmodels/audit/cases_propose.py"), dict(vars(cases_propose)))
    return module


def test_the_method_of_the_page_is_a_method(added):
    shown = str(dp.methods())
    assert "Mean of clipped values, pure DP" in shown and audit.uncovered() == []
    data = pd.DataFrame({"a": np.linspace(0.0, 1.0, 1001)})
    call = {"eps": 1, "delta": 0, "method": "laplace"}
    with pytest.warns(dp.errors.NotPrivateWarning):
        fit = dp.dp_mean("a ~ 1", data, bounds={"a": (0, 2)}, seed=1, **call)
    sd = 2**0.5 * 2.0 / 1001  # half-range 1, scale 2/eps
    assert fit.bse_privacy["a"] == pytest.approx(sd) and fit.privacy.eps == 1
    assert abs(fit.params["a"] - 0.5) < 8 * sd  # P(|Laplace| > 8 sd) = e^(-8 sqrt 2) = 1.2e-5
    with pytest.raises(dp.errors.RequestError, match="buys no ranges"):
        dp.dp_mean("a ~ 1", data, **call)


@pytest.mark.slow
def test_the_audit_of_the_page_passes_and_flags_half_the_noise(added, monkeypatch):
    """False alarm at most 1 % (the report says so); seed fixed."""
    assert audit.audit("laplace").passed
    right = added.sensitivity
    monkeypatch.setattr(added, "sensitivity", lambda d: right(d) / 2.0)
    report = audit.audit("laplace")
    assert [f.check for f in report.findings if not f.passed] == ["whole private stage"]


def test_the_files_that_the_page_names_exist():
    for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md))`", PAGE):
        if path != "models/mean/laplace.py":
            assert (ROOT / "dpmodels" / path).is_file() or (ROOT / path).is_file(), path
