"""Control characters in names, levels and formulas are written out wherever they are shown."""

import pickle
import re

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, DPModelsWarning, StudyError, printable
from dpmodels.tables.content import Column, Row
from dpmodels.tables.table import Table

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.UtilityWarning")

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NAME = "a\x1b[2J\x9b31m\r\u202eb"
PAY = {"eps": 5, "delta": 1e-6}
SCHEMA = {"y": dp.Real(0, 1), NAME: dp.Real(0, 1), "g": dp.Levels(["p", "q\x1b[8m"])}


def _data():
    rng = np.random.default_rng(0)
    g = np.array(["p", "q\x1b[8m"])[rng.integers(0, 2, 1000)]
    return {"y": rng.uniform(0, 1, 1000), NAME: rng.uniform(0, 1, 1000), "g": g}


def test_what_a_fit_shows(tmp_path):
    budget = dp.Budget.open(tmp_path / "ledger", eps=100, delta=1e-3)
    formula = f"y ~ `{NAME}` + g"
    fit = dp.dp_ols(formula, _data(), schema=SCHEMA, budget=budget, **PAY)
    fit.save(tmp_path / "fit")
    assert "\x1b" not in (tmp_path / "fit").read_text()
    plan = dp.plan(formula, SCHEMA, n=1000, **PAY)
    table = dp.dp_table("y ~ g", _data(), schema=SCHEMA, **PAY)
    shown = [
        repr(fit), str(fit.summary()), str(fit.summary("md")), str(fit.summary("html")),
        str(fit.summary("tex")), str(fit.ledger), str(plan), repr(plan), str(table.summary()),
        str(dp.etable(fit)), str(dp.describe(formula, dp.Schema(**SCHEMA))),
        str(budget.report()), repr(budget),
    ]  # fmt: skip
    for text in shown:
        assert not CONTROLS.search(text), repr(text[:2000])
    assert "a\\x1b[2J" in str(fit.summary())
    assert NAME in fit.params.index or any(NAME in name for name in fit.params.index)


@pytest.mark.parametrize("call", [
    lambda: dp.dp_ols("y ~ `\x1b[31mx`", _data(), schema=SCHEMA, **PAY),
    lambda: dp.dp_ols("y ~ log(\x1b[31m", _data(), schema=SCHEMA, **PAY),
    lambda: dp.dp_ols(f"y ~ log(`{NAME}`)", _data(), schema=SCHEMA, **PAY),
    lambda: dp.dp_ols("y ~ C(g, levels=['\x1b'])", _data(), schema=SCHEMA, **PAY),
    lambda: dp.dp_ols("y ~ g", _data(), schema=SCHEMA, unit="\x1b[31m", **PAY),
    lambda: dp.dp_ols("y ~ g", _data(), schema=SCHEMA, subset="\x9bg", **PAY),
    lambda: dp.dp_ols("y ~ g", "a\x1b[31m.csv", schema=SCHEMA, **PAY),
    lambda: dp.dp_ols("y ~ g", {**_data(), "z": 1.0}, schema=SCHEMA, method="\x1b[31m", **PAY),
])  # fmt: skip
def test_messages(call):
    with pytest.raises(DPModelsError) as said:
        call()
    assert not CONTROLS.search(str(said.value))


def test_errors_and_warnings_write_them_out():
    for kind in (DPModelsError, DPModelsWarning):
        assert str(kind("a\x1bb")) == "a\\x1bb"
        assert str(pickle.loads(pickle.dumps(kind("a\x1bb")))) == "a\\x1bb"
    assert StudyError(["a\x1bb"]).problems == ["a\\x1bb"]


def test_usual_text_stays():
    text = "ε² “µg”\u00a0naïve 数据\n\tx"
    assert printable(text) == text


def test_a_row_has_one_line():
    table = Table(columns=(Column(), Column("n")), rows=(Row(("x\nPrivacy: none", "1")),))
    assert "x\\nPrivacy: none" in str(table)
