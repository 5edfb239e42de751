"""A saved fit, result or release that was changed is refused, not read as other numbers."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, DPModelsWarning, UtilityWarning


def _fit():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 500)
    frame = pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(size=500), -3, 3)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        return frame, dp.dp_ols(
            "y ~ x", frame, eps=5, delta=1e-6, bounds={"x": (-1, 1), "y": (-3, 3)}, seed=1
        )


def test_no_digit_of_a_saved_fit_can_change_unseen(tmp_path):
    """41 of 600 such files had loaded and printed other numbers."""
    _, fit = _fit()
    text = fit.to_json()
    digits = [m.start() for m in re.finditer(r"\d", text)]
    rng = np.random.default_rng(2)
    same = json.loads(text)
    for place in rng.choice(digits, 300):
        digit = str((int(text[place]) + int(rng.integers(1, 10))) % 10)
        changed = text[:place] + digit + text[place + 1 :]
        path = tmp_path / "fit.json"
        path.write_text(changed, encoding="utf-8")
        try:
            equal = json.loads(changed) == same  # 1.0 and 1.00, or beyond the last bit
        except ValueError:
            equal = False
        if equal:
            continue
        with pytest.raises(DPModelsError):
            dp.load(path)
    path.write_text(text, encoding="utf-8")
    assert dp.load(path).params.equals(fit.params)
    path.write_text(json.dumps(json.loads(text), indent=7), encoding="utf-8")  # layout is free
    assert dp.load(path).params.equals(fit.params)


@pytest.mark.parametrize("held", ["", 0, False, [], "x"])
def test_a_checksum_that_is_none_does_not_hold(tmp_path, held):
    """An empty one passed, and without the note of a file that has none."""
    _, fit = _fit()
    saved = json.loads(fit.to_json()) | {"checksum": held}
    (tmp_path / "fit.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(DPModelsError, match="checksum does not hold"):
        dp.load(tmp_path / "fit.json")


def test_files_without_a_checksum_are_read_with_a_note(tmp_path):
    _, fit = _fit()
    saved = json.loads(fit.to_json())
    del saved["checksum"]
    (tmp_path / "old.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.warns(UtilityWarning, match="no checksum"):
        old = dp.load(tmp_path / "old.json")
    assert old.params.equals(fit.params)


def test_results_and_releases_are_sealed_too(tmp_path):
    frame, fit = _fit()
    fit.wald_test("x").save(tmp_path / "wald.json")
    text = (tmp_path / "wald.json").read_text(encoding="utf-8")
    assert dp.load(tmp_path / "wald.json") is not None
    (tmp_path / "wald.json").write_text(text.replace('"df": 1', '"df": 2').replace("1", "2", 3))
    with pytest.raises(DPModelsError):
        dp.load(tmp_path / "wald.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        rel = dp.dp_release(
            frame, eps=2, delta=1e-6, bounds={"x": (-1, 1), "y": (-3, 3)}, seed=1, accept_no_estimate=True
        )
    rel.save(tmp_path / "rel", table="csv")
    assert np.array_equal(dp.load(tmp_path / "rel.json").values, rel.values)
    facts = json.loads((tmp_path / "rel.json").read_text(encoding="utf-8"))
    facts["lower"] = facts["lower"][:-1]
    del facts["checksum"]
    (tmp_path / "rel.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.warns(UtilityWarning), pytest.raises(DPModelsError, match="damaged"):
        dp.load(tmp_path / "rel.json")
    rel.save(tmp_path / "rel", table="csv")
    cells = (tmp_path / "rel.csv").read_text(encoding="utf-8").split("\n")
    cells[3] = cells[3].replace("1", "2")
    (tmp_path / "rel.csv").write_text("\n".join(cells), encoding="utf-8")
    with pytest.raises(DPModelsError, match="damaged"):
        dp.load(tmp_path / "rel.json")
